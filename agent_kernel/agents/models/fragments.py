"""The code of a call, read from its JSON as it comes in, cut wherever the provider cut it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["CodeReader", "without_surrogates"]

_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN: Final = re.compile(r'[^"\\]+')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = range(0xDC00, 0xE000)


def without_surrogates(text: str) -> str:
    """The text with halves of characters, which no encoding can carry, replaced."""
    return _SURROGATE.sub("\ufffd", text)


class CodeReader:
    r"""Gives the text of one key of a JSON object, as far as its pieces go.

    What is no such object gives what it can; only the whole answer is ever run.

    >>> reader = CodeReader()
    >>> [reader.feed(piece) for piece in ('{"co', 'de": "a', ' = 1', chr(92), 'n', 'b"}')]
    ['', 'a', ' = 1', '', '\n', 'b']
    """

    def __init__(self, key: str = "code") -> None:
        self._key = key
        self._rest = ""  # the beginning of an escape that is not whole yet
        self._high = 0  # the first half of a character of two
        self._depth = 0
        self._string: list[str] | None = None  # the string that is being read
        self._named = ""  # the last string of the outermost object
        self._is_value = False  # behind a colon of the outermost object

    def feed(self, piece: str) -> str:
        """What this piece adds to the text."""
        text, self._rest = self._rest + piece, ""
        found: list[str] = []
        at = 0
        while at < len(text):
            if self._string is None:
                self._outside(text[at])
                at += 1
                continue
            at = self._inside(text, at, found)
        return "".join(found)

    @property
    def _wanted(self) -> bool:
        return self._depth == 1 and self._is_value and self._named == self._key

    def _outside(self, char: str) -> None:
        if char == '"':
            self._string = []
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
        elif char == ":" and self._depth == 1:
            self._is_value = True
        elif char == "," and self._depth == 1:
            self._is_value = False

    def _inside(self, text: str, at: int, found: list[str]) -> int:
        """Read on in a string, and return where it stopped."""
        if plain := _PLAIN.match(text, at):
            self._take(plain[0], found)
            return plain.end()
        if text[at] == '"':
            self._take("", found)
            self._close()
            return at + 1
        size = 6 if text[at + 1 : at + 2] == "u" else 2
        if len(text) - at < size:
            self._rest = text[at:]
            return len(text)
        self._escape(text[at + 1 : at + size], found)
        return at + size

    def _escape(self, escape: str, found: list[str]) -> None:
        if escape[0] != "u":
            self._take(_ESCAPES.get(escape, escape), found)
            return
        try:
            code = int(escape[1:], 16)
        except ValueError:
            self._take("\ufffd", found)
            return
        if self._high and code in _LOW:
            whole = 0x10000 + ((self._high - _HIGH.start) << 10) + (code - _LOW.start)
            self._high = 0
            self._take(chr(whole), found)
        elif code in _HIGH:
            self._take("", found)
            self._high = code
        else:
            self._take(without_surrogates(chr(code)), found)

    def _take(self, text: str, found: list[str]) -> None:
        """Text of the string that is being read; a half that stands alone before it is no character."""
        if self._high:
            text, self._high = "\ufffd" + text, 0
        if self._wanted:
            found.append(text)
        elif self._string is not None:
            self._string.append(text)

    def _close(self) -> None:
        if self._depth == 1 and not self._is_value:
            self._named = "".join(self._string or ())
        self._string = None
