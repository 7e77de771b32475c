"""What a cell showed, in words: text as text, everything else by its type and size.

Stored HTML, SVG and JavaScript never become markup here; of a picture only the size is told. Escape sequences are
stripped, and what looks like a secret, or is what the cell's own code gave away as one, is masked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.repository import Commit, Face, Output, Outputs, read_face, read_outputs
from agent_kernel.values import summaries
from agent_kernel.verbs.output import Block, Code, Json, Line
from agent_kernel.verbs.text import clean_lines, plural, size_text

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["ShownOutputs", "outputs_of"]

_LINES_EACH, _LINES = 4, 12  # of the brief face
_WIDTH = 400  # characters of a line in it
# In the order in which one of them stands for the others.
_READABLE = ("text/plain", "text/markdown", "text/latex", "text/html", "image/svg+xml", "application/json")


@dataclass(frozen=True)
class ShownOutputs:
    """The outputs of one commit's cell."""

    outputs: Outputs
    hidden: frozenset[str]  # what the cell's code gave away
    read: Callable[[Face], bytes | None]

    def without_code(self) -> ShownOutputs:
        """The same, of errors only what they are called: a traceback quotes code."""
        found = tuple(
            msgspec.structs.replace(one, traceback=(), text="") if one.kind == "error" else one
            for one in self.outputs.outputs
        )
        return replace(self, outputs=msgspec.structs.replace(self.outputs, outputs=found))

    def blocks(self, *, full: bool, how_to_see_more: str) -> list[Block]:
        """All of it, or its first lines."""
        texts = [text for output in self.outputs.outputs if (text := self._text(output))]
        if full:
            return [Code(text) for text in texts]
        lines: list[str] = []
        left_out = 0
        for text in texts:
            own = text.splitlines()
            room = max(0, min(_LINES_EACH, _LINES - len(lines)))
            shown = own if len(own) <= room else own[:room]
            left_out += len(own) - len(shown)
            lines += [line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…" for line in shown]
        more = [Line(f"{plural(left_out, 'more line')}: {how_to_see_more}")] if left_out else []
        return [*([Code("\n".join(lines))] if lines else []), *more]

    def to_json(self) -> Json:
        return [self._json(output) for output in self.outputs.outputs]

    def _text(self, output: Output) -> str:
        said = self._said(output)
        if output.kind == "update_display_data":
            said = f"(in place of what an earlier cell showed)\n{said}"
        elif output.under is not None:
            said = f"(under [{output.under}])\n{said}"
        elif output.widget:
            said = f"(in a widget)\n{said}"
        return said.rstrip("\n")

    def _said(self, output: Output) -> str:
        if output.kind == "gap":
            return f"… {size_text(output.size)} left out …"
        if output.kind == "stream":
            return self.clean(output.text)
        if output.kind == "error":
            return self.clean("\n".join(output.traceback) or f"{output.name}: {output.text}".rstrip(": "))
        best = min(
            (face for face in output.faces if face.mime in _READABLE and face.is_kept and face.form != "bytes"),
            key=lambda face: _READABLE.index(face.mime),
            default=None,
        )
        others = ", ".join(_size(face) for face in output.faces if face is not best)
        text = self.content(best) if best is not None else ""
        return "\n".join(part for part in (text, f"({others})" if others else "") if part)

    def content(self, face: Face) -> str:
        """The text of one MIME type as it may be shown; nothing if it was left out."""
        content = self.read(face)
        return "" if content is None else self.clean(content.decode("utf-8", "replace"))

    def clean(self, text: str) -> str:
        """The text without secrets and control characters."""
        return summaries.mask_text(clean_lines(text), self.hidden)

    def _json(self, output: Output) -> Json:
        found: dict[str, Json] = {"kind": output.kind}
        if output.kind == "gap":
            return found | {"bytes": output.size}
        named = {"name": output.name, "text": self.clean(output.text), "display_id": output.display}
        found |= {key: value for key, value in named.items() if value}
        if output.traceback:
            found["traceback"] = [self.clean(line) for line in output.traceback]
        if output.number is not None:
            found["number"] = output.number
        if output.under is not None:
            found["under"] = output.under
        if output.widget:
            found["widget"] = output.widget
        if output.faces:
            found["faces"] = [self._face_json(face) for face in output.faces]
        return found

    def _face_json(self, face: Face) -> Json:
        text = {"text": self.content(face)} if face.form != "bytes" and face.is_kept else {}
        return {"mime": face.mime, "size": face.size, "kept": face.is_kept, **text}


def outputs_of(repo: Repository, commit: Commit) -> ShownOutputs | None:
    """What the commit's cell showed; None if nothing was kept."""
    cell = commit.cell
    if cell is None or cell.outputs is None:
        return None
    _, hidden = summaries.mask_code(cell.source)
    return ShownOutputs(read_outputs(repo.objects, cell.outputs), hidden, lambda face: read_face(repo.objects, face))


def _size(face: Face) -> str:
    left_out = "" if face.is_kept else " left out"
    return f"{clean_lines(face.mime)} {size_text(face.size)}{left_out}"
