"""`%agent notebook`, `deps` and `script`, and the same as `agent-kernel NAME STORE …`."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from agent_kernel.__main__ import main
from agent_kernel.cells import write_file
from agent_kernel.errors import FileNotWrittenError
from tests.cells.histories import run_script
from tests.commands.stores import make_history
from tests.magics.shells import Shell

CELLS = ("x = 1", "unrelated = 5", "y = x + 1", "y = y * 3")


@pytest.fixture(autouse=True)
def _apart(nobody: None) -> None: ...


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    make_history(tmp_path / "store", *CELLS)
    return str(tmp_path / "store")


def sources(path: Path) -> list[str]:
    document: Any = nbformat.read(path, as_version=4)
    nbformat.validate(document)
    return [cell["source"] for cell in document["cells"]]


class TestNotebook:
    def test_writes_the_history_without_a_kernel(
        self, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["notebook", store, "-o", "out.ipynb"]) == 0
        assert sources(tmp_path / "out.ipynb") == list(CELLS)
        assert capsys.readouterr().out == "Wrote 4 cells to out.ipynb.\n"

    def test_takes_a_ref(self, store: str, tmp_path: Path) -> None:
        assert main(["notebook", store, "HEAD~2", "-o", "out.ipynb"]) == 0
        assert sources(tmp_path / "out.ipynb") == list(CELLS[:2])

    def test_replaces_a_file_only_where_it_is_forced(
        self, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "out.ipynb").write_text("mine")
        assert main(["notebook", store, "-o", "out.ipynb"]) == 2
        assert capsys.readouterr().err == "agent-kernel: out.ipynb exists already; --force replaces it\n"
        assert (tmp_path / "out.ipynb").read_text() == "mine"
        assert main(["notebook", store, "-o", "out.ipynb", "--force"]) == 0
        assert len(sources(tmp_path / "out.ipynb")) == 4

    @pytest.mark.parametrize(
        ("words", "status", "said"),
        [
            ((), 2, "say which file to write: agent-kernel notebook"),
            (("-o", "out.txt"), 2, "must end in .ipynb"),
            (("-o", "no/such/out.ipynb"), 1, "there is no folder"),
            (("-o", "dir.ipynb", "--force"), 1, "it is a folder"),
            (("nothing", "-o", "out.ipynb"), 1, "no branch, tag or commit"),
        ],
    )
    def test_errors_are_one_sentence(
        self,
        store: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        words: tuple[str, ...],
        status: int,
        said: str,
    ) -> None:
        (tmp_path / "dir.ipynb").mkdir()
        assert main(["notebook", store, *words]) == status
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
        assert not list(tmp_path.glob(".*.tmp"))

    def test_json_says_what_was_written(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["notebook", store, "-o", "out.ipynb", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert (said["cells"], said["left_out"], said["masked"]) == (4, 0, 0)
        assert Path(said["path"]).exists()


class TestDeps:
    def test_shows_what_each_cell_gives_and_needs(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["deps", store, "y"]) == 0
        title, head, *rows = capsys.readouterr().out.splitlines()
        assert title.startswith("y takes 3 cells to make, as of ")
        assert head.split() == ["Cell", "Commit", "Code", "Gives", "Needs"]
        said = [row.split() for row in rows]
        assert [[row[0], *row[2:]] for row in said] == [
            ["[1]", "x", "=", "1", "x"],
            ["[3]", "y", "=", "x", "+", "1", "y", "x"],
            ["[4]", "y", "=", "y", "*", "3", "y", "y"],
        ]

    def test_takes_a_ref(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["deps", store, "y", "HEAD~1", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert [cell["source"] for cell in said["cells"]] == ["x = 1", "y = x + 1"]
        assert said["complete"] is True

    def test_a_name_that_is_none_is_an_error(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["deps", store, "yy"]) == 1
        assert "yy" in capsys.readouterr().err
        assert main(["deps", store, "a b"]) == 2
        assert main(["deps", store, "y", "HEAD~99"]) == 1


class TestScript:
    def test_is_printed_and_runs(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["script", store, "y"]) == 0
        assert run_script(capsys.readouterr().out, "y") == "6"

    def test_is_written_as_python_or_as_a_notebook(
        self, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert main(["script", store, "y", "-o", "y.py"]) == 0
        assert run_script((tmp_path / "y.py").read_text(), "y") == "6"
        assert main(["script", store, "y", "-o", "y.ipynb"]) == 0
        assert sources(tmp_path / "y.ipynb")[1:] == ["x = 1", "y = x + 1", "y = y * 3"]
        assert capsys.readouterr().out.splitlines()[0] == "Wrote 3 cells that make y to y.py."
        assert main(["script", store, "y", "-o", "y.py"]) == 2
        assert main(["script", store, "y", "-o", "y.txt"]) == 2
        assert main(["script", store, "y", "--force"]) == 2

    def test_json_holds_the_script(self, store: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["script", store, "y", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["script"].endswith("y = y * 3\n")
        assert len(said["cells"]) == 3


class TestInANotebook:
    @pytest.fixture
    def shell(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
        monkeypatch.chdir(tmp_path)
        with Shell(store=str(tmp_path / "store")) as shell:
            yield shell

    def test_the_whole_way(self, shell: Shell, tmp_path: Path) -> None:
        shell.run("x = 2")
        shell.run("%%time\nprint('hello')\nx * 21")
        shell.run("1 / 0")
        assert "1 cell that failed or stopped early is left out" in shell.run("%agent notebook -o a.ipynb").out
        document = nbformat.read(tmp_path / "a.ipynb", as_version=4)
        assert [cell["source"] for cell in document["cells"]] == ["x = 2", "%%time\nprint('hello')\nx * 21"]
        kinds = [output["output_type"] for output in document["cells"][1]["outputs"]]
        assert "execute_result" in kinds
        assert shell.run("%agent deps x --json").json["cells"][0]["number"] == 1
        assert "x = 2" in shell.run("%agent script x").out

    def test_the_notebook_runs_again(self, shell: Shell, tmp_path: Path) -> None:
        shell.run("xs = [1]")
        shell.run("xs.append(2)")
        shell.run("xs.append(99)")
        shell.run("%agent undo")
        shell.run("ys = [x * 2 for x in xs]")
        shell.run("%agent notebook -o a.ipynb")
        namespace: dict[str, object] = {}
        for source in sources(tmp_path / "a.ipynb"):
            exec(source, namespace)
        assert namespace["ys"] == [2, 4] == shell.ns["ys"]


class TestFiles:
    def test_a_file_has_the_rights_that_the_person_gives_new_files(self, tmp_path: Path) -> None:
        before = os.umask(0o027)
        try:
            write_file(tmp_path / "a", b"1", replace=False)
        finally:
            os.umask(before)
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640
        (tmp_path / "a").chmod(0o600)
        write_file(tmp_path / "a", b"2", replace=True)
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_a_link_stays_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").write_bytes(b"1")
        (tmp_path / "link").symlink_to(tmp_path / "real")
        write_file(tmp_path / "link", b"2", replace=True)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "real").read_bytes() == b"2"

    def test_a_file_that_comes_meanwhile_stays(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os.path, "lexists", lambda path: False)
        (tmp_path / "a").write_bytes(b"theirs")
        with pytest.raises(FileExistsError):
            write_file(tmp_path / "a", b"ours", replace=False)
        assert (tmp_path / "a").read_bytes() == b"theirs"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    def test_without_links_it_is_moved(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError("no links here")

        monkeypatch.setattr(os, "link", refuse)
        write_file(tmp_path / "a", b"1", replace=False)
        assert (tmp_path / "a").read_bytes() == b"1"
        with pytest.raises(FileExistsError):
            write_file(tmp_path / "a", b"2", replace=False)

    def test_what_cannot_be_written_leaves_what_was_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(_: int) -> None:
            raise OSError(28, "No space left on device")

        (tmp_path / "a").write_bytes(b"1")
        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(FileNotWrittenError, match="No space left on device"):
            write_file(tmp_path / "a", b"2", replace=True)
        assert (tmp_path / "a").read_bytes() == b"1"
        assert [path.name for path in tmp_path.iterdir()] == ["a"]

    @pytest.mark.parametrize("name", ["\0", "~nobody-here/a", "x" * 5000])
    def test_names_that_are_none_are_errors(self, name: str) -> None:
        with pytest.raises(FileNotWrittenError):
            write_file(Path(name), b"", replace=False)
