"""Find a text that must not be shown where another text has it encoded: in base64 or hex, escaped, spelled, reversed.

What a model is sent is text, so what it can read out of that without a tool is looked for in there, by whatever way it came:

* A run in base64, base32 or hex is decoded, decompressed where it is compressed, and searched again.
* Escapes, numbers of characters, characters that stand apart, invisible ones between them, wide ones, text that is
  reversed or shifted by 13 letters: each is read as the characters that it stands for, which know where they stand.

A cipher, or pieces that code put elsewhere, are not known again.
"""

from __future__ import annotations

import ast
import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Protocol, TypeAlias
from urllib.parse import unquote_to_bytes

from agent_kernel.values import decoding

__all__ = ["has_encoded", "spans"]

Span: TypeAlias = tuple[int, int]
Unit: TypeAlias = tuple[str, int, int]  # a character, and where it is written

_BREAKS: Final = {ord("\n"): " ", ord("\r"): " ", ord("\t"): " ", 0xFFFD: "\0"}
_DEEPEST: Final = 4  # layers of what is decoded
_MOST_BYTES: Final = 1 << 22  # of one run, decompressed
_SHORTEST: Final = 8  # characters of what is found again in such a form


class Search(Protocol):
    """Finds texts in another."""

    def found(self, text: str) -> Iterator[Span]:
        """Where any of the longer texts stands."""
        ...

    def found_in_other_case(self, text: str) -> Iterator[Span]:
        """Where any of them stands in capitals, or without."""
        ...

    def found_as_words(self, text: str) -> Iterator[Span]:
        """Where any of them stands with nothing but letters and digits looked at."""
        ...

    def __contains__(self, text: str) -> bool: ...


def spans(text: str, search: Search) -> list[Span]:
    """Where a text has an encoded one, in order and apart."""
    found = sorted({*_decoded(text, search, 0), *_read(text, search)})
    joined: list[Span] = []
    for start, end in found:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def has_encoded(word: str, search: Search) -> bool:
    """Whether a word has such a text in base64 or hex."""
    return any(_decoded(word, search, 0))


def _holds(text: str, search: Search, depth: int) -> bool:
    """Whether a decoded text is one of these, or has a longer one, plain or encoded again."""
    if text.strip() in search or any(search.found(text)):
        return True
    if not text.translate(_BREAKS).isprintable():  # most runs are words, and give none
        return False
    if depth >= _DEEPEST:  # what is encoded as often as that, and is so again, is not told
        return bool(_ENCODED_AGAIN.fullmatch(text.strip()))
    return any(_decoded(text, search, depth + 1)) or any(_read(text, search))


# -- runs of letters that stand for bytes

_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{60,}+(?:(?:\\n|\\r|\s)++[A-Za-z0-9+/_-]{4,}+)*+|[A-Za-z0-9+/_-]{6,}+")
_BASE32: Final = re.compile(r"[A-Z2-7]{13,}")
_HEX: Final = re.compile(r"[0-9A-Fa-f]{8,}+(?:(?:\\n|\s)++[0-9A-Fa-f]{16,}+)*+")
_INTEGER: Final = re.compile(r"(?<![\d.])\d{20,}(?![\d.])")
_LITERAL: Final = re.compile(r"""b(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""")
_LINE_END: Final = re.compile(r"\\n|\\r|\s+")
_ENCODED_AGAIN: Final = re.compile(r"[A-Za-z0-9+/_\-\s]{11,}=*")
_MOST_DIGITS: Final = 100_000
_STANDARD: Final = {ord("-"): "+", ord("_"): "/"}


def _decoded(text: str, search: Search, depth: int) -> Iterator[Span]:
    """Where runs stand that give such a text when they are decoded."""
    for pattern, decode in _RUNS:
        known: dict[str, bool] = {}
        for run in pattern.finditer(text):
            if run[0] not in known:
                known[run[0]] = _decodes(decode, run[0], search, depth)
            if known[run[0]]:
                yield run.span()


def _decodes(decode: Callable[[str], Iterator[bytes]], run: str, search: Search, depth: int) -> bool:
    """Whether a run gives such a text, or is too long to be decoded."""
    try:
        return any(_gives(content, search, depth) for content in decode(run))
    except decoding.TooLargeError:
        return True


def _gives(content: bytes, search: Search, depth: int) -> bool:
    """Whether bytes hold such a text: as they are, or one layer below."""
    if _holds(content.decode("utf-8", "replace"), search, depth + 1):
        return True
    if not decoding.is_other_form(content):
        return False
    if depth >= _DEEPEST:
        return True
    try:
        layers = list(decoding.from_bytes(content, _MOST_BYTES))
    except decoding.TooLargeError:
        return True
    except Exception:  # noqa: BLE001 - broken: bytes of no known form, as by chance
        return False
    texts = (one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in layers)
    return any(isinstance(one, str) and _holds(one, search, depth + 1) for one in texts)


def _base64(run: str) -> Iterator[bytes]:
    """What a run gives: it may begin with letters that are none of it, so that it is read from each of four places.

    Words may stand behind it that look like another line of it, so that its first line is read by itself, too.
    """
    first = _LINE_END.split(run, maxsplit=1)[0]
    for one in {_LINE_END.sub("", run), first}:
        plain = one.translate(_STANDARD)
        for at in range(4):
            part = plain[at : at + (len(plain) - at) // 4 * 4]
            rest = plain[at + len(part) :]
            yield base64.b64decode(part + (rest + "=" * (4 - len(rest)) if len(rest) > 1 else ""))


def _base32(run: str) -> Iterator[bytes]:
    for at in range(8):
        part = run[at:]
        part = part[: len(part) - 1] if len(part) % 8 in (1, 3, 6) else part
        yield base64.b32decode(part + "=" * (-len(part) % 8))


def _hex(run: str) -> Iterator[bytes]:
    plain = _LINE_END.sub("", run)
    for at in range(2):
        yield binascii.unhexlify(plain[at : at + (len(plain) - at) // 2 * 2])


def _integer(run: str) -> Iterator[bytes]:
    if len(run) > _MOST_DIGITS:
        raise decoding.TooLargeError
    number = 0
    for at in range(0, len(run), 4_000):  # longer ones Python does not read
        part = run[at : at + 4_000]
        number = number * 10 ** len(part) + int(part)
    yield decoding.from_int(number)


def _literal(run: str) -> Iterator[bytes]:
    try:
        yield ast.literal_eval(run)
    except (ValueError, SyntaxError):
        return


_RUNS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Iterator[bytes]]], ...]] = (
    (_LITERAL, _literal),
    (_BASE64, _base64),
    (_BASE32, _base32),
    (_HEX, _hex),
    (_INTEGER, _integer),
)


# -- characters that are written in another way

_ESCAPE: Final = re.compile(
    r"(?P<percent>(?:[%=][0-9A-Fa-f]{2})+)|\\x(?P<x>[0-9A-Fa-f]{2})|\\u(?P<u>[0-9A-Fa-f]{4})|\\U(?P<U>[0-9A-Fa-f]{8})"
    r"|\\(?P<octal>[0-7]{3})|(?P<entity>&#?\w{1,8};)|\\(?P<plain>[\\'\"/])|(?P<unseen>[\u00ad\u200b-\u200f\u2060\ufeff\u0300-\u036f])"
)
_WRITTEN_OTHERWISE: Final = re.compile(
    r"[%=][0-9A-Fa-f]{2}|\\[xuU0-7\\'\"/]|&#?\w{1,8};|[\u00ad\u200b-\u200f\u2060\ufeff\u0300-\u036f\uff01-\uff5e]"
)
_CODES: Final = (  # numbers of characters, one after the other
    (re.compile(r"(?<!\d)\d{1,7}+(?:\W{1,6}+\d{1,7}+){7,}+"), re.compile(r"\d+"), 10),
    (
        re.compile(r"0[xX][0-9a-fA-F]{2,6}+(?:\W{1,6}+0[xX][0-9a-fA-F]{2,6}+){7,}+"),
        re.compile(r"(?<=0[xX])[0-9a-fA-F]+"),
        16,
    ),
    (
        re.compile(r"(?<!\w)[0-9a-fA-F]{2}(?:[\s:,.-]{1,2}+[0-9a-fA-F]{2}(?!\w)){7,}+"),
        re.compile(r"[0-9a-fA-F]{2}"),
        16,
    ),
    (re.compile(r"(?<!\w)[01]{7,8}+(?:\W{0,4}+[01]{7,8}+){7,}+"), re.compile(r"[01]{8}|[01]{7}(?![01])"), 2),
)
_LONE: Final = re.compile(r"(?<![^\W_])[^\W_](?![^\W_])")  # a letter or digit that stands alone
_BETWEEN: Final = re.compile(
    r"(?:<[^<>\n]{0,80}+>|[^\w<]|[_<]|\d)*+"
)  # two of one text: signs, markup, numbers that count
_FARTHEST: Final = 120
_TAG: Final = re.compile(r"<[^<>\n]{0,80}>")
_WORD: Final = re.compile(r"[^\W_]+")
_ROT13: Final = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)


def _read(text: str, search: Search) -> Iterator[Span]:
    """Where such a text stands that is written character by character in another way."""
    yield from search.found_in_other_case(text)
    for at, end in search.found(text[::-1]):
        yield len(text) - end, len(text) - at
    yield from search.found(text.translate(_ROT13))
    for start, end in _lines(text, _WRITTEN_OTHERWISE):
        yield from _located(list(_unescaped(text[start:end], start)), search.found)
    for region, code, base in _CODES:
        for found in region.finditer(text):
            yield from _located(list(_of_codes(found, code, base)), search.found)
    for start, end in _apart(text):
        words = list(_words(text, start, end))
        for units in (words, list(_uncounted(words))):
            yield from _located([one for one in units if len(one[0]) == 1], search.found_as_words)


def _lines(text: str, sign: re.Pattern[str]) -> Iterator[Span]:
    """The lines that have such a sign."""
    end = 0
    while (found := sign.search(text, end)) is not None:
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        end = len(text) if end < 0 else end
        yield start, end


def _located(units: list[Unit], found: Callable[[str], Iterable[Span]]) -> Iterator[Span]:
    """The places where what these characters say is written."""
    for at, end in found("".join(char for char, _, _ in units)):
        yield units[at][1], units[end - 1][2]


def _unescaped(line: str, start: int) -> Iterator[Unit]:
    done = 0
    for escape in _ESCAPE.finditer(line):
        yield from _plain(line, done, escape.start(), start)
        done = escape.end()
        for char in _meaning(escape):
            yield char, start + escape.start(), start + done
    yield from _plain(line, done, len(line), start)


def _plain(line: str, at: int, end: int, start: int) -> Iterator[Unit]:
    for where in range(at, end):
        char = line[where]
        for one in char if char.isascii() else unicodedata.normalize("NFKC", char):
            yield one, start + where, start + where + 1


def _meaning(escape: re.Match[str]) -> str:
    kind, written = escape.lastgroup or "", escape[escape.lastgroup or 0]
    if kind == "percent":
        return unquote_to_bytes(written.replace("=", "%")).decode("utf-8", "replace")
    if kind in ("x", "u", "U", "octal"):
        number = int(written, 8 if kind == "octal" else 16)
        return chr(number) if number < 0x110000 else ""
    return html.unescape(written) if kind == "entity" else "" if kind == "unseen" else written


def _of_codes(region: re.Match[str], code: re.Pattern[str], base: int) -> Iterator[Unit]:
    for found in code.finditer(region[0]):
        number = int(found[0], base)
        if number < 0x110000:
            yield chr(number), region.start() + found.start(), region.start() + found.end()


def _apart(text: str) -> Iterator[Span]:
    """Where letters and digits stand one by one."""
    first = end = many = 0
    for lone in _LONE.finditer(text):
        if many and (lone.start() - end > _FARTHEST or not _BETWEEN.fullmatch(text, end, lone.start())):
            if many >= _SHORTEST:
                yield first, end
            many = 0
        first = first if many else lone.start()
        end, many = lone.end(), many + 1
    if many >= _SHORTEST:
        yield first, end


def _words(text: str, start: int, end: int) -> Iterator[Unit]:
    region = _TAG.sub(lambda tag: " " * len(tag[0]), text[start:end])
    return ((found[0], start + found.start(), start + found.end()) for found in _WORD.finditer(region))


def _uncounted(words: list[Unit]) -> Iterator[Unit]:
    """Without the numbers that count them: 0, 1, 2 and so on."""
    count = next((int(word) for word, _, _ in words if word in ("0", "1")), -1)
    for one in words:
        if one[0].isdecimal() and int(one[0]) == count:
            count += 1
        else:
            yield one
