"""What the commands say: which names, which operation, and what to type next. Nothing is named that does not exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.errors import MergeConflictError
from tests.magics.shells import Shell
from tests.magics.tasks import use


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("x = [1]; y = 2")
        shell.run("# a slip of the hand\nx.append(2); tmp = 3; del y")
        yield shell


def fork(shell: Shell, base: str, side: str, main: str) -> None:
    for line in (base, "%agent switch -c side", side, "%agent switch main", main):
        typed = shell.run(line)
        assert typed.result.success, typed.err


class TestReports:
    def test_undo_and_redo_say_what_and_which_names(self, shell: Shell) -> None:
        assert shell.run("%agent undo").out.strip() == "Undone [2] a slip of the hand: +y, ~x, −tmp"
        assert shell.run("%agent redo").out.strip() == "Done again [2] a slip of the hand: +tmp, ~x, −y"

    def test_a_title_that_ends_with_a_colon_gets_no_second_one(self, shell: Shell) -> None:
        shell.run("class P:\n    pass")
        assert shell.run("%agent undo").out.strip() == "Undone [3] class P: −P"

    def test_a_move_is_undone_by_its_name(self, shell: Shell) -> None:
        fork(shell, "z = 1", "z = 2", "z = 3")
        shell.run("%agent switch side")
        assert shell.run("%agent undo").out.strip() == "Checkout of side undone: ~z"

    def test_what_no_cell_has_committed_goes_by_what_it_is(self, shell: Shell) -> None:
        shell.run("x.append(9)\n%agent undo")
        assert shell.ns["x"] == [1, 2]
        shell.run("%agent off")
        shell.run("x.append(3)")
        assert "changes that no cell had committed yet: ~x" in shell.run("%agent undo").out
        assert "changes that no cell had committed yet: ~x" in shell.run("%agent redo").out

    def test_what_no_cell_has_committed_ends_redo_as_a_cell_does(self, shell: Shell) -> None:
        shell.run("%agent undo")
        shell.run("%agent off")
        shell.run("x = 'precious'")
        assert "nothing to redo" in shell.run("%agent redo").err
        assert shell.ns["x"] == "precious"

    def test_several_operations_are_undone_at_once(self, shell: Shell) -> None:
        first, second = shell.run("%agent undo 2").out.splitlines()
        assert first.startswith("Undone [2] a slip of the hand: ")
        assert second.startswith("Undone [1] x = [1]; y = 2: ")
        first, second, end = shell.run("%agent redo 9").out.splitlines()
        assert first.startswith("Done again [1] x = [1]; y = 2: ")
        assert second.startswith("Done again [2] a slip of the hand: ")
        assert end == "that is all there is to redo in this session"
        assert "takes a number of operations" in shell.run("%agent undo HEAD~1").err

    def test_of_many_names_a_few_are_told_with_counts(self, shell: Shell) -> None:
        shell.run("; ".join(f"n{number:02} = {number}" for number in range(20)) + "; x = 0; del tmp")
        said = shell.run("%agent undo").out.strip()
        assert said.endswith("+tmp, ~x, −n00, −n01, −n02 and 17 more (1 changed, 1 added, 20 removed)")

    def test_a_rollback_says_the_ref_as_typed_and_the_cell(self, shell: Shell) -> None:
        first = shell.log()[-1]["id"][:8]
        shell.run("%agent rollback HEAD~1")
        assert shell.log()[0]["message"] == f"roll back to HEAD~1: {first} [1] x = [1]; y = 2"
        shell.run("%agent undo")
        assert re.fullmatch(r"undo of [0-9a-f]{8} \(roll back to HEAD~1\)", shell.log()[0]["message"])

    def test_single_names_say_where_they_come_from(self, shell: Shell) -> None:
        first = shell.log()[-1]["id"][:8]
        shell.run("%agent checkout HEAD~1 -- y")
        assert shell.log()[0]["message"] == f"take y from HEAD~1: {first} [1] x = [1]; y = 2"

    def test_a_message_that_quotes_a_cell_masks_its_secret(self, shell: Shell) -> None:
        shell.run("api_key = 'abcdefgh1234'")
        shell.run("%agent rollback HEAD")
        assert "abcdefgh1234" not in shell.log()[0]["message"]


class TestLog:
    @pytest.mark.parametrize("typed", ["4", "-4"])
    def test_a_number_of_commits_is_an_option(self, shell: Shell, typed: str) -> None:
        assert f"called '{typed}'" in (said := shell.run(f"%agent log {typed}").err)
        assert "%agent log -n 4 shows so many commits" in said

    def test_what_git_needs_an_option_for_is_said_to_be_so_already(self, shell: Shell) -> None:
        said = shell.run("%agent log --oneline").err
        assert "unrecognized arguments: --oneline; every commit takes one line as it is" in said
        assert "[-n N]" in said


class TestMerging:
    def test_what_is_merged_already_is_one_line(self, shell: Shell) -> None:
        fork(shell, "z = 1", "z = 2", "w = 3")
        assert "~z" in shell.run("%agent merge side").out
        assert shell.run("%agent merge side").out.strip() == "Already up to date with side"
        assert "no variable 'nosuch' in either side" in shell.run("%agent merge side --ours nosuch").err

    def test_a_conflict_names_the_keys_that_clash_and_is_shown_as_one(self, shell: Shell) -> None:
        fork(shell, "p = {'tea': 1, 'milk': 1}", "p['tea'] = 2; p['milk'] = 5", "p['tea'] = 3; p['cake'] = 9")
        typed = shell.run("%agent merge side")
        assert isinstance(typed.result.error_in_exec, MergeConflictError)
        assert typed.out.strip().splitlines() == [
            "Conflict: both sides changed one variable; nothing was merged",
            "  p['tea']: ours int 3 | theirs int 2",
            "choose with --ours p or --theirs p",
        ]
        assert shell.ns["p"] == {"tea": 3, "milk": 1, "cake": 9}

    def test_a_program_gets_each_conflict_with_both_sides(self, shell: Shell) -> None:
        fork(shell, "p = {'tea': 1}; q = 1", "p['tea'] = 2; q = 2", "p['tea'] = 3; q = 3")
        assert "choose with --ours p or --theirs p, and so for q" in shell.run("%agent merge side").out
        told = json.loads(shell.run("%agent merge side --json").out)["error"]
        assert told["type"] == "MergeConflictError"
        assert told["conflicts"] == [
            {"name": "p['tea']", "ours": "int 3", "theirs": "int 2", "together": []},
            {"name": "q", "ours": "int 3", "theirs": "int 2", "together": []},
        ]

    def test_variables_that_share_objects_are_one_choice(self, shell: Shell) -> None:
        fork(
            shell,
            "a = [1]; b = {'l': a, 'k': 0}; c = 0",
            "a.append('x'); b['k'] = 'x'; c = 1",
            "a.append('m'); b['k'] = 'm'; c = 2",
        )
        assert shell.run("%agent merge side").out.strip().splitlines() == [
            "Conflict: both sides changed 3 variables; nothing was merged",
            "  a: ours list of 2, [1, 'm'] | theirs list of 2, [1, 'x']",
            "  b: ours dict of 2, {'l': [1, 'm'], 'k': 'm'} | theirs dict of 2, {'l': [1, 'x'], 'k': 'x'}",
            "  c: ours int 2 | theirs int 1",
            "a, b share objects or a class: one choice is for all of them",
            "choose with --ours a or --theirs a, and so for c",
        ]
        told = json.loads(shell.run("%agent merge side --json").out)["error"]
        assert {one["name"]: one["together"] for one in told["conflicts"]} == {"a": ["b"], "b": ["a"], "c": []}
        refused = shell.run("%agent merge side --ours a c --theirs b").err
        assert (
            "a, b share objects or a class, so they cannot be --ours a and --theirs b; nothing was merged: "
            "choose --ours a b or --theirs a b"
        ) in refused
        assert shell.ns["b"] == {"l": [1, "m"], "k": "m"}
        assert "~a, ~b" in shell.run("%agent merge side --theirs a --ours c").out
        assert (shell.ns["a"], shell.ns["b"]["l"] is shell.ns["a"]) == ([1, "x"], True)

    @pytest.mark.parametrize(("side", "tea"), [("ours", 3), ("theirs", 2)])
    def test_a_choice_settles_the_keys_that_clash_and_no_others(self, shell: Shell, side: str, tea: int) -> None:
        fork(
            shell,
            "p = {'tea': 1, 'milk': 1, 'old': 0}",
            "p['tea'] = 2; p['milk'] = 5; del p['old']",
            "p['tea'] = 3; p['cake'] = 9",
        )
        assert shell.run(f"%agent merge side --{side} p").result.success
        assert shell.ns["p"] == {"tea": tea, "milk": 5, "cake": 9}

    def test_a_key_that_one_side_removed_clashes_too(self, shell: Shell) -> None:
        fork(shell, "p = {'tea': 1}", "del p['tea']", "p['tea'] = 3")
        assert "  p['tea']: ours int 3 | theirs removed" in shell.run("%agent merge side").out

    def test_the_value_of_a_secret_key_is_masked(self, shell: Shell) -> None:
        fork(shell, "p = {'password': 'a'}", "p['password'] = 'hunter2'", "p['password'] = 'hunter3'")
        typed = shell.run("%agent merge side")
        assert "hunter" not in typed.out + typed.err


class TestHints:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("rollback HEAD~99", "'HEAD~99' names no commit: HEAD has one commit before it"),
            ("show HEAD^2", "'HEAD^2' names no commit: a commit on its way has one parent only"),
            ("show x", "it is a variable, which show takes as HEAD:x"),
            ("checkout x", "it is a variable, which show takes as HEAD:x, and other commands after -- (x)"),
            ("checkout HEAD~1:x", "other commands take the two apart (HEAD~1 -- x)"),
            ("log main..HEAD", "it is a range, and every verb takes one commit; diff takes two (main HEAD)"),
            ("cherry-pick HEAD", 'import agent_kernel; agent_kernel.here().session.cherry_pick("REF") takes all'),
            ("reflog", "@{1} is where the branch was"),
            ("reset HEAD", "rollback REF makes a new commit"),
            ("revert", "undo reverses the last operation"),
            ("restore x", "checkout REF brings"),
            ("delete x", "forget erases"),
            ("branch refs/heads/main", "it begins with refs/; say main"),
            ("tag refs/tags/v1", "say v1"),
            ("commit 'one' -m 'two'", "one message is enough"),
            ("undo 0", "takes a number of operations"),
            ("log -n -1", "not a whole number, 0 or more"),
            ("prune --keep-last two", "not a whole number, 0 or more"),
            ("prune --keep-days nan", "not a number of days, 0 or more"),
            ("show HEAD:", "say which variable: HEAD:NAME"),
            ("show HEAD:x --notebook", "they are those of HEAD"),
            ("commit it's done", "a quotation mark is not closed"),
            ("forget", "say what to forget"),
            ("merge --ours x side", "REV; write it before --ours and --theirs: they take all words that follow"),
            ("LOG", "did you mean log?"),
            ("bind 'a\0b'", "no path holds a NUL"),
        ],
    )
    def test_an_error_says_what_to_do(self, shell: Shell, line: str, said: str) -> None:
        typed = shell.run(f"get_ipython().run_line_magic('agent', {line!r})")
        assert said in typed.err, typed.out
        assert len(typed.err.strip().splitlines()) == 1

    def test_only_flags_that_exist_are_named(self, shell: Shell) -> None:
        fork(shell, "z = 1", "z = 2", "w = 3")
        assert "-D (from Python: force=True) deletes it anyway" in shell.run("%agent branch -d side").err
        shell.run("%agent tag good")
        assert "move it with %agent tag -f good HEAD~1" in shell.run("%agent tag good HEAD~1").err
        assert "move it with %agent branch -f side" in shell.run("%agent branch side").err

    def test_tags_and_branches_are_moved_as_in_git(self, shell: Shell) -> None:
        shell.run("%agent tag good")
        assert "Moved the tag good to " in shell.run("%agent tag -f good HEAD~1").out
        assert shell.log("good")[0]["id"] == shell.log("HEAD~1")[0]["id"]
        shell.run("%agent branch side")
        assert shell.run("%agent branch -f side HEAD~1").result.success
        assert shell.log("side")[0]["id"] == shell.log("HEAD~1")[0]["id"]
        assert "rollback" in shell.run("%agent branch -f main HEAD~1").err

    def test_an_empty_history_says_so(self, tmp_path: Path) -> None:
        with Shell(store=str(tmp_path / "empty")) as shell:
            assert "nothing is committed yet" in shell.run("%agent show").err
            assert "nothing is committed yet" in shell.run("%agent diff").err

    def test_a_log_without_commits_says_why(self, shell: Shell) -> None:
        assert shell.run("%agent log -n 0").out.strip() == "No commit is shown, as -n 0 asks."
        assert shell.run("%agent log -- tpm").out.strip() == "No commit changed tpm. Did you mean tmp?"

    def test_a_message_needs_no_flag(self, shell: Shell) -> None:
        shell.run("%agent commit 'before the experiment'")
        assert shell.log()[0]["message"] == "before the experiment"

    def test_small_habits_are_understood(self, shell: Shell) -> None:
        assert shell.run("%agent undo;").result.success
        assert "usage: %agent log" in shell.run("%agent help log").out
        assert shell.run("%agent --version").out.startswith("agent-kernel 0.")

    def test_an_agent_called_like_a_verb_is_remarked_on(self, shell: Shell) -> None:
        assert "the verb is a line, %agent log" in shell.run("%%agent log\nz = 1").err
        assert shell.run("%%agent analyst\nz = 2").err == ""


class TestBinding:
    def test_a_new_store_is_said_to_be_new(self, shell: Shell, tmp_path: Path) -> None:
        assert "this is a new store\n" in shell.run(f"%agent bind {tmp_path / 'other'}").out
        told = shell.run(f"%agent bind {tmp_path / 'not' / 'there' / 'yet'}").out
        assert f"this is a new store, in the new folder {tmp_path / 'not' / 'there'}" in told
        assert "new store" not in shell.run(f"%agent bind {tmp_path / 'other'}").out


class TestPrograms:
    def test_an_error_is_json_too_and_ends_the_cell(self, shell: Shell) -> None:
        typed = shell.run("%agent show nowhere --json\nreached = True")
        assert json.loads(typed.out)["error"]["type"] == "RefNotFoundError"
        assert "nowhere" in typed.json["error"]["message"]
        assert not typed.result.success
        assert typed.err == ""
        assert "reached" not in shell.ns

    def test_json_that_is_kept_is_a_value_and_not_printed(self, shell: Shell) -> None:
        assert shell.run("history = %agent log --json").out == ""
        assert [commit["cell"]["number"] for commit in shell.ns["history"]] == [2, 1]


class TestQuestions:
    @pytest.mark.parametrize("verb", ["forget x", "prune --keep-last 1"])
    def test_what_cannot_be_undone_is_asked_about_and_is_no_error(self, shell: Shell, verb: str) -> None:
        before = shell.log()
        asked = shell.run(f"%agent {verb}\nnever = 1")
        assert asked.out.startswith(f"Really {verb.split(maxsplit=1)[0]}? It ")
        assert "Error" not in asked.out + asked.err
        assert f"to do it: %agent {verb} --yes" in asked.out
        assert "never" not in shell.ns  # what comes after it waits for the answer
        assert shell.log()[-len(before) :] == before

    def test_a_program_is_told_that_it_is_a_question(self, shell: Shell) -> None:
        assert shell.run("%agent forget x --json").json["error"]["type"] == "Question"


class TestSayingThingsOnce:
    @pytest.mark.parametrize(
        ("before", "after", "told"),
        [
            ("'tea'", "'milk'", ["~ v: str 'tea' → str 'milk'"]),
            ("[1, 2]", "[1, 2, 3]", ["~ v: list of 2 int, [1, 2] → list of 3 int, [1, 2, 3]", "    length 2 → 3 (+1)"]),
            ("[1, 2]", "[1, 5]", ["~ v: list of 2 int, [1, 2] → list of 2 int, [1, 5]"]),
        ],
    )
    def test_diff_says_two_short_values_in_one_line(
        self, shell: Shell, before: str, after: str, told: list[str]
    ) -> None:
        shell.run(f"v = {before}")
        shell.run(f"v = {after}")
        assert shell.run("%agent diff").out.splitlines()[2:-1] == told

    def test_diff_shows_what_its_line_cuts(self, shell: Shell) -> None:
        shell.run("v = ['a' * 30, 'b' * 30, 'c' * 10]")
        shell.run("v = ['a' * 30, 'b' * 30, 'd' * 10]")
        assert "'dddddddddd'" in shell.run("%agent diff").out


class TestPlacesAndNames:
    @pytest.mark.parametrize(("verb", "start"), [("status", "Store: "), ("trust", "")])
    def test_a_store_goes_by_its_short_place(
        self, shell: Shell, verb: str, start: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        last = shell.run(f"%agent {verb}").out.splitlines()[-1]
        assert last.startswith(f"{start}~/store")
        assert "lmdb:" not in last

    def test_log_of_several_names_says_which_no_commit_changed(self, shell: Shell) -> None:
        told = shell.run("%agent log -- x nosuch").out
        assert "[1]" in told
        assert told.splitlines()[-1] == "No commit changed nosuch."
        assert "No commit changed" not in shell.run("%agent log -- x y").out

    def test_a_move_names_all_that_was_never_saved_in_one_line(self, shell: Shell) -> None:
        shell.run("import threading\na, b, c = threading.Thread(), (n for n in [1]), memoryview(b'abc').cast('b')")
        shell.run("t, lock = [threading.Thread()], 1")
        shell.run("del a, b, c, t; import gc; gc.collect()")
        said = [line for line in shell.run("%agent checkout main~1").out.splitlines() if " not saved" in line]
        assert said == ["a, b and parts of t are not saved. %agent status tells why, and the way back."]
        told = shell.run("%agent status").out
        assert "a thread cannot be saved" in told
        assert "a generator cannot be saved" in told

    def test_a_generator_that_has_not_begun_is_not_called_running(self, shell: Shell) -> None:
        assert "a generator cannot be saved" in shell.run("g = (n for n in [1])").out


class TestOwnHandles:
    def test_are_named_in_one_line_with_what_they_hold(self, shell: Shell, tmp_path: Path) -> None:
        told = shell.run(
            f"import agent_kernel as ak\nstate = ak.Versioned({str(tmp_path / 'v')!r}); live = ak.Live()\n"
            f"state['a'] = 1; done = state.commit(); past = state.at(); repo = ak.open({str(tmp_path / 'w')!r})"
        ).out
        line, *rest = told.splitlines()
        names, _, said = line.removeprefix("[agent] ").partition(" are not saved (")
        kinds, _, reason = said.partition("): ")
        assert rest == []
        assert sorted(names.split(", ")) == ["past", "repo", "state"]
        assert sorted(kinds.split(", ")) == ["Repository", "Snapshot", "Versioned"]
        assert reason == "each holds an open store. Run cell [3] again to have them back."
        status = shell.run("%agent status").out
        assert "are not saved (" in status
        assert "Environment" not in status
        assert "_thread" not in status
        shell.run("state.close(); repo.close()")

    def test_one_alone_is_said_of_one(self, shell: Shell, tmp_path: Path) -> None:
        told = shell.run(f"import agent_kernel as ak\nrepo = ak.open({str(tmp_path / 'w')!r})").out
        said = "repo is not saved (Repository): it holds an open store. Run cell [3] again to have it back."
        assert told.strip() == f"[agent] {said}"
        shell.run("repo.close()")


def test_a_terminal_shows_the_history_as_log_does(shell: Shell) -> None:
    assert shell.run("%agent history").out == shell.run("%agent log").out
    assert shell.run("%agent history -- tmp").out == shell.run("%agent log -- tmp").out
    assert shell.run("%agent history --help").out.startswith("usage: %agent history")


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("%%agent --modle openai:x\nx = 1", "did you mean --model?"),
        ("%%agent --stesp 3 --aprove=auto\nx = 1", "did you mean --steps and --approve?"),
        ("%agent log --limt 3", "did you mean --limit?"),
    ],
)
def test_an_option_that_looks_like_one_is_told_of_it(shell: Shell, line: str, meant: str) -> None:
    said = shell.run(line)
    assert meant in said.out + said.err
    assert "did you mean" not in shell.run("%agent log --grahp").err  # nothing is close


def test_another_name_of_an_object_that_is_not_saved_names_the_cells_of_both(tmp_path: Path) -> None:
    store, file = str(tmp_path / "store"), str(tmp_path / "x.db")
    with Shell(store=store) as shell:
        shell.run("import sqlite3")
        reason = f"a database connection to {file} cannot be saved"
        said = shell.run(f"con = sqlite3.connect({file!r})").out
        assert f"con is not saved (sqlite3.Connection): {reason}. Run cell [2] again to have it back." in said
        said = shell.run("con2 = con").out
        assert "con2 is not saved" in said
        assert f"{reason}. Run cells [2] and [3] again to have it back." in said
        shell.run("con.close()")
    with Shell(store=store) as shell:
        shell.run("%agent checkout")
        assert "'con2' (also 'con') was a sqlite3.Connection" in shell.run("con2.cursor()").out


def test_search_is_told_where_it_is(shell: Shell) -> None:
    assert "log --search TEXT searches the history" in shell.run("%agent search price").err
    shell.run("%agent tag clean")
    assert "'cleen'; did you mean clean?" in shell.run("%agent rollback cleen").err


def test_after_a_restart_a_second_name_of_what_is_not_saved_names_the_cell_that_bound_it(tmp_path: Path) -> None:
    store, file = str(tmp_path / "store"), str(tmp_path / "x.db")
    with Shell(store=store) as shell:
        shell.run("import sqlite3")
        shell.run(f"con = sqlite3.connect({file!r})")
        said = shell.run("con2 = con; holder = {'c': con}").out
        assert "con2 and a sqlite3.Connection in holder are not saved: a" in said
        shell.ip.user_ns["con"].close()
        made, bound = (row["id"][:8] for row in shell.log()[::-1][1:3])
    with Shell(store=store) as shell:
        said = shell.run("%agent checkout").out
        assert f"Run the cells of {made} (con = sqlite3.connect(" in said
        assert f" and {bound} (con2 = con; holder = {{'c': con}}) again" in said
        shell.run(f"import sqlite3; con = sqlite3.connect({file!r})")
        for use, name in (("con2.execute('select 1')", "con2"), ("holder['c'].execute('select 1')", "holder")):
            said = shell.run(use).out
            assert f"{name!r} was a sqlite3.Connection" in said
            assert "'con'" not in said
            assert f"{bound} (con2 = con" in said
        shell.run("con.close()")


def test_a_table_that_lost_rows_says_so_in_the_log_and_at_the_end_of_a_run(shell: Shell) -> None:
    use(shell, "df = df[df.a >= 30]", "kept = df.tail(5)", "task.success('ok')")
    shell.run("import pandas as pd; df = pd.DataFrame({'a': range(200), 'b': range(200)})")
    shell.run("df = df[df.a >= 20]")
    assert "~df −20 rows" in shell.run("%agent log").out
    said = shell.run("%%agent analyst\nDrop ten more rows, please.").out.splitlines()
    assert said[said.index("[agent] done: str 'ok'") + 1] == "[agent] changed: ~df −10 rows, +kept"


def test_undo_after_a_task_that_failed_before_its_first_step_says_so_and_undoes_nothing_at_first(shell: Shell) -> None:
    shell.run("kept = 1")
    shell.run("last = 2")
    use(shell)
    assert "failed:" in shell.run("%%agent analyst\nAsk for more than there is, please.").out
    said = shell.run("%agent undo").out
    assert "Nothing was undone: the run of analyst" in said
    assert "%agent undo again takes back" in said
    assert shell.ns["last"] == 2
    assert "Undone" in shell.run("%agent undo").out
