"""A cell that defines a class ran again, with the same source: the new class goes on as the one that was saved.

Python makes another class each time, and instances of the earlier one stay instances of that. Where nothing of the earlier
one is left, nobody can tell the two apart: the new one gets its lasting id, so a commit, diff or log shows no change.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.session.serialization import compare
from agent_kernel.values import CLASS_PREFIX, class_entry
from agent_kernel.values.groups import dump_group
from agent_kernel.values.introspection import (
    class_dict,
    derives_from,
    instance_dict,
    module_name,
    qualified_name,
    referents,
)
from agent_kernel.values.pickler import FOREIGN

if TYPE_CHECKING:
    from agent_kernel.session.tracking import Group, Living, Tracking


class _Rerun(msgspec.Struct):
    """A class that may go on as an earlier one, of this id; `before`: that one, where it still lives."""

    uid: str
    kind: Any
    before: Any
    group: Group


def adopt_reruns(namespace: dict[str, object], tracking: Tracking, living: Living, moved: Collection[str]) -> None:
    """Give classes that were defined again the ids of the earlier ones that are gone, and were the same.

    Args:
        moved: names that are bound anew, or gone, since the last commit.
    """
    found = {rerun.uid: rerun for name in moved for rerun in _reruns_of(namespace.get(name), name, tracking, living)}
    replaced = {*moved, *map(class_entry, found)}
    found = {uid: one for uid, one in found.items() if replaced.issuperset(tracking.users_of(uid))}
    holders = _holders_of([one.before for one in found.values() if one.before is not None])
    while still_used := [uid for uid, one in found.items() if _is_still_used(one, holders, found)]:
        for uid in still_used:
            del found[uid]
    for uid, one in found.items():
        living.classes.adopt(uid, one.kind)
    while other := [one for one in found.values() if not _is_same(one, living, namespace)]:
        for one in other:  # those that are made of it are others then, too
            del found[one.uid]
            living.classes.forget(one.uid)
            if one.before is not None:
                living.classes.adopt(one.uid, one.before)


def _reruns_of(kind: Any, name: str, tracking: Tracking, living: Living) -> Iterable[_Rerun]:
    group = tracking.groups.get(name)
    if group is None or not _is_notebook_class(kind) or living.classes.is_known(kind):
        return
    for uid in group.classes:
        of_class = tracking.groups.get(class_entry(uid))
        if uid.rpartition("#")[0] != qualified_name(kind) or of_class is None:
            continue
        if of_class.stale or of_class.placeholders is not None or of_class.size > _LARGE_BYTES:
            continue
        yield _Rerun(uid, kind, living.classes.live(uid), of_class)
        for inner in class_dict(kind).values():
            yield from _reruns_of(inner, class_entry(uid), tracking, living)


_LARGE_BYTES = 1_000_000  # what a class was saved with, up to which it is saved twice to be compared


def _is_class(value: object) -> bool:
    return derives_from(type(value), type)


def _is_notebook_class(value: Any) -> bool:
    return _is_class(value) and module_name(value) == "__main__"


def _holders_of(kinds: list[Any]) -> dict[int, list[Any]]:
    """By the id of a class what leads to it: instances, classes and containers. All at once, for Python looks at all objects."""
    found: dict[int, list[Any]] = {id(kind): [] for kind in kinds}
    referrers: list[object] = gc.get_referrers(*kinds) if kinds else []
    for one in referrers:
        if id(type(one)) in found:
            found[id(type(one))].append(one)
        elif one is not kinds and (_is_class(one) or id(type(one)) in _CONTAINER_IDS):
            for item in found.keys() & set(map(id, referents((one,)))):
                found[item].append(one)
    return found


_CONTAINER_IDS = frozenset(map(id, (list, dict, set, frozenset, deque)))


def _is_still_used(rerun: _Rerun, holders: dict[int, list[Any]], others: dict[str, _Rerun]) -> bool:
    """Whether something still leads to the earlier class: an instance, a class that stays, or what holds the class itself."""
    if rerun.before is None:
        return False
    earlier = [one.before for one in others.values() if one.before is not None]
    own = set(map(id, earlier))
    for kind in earlier:
        own |= {id(part) for value in class_dict(kind).values() for one in _items_of(value) for part in _parts(one)}
        own |= set(map(id, referents((class_dict(kind),))))
    return any(id(holder) not in own for holder in holders[id(rerun.before)])


def _items_of(value: Any) -> list[Any]:
    """The members of an enumeration lie in a dict and in a list of the class."""
    return [value, *(value.values() if type(value) is dict else value if type(value) is list else ())]


def _parts(value: object) -> list[object]:
    """A member knows its class."""
    return [value, instance_dict(value)]


def _is_same(one: _Rerun, living: Living, namespace: dict[str, object]) -> bool:
    """Whether the class, and what it is saved together with, is saved as the earlier one was."""
    members: dict[str, object] = {}
    for name in one.group.members:
        is_entry = name.startswith(CLASS_PREFIX)
        members[name] = living.classes.live(name.removeprefix(CLASS_PREFIX)) if is_entry else namespace.get(name)
    try:
        dumped = dump_group(members, living, namespace)
    except (*FOREIGN, RecursionError):
        return False
    return compare(dumped).signature == one.group.signature
