"""Look at a notebook's history without its kernel: the stores that are looked at, for the extension of jupyter-server (`app`).

It only reads: values stay pickled, nothing is stored, no route changes anything. What it answers is what a kernel's panel
answers (`agent_kernel.queries`), for the stores of notebooks under the server's root folder that this user made.
`openapi.yaml` describes the routes. `_jupyter_server_extension_points` of the package leads Jupyter to `app`.

Stores are opened when asked for, by threads, and closed when nobody asks any more. A store is open once in this process,
read-only and with LMDB's lock, so that its writer leaves alone what is being read, and each transaction is short. While a
store is open nobody can give its free space back to the disk, hence the closing.

Each store has threads of its own, so that one which is slow to answer holds up no other. A thread cannot be ended: whoever
waits too long is told so, and the place stays taken until the answer is there.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeVar

from agent_kernel.commands.places import find_redirect, is_store, store_path_of
from agent_kernel.errors import AgentKernelError
from agent_kernel.queries import Reader, failure
from agent_kernel.queries.wording import store_id
from agent_kernel.session import Repository
from agent_kernel.session.trust import is_registered, is_trusted
from agent_kernel.storage import open_store
from agent_kernel.storage.archive import SUFFIX

__all__ = ["OpenStore", "OpenStores", "ProblemError", "Roots", "problem_of"]


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
