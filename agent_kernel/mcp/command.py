"""`agent-kernel mcp STORE` and `agent-kernel mcp --kernel FILE`: serve until the client leaves."""

from __future__ import annotations

import os
import secrets
import sys
from argparse import ArgumentTypeError, Namespace
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from typing import Final, Protocol

from agent_kernel.agents.allowing import MODES
from agent_kernel.errors import AgentKernelError, MissingExtraError
from agent_kernel.mcp.tools import Told
from agent_kernel.repository.refs import check_ref_name
from agent_kernel.verbs.parsing import Helped, Parser, UsageProblem

__all__ = ["main"]

TOKEN: Final = "AGENT_KERNEL_MCP_TOKEN"
_COMMAND: Final = "agent-kernel"
_AGENT: Final = (
    "outside"  # what a client without a name is called, and a few letters: it may take back its own work alone
)
_DONE, _FAILED, _MISUSED, _INTERRUPTED = 0, 1, 2, 130


class Served(Protocol):
    """What stands behind the tools."""

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> Told:
        """Use a tool by its name, as this agent."""
        ...

    def stop(self) -> None:
        """Interrupt what runs; from any thread."""
        ...


def main(argv: Sequence[str]) -> int:
    try:
        options = _parser().read(argv)
        if (options.store is None) == (options.kernel is None):
            raise UsageProblem("say which: a STORE, or --kernel FILE")
        _serve(options)
    except Helped as told:
        sys.stdout.write(f"{told}\n")
    except UsageProblem as error:
        return _complain(str(error), _MISUSED)
    except (AgentKernelError, OSError) as error:
        return _complain(str(error), _FAILED)
    except KeyboardInterrupt:
        return _INTERRUPTED
    return _DONE


def _complain(text: str, status: int) -> int:
    sys.stderr.write(f"{_COMMAND}: {text.replace('%agent', _COMMAND)}\n")
    return status


def _parser() -> Parser:
    parser = Parser(
        f"{_COMMAND} mcp", "Serve the variables of a store, or of a running kernel, to agents outside (MCP)."
    )
    parser.takes("store", "place", help="a store's folder or URL, a notebook, or a notebook's folder")
    parser.value("--kernel", metavar="FILE", help="a running kernel instead: its connection file, or its id")
    parser.value("--http", metavar="PORT", help="on the loopback instead of standard input and output", convert=_port)
    parser.value(
        "--agent", metavar="NAME", help="the author of its commits (without this, each client has a name of its own)"
    )
    parser.value(
        "--approve", metavar="MODE", help=f"{', '.join(MODES)}: which steps a person has to allow", default="risky"
    )
    parser.value("--branch", metavar="NAME", help="act on this branch (default: the one used last)")
    parser.value("--step-s", metavar="S", help="seconds that one piece of code may run", convert=_seconds)
    parser.value(
        "--wait-s",
        metavar="S",
        help="seconds to wait for a busy kernel (default: 10)",
        convert=_seconds,
        default=10.0,
    )
    parser.explains(
        f"Over HTTP a client needs the bearer token that is printed at the start, or that {TOKEN} names.\n"
        "Steps that have to be allowed wait; `agent-kernel approve STORE` or %agent approve allows them."
    )
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise ArgumentTypeError(f"a port is a number up to 65535, not {text!r}")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not found > 0:
        raise ArgumentTypeError(f"seconds are more than 0, not {text!r}")
    return found


def _serve(options: Namespace) -> None:
    if find_spec("mcp") is None:
        raise MissingExtraError("mcp", "mcp")
    from agent_kernel.mcp.serving import Hands, over_http, over_stdio, server_of
    from agent_kernel.mcp.stepping import without_input

    check_ref_name(options.agent or _AGENT)
    if options.approve not in MODES:
        raise UsageProblem(f"--approve is one of {', '.join(MODES)}, not {options.approve!r}")
    with _namespace(options) as served:
        hands = Hands(served.stop)

        agents: defaultdict[str, str] = defaultdict(lambda: options.agent or f"{_AGENT}-{secrets.token_hex(2)}")

        def used(tool: str, arguments: dict[str, object], client: str) -> Told:
            with without_input():
                return served.call(tool, arguments, agents[client])

        async def call(tool: str, arguments: dict[str, object], client: str) -> Told:
            return await hands.do(lambda: used(tool, arguments, client))

        server = server_of(call, _version())
        if options.http is None:
            hands.serve(lambda: over_stdio(server))
        else:
            token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
            hands.serve(lambda: over_http(server, options.http, token))


def _namespace(options: Namespace) -> AbstractContextManager[Served]:
    begin: Callable[..., AbstractContextManager[Served]]
    if options.kernel is not None:
        from agent_kernel.mcp.kernel import connected

        begin = partial(connected, options.kernel, wait_s=options.wait_s)
    else:
        from agent_kernel.mcp.store import opened

        begin = partial(opened, options.store, branch=options.branch)
    return begin(agent=options.agent or _AGENT, approve=options.approve, step_s=options.step_s)


def _version() -> str:
    # The package itself names every door, so a door that imports it would reach the others.
    return str(vars(sys.modules["agent_kernel"])["__version__"])
