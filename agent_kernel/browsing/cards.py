"""What a run asks, as it stands in a notebook without a panel: what would run, what it would do, what to type.

The question about a step is an output of the cell that gave the task, and the code in it is what that cell is about to run: it stays, masked.
Once it is decided, the same place says what was decided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from agent_kernel.browsing.highlighting import html_of

__all__ = ["card_faces", "question_faces"]

_LINE: Final = "1px solid rgba(128,128,128,.35)"
_MUTED: Final = "opacity:.7"
_CODE: Final = "font-family:var(--jp-code-font-family,monospace);font-size:12px"
_RISKY: Final = "color:color-mix(in srgb,#c77700 60%,currentColor)"
_ANSWERS: Final = "%agent resume ANSWER"
_SIGN: Final = {"-": "−"}
# What the rows are about of which nothing was found.
_ABOUT: Final = {
    "Reaches": "network",
    "Writes": "files",
    "Imports": "imports",
    "Reads": "variables read",
    "Deletes": "deletions",
}
_CELL: Final = "padding:1px 14px 1px 0;text-align:left;vertical-align:top;border:0;background:none"
_SAID: Final = {"approve": "approved", "edit": "approved with other code", "deny": "denied"}

Details = Mapping[str, Any]


def card_faces(run: Details, step: int) -> dict[str, str]:
    """The faces by MIME type.

    Args:
        run: the answer to `run`.
    """
    asks = run["asks"]
    if asks is None or asks["step"] != step:
        said = _decided(run, step)
        return {"text/plain": said, "text/html": f'<div style="font-size:13px;{_MUTED}">{escape(said)}</div>'}
    return {"text/plain": _text(run, asks), "text/html": _html(run, asks)}


def question_faces(run: Details, number: int) -> dict[str, str]:
    """The same of what the agent asks in words: the question and the line to type, then the answer.

    Args:
        run: the answer to `run`.
    """
    name, asked = run["author"]["name"], run["questions"][number - 1]
    if asked["answered"]:
        said = [f"{name} asked: {asked['text']}", f"{asked['answered_by'] or 'answered'}: {asked['answer']}"]
        lines = "<br>".join(map(escape, said))
        return {"text/plain": "\n".join(said), "text/html": f'<div style="font-size:13px;{_MUTED}">{lines}</div>'}
    title = f"{name} asks: {asked['text']}"
    return {"text/plain": f"{title}\n{_ANSWERS} goes on", "text/html": _question(title)}


def _question(title: str) -> str:
    said = escape(title).replace("\n", "<br>")
    return (
        f'<div class="agent-kernel" style="font-size:13px;line-height:20px;padding-left:14px"><b>{said}</b>'
        f'<br><code style="{_CODE};background:none;color:inherit">{_ANSWERS}</code> goes on</div>'
    )


def _decided(run: Details, step: int) -> str:
    found: Sequence[Details] = [one for one in run["steps"] if one["prompt"] == f".{step}"]
    how = _SAID.get(found[-1]["decided"], "") if found else ""
    by = f" by {found[-1]['decided_by']}" if how and found[-1]["decided_by"] else ""
    why = f": {found[-1]['reason']}" if how and found[-1]["reason"] else ""
    return f"{run['author']['name']}: step {step} was {how}{by}{why}" if how else f"step {step} does not wait any more"


def _title(run: Details, asks: Details) -> str:
    if asks["keeps"]:
        return f"{run['author']['name']} tried step {asks['step']} beforehand"
    return f"{run['author']['name']} wants to run step {asks['step']}"


def _ways(run: Details) -> list[str]:
    short = run["short"]
    return [f"%agent approve --run {short}", f"%agent edit --run {short}", f"%agent deny REASON --run {short}"]


def _text(run: Details, asks: Details) -> str:
    code = [f"    {line}" for line in asks["source"].splitlines()]
    rows = [f"  {'!' if row['risky'] else ' '} {row['word']:<8} {', '.join(row['items'])}" for row in _found(asks)]
    rows += [f"    {line}" for line in _nothing(asks)]
    tried = [f"    {word:<8} {_SIGN.get(how, how)}{what}" for word, how, what, _ in asks["tried"]]
    return "\n".join([_title(run, asks), *code, *rows, *tried, f"  {asks['note']}", *_ways(run)])


def _html(run: Details, asks: Details) -> str:
    pad = "padding:6px 12px"
    code = html_of(asks["code"])
    nothing = [f'<tr><td colspan="4" style="{_CELL};{_MUTED}">{line}</td></tr>' for line in _nothing(asks)]
    rows = "".join([*map(_row, _found(asks)), *map(_tried, asks["tried"]), *nothing])
    table = f'<table style="border-collapse:collapse;margin:0;color:inherit;font:inherit">{rows}</table>'
    ways = " · ".join(f'<code style="{_CODE};background:none">{escape(way)}</code>' for way in _ways(run))
    task = escape(run["task"].strip().partition("\n")[0])
    return (
        f'<div class="agent-kernel-card" style="border:{_LINE};border-radius:2px;font-size:13px;max-width:900px">'
        f'<div style="{pad}"><b>{escape(_title(run, asks))}</b><br><span style="{_MUTED}">Task: {task}</span></div>'
        f'<pre style="margin:0;{pad};border-top:{_LINE};border-bottom:{_LINE};background:rgba(128,128,128,.08);'
        f'color:inherit;line-height:20px;overflow-x:auto;{_CODE}">{code}</pre>'
        f'<div style="{pad}">{table}</div>'
        f'<div style="{pad};padding-top:0;{_MUTED}">{escape(asks["note"])}</div>'
        f'<div style="{pad};border-top:{_LINE}">{ways}</div></div>'
    )


def _found(asks: Details) -> list[Details]:
    return [row for row in asks["report"] if row["items"] or row["risky"]]


def _nothing(asks: Details) -> list[str]:
    """All that was not found, in one line: `No network, files or deletions`."""
    missing: list[str] = [row["word"] for row in asks["report"] if not row["items"] and not row["risky"]]
    words = [_ABOUT.get(word, word.lower()) for word in missing]
    return [f"No {', '.join(words[:-1])}{' or ' if words[1:] else ''}{words[-1]}"] if words else []


def _row(row: Details) -> str:
    mark, style = ("⚠", _RISKY) if row["risky"] else ("✓", _MUTED)
    items = ", ".join(f'<span style="{_CODE}">{escape(item)}</span>' for item in row["items"])
    return (
        f'<tr style="background:none"><td style="{_CELL};{style}">{mark}</td><td style="{_CELL}">{escape(row["word"])}</td>'
        f'<td style="{_CELL}">{items}</td><td style="{_CELL};{_MUTED}">{escape(row["note"])}</td></tr>'
    )


def _tried(one: Sequence[str]) -> str:
    word, how, what, remark = one
    return (
        f'<tr style="background:none"><td style="{_CELL};{_MUTED}">⑂</td><td style="{_CELL}">{escape(word)}</td>'
        f'<td style="{_CELL}"><span style="{_CODE}">{escape(_SIGN.get(how, how) + what)}</span></td>'
        f'<td style="{_CELL};{_MUTED}">{escape(remark)}</td></tr>'
    )
