"""Classes of a module that is reloaded: an old instance keeps its class, and who gets another one is named."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.notebooks import Notebook, names_changed

CODE = """
import dataclasses, enum
class Thing:
    tag = {tag!r}
    def __init__(self, v): self.v = v
    def hi(self): return {tag!r}
@dataclasses.dataclass
class Point:
    x: int
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(tag: str) -> None:
        (tmp_path / "own_things.py").write_text(CODE.format(tag=tag))
        sys.path_importer_cache.clear()

    write("old")
    yield write
    sys.modules.pop("own_things", None)


START = (
    "import importlib, own_things\nfrom own_things import Thing\na = Thing(1)\nheld = [a, own_things.Point(2)]\nn = 1"
)


def test_an_instance_of_a_class_from_before_a_reload_keeps_that_class(write: Callable[[str], None]) -> None:
    with Notebook() as nb:
        nb.run(START)
        write("newer")
        nb.run("importlib.reload(own_things)\nb = own_things.Thing(3)")
        changed = nb.run("a.v = 5; held; Thing")
        assert {"a", "held"} <= names_changed(changed)
        nb.run("del a, b, held, Thing")
        assert nb.checkout(changed).notes == ()
        assert nb.look("(a.hi(), a.v, a.tag, held[0] is a, type(a) is Thing, Thing is own_things.Thing, b.hi())") == (
            "old", 5, "old", True, True, False, "newer",
        )  # fmt: skip


def test_what_comes_back_with_the_code_of_after_a_reload_is_named_and_all_of_it_new(
    write: Callable[[str], None],
) -> None:
    with Notebook() as nb:
        first = nb.run(START)
        write("newer")
        nb.run("importlib.reload(own_things)")
        notes = nb.checkout(first).notes
        assert "with the code that own_things has now, not as it was then: a, held" in notes
        assert nb.look("(a.hi(), a.tag, type(a) is Thing is own_things.Thing)") == ("newer", "newer", True)


def test_what_comes_back_with_code_that_was_edited_before_a_restart_is_named(write: Callable[[str], None]) -> None:
    with Notebook() as nb:
        nb.run(START)
        repo = nb.repo
        nb.session.close()
        write("newer")
        sys.modules.pop("own_things", None)
        with Notebook(repo) as again:
            assert "with the code that own_things has now, not as it was then: a, held" in again.checkout().notes


def test_a_module_that_is_as_it_was_is_not_named(write: Callable[[str], None]) -> None:
    with Notebook() as nb:
        first = nb.run(START)
        nb.run("importlib.reload(own_things)\nn = 2")
        assert not [note for note in nb.checkout(first).notes if "own_things" in note]
