"""What a state is loaded without: stored values that could not be rebuilt here.

Each is replaced in the namespace by a placeholder: using it raises an error. The name keeps its entry in the tree: no
commit stores it anew, so nothing of it is lost, and a later checkout tries it again.
"""

from __future__ import annotations

import contextlib
import secrets
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from agent_kernel.errors import AgentKernelError, DamagedObjectError, LoadError, NewerFormatError
from agent_kernel.repository import Commit, Entry, Manifest, ObjectId, Repository, Unsaved, short
from agent_kernel.session.history import title
from agent_kernel.session.live_objects import cells_of
from agent_kernel.session.provenance import import_folders
from agent_kernel.session.saving import version_now
from agent_kernel.session.tracking import Group, Placeholders
from agent_kernel.text import shorten
from agent_kernel.values import CLASS_PREFIX, previews
from agent_kernel.values.aliases import Reach
from agent_kernel.values.dump import SaveFailure
from agent_kernel.values.surface import Placeholder

WAY_ON = "--partial (in Python partial=True) goes on without, and keeps what is stored"
_TITLE = 60  # characters of what a cell is called
_FURTHEST = 10_000  # commits to look through for the cell that made a value


class LoadFailure(msgspec.Struct, frozen=True):
    """A group that could not be loaded. `class_id`: for the sake of this class; `manifest`: None if it is not readable."""

    members: tuple[str, ...]
    entries: dict[str, Entry]
    error: BaseException
    class_id: str
    manifest: Manifest | None
    folder: str = ""  # the one that a module came from which is not found now

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name in self.members if not name.startswith("\0"))

    def reason(self) -> str:
        """Why, in one line, and which packages are other ones than those it was saved with."""
        kind = self.class_id.partition("#")[0]
        of_class = f"the class {kind} cannot be loaded: " if kind else ""
        packages = self.manifest.packages if self.manifest is not None else {}
        others = [_other(package, saved) for package, saved in sorted(packages.items())]
        differ = "; ".join(filter(None, others))
        text = of_class + error_line(self.error) + (f" (saved with {differ})" if differ else "")
        if not self.folder:
            return text
        if not Path(self.folder).is_dir():
            return f"{text}; it came from the folder {self.folder}, which is not there now"
        return f"{text}; it came from a folder that is not in sys.path: run sys.path.insert(0, {self.folder!r}) and check out again"


def with_folder(repo: Repository, failed: LoadFailure, sources: Sequence[ObjectId]) -> LoadFailure:
    """Say of a module that is not found which folder it came from, as far as the history knows: nothing is imported."""
    name = failed.error.name if isinstance(failed.error, ModuleNotFoundError) else None
    package = (name or "").partition(".")[0]
    if not package:
        return failed
    import_path = set(import_folders(sys.path))
    missing: str = ""
    for folder in dict.fromkeys(folder for source in sources for folder in _folders(repo, source)):
        if folder in import_path:
            continue
        if not Path(folder).is_dir():
            missing = missing or folder
        elif any(_is_module(entry.name, package) for entry in Path(folder).iterdir()):
            return msgspec.structs.replace(failed, folder=folder)
    return msgspec.structs.replace(failed, folder=missing)


def _is_module(file: str, package: str) -> bool:
    return file == package or (file.startswith(f"{package}.") and file.endswith((".py", ".so", ".pyd")))


def _folders(repo: Repository, source: ObjectId) -> list[str]:
    """The folders that the sessions of these commits imported from, the latest first."""
    try:
        commits = (commit for _, commit in repo.log(source, limit=_LATEST, first_parent=True))
        return list(dict.fromkeys(folder for commit in commits for folder in (*commit.folders, commit.cwd) if folder))
    except AgentKernelError:  # the history is damaged further back
        return []


_LATEST = 1_000  # commits to look through for the folder of a module


def error_line(error: BaseException) -> str:
    """An error in one line. Its `str` is not asked unless it is ours: that would be the notebook's code."""
    if isinstance(error, AgentKernelError):
        return str(error)
    texts = [argument for argument in error.args if type(argument) is str]
    return " ".join(": ".join([type(error).__name__, *texts]).split())[:200]


def _other(package: str, saved: str) -> str:
    now = version_now(package)
    if now == saved:
        return ""
    if now:
        return f"{package} {saved}, this is {now}"
    from importlib.util import find_spec

    is_there = package in sys.modules or find_spec(package) is not None
    return f"{package} {saved}" + ("" if is_there else ", which is not installed")


def load_error(failed: Iterable[LoadFailure], way: str = "") -> LoadError:
    """The error that names what could not be loaded, each with its reason."""
    by_reason: dict[str, list[str]] = {}
    causes: list[BaseException] = []
    for one in failed:
        if one.names:
            by_reason.setdefault(one.reason(), []).extend(one.names)
            causes.append(one.error)
    names = tuple(sorted(name for found in by_reason.values() for name in found))
    failures = tuple((tuple(sorted(found)), reason) for reason, found in by_reason.items())
    error = LoadError(names, "; ".join(by_reason), failures, way)
    error.__cause__ = causes[0]
    return error


# -- placeholders


def make_placeholders(
    repo: Repository, failed: Sequence[LoadFailure], sources: Sequence[ObjectId], classes: frozenset[str]
) -> list[Group]:
    """What to remember of groups that could not be loaded, with a placeholder for each of their names.

    Args:
        sources: commits from which the entries come.
        classes: the ids of all classes in the tree, for groups of which it cannot be read what they need.
    """
    cells = _cells(repo, sources, {name for one in failed for name in one.names})
    return [_group(repo, one, cells, classes) for one in failed]


def _group(repo: Repository, failed: LoadFailure, cells: dict[str, str], classes: frozenset[str]) -> Group:
    reason = failed.reason()
    placeholders = Placeholders({}, {})
    for name in failed.names:
        kind = _type(repo, failed.entries[name])
        made = f"; {cells[name]} made it" if name in cells else ""
        remedy = f"it stays in the store: when the cause is gone, %agent checkout loads it{made}"
        own = SaveFailure("", kind, reason, remedy)
        copied = SaveFailure(
            f"unloaded-{secrets.token_hex(6)}",
            kind,
            f"it is a copy of what stood for {name}, which could not be loaded: {reason}",
            f"copy {name} again where it is loaded",
        )
        placeholders.by_name[name] = Placeholder(copied, name, own)
        placeholders.reports[name] = Unsaved(name, kind, reason, remedy, stored=True)
    needs = failed.manifest.classes if failed.manifest is not None else ()
    return Group(
        members=failed.members,
        signature=b"",
        own={},
        stored=failed.entries,
        pieces=[],
        reach=Reach(),
        globals_used=frozenset(),
        classes=frozenset(needed.removeprefix(CLASS_PREFIX) for needed in needs) if failed.manifest else classes,
        save_failures=(),
        size=failed.manifest.size if failed.manifest is not None else 0,
        placeholders=placeholders,
    )


def _type(repo: Repository, entry: Entry) -> str:
    try:
        return previews.decode(repo.read_preview(entry)).type
    except (DamagedObjectError, NewerFormatError, msgspec.MsgspecError):
        return ""


# -- where a value comes from


def _cells(repo: Repository, sources: Sequence[ObjectId], names: set[str]) -> dict[str, str]:
    """The cell that made each of these values, as far as the history can be read."""
    found: dict[str, str] = {}
    for source in sources:
        try:
            _walk_back(repo, source, names - found.keys(), found)
        except AgentKernelError:  # the history is damaged further back: what was found so far will do
            continue
    return found


def commits_of_cells(
    repo: Repository, session: str, numbers: Collection[int], names: Collection[str] = ()
) -> dict[int, str]:
    """The commits of some cells of a session by number, as `3f2a91c4 (lock = Lock())`, as far as the history can be read.

    Args:
        names: variables that lead to what these cells made. The newest commit that says so of a name says which later
            cells bound it; these are found, too.
    """
    found: dict[int, str] = {}
    wanted, remaining = set(numbers), set(names)
    with contextlib.suppress(AgentKernelError):
        tips = dict.fromkeys(
            (*repo.branches().values(), *repo.tags().values(), *(head.commit for head in repo.heads().values()))
        )
        for id, commit in repo.log([tip for tip in tips if tip is not None], limit=_FURTHEST):
            if commit.session != session:
                continue
            for one in commit.unsaved if remaining else ():
                named = remaining.intersection(one.name.split(", "))
                cells = set(cells_of(one.remedy)) if named else set[int]()
                if named and cells.issuperset(numbers):
                    wanted |= cells
                    remaining -= named
            number = commit.cell.number if commit.cell is not None else None
            if number is not None and number in wanted and number not in found:
                found[number] = _label(id, commit)
            if len(found) == len(wanted):
                break
    return found


def _label(id: ObjectId, commit: Commit) -> str:
    """`3f2a91c4 (lock = Lock())`: asked once for each of thousands of values that one cell made."""
    known = _labels.get(id)
    if known is None:
        if len(_labels) > _MOST_LABELS:
            _labels.clear()
        known = _labels[id] = f"{short(id)} ({shorten(title(commit), _TITLE)})"
    return known


_labels: dict[ObjectId, str] = {}
_MOST_LABELS = 1_000


def _walk_back(repo: Repository, start: ObjectId, names: set[str], found: dict[str, str]) -> None:
    for id, commit in repo.log(start, limit=_FURTHEST, first_parent=True):
        changed = names & {change.name for change in commit.changed if change.how != "-"}
        names = names - changed
        if not changed:
            continue
        sources = [commit.restores] if commit.restores is not None else list(commit.parents[1:])
        if commit.cell is not None:
            number = f" [{commit.cell.number}]" if commit.cell.number is not None else ""
            found |= dict.fromkeys(changed, f"the cell{number} of {short(id)}")
        elif sources:
            _walk_back(repo, sources[0], changed, found)
        else:
            found |= dict.fromkeys(changed, f"commit {short(id)}")
        if not names:
            return
