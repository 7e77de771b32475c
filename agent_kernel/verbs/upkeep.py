"""`verify`, `stats` and `gc`: looking after the store itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.repository import hex_of, short
from agent_kernel.verbs.output import Block, Json, Line, Result, Said, Table
from agent_kernel.verbs.text import clean, plural, size_text

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from agent_kernel.repository import GcReport, Stats, VerifyReport
    from agent_kernel.verbs.parsing import Parser
    from agent_kernel.verbs.scope import Scope

__all__ = ["gc", "gc_arguments", "stats", "stats_arguments", "verify", "verify_arguments"]


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
    left = () if options.dry_run else _tidied(scope)
    report = scope.repo.gc(dry_run=options.dry_run, progress=scope.step("deleting"))
    gone = (
        [f"Deleted {plural(len(left), 'branch', 'branches')} that agents left behind: {clean(', '.join(left))}"]
        if left
        else []
    )
    return Said((*gone, collected(report, dry_run=options.dry_run)), gc_json(report))


def _tidied(scope: Scope) -> tuple[str, ...]:
    """Delete the branches of agents whose process died, where nobody needs them."""
    from agent_kernel.agents.journal import Journal
    from agent_kernel.agents.leftovers import tidy

    return tidy(scope.repo, Journal(scope.repo.store), scope.session)


def collected(report: GcReport, *, dry_run: bool = False) -> str:
    """What a collection did, in a line."""
    done = "Would delete" if dry_run else "Deleted"
    many = plural(report.objects_deleted, "object")
    young = f"; {plural(report.waiting, 'young one')} left for the next time" if report.waiting else ""
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
