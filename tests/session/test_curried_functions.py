"""Functions that toolz curries: of one that a notebook decorates, toolz says to pickle only in which variable it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

# As toolz and cytoolz do it, which are not installed for every test.
LIBRARY = """
import sys


class curry:
    def __init__(self, func, *args, **keywords):
        self.func, self.args, self.keywords = func, args, keywords
        self._has_unknown_args = None

    def __call__(self, *args):
        self._has_unknown_args = False
        try:
            return self.func(*self.args, *args, **self.keywords)
        except TypeError:
            return curry(self.func, *self.args, *args, **self.keywords)

    def __reduce__(self):
        func, is_variable = self.func, None
        found = getattr(sys.modules[func.__module__], func.__qualname__, None)
        if isinstance(found, curry) and found.func is func:
            func, is_variable = f"{func.__module__}:{func.__qualname__}", found is self
        attributes = (("_has_unknown_args", self._has_unknown_args), ("__doc__", self.__doc__))
        return _restore_curry, (type(self), func, self.args, self.keywords, attributes, is_variable)


def _restore_curry(cls, func, args, keywords, attributes, is_variable):
    if isinstance(func, str):
        module, name = func.split(":")
        found = getattr(sys.modules[module], name)
        if is_variable:
            return found
        func = found.func
    made = cls(func, *args, **keywords)
    made.__dict__.update(attributes)
    return made


@curry
def pick(key, items):
    return items[key]
"""
DEFINE = "import toolz\n@toolz.curry\ndef add(a, b):\n    return a + b + n\nn = 0"


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toolz.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "toolz", raising=False)


def test_a_curried_function_comes_back_with_a_checkout_where_its_variable_is_gone() -> None:
    with Notebook() as nb:
        early = nb.run(f"{DEFINE}\nadd_two = add(2)")
        nb.run("del add, add_two")
        nb.checkout(early)
        assert nb.look("(add(1)(2), add_two(3))") == (3, 5)


def test_a_curried_function_comes_back_as_it_was_where_its_variable_holds_another_one() -> None:
    with Notebook() as nb:
        early = nb.run(DEFINE)
        late = nb.run("@toolz.curry\ndef add(a, b):\n    return a * b")
        nb.checkout(early)
        assert nb.look("add(3)(4)") == 7
        nb.checkout(late)
        assert nb.look("add(3)(4)") == 12


def test_a_curried_function_comes_back_after_a_restart() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"{DEFINE}\nadd_two = add(2)")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout("main")
        assert nb.look("(add(1)(2), add_two(3))") == (3, 5)
        assert nb.look("add_two.func is add.func")
        nb.run("n = 10")
        assert nb.look("add(1)(2)") == 13


def test_the_first_call_of_a_curried_function_changes_nothing() -> None:
    with Notebook() as nb:
        nb.run(DEFINE)
        assert names_changed(nb.run("three = add(1)(2)")) == {"three"}


def test_a_variable_that_the_curried_function_reads_is_changed_without_it() -> None:
    with Notebook() as nb:
        nb.run(DEFINE)
        assert names_changed(nb.run("n = 5; add(1)(2)")) == {"n"}


def test_a_curried_function_of_the_library_is_saved_by_its_name() -> None:
    with Notebook() as nb:
        early = nb.run("import toolz\nfirst = toolz.pick(0)")
        nb.run("del first")
        nb.checkout(early)
        assert nb.look("first([7, 8])") == 7
