"""Where a person put the store: later sessions find it, and a store that is gone or cannot be written is told of."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_kernel.commands.places import find_redirect, find_store, remember, store_path_of
from agent_kernel.errors import NewerFormatError, NotAStoreError, StoreReadOnlyError
from agent_kernel.storage import LmdbStore
from tests.magics.shells import Shell


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def notebook(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "study.ipynb"))
    return folder / "study.ipynb"


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in use cannot be removed there")
class TestAFolder:
    def test_that_is_gone_stops_no_command(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (folder / "w").mkdir()
        monkeypatch.chdir(folder / "w")
        with Shell(store=str(folder / "s.lmdb")) as shell:
            shell.run("x = 1")
            (folder / "w").rmdir()
            assert shell.run("x = 2").out == ""
            assert f"Store: {folder}" in shell.run("%agent status").out
            for command in ("%agent bind", "%agent log", "%agent checkout HEAD~1", "%agent stats", "%agent verify"):
                assert shell.run(command).result.success, command
            said = shell.run("%agent bind other")
            assert "UsageError: [Errno" in said.out + said.err
            assert "Traceback" not in said.out + said.err
            monkeypatch.chdir(folder)  # or IPython itself cannot end

    @pytest.mark.skipif(sys.platform != "linux", reason="names are text elsewhere")
    def test_whose_name_is_no_text_may_be_worked_in(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "\udcff").mkdir()
        monkeypatch.chdir(folder / "\udcff")
        monkeypatch.setattr(sys, "path", [*sys.path, str(folder / "\udcff" / "\udcfe")])
        with Shell() as shell:  # the store of a terminal lies elsewhere
            assert "commit on branch main" in shell.loaded
            assert shell.run("x = 1").out == ""
            assert shell.log()[0]["changed"]
        monkeypatch.setenv("JPY_SESSION_NAME", str(folder / "\udcff" / "study.ipynb"))
        with Shell():
            assert "not text; %agent bind PLACE puts the store elsewhere" in capsys.readouterr().err

    def test_whose_path_is_too_long_is_told_of(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        with Shell(store=str(folder / ("n" * 300))):
            said = capsys.readouterr().err
        assert "cells are not committed: " in said
        assert "too long" in said


class TestTheNextSession:
    def test_of_a_notebook_finds_the_store_that_was_bound(self, notebook: Path) -> None:
        with Shell() as shell:
            assert "the next session of study.ipynb finds it here" in shell.run("%agent bind shop.lmdb").out
            shell.run("basket = ['tea']")
        with Shell() as shell:
            assert "commit on branch main of shop.lmdb" in shell.loaded
            assert "brings back 1 variable" in shell.loaded
            shell.run("%agent checkout")
            assert shell.ns["basket"] == ["tea"]

    def test_of_a_terminal_in_the_same_folder_finds_it(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Shell() as shell:
            assert "the next terminal in this folder finds it here" in shell.run("%agent bind shop.lmdb").out
            shell.run("basket = ['tea']")
        with Shell() as shell:
            assert "commit on branch main of shop.lmdb" in shell.loaded
        (folder / "other").mkdir()
        monkeypatch.chdir(folder / "other")
        with Shell() as shell:
            assert "terminals" in shell.loaded  # another folder has its own

    def test_goes_back_to_the_own_place_when_that_is_bound(self, notebook: Path) -> None:
        with Shell() as shell:
            shell.run("%agent bind shop.lmdb")
            shell.run("%agent bind .agent-kernel/study")
        with Shell() as shell:
            assert "main of .agent-kernel/study;" in shell.loaded

    def test_is_told_where_the_configured_place_wins(self, folder: Path) -> None:
        with Shell(store=str(folder / "mine")) as shell:
            assert "c.AgentKernel.store says so" in shell.run("%agent bind shop.lmdb").out
        with Shell(store=str(folder / "mine")) as shell:
            assert "main of mine" in shell.loaded

    def test_is_told_in_a_line_that_the_store_is_gone_and_uses_no_other(self, notebook: Path) -> None:
        with Shell() as shell:
            shell.run("%agent bind shop.lmdb")
            shell.run("x = 1")
        shutil.rmtree("shop.lmdb")
        shell = Shell()
        with shell:
            assert shell.extension.notebook.session is None
            failed = shell.run("%agent bind").err
            assert "shop.lmdb cannot be used: it was bound here, and is not there any more" in failed
            assert "%agent bind .agent-kernel/study goes back" in failed
            assert "this is a new store" in shell.run("%agent bind shop.lmdb").out
            shell.run("x = 2")
            assert len(shell.log()) == 1

    def test_finds_it_beside_a_notebook_that_was_moved_with_it(self, notebook: Path) -> None:
        with Shell() as shell:
            shell.run("%agent bind shop.lmdb")
        own = store_path_of(notebook)
        assert json.loads((own / "bound.json").read_text()) == {"version": 1, "store": "shop.lmdb"}
        assert (own / ".gitignore").read_text() == "*\n"
        assert find_redirect(own) == notebook.parent / "shop.lmdb"
        assert find_store("study.ipynb") == str(notebook.parent / "shop.lmdb")  # the command line, too

    @pytest.mark.parametrize(
        ("note", "error"),
        [
            ('{"version": 2, "store": "x"}', NewerFormatError),
            ("{}", NotAStoreError),
            ("[]", NotAStoreError),
            ("\udcff", NotAStoreError),
            ('{"version": 1, "store": "a\\u0000b"}', NotAStoreError),
            ("[" * 60_000, NotAStoreError),
        ],
    )
    def test_does_not_guess_what_a_broken_note_means(self, folder: Path, note: str, error: type[Exception]) -> None:
        own = folder / "own"
        own.mkdir()
        (own / "bound.json").write_text(note, errors="surrogateescape")
        with pytest.raises(error):
            find_redirect(own)
        remember(own, "lmdb:///somewhere/else")
        assert find_redirect(own) == Path("/somewhere/else")

    @pytest.mark.parametrize("made", ["device", "pipe"])
    def test_reads_no_note_that_never_ends(self, folder: Path, made: str) -> None:
        own = folder / "own"
        own.mkdir()
        if made == "pipe":
            os.mkfifo(own / "bound.json")
        else:
            (own / "bound.json").symlink_to("/dev/zero")
        with pytest.raises(NotAStoreError, match="it is not a regular file"):
            find_redirect(own)


class TestAStoreWhoseFolderIsRemoved:
    def test_costs_a_line_a_cell_that_says_what_to_do(self, folder: Path) -> None:
        with Shell(store=str(folder / "store")) as shell:
            shell.run("x = 1")
            shutil.rmtree(folder / "store")
            typed = shell.run("y = 1")
            assert typed.result.success
            assert typed.err.count("\n") == 1
            assert "this cell is not committed" in typed.err
            assert "%agent bind store opens it or makes it anew" in typed.err

    @pytest.mark.parametrize(
        "verb",
        ["status", "bind", "undo", "checkout", "commit -m x", "ignore x", "gc", "stats", "branch k", "forget x --yes"],
    )
    def test_makes_every_verb_that_needs_it_say_so_in_a_line(self, folder: Path, verb: str) -> None:
        with Shell(store=str(folder / "store")) as shell:
            shell.run("x = 1")
            shutil.rmtree(folder / "store")
            failed = shell.run(f"%agent {verb}").err
            assert failed.startswith("UsageError: lmdb://")
            assert failed.count("\n") == 1
            assert shell.extension.notebook.session is not None
            assert shell.extension.notebook.session.ignored() == ()

    def test_is_made_anew_by_binding_it_and_holds_everything(self, folder: Path) -> None:
        with Shell(store=str(folder / "store")) as shell:
            shell.run("x = 1")
            shutil.rmtree(folder / "store")
            shell.run("y = 1")
            assert "this is a new store" in shell.run("%agent bind store").out
            shell.run("z = 1")
            changed = [[change["name"] for change in commit["changed"]] for commit in shell.log()]
            assert changed == [["z"], ["x", "y"]]

    def test_is_not_made_anew_by_binding_something_else_that_fails(self, folder: Path) -> None:
        with Shell(store=str(folder / "store")) as shell:
            shell.run("x = 1")
            shutil.rmtree(folder / "store")
            assert "cells are no longer committed" in shell.run("%agent bind /etc/passwd").err
            assert not (folder / "store").exists()
            shell.run("%agent bind store")
            shell.run("z = 1")
            assert len(shell.log()) == 2


def test_a_store_that_becomes_read_only_costs_a_line_a_cell_and_loses_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: LmdbStore, items: Mapping[bytes, object], *rest: object) -> bool:
        raise StoreReadOnlyError(store.url, "it is read-only (Permission denied)")

    with Shell(store=str(folder / "store")) as shell:
        shell.run("x = [1]")
        with monkeypatch.context() as frozen:
            frozen.setattr(LmdbStore, "put_many", refuse)
            frozen.setattr(LmdbStore, "swap", refuse)
            for cell in ("x.append(2)", "y = 1"):
                typed = shell.run(cell)
                assert typed.result.success
                assert typed.err.count("\n") == 1
                assert "not committed" in typed.err
                assert "%agent bind PLACE puts the store elsewhere" in typed.err
            assert "read-only" in shell.run("%agent undo").err
            assert "read-only" in shell.run("%agent ignore x").err
            assert shell.ns["x"] == [1, 2]
        shell.run("z = 1")
        assert [change["name"] for change in shell.log("-n 1")[0]["changed"]] == ["x", "y", "z"]
        shell.run("%agent undo")
        assert shell.ns["x"] == [1]


def test_a_store_that_cannot_be_written_is_not_bound_and_said_so_in_a_line(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Shell(store=str(folder / "store")) as shell:
        shell.run("x = 1")

    def refuse(store: LmdbStore, items: Mapping[bytes, object], *rest: object) -> bool:
        raise StoreReadOnlyError(store.url, "it is read-only (Permission denied)")

    monkeypatch.setattr(LmdbStore, "put_many", refuse)
    monkeypatch.setattr(LmdbStore, "swap", refuse)
    capsys.readouterr()
    with Shell(store=str(folder / "store")) as shell:
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert "cells are not committed" in said
        assert "read-only" in said
        assert shell.run("x = 2").result.success
