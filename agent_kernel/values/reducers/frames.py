"""pandas, polars and pyarrow: immutable parts stay out of the alias walk, blocks of a copy-on-write frame are private.

An Index or a column that a frame holds is private too. Frames that are derived from one another may hold the same, and
nobody can tell, or nearly so: that groups nothing. Where a variable holds it as well, that is one value with the frame.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false
# pyarrow has no types.

from __future__ import annotations

import copyreg
import functools
import gc
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from agent_kernel.values.aliases import COPIED, OBJECTS, MemoryUse, owner_of
from agent_kernel.values.introspection import loaded_class, module_name
from agent_kernel.values.pickler import leaves_of, reduce
from agent_kernel.values.reducers import Handler, immutable, instances, leaf, objects
from agent_kernel.values.references import Reference
from agent_kernel.values.restore import frames as restore
from agent_kernel.values.restore import live

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler


def handler_for(kind: type) -> Handler | None:
    packages = {module_name(base).partition(".")[0] for base in kind.__mro__}
    if "pandas" in packages:
        return _pandas(kind)
    if "polars" in packages:
        return _polars(kind)
    return _arrow(kind)


def _pandas(kind: type) -> Handler | None:
    import pandas as pd

    if issubclass(kind, pd.CategoricalDtype):
        return reduce_categories
    if issubclass(kind, pd.api.extensions.ExtensionDtype):
        return reduce_column_type
    if kind is type(pd.NaT):
        return immutable
    if issubclass(kind, pd.Index):
        return reduce_index
    if issubclass(kind, (pd.Timestamp, pd.Timedelta, pd.Period)):
        return reduce_moment
    if issubclass(kind, (pd.Interval, pd.offsets.BaseOffset)):
        return immutable
    if any(base.__name__ == "BaseBlockManager" for base in kind.__mro__):
        return reduce_manager
    if issubclass(kind, pd.api.extensions.ExtensionArray):
        arrow = any(base.__name__ == "ArrowExtensionArray" for base in kind.__mro__)
        return functools.partial(
            reduce_either, reduce_arrow_column if arrow else reduce_column, objects.handler_for(kind)
        )
    if any(base.__name__ == "Block" for base in kind.__mro__):
        return functools.partial(reduce_block, objects.handler_for(kind))
    if kind.__name__ == "BlockValuesRefs":
        return reduce_references
    if kind.__name__ == "DictWrapper":
        return reduce_options
    if issubclass(kind, (pd.DataFrame, pd.Series)) and _pickles_like_pandas(kind):
        return reduce_table
    return None


def _pickles_like_pandas(kind: Any) -> bool:
    import pandas as pd

    hooks = ("__reduce_ex__", "__reduce__", "__getstate__", "__setstate__", "__new__")
    return kind not in copyreg.dispatch_table and all(getattr(kind, at) is getattr(pd.DataFrame, at) for at in hooks)


def reduce_table(pickler: Pickler, table: Any) -> Any:
    """A frame or series, with what pandas itself leaves out or copies when it loads one.

    That is the dict of its `attrs`, which may be held by another name too, attributes that a person set, and the columns
    that a frame keeps for who has taken them: before pandas 3 such a column and the frame tell each other of writes.
    """
    parts = pickler.custom(table)
    if not isinstance(parts, tuple) or len(parts) < 3 or type(parts[2]) is not dict:
        return parts
    columns = _find_shared_columns(pickler, table)
    own = {} if pickler.is_probe else _own_attributes(table, parts[2])
    if id(table) not in pickler.muted:
        pickler.keepalive += (columns, own)  # made here: another value's would come to have their addresses
        pickler.dump_record.roots.append((columns, own))
    return *parts[:2], (parts[2], columns, own), None, None, restore.table_state


def _find_shared_columns(pickler: Pickler, table: Any) -> dict[object, Any]:
    cache = vars(table).get("_item_cache")
    if not cache or _copies_on_write():
        return {}
    return {label: cache[label] for label in list(cache) if _is_shared_column(cache[label])}


def _is_shared_column(column: Any) -> bool:
    """Whether a column has more holders than the cache, its own accessors (`.str`, `.dt`), and this call."""
    accessors = [
        found for name, found in vars(column).items() if hasattr(type(column), name) and hasattr(found, "__dict__")
    ]
    by_accessors = sum(value is column for found in accessors for value in vars(found).values())
    return sys.getrefcount(column) > _OF_A_CACHE + by_accessors


_OF_A_CACHE = 3  # and the parameter, and getrefcount's argument


def _own_attributes(table: Any, state: dict[str, Any]) -> dict[str, object]:
    """What a person set; accessors that pandas keeps in the same dict are attributes of the class too."""
    internal, kind = table._internal_names_set, type(table)
    return {
        name: found
        for name, found in vars(table).items()
        if name not in internal and name not in state and not hasattr(kind, name)
    }


def reduce_categories(pickler: Pickler, dtype: Any) -> Any:
    """Which Index holds the categories may show: a variable may hold it as well."""
    parts = pickler.immutable(dtype)
    categories = vars(dtype).get("_categories")
    if categories is not None and id(dtype) not in pickler.muted:
        pickler.muted.discard(id(categories))
        pickler.private.add(id(categories))
    return parts


def reduce_column_type(pickler: Pickler, dtype: Any) -> Any:
    """Without what it keeps of its own answers: reading a table must not look like a change."""
    from agent_kernel.values.reducers.arrays import name_nan  # polars needs no numpy

    parts = _without_cache(pickler.immutable(dtype))
    if type(parts) is not tuple or type(parts[1]) is not tuple:
        return parts
    return (
        parts[0],
        tuple(map(name_nan, parts[1])),
        *parts[2:],
    )  # of texts it may say what stands for those that are missing


def reduce_either(private: Handler, shared: Handler, pickler: Pickler, column: Any) -> Any:
    """A column: where writes go through to others it is noted like any other object."""
    if _copies_on_write():
        return private(pickler, column)
    pickler.identify(column)  # an Index may hold it as well
    pickler.watch(getattr(column, "_ndarray", None))
    parts = shared(pickler, column)
    return _without_cache(reduce(column) if parts is NotImplemented else parts)


def _copies_on_write() -> bool:
    """Whether pandas copies before it writes to what frames share. Before pandas 3 that is an option, and off."""
    return _release() >= 3 or (_release() == 2 and _option())


@functools.cache
def _release() -> int:
    import pandas as pd

    return int(pd.__version__.partition(".")[0])


def _option() -> bool:
    # The dict itself: asking through `pd.options` takes 20 µs, and this is asked for each block.
    config: Any = import_module("pandas._config.config")
    return config._global_config["mode"].get("copy_on_write") is True


def reduce_index(pickler: Pickler, index: Any) -> Any:
    """An Index is immutable but for its name, so only which object it is can be shared in a way that shows.

    It also shows where a variable holds the array that it was made of: writes to that go through.
    """
    pickler.identify(index)
    return _with_attributes(pickler, index, _reduce_labels(pickler, index), hidden=_set_in(index))


def _set_in(index: Any) -> list[str]:
    """The names with an underscore that a person set, and not pandas."""
    kind, attributes = type(index), vars(index)
    found = [name for name in attributes if name[:1] == "_" and name not in _PANDAS_OWN and not hasattr(kind, name)]
    if not found:
        return found
    known = {name for base in kind.__mro__ for name in vars(base).get("__annotations__", ())}
    return [name for name in found if name not in known and name not in vars(index._view())]


_PANDAS_OWN = frozenset({"_cache", "_data", "_name", "_id", "_references"})  # of nearly every Index


def _with_attributes(pickler: Pickler, value: Any, parts: Any, hidden: Sequence[str] = ()) -> Any:
    """Add what a person set; names with an underscore are pandas' own, but for those that are known not to be."""
    if not isinstance(parts, tuple) or parts[0] is live:  # it could not be saved
        return parts
    names = [name for name in vars(value) if name[:1] != "_" and name != "sortorder"]
    own = {name: vars(value)[name] for name in (*names, *hidden) if not hasattr(type(value), name)}
    return instances.add_attributes(pickler, value, parts, own, {}) if own else parts


def reduce_moment(pickler: Pickler, moment: Any) -> Any:
    """Nobody changes a point or a span of time, but a person may set attributes."""
    parts = pickler.immutable(moment)
    if isinstance(parts, tuple) and len(parts[1]) == 2 and _is_own_span(type(moment)):
        parts = restore.span, (type(moment), *parts[1])
    # Not through `__dict__`: the object has no dict yet, and to ask for it would make one, which stays.
    is_bare = all(referent is type(moment) for referent in gc.get_referents(moment))
    return parts if is_bare else _with_attributes(pickler, moment, parts)


def _is_own_span(kind: type) -> bool:
    """pandas would make a Timedelta of one of a class that was made of it."""
    import pandas as pd

    return kind is not pd.Timedelta and issubclass(kind, pd.Timedelta)


def _reduce_labels(pickler: Pickler, index: Any) -> Any:
    if _is_of_intervals(index):
        parts: Any = (restore.index_of_intervals, (type(index), index._data, index.name))
        pickler.mute(parts)
    else:
        parts = pickler.immutable(index)
    if isinstance(parts, tuple) and _is_of_several(index) and type(parts[1][-1]) is dict:
        return _with_its_levels(pickler, index, parts)
    if id(index) not in pickler.muted:
        array = vars(index).get("_data")
        leaves = [array] if type(array) is loaded_class("numpy", "ndarray") else leaves_of(parts)
        # What is written to one over Arrow's memory gets other memory.
        for column in filter(is_extension_array, leaves):
            pickler.dump_record.memory.append(MemoryUse(column, OBJECTS, id(column), id(column) + 1, COPIED))
        for array in _arrays_of(leaves):
            _note_labels(pickler, array)
    references = vars(index).get("_references")
    if references is None or not isinstance(parts, tuple):
        return parts
    # As blocks do that share an array, one and an index do: pandas copies it before it writes to the block.
    pickler.dump_record.label_references.append(references)
    return (restore.index, (*parts[:2], references)) if id(references) in pickler.shared_owners else parts


def _is_of_several(index: Any) -> bool:
    import pandas as pd

    return isinstance(index, pd.MultiIndex)


def _is_of_intervals(index: Any) -> bool:
    """Those that came out of order when an array was written to, pandas would not make of their ends."""
    import pandas as pd

    return type(index) is pd.IntervalIndex


def _with_its_levels(pickler: Pickler, index: Any, parts: Any) -> Any:
    """pandas loads an index of several with new levels and codes; a variable may hold those that it had."""
    fields: dict[str, Any] = parts[1][-1]
    if id(index) not in pickler.muted:
        level_ids = set(map(id, (*fields.get("levels", ()), *fields.get("codes", ()))))
        pickler.muted -= level_ids
        pickler.private |= level_ids
    return restore.index_of_several, parts[:2]


def is_extension_array(value: object) -> bool:
    return isinstance(value, _extension_array())


@functools.cache
def _extension_array() -> type:
    import pandas as pd

    return pd.api.extensions.ExtensionArray


def _arrays_of(values: Iterable[object]) -> Iterator[Any]:
    """The arrays of numpy that an index, or a column of pandas, is made of."""
    import pandas as pd

    for part in values:
        if isinstance(part, pd.Index):
            yield from _arrays_of(leaves_of(pd.Index.__reduce__(part)))
        elif is_extension_array(part):
            yield from _arrays_of(vars(part).values() if hasattr(part, "__dict__") else ())
            yield getattr(part, "_ndarray", None)
        else:
            yield part


def _note_labels(pickler: Pickler, array: Any) -> None:
    import numpy as np

    if type(array) is not np.ndarray or not array.size:
        return
    owner = owner_of(array)
    if array.dtype == object or (isinstance(owner, np.ndarray) and owner.dtype.hasobject):
        pickler.dump_record.labels.append(array)
        pickler.identify_items(array, private=True)
    elif not array.dtype.hasobject:
        pickler.dump_record.memory.append(MemoryUse(array, "cpu", *_bounds(array), COPIED))


def reduce_manager(pickler: Pickler, manager: Any) -> Any:
    pickler.private.update(map(id, manager.axes))
    if not _copies_on_write():
        pickler.dump_record.instances.append(manager)
    if (
        type(manager).__name__ == "SingleBlockManager"
    ):  # which gives its values without their block, and its index twice
        return type(manager), (manager.blocks[0], manager.axes[0])
    return reduce(manager)


def reduce_block(shared: Handler, pickler: Pickler, block: Any) -> Any:
    """Where pandas copies before it writes, nothing reaches a block's array but its frame, or a user's own view of it."""
    if _copies_on_write():
        parts = _reduce_block(block)
        pickler.make_private(parts)
    else:
        pickler.watch(block.values)
        parts = shared(pickler, block)
    references = getattr(block, "refs", None)
    if references is None:  # before pandas 2
        return parts
    # Blocks that share an array tell each other, and pandas copies it before it writes to one of them: before pandas 3
    # where that is on, or is turned on later.
    pickler.dump_record.references.append(references)
    return (restore.block, (*parts, references)) if id(references) in pickler.shared_owners else parts


def _reduce_block(block: Any) -> Any:
    """Of an array in steps pandas 3 gives a copy, which would not tell whose memory it is."""
    kind: Any = type(block)
    if kind.__reduce__ is object.__reduce__ or kind in copyreg.dispatch_table:
        return reduce(block)
    return block.__reduce__()


def reduce_options(pickler: Pickler, options: Any) -> Any:
    """A part of pandas' options is made anew each time that it is asked for."""
    config: Any = import_module("pandas._config.config")
    found, prefix = config._global_config, object.__getattribute__(options, "prefix")
    for part in prefix.split("."):
        found = found.get(part, {})
    if found is not object.__getattribute__(options, "d"):
        return NotImplemented
    return pickler.by_name(Reference("pandas", f"options.{prefix}"))


def reduce_references(pickler: Pickler, references: Any) -> Any:
    """Which blocks hold the same memory: each of them says so when it is there again."""
    return restore.references, ()


def reduce_column(pickler: Pickler, column: Any) -> Any:
    """What a column keeps of its own answers is no part of it: reading one must not look like a change."""
    pickler.watch(getattr(column, "_ndarray", None))
    if id(column) in pickler.muted:
        parts = pickler.immutable(column)
    else:
        pickler.identify(column)
        parts = reduce(column)
        if id(column) in pickler.private:
            pickler.make_private(parts)
    return _without_cache(parts)


def _without_cache(parts: Any) -> Any:
    state = parts[2] if isinstance(parts, tuple) and len(parts) > 2 else None
    if isinstance(state, dict) and "_cache" in state:
        attributes = {name: value for name, value in state.items() if name != "_cache"}
        return *parts[:2], attributes, *parts[3:]
    if isinstance(state, tuple) and isinstance(state[-1], dict) and "_cache" in state[-1]:
        attributes = {name: value for name, value in state[-1].items() if name != "_cache"}
        # Before pandas 3 it does not load without a dict, though that be empty.
        return *parts[:2], (*state[:-1], attributes) if attributes or _release() < 3 else state[:-1]
    return parts


def reduce_arrow_column(pickler: Pickler, column: Any) -> Any:
    """pandas would join the chunks first, which copies the column at every dump; they cannot change, so they go as is."""
    pickler.identify(column)
    state = dict(vars(column))
    chunks = state.pop("_pa_array", None)
    if "_cache" in state:  # of its own answers, which are no part of it
        state["_cache"] = {}
    if chunks is None:
        return pickler.immutable(column)
    pickler.mute([chunks, state])
    return restore.arrow_column, (type(column), chunks, state)


def _polars(kind: type) -> Handler | None:
    import polars as pl

    if kind is pl.DataFrame:
        return reduce_polars_frame
    if kind is pl.Series:
        return reduce_polars_series
    if issubclass(kind, pl.DataType) or kind.__module__.startswith("polars.datatypes"):
        return leaf
    return None


def reduce_polars_series(pickler: Pickler, series: Any) -> Any:
    pickler.dump_record.opaque.append(series)
    return restore.polars_series, (_save_column(pickler, series),)


def reduce_polars_frame(pickler: Pickler, frame: Any) -> Any:
    # Column by column, so that a new column stores a column.
    pickler.dump_record.opaque.append(frame)
    return restore.polars_frame, ([_save_column(pickler, frame[name]) for name in frame.columns],)


def _save_column(pickler: Pickler, column: Any) -> Any:
    """The bytes of a column; where an array has the same memory as a piece of it, each piece as a view or as bytes."""
    pieces = [(chunk, _parts_of(chunk)) for chunk in column.get_chunks() if len(chunk)]
    are_lent = [_is_lent(pickler, part) for _, parts in pieces for part in parts]  # of each, for that notes its memory
    if not any(are_lent):
        return pickler.buffer(column.__getstate__())
    made = (column.name, column.dtype, [_save_piece(pickler, *piece) for piece in pieces])
    pickler.keepalive.append(made)
    return made


def _save_piece(pickler: Pickler, chunk: Any, parts: list[Any]) -> Any:
    if not parts:
        return pickler.buffer(chunk.__getstate__())
    if _base_name(chunk.dtype) == "Struct":
        return [_save_column(pickler, part) for part in parts]
    (array,) = parts
    pickler.muted.add(id(array))
    pickler.private.add(id(array))
    return array


def _is_lent(pickler: Pickler, part: Any) -> bool:
    """Whether an array has the memory of a part of a column, or of a part of that."""
    if not hasattr(part, "get_chunks"):
        return pickler.looks_at(part, *_bounds(part))
    below = [_is_lent(pickler, one) for chunk in part.get_chunks() for one in _parts_of(chunk)]
    return any(below)


def _parts_of(chunk: Any) -> list[Any]:
    """The memory of a piece of numbers or times as an array, and the fields of structs: polars takes arrays of numpy without a copy.

    None where some numbers are missing, or numpy has no such: these are polars' own.
    """
    if "numpy" not in sys.modules:
        return []
    name = _base_name(chunk.dtype)
    if name == "Struct":
        return [] if chunk.null_count() else [chunk.struct.field(field) for field in chunk.struct.fields]
    if not (chunk.dtype.is_numeric() or chunk.dtype.is_temporal() or name == "Array"):
        return []
    try:
        return [(chunk.to_physical() if chunk.dtype.is_temporal() else chunk).to_numpy(allow_copy=False)]
    except (RuntimeError, TypeError):
        return []


def _base_name(dtype: Any) -> str:
    name: str = dtype.base_type().__name__
    return name


def _bounds(array: Any) -> tuple[int, int]:
    from agent_kernel.values.reducers.arrays import bounds  # polars works without numpy

    return bounds(array)


def _arrow(kind: type) -> Handler | None:
    pa = sys.modules["pyarrow"]
    if issubclass(kind, (pa.Array, pa.ChunkedArray, pa.Table, pa.RecordBatch)):
        return reduce_arrow
    if issubclass(kind, pa.Buffer):
        return reduce_arrow_buffer
    if issubclass(kind, (pa.DataType, pa.Field, pa.Schema, pa.Scalar)):
        return immutable
    return None


def reduce_arrow(pickler: Pickler, value: Any) -> Any:
    """A slice would take its whole buffers along, so it is copied first."""
    if value.nbytes * 2 < value.get_total_buffer_size():
        has_others = [_looks_at(pickler, buffer) for buffer in _buffers_of(value)]
        if not any(has_others):
            return restore.arrow_slice, (type(value).__name__, pickler.buffer(_ipc(value)))
    return _reduce_arrow_text(pickler, value) or pickler.immutable(value)


def reduce_arrow_buffer(pickler: Pickler, buffer: Any) -> Any:
    """Memory that an array has too comes back as a view of that: Arrow takes an array of numpy without a copy."""
    if not _looks_at(pickler, buffer):
        return pickler.immutable(buffer)
    import numpy as np

    parts = restore.arrow_buffer, (np.frombuffer(buffer, np.uint8),)
    pickler.mute(parts)
    pickler.make_private(parts)
    return parts


def _looks_at(pickler: Pickler, buffer: Any) -> bool:
    return buffer.is_cpu and pickler.looks_at(buffer, buffer.address, buffer.address + buffer.size)


def _buffers_of(value: Any) -> Iterator[Any]:
    if hasattr(value, "buffers"):
        yield from (buffer for buffer in value.buffers() if buffer is not None)
    else:
        parts: Any = value.chunks if hasattr(value, "chunks") else value.columns
        for part in parts:
            yield from _buffers_of(part)


def _reduce_arrow_text(pickler: Pickler, value: Any) -> Any:
    """Text in one piece goes as its buffers: pyarrow makes seven objects of it, and a frame has several such columns."""
    pa = sys.modules["pyarrow"]
    is_column = type(value) is pa.ChunkedArray
    if is_column and value.num_chunks != 1:
        return None
    array = value.chunk(0) if is_column else value
    if type(array) is not pa.LargeStringArray and type(array) is not pa.StringArray:
        return None
    buffers = array.buffers()
    if any(buffer is None for buffer in buffers[1:]):  # there is no text
        return None
    saved_buffers = [_save_buffer(pickler, buffer) for buffer in buffers]
    return restore.arrow_text, (type(array).__name__, is_column, len(array), array.offset, saved_buffers)


def _save_buffer(pickler: Pickler, buffer: Any) -> Any:
    if buffer is None:
        return None
    return buffer.to_pybytes() if buffer.size <= _LITTLE else pickler.buffer(memoryview(buffer))


_LITTLE = 256  # bytes: fewer go into the stream


def _ipc(value: Any) -> Any:
    import pyarrow as pa

    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        value = pa.table({"": value})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    return memoryview(sink.getvalue())
