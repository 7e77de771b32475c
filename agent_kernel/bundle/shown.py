"""Say what is in a bundle: whose it is, whether it is whole, and what whoever opens it will find.

All of it is read from the history itself, which is verified first. What the manifest alone can say, what was left out and which
packages the code imports, is called its maker's word. Nothing is unpickled, and every text is cleaned: a bundle may come from
anyone.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from agent_kernel.bundle import keys
from agent_kernel.bundle.members import environment_of
from agent_kernel.bundle.opening import OpenBundle, opened, verify
from agent_kernel.commands import describe
from agent_kernel.commands.describe import Block, Json, Line, Result, Table
from agent_kernel.commands.history import Log, log
from agent_kernel.commands.scope import Progress, Scope
from agent_kernel.errors import BundleError
from agent_kernel.repository import Author, Commit, ObjectId, hex_of, short
from agent_kernel.session import Repository
from agent_kernel.session.history import rank_of, size_of, summary_of
from agent_kernel.text import clean, exact_time, list_names, plural, size_text
from agent_kernel.values import previews

__all__ = ["BundleReport", "Environment", "Facts", "Variable", "inspect_bundle", "read_facts", "show_bundle"]

_SCHEME: Final = "bundle://"
_COMMITS: Final = 10  # of the history
_VARIABLES: Final = 20
_END_OF_TIME_NS: Final = 253_370_764_800 * 1_000_000_000  # the year 9999 begins
_DAY_S: Final = 86_400
_NAMES: Final = 12  # of branches, tags, authors, packages, and what was left out


class Variable(msgspec.Struct, frozen=True):
    """A variable as HEAD holds it."""

    name: str
    type: str
    size: int  # bytes
    preview: str


class Environment(msgspec.Struct, frozen=True):
    """What the notebook ran on. `imported`: the packages that its code imports, by the word of whoever made the bundle."""

    python: str = ""
    implementation: str = ""
    platform: str = ""
    packages: tuple[str, ...] = ()  # name==version
    imported: tuple[str, ...] = ()

    def ordered(self) -> tuple[str, ...]:
        """The packages, what the code imports first."""
        first = [one for one in self.packages if one in frozenset(self.imported)]
        return (*first, *(one for one in self.packages if one not in frozenset(first)))


class Facts(msgspec.Struct, frozen=True):
    """What a history says of itself, as a bundle shows it and a page does."""

    notebook: str
    branch: str
    head: ObjectId
    branches: dict[str, ObjectId]
    tags: dict[str, ObjectId]
    commits: int
    first: Commit
    last: Commit
    authors: tuple[Author, ...]  # most commits first
    variables: tuple[Variable, ...]
    environment: Environment


class _ManifestFields(msgspec.Struct, frozen=True):
    """What the manifest alone can say."""

    left_out: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    variables: dict[str, _VariableFields] = {}

    def needs_trust(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, one in self.variables.items() if one.needs_trust))


class _VariableFields(msgspec.Struct, frozen=True):
    needs_trust: str = ""  # why


class _PackageFields(msgspec.Struct, frozen=True):
    imported: tuple[str, ...] = ()


def read_facts(repo: Repository, branch: str, imported: Sequence[str] = ()) -> Facts:
    """Read what a repository that is all of a bundle says of itself.

    Args:
        branch: the one that HEAD is on.
        imported: the packages that the code imports, as `name==version`.

    Raises:
        BundleError: a commit has a time that no calendar has. DamagedObjectError: an object is damaged.
    """
    branches, tags = repo.branches(), repo.tags()
    head = branches[branch]
    count, first, last = 0, None, None
    authors: dict[Author, int] = {}
    for _, commit in repo.history.walk([*branches.values(), *tags.values()]):
        if not 0 <= commit.time_ns < _END_OF_TIME_NS or abs(commit.utc_offset_s) >= _DAY_S:
            raise BundleError(repo.store.url, "a commit of it has a time that no calendar has")
        count, last, first = count + 1, last or commit, commit
        authors[commit.author] = authors.get(commit.author, 0) + 1
    tip = repo.commit_at(head)
    assert first is not None
    assert last is not None
    return Facts(
        notebook=tip.document.name if tip.document is not None else "",
        branch=branch,
        head=head,
        branches=branches,
        tags=tags,
        commits=count,
        first=first,
        last=last,
        authors=tuple(sorted(authors, key=lambda author: (-authors[author], author.name, author.kind))),
        variables=_variables(repo, head),
        environment=msgspec.structs.replace(
            msgspec.convert(environment_of(repo, tip), Environment), imported=tuple(imported)
        ),
    )


def _variables(repo: Repository, head: ObjectId) -> tuple[Variable, ...]:
    """The variables at HEAD, the most interesting first, as everywhere."""
    entries = {name: entry for name, entry in repo.tree_at(head).items() if not name.startswith("\0")}
    sizes = {name: size_of(repo, entry) for name, entry in entries.items()}
    ranks = {name: rank_of(repo, entry) for name, entry in entries.items()}
    found: list[Variable] = []
    for name in sorted(entries, key=lambda name: (ranks[name], -sizes[name], name)):
        summary = summary_of(repo, entries[name])
        missing = describe.not_saved(repo, name, entries[name])
        kind, preview = ("", "not described") if summary is None else (previews.noun(summary), _preview(summary))
        size = 0 if missing is not None and missing.is_whole else sizes[name]
        text = f"{preview} ({missing.sentence})".lstrip() if missing is not None else preview
        found.append(Variable(name, kind, size, text))
    return tuple(found)


def _preview(summary: previews.Preview) -> str:
    """What the value holds; of a table its size and its columns."""
    text = previews.content(summary)
    names = [clean(column.name) for column in summary.columns] if summary.kind == "frame" else []
    return f"{text}: {list_names(names, 6)}" if names else text


# -- `agent-kernel show STUDY.agentnb`


def show_bundle(url: str, *, named: str, command: str, now_ns: int, progress: Progress | None = None) -> BundleReport:
    """Verify a bundle and say what it holds.

    Args:
        url: `bundle://` and its path. named: how whoever asks named it.

    Raises:
        BundleError: it is not a bundle at all. NewerFormatError: a newer release made it.
    """
    path = Path(url.removeprefix(_SCHEME))
    with opened(path) as bundle:
        found = inspect_bundle(bundle, named=named, progress=progress)
        if found.facts is None:
            return found
        scope = Scope(bundle.repo, store_name=named, command=command, now_ns=now_ns)
        options = Namespace(rev=None, limit=_COMMITS, all=True, search=None, names=[], json=False)
        older = scope.spell_command("log", "--all") if found.facts.commits > _COMMITS else ""
        return replace(found, history=replace(log(scope, options), older=older))


def inspect_bundle(bundle: OpenBundle, *, named: str = "", progress: Progress | None = None) -> BundleReport:
    """Verify an open bundle, and read what it says of itself if it is whole.

    Raises:
        BundleError: its manifest or its history is not in its form.
    """
    problem = ""
    try:
        verify(bundle, partial(progress, "checking") if progress is not None else None)
    except BundleError as error:
        problem = error.reason
    fields, imported = (_ManifestFields(), ()) if problem else _read_manifest(bundle)
    found = BundleReport(
        path=bundle.path,
        named=named,
        size=bundle.store.archive.size,
        fingerprint=bundle.fingerprint,
        problem=clean(problem),
        signature="; ".join(keys.describe(bundle)),
        left_out=fields.left_out,
        masked=fields.masked,
        needs_trust=fields.needs_trust(),
    )
    if problem:
        return found  # what is damaged is not read any further: it may unpack to anything
    try:
        return replace(found, facts=read_facts(bundle.repo, bundle.repo.head().branch or "", imported))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BundleError(str(bundle.path), f"its history is not in its form ({error})") from error


def _read_manifest(bundle: OpenBundle) -> tuple[_ManifestFields, tuple[str, ...]]:
    """What the manifest says, and the packages that it says the code imports."""
    try:
        fields = msgspec.convert(bundle.manifest, _ManifestFields)
        packages = msgspec.convert(bundle.manifest.get("environment", {}), _PackageFields)
    except msgspec.ValidationError as error:
        raise BundleError(str(bundle.path), f"its manifest is not in its form ({error})") from error
    return fields, packages.imported


@dataclass(frozen=True)
class BundleReport(Result):
    """A bundle as a whole."""

    path: Path
    named: str
    size: int  # bytes
    fingerprint: str
    problem: str  # what does not match; "": all of it does
    signature: str  # who signed it, in a line
    left_out: tuple[str, ...]
    masked: tuple[str, ...]
    needs_trust: tuple[str, ...]  # variables that building would run code for
    facts: Facts | None = None  # None: it is not whole, and so not read any further
    history: Log | None = None

    @property
    def ok(self) -> bool:
        return not self.problem

    def to_json(self) -> Json:
        summary: dict[str, Json] = {
            "file": str(self.path),
            "size": self.size,
            "fingerprint": self.fingerprint,
            "whole": not self.problem,
            "problem": self.problem or None,
            "signature": self.signature or None,
            "left_out": list(self.left_out),
            "masked": list(self.masked),
            "needs_trust": list(self.needs_trust),
        }
        facts = self.facts
        if facts is None or self.history is None:
            return summary
        environment = facts.environment
        more: dict[str, Json] = {
            "notebook": facts.notebook,
            "head": {"branch": facts.branch, "commit": hex_of(facts.head)},
            "branches": {name: hex_of(at) for name, at in facts.branches.items()},
            "tags": {name: hex_of(at) for name, at in facts.tags.items()},
            "commits": facts.commits,
            "first": _iso(facts.first),
            "last": _iso(facts.last),
            "authors": [{"name": author.name, "kind": author.kind} for author in facts.authors],
            "environment": {
                "python": environment.python,
                "implementation": environment.implementation,
                "platform": environment.platform,
                "imported": [one for one in environment.ordered() if one in environment.imported],
                "packages": list(environment.packages),
            },
            "variables": [
                {"name": one.name, "type": one.type, "size": one.size, "preview": one.preview}
                for one in facts.variables
            ],
            "history": self.history.to_json(),
        }
        return summary | more

    def to_text(self, width: int | None = None, *, colour: bool = False) -> str:
        text = super().to_text(width, colour=colour)
        return text if self.history is None else f"{text}\n{self.history.to_text(width, colour=colour)}"

    def to_html(self) -> str:
        html = super().to_html()
        return html if self.history is None else html + self.history.to_html()

    def blocks(self) -> Sequence[Block]:
        facts = self.facts
        head = Line(f"{clean(self.path.name)}: a bundle of {size_text(self.size)}", strong=True)
        whole = f"no: {self.problem}" if self.problem else "yes: every digest matches"
        rows = [("Whole:", whole), ("Signature:", self.signature)]
        if facts is not None:  # of what is damaged nothing more is read
            rows += [("Notebook:", clean(facts.notebook)), *_facts_rows(facts)]
            rows += [("Left out:", _list(self.left_out)), ("Masked:", _masked(self.masked))]
            rows += [("Needs trust:", _list(self.needs_trust)), ("Fingerprint:", self.fingerprint)]
        blocks: list[Block] = [head, Table(("", ""), tuple(row for row in rows if row[1]), flexible=-1)]
        if facts is None:
            return blocks
        blocks += [Line(""), *_variables_blocks(facts, self._command("show", f"{facts.branch}:NAME"))]
        return [*blocks, Line(""), Line("History", strong=True)]

    def _command(self, command: str, *words: str) -> str:
        return Scope(None, store_name=self.named, command="agent-kernel").spell_command(command, *words)


def _facts_rows(facts: Facts) -> list[tuple[str, str]]:
    authors = [clean(author.name) + (" (agent)" if author.kind == "agent" else "") for author in facts.authors]
    environment = facts.environment
    python = " ".join(filter(None, [environment.implementation, environment.python]))
    where = clean(", ".join(filter(None, [f"{python} on {environment.platform}" if environment.platform else python])))
    imported = [one.replace("==", " ") for one in environment.ordered() if one in environment.imported]
    installed = plural(len(environment.packages), "package") if environment.packages else ""
    return [
        ("HEAD:", f"{short(facts.head)} on branch {clean(facts.branch)}"),
        ("Branches:", _list(sorted(facts.branches))),
        ("Tags:", _list(sorted(facts.tags))),
        ("Commits:", f"{facts.commits:,}, {_span(facts)}"),
        ("Made by:", list_names(authors, _NAMES)),
        ("Ran on:", where),
        ("Imports:", _list(imported)),
        ("Installed:", installed),
    ]


def _span(facts: Facts) -> str:
    first, last = (exact_time(one.time_ns, one.utc_offset_s) for one in (facts.first, facts.last))
    if first.date() == last.date():
        return f"{first:%a %d %b %Y}, {first:%H:%M} to {last:%H:%M}"
    return f"{first:%a %d %b %Y %H:%M} to {last:%a %d %b %Y %H:%M}"


def _iso(commit: Commit) -> str:
    return exact_time(commit.time_ns, commit.utc_offset_s).isoformat(timespec="microseconds")


def _list(names: Sequence[str]) -> str:
    return list_names(names, _NAMES)


def _masked(commits: Sequence[str]) -> str:
    if not commits:
        return ""
    ids = list_names([one[:8] for one in commits], 5)
    return f"what looked like a secret, in {plural(len(commits), 'commit')}: {ids}"


def _variables_blocks(facts: Facts, more: str) -> list[Block]:
    many = len(facts.variables)
    if not many:
        return [Line(f"No variables at {short(facts.head)}", strong=True)]
    variables = facts.variables[:_VARIABLES]
    rows = tuple((clean(one.name), one.type, size_text(one.size) if one.size else "", one.preview) for one in variables)
    title = Line(f"{plural(many, 'variable')} at {short(facts.head)}", strong=True)
    rest = (
        [Line(f"… and {plural(many - len(variables), 'more variable')}; one of them: {more}")]
        if many > len(variables)
        else []
    )
    return [title, Table(("Name", "Type", "Size", "Holds"), rows, right=frozenset({2}), flexible=3), *rest]
