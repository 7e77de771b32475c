"""What the notebook ran on: the interpreter, the platform, and every installed distribution with its version.

The lock is read from the names of the metadata folders, without opening one: `numpy-2.4.6.dist-info` says all, and a
thousand of them take a few milliseconds where parsing them takes seconds. It is read again only when one of the folders
that Python imports from has changed, as it does with every `%pip install`; so equal environments are one object.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from agent_kernel.repository import encode

__all__ = [
    "Environment",
    "EnvironmentWatch",
    "decode_environment",
    "find_version",
    "import_folders",
    "list_distributions",
]

# The name stops at the first dash: in these file names a dash inside a name is written as an underscore.
_METADATA: Final = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py[\d.]+(?:-.+)?)?\.(?:dist|egg)-info")
_SEPARATORS: Final = re.compile(r"[-_.]+")


class Environment(msgspec.Struct, frozen=True, omit_defaults=True):
    """Names and versions; nothing that says whose machine it is."""

    python: str = ""
    implementation: str = ""
    platform: str = ""
    packages: tuple[str, ...] = ()  # name==version, sorted; names as the package index writes them


_DECODER = msgspec.msgpack.Decoder(Environment)


def decode_environment(payload: bytes) -> Environment:
    """What a commit's environment says, of any release."""
    return _DECODER.decode(payload)


class EnvironmentWatch:
    """The environment now, worked out anew only where something was installed or removed."""

    def __init__(self) -> None:
        self._path: list[str] = []
        self._folders: list[str] = []
        self._changed: list[int] = []
        self._payload = b""

    def payload(self) -> bytes:
        """The encoded environment."""
        if self._path != sys.path:
            self._path = list(sys.path)
            self._folders, self._changed = _folders(self._path), []
        changed = list(map(_change_time_ns, self._folders))
        if changed != self._changed or not self._payload:
            self._changed = changed
            self._payload = encode(_environment(self._folders))
        return self._payload


def _environment(folders: list[str]) -> Environment:
    return Environment(
        python=platform.python_version(),
        implementation=sys.implementation.name,
        platform=f"{sys.platform}-{platform.machine()}",
        packages=tuple(list_distributions(folders)),
    )


def _folders(path: list[str]) -> list[str]:
    """Where Python imports from, less its own library and the working directory, which nothing is installed into."""
    library = os.path.dirname(os.__file__)  # noqa: PTH120 - to compare with sys.path as it is spelled there
    archive = "{}{}python{}{}.zip".format(library.rpartition(os.sep)[0], os.sep, *sys.version_info[:2])
    own = {library, f"{library}{os.sep}lib-dynload", archive, "", os.curdir}
    folders = [entry for entry in dict.fromkeys(path) if type(entry) is str and entry not in own]
    try:
        working_folder = str(Path.cwd())
    except OSError:  # the directory was removed
        working_folder = ""
    return [folder for folder in folders if folder != working_folder]


def import_folders(path: Sequence[str]) -> tuple[str, ...]:
    """Folders of Python's path that are neither its own nor those of installed packages, as a project's own are."""
    own = (os.path.dirname(os.__file__), sys.prefix, sys.base_prefix)  # noqa: PTH120 - as in sys.path
    found: dict[str, None] = {}
    for entry in path:
        if type(entry) is not str or "site-packages" in entry or "dist-packages" in entry:
            continue
        try:
            # Not Path.resolve, which follows links: sys.path does not. The bytes of a name may be no text.
            folder = os.path.abspath(entry).encode(errors="backslashreplace").decode()  # noqa: PTH100
        except OSError:  # the working directory was removed
            continue
        if not any(folder == root or folder.startswith(f"{root}{os.sep}lib") for root in own) and "\0" not in folder:
            found[folder] = None
    return tuple(found)


def _change_time_ns(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - half the time of Path.stat, and every commit waits for it
    except (OSError, ValueError):
        return 0


def list_distributions(folders: list[str]) -> list[str]:
    """List the distributions in these folders as `name==version`; of one that is in several, the one that is imported."""
    found: dict[str, str] = {}
    for folder in reversed(folders):
        found.update(_distributions(folder, _change_time_ns(folder)))
    return [f"{name}=={version}" for name, version in sorted(found.items())]


def find_version(package: str) -> str:
    """Find the version of the distribution that has a package's name; nothing if no distribution has it."""
    name = _SEPARATORS.sub("-", package).lower()
    found = (_distributions(folder, _change_time_ns(folder)).get(name) for folder in _folders(sys.path))
    return next(filter(None, found), "")


@lru_cache(maxsize=64)
def _distributions(folder: str, _changed: int) -> dict[str, str]:
    """Versions by the names of the distributions in a folder, read once until it changes."""
    found: dict[str, str] = {}
    for name in _entries(folder):
        metadata = _METADATA.fullmatch(name) if name.endswith("-info") else None
        if metadata is not None:
            found.setdefault(_SEPARATORS.sub("-", metadata["name"]).lower(), metadata["version"])
    return found


def _entries(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208 - names are all that is needed of some thousand entries
    except (OSError, ValueError):  # not there, not readable, or a zip file
        return []
