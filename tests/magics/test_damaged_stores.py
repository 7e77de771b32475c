"""A store that a bad disk or a copy damaged: a line of plain words says so, and what is whole can be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.storage import LmdbStore
from tests.magics.shells import Shell

PAGE = 4096


def _damaged(folder: Path) -> Path:
    """A store in which the first page of a value is all zeros."""
    with Shell(store=str(folder)) as shell:
        shell.run("import random; big = random.Random(1).randbytes(60_000)")
        shell.run("small = [1]")
        where = shell.ns["big"][:64]
    file = folder / "data.mdb"
    content = bytearray(file.read_bytes())
    page = (content.rindex(where) // PAGE) * PAGE
    content[page : page + PAGE] = bytes(PAGE)
    file.write_bytes(content)
    return folder


def test_a_damaged_page_is_told_in_one_plain_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = _damaged(tmp_path / "s")
    capfd.readouterr()
    with Shell(store=str(folder)) as shell:
        told = [line for line in shell.loaded.splitlines() if "damaged;" in line]
        assert told == ["[agent] a part of the store is damaged; %agent verify names the variables that it hits"]
        assert "big" in shell.run("%agent verify").out
        assert "big is not loaded" in shell.run("%agent checkout").out
        assert shell.ns["small"] == [1]
    assert capfd.readouterr() == ("", "")


def test_a_store_whose_index_is_damaged_is_refused_in_plain_words(tmp_path: Path) -> None:
    folder = tmp_path / "s"
    store = LmdbStore(folder)
    for n in range(50):
        store.put_many({b"key%d" % n: bytes(50)})
    store.close()
    content = bytearray((folder / "data.mdb").read_bytes())
    content[2 * PAGE :] = bytes(len(content) - 2 * PAGE)
    (folder / "data.mdb").write_bytes(content)
    with pytest.raises(StoreUnavailableError) as caught:
        LmdbStore(folder).get_many([b"key1"])
    assert str(caught.value) == f"lmdb://{folder} cannot be used: data.mdb is damaged; restore it from a copy"
