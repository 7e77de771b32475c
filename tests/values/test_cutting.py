"""Where long containers are cut: within bounds, and where they were cut before."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.values.segments import LENGTH, LONGEST, NOWHERE, SHORTEST, cut

TOTAL = 5 * LENGTH
positions = st.integers(0, TOTAL)
lengths = st.sampled_from([0, 1, 100, SHORTEST, LENGTH, LONGEST, LONGEST + 1])
edits = st.lists(st.tuples(positions, lengths, lengths), max_size=5)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1, 3, 100, TOTAL * 10]), edits)
def test_what_did_not_change_is_cut_as_it_was(kinds: int, edits: list[tuple[int, int, int]]) -> None:
    ids = [item % kinds for item in range(TOTAL)]
    cuts = cut(ids, NOWHERE)
    for number, (at, gone, added) in enumerate(edits, 1):
        ids[at : at + gone] = [item % kinds for item in range(number * TOTAL, number * TOTAL + added)]
        if len(ids) < 2 * LENGTH:
            break
        cuts = cut(ids, cuts)
        assert cut(ids, cuts) == cuts
        assert [item for start, end in cuts.spans for item in ids[start:end]] == ids
        assert all(SHORTEST <= end - start <= LONGEST + SHORTEST for start, end in cuts.spans)


@settings(max_examples=200, deadline=None)
@given(positions, st.integers(0, SHORTEST), st.integers(0, SHORTEST))
def test_a_change_in_one_place_moves_no_cut_elsewhere(at: int, gone: int, added: int) -> None:
    ids = list(range(TOTAL))
    before = cut(ids, NOWHERE)
    after = cut([*ids[:at], *range(-added, 0), *ids[at + gone :]], before)
    moved = after.length - before.length
    assert {start for start in before.starts if start <= at - SHORTEST} <= set(after.starts)
    assert {start + moved for start in before.starts if start >= at + gone + SHORTEST} <= set(after.starts)


def test_rows_that_are_put_in_front_move_the_cuts_of_repeated_items_too() -> None:
    ids = [item * item % 97 for item in range(TOTAL)]
    before = cut(ids, NOWHERE)
    assert cut([-1] * 7 + ids, before).starts[1:4] == tuple(start + 7 for start in before.starts[1:])


def test_equal_items_made_anew_are_cut_as_the_ones_before() -> None:
    ids = list(range(TOTAL))
    moved = cut([-1, *ids], cut(ids, NOWHERE))
    assert moved.starts[1] == LENGTH + 1
    assert cut([item + 2 * TOTAL for item in [-1, *ids]], moved).starts == moved.starts


def test_a_window_that_moves_on_keeps_its_cuts() -> None:
    ids = list(range(TOTAL))
    cuts = cut(ids, NOWHERE)
    after = cut([*ids[1:], TOTAL], cuts)
    assert after.starts[1:4] == tuple(start - 1 for start in cuts.starts[1:])
