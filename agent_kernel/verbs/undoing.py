"""`undo` and `redo`: back and forth through what this session did."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.agents import uncovered
from agent_kernel.agents.earlier import begun_at
from agent_kernel.agents.journal import Journal
from agent_kernel.agents.operations import operation_text, run_text
from agent_kernel.errors import NothingToUndoError
from agent_kernel.verbs.binding import spelled
from agent_kernel.verbs.moving import Moved, only_argument, only_asked, partial_argument
from agent_kernel.verbs.output import Block, Json, Line, Result
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.uncovered import steps_between, told

if TYPE_CHECKING:
    from agent_kernel.repository import Unsaved
    from agent_kernel.session.session import Only

__all__ = ["redo", "redo_arguments", "undo", "undo_arguments"]


def undo_arguments(parser: Parser) -> None:
    parser.takes("count", "text", help="how many operations (1 unless told)", default="1")
    partial_argument(parser)
    only_argument(parser)


def undo(scope: Scope, options: Namespace) -> Result:
    only = only_asked(options)
    if only == "chat":
        return _conversation_back(scope, options)
    return _repeated("undo", scope, options, only)


def redo_arguments(parser: Parser) -> None:
    parser.takes("count", "text", help="how many operations (1 unless told)", default="1")
    partial_argument(parser)


def redo(scope: Scope, options: Namespace) -> Result:
    return _repeated("redo", scope, options)


def _conversation_back(scope: Scope, options: Namespace) -> Result:
    """Take the conversation with agents back to before the last run that they remember, and leave the variables."""
    if options.count != "1":
        raise UsageProblem("--only chat goes back by one run; rollback REF --only chat goes further")
    session, journal = scope.live(), Journal(scope.repo.store)
    begun = begun_at(scope.repo, journal, session.head)
    talk = session.last_talk(begun)
    report = session.undo(only="chat", begun=begun)
    assert talk is not None  # else there was nothing to take back
    said = f"The conversation went back to before {run_text(journal, talk.run)}"
    return Moved.of(said, scope, report)


def _repeated(verb: str, scope: Scope, options: Namespace, only: Only = "") -> Result:
    """Undo or redo so many operations, as far as there are any."""
    count = options.count.lstrip("0") if options.count.isascii() else ""
    if not count.isdecimal():
        raise UsageProblem(f"{verb} takes a number of operations; rollback REF goes to a commit, checkout REF too")
    done: list[Moved] = [_once(verb, scope, only, partial=options.partial)]
    for _ in range(int(count[:9]) - 1):
        try:
            done.append(_once(verb, scope, only, partial=options.partial))
        except NothingToUndoError:
            return Steps(tuple(done), (Line(f"that is all there is to {verb} in this session"),))
    return done[0] if len(done) == 1 else Steps(tuple(done))


def _once(verb: str, scope: Scope, only: Only, *, partial: bool) -> Moved:
    session = scope.live()
    before, absent = session.head, set(session.carried())
    brings_back = verb == "redo" and session.next_redo is session.next_undo
    report = session.undo(partial=partial, only=only) if verb == "undo" else session.redo(partial=partial)
    # Asked for afterwards: what no cell had committed became an operation of its own first.
    what = session.next_redo if verb == "undo" else session.next_undo
    said = "Undone" if verb == "undo" else "Done again"
    at = report.commit if report.commit is not None else session.head
    if brings_back or (what is not None and what.chat):
        where = "went back again" if verb == "redo" and not brings_back else _is_back(scope)
        return Moved.of(f"The conversation {where}", scope, report, at)
    found = steps_between(scope, before)
    about = "" if what is None else operation_text(scope.repo, what, scope.live().id)
    if what is not None and what.run:
        part, stays = _part_of_run(scope, what.run, found.left if verb == "undo" else found.taken)
        about = f"{part}{about}"
        if stays and verb == "undo":
            report = msgspec.structs.replace(report, notes=(*report.notes, stays))
    gone = [name for name in session.carried() if name not in absent]
    if gone:
        report = msgspec.structs.replace(report, notes=(*report.notes, _out_of_memory(scope, gone)))
    said = f"{said} {about}".rstrip()
    if what is not None and what.moved and only == "vars":
        said = f"The variables went back to before {about}, and HEAD stays there"
    return Moved.of(said, scope, told(scope, before, report, found), at)


def _out_of_memory(scope: Scope, names: Sequence[str]) -> str:
    are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    return f"{spelled(names)} {are} out of memory again, as after the restart: {scope.typed('checkout')} brings {them} back"


def _is_back(scope: Scope) -> str:
    """Where the conversation is that came back: it may have been taken back further, and more than once."""
    session, journal = scope.live(), Journal(scope.repo.store)
    if session.next_undo is None or not session.next_undo.chat:
        return "is back where it was"
    talk = session.last_talk(begun_at(scope.repo, journal, session.head))
    return "is back by one run" if talk is None else f"is back up to {run_text(journal, talk.run)}"


def _part_of_run(scope: Scope, run: str, found: Mapping[str, set[int]]) -> tuple[str, str]:
    """`step 3 of `, where other steps of the run are not part of this, and what is to be said of those before it."""
    steps = found.get(run, set())
    events = list(Journal(scope.repo.store).of(run))
    others = uncovered.ran(events) - steps
    if not steps or not others:
        return "", ""
    before = {step for step in others if step < min(steps)}
    begun = next((event.before for event in events if event.step in before and event.before), "")
    back = f": {scope.typed('rollback', begun[:8])} goes back to before the run" if begun else ""
    stays = f"{uncovered.numbers(before)} of the run came before other work, and so stayed{back}" if before else ""
    return f"{uncovered.numbers(steps)} of ", stays


@dataclass(frozen=True)
class Steps(Result):
    """Several operations, one after the other."""

    each: tuple[Moved, ...]
    last: tuple[Line, ...] = ()

    @property
    def unsaved(self) -> Sequence[Unsaved]:
        return [told for one in self.each for told in one.unsaved]

    def to_json(self) -> Json:
        return [one.to_json() for one in self.each]

    def blocks(self) -> Sequence[Block]:
        return [*(block for one in self.each for block in one.blocks()), *self.last]
