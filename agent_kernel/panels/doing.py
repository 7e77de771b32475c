"""Do what a panel asked for, by the live session, and say what came of it.

On the main thread, between cells. What is said here is in the words of the panel; what single verbs say of the same is
made by the verbs.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import msgspec

from agent_kernel.browsing.plans import told_changes
from agent_kernel.browsing.wording import called, cleaned
from agent_kernel.errors import MergeConflictError, RequestError
from agent_kernel.panels.acts import (
    Act,
    Aimed,
    Branched,
    Committed,
    Decided,
    Discarded,
    Merged,
    Named,
    Picked,
    Resumed,
    Switched,
    Tagged,
    Undone,
    name_of,
)
from agent_kernel.repository import hex_of
from agent_kernel.verbs import describe
from agent_kernel.verbs.checkout import redo, told, undo
from agent_kernel.verbs.parsing import UsageProblem
from agent_kernel.verbs.text import clean, plural

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk, Notebook
    from agent_kernel.repository import Change, ObjectId
    from agent_kernel.session import Report, Repository, Session
    from agent_kernel.session.operations import Operation
    from agent_kernel.verbs.checkout import Moved
    from agent_kernel.verbs.scope import Scope

__all__ = ["check", "counted", "do", "planned", "tag", "write_notebook"]


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
    return _with_cells(desk, _moved(desk, scope, f"Checked out {act.label}", report, page))


def _rollback(desk: Desk, scope: Scope, act: Act) -> Answer:
    args = _args(act, Aimed)
    page = _page(desk, args)
    before = scope.live().head
    report = told(scope, before, scope.live().rollback(args.to))
    return _with_cells(desk, _moved(desk, scope, f"Rolled back to {act.label}", report, page))


def _with_cells(desk: Desk, done: Answer) -> Answer:
    """Note that the notebook's cells came back with this: whoever undoes it wants those back, too."""
    if done["cells"] is not None:
        desk.with_cells[str(done["of"])] = False
    return done


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
    from agent_kernel.verbs.checkout import merge

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


# -- the acts that change neither a variable nor HEAD, and so wait for no cell: `tag`, and `write_notebook`

_SHORT = 8  # digits of a commit's id
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # nbformat 4.5; formats before it have none
_INDENT = 1  # as Jupyter writes its files


def tag(desk: Desk, notebook: Notebook, act: Act) -> Answer:
    """Name a commit."""
    assert isinstance(act.args, Tagged)
    with desk.inside() as (repo, session):
        at = repo.resolve(act.args.at, session.id)
        repo.create_tag(act.args.name, at)
        said = f"Tagged {called(repo.commit_at(at))} as {act.label}."
    return {"done": said, "notes": [], "undo": False, "head": desk.head(), "cells": None}


def write_notebook(desk: Desk, notebook: Notebook, act: Act) -> Answer:
    """Write the page that was stored with a commit to a file of its own, beside the notebook."""
    assert isinstance(act.args, Named)
    page = cast("Answer | None", desk.ask("cells", {"id": act.args.id}))
    if page is None:
        raise RequestError("write_notebook", f"no page of the notebook was stored with {act.label}")
    path = notebook.path()
    folder, name = (Path.cwd(), Path(str(page["name"])).name) if path is None else (path.parent, path.name)
    stem = name.removesuffix(".ipynb")
    written = _write(folder, f"{stem}@{act.id[:_SHORT]}", _notebook(page, path))
    where = "beside the notebook" if path is not None else f"in {folder}"
    said = f"Wrote {written.name} {where}."
    return {"done": said, "notes": [], "undo": False, "head": desk.head(), "cells": None}


def _write(folder: Path, stem: str, content: bytes) -> Path:
    """Write a new file; one of the same name that says something else stays, and the new one gets a number."""
    number = 1
    while True:
        path = folder / (f"{stem}.ipynb" if number == 1 else f"{stem}-{number}.ipynb")
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            if path.read_bytes() != content:
                number += 1
                continue
        except OSError as error:
            raise RequestError("write_notebook", f"{path} cannot be written: {error.strerror}") from error
        return path


def _notebook(page: Answer, path: Path | None) -> bytes:
    """The page as a notebook file, with the metadata that the notebook has now.

    Of today's format, or of the one before it where the cells have no ids, or some that are none.
    """
    cells = cast("list[dict[str, str]]", page["cells"])
    ids = [cell["id"] for cell in cells]
    has_ids = all(_ID.fullmatch(id) for id in ids) and len(set(ids)) == len(ids)
    document = {
        "cells": [_cell(cell, has_ids=has_ids) for cell in cells],
        "metadata": _metadata(path),
        "nbformat": 4,
        "nbformat_minor": 5 if has_ids else 4,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=_INDENT) + b"\n"


def _cell(cell: dict[str, str], *, has_ids: bool) -> Answer:
    named: Answer = {"id": cell["id"]} if has_ids else {}
    lines = cell["source"].splitlines(keepends=True)
    made: Answer = {"cell_type": cell["type"], **named, "metadata": {}, "source": lines}
    return {**made, "execution_count": None, "outputs": []} if cell["type"] == "code" else made


class _File(msgspec.Struct):
    metadata: dict[str, object] = msgspec.field(default_factory=dict[str, object])


def _metadata(path: Path | None) -> dict[str, object]:
    """The kernel and the language, as the notebook's file names them."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File).metadata if path is not None else {}
    except (OSError, msgspec.MsgspecError):  # not saved yet
        return {}
    return {key: found[key] for key in ("kernelspec", "language_info") if key in found}


# -- what a move would do to what is live, beyond what the store says of it

_NAMES = 3


def planned(desk: Desk, args: Mapping[str, object], found: Answer) -> Answer:
    """The answer to `plan`, completed. On the main thread, between cells."""
    with desk.inside() as (repo, session):
        to = repo.resolve(str(cast("Answer", found["to"])["id"]), session.id)
        cannot = cast("list[Answer]", found["cannot"])
        alive = session.alive(to, [str(one["name"]) for one in cannot])
        uncommitted = [change.name for change in session.status(names=False).changed]
        live = _compared(repo, session, args, to)
    return {
        **found,
        **live,
        "cannot": [{**one, "stays": one["name"] in alive} for one in cannot],
        "notes": [*_first(uncommitted), *cast("list[str]", found["notes"])],
    }


def _compared(repo: Repository, session: Session, args: Mapping[str, object], to: ObjectId) -> Answer:
    """What changes, where a restart took variables of HEAD out of memory that nobody brought back."""
    if args["op"] in ("merge", "cherry_pick") or not session.carried():
        return {}
    branch = repo.branch_meant(str(args["to"]), session.id) if args["op"] == "checkout" else None
    changes = session.foreseen(to, is_here=branch is not None and branch == session.branch)
    return told_changes(repo, repo.tree_at(to), changes)


def _first(names: Sequence[str]) -> list[str]:
    """That what is not committed yet is committed before anything moves."""
    if not names:
        return []
    shown = [clean(name) for name in names[:_NAMES]]
    more = len(names) - len(shown)
    listed = ", ".join(shown[:-1])
    said = f"{', '.join(shown)} and {more} more" if more else f"{listed} and {shown[-1]}" if listed else shown[0]
    return [f"{said} {'is' if len(names) == 1 else 'are'} committed first."]
