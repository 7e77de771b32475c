"""Stores that came from elsewhere: looked through by another process first, browsed, and not loaded until trusted."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_kernel.errors import (
    AgentKernelError,
    LoadError,
    LostValueError,
    StoreUnavailableError,
    UntrustedStoreError,
)
from agent_kernel.session import Repository, bind
from agent_kernel.session.versioned import Versioned
from agent_kernel.storage import LmdbStore
from agent_kernel.storage.urls import probe
from tests.support.notebooks import Notebook


@pytest.fixture
def foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that another user made."""
    store = tmp_path / "store"
    with pytest.MonkeyPatch.context() as other:
        other.setenv("XDG_DATA_HOME", str(tmp_path / "other"))
        with Notebook(Repository.open(store)) as nb:
            nb.run("def double(x):\n    return 2 * x")
            for number in range(20):
                nb.run(f"x{number} = list(range({number * 100}))\nlast = [{number}]")
            repo = nb.repo
        repo.close()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    return store


def test_one_that_i_made_is_loaded_without_asking(tmp_path: Path) -> None:
    with Repository.open(tmp_path / "store") as repo, Notebook(repo) as nb:
        nb.run("x = 1")
        assert repo.at("HEAD")["x"] == 1


def test_one_that_somebody_else_made_is_browsed_but_not_loaded(foreign: Path) -> None:
    with Repository.open(foreign, create=False) as repo:
        assert len(list(repo.log(repo.resolve("main")))) == 21
        assert repo.at("main").summary("last") == "list of 1 int, [19]"
        assert repo.at("main")["last"] == [19]  # plain data, which no code is needed for
        with pytest.raises(LoadError, match="it needs a function of the notebook"):
            _ = repo.at("main")["double"]
        session = bind({}, repo)
        with pytest.raises(UntrustedStoreError):
            session.rollback("HEAD~1")
        with pytest.raises(LoadError, match="run %agent trust"):
            session.checkout("main", ["double"])
        session.checkout()
        assert session.namespace["last"] == [19]
        with pytest.raises(LostValueError, match="run %agent trust"):
            session.namespace["double"](1)  # type: ignore[operator]
        with pytest.raises(UntrustedStoreError):
            session.checkout("HEAD~1")
        session.trust()
        session.checkout()
        assert session.namespace["double"](1) == 2  # type: ignore[operator]
        session.close()


def test_one_that_was_trusted_stays_so_where_it_is_moved_to(foreign: Path, tmp_path: Path) -> None:
    with Repository.open(foreign, create=False) as repo:
        repo.trust()
    moved = foreign.rename(tmp_path / "moved")
    for _ in range(2):
        with Repository.open(moved, create=False) as repo:
            assert repo.at("main")["last"] == [19]


def test_one_that_is_known_is_not_looked_through_again(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    monkeypatch.setattr("agent_kernel.storage.urls.probe", lambda folder: looked.append(folder))
    with Repository.open(foreign, create=False) as repo:
        repo.trust()
    with Repository.open(foreign, create=False):
        pass
    assert looked == [foreign]


def test_one_that_is_known_is_known_by_every_path_to_it(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Repository.open(foreign, create=False) as repo:
        repo.trust()
    monkeypatch.setattr("agent_kernel.storage.urls.probe", lambda folder: pytest.fail(f"{folder} is read through"))
    (tmp_path / "link").symlink_to(foreign.parent, target_is_directory=True)
    for path in (tmp_path / "link" / foreign.name, foreign.parent / "nothing" / ".." / foreign.name):
        with Repository.open(path, create=False):
            pass


def test_what_is_wrong_with_a_file_is_said_once(foreign: Path) -> None:
    data = (foreign / "data.mdb").read_bytes()
    (foreign / "data.mdb").write_bytes(data[: len(data) // 2])
    with pytest.raises(StoreUnavailableError) as caught:
        Repository.open(foreign, create=False)
    assert str(caught.value).startswith(f"{foreign} cannot be used: data.mdb is cut short")


def test_a_damaged_file_never_ends_the_process_that_opens_it(foreign: Path, tmp_path: Path) -> None:
    chance = random.Random(3)
    refused = 0
    for number in range(12):
        damaged = Path(shutil.copytree(foreign, tmp_path / f"damaged-{number}"))
        data = bytearray((damaged / "data.mdb").read_bytes())
        for _ in range(30):
            at = chance.randrange(len(data))
            data[at] = chance.randrange(256)
        (damaged / "data.mdb").write_bytes(bytes(data))
        try:
            with Repository.open(damaged, create=False) as repo:
                refused += not repo.verify().is_sound
        except AgentKernelError:
            refused += 1
    assert refused > 6, "most of these bytes are in use"


def test_a_sound_store_is_read_through_quietly(foreign: Path) -> None:
    probe(foreign)


_LOOKS = """if True:
    import os, sys
    from pathlib import Path
    from agent_kernel.errors import StoreError
    from agent_kernel.session import Repository, Session

    def look(folder):
        try:
            repo = Repository.open(folder, create=False)
            session = Session({}, repo)
            session.begin_cell("x = 1")
            session.namespace["x"] = 1
            session.end_cell()
            repo.verify()
            repo.gc(grace_s=0)
        except StoreError:
            pass

    died = []
    sound, every = Path(sys.argv[1]), int(sys.argv[2])
    whole = (sound / "data.mdb").read_bytes()
    leaves = [page for page in range(2, len(whole) // 4096) if whole[page * 4096 + 10] & 2]  # P_LEAF
    for page in leaves[::every] if every > 1 else range(2, len(whole) // 4096):
        data = bytearray(whole)
        data[page * 4096 : (page + 1) * 4096] = bytes(4096)
        (sound / "data.mdb").write_bytes(bytes(data))
        child = os.fork()
        if not child:
            sys.stderr = open(os.devnull, "w")
            look(sound)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            died.append(page)
    print(died)
"""


@pytest.mark.parametrize(
    "every", [pytest.param(6, id="some leaves"), pytest.param(1, id="all pages", marks=pytest.mark.slow)]
)
def test_a_zeroed_page_never_ends_the_process_that_works_on_the_store(every: int, tmp_path: Path) -> None:
    """Also in a store of one's own, which is opened without another process reading it through first."""
    with Repository.open(tmp_path / "store") as repo:
        state = Versioned(repo)
        for number in range(60):
            state.update({f"x{number}": list(range(number * 7)), "text": "a" * number * 40})
            state.commit()
    command = [sys.executable, "-c", _LOOKS, str(tmp_path / "store"), str(every)]
    looked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert looked.stdout.strip() == "[]", looked.stderr


def test_a_file_that_a_process_let_go_of_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Repository.open(tmp_path / "store") as repo:
        Versioned(repo).update({f"x{number}": bytes(3_000) for number in range(20)})
    looked: list[Path] = []
    monkeypatch.setattr("agent_kernel.storage._environment.fault_of", lambda folder, *_, **__: looked.append(folder))
    with Repository.open(tmp_path / "store"):
        pass
    assert looked == []
    shutil.copytree(tmp_path / "store", tmp_path / "copy")  # perhaps as somebody wrote to it
    with Repository.open(tmp_path / "store") as repo:
        LmdbStore(tmp_path / "copy").close()
        repo.verify()
    assert looked == [tmp_path / "copy", tmp_path / "store"]
