"""The names that point at commits."""

from __future__ import annotations

from collections.abc import Mapping

from agent_kernel.browsing.answers import Ref
from agent_kernel.browsing.colours import Colours
from agent_kernel.browsing.wording import cleaned
from agent_kernel.repository import ObjectId
from agent_kernel.verbs.timeline import View

__all__ = ["refs_by_commit"]

_MOST_REFS = 20  # at one commit, HEAD's first


def refs_by_commit(view: View, colours: Colours, asides: Mapping[str, str]) -> dict[ObjectId, tuple[Ref, ...]]:
    """The names that point at each commit: HEAD's branch first, then branches, then tags. `asides`: in words."""
    found: dict[ObjectId, list[Ref]] = {}
    head = view.head
    if head.commit is not None and head.branch is None:
        found[head.commit] = [Ref("head", "HEAD", True, None)]
    for name, at in sorted(view.branches.items(), key=lambda branch: (branch[0] != head.branch, branch[0])):
        said = "" if name == head.branch else asides.get(name, "")
        ref = _branch(name, said, name == head.branch, colours.branches[name])
        found.setdefault(at, []).append(ref)
    for name, at in sorted(view.tags.items()):
        found.setdefault(at, []).append(Ref("tag", cleaned(name, 200), False, None))
    return {at: tuple(refs[:_MOST_REFS]) for at, refs in found.items()}


def _branch(name: str, said: str, is_here: bool, lane: int) -> Ref:
    if said:
        return Ref("aside", said, False, lane, cleaned(name, 200))
    return Ref("branch", cleaned(name, 200), is_here, lane)
