"""Long containers of what cannot change: whatever stands in them, a change is seen, and each state comes back as it was."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.values import atoms
from tests.support.notebooks import Notebook, names_changed

N = 2_500
NUMBERS = st.one_of(st.integers(-3, 3), st.sampled_from([0.0, -0.0, 1.0, 2.5, True, False, None]))
FEW = st.one_of(
    NUMBERS,
    st.text(max_size=3),
    st.binary(max_size=3),
    st.sampled_from(["1", "1.0", "1.00", "-0", "NaN"]).map(decimal.Decimal),
    st.integers(0, 3).map(lambda n: datetime.datetime(2020, 1, 1, n, fold=n % 2)),
    st.integers(0, 3).map(lambda n: datetime.date(2020, 1, 1 + n)),
    st.integers(0, 3).map(lambda n: uuid.UUID(int=n)),
    st.sampled_from([np.float64(1), np.float32(1), np.int64(1), np.bool_(True), np.float64(-0.0)]),
    st.just(float("nan")),
)
ITEMS = st.one_of(FEW, st.tuples(FEW, NUMBERS), st.tuples(st.tuples(FEW)), st.lists(NUMBERS, max_size=2))
FORMS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "dict": lambda items: dict(enumerate(items)),
    "keys": lambda items: {(n, repr(item)): item for n, item in enumerate(items)},
}


def told(value: Any) -> str:
    """All that can be seen of the items: their types too, and signs, digits and folds."""
    items = value.items() if isinstance(value, dict) else value
    return repr(
        [(type(item).__name__, item, type(item[-1]).__name__ if isinstance(item, tuple) else "") for item in items]
    )


@pytest.fixture(scope="module", autouse=True)
def long_from_few() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(atoms, "LONG", N - 100)
        yield


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=6, deadline=None)
@given(
    pool=st.lists(FEW, min_size=1, max_size=4),
    steps=st.lists(st.lists(st.tuples(st.integers(0, N - 1), ITEMS), max_size=2), min_size=1, max_size=4),
)
def test_every_state_of_a_long_container_comes_back(form: str, pool: list[Any], steps: list[Any]) -> None:
    items = [pool[n % len(pool)] for n in range(N)]
    with Notebook() as nb:
        states: list[tuple[Any, str]] = []
        for step in [[], *steps]:
            before = list(items)
            for place, item in step:
                items[place] = item
            same = all(a is b for a, b in zip(items, before, strict=True))
            if form == "list" and states:
                live: Any = nb.namespace["x"]
                live[:] = items
            elif not (same and states):
                nb.namespace["x"] = FORMS[form](items)
            changed = names_changed(nb.run("x"))
            if states and same:
                assert not changed
            if states and told(nb.look("x")) != states[-1][1]:
                assert changed == {"x"}
            states.append((nb.session.head, told(nb.look("x"))))
        for commit, seen in (*states, *reversed(states)):
            nb.checkout(commit)
            assert told(nb.look("x")) == seen
            assert not names_changed(nb.run("x"))
