"""Every kind of stored object is damaged in turn: a move names exactly what that hits, and a partial one loads the rest.

What an object belongs to is worked out here from the stored structures alone, not from what the loader says.
"""

from __future__ import annotations

import random

import pytest

from agent_kernel.errors import LoadError, LostValueError, StoreError
from agent_kernel.repository import Kind, ObjectId
from agent_kernel.repository.commits import kind_of
from agent_kernel.repository.upkeep import STRUCTURAL, references
from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

VARIED = """
import random, threading, itertools
random.seed(5)
noise = random.Random(3).randbytes
small = {'a': 1}
text = noise(3_000).hex()
big = bytearray(noise(700_000))
long = noise(1_500_000)
rows = [{'n': n, 'squares': [n * n]} for n in range(5_000)]
shared = [1, 2]
both = (shared, bytearray(noise(2_000)))
class Base:
    kind = 'base'
    def area(self):
        return self.side ** 2
class Square(Base):
    made = []
    def __init__(self, side):
        self.side = side
        self.made.append(side)
class Other:
    def __eq__(self, other):
        return type(other) is Other
square = Square(3)
squares = {'s': square, 'more': [Square(2)]}
other = [Other(), noise(5_000)]
def scaled(factor):
    def apply(value):
        return factor * value
    return apply
double = scaled(2)
lazy = lambda: square.area()
ticks = itertools.count(5)
under_way = (n for n in range(3))
"""
CHECKS = {
    "random": "random.__name__ == 'random'",
    "threading": "threading.Lock",
    "itertools": "itertools.count",
    "noise": "callable(noise)",
    "small": "small == {'a': 1}",
    "text": "len(text) == 6_000",
    "big": "len(big) == 700_000",
    "long": "len(long) == 1_500_000",
    "rows": "len(rows) == 5_000 and rows[-1]['squares'] == [4_999 ** 2]",
    "shared": "shared == [1, 2]",
    "both": "both[0] == [1, 2] and len(both[1]) == 2_000",
    "Base": "Base.kind == 'base'",
    "Square": "Square.made[:2] == [3, 2]",
    "Other": "Other() == Other()",
    "square": "square.area() == 9 and type(square).__name__ == 'Square'",
    "squares": "squares['s'].side == 3 and squares['more'][0].area() == 4",
    "other": "len(other[1]) == 5_000",
    "scaled": "scaled(3)(2) == 6",
    "double": "double(4) == 8",
    "lazy": "lazy.__name__ == '<lambda>'",
    "ticks": "next(type(ticks)(7)) == 7",
    "under_way": "True",
}
OBJECTS = (Kind.CHUNK, Kind.LIST, Kind.MANIFEST, Kind.DEFINITION, Kind.SMALL, Kind.TREE, Kind.COMMIT)


def contents(store: MemoryStore) -> dict[bytes, bytes]:
    return store.get_many(store.keys(b"", limit=1_000_000))


@pytest.fixture(scope="module")
def sound() -> dict[bytes, bytes]:
    """The bytes of a store with a small state on main and the varied one on another branch."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("small = 'of main'")
        nb.session.switch("varied", create=True)
        nb.run(VARIED)
        assert nb.variables() == set(CHECKS)
        for check in CHECKS.values():
            assert nb.look(check), check
        assert nb.session.commit("", full=True).commit is None
        nb.session.switch("main")
    return contents(store)


class Needs:
    """What each variable of the varied state needs of the store."""

    def __init__(self, held: dict[bytes, bytes]) -> None:
        store = MemoryStore()
        store.put_many(held)
        self.repo = Repository.open(store)
        self.commit = self.repo.branches()["varied"]
        self.tree = self.repo.tree_at(self.commit)
        self.keys = {name: self.of(name) for name in self.tree.names()}

    def of(self, name: str) -> set[bytes]:
        entry = self.tree.get(name)
        assert entry is not None
        manifest = self.repo.read_manifest(entry)
        found = {Kind.MANIFEST + entry.manifest} if entry.manifest is not None else set[bytes]()
        found.update(Kind.DEFINITION + id for id in manifest.definitions)
        for blob in manifest.blobs:
            found.update(Kind.CHUNK + id for id, _ in blob.chunks)
            if blob.deep is not None:
                found |= self.below(Kind.LIST + blob.deep)
        for needed in manifest.classes:
            found |= self.of(needed)
        return found

    def below(self, key: bytes) -> set[bytes]:
        payload = self.repo.objects.get(kind_of(key), ObjectId(key[1:]))
        return {key}.union(
            *(self.below(child) if child[:1] == Kind.LIST else {child} for child in references(key, payload))
        )

    def hit_by(self, key: bytes) -> set[str]:
        return {name for name, keys in self.keys.items() if key in keys and not name.startswith("\0")}


def damaged(held: dict[bytes, bytes], key: bytes, chance: random.Random) -> MemoryStore:
    """A copy of the store in which one object is missing, cut short or has another byte somewhere."""
    bytes_ = bytearray(held[key])
    how = chance.choice(["missing", "short", "flipped"])
    if how == "short":
        del bytes_[chance.randrange(len(bytes_)) :]
    else:
        bytes_[chance.randrange(len(bytes_))] ^= 1 << chance.randrange(8)
    copy = MemoryStore()
    copy.put_many({k: v for k, v in held.items() if k != key} | ({} if how == "missing" else {key: bytes(bytes_)}))
    return copy


@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_object_costs_what_needs_it_and_nothing_else(sound: dict[bytes, bytes], seed: int) -> None:
    damage_of_each_kind(sound, seed, most=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 9))
def test_of_many_damaged_objects_each_costs_what_needs_it(sound: dict[bytes, bytes], seed: int) -> None:
    damage_of_each_kind(sound, seed, most=6)


def damage_of_each_kind(sound: dict[bytes, bytes], seed: int, *, most: int) -> None:
    """Damage so many objects of each kind, one after the other."""
    needs, chance = Needs(sound), random.Random(seed)
    keys = sorted(reachable(needs.repo, "varied") - reachable(needs.repo, "main"))
    met: set[bytes] = set()
    for kind in OBJECTS:
        those = [key for key in keys if key[:1] == kind]
        met |= {key[:1] for key in those}
        for key in chance.sample(those, min(len(those), most)):
            with Notebook(Repository.open(damaged(sound, key, chance))) as nb:
                look_at_damage(nb, key, needs, sound)
    assert met == set(OBJECTS)


def reachable(repo: Repository, branch: str) -> set[bytes]:
    """The keys of all objects that a branch holds."""
    todo = [Kind.COMMIT + repo.branches()[branch]]
    found: set[bytes] = set()
    while todo:
        key = todo.pop()
        if key not in found:
            found.add(key)
            if kind_of(key) in STRUCTURAL:
                todo += references(key, repo.objects.get(kind_of(key), ObjectId(key[1:])))
    return found


def look_at_damage(nb: Notebook, key: bytes, needs: Needs, sound: dict[bytes, bytes]) -> None:
    nb.checkout("main")
    before, head = dict(nb.namespace), nb.session.head
    hit = needs.hit_by(key)
    random_state = nb_random(needs) == key
    if key[:1] in (Kind.TREE, Kind.COMMIT):
        for partial in (False, True):
            with pytest.raises(StoreError):
                nb.checkout("varied", partial=partial)
            assert (nb.namespace, nb.session.head) == (before, head)
        return
    if hit or random_state:
        with pytest.raises(LoadError) as failed:
            nb.checkout("varied")
        assert set(failed.value.names) == hit
        assert (nb.namespace, nb.session.head) == (before, head)
    report = nb.checkout("varied", partial=True)
    assert {one.name for one in report.unsaved if one.stored} == hit
    for name, check in CHECKS.items():
        if name not in hit:
            assert nb.look(check), (name, key)
        else:
            with pytest.raises(LostValueError):
                nb.look(f"{name}.anything")
    assert names_changed(nb.session.commit("", full=True)) == set()
    assert nb.repo.tree_at(nb.session.head) == needs.tree
    assert names_changed(nb.run("added = 1")) == {"added"}
    nb.repo.store.delete_many([key])
    nb.repo.store.put_many({key: sound[key]})
    nb.repo.objects.forget_cached()
    nb.checkout()
    for check in CHECKS.values():
        assert nb.look(check), check
    assert nb.repo.verify().is_sound


def nb_random(needs: Needs) -> bytes:
    state = needs.repo.commit_at(needs.commit).random
    assert state is not None
    return Kind.SMALL + state
