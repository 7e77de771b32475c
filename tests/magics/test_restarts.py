"""After a restart, and in the middle of work: what a person sees of the variables that a kernel does not hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.commands.scope import UsageProblem
from tests.magics.shells import Shell
from tests.magics.test_kernel import kernel, run, text


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_two_restarts_and_a_cell_between_them_lose_nothing(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("big = [1, 2, 3]; model = {'w': 1}")
    with Shell(store=place) as shell:
        shell.run("x = 1")
        assert shell.log("-n 1")[0]["changed"] == [{"name": "x", "how": "+", "size": 5}]
        assert "(restart) x = 1" in shell.run("%agent log").out
        status = shell.run("%agent status").out
        assert "2 variables of the branch are not loaded here (big, model)" in status
    with Shell(store=place) as shell:
        assert "%agent checkout brings back 3 variables" in shell.loaded
        shell.run("%agent checkout")
        assert (shell.ns["big"], shell.ns["model"], shell.ns["x"]) == ([1, 2, 3], {"w": 1}, 1)
        assert "not loaded" not in shell.run("%agent status").out
        shell.run("y = 1")  # everything is there: that it was a restart is no matter any more
        assert shell.run("%agent log").out.count("(restart)") == 1


def test_restart_and_run_all_starts_clean_and_ends_as_it_ended(place: str) -> None:
    cells = ["a = [1]", "b = a", "c = {'b': b}"]
    with Shell(store=place) as shell:
        for cell in [*cells, "scratch = 1"]:
            shell.run(cell)
    with Shell(store=place) as shell:
        for cell in cells:
            assert shell.run(cell).result.success
        assert "scratch" not in shell.ns
        assert "1 variable of the branch is not loaded here (scratch)" in shell.run("%agent status").out
        assert "Started fresh" in shell.run("%agent checkout --fresh").out
        assert "not loaded" not in shell.run("%agent status").out
        assert "nothing to leave behind" in shell.run("%agent checkout --fresh").out.lower()
        shell.run("%agent undo")
        assert "(scratch)" in shell.run("%agent status").out


def test_what_pylab_put_there_is_named_after_a_restart_until_it_runs_again(place: str) -> None:
    def bind(shell: Shell) -> None:
        def put(_: str) -> None:  # as `%pylab` does it with a thousand names
            shell.ip.user_ns["rand"] = shell.ip.user_ns_hidden["rand"] = max

        shell.ip.register_magic_function(put, magic_name="pylab")

    with Shell(store=place) as shell:
        bind(shell)
        shell.run("x = 1")
        shell.run("%pylab inline")
        made = shell.log()[0]["id"][:8]
        shell.run("y = rand(x, 2)")
        assert "names of %pylab" not in shell.run("%agent checkout HEAD~1").out
        shell.run("%agent checkout main")
    with Shell(store=place) as again:
        bind(again)
        line = f"to have the names of %pylab again, run the cell of {made} (%pylab inline): commits do not save them"
        assert line in again.run("%agent checkout").out
        again.run("%pylab inline")
        assert "names of %pylab" not in again.run("%agent checkout HEAD").out


def bind_pylab(shell: Shell, **names: object) -> None:
    """Let `%pylab` bind these names: it binds a thousand, which are the shell's own."""

    def put(_: str) -> None:
        shell.ip.user_ns.update(names)
        shell.ip.user_ns_hidden.update(names)

    shell.ip.register_magic_function(put, magic_name="pylab")


def test_a_checkout_of_a_state_before_pylab_takes_its_names_out_and_one_after_it_puts_them_back(place: str) -> None:
    with Shell(store=place) as shell:
        bind_pylab(shell, sum=len, axes=max)
        shell.run("x = sum([2, 3])")
        shell.run("%pylab inline")
        shell.run("y = sum([2, 3])")
        for _ in range(2):
            assert "the names of %pylab are gone: it runs only later" in shell.run("%agent checkout HEAD~2").out
            assert not {"sum", "axes"} & shell.ns.keys()
            assert "the names of %pylab are back" in shell.run("%agent checkout main").out
            assert (shell.ns["sum"], shell.ns["axes"], shell.ns["y"]) == (len, max, 2)
        shell.run("%agent undo")
        shell.run("z = sum([2, 3])")
        assert (shell.ns["z"], "axes" in shell.ns) == (5, False)
        assert [change["name"] for change in shell.log()[0]["changed"]] == ["z"]


def test_undo_of_pylab_takes_its_names_out_and_redo_puts_them_back(place: str) -> None:
    with Shell(store=place) as shell:
        bind_pylab(shell, sum=len)
        shell.run("x = 1")
        shell.run("%pylab inline")
        shell.run("%agent undo")
        assert "sum" not in shell.ns
        session = shell.extension.notebook.session
        assert session is not None
        assert session.head is not None
        assert session.repo.commit_at(session.head).set_in_libraries == ()
        shell.run("%agent redo")
        assert shell.ns["sum"] is len


def test_what_a_person_binds_where_pylab_was_taken_out_is_saved_although_pylab_binds_it_too(place: str) -> None:
    with Shell(store=place) as shell:
        bind_pylab(shell, pi=max)
        shell.run("x = 1")
        shell.run("%pylab inline")
        shell.run("%agent checkout HEAD~1")
        shell.run("pi = max")
        assert [(change["how"], change["name"]) for change in shell.log()[0]["changed"]] == [("+", "pi")]
        shell.run("%agent checkout main")
        assert shell.ns["pi"] is max
        shell.run("%agent checkout -")
        assert shell.ns["pi"] is max
        shell.run("%agent checkout HEAD~1")
        assert "pi" not in shell.ns


def test_variables_of_a_person_that_pylab_binds_anew_come_back_as_they_were_before_it(place: str) -> None:
    with Shell(store=place) as shell:
        bind_pylab(shell, pi=max, axes=min, beta=len)
        shell.run("pi = 3; np = 'mine'")
        shell.run("%pylab inline")
        shell.run("axes = [1, 2]")
        shell.run("%agent checkout HEAD~1")
        assert (shell.ns["pi"], shell.ns["axes"], shell.ns["beta"]) == (max, min, len)
        shell.run("%agent checkout HEAD~1")
        assert (shell.ns["pi"], shell.ns["np"]) == (3, "mine")
        assert not {"axes", "beta"} & shell.ns.keys()
        shell.run("%agent checkout main")
        assert (shell.ns["pi"], shell.ns["axes"], shell.ns["beta"]) == (max, [1, 2], len)


def test_a_merge_of_a_branch_where_pylab_ran_brings_its_names(place: str) -> None:
    with Shell(store=place) as shell:
        bind_pylab(shell, beta=len)
        shell.run("x = 1")
        shell.run("%agent switch -c other")
        shell.run("%pylab inline")
        shell.run("f = lambda: beta([1])")
        shell.run("%agent switch main")
        assert "beta" not in shell.ns
        shell.run("y = 1")
        shell.run("%agent merge other")
        assert shell.ns["f"]() == 1


def test_undo_of_the_checkout_after_a_restart_says_that_the_variables_are_out_of_memory_again(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("big = [1, 2, 3]; model = {'w': 1}")
    with Shell(store=place) as shell:
        shell.run("%agent checkout")
        undone = shell.run("%agent undo").out
        assert "Undone the checkout that brought back what a restart took: −big, −model" in undone
        assert "big, model are out of memory again, as after the restart: %agent checkout brings them back" in undone
        assert "big" not in shell.ns
        assert "Done again the checkout that brought back" in shell.run("%agent redo").out
        assert shell.ns["big"] == [1, 2, 3]
        shell.run("x = 1")
        assert "out of memory" not in shell.run("%agent undo").out


def test_the_first_undo_after_loading_takes_back_the_first_cell_alone(place: str) -> None:
    from agent_kernel.magics import load_ipython_extension, unload_ipython_extension

    shell = Shell(store=place)
    with shell:
        unload_ipython_extension(shell.ip)
        shell.run("df = [1]; model = {'w': 1}")
        load_ipython_extension(shell.ip)
        shell.run("typo = 1")
        assert [commit["message"] for commit in shell.log()][1] == "what was there before"
        shell.run("%agent undo")
        assert "typo" not in shell.ns
        assert (shell.ns["df"], shell.ns["model"]) == ([1], {"w": 1})
        assert "nothing to undo" in shell.run("%agent undo").err
        shell.run("df")
        shell.run("%agent redo")
        assert shell.ns["typo"] == 1


def test_redo_says_that_a_cell_ran_since(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        shell.run("%agent undo")
        shell.run("y = 1")
        assert "a cell ran since the last undo" in shell.run("%agent redo").err


@pytest.mark.parametrize("again", ["%agent bind /etc/passwd", "%reload_ext agent_kernel", "%agent bind --branch k"])
def test_binding_again_with_an_open_file_brought_back_goes_on_committing(
    tmp_path: Path, place: str, again: str
) -> None:
    with Shell(store=place) as shell:
        shell.run(f"f = open({str(tmp_path / 'x')!r}, 'w'); b = [1]")
        shell.run("f.close()")
    with Shell(store=place) as shell:
        shell.ip.extension_manager.loaded.add("agent_kernel")
        shell.run("%agent checkout")
        shell.run(again)
        typed = shell.run("c = [3]")
        assert "not committed" not in typed.out + typed.err
        assert [change["name"] for change in shell.log("-n 1")[0]["changed"]] == ["c"]
        assert "not loaded" not in shell.run("%agent status").out


def test_two_kernels_on_one_notebook_are_merged_without_losing_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kernel(tmp_path / "two.ipynb", monkeypatch) as first:
        run(first, "df = [1, 2, 3]")
        run(first, "model = {'w': 1}")
        with kernel(tmp_path / "two.ipynb", monkeypatch) as second:
            assert "this session works on main-2" in text(run(second, "scratch = 1"))
            changed = json.loads(text(run(second, "%agent log --json -n 1")))[0]["changed"]
            assert [(change["name"], change["how"]) for change in changed] == [("scratch", "+")]
        run(first, "%agent merge main-2")
        assert "[1, 2, 3] {'w': 1} 1" in text(run(first, "print(df, model, scratch)"))
        run(first, "%agent undo")
        assert "[1, 2, 3] False" in text(run(first, "print(df, 'scratch' in globals())"))


def test_a_race_of_before_the_restart_is_picked_from_once_the_variables_are_back(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("rows = [3, 1, 2]")
        shell.run(
            "from agent_kernel import ScriptedModel\nplay = ScriptedModel(['best = min(rows); task.success(best)'])"
        )
        held: Any = shell.run("%%agent analyst --fork 1 --model scripted:play\nFind the lowest please.").result.result
    with Shell(store=place) as shell:
        tasks = shell.extension.notebook.tasks
        with pytest.raises(UsageProblem, match="not in memory since the restart"):
            tasks.pick(held.id, 1)
        shell.run("%agent checkout")
        tasks.pick(held.id, 1)
        assert (shell.ns["best"], tasks.race(held.id).picked) == (1, 1)


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("0a1b2c3d.11111111", "0a1b2c3d.22222222", "kernel restarted"),
        ("0a1b2c3d.11111111", "9f9f9f9f.22222222", "new kernel"),
        (None, None, "new session"),
    ],
)
def test_a_divider_stands_where_the_numbers_of_cells_begin_anew(
    place: str, monkeypatch: pytest.MonkeyPatch, first: str | None, second: str | None, said: str
) -> None:
    for session in (first, second):
        monkeypatch.setattr("agent_kernel.magics.binding.session_id", lambda _, session=session: session)
        with Shell(store=place) as shell:
            shell.run("x = 1")
            shell.run("%agent undo")
            shell.run("%agent redo")
            shell.run("x = 2")
            log = shell.run("%agent log").out
            shown = shell.run("%agent log -- x").out
    lines = log.splitlines()
    at = next(number for number, line in enumerate(lines) if said in line)
    assert log.count(said) == shown.count(said) == 1

    assert [sum("[4] x = 2" in line for line in part) for part in (lines[:at], lines[at:])] == [1, 1]
