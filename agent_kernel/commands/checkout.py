"""Branching and merging: `checkout`, `switch`, `rollback`, `undo`, `redo` and `merge` go somewhere else; `branch` and `tag` name it.

In a live session they load variables. A store alone has none to load: there they move HEAD, which is where the next
session starts, or write a commit that needs no loading.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents import agent_undo
from agent_kernel.agents.agent_undo import add_uncovered, operation_text, run_text
from agent_kernel.agents.event_log import EventStore, describe_temporary, steps_in
from agent_kernel.agents.events import Cancelled, Fail
from agent_kernel.agents.messages import find_stepless_runs
from agent_kernel.commands import describe
from agent_kernel.commands.describe import Block, Json, Line, Lines, Opens, Result, Table
from agent_kernel.commands.scope import Parser, Scope, UsageProblem
from agent_kernel.errors import (
    NameNotFoundError,
    NothingToUndoError,
    RefExistsError,
    RefNotFoundError,
    UnrelatedHistoriesError,
)
from agent_kernel.repository import Commit, Head, ObjectId, hex_of, person, short
from agent_kernel.session import history
from agent_kernel.session.history import by_name, changes_between, commit_in_message, ranks
from agent_kernel.session.merge import conflict_of, start
from agent_kernel.text import clean, clock, list_names, plural

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agent_kernel.errors import MergeConflictError
    from agent_kernel.records.merge import RecordMerge
    from agent_kernel.repository import Unsaved, Writer
    from agent_kernel.session import Report, Repository
    from agent_kernel.session.session import Only

_KEEP = "leave the random generators as they are"
_PARTIAL = (
    "go on without variables that cannot be loaded here. Each is replaced by a placeholder; using it raises an error. "
    "Their stored values stay, for a checkout that can load them"
)


def partial_argument(parser: Parser) -> None:
    parser.flag("--partial", help=_PARTIAL)


_ONLY: dict[str, Only] = {"": "", "vars": "vars", "chat": "chat"}


def only_argument(parser: Parser) -> None:
    parser.value(
        "--only",
        metavar="vars|chat",
        help="the variables without the conversation with agents, or the conversation without the variables",
        default="",
    )


def parse_only(options: Namespace) -> Only:
    """What `--only` says. Raises: UsageProblem: something else."""
    meant = _ONLY.get(options.only)
    if meant is None:
        raise UsageProblem(f"--only takes vars or chat, not {options.only!r}")
    return meant


@dataclass(frozen=True)
class MoveReport(Result):
    """What a verb did to the variables, or to HEAD."""

    sentence: str  # the sentence up to the counts
    commit: ObjectId | None
    branch: str | None
    report: Report | None = None
    ranks: Mapping[str, int] = field(default_factory=dict[str, int])  # of what changed
    holders: frozenset[str] = frozenset()  # of what is not saved: see `describe.holders_among`
    records: tuple[str, ...] = ()  # that changed, as `describe.changed_records` names them

    @classmethod
    def of(
        cls,
        sentence: str,
        scope: Scope,
        report: Report,
        at: ObjectId | None = None,
        *,
        before: ObjectId | None = None,
    ) -> MoveReport:
        """What a session reports.

        Args:
            at: the commit where it stands now; by default the one that it made.
            before: where it stood. Records that differ from there are named; by default those that the report names.
        """
        at = at or report.commit
        if at is None:
            return cls(sentence, at, report.branch, report)
        commit = scope.repo.commit_at(at)
        known = ranks(scope.repo, report.changed, commit)
        holders = describe.holders_among(scope.repo, commit.tree, report.unsaved)
        records = report.records if before is None else describe.changed_records(scope.repo, before, at)
        return cls(sentence, at, report.branch, report, known, holders, records)

    @property
    def unsaved(self) -> Sequence[Unsaved]:
        return self.report.unsaved if self.report is not None else ()

    def to_json(self) -> Json:
        report = self.report
        return {
            "commit": None if self.commit is None else hex_of(self.commit),
            "branch": self.branch,
            "changed": describe.changes_json(report.changed) if report else [],
            "unsaved": describe.unsaved_json(report.unsaved) if report else [],
            "notes": list(report.notes) if report else [],
        }

    def blocks(self) -> Sequence[Block]:
        if self.report is None:
            return [Line(self.sentence)]
        names = describe.change_line(self.report.changed, by_name(self.ranks))
        records = f"records {describe.records_line(self.records)}" if self.records else ""
        changed = "; ".join(filter(None, (names, records))) or "no variable changed"
        notes = [Line(clean(note)) for note in self.report.notes]
        sentence = self.sentence.removesuffix(":")  # of a cell that begins with `class P:`
        return [Line(f"{sentence}: {changed}"), *notes, *describe.unsaved_blocks(self.report.unsaved, self.holders)]


def checkout_arguments(parser: Parser) -> None:
    parser.takes(
        "rev",
        "ref",
        help="a commit, branch or tag, or - for where you were before; without one, the branch's last state",
    )
    parser.flag("--keep-random", help=_KEEP)
    parser.flag("--fresh", help="bring nothing back after a restart: the branch goes on without what is not loaded")
    partial_argument(parser)
    only_argument(parser)
    parser.names("only these variables, from REV into what you have now")


def checkout(scope: Scope, options: Namespace) -> Result:
    only = parse_only(options)
    if only and (options.fresh or options.names or options.rev is None):
        raise UsageProblem("--only goes with a commit, and with no names")
    if options.fresh:
        return _start_fresh(scope, options)
    rev = expand_dash(options.rev)
    if rev is not None and scope.branch_meant(rev) is None:
        scope.resolve(rev)  # says more of what it does not find than the session could
    if scope.session is None:
        _require_live(only)
        return _move_head(scope, rev or "HEAD", options.names)
    before = scope.session.head
    report = scope.session.checkout(
        rev, options.names, keep_random=options.keep_random, partial=options.partial, only=only
    )
    if not options.names and only != "chat":
        report = add_uncovered(scope.session, before, report)
    if only:
        sentence = "Took the conversation back to" if only == "chat" else "Took the variables back to"
        return MoveReport.of(f"{sentence} {rev}", scope, report, report.commit or scope.session.head)
    if options.names:
        names = ", ".join(options.names)
        at = scope.resolve(rev or "HEAD") if report.commit is None else report.commit
        return MoveReport.of(f"Loaded {clean(names)} of {rev or 'HEAD'}", scope, report, at)
    return _report_arrival("Checked out", scope, report, before)


def _require_live(only: Only) -> None:
    if only:
        raise UsageProblem("--only is for a running notebook")


def _start_fresh(scope: Scope, options: Namespace) -> Result:
    if options.rev is not None or options.names:
        raise UsageProblem("--fresh stands alone: it is about what a restart left unloaded")
    if scope.session is None and scope.notebook is None:
        raise UsageProblem("--fresh is for a running notebook: only there a restart leaves variables unloaded")
    report = scope.live().leave_behind()
    sentence = "Nothing to leave behind" if report.commit is None else "Started fresh"
    return MoveReport(sentence, report.commit, report.branch, report if report.commit is not None else None)


def switch_arguments(parser: Parser) -> None:
    parser.takes("branch", "branch", help="the branch to go to, or - for the one before", optional=False)
    parser.flag("-c", "--create", help="make the branch here first")
    parser.flag("--keep-random", help=_KEEP)
    partial_argument(parser)


def switch(scope: Scope, options: Namespace) -> Result:
    branch = options.branch if options.create else _branch(scope, options.branch)
    if scope.session is not None:
        before = scope.session.head
        report = scope.session.switch(
            branch, create=options.create, keep_random=options.keep_random, partial=options.partial
        )
        report = add_uncovered(scope.session, before, report)
        if options.create:
            return MoveReport(f"Switched to new branch {report.branch}", report.commit, report.branch)
        return _report_arrival(f"Switched to branch {report.branch}", scope, report, before)
    head = scope.head()
    if options.create:
        if head.commit is None:
            raise UsageProblem("the store has no commit yet that a branch could start from")
        scope.repo.create_branch(branch, head.commit)
    return _move_head(scope, branch, ())


def expand_dash(rev: str | None) -> str | None:
    """Replace `-` by the revision where you were before, as in git."""
    return "@{-1}" if rev == "-" else rev


def _branch(scope: Scope, text: str) -> str:
    """The branch that is meant.

    Raises:
        RefNotFoundError: nothing is called that.
        UsageProblem: it is a commit or a tag.
    """
    rev = expand_dash(text) or text
    branch = scope.branch_meant(rev)
    if branch is not None:
        return branch
    try:
        scope.resolve(rev)
    except RefNotFoundError as error:
        remedy = "" if error.reason else f"{scope.spell_command('switch', '-c', text)} makes a branch here"
        raise RefNotFoundError(text, error.known, error.reason, error.or_else(remedy), error.said) from None
    raise UsageProblem(f"{clean(text)} is not a branch; {scope.spell_command('checkout', text)} goes to that commit")


def _move_head(scope: Scope, rev: str, names: Sequence[str]) -> MoveReport:
    branch = scope.branch_meant(rev)
    if names:
        raise UsageProblem("there are no live variables here; single ones are checked out in a notebook")
    found, commit = scope.commit(rev if branch is None else f"refs/heads/{branch}")
    scope.repo.move_head("", Head(branch, found), f"checkout: moving to {branch or rev}")
    where = f"branch {branch}" if branch else f"no branch; {_how_to_name(scope)}"
    return MoveReport(f"HEAD is now at {history.label(found, commit)}, on {where}", found, branch)


def _how_to_name(scope: Scope) -> str:
    """How work on no branch gets a name."""
    return f"{scope.spell_command('switch', '-c', 'NAME')} starts a branch here"


def rollback_arguments(parser: Parser) -> None:
    parser.takes("rev", "ref", help="the commit to be as before", optional=False)
    parser.flag("--keep-random", help=_KEEP)
    partial_argument(parser)
    only_argument(parser)


def rollback(scope: Scope, options: Namespace) -> Result:
    found, commit = scope.commit(options.rev)
    only = parse_only(options)
    alone = {"": "", "vars": " the variables", "chat": " the conversation"}[only]
    sentence = f"Rolled back{alone} to {history.label(found, commit, longest=60)}"
    if scope.session is not None:
        before = scope.session.head
        report = scope.session.rollback(
            options.rev, keep_random=options.keep_random, partial=options.partial, only=only
        )
        if only != "chat":
            report = add_uncovered(scope.session, before, report)
        return MoveReport.of(sentence, scope, report, before=before)
    _require_live(only)
    made = _rollback_commit(scope, options.rev, found, commit)
    branch = scope.head().branch
    return MoveReport(sentence if branch else f"{sentence}, on no branch; {_how_to_name(scope)}", made, branch)


def _rollback_commit(scope: Scope, rev: str, found: ObjectId, commit: Commit) -> ObjectId:
    head = scope.head()
    if head.commit is None:
        raise UsageProblem("the store has no commit yet that could be rolled back")
    trees = [scope.repo.tree(one.tree) for one in (scope.repo.commit_at(head.commit), commit)]
    changed = changes_between(scope.repo, *trees)
    made = msgspec.structs.replace(
        commit,
        parents=(head.commit,),
        author=person(),
        time_ns=time.time_ns(),
        utc_offset_s=time.localtime().tm_gmtoff,
        message=f"roll back to {commit_in_message(found, commit, rev)}",
        kind="rollback",
        status="ok",
        cell=None,
        changed=changed,
        unsaved=(),
        labels=(),
        run="",
        step=None,
        restores=found,
        chat=None,
    )
    return scope.repo.publish(scope.repo.writer(), made, head=head, session="", message=made.message)


def _report_arrival(sentence: str, scope: Scope, report: Report, before: ObjectId | None) -> MoveReport:
    at = report.commit if report.commit is not None else scope.live().head
    if at is not None and sentence == "Checked out":
        branch = f"branch {clean(report.branch)}" if report.branch else "no branch"
        sentence = (
            f"{sentence} {history.label(at, scope.repo.commit_at(at), longest=60).removesuffix(':')}, on {branch}"
        )
    return MoveReport.of(sentence, scope, report, at, before=before)


# -- `undo` and `redo`: back and forth through what this session did


def undo_arguments(parser: Parser) -> None:
    parser.takes("count", "text", help="how many operations (default: 1)", default="1")
    partial_argument(parser)
    only_argument(parser)


def undo(scope: Scope, options: Namespace) -> Result:
    only = parse_only(options)
    if only == "chat":
        return _undo_conversation(scope, options)
    return _idle_task(scope) or _repeat("undo", scope, options, only)


def _idle_task(scope: Scope) -> Result | None:
    """What to say, once, where a task came last and ended before its first step: undo would take back what came before it."""
    session, event_store = scope.live(), EventStore(scope.repo.store)
    last = next(reversed(event_store.starts()), None)
    at = None if session.head is None else scope.repo.commit_at(session.head)
    if last is None or last.parent_run or last.run == session.passed_over or at is None or last.time_ns < at.time_ns:
        return None
    events = tuple(event_store.of(last.run))
    if steps_in(events) or not isinstance(events[-1], Fail | Cancelled):
        return None
    operation = session.next_undo
    if operation is None:
        return None
    session.passed_over = last.run
    sentence = (
        f"Nothing was undone: {run_text(event_store, last.run)} failed before its first step and changed nothing."
    )
    next_one = operation_text(scope.repo, operation, session.id)
    return Lines((sentence, f"{scope.spell_command('undo')} again takes back {next_one}"))


def redo_arguments(parser: Parser) -> None:
    parser.takes("count", "text", help="how many operations (default: 1)", default="1")
    partial_argument(parser)


def redo(scope: Scope, options: Namespace) -> Result:
    return _repeat("redo", scope, options)


def _undo_conversation(scope: Scope, options: Namespace) -> Result:
    """Take the conversation with agents back to before the last run that they remember, and leave the variables."""
    if options.count != "1":
        raise UsageProblem("--only chat goes back by one run; rollback REF --only chat goes further")
    session, event_store = scope.live(), EventStore(scope.repo.store)
    begun = find_stepless_runs(scope.repo, event_store, session.head)
    conversation = session.last_talk(begun)
    report = session.undo(only="chat", begun=begun)
    assert conversation is not None  # else there was nothing to take back
    sentence = f"The conversation went back to before {run_text(event_store, conversation.run)}"
    return MoveReport.of(sentence, scope, report)


_CHECKOUT_OF: Final = "the checkout of "


def _repeat(action: str, scope: Scope, options: Namespace, only: Only = "") -> Result:
    """Undo or redo so many operations, as far as there are any."""
    count = options.count.lstrip("0") if options.count.isascii() else ""
    if not count.isdecimal():
        raise UsageProblem(f"{action} takes a number of operations; rollback REF goes to a commit, checkout REF too")
    done: list[MoveReport] = [_once(action, scope, only, partial=options.partial)]
    for _ in range(int(count[:9]) - 1):
        try:
            done.append(_once(action, scope, only, partial=options.partial))
        except NothingToUndoError:
            return Steps(tuple(done), (Line(f"that is all there is to {action} in this session"),))
    return done[0] if len(done) == 1 else Steps(tuple(done))


def _once(action: str, scope: Scope, only: Only, *, partial: bool) -> MoveReport:
    session = scope.live()
    before, absent = session.head, set(session.carried())
    brings_back = action == "redo" and session.next_redo is session.next_undo
    report = session.undo(partial=partial, only=only) if action == "undo" else session.redo(partial=partial)
    # Asked for afterwards: what no cell had committed became an operation of its own first.
    what = session.next_redo if action == "undo" else session.next_undo
    sentence = "Undone" if action == "undo" else "Done again"
    at = report.commit if report.commit is not None else session.head
    if brings_back or (what is not None and what.chat):
        where = "went back again" if action == "redo" and not brings_back else _describe_conversation(scope)
        return MoveReport.of(f"The conversation {where}", scope, report, at)
    found = agent_undo.compare_steps(scope.repo, before, session.head)
    about = "" if what is None else operation_text(scope.repo, what, scope.live().id)
    if what is not None and what.run:
        part, stays = _part_of_run(scope, what.run, found.removed if action == "undo" else found.added)
        about = f"{part}{about}"
        if stays and action == "undo":
            report = msgspec.structs.replace(report, notes=(*report.notes, stays))
    not_loaded = [name for name in session.carried() if name not in absent]
    if not_loaded:
        report = msgspec.structs.replace(report, notes=(*report.notes, _out_of_memory(scope, not_loaded)))
    sentence = f"C{about[5:]} {sentence.lower()}" if about.startswith(_CHECKOUT_OF) else f"{sentence} {about}".rstrip()
    if what is not None and what.moved and only == "vars":
        sentence = f"The variables went back to before {about}, and HEAD stays there"
    return MoveReport.of(sentence, scope, add_uncovered(session, before, report, found), at, before=before)


def _out_of_memory(scope: Scope, names: Sequence[str]) -> str:
    are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    return f"{list_names(names)} {are} out of memory again, as after the restart: {scope.spell_command('checkout')} brings {them} back"


def _describe_conversation(scope: Scope) -> str:
    """Where the conversation is that came back: it may have been taken back further, and more than once."""
    session, event_store = scope.live(), EventStore(scope.repo.store)
    if session.next_undo is None or not session.next_undo.chat:
        return "is back where it was"
    conversation = session.last_talk(find_stepless_runs(scope.repo, event_store, session.head))
    return "is back by one run" if conversation is None else f"is back up to {run_text(event_store, conversation.run)}"


def _part_of_run(scope: Scope, run: str, found: Mapping[str, set[int]]) -> tuple[str, str]:
    """`step 3 of `, where other steps of the run are not part of this, and what is to be said of those before it."""
    steps = found.get(run, set())
    events = list(EventStore(scope.repo.store).of(run))
    others = agent_undo.find_committed_steps(events) - steps
    if not steps or not others:
        return "", ""
    before = {step for step in others if step < min(steps)}
    begun = next((event.before for event in events if event.step in before and event.before), "")
    back = f": {scope.spell_command('rollback', begun[:8])} goes back to before the run" if begun else ""
    stays = (
        f"{agent_undo.describe_step_numbers(before)} of the run came before other work, and so stayed{back}"
        if before
        else ""
    )
    return f"{agent_undo.describe_step_numbers(steps)} of ", stays


@dataclass(frozen=True)
class Steps(Result):
    """Several operations, one after the other."""

    each: tuple[MoveReport, ...]
    last: tuple[Line, ...] = ()

    @property
    def unsaved(self) -> Sequence[Unsaved]:
        return [unsaved for one in self.each for unsaved in one.unsaved]

    def to_json(self) -> Json:
        return [one.to_json() for one in self.each]

    def blocks(self) -> Sequence[Block]:
        return [*(block for one in self.each for block in one.blocks()), *self.last]


# -- `merge`: three-way, variable by variable. On a store alone, whole entries are taken and nothing is loaded


def merge_arguments(parser: Parser) -> None:
    parser.takes(
        "rev",
        "ref",
        help="the branch, tag or commit to merge into where you are, or - for the branch before",
        optional=False,
    )
    parser.several("--ours", help="keep what you have of these variables")
    parser.several("--theirs", help="take these variables from REV")
    parser.value("-m", "--message", metavar="TEXT", help="message of the merge commit", default="")
    partial_argument(parser)
    parser.explains(
        "A variable that one side changed is taken from that side. Of dicts that both changed, each key is taken so, in a\n"
        "notebook; --ours and --theirs settle the keys that clash, and other variables as a whole, as git's -X does. On\n"
        "the command line nothing is loaded, so dicts too are kept or taken as a whole. Variables that share objects are\n"
        "one value, taken from one side: a choice for one of them is for all. A variable that only one side created stays."
    )


def merge(scope: Scope, options: Namespace) -> Result:
    both = set(options.ours) & set(options.theirs)
    if both:
        raise UsageProblem(f"{', '.join(sorted(both))}: either --ours or --theirs")
    rev = expand_dash(options.rev) or options.rev
    options.rev = scope.branch_meant(rev) or rev
    found, commit = scope.commit(options.rev)
    head = scope.head().commit
    if head is not None:
        begin = start(scope.repo, head, found)
        _check_names(scope.repo, begin.base, (head, found), (*options.ours, *options.theirs))
        if begin.up_to_date:
            return MoveReport(f"Already up to date with {clean(options.rev)}", head, scope.head().branch)
    sentence = f"Merged {history.label(found, commit, longest=60)}"
    if scope.session is not None:
        report = scope.session.merge(
            options.rev,
            ours=set(options.ours),
            theirs=set(options.theirs),
            message=options.message,
            partial=options.partial,
        )
        return MoveReport.of(sentence, scope, report, before=head)
    return _merge_stored(scope, found, options, sentence)


@dataclass(frozen=True)
class ToChoose(Result):
    """A merge or a cherry-pick that waits for a choice: in a panel, or in words as it stays in the notebook's file, without values."""

    conflict: MergeConflictError

    @property
    def ok(self) -> bool:
        return False

    @property
    def opens(self) -> Opens:
        return Opens(conflict=self.conflict)

    def to_json(self) -> Json:
        return {"merges": self.conflict.rev, "names": list(dict.fromkeys(self.conflict.variables))}

    def blocks(self) -> Sequence[Block]:
        names = [clean(name) for name in dict.fromkeys(self.conflict.variables)]
        rev = clean(self.conflict.rev)
        way, done = f"%agent merge {rev} --ours NAME --theirs NAME", "merged"
        if self.conflict.picks:
            done = "cherry-picked"
            way = f"ak.here().session.cherry_pick({rev!r}, ours=[…], theirs=[…])"
        return [
            Line(f"Both {rev} and your current state changed {', '.join(names)}. Nothing was {done}."),
            Line(f"Choose: {way}"),
        ]


def _check_names(
    repo: Repository, base: ObjectId | None, sides: tuple[ObjectId, ObjectId], names: Iterable[str]
) -> None:
    ours, theirs = sides
    commits = [repo.commit_at(at) for at in sides]
    unknown = [name for name in names if not any(name in repo.tree(commit.tree) for commit in commits)]
    if unknown and base is not None:  # records have names too, where both sides changed them
        records = _merge_records(repo, repo.writer(), base, ours, theirs)
        unknown = [name for name in unknown if records is None or name not in records.names]
    for name in unknown:
        raise NameNotFoundError(name, "either side", describe.names_close_to(repo, commits[1], name))


def _merge_records(
    repo: Repository, writer: Writer, base: ObjectId, ours: ObjectId, theirs: ObjectId, **choices: Collection[str]
) -> RecordMerge | None:
    if repo.commit_at(theirs).records is None:
        return None
    from agent_kernel.records.merge import merge_records

    return merge_records(repo, writer, base, ours, theirs, **choices)


def _merge_stored(scope: Scope, theirs: ObjectId, options: Namespace, sentence: str) -> MoveReport:
    head = scope.head()
    if head.commit is None:
        raise UsageProblem("the store has no commit yet that could be merged into")
    begin = start(scope.repo, head.commit, theirs)
    if begin.fast_forward and head.branch:
        scope.repo.move_branch(head.branch, theirs, f"merge {options.rev}: fast-forward", head.commit)
        scope.repo.move_head("", Head(head.branch, theirs), f"merge {options.rev}: fast-forward")
        return MoveReport(f"Fast-forwarded to {short(theirs)}", theirs, head.branch)
    return MoveReport(sentence, _commit_merge(scope, head, begin.base, theirs, options), head.branch)


def _commit_merge(scope: Scope, head: Head, base: ObjectId | None, theirs: ObjectId, options: Namespace) -> ObjectId:
    repo, ours = scope.repo, head.commit
    if ours is None:
        raise UsageProblem("the store has no commit yet that could be merged into")
    if base is None:
        raise UnrelatedHistoriesError(short(ours), short(theirs))
    writer = repo.writer()
    records = _merge_records(repo, writer, base, ours, theirs, choose_ours=options.ours, choose_theirs=options.theirs)
    mine, other = set(options.ours), set(options.theirs)
    if records is not None:
        mine, other = mine - records.names, other - records.names
    trees = [repo.tree_at(at) for at in (base, ours, theirs)]
    merged = repo.merge_trees(*trees, choose_ours=mine, choose_theirs=other)
    if merged.conflicts:
        conflict = conflict_of(repo, merged.conflicts)
        conflict.conflicts += () if records is None else records.rows
        raise conflict
    if records is not None:
        records.require_no_conflict()
    tree = repo.tree_at(ours).edit(writer, merged.changes)
    now = repo.commit_at(ours)
    made = Commit(
        tree=tree.id,
        parents=(ours, theirs),
        author=person(),
        time_ns=time.time_ns(),
        utc_offset_s=time.localtime().tm_gmtoff,
        message=options.message or f"merge {options.rev}",
        kind="merge",
        changed=changes_between(repo, repo.tree_at(ours), tree),
        records=now.records if records is None else records.root,
        recent=now.recent if records is None else (),
        random=now.random,
        environment=now.environment,
    )
    return repo.publish(writer, made, head=head, session="", message=made.message)


# -- `branch` and `tag`: the names that commits go by

_FORCE = "move the {} there is"


def branch_arguments(parser: Parser) -> None:
    parser.takes("name", "branch", help="the branch; without one, list them all")
    parser.takes("at", "ref", help="where a new branch starts (default: HEAD); with -m, the new name")
    parser.flag("-a", "--all", help="list also what agents have for a while: candidates, steps on forks, sub-agents")
    one = parser.one_of()
    parser.flag("-d", "--delete", help="delete the branch, if other refs reach its commits", group=one)
    parser.flag("-D", "--delete-anyway", help="delete it even if they do not", group=one)
    parser.flag("-m", "--move", help="rename: -m OLD NEW, or -m NEW for the branch you are on", group=one)
    parser.flag("-f", "--force", help=_FORCE.format("branch"), group=one)
    parser.flag("--release", help="free a branch that a process on another machine left behind", group=one)


def branch(scope: Scope, options: Namespace) -> Result:
    name: str | None = options.name
    if name is None:
        if options.delete or options.delete_anyway or options.move or options.force or options.release:
            raise UsageProblem("say which branch")
        return _branches(scope, is_all=options.all)
    if options.all:
        raise UsageProblem("--all lists branches, so it takes no name")
    if options.release:
        return _release(scope, name)
    if options.delete or options.delete_anyway:
        return _delete_branch(scope, name, options)
    if options.move:
        return _rename(scope, name, options.at)
    if options.force and name == scope.head().branch:
        raise UsageProblem(f"you are on branch {name}: rollback takes it to another state")
    if not options.force and name in scope.repo.branches():
        raise RefExistsError(name, _remedy(scope, "branch", options))
    at, commit = scope.commit(options.at or "HEAD")
    scope.repo.create_branch(name, at, force=options.force)
    return Lines(
        (f"Branch {name} starts at {history.label(at, commit, longest=60)}",), {"branch": name, "commit": hex_of(at)}
    )


def _remedy(scope: Scope, command: str, options: Namespace) -> str:
    at = [options.at] if options.at else []
    return f"choose another name, or move it with {scope.spell_command(command, '-f', options.name, *at)}"


def _delete_branch(scope: Scope, name: str, options: Namespace) -> Lines:
    if options.at is not None:
        raise UsageProblem("one branch at a time")
    if name == scope.head().branch:
        raise UsageProblem(f"you are on branch {name}; switch to another one first")
    at = scope.repo.branches().get(name)
    scope.repo.delete_branch(name, force=options.delete_anyway)
    return Lines((f"Deleted branch {name} (was {short(at) if at else '?'})",), {"deleted": name})


def _release(scope: Scope, name: str) -> Lines:
    holder = scope.repo.take_lease_away(name)
    if holder is None:
        return Lines((f"Nobody uses branch {name}",), {"branch": name, "was_used_by": None})
    return Lines((f"Branch {name} is free; {holder} used it",), {"branch": name, "was_used_by": str(holder)})


def _rename(scope: Scope, name: str, new: str | None) -> Lines:
    old = name if new is not None else scope.head().branch
    if old is None:
        raise UsageProblem("you are on no branch; say -m OLD NEW")
    if scope.session is not None and old == scope.session.branch:
        scope.session.rename_branch(new or name)
    else:
        scope.repo.rename_branch(old, new or name)
    return Lines((f"Renamed branch {old} to {new or name}",), {"branch": new or name, "was": old})


def _branches(scope: Scope, *, is_all: bool) -> RefList:
    head = scope.head()
    agent_branches = describe_temporary(scope.repo, EventStore(scope.repo.store))
    found = [_row(scope, name, at, name == head.branch) for name, at in sorted(scope.repo.branches().items())]
    rows = [row for row in found if row.name not in agent_branches or row.current]
    if head.branch is None and head.commit is not None:
        rows.insert(0, _row(scope, "(no branch)", head.commit, True))
    by_agents = tuple(
        (agent_branches[row.name], row) for row in found if row.name in agent_branches and not row.current
    )
    return RefList(
        "branch", tuple(rows), by_agents, scope.spell_command("branch", "--all") if by_agents and not is_all else ""
    )


def tag_arguments(parser: Parser) -> None:
    parser.takes("name", "tag", help="the tag; without one, list them all")
    parser.takes("at", "ref", help="the commit to tag (default: HEAD)")
    one = parser.one_of()
    parser.flag("-d", "--delete", help="delete the tag; its commit stays", group=one)
    parser.flag("-f", "--force", help=_FORCE.format("tag"), group=one)


def tag(scope: Scope, options: Namespace) -> Result:
    name: str | None = options.name
    if name is None:
        if options.delete or options.force:
            raise UsageProblem("say which tag")
        return RefList("tag", tuple(_row(scope, one, at) for one, at in sorted(scope.repo.tags().items())))
    if options.delete:
        if options.at is not None:
            raise UsageProblem("one tag at a time")
        scope.repo.delete_tag(name)
        return Lines((f"Deleted tag {name}",), {"deleted": name})
    was = scope.repo.tags().get(name)
    at, commit = scope.commit(options.at or "HEAD")
    if was == at:
        return Lines(
            (f"{history.label(at, commit, longest=60)} is tagged as {name} already",),
            {"tag": name, "commit": hex_of(at)},
        )
    # A notebook is run from its top again: its line means the state that is there now, and no other one.
    is_again = scope.session is not None and options.at is None
    if was is not None and not options.force and not is_again:
        raise RefExistsError(name, _remedy(scope, "tag", options))
    scope.repo.create_tag(name, at, force=options.force or is_again)
    moved = f" (was {history.label(was, scope.repo.commit_at(was), longest=60)})" if was is not None else ""
    now = history.label(at, commit, longest=60)
    lines = [f"Tagged {now} as {name}" if was is None else f"Moved the tag {name} to {now}{moved}"]
    if name in scope.repo.branches():
        lines.append(f"There is a branch {name} too: as a ref, {name} now is the tag, and heads/{name} the branch")
    return Lines(tuple(lines), {"tag": name, "commit": hex_of(at)})


@dataclass(frozen=True)
class RefRow:
    """One branch or tag."""

    name: str
    commit: ObjectId
    title: str
    when: str
    current: bool = False
    holder: str = ""  # the living process that writes to it


def _row(scope: Scope, name: str, at: ObjectId, current: bool = False) -> RefRow:
    commit = scope.repo.commit_at(at)
    holder = scope.repo.lease_of(name)
    used = holder is not None and holder.is_alive(scope.repo.store) and not current
    title = " ".join(part for part in (history.prompt(commit), history.title(commit)) if part)
    return RefRow(name, at, title, clock(commit.time_ns, scope.now_ns), current, str(holder) if used else "")


@dataclass(frozen=True)
class RefList(Result):
    """Branches or tags in the order of their names. `by_agents`: those that agents have for a while, in words; see `asides`.

    `hidden`: these are only counted, and this lists them.
    """

    kind: str
    rows: tuple[RefRow, ...]
    by_agents: tuple[tuple[str, RefRow], ...] = ()
    hidden: str = ""

    def to_json(self) -> Json:
        return [
            *(_facts(row) for row in self.rows),
            *({**_facts(row), "aside": aside} for aside, row in self.by_agents),
        ]

    def blocks(self) -> Sequence[Block]:
        if not self.rows and not self.by_agents:
            return [Line(f"There is no {self.kind} yet.")]
        found: list[Block] = [Table(("", "", "", "", "", ""), tuple(map(_cells, self.rows)), flexible=3)]
        if self.hidden:
            return [
                *found,
                Line(
                    f"and {plural(len(self.by_agents), 'branch', 'branches')} that agents have for a while: {self.hidden}"
                ),
            ]
        if self.by_agents:
            rows = tuple((*_cells(row), clean(label)) for label, row in self.by_agents)
            found += [Line("That agents have for a while:"), Table(("",) * 7, rows, flexible=3)]
        return found


def _facts(row: RefRow) -> dict[str, Json]:
    return {"name": row.name, "commit": hex_of(row.commit), "current": row.current, "in_use_by": row.holder}


def _cells(row: RefRow) -> tuple[str, ...]:
    used = f"in use by {clean(row.holder)}" if row.holder else ""
    return "*" if row.current else " ", clean(row.name), short(row.commit), row.title, row.when, used
