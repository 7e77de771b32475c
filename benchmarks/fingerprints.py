"""What variables are, as digests that can be compared before and after a checkout. Knows no versioning system.

Two states agree when every variable has the same type and contents, functions see the notebook's globals as they did,
arrays that could be written still can, and the same names share the same object or memory. What no digest can hold (a
lock, a generator's frame) counts as equal where its type is, and `uncompared` names the variables that hold such parts.
"""

# What is handled here is anyone's object, so its type has no parameters to know.
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import copy
import datetime
import functools
import hashlib
import inspect
import io
import itertools
import logging
import marshal
import os
import random
import sys
import sysconfig
import types
from collections import ChainMap, deque
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import PurePath
from typing import Any, ClassVar

from xxhash import xxh3_128_intdigest

_SHARING = "(sharing)"
_WRITABLE = "(writable)"
_UNCOMPARED = "(uncompared)"
_OWN = {"In", "Out", "exit", "quit", "get_ipython", "open"}
_ATOMS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_EXACT = frozenset(_ATOMS)
# Nobody can change these, so which of two equal ones it is shows nowhere, and no commit says it.
_UNCHANGING = (types.GenericAlias, types.UnionType, datetime.date, datetime.timedelta, PurePath)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
_PACKAGES = [
    *(sysconfig.get_path(name) for name in ("purelib", "platlib")),
    *(folder for folder in sys.path if folder.endswith("-packages")),  # those of an environment below this one
]
_PACKAGE_FOLDERS = tuple({*_PACKAGES, *map(os.path.realpath, _PACKAGES)})
_DEPTH = 20_000  # of Python calls while a value is walked: linked lists and parse trees go deep


def fingerprints(namespace: Mapping[str, Any], before: set[str]) -> dict[str, str]:
    """A digest for each of the user's variables, what they share, which arrays can be written, and what has no digest."""
    users = {name: value for name, value in list(namespace.items()) if is_users(name, before)}
    found: dict[str, str] = {}
    bare: list[str] = []
    with _deep():
        for name, value in users.items():
            found[name], without = _digest_of(value, namespace)
            bare += [f"{name}: {kind}" for kind in sorted(without)]
    found[_SHARING] = "; ".join(sorted(_sharing(users)))
    found[_WRITABLE] = " ".join(name for name, value in users.items() if _is_writable(value))
    found[_UNCOMPARED] = "; ".join(bare)
    return found


def uncompared(found: Mapping[str, str]) -> list[str]:
    """`variable: type` for each type of part that was compared by its type alone."""
    return [one for one in found.get(_UNCOMPARED, "").split("; ") if one]


@contextmanager
def _deep() -> Generator[None]:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


def _is_writable(value: object) -> bool:
    return type(value).__name__ == "ndarray" and bool(getattr(value, "flags").writeable)  # noqa: B009


def _digest_of(value: object, namespace: Mapping[str, Any]) -> tuple[str, set[str]]:
    digest = _Digest(namespace)
    try:
        return digest.of(value), digest.bare
    except Exception as error:  # noqa: BLE001 - what stands for a lost value may raise anything
        return f"cannot be looked at: {type(error).__name__}", digest.bare | {f"all of it ({type(error).__name__})"}


def is_users(name: str, before: set[str]) -> bool:
    return not name.startswith("_") and name not in _OWN and name not in before


def differences(was: Mapping[str, str], now: Mapping[str, str], excused: Collection[str] = ()) -> list[str]:
    """Names that are missing, left over or unequal; `excused` are those of which nothing is asked."""
    special = (_SHARING, _WRITABLE, _UNCOMPARED)
    names = [name for name in (*was, *now) if name not in special and name not in excused]
    missing = [f"{name} missing" for name in names if name not in now]
    extra = [f"{name} left over" for name in names if name not in was]
    wrong = [name for name, digest in was.items() if name in names and name in now and now[name] != digest]
    lost = set(was[_WRITABLE].split()) - set(now[_WRITABLE].split())
    shared = sorted(_pairs(was, excused) ^ _pairs(now, excused))
    return [
        *missing,
        *extra,
        *wrong,
        *(f"{name} read-only" for name in sorted(lost) if name in now and name in names),
        *(f"{_SHARING} {pair}" for pair in shared),
    ]


def _pairs(found: Mapping[str, str], excused: Collection[str]) -> set[str]:
    """Which two names share, among those of which something is asked."""
    pairs: set[str] = set()
    for group in filter(None, found[_SHARING].split("; ")):
        sign = "=" if "=" in group else "~"
        names = [name for name in group.split(sign) if name not in excused]
        pairs |= {f"{one}{sign}{other}" for one, other in pairwise(names)}
    return pairs


def _sharing(users: Mapping[str, Any]) -> list[str]:
    groups: dict[int, list[str]] = {}
    for name, value in users.items():
        if not isinstance(value, (*_ATOMS, *_UNCHANGING, tuple, type, types.ModuleType)):
            groups.setdefault(id(value), []).append(name)
    found = ["=".join(sorted(names)) for names in groups.values() if len(names) > 1]
    arrays = [(name, value) for name, value in users.items() if type(value).__name__ == "ndarray"]
    for position, (name, one) in enumerate(arrays):
        for other, two in arrays[:position]:
            if one is not two and _meet(one, two):
                found.append("~".join(sorted((name, other))))
    return found


_MOST_WORK = 10_000  # solutions that numpy tries


def _meet(one: Any, two: Any) -> bool:
    np: Any = sys.modules["numpy"]
    try:  # two columns of a table lie between each other, and share nothing
        return bool(np.shares_memory(one, two, max_work=_MOST_WORK))
    except np.exceptions.TooHardError:
        return True


def _name_in_package(value: object) -> str:
    """The name under which the package that has made its type holds an object, as `matplotlib.rcParams`.

    The content of such a one is the package's, and no checkout moves it: what a variable has of it is which it is.
    """
    module = sys.modules.get(type(value).__module__)
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or not file.startswith(_PACKAGE_FOLDERS):
        return ""
    return next((name for name, held in vars(module).items() if held is value), "")


class _Digest:
    """One walk over a value. Cycles are met by the order in which objects were first seen."""

    def __init__(self, namespace: Mapping[str, Any], around: _Digest | None = None) -> None:
        self._namespace = namespace
        self._hash = hashlib.blake2b(digest_size=16)
        self._seen: ChainMap[int, int] = ChainMap() if around is None else around._seen.new_child()
        self._kept: list[object] = []
        self.bare: set[str] = set() if around is None else around.bare

    def of(self, value: Any) -> str:
        self._add(value)
        return self._hash.hexdigest()

    def _say(self, *parts: object) -> None:
        self._hash.update(repr(parts).encode(errors="surrogatepass"))

    def _say_bare(self, value: object) -> None:
        """All that can be compared of it is its type."""
        self.bare.add(f"{type(value).__module__}.{type(value).__qualname__}")

    def _add(self, value: Any) -> None:
        kind = type(value)
        if kind in _EXACT:
            return self._say(kind.__name__, value)
        if kind is tuple:  # whether two equal tuples are one is nobody's business, and changes with the interpreter
            return self._items(value)
        if _is_number_of_numpy(value):  # nobody can change one, so it is the same with those
            self._say(kind.__name__)
            return self._scalar(value)
        if _is_formula(value):  # and with formulas: sympy makes a symbol anew once it has made many others
            self._say(kind.__module__, kind.__qualname__)
            return self._formula(value)
        if id(value) in self._seen:
            return self._say("seen", self._seen[id(value)])
        self._seen[id(value)] = sum(map(len, self._seen.maps))  # len of a chain joins all its maps
        self._kept.append(value)
        if kind in _CONTAINERS:
            return self._items(value)
        if _is_at_its_end(value):
            return self._say("an iterator at its end")
        self._say(kind.__module__, kind.__qualname__)
        return self._by_kind(value)

    def _by_kind(self, value: Any) -> None:
        """What counts of a value whose type was said."""
        if isinstance(value, type):
            return self._class(value)
        if isinstance(value, types.ModuleType):
            return self._say(value.__name__)
        if isinstance(value, io.IOBase):
            return self._say(getattr(value, "name", ""), value.closed)
        for family, look in self._KINDS:
            if isinstance(value, family):
                look(self, value)
                return None
        for base in type(value).__mro__:
            special = self._SPECIAL.get((str(base.__module__).partition(".")[0], base.__name__))
            if special is not None:
                special(self, value)
                return None
        held = _name_in_package(value)
        return self._say("held by its package", held) if held else self._object(value)

    def _items(self, value: Any) -> None:
        self._say(type(value).__name__, len(value))
        if isinstance(value, set | frozenset):
            return self._set(value)
        flat = [each for pair in value.items() for each in pair] if isinstance(value, dict) else list(value)
        if _EXACT.issuperset(map(type, flat)):
            self._hash.update(marshal.dumps([each for each in flat if each is not NotImplemented], 2))
            return None
        for item in flat:
            self._add(item)
        return None

    def _function(self, value: types.FunctionType) -> None:
        self._say(value.__qualname__)
        if value.__module__ == "__main__":
            self._say("sees the notebook", value.__globals__ is self._namespace)
            self._code(value.__code__)
            self._add(value.__defaults__)
            for held in value.__closure__ or ():
                try:
                    self._add(held.cell_contents)
                except ValueError:
                    self._say("an empty cell")

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
                elif not name.startswith(("__", "_abc_")):
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

    def _tensor(self, value: Any) -> None:
        """Its elements, and which storage they are in. Pickled, torch writes the address of the storage beside them."""
        self._say(str(value.dtype), str(value.device), str(value.layout), value.requires_grad, tuple(value.shape))
        if str(value.layout) != "torch.strided":
            return self._add(value.detach().to_dense())
        if value.numel():
            # What others see of the storage counts where they are met. What nobody sees need not come back.
            self._say("of storage", self._seen.setdefault(~value.untyped_storage().data_ptr(), len(self._kept)))
        self._bytes_of(value)
        self._add(vars(value))
        if value.grad_fn is not None:  # pickled, a tensor is cut off from how it was computed
            self.bare.add("the graph of a torch.Tensor")
        elif value.grad is not None:
            self._say("gradient")
            self._add(value.grad)
        return None

    def _storage(self, value: Any) -> None:
        import torch

        held = getattr(value, "_untyped_storage", value)
        self._say("of storage", self._seen.setdefault(~held.data_ptr(), len(self._kept)))
        self._bytes_of(torch.empty(0, dtype=torch.uint8, device=held.device).set_(held))

    def _bytes_of(self, value: Any) -> None:
        import torch

        self._hash.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)

    def _frame(self, value: Any) -> None:
        self._add(value.attrs)
        self._add(value.columns)
        self._add(value.index)
        for position in range(value.shape[1]):
            self._add(value.iloc[:, position])

    def _series(self, value: Any) -> None:
        import pandas as pd

        self._say(str(value.dtype))
        self._add(getattr(value, "name", None))
        if isinstance(value, pd.MultiIndex):
            self._add(list(value.names))
            return self._add(value.tolist())
        series = value.to_series() if isinstance(value, pd.Index) else value
        try:
            if series.dtype == object and not _EXACT.issuperset(map(type, series)):
                raise TypeError  # pandas would ask others for their texts, which may say where they are in memory
            self._hash.update(pd.util.hash_pandas_object(series, index=False).to_numpy().data)
        except TypeError:
            self._add(list(series))
        if isinstance(value, pd.Series):
            self._add(value.index)
        return None

    def _extension(self, value: Any) -> None:
        self._add((str(value.dtype), list(value)))

    def _groups(self, value: Any) -> None:
        """Also the group of each row: once asked, pandas keeps to its answer when the keys are written over."""
        self._object(value)
        rows: list[Any] = getattr(copy.deepcopy(value), "ngroup", list)()  # the copy keeps what is answered here
        self._add(list(rows))

    def _scalar(self, value: Any) -> None:
        self._hash.update(value.tobytes()) if not value.dtype.hasobject else self._add(value.tolist())

    def _set(self, value: Any) -> None:
        if _EXACT.issuperset(map(type, value)):
            # Added up, for there may be millions: in an order they would have to be sorted.
            return self._say(sum(map(xxh3_128_intdigest, map(str.encode, map(repr, value)))))
        for digest in sorted(_Digest(self._namespace, self).of(item) for item in value):
            self._say(digest)
        return None

    def _artist(self, value: Any) -> None:
        """What a figure shows, as far as it can be asked for without drawing it, which would change it."""
        self._say(value.get_visible(), value.get_alpha(), value.get_label(), value.get_zorder())
        for question in _ASKED_OF_ARTISTS:
            ask = getattr(value, question, None)
            if ask is not None and _takes_nothing(
                ask.__func__
            ):  # contours have a `get_text` that is told of which line
                self._add(_bare_text(ask()))
        for part in _parts_of_artist(value):
            self._add(part)

    def _colormap(self, value: Any) -> None:
        """The colours that it gives. Its table of them is made when one is looked up, and is no content."""
        asked = copy.copy(value)
        self._say(value.name, value.N, value.colorbar_extend)
        self._add((asked(range(value.N)), asked.get_bad(), asked.get_under(), asked.get_over()))

    def _transform(self, value: Any) -> None:
        """What it is made of and what it gives. Until something changes it keeps what it gave, which is no content."""
        import numpy as np

        for name, held in sorted(vars(value).items()):
            if name not in _KEPT_BY_TRANSFORMS:
                self._say(name)
                self._add(held)
        with np.errstate(all="ignore"):  # a box may be empty, and is divided by
            for ask in filter(None, (getattr(value, question, None) for question in ("get_matrix", "get_points"))):
                self._add(np.array(ask()))  # which of two parts of a transform holds it is no content either

    def _container(self, value: Any) -> None:
        self._items(tuple(value))

    def _callbacks(self, value: Any) -> None:
        """Those that pickle keeps. Which number the next one gets is no content, and asking for it takes that number."""
        kept = [(signal, number, proxy()) for signal, held in value.callbacks.items() for number, proxy in held.items()]
        self._add([found for found in kept if found[1] in value._pickled_cids])

    def _chart(self, value: Any) -> None:
        """What a figure of plotly shows, and what was set on it. To look at one makes parts of it, which are no content."""
        self._add(_in_order([value._data, value._layout, [frame._props for frame in value._frame_objs]]))
        self._add((value._grid_str, value._grid_ref, getattr(value, "_px_trendlines", None)))

    def _trait(self, value: Any) -> None:
        """By its name where a library's class holds it: what that one makes of itself when it is asked is no content."""
        owner: Any = getattr(value, "this_class", None)
        name: Any = getattr(value, "name", None)
        if isinstance(owner, type) and owner.__module__ != "__main__" and vars(owner).get(name) is value:
            return self._say(owner.__module__, owner.__qualname__, name)
        return self._object(value)

    def _type_of_numba(self, value: Any) -> None:
        """Its name says all: its number is that of this process."""
        self._say(str(value))

    def _formula(self, value: Any) -> None:
        from sympy import srepr  # type: ignore[import-not-found,unused-ignore]

        self._say(srepr(value))

    def _document(self, value: Any) -> None:
        """The current one is bokeh's: every figure that was shown in this process is in it, whatever variables there are."""
        from bokeh.io import curdoc  # type: ignore[import-not-found,unused-ignore]

        self._say("the current one") if value is curdoc() else self._object(value)

    def _generator(self, value: Any) -> None:
        self._add(value.bit_generator.state)

    def _random_state(self, value: Any) -> None:
        self._add(value.get_state())

    def _method(self, value: types.MethodType) -> None:
        self._add(value.__func__)
        self._add(value.__self__)

    def _builtin(self, value: types.BuiltinFunctionType) -> None:
        self._say(value.__qualname__, value.__module__)
        if not isinstance(value.__self__, types.ModuleType):
            self._add(value.__self__)

    def _partial(self, value: functools.partial[Any]) -> None:
        self._add((value.func, value.args, value.keywords, vars(value)))

    def _property(self, value: property) -> None:
        self._add((value.fget, value.fset, value.fdel))

    def _wrapper(self, value: Any) -> None:
        self._add(value.__func__)

    def _descriptor(self, value: Any) -> None:
        self._say(value.__qualname__)

    def _random(self, value: random.Random) -> None:
        self._add((value.getstate(), vars(value)))

    def _error(self, value: BaseException) -> None:
        self._add((value.args, vars(value)))
        for other in (value.__cause__, value.__context__):
            self._add(other)

    def _object(self, value: Any) -> None:
        if type(value).__module__ == "__main__":
            self._class(type(value))
        base: Any = _layout(type(value))
        if issubclass(base, _CONTAINERS):
            self._items(value)
        elif issubclass(base, _ATOMS):
            self._say(base.__name__, base.__repr__(value))
        elif base is not object or not _is_held_by_attributes(value):
            return self._reduced(value)
        kept = _as_copied(value)
        self._seen[id(kept)] = self._seen[id(value)]  # methods bound to the copy are its own
        self._kept.append(kept)
        state = {**_without_cached(kept), **_slots(kept)}
        factory = getattr(value, "default_factory", None) if isinstance(value, dict) else None
        self._add(factory)
        for name, held in sorted(state.items(), key=lambda item: str(item[0])):
            self._say(name)
            self._add(_of_traits(name, held, kept))
        return None

    def _reduced(self, value: Any) -> None:
        """What pickle is told of an object whose content no attribute holds."""
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # noqa: BLE001 - what cannot be reduced is compared by its type, and that is said
            return self._say_bare(value)
        if isinstance(reduced, str):
            return self._say(reduced)
        for part in reduced[1:3]:
            for each in part if type(part) is tuple else (part,):
                # In which order an object got its attributes is not compared here either.
                self._add(sorted(each.items()) if _are_attributes(each, value) else each)
        for items in filter(None, reduced[3:5]):
            self._add(list(items))
        return None

    _KINDS: ClassVar[tuple[tuple[Any, Any], ...]] = (
        (types.FunctionType, _function),
        (types.MethodType, _method),
        (types.BuiltinFunctionType, _builtin),
        (functools.partial, _partial),
        (BaseException, _error),
        (property, _property),
        ((classmethod, staticmethod), _wrapper),
        ((types.MemberDescriptorType, types.GetSetDescriptorType), _descriptor),
        (random.Random, _random),
    )
    _SPECIAL: ClassVar[dict[tuple[str, str], Any]] = {
        ("numpy", "ndarray"): _array,
        ("numpy", "generic"): _scalar,
        ("numpy", "Generator"): _generator,
        ("numpy", "RandomState"): _random_state,
        ("pandas", "DataFrame"): _frame,
        ("pandas", "Series"): _series,
        ("pandas", "Index"): _series,
        ("pandas", "BaseGroupBy"): _groups,
        ("pandas", "ExtensionArray"): _extension,
        ("matplotlib", "Artist"): _artist,
        ("matplotlib", "Colormap"): _colormap,
        ("matplotlib", "TransformNode"): _transform,
        ("matplotlib", "Container"): _container,
        ("torch", "Tensor"): _tensor,
        ("torch", "TypedStorage"): _storage,
        ("torch", "UntypedStorage"): _storage,
        ("matplotlib", "CallbackRegistry"): _callbacks,
        ("numba", "Type"): _type_of_numba,
        ("plotly", "BaseFigure"): _chart,
        ("traitlets", "BaseDescriptor"): _trait,
        ("sympy", "MatrixBase"): _formula,
        ("bokeh", "Document"): _document,
    }


def _first(pair: tuple[Any, Any]) -> str:
    return str(pair[0])


def _of_traits(name: str, held: Any, value: object) -> object:
    """An attribute; of one in which traits are kept what counts: an object gets them one by one as they are asked for."""
    if name == "_trait_notifiers" and isinstance(held, dict):
        observers = {trait: {kind: some for kind, some in by_kind.items() if some} for trait, by_kind in held.items()}
        return sorted(
            ((trait, sorted(by_kind.items(), key=_first)) for trait, by_kind in observers.items() if by_kind),
            key=_first,
        )
    if name != "_trait_values" or not isinstance(held, dict):
        return held
    if not hasattr(value, "_model_id"):
        return sorted(held.items())
    kept = {trait: found for trait, found in held.items() if trait not in _OF_THE_FRONT_END}
    return [*sorted(kept.items()), ("shown", held.get("comm") is not None)]


def _is_number_of_numpy(value: object) -> bool:
    numpy = sys.modules.get("numpy")
    kind = type(value)
    return kind.__module__ == "numpy" and numpy is not None and issubclass(kind, numpy.number | numpy.bool_)


def _is_formula(value: object) -> bool:
    basic = getattr(sys.modules.get("sympy"), "Basic", None)
    return basic is not None and isinstance(value, basic)


def _in_order(value: Any) -> Any:
    """The same with the items of dicts by their keys: plotly keeps to an order of its own."""
    if isinstance(value, dict):
        return [(key, _in_order(held)) for key, held in sorted(value.items())]
    return [_in_order(held) for held in value] if isinstance(value, list | tuple) else value


def _layout(kind: type) -> type:
    """The first base written in C: it says where the content of the instances is."""
    return next(base for base in kind.__mro__ if base.__flags__ & (_HEAP | _IMMUTABLE) != _HEAP)


def _is_at_its_end(value: object) -> bool:
    """Whether this is an iterator of Python's that gives nothing more: pickle is told of one over nothing, of any type."""
    kind = type(value)
    if kind.__module__ not in ("builtins", "itertools") or not hasattr(kind, "__next__"):
        return False
    try:
        reduced: Any = value.__reduce__()
    except TypeError:  # a generator
        return False
    made, given, *state = reduced
    if made is itertools.chain:  # pickle is told of one that has let go of its iterators, or holds them at their end
        return given == () and all(map(_is_at_its_end, state[0] if state else ()))
    return made is iter and given in (((),), ([],), ("",))


@functools.cache
def _takes_nothing(method: types.FunctionType) -> bool:
    """Whether a method can be asked without arguments."""
    _, *others = inspect.signature(method).parameters.values()
    return all(one.default is not one.empty or one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in others)


def _is_held_by_attributes(value: object) -> bool:
    return hasattr(value, "__dict__") or any("__slots__" in vars(base) for base in type(value).__mro__)


def _as_copied(value: object) -> object:
    """The object; where its class says how it is copied, a copy, which has the attributes that count."""
    said = any(getattr(type(value), name, None) is not getattr(object, name, None) for name in _SAY_WHAT_IS_KEPT)
    try:
        return copy.copy(value) if said else value
    except Exception:  # noqa: BLE001 - a class that cannot do it has all its attributes compared
        return value


_CACHED_TOGETHER = frozenset({"CachedProperty", "cache_readonly"})


def _without_cached(value: object) -> dict[str, object]:
    """The attributes without those that a cached property works out from the others when it is asked."""
    found: dict[str, object] = getattr(value, "__dict__", {})
    kinds = {name: inspect.getattr_static(type(value), name, None) for name in found}
    # pandas and statsmodels keep the answers of all in one dict, and a logger for which levels it is on.
    is_asked = any(type(held).__name__ in _CACHED_TOGETHER for held in _class_attributes(value))
    caches = {"_cache"} if is_asked else set()
    if isinstance(value, logging.Logger):
        caches = {"_cache", "manager"}  # which knows all loggers of the process, whatever variables there are
    return {
        name: held
        for name, held in found.items()
        if name not in caches and not isinstance(kinds[name], functools.cached_property)
    }


def _are_attributes(found: object, value: object) -> bool:
    """Whether a part of what pickle is told of an object is a dict of its attributes."""
    if type(found) is not dict:
        return False
    own: dict[str, object] = getattr(value, "__dict__", {})
    common = own.keys() & found.keys()
    return bool(common) and all(found[name] is own[name] for name in common)


def _class_attributes(value: object) -> Iterator[object]:
    return (held for base in type(value).__mro__ for held in vars(base).values())


def _slots(value: object) -> dict[str, object]:
    found: dict[str, object] = {}
    for base in type(value).__mro__:
        for name, slot in vars(base).items():
            if isinstance(slot, types.MemberDescriptorType) and base.__flags__ & _HEAP:
                try:
                    found[name] = slot.__get__(value)
                except AttributeError:
                    continue
    return found


def _bare_text(value: Any) -> Any:
    """A path as its points."""
    return getattr(value, "vertices", value)


def _parts_of_artist(value: Any) -> Iterator[object]:
    title = vars(value).get("title")
    if title is not None:
        yield title
    if hasattr(value, "get_children"):
        for held in ("axes", "lines", "patches", "collections", "images", "texts"):
            parts: Any = getattr(value, held, None)
            yield from parts if hasattr(parts, "__iter__") else ()


_HEAP, _IMMUTABLE = 1 << 9, 1 << 8  # Py_TPFLAGS_HEAPTYPE and …_IMMUTABLETYPE: a class statement makes the first alone
_SAY_WHAT_IS_KEPT = ("__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__")
# What a widget has for the front end, or for a message that is on its way.
_OF_THE_FRONT_END = frozenset(
    {"comm", "keys", "log", "_holding_sync", "_property_lock", "_states_to_send", "_view_count"}
)
_KEPT_BY_TRANSFORMS = frozenset(
    {
        *("_parents", "_invalid", "_inverted", "_affine", "_mtx", "_points"),
        *("_transformed_path", "_transformed_points"),
    }
)
_ASKED_OF_ARTISTS = (
    "get_xydata",
    "get_path",
    "get_facecolor",
    "get_edgecolor",
    "get_color",
    "get_linestyle",
    "get_linewidth",
    "get_offsets",
    "get_array",
    "get_text",
    "get_size_inches",
    "get_xlabel",
    "get_ylabel",
    "get_xscale",
    "get_yscale",
)
