"""What a step of an agent takes besides the model and the code itself, in a namespace of a thousand variables."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

from agent_kernel.agents import Agent, Limits, ScriptedModel
from agent_kernel.agents.events import Action, Output, StepStart, TaskStart
from agent_kernel.session.versioned import Versioned
from benchmarks.bench import Bench
from benchmarks.tables import Row, Table, ms

_NAMES = 1_000
_TARGET_S = 0.02


def run(bench: Bench) -> Table:
    """Let an agent take steps that change one small variable each, on a store on the disk."""
    steps = 20 if bench.quick else 100
    work = Path(tempfile.mkdtemp(prefix="agent-steps-", dir=bench.folder))
    try:
        taken, start_s, code_s, busy_s = _measured(work / "store", steps)
    finally:
        shutil.rmtree(work)
    middle, slow = median(taken), sorted(taken)[int(len(taken) * 0.95)]
    table = Table(f"Steps of an agent, {_NAMES:,} variables")
    numbers = {"seconds": middle, "p95": slow}
    table.rows += [
        Row("a step, besides model and code", ms(middle), "< 20 ms", middle < _TARGET_S, beside=f"its code {ms(code_s)}",
            numbers=numbers),
        Row("of that on the processor, the model's thread included", ms(busy_s), numbers={"seconds": busy_s}),
        Row("the slowest of twenty", ms(slow), numbers={"seconds": slow}),
        Row("beginning a task: the first message", ms(start_s), numbers={"seconds": start_s}),
    ]  # fmt: skip
    return table


def _measured(store: Path, steps: int) -> tuple[list[float], float, float, float]:
    """Seconds of each step besides model and code, of the beginning, of the code itself, and of a step's work."""
    with Versioned(store) as state:
        state.update({f"v{n}": ([n], {"n": n}, f"text {n}", n * 0.5, (n, n + 1))[n % 5] for n in range(_NAMES)})
        state.commit()
        turns = [f"v{number * 5} .append({number})\nv{number * 5}" for number in range(steps)]
        agent = Agent("bench", model=ScriptedModel([*turns, "task.success()"]), state=state, limits=Limits(steps=None))
        began = time.perf_counter()
        going = agent.start("Count up")
        start_s = time.perf_counter() - began
        taken: list[float] = []
        code_s: list[float] = []
        since = model_s = 0.0
        worked = time.process_time()
        for event in going:
            if isinstance(event, TaskStart):
                since = time.perf_counter()
            elif isinstance(event, Action):
                model_s = event.duration_s
            elif isinstance(event, Output):
                now = time.perf_counter()
                taken.append(now - since - model_s - event.duration_s)
                code_s.append(event.duration_s)
                since = now
            else:
                assert isinstance(event, StepStart) or event.kind in ("StateChange", "Success"), event
        busy_s = (time.process_time() - worked) / (steps + 1) - median(code_s)
    return taken[2:], start_s, median(code_s), busy_s
