"""Find what belongs to a type by the type's identity, also for libraries that may never be imported.

A library's type is asked for only when a value of that name turns up, and is accepted only if it is the very object
that the loaded library holds: a class that calls itself `pandas.DataFrame` is not one.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from agent_kernel.values.summaries.reading import loaded, module_name, qualified_name

Found = TypeVar("Found")


_HEAP_TYPE = 1 << 9  # CPython's Py_TPFLAGS_HEAPTYPE: made at run time, so that any name may be claimed


class TypeCache(Generic[Found]):
    """What was found out about types, for as long as each type lives: one of the notebook dies when its last user does.

    Attributes:
        by_id: by the id of the type, whose hash may be its metaclass's code.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, Found] = {}
        self._alive: dict[int, weakref.ref[type]] = {}

    def get(self, kind: type) -> Found | None:
        """What is kept of this type."""
        return self.by_id.get(id(kind))

    def keep(self, kind: type, found: Found) -> Found:
        """Remember it, and give it back. It must not refer to the type."""
        key = id(kind)
        self._alive[key] = weakref.ref(kind, lambda _: self._drop(key))
        self.by_id[key] = found
        return found

    def forget(self, kind: type) -> None:
        """Let it be found out again."""
        self._drop(id(kind))

    def _drop(self, key: int) -> None:
        self._alive.pop(key, None)
        self.by_id.pop(key, None)


class ExactTypes(Generic[Found]):
    """A table from types to what belongs to them, which never hashes or compares a type.

    Args:
        builtin: types at hand, with what belongs to them.
        libraries: `"module:Name"`, where module is the one that offers the name (`scipy.sparse:csr_matrix`).
    """

    def __init__(
        self, builtin: Iterable[tuple[type, Found]] = (), libraries: Mapping[str, Found] | None = None
    ) -> None:
        # The type is kept beside its id: an id may be given to another object once its owner is gone.
        self._known: dict[int, tuple[type, Found | None]] = {id(kind): (kind, found) for kind, found in builtin}
        self._libraries: dict[tuple[str, str], list[tuple[str, Found]]] = {}
        for place, found in (libraries or {}).items():
            module, name = place.split(":")
            self._libraries.setdefault((module.split(".")[0], name), []).append((module, found))

    def find(self, kind: type) -> Found | None:
        """What belongs to exactly this type, not to its bases."""
        known = self._known.get(id(kind))
        return known[1] if known is not None else self._from_library(kind)

    def of(self, value: object) -> Found | None:
        """What belongs to exactly the type of this value."""
        return self.find(type(value))

    def _from_library(self, kind: type) -> Found | None:
        name = qualified_name(kind)
        package = module_name(kind).split(".")[0]
        if package == "builtins" and not kind.__flags__ & _HEAP_TYPE:
            self._known[id(kind)] = (kind, None)  # no library will ever offer it
        for module, found in self._libraries.get((package, name), ()):
            if loaded(module, name) is kind:
                self._known[id(kind)] = (kind, found)
                return found
        return None
