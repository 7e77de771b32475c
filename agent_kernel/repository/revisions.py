"""git's language for naming a commit: `main~3`, `HEAD^2`, `@{1}`, `3fa9`, `@{-1}`. `[5]` is that of a cell, as Jupyter numbers it.

A name is read as a cell of the session, a tag, a branch or the digits of a commit, in this order, then each suffix goes on from there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from agent_kernel.errors import AmbiguousRefError, RefNotFoundError
from agent_kernel.repository.commits import ALGORITHM, Kind, ObjectId, hex_of, short
from agent_kernel.repository.refs import branch_key, tag_key

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository

_REVISION = re.compile(r"(?P<base>(?:(?!@\{)[^~^:])*)(?P<rest>.*)", re.DOTALL)
_SUFFIX = re.compile(r"@\{(?P<ago>-?\d+)\}|~(?P<up>\d*)|\^(?P<parent>\d*)")
_LEFT = re.compile(r"(?:HEAD|@)?@\{-(?P<ago>[1-9]\d*)\}")
_DIGITS = re.compile(rf"([0-9a-fA-F]{{4,64}})(?:(?<=[0-9a-fA-F]{{64}}){ALGORITHM.hex()})?")  # an id may end so
_CELL = re.compile(r"\[(?P<number>\d{1,9})\]")
_SHOWN = 50


def split_path(text: str) -> tuple[str, str | None]:
    """Split `REF:NAME`; without a colon there is no name, and an empty REF is HEAD.

    >>> split_path("main~2:df")
    ('main~2', 'df')
    """
    ref, colon, name = text.partition(":")
    return (ref or "HEAD", name) if colon else (text, None)


def resolve(repo: Repository, text: str, session: str = "") -> ObjectId:
    """The commit that a revision names, as `session` sees it.

    Raises:
        RefNotFoundError: nothing has this name, or history does not go back that far.
        AmbiguousRefError: the digits fit several commits.
    """
    match = _REVISION.match(text)
    if not text or match is None:
        raise _unknown(repo, text, "it is empty")
    base, rest = match["base"], match["rest"]
    first = _SUFFIX.match(rest)
    if first is not None and first["ago"] is not None:
        id = _from_reflog(repo, text, base, int(first["ago"]), session)
        rest = rest[first.end() :]
    elif not base:
        raise _unknown(repo, text)
    else:
        id = _base(repo, text, base, session)
    while rest:
        suffix = _SUFFIX.match(rest)
        if suffix is None or suffix["ago"] is not None:
            raise _unknown(repo, text)
        id = _ancestor(repo, text, id, suffix)
        rest = rest[suffix.end() :]
    return id


def branch_meant(repo: Repository, text: str, session: str = "") -> str | None:
    """The branch that a revision names as a whole, so that going there is being on it; None: it names a commit, or nothing.

    `HEAD` is the branch that is checked out, `@{-1}` the one before, if that was one.
    """
    if text in ("HEAD", "@"):
        return repo.head(session).branch
    match = _LEFT.fullmatch(text)
    if match is not None:
        earlier = [entry.left for entry in repo.reflog(repo.head_log(session)) if entry.left]
        text = earlier[int(match["ago"]) - 1] if int(match["ago"]) <= len(earlier) else ""
    return text if text in repo.branches() else None


def _base(repo: Repository, text: str, base: str, session: str) -> ObjectId:
    at_head, cell = base in ("HEAD", "@"), _CELL.fullmatch(base)
    if cell is not None:
        return _by_cell(repo, text, int(cell["number"]), session)
    id = repo.head(session).commit if at_head else _ref(repo, base) or _by_digits(repo, base)
    if id is None:
        remedy = _cell_called(repo, base, session) if _CELL.fullmatch(f"[{base}]") else ""
        raise _unknown(repo, text, "nothing is committed yet" if at_head else "", remedy)
    return id


def _by_cell(repo: Repository, text: str, number: int, session: str) -> ObjectId:
    own, other = _cells_of(repo, number, session)
    if own is None:
        problem = f"No commit has the number [{number}]."
        if other is not None:
            problem = (
                f"No commit has the number [{number}] since the restart. Before it, [{number}] was {short(other)}."
            )
            if not _goes_on_from(repo, session, other):
                problem = (
                    f"No commit of this kernel has the number [{number}]. In another one, [{number}] is {short(other)}."
                )
        raise RefNotFoundError(text, repo.refs.list_refs(), said=problem)
    return own


def _goes_on_from(repo: Repository, session: str, other: ObjectId) -> bool:
    head = repo.head(session).commit
    return head is not None and any(id == other for id, _ in repo.history.walk([head]))


def _cell_called(repo: Repository, base: str, session: str) -> str:
    """What somebody may have meant who typed a bare number."""
    own, other = _cells_of(repo, int(base), session)
    if own is not None:
        return f"the commit of cell [{int(base)}] is {short(own)}, or [{int(base)}]"
    return f"the commit of cell [{int(base)}] is {short(other)}" if other is not None else ""


def _cells_of(repo: Repository, number: int, session: str) -> tuple[ObjectId | None, ObjectId | None]:
    """The newest commit of a cell with this number, of this session and of any other; what HEAD goes on from comes first."""
    record = None if session else repo.refs.head_record("")
    session = record.session if record is not None else session
    head, other = repo.head(session).commit, None
    for starts in ([head] if head is not None else [], [*repo.branches().values(), *repo.tags().values()]):
        for id, commit in repo.history.walk(starts):
            if commit.cell is None or commit.cell.number != number:
                continue
            if commit.session == session:
                return id, other
            other = other or id
    return None, other


def _ref(repo: Repository, name: str) -> ObjectId | None:
    for prefix, key in (
        ("refs/tags/", tag_key),
        ("tags/", tag_key),
        ("refs/heads/", branch_key),
        ("heads/", branch_key),
    ):
        if name.startswith(prefix):
            found = repo.refs.ref(key(name.removeprefix(prefix)))
            if found is not None:
                return found
    # git too prefers a tag to a branch of the same name.
    return repo.refs.ref(tag_key(name)) or repo.refs.ref(branch_key(name))


def _by_digits(repo: Repository, digits: str) -> ObjectId | None:
    match = _DIGITS.fullmatch(digits)
    if match is None:
        return None
    digits = match[1].lower()
    whole = Kind.COMMIT + bytes.fromhex(digits[: len(digits) // 2 * 2])
    found = [hex_of(ObjectId(key[1:])) for key in repo.pointers.keys(whole, limit=1000)]
    fits = [id for id in found if id.startswith(digits)]
    if len(fits) > 1:
        raise AmbiguousRefError(digits, tuple(fits[:_SHOWN]))
    return ObjectId(bytes.fromhex(fits[0]) + ALGORITHM) if fits else None


def _from_reflog(repo: Repository, text: str, base: str, ago: int, session: str) -> ObjectId:
    if ago < 0:
        if base not in ("", "HEAD", "@"):
            raise _unknown(repo, text)
        earlier = [entry.left for entry in repo.reflog(repo.head_log(session)) if entry.left]
        if len(earlier) < -ago:
            raise _unknown(repo, text, f"HEAD {_was_moved(len(earlier))}")
        before = earlier[-ago - 1]
        if _ref(repo, before) is None and _by_digits(repo, before) is None:
            raise _unknown(repo, text, f"{before}, which HEAD left, is gone")
        return _base(repo, text, before, session)
    if base == "":  # of the branch that is checked out, as in git; detached, of HEAD
        base = repo.head(session).branch or "HEAD"
    name = repo.head_log(session) if base in ("HEAD", "@") else base.removeprefix("refs/").removeprefix("heads/")
    entries = repo.reflog(name, ago + 1)
    if len(entries) <= ago:
        raise _unknown(repo, text, f"{base} {_was_moved(len(entries))}" if entries else "")
    return entries[ago].commit


def _ancestor(repo: Repository, text: str, id: ObjectId, suffix: re.Match[str]) -> ObjectId:
    if suffix["up"] is not None:
        for before in range(int(suffix["up"] or 1)):
            parents = repo.commit_at(id).parents
            if not parents:
                raise _unknown(repo, text, f"{_start_of(text, suffix)} has {_commits(before)} before it")
            id = parents[0]
        return id
    number = int(suffix["parent"] or 1)
    return id if number == 0 else _parent(repo, text, id, number)


def _parent(repo: Repository, text: str, id: ObjectId, number: int) -> ObjectId:
    parents = repo.commit_at(id).parents
    if len(parents) < number:
        many = {0: "the first commit has no parent", 1: "a commit on its way has one parent only"}
        raise _unknown(repo, text, many.get(len(parents), f"a commit on its way has {len(parents)} parents"))
    return parents[number - 1]


def _start_of(text: str, suffix: re.Match[str]) -> str:
    """The revision in front of the suffix, as it was typed."""
    return text[: len(text) - len(suffix.string) + suffix.start()]


def _commits(count: int) -> str:
    return {0: "no commit", 1: "one commit"}.get(count, f"{count:,} commits")


def _was_moved(count: int) -> str:
    return {0: "has not been moved in this session", 1: "was moved once"}.get(count, f"was moved {count:,} times")


def _unknown(repo: Repository, text: str, reason: str = "", remedy: str = "") -> RefNotFoundError:
    return RefNotFoundError(text, repo.refs.list_refs(), reason, remedy)
