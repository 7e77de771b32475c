"""Memory while committing a gigabyte of arrays."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.script import Run, cell
from benchmarks.tables import Row, Table, size


def run(bench: Bench) -> Table:
    """Make four arrays in one cell; what the process held at most, less the arrays, is the cost of the commit."""
    count = 4_000_000 if bench.quick else 32_000_000
    nbytes = 4 * count * 8
    source = "\n".join(f"a{i} = rng.random({count})" for i in range(4))
    steps = [cell("import numpy as np"), cell("rng = np.random.default_rng(0)"), cell("warm = rng.random(2_000_000)")]
    steps += [cell(source, "commit", watch=True), cell("other = 1"), cell("a1[5] = 0.0", "change", watch=True)]
    runs = {system: bench.run(system, steps) for system in ("plain", "ours", *bench.peers)}
    table = Table(f"Committing {size(nbytes)} of arrays")
    for label, what in (("commit", "memory above the arrays"), ("change", "… and when one element changes")):
        made = nbytes if label == "commit" else 0
        ours = _above(runs["ours"], label, made)
        peers = {peer: size(_above(runs[peer], label, made)) for peer in bench.peers}
        bare = f"plain {size(_above(runs['plain'], label, made))}"
        table.rows.append(Row(what, size(ours), "≤ 64 MB", ours is not None and ours <= 64_000_000, peers, bare))
    for system, found in runs.items():
        table.notes += [f"{system}: {problem[:200]}" for problem in found.problems()[:2]]
    return table


def _above(run: Run, label: str, made: int) -> float | None:
    found = run.of(label)
    return found[0].memory_peak - found[0].memory_before - made if found else None
