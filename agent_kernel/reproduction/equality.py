"""Whether two loaded values are equal, within a tolerance; and the child process that loads and compares them.

Values are somebody's: loading them, and each `==`, may run their code, take for ever or end the process. So they are compared
in a process of their own, one after another, and each answer is written as soon as it is known. Objects whose class says
nothing about equality are compared by what pickle would save of them.
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

__all__ = ["Equality", "Tolerance", "compare_values", "main"]

_MOST_STEPS: Final = 2_000_000
_DEEPEST: Final = 200
_EXACT: Final = (int, str, bytes, bytearray, bool, type(None), range, slice, type(...), type(NotImplemented))
_KIND_FLAGS: Final = 0xFFFF  # a generator, a coroutine …; above are the `from __future__` that it was compiled with
_OWN_OF_CLASS: Final = frozenset(
    {"__dict__", "__weakref__", "__module__", "__doc__", "__firstlineno__", "__static_attributes__"}
)


@dataclass(frozen=True)
class Tolerance:
    """How far two floating-point numbers may be apart: `atol + rtol * abs(recorded)`, as NumPy has it."""

    rtol: float = 1e-9
    atol: float = 0.0

    def is_close(self, old: float, new: float) -> bool:
        if old == new or (math.isnan(old) and math.isnan(new)):
            return True
        return math.isfinite(old) and math.isfinite(new) and abs(old - new) <= self.atol + self.rtol * abs(old)


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
        is_equal = comparison.are_equal(old, new, 0)
    except _Unknown as unknown:
        return Equality(None, reason=str(unknown))
    except RecursionError:
        return Equality(None, reason="it is nested too deeply to compare")
    except Exception as error:  # noqa: BLE001 - anyone's code
        return Equality(None, reason=f"comparing {_name(old)} raised {type(error).__name__}")
    return Equality(bool(is_equal), comparison.is_exact)


def _name(value: object) -> str:
    kind: type = type(value)
    return kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"


class _Comparison:
    def __init__(self, tolerance: Tolerance) -> None:
        self._tolerance = tolerance
        self._seen: set[tuple[int, int]] = set()
        self._alive: list[object] = []  # what was made on the way: no id may be given again
        self._steps = 0
        self.is_exact = True

    def are_equal(self, old: Any, new: Any, depth: int) -> bool:
        if old is new:
            return True
        self._steps += 1
        if self._steps > _MOST_STEPS or depth > _DEEPEST:
            raise _Unknown("it is too large to compare")
        if not _same_type(old, new):
            return False
        if _is(old, float):
            return self._floats(float(old), float(new))  # numpy's are floats, too, and compare to booleans of its own
        if _is(old, complex):
            old, new = complex(old), complex(new)
            # Both parts, so that it is known whether one of them is only close.
            parts = [self._floats(old.real, new.real), self._floats(old.imag, new.imag)]
            return all(parts)
        if type(old) in _EXACT:
            return bool(old == new)
        pair = id(old), id(new)
        if pair in self._seen:
            return True  # if all else is
        self._seen.add(pair)
        self._alive += [old, new]
        for kind, compare in _BY_LIBRARY.items():
            if type(old).__module__.partition(".")[0] == kind:
                found = compare(self, old, new, depth)
                if found is not None:
                    return found
        return self._by_kind(old, new, depth + 1)

    def _by_kind(self, old: Any, new: Any, depth: int) -> bool:
        equality = _equality_of(type(old))
        if _is(old, list, tuple, deque) and equality in _SEQUENCES:
            return self.sequences(old, new, depth) and self._attributes(old, new, depth)
        if _is(old, Mapping) and equality in _MAPPINGS:
            return self._mappings(old, new, depth) and self._attributes(old, new, depth)
        if _is(old, AbstractSet) and equality in _SETS:
            return self._sets(old, new, depth)
        if _is(old, ModuleType):
            return bool(old.__name__ == new.__name__)
        if _is(old, FunctionType):
            return self._functions(old, new, depth)
        if _is(old, CodeType):
            return self._codes(old, new, depth)
        if _is(old, type):
            return self._classes(old, new, depth)
        if _is(old, BuiltinFunctionType):
            return bool(old.__qualname__ == new.__qualname__ and old.__module__ == new.__module__)
        if equality is not _equality_of(object):
            return self._by_equality(old, new, depth)
        return self._by_content(old, new, depth)

    def _floats(self, old: float, new: float) -> bool:
        if old == new or (math.isnan(old) and math.isnan(new)):
            return True
        self.is_exact = False
        return self._tolerance.is_close(old, new)

    def sequences(self, old: Sequence[Any], new: Sequence[Any], depth: int) -> bool:
        return len(old) == len(new) and all(
            self.are_equal(one, other, depth) for one, other in zip(old, new, strict=True)
        )

    def _mappings(self, old: Mapping[Any, Any], new: Mapping[Any, Any], depth: int) -> bool:
        if len(old) != len(new):
            return False
        if all(key in new for key in old):
            return all(self.are_equal(held, new[key], depth) for key, held in old.items())
        # Keys that are objects of the notebook's own classes are equal to nothing else: then their order tells.
        return self.sequences(list(old.items()), list(new.items()), depth)

    def _sets(self, old: AbstractSet[Any], new: AbstractSet[Any], depth: int) -> bool:
        if len(old) != len(new):
            return False
        if all(one in new for one in old):
            return True
        left, right = (
            sorted((one for one in side if one not in other), key=repr) for side, other in ((old, new), (new, old))
        )
        return self.sequences(left, right, depth)

    def _attributes(self, old: Any, new: Any, depth: int) -> bool:
        own, other = getattr(old, "__dict__", None), getattr(new, "__dict__", None)
        return self.are_equal(own, other, depth)

    def _functions(self, old: FunctionType, new: FunctionType, depth: int) -> bool:
        closures = [[_content(cell) for cell in function.__closure__ or ()] for function in (old, new)]
        return (
            old.__qualname__ == new.__qualname__
            and self.are_equal(old.__code__, new.__code__, depth)
            and self.are_equal(old.__defaults__, new.__defaults__, depth)
            and self.are_equal(old.__kwdefaults__, new.__kwdefaults__, depth)
            and self.sequences(closures[0], closures[1], depth)
            and self._attributes(old, new, depth)
        )

    def _codes(self, old: CodeType, new: CodeType, depth: int) -> bool:
        names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_argcount", "co_consts")
        return old.co_flags & _KIND_FLAGS == new.co_flags & _KIND_FLAGS and all(
            self.are_equal(getattr(old, name), getattr(new, name), depth) for name in names
        )

    def _classes(self, old: type, new: type, depth: int) -> bool:
        if old.__module__ != "__main__":
            return (old.__module__, old.__qualname__) == (new.__module__, new.__qualname__)
        if old.__qualname__ != new.__qualname__ or not self.sequences(old.__bases__, new.__bases__, depth):
            return False
        sides = [{name: held for name, held in vars(one).items() if _is_own(name, held)} for one in (old, new)]
        return self._mappings(sides[0], sides[1], depth)

    def _by_equality(self, old: Any, new: Any, depth: int) -> bool:
        try:
            found = old == new
            is_equal = bool(found)
        except Exception as error:  # noqa: BLE001 - anyone's code
            raise _Unknown(f"== of {_name(old)} raised {type(error).__name__}") from None
        if is_equal or type(old).__module__ != "__main__":
            return is_equal
        # A class of the notebook is another class in each run, and its == may ask for its own instances.
        state = getattr(old, "__dict__", None)
        return state is not None and self.are_equal(state, getattr(new, "__dict__", None), depth)

    def _by_content(self, old: Any, new: Any, depth: int) -> bool:
        if type(old) is object:
            return True
        try:
            sides = [one.__reduce_ex__(4) for one in (old, new)]
        except Exception:  # noqa: BLE001 - anyone's code
            raise _Unknown(f"{_name(old)} defines no equality, and its content cannot be read") from None
        if any(_is(side, str) for side in sides):
            return bool(sides[0] == sides[1])
        parts = [[list(part) if hasattr(part, "__next__") else part for part in side] for side in sides]
        self._alive += parts
        return self.sequences(parts[0], parts[1], depth)

    # -- libraries

    def of_numpy(self, old: Any, new: Any, depth: int) -> bool | None:
        import numpy as np

        if _is(old, np.ndarray):
            return self._arrays(np.asarray(old), np.asarray(new), depth)
        if _is(old, np.inexact):
            return self._arrays(np.asarray(old), np.asarray(new), depth)
        return bool(old == new) if _is(old, np.generic, np.dtype) else None

    def _arrays(self, old: Any, new: Any, depth: int) -> bool:
        import numpy as np

        if old.shape != new.shape or old.dtype != new.dtype:
            return False
        if old.dtype.names:
            return all(self._arrays(old[name], new[name], depth) for name in old.dtype.names)
        if old.dtype == object:
            return self.sequences(old.ravel().tolist(), new.ravel().tolist(), depth)
        if old.dtype.kind not in "fc":
            return bool(
                np.array_equal(old, new) if old.dtype.kind not in "mM" else np.array_equal(old, new, equal_nan=True)
            )
        if np.array_equal(old, new, equal_nan=True):
            return True
        self.is_exact = False
        rtol, atol = self._tolerance.rtol, self._tolerance.atol
        return bool(np.isclose(new, old, rtol=rtol, atol=atol, equal_nan=True).all())

    def of_pandas(self, old: Any, new: Any, depth: int) -> bool | None:
        import pandas as pd

        if isinstance(old, pd.DataFrame):
            if old.shape != new.shape or list(map(str, old.dtypes)) != list(map(str, new.dtypes)):
                return False
            axes = self.are_equal(old.columns, new.columns, depth) and self.are_equal(old.index, new.index, depth)
            return axes and all(self._columns(old.iloc[:, at], new.iloc[:, at], depth) for at in range(old.shape[1]))
        if isinstance(old, pd.Series):
            named = self.are_equal(old.name, new.name, depth) and self.are_equal(old.index, new.index, depth)
            return named and self._columns(old, new, depth)
        if isinstance(old, pd.Index):
            return str(old.dtype) == str(new.dtype) and (bool(old.equals(new)) or self._columns(old, new, depth))
        return None

    def _columns(self, old: Any, new: Any, depth: int) -> bool:
        if len(old) != len(new) or str(old.dtype) != str(new.dtype):
            return False
        if str(old.dtype) == "category" and not self.are_equal(
            old.astype(object).to_numpy(), new.astype(object).to_numpy(), depth
        ):
            return False
        return self.are_equal(old.to_numpy(), new.to_numpy(), depth) or bool(old.equals(new))

    def of_polars(self, old: Any, new: Any, depth: int) -> bool | None:
        import polars as pl

        if isinstance(old, pl.DataFrame):
            return old.schema == new.schema and all(self.are_equal(old[name], new[name], depth) for name in old.columns)
        if isinstance(old, pl.Series):
            if old.equals(new, check_dtypes=True, check_names=True):
                return True
            is_float = old.dtype.is_float() and old.dtype == new.dtype and old.name == new.name
            return is_float and self.sequences(old.to_list(), new.to_list(), depth)
        return None

    def of_torch(self, old: Any, new: Any, depth: int) -> bool | None:
        import torch

        if not isinstance(old, torch.Tensor):
            return None
        if old.shape != new.shape or old.dtype != new.dtype or old.requires_grad != new.requires_grad:
            return False
        if torch.equal(old, new):
            return True
        if not (old.dtype.is_floating_point or old.dtype.is_complex):
            return False
        self.is_exact = False
        return torch.allclose(new, old, rtol=self._tolerance.rtol, atol=self._tolerance.atol, equal_nan=True)

    def of_scipy(self, old: Any, new: Any, depth: int) -> bool | None:
        if not hasattr(old, "tocoo"):
            return None
        sides = [one.tocoo() for one in (old, new)]
        return old.shape == new.shape and all(
            self.are_equal(getattr(sides[0], part), getattr(sides[1], part), depth) for part in ("row", "col", "data")
        )

    def of_ipywidgets(self, old: Any, new: Any, depth: int) -> bool | None:
        """By what a front end shows of them; the ids of their models are others in each run."""
        if not hasattr(old, "get_state"):
            return None
        names = sorted(old.keys)
        return names == sorted(new.keys) and all(
            self.are_equal(getattr(old, name), getattr(new, name), depth + 1) for name in names
        )

    def of_pyarrow(self, old: Any, new: Any, depth: int) -> bool | None:
        return bool(old.equals(new)) if hasattr(old, "equals") else None


_BY_LIBRARY: Final[dict[str, Callable[[_Comparison, Any, Any, int], bool | None]]] = {
    "numpy": _Comparison.of_numpy,
    "pandas": _Comparison.of_pandas,
    "polars": _Comparison.of_polars,
    "torch": _Comparison.of_torch,
    "scipy": _Comparison.of_scipy,
    "pyarrow": _Comparison.of_pyarrow,
    "ipywidgets": _Comparison.of_ipywidgets,
}


def _is(value: object, *kinds: type) -> bool:
    """`isinstance`, after which a type checker knows as much as before."""
    return isinstance(value, kinds)


def _equality_of(kind: Any) -> object:
    return kind.__eq__


_SEQUENCES: Final = tuple(map(_equality_of, (list, tuple, deque)))
_MAPPINGS: Final = tuple(map(_equality_of, (dict, Mapping, OrderedDict, Counter)))
_SETS: Final = tuple(map(_equality_of, (set, frozenset)))


def _same_type(old: object, new: object) -> bool:
    one: type = type(old)
    other: type = type(new)
    return one is other or (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # not filled
        return None


def _is_own(name: str, held: object) -> bool:
    return name not in _OWN_OF_CLASS and type(held).__name__ not in ("getset_descriptor", "member_descriptor")


# -- the child process: which pairs, on standard input; answers, a line each, on standard output


def main() -> None:
    """Load and compare pairs of values, and write an answer for each.

    The input is a JSON object: `sides`, for each a URL, a secret or null and whether to load plain data alone, and then `pairs`
    of a name and two commits.
    """
    import os

    from agent_kernel.errors import LoadError
    from agent_kernel.session import Repository, Snapshot, trust

    asked = json.loads(sys.stdin.read())
    # What values print as they are loaded is no answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for side in asked["sides"]:
        if side["secret"]:
            trust.trust_temporarily(side["secret"], side["url"])
    repos = [Repository.open(side["url"], create=False) for side in asked["sides"]]
    tolerance = Tolerance(asked["rtol"], asked["atol"])
    snapshots: dict[tuple[int, str], Any] = {}
    for number, (name, *commits) in enumerate(asked["pairs"]):
        answers.write(json.dumps({"began": number}) + "\n")
        answers.flush()
        try:
            values: list[object] = []
            for side, commit in enumerate(commits):
                if (side, commit) not in snapshots:
                    plain = bool(asked["sides"][side]["plain"])
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
