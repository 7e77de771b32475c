"""Small states that are easy to bring back wrong: what peers get wrong is tried under every system."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.script import Run, Step, cell, checkout, mark
from benchmarks.tables import Row, Table

# What is tried: cells that make a state, cells that spoil it. After the checkout every variable must be as it was.
CASES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "a function sees today's globals": (
        ("factor = 2", "def scaled(x):\n    return x * factor"),
        ("def scaled(x):\n    return 0", "factor = 5"),
    ),
    "an older definition of a function": (("def f():\n    return 1",), ("def f():\n    return 2",)),
    "an older definition of a class, with an instance": (
        ("class P:\n    def name(self):\n        return 'old'", "p = P()"),
        ("class P:\n    def name(self):\n        return 'new'", "p = P()"),
    ),
    "a view shares memory": (
        ("import numpy as np", "base = np.arange(10.0)\nview = base[2:5]"),
        ("base = None\nview = None",),
    ),
    "two names for one list": (("a = [1, 2]\nb = a",), ("b = [3]",)),
    "a cycle": (("ring = [1]\nring.append(ring)",), ("ring = 0",)),
    "tuples stay tuples": (("t = {'key': (1, 2, (3,))}",), ("t = None",)),
    "sets, bytes, complex, big integers": (("s = {1, 2}\nb = b'x'\nc = 1j\nn = 10**40",), ("s = b = c = n = None",)),
    "a restored array can be written": (("import numpy as np", "w = np.zeros(50_000)"), ("w = None",)),
    "empty frames and 0-d arrays": (
        ("import numpy as np, pandas as pd", "e = pd.DataFrame()\nz = np.array(5.0)\nn = np.empty((0, 3))"),
        ("e = z = n = None",),
    ),
    "one value that cannot be saved costs no other": (
        ("rows = [1, 2, 3]", "gen = (i for i in rows)"),
        ("rows = []\ndel gen",),
    ),
    "later names are gone": (("x = 1",), ("y = 2", "z = 3")),
    "a deleted name is back": (("x = [1]\ny = 2",), ("del x",)),
    "a change through an alias": (("inner = [1]\nouter = {'i': inner}",), ("inner.append(2)",)),
    "a change through a function": (("log = []\ndef note(x):\n    log.append(x)", "note(1)"), ("note(2)",)),
    "random state": (
        ("import random, numpy as np\nrandom.seed(1)\nnp.random.seed(1)\ng = np.random.default_rng(1)",),
        ("u = random.random()\nv = np.random.rand()\nw = g.random()",),
    ),
    "a frame's categories, index and dates": (
        (
            "import pandas as pd",
            "d = pd.DataFrame({'c': pd.Categorical(['x', 'y']), 't': pd.date_range('2024', periods=2)}, index=['a', 'b'])",
        ),
        ("d['c'] = 'z'",),
    ),
}
_CANNOT_BE_SAVED = "gen"  # the generator above: nobody can save it, and it must cost nothing else
_FILE = "kept_open.txt"


def run(bench: Bench) -> Table:
    """Try each case under each system; then whether a file that a cell has open keeps its contents."""
    table = Table("Easy to bring back wrong")
    for what, (make, spoil) in CASES.items():
        steps = [*map(cell, make), mark("made"), *map(cell, spoil), checkout("made", "back")]
        found = {system: _verdict(bench.run(system, steps)) for system in ("ours", *bench.peers)}
        peers = {peer: found[peer] for peer in bench.peers}
        table.rows.append(Row(what, found["ours"], "ok", found["ours"].startswith("ok"), peers))
    found = {system: _file(bench.run(system, _file_steps())) for system in ("ours", *bench.peers)}
    peers = {peer: found[peer] for peer in bench.peers}
    what = "a file that is open for writing keeps its contents"
    table.rows.append(Row(what, found["ours"], "ok", found["ours"] == "ok", peers))
    return table


def _file_steps() -> list[Step]:
    write = f"out = open({_FILE!r}, 'w')\nprint('first line', file=out, flush=True)"
    check = f"assert open({_FILE!r}).read().startswith('first line'), 'the file was emptied'"
    return [cell(write), mark("open"), cell("x = 1"), cell("x = 2"), checkout("open", "back"), cell(check, "check")]


def _file(run: Run) -> str:
    checked = run.of("check")
    if not checked:
        return "failed"
    return "emptied" if "emptied" in checked[0].error else "ok"


def _verdict(run: Run) -> str:
    back = run.of("back")
    if not back:
        return "failed"
    if back[0].error:
        return "checkout failed"
    others = [name for name in back[0].wrong if name.removesuffix(" missing") != _CANNOT_BE_SAVED]
    if others:
        return f"wrong: {', '.join(others[:3])}"
    return f"ok ({_CANNOT_BE_SAVED} itself is lost)" if back[0].wrong else "ok"
