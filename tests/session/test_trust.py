"""Stores that came from elsewhere: looked through by another process first, browsed, and not loaded until trusted."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent_kernel.bundle.opening import open_bundle
from agent_kernel.cli import main
from agent_kernel.errors import (
    AgentKernelError,
    LoadError,
    LostValueError,
    StoreReadOnlyError,
    StoreUnavailableError,
    UntrustedStoreError,
)
from agent_kernel.repository import Repository as BareRepository
from agent_kernel.session import Repository, bind, trust
from agent_kernel.session.versioned import Versioned
from agent_kernel.storage import LmdbStore
from agent_kernel.storage.lmdb import probe
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


# -- trust that was taken back


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that this user made, with a value that only code can build."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "mine"))
    with Repository.open(tmp_path / "store") as repo, Notebook(repo) as nb:
        nb.run("def double(x): return 2 * x")
    return tmp_path / "store"


def listed() -> list[str]:
    return trust._list().read_text().splitlines()


def test_what_is_revoked_is_not_loaded_in_a_later_session(mine: Path) -> None:
    with Repository.open(mine, create=False) as repo:
        assert trust.revoke(repo)
    for _ in range(2):  # opening it lists it no more
        with Repository.open(mine, create=False) as repo:
            assert not trust.is_trusted(repo)
            with pytest.raises(UntrustedStoreError):
                trust.require(repo)
            with pytest.raises(AgentKernelError):
                _ = repo.at("main")["double"]
    with Repository.open(mine, create=False) as repo:
        repo.trust()
        assert callable(repo.at("main")["double"])


def test_what_is_in_memory_stays_and_is_still_committed(mine: Path) -> None:
    with Repository.open(mine, create=False) as repo, Notebook(repo) as nb:
        nb.run("def triple(x): return 3 * x\ndata = [1]")
        trust.revoke(repo)
        nb.run("data.append(triple(2))")
        assert nb.look("data") == [1, 6]
        assert repo.at("HEAD").summary("data") == "list of 2 int, [1, 6]"


def test_revoking_leaves_other_stores_alone(mine: Path, tmp_path: Path) -> None:
    with Repository.open(tmp_path / "other") as other, Repository.open(mine, create=False) as repo:
        before = listed()
        assert trust.revoke(repo)
        assert not trust.revoke(repo), "it is not trusted any more"
        assert trust.is_trusted(other)
        assert listed() == [line for line in before if line.endswith("/other")]
        assert trust.list_places() == [other.store.url]


def test_revoking_is_for_all_places_and_copies(mine: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(mine, tmp_path / "copy"))
    with Repository.open(copy, create=False) as repo:
        assert trust.is_trusted(repo)
        trust.revoke(repo)
    for place in (mine, copy):
        with Repository.open(place, create=False) as repo:
            assert not trust.is_trusted(repo)


def test_a_store_that_is_being_opened_as_it_is_revoked_stays_off_the_list(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = mine.rename(tmp_path / "moved")
    asked = trust.is_trusted

    def ask_then_revoke(repo: Repository) -> bool:
        found = asked(repo)
        trust.revoke(repo)
        return found

    monkeypatch.setattr(trust, "is_trusted", ask_then_revoke)
    Repository.open(moved, create=False).close()
    monkeypatch.setattr(trust, "is_trusted", asked)
    with Repository.open(moved, create=False) as repo:
        assert not trust.is_trusted(repo)


def test_one_that_is_trusted_in_this_process_alone_can_be_revoked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").write_text("no folder can be made below a file, not even by root")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home" / "share"))
    with Repository.open(tmp_path / "store") as repo:
        assert trust.is_trusted(repo)
        assert trust.revoke(repo)
        assert not trust.is_trusted(repo)
        assert trust.notice(repo) == ""


def test_a_list_that_cannot_be_written_says_so_and_stays(mine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = listed()

    def fail(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("agent_kernel.session.trust.write_whole", fail)
    with Repository.open(mine, create=False) as repo:
        with pytest.raises(StoreReadOnlyError, match="No space left"):
            trust.revoke(repo)
        assert trust.is_trusted(repo)
    assert listed() == before


def test_a_store_in_memory_is_trusted_as_long_as_it_lives() -> None:
    with Repository.open("memory:") as repo:
        assert not trust.revoke(repo)
        assert trust.is_trusted(repo)


def test_the_name_of_a_folder_adds_no_line_to_the_list(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Repository.open(foreign, create=False) as repo:
        secret = repo.setting("secret")
    assert secret is not None
    folder = tmp_path / f"a\n{secret.hex()} b"
    for _ in range(2):
        with Repository.open(folder) as mine, Repository.open(foreign, create=False) as repo:
            assert trust.is_trusted(mine)
            assert not trust.is_trusted(repo)


def test_a_line_that_was_cut_off_costs_no_other(mine: Path, tmp_path: Path) -> None:
    with trust._list().open("a") as file:
        file.write("0123")
    with Repository.open(tmp_path / "other"):
        pass
    for place in (mine, tmp_path / "other"):
        with Repository.open(place, create=False) as repo:
            assert trust.is_trusted(repo)


def test_the_fingerprint_of_a_trusted_bundle_is_no_secret_of_a_store(mine: Path, tmp_path: Path) -> None:
    """Anybody may know it, so that a store could say it is its own."""
    assert main(["export", str(mine), str(tmp_path / "study.agentnb")]) == 0
    with Repository.open(f"bundle://{tmp_path / 'study.agentnb'}", create=False) as bundle:
        bundle.trust()
        assert trust.is_trusted(bundle)
        fingerprint: bytes = vars(bundle.store)["fingerprint"]
    with BareRepository.open(LmdbStore(tmp_path / "forged")) as forged:
        forged.set_setting("secret", fingerprint)
    with Repository.open(tmp_path / "forged", create=False) as repo:
        assert not trust.is_trusted(repo)


def test_a_bundle_can_be_trusted_and_revoked(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = str(tmp_path / "study.agentnb")
    assert main(["export", str(mine), bundle]) == 0
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another"))
    assert main(["trust", bundle]) == 0
    opened = open_bundle(Path(bundle), tmp_path, name="one")
    assert opened.is_trusted
    capsys.readouterr()
    assert main(["trust", bundle, "--revoke"]) == 0
    assert "A store that was opened from it is not affected" in capsys.readouterr().out
    assert not open_bundle(Path(bundle), tmp_path, name="two").is_trusted
    with Repository.open(opened.store, create=False) as repo:
        assert trust.is_trusted(repo)


def test_the_command_says_what_revoking_does(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trust", str(mine), "--list"]) == 0
    assert str(mine) in capsys.readouterr().out
    assert main(["trust", str(mine), "--revoke"]) == 0
    said = capsys.readouterr().out
    assert "is no longer trusted, nor are copies of it: nothing is loaded from it any more that can run code" in said
    assert "What is in memory stays there; agent-kernel trust" in said
    assert main(["trust", str(mine), "--revoke", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["was_trusted"] is False
    assert main(["trust", str(mine), "--list"]) == 0
    assert "You trust no store." in capsys.readouterr().out


_OPENS = """
import sys
from agent_kernel.session import Repository, trust
for number in range(8):
    with Repository.open(f"{sys.argv[1]}-{number}") as repo:
        if sys.argv[2] == "revoke":
            assert trust.revoke(repo)
"""


def test_no_line_is_lost_where_several_processes_write_the_list(mine: Path, tmp_path: Path) -> None:
    running = [
        subprocess.Popen([sys.executable, "-c", _OPENS, str(tmp_path / f"{what}-{number}"), what])
        for number in range(2)
        for what in ("keep", "revoke")
    ]
    assert [process.wait(100) for process in running] == [0] * 4
    places = [Path(place).name for place in trust.list_places()]
    assert places == sorted(["store", *(f"keep-{number}-{nth}" for number in range(2) for nth in range(8))])


def test_one_that_is_known_is_not_looked_through_again(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Path] = []
    monkeypatch.setattr("agent_kernel.storage.lmdb.probe", lambda folder: looked.append(folder))
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
    monkeypatch.setattr("agent_kernel.storage.lmdb.probe", lambda folder: pytest.fail(f"{folder} is read through"))
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
    monkeypatch.setattr("agent_kernel.storage.lmdb.fault_of", lambda folder, *_, **__: looked.append(folder))
    with Repository.open(tmp_path / "store"):
        pass
    assert looked == []
    shutil.copytree(tmp_path / "store", tmp_path / "copy")  # perhaps as somebody wrote to it
    with Repository.open(tmp_path / "store") as repo:
        LmdbStore(tmp_path / "copy").close()
        repo.verify()
    assert looked == [tmp_path / "copy", tmp_path / "store"]
