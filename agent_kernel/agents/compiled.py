"""Have the functions of known libraries whose compiled code writes say so before they do: Python has no audit event for them.

Each is replaced, where it stands, by one that tells the hook of `effects` what it was given and calls it. A library that is
not loaded yet is met as its import ends. What other compiled code does by itself is seen by nobody.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

__all__ = [
    "CONNECTS",
    "LOADS",
    "OPENS",
    "REQUESTS",
    "SETS_AUTHORIZER",
    "WRITES",
    "opened_connection",
    "tell_of_compiled",
]

WRITES: Final = "agent_kernel.compiled.writes"
OPENS: Final = "agent_kernel.compiled.opens"
REQUESTS: Final = "agent_kernel.compiled.requests"
CONNECTS: Final = "agent_kernel.compiled.connects"
LOADS: Final = "agent_kernel.compiled.loads"
SETS_AUTHORIZER: Final = "agent_kernel.compiled.authorizer"

_Args: TypeAlias = Sequence[Any]
_Words: TypeAlias = Mapping[str, Any]
_Says: TypeAlias = Callable[[_Args, _Words], Iterator[tuple[str, str]]]  # event, and on what
_Hear: TypeAlias = Callable[[str, tuple[Any, ...]], None]


def _given(args: _Args, words: _Words, at: int, *names: str) -> object:
    return args[at] if at < len(args) else next((words[name] for name in names if name in words), None)


def _written(at: int, *names: str, mode: str = "", default: str = "") -> _Says:
    """A file is written where this argument is a path. What has a `write` is open already.

    Args:
        mode: the argument behind it, which says whether it is written, and by `default` what it says where it is left out.
    """

    def says(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
        place: Any = _given(args, words, at, *names)
        how = _given(args, words, at + 1, mode) if mode else None
        if place is None or hasattr(place, "write") or (mode and not set("wax+").intersection(str(how or default))):
            return
        is_path = isinstance(place, str | bytes | os.PathLike)
        yield WRITES, os.fsdecode(cast("Any", place)) if is_path else type(place).__name__

    return says


def _shared(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
    """A file whose bytes are those of a tensor."""
    if _given(args, words, 1, "shared"):
        yield WRITES, str(_given(args, words, 0, "filename"))


def _requested(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
    """What is read from another computer, by its address."""
    source: object = _given(args, words, 0, "source", "sources")
    for one in cast("list[object]", source) if isinstance(source, list | tuple) else [source]:
        if isinstance(one, str) and "://" in one and not one.startswith("file:"):
            yield REQUESTS, one


def _opened(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
    path = _given(args, words, 0, "database", "path")
    if path is not None and str(path) not in ("", ":memory:", ":default:"):
        yield OPENS, os.fsdecode(cast("Any", path))


def _connected(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
    address = str(_given(args, words, 1, "addr"))
    if not address.startswith("inproc:"):
        yield CONNECTS, address


_COPIED: Final = re.compile(r"(?is)\bto\s+'([^']+)'")
_LEAVES: Final = re.compile(r"(?is)\b(?:copy|attach|install|load|export)\b|_directory|_storage|_output")
_ANY_KIND: Final = ("COPY", "EXPLAIN", "PREPARE", "SET", "PRAGMA")  # which may hold another, or name a folder


def _asked(at: int) -> _Says:
    """A statement for DuckDB, which tells by itself of what kind each one of several is."""

    def says(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
        given: Any = _given(args, words, at, "query", "sql_query")
        for one in sys.modules["duckdb"].extract_statements(given) if isinstance(given, str) else (given,):
            if not hasattr(one, "query"):
                continue
            kind, said = one.type.name, str(one.query).strip()
            into = _COPIED.search(said)
            if kind == "COPY" and into:
                yield WRITES, into[1]
            elif kind in ("ATTACH", "EXPORT") or (kind in _ANY_KIND and _is_leaving(said)):
                yield WRITES, said
            elif kind == "LOAD" or (kind == "CREATE" and re.search(r"(?i)\bsecret\b", said)):
                yield LOADS, said
            if "://" in said:
                yield REQUESTS, said

    return says


def _is_leaving(statement: str) -> bool:
    return bool(_LEAVES.search(statement)) and not re.search(r"(?is)\bcopy\b[^']*\bfrom\s+'", statement)


def _authorized(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
    yield SETS_AUTHORIZER, ""


_STATEMENTS: Final = ("execute", "executemany", "sql", "query", "from_query", "query_df")
_FRAME: Final = _written(1, "file", "path", "target")
_SINK: Final = _written(1, "where", "sink", "output_file", "dest", "path", "base_dir")
_ARROW_FILES: Final = ("open_output_stream", "open_append_stream", "create_dir", "delete_dir", "delete_dir_contents")
# By the module at the end of whose import they are there: what writes, as it is reached from which module.
_WRITERS: Final[dict[str, dict[str, _Says]]] = {
    "polars": {
        **{f"polars:DataFrame.write_{kind}": _FRAME for kind in ("csv", "ipc", "ipc_stream", "json", "ndjson")},
        **{f"polars:DataFrame.write_{kind}": _FRAME for kind in ("avro", "parquet", "delta")},
        **{f"polars:LazyFrame.sink_{kind}": _FRAME for kind in ("csv", "ipc", "ndjson", "parquet", "delta")},
        **{f"polars:{kind}.serialize": _FRAME for kind in ("DataFrame", "LazyFrame")},
        **{f"polars:scan_{kind}": _requested for kind in ("csv", "ipc", "ndjson", "parquet", "delta", "lines")},
        **{f"polars:read_{kind}": _requested for kind in ("csv", "ipc", "ndjson", "parquet", "delta", "avro")},
    },
    "duckdb": {
        "_duckdb:connect": _opened,
        "duckdb:connect": _opened,
        **{f"duckdb:{name}": _asked(0) for name in _STATEMENTS},
        **{f"_duckdb:{name}": _asked(0) for name in _STATEMENTS},
        **{f"duckdb:DuckDBPyConnection.{name}": _asked(1) for name in _STATEMENTS},
        "duckdb:DuckDBPyRelation.query": _asked(2),
        **{
            f"duckdb:DuckDBPyRelation.{name}": _written(1, "file_name")
            for name in ("to_csv", "write_csv", "to_parquet", "write_parquet")
        },
        "duckdb:write_csv": _written(1, "filename", "file_name"),
        **{
            f"duckdb:{where}{name}": lambda args, words: iter([(LOADS, f"an extension of DuckDB: {args[-1:]}")])
            for where in ("", "DuckDBPyConnection.")
            for name in ("install_extension", "load_extension")
        },
    },
    "torch": {
        "torch._C:PyTorchFileWriter.__init__": _written(1),
        "torch._C:ScriptModule.save": _written(1),
        "torch._C._autograd:_ProfilerResult.save": _written(1),
        "torch:from_file": _shared,
        "torch._C._VariableFunctions:from_file": _shared,
        "torch:UntypedStorage.from_file": _shared,
    },
    "pyarrow": {
        "pyarrow.lib:_RecordBatchFileWriter._open": _SINK,
        "pyarrow.lib:_RecordBatchStreamWriter._open": _SINK,
        **{
            f"{module}:{name}": says
            for module in ("pyarrow", "pyarrow.lib")
            for name, says in {
                "OSFile": _written(0, "path", mode="mode", default="r"),
                "memory_map": _written(0, "path", mode="mode", default="r"),
                "create_memory_map": _written(0, "path"),
                "output_stream": _written(0, "source"),
            }.items()
        },
    },
    "pyarrow.fs": {
        **{f"pyarrow.fs:FileSystem.{name}": _SINK for name in (*_ARROW_FILES, "delete_file", "copy_file", "move")},
        "pyarrow.fs:copy_files": _written(1, "destination"),
    },
    "pyarrow.parquet.core": {"pyarrow.parquet.core:ParquetWriter.__init__": _SINK},
    "pyarrow.csv": {
        "pyarrow.csv:write_csv": _SINK,
        "pyarrow._csv:write_csv": _SINK,
        "pyarrow.csv:CSVWriter": _written(0, "sink"),
    },
    "pyarrow.feather": {"pyarrow._feather:write_feather": _SINK},
    "pyarrow.orc": {"pyarrow.orc:ORCWriter.__init__": _SINK},
    "pyarrow.dataset": {"pyarrow.dataset:write_dataset": _SINK},
    "zmq": {f"zmq.backend.cython._zmq:Socket.{name}": _connected for name in ("connect", "bind")},
    "lmdb": {"lmdb:open": _opened, "lmdb.cpython:open": _opened},
    "sqlite3": {},
}


def tell_of_compiled(hear: _Hear, is_listening: Callable[[], object]) -> None:
    """Have them tell from now on, those that are loaded and those that will be."""

    def met(name: str) -> None:
        if name == "sqlite3":
            _guard_attaching(hear, is_listening)
        for place, says in _WRITERS[name].items():
            module, _, dotted = place.partition(":")
            *parts, last = dotted.split(".")
            holder: Any = sys.modules.get(module)
            for part in parts:
                holder = getattr(holder, part, None)
            act = getattr(holder, last, None)
            if act is not None and act not in told:
                telling = _telling(act, says, hear, is_listening)
                told.append(telling)
                _put(holder, last, telling)

    told: list[object] = []
    for name in _WRITERS:
        if name in sys.modules and not getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False):
            met(name)
    sys.meta_path.insert(0, _Finder(met))


class _Finder:
    """Finds what others find, and hears when it has been imported."""

    def __init__(self, met: Callable[[str], None]) -> None:
        self._met = met

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path, target) if name in _WRITERS else None
        loader: Any = spec.loader if spec is not None else None
        if loader is None or not hasattr(loader, "__dict__"):
            return None
        execute = loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(module)
            self._met(name)

        loader.exec_module = executed
        return spec


_MAY_BE_BASE: Final = 1 << 10  # Py_TPFLAGS_BASETYPE


def _telling(act: Any, says: _Says, hear: _Hear, is_listening: Callable[[], object]) -> Any:
    def tell(args: _Args, words: _Words) -> None:
        if is_listening():
            for event, target in says(args, words):
                hear(event, (target,))

    if isinstance(act, type) and act.__flags__ & _MAY_BE_BASE:  # a subclass, so that it stays a class for those who ask

        def __new__(cls: type, *args: Any, **words: Any) -> Any:  # noqa: N807 - it is one
            tell(args, words)
            return cast("Any", act).__new__(cls, *args, **words)

        body: dict[str, Any] = {
            "__new__": __new__,
            "__slots__": (),
            "__module__": act.__module__,
            "__doc__": act.__doc__,
        }
        return cast("object", type(act.__name__, (act,), body))

    @functools.wraps(act)
    def told(*args: Any, **words: Any) -> Any:
        tell(args, words)
        return act(*args, **words)

    told.__dict__.pop("__wrapped__", None)  # nobody is to call it past this
    return told


def _put(holder: Any, name: str, value: object) -> None:
    """Set an attribute, also of a class of compiled code that lets nobody set one."""
    try:
        setattr(holder, name, value)
    except TypeError:
        import ctypes

        entries: Any = gc.get_referents(vars(holder))[0]
        entries[name] = value
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(holder))


# -- SQLite: a statement attaches another file, and `vacuum into` does so, too

_ATTACH: Final = 24  # SQLITE_ATTACH
_OK, _DENY = 0, 1
_opened_in_steps: Final[set[int]] = set()  # by id, which outlives a connection at no harm


def opened_connection(connection: object) -> None:
    """A step opened a connection, which cannot be given an authorizer yet: it gets one as it is used first."""
    _opened_in_steps.add(id(connection))


def _guard_attaching(hear: _Hear, is_listening: Callable[[], object]) -> None:
    """Have the connections that steps open ask before they attach a file, as it is asked before one is opened."""
    import sqlite3

    set_authorizer: Any = sqlite3.Connection.set_authorizer

    def may(action: int, path: str | None, *_: object) -> int:
        if action != _ATTACH or not is_listening():
            return _OK
        try:  # a path that is a parameter is not told
            hear("sqlite3.connect", ("a file" if path is None else path,))
        except BaseException:  # noqa: BLE001 - SQLite takes an answer and no error; the gate knows what it stopped
            return _DENY
        return _OK

    def guarded(act: Any) -> Any:
        @functools.wraps(act)
        def used(self: Any, *args: Any, **words: Any) -> Any:
            if id(self) in _opened_in_steps:
                _opened_in_steps.discard(id(self))
                set_authorizer(self, may)
            return act(self, *args, **words)

        return used

    for name in ("cursor", "execute", "executemany", "executescript"):
        _put(sqlite3.Connection, name, guarded(getattr(sqlite3.Connection, name)))
    _put(sqlite3.Connection, "set_authorizer", _telling(set_authorizer, _authorized, hear, is_listening))
