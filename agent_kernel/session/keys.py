"""Merge a dict that both sides changed, key by key, and say which keys clash."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from agent_kernel.session import saving
from agent_kernel.session.workspace import Workspace
from agent_kernel.values import summaries
from agent_kernel.values.groups import dump_group

Preference: TypeAlias = Literal["", "ours", "theirs"]

_GONE: Final = object()
_MOST_CLASHES: Final = 8  # keys of one dict that an error names


class Clash(msgspec.Struct, frozen=True):
    """A key that both sides changed, and what each has for it; `_GONE` where a side deleted it."""

    key: object
    ours: object
    theirs: object


class KeyMerge(msgspec.Struct, frozen=True):
    """The merged dict in our order, and the keys of it that both sides changed in different ways."""

    merged: dict[object, object]
    clashes: tuple[Clash, ...]


def merge_keys(workspace: Workspace, base: Any, ours: Any, theirs: Any, prefer: Preference) -> KeyMerge | None:
    """Merge two dicts that come from a third; None if one of them is no plain dict.

    Args:
        prefer: whose value a key has that both changed; without it that key is a clash.
    """
    if not all(type(side) is dict for side in (base, ours, theirs)):
        return None
    was, mine, new = (_fingerprints(workspace, side) for side in (base, ours, theirs))
    merged: dict[object, object] = dict(ours)
    clashes: list[Clash] = []
    for key in [*base, *(key for key in theirs if key not in base)]:
        if new.get(key) in (was.get(key), mine.get(key)):
            continue
        if mine.get(key) != was.get(key):
            if not prefer:
                clashes.append(Clash(key, ours.get(key, _GONE), theirs.get(key, _GONE)))
            if prefer != "theirs":
                continue
        if key in theirs:
            merged[key] = theirs[key]
        else:
            merged.pop(key, None)
    return KeyMerge(merged, tuple(clashes))


def described(name: str, clashes: tuple[Clash, ...]) -> list[tuple[str, str, str]]:
    """The clashes as an error lists them: `prices['tea']`, and what either side has."""
    rows = [(f"{name}[{_key(one.key)}]", _line(one.key, one.ours), _line(one.key, one.theirs)) for one in clashes]
    if len(rows) > _MOST_CLASHES:
        rows = [*rows[:_MOST_CLASHES], (f"{name}[…]", f"{len(rows) - _MOST_CLASHES} more", "…")]
    return rows


def _key(key: object) -> str:
    return summaries.summarize(key).text or summaries.line(summaries.summarize(key))


def _line(key: object, value: object) -> str:
    if value is _GONE:
        return "removed"
    return summaries.line(summaries.summarize(value, key if type(key) is str else ""))


def _fingerprints(workspace: Workspace, side: dict[object, object]) -> dict[object, bytes]:
    return {
        key: saving.compare(dump_group({"": value}, workspace.living, workspace.namespace)).signature
        for key, value in side.items()
    }
