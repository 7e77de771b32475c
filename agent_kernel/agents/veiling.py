"""Keep values out of what a model is sent: those of hidden names, and those whose names say that they are secrets.

Summaries mask a value where its name stands beside it. Here the values themselves are learnt, so that they are masked
wherever they turn up: printed alone, in an error's text, in a result. What is learnt are texts and numbers of four
characters and more, from variables, entries, attributes and columns, and from the environment. A value that code has
turned into something else (reversed, encoded, cut to pieces) is not known again; nor is one that code made and threw
away within one step, unless its own characters give it away.
"""

from __future__ import annotations

import datetime
import decimal
import os
import re
import uuid
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, cast

from agent_kernel.agents.numerals import Numerals
from agent_kernel.values import summaries
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.masking import names_its_neighbours
from agent_kernel.values.summaries.reading import instance_dict

__all__ = ["HIDDEN", "Veil", "without_controls"]

HIDDEN: Final = "(a hidden variable)"
_SHORTEST: Final = 4  # characters of a value that is looked for
_TELLING: Final = 8  # of a longer one, so many at its beginning are enough: it may be shown cut off
_MOST_VALUES: Final = 5_000
_MOST_LOOKED_AT: Final = 20_000
_MOST_OF_ONE: Final = 1_000  # rows from either end, items
_DEEPEST: Final = 4

# Colours and other escape sequences, and what else a terminal would act on; line ends and tabs stay.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://")
_ENVIRON = re.compile(r"environ\(\{.*?\}\)", re.DOTALL)
_entries_of = dict[object, object].items
_MAPPINGS: ExactTypes[bool] = ExactTypes([(kind, True) for kind in (dict, OrderedDict, defaultdict)])
_SEQUENCES: ExactTypes[bool] = ExactTypes([(kind, True) for kind in (list, tuple, set, frozenset, deque)])
_NUMBERS: ExactTypes[bool] = ExactTypes([(kind, True) for kind in (int, float, complex)])
_SPELLED: ExactTypes[bool] = ExactTypes(
    [(kind, True) for kind in (decimal.Decimal, uuid.UUID, datetime.date, datetime.datetime, datetime.time)],
    {"fractions:Fraction": True},
)
_LEAVES: ExactTypes[bool] = ExactTypes([(kind, True) for kind in (bool, type(None), FunctionType, ModuleType, type)])
_TABLES: ExactTypes[str] = ExactTypes(
    libraries={"pandas:DataFrame": "frame", "pandas:Series": "series", "numpy:ndarray": "array"}
)


def without_controls(text: str) -> str:
    """The text without what a terminal would act on."""
    return _CONTROL.sub("", text)


class Veil:
    """What must not be sent from one namespace, as far as it was seen so far.

    Args:
        hidden: says which names no model is told of.
    """

    def __init__(self, hidden: Callable[[str], bool]) -> None:
        self._hidden = hidden
        self._texts: set[str] = set()
        self._numbers = Numerals()
        self._names: set[str] = set()
        self._environment = _Environment({})
        self._ordered: list[str] | None = None

    def learn(self, namespace: Mapping[str, object], names: Iterable[str]) -> None:
        """Look at these variables, as they are now."""
        reader = _Reader(self._texts, self._numbers)
        for name in names:
            is_hidden = self._hidden(name)
            if is_hidden:
                self._names.add(name)
            if name in namespace:
                reader.read(namespace[name], is_hidden or summaries.names_a_secret(name), 0)
        self._ordered = None

    def learn_environment(self) -> None:
        """Look at the environment: what is a secret there is masked everywhere, any other value beside its name."""
        now = dict(os.environ)
        if now != self._environment.variables:
            self._environment = _Environment(now)
            self._texts.update(self._environment.secrets)
            self._ordered = None

    def without_environment(self, text: str) -> str:
        """The text without variables of the environment, and nothing else masked: what is kept on this machine."""
        return self._environment.masked(text)

    def knows(self, word: str) -> bool:
        """Whether a word is itself one of the texts that are masked: a variable may be called as a password is."""
        return word in self._texts

    def masked(self, text: str, *, names: bool = True) -> str:
        """The text without all that. `names`: also without the names that are hidden, as no model is told of them."""
        if not text:
            return text
        text = without_controls(text)
        if self._ordered is None:
            self._ordered = sorted(self._texts, key=len, reverse=True)
        for value in self._ordered:
            text = _without(text, value)
        text = self._numbers.masked(text)
        text = summaries.mask_text(self._environment.masked(text))
        if names and self._names:
            named = "|".join(map(re.escape, sorted(self._names)))
            text = re.sub(rf"\b(?:{named})\b", HIDDEN, text)
        return text


class _Environment:
    """The environment's variables as they may stand in a text: a listing of all, each beside its name, secrets alone."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        told = {name: value for name, value in variables.items() if len(value) >= _SHORTEST}
        self._values = {name: sorted({value, repr(value)[1:-1]}, key=len, reverse=True) for name, value in told.items()}
        named = "|".join(map(re.escape, sorted(told, key=len, reverse=True)))
        # `NAME=value`, `'NAME': 'value'`, `('NAME', 'value')`, and `NAME    value` of a table.
        self._beside = re.compile(rf"""\b({named})\b['"]?\s*[:=,]?\s*['"]?""") if named else None
        self.secrets = {face for name, value in told.items() if _is_secret(name, value) for face in _faces(value)}
        self._longest_first = sorted(self.secrets, key=len, reverse=True)

    def masked(self, text: str) -> str:
        text = _ENVIRON.sub(f"environ({summaries.MASK})", text)
        for value in self._longest_first:
            text = _without(text, value)
        return self._without_pairs(text)

    def _without_pairs(self, text: str) -> str:
        if self._beside is None:
            return text
        pieces: list[str] = []
        done = 0
        for found in self._beside.finditer(text):
            value = next((one for one in self._values[found[1]] if text.startswith(one, found.end())), "")
            if value and found.start() >= done:
                pieces += [text[done : found.end()], summaries.MASK]
                done = found.end() + len(value)
        return "".join([*pieces, text[done:]])


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable of the environment is one by its name or its content.

    A file or folder is none, though its variable be called so (`PWD`, `…_TOKEN_FILE`): others lie beside it.
    """
    is_place = Path(value).is_absolute() and Path(value).exists()
    return summaries.holds_a_secret(value) or (summaries.names_a_secret(name) and not is_place)


def _without(text: str, value: str) -> str:
    """The text without a value, also where only its beginning is shown."""
    if value.isalpha() and len(value) < _TELLING:  # a word: others may begin with it
        return re.sub(rf"(?<![^\W\d_]){value}(?![^\W\d_])", summaries.MASK, text) if value in text else text
    scheme = _SCHEME.match(value)  # tells nothing: every database's address begins so
    begins = value[: _TELLING + (scheme.end() if scheme else 0)]
    at = text.find(begins)
    while at >= 0:
        end = at + len(begins)
        while end < len(text) and end - at < len(value) and text[end] == value[end - at]:
            end += 1
        text = text[:at] + summaries.MASK + text[end:]
        at = text.find(begins, at + len(summaries.MASK))
    return text


def _faces(value: str) -> set[str]:
    """The value as it may stand in a text: as it is, as Python writes it, line by line."""
    found = {value.strip(), repr(value)[1:-1]}
    if "\n" in value:
        found |= {line.strip() for line in islice(value.splitlines(), _MOST_OF_ONE) if len(line.strip()) >= _TELLING}
    return {face for face in found if len(face) >= _SHORTEST and summaries.MASK not in face}


class _Reader:
    """Goes through values without running any code of theirs."""

    def __init__(self, texts: set[str], numbers: Numerals) -> None:
        self._texts = texts
        self._numbers = numbers
        self._left = _MOST_LOOKED_AT

    def read(self, value: object, hide: bool, depth: int) -> None:
        """Learn a value that is to be hidden, or of another one the parts that are."""
        self._left -= 1
        kind = type(value)
        if self._left < 0 or depth > _DEEPEST or _LEAVES.find(kind) or len(self._texts) > _MOST_VALUES:
            return
        if kind is str or kind is bytes or kind is bytearray:
            if hide:
                self._learn(cast("str | bytes", value))
        elif _NUMBERS.find(kind):
            if hide:
                self._number(repr(value))
        elif _SPELLED.find(kind):
            if hide:
                self._texts.update(face for face in (str(value), repr(value)) if len(face) >= _SHORTEST)
        elif _MAPPINGS.find(kind):
            self._entries(cast("dict[object, object]", value), hide, depth)
        elif _SEQUENCES.find(kind):
            self._items(list(islice(cast("Iterable[object]", value), _MOST_OF_ONE)), hide, depth)
        elif (table := _TABLES.find(kind)) is not None:
            self._table(value, table, hide, depth)
        else:
            for name, held in list(islice(instance_dict(value).items(), _MOST_OF_ONE)):
                self.read(held, hide or summaries.names_a_secret(name), depth + 1)

    def _learn(self, value: str | bytes | bytearray) -> None:
        if isinstance(value, str):
            self._texts.update(_faces(value))
        else:
            self._texts.update(_faces(bytes(value).decode("utf-8", "replace")))
            self._texts.update(_faces(repr(bytes(value))[2:-1]))

    def _number(self, spelled: str) -> None:
        if not self._numbers.learn(spelled) and len(spelled) >= _SHORTEST:
            self._texts.add(spelled)  # a complex one, or one that is too large to be compared

    def _entries(self, value: dict[object, object], hide: bool, depth: int) -> None:
        entries = list(islice(_entries_of(value), _MOST_OF_ONE))
        hide = hide or any(names_its_neighbours(key, held) for key, held in entries)
        for key, held in entries:
            self.read(held, hide or (type(key) is str and summaries.names_a_secret(key)), depth + 1)

    def _items(self, items: list[object], hide: bool, depth: int) -> None:
        first = items[0] if items else None
        pair = len(items) == 2 and type(first) is str and summaries.names_a_secret(first)
        for at, held in enumerate(items):
            self.read(held, hide or (pair and at > 0), depth + 1)

    def _table(self, value: Any, table: str, hide: bool, depth: int) -> None:
        if table == "array":
            if hide and value.dtype.kind in "OSUif":
                self._cells(value.reshape(-1), depth, words=True)
        elif table == "series":
            if hide or (type(value.name) is str and summaries.names_a_secret(value.name)):
                self._cells(value.array, depth, words=hide)
        else:
            names: list[object] = list(islice(value.columns, _MOST_OF_ONE))
            for at, name in enumerate(names):
                if hide or (type(name) is str and summaries.names_a_secret(name)):
                    self._cells(value.iloc[:, at].array, depth, words=hide)

    def _cells(self, cells: Any, depth: int, *, words: bool) -> None:
        """The first and the last of many. `words`: also short words, which a column called `token` may be full of."""
        many = len(cells)
        ends = range(many) if many <= 2 * _MOST_OF_ONE else (*range(_MOST_OF_ONE), *range(many - _MOST_OF_ONE, many))
        for held in dict.fromkeys(map(str, (cells[at] for at in ends))):
            if words or not (held.isalpha() and len(held) < _TELLING):
                if _is_number(held):
                    self._number(held)
                else:
                    self.read(held, True, depth + 1)


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).lstrip("-").isdigit()
