"""An object that cannot be saved stays alive, and goes on sharing with the variables what it shared with them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed, rev

# What makes `part` and a holder of it, what changes `part` in place, its content, and the holder's own way to it.
_PUT = "q = queue.Queue(); q.put(part)"
_HOLDERS = {
    "queue": ("import queue\npart = [1]; q = queue.Queue(); q.put(part)", "part.append(2)", "part", "q.queue[0]"),
    "timer": (
        "import threading\npart = {'n': [1]}; t = threading.Timer(9, print, args=(part,))",
        "part['n'].append(2); part['m'] = 3",
        "part",
        "t.args[0]",
    ),
    "set in a timer": (
        "import threading\npart = {1}; t = threading.Timer(9, print, [part])",
        "part.add(len(part) + 1)",
        "part",
        "t.args[0]",
    ),
    "below": (
        "import queue\npart = [1]; box = {'in': [part]}; q = queue.Queue(); q.put(part)",
        "part.append(2)",
        "(part, box, box['in'][0] is part)",
        "q.queue[0]",
    ),
    "generator": (
        "def make(held):\n    while True:\n        yield held\npart = [1]; g = make(part); next(g)",
        "part.append(2)",
        "part",
        "next(g)",
    ),
    "function": (
        "import threading\ndef part(n, seen=[]):\n    seen.append(n)\npart.calls = 0; t = threading.Timer(9, part)",
        "part(1); part.calls += 1",
        "(part.__defaults__, vars(part))",
        "t.function",
    ),
    "instance": (
        (
            "import queue\nclass A:\n    def __init__(self):\n        self.n = [1]\n"
            "part = A(); q = queue.Queue(); q.put(part)"
        ),
        "part.n.append(2); part.m = 3",
        "vars(part)",
        "q.queue[0]",
    ),
    "bound method": (
        (
            "import threading\nclass A:\n    def __init__(self):\n        self.n = 1\n        self.lock = threading.Lock()\n"
            "    def go(self):\n        return self\npart = A(); t = threading.Timer(9, part.go)"
        ),
        "part.n += 1",
        "(part.n, part.lock)",
        "t.function.__self__",
    ),
    "slots": (
        (
            "import queue\nclass A:\n    __slots__ = ('n', 'm')\n    def __init__(self):\n        self.n = 1\n"
            "part = A(); q = queue.Queue(); q.put(part)"
        ),
        "part.m = [getattr(part, 'm', 0)]; part.n = part.m",
        "[getattr(part, name, None) for name in ('n', 'm')]",
        "q.queue[0]",
    ),
    "slotted dataclass": (
        (
            "import queue\nfrom dataclasses import dataclass\n@dataclass(slots=True, eq=False)\nclass A:\n    n: list\n"
            "part = A([1]); q = queue.Queue(); q.put(part)"
        ),
        "part.n.append(2); part.n = [part.n]",
        "part.n",
        "q.queue[0]",
    ),
    "list of a class of its own": (
        "import queue\nclass A(list):\n    pass\npart = A([1]); part.x = 1; q = queue.Queue(); q.put(part)",
        "part.append(2); part.x = 2",
        "(list(part), vars(part))",
        "q.queue[0]",
    ),
    "deque": (
        "import queue\nfrom collections import deque\npart = deque([1], 5); q = queue.Queue(); q.put(part)",
        "part.append(2)",
        "(list(part), part.maxlen)",
        "q.queue[0]",
    ),
    "defaultdict": (
        (
            "import queue\nfrom collections import defaultdict\npart = defaultdict(list); part[1].append(1)\n"
            "q = queue.Queue(); q.put(part)"
        ),
        "part[2].append(2)",
        "(dict(part), part.default_factory)",
        "q.queue[0]",
    ),
    "counter": (
        "import queue\nfrom collections import Counter\npart = Counter('aab'); q = queue.Queue(); q.put(part)",
        "part['a'] += 1",
        "dict(part)",
        "q.queue[0]",
    ),
    "ordered dict": (
        "import queue\nfrom collections import OrderedDict\npart = OrderedDict(a=1, b=2); q = queue.Queue(); q.put(part)",
        "part.move_to_end(next(iter(part))); part[3] = len(part)",
        "list(part.items())",
        "q.queue[0]",
    ),
    "bytearray": (
        "import queue\npart = bytearray(b'a'); q = queue.Queue(); q.put(part)",
        "part += b'b'",
        "bytes(part)",
        "q.queue[0]",
    ),
    "text in memory": (
        "import csv, io\npart = io.StringIO(); w = csv.writer(part); _n = w.writerow([1])",
        "_n = w.writerow([2])",
        "(part.getvalue(), part.tell())",
        None,
    ),
    "archive in memory": (
        "import io, zipfile\npart = io.BytesIO(b'ab'); q = __import__('queue').Queue(); q.put(part)",
        "_n = part.write(b'cde')",
        "(part.getvalue(), part.tell())",
        "q.queue[0]",
    ),
    "random numbers": (
        "import queue, random\npart = random.Random(1); q = queue.Queue(); q.put(part)",
        "part.random()",
        "part.getstate()",
        "q.queue[0]",
    ),
    "simple namespace": (
        "import queue, types\npart = types.SimpleNamespace(n=[1]); q = queue.Queue(); q.put(part)",
        "part.n.append(2); part.m = 1",
        "vars(part)",
        "q.queue[0]",
    ),
    "open file with an attribute": (
        "import io\npart = [1]; f = io.TextIOWrapper(io.BytesIO()); f.note = part",
        "part.append(2)",
        "part",
        "f.note",
    ),
    "writer over a sink": (
        (
            "import csv\nclass Sink:\n    def __init__(self):\n        self.rows = []\n    def write(self, text):\n"
            "        self.rows.append(text)\npart = Sink(); w = csv.writer(part); _n = w.writerow([1])"
        ),
        "_n = w.writerow([2])",
        "part.rows",
        None,
    ),
    "array": (
        "import numpy as np, queue\npart = np.arange(4.0); " + _PUT,
        "part[0] += 1",
        "part.tolist()",
        "q.queue[0]",
    ),
    "array in columns": (
        "import numpy as np, queue\npart = np.asfortranarray(np.arange(6.0).reshape(2, 3)); " + _PUT,
        "part[0, 1] += 1",
        "(part.tolist(), part.flags.f_contiguous)",
        "q.queue[0]",
    ),
    "view": (
        "import numpy as np, queue\nwhole = np.arange(9.0); part = whole[2:5]; " + _PUT,
        "part[0] += 1",
        "(part.tolist(), whole.tolist(), part.base is whole)",
        "q.queue[0]",
    ),
    "array of objects": (
        "import numpy as np, queue\npart = np.array([[1], 'a', None], dtype=object); " + _PUT,
        "part[0].append(2); part[1] += 'b'",
        "part.tolist()",
        "q.queue[0]",
    ),
    "records": (
        "import numpy as np, queue\npart = np.zeros(2, dtype=[('a', 'i4'), ('b', object)]); " + _PUT,
        "part['a'][0] += 1; part['b'][1] = [part['b'][1]]",
        "part.tolist()",
        "q.queue[0]",
    ),
    "read-only array": (
        "import numpy as np, queue\npart = np.arange(4.0); part.flags.writeable = False; " + _PUT,
        "part.flags.writeable = True; part[0] += 1; part.flags.writeable = False",
        "(part.tolist(), part.flags.writeable)",
        "q.queue[0]",
    ),
    "numbers": (
        "import array, queue\npart = array.array('i', [1, 2]); " + _PUT,
        "part.append(3)",
        "part.tolist()",
        "q.queue[0]",
    ),
    "numpy's random numbers": (
        "import numpy as np, queue\npart = np.random.default_rng(1); " + _PUT,
        "part.random()",
        "part.bit_generator.state",
        "q.queue[0]",
    ),
    "table": (
        "import pandas as pd, queue\npart = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}); part.attrs['n'] = [1]; "
        + _PUT,
        "part.loc[0, 'a'] += 1; part[f'c{part.shape[1]}'] = 1; part.attrs['n'].append(2)",
        "(part.to_dict(), part.attrs, list(part.columns))",
        "q.queue[0]",
    ),
    "column": (
        "import pandas as pd, queue\npart = pd.Series([1.0, 2.0], name='s'); " + _PUT,
        "part.iloc[0] += 1",
        "(part.tolist(), part.name)",
        "q.queue[0]",
    ),
    "labels": (
        "import pandas as pd, queue\npart = pd.Index([1, 2], name='s'); " + _PUT,
        "part.name += 's'",
        "(part.tolist(), part.name)",
        "q.queue[0]",
    ),
    "table of polars": (
        "import polars as pl, queue\npart = pl.DataFrame({'a': [1, 2]}); " + _PUT,
        "part[0, 'a'] = part[0, 'a'] + 1",
        "part.to_dict(as_series=False)",
        "q.queue[0]",
    ),
    "column of polars": (
        "import polars as pl, queue\npart = pl.Series('a', [1, 2]); " + _PUT,
        "part[0] = part[0] + 1",
        "part.to_list()",
        "q.queue[0]",
    ),
    "database in memory": (
        "import queue, sqlite3\npart = sqlite3.connect(':memory:'); part.execute('create table t(n)').close(); " + _PUT,
        "part.execute('insert into t values (1)').close(); part.commit()",
        "part.execute('select count(*) from t').fetchall()",
        "q.queue[0]",
    ),
    "its own circle": (
        "import queue\npart = [1]; part.append(part); q = queue.Queue(); q.put(part)",
        "part.append(2)",
        "(len(part), part[1] is part)",
        "q.queue[0]",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", _HOLDERS)
def test_what_it_shares_with_a_variable_is_set_back_in_place(kind: str) -> None:
    made, change, content, way = _HOLDERS[kind]
    with Notebook() as nb:
        first = nb.run(made)
        part, before = nb.look("part"), repr(nb.look(content))
        second = nb.run(change)
        after = repr(nb.look(content))
        assert after != before
        for report, wanted in ((first, before), (second, after), (first, before)):
            nb.checkout(report)
            assert repr(nb.look(content)) == wanted
            assert nb.look("part") is part
            if way is not None:
                assert nb.look(way) is part
        nb.checkout("main")
        nb.session.undo()
        assert repr(nb.look(content)) == before
        assert nb.look("part") is part
        nb.session.redo()
        assert repr(nb.look(content)) == after
        # It goes on as before: what the holder shares is found to change, and comes back again.
        nb.run(change)
        nb.session.undo()
        assert repr(nb.look(content)) == after
        assert nb.look("part") is part


@pytest.mark.sampled
@pytest.mark.parametrize("kind", _HOLDERS)
def test_what_it_shared_is_there_in_another_kernel_too(kind: str) -> None:
    made, change, content, _ = _HOLDERS[kind]
    if "lock" in content:
        content = "part.n"
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(made)
        before = repr(nb.look(content))
        nb.run(change)
        after = repr(nb.look(content))
    with Notebook(Repository.open(store)) as nb:
        nb.checkout("main")
        assert repr(nb.look(content)) == after
        nb.checkout("HEAD~1")
        assert repr(nb.look(content)) == before


def test_to_be_given_to_it_is_no_change() -> None:
    with Notebook() as nb:
        nb.run("import queue\npart = [1]; q = queue.Queue()")
        given = nb.run("q.put(part)")
        assert "part" not in names_changed(given)
        part = nb.look("part")
        nb.run("part.append(2)")
        assert names_changed(nb.checkout(given)) == {"part"}
        assert nb.look("(part, q.queue[0] is part)") == ([1], True)
        assert nb.look("part") is part


def test_a_variable_that_is_gone_by_now_comes_back_as_what_it_still_holds() -> None:
    with Notebook() as nb:
        made = nb.run("import queue\npart = [1]; q = queue.Queue(); q.put(part)")
        nb.run("part = 5")
        nb.checkout(made)
        assert nb.look("(part, q.queue[0] is part)") == ([1], True)


def test_single_variables_leave_others_that_share_the_object_as_they_are() -> None:
    with Notebook() as nb:
        made = nb.run("import queue\npart = [1]; q = queue.Queue(); q.put(part)")
        nb.run("other = [part]; part.append(2)")
        nb.checkout(made, names=["part"])
        assert nb.look("(part, other)") == ([1], [[1, 2]])


def test_an_old_state_is_looked_at_without_a_change_of_what_it_holds() -> None:
    with Notebook() as nb:
        made = nb.run("import queue\npart = [1]; q = queue.Queue(); q.put(part)")
        nb.run("part.append(2)")
        assert made.commit is not None
        assert nb.repo.at(rev(made))["part"] == [1]
        assert nb.look("(part, q.queue[0] is part)") == ([1, 2], True)


def test_a_variable_of_a_closure_stays_the_one_that_a_generator_sees() -> None:
    with Notebook() as nb:
        first = nb.run(
            "def make():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n        return n\n"
            "    def go():\n        while True:\n            yield n\n    return add, go()\nadd, seen = make()"
        )
        nb.run("add(); next(seen)")
        nb.checkout(first)
        assert nb.look("next(seen)") == 0
        nb.run("add()")
        assert nb.look("next(seen)") == 1


@pytest.mark.parametrize(
    "made",
    [
        "import numpy as np\npart = np.ma.masked_array(np.zeros(3), [0, 0, 1])",
        (
            "class A:\n    def __init__(self):\n        self.n = 0\n    def __hash__(self):\n        return 1\n"
            "    def __setitem__(self, at, n):\n        self.n += n\npart = A()"
        ),
    ],
)
def test_what_cannot_be_set_back_in_place_is_told(made: str) -> None:
    with Notebook() as nb:
        first = nb.run(f"import queue\n{made}\nq = queue.Queue(); q.put(part)")
        nb.run("part[0] = 2")
        told = nb.checkout(first).notes
        assert told == ("part and q no longer share objects: these cannot be restored in place",)
        assert nb.checkout("main").notes == told


@pytest.mark.parametrize("kept", ["part = A(); q.put(part)", "q.put(A())", "q.put(A)", "q.put([A, 1])"])
def test_a_class_that_is_made_anew_is_told(kept: str) -> None:
    with Notebook() as nb:
        first = nb.run(f"import queue\nclass A:\n    n = 1\nq = queue.Queue(); {kept}")
        nb.run("A.n = 2")
        names = "A, part" if "part" in kept else "A"
        told = f"{names} and q no longer share objects: these cannot be restored in place"
        assert nb.checkout(first).notes == (told,)
        assert nb.look("A.n") == 1
        if "part" in kept:
            assert nb.look("type(part) is A")


@pytest.mark.parametrize(
    ("made", "change", "told"),
    [
        (
            "part = np.ma.masked_array([1.0], [0]); both = [q, part]; q.put(part); del q, part",
            "both[1][0] = 2",
            "parts of both",
        ),
        (
            "part = np.ma.masked_array([1.0], [0]); both = [q, part]; q.put(part); del part",
            "both[1][0] = 2",
            "both and q",
        ),
        ("part = np.ma.masked_array([1.0], [0]); both = [q, part]; q.put(part)", "part[0] = 2", "both, part and q"),
    ],
)
def test_what_comes_apart_within_a_variable_is_told(made: str, change: str, told: str) -> None:
    with Notebook() as nb:
        first = nb.run(f"import queue\nimport numpy as np\nq = queue.Queue(); {made}")
        nb.run(change)
        assert nb.checkout(first).notes == (f"{told} no longer share objects: these cannot be restored in place",)


def test_what_stays_together_within_a_variable_is_not_told() -> None:
    with Notebook() as nb:
        first = nb.run("import queue\npart = [1]; q = queue.Queue(); q.put(part); both = [q, part]")
        nb.run("part.append(2)")
        assert nb.checkout(first).notes == ()
        assert nb.look("(both[1], both[1] is q.queue[0], part is both[1])") == ([1], True, True)


def test_a_class_without_a_name_is_told_by_its_own() -> None:
    with Notebook() as nb:
        first = nb.run("import queue\nclass A:\n    n = 1\npart = [A]; q = queue.Queue(); q.put(A); del A")
        nb.run("part[0].n = 2")
        told = nb.checkout(first).notes
        assert told == ("class A and q no longer share objects: these cannot be restored in place",)


def test_a_new_object_in_what_a_queue_holds_is_nothing_to_commit_by_itself() -> None:
    with Notebook() as nb:
        first = nb.run("import queue\npart = [1]; q = queue.Queue(); q.put(part)")
        nb.run("part.append([2])")
        assert nb.checkout(first).notes == ()
        nb.checkout("main")
        assert nb.look("(part, q.queue[0] is part)") == ([1, [2]], True)


def test_what_is_bound_anew_is_no_news_of_what_is_still_held() -> None:
    with Notebook() as nb:
        first = nb.run("import queue\npart = [1]; q = queue.Queue(); q.put(part)")
        nb.run("part = [5]")
        assert nb.checkout(first).notes == ()
        assert nb.checkout("main").notes == ()
        assert nb.look("(part, q.queue[0])") == ([5], [1])


def test_what_nothing_holds_any_more_is_free_to_die() -> None:
    with Notebook() as nb:
        nb.run(
            "import gc, queue, threading, weakref\nclass A:\n    def __init__(self):\n        self.n = [1]\n"
            "        self.timer = threading.Timer(9, self.go)\n    def go(self): ...\n"
            "part = A(); seen = weakref.ref(part); box = [part.timer]; box.append(box)\n"
            "q = queue.Queue(); q.put(box); timer = weakref.ref(part.timer)"
        )
        nb.run("del part, q, box")
        nb.run("_n = gc.collect()")
        assert nb.look("(seen(), timer())") == (None, None)


def test_a_database_in_memory_comes_back_though_a_cursor_holds_the_connection() -> None:
    with Notebook() as nb:
        made = "import sqlite3\nc = sqlite3.connect(':memory:')\ncur = c.execute('create table t(n)')"
        first = nb.run(made)
        nb.run("c.execute('insert into t values(1)').close(); c.commit()")
        assert nb.checkout(first).notes == ()
        assert nb.look("c.execute('select count(*) from t').fetchall()") == [(0,)]
        assert nb.look("cur.connection is c")


def test_a_database_in_memory_that_is_being_read_is_told() -> None:
    with Notebook() as nb:
        made = "import sqlite3\nc = sqlite3.connect(':memory:'); c.execute('create table t(n)').close()"
        nb.run(made)
        first = nb.run("c.executemany('insert into t values(?)', [(1,), (2,)]).close(); c.commit(); cur = c.cursor()")
        nb.run("_n = c.execute('insert into t values(3)').close(); c.commit()")
        nb.run("row = cur.execute('select n from t').fetchone()")
        told = nb.checkout(first).notes
        assert nb.look("c.execute('select count(*) from t').fetchall()") == [(2,)]
        assert told == ("c and cur no longer share objects: these cannot be restored in place",)
        assert nb.look("cur.connection is c") is False


@pytest.mark.parametrize(
    ("place", "writes", "told"),
    [
        ("':memory:'", "cur", "c and cur"),
        ("'file:itself?mode=memory&cache=shared', uri=True", "cur", "c, other and cur"),
        ("'file:beside?mode=memory&cache=shared', uri=True", "other", "c, other and cur"),
    ],
)
def test_a_database_in_memory_in_a_transaction_is_told_and_holds_up_no_checkout(
    place: str, writes: str, told: str
) -> None:
    with Notebook() as nb:
        nb.run(f"import sqlite3\nc, other = sqlite3.connect({place}), sqlite3.connect({place})\ncur = c.cursor()")
        first = nb.run("c.execute('create table t(n)').close()")
        nb.run("cur.execute('insert into t values(3)'); c.commit()")
        nb.run(f"{writes}.execute('insert into t values(4)')")
        assert f"{told} no longer share objects: these cannot be restored in place" in nb.checkout(first).notes
        assert nb.look("c.execute('select count(*) from t').fetchall()") == [(0,)]


# What makes `part`, and a queue with something that leads to it past what the collector sees; how to tell that it does.
_UNSEEN = {
    "array of objects": (
        "part = [1]; held = np.empty(1, object); held[0] = part; q.put(held); del held",
        "part.append(2)",
        "q.queue[0][0] is part",
    ),
    "records": (
        "part = [1]; held = np.zeros(1, [('n', 'i4'), ('o', object)]); held['o'][0] = part; q.put(held); del held",
        "part.append(2)",
        "q.queue[0]['o'][0] is part",
    ),
    "table": (
        "import pandas as pd\npart = [1]; q.put(pd.DataFrame({'a': pd.Series([part], dtype=object)}))",
        "part.append(2)",
        "q.queue[0]['a'].iloc[0] is part",
    ),
    "series of polars": (
        "import polars as pl\npart = [1]; q.put(pl.Series('a', [part], dtype=pl.Object))",
        "part.append(2)",
        "q.queue[0][0] is part",
    ),
    "table of polars": (
        "import polars as pl\npart = [1]; q.put(pl.DataFrame({'a': pl.Series('a', [part], dtype=pl.Object)}))",
        "part.append(2)",
        "q.queue[0]['a'][0] is part",
    ),
    "view of it": ("part = np.arange(6.0); q.put(part[2:4])", "part[2] += 1", "q.queue[0].base is part"),
    "what it is a view of": (
        "part = np.arange(6.0)[2:4]; q.put(part.base)",
        "part[0] += 1",
        "np.shares_memory(q.queue[0], part)",
    ),
    "bytes of it": (
        "part = bytearray(b'abcd'); q.put(np.frombuffer(part, 'u1'))",
        "part[0] += 1",
        "bytes(q.queue[0]) == part",
    ),
    "buffer of Arrow": (
        "import pyarrow as pa\npart = np.arange(6.0); q.put(pa.py_buffer(part))",
        "part[0] += 1",
        "np.shares_memory(np.frombuffer(q.queue[0]), part)",
    ),
    "generator of random numbers": (
        "part = np.random.PCG64(1); q.put(np.random.Generator(part))",
        "part.random_raw()",
        "q.queue[0].bit_generator is part",
    ),
}


@pytest.mark.parametrize("kind", _UNSEEN)
def test_what_the_collector_does_not_see_is_shared_all_the_same(kind: str) -> None:
    made, change, shared = _UNSEEN[kind]
    content = "part.state" if "random" in change else "part.tolist()" if "np.arange" in made else "list(part)"
    with Notebook() as nb:
        first = nb.run(f"import queue, numpy as np\nq = queue.Queue()\n{made}")
        part, before = nb.look("part"), repr(nb.look(content))
        nb.run(change)
        after = repr(nb.look(content))
        assert after != before
        for target, wanted in ((first, before), ("main", after), (first, before)):
            assert nb.checkout(target).notes == ()
            assert repr(nb.look(content)) == wanted
            assert nb.look("part") is part
            assert nb.look(shared)


def test_what_lies_in_the_frames_of_a_traceback_stays_shared() -> None:
    with Notebook() as nb:
        first = nb.run(
            "def fail(held):\n    1 / 0\npart = [1]\n"
            "try:\n    fail(part)\nexcept ZeroDivisionError as error:\n    found = error.__traceback__"
        )
        nb.run("part.append(2)")
        nb.checkout(first)
        assert nb.look("(part, found.tb_next.tb_frame.f_locals['held'] is part)") == ([1], True)


def test_views_of_an_array_that_a_queue_holds_go_on_with_it() -> None:
    with Notebook() as nb:
        first = nb.run(
            "import queue, numpy as np\nwhole = np.arange(6.0); left, right = whole[:4], whole[2:]\n"
            "q = queue.Queue(); q.put(whole)"
        )
        nb.run("left[3] = 9; whole = None")
        nb.checkout(first)
        nb.run("right[1] = 7")
        assert nb.look("(left.tolist(), whole.tolist(), q.queue[0] is whole)") == (
            [0, 1, 2, 7],
            [0, 1, 2, 7, 4, 5],
            True,
        )


def test_functions_of_a_database_are_named_and_raise_where_they_are_gone() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import sqlite3\nc = sqlite3.connect(':memory:'); c.execute('create table t(n)').close()")
        made = nb.run("c.create_function('twice', 1, lambda n: 2 * n)")
        assert [(one.name, one.type) for one in made.unsaved] == [("c", "function")]
        assert made.unsaved[0].reason == "functions of a database connection cannot be saved: twice"
    with Notebook(Repository.open(store)) as nb:
        came = nb.checkout("main")
        assert [one.reason for one in came.unsaved] == [made.unsaved[0].reason]
        with pytest.raises(sqlite3.OperationalError, match="user-defined function"):
            nb.look("c.execute('select twice(2)').fetchall()")
        nb.run("c.create_function('twice', 1, lambda n: 2 * n)")
        assert nb.look("c.execute('select twice(2)').fetchall()") == [(4,)]


@pytest.mark.parametrize(
    "mapped",
    [
        "view = np.asarray(np.memmap('shared.bin', dtype='u1', mode='r+'))",
        "import mmap\nwith open('shared.bin', 'r+b') as file: view = np.frombuffer(mmap.mmap(file.fileno(), 0), 'u1')\ndel file",
    ],
)
def test_no_rollback_writes_to_a_mapped_file(mapped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shared.bin").write_bytes(bytes(range(64)))
    with Notebook() as nb:
        nb.run(f"import queue\nimport numpy as np\n{mapped}\nq = queue.Queue(); q.put(view)")
        there = nb.run("view[0] = 7")
        nb.run("view[0] = 8; view[1] = 9")
        report = nb.rollback(there)
        assert nb.look("view.tolist()[:2]") == [7, 1]
        assert (tmp_path / "shared.bin").read_bytes()[:3] == bytes([8, 9, 2])
        assert any("cannot be restored in place" in note for note in report.notes)
        nb.run("del view, q")


_FUNCTIONS = {
    "a default": "c.create_function('f', 0, lambda p=part: len(p))",
    "a closure": "def make(p):\n    def f():\n        return len(p)\n    return f\nc.create_function('f', 0, make(part))",
    "a function with a name": "def f(_p=part):\n    return len(_p)\nc.create_function('f', 0, f); del f",
    "a method": (
        "class A:\n    def __init__(self, p):\n        self.p = p\n    def f(self):\n        return len(self.p)\n"
        "c.create_function('f', 0, A(part).f)"
    ),
    "a partial": "import functools\nc.create_function('f', 0, functools.partial(lambda p: len(p), part))",
    "a method of a list": "c.create_function('f', 0, part.__len__); c.create_function('g', 1, part.append)",
    "an order": "c.create_collation('f', lambda a, b, p=part: 0); c.create_function('f', 0, lambda p=part: len(p))",
}


@pytest.mark.sampled
@pytest.mark.parametrize("place", ["':memory:'", "path"])
@pytest.mark.parametrize("kind", _FUNCTIONS)
def test_what_functions_of_a_database_hold_stays_shared(kind: str, place: str, tmp_path: Path) -> None:
    made = f"import sqlite3\npath = {str(tmp_path / 'x.db')!r}\nc = sqlite3.connect({place}); part = [1]\n"
    with Notebook() as nb:
        first = nb.run(made + _FUNCTIONS[kind])
        part = nb.look("part")
        nb.run("part.append(2)")
        assert nb.checkout(first).notes == ()
        assert (nb.look("part"), nb.look("part") is part) == ([1], True)
        nb.run("part += [2, 3]")
        assert nb.look("c.execute('select f()').fetchone()") == (3,)
        nb.look("c.close()")


_STAY = {
    "a library's object": ("import threading\nx = threading.Event()", "x.set()", "x.is_set()"),
    "a part of an instance": (
        "import threading\nclass A: pass\nx = A(); x.event = threading.Event(); x.n = 1",
        "x.event.set(); x.n = 2",
        "x.event.is_set()",
    ),
    "a map of memory": ("import mmap\nx = mmap.mmap(-1, 4)", "x[0] = 5", "x[0] == 5"),
}


@pytest.mark.parametrize("kind", _STAY)
def test_what_stays_though_it_was_another_then_is_told(kind: str) -> None:
    made, change, changed = _STAY[kind]
    with Notebook() as nb:
        first = nb.run(made)
        second = nb.run(change)
        type_name = first.unsaved[0].type
        told = f"x ({type_name}) stays as it is now, not as it was then: it cannot be saved"
        assert nb.checkout(first).notes == (told,)
        assert nb.look(changed)
        assert nb.checkout(second).notes == ()  # as which it stayed


def test_what_stays_and_goes_on_as_it_was_is_not_told() -> None:
    with Notebook() as nb:
        first = nb.run("import threading\nx = [threading.Event()]")
        nb.run("x.append(1)")
        assert nb.checkout(first).notes == ()


@pytest.mark.parametrize(
    ("way", "method"),
    [
        ("part.append", "way"),
        ("functools.partial(part.append, 9)", "way.func"),
        ("{'x': part.append}", "way['x']"),
        ("[part.append, part.pop, part]", "way[1]"),
    ],
)
def test_a_method_of_what_is_held_does_not_keep_it_from_being_set_back(way: str, method: str) -> None:
    with Notebook() as nb:
        first = nb.run(f"import functools, queue\npart = [1]; q = queue.Queue(); q.put(part); way = {way}")
        second = nb.run("part.append(2)")
        assert nb.checkout(first).notes == ()
        assert nb.look("part is q.queue[0] and part == [1]")
        assert nb.look(f"{method}.__self__ is part")
        assert nb.checkout(second).notes == ()
        assert nb.look("part is q.queue[0] and part == [1, 2]")


@pytest.mark.parametrize("make", ["iter(rows)", "reversed(rows)"])
def test_an_iterator_over_a_list_stands_where_it_stood_where_a_generator_went_on_in_it(make: str) -> None:
    """What a generator has hold of is filled after it is made, and an iterator cannot stand behind the end of a list."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        early = nb.run(f"rows = [1, 2, 3, 4]\nit = {make}\nlines = (row for row in it)\nfirst = next(lines)")
        late = nb.run("second = next(lines)")
        left = nb.look("it.__length_hint__()")
        nb.checkout(early)
        assert nb.look("(it.__length_hint__(), rows)") == (3, [1, 2, 3, 4])
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(late)
        assert (nb.look("it.__length_hint__()"), left) == (2, 2)
        nb.run("third = next(it)\nrows.append(5)")
        assert nb.look("rows[third - 1]") == nb.look("third")
        nb.checkout(early)
        assert nb.look("(it.__length_hint__(), rows)") == (3, [1, 2, 3, 4])


def test_an_iterator_over_the_list_that_holds_it_stands_where_it_stood() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("rows = [1, 2, 3, 4]\nit = iter(rows)\nrows.append(it)\nfirst = next(it), next(it)")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout()
        assert nb.look("(it.__length_hint__(), rows[-1] is it, len(rows))") == (3, True, 5)
