"""Look at a notebook's history without its kernel: the extension of jupyter-server, and the stores that are looked at.

It only reads: values stay pickled, nothing is stored, no route changes anything. What it answers is what a kernel's panel
answers (`agent_kernel.queries`), for the stores of notebooks under the server's root folder that this user made.
`openapi.yaml` describes the routes. `_jupyter_server_extension_points` of the package leads Jupyter here.

Stores are opened when asked for, by threads, and closed when nobody asks any more. A store is open once in this process,
read-only and with LMDB's lock, so that its writer leaves alone what is being read, and each transaction is short. While a
store is open nobody can give its free space back to the disk, hence the closing.

Each store has threads of its own, so that one which is slow to answer holds up no other. A thread cannot be ended: whoever
waits too long is told so, and the place stays taken until the answer is there.
"""

from __future__ import annotations

import asyncio
import functools
import hmac
import logging
import secrets
import subprocess
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from hashlib import blake2b, sha256
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import Any, Final, Literal, NamedTuple, TypeVar

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
from agent_kernel.commands.places import find_redirect, is_store, store_path_of
from agent_kernel.errors import AgentKernelError
from agent_kernel.queries.reader import Reader, failure
from agent_kernel.queries.wording import store_id
from agent_kernel.session import Repository
from agent_kernel.session.trust import is_registered, is_trusted
from agent_kernel.storage import open_store
from agent_kernel.storage.archive import SUFFIX

# -- why a request is not answered: a status for the protocol, a word for programs, one line for people

_FOREIGN = "this history was made elsewhere or was moved; open its notebook with a kernel, or say %agent trust there"

_STATUS = {
    "ambiguous": 409,
    "damaged": 500,
    "failed": 500,
    "gone": 404,
    "not_found": 404,
    "refused": 400,
    "too_large": 413,
}
_CODE = {403: "refused", 404: "not_found", 405: "refused", 409: "refused", 413: "too_large"}


class ProblemError(Exception):
    """Answered in place of what was asked for. `code`: a word of the panel's contract; `retry_s`: when to ask again."""

    def __init__(self, status: int, message: str, code: str = "", *, retry_s: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_s = retry_s
        self.code = code or _CODE.get(status, "failed" if status >= 500 else "refused")

    def body(self) -> dict[str, object]:
        """The answer. `message` stands outside too, where Jupyter's own clients look for it."""
        return {"error": {"code": self.code, "message": self.message}, "message": self.message}


def problem_of(error: AgentKernelError) -> ProblemError:
    """What to answer where the repository raised."""
    found = failure(error)
    return ProblemError(_STATUS[found["code"]], found["message"], found["code"])


# -- the open stores, and the threads that answer for each

R = TypeVar("R")
_MOST_KNOWN = 10_000  # stores that were asked for; the ids of those not asked for lately are forgotten
_MOST_OPEN = 32  # stores
_AT_ONCE = 2  # questions to one store; what costs next to nothing has a thread beside them
_AGAIN_S = 10  # after which somebody who was told to wait may ask again
_SLOW = "this history takes too long to answer; ask again in a while"
_FULL = "too many histories are being looked at; ask again in a while"
_FileId = tuple[int, int]


class OpenStore(NamedTuple):
    """An open store. `history`: what saved panels call it, wherever it lies."""

    reader: Reader
    history: str


class OpenStores:
    """Stores by an id that says nothing of where they lie. Used from one event loop.

    Args:
        require: raises if a store may not be looked at. Called each time, in a thread.
        idle_s: seconds after the last question when a store is closed.
        answer_s: seconds for which somebody waits for an answer.
    """

    def __init__(self, require: Callable[[Path], None], *, idle_s: float = 30.0, answer_s: float = 30.0) -> None:
        self._require = require
        self._idle_s = idle_s
        self._answer_s = answer_s
        self._pool = ThreadPoolExecutor(4, "agent-kernel-server")  # for what is of no store
        self._secret = secrets.token_bytes(32)
        self._folders: OrderedDict[str, Path] = OrderedDict()
        self._open: dict[str, _Opened] = {}

    def id_of(self, folder: Path) -> str:
        """The id of the store in this folder, for as long as this server runs. `folder` has no links in it."""
        id = hmac.new(self._secret, str(folder).encode(), sha256).hexdigest()[:32]
        self._folders[id] = folder
        self._folders.move_to_end(id)
        if len(self._folders) > _MOST_KNOWN:
            self._folders.popitem(last=False)
        return id

    async def run(self, work: Callable[[], R]) -> R:
        """What `work` returns, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, _report_errors(work))

    async def ask(self, id: str, work: Callable[[OpenStore], R], *, is_quick: bool = False) -> R:
        """What `work` makes of the store of this id, off the event loop.

        Args:
            is_quick: it costs next to nothing, and waits for no other question.

        Raises:
            ProblemError: there is no such store, it may not be looked at, has no answer, or none in time.
        """
        folder = self._folders.get(id)
        if folder is None:
            raise ProblemError(404, "there is no store of this id; ask for the notebook's store again", "gone")
        self._folders.move_to_end(id)
        answering = asyncio.ensure_future(self._answer(id, folder, work, is_quick=is_quick))
        done, _ = await asyncio.wait([answering], timeout=self._answer_s)
        if not done:
            answering.add_done_callback(_hear_out)
            raise ProblemError(503, _SLOW, retry_s=_AGAIN_S)
        return answering.result()

    async def _answer(self, id: str, folder: Path, work: Callable[[OpenStore], R], *, is_quick: bool) -> R:
        while True:
            opened = self._open.get(id) or self._new(folder)
            self._open[id] = opened
            opened.users += 1
            try:
                return await opened.ask(work, is_quick=is_quick)
            except _ReplacedError:
                self._drop(id, opened)
            finally:
                opened.users -= 1
                self._rest(id, opened)

    def _new(self, folder: Path) -> _Opened:
        if len(self._open) >= _MOST_OPEN:
            idle = next((id for id, opened in self._open.items() if not opened.users), None)
            if idle is None:
                raise ProblemError(503, _FULL, retry_s=_AGAIN_S)
            self._pool.submit(self._open.pop(idle).close)
        return _Opened(folder, self._require)

    def close(self) -> None:
        """Close all stores, each after what it is answering."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        for opened in self._open.values():
            opened.close()
        self._open.clear()

    def open_stores(self) -> int:
        """How many are open."""
        return len(self._open)

    def _rest(self, id: str, opened: _Opened) -> None:
        """Close the store in a while, unless someone asks again."""
        if opened.users:
            return
        loop = asyncio.get_running_loop()
        if self._open.get(id) is not opened:  # it was replaced meanwhile
            self._pool.submit(opened.close)
            return
        opened.last_used_s = loop.time()
        if not opened.is_watched:
            opened.is_watched = True
            loop.call_later(self._idle_s, self._look, id, opened)

    def _look(self, id: str, opened: _Opened) -> None:
        loop = asyncio.get_running_loop()
        remaining_s = opened.last_used_s + self._idle_s - loop.time()
        if self._open.get(id) is not opened:
            return
        if opened.users or remaining_s > 0:
            loop.call_later(max(remaining_s, 1.0), self._look, id, opened)
        else:
            self._drop(id, opened)
            self._pool.submit(opened.close)

    def _drop(self, id: str, opened: _Opened) -> None:
        if self._open.get(id) is opened:
            del self._open[id]


class _ReplacedError(Exception):
    """Another data file lies in the folder now, as after a checkout of files or a compaction."""


class _Opened:
    """One open store. Its methods run in threads; what is counted belongs to the event loop."""

    def __init__(self, folder: Path, require: Callable[[Path], None]) -> None:
        self.users = 0
        self.last_used_s = 0.0
        self.is_watched = False
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._threads = ThreadPoolExecutor(_AT_ONCE + 1, "agent-kernel-store")
        self._folder = folder
        self._require = require
        self._lock = threading.Lock()
        self._found: _FileId | None = None
        self._repo: Repository | None = None
        self._open: OpenStore | None = None

    async def ask(self, work: Callable[[OpenStore], R], *, is_quick: bool) -> R:
        """What `work` makes of the store, in one of its threads."""
        async with nullcontext() if is_quick else self._slots:
            answer = _report_errors(partial(self._answer, work))
            return await asyncio.get_running_loop().run_in_executor(self._threads, answer)

    def _answer(self, work: Callable[[OpenStore], R]) -> R:
        """Open the store if need be, and ask it."""
        self._require(self._folder)
        with self._lock:
            found = _file_id(self._folder)
            if self._open is None:
                self._open, self._found = self._open_store(), found
            elif found != self._found:
                raise _ReplacedError
            store = self._open
        return work(store)

    def _open_store(self) -> OpenStore:
        self._repo = Repository.open(open_store(self._folder, create=False, readonly=True), create=False)
        try:
            if not is_trusted(self._repo):  # the file at a registered place was exchanged
                raise ProblemError(403, _FOREIGN)
            return OpenStore(Reader(self._repo), store_id(self._repo))
        except BaseException:
            self._let_go()
            raise

    def close(self) -> None:
        """After what is being answered."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._let_go()

    def _let_go(self) -> None:
        if self._repo is not None:
            self._repo.close()
            self._repo = None


def _file_id(folder: Path) -> _FileId:
    try:
        found = (folder / "data.mdb").stat()
    except OSError as error:
        raise ProblemError(404, "this history is not there any more", "gone") from error
    return found.st_dev, found.st_ino


def _hear_out(answering: asyncio.Future[R]) -> None:
    """Take an answer, or a failure, that nobody waits for any more."""
    if not answering.cancelled():
        answering.exception()


def _report_errors(work: Callable[[], R]) -> Callable[[], R]:
    """The work, which raises ProblemError where the repository raises."""

    def run() -> R:
        try:
            return work()
        except AgentKernelError as error:
            raise problem_of(error) from error

    return run


# -- which stores may be looked at: those that this user made, under the server's root folder or one that was allowed
#
# Paths come from outside, and so may links in the folders that they name. Each is followed to its end before it is
# compared, and every file that would be opened counts, so no link leads out.

_FILES = ("data.mdb", "lock.mdb")
_LONGEST_PATH = 4_096


class Roots:
    """The folders that stores may lie in.

    Args:
        root: the server's own, which paths of notebooks are relative to.
        allowed: others, for stores that were bound elsewhere.
    """

    def __init__(self, root: Path, allowed: Iterable[Path]) -> None:
        self._root = root.resolve()
        self._roots = (self._root, *(path.expanduser().resolve() for path in allowed))

    def notebook(self, path: str) -> str:
        """The path of a notebook that is there, in the one way in which Jupyter writes it.

        Raises:
            ProblemError: there is no such notebook.
        """
        return self._find(path, ".ipynb", "notebook")

    def bundle(self, path: str) -> str:
        """The path of a bundle that is there, as `notebook` says it.

        Raises:
            ProblemError: there is no such bundle.
        """
        return self._find(path, SUFFIX, "bundle")

    def file_of(self, path: str) -> Path:
        """The file of a bundle, with no links in it. `path`: as `bundle` gave it.

        Raises:
            ProblemError: it may not be looked at here.
        """
        file = (self._root / path).resolve()
        self._require_inside(file)
        return file

    def _find(self, path: str, suffix: str, noun: str) -> str:
        parts = PurePosixPath(path.strip("/")).parts
        if not parts or len(path) > _LONGEST_PATH or "\0" in path or ".." in parts:
            raise ProblemError(400, f"path names a {noun}, relative to the server's root folder")
        file = self._root.joinpath(*parts)
        self._require_inside(file)
        if file.suffix != suffix or not _is_file(file):
            raise ProblemError(404, f"there is no {noun} {'/'.join(parts)!r}")
        return "/".join(parts)

    def store_of(self, path: str) -> Path | None:
        """The folder of a notebook's store, with no links in it; None: it has none yet. `path`: as `notebook` gave it.

        Raises:
            ProblemError: the store may not be looked at here.
        """
        own = store_path_of(self._root / path)
        try:
            store = find_redirect(own) or own
        except AgentKernelError as error:
            raise problem_of(error) from error
        self._require_inside(store)  # before it is said whether anything is there
        if not is_store(store):
            return None
        folder = store.resolve()
        self.require(folder)
        return folder

    def require(self, folder: Path) -> None:
        """Raise ProblemError unless the store in this folder, which `store_of` returned, may still be looked at."""
        self._require_inside(folder, *(folder / name for name in _FILES))
        if not is_registered(folder):
            raise ProblemError(403, _FOREIGN)

    def _require_inside(self, *paths: Path) -> None:
        for path in paths:
            try:
                end = path.resolve()
            except (OSError, RuntimeError) as error:  # links in a circle
                raise ProblemError(403, "this history lies where this server may not look") from error
            if not any(end.is_relative_to(root) for root in self._roots):
                raise ProblemError(403, "this history lies outside the folders that this server may look at")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # no file can have this name: it is too long
        return False


# -- the extension as jupyter-server knows it: its routes, its options, its name
#
# Each route asks who it is that asks, and answers with JSON, or with the page of a bundle. All of them only read. Every method that exists is
# authenticated and authorised for the resource `agent_kernel`, and what is answered may be kept by the browser, which asks
# each time whether it still holds.


# -- pages of bundles: each is made by a process of its own, which can be ended


logger = logging.getLogger(__name__)

_MOST_PROCESSES: Final = 2  # processes
_MOST_WAITING: Final = 8  # pages that are being made, or wait
_FULL_OF_BUNDLES: Final = "too many bundles are being looked at; ask again in a while"
_SLOW_BUNDLE: Final = "this bundle takes too long to verify here; look at it in a terminal, with agent-kernel show"


class BundlePages:
    """Makes the pages of bundles, off the event loop that it is used from.

    Args:
        answer_s: seconds after which a process that makes a page is ended.
    """

    def __init__(self, *, answer_s: float = 30.0) -> None:
        self._answer_s = answer_s
        self._pool = ThreadPoolExecutor(_MOST_PROCESSES, "agent-kernel-bundles")
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
                raise ProblemError(503, _FULL_OF_BUNDLES, retry_s=_AGAIN_S)
            making = asyncio.get_running_loop().run_in_executor(self._pool, self._make, path, theme)
            self._making[tag] = making
            making.add_done_callback(partial(self._forget, tag))
        done, _ = await asyncio.wait([making], timeout=self._answer_s + 1)
        if not done:
            raise ProblemError(503, _FULL_OF_BUNDLES, retry_s=_AGAIN_S)
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
            raise ProblemError(503, _SLOW_BUNDLE) from error
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
