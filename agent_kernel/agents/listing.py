"""The events of everything that agents did somewhere, in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, SupportsIndex, overload

from agent_kernel.agents.events import Event
from agent_kernel.agents.journal import Journal

if TYPE_CHECKING:
    from agent_kernel.agents.place import Place
    from agent_kernel.agents.run import Run
    from agent_kernel.repository import Repository
    from agent_kernel.session import Live, Session

__all__ = ["Events", "events", "journal_of"]


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
        from agent_kernel.agents.printing import Look, text_of

        return text_of(self, Look())

    def __repr__(self) -> str:
        return f"<{len(self)} event{'s' * (len(self) != 1)}>"

    def _repr_pretty_(self, printer: object, cycle: bool) -> None:
        printer.text(str(self) if not cycle else repr(self))  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        from agent_kernel.agents.printing import html_of

        return html_of(self)


def events(
    of: Place | Live | Session | Repository | Run[object] | None = None, run: str | Run[object] | None = None
) -> Events:
    """All that agents did in a state, in order, across runs and sub-agents; without one, in this notebook.

    Args:
        of: a `Versioned` or `Live` state, a session, a repository, a place, or one run with its sub-agents.
        run: of this run alone, with its sub-agents; a run, or the begin or end of its id.

    Raises:
        NotBoundError: nothing is named, and no notebook is bound here.
        RunNotFoundError: there is no such run. TypeError: a plain dict keeps no events; `Live()` does.
    """
    from agent_kernel.agents.run import Run

    if isinstance(of, Run):
        journal, run = of.journal, of
    else:
        journal = journal_of(of)
    starts = journal.starts()
    wanted = [start.run for start in starts]
    if run is not None:
        outermost = run.id if isinstance(run, Run) else journal.find(run)
        wanted = _with_children(outermost, [(start.run, start.parent_run) for start in starts])
    found = (event for one in wanted for event in journal.of(one))
    return Events(sorted(found, key=lambda event: (event.time_ns, event.run, event.seq)))


def journal_of(of: Place | Live | Session | Repository | None) -> Journal:
    """Where the events of this are kept."""
    from agent_kernel.agents.current import here
    from agent_kernel.agents.place import Place
    from agent_kernel.repository import Repository
    from agent_kernel.session.session import Session
    from agent_kernel.session.versioned import Live, Versioned

    match of:
        case None:
            return here().journal
        case Place():
            return of.journal
        case Versioned() | Session():
            return Journal(of.repo.store)
        case Repository():
            return Journal(of.store)
        case Live():
            return Journal(of.beside)
        case _:
            raise TypeError(f"{type(of).__name__} keeps no events; give agents a Live() or a Versioned() to act on")


def _with_children(run: str, parents: Iterable[tuple[str, str]]) -> list[str]:
    """The run and all that are below it; a run begins after the one that began it."""
    found = {run}
    for one, parent in parents:
        if parent in found:
            found.add(one)
    return sorted(found)
