"""Columns of text as pyarrow has them, which pandas makes of every column of strings: they go as their buffers alone."""

from __future__ import annotations

import pickle
from typing import Any

import pandas as pd
import pytest

from tests.values.notebook import Namespace

pa: Any = pytest.importorskip("pyarrow")

TEXTS = ["a", None, "ß" * 100, "", "\N{SNOWMAN}", "x\0y"]
MAKERS: dict[str, Any] = {
    "large text": lambda: pa.array(TEXTS, pa.large_string()),
    "text": lambda: pa.array(TEXTS, pa.string()),
    "no text is missing": lambda: pa.array(["a", "b"], pa.large_string()),
    "all of it is missing": lambda: pa.array([None, None], pa.large_string()),
    "no rows": lambda: pa.array([], pa.large_string()),
    "most of it, with an offset": lambda: pa.array(TEXTS * 50, pa.large_string())[7:290],
    "a little of much": lambda: pa.array(TEXTS * 5_000, pa.large_string())[7:11],
    "a column": lambda: pa.chunked_array([pa.array(TEXTS, pa.large_string())]),
    "a column of two chunks": lambda: pa.chunked_array([pa.array(TEXTS), pa.array(["more"])]),
    "a column without chunks": lambda: pa.chunked_array([], pa.large_string()),
    "much text": lambda: pa.chunked_array([pa.array([f"text {n}" * 9 for n in range(20_000)], pa.large_string())]),
    "bytes": lambda: pa.array([b"a", None], pa.large_binary()),
    "codes": lambda: pa.array(["p", "q", "p"]).dictionary_encode(),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_it_comes_back_as_it_was(make: Any) -> None:
    notebook = Namespace()
    was = notebook.names["text"] = make()
    made = notebook.there_and_back("text")["text"]
    assert type(made) is type(was)
    assert made.type == was.type
    assert made.to_pylist() == was.to_pylist()
    assert made.null_count == was.null_count
    assert getattr(made, "num_chunks", None) == getattr(was, "num_chunks", None)
    made.validate(full=True)


def test_a_frame_of_texts_takes_few_objects() -> None:
    """Each object that is reduced costs some microseconds in every cell that only reads the frame."""
    notebook = Namespace()
    reduced: dict[int, int] = {}
    for columns in (1, 2, 4):
        notebook.names["frame"] = pd.DataFrame({f"c{n}": ["x", "y", None] for n in range(columns)})
        (kept,) = notebook.keep("frame")
        reduced[columns] = b"".join(kept.blobs).count(pickle.REDUCE) + b"".join(kept.blobs).count(pickle.NEWOBJ)
    assert reduced[2] - reduced[1] == (reduced[4] - reduced[2]) / 2 <= 6


def test_text_that_changes_is_seen_and_text_that_does_not_is_not() -> None:
    notebook = Namespace()
    for text, is_same in ((TEXTS, True), (["b", *TEXTS[1:]], False), ([None, *TEXTS[1:]], False), (TEXTS[:-1], False)):
        dumps: list[list[bytes]] = []
        for one in (TEXTS, text):
            notebook.names["column"] = pd.Series(one)
            dumps.append(notebook.keep("column")[0].blobs)
        assert (dumps[0] == dumps[1]) is is_same
