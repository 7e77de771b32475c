"""What an agent outside asks for beside running code: that the last operation is undone, or that a commit is checked out.

What it made itself it may take back. Where that would take back what somebody else did, it is risky, as code is that
reaches outside the variables: then it is a run of one step that a person has to allow. The step's code is the move in
words of Python, and whoever goes on with the run makes the move instead of running it.
"""

from __future__ import annotations

import ast
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents import uncovered
from agent_kernel.agents.events import Finding
from agent_kernel.agents.journal import Journal
from agent_kernel.errors import MoveNotMadeError
from agent_kernel.repository import hex_of
from agent_kernel.session.labels import named

if TYPE_CHECKING:
    from agent_kernel.repository import Author, Commit, ObjectId
    from agent_kernel.session import Session

__all__ = ["KIND", "SOURCE", "Move", "findings", "made", "signed"]

SOURCE: Final = "move"  # of the action that is one
KIND: Final = "goes back"  # of what is found about it
_MOST: Final = 3  # commits that are named
_FAR: Final = 1_000  # commits back that are looked at


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
    """What the move would take back; risky where that is somebody else's. Raises: RefNotFoundError."""
    session.commit()
    others = list(_others(session, move, author))
    lines = [f"{named(id, commit)}, by {commit.author.name}" for id, commit in others[:_MOST]]
    more = [f"and {len(others) - _MOST} more"] if len(others) > _MOST else []
    return tuple(Finding(KIND, line, risky=True) for line in (*lines, *more))


def _others(session: Session, move: Move, author: Author) -> Iterator[tuple[ObjectId, Commit]]:
    """The commits of others that the variables would be without."""
    if not move.ref:
        yield from _undone(session, author)
        return
    repo, head = session.repo, session.head
    if head is None:
        return
    target = repo.resolve(move.ref, session.id)
    base = repo.merge_base(head, target)
    walk = repo.log_of_name(head, move.name) if move.name else repo.log(head, first_parent=True, limit=_FAR)
    for id, commit in walk:
        if base is not None and (id == base or repo.is_ancestor(id, base)):
            return
        if commit.changed and commit.author != author:
            yield id, commit


def _undone(session: Session, author: Author) -> Iterator[tuple[ObjectId, Commit]]:
    operation = session.next_undo
    if operation is None or operation.by == author or operation.after.commit is None:
        return
    yield operation.after.commit, session.repo.commit_at(operation.after.commit)


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
