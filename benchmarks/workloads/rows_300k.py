"""A list of 300,000 dicts, as an API or a JSON file gives it."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import Run, cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, size, times

_CREATE = 'rows = [{{"id": i, "name": f"user {{i}}", "tags": ["a", str(i % 7)], "score": i * 0.5}} for i in range({n})]'


_DOCUMENT = """doc = {{"meta": {{"page": 1}}, "items": [{{"id": i, "user": {{"name": f"user {{i}}", "at": [i, i * 0.5]}}}}
    for i in range({n})]}}"""


def run(bench: Bench) -> Table:
    """Append to the list and change an item of it, against pickling it once; and the same in a document."""
    n = 30_000 if bench.quick else 300_000
    steps = [cell("other = 0"), cell(_CREATE.format(n=n), "create"), cell("other = 1"), mark("created")]
    for number in range(4):
        steps += [
            measure("pickle:rows", "pickle"),
            cell(f"rows.append({{'id': {n + number}, 'name': 'new', 'tags': [], 'score': 0.0}})", "append"),
            cell(f"rows[{(number + 1) * n // 6}]['score'] = 9.25", "change"),
        ]
    steps += [cell(f"other = {number}", "other") for number in range(5)]
    steps += [cell(_DOCUMENT.format(n=n // 2))]
    for number in range(4):
        steps += [measure("pickle:doc", "pickle doc"), cell("doc['meta']['page']", "read doc")]
        steps += [cell(f"doc['items'][{number + 7}]['user']['at'][1] = -1.0", "change doc")]
    steps += [cell("len(rows)", "read"), mark("end"), measure("state_bytes")]
    steps += [checkout("created", "back"), checkout("end")]
    runs = run_all(bench, steps)
    pickle_s, state = runs.reference("pickle"), runs.reference("state_bytes")
    table = Table(f"A list of {n:,} dicts ({size(state)} pickled)", notes=runs.problems())
    beside = f"pickling it once {ms(pickle_s)}"
    create = runs.ours_overhead("create")
    shown = f"{ms(create)} = {times(create / pickle_s)} pickle"
    table.rows.append(Row("creating it", shown, peers=runs.peers_overhead("create"), beside=beside))
    for label, what in (("append", "one appended"), ("change", "one changed")):
        ours = runs.ours_overhead(label)
        ratio = ours / pickle_s
        numbers = {"seconds": ours, "pickle": pickle_s}
        shown = f"{ms(ours)} = {times(ratio)} pickle"
        table.rows.append(Row(what, shown, "≤ 0.5× pickle", ratio <= 0.5, runs.peers_overhead(label), beside, numbers))
    for label, what in (("read", "only read"), ("other", "not touched")):
        ours = runs.ours_overhead(label)
        table.rows.append(Row(what, ms(ours), peers=runs.peers_overhead(label)))
    pickle_s = runs.reference("pickle doc")
    for label, what in (("read", "a document of half as many: only read"), ("change", "… one item changed")):
        ours = runs.ours_overhead(f"{label} doc")
        numbers = {"seconds": ours, "pickle": pickle_s}
        shown, ok = f"{ms(ours)} = {times(ours / pickle_s)} pickle", ours <= pickle_s
        beside, peers = f"pickling it once {ms(pickle_s)}", runs.peers_overhead(f"{label} doc")
        table.rows.append(Row(what, shown, "≤ 1× pickle", ok, peers, beside, numbers))
    disk = _disk(runs.ours) / state
    peers = {name: times(_disk(run) / state) for name, run in runs.peers.items() if run.of("read")}
    table.rows.append(Row("disk, of the state pickled", times(disk), "≤ 1.5×", disk <= 1.5, peers, "", {"ratio": disk}))
    table.rows.append(Row("checkout", ms(runs.ours.total_s("back")), peers=runs.peers_checkout("back")))
    table.rows.append(exact_row(runs))
    return table


def _disk(run: Run) -> int:
    return run.of("read")[0].disk - run.outcomes[0].disk
