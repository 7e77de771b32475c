"""`agent-kernel VERB STORE …`: the commands of a notebook, on a store that nobody has open."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.agents import Agent, ScriptedModel
from agent_kernel.agents.agent_undo import external_model
from agent_kernel.agents.models import Model
from agent_kernel.commands.scope import COMMANDS
from agent_kernel.session import Repository, Session, bind
from tests.commands.stores import go_on, make_history

CELLS = ("# first step\nx = 1; y = [1, 2]", "x = 2", "z = 'new'; del y")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / ".agent-kernel" / "study"
    make_history(place, *CELLS)
    (tmp_path / "study.ipynb").write_text("{}")
    return place


def test_log_reads_like_gits(run: Any, store: Path) -> None:
    newest, _, oldest, *_ = run("log", store).out.splitlines()
    assert "(HEAD -> main) [3] z = 'new'; del y" in newest
    assert "+z" in newest
    assert "−y" in newest
    assert "[1] first step" in oldest


def test_history_reads_as_log_where_there_is_no_panel(run: Any, store: Path) -> None:
    assert run("history", store).out == run("log", store).out
    assert run("history", store, "--json").json == run("log", store, "--json").json
    assert run("history", store, "--", "z").out == run("log", store, "--", "z").out
    assert "history" in run("--help").out


def test_log_searches_code_names_and_messages_as_the_panel_does(run: Any, store: Path) -> None:
    def found(*words: str) -> list[int]:
        return [one["cell"]["number"] for one in run("log", store, "--json", *words).json]

    assert found("--search", "FIRST step") == [1]
    assert found("--search", "new") == [3]
    assert found("--search", "var:x") == [2, 1]
    assert found("--search", "x =") == [2, 1]
    assert found("--search", "var:x first") == [1]
    assert found("--search", "x", "--", "y") == [1]
    assert found("--search", "is:error") == []
    assert run("log", store, "--search", "nowhere").out == "No commit matches nowhere.\n"
    few = run("log", store, "-n", "1", "--search", "var:x").out
    assert "[2] x = 2" in few


def test_a_search_finds_names_that_no_code_says(run: Any, tmp_path: Path) -> None:
    store = tmp_path / "store"
    make_history(store, "globals()['se' + 'cond'] = 1", "a = 1")
    assert [one["cell"]["number"] for one in run("log", store, "--json", "--search", "second").json] == [1]


def test_a_search_loads_no_value(run: Any, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("agent_kernel.values.loader.Loader.__init__", refuse)
    assert run("log", store, "--search", "first").status == 0


def test_log_for_programs_has_exactly_the_promised_keys(run: Any, store: Path) -> None:
    history = run("log", store, "--json").json
    assert [commit["cell"]["number"] for commit in history[:3]] == [3, 2, 1]
    keys = {"id", "parents", "author", "time", "message", "cell", "changed", "unsaved", "status"}
    assert all(set(commit) == keys for commit in history)


def test_a_store_goes_by_its_folder_its_notebook_or_its_notebooks_folder(
    run: Any, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run("log", store).out
    monkeypatch.chdir(tmp_path)
    for name in (tmp_path / "study.ipynb", tmp_path, f"lmdb://{store}", ".", "study.ipynb", ".agent-kernel/study"):
        assert run("log", name).out == expected


def test_two_stores_in_a_folder_are_not_guessed_between(run: Any, store: Path, tmp_path: Path) -> None:
    make_history(store.with_name("other"), "x = 1")
    ran = run("log", tmp_path)
    assert ran.status == 1
    assert "other, study" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("show", "HEAD:x"),
        ("diff", "HEAD~2", "HEAD"),
        ("status",),
        ("branch",),
        ("tag",),
        ("verify",),
        ("stats",),
        ("gc", "--dry-run"),
    ],
)
def test_reading_verbs_answer_in_text_and_json(run: Any, store: Path, words: tuple[str, ...]) -> None:
    verb, *rest = words
    assert (ran := run(verb, store, *rest)).status == 0, ran.err
    assert ran.out.strip()
    run(verb, store, *rest, "--json").json  # noqa: B018 - it parses


def test_reading_leaves_the_store_as_it_is(run: Any, store: Path) -> None:
    before = run("log", store, "--all", "--json").out
    for words in (("show",), ("diff",), ("status",), ("verify",), ("stats",), ("gc", "--dry-run")):
        run(words[0], store, *words[1:])
    assert run("log", store, "--all", "--json").out == before


def test_branches_and_tags(run: Any, store: Path) -> None:
    assert run("branch", store, "try", "HEAD~1").status == 0
    assert run("tag", store, "v1").status == 0
    assert run("switch", store, "try").status == 0
    assert "* try" in " ".join(run("branch", store).out.split())
    assert run("branch", store, "-d", "main").status == 0  # the tag still reaches its commits
    assert run("tag", store, "-d", "v1").status == 0


def test_checkout_moves_head_to_where_the_next_session_starts(run: Any, store: Path) -> None:
    assert run("checkout", store, "HEAD~2").status == 0
    assert "On no branch" in run("status", store).out
    assert run("checkout", store, "main").status == 0
    assert "On branch main" in run("status", store).out
    assert run("checkout", store, "main", "--", "x").status == 2


@pytest.mark.parametrize("rev", [(), ("HEAD",)])
def test_checkout_of_where_the_store_is_stays_on_the_branch(run: Any, store: Path, rev: tuple[str, ...]) -> None:
    assert "on branch main" in run("checkout", store, *rev).out
    assert run("status", store, "--json").json["branch"] == "main"


def test_the_branch_before_goes_by_a_dash(run: Any, store: Path) -> None:
    run("switch", store, "-c", "side")
    assert "on branch main" in run("switch", store, "-").out
    assert "on branch side" in run("checkout", store, "-").out
    assert "Already up to date with main" in run("merge", store, "-").out


def test_rollback_makes_a_commit_that_equals_an_older_one(run: Any, store: Path) -> None:
    before = run("log", store, "--json").json
    assert "Rolled back to" in run("rollback", store, "HEAD~2").out
    after = run("log", store, "--json").json
    assert after[1:] == before
    assert [(change["how"], change["name"]) for change in after[0]["changed"]] == [("~", "x"), ("+", "y"), ("-", "z")]
    assert run("diff", store, "HEAD~3", "HEAD", "--json").json["changed"] == []


def test_merge_without_loading_anything(run: Any, store: Path) -> None:
    run("branch", store, "try", "HEAD~2")
    run("switch", store, "try")
    go_on(store, "w = 1")
    ran = run("merge", store, "main", "-m", "both")
    assert ran.status == 0, ran.err
    assert "Already up to date" in run("merge", store, "main").out
    assert run("show", store, "HEAD:z").status == 0
    assert run("show", store, "HEAD:w").status == 0


def test_conflicts_are_shown_and_settled(run: Any, store: Path) -> None:
    run("branch", store, "try", "HEAD~2")
    run("switch", store, "try")
    go_on(store, "x = 77")
    ran = run("merge", store, "main")
    assert ran.status == 1
    assert "77" in ran.err
    assert run("merge", store, "main", "--ours", "x", "--theirs", "x").status == 2
    assert run("merge", store, "main", "--ours", "x").status == 0
    assert "77" in run("show", store, "HEAD:x").out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("checkout", "nowhere"), 1, "no branch, tag or commit is called 'nowhere'"),
        (("show", "HEAD:nothing"), 1, "no variable 'nothing'"),
        (("log", "-n", "many"), 2, "-n"),
        (("branch", "a..b"), 1, "cannot name a branch"),
        (("switch", "nowhere"), 1, "nowhere"),
        (("checkout", "--fresh"), 2, "is for a running notebook"),
        (("checkout", "main", "--"), 2, "say which variables"),
        (("forget", "x"), 2, "--yes"),
        (("forget", "x", "nowhere", "--yes"), 1, "no variable 'nowhere'"),
        (("prune",), 2, "--keep-last"),
        (("undo",), 2, "running notebook"),
    ],
)
def test_bad_input_gets_one_clear_line(run: Any, store: Path, words: tuple[str, ...], status: int, said: str) -> None:
    ran = run(words[0], store, *words[1:])
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err
    assert len(ran.err.strip().splitlines()) == 1
    assert "%agent checkout" not in ran.err


@pytest.mark.parametrize("place", ["nothing-there", "a-file", "a-folder"])
def test_what_is_no_store_is_named(run: Any, tmp_path: Path, place: str) -> None:
    (tmp_path / "a-file").write_text("x")
    (tmp_path / "a-folder").mkdir()
    (tmp_path / "a-folder" / "notes.txt").write_text("x")
    ran = run("log", tmp_path / place)
    assert ran.status == 1
    assert "is not an agent_kernel store: " in ran.err
    assert {"nothing-there": "nothing there", "a-folder": "a folder without a store"}.get(place, "else") in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_a_branch_that_a_living_process_holds_is_not_written_to(run: Any, store: Path) -> None:
    with closing(Repository.open(store)) as repo, closing(bind({}, repo)):
        ran = run("rollback", store, "HEAD~1")
        assert ran.status == 1
        assert "in use" in ran.err
        assert "run %agent rollback in the notebook that has it open" in ran.err
        assert (
            "--force writes all the same: that notebook keeps its variables, and its next cell goes to a new branch"
            in ran.err
        )
        assert (
            "--force changes where the next session starts, and nothing in that" in run("checkout", store, "HEAD~1").err
        )
        assert run("branch", store, "another").status == 0
        assert run("log", store).status == 0
        assert run("rollback", store, "HEAD~1", "--force").status == 0
    assert run("rollback", store, "HEAD~1").status == 0


def test_forget_prune_and_gc(run: Any, store: Path) -> None:
    assert run("forget", store, "z", "--yes").status == 0
    history = run("log", store, "--all", "--json").json
    assert "z" not in {change["name"] for commit in history for change in commit["changed"]}
    assert run("prune", store, "--keep-last", "1", "--dry-run").status == 0
    assert run("prune", store, "--keep-last", "1").status == 2
    assert run("prune", store, "--keep-last", "1", "--yes").status == 0
    assert run("gc", store).status == 0
    assert run("verify", store).status == 0


def test_several_things_are_forgotten_in_one_go_or_none(run: Any, store: Path) -> None:
    before = run("log", store, "--json").json
    asked = run("forget", store, "x", "y", "HEAD~1").err
    assert f"without variables x and y and commit {before[1]['id'][:8]}, and cannot be undone" in asked
    assert f"agent-kernel forget {store} x y HEAD~1 --yes" in asked
    assert run("forget", store, "x", "never", "--yes").status == 1
    assert run("log", store, "--json").json == before
    assert run("forget", store, "x", "y", "HEAD~1", "--yes").status == 0
    after = run("log", store, "--json").json
    assert [commit["cell"]["number"] for commit in after] == [3, 1]
    assert [change["name"] for commit in after for change in commit["changed"]] == ["z"]
    assert run("verify", store).status == 0


def test_no_number_is_too_large(run: Any, store: Path) -> None:
    many = str(10**30)
    assert len(run("log", store, "-n", many).out.splitlines()) == 3
    assert "every commit is kept" in run("prune", store, "--keep-last", many, "--keep-days", many).out
    assert run("show", store, f"HEAD~{many}").status == 1


def test_verify_fails_where_something_is_damaged(run: Any, store: Path) -> None:
    with closing(Repository.open(store)) as repo:
        head = repo.head().commit
        assert head is not None
        key = b"t" + repo.commit_at(head).tree
        body = bytearray(repo.store.get_many([key])[key])
        body[-1] ^= 1
        repo.store.delete_many([key])
        repo.store.put_many({key: bytes(body)})
    ran = run("verify", store)
    assert ran.status == 1
    assert "damaged" in ran.out


def test_help_and_version(run: Any) -> None:
    assert all(
        f"agent-kernel {verb} " in run("--help").out for verb, known in COMMANDS.items() if known.needs == "store"
    )
    assert "usage: agent-kernel log" in run("log", "--help").out
    assert run("--version").out.startswith("agent-kernel 0.")
    assert run().status == 0
    assert run("lgo", "x").status == 2


def test_it_runs_as_a_module_and_a_reader_may_leave(store: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    script = f"{sys.executable} -m agent_kernel log {store} --json | head -n 1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert (done.stdout, done.stderr) == ("[\n", "")


def test_reading_a_history_loads_neither_ipython_nor_rich(store: Path) -> None:
    script = (
        "import sys; from agent_kernel.cli import main; main(['log', sys.argv[1]]); "
        "print([m for m in ('IPython', 'traitlets', 'rich', 'numpy', 'pandas', 'cloudpickle') if m in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, "-c", script, str(store)], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_long_work_shows_its_progress_where_someone_is_there_to_see_it(store: Path) -> None:
    pexpect = pytest.importorskip("pexpect")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"}
    command = ["-m", "agent_kernel", "verify", str(store)]
    told, status = pexpect.run(
        " ".join([sys.executable, *command]), env=environment, withexitstatus=True, timeout=60, encoding="utf-8"
    )
    assert status == 0
    assert "reading" in told
    assert "all sound" in told


def test_an_error_is_a_json_object_where_json_was_asked_for(run: Any, store: Path) -> None:
    ran = run("show", store, "nowhere", "--json")
    assert (ran.status, ran.err, ran.json["error"]["type"]) == (1, "", "RefNotFoundError")
    assert run("log", store, "-n", "many", "--json").json["error"]["type"] == "UsageProblem"


def test_leaving_every_branch_is_said_with_the_way_back(run: Any, store: Path) -> None:
    hint = f"agent-kernel switch {store} -c NAME starts a branch here"
    assert hint in run("checkout", store, "HEAD~2").out
    assert f"on no branch; {hint}" in run("rollback", store, "main").out
    assert run("switch", store, "-c", "kept").status == 0
    assert "On branch kept" in run("status", store).out


def test_what_to_type_names_the_store(run: Any, store: Path) -> None:
    assert f"agent-kernel forget {store} x --yes" in run("forget", store, "x").err
    assert f"agent-kernel forget {store} x --sources --yes" in run("ignore", store, "x").out
    assert f"agent-kernel prune {store} --keep-last 1 --yes" in run("prune", store, "--keep-last", "1").err
    run("tag", store, "v1")
    assert run("tag", store, "v1").status == 0
    assert f"agent-kernel tag {store} -f v1 HEAD~1" in run("tag", store, "v1", "HEAD~1").err
    assert run("tag", store, "-f", "v1", "HEAD~1").status == 0


def test_help_says_what_a_verb_does_without_a_notebook(run: Any) -> None:
    assert "load the variables" not in run("--help").out
    assert "at which the next session starts" in run("checkout", "--help").out
    assert "usage: agent-kernel log" in run("help", "log").out
    assert "undo" not in run("nonsense", "x").err


def test_a_store_shows_what_a_notebook_went_without(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "away_demo.py").write_text("class Thing: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    place = tmp_path / "store"
    _, second = make_history(place, "import away_demo\nt = away_demo.Thing()\ndel away_demo", "x = 1")
    (tmp_path / "away_demo.py").unlink()
    sys.modules.pop("away_demo")
    sys.path_importer_cache.clear()
    with closing(Repository.open(place)) as repo, closing(bind({}, repo)) as session:
        session.checkout(partial=True)
        session.commit("looked at it")
    assert "!t" in run("log", place).out.splitlines()[0]
    assert "! t is not loaded (away_demo.Thing): ModuleNotFoundError" in run("show", place).out
    (told,) = run("show", place, "--json").json["unsaved"]
    assert (told["name"], told["stored"]) == ("t", True)
    assert "all sound" in run("verify", place).out
    assert "t: away_demo.Thing" in run("show", place, "HEAD:t").out
    assert run("show", place, second[:8]).status == 0


def test_moves_explain_partial_here_too(run: Any) -> None:
    for verb in ("checkout", "switch", "rollback", "merge"):
        assert "--partial" in run(verb, "--help").out


RISKY = "import os\ntoken = 'sk-abcdefghijklmnopqrstuvwxyz123456'\nos.remove('notes.txt')"


def wait_for_approval(store: Path, model: Model) -> None:
    """Begin a run whose step waits."""
    with Repository.open(store, create=False) as repo:
        session = Session({}, repo)
        run = Agent("ada", model=model, state=session, approve="risky").start("tidy up")
        list(run.stream())
        session.close()


@pytest.mark.parametrize(("verb", "done"), [("approve", "is approved"), ("deny", "is denied")])
def test_a_step_is_shown_as_it_is_decided_about(store: Path, run: Any, verb: str, done: str) -> None:
    wait_for_approval(store, ScriptedModel([RISKY]))
    listed = run("runs", str(store))
    assert "ada wants to run step 1\n    import os\n" in listed.out
    assert "os.remove('notes.txt')" in listed.out
    assert "files: " in listed.out
    (facts,) = run("runs", str(store), "--json").json
    assert facts["waits_for"]["step"] == 1
    told = run(verb, str(store))
    assert "    os.remove('notes.txt')\n" in told.out
    assert told.out.index("os.remove") < told.out.index(done)
    assert "with %agent resume in its notebook" in told.out
    assert "abcdefghij" not in listed.out + told.out


def test_of_an_agent_outside_it_is_said_who_goes_on(store: Path, run: Any) -> None:
    wait_for_approval(store, external_model("visitor", RISKY))
    told = run("approve", str(store))
    assert "is approved; the agent learns of it as it asks for the result" in told.out
    assert "resume" not in told.out
