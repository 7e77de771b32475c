"""A real client of the protocol, and the servers that it talks to."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
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


@asynccontextmanager
async def over_stdio(*words: str) -> AsyncGenerator[Asking]:
    from mcp.client.stdio import stdio_client

    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "agent_kernel", "mcp", *words], env=environment()
    )
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


def run(work: Callable[[], Awaitable[T]]) -> T:
    async def main() -> T:
        return await work()

    return asyncio.run(main())
