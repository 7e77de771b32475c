"""Split code into words, strings and signs, whatever state it is in.

Cells hold magics, shell lines and code that does not compile, where Python's own tokenizer raises; and its tokens
differ between releases. Here every character belongs to exactly one lexeme, so that a text can be put together again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias, cast

__all__ = ["Lexeme", "lexemes", "literal_text"]

Sort: TypeAlias = Literal["comment", "string", "number", "name", "newline", "space", "sign"]

_LEXEME = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<string>(?:[rRbBuUfFtT]{1,2}(?=["']))?(?:
          \"{3}(?:[^\\"]|\\.|\"(?!\"\"))*(?:\"{3}|\Z) | '{3}(?:[^\\']|\\.|'(?!''))*(?:'{3}|\Z)
        | "(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z) | '(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z) ))
    | (?P<number>\d[\w.]*)
    | (?P<name>[^\W\d]\w*)
    | (?P<newline>\n)
    | (?P<space>(?:[^\S\n]|\\\n)+)
    | (?P<sign>[=!<>]=|:=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTES = re.compile(r"([A-Za-z]{0,2})(\"{3}|'{3}|[\"'])")


class Lexeme(NamedTuple):
    """One piece of code."""

    sort: Sort
    text: str


def lexemes(source: str) -> Iterator[Lexeme]:
    """The pieces of the code, in order; joined, they are the code."""
    for found in _LEXEME.finditer(source):
        yield Lexeme(cast("Sort", found.lastgroup), found[0])


def literal_text(literal: str) -> tuple[str, str, str]:
    """A string literal's opening (with its prefix), what is between the quotes, and its closing.

    >>> literal_text("b'abc'")
    ("b'", 'abc', "'")
    """
    match = _QUOTES.match(literal)
    if match is None:
        return "", literal, ""
    opening, quotes = match[0], match[2]
    closed = len(literal) >= len(opening) + len(quotes) and literal.endswith(quotes)
    inner = literal[len(opening) : -len(quotes)] if closed else literal[len(opening) :]
    return opening, inner, quotes if closed else ""
