"""State for programs without a notebook: mappings with history (`Versioned`), or without (`Live`)."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import msgspec

from agent_kernel.errors import LoadError
from agent_kernel.repository import Author, Commit, NameDiff, ObjectId
from agent_kernel.session.session import Session
from agent_kernel.session.snapshot import Repository
from agent_kernel.values.surface import load_failure_of

if TYPE_CHECKING:
    from agent_kernel.repository import Unsaved
    from agent_kernel.session.committing import Report
    from agent_kernel.session.snapshot import Snapshot
    from agent_kernel.storage import Store


class Live(MutableMapping[str, object]):
    """In-process state without history: any object, nothing saved."""

    def __init__(self) -> None:
        self._namespace: dict[str, object] = {}

    @property
    def namespace(self) -> dict[str, object]:
        """The dict that code runs in."""
        return self._namespace

    @functools.cached_property
    def beside(self) -> Store:
        """What is kept beside the variables as long as this object lives: the events of agents that acted on them."""
        from agent_kernel.storage import MemoryStore

        return MemoryStore()

    def __getitem__(self, name: str) -> object:
        return self._namespace[name]

    def __setitem__(self, name: str, value: object) -> None:
        self._namespace[name] = value

    def __delitem__(self, name: str) -> None:
        del self._namespace[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._namespace)

    def __len__(self) -> int:
        return len(self._namespace)

    def __repr__(self) -> str:
        """The names alone: values are foreign code's to show."""
        return f"<Live: {', '.join(self) or 'empty'}>"


class Versioned(Live):
    """A mapping on a branch of a store: `commit` saves what changed, `checkout` and `undo` bring states back.

    Without a store or the path of one it is kept in memory. Opening one loads the branch's last state; of that, a key whose value cannot be loaded raises LoadError when it is
    asked for, and what is stored of it is kept. Keys are text without NUL; values are anything that a session can save.
    Records of the branch are stored as they change, without a commit; the next commit holds them with the values, and one undo reverses both.

    >>> from agent_kernel.storage import MemoryStore
    >>> state = Versioned(Repository.open(MemoryStore()))
    >>> state["plan"] = ["look", "think"]
    >>> first = state.commit("a plan")
    >>> state["plan"].append("act")
    >>> second = state.commit("and an act")
    >>> _ = state.rollback("HEAD~1")
    >>> print(*state["plan"])
    look think
    """

    def __init__(
        self, repo: Repository | Path | str = "memory:", branch: str | None = None, author: Author | None = None
    ) -> None:
        super().__init__()
        self._open(repo, branch, author)
        for note in self.session.notes:
            warnings.warn(text_for_programs(note), stacklevel=2)

    def _open(self, repo: Repository | Path | str, branch: str | None, author: Author | None) -> Report | None:
        """Bind the namespace, and bring the branch's last state back; None: it has no state yet."""
        self._owns_repo = not isinstance(repo, Repository)
        self.repo = repo if isinstance(repo, Repository) else Repository.open(repo)
        self.session = Session(self._namespace, self.repo, branch=branch, author=author)
        try:
            return self.session.bring_back(partial=True) if self.session.head is not None else None
        except BaseException:
            self.close()  # or nobody else could have the branch as long as this process lives
            raise

    def __setitem__(self, name: str, value: object) -> None:
        _check_key(name)
        super().__setitem__(name, value)

    def __getitem__(self, name: str) -> object:
        value = super().__getitem__(name)
        failed = load_failure_of(value)
        if failed is not None:
            raise LoadError((name,), failed.reason, way=text_for_programs(failed.remedy))
        return value

    def __repr__(self) -> str:
        """Where it is, and the names: values are foreign code's to show."""
        return f"<Versioned on {self.session.branch or 'no branch'}: {', '.join(self) or 'empty'}>"

    def commit(self, message: str = "") -> Report:
        """Save what changed since the last commit, however it changed. Raises: TypeError: the message is no text."""
        if not isinstance(message, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
            raise TypeError(f"a message is text, not {message!r}")
        return report_for_programs(self.session.commit(message, full=True))

    def checkout(self, rev: str | ObjectId | None = None, *, partial: bool = False) -> Report:
        """Load the state at a commit; without one, the branch's last.

        Args:
            partial: go on without what cannot be loaded; otherwise a LoadError names it, and nothing is changed.
        """
        return report_for_programs(self.session.checkout(rev, partial=partial))

    def rollback(self, rev: str | ObjectId, *, partial: bool = False) -> Report:
        """Commit the state that an older commit had. `partial`: as for `checkout`."""
        return report_for_programs(self.session.rollback(rev, partial=partial))

    def undo(self, *, partial: bool = False) -> Report:
        """Reverse the last operation of this object. `partial`: as for `checkout`."""
        return report_for_programs(self.session.undo(partial=partial))

    def redo(self, *, partial: bool = False) -> Report:
        """Do again what was undone. `partial`: as for `checkout`."""
        return report_for_programs(self.session.redo(partial=partial))

    def at(self, rev: str | ObjectId = "HEAD") -> Snapshot:
        """A past state to look at."""
        return self.repo.at(rev) if rev != "HEAD" or self.session.head is None else self.repo.at(self._head_hex())

    def _head_hex(self) -> str:
        from agent_kernel.repository import hex_of

        return hex_of(self.session.head) if self.session.head is not None else "HEAD"

    def history(self, limit: int | None = None) -> list[tuple[ObjectId, Commit]]:
        """The commits that led here, newest first."""
        return [] if self.session.head is None else list(self.repo.log(self.session.head, limit=limit))

    def diff(self, old: str | ObjectId = "HEAD~1", new: str | ObjectId = "HEAD") -> list[NameDiff]:
        """Which keys differ between two commits; by default what the last commit changed."""
        return self.repo.diff(self.repo.resolve(old, self.session.id), self.repo.resolve(new, self.session.id))

    def close(self) -> None:
        """Give the branch back, and the store if it was opened here."""
        self.session.close()
        if self._owns_repo:
            self.repo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _check_key(key: object) -> None:
    """Refuse what no commit could hold, instead of leaving it out of all of them."""
    if not isinstance(key, str):
        raise TypeError(f"a key is text, not {type(key).__name__}")
    if "\0" in key:
        raise ValueError(f"a key is text without NUL, not {key!r}")


# -- what a session says, for programs: they type no `%agent` commands, and have no numbered cells to run again
#
# What is stored keeps the words of notebooks: a notebook may open the same store, and reads the numbers of cells in them.

_SAID: Final = (
    (r"%agent switch (\S+) goes there", r"open the store on branch \1 to go on there"),
    (r"run %agent trust and %agent checkout again", "call Repository.trust and load it again"),
    (r"run %agent trust", "call Repository.trust"),
    (r"%agent (verify|stats|prune)\b", r"Repository.\1"),
    (r"%agent commit --full", "commit"),
    (r"%agent ignore", "Session.ignore"),
    (r"%agent (\w+)", r"\1"),
    (r"\brun cell \[(\d+)\] again", r"run the code of run \1 again"),
    (r"\brun cells \[(\d+)\] and \[(\d+)\]", r"run the code of runs \1 and \2"),
    (r"(?<=\d) and \[(\d+)\](?=.* again\b)", r" and \1"),
    (r"\b(?:the )?cell \[(\d+)\]", r"run \1"),
    (r"\brun the cells? (of|that made it)\b", r"run the code \1"),
)


def text_for_programs(text: str) -> str:
    """The same, in the words of who calls methods.

    >>> text_for_programs("run cells [1] and [3] and [4] again to have it back")
    'run the code of runs 1 and 3 and 4 again to have it back'
    >>> text_for_programs("branch main has gone on beside this one: %agent switch main goes there")
    'branch main has gone on beside this one: open the store on branch main to go on there'
    """
    for pattern, said in _SAID:
        text = re.sub(pattern, said, text)
    return text


def unsaved_for_programs(unsaved: Iterable[Unsaved]) -> tuple[Unsaved, ...]:
    """What could not be saved, with remedies that a program has."""
    return tuple(msgspec.structs.replace(one, remedy=text_for_programs(one.remedy)) for one in unsaved)


def report_for_programs(report: Report) -> Report:
    """A report whose remedies and notes a program can follow."""
    unsaved, notes = unsaved_for_programs(report.unsaved), tuple(map(text_for_programs, report.notes))
    return msgspec.structs.replace(report, unsaved=unsaved, notes=notes)
