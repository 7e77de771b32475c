"""An object that cannot be saved stays alive, and goes on sharing with the variables what it shared with them."""

from __future__ import annotations

import sqlite3

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from agent_kernel.testing.notebooks import Notebook, names_changed, rev

# What makes `part` and a holder of it, what changes `part` in place, its content, and the holder's own way to it.
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
    "its own circle": (
        "import queue\npart = [1]; part.append(part); q = queue.Queue(); q.put(part)",
        "part.append(2)",
        "(len(part), part[1] is part)",
        "q.queue[0]",
    ),
}


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
        "import numpy as np\npart = np.zeros(3)",
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


def test_a_class_that_is_made_anew_is_told() -> None:
    with Notebook() as nb:
        first = nb.run("import queue\nclass A:\n    n = 1\npart = A(); q = queue.Queue(); q.put(part)")
        nb.run("A.n = 2; part.n = 3")
        nb.checkout(first)
        assert nb.look("(part.n, A.n, type(part) is A)") == (1, 1, True)


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
        told = nb.checkout(first).notes
        assert nb.look("c.execute('select count(*) from t').fetchall()") == [(0,)]
        assert told == ("c and cur no longer share objects: these cannot be restored in place",)


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
