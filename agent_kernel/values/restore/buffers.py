"""Stored bytes, read into the memory that they are for."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Protocol

from agent_kernel.values.introspection import address_of_bytes, copy_memory

if TYPE_CHECKING:
    import numpy as np


class StoredBytes(Protocol):
    """A buffer that is read when it is known what it is for."""

    @property
    def size(self) -> int: ...

    def read_into(self, target: memoryview) -> None: ...


def memory(buffer: StoredBytes) -> np.ndarray[Any, Any]:
    """Plain writable bytes that several views share."""
    import numpy as np

    made: np.ndarray[Any, Any] = filled(np.empty(buffer.size, np.uint8), buffer)
    return made


def filled(made: Any, buffer: StoredBytes) -> Any:
    """Read straight into a new array, so that it owns its memory as the stored one did."""
    import numpy as np

    if made.nbytes:
        flat = made if made.flags.c_contiguous else made.T
        buffer.read_into(memoryview(flat.reshape(-1).view(np.uint8)))
    return made


def fresh_memory(buffer: StoredBytes) -> Any:
    """Writable memory for a library's own reducer; not zeroed first where numpy can be had."""
    try:
        return memory(buffer)
    except ImportError:
        return bytes_of(buffer)


def bytes_of(buffer: StoredBytes) -> bytearray:
    made = bytearray(buffer.size)
    buffer.read_into(memoryview(made))
    return made


def exact_bytes(buffer: StoredBytes) -> bytes:
    """Bytes, read straight into the object: it is new, and nothing else has it yet (see `PyBytes_FromStringAndSize`)."""
    made: bytes = copy_memory(None, buffer.size)  # of nothing: what is in it does not matter yet
    buffer.read_into(memoryview((ctypes.c_char * buffer.size).from_address(address_of_bytes(made))).cast("B"))
    return made
