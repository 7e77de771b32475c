"""The packages of a bundle: their lock, made by `export --lock`, and a virtual environment of them, made by `open --env`.

The list comes from whoever made the bundle. So nothing of it reaches pip but names with exact versions: no addresses, no options,
no folders; where there is a lock, with the SHA-256 of their files. Wheels run no code while they are installed; source packages do, and are taken only from a maker who is trusted.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.bundle.members import LOCK, REQUIREMENTS
from agent_kernel.errors import StoreUnavailableError

if TYPE_CHECKING:
    from agent_kernel.bundle.opening import OpenBundle

__all__ = ["LOCK", "MadeEnvironment", "environment_path_of", "make_environment", "make_lock", "read_pins"]

_PIN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9!][A-Za-z0-9._!+-]*")
_SHA256: Final = re.compile("[0-9a-f]{64}")
_MOST: Final = 1 << 20  # bytes of a list
_MOST_LOCK: Final = 16 << 20
_PATIENCE_S: Final = 120.0
_STDERR: Final = 2  # what is piped is the answer alone


class MadeEnvironment(msgspec.Struct, frozen=True):
    """A virtual environment, and how its making ended."""

    folder: Path
    python: Path
    pins: tuple[str, ...]
    status: int  # of pip; 0: it has all packages

    def has(self, package: str) -> bool:
        return self.status == 0 and any(pin.partition("==")[0] == package for pin in self.pins)


def environment_path_of(notebook: Path) -> Path:
    """Where the environment of a notebook goes: `study-env` beside `study.ipynb`."""
    return notebook.with_name(f"{notebook.stem}-env")


def make_lock(pins: Sequence[str], python: str) -> tuple[bytes, str]:
    """Have uv, or else pip, look up these packages on the index that it is set up for.

    Args:
        python: the version that they are for.

    Returns:
        The lock, a `pylock.toml` of PEP 751, or empty bytes and why it could not be made.
    """
    with tempfile.TemporaryDirectory(prefix="agent-kernel-") as folder:
        listed, made = Path(folder, REQUIREMENTS), Path(folder, LOCK)
        listed.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        if uv := shutil.which("uv"):
            words = [uv, "pip", "compile", "--quiet", "--no-header", "--format", LOCK, "--python-version", python]
            words += ["--output-file", str(made), str(listed)]
        else:
            words = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "lock"]
            words += ["--requirement", str(listed), "--output", str(made)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, cwd=folder)
        except subprocess.TimeoutExpired:
            return b"", f"{Path(words[0]).name} took longer than {_PATIENCE_S:.0f} s"
        if done.returncode or not made.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            return b"", (lines[-1] if lines else f"it ended with status {done.returncode}")
        return made.read_bytes(), ""


def read_pins(bundle: OpenBundle) -> tuple[str, ...]:
    """Read which packages a bundle names, each as `name==version`, and from a lock with the digests of its files.

    Raises:
        BundleError: it names none, or something else than exact versions.
    """
    archive = bundle.store.archive
    if LOCK in archive.members:
        return _read_lock(bundle)
    text = bundle.store.read(REQUIREMENTS, _MOST).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines()]
    pins = [line for line in lines if line and not line.startswith("#")]
    for pin in pins:
        if _PIN.fullmatch(pin) is None:
            raise archive.refuse(
                f"its {REQUIREMENTS} has a line that must be a package with an exact version, and is not: {pin[:80]!r}"
            )
    if not pins:
        raise archive.refuse("it lists no packages: open it without --env")
    return tuple(pins)


def _read_lock(bundle: OpenBundle) -> tuple[str, ...]:
    refuse = bundle.store.archive.refuse
    try:
        found = msgspec.convert(tomllib.loads(bundle.store.read(LOCK, _MOST_LOCK).decode()), _Lock)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise refuse(f"its {LOCK} cannot be read ({error})") from error
    lines: list[str] = []
    for package in found.packages:
        pin = f"{package.name}=={package.version}"
        files = [*package.wheels, *([] if package.sdist is None else [package.sdist])]
        digests = sorted({file.hashes.get("sha256", "") for file in files})
        if _PIN.fullmatch(pin) is None or not digests or any(_SHA256.fullmatch(one) is None for one in digests):
            raise refuse(f"its {LOCK} has a package without an exact version or a digest: {pin[:80]!r}")
        lines.append(" ".join([pin, *(f"--hash=sha256:{one}" for one in digests)]))
    if not lines:
        raise refuse(f"its {LOCK} lists no packages: open it without --env")
    return tuple(lines)


class _File(msgspec.Struct):
    hashes: dict[str, str] = {}


class _Package(msgspec.Struct):
    name: str
    version: str
    wheels: list[_File] = []
    sdist: _File | None = None


class _Lock(msgspec.Struct):
    packages: list[_Package] = []


def make_environment(folder: Path, pins: tuple[str, ...], *, trusts: bool) -> MadeEnvironment:
    """Make a virtual environment of this interpreter and install the packages. What pip says goes to standard error.

    Args:
        trusts: whether packages may be built from source, which runs their code.

    Raises:
        StoreUnavailableError: no environment can be made there.
    """
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], stdout=_STDERR, check=False)
    if made.returncode:
        raise StoreUnavailableError(str(folder), f"python -m venv ended with status {made.returncode}")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    listed = folder / REQUIREMENTS
    listed.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    words = [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "--requirement",
        str(listed),
        *(["--require-hashes"] if any(" --hash=" in pin for pin in pins) else []),
    ]
    # Isolated: neither PYTHONPATH nor the folder in which the command runs may give pip other code.
    done = subprocess.run(
        [str(python), "-I", *words, *([] if trusts else ["--only-binary", ":all:"])], stdout=_STDERR, check=False
    )
    return MadeEnvironment(folder, python, pins, done.returncode)
