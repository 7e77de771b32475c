"""The bytes of a preview are few and bounded, and may come from anywhere."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

import agent_kernel.agents.preview as agents_preview
from agent_kernel.values.previews import MOST_BYTES, Column, Preview, decode, encode, line, lines_diff, make_preview
from agent_kernel.values.reducers import handles

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")


@pytest.mark.parametrize("value", [0, 42, -1, 2**62, 1.5, 3.141592653589793, True, None, "hello", "x" * 20, b"abc"])
def test_a_small_value_takes_few_bytes(value: object) -> None:
    assert len(encode(make_preview(value))) <= 64


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary() | st.datetimes(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text() | st.integers(), inner)
        | st.sets(st.integers())
        | st.tuples(inner, inner)
    ),
    max_leaves=30,
)


@given(plain_values, st.text())
def test_what_is_stored_is_what_was_made_and_bounded(value: object, name: str) -> None:
    shown = make_preview(value, name)
    stored = encode(shown)
    assert len(stored) <= MOST_BYTES
    assert decode(stored) == shown
    assert line(shown).isprintable()
    assert len(line(shown)) <= 160


texts = st.text(max_size=400)
previews = st.builds(
    Preview,
    kind=st.sampled_from(["scalar", "frame", "mapping", "array", "series", "container", "unheard of"]) | texts,
    type=texts,
    text=texts,
    shape=st.lists(st.integers(-1, 2**63 - 1), max_size=60).map(tuple),
    dtype=texts,
    size_bytes=st.integers(0, 2**63 - 1),
    columns=st.lists(st.builds(Column, texts, texts), max_size=50).map(tuple),
    rows=st.lists(st.lists(texts, max_size=50).map(tuple), max_size=5).map(tuple),
    note=texts,
    masked=st.booleans(),
)


@given(previews, previews)
def test_any_preview_is_bounded_and_shown_in_printable_lines(one: Preview, other: Preview) -> None:
    stored = encode(one)
    assert len(stored) <= MOST_BYTES
    assert encode(decode(stored)) == stored
    for shown in (line(one), *lines_diff(one, other), *lines_diff(one, one)):
        assert shown.isprintable()
        assert len(shown) <= 400
    assert len(lines_diff(one, other)) <= 10


def test_a_wide_frame_stays_within_its_bytes() -> None:
    wide = pd.DataFrame(np.zeros((3, 5_000)), columns=[f"a_rather_long_name_{n}" * 3 for n in range(5_000)])
    shown = make_preview(wide)
    assert len(encode(shown)) <= MOST_BYTES
    assert decode(encode(shown)) == shown
    assert shown.shape == (3, 5_000)


def test_fields_of_a_newer_release_are_ignored() -> None:
    stored = msgspec.msgpack.encode({"k": "scalar", "t": "int", "x": "42", "new": [1, 2], "c": [["a", "b", "c"]]})
    assert decode(stored) == Preview("scalar", "int", "42", columns=(Column("a", "b"),))


def test_bytes_that_are_no_preview_are_refused() -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(b"\x93abc")


def test_escape_sequences_from_another_store_do_not_reach_the_terminal() -> None:
    odd = Preview("frame", "pandas.DataFrame\x1b[2J", shape=(1, 1), columns=(Column("a\u202eb\r\n", "x\x9b31m"),))
    assert line(odd) == "DataFrame 1 × 1"
    assert lines_diff(odd, Preview("frame", odd.type, shape=(1, 0))) == ["columns 1 → 0 (−1)", "− ab   x"]


def test_a_preview_of_a_value_is_data_and_one_of_a_step_is_a_handle() -> None:
    assert handles.handler_for(Preview) is None
    assert handles.handler_for(agents_preview.Preview) is handles.refuse_store
