"""A preview and its stored bytes.

Stored as a msgpack map with one-letter keys whose defaults are left out: a small number takes about twenty bytes, no
preview takes more than two kilobytes, and a reader ignores the keys of a newer release. A preview is trimmed when it
is made, so what is stored is what was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import msgspec
from msgspec.structs import replace

MOST_BYTES = 2_048
LONGEST_TEXT = 120
MODEL = "model"


class Column(msgspec.Struct, frozen=True, array_like=True):
    """One column of a table with its dtype, or one key of a dict with its value in short."""

    name: str
    of: str


class Preview(
    msgspec.Struct,
    frozen=True,
    omit_defaults=True,
    rename={
        "kind": "k",
        "type": "t",
        "text": "x",
        "shape": "s",
        "dtype": "d",
        "size_bytes": "z",
        "columns": "c",
        "rows": "r",
        "note": "n",
        "masked": "m",
        "attributes": "a",
        "counts": "b",
    },
):
    """What may be shown of a value without loading it.

    Attributes:
        kind: scalar, text, container, mapping, array, frame, series, index, tensor, sparse, function, class, module,
            exception or object. A reader treats a kind that it does not know as object.
        type: qualified name of the exact type.
        text: the value in short, the first values of an array, or what an estimator was made with.
        shape: rows and columns, an array's shape, a container's length; -1 where it could not be read.
        dtype: element type; for a list the type of its items, if the sampled ones share it; `model` for an object that is one.
        size_bytes: memory of the value as far as it is known without a deep scan, or, where it is stored, the bytes of
            that before packing; 0: unknown.
        columns: the first columns of a table, the first keys of a dict, or the first attributes of an object.
        rows: the first rows of a table, for as many columns as fit, or the first values of a series that no one reads.
        note: device, index type, number of stored elements, lines of code.
        masked: something was hidden because it looks like a secret.
        attributes: how many an object has, whether they are among the columns or not.
        counts: of Boolean columns, by their names, how often each value occurs: `True 12, False 3`.
    """

    kind: str
    type: str
    text: str = ""
    shape: tuple[int, ...] = ()
    dtype: str = ""
    size_bytes: int = 0
    columns: tuple[Column, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    note: str = ""
    masked: bool = False
    attributes: int = 0
    counts: dict[str, str] = {}


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Preview)


def encode(preview: Preview) -> bytes:
    """The stored bytes: at most `MOST_BYTES`, and equal previews give equal bytes."""
    stored = _encoder.encode(preview)
    return stored if len(stored) <= MOST_BYTES else _encoder.encode(fit(preview))


def decode(stored: bytes) -> Preview:
    """The preview that was stored.

    Raises:
        msgspec.DecodeError: the bytes are no preview.
    """
    try:
        return _decoder.decode(stored)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"a text in it is not UTF-8 ({error})") from error


def fit(preview: Preview) -> Preview:
    """The preview itself if it is small enough, else with the least telling parts left out."""
    if len(_encoder.encode(preview)) <= MOST_BYTES:
        return preview
    for trim in _trims():
        preview = trim(preview)
        if len(_encoder.encode(preview)) <= MOST_BYTES:
            break
    return preview


def _trims() -> Iterator[Callable[[Preview], Preview]]:
    yield _short_texts
    yield lambda s: replace(s, rows=s.rows[:1])
    yield from (partial(_fewer_columns, keep=keep) for keep in (24, 12, 8))
    yield lambda s: replace(s, rows=())
    yield lambda s: replace(s, columns=(), counts={}, shape=s.shape[:32])


def _fewer_columns(preview: Preview, *, keep: int) -> Preview:
    columns = preview.columns[:keep]
    counts = {column.name: preview.counts[column.name] for column in columns if column.name in preview.counts}
    return replace(preview, columns=columns, rows=tuple(row[:keep] for row in preview.rows), counts=counts)


def _short_texts(preview: Preview) -> Preview:
    return replace(
        preview,
        kind=preview.kind[:16],
        type=preview.type[:LONGEST_TEXT],
        text=preview.text[:LONGEST_TEXT],
        dtype=preview.dtype[:40],
        note=preview.note[:60],
        columns=tuple(Column(column.name[:32], column.of[:24]) for column in preview.columns[:64]),
        rows=tuple(tuple(cell[:16] for cell in row[:64]) for row in preview.rows[:3]),
        counts={name[:32]: counts for name, counts in preview.counts.items()},
    )
