"""Blobs: cut into pieces, stored without copies, and only where they changed."""

from __future__ import annotations

import os
import random
import tracemalloc
from itertools import pairwise
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository import AtHand
from agent_kernel.repository.commits import Blob, Kind
from agent_kernel.repository.objects import (
    LONGEST,
    PARALLEL_FROM,
    PIECE,
    Pieces,
    chunks_of,
    digest_pieces,
    pieces_of,
    plan_cuts,
    read_blob,
    read_blob_into,
    store_blob,
    stream_cuts,
)
from agent_kernel.repository.repository import Repository

MANY = 100 * PIECE + 17


def _store(
    repo: Repository, buffer: bytes | bytearray, cuts: list[int] | None = None, known: Pieces | None = None
) -> tuple[Blob, Pieces, int]:
    """Blob, what to remember, and the bytes written."""
    writer = repo.writer()
    cuts = plan_cuts(len(buffer)) if cuts is None else cuts
    blob, pieces = store_blob(writer, buffer, cuts, digest_pieces(buffer, cuts), known)
    writer.flush()
    return blob, pieces, writer.written_bytes


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, PIECE, PIECE + 1, MANY])
def test_any_size_comes_back(any_repo: Repository, size: int) -> None:
    noise = os.urandom(min(size, 3 * PIECE))
    buffer = (noise * (size // max(len(noise), 1) + 1))[:size]
    blob, _, _ = _store(any_repo, buffer)
    assert read_blob(any_repo.objects, blob) == buffer
    target = bytearray(size)
    read_blob(any_repo.objects, blob, target)
    assert target == buffer


def test_a_kilobyte_is_kept_inline(repo: Repository) -> None:
    assert _store(repo, b"x" * 1024)[0] == Blob(1024, inline=b"x" * 1024)
    assert _store(repo, b"x" * 1025)[0].inline is None


def test_up_to_64_pieces_are_listed_in_the_blob_and_more_in_a_tree(repo: Repository) -> None:
    short, _, _ = _store(repo, bytes(64 * PIECE))
    long, _, _ = _store(repo, bytes(64 * PIECE + 1))
    assert len(short.chunks) == 64
    assert short.deep is None
    assert long.chunks == ()
    assert len(chunks_of(repo.objects, long)) == 65


def test_a_changed_byte_stores_one_piece_and_a_few_list_nodes(repo: Repository) -> None:
    size = 3000 * 1000
    buffer = bytearray(os.urandom(size))
    cuts = list(range(1000, size + 1, 1000))
    first, pieces, _ = _store(repo, buffer, cuts)
    buffer[size // 2] ^= 1
    second, _, written = _store(repo, buffer, cuts, pieces)
    assert second != first
    assert written < 1002 + 6000
    assert read_blob(repo.objects, second) == buffer


def test_pieces_that_are_known_are_not_hashed_again_wherever_they_move(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = os.urandom(4 * PIECE)
    _, pieces, _ = _store(repo, buffer)
    monkeypatch.setattr("agent_kernel.repository.objects.address", None)  # BLAKE3 would raise
    swapped = buffer[2 * PIECE :] + buffer[: 2 * PIECE]
    blob, _, written = _store(repo, swapped, known=pieces)
    assert written == 0
    assert read_blob(repo.objects, blob) == swapped


def test_pieces_read_from_a_store_are_known_to_the_next_commit(repo: Repository) -> None:
    buffer = os.urandom(70 * 2000)
    cuts = list(range(2000, len(buffer) + 1, 2000))
    blob, _, _ = _store(repo, buffer, cuts)
    again = pieces_of(repo.objects, blob, read_blob_into(repo.objects, blob, memoryview(bytearray(len(buffer)))))
    assert list(again.cuts) == cuts
    assert _store(repo, buffer, cuts, again)[2] == 0


def test_known_pieces_that_were_collected_are_stored_again(repo: Repository) -> None:
    buffer = os.urandom(2 * PIECE)
    _, pieces, _ = _store(repo, buffer)
    repo.gc(grace_s=0)
    blob, _, written = _store(repo, buffer, known=pieces)
    assert written > 2 * PIECE
    assert read_blob(repo.objects, blob) == buffer


def test_a_gigabyte_of_zeros_is_one_chunk_and_short_lists(repo: Repository) -> None:
    buffer = bytes(64 << 20)
    cuts = list(range(65536, len(buffer) + 1, 65536))
    blob, _, written = _store(repo, buffer, cuts)
    assert written < 20_000
    assert len(chunks_of(repo.objects, blob)) == 1024 > LONGEST


def test_storing_an_array_copies_at_most_two_batches(repo: Repository) -> None:
    buffer = os.urandom(64 << 20)
    cuts = plan_cuts(len(buffer))
    digests = digest_pieces(buffer, cuts)
    writer = repo.writer()
    # One of pieces that were copied, one of pieces that wait for a transaction.
    put_many = writer._store.put_many
    writer._store.put_many = lambda items: None  # type: ignore[method-assign]  # what the engine does is its own affair
    tracemalloc.start()
    try:
        store_blob(writer, buffer, cuts, digests)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
        writer._store.put_many = put_many  # type: ignore[method-assign]


def test_a_wrong_buffer_is_refused(repo: Repository) -> None:
    blob, _, _ = _store(repo, b"x" * 5000)
    with pytest.raises(ValueError, match="4999"):
        read_blob(repo.objects, blob, bytearray(4999))


def test_a_missing_or_damaged_chunk_is_named(any_repo: Repository) -> None:
    buffer = os.urandom(3 * PIECE)
    blob, _, _ = _store(any_repo, buffer)
    key = Kind.CHUNK + blob.chunks[1][0]
    stored = bytearray(any_repo.store.get_many([key])[key])
    stored[1000] ^= 1
    any_repo.store.swap({}, {key: bytes(stored)})
    with pytest.raises(DamagedObjectError, match=blob.chunks[1][0].hex()[:16]):
        read_blob(any_repo.objects, blob)
    any_repo.store.delete_many([key])
    with pytest.raises(DamagedObjectError, match="missing"):
        read_blob(any_repo.objects, blob)


@pytest.mark.parametrize("broken", [None, 0, 7, 19])
def test_pieces_that_compress_are_squeezed_and_expanded_several_at_once(
    any_repo: Repository, broken: int | None
) -> None:
    buffer = b"".join(b"%d rows and %d more\n" % (number, number % 7) for number in range(250_000))
    blob, _, written = _store(any_repo, buffer)
    assert written < 0.5 * len(buffer)
    chunks = chunks_of(any_repo.objects, blob)
    if broken is None:
        target = bytearray(len(buffer))
        read_blob(any_repo.objects, blob, target)
        assert target == buffer
        return
    key = Kind.CHUNK + chunks[broken][0]
    stored = bytearray(any_repo.store.get_many([key])[key])
    stored[-20] ^= 1
    any_repo.store.delete_many([key])
    any_repo.store.put_many({key: bytes(stored)})
    with pytest.raises(DamagedObjectError, match=key[1:5].hex()):
        read_blob(any_repo.objects, blob)


def test_lists_that_do_not_add_up_are_damage(repo: Repository) -> None:
    blob, _, _ = _store(repo, os.urandom(3 * PIECE))
    with pytest.raises(DamagedObjectError, match="chunks have"):
        read_blob(repo.objects, Blob(blob.size, chunks=blob.chunks[:2]))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 5_000_000), st.one_of(st.none(), st.integers(1, 6_000_000)))
def test_cuts_cover_the_buffer_and_restart_at_every_large_step(nbytes: int, stride: int | None) -> None:
    cuts = plan_cuts(nbytes, stride)
    assert cuts == sorted(set(cuts))
    assert (cuts[-1] if cuts else 0) == nbytes
    assert all(end - start <= PIECE for start, end in zip([0, *cuts], cuts, strict=False))
    if stride is not None and stride >= 64 << 10:
        assert set(range(stride, nbytes, stride)) <= set(cuts)


def test_an_added_column_stores_a_column(repo: Repository) -> None:
    column = 300_000
    frame = os.urandom(5 * column)
    _, pieces, _ = _store(repo, frame, plan_cuts(len(frame), column))
    wider = frame[: 2 * column] + os.urandom(column) + frame[2 * column :]
    _, _, written = _store(repo, wider, plan_cuts(len(wider), column), pieces)
    assert written < column + 200


def test_a_stream_is_cut_by_content_so_that_an_insertion_stays_local(repo: Repository) -> None:
    rng = random.Random(3)
    stream = rng.randbytes(1 << 20)
    _, pieces, _ = _store(repo, stream, stream_cuts(stream))
    longer = stream[:500_000] + b"inserted" + stream[500_000:]
    cuts = stream_cuts(longer)
    blob, _, written = _store(repo, longer, cuts, pieces)
    assert written < 200_000
    assert read_blob(repo.objects, blob) == longer


def test_a_short_stream_is_one_piece() -> None:
    assert stream_cuts(b"x" * 65536) == [65536]
    assert len(stream_cuts(os.urandom(65537))) > 1
    assert stream_cuts(b"") == []


def test_memory_at_hand_is_taken_only_where_it_holds_the_chunk(repo: Repository) -> None:
    buffer = os.urandom(3 * PIECE)
    blob, pieces, _ = _store(repo, buffer)
    assert pieces.exact
    live = bytearray(buffer)
    live[PIECE + 5] ^= 1  # since it was stored
    parts = [memoryview(live)[start : start + PIECE] for start in range(0, len(live), PIECE)]
    near = dict(zip(pieces.ids, map(AtHand, parts, pieces.digests), strict=True))
    asked: list[bytes] = []
    objects: Any = repo.objects
    view_many = objects._store.view_many

    def watched(keys: list[bytes], visit: Any) -> None:
        asked.extend(keys)
        view_many(keys, visit)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(objects._store, "view_many", watched)
        target = bytearray(len(buffer))
        digests = read_blob_into(repo.objects, blob, memoryview(target), near)
    assert target == buffer
    assert [key[1:] for key in asked] == [pieces.ids[1]]
    assert [digests[id] for id in pieces.ids] == list(pieces.digests)


def test_pieces_have_the_same_digests_in_threads_and_where_none_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    buffer = random.Random(1).randbytes(PIECE) * (PARALLEL_FROM // PIECE + 40)
    cuts = plan_cuts(len(buffer), stride=PIECE + 17)
    expected = [xxh3_128_digest(buffer[start:end]) for start, end in pairwise((0, *cuts))]
    assert digest_pieces(buffer, cuts) == expected

    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Thread, "start", refuse)
    assert digest_pieces(buffer, cuts) == expected
