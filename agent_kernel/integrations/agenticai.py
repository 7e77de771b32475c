"""State of agenticaiframework as records: `AgentKernelBackend` for all its managers, and a manager that knows its backends.

Each key is a record, in the order in which keys were first set. On a branch they are part of its commits, so a checkout takes
agents, workflows and teams back together with the variables; without one they lie beside all branches.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from blake3 import blake3
from pydantic import ConfigDict

from agent_kernel.errors import MissingExtraError
from agent_kernel.integrations import open_on
from agent_kernel.records.collection import Records, exactly, together
from agent_kernel.records.documents import pack_json, unpack_json
from agent_kernel.records.schema import Plane, Record
from agent_kernel.session.snapshot import Repository

try:
    from agenticaiframework.state.manager import StateBackend, StateConfig, StateEntry, StateManager, StateType
except ImportError as error:
    raise MissingExtraError("agenticaiframework", "agenticai") from error

__all__ = ["AgentKernelBackend", "AgentKernelStateManager"]

T = TypeVar("T")

_NAME: Final = "agent_kernel"
_HASHED: Final = "\x1e"  # before ids of keys that no id holds
_MOST_KEY: Final = 300  # bytes


class _EntryRecord(Record):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    collection = "agenticai"
    keeps_past = False  # beside the branches; on a branch the commits keep it
    created_ns: int  # since when the key is there: `list_keys` is in this order
    key: str = ""  # as JSON, where the id is a digest
    entry: Any  # as StateEntry.to_dict() gives it


class AgentKernelBackend(StateBackend):
    """A `StateBackend` in a repository. Safe from several threads and processes.

    Args:
        repo: a repository, the path or URL of one, or a `StateConfig` whose `persist_path` is that.
        branch: whose state. Without one it lies beside all branches, and no checkout rewinds it.
        plane: `branch` without a branch is that of the branch that this process works on.
        config: `ttl` is the seconds after which a key is gone. `encryption` with an `encryption_key` encrypts all values.

    While a session of this process is on the branch, state is part of its next commit, and a checkout rewinds both.

    Values come back as JSON has them, as from `FileBackend`: a tuple as a list, and what JSON does not know as its text. What
    cannot be stored at all (a dict whose key is a tuple) raises, instead of returning False: no manager looks at that.

    Raises:
        RefNotFoundError: there is no such branch.
        ValueError: the config asks for encryption without a key, or names no place; or a branch goes with the plane `store`.
    """

    def __init__(
        self,
        repo: Repository | str | Path | StateConfig,
        *,
        branch: str | None = None,
        plane: Plane | None = None,
        config: StateConfig | None = None,
    ) -> None:
        if isinstance(repo, StateConfig):
            config, repo = repo, _path_of(repo)
        self.config = config or StateConfig(backend=_NAME)
        if self.config.encryption and not self.config.encryption_key:
            raise ValueError("encryption needs an encryption_key")
        self.repo = open_on(repo, branch, plane or "branch")
        self._entries = Records(
            self.repo,
            _EntryRecord,
            plane=plane or ("store" if branch is None else "branch"),
            branch=branch,
            secret=self.config.encryption_key if self.config.encryption else None,
        )

    def get(self, key: str) -> StateEntry | None:
        """The entry, as one of its own. Returns None if the key is not there, or its time is over."""
        found: _EntryRecord | None = self._entries.get(_id_of(key))
        return None if found is None else StateEntry.from_dict(unpack_json(found.entry))

    def set(self, key: str, entry: StateEntry) -> bool:
        """Store an entry. Returns True.

        Raises:
            TypeError: a dict in it has a key that JSON cannot hold. Nothing was stored.
        """
        return self.set_many({key: entry})

    def delete(self, key: str) -> bool:
        """Delete a key. Returns whether it was there."""
        return self._entries.delete(_id_of(key))

    def exists(self, key: str) -> bool:
        """Whether the key is there, and its time not over."""
        return _id_of(key) in self._entries

    def list_keys(self, prefix: str | None = None) -> list[str]:
        """The keys that begin so, in the order in which they were first set."""
        found = self._entries.find(exactly(prefix or "") + "*") if _is_plain(prefix or "") else []
        named = [(one.created_ns, one.id) for one in found if not one.id.startswith(_HASHED)]
        hashed = [(one.created_ns, json.loads(one.key)) for one in self._entries.find(f"{_HASHED}*")]
        return [key for _, key in sorted(named + [one for one in hashed if one[1].startswith(prefix or "")])]

    def clear(self) -> bool:
        """Delete all keys. Returns True."""

        def act() -> None:
            for id in [*self._entries.ids()]:
                self._entries.delete(id)

        self.together(act, "agenticai: clear")
        return True

    def get_many(self, keys: Sequence[str]) -> dict[str, StateEntry]:
        """The entries that are there."""
        return {key: entry for key in keys if (entry := self.get(key)) is not None}

    def set_many(self, entries: Mapping[str, StateEntry]) -> bool:
        """Store several entries, all or none. Returns True."""
        for entry in entries.values():
            entry.updated_at = datetime.now().isoformat()  # local time, as its own backends write it
            entry.checksum = entry.compute_checksum()
        packed = {key: pack_json(entry.to_dict(), default=str) for key, entry in entries.items()}
        what = _title_of(next(iter(entries))) if len(entries) == 1 else f"{len(entries)} keys"
        self.together(partial(self._put, packed), f"agenticai: set {what}")
        return True

    def _put(self, packed: Mapping[str, object]) -> None:
        for key, entry in packed.items():
            id = _id_of(key)
            current: _EntryRecord | None = self._entries.get(id)
            created = time.time_ns() if current is None else current.created_ns
            name = json.dumps(key) if id.startswith(_HASHED) else ""
            record = _EntryRecord(id=id, created_ns=created, key=name, entry=entry)
            self._entries.put(record, ttl_s=self.config.ttl or None)

    def together(self, act: Callable[[], T], message: str = "") -> T:
        """Store all that `act` changes as one. It is called again where somebody else was faster."""
        return together(self._entries, act, message)


class AgentKernelStateManager(StateManager):
    """A `StateManager` that takes a backend, and raises where it does not know a backend's name.

    Args:
        backend: a `StateBackend`, or its name: `agent_kernel`, `file`, `memory` or `redis`; by default that of the config.
        persist_path: of the name `agent_kernel`: the path or URL of a repository.

    Raises:
        ValueError: no backend has this name. Its own manager keeps state in memory then, which is gone with the process.
    """

    BACKENDS: ClassVar[dict[str, type[StateBackend]]] = {**StateManager.BACKENDS, _NAME: AgentKernelBackend}

    def __init__(
        self,
        backend: StateBackend | str = "",
        persist_path: str | None = None,
        config: StateConfig | None = None,
        **options: Any,
    ) -> None:
        name = backend if isinstance(backend, str) else _NAME
        name = name or (_NAME if config is None else config.backend)
        if name not in self.BACKENDS:
            known = ", ".join(sorted(self.BACKENDS))
            raise ValueError(f"no state backend is named {name!r} (known: {known})")
        if config is None and isinstance(backend, AgentKernelBackend) and not options:
            config = backend.config
        config = config or StateConfig(backend=name, persist_path=persist_path, **options)
        if isinstance(backend, str):
            super().__init__(name, config=config)
        else:
            super().__init__("memory", config=config)
            self.backend = backend

    def save(
        self,
        key: str,
        value: Any,
        state_type: StateType = StateType.CUSTOM,
        metadata: dict[str, Any] | None = None,
    ) -> bool:
        """Store a value under the next version. No two callers get the same one, whatever process they are in."""
        store = super().save
        if not isinstance(self.backend, AgentKernelBackend):
            return store(key, value, state_type, metadata)
        return self.backend.together(
            lambda: store(key, value, state_type, metadata), f"agenticai: set {_title_of(key)}"
        )


def _path_of(config: StateConfig) -> str:
    if not config.persist_path:
        raise ValueError("persist_path must be the path or URL of a repository")
    return config.persist_path


def _title_of(key: str) -> str:
    return ascii(key)[1:-1][:80]


def _id_of(key: str) -> str:
    is_plain = key and _is_plain(key) and not key.startswith(_HASHED)
    return key if is_plain else _HASHED + blake3(key.encode("utf-8", "surrogatepass")).hexdigest()


def _is_plain(key: str) -> bool:
    return len(key.encode("utf-8", "surrogatepass")) <= _MOST_KEY and "\0" not in key and _is_utf8(key)


def _is_utf8(key: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in key)
