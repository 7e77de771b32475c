"""Which cells of an edited notebook run again: those that you edited, and all that may come out otherwise because of that.

The document's cells, and those that were deleted from it, stand in the order of the document. A cell that runs again *moves*
the variables that it sets, and those that it may change in place; a cell that uses or sets one that has moved runs again, too.
Generators of random numbers, files and the state of the process count like variables. In doubt a cell runs again.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.cells.cell_code import Reading, StateLine, read_code
from agent_kernel.reproduction.causes import Code, Tracer, imports, statements, targets
from agent_kernel.reproduction.line import Brought, Line, LineCell
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId
    from agent_kernel.session import Repository

__all__ = ["Selection", "read_changed"]

_UNCHANGING: Final = frozenset({"scalar", "text", "module"})  # kinds of values that nothing changes in place
_SETTINGS: Final = re.compile(
    r"^\s*%(?:matplotlib|config|load_ext|reload_ext|env|set_env|cd|pushd|popd|precision|pylab|autoreload|alias)\b",
    re.MULTILINE,
)
_WRITERS: Final = frozenset({
    "open", "write_text", "write_bytes", "savefig", "save", "savez", "savez_compressed", "savetxt", "dump", "to_csv", "to_parquet",
    "to_excel", "to_json", "to_pickle", "to_feather", "to_hdf", "to_sql", "write_csv", "write_parquet", "imsave", "copy", "copyfile",
    "rename", "remove", "unlink", "mkdir", "makedirs", "rmtree", "writefile",
})  # fmt: skip
_INDIRECT: Final = re.compile(r"\bcls\b|__class__|\bsetattr\b|\bnonlocal\b|\btype\(self\)|__dict__|\bvars\b")


@dataclass
class _Entry:
    """A cell at its place in the document, or what was there when the history was made.

    Attributes:
        cell: what runs there if it has to; None: it was deleted, or no cell made it.
        known: its last run.
        brought: names that came from elsewhere at this place.
        is_changed: it was edited, is new, was moved or was deleted.
    """

    cell: LineCell | None = None
    known: LineCell | None = None
    brought: Brought | None = None
    is_changed: bool = False
    runs: bool = False
    moved: frozenset[str] = frozenset()  # before it

    @property
    def source(self) -> str:
        one = self.cell or self.known
        return "" if one is None else one.source

    @property
    def commit(self) -> ObjectId | None:
        return self.brought.commit if self.brought is not None else None if self.known is None else self.known.commit

    def changed(self, *hows: str) -> set[str]:
        """Names that it changed when it ran."""
        if self.brought is not None:
            return set(self.brought.names)
        record = None if self.known is None else self.known.record
        changes = () if record is None else record.changed
        return {one.name for one in changes if not one.name.startswith("\0") and (not hows or one.how in hows)}

    @cached_property
    def reading(self) -> Reading:
        return read_code(self.source)

    @cached_property
    def tree(self) -> ast.Module:
        return Code(self.source).tree


@dataclass(frozen=True)
class Selection:
    """The cells to run, as a line, and whether anything was edited."""

    line: Line
    is_edited: bool


def read_changed(line: Line, document: Line, repo: Repository | None = None) -> Selection:
    """Find the cells of a document that have to run again, given the history's.

    They start from the state before the first of them; what the others have set since is taken from the history.

    Args:
        repo: says of which kinds values are, and which names share one; without it, what changes in place is told from code.
    """
    entries = _entries(line, document)
    found = _Selector(entries, line, repo)
    found.select()
    return Selection(found.line(), any(entry.is_changed for entry in entries))


# -- which cell of the document is which of the history


def _entries(line: Line, document: Line) -> list[_Entry]:
    runs = [cell for cell in line.cells if not _is_step(cell)]
    last = {cell.id or f"\0{cell.source.strip()}": cell for cell in runs}
    matched: dict[int, LineCell] = {}
    for cell in document.cells:
        if cell.id and cell.id in last:
            matched[cell.position] = last.pop(cell.id)
    by_code: dict[str, list[LineCell]] = {}
    for cell in last.values():
        by_code.setdefault(cell.source.strip(), []).append(cell)
    for cell in document.cells:
        same = by_code.get(cell.source.strip())
        if cell.position not in matched and same:
            matched[cell.position] = same.pop(0)
    matched_positions = {cell.position for cell in matched.values()}
    removed = [
        _Entry(known=cell, is_changed=True)
        for cell in last.values()
        if cell.position not in matched_positions and not cell.skipped
    ]
    in_order = _longest_rise([matched[cell.position].position for cell in document.cells if cell.position in matched])
    moved = [cell for cell in matched.values() if cell.position not in in_order]
    removed += [_Entry(known=cell, is_changed=True) for cell in moved]
    steps = [cell for cell in line.cells if _is_step(cell) and not cell.skipped]
    others: list[tuple[float, _Entry]] = [(entry.known.position, entry) for entry in removed if entry.known is not None]
    others += [(one.position - 0.5, _Entry(brought=one)) for one in line.all_brought]
    others += [
        (step.position, _Entry(replace(step, position=len(document.cells) + at), step))
        for at, step in enumerate(steps, 1)
    ]
    others.sort(key=lambda one: one[0])
    found: list[_Entry] = []
    for cell in document.cells:
        known = matched.get(cell.position)
        is_moved = known is not None and known.position not in in_order
        while others and known is not None and not is_moved and others[0][0] < known.position:
            found.append(others.pop(0)[1])
        is_changed = known is None or is_moved or known.source.strip() != cell.source.strip()
        found.append(_Entry(cell, known, is_changed=is_changed))
    return [*found, *(entry for _, entry in others)]


def _is_step(cell: LineCell) -> bool:
    """Whether an agent wrote it: the document has no cell of it."""
    return cell.record is not None and (bool(cell.record.run) or cell.record.author.kind == "agent")


def _longest_rise(positions: list[int]) -> set[int]:
    """The most of them that stand in rising order."""
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for position in positions:
        at = bisect_left(ends, position)
        before[position] = ends[at - 1] if at else None
        ends[at : at + 1] = [position]
    found: set[int] = set()
    current = ends[-1] if ends else None
    while current is not None:
        found.add(current)
        current = before[current]
    return found


# -- what has to run


@dataclass
class _Selector:
    entries: list[_Entry]
    whole: Line
    repo: Repository | None
    moved: set[str] = field(default_factory=set[str])
    _forced: set[int] = field(default_factory=set[int])  # places of cells whose effects on the process others need

    def select(self) -> None:
        """Go through the cells until no more has to run."""
        while True:
            before = set(self._forced)
            self._go_through()
            if self._forced == before:
                return

    def _go_through(self) -> None:
        self.moved = set()
        carries: dict[str, frozenset[str]] = {}
        readers: set[str] = set()  # functions that read files, a clock or the network
        begun = False
        for at, entry in enumerate(self.entries):
            entry.moved = frozenset(self.moved)
            reading = entry.reading
            used = _closed(reading.reads, carries)
            if entry.brought is None:
                own = reading.within | {name for name in used if name in carries}
                carries |= {name: frozenset(reading.defines.get(name, own)) for name in reading.may_bind}
                readers |= {name for name in reading.defines if _defines_reader(self._tracer, entry, name, readers)}
            reads_environment = entry.cell is not None and (
                _reads_environment(self._tracer, entry.tree, entry.cell)
                or not _closed(used | _named_at_once(entry.tree), carries).isdisjoint(readers)
            )
            touched = used | reading.may_bind | entry.changed()
            needed = self._needed[at]
            entry.runs = entry.cell is not None and (
                entry.is_changed
                or at in self._forced
                or reads_environment
                or not touched.isdisjoint(self.moved)
                or (bool(reading.why_unknown) and begun)
                or (begun and bool(entry.changed("-")))
                or any(self.entries[position].is_changed or self.entries[position].runs for position in needed)
            )
            if entry.runs:
                self._forced |= needed | (self._writers_before(at) if reads_environment else set())
                names = {name for name in used if self._may_change(name, entry)}
                if reading.why_unknown:
                    names |= {name for name in self._names if self._may_change(name, entry)}
                self._move(names | reading.may_bind | entry.changed())
            elif entry.is_changed:
                self._move(entry.changed())
            begun = begun or entry.runs or entry.is_changed

    def _move(self, names: Iterable[str]) -> None:
        todo = set(names) - self.moved
        self.moved |= todo
        for name in todo:
            self.moved |= self._sharing.get(name, set())

    @cached_property
    def _tracer(self) -> Tracer:
        """Knows the names of modules, whichever cell imported them."""
        from pathlib import Path

        tracer = Tracer(Path(self.whole.cwd or "."))
        for entry in self.entries:
            tracer.note_names(entry.tree)
        return tracer

    @cached_property
    def _needed(self) -> list[set[int]]:
        """By place, those of the earlier cells whose effects on modules and the process it may depend on."""
        rows: list[tuple[int, str]] = []
        for at, entry in enumerate(self.entries):
            if entry.is_changed and entry.cell is not None and entry.known is not None:
                rows.append((at, entry.known.source))
            rows.append((at, entry.source))
        states = StateLine(source for _, source in rows)
        found: list[set[int]] = [set() for _ in self.entries]
        for row, (at, _) in enumerate(rows):
            found[at] |= {rows[position][0] for position in states.find_needed(row)} - {at}
        settings = [at for at, entry in enumerate(self.entries) if _SETTINGS.search(entry.source)]
        for at, positions in enumerate(found):
            positions.update(position for position in settings if position < at)
        return found

    def _writers_before(self, at: int) -> set[int]:
        """Places of the cells that write a file which the cell at a place names."""
        files = _texts(self.entries[at].tree)
        return {
            position
            for position, entry in enumerate(self.entries[:at])
            if entry.cell is not None
            and not files.isdisjoint(_texts(entry.tree) | _written(entry.source))
            and (not _WRITERS.isdisjoint(_called(entry.tree)) or _written(entry.source))
        }

    # -- what a cell may change in place

    def _may_change(self, name: str, entry: _Entry) -> bool:
        if name in self._imported:
            return False
        set_in_it = {one for statement in statements(entry.tree) for one in targets(statement)}
        if self.repo is None or name in self._stateless:
            return name in set_in_it or ("setattr" in entry.reading.reads and name in entry.reading.reads)
        kinds = {self._kinds(commit).get(name) for commit in (self.whole.tip, entry.commit) if commit is not None} - {
            None
        }
        return not kinds or not kinds <= _UNCHANGING

    @cached_property
    def _imported(self) -> set[str]:
        nodes = [
            node for entry in self.entries for node in entry.tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
        ]
        return {name for node in nodes for name in targets(node)}

    @cached_property
    def _stateless(self) -> set[str]:
        """Functions and classes that keep nothing, wherever they are defined."""
        found: dict[str, bool] = {}
        for entry in self.entries:
            for node in entry.tree.body:
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    found[node.name] = found.get(node.name, True) and _keeps_nothing(node)
        return {name for name, is_stateless in found.items() if is_stateless}

    def _kinds(self, commit: ObjectId) -> dict[str, str]:
        assert self.repo is not None
        if commit not in self._known_kinds:
            self._known_kinds[commit] = dict(_kinds_at(self.repo, commit))
        return self._known_kinds[commit]

    @cached_property
    def _known_kinds(self) -> dict[ObjectId, dict[str, str]]:
        return {}

    @cached_property
    def _names(self) -> set[str]:
        return {name for entry in self.entries for name in entry.changed() | entry.reading.may_bind}

    @cached_property
    def _sharing(self) -> dict[str, set[str]]:
        """By name, those that it ever shared an object with, by way of others too."""
        found: dict[str, set[str]] = {}
        commits = {entry.commit for entry in self.entries} | {self.whole.tip}
        for commit in commits if self.repo is not None else ():
            groups: dict[str, set[str]] = {}
            assert self.repo is not None
            for name, one in self.repo.tree_at(commit).items() if commit is not None else ():
                if one.alias_group and not name.startswith("\0"):
                    groups.setdefault(one.alias_group, set()).add(name)
            for group in groups.values():
                joined = group.union(*(found.get(name, set()) for name in group))
                found |= dict.fromkeys(joined, joined)
        return found

    # -- as a line

    def line(self) -> Line:
        """The cells that run, and what is taken from the history between them."""
        cells: list[LineCell] = []
        taken: list[Brought] = []
        start: ObjectId | None = None
        names: set[str] = set()
        commit: ObjectId | None = None
        begun = False
        for entry in self.entries:
            if entry.runs:
                assert entry.cell is not None
                known = entry.known
                if begun and commit is not None and (missing := names - entry.moved):
                    taken.append(Brought(entry.cell.position, commit, tuple(sorted(missing))))
                names = set()
                cells.append(
                    replace(
                        entry.cell,
                        commit=None if known is None else known.commit,
                        record=None if known is None else known.record,
                        saved=None,
                        is_edited=entry.is_changed,
                    )
                )
            elif not entry.is_changed and entry.commit is not None:
                commit = entry.commit
                names |= entry.changed("+", "~") if entry.brought is None else entry.changed()
                if not begun:
                    start, names = commit, set()
            begun = begun or entry.runs or entry.is_changed
        if begun and commit is not None and (missing := names - self.moved):
            taken.append(Brought(0, commit, tuple(sorted(missing))))
        return replace(
            self.whole,
            cells=tuple(cells),
            start=start,
            moved=frozenset(self.moved),
            all_brought=tuple(taken),
            brought={},
        )


def _kinds_at(repo: Repository, commit: ObjectId) -> Iterator[tuple[str, str]]:
    for name, entry in repo.tree_at(commit).items():
        stored = repo.read_preview(entry)
        try:
            yield name, previews.decode(stored).kind if stored else ""
        except msgspec.MsgspecError:  # somebody else's store may hold anything
            yield name, ""


def _closed(names: Iterable[str], carries: dict[str, frozenset[str]]) -> set[str]:
    """The names, and those that functions and classes use which can be reached from them."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(carries.get(name, ()))
    return found


def _reads_environment(tracer: Tracer, tree: ast.Module, cell: LineCell) -> bool:
    """Whether it reads a file, a clock, the network, or a module that is no installed package, as it runs."""
    if any(map(_is_local, imports(tree))):
        return True
    shell = [
        line
        for line in Code(cell.source).magics
        if line.startswith(("!", "%run", "%%bash", "%%sh", "%%script")) or "!" in line
    ]
    return bool(shell) or any(tracer.reads_environment(node) for node in _at_once(tree))


def _at_once(node: ast.AST) -> Iterator[ast.AST]:
    """What runs with the cell: all but the bodies of its functions."""
    yield node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        for child in ast.iter_child_nodes(node):
            yield from _at_once(child)


def _named_at_once(tree: ast.Module) -> set[str]:
    return {node.id for node in _at_once(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _defines_reader(tracer: Tracer, entry: _Entry, name: str, known: set[str]) -> bool:
    nodes = [node for node in entry.tree.body if name in targets(node)]
    reads = any(tracer.reads_environment(inner) for node in nodes for inner in ast.walk(node))
    return reads or not known.isdisjoint(entry.reading.defines[name])


def _is_local(module: str) -> bool:
    """Whether a module lies beside the notebook, and not with the packages."""
    if module in sys.stdlib_module_names or module in ("agent_kernel", "__main__"):
        return False
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return True
    paths = [] if found is None else [found.origin or "", *(found.submodule_search_locations or ())]
    return not any("site-packages" in path or "dist-packages" in path for path in paths)


def _keeps_nothing(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    if _INDIRECT.search(ast.unparse(node)):
        return False
    if isinstance(node, ast.ClassDef):
        return all(
            isinstance(part, (ast.FunctionDef, ast.Pass))
            or (isinstance(part, (ast.Expr, ast.Assign, ast.AnnAssign)) and isinstance(part.value, ast.Constant | None))
            for part in node.body
        )
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    return not node.decorator_list and all(isinstance(one, ast.Constant) for one in defaults)


def _texts(tree: ast.Module) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)} - {
        "",
        "w",
        "r",
    }


def _written(source: str) -> set[str]:
    """The file of `%%writefile`."""
    found = re.match(r"\s*%%(?:writefile|file)\s+(?:-a\s+)?(\S+)", source)
    return {found[1]} if found else set()


def _called(tree: ast.Module) -> set[str]:
    called = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        one.attr if isinstance(one, ast.Attribute) else one.id
        for one in called
        if isinstance(one, (ast.Attribute, ast.Name))
    }
