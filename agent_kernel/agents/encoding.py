"""The bytes of events, to store them, and of what is handed to another process.

They are msgpack with the name of the event's class, and a reader ignores fields that it does not know; an event of a
class that a newer release made is read as `Unknown`.
"""

from __future__ import annotations

from typing import TypeVar, cast

import msgspec

from agent_kernel.agents.events import EVENTS, SCHEMA, Event, Unknown
from agent_kernel.session.history import written

__all__ = ["decode_event", "encode_event", "packed", "spelled_out"]

S = TypeVar("S", bound=msgspec.Struct)


class _Envelope(msgspec.Struct, frozen=True, array_like=True):
    schema: int
    kind: str
    body: msgspec.Raw


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_ENVELOPE = msgspec.msgpack.Decoder(_Envelope)
_BODIES: dict[str, msgspec.msgpack.Decoder[Event]] = {}


def encode_event(event: Event) -> bytes:
    """The bytes that are stored."""
    return _ENCODER.encode(_Envelope(SCHEMA, event.kind, msgspec.Raw(_ENCODER.encode(event))))


def packed(given: msgspec.Struct) -> bytes:
    """The bytes in which it is handed to another process."""
    try:
        return msgspec.msgpack.encode(given)
    except UnicodeEncodeError:
        return msgspec.msgpack.encode(spelled_out(given))


def spelled_out(given: S) -> S:
    """An event, or another record, with what no bytes can hold spelled out in all its texts: halves of surrogate pairs."""

    def legible(value: object) -> object:
        match value:
            case str():
                return written(value)
            case dict():
                return {legible(key): legible(held) for key, held in cast("dict[object, object]", value).items()}
            case list() | tuple():
                return [legible(held) for held in cast("list[object]", value)]
            case _:
                return value

    return msgspec.convert(legible(msgspec.to_builtins(given, builtin_types=(bytes,))), type(given))


def decode_event(stored: bytes) -> Event:
    """The event; of a kind that this release does not know, what all events say."""
    envelope = _ENVELOPE.decode(stored)
    kind = EVENTS.get(envelope.kind)
    if kind is None:
        common = msgspec.msgpack.decode(envelope.body, type=Event)
        said = {name: getattr(common, name) for name in Event.__struct_fields__}
        return Unknown(name=envelope.kind, **said)
    if envelope.kind not in _BODIES:
        _BODIES[envelope.kind] = msgspec.msgpack.Decoder(kind)
    return _BODIES[envelope.kind].decode(envelope.body)
