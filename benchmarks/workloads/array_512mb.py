"""A 512 MB array: beside the cell, read by it, changed in one row, and brought back."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import Run, cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, size, times

_CHUNK = 262_080


def run(bench: Bench) -> Table:
    """Make the array, leave it, read it, change rows of it, and check out what it was."""
    rows = 8_192 if bench.quick else 65_536
    nbytes = rows * 8_192
    create = f"a = np.random.default_rng(0).random(({rows}, 1024))"
    steps = [cell("import numpy as np"), cell("other = 0"), mark("before"), cell(create, "create", watch=True)]
    steps += [cell("other = 1"), *(cell(f"other = {number}", "untouched") for number in range(7))]
    for number in range(5):
        steps += [measure("hash_pass:a", "hash"), cell(f"s = float(a[{number}, 0])", "read")]
    steps += [mark("original")]
    for number in range(5):
        steps += [measure("hash_pass:a", "hash"), cell(f"a[{1_000 + number * 777}] = {number}.5", "row")]
    steps += [mark("changed"), measure("copy:a", "copy"), checkout("original", "watched", watch=True)]
    for _ in range(4):
        steps += [checkout("changed", "back"), checkout("original", "back")]
    steps += [checkout("changed", "back")]
    runs = run_all(bench, steps)
    hash_s, copy_s = runs.reference("hash"), runs.reference("copy")
    table = Table(f"An array of {size(nbytes)}", notes=runs.problems())
    create_s = runs.ours_overhead("create")
    per_copy = f"{ms(create_s)} = {times(create_s / copy_s)} copy"
    table.rows.append(Row("creating it", per_copy, peers=runs.peers_overhead("create"), beside=f"copy {ms(copy_s)}"))
    idle = runs.ours_overhead("untouched")
    table.rows.append(Row("not touched", ms(idle), "≤ 3 ms", idle <= 3e-3, runs.peers_overhead("untouched")))
    for label, what, limit in (("read", "only read", 1.5), ("row", "one row changed in place", 2.5)):
        ours = runs.ours_overhead(label)
        ratio = ours / hash_s
        numbers = {"seconds": ours, "hash": hash_s}
        shown = f"{ms(ours)} = {times(ratio)} hash"
        target = f"≤ {limit}× hash"
        beside = f"xxh3 pass {ms(hash_s)}"
        table.rows.append(Row(what, shown, target, ratio <= limit, runs.peers_overhead(label), beside, numbers))
    stored = runs.ours.disk_of("row") or 0.0
    good = stored <= 2 * _CHUNK
    table.rows.append(Row("… stored for it", size(stored), "two chunks (524 KB)", good, runs.peers_disk("row")))
    back = runs.ours.total_s("back") or 0.0
    table.rows.append(
        Row(
            "checkout of changed rows",
            f"{ms(back)} = {times(back / copy_s)} copy",
            "≤ 300 ms",
            back <= 0.3,
            runs.peers_checkout("back"),
            f"copy {ms(copy_s)}",
            {"seconds": back, "copy": copy_s},
        )
    )
    peak = _peak(runs.ours, nbytes)
    peers = {name: times(_peak(run, nbytes)) for name, run in runs.peers.items() if run.of("watched")}
    mapped = f"with pages of the store's file {times(_peak(runs.ours, nbytes, mapped=True))}"
    table.rows.append(Row("… peak memory, of the state", times(peak), "≤ 2×", peak <= 2, peers, mapped, {"peak": peak}))
    table.rows.append(exact_row(runs))
    return table


def _peak(run: Run, nbytes: int, *, mapped: bool = False) -> float:
    """What the process held at most while checking out, less what it held before the array was made."""
    back = run.of("watched")[0]
    return ((back.resident_peak if mapped else back.memory_peak) - run.of("create")[0].memory_before) / nbytes
