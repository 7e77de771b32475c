"""How many files and functions of ours a plain act passes through: `python -m tests.panels.test_walks` prints the table.

A change of one of these acts has to be understood along its whole walk. What is counted is every function of the package that is
called, once its modules are loaded: the act was done once before.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec
import pytest

import agent_kernel
from tests.panels.fronts import Front, Panel

PACKAGE = str(Path(agent_kernel.__file__).parent)
TASK = "%%agent --model answers --approve auto\nDouble it"
ANSWERS = "answers = ['x.append(3)', 'task.success(len(x))'] * 2"


class Walk(msgspec.Struct):
    """What an act passed through: files of the package, functions in them, calls, and how deep they go."""

    files: set[str] = msgspec.field(default_factory=set[str])
    functions: set[tuple[str, int]] = msgspec.field(default_factory=set[tuple[str, int]])
    calls: int = 0
    depth: int = 0


@contextmanager
def walked() -> Generator[Walk]:
    """Count what is called meanwhile on this thread."""
    walk, deep = Walk(), 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal deep
        file = frame.f_code.co_filename
        if not file.startswith(PACKAGE):
            return
        if event == "call":
            walk.files.add(file)
            walk.functions.add((file, frame.f_code.co_firstlineno))
            walk.calls += 1
            deep += 1
            walk.depth = max(walk.depth, deep)
        elif event == "return":
            deep -= 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        yield walk
    finally:
        sys.setprofile(before)


def cell(front: Front) -> Walk:
    for source in ("x = [1]", *["x.append(2)"] * 4):
        front.run(source)
    with walked() as walk:
        front.run("x.append(2)")
    return walk


def checkout_of_a_name(front: Front) -> Walk:
    for number in range(3):
        front.run(f"df = [{number}]")
    front.run("%agent checkout HEAD~1 -- df")
    with walked() as walk:
        front.run("%agent checkout HEAD~1 -- df")
    return walk


def task_of_two_steps(front: Front) -> Walk:
    front.run("x = [1]")
    front.run(ANSWERS)
    front.run(TASK)
    with walked() as walk:
        said = front.run(TASK)
    assert "Out[4]: 3" in said, said
    return walk


def asked(front: Front, op: str) -> Walk:
    """What a panel does when somebody clicks on Check out: first it asks for the plan, then it acts."""
    for number in range(4):
        front.run(f"df = [{number}]")
    panel: Panel = front.panel()
    args = {"op_": "checkout"} if op == "plan" else {"what": "variables"}
    panel.ask(op, to="HEAD~1", **args)
    with walked() as walk:
        answer = panel.ask(op, to="HEAD~1", **args)
    assert "code" not in answer, answer
    return walk


# The act, how many files it should pass through at most, and how many it passes through today: that must not grow.
WALKS: dict[str, tuple[Callable[[Front], Walk], int, int]] = {
    "a plain cell": (cell, 25, 26),
    "a checkout of one name": (checkout_of_a_name, 40, 34),
    "a task of two steps": (task_of_two_steps, 60, 55),
    "the plan of a panel's checkout": (lambda front: asked(front, "plan"), 25, 22),
    "a panel's checkout": (lambda front: asked(front, "checkout"), 40, 40),
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The table, and once more where a bound is missed: now and then an act takes long, and more is looked at behind it."""
    first = tell_table(tmp_path_factory.mktemp("first"))
    missed = [act for act in WALKS if files_in(first, act) > WALKS[act][2]]
    return [first, tell_table(tmp_path_factory.mktemp("second"))] if missed else [first]


def tell_table(home: Path) -> str:
    """The table, from a process of its own and for a user who is new here.

    What other tests leave adds to a walk: an audit hook, loaded libraries, variables of the environment, what a user trusts.
    """
    command = [sys.executable, "-m", "tests.panels.test_walks"]
    places = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "IPYTHONDIR"), str(home))
    env = {"PATH": os.environ["PATH"], "MPLBACKEND": "agg", "PYTHONHASHSEED": "0", **places}
    root = Path(PACKAGE).parent
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=root, env=env).stdout


def files_in(table: str, act: str) -> int:
    found = re.search(rf"^{re.escape(act)} +(\d+)", table, re.MULTILINE)
    assert found is not None, table
    return int(found[1])


@pytest.mark.parametrize("act", WALKS)
def test_no_act_passes_through_more_files_than_today(tables: list[str], act: str) -> None:
    assert 5 < min(files_in(table, act) for table in tables) <= WALKS[act][2], "\n".join(tables)


def main() -> None:
    """Print the table."""
    print(f"{'':32}{'files':>7}{'target':>8}{'functions':>11}{'calls':>7}{'depth':>7}")
    for act, (do, target, today) in WALKS.items():
        with (
            tempfile.TemporaryDirectory() as folder,
            pytest.MonkeyPatch.context() as patch,
            Front(Path(folder), patch) as front,
        ):
            walk = do(front)
        missed = "  MISSED" if len(walk.files) > target else ""
        print(f"{act:32}{len(walk.files):7}{target:8}{len(walk.functions):11}{walk.calls:7}{walk.depth:7}{missed}")
        if len(walk.files) > today:
            print("  more than today:", *sorted(file.removeprefix(PACKAGE) for file in walk.files))


if __name__ == "__main__":
    main()
