"""A race side by side: a column for each candidate, a row for each measure, as text and as HTML that needs no script.

Rows are measures, so that numbers line up to be compared. The best of a row is bold; only the best result has the badge.
"""

from __future__ import annotations

import builtins
import math
import time
from collections import ChainMap
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from agent_kernel.agents.agent_undo import is_race, race_outcome
from agent_kernel.agents.approval import run_status
from agent_kernel.agents.event_log import short_run
from agent_kernel.agents.events import Event, SubRun, TaskStart, Usage
from agent_kernel.agents.execution import is_raised_by_code
from agent_kernel.agents.limits import StepTimeout, within
from agent_kernel.agents.messages import redact
from agent_kernel.agents.workers import Candidate, describe_changes, refresh_candidate
from agent_kernel.errors import DamagedObjectError, RunNotFoundError
from agent_kernel.quiet import noted_interrupts
from agent_kernel.repository import ObjectId, hex_of
from agent_kernel.repository.commits import ALGORITHM
from agent_kernel.session.history import describe_error
from agent_kernel.text import count_noun, join_words

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore, State
    from agent_kernel.session import Repository


# -- which candidate of a race is best: by a function of the candidate, or by an expression over its variables

_NOT_JUDGED: Final = "it could not be judged: "


class Judging:
    """Asks the judge of a race, for so many seconds in all. One that takes longer is asked no more."""

    def __init__(self, judge: str | Callable[[Candidate], object] | None, seconds: float) -> None:
        self._judge = judge
        self._most_s = seconds
        self._remaining_s = seconds

    def score(self, candidate: Candidate, repo: Repository) -> Candidate:
        """The candidate with its score. One that cannot be judged has none, and says why.

        Raises:
            KeyboardInterrupt: a person interrupted it; what the judge raises by itself is an error of the judge.
        """
        judge, began = self._judge, time.monotonic()
        if judge is None:
            return candidate
        try:
            if self._remaining_s <= 0:
                raise StepTimeout(self._most_s)
            score = _score(judge, candidate, repo, self._remaining_s)
        except StepTimeout:
            return mark_unjudged(candidate, f"it ran longer than {self._most_s:g} s")
        except _JudgeFailed as failed:
            return mark_unjudged(candidate, str(failed))
        finally:
            self._remaining_s -= time.monotonic() - began
        return msgspec.structs.replace(candidate, score=score)


class _JudgeFailed(Exception):  # noqa: N818 - it never leaves this module
    """The judge gave no score, and why, in words."""


def _score(judge: str | Callable[[Candidate], object], candidate: Candidate, repo: Repository, seconds: float) -> float:
    def ask() -> float:
        found = _evaluate(judge, candidate, repo) if isinstance(judge, str) else judge(candidate)
        return float(found)  # type: ignore[arg-type]  # what is no number raises

    with noted_interrupts() as arrived:
        try:
            score = within(seconds, ask)
        except StepTimeout:
            raise
        except BaseException as error:  # the judge is the user's own, and so are the values
            if isinstance(error, KeyboardInterrupt) and not (
                is_raised_by_code(error) if arrived is None else not arrived
            ):
                raise
            raise _JudgeFailed(describe_error(error)) from None
    if arrived:  # and the judge has caught it
        raise KeyboardInterrupt
    if math.isnan(score):
        raise _JudgeFailed("its score is not a number")
    return score


def mark_unjudged(candidate: Candidate, why: str) -> Candidate:
    """The candidate, and why it has no score."""
    return msgspec.structs.replace(candidate, reason=f"{_NOT_JUDGED}{why}")


def _evaluate(judge: str, candidate: Candidate, repo: Repository) -> object:
    """The expression's value. Only the variables that it names are loaded, and the live ones are not looked at."""
    variables = repo.at(candidate.tip)
    names = ChainMap[str, object](
        {"__builtins__": builtins},
        {} if "result" in variables else _Result(candidate),
        variables,  # type: ignore[arg-type]
    )
    return eval(compile(judge, "<judge>", "eval"), {"__builtins__": builtins}, names)


class _Result(dict[str, object]):
    """`result`: what the candidate gave back, loaded when it is asked for."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        super().__init__()

    def __contains__(self, name: object) -> bool:
        return name == "result"

    def __missing__(self, name: str) -> object:
        if name != "result":
            raise KeyError(name)
        return self._candidate.value


def best(candidates: Sequence[Candidate], *, is_judged: bool) -> Candidate | None:
    """The one with the highest score, of equal ones the cheapest; without a judge, the only one with a result."""
    completed = [one for one in candidates if one.is_done]
    if not is_judged:
        return completed[0] if len(completed) == 1 else None
    scored = [one for one in completed if one.score is not None]
    return max(scored, key=lambda one: (one.score or 0.0, -(one.usage.cost or 0.0), -one.seconds), default=None)


def failure(candidates: Sequence[Candidate]) -> str:
    """Of which candidates the judge said nothing, and why; "" where it did, or was not asked."""
    failed = [one for one in candidates if one.is_done and one.reason.startswith(_NOT_JUDGED)]
    if not failed:
        return ""
    why = failed[0].reason.removeprefix(_NOT_JUDGED)
    all_failed = len(failed) == sum(one.is_done for one in candidates)
    of = "" if all_failed else f" candidate{'s' * (len(failed) > 1)} {', '.join(str(one.number) for one in failed)}"
    return f"the judge could not judge{of} ({why})" + (": pick one yourself" if all_failed else "")


def describe_tie(candidates: Sequence[Candidate], best: Candidate | None) -> str:
    """What made the best one the best, where others have the same score; "" where none has."""
    if best is None or best.score is None:
        return ""
    equal = [one for one in candidates if one.is_done and one.score == best.score]
    if len(equal) < 2:
        return ""
    is_cheaper = len({one.usage.cost or 0.0 for one in equal}) > 1
    numbers = [str(one.number) for one in equal]
    return f"candidates {join_words(numbers)} have the same score: {best.number} was the {'cheapest' if is_cheaper else 'quickest'}"


_MOST_NAMES: Final = 8
_MOST_EFFECTS: Final = 4
_MOST_COMMITS: Final = 10_000  # that are counted
_WIDE: Final = 44
_MOST_REASON: Final = 200  # characters of a reason in a table
_WHOLE_REASON: Final = 4_000  # and below it
_LINE: Final = "1px solid rgba(128,128,128,.3)"
_CELL: Final = f"padding:6px 14px;border-top:{_LINE};text-align:left;vertical-align:top"
_MUTED: Final = "opacity:.7"
_CODE: Final = "font-family:var(--jp-code-font-family,monospace)"
_SIGNS: Final = {"+": "#2e7d32", "~": "#a04000", "-": "#b3261e"}
_WORDS: Final = {
    "running": "on its way",
    "failed": "failed",
    "interrupted": "interrupted",
    "cancelled": "given up",
    "clarify": "has a question",
    "pending": "waits for approval",
}


class _Cell(msgspec.Struct):
    """What one candidate has of one measure: lines, each of parts with a manner."""

    lines: list[list[tuple[str, str]]]  # manner: "", strong, muted, bad, good, code, +, ~, -

    @property
    def texts(self) -> list[str]:
        return ["".join(text for text, _ in line) for line in self.lines]


def text_of(race: RaceView) -> str:
    """The race as text."""
    candidates = race.candidates
    columns = [[_title(one, race), *_flat(one, race)] for one in candidates]
    labels = [[""], *([label] for label, _ in _rows(race))]
    cells = [[_cut_lines(part) for part in column] for column in columns]
    widths = [max((len(line) for cell in column for line in cell), default=0) for column in cells]
    first = max(len(label[0]) for label in labels)
    lines = [_caption(race)]
    for at, label in enumerate(labels):
        row = [column[at] for column in cells]
        for line in range(max((len(cell) for cell in row), default=1)):
            title = label[0] if line == 0 else ""
            parts = [
                (cell[line] if line < len(cell) else "").ljust(width) for cell, width in zip(row, widths, strict=True)
            ]
            lines.append("  ".join([title.ljust(first), *parts]).rstrip())
    return "\n".join([*lines, *_whole_reasons(race, _WIDE), *_footer(race)])


def html_of(race: RaceView) -> str:
    """The race as a table: inline styles that read on a light and on a dark page, everything escaped."""
    best = race.best
    candidates = race.candidates
    head = "".join(_th(one, race, is_best=best is not None and one.number == best.number) for one in candidates)
    body = ""
    for label, cell in _rows(race):
        columns = "".join(
            f'<td style="{_CELL};border-left:{_LINE}{_tint(best, one)}">{_html(cell(one))}</td>' for one in candidates
        )
        body += f'<tr><th style="{_CELL};{_MUTED};font-weight:400">{escape(label)}</th>{columns}</tr>'
    style = f"border-collapse:collapse;border:{_LINE};margin:0;color:inherit;font:inherit"
    table = (
        f'<table style="{style}"><thead><tr><th style="{_CELL}"></th>{head}</tr></thead><tbody>{body}</tbody></table>'
    )
    notes = "".join(
        f'<p style="margin:4px 0;{_MUTED}">{escape(line)}</p>' for line in [*_whole_reasons(race), *_footer(race)]
    )
    caption = f'<p style="margin:4px 0">{escape(_caption(race))}</p>'
    return f'<div class="agent-kernel-race" style="font-size:13px">{caption}{table}{notes}</div>'


def data_of(race: RaceView, repo: Repository) -> dict[str, object]:
    """The race for a panel: plain data, every text plain text, lines of parts with a manner."""
    best = race.best
    return {
        "id": race.id,
        "short": short_run(race.id),
        "task": _shorten(race.task, 200),
        "start": race.candidates[0].start if race.candidates else "",
        "counts": _counts(race),
        "over": race.is_over,
        "picked": race.picked,
        "discarded": race.is_discarded,
        "deletes": describe_discard(race, repo),
        "notes": [
            *(f"{line[:1].upper()}{line[1:]}" for line in _whole_reasons(race)),
            *(_shorten(f"{note[:1].upper()}{note[1:]}".rstrip(".") + ".", 400) for note in _notes(race)),
        ],
        "candidates": [
            {
                "number": one.number,
                "title": f"{one.number} · {_name(one, race)}",
                "best": best is not None and best.number == one.number,
                "done": one.is_done,
                "tip": one.tip,
            }
            for one in race.candidates
        ],
        "rows": [
            {
                "label": label,
                "cells": [[[list(part) for part in line] for line in cell(one).lines] for one in race.candidates],
            }
            for label, cell in _rows(race)
            if any(text for one in race.candidates for text in cell(one).texts)
        ],
    }


def describe_discard(race: RaceView, repo: Repository) -> str:
    """What is gone for good with the branches of the candidates: `Deletes 3 branches with 7 commits that …`."""
    branches = repo.branches()
    remaining = [one for one in race.candidates if one.branch in branches]
    many = sum(_own_commits(repo, one.start, branches[one.branch]) for one in remaining if one.number != race.picked)
    commits = f" with {count_noun(many, 'commit')} that {'is' if many == 1 else 'are'} nowhere else" if many else ""
    branch = "branch" if len(remaining) == 1 else "branches"
    return f"Deletes {len(remaining)} {branch}{commits}. Undo does not bring that back." if remaining else ""


def _own_commits(repo: Repository, start: str, tip: ObjectId) -> int:
    """The commits of a candidate: it works on one line."""
    many, at = 0, tip
    while hex_of(at) != start and many < _MOST_COMMITS:
        parents = repo.commit_at(at).parents
        if not parents:
            break
        many, at = many + 1, parents[0]
    return many


def _rows(race: RaceView) -> list[tuple[str, Callable[[Candidate], _Cell]]]:
    completed = [one for one in race.candidates if one.is_done]
    scores = [one.score for one in completed if one.score is not None]
    costs = [one.usage.cost for one in completed if one.usage.cost is not None]
    least_cost, least_s = min(costs, default=None), min((one.seconds for one in completed), default=None)
    # What reads the same is no quicker.
    quickest = _time(least_s) if least_s is not None and len({_time(one.seconds) for one in completed}) > 1 else ""
    rows: list[tuple[str, Callable[[Candidate], _Cell]]] = [
        ("Returned", _describe_result),
        ("Variables", _variables),
        ("Code", lambda one: _one(f"{count_noun(one.steps, 'step')}, {count_noun(one.lines, 'line')}")),
        ("Outside", _list_side_effects),
        ("Tokens", lambda one: _one(f"{one.usage.tokens:,}")),
        ("Cost", lambda one: _one(_dollars(one.usage.cost), strong=one.is_done and one.usage.cost == least_cost)),
        ("Time", lambda one: _one(_time(one.seconds), strong=one.is_done and _time(one.seconds) == quickest)),
    ]
    if scores:
        score_row: tuple[str, Callable[[Candidate], _Cell]] = (
            "Score",
            lambda one: _one("" if one.score is None else f"{one.score:.6g}", strong=one.score == max(scores)),
        )
        rows.insert(1, score_row)
    return rows


def _describe_result(one: Candidate) -> _Cell:
    if one.status == "completed":
        is_named = one.result.startswith(one.type.rpartition(".")[2])  # `float64 29.5`, of a `numpy.float64`
        parts = [
            (_shorten(one.result, 200) or "nothing", "strong"),
            ("" if is_named else f" {one.type}", "muted"),
        ]
        lines = [parts]
        return _Cell([*lines, [(_shorten(one.reason, _MOST_REASON), "muted")]] if one.reason else lines)
    sign = "" if one.status == "running" else "✕ "
    lines = [[(f"{sign}{_WORDS.get(one.status, one.status)}", "muted" if one.status == "running" else "bad")]]
    return _Cell([*lines, [(_shorten(one.reason, _MOST_REASON), "muted")]] if one.reason else lines)


def _variables(one: Candidate) -> _Cell:
    lines = [
        [
            (change.how, change.how),
            (change.name, "code"),
            (f" {_size(change.size_bytes)}" if change.how != "-" else "", "muted"),
        ]
        for change in one.changed[:_MOST_NAMES]
    ]
    if len(one.changed) > _MOST_NAMES:
        lines.append([(f"and {len(one.changed) - _MOST_NAMES} more", "muted")])
    return _Cell(lines or [[("nothing", "muted")]])


def _list_side_effects(one: Candidate) -> _Cell:
    lines = [[(f"{what} ", ""), (_shorten(target, 80), "code")] for what, target in one.effects[:_MOST_EFFECTS]]
    if len(one.effects) > _MOST_EFFECTS:
        lines.append([(f"and {len(one.effects) - _MOST_EFFECTS} more", "muted")])
    return _Cell(lines or [[("nothing", "muted")]])


def _one(text: str, *, strong: bool = False) -> _Cell:
    return _Cell([[(text, "strong" if strong else "")]])


def _caption(race: RaceView) -> str:
    start = race.candidates[0].start[:8] if race.candidates else ""
    return f"Race {short_run(race.id)}: {_shorten(race.task, 120)} · from {start} · {_counts(race)}"


def _counts(race: RaceView) -> str:
    """`2 done, 1 failed · $0.19`."""
    completed = sum(one.is_done for one in race.candidates)
    failed = sum(one.status not in ("completed", "running") for one in race.candidates)
    running = sum(one.status == "running" for one in race.candidates)
    counts = [
        f"{completed} done",
        *([f"{failed} failed"] if failed else []),
        *([f"{running} running"] if running else []),
    ]
    cost = _dollars(race.usage.cost)
    return ", ".join(counts) + (f" · {cost}" if cost else "")


def _notes(race: RaceView) -> list[str]:
    """What to know beside the table."""
    tied = describe_tie(race.candidates, race.best) if race.is_over else ""
    failed = failure(race.candidates)
    return [*race.notes, *filter(None, (tied, failed))]


def _whole_reasons(race: RaceView, most: int = _MOST_REASON) -> list[str]:
    """Why candidates ended as they did, where the table cuts it: `candidates 1 and 2: the reason`."""
    numbers: dict[str, list[str]] = {}
    for one in race.candidates:
        if len(reason := _shorten(one.reason, _WHOLE_REASON)) > most:
            numbers.setdefault(reason, []).append(str(one.number))
    return [f"candidate{'s' * (len(of) > 1)} {join_words(of)}: {reason}" for reason, of in numbers.items()]


def _footer(race: RaceView) -> list[str]:
    lines = _notes(race)
    best = race.best
    if race.picked is not None:
        rest = "; the others are discarded" if race.is_discarded else "; the others stay as branches until discard()"
        lines.append(f"candidate {race.picked} was picked{rest}")
    elif race.is_discarded:
        lines.append("discarded")
    elif best is not None and race.is_over:
        lines.append(f"pick({best.number}) merges the best; the others stay as branches until discard()")
    elif race.is_over and any(one.is_done for one in race.candidates):
        lines.append("pick(NUMBER) merges one; the others stay as branches until discard()")
    elif race.is_over and any(one.changed for one in race.candidates):
        lines.append("what they committed stays on their branches until discard()")
    return lines


def _title(one: Candidate, race: RaceView) -> str:
    best = race.best
    badge = "  ✓ best" if best is not None and best.number == one.number else ""
    return f"{one.number} · {_name(one, race)}{badge}"


def _name(one: Candidate, race: RaceView) -> str:
    several = len({other.agent for other in race.candidates}) > 1
    return _shorten(f"{one.agent} · {one.model}" if several else one.model, 60)


def _flat(one: Candidate, race: RaceView) -> list[str]:
    return ["\n".join(cell(one).texts) for _, cell in _rows(race)]


def _cut_lines(text: str) -> list[str]:
    return [line if len(line) <= _WIDE else line[: _WIDE - 1] + "…" for line in text.split("\n")]


def _th(one: Candidate, race: RaceView, *, is_best: bool) -> str:
    title = escape(_title(one, race).removesuffix("  ✓ best"))
    badge = '<span style="margin-left:10px;padding:0 6px;border:1px solid #2e7d32;color:#2e7d32">✓ best</span>'
    tint = ";background:rgba(25,118,210,.13)" if is_best else ""
    return f'<th style="{_CELL};border-left:{_LINE}{tint}">{title}{badge if is_best else ""}</th>'


def _tint(best: Candidate | None, one: Candidate) -> str:
    return ";background:rgba(25,118,210,.13)" if best is not None and best.number == one.number else ""


def _html(cell: _Cell) -> str:
    return "<br>".join("".join(_span(text, manner) for text, manner in line) for line in cell.lines)


def _span(text: str, manner: str) -> str:
    content = escape(text)
    if manner in _SIGNS:
        return f'<span style="{_CODE};color:{_SIGNS[manner]}">{content}</span>'
    style = {"strong": "font-weight:700", "muted": _MUTED, "bad": "color:#b3261e;font-weight:700", "code": _CODE}.get(
        manner
    )
    return f'<span style="{style}">{content}</span>' if style and content else content


def _shorten(text: str, most: int = 200) -> str:
    """In one line, without what a terminal would act on, and without what looks like a secret."""
    line = " ".join(redact(text).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _dollars(cost: float | None) -> str:
    return "" if cost is None else f"${cost:.2f}" if cost >= 0.01 or cost == 0 else f"${cost:.4f}"


def _time(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.{2 if seconds < 1 else 1 if seconds < 10 else 0}f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m {rest:02d}s"


def _size(size: int) -> str:
    if size < 1_000:
        return f"{size} B"
    for unit, scale in (("kB", 1e3), ("MB", 1e6), ("GB", 1e9)):
        if size < 1_000 * scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size / 1e12:.1f} TB"


# -- A race as its store tells it: in another process than it was held in, after a restart, where no kernel is at all

_DIED = "its process ended before it did"


class RaceView(Protocol):
    """What of a race is looked at side by side."""

    @property
    def id(self) -> str: ...
    @property
    def task(self) -> str: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def candidates(self) -> Sequence[Candidate]: ...
    @property
    def best(self) -> Candidate | None: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def is_over(self) -> bool: ...
    @property
    def picked(self) -> int | None: ...
    @property
    def is_discarded(self) -> bool: ...


class RaceTable(msgspec.Struct, frozen=True):
    """A race as it stands at one moment, to be looked at."""

    id: str
    task: str
    notes: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    is_over: bool
    picked: int | None
    is_discarded: bool

    @property
    def usage(self) -> Usage:
        """What all of them took."""
        return sum((one.usage for one in self.candidates), Usage())

    @property
    def best(self) -> Candidate | None:
        """As `Race.best`."""
        return best(self.candidates, is_judged=any(one.score is not None for one in self.candidates))


def race_table(repo: Repository, event_store: EventStore, run: str, head: ObjectId | None) -> RaceTable:
    """A race, as it stands for whoever is at a commit.

    Raises:
        RunNotFoundError: there is no race of this id.
    """
    events = tuple(event_store.of(event_store.find(run)))
    if not is_race(events[0]):
        raise RunNotFoundError(run)
    start = cast("TaskStart", events[0])
    found = race_outcome(events)
    return RaceTable(
        start.run,
        start.task,
        tuple(describe_unsaved(start.left_out)),
        tuple(candidates_of(repo, event_store, events)),
        run_status(event_store, events) != "running",
        found.find_pick(repo, head) or None,
        found.discarded,
    )


def describe_unsaved(names: Sequence[str]) -> list[str]:
    """What is said of variables that the candidates are without."""
    if not names:
        return []
    which = "it" if len(names) == 1 else "these"
    return [f"The candidates do not have {join_words(names)}, because {which} cannot be saved."]


def candidates_of(repo: Repository, event_store: EventStore, events: Sequence[Event]) -> list[Candidate]:
    """The candidates of a race in order, from its events and theirs."""
    is_over = run_status(event_store, events) != "running"
    by_number = race_outcome(events).runs
    subs = [event for event in events if isinstance(event, SubRun)]
    return [
        _candidate(repo, event_store, number, [one for one in subs if one.child == run], is_over=is_over)
        for number, run in sorted(by_number.items())
    ]


def _candidate(
    repo: Repository, event_store: EventStore, number: int, subs: Sequence[SubRun], *, is_over: bool
) -> Candidate:
    first = subs[0]
    last = next(one for one in reversed(subs) if one.status not in ("picked", "discarded"))
    began = next(event_store.of(first.child), None)
    found = Candidate(
        number=number,
        branch=first.branch,
        run=first.child,
        agent=first.child_agent,
        model=first.model or (began.model if isinstance(began, TaskStart) else ""),
        task=first.task,
        start=first.before,
        tip=last.after,
        status=cast("State", last.status),
        reason=last.reason,
        score=last.score,
    )
    found = refresh_candidate(found, repo, event_store)
    if found.status == "running" and is_over and event_store.find_driver(found.run) is None:
        found = msgspec.structs.replace(found, status="interrupted", reason=_DIED)
    return found if found.branch in repo.branches() else _without_branch(repo, found)


def _without_branch(repo: Repository, found: Candidate) -> Candidate:
    """What it changed can be told as long as its commits are not collected, and is not of use without them."""
    start, tip = (ObjectId(bytes.fromhex(at) + ALGORITHM) if at else None for at in (found.start, found.tip))
    try:
        changed = describe_changes(repo, start, tip) if tip is not None else ()
    except DamagedObjectError:
        return msgspec.structs.replace(found, tip="")
    return msgspec.structs.replace(found, changed=changed)
