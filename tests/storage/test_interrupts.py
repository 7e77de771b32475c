"""An interrupt leaves a store as usable as it was, wherever it comes."""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from agent_kernel.storage import LmdbStore, lmdb
from agent_kernel.storage.lmdb import Gate


class _InterruptedAt:
    """Raises KeyboardInterrupt at the nth line of the gate that is run."""

    def __init__(self, nth: int) -> None:
        self.left = nth

    def __call__(self, frame: FrameType, event: str, _arg: object) -> Any:
        code = frame.f_code
        is_of_gate = code.co_qualname.startswith("Gate.") or code.co_name in ("_lock", "_is_held")
        if not (is_of_gate and code.co_filename.endswith("lmdb.py")):
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self

    def __enter__(self) -> None:
        self.before = sys.gettrace()
        sys.settrace(self)

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)


def test_wherever_a_read_is_interrupted_nobody_is_left_inside(tmp_path: Path) -> None:
    with closing(LmdbStore(tmp_path / "store")) as store:
        store.put_many({b"k": b"v"})
        (env,) = (one for one in lmdb._environments.values() if one.folder == tmp_path / "store")
        nth = 0
        while True:
            nth += 1
            at = _InterruptedAt(nth)
            try:
                with at:
                    store.get_many([b"k"])
            except KeyboardInterrupt:
                pass
            assert env.gate.seize(0), nth
            env.gate.release()
            if at.left > 0:
                break
        assert nth > 1


def test_wherever_somebody_who_wants_to_be_alone_is_interrupted_others_get_in(tmp_path: Path) -> None:
    gate, inside, nth = Gate(), 0, 0
    while True:
        nth += 1
        at = _InterruptedAt(nth)
        try:
            with at:
                gate.seize(0)
        except KeyboardInterrupt:
            pass
        gate.release()

        def enter() -> None:
            nonlocal inside
            with gate.way:
                inside += 1

        other = threading.Thread(target=enter, daemon=True)
        other.start()
        other.join(30)
        assert inside == nth
        if at.left > 0:
            break
    assert nth > 1


def test_who_comes_and_goes_without_a_pause_keeps_nobody_waiting() -> None:
    gate, ended = Gate(), threading.Event()

    def come_and_go() -> None:
        while not ended.is_set():
            with gate.way:
                pass

    busy = threading.Thread(target=come_and_go)
    busy.start()
    try:
        for _ in range(20):
            assert gate.seize(30)
            assert not gate.seize(0), "nor does the same thread get in twice"
            gate.release()
    finally:
        ended.set()
        busy.join()


@pytest.mark.parametrize("inside", [True, False])
def test_one_who_is_inside_cannot_be_alone(inside: bool) -> None:
    gate = Gate()
    if inside:
        with gate.way, gate.way:
            assert not gate.seize(30)
    else:
        with gate.way:
            pass
        assert gate.seize(30)
