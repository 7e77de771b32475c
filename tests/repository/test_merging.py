"""Three-way merges of trees: by name, in groups, with the classes that values need."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.errors import MergeChoiceError
from agent_kernel.repository.commits import Entry, Tree
from agent_kernel.repository.merge import TreeMerge
from agent_kernel.repository.repository import Repository
from agent_kernel.storage import MemoryStore
from tests.support.repositories import entry_of, group_of, value_of

K = "\0class:K"
Side = Mapping[str, Entry | str]


def _tree(repo: Repository, values: Side) -> Tree:
    entries = {name: entry_of(value) if isinstance(value, str) else value for name, value in values.items()}
    return repo.tree(None).edit(repo.writer(), entries)


def _merge(repo: Repository, base: Side, ours: Side, theirs: Side, **chosen: list[str]) -> TreeMerge:
    return repo.merge_trees(_tree(repo, base), _tree(repo, ours), _tree(repo, theirs), **chosen)


def _texts(repo: Repository, merge: TreeMerge) -> dict[str, str | None]:
    return {name: None if entry is None else value_of(repo, entry) for name, entry in merge.changes.items()}


def test_what_one_side_changed_is_taken(repo: Repository) -> None:
    merge = _merge(repo, {"a": "1", "b": "1", "c": "1"}, {"a": "2", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"})
    assert _texts(repo, merge) == {"b": "2", "c": None, "d": "1"}
    assert merge.conflicts == {}


def test_what_both_changed_differently_is_a_conflict_and_the_rest_still_merges(repo: Repository) -> None:
    merge = _merge(repo, {"a": "1", "b": "1"}, {"a": "2", "b": "1"}, {"a": "3", "b": "2"})
    assert _texts(repo, merge) == {"b": "2"}
    conflict = merge.conflicts["a"]
    assert [value_of(repo, side) for side in (conflict.base, conflict.ours, conflict.theirs) if side] == ["1", "2", "3"]


def test_the_same_change_on_both_sides_is_no_conflict(repo: Repository) -> None:
    merge = _merge(repo, {"a": "1"}, {"a": "2", "n": "9"}, {"a": "2", "n": "9"})
    assert (merge.changes, merge.conflicts) == ({}, {})


def test_deleting_what_the_other_changed_is_a_conflict(repo: Repository) -> None:
    merge = _merge(repo, {"a": "1"}, {}, {"a": "2"})
    assert merge.conflicts["a"].ours is None


def test_a_better_preview_is_not_a_change(repo: Repository) -> None:
    shown = Entry(entry_of("1").value, preview=b"int 1")
    merge = _merge(repo, {"a": "1"}, {"a": "2"}, {"a": shown})
    assert (merge.changes, merge.conflicts) == ({}, {})


def test_names_that_share_a_value_move_together(repo: Repository) -> None:
    base: Side = {**group_of("list", ["a", "b"]), "x": "1"}
    merge = _merge(repo, base, {**base, "x": "2"}, {**base, **group_of("longer", ["a", "b"])})
    assert _texts(repo, merge) == {"a": "longer", "b": "longer"}


def test_one_conflicting_member_makes_the_whole_group_a_conflict(repo: Repository) -> None:
    base: Side = {"a": "1", "b": "2"}
    ours = group_of("joined", ["a", "b"])  # a = b
    merge = _merge(repo, base, ours, {"a": "1", "b": "3"})
    assert set(merge.conflicts) == {"a", "b"}
    assert merge.changes == {}


def test_a_conflict_is_settled_for_all_that_move_together(repo: Repository) -> None:
    base: Side = {"a": "1", "b": "2"}
    ours, theirs = group_of("joined", ["a", "b"]), {"a": "1", "b": "3"}
    taken = _merge(repo, base, ours, theirs, choose_theirs=["b"])
    assert _texts(repo, taken) == {"a": "1", "b": "3"}
    kept = _merge(repo, base, ours, theirs, choose_ours=["a"])
    assert (kept.changes, kept.conflicts, taken.conflicts) == ({}, {}, {})


def test_of_what_moves_together_a_conflict_names_the_others_and_both_sides_cannot_be_chosen(repo: Repository) -> None:
    base: Side = {"a": "1", "b": "2", "x": "1"}
    ours: Side = {**group_of("joined", ["a", "b"]), "x": "2"}
    theirs: Side = {"a": "1", "b": "3", "x": "3"}
    merge = _merge(repo, base, ours, theirs)
    assert {name: one.partners for name, one in merge.conflicts.items()} == {"a": ("b",), "b": ("a",), "x": ()}
    with pytest.raises(MergeChoiceError):
        _merge(repo, base, ours, theirs, choose_ours=["a"], choose_theirs=["b", "x"])


def test_what_they_alone_changed_cannot_be_kept_and_taken_either(repo: Repository) -> None:
    base: Side = group_of("list", ["a", "b"])
    with pytest.raises(MergeChoiceError):
        _merge(repo, base, base, group_of("longer", ["a", "b"]), choose_ours=["a"], choose_theirs=["b"])


def test_equal_but_separate_groups_stay_apart(repo: Repository) -> None:
    base: Side = {**group_of("same", ["a", "b"]), **group_of("same", ["c", "d"])}
    ours: Side = {**base, **group_of("mine", ["a", "b"])}
    theirs: Side = {**base, **group_of("yours", ["c", "d"])}
    merge = _merge(repo, base, ours, theirs)
    assert _texts(repo, merge) == {"c": "yours", "d": "yours"}


def test_classes_come_along_with_the_values_that_need_them(repo: Repository) -> None:
    merge = _merge(repo, {}, {"a": "1"}, {"x": entry_of("instance", classes=[K]), K: "body"})
    assert _texts(repo, merge) == {"x": "instance", K: "body"}


def test_a_class_that_only_they_changed_is_taken(repo: Repository) -> None:
    base: Side = {"x": entry_of("instance", classes=[K]), K: "body"}
    merge = _merge(repo, base, {**base, "x": entry_of("changed", classes=[K])}, {**base, K: "count = 5"})
    assert _texts(repo, merge) == {K: "count = 5"}


def test_a_class_that_we_dropped_comes_back_with_a_value_that_needs_it(repo: Repository) -> None:
    base: Side = {"x": entry_of("instance", classes=[K]), K: "body"}
    merge = _merge(repo, base, {}, {**base, "y": entry_of("another", classes=[K])})
    assert _texts(repo, merge) == {"y": "another", K: "body"}


def test_a_class_that_they_dropped_stays_for_a_value_of_ours(repo: Repository) -> None:
    base: Side = {"x": entry_of("instance", classes=[K]), K: "body"}
    merge = _merge(repo, base, {**base, "y": entry_of("another", classes=[K])}, {})
    assert _texts(repo, merge) == {"x": None}


def test_a_class_changed_differently_is_a_conflict_of_the_names_that_need_it(repo: Repository) -> None:
    base: Side = {"x": entry_of("instance", classes=[K]), "z": "1", K: "body"}
    ours: Side = {**base, K: "mine"}
    theirs: Side = {**base, K: "yours", "z": "2"}
    merge = _merge(repo, base, ours, theirs)
    assert set(merge.conflicts) == {"x"}
    assert _texts(repo, merge) == {"z": "2"}
    assert list(merge.conflicts["x"].theirs_classes) == [K]
    taken = _merge(repo, base, ours, theirs, choose_theirs=["x"])
    assert _texts(repo, taken) == {"z": "2", K: "yours"}


def test_a_class_changed_differently_is_taken_if_only_they_need_it(repo: Repository) -> None:
    base: Side = {K: "body"}
    merge = _merge(repo, base, {K: "mine"}, {K: "yours", "x": entry_of("instance", classes=[K])})
    assert _texts(repo, merge) == {K: "yours", "x": "instance"}
    assert merge.conflicts == {}


VALUES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("123"), max_size=6)


@settings(max_examples=150, deadline=None)
@given(VALUES, VALUES, VALUES)
def test_a_merge_of_names_is_what_a_merge_of_dicts_is(base: Side, ours: Side, theirs: Side) -> None:
    repo = Repository.open(MemoryStore())
    merge = _merge(repo, base, ours, theirs)
    clash = {
        name
        for name in base.keys() | ours.keys() | theirs.keys()
        if len({side.get(name) for side in (base, ours, theirs)}) == 3
        or (base.get(name) not in (ours.get(name), theirs.get(name)) and ours.get(name) != theirs.get(name))
    }
    assert set(merge.conflicts) == clash
    wanted = {
        name: theirs.get(name)
        for name in base.keys() | theirs.keys()
        if theirs.get(name) != base.get(name) and theirs.get(name) != ours.get(name) and name not in clash
    }
    assert _texts(repo, merge) == wanted
