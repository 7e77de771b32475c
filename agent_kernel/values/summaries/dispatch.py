"""From a value to its summary, by exact type. What a kind of value needs loads when the first of them is summarized."""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from agent_kernel.values.summaries import plain
from agent_kernel.values.summaries.model import Summary, fit
from agent_kernel.values.summaries.plain import is_plain
from agent_kernel.values.summaries.reading import ExactTypes, exact_str, shallow_size, type_text
from agent_kernel.values.summaries.redaction import names_a_secret

Summarize = Callable[[Any, bool], Summary]


def summarize(value: object, name: str = "") -> Summary:
    """What may be shown of a value, made in microseconds whatever its size and without running its class's code.

    Args:
        value: anything; it is read, never changed.
        name: the variable's name; one that names a secret hides the value.
    """
    hide = names_a_secret(exact_str(name))
    kind = type(value)
    try:
        if is_plain(value) and _TEXTS.find(kind) is None:
            return plain.scalar(value, hide)
        return fit((_BY_TYPE.find(kind) or _FOREIGN)(value, hide))
    except Exception:  # noqa: BLE001
        # A library's object in a state that its own accessors refuse (released, half built, another release's
        # layout), or a container that another thread changes. A summary is never worth failing a commit.
        return Summary("object", type_text(kind), size_bytes=shallow_size(value), masked=hide)


def _lazily(home: str) -> Summarize:
    """The function `module:name` beside this module."""
    module, _, name = home.partition(":")

    def summarize_as(value: object, hide: bool) -> Summary:
        found: Summarize = getattr(import_module(f"agent_kernel.values.summaries.{module}"), name)
        return found(value, hide)

    return summarize_as


_FOREIGN = _lazily("objects:foreign")
_ARROW_NAMES = (
    "Boolean Int8 Int16 Int32 Int64 UInt8 UInt16 UInt32 UInt64 HalfFloat Float Double String LargeString StringView "
    "Binary LargeBinary Date32 Date64 Timestamp Decimal128 Null List LargeList Struct Dictionary"
)
_SPARSE_LAYOUTS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
_TEXT_TYPES: tuple[tuple[type, Summarize], ...] = (
    (str, plain.text),
    (bytes, plain.text),
    (bytearray, plain.text),
)
_TEXTS: ExactTypes[Summarize] = ExactTypes(_TEXT_TYPES)

_BY_TYPE: ExactTypes[Summarize] = ExactTypes(
    [
        *_TEXT_TYPES,
        (memoryview, plain.view),
        *((kind, plain.sequence) for kind in (list, tuple, set, frozenset, deque)),
        *((kind, plain.mapping) for kind in (dict, OrderedDict, defaultdict, Counter)),
        (FunctionType, _lazily("objects:function")),
        (MethodType, _lazily("objects:method")),
        (BuiltinFunctionType, _lazily("objects:builtin")),
        (functools.partial, _lazily("objects:partial")),
        (type(functools.lru_cache(summarize)), _lazily("objects:cached")),
        (ModuleType, _lazily("objects:module")),
        (type, _lazily("objects:class_")),
    ],
    {
        "numpy:ndarray": _lazily("arrays:ndarray"),
        **{f"scipy.sparse:{layout}_array": _lazily("arrays:sparse") for layout in _SPARSE_LAYOUTS},
        **{f"scipy.sparse:{layout}_matrix": _lazily("arrays:sparse") for layout in _SPARSE_LAYOUTS},
        "pandas:DataFrame": _lazily("frames:dataframe"),
        "pandas:Series": _lazily("frames:series"),
        **{
            f"pandas:{kind}Index": _lazily("frames:index")
            for kind in ("", "Range", "Multi", "Datetime", "Timedelta", "Period", "Categorical", "Interval")
        },
        "polars:DataFrame": _lazily("frames:polars_frame"),
        "polars:Series": _lazily("frames:polars_series"),
        "polars:LazyFrame": _lazily("frames:polars_lazy"),
        "pyarrow:Table": _lazily("frames:arrow_table"),
        "pyarrow:RecordBatch": _lazily("frames:arrow_table"),
        "pyarrow:ChunkedArray": _lazily("frames:arrow_array"),
        **{f"pyarrow:{name}Array": _lazily("frames:arrow_array") for name in _ARROW_NAMES.split()},
        "torch:Tensor": _lazily("arrays:tensor"),
        "torch.nn:Parameter": _lazily("arrays:tensor"),
    },
)
