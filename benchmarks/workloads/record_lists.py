"""What a conversation of thousands of turns takes from the disk, each turn stored durably on its own."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.session import Repository
from benchmarks.bench import Bench
from benchmarks.tables import Row, Table, ms, size, times

if TYPE_CHECKING:
    from agent_kernel.records.schema import Plane

_TURN_BYTES = 2_048
_SIGNS = "".join(sign for sign in map(chr, range(33, 127)) if sign not in '"\\')


def run(bench: Bench) -> Table:
    """Append turns of random text, which no program makes much smaller, and look at the file (repo.list)."""
    turns = 1_000 if bench.quick else 10_000
    table = Table(f"A conversation of {turns:,} turns of {_TURN_BYTES:,} bytes of random text (repo.list)")
    for plane in ("store", "branch"):
        table.rows += _rows(bench, plane, turns, 1.2)  # type: ignore[arg-type]  # of a tuple only str is known
    table.notes.append("branch: each turn is a commit, which has a place of its own in the file and a checkout goes to")
    return table


def _rows(bench: Bench, plane: Plane, turns: int, most: float) -> list[Row]:
    work = Path(tempfile.mkdtemp(prefix="record-lists-", dir=bench.folder))
    lot, own, spent = random.Random(0), 0, list[float]()
    try:
        with closing(Repository.open(work / "store")) as repo:
            conversation = repo.list("conversation", plane=plane)
            for _ in range(turns):
                text = "".join(lot.choices(_SIGNS, k=_TURN_BYTES))
                own += len(text)
                began = time.perf_counter()
                conversation.append(text)
                spent.append(time.perf_counter() - began)
            began = time.perf_counter()
            conversation.items(limit=20)
            newest_s = time.perf_counter() - began
        taken = (work / "store" / "data.mdb").stat().st_blocks * 512
    finally:
        shutil.rmtree(work)
    ratio = taken / own
    return [
        Row(
            f"file, plane {plane}",
            f"{size(taken)} = {times(ratio)} the text",
            f"≤ {most:g}× the text",
            ratio <= most,
            beside=f"text {size(own)}",
            numbers={"ratio": ratio, "bytes": taken},
        ),
        Row(f"appending a turn, plane {plane}", ms(sorted(spent)[len(spent) // 2]), beside="median"),
        Row(f"the newest 20 turns, plane {plane}", ms(newest_s)),
    ]
