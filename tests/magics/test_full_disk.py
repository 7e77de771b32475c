"""A full disk costs no work: the cell is told of, and the next commit takes along what it changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.errors import StoreFullError
from agent_kernel.storage import LmdbStore
from tests.magics.shells import Shell


def test_what_found_no_room_is_in_the_next_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("x = 1")

        def is_full(store: LmdbStore, *_: object) -> bool:
            raise StoreFullError(store.url)

        with monkeypatch.context() as patched:
            patched.setattr(LmdbStore, "swap", is_full)
            told = shell.run("y = 2").err
        assert told.count("\n") == 1
        assert "free some space, and the next commit takes these changes along" in told
        assert "again" not in told
        shell.run("z = 3")
        assert {change["name"] for change in shell.log("-n 1")[0]["changed"]} == {"y", "z"}
