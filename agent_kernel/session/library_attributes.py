"""What cells set on classes and modules of libraries. No commit holds it, so a checkout says what is not as it was then.

`pd.DataFrame.total = total` changes pandas in this process alone: a restart leaves it behind, and a checkout keeps it. A
commit names what is set, as `pandas.DataFrame.total`. A cell whose text sets nothing of a module or a class costs one
search of that text; of the others, what the attributes are is compared before and afterwards.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Final, cast

import msgspec

from agent_kernel.errors import StoreError
from agent_kernel.repository import Commit, ObjectId, Repository
from agent_kernel.values.introspection import (
    bases_of,
    class_dict,
    derives_from,
    exact_str,
    module_dict,
    module_name,
    qualified_name,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

PYLAB: Final = "%pylab"  # stands for the thousand names that it binds: they are the shell's own, and in no commit
_ASSIGNED = re.compile(
    r"\.([^\W\d]\w*)\s*[-+*/|&^%@]{0,2}=(?!=)"
)  # begins with what is rare: this is searched in each cell
_PATH = re.compile(r"[^\W\d][\w.]*")
_CALLED = re.compile(r"""attr\(\s*([^\W\d][\w.]*)\s*,\s*["']([^\W\d]\w*)["']""")
_DELETED = re.compile(r"del\s+([^\W\d][\w.]*)\.([^\W\d]\w*)")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]*(\([^()]*\)|[^\n#;]*)", re.MULTILINE)
_NAMES = re.compile(r"([^\W\d][\w.]*)(?:\s+as\s+(\w+))?")
_RUNS_PYLAB = re.compile(r"^[ \t]*%pylab\b", re.MULTILINE)
_MISSING = object()
_UNKNOWN = object()  # of a library that the cell itself imported
_FURTHEST: Final = 10_000  # commits to look through for the cell that set something
_LONGEST_PATH: Final = 200  # characters
_SHOWN: Final = 10  # names in one line
_WHY: Final = "commits do not save what cells set in libraries"

Owner = type | ModuleType
Label = Callable[[ObjectId, Commit], str]


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """One attribute, and what it was before a cell set it."""

    owner: Owner
    name: str
    before: object

    def is_set(self) -> bool:
        return _attributes_of(self.owner).get(self.name, _MISSING) is not self.before


Before = Mapping[str, Attribute] | None


class LibraryAttributes:
    """What the cells of a process have set."""

    def __init__(self) -> None:
        self.are_any = False  # whether a cell has set one: most sessions never ask for more
        self._known: dict[str, Attribute] = {}
        self._pylab = False

    def look_before(self, source: str, namespace: Mapping[str, object]) -> Before:
        """What the attributes are that a cell may set; None where its text sets none."""
        targets = _targets(source)
        found = {full: Attribute(owner, name, value) for full, owner, name, value in _find(source, targets, namespace)}
        may_import = bool(targets) and "import" in source
        return found if found or may_import or PYLAB in source else None

    def note(self, source: str, namespace: Mapping[str, object], before: Before) -> None:
        """The cell has run."""
        if before is None:
            return
        self._pylab = self._pylab or _RUNS_PYLAB.search(source) is not None
        for full, owner, name, value in _find(source, _targets(source), namespace):
            earlier = before.get(full)
            if earlier is None and not _is_of_library(value):  # the cell imported what it set it on
                earlier = Attribute(owner, name, _UNKNOWN)
            if earlier is not None and earlier.is_set():
                self._known.setdefault(full, earlier)
        self.are_any = self._pylab or bool(self._known)

    def names(self) -> set[str]:
        """What is set now, by cells of this process."""
        return {full for full, one in self._known.items() if one.is_set()} | ({PYLAB} if self._pylab else set())

    def names_after(self, parent: Iterable[str]) -> tuple[str, ...]:
        """What a commit names, after one that names these. What this process has not set is set once its cell runs again."""
        return tuple(sorted({*parent} - self._known.keys() | self.names()))


def describe_differences(
    repo: Repository,
    commit: ObjectId | None,
    namespace: Mapping[str, object],
    now: Collection[str],
    label: Label,
) -> list[str]:
    """What to say of what is set now where the variables are those of a commit.

    Args:
        namespace: these variables.
        label: what a commit is called whose cell is to be run again.
    """
    then = {*(() if commit is None else repo.commit_at(commit).set_in_libraries)}
    absent = then - {*now}
    found = _find_makers(repo, commit, namespace, absent) if commit is not None and absent else ()
    makers = [(label(*made), names) for made, names in found]
    lines = _describe_absent(makers[::-1])  # first the oldest cell: later ones may need what it makes
    if staying := sorted({*now} - then - {PYLAB}):
        stay = "stays as a cell set it" if len(staying) == 1 else "stay as cells set them"
        lines.append(f"{_joined(staying)} {stay}: {_WHY}")
    return lines


def _describe_absent(makers: Iterable[tuple[str, set[str]]]) -> list[str]:
    lines: list[str] = []
    why = f": {_WHY}"
    for maker, names in makers:
        if PYLAB in names:
            lines.append(f"to have the names of %pylab again, run the cell of {maker}: commits do not save them")
        if plain := sorted(names - {PYLAB}):
            lines.append(f"to set {_joined(plain)} again, run the cell of {maker}{why}")
            why = ""  # one line with it is enough
    return lines


def _find_makers(
    repo: Repository, commit: ObjectId, namespace: Mapping[str, object], names: set[str]
) -> Iterator[tuple[tuple[ObjectId, Commit], set[str]]]:
    """The commits of the last cells that set these names, newest first, as far back as is looked and can be read."""
    ways = [(commit, names)]
    for _ in range(_FURTHEST):
        if not ways:
            return
        id, todo = ways.pop()
        here = repo.commit_at(id)
        own = _find_set_by(here, namespace, todo)
        todo = todo - own
        origins = (here.restores, *here.parents[1:]) if here.restores else here.parents
        for origin in origins:
            try:
                held = todo.intersection(repo.commit_at(origin).set_in_libraries)
            except StoreError:  # a part of the history is damaged: the commit after it is named
                continue
            todo = todo - held
            if held:
                ways.append((origin, held))
        if own or todo:
            yield (id, here), own | todo
    yield from (((id, repo.commit_at(id)), todo) for id, todo in ways)


def _find_set_by(commit: Commit, namespace: Mapping[str, object], names: set[str]) -> set[str]:
    """Those of the names that the text of its cell sets: an earlier cell may have set them to something else."""
    source = "" if commit.cell is None else commit.cell.source
    if not any(name.rpartition(".")[2] in source for name in names):
        return set()
    found = {full for full, *_ in _find(source, _targets(source), namespace)}
    return names & (found | ({PYLAB} if _RUNS_PYLAB.search(source) else set()))


def _joined(names: Sequence[str]) -> str:
    shown = [*names[:_SHOWN], *([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _find(
    source: str, targets: Iterable[tuple[str, str]], namespace: Mapping[str, object]
) -> Iterator[tuple[str, Owner, str, object]]:
    imported: dict[str, object] | None = None
    for path, name in targets:
        root, *steps = path.split(".")
        if root in namespace:
            found = namespace[root]
        else:
            imported = _find_imported(source) if imported is None else imported
            found = imported.get(root)
        for step in steps:
            found = _part_of(found, step)
        owner = _owner(found)
        if owner is not None and (place := _place_of(owner)):
            yield f"{place}.{name}", owner, name, _attributes_of(owner).get(name, _MISSING)


def _targets(source: str) -> set[tuple[str, str]]:
    """The paths and names of what a text may set, also in its strings and comments: those do not change anything."""
    found = {(_path_before(source, match.start()), match[1]) for match in _ASSIGNED.finditer(source)}
    if "attr(" in source:
        found.update(_CALLED.findall(source))
    if "del" in source:
        found.update(_DELETED.findall(source))
    return {target for target in found if target[0]}


def _path_before(source: str, end: int) -> str:
    """The names with points between them that end there; nothing behind a call or an item."""
    begin = end
    while begin and end - begin < _LONGEST_PATH and (source[begin - 1].isalnum() or source[begin - 1] in "._"):
        begin -= 1
    return source[begin:end] if _PATH.fullmatch(source, begin, end) else ""


def _find_imported(source: str) -> dict[str, object]:
    """What a text imports that is loaded already, by the names that it gets."""
    found: dict[str, object] = {}
    for match in _IMPORT.finditer(source):
        for name, other in _NAMES.findall(match[2]):
            if match[1]:
                found[other or name] = _part_of(sys.modules.get(match[1]), name)
            else:
                found[other or name.partition(".")[0]] = sys.modules.get(name if other else name.partition(".")[0])
    return found


def _owner(value: object) -> Owner | None:
    """A module or a class, without asking what it says that it is."""
    kind = type(value)
    return cast("Owner", value) if derives_from(kind, ModuleType) or derives_from(kind, type) else None


def _is_module(owner: Owner) -> TypeIs[ModuleType]:
    return derives_from(type(owner), ModuleType)


def _part_of(value: object, name: str) -> object:
    """A part of a module or a class as it stands there: no code of theirs runs."""
    owner = _owner(value)
    if owner is None or _is_module(owner):
        return None if owner is None else module_dict(owner).get(name)
    return next((class_dict(base)[name] for base in bases_of(owner) if name in class_dict(base)), None)


def _attributes_of(owner: Owner) -> Mapping[str, object]:
    return module_dict(owner) if _is_module(owner) else class_dict(owner)


def _place_of(owner: Owner) -> str:
    """The full name of a class or a module of a library; nothing for those of the person's own."""
    from agent_kernel.values.references import is_library

    module = exact_str(module_dict(owner).get("__name__")) if _is_module(owner) else module_name(owner)
    name = module if _is_module(owner) else f"{module}.{qualified_name(owner)}"
    return name if is_library(module) else ""


def _is_of_library(value: object) -> bool:
    """Whether this may have been there before the cell: nothing, or what a library's own code made."""
    from agent_kernel.values.references import is_library

    owner = _owner(value)
    if type(value) is FunctionType:
        return is_library(exact_str(value.__module__))
    return value is _MISSING if owner is None else bool(_place_of(owner))
