"""What the ten-thousandth commit costs, and one change among ten thousand names."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.script import Step, cell, measure, middle
from benchmarks.tables import Row, Table, flat, ms, size, times


def run(bench: Bench) -> Table:
    """Commit thousands of times through `session.bind`, then make thousands of names."""
    commits, names = (2_000, 2_000) if bench.quick else (10_000, 10_000)
    table = Table(f"{commits:,} commits, {names:,} names (session.bind)")
    _commits(bench, table, commits)
    _names(bench, table, names)
    return table


def _commits(bench: Bench, table: Table, count: int) -> None:
    steps: list[Step] = [cell("kept = {}")]
    for number in range(count):
        steps.append(cell(f"x{number % 40} = {number}" if number % 3 else f"kept['last'] = {number}", "commit"))
        if number % 20 == 0:
            steps.append(measure("durable_write", "raw"))
    run = bench.run("bound", steps)
    cells, raws = run.of("commit"), [one.value for one in run.of("raw")]
    if len(cells) < count:
        table.notes += run.problems()
        return
    first, last = (middle([one.hook_s for one in some]) or 0.0 for some in (cells[:500], cells[-500:]))
    raw_first, raw_last = middle(raws[:25]) or 0.0, middle(raws[-25:]) or 0.0
    beside = f"raw {ms(raw_first)} → {ms(raw_last)}"
    table.rows.append(flat("a commit: first 500 → last 500", first, last, beside=beside))
    each = (cells[-1].disk - cells[0].disk) / (count - 1)
    early = (cells[count // 10].disk - cells[0].disk) / (count // 10)
    table.rows.append(
        Row(
            "disk a commit",
            size(each),
            "≤ 2 KB",
            each <= 2048,
            beside=f"first tenth {size(early)}",
            numbers={"b": each},
        )
    )


def _names(bench: Bench, table: Table, count: int) -> None:
    create = f"for i in range({count}):\n    globals()[f'v{{i}}'] = [i]\ndel i"
    steps = [cell("start = 0"), cell(create, "create"), cell("v7.append(1)"), cell("v8.append(1)")]
    for number in range(40):
        steps += [cell(f"v{number * 90 + 11}.append(0)", "change"), measure("durable_write", "raw")]
    run = bench.run("bound", steps)
    ours, raw, create_s = run.hook_s("change"), run.value("raw"), run.hook_s("create")
    if ours is None or raw is None:
        table.notes += run.problems()
        return
    table.rows.append(
        Row(
            f"one of {count:,} names changes",
            f"{ms(ours)} = {times(ours / raw)} raw",
            "≤ 3× raw",
            ours <= 3 * raw,
            beside=f"raw durable write {ms(raw)}",
            numbers={"seconds": ours, "raw": raw},
        )
    )
    table.rows.append(Row("… disk", size(run.disk_of("change")), beside="rounded up to what the file grew by"))
    table.rows.append(Row(f"creating {count:,} names", ms(create_s)))
