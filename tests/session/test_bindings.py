"""Which names moved is told exactly, however the namespace grew, shrank or was used between two looks."""

from __future__ import annotations

import gc

import pytest

from agent_kernel.session.bindings import Bindings, Rebound
from agent_kernel.values.addresses import addresses, differences, ids_in


def bound(namespace: dict[str, object]) -> Bindings:
    """Bindings that have saved all of the namespace."""
    bindings = Bindings(lambda name: not name.startswith("_"))
    bindings.changed(namespace)
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
    assert moved(bound(namespace).changed(namespace)) == (set(), set(), set())


def test_names_at_the_end_and_names_of_the_shell(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    for number in range(3):
        namespace[f"_i{number}"] = "the shell's"
        namespace[f"new{number}"] = [number]
        namespace[f"v{number * 256}"] = [number]
        assert moved(bindings.changed(namespace)) == ({f"new{number}"}, {f"v{number * 256}"}, set())
        bindings.bind(f"new{number}", namespace[f"new{number}"], small=False)
        bindings.bind(f"v{number * 256}", namespace[f"v{number * 256}"], small=False)
        bindings.note(namespace, as_looked=True)
    assert bindings.names(namespace)[-3:] == ["new0", "new1", "new2"]
    assert moved(bindings.changed(namespace)) == (set(), set(), set())


def test_a_name_that_went_and_came_back_elsewhere(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    namespace["v7"] = namespace.pop("v7")
    del namespace["v8"]
    namespace["v9"] = ["another"]
    assert moved(bindings.changed(namespace)) == (set(), {"v9"}, {"v8"})


def test_a_name_that_could_not_be_saved_stays_new(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    namespace["held_back"] = ["not saved"]
    assert bindings.changed(namespace).new == {"held_back"}
    bindings.note(namespace, as_looked=True)
    assert bindings.changed(namespace).new == {"held_back"}
    bindings.note(namespace)
    assert bindings.changed(namespace).new == {"held_back"}


def test_a_name_that_a_thread_took_away_while_it_was_saved(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    bindings.changed(namespace)
    del namespace["v5"]
    bindings.note(namespace, as_looked=True)
    assert bindings.changed(namespace).removed == {"v5"}


def test_a_name_that_a_thread_bound_after_the_look(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    bindings.changed(namespace)
    namespace["v5"] = ["of the thread"]
    bindings.note(namespace, as_looked=True)
    assert bindings.changed(namespace).rebound == {"v5"}


def test_what_is_bound_after_the_look_is_what_the_next_one_compares_with(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    seen = namespace["v5"] = ["seen by the look"]
    bindings.changed(namespace)
    namespace["v5"] = ["saved"]
    bindings.bind("v5", namespace["v5"], small=False)
    bindings.note(namespace, as_looked=True)
    assert moved(bindings.changed(namespace)) == (set(), set(), set())
    namespace["v5"] = seen  # as where an id is used again
    assert bindings.changed(namespace).rebound == {"v5"}


def test_none_in_the_place_of_an_object_that_died_is_what_the_name_is_bound_to() -> None:
    class Model:
        pass

    namespace: dict[str, object] = {"m": Model()}
    bindings = bound(namespace)
    namespace["m"] = None
    gc.collect()
    assert bindings.changed(namespace).rebound == {"m"}
    bindings.bind("m", None, small=False)
    bindings.note(namespace, as_looked=True)
    assert moved(bindings.changed(namespace)) == (set(), set(), set())
    assert bindings.is_settled("m")


def test_other_rules_for_names(namespace: dict[str, object]) -> None:
    bindings = bound(namespace)
    bindings.forget_rules()
    assert moved(bindings.changed(namespace)) == (set(), set(), set())
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
