"""What variables are, as digests that can be compared before and after a checkout. Knows no versioning system.

Two states agree when every variable has the same type and contents, functions see the notebook's globals as they did,
arrays that could be written still can, and the same names share the same object or memory.
"""

from __future__ import annotations

import hashlib
import io
import marshal
import types
from collections.abc import Mapping
from typing import Any

_SHARING = "(sharing)"
_WRITABLE = "(writable)"
_OWN = {"In", "Out", "exit", "quit", "get_ipython", "open"}
_ATOMS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis))


def fingerprints(namespace: Mapping[str, Any], before: set[str]) -> dict[str, str]:
    """A digest for each of the user's variables, what they share, and which arrays can be written."""
    users = {name: value for name, value in list(namespace.items()) if is_users(name, before)}
    found = {name: _digest_of(value, namespace) for name, value in users.items()}
    found[_SHARING] = "; ".join(sorted(_sharing(users)))
    found[_WRITABLE] = " ".join(name for name, value in users.items() if _is_writable(value))
    return found


def _is_writable(value: object) -> bool:
    return type(value).__name__ == "ndarray" and bool(getattr(value, "flags").writeable)  # noqa: B009


def _digest_of(value: object, namespace: Mapping[str, Any]) -> str:
    try:
        return _Digest(namespace).of(value)
    except Exception as error:  # noqa: BLE001 - what stands for a lost value may raise anything
        return f"cannot be looked at: {type(error).__name__}"


def is_users(name: str, before: set[str]) -> bool:
    return not name.startswith("_") and name not in _OWN and name not in before


def differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Names that are missing, left over or unequal."""
    missing = [f"{name} missing" for name in was if name not in now]
    extra = [f"{name} left over" for name in now if name not in was]
    wrong = [name for name, digest in was.items() if name in now and now[name] != digest and name != _WRITABLE]
    lost = set(was[_WRITABLE].split()) - set(now[_WRITABLE].split())
    return missing + extra + wrong + [f"{name} read-only" for name in sorted(lost) if name in now]


def _sharing(users: Mapping[str, Any]) -> list[str]:
    groups: dict[int, list[str]] = {}
    for name, value in users.items():
        if not isinstance(value, (*_ATOMS, tuple, type, types.ModuleType)):
            groups.setdefault(id(value), []).append(name)
    found = ["=".join(sorted(names)) for names in groups.values() if len(names) > 1]
    arrays = [(name, value) for name, value in users.items() if type(value).__name__ == "ndarray"]
    for position, (name, one) in enumerate(arrays):
        for other, two in arrays[:position]:
            if one is not two and _meet(one, two):
                found.append("~".join(sorted((name, other))))
    return found


def _meet(one: Any, two: Any) -> bool:
    import numpy as np

    return bool(np.may_share_memory(one, two))


class _Digest:
    """One walk over a value. Cycles are met by the order in which objects were first seen."""

    def __init__(self, namespace: Mapping[str, Any]) -> None:
        self._namespace = namespace
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: dict[int, int] = {}
        self._kept: list[object] = []

    def of(self, value: Any) -> str:
        self._add(value)
        return self._hash.hexdigest()

    def _say(self, *parts: object) -> None:
        self._hash.update(repr(parts).encode())

    def _add(self, value: Any) -> None:
        kind = type(value)
        if isinstance(value, _ATOMS):
            return self._say(kind.__name__, value)
        if id(value) in self._seen:
            return self._say("seen", self._seen[id(value)])
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if kind in (list, tuple, dict):
            return self._plain(value)
        self._say(kind.__module__, kind.__qualname__)
        special = _SPECIAL.get(kind.__name__) if not isinstance(value, type) else None
        if isinstance(value, types.ModuleType):
            return self._say(value.__name__)
        if isinstance(value, io.IOBase):
            return self._say(getattr(value, "name", ""))
        if isinstance(value, types.FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if special is not None:
            special(self, value)
            return None
        return self._object(value)

    def _plain(self, value: Any) -> None:
        try:
            self._hash.update(marshal.dumps(value, 2))
            return
        except ValueError:
            self._say(type(value).__name__, len(value))
        for item in value.items() if isinstance(value, dict) else value:
            self._add(item)

    def _function(self, value: types.FunctionType) -> None:
        self._say(value.__qualname__)
        if value.__module__ == "__main__":
            self._say("sees the notebook", value.__globals__ is self._namespace)
            self._code(value.__code__)
            self._add(value.__defaults__)
            for held in value.__closure__ or ():
                self._add(held.cell_contents)

    def _code(self, code: types.CodeType) -> None:
        self._say(code.co_code, code.co_names, code.co_varnames)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant)
            elif not isinstance(constant, frozenset):  # their order changes from process to process
                self._say(constant)

    def _class(self, value: type) -> None:
        self._say(value.__module__, value.__qualname__)
        if value.__module__ == "__main__":
            for name, attribute in sorted(vars(value).items()):
                if isinstance(attribute, types.FunctionType):
                    self._say(name)
                    self._code(attribute.__code__)
                elif not name.startswith("__"):
                    self._say(name)
                    self._add(attribute)

    def _array(self, value: Any) -> None:
        import numpy as np

        self._say(value.dtype.str, value.shape)
        if value.dtype.names:
            for name in value.dtype.names:
                self._add(value[name])
        elif value.dtype.hasobject:
            self._add(value.tolist())
        else:
            self._hash.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)

    def _frame(self, value: Any) -> None:
        self._add(list(value.columns))
        self._add(value.index)
        for position in range(value.shape[1]):
            self._add(value.iloc[:, position])

    def _series(self, value: Any) -> None:
        import pandas as pd

        self._say(str(value.dtype), getattr(value, "name", None))
        series = value.to_series() if isinstance(value, pd.Index) else value
        try:
            self._hash.update(pd.util.hash_pandas_object(series, index=False).to_numpy().data)
        except TypeError:
            self._add(list(series))
        if not isinstance(value, pd.Index):
            self._add(value.index)

    def _set(self, value: Any) -> None:
        for digest in sorted(_Digest(self._namespace).of(item) for item in value):
            self._say(digest)

    def _figure(self, value: Any) -> None:
        self._say(len(value.axes), [len(axes.lines) + len(axes.patches) for axes in value.axes])

    def _axes(self, value: Any) -> None:
        self._say(value.get_title(), len(value.lines), len(value.patches))

    def _generator(self, value: Any) -> None:
        self._add(value.bit_generator.state)

    def _object(self, value: Any) -> None:
        state = getattr(value, "__dict__", None)
        if type(value).__module__ == "__main__":
            self._class(type(value))
        if state is None:
            try:
                reduced = value.__reduce_ex__(2)
            except Exception:  # noqa: BLE001 - what cannot be reduced is compared by its type
                return
            if isinstance(reduced, tuple):
                for part in reduced[1:3]:
                    self._add(part)
            return
        for name, held in sorted(state.items()):
            self._say(name)
            self._add(held)


_SPECIAL: dict[str, Any] = {
    "ndarray": _Digest._array,
    "DataFrame": _Digest._frame,
    "Series": _Digest._series,
    "Index": _Digest._series,
    "RangeIndex": _Digest._series,
    "DatetimeIndex": _Digest._series,
    "MultiIndex": lambda self, value: self._add(value.tolist()),
    "CategoricalIndex": _Digest._series,
    "set": _Digest._set,
    "frozenset": _Digest._set,
    "Figure": _Digest._figure,
    "Axes": _Digest._axes,
    "Generator": _Digest._generator,
}
