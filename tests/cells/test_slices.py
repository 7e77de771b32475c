"""`deps` and `script`: which cells make a variable, and that running them makes it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agent_kernel.errors import NameNotFoundError
from tests.cells.histories import Notebook, run_script


@pytest.fixture
def nb() -> Iterator[Notebook]:
    with Notebook() as notebook:
        yield notebook


class TestStraightLines:
    def test_only_what_a_variable_needs_is_there(self, nb: Notebook) -> None:
        nb.cells("x = 1", "other = 2", "y = x + 1", "z = other", "y2 = y * 10")
        assert nb.makers("y2") == ["x = 1", "y = x + 1", "y2 = y * 10"]
        nb.check_script("y2")

    def test_the_last_value_counts_and_earlier_ones_are_left_out(self, nb: Notebook) -> None:
        nb.cells("x = 1", "x = 2", "y = x")
        assert nb.makers("y") == ["x = 2", "y = x"]

    def test_a_value_that_changed_since_is_the_one_that_the_cell_read(self, nb: Notebook) -> None:
        nb.cells("x = 1", "y = x", "x = 2")
        assert nb.makers("y") == ["x = 1", "y = x"]

    def test_imports_and_functions_are_needed_too(self, nb: Notebook) -> None:
        nb.cells("import math", "import json", "def area(r): return math.pi * r * r", "a = area(2)")
        assert nb.makers("a") == ["import math", "def area(r): return math.pi * r * r", "a = area(2)"]
        nb.check_script("a")

    def test_a_function_needs_what_it_uses_when_it_is_called(self, nb: Notebook) -> None:
        nb.cells("def f(): return k", "k = 1", "k = 2", "y = f()", "k = 3")
        assert nb.makers("y") == ["def f(): return k", "k = 2", "y = f()"]
        nb.check_script("y")
        assert nb.makers("f") == ["def f(): return k", "k = 3"]

    def test_functions_lead_to_the_functions_that_they_call(self, nb: Notebook) -> None:
        nb.cells("def f(): return g()", "def g(): return h + 1", "h = 4", "y = f()")
        assert len(nb.makers("y")) == 4
        nb.check_script("y")

    def test_methods_need_what_they_use(self, nb: Notebook) -> None:
        nb.cells("rate = 3", "class A:\n    def pay(self): return rate", "a = A()", "rate = 5", "y = a.pay()", "n = 0")
        # To make an A calls code of the class, so what its methods use counts there, too.
        assert len(nb.makers("y")) == 5
        nb.check_script("y")

    def test_a_function_in_a_container_is_followed(self, nb: Notebook) -> None:
        nb.cells("k = 2", "table = {'f': lambda x: x * k}", "k = 7", "y = table['f'](3)")
        assert "k = 7" in nb.makers("y")
        nb.check_script("y")

    def test_a_variable_that_is_gone_is_not_found(self, nb: Notebook) -> None:
        nb.cells("x = 1", "del x")
        with pytest.raises(NameNotFoundError):
            nb.slice("x")

    def test_a_name_deleted_and_made_again_begins_anew(self, nb: Notebook) -> None:
        nb.cells("x = [1]", "x.append(2)", "del x", "x = [5]", "x.append(6)")
        assert nb.makers("x") == ["x = [5]", "x.append(6)"]
        nb.check_script("x")

    def test_a_cell_that_deletes_needs_what_it_deletes(self, nb: Notebook) -> None:
        nb.cells("tmp = 4", "y = 1", "y = tmp\ndel tmp")
        assert nb.makers("y") == ["tmp = 4", "y = tmp\ndel tmp"]
        nb.check_script("y")

    def test_attributes_keys_and_local_names_are_no_variables(self, nb: Notebook) -> None:
        nb.cells(
            "a = 1", "b = 2", "d = {'a': 5}", "def f(b):\n    a = b\n    return a", "y = f(d['a']) + d.get('b', 0)"
        )
        assert nb.makers("y") == ["d = {'a': 5}", "def f(b):\n    a = b\n    return a", "y = f(d['a']) + d.get('b', 0)"]
        nb.check_script("y")

    def test_a_text_that_is_evaluated_names_variables(self, nb: Notebook) -> None:
        nb.cells("class Table:\n    def query(self, text): return text", "limit, x = 2, 3", "t = Table()", "n = x")
        nb.cells("y = t.query('a > @limit')", "z = t.query('a > @unknown')")
        assert "limit, x = 2, 3" in nb.makers("y")
        assert "limit, x = 2, 3" not in nb.makers("z")
        assert nb.slice("z").is_whole
        nb.check_script("y")

    def test_a_cell_run_twice_counts_twice(self, nb: Notebook) -> None:
        nb.cells("n = 1")
        nb.cell("n += 1", id="same")
        nb.cell("n += 1", id="same")
        assert nb.makers("n") == ["n = 1", "n += 1", "n += 1"]
        nb.check_script("n")

    def test_loops_and_conditions_read_what_they_may_read(self, nb: Notebook) -> None:
        nb.cells("total = 10", "xs = [1, 2]", "flag = False", "if flag:\n    total = 0", "for x in xs:\n    total += x")
        assert nb.makers("total") == ["total = 10", "xs = [1, 2]", "for x in xs:\n    total += x"]
        nb.check_script("total")


class TestChangesInPlace:
    def test_a_change_in_place_is_part_of_it(self, nb: Notebook) -> None:
        nb.cells("xs = [1]", "n = 5", "xs.append(n)", "ys = [0]")
        assert nb.makers("xs") == ["xs = [1]", "n = 5", "xs.append(n)"]
        nb.check_script("xs")

    def test_a_change_through_another_name_is_part_of_it(self, nb: Notebook) -> None:
        nb.cells("xs = [1]", "ys = xs", "other = 1", "ys.append(2)")
        assert nb.makers("xs") == ["xs = [1]", "ys = xs", "ys.append(2)"]
        nb.check_script("xs")

    def test_names_that_came_to_share_an_equal_value_are_part_of_it(self, nb: Notebook) -> None:
        nb.cells("xs = [1]", "ys = [1]", "ys = xs", "ys.append(2)")
        assert nb.makers("xs") == ["xs = [1]", "ys = xs", "ys.append(2)"]
        nb.check_script("xs")

    def test_a_list_that_grew_in_many_cells_has_all_of_them(self, nb: Notebook) -> None:
        nb.cells("k = 1", "def f(): return k", "xs = [f]", *["xs.append(0)"] * 300, "y = xs[0]()")
        assert len(nb.makers("y")) == 304

    def test_a_change_by_a_function_is_part_of_it(self, nb: Notebook) -> None:
        nb.cells("xs = []", "def add(v):\n    xs.append(v)", "add(3)")
        assert len(nb.makers("xs")) == 3
        nb.check_script("xs")

    @pytest.mark.parametrize(
        "cells",
        [
            ("class A: pass", "a = A()", "A.k = 3", "a.z = 4", "v = a.k + a.z"),
            ("class A: pass", "a = A()", "setattr(A, 'k', 3)", "v = a.k"),
            ("class A: pass", "class B(A): pass", "b = B()", "A.k = 3", "v = b.k"),
            ("class A: pass", "xs = [A()]", "ys = xs * 2", "A.k = 3", "v = ys[1].k"),
            ("class A: pass", "def make(): return A()", "a = make()", "A.k = 3", "v = a.k"),
            ("class A:\n    pass\na = A()", "n = 2", "A.get = lambda self: n", "n = 3", "v = a.get()"),
            ("class A: pass", "a = A()", "type(a).k = 3", "v = a.k"),
        ],
    )
    def test_a_change_of_a_class_is_part_of_what_uses_an_instance(self, nb: Notebook, cells: tuple[str, ...]) -> None:
        nb.cells(*cells, "A.unused = 9")
        nb.check_script("v")
        assert "A.unused = 9" not in nb.makers("v")

    def test_an_instance_comes_with_its_class_as_it_is(self, nb: Notebook) -> None:
        nb.cells("class A: pass", "a = A()", "A.k = 3")
        nb.check_script("a", "a.k")

    def test_what_holds_it_changes_too(self, nb: Notebook) -> None:
        nb.cells("xs = [1]", "d = {'k': xs}", "xs.append(2)")
        assert len(nb.makers("d")) == 3
        nb.check_script("d")

    def test_a_change_that_no_cell_names_is_said_to_be_one(self, nb: Notebook) -> None:
        nb.cells("xs = [1]")
        nb.namespace["xs"].append(2)  # type: ignore[attr-defined]
        nb.session.commit("by hand")
        found = nb.slice("xs")
        assert not found.is_whole
        assert "No cell made this change of xs (by hand)." in nb.script("xs")


class TestWhatCannotBeRead:
    def test_exec_needs_everything(self, nb: Notebook) -> None:
        nb.cells("a = 1", "b = 2", "exec('y = a')")
        found = nb.slice("y")
        assert nb.makers("y") == ["a = 1", "b = 2", "exec('y = a')"]
        assert found.cells[-1].notes == ("All variables are included: it looks names up as it runs.",)
        nb.check_script("y")

    def test_magics_become_comments(self, nb: Notebook) -> None:
        nb.cells(
            "%load_ext autoreload\n%agent status\nx = 1",
            "%%time\ny = x + 1",
            "if y:\n    %matplotlib inline\n    z = y",
        )
        script = nb.check_script("z")
        assert "# %load_ext autoreload" in script
        assert "%agent" not in script
        assert script.count("for notebooks only") == 1

    def test_a_cell_of_another_language_is_a_comment(self, nb: Notebook) -> None:
        with Notebook() as other:
            other.cells("x = 1")
            other.session.begin_cell("%%bash\necho 'x'")
            other.namespace["out"] = "made by magic"
            other.session.end_cell()
            script = other.script("out")
            assert "# %%bash\n# echo 'x'" in script
            assert "out" not in run_script(script, "sorted(globals())")

    def test_what_an_earlier_cell_showed_needs_everything(self, nb: Notebook) -> None:
        nb.cells("a = 1")
        nb.namespace["_"] = 5
        nb.cells("y = _ + 1")
        assert "what an earlier cell showed" in nb.slice("y").cells[-1].notes[0]

    def test_a_variable_that_is_never_stored_is_named(self, nb: Notebook) -> None:
        nb.session.ignore("secret")
        nb.cells("secret = 41", "y = secret + 1")
        found = nb.slice("y")
        assert not found.is_whole
        assert "The history does not hold secret, which this cell reads." in found.cells[-1].notes

    def test_code_that_is_no_python_does_not_stop_anything(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        for broken in ("x = (", "\x00", "é = = 1", "'''"):
            nb.session.begin_cell(broken)
            nb.namespace["x"] = int(str(nb.namespace["x"])) + 1
            nb.session.end_cell()
        script = nb.script("x")
        assert "# x = (" in script
        compile(script, "script", "exec")


class TestMovesThroughTheHistory:
    def test_what_was_rolled_back_is_no_part_of_it(self, nb: Notebook) -> None:
        first, *_ = nb.cells("x = [1]", "x.append(2)", "x.append(3)")
        nb.rollback(first)
        nb.cells("x.append(9)")
        assert nb.makers("x") == ["x = [1]", "x.append(9)"]
        nb.check_script("x")

    def test_undo_and_redo_go_back_and_forth(self, nb: Notebook) -> None:
        nb.cells("x = 1", "x = x + 1", "x = x * 10")
        nb.session.undo()
        assert nb.makers("x") == ["x = 1", "x = x + 1"]
        nb.session.redo()
        assert nb.makers("x") == ["x = 1", "x = x + 1", "x = x * 10"]
        nb.check_script("x")

    def test_an_undo_of_an_undo_by_hand_is_followed(self, nb: Notebook) -> None:
        nb.cells("x = 1", "x = 2")
        nb.session.undo()
        nb.session.undo()
        nb.cells("x = 7", "y = x")
        assert nb.makers("y") == ["x = 7", "y = x"]

    def test_single_variables_come_from_where_they_were_taken(self, nb: Notebook) -> None:
        first, *_ = nb.cells("x = 1", "x = 2", "y = x", "z = 0")
        nb.checkout(first, names=["x"])
        nb.cells("z = x + y")
        assert nb.makers("z") == ["x = 1", "x = 2", "y = x", "z = x + y"]
        script = nb.check_script("z")
        assert "once more for x" in script

    def test_a_branch_holds_its_own_cells(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.switch("other", create=True)
        nb.cells("x = x + 5")
        nb.session.switch("main")
        nb.cells("y = x")
        assert nb.makers("y") == ["x = 1", "y = x"]

    def test_a_merge_brings_the_cells_of_the_other_side(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.switch("other", create=True)
        nb.cells("z = x * 2", "unused = 3")
        nb.session.switch("main")
        nb.cells("y = x + 1", "x = 5")
        nb.session.merge("other")
        nb.cells("w = x + y + z")
        assert nb.slice("w").is_whole
        assert nb.makers("w") == ["x = 1", "y = x + 1", "x = 5", "z = x * 2", "w = x + y + z"]
        nb.check_script("w")

    def test_values_merged_by_key_are_no_cells_work(self, nb: Notebook) -> None:
        nb.cells("d = {'a': 1}")
        nb.session.switch("other", create=True)
        nb.cells("d['b'] = 2")
        nb.session.switch("main")
        nb.cells("d['c'] = 3")
        nb.session.merge("other")
        found = nb.slice("d")
        assert not found.is_whole
        assert [cell.commit.cell.source for cell in found.cells if cell.commit.cell] == [
            "d = {'a': 1}",
            "d['c'] = 3",
            "d['b'] = 2",
        ]
        assert "put together from two commits" in nb.script("d")

    def test_a_picked_commit_is_the_cell_that_was_picked(self, nb: Notebook) -> None:
        nb.cells("x = 1")
        nb.session.switch("other", create=True)
        nb.cells("z = 8")
        nb.session.switch("main")
        nb.cells("y = 2")
        nb.session.cherry_pick("other")
        nb.cells("w = y + z")
        assert nb.makers("w") == ["y = 2", "z = 8", "w = y + z"]
        nb.check_script("w")

    def test_a_restart_between_cells_changes_nothing(self) -> None:
        with Notebook(session_id="kernel.one") as first:
            first.cells("import math", "x = math.floor(2.5)")
            with Notebook(first.repo, session_id="kernel.two") as again:
                again.checkout()
                again.cells("import math", "y = x + math.ceil(0.5)")
                assert again.makers("y") == [
                    "import math", "x = math.floor(2.5)", "import math", "y = x + math.ceil(0.5)",
                ]  # fmt: skip
                again.check_script("y")

    def test_what_was_there_before_the_first_cell_is_said_to_be(self, nb: Notebook) -> None:
        nb.namespace["given"] = 3
        nb.cells("y = given + 1")
        found = nb.slice("y")
        assert not found.is_whole
        assert "No cell made this change of given" in nb.script("y")


class TestScripts:
    def test_each_cell_says_its_commit(self, nb: Notebook) -> None:
        made = nb.cells("x = 1")[0].commit
        assert made is not None
        assert f"# [1] {made.hex()[:8]}\nx = 1\n" in nb.script("x")

    def test_a_failed_cell_changes_what_it_changed(self, nb: Notebook) -> None:
        nb.cells("x = [1]")
        text = "t = '''\nnot code\n'''\nx.append(t)\n1 / 0"
        nb.run(text, fails=ZeroDivisionError)
        nb.cells("y = x + [0]")
        script = nb.check_script("y")
        assert "This cell failed when it ran" in script

    def test_future_imports_come_first(self, nb: Notebook) -> None:
        nb.cells("x = 1", "from __future__ import annotations\ny: Whatever = x + 1")
        script = nb.check_script("y")
        assert script.index("from __future__") < script.index("x = 1")

    def test_secrets_are_masked_and_it_says_so(self, nb: Notebook) -> None:
        nb.cells("api_key = 'abcdefgh12345'", "y = len(api_key)")
        script = nb.script("y")
        assert "abcdefgh12345" not in script
        assert "Something secret is masked" in script

    def test_waiting_at_the_top_level_is_said(self, nb: Notebook) -> None:
        nb.session.begin_cell("import asyncio\ny = await asyncio.sleep(0, 3)")
        nb.namespace["y"] = 3
        nb.session.end_cell()
        assert "run it with `ipython FILE`" in nb.script("y")

    @pytest.mark.parametrize(
        ("name", "value", "code"),
        [
            ("_", 5, "_ + 1"),
            ("_1", 5, "_1 + 1"),
            ("Out", {1: 5}, "Out[1] + 1"),
            ("_i1", "a", "_i1 + 'b'"),
            ("In", ["", "a"], "In[1]"),
        ],
    )
    def test_what_ipython_keeps_of_earlier_cells_is_said(
        self, nb: Notebook, name: str, value: object, code: str
    ) -> None:
        nb.cells("a = 1")
        nb.namespace[name] = value
        nb.cells(f"y = {code}")
        head = nb.script("y").partition("\n\n")[0]
        assert f"# It uses {name}, which IPython keeps of earlier cells and a script has not" in head

    def test_an_own_variable_is_not_taken_for_one_of_ipython(self, nb: Notebook) -> None:
        nb.cells("_1 = 4", "y = _1 + sum(_ for _ in range(3))")
        assert "IPython keeps" not in nb.script("y")

    def test_a_script_is_the_same_each_time(self, nb: Notebook) -> None:
        nb.cells("a, b, c = 1, 2, 3", "def f(): return a + b + c", "y = f()")
        assert nb.script("y") == nb.script("y")

    def test_odd_text_stays_as_it_was(self, nb: Notebook) -> None:
        nb.run("größe = 'a\\u202e\\ud800'")
        nb.run("y = [größe, '日本\t', '''\n%agent x\n''']\r\nz = '\u2028'")
        nb.check_script("y", "ascii(y)")

    def test_an_array_and_a_model_come_out_equal(self, nb: Notebook) -> None:
        nb.cells(
            "import numpy as np",
            "rng = np.random.default_rng(0)",
            "x = rng.normal(size=5)",
            "unrelated = x.sum()",
            "x[0] = 0",
            "y = x * 2",
        )
        assert "unrelated = x.sum()" not in nb.makers("y")
        nb.check_script("y", "y.tobytes().hex()")
