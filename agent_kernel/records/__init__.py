"""Typed, validated, watched state on the engine of the history. Modules load when a name of theirs is first used.

`schema` says what a model's record is, `lines` where records lie (on a branch, or beside all branches) and how they change, `trees` how commits hold them,
`collection` is what a program holds: `Records`, a mapping of one model. `lists` are lists that grow at their end, `state` the values of an
agent, `memory` what it remembers, `queue` what processes wait for. The verbs (workflows, queues, tools …) are small
classes on `Records`, and write nothing themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_kernel.lazy_imports import import_lazily

if TYPE_CHECKING:
    from agent_kernel.records.collection import Change as Change
    from agent_kernel.records.collection import Records as Records
    from agent_kernel.records.collection import Subscription as Subscription
    from agent_kernel.records.lists import ListChange as ListChange
    from agent_kernel.records.lists import RecordList as RecordList
    from agent_kernel.records.memory import Memory as Memory
    from agent_kernel.records.memory import Tiers as Tiers
    from agent_kernel.records.queue import Lock as Lock
    from agent_kernel.records.schema import Record as Record
    from agent_kernel.records.schema import migration as migration
    from agent_kernel.records.state import State as State

__all__ = [
    "Change",
    "ListChange",
    "Lock",
    "Memory",
    "Record",
    "RecordList",
    "Records",
    "State",
    "Subscription",
    "Tiers",
    "migration",
]

_HOMES = {
    "collection": ("Change", "Records", "Subscription"),
    "lists": ("ListChange", "RecordList"),
    "queue": ("Lock",),
    "memory": ("Memory", "Tiers"),
    "schema": ("Record", "migration"),
    "state": ("State",),
}
_HOME = {name: f"agent_kernel.records.{module}" for module, names in _HOMES.items() for name in names}


__getattr__ = import_lazily(__name__, _HOME)
