"""Runs notebooks, each in fresh processes and a copy of its folder, and keeps what came of them as JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.bench import environment

_START = "import sys; from benchmarks.real_notebooks.child import main; main(*sys.argv[1:])"
_NOISE_S = 0.05  # a notebook with a cell that costs this much more is run again, plain and with the extension
_NOISE = 1.05  # … and one that costs this much more as a whole


@dataclass
class Result:
    """One notebook. `plain` and `ours` are CPU seconds of each cell, the least of its runs.

    stopped: why it could not be run to its end. errors: cells that fail in one way of running and not in the other.
    """

    name: str
    stopped: str = ""
    sources: list[str] = field(default_factory=list[str])
    plain: list[float] = field(default_factory=list[float])
    ours: list[float] = field(default_factory=list[float])
    failed: int = 0
    errors: list[str] = field(default_factory=list[str])
    complaints: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    load_s: float = 0.0
    variables: int = 0
    uncompared: list[str] = field(default_factory=list[str])
    checkouts: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    restart: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ratio(self) -> float:
        return sum(self.ours) / sum(self.plain)

    def added(self) -> list[float]:
        """Seconds that each cell costs more."""
        return [ours - plain for plain, ours in zip(self.plain, self.ours, strict=True)]


def find(folder: Path) -> list[Path]:
    """The notebooks below a folder, in a fixed order."""
    return sorted(path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)


def cells_of(notebook: Path) -> list[str]:
    """The sources of its code cells. Those written for another language (`%%bash` …) are left out."""
    read = json.loads(notebook.read_text(encoding="utf-8"))
    cells = read["cells"] if "cells" in read else [cell for sheet in read["worksheets"] for cell in sheet["cells"]]
    sources = ["".join(cell.get("source", cell.get("input", ""))) for cell in cells if cell["cell_type"] == "code"]
    return [source for source in sources if source.strip() and not source.startswith(_FOREIGN)]


_FOREIGN = tuple(
    f"%%{magic}" for magic in ("bash", "sh", "script", "html", "HTML", "javascript", "js", "latex", "perl", "ruby", "R")
)


def list_fonts(folder: Path) -> None:
    """Let matplotlib, if there is one, write into a folder which fonts this machine has: that takes it seconds, once."""
    if find_spec("matplotlib") is not None:
        asked = {**environment(), "MPLCONFIGDIR": os.fspath(folder)}
        subprocess.run([sys.executable, "-c", "import matplotlib.font_manager"], env=asked, check=True)


class Runner:
    """Runs one notebook after another.

    Args:
        within: the folder below which notebooks are found; what lies beside a notebook is copied with it, up to and
            including the top folder below `within`, so that `../data` is there too.
        limit_s: seconds (by the clock) that each process gets.
        rounds: how often cells are run where they seem to cost more; of the times of a cell the least counts.
        matplotlib: what matplotlib finds in its folder, as `list_fonts` leaves it: each run has a copy of its own, or the
            one that is first would list the fonts for the others.
    """

    def __init__(self, within: Path, limit_s: float = 300.0, rounds: int = 2, matplotlib: Path | None = None) -> None:
        self._matplotlib = matplotlib
        self._within = within
        self._limit_s = limit_s
        self._rounds = rounds

    def run(self, notebook: Path, turn: int) -> Result:
        """Run it every way. `turn`: with odd ones the extension is first."""
        result = Result(str(notebook.relative_to(self._within)))
        try:
            result.sources = cells_of(notebook)
        except (ValueError, KeyError, UnicodeDecodeError) as error:
            result.stopped = f"not a notebook: {type(error).__name__}: {error}"
            return result
        if not result.sources:
            result.stopped = "it has no code"
            return result
        with tempfile.TemporaryDirectory(prefix="agent-kernel-notebook-", ignore_cleanup_errors=True) as work:
            try:
                self._ways(notebook, result, Path(work), turn)
            except _StoppedError as stopped:
                result.stopped = str(stopped)
        return result

    def _ways(self, notebook: Path, result: Result, work: Path, turn: int) -> None:
        order = ("ours", "plain") if turn % 2 else ("plain", "ours")
        found = {way: self._cells(notebook, result, work / way, way, looks=way == "ours") for way in order}
        plain, ours = found["plain"], found["ours"]
        _take_cells(result, plain, ours)
        result.load_s, result.variables = ours["load_s"], ours["variables"]
        result.uncompared, result.checkouts = ours["uncompared"], ours["checkouts"]
        told = {name: ours[name] for name in ("end", "said", "shells")}
        task = {"way": "restart", **told, "folder": str(work / "ours" / "place")}
        result.restart = self._process(task, work / "ours", _inside(notebook, self._within))
        for turn in range(1, self._rounds):
            if max(result.added(), default=0.0) <= _NOISE_S and result.ratio <= _NOISE:
                break
            order = order[::-1]
            for way in order:
                again = self._cells(notebook, result, work / f"{way} {turn}", way, looks=False)
                times = result.ours if way == "ours" else result.plain
                times[:] = map(min, times, (cell["cpu_s"] for cell in again["cells"]))
                result.load_s = min(result.load_s, again.get("load_s", result.load_s))

    def _cells(self, notebook: Path, result: Result, work: Path, way: str, *, looks: bool) -> dict[str, Any]:
        top = _top(notebook, self._within)
        shutil.copytree(top, work / "files", symlinks=True, ignore=shutil.ignore_patterns(".git", "*.ipynb"))
        if self._matplotlib is not None:
            shutil.copytree(self._matplotlib, work / "matplotlib")
        task = {"way": way, "cells": result.sources, "folder": str(work / "place"), "looks": looks}
        return self._process(task, work, _inside(notebook, self._within))

    def _process(self, task: dict[str, Any], work: Path, inside: Path) -> dict[str, Any]:
        asked, answer, said = work / "task.json", work / "answer.json", work / "said.txt"
        asked.write_text(json.dumps(task))
        answer.unlink(missing_ok=True)
        cwd = work / "files" / inside
        cwd.mkdir(parents=True, exist_ok=True)
        with said.open("w") as out, (work / "stderr.txt").open("w") as err:
            try:
                subprocess.run(
                    [sys.executable, "-c", _START, str(asked), str(answer)],
                    cwd=cwd,
                    env=_environment(work),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    timeout=self._limit_s,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise _StoppedError(f"{task['way']}: not done after {self._limit_s:.0f} s") from None
        if not answer.exists():
            last = (work / "stderr.txt").read_text(errors="replace").strip().splitlines()[-1:] or [""]
            raise _StoppedError(f"{task['way']}: the process ended: {last[0][:200]}")
        found: dict[str, Any] = json.loads(answer.read_text())
        if "stopped" in found:
            raise _StoppedError(f"{task['way']}: {found['stopped']}")
        return found


class _StoppedError(Exception):
    """A notebook that could not be run to its end."""


def _take_cells(result: Result, plain: dict[str, Any], ours: dict[str, Any]) -> None:
    result.plain = [cell["cpu_s"] for cell in plain["cells"]]
    result.ours = [cell["cpu_s"] for cell in ours["cells"]]
    result.failed = sum(bool(cell["error"]) for cell in plain["cells"])
    for number, (bare, with_ours) in enumerate(zip(plain["cells"], ours["cells"], strict=True), 1):
        if bare["error"] != with_ours["error"]:
            result.errors.append(f"cell {number}: plain {bare['error'] or 'ok'}, ours {with_ours['error'] or 'ok'}")
        if with_ours["complaints"]:
            result.complaints[number] = with_ours["complaints"]


def _top(notebook: Path, within: Path) -> Path:
    """The folder that is copied: the topmost one below `within` that the notebook is in."""
    parts = notebook.relative_to(within).parts
    return within / parts[0] if len(parts) > 1 else within


def _inside(notebook: Path, within: Path) -> Path:
    return notebook.parent.relative_to(_top(notebook, within))


def _environment(work: Path) -> dict[str, str]:
    private = {
        "XDG_DATA_HOME": work / "data",
        "IPYTHONDIR": work / "ipython",
        "MPLCONFIGDIR": work / "matplotlib",
    }
    # As in a notebook: figures are drawn and shown at the end of the cell that made them.
    shown = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    return {**environment(), **{name: os.fspath(path) for name, path in private.items()}, **shown}
