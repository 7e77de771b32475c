"""A data frame of a million rows with two columns of Python strings, as every pandas before 3 has them."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, size, times

_CREATE = """
df = pd.DataFrame({{"number": np.arange({n}) * 0.5}})
df["user"] = pd.Series([f"user {{i * 7919 % 5000}}" for i in range({n})], dtype=object)
df["place"] = pd.Series([f"place {{i}}" for i in range({n})], dtype=object)
"""
_WORK = (
    ("read", "only read", 0.035),
    ("number", "a number changes", 0.07),
    ("text", "a text changes", 1.0),
    ("column", "a column of texts is replaced", 1.0),
)


def run(bench: Bench) -> Table:
    """Read the frame, change a number, a text and a column, and come back, against pickling the frame once."""
    n = 100_000 if bench.quick else 1_000_000
    steps = [cell("import numpy as np, pandas as pd"), cell(_CREATE.format(n=n), "create"), mark("created")]
    for number in range(3):
        steps += [
            measure("pickle:df", "pickle"),
            cell(f"df.head({number})", "read"),
            cell(f"df.loc[{number + 3}, 'number'] = 9.25", "number"),
            cell(f"df.loc[{(number + 1) * n // 5}, 'user'] = 'another'", "text"),
        ]
    steps += [cell("df['place'] = df['place'].str.upper()", "column"), mark("end"), measure("state_bytes")]
    steps += [checkout("created", "back"), checkout("end")]
    runs = run_all(bench, steps)
    pickle_s = runs.reference("pickle")
    state = size(runs.reference("state_bytes"))
    table = Table(f"A data frame of {n:,} rows with two columns of Python strings ({state})", notes=runs.problems())
    beside = f"pickling it once {ms(pickle_s)}"
    create = runs.ours_overhead("create")
    shown = f"{ms(create)} = {times(create / pickle_s)} pickle"
    table.rows.append(Row("creating it", shown, peers=runs.peers_overhead("create"), beside=beside))
    for label, what, most in _WORK:
        ours = runs.ours_overhead(label)
        ratio = ours / pickle_s
        shown = f"{ms(ours)} = {times(ratio)} pickle"
        numbers = {"seconds": ours, "pickle": pickle_s}
        target = f"≤ {most}× pickle"
        table.rows.append(Row(what, shown, target, ratio <= most, runs.peers_overhead(label), beside, numbers))
    back = runs.ours.total_s("back") or 0.0
    ratio = back / pickle_s
    shown = f"{ms(back)} = {times(ratio)} pickle"
    numbers = {"seconds": back, "pickle": pickle_s}
    target = "≤ 1× pickle"
    table.rows.append(Row("checkout", shown, target, ratio <= 1, runs.peers_checkout("back"), beside, numbers))
    table.rows.append(exact_row(runs))
    return table
