"""What a panel may ask to be done: one structure for each act, with bounds, and what each is called in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec

from agent_kernel.agents.deciding import waiting
from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.browsing.arguments import in_words
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.errors import NotFoundError, RequestError
from agent_kernel.repository import ObjectId, hex_of, short
from agent_kernel.session.labels import session_of

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested
    from agent_kernel.panels.desk import Desk
    from agent_kernel.session import Repository

__all__ = [
    "ACTS",
    "Act",
    "Aimed",
    "Branched",
    "Claimed",
    "Committed",
    "Decided",
    "Merged",
    "Named",
    "Nothing",
    "Picked",
    "Resumed",
    "Switched",
    "Tagged",
    "Undone",
    "act_of",
]

_Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
_Names = Annotated[tuple[Annotated[str, msgspec.Meta(max_length=1_000)], ...], msgspec.Meta(max_length=10_000)]


class _Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an act takes."""


class Aimed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to go, whether the code comes along, and into which of the front end's documents."""

    to: _Revision
    what: Literal["both", "variables"] = "both"
    document: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class Switched(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The branch to go to."""

    branch: _Revision


class Merged(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The branch to merge, or the commit to pick, and which side is taken of what both sides changed."""

    branch: _Revision
    ours: _Names = ()
    theirs: _Names = ()
    message: Annotated[str, msgspec.Meta(max_length=10_000)] = ""
    partial: bool = False


class Committed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the commit is about."""

    message: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class Branched(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new branch, where it starts, and whether to go there."""

    name: _Revision
    at: _Revision = "HEAD"
    go: bool = False


class Tagged(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new tag, and what it names."""

    name: _Revision
    at: _Revision = "HEAD"


class Named(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit."""

    id: _Revision


class Claimed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cells that an act has left, by the turn that it was done in."""

    turn: Annotated[str, msgspec.Meta(max_length=100)]


class Undone(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Undo and redo: what is next, or nothing if HEAD is at another commit by then than whoever asked saw.

    `of`: which operation was meant, as `Done` and `State.undo` name it: moves may end where they began.
    """

    head: _Revision | None = None
    of: Annotated[str, msgspec.Meta(max_length=100)] = ""


class Decided(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is to become of the step that waits, if it is still this one."""

    run: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    step: int
    decision: Literal["approve", "edit", "deny"]
    code: Annotated[str, msgspec.Meta(max_length=1_000_000)] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=10_000)] = ""


class Resumed(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run that is to go on, and the answer to its question: if it is still this one, where `question` is its number."""

    run: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    answer: Annotated[str, msgspec.Meta(max_length=100_000)] = ""
    question: int | None = None


class Picked(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The candidate of a race whose branch is to be merged."""

    race: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    number: int


class Discarded(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The race whose candidates' branches are to go."""

    race: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class Nothing(_Args, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """No arguments."""


ACTS: Final[Mapping[str, type[_Args]]] = {
    "branch": Branched,
    "cancel": Nothing,
    "checkout": Aimed,
    "cherry_pick": Merged,
    "claim": Claimed,
    "commit_now": Committed,
    "decide": Decided,
    "discard": Discarded,
    "merge": Merged,
    "pick": Picked,
    "redo": Undone,
    "resume": Resumed,
    "rollback": Aimed,
    "switch": Switched,
    "tag": Tagged,
    "undo": Undone,
    "verify": Nothing,
    "write_notebook": Named,
}

# The act as the subject of a sentence, "Check out of [7] failed".
_CALLED: Final = {
    "branch": "New branch {}",
    "checkout": "Check out of {}",
    "cherry_pick": "Cherry-pick of {}",
    "commit_now": "Commit",
    "decide": "The decision on {}",
    "discard": "Discarding the candidates",
    "merge": "Merge of {}",
    "pick": "Pick of {}",
    "redo": "Redo",
    "resume": "{}",
    "rollback": "Roll back to {}",
    "switch": "Switch to {}",
    "tag": "Tag {}",
    "undo": "Undo",
    "verify": "Check of the store",
    "write_notebook": "Writing the notebook of {}",
}


class Act(msgspec.Struct, frozen=True):
    """Something that was asked for."""

    op: str
    args: _Args
    label: str  # what it is about: a commit as it is called in a sentence, or a branch's name
    id: str = ""  # the commit that it is about

    @property
    def subject(self) -> str:
        """The act at the beginning of a sentence."""
        said = _CALLED[self.op].format(self.label)
        return f"{said[:1].upper()}{said[1:]}"

    @property
    def told(self) -> dict[str, object]:
        """What a panel is told of it while it waits."""
        return {"op": self.op, "label": self.label, "id": self.id}


def act_of(desk: Desk, op: str, args: Mapping[str, object]) -> Act:
    """The act, checked; what it names is there.

    Raises:
        RequestError: its arguments do not fit.
        RefNotFoundError, AmbiguousRefError: it names no commit, or several.
    """
    try:
        found = msgspec.convert(args, ACTS[op])
    except msgspec.ValidationError as error:
        raise RequestError(op, in_words(error)) from None
    if isinstance(found, Switched | Merged):
        return Act(op, found, cleaned(found.branch), _aim(desk, found.branch).id)
    if isinstance(found, Branched | Tagged):
        aim = _aim(desk, found.at)
        return Act(op, msgspec.structs.replace(found, at=aim.rev), cleaned(found.name), aim.id)
    if isinstance(found, Aimed):
        aim = _aim(desk, found.to)
        return Act(op, msgspec.structs.replace(found, to=aim.rev), aim.label, aim.id)
    if isinstance(found, Named):
        aim = _aim(desk, found.id)
        return Act(op, found, aim.label, aim.id)
    if isinstance(found, Decided):
        return Act(op, found, f"step {_waiting(desk, found).step} of {_waiting(desk, found).agent}")
    if isinstance(found, Picked):
        return Act(op, found, f"candidate {found.number}")
    if isinstance(found, Resumed):
        with desk.inside() as (repo, _):
            agent = cleaned(Journal(repo.store).first(found.run).agent)
        of_run = f"run {short_run(found.run)} of {agent}"
        return Act(op, found, f"the answer to {agent}" if found.answer else f"resuming {of_run}")
    return Act(op, found, "")


def _waiting(desk: Desk, args: Decided) -> ApprovalRequested:
    """What is asked, if it is still what whoever decides has seen."""
    with desk.inside() as (repo, _):
        asked = waiting(tuple(Journal(repo.store).of(args.run)))
    if asked is None or asked.step != args.step:
        raise RequestError("decide", f"step {args.step} does not wait any more")
    return asked


class _Aim(NamedTuple):
    """A commit: how it is written so that it stays the one that was meant, its full id, and what it is called."""

    rev: str
    id: str
    label: str


def _aim(desk: Desk, rev: str) -> _Aim:
    """What is meant now: HEAD~1 is another commit when the cell that runs has ended."""
    with desk.inside() as (repo, session):
        found = repo.resolve(rev, session.id)
        branch = repo.branch_meant(rev, session.id)
        # Messages of commits say it, so it is as short as it can be.
        own = short(found) if _names(repo, short(found), found) else hex_of(found)
        commit = repo.commit_at(found)
        # A kernel counts its cells anew: the same number is that of another cell now.
        is_older = session_of(commit) not in ("", session.id)
        return _Aim(branch or own, hex_of(found), f"{called(commit)} ({short(found)})" if is_older else called(commit))


def _names(repo: Repository, rev: str, commit: ObjectId) -> bool:
    try:
        return repo.resolve(rev) == commit
    except NotFoundError:
        return False
