"""Stores that these tests make are this user's own, in a data directory that goes away.

Where several processes run the tests, those that share a server and a browser are run by one of them, and begin first.
"""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling


@pytest.fixture(scope="session", autouse=True)
def private_directories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Keep stores, secrets and IPython's files of the tests away from the user's own."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(home / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        patch.setenv("IPYTHONDIR", str(home / "ipython"))
        patch.setenv("MPLBACKEND", "agg")
        yield home


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> None:
    """Leave out of garbage collections what was there before: IPython makes one as each shell ends.

    Beside the libraries that earlier tests imported, one takes half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def safe_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be forked: other tests of it may have loaded what forbids that, and these forks use nothing of it."""
    monkeypatch.setattr("agent_kernel.agents.preview.forking._openmp", lambda: "")
    monkeypatch.setattr("agent_kernel.agents.preview.forking._pools", lambda: "")


def pytest_configure() -> None:
    """Let interrupts be heard: a shell without job control lets what it starts in the background ignore them.

    How fast Hypothesis makes its examples says how busy the machine is, and nothing of what is tested.
    """
    settings.register_profile("any machine", suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # Not --dist loadgroup: it writes its groups into names that pytest 9.2 no longer reads.
    from xdist.scheduler import LoadScopeScheduling

    class ByServer(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            if not nodeid.startswith("tests/e2e/"):
                return nodeid
            return "notebook" if "notebook" in nodeid.partition("[")[2] else "lab"

    return ByServer(config, log)
