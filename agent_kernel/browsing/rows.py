"""What the rows of a list say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from agent_kernel.browsing.answers import CommitRow, DayRow, FoldRow, Graph, Ref, Row
from agent_kernel.browsing.book import Book, Spread
from agent_kernel.browsing.chips import chips_of, counts_of
from agent_kernel.browsing.listing import Fold, Item, Listing
from agent_kernel.browsing.runs import run_row, stopped_row, wait_row
from agent_kernel.browsing.wording import cleaned, prompts, step_called, subject_of
from agent_kernel.repository import Commit, ObjectId, hex_of, short
from agent_kernel.session.labels import prompt, shown
from agent_kernel.verbs.describe import by_name, ranks_of
from agent_kernel.verbs.text import plural

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["node_of", "row_of", "why"]


def row_of(book: Book, listing: Listing, item: Item, spread: Spread) -> Row:
    """One row."""
    graph = listing.graph(item, spread.colours)
    if item.record is not None:
        return _commit_row(book, item, item.record.id, spread.refs.get(item.record.id, ()), graph)
    if item.stopped:
        return stopped_row(book, item.stopped, graph)
    if item.waits:
        return wait_row(book, item.waits, spread.waiting[item.waits], graph, depth=int(item.fold is not None))
    if item.fold is None:
        return DayRow(item.day, graph, item.text)
    if item.fold.why == "run":
        return run_row(book, item.fold, spread, graph)
    return _fold_row(book.repo, item.fold, graph)


def _commit_row(book: Book, item: Item, id: ObjectId, refs: tuple[Ref, ...], graph: Graph) -> CommitRow:
    commit = book.repo.commit_at(id)
    subject, code = subject_of(commit)
    chips, more = chips_of((commit.changed, commit.unsaved), by_name(ranks_of(book.repo, commit)))
    return CommitRow(
        id=hex_of(id),
        short=short(id),
        depth=_depth(item, commit),
        prompt=f".{commit.step}" if item.fold is not None and commit.run and commit.step else prompt(commit),
        subject=subject,
        is_code=code,
        author=book.author(commit),
        node=node_of(commit),
        run=commit.run,
        why=why(commit),
        refs=refs,
        chips=chips,
        more=more,
        counts=counts_of((commit.changed, commit.unsaved)),
        took_s=commit.cell.duration_s if commit.cell is not None else None,
        time_ms=commit.time_ns // 1_000_000,
        graph=graph,
        called=step_called(commit),
    )


def _depth(item: Item, commit: Commit) -> int:
    """How deep it stands: a step of a sub-agent stands below those of the run that it works for."""
    if item.fold is None:
        return 0
    return 2 if item.fold.run and commit.run != item.fold.run else 1


def _fold_row(repo: Repository, fold: Fold, graph: Graph) -> FoldRow:
    commits = [repo.commit_at(record.id) for record in fold.members]
    nothing = fold.why == "nothing"
    return FoldRow(
        id=fold.id,
        why="nothing" if nothing else "repeated",
        n=len(commits),
        matching=fold.matching,
        prompt=prompts(commits[0], commits[-1]),
        subject=f"{plural(len(commits), 'cell')} that changed nothing" if nothing else subject_of(commits[0])[0],
        unfolded=fold.is_open,
        took_s=sum(commit.cell.duration_s for commit in commits if commit.cell is not None),
        time_ms=commits[0].time_ns // 1_000_000,
        graph=graph,
    )


def node_of(commit: Commit) -> Literal["cell", "agent", "merge", "failed", "interrupted"]:
    """The shape of its node: how it ended goes first, then what it is."""
    if commit.status == "interrupted":
        return "interrupted"
    if commit.status != "ok":
        return "failed"
    if len(commit.parents) > 1:
        return "merge"
    return "agent" if commit.author.kind == "agent" else "cell"


def why(commit: Commit) -> str:
    """Why its cell did not end well."""
    if commit.status == "ok":
        return ""
    cell = shown(commit).cell
    error = cell.error if cell is not None else ""
    return "interrupted" if commit.status == "interrupted" else cleaned(error, 200) or "failed"
