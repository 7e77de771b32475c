"""A real client of the protocol, and the servers that it talks to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mcp import Client, StdioServerParameters

ROOT = Path(__file__).parents[2]
T = TypeVar("T")


class Asking:
    """One client, by whose tools the tests speak."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def use(self, tool: str, **arguments: Any) -> str:
        """The answer; raises where the tool failed."""
        text, failed = await self.tried(tool, **arguments)
        assert not failed, text
        return text

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Why the tool failed."""
        text, failed = await self.tried(tool, **arguments)
        assert failed, text
        return text

    async def tried(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        found = await self.client.call_tool(tool, arguments)
        return "\n".join(part.text for part in found.content if part.type == "text"), bool(found.is_error)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


class Forks:
    """Starts servers by forking (`forks.py`), while the tests of a module run."""

    _path: Path | None = None
    _process: subprocess.Popen[bytes] | None = None

    @classmethod
    @contextmanager
    def wanted(cls, folder: Path) -> Generator[None]:
        cls._path = folder / "forks"
        try:
            yield
        finally:
            if cls._process is not None:
                cls._process.terminate()
                cls._process.wait(10)
            cls._path = cls._process = None

    @classmethod
    def command(cls, words: Sequence[str]) -> list[str]:
        """What starts a server."""
        if cls._path is None:
            return ["-m", "agent_kernel", "mcp", *words]
        if cls._process is None:
            cls._process = subprocess.Popen(
                [sys.executable, _FORKS, cls._path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment(),
            )
            while not cls._path.exists():
                assert cls._process.poll() is None
                time.sleep(0.02)
        return ["-I", "-S", _FORKS, str(cls._path), "mcp", *words]


_FORKS = str(Path(__file__).with_name("forks.py"))


@asynccontextmanager
async def over_stdio(*words: str, anew: bool = False) -> AsyncGenerator[Asking]:
    """A client, and its server. `anew`: in a process that imports everything itself, as those of users do."""
    from mcp.client.stdio import stdio_client

    command = ["-m", "agent_kernel", "mcp", *words] if anew else Forks.command(words)
    parameters = StdioServerParameters(command=sys.executable, args=command, env=environment())
    async with Client(stdio_client(parameters)) as client:
        yield Asking(client)


@contextmanager
def http_server(*words: str) -> Generator[tuple[str, str]]:
    """The address and the token of a server."""
    command = [sys.executable, "-m", "agent_kernel", "mcp", *words, "--http", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stderr is not None
    try:
        address = process.stderr.readline().split()[-1]
        token = process.stderr.readline().split()[-1]
        yield address, token
    finally:
        process.terminate()
        process.wait(10)
        process.stderr.close()


async def is_there(file: Path) -> None:
    """Wait until a file has been made."""

    def wait() -> None:
        until = time.monotonic() + 30
        while not file.exists():
            assert time.monotonic() < until, file
            time.sleep(0.02)

    await asyncio.to_thread(wait)


async def take_back_once_it_runs(ask: Asking, begun: Path) -> None:
    """Call for code that runs for a minute, and cancel the call as soon as the code says that it runs."""
    code = f"begun = 1\nimport time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(60)"
    calling = asyncio.ensure_future(ask.use("run_python", code=code))
    await is_there(begun)
    assert not calling.done(), calling.result()
    calling.cancel()
    try:
        await calling
    except asyncio.CancelledError:
        return
    raise AssertionError("it was not taken back")


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await work()

    return asyncio.run(main())
