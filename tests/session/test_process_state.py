"""What cells set on classes and modules of libraries, and settings, are in no commit, and a checkout says so where it matters."""

from __future__ import annotations

import decimal
import fractions
import logging
import os
import statistics
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import matplotlib
import numpy
import pandas
import pytest

from agent_kernel.session import Repository, process_state
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
        kinds: tuple[Any, ...] = (pandas.DataFrame, pandas.Series)
        for kind in kinds:
            if "own" in kind._accessors:
                kind._accessors.discard("own")
                del kind.own

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


REGISTERED = "pd.api.extensions.register_dataframe_accessor('own')"
ACCESSORS = {
    "of the notebook": f"@{REGISTERED}\nclass Own:\n    def __init__(self, df): self.df = df",
    "of a library": f"{REGISTERED}(Fraction); None",
}


@pytest.mark.parametrize("cell", ACCESSORS.values(), ids=ACCESSORS)
def test_an_accessor_that_a_cell_registered_is_named_after_a_restart(cell: str, settings: Callable[[], None]) -> None:
    store, name = MemoryStore(), "the register of pandas accessors"
    with Notebook(Repository.open(store)) as nb:
        first = nb.run("import pandas as pd; from fractions import Fraction")
        made = nb.run(cell)
        nb.run("y = 2")
        assert nb.checkout(first).notes == (f"{name} stays as a cell set it: {WHY_SETTINGS}",)
        assert nb.checkout("main").notes == ()
    settings()
    with Notebook(Repository.open(store)) as again:
        (line,) = again.checkout("main").notes
        assert line.startswith(f"to set {name} again, run the cell of {rev(made)[:8]}")
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


@pytest.mark.parametrize("secret", ["key", "[key]", "key.encode()", "make(key)", "lambda self, k=key: k"])
def test_no_commit_tells_two_texts_apart_that_cells_set_in_libraries(secret: str, tmp_path: Path) -> None:
    told: list[tuple[str, ...]] = []
    for key in ("hunter2", "letmein"):
        with Notebook() as nb:
            nb.run(f"{START}\nimport pathlib\ndef make(k): return lambda self: k")
            (tmp_path / "key").write_text(key)
            nb.run(f"key = pathlib.Path({str(tmp_path / 'key')!r}).read_text()\nFraction.half = {secret}; del key")
            head = nb.session.head
            assert head is not None
            told.append(nb.repo.commit_at(head).set_in_libraries)
        restart()
    assert told[0] == told[1]
    assert told[0][0].startswith(FULL)


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


def test_of_settings_with_parts_each_part_is_one(settings: Callable[[], None]) -> None:
    store = MemoryStore()
    rows, width = "pd.set_option('display.max_rows', 20)", "pd.set_option('display.width', 200)"
    with Notebook(Repository.open(store)) as nb:
        nb.run("import pandas as pd")
        first = nb.run(rows)
        made = nb.run(width)
        assert nb.checkout(first).notes == (f"pandas.options stays as a cell set it: {WHY_SETTINGS}",)
    settings()
    with Notebook(Repository.open(store)) as again:
        assert len(again.checkout("main").notes) == 2
        again.run(rows)
        line = f"{not_set('pandas.options', rev(made), width)}: {WHY_SETTINGS}"
        assert again.checkout("HEAD").notes == (line,)
        again.run(width)
        assert again.checkout("HEAD").notes == ()


def test_what_is_inherited_again_is_set_no_more() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        first = nb.run(START)
        nb.run("old = Fraction.conjugate; Fraction.conjugate = half")
        nb.run("Fraction.conjugate = old; del old")
        assert nb.checkout(first).notes == ()


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


def test_the_cell_that_set_it_is_named_also_where_it_lies_on_another_branch(settings: Callable[[], None]) -> None:
    store = MemoryStore()
    style = "plt.style.use('ggplot')"
    with Notebook(Repository.open(store)) as nb:
        nb.run("import matplotlib.pyplot as plt")
        made = nb.run(style)
        nb.checkout("HEAD~1")
        nb.session.switch("other", create=True)
        nb.run("y = 2")
        nb.run("z = 2")
        nb.session.switch("main")
        nb.session.undo()
    settings()
    line = f"{not_set('matplotlib.rcParams', rev(made), style)}: {WHY_SETTINGS}"
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("other").notes == (line,)
        assert again.checkout("main").notes == (line,)


def test_of_two_sides_with_different_settings_one_is_enough(settings: Callable[[], None]) -> None:
    with Notebook() as nb:
        nb.run("import numpy as np")
        nb.session.switch("side", create=True)
        nb.run("np.set_printoptions(precision=3); x = 1")
        nb.session.switch("main")
        nb.run("np.set_printoptions(precision=5); y = 1")
        nb.session.merge("side")
        assert nb.checkout("HEAD").notes == ()


def test_a_setting_that_is_changed_while_no_cell_is_noted_is_looked_at_again(settings: Callable[[], None]) -> None:
    with Notebook() as nb:
        first = nb.run("import sys\nlimit = sys.getrecursionlimit()")
        nb.run("sys.setrecursionlimit(4321)")
        nb.execute("sys.setrecursionlimit(limit)")
        assert nb.checkout(first).notes == ()


PLOTS = (
    "mpl.rcParams['font.sans-serif'] = ['Arial']",
    "mpl.rcParams['axes.prop_cycle'] = mpl.cycler(color='rgb')",
    "import style",
)


@pytest.mark.parametrize("cell", PLOTS)
def test_a_parameter_of_plots_is_noted_however_it_is_changed(
    cell: str, settings: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "style", raising=False)
    (tmp_path / "style.py").write_text("import matplotlib\nmatplotlib.rcParams['font.size'] = 7\n")
    with Notebook() as nb:
        first = nb.run("import matplotlib as mpl")
        nb.run(cell)
        assert nb.checkout(first).notes == (f"matplotlib.rcParams stays as a cell set it: {WHY_SETTINGS}",)


VALUES = {  # of an attribute, and another
    "a property": ("property(lambda self: 1)", "property(lambda self: 2)"),
    "a static method": ("staticmethod(lambda: 1)", "staticmethod(lambda: 2)"),
    "a partial": ("functools.partial(max, 1)", "functools.partial(max, 2)"),
    "a function with variables of its own": ("make(1)", "make(2)"),
    "with a default": ("lambda self, *, k=1: k", "lambda self, *, k=2: k"),
    "a class": ("type('A', (), {'x': 1})", "type('A', (), {'x': 2})"),
    "a set": ("{1, 2, 'c'}", "{1, 3, 'c'}"),
    "a function with a text": ("lambda self: 'a'", "lambda self: 'b'"),
    "one of two targets": ("1; Fraction.half, Fraction.weight = 2, 3", "1; Fraction.half, Fraction.weight = 4, 3"),
    "the other of two targets": (
        "1; Fraction.weight, Fraction.half = 3, 2",
        "1; Fraction.weight, Fraction.half = 3, 4",
    ),
    "with its type": ("0; Fraction.half: int = 1", "0; Fraction.half: int = 2"),
}


@pytest.mark.parametrize(("value", "another"), VALUES.values(), ids=VALUES)
def test_another_value_of_an_attribute_is_told_from_the_same_one_made_again(value: str, another: str) -> None:
    with Notebook() as nb:
        nb.run(f"{START}\nimport functools\ndef make(k): return lambda self: k")
        made = nb.run(f"Fraction.half = {value}")
        nb.run(f"Fraction.half = {another}")
        assert [note for note in nb.checkout(made).notes if FULL in note]
        nb.run(f"Fraction.half = {value}")
        assert nb.checkout(made).notes == ()


HOSTILE = {
    "ends the process": "raise SystemExit",
    "prints": "print('asked')",
    "fails": "raise RuntimeError",
}


@pytest.mark.parametrize("does", HOSTILE.values(), ids=HOSTILE)
def test_no_code_of_the_person_runs_to_tell_what_is_set(does: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Notebook() as nb:
        first = nb.run(
            f"{START}\nclass Own:\n    def __repr__(self): {does}\n    __eq__ = __hash__ = __str__ = __repr__"
        )
        nb.run("Fraction.half = [Own(), (Own(), {'k': Own()})]; Fraction.weight = own = []; own.append(own)")
        nb.run("x = 1")
        assert f"{FULL} and fractions.Fraction.weight stay" in nb.checkout(first).notes[0]
        assert not capsys.readouterr().out


def test_a_long_value_is_looked_at_in_the_cell_that_sets_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    digest = process_state._digest

    def noted(value: object, *, tells_texts: bool = True) -> str:
        asked.append(value)
        return digest(value, tells_texts=tells_texts)

    with Notebook() as nb:
        nb.run(f"{START}\nFraction.half = list(range(100_000))")
        monkeypatch.setattr(process_state, "_digest", noted)
        nb.run("x = 1")
        nb.run("y = 1")
        assert asked == []


ENVIRONMENTS = (
    "os.environb[b'\\xff'] = b'1'",
    "os.environ['A#B'] = '1'",
    "os.environ = {'a': [], 1: 2}",
    "os.environ = None",
)


@pytest.mark.parametrize("cell", ENVIRONMENTS)
def test_whatever_the_environment_is_cells_are_committed(cell: str, settings: Callable[[], None]) -> None:
    environ = os.environ
    try:
        with Notebook() as nb:
            first = nb.run("import os")
            assert nb.run(cell).commit
            assert nb.run("x = 1").changed
            assert nb.checkout(first).unsaved == ()
    finally:
        os.environ = environ  # noqa: B003 - the very object
        os.environb.pop(b"\xff", None)
        os.environ.pop("A#B", None)


def test_of_variables_that_libraries_set_in_a_cell_none_is_named(
    settings: Callable[[], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tuned.py").write_text("import os\nos.environ['TUNED_THREADS'] = '1'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("TUNED_THREADS", raising=False)
    with Notebook() as nb:
        first = nb.run("import os")
        nb.run("os.environ['MODEL_KEY'] = 'k'; import tuned")
        assert nb.checkout(first).notes == (f"os.environ['MODEL_KEY'] stays as a cell set it: {WHY_SETTINGS}",)
    os.environ.pop("TUNED_THREADS")


def test_a_module_that_is_imported_when_it_is_asked_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lazy(ModuleType):
        def __getattr__(self, name: str) -> NoReturn:
            raise AssertionError(name)

    monkeypatch.setitem(sys.modules, "sklearn", Lazy("sklearn"))
    with Notebook() as nb:
        assert nb.run("x = 1").changed


def test_the_import_of_libraries_is_no_change_of_settings(tmp_path: Path) -> None:
    source = """
    from agent_kernel.session.process_state import ProcessState
    state = ProcessState()
    before = state.look_before("", {})
    import matplotlib.pyplot, numpy, pandas, sklearn.linear_model, scipy.stats, networkx, IPython, xxhash
    matplotlib.pyplot.subplots()[0].canvas.draw()
    state.note("set_index(style=option)", {}, before)
    print(sorted(state.names()))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "[]\n"
