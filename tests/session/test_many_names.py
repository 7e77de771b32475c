"""The work of a cell or a checkout grows with the names that it is about, and not with their square.

Counted are the lines of the package that run, at n, 2n and 4n names: no clock is asked. It is done in a process of its own.
Where thousands of tests ran, an object often lies where one that a module held was before, and each of those takes a look.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import agent_kernel
from agent_kernel.session import Repository, workspace
from tests.support.notebooks import Notebook

PACKAGE = str(Path(agent_kernel.__file__).parent)
NUMBER = 25
# What does not grow makes the second step look smaller than it is, never larger.
MOST_FOR_TWICE_THE_NAMES = 2.3
MOST_FOR_TWELVE_TIMES_THE_NAMES = 13


class Lines:
    """How many lines of the package ran."""

    count = 0


@contextmanager
def counted() -> Generator[Lines]:
    """Count lines as the block runs. Each round of a generator or a loop on one line counts too.

    Not those that garbage runs as it is collected, which other tests may have left.
    """
    lines = Lines()

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if event == "call":
            lines.count += 1
            return trace if frame.f_code.co_filename.startswith(PACKAGE) else None
        if event == "line":
            lines.count += 1
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
        gc.enable()


def each(statement: str, make: str = "") -> str:
    """The statement for each name; whatever else it binds is gone afterwards."""
    return f"{make}\ndef work(g):\n  for i in range({{n}}): {statement}\nwork(globals())\ndel work"


SINGLE = each("g[f'v{{i}}'] = [i]")
PAIRS = each("g[f'v{{i}}'] = g[f'w{{i}}'] = [i]")
INSTANCES = each("g[f'v{{i}}'] = Point()", "class Point: pass")
ARRAYS = each("g[f'v{{i}}'] = np.zeros(9); g[f'w{{i}}'] = g[f'v{{i}}'][2:]", "import numpy as np")
BASE = "import numpy as np\nbase = np.zeros(({n} + 9, 3))"
VIEWS = each("g[f'v{{i}}'] = base[i:i + 3]", BASE)
ROWS = f"{BASE}\nv = [base[i] for i in range({{n}})]\nw = [(base[i], base[i + 2]) for i in range({{n}})]"
HELD = each("g[f'v{{i}}'] = [logging.root.handlers]", "import logging")
CLASSES = each("g[f'K{{i}}'] = type(f'K{{i}}', (), {{'__module__': '__main__', 'x': i}})")
TABLES = each("g[f'v{{i}}'] = g[f'w{{i}}'] = pd.Series([i, 2])", "import pandas as pd")
APPEND = each("g[f'v{{i}}'].append(0)")
# What one cell makes, and what the next one does to it; `{n}` is the number of names.
WORK = {
    "names changed in place": (SINGLE, APPEND),
    "names bound anew": (SINGLE, each("g[f'v{{i}}'] = [i, i]")),
    "names deleted": (SINGLE, each("del g[f'v{{i}}']")),
    "pairs changed in place": (PAIRS, APPEND),
    "pairs parted": (PAIRS, each("g[f'v{{i}}'] = [i]")),
    "one of each pair deleted": (PAIRS, each("del g[f'v{{i}}']")),
    "instances changed": (INSTANCES, each("g[f'v{{i}}'].x = i")),
    "the class of all changed": (INSTANCES, "Point.x = 1"),
    "arrays changed": (ARRAYS, each("g[f'v{{i}}'][0] = 7")),
    "views parted": (ARRAYS, each("g[f'w{{i}}'] = 1")),
    "views of one array changed": (VIEWS, each("g[f'v{{i}}'][0] = 7")),
    "lists of rows of one array changed": (ROWS, "v[0] = base[5]; w[0] = base[6], base[7]"),
    "what a library holds in all": (HELD, APPEND),
    "a part taken of each table that has two names": (TABLES, each("g[f'x{{i}}'] = g[f'v{{i}}'].index")),
    "classes changed": (CLASSES, each("g[f'K{{i}}'].x = None")),
}
IN_ALL = "one, some and many names changed in place"


@pytest.fixture(scope="module")
def counts(request: pytest.FixtureRequest) -> dict[str, list[tuple[int, ...]]]:
    """The lines of each work that is asked about, at n, 2n and 4n names, and of all `IN_ALL` at 1, 2n and 24n."""
    asked = [
        item.callspec.params["title"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == test_a_cell_and_the_way_back_cost_in_proportion_to_the_names.__name__
    ]
    code = f"from tests.session.test_many_names import tell_counts; tell_counts({asked})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return {title: [tuple(lines) for lines in found] for title, found in json.loads(done.stdout).items()}


def tell_counts(asked: list[str]) -> None:
    """The other process. Nothing is counted that runs once in a process, nor what depends on the time between cells."""
    workspace._ROLLING_S = 0.0
    with Notebook() as nb:
        before = nb.run("v = [1]")
        nb.run("v.append(2)")
        nb.checkout(before)
    found = {title: counts_of(*WORK[title]) for title in asked}
    found[IN_ALL] = [lines_of(SINGLE.format(n=n), APPEND.format(n=n)) for n in (1, 2 * NUMBER, 24 * NUMBER)]
    print(json.dumps(found))


def counts_of(make: str, change: str) -> list[tuple[int, ...]]:
    numbers = (NUMBER, 2 * NUMBER, 4 * NUMBER)
    counts = [lines_of(make.format(n=n), change.format(n=n)) for n in numbers]
    if growth_of(counts) > MOST_FOR_TWICE_THE_NAMES:
        # Now and then an object lies where one that a module held was before, which takes a look: not twice in a row.
        again = [lines_of(make.format(n=n), change.format(n=n)) for n in numbers]
        counts = [tuple(map(min, one, other)) for one, other in zip(counts, again, strict=True)]
    return counts


@pytest.mark.sampled
@pytest.mark.timeout(600)
@pytest.mark.parametrize("title", WORK)
def test_a_cell_and_the_way_back_cost_in_proportion_to_the_names(
    counts: dict[str, list[tuple[int, ...]]], title: str
) -> None:
    assert min(counts[title][0]) > NUMBER
    assert growth_of(counts[title]) <= MOST_FOR_TWICE_THE_NAMES, counts[title]


def growth_of(counts: list[tuple[int, ...]]) -> float:
    """The most that a count grows by from one number of names to twice as many."""
    return max(float(later / before) for lines in zip(*counts, strict=True) for before, later in pairwise(lines))


def lines_of(make: str, change: str) -> tuple[int, ...]:
    """Lines of a cell that makes the names, of one that changes them, and of the checkout of what was before."""
    with Notebook() as nb:
        nb.run("start = 0")
        with counted() as made:
            before = nb.run(make)
        with counted() as changed:
            nb.run(change)
        with counted() as back:
            nb.checkout(before)
        return made.count, changed.count, back.count


@pytest.mark.timeout(600)
def test_a_loop_over_all_names_for_each_name_shows_where_there_are_many(
    counts: dict[str, list[tuple[int, ...]]],
) -> None:
    """Few lines for each pair of names are hidden by many for each name, until there are hundreds."""
    one, few, many = counts[IN_ALL]
    growth = [(most - least) / (some - least) for least, some, most in zip(one, few, many, strict=True)]
    assert max(growth) <= MOST_FOR_TWELVE_TIMES_THE_NAMES


CALLS = ("get_many", "put_many", "swap", "keys", "present", "view_many", "items")


@pytest.mark.parametrize("change", ["v7.append(0)", "v7 = [1, 2]", "fresh = 1", "del v7", "v7"])
def test_a_cell_about_one_name_does_no_more_among_more_names(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    calls: list[str] = []
    for n in (1_000, 2_000, 4_000):
        with Notebook() as nb:
            nb.run(SINGLE.format(n=n))
            nb.run("v8.append(0); w = 1")
            for name in CALLS:
                monkeypatch.setattr(nb.repo.store, name, _noted(getattr(nb.repo.store, name), name, calls))
            calls.clear()
            with counted() as lines:
                nb.session.begin_cell(change)
                exec(change, nb.namespace)
                nb.session.end_cell()
            assert calls == ["get_many", "swap"]
            counts.append(lines.count)
    assert max(counts) < 1.4 * min(counts), counts  # the tree of the names may be a level higher


@pytest.mark.parametrize("change", ["v7 = [1, 2]", "p7 = [1]", "o7 = Point()", "o7 = 1", "fresh = [1]"])
def test_a_cell_after_a_restart_does_no_more_where_more_names_are_not_loaded(change: str, tmp_path: Path) -> None:
    counts: list[int] = []
    for n in (1_000, 2_000, 4_000):
        repo = Repository.open(f"lmdb://{tmp_path / str(n)}")
        with Notebook(repo) as nb:
            nb.run(SINGLE.format(n=n))
            nb.run(PAIRS.replace("'v", "'p").replace("'w", "'q").format(n=20))
            nb.run(INSTANCES.replace("'v", "'o").format(n=20))
        with Notebook(Repository.open(repo.store.url)) as again:
            again.run("class Point: pass")
            again.run("p8 = [1]; o8 = 1")  # what the branch holds is read once
            with counted() as lines:
                again.run(change)
            counts.append(lines.count)
            assert {"v5", "p9", "q7", "o9"} <= set(again.session.status().carried)
            again.checkout("HEAD")
            assert again.namespace["q7"] == [7]
            assert again.namespace["p9"] is again.namespace["q9"]
            assert type(again.namespace["o9"]).__name__ == "Point"
    assert max(counts) < 1.4 * min(counts), counts


def _noted(call: Callable[..., object], name: str, calls: list[str]) -> Callable[..., object]:
    def noted(*arguments: object, **keywords: object) -> object:
        calls.append(name)
        return call(*arguments, **keywords)

    return noted
