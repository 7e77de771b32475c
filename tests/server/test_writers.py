"""A kernel writes while its history is looked at: neither waits for the other, and the map grows under both."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from agent_kernel.commands.places import store_path_of
from tests.server.servers import ROOT, Server

COMMITS = 60
# A small map at first, so that it grows many times over while it is being read.
WRITER = """
import os, sys, time
from agent_kernel.session import Repository, bind
from agent_kernel.storage.lmdb import LmdbStore

namespace, slowest = {}, 0.0
repo = Repository.open(LmdbStore(sys.argv[1], map_size=1 << 16))
repo.trust()
session = bind(namespace, repo, skip=lambda name: name.startswith("__"))
print("ready", flush=True)
for number in range(int(sys.argv[2])):
    session.begin_cell(f"x = {number}", cell_id=f"cell-{number}", number=number)
    namespace["x"] = os.urandom(300_000)
    started = time.perf_counter()
    session.end_cell()
    slowest = max(slowest, time.perf_counter() - started)
    time.sleep(0.01)
session.close()
repo.close()
print(slowest, flush=True)
"""


def test_reading_and_writing_at_the_same_time(server: Server) -> None:
    notebook = server.root / "busy.ipynb"
    notebook.write_text("{}")
    store = store_path_of(notebook)
    command = [sys.executable, "-c", WRITER, str(store), str(COMMITS)]
    slowest_s, seen = 0.0, [0]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        id = server.store("busy.ipynb")
        while writer.poll() is None:
            started = time.perf_counter()
            answer = server.get(f"/stores/{id}/open", n=20)
            slowest_s = max(slowest_s, time.perf_counter() - started)
            assert answer.status == 200, answer
            seen.append(answer.body["page"]["commits"])
            time.sleep(0.01)
        slowest_commit_s = float(writer.stdout.read())
    assert writer.returncode == 0
    assert seen == sorted(seen), "a history only grows"
    assert len(set(seen)) > 3, "it was read while it was written"
    assert server.get(f"/stores/{id}/open", n=20).body["page"]["commits"] == COMMITS
    assert _size(store) > 1 << 20, "the map grew"
    assert max(slowest_s, slowest_commit_s) < 5, "neither waited for a lock of the other"


def _size(store: Path) -> int:
    return (store / "data.mdb").stat().st_size
