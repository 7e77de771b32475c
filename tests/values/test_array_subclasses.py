"""Subclasses of ndarray that say how they are pickled: their memory is stored beside the stream, the rest as they want it."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.session.staging import share
from agent_kernel.values.restore.buffers import exact_bytes
from tests.values.notebook import Bytes, Namespace

np: Any = pytest.importorskip("numpy")


class Quantity(np.ndarray):  # type: ignore[misc]
    """As astropy has it: the state of the array, and beside it the attributes."""

    asked = 0

    def __reduce__(self) -> Any:
        Quantity.asked += 1
        rebuild, arguments, state = super().__reduce__()
        return rebuild, arguments, (state, self.__dict__)

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state[0])
        self.__dict__.update(state[1])


class Secretive(np.ndarray):  # type: ignore[misc]
    """What it gives is not its memory."""

    def __reduce__(self) -> Any:
        return rebuilt, (bytes(np.asarray(self) ^ 255), b"x" * self.nbytes)


def rebuilt(turned: bytes, filling: bytes) -> Any:
    assert filling == b"x" * len(turned)
    return (np.frombuffer(turned, np.uint8) ^ 255).view(Secretive)


class Staying(Quantity):
    """As astropy's masked arrays: a view of one is always one."""

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        return np.ndarray.view(self, Staying)


@pytest.mark.parametrize("dtype", ["<f8", ">f8"])
def test_one_whose_views_are_of_its_class_comes_back_with_those_that_share_its_memory(dtype: str) -> None:
    notebook = Namespace()
    value = np.ndarray.view(np.arange(6_000.0).astype(dtype), Staying)
    value.unit = "m"
    notebook.names |= {"value": value, "part": value[10:], "plain": np.ndarray.view(value, np.ndarray)}
    loaded = notebook.there_and_back("value", "part", "plain")
    assert [type(found) for found in loaded.values()] == [Staying, Staying, np.ndarray]
    assert [found.dtype.str for found in loaded.values()] == [dtype] * 3
    loaded["plain"][10] = -1
    assert (loaded["value"][10], loaded["part"][0]) == (-1, -1)


@pytest.mark.parametrize("size", [10_000, 20_000, 40_000])
def test_the_memory_is_no_part_of_the_stream(size: int) -> None:
    value = np.arange(float(size)).view(Quantity)
    value.unit = "m"
    before = Quantity.asked
    dumped = Namespace().dump({"value": value})
    assert Quantity.asked == before + 1
    assert [len(stream) < 1_000 for stream in dumped.dump.streams] == [True]
    assert [buffer.raw().nbytes for buffer in dumped.dump.buffers] == [value.nbytes]


def test_a_view_and_its_base_are_stored_once() -> None:
    value = np.arange(10_000.0).view(Quantity)
    value.unit = "m"
    dumped = Namespace().dump({"value": value, "part": value[10:], "memory": value.view(np.ndarray)})
    assert sum(buffer.raw().nbytes for buffer in dumped.dump.buffers) == value.nbytes


def test_what_a_class_makes_of_its_memory_comes_back_as_it_gave_it() -> None:
    notebook = Namespace()
    value = np.arange(10_000).astype(np.uint8).view(Secretive)
    notebook.names["value"] = value
    loaded = notebook.there_and_back("value")["value"]
    assert type(loaded) is Secretive
    assert np.array_equal(loaded, value)


@pytest.mark.parametrize("size", [0, 6, 6_000])
@pytest.mark.parametrize("dtype", [">f8", ">i2", "<f8", ">U3", [("a", ">i4"), ("b", "<i2")]])
@pytest.mark.parametrize("way", ["whole", "in steps", "in columns"])
def test_it_keeps_the_order_of_its_bytes(size: int, dtype: Any, way: str) -> None:
    notebook = Namespace()
    plain = np.arange(size).astype(dtype)
    plain = {"whole": plain, "in steps": plain[::2], "in columns": np.asfortranarray(plain.reshape(2, -1))}[way]
    value = plain.view(Quantity)
    value.unit = ["m"]
    notebook.names |= {"value": value, "unit": value.unit}
    loaded = notebook.there_and_back("value", "unit")
    found = loaded["value"]
    assert (type(found), found.dtype, found.shape) == (Quantity, value.dtype, value.shape)
    assert found.tolist() == value.tolist()
    assert found.unit is loaded["unit"]
    assert (found.flags.f_contiguous, found.flags.writeable) == (value.flags.f_contiguous, True) or way == "in steps"


def test_two_of_them_share_nothing_but_what_their_attributes_hold() -> None:
    notebook = Namespace()
    one, other, third = (np.arange(5_000.0).view(Quantity) for _ in range(3))
    one.unit = other.unit = ["m"]
    third.unit = ["m"]
    reaches = [notebook.dump({"": value}).reach for value in (one, other, third)]
    assert share(reaches[0], reaches[1])
    assert not share(reaches[0], reaches[2])


@pytest.mark.parametrize("size", [0, 1, 2, 5_000])
def test_bytes_that_were_stored_aside_are_bytes(size: int) -> None:
    payload = bytes(range(256)) * (size // 256 + 1)
    assert exact_bytes(Bytes(payload[:size])) == payload[:size]
