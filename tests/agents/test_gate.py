"""What nobody allowed is stopped before it happens, its variables go back, and a person who allows it has it run again."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import gc
import logging
import math
import os
import socket
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import EXTENSION_SUFFIXES
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agent_kernel as ak
from agent_kernel.agents import approval
from agent_kernel.agents.agent import open_context, reopen_run
from agent_kernel.agents.events import ApprovalRequested, Effect, Event, Finding, Output
from agent_kernel.agents.gate import Allowed, EffectStopped, Gate
from agent_kernel.agents.side_effects import record_side_effects
from agent_kernel.session.versioned import Versioned
from tests.agents.subagents.family import pair

UNSEEN = (
    "[act('x') for act in [getattr(place, ''.join(['write', '_text']))]]"  # no review of source knows what this calls
)


@pytest.fixture(params=["versioned", "dict"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    if request.param == "dict":
        yield {}
        return
    with Versioned(tmp_path / "store") as found:
        yield found


def started(state: Any, *turns: str, approve: str = "risky", **more: Any) -> ak.Run[object]:
    return ak.Agent("ada", model=ak.ScriptedModel([*turns, "task.success('end')"]), state=state, approve=approve).start(
        "go", **more
    )


def pending(run: ak.Run[object]) -> ApprovalRequested:
    with pytest.raises(ak.TaskPendingError):
        run.result()
    last = run.events[-1]
    assert isinstance(last, ApprovalRequested)
    return last


def told(run: ak.Run[object]) -> str:
    return next(event.sent for event in run.events if isinstance(event, Output))


def test_an_effect_that_the_review_did_not_report_is_stopped_and_asked_about(state: Any, tmp_path: Path) -> None:
    state["place"], state["rows"] = tmp_path / "x", [1]
    run = started(state, f"new = 1\nrows = [2]\n{UNSEEN}")
    asked = pending(run)
    assert not (tmp_path / "x").exists()
    assert asked.stopped == (("writes", str(tmp_path / "x")),)
    assert [one.what for one in asked.findings if one.risky] == [f"writes {tmp_path / 'x'}"]
    assert "taken back" in asked.told
    assert "new" not in state
    assert state["rows"] == [1]


def test_approving_runs_it_again_with_that_allowed(state: Any, tmp_path: Path) -> None:
    state["place"], state["rows"] = tmp_path / "x", [1]
    run = started(state, f"rows = rows + [2]\n{UNSEEN}")
    pending(run)
    assert run.approve().result() == "end"
    assert (tmp_path / "x").read_text() == "x"
    assert state["rows"] == [1, 2]
    assert [(one.what, one.target) for one in run.events if isinstance(one, Effect)] == [
        ("writes", str(tmp_path / "x"))
    ]


def test_what_is_allowed_is_that_and_nothing_else(state: Any, tmp_path: Path) -> None:
    state["place"], state["other"] = tmp_path / "x", tmp_path / "elsewhere"
    run = started(state, f"{UNSEEN}\n[act() for act in [getattr(other, ''.join(['mk', 'dir']))]]")
    pending(run)
    _ = run.approve()
    assert pending(run).stopped == (("makes", str(tmp_path / "elsewhere")),)
    assert not (tmp_path / "elsewhere").exists()
    assert [event.kind for event in run.events].count("ApprovalRequested") == 2
    assert run.approve().result() == "end", "what was allowed before stays allowed"
    assert (tmp_path / "elsewhere").is_dir()


def test_one_that_is_denied_is_told_to_the_model(state: Any, tmp_path: Path) -> None:
    state["place"] = tmp_path / "x"
    run = started(state, UNSEEN)
    pending(run)
    assert run.deny("not there").result() == "end"
    assert f"writes {tmp_path / 'x'}" in told(run)
    assert "Reason: not there." in told(run)
    assert "taken back" in told(run)


@pytest.mark.parametrize("way", ["never", "nobody is there"])
def test_where_nobody_is_asked_it_is_denied_at_once(state: Any, tmp_path: Path, way: str) -> None:
    state["place"], state["rows"] = tmp_path / "x", [1]
    if way == "never":
        run = started(state, f"rows = [2]\n{UNSEEN}", approve="never")
        assert run.result() == "end"
    else:
        heard: list[Event] = []
        parent = pair(
            ["task.success(helper(1))"],
            [f"from pathlib import Path as P\nplace = P({str(tmp_path / 'x')!r})\n{UNSEEN}", "task.success(n)"],
            approve="risky",
            on_event=heard.append,
        )
        assert parent("Work") == 1
        assert [one.status for one in heard if isinstance(one, Output) and one.agent == "child"] == ["denied", "ok"]
    assert not (tmp_path / "x").exists()
    assert state["rows"] == [1]


@pytest.mark.parametrize("approve", ["risky", "never"])
@pytest.mark.parametrize("handler", ["Exception", "BaseException"])
def test_code_that_catches_it_has_no_success_with_that(state: Any, tmp_path: Path, approve: str, handler: str) -> None:
    state["place"] = tmp_path / "x"
    code = f"done = []\nfor _ in range(3):\n    try:\n        {UNSEEN}\n    except {handler}:\n        done.append(1)\ntask.success(done)"
    run = started(state, code, approve=approve)
    if approve == "never":
        assert run.result() == "end"
    else:
        pending(run)
    assert not (tmp_path / "x").exists()
    assert "done" not in state


def test_a_gate_that_was_met_stays_shut(tmp_path: Path) -> None:
    gate = Gate(Allowed(findings=(Finding("files", "open", 1, risky=True),)))
    with record_side_effects((), gate):
        (tmp_path / "before").write_text("x")
        with pytest.raises(EffectStopped):
            os.putenv("AGENT_KERNEL_TEST", "x")
        with pytest.raises(EffectStopped):
            (tmp_path / "after").write_text("x")
    assert [one.name for one in tmp_path.iterdir()] == ["before"]


def test_what_the_program_gave_may_do_what_it_likes(tmp_path: Path) -> None:
    def save(text: str) -> None:
        (tmp_path / "x").write_text(text)

    class Saver:
        def save(self, text: str) -> None:
            save(text)

    agent = ak.Agent(
        "ada", model=ak.ScriptedModel(["save('x')", "saver.save('y')", "task.success(1)"]), approve="never"
    )
    agent.fn(save)
    agent.module(Saver(), name="saver")
    assert agent("go") == 1
    assert (tmp_path / "x").read_text() == "y"


def test_what_the_program_gave_acts_for_itself_and_not_for_code_that_it_calls(tmp_path: Path) -> None:
    def each(act: Any) -> None:
        act()

    agent = ak.Agent(
        "ada",
        model=ak.ScriptedModel(
            [
                f"from pathlib import Path as P\nplace = P({str(tmp_path / 'x')!r})\neach(lambda: {UNSEEN})",
                "task.success(1)",
            ]
        ),
        approve="never",
    )
    agent.fn(each)
    assert agent("go") == 1
    assert not (tmp_path / "x").exists()


def test_a_sub_agent_works_on_its_own_branch(tmp_path: Path) -> None:
    with Versioned(tmp_path / "store") as state:
        child = ak.Agent("child", model=ak.ScriptedModel(["y = 1\ntask.success(2)"]))
        state["helper"] = child
        run = ak.Agent(
            "ada", model=ak.ScriptedModel(["task.success(helper('go'))"]), state=state, approve="risky"
        ).start("go")
        assert run.result() == 2


def test_one_undo_takes_back_all_that_a_stopped_step_did(tmp_path: Path) -> None:
    with Versioned(tmp_path / "store") as state:
        state["rows"], state["place"] = [1], tmp_path / "x"
        run = started(state, "rows = rows + [0]", f"rows = rows + [2]\n{UNSEEN}")
        pending(run)
        assert state["rows"] == [1, 0]
        assert run.approve().result() == "end"
        assert state["rows"] == [1, 0, 2]
        state.undo()
        assert state["rows"] == [1]
        state.redo()
        assert state["rows"] == [1, 0, 2]


def test_what_could_not_be_saved_stays_where_the_step_left_it_alone(tmp_path: Path) -> None:
    with Versioned(tmp_path / "store") as state:
        numbers = (n for n in range(3))
        state["numbers"], state["others"], state["place"] = numbers, (n for n in "abc"), tmp_path / "x"
        asked = pending(started(state, f"others = 5\n{UNSEEN}"))
        assert state["numbers"] is numbers
        assert asked.told.endswith("what others held before could not be saved, and is gone")


def test_a_stopped_step_is_approved_in_another_process(tmp_path: Path) -> None:
    with Versioned(tmp_path / "store") as state:
        state["rows"], state["place"] = [1], tmp_path / "x"
        run = started(state, f"rows = rows + [2]\n{UNSEEN}")
        pending(run)
    with Versioned(tmp_path / "store") as state:
        again = reopen_run(open_context(state), run.id, model=ak.ScriptedModel(["", "task.success('later')"]))
        assert again.approve().result() == "later"
        assert state["rows"] == [1, 2]
    assert (tmp_path / "x").read_text() == "x"


def test_a_step_has_its_time_and_no_more_behind_a_gate() -> None:
    run = started({}, "while True: pass", approve="never", limits=ak.Limits(step_s=0.2))
    assert run.result() == "end"
    assert next(event.status for event in run.events if isinstance(event, Output)) == "timeout"


def test_work_given_to_a_pool_that_was_there_is_stopped(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(time.sleep, 0).result()
        state: dict[str, object] = {"pool": pool, "place": str(tmp_path / "x"), "acts": [open]}
        run = started(state, "left = pool.submit(acts[0], place, 'w')", approve="never")
        assert run.result() == "end"
        pool.submit((tmp_path / "mine").write_text, "x").result()
    assert [one.name for one in tmp_path.iterdir()] == ["mine"]


def test_auto_stops_nothing(state: Any, tmp_path: Path) -> None:
    state["place"] = tmp_path / "x"
    assert started(state, UNSEEN, approve="auto").result() == "end"
    assert (tmp_path / "x").exists()


def test_a_step_may_use_a_temporary_folder_of_its_own(state: Any, tmp_path: Path) -> None:
    import tempfile

    state["make"] = [tempfile.TemporaryDirectory]
    code = "with make[0]() as name:\n    import pathlib\n    p = pathlib.Path(name) / 'x'\n    [act('x') for act in [getattr(p, ''.join(['write', '_text']))]]\n    read = p.read_text()"
    run = started(state, code, approve="never")
    assert run.result() == "end"
    assert state["read"] == "x"


def test_a_link_leads_out_of_no_temporary_folder(state: Any, tmp_path: Path) -> None:
    import tempfile

    (tmp_path / "mine").write_text("mine")
    state["make"], state["mine"] = [tempfile.mkdtemp], tmp_path / "mine"
    code = "import pathlib\np = pathlib.Path(make[0]()) / 'x'\n[act(mine) for act in [getattr(p, ''.join(['symlink', '_to']))]]\n[act('x') for act in [getattr(p, ''.join(['write', '_text']))]]"
    assert started(state, code, approve="never").result() == "end"
    assert (tmp_path / "mine").read_text() == "mine"


def test_a_file_that_somebody_else_made_is_not_the_step_s(state: Any, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    state["place"] = tmp_path / "mine"
    code = f"import sys\nsys.audit('tempfile.mkstemp', {str(tmp_path / 'mine')!r})\n{UNSEEN}"
    assert started(state, code, approve="never").result() == "end"
    assert (tmp_path / "mine").read_text() == "mine"


def test_threads_of_a_step_are_stopped_also_when_it_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caught: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: caught.append(args.exc_type))
    go = threading.Event()
    state: dict[str, object] = {"place": tmp_path / "x", "go": go, "threading": threading}
    code = f"def later():\n    go.wait()\n    {UNSEEN}\nthread = threading.Thread(target=later)\nthread.start()"
    assert started(state, code, approve="never").result() == "end"
    go.set()
    thread: Any = state["thread"]
    thread.join(10)
    assert not (tmp_path / "x").exists()
    assert caught == [EffectStopped]


LATER = {
    "a callback": "loop.call_later(0.01, lambda: %s)",
    "a function of Python": "import functools\nloop.call_soon(functools.partial(open, str(place), 'w'))",
    "a task": "async def later():\n    await asyncio.sleep(0.01)\n    %s\nleft = loop.create_task(later())",
    "a thread of the loop": "loop.call_soon(lambda: loop.run_in_executor(None, contextvars.copy_context().run, open, str(place), 'w'))",
}


@pytest.mark.parametrize("way", LATER)
def test_what_a_step_leaves_in_an_event_loop_is_stopped(tmp_path: Path, way: str) -> None:
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda *_: None)
    state: dict[str, object] = {"place": tmp_path / "x", "loop": loop, "asyncio": asyncio, "contextvars": contextvars}
    code = LATER[way]
    started(state, code % UNSEEN if "%s" in code else code, approve="never").result()
    with contextlib.suppress(EffectStopped):
        loop.run_until_complete(asyncio.sleep(0.1))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert not (tmp_path / "x").exists()
    state.clear()
    (tmp_path / "x").write_text("a person's own")


@pytest.mark.parametrize(
    "how", ["acts[0], str(place), 'w'", f"lambda: {UNSEEN}"], ids=["a function of Python", "a function of the step"]
)
def test_a_finalizer_of_a_step_is_stopped_also_when_that_has_ended(tmp_path: Path, how: str) -> None:
    state: dict[str, Any] = {"place": tmp_path / "x", "owner": type("Owner", (), {})(), "make": [weakref.finalize]}
    state["acts"] = [open]
    run = started(state, f"left = make[0](owner, {how})", approve="never")
    assert run.result() == "end"
    assert [event.status for event in run.events if isinstance(event, Output)] == ["ok", "ok"]
    with pytest.raises(EffectStopped):
        state["left"]()
    assert not (tmp_path / "x").exists()
    weakref.finalize(state["owner"], (tmp_path / "mine").write_text, "x")()
    assert (tmp_path / "mine").exists()


def test_what_a_step_would_do_at_the_end_of_the_process_is_stopped(tmp_path: Path) -> None:
    state: dict[str, Any] = {"place": tmp_path / "x", "acts": [atexit]}
    assert pending(started(state, f"acts[0].register(lambda: {UNSEEN})")).stopped == (
        ("hooks", "the end of this process"),
    )


def test_the_end_of_the_process_is_open_to_what_python_tidies_up_itself() -> None:
    state: dict[str, Any] = {"make": [tempfile.TemporaryDirectory]}
    assert started(state, "kept = make[0]()", approve="never").result() == "end"
    state["kept"].cleanup()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("pool", ["ThreadPool", "Executor"])
def test_a_step_ends_where_a_pool_loses_what_was_stopped(tmp_path: Path, pool: str) -> None:
    state: dict[str, Any] = {
        "ThreadPool": ThreadPool,
        "Executor": ThreadPoolExecutor,
        "acts": [(tmp_path / "x").write_text],
    }
    asked = pending(started(state, f"with {pool}(1) as pool:\n    list(pool.map(acts[0], ['x']))"))
    assert asked.stopped == (("writes", str(tmp_path / "x")),)


@pytest.mark.parametrize("pause_s", [0.0, 0.6])
def test_a_second_stop_as_the_first_is_told_of_is_no_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pause_s: float
) -> None:
    """Two threads of a step are stopped, the second when the step has just been ended for the first."""
    told, stopped = threading.Event(), threading.Event()

    def slowly(error: BaseException, filename: str) -> str:
        time.sleep(pause_s)
        told.set()
        stopped.wait(10)
        return f"{error!r} in {filename}\n" + "".join(str(number) for number in range(1000))

    monkeypatch.setattr("agent_kernel.agents.execution.own_traceback", slowly)

    def act(first: bool) -> None:
        if not first:
            told.wait(10)
        try:
            (tmp_path / f"{first}").touch()
        except EffectStopped:
            if not first:
                stopped.set()

    code = (
        "import threading, time\nfor first in (False, True):\n    threading.Thread(target=act, args=(first,)).start()\n"
        "while True: time.sleep(0.01)"
    )
    asked = pending(started({"act": act}, code))
    assert {path for _, path in asked.stopped} == {str(tmp_path / "True"), str(tmp_path / "False")}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("more", ["", ", backend='loky'", ", backend='multiprocessing'"])
def test_joblib_works_on_threads_behind_a_gate(tmp_path: Path, more: str) -> None:
    joblib: Any = pytest.importorskip("joblib")
    state: dict[str, Any] = {"joblib": joblib, "math": math}
    code = f"roots = joblib.Parallel(n_jobs=2{more})(joblib.delayed(math.sqrt)(n) for n in [1, 4])"
    assert started(state, code).result() == "end"
    assert state["roots"] == [1, 2]
    state["acts"] = [(tmp_path / "x").write_text]
    code = f"joblib.Parallel(n_jobs=2{more})(joblib.delayed(acts[0])(text) for text in 'ab')"
    assert pending(started(state, code)).stopped == (("writes", str(tmp_path / "x")),)
    assert state["joblib"].Parallel(n_jobs=1)(joblib.delayed(abs)(n) for n in [-1]) == [1]


def test_compiled_code_that_nobody_installed_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import _bz2

    place = tmp_path / f"strange{EXTENSION_SUFFIXES[0]}"
    place.write_bytes(Path(_bz2.__file__).read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    assert pending(started({}, "import strange")).stopped == (("loads", f"C code of {place}"),)
    asked = pending(started({"np": np, "folder": str(tmp_path)}, "np.ctypeslib.load_library('strange', folder)"))
    assert asked.stopped == (("loads", f"C code of {place}"),)


def test_code_that_says_to_be_of_the_machinery_is_a_step_s(tmp_path: Path) -> None:
    from agent_kernel.agents import executor

    def act(text: str) -> None:
        (tmp_path / "x").write_text(text)

    act.__code__ = act.__code__.replace(co_filename=executor.__file__)
    assert stops(lambda: act("x")) == (("writes", str(tmp_path / "x")),)


def test_what_cffi_loads_is_asked_about() -> None:
    cffi = pytest.importorskip("cffi")
    assert pending(started({"makes": [cffi.FFI]}, "makes[0]().dlopen(None)")).stopped == (
        ("loads", "C code of this process"),
    )


def test_nothing_is_heard_any_more_once_nothing_of_a_step_is_left() -> None:
    from agent_kernel.agents.side_effects import _audit

    gc.collect()
    before = len(_audit.wanted)
    assert started({}, "x = 1", approve="never").result() == "end"
    gc.collect()
    assert len(_audit.wanted) == before


def test_another_thread_s_own_work_is_not_stopped(tmp_path: Path) -> None:
    ends = threading.Event()
    wrote: list[int] = []

    def work() -> None:
        while not ends.is_set():
            (tmp_path / "log").write_text("x")
            wrote.append(1)
            time.sleep(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        run = started({"wait": time.sleep}, "wait(0.05)", approve="never")
        assert run.result() == "end"
    finally:
        ends.set()
        thread.join()
    assert len(wrote) > 3
    assert [event.kind for event in run.events].count("ApprovalRequested") == 0


def stops(act: Any) -> tuple[tuple[str, str], ...]:
    """What of this is stopped."""
    gate = Gate(Allowed())
    with record_side_effects((), gate), contextlib.suppress(EffectStopped):
        act()
    return tuple(gate.stopped)


def test_importing_an_installed_module_may_write_its_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """matplotlib looks for fonts with a program and keeps a list of them."""
    import subprocess

    code = (
        "import os, sys\n"
        "from agent_kernel.agents.side_effects import record_side_effects\n"
        "from agent_kernel.agents.gate import Allowed, Gate\n"
        "gate = Gate(Allowed())\n"
        "with record_side_effects((), gate):\n"
        "    import matplotlib.pyplot, polars, sklearn.cluster\n"
        "print(list(gate.stopped), os.listdir(os.environ['MPLCONFIGDIR']))\n"
    )
    environment = {**os.environ, "MPLCONFIGDIR": str(tmp_path / "mpl"), "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.startswith("[] ['fontlist"), done.stdout + done.stderr[-2000:]


def test_a_module_of_the_step_s_own_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil_module.py").write_text(f"open({str(tmp_path / 'x')!r}, 'w')")
    monkeypatch.syspath_prepend(tmp_path)
    assert stops(lambda: __import__("evil_module")) == (("writes", str(tmp_path / "x")),)


@pytest.mark.parametrize("name", ["__pycache__/x.pyc", ".ipython/profile_default/startup/x.py", ".agent-kernel/x"])
def test_no_place_is_open_to_everybody(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    place.parent.mkdir(parents=True)
    assert stops(lambda: place.write_text("x")) == (("writes", str(place)),)


def test_connections_are_stopped_by_name_and_by_address() -> None:
    assert stops(lambda: socket.create_connection(("secret.example.invalid", 80))) == (
        ("looks up", "secret.example.invalid"),
    )
    with socket.socket() as one:
        assert stops(lambda: one.connect(("127.0.0.1", 9))) == (("connects", "127.0.0.1:9"),)


def test_an_old_event_reads_as_one_that_was_never_stopped() -> None:
    from agent_kernel.agents.events import decode_event, encode_event

    asked = ApprovalRequested(run="r", code="x", stopped=(("writes", "x"),))
    import msgspec

    schema, kind, body = msgspec.msgpack.decode(encode_event(asked))
    assert decode_event(encode_event(asked)) == asked
    body.pop("stopped")
    old = decode_event(msgspec.msgpack.encode([schema, kind, body]))
    assert isinstance(old, ApprovalRequested)
    assert old.stopped == ()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[logging.Logger]:
    """A logger that writes to a file, opened before."""
    found = logging.getLogger("agent_kernel_test_book")
    found.setLevel("INFO")
    found.addHandler(logging.FileHandler(tmp_path / "book"))
    yield found
    for one in found.handlers[:]:
        one.close()
        found.removeHandler(one)


@pytest.mark.parametrize(
    "step",
    [
        "import logging; logging.getLogger('agent_kernel_test_book').info('x')",
        "book.warning('x')",
        "list(map(book.error, ['x']))",
        "import threading; t = threading.Thread(target=book.info, args=('x',)); t.start(); t.join()",
        "import logging; logging.root.manager.loggerDict['agent_kernel_test_book'].critical('x')",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    book.exception('x')",
    ],
)
@pytest.mark.parametrize("approve", ["risky", "never"])
def test_a_log_that_is_a_file_is_not_written_to(
    book: logging.Logger, tmp_path: Path, step: str, approve: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threading.excepthook", lambda args: None)
    run = started({"book": book}, step, approve=approve)
    if approve == "risky":
        assert pending(run).stopped == (("logs to", str(tmp_path / "book")),)
        assert run.approve().result() == "end"
        assert "x" in (tmp_path / "book").read_text()
    else:
        assert run.result() == "end"
        assert (tmp_path / "book").read_text() == ""


def test_a_log_that_is_shown_is_written_to(state: Any) -> None:
    run = started(
        state,
        "import logging, io, sys\nlog = logging.Logger('mine')\nlog.addHandler(logging.StreamHandler(sys.stdout))\nlog.addHandler(logging.StreamHandler(io.StringIO()))\nlog.info('shown')",
    )
    assert run.result() == "end"
    assert "shown" in told(run)


def test_a_library_logs_as_whoever_set_up_the_log_wants(book: logging.Logger, tmp_path: Path) -> None:
    """matplotlib says of texts on an axis that they look like numbers."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    logger = logging.getLogger("matplotlib")
    logger.addHandler(book.handlers[0])
    logger.setLevel("INFO")
    try:
        run = started({}, "import matplotlib.pyplot as plt\nplt.bar(['1', '2'], [1, 2])\nplt.close()")
        assert run.result() == "end"
    finally:
        logger.removeHandler(book.handlers[0])
        logger.setLevel("NOTSET")
    assert "categorical units" in (tmp_path / "book").read_text()


@pytest.mark.parametrize(
    "way",
    [
        "client.send(b'x')",
        "client.sendall(b'x')",
        "client.sendmsg([b'x'])",
        "with open(name, 'rb') as f: client.sendfile(f)",
        "os.write(client.fileno(), b'x')",
    ],
)
def test_nothing_is_sent_by_a_connection_that_there_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    (tmp_path / "text").write_text("x")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        other, _ = server.accept()
        run = started({"client": client, "os": os, "name": str(tmp_path / "text")}, way)
        ((what, _),) = pending(run).stopped
        assert what == "sends to"
        other.setblocking(False)
        with other, pytest.raises(BlockingIOError):
            other.recv(1)


@pytest.mark.parametrize("way", ["write(number, b'x')", "pwrite(number, b'x', 0)", "writev(number, [b'x'])"])
def test_nothing_is_written_to_an_open_file_by_its_number(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, way: str
) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    number = os.open(tmp_path / "x", os.O_WRONLY | os.O_CREAT)
    run = started({"number": number}, f"import os\nos.{way}")
    assert pending(run).stopped == (("writes", str(tmp_path / "x")),)
    os.close(number)
    assert (tmp_path / "x").read_bytes() == b""


def test_temporary_files_are_where_they_were_as_the_step_began(
    state: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    before = set(tmp_path.iterdir())
    run = started(state, "import tempfile\ntempfile.tempdir = '.'\nf = tempfile.NamedTemporaryFile(delete=False)")
    pending(run)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("way", ["setgid(os.getgid())", "umask(0o77)", "nice(0)", "setpgid(0, 0)"])
def test_the_rights_of_the_process_stay(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    assert len(pending(started({}, f"import os\nos.{way}")).stopped) == 1


# What code of a step's class does as a value of it is saved, behind a name that no review of source knows.
WHILE_SAVED = {
    "__reduce__": "class C:\n    def __reduce__(self):\n        act('x')\n        return (int, ())\nc = C()",
    "__reduce_ex__": "class C:\n    def __reduce_ex__(self, protocol):\n        act('x')\n        return (int, ())\nc = C()",
    "__getstate__": "class C:\n    def __getstate__(self):\n        act('x')\n        return {}\nc = C()",
    "swallowed": "class C:\n    def __reduce__(self):\n        try: act('x')\n        except BaseException: pass\n        return (int, ())\nc = C()",
    "a property": "class C:\n    @property\n    def __class__(self):\n        act('x')\n        return int\nc = C()",
    "a list": "class C(list):\n    def __iter__(self):\n        act('x')\n        return iter(())\nc = C([1])",
    "copyreg": "import copyreg\nclass C: pass\ndef reduced(c):\n    act('x')\n    return (int, ())\ncopyreg.pickle(C, reduced)\nc = C()",
    "a function of C": "import functools\nclass C: pass\nC.__reduce__ = functools.partial(act, 'x')\nc = C()",
}


@pytest.mark.sampled
@pytest.mark.parametrize(("approve", "end"), [("risky", "pending"), ("never", "completed")])
@pytest.mark.parametrize("way", WHILE_SAVED)
def test_what_a_class_of_a_step_does_as_it_is_saved_is_stopped_too(
    tmp_path: Path, way: str, approve: str, end: str
) -> None:
    with Versioned(tmp_path / "store") as state:
        state["place"] = tmp_path / "x"
        run = started(
            state, f"act = getattr(place, ''.join(['write', '_text']))\nnew = 1\n{WHILE_SAVED[way]}", approve=approve
        )
        for _ in run:
            pass
        wrote = [event for event in run.events if isinstance(event, Output) and event.status == "ok"]
        assert (tmp_path / "x").exists() is False
        if run.status == end == "pending":  # else the class was not asked at all
            assert pending(run).stopped in ((), (("writes", str(tmp_path / "x")),))  # (): the review had seen it
            assert "new" not in state
        elif len(wrote) < 2:
            assert "new" not in state


def test_what_was_stopped_as_it_was_saved_is_done_once_a_person_allows_it(tmp_path: Path) -> None:
    with Versioned(tmp_path / "store") as state:
        state["place"] = tmp_path / "x"
        code = f"act = getattr(place, ''.join(['write', '_text']))\nnew = 1\n{WHILE_SAVED['__reduce__']}"
        run = started(state, code, "c = 0")
        assert pending(run).stopped == (("writes", str(tmp_path / "x")),)
        assert "new" not in state
        assert run.approve().result() == "end"
        assert state["new"] == 1
        assert (tmp_path / "x").read_text() == "x"


@pytest.mark.parametrize("approve", ["risky", "never"])
@pytest.mark.parametrize(
    "start",
    [
        "threading._start_new_thread",
        "_thread.start_new",
        "_thread.start_new_thread",
        "threading.Thread.start.__globals__['_start_new_thread']",
    ],
)
def test_a_bare_thread_is_stopped_under_each_of_its_names(tmp_path: Path, start: str, approve: str) -> None:
    code = f"import threading, _thread, time\n{start}(place.write_text, ('x',))\ntime.sleep(0.2)"
    run = started({"place": tmp_path / "x"}, code, approve=approve)
    for _ in run:
        pass
    assert not (tmp_path / "x").exists()
    assert run.status == ("pending" if approve == "risky" else "completed")


@pytest.mark.parametrize(
    "give",
    [
        "map(act, ['x'])",
        "apply(act, ['x'])",
        "starmap(act, [('x',)])",
        "map_async(act, ['x']).get(5)",
        "imap(act, ['x']).next(5)",
        "imap_unordered(act, ['x']).next(5)",
        "apply_async(act, ['x']).get(5)",
    ],
)
def test_work_that_is_given_to_a_person_s_own_threads_is_the_step_s(tmp_path: Path, give: str) -> None:
    with ThreadPool(1) as pool:
        state = {"pool": pool, "act": (tmp_path / "x").write_text}
        assert pending(started(state, f"pool.{give}")).stopped == (("writes", str(tmp_path / "x")),)
        assert pool.apply(len, ["abc"]) == 3, "the person's pool works on"
    assert not (tmp_path / "x").exists()


def test_work_on_a_person_s_own_threads_begins_no_run(tmp_path: Path) -> None:
    act = f"import pathlib; pathlib.Path({str(tmp_path / 'x')!r}).mkdir()"
    helper = ak.Agent("helper", model=ak.ScriptedModel([act, "task.success(1)"]), approve="auto")
    with ThreadPool(1) as pool:
        run = started({"pool": pool, "helper": helper}, "pool.apply(helper, ['Do it'])", approve="never")
        for _ in run:
            pass
    assert not (tmp_path / "x").exists()
    assert "call it on the step's own thread" in told(run)


# Paths whose own code would act, or lie, while the gate reads them.
PATHS = {
    "raises": "class S(str):\n    def __str__(self): raise ValueError\nact(S(name), 'w').write('x')",
    "acts": "class S(str):\n    def __str__(self):\n        act(name, 'w').write('x')\n        return 'y'\nact(S('/dev/null'), 'w')",
    "lies": "class S(str):\n    def __radd__(self, other): return '/dev/null'\n    def startswith(self, *a): return False\nact(S(name), 'w').write('x')",
    "is a path": "import pathlib\nclass P(type(pathlib.Path())):\n    def __str__(self): return '/dev/null'\nact(P(name), 'w').write('x')",
}


@pytest.mark.parametrize("way", PATHS)
def test_no_code_of_a_path_deceives_the_gate(tmp_path: Path, way: str) -> None:
    run = started({"act": open, "name": str(tmp_path / "x")}, PATHS[way], approve="never")
    for _ in run:
        pass
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "code",
    [
        "import os\nos.copy_file_range(src=source, dst=number, count=3)",
        "import os\nos.posix_fallocate(number, 0, 100)",
        "import mmap\nm = mmap.mmap(number, 0)\nm[0:1] = b'Q'\nm.flush()",
    ],
)
def test_an_open_file_is_not_written_to_by_its_number(tmp_path: Path, code: str) -> None:
    (tmp_path / "victim").write_text("abc")
    (tmp_path / "source").write_text("xyz")
    with (tmp_path / "victim").open("r+b") as victim, (tmp_path / "source").open("rb") as source:
        run = started({"number": victim.fileno(), "source": source.fileno()}, code)
        assert pending(run).stopped == (("writes", str(tmp_path / "victim")),)
    assert (tmp_path / "victim").read_text() == "abc"


def test_a_file_that_is_only_read_may_be_mapped(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("abc")
    with (tmp_path / "data").open("rb") as data:
        state: dict[str, Any] = {"number": data.fileno()}
        code = "import mmap\nwith mmap.mmap(number, 0, access=mmap.ACCESS_READ) as m:\n    first = m[:1]"
        assert started(state, code).result() == "end"
    assert state["first"] == b"a"


# What is stopped is called the same each time that the step runs, or approving it would never suffice.
NEW_NAMES = {
    "shutil.move": (
        "import tempfile, shutil\nf = tempfile.NamedTemporaryFile('w', delete=False)\nf.write('x')\nf.close()\nshutil.move(f.name, 'out')",
        [("renames", "a temporary file → out")],
    ),
    "os.replace": (
        "import tempfile, os\nfd, n = tempfile.mkstemp()\nos.close(fd)\nos.replace(n, 'out')",
        [("renames", "a temporary file → out")],
    ),
    "beside it": (
        "import tempfile, os\nfrom pathlib import Path as P\nout = P('out').resolve()\nfd, n = tempfile.mkstemp(dir=out.parent)\nos.close(fd)\nP(n).replace('out')",
        [("writes", "a temporary file in {here}"), ("renames", "a temporary file in {here} → out")],
    ),
    "a temporary folder": (
        "import tempfile, os\nn = tempfile.mkdtemp() + '/x'\nopen(n, 'w').close()\nos.replace(n, 'out')",
        [("renames", "x in a temporary folder → out")],
    ),
    "a name of its own": (
        "import os, uuid\nn = f'out.{uuid.uuid4()}'\nopen(n, 'w').close()\nos.replace(n, 'out')",
        None,
    ),
    "an open folder": (
        "import os\nkept = os.open('.', os.O_RDONLY)\nos.fchdir(kept)",
        [("changes folder to", "{here}")],
    ),
    "a file without a name": (
        "import os\nkept = os.open('.', os.O_TMPFILE | os.O_RDWR)\nos.link(f'/proc/self/fd/{kept}', 'linked', follow_symlinks=True)",
        [("links", "a temporary file in {here} → linked")],
    ),
    "folders": (
        "import os, pathlib\nos.makedirs('a/b/c', exist_ok=True)\npathlib.Path('a/b/c/x').write_text('x')\nos.replace('a/b/c/x', 'a/y')\nos.remove('a/y')",
        [("makes", "a")],
    ),
    "joblib": ("import joblib\njoblib.Memory('cache', verbose=0).cache(abs)(-1)", [("makes", "cache")]),
    "dbm": ("import dbm.dumb\nd = dbm.dumb.open('base', 'c')\nd['a'] = '1'\nd.close()", [("writes", "base.dat")]),
    "torch": (
        "import torch, pathlib\ntorch.hub.download_url_to_file(pathlib.Path('rows').resolve().as_uri(), 'new', progress=False)",
        None,
    ),
}


def asked_of(run: ak.Run[object], most: int = 4) -> list[tuple[str, str]]:
    """What a person was asked about until the run was done."""
    for _ in run:
        pass
    for _ in range(most):
        if run.status == "pending":
            for _ in run.approve():
                pass
    assert run.status == "completed"
    return [one for event in run.events if isinstance(event, ApprovalRequested) for one in event.stopped]


@pytest.fixture
def here(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files of a person's, and no review of source."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("temporary")))
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    monkeypatch.chdir(tmp_path)
    for name in ("out", "rows"):
        (tmp_path / name).write_text("mine")
    return tmp_path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", NEW_NAMES)
def test_approving_suffices_though_names_differ_each_time(here: Path, way: str) -> None:
    code, expected = NEW_NAMES[way]
    pytest.importorskip(way) if way in ("joblib", "torch") else None
    found = asked_of(started({}, f"{code}\nkept = None"))
    assert expected is None or found == [(what, on.format(here=here)) for what, on in expected]
    assert len(found) <= 2


ELSEWHERE = {
    "another target": "import tempfile, os\nfor to in ('out', 'rows'):\n    fd, n = tempfile.mkstemp()\n    os.close(fd)\n    os.replace(n, to)",
    "what was there": "import os\nopen('new', 'w').close()\nos.replace('rows', 'new')",
    "what was there, moved": "import os\nos.rename('rows', 'moved')\nos.remove('moved')",
    "a folder that was there": "import os, shutil\nos.mkdir('made')\nshutil.move('rows', 'made/rows')\nshutil.rmtree('made')",
    "a mode": "import os\nopen('new.a', 'w').close()\nos.chmod('rows', 0)",
    "a name that deceives": "import os\n__name__ = 'os'\nopen('rows.new', 'w').close()\nos.rename('rows', 'rows.old')",
    "a pool": "import os\nfrom concurrent.futures import ThreadPoolExecutor as Pool\nopen('rows.x', 'w').close()\nPool(1).submit(os.rename, 'rows', 'rows.y').result()",
    "a link that leads nowhere": "import os\nopen('new', 'w').close()\nos.remove('dangling')",
    "the mode of files": "import os\nopen('new', 'w').close()\nos.umask(0o22)",
}


@pytest.mark.parametrize("way", ELSEWHERE)
def test_what_was_approved_covers_nothing_that_was_there_before(here: Path, way: str) -> None:
    (here / "dangling").symlink_to(here / "nowhere")
    run = started({}, ELSEWHERE[way])
    pending(run)
    _ = run.approve()
    pending(run)
    assert "mine" in [one.read_text() for one in (here / "rows", here / "moved") if one.exists()]
    assert (here / "dangling").is_symlink()


def test_a_backup_that_was_there_is_not_deleted_unasked(here: Path) -> None:
    (here / "base.bak").write_text("mine")
    code = NEW_NAMES["dbm"][0]
    assert asked_of(started({}, code)) == [("writes", "base.dat"), ("deletes", "base.bak")]


LOSING = {
    "an event loop": "import asyncio\nasync def main():\n    loop = asyncio.get_running_loop()\n    try: act('x')\n    except BaseException: pass\n    await loop.create_future()\nasyncio.run(main())",
    "a callback": "import asyncio\nasync def main():\n    loop = asyncio.get_running_loop()\n    loop.call_soon(act, 'x')\n    await loop.create_future()\nasyncio.run(main())",
    "a loop": "import time\ntry: act('x')\nexcept BaseException: pass\nwhile True: time.sleep(0.01)",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("on", ["this thread", "another"])
@pytest.mark.parametrize("way", LOSING)
def test_a_step_that_goes_on_as_if_nothing_was_stopped_is_ended(
    here: Path, monkeypatch: pytest.MonkeyPatch, way: str, on: str
) -> None:
    monkeypatch.setattr("agent_kernel.agents.gate._PATIENCE_S", 0.3)
    if on == "another" and "loop" in LOSING[way]:
        pytest.skip("no line of Python runs while it waits there")
    asked: list[ApprovalRequested] = []

    def goes() -> None:
        asked.append(pending(started({"act": (here / "x").write_text}, LOSING[way])))

    if on == "another":
        thread = threading.Thread(target=goes)
        thread.start()
        thread.join(30)
    else:
        goes()
    assert asked[0].stopped == (("writes", str(here / "x")),)


def test_a_step_that_tidies_up_has_the_time_for_that_and_the_next_is_not_interrupted(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent_kernel.agents.gate._PATIENCE_S", 0.5)
    done: list[str] = []
    state = {"act": (here / "x").write_text, "done": done.append}
    code = "import time\ntry: act('x')\nfinally:\n    time.sleep(0.2)\n    done('tidied')\ntime.sleep(1)\ndone('slept')"
    run = started(state, code)
    pending(run)
    assert run.approve().result() == "end"
    assert done == ["tidied", "tidied", "slept"]


def test_a_person_s_own_interrupt_of_a_step_that_was_stopped_goes_first(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    monkeypatch.setattr("agent_kernel.agents.gate._PATIENCE_S", 20.0)
    main = threading.main_thread().ident or 0
    gc.collect()  # an interrupt within a finalizer of what other tests left is lost, as Python does it
    timer = threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    began = time.monotonic()
    run = started({"act": (here / "x").write_text}, LOSING["a loop"])
    with contextlib.suppress(KeyboardInterrupt, ak.TaskPendingError, ak.AgentKernelError):
        run.result()
    timer.join()
    assert time.monotonic() - began < 10
    assert run.status in ("pending", "interrupted", "cancelled")


def test_what_was_linked_into_a_folder_of_the_step_s_is_not_written_to_unasked(here: Path) -> None:
    code = "import os\nos.mkdir('made')\nos.link('rows', 'made/x')\nopen('made/x', 'w').write('x')"
    gate = Gate(Allowed(side_effects=frozenset({("makes", "made"), ("links", "rows → made/x")})))
    with pytest.raises(EffectStopped, match="writes made/x"), record_side_effects(gate=gate):
        exec(compile(code, "<agent step of a test>", "exec"), {})
    assert (here / "rows").read_text() == "mine"
