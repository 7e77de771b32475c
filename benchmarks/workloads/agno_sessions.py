"""What a session of agno takes that grows by a run at a time: in `AgentKernelDb`, and in agno's own `SqliteDb`."""

from __future__ import annotations

import importlib.util
import json
import random
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.bench import Bench
from benchmarks.tables import Row, Table, ms, size, times

_TEXT_BYTES = 2_048
_MOST = 1.2
_SIGNS = "".join(sign for sign in map(chr, range(33, 127)) if sign not in '"\\')


class _Measured(NamedTuple):
    own: int  # bytes of the runs as JSON
    taken: int  # bytes of the files
    upsert_s: float
    late_s: float  # of the last tenth
    read_s: float


def run(bench: Bench) -> Table:
    """Store a session and its new run after each run, as an agent does, and look at the files."""
    runs = 200 if bench.quick else 2_000
    table = Table(f"A session of agno that grows by {runs:,} runs with {_TEXT_BYTES:,} bytes of random text each")
    if any(importlib.util.find_spec(name) is None for name in ("agno", "sqlalchemy", "aiosqlite")):
        table.notes.append('left out: agno is not installed (pip install "agno[sqlite]")')
        return table
    theirs = _measured(bench.folder, "SqliteDb", runs)
    for plane in ("store", "branch"):
        ours = _measured(bench.folder, plane, runs)
        table.rows += _rows(plane, ours, theirs)
    table.notes.append("same run: SqliteDb. The text lies in a run twice, as the answer and as a message")
    table.notes.append(
        "branch: each upsert is a commit, with a place of its own in the file, and a checkout goes to it"
    )
    return table


def _rows(plane: str, ours: _Measured, theirs: _Measured) -> list[Row]:
    ratio, their_ratio = ours.taken / ours.own, theirs.taken / theirs.own
    has_target = plane == "store"
    return [
        Row(
            f"files, plane {plane}",
            f"{size(ours.taken)} = {times(ratio)} the runs",
            f"≤ {_MOST:g}× the runs" if has_target else "",
            ratio <= _MOST if has_target else None,
            beside=f"{size(theirs.taken)} = {times(their_ratio)}",
            numbers={"ratio": ratio, "bytes": ours.taken, "sqlite_bytes": theirs.taken},
        ),
        _time(f"storing session and run, plane {plane}", ours.upsert_s, theirs.upsert_s),
        _time(f"the same, of the last tenth, plane {plane}", ours.late_s, theirs.late_s),
        _time(f"reading the session with its last 20 runs, plane {plane}", ours.read_s, theirs.read_s),
    ]


def _time(what: str, ours_s: float, theirs_s: float) -> Row:
    return Row(what, ms(ours_s), beside=ms(theirs_s), numbers={"seconds": ours_s, "sqlite_seconds": theirs_s})


def _measured(folder: Path, where: str, runs: int) -> _Measured:
    from agno.run.agent import RunOutput
    from agno.session import AgentSession

    work = Path(tempfile.mkdtemp(prefix="agno-sessions-", dir=folder))
    lot, own, spent = random.Random(0), 0, list[float]()
    try:
        db = _open(work, where)
        session = AgentSession(session_id="talk", agent_id="helper", session_data={"session_state": {"turn": 0}})
        db.upsert_session(session)
        for number in range(runs):
            turn: Any = RunOutput.from_dict(_turn(lot, number))
            own += len(json.dumps(turn.to_dict()))
            began = time.perf_counter()
            session.session_data = {"session_state": {"turn": number}}
            db.upsert_session(session)
            db.upsert_run(turn, "talk", run_index=number)
            spent.append(time.perf_counter() - began)
        began = time.perf_counter()
        found: Any = db.get_session("talk", runs_limit=20)
        read_s = time.perf_counter() - began
        assert [one.run_id for one in found.runs] == [f"run-{number}" for number in range(runs - 20, runs)]
        db.close()
        taken = sum(file.stat().st_blocks * 512 for file in work.rglob("*") if file.is_file())
    finally:
        shutil.rmtree(work)
    return _Measured(own, taken, median(spent), median(spent[-(runs // 10) :]), read_s)


def _open(work: Path, where: str) -> Any:
    if where == "SqliteDb":
        from agno.db.sqlite import SqliteDb

        return SqliteDb(db_file=str(work / "agno.db"))
    from agent_kernel.integrations.agno import AgentKernelDb

    return AgentKernelDb(work / "store", plane="branch" if where == "branch" else "store")


def _turn(lot: random.Random, number: int) -> dict[str, Any]:
    """A run as an agent makes it: a question and an answer."""
    text = "".join(lot.choices(_SIGNS, k=_TEXT_BYTES))
    question, answer = text[: _TEXT_BYTES // 8], text[_TEXT_BYTES // 8 :]
    said = [("user", question), ("assistant", answer)]
    return {
        "run_id": f"run-{number}",
        "agent_id": "helper",
        "session_id": "talk",
        "content": answer,
        "content_type": "str",
        "status": "COMPLETED",
        "created_at": 1_700_000_000 + number,
        "messages": [
            {"role": role, "content": content, "created_at": 1_700_000_000 + number} for role, content in said
        ],
        "input": {"input_content": question},
    }
