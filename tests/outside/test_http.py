"""Over HTTP: on the loopback, for who knows the token, and for no page of a browser that comes from elsewhere."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import agent_kernel as ak
from tests.outside.clients import Asking, http_server, run

HELLO = (
    b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", '
    b'"capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}'
)
USUAL = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


@pytest.fixture(autouse=True, scope="module")
def packages() -> None:
    """Load them for these tests: where they are not installed, each is skipped."""
    pytest.importorskip("mcp")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    place = tmp_path_factory.mktemp("http") / "study"
    with ak.Versioned(place) as state:
        state["numbers"] = [1, 2, 3]
        state.commit("the start")
    with http_server(str(place)) as found:
        yield found


def status_of(address: str, **headers: str) -> int:
    parts = urlsplit(address)
    assert parts.hostname is not None
    connection = HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        connection.request("POST", parts.path, HELLO, {**USUAL, **headers})
        return connection.getresponse().status
    finally:
        connection.close()


def test_a_client_with_the_token_works_as_over_standard_input(server: tuple[str, str]) -> None:
    address, token = server

    async def act() -> None:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
            Client(streamable_http_client(address, http_client=http)) as client,
        ):
            ask = Asking(client)
            assert "numbers: list" in await ask.use("list_variables")
            assert "6" in await ask.use("run_python", code="sum(numbers)")

    run(act)


def test_the_token_is_needed(server: tuple[str, str]) -> None:
    address, token = server
    assert status_of(address, Authorization=f"Bearer {token}") == 200
    assert status_of(address) == 401
    assert status_of(address, Authorization=f"Bearer {token}x") == 401
    assert status_of(address, Authorization=token) == 401


@pytest.mark.parametrize("origin", ["https://example.org", "http://127.0.0.1:1", "null", ""])
def test_a_page_from_elsewhere_is_refused_even_with_the_token(server: tuple[str, str], origin: str) -> None:
    address, token = server
    assert status_of(address, Authorization=f"Bearer {token}", Origin=origin) == 403


def test_a_name_that_was_made_to_point_here_is_refused(server: tuple[str, str]) -> None:
    address, token = server
    assert status_of(address, Authorization=f"Bearer {token}", Host="attacker.example") in (400, 403, 421)


def test_it_listens_on_the_loopback_alone(server: tuple[str, str]) -> None:
    address, _ = server
    assert urlsplit(address).hostname == "127.0.0.1"
    others = {str(found[4][0]) for found in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for other in others - {"127.0.0.1"}:
        with socket.socket() as probe:
            probe.settimeout(2)
            if not other.startswith("127."):
                assert probe.connect_ex((other, urlsplit(address).port or 0)) != 0


def test_the_token_can_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNEL_MCP_TOKEN", "a-token-of-my-own")
    with ak.Versioned(tmp_path / "study") as state:
        state["x"] = 1
        state.commit("x")
    with http_server(str(tmp_path / "study")) as (address, _):
        assert status_of(address, Authorization="Bearer a-token-of-my-own") == 200


def test_two_clients_without_a_name_take_back_their_own_work_alone(server: tuple[str, str]) -> None:
    address, token = server

    async def act() -> None:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client

        headers = {"Authorization": f"Bearer {token}"}
        async with (
            httpx2.AsyncClient(headers=headers) as first_http,
            httpx2.AsyncClient(headers=headers) as second_http,
            Client(streamable_http_client(address, http_client=first_http)) as first,
            Client(streamable_http_client(address, http_client=second_http)) as second,
        ):
            one, other = Asking(first), Asking(second)
            await one.use("run_python", code="mine = 1")
            assert "has not run yet" in await other.use("undo")
            assert "mine" in await other.use("list_variables")
            await other.use("run_python", code="theirs = 2")
            assert "Undone" in await other.use("undo")
            assert "Undone" in await one.use("undo")
            assert "mine" not in await one.use("list_variables")

    run(act)
