"""`show` and `diff`: one commit, one variable as a commit holds it, and what differs between two commits.

All of it comes from previews and records. Nothing is loaded and nothing is run.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.commands import describe
from agent_kernel.commands.describe import (
    SIGNS,
    Block,
    Code,
    Differing,
    Json,
    Line,
    Opens,
    Result,
    Table,
    most_interesting_first,
)
from agent_kernel.commands.scope import Parser, RowLines, Scope, UsageProblem
from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import (
    Commit,
    Entry,
    Kind,
    NameDiff,
    ObjectId,
    Output,
    Outputs,
    Representation,
    hex_of,
    read_outputs,
    read_representation,
    short,
    split_path,
)
from agent_kernel.session import history
from agent_kernel.session.history import changes_between, size_of, summary_of
from agent_kernel.session.provenance import (
    Environment,
    NotebookCell,
    NotebookSnapshot,
    decode_environment,
    read_notebook,
)
from agent_kernel.text import clean, clean_lines, duration, exact_time, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.session import Repository


# -- `diff`, variable by variable, and what they ran on


def diff_arguments(parser: Parser) -> None:
    parser.takes("old", "ref", help="compare from here (default: HEAD~1)")
    parser.takes("new", "ref", help="to here (default: HEAD)", default="HEAD")
    parser.takes("name", "name", help="only this variable or record (Note:a)")
    parser.flag("--environment", help="compare what they ran on: the interpreter and the installed packages")
    parser.names("only these variables and records")
    parser.explains(
        f"{describe.SIZES}\n\nagent-kernel diff ONE OTHER.agentnb, in a shell, compares the last states of a store or bundle and of a bundle."
    )


def diff(scope: Scope, options: Namespace) -> Result:
    new, commit = scope.commit(options.new)
    old = scope.resolve(options.old) if options.old is not None else commit.parents[0] if commit.parents else None
    names: list[str] = [*([options.name] if options.name else []), *options.names]
    if options.environment:
        if names:
            raise UsageProblem("--environment compares packages, and takes no names of variables")
        return replace(_environments(scope.repo, old, (new, commit)), sides=scope.sides)
    differences = most_interesting_first(scope.repo, find_differences(scope.repo, old, new))
    if names:
        _check_names(scope.repo, names, old, new)
        differences = [one for one in differences if one.name in names]
    rows = tuple(_difference(scope, one) for one in differences)
    before = None if old is None else (old, scope.repo.commit_at(old))
    asked = tuple(name for name in names if _is_record(scope.repo, name, (old, new)))
    only = names[0] if len(names) == 1 and not asked else ""
    records = () if names else describe.changed_records(scope.repo, old, new)
    changes = describe.record_changes(scope.repo, old, new, asked) if records or asked else ()
    return Differences(
        before, (new, commit), rows, only, sides=scope.sides, records=records, record_changes=changes, asked=asked
    )


def find_differences(repo: Repository, old: ObjectId | None, new: ObjectId) -> list[Differing]:
    """What differs, and the names of classes that were altered in place, whose own entries are the same."""
    found = repo.diff(old, new)
    trees = repo.tree_at(old), repo.tree_at(new)
    known = {one.name for one in found}
    altered = {change.name for change in changes_between(repo, *trees)} - known
    more = [NameDiff(name, trees[0].get(name), trees[1].get(name)) for name in altered]
    ordered = sorted([*found, *more], key=lambda one: one.name)
    touched = _find_touched(repo, old, new) if any(map(_may_be_the_same, ordered)) else None
    return [Differing(one.name, _how(one, touched), one.old, one.new) for one in ordered]


def _may_be_the_same(one: NameDiff) -> bool:
    """Whether its value may be the same though its entry is not: only of what is saved together with other names."""
    if one.old is None or one.new is None:
        return False
    return bool(one.old.alias_group or one.new.alias_group) or one.old.is_same_value(one.new)


def _how(one: NameDiff, touched: set[str] | None) -> str:
    if one.old is None or one.new is None:
        return "+" if one.old is None else "-"
    # It is saved together with something that changed, so its entry is another one; no commit changed its value.
    return "=" if _may_be_the_same(one) and touched is not None and one.name not in touched else "~"


def _heads(old: tuple[ObjectId, Commit] | None, new: tuple[ObjectId, Commit], sides: tuple[str, str]) -> list[str]:
    """What the two sides are: commits, and the files that they are in where there are two."""
    labels = history.label(*old) if old else "nothing", history.label(*new)
    named = (f"{clean(side)}: {label}" if side else label for side, label in zip(sides, labels, strict=True))
    return [f"{sign} {text}" for sign, text in zip(("---", "+++"), named, strict=True)]


def _environments(repo: Repository, old: ObjectId | None, new: tuple[ObjectId, Commit]) -> EnvironmentDifferences:

    before = None if old is None else (old, repo.commit_at(old))
    was = environment_of(repo, None if before is None else before[1])
    return EnvironmentDifferences(before, new, was, environment_of(repo, new[1]))


def _check_names(repo: Repository, names: Sequence[str], old: ObjectId | None, new: ObjectId) -> None:
    commits = [repo.commit_at(found) for found in (old, new) if found is not None]
    for name in names:
        if not any(name in repo.tree(commit.tree) for commit in commits) and not _is_record(repo, name, (old, new)):
            raise NameNotFoundError(name, "either commit", describe.names_close_to(repo, commits[-1], name))


def _is_record(repo: Repository, name: str, commits: Sequence[ObjectId | None]) -> bool:
    """Whether a name is that of a record in one of the commits, and not of a variable."""
    is_variable = any(name in repo.tree_at(commit) for commit in commits)
    return not is_variable and any(describe.has_record(repo, commit, name) for commit in commits)


def _find_touched(repo: Repository, old: ObjectId | None, new: ObjectId) -> set[str] | None:
    """Find the names that some commit between the two says it changed. Returns None if it may be all of them."""
    if old is None:
        return None
    ways = [*repo.history.missing_from(new, [old]), *repo.history.missing_from(old, [new])]
    return {change.name for found in ways for change in repo.commit_at(found).changed}


def _difference(scope: Scope, one: Differing) -> Difference:
    repo = scope.repo
    if one.how == "=":
        line = describe.entry_line_with_unsaved(repo, one.name, one.new)
        return Difference(one.name, "=", line, line)
    old, new = (
        describe.entry_line_with_unsaved(repo, one.name, one.old),
        describe.entry_line_with_unsaved(repo, one.name, one.new),
    )
    details = details_of(repo, one.old, one.new, f"{old} → {new}", scope.row_lines)
    outlines = describe.entry_outline(repo, one.name, one.old), describe.entry_outline(repo, one.name, one.new)
    return Difference(one.name, one.how, old, new, details, outlines)


def details_of(
    repo: Repository, old: Entry | None, new: Entry | None, line_above: str = "", row_lines: RowLines | None = None
) -> tuple[str, ...]:
    """A few lines about where two stored versions differ, beside a line that says the two in short.

    Args:
        row_lines: tells the rows of a table apart by their labels, or by what they hold where these were given anew.
            Without it only the first rows are compared, as they were noted.
    """
    if old is None or new is None:
        return ()
    if old.is_same_value(new):
        return ("the class was altered in place",)
    before, after = summary_of(repo, old), summary_of(repo, new)
    if before is None or after is None or before.kind == after.kind == "scalar":
        return ()  # of a scalar the line above has said it all
    texts = {clean(before.text), clean(after.text)}
    both = {" → ".join(map(clean, (before.text, after.text))), *(f"{sign} {text}" for sign in "−+" for text in texts)}
    again = both if all(text in line_above for text in texts) else set[str]()
    lines = tuple(line for line in previews.lines_diff(before, after) if line not in again)
    rows = row_lines(repo, old, new) if row_lines is not None else None
    if rows is not None:
        return (
            *(line for line in lines if not line.startswith("row ") and not line.endswith(" in the first rows")),
            *rows,
        )
    if before.shape == after.shape and before.type == after.type and not after.masked:
        from agent_kernel.commands.contents import differences

        found = differences(repo, old, new, after)
        # The first rows of a summary say what stood there; where else, the stored pieces say.
        return (*(line for line in lines if "may differ" not in line), *found) if found else lines
    return lines


@dataclass(frozen=True)
class Difference:
    """One variable on both sides; an empty text: it is not there. `how`: "=" where only what it shares changed."""

    name: str
    how: str
    old: str
    new: str
    details: tuple[str, ...] = ()
    outlines: tuple[str, str] = ("", "")  # of both sides, without anything that they hold

    def outline(self) -> Difference:
        return Difference(self.name, self.how, *self.outlines)


@dataclass(frozen=True)
class Differences(Result):
    """Everything that differs between two commits."""

    old: tuple[ObjectId, Commit] | None  # None: the new one is the first there is
    new: tuple[ObjectId, Commit]
    rows: tuple[Difference, ...]
    name: str = ""  # the one variable that was asked for
    sides: tuple[str, str] = ("", "")  # the files that they are in, where there are two
    records: tuple[str, ...] = ()  # that differ
    record_changes: tuple[tuple[str, str, str], ...] = ()  # of the first of them: how, the name, the fields that differ
    asked: tuple[str, ...] = ()  # names of records that were asked for

    @property
    def opens(self) -> Opens:
        new = hex_of(self.new[0])
        return Opens(commit=new) if self.old is None else Opens(compared=(hex_of(self.old[0]), new), name=self.name)

    def to_json(self) -> Json:
        rows: list[Json] = [
            {"name": row.name, "how": row.how, "old": row.old, "new": row.new, "details": list(row.details)}
            for row in self.rows
        ]
        old = hex_of(self.old[0]) if self.old else None
        return {
            "old": old,
            "new": hex_of(self.new[0]),
            "changed": rows,
            "records": list(self.records),
            "record_changes": _record_changes_json(self.record_changes),
        }

    def outline(self) -> Differences:
        old = None if self.old is None else (self.old[0], history.without_code(self.old[1]))
        new = self.new[0], history.without_code(self.new[1])
        changes = _without_fields(self.record_changes)
        return replace(self, old=old, new=new, rows=tuple(row.outline() for row in self.rows), record_changes=changes)

    def blocks(self) -> Sequence[Block]:
        head = [Line(text, style="strong") for text in _heads(self.old, self.new, self.sides)]
        records = [Line(f"records: {describe.records_line(self.records)}")] if self.records else []
        records += [_record_line(*change) for change in self.record_changes if change[2] or self.asked]
        if not self.rows:
            nothing = f"no difference in {clean(' or '.join(self.asked))}" if self.asked else "no variable differs"
            return [*head, *([] if self.asked and records else [Line(nothing)]), *records]
        variables = [block for row in self.rows for block in _blocks(row)]
        return [*head, *variables, *records, Line(_count(self.rows), style="quiet")]


def _record_line(how: str, name: str, text: str) -> Line:
    sign = f"{'−' if how == '-' else how} {name}"
    return Line(f"{sign}: {text}" if text else sign, style=SIGNS[how], styled=len(sign) if how == "~" else None)


def _record_changes_json(changes: Sequence[tuple[str, str, str]]) -> list[Json]:
    return [{"how": how, "name": name, "fields": text} for how, name, text in changes]


def _without_fields(changes: Sequence[tuple[str, str, str]]) -> tuple[tuple[str, str, str], ...]:
    """What a notebook's file says of records: which of them changed, and nothing that they hold."""
    return tuple((how, name, "") for how, name, _ in changes)


def _blocks(row: Difference) -> list[Block]:
    text = f"{row.old} → {row.new}" if row.how == "~" and row.old != row.new else row.new or row.old
    sign = f"{'−' if row.how == '-' else row.how} {clean(row.name)}:"
    if row.how == "=":
        return [Line(f"{sign} the same value, saved together with what changed", style=SIGNS["="])]
    line = Line(f"{sign} {text}", style=SIGNS[row.how], styled=len(sign) if row.how == "~" else None)
    return [line, Code(clean_lines("\n".join(row.details)), signed=True)] if row.details else [line]


def _count(rows: Sequence[Difference]) -> str:
    kinds = [(how, sum(row.how == how for row in rows)) for how in "~+-="]
    words = {"~": "changed", "+": "added", "-": "removed", "=": "the same"}
    return f"{plural(len(rows), 'variable')}: " + ", ".join(f"{count} {words[how]}" for how, count in kinds if count)


# -- what a commit ran on, and what differs between two such environments


def environment_of(repo: Repository, commit: Commit | None) -> Environment | None:
    """What was noted when the commit was made; None if nothing was."""
    if commit is None or commit.environment is None:
        return None
    return decode_environment(repo.objects.get(Kind.SMALL, commit.environment))


def environment_changes(before: Environment | None, after: Environment | None) -> list[tuple[str, str, str, str]]:
    """What differs, the interpreter and its platform first, then by name: the sign, the name, the version before and after."""
    old, new = (_all(environment) for environment in (before, after))
    first = environment_facts(Environment())
    return [
        ("+" if name not in old else "-" if name not in new else "~", name, old.get(name, ""), new.get(name, ""))
        for name in sorted(old.keys() | new.keys(), key=lambda name: (name not in first, name))
        if old.get(name) != new.get(name)
    ]


def environment_facts(environment: Environment) -> dict[str, str]:
    return {
        "python": environment.python,
        "implementation": environment.implementation,
        "platform": environment.platform,
    }


@dataclass(frozen=True)
class EnvironmentReport(Result):
    """The environment of one commit."""

    id: ObjectId
    commit: Commit
    environment: Environment | None

    def to_json(self) -> Json:
        where: dict[str, Json] = {"commit": hex_of(self.id), "cwd": self.commit.cwd or None}
        if self.environment is None:
            return {**where, "environment": None}
        facts: dict[str, Json] = {**environment_facts(self.environment), "packages": list(self.environment.packages)}
        return {**where, "environment": facts}

    def blocks(self) -> Sequence[Block]:
        head = Line(history.label(self.id, self.commit), strong=True)
        directory = (("Working directory:", clean(self.commit.cwd)),) if self.commit.cwd else ()
        if self.environment is None:
            return [head, Table(("", ""), directory), Line("its environment was not recorded")]
        rows = tuple(
            (f"{name.capitalize()}:", clean(value)) for name, value in environment_facts(self.environment).items()
        )
        rows += directory
        packages = [tuple(map(clean, one.split("==", 1))) for one in self.environment.packages]
        count = plural(len(packages), "package") if packages else "its packages were not recorded"
        table = [Table(("Package", "Version"), tuple(packages))] if packages else []
        return [head, Table(("", ""), rows), Line(count), *table]


@dataclass(frozen=True)
class EnvironmentDifferences(Result):
    """What is different where a later commit ran."""

    old: tuple[ObjectId, Commit] | None
    new: tuple[ObjectId, Commit]
    before: Environment | None
    after: Environment | None
    sides: tuple[str, str] = ("", "")

    def to_json(self) -> Json:
        rows: list[Json] = [
            {"name": name, "how": how, "old": old or None, "new": new or None}
            for how, name, old, new in environment_changes(self.before, self.after)
        ]
        return {"old": hex_of(self.old[0]) if self.old else None, "new": hex_of(self.new[0]), "environment": rows}

    def blocks(self) -> Sequence[Block]:
        head = [Line(text) for text in _heads(self.old, self.new, self.sides)]
        if self.before is None or self.after is None:
            return [*head, Line("the environment of one of them was not recorded")]
        rows = tuple(
            ("−" if how == "-" else how, clean(name), " → ".join(clean(version) for version in (old, new) if version))
            for how, name, old, new in environment_changes(self.before, self.after)
        )
        return [*head, Table(("", "", ""), rows)] if rows else [*head, Line("the environment is the same")]


def _all(environment: Environment | None) -> dict[str, str]:
    if environment is None:
        return {}
    packages = dict(one.split("==", 1) for one in environment.packages)
    return {name: version for name, version in environment_facts(environment).items() if version} | packages


# -- `show`, and what a cell showed, in words: text as text, everything else by its type and size
#
# Stored HTML, SVG and JavaScript never become markup here; of a picture only the size is told. Escape sequences are
# stripped, and what looks like a secret, or is what the cell's own code gave away as one, is masked.

_LINES_EACH, _LINES = 4, 12  # of the brief face
_WIDTH = 400  # characters of a line in it
# In the order in which one of them stands for the others.
_READABLE = ("text/plain", "text/markdown", "text/latex", "text/html", "image/svg+xml", "application/json")


@dataclass(frozen=True)
class MaskedOutputs:
    """The outputs of one commit's cell."""

    outputs: Outputs
    hidden: frozenset[str]  # what the cell's code gave away
    read: Callable[[Representation], bytes | None]

    def without_code(self) -> MaskedOutputs:
        """The same, of errors only what they are called: a traceback quotes code."""
        found = tuple(
            msgspec.structs.replace(one, traceback=(), text="") if one.kind == "error" else one
            for one in self.outputs.outputs
        )
        return replace(self, outputs=msgspec.structs.replace(self.outputs, outputs=found))

    def blocks(self, *, full: bool, how_to_see_more: str) -> list[Block]:
        """All of it, or its first lines."""
        texts = [text for output in self.outputs.outputs if (text := self._text(output))]
        if full:
            return [Code(text) for text in texts]
        lines: list[str] = []
        left_out = 0
        for text in texts:
            own = text.splitlines()
            room = max(0, min(_LINES_EACH, _LINES - len(lines)))
            visible = own if len(own) <= room else own[:room]
            left_out += len(own) - len(visible)
            lines += [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in visible]
        more = [Line(f"{plural(left_out, 'more line')}: {how_to_see_more}")] if left_out else []
        return [*([Code("\n".join(lines))] if lines else []), *more]

    def to_json(self) -> Json:
        return [self._json(output) for output in self.outputs.outputs]

    def _text(self, output: Output) -> str:
        text = self._text_of(output)
        if output.kind == "update_display_data":
            text = f"(in place of what an earlier cell showed)\n{text}"
        elif output.under is not None:
            text = f"(under [{output.under}])\n{text}"
        elif output.widget:
            text = f"(in a widget)\n{text}"
        return text.rstrip("\n")

    def _text_of(self, output: Output) -> str:
        if output.kind == "gap":
            return f"… {size_text(output.size)} left out …"
        if output.kind == "stream":
            return self.clean(output.text)
        if output.kind == "error":
            return self.clean("\n".join(output.traceback) or f"{output.name}: {output.text}".rstrip(": "))
        best = min(
            (
                representation
                for representation in output.representations
                if representation.mime in _READABLE and representation.is_kept and representation.form != "bytes"
            ),
            key=lambda representation: _READABLE.index(representation.mime),
            default=None,
        )
        others = ", ".join(
            _size(representation) for representation in output.representations if representation is not best
        )
        text = self.content(best) if best is not None else ""
        return "\n".join(part for part in (text, f"({others})" if others else "") if part)

    def content(self, representation: Representation) -> str:
        """The text of one MIME type as it may be shown; nothing if it was left out."""
        content = self.read(representation)
        return "" if content is None else self.clean(content.decode("utf-8", "replace"))

    def clean(self, text: str) -> str:
        """The text without secrets and control characters."""
        return previews.mask_text(clean_lines(text), self.hidden)

    def _json(self, output: Output) -> Json:
        found: dict[str, Json] = {"kind": output.kind}
        if output.kind == "gap":
            return found | {"bytes": output.size}
        named = {"name": output.name, "text": self.clean(output.text), "display_id": output.display}
        found |= {key: value for key, value in named.items() if value}
        if output.traceback:
            found["traceback"] = [self.clean(line) for line in output.traceback]
        if output.number is not None:
            found["number"] = output.number
        if output.under is not None:
            found["under"] = output.under
        if output.widget:
            found["widget"] = output.widget
        if output.representations:
            found["faces"] = [self._representation_json(representation) for representation in output.representations]
        return found

    def _representation_json(self, representation: Representation) -> Json:
        text = (
            {"text": self.content(representation)} if representation.form != "bytes" and representation.is_kept else {}
        )
        return {"mime": representation.mime, "size": representation.size, "kept": representation.is_kept, **text}


def outputs_of(repo: Repository, commit: Commit) -> MaskedOutputs | None:
    """What the commit's cell showed; None if nothing was kept."""
    cell = commit.cell
    if cell is None or cell.outputs is None:
        return None
    _, hidden = previews.mask_code(cell.source)
    return MaskedOutputs(
        read_outputs(repo.objects, cell.outputs),
        hidden,
        lambda representation: read_representation(repo.objects, representation),
    )


def _size(representation: Representation) -> str:
    left_out = "" if representation.is_kept else " left out"
    return f"{clean_lines(representation.mime)} {size_text(representation.size)}{left_out}"


def show_arguments(parser: Parser) -> None:
    parser.takes("rev", "path", help="a commit (default: HEAD), or REF:NAME for a variable or a record in it")
    what = parser.one_of()
    parser.flag("--outputs", help="all that the cell showed, not only its first lines", group=what)
    parser.flag("--environment", help="interpreter, platform, working directory and installed packages", group=what)
    parser.flag(
        "--notebook", help="the notebook's cells, code and text, as they were open or saved last then", group=what
    )
    parser.explains(
        f"{describe.SIZES}\n\nSTORE can be a bundle, STUDY.agentnb. Without a ref all of it is verified and shown."
    )


def show(scope: Scope, options: Namespace) -> Result:
    rev, name = split_path(options.rev or "HEAD")
    found, commit = scope.commit(rev or "HEAD")
    if name is not None:
        if not name:
            raise UsageProblem(f"say which variable: {rev}:NAME")
        if options.outputs or options.environment or options.notebook:
            raise UsageProblem(f"a variable has no outputs, environment or notebook; they are those of {rev or 'HEAD'}")
        return _variable(scope, found, commit, name)
    if options.environment:
        # JOINED

        return EnvironmentReport(found, commit, environment_of(scope.repo, commit))
    if options.notebook:
        return DocumentReport(found, commit, read_notebook(scope.repo.objects, commit))
    return _commit(scope, found, commit, full=options.outputs)


def _commit(scope: Scope, found: ObjectId, commit: Commit, *, full: bool) -> CommitReport:
    tree = scope.repo.tree(commit.tree)
    entries = {change.name: tree.get(change.name) for change in commit.changed}
    lines = {name: describe.entry_line(scope.repo, entry) or "removed" for name, entry in entries.items()}
    outlines = {name: describe.entry_outline(scope.repo, name, entry) for name, entry in entries.items()}
    refs = describe.decorations(scope.repo, scope.head()).get(found, ())
    more = scope.spell_command("show", short(found), "--outputs")
    parent = next(iter(commit.parents), None)
    records = describe.changed_records(scope.repo, parent, found)
    return CommitReport(
        found,
        history.mask_commit(commit),
        refs,
        lines,
        outlines,
        outputs_of(scope.repo, commit),
        full,
        more,
        describe.holders_among(scope.repo, commit.tree, commit.unsaved),
        records,
        describe.record_changes(scope.repo, parent, found) if records else (),
    )


@dataclass(frozen=True)
class CommitReport(Result):
    """A commit with its code and what it did to each variable."""

    id: ObjectId
    commit: Commit
    refs: tuple[str, ...]
    lines: dict[str, str]  # changed name: its value in one line
    outlines: dict[str, str]  # and without anything that it holds
    outputs: MaskedOutputs | None
    full: bool  # all outputs, not only their first lines
    how_to_see_more: str
    holders: frozenset[str] = frozenset()  # of what is not saved: see `describe.holders_among`
    records: tuple[str, ...] = ()  # that changed
    record_changes: tuple[
        tuple[str, str, str], ...
    ] = ()  # of the first of them: how, the name, the fields that changed

    @property
    def opens(self) -> Opens:
        return Opens(commit=hex_of(self.id))

    def to_json(self) -> Json:
        values: dict[str, Json] = dict(self.lines)
        outputs: Json = self.outputs.to_json() if self.outputs is not None else []
        facts = describe.commit_json(self.id, self.commit)
        return {
            **facts,
            "refs": list(self.refs),
            "values": values,
            "outputs": outputs,
            "records": list(self.records),
            "record_changes": _record_changes_json(self.record_changes),
        }

    def outline(self) -> CommitReport:
        outputs = self.outputs.without_code() if self.full and self.outputs is not None else None
        commit, changes = history.without_code(self.commit), _without_fields(self.record_changes)
        return replace(self, commit=commit, lines=self.outlines, outputs=outputs, record_changes=changes)

    def blocks(self) -> Sequence[Block]:
        refs = f" ({', '.join(self.refs)})" if self.refs else ""
        blocks: list[Block] = [Line(f"commit {hex_of(self.id)}{refs}", strong=True), Table(("", ""), self._facts())]
        if text := self._text():
            blocks += [Line(""), Code(text)]
        if self.outputs is not None:
            blocks += [
                Line(""),
                Line("Output:"),
                *self.outputs.blocks(full=self.full, how_to_see_more=self.how_to_see_more),
            ]
        if rows := (*self._rows(), *self._record_rows()):
            blocks += [Line(""), Table(("", "", ""), rows, flexible=2)]
        return [*blocks, *(Line(f"! {line}") for line in describe.unsaved_lines(self.commit.unsaved, self.holders))]

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
        if self.records:
            facts.append(("Records:", describe.records_line(self.records)))
        return tuple(facts)

    def _text(self) -> str:
        parts = [self.commit.message, self.commit.cell.source if self.commit.cell else ""]
        return "\n\n".join(clean_lines(part.strip("\n")) for part in parts if part.strip())

    def _rows(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(
            ("−" if change.how == "-" else change.how, clean(change.name), self.lines[change.name])
            for change in self.commit.changed
        )

    def _record_rows(self) -> tuple[tuple[str, str, str], ...]:
        return tuple(("−" if how == "-" else how, name, text) for how, name, text in self.record_changes if text)


def _date(commit: Commit) -> str:
    return f"{exact_time(commit.time_ns, commit.utc_offset_s):%a %d %b %Y %H:%M:%S %z}"


def _cell(commit: Commit) -> str:
    assert commit.cell is not None
    how = f"{commit.status}: {commit.cell.error}" if commit.cell.error else commit.status
    return clean(", ".join(part for part in (history.prompt(commit), duration(commit.cell.duration_s), how) if part))


def _record(repo: Repository, found: ObjectId, name: str) -> RecordReport:
    from agent_kernel.records.merge import field_texts, read_row
    from agent_kernel.records.trees import history_from, key_of

    row = read_row(repo, found, name)
    assert row is not None
    last = next(history_from(repo, found, key_of(name)), None)
    made = found if last is None else repo.resolve(last.commit)
    fields = tuple((clean(field), clean(text)) for field, text in field_texts(name, row))
    return RecordReport(clean(previews.mask_text(name)), found, row.version, fields, (made, repo.commit_at(made)))


@dataclass(frozen=True)
class RecordReport(Result):
    """One record as a commit holds it."""

    name: str
    commit: ObjectId
    version: int
    fields: tuple[tuple[str, str], ...]
    last: tuple[ObjectId, Commit]  # the commit that made it what it is

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "commit": hex_of(self.commit),
            "version": self.version,
            "changed_in": hex_of(self.last[0]),
            "fields": dict(self.fields),
        }

    def blocks(self) -> Sequence[Block]:
        facts = (("Commit:", short(self.commit)), ("Changed in:", history.label(*self.last)))
        head = Line(f"{self.name}, version {self.version}", strong=True)
        return [head, Table(("", ""), facts), Line(""), Table(("", ""), self.fields, flexible=1)]


def _variable(scope: Scope, found: ObjectId, commit: Commit, name: str) -> VariableReport | RecordReport:
    entry = scope.repo.tree(commit.tree).get(name)
    if entry is None and describe.has_record(scope.repo, found, name):
        return _record(scope.repo, found, name)
    if entry is None or name.startswith("\0"):
        raise NameNotFoundError(name, f"commit {short(found)}", describe.names_close_to(scope.repo, commit, name))
    last = next(iter(scope.repo.log_of_name(found, name)), (found, commit))
    summary = summary_of(scope.repo, entry)
    missing = describe.not_saved(scope.repo, name, entry)
    return VariableReport(name, found, summary, size_of(scope.repo, entry), last, missing)


@dataclass(frozen=True)
class VariableReport(Result):
    """One variable as a commit holds it, from its summary."""

    name: str
    commit: ObjectId
    summary: previews.Preview | None
    size: int
    last: tuple[ObjectId, Commit]  # the commit that made it what it is
    missing: describe.NotSaved | None = None

    @property
    def _is_missing(self) -> bool:
        return self.missing is not None and self.missing.is_whole

    def to_json(self) -> Json:
        return {
            "name": self.name,
            "commit": hex_of(self.commit),
            "size": 0 if self._is_missing else self.size,
            "not_saved": self.missing.sentence.partition(": ")[2] if self.missing else None,
            "changed_in": hex_of(self.last[0]),
            "summary": _summary_json(self.summary) if self.summary else None,
        }

    def blocks(self) -> Sequence[Block]:
        line = clean(previews.line(self.summary)) if self.summary else "not described"
        facts = [("Commit:", short(self.commit))]
        # What stands in the place of a value that is not saved at all has a size, which nobody asks about.
        facts += [] if self._is_missing else [("Size:", size_text(self.size))]
        facts.append(("Changed in:", history.label(*self.last)))
        line += f" ({self.missing.sentence})" if self.missing else ""
        table = _first_rows(self.summary) if self.summary and self.summary.columns else []
        return [Line(f"{clean(self.name)}: {line}", strong=True), Table(("", ""), tuple(facts)), *table]


def _summary_json(summary: previews.Preview) -> Json:
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


def _kind(column: previews.Column, summary: previews.Preview) -> str:
    """What a column is: its dtype, and of a Boolean one how often each value occurs."""
    return clean(", ".join(filter(None, (column.of, summary.counts.get(column.name, "")))))


def _first_rows(summary: previews.Preview) -> list[Block]:
    """The first rows of a table with what its columns are below, or the first entries of something else, as far as both are known."""
    known = max(map(len, summary.rows), default=len(summary.columns))
    columns = summary.columns[: known or None]
    names = tuple(clean(column.name) for column in columns)
    kinds = tuple(_kind(column, summary) for column in columns)
    rows = [tuple(map(clean, row))[: len(names)] for row in summary.rows]
    table = Table(names, (*(row + ("",) * (len(names) - len(row)) for row in rows), kinds))
    more = previews.count_of_columns(summary) - len(names)
    if more <= 0:
        return [table]
    return [table, Line(f"… and {plural(more, f'more {previews.noun_of_columns(summary)}')}")]


# -- the page that a commit was made on: the notebook's cells, code and text, as they were open or saved last then


@dataclass(frozen=True)
class DocumentReport(Result):
    """The page of one commit, with what looks like a secret masked, as in the code of the commit itself."""

    id: ObjectId
    commit: Commit
    document: NotebookSnapshot | None

    def to_json(self) -> Json:
        if self.document is None:
            return {"commit": hex_of(self.id), "notebook": None}
        cells: list[Json] = [
            {"id": cell.id, "type": cell.type, "source": _mask_cell(cell)} for cell in self.document.cells
        ]
        document: dict[str, Json] = {
            "name": self.document.name,
            "saved": self._save_time().isoformat(timespec="microseconds"),
            "cells": cells,
        }
        return {"commit": hex_of(self.id), "notebook": document}

    def blocks(self) -> Sequence[Block]:
        head = Line(history.label(self.id, self.commit), strong=True)
        if self.document is None:
            return [head, Line("no page was recorded: it was made in a terminal, or before the notebook was saved")]
        many = plural(len(self.document.cells), "cell")
        blocks: list[Block] = [
            head,
            Line(f"{clean(self.document.name)}, {many}, as of {self._save_time():%a %d %b %Y %H:%M:%S}"),
        ]
        own = self.commit.cell.id if self.commit.cell else ""
        for cell in self.document.cells:
            mark = ", the cell of this commit" if own and cell.id == own else ""
            blocks += [Line(""), Line(f"{clean(cell.type)}{mark}:"), Code(clean_lines(_mask_cell(cell)))]
        return blocks

    def _save_time(self) -> datetime:
        assert self.document is not None
        return exact_time(self.document.saved_ns, self.commit.utc_offset_s)


def _mask_cell(cell: NotebookCell) -> str:
    return previews.mask_code(cell.source)[0] if cell.type == "code" else previews.mask_text(cell.source)
