"""What a move would do to what is live, beyond what the store says of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from agent_kernel.browsing.plans import told_changes
from agent_kernel.verbs.text import clean

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.repository import ObjectId
    from agent_kernel.session import Repository, Session

__all__ = ["planned"]

_NAMES = 3


def planned(desk: Desk, args: Mapping[str, object], found: Answer) -> Answer:
    """The answer to `plan`, completed. On the main thread, between cells."""
    with desk.inside() as (repo, session):
        to = repo.resolve(str(cast("Answer", found["to"])["id"]), session.id)
        cannot = cast("list[Answer]", found["cannot"])
        alive = session.alive(to, [str(one["name"]) for one in cannot])
        uncommitted = [change.name for change in session.status(names=False).changed]
        live = _compared(repo, session, args, to)
    return {
        **found,
        **live,
        "cannot": [{**one, "stays": one["name"] in alive} for one in cannot],
        "notes": [*_first(uncommitted), *cast("list[str]", found["notes"])],
    }


def _compared(repo: Repository, session: Session, args: Mapping[str, object], to: ObjectId) -> Answer:
    """What changes, where a restart took variables of HEAD out of memory that nobody brought back."""
    if args["op"] in ("merge", "cherry_pick") or not session.carried():
        return {}
    branch = repo.branch_meant(str(args["to"]), session.id) if args["op"] == "checkout" else None
    changes = session.foreseen(to, is_here=branch is not None and branch == session.branch)
    return told_changes(repo, repo.tree_at(to), changes)


def _first(names: Sequence[str]) -> list[str]:
    """That what is not committed yet is committed before anything moves."""
    if not names:
        return []
    shown = [clean(name) for name in names[:_NAMES]]
    more = len(names) - len(shown)
    listed = ", ".join(shown[:-1])
    said = f"{', '.join(shown)} and {more} more" if more else f"{listed} and {shown[-1]}" if listed else shown[0]
    return [f"{said} {'is' if len(names) == 1 else 'are'} committed first."]
