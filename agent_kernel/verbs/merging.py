"""`merge`: three-way, variable by variable. On a store alone, whole entries are taken and nothing is loaded."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_kernel.errors import NameNotFoundError, UnrelatedHistoriesError
from agent_kernel.repository import Commit, Head, ObjectId, short
from agent_kernel.session.branches import person
from agent_kernel.session.history import changes_between
from agent_kernel.session.merging import conflict_of, start
from agent_kernel.verbs import describe
from agent_kernel.verbs.moving import Moved, partial_argument, spelled_out
from agent_kernel.verbs.output import Block, Json, Line, Opens, Result
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterable, Sequence

    from agent_kernel.errors import MergeConflictError
    from agent_kernel.session import Repository

__all__ = ["ToChoose", "merge", "merge_arguments"]


def merge_arguments(parser: Parser) -> None:
    parser.takes(
        "rev",
        "ref",
        help="the branch, tag or commit to merge into where you are, or - for the branch before",
        optional=False,
    )
    parser.several("--ours", metavar="NAME", help="keep what you have of these variables", kind="name")
    parser.several("--theirs", metavar="NAME", help="take these variables from REV", kind="name")
    parser.value("-m", "--message", metavar="TEXT", help="message of the merge commit", default="")
    partial_argument(parser)
    parser.explains(
        "A variable that one side changed is taken from that side. Of dicts that both changed, each key is taken so, in a\n"
        "notebook; --ours and --theirs settle the keys that clash, and other variables as a whole, as git's -X does. On\n"
        "the command line nothing is loaded, so dicts too are kept or taken as a whole. Variables that share objects are\n"
        "one value, taken from one side: a choice for one of them is for all."
    )


def merge(scope: Scope, options: Namespace) -> Result:
    both = set(options.ours) & set(options.theirs)
    if both:
        raise UsageProblem(f"{', '.join(sorted(both))}: either --ours or --theirs")
    rev = spelled_out(options.rev) or options.rev
    options.rev = scope.branch_meant(rev) or rev
    found, commit = scope.commit(options.rev)
    head = scope.head().commit
    if head is not None:
        _check_names(scope.repo, head, found, (*options.ours, *options.theirs))
        if start(scope.repo, head, found).up_to_date:
            return Moved(f"Already up to date with {clean(options.rev)}", head, scope.head().branch)
    said = f"Merged {describe.label(found, commit)}"
    if scope.session is not None:
        report = scope.session.merge(
            options.rev,
            ours=set(options.ours),
            theirs=set(options.theirs),
            message=options.message,
            partial=options.partial,
        )
        return Moved.of(said, scope, report)
    return _merge_stored(scope, found, options, said)


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


def _check_names(repo: Repository, ours: ObjectId, theirs: ObjectId, names: Iterable[str]) -> None:
    sides = [repo.commit_at(at) for at in (ours, theirs)]
    for name in names:
        if not any(name in repo.tree(commit.tree) for commit in sides):
            raise NameNotFoundError(name, "either side", describe.names_close_to(repo, sides[1], name))


def _merge_stored(scope: Scope, theirs: ObjectId, options: Namespace, said: str) -> Moved:
    head = scope.head()
    if head.commit is None:
        raise UsageProblem("the store has no commit yet that could be merged into")
    begin = start(scope.repo, head.commit, theirs)
    if begin.fast_forward and head.branch:
        scope.repo.move_branch(head.branch, theirs, f"merge {options.rev}: fast-forward", head.commit)
        scope.repo.move_head("", Head(head.branch, theirs), f"merge {options.rev}: fast-forward")
        return Moved(f"Fast-forwarded to {short(theirs)}", theirs, head.branch)
    return Moved(said, _commit_merge(scope, head, begin.base, theirs, options), head.branch)


def _commit_merge(scope: Scope, head: Head, base: ObjectId | None, theirs: ObjectId, options: Namespace) -> ObjectId:
    repo, ours = scope.repo, head.commit
    if ours is None:
        raise UsageProblem("the store has no commit yet that could be merged into")
    if base is None:
        raise UnrelatedHistoriesError(short(ours), short(theirs))
    trees = [repo.tree_at(at) for at in (base, ours, theirs)]
    merged = repo.merge_trees(*trees, choose_ours=options.ours, choose_theirs=options.theirs)
    if merged.conflicts:
        raise conflict_of(repo, merged.conflicts)
    writer = repo.writer()
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
        random=now.random,
        environment=now.environment,
    )
    return repo.publish(writer, made, head=head, session="", message=made.message)
