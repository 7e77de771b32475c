"""A virtual environment with the packages that a bundle names: `agent-kernel open --env`.

The list comes from whoever made the bundle. So nothing of it reaches pip but names with exact versions: no addresses, no options,
no folders. Wheels run no code while they are installed; source packages do, and are taken only from a maker who is trusted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.bundle.members import REQUIREMENTS
from agent_kernel.errors import StoreUnavailableError

if TYPE_CHECKING:
    from agent_kernel.bundle.opening import OpenBundle

__all__ = ["MadeEnvironment", "environment_beside", "make_environment", "read_pins"]

_PIN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9!][A-Za-z0-9._!+-]*")
_MOST: Final = 1 << 20  # bytes of a list
_STDERR: Final = 2  # what is piped is the answer alone


class MadeEnvironment(msgspec.Struct, frozen=True):
    """A virtual environment, and how its making ended."""

    folder: Path
    python: Path
    pins: tuple[str, ...]
    status: int  # of pip; 0: it has all packages

    def has(self, package: str) -> bool:
        return self.status == 0 and any(pin.partition("==")[0] == package for pin in self.pins)


def environment_beside(notebook: Path) -> Path:
    """Where the environment of a notebook goes: `study-env` beside `study.ipynb`."""
    return notebook.with_name(f"{notebook.stem}-env")


def read_pins(bundle: OpenBundle) -> tuple[str, ...]:
    """Read which packages a bundle names.

    Raises:
        BundleError: it names none, or something else than exact versions.
    """
    archive = bundle.store.archive
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
    ]
    # Isolated: neither PYTHONPATH nor the folder in which the command runs may give pip other code.
    done = subprocess.run(
        [str(python), "-I", *words, *([] if trusts else ["--only-binary", ":all:"])], stdout=_STDERR, check=False
    )
    return MadeEnvironment(folder, python, pins, done.returncode)
