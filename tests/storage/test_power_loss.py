"""After a power loss the store opens, whole: with full durability nothing acknowledged is lost, else one commit.

A writer runs under a recorder of its writes and syncs. Then the moment of the loss is chosen at random, and of what was
written since the last sync only a random part, in 4 KB pages and any order, is taken to have reached the disk. Real
disks are kinder than that. Torn pages and lost file lengths are not modelled.
"""

from __future__ import annotations

import faulthandler
import os
import random
import shutil
import struct
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from agent_kernel.errors import AgentKernelError
from agent_kernel.storage import LmdbStore
from tests.storage import history
from tests.storage.children import Child

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HEAD = struct.Struct("<c7xQQ")
PAGE = 4096
META_BYTES = 2 * PAGE


class Event(NamedTuple):
    kind: str
    offset: int
    content: bytes


class Loss(NamedTuple):
    """What the disk holds after a power loss; `named`: the data file has its place in the folder."""

    image: bytes
    acknowledged: int
    named: bool


@pytest.fixture(scope="module")
def recorder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler and Linux")
    library = tmp_path_factory.mktemp("recorder") / "recorder.so"
    source = str(HERE / "recorder.c")
    subprocess.run([compiler, "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), source, "-ldl"], check=True)
    return library


def _recorded(recorder: Path, folder: Path, commits: int, mode: str) -> list[Event]:
    record = folder / "record"
    environment = {**os.environ, "LD_PRELOAD": str(recorder), "RECORD": str(record), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(HERE / "recorded_writer.py"), str(folder / "store"), str(commits), mode]
    subprocess.run(command, env=environment, check=True, timeout=300)
    raw = record.read_bytes()
    events: list[Event] = []
    at = 0
    while at < len(raw):
        kind, offset, count = HEAD.unpack_from(raw, at)
        at += HEAD.size
        events.append(Event(kind.decode(), offset, raw[at : at + count]))
        at += count
    assert Counter(event.kind for event in events)["a"] == commits
    return events


def _pages(event: Event) -> list[Event]:
    pages: list[Event] = []
    at = 0
    while at < len(event.content):
        count = PAGE - (event.offset + at) % PAGE
        pages.append(Event("w", event.offset + at, event.content[at : at + count]))
        at += count
    return pages


def _write(image: bytearray, event: Event) -> None:
    end = event.offset + len(event.content)
    if len(image) < end:
        image.extend(bytes(end - len(image)))
    image[event.offset : end] = event.content


def _survivors(pending: list[Event], rng: random.Random) -> list[Event]:
    chance = rng.random()
    if chance < 0.1 or not pending:
        return []
    if chance < 0.2:
        return pending
    if chance < 0.5:
        return [page for page in pending if rng.random() < 0.5]
    if chance < 0.75:  # the pages that say what is valid first, most of what they speak of never
        return [page for page in pending if page.offset < META_BYTES or rng.random() < 0.2]
    lost = rng.randrange(len(pending))
    return pending[:lost] + pending[lost + 1 :]


def _lose_power(events: list[Event], rng: random.Random) -> Loss:
    image = bytearray()
    pending: list[Event] = []
    acknowledged, named = 0, False
    being_made = 16  # events; a store is young only once, so look there more often
    for event in events[: rng.randrange(being_made if rng.random() < 0.1 else len(events) + 1)]:
        if event.kind == "w":
            pending += _pages(event)
        elif event.kind == "d":
            _write(image, event)
        elif event.kind == "s":
            for page in pending:
                _write(image, page)
            pending = []
        elif event.kind == "l":
            named = True
        else:
            acknowledged = int(event.content)
    for page in _survivors(pending, rng):
        _write(image, page)
    return Loss(bytes(image), acknowledged, named)


def _verdict(folder: Path, loss: Loss) -> str:
    shutil.rmtree(folder, ignore_errors=True)
    place = folder if loss.named else folder / ".new-aside"
    place.mkdir(parents=True)
    (place / "data.mdb").write_bytes(loss.image)

    def look() -> str:
        faulthandler.disable()  # a crash is an answer here
        try:
            store = LmdbStore(folder)
        except AgentKernelError as error:
            return f"damaged: {error}"
        last = history.head(store)
        return history.fault(store, 0) or f"lost {max(loss.acknowledged - last, 0)}"

    with Child(lambda report: report(look().encode())) as child:
        answer, status = child.wait()
    return answer.decode() if status == 0 else f"damaged: its reader ended with {status}"


def _verdicts(recorder: Path, folder: Path, mode: str, losses: int) -> Counter[str]:
    events = _recorded(recorder, folder, 60, mode)
    rng = random.Random(7)
    states = (_lose_power(events, rng) for _ in range(losses))
    found = Counter(map(partial(_verdict, folder / "after"), states))
    print(mode, dict(found.most_common(6)))
    return found


def test_the_recorder_sees_a_store_being_made(recorder: Path, tmp_path: Path) -> None:
    events = _recorded(recorder, tmp_path, 3, "full")
    assert {event.kind for event in events} == set("wdsla")
    image = bytearray()
    for event in events:
        if event.kind in "wd":
            _write(image, event)
    assert bytes(image) == (tmp_path / "store" / "data.mdb").read_bytes()[: len(image)]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_full_durability_loses_nothing(recorder: Path, tmp_path: Path) -> None:
    assert set(_verdicts(recorder, tmp_path, "full", 5_000)) == {"lost 0"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_by_default_at_most_the_last_commit_is_lost(recorder: Path, tmp_path: Path) -> None:
    assert set(_verdicts(recorder, tmp_path, "default", 5_000)) <= {"lost 0", "lost 1"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_replay_notices_a_store_that_does_not_sync(recorder: Path, tmp_path: Path) -> None:
    found = _verdicts(recorder, tmp_path, "unsynced", 300)
    assert set(found) - {"lost 0", "lost 1"}
