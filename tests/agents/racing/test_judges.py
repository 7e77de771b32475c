"""A judge is code of the user: whatever it raises is its error, however long it loops the race ends, and a person may stop it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress

import pytest

import agent_kernel as ak
from agent_kernel.agents.races import race
from agent_kernel.agents.workers import Candidate
from agent_kernel.errors import RaceError
from agent_kernel.session import Versioned
from tests.agents.racing.racers import BETTER, GOOD, raising
from tests.agents.test_interrupts import interrupt, soon


def _thrown(_: Candidate) -> float:
    def waits() -> object:
        yield

    going = waits()
    next(going)  # type: ignore[call-overload]  # it is a generator
    going.throw(KeyboardInterrupt("thrown"))  # type: ignore[attr-defined]  # as above
    return 1.0


class _Number:
    def __float__(self) -> float:
        raise asyncio.CancelledError


RAISING = [
    raising(KeyboardInterrupt("mine")),
    raising(SystemExit(3)),
    raising(asyncio.CancelledError()),
    raising(GeneratorExit()),
    raising(BaseException("base")),
    raising(BaseExceptionGroup("many", [KeyboardInterrupt()])),
    _thrown,
    lambda _: _Number(),
]


@pytest.mark.parametrize("judge", RAISING)
def test_what_a_judge_raises_is_its_own_error_in_one_line(
    state: Versioned, pool: Executor, judge: Callable[[Candidate], float]
) -> None:
    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool, judge=judge).wait()
    assert [one.status for one in tries.candidates] == ["completed", "completed"]
    reasons = [one.reason for one in tries.candidates]
    assert all(one.startswith("it could not be judged: ") and "\n" not in one for one in reasons)
    assert not tries.is_interrupted
    tries.pick(2)


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit", "asyncio.CancelledError", "BaseException"])
def test_so_is_what_an_expressionraising(state: Versioned, pool: Executor, raised: str) -> None:
    judge = f"(_ for _ in ()).throw(__import__('asyncio') and {raised.replace('asyncio', '__import__(chr(97)+chr(115)+chr(121)+chr(110)+chr(99)+chr(105)+chr(111))')})"
    tries = race("lowest", models=[GOOD], n=1, state=state, executor=pool, judge=judge).wait()
    assert tries.candidate(1).reason.startswith(f"it could not be judged: {raised.rpartition('.')[2]}")


def _loops(_: Candidate) -> float:
    while True:
        pass


def _sleeps(_: Candidate) -> float:
    time.sleep(60)
    return 1.0


def _loops_through_interrupts(_: Candidate) -> float:
    while True:
        with suppress(BaseException):
            time.sleep(0.05)


@pytest.mark.parametrize("judge", [_loops, _sleeps, "[0 for _ in iter(int, 1)]", _loops_through_interrupts])
def test_a_judge_that_loops_ends_with_its_time(
    state: Versioned, pool: Executor, judge: Callable[[Candidate], float] | str
) -> None:
    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool, judge=judge, deadline_s=1.0)
    began = time.monotonic()
    tries.wait()
    grace_s = 5 if judge is _loops_through_interrupts else 1.5  # it has some seconds for tidying up
    assert time.monotonic() - began < 1 + 1 + grace_s
    assert {one.reason for one in tries.candidates} == {"it could not be judged: it ran longer than 1 s"}
    with pytest.raises(RaceError, match="the judge could not judge"):
        tries.pick()
    tries.pick(1)


@pytest.mark.parametrize("judge", [_loops, _sleeps])
def test_a_person_stops_a_judge_and_with_it_the_race(
    state: Versioned, pool: Executor, judge: Callable[[Candidate], float]
) -> None:
    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool, judge=judge)
    while any(one.status == "running" for one in tries.candidates) and not ak.events(state):
        time.sleep(0.01)
    soon(interrupt, 0.5)
    began = time.monotonic()
    ended = list(tries)
    assert time.monotonic() - began < 3
    assert {one.number for one in ended} == {1, 2}
    assert tries.is_interrupted
    assert all(one.score is None for one in tries.candidates)
    assert any(one.reason == "it could not be judged: it was interrupted" for one in tries.candidates)
    tries.pick(next(one.number for one in tries.candidates if one.is_done))


def test_a_judge_that_catches_a_persons_interrupt_still_ends_the_race(state: Versioned, pool: Executor) -> None:
    def judge(_: Candidate) -> float:
        with suppress(KeyboardInterrupt):
            time.sleep(60)
        return 1.0

    tries = race("lowest", models=[GOOD, BETTER], state=state, executor=pool, judge=judge)
    soon(interrupt, 0.7)
    began = time.monotonic()
    list(tries)
    assert time.monotonic() - began < 3
    assert tries.is_interrupted
