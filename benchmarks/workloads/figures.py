"""Figures of many parts, as people draw them: what a cell costs beside drawing, and when only its result is looked at.

All of it is the processor's time around and in the code of one cell: nothing of it waits for a disk, and what else the machine does
slows both alike.
"""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.script import Run, Step, cell
from benchmarks.tables import Row, Table, ms, times

_START = """
import numpy as np, matplotlib.pyplot as plt
warm, warm_ax = plt.subplots()
warm_ax.boxplot([1, 2, 3])
warm.canvas.draw()
plt.close("all")
del warm, warm_ax
"""
_BOXES = """
fig, ax = plt.subplots(figsize=(20, 6))
bp = ax.boxplot([np.random.rand(30) for _ in range({n})])
fig.canvas.draw()
"""
_SECOND = "fig2, ax2 = plt.subplots()\nax2.plot([1, 2, 3])\nfig2.canvas.draw()"
_IMAGES = "grid, axes = plt.subplots({n}, {n})\nfor one in axes.flat:\n    one.imshow(np.random.rand(16, 16))"


def run(bench: Bench) -> Table:
    """Draw, draw another beside it, and show what was drawn."""
    boxes, side = (12, 2) if bench.quick else (112, 8)
    steps: list[Step] = [
        cell(_START),
        cell(_BOXES.format(n=boxes), "boxes"),
        cell("x = 1"),
        cell(_SECOND, "second"),
        cell("plt.close('all')\ndel fig, ax, bp, fig2, ax2"),
        cell(_IMAGES.format(n=side), "images"),
        *[cell("grid", "shown") for _ in range(3)],
        cell("axes[0, 0].set_title('a')", "changed"),
    ]
    runs: dict[str, list[Run]] = {}
    for _ in range(1 if bench.quick else 5):
        for system in ("plain", "ours"):
            runs.setdefault(system, []).append(bench.run(system, steps))
    table = Table(f"A box plot of {boxes} boxes, and {side * side} axes with images")
    for label, what in (("boxes", "box plot, of drawing it"), ("second", "a second small figure, of drawing it")):
        ratio = 1 + _share(runs["ours"], label) - _share(runs["plain"], label)
        table.rows.append(Row(what, times(ratio), "≤ 1.25×", ratio <= 1.25, numbers={"ratio": ratio}))
    limits = {"images": ("axes with images", 0.3), "shown": ("the figure alone", 5e-3), "changed": ("a title", None)}
    for label, (what, limit) in limits.items():
        added = max(_around(runs["ours"], label) - _around(runs["plain"], label), 0.0)
        target, good = (f"≤ {ms(limit)}", added <= limit) if limit is not None else ("", None)
        table.rows.append(Row(f"{what}, added", ms(added), target, good, numbers={"seconds": added}))
    table.notes += [f"{found.system}: {found.error}" for many in runs.values() for found in many if found.error]
    return table


def _share(runs: list[Run], label: str) -> float:
    """What is added around a cell's code, as a share of that code's time in the same run: the median of the runs."""
    cells = [one for run in runs if not run.error for one in run.of(label)]
    return median((one.cpu_s - one.code_cpu_s) / one.code_cpu_s for one in cells)


def _around(runs: list[Run], label: str) -> float:
    """Seconds that are added around a cell's code: the median of the runs."""
    return median(one.cpu_s - one.code_cpu_s for run in runs if not run.error for one in run.of(label))
