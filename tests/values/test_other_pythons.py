"""A state that one Python saved loads under another: code is compiled again, generated again, or missed one by one.

Each notebook is written and read three ways where a second interpreter with the needed packages is found (named by
`AGENT_KERNEL_OTHER_PYTHON`, or as `python3.N` on the path), and always in one process whose number is changed between.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import shutil
import sys
from collections.abc import Callable
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent_kernel.agents import agent
from agent_kernel.commands.checkout import RefRow
from agent_kernel.commands.describe import Lines
from agent_kernel.errors import BranchInUseError, MissingCodeError
from agent_kernel.records import queue
from agent_kernel.repository import Change, ObjectId
from agent_kernel.session import Report, Repository
from agent_kernel.values import definitions, streams
from tests.support.elsewhere import Sheet, SheetResult, elsewhere, other_pythons
from tests.support.notebooks import Notebook
from tests.values.notebook import Namespace

NOTEBOOKS = {
    "a dataclass": (
        """
from dataclasses import dataclass, field
@dataclass
class D:
    x: int = 1
    y: list = field(default_factory=list)
    def twice(self): return self.x * 2
d = D(3)
""",
        "repr(d) == 'D(x=3, y=[])' and d == D(3) and D(1, [2]).y == [2] and D().y is not D().y and d.twice() == 6",
    ),
    "a frozen dataclass that is a key, with inherited fields": (
        """
from dataclasses import FrozenInstanceError, InitVar, dataclass
from typing import ClassVar
@dataclass(frozen=True, order=True, kw_only=True)
class B:
    x: int
    k: ClassVar[int] = 4
@dataclass(frozen=True, order=True)
class D(B):
    y: int = 2
    z: InitVar[int] = 3
    def __post_init__(self, z): object.__setattr__(self, 'seen', z)
    def __repr__(self): return 'mine'
d = {D(x=3): 1}
def is_frozen(one):
    try:
        one.x = 4
    except FrozenInstanceError:
        return True
""",
        "repr([*d]) == '[mine]' and d[D(x=3)] == 1 and D(x=1) < D(x=2) and D(x=1, z=9).seen == 9 and is_frozen([*d][0])",
    ),
    "a dataclass with slots": (
        "import copy, dataclasses\n@dataclasses.dataclass(slots=True, frozen=True)\nclass D:\n    x: int\nd = D(3)",
        "getattr(copy, 'replace', dataclasses.replace)(d, x=4) == D(4) and dataclasses.asdict(d) == {'x': 3} and hash(d) == hash(D(3))",
    ),
    "named tuples": (
        """
from collections import namedtuple
from typing import NamedTuple
P = namedtuple('P', 'a b', defaults=[5])
class Q(NamedTuple):
    a: int
    b: str = 'z'
    def m(self): return self.a
p, q = P(1), Q(1)
""",
        (
            "(p, p._replace(a=3), P._make([1, 2])) == ((1, 5), (3, 5), (1, 2)) and repr(q) == \"Q(a=1, b='z')\" "
            "and q.m() == 1 and Q(2, b='r').b == 'r' and P.__new__.__defaults__ == (5,) and p._asdict() == {'a': 1, 'b': 5}"
        ),
    ),
    "lambdas in comprehensions": (
        """
bound = [lambda i=i: i for i in range(3)]
late = [lambda: i for i in range(3)]
def by_letter(): return {k: (lambda: k) for k in 'ab'}
letters = by_letter()
class K:
    nines = [lambda: 9 for _ in 'a']
in_one_line = (lambda: 'left', lambda: 'right')
""",
        (
            "[f() for f in bound] == [0, 1, 2] and [f() for f in late] == [2, 2, 2] and letters['a']() + letters['b']() == 'bb' "
            "and K.nines[0]() == 9 and [f() for f in in_one_line] == ['left', 'right']"
        ),
    ),
    "functions that exec and eval made, whose text is at hand": (
        "exec('def first(): return 1')\ntext = 'def second(): return 2'\nexec(text)\nthird = eval('lambda x: x + 1')",
        "first() + second() + third(2) == 6",
    ),
    "paths": (
        "import pathlib\np, q, kind = pathlib.Path('/a/b'), pathlib.PureWindowsPath('c:/d'), pathlib.PurePosixPath",
        "p == pathlib.Path('/a/b') and q.name == 'd' and kind is pathlib.PurePosixPath",
    ),
    "enumerations": (
        """
import enum
class E(enum.Enum):
    A = 1
    @property
    def q(self): return 2
class F(enum.Flag):
    A = 1
    B = 2
class S(enum.StrEnum):
    A = enum.auto()
e, f, s = E.A, F.A | F.B, S.A
""",
        "E(1) is e is E.A and e.q == 2 and f == F.A | F.B and list(F) == [F.A, F.B] and s == 'a' == str(s)",
    ),
    "what typing makes": (
        """
from typing import Generic, NewType, Protocol, TypedDict, TypeVar, runtime_checkable
@runtime_checkable
class Has(Protocol):
    x: int
    def m(self) -> int: ...
class Does:
    x = 1
    def m(self): return 2
class Sub(Has):
    x = 5
    def m(self): return 3
class TD(TypedDict, total=False):
    a: int
T = TypeVar('T')
class G(Generic[T]):
    def __init__(self, v): self.v = v
class GP(Protocol[T]):
    def f(self) -> T: ...
g, td, Uid = G[int](4), TD(a=1), NewType('Uid', int)
""",
        (
            "isinstance(Does(), Has) and not isinstance(3, Has) and Sub().m() == 3 and isinstance(Sub(), Has) "
            "and TD.__optional_keys__ == {'a'} and G[str](g.v).v == 4 and Uid(3) == 3"
        ),
    ),
    "what functools makes": (
        """
import functools
@functools.singledispatch
def kind(x): return 'object'
@kind.register
def _(x: int): return 'int'
@functools.total_ordering
class V:
    def __init__(self, v): self.v = v
    def __lt__(self, other): return self.v < other.v
    def __eq__(self, other): return self.v == other.v
    @functools.cached_property
    def doubled(self): return self.v * 2
    @functools.singledispatchmethod
    def kind(self, x): return 'object'
    @kind.register
    def _(self, x: int): return 'int'
    of_three = functools.partialmethod(kind, 3)
def deco(function):
    @functools.wraps(function)
    def wrapper(*arguments): return function(*arguments) + 1
    return wrapper
@deco
def same(x): return x
part = functools.partial(same, 4)
""",
        (
            "kind(1) + kind('a') == 'intobject' and V(1) >= V(0) and V(3).doubled == 6 and V(1).of_three() == 'int' "
            "and same(1) == 2 and part() == 5"
        ),
    ),
    "code that keeps its text where linecache finds it, as attrs does": (
        """
import linecache
text = 'def __init__(self, x): self.x = x'
linecache.cache['<attrs generated init P>'] = (len(text), None, [text], '<attrs generated init P>')
made = {}
exec(compile(text, '<attrs generated init P>', 'exec'), {}, made)
class P:
    __init__ = made['__init__']
p, text, made = P(3), '', None
""",
        "P(p.x).x == 3",
    ),
    "a function of a cell that does not evaluate annotations": (
        (
            "from __future__ import annotations\ndef outer():\n    def inner(x: NotThere) -> Neither: return x\n    return inner\n"
            "inner = outer()"
        ),
        "outer()(1) == inner(1) == 1 and inner.__annotations__['x'] == 'NotThere'",
    ),
    "a function whose text is not known, beside others": (
        "exec('def unknown(a=1): return {}'.format(5))\ndef known(): return 6\nn = 7",
        "known() + n == 13 and unknown.__name__ == 'unknown' and unknown.__defaults__ == (1,)",
    ),
}


OTHER = next(iter(other_pythons()), "")
WAYS = {"as if": ("", ""), "from this Python": (sys.executable, OTHER), "to this Python": (OTHER, sys.executable)}
_Kept = Callable[[str], dict[str, SheetResult]]


@pytest.fixture(scope="module")
def read_there(tmp_path_factory: pytest.TempPathFactory) -> _Kept:
    """All notebooks, written by one interpreter and read by another."""
    known: dict[str, dict[str, SheetResult]] = {}

    def read(way: str) -> dict[str, SheetResult]:
        if way not in known:
            stores = {name: str(tmp_path_factory.mktemp("store") / "kept") for name in NOTEBOOKS}
            writer, reader = WAYS[way]
            cells = {name: Sheet(stores[name], (cell,)) for name, (cell, _) in NOTEBOOKS.items()}
            written = elsewhere(cells, python=writer)
            assert not any(result.error or result.unsaved for result in written.values())
            checks = {name: (f"assert {look}",) for name, (_, look) in NOTEBOOKS.items()}
            known[way] = elsewhere(
                {name: Sheet(stores[name], checkout=True, checks=checks[name]) for name in NOTEBOOKS}, python=reader
            )
        return known[way]

    return read


@pytest.mark.parametrize("way", [way for way in WAYS if OTHER or way == "as if"])
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_what_one_python_saved_another_one_loads(
    name: str, way: str, read_there: _Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "as if":
        cell, look = NOTEBOOKS[name]
        with _loaded_elsewhere(monkeypatch, cell) as nb:
            assert nb.look(look)
    else:
        assert read_there(way)[name] == SheetResult()


def _written(monkeypatch: pytest.MonkeyPatch, cell: str) -> Repository:
    """What a Python of another number would have written, whose bytecode means nothing here."""
    with monkeypatch.context() as patch:
        patch.setattr(definitions, "PYTHON", (3, 99))
        patch.setattr(definitions, "_known", {})
        patch.setattr(definitions, "marshal", SimpleNamespace(dumps=lambda *_: b"bytecode that would crash"))
        with Notebook() as nb:
            assert not nb.run(cell).unsaved
    return nb.repo


def _loaded_elsewhere(monkeypatch: pytest.MonkeyPatch, cell: str) -> Notebook:
    repo = _written(monkeypatch, cell)
    monkeypatch.setattr(definitions, "_known", {})
    nb = Notebook(repo)
    nb.checkout()
    return nb


UNKNOWN = "exec('def unknown(a=1): return {}'.format(5))\n"


def test_a_function_without_its_text_says_when_called_who_compiled_it_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with (
        _loaded_elsewhere(monkeypatch, UNKNOWN) as nb,
        pytest.raises(MissingCodeError, match=r"'unknown' was compiled by Python 3\.99 .* run the code that makes"),
    ):
        nb.look("unknown(1, key=2)")


def test_a_function_without_its_text_is_no_change_and_is_saved_again_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    with _loaded_elsewhere(monkeypatch, UNKNOWN + "held = [unknown]") as nb:
        assert [change.name for change in nb.run("n = 1").changed] == ["n"]
        assert not nb.session.commit(full=True).changed
        moved = nb.run("other = {'kept': unknown}")
        monkeypatch.setattr(definitions, "PYTHON", (3, 99))
        # Not in the module `marshal` itself: imports need it.
        monkeypatch.setattr(definitions, "marshal", SimpleNamespace(loads=lambda _: (lambda a: 5).__code__))
        with Notebook(nb.repo) as back:
            back.checkout(moved)
            assert back.look("other['kept']() == held[0]() == unknown() == 5")


def test_a_closure_without_its_text_keeps_its_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    text = r"'def outer():\n n = [3]\n def inner(): return n, {}\n return inner\ninner = outer()'.format(3)"
    cell = f"exec({text})\ncell = inner.__closure__[0].cell_contents\nm = 1"
    with _loaded_elsewhere(monkeypatch, cell) as nb:
        assert nb.look("inner.__closure__[0].cell_contents is cell and cell == [3]")
        nb.run("cell.append(4)")
        with pytest.raises(MissingCodeError, match=r"'outer\.inner' was compiled"):
            nb.look("inner()")


def test_a_class_of_functions_without_text_loses_those_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = r"'class C:\n def gone(self): return {}\n n = 5'.format(1)"
    with _loaded_elsewhere(
        monkeypatch, f"exec({text})\nclass D(C):\n    def stays(self): return self.n\nd = D()"
    ) as nb:
        assert nb.look("d.stays()") == 5
        with pytest.raises(MissingCodeError, match=r"'C\.gone'"):
            nb.look("d.gone()")


def test_a_text_that_makes_other_code_is_not_taken_for_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = UNKNOWN + "text = 'def unknown(a=1): return 6'"
    with _loaded_elsewhere(monkeypatch, cell) as nb, pytest.raises(MissingCodeError):
        nb.look("unknown()")


def test_an_interpreter_that_was_named_is_used() -> None:
    named = os.environ.get("AGENT_KERNEL_OTHER_PYTHON", "").partition(os.pathsep)[0]
    assert not named or Path(OTHER) == Path(shutil.which(named) or "")


@pytest.mark.parametrize("old", [old for old in streams._MOVED if old.startswith("agent_kernel.")])
def test_a_class_of_this_package_that_lies_elsewhere_now_is_found(old: str) -> None:
    module = import_module(streams._MOVED[old])
    kind = next(one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)
    reading = streams.Unpickler(io.BytesIO(), iter(()), [])
    assert reading.find_class(old, kind.__qualname__) is kind


@pytest.mark.parametrize(
    ("old", "name"),
    [
        ("agent_kernel.agents.execution_context", "ExecutionContext"),  # as `ak.here()` gave it
        ("agent_kernel.agents.cleanup", "PartialWork"),  # and these as commands answered: `branches = %agent branch`
        ("agent_kernel.cells.files", "Script"),
        ("agent_kernel.commands.diff", "Difference"),
        ("agent_kernel.commands.output", "Lines"),
        ("agent_kernel.commands.output", "Table"),
        ("agent_kernel.commands.refs", "RefList"),
        ("agent_kernel.commands.refs", "RefRow"),
        ("agent_kernel.commands.table", "Overview"),
        ("agent_kernel.commands.timeline", "Record"),
        ("agent_kernel.bundle.key_commands", "Keys"),
        ("agent_kernel.verbs.contents", "Stored"),
        ("agent_kernel.verbs.upkeep", "Verified"),
        ("agent_kernel.errors.repository", "MergeConflictError"),  # an error that a cell kept
        ("agent_kernel.repository.blobs", "Output"),  # and what a program got from a repository or a session
        ("agent_kernel.repository.merging", "Conflict"),
        ("agent_kernel.repository.rewriting", "PruneReport"),
        ("agent_kernel.repository.verifying", "VerifyReport"),
        ("agent_kernel.session.reports", "Report"),
        ("agent_kernel.session.reports", "Status"),
        ("agent_kernel.storage.protocol", "StoreSize"),
        ("agent_kernel.values.dump", "SaveFailure"),
    ],
)
def test_what_an_earlier_release_stored_of_our_own_is_found(old: str, name: str) -> None:
    found = streams.Unpickler(io.BytesIO(), iter(()), []).find_class(old, name)
    assert (found.__module__, found.__qualname__) == (streams._MOVED[old], name)


HEAD = ObjectId(bytes(33))
ANSWERS: dict[str, tuple[str, Callable[[], object]]] = {
    "a report of a session": (
        "agent_kernel.session.reports",
        lambda: Report(None, None, "main", (Change("x", "~", 3),)),
    ),
    "the same of a later release": (
        "agent_kernel.session.operations",
        lambda: Report(None, None, "main", notes=("a",)),
    ),
    "lines of a command": ("agent_kernel.commands.output", lambda: Lines(("a", "b"), {"count": 2})),
    "a list of branches": ("agent_kernel.verbs.refs", lambda: RefRow("main", HEAD, "x = 1", "today", current=True)),
    "an error that a cell kept": ("agent_kernel.errors.repository", lambda: BranchInUseError("main", "another kernel")),
    "a member of a team": ("agent_kernel.records.teams", lambda: queue.Member(agent="ada", capabilities=["tests"])),
    "what an agent is given": ("agent_kernel.agents.registry", lambda: agent.Member("high", "its own words")),
}


def as_stored_by(module: str, stream: bytes, now: str) -> bytes:
    """The stream as it was written when the classes of `now` lay in another module."""
    written = b""
    codes = [(code.name, argument, place or 0) for code, argument, place in pickletools.genops(stream)]
    for (code, argument, place), (_, _, end) in pairwise([*codes, ("", None, len(stream))]):
        if argument == now:
            written += pickle.SHORT_BINUNICODE + bytes([len(module)]) + module.encode()
        elif code != "FRAME":  # its length is another one now, and small streams need none
            written += stream[place:end]
    return written


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_an_earlier_release_stored_loads_with_its_values(answer: str) -> None:
    old, make = ANSWERS[answer]
    notebook = Namespace()
    notebook.names["answer"] = value = make()
    kept = notebook.keep("answer")
    kept[0].blobs = [as_stored_by(old, blob, streams._MOVED[old]) for blob in kept[0].blobs]
    assert any(old.encode() in blob for blob in kept[0].blobs)
    (loaded,) = notebook.load(kept).values()
    assert type(loaded) is type(value)
    assert fields_of(loaded) == fields_of(value)


def fields_of(value: object) -> dict[str, object]:
    names: tuple[str, ...] = getattr(value, "__struct_fields__", ())
    return {name: getattr(value, name) for name in names} or dict(vars(value))
