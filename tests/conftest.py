"""Stores that these tests make are this user's own, in a data directory that goes away.

Where several processes run the tests, those of a file are run by one of them, which makes once what they share, and so are
those of the server's extension. Of those in a browser each process has one server of JupyterLab, and one that of Notebook.
First come the files that run no agent: the first step leaves an audit hook in its process for good, and each call of `id`
takes five times as long from then on. Of either, files with many tests begin first, so that all processes end together.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling


collect_ignore = ["absent"]


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


@pytest.fixture
def nobody(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user who is new here: with an empty data directory, in no notebook, under no name of a variable of the environment."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    monkeypatch.delenv("AGENT_KERNEL_AUTHOR", raising=False)


class Ran:
    """How a command ended, and what it printed."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `agent-kernel` in this process."""
    from agent_kernel.__main__ import main

    def run(*words: object) -> Ran:
        capsys.readouterr()
        status = main([str(word) for word in words])
        printed = capsys.readouterr()
        return Ran(status, printed.out, printed.err)

    return run


@pytest.fixture
def wait(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Moves this process's clock on by so many seconds: no test is to run a race against a short time that ends."""

    def moved(name: str, by: float) -> None:
        was = getattr(time, name)
        monkeypatch.setattr(time, name, lambda: was() + by)

    def move(seconds: float) -> None:
        moved("time", seconds)
        moved("monotonic", seconds)
        moved("time_ns", int(seconds * 10**9))

    return move


@pytest.fixture(scope="module", autouse=True)
def quick_collections() -> None:
    """Leave out of garbage collections what was there before: IPython makes one as each shell ends.

    Beside the libraries that earlier tests imported, one takes half a second. What cells of those left open is closed here.
    """
    _collect_and_freeze()


def _collect_and_freeze() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()
    _FROZEN["modules"] = len(sys.modules)


_FROZEN = {"modules": 0}
_MANY_MODULES: Final = 100  # that a library brings; a test that imports fewer leaves little to look at


@pytest.fixture(autouse=True)
def quick_collections_after_imports(quick_collections: None) -> None:
    """The same, where a test of the file has imported a library since."""
    if len(sys.modules) > _FROZEN["modules"] + _MANY_MODULES:
        _collect_and_freeze()


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """No test leaves a step that runs, or another `__main__`: the next one would be told what it is not.

    Threads that steps left may live on, and are nobody's then: else what the next tests patch is put back.
    """
    main = sys.modules["__main__"]
    yield
    assert sys.modules["__main__"] is main
    if side_effects := sys.modules.get("agent_kernel.agents.side_effects"):
        going_on: list[Any] = vars(side_effects)["_audit"].recording
        until = time.monotonic() + 10
        while going_on and time.monotonic() < until:
            time.sleep(0.01)
        frames = sys._current_frames()
        assert not going_on, [traceback.format_stack(frames.get(one.thread)) for one in going_on]
        vars(side_effects)["_audit"].started.clear()
        vars(side_effects)["_audit"].gated.clear()
    if rights := sys.modules.get("agent_kernel.agents.rights"):
        noted: Any = vars(rights)["_noted"]
        noted.is_lingering = False  # else the next step puts back what the next test patched before it
        noted.objects.clear()


@pytest.fixture
def safe_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be forked: other tests of it may have left what forbids that, and these forks use nothing of it.

    Each test puts the same functions there: where others stand, the next step notes the code of all agents anew.
    """
    from agent_kernel.agents import preview as previews

    _LEFT.clear()
    _LEFT.update(threading.enumerate())
    _KNOWN.setdefault("thread", previews._is_known)
    monkeypatch.setattr(previews, "_is_known", _is_left_or_known)
    monkeypatch.setattr(previews, "_openmp", _allow)
    monkeypatch.setattr(previews, "_pools", _allow)


_LEFT: WeakSet[threading.Thread] = WeakSet()
_KNOWN: dict[str, Callable[[threading.Thread], bool]] = {}


def _is_left_or_known(thread: threading.Thread) -> bool:
    return thread in _LEFT or _KNOWN["thread"](thread)


def _allow() -> str:
    return ""


def pytest_configure() -> None:
    """Let interrupts be heard: a shell without job control lets what it starts in the background ignore them.

    How fast Hypothesis makes and runs its examples says how busy the machine is, and nothing of what is tested.
    """
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_WITHOUT_AGENTS = tuple(f"tests/{name}/" for name in ("fidelity", "repository", "session", "storage", "values"))
_WITH_PROCESSES = tuple(f"tests/{name}/" for name in ("outside", "packaging", "server"))  # each test takes seconds


_ONE_SERVER: Final = "tests/server/"  # one process runs them all, so that it is started once


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    _leave_most_cases_to_the_slow_tests(items)
    yield
    _place(items)


def _leave_most_cases_to_the_slow_tests(items: Sequence[pytest.Item]) -> None:
    """Of long lists: these cases vary what the others show to hold."""
    cases: dict[str, list[pytest.Function]] = {}
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and item.get_closest_marker("sampled")
            and not item.get_closest_marker("slow")
        ):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for test, every in cases.items():
        sample = _sample_of(test, every)
        for nth, item in enumerate(every):
            if nth not in sample:
                item.add_marker(pytest.mark.slow)


_SHORT: Final = 4  # values of a dimension, each of which is looked at


def _sample_of(test: str, cases: Sequence[pytest.Function]) -> set[int]:
    """One case of four, of a longer list one of six or eight, and never none.

    Which one of them it is changes along the list and from test to test, so that of a list which several tests go through
    more is looked at. Of a matrix each value of each dimension is there, unless it is a long list itself.
    """
    every = min(len(cases), 4 if len(cases) <= 24 else 6 if len(cases) <= 96 else 8)
    sample = {nth for nth in range(len(cases)) if (nth + nth // every + crc32(test.encode())) % every == 0}
    for values in zip(*map(_values_of, cases), strict=True):
        found = {values[nth] for nth in sample}
        if len(set(values)) <= max(_SHORT, len(sample)) and len(set(values)) < len(cases):
            for nth, value in enumerate(values):
                if value not in found:
                    sample.add(nth)
                    found.add(value)
    return sample


def _values_of(case: pytest.Function) -> tuple[int, ...]:
    """The ids of the values of its parameters: cases that have one share it."""
    return tuple(map(id, case.callspec.params.values())) if hasattr(case, "callspec") else ()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage meanwhile: what is imported and collected here stays, and each process looks at all of it again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def _place(items: list[pytest.Item]) -> None:
    work: Counter[str] = Counter()
    for item in items:
        work[_file_of(item.nodeid)] += 10 if item.nodeid.startswith(_WITH_PROCESSES) else 1

    def place(item: pytest.Item) -> tuple[bool, int, str]:
        file = _file_of(item.nodeid)
        return not file.startswith(_WITHOUT_AGENTS), -work[file], file

    if not all(item.nodeid.startswith("tests/e2e/") for item in items):
        items.sort(key=place)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True, wrapper=True)
def pytest_timeout_set_timer() -> Generator[None, object, object]:
    """Let the handler that ends a test in time be a function that holds nothing.

    As each cell begins, a notebook follows what handlers of signals hold. pytest-timeout's is a closure over the test, and
    through it over thousands of objects of pytest's, of earlier tests and of the notebook itself.
    """
    was_set = yield
    handler = signal.getsignal(signal.SIGALRM)
    if callable(handler) and handler is not _end_test:
        _END_OF_TEST["handler"] = handler
        signal.signal(signal.SIGALRM, _end_test)
    return was_set


_END_OF_TEST: dict[str, Callable[[int, FrameType | None], object]] = {}


def _end_test(number: int, frame: FrameType | None) -> None:
    _END_OF_TEST["handler"](number, frame)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling:
    # Not --dist loadgroup: it writes its groups into names that pytest 9.2 no longer reads.
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(_ONE_SERVER):
                return _ONE_SERVER
            if not nodeid.startswith("tests/e2e/"):
                return _file_of(nodeid)
            return "notebook" if "notebook" in nodeid.partition("[")[2] else _file_of(nodeid)

    config.option.loadscopereorder = False  # they are in order already
    return ByFile(config, log)
