"""`%agent VERB`: what a person types in a notebook, and what they see."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agent_kernel.commands.describe import Result
from agent_kernel.commands.scope import COMMANDS
from agent_kernel.repository.refs import FORMAT
from agent_kernel.session import Repository
from agent_kernel.storage import open_store
from tests.magics.shells import Shell


def test_agent_alone_is_a_short_help(shell: Shell) -> None:
    text = shell.run("%agent").out
    assert all(f"%agent {verb} " in text for verb in COMMANDS)
    assert shell.run("%agent --help").out == text


@pytest.mark.parametrize("asked", ["%agent checkout --help", "%agent checkout?", "  %agent checkout??"])
def test_a_verb_explains_itself(shell: Shell, asked: str) -> None:
    typed = shell.run(asked)
    assert "--keep-random" in typed.out, typed.err
    assert typed.result.success


def test_a_question_in_a_string_is_left_alone(shell: Shell) -> None:
    shell.run('text = """\n%agent checkout?\n"""')
    assert shell.ns["text"] == "\n%agent checkout?\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%agent chekout", "did you mean checkout"),
        ("%agent checkout nowhere", "no branch, tag or commit is called 'nowhere'"),
        ("%agent show HEAD:nothing", "no variable 'nothing'"),
        ("%agent log -n many", "-n"),
        ("%agent branch a..b", "cannot name a branch"),
        ("%agent switch nowhere", "nowhere"),
        ("%agent prune", "--keep-last"),
        ("%agent forget x", "--yes"),
        ('%agent commit -m "open', "quotation"),
        ("%agent diff HEAD HEAD -- nothing", "no variable 'nothing'"),
    ],
)
def test_bad_input_gets_one_clear_line_and_changes_nothing(shell: Shell, line: str, said: str) -> None:
    shell.run("x = 1")
    before = shell.log("--all")
    typed = shell.run(line)
    assert not typed.result.success
    assert said in typed.err + typed.out
    assert "Traceback" not in typed.err + typed.out
    assert len((typed.err + typed.out).strip().splitlines()) == 1
    assert (shell.log("--all"), shell.ns["x"]) == (before, 1)


def test_log_reads_like_gits(shell: Shell) -> None:
    shell.run("# first step\nx = 1")
    shell.run("%agent tag v1")
    shell.run("x = 2; 1 / 0")
    newest, older, *_ = shell.run("%agent log").out.splitlines()
    assert newest.startswith("* ")
    assert "(HEAD -> main) [3] ✕ x = 2; 1 / 0" in newest
    assert "~x" in newest
    assert "(tag: v1) [1] first step" in older
    assert older.rstrip().endswith("now")


def test_a_long_log_is_cut_and_says_so(shell: Shell) -> None:
    for number in range(27):
        shell.run(f"x = {number}")
    lines = shell.run("%agent log").out.splitlines()
    assert len(lines) == 26
    assert "-n" in lines[-1]
    assert len(shell.run("%agent log -n 3").out.splitlines()) == 3
    assert len(shell.log()) >= 27


def test_log_of_one_variable(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("y = 1")
    shell.run("x = 2")
    assert [commit["cell"]["source"] for commit in shell.log("-- x")] == ["x = 2", "x = 1"]


def test_rollback_undo_and_redo(shell: Shell) -> None:
    shell.run("x = [1]")
    shell.run("x.append(2)")
    assert "Rolled back to" in shell.run("%agent rollback HEAD~1").out
    assert shell.ns["x"] == [1]
    shell.run("%agent undo")
    assert shell.ns["x"] == [1, 2]
    shell.run("%agent redo")
    assert shell.ns["x"] == [1]


def test_checkout_of_one_variable(shell: Shell) -> None:
    shell.run("x = 1; y = 1")
    shell.run("x = 2; y = 2")
    shell.run("%agent checkout HEAD~1 -- x")
    assert (shell.ns["x"], shell.ns["y"]) == (1, 2)


def test_branch_switch_and_merge(shell: Shell) -> None:
    shell.run("x = 1; y = 1")
    assert "branch try" in shell.run("%agent switch --create try").out
    shell.run("x = 2")
    shell.run("%agent switch main")
    assert shell.ns["x"] == 1
    shell.run("y = 3")
    shell.run("%agent merge try")
    assert (shell.ns["x"], shell.ns["y"]) == (2, 3)
    listed = shell.run("%agent branch").out
    assert "* main" in " ".join(listed.split())
    assert "try" in listed


def test_branches_that_agents_have_for_a_while_stand_apart_and_only_where_they_are_asked_for(shell: Shell) -> None:
    shell.run("x = 1")
    for name in ("race/ab12c/2", "preview/0123abcd-ab12c", "race/mine", "helper-ab12c"):
        shell.run(f"%agent branch {name}")
    listed = shell.run("%agent branch").out
    assert "race/mine" in listed
    assert "helper-ab12c" in listed  # a person's may be called so as well
    assert "race/ab12c/2" not in listed
    assert "and 2 branches that agents have for a while: %agent branch --all" in listed
    whole = shell.run("%agent branch --all").out
    assert (
        whole.index("race/mine")
        < whole.index("That agents have for a while:")
        < whole.index("candidate 2 of race ab12c")
    )
    assert "tried on a fork, waiting" in whole
    told = {one["name"]: one.get("aside") for one in shell.run("%agent branch --json").json}
    assert (told["race/ab12c/2"], told["main"]) == ("candidate 2 of race ab12c", None)
    assert "takes no name" in shell.run("%agent branch --all other").err
    shell.run("%agent switch race/ab12c/2")
    assert "* race/ab12c/2" in " ".join(shell.run("%agent branch").out.split())


def test_a_conflict_shows_both_values_and_changes_nothing(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("%agent switch -c try")
    shell.run("x = 22")
    shell.run("%agent switch main")
    shell.run("x = 33")
    typed = shell.run("%agent merge try")
    assert "22" in typed.err + typed.out
    assert "33" in typed.err + typed.out
    assert shell.ns["x"] == 33
    shell.run("%agent merge try --theirs x")
    assert shell.ns["x"] == 22


def test_branches_are_made_renamed_and_deleted(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("%agent branch one")
    shell.run("%agent branch -m one two")
    assert "two" in shell.run("%agent branch").out
    assert "Deleted branch two" in shell.run("%agent branch -d two").out
    assert "you are on branch main" in shell.run("%agent branch -D main").err
    shell.run("%agent branch -m trunk")
    shell.run("x = 2")
    assert "(HEAD -> trunk)" in shell.run("%agent log").out.splitlines()[0]


def test_tags(shell: Shell) -> None:
    assert "no tag yet" in shell.run("%agent tag").out
    shell.run("x = 1")
    shell.run("%agent tag v1")
    again = shell.run("%agent tag v1")
    assert (again.result.success, "is tagged as v1 already" in again.out) == (True, True)
    assert "v1" in shell.run("%agent tag").out
    shell.run("%agent tag -d v1")
    assert "no tag yet" in shell.run("%agent tag").out


def test_a_notebook_that_is_run_again_moves_its_tag_and_says_so(shell: Shell) -> None:
    cells = ("x = 1", "%agent tag clean", "y = 2")
    typed = [shell.run(source) for source in cells * 2]
    assert all(one.result.success for one in typed)
    assert "Moved the tag clean to " in typed[4].out
    assert "[4] x = 1 (was " in typed[4].out
    assert "[1] x = 1)" in typed[4].out
    refused = shell.run("%agent tag clean HEAD")  # one commit and no other was named
    assert "already exists" in refused.err
    assert "%agent tag -f clean HEAD" in refused.err


def test_show_a_commit_and_a_variable(shell: Shell) -> None:
    shell.run("# first step\nx = 123456; y = 'text'")
    commit = shell.run("%agent show").out
    assert commit.startswith("commit ")
    assert "    # first step\n    x = 123456; y = 'text'" in commit
    assert "123,456" in commit or "123456" in commit
    variable = shell.run("%agent show HEAD:x").out
    assert variable.startswith("x: ")
    assert "first step" in variable


def test_diff_says_what_differs_from_summaries(shell: Shell) -> None:
    shell.run("x = 1; gone = 1")
    shell.run("x = 2; new = 3; del gone")
    text = shell.run("%agent diff").out
    assert "~ x: " in text
    assert "+ new: " in text
    assert "− gone: " in text
    assert "3 variables: 1 changed, 1 added, 1 removed" in text
    assert "no variable differs" in shell.run("%agent diff HEAD HEAD").out
    only = shell.run("%agent diff HEAD~1 HEAD -- x").out
    assert "1 variable: 1 changed" in only


def test_status_stats_verify_and_gc(shell: Shell) -> None:
    shell.run("x = 1")
    assert "On branch main at" in shell.run("%agent status").out
    assert "all sound" in shell.run("%agent verify").out
    assert shell.run("%agent stats").result.success
    assert "Would delete" in shell.run("%agent gc --dry-run").out


@pytest.mark.parametrize(
    "line",
    ["status", "log", "show", "show HEAD:x", "diff", "branch", "tag", "verify", "stats", "gc --dry-run", "ignore"],
)
def test_every_answer_is_json_too(shell: Shell, line: str) -> None:
    shell.run("x = 1")
    shell.run("x = 2")
    json.loads(shell.run(f"%agent {line} --json").out)


def test_commit_takes_a_message(shell: Shell) -> None:
    shell.run("x = 1")
    shell.run("%agent commit -m 'a good state'")
    assert shell.log("-n 1")[0]["message"] == "a good state"


def test_an_ignored_variable_is_never_stored(shell: Shell) -> None:
    shell.run("%agent ignore secret")
    shell.run("secret = 'hunter2'; x = 1")
    assert {change["name"] for change in shell.log("-n 1")[0]["changed"]} == {"x"}
    assert "secret" in shell.run("%agent ignore").out
    shell.run("%agent ignore secret --remove")
    shell.run("y = 1")
    assert "secret" in {change["name"] for change in shell.log("-n 1")[0]["changed"]}


def test_forget_erases_a_variable_from_the_whole_history(shell: Shell) -> None:
    shell.run("x = 1; secret = 'hunter2'")
    shell.run("y = 1")
    assert shell.run("%agent forget secret --yes").result.success
    assert "secret" not in {change["name"] for commit in shell.log("--all") for change in commit["changed"]}


def test_prune_thins_out_history_under_a_live_session(shell: Shell) -> None:
    for number in range(6):
        shell.run(f"x = {number}")
    assert "Would drop" in shell.run("%agent prune --keep-last 2 --dry-run").out
    asked = shell.run("%agent prune --keep-last 2").out
    assert asked.startswith("Really prune? It would drop ")
    assert "cannot be undone; to do it: %agent prune --keep-last 2 --yes" in asked
    assert "Dropped" in shell.run("%agent prune --keep-last 2 --yes").out
    shell.run("x = 'after'")
    assert len(shell.log()) == 3
    assert shell.run("%agent checkout HEAD~1").result.success
    assert shell.ns["x"] == 5


def test_an_answer_in_the_middle_of_a_cell_is_shown_there(shell: Shell) -> None:
    out = shell.run("print('before')\n%agent status\nprint('after')").out
    assert out.index("before") < out.index("On branch main") < out.index("after")


def test_an_answer_that_is_kept_is_not_shown(shell: Shell) -> None:
    shell.run("x = 1")
    typed = shell.run("history = %agent log")
    assert typed.out == ""
    assert isinstance(shell.ns["history"], Result)
    assert isinstance(shell.ip.run_line_magic("agent", "log -n 1"), Result)


def test_nothing_is_expanded_in_a_line(shell: Shell) -> None:
    shell.run("name = 'x'; x = 1")
    assert "{name}" in shell.run("%agent show HEAD:{name}").err


def test_a_store_can_be_chosen(shell: Shell, tmp_path: Path) -> None:
    shell.run("x = 1")
    assert "branch main" in shell.run(f"%agent bind {tmp_path / 'other'}").out
    assert "other" in shell.run("%agent bind").out
    shell.run("y = 1")
    assert [[change["name"] for change in commit["changed"]] for commit in shell.log()] == [["y"], ["x"]]


def test_a_store_that_cannot_be_opened_leaves_the_notebook_where_it_is(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    shell.run("x = 1")
    assert not shell.run(f"%agent bind {tmp_path / 'mine'}").result.success
    shell.run("y = 1")
    assert shell.log("-n 1")[0]["cell"]["source"] == "y = 1"


def test_a_store_may_start_as_a_copy(shell: Shell, tmp_path: Path) -> None:
    shell.run("x = 1")
    ids = [commit["id"] for commit in shell.log()]
    shell.run(f"%agent bind {tmp_path / 'copy'} --from {tmp_path / 'store'}")
    assert [commit["id"] for commit in shell.log()][-len(ids) :] == ids


def test_a_store_that_cannot_be_read_here_is_not_copied_over_ones_own(shell: Shell, tmp_path: Path) -> None:
    shell.run("x = 1")
    history = shell.log()
    newer = open_store(tmp_path / "newer", create=True)
    with closing(Repository.open(newer)):
        stamp, _ = msgspec.msgpack.decode(newer.get_many([FORMAT])[FORMAT])
        newer.delete_many([FORMAT])
        newer.put_many({FORMAT: msgspec.msgpack.encode([stamp, 99])})
    typed = shell.run(f"%agent bind --from {tmp_path / 'newer'}")
    assert f"{tmp_path / 'newer'} has format 99" in typed.err
    assert shell.log() == history
    shell.extension.notebook.close()
    with closing(Repository.open(tmp_path / "store", create=False)) as repo:
        assert set(repo.branches()) == {"main"}


def test_without_a_store_single_variables_ask_for_one_too(shell: Shell) -> None:
    shell.extension.notebook.close()
    for line in ("checkout", "checkout HEAD -- x", "rollback HEAD", "forget x", "switch -"):
        assert "no store is bound" in shell.run(f"%agent {line}").err


def test_a_store_of_someone_else_is_browsed_but_not_loaded_until_it_is_trusted(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell.run("x = 1\ny = 2\ndef double(v): return 2 * v")
    shell.run(f"%agent bind {tmp_path / 'mine'}")
    shell.run("del y, double")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another-user"))
    shell.run(f"%agent bind {tmp_path / 'store'}")
    shell.ns["x"] = "here"
    assert "int 1" in shell.run("%agent show HEAD:x").out
    found = shell.run("%agent checkout").out
    assert "double is not loaded (function): it needs a function of the notebook" in found
    assert "run %agent trust" in found
    assert (shell.ns["x"], shell.ns["y"]) == ("here", 2)  # plain data, for which no code is needed
    refused = shell.run("%agent checkout HEAD~1")
    assert "made by someone else" in refused.err
    assert "is trusted" in shell.run("%agent trust").out
    assert shell.run("%agent checkout").result.success
    assert shell.run("double(4)").result.result == 8


def test_trust_can_be_taken_back_and_given_again(shell: Shell, tmp_path: Path) -> None:
    shell.run("def double(x): return 2 * x")
    assert str(tmp_path / "store") in shell.run("%agent trust --list").out
    said = shell.run("%agent trust --revoke").out
    assert "is no longer trusted" in said
    assert "What is in memory stays there; %agent trust lets" in said
    assert shell.run("double(4)").result.result == 8
    assert "was not trusted" in shell.run("%agent trust --revoke").out
    shell.run("del double")
    shell.run("%agent checkout HEAD~1 -- double")
    assert not callable(shell.ns.get("double"))
    shell.run("%agent trust")
    shell.run("%agent checkout HEAD~1 -- double")
    assert shell.run("double(4)").result.result == 8


def _without_its_library(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`t` is of a library that is gone now; `x` was another value since."""
    (tmp_path / "gone_demo.py").write_text("__version__ = '3.1'\nclass Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    shell.run("from gone_demo import Thing\nt = Thing(); x = [1]\ndel Thing")
    shell.run("del t; x.append(2)")
    (tmp_path / "gone_demo.py").unlink()
    sys.modules.pop("gone_demo")
    sys.path_importer_cache.clear()


@pytest.mark.parametrize("line", ["checkout HEAD~1", "rollback HEAD~1", "undo"])
def test_what_cannot_be_loaded_is_named_and_partial_goes_on_without_it(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    _without_its_library(shell, tmp_path, monkeypatch)
    typed = shell.run(f"%agent {line}")
    said = (typed.err + typed.out).strip()
    assert "t could not be loaded: ModuleNotFoundError: No module named 'gone_demo'" in said
    assert "(saved with gone_demo 3.1, which is not installed)" in said
    assert "--partial" in said
    assert len(said.splitlines()) == 1
    assert (shell.ns["x"], "t" in shell.ns) == ([1, 2], False)
    answer = shell.run(f"%agent {line} --partial").out
    assert "t is not loaded (gone_demo.Thing): ModuleNotFoundError" in answer
    assert "the cell [1]" in answer
    assert shell.ns["x"] == [1]
    assert "LostValueError" in shell.run("t.anything").out
    assert "t is not loaded (gone_demo.Thing)" in shell.run("%agent status").out
    shell.run("y = 1")
    assert "!t" in shell.run("%agent log -n 1").out
    assert "! t is not loaded (gone_demo.Thing)" in shell.run("%agent show").out


@pytest.mark.parametrize("verb", ["checkout", "switch", "rollback", "undo", "redo", "merge"])
def test_every_move_explains_partial(shell: Shell, verb: str) -> None:
    assert "--partial" in shell.run(f"%agent {verb} --help").out


def test_a_restarted_kernel_gets_the_rest_and_one_line_on_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "store")
    with Shell(store=store) as shell:
        _without_its_library(shell, tmp_path, monkeypatch)
        with_t = shell.log()[1]["id"]
    with Shell(store=store) as again:
        said = again.run(f"%agent checkout {with_t}")
        (line,) = (line for line in said.out.splitlines() if "not loaded" in line)
        assert line.startswith("t is not loaded (gone_demo.Thing): ModuleNotFoundError: No module named 'gone_demo'")
        assert "What was saved stays in the store: when the cause is gone, %agent checkout loads it" in line
        assert said.err == ""
        assert again.ns["x"] == [1]


def test_restoring_at_start_says_what_it_went_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = str(tmp_path / "store")
    with Shell(store=store) as shell:
        _without_its_library(shell, tmp_path, monkeypatch)
        shell.run("%agent rollback HEAD~1 --partial")
    with Shell(store=store, on_restart="restore") as again:
        assert again.ns["x"] == [1]
        assert "t is not loaded (gone_demo.Thing): ModuleNotFoundError" in again.loaded
        assert "y" not in again.ns


@pytest.mark.parametrize("place", ["mine", "copy --from mine", "store --branch ..bad"])
def test_a_refused_bind_leaves_undo_and_what_is_committed_as_they_were(
    shell: Shell, tmp_path: Path, place: str
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("x")
    shell.run("x = [1]")
    shell.run("x.append(2)")
    words = place.split()
    line = " ".join([str(tmp_path / words[0]), *(str(tmp_path / w) if w == "mine" else w for w in words[1:])])
    assert not shell.run(f"%agent bind {line}").result.success
    assert "Not committed yet" not in shell.run("%agent status").out
    assert shell.run("%agent undo").result.success
    assert shell.ns["x"] == [1]


def test_what_the_store_has_already_is_not_called_uncommitted_after_binding_it_again(
    shell: Shell, tmp_path: Path
) -> None:
    shell.run("x = [1]; y = 2")
    shell.run("%agent off")
    shell.run("z = 3")
    shell.run(f"%agent bind {tmp_path / 'store'}")
    status = shell.run("%agent status --json").json
    assert [change["name"] for change in status["changed"]] == ["z"]
    assert status["unverified"] == ["x", "y"]
    told = "Not checked for changes since their last commit: x, y; %agent commit checks them"
    assert told in shell.run("%agent status").out
    shell.ns["x"].append(2)
    assert "+z, ~x" in shell.run("%agent commit").out
    assert "Not checked" not in shell.run("%agent status").out


def test_a_copied_notebook_may_start_from_the_original_after_its_first_cell(shell: Shell, tmp_path: Path) -> None:
    shell.run("x = 1")
    shell.run("y = 2")
    shell.run(f"%agent bind {tmp_path / 'copy'}")
    shell.ns.pop("y")
    shell.run("x = 10")
    assert shell.run(f"%agent bind {tmp_path / 'copy'} --from {tmp_path / 'store'}").result.success
    shell.run("%agent checkout")
    assert (shell.ns["x"], shell.ns["y"]) == (10, 2)  # what was made since is not replaced
    notebook = shell.extension.notebook
    assert notebook.repo is not None
    assert set(notebook.repo.branches()) == {"main", "main-2"}
    assert shell.run("%agent checkout main~1").result.success
    assert (shell.ns["x"], shell.ns["y"]) == (1, 2)
    assert not shell.run(f"%agent bind {tmp_path / 'copy'} --from {tmp_path / 'store'}").result.success


def test_a_command_that_is_interrupted_says_so_in_one_line(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    shell.run("x = 1")
    shell.run("x = 2")
    monkeypatch.setattr(shell.extension.notebook.session, "undo", interrupted)
    typed = shell.run("%agent undo")
    assert isinstance(typed.result.error_in_exec, KeyboardInterrupt)
    shown = (typed.out + typed.err).strip().splitlines()
    assert shown == ["%agent undo was interrupted; %agent status says where you are"]
    assert shell.ns["x"] == 2


def test_a_name_that_the_shell_put_there_is_the_persons_own_as_soon_as_a_cell_binds_it(shell: Shell) -> None:
    """`%pylab` does this with a thousand names."""
    theirs = {"axes": max, "rand": min}
    shell.ip.user_ns.update(theirs)
    shell.ip.user_ns_hidden.update(theirs)
    shell.run("x = axes(1, 2)")
    shell.run("axes = [1, 2]")
    assert [(change["how"], change["name"]) for change in shell.log()[0]["changed"]] == [("+", "axes")]
    shell.run("axes = 5; rand(1, 2)")
    shell.run("%agent checkout HEAD~1")
    assert (shell.ip.user_ns["axes"], shell.ip.user_ns["rand"]) == ([1, 2], min)
    shell.run("%agent checkout HEAD~1")
    assert "axes" not in shell.ip.user_ns
