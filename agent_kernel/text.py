"""How sizes, counts, times, code and names read in one line of plain text.

Text comes from names, cells and stores that anyone may have made: what came out of `clean` or `clean_lines` can neither move
a terminal's cursor nor turn its text around.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Final

MASK: Final = "•••• masked"
MORE: Final = "…"

# CSI and OSC sequences go whole, so that "\x1b[31m" leaves nothing behind rather than "[31m".
_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b.?")
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
_TAIL = 14  # the end of a line of code says more than its middle


def clean(text: str) -> str:
    r"""The printable characters of `text` on one line.

    >>> clean("a\x1b[31mred\u202e\nb")
    'ared b'
    """
    if text.isprintable():
        return text
    spaced = (" " if found.isspace() else found for found in _ESCAPES.sub("", text))
    return "".join(found for found in spaced if found.isprintable())


def shorten(text: str, room: int) -> str:
    """At most `room` characters, the last of them an ellipsis if anything was left out."""
    return text if len(text) <= room else text[: room - 1] + MORE


def clean_lines(text: str) -> str:
    """`clean` for text of several lines: tabs become spaces, line ends stay."""
    return "\n".join(clean(line.expandtabs(4)) for line in text.splitlines())


def duration(seconds: float) -> str:
    """`0.42 s`, `3.4 s`, `38 s`, `2m 10s`, `1h 05m`."""
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def local(time_ns: int) -> datetime:
    """The moment in the reader's own time zone."""
    return datetime.fromtimestamp(time_ns / 1e9, UTC).astimezone()


def clock(time_ns: int, now_ns: int) -> str:
    """`now`, `27 min` under an hour, then `13:20`, with the day in front where it is not today."""
    age_s = (now_ns - time_ns) / 1e9
    if -60 < age_s < 60:
        return "now"
    if 0 < age_s < 3600:
        return f"{int(age_s // 60)} min"
    then, now = local(time_ns), local(now_ns)
    days = (now.date() - then.date()).days
    if days == 0:
        return f"{then:%H:%M}"
    if days == 1:
        return f"yesterday {then:%H:%M}"
    year = "" if then.year == now.year else f" {then.year}"
    return f"{then.day} {then:%b}{year} {then:%H:%M}"


def exact_time(time_ns: int, utc_offset_s: int) -> datetime:
    """The moment as the writer's clock showed it, to the microsecond."""
    zone = timezone(timedelta(seconds=utc_offset_s))
    return datetime.fromtimestamp(time_ns // 1_000_000_000, zone).replace(microsecond=time_ns // 1000 % 1_000_000)


def cut(text: str, width: int, *, middle: bool = False) -> str:
    """The text in at most `width` columns, with `…` for what was taken out."""
    if width_of(text) <= width:
        return text
    if width < 2:
        return "…"[:width]
    tail = text[-_TAIL:] if middle and width > 2 * _TAIL else ""
    room = width - 1 - width_of(tail)
    head = ""
    for character in text:
        room -= width_of(character)
        if room < 0:
            break
        head += character
    return f"{head}…{tail}"


def width_of(text: str) -> int:
    """Columns that a terminal gives to the text."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int, *, right: bool = False) -> str:
    """The text filled with spaces to `width` columns."""
    fill = " " * (width - width_of(text))
    return fill + text if right else text + fill


def plural(count: int, one: str, many: str = "") -> str:
    """`1 variable`, `12 variables`, `1,200 commits`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def shorten_url(url: str) -> str:
    """A store's place, as short as it can be said from here."""
    path = Path(url.removeprefix("lmdb://").removeprefix("bundle://"))
    if not path.is_absolute():
        return clean(url)
    for base, prefix in _bases():
        if path.is_relative_to(base):
            return clean(f"{prefix}{path.relative_to(base)}")
    return clean(str(path))


def _bases() -> Iterator[tuple[Path, str]]:
    with suppress(OSError):  # the working directory was removed
        yield Path.cwd(), ""
    yield Path.home(), "~/"


def money(dollars: float) -> str:
    """US dollars; of less than a cent two digits that say something.

    >>> money(0.0412), money(0.00042), money(0)
    ('$0.04', '$0.00042', '$0.00')
    """
    if dollars == 0 or dollars >= 0.01:
        return f"${dollars:.2f}"
    return f"${dollars:.{min(8, 1 - math.floor(math.log10(dollars)))}f}"


def list_names(names: Sequence[str], most: int = 8) -> str:
    """`a, b, c and 4 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return clean(", ".join(names[:most])) + more


def join_words(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return f"{', '.join(words[:-1])} and {words[-1]}" if words[1:] else "".join(words)


def count_text(count: int) -> str:
    """Digits in groups of three; a negative count stands for one that could not be read."""
    return f"{count:,}" if count >= 0 else "?"


def count_noun(count: int, noun: str) -> str:
    """`1 line`, `3 lines`."""
    return f"{count_text(count)} {noun}" if count == 1 else f"{count_text(count)} {noun}s"


def size_text(size_bytes: int) -> str:
    """Decimal units and three digits, as everywhere in the product.

    >>> [size_text(n) for n in (0, 999, 1_900, 70_140, 512_000, 999_960, 96_000_000)]
    ['0 B', '999 B', '1.9 kB', '70.1 kB', '512 kB', '1 MB', '96 MB']
    """
    amount, unit = float(size_bytes), 0
    while unit < len(_UNITS) - 1 and round(amount, 1 if amount < 99.95 else 0) >= 1_000:
        amount, unit = amount / 1_000, unit + 1
    digits = f"{amount:.1f}".removesuffix(".0") if amount < 99.95 else f"{amount:.0f}"
    return f"{digits} {_UNITS[unit]}"


def shape_text(shape: tuple[int, ...]) -> str:
    """An array's shape as numpy writes it: `(1000, 64)`, `(3,)`, `()`."""
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
