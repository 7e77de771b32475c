"""`agent-kernel reproduce` with real kernels: few, for each takes a second to start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.bundle.opening import open_bundle
from agent_kernel.cli import main
from agent_kernel.repository import Author, Commit, ObjectId
from agent_kernel.reproduction.comparison import outputs_of_commit
from agent_kernel.reproduction.line import LineCell, rerun
from tests.bundle.bundles import bundle_of
from tests.reproduction.histories import make_history, write_notebook

Run = Callable[..., tuple[int, Any]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command with its temporary files in a folder of their own, which has to be empty afterwards."""
    rest = tmp_path / "temporary"
    rest.mkdir()
    monkeypatch.setenv("TMPDIR", str(rest))
    monkeypatch.setattr("tempfile.tempdir", None)

    def run(*words: object) -> tuple[int, Any]:
        status = main(["reproduce", *map(str, words), "--json"])
        found = capsys.readouterr()
        assert list(rest.iterdir()) == []
        return status, json.loads(found.out)

    return run


def outcomes(found: dict[str, Any]) -> list[str]:
    return [cell["outcome"] for cell in found["cells"]]


def test_a_history_is_run_again_in_a_fresh_kernel(tmp_path: Path, run: Run) -> None:
    make_history(
        tmp_path / "s",
        "import random",
        "class A:\n    pass\na = A(); a.n = {1}",
        "x = random.random()\nprint('x')",
        "y = x",
    )
    status, found = run(tmp_path / "s", "--html", tmp_path / "r.html", "--badge", tmp_path / "b.svg")
    assert status == 1
    assert outcomes(found) == ["same", "same", "different", "different"]
    assert found["cells"][2]["outputs"]["outcome"] == "same"
    assert found["cells"][2]["variables"][0]["why"][0]["kind"] == "random"
    assert found["badge"] == f"![2 of 4 cells reproduced]({tmp_path / 'b.svg'})"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    trusted = (Path(os.environ["XDG_DATA_HOME"]) / "agent-kernel" / "trusted").read_text().splitlines()
    assert [line.rpartition("/")[2] for line in trusted] == ["s"]


def test_a_notebook_without_a_store_is_run_twice_and_compared_with_its_file(tmp_path: Path, run: Run) -> None:
    printed = [{"output_type": "stream", "name": "stdout", "text": "3\n"}]
    notebook = write_notebook(
        tmp_path / "n.ipynb",
        {"source": "print(x)", "outputs": printed, "execution_count": 3},
        {"source": "x = 2", "execution_count": 1},
        {"source": "print(x)", "outputs": printed, "execution_count": 2},
        "import os; os._exit(2)",
        "after = 1",
    )
    status, found = run(notebook)
    assert status == 1
    assert outcomes(found) == ["failed", "same", "different", "failed", "skipped"]
    assert found["cells"][0]["failure"]["kind"] == "hidden state"
    assert found["cells"][2]["outputs"]["outcome"] == "same"
    assert found["cells"][2]["saved_outputs"]["details"] == ["− 3", "+ 2"]
    assert found["cells"][3]["failure"]["text"] == "the kernel died"
    assert found["notes"] == ["The kernel died in cell 4; the cells after it were not run."]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.ipynb", "temporary"]


def test_an_output_that_both_runs_agree_on_was_saved_otherwise(tmp_path: Path, run: Run) -> None:
    saved = [{"output_type": "stream", "name": "stdout", "text": "3\n"}]
    status, found = run(write_notebook(tmp_path / "n.ipynb", {"source": "print(2)", "outputs": saved}))
    assert status == 1
    assert found["cells"][0]["outputs"]["outcome"] == "same"
    assert found["cells"][0]["saved_outputs"]["why"] == [
        {
            "kind": "environment",
            "text": "both runs agree: the file was saved with other versions, other data or other code",
        }
    ]


def test_a_history_of_failures_is_no_success(tmp_path: Path, run: Run) -> None:
    make_history(tmp_path / "s", "1 / 0")
    status, found = run(tmp_path / "s")
    assert status == 1
    assert not found["reproduced"]
    assert found["notes"][0] == "Nothing is reproduced: no cell was run."


def test_a_cell_that_takes_too_long_is_stopped_and_the_next_one_runs(tmp_path: Path, run: Run) -> None:
    make_history(
        tmp_path / "s",
        "import time, os; pause = float(os.environ.get('PAUSE', 0))",
        "time.sleep(pause); x = 1",
        "y = 2",
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAUSE", "60")
        status, found = run(tmp_path / "s", "--timeout", "0.5")
    assert status == 1
    assert found["cells"][1]["failure"]["text"] == "took longer than 0.5 s, so it was stopped (--timeout)"
    assert outcomes(found)[2] == "same"


def test_edited_cells_are_run_on_the_state_that_is_there(tmp_path: Path, run: Run) -> None:
    make_history(tmp_path / ".agent-kernel" / "n", "a = [1]", "b = a[0] + 1", "c = 10", "d = b + c")
    notebook = write_notebook(tmp_path / "n.ipynb", "a = [1]", "b = a[0] + 2", "c = 10", "d = b + c")
    status, found = run(notebook, "--changed")
    assert status == 1
    assert [cell["cell"] for cell in found["cells"]] == [2, 4]
    assert {one["name"]: one["outcome"] for one in found["variables"]} == {
        "a": "same", "b": "different", "c": "same", "d": "different",
    }  # fmt: skip
    assert found["cells"][1]["variables"][0]["why"][0]["text"] == "follows from b in cell 2"


def test_what_does_not_fit_is_a_misuse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notebook = write_notebook(tmp_path / "n.ipynb", "x = 1")
    assert main(["reproduce", str(notebook), "--ref", "main"]) == 2
    assert main(["reproduce", str(notebook), "--changed"]) == 2
    assert main(["reproduce", str(notebook), "--timeout", "0"]) == 2
    assert main(["reproduce", str(notebook), "--python", str(tmp_path / "none")]) == 2
    assert main(["reproduce"]) == 2
    assert main(["reproduce", str(tmp_path / "gone")]) == 1
    assert "there is nothing there" in capsys.readouterr().err


def test_an_interpreter_without_a_kernel_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_history(tmp_path / "s", "x = 1")
    bare = tmp_path / "bare"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    assert main(["reproduce", str(tmp_path / "s"), "--python", str(bare)]) == 1
    assert "no kernel starts with" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_leaves_neither_a_process_nor_a_file(tmp_path: Path, number: int) -> None:
    rest = tmp_path / "temporary"
    rest.mkdir()
    mark = tmp_path / "pid"
    notebook = write_notebook(
        tmp_path / "n.ipynb", f"import os, time; open({str(mark)!r}, 'w').write(str(os.getpid())); time.sleep(90)"
    )
    command = [sys.executable, "-m", "agent_kernel", "reproduce", str(notebook)]
    process = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(rest)}, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while not (mark.exists() and mark.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    kernel = int(mark.read_text())
    process.send_signal(number)
    assert process.wait(30) == 130
    assert list(rest.iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.kill(kernel, 0)


def test_what_a_merge_brought_is_taken_from_the_history(tmp_path: Path, run: Run) -> None:
    make_history(
        tmp_path / "s", "x = 1", "%agent switch --create side", "made = 2", "%agent switch main", "y = 1", "%agent merge side", "z = made"
    )  # fmt: skip
    status, found = run(tmp_path / "s")
    assert status == 0
    assert outcomes(found) == ["same", "same", "same"]
    assert found["notes"][0] == "No cell of this line makes these, so they are taken from the history: made."


def test_a_step_of_an_agent_ends_as_it_did(tmp_path: Path) -> None:
    step = Commit(tree=ObjectId(b""), author=Author("helper", "agent"), time_ns=0, run="run-1")
    with rerun([LineCell(1, "x = 1\ntask.success(x)\nx = 2", record=step)], cwd=tmp_path) as again:
        assert again.ran[1].status == "ok"
        assert again.head is not None
        assert again.repo.at(again.head[:-1].hex())["x"] == 1
        assert outputs_of_commit(again.repo, again.commits[1][1]) == []


def test_a_bundle_runs_in_a_folder_of_its_own(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.chdir(own)
    make_history(tmp_path / "s", "import pathlib; _ = pathlib.Path('kept.txt').write_text('theirs'); x = 1")
    bundle = bundle_of(tmp_path / "s", tmp_path / "b.agentnb")
    (own / "kept.txt").write_text("mine")
    status, found = run(bundle)
    assert (status, (own / "kept.txt").read_text()) == (0, "mine")
    assert not Path(found["folder"]).exists()
    opened = open_bundle(bundle, tmp_path / "opened", trusts=True)
    run(opened.store)
    assert (own / "kept.txt").read_text() == "mine"
    status, found = run(bundle, "--in", own)
    assert (found["folder"], (own / "kept.txt").read_text()) == (str(own), "theirs")
    (own / "kept.txt").write_text("mine")
    status, found = run(tmp_path / "s")
    assert (found["folder"], (own / "kept.txt").read_text()) == (str(own), "theirs")


def test_a_notebook_whose_cells_all_fail_as_before_is_not_reproduced(tmp_path: Path, run: Run) -> None:
    saved = [{"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}]
    status, found = run(
        write_notebook(tmp_path / "n.ipynb", *[{"source": "raise ValueError('no')", "outputs": saved}] * 2)
    )
    assert (status, found["reproduced"], outcomes(found)) == (1, False, ["failed as before"] * 2)
    assert found["headline"] == "0 of 2 cells reproduced, 2 failed as before"
    assert found["notes"][0] == "Nothing is reproduced: every cell fails, as it did before."


def test_a_cell_that_ends_the_kernel_fails(tmp_path: Path, run: Run) -> None:
    status, found = run(write_notebook(tmp_path / "n.ipynb", "x = 1", "quit()", "y = 2"))
    assert (status, outcomes(found)) == (1, ["same", "failed", "skipped"])
    assert found["cells"][1]["failure"]["text"] == "it ended the kernel"


def edited(tmp_path: Path, old: list[str], new: list[str]) -> Path:
    make_history(tmp_path / ".agent-kernel" / "n", *old)
    return write_notebook(tmp_path / "n.ipynb", *new)


def test_edited_cells_start_from_what_the_history_has_at_their_place(tmp_path: Path, run: Run) -> None:
    old = [
        "import math\nk = 2",
        "xs = [k]",
        "fixed = [1]; also = fixed",
        "n = math.sqrt(4); fixed",
        "k = 9",
        "L = [1]; M = L",
        "M.append(2)",
        "t = len(L)",
    ]
    new = [*old[:3], "n = math.sqrt(k) + len(also); also is fixed", *old[4:6], "M.append(3); M.append(k)", old[7]]
    status, found = run(edited(tmp_path, old, new), "--changed")
    assert [cell["cell"] for cell in found["cells"]] == [4, 7, 8]
    assert [cell["failure"] for cell in found["cells"]] == [None] * 3
    ends = {one["name"]: one["outcome"] for one in found["variables"]}
    assert {name for name, outcome in ends.items() if outcome != "same"} == {"n", "L", "M", "t"}
    assert status == 1
    n = next(one for one in found["cells"][0]["variables"] if one["name"] == "n")
    assert "2.41" in n["details"][0]


def test_where_nothing_was_edited_nothing_runs_and_the_report_says_so(tmp_path: Path, run: Run) -> None:
    cells = ["%load_ext agent_kernel", "x = 1", "%agent tag a"]
    status, found = run(edited(tmp_path, ["x = 1"], cells), "--changed")
    assert (status, found["headline"]) == (0, "no cell was edited, so none was run again")
    (tmp_path / "n.ipynb").unlink()
    status, found = run(write_notebook(tmp_path / "n.ipynb", {"source": "%agent log"}), "--changed")
    assert (status, found["reproduced"], found["headline"]) == (1, False, "nothing was run again")
