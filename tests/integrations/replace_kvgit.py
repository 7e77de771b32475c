"""A pytest plugin: kvgit's tests get `AgentKernelKV` for `Memory` and `Disk`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import kvgit.kv.memory

import agent_kernel as ak
from agent_kernel.integrations.kvgit import AgentKernelKV

sys.path.insert(0, str(Path(__file__).parent / "kvgit_support"))


class Memory(AgentKernelKV):
    def __init__(self) -> None:
        super().__init__(ak.open("memory:"))


class Disk(AgentKernelKV):
    def __init__(self, directory: Any = None) -> None:
        super().__init__(str(Path(directory or tempfile.mkdtemp()) / "store"))


kvgit.kv.memory.Memory = Memory  # type: ignore[misc,assignment]
try:
    import kvgit.kv.disk
except ImportError:
    pass
else:
    kvgit.kv.disk.Disk = Disk  # type: ignore[misc,assignment]
