"""A list, a set and a dict of 267,000 words, as a dictionary or a vocabulary gives them."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, times

_MAKE = {
    "list": ("[f'word{{i}}' for i in range({n})]", "words.append('new {k}')"),
    "set": ("{{f'word{{i}}' for i in range({n})}}", "words_set.add('new {k}')"),
    "dict": ("{{f'word{{i}}': i for i in range({n})}}", "words_dict['new {k}'] = {k}"),
}
_NAMES = {"list": "words", "set": "words_set", "dict": "words_dict"}


def run(bench: Bench) -> Table:
    """Read and change each, and run a comment beside a function that reads the set, against pickling each once."""
    n = 30_000 if bench.quick else 267_000
    steps = [cell("other = 0")]
    for kind, (make, _) in _MAKE.items():
        steps.append(cell(f"{_NAMES[kind]} = {make.format(n=n)}", f"create {kind}"))
    steps += [cell("def known(word):\n    return word in words_set"), mark("created")]
    for number in range(4):
        for kind, (_, change) in _MAKE.items():
            steps += [measure(f"pickle:{_NAMES[kind]}", f"pickle {kind}"), cell(f"len({_NAMES[kind]})", f"read {kind}")]
            steps += [cell(change.format(k=number), f"change {kind}")]
        steps += [cell("# known", "comment"), cell("known('word1')", "call")]
    steps += [cell("again = words")]
    for number in range(3):
        steps += [cell("again[0]", "read shared"), cell(f"again.append('more {number}')", "change shared")]
    steps += [mark("end"), checkout("created"), checkout("end")]
    runs = run_all(bench, steps)
    table = Table(f"A list, a set and a dict of {n:,} words", notes=runs.problems())
    for kind in _MAKE:
        pickle_s = runs.reference(f"pickle {kind}")
        for label, what, most in (("read", "only read", 0.3), ("change", "one added", None)):
            _add(table, runs.ours_overhead(f"{label} {kind}"), pickle_s, f"{kind}: {what}", most)
            table.rows[-1].peers.update(runs.peers_overhead(f"{label} {kind}"))
    for label, what in (("comment", "a comment that names a function over the set"), ("call", "a call of it")):
        _add(table, runs.ours_overhead(label), runs.reference("pickle set"), what, 0.3)
        table.rows[-1].peers.update(runs.peers_overhead(label))
    for label, what in (("read", "a list of two names: only read"), ("change", "a list of two names: one added")):
        _add(table, runs.ours_overhead(f"{label} shared"), runs.reference("pickle list"), what, None)
        table.rows[-1].peers.update(runs.peers_overhead(f"{label} shared"))
    table.rows.append(exact_row(runs))
    return table


def _add(table: Table, ours: float, pickle_s: float, what: str, most: float | None) -> None:
    shown = f"{ms(ours)} = {times(ours / pickle_s)} pickle"
    numbers = {"seconds": ours, "pickle": pickle_s}
    beside = f"pickling it once {ms(pickle_s)}"
    target, ok = ("", None) if most is None else (f"≤ {most}× pickle", ours / pickle_s <= most)
    table.rows.append(Row(what, shown, target, ok, {}, beside, numbers))
