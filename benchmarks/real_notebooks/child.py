"""Runs the cells of one notebook in one fresh process, and writes what came of them.

Three ways: plain; with the extension, then back to three earlier commits and forward again; and restarted, where a bare
`%agent checkout` brings the variables of the second way back.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.fingerprints import differences, fingerprints, uncompared

_WORD = re.compile(r"[^\W\d]\w*")
_OWN_FRAMES = f"{os.sep}agent_kernel{os.sep}"


def main(task: str, answer: str) -> None:
    """Do the task and write the answer, as far as it got."""
    found: dict[str, Any] = {}
    try:
        asked = json.loads(Path(task).read_text())
        _WAYS[asked["way"]](asked, found)
    except BaseException as error:  # noqa: BLE001 - the parent shows it
        traceback.print_exc()
        found["stopped"] = f"{type(error).__name__}: {error}"[:300]
    Path(answer).write_text(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # threads and pools of a notebook may never end


def _start(way: str, folder: str) -> Any:
    driver: Any = import_module(f"benchmarks.drivers.{way}").Driver(Path(folder))
    shell = driver.shell
    shell.enable_gui = _do_nothing  # a bare shell has no event loop, and `%matplotlib` asks for one
    shell.system = _do_nothing  # `!pip install …` and the like: nothing outside the notebook is changed
    return driver


def _do_nothing(*_: object) -> None:
    pass


def _run_plain(task: dict[str, Any], found: dict[str, Any]) -> None:
    driver = _start("plain", task["folder"])
    cells = found["cells"] = list[Any]()
    for source in task["cells"]:
        cells.append(_cell(driver, source))


def _run_ours(task: dict[str, Any], found: dict[str, Any]) -> None:
    complaints = _Complaints()
    driver = _start("ours", task["folder"])
    found["load_s"] = driver.switched_on_cpu_s
    cells = found["cells"] = list[Any]()
    marks: dict[str, dict[str, Any]] = {}
    wanted = _spread(len(task["cells"])) if task["looks"] else set[int]()
    for number, source in enumerate(task["cells"]):
        cell = _cell(driver, source)
        cell["complaints"] = complaints.taken(cell)
        cells.append(cell)
        if number in wanted and driver.session.head is not None:
            marks[driver.state()] = _mark(driver, number)
    if not task["looks"]:
        return
    branch = driver.session.branch
    end = _mark(driver, len(task["cells"]) - 1)
    found["end"] = end["is"]
    found["said"] = end["said"]
    found["uncompared"] = uncompared(end["is"])
    found["variables"] = len(driver.variables())
    found["shells"] = sorted(driver.shell.user_ns_hidden)
    found["checkouts"] = [_checkout(driver, state, mark) for state, mark in marks.items()]
    found["checkouts"].append(_checkout(driver, branch, end))
    driver.close()


def _cell(driver: Any, source: str) -> dict[str, Any]:
    ran = driver.run(source)
    return {"cpu_s": ran.cpu_s, "total_s": ran.total_s, "error": ran.error.partition(":")[0], "said": ran.said[-2_000:]}


def _spread(cells: int) -> set[int]:
    """Three earlier cells, at a quarter, half and three quarters of the notebook."""
    return {cells * part // 4 - 1 for part in (1, 2, 3)} - {-1}


def _mark(driver: Any, number: int) -> dict[str, Any]:
    return {"cell": number + 1, "is": driver.look(), "said": _said(driver)}


def _said(driver: Any) -> list[str]:
    """Variables of which the session says that they are not saved, or not in memory."""
    status = driver.session.status()
    return sorted({name for one in status.lost for name in one.name.split(", ")} | set(status.carried))


def _checkout(driver: Any, to: str, mark: dict[str, Any]) -> dict[str, Any]:
    outcome: dict[str, Any] = {"cell": mark["cell"], "refused": "", "wrong": [], "excused": mark["said"]}
    began = time.process_time()
    try:
        driver.session.checkout(to)
    except Exception as error:  # noqa: BLE001 - a failed checkout is a result
        traceback.print_exc()
        outcome["refused"] = f"{type(error).__name__}: {error}"[:1_000]
    outcome["cpu_s"] = time.process_time() - began
    if not outcome["refused"]:
        outcome["wrong"] = differences(mark["is"], driver.look(), mark["said"])
    return outcome


def _restart(task: dict[str, Any], found: dict[str, Any]) -> None:
    driver = _start("ours", task["folder"])
    ran = driver.run("%agent checkout")
    found["cpu_s"] = ran.cpu_s
    text = found["text"] = (ran.said + _Stderr.read())[-4_000:]
    said = {*_said(driver), *task["said"]}
    now = fingerprints(driver.namespace, driver.before)
    said |= _named(text) & task["end"].keys()  # where nothing was loaded, the message may be all there is
    said |= set(task["shells"]) if "the names of %pylab" in text else set()
    found["said"] = sorted(said)
    found["error"] = ran.error
    found["wrong"] = differences(task["end"], now, said)
    found["exact"] = not differences(task["end"], now)


def _named(text: str) -> set[str]:
    """The words of lines that say that something is not saved or not loaded."""
    lines = (line for line in text.splitlines() if "not " in line)
    return {word for line in lines for word in _WORD.findall(line)}


class _Stderr:
    """What this process wrote to its standard error, a file."""

    position = 0

    @classmethod
    def read(cls) -> str:
        sys.stderr.flush()
        path = Path(sys.stderr.name if isinstance(sys.stderr.name, str) else "")
        name = Path(f"/proc/self/fd/{sys.stderr.fileno()}")
        text = (name if name.exists() else path).read_bytes()[cls.position :]
        cls.position += len(text)
        return text.decode(errors="replace")


class _Complaints(logging.Handler):
    """Commits that failed, and tracebacks of ours: in the log, or in what a cell printed."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._logged: list[str] = []
        logging.getLogger("agent_kernel").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        shown = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else ""
        self._logged.append(f"{record.getMessage()}\n{shown[-3_000:]}")

    def taken(self, cell: dict[str, Any]) -> list[str]:
        """What was complained of since the last call."""
        printed = _Stderr.read()
        found = [*self._logged, *_lines(printed.splitlines(), "is not committed")]
        if "Traceback" in printed and _OWN_FRAMES in printed:
            found.append(printed[-2_000:])
        if "Error in callback" in cell["said"] or ("Traceback" in cell["said"] and _OWN_FRAMES in cell["said"]):
            found.append(cell["said"])
        self._logged = []
        return found


def _lines(lines: Sequence[str], part: str) -> list[str]:
    return [line for line in lines if part in line]


_WAYS = {"plain": _run_plain, "ours": _run_ours, "restart": _restart}
