"""See which notebook functions really ran in a cell, where Python can tell (`sys.monitoring`, since 3.12).

A callback that a library holds, or `eval` under another name, leaves no word in the cell's source. The events are asked
for once for each code object in a cell and then switched off for it, so a hot loop costs nothing more.

Other tools may use monitoring at the same time: every tool has its own number. `restart_events()` is not for us, for it
switches on again what any tool has switched off. What ran in a cell is taken off our list as the cell ends (see `stop`).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from agent_kernel.values.definitions import variables_used

_NAME = "agent_kernel"


class Monitor:
    """Collects the names that running notebook code uses, and the objects it was given."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.names: set[str] = set()
        self.ids: set[int] = set()
        self._namespace = namespace
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool: int | None = None
        self._give_back: Callable[[], object] | None = None
        self._switched_off: list[CodeType] = []

    def start(self) -> None:
        """A cell begins."""
        self.names, self.ids = set(), set()
        if self._monitoring is None:
            return
        if self._tool is None:
            self._tool = self._claim()
        if self._tool is not None:
            events = self._monitoring.events
            self._monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME)

    def stop(self) -> None:
        """The cell has ended: nothing is watched until the next one.

        A code object for which an event was switched off stays so as long as Python believes that the event is wanted
        there. To want it there alone, and then not at all, makes Python forget.
        """
        if self._tool is None:
            return
        self._monitoring.set_events(self._tool, 0)
        events = self._monitoring.events
        switched_off, self._switched_off = self._switched_off, []
        for code in switched_off:
            self._monitoring.set_local_events(self._tool, code, events.PY_START | events.PY_RESUME)
            self._monitoring.set_local_events(self._tool, code, 0)

    def close(self) -> None:
        """Give the tool number back."""
        if self._give_back is not None:
            self.stop()
            self._give_back()
            self._tool = self._give_back = None

    def _claim(self) -> int | None:
        """A tool number that nobody uses; debuggers, coverage tools and profilers have fixed ones (0, 1, 2, 5)."""
        for tool in (4, 3):
            if self._monitoring.get_tool(tool) is None:
                self._monitoring.use_tool_id(tool, _NAME)
                # There are few numbers: a session that nobody closed gives its own back as it goes.
                self._give_back = finalizer = weakref.finalize(self, _give_back, self._monitoring, tool)
                finalizer.atexit = False
                events = self._monitoring.events
                for event in (events.PY_START, events.PY_RESUME):
                    self._monitoring.register_callback(tool, event, _callback(self, self._monitoring.DISABLE))
                return tool
        return None

    def ran(self, code: CodeType, frame: FrameType) -> None:
        """A frame begins to run."""
        if frame.f_globals is self._namespace and frame.f_code is code:
            self._switched_off.append(code)
            if not _only_shows(code):
                self.names.update(variables_used(code))
            if code.co_flags & _OPTIMIZED:  # a function, whose locals are its arguments now; a cell's are the namespace
                self.ids.update(map(id, frame.f_locals.values()))


def _callback(monitor: Monitor, disable: object) -> Callable[[CodeType, int], object]:
    """What Python calls. It keeps what it is given for good, so not the monitor, which leads to all of a notebook."""
    found = weakref.ref(monitor)

    def started(code: CodeType, _: int) -> object:
        alive = found()
        if alive is not None:
            alive.ran(code, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # the frame that begins to run
        return disable

    return started


def _give_back(monitoring: Any, tool: int) -> None:
    monitoring.set_events(tool, 0)
    monitoring.free_tool_id(tool)


def _only_shows(code: CodeType) -> bool:
    """Whether the code is a line with one name in it, which is shown and given to nobody."""
    return len(code.co_names) == 1 and code.co_code in _SHOWING


_SHOWING = frozenset(compile("name", "", mode).co_code for mode in ("single", "exec"))
_OPTIMIZED = 0x1  # inspect.CO_OPTIMIZED
