"""What a verb is given: what it acts on, and its arguments.

It acts on a repository, the live session if there is one, and the interface that was used. Its arguments are parsed by
argparse, without argparse ever ending the process. A parser also knows what each argument stands for (a ref, a variable
…), which is what completion asks it.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeAlias

import msgspec

from agent_kernel.errors import NotBoundError, RefNotFoundError
from agent_kernel.repository import Commit, Entry, Head, ObjectId, split_path

if TYPE_CHECKING:
    from argparse import _MutuallyExclusiveGroup as Choice  # pyright: ignore[reportPrivateUsage]  # it has no other name

    from agent_kernel.agents.races.race import Race
    from agent_kernel.commands.describe import Result
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.operations import Report

__all__ = [
    "Command",
    "Helped",
    "Kind",
    "Notebook",
    "Parser",
    "Progress",
    "Question",
    "RowLines",
    "Scope",
    "Tasks",
    "UsageProblem",
    "count",
    "days",
]


# -- what it acts on

# The rows of a table that went, came and changed between two stored versions, in lines; None: that cannot be told.
RowLines: TypeAlias = Callable[["Repository", Entry, Entry], tuple[str, ...] | None]
Progress: TypeAlias = Callable[[str, int, int], None]  # what is being done, how much is done, of how much


_VARIABLE = "it is a variable, which show takes as HEAD:{0}, and other commands after -- ({0})"
_OF_A_COMMIT = "only show takes REF:NAME, and other commands take the two apart ({0} -- {1})"
_RANGE = "it is a range, and every verb takes one commit; diff takes two ({0} {1})"

_PLAIN = re.compile(r"\w[\w@%+=:,./~^-]*|[\w./-]+")  # what neither a shell nor %agent takes apart


def _quote(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


class Tasks(Protocol):
    """The agents that work in a notebook."""

    @property
    def model(self) -> str:
        """The name of the model that takes tasks; "" if none is named."""
        ...

    def choose(self, model: str) -> None:
        """Let another model take tasks. Raises: ModelError, MissingExtraError."""
        ...

    def decide(self, run: str, decision: str, *, reason: str = "", code: str | None = None) -> Result:
        """Answer for the step that waits, and let the run go on."""
        ...

    def resume(self, run: str, answer: str, *, force: bool = False, model: str = "", says: str = "") -> Result:
        """Let a run go on."""
        ...

    def check_code(self, code: str) -> None:
        """Raise UsageProblem if the text that replaces a step is not valid code."""
        ...

    def decide_between_cells(self, run: str, decision: str, *, reason: str = "", code: str | None = None) -> str:
        """Answer while no cell runs, and let the run go on under the cell that asked; returns how it stands then."""
        ...

    def resume_between_cells(self, run: str, answer: str) -> str:
        """Let a run go on while no cell runs; returns how it stands then."""
        ...

    def way_on(self, run: str) -> tuple[str, str]:
        """Why a run that stopped cannot go on here ("": it can), and the line to run where that takes a cell ("": it does not)."""
        ...

    def race(self, id: str) -> Race:
        """A race of this notebook, also one of an earlier kernel. Raises: RunNotFoundError."""
        ...

    def pick(self, id: str, number: int) -> Report:
        """Merge a candidate of a race, unless a restart took the variables and nobody brought them back."""
        ...

    def keep(self, race: Race) -> None:
        """A race is shown, and may be picked from where it is."""
        ...

    def offer_edit(self, run: str, code: str) -> None:
        """Put the code into a cell that lets it run."""
        ...


class Notebook(Protocol):
    """What only the interface can do: change which store the notebook is bound to, and whether cells commit."""

    def bind(self, place: str | None, *, source: str | None, branch: str | None) -> tuple[str, ...]:
        """Bind the notebook to a store and return what to say about it."""
        ...

    def record(self, on: bool) -> None:
        """Let cells be commits, or stop it."""
        ...

    @property
    def tasks(self) -> Tasks:
        """What agents do here."""
        ...


@dataclass
class Scope:
    """One use of a verb. `session` is None on the command line."""

    repo_or_none: Repository | None
    session: Session | None = None
    notebook: Notebook | None = None
    store_name: str = ""  # how the store was named, where the line names one
    command: str = "%agent"  # what a hint should tell them to type
    now_ns: int = field(default_factory=time.time_ns)
    progress: Progress | None = None
    row_lines: RowLines | None = None
    sides: tuple[str, str] = ("", "")  # the files that are compared, where there are two
    brief: bool = True  # someone reads the answer: the newest part of a long one will do

    def spell_command(self, *words: str) -> str:
        """Spell what to type at this interface, with these words."""
        name, *rest = words
        return " ".join(
            [self.command, name, *map(_quote, [self.store_name] if self.store_name else []), *map(_quote, rest)]
        )

    def step(self, doing: str) -> Callable[[int, int], None] | None:
        """What a long operation of the repository reports to, if someone wants to see it."""
        progress = self.progress
        return None if progress is None else lambda done, total: progress(doing, done, total)

    @property
    def repo(self) -> Repository:
        """The repository.

        Raises:
            NotBoundError: the notebook is bound to none.
        """
        if self.repo_or_none is None:
            raise NotBoundError
        return self.repo_or_none

    @property
    def session_id(self) -> str:
        """Whose HEAD counts: the session's, or, without one, where the store was used last."""
        return self.session.id if self.session is not None else ""

    def live(self) -> Session:
        """The session.

        Raises:
            NotBoundError: no notebook is bound here.
        """
        if self.session is None:
            raise NotBoundError
        return self.session

    def head(self) -> Head:
        return self.repo.head(self.session_id)

    def resolve(self, text: str) -> ObjectId:
        """The commit of this name, as whoever asks sees it.

        Raises:
            RefNotFoundError: no commit has this name. If a variable has it, the error says how to write that.
        """
        try:
            return self.repo.resolve(text, self.session_id)
        except RefNotFoundError as error:
            if not error.reason and self._is_variable(text):
                raise RefNotFoundError(text, error.known, _VARIABLE.format(text)) from None
            if not error.reason and ".." in text:
                ends = (end.strip(".") or "HEAD" for end in text.split("..", 1))
                raise RefNotFoundError(text, error.known, _RANGE.format(*ends)) from None
            if not error.reason and ":" in text:
                rev, name = split_path(text)
                raise RefNotFoundError(text, error.known, _OF_A_COMMIT.format(rev, name)) from None
            raise

    def _is_variable(self, text: str) -> bool:
        live = self.session.namespace if self.session is not None else {}
        return text.isidentifier() and (text in live or text in self.repo.tree_at(self.head().commit))

    def branch_meant(self, text: str) -> str | None:
        """The branch that the text names as a whole (`main`, `HEAD`, `@{-1}`); None: a commit, or nothing."""
        return self.repo.branch_meant(text, self.session_id)

    def commit(self, text: str) -> tuple[ObjectId, Commit]:
        found = self.resolve(text)
        return found, self.repo.commit_at(found)


# -- its arguments
#
# Everything after a lone `--` is variable names, as in git; it is split off first, because argparse's own rule for it
# changed between Python versions.

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
            message += f"; write it before {' and '.join(self._greedy)}: they take all words that follow"
        if message.startswith("unrecognized arguments:"):
            message += "".join(f"; {hint}" for option, hint in self._answers.items() if option in message.split())
            message += self._close(message.split()[2:])
        raise UsageProblem(f"{message} ({usage})")

    def _close(self, words: Sequence[str]) -> str:
        """Options that are meant maybe by those of the words that look like one."""
        from difflib import get_close_matches

        wrong = (word.partition("=")[0] for word in words if word.startswith("--") and word not in self._answers)
        close = [near for word in wrong for near in get_close_matches(word, list(self.options), 1, 0.7)]
        return f"; did you mean {' and '.join(dict.fromkeys(close))}?" if close else ""


class Command(msgspec.Struct, frozen=True):
    """One word of `%agent` and `agent-kernel`, and where its work is done."""

    name: str
    help: str  # one line
    home: str  # the module of this package that defines `<name>_arguments` and `<name>`
    needs: Literal["store", "session", "notebook"] = "store"
    alone: str = ""  # the same line for a store without a notebook, where that is something else
    writes: bool = False  # refused on a branch that a living process holds, unless forced
