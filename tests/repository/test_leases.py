"""Leases: one living process writes to a branch."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from agent_kernel.errors import BranchInUseError
from agent_kernel.repository.leases import Holder, boot_id, start_of
from agent_kernel.repository.repository import Repository

HERE = Holder.here("mine")


def test_a_living_holder_keeps_its_branch(any_repo: Repository) -> None:
    any_repo.acquire_lease("main", HERE)
    any_repo.acquire_lease("main", HERE)
    with pytest.raises(BranchInUseError, match=f"session mine, process {os.getpid()}"):
        any_repo.acquire_lease("main", Holder.here("other"))
    any_repo.acquire_lease("side", Holder.here("other"))
    assert any_repo.lease_of("main") == HERE


def test_a_lease_that_was_given_back_can_be_taken(repo: Repository) -> None:
    repo.acquire_lease("main", HERE)
    repo.release_lease("main", Holder.here("other"))  # not its own: nothing happens
    assert repo.lease_of("main") == HERE
    repo.release_lease("main", HERE)
    assert repo.lease_of("main") is None
    repo.acquire_lease("main", Holder.here("other"))


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


def test_a_process_knows_itself() -> None:
    assert HERE.is_this_process()
    assert boot_id()
    assert start_of(os.getpid()) == start_of(os.getpid()) != start_of(1)
    assert start_of(2**22 + 1) == ""
