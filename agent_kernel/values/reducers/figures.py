"""matplotlib: figures come back detached from pyplot, and pickling one does not change it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from agent_kernel.values.pickler import reduced
from agent_kernel.values.reducers import Handler

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type) -> Handler | None:
    names = {(base.__module__, base.__name__) for base in kind.__mro__}
    if ("matplotlib.cbook", "CallbackRegistry") in names:
        return reduce_callbacks
    if ("matplotlib.figure", "Figure") in names:
        return reduce_figure
    return None


def reduce_figure(pickler: Pickler, figure: Any) -> Any:
    parts = reduced(figure)
    pickler.dump_record.instances.append(figure)
    state = dict(parts[2])
    # With this key a figure registers itself with pyplot when it is loaded, and opens a window.
    state.pop("_restore_to_pylab", None)
    pickler.kept.append(state)
    return *parts[:2], state, *parts[3:]


def reduce_callbacks(pickler: Pickler, registry: Any) -> Any:
    """Its own `__getstate__` takes the next number from a counter: reading the state changed it."""
    pickler.dump_record.instances.append(registry)
    following = registry._cid_gen.__reduce__()[1][0]
    parts = registry.__reduce_ex__(5)
    registry._cid_gen = itertools.count(following)
    used = (number for signal in registry.callbacks.values() for number in signal)
    state = {**parts[2], "_cid_gen": max(used, default=-1) + 1}
    return *parts[:2], state, *parts[3:]
