"""A data frame of a million rows and fifteen usual cells."""

from __future__ import annotations

from statistics import median

from benchmarks.bench import Bench
from benchmarks.compare import Runs, exact_row, run_all
from benchmarks.script import Run, cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, size, times

_CREATE = """
rng = np.random.default_rng(0)
df = pd.DataFrame({{
    "price": rng.lognormal(3, 1, {n}).round(2),
    "weight": rng.normal(10, 2, {n}),
    "count": rng.integers(0, 100, {n}),
    "shop": rng.choice(["north", "south", "east", "west"], {n}),
    "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 365, {n}), unit="D"),
}})
"""
CELLS = (
    "df.head()",
    "df.describe()",
    "df['total'] = df.price * df['count']",
    "df.loc[5, 'price'] = 3.0",
    "df['shop'].value_counts()",
    "by_shop = df.groupby('shop').total.mean()",
    "df = df.dropna()",
    "large = df[df['count'] > 90]",
    "df = df.rename(columns={'weight': 'kg'})",
    "df['shop'] = df['shop'].str.upper()",
    "df['month'] = df.day.dt.month",
    "df = df.sort_values('price')",
    "joined = df.merge(by_shop.rename('shop_mean'), left_on='shop', right_index=True, how='left')",
    "x = df[['price', 'kg']].to_numpy()",
    "df.shape",
)


def run(bench: Bench) -> Table:
    """Run the fifteen cells and come back to each third of the way."""
    n = 100_000 if bench.quick else 1_000_000
    steps = [cell("import numpy as np, pandas as pd"), cell(_CREATE.format(n=n), "create"), mark("created")]
    for number, source in enumerate(CELLS):
        steps.append(cell(source, f"cell {number}"))
        if number in (4, 9):
            steps.append(mark(f"after {number}"))
    steps += [mark("end"), measure("state_bytes")]
    steps += [checkout("created", "back"), checkout("after 4"), checkout("after 9"), checkout("end")]
    runs = run_all(bench, steps)
    state = runs.reference("state_bytes")
    table = Table(f"A data frame of {n:,} rows, 15 usual cells", notes=runs.problems())
    ours = _overheads(runs, runs.ours)
    middle = median(ours.values())
    peers = {name: ms(median(found.values())) for name, run in runs.peers.items() if (found := _overheads(runs, run))}
    table.rows.append(Row("a cell", ms(middle), "≤ 300 ms", middle <= 0.3, peers, "", {"seconds": middle}))
    summed = {name: ms(sum(found.values())) for name, run in runs.peers.items() if (found := _overheads(runs, run))}
    table.rows.append(Row("all 15", ms(sum(ours.values())), peers=summed, numbers={"seconds": sum(ours.values())}))
    worst = max(ours, key=lambda label: ours[label])
    table.rows.append(Row(f"the dearest: {CELLS[int(worst.split()[1])][:40]}", ms(ours[worst])))
    disk = _disk(runs.ours)
    shares = {name: times(_disk(run) / state) for name, run in runs.peers.items() if run.of("cell 14")}
    table.rows.append(
        Row(
            "disk, of the last state",
            times(disk / state),
            "≤ 2.5×",
            disk / state <= 2.5,
            shares,
            f"state {size(state)}",
        )
    )
    table.rows.append(Row("checkout of the first", ms(runs.ours.total_s("back")), peers=runs.peers_checkout("back")))
    table.rows.append(exact_row(runs))
    table.notes.append("ours by cell: " + ", ".join(f"{ms(value)}" for value in ours.values()))
    return table


def _overheads(runs: Runs, run: Run) -> dict[str, float]:
    labels = [f"cell {number}" for number in range(len(CELLS))]
    return {label: found for label in labels if (found := runs.overhead(run, label)) is not None}


def _disk(run: Run) -> int:
    return run.of("cell 14")[0].disk - run.outcomes[0].disk
