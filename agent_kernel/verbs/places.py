"""Where a notebook's store lies, and which store someone means.

Beside the notebook, in a hidden folder of its own, so that both travel together; a terminal has no notebook, so its
store lies under the user's data directory, one for each working directory. A program that runs a notebook (nbconvert,
papermill) does not name it: that kernel has a store of its own there, so that two notebooks never share one. Where the
person bound another store, a small file in that folder says so to the sessions that follow.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from agent_kernel.errors import NewerFormatError, NotAStoreError

__all__ = [
    "bound_elsewhere",
    "default_place",
    "find_store",
    "is_store",
    "notebook_of",
    "remember",
    "store_beside",
    "stores_in",
    "what_is_new",
]

HIDDEN = ".agent-kernel"
REDIRECT = "bound.json"
_NOTE_VERSION = 1
_NOTE_BYTES = 64 << 10  # a longer one is none
_VSCODE = "__vsc_ipynb_file__"  # the variable in which VS Code tells a kernel its notebook's path


def notebook_of(environment: Mapping[str, str], namespace: Mapping[str, object]) -> Path | None:
    """The notebook that this kernel runs, as far as its front end said.

    Jupyter sets `JPY_SESSION_NAME` when the kernel starts (consoles too, with a name that does not belong to a notebook).
    """
    for told in (namespace.get(_VSCODE), environment.get("JPY_SESSION_NAME")):
        if isinstance(told, str) and told.endswith(".ipynb"):
            return Path(told).absolute()
    return None


def store_beside(notebook: Path) -> Path:
    """The notebook's own place: `.agent-kernel/<stem>` in its folder."""
    return notebook.parent / HIDDEN / notebook.stem


def default_place(notebook: Path | None, folder: Path, kernel: str = "") -> Path:
    """Where the store goes unless someone chose another place.

    Args:
        folder: the working directory.
        kernel: of a kernel that no person types in, its id.
    """
    if notebook is not None:
        return store_beside(notebook)
    name = folder.name.encode(errors="replace").decode() or "root"  # no store's path has bytes that are not text
    if kernel:
        return _user_data() / "agent-kernel" / "kernels" / f"{name}-{kernel}"
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    return _user_data() / "agent-kernel" / "terminals" / f"{name}-{digest}"


def remember(own: Path, store: str) -> bool:
    """Let later sessions whose own place is `own` find the store that was bound instead, and return whether they will.

    One beside the notebook is noted relative to it, so that both may be moved together. The own place needs no note.
    """
    note = own / REDIRECT
    path = _path_of(store)
    if path is None:  # in memory: it ends with this process
        return False
    if path == own.resolve():
        note.unlink(missing_ok=True)
        return True
    base = _base_of(own).resolve()
    written = str(path.relative_to(base)) if own.parent.name == HIDDEN and path.is_relative_to(base) else str(path)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not is_store(own):
        (own / ".gitignore").write_text("*\n", encoding="utf-8")
    aside = note.with_suffix(".tmp")
    aside.write_text(json.dumps({"version": _NOTE_VERSION, "store": written}) + "\n", encoding="utf-8")
    aside.replace(note)
    return True


def bound_elsewhere(own: Path) -> Path | None:
    """The store that was bound instead of the one at `own`, if any; it may be gone by now.

    Raises:
        NewerFormatError: a newer release made the note.
        NotAStoreError: the note cannot be read.
    """
    note = own / REDIRECT
    try:
        found: object = json.loads(_note_in(note))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise NotAStoreError(str(note), f"it should say where the store lies, and cannot be read ({error})") from error
    said = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    version, store = said.get("version"), said.get("store")
    if isinstance(version, int) and version > _NOTE_VERSION:
        raise NewerFormatError(str(note), version, _NOTE_VERSION)
    if not isinstance(store, str) or not store or "\0" in store:
        raise NotAStoreError(str(note), "it should say where the store lies, and does not")
    return _base_of(own) / store


def _note_in(note: Path) -> bytes:
    """What it says. It may have come with a folder from elsewhere, as a link to something that never ends."""
    if not stat.S_ISREG(note.stat().st_mode):
        raise OSError("it is not a regular file")
    with note.open("rb") as file:
        return file.read(_NOTE_BYTES)


def _base_of(own: Path) -> Path:
    """The notebook's folder."""
    return own.parent.parent


def _path_of(store: str) -> Path | None:
    scheme, colon, rest = store.partition("://")
    if colon:
        return Path(rest).resolve() if scheme == "lmdb" else None
    return None if store.startswith("memory:") else Path(store).expanduser().resolve()


def _user_data() -> Path:
    from platformdirs import user_data_path

    return user_data_path()


def is_store(folder: Path) -> bool:
    return (folder / "data.mdb").is_file()


def stores_in(folder: Path) -> list[Path]:
    """The stores of the notebooks in a folder, in the order of their names."""
    hidden = folder / HIDDEN
    return sorted(found for found in hidden.iterdir() if is_store(found)) if hidden.is_dir() else []


def what_is_new(place: str) -> str:
    """What opening this place would make: a store, and maybe folders; "" where there is one."""
    if "://" in place.removeprefix("lmdb://") or place.startswith("memory:"):
        return ""
    path = Path(place.removeprefix("lmdb://"))
    if is_store(path):
        return ""
    parent = path.absolute().parent
    return "this is a new store" if parent.is_dir() else f"this is a new store, in the new folder {parent}"


def find_store(text: str, *, create: bool = False) -> str:
    """What to open when someone names a store, a notebook or a notebook's folder.

    Raises:
        NotAStoreError: no store, or more than one, is there.
    """
    if "\0" in text:
        raise NotAStoreError(repr(text), "no path holds a NUL character")
    if "://" in text or text.startswith("memory:"):
        return text
    path = Path(text).expanduser()
    if path.suffix == ".ipynb":
        own = store_beside(path.absolute())
        path = bound_elsewhere(own) or own
    elif path.is_dir() and not is_store(path):
        beside = stores_in(path)
        if len(beside) > 1:
            names = ", ".join(found.name for found in beside[:5])
            raise NotAStoreError(text, f"it is a folder with {len(beside)} stores ({names}); name one of the notebooks")
        path = beside[0] if beside else path
    if not create and not is_store(path):
        raise NotAStoreError(text, _what_is_there(Path(text).expanduser(), path))
    return str(path)


def _what_is_there(named: Path, place: Path) -> str:
    """Instead of a store."""
    if not named.exists():
        return "there is nothing there"
    if named.suffix == ".ipynb":
        lies = f"{HIDDEN}/{named.stem}"
        return (
            f"it is a notebook that has no history here yet; where it came from, that is {lies} beside it: copy it too"
        )
    return "it is a folder without a store" if place.is_dir() else "it holds something else"
