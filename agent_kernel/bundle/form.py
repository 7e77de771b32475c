"""Whether all that a history holds has the form that its readers expect.

That an object matches its id says who names it, and nothing of what is in it. Each is decoded once, as what refers to it would
decode it, so that nobody meets what cannot be read after the bundle was called sound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import isfinite
from typing import Final, TypeVar

import msgspec

from agent_kernel.agents.events import decode_event
from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository import Commit, Kind, ObjectId
from agent_kernel.repository.blobs import ListNode, decode_list
from agent_kernel.repository.commits import ID_SIZE, decode_commit, decode_entry, kind_of, summary_id
from agent_kernel.repository.objects import make_damaged_error
from agent_kernel.repository.runs import EVENTS
from agent_kernel.repository.tree import Inner, Node, decode_node, level_of
from agent_kernel.session import Repository
from agent_kernel.session.environment import decode_environment
from agent_kernel.session.notebooks import decode_cell, decode_page
from agent_kernel.values import summaries

__all__ = ["check_form"]

_BATCH: Final = 256
_MOST_LEVELS: Final = 40  # of a tree or a list: each has many times what the one below has
_END_OF_TIME_NS: Final = 253_370_764_800 * 1_000_000_000  # the year 9999 begins
_DAY_S: Final = 86_400
_LONGEST_S: Final = 1e10  # that a cell can have taken


def check_form(repo: Repository, keys: Iterable[bytes]) -> None:
    """Decode all objects of a history, and its events.

    Args:
        keys: of all objects.

    Raises:
        DamagedObjectError: one is not in its form.
    """
    found: dict[bytes, list[bytes]] = {}
    for key in keys:
        found.setdefault(kind_of(key), []).append(key)
    small: dict[bytes, Callable[[bytes], object]] = {}
    documents: list[bytes] = []
    for key, payload in _payloads(repo, found.get(Kind.COMMIT, ())):
        commit = _read(key, payload, decode_commit)
        _check_commit(key, commit)
        small |= {Kind.SMALL + id: decode for id, decode in _small_of(commit)}
        if commit.document is not None and commit.document.cells is not None:
            documents.append(Kind.LIST + commit.document.cells)
    nodes = {key: _read(key, payload, decode_node) for key, payload in _payloads(repo, found.get(Kind.TREE, ()))}
    for key, node in nodes.items():
        small |= dict.fromkeys(_check_node(key, node, nodes), summaries.decode)
    lists = {key: _read(key, payload, decode_list) for key, payload in _payloads(repo, found.get(Kind.LIST, ()))}
    for key, listed in lists.items():
        _check_list(key, listed, lists)
    for key, payload in _payloads(repo, small):
        _read(key, payload, small[key])
    for key, payload in _payloads(repo, _chunks_below(documents, lists)):
        _read(key, payload, decode_cell)
    for key in repo.pointers.keys(EVENTS):
        try:
            decode_event(repo.store.get_many([key])[key])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise DamagedObjectError("event", key[len(EVENTS) :].hex(), f"it cannot be decoded ({error})") from error


def _payloads(repo: Repository, keys: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
    waiting = list(keys)
    for start in range(0, len(waiting), _BATCH):
        for key, found in repo.objects.fetch(waiting[start : start + _BATCH]).items():
            yield key, found.payload


T = TypeVar("T")


def _read(key: bytes, payload: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise make_damaged_error(key, f"it cannot be decoded ({error})") from error


def _check_commit(key: bytes, commit: Commit) -> None:
    if not 0 <= commit.time_ns < _END_OF_TIME_NS or abs(commit.utc_offset_s) >= _DAY_S:
        raise make_damaged_error(key, "it has a time that no calendar has")
    if any(change.how not in ("+", "~", "-") for change in commit.changed):
        raise make_damaged_error(key, "it does not say how a variable changed")
    if commit.cell is not None and not (isfinite(commit.cell.duration_s) and abs(commit.cell.duration_s) < _LONGEST_S):
        raise make_damaged_error(key, "its cell took no time that there is")


def _small_of(commit: Commit) -> Iterator[tuple[ObjectId, Callable[[bytes], object]]]:
    if commit.environment is not None:
        yield commit.environment, decode_environment
    if commit.notebook is not None:
        yield commit.notebook, decode_page


def _check_node(key: bytes, node: Node, nodes: dict[bytes, Node]) -> Iterator[bytes]:
    """Raise DamagedObjectError unless the tree is in order here; the keys of the summaries."""
    if not isinstance(node, Inner):
        if len(node.rows) != len(node.names) or any(one >= other for one, other in pairwise(node.names)):
            raise make_damaged_error(key, "its names are not in order")
        for row in node.rows:
            entry = _read(key, row, decode_entry)
            id = summary_id(entry)
            if id is not None:
                yield Kind.SMALL + id
            elif entry.summary:
                _read(key, entry.summary, summaries.decode)
        return
    if not len(node.ids) == ID_SIZE * len(node.names) == ID_SIZE * len(node.counts) > 0:
        raise make_damaged_error(key, "its parts have different lengths")
    if not 0 < node.level <= _MOST_LEVELS or any(one >= other for one, other in pairwise(node.names)):
        raise make_damaged_error(key, "its names are not in order")
    for ref in node.refs():
        below = nodes.get(Kind.TREE + ref.id)
        if below is None or not below.names or below.names[0] != ref.name or level_of(below) != node.level - 1:
            raise make_damaged_error(key, "what is below it is not what it says")
        if ref.size != (sum(below.counts) if isinstance(below, Inner) else len(below.names)):
            raise make_damaged_error(key, "it holds another number of names than it says")


def _check_list(key: bytes, node: ListNode, lists: dict[bytes, ListNode]) -> None:
    if not 0 <= node.level <= _MOST_LEVELS or not len(node.ids) == ID_SIZE * len(node.sizes) > 0:
        raise make_damaged_error(key, "its parts have different lengths")
    for id, size in node.children() if node.level else ():
        below = lists.get(Kind.LIST + id)
        if below is None or below.level != node.level - 1 or sum(below.sizes) != size:
            raise make_damaged_error(key, "what is below it is not what it says")


def _chunks_below(roots: Iterable[bytes], lists: dict[bytes, ListNode]) -> Iterator[bytes]:
    seen = set(roots)
    waiting = list(seen)
    while waiting:
        node = lists[waiting.pop()]
        for id, _ in node.children():
            key = (Kind.LIST if node.level else Kind.CHUNK) + id
            if key not in seen:
                seen.add(key)
                if node.level:
                    waiting.append(key)
                else:
                    yield key
