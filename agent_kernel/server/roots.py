"""Which stores may be looked at: those that this user made, under the server's root folder or one that was allowed.

Paths come from outside, and so may links in the folders that they name. Each is followed to its end before it is
compared, and every file that would be opened counts, so no link leads out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from agent_kernel.errors import AgentKernelError
from agent_kernel.server.problems import FOREIGN, ProblemError, problem_of
from agent_kernel.session.trust import is_registered
from agent_kernel.verbs.places import bound_elsewhere, is_store, store_beside

__all__ = ["Roots"]

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
        parts = PurePosixPath(path.strip("/")).parts
        if not parts or len(path) > _LONGEST_PATH or "\0" in path or ".." in parts:
            raise ProblemError(400, "path names a notebook, relative to the server's root folder")
        notebook = self._root.joinpath(*parts)
        self._require_inside(notebook)
        if notebook.suffix != ".ipynb" or not _is_file(notebook):
            raise ProblemError(404, f"there is no notebook {'/'.join(parts)!r}")
        return "/".join(parts)

    def store_of(self, path: str) -> Path | None:
        """The folder of a notebook's store, with no links in it; None: it has none yet. `path`: as `notebook` gave it.

        Raises:
            ProblemError: the store may not be looked at here.
        """
        own = store_beside(self._root / path)
        try:
            store = bound_elsewhere(own) or own
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
            raise ProblemError(403, FOREIGN)

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
