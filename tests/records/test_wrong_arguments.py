"""Whatever a verb of the records is given, it works, or says in plain words what is wrong, and then nothing is stored.

Each verb is called with one wrong argument after the other in the place of one that is right. What it raises is an error of the
package, or a TypeError, ValueError or IndexError that the package raises on purpose. What a line of code happens to raise (a missing
attribute, a value that does not unpack, an encoder) says nothing to who called the verb.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Final

import pytest

import agent_kernel as ak
from agent_kernel.errors import (
    AgentKernelError,
    LockHeldError,
    RecordNotFoundError,
    RecordStateError,
    StaleRecordError,
    TransitionError,
)
from agent_kernel.records.agent_states import Agents
from agent_kernel.records.knowledge import Knowledge
from agent_kernel.records.lists import RecordList
from agent_kernel.records.memory import Memory, Tiers
from agent_kernel.records.queue import Queue, Task, Teams
from agent_kernel.records.state import State
from agent_kernel.records.tools import Tool, Tools
from agent_kernel.records.workflows import Workflows
from agent_kernel.storage.memory import MemoryStore


class Note(ak.Record):
    plane = "store"
    text: str = ""
    value: Any = None


class Agent:
    name = "ada"

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


BACKUP: Final = ak.open("memory:").state("ada").backup()
CLAIMED: Final = Task(id="web/one", team="web", name="one", status="in_progress", claims=1)


def takes_state(agent_state: State) -> None:
    pass


def endless(kind: type[Any]) -> Any:
    """A list or dict that holds itself."""
    found = kind()
    _ = found.append(found) if kind is list else found.update(a=found)
    return found


def deep(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


# -- what is wrong: in any place, and in the place of an argument of that kind

ANYWHERE: dict[str, object] = {
    "None": None,
    "a number": 5,
    "no number": float("nan"),
    "a text": "x",
    "half a character": "\ud800",
    "bytes": b"x",
    "a list": [],
    "a list of numbers": [5],
    "a dict": {},
    "an object": object(),
    "a class": int,
    "a function that takes nothing": lambda: 5,
}
FOR_TEXT: dict[str, object] = {"an empty text": "", "a text with NUL": "a\0b", "a long text": "x" * 10_000}
FOR_NUMBERS: dict[str, object] = {
    "a negative number": -1,
    "a number that no engine holds": 10**400,
    "infinity": float("inf"),
    "true": True,
}
FOR_DATA: dict[str, object] = {
    "an empty text": "",
    "a list of a list": [[]],
    "a dict by numbers": {5: 5},
    "a dict by bytes": {b"a": 1},
    "a dict by NaN": {float("nan"): 1},
    "a dict with half a character": {"\ud800": 1, "a": "\ud800"},
    "a list that holds itself": endless(list),
    "a dict that holds itself": endless(dict),
    "a list without end": deep(5_000),
    "a set": {1},
    "print": print,
}


def wrong(right: object) -> dict[str, object]:
    if isinstance(right, str):
        return ANYWHERE | FOR_TEXT
    if isinstance(right, int | float):
        return ANYWHERE | FOR_NUMBERS
    return ANYWHERE | FOR_DATA


# -- the verbs, each with arguments with which it works, on what is there in the store


def filled(repo: ak.Repository) -> ak.Repository:
    notes = repo.records(Note)
    notes.put(Note(id="a"))
    repo.list("turns").extend([1, 2, 3])
    return repo


def on_branch(repo: ak.Repository) -> RecordList:
    turns = repo.list("turns", plane="branch")
    turns.append(1)
    return turns


def with_state(repo: ak.Repository) -> State:
    state = repo.state("ada", plane="store")
    state.set_many({"a": 1, "d": {"x": 1}})
    state.save()
    state.checkpoint()
    state.set("a", 2)
    state.checkpoint()
    return state


def with_task(repo: ak.Repository) -> Queue:
    queue = repo.queue("web")
    queue.push("one", id="one")
    queue.claim("ada")
    return queue


def with_pending(repo: ak.Repository) -> Queue:
    queue = repo.queue("web")
    queue.push("one", id="one")
    return queue


def with_flow(repo: ak.Repository) -> Workflows:
    repo.workflows.start("nightly", ["load", "clean"])
    repo.workflows.checkpoint("nightly", "first")
    return repo.workflows


def with_team(repo: ak.Repository) -> Teams:
    repo.teams.create("web")
    repo.teams.join("web", "ada", ["python"])
    return repo.teams


def with_tool(repo: ak.Repository) -> Tools:
    def double(n: int) -> int:
        return 2 * n

    repo.tool(cache=60)(double)(4)
    return repo.tools


def with_sources(repo: ak.Repository) -> Knowledge:
    repo.knowledge.source("docs", "a", documents=1)
    repo.knowledge.indexing("docs", 2)
    return repo.knowledge


def with_snapshots(repo: ak.Repository) -> Agents:
    repo.agents.snapshot("ada", state={"n": 1})
    repo.agents.checkpoint("ada", 1, {"n": 1})
    return repo.agents


def with_message(repo: ak.Repository) -> Memory:
    memory = repo.state("ada", plane="store").memory(100)
    memory.add("user", "hello")
    return memory


def with_tier(repo: ak.Repository) -> Tiers:
    tiers = repo.state("ada", plane="store").tiers()
    tiers.put("a", 1)
    return tiers


Call = Callable[[ak.Repository], object]
Verb = tuple[str, dict[str, Any]]
VERBS: Final[list[tuple[Callable[[ak.Repository], Any], list[Verb]]]] = [
    (
        lambda repo: repo,
        [
            ("records", {"model": Note, "key": "id", "branch": None, "validators": (), "secret": None, "actor": "ada"}),
            (
                "list",
                {
                    "name": "a",
                    "plane": "store",
                    "user": "",
                    "branch": None,
                    "secret": None,
                    "actor": "",
                    "commit_each": True,
                },
            ),
            (
                "state",
                {
                    "user": "ada",
                    "session": "s",
                    "plane": "store",
                    "branch": None,
                    "validators": {},
                    "sanitisers": {},
                    "transitions": {},
                    "allow": {},
                    "secret": b"k" * 32,
                    "secret_keys": ["a"],
                    "cache_s": 1.0,
                    "ttl_s": 5.0,
                    "alert_bytes": 100,
                    "on_alert": print,
                    "actor": "",
                },
            ),
            ("lock", {"name": "a", "lease_s": 1.0, "wait_s": 0.0}),
            ("transaction", {"message": "why"}),
            ("queue", {"team": "web"}),
        ],
    ),
    (
        lambda repo: filled(repo).records(Note),
        [
            ("__getitem__", {"id": "a"}),
            ("__contains__", {"id": "a"}),
            ("require", {"id": "a", "user": "ada"}),
            ("get", {"id": "a", "user": "ada"}),
            ("version", {"id": "a", "user": "ada"}),
            ("find", {"pattern": "*", "where": {"text": "a"}, "order": "id", "limit": 5, "user": "ada"}),
            ("ids", {"pattern": "*", "unchanged_since_ns": None, "user": ""}),
            ("ids_back", {"start": ""}),
            ("end", {"id": "a"}),
            ("ends", {"pattern": "*"}),
            ("names", {"start": ""}),
            ("history", {"id": "a", "user": ""}),
            ("at", {"ref": 5.0}),
            ("make", {"id": "a", "text": "b", "value": 1}),
            ("put", {"record": Note(id="a"), "expect": 1, "ttl_s": 5.0, "user": "", "merge": False}),
            ("update", {"id": "a", "change": lambda one: None, "expect": 1, "ttl_s": 5.0, "user": ""}),
            ("update", {"id": "a", "text": "a", "value": 1}),
            ("delete", {"id": "a", "expect": 1, "user": ""}),
            ("trim", {"id": "a", "keeps": 1}),
            ("newest", {"start": "", "limit": 1}),
            ("watch", {"pattern": "*", "call": print, "user": ""}),
        ],
    ),
    (
        lambda repo: filled(repo).list("turns"),
        [
            ("__getitem__", {"index": 0}),
            ("items", {"limit": 1}),
            ("fold", {"initial": 0, "step": lambda a, b: a, "until": 2}),
            ("append", {"items": (1,)}),
            ("extend", {"items": [1]}),
            ("replace_tail", {"start": 1, "items": [5], "expect": 3}),
            ("fork", {"name": "other", "until": 1}),
            ("watch", {"call": print}),
            ("together", {"act": lambda: 1, "message": "why"}),
            ("part", {"number": 0}),
        ],
    ),
    (
        on_branch,
        [("at", {"ref": "main"})],
    ),
    (
        with_state,
        [
            ("__getitem__", {"key": "a"}),
            ("__setitem__", {"key": "a", "value": 1}),
            ("__delitem__", {"key": "a"}),
            ("__contains__", {"key": "a"}),
            ("get", {"key": "a"}),
            ("has", {"key": "a"}),
            ("keys", {"pattern": "*"}),
            ("version", {"key": "a"}),
            ("as_text", {"pattern": "*", "max_chars": 50}),
            ("set", {"key": "a", "value": 1, "expect": 1, "ttl_s": 5.0}),
            ("set_many", {"values": {"a": 1}}),
            ("replace", {"values": {"a": 1}}),
            ("init", {"values": {"a": 1}}),
            ("update", {"key": "d", "change": {"x": 1}}),
            ("count", {"key": "a", "by": 1}),
            ("delete", {"key": "a"}),
            ("invalidate", {"key": "a"}),
            ("save", {"state": {"a": 1}, "round": 1, "merge": False}),
            ("load", {"round": 1}),
            ("load_into", {"agent": Agent(), "round": 1}),
            ("checkpoint", {"label": "first"}),
            ("rollback", {"steps": 1, "force": False}),
            ("values_at", {"checkpoint": 1}),
            ("restore", {"backup": BACKUP, "force": False}),
            ("cleanup", {"days": 1.0}),
            ("at", {"ref": 5.0}),
            ("history", {"key": "a"}),
            ("watch", {"pattern": "*", "call": print}),
            ("scope", {"scope": "task", "name": "plan"}),
            ("restricted", {"read": ["*"], "write": ["*"]}),
            ("bind", {"function": takes_state}),
            ("events", {"name": "events", "commit_each": False}),
            (
                "memory",
                {
                    "max_tokens": 5,
                    "name": "memory",
                    "count_tokens": len,
                    "summarise": lambda a, b: a,
                    "commit_each": True,
                },
            ),
            ("tiers", {"hot": 1, "warm": 1}),
        ],
    ),
    (with_message, [("add", {"role": "user", "content": "hi", "more": {"a": 1}})]),
    (
        with_tier,
        [
            ("put", {"key": "a", "value": 1}),
            ("get", {"key": "a"}),
            ("tier", {"key": "a"}),
            ("delete", {"key": "a"}),
            ("context", {"cold": "*"}),
        ],
    ),
    (
        lambda repo: repo.lock("a", lease_s=60, wait_s=0),
        [("acquire", {"wait_s": 0}), ("extend", {"lease_s": 1.0})],
    ),
    (
        with_task,
        [
            ("__getitem__", {"id": "one"}),
            ("__contains__", {"task": "one"}),
            (
                "push",
                {"name": "b", "args": {"n": 1}, "priority": 1, "after": 0.0, "retries": 1, "backoff_s": 1.0, "id": "b"},
            ),
            ("push_many", {"names": ["a", "b"]}),
            ("claim", {"agent": "ada", "lease_s": 60.0}),
            ("extend", {"task": CLAIMED, "lease_s": 60.0}),
            ("done", {"task": "one", "result": 1}),
            ("fail", {"task": "one", "error": "why", "retry": None}),
            ("give_back", {"task": "one"}),
            ("cancel", {"task": "one"}),
            ("retry", {"task": "one"}),
            ("find", {"status": "pending", "limit": 1}),
        ],
    ),
    (
        with_pending,
        [
            ("assign", {"task": "one", "agent": "ada", "lease_s": 1.0}),
            ("run", {"worker": lambda task: 5, "agent": "ada", "lease_s": 60.0}),
            ("drain", {"worker": lambda task: 5, "agent": "ada", "lease_s": 60.0}),
        ],
    ),
    (
        with_flow,
        [
            ("__getitem__", {"id": "nightly"}),
            ("__contains__", {"one": "nightly"}),
            ("get", {"id": "nightly"}),
            ("start", {"name": "b", "steps": ["a"], "id": "b", "context": {"a": 1}, "checkpoint_every": 1}),
            ("progress", {"id": "nightly"}),
            ("list", {"status": "RUNNING"}),
            ("step", {"id": "nightly", "name": "load"}),
            ("fail", {"id": "nightly", "step": "load", "error": "why"}),
            ("retry", {"id": "nightly", "step": "load"}),
            ("skip", {"id": "nightly", "step": "load"}),
            ("pause", {"id": "nightly", "reason": "why"}),
            ("wait", {"id": "nightly", "reason": "why"}),
            ("cancel", {"id": "nightly", "reason": "why"}),
            ("complete", {"id": "nightly"}),
            ("resume", {"id": "nightly", "at": 1}),
            ("checkpoint", {"id": "nightly", "name": "a"}),
            ("checkpoints", {"id": "nightly"}),
            ("delete", {"id": "nightly"}),
        ],
    ),
    (
        with_team,
        [
            ("__getitem__", {"name": "web"}),
            ("__contains__", {"one": "web"}),
            ("get", {"name": "web"}),
            ("create", {"name": "b", "mode": "parallel", "shared": {"a": 1}}),
            ("queue", {"name": "web"}),
            ("join", {"team": "web", "agent": "bob", "capabilities": ["css"]}),
            ("leave", {"team": "web", "agent": "ada"}),
            ("status", {"team": "web", "agent": "ada", "status": "busy", "current_task": "a"}),
            ("available", {"capability": "python", "team": "web", "within_s": 5.0}),
            ("share", {"team": "web", "goal": 1}),
            ("shared", {"team": "web"}),
        ],
    ),
    (
        with_tool,
        [
            (
                "__call__",
                {
                    "function": None,
                    "name": "a",
                    "cache": 1.0,
                    "retries": 1,
                    "backoff": 1.0,
                    "timeout_s": 1.0,
                    "defer": False,
                    "state": None,
                },
            ),
            ("runs", {"tool": "double", "limit": 1}),
            ("stats", {"tool": "double", "limit": 1}),
            ("clear", {"older_s": 5.0}),
            ("invalidate", {"tool": "double", "args": {"n": 4}}),
            ("hits", {"tool": "double"}),
            ("retry", {"run": "double", "state": None}),
            ("cancel", {"run": "double"}),
        ],
    ),
    (
        with_sources,
        [
            ("source", {"kb": "docs", "id": "b", "status": "indexed", "documents": 1, "details": {}, "synced_s": 1.0}),
            ("sources", {"kb": "docs", "status": "indexed"}),
            ("forget", {"kb": "docs", "id": "a"}),
            ("stale", {"max_age_s": 5.0, "kb": "docs"}),
            ("overview", {"kb": "docs"}),
            ("progress", {"kb": "docs"}),
            ("indexing", {"kb": "other", "total": 2}),
            ("resume", {"kb": "docs"}),
            ("pause", {"kb": "docs", "reason": "why"}),
            ("fail", {"kb": "docs", "reason": "why"}),
        ],
    ),
    (lambda repo: repo.knowledge.indexing("docs", 2), [("advance", {"count": 1, "failed": 0})]),
    (
        lambda repo: repo.speech,
        [
            ("__getitem__", {"id": "a"}),
            ("__contains__", {"one": "a"}),
            ("open", {"kind": "stt", "mode": "batch", "config": {}}),
            ("cleanup", {"older_s": 5.0}),
        ],
    ),
    (lambda repo: repo.speech.open(), [("end", {"reason": "why", "failed": False})]),
    (
        lambda repo: repo.speech.open().stt,
        [
            ("update", {"partial": "a"}),
            ("chunk", {"size": 1, "duration_s": 1.0}),
            ("result", {"text": "a", "confidence": 0.5, "other": 1}),
        ],
    ),
    (lambda repo: repo.speech.open().turns, [("add", {"role": "user", "text": "a", "confidence": 0.5})]),
    (
        with_snapshots,
        [
            ("__getitem__", {"agent": "ada"}),
            ("__contains__", {"agent": "ada"}),
            ("status", {"agent": "ada", "status": "idle", "task": "a"}),
            (
                "snapshot",
                {
                    "agent": "ada",
                    "state": {},
                    "memory_state": {},
                    "tool_state": {},
                    "conversation_history": [],
                    "metadata": {},
                },
            ),
            ("list_snapshots", {"agent": "ada"}),
            ("latest", {"agent": "ada"}),
            ("delete", {"agent": "ada", "at": 1}),
            ("restore", {"agent": "ada", "at": 1}),
            ("checkpoint", {"agent": "ada", "step": 1, "state": {}, "recoverable": True}),
            ("list_checkpoints", {"agent": "ada"}),
            ("should_checkpoint", {"agent": "ada", "step": 1, "every": 1}),
            ("recover", {"agent": "ada", "from_step": 1}),
            ("supervise", {"agent": "ada", "attempts": 0, "backoff": 0.0}),
        ],
    ),
    (
        lambda repo: repo.agents.supervise("ada", attempts=0, backoff=0.0),
        [
            ("on_failure", {"call": print}),
            ("on_recovery", {"call": print}),
            ("run", {"work": lambda: 5}),
        ],
    ),
]


# Verbs that a program does not call with arguments that could be wrong, or whose arguments only other verbs of the package make.
NOT_CALLED: Final = {
    "Records": {"changed_row", "load", "first", "below", "count", "mark", "readable", "ids_beside"},
    "RecordList": {"together"},
    "State": {"records_of", "named_errors"},
    "Tools": {"enter"},
}


# -- what they are given, and what comes of it


def call(target: Any, name: str, arguments: dict[str, Any]) -> None:
    """Call a verb as a program does, and use what it returns: a context manager, an iterator."""
    verb = getattr(target, name)
    parameters = inspect.signature(verb).parameters
    positional: list[object] = []
    keywords: dict[str, Any] = {}
    for one, value in arguments.items():
        kind = parameters[one].kind if one in parameters else inspect.Parameter.KEYWORD_ONLY
        if kind is inspect.Parameter.VAR_POSITIONAL:
            positional += value if isinstance(value, tuple) else [value]
        elif kind is inspect.Parameter.POSITIONAL_ONLY:
            positional.append(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            keywords |= {"more": value}
        else:
            keywords[one] = value
    result = verb(*positional, **keywords)
    if name == "__call__" and not isinstance(result, Tool):  # of `@repo.tool(…)`
        result(takes_state)
    if isinstance(result, Iterator):
        list(result)
    elif isinstance(result, AbstractContextManager):
        with result:
            pass


def is_on_purpose(error: BaseException) -> bool:
    """Whether a `raise` of the package raised it, or the function that the verb was given."""
    if isinstance(error, AgentKernelError):
        return True
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not isinstance(error, TypeError | ValueError | IndexError):
        return False
    code, at = trace.tb_frame.f_code, trace.tb_lasti
    instruction = next(one for one in dis.get_instructions(code) if one.offset == at)
    is_ours = "agent_kernel" in code.co_filename and instruction.opname == "RAISE_VARARGS"
    return is_ours or code.co_name == "call_with"


def raw_error(act: Callable[[], object]) -> str:
    """What a call raises that is not raised on purpose; "" where it works, or says what is wrong."""
    try:
        act()
    except Exception as error:
        return "" if is_on_purpose(error) else f"{type(error).__name__}: {error}"
    return ""


def stored(repo: ak.Repository) -> dict[bytes, bytes]:
    assert isinstance(repo.store, MemoryStore)
    return dict(repo.store._values)


def verbs_of(kind: type[Any]) -> dict[str, list[str]]:
    """The verbs of a class that take arguments, with the names of these."""
    found: dict[str, list[str]] = {}
    for name, function in vars(kind).items():
        if name in NOT_CALLED.get(kind.__name__, ()) or not inspect.isfunction(function):
            continue
        if not name.startswith("_") or name in ("__getitem__", "__setitem__", "__delitem__", "__contains__"):
            parameters = list(inspect.signature(function).parameters.values())[1:]
            found[name] = [
                one.name
                for one in parameters
                if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) and one.name not in ("default", "initial")
            ]
    return {name: parameters for name, parameters in found.items() if parameters}


GROUPS: Final = [pytest.param(make, verbs, id=verbs[0][0]) for make, verbs in VERBS]


@pytest.mark.parametrize(("make", "verbs"), GROUPS)
def test_a_verb_says_what_is_wrong_with_an_argument_and_stores_nothing(
    make: Callable[[ak.Repository], Any], verbs: list[Verb]
) -> None:
    found: list[str] = []
    for name, right in verbs:
        for parameter, value in right.items():
            repo = ak.open("memory:")
            target = make(repo)
            before = stored(repo)
            for what, instead in wrong(value).items():
                where = f"{type(target).__name__}.{name}({parameter}: {what})"
                is_refused = False
                try:
                    call(target, name, {**right, parameter: instead})
                except Exception as error:
                    is_refused = True
                    if not is_on_purpose(error):
                        found.append(f"{where} raises {type(error).__name__}: {error}"[:200])
                if stored(repo) != before:
                    if is_refused:
                        found.append(f"{where} is refused, and something is stored")
                    repo = ak.open("memory:")
                    target = make(repo)
                    before = stored(repo)
    assert not found


@pytest.mark.parametrize(("make", "verbs"), GROUPS)
def test_a_verb_works_with_what_is_right(make: Callable[[ak.Repository], Any], verbs: list[Verb]) -> None:
    for name, right in verbs:
        target = make(ak.open("memory:"))
        with suppress(RecordNotFoundError, StaleRecordError, TransitionError, RecordStateError, LockHeldError):
            call(target, name, right)  # where it cannot be done now, its arguments are sound


def test_all_verbs_are_looked_at() -> None:
    known: dict[type[Any], dict[str, set[str]]] = {}
    for make, verbs in VERBS:
        kind = type(make(ak.open("memory:")))
        for name, right in verbs:
            known.setdefault(kind, {}).setdefault(name, set()).update(right)
    missing = [
        f"{kind.__name__}.{name}: {', '.join(sorted(set(parameters) - known[kind].get(name, set())))}"
        for kind in known
        if kind is not ak.Repository
        for name, parameters in verbs_of(kind).items()
        if not set(parameters) <= known[kind].get(name, set())
    ]
    assert not missing


# -- what a model says of its records

SAID_BY_A_MODEL: Final = (
    "collection",
    "schema_version",
    "transitions",
    "status_field",
    "plane",
    "ttl_s",
    "coalesce_s",
    "keeps_past",
    "is_final",
    "is_growing",
)
ALL_WRONG: Final = ANYWHERE | FOR_TEXT | FOR_NUMBERS | FOR_DATA


@pytest.mark.parametrize("name", SAID_BY_A_MODEL)
def test_what_a_model_says_makes_sense_or_is_refused_before_anything_is_stored(name: str) -> None:
    """A `keeps_past` that was a number was stored with each record, and then none of the collection could be read."""
    found: list[str] = []
    for what, value in ALL_WRONG.items():
        body = {"__module__": __name__, "__annotations__": {"status": "str"}, "status": "a", name: value}
        model: Any = type("Said", (ak.Record,), body)
        repo = ak.open("memory:")
        if error := raw_error(partial(repo.records, model)):
            found.append(f"{what}: {error}")
        with suppress(TypeError, ValueError):
            records = repo.records(model)
            records.put(model(id="a"))
            found += [] if list(records.values()) == [records["a"]] else [f"{what}: it is not read"]
    assert not found


@pytest.mark.parametrize("what", ALL_WRONG)
def test_a_migration_is_a_function_that_makes_a_later_schema(what: str) -> None:
    for act in (lambda: ak.migration(ALL_WRONG[what]), lambda: ak.migration(2)(ALL_WRONG[what])):  # type: ignore[arg-type]
        assert raw_error(act) == ""


# -- what functions that a program gives return


@pytest.mark.parametrize("what", ALL_WRONG)
def test_what_a_given_function_returns_is_taken_or_named(what: str) -> None:
    value = ALL_WRONG[what]
    state_of: Any = type("Agent", (), {"name": "ada", "state_dict": lambda self: value})()
    acts: dict[str, Call] = {
        "validator": lambda repo: repo.state("ada", validators={"*": lambda _: value}).set("a", 1),
        "sanitiser": lambda repo: repo.state("ada", sanitisers={"*": lambda _: value}).set("a", 1),
        "update": lambda repo: filled(repo).records(Note).update("a", lambda _: value),  # type: ignore[arg-type,return-value]
        "update of a state": lambda repo: repo.state("ada").update("a", lambda _: value),
        "count_tokens": lambda repo: repo.state("ada").memory(9, count_tokens=lambda _: value).add("user", "hello"),  # type: ignore[arg-type,return-value]
        "where": lambda repo: filled(repo).records(Note).find(where=lambda _: value),
        "order": lambda repo: with_two(repo).find(order=lambda note: value if note.id == "a" else 5),
        "snapshot": lambda repo: repo.agents.snapshot(state_of),
        "checkpoint": lambda repo: repo.agents.checkpoint(state_of, 1),
        "save": lambda repo: repo.state("ada").save(state_of),
        "tool": lambda repo: repo.tool(cache=5)(lambda: value)(),
        "worker": lambda repo: with_pending(repo).run(lambda _: value),
    }
    found = {name: raw_error(partial(act, ak.open("memory:"))) for name, act in acts.items()}
    assert set(found.values()) == {""}, found


def with_two(repo: ak.Repository) -> ak.Records[Note]:
    notes = filled(repo).records(Note)
    notes.put(Note(id="b"))
    return notes
