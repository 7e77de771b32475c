"""What cells set on classes and modules of libraries, and settings, are in no commit, and a checkout says so where it matters."""

from __future__ import annotations

import decimal
import fractions
import logging
import os
import statistics
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import NoReturn

import matplotlib
import numpy
import pandas
import pytest

from agent_kernel.session import Repository
from agent_kernel.session.process_state import ProcessState
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, rev

START = "import fractions, statistics\nfrom fractions import Fraction\ndef half(self): return self / 2"
FULL = "fractions.Fraction.half"


WHOLE = dict(vars(fractions.Fraction)), dict(vars(statistics))


def restart() -> None:
    """Make the libraries what a new process has."""
    for owner, before in zip((fractions.Fraction, statistics), WHOLE, strict=True):
        for name in set(vars(owner)) - before.keys():
            delattr(owner, name)
        for name in ("limit_denominator", "mean"):
            if name in before and vars(owner)[name] is not before[name]:
                setattr(owner, name, before[name])


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    restart()


WHY = "commits do not save what cells set in libraries"


def not_set(name: str, made: str, title: str) -> str:
    return f"to set {name} again, run the cell of {made[:8]} ({title})"


SET = {  # a cell, and what it sets
    "a method": ("Fraction.half = half", FULL),
    "by the module's name": ("fractions.Fraction.half = half", FULL),
    "a value": ("Fraction.weight = 3", "fractions.Fraction.weight"),
    "with setattr": ("setattr(Fraction, 'half', half)", FULL),
    "in place of the library's": ("Fraction.limit_denominator = half", "fractions.Fraction.limit_denominator"),
    "of a module": ("statistics.mean = half", "statistics.mean"),
    "where a name is imported": ("from fractions import Fraction as F; F.half = half", FULL),
    "in a function that is called": ("def patch(): Fraction.half = half\npatch()", FULL),
}


@pytest.mark.parametrize(("cell", "full"), SET.values(), ids=SET)
def test_what_a_cell_set_in_a_library_is_named_after_a_restart_with_the_cell_to_run(cell: str, full: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        made = nb.run(cell)
        nb.run("x = 1")
    title = cell.partition("\n")[0]
    restart()
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == (f"{not_set(full, rev(made), title)}: {WHY}",)


def test_a_restart_says_it_until_a_cell_sets_it_again() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        made = nb.run("Fraction.half = half; Fraction.weight = 3")
    for _ in range(2):
        restart()
        with Notebook(Repository.open(store)) as again:
            both = f"{FULL} and fractions.Fraction.weight"
            line = f"{not_set(both, rev(made), 'Fraction.half = half; Fraction.weight = 3')}: {WHY}"
            assert again.checkout("main").notes == (line,)
            again.run("y = 2")
            assert again.checkout("HEAD").notes == (line,)
            made = again.run("Fraction.half = half; Fraction.weight = 3")
            assert again.checkout(made).notes == ()


def test_the_last_cell_that_set_it_is_named_and_cells_in_the_order_to_run_them() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        nb.run("Fraction.half = 1")
        weight = nb.run("Fraction.weight = 3")
        half = nb.run("Fraction.half = half")
        nb.run("class Own: pass\nown = Own(); own.half = own.weight = 4; text = 'Fraction.half'")
    restart()
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == (
            f"{not_set('fractions.Fraction.weight', rev(weight), 'Fraction.weight = 3')}: {WHY}",
            not_set(FULL, rev(half), "Fraction.half = half"),
        )


def test_a_checkout_names_what_stays_set() -> None:
    with Notebook() as nb:
        first = nb.run(START)
        second = nb.run("Fraction.half = half")
        stays = f"{FULL} stays as a cell set it: {WHY}"
        assert nb.checkout(first).notes == (stays,)
        assert nb.checkout(second).notes == ()
        assert nb.rollback(first).notes[-1] == stays
        nb.run("Fraction.weight = 3")
        assert nb.checkout(first).notes == (f"{FULL} and fractions.Fraction.weight stay as cells set them: {WHY}",)


def test_a_checkout_names_what_a_later_cell_set_to_another_value() -> None:
    with Notebook() as nb:
        nb.run(START)
        made = nb.run("Fraction.half = half")
        nb.run("x = 1")
        last = nb.run("def half(self): return self * 0.5\nFraction.half = half")
        assert nb.checkout("HEAD~1").notes == (f"{not_set(FULL, rev(made), 'Fraction.half = half')}: {WHY}",)
        assert nb.checkout(last).notes == ()
        nb.run("def half(self): return self / 2\nFraction.half = half")
        assert nb.checkout(made).notes == ()  # it does the same again


def test_a_commit_of_an_earlier_release_names_attributes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb, monkeypatch.context() as earlier:
        earlier.setattr(ProcessState, "names", lambda _: {FULL} if hasattr(Fraction, "half") else set())
        nb.run(START)
        nb.run("Fraction.half = 1")
        made = nb.run("Fraction.half = half")
    restart()
    with Notebook(Repository.open(store)) as again:
        line = f"{not_set(FULL, rev(made), 'Fraction.half = half')}: {WHY}"
        assert again.checkout("main").notes == (line,)
        again.run("Fraction.half = 2")
        assert again.checkout(made).notes == ()


def test_what_the_import_of_a_module_sets_again_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "extras.py").write_text("import fractions\nfractions.Fraction.half = 0.5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        nb.run("import extras; Fraction.half = 0.5")
    del sys.modules["extras"]
    restart()
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == ()


def test_a_merge_names_what_either_side_had_set() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        nb.session.switch("side", create=True)
        made = nb.run("Fraction.half = half")
    restart()
    with Notebook(Repository.open(store), branch="main") as other:
        other.checkout("main")
        other.run("x = 1")
        other.session.merge("side")
        assert other.checkout("HEAD").notes == (f"{not_set(FULL, rev(made), 'Fraction.half = half')}: {WHY}",)


@pytest.mark.parametrize("back", ["del Fraction.half", "delattr(Fraction, 'half')"])
def test_what_a_cell_takes_back_is_set_no_more(back: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(START)
        nb.run("Fraction.half = half")
        nb.run(back)
        nb.run("mean = statistics.mean; statistics.mean = half; statistics.mean = mean")
        assert nb.checkout(first).notes == ()
        nb.checkout("main")
    restart()
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == ()


NOT_SET = (
    "class Own: pass\nOwn.half = half; Own().half = 3",
    "f = Fraction(1, 2); g = half; g.note = 1; half.note = f",
    "'Fraction.half = half'  # Fraction.half = half",
    "def patch(): Fraction.half = half",
    "if False: Fraction.half = half",
    "Fraction.half == 3 if hasattr(Fraction, 'half') else Fraction.real",
    "import helper; helper.weight = 3",
)


@pytest.mark.parametrize("cell", NOT_SET)
def test_what_is_not_set_in_a_library_is_not_named(cell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helper.py").write_text("weight = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(START)
        nb.run(cell)
        assert not [note for note in nb.checkout(first).notes if WHY in note or FULL in note]
        nb.checkout("main")
    restart()
    with Notebook(Repository.open(store)) as again:
        assert not [note for note in again.checkout("main").notes if WHY in note or FULL in note]


def test_a_look_at_what_a_cell_sets_runs_no_code_of_its_objects() -> None:
    asked: list[str] = []

    class Asks:
        def __getattribute__(self, name: str) -> object:
            asked.append(name)
            return self

    looks = ProcessState()
    found = looks.look_before("lead.name = 3; lead.part.name = 4; setattr(lead, 'x', 1)", {"lead": Asks()})
    assert found.attributes is None
    assert asked == []


# -- settings

WHY_SETTINGS = "commits do not save settings"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Gives the process the settings of a new one, when called and at the end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MODEL_KEY", raising=False)
    (tmp_path / "data").mkdir()
    limit, context, level = sys.getrecursionlimit(), decimal.getcontext().copy(), logging.getLogger().level
    shown, errors, params = numpy.get_printoptions(), numpy.geterr(), dict(dict.items(matplotlib.rcParams))

    def restart() -> None:
        os.chdir(tmp_path)
        os.environ.pop("MODEL_KEY", None)
        sys.setrecursionlimit(limit)
        decimal.setcontext(context.copy())
        logging.getLogger().setLevel(level)
        numpy.set_printoptions(**shown)
        numpy.seterr(**errors)
        dict.update(matplotlib.rcParams, params)
        pandas.reset_option("^display")

    yield restart
    restart()


SETTINGS = {  # a cell, and what it changes
    "the folder": ("import os; os.chdir('data')", "the working directory"),
    "how deep calls go": ("import sys; sys.setrecursionlimit(4321)", "the recursion limit"),
    "digits of decimals": ("import decimal; decimal.getcontext().prec = 50", "the context of decimal"),
    "what is logged": ("import logging; logging.getLogger().setLevel(10)", "the root logger"),
    "a parameter of plots": ("import matplotlib as mpl; mpl.rcParams['font.size'] = 3", "matplotlib.rcParams"),
    "a style of plots": ("import matplotlib.pyplot as plt; plt.style.use('ggplot')", "matplotlib.rcParams"),
    "what tables show": ("import pandas as pd; pd.set_option('display.max_rows', 7)", "pandas.options"),
    "by attributes": ("import pandas as pd; pd.options.display.precision = 3", "pandas.options"),
    "how numbers print": ("import numpy as np; np.set_printoptions(precision=3)", "the print format of numpy"),
    "what divides by zero": ("import numpy as np; np.seterr(all='raise'); None", "the error handling of numpy"),
    "a key of a model": ("import os; os.environ['MODEL_KEY'] = 'secret'", "os.environ['MODEL_KEY']"),
}


@pytest.mark.parametrize(("cell", "setting"), SETTINGS.values(), ids=SETTINGS)
def test_a_setting_that_a_cell_changed_is_named_after_a_restart_with_the_cell_to_run(
    cell: str, setting: str, settings: Callable[[], None]
) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run("x = 1")
        made = nb.run(cell)
        nb.run("y = 2")
        assert nb.checkout(first).notes == (f"{setting} stays as a cell set it: {WHY_SETTINGS}",)
        assert nb.checkout("main").notes == ()
    settings()
    with Notebook(Repository.open(store)) as again:
        line = f"{not_set(setting, rev(made), cell)}: {WHY_SETTINGS}"
        assert again.checkout("main").notes == (line,)
        again.run("z = 3")
        assert again.checkout("HEAD").notes == (line,)
        again.run(cell)
        assert again.checkout("main").notes == ()


def test_no_commit_holds_what_a_variable_of_the_environment_is(settings: Callable[[], None], tmp_path: Path) -> None:
    with Notebook(Repository.open(str(tmp_path / "store"))) as nb:
        (tmp_path / "key").write_text("hunter2")
        nb.run("import os, pathlib; os.environ['MODEL_KEY'] = pathlib.Path('key').read_text()")
        (tmp_path / "key").unlink()
        head = nb.session.head
        assert head is not None
        assert nb.repo.commit_at(head).set_in_libraries == ("os.environ['MODEL_KEY']",)
    assert all(b"hunter2" not in file.read_bytes() for file in (tmp_path / "store").rglob("*") if file.is_file())


def test_each_cell_that_changed_a_setting_is_named_once_in_the_order_to_run_them(settings: Callable[[], None]) -> None:
    store = MemoryStore()
    style, size = "plt.style.use('ggplot')", "plt.rcParams['figure.figsize'] = 3, k"
    with Notebook(Repository.open(store)) as nb:
        nb.run("import matplotlib.pyplot as plt\nk = 4")
        made = [nb.run(style)]
        nb.run(size)
        nb.run("k = 5")
        made.append(nb.run(size))
        nb.run("with plt.rc_context({'font.size': 3}): pass")
    settings()
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == (
            f"{not_set('matplotlib.rcParams', rev(made[0]), style)}: {WHY_SETTINGS}",
            not_set("matplotlib.rcParams", rev(made[1]), size),
        )
        again.execute("plt.style.use('ggplot')\nplt.rcParams['figure.figsize'] = 3, 5")
        assert again.checkout("main").notes == ()  # as when the import of a library does it again


def test_a_setting_that_is_set_back_is_set_no_more(settings: Callable[[], None]) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run("import os, sys\nlimit = sys.getrecursionlimit()")
        nb.run("os.chdir('data'); sys.setrecursionlimit(4321); os.environ['MODEL_KEY'] = 'k'")
        nb.run("os.chdir('..'); sys.setrecursionlimit(limit); del os.environ['MODEL_KEY']")
        assert nb.checkout(first).notes == ()
        nb.checkout("main")
    settings()
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == ()


def test_settings_that_cannot_be_read_or_compared_keep_no_cell_from_its_commit(
    settings: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> NoReturn:
        raise RuntimeError

    with Notebook() as nb:
        first = nb.run("x = 1")
        monkeypatch.setattr(numpy, "geterr", fail)
        dict.__setitem__(matplotlib.rcParams, "axes.prop_cycle", numpy.arange(3))
        nb.run("class Silent:\n    def __repr__(self): raise RuntimeError\nimport matplotlib")
        nb.run("dict.__setitem__(matplotlib.rcParams, 'axes.prop_cycle', Silent())")
        second = nb.run("y = 2")
        assert nb.checkout(first).notes == (f"matplotlib.rcParams stays as a cell set it: {WHY_SETTINGS}",)
        assert nb.checkout(second).notes == ()
