"""From a value to its summary, by exact type."""

from __future__ import annotations

import functools
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from agent_kernel.values.summaries import arrays, arrow, code, frames, plain, polars_frames, tensors
from agent_kernel.values.summaries.cells import is_plain
from agent_kernel.values.summaries.foreign import foreign
from agent_kernel.values.summaries.known import ExactTypes
from agent_kernel.values.summaries.masking import names_a_secret
from agent_kernel.values.summaries.model import Summary, fit
from agent_kernel.values.summaries.reading import exact_str, shallow_size, type_text

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
        return fit((_BY_TYPE.find(kind) or foreign)(value, hide))
    except Exception:  # noqa: BLE001
        # A library's object in a state that its own accessors refuse (released, half built, another release's
        # layout), or a container that another thread changes. A summary is never worth failing a commit.
        return Summary("object", type_text(kind), size_bytes=shallow_size(value), masked=hide)


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
        (FunctionType, code.function),
        (MethodType, code.method),
        (BuiltinFunctionType, code.builtin),
        (functools.partial, code.partial),
        (type(functools.lru_cache(summarize)), code.cached),
        (ModuleType, code.module),
        (type, code.class_),
    ],
    {
        "numpy:ndarray": arrays.ndarray,
        **{f"scipy.sparse:{layout}_array": arrays.sparse for layout in _SPARSE_LAYOUTS},
        **{f"scipy.sparse:{layout}_matrix": arrays.sparse for layout in _SPARSE_LAYOUTS},
        "pandas:DataFrame": frames.dataframe,
        "pandas:Series": frames.series,
        **{
            f"pandas:{kind}Index": frames.index
            for kind in ("", "Range", "Multi", "Datetime", "Timedelta", "Period", "Categorical", "Interval")
        },
        "polars:DataFrame": polars_frames.polars_frame,
        "polars:Series": polars_frames.polars_series,
        "polars:LazyFrame": polars_frames.polars_lazy,
        "pyarrow:Table": arrow.arrow_table,
        "pyarrow:RecordBatch": arrow.arrow_table,
        "pyarrow:ChunkedArray": arrow.arrow_array,
        **{f"pyarrow:{name}Array": arrow.arrow_array for name in _ARROW_NAMES.split()},
        "torch:Tensor": tensors.tensor,
        "torch.nn:Parameter": tensors.tensor,
    },
)
