"""`%%agent [NAME]`: Python that runs as that agent, exactly as a plain cell would run it.

Running the body through `run_cell` would break top-level await and count a cell inside a cell. So the first line is
blanked before IPython compiles the cell, and everything else is IPython's own: line numbers, the last expression,
magics. Only what is not Python is left for the cell magic, which says so.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable, Iterable

import msgspec

from agent_kernel.errors import InvalidRefNameError
from agent_kernel.magics.notebook import has_agent_header
from agent_kernel.magics.prose import Reading, is_python, read
from agent_kernel.repository.refs import check_ref_name
from agent_kernel.verbs.parsing import Parser, UsageProblem, amount, count

__all__ = ["AgentCell", "header_parser", "is_python", "reading_of", "runs", "split_cell"]

_DEFAULT = "agent"
_MOST_FORKS = 64
_APPROVES = ("risky", "always", "auto", "never")
_STATES = ("versioned", "live", "none")


class AgentCell(msgspec.Struct, frozen=True):
    """A cell that begins with `%%agent`."""

    agent: str
    python: bool  # said to be Python
    body: str
    task: bool = False  # said to be a task
    model: str = ""
    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    approve: str = ""
    returns: str = ""
    state: str = ""
    branch: str = ""
    preview: bool = False
    fork: str = ""  # how often it is tried at once, or by which models
    judge: str = ""  # says which of these is best: an expression
    edits: str = ""  # the run of which a step waits, whose code this is instead


def header_parser() -> Parser:
    """The parser of what stands after `%%agent`."""
    parser = Parser("%%agent", "Run this cell as an agent: its commit names the agent as the author.")
    parser.takes("name", "text", help="the agent's name", default=_DEFAULT)
    meant = parser.one_of()
    parser.flag("--py", help="it is Python, whatever it looks like: show the SyntaxError", group=meant)
    parser.flag("--task", help="it is a task for the agent's model, even where it could be Python", group=meant)
    parser.value("--model", metavar="NAME", help="the model that takes the task")
    parser.value("--steps", metavar="N", convert=count, help="end the run after so many steps")
    parser.value("--seconds", metavar="S", convert=amount, help="end the run after so many seconds")
    parser.value("--tokens", metavar="N", convert=count, help="end the run after so many tokens")
    parser.value("--cost", metavar="USD", convert=amount, help="end the run before it costs more than this, in dollars")
    parser.value(
        "--returns", metavar="TYPE", help="the type that the result must have, an expression: list[str], pd.DataFrame"
    )
    parser.value(
        "--state", metavar="MODE", help="versioned (the default), live: no commits, none: in a namespace of its own"
    )
    parser.value(
        "--branch",
        metavar="NAME",
        kind="branch",
        help="go to this branch first, and create it here if it does not exist",
    )
    parser.flag("--preview", help="try each step in a process of its own first, and show what it would change")
    parser.value("--fork", metavar="N|MODELS", help="try it N times at once, or once with each of these models: a race")
    parser.value(
        "--judge", metavar="EXPR", help="pick the candidate of --fork for which this is highest: score, -len(x)"
    )
    parser.value("--edit", metavar="RUN", help="the body is the code of the step that waits, as %%agent edit offers it")
    parser.value(
        "--approve",
        metavar="MODE",
        help="risky, always, auto or never (default: the agent's own approve=, or else risky)",
    )
    return parser


def split_cell(source: str) -> AgentCell | None:
    """The cell's header and body; None: it is a plain cell.

    Raises:
        UsageProblem: the header does not fit.
        Helped: the header asks for help.
        InvalidRefNameError: this cannot be an agent's name.
    """
    if not has_agent_header(source):
        return None
    header, _, body = source.lstrip("\n").partition("\n")
    return read_header(header.removeprefix("%%agent"), body)


def read_header(line: str, body: str) -> AgentCell:
    """The same, already split at the end of the first line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageProblem(f"%%agent: {error}") from None
    options = header_parser().read(words)
    try:
        check_ref_name(options.name)
    except InvalidRefNameError as error:
        raise InvalidRefNameError(error.name, error.reason, "an agent") from None
    if options.approve and options.approve not in _APPROVES:
        raise UsageProblem(f"--approve is one of {', '.join(_APPROVES)}, not {options.approve!r}")
    if options.state and options.state not in _STATES:
        raise UsageProblem(f"--state is one of {', '.join(_STATES)}, not {options.state!r}")
    _check_fork(options)
    return AgentCell(
        options.name,
        options.py,
        body,
        options.task,
        options.model or "",
        options.steps,
        options.seconds,
        options.tokens,
        options.cost,
        options.approve or "",
        options.returns or "",
        options.state or "",
        options.branch or "",
        options.preview,
        options.fork or "",
        options.judge or "",
        options.edit or "",
    )


def _check_fork(options: Namespace) -> None:
    if options.judge and not options.fork:
        raise UsageProblem("--judge chooses between the candidates of --fork, and there is no --fork")
    for name, given in (("--preview", options.preview), ("--state", options.state), ("--model", options.model)):
        if options.fork and given and (name != "--model" or not options.fork.isdecimal()):
            raise UsageProblem(f"--fork and {name} do not go together")
    if options.fork and options.fork.isdecimal() and not 1 <= int(options.fork) <= _MOST_FORKS:
        raise UsageProblem(f"--fork takes a number from 1 to {_MOST_FORKS}, or names of models with commas between")


def runs(cell: AgentCell, transform: Callable[[str], str], names: Iterable[str] = ()) -> bool:
    """Whether the cell is run as it stands; what merely fails to compile is, so that its SyntaxError shows.

    Args:
        names: the variables that there are.
    """
    return bool(cell.body.strip()) and reading_of(cell, transform, names) == "code"


def reading_of(cell: AgentCell, transform: Callable[[str], str], names: Iterable[str]) -> Reading:
    """What the cell is said to be, or else reads as."""
    if cell.task or cell.edits:
        return "task"
    return "code" if cell.python else read(cell.body, names, transform)
