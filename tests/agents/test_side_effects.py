"""What a step did outside the variables is recorded: each thing once, for the step that did it."""

from __future__ import annotations

import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from agent_kernel.agents import Agent, ScriptedModel
from agent_kernel.agents.events import Effect
from agent_kernel.agents.side_effects import _hook, is_left_over_from_step, is_on_step_thread, record_side_effects
from agent_kernel.session.versioned import Versioned


@pytest.fixture
def address() -> Iterator[str]:
    """A web server on the loopback."""

    class Quiet(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def _in_a_terminal(line: str) -> None:
    """As IPython runs a line that begins with `!`."""
    ptyprocess = pytest.importorskip("ptyprocess")
    child = ptyprocess.PtyProcess.spawn(["/bin/sh", "-c", line])
    child.wait()
    child.close()


def _forked() -> int:
    child = os.fork()
    if not child:
        os._exit(0)
    return child


def test_a_fork_that_was_stored_without_a_word_of_what_reads_as_a_sentence() -> None:
    assert [
        one.text for one in (Effect(what="forks"), Effect(what="sends mail"), Effect(what="writes", target="x"))
    ] == [
        "forks this process",
        "sends mail",
        "writes x",
    ]


def found(act: Callable[[], object], quiet: tuple[str, ...] = ()) -> dict[tuple[str, str], int]:
    with record_side_effects(quiet) as effects:
        act()
    return effects.found


@pytest.mark.parametrize(
    ("act", "what", "target"),
    [
        (lambda p: (p / "new").write_text("x"), "writes", "{}/new"),
        (lambda p: (p / "old").open("a").close(), "writes", "{}/old"),
        (lambda p: (p / "old").open("r+").close(), "writes", "{}/old"),
        (lambda p: os.close(os.open(p / "low", os.O_WRONLY | os.O_CREAT)), "writes", "{}/low"),
        (lambda p: (p / "old").unlink(), "deletes", "{}/old"),
        (lambda p: (p / "old").rename(p / "other"), "renames", "{0}/old → {0}/other"),
        (lambda p: (p / "folder").mkdir(), "makes", "{}/folder"),
        (lambda p: shutil.rmtree(p), "deletes", "{}"),
        (lambda p: (p / "old").chmod(0o600), "changes mode of", "{}/old"),
        (lambda p: (p / "link").symlink_to(p / "old"), "links", "{0}/old → {0}/link"),
        (lambda p: shutil.copy(p / "old", p / "copy"), "writes", "{}/copy"),
        (lambda p: subprocess.run([sys.executable, "-c", "1", "2"], check=True), "runs", f"{sys.executable} -c 1 2"),
        (lambda p: subprocess.run("true", shell=True, check=True), "runs", "true"),
        (lambda p: subprocess.run(["/bin/bash", "-c", "true #"], check=True), "runs", "true #"),
        (lambda p: _in_a_terminal("true #"), "runs", "true #"),
        (lambda p: os.waitpid(_forked(), 0), "forks", "this process"),
        (lambda p: os.system("true"), "runs", "true"),  # pyright: ignore[reportDeprecated] - a step may
        (lambda p: os.environ.__setitem__("AGENT_KERNEL_TEST", "v"), "sets environment of", "AGENT_KERNEL_TEST"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_each_of_these_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Callable[[Path], object], what: str, target: str
) -> None:
    monkeypatch.setenv("AGENT_KERNEL_TEST", "")
    (tmp_path / "old").write_text("x")
    assert (what, target.format(tmp_path)) in found(lambda: act(tmp_path))


def test_connections_are_recorded(address: str) -> None:
    host, port = address.split(":")

    def connect() -> None:
        socket.create_connection((host, int(port))).close()
        with urllib.request.urlopen(f"http://{address}/x") as answer:
            answer.read()

    effects = found(connect)
    assert effects["connects", address] == 2
    assert effects["requests", f"http://{address}/x"] == 1


def test_reading_is_no_effect(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("x")
    assert found(lambda: ((tmp_path / "old").read_text(), list(tmp_path.iterdir()), (tmp_path / "no").exists())) == {}


def test_asking_how_many_cores_this_computer_has_is_no_effect() -> None:
    def ask() -> None:
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(["lscpu", "--parse=core"], capture_output=True, check=True)

    assert found(ask) == {}


def test_what_stores_python_and_libraries_write_by_the_way_is_not_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / ".cache/matplotlib"))
    (tmp_path / "module.py").write_text("x = 1")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for name in (".agent-kernel/nb/data.mdb", "__pycache__/m.pyc", ".cache/matplotlib/fontlist.json", "mine/data.mdb"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        assert found(partial(path.write_text, "x"), (str(tmp_path / "mine"),)) == {}
    assert found(lambda: __import__("module")) == {}
    assert (tmp_path / "__pycache__").exists()
    with Versioned(tmp_path / "store") as state:
        code = "x = list(range(100_000))\nopen('/dev/null', 'w').close()"
        run = Agent("ada", model=ScriptedModel([code, "task.success(1)"]), state=state).start("go")
        run.result()
        assert not any(isinstance(event, Effect) for event in run.events)


def test_a_step_s_effects_are_events_of_the_step(tmp_path: Path) -> None:
    code = f"for n in range(3):\n    with open({str(tmp_path / 'x')!r}, 'w') as f: pass"
    run = Agent("ada", model=ScriptedModel([code, "task.success(1)"])).start("go")
    run.result()
    effects = [event for event in run.events if isinstance(event, Effect)]
    assert [(one.step, one.what, one.target, one.count) for one in effects] == [(1, "writes", str(tmp_path / "x"), 3)]


def test_threads_that_the_step_starts_are_its_own(tmp_path: Path) -> None:
    def act() -> None:
        inner = threading.Thread(target=lambda: (tmp_path / "inner").write_text("x"))

        def both() -> None:
            inner.start()
            inner.join()

        outer = threading.Thread(target=both)
        outer.start()
        outer.join()

    assert found(act) == {("writes", str(tmp_path / "inner")): 1}


def test_steps_at_the_same_time_are_not_blamed_for_each_other(tmp_path: Path) -> None:
    gate = threading.Barrier(3)

    def step(number: int) -> dict[tuple[str, str], int]:
        def act() -> None:
            gate.wait()
            for turn in range(20):
                (tmp_path / f"{number}-{turn}").write_text("x")
            gate.wait()

        return found(act)

    with ThreadPoolExecutor(2) as pool:
        steps = [pool.submit(step, number) for number in range(2)]
        gate.wait()
        (tmp_path / "somebody else").write_text("x")
        gate.wait()
        for number, one in enumerate(steps):
            assert one.result() == {("writes", str(tmp_path / f"{number}-{turn}")): 1 for turn in range(20)}


def test_a_thread_that_a_person_starts_beside_a_step_is_not_the_step_s() -> None:
    """Also beside the only one there is, which may go on for as long as it likes: the person decides about steps still."""
    begun, ended = threading.Event(), threading.Event()

    def goes_on() -> None:
        with record_side_effects():
            begun.set()
            ended.wait(30)

    found: list[bool] = []
    other = threading.Thread(target=goes_on)
    other.start()
    begun.wait(30)
    mine = threading.Thread(target=lambda: found.append(is_on_step_thread() or is_left_over_from_step()))
    mine.start()
    mine.join(30)
    ended.set()
    other.join(30)
    assert found == [False]


def test_counting_from_many_threads_loses_nothing(tmp_path: Path) -> None:
    def act() -> None:
        with ThreadPoolExecutor(8) as pool:
            for _ in range(800):
                pool.submit((tmp_path / "x").write_text, "x")

    assert found(act) == {("writes", str(tmp_path / "x")): 800}


def test_too_many_different_ones_are_counted_and_dropped(tmp_path: Path) -> None:
    with record_side_effects() as effects:
        for number in range(150):
            (tmp_path / str(number)).touch()
    assert (len(effects.found), effects.dropped) == (100, 50)


def test_without_a_step_the_hook_costs_next_to_nothing() -> None:
    """Timed in a process of its own, since a hook stays for ever: opening files with it and without, in turn."""
    code = (
        "import time, os\n"
        "def once():\n"
        "    began = time.process_time()\n"
        "    for _ in range(4000): open(os.devnull).close()\n"
        "    return time.process_time() - began\n"
        "once()\n"
        "before = min(once() for _ in range(7))\n"
        "from agent_kernel.agents.side_effects import record_side_effects\n"
        "with record_side_effects(): pass\n"
        "print(min(once() for _ in range(7)) / before)\n"
    )
    ratios: list[float] = []
    for _ in range(3):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
        ratios.append(float(done.stdout))
        if min(ratios) < 1.2:
            break
        time.sleep(0.2)
    assert min(ratios) < 1.2, ratios


def test_while_a_step_goes_on_most_events_cost_no_more_than_without() -> None:
    """Of each `id()` there is an event, and what a step left in a thread or a context goes on for long."""
    heard: list[str] = []
    hook = _hook([object()], lambda event, _: heard.append(event))
    for event in ("builtins.id", "object.__getattr__", "gc.get_referents", "open", "import", "os.write"):
        hook(event, ())
    assert heard == ["open", "import", "os.write"]


def test_what_libraries_set_for_themselves_as_they_are_imported_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_MAIN_FREE", "1")
    with record_side_effects() as effects:
        os.environ["OPENBLAS_MAIN_FREE"] = "1"
    assert not effects.found
