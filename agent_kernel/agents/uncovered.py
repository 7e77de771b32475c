"""What going back does not cover: what steps did outside the variables that the variables go on without, or with again.

Two commits are compared: where the variables were, and where they are. The line of each goes on as they do, over undos and
rollbacks, and the steps on one line that are not on the other are those that were left, or taken on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents.context import masked
from agent_kernel.agents.events import Effect, Event, Output, SubRun
from agent_kernel.agents.undone import goes_on_from
from agent_kernel.errors import DamagedObjectError

if TYPE_CHECKING:
    from agent_kernel.agents.journal import Journal
    from agent_kernel.repository import Commit, ObjectId
    from agent_kernel.session.snapshot import Repository

__all__ = ["Apart", "apart", "notes", "numbers", "ran"]

_FAR: Final = 1_000  # commits that are looked at
_MOST: Final = 4  # things that are named
_LONGEST: Final = 80  # characters of each

Steps = dict[str, set[int]]  # by run


class Apart(msgspec.Struct, frozen=True):
    """The steps of runs that lie on the line to one of two commits alone."""

    left: Steps
    taken: Steps


def apart(repo: Repository, before: ObjectId | None, after: ObjectId | None) -> Apart:
    """What the variables of `after` go on without, and with again, since they were those of `before`."""
    found = Apart({}, {})
    left, taken = _line(repo, before), _line(repo, after)
    one, other = next(left, None), next(taken, None)
    for _ in range(_FAR):
        if (one is None and other is None) or (one and other and one[0] == other[0]):
            break
        if other is None or (one is not None and one[1].time_ns > other[1].time_ns):
            assert one is not None
            _note(repo, one[1], found.left)
            one = next(left, None)
        else:
            _note(repo, other[1], found.taken)
            other = next(taken, None)
    return found


def _line(repo: Repository, at: ObjectId | None) -> Iterator[tuple[ObjectId, Commit]]:
    """The commits that the variables go on from, newest first; it ends where one is gone."""
    while at is not None:
        try:
            commit = repo.commit_at(at)
        except DamagedObjectError:
            return
        yield at, commit
        at = _before(repo, commit)


def _before(repo: Repository, commit: Commit) -> ObjectId | None:
    """Also where only the variables went back, all of them: that looks like taking single ones."""
    target = commit.restores
    if target is not None and commit.kind == "rollback" and _tree(repo, target) == commit.tree:
        return target
    return next(iter(goes_on_from(commit)), None)


def _tree(repo: Repository, at: ObjectId) -> ObjectId | None:
    try:
        return repo.commit_at(at).tree
    except DamagedObjectError:
        return None


def _note(repo: Repository, commit: Commit, found: Steps) -> None:
    """The step of a commit, and those of what it merged."""
    if commit.run and commit.step is not None:
        found.setdefault(commit.run, set()).add(commit.step)
    for merged in commit.parents[1:]:
        base = repo.merge_base(commit.parents[0], merged)
        for at, (id, one) in enumerate(_line(repo, merged)):
            if id == base or at == _FAR:
                break
            if one.run and one.step is not None:
                found.setdefault(one.run, set()).add(one.step)


def _said(journal: Journal, steps: Steps) -> str:
    """What these steps did outside, as a few words; "" if nothing is known of that."""
    found = list(
        dict.fromkeys(one for run, of in steps.items() for one in _effects(list(journal.of(run)), journal, of))
    )
    named = [masked(one, _LONGEST) for one in found[:_MOST]]
    return ", ".join([*named, *([f"and {len(found) - _MOST} more"] if len(found) > _MOST else [])])


def _effects(events: list[Event], journal: Journal, steps: set[int] | None) -> Iterator[str]:
    for event in events:
        if steps is not None and event.step not in steps:
            continue
        if isinstance(event, Effect):
            yield event.said
        elif isinstance(event, SubRun) and event.status != "running":
            yield from _effects(list(journal.of(event.child)), journal, None)


def ran(events: list[Event]) -> set[int]:
    """The steps of a run that became commits: not those of which nobody knows what they did."""
    outputs = (event for event in events if isinstance(event, Output) and event.after != event.before)
    return {event.step for event in outputs if event.step is not None}


def numbers(steps: set[int]) -> str:
    """`step 2`, `steps 2 and 4`, `steps 2 to 5`."""
    order = sorted(steps)
    if len(order) > 2 and order[-1] - order[0] == len(order) - 1:
        return f"steps {order[0]} to {order[-1]}"
    *first, last = map(str, order)
    return f"steps {', '.join(first)} and {last}" if first else f"step {last}"


def notes(journal: Journal, found: Apart) -> list[str]:
    """What is to be told of a move: what it does not take back, and what it does not do again."""
    told: Mapping[str, Steps] = {"not undone": found.left, "not done again": found.taken}
    return [f"{what}: {effects}" for what, steps in told.items() if steps and (effects := _said(journal, steps))]
