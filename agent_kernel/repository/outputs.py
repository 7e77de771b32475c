"""What a cell showed: an object of its own, to which the cell's commit refers.

Outputs are those that the front end got, with all their MIME types, so that they can be shown again as they were. Text
and JSON stand in the object itself; pictures, and bytes in general, are blobs, so that the same figure in ten commits
is stored once. What was left out for its size stays visible as a gap or as a face without content.

The text is untrusted: nothing here escapes, masks or renders it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, cast

import msgspec

from agent_kernel.errors import NewerFormatError
from agent_kernel.repository.blobs import INLINE, digest_pieces, plan_cuts, read_blob, store_blob
from agent_kernel.repository.commits import Blob, Kind, ObjectId, encode

if TYPE_CHECKING:
    from agent_kernel.repository.objects import Objects, Writer

VERSION: Final = 1

_OUTPUT_KEYS = {
    "kind": "k",
    "name": "n",
    "text": "t",
    "faces": "f",
    "metadata": "m",
    "traceback": "b",
    "number": "x",
    "display": "d",
    "widget": "w",
    "under": "u",
    "size": "z",
}
_OUTPUTS_KEYS = {"version": "v", "outputs": "o", "dropped_outputs": "n", "dropped_bytes": "z"}


class Face(msgspec.Struct, frozen=True, array_like=True):
    """One MIME type of an output. With neither text nor blob it was left out for its size."""

    mime: str
    form: str  # "text", "json" (the text is JSON) or "bytes" (base64 in messages)
    size: int  # bytes
    text: str | None = None
    blob: Blob | None = None

    @property
    def is_kept(self) -> bool:
        return self.text is not None or self.blob is not None


class Output(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_OUTPUT_KEYS):
    """One output, in the words of the Jupyter protocol."""

    kind: str  # stream, display_data, execute_result, update_display_data, error; or gap: something was left out here
    name: str = ""  # stdout or stderr; of an error its type
    text: str = ""  # of a stream; of an error what it says
    faces: tuple[Face, ...] = ()
    metadata: str = ""  # JSON
    traceback: tuple[str, ...] = ()
    number: int | None = None  # the prompt of a result
    display: str = ""  # the display id; an update names one of an earlier cell
    widget: str = ""  # the model of the output widget that it was shown in
    under: int | None = None  # the prompt of the earlier cell that it was shown under
    size: int = 0  # of a gap: bytes


class Outputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename=_OUTPUTS_KEYS):
    """All that one cell showed, in order; of each display id the last state."""

    version: int
    outputs: tuple[Output, ...]
    dropped_outputs: int = 0
    dropped_bytes: int = 0

    def with_texts(self, change: Callable[[str], str]) -> Outputs:
        """The same with each of its texts as `change` gives it: printed, shown in any form, and of errors."""
        return msgspec.structs.replace(self, outputs=tuple(_with_texts(one, change) for one in self.outputs))

    def without_bytes(self, leaves_out: Callable[[bytes], bool]) -> Outputs:
        """The same without the pictures and other bytes that `leaves_out` says, as if they were too large to keep."""
        return msgspec.structs.replace(self, outputs=tuple(_without_bytes(one, leaves_out) for one in self.outputs))


def _with_texts(output: Output, change: Callable[[str], str]) -> Output:
    return msgspec.structs.replace(
        output,
        text=change(output.text),
        faces=tuple(face if face.text is None else _with_text(face, face.text, change) for face in output.faces),
        metadata=_in_json(output.metadata, change),
        traceback=tuple(map(change, output.traceback)),
    )


def _with_text(face: Face, text: str, change: Callable[[str], str]) -> Face:
    text = _in_json(text, change) if face.form == "json" else change(text)
    return msgspec.structs.replace(face, text=text, size=len(text.encode("utf-8", "surrogatepass")))


def _in_json(text: str, change: Callable[[str], str]) -> str:
    """The JSON with its texts and numbers changed. It stays JSON: a number that is changed becomes a text."""
    changed = change(text)
    if changed == text:
        return text
    try:
        return json.dumps(_in_value(json.loads(text), change), ensure_ascii=False)
    except (ValueError, RecursionError):
        return changed


def _in_value(value: object, change: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_value(one, change) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {change(key): _in_value(one, change) for key, one in cast("dict[str, object]", value).items()}
    if value is None or isinstance(value, bool):
        return value
    written = json.dumps(value)
    changed = change(written)
    return value if changed == written else changed


def _without_bytes(output: Output, leaves_out: Callable[[bytes], bool]) -> Output:
    return msgspec.structs.replace(
        output,
        faces=tuple(
            msgspec.structs.replace(face, blob=None)
            if face.blob is not None and face.blob.inline is not None and leaves_out(face.blob.inline)
            else face
            for face in output.faces
        ),
    )


_DECODER = msgspec.msgpack.Decoder(Outputs)


def decode_outputs(payload: bytes) -> Outputs:
    """The outputs of a cell.

    Raises:
        NewerFormatError: a newer release wrote them, and what they refer to is not known.
    """
    found = _DECODER.decode(payload)
    if found.version > VERSION:
        raise NewerFormatError("the output of a cell", found.version, VERSION)
    return found


def blobs_of(outputs: Outputs) -> Iterator[Blob]:
    return (face.blob for output in outputs.outputs for face in output.faces if face.blob is not None)


def store_outputs(writer: Writer, outputs: Outputs) -> ObjectId:
    """Store the outputs, whose blobs may still hold their bytes inline however long they are."""
    stored = tuple(
        msgspec.structs.replace(output, faces=tuple(_stored(writer, face) for face in output.faces))
        if output.faces
        else output
        for output in outputs.outputs
    )
    return writer.add(Kind.OUTPUTS, encode(msgspec.structs.replace(outputs, outputs=stored)))


def _stored(writer: Writer, face: Face) -> Face:
    content = face.blob.inline if face.blob is not None else None
    if content is None or len(content) <= INLINE:
        return face
    cuts = plan_cuts(len(content))
    blob, _ = store_blob(writer, content, cuts, digest_pieces(content, cuts))
    return msgspec.structs.replace(face, blob=blob)


def read_outputs(objects: Objects, id: ObjectId) -> Outputs:
    """The outputs that a commit refers to; raises as `Objects.get`, and NewerFormatError."""
    return objects.load(Kind.OUTPUTS, id, decode_outputs)


def read_face(objects: Objects, face: Face) -> bytes | None:
    """The whole content of one MIME type; None if it was left out."""
    if face.text is not None:
        return face.text.encode("utf-8", "surrogatepass")
    return None if face.blob is None else bytes(read_blob(objects, face.blob))
