"""The state of an agent: values by key, for a user and a session.

Each key is a record. So two writers of different keys never meet, each key has its own history and time to live, and a secret is
encrypted alone. What is saved as a whole (a round, a checkpoint) is one record with all values.

All rules (who may read and write, what a value must be, how it may change) are looked at inside the change that stores it. A value
that breaks one raises, and nothing was stored.
"""

from __future__ import annotations

import base64
import binascii
import copy
import fnmatch
import functools
import hashlib
import inspect
import json
import logging
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

import msgspec
from pydantic import ConfigDict, Field, JsonValue
from pydantic_core import from_json, to_json

from agent_kernel.errors import (
    InvalidRecordError,
    RecordAccessError,
    RecordError,
    RecordNotFoundError,
    SealedRecordError,
    TransitionError,
)
from agent_kernel.records.collection import Change, Records, Subscription, exactly, is_in_transaction, together
from agent_kernel.records.documents import (
    call_with,
    checks_arguments,
    is_text,
    level_of_caller,
    not_negative,
    require_choice,
    require_function,
    require_mapping,
    require_result,
    require_takes,
    require_text,
    require_watcher,
    seconds,
    shown,
    texts,
)
from agent_kernel.records.lists import RecordList, place_of
from agent_kernel.records.schema import (
    ROWS,
    Plane,
    Record,
    as_rows,
    reason_of,
    require_plane,
    require_table,
    require_valid,
    require_validator,
)
from agent_kernel.records.sessions import SESSIONS
from agent_kernel.repository import hex_of

if TYPE_CHECKING:
    from agent_kernel.records.documents import Seal, Secret
    from agent_kernel.records.lines import Line
    from agent_kernel.records.memory import Memory, Tiers
    from agent_kernel.repository import Repository

logger = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R", bound=Record)
Scope: TypeAlias = Literal["conversation", "task", "user"]
Patterns: TypeAlias = Sequence[str]
Allow: TypeAlias = Mapping[str, Patterns]  # "read" and "write"; what is not there may be done with all keys

_ACTIONS: Final = ("read", "write")
_SCOPES: Final[dict[Scope, str]] = {"conversation": "s", "task": "t", "user": "u"}
_DAY_S: Final = 86_400
_FORMAT: Final = 2  # of a backup; 1 where none of its values has a time to live


class _Entry(Record):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    collection = "state"
    value: JsonValue


class _Saved(Record):
    """All values at one time."""

    model_config = ConfigDict(ser_json_inf_nan="constants")
    collection = "state saved"
    values: dict[str, JsonValue]
    label: str = ""
    parent: int = 0  # of a checkpoint: the one before it
    ends: dict[str, int] = Field(default_factory=dict[str, int])  # when values of it are gone, in ns since 1970


class _Counts(Record):
    collection = "state counts"
    keeps_past = False
    round: int | None = None  # the largest
    checkpoint: int = 0  # the largest
    at: int = 0  # the checkpoint that the state comes from


@dataclass(frozen=True)
class Rules:
    """What holds for the keys of a state. Patterns are those of file names (`user.*`)."""

    validators: Mapping[str, Callable[[Any], object]] = field(default_factory=dict[str, Callable[[Any], object]])
    sanitisers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict[str, Callable[[Any], Any]])
    transitions: Mapping[str, Mapping[Any, Sequence[Any]]] = field(
        default_factory=dict[str, Mapping[Any, Sequence[Any]]]
    )
    allow: tuple[Allow, ...] = ()
    secret_keys: Patterns | None = None  # None: all

    def __post_init__(self) -> None:
        """Raises: TypeError, ValueError: a rule makes no sense, and would allow or encrypt something else."""
        for name in ("validators", "sanitisers", "transitions"):
            object.__setattr__(self, name, require_mapping(getattr(self, name), name))
        # Copies: who changes a rule later has not changed it here.
        object.__setattr__(self, "allow", tuple(require_mapping(one, "allow") for one in self.allow))
        for allow in self.allow:
            for action, patterns in allow.items():
                if action not in _ACTIONS:
                    raise ValueError(f"allow is for read and write, not {shown(action)}")
                texts(patterns, f"allow[{action!r}]")
        for function in self.validators.values():
            require_validator(function)
        for function in self.sanitisers.values():
            require_validator(function, "a sanitiser")
        if self.secret_keys is not None:
            texts(self.secret_keys, "secret_keys")
        for pattern, table in self.transitions.items():
            require_table(table, f"transitions[{pattern!r}]")

    def is_secret(self, key: str) -> bool:
        """Whether the value of the key is encrypted where the state has a secret."""
        return self.secret_keys is None or _fits(key, self.secret_keys)

    def require(self, action: str, key: str) -> None:
        """Raise RecordAccessError unless this may be done with the key, and InvalidRecordError unless it is text."""
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
            raise InvalidRecordError("state", shown(key), "a key is text")
        if not key:
            raise InvalidRecordError("state", key, "a key is not empty")
        if "\0" in key:
            raise InvalidRecordError("state", key, "a key has no NUL")
        if not is_text(key):
            raise InvalidRecordError("state", key, "a key is text that UTF-8 holds")
        if not self.allows(action, key):
            raise RecordAccessError("state", key, action)

    def allows(self, action: str, key: str) -> bool:
        return all(_fits(key, allow.get(action, ("*",))) for allow in self.allow)

    def clean(self, key: str, value: Any) -> Any:
        """The value, sanitised and validated.

        Raises:
            InvalidRecordError: a validator refuses it, or a sanitiser cannot make sense of it.
        """
        for pattern, sanitise in self.sanitisers.items():
            if _fits(key, [pattern]):
                value = _sanitised(key, sanitise, value)
        for pattern, validate in self.validators.items():
            if _fits(key, [pattern]):
                require_valid("state", key, validate, value)
        return value

    def check_transition(self, key: str, old: Any, new: Any) -> None:
        """Raise TransitionError if the value may not follow the old one."""
        for pattern, table in self.transitions.items():
            if not _fits(key, [pattern]) or old == new:
                continue
            after = next((values for value, values in table.items() if value == old), None)
            if after is not None and new not in after:
                raise TransitionError("state", key, None if old is None else str(old), str(new), tuple(map(str, after)))


@checks_arguments
class State:
    """Values by key, of what JSON can hold. Safe from several threads, coroutines and processes.

    >>> import agent_kernel as ak
    >>> state = ak.open("memory:").state("ada")
    >>> state.set("city", "London")
    >>> state.update("profile", {"age": 36})
    {'age': 36}
    >>> state.save()
    1
    >>> state.get("city"), state.get("country", "unknown"), state.load()
    ('London', 'unknown', {'city': 'London', 'profile': {'age': 36}})
    >>> state["city"] = "Paris"
    >>> del state["profile"]
    >>> state["city"], "profile" in state, list(state), len(state)
    ('Paris', False, ['city'], 1)
    """

    def __init__(
        self,
        repo: Repository,
        user: str,
        session: str = "default",
        *,
        plane: Plane = "branch",
        branch: str | None = None,
        rules: Rules | None = None,
        secret: Secret | Seal | None = None,
        cache_s: float = 0.0,
        ttl_s: float | None = None,
        alert_bytes: int | None = None,
        on_alert: Callable[[int], object] | None = None,
        actor: str = "",
        scope: tuple[Scope, str] = ("conversation", ""),
        at: str | float | None = None,
    ) -> None:
        from agent_kernel.records.documents import Seal

        if secret is None and rules is not None and rules.secret_keys is not None:
            raise ValueError(
                "secret_keys are encrypted with a secret: give one, or their values would be stored as they are"
            )
        seconds(cache_s, "cache_s")
        if ttl_s is not None:
            seconds(ttl_s, "ttl_s", is_zero_allowed=False)
        if alert_bytes is not None:
            not_negative(alert_bytes, "alert_bytes")
        if on_alert is not None:
            require_takes(require_function(on_alert, "on_alert"), "on_alert", 1)
        require_plane(plane)

        self.repo = repo
        self.user = user
        self.session = session
        self.rules = rules or Rules()
        self._scope = scope
        kind, name = scope
        parts = {"conversation": (session,), "task": (session, name), "user": ()}[kind]
        self.place = place_of(user, _SCOPES[kind], *parts) + "/"
        if "\0" in self.place:
            raise ValueError(
                f"a user, a session and a task have names without NUL, not {', '.join(map(shown, (user, *parts)))}"
            )
        self._options: dict[str, Any] = {
            "plane": plane,
            "branch": branch,
            "rules": self.rules,
            "secret": secret if secret is None or isinstance(secret, Seal) else Seal(secret),
            "cache_s": cache_s,
            "ttl_s": ttl_s,
            "alert_bytes": alert_bytes,
            "on_alert": on_alert,
            "actor": actor,
            "at": at,
        }
        self.where: dict[str, Any] = {"plane": plane, "branch": branch, "actor": actor}  # its records lie
        self.seal: Seal | None = self._options["secret"]
        self._entries = self.records_of(_Entry)
        self._open_entries = self.records_of(_Entry, is_open=True)
        self._saved = self.records_of(_Saved)
        self._counts = self.records_of(_Counts, is_open=True)
        self._cache_s = cache_s
        self._cached: dict[
            str, tuple[float, object, Any]
        ] = {}  # by key: until when, how often HEAD had moved, the value
        self._lock = threading.Lock()
        self._is_over = False

    def records_of(self, model: type[R], *, is_open: bool = False) -> Records[R]:
        """Records of a model that lie where this state does, as of its moment. `is_open`: they are not encrypted."""
        found = Records(self.repo, model, secret=None if is_open else self.seal, **self.where)
        return found if self.past is None else found.at(self.past)

    def line(self) -> Line:
        """Where it lies."""
        return self._entries.line()

    @property
    def past(self) -> str | float | None:
        """The moment that it is looked at; None: it is the present one."""
        moment: str | float | None = self._options["at"]
        return moment

    @property
    def address(self) -> str:
        """What tells it from all other states of the store, also from itself for somebody who may do less."""
        parts = [f"plane={self.where['plane']}"] if self.where["plane"] != "branch" else []
        parts += [f"branch={self.where['branch']}"] if self.where["branch"] is not None else []
        parts += [
            f"{action}={sorted(allow[action])}" for allow in self.rules.allow for action in _ACTIONS if action in allow
        ]
        parts += [f"at={self.past}"] if self.past is not None else []
        return " ".join([self.place, *parts])

    def __repr__(self) -> str:
        kind, name = self._scope
        what = {"conversation": f"session {self.session!r}", "task": f"task {name!r}", "user": "all sessions"}[kind]
        return f"<State of {self.user!r}, {what}>"

    def _repr_html_(self) -> str:
        """A table of the values that may be read, in a notebook. Of encrypted ones the key is named alone."""
        keys = self.keys()
        try:
            rows = [[key, self._shown(key)] for key in keys[:ROWS]]
        except RecordError as error:
            return as_rows(repr(self)[1:-1], ["key"], [[key] for key in keys[:ROWS]], note=str(error))
        omitted = [f"{len(keys) - ROWS:,} more keys"] if len(keys) > ROWS else []
        return as_rows(repr(self)[1:-1], ["key", "value"], rows, omitted=omitted)

    def _shown(self, key: str) -> Any:
        return "(secret)" if self.seal is not None and self.rules.is_secret(key) else self.get(key)

    def scope(self, scope: Scope, name: str = "") -> State:
        """The state of another scope with the same rules: `user` (of all sessions), `conversation` (this session), `task` (by name)."""
        require_choice(scope, "a scope", tuple(_SCOPES))
        return State(self.repo, self.user, self.session, scope=(scope, name), **self._options)

    def restricted(self, *, read: Patterns = ("*",), write: Patterns = ("*",)) -> State:
        """The same state for somebody who may do less."""
        allow = {"read": texts(read, "read"), "write": texts(write, "write")}
        rules = replace(self.rules, allow=(*self.rules.allow, allow))
        options: dict[str, Any] = {**self._options, "rules": rules}
        return State(self.repo, self.user, self.session, scope=self._scope, **options)

    # -- as a dict

    def __getitem__(self, key: str) -> Any:
        """The value as a copy of its own. Raises: RecordNotFoundError (a KeyError): nothing has this key. Otherwise as `get`."""
        found = self.get(key, _ABSENT)
        if found is _ABSENT:
            raise self._not_found(key)
        return found

    def __setitem__(self, key: str, value: Any) -> None:
        """Store a value. Raises: as `set`."""
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        """Delete a value. Raises: RecordNotFoundError (a KeyError): nothing has this key. Otherwise as `delete`."""
        if not self.delete(key):
            raise self._not_found(key)

    def __contains__(self, key: object) -> bool:
        """Whether there is a value, also None."""
        return isinstance(key, str) and bool(key) and "\0" not in key and is_text(key) and self.has(key)

    def __iter__(self) -> Iterator[str]:
        """The keys that may be read, in order, as they are now."""
        return iter(self.keys())

    def __len__(self) -> int:
        """How many values may be read."""
        return len(self.keys())

    def __bool__(self) -> bool:
        """True: a state is there, also while it has no values."""
        return True

    def _not_found(self, key: str) -> RecordNotFoundError:
        return RecordNotFoundError("value", key, f"in the state of {self.user!r}")

    # -- reading

    def get(self, key: str, default: Any = None) -> Any:
        """The value as a copy of its own, or `default`.

        Raises:
            RecordAccessError: the key may not be read. SealedRecordError: it is encrypted with another key.
        """
        self.rules.require("read", key)
        with self.named_errors():
            if self._cache_s and not is_in_transaction():
                return self._get_cached(key, default)
            found: _Entry | None = self._entries.get(self.place + key)
        return default if found is None else found.value

    def _get_cached(self, key: str, default: Any) -> Any:
        now, moves = time.monotonic(), [session.moves for session in list(SESSIONS)]
        with self._lock:
            until, moves_then, value = self._cached.get(key, (0.0, None, None))
        if until <= now or moves != moves_then:  # a checkout rewinds what was read, however new it is
            found: _Entry | None = self._entries.get(self.place + key)
            value = _ABSENT if found is None else found.value
            end = self._entries.end(self.place + key)
            left_s = (end - time.time_ns()) / 1e9 if end else self._cache_s
            with self._lock:
                self._cached[key] = (now + min(left_s, self._cache_s), moves, value)
        return default if value is _ABSENT else copy.deepcopy(value)

    def invalidate(self, key: str | None = None) -> None:
        """Read a key, or all, from the store the next time, though it was read less than `cache_s` seconds ago."""
        with self._lock:
            if key is None:
                self._cached.clear()
            else:
                self._cached.pop(key, None)

    def has(self, key: str) -> bool:
        """Whether there is a value, also None."""
        self.rules.require("read", key)
        return self.place + key in self._entries

    def get_all(self) -> dict[str, Any]:
        """All values that may be read."""
        start = len(self.place)
        with self.named_errors():
            found = self._entries.find(exactly(self.place) + "*", where=lambda one: self._may_read(one.id))
        return {one.id[start:]: one.value for one in found}

    def _may_read(self, id: str) -> bool:
        return self.rules.allows("read", id[len(self.place) :])

    def keys(self, pattern: str = "*") -> list[str]:
        """The keys that fit a pattern and may be read."""
        return [key for key in self._keys(pattern) if self.rules.allows("read", key)]

    def _keys(self, pattern: str = "*") -> list[str]:
        return [id[len(self.place) :] for id in self._entries.ids(exactly(self.place) + pattern)]

    def version(self, key: str) -> int:
        """A number that grows with each change of the value; 0: it is not there. `expect` takes it. See `Records.version`."""
        self.rules.require("read", key)
        return self._entries.version(self.place + key)

    def size_bytes(self) -> int:
        """How large all values are, as JSON."""
        with self.named_errors():
            found = self._entries.find(exactly(self.place) + "*")
        return sum(len(one.id) - len(self.place) + len(_json(one.value)) for one in found)

    def as_text(self, pattern: str = "*", *, max_chars: int = 4_000) -> str:
        """The values as lines for the context of a model. Of encrypted ones the key is named alone."""
        lines: list[str] = []
        for key in self.keys(pattern):
            is_secret = self.seal is not None and self.rules.is_secret(key)
            lines.append(f"{key}: {'(secret)' if is_secret else _json(self.get(key)).decode()}")
        not_negative(max_chars, "max_chars")
        text = "\n".join(lines)
        return text if len(text) <= max_chars else text[: max_chars - 1] + "…"

    # -- changing

    def set(self, key: str, value: Any, *, expect: int | None = None, ttl_s: float | None = None) -> None:
        """Store a value.

        Args:
            expect: the version that must be there (0: none).
            ttl_s: seconds after which it is gone; by default as the state says.

        Raises:
            InvalidRecordError: JSON cannot hold it, or a validator refuses it. TransitionError: it may not follow the present one.
            StaleRecordError: another version is there. RecordAccessError: the key may not be written. Nothing was stored.
        """
        self._change(f"set {key}", lambda: self._put(key, value, expect=expect, ttl_s=ttl_s))

    def set_many(self, values: Mapping[str, Any]) -> None:
        """Store several values together, or none of them. It raises what `set` raises."""

        def act() -> None:
            for key, value in values.items():
                self._put(key, value)

        self._change(f"set {len(values)} keys", act)

    def replace(self, values: Mapping[str, Any]) -> None:
        """Set these values and delete all others; if it raises, nothing changed. It raises what `set` raises."""

        def act() -> None:
            for key in self._keys():
                if key not in values:
                    self._drop(key)
            for key, value in values.items():
                self._put(key, value)

        self._change(f"replace all by {len(values)} keys", act)

    def init(self, values: Mapping[str, Any]) -> list[str]:
        """Set the keys that have no value yet, and return them. So it may be called each time that an agent starts."""

        def act() -> list[str]:
            absent = [key for key in values if self.place + key not in self._entries]
            for key in absent:
                self._put(key, values[key])
            return absent

        return self._change("init", act)

    def update(self, key: str, change: Mapping[str, Any] | Callable[[Any], Any]) -> Any:
        """Merge a mapping into the one that is there (or begin one), or set what a function makes of the value; the new value.

        A function gets the value, and changes it or returns another one. It is called again where somebody else changed the value
        meanwhile. The value is gone when it would have been.

        Raises:
            InvalidRecordError: `change` is neither, or the value is no mapping. Otherwise what `set` raises.
        """
        if not callable(change) and not isinstance(change, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidRecordError("state", key, f"it takes a mapping or a function, not {shown(change)}")

        def act() -> Any:
            self.rules.require("read", key)
            found: _Entry | None = self._entries.get(self.place + key)
            before = None if found is None else found.value
            if callable(change):
                given = copy.deepcopy(before)
                after = call_with(change, "an update", given)
                after = given if after is None else after
            elif before is None or isinstance(before, dict):
                after = {**(before or {}), **change}
            else:
                raise InvalidRecordError("state", key, f"its value is of type {type(before).__name__}, not a mapping")
            return self._put(key, after, keeps_ttl=found is not None)

        return copy.deepcopy(self._change(f"update {key}", act))

    def count(self, key: str, by: int = 1) -> int:
        """Add to a counter, which begins at 0; what it is then. No two callers get the same number.

        Raises:
            InvalidRecordError: the value is not a number. TypeError: `by` is not one. Otherwise what `set` raises.
        """
        if isinstance(by, bool) or not isinstance(by, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"by is a number, not {shown(by)}")

        def add(before: Any) -> Any:
            if before is not None and not isinstance(before, int | float):
                raise InvalidRecordError("state", key, f"its value is of type {type(before).__name__}, not a number")
            return (before or 0) + by

        return cast(int, self.update(key, add))

    def delete(self, key: str) -> bool:
        """Delete a value; whether it was there.

        Raises:
            RecordAccessError: the key may not be written. SealedRecordError: it is encrypted with another key.
        """
        return self._change(f"delete {key}", lambda: self._drop(key))

    def clear(self) -> None:
        """Delete all values, or none where one of them may not be written, or is encrypted with another key."""
        self._change("clear", lambda: self._replace({}, {}, force=False))

    def _drop(self, key: str) -> bool:
        self.rules.require("write", key)
        self._entries.get(self.place + key)  # who has no key for it may not delete it either
        return self._entries.delete(self.place + key)

    def _put(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl_s: float | None = None,
        keeps_ttl: bool = False,
    ) -> Any:
        self.rules.require("write", key)
        if ttl_s is not None:
            seconds(ttl_s, "ttl_s", is_zero_allowed=False)
        value = self.rules.clean(key, value)
        id = self.place + key
        if self.rules.transitions:
            before: _Entry | None = self._entries.get(id)
            self.rules.check_transition(key, None if before is None else before.value, value)
        return self._store(key, value, expect=expect, ttl_s=ttl_s, keeps_ttl=keeps_ttl)

    def _store(
        self,
        key: str,
        value: Any,
        *,
        expect: int | None = None,
        ttl_s: float | None = None,
        keeps_ttl: bool = False,
    ) -> Any:
        entries = self._entries if self.rules.is_secret(key) else self._open_entries
        entry = _Entry.model_construct(id=self.place + key, value=value)
        ttl_s = self._options["ttl_s"] if ttl_s is None else ttl_s
        if keeps_ttl and ttl_s is None:
            return entries.update(entry.id, lambda _: entry, user=self.user).value
        return entries.put(entry, expect=expect, ttl_s=ttl_s, user=self.user).value

    def _replace(self, values: Mapping[str, Any], ends: Mapping[str, int], *, force: bool) -> None:
        """Set these values, each until its end, and delete all others. `force`: whatever the transitions say."""
        now = time.time_ns()
        values = {key: value for key, value in values.items() if not 0 < ends.get(key, 0) <= now}
        for key in self._keys():
            if key not in values:
                self._drop(key)
        for key, value in values.items():
            found: _Entry | None = self._entries.get(self.place + key)
            if found is None or not _same(found.value, value):
                self.rules.require("write", key)
                if not force:
                    self.rules.check_transition(key, None if found is None else found.value, value)
                self._store(key, value, ttl_s=(ends[key] - now) / 1e9 if ends.get(key) else None)

    def _ends(self) -> dict[str, int]:
        """When values are gone that have a time to live."""
        found = self._entries.ends(exactly(self.place) + "*")
        return {id[len(self.place) :]: end for id, end in found.items()}

    def _change(self, what: str, act: Callable[[], T]) -> T:
        try:
            with self.named_errors():
                result = together(self._entries, act, f"state of {self.user}: {what}")
        finally:
            self.invalidate()
        self._watch_size()
        return result

    @contextmanager
    def named_errors(self) -> Generator[None]:
        """What is raised names the key, and not where it lies."""
        try:
            yield
        except RecordError as error:
            error.id = error.id.removeprefix(self.place)
            raise

    def _watch_size(self) -> None:
        limit, alert = self._options["alert_bytes"], self._options["on_alert"]
        if limit is None:
            return
        size = self._size_stored()
        was_over, self._is_over = self._is_over, size >= limit
        if self._is_over and not was_over:
            if alert is not None:
                try:
                    alert(size)
                except Exception:  # of the function, which is not ours: the value is stored
                    logger.exception("a function that is called when a state is too large raised")
            else:
                warnings.warn(
                    f"{self!r} has {size:,} bytes, {limit:,} is its limit", UserWarning, stacklevel=level_of_caller()
                )

    def _size_stored(self) -> int:
        """As `size_bytes`; what cannot be read here, as it is encrypted, counts as it lies in the store."""
        try:
            return self.size_bytes()
        except RecordError:
            found = self._entries.readable(exactly(self.place) + "*")
            sizes = [(id, stored if one is None else len(_json(one.value))) for id, one, stored in found]
            return sum(len(id) - len(self.place) + size for id, size in sizes)

    # -- rounds

    def save(self, state: object = None, round: int | None = None, *, merge: bool = False) -> int:
        """Save all values as a round, and return its number: one more than the largest, or 1.

        Args:
            state: what is saved; by default the values that are there. A mapping, or an object that has `state_dict()`.
            round: the number; a round that has it is overwritten.
            merge: only add to the round that has the number, or without a number to the newest one.

        Raises:
            InvalidRecordError: JSON cannot hold it. RecordAccessError: a key that it changes may not be written. Nothing was stored.
        """
        if round is not None:
            not_negative(round, "the number of a round")

        def act() -> int:
            values, newest = self._values_of(state), self._largest_round()
            number = (newest or 0) + 1 if round is None else round
            saved = self._saved_as("round", number)
            before = {} if saved is None else saved.values
            if merge:  # also with what whoever saves may not read
                merged = saved if round is not None or newest is None else self._saved_as("round", newest)
                before = {} if merged is None else merged.values
                values = before | values
            for key in before.keys() | values.keys():
                if _json(before.get(key, _MISSING)) != _json(values.get(key, _MISSING)):
                    self.rules.require("write", key)
            self._keep("round", number, values)
            counts = self._counts_now()
            counts.round = number if counts.round is None else max(number, counts.round)
            self._counts.put(counts, user=self.user)
            return number

        return together(self._saved, act, f"state of {self.user}: save a round")

    def load(self, round: int | None = None) -> dict[str, Any] | None:
        """The values of a round, by default of the newest one, as a copy of their own; None if it does not exist."""
        number = self._largest_round() if round is None else not_negative(round, "the number of a round")
        found = None if number is None else self._saved_as("round", number)
        return None if found is None else self._readable(found.values)

    def load_into(self, agent: Any, round: int | None = None) -> bool:
        """Hand a round to an agent's `load_state_dict()`; whether there was one."""
        if not callable(load := getattr(agent, "load_state_dict", None)):
            raise TypeError(f"an agent has load_state_dict(), and {shown(agent)} has not")
        values = self.load(round)
        if values is not None:
            load(values)
        return values is not None

    def rounds(self) -> list[int]:
        """The numbers of the saved rounds."""
        return self._numbers("round")

    def _values_of(self, state: object) -> dict[str, Any]:
        if state is None:
            self._require_all_readable()
            return self.get_all()
        values: object = cast(Any, state).state_dict() if hasattr(state, "state_dict") else state
        if not isinstance(values, Mapping):
            raise InvalidRecordError("state", self.session, f"a state is a mapping, not a {type(values).__name__}")
        found = {
            key: self.rules.clean(key, value)
            for key, value in require_mapping(cast("object", values), "a state").items()
        }
        for key, value in found.items():
            self._entries.schema.dump(_Entry.model_construct(id=key, value=value))  # refuses what JSON cannot hold
        return found

    def _readable(self, values: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in values.items() if self.rules.allows("read", key)}

    def _largest_round(self) -> int | None:
        number = self._counts_now().round
        if number is not None and self._saved_as("round", number) is None:  # it was cleaned up
            return max(self._numbers("round"), default=None)
        return number

    def _counts_now(self) -> _Counts:
        found: _Counts | None = self._counts.get(self.place)
        return found or _Counts(id=self.place)

    def _keep(
        self,
        kind: str,
        number: int,
        values: dict[str, Any],
        label: str = "",
        parent: int = 0,
        ends: dict[str, int] | None = None,
    ) -> None:
        id = f"{self.place}{kind}/{number:012d}"
        saved = _Saved.model_construct(id=id, values=values, label=label, parent=parent, ends=ends or {})
        self._saved.put(saved, user=self.user)

    def _saved_as(self, kind: str, number: int) -> _Saved | None:
        try:
            found: _Saved | None = self._saved.get(f"{self.place}{kind}/{number:012d}")
        except RecordError as error:
            error.collection, error.id = f"{kind} of the state", str(number)
            raise
        return found

    def _numbers(self, kind: str) -> list[int]:
        return sorted(int(id.rpartition("/")[2]) for id in self._saved.ids(exactly(f"{self.place}{kind}/") + "*"))

    # -- checkpoints

    def checkpoint(self, label: str = "") -> int:
        """Remember all values, to go back to; the number of the checkpoint."""

        def act() -> int:
            self._require_all_readable()
            counts = self._counts_now()
            number = counts.checkpoint + 1
            self._keep("checkpoint", number, self.get_all(), label, counts.at, self._ends())
            self._counts.put(counts.model_copy(update={"checkpoint": number, "at": number}), user=self.user)
            return number

        return together(self._saved, act, f"state of {self.user}: checkpoint")

    def rollback(self, steps: int = 1, *, force: bool = False) -> int:
        """Go back so many checkpoints; the number of the one that the values come from then.

        One step goes to the newest checkpoint that differs from what is there. What came after it stays stored, and can be had by
        its number. A value is gone when it would have been.

        Args:
            force: go back also where the transitions do not allow it.

        Raises:
            IndexError: there are not so many checkpoints. TransitionError: a value may not follow the present one. Nothing was changed.
        """
        if isinstance(steps, bool) or not isinstance(steps, int):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"steps is a whole number of checkpoints to go back, not {shown(steps)}; checkpoints() lists the labels by number, "
                "and values_at(number) returns the values of one"
            )
        if not_negative(steps, "steps") < 1:
            raise ValueError("steps is 1 or more, not 0")

        def act() -> int:
            self._require_all_readable()
            counts, steps_left = self._counts_now(), steps
            number, found = counts.at, self._saved_as("checkpoint", counts.at)
            if found is not None and _same(found.values, self.get_all()):
                steps_left += 1
            while found is not None and steps_left > 1:
                number, steps_left = found.parent, steps_left - 1
                found = self._saved_as("checkpoint", number)
            if found is None:
                raise IndexError(f"there is no checkpoint {steps} step{'s' if steps > 1 else ''} back")
            self._replace(found.values, found.ends, force=force)
            self._counts.put(counts.model_copy(update={"at": number}), user=self.user)
            return number

        return self._change(f"rollback by {steps}", act)

    def checkpoints(self) -> dict[int, str]:
        """The labels of the checkpoints by their numbers."""
        found = ((number, self._saved_as("checkpoint", number)) for number in self._numbers("checkpoint"))
        return {number: saved.label for number, saved in found if saved is not None}

    def values_at(self, checkpoint: int) -> dict[str, Any] | None:
        """The values of a checkpoint; None if it does not exist."""
        found = self._saved_as("checkpoint", not_negative(checkpoint, "the number of a checkpoint"))
        return None if found is None else self._readable(found.values)

    def _require_all_readable(self) -> None:
        for key in self._keys():
            self.rules.require("read", key)

    # -- out of the store, and back

    def export_state(self) -> dict[str, Any]:
        """All values, with whose they are, how many and how large."""
        values = self.get_all()
        return {
            "user": self.user,
            "session": self.session,
            "scope": self._scope[0],
            "values": values,
            "keys": len(values),
            "bytes": self.size_bytes(),
            "rounds": self.rounds(),
        }

    def backup(self) -> str:
        """All values as a text that `restore` takes, with a checksum; encrypted, where the state has a secret."""
        self._require_all_readable()
        found, ends = self.get_all(), self._ends()
        values = _json({"values": found, "ends": ends} if ends else found)
        if self.seal is None:
            content = values.decode()
        else:
            content = base64.b64encode(self.seal.close(values, "state backup")).decode()
        digest = hashlib.sha256(content.encode()).hexdigest()
        return json.dumps(
            {"format": _FORMAT if ends else 1, "is_sealed": self.seal is not None, "sha256": digest, "content": content}
        )

    def restore(self, backup: str, *, force: bool = False) -> None:
        """Set the values of a backup, and delete all others. A value is gone when it would have been.

        Args:
            force: set them also where the transitions do not allow it.

        Raises:
            InvalidRecordError: it is damaged, or a validator refuses one of its values. TransitionError: one may not follow the
                present one. Nothing was changed.
            SealedRecordError: it is encrypted with another key.
        """
        values, ends = self._unpacked(backup)
        cleaned = {key: self.rules.clean(key, value) for key, value in values.items()}

        def act() -> None:
            self._require_all_readable()
            self._replace(cleaned, ends, force=force)

        self._change("restore a backup", act)

    def _unpacked(self, backup: str) -> tuple[dict[str, Any], dict[str, int]]:
        def refuse(reason: str) -> InvalidRecordError:
            return InvalidRecordError("state backup", self.session, reason)

        if not isinstance(backup, str | bytes):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
            raise refuse(f"a backup is the text that `backup` gave, not {shown(backup)}")
        try:
            read = msgspec.json.decode(backup, type=_Backup)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise refuse(str(error)) from error
        if read.format > _FORMAT:
            raise refuse(f"it has format {read.format}, and this program knows {_FORMAT}")
        if hashlib.sha256(read.content.encode()).hexdigest() != read.sha256:
            raise refuse("its checksum is wrong: it is damaged, or somebody changed it")
        try:
            found: object = from_json(self._opened(read.content) if read.is_sealed else read.content)
        except (ValueError, binascii.Error) as error:
            if isinstance(error, InvalidRecordError):
                raise
            raise refuse(f"it is damaged: {error}") from error
        if not isinstance(found, dict):
            raise refuse("it holds no values")
        values = cast("dict[str, Any]", found)
        if read.format == 1:
            return values, {}
        if not (isinstance(values.get("values"), dict) and isinstance(values.get("ends"), dict)):
            raise refuse("it holds no values")
        return values["values"], values["ends"]

    def _opened(self, content: str) -> bytes:
        if self.seal is None:
            raise SealedRecordError("state backup", self.session, has_key=False)
        opened = self.seal.open(base64.b64decode(content), "state backup")
        if opened is None:
            raise SealedRecordError("state backup", self.session)
        return opened

    def cleanup(self, days: float) -> int:
        """Delete the values, rounds and checkpoints that did not change for so many days; how many.

        Raises:
            ValueError: `days` is negative. RecordAccessError, SealedRecordError: one of them may not be written. Nothing was deleted.
        """
        before = time.time_ns() - int(seconds(days, "days", unit="days") * _DAY_S * 10**9)
        pattern = exactly(self.place) + "*"

        def act() -> int:
            count = 0
            records: tuple[Records[Any], ...] = (self._entries, self._saved)
            for one in records:
                for id in one.ids(pattern, unchanged_since_ns=before):
                    self.rules.require("write", id[len(self.place) :])
                    one.get(id)  # who has no key for it may not delete it either
                    count += one.delete(id)
            return count

        return self._change(f"clean up what is older than {days:g} days", act)

    # -- past and present

    def at(self, ref: str | float) -> State:
        """The state as it was at a commit, or (on the plane `store`) at a time in seconds since 1970. It is only read."""
        # HEAD moves, and this does not.
        moment = hex_of(self.repo.resolve(require_text(ref, "ref"))) if isinstance(ref, str) else _moment(ref)
        options: dict[str, Any] = {**self._options, "cache_s": 0.0, "at": moment}
        return State(self.repo, self.user, self.session, scope=self._scope, **options)

    def history(self, key: str) -> Iterator[Change[Any]]:
        """What a value was, the newest change first."""
        self.rules.require("read", key)
        return self._named_changes(key)

    def _named_changes(self, key: str) -> Iterator[Change[Any]]:
        with self.named_errors():
            for change in self._entries.history(self.place + key):
                yield self._value_change(change)

    def watch(self, pattern: str, call: Callable[[Change[Any]], object]) -> Subscription:
        """Call a function for each change of a key that fits, here at once, of other processes within a second."""
        require_watcher(call)

        def notify(change: Change[_Entry]) -> None:
            if self._may_read(change.id):
                call(self._value_change(change))

        return self._entries.watch(exactly(self.place) + pattern, notify)

    def _value_change(self, change: Change[_Entry]) -> Change[Any]:
        old, new = (None if one is None else one.value for one in (change.old, change.new))
        key = change.id[len(self.place) :]
        return Change(key, old, new, change.version, change.time_ns, change.actor, change.commit)

    # -- what is built on it

    def bind(self, function: Callable[..., T]) -> Callable[..., T]:
        """The function without its parameter `agent_state`, which is this state each time: to be a tool of a model.

        A tool of `repo.tool` stays one: its calls are recorded, and cached for this state alone.

        Raises:
            TypeError: it has no such parameter.
        """
        try:
            signature = inspect.signature(require_function(function, "what bind takes"))
        except (TypeError, ValueError):
            raise TypeError(f"bind takes a function with the parameter agent_state, not {shown(function)}") from None
        if getattr(function, "takes_state", False):  # a tool: it says nothing of the parameter, and takes it
            state = inspect.Parameter("agent_state", inspect.Parameter.KEYWORD_ONLY)
            rest = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
            last = [one for one in signature.parameters.values() if one.kind is one.VAR_KEYWORD]
            signature = signature.replace(parameters=[*rest, state, *last])
        if "agent_state" not in signature.parameters:
            raise TypeError(f"{getattr(function, '__name__', shown(function))} has no parameter agent_state")
        visible = signature.replace(
            parameters=[one for name, one in signature.parameters.items() if name != "agent_state"]
        )

        def call(*args: Any, **more: Any) -> Any:
            visible_arguments = visible.bind(*args, **more)  # a model may not hand in another state
            bound_arguments = signature.bind_partial(agent_state=self)
            bound_arguments.arguments.update(visible_arguments.arguments)
            return function(*bound_arguments.args, **bound_arguments.kwargs)

        async def call_async(*args: Any, **more: Any) -> Any:
            return await call(*args, **more)

        is_async = inspect.iscoroutinefunction(function) or getattr(function, "is_async", False)
        wrapper: Any = functools.wraps(function)(call_async if is_async else call)
        wrapper.__signature__ = visible
        wrapper.__annotations__ = {k: v for k, v in function.__annotations__.items() if k != "agent_state"}
        return wrapper  # type: ignore[no-any-return]  # what `wraps` returns has no type

    def events(self, name: str = "events", *, commit_each: bool = True) -> RecordList:
        """A list of this state's: its events, to be folded into a state, or the turns of its conversation.

        Args:
            commit_each: as in `Repository.list`. With False 10,000 short messages take no more room than their text.

        Raises:
            RecordAccessError: not both reading and writing is allowed for the key `name`. ValueError: the list lies beside all
                branches, where its past is not kept.
        """
        for action in _ACTIONS if self.past is None else ("read",):
            self.rules.require(action, name)
        found = RecordList(
            self.repo,
            self.place + name,
            user=self.user,
            secret=self.seal,
            label=name,
            commit_each=commit_each,
            **self.where,
        )
        if self.past is None:
            return found
        if not isinstance(self.past, str):
            raise ValueError("a list beside all branches does not keep its past")
        return found.at(self.past)

    def memory(
        self,
        max_tokens: int,
        *,
        name: str = "memory",
        count_tokens: Callable[[str], int] | None = None,
        summarise: Callable[[str, list[dict[str, Any]]], str] | None = None,
        commit_each: bool = False,
    ) -> Memory:
        """The conversation, of which a model is sent no more than so many tokens. See `Memory`. Raises: as `events`."""
        from agent_kernel.records.memory import Memory

        return Memory(
            self, max_tokens, name=name, count_tokens=count_tokens, summarise=summarise, commit_each=commit_each
        )

    def tiers(self, *, hot: int = 16, warm: int = 256) -> Tiers:
        """Values of which the most used are at hand and the least used lie in the cold. See `Tiers`."""
        from agent_kernel.records.memory import Tiers

        return Tiers(self, hot=hot, warm=warm)


class _Backup(msgspec.Struct):
    format: int
    is_sealed: bool
    sha256: str
    content: str


_ABSENT: Final = object()
_MISSING: Final = {"\0": None}  # no value of a key is this one


def _moment(at: object) -> float:
    if isinstance(at, bool) or not isinstance(at, int | float):
        raise TypeError(f"a past moment is a commit or a number of seconds since 1970, not {shown(at)}")
    return at


def _fits(key: str, patterns: Patterns) -> bool:
    return any(fnmatch.fnmatchcase(key, pattern) for pattern in patterns)


def _sanitised(key: str, sanitise: Callable[[Any], Any], value: Any) -> Any:
    name = getattr(sanitise, "__name__", type(sanitise).__name__)
    try:
        return require_result(sanitise(value), f"the sanitiser {name}")
    except RecordError:
        raise
    except Exception as error:
        raise InvalidRecordError("state", key, reason_of(error, name)) from error


def _json(value: Any) -> bytes:
    return to_json(value, inf_nan_mode="constants")


def _same(one: Any, other: Any) -> bool:
    """Whether two values are stored as the same, also where they hold a NaN, which is not equal to itself."""
    return one == other or _json(one) == _json(other)
