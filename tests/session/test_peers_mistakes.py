"""What other tools that save a namespace get wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agent_kernel.errors import LoadError
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.elsewhere import Sheet, elsewhere
from tests.support.notebooks import Notebook, names_changed, rev

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # cells that leave files open


@pytest.mark.parametrize("mode", ["w", "a", "x", "r+", "wb"])
def test_a_file_that_a_cell_has_open_keeps_its_content(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "log.txt"
    if mode == "r+":
        path.write_text("first\n")
    first = "b'first\\n'" if "b" in mode else "'first\\n'"
    with Notebook() as nb:
        opened = nb.run(f"f = open({str(path)!r}, {mode!r})\nf.write({first})\nf.flush()")
        nb.run("x = 1")
        nb.session.commit("all", full=True)
        nb.checkout(opened)
        nb.checkout("main")
        nb.run("del f")
        nb.checkout(opened)
        assert path.read_text() == "first\n"
        assert [lost.name for lost in opened.unsaved] == ["f"]
        nb.run("f.close()")


def test_a_file_that_a_cell_writes_to_goes_on_from_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.txt"
    with Notebook() as nb:
        nb.run(f"f = open({str(path)!r}, 'w')\nf.write('one,')")
        nb.run("f.write('two,')\nx = 1")
        report = nb.run("f.write('three')\nx = 2")
        nb.rollback("HEAD~1")
        nb.checkout(report)
        nb.run("f.close()")
    assert path.read_text() == "one,two,three"


def test_a_file_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    path, store = tmp_path / "log.txt", str(tmp_path / "store")
    cells = (f"f = open({str(path)!r}, 'w')\nf.write('text')\nholder = {{'file': f, 'x': 1}}", "f.close()")
    made = elsewhere({"all": Sheet(store, cells)})["all"]
    assert made.error == ""
    path.unlink()
    checked = elsewhere({"all": Sheet(store, checkout=True)})["all"]
    assert checked.error == ""
    assert not path.exists()


def test_no_cell_is_run_again(tmp_path: Path) -> None:
    path, store = tmp_path / "runs.txt", str(tmp_path / "store")
    cells = (
        f"with open({str(path)!r}, 'a') as log:\n    log.write('ran ')",
        "import threading\nlock = threading.Lock()\nx = 1",
        "def f():\n    return x",
    )
    made = elsewhere({"all": Sheet(store, cells)})["all"]
    checked = elsewhere({"all": Sheet(store, checkout=True, checks=("assert f() == 1",))})["all"]
    assert (made.error, checked.error, checked.failed) == ("", "", ())
    assert path.read_text() == "ran "


def test_a_function_keeps_its_globals() -> None:
    with Notebook() as nb:
        made = nb.run("rate = 2\ndef price(n):\n    return n * rate")
        nb.run("del price, rate")
        nb.checkout(made)
        assert nb.look("price(4)") == 8
        nb.run("rate = 5")
        assert nb.look("price(4)") == 20
        assert nb.look("price.__globals__ is globals()") is True


def test_views_go_on_sharing_memory() -> None:
    with Notebook() as nb:
        made = nb.run("import numpy as np\na = np.zeros((4, 3))\nrow = a[1]\nholder = {'column': a[:, 2]}")
        nb.run("a[...] = 7")
        nb.checkout(made)
        nb.run("row[2] = 5")
        assert nb.look("(a[1, 2], holder['column'][1])") == (5.0, 5.0)


def test_tuples_stay_tuples_and_arrays_writable() -> None:
    with Notebook() as nb:
        made = nb.run("import numpy as np\nt = (1, [(2,)])\na = np.arange(3)\nbig = np.zeros(100_000)")
        nb.run("del t, a, big")
        nb.checkout(made)
        assert nb.look("(type(t), type(t[1][0]))") == (tuple, tuple)
        nb.run("a[0] = 9\nbig[5] = 1")
        assert nb.look("(a[0], big[5])") == (9, 1)


def test_one_value_that_cannot_be_saved_costs_only_itself() -> None:
    with Notebook() as nb:
        report = nb.run("import socket\ns = socket.socket()\ngood = [1, 2]\ngen = (i for i in good)\nalso = 'x'")
        assert {lost.name for lost in report.unsaved} == {"s", "gen"}
        assert all(lost.type and lost.reason and lost.remedy for lost in report.unsaved)
        assert names_changed(report) >= {"good", "also"}
        nb.run("s.close()\ngood.clear()\nalso = None")
        nb.checkout(report)
        assert nb.look("(good, also)") == ([1, 2], "x")


def test_a_value_that_cannot_be_saved_inside_another_costs_only_itself() -> None:
    with Notebook() as nb:
        report = nb.run("box = {'gen': (i for i in 'ab'), 'rows': [1, 2], 'note': 'n'}")
        assert [lost.name for lost in report.unsaved] == ["box"]
        nb.run("del box")
        nb.checkout(report)
        assert nb.look("(box['rows'], box['note'])") == ([1, 2], "n")


def test_a_lock_is_not_replaced_by_another_one_silently() -> None:
    with Notebook() as nb:
        report = nb.run("import threading\nlock = threading.Lock()\nbox = {'lock': lock}\nheld = lock.acquire()")
        nb.run("del lock, box")
        nb.checkout(report)
        if "lock" not in {lost.name for lost in report.unsaved}:
            assert nb.look("box['lock'] is lock and lock.locked()") is True


def test_empty_frames_and_arrays_without_dimensions_are_values() -> None:
    with Notebook() as nb:
        made = nb.run("import numpy as np, pandas as pd\nempty = pd.DataFrame()\nzero = np.array(2.5)")
        assert made.unsaved == ()
        nb.run("del empty, zero")
        nb.checkout(made)
        assert nb.look("(empty.shape, zero.shape, float(zero))") == ((0, 0), (), 2.5)


def test_names_that_came_later_are_removed() -> None:
    with Notebook() as nb:
        early = nb.run("x = 1")
        nb.run("y = 2\nimport math\ndef z(): pass\nclass C: pass")
        nb.checkout(early)
        assert nb.variables() == {"x"}


def test_old_definitions_come_back() -> None:
    with Notebook() as nb:
        old = nb.run("def f():\n    return 'old'\nclass C:\n    def m(self):\n        return 'old'\nc = C()")
        new = nb.run("def f():\n    return 'new'\nclass C:\n    def m(self):\n        return 'new'")
        assert nb.look("(f(), C().m(), c.m())") == ("new", "new", "old")
        nb.checkout(old)
        assert nb.look("(f(), C().m(), c.m(), type(c) is C)") == ("old", "old", "old", True)
        nb.checkout(new)
        assert nb.look("(f(), C().m(), c.m(), type(c) is C)") == ("new", "new", "old", False)


def test_loading_an_old_class_leaves_the_live_one_alone() -> None:
    with Notebook() as nb:
        old = nb.run("class C:\n    tag = 'old'\nkept = C()")
        nb.run("class C:\n    tag = 'new'\nlive = C()")
        live = nb.look("C")
        past = nb.repo.at(rev(old))
        assert vars(type(past["kept"]))["tag"] == "old"
        assert nb.look("(C.tag, live.tag)") == ("new", "new")
        assert nb.look("C") is live


def test_everything_is_restored_in_a_new_process(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    cells = (
        "import math\nrate = 2",
        "class Model:\n    def __init__(self):\n        self.weights = [1, 2]",
        "def run(m):\n    return [math.floor(w * rate) for w in m.weights]",
        "model = Model()\nbest = {'model': model, 'run': run}",
    )
    made = elsewhere({"all": Sheet(store, cells)})["all"]
    checks = (
        "assert run(model) == [2, 4]",
        "assert best['model'] is model and best['run'] is run and type(model) is Model",
        "rate = 10\nassert best['run'](model) == [10, 20]",
    )
    checked = elsewhere({"all": Sheet(store, checkout=True, checks=checks)})["all"]
    assert (made.error, checked.error, checked.failed) == ("", "", ())


def test_a_failing_load_leaves_everything_as_it_was(tmp_path: Path) -> None:
    flag = tmp_path / "broken"
    with Notebook() as nb:
        early = nb.run(
            "import os\n"
            "class Fragile:\n"
            "    def __setstate__(self, state):\n"
            f"        if os.path.exists({str(flag)!r}):\n"
            "            raise RuntimeError('cannot')\n"
            "        self.__dict__.update(state)\n"
            "fragile = Fragile()\nfragile.v = 1\na = [1]\nz = [1]"
        )
        nb.run("del fragile\na.append(2)\nz.append(2)\nlater = 3")
        before, head = dict(nb.namespace), nb.session.head
        flag.touch()
        with pytest.raises(LoadError, match="cannot") as raised:
            nb.checkout(early)
        assert raised.value.names == ("fragile",)
        assert {name: id(value) for name, value in nb.namespace.items()} == {
            name: id(value) for name, value in before.items()
        }
        assert nb.look("(a, z, later)") == ([1, 2], [1, 2], 3)
        assert nb.session.head == head
        flag.unlink()
        nb.checkout(early)
        assert nb.look("(a, z, fragile.v)") == ([1], [1], 1)


def test_the_same_notebook_in_two_tabs_gets_two_branches() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store), session_id="one") as first:
        first.run("x = 'first'")
        with Notebook(Repository.open(store), session_id="two") as second:
            assert second.session.branch == "main-2"
            assert any("main-2" in note for note in second.session.notes)
            second.run("x = 'second'")
            first.run("y = 1")
            assert second.look("x") == "second"
            assert "y" not in second.namespace
        repo = Repository.open(store)
        assert set(repo.branches()) == {"main", "main-2"}
        assert repo.at("main")["x"] == "first"
        assert repo.at("main-2")["x"] == "second"


def test_a_copied_store_is_a_store_of_its_own(tmp_path: Path) -> None:
    original, copied = tmp_path / "a", tmp_path / "b"
    repo = Repository.open(original)
    with Notebook(repo) as nb:
        nb.run("x = 1")
    repo.close()
    shutil.copytree(original, copied)
    other = Repository.open(copied)
    with Notebook(other) as nb:
        nb.checkout()
        nb.run("x = 2")
    other.close()
    assert Repository.open(original).at("main")["x"] == 1
    assert Repository.open(copied).at("main")["x"] == 2


def test_a_restarted_kernel_starts_clean_and_is_offered_its_state() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("x = [1]\ny = x")
    with Notebook(Repository.open(store)) as again:
        assert again.variables() == set()
        assert again.session.branch == "main"
        assert again.session.status().restart_pending
        again.checkout()
        assert not again.session.status().restart_pending
        assert again.look("x == [1] and x is y") is True


def test_a_restarted_kernel_that_runs_on_keeps_the_old_history() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        old = nb.run("x = 1\nlost_on_restart = 2")
    with Notebook(Repository.open(store)) as again:
        report = again.run("x = 3")
        assert report.record is not None
        assert report.record.parents == (old.commit,)
        assert "restart" in report.record.labels
        again.checkout(old)
        assert again.look("(x, lost_on_restart)") == (1, 2)


def test_the_namespace_stays_a_plain_dict() -> None:
    with Notebook() as nb:
        before = nb.namespace
        report = nb.run("x = 1")
        nb.checkout(report)
        assert type(nb.namespace) is dict
        assert nb.look("globals()") is before


def test_saving_does_not_change_the_values() -> None:
    with Notebook() as nb:
        nb.run("import matplotlib\nmatplotlib.use('agg')\nfrom matplotlib.figure import Figure\nfig = Figure()")
        assert nb.run("fig").changed == ()
        assert nb.run("fig").changed == ()
        assert nb.session.commit("", full=True).changed == ()
