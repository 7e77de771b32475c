"""What a checkout of names that share, and a cell that changes many names, cost with twice and four times the names."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.script import Run, Step, cell, checkout, mark
from benchmarks.tables import Row, Table, ms, times

_PAIRS = "for i in range({n}):\n    globals()[f'a{{i}}'] = globals()[f'b{{i}}'] = [i]\ndel i"
_NAMES = "for i in range({n}):\n    globals()[f'v{{i}}'] = [i]\ndel i"
_CHANGE = "for i in range({n}):\n    globals()[f'{name}{{i}}'].append({number})\ndel i"
_TURNS = 3


def run(bench: Bench) -> Table:
    """Compare the processor's time for each name, with few names and with many (session.bind)."""
    table = Table("Costs that may grow with the names, no faster than they do (session.bind)")
    pairs = (200, 400, 800) if bench.quick else (800, 1_600, 3_200)
    names = (500, 1_000, 2_000) if bench.quick else (2_000, 4_000, 8_000)
    table.rows.append(_growth(bench, table, "checkout of names in sharing pairs", pairs, _checkouts, "back"))
    table.rows.append(_growth(bench, table, "names changed in place in one cell", names, _changes, "change"))
    return table


def _checkouts(n: int) -> list[Step]:
    steps = [cell("start = 0"), cell(_PAIRS.format(n=n)), mark("made")]
    for number in range(_TURNS):
        steps.append(cell(_CHANGE.format(n=n, name="a", number=number)))
        steps.append(checkout("made", "back"))
    return steps


def _changes(n: int) -> list[Step]:
    changes = [cell(_CHANGE.format(n=n, name="v", number=number), "change") for number in range(_TURNS)]
    return [cell("start = 0"), cell(_NAMES.format(n=n)), mark("made"), *changes, checkout("made", "back")]


def _growth(
    bench: Bench, table: Table, what: str, counts: tuple[int, ...], steps: Callable[[int], list[Step]], label: str
) -> Row:
    spent: list[float] = []
    for n in counts:
        found = bench.run("bound", steps(n))
        table.notes += [f"{what}, {n:,}: {problem}" for problem in (*found.problems(), *found.wrong())][:3]
        spent.append(_least(found, label))
    shown = " → ".join(ms(seconds) for seconds in spent)
    growth = (spent[-1] / counts[-1]) / (spent[0] / counts[0])
    what = f"{what}: {' → '.join(f'{n:,}' for n in counts)}"
    return Row(
        what,
        f"{shown} = {times(growth)} a name",
        "linear (≤ 1.4× a name)",
        growth <= 1.4,
        numbers={"growth": growth, **{f"{n}": seconds for n, seconds in zip(counts, spent, strict=True)}},
    )


def _least(run: Run, label: str) -> float:
    return min((one.cpu_s - one.code_cpu_s for one in run.of(label)), default=float("nan"))
