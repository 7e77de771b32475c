"""What the machine itself takes for the same bytes, measured in the same process as what is compared with it.

A reference is asked for as `what` or `what:NAME`, the variable that it works on.
"""

from __future__ import annotations

import gc
import os
import pickle
import time
from collections.abc import Callable
from statistics import median
from typing import Any

_PAYLOADS = (180, 420, 330, 260)  # about what the commit of a tiny cell writes: node, commit, branch, reflog


def measure(what: str, driver: Any) -> float:
    """Seconds, or bytes, of a reference."""
    kind, _, name = what.partition(":")
    return _REFERENCES[kind](driver, name)


def _durable_write(driver: Any, _: str) -> float:
    """One small transaction of the raw engine, made durable as the default store does."""
    environment = _environment(driver)
    times: list[float] = []
    for _round in range(5):
        payloads = [os.urandom(size) for size in _PAYLOADS]
        began = time.perf_counter()
        with environment.begin(write=True) as transaction:
            for payload in payloads:
                transaction.put(payload[:33], payload)
        times.append(time.perf_counter() - began)
    return median(times)


_open: dict[str, Any] = {}


def _environment(driver: Any) -> Any:
    import lmdb

    path = driver.folder / "raw"
    if str(path) not in _open:
        path.mkdir()
        _open[str(path)] = lmdb.open(str(path), map_size=1 << 40, metasync=False, writemap=False, lib_version=0)
    return _open[str(path)]


def _hash_pass(driver: Any, name: str) -> float:
    """One xxh3-128 pass over an array."""
    from xxhash import xxh3_128_digest

    view = memoryview(driver.namespace[name]).cast("B")
    return _best(lambda: xxh3_128_digest(view))


def _copy(driver: Any, name: str) -> float:
    """Copying an array into memory that was never touched."""
    import numpy as np

    source = driver.namespace[name]

    def copy() -> None:
        fresh = np.empty_like(source)
        np.copyto(fresh, source)

    return _best(copy)


def _pickle(driver: Any, name: str) -> float:
    """Pickling a value once, as plain pickle does."""
    value = driver.namespace[name]
    return _best(lambda: pickle.dumps(value, 5))


def _state_bytes(driver: Any, _: str) -> float:
    """What all variables take when plain pickle writes them once."""
    total = 0
    for value in driver.variables().values():
        try:
            total += len(pickle.dumps(value, 5))
        except Exception:  # noqa: BLE001 - what plain pickle refuses is small here
            continue
    return float(total)


def _best(work: Callable[[], object], rounds: int = 3) -> float:
    gc.collect()
    times: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _answer_bytes(_: Any, __: str) -> float:
    """Bytes of what a panel was answered last."""
    from benchmarks.histories import answered_bytes

    return float(answered_bytes())


def _switched_on(driver: Any, _: str) -> float:
    """CPU seconds of switching the system on in a fresh process."""
    return float(driver.switched_on_cpu_s)


_REFERENCES: dict[str, Callable[[Any, str], float]] = {
    "durable_write": _durable_write,
    "hash_pass": _hash_pass,
    "copy": _copy,
    "pickle": _pickle,
    "state_bytes": _state_bytes,
    "answer_bytes": _answer_bytes,
    "switched_on": _switched_on,
}
