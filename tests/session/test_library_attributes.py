"""What cells set on classes and modules of libraries is in no commit, and a checkout says so where it matters."""

from __future__ import annotations

import fractions
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.session.library_attributes import LibraryAttributes
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, rev

START = "import fractions, statistics\nfrom fractions import Fraction\ndef half(self): return self / 2"
FULL = "fractions.Fraction.half"


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    whole = dict(vars(fractions.Fraction)), dict(vars(statistics))
    yield
    for owner, before in zip((fractions.Fraction, statistics), whole, strict=True):
        for name in set(vars(owner)) - before.keys():
            delattr(owner, name)
        for name in ("limit_denominator", "mean"):
            if name in before and vars(owner)[name] is not before[name]:
                setattr(owner, name, before[name])


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
    with Notebook(Repository.open(store)) as again:
        assert again.checkout("main").notes == (f"{not_set(full, rev(made), title)}: {WHY}",)


def test_a_restart_says_it_until_a_cell_sets_it_again() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        made = nb.run("Fraction.half = half; Fraction.weight = 3")
    for _ in range(2):
        del fractions.Fraction.half, fractions.Fraction.weight  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
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


def test_a_merge_names_what_either_side_had_set() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(START)
        nb.session.switch("side", create=True)
        made = nb.run("Fraction.half = half")
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
    with Notebook(Repository.open(store)) as again:
        assert not [note for note in again.checkout("main").notes if WHY in note or FULL in note]


def test_a_look_at_what_a_cell_sets_runs_no_code_of_its_objects() -> None:
    asked: list[str] = []

    class Asks:
        def __getattribute__(self, name: str) -> object:
            asked.append(name)
            return self

    looks = LibraryAttributes()
    assert looks.look_before("lead.name = 3; lead.part.name = 4; setattr(lead, 'x', 1)", {"lead": Asks()}) is None
    assert asked == []
