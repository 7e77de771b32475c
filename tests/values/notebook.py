"""A notebook without a session: cells run in a namespace, and values go to blobs and back."""

from __future__ import annotations

import linecache
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from agent_kernel.session.tracking import Living
from agent_kernel.values import class_entry
from agent_kernel.values.groups import Dumped, dump_group
from agent_kernel.values.loader import Loader
from agent_kernel.values.streams import Failure, StoredGroup

_cells = count(1)


class Bytes:
    """A stored buffer, as `StoredBytes` wants it."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload

    @property
    def size(self) -> int:
        return len(self._payload)

    def read_into(self, target: memoryview) -> None:
        target[:] = self._payload


class Kept:
    """A dumped group as bytes alone: what a store would give back."""

    def __init__(self, members: Sequence[str], dumped: Dumped) -> None:
        self.members = tuple(members)
        self.layout = dumped.layout
        self.blobs = [blob if isinstance(blob, bytes) else bytes(blob.raw()) for blob in dumped.blobs]

    def group(self) -> StoredGroup:
        return StoredGroup(
            self.members,
            tuple(range(len(self.members))),
            len(self.members),
            self.layout,
            lambda i: bytes(self.blobs[i]),
            lambda i: Bytes(bytes(self.blobs[i])),
        )


class Namespace:
    """What cells ran in, with the lasting names of its classes and of what cannot be saved."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.living = Living()
        self.definitions: dict[bytes, bytes] = {}

    def run(self, source: str) -> None:
        """Run a cell whose text `inspect` can find, as in IPython."""
        filename = f"<values cell {next(_cells)}>"
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        exec(compile(source, filename, "exec"), self.names)

    def __getitem__(self, name: str) -> Any:
        return self.names[name]

    def dump(self, members: Mapping[str, object]) -> Dumped:
        dumped = dump_group(members, self.living, self.names)
        self.note_code(dumped)
        return dumped

    def note_code(self, dumped: Dumped) -> None:
        """Remember the code that a dump refers to, as a store would."""
        self.definitions |= {bytes(definition): payload for definition, payload in dumped.dump.definitions.items()}

    def keep(self, *names: str, beside: Sequence[type] = ()) -> list[Kept]:
        """The named variables as one group, with the classes that share objects with them; others as groups alone."""
        members: dict[str, object] = {class_entry(self.living.uid_of(kind)): kind for kind in beside}
        members.update((name, self.names[name]) for name in names)
        dumped = self.dump(members)
        kept = [Kept(list(members), dumped)]
        done = {self.living.uid_of(kind) for kind in beside}
        todo = dict(dumped.dump.classes)
        while todo:
            uid, kind = todo.popitem()
            if uid not in done:
                done.add(uid)
                body = self.dump({class_entry(uid): kind})
                kept.append(Kept([class_entry(uid)], body))
                todo.update(body.dump.classes)
        return kept

    def load(self, kept: Sequence[Kept], reusable: Mapping[str, type] | None = None) -> dict[str, Any]:
        """The values by name, with class entries among them; nothing is put into the namespace."""
        loader = Loader(self.names, self, self.living, reusable)
        loaded: dict[str, Any] = {}
        for part, values in zip(kept, loader.load([part.group() for part in kept]), strict=True):
            if isinstance(values, Failure):
                raise values.error
            loaded |= zip(part.members, values, strict=True)
        return loaded

    def there_and_back(self, *names: str) -> dict[str, Any]:
        return self.load(self.keep(*names))

    def definition(self, definition: bytes) -> bytes:
        return self.definitions[definition]
