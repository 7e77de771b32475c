"""A long container that is a default of a function, as a set of words often is: pickled once where it is new, and then watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.values import atoms, segments
from tests.support.elsewhere import Sheet, elsewhere
from tests.support.notebooks import Notebook, names_changed

N = 2 * atoms.LONG
WORDS = f"{{f'word {{i}}' for i in range({N})}}"
FORMS = [WORDS, f"{{f'word {{i}}': i for i in range({N})}}", f"[f'word {{i}}' for i in range({N})]"]


def test_defining_a_function_over_a_long_container_pickles_that_once(written: list[int]) -> None:
    with Notebook() as nb:
        nb.run(f"words = {WORDS}")
        whole = sum(written)
        for cell in (
            "def known(word, words=words): return word in words",
            "def unknown(word, *, words=words): return word not in words",
            "def known(word, words=words): return word.lower() in words",
        ):
            written.clear()
            assert names_changed(nb.run(cell)) == {cell[4 : cell.index("(")]}
            assert sum(written) < 1.1 * whole
        written.clear()
        assert not nb.run("known('word 1')").changed
        assert sum(written) < whole / 10


def test_calling_a_function_with_a_long_default_of_its_own_pickles_nothing(written: list[int]) -> None:
    with Notebook() as nb:
        nb.run(f"def known(word, words={WORDS}): return word in words")
        nb.run("known('word 0')")  # whether a module held something where the set lies now may take a look of its own
        written.clear()
        assert not nb.run("known('word 1')").changed
        assert sum(written) < 10_000  # what else is looked at when there is time


@pytest.mark.parametrize("form", FORMS)
def test_a_change_of_a_long_default_is_found_and_taken_back(form: str) -> None:
    change = {"{": "known.__defaults__[1].update({'new': 1})", "[": "known.__defaults__[1].append('new')"}[form[0]]
    with Notebook() as nb:
        first = nb.run(f"words = {form}\ndef known(word, size=3, words=words): return word in words")
        assert names_changed(nb.run(change)) == {"known", "words"}
        assert nb.look("known('new')")
        nb.checkout(first)
        assert nb.look("(known('new'), known('word 7'), known.__defaults__[1] is words, len(words))") == (
            False, True, True, N,
        )  # fmt: skip
        nb.run("del words")
        own = nb.run("other = known")
        nb.run(change)
        nb.checkout(own)
        assert nb.look("(known('new'), known('word 7'), other is known)") == (False, True, True)


def test_which_of_two_defaults_is_the_long_one_is_told() -> None:
    with Notebook() as nb:
        nb.run(f"def f(a={WORDS}, b=1): return type(a).__name__, type(b).__name__")
        assert names_changed(nb.run("f.__defaults__ = f.__defaults__[::-1]")) == {"f"}
        changed = nb.run("f()")
        nb.run("del f")
        nb.checkout(changed)
        assert nb.look("f()") == ("int", "set")


@pytest.mark.parametrize("form", FORMS)
def test_a_long_default_comes_back_in_a_new_process(form: str, tmp_path: Path) -> None:
    cells = (f"def f(x, *, words={form}): return x in words\nwords = f.__kwdefaults__['words']\ng = [f]",)
    store = str(tmp_path / "store")
    assert not elsewhere({"made": Sheet(store, cells)})["made"].unsaved
    checks = ("assert f('word 5') and not f('x')", "assert f.__kwdefaults__['words'] is words and g[0] is f")
    found = elsewhere({"read": Sheet(store, checkout=True, checks=checks)})["read"]
    assert not found.error
    assert not found.failed


def test_a_long_default_is_long_enough_to_be_cut() -> None:
    assert N >= segments.FROM_LENGTH_WITHIN
