"""Pages of bundles: each is made by a process of its own, which can be ended.

A bundle may come from anyone, and can be made so that verifying it takes as long as one likes, and much memory. That is not for
the server to go through.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from agent_kernel.bundle import keys
from agent_kernel.bundle.page import Theme, make_refusal
from agent_kernel.server.stores import ProblemError

__all__ = ["BundlePages", "tag_of"]

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
        command = [sys.executable, "-P", "-m", "agent_kernel.bundle.page", str(path), theme]
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
    told = msgspec.json.encode([str(path), file, theme, release, keys.stamp()])
    return blake2b(told, digest_size=16).hexdigest()
