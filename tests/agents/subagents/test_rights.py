"""No step has more rights than the run that it belongs to, and none decides what only a person may."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import queue
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel import agents
from agent_kernel.agents import approval, gate, rights, subagents
from agent_kernel.agents.events import ApprovalRequested, Error, Event, Output
from tests.agents.subagents.family import pair, scripted

RISKY = "import subprocess; subprocess.run(['true'])"
ENDS = "task.success('by itself')"


def done(heard: list[Event], agent: str) -> list[str]:
    return [event.status for event in heard if isinstance(event, Output) and event.agent == agent]


@pytest.mark.parametrize("above", ["risky", "never", "always"])
def test_a_sub_agent_may_do_no_more_than_its_parent(above: str) -> None:
    heard: list[Event] = []
    parent = pair(["task.success(helper(1))"], [RISKY, "task.success(n)"], approve=above, on_event=heard.append)
    run = parent.start("Work")
    if above == "always":
        with pytest.raises(ak.TaskPendingError):
            run.result()
        _ = run.approve()
    assert run.result() == 1
    assert done(heard, "child") == ["denied", "ok"]


def test_calling_one_is_not_asked_about() -> None:
    run = pair(["task.success(helper(1))"], ["task.success(n)"], approve="risky").start("Work")
    assert run.result() == 1
    assert not any(isinstance(event, ApprovalRequested) for event in run.events)


@pytest.mark.parametrize(("own", "statuses"), [("risky", ["denied", "ok"]), ("never", ["denied", "ok"])])
def test_an_agents_own_approval_holds_where_another_one_calls_it(own: str, statuses: list[str]) -> None:
    child = scripted("child", RISKY, ENDS, approve=own)
    heard: list[Event] = []
    parent = scripted("parent", "task.success(helper('Do it'))", on_event=heard.append, state={"helper": child})
    assert parent("Work") == "by itself"
    assert done(heard, "child") == statuses


def test_one_that_asks_about_everything_does_nothing_where_nobody_can_be_asked() -> None:
    child = scripted("child", "x = 1", "task.fail('nothing goes')", approve="always")
    heard: list[Event] = []
    steps = [
        "try:\n    helper.start('Do it').result()\nexcept Exception as error:\n    said = str(error)",
        "task.success(said)",
    ]
    parent = scripted("parent", *steps, on_event=heard.append, state={"helper": child})
    parent("Work")
    assert set(done(heard, "child")) == {"denied"}


@pytest.mark.parametrize("above", ["auto", "risky", "never"])
@pytest.mark.parametrize(
    "code",
    [
        "import threading\nt = threading.Thread(target=lambda: said.append(helper('Do it')))\nt.start()\nt.join()",
        "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(1) as pool:\n    said.append(pool.submit(helper, 'Do it').result())",
        "import contextvars\nsaid.append(contextvars.Context().run(helper, 'Do it'))",
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_no_thread_and_no_context_of_its_own_gives_one_more_rights(above: str, code: str) -> None:
    child = scripted("child", RISKY, ENDS, approve="auto")
    said: list[object] = []
    assert scripted("lead", code, ENDS, approve=above, state={"helper": child, "said": said})("Work") == "by itself"
    assert said == [], "nobody would know whose sub-agent it is"


def waiting() -> ak.Run[object]:
    run = scripted("other", f"{RISKY}; {ENDS}", approve="risky").start("Wait")
    with pytest.raises(ak.TaskPendingError):
        run.result()
    return run


@pytest.mark.sampled
@pytest.mark.parametrize("approve", ["auto", "risky", "never"])
@pytest.mark.parametrize(
    "code",
    [
        "threading.Thread(target=later).start()",
        "threading.Timer(0.1, pending.approve).start()",
        "threading.Thread(target=lambda: (gate.wait(), setattr(child, 'approve', 'auto'))).start()",
        "pool = ThreadPoolExecutor(1)\npool.submit(later)",
        "loop = asyncio.new_event_loop()\nloops.append(loop)\nloop.call_later(0.1, pending.approve)\nthreading.Thread(target=loop.run_until_complete, args=(asyncio.sleep(0.2),)).start()",
        "gc.callbacks.append(lambda *_: pending.approve())",
        "def kept():\n    try: yield\n    finally: pending.approve()\nmade = kept(); next(made); keep.append(made); del made",
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_a_step_leaves_behind_decides_nothing_either(
    approve: str, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "gc." in code:
        monkeypatch.setattr(gc, "callbacks", list[object]())
    pending, child, keep, ended = waiting(), scripted("child", ENDS, approve="never"), list[object](), threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []
    set_up = "import asyncio, gc, threading\nfrom concurrent.futures import ThreadPoolExecutor\ndef later():\n    gate.wait()\n    pending.approve()\n"
    state: dict[str, object] = {"pending": pending, "child": child, "keep": keep, "gate": ended, "loops": loops}
    run = scripted("lead", set_up + code, ENDS, approve=approve, state=state).start("Work")
    threads = set(threading.enumerate())
    list(run)
    for call in list(gc.callbacks) if "gc." in code else ():
        with contextlib.suppress(ak.AgentKernelError):
            call("start", {})
    ended.set()
    with contextlib.suppress(ak.AgentKernelError):
        keep.clear()
    for thread in set(threading.enumerate()) - threads:
        if "Pool" not in thread.name:
            thread.join(5)
    time.sleep(0.05)
    for loop in loops:
        loop.close()
    assert (pending.status, child.approve) == ("pending", "never")


LATER = {
    "an agent": "vars(child).update, (), {'approve': 'auto'}",
    "a run": "msgspec.structs.force_setattr, (pending._run_executor.setup, 'approve', 'auto')",
    "the code": "setattr, (approval, 'verdict_on', lambda *a, **k: 'run')",
}


@pytest.mark.parametrize("approve", ["auto", "never"])
@pytest.mark.parametrize("what", LATER)
def test_what_a_thread_changes_after_the_step_has_ended_is_put_back_as_the_next_run_begins_or_goes_on(
    approve: str, what: str
) -> None:
    pending, child, early = waiting(), scripted("child", RISKY, ENDS, approve="never"), approval.verdict_on
    ended = threading.Event()
    code = (
        "import msgspec, threading\nfrom agent_kernel.agents import approval\n"
        f"do = lambda f, given=(), named={{}}: done.append(f(*given, **named))\n"
        f"threading.Thread(target=lambda: (ended.wait(), do({LATER[what]}))).start()"
    )
    done_by_thread: list[object] = []
    threads = set(threading.enumerate())
    state = {"pending": pending, "child": child, "ended": ended, "done": done_by_thread}
    assert scripted("lead", code, ENDS, approve=approve, state=state)("Work")
    ended.set()
    given = scripted("given", ENDS)
    given.primer = "of a person, meanwhile"
    for thread in set(threading.enumerate()) - threads:
        thread.join()
    assert done_by_thread or approve == "never"  # the thread did change it, or was not let
    heard: list[Event] = []
    child.on_event = heard.append
    assert child("Work") == "by itself"
    assert done(heard, "child") == ["denied", "ok"]
    assert (child.approve, approval.verdict_on, pending._run_executor.setup.approve) == ("never", early, "risky")
    assert (given.primer, pending.approve().result()) == ("of a person, meanwhile", "by itself")


def test_a_person_changes_an_agent_while_a_thread_of_a_step_lives() -> None:
    """Also what it was given, and its settings: tqdm's own thread lives on for ever once a step has used it."""
    ended, child, limits = threading.Event(), scripted("child", ENDS, approve="never"), ak.Limits(steps=7)
    own: Any = type("Own", (), {"__module__": "__main__", "most": 1})
    child.cls(own)
    code = "import threading\nthreading.Thread(target=ended.wait).start()"
    scripted("lead", code, ENDS, state={"ended": ended})("Work")
    child.approve, child.limits = "risky", limits
    child.fn(print)
    child.model_settings["temperature"] = 0
    own.most = 2
    assert child("Work") == "by itself"
    assert (child.approve, child.limits, "print" in child.registry.objects) == ("risky", limits, True)
    assert (child.model_settings, own.most) == ({"temperature": 0}, 2)
    ended.set()


@pytest.mark.sampled
@pytest.mark.parametrize("approve", ["auto", "never"])
@pytest.mark.parametrize(
    "code",
    [
        "pending.approve()",
        "pending.deny()",
        "pending.edit('1').result()",
        "pending.abandon()",
        (
            "import threading\ncaught = []\ndef go():\n    try:\n        pending.approve()\n    except Exception as error:\n        caught.append(error)\n"
            "thread = threading.Thread(target=go)\nthread.start()\nthread.join()\nraise caught[0]"
        ),
        "import contextvars\ncontextvars.copy_context().run(pending.approve)",
        "import contextvars\ncontextvars.Context().run(pending.approve)",
    ],
)
def test_a_step_decides_nothing(approve: str, code: str) -> None:
    pending = waiting()
    heard: list[Event] = []
    agent = scripted("lead", code, ENDS, approve=approve, on_event=heard.append, state={"pending": pending})
    assert agent("Work") == "by itself"
    said = [event.message for event in heard if isinstance(event, Error)]
    assert said == [said[0]]
    assert said[0].startswith("WithinStepError: an agent's step cannot ")
    assert pending.status == "pending"
    assert pending.approve().result() == "by itself", "a person can, once no step runs"


@pytest.mark.parametrize(
    "code",
    [
        "helper.approve = 'auto'",
        "helper.limits = None",
        "helper.fn(print)",
        "helper.module(__import__('os'))",
        "helper.cls(int)",
        "setattr(helper, 'model', 'x')",
    ],
)
def test_a_step_changes_no_agent(code: str) -> None:
    helper = scripted("helper", ENDS, approve="always")
    heard: list[Event] = []
    assert scripted("lead", code, ENDS, on_event=heard.append, state={"helper": helper})("Work") == "by itself"
    assert [event.message for event in heard if isinstance(event, Error)] == [
        "WithinStepError: an agent's step cannot change an agent: only a person can, while no step runs"
    ]
    assert helper.approve == "always"
    helper.approve = "risky"
    helper.fn(print)


def test_a_step_may_change_an_agent_that_it_made() -> None:
    code = "import agent_kernel as ak\na = ak.Agent('own', model='scripted:hello')\na.primer = 'x'\na.fn(print)\ntask.success(a.primer)"
    assert scripted("lead", code)("Work") == "x"


def test_a_step_answers_its_own_sub_agents_question() -> None:
    child = scripted("child", "task.clarify('which?')", ENDS)
    code = "run = helper.start('Do it')\ntry:\n    run.result()\nexcept Exception:\n    run.resume('this one')\ntask.success(run.result())"
    assert scripted("lead", code, state={"helper": child})("Work") == "by itself"


def test_no_context_variable_leads_to_the_run() -> None:
    seen: list[object] = []
    code = "import contextvars\nfor value in contextvars.copy_context().values(): seen.append(value)\ntask.success(1)"
    scripted("lead", code, state={"seen": seen})("Work")
    assert not [value for value in seen if type(value).__module__.startswith("agent_kernel.agents")]


CHANGES = {
    "setattr": "setattr(helper, 'approve', 'auto')",
    "del": "del helper.approve",
    "delattr": "delattr(helper, 'limits')",
    "vars": "vars(helper)['approve'] = 'auto'",
    "dict": "helper.__dict__.update(approve='auto')",
    "no attributes": "helper.__dict__.clear()",
    "another dict": "object.__setattr__(helper, '__dict__', {**vars(helper), 'approve': 'auto'})",
    "object setattr": "object.__setattr__(helper, 'approve', 'auto')",
    "object delattr": "object.__delattr__(helper, 'approve')",
    "class attribute": "type(helper).approve = 'auto'",
    "both": "object.__delattr__(helper, 'approve'); type(helper).approve = 'auto'",
    "property": "type(helper).approve = property(lambda self: 'auto')",
    "getattribute": "type(helper).__getattribute__ = lambda self, name: 'auto' if name == 'approve' else object.__getattribute__(self, name)",
    "type setattr": "type.__setattr__(type(helper), 'approve', 'auto')",
    "setattr of the class": "del type(helper).__setattr__",
    "subclass": "helper.__class__ = type('B', (type(helper),), {'approve': property(lambda self: 'auto')})",
    "subclass by object": "object.__setattr__(helper, '__class__', type('B', (type(helper),), {'approve': property(lambda self: 'auto')}))",
    "method": "type(helper).start = lambda self, *a, **k: 1",
    "limits": "import msgspec; msgspec.structs.force_setattr(helper.limits, 'steps', 10**6)",
    "limits by slot": "type(helper.limits).steps.__set__(helper.limits, 10**6)",
    "class of limits": "type(helper.limits).steps = 10**6",
    "registry": "helper.registry.function(open, 'open', 'high', '')",
    "class of the registry": "type(helper.registry).allowed = frozenset({'os.mkfifo'})",
    "settings": "helper.model_settings['a'] = 1",
    "class of runs": "type(pending).approve = lambda self: self",
    "a run that waits": "import msgspec; msgspec.structs.force_setattr(pending._run_executor.setup, 'approve', 'auto')",
    "its setup": "import msgspec; pending._run_executor.setup = msgspec.structs.replace(pending._run_executor.setup, approve='auto')",
    "a function": "import agent_kernel.agents.subagents as m; m.approval_within = lambda parent, own: own",
    "one that imported it": "import agent_kernel.agents.agent as m; m.approval_within = lambda parent, own: own",
    "its code": "import agent_kernel.agents.subagents as m; m.approval_within.__code__ = (lambda parent, own: own).__code__",
    "a verdict": "import agent_kernel.agents.approval as m; m.verdict_on = lambda *a, **k: 'run'",
    "its builtins": "import agent_kernel.agents.subagents as m; m.max = lambda one, other, key: other",
    "a constant": "import agent_kernel.agents.subagents as m; m._STRICTNESS = ('never', 'risky', 'always', 'auto')",
    "a module": "import sys; sys.modules['agent_kernel.agents.approval'] = sys",
    "who looks": "import agent_kernel.agents.rights as m; m.put_back = m.protect = lambda: False; helper.__dict__['approve'] = 'auto'",
    "the gate": "import agent_kernel.agents.gate as m; m.Gate.check = lambda *a: None",
    "its maker": "import agent_kernel.agents.rights as m; m._made[helper] = m._key.get(); helper.approve = 'auto'",
    "an ending": "vars(helper)['approve'] = 'auto'; task.success('ended')",
    "a thread": "import threading; t = threading.Thread(target=vars(helper).update, kwargs={'approve': 'auto'}); t.start(); t.join()",
}


def rights_of(agent: ak.Agent) -> tuple[object, ...]:
    return (type(agent), agent.approve, agent.limits.steps, agent.registry.allowed, dict(agent.model_settings))


def decides() -> list[object]:
    """The code that says what a step may do."""
    return [
        *(dict(vars(kind)) for kind in (ak.Agent, ak.Run, ak.Limits, gate.Gate, type(ak.Agent().registry))),
        *(dict(vars(module)) for module in (approval, subagents, agents.agent, rights, rights)),
        *(subagents.approval_within.__code__, sys.modules[approval.__name__]),
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("approve", ["auto", "risky", "never"])
@pytest.mark.parametrize("way", CHANGES)
def test_no_way_of_a_step_changes_what_an_agent_may_do(way: str, approve: str) -> None:
    helper, pending = scripted("helper", ENDS, approve="always"), waiting()
    before, code = rights_of(helper), decides()
    heard: list[Event] = []
    state: dict[str, object] = {"helper": helper, "pending": pending}
    lead = scripted("lead", CHANGES[way], ENDS, approve=approve, on_event=heard.append, state=state)
    run = lead.start("Work")
    _ = list(run)
    while run.status == "pending":  # also where a person approves it
        _ = list(run.approve())
    assert run.result() == "by itself"
    assert rights_of(helper) == before
    assert decides() == code
    assert pending._run_executor.setup.approve == "risky"
    said = [event.message for event in heard if isinstance(event, Error)]
    refused = "denied" in done(heard, "lead")
    assert refused or said == [
        "WithinStepError: an agent's step cannot change an agent: only a person can, while no step runs"
    ]


@pytest.mark.parametrize("approve", ["auto", "risky", "never"])
@pytest.mark.parametrize(
    "change",
    [
        "import msgspec\nfor event in pending.events:\n    if event.kind == 'ApprovalRequested':\n        msgspec.structs.force_setattr(event, 'code', 'ran.append(2)')",
        "import msgspec\nasked = pending.events[-1]\npending._run_executor.log.events[-1] = msgspec.structs.replace(asked, code='ran.append(2)')",
        "import msgspec\nasked = pending.events[-1]\npending._run_executor.log.events.append(msgspec.structs.replace(asked, code='ran.append(2)', seq=asked.seq + 1))",
    ],
)
def test_what_a_person_approves_is_what_was_asked(change: str, approve: str) -> None:
    ran: list[int] = []
    model = ak.ScriptedModel(["import os; os.getcwd(); ran.append(1)", ENDS])
    pending = ak.Agent("other", model=model, state={"ran": ran}, approve="always").start("Work")
    _ = list(pending)
    assert pending.status == "pending"
    run = scripted("lead", change, ENDS, approve=approve, state={"pending": pending}).start("Work")
    _ = list(run)
    while run.status == "pending":
        _ = list(run.approve())
    _ = list(pending.approve())
    assert ran == [1]


@pytest.mark.parametrize("approve", ["auto", "never"])
def test_a_person_is_shown_what_was_asked_whatever_a_step_did_to_it_in_memory(approve: str) -> None:
    pending = waiting()
    shown = list(pending.events)
    code = "import msgspec\nfor event in pending.events:\n    if event.kind == 'ApprovalRequested':\n        msgspec.structs.force_setattr(event, 'code', '1 + 1')"
    _ = list(scripted("lead", code, ENDS, approve=approve, state={"pending": pending}).start("Work"))
    assert [event.seq for event in pending.events] == [event.seq for event in shown]
    assert "1 + 1" not in [getattr(event, "code", "") for event in pending.events]


HANDED_ON = {
    "a thread of the person's": "jobs.put(pending.approve)",
    "its denial": "jobs.put(pending.deny)",
    "a bare thread": "import _thread; _thread.start_new_thread(pending.approve, ())",
    "the class": "jobs.put(lambda: type(pending).approve(pending))",
    "a stack that is closed later": "stack.callback(pending.approve)",
    "a finalizer": "import weakref\nclass A: pass\na = A(); weakref.finalize(a, pending.approve); del a",
}


@pytest.mark.parametrize("approve", ["auto", "never"])
@pytest.mark.parametrize("way", HANDED_ON)
def test_a_step_hands_on_nothing_that_decides(way: str, approve: str) -> None:
    pending, jobs, stack = waiting(), queue.Queue[Any](), ExitStack()

    def work() -> None:
        while (job := jobs.get()) is not None:
            with suppress(Exception):
                job()

    worker = threading.Thread(target=work)
    worker.start()
    state: dict[str, object] = {"pending": pending, "jobs": jobs, "stack": stack}
    try:
        _ = list(scripted("lead", HANDED_ON[way], ENDS, approve=approve, state=state).start("Work"))
    finally:
        jobs.put(None)
        worker.join()
        stack.close()
    assert pending.status == "pending"
    assert not [event for event in pending.events if event.kind == "ApprovalDecided"]


def test_a_step_asks_for_less_than_its_helpers_own_approval_never_for_more() -> None:
    helper, ran = scripted("helper", "ran.append(1)", ENDS, approve="always"), list[int]()
    code = "helper.start('Do it', state={'ran': ran}, approve='auto').result()"
    assert scripted("lead", code, ENDS, state={"helper": helper, "ran": ran})("Work") == "by itself"
    assert ran == []


@pytest.mark.parametrize("by", ["", "policy"])
def test_no_step_writes_down_a_decision(by: str) -> None:
    pending = waiting()
    code = f"from agent_kernel.agents.events import ApprovalDecided\npending._run_executor.log.note(ApprovalDecided(decision='approve', by={by!r}))"
    _ = list(scripted("lead", code, ENDS, approve="auto", state={"pending": pending}).start("Work"))
    assert pending.status == "pending"


@pytest.mark.parametrize(
    "way", ["vars", "class attribute", "both", "getattribute", "one that imported it", "a verdict"]
)
def test_an_agent_that_a_step_changed_acts_with_no_more_rights_in_that_step(way: str) -> None:
    helper, ran = scripted("helper", "ran.append(1)", ENDS, approve="always"), list[int]()
    code = f"{CHANGES[way]}\nhelper.start('Do it', state={{'ran': ran}}).result()"
    assert scripted("lead", code, ENDS, state={"helper": helper, "ran": ran})("Work") == "by itself"
    assert ran == []
    assert helper.approve == "always"


def test_a_person_changes_an_agent_while_a_step_runs() -> None:
    helper = scripted("helper", ENDS, approve="always")
    begun, changed = threading.Event(), threading.Event()

    def change() -> None:
        assert begun.wait(30)
        helper.approve = "risky"
        helper.fn(len)
        changed.set()

    person = threading.Thread(target=change)
    person.start()
    state: dict[str, object] = {"begun": begun, "changed": changed}
    code = "begun.set()\nchanged.wait(30)"
    assert scripted("lead", code, ENDS, state=state)("Work") == "by itself"
    person.join()
    assert helper.approve == "risky"
    assert "len" in helper.registry


GIVEN = """import agent_kernel as ak
made = ak.Agent('made', model=ak.ScriptedModel(['gift()', "task.success('by itself')"]), approve='auto')
@made.fn
def gift():
    "Give something."
    getattr(__import__('o' + 's'), 'mk' + 'dir')('out')
made('Work')"""
REPLACED = "setattr(gift, '__co' + 'de__', (lambda: getattr(__import__('o' + 's'), 'mk' + 'dir')('out')).__code__)"
SPELLED = "exec(compile('def _find_and_load():\\n import os; os.system(\"mkdir out\")\\n_find_and_load()', '<frozen x>', 'exec'))"


@pytest.mark.parametrize("steps", [[GIVEN], [REPLACED, "gift()"], [SPELLED]], ids=["given", "replaced", "spelled"])
@pytest.mark.parametrize("approve", ["risky", "never"])
def test_no_function_that_a_step_gives_or_changes_acts_more_freely_than_the_step(
    steps: list[str], approve: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(approval, "review", lambda *_, **__: ())
    agent = scripted("lead", *steps, ENDS, approve=approve)

    @agent.fn
    def gift() -> int:
        """Give one."""
        return 1

    for _ in agent.start("Work"):
        pass
    assert gift() == 1
    assert list(tmp_path.iterdir()) == []


SETUPS = ("helper('x', setup=\"open('out', 'w')\")", "helper.start('x', setup=\"open('out', 'w')\").result()")


@pytest.mark.sampled
@pytest.mark.parametrize("helpers", ["auto", "risky", "never"])
@pytest.mark.parametrize("approve", ["risky", "never"])
@pytest.mark.parametrize("code", SETUPS)
def test_what_a_step_has_run_before_its_sub_agent_begins_has_no_more_rights_than_the_step(
    approve: str, helpers: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    helper = scripted("helper", ENDS, approve=helpers)
    list(scripted("lead", code, ENDS, approve=approve, state={"helper": helper}).start("Work"))
    assert not (tmp_path / "out").exists()


def test_what_a_person_has_run_before_a_run_begins_is_asked_about_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    scripted("lead", ENDS, approve="never")("Work", setup="open('out', 'w').close()")
    assert (tmp_path / "out").exists()


CHOSEN = {
    "a name": "helper('x', model='openai:local@http://127.0.0.1:9/v1')",
    "a name by start": "helper.start('x', model='openai:local@http://127.0.0.1:9/v1').result()",
    "an object": "helper('x', model=other)",
}


@pytest.mark.parametrize("title", CHOSEN)
def test_a_model_that_a_step_chooses_for_its_sub_agent_is_asked_about(title: str) -> None:
    other = ak.FunctionModel(lambda _: "task.success('by the other')")
    state = {"helper": scripted("helper", ENDS, approve="never"), "other": other}
    run = scripted("lead", CHOSEN[title], ENDS, approve="risky", state=state).start("Work")
    list(run)
    asked = run.events[-1]
    assert isinstance(asked, ApprovalRequested)
    assert [what for what, target in asked.stopped if target.startswith("answers of the model ")] == ["requests"]
    denied = scripted("lead", CHOSEN[title], ENDS, approve="never", state=state).start("Work")
    assert "denied" in done(list(denied), "lead")
    if title == "an object":
        assert "ok" in done(list(run.approve()), "lead")


def test_the_model_that_a_helper_has_and_a_script_need_no_asking() -> None:
    state = {"helper": scripted("helper", ENDS, approve="never"), "script": ak.ScriptedModel(["task.success(2)"])}
    code = "helper('x')\nhelper('x', model=script)"
    assert scripted("lead", code, ENDS, approve="risky", state=state).start("Work").result() == "by itself"


_LOOK = """
import sys
import agent_kernel.agents.executor
from agent_kernel.agents import rights

code = rights._Code()
heard = []
sys.addaudithook(lambda event, args: heard.append(event))
assert code.is_same()
print(len(code._functions), len(heard))
"""


def test_a_look_at_all_code_is_not_reported_for_each_function() -> None:
    """A step's audit hook hears each report, which takes longer than the look."""
    looked = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=True)
    functions, reports = map(int, looked.stdout.split())
    assert functions > 100
    assert reports < 10
