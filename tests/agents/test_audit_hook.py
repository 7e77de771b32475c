"""A hook that is attached hears all events; one that is detached costs nothing, and hides no hook of anybody else."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_START = """
import sys, threading
from agent_kernel.agents import audit_hook
from agent_kernel.agents.audit_hook import DetachableHook
heard = []
def hear(event, args):
    if event.startswith("test"):
        heard.append(event)
ours = DetachableHook(hear)
"""


def _run(code: str) -> str:
    """In a process of its own, since a hook that somebody else adds stays for ever."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", _START + code]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_a_hook_hears_while_it_is_attached() -> None:
    _run("""
ours.prepare()
for turn in range(100):
    ours.attach()
    ours.attach()
    sys.audit("test.in")
    ours.detach()
    ours.detach()
    sys.audit("test.out")
    assert heard == ["test.in"] * (turn + 1)
assert ours.is_detachable
""")


def test_detached_the_interpreter_has_no_list_of_hooks_so_it_makes_no_events() -> None:
    _run("""
ours.prepare()
ours.attach()
held = sys.getrefcount(ours._hooks)
for _ in range(100):
    ours.detach()
    assert ours._field.value is None
    ours.attach()
    assert ours._field.value == id(ours._hooks)
assert sys.getrefcount(ours._hooks) == held  # what the field held of it is there still
""")


def test_a_hook_that_was_there_before_hears_all_and_ours_stays() -> None:
    _run("""
theirs = []
sys.addaudithook(lambda event, args: theirs.append(event) if event.startswith("test") else None)
ours.prepare()
ours.attach()
sys.audit("test.1")
ours.detach()
sys.audit("test.2")
assert theirs == ["test.1", "test.2"]
assert heard == ["test.1", "test.2"] and not ours.is_detachable
""")


def test_a_hook_that_is_added_while_ours_is_attached_goes_on() -> None:
    _run("""
theirs = []
ours.prepare()
ours.attach()
sys.addaudithook(lambda event, args: theirs.append(event) if event.startswith("test") else None)
ours.detach()
sys.audit("test.1")
ours.attach()
sys.audit("test.2")
assert theirs == ["test.1", "test.2"] and "test.2" in heard
""")


@pytest.mark.parametrize("is_strict", [False, True])
def test_a_hook_that_is_added_while_ours_is_detached_goes_on_and_cannot_keep_ours_out(is_strict: bool) -> None:
    _run(f"""
theirs = []
def other(event, args):
    if event == "sys.addaudithook" and {is_strict}:
        raise RuntimeError("no more hooks")
    if event.startswith("test"):
        theirs.append(event)
ours.prepare()
ours.attach()
ours.detach()
sys.addaudithook(other)
sys.audit("test.1")
for _ in range(2):
    ours.attach()
sys.audit("test.2")
ours.detach()
sys.audit("test.3")
assert theirs == ["test.1", "test.2", "test.3"]
assert heard == ["test.2", "test.3"]
""")


def test_without_preparation_or_where_it_fails_a_hook_stays() -> None:
    _run("""
audit_hook._FIND_FIELD = "import os; os.abort()"
ours.prepare()
ours.attach()
ours.detach()
sys.audit("test")
assert heard == ["test"] and not ours.is_detachable
other = []
late = DetachableHook(lambda event, args: other.append(event) if event.startswith("test") else None)
late.attach()
late.prepare()
late.detach()
sys.audit("test")
assert other == ["test"] and not late.is_detachable
""")


def test_threads_in_the_middle_of_events_bear_that_the_hook_goes_and_comes() -> None:
    _run("""
is_over, failed = threading.Event(), []
def act():
    try:
        while not is_over.is_set():
            [id(heard) for _ in range(50)]
            open("/dev/null").close()
    except BaseException as error:
        failed.append(error)
ours.prepare()
threads = [threading.Thread(target=act) for _ in range(3)]
sys.setswitchinterval(1e-5)
for thread in threads:
    thread.start()
for _ in range(5_000):
    ours.attach()
    ours.detach()
is_over.set()
for thread in threads:
    thread.join()
assert not failed and ours.is_detachable
""")


def test_once_a_step_is_over_its_hook_is_out_and_the_next_step_is_heard() -> None:
    _run("""
import os, tempfile
from agent_kernel.agents import side_effects
from agent_kernel.agents.side_effects import record_side_effects
path = os.path.join(tempfile.mkdtemp(), "made")
for turn in range(3):
    with record_side_effects() as outer:
        with record_side_effects() as inner:
            open(path, "w").close()
        assert side_effects._audit.hook._field.value is not None
        os.remove(path)
    assert side_effects._audit.hook._field.value is None
    assert ("writes", path) in inner.found
    assert ("removes", path) in outer.found or ("deletes", path) in outer.found, outer.found
""")


def test_a_process_that_ends_soon_does_not_find_out_how_to_take_the_hook_out() -> None:
    _run("""
import subprocess
from agent_kernel.agents import side_effects
side_effects.keep_listening()
subprocess.run = None
with side_effects.record_side_effects():
    pass
assert not side_effects._audit.hook.is_detachable
""")


def test_a_worker_does_not_either() -> None:
    _run("""
import io, os
from types import SimpleNamespace
from agent_kernel.agents import side_effects, workers
job = SimpleNamespace(memory_bytes=None)
workers.msgspec = SimpleNamespace(msgpack=SimpleNamespace(decode=lambda *_, **__: job))
workers._open_and_do = lambda *_: os._exit(int(side_effects._audit.may_detach))
workers.main(io.BytesIO())
""")
