"""`verify`, `stats`, `gc`, `prune` and `forget`: looking after the store itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.commands.describe import Block, Json, Line, Lines, Result, Table
from agent_kernel.commands.scope import Parser, Question, UsageProblem, count, days
from agent_kernel.errors import NameNotFoundError, RefNotFoundError
from agent_kernel.repository import ObjectId, Retention, hex_of, short
from agent_kernel.text import clean, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from agent_kernel.commands.scope import Scope
    from agent_kernel.repository import ForgetReport, PruneReport
    from agent_kernel.repository.upkeep import GcReport, Stats, VerifyReport


def verify_arguments(parser: Parser) -> None:
    parser.explains(
        "Everything that a branch, a tag, a session or a reflog reaches is read: commits, and each piece of their values.\n"
        "What gc would delete is not, so stats may count a few objects more."
    )


def verify(scope: Scope, options: Namespace) -> Result:
    return Verified(scope.repo.verify(progress=scope.step("reading")))


@dataclass(frozen=True)
class Verified(Result):
    """What reading everything found."""

    report: VerifyReport

    @property
    def ok(self) -> bool:
        return not self.report.problems

    def to_json(self) -> Json:
        problems: list[Json] = [
            {
                "kind": one.kind,
                "id": hex_of(one.id),
                "reason": one.reason,
                "commits": [hex_of(commit) for commit in one.reachable_from],
                "names": list(one.names),
            }
            for one in self.report.problems
        ]
        return {"checked": self.report.checked, "bytes": self.report.bytes, "problems": problems}

    def blocks(self) -> Sequence[Block]:
        checked = f"{plural(self.report.checked, 'object')}, {size_text(self.report.bytes)} checked"
        if self.ok:
            return [Line(f"{checked}: all sound")]
        rows = tuple(
            (
                one.kind,
                short(one.id),
                clean(one.reason),
                clean(", ".join(one.names[:5])),
                " ".join(short(commit) for commit in one.reachable_from[:3]),
            )
            for one in self.report.problems
        )
        found = plural(len(rows), "damaged object")
        return [
            Line(f"{checked}: {found}", strong=True),
            Table(("Kind", "Id", "What is wrong", "Variables", "Commits"), rows),
        ]


def gc_arguments(parser: Parser) -> None:
    parser.flag("--dry-run", help="only say what would be deleted")


def gc(scope: Scope, options: Namespace) -> Result:
    deleted = () if options.dry_run else _tidy(scope)
    report = scope.repo.gc(dry_run=options.dry_run, progress=scope.step("deleting"))
    lines = (
        [f"Deleted {plural(len(deleted), 'branch', 'branches')} that agents left behind: {clean(', '.join(deleted))}"]
        if deleted
        else []
    )
    return Lines((*lines, describe_collection(report, dry_run=options.dry_run)), gc_json(report))


def _tidy(scope: Scope) -> tuple[str, ...]:
    """Delete the branches of agents whose process died, where nobody needs them."""
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.agents.executor import delete_unneeded_branches

    return delete_unneeded_branches(scope.repo, EventStore(scope.repo.store), scope.session)


def describe_collection(report: GcReport, *, dry_run: bool = False) -> str:
    """Describe in a line what a collection did."""
    done = "Would delete" if dry_run else "Deleted"
    many = plural(report.objects_deleted, "object")
    young = f"; {plural(report.waiting, 'new object')} left for the next time" if report.waiting else ""
    return f"{done} {many}, {size_text(report.bytes_freed)}; {report.kept:,} kept{young}"


def gc_json(report: GcReport) -> dict[str, Json]:
    return {
        "objects_deleted": report.objects_deleted,
        "bytes_freed": report.bytes_freed,
        "kept": report.kept,
        "waiting": report.waiting,
    }


def stats_arguments(parser: Parser) -> None:
    parser.explains(
        "Objects are all that the store holds, those too that nothing reaches any more and gc will delete; verify reads\n"
        "the others."
    )


def stats(scope: Scope, options: Namespace) -> Result:
    return Measured(scope.repo.stats(scope.session_id))


@dataclass(frozen=True)
class Measured(Result):
    """What a store holds."""

    stats: Stats

    def to_json(self) -> Json:
        stats = self.stats
        return {
            "commits": stats.commits,
            "branches": stats.branches,
            "tags": stats.tags,
            "names": stats.names,
            "objects": dict(stats.objects),
            "stored": dict(stats.stored),
            "stored_bytes": stats.stored_bytes,
            "disk_bytes": stats.disk_bytes,
            "head_bytes": stats.head_bytes,
            "events": stats.events,
            "event_bytes": stats.event_bytes,
        }

    def blocks(self) -> Sequence[Block]:
        stats = self.stats
        many = (
            plural(stats.commits, "commit"),
            plural(stats.branches, "branch", "branches"),
            plural(stats.tags, "tag"),
        )
        disk = "" if stats.disk_bytes is None else f", {size_text(stats.disk_bytes)} on disk"
        rows = tuple(
            (kind, f"{count:,}", size_text(stats.stored[kind])) for kind, count in stats.objects.items() if count
        )
        if stats.events:
            rows = (*rows, ("event of an agent", f"{stats.events:,}", size_text(stats.event_bytes)))
        return [
            Line(", ".join(many)),
            Line(f"{plural(stats.names, 'variable')} at HEAD, {size_text(stats.head_bytes)} before packing"),
            Line(f"{plural(sum(stats.objects.values()), 'object')}, {size_text(stats.stored_bytes)} stored{disk}"),
            Table(("Kind", "Objects", "Stored"), rows, right=frozenset({1, 2})),
        ]


# -- `prune` and `forget`: the two commands that rewrite history. Both say first what would go, and do it with `--yes`


def prune_arguments(parser: Parser) -> None:
    parser.value("--keep-last", metavar="N", help="keep the newest N commits of each branch", convert=count)
    parser.value("--keep-days", metavar="D", help="keep what is younger than D days", convert=days)
    parser.flag("--dry-run", help="only say what would go")
    parser.flag("--yes", help="really: it cannot be undone")
    parser.explains(
        "Tags, and commits that you gave a message, are kept in any case. "
        "Commits that only hold a program's changes of records can go."
    )


def prune(scope: Scope, options: Namespace) -> Result:
    if options.keep_last is None and options.keep_days is None:
        raise UsageProblem("say what to keep: --keep-last N, --keep-days D or both")
    policy = Retention(keep_last=options.keep_last or 1, keep_days=options.keep_days or 0.0)
    if options.dry_run or not options.yes:
        report = scope.repo.prune(policy, dry_run=True)
        would = f"would drop {plural(report.dropped, 'commit')} and keep {_describe_policy(report, policy)}"
        if options.dry_run:
            return Lines((would[0].upper() + would[1:],), _prune_facts(report))
        if report.dropped:
            command = scope.spell_command("prune", *_policy_words(options), "--yes")
            raise Question(
                f"Really prune? It {would}; that rewrites the history and cannot be undone; to do it: {command}"
            )
        return Lines(
            (f"Nothing to prune: every commit is kept, {_describe_policy(report, policy)}",), _prune_facts(report)
        )
    report = scope.repo.prune(policy) if scope.session is None else scope.session.prune(policy)
    dropped = f"Dropped {plural(report.dropped, 'commit')}, kept {_describe_policy(report, policy)}"
    return Lines((f"{dropped}; freed {size_text(report.bytes_freed)}",), _prune_facts(report))


def _policy_words(options: Namespace) -> list[str]:
    last = ["--keep-last", str(options.keep_last)] if options.keep_last is not None else []
    days = ["--keep-days", f"{options.keep_days:g}"] if options.keep_days is not None else []
    return [*last, *days]


def _describe_policy(report: PruneReport, policy: Retention) -> str:
    """`24: the newest 5 of each branch (10), tagged (3), with a message (11)`; the numbers add up."""
    words = {
        "newest": f"the newest {policy.keep_last} of each branch" if (policy.keep_last or 1) > 1 else "branch tips",
        "HEAD": "where a session is",
        "tagged": "tagged",
        "young": f"younger than {policy.keep_days:g} day{'s' if policy.keep_days != 1 else ''}",
        "named": "with a message",
    }
    why = ", ".join(f"{words[reason]} ({count:,})" for reason, count in report.reasons.items())
    return f"{report.kept:,}: {why}" if why else f"{report.kept:,}"


def _prune_facts(report: PruneReport) -> dict[str, Json]:
    reasons: dict[str, Json] = dict(report.reasons)
    return {
        "kept": report.kept,
        "dropped": report.dropped,
        "reasons": reasons,
        "objects_deleted": report.objects_deleted,
        "bytes_freed": report.bytes_freed,
    }


def forget_arguments(parser: Parser) -> None:
    parser.takes_all("what", "name", help="variables and commits; all of them go, or none")
    parser.flag("--sources", help="also mask what the code that speaks of the variables gave away")
    parser.flag("--yes", help="really: it cannot be undone")
    parser.explains(
        "--sources masks the literals of all statements that speak of the variables, and the same text wherever a\n"
        "commit holds it: in code, errors, messages and outputs. Functions and classes whose code holds it go too.\n"
        "Other values that hold it stay, and are named."
    )


class _Meant(msgspec.Struct, frozen=True):
    """What is to be forgotten."""

    words: tuple[str, ...]
    names: tuple[str, ...]
    commits: tuple[ObjectId, ...]

    @property
    def text(self) -> str:
        """`variables a and b and commit 1f2e3d4c`."""
        kinds = (("variable", list(map(clean, self.names))), ("commit", list(map(short, self.commits))))
        return " and ".join(f"{kind}{'s' if len(all) > 1 else ''} {' and '.join(all)}" for kind, all in kinds if all)


def forget(scope: Scope, options: Namespace) -> Result:
    meant = _parse_targets(scope, tuple(dict.fromkeys(options.words)))
    if options.sources and meant.commits:
        raise UsageProblem("--sources goes with variables alone; a commit takes its code along when it is forgotten")
    if not options.yes:
        raise Question(_ask_to_confirm(scope, meant, sources=options.sources))
    if scope.session is not None:
        report = scope.session.forget(*meant.words, sources=options.sources)
    else:
        report = scope.repo.forget(meant.names, meant.commits, previews.CodeMask() if options.sources else None)
    return _forgotten(scope, meant, report)


def _parse_targets(scope: Scope, words: tuple[str, ...]) -> _Meant:
    if not words:
        raise UsageProblem("say what to forget: variables, or commits")
    commits = {word: _commit_meant(scope, word) for word in words}
    names = tuple(word for word, commit in commits.items() if commit is None)
    return _Meant(words, names, tuple(dict.fromkeys(commit for commit in commits.values() if commit is not None)))


def _commit_meant(scope: Scope, what: str) -> ObjectId | None:
    """The commit that is meant; None: it is a variable. A name that is both a variable and a ref is the variable."""
    if what in scope.repo.tree_at(scope.head().commit):
        return None
    if scope.session is not None and what in scope.session.namespace:
        return None
    try:
        return scope.resolve(what)
    except RefNotFoundError:
        return None


def _ask_to_confirm(scope: Scope, meant: _Meant, *, sources: bool) -> str:
    """Say what forgetting would do, and what to type to have it done."""
    start = f"Really forget? It rewrites the whole history without {meant.text}, and cannot be undone"
    do_it = f"to do it: {scope.spell_command('forget', *meant.words, *(['--sources'] if sources else []), '--yes')}"
    if not meant.names:
        return f"{start}; {do_it}"
    traces = scope.repo.traces_of(meant.names, previews.CodeMask() if sources else None)
    for name in meant.names:
        if name in traces.missing and not traces.spoken_of[name]:
            raise NameNotFoundError(name, "any commit, and no commit of this name")
    traces.require(masks=sources)
    them = "it" if len(meant.names) == 1 else "them"
    spoken = f"the code of {plural(len(traces.mentioned), 'cell')} speaks of {them}" if traces.mentioned else ""
    if not sources:
        masks = f"{spoken}: --sources masks it there too" if spoken else ""
        return "; ".join(filter(None, [start, do_it, masks]))
    code = _names(traces.code)
    warning = f"{clean(', '.join(code[:5]))} would go too, with the text in the code" if code else ""
    return "; ".join(filter(None, [start, f"{spoken} and would be masked" if spoken else "", warning, do_it]))


def _names(entries: Iterable[str]) -> list[str]:
    return sorted(name for name in entries if not name.startswith("\0"))


def _from_now_on(scope: Scope) -> list[str]:
    """What later commits mask, what they do not, and what else may still hold it."""
    history = "IPython's own history (history.sqlite)"
    has_page = scope.session is not None and scope.session.has_page
    return [
        "Later commits mask it too, in code, in outputs and on the page",
        "Not masked: copies of it in other variables, and what code computes from it",
        f"The notebook itself still says it, and {history} may, too"
        if has_page
        else f"What ran the cells may still hold it: {history}, or a notebook file",
    ]


def _forgotten(scope: Scope, meant: _Meant, report: ForgetReport) -> Lines:
    lines = [f"Forgot {meant.text}; freed {size_text(report.bytes_freed)}"]
    if report.shared_with:
        others = clean(", ".join(report.shared_with[:5]))
        lines.append(f"The same value is, or was, also in {others}: forget them too if it must go")
    if report.outputs_dropped:
        lines.append(f"What {plural(report.outputs_dropped, 'cell')} showed went too, since it may show the value")
    if report.events_masked:
        lines.append(f"Took it out of {plural(report.events_masked, 'event')} of agents' runs too")
    if report.mentioned_in:
        many = plural(len(report.mentioned_in), "cell")
        commits = " ".join(map(short, report.mentioned_in[:5]))
        if report.redacted:
            lines.append(f"Masked what the code of {many} gave away: {commits}")
        else:
            command = scope.spell_command("forget", *meant.names, "--sources", "--yes")
            them = "it" if len(meant.names) == 1 else "them"
            lines.append(f"The code of {many} still speaks of {them}: {commits}; to mask it there: {command}")
    if report.redacted:
        lines += _from_now_on(scope)
    if report.code_dropped:
        lines.append(f"Went too, with the text in the code: {clean(', '.join(report.code_dropped[:5]))}")
    if report.also_in:
        command = scope.spell_command("forget", *report.also_in[:5], "--yes")
        lines.append(f"The same text is in the value of {clean(', '.join(report.also_in[:5]))}, which stays; {command}")
    if report.in_memory:
        lines.append(f"Still in memory, and in the next commit again: {clean(', '.join(report.in_memory[:5]))}")
    known = scope.session.ignored() if scope.session is not None else ()
    if ignored := [name for name in meant.names if name in known]:
        command = scope.spell_command("ignore", "--remove", *ignored)
        lines.append(f"Ignored from now on: {clean(', '.join(ignored))}; to store it again: {command}")
    if not report.is_collected:
        lines.append(
            f"The disk is full, so the bytes are still in the store: free some space, then {scope.spell_command('gc')}"
        )
    elif not report.erased:
        lines.append("Free space in the store's file may still hold its bytes until it is written over")
    facts: dict[str, Json] = {
        "objects_deleted": report.objects_deleted,
        "bytes_freed": report.bytes_freed,
        "erased": report.erased,
        "shared_with": list(report.shared_with),
        "mentioned_in": [hex_of(commit) for commit in report.mentioned_in],
        "events_masked": report.events_masked,
        "outputs_dropped": report.outputs_dropped,
        "sources_masked": report.redacted,
        "code_dropped": list(report.code_dropped),
        "also_in": list(report.also_in),
        "in_memory": list(report.in_memory),
    }
    return Lines(tuple(lines), facts)
