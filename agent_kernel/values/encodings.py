"""What texts and bytes hold in another form: decode them, and find a text where another one has it encoded.

What is compressed or packed, base64, hex, JSON, rows, markup is decoded. Nothing is run: archives are read in memory, no
pickle is loaded. What is encrypted, or of a form that is not known here, gives nothing, and shows nothing either until
somebody decodes it.
"""

from __future__ import annotations

import ast
import base64
import binascii
import html
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, Final, Protocol, TypeAlias, cast
from urllib.parse import parse_qsl, unquote, unquote_to_bytes, urlsplit

_TELLING: Final = 8  # characters of a part of a text that is a value by itself
_WHOLE: Final = re.compile(r"[A-Za-z0-9+/_\-\s]{11,}={0,2}\s*")
_HEX: Final = re.compile(r"(?:[0-9A-Fa-f]{2}[\s:]?){8,}")
_BASE32: Final = re.compile(r"[A-Z2-7\s]{13,}=*\s*")
_BASE85: Final = re.compile(r"(?=[^a-z]*[a-z])(?=[^A-Z]*[A-Z])[!-~]{10,}")
_SETTING: Final = re.compile(
    r"""(?m)^[ \t-]*(?:export )?[\w.-]+[ \t]*(?:=|:(?=\s))[ \t]*["']?(.*?)["']?[,;]?[ \t]*$|^[ \t]*- (.*)$"""
)
_TOKEN: Final = re.compile(r"[\w-]{8,}(?:\.[\w-]{8,}){1,4}")
_USER_AND_PASSWORD: Final = re.compile(r"[^\s:/]+:(?!//)(\S{8,})")
_CODE: Final = re.compile(r"\\[uxU]((?<=u)[0-9A-Fa-f]{4}|(?<=x)[0-9A-Fa-f]{2}|(?<=U)[0-9A-Fa-f]{8})")
_NO_LETTER: Final = re.compile(r"[\s:]+")
_QUERY: Final = re.compile(r"[\w.%+-]+=[^&\s=]+(?:&[\w.%+-]+=[^&\s=]*)*")
_TAG: Final = re.compile(r"<[^<>]*>")
_DELIMITERS: Final = ",;\t|"
_ESCAPED: Final = re.compile(r"\\([^\w\s])")


class TooLargeError(Exception):
    """There is more to decode than there is room for."""


class ClosedError(Exception):
    """It is packed in a form that is not read here."""


def from_bytes(content: bytes, most: int) -> Iterator[object]:
    """What bytes hold one layer below: text, what was compressed, the members of an archive, the rows of a database.

    Args:
        most: bytes that may come of it.

    Raises:
        TooLargeError: more would come of it. ClosedError: it cannot be decoded here.
    """
    for start, unpack in _FORMS:
        if content.startswith(start):
            yield from unpack(content, most)
            return
    if content[257:262] == b"ustar":
        yield from _tar(content, most)
    elif text := _decode_text(content, _wide(content) or "utf-8"):
        yield text
    elif found := _inflate(content, most):
        yield found


def _is_other_form(content: bytes) -> bool:
    """Whether bytes are compressed or packed, or text of two or four bytes a character."""
    return _is_packed(content) or bool(_wide(content))


def _is_packed(content: bytes) -> bool:
    return content.startswith(_STARTS) or content[257:262] == b"ustar" or bool(_inflate(content, _ENOUGH))


def _inflate(content: bytes, most: int) -> bytes:
    """What was compressed without a header that says so. Returns b"" for other bytes.

    Raises:
        TooLargeError: there is more.
    """
    form = content[0] >> 1 & 3 if len(content) > _TELLING else 3  # of its first block: as it is, two codes, none
    if form == 3 or (form == 0 and content[1] ^ content[3] != 0xFF):  # most bytes are none, and this is asked often
        return b""
    import zlib

    machine = zlib.decompressobj(-15)
    try:
        found = machine.decompress(content, most)
    except zlib.error:
        return b""
    if not machine.eof and len(found) >= most > _ENOUGH:
        raise TooLargeError
    return found if machine.eof or len(found) >= most else b""


_ENOUGH: Final = 64  # bytes that tell what others are


def from_text(text: str) -> Iterator[object]:
    r"""What a text holds one layer below: values of JSON, fields of rows, parts of markup and addresses, decoded bytes.

    >>> list(from_text("emVicmEtNDcxMS1xdWFnZ2E="))
    [b'zebra-4711-quagga']
    >>> list(from_text("id,name\n7,zebra-4711\n"))
    ['7', 'zebra-4711']
    """
    if text.lstrip()[:1] in ("{", "[", '"'):
        try:
            yield from filter(_is_telling, _leaves(json.loads(text)))
        except RecursionError as error:
            raise TooLargeError from error
        except ValueError:
            pass
        else:
            return
    if "\n" in text:
        yield from filter(_is_telling, _fields(text))
    yield from (part for found in _SETTING.findall(text) for part in found if len(part) >= _TELLING and part != text)
    if _TOKEN.fullmatch(text):
        yield from text.split(".")
    if " " in text or "\n" in text:  # `Basic dXNlcjpwYXNzd29yZA==`
        yield from (word for word in text.split() if len(word) >= 2 * _TELLING and any(_decode_whole(word)))
    if pair := _USER_AND_PASSWORD.fullmatch(text):
        yield pair[1]
    if "&" in text and (plain := html.unescape(text)) != text:
        yield plain
    if _CODE.search(text):
        yield _CODE.sub(lambda found: chr(int(found[1], 16) % 0x110000), text)
    if "<" in text:
        yield from (part for piece in _TAG.split(text) if len(part := piece.strip()) >= _TELLING and part != text)
    if "://" in text:
        yield from _parts_of_address(text)
    elif _QUERY.fullmatch(text):
        yield from (value for _, value in parse_qsl(text) if len(value) >= _TELLING)
    elif "%" in text and (plain := unquote(text)) != text:
        yield plain
    if "\\" in text and (plain := _ESCAPED.sub(r"\1", text)) != text:
        yield plain
    yield from _decode_whole(text)


def _decode_whole(text: str) -> Iterator[bytes]:
    """The bytes that a text stands for as a whole, where they are readable or packed."""
    for decode in (_base64, _base32, _base85, _hex):
        content = decode(text)
        if content and (_is_packed(content) or _decode_text(content, "utf-8")):
            yield content


def _leaves(value: object) -> Iterator[object]:
    """All that JSON has, the names of entries too."""
    if isinstance(value, dict):
        entries = cast("dict[str, object]", value)
        yield from (leaf for part in (*entries, *entries.values()) for leaf in _leaves(part))
    elif isinstance(value, list):
        yield from (leaf for part in cast("list[object]", value) for leaf in _leaves(part))
    else:
        yield value


def _is_telling(part: object) -> bool:
    """Whether a part of a text is a value by itself. A short word may be the heading of a column, and stands everywhere."""
    return not (isinstance(part, str) and part.isalpha() and len(part) < _TELLING)


def from_int(number: int) -> bytes:
    """The text that a large number is written from: `int.from_bytes`. Returns b"" for any other number."""
    if number.bit_length() <= 64 or number < 0:
        return b""
    content = number.to_bytes(-(-number.bit_length() // 8), "big")
    return next((one for one in (content, content[::-1]) if _decode_text(one, "utf-8")), b"")


_HEX_NUMBER: Final = re.compile(r"(?:0x|\\x)?[0-9A-Fa-f]{2}")


def characters(items: list[Any]) -> str:
    """The text that a sequence spells: single characters, or their numbers. Returns "" where it spells none."""
    if len(items) < _TELLING:
        return ""
    if all(type(one) is str and _HEX_NUMBER.fullmatch(one) for one in items):
        items = [int(one, 16) for one in items]
    if all(type(one) is str and len(one) == 1 for one in items):
        return "".join(items)
    if not all(type(one) is int and 9 <= one < 0x110000 for one in items):
        return ""
    text = "".join(map(chr, items))
    return text if text.isprintable() else ""


def _decode_text(content: bytes, encoding: str) -> str:
    """Bytes as readable text. Returns "" if they are not text."""
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return ""
    return text if text and text.translate(_BREAKS).isprintable() else ""


_BREAKS: Final = dict.fromkeys(map(ord, "\n\r\t\0\ufeff"), " ")


def _wide(content: bytes) -> str:
    """The encoding of text of two or four bytes a character. Returns "" for any other bytes."""
    few = content[:400]
    if few.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "utf-32"
    if few.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if len(few) < 4 or len(content) % 2:
        return ""
    if len(content) % 4 == 0 and not any(few[2::4]) and not any(few[3::4]) and not any(few[1::4]):
        return "utf-32-le"
    half = len(few) // 4  # most characters have a low number
    if few[1::2].count(0) > half and few[0::2].count(0) <= half // 4:
        return "utf-16-le"
    return "utf-16-be" if few[0::2].count(0) > half and few[1::2].count(0) <= half // 4 else ""


_FULL: Final = (0, 2, 4, 5, 7)  # characters of base32 that whole bytes may leave over


def _base64(text: str) -> bytes:
    if not _WHOLE.fullmatch(text):
        return b""
    plain = "".join(text.split()).translate({ord("-"): "+", ord("_"): "/"}).rstrip("=")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4))
    except binascii.Error:
        return b""


def _base32(text: str) -> bytes:
    plain = "".join(text.split()).rstrip("=")
    return (
        base64.b32decode(plain + "=" * (-len(plain) % 8))
        if _BASE32.fullmatch(text) and len(plain) % 8 in _FULL
        else b""
    )


def _base85(text: str) -> bytes:
    if not _BASE85.fullmatch(text):
        return b""
    try:
        return base64.b85decode(text)
    except ValueError:
        return b""


def _hex(text: str) -> bytes:
    plain = text.strip().removeprefix("0x")
    return binascii.unhexlify(_NO_LETTER.sub("", plain)) if _HEX.fullmatch(plain) else b""


def _fields(text: str) -> Iterator[str]:
    """The fields of rows, where all rows have as many of them."""
    lines = [line for line in text.splitlines() if line]
    for sign in _DELIMITERS:
        many = lines[0].count(sign) if lines else 0
        if many and len(lines) > 1 and all(line.count(sign) == many for line in lines):
            yield from (field for line in lines for part in line.split(sign) if (field := part.strip().strip("\"'")))
            return


def _parts_of_address(text: str) -> Iterator[str]:
    try:
        address = urlsplit(text)
        parts = [address.password, address.fragment, *(value for _, value in parse_qsl(address.query))]
    except ValueError:
        return
    yield from (part for part in (*parts, *map(unquote, address.path.split("/"))) if part and len(part) >= _TELLING)


# -- what is compressed or packed


def _make_unpacker(make: Callable[[], Any]) -> Callable[[bytes, int], Iterator[object]]:
    def unpack(content: bytes, most: int) -> Iterator[object]:
        machine = make()
        try:
            found = machine.decompress(content, most)
        except Exception:  # noqa: BLE001 - each library has its own error for bytes that only begin like its form
            return
        if not getattr(machine, "eof", True) and len(found) >= most:
            raise TooLargeError
        yield found
        if rest := getattr(machine, "unused_data", b""):  # another stream behind it
            yield rest

    return unpack


def _zlib(window: int) -> Callable[[], Any]:
    def make() -> Any:
        import zlib

        return zlib.decompressobj(window)

    return make


def _bz2() -> Any:
    import bz2

    return bz2.BZ2Decompressor()


def _lzma() -> Any:
    import lzma

    return lzma.LZMADecompressor()


def _zstandard(content: bytes, most: int) -> Iterator[object]:
    import zstandard

    try:
        found = zstandard.ZstdDecompressor().stream_reader(content, read_across_frames=True).read(most)
    except zstandard.ZstdError:
        return
    if len(found) >= most:
        raise TooLargeError
    yield found


def _zip(content: bytes, most: int) -> Iterator[object]:
    import io
    import zipfile

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.infolist():
                most -= member.file_size
                if most < 0:
                    raise TooLargeError
                yield member.filename
                yield archive.read(member)
    except RuntimeError as error:  # it has a password, or is compressed in a way that Python does not know
        raise ClosedError from error


def _tar(content: bytes, most: int) -> Iterator[object]:
    import io
    import tarfile

    try:
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:") as archive:
            for member in archive:
                most -= member.size
                if most < 0:
                    raise TooLargeError
                member_file = archive.extractfile(member) if member.isreg() else None
                yield from (member.name, member_file.read() if member_file is not None else b"")
    except tarfile.TarError:
        return


def _sqlite(content: bytes, most: int) -> Iterator[object]:
    import sqlite3

    if len(content) > most:
        raise TooLargeError
    base = sqlite3.connect(":memory:")
    try:
        base.deserialize(content)
        yield rows_of(base)
    except (sqlite3.Error, AttributeError) as error:
        raise ClosedError from error
    finally:
        base.close()


def rows_of(base: Any) -> list[object]:
    """All rows of the tables of a database of SQLite."""
    base.text_factory = _text
    names = [name for (name,) in base.execute("select name from sqlite_master where type = 'table'")]
    quoted = ('"' + name.replace('"', '""') + '"' for name in names)
    return [list(base.execute(f"select * from {name}")) for name in quoted]


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _parquet(content: bytes, most: int) -> Iterator[object]:
    import io
    import sys

    parquet: Any = sys.modules.get("pyarrow.parquet")
    if parquet is None:
        raise ClosedError
    file = parquet.ParquetFile(io.BytesIO(content))
    if sum(file.metadata.row_group(at).total_byte_size for at in range(file.metadata.num_row_groups)) > most:
        raise TooLargeError
    yield file.read()


def _arrow(content: bytes, most: int) -> Iterator[object]:
    import sys

    arrow: Any = sys.modules.get("pyarrow")
    if arrow is None or len(content) > most:
        raise ClosedError if arrow is None else TooLargeError
    yield arrow.ipc.open_file(arrow.py_buffer(content)).read_all()


def _png(content: bytes, _most: int) -> Iterator[object]:
    """The texts beside a picture, of which some are compressed."""
    at = 8
    while at + 8 <= len(content):
        size, kind = int.from_bytes(content[at : at + 4], "big"), content[at + 4 : at + 8]
        part = content[at + 8 : at + 8 + size]
        if kind == b"zTXt":
            yield from part.split(b"\0\0", 1)
        elif kind == b"iTXt" and part.count(b"\0") >= 4:  # keyword, is compressed, how, language, keyword, text
            name, _, rest = part.partition(b"\0")
            yield from (name, *rest[2:].split(b"\0", 2))
        elif kind == b"tEXt":
            yield from part.split(b"\0", 1)
        at += 12 + size


def _refuse(_content: bytes, _most: int) -> Iterator[object]:
    raise ClosedError
    yield


_FORMS: Final[tuple[tuple[bytes, Callable[[bytes, int], Iterator[object]]], ...]] = (
    *((start, _make_unpacker(_zlib(15))) for start in (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")),
    (b"\x1f\x8b", _make_unpacker(_zlib(31))),
    (b"BZh", _make_unpacker(_bz2)),
    (b"\xfd7zXZ\0", _make_unpacker(_lzma)),
    (b"\x5d\0\0", _make_unpacker(_lzma)),
    (b"\x28\xb5\x2f\xfd", _zstandard),
    (b"PK\x03\x04", _zip),
    (b"SQLite format 3\0", _sqlite),
    (b"PAR1", _parquet),
    (b"ARROW1", _arrow),
    (b"\x89PNG\r\n\x1a\n", _png),
    *((start, _refuse) for start in (b"\x04\x22\x4d\x18", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x89HDF\r\n")),
)
_STARTS: Final = tuple(start for start, _ in _FORMS)


# -- find a text that must not be shown where another text has it encoded: in base64 or hex, escaped, spelled, reversed
#
# What a model is sent is text, so what it can read out of that without a tool is looked for in there, by whatever way it came:
#
# * A run in base64, base32, base85 or hex is decoded, decompressed where it is compressed, and searched again.
# * Escapes, numbers of characters, characters that stand apart, invisible ones between them, wide ones, text that is
#   reversed or shifted by 13 letters: each is read as the characters that it stands for, which know where they stand.
#
# A cipher, or pieces that code put elsewhere, are not known again.

Span: TypeAlias = tuple[int, int]
Unit: TypeAlias = tuple[str, int, int]  # a character, and where it is written

_BLANKS: Final = {ord("\n"): " ", ord("\r"): " ", ord("\t"): " ", 0xFFFD: "\0"}
_DEEPEST: Final = 4  # layers of what is decoded
_MOST_BYTES: Final = 1 << 22  # of one run, decompressed
_SHORTEST: Final = 8  # characters of what is found again in such a form


class Search(Protocol):
    """Finds texts in another."""

    def find(self, text: str) -> Iterator[Span]:
        """Find where any of the longer texts stands."""
        ...

    def find_in_other_case(self, text: str) -> Iterator[Span]:
        """Where any of them stands in capitals, or without."""
        ...

    def find_as_words(self, text: str) -> Iterator[Span]:
        """Where any of them stands with nothing but letters and digits looked at."""
        ...

    def __contains__(self, text: str) -> bool: ...


def spans(text: str, search: Search) -> list[Span]:
    """Where a text has an encoded one, in order and apart."""
    found = sorted({*_in_runs(text, search, 0), *_read(text, search)})
    joined: list[Span] = []
    for start, end in found:
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def has_encoded(word: str, search: Search) -> bool:
    """Whether a word has such a text in base64 or hex."""
    return any(_in_runs(word, search, 0))


def _holds(text: str, search: Search, depth: int) -> bool:
    """Whether a decoded text is one of these, or has a longer one, plain or encoded again."""
    if text.strip() in search or any(search.find(text)):
        return True
    if not text.translate(_BLANKS).isprintable():  # most runs are words, and give none
        return False
    if depth >= _DEEPEST:  # what is encoded as often as that, and is so again, is not told
        return bool(_ENCODED_AGAIN.fullmatch(text.strip()))
    return any(_in_runs(text, search, depth + 1)) or any(_read(text, search))


# -- runs of letters that stand for bytes

_BASE64_RUN: Final = re.compile(r"[A-Za-z0-9+/_-]{60,}+(?:(?:\\n|\\r|\s)++[A-Za-z0-9+/_-]{4,}+)*+|[A-Za-z0-9+/_-]{6,}+")
_BASE32_RUN: Final = re.compile(r"[A-Z2-7]{13,}")
_BASE85_RUN: Final = re.compile(r"(?=\S{0,60}?[!-,;-@^`{-~])[!-~]{10,}")
_HEX_RUN: Final = re.compile(r"[0-9A-Fa-f]{8,}+(?:(?:\\n|\s)++[0-9A-Fa-f]{16,}+)*+")
_INTEGER: Final = re.compile(r"(?<![\d.])\d{20,}(?![\d.])")
_LITERAL: Final = re.compile(r"""b(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")""")
_LINE_END: Final = re.compile(r"\\n|\\r|\s+")
_ENCODED_AGAIN: Final = re.compile(r"[A-Za-z0-9+/_\-\s]{11,}=*")
_MOST_DIGITS: Final = 100_000
_STANDARD: Final = {ord("-"): "+", ord("_"): "/"}


def _in_runs(text: str, search: Search, depth: int) -> Iterator[Span]:
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
    except TooLargeError:
        return True


def _gives(content: bytes, search: Search, depth: int) -> bool:
    """Whether bytes hold such a text: as they are, or one layer below."""
    if _holds(content.decode("utf-8", "replace"), search, depth + 1):
        return True
    if not _is_other_form(content):
        return False
    if depth >= _DEEPEST:
        return True
    try:
        layers = list(from_bytes(content, _MOST_BYTES))
    except TooLargeError:
        return True
    except Exception:  # noqa: BLE001 - broken: bytes of no known form, as by chance
        return False
    texts = (one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in layers)
    return any(isinstance(one, str) and _holds(one, search, depth + 1) for one in texts)


def _bytes_of_base64(run: str) -> Iterator[bytes]:
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


def _bytes_of_base32(run: str) -> Iterator[bytes]:
    for at in range(8):
        part = run[at:]
        part = part[: len(part) - 1] if len(part) % 8 in (1, 3, 6) else part
        yield base64.b32decode(part + "=" * (-len(part) % 8))


def _bytes_of_base85(run: str) -> Iterator[bytes]:
    """What a run gives in either alphabet, with and without the quotes around it."""
    if len(set(run[:_MOST_DIGITS])) < 2 * _SHORTEST:
        return  # a line under a heading, or the same once more
    pieces = {piece for piece in re.split(r"[\"',./:\[\]\\]", run) if len(piece) > _SHORTEST}
    if any(len(piece) > _MOST_DIGITS for piece in pieces):
        raise TooLargeError
    whole = {run, run.strip("'\"")} if len(run) <= _MOST_DIGITS else set[str]()
    for texts, decode in ((pieces, base64.b85decode), (whole, base64.a85decode)):
        for text in texts:
            for at in range(5):
                with suppress(ValueError):
                    yield decode(text[at:])


def _bytes_of_hex(run: str) -> Iterator[bytes]:
    plain = _LINE_END.sub("", run)
    for at in range(2):
        yield binascii.unhexlify(plain[at : at + (len(plain) - at) // 2 * 2])


def _integer(run: str) -> Iterator[bytes]:
    if len(run) > _MOST_DIGITS:
        raise TooLargeError
    number = 0
    for at in range(0, len(run), 4_000):  # longer ones Python does not read
        part = run[at : at + 4_000]
        number = number * 10 ** len(part) + int(part)
    yield from_int(number)


def _literal(run: str) -> Iterator[bytes]:
    try:
        yield ast.literal_eval(run)
    except (ValueError, SyntaxError):
        return


_RUNS: Final[tuple[tuple[re.Pattern[str], Callable[[str], Iterator[bytes]]], ...]] = (
    (_LITERAL, _literal),
    (_BASE64_RUN, _bytes_of_base64),
    (_BASE32_RUN, _bytes_of_base32),
    (_BASE85_RUN, _bytes_of_base85),
    (_HEX_RUN, _bytes_of_hex),
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
_SHORT_TAG: Final = re.compile(r"<[^<>\n]{0,80}>")
_WORD: Final = re.compile(r"[^\W_]+")
_ROT13: Final = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", "nopqrstuvwxyzabcdefghijklmNOPQRSTUVWXYZABCDEFGHIJKLM"
)


def _read(text: str, search: Search) -> Iterator[Span]:
    """Where such a text stands that is written character by character in another way."""
    yield from search.find_in_other_case(text)
    for at, end in search.find(text[::-1]):
        yield len(text) - end, len(text) - at
    yield from search.find(text.translate(_ROT13))
    for start, end in _lines(text, _WRITTEN_OTHERWISE):
        yield from _locate(list(_unescape(text[start:end], start)), search.find)
    for region, code, base in _CODES:
        for found in region.finditer(text):
            yield from _locate(list(_of_codes(found, code, base)), search.find)
    for start, end in _find_spaced(text):
        words = list(_words(text, start, end))
        for units in (words, list(_drop_counts(words))):
            yield from _locate([one for one in units if len(one[0]) == 1], search.find_as_words)


def _lines(text: str, sign: re.Pattern[str]) -> Iterator[Span]:
    """The lines that have such a sign."""
    end = 0
    while (found := sign.search(text, end)) is not None:
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        end = len(text) if end < 0 else end
        yield start, end


def _locate(units: list[Unit], found: Callable[[str], Iterable[Span]]) -> Iterator[Span]:
    """The places where what these characters say is written."""
    for at, end in found("".join(char for char, _, _ in units)):
        yield units[at][1], units[end - 1][2]


def _unescape(line: str, start: int) -> Iterator[Unit]:
    done = 0
    for escape in _ESCAPE.finditer(line):
        yield from _plain(line, done, escape.start(), start)
        done = escape.end()
        for char in _decode_escape(escape):
            yield char, start + escape.start(), start + done
    yield from _plain(line, done, len(line), start)


def _plain(line: str, at: int, end: int, start: int) -> Iterator[Unit]:
    for where in range(at, end):
        char = line[where]
        for one in char if char.isascii() else unicodedata.normalize("NFKC", char):
            yield one, start + where, start + where + 1


def _decode_escape(escape: re.Match[str]) -> str:
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


def _find_spaced(text: str) -> Iterator[Span]:
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
    region = _SHORT_TAG.sub(lambda tag: " " * len(tag[0]), text[start:end])
    return ((found[0], start + found.start(), start + found.end()) for found in _WORD.finditer(region))


def _drop_counts(words: list[Unit]) -> Iterator[Unit]:
    """Without the numbers that count them: 0, 1, 2 and so on."""
    count = next((int(word) for word, _, _ in words if word in ("0", "1")), -1)
    for one in words:
        if one[0].isdecimal() and int(one[0]) == count:
            count += 1
        else:
            yield one
