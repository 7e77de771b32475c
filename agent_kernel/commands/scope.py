"""Every command there is, what it is given, and how one is run: words in, a result out.

A command acts on a repository, the live session if there is one, and the interface that was used. Its arguments are parsed
by argparse, without argparse ever ending the process. A parser also knows what each argument stands for (a ref, a variable
…), which is what completion asks it. A command's module is imported when the command is used.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeAlias, cast

import msgspec

from agent_kernel.commands.describe import Json, Line, Lines, Result, Table
from agent_kernel.errors import MergeConflictError, NotBoundError, RefNotFoundError
from agent_kernel.repository import Commit, Entry, Head, ObjectId, split_path

if TYPE_CHECKING:
    from argparse import _MutuallyExclusiveGroup as Choice  # pyright: ignore[reportPrivateUsage]  # it has no other name

    from agent_kernel.agents.races import Race
    from agent_kernel.session import Repository, Session
    from agent_kernel.session.committing import Report


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

    def several(self, name: str, help: str) -> None:
        """Take an option with one or more names, which may be given again."""
        self.options[name] = "name"
        self._greedy += (name,)
        self.add_argument(name, metavar="NAME", help=help, nargs="+", action="extend", default=[])

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


# -- every command there is, and how one is run

_ALL = (
    Command("bind", "choose the store of this notebook, or say which it is", "binding", needs="notebook"),
    Command("status", "where you are, and what is not committed or not saved", "binding"),
    Command("log", "the history, newest first", "history"),
    Command(
        "history",
        "the graph in a notebook: look, compare, check out, roll back, fork",
        "history",
        alone="the history, newest first, as log shows it",
    ),
    Command(
        "show",
        "one commit, or one variable in it (REF:NAME)",
        "show",
        alone="one commit, one variable in it (REF:NAME), or, without a ref, all of a bundle",
    ),
    Command("diff", "what differs between two commits", "show"),
    Command("deps", "the cells that make a variable", "cells"),
    Command("script", "those cells as a script that runs", "cells"),
    Command("notebook", "write the history of a commit as a notebook, with outputs", "cells"),
    Command(
        "checkout",
        "load the variables of a commit, or single ones",
        "checkout",
        writes=True,
        alone="choose the commit or branch at which the next session starts",
    ),
    Command(
        "switch",
        "go to another branch and load its variables",
        "checkout",
        writes=True,
        alone="choose the branch on which the next session starts",
    ),
    Command("rollback", "make a new commit that equals an older one", "checkout", writes=True),
    Command("undo", "reverse this session's last operation", "checkout", needs="session"),
    Command("redo", "do again what undo reversed", "checkout", needs="session"),
    Command("branch", "list, create, rename or delete branches", "checkout", writes=True),
    Command("tag", "list, create or delete tags", "checkout", writes=True),
    Command("merge", "bring another branch's changes into this one", "checkout", writes=True),
    Command("commit", "commit now, with a message", "binding", needs="session"),
    Command("verify", "read all that the history reaches and check it against its digests", "upkeep"),
    Command("stats", "what the store holds, and how large it is", "upkeep"),
    Command("gc", "delete what no branch, tag or session can reach", "upkeep"),
    Command("prune", "thin out old history by a retention policy", "upkeep"),
    Command("forget", "erase a variable or a commit from the whole history", "upkeep"),
    Command(
        "export", "write one file with notebook, state and history, for somebody else", "agent_kernel.bundle.commands"
    ),
    Command("import", "bring the branches of a bundle into this store", "agent_kernel.bundle.commands"),
    Command("ignore", "never store a variable", "binding"),
    Command("model", "choose the model that takes tasks, or say which it is", "agents", needs="notebook"),
    Command("runs", "what agents did here, and which of it waits for you", "agents"),
    Command("board", "what goes on: workflows, queues, agents, tools, indexing, speech", "board"),
    Command(
        "approve",
        "run the step that waits for you",
        "agents",
        alone="have the step that waits run when its notebook resumes it",
    ),
    Command(
        "deny",
        "do not let it run, and say why",
        "agents",
        alone="do not let the step that waits run, and say why",
    ),
    Command("edit", "change the code of the step that waits, in a cell", "agents", needs="notebook"),
    Command("resume", "go on with a run that was stopped, or answer its question", "agents", needs="notebook"),
    Command("hide", "keep a variable out of what models are told", "binding"),
    Command("trust", "allow loading from a store that someone else made, or forbid it again", "binding"),
    Command("on", "let cells be commits again", "binding", needs="notebook"),
    Command("off", "stop making cells commits", "binding", needs="notebook"),
)
COMMANDS: dict[str, Command] = {command.name: command for command in _ALL}


# What people type who know it from git or from elsewhere.
_HINTS = {
    "add": "nothing has to be added: every cell is a commit of what it changed",
    "blame": "log -- NAME shows the commits that changed a variable",
    "back": "undo reverses the last operation, rollback REF goes further back",
    "cherry-pick": (
        "checkout REF -- NAME takes single variables; in a cell of the notebook, "
        'import agent_kernel; agent_kernel.here().session.cherry_pick("REF") takes all that a commit changed'
    ),
    "clone": "bind --from PLACE starts as a copy of another store",
    "export": "notebook writes the history as a notebook, script the cells that make a variable",
    "delete": "forget erases a variable or a commit, branch -d and tag -d delete names",
    "init": "bind chooses the store",
    "reflog": "@{1} is where the branch was before its last move, @{-1} the branch that was left last",
    "remove": "forget erases a variable or a commit, ignore stores it no more",
    "reset": "rollback REF makes a new commit that equals an older one, checkout REF goes there",
    "restore": "checkout REF brings all variables of a commit back, checkout REF -- NAME single ones",
    "revert": "undo reverses the last operation, rollback REF makes a new commit that equals an older one",
    "rm": "forget erases a variable or a commit, ignore stores it no more",
    "search": "log --search TEXT searches the history",
    "stash": "what is not committed is committed before anything moves, so nothing has to be put aside",
}


def command_named(name: str, commands: Iterable[str] = COMMANDS) -> Command:
    """The command. `commands`: those that this interface has.

    Raises:
        UsageProblem: no verb has this name.
    """
    if name in COMMANDS:
        return COMMANDS[name]
    from difflib import get_close_matches

    known = list(commands)
    close = get_close_matches(name.lower(), known, 1)
    hint = f"did you mean {close[0]}?" if close else f"the commands are {' '.join(known)}"
    raise UsageProblem(f"there is no command {name!r}; {_HINTS.get(name, hint)}")


def parser_of(command: Command, prefix: str = "%agent", *, names_store: bool = False) -> Parser:
    """The parser of a verb's arguments. `names_store`: its first argument says which store, and nothing is live."""
    summary = command.alone if names_store and command.alone else command.help
    parser = Parser(f"{prefix} {command.name}", f"{summary[0].upper()}{summary[1:]}.")
    if names_store:
        parser.takes(
            "store", "place", help="a store's folder or URL, a notebook, or a notebook's folder", optional=False
        )
    module = _home(command)
    cast("Callable[[Parser], None]", getattr(module, f"{command.name}_arguments"))(parser)
    parser.flag("--json", help="print JSON, for programs")
    return parser


def _home(command: Command) -> ModuleType:
    # Some commands are those of packages above this one, which may be named here and not imported.
    return import_module(command.home if "." in command.home else f"agent_kernel.commands.{command.home}")


def _function(command: Command) -> str:
    return f"{command.name}_" if iskeyword(command.name) else command.name


def run(command: Command, scope: Scope, options: Namespace) -> Result:
    """Do what the verb says, on arguments that its parser read.

    Raises:
        AgentKernelError: it could not be done; nothing was changed.
        UsageProblem: the arguments do not go together.
    """
    module = _home(command)
    return cast("Callable[[Scope, Namespace], Result]", getattr(module, _function(command)))(scope, options)


def answer(words: Sequence[str], scope: Scope) -> tuple[Result, bool]:
    """Run a whole `%agent` line; also whether JSON was asked for.

    Raises:
        AgentKernelError: it could not be done; nothing was changed.
        UsageProblem: the words do not fit.
    """
    words = expand_help(words)
    if not words or words[0] in ("--help", "-h", "help"):
        return Overview(scope.command), False
    if words[0] == "--version":
        return Lines((f"agent-kernel {package_version()}",)), False
    if list(words) == ["--json"]:
        return Overview(scope.command), True
    command = command_named(words[0])
    try:
        options = parser_of(command, scope.command).read(words[1:])
    except Helped as help_text:
        return Lines((str(help_text),)), False
    return run(command, scope, options), bool(options.json)


def words_of(line: str) -> list[str]:
    """The words of a line as it was typed. Where a verb takes a person's own words, an apostrophe is one.

    Raises:
        UsageProblem: a quotation mark is not closed.
    """
    command = COMMANDS.get(next(iter(line.split()), ""))
    if command is not None and command.home == "agents" and parser_of(command).takes_prose:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
        lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
        try:
            words = list(lexer)
        except ValueError:
            return line.split()
        return _unquote(words)
    try:
        return shlex.split(line)
    except ValueError:
        raise UsageProblem(
            "a quotation mark is not closed: put words that belong together in quotation marks"
        ) from None


def _unquote(words: list[str]) -> list[str]:
    """The same without the single quotation marks around all that was said."""
    at = next((at for at, word in enumerate(words) if word.startswith("'")), None)
    if at is None or not words[-1].endswith("'") or (at == len(words) - 1 and len(words[-1]) < 2):
        return words
    first, *rest = [*words[at:-1], words[-1][:-1]] if at < len(words) - 1 else [words[-1][:-1]]
    return [*words[:at], first[1:], *rest]


def expand_help(words: Sequence[str]) -> Sequence[str]:
    """`help VERB` is `VERB --help`."""
    return [words[1], "--help"] if len(words) > 1 and words[0] == "help" else words


def wants_json(words: Sequence[str]) -> bool:
    """Whether the answer, also one that says what went wrong, is for a program."""
    return "--json" in words[: words.index("--") if "--" in words else len(words)]


def error_json(error: Exception) -> Json:
    """What a program is told of an error."""
    facts: dict[str, Json] = {"type": type(error).__name__, "message": str(error)}
    if isinstance(error, MergeConflictError):
        facts["conflicts"] = conflicts_json(error)
    return {"error": facts}


def conflicts_json(error: MergeConflictError) -> list[dict[str, Json]]:
    """The rows of a conflict; `together`: the other variables that a choice for this one is for too."""
    return [
        {"name": name, "ours": ours, "theirs": theirs, "together": list(error.partners(variable))}
        for (name, ours, theirs), variable in zip(error.conflicts, error.variables, strict=True)
    ]


def package_version() -> str:
    """The release of this package."""
    # The package itself names every interface, so what imports it would reach all of them.
    return str(vars(sys.modules["agent_kernel"])["__version__"])


class Overview(Result):
    """The short help: every verb with its line."""

    def __init__(self, command: str, commands: Sequence[Command] = _ALL, *, alone: bool = False) -> None:
        self.command = command
        self.commands = tuple(commands)
        self._alone = alone  # there is no notebook at this interface

    def blocks(self) -> Sequence[Line | Table]:
        rows = tuple((f"{self.command} {command.name}", self._help(command)) for command in self.commands)
        return [
            Line("Version control for a notebook's variables: every cell is a commit.", strong=True),
            Table(("", ""), rows),
            Line(f"{self.command} VERB --help explains a verb. A ref is a branch, a tag, an id, HEAD~2, @{{1}} …"),
        ]

    def _help(self, command: Command) -> str:
        return command.alone if self._alone and command.alone else command.help

    def to_json(self) -> Json:
        return {command.name: self._help(command) for command in self.commands}
