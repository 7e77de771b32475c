"""The routes: each one asks who it is that asks, and answers with JSON.

All of them only read. Every method that exists is authenticated and authorised for the resource `agent_kernel`, and what
is answered may be kept by the browser, which asks each time whether it still holds.
"""

from __future__ import annotations

import functools
from hashlib import blake2b
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import ensure_async
from tornado import web

from agent_kernel.server.problems import ProblemError
from agent_kernel.server.questions import QUESTIONS, Parameter, arguments

if TYPE_CHECKING:
    from agent_kernel.server.roots import Roots
    from agent_kernel.server.shelf import Shelf, Shelved

__all__ = ["ROUTES"]

_API = "/agent-kernel/api/v1"
_STORE = rf"{_API}/stores/(?P<id>[0-9a-f]{{32}})"
_MOST_BYTES = 32 << 20  # of one answer


class _Handler(ExtensionHandlerMixin, APIHandler):  # pyright: ignore[reportIncompatibleVariableOverride]  # theirs
    """What all routes have in common."""

    auth_resource = "agent_kernel"

    @property
    def roots(self) -> Roots:
        found: Roots = self.settings["agent_kernel_roots"]
        return found

    @property
    def shelf(self) -> Shelf:
        found: Shelf = self.settings["agent_kernel_shelf"]
        return found

    def arguments_of(self, *parameters: Parameter) -> dict[str, object]:
        return arguments(self.request.query_arguments, parameters)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "private, no-cache")

    async def answer(self, body: bytes) -> None:
        if len(body) > _MOST_BYTES:
            raise ProblemError(413, f"the answer has {len(body):,} bytes, and at most {_MOST_BYTES:,} are sent")
        await self.finish(body)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """One line of JSON, whatever went wrong."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if not isinstance(error, ProblemError):
            told = getattr(error, "log_message", None) if isinstance(error, web.HTTPError) else None
            said = told or HTTPStatus(status_code).phrase if status_code < 500 else "the history could not be read"
            error = ProblemError(status_code, said)
        self.set_status(error.status)
        self.clear_header("Etag")
        if error.retry_s:
            self.set_header("Retry-After", str(error.retry_s))
        self.finish(msgspec.json.encode(error.body()))  # type: ignore[unused-awaitable]  # not a coroutine, in tornado

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, ProblemError):  # an answer like others
            self.log.debug("%s %s: %s", value.status, self.request.path, value.said)
        else:
            super().log_exception(typ, value, tb)


class NotebookHandler(_Handler):
    """Which store belongs to a notebook."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        path = str(self.arguments_of(Parameter("path", is_required=True))["path"])
        path = await self.shelf.run(functools.partial(self.roots.notebook, path))
        contents: Any = self.contents_manager  # of any kind, and untyped
        if not contents.allow_hidden and await ensure_async(contents.is_hidden(path)):
            raise ProblemError(404, f"there is no notebook {path!r}")
        folder = await self.shelf.run(functools.partial(self.roots.store_of, path))
        store: dict[str, str] | None = None
        if folder is not None:
            id = self.shelf.id_of(folder)
            store = {"id": id, "name": folder.name, "history": await self.shelf.ask(id, _history, is_quick=True)}
        await self.answer(msgspec.json.encode({"path": path, "store": store}))


class VersionHandler(_Handler):
    """Whether anything changed. Panels that can be seen ask every second or so, which is no one's activity."""

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, id: str) -> None:
        self.arguments_of()
        await self.answer(msgspec.json.encode({"version": await self.shelf.ask(id, _version, is_quick=True)}))


class QuestionHandler(_Handler):
    """One of the questions that a panel asks."""

    def initialize(self, name: str, op: str) -> None:
        super().initialize(name)
        self.op = op

    @web.authenticated
    @authorized
    async def get(self, id: str) -> None:
        question = QUESTIONS[self.op]
        args = self.arguments_of(*question.parameters)
        wanted = args.pop("version", None)
        version = await self.shelf.ask(id, _version, is_quick=True)
        if wanted not in (None, version):
            raise ProblemError(409, "the history has moved on since that page; begin with its first one again")
        if question.is_versioned:
            self.set_header("Etag", _tag(version, self.op, args))
            if self.check_etag_header():
                self.set_status(304)
                await self.finish()
                return
        body, after = await self.shelf.ask(id, functools.partial(_answer, self.op, args))
        if after != version:  # another history than the tag says
            self.clear_header("Etag")
        await self.answer(body)

    def compute_etag(self) -> str | None:
        """The tag that was set; an answer that no version covers gets one of its bytes."""
        return self._headers.get("Etag") or (None if QUESTIONS[self.op].is_versioned else super().compute_etag())


class NothingHandler(_Handler):
    """All other paths below ours."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        raise ProblemError(404, "there is nothing at this address")


def _history(shelved: Shelved) -> str:
    return shelved.history


def _version(shelved: Shelved) -> str:
    return shelved.reader.version()


def _answer(op: str, args: dict[str, object], shelved: Shelved) -> tuple[bytes, str]:
    return msgspec.json.encode(shelved.reader.ask(op, args)), shelved.reader.version()


def _tag(version: str, op: str, args: dict[str, object]) -> str:
    told = msgspec.json.encode([version, op, sorted(args.items())])
    return f'"{blake2b(told, digest_size=16).hexdigest()}"'


ROUTES: list[tuple[Any, ...]] = [
    (rf"{_API}/notebooks", NotebookHandler),
    (rf"{_STORE}/version", VersionHandler),
    *((rf"{_STORE}/{op}", QuestionHandler, {"op": op}) for op in QUESTIONS),
    (r"/agent-kernel/.*", NothingHandler),
]
