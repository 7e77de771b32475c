"""Cells that change nothing, while large values are alive that functions, words and attributes could lead to."""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import Run, Step, cell, checkout, mark
from benchmarks.tables import Row, Table, ms, times

_START = """
import numpy as np
import pandas as pd
rng = np.random.default_rng(0)
frame = pd.DataFrame({{name: rng.random({rows}) for name in "abcd"}})
words = {{f"word {{i}}" for i in range({rows} // 4)}}
blocks = [rng.random({floats} // 4) for _ in range(4)]
"""
_FUNCTIONS = """
def summary():
    return frame["a"].sum() + sum(block[0] for block in blocks)

def is_word(text):
    return text in words

class Model:
    training = True
    def eval(self):
        self.training = False

model = Model()
"""
_QUIET = {
    "comment": "# a comment, and a function reads a frame and a set",
    "attribute": "model.eval()",
    "string": "'vars() and globals() in a string'",
    "comment word": "# vars(), locals() and eval() in a comment",
    "call": "is_word('word 7')",
}
_TURNS = 9


def run(bench: Bench) -> Table:
    """Take the processor's time around each such cell, which waits for no disk."""
    rows, floats = (100_000, 5_000_000) if bench.quick else (1_000_000, 50_000_000)
    steps: list[Step] = [cell(_START.format(rows=rows, floats=floats)), cell(_FUNCTIONS), mark("made")]
    for number in range(_TURNS):
        steps += [cell(source, label) for label, source in _QUIET.items()]
        steps.append(cell(f"other = {number}", "other"))
    steps += [cell("frame.loc[3, 'a'] = 0.0"), mark("end"), checkout("made"), checkout("end")]
    runs = run_all(bench, steps)
    table = Table(f"Cells that change nothing, with {floats * 8 // 1_000_000} MB alive", notes=runs.problems())
    tiny = _around(runs.ours, runs.plain, "other")
    for label, source in _QUIET.items():
        added = _around(runs.ours, runs.plain, label)
        peers = {name: ms(_around(found, runs.plain, label)) for name, found in runs.peers.items()}
        shown = f"{ms(added)} = {times(added / tiny)} a cell that binds a number"
        table.rows.append(Row(source[:32], shown, "≤ 2 ms", added <= 2e-3, peers, numbers={"seconds": added}))
    table.rows.append(exact_row(runs))
    return table


def _around(run: Run, plain: Run, label: str) -> float:
    """CPU seconds that a system adds around the code of a cell, the median of all but the first, which may import."""
    mine, bare = ([one.cpu_s - one.code_cpu_s for one in found.of(label)[1:]] for found in (run, plain))
    return max(median(mine) - median(bare), 1e-6) if mine and bare else float("nan")
