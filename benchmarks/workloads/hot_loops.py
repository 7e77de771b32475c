"""User code at full speed: loops at the top of a cell that read globals and builtins, and functions that do."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.script import Run, cell
from benchmarks.tables import Row, Table, ms, times

_SETUP = """
data = list(range(1000))
factor = 3
offset = 7

def step(x):
    return abs(x - offset) * factor + len(data)
"""
_TOP = """
total = 0
for i in range({n}):
    total = total + abs(i) * factor + len(data) - offset
"""
_FUNCTION = """
total = 0
for i in range({n}):
    total += step(i)
"""
_ROUNDS = 4


def run(bench: Bench) -> Table:
    """Time the loops under each system in turn, several times, and compare the best processor times."""
    n = 100_000 if bench.quick else 400_000
    steps = [cell(_SETUP)]
    for _ in range(6):
        steps += [cell(_TOP.format(n=n), "top"), cell(_FUNCTION.format(n=n), "function")]
    runs: dict[str, list[Run]] = {}
    for _ in range(_ROUNDS):
        for system in ("plain", "ours", *bench.peers):
            runs.setdefault(system, []).append(bench.run(system, steps))
    table = Table("Hot loops that read globals and builtins: processor time of the cell's code against plain IPython's")
    for label, what in (("top", "loop in the cell"), ("function", "function called in a loop")):
        best = {system: min(one.code_cpu_s for run in found for one in run.of(label)) for system, found in runs.items()}
        ratio = best["ours"] / best["plain"]
        peers = {peer: times(best[peer] / best["plain"]) for peer in bench.peers}
        table.rows.append(
            Row(what, times(ratio), "≤ 1.05×", ratio <= 1.05, peers, f"plain {ms(best['plain'])}", {"ratio": ratio})
        )
    return table
