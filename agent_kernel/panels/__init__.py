"""What a notebook shows beside its cells: the history panel, and the line under a cell that changed something.

A panel asks by messages over a comm, and `Hub` answers: looking is answered at once, on whichever thread the kernel
handed the message over; what changes the variables waits until no cell runs, and is done on the main thread (`Turns`).
Until something is shown or asked, only `Panels` and `Turns` are loaded.
"""

from __future__ import annotations

from agent_kernel.panels.panels import Panels

__all__ = ["Panels"]
