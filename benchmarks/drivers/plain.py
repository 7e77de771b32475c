"""IPython with nothing added: what a cell costs without any of this."""

from __future__ import annotations

from benchmarks.drivers.shell import ShellDriver


class Driver(ShellDriver):
    pass
