"""Redaction: what a model is sent lacks the values of hidden names, and those whose names say that they are secrets.

Previews mask a value where its name stands beside it. Here the values themselves are learnt, so that they are masked
wherever they turn up: printed alone, in an error's text, in a result. What is learnt are texts and numbers of four
characters and more, from variables, entries, attributes and columns, and from the environment. What a reader turns back without a tool (base64, hex, escapes,
characters one by one) is found in what is emitted (`values.encodings`). A value that code has enciphered, computed
with or cut to pieces is not known again; nor is one that code made and threw away within one step, unless its own
characters give it away.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, cast
from weakref import WeakSet

from agent_kernel.values import previews
from agent_kernel.values.previews.redaction import is_secret_under, mask_code
from agent_kernel.values.redacted_values import SHORTEST, Reader, RedactedNumbers, RedactedTexts, spellings

__all__ = ["HIDDEN", "Redactor", "without_controls"]

HIDDEN: Final = "(a hidden variable)"
_TOO_LARGE: Final = "(withheld: a hidden variable is too large to search, so this output may contain its values)"
_CLOSED: Final = "(withheld: a hidden variable cannot be read, so this output may contain its values)"
_MOST_OF_HIDDEN: Final = 300_000  # objects of one hidden variable
_MOST_OF_OTHERS: Final = 20_000  # objects of all others, in which secrets are searched for

# Colours and other escape sequences, and what else a terminal would act on; line ends and tabs stay.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORD = re.compile(r"[^\W\d]\w*")
_ENVIRON = re.compile(r"environ\(\{.*?\}\)", re.DOTALL)


def without_controls(text: str) -> str:
    """The text without what a terminal would act on."""
    return _CONTROL.sub("", text)


class Redactor:
    """What must not be sent of one namespace, as far as it was seen so far.

    Args:
        hidden: says which names no model is told of.
    """

    def __init__(self, hidden: Callable[[str], bool]) -> None:
        self._hidden = hidden
        self._texts = RedactedTexts()
        self._numbers = RedactedNumbers()
        self._names: set[str] = set()
        # Hidden names, and what is said of what is shown as long as they are there.
        self._unreadable: dict[str, str] = {}
        self._environment = _Environment({})
        self._words_of_cells: dict[str, frozenset[str]] = {}
        self._cells_read: set[tuple[str, frozenset[str]]] = set()  # each with the hidden names in it
        self._above: WeakSet[Redactor] = WeakSet()  # a notebook's own outlives the runs that begin others in it

    def include(self, other: Redactor) -> None:
        """Mask also what another one does, as long as that is there: the one of the run that began this one's."""
        if not other._includes(self):
            self._above.add(other)

    def _includes(self, other: Redactor) -> bool:
        return self is other or any(one._includes(other) for one in list(self._above))

    @property
    def is_complete(self) -> bool:
        """Whether all of each hidden variable is known, so that none of it is left in a text that is masked."""
        return not self._unreadable and all(one.is_complete for one in list(self._above))

    @property
    def withheld(self) -> str:
        """What stands for a text that may have hidden values."""
        return next(filter(None, (*self._unreadable.values(), *(one.withheld for one in list(self._above)))), "")

    def learn(self, namespace: Mapping[str, object], names: Iterable[str]) -> None:
        """Look at these variables, as they are now: each hidden one by itself, then all others for secrets."""
        names = list(names)
        hidden = [name for name in names if self._hidden(name)]
        self._names.update(hidden)
        self._unreadable = {
            name: why for name, why in self._unreadable.items() if name in namespace and self._hidden(name)
        }
        for name in hidden:
            if name in namespace:
                reader = Reader(self._texts, self._numbers, _MOST_OF_HIDDEN)
                self._unreadable.pop(name, None)
                if not reader.read([(namespace[name], True)]):
                    self._unreadable[name] = _TOO_LARGE
                elif reader.has_closed:
                    self._unreadable[name] = _CLOSED
        self._learn_cells(namespace)
        others = [name for name in names if name in namespace and name not in self._names]
        reader = Reader(self._texts, self._numbers, _MOST_OF_OTHERS)
        reader.read([(namespace[name], is_secret_under(name, namespace[name])) for name in others])

    def _learn_cells(self, namespace: Mapping[str, object]) -> None:
        """What the notebook's cells wrote down for hidden names stays in `In`, also once the variable has another value."""
        cells = namespace.get("In")
        if type(cells) is not list:
            return
        texts = {cell for cell in cast("list[object]", cells) if type(cell) is str}
        for cell in texts - self._words_of_cells.keys():
            self._words_of_cells[cell] = frozenset(_WORD.findall(cell))
        words = frozenset[str]().union(*self._words_of_cells.values())
        names = frozenset(filter(self._hidden, words))
        for cell in texts:
            key = cell, names & self._words_of_cells[cell]
            if key[1] and key not in self._cells_read:
                self._cells_read.add(key)
                self._texts.update(face for one in mask_code(*key)[1] for face in spellings(one))

    def learn_environment(self) -> None:
        """Look at the environment: what is a secret there is masked everywhere, any other value beside its name."""
        now = dict(os.environ)
        if now != self._environment.variables:
            self._environment = _Environment(now)
            self._texts.update(self._environment.secrets)

    def without_environment(self, text: str) -> str:
        """The text without variables of the environment, and nothing else masked: what is kept on this machine."""
        return self._environment.redact(text)

    def knows(self, word: str) -> bool:
        """Whether a word is itself one of the texts that are masked, or gives one: a variable may be called as a password is."""
        is_known = word in self._texts or self._texts.is_encoded(word) or self._numbers.are_in(word)
        return is_known or any(one.knows(word) for one in list(self._above))

    def redact(self, text: str, *, names: bool = True) -> str:
        """The text without all that. `names`: also without the names that are hidden, as no model is told of them."""
        if not text:
            return text
        for above in list(self._above):
            text = above.redact(text, names=names)
        text = self._texts.mask_encoded(without_controls(text))
        text = self._numbers.mask(self._texts.mask(text))
        text = previews.mask_text(self._environment.redact(text))
        if names and self._names:
            named = "|".join(map(re.escape, sorted(self._names)))
            text = re.sub(rf"\b(?:{named})\b", HIDDEN, text)
        return text


class _Environment:
    """The environment's variables as they may stand in a text: a listing of all, each beside its name, secrets alone."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        searched = {name: value for name, value in variables.items() if len(value) >= SHORTEST}
        self._values = {
            name: sorted({value, repr(value)[1:-1]}, key=len, reverse=True) for name, value in searched.items()
        }
        named = "|".join(map(re.escape, sorted(searched, key=len, reverse=True)))
        # `NAME=value`, `'NAME': 'value'`, `('NAME', 'value')`, and `NAME    value` of a table.
        self._pairs = re.compile(rf"""\b({named})\b['"]?\s*[:=,]?\s*['"]?""") if named else None
        self.secrets = {
            face for name, value in searched.items() if _is_secret(name, value) for face in spellings(value)
        }
        self._texts = RedactedTexts(self.secrets)

    def redact(self, text: str) -> str:
        return self._without_pairs(self._texts.mask(_ENVIRON.sub(f"environ({previews.MASK})", text)))

    def _without_pairs(self, text: str) -> str:
        if self._pairs is None:
            return text
        pieces: list[str] = []
        end = 0
        for found in self._pairs.finditer(text):
            value = next((one for one in self._values[found[1]] if text.startswith(one, found.end())), "")
            if value and found.start() >= end:
                pieces += [text[end : found.end()], previews.MASK]
                end = found.end() + len(value)
        return "".join([*pieces, text[end:]])


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable of the environment is one by its name or its content.

    The path of a file or folder that exists is no secret, also where the name says so (`PWD`, `…_TOKEN_FILE`).
    """
    is_path = Path(value).is_absolute() and Path(value).exists()
    return previews.holds_a_secret(value) or (previews.names_a_secret(name) and not is_path)
