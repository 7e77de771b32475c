"""Where a notebook's store lies, which store someone means, and which one belongs to a notebook without a store.

Beside the notebook, in a hidden folder of its own, so that both travel together; a terminal has no notebook, so its
store lies under the user's data directory, one for each working directory. A program that runs a notebook (nbconvert,
papermill) does not name it: that kernel has a store of its own there, so that two notebooks never share one. Where the
person bound another store, a small file in that folder says so to the sessions that follow.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, cast

from agent_kernel.errors import AgentKernelError, NewerFormatError, NotAStoreError, StoreUnavailableError
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.repository.refs import BRANCHES, EPOCH, FORMAT, GARBAGE, HEADS, LEASES, ROSTER
from agent_kernel.session import Repository
from agent_kernel.storage import open_store

if TYPE_CHECKING:
    from agent_kernel.session import Session
    from agent_kernel.storage import Store

HIDDEN = ".agent-kernel"
REDIRECT = "bound.json"
BUNDLE = ".agentnb"
_NOTE_VERSION = 1
_NOTE_BYTES = 64 << 10  # a longer one is none
_VSCODE = "__vsc_ipynb_file__"  # the variable in which VS Code tells a kernel its notebook's path


def notebook_of(environment: Mapping[str, str], namespace: Mapping[str, object]) -> Path | None:
    """The notebook that this kernel runs, as far as its front end said.

    Jupyter sets `JPY_SESSION_NAME` when the kernel starts (consoles too, with a name that does not belong to a notebook).
    """
    for named in (namespace.get(_VSCODE), environment.get("JPY_SESSION_NAME")):
        if isinstance(named, str) and named.endswith(".ipynb"):
            return Path(named).absolute()
    return None


def store_path_of(notebook: Path) -> Path:
    """The notebook's own place: `.agent-kernel/<stem>` in its folder."""
    return notebook.parent / HIDDEN / notebook.stem


def default_store(notebook: Path | None, folder: Path, kernel: str = "") -> Path:
    """Where the store goes unless someone chose another place.

    Args:
        folder: the working directory.
        kernel: of a kernel that no person types in, its id.
    """
    if notebook is not None:
        return store_path_of(notebook)
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
    temporary = note.with_suffix(".tmp")
    temporary.write_text(json.dumps({"version": _NOTE_VERSION, "store": written}) + "\n", encoding="utf-8")
    temporary.replace(note)
    return True


def find_redirect(own: Path) -> Path | None:
    """Find the store that was bound instead of the one at `own`, if any; it may be gone by now.

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
    fields = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    version, store = fields.get("version"), fields.get("store")
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


def what_is_new(store: str) -> str:
    """What opening this place would make: a store, and maybe folders; "" where there is one."""
    if "://" in store.removeprefix("lmdb://") or store.startswith("memory:"):
        return ""
    path = Path(store.removeprefix("lmdb://"))
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
    if path.suffix == BUNDLE and path.is_file():
        return f"bundle://{path.absolute().as_posix()}"
    if path.suffix == ".ipynb":
        own = store_path_of(path.absolute())
        path = find_redirect(own) or own
    elif path.is_dir() and not is_store(path):
        stores = stores_in(path)
        if len(stores) > 1:
            names = ", ".join(found.name for found in stores[:5])
            raise NotAStoreError(text, f"it is a folder with {len(stores)} stores ({names}); name one of the notebooks")
        path = stores[0] if stores else path
    if not create and not is_store(path):
        raise NotAStoreError(text, _describe_other_file(Path(text).expanduser(), path))
    return str(path)


def _describe_other_file(named: Path, path: Path) -> str:
    """Instead of a store."""
    if not named.exists():
        return "there is nothing there"
    if named.suffix == ".ipynb":
        lies = f"{HIDDEN}/{named.stem}"
        return f"this notebook has no history here. If it is a copy, copy {lies} too, from the folder of the first one"
    return "it is a folder without a store" if path.is_dir() else "it holds something else"


# -- what a notebook without a store finds beside it: its own store under an old name, or that of its original
#
# Jupyter gives every cell an id that survives renaming and copying. A store whose history shares half of the notebook's
# ids belongs to it: it moves along if its notebook is gone, and is offered as a start if its notebook is still there.
# Where one of the two sides knows no such ids nothing can be told by them: a single store that lost its notebook is
# offered then.

_STORES = 20  # looked into, those used last first
_COMMITS = 5_000  # of each
_NOT_IN_FILES = "vscode:"  # VS Code has ids of its own for the cells of a kernel


def adopt(notebook: Path) -> tuple[str, ...]:
    """Take over an orphaned store that is this notebook's, and return what to say; nothing where there is no doubt."""
    own = store_path_of(notebook)
    if is_store(own):
        return ()
    ids = cell_ids(notebook)
    unknown: list[Path] = []  # orphans of which the ids cannot tell whose they are
    for found in sorted(stores_in(notebook.parent), key=_last_use_ns, reverse=True)[:_STORES]:
        theirs = _ids_in(found) if ids else frozenset[str]()
        original = notebook.with_name(f"{found.name}.ipynb")
        if not theirs and not original.exists():
            unknown.append(found)
        if not theirs or 2 * len(ids & theirs) < len(ids):
            continue
        if original.exists():
            return (
                f"this looks like a copy of {original.name}: %agent bind --from {original.name} starts from its history",
            )
        if not _is_used(found):
            found.rename(own)
            return (f"took over the history of {original.name}, which has been renamed",)
    return _offer(unknown[0]) if len(unknown) == 1 else ()


def _offer(store: Path) -> tuple[str, ...]:
    """A line about the one store here that lost its notebook, unless somebody works in it."""
    try:
        if _is_used(store):
            return ()
    except AgentKernelError:
        return ()
    path = store.relative_to(Path.cwd()) if store.is_relative_to(Path.cwd()) else store
    bind = f"%agent bind {shlex.quote(str(path))}"
    return (f"if this notebook was called {store.name}.ipynb before: {bind} goes on with its history",)


def cell_ids(notebook: Path) -> frozenset[str]:
    """The ids of a notebook's cells; none where the file is not there or not a notebook."""
    try:
        content: object = json.loads(notebook.read_bytes())
    except (OSError, ValueError):
        return frozenset()
    cells = cast("dict[str, object]", content).get("cells") if isinstance(content, dict) else None
    if not isinstance(cells, list):
        return frozenset()
    each = [cast("dict[str, object]", cell).get("id") for cell in cast("list[object]", cells) if isinstance(cell, dict)]
    return frozenset(id for id in each if isinstance(id, str) and id)


def _last_use_ns(store: Path) -> int:
    return (store / "data.mdb").stat().st_mtime_ns


def _ids_in(store: Path) -> frozenset[str]:
    """The ids that files of notebooks could hold too."""
    try:
        with closing(Repository.open(store, create=False)) as repo:
            history = repo.log(list(repo.branches().values()))
            ids = (commit.cell.id for _, commit in islice(history, _COMMITS) if commit.cell)
            return frozenset(id for id in ids if id and not id.startswith(_NOT_IN_FILES))
    except AgentKernelError:
        return frozenset()


def _is_used(store: Path) -> bool:
    from agent_kernel.commands import describe  # with what results are made of: a notebook that has a store needs none

    with closing(Repository.open(store, create=False)) as repo:
        return bool(describe.find_living_holders(repo))


# -- A new store that starts as a copy of another: `bind --from`
#
# Keys and bytes are copied as they are, so every commit keeps its id. The mark by which this user's stores are told from
# other people's travels with them: a copy is trusted exactly where its source is.

_BATCH = 64
_OBJECTS = b"bcdlmost"  # the kinds of immutable objects
_OWN = frozenset({EPOCH, FORMAT, GARBAGE, ROSTER})  # what a store knows of itself


def copy_store(source: str, target: Store, session: Session | None = None) -> None:
    """Fill an empty store with everything that another holds; leases and sessions stay behind.

    Args:
        session: the session that works in the target. Where nobody else did, what it has committed so far (a notebook's
            first cell, say, before anybody could answer the offer to start from the original) steps aside.

    Raises:
        NotAStoreError: there is no store at the source. NewerFormatError: a newer release made it.
        StoreUnavailableError: the target has a history already.
    """
    with closing(open_store(source, create=False, readonly=True)) as origin:
        if origin.url.startswith(
            "bundle:"
        ):  # this would not verify it, and a bundle has no mark that it could travel with
            raise NotAStoreError(
                source, "it is a bundle: agent-kernel open makes a store of it, %agent import brings it here"
            )
        BareRepository.open(origin, create=False)  # what cannot be read here must not take the place of what can
        if target.keys(BRANCHES, limit=1) and not (session is not None and _rename_branches(session, origin)):
            why = "it has a history of its own; %agent bind PLACE --from … makes another"
            raise StoreUnavailableError(target.url, why)
        BareRepository.open(target)  # first of all, so that a copy that is cut off can be made again
        for keys in _pages(origin):
            found = origin.get_many(keys)
            if keys[0][:1] in _OBJECTS:
                target.put_many(found)
            else:
                before = target.get_many(keys)
                target.swap({key: before.get(key) for key in found}, found)


def _rename_branches(session: Session, origin: Store) -> bool:
    """Give branches that only this session wrote names that the other store does not have."""
    repo = session.repo
    own = repo.branches()
    if any(commit.session != session.id for _, commit in repo.log(list(own.values()))):
        return False
    for name in own:
        number = 2
        while f"{name}-{number}" in own or origin.get_many([BRANCHES + f"{name}-{number}".encode()]):
            number += 1
        if name == session.branch:
            session.rename_branch(f"{name}-{number}")
        else:
            repo.rename_branch(name, f"{name}-{number}")
    return True


def _pages(origin: Store) -> Iterator[list[bytes]]:
    """All keys worth copying, objects first, so that no ref ever names what is not there yet."""
    for prefix in [bytes([kind]) for kind in _OBJECTS] + [b"e/", b"w/", b"x/", b"g/", b"h/", b"r/"]:
        after = b""
        while keys := origin.keys(prefix, after, _BATCH):
            wanted = [key for key in keys if _travels(key)]
            if wanted:
                yield wanted
            after = keys[-1]


def _travels(key: bytes) -> bool:
    if key.startswith(HEADS):
        return key == HEADS  # where the store was used last; sessions belong to the original
    return key not in _OWN and not key.startswith(LEASES)
