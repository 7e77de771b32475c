"""`bind`, `status`, `commit`, `trust`, `on` and `off`: this notebook and its store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_kernel.errors import NotBoundError
from agent_kernel.repository import Commit, ObjectId, hex_of
from agent_kernel.verbs import describe
from agent_kernel.verbs.checkout import Moved
from agent_kernel.verbs.describe import by_name, chip_line, live_ranks
from agent_kernel.verbs.output import Block, Json, Line, Result, Said
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Notebook, Scope
from agent_kernel.verbs.text import clean, place_text, plural, size_text, spelled

if TYPE_CHECKING:
    from agent_kernel.session import Status

__all__ = [
    "bind",
    "bind_arguments",
    "commit",
    "commit_arguments",
    "off",
    "off_arguments",
    "on",
    "on_arguments",
    "status",
    "status_arguments",
    "trust",
    "trust_arguments",
]

_NAMES = 8  # how many names a line of status spells out


def bind_arguments(parser: Parser) -> None:
    parser.takes("place", "place", help="folder or URL of a store, or a notebook; without one, the default place")
    parser.value("--from", metavar="PLACE", help="start as a copy of the store there", kind="place")
    parser.value(
        "--branch", metavar="BRANCH", help="work on this branch; a new one starts where HEAD is", kind="branch"
    )


def bind(scope: Scope, options: Namespace) -> Result:
    source: str | None = vars(options)["from"]
    said = _notebook(scope).bind(options.place, source=source, branch=options.branch)
    return Said(tuple(map(clean, said)))


def _notebook(scope: Scope) -> Notebook:
    if scope.notebook is None:
        raise NotBoundError
    return scope.notebook


def status_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def status(scope: Scope, options: Namespace) -> Result:
    from agent_kernel.verbs.agents import waits

    head = scope.head()
    at = None if head.commit is None else (head.commit, scope.repo.commit_at(head.commit))
    runs = waits(scope.repo)
    if scope.session is not None:
        found = scope.session.status()
        changed = live_ranks(scope.session.namespace, [change.name for change in found.changed])
        tree = None if at is None else at[1].tree
        return Where(found, at, changed, runs, describe.holders_among(scope.repo, tree, found.lost))
    holders = {name: str(holder) for name, holder in describe.living_holders(scope.repo).items()}
    names = len(scope.repo.tree(at[1].tree)) if at else 0
    return StoreStatus(head.branch, at, names, holders, scope.repo.store.url, runs)


@dataclass(frozen=True)
class Where(Result):
    """Where a live session stands."""

    status: Status
    at: tuple[ObjectId, Commit] | None
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])  # of what is not committed yet
    runs: tuple[tuple[str, str, str], ...] = ()  # that wait for a person
    holders: frozenset[str] = frozenset()  # of what is not saved: see `describe.holders_among`

    def to_json(self) -> Json:
        status = self.status
        return {
            "branch": status.branch,
            "head": hex_of(status.head) if status.head is not None else None,
            "detached": status.detached,
            "restart_pending": status.restart_pending,
            "carried": list(status.carried),
            "names": status.names,
            "changed": describe.changes_json(status.changed),
            "unverified": list(status.unverified),
            "unsaved": describe.unsaved_json(status.lost),
            "ignored": list(status.ignored),
            "store": status.store_url,
            "store_bytes": status.store_bytes,
            "runs": _runs_json(self.runs),
        }

    def blocks(self) -> Sequence[Block]:
        status = self.status
        lines = [_where(status.branch, self.at), f"{plural(status.names, 'variable')} in the namespace"]
        if status.carried:
            # A restart took them out of memory, or another kernel made them: this one does not hold them.
            many = f"{plural(len(status.carried), 'variable')} of the branch {_are(status.carried)} not loaded here"
            answers = "%agent checkout brings back, %agent checkout --fresh leaves behind"
            lines.append(f"{many} ({spelled(status.carried)}): {answers}")
        lines += _runs_said(self.runs)
        if status.changed:
            changes = ((one.how, one.name, one.size) for one in status.changed)
            chips = chip_line(changes, most=_NAMES, rank=by_name(self.ranks))
            lines.append(f"Not committed yet: {chips}")
        if status.unverified:
            lines.append(f"Not looked at since their last commit: {spelled(status.unverified)}")
        lines += describe.unsaved_lines(status.lost, self.holders)
        if status.ignored:
            lines.append(f"Ignored: {spelled(status.ignored)}")
        lines.append(f"Store: {place_text(status.store_url)}, {size_text(status.store_bytes)}")
        return [Line(line, strong=at == 0) for at, line in enumerate(lines)]


@dataclass(frozen=True)
class StoreStatus(Result):
    """Where a store stands, with no session."""

    branch: str | None
    at: tuple[ObjectId, Commit] | None
    names: int
    holders: dict[str, str]
    url: str
    runs: tuple[tuple[str, str, str], ...] = ()

    def to_json(self) -> Json:
        in_use: dict[str, Json] = dict(self.holders)
        head = hex_of(self.at[0]) if self.at else None
        runs = _runs_json(self.runs)
        return {
            "branch": self.branch,
            "head": head,
            "names": self.names,
            "in_use": in_use,
            "store": self.url,
            "runs": runs,
        }

    def blocks(self) -> Sequence[Block]:
        lines = [_where(self.branch, self.at), plural(self.names, "variable")]
        lines += [f"Branch {clean(name)} is in use by {clean(holder)}" for name, holder in self.holders.items()]
        lines += _runs_said(self.runs)
        return [*map(Line, lines), Line(f"Store: {place_text(self.url)}")]


_MOST_RUNS = 3  # an interrupted run waits for as long as nobody gives it up


def _runs_said(runs: Sequence[tuple[str, str, str]]) -> list[str]:
    more = len(runs) - _MOST_RUNS
    rest = [f"{plural(more, 'more run')} can go on: %agent runs lists them"] if more > 0 else []
    return [*(said for _, _, said in runs[:_MOST_RUNS]), *rest]


def _runs_json(runs: Sequence[tuple[str, str, str]]) -> list[Json]:
    return [{"run": run, "status": state} for run, state, _ in runs]


def _where(branch: str | None, at: tuple[ObjectId, Commit] | None) -> str:
    where = f"On branch {clean(branch)}" if branch else "On no branch"
    return f"{where}, no commit yet" if at is None else f"{where} at {describe.label(*at)}"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def commit_arguments(parser: Parser) -> None:
    parser.takes_all("text", "text", help="what the commit is about; quotation marks may be left out")
    parser.value("-m", "--message", metavar="TEXT", help="the same, as git has it")
    parser.flag("--full", help="look at every variable first, not only at those that may have changed")


def commit(scope: Scope, options: Namespace) -> Result:
    said = " ".join(options.words)
    if said and options.message is not None:
        raise UsageProblem("one message is enough: in quotation marks, or with -m")
    report = scope.live().commit(said or options.message or "", full=options.full)
    if report.commit is None:
        return Moved("Nothing to commit", scope.live().head, report.branch)
    made = describe.label(report.commit, scope.repo.commit_at(report.commit))
    return Moved.of(f"Committed {made}", scope, report)


def trust_arguments(parser: Parser) -> None:
    """Nothing to choose: it is this store."""


def trust(scope: Scope, options: Namespace) -> Result:
    scope.repo.trust()
    return Said((f"{place_text(scope.repo.store.url)} is trusted: its values may be loaded, which can run code",))


def on_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def on(scope: Scope, options: Namespace) -> Result:
    _notebook(scope).record(True)
    return Said(("Every cell is a commit again.",))


def off_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def off(scope: Scope, options: Namespace) -> Result:
    _notebook(scope).record(False)
    return Said(("Automatic commits are off. Turn them on with %agent on, or make one commit with %agent commit.",))
