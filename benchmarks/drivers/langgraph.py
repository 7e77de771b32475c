"""LangGraph's SqliteSaver 3.1.2: the namespace as the channels of one checkpoint after every cell.

With the pickle fallback, without which it takes no data frame. What it refuses is left out.
"""

from __future__ import annotations

import logging
import sqlite3
from importlib import import_module
from typing import Any

from benchmarks.drivers.left_out import LeftOut
from benchmarks.drivers.shell import ShellDriver


class Driver(ShellDriver):
    restores = True

    def switch_on(self) -> None:
        logging.getLogger("langgraph").setLevel(logging.ERROR)
        connection = sqlite3.connect(self.kept / "checkpoints.sqlite", check_same_thread=False)
        serializer: Any = import_module("langgraph.checkpoint.serde.jsonplus").JsonPlusSerializer(pickle_fallback=True)
        self._empty: Any = import_module("langgraph.checkpoint.base").empty_checkpoint
        self._saver: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver(connection, serde=serializer)
        self._config: Any = {"configurable": {"thread_id": "notebook", "checkpoint_ns": ""}}
        self._left_out = LeftOut(lambda _, value: serializer.loads_typed(serializer.dumps_typed({"": value})))

    def after_cell(self, source: str) -> None:
        values = self._left_out.savable(self.variables())
        try:
            self._put(values)
        except Exception as failure:  # noqa: BLE001 - whatever the serializer raises
            self._left_out.find(values, failure)
            self._put(self._left_out.savable(values))

    def _put(self, values: dict[str, Any]) -> None:
        checkpoint: Any = {**self._empty(), "channel_values": values}
        self._config = self._saver.put(self._config, checkpoint, {"source": "loop", "step": 1, "parents": {}}, {})

    def state(self) -> Any:
        return self._config

    def come_back(self, state: Any) -> None:
        values: dict[str, Any] = self._saver.get_tuple(state).checkpoint["channel_values"]
        for name in self._left_out.savable(self.variables()).keys() - values.keys():
            del self.namespace[name]
        self.namespace.update(values)
