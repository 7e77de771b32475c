"""A long session of cells that each bind one number."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import Run, Step, cell, checkout, mark, measure, middle
from benchmarks.tables import Row, Table, flat, ms, size


def run(bench: Bench) -> Table:
    """Run the cells with a raw durable write between them; compare the first with the last."""
    count = 100 if bench.quick else 500
    edge = count // 5
    steps: list[Step] = [cell("start = 0")]
    for number in range(count):
        steps.append(cell(f"x{number} = {number}", "tiny"))
        if number % 4 == 0:
            steps.append(measure("durable_write", "first raw" if number < edge else "raw"))
        if number == count // 2:
            steps.append(mark("half"))
    steps += [mark("end"), checkout("half"), checkout("end")]
    runs = run_all(bench, steps)
    bound = bench.run("bound", steps)
    raw = runs.reference("raw")
    ours = runs.ours_overhead("tiny")
    table = Table(f"{count} tiny cells", notes=runs.problems())
    table.rows.append(
        Row(
            "a cell",
            f"{ms(ours)} = {ms(max(ours - raw, 0))} + raw",
            "≤ 1.5 ms + raw",
            ours - raw <= 1.5e-3,
            runs.peers_overhead("tiny"),
            f"raw durable write {ms(raw)}",
            {"seconds": ours, "raw": raw},
        )
    )
    alone = bound.hook_s("tiny")
    table.rows.append(Row("a cell, session.bind without IPython", ms(alone)))
    bare = _edges(runs.plain, edge)
    first, last = (mine - own for mine, own in zip(_edges(runs.ours, edge), bare, strict=True))
    raws = _raw_edges(runs.ours)
    peers = {
        name: "{} → {}".format(*(ms(one - own) for one, own in zip(_edges(run, edge), bare, strict=True)))
        for name, run in runs.peers.items()
        if run.of("tiny")
    }
    table.rows.append(flat(f"first {edge} → last {edge}", first, last, peers, "raw {} → {}".format(*map(ms, raws))))
    each = _disk(runs.ours)
    shown = {name: size(_disk(run)) for name, run in runs.peers.items()}
    table.rows.append(Row("disk a cell", size(each), "≤ 2 KB", each <= 2048, shown, "", {"bytes": each}))
    table.rows.append(exact_row(runs))
    return table


def _edges(run: Run, edge: int) -> tuple[float, float]:
    cells = [one.hook_s for one in run.of("tiny")]
    return middle(cells[:edge]) or 0.0, middle(cells[-edge:]) or 0.0


def _raw_edges(run: Run) -> tuple[float, float]:
    after = [one.value for one in run.of("raw")]
    return run.value("first raw") or 0.0, middle(after[-len(run.of("first raw")) :]) or 0.0


def _disk(run: Run) -> float:
    cells = run.of("tiny")
    return (cells[-1].disk - cells[0].disk) / (len(cells) - 1) if len(cells) > 1 else 0.0
