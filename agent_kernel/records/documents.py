"""What the verbs take and what they put into records: arguments that are checked first, values as JSON, sealed where there is a key.

Here are also ids that sort by time, and which process does something.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FrameType, FunctionType, MethodType, NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeGuard, TypeVar, Union, cast, get_args, get_origin

import msgspec

from agent_kernel.errors import MissingExtraError
from agent_kernel.repository.refs import Holder
from agent_kernel.storage import SupportsLiveness

if TYPE_CHECKING:
    from agent_kernel.repository import Repository


# -- checks of arguments that several verbs share: one that makes no sense raises, before anything is stored
#
# `checks_arguments` does the most of it: each verb of a class looks at the kinds of its arguments first, as its annotations say.


K = TypeVar("K", bound=type[Any])
Check: TypeAlias = Callable[[object, str], object]

_MOST_S: Final = 3e9  # about 95 years: times in nanoseconds stay within 64 bits
_PACKAGE: Final = "agent_kernel."
_MOST_SHOWN: Final = 60
# What these may be is looked at where the key of a record is made, and where its model takes what is in it.
_ELSEWHERE: Final = frozenset(("id", "key", "backup", "content", "role", "text"))
_TITLES: Final = {"pattern": "a pattern", "name": "a name"}


def shown(value: object) -> str:
    """A value as a message shows it: shortened, whatever its own code does."""
    if isinstance(value, int) and abs(value) >= 10**20:
        return f"a number of {value.bit_length():,} bits"
    if isinstance(value, FunctionType | MethodType):
        return shorten(f"the function {value.__qualname__.rpartition('<locals>.')[2]}")
    if type(value).__repr__ is object.__repr__:
        return f"an object of the type {type(value).__name__}"
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - the value's own code
        text = f"an object of the type {type(value).__name__}"
    return shorten(text)


def shorten(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


# -- the kinds of the arguments of all verbs of a class


def checks_arguments(kind: K) -> K:
    """Let the verbs of a class raise for an argument of the wrong kind before they do anything.

    Kinds that annotations say, alone or with None, are looked at: text, yes or no, and mappings. Numbers are looked at by
    the verbs, which know their bounds.

    >>> @checks_arguments
    ... class Door:
    ...     def open(self, name: str, *, wide: bool = False) -> str:
    ...         return name
    >>> Door().open(5)
    Traceback (most recent call last):
        ...
    TypeError: a name is text, not 5
    """
    for name, function in list(vars(kind).items()):
        if isinstance(function, FunctionType) and not name.startswith("_"):
            checks = _checks_of(function)
            if checks:
                setattr(kind, name, _checked(function, checks))
    return kind


def _checked(function: Callable[..., Any], checks: dict[str, Check]) -> Callable[..., Any]:
    parameters = inspect.signature(function).parameters.values()
    positions = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    titles = {name: _TITLES.get(name, name) for name in checks}

    @functools.wraps(function)
    def verb(*args: Any, **keywords: Any) -> Any:
        for name, value in (*zip(positions, args, strict=False), *keywords.items()):
            if name in checks:
                checks[name](value, titles[name])
        return function(*args, **keywords)

    return verb


def _checks_of(function: FunctionType) -> dict[str, Check]:
    """By the names of parameters, what looks at the kinds of their arguments."""
    known = vars(sys.modules[function.__module__])
    found: dict[str, Check] = {}
    for name, one in inspect.signature(function).parameters.items():
        is_single = one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
        check = _check_of(_evaluated(one.annotation, known)) if is_single and name not in _ELSEWHERE else None
        if check is not None:
            found[name] = check if one.default is one.empty else _or_default(check, one.default)
    return found


def _evaluated(annotation: object, known: dict[str, Any]) -> object:
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, known)
    except (NameError, TypeError):  # a name for type checkers alone
        return Any


def _or_default(check: Check, default: object) -> Check:
    def look(value: object, what: str) -> None:
        if value is not default:
            check(value, what)

    return look


def _check_of(kind: object) -> Check | None:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        parts = get_args(kind)
        rest = [one for one in parts if one is not NoneType]
        check = _check_of(rest[0]) if len(rest) == 1 else None
        return check if check is None or len(rest) == len(parts) else _or_none(check)
    return _KINDS.get(kind if origin is None else origin) if isinstance(origin or kind, type) else None


def _or_none(check: Check) -> Check:
    def look(value: object, what: str) -> None:
        if value is not None:
            check(value, what)

    return look


def require_text(value: object, what: str) -> str:
    """One text.

    Raises:
        TypeError: it is something else. ValueError: UTF-8 does not hold it (half a character).
    """
    if not isinstance(value, str):
        raise TypeError(f"{what} is text, not {shown(value)}")
    if not is_text(value):
        raise ValueError(f"{what} is text that UTF-8 holds, not {shown(value)}")
    return value


def is_text(value: str) -> bool:
    """Whether UTF-8 holds it: it has no half of a character."""
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_name(value: object, what: str) -> str:
    """A text that names something.

    Raises:
        TypeError: it is something else. ValueError: it is empty, has a NUL, or UTF-8 does not hold it.
    """
    found = require_text(value, what)
    if not found or "\0" in found:
        raise ValueError(f"{what} is text that is not empty and has no NUL, not {shown(found)}")
    return found


def require_choice(value: object, what: str, choices: tuple[str, ...]) -> None:
    """Raise ValueError for a value that is not one of these texts."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{what} is {', '.join(map(repr, choices[:-1]))} or {choices[-1]!r}, not {shown(value)}")


def require_mapping(value: object, what: str) -> dict[str, Any]:
    """Values by name, as a dict of its own.

    Raises:
        TypeError: it is something else, or a key of it is not text.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} is a mapping of names to values, not {shown(value)}")
    found = dict(cast("Mapping[object, Any]", value))
    for key in found:
        if not isinstance(key, str):
            raise TypeError(f"{what} is a mapping of names to values, and its key {shown(key)} is not text")
    return cast("dict[str, Any]", found)


def each_of(value: object, what: str) -> list[Any]:
    """Several things, in a list of their own. Raises TypeError: it is one thing, whose letters or keys would count as several."""
    if not is_several(value):
        raise TypeError(f"{what} is a list, not {shown(value)}: give [{shown(value)}]")
    return list(value)


def is_several(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether it is several things, and not one thing whose letters or keys would count as several."""
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def functions(value: object, what: str) -> tuple[Callable[[Any], object], ...]:
    """Several functions, which may be none. Raises TypeError: it is one function, or something else."""
    if not is_several(value):
        raise TypeError(f"{what} is a list of functions, not {shown(value)}: give [{shown(value)}]")
    return tuple(value)


def texts(value: object, what: str) -> tuple[str, ...]:
    """Several names or patterns.

    Raises:
        TypeError: it is one text, whose letters would count as names, or it holds something else than text.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise TypeError(f"{what} is a list of text, not {shown(value)}")
    found = tuple(cast("Iterable[object]", value))
    for one in found:
        if not isinstance(one, str):
            raise TypeError(f"{what} is a list of text, and {shown(one)} is not text")
        require_text(one, f"a text of {what}")
    return cast("tuple[str, ...]", found)


def seconds(
    value: object, what: str, *, least: float = 0.0, is_zero_allowed: bool = True, unit: str = "seconds"
) -> float:
    """A number of seconds, or of another unit.

    Raises:
        TypeError: it is not a number. ValueError: it is smaller than `least`, not a number ("nan"), or more than 95 years.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what} is a number of {unit}, not {shown(value)}")
    if not least <= value <= _MOST_S or (value == 0 and not is_zero_allowed):
        bounds = f"{least:g} or more" if is_zero_allowed else f"more than {least:g}"
        raise ValueError(f"{what} is {bounds} {unit} (at most {_MOST_S:,.0f}), not {shown(value)}")
    return value


def not_negative(value: object, what: str) -> int:
    """A whole number that counts something.

    Raises:
        TypeError: it is not a whole number. ValueError: it is negative.
    """
    found = require_whole(value, what)
    if found < 0:
        raise ValueError(f"{what} is 0 or more, not {shown(value)}")
    return found


def require_whole(value: object, what: str) -> int:
    """A whole number. Raises TypeError: it is something else."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a whole number, not {shown(value)}")
    return value


def require_yes_or_no(value: object, what: str) -> None:
    """Raise TypeError for what is neither True nor False, be it numpy's."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise TypeError(f"{what} is True or False, not {shown(value)}")


def require_function(value: object, what: str) -> Callable[..., Any]:
    """What can be called. Raises TypeError: it cannot."""
    if not callable(value):
        raise TypeError(f"{what} is a function, not {shown(value)}")
    return value


_KINDS: Final[dict[object, Check]] = {
    str: require_text,
    bool: require_yes_or_no,
    Mapping: require_mapping,
    dict: require_mapping,
}


def require_watcher(call: object) -> None:
    """Raise TypeError for what cannot be called with a change, or would have to be awaited."""
    if not callable(call):
        raise TypeError(f"a watcher is a function, not {shown(call)}")
    require_plain_function(call, "watching")
    require_takes(call, "a watcher", 1)


def require_plain_function(function: object, what: str) -> None:
    """Raise TypeError for what cannot be called, or does no work yet where it is: it is async, or a generator."""
    if not callable(function):
        raise TypeError(f"{what} takes a function, not {shown(function)}")
    call = getattr(function, "__call__", None)  # noqa: B004 - of an object, whose own method may be async
    for one in (function, call):
        if inspect.iscoroutinefunction(one) or inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise TypeError(
                f"{what} takes a plain function: {shown(function)} does its work only when it is awaited or iterated"
            )


def require_takes(function: Callable[..., object], what: str, many: int) -> None:
    """Raise TypeError for a function that cannot be called with so many values. Of some of C nobody knows that."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*range(many))
    except TypeError as error:
        values = "one value" if many == 1 else f"{many} values"
        raise TypeError(f"{what} takes {values}, and {shown(function)} cannot be called so: {error}") from None


def require_result(result: object, what: str) -> object:
    """The result of a function. Raises TypeError if it is work that was not done yet."""
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result):
            result.close()
        kind = type(result).__name__
        raise TypeError(f"{what} takes a plain function: this one returned a {kind}, and did not do its work")
    return result


def level_of_caller() -> int:
    """The stack level of the first code that is not the package's own, for a warning that is given by who calls this."""
    level = 1
    frame = cast("FrameType | None", sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def call_with(function: Callable[..., T], what: str, *values: object) -> T:
    """What a function makes of values.

    Raises:
        TypeError: it does not take so many. What the function raises otherwise.
    """
    try:
        return function(*values)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:  # the call itself raised it
            many = f"{len(values)} value{'' if len(values) == 1 else 's'}"
            raise TypeError(f"{what} takes a function of {many}, not {shown(function)}: {error}") from error
        raise


# -- values as JSON, ids that sort by time, and which process does something

T = TypeVar("T")

_MOST_TEXT: Final = 10_000  # characters of a value that is recorded as text
_DEEPEST: Final = 50
_LAST_S: Final = 9e12
_PLAIN: Final = (str, int, float, bool, type(None))


def is_plain(value: object, depth: int = 0) -> bool:
    """Whether a value comes back from JSON as it was: nothing but text, numbers, lists, and dicts by text."""
    kind = type(value)
    if depth > _DEEPEST:
        return False
    if kind is list:
        return all(is_plain(one, depth + 1) for one in cast("list[object]", value))
    if kind is dict:
        items = cast("dict[object, object]", value).items()
        return all(type(key) is str and _is_text(key) and is_plain(one, depth + 1) for key, one in items)
    if kind is float:
        return value == value and abs(cast("float", value)) != float("inf")
    return _is_text(value) if isinstance(value, str) else kind in _PLAIN


def _is_text(value: str) -> bool:
    return type(value) is str and is_text(value)


def as_document(value: object) -> object:
    """The value, where JSON holds it; else what comes nearest: tuples as lists, models as dicts, anything else in it as its text."""
    if is_plain(value):
        return value
    try:
        found: object = msgspec.to_builtins(value, str_keys=True, enc_hook=_as_builtins)
        found = json.loads(json.dumps(found, allow_nan=False))
    except (TypeError, ValueError, RecursionError, NotImplementedError, msgspec.MsgspecError):
        found = None
    return found if found is not None and is_plain(found) else _text_of(value)


def _as_builtins(value: object) -> object:
    dump: Callable[..., object] | None = getattr(value, "model_dump", None)  # of a pydantic model
    return _text_of(value) if dump is None or isinstance(value, type) else dump(mode="json")


def _text_of(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - the value's own code
        text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"
    text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
    return text.encode("utf-8", "backslashreplace").decode()


def pack_json(value: object, default: Callable[[object], object] | None = None) -> Any:
    """A dict as JSON gives it back; anything else, and what UTF-8 cannot hold (half a character), as a text. `unpack_json` takes each.

    Args:
        default: as for `json.dumps`: what stands for a value that JSON does not know.

    Raises:
        TypeError, ValueError: JSON cannot hold it.
    """
    text = json.dumps(value, default=default)
    if not text.startswith("{"):  # a text would be taken for one of these
        return text
    plain: Any = json.loads(text)
    try:
        json.dumps(plain, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return text
    return plain


def unpack_json(packed: object) -> Any:
    """What `pack_json` was given."""
    return json.loads(packed) if isinstance(packed, str) else packed


def keep_infinite(plain: Any, values: object) -> Any:
    """What a model's `model_dump(mode="json")` gives, with the infinity and NaN of its `model_dump()`: pydantic puts None for them.

    >>> keep_infinite({"loss": [None, None, 1.0]}, {"loss": (float("inf"), None, 1.0)})
    {'loss': [inf, None, 1.0]}
    """
    if plain is None:
        return values if isinstance(values, float) else None
    if isinstance(plain, dict) and isinstance(values, Mapping):
        fields, other = cast("dict[str, Any]", plain), cast("Mapping[object, object]", values)
        if len(fields) == len(other):  # keys that are no text are text in the first
            return {
                name: keep_infinite(one, new) for (name, one), new in zip(fields.items(), other.values(), strict=True)
            }
    if isinstance(plain, list) and isinstance(values, list | tuple):
        items, others = cast("Sequence[Any]", plain), cast("Sequence[object]", values)
        if len(items) == len(others):
            return [keep_infinite(one, new) for one, new in zip(items, others, strict=True)]
    return cast("Any", plain)


def new_id() -> str:
    """An id that sorts by the time it was made: 15 hex digits of nanoseconds, 5 of chance."""
    return f"{time.time_ns():016x}{secrets.token_hex(3)[:5]}"


def now_s() -> float:
    """Seconds since 1970."""
    return time.time()


def sortable(moment_s: float, *, up: bool = False) -> str:
    """Seconds since 1970 as a text that sorts as they do, in microseconds. `up`: the next one of these.

    >>> sortable(2.5) < sortable(2.5, up=True) < sortable(10)
    True
    """
    microseconds = int(min(moment_s, _LAST_S) * 1e6) if moment_s > 0 else 0
    return f"{microseconds + up:020d}"


def first_free(name: str, put: Callable[[str], T], is_taken: type[Exception]) -> T:
    """Put something under a name, or `name-2`, `name-3` … where others have those."""
    number = 1
    while True:
        try:
            return put(name if number == 1 else f"{name}-{number}")
        except is_taken:
            number += 1


# -- which process does something, and whether it still lives


def this_process(repo: Repository) -> str:
    """What stands in a record for this process. It is seen as alive from other containers too."""
    holder, text = _this_process(os.getpid())
    if isinstance(repo.store, SupportsLiveness) and not repo.__dict__.get("_is_held"):
        repo.store.hold(holder.number)
        repo.__dict__["_is_held"] = True
    return text


@functools.lru_cache(1)
def _this_process(pid: int) -> tuple[Holder, str]:
    holder = Holder.of_this_process()
    return holder, msgspec.json.encode(holder).decode()


def is_alive(process: str, repo: Repository) -> bool:
    """Whether the process that a record names may still be running. Nobody ("") counts as alive."""
    if not process:
        return True
    try:
        return msgspec.json.decode(process, type=Holder).is_alive(repo.store)
    except msgspec.MsgspecError:
        return True  # written by a release that says it otherwise: its lease will end


# -- records encrypted with a key: AES-256-GCM, bound to their place, so that no sealed record passes for another one
#
# Of several keys the first one encrypts, and each is tried to decrypt: so a key is replaced while records of the old one are there.


Secret: TypeAlias = bytes | str | Sequence[bytes | str]

_NONCE: Final = 12
_SALT: Final = b"agent_kernel records 1"


class Seal:
    """A key, or the new one and those before it. Text is stretched (scrypt), 32 bytes are taken as they are."""

    def __init__(self, secret: Secret) -> None:
        """Raises: TypeError, ValueError: there is no key, or one is empty or neither text nor bytes."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtraError("cryptography", "sign") from error
        secrets = [secret] if isinstance(secret, bytes | str) else secret
        if not isinstance(secrets, list | tuple):
            raise TypeError(f"a secret is text or bytes, or a list of them, not {type(secret).__name__}")
        self._ciphers = [AESGCM(_key_of(one)) for one in secrets]
        if not self._ciphers:
            raise ValueError("there is no key for encrypted records")

    def close(self, document: bytes, context: str) -> bytes:
        """The bytes, encrypted."""
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[0].encrypt(nonce, document, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes | None:
        """The bytes; None: they were encrypted with none of the keys, or for another place."""
        from cryptography.exceptions import InvalidTag

        for cipher in self._ciphers:
            try:
                return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context.encode())
            except (InvalidTag, ValueError):
                continue
        return None


def _key_of(secret: object) -> bytes:
    if not isinstance(secret, bytes | str):
        raise TypeError(f"a secret is text or bytes, not {type(secret).__name__}")
    if isinstance(secret, str) and not is_text(secret):
        raise ValueError("a secret is text that UTF-8 holds, and this one has half a character")
    if not secret:
        raise ValueError("the key of encrypted records is empty")
    if isinstance(secret, bytes) and len(secret) == 32:
        return secret
    raw = secret.encode() if isinstance(secret, str) else secret
    return hashlib.scrypt(raw, salt=_SALT, n=2**14, r=8, p=1, dklen=32)
