"""Code is shown while it comes in, whatever pieces its JSON comes in."""

from __future__ import annotations

import json
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.agents.models import CodeReader, without_surrogates

VALUES = st.sampled_from([None, True, 7, "code", 'a "b', {"code": "no"}, ["code", "no"], {"deep": [{"code": "no"}]}])


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    ends = sorted({cut % (len(text) + 1) for cut in cuts} | {0, len(text)})
    return [text[start:end] for start, end in pairwise(ends)]


def read(text: str, cuts: list[int]) -> str:
    reader = CodeReader()
    return "".join(reader.feed(piece) for piece in pieces_of(text, cuts))


@settings(deadline=None)
@given(
    code=st.text(st.characters(codec="utf-8")),
    others=st.dictionaries(st.sampled_from(["", "why", 'co"de', "{:,"]), VALUES, max_size=3),
    escaped=st.booleans(),
    first=st.booleans(),
    cuts=st.lists(st.integers(min_value=0), max_size=30),
)
def test_whatever_the_code_and_wherever_it_is_cut_the_pieces_are_the_code(
    code: str, others: dict[str, object], escaped: bool, first: bool, cuts: list[int]
) -> None:
    whole = {"code": code, **others} if first else {**others, "code": code}
    for indent in (None, 1):
        assert read(json.dumps(whole, ensure_ascii=escaped, indent=indent), cuts) == code


@settings(deadline=None)
@given(code=st.text(), cuts=st.lists(st.integers(min_value=0), max_size=30))
def test_halves_of_characters_are_replaced(code: str, cuts: list[int]) -> None:
    told = read(json.dumps({"code": code}), cuts)
    assert told == without_surrogates(json.loads(json.dumps(code)))
    told.encode()


@settings(deadline=None)
@given(st.lists(st.text(alphabet='{}[]":,\\u0dn'), max_size=20))
def test_what_is_no_json_never_fails(pieces: list[str]) -> None:
    reader = CodeReader()
    for piece in pieces:
        reader.feed(piece)


def test_each_piece_gives_what_it_can_at_once() -> None:
    reader = CodeReader()
    assert [reader.feed(char) for char in r'{"code":"a\n\ud83d\ude00é"}'][8:] == [
        "", "a", "", "\n", *[""] * 11, "😀", "é", "", "",
    ]  # fmt: skip


def test_a_key_of_the_same_name_within_another_value_is_another_key() -> None:
    assert read('{"plan": {"code": "no"}, "list": ["code", "no"], "code": "yes"}', []) == "yes"
