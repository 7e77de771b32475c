"""What a notebook pays before its first commit, and what each cell leaves in memory."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.script import Run, cell, mark, measure
from benchmarks.tables import Row, Table, ms, size, times

_IMPORTS = (
    "import numpy as np, pandas as pd, matplotlib.pyplot as plt",
    "import scipy.stats, scipy.optimize",
    "from sklearn.linear_model import LogisticRegression\nfrom sklearn.model_selection import train_test_split",
)


def run(bench: Bench) -> Table:
    """Load the extension in a fresh process, run a first cell, and then thousands that each bind a number anew."""
    cells = 400 if bench.quick else 2_000
    steps = [cell("first = 1", "first"), measure("switched_on"), cell("second = 2"), mark("warm")]
    steps += [cell(f"x = {number}", "tiny") for number in range(200)]
    steps += [mark("early"), cell("seen = 1", "early", watch=True)]
    steps += [cell(f"x = {number}", "tiny") for number in range(cells)]
    steps += [mark("late"), cell("seen = 2", "late", watch=True)]
    runs = {system: [bench.run(system, steps) for _ in range(3)] for system in ("plain", "ours")}
    table = Table("Starting, and what stays in memory")
    for found in runs["ours"]:
        table.notes += [problem[:200] for problem in found.problems()[:1]]
    loads = min(value for found in runs["ours"] if (value := found.value("switched_on")) is not None)
    first = min(map(_first, runs["ours"])) - min(map(_first, runs["plain"]))
    table.rows.append(Row("%load_ext and bind", ms(loads), "≤ 120 ms", loads <= 0.12, numbers={"seconds": loads}))
    table.rows.append(Row("the first cell", ms(first), "≤ 50 ms", first <= 0.05, numbers={"seconds": first}))
    ours, plain = (min(_kept(found, cells) for found in runs[system]) for system in ("ours", "plain"))
    shown = f"{size(ours)} = {times(ours / max(plain, 1.0))} plain"
    good = ours <= 1_500
    table.rows.append(Row("memory that a cell keeps", shown, "≤ 1.5 KB", good, beside=f"plain {size(plain)}"))
    steps = [cell("first = 1"), *(cell(source, "import") for source in _IMPORTS)]
    # In turn: what the disk has at hand changes.
    pairs = [[_imports(bench.run(system, steps)) for system in ("plain", "ours")] for _ in range(5)]
    plain, ours = map(min, zip(*pairs, strict=True))
    beside = f"plain {ms(plain)}"
    table.rows.append(
        Row("cells that import libraries", times(ours / plain), "≤ 1.10×", ours <= 1.1 * plain, beside=beside)
    )
    return table


def _imports(run: Run) -> float:
    return sum(one.cpu_s for one in run.of("import"))


def _first(run: Run) -> float:
    return min(one.cpu_s for one in run.of("first"))


def _kept(run: Run, cells: int) -> float:
    before, after = (run.of(label)[-1].memory_before for label in ("early", "late"))
    return (after - before) / cells
