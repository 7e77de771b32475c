"""What the verbs put into records: values as JSON, sealed where there is a key, ids that sort by time, and which process does something."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec

from agent_kernel.errors import MissingExtraError
from agent_kernel.records.checks import is_text
from agent_kernel.repository.refs import Holder
from agent_kernel.storage import SupportsLiveness

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

__all__ = [
    "Seal",
    "Secret",
    "as_document",
    "first_free",
    "is_alive",
    "is_plain",
    "keep_infinite",
    "new_id",
    "now_s",
    "pack_json",
    "sortable",
    "this_process",
    "unpack_json",
]

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
    return type(value) is str and (value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value))


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
