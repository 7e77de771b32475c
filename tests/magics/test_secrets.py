"""No interface shows a secret, and `forget --sources` leaves nothing of one in the store."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.cli import main
from agent_kernel.repository.commits import Kind
from agent_kernel.session import Repository
from tests.magics.shells import Shell
from tests.magics.tasks import use

SECRET = "hunter2-hunter2"
KINDS = (Kind.COMMIT, Kind.TREE, Kind.MANIFEST, Kind.LIST, Kind.DEFINITION, Kind.SMALL, Kind.CHUNK, Kind.OUTPUTS)


def leave_traces(shell: Shell) -> None:
    shell.run(f"db_password = '{SECRET}'")
    shell.run(f"raise ValueError('bad ' + (db_password := '{SECRET}'))")
    shell.run(f"%agent commit -m 'tried password={SECRET}'")
    shell.run("other = 1")


def held(place: Path, text: str) -> list[bytes]:
    """The kinds of stored objects, and the file, that hold the text."""
    with closing(Repository.open(place, create=False)) as repo:
        found = [
            kind
            for kind in KINDS
            for key in repo.pointers.keys(kind)
            if text.encode() in repo.objects.fetch([key])[key].payload
        ]
        logs = [
            key for key in repo.pointers.keys(b"g/") if text.encode() in b"".join(repo.store.get_many([key]).values())
        ]
    in_file = [b"file"] if text.encode() in (place / "data.mdb").read_bytes() else []
    return [*found, *logs, *in_file]


@pytest.mark.parametrize(
    "line", ["log", "log --json", "show HEAD", "show HEAD~2", "show HEAD~3 --json", "diff HEAD~3", "status"]
)
def test_no_verb_of_a_notebook_shows_a_secret(shell: Shell, line: str) -> None:
    leave_traces(shell)
    typed = shell.run(f"%agent {line}")
    assert typed.result.success, typed.err
    assert SECRET not in typed.out + typed.err


@pytest.mark.parametrize(
    "words", [["log"], ["log", "--json"], ["show", "HEAD~3"], ["show", "HEAD~1", "--json"], ["branch"]]
)
def test_no_verb_of_the_command_line_shows_a_secret(
    shell: Shell, tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    leave_traces(shell)
    shell.extension.notebook.close()
    assert main([words[0], str(tmp_path / "store"), *words[1:]]) == 0
    assert SECRET not in capsys.readouterr().out


def test_the_stored_source_stays_as_it_was_typed(shell: Shell) -> None:
    leave_traces(shell)
    repo = shell.extension.notebook.repo
    assert repo is not None
    sources = [commit.cell.source for _, commit in repo.log(list(repo.branches().values())) if commit.cell]
    assert f"db_password = '{SECRET}'" in sources


def test_forget_takes_the_value_and_says_what_takes_the_code(shell: Shell) -> None:
    leave_traces(shell)
    asked = shell.run("%agent forget db_password").out
    assert "%agent forget db_password --yes" in asked
    assert "the code of 2 cells speaks of it: --sources masks it there too" in asked
    told = shell.run("%agent forget db_password --yes").out
    assert "to mask it there: %agent forget db_password --sources --yes" in told
    told = shell.run("%agent forget db_password --sources --yes").out
    assert "Masked what the code of 2 cells gave away" in told
    again = shell.run("%agent forget db_password").err
    assert "only in the code of 2 cells, which --sources masks" in again


def test_forget_says_that_the_name_is_not_stored_again(shell: Shell) -> None:
    leave_traces(shell)
    told = shell.run("%agent forget db_password --yes").out
    assert "Ignored from now on: db_password; to store it again: %agent ignore --remove db_password" in told


def test_several_variables_are_forgotten_in_one_go(shell: Shell, tmp_path: Path) -> None:
    leave_traces(shell)
    shell.run("api_token = 'first-of-two'; kept = 1")
    shell.run("%agent off")
    shell.run("never = 3")
    asked = shell.run("%agent forget db_password api_token --sources").out
    assert "without variables db_password and api_token, and cannot be undone" in asked
    assert "the code of 3 cells speaks of them and would be masked" in asked
    assert "'never'" in shell.run("%agent forget api_token never --yes").err
    assert shell.run("%agent ignore --json").json == {"ignored": []}
    assert held(tmp_path / "store", "first-of-two")
    assert shell.run("%agent forget db_password api_token --sources --yes").result.success
    assert shell.run("%agent ignore --json").json == {"ignored": ["api_token", "db_password"]}
    shell.extension.notebook.close()
    assert held(tmp_path / "store", SECRET) == held(tmp_path / "store", "first-of-two") == []


def test_after_forgetting_with_sources_nothing_in_the_store_holds_it(shell: Shell, tmp_path: Path) -> None:
    leave_traces(shell)
    shell.run(f"def connect():\n    return '{SECRET}'")
    shell.run(f"class Client:\n    password = '{SECRET}'\n    def login(self): return '{SECRET}'")
    shell.run("client = Client()")
    shell.run("kept = [1, 2]")
    assert held(tmp_path / "store", SECRET)
    asked = shell.run("%agent forget db_password --sources").out
    assert "connect" in asked
    typed = shell.run("%agent forget db_password --sources --yes")
    assert "Went too, with the text in the code: Client, client, connect" in typed.out
    history: list[dict[str, Any]] = shell.log()
    assert history[1]["cell"]["source"] == "kept = [1, 2]"
    assert {change["name"] for commit in history for change in commit["changed"]} == {"kept", "other"}
    shell.run("kept.append(3)")
    assert shell.run("%agent verify").result.success
    shell.extension.notebook.close()
    assert held(tmp_path / "store", SECRET) == []


def test_what_was_masked_stays_masked_on_the_page_and_in_cells_that_are_run_again(shell: Shell, tmp_path: Path) -> None:
    page = tmp_path / "study.ipynb"
    cells = [
        ("code", f"db_password = '{SECRET}'"),
        ("markdown", f"the password is {SECRET}"),
        ("code", "kept = 'plain'"),
    ]
    page.write_text(json.dumps({"cells": [{"cell_type": kind, "source": source} for kind, source in cells]}))
    notebook = shell.extension.notebook
    assert notebook.session is not None
    notebook.session.watch_notebook(page)
    leave_traces(shell)
    told = shell.run("%agent forget db_password --sources --yes").out
    assert "Later commits mask it too, in code, in outputs and on the page" in told
    assert "The notebook itself still says it, and IPython's own history (history.sqlite) may, too" in told
    shell.run("kept = 2")
    assert [cell["source"] for cell in shell.run("%agent show HEAD --notebook --json").json["notebook"]["cells"]] == [
        "db_password = '•••• masked'",
        "the password is •••• masked",
        "kept = 'plain'",
    ]
    shell.run(f"db_password = '{SECRET}'; kept = 3")
    assert shell.log()[0]["cell"]["source"] == "db_password = '•••• masked'; kept = 3"
    page.write_text(page.read_text().replace("kept", "still_kept"))
    shell.run("kept = 4")
    notebook.close()
    assert held(tmp_path / "store", SECRET) == []
    with Shell(store=str(tmp_path / "store")) as later:  # the store remembers, not the session
        later.run("x = 1")
        assert later.extension.notebook.session is not None
        later.extension.notebook.session.watch_notebook(page)
        later.run("x = 2")
        assert later.run("%agent show HEAD --notebook --json").json["notebook"] is not None
        later.extension.notebook.close()
    assert held(tmp_path / "store", SECRET) == []


def test_what_is_stored_again_is_masked_no_longer(shell: Shell, tmp_path: Path) -> None:
    leave_traces(shell)
    shell.run("%agent forget db_password --sources --yes")
    shell.run("%agent ignore --remove db_password")
    shell.run(f"db_password = '{SECRET}'")
    shell.extension.notebook.close()
    assert Kind.COMMIT in held(tmp_path / "store", SECRET)


def test_a_value_that_holds_it_too_is_named_and_stays(shell: Shell) -> None:
    leave_traces(shell)
    shell.run("config = {'x': db_password}")
    told = shell.run("%agent forget db_password --sources --yes").out
    assert "The same text is in the value of config, which stays; %agent forget config --yes" in told
    assert shell.run("%agent show HEAD:config").result.success


@pytest.mark.parametrize("between", ["\n", "; "])
def test_what_stands_beside_it_in_a_cell_is_none_of_its_text(shell: Shell, between: str) -> None:
    shell.run(f"password = 'abcdef-geheim'{between}wage = 54321")
    told = shell.run("%agent forget wage --sources --yes").out
    assert "Masked what the code of 1 cell gave away" in told
    assert "The same text is in" not in told
    repo = shell.extension.notebook.repo
    assert repo is not None
    (source,) = [commit.cell.source for _, commit in repo.log(list(repo.branches().values())) if commit.cell]
    assert source == f"password = 'abcdef-geheim'{between}wage = \"•••• masked\""


def test_a_secret_that_was_never_stored_can_leave_the_code(shell: Shell, tmp_path: Path) -> None:
    shell.run("%agent ignore thing")
    shell.run(f"thing = '{SECRET}'")
    assert "only in the code of one cell, which --sources masks" in shell.run("%agent forget thing --yes").err
    shell.run("%agent forget thing --sources --yes")
    shell.extension.notebook.close()
    assert held(tmp_path / "store", SECRET) == []


def test_a_name_that_nothing_speaks_of_is_no_variable_and_no_commit(shell: Shell) -> None:
    shell.run("x = 1")
    assert "no variable 'nosuch' in any commit, and no commit of this name" in shell.run("%agent forget nosuch").err


def test_a_refused_forget_changes_nothing(shell: Shell, tmp_path: Path) -> None:
    from agent_kernel.repository.refs import Holder, boot_id, start_of

    shell.run("x = 1")
    repo = shell.extension.notebook.repo
    assert repo is not None
    repo.create_branch("theirs", repo.branches()["main"])
    repo.acquire_lease("theirs", Holder(socket.gethostname(), boot_id(), 1, start_of(1)))
    before = shell.log()
    assert "in use" in shell.run("%agent forget x --yes").err
    assert shell.log() == before
    assert "No variable is ignored" in shell.run("%agent ignore").out


def test_ignoring_says_what_it_does_not_take(shell: Shell) -> None:
    shell.run("secret = 'x'")
    told = shell.run("%agent ignore secret").out
    assert "The code of its cells is kept as typed: %agent forget secret --sources --yes takes out both" in told


def test_several_names_and_patterns_are_ignored(shell: Shell) -> None:
    shell.run("a = b = 1")
    told = shell.run("%agent ignore a 'tmp_*' later").out
    assert "What fits tmp_* is not stored from now on (0 variables now)" in told
    assert "later is not bound now; it will be ignored when it appears" in told
    shell.run("tmp_1 = tmp_2 = 2; later = 3; b = 4")
    assert [change["name"] for change in shell.log()[0]["changed"]] == ["a", "b"]
    assert "Ignored: a, later, tmp_*" in shell.run("%agent ignore").out
    shell.run("%agent ignore --remove 'tmp_*' later")
    shell.run("tmp_1 = 5")
    assert "tmp_1" in [change["name"] for change in shell.log()[0]["changed"]]
    assert "not on the list" in shell.run("%agent ignore --remove nothing").err


@pytest.mark.parametrize("name", ["''", "HEAD~999", "../..", "'a b'"])
def test_what_can_be_no_name_is_not_ignored(shell: Shell, name: str) -> None:
    assert "cannot be the name of a variable" in shell.run(f"%agent ignore {name}").err
    assert shell.run("%agent ignore").out.strip() == "No variable is ignored."


def test_json_of_forget_says_all_of_it(shell: Shell) -> None:
    leave_traces(shell)
    facts = json.loads(shell.run("%agent forget db_password --sources --yes --json").out)
    assert facts["sources_masked"] is True
    assert len(facts["mentioned_in"]) == 2


def shown_later(shell: Shell) -> str:
    """What `show` says of the last commit."""
    typed = shell.run("%agent show HEAD")
    assert typed.result.success, typed.err
    return typed.out


@pytest.mark.sampled
@pytest.mark.parametrize(
    "code",
    [
        "greeting",
        "print(greeting)",
        "[greeting, {'x': greeting}]",
        "raise ValueError(f'no {greeting}')",
        "import sys; print(greeting, file=sys.stderr)",
        "say()",
        "raises()",
        "display({'text/html': f'<b>{greeting}</b>', 'application/json': {'a': [greeting]}}, raw=True)",
        "display({'text/plain': 'x', 'image/png': b'\\x89PNG' + greeting.encode()}, raw=True)",
        "display({'text/plain': 'x', 'image/png': b'\\x89PNG' + remembered().encode()}, raw=True)",
        "display({'text/plain': 'x'}, metadata={'note': greeting}, raw=True)",
        "print(greeting); del greeting",
        "print(greeting); greeting = 'another-text-9'",
        "%agent commit -m 'it is opensesame-blue-42'",
    ],
)
def test_later_commits_keep_no_output_with_what_was_forgotten(shell: Shell, tmp_path: Path, code: str) -> None:
    secret = "opensesame-blue-42"
    shell.run("from IPython.display import display")
    shell.run(f"greeting = '{secret}'")
    shell.run("def remembered(kept=[greeting]): return kept[0]\ndef say(): print(remembered())")
    shell.run("def raises(): raise ValueError('no ' + remembered())")
    shell.run("%agent ignore remembered say raises")
    shell.run("%agent forget greeting remembered say raises --sources --yes")
    shell.run(code)
    assert secret not in shown_later(shell)
    shell.run("other = 1")
    shell.extension.notebook.close()
    assert held(tmp_path / "store", secret) == []


def test_the_rest_of_what_later_commits_show_stays(shell: Shell) -> None:
    shell.run("greeting = 'opensesame-blue-42'")
    shell.run("%agent forget greeting --sources --yes")
    shell.run("print('before', greeting, 'behind')")
    assert "before •••• masked behind" in shown_later(shell)


def test_outputs_are_masked_also_of_a_session_that_did_not_forget_it(shell: Shell, tmp_path: Path) -> None:
    shell.run("greeting = 'opensesame-blue-42'")
    shell.run("%agent forget greeting --sources --yes")
    shell.extension.notebook.close()
    with Shell(store=str(tmp_path / "store")) as later:
        later.run("greeting = '-'.join(['opensesame', 'blue', '42'])")
        later.run("print(greeting)")
        later.extension.notebook.close()
    assert held(tmp_path / "store", "opensesame-blue-42") == []


def test_where_nothing_is_forgotten_no_value_is_read_for_it(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_kernel.session import provenance

    monkeypatch.setattr(provenance.Forgotten, "__init__", lambda *given: pytest.fail("nothing was forgotten"))
    shell.run("x = 'opensesame-blue-42'")
    shell.run("print(x)")
    assert "opensesame-blue-42" in shown_later(shell)


def test_forget_says_what_is_not_covered(shell: Shell) -> None:
    leave_traces(shell)
    told = shell.run("%agent forget db_password --sources --yes").out
    assert "Later commits mask it too, in code, in outputs and on the page" in told
    assert "Not masked: copies of it in other variables, and what code computes from it" in told
    assert "What ran the cells may still hold it: IPython's own history (history.sqlite), or a notebook file" in told
    assert "The notebook itself" not in told


def test_hiding_says_where_there_is_no_such_variable(shell: Shell) -> None:
    shell.run("greeting = 'opensesame-blue-42'; other = 1")
    told = shell.run("%agent hide greting").out
    assert "No model is told of greting from now on" in told
    assert "There is no variable greting now; did you mean greeting?" in told
    assert shell.run("%agent hide nosuchthing").out.splitlines()[-1] == "There is no variable nosuchthing now"
    assert "There is no variable" not in shell.run("%agent hide greeting").out
    assert "what fits greet* from now on (1 variable now)" in shell.run("%agent hide 'greet*'").out
    assert shell.run("%agent hide --json").json == {"hidden": ["greet*", "greeting", "greting", "nosuchthing"]}


def test_runs_of_agents_keep_nothing_of_what_was_forgotten(shell: Shell, tmp_path: Path) -> None:
    secret = "opensesame-blue-42"
    shell.run(f"greeting = '{secret}'")
    shell.run("%agent forget greeting --sources --yes")
    use(shell, "print(greeting)\ngreeting", "raise ValueError(greeting)", "task.success()")
    shell.run("%%agent analyst\nLook at what there is.")
    shell.extension.notebook.close()
    assert held(tmp_path / "store", secret) == []
