"""A long history to look at, made without running its cells, and a reader that is timed on it.

A workload's cells call these functions, so that what they work on stays out of the namespace that is committed.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

from agent_kernel.repository import Author, Cell, Change, Commit, Entry, Kind, Manifest, ObjectId, encode
from agent_kernel.session import Repository
from agent_kernel.values import previews

_SIDES = 11  # branches beside main
_NAMES = 40
_START_NS = 1_790_000_000_000_000_000


class _Study:
    """The store that is looked at, who looks, and how long the last answer was."""

    place = Path()
    repo: Repository | None = None
    reader: Any = None
    answered = 0


_study = _Study()


def build(commits: int) -> None:
    """A store of this many commits, in a temporary folder."""
    _study.place = Path(tempfile.mkdtemp(prefix="agent-kernel-history-"))
    build_at(_study.place / "store", commits)


def build_at(place: Path, commits: int) -> None:
    """A store of this many commits on a dozen branches, with merges, failures, and cells that were run again."""
    chance = random.Random(1)
    repo = Repository.open(place)
    writer = repo.writer()
    tips: dict[str, ObjectId] = {}
    trees: dict[str, Any] = {}
    branch, now = "main", _START_NS
    for number in range(commits):
        now += chance.randint(10, 600) * 1_000_000_000
        if number and chance.random() < 0.05:
            branch, before = chance.choice(["main", *(f"side-{side}" for side in range(_SIDES))]), branch
            if branch not in tips:
                tips[branch], trees[branch] = tips[before], trees[before]
        other = chance.choice([*tips]) if len(tips) > 1 and chance.random() < 0.01 else branch
        name = f"name_{chance.randrange(_NAMES)}"
        tree = trees.get(branch, repo.tree(None))
        changes = chance.random() > 0.15
        if changes:
            tree = tree.edit(writer, {name: _entry(number)})
        parents = tuple(dict.fromkeys(tips[one] for one in (branch, other) if one in tips))
        commit = Commit(
            tree=tree.id,
            parents=parents,
            author=Author("someone"),
            time_ns=now,
            message=f"merge {other}" if len(parents) > 1 else "",
            kind="merge" if len(parents) > 1 else "cell",
            status="failed" if chance.random() < 0.02 else "ok",
            cell=_cell(chance, number, name),
            changed=(Change(name, "~", number),) if changes else (),
        )
        tips[branch] = writer.add(Kind.COMMIT, encode(commit))
        trees[branch] = tree
        if number % 500 == 0:
            writer.flush()
    writer.flush()
    for name, at in tips.items():
        repo.create_branch(name, at)
    repo.close()


def _entry(number: int) -> Entry:
    preview = previews.encode(previews.make_preview(list(range(number % 100))))
    return Entry(encode(Manifest(size=number)), preview=preview)


def _cell(chance: random.Random, number: int, name: str) -> Cell:
    lines = [f"# step {number}"] if number % 3 == 0 else []
    lines += [f"{name} = compute({number}, alpha={chance.random():.3f})"]
    lines += ["result = fit(model, table, folds=10)"] * chance.randint(0, 8)
    return Cell("\n".join(lines), id=f"cell-{number % 300}", number=number, duration_s=chance.random())


def reopen() -> None:
    """The store as a process finds it that has read nothing of it yet."""
    from agent_kernel.queries.reader import QUESTIONS, Reader

    for question in QUESTIONS.values():  # the modules that answer are loaded before
        import_module(f"agent_kernel.queries.{question.module}")
    if _study.repo is not None:
        _study.repo.close()
    _study.repo = Repository.open(_study.place / "store", create=False)
    _study.reader = Reader(_study.repo)


def ask(op: str, **args: object) -> None:
    """Ask, and remember how long the answer is."""
    answer = _study.reader.ask(op, {name.rstrip("_"): value for name, value in args.items()})
    _study.answered = len(json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode())


def answered_bytes() -> int:
    """Bytes of the last answer."""
    return _study.answered


def commit_one() -> None:
    """Somebody adds a commit."""
    repo = _study.repo
    assert repo is not None
    tip = repo.branches()["main"]
    writer = repo.writer()
    before = repo.commit_at(tip)
    commit = Commit(tree=before.tree, parents=(tip,), author=Author("someone"), time_ns=before.time_ns + 1)
    repo.publish(writer, commit, head=repo.head(), session="", message="one more")


def close() -> None:
    """Remove the store."""
    if _study.repo is not None:
        _study.repo.close()
    shutil.rmtree(_study.place, ignore_errors=True)
