"""Show a run in the cell that it runs in: what the model thinks and writes as it comes, and how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from typing import TYPE_CHECKING, Protocol

from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Effect,
    Error,
    Event,
    Fail,
    Output,
    Retry,
    StateChange,
    Success,
    TaskStart,
)
from agent_kernel.agents.models import Delta
from agent_kernel.verbs.text import clean

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["Shown", "shown"]


class Shown(Protocol):
    """Where a run is shown."""

    def step(self, number: int, thinking: str, text: str, code: str, *, done: bool) -> None:
        """What the model has written of a step so far."""
        ...

    def line(self, text: str, *, strong: bool = False) -> None:
        """One line beside the steps."""
        ...


def shown(items: Iterator[Event | Delta], place: Shown, asks: Callable[[str], bool]) -> None:
    """Show all of a run's events as they come.

    Args:
        asks: shows that a step of this run waits for a person; returns False where only lines can be shown.
    """
    draft = {"thinking": "", "text": "", "code": ""}
    number = 0
    last: Event | None = None
    for item in items:
        if isinstance(item, Delta):
            draft[item.kind] += item.text
            place.step(number + 1, draft["thinking"], draft["text"], draft["code"], done=False)
            continue
        if isinstance(item, Action):
            number = item.step or number
            place.step(number + (item.step is None), item.thinking, item.text, item.code or "", done=True)
            draft = dict.fromkeys(draft, "")
        last = item
        if isinstance(item, ApprovalRequested):
            continue  # it may be decided already: nobody can be asked
        for line in lines_of(item):
            place.line(line, strong=not isinstance(item, Effect | Retry))
    if isinstance(last, ApprovalRequested) and not asks(last.run):
        for line in lines_of(last):
            place.line(line, strong=True)
        place.line("%agent approve runs it, %agent edit changes it first, %agent deny REASON does not")


def lines_of(event: Event) -> Iterator[str]:
    """What is said of an event besides the code and what the code itself shows."""
    match event:
        case TaskStart():
            yield f"{event.agent} · {event.model}"
        case ApprovalRequested():
            risky = [one for one in event.findings if one.risky] or list(event.findings)
            yield f"{event.agent} wants to run step {event.step}"
            yield from (f"  {one.kind}: {one.what}" for one in risky)
        case ApprovalDecided(decision="deny", by="policy"):
            yield f"step {event.step} was denied: {event.reason}"
        case StateChange() if event.unsaved:
            yield from (f"  {name} is not saved: {reason}" for name, reason in event.unsaved)
        case Output(status="timeout"):
            yield f"step {event.step} ran too long and was interrupted"
        case Output(status="unknown"):
            yield f"it is not known whether step {event.step} ran to its end; it is not run again"
        case Effect():
            times = f" ({event.count} times)" if event.count > 1 else ""
            yield f"  outside the variables: {event.what} {event.target}{times}"
        case Error(source="model"):
            yield event.message if event.fatal else f"{event.message}; trying again"
        case Retry():
            yield "the answer did not fit; the model tries again"
        case Success():
            yield f"done: {event.result}" if event.result else "done"
        case Fail():
            yield f"failed: {event.reason}"
        case Clarify():
            yield f"{event.agent} asks: {event.question}"
            yield "%agent resume ANSWER goes on"
        case Cancelled():
            yield "stopped; %agent resume goes on" if not event.final else "given up"
        case _:
            pass


class Terminal:
    """Shows a run by printing: a step when it is whole."""

    def step(self, number: int, thinking: str, text: str, code: str, *, done: bool) -> None:
        if done:
            said = [clean(line) for line in text.splitlines() if line.strip()]
            if not said and not code:
                return
            print(*said, *(f"    {line}" for line in code.splitlines()), sep="\n")

    def line(self, text: str, *, strong: bool = False) -> None:
        print(f"[agent] {clean(text)}")


class Notebook:
    """Shows a run in displays: one for each step, which grows as the model writes."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._open = 0

    def step(self, number: int, thinking: str, text: str, code: str, *, done: bool) -> None:
        from IPython.display import DisplayHandle

        if number != self._open:
            self._open = number
            self._handle = DisplayHandle()
            self._handle.display(_bundle(thinking, text, code), raw=True)
        else:
            self._handle.update(_bundle(thinking, text, code), raw=True)

    def line(self, text: str, *, strong: bool = False) -> None:
        weight = "600" if strong else "400"
        html = f'<div class="agent-kernel" style="font-weight:{weight}">{escape(clean(text))}</div>'
        self._shell.display_pub.publish({"text/plain": clean(text), "text/html": html})


def _bundle(thinking: str, text: str, code: str) -> dict[str, str]:
    parts = [f"<details><summary>thinking</summary>{escape(thinking)}</details>" if thinking else ""]
    parts += [f"<p>{escape(text)}</p>" if text else "", f"<pre>{escape(code)}</pre>" if code else ""]
    plain = "\n".join(filter(None, (text, code)))
    return {"text/plain": plain, "text/html": f'<div class="agent-kernel">{"".join(parts)}</div>'}
