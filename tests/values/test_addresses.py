"""What the addresses of objects and the numbers of classes prove: that nothing was exchanged."""

from __future__ import annotations

import pytest

from agent_kernel.values.addresses import Versions, ids_of


class Base:
    kept = 1


class Derived(Base):
    pass


def test_classes_are_the_same_until_one_of_them_or_of_their_bases_is_changed() -> None:
    found = Versions([Derived])
    assert found.are_same()
    assert Derived.kept == 1
    Derived().other = 2  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert found.are_same()
    Base.kept = 2
    assert not found.are_same()
    assert Versions([Derived]).are_same()


def test_a_class_that_was_changed_and_changed_back_is_not_the_same() -> None:
    found = Versions([Base, Derived])
    Derived.more = 3  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    del Derived.more  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    assert not found.are_same()


def test_nothing_is_said_to_be_the_same_where_there_is_no_class() -> None:
    assert not Versions().are_same()


@pytest.mark.parametrize("number", [0, 1, 31, 32, 5_000])
def test_the_ids_of_many_are_what_id_says_of_each(number: int) -> None:
    given: list[object] = [[n] for n in range(number)]
    assert list(ids_of(given)) == list(ids_of(iter(given))) == list(map(id, given))
