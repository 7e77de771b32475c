"""Mask what looks like a secret in code, error texts and messages.

The rules are those of `masking`, which summaries use too. In code, a literal is masked where a name, a keyword or a key
says that it is a secret, and wherever its own characters do. What a cell's code gave away is then masked in its error
and its message as well. Only what is shown is masked: the stored source stays as it was typed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable
from functools import lru_cache

import msgspec

from agent_kernel.values.summaries.lexing import Lexeme, lexemes, literal_text
from agent_kernel.values.summaries.masking import (
    names_a_secret,
    speaks_of_secrets,
    without_private_keys,
    without_secrets,
)
from agent_kernel.values.summaries.wording import MASK

__all__ = ["mask_code", "mask_text"]

_SHORTEST = 4  # characters of a literal that is looked for elsewhere, and digits of a number that is masked
# What asks for a secret by its name: the name is none.
_ASKING = frozenset({"get", "getenv", "getpass", "input", "prompt", "raw_input"})
_COMMAND = re.compile(r"(?m)^[^\S\n]*[%!].*$")  # a magic or shell line: its words are no Python
_FOREIGN = re.compile(r"\s*%%(?!agent\b|time\b|timeit\b|capture\b|prun\b)")  # a cell of another language
_OPENING, _CLOSING = "([{", ")]}"


def mask_text(text: str, hidden: Iterable[str] = ()) -> str:
    """The text without keys, tokens, logins, and without the literals that a cell's code gave away.

    >>> mask_text("cannot reach postgres://me:hunter2@db/x")
    'cannot reach postgres://me:•••• masked@db/x'
    """
    text = without_secrets(text)
    for literal in sorted(hidden, key=len, reverse=True):
        text = text.replace(literal, MASK)
    return text


@lru_cache(maxsize=512)
def mask_code(source: str, names: frozenset[str] = frozenset()) -> tuple[str, frozenset[str]]:
    """The code as it may be shown, and the literals that were masked in it.

    Args:
        names: whose literals are masked, whatever the names look like, and no others' but what looks like a secret by
            itself. By default those of names that look like a secret's.

    >>> mask_code("api_key = 'abcdefgh'; n = 'abc'")[0]
    "api_key = '•••• masked'; n = 'abc'"
    """
    if not names and not speaks_of_secrets(source):
        return without_secrets(source), frozenset()
    if _FOREIGN.match(source):
        return without_secrets(source), frozenset()
    hidden: set[str] = set()
    source = without_private_keys(source)  # its lines may be those of a text that never ends
    shown = "".join(_Reader(names, hidden).read(lexemes(source)))
    shown = _COMMAND.sub(lambda line: without_secrets(line[0]), shown)
    for literal in sorted(hidden, key=len, reverse=True):  # a cell may spell out elsewhere what it assigned
        if names or not _is_word(literal):
            shown = shown.replace(literal, MASK)
    return shown, frozenset(hidden)


def _meant(literal: str) -> str:
    """What a literal with escapes in it stands for."""
    try:
        value: object = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return ""
    return value if type(value) is str else ""


def _is_word(literal: str) -> bool:
    """A literal that is likely to be part of other words: masking it everywhere would make code unreadable."""
    return literal.isalpha() and len(literal) < 8


class _Frame(msgspec.Struct):
    """One level of brackets, or the statement around them."""

    bracket: str = ""
    inherits: bool = False  # it stands where the value of a secret stands
    asks: bool = False  # its first item is the name of what is looked up
    names_one: bool = False  # since the last comma, a name of a secret was met
    assigned: bool = False  # and after it a sign that gives it a value
    items: int = 0


class _Reader:
    """Goes through the code once, knowing at each literal whose value it is."""

    def __init__(self, names: Collection[str], hidden: set[str]) -> None:
        self._names = names
        self._hidden = hidden
        self._frames = [_Frame()]
        self._before = ""

    def read(self, pieces: Iterable[Lexeme]) -> Iterable[str]:
        for piece in pieces:
            yield self._masked(piece)
            if piece.sort == "newline" and len(self._frames) == 1:
                self._frames = [_Frame()]
            elif piece.sort in ("name", "string"):
                self._note(piece)
            elif piece.sort == "sign":
                self._turn(piece.text)
            if piece.sort not in ("space", "newline", "comment"):
                self._before = piece.text

    def _masked(self, piece: Lexeme) -> str:
        if piece.sort == "comment":
            return without_secrets(piece.text)
        if piece.sort == "string" and self._is_secret():
            opening, inner, closing = literal_text(piece.text)
            if not inner:
                return piece.text
            self._give_away(inner)
            if "\\" in inner:
                self._give_away(_meant(piece.text))
            return f"{opening}{MASK}{closing}"
        if piece.sort == "number" and len(piece.text) >= _SHORTEST and self._is_secret():
            self._give_away(piece.text)
            return MASK
        return without_secrets(piece.text) if piece.sort == "string" else piece.text

    def _give_away(self, literal: str) -> None:
        if len(literal) >= _SHORTEST:
            self._hidden.add(literal)

    def _is_secret(self) -> bool:
        frame = self._frames[-1]
        return frame.assigned or (frame.inherits and not (frame.asks and frame.items == 0))

    def _note(self, piece: Lexeme) -> None:
        name = piece.text if piece.sort == "name" else literal_text(piece.text)[1]
        if self._is_meant(name):
            self._frames[-1].names_one = True

    def _is_meant(self, name: str) -> bool:
        # What stands beside the names in a cell was not asked for: it would be masked in the stored source for good.
        return name in self._names if self._names else len(name) <= 80 and names_a_secret(name)

    def _turn(self, sign: str) -> None:
        frame = self._frames[-1]
        if sign in _OPENING:
            self._open(frame, sign)
        elif sign in _CLOSING and len(self._frames) > 1:
            closed = self._frames.pop()
            # d["password"] = …: the key says what is assigned; in f(password) == … nothing is assigned to it.
            self._frames[-1].names_one |= closed.bracket == "[" and closed.names_one
        elif sign == "," and frame.bracket:
            frame.names_one = frame.assigned = False
            frame.items += 1
        elif sign == ";" and not frame.bracket:
            self._frames = [_Frame()]
        elif sign == ":" and not frame.bracket:
            frame.assigned = False  # after `if password == "x":`; an annotation's value is still to come
        elif sign in ("=", ":=", "==", "!=") or (sign == ":" and frame.bracket == "{"):
            frame.assigned = frame.assigned or frame.names_one

    def _open(self, outer: _Frame, sign: str) -> None:
        follows_a_value = bool(self._before) and (self._before[-1].isalnum() or self._before[-1] in "_)]\"'")
        is_subscript = sign == "[" and follows_a_value
        inherits = (outer.assigned or outer.inherits) and not is_subscript
        self._frames.append(_Frame(sign, inherits, asks=sign == "(" and self._before in _ASKING))
