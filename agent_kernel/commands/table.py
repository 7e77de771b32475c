"""Every command there is, and how one is run: words in, a result out.

The table is light: a command's module is imported when the command is used, so that loading the extension costs no more
than the cell hooks need.
"""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import cast

from agent_kernel.commands.describe import Json, Line, Lines, Result, Table
from agent_kernel.commands.scope import Command, Helped, Parser, Scope, UsageProblem
from agent_kernel.errors import MergeConflictError

__all__ = [
    "COMMANDS",
    "Overview",
    "answer",
    "command_named",
    "error_json",
    "expand_help",
    "parser_of",
    "run",
    "wants_json",
    "words_of",
]

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
    Command("branch", "list, create, rename or delete branches", "refs", writes=True),
    Command("tag", "list, create or delete tags", "refs", writes=True),
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
        return Lines((f"agent-kernel {_version()}",)), False
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


def _version() -> str:
    # The package itself names every interface, so a verb that imports it would reach the interfaces.
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
