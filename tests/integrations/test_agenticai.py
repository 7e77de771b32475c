"""agenticaiframework on our records: each of its managers does the same on our backend as on its own, call by call.

Its source distribution has no tests of its state managers (tests/ holds two that import the package), so none of its own are run.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from tests.integrations.foreign import needs

needs("agenticaiframework.state")

from agenticaiframework.state import (
    AgentRecoveryManager,
    AgentSnapshot,
    AgentStateStore,
    FileBackend,
    KnowledgeStateManager,
    MemoryBackend,
    OrchestrationStateManager,
    SpeechStateManager,
    StateBackend,
    StateConfig,
    StateManager,
    ToolStateManager,
    WorkflowStateManager,
    WorkflowStatus,
)
from agenticaiframework.state.agent_state import AgentStatus
from agenticaiframework.state.manager import StateEntry, StateType

from agent_kernel.integrations.agenticai import AgentKernelBackend, AgentKernelStateManager


class CopyingBackend(MemoryBackend):
    """Its MemoryBackend, which else hands out what it holds: whoever changes that changes what is stored."""

    def get(self, key: str) -> StateEntry | None:
        return copy.deepcopy(super().get(key))

    def set(self, key: str, entry: StateEntry) -> bool:
        return super().set(key, copy.deepcopy(entry))


ROOT = Path(__file__).parents[2]
Script = Callable[[Any], None]
Make = Callable[[StateManager], Any]


# -- what each manager is asked to do: the same calls on both sides


def play_states(manager: Any) -> None:
    manager.on_checkpoint(list)
    restored: list[Any] = []
    manager.on_recovery(lambda agent, state: restored.append((agent, state)))
    for value in ({"n": 1, "words": ["a", "é"], "none": None}, [1, 2.5, True], "text", 7, 0, {}):
        manager.save("plain", value)
        manager.get("plain")
        manager.get_entry("plain")
    manager.save("typed", {"x": 1}, StateType.SESSION, {"by": "ada"})
    manager.get_entry("typed")
    for key in ("glob*", "glob?", "glob[a]", "globs", "a/b", "a:b", "a_b", "", "ä", "nul\0", "half \ud800", "k" * 900):
        manager.save(key, {"key": len(key)})
        manager.get(key)
        manager.exists(key)
    for prefix in (None, "", "glob", "glob*", "glob[", "a", "k" * 400, "half \ud800", "nobody"):
        manager.list(prefix)
    manager.list(None, StateType.SESSION)
    manager.list("glob", StateType.CUSTOM)
    manager.delete("glob*")
    manager.delete("glob*")
    manager.exists("glob*")
    manager.get("glob*")
    manager.list("glob")
    manager.save("glob*", 1)
    manager.list("glob")
    manager.get("nobody")
    manager.get_entry("nobody")
    for number in range(4):
        manager.save_agent_state("bot", {"step": number}, checkpoint=True)
    manager.save_agent_state("bot", {"step": 9})
    manager.get_agent_state("bot")
    manager.list_checkpoints("agent:bot")
    manager.recover_agent("bot", 2)
    manager.recover_agent("bot")
    manager.recover_agent("nobody")
    manager.get_agent_state("bot")
    manager.restore_checkpoint("checkpoint:agent:bot:v2", "agent:copy")
    manager.restore_checkpoint("nobody", "agent:copy")
    manager.get_agent_state("copy")
    manager.save_workflow_state("flow", {"at": "load"}, step=2)
    manager.get_workflow_state("flow")
    for step in (1, 2, 10):
        manager.checkpoint_workflow("flow", step, {"rows": step})
    manager.resume_workflow("flow")
    manager.resume_workflow("nobody")
    manager.save_team_state("team", ["ada", "bob"], {"lead": "ada"})
    manager.get_team_state("team")
    manager.save_knowledge_state("kb", 0.5, 5, 10, "indexing")
    manager.get_knowledge_state("kb")
    manager.save_tool_state("search", "e1", "completed", {"hits": 3})
    manager.get_tool_state("search", "e1")
    manager.cache_tool_result("search", "h1", [1, 2])
    manager.cache_tool_result("search", "h2", [3], ttl=-1)
    manager.get_cached_tool_result("search", "h1")
    manager.get_cached_tool_result("search", "h2")
    manager.get_cached_tool_result("search", "h3")
    manager.save_speech_session("s1", "wav", "en", "hello")
    manager.update_speech_transcript("s1", "hello there")
    manager.update_speech_transcript("nobody", "x")
    manager.get_speech_session("s1")
    manager.cleanup_expired()
    manager.get_stats()
    assert [agent for agent, _ in restored] == ["bot", "bot"]


def snapshot(name: str, **more: Any) -> AgentSnapshot:
    return AgentSnapshot(
        agent_id=name,
        name=name.title(),
        status=AgentStatus.RUNNING,
        config={"model": "m"},
        memory=["a", {"b": 1}],
        context=[],
        conversation_history=[{"role": "user", "content": "hi"}],
        tool_states={"search": {"calls": 2}},
        metadata=more,
    )


def play_agents(store: Any) -> None:
    for name in ("ada", "bob", "a*"):
        store.save(name, snapshot(name))
        store.load(name)
        for _ in range(4):
            store.checkpoint(name, memory_size=3, context_summary="so far", last_action="look")
    store.checkpoint("ada", 12, AgentStatus.PAUSED)
    store.list_checkpoints("ada")
    store.list_checkpoints("a*")
    store.get_latest_checkpoint("ada")
    store.get_latest_checkpoint("nobody")
    store.recover("ada")
    store.recover("ada", 12)
    store.recover("ada", 99)
    store.recover("nobody")
    store.should_checkpoint("ada")
    store.should_checkpoint("nobody")
    store.get_agent_ids()
    store.delete("bob")
    store.load("bob")
    store.list_checkpoints("bob")
    store.get_agent_ids()


def play_recovery(recovery: Any) -> None:
    recovery.state_store.save("ada", snapshot("ada"))
    told: list[Any] = []
    recovery.on_recovery(lambda agent, found: told.append((agent, found.status)))
    recovery.can_recover("ada")
    for number in range(2):
        recovery.on_failure("ada", OSError(f"no network {number}"), {"last_action": "fetch"})
        recovery.get_retry_delay("ada")
        recovery.recover("ada")
        recovery.recover("ada", 1)
        recovery.get_failure_stats("ada")
    recovery.on_failure("ada", OSError("again"))
    recovery.can_recover("ada")
    recovery.recover("ada")
    recovery.get_failure_stats()
    recovery.reset_failures("ada")
    recovery.get_failure_stats("ada")
    recovery.recover("nobody")
    assert told == [("ada", AgentStatus.RECOVERING)] * 4


def play_workflows(flows: Any) -> None:
    told: list[str] = []
    flows.on_step_complete(lambda state, step: told.append(f"step {step.name}"))
    flows.on_workflow_complete(lambda state: told.append("done"))
    flows.on_error(lambda state, step, error: told.append(error))
    one = flows.create_workflow("nightly", ["load", "clean", "report"], {"day": 1}, {"by": "ada"})
    two = flows.create_workflow("weekly", ["only"])
    id = one.workflow_id
    flows.get_state(id)
    flows.start_workflow(id)
    flows.start_step(id, 0, {"path": "x"})
    flows.complete_step(id, 0, {"rows": 344}, {"fast": True})
    flows.start_step(id, 1)
    flows.fail_step(id, 1, "no disk")
    flows.get_progress(id)
    flows.retry_step(id, 1)
    flows.retry_step(id, 1, max_retries=1)
    flows.pause(id)
    flows.list_workflows(WorkflowStatus.PAUSED)
    flows.resume(id)
    flows.resume(id)
    flows.checkpoint(id)
    flows.list_checkpoints(id)
    flows.recover(id)
    flows.recover(id, 1)
    flows.recover(id, 7)
    flows.recover(two.workflow_id)
    for step in (0, 1, 2):
        flows.start_step(id, step)
        flows.complete_step(id, step, step)
    flows.start_step(id, 9)
    flows.complete_step(id, 9)
    flows.fail_step(id, 9, "none")
    flows.retry_step(id, 9)
    flows.get_progress(id)
    flows.cancel(two.workflow_id)
    flows.list_workflows()
    flows.list_workflows(WorkflowStatus.COMPLETED)
    for call in (
        flows.get_state,
        flows.start_workflow,
        flows.pause,
        flows.cancel,
        flows.checkpoint,
        flows.get_progress,
    ):
        call("nobody")
    assert told == ["step load", "no disk", "step load", "step clean", "done", "step report"]


def play_teams(teams: Any) -> None:
    modes = ("sequential", "parallel", "hierarchical", "consensus", "broadcast")
    ids = [teams.create_team(f"team {mode}", mode, metadata={"n": 1}).team_id for mode in modes]
    id = ids[0]
    teams.create_team("wrong", "unheard-of")
    teams.add_agent(id, "ada", "Ada", "lead")
    teams.add_agent(id, "bob", "Bob")
    teams.add_agent("nobody", "bob", "Bob")
    for number, priority in enumerate((1, 5, 3, 5)):
        teams.add_task(id, f"t{number}", {"do": number}, priority)
    teams.add_task("nobody", "t", {})
    teams.get_team(id)
    teams.assign_task(id, "ada")
    teams.assign_task(id, "bob", "t2")
    teams.assign_task(id, "bob", "t99")
    teams.assign_task(id, "nobody")
    teams.get_agent_state(id, "ada")
    teams.get_agent_state("nobody", "ada")
    teams.get_all_agent_statuses(id)
    teams.complete_task(id, "ada", "t1", {"pages": 3})
    teams.complete_task(id, "ada", "t1")
    teams.fail_task(id, "bob", "t2", "no idea")
    teams.fail_task(id, "bob", "t2", "no idea")
    teams.update_agent_status(id, "bob", "blocked", "waits")
    teams.update_agent_status(id, "nobody", "blocked")
    teams.update_agent_status(id, "bob", "unheard-of")
    teams.update_shared_context(id, "goal", {"ship": True})
    teams.update_shared_context("nobody", "goal", 1)
    teams.get_shared_context(id)
    teams.get_shared_context(id, "goal")
    teams.get_shared_context("nobody")
    teams.get_team_status(id)
    teams.get_team_status("nobody")
    teams.remove_agent(id, "bob")
    teams.remove_agent(id, "bob")
    teams.get_all_agent_statuses("nobody")
    teams.delete_team(ids[2])
    teams.delete_team(ids[2])
    teams.get_team(ids[2])
    teams.list_teams()


def play_knowledge(bases: Any) -> None:
    id = bases.create_kb("docs", "openai", "chroma", 8, {"by": "ada"}).kb_id
    other = bases.create_kb("web").kb_id
    bases.get_kb(id)
    sources = [bases.add_source(id, "file", f"/docs/{number}.md", {"n": number}).source_id for number in range(3)]
    bases.add_source("nobody", "file", "x")
    bases.update_source_status(id, sources[0], "synced", 12)
    bases.update_source_status(id, sources[1], "syncing")
    bases.update_source_status(id, sources[2], "failed", error="gone")
    bases.update_source_status(id, "nobody", "synced")
    bases.update_source_status(id, sources[2], "unheard-of")
    bases.get_sync_status(id)
    bases.start_indexing(id, 100)
    bases.update_progress(id, indexed_chunks=40, failed_chunks=1, current_source="a.md")
    bases.get_indexing_status(id)
    bases.pause_indexing(id)
    bases.resume_indexing(id)
    bases.resume_indexing(id)
    bases.update_progress(id, indexed_chunks=99, total_chunks=100)
    bases.get_indexing_status(id)
    bases.fail_indexing(id, "no disk")
    bases.complete_indexing(id)
    bases.get_kb(id)
    bases.needs_resync(id)
    bases.needs_resync(id, max_age_hours=-1)
    bases.update_source_status(id, sources[0], "stale")
    bases.needs_resync(id)
    bases.remove_source(id, sources[2])
    bases.remove_source(id, sources[2])
    for call in (bases.get_kb, bases.start_indexing, bases.pause_indexing, bases.complete_indexing, bases.needs_resync):
        call("nobody")
    bases.fail_indexing("nobody", "x")
    bases.update_progress("nobody")
    bases.get_indexing_status("nobody")
    bases.get_sync_status("nobody")
    bases.list_kbs()
    bases.delete_kb(other)
    bases.delete_kb(other)
    bases.list_kbs()


def play_tools(tools: Any) -> None:
    ids = [
        tools.start_execution(name, {"q": number}, agent_id="ada", metadata={"n": number}).execution_id
        for number, name in enumerate(("search", "search", "fetch", "fetch", "fetch*"))
    ]
    tools.get_execution(ids[0])
    tools.get_execution("nobody")
    tools.get_pending_executions()
    tools.get_pending_executions("fetch")
    tools.complete_execution(ids[0], {"hits": 3}, cache=True)
    tools.complete_execution("nobody", 1)
    tools.fail_execution(ids[1], "no network")
    tools.fail_execution(ids[2], "no network", schedule_retry=True)
    tools.fail_execution(ids[3], "no network", schedule_retry=True)
    tools.fail_execution("nobody", "x")
    tools.cancel_execution(ids[4])
    tools.cancel_execution(ids[0])
    tools.cancel_execution("nobody")
    tools.get_retry_state(ids[2])
    tools.get_retry_state("nobody")
    time.sleep(0.02)
    tools.get_ready_retries()
    tools.consume_retry(ids[2])
    tools.consume_retry(ids[2])
    tools.cancel_retry(ids[3])
    tools.cancel_retry(ids[3])
    tools.get_pending_executions()
    tools.cache_result("search", {"q": "é*"}, ["x"], ttl=60)
    tools.cache_result("search", {"q": "old"}, ["y"], ttl=-1)
    tools.cache_result("search", {"q": "older"}, ["z"], ttl=-1)
    tools.cache_result("searcher", {"q": 1}, 5)
    tools.get_cached_result("search", {"q": "é*"})
    tools.get_cached_result("search", {"q": "é*"})
    tools.get_cached_result("search", {"q": "old"})
    tools.get_cached_result("search", {"q": "none"})
    tools.clear_expired_cache()
    tools.invalidate_cache("search", {"q": "é*"})
    tools.invalidate_cache("search", {"q": "é*"})
    tools.invalidate_cache("search")
    tools.get_cached_result("searcher", {"q": 1})
    tools.get_stats("search")
    tools.get_stats("nobody")
    tools.get_all_stats()
    tools.reset_stats("search")
    tools.reset_stats("search")
    tools.reset_stats()
    tools.get_all_stats()


def play_speech(speech: Any) -> None:
    one = speech.start_stt_session("openai", "whisper-1", "en", "realtime", {"room": 1}).session_id
    two = speech.start_stt_session().session_id
    speech.start_stt_session(streaming_mode="unheard-of")
    speech.get_stt_session(one)
    speech.add_audio_chunk(one, 250, 4_000)
    speech.add_audio_chunk(one, 250)
    speech.get_active_sessions()
    speech.add_transcription(one, "Hel", 0.4, is_final=False)
    speech.add_transcription(one, "Hello", 0.9, language="de", words=[{"word": "Hello", "at": 0.1}])
    speech.add_transcription(one, "there")
    speech.update_stt_status(two, "failed", "no microphone")
    speech.update_stt_status(two, "completed")
    speech.update_stt_status(two, "unheard-of")
    speech.complete_stt_session(one)
    voice = speech.start_tts_session("Hi", voice="nova", streaming=True, metadata={"n": 1}).session_id
    bad = speech.start_tts_session("No").session_id
    speech.update_tts_progress(voice, 3, 900, 12_000)
    speech.start_speaking(voice)
    speech.get_active_sessions()
    speech.complete_tts_session(voice, 1_000, 13_000)
    speech.fail_tts_session(bad, "no voice")
    speech.get_tts_session(voice)
    talk = speech.start_voice_conversation("ada", "bob", {"n": 1}).conversation_id
    speech.add_user_turn(talk, "Hello there", one)
    speech.add_agent_turn(talk, "Hi", voice)
    speech.add_user_turn(talk, "Bye")
    speech.update_conversation_status(talk, "listening")
    speech.update_conversation_status(talk, "unheard-of")
    speech.get_voice_conversation(talk)
    speech.get_active_sessions()
    speech.end_voice_conversation(talk)
    for call in (
        speech.get_stt_session,
        speech.complete_stt_session,
        speech.get_tts_session,
        speech.start_speaking,
        speech.complete_tts_session,
        speech.get_voice_conversation,
        speech.end_voice_conversation,
        speech.update_tts_progress,
    ):
        call("nobody")
    speech.add_audio_chunk("nobody", 1)
    speech.add_transcription("nobody", "x")
    speech.update_stt_status("nobody", "failed")
    speech.fail_tts_session("nobody", "x")
    speech.add_user_turn("nobody", "x")
    speech.add_agent_turn("nobody", "x")
    speech.update_conversation_status("nobody", "idle")
    speech.cleanup_completed_sessions()
    speech.cleanup_completed_sessions(max_age_hours=-1)
    speech.get_active_sessions()


def itself(manager: StateManager) -> StateManager:
    return manager


MANAGERS: dict[str, tuple[type[Any], Make, Script]] = {
    "states": (StateManager, itself, play_states),
    "agents": (
        AgentStateStore,
        lambda manager: AgentStateStore(manager, checkpoint_interval=600, max_checkpoints=3),
        play_agents,
    ),
    "recovery": (
        AgentRecoveryManager,
        lambda manager: AgentRecoveryManager(AgentStateStore(manager), retry_delay=0.0),
        play_recovery,
    ),
    "workflows": (WorkflowStateManager, WorkflowStateManager, play_workflows),
    "teams": (OrchestrationStateManager, OrchestrationStateManager, play_teams),
    "knowledge": (KnowledgeStateManager, KnowledgeStateManager, play_knowledge),
    "tools": (ToolStateManager, lambda manager: ToolStateManager(manager, default_backoff_base=0.01), play_tools),
    "speech": (SpeechStateManager, SpeechStateManager, play_speech),
}
# Its FileBackend gives keys back with `:` for `_`: it finds neither tools nor speech again, nor odd keys.
WITH_FILES = ("agents", "recovery", "workflows", "teams", "knowledge")

# -- how the two sides are compared

ID = re.compile(r"\b(?:exec|wf|team|kb|src|stt|tts|voice)-[0-9a-f]{8}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?")
MEASURED = {"checksum", "duration_ms", "avg_duration_ms"}  # of times


def plain(value: Any) -> Any:
    """What a call returned, as it was then."""
    if isinstance(value, StateBackend | StateManager | AgentStateStore):
        return type(value).__name__
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return "a time"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({one.name: getattr(value, one.name) for one in dataclasses.fields(value)})
    if isinstance(value, dict):
        skipped = MEASURED | {"total_duration_ms"} if "cache_hits" in value else MEASURED
        return {str(plain(key)): plain(one) for key, one in value.items() if key not in skipped}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def normalised(value: Any) -> Any:
    """Without times, and with ids as the numbers in which they came."""
    names: dict[str, str] = {}
    text = TIME.sub("a time", json.dumps(value))
    return json.loads(ID.sub(lambda match: names.setdefault(match[0], f"id {len(names)}"), text))


class Recorded:
    """Hands calls on, and notes each with what came of it."""

    def __init__(self, inner: Any, calls: list[Any]) -> None:
        self._inner = inner
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **more: Any) -> Any:
            try:
                result = found(*args, **more)
            except Exception as error:
                self._calls.append([name, type(error).__name__, str(error)])
                return None
            self._calls.append([name, plain(result)])
            return result

        return call


def stored(backend: StateBackend, keys: list[str] | None = None) -> list[Any]:
    return [[key, plain(backend.get(key))] for key in (backend.list_keys() if keys is None else keys)]


def play(name: str, manager: StateManager) -> list[Any]:
    _, make, script = MANAGERS[name]
    calls: list[Any] = []
    script(Recorded(make(manager), calls))
    return calls


def own(backend: StateBackend) -> StateManager:
    manager = StateManager(auto_checkpoint=False, max_checkpoints=3)
    manager.backend = backend
    return manager


def ours(backend: AgentKernelBackend) -> StateManager:
    return AgentKernelStateManager(backend, config=StateConfig(auto_checkpoint=False, max_checkpoints=3))


def outcome(name: str, manager: StateManager, *, has_order: bool = True) -> tuple[list[Any], list[Any]]:
    """What the calls came to, and what is stored then."""
    calls = play(name, manager)
    calls, kept = normalised([calls, stored(manager.backend)])
    if not has_order:  # a folder has none
        calls = [[call[0], sorted(call[1], key=json.dumps)] if isinstance(call[1], list) else call for call in calls]
        kept = sorted(kept, key=json.dumps)
    return calls, kept


@pytest.mark.parametrize("plane", ["store", "branch"])
@pytest.mark.parametrize("name", MANAGERS)
def test_a_manager_does_the_same_as_on_its_memory_backend(name: str, plane: Any, repo: ak.Repository) -> None:
    backend = AgentKernelBackend(repo, plane=plane)
    (expected, theirs), (found, mine) = outcome(name, own(CopyingBackend())), outcome(name, ours(backend))
    for one, other in zip(expected, found, strict=True):
        assert other == one
    assert mine == theirs
    for key in backend.list_keys():
        entry = backend.get(key)
        assert entry is not None
        assert entry.checksum == entry.compute_checksum()


@pytest.mark.parametrize("name", WITH_FILES)
def test_a_manager_does_the_same_as_on_its_file_backend(name: str, repo: ak.Repository, tmp_path: Path) -> None:
    theirs = own(FileBackend(StateConfig(persist_path=str(tmp_path / "files"))))
    expected, found = (outcome(name, one, has_order=False) for one in (theirs, own(AgentKernelBackend(repo))))
    assert found == expected


@pytest.mark.parametrize("name", MANAGERS)
def test_every_public_method_of_a_manager_is_played(name: str) -> None:
    kind, _, _ = MANAGERS[name]
    public = {method for method in vars(kind) if not method.startswith("_") and callable(getattr(kind, method))}
    assert public - {call[0] for call in play(name, own(MemoryBackend()))} == set()


def test_another_process_finds_what_was_saved(tmp_path: Path) -> None:
    code = """
import sys
from tests.integrations.test_agenticai import *
backend = AgentKernelBackend(sys.argv[1])
for name in MANAGERS:
    play(name, ours(backend))
print(json.dumps(stored(backend)))
"""
    place = tmp_path / "store"
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    with ak.open(place) as repo:
        assert stored(AgentKernelBackend(repo)) == json.loads(done.stdout)


# -- what only ours does


def test_a_checkout_takes_state_back_with_the_variables(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        flows = WorkflowStateManager(ours(AgentKernelBackend(repo, branch="main")))
        beside = StateManager(auto_checkpoint=False)
        beside.backend = AgentKernelBackend(repo)
        id = flows.create_workflow("nightly", ["load", "clean"]).workflow_id
        state["rows"] = 0
        state.commit("begun")
        repo.create_tag("begun", repo.resolve("HEAD"))
        flows.start_step(id, 0)
        flows.complete_step(id, 0, {"rows": 344})
        beside.save("paid", {"call": 1})
        state["rows"] = 344
        state.commit("loaded")
        state.rollback("begun")
        assert (state["rows"], flows.get_progress(id)["completed_steps"]) == (0, 0)
        assert beside.get("paid") == {"call": 1}
        state.undo()
        assert (state["rows"], flows.get_progress(id)["completed_steps"]) == (344, 1)


def test_a_branch_has_state_of_its_own(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        main = ours(AgentKernelBackend(repo, branch="main"))
        main.save("agent:ada", {"step": 1})
        state.commit("one")
    repo.create_branch("idea", repo.resolve("HEAD"))
    idea = ours(AgentKernelBackend(repo, branch="idea"))
    idea.save("agent:ada", {"step": 2})
    assert (main.get("agent:ada"), idea.get("agent:ada")) == ({"step": 1}, {"step": 2})
    assert AgentKernelBackend(repo).list_keys() == []


def test_several_keys_are_stored_as_one_or_not_at_all(repo: ak.Repository) -> None:
    backend = AgentKernelBackend(repo)
    entries = {name: StateEntry(name, {"n": name}, StateType.CUSTOM) for name in ("a", "b")}
    assert backend.set_many(entries)
    assert set(backend.get_many(["a", "b", "c"])) == {"a", "b"}
    wrong = StateEntry("c", {("no", "key"): 1}, StateType.CUSTOM)
    with pytest.raises(TypeError, match="keys must be"):
        backend.set_many({"a": StateEntry("a", 5, StateType.CUSTOM), "c": wrong})
    found = backend.get("a")
    assert found is not None
    assert found.value == {"n": "a"}
    assert backend.clear()
    assert backend.list_keys() == []


def test_values_that_json_does_not_know_come_back_as_from_files(repo: ak.Repository, tmp_path: Path) -> None:
    value = {
        "when": datetime(2026, 1, 2),
        "path": Path("x"),
        "pair": (1, 2),
        "odd": float("inf"),
        "big": 2**70,
        "numbers": {3: "x"},
    }
    found = []
    for backend in (AgentKernelBackend(repo), FileBackend(StateConfig(persist_path=str(tmp_path / "files")))):
        own(backend).save("k", value | {"half": "\ud800"})
        found.append(own(backend).get("k"))
    assert found[0] == found[1]


def test_what_was_read_is_a_copy(repo: ak.Repository) -> None:
    manager = ours(AgentKernelBackend(repo))
    given = {"list": [1]}
    manager.save("k", given)
    given["list"].append(2)
    manager.get("k")["list"].append(3)  # type: ignore[index]
    assert manager.get("k") == {"list": [1]}


@pytest.mark.parametrize("plane", ["store", "branch"])
def test_a_key_is_gone_when_its_time_is_over(plane: Any, repo: ak.Repository) -> None:
    lasting = AgentKernelStateManager(
        AgentKernelBackend(repo, plane=plane, config=StateConfig(ttl=600, auto_checkpoint=False))
    )
    lasting.save("long", 1)
    assert (lasting.get("long"), lasting.list(), lasting.cleanup_expired()) == (1, ["long"], 0)
    lasting.delete("long")
    backend = AgentKernelBackend(repo, plane=plane, config=StateConfig(ttl=1, auto_checkpoint=False))
    manager = AgentKernelStateManager(backend)
    manager.save("k", 1)
    time.sleep(1.1)
    assert (manager.get("k"), manager.exists("k"), manager.list(), manager.get_stats()["total_entries"]) == (
        None,
        False,
        [],
        0,
    )
    lasting.save("k", 2)
    entry = lasting.get_entry("k")
    assert entry is not None
    assert (entry.value, entry.version) == (2, 1)


def test_an_unknown_backend_is_an_error(tmp_path: Path) -> None:
    for options in ({"backend": "postgres"}, {"config": StateConfig(backend="postgres")}):
        with pytest.raises(
            ValueError, match=r"no state backend is named 'postgres' \(known: agent_kernel, file, memory"
        ):
            AgentKernelStateManager(**options)
    assert isinstance(StateManager("postgres", auto_checkpoint=False).backend, MemoryBackend)  # which forgets
    with pytest.raises(ValueError, match="persist_path must be"):
        AgentKernelStateManager()
    with pytest.raises(ValueError, match="encryption needs an encryption_key"):
        AgentKernelBackend("memory:", config=StateConfig(encryption=True))
    with pytest.raises(ValueError, match="lies beside all branches"):
        AgentKernelBackend("memory:", plane="store", branch="main")


def test_a_backend_is_found_by_its_name(tmp_path: Path) -> None:
    manager = AgentKernelStateManager("agent_kernel", str(tmp_path / "store"), auto_checkpoint=False)
    manager.save("k", 1)
    assert manager.get_stats()["backend"] == "agent_kernel"
    for name, kind in (("memory", MemoryBackend), ("file", FileBackend)):
        other = AgentKernelStateManager(name, str(tmp_path / name), auto_checkpoint=False)
        assert isinstance(other.backend, kind)
        assert other.save("k", 1)
    manager.backend.repo.close()


def test_encryption_encrypts(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    config = StateConfig(encryption=True, encryption_key="swordfish", auto_checkpoint=False)
    with ak.open(tmp_path / "store") as repo:
        AgentKernelStateManager(AgentKernelBackend(repo, config=config)).save("k", "MYSECRETVALUE")
        assert AgentKernelStateManager(AgentKernelBackend(repo, config=config)).get("k") == "MYSECRETVALUE"
        with pytest.raises(ak.SealedRecordError):
            AgentKernelBackend(repo).get("k")
    assert not any(b"MYSECRETVALUE" in file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())


def test_no_two_writers_get_the_same_version(tmp_path: Path) -> None:
    code = """
import sys
from tests.integrations.test_agenticai import *
manager = ours(AgentKernelBackend(sys.argv[1]))
for _ in range(40):
    manager.save("counter", 1)
"""
    place = tmp_path / "store"
    ak.open(place).close()
    writers = [subprocess.Popen([sys.executable, "-c", code, str(place)], cwd=ROOT) for _ in range(3)]
    assert [writer.wait(110) for writer in writers] == [0, 0, 0]
    with ak.open(place) as repo:
        entry = AgentKernelBackend(repo).get("counter")
    assert entry is not None
    assert entry.version == 120


def test_a_value_that_grows_takes_little_more_than_itself(tmp_path: Path) -> None:
    place = tmp_path / "store"
    with ak.open(place) as repo:
        manager = ours(AgentKernelBackend(repo))
        history: list[str] = []
        for _ in range(100):
            history.append(random.randbytes(1_000).hex())
            manager.save("conversation", history)
        assert manager.get("conversation") == history
    assert sum(file.stat().st_size for file in place.rglob("*") if file.is_file()) < 4_000_000
