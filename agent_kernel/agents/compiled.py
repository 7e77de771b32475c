"""Have methods of known libraries whose compiled code writes say so before they do: Python has no audit event for them.

Each is replaced in its class by one that tells the hook of `effects` what it was given and calls it. A library that is not
loaded yet is met as its import ends. What other compiled code does by itself is seen by nobody.

Only methods, and only of classes that let themselves be changed. A function or class that a module holds stays the object that
it is: variables hold it too, and are saved as its name. And some functions, such as `duckdb.sql`, look for variables in the frame
of whoever calls them.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final, TypeAlias, cast

__all__ = ["WRITES", "tell_of_compiled"]

WRITES: Final = "agent_kernel.compiled.writes"

_Args: TypeAlias = Sequence[Any]
_Words: TypeAlias = Mapping[str, Any]
_Says: TypeAlias = Callable[[_Args, _Words], Iterator[tuple[str, str]]]  # event, and on what
_Hear: TypeAlias = Callable[[str, tuple[Any, ...]], None]


def _given(args: _Args, words: _Words, at: int, *names: str) -> object:
    return args[at] if at < len(args) else next((words[name] for name in names if name in words), None)


def _written(at: int, *names: str) -> _Says:
    """A file is written where this argument is a path. What has a `write` is open already."""

    def says(args: _Args, words: _Words) -> Iterator[tuple[str, str]]:
        place: Any = _given(args, words, at, *names)
        if place is None or hasattr(place, "write"):
            return
        is_path = isinstance(place, str | bytes | os.PathLike)
        yield WRITES, os.fsdecode(cast("Any", place)) if is_path else type(place).__name__

    return says


_FRAME: Final = _written(1, "file", "path", "target")
_SINK: Final = _written(1, "where", "sink")
# By the module at the end of whose import they are there: what writes, as it is reached from which module.
_WRITERS: Final[dict[str, dict[str, _Says]]] = {
    "polars": {
        **{f"polars:DataFrame.write_{kind}": _FRAME for kind in ("csv", "ipc", "ipc_stream", "json", "ndjson")},
        **{f"polars:DataFrame.write_{kind}": _FRAME for kind in ("avro", "parquet", "delta")},
        **{f"polars:LazyFrame.sink_{kind}": _FRAME for kind in ("csv", "ipc", "ndjson", "parquet", "delta")},
        **{f"polars:{kind}.serialize": _FRAME for kind in ("DataFrame", "LazyFrame")},
    },
    "torch": {
        "torch._C:PyTorchFileWriter.__init__": _written(1),
        "torch._C:ScriptModule.save": _written(1),
    },
    "pandas": {f"pandas:DataFrame.to_{kind}": _written(1, "path") for kind in ("parquet", "feather", "orc")},
    "pyarrow.parquet.core": {"pyarrow.parquet.core:ParquetWriter.__init__": _SINK},
    "pyarrow.orc": {"pyarrow.orc:ORCWriter.__init__": _SINK},
}


def tell_of_compiled(hear: _Hear, is_listening: Callable[[], object]) -> None:
    """Have them tell from now on, those that are loaded and those that will be."""

    def met(name: str) -> None:
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
                setattr(holder, last, telling)

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


def _telling(act: Any, says: _Says, hear: _Hear, is_listening: Callable[[], object]) -> Any:
    @functools.wraps(act)
    def told(*args: Any, **words: Any) -> Any:
        if is_listening():
            for event, target in says(args, words):
                hear(event, (target,))
        return act(*args, **words)

    told.__dict__.pop("__wrapped__", None)  # nobody is to call it past this
    return told
