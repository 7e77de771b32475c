"""Objects: immutable, checked whenever they are read, small on disk."""

from __future__ import annotations

import os
import random
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_kernel.errors import DamagedObjectError, NewerFormatError
from agent_kernel.repository.commits import MOST_DEPTH, Kind, ObjectId, address, hex_of, short
from agent_kernel.repository.objects import Base, base_of, claimed_size, unwrap, unwrap_into, wrap
from agent_kernel.repository.repository import Repository
from agent_kernel.storage import MemoryStore
from tests.support.repositories import commit_values

COMPRESSIBLE = b"the same words again and again " * 2000


def _key(payload: bytes, kind: bytes = Kind.CHUNK) -> bytes:
    return kind + address(payload)


def _stored(payload: bytes) -> bytes:
    return b"".join(bytes(part) for part in wrap(address(payload), payload))


def _replace(repo: Repository, key: bytes, stored: bytes) -> None:
    assert repo.store.swap({}, {key: stored})


def test_an_id_shows_as_the_digits_of_its_digest() -> None:
    id = address(b"payload")
    assert len(id) == 33
    assert len(hex_of(id)) == 64
    assert hex_of(id).startswith(short(id))


def test_equal_payloads_are_stored_once(any_repo: Repository) -> None:
    writer = any_repo.writer()
    assert writer.add(Kind.SMALL, b"same") == writer.add(Kind.SMALL, b"same")
    writer.flush()
    written = writer.written_bytes
    again = any_repo.writer()
    again.add(Kind.SMALL, b"same")
    assert again.written_bytes == 0 < written


@pytest.mark.parametrize("size", [0, 1, 1023, 1024, 8191, 8192, 40_000, 262_080])
@pytest.mark.parametrize("pattern", ["noise", "words"])
def test_what_is_stored_comes_back(any_repo: Repository, size: int, pattern: str) -> None:
    payload = os.urandom(size) if pattern == "noise" else (COMPRESSIBLE * 5)[:size]
    writer = any_repo.writer()
    id = writer.add(Kind.CHUNK, payload)
    writer.flush()
    assert any_repo.objects.get(Kind.CHUNK, id) == payload
    target = bytearray(size)
    any_repo.objects.read_into(Kind.CHUNK, {id: [memoryview(target)]})
    assert target == payload


def test_text_is_compressed_and_noise_is_not() -> None:
    assert len(_stored(COMPRESSIBLE)) < len(COMPRESSIBLE) / 4
    noise = os.urandom(262_080)
    assert len(_stored(noise)) - len(noise) <= 48  # and so fills 64 pages of LMDB exactly


def test_a_payload_that_does_not_compress_is_never_copied() -> None:
    noise = os.urandom(100_000)
    assert wrap(address(noise), noise)[1] is noise


def test_a_missing_object_is_named(repo: Repository) -> None:
    with pytest.raises(DamagedObjectError, match=r"commit .* is missing"):
        repo.commit_at(address(b"nothing"))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([b"small", COMPRESSIBLE, random.Random(1).randbytes(300), random.Random(2).randbytes(20_000)]),
    st.data(),
)
def test_a_flipped_bit_anywhere_is_never_returned(payload: bytes, data: st.DataObject) -> None:
    key, stored = _key(payload), bytearray(_stored(payload))
    bit = data.draw(st.integers(0, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << bit % 8
    with suppress(DamagedObjectError, NewerFormatError):
        assert unwrap(key, stored) == payload  # a bit of a frame's header may mean nothing
    with suppress(DamagedObjectError, NewerFormatError):
        assert _into(key, stored, len(payload)) == payload


def test_a_header_that_claims_more_than_there_is_memory_is_damaged() -> None:
    stored = bytearray(_stored(COMPRESSIBLE))
    stored[38] ^= 1 << 7  # of the frame's own header, behind ours and the seal: how its size is written
    with pytest.raises(DamagedObjectError, match="does not decompress"):
        unwrap(_key(COMPRESSIBLE), stored)


@pytest.mark.parametrize("cut", [0, 1, 2, 20, 100])
def test_a_cut_off_object_is_damaged(cut: int) -> None:
    for payload in (COMPRESSIBLE, os.urandom(20_000)):
        stored = _stored(payload)[:-1][:cut]
        with pytest.raises(DamagedObjectError):
            unwrap(_key(payload), stored)
        with pytest.raises(DamagedObjectError):
            _into(_key(payload), stored, len(payload))


def test_an_intact_object_under_another_key_is_damaged() -> None:
    one, other = os.urandom(20_000), os.urandom(20_000)
    with pytest.raises(DamagedObjectError, match="do not match"):
        unwrap(_key(one), _stored(other))
    with pytest.raises(DamagedObjectError, match="do not match"):
        _into(_key(one), _stored(other), len(one))


def test_an_object_of_a_newer_format_says_so(repo: Repository) -> None:
    key = _key(b"future", Kind.SMALL)
    _replace(repo, key, b"\x02\x00future")
    with pytest.raises(NewerFormatError, match="format 2"):
        repo.objects.get(Kind.SMALL, ObjectId(key[1:]))


def test_a_release_that_does_not_know_all_that_a_commit_refers_to_collects_nothing(repo: Repository) -> None:
    tip = commit_values(repo, {"a": "1"})
    key = Kind.COMMIT + tip
    stored = repo.store.get_many([key])[key]
    assert stored[0] == 3  # releases before the pages of commits read 1, before records in commits 2
    _replace(repo, key, b"\x04" + stored[1:])
    repo.objects.forget_cached()
    with pytest.raises(NewerFormatError, match=r"commit .* has format 4"):
        repo.gc(grace_s=0)
    for earlier in (b"\x01", b"\x02"):
        _replace(repo, key, earlier + stored[1:])
        repo.objects.forget_cached()
        assert repo.objects.get(Kind.COMMIT, tip)


def test_a_node_may_be_stored_as_what_it_differs_in() -> None:
    old, new = os.urandom(600), bytearray(os.urandom(600))
    new[:500] = old[:500]
    payload = bytes(new)
    stored = b"".join(bytes(part) for part in wrap(address(payload), payload, base=Base(address(old), old, 0)))
    key = _key(payload, Kind.TREE)
    assert len(stored) < 200
    assert base_of(key, stored) == (_key(old, Kind.TREE), 1)
    assert unwrap(key, stored, old) == payload
    with pytest.raises(DamagedObjectError):
        unwrap(key, stored, os.urandom(600))


@pytest.mark.parametrize("run", [b"", b"x", b"another row", b"z" * 150])
@pytest.mark.parametrize(
    ("size", "start"), [(600, 0), (600, 300), (600, 590), (8_000, 0), (8_000, 2_601), (8_000, 7_990)]
)
def test_of_a_node_with_one_other_row_only_the_row_is_stored(run: bytes, size: int, start: int) -> None:
    old = os.urandom(size)
    payload = old[:start] + run + old[start + 10 :]
    stored = b"".join(bytes(part) for part in wrap(address(payload), payload, base=Base(address(old), old, 0)))
    key = _key(payload, Kind.TREE)
    assert len(stored) <= 45 + len(run)
    assert base_of(key, stored) == (_key(old, Kind.TREE), 1)
    assert unwrap(key, stored, old) == payload
    assert claimed_size(key, stored) == len(payload)


def test_a_stored_row_does_not_pass_for_another_node() -> None:
    old = os.urandom(600)
    payload = old[:100] + b"row" + old[103:]
    stored = b"".join(bytes(part) for part in wrap(address(payload), payload, base=Base(address(old), old, 0)))
    key = _key(payload, Kind.TREE)
    for base in (b"", os.urandom(600), old[:-1]):
        with pytest.raises(DamagedObjectError):
            unwrap(key, stored, base)
    for place in range(2, len(stored)):
        damaged = stored[:place] + bytes([stored[place] ^ 0xFF]) + stored[place + 1 :]
        if 3 <= place < 36:  # the id of the base: its reader gets another one
            assert base_of(key, damaged) != base_of(key, stored)
            continue
        with pytest.raises(DamagedObjectError):
            _read_from(key, damaged, old)
    for length in range(2, 40):
        with pytest.raises(DamagedObjectError):
            _read_from(key, stored[:length], old)


def _read_from(key: bytes, stored: bytes, base: bytes) -> bytes:
    assert base_of(key, stored) is not None
    return unwrap(key, stored, base)


def test_differences_are_not_chained_without_end() -> None:
    payload = os.urandom(600)
    deepest = Base(address(payload), payload, MOST_DEPTH)
    assert base_of(b"t" + address(payload), b"".join(map(bytes, wrap(address(payload), payload, base=deepest)))) is None


def test_chains_that_several_writers_made_longer_are_read(repo: Repository) -> None:
    """Each believes that what it builds on is stored whole: whoever stored it first, stored it otherwise."""
    payloads = [b"x" * 4_000 + f"{number:04d}".encode() for number in range(4 * MOST_DEPTH)]
    below: Base | None = None
    for payload in payloads:
        id = address(payload)
        repo.store.put_many({Kind.TREE + id: wrap(id, payload, base=below)})
        below = Base(id, payload, 0)
    assert Repository(repo.store).objects.get(Kind.TREE, address(payloads[-1])) == payloads[-1]


def test_what_cannot_be_decoded_is_damaged_not_a_surprise() -> None:
    repo = Repository.open(MemoryStore())
    writer = repo.writer()
    id = writer.add(Kind.COMMIT, b"\xc1 not msgpack")
    writer.flush()
    with pytest.raises(DamagedObjectError, match="cannot be decoded"):
        repo.commit_at(id)


def _into(key: bytes, stored: bytes | bytearray, size: int) -> bytes:
    target = bytearray(size)
    unwrap_into(key, stored, memoryview(target))
    return bytes(target)
