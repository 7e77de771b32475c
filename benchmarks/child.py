"""Runs one script under one system, in a fresh process, and writes what came of each step."""

from __future__ import annotations

import gc
import sys
import time
import traceback
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.fingerprints import differences
from benchmarks.memory import Watch
from benchmarks.script import Outcome, Run, Step, read_steps, write_run


def main(system: str, script: str, answer: str, folder: str) -> None:
    """Run the script and write the answer, also when it ends early."""
    run = Run(system)
    out = Path(answer)
    driver: Any = None
    try:
        driver = import_module(f"benchmarks.drivers.{system}").Driver(Path(folder))
        marks: dict[str, dict[str, str]] = {}
        for step in read_steps(Path(script)):
            run.outcomes.append(_take(driver, step, marks))
    except BaseException as error:  # noqa: BLE001 - foreign systems; the parent shows it
        traceback.print_exc()
        last = str(error).splitlines()
        run.error = f"{type(error).__name__}: {last[0] if last else ''}"[:300]
    write_run(out, run)
    if driver is not None and not run.error:
        driver.close()


def _take(driver: Any, step: Step, marks: dict[str, dict[str, str]]) -> Outcome:
    outcome = Outcome(step.do, step.label)
    if step.do == "mark":
        driver.mark(step.label)
        if driver.restores:
            marks[step.label] = driver.look()
        gc.collect()
    elif step.do == "measure":
        from benchmarks.references import measure

        outcome.value = measure(step.source, driver)
    else:
        with Watch() if step.watch else nullcontext() as watch:
            _timed(driver, step, outcome)
        if watch is not None:
            outcome.memory_before, outcome.memory_peak = watch.before, watch.peak
            outcome.resident_peak = watch.resident_peak
    if step.do == "checkout" and not outcome.error and step.source in marks:
        outcome.checked = len(marks[step.source])
        outcome.wrong = differences(marks[step.source], driver.look())
    outcome.disk = driver.disk()
    return outcome


def _timed(driver: Any, step: Step, outcome: Outcome) -> None:
    if step.do == "cell":
        ran = driver.run(step.source)
        outcome.total_s, outcome.code_s, outcome.code_cpu_s, outcome.error = ran[:4]
        outcome.cpu_s = ran.cpu_s
    elif step.do == "branch":
        driver.start_branch(step.source)
    elif driver.restores:
        began = time.process_time()
        try:
            outcome.total_s = driver.checkout(step.source)
        except Exception as error:  # noqa: BLE001 - a failed checkout is a result
            traceback.print_exc()
            outcome.error = f"checkout failed: {type(error).__name__}: {error}"[:300]
        outcome.cpu_s = time.process_time() - began


if __name__ == "__main__":
    main(*sys.argv[1:])
