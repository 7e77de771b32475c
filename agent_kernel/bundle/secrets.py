"""Find keys, tokens, private keys and logins in the bytes of stored values, wherever in them they stand.

All of a value is read, piece by piece, and nothing of it is unpickled. A fast expression over bytes finds where one may
begin; what stands there is then read as text, by the rules that previews use.
"""

from __future__ import annotations

import base64
import io
import pickletools
import re
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final, cast

from agent_kernel.repository import Blob, Kind, Manifest, read_blob
from agent_kernel.repository.objects import Objects, chunks_of
from agent_kernel.values.groups import Layout, decode_layout
from agent_kernel.values.previews.redaction import places, secret_at

__all__ = ["holds_any", "looks_secret", "value_looks_secret"]

_PIECE: Final = 256 << 10
_OVERLAP: Final = 4 << 10  # bytes that two pieces share: what begins in the one ends in the other
_LONGEST: Final = 1 << 10  # bytes that are read as text from where a secret may begin

_BEGINNING: Final = re.compile(
    rb"""
    -----BEGIN[ ]
    | sk-[A-Za-z0-9_-]{12} | [spr]k_(?:live|test)_ | gh[pousr]_[A-Za-z0-9]{16} | github_pat_ | glpat-
    | (?:AKIA|ASIA)[A-Z0-9]{12} | AIza[A-Za-z0-9_-]{24} | ya29\. | xox[abeoprs]- | hf_[A-Za-z0-9]{16}
    | npm_[A-Za-z0-9]{24} | pypi-[A-Za-z0-9_-]{24} | dapi[0-9a-f]{32} | dop_v1_ | :AA[A-Za-z0-9_-]{33}
    | eyJ[A-Za-z0-9_-]{6,}\. | SG\.[A-Za-z0-9_-]{12} | [Bb]earer[ ] | [Bb]asic[ ]
    | hv[sb]\.[A-Za-z0-9_-]{20} | pat[A-Za-z0-9]{14}\. | SK[0-9a-f]{32} | key-[0-9a-f]{32}
    | (?:shp(?:at|ss|ca|pa)_|lin_api_|dckr_pat_|pscale_(?:tkn|pw)_|gsk_|xai-|pplx-|nvapi-|tvly-(?:dev-)?|r8_|ntn_|secret_
      |figd_|sbp_|co_api_|tgp_v1_|lsv2_(?:pt|sk)_|HRKU-|fm[12]_|wandb_v1_|AGE-SECRET-KEY-)[A-Za-z0-9]{20} | SSWS[ ]
    | PuTTY-User-Key-File- | (?i:cookie["']?:) | mysql\w*[ ][^\n]{0,200}?[ ]-p | login\s+\S+\s+password\s | ://[A-Za-z0-9_-]{20,}@
    | ["']key["']\s*: | --?(?i:password|passwd|token|secret|api[_-]key|access[_-]token|auth[_-]token)[ =]
    | (?i:pass(?:word|wort)?(?:["']?\s*[=:]|\s+is\s))
    | [?&](?:sig|key|auth|access_token|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=
    | hooks\.slack\.com/ | discord(?:app)?\.com/ | [?&]sig= | curl[^\n]{0,900}?\s-u
    | ://[^/\s:@]{0,500}:[^@/\s]{1,500}@
    | (?i:passw(?:or)?[dt]|kennwort|passphrase|pwd|secret|token|(?:api|access|account|secret|private|signing)[_-]?key)["']?\s*[=:]
    """,
    re.VERBOSE,
)


def looks_secret(content: bytes, *, goes_on: bool = False) -> bool:
    r"""Whether something in these bytes looks like a secret: text, a pickle stream, MessagePack or the memory of an array.

    Args:
        goes_on: whether it begins with what was searched before, as the end of another piece.

    >>> looks_secret(b"\x80\x05\x8c4sk-" + b"aB3" * 16), looks_secret(b"\x80\x05\x8c\x15risk-averse-investors")
    (True, False)
    """
    starts = range(0, max(len(content) - _OVERLAP, 1), _PIECE - _OVERLAP)
    return any(_is_one_in(content[start : start + _PIECE], goes_on=goes_on or start > 0) for start in starts)


def _is_one_in(content: bytes, *, goes_on: bool) -> bool:
    # What stands before the first characters of a piece that goes on is not known: it may be the beginning of a word.
    first = _LEAST if goes_on else 0
    forms = [content]
    if content.count(b"\0") >= _LEAST:
        forms.append(content.replace(b"\0", b""))  # texts of two or four bytes a character, as numpy's
    words = (found[0] for found in _BASE64.finditer(content))
    # The length of a text, which stands before it, may be one of the letters, too.
    forms += (form for word in words for start in (0, 1) if (form := _decoded(word[start:])))
    return any(
        _is_secret_at(form, at) for form in forms for at in _beginnings(form) if at >= first or form is not content
    )


# Of text, and of JSON in it: what is encoded is rarely shorter than a key.
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]{24,}={0,2}|[A-Za-z0-9_-]{24,}={0,2}")


def _decoded(text: bytes) -> bytes:
    """What stands there in base64, if that is text."""
    word = text.rstrip(b"=").translate(_URL_SAFE)
    word = word[:-1] if len(word) % 4 == 1 else word
    try:
        found = base64.b64decode(word + b"=" * (-len(word) % 4))
    except ValueError:
        return b""
    beginning = found[:64].translate(None, b"\n\r\t")
    return found if beginning.isascii() and beginning.decode("latin-1").isprintable() else b""


_URL_SAFE: Final = bytes.maketrans(b"-_", b"+/")


def _beginnings(content: bytes) -> Iterator[int]:
    """Where a secret may begin."""
    # Each byte is a character, so places are the same.
    return (at for at in places(content.decode("latin-1")) if _BEGINNING.match(content, at))


_LEAST: Final = 8  # characters of a secret, with what says that it is one
_DIGITS: Final = 11  # of the number that some tokens begin with, and the character before it
_BEFORE: Final = 6  # characters that set a colour, before a text in a terminal, or say whose token it is
_LEAST_JOINED: Final = 20


def _is_secret_at(content: bytes, at: int) -> bool:
    if content.startswith(b":AA", at):
        text = _as_text(content[max(at - _DIGITS, 0) : at + _LONGEST])
        return any(secret_at(text, shift) for shift in range(_DIGITS))
    text = _as_text(content[at : at + _LONGEST])
    before = content[at - 1 : at]
    if not (before.isalnum() or before == b"_") or _is_length(content, at):
        return bool(secret_at(text))
    prefix = content[max(at - _BEFORE, 0) : at].decode("latin-1")
    if secret_at(prefix + text, len(prefix)):
        return True
    # In the memory of a column of texts one follows the other, with nothing between them.
    found = secret_at(text)
    return len(found) >= _LEAST_JOINED and _looks_random(found)


def _looks_random(found: str) -> bool:
    """Whether it is no word that ends as keys begin: `risk-2024-report`, `task-…`."""
    rest = found[3:]
    is_mixed = any(map(str.isdigit, rest)) and any(map(str.isalpha, rest))
    return is_mixed and (not found.startswith("sk-") or (not rest.isupper() and not rest.islower()))


# Opcodes of pickle and headers of MessagePack with the length of a text behind them, which may look like a letter.
_LENGTHS: Final = {1: b"\x8cC\xd9\xc4", 2: b"\xda\xc5", 4: b"XB\xdb\xc6", 8: b"\x8d\x8e\x96"}


def _is_length(content: bytes, at: int) -> bool:
    return any(at > size and content[at - size - 1] in codes for size, codes in _LENGTHS.items())


# What is no text ends a word, and no secret goes on behind it.
_NO_TEXT: Final = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127, 0xFFFD], ",\n")


def _as_text(content: bytes) -> str:
    return content.decode("utf-8", "replace").translate(_NO_TEXT)


# -- all blobs of a value


def value_looks_secret(objects: Objects, manifest: Manifest) -> bool:
    """Whether anything of a stored value looks like a secret, whatever its size."""
    texts = [manifest.layout, *(name.encode("utf-8", "replace") for name in manifest.packages)]
    if any(map(looks_secret, texts)):
        return True
    layout = decode_layout(manifest.layout)
    numbers = _memory_of_numbers(objects, manifest, layout)
    pickles = len(layout.skeletons) + layout.streams
    return any(
        looks_secret(piece, goes_on=number > 0)
        for position, blob in enumerate(manifest.blobs)
        if position not in numbers
        for number, piece in enumerate(_pieces(objects, blob))
        if position < pickles or _may_be_text(piece)
    )


def holds_any(objects: Objects, manifest: Manifest, summary: bytes, needles: Mapping[bytes, str]) -> str:
    """Whose text of these stands in a stored value or in its summary; "" if none does."""
    codes = (objects.get(Kind.DEFINITION, id) for id in manifest.definitions)
    pieces = (piece for blob in manifest.blobs for piece in _pieces(objects, blob))
    for piece in chain([summary], codes, pieces):
        # Texts of numpy take four bytes a character, and some of other libraries two.
        forms = (piece, piece.replace(b"\0", b"")) if b"\0" in piece else (piece,)
        for needle, of in needles.items():
            if any(needle in form for form in forms):
                return of
    return ""


_PRINTED: Final = bytes(1 if 32 <= byte < 127 or byte in b"\t\n\r" else 0 for byte in range(256))
_RUN: Final = bytes([1]) * 16


def _may_be_text(piece: bytes) -> bool:
    """Whether memory holds a few characters in a row, which that of numbers rarely does."""
    return _RUN in piece.translate(_PRINTED) or (
        piece.count(b"\0\0\0") >= len(_RUN) and _RUN in piece.replace(b"\0\0\0", b"").translate(_PRINTED)
    )


def _pieces(objects: Objects, blob: Blob) -> Iterator[bytes]:
    """The bytes in order. Pieces overlap."""
    if blob.inline is not None:
        yield blob.inline
        return
    waiting = bytearray()
    for id, _ in chunks_of(objects, blob):
        waiting += objects.get(Kind.CHUNK, id)
        if len(waiting) >= _PIECE:
            yield bytes(waiting)
            del waiting[:-_OVERLAP]
    yield bytes(waiting)


_WORTH_IT: Final = 1 << 20  # bytes of buffers: looking through fewer is faster than reading what they are
_MOST_STREAM: Final = 4 << 20
_NUMBERS: Final = re.compile(r"[<>=|]?(?:[fcmM]\d+(?:\[.*\])?|[iu][248]|b1|\?)")
_PASSED: Final = frozenset(["MEMOIZE", "READONLY_BUFFER"])


def _memory_of_numbers(objects: Objects, manifest: Manifest, layout: Layout) -> frozenset[int]:
    """The blobs that are the memory of large arrays of numbers, as the streams say: these hold no text."""
    pickles = len(layout.skeletons) + layout.streams
    if len(layout.buffers) != pickles or sum(blob.size for blob in manifest.blobs[pickles:]) < _WORTH_IT:
        return frozenset()
    found: set[int] = set()
    first = pickles
    for blob, many in zip(manifest.blobs[:pickles], layout.buffers, strict=False):
        if many and blob.size <= _MOST_STREAM:
            found.update(
                first + number for number in _buffers_of_numbers(bytes(read_blob(objects, blob))) if number < many
            )
        first += many
    return frozenset(found)


def _buffers_of_numbers(stream: bytes) -> Iterator[int]:
    """The buffers of a stream that come right before the name of a dtype of numbers, by their position."""
    memo: list[object] = []
    last: object = None
    buffers, is_next = 0, False
    source = io.BytesIO(stream)
    try:
        while source.tell() < len(stream):
            for code, argument, _ in pickletools.genops(source):
                if code.name == "MEMOIZE":
                    memo.append(last)
                if code.name in _PASSED:
                    continue
                key = cast("object", argument)
                last = memo[key] if isinstance(key, int) and code.name in ("BINGET", "LONG_BINGET") else key
                if is_next and isinstance(last, str) and _NUMBERS.fullmatch(last):
                    yield buffers - 1
                is_next = code.name == "NEXT_BUFFER"
                buffers += is_next
    except (ValueError, IndexError, TypeError):
        return  # what it says from here on is not understood
