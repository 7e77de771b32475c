"""What a cell showed, as the outputs of a notebook file: the MIME bundles that were stored, put together again.

What cannot be there in a file is said in words: what was too long to be stored, and widgets, whose state is not in the store.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from agent_kernel.errors import DamagedObjectError
from agent_kernel.repository import Face, Output, read_face
from agent_kernel.values.summaries import size_text

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Bundle", "is_json", "lines_of", "output_json"]

Bundle: TypeAlias = dict[str, Any]
_WIDGETS: Final = "application/vnd.jupyter.widget-"
_OURS: Final = "application/vnd.agent-kernel."


def lines_of(text: str) -> list[str]:
    """The text as Jupyter writes it into a file."""
    return text.splitlines(keepends=True)


def is_json(mime: str) -> bool:
    """Whether nbformat lets a representation of this type be more than text."""
    return mime.startswith("application/") and mime.endswith(("/json", "+json"))


def output_json(repo: Repository, output: Output, mask: Callable[[str], str]) -> Bundle | None:
    """One output in the form of a file; None: nothing of it means anything there."""
    match output.kind:
        case "stream":
            return _stream(mask(output.text), output.name)
        case "gap":
            return _stream(f"… {size_text(output.size)} left out …\n", "stdout")
        case "error":
            return {
                "output_type": "error",
                "ename": output.name,
                "evalue": mask(output.text),
                "traceback": [mask(line) for line in output.traceback],
            }
        case _:
            return _display(repo, output, mask)


def _stream(text: str, name: str) -> Bundle:
    return {"output_type": "stream", "name": "stderr" if name == "stderr" else "stdout", "text": lines_of(text)}


def _display(repo: Repository, output: Output, mask: Callable[[str], str]) -> Bundle | None:
    faces = [face for face in output.faces if not face.mime.startswith(_OURS)]
    shown = [face for face in faces if not face.mime.startswith(_WIDGETS)]
    if not faces:
        return None
    data = {face.mime: content for face in shown if (content := _content(repo, face, mask)) is not None}
    if not data:
        left_out = ", ".join(f"{face.mime} {size_text(face.size)}" for face in shown) or "a widget"
        data = {"text/plain": [f"({left_out} left out)"]}
    kind = "execute_result" if output.kind == "execute_result" else "display_data"
    found: Bundle = {"output_type": kind, "data": data, "metadata": _metadata(output.metadata, mask)}
    return found | {"execution_count": None} if kind == "execute_result" else found


def _content(repo: Repository, face: Face, mask: Callable[[str], str]) -> object:
    try:
        content = read_face(repo.objects, face)
    except DamagedObjectError:
        return None
    if content is None:
        return None
    if face.form == "bytes":
        return b64encode(content).decode() + "\n"
    text = content.decode("utf-8", "replace")
    if face.form == "json":
        value = _read_json(text)
        if value is None:
            return None
        value = _mask_all(value, mask)
        return value if is_json(face.mime) else lines_of(json.dumps(value, ensure_ascii=False))
    return mask(text) if is_json(face.mime) else lines_of(mask(text))


def _metadata(text: str, mask: Callable[[str], str]) -> Bundle:
    found = _mask_all(_read_json(text), mask) if text else None
    return cast("Bundle", found) if isinstance(found, dict) else {}


def _read_json(text: str) -> object:
    try:
        # NaN and Infinity are none of JSON's, and no front end would read the file.
        found: object = json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return None
    return found


def _mask_all(value: object, mask: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, list):
        return [_mask_all(one, mask) for one in cast("list[object]", value)]
    if isinstance(value, dict):
        return {mask(key): _mask_all(one, mask) for key, one in cast("dict[str, object]", value).items()}
    return value
