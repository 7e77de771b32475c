"""Effects by unusual ways are stopped before they happen, also where no review of source helps."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.agents import approval
from agent_kernel.agents.events import Output
from agent_kernel.agents.review import is_risky, review
from tests.agents.effect_steps import (
    AT_LIBRARIES,
    BY_LIBRARIES,
    COMPILED,
    EFFECTS,
    MORE_EFFECTS,
    ON_OPEN,
    OPEN,
    PREPARED,
    UNSEEN,
)
from tests.support.notebooks import Notebook, names_changed

_NOT_SEEN = pytest.mark.xfail(reason="compiled code that opens files without Python", strict=True)


def as_params(ways: Iterable[str]) -> list[object]:
    return [pytest.param(way, marks=_NOT_SEEN if way in UNSEEN else ()) for way in ways]


@pytest.fixture
def folder(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    (tmp_path / "victim").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("threading.excepthook", lambda args: None)
    return tmp_path


def seen(folder: Path) -> dict[str, tuple[int, int, float, str]]:
    """What lies in the folder."""
    found = {one.name: one.lstat() for one in folder.iterdir()}
    return {
        name: (at.st_mode, at.st_nlink, at.st_mtime, (folder / name).read_text() if name == "victim" else "")
        for name, at in found.items()
    }


def status(code: str, approve: str = "risky") -> str:
    state: dict[str, Any] = {}
    exec(PREPARED, state)
    run = ak.Agent("ada", model=ak.ScriptedModel([code, "task.success(1)"]), state=state, approve=approve).start("go")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in run:
            pass
    denied = any(isinstance(event, Output) and event.status == "denied" for event in run.events)
    return "denied" if denied else run.status


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("approve", "end"), [("risky", "pending"), ("never", "denied")])
@pytest.mark.parametrize("way", MORE_EFFECTS)
def test_an_effect_is_asked_about_or_denied(folder: Path, way: str, approve: str, end: str) -> None:
    before, here, environ = seen(folder), Path.cwd(), dict(os.environ)
    assert status(MORE_EFFECTS[way], approve) == end
    assert (seen(folder), Path.cwd(), dict(os.environ)) == (before, here, environ)


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("approve", "end"), [("risky", "pending"), ("never", "denied")])
@pytest.mark.parametrize("way", BY_LIBRARIES)
def test_an_effect_of_a_library_is_read_from_the_code(folder: Path, way: str, approve: str, end: str) -> None:
    before = seen(folder)
    assert status(BY_LIBRARIES[way], approve) == end
    assert seen(folder) == before


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("approve", ["risky", "never"])
@pytest.mark.parametrize("way", AT_LIBRARIES)
def test_what_libraries_do_in_memory_needs_no_asking(folder: Path, way: str, approve: str) -> None:
    for library in ("duckdb", "polars", "psutil", "pyarrow", "torch"):
        if f"import {library}" in AT_LIBRARIES[way]:
            pytest.importorskip(library)
    assert status(AT_LIBRARIES[way], approve) == "completed"


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", as_params(EFFECTS))
def test_an_effect_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    before, here = seen(folder), Path.cwd()
    assert status(EFFECTS[way]) == "pending"
    assert (seen(folder), Path.cwd()) == (before, here)
    assert "AGENT_KERNEL_TEST" not in os.environ


ANOTHER_INTERPRETER = """
import importlib, sys
i = importlib.import_module('_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters')
i.run_string(i.create(), "open('out', 'w').close()")
"""


@pytest.mark.parametrize("approve", ["risky", "never"])
def test_nor_does_another_interpreter_begin(folder: Path, approve: str) -> None:
    assert status(ANOTHER_INTERPRETER, approve) == ("denied" if approve == "never" else "pending")
    assert not (folder / "out").exists()


# What code leaves to be called by whoever prints its error, drops it or collects garbage; each calls `w`.
LEFT_TO_BE_CALLED = {
    "arguments": "class E(Exception):\n    @property\n    def args(self): w(); return ()\nraise E()",
    "notes": "class E(Exception):\n    @property\n    def __notes__(self): w(); return ['x']\nraise E()",
    "text": "class E(Exception): __str__ = staticmethod(w)\nraise E()",
    "value": "class H: __repr__ = staticmethod(w)\nH()",
    "finalizer": "import weakref\nclass C: pass\ndef f():\n    c = C(); weakref.finalize(c, w); 1 / 0\nf()",
    "weak reference": (
        "import weakref\nclass C: pass\nk = []\n"
        "def f():\n    c = C(); k.append(weakref.ref(c, functools.partial(lambda w, r: w(), w))); 1 / 0\nf()"
    ),
    "collection": "import gc\ngc.callbacks.append(lambda phase, info: w())",
}
WRITERS = {
    "builtin": "import builtins, functools\nw = functools.partial(builtins.open, 'out', 'w')\n",
    "library": "import functools, pandas.io.common as c\nw = functools.partial(c.get_handle, 'out', 'w')\n",
}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("way", LEFT_TO_BE_CALLED)
def test_what_code_leaves_to_be_called_does_nothing_outside_either(
    folder: Path, monkeypatch: pytest.MonkeyPatch, way: str, writer: str
) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    status(WRITERS[writer] + LEFT_TO_BE_CALLED[way], "never")
    gc.collect()
    assert not (folder / "out").exists()


@pytest.mark.parametrize("kind", ["KeyboardInterrupt", "SystemExit", "ValueError"])
def test_what_an_error_raises_as_it_is_asked_is_nobodys_interrupt(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    asked = f"class E(Exception):\n    @property\n    def args(self): raise {kind}\nraise E('x')"
    assert status(asked, "never") == "completed"


def test_the_name_of_an_errors_class_is_read_past_what_its_own_class_makes_of_it(folder: Path) -> None:
    named = "class M(type):\n    @property\n    def __name__(cls): w(); return 'x'\nclass E(Exception, metaclass=M): pass\nraise E()"
    assert status(WRITERS["library"] + named, "never") == "completed"
    assert not (folder / "out").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.register_at_fork(before=print)",
        "import _signal\n_signal.signal(15, _signal.SIG_IGN)",
        "import asyncio\nasyncio.new_event_loop().add_signal_handler(10, print)",
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [10])",
        "import faulthandler\nfaulthandler._sigsegv()",
        "import faulthandler\nfaulthandler.dump_traceback_later(0.01, exit=True)",
    ],
)
def test_handlers_of_signals_and_forks_and_ends_of_the_process_are_stopped(
    monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    before = [(number, signal.signal(number, print)) for number in (10, 15)]
    try:
        assert status(code, "never") == "denied"
        gc.collect()
        assert [signal.getsignal(number) for number in (10, 15)] == [print, print]
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def test_a_path_from_an_open_folder_is_read_from_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the working directory the same path leads into the step's own temporary folder."""
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    step = """
import os, posix, tempfile
own, here = tempfile.mkdtemp(), os.getcwd()
up = "/".join([".."] * len(here.strip("/").split("/")))
deep = own + "".join(f"/d{n}" for n in range(len(up.split("/"))))
parent = own + os.path.dirname(own)
os.makedirs(deep)
os.makedirs(parent, exist_ok=True)
os.symlink(here, parent + "/" + os.path.basename(own))
posix.open(up + own + "/out", os.O_WRONLY | os.O_CREAT, dir_fd=posix.open(deep, os.O_RDONLY))
"""
    assert status(step, "never") == "denied"
    assert not (folder / "out").exists()


def test_the_handler_that_asyncio_sets_for_itself_is_no_effect() -> None:
    assert status("import asyncio\nasync def f(): return 3\nasyncio.run(f())", "never") == "completed"


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", as_params(COMPILED))
def test_an_effect_of_compiled_code_is_stopped(folder: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    for library in ("duckdb", "lmdb", "polars", "psutil", "pyarrow", "torch"):
        if library in COMPILED[way] or (library == "pyarrow" and way.startswith("pandas")):
            pytest.importorskip(library)
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    before, here = seen(folder), Path.cwd()
    assert status(COMPILED[way], "never") == "denied"
    assert (seen(folder), Path.cwd()) == (before, here)


@pytest.mark.parametrize("way", sorted(UNSEEN & EFFECTS.keys()))
def test_what_the_gate_does_not_see_is_read_from_the_code_where_it_is_spelled_out(folder: Path, way: str) -> None:
    state: dict[str, object] = {}
    exec(PREPARED, state)
    assert is_risky(review(EFFECTS[way], names=state, namespace=state))


NAMES_OF_LIBRARIES = """
import duckdb, polars, pyarrow, sqlite3, pandas
from duckdb import sql
from pyarrow import OSFile, memory_map
from polars import read_csv, DataFrame
rows = pandas.DataFrame({"a": [1, 2]})
"""


def test_what_modules_of_libraries_hold_stays_what_it_is_and_finds_the_variables_of_a_cell(folder: Path) -> None:
    for library in ("duckdb", "polars", "pyarrow"):
        pytest.importorskip(library)
    with Notebook() as nb:
        nb.run(NAMES_OF_LIBRARIES)
        assert status("x = 1") == "completed"  # the hook of agents is there from now on
        report = nb.run("total = sql('select sum(a) from rows').fetchall(), OSFile, memory_map, read_csv, DataFrame")
        assert names_changed(report) == {"total"}
        assert not report.unsaved
        assert nb.look("total[0], duckdb.connect().execute('select a from rows').fetchall()") == ([(3,)], [(1,), (2,)])


COMPILED_READING = """
import pyarrow as pa, pyarrow.csv, pyarrow.parquet, pyarrow.fs, polars as pl, duckdb, sqlite3, io
table = pyarrow.csv.read_csv("rows.csv")
out = io.BytesIO()
pyarrow.parquet.write_table(table, out)
sink = pa.BufferOutputStream()
with pa.ipc.new_file(sink, table.schema) as writer: writer.write_table(table)
pa.OSFile("rows.csv").read(), pa.memory_map("rows.csv").read(), pyarrow.fs.LocalFileSystem().open_input_file("rows.csv").read()
pl.scan_csv("rows.csv").collect().write_csv(), pl.read_csv("rows.csv").write_parquet(io.BytesIO())
base = duckdb.connect()
base.execute("create table t as select * from 'rows.csv'; copy t from 'rows.csv'; set threads = 2")
duckdb.sql("explain select 1").fetchall(), base.sql("select * from t where a > 1").fetchall()
lite = sqlite3.connect(":memory:")
lite.execute("attach ':memory:' as other"); lite.execute("create table other.t (a)"); lite.execute("vacuum")
isinstance(sink, pa.NativeFile), isinstance(pa.OSFile("rows.csv"), pa.OSFile)
"""


@pytest.mark.filterwarnings("ignore")
def test_what_compiled_code_reads_and_keeps_in_memory_passes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("duckdb", "polars", "pyarrow"):
        pytest.importorskip(library)
    (folder / "rows.csv").write_text("a,b\n1,2\n")
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    assert status(COMPILED_READING, "never") == "completed"


@pytest.mark.filterwarnings("ignore")
def test_what_compiled_code_writes_to_a_temporary_folder_of_the_step_passes(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    duck = pytest.importorskip("duckdb").__name__
    polars = pytest.importorskip("polars").__name__
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    code = f"""
import {duck}, {polars}, sqlite3, tempfile
with tempfile.TemporaryDirectory() as own:
    {polars}.DataFrame({{"a": [1]}}).write_parquet(f"{{own}}/a")
    {duck}.sql(f"copy (select 1) to '{{own}}/b'")
    sqlite3.connect(":memory:").execute(f"attach '{{own}}/c' as c")
"""
    assert status(code, "never") == "completed"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Variables in which files, connections and processes are open."""
    pytest.importorskip("duckdb")
    state: dict[str, Any] = {"__name__": "__main__"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("open"))
        exec(OPEN, state)
        yield state
        state["book"].handlers[0].close()
        del sys.modules["agent_kernel_test_own"]
        state["own"].log.close()
        for name in (
            *("stream", "sock", "peer", "web", "packed", "zipped", "shelf", "near", "far"),
            *("cursor", "base", "duck", "log", "binary"),
        ):
            state[name].close()
        os.close(state["number"])
        state["child"].communicate(b"\n")


@pytest.mark.parametrize("way", ON_OPEN)
def test_what_writes_to_what_is_open_is_read_from_the_code(opened: dict[str, Any], way: str) -> None:
    assert is_risky(review(ON_OPEN[way], names=opened, namespace=opened))


READING = (
    "log.name, log.closed, df.head()",
    "pd.read_sql('select * from t', base), pd.read_sql_query('select 1', con=base)",
    "cursor.execute('select * from t').fetchall()",
    "duck.sql('select 1').df(), duck.execute('select a from t where a > 1').fetchall()",
    "mapped.mean(), mapped[0], paged[0:2]",
    "print(log), type(sock)",
    "peek()",
    "import agent_kernel_test_own; agent_kernel_test_own.half(3)",
    "[name for name in globals() if not name.startswith('_')], 'df' in globals(), len(globals())",
    "globals()['df'].head(); globals()['new'] = 1",
    "book.name, notes",
    "notes.count(), notes.both()",
)


@pytest.mark.parametrize("code", READING)
def test_what_only_reads_what_is_open_is_not_asked_about(opened: dict[str, Any], code: str) -> None:
    found = review(code, names=opened, namespace=opened)
    assert not is_risky(found), [one for one in found if one.risky]


def test_there_are_200_effects() -> None:
    assert len(EFFECTS) >= 145
    assert len(COMPILED) >= 65
    assert EFFECTS.keys() | COMPILED.keys() >= UNSEEN
