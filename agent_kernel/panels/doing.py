"""Do what a panel asked for, by the live session, and say what came of it.

On the main thread, between cells. What is said here is in the words of the panel; what single verbs say of the same is
made by the verbs.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.errors import MergeConflictError
from agent_kernel.panels.asked import (
    Act,
    Aimed,
    Branched,
    Committed,
    Decided,
    Discarded,
    Merged,
    Picked,
    Resumed,
    Switched,
    Undone,
)
from agent_kernel.panels.standing import name_of
from agent_kernel.repository import hex_of
from agent_kernel.verbs import describe
from agent_kernel.verbs.moving import redo, told, undo
from agent_kernel.verbs.parsing import UsageProblem
from agent_kernel.verbs.text import clean, plural

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.repository import Change
    from agent_kernel.session import Report, Session
    from agent_kernel.session.operations import Operation
    from agent_kernel.verbs.moving import Moved
    from agent_kernel.verbs.scope import Scope

__all__ = ["check", "counted", "do"]

A = TypeVar("A")


def do(desk: Desk, scope: Scope, act: Act) -> Answer:
    """Do it: `Done`, or the conflicts of a merge.

    Raises:
        AgentKernelError: it could not be done; nothing was changed.
    """
    desk.check()  # only this thread lets go of a store, so others may go on looking meanwhile
    return _DOING[act.op](desk, scope, act)


def _checkout(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Aimed)
    page = _page(desk, args)  # before anything moves: it may be damaged
    before = scope.live().head
    report = told(scope, before, scope.live().checkout(args.to))
    return _moved(desk, scope, f"Checked out {act.label}", report, page)


def _rollback(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Aimed)
    page = _page(desk, args)
    before = scope.live().head
    report = told(scope, before, scope.live().rollback(args.to))
    return _moved(desk, scope, f"Rolled back to {act.label}", report, page)


def _page(desk: Desk, args: Aimed) -> object:
    """The notebook's page, where the code is to come along: of where a branch is now, as the variables are."""
    return desk.ask("cells", {"id": args.to}) if args.what == "both" else None


def _switch(desk: Desk, scope: Scope, act: Act) -> Answer:
    before = scope.live().head
    report = told(scope, before, scope.live().switch(_args(act, Switched).branch))
    return _moved(desk, scope, f"Switched to {act.label}", report)


def _undo(desk: Desk, scope: Scope, act: Act) -> Answer:
    _check_meant(scope, act, scope.live().next_undo)
    done = _told(desk, scope, undo(scope, Namespace(count="1", partial=False, only="")))
    # What undo would reverse next is something else by now.
    return {**done, "undo": False, "of": name_of(scope.live().next_redo)}


def _redo(desk: Desk, scope: Scope, act: Act) -> Answer:
    _check_meant(scope, act, scope.live().next_redo)
    return _told(desk, scope, redo(scope, Namespace(count="1", partial=False)))


def _check_meant(scope: Scope, act: Act, operation: Operation | None) -> None:
    """What is next to be undone is no longer what was meant, if a cell or another panel has done something since."""
    meant, head = _args(act, Undone), scope.live().head
    if head is None:  # no operation ends before the first commit, so there is none to be taken for another
        return
    is_other = bool(meant.of) and meant.of != name_of(operation)
    if is_other or (meant.head is not None and hex_of(head) != meant.head):
        raise UsageProblem(f"HEAD is at {called(scope.repo.commit_at(head))} by now")


def _merge(desk: Desk, scope: Scope, act: Act) -> Answer:
    from agent_kernel.verbs.merging import merge

    args = _args(act, Merged)
    options = Namespace(rev=args.branch, **_choices(args))
    try:
        result: Any = merge(scope, options)
    except MergeConflictError as conflict:
        return _clash(args, conflict)
    if result.report is None:
        return _done(desk, scope, f"{result.said}.")
    return _moved(desk, scope, f"Merged {act.label}", result.report)


def _cherry_pick(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Merged)
    before = scope.live().head
    try:
        report = scope.live().cherry_pick(args.branch, **_choices(args))
    except MergeConflictError as conflict:
        return _clash(args, conflict)
    if report.commit == before:
        return _done(desk, scope, f"Nothing to cherry-pick: the changes of {act.label} are here already.", None)
    return _moved(desk, scope, f"Cherry-picked {act.label}", report)


def _choices(args: Merged) -> dict[str, Any]:
    return {"ours": list(args.ours), "theirs": list(args.theirs), "message": args.message, "partial": args.partial}


def _clash(args: Merged, conflict: MergeConflictError) -> Answer:
    from agent_kernel.verbs.table import conflicts_json

    return {"conflicts": conflicts_json(conflict), "branch": args.branch}


def _commit(desk: Desk, scope: Scope, act: Act) -> Answer:
    report = scope.live().commit(_args(act, Committed).message)
    if report.commit is None:
        return _done(desk, scope, "Nothing to commit: no variable has changed since the last commit.", report)
    return _done(desk, scope, f"Committed: {counted(report.changed)}.", report)


def _branch(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Branched)
    scope.repo.create_branch(args.name, scope.resolve(args.at))
    if not args.go:
        return _done(desk, scope, f"Branch {act.label} starts at {called(scope.commit(args.at)[1])}.")
    try:
        report = scope.live().switch(args.name)
    except BaseException:
        scope.repo.delete_branch(args.name, force=True)
        raise
    return _moved(desk, scope, f"Switched to new branch {act.label}", report)


def _verify(desk: Desk, scope: Scope, act: Act) -> Answer:
    report = scope.repo.verify()
    checked = f"{plural(report.checked, 'object')} checked"
    if not report.problems:
        return _done(desk, scope, f"{checked}: all sound.")
    found = f"{checked}: {plural(len(report.problems), 'damaged object')}."
    names = sorted({name for one in report.problems for name in one.names})
    needed = [f"Needed by {_spelled(names)}."] if names else []
    return _done(desk, scope, found, notes=[*needed, "%agent verify lists them."])


def _decide(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Decided)
    notebook = scope.notebook
    assert notebook is not None
    code = args.code if args.decision == "edit" else None
    said = notebook.tasks.decide_apart(args.run, args.decision, reason=args.reason, code=code)
    return _done(desk, scope, f"{agreed(act)} {said}")


def check(desk: Desk, scope: Scope, act: Act) -> None:
    """Raise UsageProblem where it is known beforehand that it could not be done."""
    if isinstance(act.args, Resumed):
        _check_asked(desk, act.args)
        if not act.args.answer:
            _check_way_on(scope, act.args)
    if isinstance(act.args, Decided) and act.args.decision == "edit":
        notebook = scope.notebook
        assert notebook is not None
        notebook.tasks.check_code(act.args.code or "")


def _check_asked(desk: Desk, args: Resumed) -> None:
    """An answer is to what was seen: by now it may be answered, and the run may ask something else."""
    if args.question is None:
        return
    told: Any = desk.ask("run", {"id": args.run})
    asked = told["questions"][args.question - 1 : args.question]
    if not told["question"] or len(told["questions"]) != args.question:
        by = f" by {asked[0]['answered_by']}" if asked and asked[0]["answered_by"] else ""
        raise UsageProblem(f"this question was answered{by} already; nothing was done")


def _check_way_on(scope: Scope, args: Resumed) -> None:
    notebook = scope.notebook
    assert notebook is not None
    refused, _ = notebook.tasks.way_on(args.run)
    if refused:
        raise UsageProblem(refused)


def agreed(act: Act) -> str:
    """`Step 4 of analyst was approved.`"""
    args = _args(act, Decided)
    return f"{act.label[:1].upper()}{act.label[1:]} was {'denied' if args.decision == 'deny' else 'approved'}."


def _resume(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Resumed)
    notebook = scope.notebook
    assert notebook is not None
    said = notebook.tasks.resume_apart(args.run, args.answer)
    return _done(desk, scope, said if args.answer else f"Resumed {act.label.removeprefix('resuming ')}. {said}")


def _pick(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Picked)
    notebook = scope.notebook
    assert notebook is not None
    try:
        report = notebook.tasks.pick(args.race, args.number)
    except MergeConflictError as conflict:
        names = _spelled(sorted({name.partition("[")[0] for name, _, _ in conflict.conflicts}))
        raise UsageProblem(f"both sides changed {names}: pick({args.number}, theirs=[…]) in a cell chooses") from None
    return _moved(desk, scope, f"Picked {act.label}", report)


def _discard(desk: Desk, scope: Scope, act: Act) -> Answer:
    notebook = scope.notebook
    assert notebook is not None
    race = notebook.tasks.race(_args(act, Discarded).race)
    race.discard()
    many = plural(len(race.candidates), "candidate")
    rest = f" What candidate {race.picked} did stays where it was merged." if race.picked is not None else ""
    return _done(desk, scope, f"Discarded the branches of {many}.{rest}")


_DOING: Final[dict[str, Callable[[Desk, Scope, Act], Answer]]] = {
    "branch": _branch,
    "checkout": _checkout,
    "cherry_pick": _cherry_pick,
    "commit_now": _commit,
    "decide": _decide,
    "discard": _discard,
    "merge": _merge,
    "pick": _pick,
    "redo": _redo,
    "resume": _resume,
    "rollback": _rollback,
    "switch": _switch,
    "undo": _undo,
    "verify": _verify,
}


# -- saying it


def _told(desk: Desk, scope: Scope, result: Any) -> Answer:
    moved: Moved = result
    assert moved.report is not None
    return _moved(desk, scope, cleaned(moved.said, 200), moved.report)


def _moved(desk: Desk, scope: Scope, said: str, report: Report, page: object = None) -> Answer:
    """`Checked out [7]: 3 names changed, 1 removed. conn stays as it is.`"""
    sentence = f"{said}: {counted(report.changed)}."
    left = _stay(scope.live())
    if left:
        sentence += f" {_spelled(left)} {'stays as it is' if len(left) == 1 else 'stay as they are'}."
    lost = [describe.unsaved_line(one) for one in report.unsaved if one.name not in left]
    return _done(desk, scope, sentence, report, page, lost)


def _done(
    desk: Desk,
    scope: Scope,
    sentence: str,
    report: Report | None = None,
    page: object = None,
    notes: Sequence[str] = (),
) -> Answer:
    told = [f"{clean(note)[:1].upper()}{clean(note)[1:]}" for note in (*(report.notes if report else ()), *notes)]
    return {
        "done": sentence,
        "notes": [note if note.endswith(".") else f"{note}." for note in told],
        "undo": report is not None and scope.live().next_undo is not None,
        "of": name_of(scope.live().next_undo),
        "head": desk.head(),
        "cells": page,
    }


def counted(changed: Sequence[Change]) -> str:
    """`3 names changed, 1 added, 1 removed`."""
    hows = [change.how for change in changed]
    found = [(hows.count(how), word) for how, word in (("~", "changed"), ("+", "added"), ("-", "removed"))]
    parts = [f"{count:,} {word}" for count, word in found if count]
    if not parts:
        return "no name changed"
    number, _, word = parts[0].partition(" ")
    return ", ".join([f"{number} {'name' if number == '1' else 'names'} {word}", *parts[1:]])


def _stay(session: Session) -> list[str]:
    """The variables that are not saved, and that the move has left alone."""
    lost = {name for one in session.status(names=False).lost if not one.stored for name in one.name.split(", ")}
    return sorted(session.alive(session.head, lost)) if session.head is not None else []


def _spelled(names: Sequence[str], most: int = 5) -> str:
    shown = [clean(name) for name in names[:most]]
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def _args(act: Act, shape: type[A]) -> A:
    assert isinstance(act.args, shape)
    return act.args
