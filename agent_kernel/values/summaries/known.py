"""Find what belongs to a type by the type's identity, also for libraries that may never be imported.

A library's type is asked for only when a value of that name turns up, and is accepted only if it is the very object
that the loaded library holds: a class that calls itself `pandas.DataFrame` is not one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from agent_kernel.values.summaries.reading import loaded, module_name, qualified_name

Found = TypeVar("Found")


_HEAP_TYPE = 1 << 9  # CPython's Py_TPFLAGS_HEAPTYPE: made at run time, so that any name may be claimed


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
