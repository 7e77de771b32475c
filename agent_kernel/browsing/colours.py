"""Which colour a commit has: that of the branch on whose line it was made.

A branch's line is its tip, the tip's first parent, and so on. Where lines run together, the part that they share
belongs to the first of them: main (or, without one, the branch of HEAD), then the others by name. Colours are numbers:
0 is that first branch, the others count on from the oldest, so that a new branch changes no other's colour. Lines of
branches that are gone come last.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import msgspec

from agent_kernel.repository import ObjectId
from agent_kernel.verbs.timeline import View

__all__ = ["Colours", "colours_of"]

_MAIN = "main"


class Colours(msgspec.Struct, frozen=True):
    """Colours of commits and of branches."""

    commits: Mapping[ObjectId, int]
    branches: Mapping[str, int]
    first: str | None  # the branch of colour 0


def colours_of(view: View) -> Colours:
    """The colours of everything in the view."""
    first = _MAIN if _MAIN in view.branches else view.head.branch if view.head.branch in view.branches else None
    names = sorted(view.branches, key=lambda name: (name != first, name))
    lines: dict[ObjectId, str] = {}
    own: dict[str, int] = {}  # when the oldest commit of its own was made
    for name in names:
        for id in _line(view, view.branches[name], lines):
            lines[id] = name
            own[name] = view.order[view.places[id]].time_ns
    newest = view.order[0].time_ns if view.order else 0
    ranked = sorted(names, key=lambda name: (name != first, own.get(name, newest + 1), name))
    branches = {name: colour for colour, name in enumerate(ranked)}
    commits = {id: branches[name] for id, name in lines.items()}
    _colour_rest(view, commits, len(branches))
    return Colours(commits, branches, first)


def _line(view: View, tip: ObjectId, taken: Container[ObjectId]) -> Iterator[ObjectId]:
    id: ObjectId | None = tip
    while id is not None and id not in taken and id in view.places:
        yield id
        parents = view.order[view.places[id]].parents
        id = parents[0] if parents else None


def _colour_rest(view: View, commits: dict[ObjectId, int], colour: int) -> None:
    """What no branch is on any more: each line a colour of its own, the oldest first."""
    lines: list[list[ObjectId]] = []
    taken = set(commits)
    for record in view.order:
        if record.id not in taken:
            lines.append(list(_line(view, record.id, taken)))
            taken.update(lines[-1])
    for number, line in enumerate(reversed(lines), colour):
        commits.update(dict.fromkeys(line, number))
