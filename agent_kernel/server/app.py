"""The extension as jupyter-server knows it: its routes, its options, its name.

Each route asks who it is that asks, and answers with JSON, or with the page of a bundle. All of them only read. Every method that exists is
authenticated and authorised for the resource `agent_kernel`, and what is answered may be kept by the browser, which asks
each time whether it still holds.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.extension.application import ExtensionApp
from jupyter_server.extension.handler import ExtensionHandlerMixin
from jupyter_server.utils import ensure_async
from tornado import web
from traitlets import Float, List, Unicode

from agent_kernel.bundle import keys
from agent_kernel.bundle.report import Theme, make_refusal, policy
from agent_kernel.server import OpenStores, ProblemError, Roots

if TYPE_CHECKING:
    from agent_kernel.server import OpenStore

__all__ = ["QUESTIONS", "ROUTES", "AgentKernelServer", "BundlePages", "Parameter", "Question", "arguments", "tag_of"]


# -- pages of bundles: each is made by a process of its own, which can be ended


logger = logging.getLogger(__name__)

_AT_ONCE: Final = 2  # processes
_MOST_WAITING: Final = 8  # pages that are being made, or wait
_AGAIN_S: Final = 10
_FULL: Final = "too many bundles are being looked at; ask again in a while"
_SLOW: Final = "this bundle takes too long to verify here; look at it in a terminal, with agent-kernel show"


class BundlePages:
    """Makes the pages of bundles, off the event loop that it is used from.

    Args:
        answer_s: seconds after which a process that makes a page is ended.
    """

    def __init__(self, *, answer_s: float = 30.0) -> None:
        self._answer_s = answer_s
        self._pool = ThreadPoolExecutor(_AT_ONCE, "agent-kernel-bundles")
        self._making: dict[str, asyncio.Future[bytes]] = {}

    async def make(self, path: Path, theme: Theme, tag: str) -> bytes:
        """The page of a bundle. Whoever asks for a page that is being made waits for that one.

        Args:
            path: of the bundle, with no links in it. tag: what `tag_of` said of it.

        Raises:
            ProblemError: it took too long, or too many are asked for.
        """
        making = self._making.get(tag)
        if making is None:
            if len(self._making) >= _MOST_WAITING:
                raise ProblemError(503, _FULL, retry_s=_AGAIN_S)
            making = asyncio.get_running_loop().run_in_executor(self._pool, self._make, path, theme)
            self._making[tag] = making
            making.add_done_callback(partial(self._forget, tag))
        done, _ = await asyncio.wait([making], timeout=self._answer_s + 1)
        if not done:
            raise ProblemError(503, _FULL, retry_s=_AGAIN_S)
        return making.result()

    def _forget(self, tag: str, made: asyncio.Future[bytes]) -> None:
        del self._making[tag]
        if not made.cancelled():
            made.exception()  # heard, also where nobody waits for it any more

    def _make(self, path: Path, theme: Theme) -> bytes:
        # A status that is not 0: it met something that nothing here foresaw, or was cut off.
        # `-P`: no module of the folder that the server was started in.
        command = [sys.executable, "-P", "-m", "agent_kernel.bundle.report", str(path), theme]
        try:
            made = subprocess.run(
                command, check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=self._answer_s
            )
        except subprocess.TimeoutExpired as error:
            raise ProblemError(503, _SLOW) from error
        if made.returncode:
            logger.warning("no page of the bundle %s could be made (status %d)", path.name, made.returncode)
            return make_refusal(path.name, "what it holds cannot be shown", theme)
        return made.stdout

    def close(self) -> None:
        """After the pages that are being made."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def tag_of(path: Path, theme: Theme) -> str:
    """What changes when the page of a bundle may: with the file, with the keys that are known, with the release.

    Raises:
        ProblemError: the file is not there any more.
    """
    try:
        found = path.stat()
    except OSError as error:
        raise ProblemError(404, "this bundle is not there any more", "gone") from error
    file = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    # The package itself names every interface, so an interface that imports it would reach the others.
    release = vars(sys.modules["agent_kernel"])["__version__"]
    identity = msgspec.json.encode([str(path), file, theme, release, keys.stamp()])
    return blake2b(identity, digest_size=16).hexdigest()


# -- the questions that can be asked of a store, and how their arguments are written in a URL

# Of Jupyter's own: a token, what keeps a request from counting as activity, and its clients' way around caches.
_OTHERS = frozenset({"token", "no_track_activity"})


class Parameter(NamedTuple):
    """One argument. `texts` may be given several times."""

    name: str
    type: Literal["text", "number", "texts"] = "text"
    is_required: bool = False


class Question(NamedTuple):
    """One of the Reads that a panel makes.

    Args:
        is_versioned: the answer is the same as long as the version of the history is.
    """

    parameters: tuple[Parameter, ...]
    is_versioned: bool = True


_QUERY = (Parameter("text"), Parameter("show"), Parameter("tz_s", "number"), Parameter("unfolded", "texts"))
_ID = Parameter("id", is_required=True)
_AGAINST = Parameter("against")

QUESTIONS: Mapping[str, Question] = {
    "branches": Question((), is_versioned=False),  # who holds one depends on which processes live
    "cells": Question((_ID,)),
    "code": Question((_ID, _AGAINST)),
    "commit": Question((_ID, _AGAINST)),
    "compare": Question((Parameter("a", is_required=True), Parameter("b", is_required=True))),
    "environment": Question((_ID, _AGAINST)),
    "locate": Question((*_QUERY, _ID)),
    "open": Question((*_QUERY, Parameter("n", "number"))),
    "outputs": Question((_ID,)),
    "plan": Question((Parameter("op", is_required=True), Parameter("to", is_required=True)), is_versioned=False),
    "race": Question((_ID,), is_versioned=False),  # the events of its candidates go on between two versions
    "rows": Question((*_QUERY, Parameter("from", "number"), Parameter("n", "number"), Parameter("version"))),
    "run": Question((_ID,), is_versioned=False),  # its events go on between two versions
    "variable": Question((_ID, _AGAINST, Parameter("name", is_required=True))),
}


def arguments(query: Mapping[str, Sequence[bytes]], parameters: Sequence[Parameter]) -> dict[str, object]:
    """The arguments of a URL as data.

    Raises:
        ProblemError: one is missing, unknown, given twice, or not of its type.
    """
    known = {parameter.name: parameter for parameter in parameters}
    found: dict[str, object] = {}
    for name, values in query.items():
        if name in _OTHERS or (name.isdecimal() and values == [b""]):
            continue
        if name not in known:
            raise ProblemError(400, f"there is no parameter {name[:40]!r} (there are: {', '.join(known) or 'none'})")
        found[name] = _read(known[name], [_text(name, value) for value in values])
    missing = [name for name, parameter in known.items() if parameter.is_required and name not in found]
    if missing:
        raise ProblemError(400, f"the parameter {missing[0]!r} is missing")
    return found


def _read(parameter: Parameter, values: list[str]) -> object:
    if parameter.type == "texts":
        return values
    if len(values) != 1:
        raise ProblemError(400, f"the parameter {parameter.name!r} is given twice")
    if parameter.type == "text":
        return values[0]
    digits = values[0].removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 12):
        raise ProblemError(400, f"the parameter {parameter.name!r} is a whole number")
    return int(values[0])


def _text(name: str, value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise ProblemError(400, f"the parameter {name!r} is not UTF-8") from error


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
    def stores(self) -> OpenStores:
        found: OpenStores = self.settings["agent_kernel_shelf"]
        return found

    def arguments_of(self, *parameters: Parameter) -> dict[str, object]:
        return arguments(self.request.query_arguments, parameters)

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.set_header("X-Content-Type-Options", "nosniff")
        self.set_header("Cross-Origin-Resource-Policy", "same-origin")
        self.set_header("Cache-Control", "private, no-cache")

    async def visible(self, path: str, noun: str) -> str:
        """The path, unless Jupyter hides what is there."""
        contents: Any = self.contents_manager  # of any kind, and untyped
        if not contents.allow_hidden and await ensure_async(contents.is_hidden(path)):
            raise ProblemError(404, f"there is no {noun} {path!r}")
        return path

    async def answer(self, body: bytes, content_type: str = "application/json") -> None:
        if len(body) > _MOST_BYTES:
            raise ProblemError(413, f"the answer has {len(body):,} bytes, and at most {_MOST_BYTES:,} are sent")
        await self.finish(body, set_content_type=content_type)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """One line of JSON, whatever went wrong."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if not isinstance(error, ProblemError):
            log_message = getattr(error, "log_message", None) if isinstance(error, web.HTTPError) else None
            message = (
                log_message or HTTPStatus(status_code).phrase if status_code < 500 else "the history could not be read"
            )
            error = ProblemError(status_code, message)
        self.set_status(error.status)
        self.clear_header("Etag")
        if error.retry_s:
            self.set_header("Retry-After", str(error.retry_s))
        self.finish(msgspec.json.encode(error.body()))  # type: ignore[unused-awaitable]  # not a coroutine, in tornado

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        if isinstance(value, ProblemError):  # an answer like others
            self.log.debug("%s %s: %s", value.status, self.request.path, value.message)
        else:
            super().log_exception(typ, value, tb)


class NotebookHandler(_Handler):
    """Which store belongs to a notebook."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        path = str(self.arguments_of(Parameter("path", is_required=True))["path"])
        path = await self.visible(await self.stores.run(functools.partial(self.roots.notebook, path)), "notebook")
        folder = await self.stores.run(functools.partial(self.roots.store_of, path))
        store: dict[str, str] | None = None
        if folder is not None:
            id = self.stores.id_of(folder)
            store = {"id": id, "name": folder.name, "history": await self.stores.ask(id, _history, is_quick=True)}
        await self.answer(msgspec.json.encode({"path": path, "store": store}))


class VersionHandler(_Handler):
    """Whether anything changed. Panels that can be seen ask every second or so, which is no one's activity."""

    _track_activity = False

    @web.authenticated
    @authorized
    async def get(self, id: str) -> None:
        self.arguments_of()
        await self.answer(msgspec.json.encode({"version": await self.stores.ask(id, _version, is_quick=True)}))


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
        version = await self.stores.ask(id, _version, is_quick=True)
        if wanted not in (None, version):
            raise ProblemError(409, "the history has moved on since that page; begin with its first one again")
        if question.is_versioned:
            self.set_header("Etag", _tag(version, self.op, args))
            if self.check_etag_header():
                self.set_status(304)
                await self.finish()
                return
        body, after = await self.stores.ask(id, functools.partial(_answer, self.op, args))
        if after != version:  # another history than the tag says
            self.clear_header("Etag")
        await self.answer(body)

    def compute_etag(self) -> str | None:
        """The tag that was set; an answer that no version covers gets one of its bytes."""
        return self._headers.get("Etag") or (None if QUESTIONS[self.op].is_versioned else super().compute_etag())


class BundleHandler(_Handler):
    """A bundle as a page, which runs nothing."""

    @property
    def pages(self) -> BundlePages:
        found: BundlePages = self.settings["agent_kernel_bundles"]
        return found

    @web.authenticated
    @authorized
    async def get(self) -> None:
        args = self.arguments_of(Parameter("path", is_required=True), Parameter("theme"))
        theme = _theme(str(args.get("theme", "")))
        path = await self.visible(
            await self.stores.run(functools.partial(self.roots.bundle, str(args["path"]))), "bundle"
        )
        file = await self.stores.run(functools.partial(self.roots.file_of, path))
        tag = await self.stores.run(functools.partial(tag_of, file, theme))
        self.set_header("Etag", f'"{tag}"')
        if self.check_etag_header():
            self.set_status(304)
            await self.finish()
            return
        page = await self.pages.make(file, theme, tag)
        self.set_header("Content-Security-Policy", f"{policy(theme)}; frame-ancestors 'self'; sandbox")
        await self.answer(page, "text/html; charset=UTF-8")

    def compute_etag(self) -> str | None:
        return self._headers.get("Etag")


_THEMES: Final[Mapping[str, Theme]] = {"": "", "light": "light", "dark": "dark"}


def _theme(name: str) -> Theme:
    theme = _THEMES.get(name)
    if theme is None:
        raise ProblemError(400, "the parameter 'theme' is light or dark")
    return theme


class NothingHandler(_Handler):
    """All other paths below ours."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        raise ProblemError(404, "there is nothing at this address")


def _history(store: OpenStore) -> str:
    return store.history


def _version(store: OpenStore) -> str:
    return store.reader.version()


def _answer(op: str, args: dict[str, object], store: OpenStore) -> tuple[bytes, str]:
    return msgspec.json.encode(store.reader.ask(op, args)), store.reader.version()


def _tag(version: str, op: str, args: dict[str, object]) -> str:
    identity = msgspec.json.encode([version, op, sorted(args.items())])
    return f'"{blake2b(identity, digest_size=16).hexdigest()}"'


ROUTES: list[tuple[Any, ...]] = [
    (rf"{_API}/notebooks", NotebookHandler),
    (rf"{_API}/bundles", BundleHandler),
    (rf"{_STORE}/version", VersionHandler),
    *((rf"{_STORE}/{op}", QuestionHandler, {"op": op}) for op in QUESTIONS),
    (r"/agent-kernel/.*", NothingHandler),
]


# -- the extension: its options, and what its handlers share


class AgentKernelServer(ExtensionApp):
    """Histories of notebooks, to look at without their kernels."""

    name = "agent_kernel"
    description = "Look at the histories that agent_kernel keeps of notebooks, without their kernels."
    load_other_extensions = True

    allowed_roots = List(
        Unicode(),
        help="Folders besides the server's root folder in which stores may be looked at.",
    ).tag(config=True)
    idle_s = Float(30.0, min=1.0, help="Seconds after the last question when a store is closed.").tag(config=True)
    answer_s = Float(30.0, min=1.0, help="Seconds for which somebody waits for an answer.").tag(config=True)

    def initialize_settings(self) -> None:
        """Set up what the handlers share."""
        server = self.serverapp
        assert server is not None
        # Paths of notebooks are the contents manager's. One that keeps no files has no root, and no stores beside them.
        root = Path(getattr(server.contents_manager, "root_dir", server.root_dir))
        roots = Roots(root, [Path(path) for path in self.allowed_roots])
        self._stores = OpenStores(roots.require, idle_s=self.idle_s, answer_s=self.answer_s)
        self._bundles = BundlePages(answer_s=self.answer_s)
        self.settings.update(
            agent_kernel_roots=roots, agent_kernel_shelf=self._stores, agent_kernel_bundles=self._bundles
        )

    def initialize_handlers(self) -> None:
        """Add the routes."""
        self.handlers.extend(ROUTES)

    async def stop_extension(self) -> None:
        """Close the stores."""
        self._stores.close()
        self._bundles.close()
