"""An interface for agents outside: `agent-kernel mcp` serves a store's variables, or those of a running kernel, by MCP.

It serves tools and resources over standard input and output or over HTTP on the loopback. What the tools do is in `tools`, on
whatever namespace stands behind them. They run on the main thread, where an interrupt reaches them, or in the kernel; the
protocol is spoken on a thread of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import inspect
import os
import queue
import secrets
import socket
import sys
import threading
import typing
from argparse import ArgumentTypeError, Namespace
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from agent_kernel.agents.approval import MODES
from agent_kernel.commands.scope import Helped, Parser, UsageProblem, package_version
from agent_kernel.errors import AgentKernelError, MissingExtraError
from agent_kernel.mcp.tools import TOOLS, ToolAnswer, Tools, about
from agent_kernel.repository.refs import check_ref_name

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context, MCPServer
    from starlette.types import ASGIApp, Receive, Scope, Send

Call: typing.TypeAlias = Callable[[str, dict[str, object], str], Awaitable[ToolAnswer]]

_READS: Final = frozenset({"list_variables", "preview", "history", "show", "diff"})
_INSTRUCTIONS: Final = """\
The variables of a Python notebook, with their history. Look at them with list_variables and preview; act by run_python,
whose code runs in their namespace. Each run is a commit in your name: history, show and diff tell what happened, undo
takes the last one back, checkout goes to any. Files, processes and messages to others are not covered by undo."""


def server_of(call: Call, version: str) -> MCPServer[Any]:
    """A server of all tools. `call` uses one of them, for the client of this name."""
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    server: MCPServer[Any] = MCPServer("agent-kernel", instructions=_INSTRUCTIONS, version=version, log_level="WARNING")
    for name in TOOLS:
        reads = name in _READS
        server.add_tool(
            _tool(name, call),
            name=name,
            description=about(name),
            annotations=ToolAnnotations(read_only_hint=reads, destructive_hint=not reads),
            structured_output=False,
        )

    async def variables() -> str:
        return (await call("list_variables", {}, "")).text

    async def variable(name: str) -> str:
        return (await call("preview", {"name": name}, "")).text

    async def history() -> str:
        return (await call("history", {}, "")).text

    server.resource("notebook://variables", description="All variables, a line each")(variables)
    server.resource("notebook://variables/{name}", description="One variable: what it is, and its first rows")(variable)
    server.resource("notebook://history", description="The newest commits")(history)
    return server


def _tool(name: str, call: Call) -> Callable[..., Awaitable[str]]:
    """A function with the tool's own signature, from which its schema is made."""
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.exceptions import ToolError

    method = getattr(Tools, name)

    async def use(asking: Context[Any, Any], **arguments: object) -> str:
        answer = await call(name, arguments, _client(asking))
        if answer.failed:
            raise ToolError(answer.text)
        return answer.text

    hints = {**typing.get_type_hints(method), "asking": Context}
    parameters = list(inspect.signature(method).parameters.values())[1:]
    typed = [one.replace(annotation=hints[one.name]) for one in parameters]
    typed.append(inspect.Parameter("asking", inspect.Parameter.KEYWORD_ONLY, annotation=Context))
    use.__name__ = name
    use.__annotations__ = hints
    use.__signature__ = inspect.Signature(typed, return_annotation=str)  # type: ignore[attr-defined]
    return use


def _client(asks: Context[Any, Any]) -> str:
    """Which client asks: by its session over HTTP, or its connection where it has none. "": the one that started the server."""
    request = asks.request_context.request
    if request is None:
        return ""
    session = request.headers.get("mcp-session-id")
    at = request.client
    return session or (f"{at.host}:{at.port}" if at is not None else "")


async def over_stdio(server: MCPServer[Any]) -> None:
    """Serve the client that started this process."""
    await server.run_stdio_async()


async def over_http(server: MCPServer[Any], port: int, token: str) -> None:
    """Serve on the loopback until the process is interrupted. `port` 0: any that is free."""
    import uvicorn

    listening = socket.create_server(("127.0.0.1", port))
    at = listening.getsockname()[1]
    app = guard_app(server.streamable_http_app(), at, token)
    config = uvicorn.Config(app, log_level="warning")
    sys.stderr.write(f"Serving http://127.0.0.1:{at}/mcp\nAuthorization: Bearer {token}\n")
    sys.stderr.flush()
    await uvicorn.Server(config).serve(sockets=[listening])


def guard_app(app: ASGIApp, port: int, token: str) -> ASGIApp:
    """The app, for those who know the token, and for no page of a browser that comes from elsewhere."""
    ours = {f"http://127.0.0.1:{port}".encode(), f"http://localhost:{port}".encode()}
    wanted = f"Bearer {token}".encode()

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers: dict[bytes, bytes] = dict(scope["headers"])
            if headers.get(b"origin", next(iter(ours))) not in ours:
                await _refuse(send, 403, b"this origin may not ask")
                return
            if not hmac.compare_digest(headers.get(b"authorization", b""), wanted):
                await _refuse(send, 401, b"the bearer token is missing or wrong")
                return
        await app(scope, receive, send)

    return guard


async def _refuse(send: Send, status: int, message: bytes) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(message)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": message})


# -- work for the main thread, given to it by the thread that speaks with the client
#
# Code runs on the main thread, where an interrupt reaches it even while it waits; and a store is used by one thread alone.

T = TypeVar("T")


class MainThread:
    """The main thread, at work one thing after the other.

    Args:
        stop: interrupts what runs; called from the other thread when a client takes its request back.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._current: Future[Any] | None = None
        self._failed: BaseException | None = None

    async def do(self, work: Callable[[], T]) -> T:
        """Have it done, and wait for what comes of it; where the waiting is cancelled, it is interrupted."""
        future: Future[T] = Future()
        self._jobs.put((future, work))
        try:
            return await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            if not future.cancel() and self._current is future:
                self._stop()
            raise

    def serve(self, speaks: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Work until whoever speaks with the client is done. Called on the main thread; an interrupt ends it.

        Raises:
            Exception: what the other thread failed with.
        """
        thread = threading.Thread(target=self._speak, args=(speaks,), name="agent-kernel mcp", daemon=True)
        thread.start()
        while (job := self._jobs.get()) is not None:
            future, work = job
            if not future.set_running_or_notify_cancel():
                continue
            self._current = future
            try:
                future.set_result(work())
            except Exception as error:  # noqa: BLE001 - it belongs to who asked
                future.set_exception(error)
            finally:
                self._current = None
        if self._failed is not None:
            raise self._failed

    def _speak(self, speaks: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            asyncio.run(speaks())
        except BaseException as error:  # noqa: BLE001 - it is raised on the main thread
            self._failed = error
        finally:
            self._jobs.put(None)


# -- `agent-kernel mcp STORE` and `agent-kernel mcp --kernel FILE`: serve until the client leaves

TOKEN: Final = "AGENT_KERNEL_MCP_TOKEN"
_COMMAND: Final = "agent-kernel"
_AGENT: Final = (
    "outside"  # what a client without a name is called, and a few letters: it may take back its own work alone
)
_DONE, _FAILED, _MISUSED, _INTERRUPTED = 0, 1, 2, 130


class Served(Protocol):
    """What stands behind the tools."""

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> ToolAnswer:
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
    from agent_kernel.mcp.tools import without_input

    check_ref_name(options.agent or _AGENT)
    if options.approve not in MODES:
        raise UsageProblem(f"--approve is one of {', '.join(MODES)}, not {options.approve!r}")
    with _namespace(options) as served:
        main_thread = MainThread(served.stop)

        agents: defaultdict[str, str] = defaultdict(lambda: options.agent or f"{_AGENT}-{secrets.token_hex(2)}")

        def use_tool(tool: str, arguments: dict[str, object], client: str) -> ToolAnswer:
            with without_input():
                return served.call(tool, arguments, agents[client])

        async def call(tool: str, arguments: dict[str, object], client: str) -> ToolAnswer:
            return await main_thread.do(lambda: use_tool(tool, arguments, client))

        server = server_of(call, package_version())
        if options.http is None:
            main_thread.serve(lambda: over_stdio(server))
        else:
            token = os.environ.get(TOKEN) or secrets.token_urlsafe(24)
            main_thread.serve(lambda: over_http(server, options.http, token))


def _namespace(options: Namespace) -> AbstractContextManager[Served]:
    begin: Callable[..., AbstractContextManager[Served]]
    if options.kernel is not None:
        from agent_kernel.mcp.tools import connect

        begin = partial(connect, options.kernel, wait_s=options.wait_s)
    else:
        from agent_kernel.mcp.tools import open_store

        begin = partial(open_store, options.store, branch=options.branch)
    return begin(agent=options.agent or _AGENT, approve=options.approve, step_s=options.step_s)
