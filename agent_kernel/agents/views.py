"""Look at what agents act on, and at what an agent is told, without running anything of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import msgspec

from agent_kernel.agents.events import StateChange, StepStart
from agent_kernel.agents.listing import readable
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.session import Live, Session, Snapshot

__all__ = ["Focus", "View", "view"]

Focus: TypeAlias = Literal["recent", "full"]


class View(msgspec.Struct, frozen=True):
    """What is to be seen: lines, below a title. A notebook shows it as HTML, `print` as text."""

    title: str
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([self.title, *(f"  {line}" for line in self.lines)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(f"<div>{escape(line)}</div>" for line in self.lines)
        style = "white-space:pre-wrap;font-family:monospace;margin-left:1em"
        return f'<div class="agent-kernel"><b>{escape(self.title)}</b><div style="{style}">{rows}</div></div>'


def view(
    of: Agent | ExecutionContext | Live | Session | Snapshot | Mapping[str, object] | None = None,
    *,
    focus: Focus = "recent",
    full: bool = False,
) -> View:
    """See a state, a past state, or what an agent is told and given; without one, this notebook.

    Args:
        focus: of a state, what the last run changed, or the last commit where that was no agent's; or all of it. Of what
            keeps neither commits nor events, all of it.
        full: of an agent, all that it was given, whether or not its model is told of all of it.

    Raises:
        NotBoundError: nothing is named, and no notebook is bound here.
    """
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.current import here
    from agent_kernel.session.snapshot import Snapshot

    if focus not in get_args(Focus):
        raise ValueError(f"focus is one of {', '.join(get_args(Focus))}, not {focus!r}")
    if isinstance(of, Agent):
        return _agent(of, full=full)
    if isinstance(of, Snapshot):
        lines = [f"{name}: {of.summary(name)}" for name in sorted(of)]
        return _shown(f"{len(of)} variables at {_short(of)}", lines)
    return _state(here() if of is None else of, focus)


def _agent(agent: Agent, *, full: bool) -> View:
    told = [*agent.primer.strip().splitlines(), *([""] if agent.primer.strip() else [])]
    given = agent.registry.lines() if full else agent.registry.text(agent.context_tokens).splitlines()
    return _shown(f"{agent!r}", [*told, *given])


def _state(of: ExecutionContext | Live | Session | Mapping[str, object], focus: Focus) -> View:
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.session.session import Session
    from agent_kernel.session.versioned import Live, Versioned

    if isinstance(of, Versioned):
        return _versioned(of.session, of.session.workspace.bindings.names(of.namespace), focus)
    if isinstance(of, Session):
        return _versioned(of, of.workspace.bindings.names(of.namespace), focus)
    if isinstance(of, ExecutionContext) and of.session is not None:
        return _versioned(of.session, of.names(), focus)
    namespace = of.namespace if isinstance(of, ExecutionContext | Live) else of
    names = sorted(name for name in namespace if not name.startswith("__"))
    last = _last_run(of) if isinstance(of, ExecutionContext | Live) and focus == "recent" else None
    if last is None:
        return _shown(f"{len(names)} variables", _lines(namespace, names))
    return _shown(f"what run {last[0][-5:]} changed", _changes(namespace, last[1]))


def _versioned(session: Session, names: Iterable[str], focus: Focus) -> View:
    from agent_kernel.repository import short

    at = "no commit" if session.head is None else short(session.head)
    where = f"{session.branch or 'no branch'} at {at}"
    if focus == "full" or session.head is None:
        known = sorted(names)
        return _shown(f"{len(known)} variables on {where}", _lines(session.namespace, known))
    changed: dict[str, str] = {}
    run, title = "", ""
    for id, commit in session.repo.log(session.head):
        if title and (not run or commit.run != run):
            break
        run, title = commit.run, title or f"what {short(id)} changed"
        for change in commit.changed:
            changed.setdefault(change.name, change.how)
    title = f"what run {run[-5:]} changed" if run else title
    return _shown(f"{title}, on {where}", _changes(session.namespace, changed))


def _last_run(of: ExecutionContext | Live) -> tuple[str, dict[str, str]] | None:
    """The run that acted here last, and what it changed."""
    from agent_kernel.agents.listing import events

    found = events(of)
    last = next((event.run for event in reversed(found) if isinstance(event, StepStart)), None)
    if last is None:
        return None
    changes = (event for event in found if event.run == last and isinstance(event, StateChange))
    return last, {name: how for event in changes for how, name, _ in event.changed}


def _changes(namespace: Mapping[str, object], changed: Mapping[str, str]) -> list[str]:
    return [
        f"{how} {_line(namespace, name)}" if name in namespace else f"- {name}" for name, how in sorted(changed.items())
    ]


def _lines(namespace: Mapping[str, object], names: Iterable[str]) -> list[str]:
    return [_line(namespace, name) for name in names]


def _line(namespace: Mapping[str, object], name: str) -> str:
    return f"{name}: {summaries.line(summaries.summarize(namespace[name], name))}"


def _shown(title: str, lines: Iterable[str]) -> View:
    return View(readable(title), tuple(readable(line) for line in lines))


def _short(past: Snapshot) -> str:
    from agent_kernel.repository import short

    return short(past.commit)
