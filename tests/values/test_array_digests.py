"""Thousands of small arrays are told to be as they were without a reducer for each, and nothing that changes is missed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_kernel.values import array_digests
from agent_kernel.values.array_digests import digest_of

MANY = 50


def rows() -> list[Any]:
    return list(np.arange(MANY * 4.0).reshape(MANY, 4))


def slices() -> list[Any]:
    whole = np.arange(MANY * 4.0)
    return [whole[4 * n : 4 * n + 4] for n in range(MANY)]


def windows() -> list[Any]:
    whole = np.arange(MANY * 4.0)
    return [whole[n : n + 20] for n in range(MANY)]


def columns() -> list[Any]:
    return list(np.arange(MANY * 4.0).reshape(4, MANY).T)


def backwards() -> list[Any]:
    return [row[::-1] for row in rows()]


def own() -> list[Any]:
    return [np.arange(4.0) + n for n in range(MANY)]


FORMS = (rows, slices, windows, columns, backwards, own)


@pytest.mark.parametrize("make", FORMS)
def test_arrays_that_stay_as_they_were_have_the_same_digest(make: Callable[[], list[Any]]) -> None:
    arrays = make()
    assert digest_of(arrays)
    assert digest_of(arrays) == digest_of(arrays)


def write(array: Any) -> None:
    array[-1] = -1.0


def turn_sign_of_zero(array: Any) -> None:
    array[0] = -0.0 if array[0] == 0 else -array[0]


def lock(array: Any) -> None:
    array.flags.writeable = False


def reshape(array: Any) -> None:
    array.shape = (array.size // 2, 2)


def retype(array: Any) -> None:
    array.dtype = np.int64


CHANGES = (write, turn_sign_of_zero, lock, reshape, retype)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("make", FORMS)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_change_of_any_array_is_seen(make: Callable[[], list[Any]], change: Callable[[Any], None]) -> None:
    for place in (0, MANY // 2, MANY - 1):
        arrays = make()
        before = digest_of(arrays)
        try:
            change(arrays[place])
        except (ValueError, AttributeError):  # numpy does not do that in place to such an array
            continue
        assert digest_of(arrays) not in (b"", before)


@given(st.lists(st.tuples(st.integers(0, MANY - 1), st.integers(0, 3), st.floats(width=64)), max_size=5))
def test_the_digest_tells_whether_the_memory_is_what_it_was(writes: list[tuple[int, int, float]]) -> None:
    arrays = rows()
    before, memory = digest_of(arrays), np.array(arrays).tobytes()
    for row, place, value in writes:
        arrays[row].base[row * 4 + place if arrays[row].base.ndim == 1 else (row, place)] = value
    assert (digest_of(arrays) == before) == (np.array(arrays).tobytes() == memory)


def test_an_equal_array_that_looks_elsewhere_is_another_one() -> None:
    arrays = rows()
    before = digest_of(arrays)
    arrays[7] = arrays[7].copy()
    assert digest_of(arrays) not in (b"", before)


def test_what_no_array_looks_at_is_not_looked_at() -> None:
    wide = np.zeros((MANY, 1_000))
    arrays = [row[:4] for row in wide]
    before = digest_of(arrays)
    wide[:, 500:] = 1.0
    assert digest_of(arrays) == before
    wide[3, 2] = 1.0
    assert digest_of(arrays) != before


class Array(np.ndarray):
    pass


def test_only_a_dump_tells_of_arrays_over_memory_that_is_not_numpys() -> None:
    memory = bytearray(32 * MANY)
    assert not digest_of([np.frombuffer(memory, np.float64)[4 * n : 4 * n + 4] for n in range(MANY)])
    assert not digest_of([np.array([[n]], object) for n in range(MANY)])
    records = np.zeros(MANY, [("n", float), ("o", object)])
    assert not digest_of([records["n"][n : n + 1] for n in range(MANY)])
    assert not digest_of(list(np.zeros((MANY, 4)).view(Array).view(np.ndarray)[:, :2].view(Array)))


def test_only_a_dump_tells_of_arrays_whose_death_somebody_waits_for() -> None:
    arrays = own()
    watch = weakref.ref(arrays[3])
    assert not digest_of(arrays)
    assert watch() is not None


def test_very_much_memory_is_not_gone_through_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_digests, "MOST_BYTES", MANY * 32 - 1)
    assert not digest_of(rows())
    assert digest_of(windows())
