"""`diff`: what differs between two commits, variable by variable, from their previews alone, and in what they ran on."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from agent_kernel.commands import describe
from agent_kernel.commands.describe import SIGNS, Block, Code, Json, Line, Opens, Result, Table, most_interesting_first
from agent_kernel.commands.scope import Parser, RowLines, Scope, UsageProblem
from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import Commit, Entry, Kind, NameDiff, ObjectId, hex_of
from agent_kernel.session.history import changes_between
from agent_kernel.session.provenance import Environment, decode_environment
from agent_kernel.text import clean, clean_lines, plural
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = [
    "Differing",
    "EnvironmentDifferences",
    "EnvironmentReport",
    "details_of",
    "diff",
    "diff_arguments",
    "environment_changes",
    "environment_facts",
    "environment_of",
    "find_differences",
]


def diff_arguments(parser: Parser) -> None:
    parser.takes("old", "ref", help="compare from here (default: HEAD~1)")
    parser.takes("new", "ref", help="to here (default: HEAD)", default="HEAD")
    parser.takes("name", "name", help="only this variable")
    parser.flag("--environment", help="compare what they ran on: the interpreter and the installed packages")
    parser.names("only these variables")
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
    only = names[0] if len(names) == 1 else ""
    before = None if old is None else (old, scope.repo.commit_at(old))
    records = () if names else describe.changed_records(scope.repo, old, new)
    return Differences(before, (new, commit), rows, only, sides=scope.sides, records=records)


class Differing(NamedTuple):
    """A variable that is not the same on two sides; None: it is not there. `how`: "=" where only what it shares changed."""

    name: str
    how: str
    old: Entry | None
    new: Entry | None


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
    labels = describe.label(*old) if old else "nothing", describe.label(*new)
    named = (f"{clean(side)}: {label}" if side else label for side, label in zip(sides, labels, strict=True))
    return [f"{sign} {text}" for sign, text in zip(("---", "+++"), named, strict=True)]


def _environments(repo: Repository, old: ObjectId | None, new: tuple[ObjectId, Commit]) -> EnvironmentDifferences:

    before = None if old is None else (old, repo.commit_at(old))
    was = environment_of(repo, None if before is None else before[1])
    return EnvironmentDifferences(before, new, was, environment_of(repo, new[1]))


def _check_names(repo: Repository, names: Sequence[str], old: ObjectId | None, new: ObjectId) -> None:
    commits = [repo.commit_at(found) for found in (old, new) if found is not None]
    for name in names:
        if not any(name in repo.tree(commit.tree) for commit in commits):
            raise NameNotFoundError(name, "either commit", describe.names_close_to(repo, commits[-1], name))


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
    before, after = describe.summary_of(repo, old), describe.summary_of(repo, new)
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
        return {"old": old, "new": hex_of(self.new[0]), "changed": rows, "records": list(self.records)}

    def outline(self) -> Differences:
        old = None if self.old is None else (self.old[0], describe.without_code(self.old[1]))
        new = self.new[0], describe.without_code(self.new[1])
        return replace(self, old=old, new=new, rows=tuple(row.outline() for row in self.rows), records=())

    def blocks(self) -> Sequence[Block]:
        head = [Line(text, style="strong") for text in _heads(self.old, self.new, self.sides)]
        records = [Line(f"records: {describe.records_line(self.records)}")] if self.records else []
        if not self.rows:
            return [*head, Line("no variable differs"), *records]
        variables = [block for row in self.rows for block in _blocks(row)]
        return [*head, *variables, *records, Line(_count(self.rows), style="quiet")]


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
        head = Line(describe.label(self.id, self.commit), strong=True)
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
