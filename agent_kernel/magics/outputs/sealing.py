"""Turn what a cell showed into the form that is stored."""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Sequence

from agent_kernel.magics.outputs import items
from agent_kernel.repository import Blob, Face, Output, Outputs
from agent_kernel.repository.outputs import VERSION

__all__ = ["seal"]

_INLINE_DRAWING = 4 << 10


def seal(
    first: Sequence[items.Item], last: Sequence[items.Item], dropped_outputs: int, dropped_bytes: int
) -> Outputs | None:
    """The outputs, with a gap between the first and the last ones if anything was dropped there."""
    gap = [Output(kind="gap", size=dropped_bytes)] if dropped_bytes or dropped_outputs else []
    outputs = (*map(_output, first), *gap, *map(_output, last))
    left_out = [face for output in outputs for face in output.faces if not face.is_kept]
    if not outputs:
        return None
    return Outputs(
        version=VERSION,
        outputs=outputs,
        dropped_outputs=dropped_outputs,
        dropped_bytes=dropped_bytes + sum(face.size for face in left_out),
    )


def _output(item: items.Item) -> Output:
    texts = [_written(part) for part in item.parts]
    is_error = item.kind == "error"
    return Output(
        kind=item.kind,
        name=_written(item.name),
        text=texts[0] if is_error else "".join(texts),
        traceback=tuple(texts[1:]) if is_error else (),
        faces=tuple(_faces(item.faces)),
        metadata=_written(item.metadata),
        number=item.number,
        display=_written(item.display),
        widget=_written(item.place.widget),
        under=item.place.under,
    )


def _faces(found: Iterable[items.Face]) -> Iterable[Face]:
    for mime, form, content, size in found:
        if content is None:
            yield Face(mime, form, size)
        elif isinstance(content, bytes):
            yield Face(mime, form, size, blob=Blob(size, inline=content))
        elif form == "bytes":
            yield _picture(mime, content)
        elif mime.startswith("image/") and size > _INLINE_DRAWING:
            payload = _written(content).encode()
            yield Face(mime, form, len(payload), blob=Blob(len(payload), inline=payload))
        else:
            yield Face(mime, form, size, _written(content))


def _picture(mime: str, content: str) -> Face:
    try:
        payload = binascii.a2b_base64(content)
    except (binascii.Error, ValueError):  # a library that does not keep to the protocol: as it stands
        payload = _written(content).encode()
        return Face(mime, "text", len(payload), blob=Blob(len(payload), inline=payload))
    return Face(mime, "bytes", len(payload), blob=Blob(len(payload), inline=payload))


def _written(text: str) -> str:
    """The text with what UTF-8 cannot hold spelled out: half of a surrogate pair."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
