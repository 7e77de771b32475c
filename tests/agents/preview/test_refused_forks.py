"""Where a fork of this process is not safe nothing is forked, what stands in the way is named, and a fresh process tries it instead."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
from pydantic import BaseModel

from agent_kernel.agents import preview as previews
from agent_kernel.agents.preview import preview
from agent_kernel.errors import PreviewRefusedError
from agent_kernel.quiet import Repeated
from agent_kernel.session import Versioned
from tests.agents.preview.seen import told

pytestmark = [
    pytest.mark.sampled,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
]


def refused(state: Versioned) -> str:
    """Why nothing is forked. Where another process can load the state, it tries the code; else nobody does."""
    if not state.repo.store.url.startswith("memory:"):
        seen = preview("x = 1", state)
        assert (told(seen), seen.told, "x" in state) == ([("+", "x")], "", False)
        seen.accept()
        assert state["x"] == 1
        return previews.fork_refusal()
    with pytest.raises(PreviewRefusedError) as caught:
        preview("x = 1", state)
    assert str(caught.value).endswith("use %%agent --fork 1 instead")
    assert "a store in memory is seen by this process alone" in str(caught.value)
    return str(caught.value)


@pytest.fixture(autouse=True)
def without_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have loaded a library with threads of its own, for which every fork is refused."""
    for name in previews._POOLS:
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_thread_that_nobody_knows_is_named_and_the_fork_denied(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="downloader")
    thread.start()
    try:
        said = refused(state)
    finally:
        gate.set()
        thread.join()
    assert "thread 'downloader' runs" in said
    assert "\n" not in said


def test_threads_of_our_own_do_not_stand_in_the_way(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="agent-kernel models")
    thread.start()
    try:
        preview("x = 1", state).reject()
    finally:
        gate.set()
        thread.join()


def test_a_thread_of_ours_that_is_at_work_does(state: Versioned) -> None:
    begun, gate = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        gate.wait()

    thread = Repeated("watch", work, 0.0)
    begun.wait()
    try:
        assert "thread 'agent-kernel watch' runs" in refused(state)
    finally:
        gate.set()
        thread.join()
    preview("x = 1", state).reject()


class Note(BaseModel):
    id: str = ""
    stars: int = 0
    coalesce_s: ClassVar[float] = 30.0


def test_records_that_are_watched_and_an_update_that_waits_do_not_stand_in_the_way(state: Versioned) -> None:
    notes = state.repo.records(Note)
    notes.put(Note(id="a"))
    with notes.watch("*", lambda _: None):
        notes.update("a", stars=1)
        assert previews.fork_refusal() == ""
        preview("x = 1", state).reject()
    assert notes.get("a").stars == 1


def test_a_pool_without_work_does_not_either_but_one_at_work_does(state: Versioned) -> None:
    gate = threading.Event()
    with ThreadPoolExecutor(1, "pool") as pool:
        pool.submit(int).result()
        preview("x = 1", state).reject()
        begun = threading.Event()

        def work() -> bool:
            begun.set()
            return gate.wait()

        working = pool.submit(work)
        begun.wait()
        try:
            assert "'pool_0'" in refused(state)
        finally:
            gate.set()
        assert working.result()


def test_a_library_with_a_pool_of_its_own_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", type(sys)("jax"))
    assert "jax is loaded" in refused(state)


def test_from_a_thread_there_is_no_preview(state: Versioned) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(previews.fork_refusal()), name="aside")
    thread.start()
    thread.join()
    assert "'aside'" in found[0]


def test_openmp_with_several_threads_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(previews, "_pools", lambda: "")
    monkeypatch.setattr(previews, "_find_mapped_openmp", lambda: {"/lib/libgomp.so.1"})
    monkeypatch.setattr(previews, "_native_threads", lambda: True)
    monkeypatch.setattr(previews, "_most_threads", lambda _: 4)
    assert "OpenMP runs 4 threads" in refused(state)
    monkeypatch.setattr(previews, "_most_threads", lambda _: 1)
    preview("x = 1", state).reject()


def test_cuda_in_use_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True

    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"cuda": Cuda}))
    assert "CUDA is in use" in refused(state)


def test_a_system_that_cannot_fork_says_so(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    assert "this system cannot fork" in refused(state)
