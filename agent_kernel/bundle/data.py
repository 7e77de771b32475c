"""Plain data of a bundle for readers without this package: JSON, numpy's `.npy`, Arrow, named as the variables.

What stands here is a copy of what the store holds. It is read with nothing but plain data allowed, so making it runs no code.
"""
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.session.snapshot import Snapshot
from agent_kernel.storage.archive import DEVICES
from agent_kernel.values.restore.arrays import is_long_double

if TYPE_CHECKING:
    from agent_kernel.bundle.exporting import Contents

__all__ = ["FOLDER", "Plain", "plain_data"]

FOLDER: Final = "data"
MOST_EACH: Final = 64 << 20  # bytes of a variable; larger ones are in the store alone
MOST_IN_ALL: Final = 256 << 20
_MOST_ITEMS: Final = 2_000_000


class Plain(msgspec.Struct):
    """The members with plain data, which variable each holds, and what is left to the store."""

    members: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    names: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # member by variable
    needs_trust: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # variable, and what is built for it


def plain_data(contents: Contents) -> Plain:
    """The plain data at HEAD of a bundle, each variable in a form that other programs read."""
    repo, chosen = contents.repo, contents.chosen
    snapshot = Snapshot(repo, chosen.branches[chosen.head], plain=True)
    found, room, used = Plain(), MOST_IN_ALL, set[str]()
    for name in sorted(contents.sizes):
        if contents.sizes[name] > min(MOST_EACH, room):
            continue
        try:
            value = snapshot[name]
        except AgentKernelError as error:
            reason = str(getattr(error, "reason", error))
            found.needs_trust[name] = reason.removeprefix("it needs ").partition(", and building")[0]
            continue
        written = _write(value)
        if written is None or len(written[1]) > min(MOST_EACH, room):
            continue
        suffix, content = written
        member = f"{FOLDER}/{_file_name(name, used)}.{suffix}"
        found.members[member], found.names[name] = content, member
        room -= len(content)
    return found


def _file_name(name: str, used: set[str]) -> str:
    """A name that any file system takes, and that no other variable has there."""
    fits = name.isascii() and name.isidentifier() and name.casefold() not in DEVICES and len(name) <= 80
    found = name if fits else "variable"
    if not fits or found.casefold() in used:
        found = f"{found[:40]}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    used.add(found.casefold())
    return found


def _write(value: object) -> tuple[str, bytes] | None:
    """The suffix of a form that holds the value, and its bytes; None where there is no such form."""
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    if home == "numpy" and kind.__name__ == "ndarray":
        return _write_array(value)
    if home == "pandas" and kind.__name__ in ("DataFrame", "Series"):
        return _write_table(value)
    if home == "builtins" and _is_json(value):
        with suppress(ValueError, RecursionError):
            return "json", (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()
    return None


def _is_json(value: object) -> bool:
    """Whether JSON has all of it: nothing in it is of another type, or would come back as another value."""
    waiting: list[Iterator[object]] = [iter((value,))]
    items_left = _MOST_ITEMS
    while waiting:
        one = next(waiting[-1], _END)
        if one is _END:
            waiting.pop()
            continue
        items_left -= 1
        if type(one) is list or type(one) is tuple:
            waiting.append(iter(one))
        elif type(one) is dict:
            if not all(type(key) is str for key in one):
                return False
            waiting.append(iter(one.values()))
        elif not (one is None or type(one) in (bool, int, float, str)):
            return False
        if items_left < 0 or len(waiting) > 200:
            return False
    return True


_END: Final = object()


def _write_array(value: Any) -> tuple[str, bytes] | None:
    import numpy as np

    # Another platform would take long doubles in a file for other numbers.
    if value.dtype.hasobject or is_long_double(value.dtype):
        return None
    made = io.BytesIO()
    np.lib.format.write_array(made, value, allow_pickle=False)
    return "npy", made.getvalue()


def _write_table(value: Any) -> tuple[str, bytes] | None:
    frame = value.to_frame(name="value" if value.name is None else str(value.name)) if value.ndim == 1 else value
    if find_spec("pyarrow") is not None:
        pa: Any = _arrow()
        try:
            table = pa.Table.from_pandas(frame)
        except (pa.ArrowException, ValueError, TypeError):  # a column of objects of several types
            return None
        made = pa.BufferOutputStream()
        with pa.ipc.new_file(made, table.schema) as writer:
            writer.write_table(table)
        return "arrow", made.getvalue().to_pybytes()
    return "csv", frame.to_csv().encode("utf-8", "backslashreplace")


def _arrow() -> Any:
    import pyarrow as pa

    __import__("pyarrow.ipc")
    return sys.modules.get("pyarrow", pa)
