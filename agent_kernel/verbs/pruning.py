"""`prune` and `forget`: the two verbs that rewrite history."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from agent_kernel.errors import NotFoundError
from agent_kernel.repository import Retention, hex_of, short
from agent_kernel.verbs.output import Json, Result, Said
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.text import clean, plural, size_text

if TYPE_CHECKING:
    from argparse import Namespace

    from agent_kernel.repository import ForgetReport, ObjectId
    from agent_kernel.verbs.scope import Scope

__all__ = ["forget", "forget_arguments", "prune", "prune_arguments"]


def prune_arguments(parser: Parser) -> None:
    parser.value("--keep-last", metavar="N", help="keep the newest N commits of each branch", convert=int)
    parser.value("--keep-days", metavar="D", help="keep what is younger than D days", convert=float)
    parser.flag("--dry-run", help="only say what would go")


def prune(scope: Scope, options: Namespace) -> Result:
    if options.keep_last is None and options.keep_days is None:
        raise UsageProblem("say what to keep: --keep-last N, --keep-days D or both")
    if (options.keep_last or 0) < 0 or (options.keep_days or 0) < 0:
        raise UsageProblem("what to keep cannot be less than nothing")
    policy = Retention(keep_last=options.keep_last or 1, keep_days=options.keep_days or 0.0)
    if scope.session is None or options.dry_run:
        report = scope.repo.prune(policy, dry_run=options.dry_run)
    else:
        report = scope.session.prune(policy)
    facts: dict[str, Json] = {
        "kept": report.kept,
        "dropped": report.dropped,
        "objects_deleted": report.objects_deleted,
        "bytes_freed": report.bytes_freed,
    }
    if options.dry_run:
        return Said((f"Would drop {plural(report.dropped, 'commit')} and keep {report.kept:,}",), facts)
    dropped = f"Dropped {plural(report.dropped, 'commit')}, kept {report.kept:,}"
    return Said((f"{dropped}; freed {size_text(report.bytes_freed)}",), facts)


def forget_arguments(parser: Parser) -> None:
    parser.takes("what", "name", help="a variable, or a commit", optional=False)
    parser.flag("--yes", help="really: it cannot be undone")


def forget(scope: Scope, options: Namespace) -> Result:
    what: str = options.what
    found = _commit_meant(scope, what)
    meant = f"variable {clean(what)}" if found is None else f"commit {short(found)}"
    if not options.yes:
        raise UsageProblem(
            f"forget rewrites the whole history without {meant}, and cannot be undone; "
            f"to do it: {scope.command} forget {clean(what)} --yes"
        )
    if scope.session is not None:
        report = cast("ForgetReport", scope.session.forget(what))
    else:
        report = scope.repo.forget_name(what) if found is None else scope.repo.forget_commit(found)
    return _forgotten(meant, report)


def _commit_meant(scope: Scope, what: str) -> ObjectId | None:
    """The commit that is meant; None: it is a variable. A name that is both a variable and a ref is the variable."""
    if what in scope.repo.tree_at(scope.head().commit):
        return None
    try:
        return scope.resolve(what)
    except NotFoundError:
        return None


def _forgotten(meant: str, report: ForgetReport) -> Said:
    lines = [f"Forgot {meant}; freed {size_text(report.bytes_freed)}"]
    if report.shared_with:
        others = clean(", ".join(report.shared_with[:5]))
        lines.append(f"The same value is, or was, also in {others}: forget them too if it must go")
    if report.mentioned_in:
        many = plural(len(report.mentioned_in), "cell")
        lines.append(f"The code of {many} still speaks of it: {' '.join(map(short, report.mentioned_in[:5]))}")
    if not report.erased:
        lines.append("Free space in the store's file may still hold its bytes until it is written over")
    facts: dict[str, Json] = {
        "objects_deleted": report.objects_deleted,
        "bytes_freed": report.bytes_freed,
        "erased": report.erased,
        "shared_with": list(report.shared_with),
        "mentioned_in": [hex_of(commit) for commit in report.mentioned_in],
    }
    return Said(tuple(lines), facts)
