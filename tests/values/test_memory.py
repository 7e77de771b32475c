"""Memory that several arrays look at is stored once, and what merely lies side by side is not tied together."""

from __future__ import annotations

from typing import Any

import pytest

from agent_kernel.values.aliases import (
    Cluster,
    MemoryUse,
    Span,
    address_of,
    clusters_of,
    find_cluster,
    group_overlapping,
    owner_of,
)
from agent_kernel.values.reducers.arrays import bounds
from tests.values.notebook import Namespace

np: Any = pytest.importorskip("numpy")


def use(array: Any, space: str = "cpu") -> MemoryUse:
    low, high = bounds(array)
    return MemoryUse(array, space, low, high)


def at(low: int, high: int, space: str = "cpu") -> MemoryUse:
    return MemoryUse(object(), space, low, high)


def ranges(uses: list[MemoryUse]) -> list[list[tuple[int, int]]]:
    return [[(found.low, found.high) for found in group] for group in group_overlapping(uses)]


def test_ranges_that_overlap_form_a_group() -> None:
    assert ranges([at(0, 10), at(20, 30), at(5, 8)]) == [[(0, 10), (5, 8)], [(20, 30)]]


def test_a_chain_of_overlaps_is_one_group() -> None:
    assert ranges([at(16, 30), at(0, 10), at(8, 18)]) == [[(0, 10), (8, 18), (16, 30)]]


def test_a_short_range_does_not_cut_a_long_one() -> None:
    assert ranges([at(0, 100), at(1, 2), at(50, 60)]) == [[(0, 100), (1, 2), (50, 60)]]


def test_ranges_that_only_touch_are_apart() -> None:
    assert ranges([at(0, 10), at(10, 20)]) == [[(0, 10)], [(10, 20)]]


def test_addresses_of_two_devices_have_nothing_in_common() -> None:
    assert len(group_overlapping([at(0, 10, "cuda:0"), at(0, 10, "cpu"), at(0, 10, "cuda:1")])) == 3


def test_an_array_by_itself_is_no_cluster() -> None:
    array = np.arange(10)
    assert clusters_of([use(array), use(array)]) == ()


def test_columns_far_apart_do_not_bring_along_what_lies_between_them() -> None:
    wide = np.zeros((100, 50))
    assert clusters_of([use(wide[:, 3]), use(wide[:, 40]), use(wide[:, 41])]) == ()
    assert len(clusters_of([use(wide[:, 3]), use(wide[:, 3:5])])) == 1
    assert len(clusters_of([use(wide[:, 3]), use(wide[:, 40]), use(wide[::2, 40])])) == 1
    assert len(clusters_of([use(column) for column in wide.T])) == 1  # which are all of it


def test_the_array_that_spans_the_others_is_what_is_stored() -> None:
    array = np.arange(10)
    (cluster,) = clusters_of([use(array[2:4]), use(array), use(array[3:])])
    assert cluster.base is array
    assert (cluster.base_low, cluster.high - cluster.low) == (array.ctypes.data, array.nbytes)


def test_where_no_array_spans_them_the_bytes_between_are_stored() -> None:
    array = np.arange(10, dtype="u1")
    (cluster,) = clusters_of([use(array[1:5]), use(array[3:8])])
    assert isinstance(cluster.base, Span)
    assert bytes(cluster.base.raw()) == bytes(range(1, 8))


def test_an_array_with_gaps_cannot_carry_the_others() -> None:
    array = np.arange(10, dtype="u1")
    (cluster,) = clusters_of([use(array[::3]), use(array[3:5])])
    assert isinstance(cluster.base, Span)


def test_arrays_over_a_bytearray_are_tied_to_it_even_if_there_is_one() -> None:
    owner = bytearray(b"0123456789")
    (cluster,) = clusters_of([use(np.frombuffer(owner, np.uint8)[2:4])])
    assert cluster.base is owner
    assert (cluster.low, cluster.high) == (address_of(owner), address_of(owner) + len(owner))


def test_a_cluster_is_found_by_address_and_space() -> None:
    cluster = Cluster("cpu", 100, 200, None, 100)
    assert find_cluster((cluster,), 100) is cluster
    assert find_cluster((cluster,), 199) is cluster
    assert find_cluster((cluster,), 200) is None
    assert find_cluster((cluster,), 150, "cuda:0") is None


def test_the_owner_is_at_the_end_of_all_views() -> None:
    array, owner = np.arange(10), bytearray(8)
    assert owner_of(array[2:].reshape(2, 4)[1]) is array
    assert owner_of(np.frombuffer(memoryview(owner)[2:6], np.uint8)[1:]) is owner


@pytest.mark.parametrize(
    ("source", "same"),
    [
        ("whole = np.arange(8)\npair = [whole, whole[2:5]]", True),
        ("whole = np.arange(8)\npair = [whole[:5], whole[3:]]", True),
        ("whole = np.arange(8)\npair = [whole[::-1], whole[::2]]", True),
        ("whole = np.arange(8.0)\npair = [whole.reshape(2, 4).T, whole.view('u8')]", True),
        ("whole = np.arange(8)\npair = [whole[:4], whole[4:]]", False),
        ("whole = np.arange(8)\npair = [whole, whole.copy()]", False),
        ("whole = bytearray(8)\npair = [np.frombuffer(whole, 'u1'), np.frombuffer(whole, 'u1')]", True),
    ],
)
def test_views_share_memory_again_when_they_come_back(source: str, same: bool) -> None:
    notebook = Namespace()
    notebook.run("import numpy as np\n" + source)
    one, other = notebook["pair"]
    expected = one.copy(), other.copy()
    made = notebook.there_and_back("pair")["pair"]
    assert np.shares_memory(*made) is same
    assert all(np.array_equal(*both) for both in zip(made, expected, strict=True))
    assert [array.dtype for array in made] == [array.dtype for array in expected]


def test_shared_memory_is_stored_once() -> None:
    notebook = Namespace()
    notebook.run("import numpy as np\nwhole = np.zeros(10_000)\nviews = [whole, whole[:5_000], whole[::2]]")
    dumped = notebook.dump({"views": notebook["views"]})
    assert [blob.raw().nbytes for blob in dumped.blobs[dumped.streams :] if not isinstance(blob, bytes)] == [80_000]
