"""A run as a notebook shows it: one quiet block for each step, which grows as the model writes.

HTML with styles inline and without scripts, so that it reads the same in a saved notebook and on a page made of one, on a
light and on a dark ground. What the code of a step shows comes below its block, as what a cell shows comes below its code.
"""

from __future__ import annotations

import re
import time
from html import escape
from typing import TYPE_CHECKING, Final, Protocol, cast

from agent_kernel.agents.events import TaskStart
from agent_kernel.browsing.lines import html_of, pieces_of
from agent_kernel.browsing.mime import RUN
from agent_kernel.verbs.text import clean, clean_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_kernel.magics.shell import Shell
    from agent_kernel.magics.tasks.showing import Step

__all__ = ["Notebook"]

_PATIENCE_S: Final = 0.08  # between two looks at a step that is being written
_UI: Final = "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:20px"
_CODE: Final = "font-family:var(--jp-code-font-family,monospace);font-size:12px;line-height:20px"
_SMALL: Final = "font-size:11px;line-height:20px;opacity:.7"
_RULE: Final = "border-left:2px solid color-mix(in srgb,#1976d2 75%,currentColor 15%);padding-left:12px"

_GOING: Final = re.compile("(writing|running) …")
_TYPED: Final = re.compile(r"%agent \w+(?: [A-Z]+)*\b")  # what is to be typed


class Handle(Protocol):
    """A display that can be changed."""

    def display(self, data: object, *, raw: bool) -> None: ...
    def update(self, data: object, *, raw: bool) -> None: ...


class Notebook:
    """Shows a run in displays."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.last: Step | None = None
        self._handle: Handle | None = None
        self._is_free = False  # what the handle shows is empty: the next step goes there
        self._run: dict[str, object] = {}
        self._seen_s = 0.0
        self._progress: Handle | None = None

    def open(self, run: str) -> None:
        """Keep a place for the first step. Should this kernel die, nothing more is written: a front end then asks for the run."""
        self._run = {RUN: {"version": 1, "run": run}}
        self._handle, self._is_free = _new_handle(), True
        self._handle.display({"text/plain": "", "text/html": "", **self._run}, raw=True)

    def begin(self, start: TaskStart) -> None:
        self._publish(_paragraph(f"■ {start.agent} · {start.model}", _SMALL), f"{start.agent} · {start.model}")

    def step(self, step: Step, *, whole: bool) -> None:
        now = time.monotonic()
        is_new = not step.is_same(self.last)
        if not is_new and not whole and now - self._seen_s < _PATIENCE_S:
            return
        self._seen_s = now
        if self._handle is None or (is_new and not self._is_free):
            self._handle = _new_handle()
            self._handle.display({**_bundle(step), **self._run}, raw=True)
        else:
            self._handle.update({**_bundle(step), **self._run}, raw=True)
        self._is_free = False
        self.last = step

    def line(self, text: str, *, strong: bool = False) -> None:
        self._publish(_paragraph(text, f"{_UI};padding-left:14px;font-weight:{600 if strong else 400}"), text)

    def progress(self, text: str) -> None:
        data = {"text/plain": clean(text), "text/html": _paragraph(text, f"{_UI};{_SMALL}")}
        if self._progress is None:
            self._progress = _new_handle()
            self._progress.display(data, raw=True)
        else:
            self._progress.update(data, raw=True)

    def _publish(self, html: str, text: str) -> None:
        self._shell.display_pub.publish({"text/plain": clean(text), "text/html": html})


def _new_handle() -> Handle:
    from IPython.display import DisplayHandle

    return cast("Callable[[], Handle]", DisplayHandle)()  # IPython gives it no types


def _paragraph(text: str, style: str) -> str:
    said = _TYPED.sub(rf'<code style="{_CODE};background:none;color:inherit">\g<0></code>', escape(clean(text)))
    return f'<div class="agent-kernel" style="{style}">{said}</div>'


def _bundle(step: Step) -> dict[str, str]:
    text, code = clean_lines(step.text).strip(), "" if step.on_card else clean_lines(step.code)
    broken = step.status if step.state == "broken" else ""
    plain = "\n".join(filter(None, (text, code, broken, *map(clean, step.notes))))
    is_broken = step.state == "broken"
    struck = ";text-decoration:line-through;opacity:.6" if is_broken else ""
    parts = [
        _thinking(clean_lines(step.thinking).strip(), is_open=not (text or code)),
        f'<div style="{_UI};white-space:pre-wrap;margin:0 0 2px{struck}">{escape(text)}</div>' if text else "",
        _code(code, struck) if code else "",
        f'<div style="{_UI};{_SMALL};font-variant-numeric:tabular-nums">{_status(step)}</div>'
        if code or not text or is_broken
        else "",
        *(f'<div style="{_UI};{_SMALL}">{escape(clean(note))}</div>' for note in step.notes),
    ]
    style = f"margin:4px 0;{_RULE if code else 'padding-left:14px'}"
    return {"text/plain": plain, "text/html": f'<div class="agent-kernel-step" style="{style}">{"".join(parts)}</div>'}


def _status(step: Step) -> str:
    """How the step stands. A front end takes back that it goes on if the kernel dies."""
    said = escape(step.status)
    is_going = step.state in ("writing", "running")
    return _GOING.sub(r'<span class="agent-kernel-going">\g<0></span>', said) if is_going else said


def _thinking(text: str, *, is_open: bool) -> str:
    if not text:
        return ""
    said = f'<div style="white-space:pre-wrap;padding:2px 0 4px 14px">{escape(text)}</div>'
    summary = '<summary style="cursor:pointer;display:list-item">thinking</summary>'
    return f'<details style="{_UI};{_SMALL};margin:0"{" open" if is_open else ""}>{summary}{said}</details>'


def _code(code: str, style: str = "") -> str:
    pieces = html_of(pieces_of(code.rstrip()))
    return (
        f'<pre style="{_CODE};margin:0;padding:0;border:0;background:none;color:inherit;overflow-x:auto{style}">'
        f"{pieces}</pre>"
    )
