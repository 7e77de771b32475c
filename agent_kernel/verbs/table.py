"""Every verb there is, and how one is run: words in, a result out.

The table is light: a verb's module is imported when the verb is used, so that loading the extension costs no more
than the cell hooks need.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from agent_kernel.verbs.output import Json, Line, Result, Said, Table
from agent_kernel.verbs.parsing import Helped, Parser, UsageProblem, Verb
from agent_kernel.verbs.scope import Scope

__all__ = ["VERBS", "Overview", "answer", "parser_of", "run", "verb_named"]

_ALL = (
    Verb("bind", "choose the store of this notebook, or say which it is", "binding", needs="notebook"),
    Verb("status", "where you are, and what is not committed or not saved", "binding"),
    Verb("log", "the history, newest first", "history"),
    Verb("show", "one commit, or one variable in it (REF:NAME)", "showing"),
    Verb("diff", "what differs between two commits", "comparing"),
    Verb("checkout", "load the variables of a commit, or single ones", "moving", writes=True),
    Verb("switch", "go to another branch and load its variables", "moving", writes=True),
    Verb("rollback", "make a new commit that equals an older one", "moving", writes=True),
    Verb("undo", "reverse this session's last operation", "moving", needs="session"),
    Verb("redo", "do again what undo reversed", "moving", needs="session"),
    Verb("branch", "list, create, rename or delete branches", "refs", writes=True),
    Verb("tag", "list, create or delete tags", "refs", writes=True),
    Verb("merge", "bring another branch's changes into this one", "merging", writes=True),
    Verb("commit", "commit now, with a message", "binding", needs="session"),
    Verb("verify", "read every stored byte and check it against its digest", "upkeep"),
    Verb("stats", "what the store holds, and how large it is", "upkeep"),
    Verb("gc", "delete what no branch, tag or session can reach", "upkeep"),
    Verb("prune", "thin out old history by a retention policy", "pruning"),
    Verb("forget", "erase a variable or a commit from the whole history", "pruning"),
    Verb("ignore", "never store a variable", "ignoring"),
    Verb("trust", "allow loading from a store that someone else made", "binding"),
    Verb("on", "let cells be commits again", "binding", needs="notebook"),
    Verb("off", "stop making cells commits", "binding", needs="notebook"),
)
VERBS: dict[str, Verb] = {verb.name: verb for verb in _ALL}


def verb_named(name: str) -> Verb:
    """The verb.

    Raises:
        UsageProblem: there is none of this name.
    """
    if name in VERBS:
        return VERBS[name]
    from difflib import get_close_matches

    close = get_close_matches(name, VERBS, 1)
    hint = f"did you mean {close[0]}?" if close else f"the verbs are {' '.join(VERBS)}"
    raise UsageProblem(f"there is no verb {name!r}; {hint}")


def parser_of(verb: Verb, command: str = "%agent", *, names_store: bool = False) -> Parser:
    """The parser of a verb's arguments. `names_store`: its first argument says which store."""
    parser = Parser(f"{command} {verb.name}", f"{verb.help[0].upper()}{verb.help[1:]}.")
    if names_store:
        parser.takes(
            "store", "place", help="a store's folder or URL, a notebook, or a notebook's folder", optional=False
        )
    module = import_module(f"agent_kernel.verbs.{verb.home}")
    cast("Callable[[Parser], None]", getattr(module, f"{verb.name}_arguments"))(parser)
    parser.flag("--json", help="print JSON, for programs")
    return parser


def run(verb: Verb, scope: Scope, options: Namespace) -> Result:
    """Do what the verb says, on arguments that its parser read.

    Raises:
        AgentKernelError: it could not be done; nothing was changed.
        UsageProblem: the arguments do not go together.
    """
    module = import_module(f"agent_kernel.verbs.{verb.home}")
    return cast("Callable[[Scope, Namespace], Result]", getattr(module, verb.name))(scope, options)


def answer(words: Sequence[str], scope: Scope) -> tuple[Result, bool]:
    """Run a whole `%agent` line; also whether JSON was asked for.

    Raises:
        AgentKernelError: it could not be done; nothing was changed.
        UsageProblem: the words do not fit.
    """
    if not words or words[0] in ("--help", "-h", "help"):
        return Overview(scope.command), False
    verb = verb_named(words[0])
    try:
        options = parser_of(verb, scope.command).read(words[1:])
    except Helped as help_text:
        return Said((str(help_text),)), False
    return run(verb, scope, options), bool(options.json)


class Overview(Result):
    """The short help: every verb with its line."""

    def __init__(self, command: str, verbs: Sequence[Verb] = _ALL) -> None:
        self.command = command
        self.verbs = tuple(verbs)

    def blocks(self) -> Sequence[Line | Table]:
        rows = tuple((f"{self.command} {verb.name}", verb.help) for verb in self.verbs)
        return [
            Line("Version control for a notebook's variables: every cell is a commit.", strong=True),
            Table(("", ""), rows),
            Line(f"{self.command} VERB --help explains a verb. A ref is a branch, a tag, an id, HEAD~2, @{{1}} …"),
        ]

    def to_json(self) -> Json:
        return {verb.name: verb.help for verb in self.verbs}
