"""Ctrl-C while a value is saved: the cell is committed without it, it is named, and nothing unsaved is ever replaced."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from agent_kernel.repository import Head, hex_of
from tests.support.notebooks import Notebook, names_changed, rev

INTERRUPTS = (
    "class Slow:\n"
    "    interrupt = False\n"
    "    def __init__(self, v):\n"
    "        self.v = v\n"
    "    def __reduce__(self):\n"
    "        if Slow.interrupt:\n"
    "            Slow.interrupt = False\n"
    "            raise KeyboardInterrupt\n"
    "        return Slow, (self.v,)\n"
    "slow = Slow(1)"
)


def test_an_interrupt_while_saving_costs_only_the_value_that_was_being_saved() -> None:
    with Notebook() as nb:
        nb.run(INTERRUPTS)
        report = nb.run("slow.v = 2\nother = [1]\nSlow.interrupt = True")
        assert "other" in names_changed(report)
        assert [(unsaved.name, unsaved.reason) for unsaved in report.unsaved] == [("slow", "saving it was interrupted")]


def test_the_next_cell_saves_what_was_interrupted_whatever_it_is_about() -> None:
    with Notebook() as nb:
        nb.run(INTERRUPTS)
        nb.run("slow.v = 2\nSlow.interrupt = True")
        report = nb.run("unrelated = 1")
        assert "slow" in names_changed(report)
        assert report.record is not None
        assert not any("something else" in label for label in report.record.labels)
        nb.run("slow.v = 3")
        nb.checkout(report)
        assert nb.look("slow.v") == 2


@pytest.mark.parametrize("move", ["checkout", "rollback", "undo", "switch", "merge"])
def test_an_interrupt_before_a_move_leaves_everything_as_it_was(move: str) -> None:
    with Notebook() as nb:
        nb.run(INTERRUPTS)
        nb.session.switch("side", create=True)
        nb.run("y = 1")
        nb.session.switch("main")
        nb.run("z = 1")
        nb.namespace["Slow"].interrupt = True  # type: ignore[attr-defined]
        nb.namespace["slow"].v = 5  # type: ignore[attr-defined]
        head, branch = nb.session.head, nb.session.branch
        moves: dict[str, Callable[[], object]] = {
            "checkout": lambda: nb.session.checkout("HEAD~1"),
            "rollback": lambda: nb.session.rollback("HEAD~1"),
            "undo": nb.session.undo,
            "switch": lambda: nb.session.switch("side"),
            "merge": lambda: nb.session.merge("side"),
        }
        with pytest.raises(KeyboardInterrupt):
            moves[move]()
        assert (nb.session.head, nb.session.branch) == (head, branch)
        assert nb.look("(slow.v, z)") == (5, 1)
        moves[move]()
        found = [commit for commit, _ in nb.repo.log(list(nb.repo.branches().values()))]
        kept = [nb.repo.at(commit[:-1].hex())["slow"] for commit in found]
        assert any(getattr(slow, "v", None) == 5 for slow in kept), "what was not committed yet was lost"


def test_a_thread_that_binds_and_deletes_names_stops_nothing() -> None:
    with Notebook() as nb:
        nb.run(
            "import threading\nstop = threading.Event()\nkeep = [1]\n"
            "def churn():\n"
            "    n = 0\n"
            "    while not stop.is_set():\n"
            "        n += 1\n"
            "        globals()[f't{n % 5}'] = [n]\n"
            "        globals().pop(f't{(n + 2) % 5}', None)\n"
            "thread = threading.Thread(target=churn)\nthread.start()"
        )
        try:
            for number in range(40):
                report = nb.run(f"keep.append({number})")
                assert "keep" in names_changed(report)
                if number % 8 == 7:
                    nb.session.undo()
                    assert report.commit is not None
                    nb.session.rollback(hex_of(report.commit))  # redo is over once the thread changed something
        finally:
            nb.run("stop.set()\nthread.join()")
        assert nb.look("keep") == [1, *range(40)]
        assert nb.repo.verify().is_sound


@pytest.mark.sampled
@pytest.mark.parametrize("move", ["checkout", "rollback", "undo", "switch", "merge", "fast-forward", "names"])
@pytest.mark.parametrize("point", ["take_on", "publish", "move_head", "move_branch"])
def test_an_interrupt_within_a_move_waits_until_variables_and_head_are_moved(
    move: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def strike(real: Callable[..., object]) -> Callable[..., object]:
        def struck(*arguments: object, **named: object) -> object:
            monkeypatch.undo()
            os.kill(os.getpid(), signal.SIGINT)
            found = real(*arguments, **named)
            os.kill(os.getpid(), signal.SIGINT)
            return found

        return struck

    with Notebook() as nb:
        nb.run("v = [1]")
        nb.session.switch("side", create=True)
        nb.run("v = [2]\ns = 1")
        nb.session.switch("main")
        if move != "fast-forward":
            nb.run("m = 3")
        moves: dict[str, Callable[[], object]] = {
            "checkout": lambda: nb.session.checkout("side~1"),
            "rollback": lambda: nb.session.rollback("side"),
            "undo": nb.session.undo,
            "switch": lambda: nb.session.switch("side"),
            "merge": lambda: nb.session.merge("side"),
            "fast-forward": lambda: nb.session.merge("side"),
            "names": lambda: nb.session.checkout("side", ["v"]),
        }
        owner = nb.session.workspace if point == "take_on" else nb.repo
        monkeypatch.setattr(owner, point, strike(getattr(owner, point)))
        with contextlib.suppress(KeyboardInterrupt):  # not every move comes to each point
            moves[move]()
        monkeypatch.undo()
        assert nb.session.head is not None
        assert nb.repo.head(nb.session.id) == Head(nb.session.branch, nb.session.head)
        stored = nb.repo.at(rev(nb.session.head))
        assert {name: stored[name] for name in stored} == {name: nb.namespace[name] for name in nb.variables()}
        assert not nb.session.commit(full=True).changed
        if move == "undo":  # what was undone is not the next thing to undo
            assert nb.session.next_redo is not None
            nb.session.redo()
            assert nb.look("m") == 3
        assert "w" in names_changed(nb.run("w = 1"))


def test_an_interrupt_while_a_variable_is_taken_with_its_older_class_waits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with Notebook() as nb:
        first = nb.run("class K: n = 1\nk = K()")
        nb.run("K.n = 2")
        publish = nb.repo.publish

        def struck(*arguments: Any, **named: Any) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return publish(*arguments, **named)

        monkeypatch.setattr(nb.repo, "publish", struck)
        with pytest.raises(KeyboardInterrupt):
            nb.checkout(first, names=["k"])
        monkeypatch.undo()
        assert nb.look("(K.n, k.n)") == (2, 1)
        assert not nb.session.commit(full=True).changed
        nb.session.undo()
        assert nb.look("(K.n, k.n)") == (2, 2)


def test_an_interrupt_that_a_person_repeats_still_leaves_everything_as_it_was() -> None:
    """Only where nobody pressed Ctrl-C is it the value's own doing."""
    with Notebook() as nb:
        first = nb.run(
            "import os, signal\nclass Slow:\n    on = False\n    def __reduce__(self):\n"
            "        if Slow.on:\n            os.kill(os.getpid(), signal.SIGINT)\n            [0] * 10\n        return Slow, ()\n"
            "slow = Slow(); x = 1"
        )
        nb.run("slow.v = 2; x = 2; Slow.on = True")
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                nb.checkout(first)
            assert nb.look("x") == 2
        nb.run("Slow.on = False")
        nb.checkout(first)
        assert nb.look("x") == 1
