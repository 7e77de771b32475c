"""`branch` and `tag`: the names that commits go by."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.agents.event_log import EventStore, describe_temporary
from agent_kernel.commands import describe
from agent_kernel.commands.describe import Block, Json, Line, Lines, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem
from agent_kernel.errors import RefExistsError
from agent_kernel.repository import ObjectId, hex_of, short
from agent_kernel.text import clean, clock, plural

__all__ = ["branch", "branch_arguments", "tag", "tag_arguments"]


_FORCE = "move the {} there is"


def branch_arguments(parser: Parser) -> None:
    parser.takes("name", "branch", help="the branch; without one, list them all")
    parser.takes("at", "ref", help="where a new branch starts (default: HEAD); with -m, the new name")
    parser.flag("-a", "--all", help="list also what agents have for a while: candidates, steps on forks, sub-agents")
    one = parser.one_of()
    parser.flag("-d", "--delete", help="delete the branch, if other refs reach its commits", group=one)
    parser.flag("-D", "--delete-anyway", help="delete it even if they do not", group=one)
    parser.flag("-m", "--move", help="rename: -m OLD NEW, or -m NEW for the branch you are on", group=one)
    parser.flag("-f", "--force", help=_FORCE.format("branch"), group=one)
    parser.flag("--release", help="free a branch that a process on another machine left behind", group=one)


def branch(scope: Scope, options: Namespace) -> Result:
    name: str | None = options.name
    if name is None:
        if options.delete or options.delete_anyway or options.move or options.force or options.release:
            raise UsageProblem("say which branch")
        return _branches(scope, is_all=options.all)
    if options.all:
        raise UsageProblem("--all lists branches, so it takes no name")
    if options.release:
        return _release(scope, name)
    if options.delete or options.delete_anyway:
        return _delete_branch(scope, name, options)
    if options.move:
        return _rename(scope, name, options.at)
    if options.force and name == scope.head().branch:
        raise UsageProblem(f"you are on branch {name}: rollback takes it to another state")
    if not options.force and name in scope.repo.branches():
        raise RefExistsError(name, _remedy(scope, "branch", options))
    at, commit = scope.commit(options.at or "HEAD")
    scope.repo.create_branch(name, at, force=options.force)
    return Lines(
        (f"Branch {name} starts at {describe.label(at, commit, longest=60)}",), {"branch": name, "commit": hex_of(at)}
    )


def _remedy(scope: Scope, command: str, options: Namespace) -> str:
    at = [options.at] if options.at else []
    return f"choose another name, or move it with {scope.spell_command(command, '-f', options.name, *at)}"


def _delete_branch(scope: Scope, name: str, options: Namespace) -> Lines:
    if options.at is not None:
        raise UsageProblem("one branch at a time")
    if name == scope.head().branch:
        raise UsageProblem(f"you are on branch {name}; switch to another one first")
    at = scope.repo.branches().get(name)
    scope.repo.delete_branch(name, force=options.delete_anyway)
    return Lines((f"Deleted branch {name} (was {short(at) if at else '?'})",), {"deleted": name})


def _release(scope: Scope, name: str) -> Lines:
    holder = scope.repo.take_lease_away(name)
    if holder is None:
        return Lines((f"Nobody uses branch {name}",), {"branch": name, "was_used_by": None})
    return Lines((f"Branch {name} is free; {holder} used it",), {"branch": name, "was_used_by": str(holder)})


def _rename(scope: Scope, name: str, new: str | None) -> Lines:
    old = name if new is not None else scope.head().branch
    if old is None:
        raise UsageProblem("you are on no branch; say -m OLD NEW")
    if scope.session is not None and old == scope.session.branch:
        scope.session.rename_branch(new or name)
    else:
        scope.repo.rename_branch(old, new or name)
    return Lines((f"Renamed branch {old} to {new or name}",), {"branch": new or name, "was": old})


def _branches(scope: Scope, *, is_all: bool) -> RefList:
    head = scope.head()
    agent_branches = describe_temporary(scope.repo, EventStore(scope.repo.store))
    found = [_row(scope, name, at, name == head.branch) for name, at in sorted(scope.repo.branches().items())]
    rows = [row for row in found if row.name not in agent_branches or row.current]
    if head.branch is None and head.commit is not None:
        rows.insert(0, _row(scope, "(no branch)", head.commit, True))
    by_agents = tuple(
        (agent_branches[row.name], row) for row in found if row.name in agent_branches and not row.current
    )
    return RefList(
        "branch", tuple(rows), by_agents, scope.spell_command("branch", "--all") if by_agents and not is_all else ""
    )


def tag_arguments(parser: Parser) -> None:
    parser.takes("name", "tag", help="the tag; without one, list them all")
    parser.takes("at", "ref", help="the commit to tag (default: HEAD)")
    one = parser.one_of()
    parser.flag("-d", "--delete", help="delete the tag; its commit stays", group=one)
    parser.flag("-f", "--force", help=_FORCE.format("tag"), group=one)


def tag(scope: Scope, options: Namespace) -> Result:
    name: str | None = options.name
    if name is None:
        if options.delete or options.force:
            raise UsageProblem("say which tag")
        return RefList("tag", tuple(_row(scope, one, at) for one, at in sorted(scope.repo.tags().items())))
    if options.delete:
        if options.at is not None:
            raise UsageProblem("one tag at a time")
        scope.repo.delete_tag(name)
        return Lines((f"Deleted tag {name}",), {"deleted": name})
    was = scope.repo.tags().get(name)
    at, commit = scope.commit(options.at or "HEAD")
    if was == at:
        return Lines(
            (f"{describe.label(at, commit, longest=60)} is tagged as {name} already",),
            {"tag": name, "commit": hex_of(at)},
        )
    # A notebook is run from its top again: its line means the state that is there now, and no other one.
    is_again = scope.session is not None and options.at is None
    if was is not None and not options.force and not is_again:
        raise RefExistsError(name, _remedy(scope, "tag", options))
    scope.repo.create_tag(name, at, force=options.force or is_again)
    moved = f" (was {describe.label(was, scope.repo.commit_at(was), longest=60)})" if was is not None else ""
    now = describe.label(at, commit, longest=60)
    lines = [f"Tagged {now} as {name}" if was is None else f"Moved the tag {name} to {now}{moved}"]
    if name in scope.repo.branches():
        lines.append(f"There is a branch {name} too: as a ref, {name} now is the tag, and heads/{name} the branch")
    return Lines(tuple(lines), {"tag": name, "commit": hex_of(at)})


@dataclass(frozen=True)
class RefRow:
    """One branch or tag."""

    name: str
    commit: ObjectId
    title: str
    when: str
    current: bool = False
    holder: str = ""  # the living process that writes to it


def _row(scope: Scope, name: str, at: ObjectId, current: bool = False) -> RefRow:
    commit = scope.repo.commit_at(at)
    holder = scope.repo.lease_of(name)
    used = holder is not None and holder.is_alive(scope.repo.store) and not current
    title = " ".join(part for part in (describe.prompt(commit), describe.title(commit)) if part)
    return RefRow(name, at, title, clock(commit.time_ns, scope.now_ns), current, str(holder) if used else "")


@dataclass(frozen=True)
class RefList(Result):
    """Branches or tags in the order of their names. `by_agents`: those that agents have for a while, in words; see `asides`.

    `hidden`: these are only counted, and this lists them.
    """

    kind: str
    rows: tuple[RefRow, ...]
    by_agents: tuple[tuple[str, RefRow], ...] = ()
    hidden: str = ""

    def to_json(self) -> Json:
        return [
            *(_facts(row) for row in self.rows),
            *({**_facts(row), "aside": aside} for aside, row in self.by_agents),
        ]

    def blocks(self) -> Sequence[Block]:
        if not self.rows and not self.by_agents:
            return [Line(f"There is no {self.kind} yet.")]
        found: list[Block] = [Table(("", "", "", "", "", ""), tuple(map(_cells, self.rows)), flexible=3)]
        if self.hidden:
            return [
                *found,
                Line(
                    f"and {plural(len(self.by_agents), 'branch', 'branches')} that agents have for a while: {self.hidden}"
                ),
            ]
        if self.by_agents:
            rows = tuple((*_cells(row), clean(label)) for label, row in self.by_agents)
            found += [Line("That agents have for a while:"), Table(("",) * 7, rows, flexible=3)]
        return found


def _facts(row: RefRow) -> dict[str, Json]:
    return {"name": row.name, "commit": hex_of(row.commit), "current": row.current, "in_use_by": row.holder}


def _cells(row: RefRow) -> tuple[str, ...]:
    used = f"in use by {clean(row.holder)}" if row.holder else ""
    return "*" if row.current else " ", clean(row.name), short(row.commit), row.title, row.when, used
