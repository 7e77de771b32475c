"""`agent-kernel worker STORE`, as the program that asks it sees it: one real process, one line for each request."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agent_kernel.session import Repository

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="without fork, what other processes write is not taken")


class Worker:
    """A worker process. `hello` is its first line."""

    def __init__(self, store: Path, *options: str) -> None:
        command = [sys.executable, "-m", "agent_kernel", "worker", str(store), *options]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.hello = self.answer()

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return cast("dict[str, Any]", json.loads(self.process.stdout.readline()))

    def ask(self, **request: object) -> dict[str, Any]:
        self.send(json.dumps({"id": 7, **request}).encode())
        answer = self.answer()
        assert answer.pop("id") == 7
        return answer

    def output(self, code: str) -> str:
        answer = self.ask(run=code)
        assert answer["ok"], answer
        return str(answer["output"])

    def end(self) -> tuple[int, bytes]:
        out, err = self.process.communicate(timeout=20)
        assert out == b""
        return self.process.returncode, err


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    one = Worker(tmp_path_factory.mktemp("worker") / "state")
    yield one
    assert one.ask(close=True) == {"ok": True}
    assert one.end() == (0, b"")


def test_a_run_is_answered_with_what_it_did(worker: Worker) -> None:
    answer = worker.ask(run="print('hi')\nx = 1\ngen = (i for i in ())\nx + 1")
    assert (answer["ok"], answer["output"], answer["result"], answer["error"]) == (True, "hi\n", "2", None)
    assert answer["changed"] == {"x": "added", "gen": "added"}
    assert answer["unsaved"]["gen"]["reason"] == "a generator cannot be saved"
    assert answer["branch"] == "main"
    assert len(answer["commit"]) == 64
    failed = worker.ask(run="y = 1\n1 / 0")
    assert (failed["ok"], failed["status"], failed["changed"]) == (False, "failed", {"y": "added"})
    assert failed["error"].endswith("ZeroDivisionError: division by zero\n")


def test_undo_redo_checkout_rollback_show_history_and_diff(worker: Worker) -> None:
    first = worker.ask(run="steps = ['look']")["commit"]
    worker.ask(run="steps.append('act')")
    assert worker.ask(undo=True)["changed"] == {"steps": "changed"}
    assert worker.ask(redo=True)["ok"]
    assert worker.ask(show="steps")["text"] == "list of 2 str, ['look', 'act']"
    assert worker.ask(code=first[:8])["code"] == "steps = ['look']"
    assert worker.ask(diff=[first, "HEAD"])["diff"] == {"steps": "changed"}
    assert worker.ask(checkout=first)["branch"] is None
    assert worker.ask(checkout="main")["branch"] == "main"
    assert worker.ask(rollback=first)["ok"]
    assert "steps" in worker.ask(names=True)["names"]
    kinds = [row["kind"] for row in worker.ask(history=3)["history"]]
    assert kinds == ["rollback", "redo", "undo"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"nonsense", "the line is not JSON"),
        (b"", "the line is not JSON"),
        (b"\xff\xfe", "the line is not JSON"),
        (b"[" * 100_000, ""),
        (b'["run"]', "a request is a JSON object"),
        (b'{"id": 3}', "a request has one of run, undo"),
        (b'{"run": "1", "undo": true}', "a request has one of"),
        (b'{"run": 1}', "run takes a text"),
        (b'{"run": "1", "timeout_s": -1}', "timeout_s takes a number of seconds"),
        (b'{"run": "1", "timeout": 1}', "run takes no 'timeout'"),
        (b'{"run": "1", "timeout_s": 1e999}', "not a number of JSON"),
        (b'{"run": "1", "id": NaN}', "not a number of JSON"),
        (b'{"undo": false}', "undo takes true"),
        (b'{"close": false}', "close takes true"),
        (b'{"names": "all"}', "names takes true"),
        (b'{"history": "all"}', "history takes a number"),
        (b'{"checkout": "nowhere"}', "no branch, tag or commit is called 'nowhere'"),
        (b'{"show": "nothing_here"}', "there is no variable 'nothing_here'"),
    ],
)
def test_a_bad_line_is_answered_with_an_error_and_the_worker_goes_on(worker: Worker, line: bytes, says: str) -> None:
    worker.send(line)
    answer = worker.answer()
    assert answer["ok"] is False
    assert says in answer["error"]
    assert worker.ask(run="1")["result"] == "1"


def test_a_timeout_may_be_any_number(worker: Worker) -> None:
    assert worker.ask(run="1", timeout_s=10**400)["result"] == "1"


EVERY_WAY = """
import ctypes, os, subprocess, sys, threading
print('print')
os.system('echo shell')
os.write(1, b'descriptor\\n')
print('error', file=sys.stderr)
ctypes.CDLL(None).puts(b'C')
subprocess.run([sys.executable, '-c', 'print("python")'])
sys.__stdout__.write('original\\n')
thread = threading.Thread(target=print, args=('thread',)); thread.start(); thread.join()
print('last', end='')
"""


def test_all_that_code_writes_is_output_in_order_and_never_protocol(worker: Worker) -> None:
    ways = ["print", "shell", "descriptor", "error", "C", "python", "original", "thread", "last"]
    assert worker.output(EVERY_WAY).split() == ways
    assert worker.output('print(\'{"id": 1, "ok": true}\')') == '{"id": 1, "ok": true}\n'
    assert worker.output("print('\\ud800 größe')") == "\\ud800 größe\n"
    assert worker.output("import os; os.close(1); os.dup2(2, 1); print('again')") == "again\n"


def test_a_hundred_megabytes_are_bounded(worker: Worker) -> None:
    before = int(worker.ask(run="import resource\nresource.getrusage(resource.RUSAGE_SELF).ru_maxrss")["result"])
    output = worker.output("import os\nos.system('echo first; yes | head -c 100000000; echo; echo end')\nprint('last')")
    assert output.startswith("first\ny\n")
    assert output.endswith("end\nlast\n")
    assert "characters left out" in output
    assert len(output) < 101_000
    after = int(worker.ask(run="resource.getrusage(resource.RUSAGE_SELF).ru_maxrss")["result"])
    assert after - before < 20_000  # kB


def test_what_a_process_in_the_background_writes_stands_in_the_next_run(worker: Worker) -> None:
    worker.ask(run="import subprocess\nchild = subprocess.Popen('sleep 0.2; echo later', shell=True)")
    assert worker.output("child.wait()\ndel child") == "later\n"


def test_the_input_is_the_protocol_s_alone(worker: Worker) -> None:
    assert worker.output("import subprocess\nsubprocess.run(['cat'])") == ""
    assert "nobody can answer input()" in worker.ask(run="input()")["error"]
    assert worker.ask(run="import sys, os\nos.read(0, 10)")["result"] == "b''"
    assert "Only this run has ended" in worker.ask(run="exit()")["error"]


def test_a_fork_neither_answers_nor_commits(worker: Worker) -> None:
    answer = worker.ask(
        run="import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('parent' if pid else 'child')"
    )
    assert sorted(answer["output"].split()) == ["child", "parent"]
    code = "import multiprocessing as mp\ndef say(n): print('from', n); return n\nwith mp.get_context('fork').Pool(1) as p: r = p.map(say, [1])\ndel p\nr"
    answer = worker.ask(run=code)
    assert (answer["result"], answer["output"]) == ("[1]", "from 1\n")
    assert worker.ask(run="pid > 0")["result"] == "True"


def test_sigterm_ends_a_fork_at_once_as_a_pool_of_processes_expects(worker: Worker) -> None:
    code = """
import os, signal, time
pid = os.fork()
if not pid:
    os.write(1, b".")
    time.sleep(30)
time.sleep(0.2)
os.kill(pid, signal.SIGTERM)
os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
"""
    answer = worker.ask(run=code)
    assert (answer["result"], answer["output"]) == ("True", ".")


def test_sigint_interrupts_the_code_and_nothing_else(worker: Worker) -> None:
    for _ in range(3):
        worker.process.send_signal(signal.SIGINT)
    assert worker.ask(run="x = 5\nx")["result"] == "5"
    worker.send(b'{"id": 1, "run": "x = 6\\nimport time, os\\nos.write(2, b\'.\')\\nwhile True: time.sleep(0.01)"}')
    time.sleep(0.4)
    worker.process.send_signal(signal.SIGINT)
    answer = worker.answer()
    assert (answer["status"], answer["error"].splitlines()[-1]) == ("interrupted", "KeyboardInterrupt")
    assert worker.ask(run="x")["result"] == "6"
    worker.ask(run="import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)")
    assert worker.ask(run="1")["result"] == "1"
    worker.process.send_signal(signal.SIGINT)
    assert worker.ask(run="1")["result"] == "1"


@pytest.mark.parametrize("is_running", [True, False], ids=["while code runs", "while it waits"])
def test_sigterm_ends_the_worker_and_what_the_code_did_stays(tmp_path: Path, is_running: bool) -> None:
    worker = Worker(tmp_path / "state")
    if is_running:
        worker.send(b'{"id": 1, "run": "x = 6\\nimport time\\nwhile True: time.sleep(0.01)"}')
        time.sleep(0.5)
        worker.process.send_signal(signal.SIGTERM)
        answer = worker.answer()
        assert (answer["id"], answer["status"], answer["changed"]["x"]) == (1, "interrupted", "added")
        assert "agent_kernel" not in answer["error"]
    else:
        assert worker.ask(run="x = 6")["ok"]
        worker.process.send_signal(signal.SIGTERM)
    assert worker.end()[0] == 130
    second = Worker(tmp_path / "state", "--branch", "main")
    assert (second.hello["branch"], second.ask(run="x")["result"]) == ("main", "6")
    assert second.end() == (0, b"")


@pytest.mark.parametrize("code", ["os.close(1); os.close(2)", "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)"])
def test_output_that_code_led_elsewhere_is_taken_again(worker: Worker, code: str) -> None:
    assert worker.ask(run=f"import os\n{code}")["status"] == "ok"
    assert worker.output("print('a')\nos.write(1, b'b')\n_ = os.system('echo c')") == "a\nbc\n"


def test_a_timeout_ends_the_code(worker: Worker) -> None:
    answer = worker.ask(run="import time\ntime.sleep(60)", timeout_s=0.2)
    assert (answer["ok"], answer["status"]) == (False, "timeout")


def test_the_end_of_the_input_ends_it_and_another_one_goes_on(tmp_path: Path) -> None:
    first = Worker(tmp_path / "state")
    assert first.hello["ready"]
    assert first.hello["came_back"] == "Nothing was stored here before: there are no variables yet."
    first.send(b'{"run": "import threading\\nn = 1\\nthreading.Thread(target=threading.Event().wait).start()"}')
    assert first.answer()["ok"]
    assert first.end() == (0, b"")
    second = Worker(tmp_path / "state", "--branch", "main")
    assert "2 variables came back: n, threading." in second.hello["came_back"]
    assert second.end() == (0, b"")


def test_a_place_that_is_no_store_is_said_in_the_first_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    worker = Worker(tmp_path / "file")
    assert worker.hello["ready"] is False
    assert worker.hello["type"] == "NotAStoreError"
    assert worker.end() == (1, b"")


def test_a_kill_loses_at_most_the_code_that_runs(tmp_path: Path) -> None:
    said, seed = 0, random.randrange(1 << 30)
    wait = random.Random(seed)
    for _ in range(2):
        worker = Worker(tmp_path / "state")
        worker.ask(run="steps = globals().get('steps', [])\nsame = {'steps': steps}")
        found = json.loads(worker.ask(run="steps")["result"])
        assert found == list(range(len(found))), seed
        assert said <= len(found) <= said + 1, seed
        said = len(found)
        for _ in range(50):
            worker.send(b'{"run": "steps.append(len(steps))"}')
        time.sleep(wait.uniform(0.01, 0.3))
        worker.process.kill()
        out, _ = worker.process.communicate()
        said += sum(1 for line in out.splitlines(keepends=True) if line.endswith(b"\n") and json.loads(line)["ok"])
    with Repository.open(tmp_path / "state", create=False) as repo:
        assert repo.verify().is_sound, seed
