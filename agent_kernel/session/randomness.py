"""Save and restore the state of the random generators that code uses without naming them.

Python's and numpy's global generators, and torch's, where they are loaded: running a cell again after a rollback then
gives the same numbers. The format is msgpack, not pickle, so that it can be read without trust.
"""

from __future__ import annotations

import array
import functools
import random
import sys
from collections.abc import Callable
from ctypes import string_at
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.errors import LoadError, StoreUnavailableError
from agent_kernel.repository import Kind

if TYPE_CHECKING:
    from agent_kernel.repository import ObjectId, Repository

GENERATORS = "the state of the random generators"


class RandomState(msgspec.Struct, frozen=True, omit_defaults=True):
    """Generator states as bytes; None where the library was not loaded."""

    version: int = 3
    words: bytes = b""
    gauss: float | None = None
    numpy: tuple[str, bytes, int, int, float] | None = None
    torch: bytes | None = None


def capture() -> bytes:
    """The stored bytes of the generators' state, some 5 kB."""
    state = _python_seen(), _numpy_state(), _torch_state()
    if state != _captured.state:  # most cells leave it as it is: to compare it takes a third of the time
        (version, words, gauss), (_, numpy, torch) = random.getstate(), state
        payload = msgspec.msgpack.encode(RandomState(version, array.array("I", words).tobytes(), gauss, numpy, torch))
        _captured.state, _captured.payload = state, payload
    return _captured.payload


def _python_seen() -> object:
    """What tells whether Python's generator is as it was: its numbers as they lie in memory, or else its state.

    To ask for the state makes an object of each of 625 numbers.
    """
    generator = getattr(random.getstate, "__self__", None)
    if type(generator) is not random.Random or not _knows_numbers():
        return random.getstate()
    return (
        id(generator),
        string_at(id(generator) + object.__basicsize__, _NUMBERS_BYTES),
        vars(generator).get("gauss_next"),
    )


_NUMBERS_BYTES = 625 * 4  # where the next one is, and 624 words


@functools.cache
def _knows_numbers() -> bool:
    """Whether this Python keeps a generator's numbers as we know it: tried on one."""
    size: int = random.Random.__base__.__basicsize__  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    if sys.implementation.name != "cpython" or size - object.__basicsize__ not in (_NUMBERS_BYTES, _NUMBERS_BYTES + 4):
        return False
    some = random.Random(7)
    for _ in range(2):
        some.random()
        kept = string_at(id(some) + object.__basicsize__, _NUMBERS_BYTES)
        *words, place = some.getstate()[1]
        if kept != array.array("I", [place, *words]).tobytes():
            return False
    return True


class _Captured:
    """The state that was asked for last, and its bytes."""

    state: object = None
    payload: bytes = b""


_captured = _Captured()


def prepared(payload: bytes) -> Callable[[], None]:
    """Try a stored state on generators made for it, and return what puts the real ones into it.

    Libraries that are not loaded now are left alone.

    Raises:
        Exception: whatever a library that does not know such a state raises. Nothing was changed.
    """
    state = msgspec.msgpack.decode(payload, type=RandomState)
    words = array.array("I")
    words.frombytes(state.words)
    python = state.version, tuple(words), state.gauss
    random.Random(0).setstate(python)
    puts: list[Callable[[], object]] = [lambda: random.setstate(python)]
    numpy_random = _loaded("numpy.random")
    if numpy_random is not None and state.numpy is not None:
        name, keys, position, has_gauss, cached = state.numpy
        numpys = name, sys.modules["numpy"].frombuffer(keys, "uint32"), position, has_gauss, cached
        numpy_random.RandomState(0).set_state(numpys)
        puts.append(lambda: numpy_random.set_state(numpys))
    torch = _loaded("torch")
    if torch is not None and state.torch is not None:
        torchs = torch.frombuffer(bytearray(state.torch), dtype=torch.uint8)
        torch.Generator().set_state(torchs)
        puts.append(lambda: torch.set_rng_state(torchs))

    def put() -> None:
        for one in puts:
            one()

    return put


def leave() -> None:
    """Put nothing anywhere."""


def prepare(repo: Repository, commit: ObjectId | None, *, keep: bool, partial: bool) -> tuple[Callable[[], None], str]:
    """What puts the generators into the state of a commit, and what to say of it.

    Raises:
        LoadError: there is a state that cannot be had, and `partial` does not allow to go without. Nothing was changed.
    """
    id = None if keep or commit is None else repo.commit_at(commit).random
    if id is None:
        return leave, ""
    try:
        return prepared(repo.objects.get(Kind.SMALL, id)), ""
    except StoreUnavailableError:
        raise
    except Exception as error:
        from agent_kernel.session.unloaded import told

        reason = told(error)
        if not partial:
            what, way = (GENERATORS,), "--keep-random leaves them as they are, and so does --partial"
            raise LoadError((), reason, ((what, reason),), way) from error
        return leave, f"{GENERATORS} stays as it is, for that of the commit could not be loaded: {reason}"


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
