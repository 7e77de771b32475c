"""What a commit says of where its cell ran: the notebook's cells as they were, and the packages that were installed.

A kernel knows the code that it ran, and not the page that it stands on: not the text between, the order, the cells that
were never run. The file knows, as of the last time that somebody saved it; it is read again only after it changed, and
outputs are skipped, since commits keep their own. A front end that has the page open may tell what stands on it: that
counts until the file is saved after it.

Each of its cells is an object of its own, which all commits share as long as it stays: a commit stores what changed.
"""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.repository import Commit, Document, Kind, ObjectId, encode, load_list, store_list
from agent_kernel.values import previews
from agent_kernel.values.introspection import module_dict
from agent_kernel.values.redacted_values import Reader, RedactedNumbers, RedactedTexts, spellings

if TYPE_CHECKING:
    from agent_kernel.repository import Cell, Objects, Outputs, Writer

_LARGEST: Final = 64 << 20  # bytes of a file, most of them pictures, that may be read after a cell; and of a page


class NotebookCell(msgspec.Struct, frozen=True, array_like=True):
    """One cell of the page. Notebooks of old formats give their cells no ids."""

    id: str
    type: str  # code, markdown or raw
    source: str


class NotebookSnapshot(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page: what it is called, when it was saved, and its cells in order."""

    name: str
    saved_ns: int
    cells: tuple[NotebookCell, ...] = ()
    language: str = ""


class _FileCell(msgspec.Struct):
    cell_type: str
    source: str | list[str] = ""
    id: str = ""


class _Language(msgspec.Struct):
    name: str = ""


class _Metadata(msgspec.Struct):
    language_info: _Language = msgspec.field(default_factory=_Language)


class _File(msgspec.Struct):
    cells: list[_FileCell]
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_SNAPSHOT = msgspec.msgpack.Decoder(NotebookSnapshot)
_CELL = msgspec.msgpack.Decoder(NotebookCell)


def read_notebook(objects: Objects, commit: Commit) -> NotebookSnapshot | None:
    """The page that a commit refers to; None if it refers to none.

    Raises:
        DamagedObjectError: a part of it is missing, or is not what was stored.
    """
    document = commit.document
    if document is None:
        return None if commit.notebook is None else objects.load(Kind.SMALL, commit.notebook, _SNAPSHOT.decode)
    ids = () if document.cells is None else [id for id, _ in load_list(objects, document.cells)]
    cells = tuple(objects.load_many(Kind.CHUNK, ids, _CELL.decode))
    return NotebookSnapshot(document.name, document.saved_ns, cells, document.language)


def store_cell(writer: Writer, cell: NotebookCell) -> tuple[ObjectId, int]:
    """Store one cell of a page; returns its id, and how many bytes it has."""
    payload = encode(cell)
    return writer.add(Kind.CHUNK, payload), len(payload)


def document_of(writer: Writer, like: Document, cells: Sequence[tuple[ObjectId, int]]) -> Document:
    """The same page with these cells, which are stored already."""
    root = store_list(writer, cells) if cells else None
    return Document(like.name, like.saved_ns, like.language, root)


def decode_cell(payload: bytes) -> NotebookCell:
    """A cell of a page that was stored."""
    return _CELL.decode(payload)


def decode_page(payload: bytes) -> NotebookSnapshot:
    """A whole page, as earlier releases stored it."""
    return _SNAPSHOT.decode(payload)


def page_of(name: str, language: str, cells: Iterable[NotebookCell]) -> NotebookSnapshot:
    """The page as a front end tells it now.

    Raises:
        ValueError: it is too large to be kept with every commit.
    """
    page = NotebookSnapshot(name, time.time_ns(), tuple(cells), language)
    if sum(len(cell.source) for cell in page.cells) > _LARGEST:
        raise ValueError(f"the cells of {name} have more than {_LARGEST:,} characters")
    return page


def read_page(path: Path, found: os.stat_result, forgotten: Forgotten | None) -> NotebookSnapshot | None:
    """The page that lies there; None where it is too large, or no notebook that can be read.

    Args:
        forgotten: what no page may say.
    """
    if found.st_size > _LARGEST:
        return None
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError):  # being written just now, or no notebook of ours to understand
        return None
    cells = tuple(
        NotebookCell(cell.id, cell.cell_type, cell.source if isinstance(cell.source, str) else "".join(cell.source))
        for cell in file.cells
    )
    page = NotebookSnapshot(path.name, found.st_mtime_ns, cells, file.metadata.language_info.name)
    return page if forgotten is None else forgotten.of_page(page)


# -- what `forget --sources` masked stays masked: in the code, the outputs and the pages that later commits keep
#
# The notebook still says it, and running a cell again would store it again. The store remembers the names alone, and what
# belongs to them is found anew: in code by the rules that masked it first, in outputs and messages by what these variables
# hold in memory, and by what code gave away before. Digests of the masked texts would find more (a text that stands
# without its name in code), and let anyone who has the store try out short ones.

_MOST: Final = 300_000  # objects of one variable that are looked at


class Forgotten:
    """Masks what code says of some names, and what they hold where it is shown.

    Args:
        namespace: has these variables while they are in memory.
        before: what was masked until now.
    """

    def __init__(
        self, names: Collection[str], namespace: Mapping[str, object], before: Forgotten | None = None
    ) -> None:
        self.names = frozenset(names)
        self._namespace = namespace
        self._word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(self.names)))})\b")
        known = before if before is not None and before.names <= self.names else None
        self._texts: RedactedTexts = RedactedTexts() if known is None else known._texts
        self._numbers: RedactedNumbers = RedactedNumbers() if known is None else known._numbers
        self._read: dict[str, int] = {}  # the ids of the values that were read last
        self._closed: set[str] = set()  # variables that could not be read as a whole
        self.learn()

    def learn(self, source: str = "") -> None:
        """Read the variables that code has bound to other values, or may have changed."""
        may_change = self._speaks(source)
        for name in self.names & self._namespace.keys():
            value = self._namespace[name]
            if self._read.get(name) == id(value) and not may_change:
                continue
            self._read[name] = id(value)
            reader = Reader(self._texts, self._numbers, _MOST)
            is_whole = reader.read([(value, True)]) and not reader.has_closed
            (self._closed.discard if is_whole else self._closed.add)(name)

    def text(self, text: str) -> str:
        """The text without what these variables hold, and without what code gave away."""
        return self._numbers.mask(self._texts.mask(text)) if text else text

    def cell(self, cell: Cell) -> Cell:
        """The cell of a commit without what its code gives away, and what its error says of it."""
        self.learn(cell.source)
        if not self._speaks(cell.source):
            return msgspec.structs.replace(cell, error=self.text(cell.error))
        source, hidden = previews.mask_code(cell.source, self.names)
        self._take(hidden)
        error = self.text(previews.mask_text(cell.error, hidden))
        return msgspec.structs.replace(cell, source=source, error=error)

    def outputs(self, outputs: Outputs, source: str) -> Outputs:
        """What a cell showed, without what its code or these variables give away.

        Of code that speaks of one, pictures are left out, since they may show it, and all outputs where the variable
        cannot be read as a whole.
        """
        speaks = self._speaks(source)
        if speaks and self._closed:
            dropped = outputs.dropped_outputs + len(outputs.outputs)
            return msgspec.structs.replace(outputs, outputs=(), dropped_outputs=dropped)
        return outputs.with_texts(self.text).without_bytes(lambda content: speaks or self._texts.are_in(content))

    def _take(self, literals: Collection[str]) -> None:
        for literal in literals:
            self._texts.update(spellings(literal))
            self._numbers.learn(literal)

    def of_page(self, page: NotebookSnapshot) -> NotebookSnapshot:
        """The page without what any of its code gives away, wherever on the page that stands."""
        return msgspec.structs.replace(page, cells=self._cells(page.cells))

    def _cells(self, cells: Sequence[NotebookCell]) -> tuple[NotebookCell, ...]:
        spoken = {cell.source for cell in cells if self._speaks(cell.source)}
        hidden = frozenset[str]()
        for cell in cells:
            if cell.type == "code" and cell.source in spoken:
                hidden |= previews.mask_code(cell.source, self.names)[1]
        self._take(hidden)
        return tuple(
            msgspec.structs.replace(cell, source=self._mask(cell, hidden, masks=cell.source in spoken))
            for cell in cells
        )

    def _mask(self, cell: NotebookCell, hidden: frozenset[str], *, masks: bool) -> str:
        source = cell.source
        if masks and cell.type == "code":
            source = previews.mask_code(source, self.names)[0]
        if masks or any(literal in source for literal in hidden):
            source = previews.mask_text(source, hidden)
        return source

    def _speaks(self, source: str) -> bool:
        return bool(self.names) and self._word.search(source) is not None


# -- what the notebook ran on: the interpreter, the platform, and every installed distribution with its version
#
# The lock is read from the names of the metadata folders, without opening one: `numpy-2.4.6.dist-info` says all, and a
# thousand of them take a few milliseconds where parsing them takes seconds. It is read again only when one of the folders
# that Python imports from has changed, as it does with every `%pip install`; so equal environments are one object.


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


def read_environment(folders: list[str]) -> Environment:
    """What this process runs on, with the packages that lie in these folders."""
    return Environment(
        python=platform.python_version(),
        implementation=sys.implementation.name,
        platform=f"{sys.platform}-{platform.machine()}",
        packages=tuple(list_distributions(folders)),
    )


def installed_in(path: list[str]) -> list[str]:
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


def version_now(package: str) -> str:
    """The version of a package as it is now; nothing if it is not known, or not there."""
    module = sys.modules.get(package)
    version = module_dict(module).get("__version__") if isinstance(module, ModuleType) else None
    if isinstance(version, str):
        return str(version)
    return find_version(package)


def find_version(package: str) -> str:
    """Find the version of the distribution that has a package's name; nothing if no distribution has it."""
    name = _SEPARATORS.sub("-", package).lower()
    found = (_distributions(folder, _change_time_ns(folder)).get(name) for folder in installed_in(sys.path))
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
