"""How sizes, counts and strange text are written on one line.

Text comes from names and cells that anyone may have made: control characters, escape sequences and characters that
turn the writing direction never reach a terminal.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "•••• masked"
MORE: Final = "…"

# CSI and OSC sequences go whole, so that "\x1b[31m" leaves nothing behind rather than "[31m".
_ESCAPES = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b.?")
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def clean(text: str) -> str:
    r"""The printable characters of `text` on one line.

    >>> clean("a\x1b[31mred\u202e\nb")
    'ared b'
    """
    if text.isprintable():
        return text
    spaced = (" " if found.isspace() else found for found in _ESCAPES.sub("", text))
    return "".join(found for found in spaced if found.isprintable())


def cut(text: str, room: int) -> str:
    """At most `room` characters, the last of them an ellipsis if anything was left out."""
    return text if len(text) <= room else text[: room - 1] + MORE


def count_text(count: int) -> str:
    """Digits in groups of three; a negative count stands for one that could not be read."""
    return f"{count:,}" if count >= 0 else "?"


def counted(count: int, noun: str) -> str:
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
