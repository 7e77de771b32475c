"""Whether two loaded values are equal, within a tolerance; and the child process that loads and compares them.

Values are somebody's: loading them, and each `==`, may run their code, take for ever or end the process. So they are compared
in a process of their own, one after another, and each answer is written as soon as it is known. They are the same where pickle
would save the same of them: `==` is asked only where the content of a library's object differs or cannot be read.
"""

from __future__ import annotations

import copyreg
import json
import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, ModuleType
from typing import Any, Final, NamedTuple, TypeAlias

_LARGEST_COUNT: Final = 2.0**53  # above it not every whole number is a float
_MOST_STEPS: Final = 2_000_000
_DEEPEST: Final = 200
_MOST_ARRAYS: Final = 300  # whose overlaps are compared
_ATOMS: Final = frozenset({int, str, bytes, bool, type(None), type(...), type(NotImplemented)})
_FLOATS: Final = frozenset({float, complex})
# Whose content decides, whatever `==` says.
_BY_CONTENT_ALONE: Final = frozenset({"__main__", "builtins", "collections", "types", "functools"})
_ADDRESS: Final = re.compile(r"0x[0-9a-fA-F]+")
_KIND_FLAGS: Final = 0xFFFF  # a generator, a coroutine …; above are the `from __future__` that it was compiled with
_OWN_OF_CLASS: Final = frozenset(
    {"__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__", "_abc_impl"}
)


@dataclass(frozen=True)
class Tolerance:
    """How far two floating-point numbers may be apart: `atol + rtol * abs(recorded)`, as NumPy has it."""

    rtol: float = 1e-9
    atol: float = 0.0

    def is_close(self, old: float, new: float) -> bool:
        if old == new or (math.isnan(old) and math.isnan(new)):
            return True
        if not (math.isfinite(old) and math.isfinite(new)):
            return False
        # Whole numbers count something, and rounding makes none of another.
        counts = old.is_integer() and new.is_integer() and max(abs(old), abs(new)) < _LARGEST_COUNT
        return abs(old - new) <= self.atol + (0.0 if counts else self.rtol * abs(old))

    def compare_arrays(self, old: Any, new: Any) -> tuple[bool, bool]:
        """Whether two arrays of floating-point numbers are equal, and whether they are so to the last bit."""
        import numpy as np

        if old.dtype.kind == "c":
            parts = [self.compare_arrays(getattr(old, part), getattr(new, part)) for part in ("real", "imag")]
            return parts[0][0] and parts[1][0], parts[0][1] and parts[1][1]
        same = ((old == new) & (np.signbit(old) == np.signbit(new))) | (np.isnan(old) & np.isnan(new))
        if same.all():
            return True, True
        was, now = np.asarray(old[~same], dtype="f8"), np.asarray(new[~same], dtype="f8")
        counts = (was == np.floor(was)) & (now == np.floor(now)) & (np.maximum(abs(was), abs(now)) < _LARGEST_COUNT)
        rtol = np.where(counts, 0.0, self.rtol)
        with np.errstate(invalid="ignore", over="ignore"):
            close = np.isfinite(was) & np.isfinite(now) & (abs(was - now) <= self.atol + rtol * abs(was))
        return bool((close | (was == now)).all()), False


class Equality(NamedTuple):
    """`is_equal`: None where it cannot be told, and `reason` says why. `is_exact`: not only within the tolerance."""

    is_equal: bool | None
    is_exact: bool = True
    reason: str = ""


class _Unknown(Exception):  # noqa: N818 - never leaves this module
    """It cannot be told whether they are equal."""


def compare_values(old: object, new: object, tolerance: Tolerance) -> Equality:
    """Whether two values are equal. Code of theirs may run."""
    comparison = _Comparison(tolerance)
    try:
        is_equal = comparison.are_equal(old, new) and (
            len(comparison.pairs_of_arrays) < 2 or comparison.share_memory_alike()
        )
    except _Unknown as unknown:
        return Equality(None, reason=str(unknown))
    except RecursionError:
        return Equality(None, reason="it is nested too deeply to compare")
    except Exception as error:  # noqa: BLE001 - anyone's code
        return Equality(None, reason=f"comparing {_name(old)} raised {type(error).__name__}")
    return Equality(bool(is_equal), comparison.is_exact)


def _kind(value: object) -> type:
    return type(value)


def _name(value: object) -> str:
    kind = _kind(value)
    return kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"


class _Comparison:
    """Compares what pickle would save of two values. Only floats within the tolerance, and the order of sets, may differ."""

    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._partners: dict[tuple[int, int], int] = {}  # by side and id: the object that stands in its place
        self._trail: list[tuple[int, int]] = []  # the keys of that, so that an attempt can be taken back
        self._alive: list[object] = []  # what was made on the way: no id may be given again
        self.pairs_of_arrays: list[tuple[Any, Any]] = []
        self._steps = 0
        self.is_exact = True

    def are_equal(self, old: Any, new: Any, depth: int = 0) -> bool:
        self._steps += 1
        if self._steps > _MOST_STEPS or depth > _DEEPEST:
            raise _Unknown("it is too large to compare")
        if not _same_type(old, new):
            return False
        if type(old) in _ATOMS:
            return bool(old == new)
        if type(old) in _FLOATS or _is_numpy_float(old):
            # Both parts, so that it is known whether one of them is only close.
            parts = [self._floats(float(old.real), float(new.real)), self._floats(float(old.imag), float(new.imag))]
            return all(parts)
        known = self._known(old, new)
        if known is not None:
            return known
        if old is new:
            return True
        if type(old).__module__ not in _BY_CONTENT_ALONE:
            return self._of_library(old, new, depth + 1)
        return self._content(old, new, depth + 1)

    def _known(self, old: Any, new: Any) -> bool | None:
        """Whether they stand in each other's place, so that all that one shares the other shares, too; None: not met yet."""
        if not _has_identity(_kind(old)):
            keys = ((2, id(old)), (3, id(new)))
            if self._partners.get(keys[0]) == id(new):
                return True
        else:
            keys = ((0, id(old)), (1, id(new)))
            if keys[0] in self._partners or keys[1] in self._partners:
                return self._partners.get(keys[0]) == id(new)
        self._partners |= {keys[0]: id(new), keys[1]: id(old)}
        self._trail += keys
        self._alive += [old, new]
        return None

    def _try(self, compare: Callable[[Any, Any, int], bool], old: Any, new: Any, depth: int) -> bool:
        """Compare, and forget what was found on the way where they are not equal."""
        before = len(self._trail), len(self.pairs_of_arrays), self.is_exact
        found = False
        try:
            found = compare(old, new, depth)
        finally:
            if not found:
                for key in self._trail[before[0] :]:
                    self._partners.pop(key, None)
                del self._trail[before[0] :], self.pairs_of_arrays[before[1] :]
                self.is_exact = before[2]
        return found

    def share_memory_alike(self) -> bool:
        """Whether arrays that overlap on one side do so on the other."""
        import numpy as np

        pairs = self.pairs_of_arrays[:_MOST_ARRAYS]
        return all(
            np.may_share_memory(old, other_old) == np.may_share_memory(new, other_new)
            for at, (old, new) in enumerate(pairs)
            for other_old, other_new in pairs[:at]
        )

    def _of_library(self, old: Any, new: Any, depth: int) -> bool:
        """By content, and where that differs or cannot be read, by what a library's `==` says."""
        try:
            if self._try(self._content, old, new, depth):
                return True
            unknown = None
        except _Unknown as raised:
            unknown = raised
        defines_equality = _equality_of(type(old)) is not _equality_of(object)
        try:
            found: object = old == new if defines_equality else None
        except Exception as error:  # noqa: BLE001 - anyone's code
            found = None
            unknown = unknown and _Unknown(f"{unknown}, and its == raised {type(error).__name__}")
        if found is True:
            self.is_exact = False
            return True
        if unknown is not None and found is not False:
            raise unknown
        return False

    def _content(self, old: Any, new: Any, depth: int) -> bool:
        if type(old) in (list, tuple):
            return self.sequences(old, new, depth)
        if _kind(old) is dict:
            return self.mappings(old, new, depth)
        for base in type(old).__mro__:
            compare = _BY_LIBRARY.get(base.__module__.partition(".")[0])
            found = compare(self, old, new, depth) if compare is not None else None
            if found is not None:
                return bool(found)
        for kinds, compare in _BY_KIND:
            if isinstance(old, kinds):
                return bool(compare(self, old, new, depth))
        return self._as_pickled(old, new, depth)

    def _floats(self, old: float, new: float) -> bool:
        if (old == new and math.copysign(1, old) == math.copysign(1, new)) or (math.isnan(old) and math.isnan(new)):
            return True
        self.is_exact = False
        return self._tolerance.is_close(old, new)

    def sequences(self, old: Sequence[Any], new: Sequence[Any], depth: int) -> bool:
        return len(old) == len(new) and all(
            self.are_equal(one, other, depth) for one, other in zip(old, new, strict=True)
        )

    def mappings(self, old: Mapping[Any, Any], new: Mapping[Any, Any], depth: int) -> bool:
        return self.sequences(list(old), list(new), depth) and self.sequences(
            list(old.values()), list(new.values()), depth
        )

    def sets(self, old: AbstractSet[Any], new: AbstractSet[Any], depth: int) -> bool:
        if len(old) != len(new):
            return False
        unmatched = {one: one for one in new}
        rest: list[Any] = []
        for one in old:
            if type(one) in _ATOMS and one in unmatched:
                if type(unmatched.pop(one)) is not type(one):
                    return False
            else:
                rest.append(one)
        others = sorted(unmatched, key=_order_of)
        for one in sorted(rest, key=_order_of):
            at = next((at for at, other in enumerate(others) if self._try(self.are_equal, one, other, depth)), None)
            if at is None:
                return False
            del others[at]
        return self._attributes(old, new, depth)

    def _attributes(self, old: Any, new: Any, depth: int) -> bool:
        return self.are_equal(getattr(old, "__dict__", None), getattr(new, "__dict__", None), depth)

    def _parts(self, names: Iterable[str], old: Any, new: Any, depth: int) -> bool:
        """These attributes of both."""
        return all(self.are_equal(getattr(old, name, None), getattr(new, name, None), depth) for name in names)

    def of_modules(self, old: ModuleType, new: ModuleType, _depth: int) -> bool:
        return old.__name__ == new.__name__

    def of_builtins(self, old: Any, new: Any, depth: int) -> bool:
        owners = [None if _is(one.__self__, ModuleType) else one.__self__ for one in (old, new)]
        return self._parts(("__qualname__", "__module__"), old, new, depth) and self.are_equal(
            owners[0], owners[1], depth
        )

    def of_functions(self, old: FunctionType, new: FunctionType, depth: int) -> bool:
        closures = [[_cell_content(cell) for cell in function.__closure__ or ()] for function in (old, new)]
        names = ("__qualname__", "__code__", "__defaults__", "__kwdefaults__", "__annotations__", "__doc__", "__dict__")
        return self._parts(names, old, new, depth) and self.sequences(closures[0], closures[1], depth)

    def of_codes(self, old: CodeType, new: CodeType, depth: int) -> bool:
        names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_consts")
        counts = ("co_kwonlyargcount", "co_posonlyargcount", "co_exceptiontable")
        return old.co_flags & _KIND_FLAGS == new.co_flags & _KIND_FLAGS and self._parts(
            (*names, *counts), old, new, depth
        )

    def of_classes(self, old: type, new: type, depth: int) -> bool:
        if old.__module__ != "__main__":
            return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
        if old.__qualname__ != new.__qualname__ or not self.sequences(old.__bases__, new.__bases__, depth):
            return False
        sides = [{name: value for name, value in vars(one).items() if _is_own(name, value)} for one in (old, new)]
        self._alive += sides
        return self.mappings(sides[0], sides[1], depth)

    def of_properties(self, old: property, new: property, depth: int) -> bool:
        return self._parts(("fget", "fset", "fdel", "__doc__"), old, new, depth)

    def of_wrapped(self, old: Any, new: Any, depth: int) -> bool:
        return self.are_equal(old.__func__, new.__func__, depth)

    def _as_pickled(self, old: Any, new: Any, depth: int) -> bool:
        if type(old) is object:
            return True
        try:
            reduce = copyreg.dispatch_table.get(_kind(old))
            sides: list[Any] = [one.__reduce_ex__(4) if reduce is None else reduce(one) for one in (old, new)]
        except Exception:  # noqa: BLE001 - anyone's code
            raise _Unknown(f"the content of {_name(old)} cannot be read") from None
        if any(_is(side, str) for side in sides):
            return bool(sides[0] == sides[1])
        parts = [[list(part) if hasattr(part, "__next__") else part for part in side] for side in sides]
        self._alive += [sides, parts]
        return self.sequences(parts[0], parts[1], depth)

    # -- libraries

    def of_numpy(self, old: Any, new: Any, depth: int) -> bool | None:
        import numpy as np

        if _is(old, np.ma.MaskedArray):
            parts = self.are_equal(np.ma.getdata(old), np.ma.getdata(new), depth)
            masks = self._in_numpy(np.ma.getmaskarray(old), np.ma.getmaskarray(new), depth)
            return parts and masks and self._parts(("fill_value", "hardmask"), old, new, depth)
        if _is(old, np.ndarray):
            self.pairs_of_arrays.append((old, new))
            return self._in_numpy(np.asarray(old), np.asarray(new), depth) and self._attributes(old, new, depth)
        if _is(old, np.void):
            return self._in_numpy(np.asarray(old), np.asarray(new), depth)
        return bool(old.dtype == new.dtype and old.tobytes() == new.tobytes()) if _is(old, np.generic) else None

    def _in_numpy(self, old: Any, new: Any, depth: int) -> bool:
        if old.shape != new.shape or old.flags.fnc != new.flags.fnc or not self.are_equal(old.dtype, new.dtype, depth):
            return False
        if old.dtype.names:
            return all(self._in_numpy(old[name], new[name], depth) for name in old.dtype.names)
        if old.dtype.hasobject or old.dtype.kind == "T":
            return self.sequences(old.ravel().tolist(), new.ravel().tolist(), depth)
        if old.tobytes() == new.tobytes():
            return True
        if old.dtype.kind not in "fc":
            return False
        is_equal, is_exact = self._tolerance.compare_arrays(old, new)
        self.is_exact = self.is_exact and is_exact
        return is_equal

    def of_pandas(self, old: Any, new: Any, depth: int) -> bool | None:
        import pandas as pd

        if _is(old, pd.DataFrame, pd.Series):
            if old.shape != new.shape or not self._parts(("index", "attrs", "flags", *old._metadata), old, new, depth):
                return False
            if _is(old, pd.Series):
                return self.are_equal(old.array, new.array, depth)
            return self.are_equal(old.columns, new.columns, depth) and all(
                self.are_equal(old.iloc[:, at].array, new.iloc[:, at].array, depth) for at in range(old.shape[1])
            )
        if type(old).__name__ == "Flags":
            return bool(old.allows_duplicate_labels == new.allows_duplicate_labels)
        if isinstance(old, pd.MultiIndex):
            sides = [[list(getattr(one, part)) for part in ("names", "levels", "codes")] for one in (old, new)]
            self._alive += sides
            return self.sequences(sides[0], sides[1], depth)
        if isinstance(old, pd.RangeIndex):
            return self._parts(("name", "start", "stop", "step"), old, new, depth)
        if isinstance(old, pd.Index):
            return self._parts(("name", "freq", "array"), old, new, depth)
        if isinstance(old, pd.arrays.NumpyExtensionArray):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self.are_equal(old.to_numpy(), new.to_numpy(), depth)
        if isinstance(old, _masked_arrays()):  # what stands under the mask is nobody's
            both: tuple[Any, Any] = (old, new)
            data = [one._data[~one._mask] for one in both]
            return self._parts(("dtype", "_mask"), old, new, depth) and self.are_equal(data[0], data[1], depth)
        return None

    def of_polars(self, old: Any, new: Any, depth: int) -> bool | None:
        import polars as pl

        if isinstance(old, pl.DataFrame):
            return list(old.schema.items()) == list(new.schema.items()) and all(
                self.are_equal(old[name], new[name], depth) for name in old.columns
            )
        if isinstance(old, pl.Series):
            if old.equals(new, check_dtypes=True, check_names=True):
                return True
            is_alike = old.dtype == new.dtype and old.name == new.name
            return is_alike and self.sequences(old.to_list(), new.to_list(), depth)
        return None

    def of_torch(self, old: Any, new: Any, depth: int) -> bool | None:
        import torch

        if not isinstance(old, torch.Tensor):
            return None
        if not self._parts(("shape", "dtype", "requires_grad", "device", "layout"), old, new, depth):
            return False
        dense = [one.detach().cpu().resolve_conj().to_dense() for one in (old, new)]
        if old.dtype in (torch.bfloat16, torch.float16):
            dense = [one.float() for one in dense]
        return self._in_numpy(dense[0].numpy(), dense[1].numpy(), depth) and self._attributes(old, new, depth)

    def of_scipy(self, old: Any, new: Any, depth: int) -> bool | None:
        if not hasattr(old, "tocoo"):
            return None
        sides = [one.tocoo() for one in (old, new)]
        return old.shape == new.shape and self._parts(("row", "col", "data"), sides[0], sides[1], depth)

    def of_ipywidgets(self, old: Any, new: Any, depth: int) -> bool | None:
        """By what a front end shows of them; the ids of their models are others in each run."""
        if not hasattr(old, "get_state"):
            return None
        names = sorted(old.keys)
        return names == sorted(new.keys) and self._parts(names, old, new, depth)

    def of_pyarrow(self, old: Any, new: Any, depth: int) -> bool | None:
        pa: Any = sys.modules["pyarrow"]  # it has no types

        if isinstance(old, (pa.Schema, pa.Field)):
            return bool(old.equals(new, check_metadata=True))
        if isinstance(old, (pa.Table, pa.RecordBatch)):
            return self.are_equal(old.schema, new.schema, depth) and self.sequences(old.columns, new.columns, depth)
        if isinstance(old, (pa.Array, pa.ChunkedArray)):
            alike = old.type == new.type and len(old) == len(new)
            return alike and (old.equals(new) or self.sequences(old.to_pylist(), new.to_pylist(), depth))
        if isinstance(old, pa.Scalar):
            return old.type == new.type and self.are_equal(old.as_py(), new.as_py(), depth)
        return bool(old.equals(new)) if hasattr(old, "equals") else None


_Compare: TypeAlias = Callable[[_Comparison, Any, Any, int], Any]
_BY_LIBRARY: Final[dict[str, _Compare]] = {
    "numpy": _Comparison.of_numpy,
    "pandas": _Comparison.of_pandas,
    "polars": _Comparison.of_polars,
    "torch": _Comparison.of_torch,
    "scipy": _Comparison.of_scipy,
    "pyarrow": _Comparison.of_pyarrow,
    "ipywidgets": _Comparison.of_ipywidgets,
}
_BY_KIND: Final[tuple[tuple[Any, _Compare], ...]] = (
    ((set, frozenset), _Comparison.sets),
    (ModuleType, _Comparison.of_modules),
    (FunctionType, _Comparison.of_functions),
    (CodeType, _Comparison.of_codes),
    (type, _Comparison.of_classes),
    (BuiltinFunctionType, _Comparison.of_builtins),
    (property, _Comparison.of_properties),
    ((classmethod, staticmethod), _Comparison.of_wrapped),
    (MappingProxyType, _Comparison.mappings),
)


def _masked_arrays() -> tuple[type, ...]:
    import pandas as pd

    return pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray


def _is_numpy_float(value: object) -> bool:
    np = sys.modules.get("numpy")
    return np is not None and isinstance(value, np.inexact) and type(value).__module__ == "numpy"


def _has_identity(kind: type) -> bool:
    """Whether it matters that two are one object; of values that never change it does not."""
    if issubclass(kind, (tuple, frozenset, type, ModuleType)):
        return False
    is_frozen = kind.__hash__ is not None and _equality_of(kind) is not _equality_of(object)
    return not is_frozen or kind.__module__ == "__main__" or kind.__name__ in ("DataFrame", "Series")


def _order_of(value: object) -> tuple[str, str]:
    """So that those that are equal stand at about the same place."""
    try:
        return type(value).__qualname__, _ADDRESS.sub("", repr(value))
    except Exception:  # noqa: BLE001 - anyone's code
        return type(value).__qualname__, ""


def _is(value: object, *kinds: type) -> bool:
    """`isinstance`, after which a type checker knows as much as before."""
    return isinstance(value, kinds)


def _equality_of(kind: Any) -> object:
    return kind.__eq__


def _same_type(old: object, new: object) -> bool:
    one: type = type(old)
    other: type = type(new)
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _cell_content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled
        return None


def _is_own(name: str, value: object) -> bool:
    return name not in _OWN_OF_CLASS and type(value).__name__ not in ("getset_descriptor", "member_descriptor")


# -- the child process: which pairs, on standard input; answers, a line each, on standard output


def main() -> None:
    """Load and compare pairs of values, and write an answer for each.

    The input is a JSON object: `sides`, for each a URL, a secret or null and whether to load plain data alone, and then `pairs`
    of a name and two commits.
    """
    import os

    from agent_kernel.errors import LoadError
    from agent_kernel.session import Repository, Snapshot, trust

    request = json.loads(sys.stdin.read())
    # What values print as they are loaded is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for side in request["sides"]:
        if side["secret"]:
            trust.trust_temporarily(side["secret"], side["url"])
    repos = [Repository.open(side["url"], create=False) for side in request["sides"]]
    tolerance = Tolerance(request["rtol"], request["atol"])
    snapshots: dict[tuple[int, str], Any] = {}
    for number, (name, *commits) in enumerate(request["pairs"]):
        answers.write(json.dumps({"began": number}) + "\n")
        answers.flush()
        try:
            values: list[object] = []
            for side, commit in enumerate(commits):
                if (side, commit) not in snapshots:
                    plain = bool(request["sides"][side]["plain"])
                    snapshots[side, commit] = Snapshot(repos[side], repos[side].resolve(commit), plain=plain)
                values.append(snapshots[side, commit][name])
            found = compare_values(values[0], values[1], tolerance)
        except LoadError as error:
            found = Equality(None, reason=f"it cannot be loaded: {error.reason}")
        except Exception as error:  # noqa: BLE001 - what was stored is anyone's
            found = Equality(None, reason=f"it cannot be loaded: {error}")
        answers.write(json.dumps({"number": number, "equality": list(found)}) + "\n")
        answers.flush()
    os._exit(0)  # threads that values started are nobody's


if __name__ == "__main__":
    main()
