"""Changes that do something else meanwhile: no lock is held while a function of somebody else's runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest

import agent_kernel as ak
from agent_kernel.records.collection import Records, together


class Box(ak.Record):
    number: int = 0


@pytest.fixture(params=["branch", "store", "session"])
def boxes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Records[Box]]:
    """On a branch, beside all of them, and in the next commit of a session."""
    plane: Literal["branch", "store"] = "store" if request.param == "store" else "branch"
    with ak.open(tmp_path / "store") as repo:
        if request.param == "session":
            with ak.Versioned(repo):
                yield repo.records(Box)
        else:
            yield Records(repo, Box, plane=plane)


def in_thread(act: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    return thread


def test_a_function_may_wait_for_the_record_of_another_thread(boxes: Records[Box]) -> None:
    """Both threads change records of one line; the first waits within its change for what the second stores."""

    def act() -> int:
        other = in_thread(lambda: boxes.put(Box(id="other", number=7)))
        other.join(10)
        assert not other.is_alive()
        boxes.put(Box(id="mine", number=boxes["other"].number + 1))
        return boxes["mine"].number

    assert together(boxes, act) == 8
    assert boxes["mine"].number == 8


def test_what_was_read_and_changed_meanwhile_has_the_function_called_again(boxes: Records[Box]) -> None:
    boxes.put(Box(id="a", number=1))
    calls: list[int] = []

    def act() -> None:
        found = boxes["a"].number
        calls.append(found)
        if len(calls) == 1:
            in_thread(lambda: boxes.update("a", number=10)).join(10)
        boxes.put(Box(id="a", number=found + 1))

    together(boxes, act)
    assert calls == [1, 10]
    assert boxes["a"].number == 11


def test_an_error_of_what_was_changed_meanwhile_does_not_count(boxes: Records[Box]) -> None:
    boxes.put(Box(id="a"))
    calls: list[int] = []

    def act() -> None:
        found = boxes["a"].number
        calls.append(found)
        if len(calls) == 1:
            in_thread(lambda: boxes.update("a", number=1)).join(10)
        if not found:
            raise LookupError("it is empty")

    together(boxes, act)
    assert calls == [0, 1]
    with pytest.raises(KeyError):
        together(boxes, lambda: boxes["nobody"])


def test_a_record_that_came_meanwhile_is_seen_by_who_listed_them(boxes: Records[Box]) -> None:
    calls: list[int] = []

    def act() -> None:
        calls.append(len(boxes))
        if len(calls) == 1:
            in_thread(lambda: boxes.put(Box(id="other"))).join(10)
        boxes.put(Box(id="sum", number=len(boxes.find("o*"))))

    together(boxes, act)
    assert calls == [0, 1]
    assert boxes["sum"].number == 1


def test_others_wait_no_longer_for_a_function_that_takes_its_time(boxes: Records[Box]) -> None:
    is_in, is_over = threading.Event(), threading.Event()

    def act() -> None:
        is_in.set()
        is_over.wait(20)
        boxes.put(Box(id="slow"))

    slow = in_thread(lambda: together(boxes, act))
    assert is_in.wait(10)
    began = time.monotonic()
    for number in range(10):
        boxes.put(Box(id="fast", number=number))
    assert time.monotonic() - began < 5
    is_over.set()
    slow.join(20)
    assert {"slow", "fast"} == set(boxes)


def test_threads_that_change_one_record_lose_none_of_it(boxes: Records[Box]) -> None:
    boxes.put(Box(id="sum"))

    def add() -> None:
        for _ in range(25):
            together(boxes, lambda: boxes.put(Box(id="sum", number=boxes["sum"].number + 1)))

    threads = [in_thread(add) for _ in range(6)]
    for thread in threads:
        thread.join(60)
    assert boxes["sum"].number == 150
