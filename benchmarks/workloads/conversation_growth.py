"""What a conversation takes from the disk as it goes on, however it is stored: growth is bounded, and in proportion to what was said."""

from __future__ import annotations

import asyncio
import importlib.util
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agent_kernel.session import Repository, Versioned
from benchmarks.bench import Bench
from benchmarks.tables import Row, Table, ms, size, times

if TYPE_CHECKING:
    from agent_kernel.records.schema import Plane

_TURN_BYTES = 2_048
_MOST = 1.2
_TURNS = 10_000
_LIMIT_S = 60.0  # for each way of storing: LangGraph reads and writes the whole thread at each turn
_SIGNS = "".join(sign for sign in map(chr, range(33, 127)) if sign not in '"\\')


class _Grown(NamedTuple):
    turns: int
    taken: int  # bytes of the files
    half_turns: int
    half_taken: int
    turn_s: float

    @property
    def ratio(self) -> float:
        return self.taken / (self.turns * _TURN_BYTES)

    @property
    def late_ratio(self) -> float:
        """Of what the later half took: without what a store takes in any case."""
        return (self.taken - self.half_taken) / ((self.turns - self.half_turns) * _TURN_BYTES)


def run(bench: Bench) -> Table:
    """Store turn after turn of random text, which no program makes much smaller, and look at the files."""
    turns = 400 if bench.quick else _TURNS
    table = Table(
        f"A conversation of up to {turns:,} turns of {_TURN_BYTES:,} bytes of random text, each stored durably"
    )
    ways: tuple[tuple[Plane, int, bool, str], ...] = (
        ("store", 1, False, "a list beside the branches"),
        ("branch", 2, False, "a list on a branch, question and answer in no commit of their own"),
        ("branch", 1, True, "... a commit each turn"),
        ("branch", 2, True, "... a commit each for the question and the answer"),
    )
    for plane, parts, commit_each, name in ways:
        table.rows.append(_row(name, _list_grown(bench, plane, turns, parts, commit_each=commit_each)))
    table.rows.append(_row("the memory of a state, question and answer one by one", _grown_by(bench, turns, _memory)))
    if importlib.util.find_spec("agents") is not None:
        table.rows.append(_row("OpenAI Agents SDK, question and answer one by one", _grown_by(bench, turns, _openai)))
    else:
        table.notes.append("left out: the OpenAI Agents SDK is not installed (pip install openai-agents)")
    if importlib.util.find_spec("agentscope") is not None:
        table.rows.append(_row("AgentScope, messages of as many bytes of JSON", _grown_by(bench, turns, _agentscope)))
    else:
        table.notes.append("left out: AgentScope is not installed (pip install agentscope)")
    has_langgraph = all(importlib.util.find_spec(name) is not None for name in ("langgraph", "langchain_core"))
    if has_langgraph:
        table.rows.append(_row("LangGraph on AgentKernelSaver", _grown_by(bench, turns, _langgraph)))
    else:
        table.notes.append('left out: langgraph is not installed (pip install "agent-kernel[langgraph]" langgraph)')
    if has_langgraph and _has_sqlite_saver():
        row = _row("LangGraph on SqliteSaver", _grown_by(bench, turns, _langgraph_on_sqlite), has_target=False)
        table.rows.append(row)
    elif has_langgraph:
        table.notes.append("left out: SqliteSaver is not installed (pip install langgraph-checkpoint-sqlite)")
    _add_sessions(bench, table, turns, has_langgraph=has_langgraph)
    table.notes.append(f"a row has as many turns as were done within {_LIMIT_S:.0f} s, and at most {turns:,}")
    table.notes.append("later half: what the files grew by in the later half of the turns, against the text of these")
    table.notes.append(
        f"after {_TURNS:,}: what so many take if the files go on to grow as in the later half, which is what must be reached"
    )
    table.notes.append("LangGraph: a question and an answer of 1,024 bytes each; every checkpoint stays")
    return table


def _row(what: str, grown: _Grown, *, has_target: bool = True, less: _Grown | None = None) -> Row:
    """`less`: what the same took without a conversation."""
    shown = f"{size(grown.taken)} = {times(grown.ratio)} the text"
    ratio = _after_all(grown) if has_target else grown.ratio  # what has no target may grow with the square
    if grown.turns < _TURNS and has_target:
        shown += f"; later half {times(grown.late_ratio)}, so {times(ratio)} after {_TURNS:,}"
    if less is not None:
        ratio -= _after_all(less)
        shown += f", {times(ratio)} more than without a conversation"
    return Row(
        f"{what}, {grown.turns:,} turns",
        shown,
        f"≤ {_MOST:g}× the text" if has_target else "",
        ratio <= _MOST if has_target else None,
        beside=f"{ms(grown.turn_s)} a turn",
        numbers={"turns": grown.turns, "bytes": grown.taken, "ratio": grown.ratio, "late_ratio": grown.late_ratio},
    )


def _after_all(grown: _Grown) -> float:
    """The ratio after all turns, if the files go on to grow as in the later half."""
    if grown.turns >= _TURNS:
        return grown.ratio
    return (grown.ratio * grown.turns + grown.late_ratio * (_TURNS - grown.turns)) / _TURNS


def _grown(place: Path, turns: int, add: Callable[[str], object]) -> _Grown:
    lot, spent, sizes = random.Random(0), list[float](), list[int]()
    began = time.perf_counter()
    for _ in range(turns):
        text = "".join(lot.choices(_SIGNS, k=_TURN_BYTES))
        start = time.perf_counter()
        add(text)
        spent.append(time.perf_counter() - start)
        sizes.append(_bytes_in(place))
        if time.perf_counter() - began > _LIMIT_S:
            break
    half = len(sizes) // 2
    return _Grown(len(sizes), sizes[-1], half, sizes[half - 1], median(spent))


def _bytes_in(place: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in place.rglob("*") if file.is_file())


def _list_grown(bench: Bench, plane: Plane, turns: int, parts: int, *, commit_each: bool) -> _Grown:
    work = Path(tempfile.mkdtemp(prefix="conversation-", dir=bench.folder))
    try:
        with closing(Repository.open(work / "store")) as repo:
            talk = repo.list("conversation", plane=plane, commit_each=commit_each)
            each = _TURN_BYTES // parts

            def add(text: str) -> None:
                for start in range(0, _TURN_BYTES, each):
                    talk.append(text[start : start + each])

            return _grown(work, turns, add)
    finally:
        shutil.rmtree(work)


def _add_sessions(bench: Bench, table: Table, turns: int, *, has_langgraph: bool) -> None:
    """Turns that a session commits, each with a variable. What the commits take without a conversation is not the conversation's."""
    alone = _session_grown(bench, turns, lambda _: lambda _: None)
    table.rows.append(
        _row("A session that commits each turn with a variable, without a conversation", alone, has_target=False)
    )
    ways: list[tuple[str, Callable[[Repository], Callable[[str], object]]]] = [
        ("a list, question and answer one by one", lambda repo: _in_two(repo.list("talk", plane="branch").append)),
        ("... commit_each=False", lambda repo: _in_two(repo.list("talk", plane="branch", commit_each=False).append)),
    ]
    if importlib.util.find_spec("agents") is not None:
        ways.append(("OpenAI Agents SDK", lambda repo: _openai(repo)[0]))
    if has_langgraph:
        ways.append(("LangGraph on AgentKernelSaver", lambda repo: _langgraph(repo)[0]))
    for name, begin in ways:
        grown = _session_grown(bench, turns, begin)
        row = _row(f"In such a session: {name}", grown, less=alone)
        table.rows.append(row)
    table.notes.append(
        "in such a session: the target is for what the conversation adds to the same commits without one"
    )


def _session_grown(bench: Bench, turns: int, begin: Callable[[Repository], Callable[[str], object]]) -> _Grown:
    work = Path(tempfile.mkdtemp(prefix="conversation-", dir=bench.folder))
    try:
        with closing(Repository.open(work / "store")) as repo, Versioned(repo) as state:
            say = begin(repo)

            def add(text: str) -> None:
                say(text)
                state["turns"] = state.get("turns", 0) + 1  # type: ignore[operator]  # pyright: ignore[reportOperatorIssue]
                state.commit("a turn")

            return _grown(work, turns, add)
    finally:
        shutil.rmtree(work)


def _in_two(add: Callable[[str], object]) -> Callable[[str], None]:
    def say(text: str) -> None:
        add(text[: _TURN_BYTES // 2])
        add(text[_TURN_BYTES // 2 :])

    return say


# A way begins a conversation in a store. It returns what adds a turn, and what ends it.
_Way: TypeAlias = Callable[[Any], tuple[Callable[[str], object], Callable[[], object]]]


def _grown_by(bench: Bench, turns: int, begin: _Way) -> _Grown:
    work = Path(tempfile.mkdtemp(prefix="conversation-", dir=bench.folder))
    add, close = begin(work / "store")
    try:
        return _grown(work, turns, add)
    finally:
        close()
        shutil.rmtree(work)


def _memory(place: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
    repo = Repository.open(place)
    memory = repo.state("ada", "talk").memory(1_000)

    def add(text: str) -> None:
        memory.add("user", text[: _TURN_BYTES // 2])
        memory.add("assistant", text[_TURN_BYTES // 2 :])

    return add, repo.close


def _openai(place: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
    from agent_kernel.integrations.openai_agents import AgentKernelSession

    session: Any = AgentKernelSession("talk", place)

    async def say(role: str, content: str) -> None:
        await session.add_items([{"role": role, "content": content}])

    def add(text: str) -> None:
        asyncio.run(say("user", text[: _TURN_BYTES // 2]))
        asyncio.run(say("assistant", text[_TURN_BYTES // 2 :]))

    return add, session.close


def _agentscope(place: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
    """A message is a text and much about it: both together are as long as what others say."""
    from agentscope.app.storage import SessionConfig
    from agentscope.message import AssistantMsg, UserMsg

    from agent_kernel.integrations.agentscope import AgentKernelStorage

    storage: Any = AgentKernelStorage(place)
    session: Any = asyncio.run(storage.upsert_session("ada", "agent", SessionConfig(workspace_id="w")))

    async def say(message: Any, text: str) -> None:
        room = _TURN_BYTES // 2 - len(message(name="someone", content="").model_dump_json())
        await storage.upsert_message("ada", session.id, message(name="someone", content=text[:room]))

    def add(text: str) -> None:
        asyncio.run(say(UserMsg, text[: _TURN_BYTES // 2]))
        asyncio.run(say(AssistantMsg, text[_TURN_BYTES // 2 :]))

    return add, storage.repo.close


def _langgraph(place: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
    from agent_kernel.integrations.langgraph import AgentKernelSaver

    saver = AgentKernelSaver(place)
    return _graph_on(saver), saver.repo.close


def _langgraph_on_sqlite(place: Path) -> tuple[Callable[[str], object], Callable[[], object]]:
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(place, check_same_thread=False)
    return _graph_on(SqliteSaver(connection)), connection.close


def _graph_on(saver: Any) -> Callable[[str], object]:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    answers: list[str] = []
    graph: Any = StateGraph(MessagesState)
    graph.add_node("agent", lambda _: {"messages": [AIMessage(answers.pop())]})
    graph.add_edge(START, "agent")
    graph.add_edge("agent", END)
    app = graph.compile(checkpointer=saver)

    def add(text: str) -> None:
        answers.append(text[_TURN_BYTES // 2 :])
        question = HumanMessage(text[: _TURN_BYTES // 2])
        app.invoke({"messages": [question]}, {"configurable": {"thread_id": "talk"}})

    return add


def _has_sqlite_saver() -> bool:
    try:
        return importlib.util.find_spec("langgraph.checkpoint.sqlite") is not None
    except ImportError:
        return False
