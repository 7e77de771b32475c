"""Where a fork of this process is not safe there is no preview, and what stands in the way is named."""

from __future__ import annotations

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent_kernel.agents.preview import forking, preview
from agent_kernel.errors import PreviewRefusedError
from agent_kernel.session import Versioned

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def test_a_thread_that_nobody_knows_is_named_and_the_fork_denied(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="downloader")
    thread.start()
    try:
        with pytest.raises(PreviewRefusedError) as caught:
            preview("x = 1", state)
    finally:
        gate.set()
        thread.join()
    assert "thread 'downloader' runs" in str(caught.value)
    assert "agent_kernel.race" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_threads_of_our_own_do_not_stand_in_the_way(state: Versioned) -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="agent-kernel models")
    thread.start()
    try:
        preview("x = 1", state).reject()
    finally:
        gate.set()
        thread.join()


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
            with pytest.raises(PreviewRefusedError, match="'pool_0'"):
                preview("x = 1", state)
        finally:
            gate.set()
        assert working.result()


def test_a_library_with_a_pool_of_its_own_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", type(sys)("jax"))
    with pytest.raises(PreviewRefusedError, match="jax is loaded"):
        preview("x = 1", state)


def test_from_a_thread_there_is_no_preview(state: Versioned) -> None:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(forking.refusal()), name="aside")
    thread.start()
    thread.join()
    assert "'aside'" in found[0]


def test_openmp_with_several_threads_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forking, "_pools", lambda: "")
    monkeypatch.setattr(forking, "_mapped_openmp", lambda: {"/lib/libgomp.so.1"})
    monkeypatch.setattr(forking, "_native_threads", lambda: True)
    monkeypatch.setattr(forking, "_most_threads", lambda _: 4)
    with pytest.raises(PreviewRefusedError, match="OpenMP runs 4 threads"):
        preview("x = 1", state)
    monkeypatch.setattr(forking, "_most_threads", lambda _: 1)
    preview("x = 1", state).reject()


def test_cuda_in_use_is_refused(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cuda:
        @staticmethod
        def is_initialized() -> bool:
            return True

    monkeypatch.setitem(sys.modules, "torch", type("torch", (), {"cuda": Cuda}))
    with pytest.raises(PreviewRefusedError, match="CUDA is in use"):
        preview("x = 1", state)


def test_a_system_that_cannot_fork_says_so(state: Versioned, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "fork")
    with pytest.raises(PreviewRefusedError, match="this system cannot fork"):
        preview("x = 1", state)
