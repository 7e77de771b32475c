"""Arguments of a verb, parsed by argparse without argparse ever ending the process.

A parser also knows what each argument stands for (a ref, a variable …), which is what completion asks it. Everything
after a lone `--` is variable names, as in git; it is split off first, because argparse's own rule for it changed
between Python versions.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, NoReturn, TypeAlias

import msgspec

if TYPE_CHECKING:
    from argparse import _MutuallyExclusiveGroup as Choice  # pyright: ignore[reportPrivateUsage]  # it has no other name

__all__ = ["Helped", "Kind", "Parser", "Question", "UsageProblem", "Verb", "count", "days"]

Kind: TypeAlias = Literal["ref", "branch", "tag", "name", "path", "place", "text"]


class UsageProblem(Exception):  # noqa: N818 - it is told to the one who typed, never handled as a failure
    """The arguments do not fit the verb. Its text is one line for the person who typed them."""


class Question(UsageProblem):
    """Nothing is wrong: what cannot be undone is asked about first, with what to type to have it done."""


class Helped(Exception):  # noqa: N818 - nothing failed: help was asked for
    """Help was asked for; the text is what to show."""


_MOST = 1_000_000_000  # nobody means more, and what counts with machine words takes no more


def count(text: str) -> int:
    """A whole number of things, 0 or more, for `Parser.value`."""
    if not text.isdecimal() or not text.isascii():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, 0 or more")
    return min(int(text.lstrip("0")[:20] or "0"), _MOST)


def amount(text: str, what: str = "a number") -> float:
    """A number, 0 or more, for `Parser.value`. `what`: of what, for the message."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}, 0 or more")
    return number


def days(text: str) -> float:
    """A number of days, 0 or more, for `Parser.value`."""
    return amount(text, "a number of days")


class Parser(argparse.ArgumentParser):
    """An argument parser that raises instead of leaving, and remembers what can be completed."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.kinds: list[Kind] = []  # of the positional arguments, in order
        self.options: dict[str, Kind | None] = {"--help": None, "-h": None}  # option: what its value is
        self.takes_names = False
        self.repeats = False  # the last positional argument may be given again
        self._greedy: list[str] = []  # options that take every word after them
        self._explained = ""
        self._answers: dict[str, str] = {}

    def takes(self, name: str, kind: Kind, *, help: str, optional: bool = True, default: str | None = None) -> None:
        """Take one positional argument of this kind."""
        self.kinds.append(kind)
        nargs = "?" if optional else None
        self.add_argument(name, nargs=nargs, default=default, metavar=name.upper(), help=help)

    def takes_all(self, name: str, kind: Kind, *, help: str) -> None:
        """Take any number of positional arguments of this kind, as `words`; nothing may come after them."""
        self.kinds.append(kind)
        self.repeats = True
        self.add_argument("words", nargs="*", metavar=name.upper(), help=help)

    @property
    def takes_prose(self) -> bool:
        """Whether it takes any number of words that a person writes to somebody."""
        return self.repeats and self.kinds[-1:] == ["text"]

    def one_of(self) -> Choice:
        """A group of flags of which at most one may be given."""
        return self.add_mutually_exclusive_group()

    def flag(self, *names: str, help: str, group: Choice | None = None) -> None:
        """Take an option without a value."""
        self.options |= dict.fromkeys(names)
        (group or self).add_argument(*names, action="store_true", help=help)

    def value(
        self,
        *names: str,
        metavar: str,
        help: str,
        kind: Kind = "text",
        convert: Callable[[str], object] = str,
        default: object = None,
        group: Choice | None = None,
    ) -> None:
        """Take an option with one value."""
        self.options |= dict.fromkeys(names, kind)
        (group or self).add_argument(*names, metavar=metavar, help=help, type=convert, default=default)

    def several(self, *names: str, metavar: str, help: str, kind: Kind) -> None:
        """Take an option with one or more values, which may be given again."""
        self.options |= dict.fromkeys(names, kind)
        self._greedy += names
        self.add_argument(*names, metavar=metavar, help=help, nargs="+", action="extend", default=[])

    def names(self, help: str) -> None:
        """Take variable names after `--`."""
        self.takes_names = True
        self.epilog = f"after --:\n  NAME  {help}"

    def answers(self, option: str, text: str) -> None:
        """Say why there is no such option, which people know from git."""
        self._answers[option] = text

    def explains(self, text: str) -> None:
        """Say more below the options."""
        self._explained = text

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the words; `names` of the answer holds what stood after `--`.

        Raises:
            UsageProblem: a word does not fit.
            Helped: help was asked for.
        """
        at = words.index("--") if "--" in words else len(words)
        names = list(words[at + 1 :])
        if at < len(words) and not self.takes_names:
            raise UsageProblem(f"{self.prog} takes no names after --")
        if at < len(words) and not names:
            raise UsageProblem("say which variables, after --")  # all of them would be the opposite of what was begun
        # Given, because argparse would make it here and then take the % of %agent for a placeholder.
        names_too = " [-- NAME …]" if self.takes_names else ""
        self.usage = (self.format_usage().removeprefix("usage: ").rstrip("\n") + names_too).replace("%", "%%")
        options = self.parse_intermixed_args(list(words[:at]))  # `branch STORE -d NAME` mixes both
        options.names = names
        return options

    def print_help(self, file: object = None) -> None:
        more = f"\n\n{self._explained}" if self._explained else ""
        raise Helped(self.format_help().rstrip() + more)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise UsageProblem((message or "").strip())

    def error(self, message: str) -> NoReturn:
        usage = " ".join(self.format_usage().split())
        if self._greedy and "are required" in message:
            message += f"; it stands before {' and '.join(self._greedy)}, which take every word after them"
        if message.startswith("unrecognized arguments:"):
            message += "".join(f"; {said}" for option, said in self._answers.items() if option in message.split())
            message += self._close(message.split()[2:])
        raise UsageProblem(f"{message} ({usage})")

    def _close(self, words: Sequence[str]) -> str:
        """Options that are meant maybe by those of the words that look like one."""
        from difflib import get_close_matches

        wrong = (word.partition("=")[0] for word in words if word.startswith("--") and word not in self._answers)
        close = [near for word in wrong for near in get_close_matches(word, list(self.options), 1, 0.7)]
        return f"; did you mean {' and '.join(dict.fromkeys(close))}?" if close else ""


class Verb(msgspec.Struct, frozen=True):
    """One word of `%agent` and `agent-kernel`, and where its work is done."""

    name: str
    help: str  # one line
    home: str  # the module of this package that defines `<name>_arguments` and `<name>`
    needs: Literal["store", "session", "notebook"] = "store"
    alone: str = ""  # the same line for a store without a notebook, where that is something else
    writes: bool = False  # refused on a branch that a living process holds, unless forced
