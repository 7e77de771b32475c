"""Where a notebook's store lies, and which store someone means.

Beside the notebook, in a hidden folder of its own, so that both travel together; a terminal has no notebook, so its
store lies under the user's data directory, one for each working directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from agent_kernel.errors import NotAStoreError

__all__ = ["default_place", "find_store", "is_store", "notebook_of", "store_beside", "stores_in", "what_is_new"]

HIDDEN = ".agent-kernel"
_VSCODE = "__vsc_ipynb_file__"  # the variable in which VS Code tells a kernel its notebook's path


def notebook_of(environment: Mapping[str, str], namespace: Mapping[str, object]) -> Path | None:
    """The notebook that this kernel runs, as far as its front end said.

    Jupyter sets `JPY_SESSION_NAME` when the kernel starts (consoles too, with a name that is no notebook's).
    """
    for told in (namespace.get(_VSCODE), environment.get("JPY_SESSION_NAME")):
        if isinstance(told, str) and told.endswith(".ipynb"):
            return Path(told).absolute()
    return None


def store_beside(notebook: Path) -> Path:
    """The notebook's own place: `.agent-kernel/<stem>` in its folder."""
    return notebook.parent / HIDDEN / notebook.stem


def default_place(notebook: Path | None, folder: Path) -> Path:
    """Where the store goes unless someone chose another place. `folder`: the working directory of a terminal."""
    if notebook is not None:
        return store_beside(notebook)
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:8]
    return _user_data() / "agent-kernel" / "terminals" / f"{folder.name or 'root'}-{digest}"


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
        NotAStoreError: there is none, or more than one to choose from.
    """
    if "\0" in text:
        raise NotAStoreError(repr(text), "no path holds a NUL character")
    if "://" in text or text.startswith("memory:"):
        return text
    path = Path(text).expanduser()
    if path.suffix == ".ipynb":
        path = store_beside(path.absolute())
    elif path.is_dir() and not is_store(path):
        beside = stores_in(path)
        if len(beside) > 1:
            names = ", ".join(found.name for found in beside[:5])
            raise NotAStoreError(text, f"it is a folder with {len(beside)} stores ({names}); name one of the notebooks")
        path = beside[0] if beside else path
    if not create and not is_store(path):
        raise NotAStoreError(text, "there is nothing there" if not path.exists() else "it holds something else")
    return str(path)
