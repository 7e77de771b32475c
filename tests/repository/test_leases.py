"""Leases: one living process writes to a branch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from agent_kernel.errors import BranchInUseError
from agent_kernel.repository.refs import LEASES, Holder, _Lease, boot_id, start_of  # pyright: ignore[reportPrivateUsage]
from agent_kernel.repository.repository import Repository
from agent_kernel.storage.lmdb import Liveness

HERE = Holder.of_this_process("mine")


def test_a_living_holder_keeps_its_branch(any_repo: Repository) -> None:
    any_repo.acquire_lease("main", HERE)
    any_repo.acquire_lease("main", HERE)
    with pytest.raises(BranchInUseError, match=f"session mine, process {os.getpid()}"):
        any_repo.acquire_lease("main", Holder.of_this_process("other"))
    any_repo.acquire_lease("side", Holder.of_this_process("other"))
    assert any_repo.lease_of("main") == HERE


def test_a_lease_that_was_given_back_can_be_taken(repo: Repository) -> None:
    repo.acquire_lease("main", HERE)
    repo.release_lease("main", Holder.of_this_process("other"))  # not its own: nothing happens
    assert repo.lease_of("main") == HERE
    repo.release_lease("main", HERE)
    assert repo.lease_of("main") is None
    repo.acquire_lease("main", Holder.of_this_process("other"))


def test_the_lease_of_a_process_that_ended_is_taken_over(repo: Repository) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    holder = msgspec.structs.replace(HERE, pid=child.pid, started=start_of(child.pid))
    repo.acquire_lease("main", holder)
    with pytest.raises(BranchInUseError):
        repo.acquire_lease("main", HERE)
    child.kill()
    while holder.is_alive():  # it is dead as soon as it is a zombie
        pass
    repo.acquire_lease("main", HERE)
    child.communicate()
    assert repo.lease_of("main") == HERE


@pytest.mark.parametrize(
    "dead",
    [
        msgspec.structs.replace(HERE, boot="another start of this machine"),
        msgspec.structs.replace(HERE, started="12345"),  # the number was given out again
        msgspec.structs.replace(HERE, pid=2**22 + 1),
    ],
)
def test_the_dead_are_told_from_the_living(repo: Repository, dead: Holder) -> None:
    assert HERE.is_alive()
    assert not dead.is_alive()
    repo.acquire_lease("main", dead)
    repo.acquire_lease("main", HERE)


def test_nothing_is_known_of_another_machine_so_its_holders_live(repo: Repository) -> None:
    far = msgspec.structs.replace(HERE, host="elsewhere", boot="x", pid=1)
    repo.acquire_lease("main", far)
    with pytest.raises(BranchInUseError, match="elsewhere"):
        repo.acquire_lease("main", HERE)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root has a clock of its own")
@pytest.mark.parametrize("seconds", ["3600", "-300"])
def test_a_living_holder_with_another_clock_keeps_its_branch(seconds: str) -> None:
    code = (
        "import msgspec, time; from agent_kernel.repository.refs import Holder;"
        "print(msgspec.json.encode(Holder.here()).hex(), flush=True); time.sleep(60)"
    )
    own = ["unshare", "--time", "--boottime", seconds, "--fork", "--kill-child", sys.executable, "-c", code]
    with subprocess.Popen(own, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline().strip()
        if not line:
            pytest.skip("this system gives no process a clock of its own")
        holder = msgspec.json.decode(bytes.fromhex(line), type=Holder)
        assert holder.is_alive()
        process.kill()
    until = time.monotonic() + 20
    while holder.is_alive() and time.monotonic() < until:
        time.sleep(0.05)
    assert not holder.is_alive()


def test_a_process_knows_itself() -> None:
    assert HERE.is_this_process()
    assert boot_id()
    assert start_of(os.getpid()) == start_of(os.getpid()) != start_of(1)
    assert start_of(2**22 + 1) == ""


FAR = msgspec.structs.replace(HERE, host="pod-1", boot="another machine's, or an earlier start", pid=1, session="far")
BESIDE = msgspec.structs.replace(HERE, host="pod-1", pids="another container's", pid=7, started="1", session="beside")


def test_on_a_disk_of_this_machine_nobody_else_can_be_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Liveness, "is_on_this_machine", True)
    with closing(Repository.open(tmp_path / "store")) as repo:
        repo.acquire_lease("main", FAR)
        repo.acquire_lease("side", FAR)
        repo.leases.refuse_others()
        repo.acquire_lease("main", HERE)
        assert dict(repo.leases.find_living()) == {"main": HERE}


def test_on_a_network_nothing_is_known_of_another_machine_until_a_person_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Liveness, "is_on_this_machine", False)
    with closing(Repository.open(tmp_path / "store")) as repo:
        repo.acquire_lease("main", FAR)
        with pytest.raises(BranchInUseError, match="%agent branch --release main"):
            repo.acquire_lease("main", HERE)
        assert repo.take_lease_away("main") == FAR
        repo.acquire_lease("main", HERE)
        with pytest.raises(BranchInUseError):
            repo.take_lease_away("main")  # it is alive
        assert repo.take_lease_away("side") is None


@pytest.mark.skipif(
    sys.platform != "linux", reason="other systems have no containers with process numbers of their own"
)
def test_a_process_of_another_container_lives_as_long_as_it_says_so(tmp_path: Path) -> None:
    with closing(Repository.open(tmp_path / "store")) as repo:
        holds = f"""if True:
            from agent_kernel.storage import LmdbStore
            store = LmdbStore({str(tmp_path / "store")!r})
            store.hold({BESIDE.number})
            print("held", flush=True)
            input()"""
        child = subprocess.Popen(
            [sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        repo.acquire_lease("side", HERE)  # this process, which locks a byte of its own
        assert repo.take_lease_away("main") is None
        repo.pointers.change(lambda move: move.set(LEASES + b"main", _Lease(move.stamp, BESIDE)))
        with pytest.raises(BranchInUseError, match="pod-1"):
            repo.acquire_lease("main", HERE)
        child.kill()
        child.communicate()
        repo.acquire_lease("main", HERE)
        assert HERE.is_alive(repo.store)


def test_a_machine_that_was_renamed_knows_its_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.gethostname", lambda: "new-name")
    assert HERE.is_alive()
    assert HERE.is_this_process()
    assert not msgspec.structs.replace(HERE, started="1").is_alive()


def test_a_lease_of_an_earlier_release_names_no_container() -> None:
    old = msgspec.msgpack.encode((HERE.host, HERE.boot, HERE.pid, HERE.started, "mine"))
    holder = msgspec.msgpack.decode(old, type=Holder)
    assert holder.pids == ""
    assert holder.is_alive()
    assert not msgspec.structs.replace(holder, started="1").is_alive()
