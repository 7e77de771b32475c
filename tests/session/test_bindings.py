"""Which names moved is told exactly, however the namespace grew, shrank or was used between two looks."""

from __future__ import annotations

import gc
import random
import sys
import threading

import pytest

from agent_kernel.session.tracking import Bindings, Rebound
from agent_kernel.values.introspection import ROW_BYTES, Rows, addresses, differences, ids_in
from tests.support.notebooks import Notebook, names_changed


def bound(namespace: dict[str, object]) -> Bindings:
    """Bindings that have saved all of the namespace."""
    bindings = Bindings(lambda name: not name.startswith("_"))
    bindings.find_changes(namespace)
    for name, value in namespace.items():
        if bindings.is_versioned(name):
            bindings.bind(name, value, small=False)
    bindings.note(namespace, as_looked=True)
    return bindings


def moved(found: Rebound) -> tuple[set[str], set[str], set[str]]:
    return set(found.new), set(found.rebound), set(found.removed)


@pytest.fixture
def namespace() -> dict[str, object]:
    return {f"v{number}": [number] for number in range(600)}


def test_nothing_moved(namespace: dict[str, object]) -> None:
    assert moved(bound(namespace).find_changes(namespace)) == (set(), set(), set())


@pytest.mark.parametrize("seed", range(30))
def test_several_looks_find_what_one_would(seed: int) -> None:
    chance = random.Random(seed)
    namespace: dict[str, object] = {f"v{number}": [number] for number in range(chance.choice((3, 40, 600)))}
    bindings, noted, kept = bound(namespace), dict(namespace), [dict(namespace)]
    for _ in range(60):
        for _ in range(chance.randrange(4)):
            name = chance.choice([f"v{chance.randrange(620)}", f"_i{chance.randrange(9)}"])
            if chance.random() < 0.3:
                namespace.pop(name, None)
            else:
                namespace[name] = chance.choice([[0], noted.get(name, [1])])  # another object, or the one it was
        kept.append(dict(namespace))  # no address is used again
        now = {name: value for name, value in namespace.items() if not name.startswith("_")}
        found = bindings.find_changes(namespace)
        rebound = {name for name in now.keys() & noted.keys() if now[name] is not noted[name]}
        assert moved(found) == (now.keys() - noted.keys(), rebound, noted.keys() - now.keys())
        if chance.random() < 0.4:
            for name in found.removed:
                bindings.unbind(name)
            for name in found.new | found.rebound:
                bindings.bind(name, namespace[name], small=False)
            bindings.note(namespace, as_looked=chance.random() < 0.8)
            noted = now


@pytest.mark.parametrize("count", [1_000, 2_000, 4_000])
def test_a_second_look_compares_with_the_first(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython binds names of its own before each cell: the look after the cell does not find them again."""
    namespace: dict[str, object] = {"_i": "", **{f"v{number}": [number] for number in range(count)}}
    bindings = bound(namespace)
    looked: list[int] = []

    def counted(before: bytes, now: bytes) -> list[int]:
        looked.append(len(now) // ROW_BYTES)
        return differences(before, now)

    monkeypatch.setattr("agent_kernel.session.tracking.differences", counted)
    namespace["_i"], namespace["_i1"] = "source", "source"
    assert moved(bindings.find_changes(namespace)) == (set(), set(), set())
    assert looked == [count + 1]
    assert moved(bindings.find_changes(namespace)) == (set(), set(), set())
    assert looked == [count + 1]


def test_names_at_the_end_and_names_of_the_shell(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    for number in range(3):
        namespace[f"_i{number}"] = "the shell's"
        namespace[f"new{number}"] = [number]
        namespace[f"v{number * 256}"] = [number]
        assert moved(bindings.find_changes(namespace)) == ({f"new{number}"}, {f"v{number * 256}"}, set())
        bindings.bind(f"new{number}", namespace[f"new{number}"], small=False)
        bindings.bind(f"v{number * 256}", namespace[f"v{number * 256}"], small=False)
        bindings.note(namespace, as_looked=True)
    assert bindings.names(namespace)[-3:] == ["new0", "new1", "new2"]
    assert moved(bindings.find_changes(namespace)) == (set(), set(), set())


def test_a_name_that_went_and_came_back_elsewhere(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    namespace["v7"] = namespace.pop("v7")
    del namespace["v8"]
    namespace["v9"] = ["another"]
    assert moved(bindings.find_changes(namespace)) == (set(), {"v9"}, {"v8"})


def test_a_name_that_could_not_be_saved_stays_new(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    namespace["held_back"] = ["not saved"]
    assert bindings.find_changes(namespace).new == {"held_back"}
    bindings.note(namespace, as_looked=True)
    assert bindings.find_changes(namespace).new == {"held_back"}
    bindings.note(namespace)
    assert bindings.find_changes(namespace).new == {"held_back"}


def test_a_name_that_a_thread_took_away_while_it_was_saved(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    bindings.find_changes(namespace)
    del namespace["v5"]
    bindings.note(namespace, as_looked=True)
    assert bindings.find_changes(namespace).removed == {"v5"}


def test_a_name_that_a_thread_bound_after_the_look(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    bindings.find_changes(namespace)
    namespace["v5"] = ["of the thread"]
    bindings.note(namespace, as_looked=True)
    assert bindings.find_changes(namespace).rebound == {"v5"}


def test_what_is_bound_after_the_look_is_what_the_next_one_compares_with(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    seen = namespace["v5"] = ["seen by the look"]
    bindings.find_changes(namespace)
    namespace["v5"] = ["saved"]
    bindings.bind("v5", namespace["v5"], small=False)
    bindings.note(namespace, as_looked=True)
    assert moved(bindings.find_changes(namespace)) == (set(), set(), set())
    namespace["v5"] = seen  # as where an id is used again
    assert bindings.find_changes(namespace).rebound == {"v5"}


def test_none_in_the_place_of_an_object_that_died_is_what_the_name_is_bound_to() -> None:
    class Model:
        pass

    namespace: dict[str, object] = {"m": Model()}
    bindings = bound(namespace)
    namespace["m"] = None
    gc.collect()
    assert bindings.find_changes(namespace).rebound == {"m"}
    bindings.bind("m", None, small=False)
    bindings.note(namespace, as_looked=True)
    assert moved(bindings.find_changes(namespace)) == (set(), set(), set())
    assert bindings.is_settled("m")


def test_other_rules_for_names(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    bindings.forget_rules()
    assert moved(bindings.find_changes(namespace)) == (set(), set(), set())
    bindings.note(namespace)
    assert len(bindings.names(namespace)) == 600


def test_addresses_are_the_ids() -> None:
    values = [[], "text", 7, None, (), object(), type]
    assert list(ids_in(addresses(values))) == list(map(id, values))
    assert addresses([]) == b""


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 600])
def test_places_that_differ(length: int) -> None:
    values: list[object] = [[number] for number in range(length)]
    before, other = addresses(values), object()
    assert differences(before, before) == []
    assert differences(before, addresses([*values, other])) == [length]
    assert differences(addresses([*values, other]), before) == [length]
    for place in {0, length // 2, length - 1} & set(range(length)):
        now = addresses([*values[:place], other, *values[place + 1 :]])
        assert differences(before, now) == [place]


class Renamed(dict[str, object]):
    """No plain dict."""


def test_rows_are_names_and_values_in_order_however_the_dict_keeps_them() -> None:
    class Point: ...

    point = Point()
    point.__dict__.update(x=[1], y=[2])
    mixed: dict[object, object] = {"a": [1], 7: [2]}
    for some in ({}, {"a": [1]}, Renamed(a=[1], b=[2]), vars(point), mixed, {f"v{n}": [n] for n in range(70_000)}):
        flat = [part for item in some.items() for part in item]
        assert Rows(some).read() == addresses(flat)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_a_row_of_a_name_that_was_deleted_is_empty() -> None:
    some: dict[str, object] = {f"v{n}": [n] for n in range(20)}
    rows = Rows(some)
    before = rows.read()
    del some["v7"]
    assert rows.read() == before[: 7 * ROW_BYTES] + bytes(ROW_BYTES) + before[8 * ROW_BYTES :]


def test_rows_are_read_while_another_thread_fills_and_empties_the_dict() -> None:
    some: dict[str, object] = {f"v{n}": n for n in range(50)}
    kept = addresses([part for item in some.items() for part in item])
    rows, is_over = Rows(some), threading.Event()

    def change() -> None:
        while not is_over.is_set():
            more = {f"w{n}": n for n in range(5_000)}
            some.update(more)
            for name in more:
                del some[name]

    thread = threading.Thread(target=change)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        assert all(rows.read().startswith(kept) for _ in range(3_000))
    finally:
        sys.setswitchinterval(before)
        is_over.set()
        thread.join()


@pytest.mark.parametrize("seed", range(12))
def test_whatever_is_done_to_names_between_two_looks(seed: int) -> None:
    """Bound, bound anew, deleted, deleted and bound again, all of them again in another order: as a plain comparison says."""
    rng = random.Random(seed)
    namespace: dict[str, object] = {f"v{n}": [n] for n in range(rng.choice([3, 40, 600]))}
    bindings, saved = bound(namespace), dict(namespace)
    for turn in range(60):
        for _ in range(rng.choice([0, 1, 1, 3, 50])):
            _do_something(namespace, rng, turn)
        told = moved(bindings.find_changes(namespace))
        assert told == moved(_compared(saved, namespace))
        saved = {name: value for name, value in namespace.items() if not name.startswith("_")}
        for name in told[0] | told[1]:
            bindings.bind(name, namespace[name], small=False)
        for name in told[2]:
            bindings.unbind(name)
        bindings.note(namespace, as_looked=rng.random() < 0.9)
        assert bindings.names(namespace) == list(saved)


def _do_something(namespace: dict[str, object], rng: random.Random, turn: int) -> None:
    name = rng.choice([*namespace, "first"])
    match rng.randrange(8):
        case 0 | 1:
            namespace[f"new{turn}_{rng.randrange(5)}"] = [turn]
        case 2:
            namespace[f"_{rng.randrange(5)}"] = [turn]
        case 3:
            namespace[name] = [turn]
        case 4:
            namespace.pop(name, None)
        case 5:
            namespace[name] = namespace.pop(name, [turn])  # the same object, now the last
        case 6:
            namespace[name], namespace["swapped"] = namespace.get("swapped", []), namespace.get(name, [])
        case _ if rng.random() < 0.1:
            items = list(namespace.items())
            namespace.clear()
            namespace.update(rng.sample(items, len(items)))
        case _:
            pass


def _compared(saved: dict[str, object], namespace: dict[str, object]) -> Rebound:
    now = {name: value for name, value in namespace.items() if not name.startswith("_")}
    rebound = {name for name in now.keys() & saved.keys() if now[name] is not saved[name]}
    return Rebound(frozenset(now.keys() - saved.keys()), frozenset(rebound), frozenset(saved.keys() - now.keys()))


def test_a_value_that_was_seen_and_not_saved_is_told_of_again(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    namespace["v5"] = ["not saved"]
    for _ in range(3):
        assert bindings.find_changes(namespace).rebound == {"v5"}
        bindings.note(namespace, as_looked=True)


def test_names_that_stayed_are_not_asked_for(namespace: dict[str, object]) -> None:
    """The rule for names is asked of those whose rows moved, and the rows of all others are compared as bytes."""
    asked: list[str] = []
    bindings = bound(namespace)
    bindings._versioned = _Counted(asked)
    for number in range(5):
        namespace["v300"] = namespace[f"new{number}"] = [number]
        bindings.find_changes(namespace)
        for name in ("v300", f"new{number}"):
            bindings.bind(name, namespace[name], small=False)
        bindings.note(namespace, as_looked=True)
    assert set(asked) == {"v300", *(f"new{number}" for number in range(5))}


class _Counted(dict[str, bool]):
    """Verdicts on names, and which were asked for."""

    def __init__(self, asked: list[str]) -> None:
        super().__init__()
        self._asked = asked

    def get(self, name: str, default: bool | None = None) -> bool | None:  # type: ignore[override]
        self._asked.append(name)
        return super().get(name, default)


@pytest.mark.parametrize("between", ["value = 0", "del value"])
def test_another_object_at_the_address_of_one_that_was_let_go_at_a_look(between: str) -> None:
    with Notebook() as nb:
        nb.run("value = [1, 2, 3]; rest = 5")
        before = id(nb.look("value"))
        nb.execute(between)
        assert nb.session.status().changed
        nb.execute("value = [4, 5, 6]")
        others = [[4, 5, 6] for _ in range(1_000)]
        nb.namespace["value"] = next((other for other in others if id(other) == before), nb.look("value"))
        report = nb.run("rest = 6")
        assert "value" in names_changed(report)
        assert nb.repo.at("HEAD")["value"] == [4, 5, 6]
