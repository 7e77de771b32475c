"""A repository behaves like a dict of dicts, over any sequence of operations."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from agent_kernel.storage import LmdbStore, Store
from tests.support.repositories import RepositoryMachine

_QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


class LmdbRepositoryMachine(RepositoryMachine):
    """The same on disk, closed and opened again."""

    def make_store(self) -> Store:
        self.folder = Path(tempfile.mkdtemp())
        return LmdbStore(self.folder / "store")

    def reopened(self, store: Store) -> Store:
        store.close()
        return LmdbStore(self.folder / "store")

    def teardown(self) -> None:
        super().teardown()
        shutil.rmtree(self.folder)


def test_a_repository_is_a_dict_of_dicts() -> None:
    budget = settings(max_examples=25, stateful_step_count=25, deadline=None, suppress_health_check=_QUIET)
    run_state_machine_as_test(RepositoryMachine, settings=budget)


def test_a_repository_on_disk_is_a_dict_of_dicts() -> None:
    budget = settings(max_examples=4, stateful_step_count=20, deadline=None, suppress_health_check=_QUIET)
    run_state_machine_as_test(LmdbRepositoryMachine, settings=budget)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("machine", [RepositoryMachine, LmdbRepositoryMachine])
def test_a_repository_is_a_dict_of_dicts_however_long_one_looks(machine: type[RepositoryMachine]) -> None:
    examples = 2000 if machine is RepositoryMachine else 200
    budget = settings(max_examples=examples, stateful_step_count=50, deadline=None, suppress_health_check=_QUIET)
    run_state_machine_as_test(machine, settings=budget)
