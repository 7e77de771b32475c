"""Looking never runs anybody's code: a commit may pickle an object, and nothing else may touch it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from agent_kernel.repository import ObjectId
from agent_kernel.session import Repository
from agent_kernel.values.previews import decode, encode, line, lines_diff, make_preview
from tests.support.notebooks import Notebook, rev
from tests.support.shells import ShellNotebook

SETUP = """
import foreign
c = foreign.Canary()
inside = {"deep": [foreign.Canary(), (foreign.Canary(),)]}
items = foreign.CanaryList([1, 2, foreign.Canary()])
mapping = foreign.CanaryDict(a=1)
text = foreign.CanaryText("secret")
number = foreign.CanaryNumber(7)
"""
NOTEBOOK_CLASS = """
class Mine:
    def __repr__(self):
        foreign.RAN.append("Mine.__repr__")
        return "mine"
    def __len__(self):
        foreign.RAN.append("Mine.__len__")
        return 1
    def __getattr__(self, name):
        if not name.startswith("__"):
            foreign.RAN.append(f"Mine.__getattr__ {name}")
        raise AttributeError(name)
    def _repr_html_(self):
        foreign.RAN.append("Mine._repr_html_")
        return "<b>mine</b>"
    def __eq__(self, other):
        foreign.RAN.append("Mine.__eq__")
        return False
    def __hash__(self):
        foreign.RAN.append("Mine.__hash__")
        return 1
mine = Mine()
"""
# Pickle itself asks subclasses of list and dict for what they hold.
ALLOWED_WHILE_PICKLING = {"__reduce__", "__iter__", "items"}


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The canaries, as a module that other processes import from a folder too."""
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy(Path(__file__).with_name("foreign.py"), library)
    monkeypatch.syspath_prepend(library)
    monkeypatch.setenv("PYTHONPATH", str(library))
    yield import_module("foreign")
    sys.modules.pop("foreign", None)


def ran(foreign: ModuleType) -> list[str]:
    """What ran since this was last asked."""
    names = list(foreign.RAN)
    foreign.RAN.clear()
    return names


def test_a_commit_runs_what_pickling_runs_and_nothing_else(foreign: ModuleType) -> None:
    with Notebook() as nb:
        nb.run(SETUP)
        assert set(ran(foreign)) <= ALLOWED_WHILE_PICKLING
        nb.run(NOTEBOOK_CLASS)
        assert set(ran(foreign)) <= ALLOWED_WHILE_PICKLING
        nb.run("c, inside, items, mapping, text, number, mine")
        assert set(ran(foreign)) <= ALLOWED_WHILE_PICKLING
        nb.session.commit("all", full=True)
        assert set(ran(foreign)) <= ALLOWED_WHILE_PICKLING


def test_a_class_that_talks_is_not_asked(foreign: ModuleType) -> None:
    loud = foreign.Loud()
    ran(foreign)
    text = line(decode(encode(make_preview(loud))))
    assert "Loud" in text
    assert ran(foreign) == []


@pytest.mark.parametrize(
    "make",
    [
        "Canary()",
        "[Canary(), Canary()]",
        "{'k': Canary(), Canary(): 1}",
        "(Canary(),)",
        "{Canary()}",
        "CanaryList([1])",
        "CanaryDict(a=1)",
        "CanaryText('t')",
        "CanaryNumber(3)",
        "[CanaryText('t'), CanaryNumber(3)]",
        "Canary",
        "Canary().__reduce__",
        "Loud",
    ],
)
def test_previews_run_nothing(foreign: ModuleType, make: str) -> None:
    value: object = eval(make, vars(foreign))
    ran(foreign)
    preview = make_preview(value)
    stored = encode(preview)
    line(decode(stored))
    lines_diff(preview, decode(stored))
    assert ran(foreign) == []
    assert len(stored) <= 2048


def in_an_array(value: object) -> object:
    """An array of objects: `value` and nothing else."""
    import numpy as np

    array = np.empty(2, dtype=object)
    array[0] = value
    return array


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        "in_an_array(Canary())",
        "__import__('pandas').DataFrame({'a': in_an_array(Canary())})",
        "__import__('pandas').Series([1], name=CanaryText('n'))",
        "__import__('collections').deque([Canary()])",
        "__import__('types').SimpleNamespace(c=Canary())",
        "__import__('functools').partial(Canary(), Canary())",
        "ValueError(Canary())",
    ],
)
def test_previews_of_what_holds_canaries_run_nothing(foreign: ModuleType, make: str) -> None:
    pytest.importorskip("pandas")
    value: object = eval(make, {**vars(foreign), "in_an_array": in_an_array})
    ran(foreign)
    line(decode(encode(make_preview(value))))
    assert ran(foreign) == []


def made(nb: Notebook) -> tuple[ObjectId, ObjectId]:
    """Two commits with canaries in them."""
    nb.run(SETUP)
    first = nb.run(NOTEBOOK_CLASS)
    second = nb.run("inside['more'] = foreign.Canary()\ndel items")
    assert first.commit is not None
    assert second.commit is not None
    return first.commit, second.commit


def test_looking_at_a_history_runs_nothing(foreign: ModuleType) -> None:
    with Notebook() as nb:
        first, second = made(nb)
        ran(foreign)
        assert len(list(nb.repo.log(second))) >= 3
        assert list(nb.repo.log_of_name(second, "inside"))
        nb.repo.diff(first, second)
        nb.repo.stats()
        assert not nb.repo.verify().problems
        nb.repo.gc(dry_run=True)
        past = nb.repo.at(rev(second))
        assert {"c", "inside", "mine"} <= set(past)
        assert len(past) >= 5
        assert "c" in past
        for name in past:
            assert past.summary(name)
        nb.repo.branches()
        repr(past)
        assert ran(foreign) == []


def test_status_runs_nothing(foreign: ModuleType) -> None:
    with Notebook() as nb:
        made(nb)
        ran(foreign)
        status = nb.session.status()
        assert status.changed == ()
        repr(status)
        assert ran(foreign) == []


def test_reading_a_value_is_what_loads_it(foreign: ModuleType) -> None:
    with Notebook() as nb:
        _, second = made(nb)
        assert type(nb.repo.at(rev(second))["c"]) is foreign.Canary


VERBS = (
    *("log", "log --json", "show HEAD", "show HEAD:c", "show HEAD:mine", "diff HEAD~1 HEAD", "stats", "verify"),
    *("status", "branch"),
)
EACH_VERB = """
import json, os, sys
from agent_kernel.cli import main

store, mark, *verbs = sys.argv[1:]
for verb in verbs:
    name, *arguments = verb.split()
    status = main([name, store, *arguments])
    print(json.dumps({verb: [status, os.path.exists(mark)]}), file=sys.stderr)
"""


def test_the_command_line_imports_nothing_of_the_values(foreign: ModuleType, tmp_path: Path) -> None:
    """In one process: the first verb that imports something is the first to show the mark."""
    assert foreign.__name__ == "foreign"
    store, mark = tmp_path / "store", tmp_path / "imported"
    repo = Repository.open(store)
    with Notebook(repo) as nb:
        made(nb)
    repo.close()
    result = subprocess.run(
        [sys.executable, "-c", EACH_VERB, str(store), str(mark), *VERBS],
        capture_output=True,
        text=True,
        env={**os.environ, "CANARY_MARK": str(mark)},
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert [json.loads(line) for line in result.stderr.splitlines()] == [{verb: [0, False]} for verb in VERBS]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "verb", ["log", "show HEAD", "show HEAD:c", "diff HEAD~1 HEAD", "stats", "verify", "status", "log -- c"]
)
def test_the_magics_run_nothing(foreign: ModuleType, tmp_path: Path, verb: str) -> None:
    with ShellNotebook(tmp_path / "store") as nb:
        nb.run(SETUP)
        nb.run("c2 = foreign.Canary()\ninside['more'] = 1")
        ran(foreign)
        assert nb.run(f"%agent {verb}").printed
        assert ran(foreign) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "typed", ["%agent sh", "%agent show HEAD:", "%agent checkout ", "%agent log -- c", "%agent ignore "]
)
def test_completion_runs_nothing(foreign: ModuleType, tmp_path: Path, typed: str) -> None:
    with ShellNotebook(tmp_path / "store") as nb:
        nb.run(SETUP)
        ran(foreign)
        nb.shell.complete("", line=typed, cursor_pos=len(typed))
        assert ran(foreign) == []
