"""An extension type that nobody made ready: it has no method resolution order, as f2py's `fortran` in scipy before 1.14."""

from __future__ import annotations

import ctypes

_WORDS = 128  # more than a PyTypeObject has
_IMMORTAL = 1 << 20
_TP_NAME, _TP_BASICSIZE = 3, 4  # words into PyTypeObject


def unready_object() -> object:
    """An object of a new type of this kind, which stays for as long as the process does."""
    name = ctypes.create_string_buffer(b"unready")
    kind = (ctypes.c_ssize_t * _WORDS)(_IMMORTAL, id(type))
    kind[_TP_NAME], kind[_TP_BASICSIZE] = ctypes.addressof(name), object.__basicsize__
    made = (ctypes.c_ssize_t * 2)(_IMMORTAL, ctypes.addressof(kind))
    for kept in (name, kind, made):  # the interpreter lists the type once it is ready
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    pointer = ctypes.pointer(ctypes.c_void_p(ctypes.addressof(made)))
    found: object = ctypes.cast(pointer, ctypes.POINTER(ctypes.py_object))[0]
    assert type.__dict__["__mro__"].__get__(type(found)) is None
    return found
