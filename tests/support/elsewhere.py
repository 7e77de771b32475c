"""Run notebooks in another process, which is what a restarted kernel is."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

import msgspec

from agent_kernel.session import Repository
from tests.support.notebooks import Notebook, rev


class Sheet(msgspec.Struct, frozen=True):
    """One notebook's worth of work for another process."""

    store: str
    cells: tuple[str, ...] = ()
    checkout: bool = False
    checks: tuple[str, ...] = ()


class SheetResult(msgspec.Struct, frozen=True):
    """What became of a sheet. `error` is a traceback, if anything but a check failed."""

    error: str = ""
    failed: tuple[str, ...] = ()
    unsaved: tuple[str, ...] = ()
    tip: str = ""


@functools.cache
def other_pythons() -> list[str]:
    """Interpreters of other minor versions that can open a store, one of each.

    `AGENT_KERNEL_OTHER_PYTHON` names some, with the separator of paths between; others are found as `python3.N`.
    """
    named = os.environ.get("AGENT_KERNEL_OTHER_PYTHON", "").split(os.pathsep)
    others = [f"python3.{minor}" for minor in range(11, 20) if minor != sys.version_info.minor]
    found: dict[str, str] = {str(sys.version_info.minor): ""}
    for path in filter(None, map(shutil.which, filter(None, [*named, *others]))):
        probe = "import sys, agent_kernel.session, lmdb, pandas; print(sys.version_info.minor)"
        answer = subprocess.run([path, "-c", probe], capture_output=True, text=True, timeout=60, check=False)
        if answer.returncode == 0:
            found.setdefault(answer.stdout.strip(), path)
    return [*filter(None, found.values())]


def elsewhere(
    sheets: Mapping[str, Sheet], *, timeout_s: float = 300.0, python: str = sys.executable
) -> dict[str, SheetResult]:
    """Work through `sheets` in one new process: bind, check out if asked, run the cells, then the checks."""
    # Results come line by line, so that a crash of the interpreter costs one sheet and not all of them.
    script = "from tests.support.elsewhere import work_through; work_through()"
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.run(
        [python, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        input=msgspec.json.encode(sheets),
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )
    lines = [line for line in process.stdout.splitlines() if line.startswith(b"{")]
    results: dict[str, SheetResult] = {}
    for line in lines:
        results |= msgspec.json.decode(line, type=dict[str, SheetResult])
    crash = SheetResult(error=f"the process ended with {process.returncode}\n{process.stderr.decode()}")
    return {name: results.get(name, crash) for name in sheets}


def work_through() -> None:
    """The other process: read sheets from standard input, write a result a line."""
    sheets = msgspec.json.decode(sys.stdin.buffer.read(), type=dict[str, Sheet])
    for name, sheet in sheets.items():
        result = work(sheet)
        sys.stdout.buffer.write(msgspec.json.encode({name: result}) + b"\n")
        sys.stdout.buffer.flush()


def work(sheet: Sheet) -> SheetResult:
    """Work through one sheet in this process."""
    failed: list[str] = []
    unsaved: list[str] = []
    tip = ""
    try:
        opened = contextlib.closing(Repository.open(sheet.store))
        with opened as repo, Notebook(repo) as nb, contextlib.redirect_stdout(sys.stderr):
            if sheet.checkout:
                nb.checkout()
            for cell in sheet.cells:
                report = nb.run(cell)
                tip = rev(report)
                unsaved += [f"{lost.name}: {lost.reason}" for lost in report.unsaved]
            for check in sheet.checks:
                failed += _what_fails(nb, check)
    except Exception:
        return SheetResult(traceback.format_exc(), tuple(failed), tuple(unsaved), tip)
    return SheetResult("", tuple(failed), tuple(unsaved), tip)


def _what_fails(nb: Notebook, check: str) -> list[str]:
    try:
        nb.execute(check)
    except Exception:
        return [traceback.format_exc()]
    return []
