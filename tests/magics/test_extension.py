"""`%load_ext agent_kernel`: every cell becomes a commit, and unloading leaves nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.magics import binding, load_ipython_extension, unload_ipython_extension
from agent_kernel.repository import person
from agent_kernel.storage import Durability, Store, open_store
from tests.magics.shells import Shell


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def test_loading_says_in_one_line_what_happens_and_how_to_stop_it(place: str) -> None:
    with Shell(store=place) as shell:
        assert shell.loaded.count("\n") == 1
        assert "commit on branch main of" in shell.loaded
        assert "%agent off" in shell.loaded


def test_every_cell_is_a_commit_of_what_it_changed(place: str) -> None:
    with Shell(store=place) as shell:
        assert shell.run("x = 1").out == ""
        shell.run("y = [x]; x = 2", cell_id="cell-two")
        newest, older = shell.log()[:2]
    assert [(change["name"], change["how"]) for change in newest["changed"]] == [("x", "~"), ("y", "+")]
    assert (newest["cell"]["source"], newest["cell"]["id"]) == ("y = [x]; x = 2", "cell-two")
    assert newest["parents"] == [older["id"]]
    assert newest["author"]["kind"] == "person"
    assert set(newest) == {"id", "parents", "author", "time", "message", "cell", "changed", "unsaved", "status"}


def test_cells_are_numbered_as_in_the_notebook(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        shell.ip.run_cell("hidden = 1", store_history=False)
        shell.run("y = 1")
        assert [commit["cell"]["number"] for commit in shell.log("-n 2")] == [2, 1]


def test_a_cell_of_only_agent_lines_commits_nothing(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        before = len(shell.log())
        shell.run("%agent status\n# and\n%agent log")
        assert len(shell.log()) == before


@pytest.mark.parametrize(
    ("source", "status"), [("y = 1; 1 / 0", "failed"), ("y = 1\nraise KeyboardInterrupt", "interrupted")]
)
def test_what_a_cell_did_before_it_stopped_is_committed(place: str, source: str, status: str) -> None:
    with Shell(store=place) as shell:
        shell.run(source)
        newest = shell.log("-n 1")[0]
    assert newest["status"] == status
    assert [change["name"] for change in newest["changed"]] == ["y"]


def test_the_shells_own_names_are_no_variables(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("40 + 2")
        shell.run("_x = _ ; __vsc_ipynb_file__ = '/nowhere/a.ipynb'")
        names = {change["name"] for commit in shell.log() for change in commit["changed"]}
    assert names == {"_x"}


def test_what_cannot_be_saved_is_told_once(place: str) -> None:
    with Shell(store=place) as shell:
        first = shell.run("import socket\nconn = socket.socket()")
        again = shell.run("conn.fileno()")
        shell.run("conn.close()")
    assert first.out.count("\n") == 1
    assert first.out.startswith("[agent] conn is not saved")
    assert again.out.count("[agent]") == 0


def test_what_a_verb_told_of_no_cell_tells_of_again(place: str) -> None:
    with Shell(store=place) as shell:
        # What reads a file is not tried as it is saved: that it cannot be loaded shows in a checkout.
        shell.run("class G:\n    def __setstate__(self, state):\n        open('')\ng = G()\ng.n = 1")
        shell.run("del g")
        moved = shell.run("%agent checkout --partial HEAD~1")
        assert "g is not loaded" in moved.out
        assert "not loaded" not in shell.run("x = 1").out
        undone = shell.run("%agent undo 2")
        again = shell.run("%agent redo 2 --partial")
        assert undone.result.success, undone.err
        assert "g is not loaded" in again.out
        assert "not loaded" not in shell.run("y = 1").out


def test_a_talkative_one_tells_of_each_commit(place: str) -> None:
    with Shell(store=place, quiet=False) as shell:
        assert "[agent]" in (told := shell.run("df = list(range(1000))").out)
        assert "+df" in told


def test_off_and_on(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        assert "%agent on" in shell.run("%agent off").out
        shell.run("x = 2")
        assert len([commit for commit in shell.log() if commit["cell"]]) == 1
        shell.run("%agent on")
        shell.run("y = 3")
        assert {change["name"] for change in shell.log("-n 1")[0]["changed"]} == {"x", "y"}


def test_only_agent_cells_where_the_trait_says_so(place: str) -> None:
    with Shell(store=place, commits="agent") as shell:
        shell.run("x = 1")
        shell.run("%%agent analyst\ny = x + 1")
        authors = [(commit["author"]["kind"], {c["name"] for c in commit["changed"]}) for commit in shell.log()]
    assert authors[0] == ("agent", {"y"})
    assert ("person", {"x"}) in authors  # what was there before is not put down to the agent


def test_an_author_may_be_configured(place: str) -> None:
    with Shell(store=place, author="ada") as shell:
        shell.run("x = 1")
        assert shell.log("-n 1")[0]["author"] == {"name": "ada", "kind": "person"}


def test_options_can_be_changed_while_it_runs(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("%config AgentKernel.commits = 'off'")
        shell.run("x = 1")
        assert not any(commit["changed"] for commit in shell.log())


def test_another_author_signs_from_the_next_cell_on(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("%config AgentKernel.author = 'ada'")
        shell.run("x = 1")
        assert shell.log("-n 1")[0]["author"]["name"] == "ada"
        shell.run("%config AgentKernel.author = ''")
        shell.run("x = 2")
        assert shell.log("-n 1")[0]["author"]["name"] == person().name


def test_a_talkative_one_can_be_asked_for_while_it_runs(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("%config AgentKernel.quiet = False")
        assert "+x" in shell.run("x = 1").out


def test_outputs_can_be_kept_no_more_while_it_runs(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("%config AgentKernel.outputs = 'none'")
        shell.run("print('not', 'kept')")
        assert "not kept" not in shell.run("%agent show HEAD --outputs").out


def test_another_store_is_taken_up_when_binding_and_said_so(place: str, tmp_path: Path) -> None:
    with Shell(store=place) as shell:
        told = shell.run(f"%config AgentKernel.store = {str(tmp_path / 'other')!r}").out
        assert told.count("\n") == 1
        assert f"%agent bind {tmp_path / 'other'} takes this up" in told
        shell.run(told.partition("; ")[2].removesuffix(" takes this up\n"))
        assert str(tmp_path / "other") in shell.run("%agent status").out


def test_another_durability_is_taken_up_when_binding_and_said_so(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_and_note(url: str, *, create: bool, durability: Durability) -> Store:
        opened.append(durability)
        return open_store(url, create=create, durability=durability)

    monkeypatch.setattr(binding, "open_store", open_and_note)
    with Shell(store=place) as shell:
        shell.run("x = 1")
        told = shell.run("%config AgentKernel.durability = 'full'").out
        assert told.count("\n") == 1
        assert opened == ["default"]
        shell.run(told.partition("; ")[2].removesuffix(" takes this up\n"))
        assert opened == ["default", "full"]


def test_what_a_fresh_kernel_does_counts_for_the_next_binding(place: str, tmp_path: Path) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
    with Shell(store=str(tmp_path / "other")) as shell:
        shell.run("%config AgentKernel.on_restart = 'restore'")
        assert "brought back 1 variable" in shell.run(f"%agent bind {place}").out
        assert shell.ns["x"] == 1


def test_an_option_set_before_there_is_a_store_needs_no_word(place: str) -> None:
    with Shell(commits="off") as shell:
        assert shell.run(f"%config AgentKernel.store = {place!r}").out == ""
        shell.run("%agent on")
        shell.run("x = 1")
        assert place in shell.run("%agent status").out


def test_the_shell_in_a_variable_is_told_of_once_and_changes_with_no_cell(place: str) -> None:
    with Shell(store=place) as shell:
        # The shell itself, as get_ipython() gives it where there is only one.
        shell.ns["get_shell"] = lambda: shell.ip
        shell.run("me = get_shell()")
        assert {change["name"] for change in shell.log("-n 1")[0]["changed"]} >= {"me"}
        for source in ("1", "me", "me", "2"):
            shell.run(source)
            assert shell.log("-n 1")[0]["changed"] == []
        shell.run("me = [me]")
        assert [change["name"] for change in shell.log("-n 1")[0]["changed"]] == ["me"]


def test_none_where_a_model_was_is_committed(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("class Model: pass\nm = Model()")
        shell.run("m = None")
        shell.run("%agent checkout HEAD~1")
        shell.run("%agent checkout main")
        assert "Not committed yet" not in shell.run("%agent status").out


def test_loading_twice_is_loading_once(place: str) -> None:
    with Shell(store=place) as shell:
        load_ipython_extension(shell.ip)
        shell.run("x = 1")
        assert len([commit for commit in shell.log() if commit["cell"]]) == 1


def registered(ip: Any) -> list[object]:
    """Everything that an extension could leave behind."""
    return [
        list(ip.events.callbacks["pre_execute"]),
        list(ip.events.callbacks["pre_run_cell"]),
        list(ip.events.callbacks["post_run_cell"]),
        list(ip.input_transformers_cleanup),
        list(ip.input_transformer_manager.token_transformers),
        list(ip.Completer.custom_matchers),
        list(ip.configurables),
        set(ip.magics_manager.registry),
        ["agent" in known for known in ip.magics_manager.magics.values()],
    ]


def test_unloading_leaves_nothing_behind(place: str) -> None:
    shell = Shell(store=place)
    before = registered(shell.ip)
    with shell:
        assert registered(shell.ip) != before
    unload_ipython_extension(shell.ip)
    assert registered(shell.ip) == before


def test_a_fresh_kernel_loads_nothing_and_offers_everything_in_one_line(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1; y = [1, 2]")
    with Shell(store=place) as shell:
        assert "x" not in shell.ns
        offers = [line for line in shell.loaded.splitlines() if "%agent checkout" in line]
        assert len(offers) == 1
        assert "main" in offers[0]
        shell.run("%agent checkout")
        assert (shell.ns["x"], shell.ns["y"]) == (1, [1, 2])


def test_a_fresh_kernel_may_restore_by_itself(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
    with Shell(store=place, on_restart="restore") as shell:
        assert shell.ns["x"] == 1
        assert "brought back" in shell.loaded


def test_a_place_that_is_no_store_costs_one_line_and_no_cell(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    shell = Shell(store=str(tmp_path))
    with shell:
        typed = shell.run("x = 1")
        assert typed.result.success
        assert typed.err == ""
        assert shell.ns["x"] == 1
        failed = shell.run("%agent log")
        assert "no store is bound" in failed.err + failed.out
        assert shell.run(f"%agent bind {tmp_path / 'store'}").result.success
        shell.run("x = 2")
        assert shell.log()


def test_a_notebook_binds_beside_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "study.ipynb"))
    with Shell() as shell:
        shell.run("x = 1")
    store = tmp_path / ".agent-kernel" / "study"
    assert (store / "data.mdb").is_file()
    assert store.stat().st_mode & 0o777 == 0o700
    assert (store / ".gitignore").read_text() == "*\n"


def test_loading_imports_none_of_the_heavy_packages(tmp_path: Path) -> None:
    script = f"""
import sys
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config
before = set(sys.modules)
shell = InteractiveShell(config=Config({{"AgentKernel": {{"store": {str(tmp_path / "s")!r}}}}}))
shell.run_line_magic("load_ext", "agent_kernel")
shell.run_cell("x = 1", store_history=True)
print([name for name in ("rich", "pydantic", "numpy", "pandas", "ipywidgets", "anywidget", "nbformat", "torch",
                         "jupyter_server") if name in set(sys.modules) - before])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout


def test_a_second_kernel_on_the_same_store_works_on_a_branch_of_its_own_and_says_so(place: str) -> None:
    with Shell(store=place) as first:
        first.run("x = 1")
        with Shell(store=place) as second:
            assert "branch main is in use" in second.loaded
            assert "branch main-2 of" in second.loaded
            second.run("%agent checkout")
            second.run("x = 2")
            assert second.log("-n 1")[0]["cell"]["source"] == "x = 2"
        first.run("y = 1")
        assert "(HEAD -> main)" in first.run("%agent log").out.splitlines()[0]
        assert first.ns["x"] == 1
    with Shell(store=place) as again:
        assert "in use" not in again.loaded


def test_a_branch_can_be_chosen_when_binding(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        told = shell.run("%agent bind --branch try").out
        assert f"try is a new branch, at {shell.log('-n 1')[0]['id'][:8]}" in told
        shell.run("x = 2")
        assert "(HEAD -> try)" in shell.run("%agent log").out.splitlines()[0]
        shell.run("%agent bind --branch main")
        assert "new branch" not in shell.run("%agent bind --branch try").out


def test_an_extension_is_reloaded_without_losing_its_place(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        shell.ip.extension_manager.loaded.add("agent_kernel")
        assert "branch main" in shell.run("%reload_ext agent_kernel").out
        shell.run("y = 1")
        sources = [commit["cell"]["source"] for commit in shell.log() if commit["cell"]]
        assert sources == ["y = 1", "x = 1"]


def test_what_cannot_be_saved_is_the_same_after_a_reload_and_keeps_its_way_back(place: str) -> None:
    with Shell(store=place) as shell:
        shell.run("x = 1")
        shell.run("g = (i for i in [x])")
        shell.run("class A: ...\na = A()\nbox = [g]")
        made, before = shell.log()[1]["id"], [commit["id"] for commit in shell.log()]
        shell.ip.extension_manager.loaded.add("agent_kernel")
        shell.run("%unload_ext agent_kernel")
        shell.run("%load_ext agent_kernel")
        shell.run("h = (i for i in [2]); pair = [g]")
        assert [{change["name"] for change in commit["changed"]} for commit in shell.log()[: -len(before)]] == [
            {"h", "pair"}
        ]
    with Shell(store=place) as shell:
        shell.run("%agent checkout")
        said = shell.run("next(g)").out
        assert f"the cell of {made[:8]}" in said
        assert f"the cells of {made[:8]} (" in shell.run("next(pair[0])").out


_COLLECTED = """
import gc, sys, weakref
from IPython.core.interactiveshell import InteractiveShell

frozen = gc.get_freeze_count()  # Python 3.12 freezes a few objects itself
shell = InteractiveShell.instance()
shell.run_cell({before!r}, store_history=True)
shell.run_line_magic("load_ext", "agent_kernel")
shell.run_cell({source!r}, store_history=True)
is_spared = not any(one is vars(sys.modules["xml.dom.minidom"]) for one in gc.get_objects())
shell.run_cell("class Node: pass\\nnode = Node(); node.me = node", store_history=True)
node = weakref.ref(shell.user_ns["node"])
shell.run_cell("import pandas", store_history=True)
shell.run_cell("del node", store_history=True)
gc.collect()
shell.run_line_magic("unload_ext", "agent_kernel")
print("SAID", is_spared, node() is None, gc.get_freeze_count() > frozen)
"""
_MANY_IMPORTS = (
    "import xml.dom.minidom, unittest.mock, http.server, email.mime.text, concurrent.futures.process, curses"
)


@pytest.mark.parametrize(
    ("before", "source", "said"),
    [
        ("", _MANY_IMPORTS, "SAID True True False"),
        ("", f"{_MANY_IMPORTS}\nrows = [1, 2]", "SAID False True False"),  # data may become garbage
        ("rows = [1, 2]", _MANY_IMPORTS, "SAID False True False"),
        ("rows = [1, 2]", f"{_MANY_IMPORTS}\ndel rows", "SAID False True False"),
        ("import gc; gc.disable()", _MANY_IMPORTS, "SAID False True False"),  # whoever turned it off knows better
    ],
)
def test_the_garbage_collector_looks_at_data_and_not_at_imported_modules(
    before: str, source: str, said: str, tmp_path: Path
) -> None:
    code = _COLLECTED.format(before=before, source=source)
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == said


_FROZEN = """
import gc
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
gc.freeze()
frozen = gc.get_freeze_count()
shell.run_line_magic("load_ext", "agent_kernel")
shell.run_cell({source!r}, store_history=True)
after_imports = gc.get_freeze_count()
shell.run_line_magic("unload_ext", "agent_kernel")
# Of what was frozen some may have gone.
print("SAID", frozen * 0.9 < gc.get_freeze_count() <= after_imports <= frozen)
"""


def test_what_others_kept_from_the_garbage_collector_stays_kept_from_it(tmp_path: Path) -> None:
    code = _FROZEN.format(source=_MANY_IMPORTS)
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "SAID True"


def test_where_there_was_data_the_garbage_collector_goes_on_to_look_at_what_is_left_of_it(tmp_path: Path) -> None:
    code = _COLLECTED_LATER.format(source=f"del node, Node\n{_MANY_IMPORTS}")
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "SAID True"


_COLLECTED_LATER = """
import gc, weakref
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "agent_kernel")
shell.run_cell("class Node: pass\\nnode = Node(); node.me = node", store_history=True)
node = weakref.ref(shell.user_ns["node"])
gc.collect()  # what is left now is looked at seldom
shell.run_cell({source!r}, store_history=True)
gc.collect()
print("SAID", node() is None)
"""


def test_a_class_of_a_module_that_raises_when_it_is_looked_at_stops_no_cell_that_imports(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = "class M(type):\n    def __getattribute__(cls, name):\n        raise AttributeError(name)\n"
    (tmp_path / "hostile_classes.py").write_text(f"{hostile}class A(metaclass=M):\n    pass\na = type.__call__(A)\n")
    monkeypatch.syspath_prepend(tmp_path)
    with Shell(store=place) as shell:
        made = "import sys\nsys.modules.update({f'made_{n}': sys for n in range(60)})\nfrom hostile_classes import A, a"
        typed = [shell.run(made), shell.run("for n in range(60): del sys.modules[f'made_{n}']")]
        del sys.modules["hostile_classes"]
        assert not any("Traceback" in one.out + one.err for one in typed)
