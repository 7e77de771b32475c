"""What an agent outside asks for beside running code: that the last operation is undone, or that a commit is checked out.

What it made itself it may take back. Where that would take back what somebody else did, it is risky, as code is that
reaches outside the variables: then it is a run of one step that a person has to allow. The step's code is the move in
words of Python, and whoever goes on with the run makes the move instead of running it.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from agent_kernel.agents import uncovered
from agent_kernel.agents.events import Finding
from agent_kernel.agents.journal import Journal
from agent_kernel.agents.operations import operation_text
from agent_kernel.errors import MoveNotMadeError, NothingToUndoError
from agent_kernel.repository import hex_of
from agent_kernel.session.labels import named

if TYPE_CHECKING:
    from agent_kernel.repository import Author, Change, Commit, ObjectId
    from agent_kernel.session import Repository, Session

__all__ = ["CHANGES", "SOURCE", "Move", "findings", "made", "signed"]

SOURCE: Final = "move"  # of the action that is one
KIND: Final = "goes back"  # of what is found about it
CHANGES: Final = "changes"  # and of the variables that would not be as they are
_MOST: Final = 3  # commits that are named
_MOST_NAMES: Final = 8
_FAR: Final = 1_000  # commits back that are looked at

# What a move takes back, in lines, what it changes, and whether that is somebody else's.
_Found: TypeAlias = "tuple[list[str], Sequence[Change], bool]"


class Move(msgspec.Struct, frozen=True):
    """An undo, or a checkout of a commit (`ref`), or of one variable of it."""

    ref: str = ""
    name: str = ""

    @property
    def code(self) -> str:
        """The move as a step's code.

        >>> Move("main", "prices").code
        "checkout('main', 'prices')"
        """
        given = ", ".join(repr(one) for one in (self.ref, self.name) if one)
        return f"checkout({given})" if self.ref else "undo()"

    @classmethod
    def read(cls, code: str) -> Move:
        """The move that some code is. Raises: MoveNotMadeError: it is none.

        >>> Move.read("undo()")
        Move(ref='', name='')
        """
        try:
            parsed = ast.parse(code.strip(), mode="eval")
            arguments = parsed.body.args if isinstance(parsed.body, ast.Call) else []
            given = [str(ast.literal_eval(one)) for one in arguments[:2]]
            move = cls(*given)
            if move.code == ast.unparse(parsed):
                return move
        except (SyntaxError, ValueError):
            pass  # as any other code that is none
        raise MoveNotMadeError("it is neither undo() nor checkout('REF') nor checkout('REF', 'NAME')")


@contextmanager
def signed(session: Session, author: Author) -> Generator[None]:
    """What the session does in the block is this author's; what nobody had committed yet is not."""
    session.commit()
    before, session.author = session.author, author
    try:
        yield
    finally:
        session.author = before


def findings(session: Session, move: Move, author: Author) -> tuple[Finding, ...]:
    """What the move would take back, and change; risky where that is somebody else's.

    Raises:
        RefNotFoundError: there is no such commit. NothingToUndoError: there is nothing to undo.
    """
    session.commit()
    lines, changes, risky = _checked_out(session, move, author) if move.ref else _undone(session, author)
    names = [f"{one.how}{one.name}" for one in changes if not move.name or one.name == move.name]
    return (
        *(Finding(KIND, line, risky=risky) for line in lines),
        *(Finding(CHANGES, name) for name in _cut(names, _MOST_NAMES)),
    )


def _checked_out(session: Session, move: Move, author: Author) -> _Found:
    repo, head = session.repo, session.head
    target = repo.resolve(move.ref, session.id)
    branch = repo.branch_meant(move.ref, session.id)
    left = list(_left(repo, head, target, move.name)) if head is not None else []
    others = [one for one in left if one[1].author != author]
    is_here = branch is not None and branch == session.branch
    return _lines(others or left), session.foreseen(target, is_here=is_here), bool(others)


def _left(repo: Repository, head: ObjectId, target: ObjectId, name: str) -> Iterator[tuple[ObjectId, Commit]]:
    """The commits that the variables would be without, or the one variable."""
    base = repo.merge_base(head, target)
    walk = repo.log_of_name(head, name) if name else repo.log(head, first_parent=True, limit=_FAR)
    for id, commit in walk:
        if base is not None and (id == base or repo.is_ancestor(id, base)):
            return
        if commit.changed:
            yield id, commit


def _undone(session: Session, author: Author) -> _Found:
    operation, repo = session.next_undo, session.repo
    if operation is None:
        raise NothingToUndoError
    at = operation.after.commit
    lines = [operation_text(repo, operation, session.id)] if operation.run or operation.moved else []
    if at is not None and not operation.moved:
        walk = repo.log(at, first_parent=True, limit=_FAR)
        lines += _lines(list(takewhile(lambda one: one[0] != operation.before.commit, walk)))
    return lines, session.foreseen_undo(operation), operation.by != author and at is not None


def _lines(commits: list[tuple[ObjectId, Commit]]) -> list[str]:
    return _cut([f"{named(id, commit)}, by {commit.author.name}" for id, commit in commits], _MOST)


def _cut(lines: list[str], most: int) -> list[str]:
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def made(session: Session, move: Move, author: Author, asked_at: str) -> str:
    """Make a move that was allowed, and say what it did.

    Args:
        asked_at: the commit at which it was asked for, in hex digits: what was allowed is no more than what was named then.

    Raises:
        MoveNotMadeError: something was done since. LoadError, RefNotFoundError …: as `undo` and `checkout` do.
    """
    with signed(session, author):
        if asked_at != ("" if session.head is None else hex_of(session.head)):
            raise MoveNotMadeError("something else was done since it was asked for, and it would take that back too")
        before = session.head
        report = session.checkout(move.ref, [move.name] if move.name else []) if move.ref else session.undo()
    found = uncovered.Apart({}, {}) if move.name else uncovered.apart(session.repo, before, session.head)
    notes = uncovered.notes(Journal(session.repo.store), found)
    names = ", ".join(f"{one.how}{one.name}" for one in report.changed) or "no variable changed"
    return "\n".join([f"{'Checked out' if move.ref else 'Undone'}: {names}", *report.notes, *notes])
