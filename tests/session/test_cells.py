"""Cells become commits, whatever they raise, of the names that are the user's."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from agent_kernel.errors import AgentKernelError
from agent_kernel.session import Repository, bind
from agent_kernel.session.staging import AliasGrouping
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed


class TestCells:
    def test_that_raise_are_committed_as_failed(self) -> None:
        with Notebook() as nb:
            report = nb.run("x = 1\n1 / 0\nx = 2", fails=ZeroDivisionError)
            assert report.record is not None
            assert report.record.status == "failed"
            assert report.record.cell is not None
            assert "ZeroDivisionError" in report.record.cell.error
            assert names_changed(report) == {"x"}

    def test_that_are_interrupted_are_committed_as_interrupted(self) -> None:
        with Notebook() as nb:
            report = nb.run("x = 1\nraise KeyboardInterrupt", fails=KeyboardInterrupt)
            assert report.record is not None
            assert report.record.status == "interrupted"
            assert names_changed(report) == {"x"}

    def test_with_a_syntax_error_leave_the_session_usable(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            nb.run("x = = 2", fails=SyntaxError)
            nb.run("x = 3")
            nb.session.undo()
            assert nb.look("x") == 1

    def test_may_commit_and_check_out_half_way(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]")
            nb.namespace["session"] = nb.session
            nb.session.ignore("session")
            nb.run("x.append(2)\nhalf = session.commit('half-way').commit\nx.append(3)")
            half = nb.look("half")
            assert isinstance(half, bytes)
            assert nb.repo.at(half.hex()[:64])["x"] == [1, 2]
            assert nb.repo.at("main")["x"] == [1, 2, 3]


class TestNamespaces:
    def test_leave_a_modules_own_attributes_alone(self) -> None:
        module = ModuleType("script")
        session = bind(vars(module), Repository.open(MemoryStore()))
        session.begin_cell("x = 1")
        vars(module)["x"] = 1
        report = session.end_cell()
        session.close()
        assert report is not None
        assert names_changed(report) == {"x"}


def test_a_store_whose_folder_was_removed_is_told_of_and_can_be_left(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with Notebook(Repository.open(store)) as nb:
        nb.run("x = 1")
        shutil.rmtree(store)
        with pytest.raises(AgentKernelError):
            nb.session.status()
        nb.session.close()
        other = bind(nb.namespace, Repository.open(tmp_path / "other"))
        assert other.commit("here").commit is not None
        other.close()


def test_a_variable_that_is_ignored_no_more_is_stored_from_the_next_cell_on_with_what_shares_it() -> None:
    with Notebook() as nb:
        nb.run("a = [1]\nb = [a]")
        nb.session.ignore("a")
        assert "a" not in nb.repo.tree_at(nb.run("a.append(2)").commit)
        nb.session.unignore("a")
        nb.run("c = 1")
    with Notebook(nb.repo) as nb:
        nb.checkout()
        assert nb.look("(a, b[0] is a, c)") == ([1, 2], True, 1)


def test_a_cell_whose_variables_cannot_be_saved_is_kept_and_the_next_commit_holds_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever goes wrong as values are saved, in their code or in ours."""

    def fails(*_: object) -> None:
        raise TypeError("'NoneType' object is not iterable")

    with Notebook() as nb:
        first = nb.run("x = [1]; gone = 1; class_ = type('C', (), {})")
        with monkeypatch.context() as patched:
            patched.setattr(AliasGrouping, "dump_sharing", fails)
            kept = nb.run("x.append(2); new = {'a': 1}; del gone")
            again = nb.run("y = 5")
        assert kept.record is not None
        assert kept.record.cell is not None
        assert kept.record.cell.source == "x.append(2); new = {'a': 1}; del gone"
        assert {(one.name, one.remedy) for one in kept.unsaved} == {
            ("x", "the next cell tries again"),
            ("new", "the next cell tries again"),
        }
        assert names_changed(again) == set()
        last = nb.run("z = 1")
        assert names_changed(last) == {"x", "new", "gone", "y", "z"}
        assert last.unsaved == ()
        nb.checkout(first)
        assert nb.look("(x, 'new' in globals(), gone)") == ([1], False, 1)
        nb.session.switch("main")
        assert nb.look("(x, new, 'gone' in globals(), y, z)") == ([1, 2], {"a": 1}, False, 5, 1)


def test_nothing_is_replaced_that_could_not_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    with Notebook() as nb:
        first = nb.run("x = [1]")
        nb.run("x.append(2)")
        nb.namespace["x"] = [3]
        with monkeypatch.context() as patched:
            patched.setattr(AliasGrouping, "dump_sharing", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                nb.checkout(first)
        assert nb.look("x") == [3]


def test_the_globals_of_a_librarys_function_are_not_the_notebooks_of_the_same_names() -> None:
    # After `from sympy import *`, `expand(…)` led by such names to all of them, and to functions that call eval.
    with Notebook() as nb:
        nb.run("from textwrap import dedent\nre = [1]\ndef re_use():\n    return re\ndef own():\n    return re_use()")
        nb.run("1")  # else the names of the last cell count, whose code Python 3.12 and later saw run
        touched = nb.session.workspace.find_touched
        assert touched("dedent('a')").names == {"dedent"}
        assert touched("own()").names == {"own", "re_use", "re"}
