r"""Text as a terminal shows it: carriage returns and backspaces type over what stands on the line.

A progress bar prints its line anew ten thousand times; only the last one is to be kept.
"""

from __future__ import annotations

import re
from typing import Final

# What begins a line anew, and what erases (a part of) it.
_TYPES_OVER: Final = re.compile("[\r\b]|\x1b\\[[012]?K")
_MOVES: Final = re.compile("\r+|\b+|\x1b\\[[012]?K")


class Line:
    """The last line of a stream, which may still be typed over."""

    __slots__ = ("column", "text")

    def __init__(self) -> None:
        self.text = ""
        self.column = 0

    def take(self) -> str:
        """What stands on the line; it is empty then."""
        text, self.text, self.column = self.text, "", 0
        return text

    def type(self, text: str) -> str:
        r"""Print the text here; return the lines that are finished by it.

        >>> line = Line()
        >>> line.type("10 %\r20 %\rdone\n1"), line.text
        ('done\n', '1')
        """
        if _TYPES_OVER.search(text) is None and self.column == len(self.text):
            end = text.rfind("\n") + 1
            finished = self.take() + text[:end] if end else ""
            self.text += text[end:]
            self.column = len(self.text)
            return finished
        *lines, rest = text.split("\n")
        finished = ""
        if lines:
            done: list[str] = []
            for line in lines:
                self._overtype(line)
                done.append(self.take())
            finished = "\n".join(done) + "\n"
        self._overtype(rest)
        return finished

    def _overtype(self, text: str) -> None:
        start = 0
        for move in _MOVES.finditer(text):
            self._put(text[start : move.start()])
            start = move.end()
            kind = move[0][0]
            if kind == "\r":
                self.column = 0
            elif kind == "\b":
                self.column = max(0, self.column - len(move[0]))
            elif move[0][2] == "K" or move[0][2] == "0":
                self.text = self.text[: self.column]
            elif move[0][2] == "2":
                self.text, self.column = "", 0
            else:
                self.text = " " * self.column + self.text[self.column :]
        self._put(text[start:])

    def _put(self, text: str) -> None:
        if not text:
            return
        end = self.column + len(text)
        # Colours take characters but no columns: what they are in is replaced rather than mixed.
        rest = "" if "\x1b" in text or "\x1b" in self.text else self.text[end:]
        self.text = self.text[: self.column] + text + rest
        self.column = end
