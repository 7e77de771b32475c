"""Commits, collections and sudden deaths at the same time: nothing that was acknowledged is lost."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.repository.commits import Commit, Entry, Kind, Manifest, encode
from agent_kernel.repository.objects import Pieces, digest_pieces, plan_cuts, store_blob
from agent_kernel.repository.repository import Repository
from agent_kernel.storage import LmdbStore
from tests.support.repositories import AUTHOR, commit_values, switch

_FLIPS = [random.Random(number).randbytes(20_000) for number in range(3)]


def _flip(repo: Repository, session: str, content: bytes, known: Pieces | None) -> Pieces:
    """Commit an array that was there before, and is garbage while another one is."""
    while True:
        writer = repo.writer()
        cuts = plan_cuts(len(content))
        blob, pieces = store_blob(writer, content, cuts, digest_pieces(content, cuts), known)
        manifest = writer.add(Kind.MANIFEST, encode(Manifest(blobs=(blob,), size=len(content))))
        head = repo.head(session)
        tree = repo.tree_at(head.commit).edit(writer, {"array": Entry(manifest=manifest)})
        commit = Commit(tree=tree.id, author=AUTHOR, time_ns=time.time_ns())  # no parents: the last one is dropped
        try:
            repo.publish(writer, commit, head=head, session=session, message="")
        except StoreUnavailableError:
            continue
        return pieces


def test_collections_among_commits_take_nothing_that_is_needed(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "store")
    base = commit_values(Repository.open(store), {"start": "0"})
    stop = Event()

    def commit(number: int) -> int:
        repo, rng, done = Repository.open(store), random.Random(number), 0
        name = f"branch{number}"
        repo.create_branch(name, base)
        switch(repo, name, session=name)
        known: list[Pieces | None] = [None] * len(_FLIPS)
        while not stop.is_set():
            which = rng.randrange(len(_FLIPS))
            known[which] = _flip(repo, name, _FLIPS[which], known[which])
            done += 1
        return done

    def collect() -> int:
        repo, deleted = Repository.open(store), 0
        while not stop.is_set():
            store.delete_many(list(repo.pointers.keys(b"g/")))  # reflogs would keep everything
            deleted += repo.gc(grace_s=0).objects_deleted
        return deleted

    with ThreadPoolExecutor(4) as pool:
        commits = [pool.submit(commit, number) for number in range(3)]
        deleted = pool.submit(collect)
        time.sleep(2.5)
        stop.set()
        assert all(made.result() > 5 for made in commits)
        assert deleted.result() > 20
    repo = Repository.open(store)
    assert repo.verify().is_sound
    assert all("array" in repo.tree_at(id) for name, id in repo.branches().items() if name != "main")
    repo.close()


_COMMITTER = """
import sys
from agent_kernel.repository.repository import Repository
from tests.support.repositories import commit_values
repo = Repository.open(sys.argv[1])
number = 0
while True:
    commit_values(repo, {f"x{number % 50}": str(number)})
    print(repo.head("s").commit.hex(), flush=True)
    number += 1
"""


def test_a_killed_writer_leaves_all_that_it_acknowledged(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    for seed in range(4):
        child = subprocess.Popen([sys.executable, "-c", _COMMITTER, path], stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        lines = [child.stdout.readline()]
        time.sleep(random.Random(seed).random() * 0.3)
        child.kill()
        lines += child.communicate()[0].splitlines()
        acknowledged = [line.strip() for line in lines if len(line.strip()) == 66]
        with Repository.open(path, create=False) as repo:
            assert repo.verify().is_sound
            tip = repo.head("s").commit
            assert tip is not None
            assert set(acknowledged) <= {id.hex() for id, _ in repo.log(tip)}
