"""`environment`: what a commit ran on, and what differs from where another one ran."""

from __future__ import annotations

import msgspec

from agent_kernel.browsing.answers import Sign
from agent_kernel.browsing.arguments import At
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.chips import sign_of
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.repository import Commit
from agent_kernel.verbs.comparing import environment_changes, environment_facts, environment_of

__all__ = ["EnvironmentDiff", "between", "environment"]

_MOST = 2_000  # packages


class Version(msgspec.Struct, frozen=True):
    """A package, or the interpreter, that is not the same."""

    how: Sign
    name: str
    old: str
    new: str


class EnvironmentDiff(msgspec.Struct, frozen=True):
    """An environment against another one."""

    about: str
    facts: tuple[tuple[str, str], ...]
    packages: int
    installed: tuple[tuple[str, str], ...]  # each package and its version
    changed: tuple[Version, ...]


def environment(book: Book, args: At) -> EnvironmentDiff:
    """The environment of a commit, against its first parent's or another commit's."""
    commit = book.resolve(args.id)[1]
    if args.against:
        return between(book, book.resolve(args.against)[1], commit)
    return between(book, book.repo.commit_at(commit.parents[0]) if commit.parents else None, commit)


def between(book: Book, before: Commit | None, after: Commit) -> EnvironmentDiff:
    """What `after` ran on, and what of it is not as it was."""
    found = environment_of(book.repo, after)
    if found is None:
        return EnvironmentDiff(f"The environment of {called(after)} was not recorded", (), 0, (), ())
    facts = tuple((name, cleaned(value)) for name, value in environment_facts(found).items() if value)
    parted = (cleaned(one).partition("==") for one in found.packages[:_MOST])
    installed = tuple((name, version) for name, _, version in parted)
    old = environment_of(book.repo, before)
    if before is None or old is None:
        about = f"Environment of {called(after)}" + (f"; that of {called(before)} was not recorded" if before else "")
        return EnvironmentDiff(about, facts, len(found.packages), installed, ())
    rows = environment_changes(old, found)
    about = f"Environment of {called(after)}, {'against that of' if rows else 'the same as'} {called(before)}"
    changed = tuple(Version(sign_of(how), cleaned(name), cleaned(was), cleaned(now)) for how, name, was, now in rows)
    return EnvironmentDiff(about, facts, len(found.packages), installed, changed[:_MOST])
