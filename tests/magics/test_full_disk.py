"""A full disk costs no work: the cell is told of, and the next commit takes along what it changed."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.errors import StoreFullError
from agent_kernel.magics import binding
from agent_kernel.repository.objects import Writer
from agent_kernel.session.staging import AliasGrouping
from agent_kernel.session.workspace import Detector
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


def test_a_full_disk_at_the_start_says_how_to_begin_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def is_full(*_: object, **__: object) -> None:
        raise StoreFullError("lmdb:///s")

    with monkeypatch.context() as patched:
        patched.setattr(binding, "open_store", is_full)
        shell = Shell(store=str(tmp_path / "store"))
        shell.__enter__()
    try:
        told = capsys.readouterr().err
        assert told == (
            "[agent] cells are not committed: no room left for lmdb:///s; free some space, then run %agent bind"
            " (%agent bind PLACE puts the store elsewhere)\n"
        )
        shell.run("x = 1")
        shell.run("%agent bind")
        shell.run("y = 2")
        assert {change["name"] for commit in shell.log() for change in commit["changed"]} == {"x", "y"}
    finally:
        shell.__exit__()


def test_what_goes_wrong_in_saving_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with Shell() as shell:
        shell.run("x = [1]")
        with monkeypatch.context() as patched:
            patched.setattr(AliasGrouping, "dump_sharing", lambda _: 1 / 0)
            told = shell.run("x.append(2); y = 1")
        assert (told.out + told.err).count("\n") == 1
        assert "Traceback" not in told.out + told.err
        assert "saving failed (ZeroDivisionError: division by zero)" in told.out
        shell.run("z = 3")
        assert {change["name"] for change in shell.log("-n 1")[0]["changed"]} == {"x", "y", "z"}


def test_what_several_cells_changed_on_a_full_disk_is_in_the_next_commit(tmp_path: Path) -> None:
    """Also what no later cell mentions, before the look in the background comes to it."""
    with Shell(store=str(tmp_path / "s")) as shell, pytest.MonkeyPatch.context() as patched:
        patched.setattr(Detector, "choose_for_verification", lambda *_: [])
        shell.run("x = [1]; y = {'a': x}; z = [0]; n = [5]\ndef f(): n.append(6)")

        def is_full(*_: object, **__: object) -> None:
            raise StoreFullError("s")

        for place, method in ((LmdbStore, "swap"), (Writer, "add")):
            with pytest.MonkeyPatch.context() as full:
                full.setattr(place, method, is_full)
                assert "not committed" in shell.run("x.append(2)").err
                assert "not committed" in shell.run("f()").err
                assert "not committed" in shell.run("z[0] += 1").err
            shell.run("other = 1")
            changed = {change["name"] for change in shell.log()[0]["changed"]}
            assert changed == {"other", "x", "y", "z", "n"} if place is LmdbStore else {"x", "y", "z", "n"} <= changed
            shell.run("nothing = 1")
            assert {change["name"] for change in shell.log()[0]["changed"]} == {"nothing"}
            shell.run("del other, nothing")
