"""Save and restore the state of the random generators that code uses without naming them.

Python's and numpy's global generators, and torch's, where they are loaded: running a cell again after a rollback then
gives the same numbers. The format is msgpack, not pickle, so that it can be read without trust.
"""

from __future__ import annotations

import array
import random
import sys
from typing import Any

import msgspec
from xxhash import xxh3_128_digest


class RandomState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Generator states as bytes; None where the library was not loaded."""

    version: int = 3
    words: bytes = b""
    gauss: float | None = None
    numpy: tuple[str, bytes, int, int, float] | None = None
    torch: bytes | None = None


def capture() -> bytes:
    """The stored bytes of the generators' state, some 5 kB."""
    version, words, gauss = random.getstate()
    return msgspec.msgpack.encode(
        RandomState(version, array.array("I", words).tobytes(), gauss, _numpy_state(), _torch_state())
    )


def digest(state: bytes) -> bytes:
    return xxh3_128_digest(state)


def restore(payload: bytes) -> None:
    """Put the generators into a stored state; libraries that are not loaded now are left alone."""
    state = msgspec.msgpack.decode(payload, type=RandomState)
    words = array.array("I")
    words.frombytes(state.words)
    random.setstate((state.version, tuple(words), state.gauss))
    numpy_random = _loaded("numpy.random")
    if numpy_random is not None and state.numpy is not None:
        name, keys, position, has_gauss, cached = state.numpy
        unpacked = sys.modules["numpy"].frombuffer(keys, "uint32")
        numpy_random.set_state((name, unpacked, position, has_gauss, cached))
    torch = _loaded("torch")
    if torch is not None and state.torch is not None:
        torch.set_rng_state(torch.frombuffer(bytearray(state.torch), dtype=torch.uint8))


def _loaded(name: str) -> Any:
    """A library that the user has loaded, and finished loading."""
    module: Any = sys.modules.get(name)
    ready = {"numpy.random": "get_state", "torch": "get_rng_state"}[name]
    return module if module is not None and hasattr(module, ready) else None


def _numpy_state() -> tuple[str, bytes, int, int, float] | None:
    numpy_random = _loaded("numpy.random")
    if numpy_random is None:
        return None
    name, keys, position, has_gauss, cached = numpy_random.get_state()
    return name, keys.tobytes(), int(position), int(has_gauss), float(cached)


def _torch_state() -> bytes | None:
    torch = _loaded("torch")
    if torch is None:
        return None
    state: bytes = torch.get_rng_state().numpy().tobytes()
    return state
