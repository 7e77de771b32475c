"""`board`: what goes on just now: workflows, queues, agents, tools, indexing, speech; and what happened to one of these."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from agent_kernel.commands.output import Block, Json, Line, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem, count
from agent_kernel.commands.text import clean, clock, cut, duration, plural
from agent_kernel.values import summaries
from agent_kernel.values.summaries.model import size_text

if TYPE_CHECKING:
    from agent_kernel.records import Change, Records
    from agent_kernel.records.teams import Team
    from agent_kernel.session import Repository

__all__ = ["Board", "LineHistory", "board", "board_arguments"]

_Facts: TypeAlias = "tuple[dict[str, Json], ...]"

_ROWS: Final = 8
_CALLS: Final = 500  # the newest of a tool, from which its figures are computed
_CHANGES: Final = 50
_BAR: Final = 10
_QUIET: Final = frozenset({"id", "process", "needed", "duration_ms", "updated_s"})  # say nothing to a person


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
        return _history_of(scope.repo, options.line, scope.now_ns)
    return Board(scope.repo, options.n, scope.now_ns)


@dataclass(frozen=True)
class _Part:
    """One kind of thing on the board: a table, and the same for programs."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    facts: _Facts
    right: frozenset[int] = frozenset()


class Board(Result):
    """What goes on, as tables. In a notebook it stays up to date."""

    def __init__(self, repo: Repository, most: int, now_ns: int) -> None:
        self._repo = repo
        self._most = most
        makers = (_workflows, _queues, _tasks, _agents, _tools, _indexing, _speech)
        self.parts = {name: part for name, part in (make(repo, most, now_ns) for make in makers) if part.rows}

    @property
    def is_live(self) -> bool:
        return True

    def renew(self) -> Board:
        return Board(self._repo, self._most, time.time_ns())

    def blocks(self) -> Sequence[Block]:
        if not self.parts:
            return [Line("Nothing goes on here yet: no workflow, queue, tool, agent, indexing or speech.")]
        found: list[Block] = []
        for part in self.parts.values():
            found += [Line(""), Line(part.title, strong=True), Table(part.columns, part.rows, part.right)]
        return found[1:]

    def to_json(self) -> Json:
        return {name: list(part.facts) for name, part in self.parts.items()}


def _workflows(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    found = repo.workflows.list()
    found.sort(key=lambda flow: flow.status in ("COMPLETED", "CANCELLED"))
    rows = tuple(
        (
            _text(flow.id),
            _bar(flow.progress.fraction),
            f"{flow.progress.current}/{flow.progress.total}",
            flow.status.lower(),
            _text(step.name if (step := flow.next_step) is not None else ""),
            _text(flow.reason, 60),
            _when(flow.started_s, now_ns),
        )
        for flow in found[:most]
    )
    facts: _Facts = tuple(
        {
            "id": flow.id,
            "status": flow.status,
            "current": flow.progress.current,
            "total": flow.progress.total,
            "step": step.name if (step := flow.next_step) is not None else None,
            "reason": flow.reason,
        }
        for flow in found[:most]
    )
    columns = ("workflow", "", "steps", "status", "step", "why", "began")
    return "workflows", _Part(_title("Workflows", len(found), most), columns, rows, facts, frozenset({2}))


def _queues(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    found = [(team, repo.queue(team).counts()) for team in _teams(repo)]
    found = [(team, counts) for team, counts in found if counts.total]
    rows = tuple(
        (
            _text(team),
            *(f"{number:,}" for number in (counts.pending, counts.in_progress, counts.completed, counts.failed)),
            _percent(counts.completion_rate),
        )
        for team, counts in found[:most]
    )
    facts: _Facts = tuple(
        {
            "team": team,
            "pending": counts.pending,
            "in_progress": counts.in_progress,
            "completed": counts.completed,
            "failed": counts.failed,
            "completion_rate": counts.completion_rate,
        }
        for team, counts in found[:most]
    )
    columns = ("queue", "pending", "in progress", "completed", "failed", "done")
    return "queues", _Part(_title("Queues", len(found), most), columns, rows, facts, frozenset(range(1, 6)))


def _teams(repo: Repository) -> list[str]:
    named = {id.partition("/")[0] for id in repo.queue("any").tasks.ids()}
    return sorted(named | set(repo.teams.records))


def _tasks(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    found = [task for team in _teams(repo) for task in repo.queue(team).in_progress()]
    rows = tuple(
        (_text(task.id), _text(task.name, 60), _text(task.agent), duration(max(0.0, now_ns / 1e9 - task.started_s)))
        for task in found[:most]
    )
    facts: _Facts = tuple(
        {"id": task.id, "name": task.name, "agent": task.agent, "started": int(task.started_s)} for task in found[:most]
    )
    return "tasks", _Part(_title("In progress", len(found), most), ("task", "what", "agent", "for"), rows, facts)


def _agents(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    found: list[tuple[str, str, str, str, float]] = [
        (member.agent, team.id, member.status, member.current_task, member.seen_s)
        for team in repo.teams.list()
        for member in team.members.values()
    ]
    found += [(one.id, "", one.status, one.task or one.last_error, one.updated_s) for one in repo.agents.list()]
    rows = tuple(
        (_text(agent), _text(team), status, _text(task, 60), _when(seen, now_ns))
        for agent, team, status, task, seen in found[:most]
    )
    facts: _Facts = tuple(
        {"agent": agent, "team": team or None, "status": status, "task": task}
        for agent, team, status, task, _ in found[:most]
    )
    columns = ("agent", "team", "status", "task", "seen")
    return "agents", _Part(_title("Agents", len(found), most), columns, rows, facts)


def _tools(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    names = repo.tools.names()
    waiting = repo.tools.waiting()
    found = [
        (name, repo.tools.stats(name, limit=_CALLS), sum(run.tool == name for run in waiting)) for name in names[:most]
    ]
    rows = tuple(
        (
            _text(name),
            f"{stats.total:,}",
            _percent(stats.success_rate),
            _percent(stats.cache_hit_rate),
            _milliseconds(stats.avg_duration_ms),
            f"{waits:,}" if waits else "",
        )
        for name, stats, waits in found
    )
    facts: _Facts = tuple(
        {
            "tool": name,
            "calls": stats.total,
            "success_rate": stats.success_rate,
            "error_rate": stats.error_rate,
            "cache_hit_rate": stats.cache_hit_rate,
            "avg_duration_ms": stats.avg_duration_ms,
            "waiting": waits,
        }
        for name, stats, waits in found
    )
    columns = ("tool", "calls", "succeeded", "cached", "took", "to retry")
    return "tools", _Part(_title("Tools", len(names), most), columns, rows, facts, frozenset(range(1, 6)))


def _indexing(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    names = repo.knowledge.names()
    rows: list[tuple[str, ...]] = []
    facts: list[dict[str, Json]] = []
    for base in (repo.knowledge.overview(name) for name in names[:most]):
        progress = base.progress
        done = "" if progress is None else f"{progress.processed:,}/{progress.total:,}"
        rows.append(
            (
                _text(base.name),
                "" if progress is None else _bar(progress.fraction),
                done,
                "" if progress is None else f"{progress.failed:,}",
                "" if progress is None else progress.status,
                f"{base.documents:,}",
                size_text(base.size),
                _when(base.last_updated_s, now_ns),
            )
        )
        facts.append(
            {
                "knowledge_base": base.name,
                "status": None if progress is None else progress.status,
                "processed": 0 if progress is None else progress.processed,
                "failed": 0 if progress is None else progress.failed,
                "total": 0 if progress is None else progress.total,
                "documents": base.documents,
                "embeddings": base.embeddings,
                "size": base.size,
            }
        )
    columns = ("knowledge", "", "indexed", "failed", "status", "documents", "size", "updated")
    title = _title("Knowledge", len(names), most)
    return "knowledge", _Part(title, columns, tuple(rows), tuple(facts), frozenset({2, 3, 5, 6}))


def _speech(repo: Repository, most: int, now_ns: int) -> tuple[str, _Part]:
    found = repo.speech.active()
    rows = tuple(
        (
            _text(one.id),
            one.mode,
            one.status,
            f"{one.stt.get('count', 0):,}",
            f"{one.tts.get('count', 0):,}",
            f"{one.turns.get('count', 0):,}",
            duration(max(0.0, now_ns / 1e9 - one.started_s)),
        )
        for one in found[:most]
    )
    facts: _Facts = tuple(
        {"session": one.id, "kind": one.kind, "mode": one.mode, "status": one.status} for one in found[:most]
    )
    columns = ("session", "mode", "status", "heard", "said", "turns", "for")
    return "speech", _Part(_title("Speech", len(found), most), columns, rows, facts, frozenset({3, 4, 5}))


def _title(title: str, many: int, most: int) -> str:
    return f"{title} ({most} of {many:,})" if many > most else title


def _text(text: str, width: int = 40) -> str:
    return cut(clean(summaries.mask_text(text, frozenset())), width, middle=True)


def _bar(fraction: float) -> str:
    full = max(0, min(_BAR, round(fraction * _BAR)))
    return "█" * full + "░" * (_BAR - full)


def _percent(fraction: float) -> str:
    return f"{fraction:.0%}"


def _milliseconds(number: float) -> str:
    return f"{number:.3g} ms" if number < 1e3 else duration(number / 1e3)


def _when(seconds: float, now_ns: int) -> str:
    return clock(int(seconds * 1e9), now_ns) if seconds else ""


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


def _history_of(repo: Repository, name: str, now_ns: int) -> LineHistory:
    rows: list[tuple[str, ...]] = []
    facts: list[dict[str, Json]] = []
    for id, change in _changes_of(repo, name):
        said = ", ".join(_differences(change))
        rows.append((clock(change.time_ns, now_ns), _text(change.actor), _text(id), _text(said, 300)))
        facts.append({"time": change.time_ns // 10**9, "by": change.actor, "id": id, "changed": _text(said, 300)})
        if len(rows) >= _CHANGES:
            break
    if not rows:
        raise UsageProblem(f"nothing on the board has the name {name!r}: %agent board lists all of it")
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
    for records in collections:
        if len(name.encode()) <= 200 and "\0" not in name and (name in records or _was(records, name)):
            yield from ((name, change) for change in records.history(name))
    for team in repo.teams.list():
        if name in team.members:
            yield from ((team.id, change) for change in repo.teams.records.history(team.id) if _is_about(change, name))
    for run in repo.tools.runs(name, _CHANGES):
        yield from ((run.id, change) for change in repo.tools.records.history(run.id))


def _is_about(change: Change[Team], agent: str) -> bool:
    old, new = (None if one is None else one.members.get(agent) for one in (change.old, change.new))
    return old != new


def _was(records: Records[Any], name: str) -> bool:
    return next(iter(records.history(name)), None) is not None if name else False


def _differences(change: Change[Any]) -> Iterator[str]:
    if change.new is None:
        yield "deleted"
        return
    if change.old is None:
        yield "new"
    yield from _changed({} if change.old is None else change.old.model_dump(), change.new.model_dump())


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What differs, in words: `status busy`, `members ada current_task the parser`."""
    for field, value in new.items():
        before = old.get(field)
        if field in _QUIET or field.endswith("_s") or value == before or (before is None and not value):
            continue
        inner, was = _fields(value), _fields(before or {})
        if inner is not None and was is not None:
            yield from (f"{field} {said}" for said in _changed(was, inner))
        else:
            yield f"{field} {_brief(value)}"
    yield from (f"without {field}" for field in old if field not in new)


def _fields(value: object) -> Mapping[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _brief(value: object) -> str:
    text = str(value)
    found = [_fields(one) for one in cast("list[object]", value)] if isinstance(value, list) else []
    steps = [step for step in found if step is not None]
    if steps and len(steps) == len(found):
        return " ".join(f"{step.get('name', '')}={str(step.get('status', '')).lower()}" for step in steps)
    return cut(clean(text), 60, middle=True)
