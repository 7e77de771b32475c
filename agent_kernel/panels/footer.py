"""The line under a cell that changed something: which commit it became, and what that changed.

Plain data with two representations, and no widget: a cell must not become slower for it. The lab extension draws it with buttons;
every other front end shows the HTML, which needs no script and holds no code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.agents.event_log import short_run
from agent_kernel.commands.describe import by_name, grown, ranks_of, unsaved_names
from agent_kernel.queries import FOOTER
from agent_kernel.queries.wording import chips_of, record_chips, select_changed, shorten_line
from agent_kernel.repository import hex_of, short
from agent_kernel.text import duration, money, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.repository import Commit, ObjectId, Unsaved
    from agent_kernel.session import Repository

__all__ = ["footer", "run_footer"]

_MOST: Final = 3  # names, reasons and ways in one line


_BYTES: Final = 1_000  # a smaller size says nothing beside a name


# Mixed with the colour of the page's text, so that they read on a light and on a dark one.
_COLOURS: Final = {
    sign: f"color:color-mix(in srgb,{accent} 60%,currentColor)"
    for sign, accent in {"+": "#2e9d42", "~": "#c77700", "-": "#d33c3c", "!": "#c77700"}.items()
}


_STYLE: Final = "font-size:11px;line-height:24px;white-space:nowrap;overflow:hidden;text-overflow:ellipsis"


_MUTED: Final = "opacity:.7"


_CODE: Final = "font-family:var(--jp-code-font-family,monospace)"


_ENDINGS: Final = {"completed": "done", "interrupted": "stopped", "cancelled": "given up"}


_Chip = tuple[str, str, int]


class _Author(msgspec.Struct, frozen=True):
    name: str
    kind: str


class _Stopped(msgspec.Struct, frozen=True):
    """`at`: the number of the run's last event, another one as soon as it goes on."""

    code: str
    done: int
    at: int


class _Run(msgspec.Struct, frozen=True, rename={"ending": "said"}):
    id: str
    ending: str  # how it ended
    bad: bool
    done: bool  # it came to its end, and well
    steps: int
    tokens: int
    cost: float | None
    stopped: _Stopped | None = None  # it can go on, and these are no failure


class _Line(msgspec.Struct, frozen=True):
    """What the line says. The names of the fields are the contract with the lab extension."""

    commit: str
    short: str
    branch: str | None
    author: _Author
    chips: list[_Chip]
    more: int  # changed names beyond the chips
    unsaved: str
    took_s: float | None
    undo: bool  # whether the session's next undo takes this commit back
    run: _Run | None = None  # the agent's run that ended so; then the commit is its newest one
    grew: dict[str, str] = {}  # how much longer or wider a name became: −17 rows


def footer(
    repo: Repository,
    id: ObjectId,
    commit: Commit,
    branch: str | None,
    news: Sequence[Unsaved],
    *,
    undo: bool,
    records: Sequence[str] = (),
    more_records: int = 0,
) -> dict[str, object] | None:
    """The line by MIME type; None where there is nothing to say.

    Args:
        news: what could not be saved, and was not told before.
        records: that changed, as a report names them: they stand where the names of variables leave room.
        more_records: the number of others.
    """
    named = {shorten_line(name, 60) for name in unsaved_names(news)}
    chips, more = chips_of((commit.changed, commit.unsaved), by_name(ranks_of(repo, commit)))
    of_records, left_out = record_chips(records, len(chips))
    line = _Line(
        commit=hex_of(id),
        short=short(id),
        branch=None if branch is None else shorten_line(branch, 200),
        author=_Author(shorten_line(commit.author.name), commit.author.kind),
        chips=[*(chip for chip in chips if chip[1] not in named), *of_records],  # of what is named the sentence tells
        more=more + left_out + more_records,
        unsaved=_describe_unsaved(news),
        took_s=commit.cell.duration_s if commit.cell is not None else None,
        undo=undo,
        grew=grown(repo, commit, select_changed(chips)),
    )
    if not line.chips and not line.unsaved:
        return None
    parts = _parts(line)
    data: object = msgspec.to_builtins(line)
    return {FOOTER: data, "text/html": _html(parts), "text/plain": " ".join(text for text, _ in parts)}


def run_footer(run: Mapping[str, Any], branch: str | None, *, undo: bool) -> dict[str, object]:
    """The line under a cell whose agent has come to an end, or was stopped, by MIME type.

    Args:
        run: the answer to `run`.
    """
    status: str = run["status"]
    stopped = run["stopped"]
    ending = _Run(
        id=run["id"],
        ending=stopped["said"] if stopped else ": ".join(filter(None, (_ENDINGS.get(status, status), run["reason"]))),
        bad=status == "failed" and not stopped,
        done=status == "completed",
        steps=len(run["steps"]),
        tokens=run["tokens"],
        cost=run["cost"],
        stopped=_Stopped(stopped["code"], stopped["done"], stopped["at"]) if stopped else None,
    )
    line = _Line(
        commit=run["tip"],
        short=run["tip"][:8],
        branch=None if branch is None else shorten_line(branch, 200),
        author=_Author(run["author"]["name"], "agent"),
        chips=[(sign, name, 0) for sign, name, _ in run["chips"]],  # of several steps together no size says much
        more=run["more"],
        unsaved="",
        took_s=run["took_s"],
        undo=undo,
        run=ending,
        grew=run["grew"],
    )
    data: object = msgspec.to_builtins(line)
    parts = _run_parts(line, ending)
    return {FOOTER: data, "text/html": _html(parts), "text/plain": " ".join(text for text, _ in parts)}


def _run_parts(line: _Line, run: _Run) -> list[tuple[str, str]]:
    colour = _COLOURS["-"] if run.bad else _COLOURS["!"] if not run.done else ""
    spent = f"{run.tokens:,} tokens" if run.cost is None else money(run.cost)
    steps = f"{plural(run.stopped.done, 'step')} done" if run.stopped else plural(run.steps, "step")
    is_nothing = run.stopped is not None and not run.stopped.done
    taken = [] if is_nothing else [(steps, _MUTED)]
    taken += [(spent, _MUTED)] if run.tokens or not run.stopped else []
    return [
        ("⊖" if run.stopped else "■", colour if run.stopped else _MUTED),
        (line.author.name, _MUTED),
        (run.ending, colour),
        *([("code:", _MUTED), (run.stopped.code, f"{_MUTED};{_CODE}")] if run.stopped and run.stopped.code else []),
        *_chip_parts(line),
        *taken,
        (duration(line.took_s or 0.0), _MUTED),
        *([(f"Resume: %agent resume --run {short_run(run.id)}", _MUTED)] if run.stopped else []),
    ]


def _describe_unsaved(news: Sequence[Unsaved]) -> str:
    """`lock, fh are not saved: a lock cannot be saved; an open file cannot be saved. Run this cell again to have them back.`"""
    sentences = (_describe_alike([one for one in news if one.stored == stored]) for stored in (False, True))
    return shorten_line(previews.mask_text(" ".join(filter(None, sentences))), 400)


def _describe_alike(alike: Sequence[Unsaved]) -> str:
    if not alike:
        return ""
    names, many = unsaved_names(alike), len(alike) > 1
    reasons = list(dict.fromkeys(one.reason.rstrip(". ") for one in alike))
    remedies = list(dict.fromkeys(_remedy(one, many=many) for one in alike if one.remedy))
    predicate = f"{'are' if len(names) > 1 else 'is'} not {'loaded' if alike[0].stored else 'saved'}"
    sentence = f"{_some(names, ', ')} {predicate}: {_some(reasons, '; ')}."
    return " ".join([sentence, *(f"{way[0].upper()}{way[1:]}." for way in remedies[:_MOST])])


def _remedy(one: Unsaved, *, many: bool) -> str:
    way = one.remedy.rstrip(".")
    if way.startswith("run cell ["):  # it is the cell above this line
        way = "run this cell again to have it back"
    return way.replace("to have it back", "to have them back") if many else way


def _some(texts: Sequence[str], comma: str) -> str:
    more = len(texts) - _MOST
    return comma.join(texts[:_MOST]) + (f" and {more} more" if more > 0 else "")


def _parts(line: _Line) -> list[tuple[str, str]]:
    """The line in pieces of text, each with its style."""
    is_agent = line.author.kind == "agent"
    parts = [("■" if is_agent else "●", _MUTED), (line.short, f"{_MUTED};{_CODE}")]
    parts += [(line.branch, _MUTED)] if line.branch else []
    parts += [(line.author.name, _MUTED)] if is_agent else []
    parts += _chip_parts(line)
    parts += [(f"! {line.unsaved}", _COLOURS["!"])] if line.unsaved else []
    return [*parts, (duration(line.took_s), _MUTED)] if line.took_s is not None else parts


def _chip_parts(line: _Line) -> Iterator[tuple[str, str]]:
    for at, (sign, name, size) in enumerate(line.chips):
        yield f"{'−' if sign == '-' else sign}{name}", f"{_COLOURS[sign]};{_CODE}"
        if name in line.grew:
            yield line.grew[name], _MUTED
        elif not at and size >= _BYTES:
            yield size_text(size), _MUTED
    if line.more:
        yield f"{line.more} more", _MUTED


def _html(parts: Sequence[tuple[str, str]]) -> str:
    spans = " &nbsp;".join(f'<span style="{style}">{escape(text)}</span>' for text, style in parts)
    return f'<div style="{_STYLE}">{spans}</div>'
