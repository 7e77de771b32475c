"""`bind`, `status`, `commit`, `trust`, `on`, `off`, `ignore` and `hide`: this notebook, its store, and what is kept out of it."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from agent_kernel.commands import describe
from agent_kernel.commands.checkout import MoveReport
from agent_kernel.commands.describe import Block, Json, Line, Lines, Result, chip_line, live_ranks
from agent_kernel.commands.scope import Notebook, Parser, Scope, UsageProblem
from agent_kernel.errors import NotBoundError
from agent_kernel.repository import Commit, ObjectId, hex_of
from agent_kernel.session import history
from agent_kernel.session import trust as store_trust
from agent_kernel.session.history import by_name
from agent_kernel.session.snapshot import close_names
from agent_kernel.session.tracking import HideList, IgnoreList, is_pattern
from agent_kernel.text import clean, list_names, plural, shorten_url, size_text

if TYPE_CHECKING:
    from agent_kernel.session import Status

_NAMES = 8  # how many names a line of status spells out


def bind_arguments(parser: Parser) -> None:
    parser.takes("place", "place", help="folder or URL of a store, or a notebook; without one, the default place")
    parser.value("--from", metavar="PLACE", help="start as a copy of the store there", kind="place")
    parser.value(
        "--branch", metavar="BRANCH", help="work on this branch; a new one starts where HEAD is", kind="branch"
    )


def bind(scope: Scope, options: Namespace) -> Result:
    source: str | None = vars(options)["from"]
    lines = _notebook(scope).bind(options.place, source=source, branch=options.branch)
    return Lines(tuple(map(clean, lines)))


def _notebook(scope: Scope) -> Notebook:
    if scope.notebook is None:
        raise NotBoundError
    return scope.notebook


def status_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def status(scope: Scope, options: Namespace) -> Result:
    from agent_kernel.commands.agents import waits

    head = scope.head()
    at = None if head.commit is None else (head.commit, scope.repo.commit_at(head.commit))
    runs = waits(scope.repo)
    if scope.session is not None:
        found = scope.session.status()
        changed = live_ranks(scope.session.namespace, [change.name for change in found.changed])
        tree = None if at is None else at[1].tree
        return Where(found, at, changed, runs, describe.holders_among(scope.repo, tree, found.lost))
    holders = {name: str(holder) for name, holder in describe.find_living_holders(scope.repo).items()}
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
            them = "it" if len(status.carried) == 1 else "them"
            answers = f"%agent checkout loads {them}, %agent checkout --fresh starts without {them}"
            lines.append(f"{many} ({list_names(status.carried)}): {answers}")
        lines += _run_lines(self.runs)
        if status.changed:
            changes = ((one.how, one.name, one.size) for one in status.changed)
            chips = chip_line(changes, most=_NAMES, rank=by_name(self.ranks))
            lines.append(f"Not committed yet: {chips}")
        if status.unverified:
            unverified = list_names(status.unverified)
            lines.append(f"Not checked for changes since their last commit: {unverified}; %agent commit checks them")
        lines += describe.unsaved_lines(status.lost, self.holders)
        if status.ignored:
            lines.append(f"Ignored: {list_names(status.ignored)}")
        lines.append(f"Store: {shorten_url(status.store_url)}, {size_text(status.store_bytes)}")
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
        lines += _run_lines(self.runs)
        return [*map(Line, lines), Line(f"Store: {shorten_url(self.url)}")]


_MOST_RUNS = 3  # an interrupted run waits for as long as nobody gives it up


def _run_lines(runs: Sequence[tuple[str, str, str]]) -> list[str]:
    more = len(runs) - _MOST_RUNS
    rest = [f"{plural(more, 'more run')} can go on: %agent runs lists them"] if more > 0 else []
    return [*(line for _, _, line in runs[:_MOST_RUNS]), *rest]


def _runs_json(runs: Sequence[tuple[str, str, str]]) -> list[Json]:
    return [{"run": run, "status": state} for run, state, _ in runs]


def _where(branch: str | None, at: tuple[ObjectId, Commit] | None) -> str:
    where = f"On branch {clean(branch)}" if branch else "On no branch"
    return f"{where}, no commit yet" if at is None else f"{where} at {history.label(*at)}"


def _are(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


def commit_arguments(parser: Parser) -> None:
    parser.takes_all("text", "text", help="what the commit is about; quotation marks may be left out")
    parser.value("-m", "--message", metavar="TEXT", help="the same, as git has it")
    parser.flag("--full", help="look at every variable first, not only at those that may have changed")


def commit(scope: Scope, options: Namespace) -> Result:
    message = " ".join(options.words)
    if message and options.message is not None:
        raise UsageProblem("one message is enough: in quotation marks, or with -m")
    report = scope.live().commit(message or options.message or "", full=options.full)
    if report.commit is None:
        return MoveReport("Nothing to commit", scope.live().head, report.branch)
    made = history.label(report.commit, scope.repo.commit_at(report.commit))
    return MoveReport.of(f"Committed {made}", scope, report)


def trust_arguments(parser: Parser) -> None:
    one = parser.one_of()
    parser.flag("--revoke", help="trust it no longer, nor copies of it", group=one)
    parser.flag("--list", help="list the places of all stores and bundles that you trust", group=one)
    parser.explains(
        "Copies of a store are trusted as the store is, wherever they are. After --revoke nothing is loaded from it any\n"
        "more that can run code; what is in memory stays there. A store that was opened from a bundle is a store of its own: revoke its own\n"
        "trust. `agent-kernel key` lists whose bundles you trust by their signature."
    )


def trust(scope: Scope, options: Namespace) -> Result:
    store = shorten_url(scope.repo.store.url)
    if options.list:
        stores = store_trust.list_places()
        facts: dict[str, Json] = {"trusted": list(stores)}
        return Lines(tuple(map(shorten_url, stores)) or ("You trust no store.",), facts)
    if options.revoke:
        return _revoke(scope, store)
    scope.repo.trust()
    return Lines((f"{store} is trusted: its values may be loaded, which can run code",))


def _revoke(scope: Scope, store: str) -> Result:
    url = scope.repo.store.url
    if url.startswith("memory:"):
        raise UsageProblem("a store in memory is made by this process, and trusted as long as it lives")
    was_trusted = store_trust.revoke(scope.repo)
    again = scope.spell_command("trust")
    lines = [
        f"{store} is no longer trusted, nor are copies of it: nothing is loaded from it any more that can run code"
        if was_trusted
        else f"{store} was not trusted"
    ]
    if was_trusted:
        lines.append(f"What is in memory stays there; {again} lets all of it be loaded again")
    if url.startswith("bundle:"):
        lines.append("A store that was opened from it is not affected, nor is the key that signed it: agent-kernel key")
    return Lines(tuple(lines), {"store": url, "trusted": False, "was_trusted": was_trusted})


def on_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def on(scope: Scope, options: Namespace) -> Result:
    _notebook(scope).record(True)
    return Lines(("Every cell is a commit again.",))


def off_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def off(scope: Scope, options: Namespace) -> Result:
    _notebook(scope).record(False)
    return Lines(("Automatic commits are off. Turn them on with %agent on, or make one commit with %agent commit.",))


# -- `ignore`: the variables that are never stored, by name or by pattern

_PATTERN = re.compile(r"[\w*?\[\]!-]+")


def ignore_arguments(parser: Parser) -> None:
    parser.takes_all("names", "name", help="variables, or patterns ('tmp_*'); without any, list those that are ignored")
    parser.flag("--remove", help="store them again from now on")
    parser.explains(
        "The value is not stored; the code of cells is kept as it was typed (log and show mask what looks like a\n"
        "secret). `forget NAME --sources --yes` takes what is stored already, and what the code gave away."
    )


def ignore(scope: Scope, options: Namespace) -> Result:
    ignored = IgnoreList(scope.repo) if scope.session is None else scope.session.ignoring
    names: list[str] = list(dict.fromkeys(options.words))
    if not names:
        if options.remove:
            raise UsageProblem("say which variables")
        listed = sorted(ignored)
        return Lines((f"Ignored: {list_names(listed)}" if listed else "No variable is ignored.",), {"ignored": listed})
    if options.remove:
        return _remove(scope, ignored, names)
    known = _find_names(scope)
    for name in names:
        _check_entry(name, known)
    for name in names:
        (ignored.add if scope.session is None else scope.session.ignore)(name)
    return Lines(tuple(line for name in names for line in _describe_ignoring(scope, name, known)), {"ignored": names})


def _remove(scope: Scope, ignored: IgnoreList, names: list[str]) -> Lines:
    unknown = [name for name in names if name not in set(ignored)]
    if unknown:
        listed = list_names(sorted(ignored)) or "nothing"
        raise UsageProblem(f"{clean(', '.join(unknown))} is not on the list of what is ignored ({listed})")
    for name in names:
        (ignored.remove if scope.session is None else scope.session.unignore)(name)
    return Lines(tuple(f"{clean(name)} is stored again, from the next commit on" for name in names), {"stored": names})


def _find_names(scope: Scope) -> set[str]:
    """Find the names of variables that there are: bound now, or stored at HEAD."""
    head = scope.head().commit
    stored = set(scope.repo.tree_at(head).names()) if head is not None else set[str]()
    return stored | set(scope.session.namespace if scope.session is not None else ())


def _check_entry(name: str, known: Collection[str] = ()) -> None:
    """Raises: UsageProblem: this is neither a variable's name nor a pattern of names."""
    if name in known or name.isidentifier():
        return
    if not (is_pattern(name) and _PATTERN.fullmatch(name)):
        raise UsageProblem(f"{name!r} cannot be the name of a variable, nor a pattern of names")


def _describe_ignoring(scope: Scope, name: str, known: Collection[str]) -> list[str]:
    label = clean(name)
    if is_pattern(name):
        fits = sum(fnmatchcase(other, name) for other in known)
        return [f"What fits {label} is not stored from now on ({plural(fits, 'variable')} now)"]
    if name not in known:
        return [f"{label} is not bound now; it will be ignored when it appears"]
    forget = scope.spell_command("forget", name, "--sources", "--yes")
    return [
        f"{label} is not stored from now on; what is stored already stays until it is forgotten",
        f"The code of its cells is kept as typed: {forget} takes out both",
    ]


# -- `hide`: the variables that no model is told of


def hide_arguments(parser: Parser) -> None:
    parser.takes_all(
        "names", "name", help="variables, or patterns ('client_*'); without any, list those that are hidden"
    )
    parser.flag("--remove", help="models may be told of them again")
    parser.explains(
        "A hidden variable stays in the history and can be used by code. Its name, and texts and numbers of four\n"
        "characters and more of its value, are left out of what models are sent from now on, also where code prints them.\n"
        "Not left out: what is computed from it, shorter texts and numbers, and what a model was sent before. An agent\n"
        "that guesses the name can still use it: `ignore` and `forget` keep a value out of the history."
    )


def hide(scope: Scope, options: Namespace) -> Result:
    hidden = HideList(scope.repo)
    names: list[str] = list(dict.fromkeys(options.words))
    if not names:
        if options.remove:
            raise UsageProblem("say which variables")
        listed = sorted(hidden)
        return Lines(
            (f"Hidden: {', '.join(map(clean, listed))}" if listed else "No variable is hidden.",), {"hidden": listed}
        )
    if options.remove:
        unknown = [name for name in names if name not in set(hidden)]
        if unknown:
            raise UsageProblem(f"{clean(', '.join(unknown))} is not on the list of what is hidden")
        for name in names:
            hidden.remove(name)
        return Lines(tuple(f"Models may be told of {clean(name)} again" for name in names), {"shown": names})
    for name in names:
        _check_entry(name)
    for name in names:
        hidden.add(name)
    known = _find_names(scope)
    return Lines(tuple(line for name in names for line in _describe_hiding(name, known)), {"hidden": names})


def _describe_hiding(name: str, known: Collection[str]) -> list[str]:
    label = clean(name)
    if is_pattern(name):
        fits = sum(fnmatchcase(other, name) for other in known)
        return [f"No model is told of what fits {label} from now on ({plural(fits, 'variable')} now)"]
    sentence = f"No model is told of {label} from now on"
    if name in known:
        return [sentence]
    near = close_names(name, [other for other in known if not other.startswith("_")])
    hint = f"; did you mean {' or '.join(map(clean, near))}?" if near else ""
    return [sentence, f"There is no variable {label} now{hint}"]
