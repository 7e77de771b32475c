"""`show`: one commit, or one variable as a commit holds it. Nothing is loaded and nothing is run."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import Commit, ObjectId, hex_of, short, split_path
from agent_kernel.session.history import size_of
from agent_kernel.values import summaries
from agent_kernel.verbs import describe
from agent_kernel.verbs.output import Block, Code, Json, Line, Opens, Result, Table
from agent_kernel.verbs.outputs import ShownOutputs, outputs_of
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean, clean_lines, duration, exact_time, plural, size_text

__all__ = ["show", "show_arguments"]


def show_arguments(parser: Parser) -> None:
    parser.takes("rev", "path", help="a commit (HEAD unless told), or REF:NAME for a variable in it", default="HEAD")
    what = parser.one_of()
    parser.flag("--outputs", help="all that the cell showed, not only its first lines", group=what)
    parser.flag("--environment", help="interpreter, platform, working directory and installed packages", group=what)
    parser.flag(
        "--notebook", help="the notebook's cells, code and text, as they were open or saved last then", group=what
    )
    parser.explains(describe.SIZES)


def show(scope: Scope, options: Namespace) -> Result:
    rev, name = split_path(options.rev)
    found, commit = scope.commit(rev or "HEAD")
    if name is not None:
        if not name:
            raise UsageProblem(f"say which variable: {rev}:NAME")
        if options.outputs or options.environment or options.notebook:
            raise UsageProblem(f"a variable has no outputs, environment or notebook; they are those of {rev or 'HEAD'}")
        return _variable(scope, found, commit, name)
    if options.environment:
        from agent_kernel.verbs.environments import ShownEnvironment, environment_of

        return ShownEnvironment(found, commit, environment_of(scope.repo, commit))
    if options.notebook:
        from agent_kernel.verbs.pages import ShownPage, page_of

        return ShownPage(found, commit, page_of(scope.repo, commit))
    return _commit(scope, found, commit, full=options.outputs)


def _commit(scope: Scope, found: ObjectId, commit: Commit, *, full: bool) -> ShownCommit:
    tree = scope.repo.tree(commit.tree)
    entries = {change.name: tree.get(change.name) for change in commit.changed}
    lines = {name: describe.entry_line(scope.repo, entry) or "removed" for name, entry in entries.items()}
    outlines = {name: describe.entry_outline(scope.repo, entry) for name, entry in entries.items()}
    refs = describe.decorations(scope.repo, scope.head()).get(found, ())
    more = scope.typed("show", short(found), "--outputs")
    return ShownCommit(found, describe.shown(commit), refs, lines, outlines, outputs_of(scope.repo, commit), full, more)


@dataclass(frozen=True)
class ShownCommit(Result):
    """A commit with its code and what it did to each variable."""

    id: ObjectId
    commit: Commit
    refs: tuple[str, ...]
    lines: dict[str, str]  # changed name: its value in one line
    outlines: dict[str, str]  # and without anything that it holds
    outputs: ShownOutputs | None
    full: bool  # all outputs, not only their first lines
    how_to_see_more: str

    @property
    def opens(self) -> Opens:
        return Opens(commit=hex_of(self.id))

    def to_json(self) -> Json:
        values: dict[str, Json] = dict(self.lines)
        outputs: Json = self.outputs.to_json() if self.outputs is not None else []
        said = describe.commit_json(self.id, self.commit)
        return {**said, "refs": list(self.refs), "values": values, "outputs": outputs}

    def outline(self) -> ShownCommit:
        outputs = self.outputs.without_code() if self.full and self.outputs is not None else None
        return replace(self, commit=describe.without_code(self.commit), lines=self.outlines, outputs=outputs)

    def blocks(self) -> Sequence[Block]:
        refs = f" ({', '.join(self.refs)})" if self.refs else ""
        shown: list[Block] = [Line(f"commit {hex_of(self.id)}{refs}", strong=True), Table(("", ""), self._facts())]
        if text := self._text():
            shown += [Line(""), Code(text)]
        if self.outputs is not None:
            shown += [
                Line(""),
                Line("Output:"),
                *self.outputs.blocks(full=self.full, how_to_see_more=self.how_to_see_more),
            ]
        if self.commit.changed:
            shown += [Line(""), Table(("", "", ""), self._rows(), flexible=2)]
        return [*shown, *(Line(f"! {line}") for line in describe.unsaved_lines(self.commit.unsaved))]

    def _facts(self) -> tuple[tuple[str, str], ...]:
        commit = self.commit
        agent = " (agent)" if commit.author.kind == "agent" else ""
        facts = [("Author:", clean(commit.author.name) + agent), ("Date:", _date(commit))]
        if len(commit.parents) > 1:
            facts.append(("Merge:", " ".join(short(parent) for parent in commit.parents)))
        if commit.cell:
            facts.append(("Cell:", _cell(commit)))
        if commit.restores is not None:
            facts.append(("Restores:", short(commit.restores)))
        if commit.labels:
            facts.append(("Labels:", clean(", ".join(commit.labels))))
        return tuple(facts)

    def _text(self) -> str:
        parts = [self.commit.message, self.commit.cell.source if self.commit.cell else ""]
        return "\n\n".join(clean_lines(part.strip("\n")) for part in parts if part.strip())

    def _rows(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(
            ("−" if change.how == "-" else change.how, clean(change.name), self.lines[change.name])
            for change in self.commit.changed
        )


def _date(commit: Commit) -> str:
    return f"{exact_time(commit.time_ns, commit.utc_offset_s):%a %d %b %Y %H:%M:%S %z}"


def _cell(commit: Commit) -> str:
    assert commit.cell is not None
    how = f"{commit.status}: {commit.cell.error}" if commit.cell.error else commit.status
    return clean(", ".join(part for part in (describe.prompt(commit), duration(commit.cell.duration_s), how) if part))


def _variable(scope: Scope, found: ObjectId, commit: Commit, name: str) -> ShownVariable:
    entry = scope.repo.tree(commit.tree).get(name)
    if entry is None or name.startswith("\0"):
        raise NameNotFoundError(name, f"commit {short(found)}", describe.names_close_to(scope.repo, commit, name))
    last = next(iter(scope.repo.log_of_name(found, name)), (found, commit))
    summary = describe.summary_of(scope.repo, entry)
    return ShownVariable(name, found, summary, size_of(scope.repo, entry), last)


@dataclass(frozen=True)
class ShownVariable(Result):
    """One variable as a commit holds it, from its summary."""

    name: str
    commit: ObjectId
    summary: summaries.Summary | None
    size: int
    last: tuple[ObjectId, Commit]  # the commit that made it what it is

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "commit": hex_of(self.commit),
            "size": self.size,
            "changed_in": hex_of(self.last[0]),
            "summary": _summary_json(self.summary) if self.summary else None,
        }

    def blocks(self) -> Sequence[Block]:
        line = clean(summaries.line(self.summary)) if self.summary else "not described"
        facts = [("Commit:", short(self.commit)), ("Size:", size_text(self.size))]
        facts.append(("Changed in:", describe.label(*self.last)))
        table = _first_rows(self.summary) if self.summary and self.summary.columns else []
        return [Line(f"{clean(self.name)}: {line}", strong=True), Table(("", ""), tuple(facts)), *table]


def _summary_json(summary: summaries.Summary) -> Json:
    return {
        "kind": summary.kind,
        "type": summary.type,
        "text": summary.text,
        "shape": list(summary.shape),
        "dtype": summary.dtype,
        "size_bytes": summary.size_bytes,
        "columns": [{"name": column.name, "of": column.of} for column in summary.columns],
        "rows": [list(row) for row in summary.rows],
        "note": summary.note,
    }


def _kind(column: summaries.Column, summary: summaries.Summary) -> str:
    """What a column is: its dtype, and of a Boolean one how often each value occurs."""
    return clean(", ".join(filter(None, (column.of, summary.counts.get(column.name, "")))))


def _first_rows(summary: summaries.Summary) -> list[Block]:
    """The first rows of a table with what its columns are below, or the first entries of something else, as far as both are known."""
    known = max(map(len, summary.rows), default=len(summary.columns))
    columns = summary.columns[: known or None]
    names = tuple(clean(column.name) for column in columns)
    told = tuple(_kind(column, summary) for column in columns)
    rows = [tuple(map(clean, row))[: len(names)] for row in summary.rows]
    shown = Table(names, (*(row + ("",) * (len(names) - len(row)) for row in rows), told))
    more = summaries.count_of_columns(summary) - len(names)
    if more <= 0:
        return [shown]
    return [shown, Line(f"… and {plural(more, f'more {summaries.noun_of_columns(summary)}')}")]
