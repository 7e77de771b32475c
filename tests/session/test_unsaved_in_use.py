"""Objects in the middle of something that cannot be saved: each commit whose cell used one names it, and a checkout says that it stays."""

from __future__ import annotations

import pytest

from agent_kernel.session import Report
from tests.support.notebooks import Notebook, names_changed

# How it is made, a cell that uses it, and what the use changed: None where nothing tells.
HASHES = [
    ("import hashlib; x = hashlib.sha256(b'a')", "x.update(b'b')", "x.hexdigest()"),
    ("import hashlib; x = {'h': hashlib.blake2b(b'a')}", "x['h'].update(b'b')", "x['h'].hexdigest()"),
    ("import hashlib; x = hashlib.shake_128(b'a')", "x.update(b'b')", "x.hexdigest(8)"),
    ("import hmac; x = hmac.new(b'k', b'a', 'sha256')", "x.update(b'b')", "x.hexdigest()"),
    ("import xxhash; x = xxhash.xxh64(b'a')", "x.update(b'b')", "x.hexdigest()"),
]
CLOSED = [
    ("import zlib; x = zlib.compressobj()", "y = x.compress(b'abc')"),
    ("import bz2; x = bz2.BZ2Compressor()", "y = x.compress(b'abc')"),
    ("import lzma; x = [lzma.LZMACompressor()]", "y = x[0].compress(b'abc')"),
    ("import re; x = re.compile('a').scanner('aaa')", "y = x.search()"),
    ("import struct; x = struct.iter_unpack('<h', bytes(20))", "y = next(x)"),
    ("import numpy as np; x = np.ndenumerate(np.arange(9))", "y = next(x)"),
    ("import queue; x = queue.SimpleQueue()", "x.put(1)"),
    ("import xml.etree.ElementTree as E; x = E.XMLPullParser(['start'])", "x.feed('<a>')"),
]


@pytest.mark.parametrize(("make", "use", "look"), HASHES)
def test_a_hash_under_way_is_named_where_it_was_fed(make: str, use: str, look: str) -> None:
    with Notebook() as nb:
        first = nb.run(make)
        assert [one.name for one in first.unsaved] == ["x"]
        before = nb.look(look)
        assert not nb.run("x").changed
        fed = nb.run(use)
        assert names_changed(fed) == {one.name for one in fed.unsaved} == {"x"}
        notes = nb.checkout(first).notes
        assert nb.look(look) != before
        assert any(note.startswith("x (") and "stays as it is now" in note for note in notes), notes


@pytest.mark.parametrize(("make", "use"), CLOSED)
def test_what_shows_nothing_is_named_with_each_cell_that_uses_it(make: str, use: str) -> None:
    with Notebook() as nb:
        first = nb.run(make)
        assert [one.name for one in first.unsaved] == ["x"]
        assert not nb.run("other = 1").unsaved
        for _ in range(2):
            assert names_changed(nb.run(use)) - {"y"} == {"x"}
        used = nb.run(use)
        assert {one.name for one in used.unsaved} == {"x"}
        nb.run("other = 2")
        notes = nb.checkout(used).notes
        assert not [note for note in notes if note.startswith("x")]
        assert [note for note in nb.checkout(first).notes if note.startswith("x (") and "stays as it is now" in note]


def test_a_generator_of_the_operating_system_is_saved_as_one() -> None:
    with Notebook() as nb:
        made = nb.run("import random\nr = random.SystemRandom()\nheld = [r]")
        assert made.unsaved == ()
        assert not nb.run("n = r.random()").unsaved
        nb.run("del r, held")
        nb.checkout(made)
        assert nb.look("(held[0] is r, type(r) is random.SystemRandom, 0 <= r.random() < 1)") == (True, True, True)


@pytest.mark.parametrize(
    ("make", "use", "look"),
    [
        ("import types; x = types.ModuleType('made_up'); x.rows = [1]", "x.rows.append(2)", "x.rows"),
        ("import types; x = types.ModuleType('made_up'); x.rows = {'a': 1}", "x.rows['a'] = 2", "x.rows"),
        (
            "import types; x = types.ModuleType('made_up'); x.held = [object()]",
            "x.held.append(object())",
            "len(x.held)",
        ),
        ("import concurrent.futures as f; x = f.Future(); x.seen = {}", "x.seen['a'] = [1]", "x.seen"),
    ],
)
def test_a_change_in_a_container_of_what_cannot_be_saved_is_named(make: str, use: str, look: str) -> None:
    with Notebook() as nb:
        first = nb.run(make)
        _require_named(nb, first, use, look)


@pytest.mark.parametrize(
    ("make", "use", "look"),
    [
        ("x = memory.SharedMemory(create=True, size=64)", "x.buf[0] = 7", "x.buf[0]"),
        ("x = memory.ShareableList([1, 'ab', None])", "x[0] = 5", "x[0]"),
        ("x = [memory.SharedMemory(create=True, size=64)]", "x[0].buf[:2] = b'ab'", "bytes(x[0].buf[:2])"),
    ],
)
def test_memory_that_processes_share_is_named_and_stays_as_it_is(make: str, use: str, look: str) -> None:
    with Notebook() as nb:
        nb.run("from multiprocessing import shared_memory as memory")
        first = nb.run(make)
        try:
            _require_named(nb, first, use, look)
        finally:
            nb.execute("x = x[0] if type(x) is list else getattr(x, 'shm', x)\nx.close()\nx.unlink()")


def test_an_array_over_memory_that_processes_share_is_told_to_part_from_it() -> None:
    with Notebook() as nb:
        nb.run("from multiprocessing import shared_memory as memory\nimport numpy as np")
        first = nb.run(
            "x = memory.SharedMemory(create=True, size=8)\na = np.ndarray((8,), 'u1', buffer=x.buf); a[:] = 1"
        )
        try:
            assert names_changed(nb.run("a[2] = 5")) == {"a", "x"}
            notes = nb.checkout(first).notes
            assert nb.look("(int(a[2]), x.buf[2])") == (1, 5)
            assert any("no longer share objects" in note and "a" in note and "x" in note for note in notes), notes
        finally:
            nb.execute("del a\nimport gc; gc.collect()\nx.close(); x.unlink()")


def _require_named(nb: Notebook, first: Report, use: str, look: str) -> None:
    """A change of `x`, which cannot be saved, is named by its commit, and stays after a checkout of the first one."""
    assert [one.name for one in first.unsaved] == ["x"]
    assert not nb.run("x").changed
    used = nb.run(use)
    assert names_changed(used) == {one.name for one in used.unsaved} == {"x"}
    now = nb.look(look)
    notes = nb.checkout(first).notes
    assert nb.look(look) == now
    assert [note for note in notes if note.startswith("x (") and "stays as it is now" in note]
