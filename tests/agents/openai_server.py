"""A server on the loopback that speaks as OpenAI does: Chat Completions, streamed, with answers written beforehand."""

from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal


@dataclass
class Reply:
    """One answer.

    Attributes:
        deltas: pieces of the message, as Chat Completions have them.
        finish: why it ends; None: it is never said.
        end: `done` ends it as it should, `drop` breaks the connection, `hang` says nothing more until the client leaves,
            `eof` closes it as if the answer were whole.
        raw: a body that is sent as it is.
        lines: of an answer in another provider's words, the lines that are sent as they are.
    """

    deltas: Sequence[dict[str, Any]] = ()
    finish: str | None = "stop"
    usage: tuple[int, int] | None = (100, 20)
    end: Literal["done", "drop", "hang", "eof"] = "done"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes | None = None
    lines: Sequence[bytes] | None = None
    model: str = "local-model"


def says(*words: str, **more: Any) -> Reply:
    return Reply([{"content": word} for word in words], **more)


def calls(*codes: str, size: int = 3, text: str = "", **more: Any) -> Reply:
    """Calls of run_python, their arguments in pieces of so many characters."""
    deltas: list[dict[str, Any]] = [{"content": text}] if text else []
    for index, code in enumerate(codes):
        about = {"name": "run_python", "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": about}]})
        whole = json.dumps({"code": code})
        pieces = (whole[at : at + size] for at in range(0, len(whole), size))
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    return Reply(deltas, finish=more.pop("finish", "tool_calls"), **more)


def whole(code: str) -> Reply:
    """One call of run_python, in an answer that is not streamed."""
    call = {
        "id": "call_0",
        "type": "function",
        "function": {"name": "run_python", "arguments": json.dumps({"code": code})},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    about = {"id": "answer", "object": "chat.completion", "created": 0, "model": "local-model"}
    return Reply(raw=json.dumps({**about, "choices": [choice]}).encode())


def refuses(status: int, message: str = "no", **headers: str) -> Reply:
    body = json.dumps({"error": {"message": message, "type": "error", "code": None}}).encode()
    return Reply(status=status, raw=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


class OpenAIServer:
    """Plays its replies in order, the last one again and again, and keeps what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.asked = threading.Event()
        self.left = threading.Event()  # a client closed its connection while an answer hung
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.closing = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    @contextmanager
    def running(self) -> Generator[OpenAIServer]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def take(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            self.paths.append(path)
            self.asked.set()
            return self.replies[min(len(self.requests), len(self.replies)) - 1]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                reply = server.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
                _send(self, reply, server)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


def _send(to: BaseHTTPRequestHandler, reply: Reply, server: OpenAIServer) -> None:
    to.close_connection = True
    to.send_response(reply.status)
    for name, value in reply.headers.items():
        to.send_header(name, value)
    if reply.raw is not None and (reply.status != 200 or not server.requests[-1].get("stream")):
        to.send_header("Content-Type", "application/json")
        to.send_header("Content-Length", str(len(reply.raw)))
        to.end_headers()
        to.wfile.write(reply.raw)
        return
    to.send_header("Content-Type", "text/event-stream")
    to.send_header("Connection", "close")
    if reply.end != "eof":
        to.send_header("Transfer-Encoding", "chunked")
    to.end_headers()
    try:
        for line in _lines(reply):
            chunk = line if reply.end == "eof" else b"%x\r\n%s\r\n" % (len(line), line)
            to.wfile.write(chunk)
            to.wfile.flush()
        if reply.end == "done":
            to.wfile.write(b"0\r\n\r\n")
        elif reply.end == "drop":
            to.connection.shutdown(socket.SHUT_RDWR)
        elif reply.end == "hang":
            _wait_until_left(to.connection, server)
    except OSError:
        server.left.set()


def _lines(reply: Reply) -> Iterator[bytes]:
    if reply.lines is not None:
        yield from reply.lines
        return
    if reply.raw is not None:
        yield b"data: %s\n\n" % reply.raw
    for at, delta in enumerate(reply.deltas):
        yield _event(reply, [{"index": 0, "delta": {"role": "assistant", **delta} if at == 0 else delta}])
    if reply.end == "done":
        yield _event(reply, [{"index": 0, "delta": {}, "finish_reason": reply.finish}])
        if reply.usage is not None:
            read, written = reply.usage
            told = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
            yield _event(reply, [], usage=told)
        yield b"data: [DONE]\n\n"


def _event(reply: Reply, choices: list[dict[str, Any]], **more: Any) -> bytes:
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1_790_000_000, "model": reply.model}
    return b"data: %s\n\n" % json.dumps({**about, "choices": choices, **more}).encode()


def _wait_until_left(connection: socket.socket, server: OpenAIServer) -> None:
    while not server.closing.is_set():
        ready, _, _ = select.select([connection], [], [], 0.05)
        if ready and not connection.recv(1, socket.MSG_PEEK):
            server.left.set()
            return
