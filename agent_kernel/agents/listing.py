"""The events of everything that agents did somewhere, in order, and as people read them; `view` of what an agent is told."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Literal, SupportsIndex, TextIO, TypeAlias, cast, get_args, overload

import msgspec

from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import (
    GIVEN,
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Compaction,
    Effect,
    Error,
    Event,
    Fail,
    Output,
    Resumed,
    Retry,
    Rewound,
    StateChange,
    StepStart,
    SubRun,
    Success,
    TaskStart,
)
from agent_kernel.agents.messages import redact
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.agents.run import Run
    from agent_kernel.repository import Repository
    from agent_kernel.session import Live, Session, Snapshot


class Events(tuple[Event, ...]):
    """Events in order. A notebook shows them as HTML, `print` as lines; `pprint_events` has options."""

    __slots__ = ()

    @overload
    def __getitem__(self, key: SupportsIndex) -> Event: ...
    @overload
    def __getitem__(self, key: slice) -> Events: ...
    def __getitem__(self, key: SupportsIndex | slice) -> Event | Events:
        """One of them, or some of them, which are shown as all are."""
        return Events(super().__getitem__(key)) if isinstance(key, slice) else super().__getitem__(key)

    def __str__(self) -> str:

        return text_of(self, Look())

    def __repr__(self) -> str:
        return f"<{len(self)} event{'s' * (len(self) != 1)}>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self) if not cycle else repr(self))  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:

        return html_of(self)


def events(
    of: ExecutionContext | Live | Session | Repository | Run[object] | None = None, run: str | Run[object] | None = None
) -> Events:
    """All that agents did in a state, in order, across runs and sub-agents; without one, in this notebook.

    Args:
        of: a `Versioned` or `Live` state, a session, a repository, an execution context, or one run with its sub-agents.
        run: of this run alone, with its sub-agents; a run, or the begin or end of its id.

    Raises:
        NotBoundError: nothing is named, and no notebook is bound here.
        RunNotFoundError: there is no such run. TypeError: a plain dict keeps no events; `Live()` does.
    """
    from agent_kernel.agents.run import Run

    if isinstance(of, Run):
        event_store, run = of.event_store, of
    else:
        event_store = event_store_of(of)
    starts = event_store.starts()
    wanted = [start.run for start in starts]
    if run is not None:
        outermost = run.id if isinstance(run, Run) else event_store.find(run)
        wanted = _with_children(outermost, [(start.run, start.parent_run) for start in starts])
    found = (event for one in wanted for event in event_store.of(one))
    return Events(sorted(found, key=lambda event: (event.time_ns, event.run, event.seq)))


def event_store_of(of: ExecutionContext | Live | Session | Repository | None) -> EventStore:
    """Where the events of this are kept."""
    from agent_kernel.agents.current import here
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.repository import Repository
    from agent_kernel.session.session import Session
    from agent_kernel.session.versioned import Live, Versioned

    match of:
        case None:
            return here().event_store
        case ExecutionContext():
            return of.event_store
        case Versioned() | Session():
            return EventStore(of.repo.store)
        case Repository():
            return EventStore(of.store)
        case Live():
            return EventStore(of.beside)
        case _:
            raise TypeError(f"{type(of).__name__} keeps no events; give agents a Live() or a Versioned() to act on")


def _with_children(run: str, parents: Iterable[tuple[str, str]]) -> list[str]:
    """The run and all that are below it; a run begins after the one that began it."""
    found = {run}
    for one, parent in parents:
        if parent in found:
            found.add(one)
    return sorted(found)


# -- events as people read them: as lines of text, and as HTML
#
# Everything that is shown is foreign: it is escaped, its control characters are taken out, and what looks like a secret is
# masked here too, whatever was stored.

Verbosity: TypeAlias = Literal["brief", "normal", "verbose"]
_COLORS: dict[str, str] = {"head": "1", "code": "36", "sent": "2", "quiet": "2", "bad": "31", "good": "32"}
_FONT = "font-family:var(--jp-code-font-family,monospace)"
_STYLES: dict[str, str] = {
    "head": "font-weight:600",
    "plain": "white-space:pre-wrap",
    "code": f"white-space:pre-wrap;{_FONT};border-left:3px solid #8888;padding-left:.6em",
    "shown": f"white-space:pre;overflow-x:auto;{_FONT}",
    "sent": f"white-space:pre-wrap;{_FONT};opacity:.7",
    "quiet": "white-space:pre-wrap;opacity:.7",
    "bad": "white-space:pre-wrap;color:#c33",
    "good": "white-space:pre-wrap;color:#2a2",
}
_MOST_CHARS = 4_000  # that one part of an event may take, unless all is asked for


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """How events are shown; see `pprint_events`."""

    verbosity: Verbosity = "normal"
    show_delta: bool = True
    indent_by_namespace: bool = True
    width: int = 120
    truncate_code_lines: int | None = 20

    def __post_init__(self) -> None:
        if self.verbosity not in get_args(Verbosity):
            raise ValueError(f"verbosity is one of {', '.join(get_args(Verbosity))}, not {self.verbosity!r}")
        if self.width < 20:
            raise ValueError(f"width is 20 or more, not {self.width}")


def pprint_events(
    events: Event | Iterable[Event],
    *,
    verbosity: Verbosity = "normal",
    color: bool | None = None,
    show_delta: bool = True,
    indent_by_namespace: bool = True,
    width: int = 120,
    truncate_code_lines: int | None = 20,
    file: TextIO | None = None,
) -> None:
    """Print events, or one: `on_event=pprint_events` prints them as they come.

    Args:
        verbosity: `brief` leaves out what steps showed, `verbose` adds what the model thought and was sent.
        color: by default where `file` is a terminal.
        show_delta: which variables each step changed.
        indent_by_namespace: those of sub-agents stand further to the right.
        width: characters of a line, of which the rest is cut.
        truncate_code_lines: so many lines of one piece of code; None: all.
        file: by default `sys.stdout`.
    """
    look = Look(
        verbosity=verbosity,
        show_delta=show_delta,
        indent_by_namespace=indent_by_namespace,
        width=width,
        truncate_code_lines=truncate_code_lines,
    )
    out = sys.stdout if file is None else file
    colored = out.isatty() if color is None else color
    for event in [events] if isinstance(events, Event) else events:
        text = text_of([event], look, colored=colored)
        if text:
            out.write(f"{text}\n")


def text_of(events: Iterable[Event], look: Look, *, colored: bool = False) -> str:
    """Events as lines."""
    lines: list[str] = []
    for event in events:
        indent = "  " * event.namespace.count("/") if look.indent_by_namespace else ""
        for kind, text in _describe_event(event, look):
            first = "  | " if kind == "code" else "" if kind == "head" or text.startswith(_who(event)) else "  "
            for line in text.splitlines() or [""]:
                cut = _cut(f"{indent}{first}{line}", look.width)
                code = _COLORS.get(kind, "") if colored else ""
                lines.append(f"\x1b[{code}m{cut}\x1b[0m" if code else cut)
    return "\n".join(lines)


def html_of(events: Iterable[Event]) -> str:
    """Events as HTML without scripts, links or pictures."""
    look = Look()
    rows: list[str] = []
    for event in events:
        indent = event.namespace.count("/") * 1.5
        lines = [f'<div style="{_STYLES[kind]}">{escape(text)}</div>' for kind, text in _describe_event(event, look)]
        if lines:
            rows.append(f'<div style="margin:.2em 0 .2em {indent:g}em">{"".join(lines)}</div>')
    return f'<div class="agent-kernel agent-kernel-events">{"".join(rows)}</div>'


def _describe_event(event: Event, look: Look) -> Iterator[tuple[str, str]]:
    """What is said of an event, in pieces."""
    most = None if look.verbosity == "verbose" else _MOST_CHARS
    for kind, text in _pieces(event, look):
        clean = redact(text, most).rstrip()
        yield kind, _fewer_lines(clean, look.truncate_code_lines) if kind == "code" else clean


def _pieces(event: Event, look: Look) -> Iterator[tuple[str, str]]:
    who = _who(event)
    is_verbose, is_brief = look.verbosity == "verbose", look.verbosity == "brief"
    match event:
        case TaskStart():
            yield "head", f"{who} task: {event.task if is_verbose else event.task.partition(chr(10))[0]}"
            yield "quiet", f"model {event.model}" + (f", returns {event.returns}" if event.returns else "")
            yield from [("quiet", event.prompt)] if is_verbose else []
        case Action():
            named = "setup" if event.source in GIVEN else f"step {event.step}" if event.step is not None else "answer"
            yield "head", f"{who} {named}"
            yield from [("quiet", event.thinking)] if is_verbose and event.thinking else []
            yield from [("plain", event.text)] if event.text and not is_brief else []
            yield from [("code", event.code)] if event.code else []
        case Output():
            text = "".join(part.text or f"[{part.mime}]\n" for part in event.parts)
            yield from [("shown", text)] if text and not is_brief else []
            yield from [("bad", f"{event.status}")] if event.status != "ok" else []
            yield from [("sent", f"sent: {event.sent}")] if is_verbose else []
        case StateChange():
            if look.show_delta:
                yield from (("quiet", f"{how} {name}{f': {now}' if now else ''}") for how, name, now in event.changed)
                yield from (("bad", f"not saved: {name} ({reason})") for name, reason in event.unsaved)
        case Effect():
            yield "quiet", f"outside the variables: {event.text}"
        case SubRun():
            yield from [("quiet", f"{event.child_agent}: {event.status}")] if not is_brief else []
        case _:
            yield from _describe_end(event, who, is_verbose=is_verbose)


def _describe_end(event: Event, who: str, *, is_verbose: bool) -> Iterator[tuple[str, str]]:
    match event:
        case Error():
            yield "bad", event.message
        case Success():
            yield "good", f"{who} done{f': {event.result}' if event.result else ''}"
        case Fail():
            yield "bad", f"{who} failed{f' ({event.limit})' if event.limit else ''}: {event.reason}"
        case Clarify():
            yield "head", f"{who} asks: {event.question}"
        case Cancelled():
            yield (
                "bad",
                f"{who} {'given up' if event.final else 'stopped'}{f': {event.reason}' if event.reason else ''}",
            )
        case Resumed():
            yield "head", f"{who} goes on{f': {event.sent}' if event.sent else ''}"
        case ApprovalRequested():
            yield "head", f"{who} asks whether step {event.step} may run"
            yield from (("plain", f"{one.kind}: {one.what}") for one in event.findings if one.risky)
        case ApprovalDecided():
            yield "plain", f"{event.decision}{f' by {event.by}' if event.by else ''} {event.reason}".rstrip()
        case Retry():
            yield "quiet", event.sent if is_verbose else "the answer did not fit; it is asked again"
        case Rewound() if event.steps:
            yield "quiet", f"what was said of step {', '.join(map(str, event.steps))} is taken back with it"
        case Compaction():
            yield "quiet", f"{event.dropped} older messages are left out"
        case _:
            pass


def _who(event: Event) -> str:
    return f"[{event.namespace or event.agent}]"


def _fewer_lines(code: str, most: int | None) -> str:
    lines = code.splitlines()
    if most is None or len(lines) <= most:
        return code
    return "\n".join([*lines[:most], f"… {len(lines) - most} more line{'s' * (len(lines) - most != 1)}"])


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else f"{line[: width - 1]}…"


# -- look at what agents act on, and at what an agent is told, without running anything of it

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
        return _make_view(f"{len(of)} variables at {_short(of)}", lines)
    return _state(here() if of is None else of, focus)


def _agent(agent: Agent, *, full: bool) -> View:
    primer = [*agent.primer.strip().splitlines(), *([""] if agent.primer.strip() else [])]
    tools = agent.registry.lines() if full else agent.registry.text(agent.context_tokens).splitlines()
    return _make_view(f"{agent!r}", [*primer, *tools])


def _state(of: object, focus: Focus) -> View:
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.session.session import Session
    from agent_kernel.session.versioned import Live, Versioned

    if isinstance(of, Versioned):
        return _list_variables(of.session, of.session.workspace.bindings.names(of.namespace), focus)
    if isinstance(of, Session):
        return _list_variables(of, of.workspace.bindings.names(of.namespace), focus)
    if isinstance(of, ExecutionContext) and of.session is not None:
        return _list_variables(of.session, of.names(), focus)
    namespace = of.namespace if isinstance(of, ExecutionContext | Live) else of
    if not isinstance(namespace, Mapping):
        raise TypeError(f"{type(of).__name__} has no variables; give an agent, a Live(), a Versioned() or a dict")
    namespace = cast("Mapping[str, object]", namespace)
    names = sorted(name for name in namespace if not name.startswith("__"))
    last = _last_run(of) if isinstance(of, ExecutionContext | Live) and focus == "recent" else None
    if last is None:
        return _make_view(f"{len(names)} variables", _lines(namespace, names))
    return _make_view(f"what run {last[0][-5:]} changed", _changes(namespace, last[1]))


def _list_variables(session: Session, names: Iterable[str], focus: Focus) -> View:
    from agent_kernel.repository import short

    at = "no commit" if session.head is None else short(session.head)
    where = f"{session.branch or 'no branch'} at {at}"
    if focus == "full" or session.head is None:
        known = sorted(names)
        return _make_view(f"{len(known)} variables on {where}", _lines(session.namespace, known))
    changed: dict[str, str] = {}
    run, title = "", ""
    for id, commit in session.repo.log(session.head):
        if title and (not run or commit.run != run):
            break
        run, title = commit.run, title or f"what {short(id)} changed"
        for change in commit.changed:
            changed.setdefault(change.name, change.how)
    title = f"what run {run[-5:]} changed" if run else title
    return _make_view(f"{title}, on {where}", _changes(session.namespace, changed))


def _last_run(of: ExecutionContext | Live) -> tuple[str, dict[str, str]] | None:
    """The run that acted here last, and what it changed."""
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
    return f"{name}: {previews.line(previews.make_preview(namespace[name], name))}"


def _make_view(title: str, lines: Iterable[str]) -> View:
    return View(redact(title), tuple(map(redact, lines)))


def _short(past: Snapshot) -> str:
    from agent_kernel.repository import short

    return short(past.commit)
