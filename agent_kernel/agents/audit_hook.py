"""An audit hook that is in the interpreter only while it is attached.

Python adds hooks and never removes one. With a hook, each `id()` builds an event first: it takes six times as long, and a deep
copy twice as long, for as long as the process lives. So the interpreter's list of hooks is set aside when ours is the only
hook on it, and set back later. CPython keeps the list's address in a field of its interpreter state.

Where that field is, another process of the same Python finds out, once: it tries the places where the address stands, and
the field is the one without which no hook hears. If that process fails, or any other check does, the hook stays attached.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

Hook: TypeAlias = Callable[[str, tuple[Any, ...]], None]

_LIMIT_S: Final = 10.0
_HOME: Final = os.getpid()
# Runs elsewhere, as what it tries may end the process. An iterator over the list, which Python makes for each event, leads to it.
_FIND_FIELD: Final = """
import ctypes, gc, os, sys
found, heard = [], []
def hook(event, args):
    if event == "agent_kernel.find":
        for one in gc.get_objects():
            if type(one) is type(iter([])) and type(hooks := one.__reduce__()[1][0]) is list and hook in hooks:
                found.append(hooks)
    if event == "agent_kernel.try":
        heard.append(event)
sys.addaudithook(hook)
sys.audit("agent_kernel.find")
begin = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyInterpreterState_Get", ctypes.pythonapi))()
for place in range(0, 1 << 20, 8):
    word = ctypes.c_void_p.from_address(begin + place)
    if word.value == id(found[0]):
        word.value = None
        sys.audit("agent_kernel.try")
        if not heard:
            word.value = id(found[0])
            sys.audit("agent_kernel.try")
            print(place if heard else "", flush=True)
            os._exit(0)
        word.value = id(found[0])
        heard.clear()
"""


class DetachableHook:
    """A hook that can be taken out again, if it was prepared for that. Call its methods from one thread at a time."""

    def __init__(self, hook: Hook) -> None:
        self._hook = hook
        self._is_added = False
        self._field: Any = None  # where the interpreter keeps its list of hooks, if it can be emptied
        self._hooks: list[Hook] = []  # that list: never freed, as what the field held of it is not given back

    def prepare(self) -> None:
        """Find out how to take the hook out: a tenth of a second. Call it before `attach`; without it, the hook stays."""
        if not self._is_added:
            self._field = _find_field()

    @property
    def is_detachable(self) -> bool:
        """Whether `detach` does anything."""
        return self._is_added and self._field is not None

    def attach(self) -> None:
        """Hear events from now on."""
        if not self._is_added:
            self._add()
        elif self._field is not None and self._field.value is None:
            self._field.value = id(self._hooks)
        elif self._field is not None and self._field.value != id(self._hooks):  # somebody added a hook meanwhile
            # Not by `addaudithook`, which the other hook may refuse.
            cast("list[Hook]", ctypes.cast(self._field, ctypes.py_object).value).append(self._hook)
            self._field = None

    def detach(self) -> None:
        """Hear no more events, and let them cost nothing: unless somebody else has a hook, too."""
        if self._field is not None and self._field.value == id(self._hooks) and len(self._hooks) == 1:
            self._field.value = None

    def _add(self) -> None:
        field, self._field = self._field, None
        is_first = field is not None and field.value is None
        sys.addaudithook(self._hook)
        self._is_added = True
        if field is None or not is_first or field.value is None:
            return
        hooks: object = ctypes.cast(field, ctypes.py_object).value
        if type(hooks) is list and len(hooks) == 1 and hooks[0] is self._hook:  # pyright: ignore[reportUnknownArgumentType]
            self._field, self._hooks = field, cast("list[Hook]", hooks)


def _find_field() -> Any:
    """The field of this interpreter, or None."""
    is_known = sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED")
    if not is_known or os.getpid() != _HOME or not sys.executable:  # a fork ends soon
        return None
    try:
        command = [sys.executable, "-I", "-S", "-c", _FIND_FIELD]
        no_window: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)
        ran = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LIMIT_S,
            check=True,
            creationflags=no_window,
        )
        place = int(ran.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    begin: int = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyInterpreterState_Get", ctypes.pythonapi))()
    return ctypes.c_void_p.from_address(begin + place)
