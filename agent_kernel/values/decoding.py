"""What texts and bytes hold that are to be decoded first: what is compressed or packed, base64, hex, JSON, rows, markup.

Nothing is run: archives are read in memory, no pickle is loaded. What is encrypted, or of a form that is not known here,
gives nothing, and shows nothing either until somebody decodes it.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, cast
from urllib.parse import parse_qsl, unquote, urlsplit

__all__ = ["ClosedError", "TooLargeError", "characters", "from_bytes", "from_int", "from_text", "is_other_form"]

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
    elif text := _decoded(content, _wide(content) or "utf-8"):
        yield text
    elif found := _deflated(content, most):
        yield found


def is_other_form(content: bytes) -> bool:
    """Whether bytes are compressed or packed, or text of two or four bytes a character."""
    return _is_packed(content) or bool(_wide(content))


def _is_packed(content: bytes) -> bool:
    return content.startswith(_STARTS) or content[257:262] == b"ustar" or bool(_deflated(content, _ENOUGH))


def _deflated(content: bytes, most: int) -> bytes:
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
        yield from (word for word in text.split() if len(word) >= 2 * _TELLING and any(_meant_by(word)))
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
    yield from _meant_by(text)


def _meant_by(text: str) -> Iterator[bytes]:
    """The bytes that a text stands for as a whole, where they are readable or packed."""
    for decode in (_base64, _base32, _base85, _hex):
        content = decode(text)
        if content and (_is_packed(content) or _decoded(content, "utf-8")):
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
    return next((one for one in (content, content[::-1]) if _decoded(one, "utf-8")), b"")


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


def _decoded(content: bytes, encoding: str) -> str:
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


def _inflated(make: Callable[[], Any]) -> Callable[[bytes, int], Iterator[object]]:
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
                held = archive.extractfile(member) if member.isreg() else None
                yield from (member.name, held.read() if held is not None else b"")
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


def _closed(_content: bytes, _most: int) -> Iterator[object]:
    raise ClosedError
    yield


_FORMS: Final[tuple[tuple[bytes, Callable[[bytes, int], Iterator[object]]], ...]] = (
    *((start, _inflated(_zlib(15))) for start in (b"x\x01", b"x\x5e", b"x\x9c", b"x\xda")),
    (b"\x1f\x8b", _inflated(_zlib(31))),
    (b"BZh", _inflated(_bz2)),
    (b"\xfd7zXZ\0", _inflated(_lzma)),
    (b"\x5d\0\0", _inflated(_lzma)),
    (b"\x28\xb5\x2f\xfd", _zstandard),
    (b"PK\x03\x04", _zip),
    (b"SQLite format 3\0", _sqlite),
    (b"PAR1", _parquet),
    (b"ARROW1", _arrow),
    (b"\x89PNG\r\n\x1a\n", _png),
    *((start, _closed) for start in (b"\x04\x22\x4d\x18", b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x89HDF\r\n")),
)
_STARTS: Final = tuple(start for start, _ in _FORMS)
