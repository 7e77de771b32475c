"""Lists of tens of thousands of small objects, times, numbers and arrays, what holds hundreds of thousands of words, and a cache of as many results.

Each cell that names one looks at all of it.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import exact_row, run_all
from benchmarks.script import cell, checkout, mark, measure
from benchmarks.tables import Row, Table, ms, times

_CLASSES = """
import numpy as np
from collections import Counter, namedtuple
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
Point = namedtuple('Point', 'x y')
@dataclass
class Pair:
    x: int
    y: str
class Own:
    def __init__(self, x): self.x = x
    def __reduce__(self): return Own, (self.x,)
class Node:
    def __init__(self, x): self.x, self.below = x, []
def linked(n):
    nodes = [Node(k) for k in range(n)]
    for k in range(1, n): nodes[k // 2].below.append(nodes[k])
    return nodes
class Vocabulary:
    def __init__(self, n):
        self.words = {f'word {k}' for k in range(n)}
        self.places = {word: k for k, word in enumerate(self.words)}
    def __len__(self): return len(self.words)
@cache
def spell(k): return [str(k)]
"""
_MAKE = {
    "tuples with names": ("points", "points = [Point(k, str(k)) for k in range({n})]", 1.0),
    "dataclasses": ("pairs", "pairs = [Pair(k, str(k)) for k in range({n})]", 2.0),
    "objects with __reduce__": ("owns", "owns = [Own(k) for k in range({n})]", 12.0),
    "nodes of a tree": ("nodes", "nodes = linked({n})", 3.0),
    "times": ("days", "days = [datetime(2020, 1, 1) + timedelta(hours=k) for k in range({n})]", 1.0),
    "decimals": ("parts", "parts = [Decimal(k) / 7 for k in range({n})]", 1.0),
    "numpy's numbers": ("values", "values = list(np.arange({n}) / 3)", 1.0),
    "rows of a matrix": ("rows", "rows = list(np.arange(4.0 * {n}).reshape({n}, 4))", 1.0),
}
# Nodes that three variables lead to: a cell that changes one of them changes all three.
_TREE = "tree = linked({n})\nby_number = {{node.x: node for node in tree}}\ntop = tree[0]"
_OF_TREE = (("create tree", "made"), ("first change", "a node changes"), ("change", "another one changes"))
_HOLDERS = {
    "an object that holds a set and a dict of {n:,} words": ("vocabulary", "vocabulary = Vocabulary({n})", 1.0),
    "a `Counter` of {n:,} words": ("counts", "counts = Counter(f'word {{k}}' for k in range({n}))", 1.0),
}


def run(bench: Bench) -> Table:
    """Read each list, and call a function with a cache, against pickling the list once."""
    n = 3_000 if bench.quick else 30_000
    steps = [cell(_CLASSES)]
    for kind, (_, make, _) in _MAKE.items():
        steps.append(cell(make.format(n=n), f"create {kind}"))
    for kind, (_, make, _) in _HOLDERS.items():
        steps.append(cell(make.format(n=5 * n), f"create {kind}"))
    steps += [cell(f"for k in range({n}): spell(k)"), cell("spelt = [spell(k) for k in range(9)]"), mark("created")]
    for number in range(5):
        for kind, (name, _, _) in (_MAKE | _HOLDERS).items():
            steps += [measure(f"pickle:{name}", f"pickle {kind}"), cell(f"len({name})", f"read {kind}")]
        steps += [cell(f"len(spell({number}))", "call")]
    steps += [cell(_TREE.format(n=n), "create tree"), cell("tree[5].x = -1", "first change")]
    for number in range(3):
        steps += [measure("pickle:tree", "pickle tree"), cell(f"by_number[{number + 7}].x = -1", "change")]
    steps += [
        cell("points = pairs = owns = vocabulary = counts = days = parts = values = rows = None"),
        cell("tree = by_number = top = None"),
        checkout("created"),
    ]
    runs = run_all(bench, steps)
    table = Table(f"{n:,} small objects", notes=runs.problems())
    for kind, (_, _, most) in (_MAKE | _HOLDERS).items():
        ours, pickle_s = runs.ours_overhead(f"read {kind}"), runs.reference(f"pickle {kind}")
        table.rows.append(
            Row(
                f"{kind.format(n=5 * n) if kind in _HOLDERS else f'a list of {kind}'}: only read",
                f"{ms(ours)} = {times(ours / pickle_s)} pickle",
                f"≤ {most:g}× pickle",
                ours / pickle_s <= most,
                runs.peers_overhead(f"read {kind}"),
                f"pickling it once {ms(pickle_s)}",
                {"seconds": ours, "pickle": pickle_s},
            )
        )
    for label, what in _OF_TREE:
        ours, pickle_s = runs.ours_overhead(label), runs.reference("pickle tree")
        shown = f"{ms(ours)} = {times(ours / pickle_s)} pickle"
        beside, numbers = f"pickling it once {ms(pickle_s)}", {"seconds": ours, "pickle": pickle_s}
        row = Row(f"a tree in a list and a dict: {what}", shown, "", None, runs.peers_overhead(label), beside, numbers)
        table.rows.append(row)
    called = runs.ours_overhead("call")
    peers = runs.peers_overhead("call")
    table.rows.append(Row("a function with as many results in its cache: called", ms(called), "", None, peers, "", {}))
    table.rows.append(exact_row(runs))
    return table
