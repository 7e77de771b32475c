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
from typing import TYPE_CHECKING, Any, NamedTuple

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
    table.rows.append(_row("... in a session that commits each turn with a variable", _session_grown(bench, turns)))
    if importlib.util.find_spec("agents") is not None:
        table.rows.append(_row("OpenAI Agents SDK, question and answer one by one", _openai_grown(bench, turns)))
    else:
        table.notes.append("left out: the OpenAI Agents SDK is not installed (pip install openai-agents)")
    if importlib.util.find_spec("langgraph") is None or importlib.util.find_spec("langchain_core") is None:
        table.notes.append('left out: langgraph is not installed (pip install "agent-kernel[langgraph]" langgraph)')
        return table
    table.rows.append(_row("LangGraph on AgentKernelSaver", _graph_grown(bench, _our_saver, turns)))
    if _has_sqlite_saver():
        row = _row("LangGraph on SqliteSaver", _graph_grown(bench, _sqlite_saver, turns), has_target=False)
        table.rows.append(row)
    else:
        table.notes.append("left out: SqliteSaver is not installed (pip install langgraph-checkpoint-sqlite)")
    table.notes.append(f"a row has as many turns as were done within {_LIMIT_S:.0f} s, and at most {turns:,}")
    table.notes.append("later half: what the files grew by in the later half of the turns, against the text of these")
    table.notes.append(
        f"after {_TURNS:,}: what so many take if the files go on to grow as in the later half, which is what must be reached"
    )
    table.notes.append("LangGraph: a question and an answer of 1,024 bytes each; every checkpoint stays")
    return table


def _row(what: str, grown: _Grown, *, has_target: bool = True) -> Row:
    ratio, shown = grown.ratio, f"{size(grown.taken)} = {times(grown.ratio)} the text"
    if grown.turns < _TURNS and has_target:  # what has none grows with the square
        ratio = (grown.ratio * grown.turns + grown.late_ratio * (_TURNS - grown.turns)) / _TURNS
        shown += f"; later half {times(grown.late_ratio)}, so {times(ratio)} after {_TURNS:,}"
    return Row(
        f"{what}, {grown.turns:,} turns",
        shown,
        f"≤ {_MOST:g}× the text" if has_target else "",
        ratio <= _MOST if has_target else None,
        beside=f"{ms(grown.turn_s)} a turn",
        numbers={"turns": grown.turns, "bytes": grown.taken, "ratio": grown.ratio, "late_ratio": grown.late_ratio},
    )


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


def _session_grown(bench: Bench, turns: int) -> _Grown:
    work = Path(tempfile.mkdtemp(prefix="conversation-", dir=bench.folder))
    try:
        with closing(Repository.open(work / "store")) as repo, Versioned(repo) as state:
            talk = repo.list("conversation", plane="branch")

            def add(text: str) -> None:
                talk.append(text[: _TURN_BYTES // 2])
                talk.append(text[_TURN_BYTES // 2 :])
                state["turns"] = len(talk)
                state.commit("a turn")

            return _grown(work, turns, add)
    finally:
        shutil.rmtree(work)


def _openai_grown(bench: Bench, turns: int) -> _Grown:
    from agent_kernel.integrations.openai_agents import AgentKernelSession

    work = Path(tempfile.mkdtemp(prefix="conversation-", dir=bench.folder))
    session: Any = AgentKernelSession("talk", work / "store")

    async def say(role: str, content: str) -> None:
        await session.add_items([{"role": role, "content": content}])

    def add(text: str) -> None:
        asyncio.run(say("user", text[: _TURN_BYTES // 2]))
        asyncio.run(say("assistant", text[_TURN_BYTES // 2 :]))

    try:
        return _grown(work, turns, add)
    finally:
        session.close()
        shutil.rmtree(work)


def _graph_grown(bench: Bench, open_saver: Callable[[Path], tuple[Any, Callable[[], None]]], turns: int) -> _Grown:
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    work = Path(tempfile.mkdtemp(prefix="conversation-", dir=bench.folder))
    saver, close = open_saver(work)
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

    try:
        return _grown(work, turns, add)
    finally:
        close()
        shutil.rmtree(work)


def _our_saver(work: Path) -> tuple[Any, Callable[[], None]]:
    from agent_kernel.integrations.langgraph import AgentKernelSaver

    saver = AgentKernelSaver(work / "store")
    return saver, saver.repo.close


def _has_sqlite_saver() -> bool:
    try:
        return importlib.util.find_spec("langgraph.checkpoint.sqlite") is not None
    except ImportError:
        return False


def _sqlite_saver(work: Path) -> tuple[Any, Callable[[], None]]:
    import sqlite3

    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(work / "threads.db", check_same_thread=False)
    return SqliteSaver(connection), connection.close
