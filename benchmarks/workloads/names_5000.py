"""One of 5,000 small variables changes."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, times

_CREATE = """
for i in range({n}):
    globals()[f"v{{i}}"] = ([i], {{"n": i}}, f"text {{i}}", i * 0.5, (i, i + 1))[i % 5]
del i
"""


def run(bench: Bench) -> Table:
    """Create the names, change one at a time in place and by binding, and come back."""
    count = 1_000 if bench.quick else 5_000
    steps = [cell("start = 1"), cell(_CREATE.format(n=count), "create"), mark("created")]
    for number in range(15):
        position = 100 + number * 25
        steps += [
            cell(f"v{position}.append({number})", "in place"),
            measure("durable_write"),
            cell(f"v{position + 1} = {{'n': {number}}}", "rebound"),
            cell(f"v{position + 3} = {number}.5", "rebound"),
            measure("durable_write"),
        ]
    steps += [mark("changed"), checkout("created", "back"), checkout("changed", "forth")]
    runs = run_all(bench, steps)
    bound = bench.run("bound", steps)
    raw = runs.reference("durable_write")
    table = Table(f"{count:,} small variables", notes=runs.problems())
    beside = f"raw durable write {ms(raw)}"
    for label, what in (("in place", "one changed in place"), ("rebound", "one bound anew")):
        ours = runs.ours_overhead(label)
        good = ours <= 5e-3 and ours <= 3 * raw
        shown = f"{ms(ours)} = {times(ours / raw)} raw"
        numbers = {"seconds": ours, "raw": raw}
        table.rows.append(Row(what, shown, "≤ 5 ms and ≤ 3× raw", good, runs.peers_overhead(label), beside, numbers))
        alone = bound.hook_s(label)
        if alone is not None:
            table.rows.append(Row(f"{what}, session.bind without IPython", f"{ms(alone)} = {times(alone / raw)} raw"))
    create = runs.ours_overhead("create")
    table.rows.append(
        Row("creating them", ms(create), "≤ 300 ms", create <= 0.3, runs.peers_overhead("create"), "", {"s": create})
    )
    back = runs.ours.total_s("back")
    table.rows.append(Row("checkout of 45 changed names", ms(back), peers=runs.peers_checkout("back")))
    table.rows.append(exact_row(runs))
    return table
