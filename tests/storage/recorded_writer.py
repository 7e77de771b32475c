"""The process whose writes are recorded: `recorded_writer.py FOLDER COMMITS default|full|unsynced`."""

from __future__ import annotations

import os
import random
import sys
from functools import partial
from pathlib import Path
from typing import Literal

import lmdb

from agent_kernel.storage import LmdbStore
from tests.storage import history


def main(folder: Path, commits: int, mode: str) -> None:
    if mode == "unsynced":  # what the store never does, to show that the replay would notice
        lmdb.open = partial(lmdb.open, sync=False)  # type: ignore[assignment]  # a class in the stubs
    durability: Literal["default", "full"] = "full" if mode == "full" else "default"
    acks = os.open(folder.parent / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    rng = random.Random(5)
    store = LmdbStore(folder, durability=durability)
    for _ in range(commits):
        os.write(acks, b"%d" % history.commit(store, rng, largest=60_000))
        if rng.random() < 0.2:
            history.forget(store, keep=4)  # pages are used again, which is when losing a write hurts
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
