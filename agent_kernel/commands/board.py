"""`board`: what goes on just now: workflows, queues, agents, tools, indexing, speech; and what happened to one of these."""

from __future__ import annotations

import time
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

from agent_kernel.commands.describe import Block, Json, Line, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem, count
from agent_kernel.text import clean, clock, cut, duration, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from pydantic import BaseModel

    from agent_kernel.records import Change, Records
    from agent_kernel.records.agent_states import AgentRecord
    from agent_kernel.records.knowledge import Source
    from agent_kernel.records.queue import Team
    from agent_kernel.records.tools import ToolRun
    from agent_kernel.session import Repository

Tone: TypeAlias = Literal["", "active", "good", "warn", "bad", "quiet"]

_ROWS: Final = 8
_CALLS: Final = 500  # the newest of a tool, from which its figures are computed
_CHANGES: Final = 50
_MOST_ID: Final = 200
_BAR: Final = 10
_OLD_S: Final = 5.0
_AT_WORK: Final = frozenset({"busy", "running", "recovering", "failed"})  # these agents come first
_TONES: Final[dict[str, tuple[Tone, str]]] = {
    **dict.fromkeys(("running", "busy", "active", "streaming"), ("active", "●")),
    **dict.fromkeys(("completed", "indexed"), ("good", "✓")),
    **dict.fromkeys(("waiting", "paused", "recovering"), ("warn", "◌")),
    **dict.fromkeys(("failed", "error", "timeout"), ("bad", "✕")),
    **dict.fromkeys(("cancelled", "offline", "closed"), ("quiet", "⊖")),
}
# They say nothing to a person, or what the line's name says already.
_QUIET: Final = frozenset({"id", "process", "needed", "duration_ms", "updated_s", "most_attempts", "tool", "team"})
_OF_STEP: Final = frozenset({"name", "status", "attempts", "started_s", "duration_s"})


def board_arguments(parser: Parser) -> None:
    parser.takes(
        "line",
        "text",
        help="a workflow, task, team, agent, tool, knowledge base or session by its name: show what happened to it",
    )
    parser.value(
        "-n", metavar="N", help=f"at most so many lines of each kind (default: {_ROWS})", convert=count, default=_ROWS
    )


def board(scope: Scope, options: Namespace) -> Result:
    if options.line is not None:
        return _history_of(scope.repo, options.line, scope.now_ns, scope.spell_command("board"))
    return Board(scope.repo, options.n, scope.now_ns)


@dataclass(frozen=True)
class _Bar:
    """How much of a whole is done; with several parts, how it divides."""

    parts: tuple[tuple[float, Tone], ...]

    def text(self) -> str:
        full = max(0, min(_BAR, round(self.parts[0][0] * _BAR)))
        return "█" * full + "░" * (_BAR - full)

    def view(self) -> Json:
        return {"bar": [[max(0.0, min(1.0, part)), tone] for part, tone in self.parts]}


@dataclass(frozen=True)
class _Since:
    """A time, in seconds since 1970 (0: never). `is_span`: what counts is how long ago."""

    seconds: float
    now_ns: int
    is_span: bool = False

    def text(self) -> str:
        if self.is_span:
            return duration(max(0.0, self.now_ns / 1e9 - self.seconds))
        return clock(int(self.seconds * 1e9), self.now_ns) if self.seconds else ""

    def view(self) -> Json:
        return {"span" if self.is_span else "at": self.seconds}


@dataclass(frozen=True)
class _Word:
    """A word or a number with a meaning that a colour shows too."""

    word: str
    tone: Tone
    sign: str = ""  # stands before it in a panel

    def text(self) -> str:
        return self.word

    def view(self) -> Json:
        return {"text": self.word, "tone": self.tone, "sign": self.sign}


_Cell: TypeAlias = str | _Bar | _Since | _Word
_Row: TypeAlias = "tuple[str, tuple[_Cell, ...], dict[str, Json]]"  # the name of the line, what it shows, and the facts


@dataclass(frozen=True)
class _Part:
    """One kind of thing on the board: a table, and the same for programs.

    Attributes:
        columns: their titles.
        right: the columns of numbers.
        flexible: the column that takes the room that is left; -1: none does.
        ranks: in a narrow panel the columns of rank 2 go first, then those of rank 1.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[_Row, ...]
    count: int
    right: frozenset[int] = frozenset()
    flexible: int = -1
    ranks: Mapping[int, int] = field(default_factory=dict[int, int])

    def heading(self) -> str:
        many = len(self.rows)
        return f"{self.title} ({many} of {self.count:,})" if self.count > many else self.title

    def table(self) -> Table:
        rows = tuple(
            tuple(cell if isinstance(cell, str) else cell.text() for cell in cells) for _, cells, _ in self.rows
        )
        return Table(self.columns, rows, self.right)

    def view(self, name: str) -> dict[str, Json]:
        """What a panel draws."""
        columns: list[Json] = [
            {
                "title": title,
                "right": at in self.right or any(isinstance(cells[at], _Since) for _, cells, _ in self.rows),
                "flexible": at == self.flexible,
                "rank": self.ranks.get(at, 0),
            }
            for at, title in enumerate(self.columns)
        ]
        rows: list[Json] = [
            {"line": line, "cells": [cell if isinstance(cell, str) else cell.view() for cell in cells]}
            for line, cells, _ in self.rows
        ]
        return {"name": name, "title": self.title, "count": self.count, "columns": columns, "rows": rows}


class _Sight:
    """What was seen of a store, so that the next look reads what changed since. For one thread at a time."""

    def __init__(self, repo: Repository, most: int) -> None:
        from agent_kernel.records.collection import Follower

        self.repo = repo
        self.most = most
        collections: dict[str, Records[Any]] = {
            "workflows": repo.workflows.records,
            "tasks": repo.queue("any").tasks,
            "teams": repo.teams.records,
            "agents": repo.agents.records,
            "tools": repo.tools.records,
            "sources": repo.knowledge.records,
            "indexing": repo.knowledge.runs,
            "speech": repo.speech.records,
        }
        self._followers = {name: Follower(records) for name, records in collections.items()}
        self._parts: dict[str, _Part] = {}
        self._made_s: dict[str, float] = {}
        self.now_ns = 0

    def ids(self, collection: str) -> Iterable[str]:
        return self._followers[collection].known

    def look(self, now_ns: int) -> dict[str, _Part]:
        """The parts as they are now."""
        self.now_ns = now_ns
        changed = {name for name, follower in self._followers.items() if follower.look()}
        for name, (make, needs) in _PARTS.items():
            # Leases end and processes die without a change.
            is_old = now_ns / 1e9 - self._made_s.get(name, 0.0) > _OLD_S
            if is_old or changed.intersection(needs):
                self._parts[name] = make(self)
                self._made_s[name] = now_ns / 1e9
        return {name: self._parts[name] for name in _PARTS if self._parts[name].count}


class Board(Result):
    """What goes on, as tables. In a notebook it stays up to date."""

    def __init__(self, repo: Repository, most: int, now_ns: int, sight: _Sight | None = None) -> None:
        self.repo = repo
        self._most = most
        self._sight = _Sight(repo, most) if sight is None else sight
        self.parts = self._sight.look(now_ns)

    @property
    def is_live(self) -> bool:
        return True

    def renew(self) -> Board:
        return Board(self.repo, self._most, time.time_ns(), self._sight)

    def blocks(self) -> Sequence[Block]:
        if not self.parts:
            return [Line("Nothing goes on here yet: no workflow, queue, tool, agent, indexing or speech.")]
        found: list[Block] = []
        for part in self.parts.values():
            found += [Line(""), Line(part.heading(), strong=True)]
            if part.rows:
                found.append(part.table())
        return found[1:]

    def to_json(self) -> Json:
        return {name: [facts for _, _, facts in part.rows] for name, part in self.parts.items()}

    def view(self) -> list[Json]:
        """What a panel draws, part by part."""
        return [part.view(name) for name, part in self.parts.items()]

    def history(self, line: str) -> LineHistory:
        """What happened to one of the lines. Raises: UsageProblem: there is no such line."""
        return _history_of(self.repo, line, time.time_ns())


def _workflows(sight: _Sight) -> _Part:
    found = sight.repo.workflows.list()
    found.sort(key=lambda flow: flow.status in ("COMPLETED", "CANCELLED"))
    rows: list[_Row] = []
    for flow in found[: sight.most]:
        step = flow.next_step
        status = _status(flow.status.lower())
        cells: tuple[_Cell, ...] = (
            _text(flow.id),
            _Bar(((flow.progress.fraction, status.tone),)),
            f"{flow.progress.current}/{flow.progress.total}",
            status,
            _text(step.name if step is not None else ""),
            _text(flow.reason, 60),
            _Since(flow.started_s, sight.now_ns),
        )
        facts: dict[str, Json] = {
            "id": flow.id,
            "status": flow.status,
            "current": flow.progress.current,
            "total": flow.progress.total,
            "step": step.name if step is not None else None,
            "reason": flow.reason,
        }
        rows.append((flow.id, cells, facts))
    columns = ("workflow", "", "steps", "status", "step", "why", "began")
    return _Part("Workflows", columns, tuple(rows), len(found), frozenset({2}), 5, {4: 2, 5: 2, 6: 1})


def _queues(sight: _Sight) -> _Part:
    found = [(team, sight.repo.queue(team).counts()) for team in _teams(sight)]
    found = [(team, counts) for team, counts in found if counts.total]
    rows: list[_Row] = []
    for team, counts in found[: sight.most]:
        shares: tuple[tuple[int, Tone], ...] = (
            (counts.completed, "good"),
            (counts.in_progress, "active"),
            (counts.failed, "bad"),
        )
        cells: tuple[_Cell, ...] = (
            _text(team),
            _Bar(tuple((number / counts.total, tone) for number, tone in shares)),
            _number(counts.pending),
            _number(counts.in_progress),
            _number(counts.completed),
            _number(counts.failed, "bad"),
            _percent(counts.completion_rate),
        )
        facts: dict[str, Json] = {
            "team": team,
            "pending": counts.pending,
            "in_progress": counts.in_progress,
            "completed": counts.completed,
            "failed": counts.failed,
            "completion_rate": counts.completion_rate,
        }
        rows.append((team, cells, facts))
    columns = ("queue", "", "pending", "in progress", "completed", "failed", "done")
    return _Part("Queues", columns, tuple(rows), len(found), frozenset(range(2, 7)), ranks={1: 2, 6: 1})


def _teams(sight: _Sight) -> list[str]:
    return sorted({id.partition("/")[0] for id in sight.ids("tasks")}.union(sight.ids("teams")))


def _tasks(sight: _Sight) -> _Part:
    found = [task for team in _teams(sight) for task in sight.repo.queue(team).in_progress()]
    rows: list[_Row] = []
    for task in found[: sight.most]:
        cells: tuple[_Cell, ...] = (
            _text(task.name, 60),
            _text(task.agent),
            _Word(_text(task.id), "quiet"),
            _Since(task.started_s, sight.now_ns, is_span=True),
        )
        facts: dict[str, Json] = {
            "id": task.id,
            "name": task.name,
            "agent": task.agent,
            "started": int(task.started_s),
        }
        rows.append((task.id, cells, facts))
    columns = ("task", "agent", "id", "for")
    return _Part("In progress", columns, tuple(rows), len(found), frozenset({3}), ranks={2: 2})


def _error_of(agent: AgentRecord) -> str:
    """Its last error, until it does well again."""
    return agent.last_error if agent.status in ("failed", "recovering") else ""


def _agents(sight: _Sight) -> _Part:
    found: list[tuple[str, str, str, str, float]] = [
        (member.agent, team.id, member.status, member.current_task, member.seen_s)
        for team in sight.repo.teams.list()
        for member in team.members.values()
    ]
    agents = sight.repo.agents.list()
    found += [(one.id, "", one.status, one.task or _error_of(one), one.updated_s) for one in agents]
    found.sort(key=lambda one: one[2] not in _AT_WORK)
    rows: list[_Row] = []
    for agent, team, status, task, seen_s in found[: sight.most]:
        cells: tuple[_Cell, ...] = (
            _text(agent),
            _text(team),
            _status(status),
            _text(task, 60),
            _Since(seen_s, sight.now_ns),
        )
        rows.append((agent, cells, {"agent": agent, "team": team or None, "status": status, "task": task}))
    columns = ("agent", "team", "status", "task", "seen")
    return _Part("Agents", columns, tuple(rows), len(found), flexible=3, ranks={1: 1, 4: 2})


def _tools(sight: _Sight) -> _Part:
    names = sorted({id.rpartition("/")[0] for id in sight.ids("tools")})
    waiting = Counter(run.tool for run in sight.repo.tools.waiting())
    rows: list[_Row] = []
    for name in names[: sight.most]:
        stats = sight.repo.tools.stats(name, limit=_CALLS)
        succeeded = _percent(stats.success_rate) if stats.total else ""
        tone: Tone = "bad" if stats.error_rate >= 0.5 else "warn" if stats.error_rate >= 0.1 else ""
        cells: tuple[_Cell, ...] = (
            _text(name),
            f"{stats.total:,}",
            _Word(succeeded, tone),
            _percent(stats.cache_hit_rate) if stats.total else "",
            _milliseconds(stats.avg_duration_ms) if stats.total else "",
            _Word(f"{waiting[name]:,}", "warn") if waiting[name] else "",
        )
        facts: dict[str, Json] = {
            "tool": name,
            "calls": stats.total,
            "success_rate": stats.success_rate,
            "error_rate": stats.error_rate,
            "cache_hit_rate": stats.cache_hit_rate,
            "avg_duration_ms": stats.avg_duration_ms,
            "waiting": waiting[name],
        }
        rows.append((name, cells, facts))
    columns = ("tool", "calls", "succeeded", "cached", "took", "to retry")
    return _Part("Tools", columns, tuple(rows), len(names), frozenset(range(1, 6)), ranks={3: 2, 5: 1})


def _indexing(sight: _Sight) -> _Part:
    knowledge = sight.repo.knowledge
    names = knowledge.names()
    rows: list[_Row] = []
    for base in (knowledge.overview(name) for name in names[: sight.most]):
        progress = base.progress
        status = _Word("", "") if progress is None else _status(progress.status)
        cells: tuple[_Cell, ...] = (
            _text(base.name),
            "" if progress is None else _Bar(((progress.fraction, status.tone),)),
            "" if progress is None else f"{progress.processed:,}/{progress.total:,}",
            "" if progress is None else _number(progress.failed, "bad"),
            status,
            f"{base.documents:,}",
            size_text(base.size),
            _Since(base.last_updated_s, sight.now_ns),
        )
        facts: dict[str, Json] = {
            "knowledge_base": base.name,
            "status": None if progress is None else progress.status,
            "processed": 0 if progress is None else progress.processed,
            "failed": 0 if progress is None else progress.failed,
            "total": 0 if progress is None else progress.total,
            "documents": base.documents,
            "embeddings": base.embeddings,
            "size": base.size,
        }
        rows.append((base.name, cells, facts))
    columns = ("knowledge", "", "indexed", "failed", "status", "documents", "size", "updated")
    return _Part("Knowledge", columns, tuple(rows), len(names), frozenset({2, 3, 5, 6}), ranks={3: 2, 5: 2, 6: 2, 7: 1})


def _speech(sight: _Sight) -> _Part:
    found = sight.repo.speech.active()
    rows: list[_Row] = []
    for one in found[: sight.most]:
        counts = (one.stt.get("count", 0), one.tts.get("count", 0), one.turns.get("count", 0))
        cells: tuple[_Cell, ...] = (
            _text(one.id),
            one.mode,
            _status(one.status),
            *map(_number, counts),
            _Since(one.started_s, sight.now_ns, is_span=True),
        )
        facts: dict[str, Json] = {"session": one.id, "kind": one.kind, "mode": one.mode, "status": one.status}
        rows.append((one.id, cells, facts))
    columns = ("session", "mode", "status", "heard", "said", "turns", "for")
    return _Part("Speech", columns, tuple(rows), len(found), frozenset({3, 4, 5, 6}), ranks={1: 2, 3: 1, 4: 1})


_PARTS: Final[dict[str, tuple[Callable[[_Sight], _Part], frozenset[str]]]] = {
    "workflows": (_workflows, frozenset({"workflows"})),
    "queues": (_queues, frozenset({"tasks", "teams"})),
    "tasks": (_tasks, frozenset({"tasks", "teams"})),
    "agents": (_agents, frozenset({"teams", "agents"})),
    "tools": (_tools, frozenset({"tools"})),
    "knowledge": (_indexing, frozenset({"sources", "indexing"})),
    "speech": (_speech, frozenset({"speech"})),
}


def _text(text: str, width: int = 40) -> str:
    return cut(clean(previews.mask_text(text, frozenset())), width, middle=True)


def _status(status: str) -> _Word:
    tone, sign = _TONES.get(status, ("", "○"))
    return _Word(status, tone, sign)


def _number(number: int, tone: Tone = "") -> _Cell:
    return _Word(f"{number:,}", tone if number else "quiet")


def _percent(fraction: float) -> str:
    return f"{fraction:.0%}"


def _milliseconds(number: float) -> str:
    return f"{number:.3g} ms" if number < 1e3 else duration(number / 1e3)


# -- what happened to one of these


@dataclass(frozen=True)
class LineHistory(Result):
    """The changes of what has a line on the board, the newest first."""

    name: str
    rows: tuple[tuple[str, ...], ...]
    facts: tuple[dict[str, Json], ...]

    def blocks(self) -> Sequence[Block]:
        title = f"{clean(self.name)}: {plural(len(self.rows), 'change')}"
        return [Line(title, strong=True), Table(("when", "by", "what", "changed"), self.rows, flexible=3)]

    def to_json(self) -> Json:
        return list(self.facts)

    def to_panel(self) -> list[Json]:
        """The rows as a panel draws them. Under the name of several records each says which one it is."""
        of_several = len({what for _, _, what, _ in self.rows}) > 1 and not self.rows[0][2].startswith(f"{self.name}/")
        return [
            {
                "at": facts["time"],
                "by": by,
                "changed": f"{what}: {changed}" if of_several else changed,
            }
            for (_, by, what, changed), facts in zip(self.rows, self.facts, strict=True)
        ]


def _history_of(repo: Repository, name: str, now_ns: int, command: str = "%agent board") -> LineHistory:
    from agent_kernel.records.queue import Task

    changes = {(id, change.version, change.time_ns): (id, change) for id, change in _changes_of(repo, name)}
    found = sorted(changes.values(), key=lambda one: one[1].time_ns, reverse=True)[:_CHANGES]
    if not found:
        raise UsageProblem(f"nothing on the board has the name {name!r}: {command} lists all of it")
    rows: list[tuple[str, ...]] = []
    facts: list[dict[str, Json]] = []
    for id, change in found:
        differences = _text(", ".join(_differences(change)), 300)
        if not differences:  # a lease that was extended, say
            continue
        record = change.new or change.old
        what = record.name if isinstance(record, Task) and id != name else id  # people know a task by its name
        rows.append((clock(change.time_ns, now_ns), _text(change.actor), _text(what), differences))
        facts.append({"time": change.time_ns // 10**9, "by": change.actor, "id": id, "changed": differences})
    return LineHistory(name, tuple(rows), tuple(facts))


def _changes_of(repo: Repository, name: str) -> Iterator[tuple[str, Change[Any]]]:
    collections: tuple[Records[Any], ...] = (
        repo.workflows.records,
        repo.queue("any").tasks,
        repo.teams.records,
        repo.agents.records,
        repo.knowledge.runs,
        repo.knowledge.records,
        repo.speech.records,
    )
    may_be_id = 0 < len(name.encode()) <= _MOST_ID and "\0" not in name
    for records in collections:
        if may_be_id and (name in records or _was(records, name)):
            yield from ((name, change) for change in islice(records.history(name), _CHANGES))
    for team in repo.teams.list():
        if name in team.members:
            yield from ((team.id, change) for change in repo.teams.records.history(team.id) if _is_about(change, name))
    if may_be_id:
        tasks = repo.queue("any").tasks
        for id in tasks.newest(f"{name}/", _CHANGES):
            yield from ((id, change) for change in islice(tasks.history(id), _CHANGES))
        for id in _tasks_of(repo, name):
            yield from ((id, change) for change in islice(tasks.history(id), _CHANGES))
        if name not in repo.knowledge.runs:
            sources = repo.knowledge.records
            for id in sources.newest(f"{name}/", _CHANGES):
                yield from ((id, change) for change in islice(sources.history(id), _CHANGES) if _is_in(change, name))
    for run in repo.tools.runs(name, _CHANGES):
        yield from ((run.id, change) for change in repo.tools.records.history(run.id))


def _tasks_of(repo: Repository, name: str) -> list[str]:
    """The tasks that people call by this name, or that this agent has or had: of those in progress, and of the newest."""
    tasks = repo.queue("any").tasks
    teams = {id.partition("/")[0] for id in tasks}
    ids = [task.id for team in teams for task in repo.queue(team).in_progress()]
    known = ((id, tasks.get(id)) for id in dict.fromkeys((*ids, *tasks.newest("", _CALLS))))
    return [id for id, task in known if task is not None and name in (task.name, task.agent)]


def _is_in(change: Change[Source], kb: str) -> bool:
    return any(one is not None and one.kb == kb for one in (change.old, change.new))


def _is_about(change: Change[Team], agent: str) -> bool:
    old, new = (None if one is None else one.members.get(agent) for one in (change.old, change.new))
    return old != new


def _was(records: Records[Any], name: str) -> bool:
    return next(iter(records.history(name)), None) is not None if name else False


def _differences(change: Change[Any]) -> Iterator[str]:
    from agent_kernel.records.tools import ToolRun

    new = cast("BaseModel | None", change.new)
    if new is None:
        yield "deleted"
        return
    if isinstance(new, ToolRun):
        yield from _describe_call(change.old, new)
        return
    if change.old is None:
        yield "new"
    old: dict[str, Any] = _defaults(type(new)) if change.old is None else change.old.model_dump()
    if change.old is None and "name" in old:
        old["name"] = change.id  # then it goes without saying
    document = new.model_dump()
    yield from _changed(old, document, {name: _masked_field(value) for name, value in document.items()})


def _describe_call(old: ToolRun | None, new: ToolRun) -> Iterator[str]:
    if old is None:
        called_with = _fields(previews.mask_values(new.arguments)) or {}
        arguments = " ".join(f"{name}={_brief(value)}" for name, value in called_with.items())
        yield f"called with {arguments}" if arguments else "called"
    elif new.status == "running":
        yield "called again"
    if new.status == "completed":
        yield f"returned {_brief(previews.mask_values(new.result))} {'from the cache' if new.is_cached else f'in {_milliseconds(new.duration_ms)}'}"
    elif new.status == "waiting":
        yield f"failed, and waits to be tried again: {new.error}"
    elif new.status != "running":
        yield f"{new.status}: {new.error}".rstrip(": ")


def _defaults(model: type[BaseModel]) -> dict[str, Any]:
    """What goes without saying of a new record."""
    from pydantic_core import PydanticUndefined

    defaults = ((name, one.get_default(call_default_factory=True)) for name, one in model.model_fields.items())
    return {name: None if value is PydanticUndefined else value for name, value in defaults}


def _masked_field(value: object) -> object:
    """The value of a record's field. The names of fields are ours, and so are those of steps: no secret stands under one."""
    return value if _are_steps(value) else previews.mask_values(value)


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], shown: Mapping[str, Any]) -> Iterator[str]:
    """What differs, in words: `status busy`, `members ada current_task the parser`. `shown`: the new values without secrets."""
    for name, value in new.items():
        before = old.get(name)
        if name in _QUIET or name.endswith("_s") or value == before or (before is None and not value):
            continue
        inner, was, seen = _fields(value), _fields(before or {}), _fields(shown[name])
        if inner is not None and was is not None and seen is not None:
            yield from (f"{name} {change}" for change in _changed(was, inner, seen))
        else:
            yield f"no {name}" if value in (None, "", [], {}) else f"{name} {_brief(shown[name])}"
    yield from (f"without {name}" for name in old if name not in new)


def _fields(value: object) -> Mapping[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _brief(value: object) -> str:
    if _are_steps(value):
        return " ".join(f"{step['name']}={str(step['status']).lower()}" for step in cast("list[Any]", value))
    return cut(clean(previews.mask_text(str(value))), 60, middle=True)  # half of a secret no longer looks like one


def _are_steps(value: object) -> bool:
    """Whether these are the steps of a workflow."""
    found = [_fields(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
    return bool(found) and all(step is not None and step.keys() >= _OF_STEP for step in found)
