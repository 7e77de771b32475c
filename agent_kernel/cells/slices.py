"""The cells that make a variable: a backward slice over the history.

It begins at the commit that changed the variable last. What that cell reads leads to the commits that changed those
variables last before it, and so on. A variable *at* a commit is a version of it; each cell needs certain versions, so what
branches and merges brought together can be told apart. In doubt a cell is included, and a note says why.

Source: M. Weiser, Program Slicing, 1981; on recorded changes rather than on code, as in dynamic slicing.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple

import msgspec

from agent_kernel.cells.cell_code import Reading, StateLine, read_code
from agent_kernel.errors import DamagedObjectError, NameNotFoundError
from agent_kernel.repository import Commit, Entry, ObjectId, short
from agent_kernel.repository.commits import ALGORITHM
from agent_kernel.session import Repository
from agent_kernel.session.history import title
from agent_kernel.session.snapshot import close_names
from agent_kernel.values import previews

# -- the line that leads to a state
#
# Its commits are in the order in which a reader would run them.
#
# A commit leads on from its first parent. One that goes back (`rollback`, `undo`, `redo`) has the state of an older commit, so
# the line goes on with that one: what was rolled back is no part of it. A commit that only takes single variables from
# elsewhere, or changes what agents remember, stays on the line.


_GOES_BACK: Final = frozenset({"rollback", "undo", "redo"})
_PICKED: Final = re.compile(r"\(cherry picked from commit ([0-9a-f]{64})\)\s*\Z")


class Line:
    """The commits that lead to a state, oldest first.

    Attributes:
        is_truncated: the store no longer holds what came before the first of them.
    """

    def __init__(self, commits: tuple[tuple[ObjectId, Commit], ...], *, is_truncated: bool) -> None:
        self.commits = commits
        self.is_truncated = is_truncated

    @cached_property
    def positions(self) -> dict[ObjectId, int]:
        """Where each commit stands."""
        return {id: at for at, (id, _) in enumerate(self.commits)}


def line_to(repo: Repository, start: ObjectId) -> Line:
    """Find the commits that lead to a state."""
    found: list[tuple[ObjectId, Commit]] = []
    at: ObjectId | None = start
    is_truncated = False
    while at is not None:
        try:
            commit = repo.commit_at(at)
            before = _before(repo, commit)
        except DamagedObjectError:
            if not found:
                raise
            is_truncated = True
            break
        if before.goes_back:
            is_truncated = before.is_missing
        else:
            found.append((at, commit))
        at = before.commit
    return Line(tuple(reversed(found)), is_truncated=is_truncated)


class _Before(NamedTuple):
    """What the line goes on with, towards the past. `goes_back`: the commit itself is no part of it."""

    commit: ObjectId | None
    goes_back: bool = False
    is_missing: bool = False


def _before(repo: Repository, commit: Commit) -> _Before:
    parent = next(iter(commit.parents), None)
    if commit.kind not in _GOES_BACK:
        return _Before(parent)
    if parent is not None and repo.commit_at(parent).tree == commit.tree:
        return _Before(parent)  # it changed what agents remember, or nothing
    if commit.restores is not None and _has_tree(repo, commit.restores, commit.tree):
        return _Before(commit.restores, goes_back=True)
    if commit.tree == repo.tree_at(None).id:
        return _Before(None, goes_back=True)  # to before the first commit
    if commit.restores is not None and _exists(repo, commit.restores):
        return _Before(parent)  # single variables were taken from there
    # What was restored was deleted from the store. Another commit may have had the same state.
    same = (id for id, older in repo.log([parent], first_parent=True) if older.tree == commit.tree) if parent else ()
    found = next(iter(same), None)
    return _Before(found, goes_back=True, is_missing=found is None)


def _exists(repo: Repository, id: ObjectId) -> bool:
    try:
        repo.commit_at(id)
    except DamagedObjectError:
        return False
    return True


def _has_tree(repo: Repository, id: ObjectId, tree: ObjectId) -> bool:
    return _exists(repo, id) and repo.commit_at(id).tree == tree


# -- where a commit without a cell has its changes from


class Origin(NamedTuple):
    """Where variables come from that no cell of the line changed.

    Attributes:
        how: a merge, a commit that was done again here, or variables that were taken from another commit.
        commit: the other side; None: the store no longer holds it.
    """

    how: Literal["merge", "cherry-pick", "taken"]
    commit: ObjectId | None


def find_origin(repo: Repository, commit: Commit) -> Origin | None:
    """Find the other commit whose changes came with this one; None: it is a cell, or nothing says where from."""
    if commit.cell is not None:
        return None
    if len(commit.parents) > 1:
        return Origin("merge", _if_present(repo, commit.parents[1]))
    if commit.kind == "cherry-pick":
        named = _PICKED.search(commit.message)
        return Origin("cherry-pick", _if_present(repo, _id(named[1])) if named else None)
    if commit.kind in _GOES_BACK and commit.changed:
        return Origin("taken", None if commit.restores is None else _if_present(repo, commit.restores))
    return None


def _id(digits: str) -> ObjectId:
    return ObjectId(bytes.fromhex(digits) + ALGORITHM)


def _if_present(repo: Repository, id: ObjectId) -> ObjectId | None:
    return id if _exists(repo, id) else None


# -- the slice of a variable


# Kinds of values that hold no function of the notebook.
_PLAIN: Final = frozenset({"scalar", "text", "array", "frame", "series", "index", "tensor", "sparse", "module"})
_OF_NOTEBOOKS: Final = frozenset({"get_ipython", "display", "In", "Out", "exit", "quit", "__name__"})
_MOST_RUNS: Final = (
    4  # times as many cells in a script as in the slice, before it is given up to have all versions right
)


class SlicedCell(NamedTuple):
    """One commit of a slice.

    Attributes:
        gives: the variables that later cells of the slice, or the reader, take from it.
        needs: the variables that it takes from earlier ones.
        again: variables for which the cell runs a second time, since what came between gave them other values.
        notes: what cannot be told, or made again.
    """

    id: ObjectId
    commit: Commit
    gives: tuple[str, ...]
    needs: tuple[str, ...]
    again: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Slice(NamedTuple):
    """The cells that make a variable.

    Attributes:
        cells: in the order in which they run, each once.
        runs: the same as a program: a cell may run again where a merge brought together what two values of a name made.
        notes: what is true of the whole.
        is_whole: False: running the cells may give something else, and notes say why.
    """

    name: str
    commit: ObjectId
    cells: tuple[SlicedCell, ...]
    runs: tuple[SlicedCell, ...]
    notes: tuple[str, ...]
    is_whole: bool


def slice_of(repo: Repository, commit: ObjectId, name: str) -> Slice:
    """Find the cells that make a variable as it is at a commit.

    Raises:
        NameNotFoundError: the variable is not there.
    """
    tree = repo.tree_at(commit)
    if name not in tree or name.startswith("\0"):
        known = (other for other in tree.names() if not other.startswith("\0"))
        raise NameNotFoundError(name, f"commit {short(commit)}", close_names(name, known))
    return _Slicer(repo, commit).slice(name)


def _read(commit: Commit) -> Reading:
    """What the cell of a commit does. One that failed may have stopped before it bound anything."""
    if commit.cell is None:
        return Reading()
    found = read_code(commit.cell.source)
    return found if commit.status == "ok" else found._replace(binds=frozenset())


class _Versions:
    """A line of commits, and which of them gave a variable its value.

    Besides those that changed it, these are cells that bound it to an equal value: the object is another one then.
    """

    def __init__(self, repo: Repository, line: Line) -> None:
        self.commits = line.commits
        self.is_truncated = line.is_truncated
        self._repo = repo

    @cached_property
    def _changes(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for at, (_, commit) in enumerate(self.commits):
            for name in sorted({change.name for change in commit.changed} | _read(commit).binds):
                found.setdefault(name, []).append(at)
        return found

    @cached_property
    def states(self) -> StateLine:
        """What its cells do with the state of modules and of the process."""
        return StateLine(commit.cell.source if commit.cell is not None else "" for _, commit in self.commits)

    def find_change(self, name: str, before: int) -> int | None:
        """Where a variable was bound or changed last before this place; None: nowhere."""
        for at in reversed(self._changes.get(name, ())):
            if at < before and self._counts(self.commits[at][1], name):
                return at
        return None

    def _counts(self, commit: Commit, name: str) -> bool:
        return any(change.name == name for change in commit.changed) or name in self._repo.tree(commit.tree)


class _Node:
    """A commit that changed a variable that is needed."""

    def __init__(self, id: ObjectId, commit: Commit, line: _Versions, at: int) -> None:
        self.id = id
        self.commit = commit
        self.line = line
        self.at = at  # its place on the line
        self.inputs: dict[str, _Node] = {}
        self.gives: set[str] = set()
        self.notes: list[str] = []
        self.is_whole = True

    @cached_property
    def reading(self) -> Reading:
        return _read(self.commit)

    def note(self, text: str, *, is_whole: bool = False) -> None:
        if text not in self.notes:
            self.notes.append(text)
        self.is_whole = self.is_whole and is_whole


class _Slicer:
    def __init__(self, repo: Repository, commit: ObjectId) -> None:
        self._repo = repo
        self._commit = commit
        self._lines: dict[ObjectId, _Versions] = {}
        self._nodes: dict[ObjectId, _Node] = {}
        self._carries: dict[tuple[ObjectId, str], frozenset[str]] = {}

    def slice(self, name: str) -> Slice:
        line = self._line(self._commit)
        targets = self._find_targets(line, name)
        selected = self._select(targets.values())
        for wanted, node in targets.items():
            node.gives.add(wanted)
        ordered = list(self._order(line, selected, set()))
        cells = tuple(map(_sliced, ordered))
        runs, note = _schedule(ordered, targets)
        notes = list(filter(None, [note]))
        if line.is_truncated:
            notes.append("The store no longer holds the beginning of this history.")
        if name not in targets:
            notes.append(f"No commit that is left made {name}.")
        is_whole = not notes and all(node.is_whole for node in ordered)
        return Slice(name, self._commit, cells, runs, tuple(notes), is_whole)

    def _line(self, commit: ObjectId) -> _Versions:
        if commit not in self._lines:
            self._lines[commit] = _Versions(self._repo, line_to(self._repo, commit))
        return self._lines[commit]

    # -- which versions are needed

    def _find_targets(self, line: _Versions, name: str) -> dict[str, _Node]:
        """The variable, and of a function or a class what it uses when it is called."""
        end = len(line.commits)
        found: dict[str, _Node] = {}
        todo = [name]
        while todo:
            wanted = todo.pop()
            node = None if wanted in found else self._version(line, end, wanted)
            if node is None:
                continue
            found[wanted] = node
            used = self._used_by_functions(node, wanted)
            is_code = self._kind(node, wanted) in ("function", "class")
            todo.extend(used if is_code else (one for one in used if self._is_class(line, end, one)))
        return found

    def _select(self, targets: Iterable[_Node]) -> set[ObjectId]:
        todo, selected = list(targets), set[ObjectId]()
        while todo:
            node = todo.pop()
            if node.id in selected:
                continue
            selected.add(node.id)
            node.inputs = self._find_inputs(node)
            for name, source in node.inputs.items():
                source.gives.add(name)
            todo.extend(node.inputs.values())
            todo.extend(self._find_others(node))
            todo.extend(self._find_states(node))
        return selected

    def _find_states(self, node: _Node) -> Iterator[_Node]:
        """Cells that changed the state of a module or of the process that one may use: a seed, an option, a folder."""
        for at in node.line.states.find_needed(node.at):
            id, commit = node.line.commits[at]
            found = self._nodes.setdefault(id, _Node(id, commit, node.line, at))
            found.note("Cells below may use what it changes in a module or in the process.", is_whole=True)
            yield found

    def _version(self, line: _Versions, before: int, name: str) -> _Node | None:
        """The commit that gave a variable the value that it has before a place of a line; None: it has none there."""
        at = line.find_change(name, before)
        if at is None:
            return None
        id, commit = line.commits[at]
        if any(change.name == name and change.how == "-" for change in commit.changed):
            return None
        origin = find_origin(self._repo, commit)
        if origin is not None and origin.commit is not None:
            theirs = self._repo.tree_at(origin.commit).get(name)
            if _is_alike(self._repo.tree(commit.tree).get(name), theirs):
                other = self._line(origin.commit)
                if (found := self._version(other, len(other.commits), name)) is not None:
                    return found
        if id not in self._nodes:
            self._nodes[id] = _Node(id, commit, line, at)
        return self._nodes[id]

    def _find_inputs(self, node: _Node) -> dict[str, _Node]:
        commit, reading = node.commit, node.reading
        if commit.cell is None:
            return self._find_inputs_without_cell(node)
        names = set(reading.reads)
        if reading.why_unknown:
            node.note(f"All variables are included: {reading.why_unknown}.", is_whole=True)
            names |= {name for name in self._names_before(node) if name not in reading.binds}
        found = self._resolve(node, names)
        unknown = [name for name in reading.reads - reading.guesses - found.keys() if self._is_unknown(node, name)]
        if unknown:
            node.note(f"The history does not hold {', '.join(sorted(unknown))}, which this cell reads.")
        # What it changed in place has been something before.
        changed = {change.name for change in commit.changed if change.how != "+"}
        return found | self._resolve(node, changed - reading.binds - found.keys()) | self._find_deletions(node)

    def _find_deletions(self, node: _Node) -> dict[str, _Node]:
        """Of a cell that failed the commits that deleted what it names: it may have failed because of that."""
        found: dict[str, _Node] = {}
        for name in node.reading.reads | node.reading.within if node.commit.status != "ok" else ():
            at = node.line.find_change(name, node.at)
            if at is not None and self._version(node.line, node.at, name) is None:
                id, commit = node.line.commits[at]
                found[name] = self._nodes.setdefault(id, _Node(id, commit, node.line, at))
        return found

    def _is_unknown(self, node: _Node, name: str) -> bool:
        """Whether nothing tells what a name stands for that a cell reads: it is ignored, or was never stored."""
        if name in _OF_NOTEBOOKS or hasattr(builtins, name) or name in node.reading.may_bind:
            return False
        return node.commit.status == "ok" and node.line.find_change(name, node.at + 1) is None

    def _resolve(self, node: _Node, names: Iterable[str]) -> dict[str, _Node]:
        """The versions of variables before a commit, and of what functions use that can be reached from those."""
        found: dict[str, _Node] = {}
        todo, done = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name in done:
                continue
            done.add(name)
            version = self._version(node.line, node.at, name)
            if version is not None:
                found[name] = version
                todo.extend(self._used_by_functions(version, name))
        return found

    def _find_inputs_without_cell(self, node: _Node) -> dict[str, _Node]:
        """What is known of a change that no cell made: what was there before it, on both sides."""
        commit = node.commit
        origin = find_origin(self._repo, commit)
        changed = ", ".join(sorted(change.name for change in commit.changed)[:6])
        if origin is None:
            node.note(f"No cell made this change of {changed} ({title(commit)}).")
        elif origin.commit is None:
            node.note(f"The commit that {changed} came from is no longer in the store.")
        else:
            node.note(f"{changed} was put together from two commits, which no cell does again.")
        found = self._resolve(node, [change.name for change in commit.changed if change.how == "~"])
        if origin is not None and origin.commit is not None:
            other = self._line(origin.commit)
            for change in commit.changed:
                version = self._version(other, len(other.commits), change.name)
                if version is not None:
                    found[f"{change.name} of {short(origin.commit)}"] = version
        return found

    def _names_before(self, node: _Node) -> list[str]:
        before = node.line.commits[node.at - 1][0] if node.at else None
        return [name for name in self._repo.tree_at(before).names() if not name.startswith("\0")]

    def _find_others(self, node: _Node) -> Iterator[_Node]:
        """Cells without which one may not do again what it changed in place without naming it.

        It reached the object by another name. A commit does not say which cell made two names share one object, because
        neither value changes then. Or an earlier cell made the change, and this commit is the first to have it.
        """
        reading = node.reading
        for change in node.commit.changed if node.commit.cell is not None else ():
            name = change.name
            if change.how != "~" or name in reading.mentions:
                continue
            is_alias = self._shares_an_object(node, name, reading.mentions)
            if not is_alias and name not in self._resolve(node, reading.reads):
                node.note(f"It does not name {name}, which changed meanwhile: an earlier cell may have changed it.")
            since = node.line.find_change(name, node.at)
            for at in range(0 if since is None else since, node.at):
                id, commit = node.line.commits[at]
                between = _read(commit)
                if name in between.mentions and (not is_alias or not between.mentions.isdisjoint(reading.mentions)):
                    yield self._nodes.setdefault(id, _Node(id, commit, node.line, at))

    def _shares_an_object(self, node: _Node, name: str, others: Iterable[str]) -> bool:
        tree = self._repo.tree(node.commit.tree)
        entries = [entry for other in (name, *others) if (entry := tree.get(other)) is not None]
        leader = entries[0].alias_group if entries else ""
        return bool(leader) and any(entry.alias_group == leader for entry in entries[1:])

    # -- what functions use that a value may hold

    def _used_by_functions(self, node: _Node, name: str) -> frozenset[str]:
        """Names that code may use which is called by way of this version of a variable."""
        todo = [(node, name)]
        while todo:  # a loop, since a list may have grown in ten thousand cells
            version, wanted = todo[-1]
            if (version.id, wanted) in self._carries:
                todo.pop()
                continue
            own, sources = self._find_used_by_functions(version, wanted)
            missing = [(source, read) for source, read in sources if (source.id, read) not in self._carries]
            if missing:
                todo.extend(missing)
            else:
                parts = (self._carries[source.id, read] for source, read in sources)
                self._carries[version.id, wanted] = own.union(*parts)
        return self._carries[node.id, name]

    def _find_used_by_functions(self, node: _Node, name: str) -> tuple[frozenset[str], list[tuple[_Node, str]]]:
        """The names that functions of this very cell use, and the versions whose functions it may have taken over."""
        if self._kind(node, name) in _PLAIN:
            return frozenset(), []
        classes = {one for one in node.reading.reads if self._is_class(node.line, node.at, one)}
        if name in node.reading.defines:
            own = node.reading.defines[name]
            return own.union(classes) if self._kind(node, name) == "class" else own, []
        # An instance of a class has what the class has, now and later.
        classes |= {one for one in node.reading.defines if self._kind(node, one) == "class"}
        names = node.reading.reads | ({name} - node.reading.binds)
        found = ((self._version(node.line, node.at, read), read) for read in sorted(names))
        return node.reading.within | classes, [(version, read) for version, read in found if version is not None]

    def _is_class(self, line: _Versions, before: int, name: str) -> bool:
        version = self._version(line, before, name)
        return version is not None and self._kind(version, name) == "class"

    def _kind(self, node: _Node, name: str) -> str:
        entry = self._repo.tree(node.commit.tree).get(name)
        stored = b"" if entry is None else self._repo.read_preview(entry)
        try:
            summary = previews.decode(stored) if stored else None
        except msgspec.MsgspecError:  # somebody else's store may hold anything
            return ""
        if summary is None or (summary.kind == "array" and summary.dtype == "object"):
            return ""
        return summary.kind

    # -- their order

    def _order(self, line: _Versions, selected: set[ObjectId], seen: set[ObjectId]) -> Iterator[_Node]:
        """The selected commits of a line, oldest first; those of another line right before what took something from it."""
        for id, commit in line.commits:
            if id in seen:
                continue
            seen.add(id)
            origin = find_origin(self._repo, commit)
            if origin is not None and origin.commit is not None:
                yield from self._order(self._line(origin.commit), selected, seen)
            if id in selected:
                yield self._nodes[id]


def _is_alike(entry: Entry | None, other: Entry | None) -> bool:
    """Whether both are one value, whatever else shares it on each side."""
    if entry is None or other is None:
        return False
    return entry.is_same_value(other) or (bool(entry.own) and entry.own == other.own)


def _sliced(node: _Node, again: Iterable[str] = ()) -> SlicedCell:
    needs = tuple(sorted(node.inputs))
    return SlicedCell(node.id, node.commit, tuple(sorted(node.gives)), needs, tuple(sorted(again)), tuple(node.notes))


# -- the cells as a program


def _schedule(ordered: list[_Node], targets: dict[str, _Node]) -> tuple[tuple[SlicedCell, ...], str]:
    """Run each cell when every variable that it needs has the right version; also what to say where that cannot be."""
    program = _Program(len(ordered) * _MOST_RUNS)
    for node in ordered:
        program.run(node)
    program.ensure(targets)
    wrong = ", ".join(sorted(program.wrong))
    note = (
        f"A cell needs {wrong} as it was on another branch, and running the cells in a row cannot give it that."
        if wrong
        else ""
    )
    return tuple(program.runs), note


class _Program:
    """Cells in the order in which they run, and which version each variable has then."""

    def __init__(self, most: int) -> None:
        self.runs: list[SlicedCell] = []
        self.wrong: set[str] = set()
        self._most = most
        self._now: dict[str, _Node] = {}
        self._run_before: set[ObjectId] = set()

    def run(self, node: _Node, again: Iterable[str] = ()) -> None:
        self.ensure({name: source for name, source in node.inputs.items() if " of " not in name})
        self.runs.append(_sliced(node, again))
        self._run_before.add(node.id)
        for name in {change.name for change in node.commit.changed} | node.reading.binds:
            self._now[name] = node  # also where the cell deletes it: then it is this one that did

    def ensure(self, versions: dict[str, _Node]) -> None:
        """Have these variables be these versions now, by running again what makes them."""
        for _ in range(3):  # what makes one may change another
            off = {name: node for name, node in versions.items() if self._now.get(name) is not node}
            if not off:
                return
            for node in sorted(
                {id(node): node for node in off.values()}.values(), key=lambda node: node.commit.time_ns
            ):
                names = [name for name, source in off.items() if source is node]
                if any(self._now.get(name) is not node for name in names) and len(self.runs) < self._most:
                    self.run(node, names)
        self.wrong |= {name for name, node in versions.items() if self._now.get(name) is not node}
