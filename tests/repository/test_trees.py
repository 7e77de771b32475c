"""Trees: sorted, canonical, shared."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from agent_kernel.repository.commits import (
    Entry,
    Inner,
    Kind,
    ObjectId,
    Ref,
    Tree,
    decode_node,
    inner_of,
    spans,
    starts,
    store_node,
)
from agent_kernel.repository.repository import Repository
from agent_kernel.storage import MemoryStore

SMALL = st.dictionaries(st.text("abc\0é", min_size=1, max_size=3), st.binary(max_size=2), max_size=40)


def _entries(values: dict[str, bytes]) -> dict[str, Entry]:
    return {name: Entry(value) for name, value in values.items()}


def _built(repo: Repository, values: dict[str, bytes]) -> Tree:
    writer = repo.writer()
    tree = repo.tree(None).edit(writer, _entries(values))
    writer.flush()
    return tree


def _numbered(count: int) -> dict[str, bytes]:
    return {f"name_{number}": b"%d" % number for number in range(count)}


def test_a_tree_is_a_sorted_mapping(repo: Repository) -> None:
    tree = _built(repo, _numbered(300))
    assert list(tree.names()) == sorted(_numbered(300))
    assert {name: entry.value for name, entry in tree.items()} == _numbered(300)
    assert len(tree) == 300
    assert "name_7" in tree
    assert "name_" not in tree
    assert tree.get("name_299") == Entry(b"299")
    assert tree.get("") is None


def test_the_empty_tree_has_an_id_and_no_names(repo: Repository) -> None:
    assert list(repo.tree(None).items()) == []
    assert len(repo.tree(None)) == 0
    emptied = _built(repo, {"a": b"1"}).edit(repo.writer(), {"a": None})
    assert emptied == repo.tree(None)


def test_names_are_found_by_prefix(repo: Repository) -> None:
    names = [f"\0class:{number}" for number in range(100)] + [f"x{number}" for number in range(100)] + ["x", "xé", "y"]
    tree = _built(repo, dict.fromkeys(names, b""))
    for prefix in ("", "\0", "\0class:9", "x", "x1", "xé", "z"):
        assert list(tree.names(prefix)) == sorted(name for name in names if name.startswith(prefix))


@settings(max_examples=150, deadline=None)
@given(SMALL, st.lists(SMALL, max_size=4), st.randoms(use_true_random=False))
def test_equal_mappings_have_equal_ids_whatever_the_order_of_edits(
    wanted: dict[str, bytes], detours: list[dict[str, bytes]], rng: random.Random
) -> None:
    repo = Repository.open(MemoryStore())
    writer = repo.writer()
    tree = repo.tree(None)
    for detour in detours:
        tree = tree.edit(writer, _entries(detour))
    undone = {name: None for name in tree.names() if name not in wanted}
    steps = [*_entries(wanted).items(), *undone.items()]
    rng.shuffle(steps)
    for start in range(0, len(steps), 3):
        tree = tree.edit(writer, dict(steps[start : start + 3]))
    assert tree.id == _built(repo, wanted).id
    assert {name: entry.value for name, entry in tree.items()} == wanted
    assert len(tree) == len(wanted)


def test_a_large_tree_stays_canonical_through_random_edits(repo: Repository) -> None:
    rng = random.Random(7)
    writer = repo.writer()
    held = _numbered(2000)
    tree = repo.tree(None).edit(writer, _entries(held))
    for _ in range(60):
        changes: dict[str, Entry | None] = {}
        for _ in range(rng.choice([1, 1, 1, 5, 40])):
            name = f"name_{rng.randrange(2200)}"
            changes[name] = None if rng.random() < 0.4 else Entry(b"%d" % rng.randrange(99))
        tree = tree.edit(writer, changes)
        for name, entry in changes.items():
            held.pop(name, None)
            if entry is not None:
                held[name] = entry.value
        assert tree.id == repo.tree(None).edit(repo.writer(), _entries(held)).id
    low, high = "name_1", "name_7"
    tree = tree.edit(writer, {name: None for name in held if low < name < high})
    held = {name: value for name, value in held.items() if not low < name < high}
    assert tree.id == repo.tree(None).edit(repo.writer(), _entries(held)).id


def _as_before_format_8(repo: Repository, values: dict[str, bytes]) -> ObjectId:
    """The tree as earlier releases made it: the same leaves, and inner nodes of 13 children on average."""
    writer = repo.writer()
    refs = [Ref("", _built(repo, values).id, 0)]
    while isinstance((nodes := [decode_node(repo.objects.get(Kind.TREE, ref.id)) for ref in refs])[0], Inner):
        refs = [ref for node in nodes if isinstance(node, Inner) for ref in node.refs()]
    level = 0
    while len(refs) > 1:
        level += 1
        hashes = [xxh3_64_intdigest(ref.name.encode(), level) for ref in refs]
        pieces = [refs[start:end] for start, end in spans(starts(hashes, 6), len(refs))]
        made = [inner_of(level, piece) for piece in pieces]
        refs = [store_node(writer, Inner(one.level, one.names, one.ids, one.counts)) for one in made]
    writer.flush()
    return refs[0].id


@pytest.mark.parametrize("count", [100, 2000])
def test_a_tree_of_an_earlier_format_is_read_as_it_is_and_becomes_todays_with_the_first_change(
    any_repo: Repository, count: int
) -> None:
    held = _numbered(count)
    repo = Repository(any_repo.store)
    old = repo.tree(_as_before_format_8(any_repo, held))
    assert {name: entry.value for name, entry in old.items()} == held
    assert old != _built(repo, held)
    assert list(old.diff(_built(repo, held))) == []
    assert old.edit(repo.writer(), {"name_7": Entry(b"7"), "nothing": None}) is old
    for change in ({"name_7": b"x"}, {"name_77": None}, {"name_7": b"x", "new": b"1", "name_50": None}):
        after = {name: value for name, value in {**held, **change}.items() if value is not None}
        writer = repo.writer()
        new = old.edit(writer, {name: None if value is None else Entry(value) for name, value in change.items()})
        writer.flush()
        assert new == _built(repo, after)
        assert {name for name, _, _ in old.diff(new)} == change.keys()


@settings(max_examples=150, deadline=None)
@given(SMALL, SMALL)
def test_a_diff_of_trees_is_the_diff_of_the_mappings(old: dict[str, bytes], new: dict[str, bytes]) -> None:
    repo = Repository.open(MemoryStore())
    found = {name: (a and a.value, b and b.value) for name, a, b in _built(repo, old).diff(_built(repo, new))}
    names = sorted(old.keys() | new.keys())
    assert found == {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}
    assert list(found) == sorted(found)


def test_a_diff_reads_only_the_nodes_that_differ(repo: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    old = _built(repo, _numbered(10_000))
    writer = repo.writer()
    new = old.edit(writer, {"name_5000": Entry(b"other")})
    writer.flush()
    repo.objects.forget_cached()
    asked: list[bytes] = []
    get_many = repo.store.get_many

    def counted(keys: Iterable[bytes]) -> dict[bytes, bytes]:
        wanted = list(keys)
        asked.extend(wanted)
        return get_many(wanted)

    monkeypatch.setattr(repo.store, "get_many", counted)
    assert [name for name, _, _ in old.diff(new)] == ["name_5000"]
    assert len(asked) < 120


def test_changing_one_name_writes_only_the_nodes_on_its_path(repo: Repository) -> None:
    for count, most_bytes in ((500, 1500), (10_000, 3000)):
        tree = _built(repo, {f"name_{number}": b"v" * 40 for number in range(count)})
        written: list[int] = []
        for number in range(0, count, max(count // 50, 1)):
            writer = repo.writer()
            tree.edit(writer, {f"name_{number}": Entry(b"changed" * 5)})
            written.append(writer.written_bytes)
        assert sum(written) / len(written) < most_bytes


def test_another_value_of_one_name_makes_the_tree_that_is_built_anew(repo: Repository) -> None:
    for count in (1, 2, 13, 200, 3_000):
        values = _numbered(count)
        for number in (0, count // 3, count - 1):
            changed = {**values, f"name_{number}": b"other"}
            writer = repo.writer()
            edited = _built(repo, values).edit(writer, {f"name_{number}": Entry(b"other")})
            writer.flush()
            repo.objects.forget_cached()
            assert edited == _built(repo, changed)
            assert {name: entry.value for name, entry in edited.items()} == changed


def test_another_value_stores_one_small_node_a_level_however_many_names_there_are(repo: Repository) -> None:
    made: list[int] = []
    for count in (1_000, 2_000, 4_000):
        tree = _built(repo, {f"name_{number}": b"v" * 40 for number in range(count)})
        writer = repo.writer()
        tree.edit(writer, {"name_77": Entry(b"w" * 40)})
        made.append(len(writer.pending()))
        assert writer.written_bytes / made[-1] < 120  # of the nodes' 700
    assert made == [3, 3, 3]


def test_setting_what_is_there_already_changes_nothing(repo: Repository) -> None:
    tree = _built(repo, _numbered(50))
    writer = repo.writer()
    assert tree.edit(writer, {"name_7": Entry(b"7"), "absent": None}) is tree
    assert writer.written_bytes == 0


def test_a_tree_survives_in_the_store(any_repo: Repository) -> None:
    tree = _built(any_repo, _numbered(1000))
    again = Repository(any_repo.store).tree(tree.id)
    assert {name: entry.value for name, entry in again.items()} == _numbered(1000)
    assert any_repo.store.keys(Kind.TREE, limit=5)
