"""Python in pieces that a panel colours: keywords, strings, numbers, comments, and the rest.

The pieces together are the code as it was given. Code that is no Python (magics, a step cut short) is coloured as far as
it can be read, and the rest of it is one plain piece.
"""

from __future__ import annotations

import io
import keyword
import token
import tokenize
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, Literal, TypeAlias

__all__ = ["Piece", "html_of", "pieces_of"]

Kind: TypeAlias = Literal["", "keyword", "string", "number", "comment"]
Piece: TypeAlias = "tuple[Kind, str]"

_STRINGS = {token.STRING} | {
    kind
    for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
    if (kind := getattr(token, name, None)) is not None
}


# For what stays in a saved notebook, where no style sheet is: mixed with the page's text, to read on light and on dark.
_COLOURS: Final = {
    "keyword": "color:color-mix(in srgb,#2e9d42 76%,currentColor)",
    "string": "color:color-mix(in srgb,#d33c3c 80%,currentColor)",
    "number": "color:color-mix(in srgb,#2e9d42 76%,currentColor)",
    "comment": "opacity:.7",
}


def html_of(pieces: Iterable[Piece]) -> str:
    """The pieces as HTML that needs no style sheet, everything escaped.

    >>> html_of([("", "a < "), ("comment", "# b")])
    'a &lt; <span style="opacity:.7"># b</span>'
    """
    return "".join(
        f'<span style="{_COLOURS[kind]}">{escape(text)}</span>' if kind else escape(text) for kind, text in pieces
    )


def pieces_of(code: str) -> tuple[Piece, ...]:
    """The code in its order.

    >>> pieces_of("import x")
    (('keyword', 'import'), ('', ' x'))
    """
    found: list[Piece] = []
    done = 0
    starts = _line_starts(code)
    for kind, (from_row, from_column), (to_row, to_column) in _coloured(code):
        start, end = starts[from_row - 1] + from_column, starts[to_row - 1] + to_column
        if start < done:
            continue
        _add(found, "", code[done:start])
        _add(found, kind, code[start:end])
        done = end
    _add(found, "", code[done:])
    return tuple(found)


def _add(found: list[Piece], kind: Kind, text: str) -> None:
    if not text:
        return
    if found and found[-1][0] == kind:
        text = found.pop()[1] + text
    found.append((kind, text))


def _coloured(code: str) -> Iterator[tuple[Kind, tuple[int, int], tuple[int, int]]]:
    try:
        for found in tokenize.generate_tokens(io.StringIO(code).readline):
            kind = _kind_of(found)
            if kind:
                yield kind, found.start, found.end
    except (tokenize.TokenError, SyntaxError):
        return


def _kind_of(found: tokenize.TokenInfo) -> Kind:
    if found.type in _STRINGS:
        return "string"
    if found.type == token.COMMENT:
        return "comment"
    if found.type == token.NUMBER:
        return "number"
    return "keyword" if found.type == token.NAME and keyword.iskeyword(found.string) else ""


def _line_starts(code: str) -> list[int]:
    # As the tokenizer counts lines: str.splitlines would also break at a form feed.
    starts = [0]
    for line in io.StringIO(code):
        starts.append(starts[-1] + len(line))
    return starts
