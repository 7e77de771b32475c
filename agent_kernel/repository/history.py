"""Walks over commits.

A commit is always younger than its parents (publishing sees to it), so going back in order of time never shows a
parent before a child and needs no look at the whole history. The searches below are git's.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from agent_kernel.repository.commits import Commit, Kind, ObjectId, decode_commit
from agent_kernel.repository.tree import Tree

if TYPE_CHECKING:
    from agent_kernel.repository.objects import Objects

_OURS, _THEIRS, _STALE = 1, 2, 4


class History:
    """The commits of one store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def commit(self, id: ObjectId) -> Commit:
        return self._objects.load(Kind.COMMIT, id, decode_commit)

    def walk(self, starts: Iterable[ObjectId], *, first_parent: bool = False) -> Iterator[tuple[ObjectId, Commit]]:
        """All commits that the starts reach, newest first."""
        queue = _Queue(self, starts)
        while queue:
            id, commit = queue.pop()
            yield id, commit
            queue.push(commit.parents[:1] if first_parent else commit.parents)

    def walk_of_name(self, start: ObjectId, name: str) -> Iterator[tuple[ObjectId, Commit]]:
        """Only the commits that changed one name. A merge that took it from one side is passed over to that side."""
        queue = _Queue(self, [start])
        while queue:
            id, commit = queue.pop()
            mine = self._row(commit, name)
            parents = [(parent, self.commit(parent)) for parent in commit.parents]
            same = next((parent for parent, before in parents if self._row(before, name) == mine), None)
            if same is not None:
                queue.push([same])
                continue
            if parents or mine is not None:
                yield id, commit
            queue.push(commit.parents)

    def merge_bases(self, ours: ObjectId, theirs: ObjectId) -> list[ObjectId]:
        """The best common ancestors, newest first: those that no other common ancestor reaches."""
        if ours == theirs:
            return [ours]
        marks = {ours: _OURS, theirs: _THEIRS}
        queue = _Queue(self, [ours, theirs])
        waiting = {ours, theirs}  # in the queue and not stale
        found: list[ObjectId] = []
        while waiting:
            id, commit = queue.pop()
            waiting.discard(id)
            mark = marks[id]
            if mark == _OURS | _THEIRS:
                found.append(id)
                mark |= _STALE
            for parent in commit.parents:
                seen = marks.get(parent, 0)
                marks[parent] = seen | mark
                if (seen | mark) & _STALE:
                    waiting.discard(parent)
                elif parent not in queue.visited:
                    waiting.add(parent)
            queue.push(commit.parents)
        return [id for id in found if not marks[id] & _STALE]

    def is_ancestor(self, older: ObjectId, newer: ObjectId) -> bool:
        """Whether `newer` reaches `older`; a commit is its own ancestor."""
        return any(id == older for id in self._since(newer, self.commit(older).time_ns))

    def missing_from(self, start: ObjectId, others: Iterable[ObjectId]) -> list[ObjectId]:
        """Commits that `start` reaches and none of the others does, newest first."""
        marks = dict.fromkeys(others, _THEIRS)
        if start in marks:
            return []
        queue = _Queue(self, [start, *marks])
        marks[start] = _OURS
        waiting = {start}
        found: list[ObjectId] = []
        while waiting:
            id, commit = queue.pop()
            waiting.discard(id)
            if marks[id] == _OURS:
                found.append(id)
            for parent in commit.parents:
                marks[parent] = marks.get(parent, 0) | marks[id]
                if marks[parent] & _THEIRS:
                    waiting.discard(parent)
                else:
                    waiting.add(parent)
            queue.push(commit.parents)
        return found

    def _since(self, start: ObjectId, oldest_ns: int) -> Iterator[ObjectId]:
        queue = _Queue(self, [start])
        while queue:
            id, commit = queue.pop()
            yield id
            if commit.time_ns > oldest_ns:
                queue.push(commit.parents)

    def _row(self, commit: Commit, name: str) -> bytes | None:
        return Tree(self._objects, commit.tree).row(name)


class _Queue:
    """Commits still to visit, youngest first, each once."""

    def __init__(self, history: History, starts: Iterable[ObjectId]) -> None:
        self._history = history
        self._heap: list[tuple[int, ObjectId]] = []
        self._commits: dict[ObjectId, Commit] = {}
        self._met: set[ObjectId] = set()
        self.visited: set[ObjectId] = set()
        self.push(starts)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def push(self, ids: Iterable[ObjectId]) -> None:
        for id in ids:
            if id not in self._met:
                self._met.add(id)
                commit = self._commits[id] = self._history.commit(id)
                heapq.heappush(self._heap, (-commit.time_ns, id))

    def pop(self) -> tuple[ObjectId, Commit]:
        _, id = heapq.heappop(self._heap)
        self.visited.add(id)
        return id, self._commits.pop(id)
