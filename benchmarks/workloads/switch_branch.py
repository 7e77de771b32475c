"""Going to and fro between two branches: a few small variables apart, then 256 MB apart."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import Step, cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, size, times

_SMALL = """
import numpy as np, pandas as pd
frame = pd.DataFrame({"a": np.arange(50_000), "b": np.arange(50_000) * 0.5})
settings = {f"option {i}": i for i in range(200)}
names = [f"name {i}" for i in range(1_000)]
counts = {name: len(name) for name in names}
model = {"weights": np.zeros(1_000), "bias": 0.0}
"""
_DIFFERENT = """
settings["option 3"] = "changed"
model["weights"][5] = 1.0
note = "tried another option"
"""


def run(bench: Bench) -> Table:
    """Fork, change a little, switch to and fro; then the same with a large array."""
    rows = 2_048 if bench.quick else 32_768
    nbytes = rows * 8_192
    small = [cell(_SMALL), cell("ready = True"), mark("main"), Step("branch", "side")]
    small += [cell(_DIFFERENT), mark("side")]
    small += [checkout(to, "small") for _ in range(4) for to in ("main", "side")]
    large = [cell("import numpy as np"), cell(f"a = np.random.default_rng(0).random(({rows}, 1024))"), mark("main")]
    large += [Step("branch", "side"), cell(f"a = np.random.default_rng(1).random(({rows}, 1024))"), mark("side")]
    large += [measure("copy:a", "copy"), measure("hash_pass:a", "hash")]
    large += [checkout(to, "large") for _ in range(2) for to in ("main", "side")]
    few, big = run_all(bench, small), run_all(bench, large)
    copy_s, hash_s = big.reference("copy"), big.reference("hash")
    table = Table("Switching branches", notes=[*few.problems(), *big.problems()])
    ours = few.ours.total_s("small") or 0.0
    table.rows.append(Row("small difference", ms(ours), "≤ 50 ms", ours <= 0.05, few.peers_checkout("small")))
    moved = big.ours.total_s("large") or 0.0
    table.rows.append(
        Row(
            f"{size(nbytes)} apart",
            f"{ms(moved)} = {times(moved / copy_s)} copy",
            "≤ 600 ms + one hash pass",
            moved <= 0.6 + hash_s,
            big.peers_checkout("large"),
            f"copy {ms(copy_s)}, hash {ms(hash_s)}",
            {"seconds": moved, "copy": copy_s, "hash": hash_s},
        )
    )
    table.rows.append(exact_row(few, "checkouts exact, small"))
    table.rows.append(exact_row(big, "checkouts exact, large"))
    return table
