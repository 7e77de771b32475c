"""The acts that change neither a variable nor HEAD, and so wait for no cell: `tag`, and `write_notebook`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from agent_kernel.browsing.wording import called
from agent_kernel.errors import RequestError
from agent_kernel.panels.asked import Act, Named, Tagged

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.panels.notebook import Notebook

__all__ = ["tag", "write_notebook"]

_SHORT = 8  # digits of a commit's id
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # nbformat 4.5; formats before it have none
_INDENT = 1  # as Jupyter writes its files


def tag(desk: Desk, notebook: Notebook, act: Act) -> Answer:
    """Name a commit."""
    assert isinstance(act.args, Tagged)
    with desk.inside() as (repo, session):
        at = repo.resolve(act.args.at, session.id)
        repo.create_tag(act.args.name, at)
        said = f"Tagged {called(repo.commit_at(at))} as {act.label}."
    return {"done": said, "notes": [], "undo": False, "head": desk.head(), "cells": None}


def write_notebook(desk: Desk, notebook: Notebook, act: Act) -> Answer:
    """Write the page that was stored with a commit to a file of its own, beside the notebook."""
    assert isinstance(act.args, Named)
    page = cast("Answer | None", desk.ask("cells", {"id": act.args.id}))
    if page is None:
        raise RequestError("write_notebook", f"no page of the notebook was stored with {act.label}")
    path = notebook.path()
    folder, name = (Path.cwd(), Path(str(page["name"])).name) if path is None else (path.parent, path.name)
    stem = name.removesuffix(".ipynb")
    written = _write(folder, f"{stem}@{act.id[:_SHORT]}", _notebook(page, path))
    where = "beside the notebook" if path is not None else f"in {folder}"
    said = f"Wrote {written.name} {where}."
    return {"done": said, "notes": [], "undo": False, "head": desk.head(), "cells": None}


def _write(folder: Path, stem: str, content: bytes) -> Path:
    """Write a new file; one of the same name that says something else stays, and the new one gets a number."""
    number = 1
    while True:
        path = folder / (f"{stem}.ipynb" if number == 1 else f"{stem}-{number}.ipynb")
        try:
            with path.open("xb") as file:
                file.write(content)
        except FileExistsError:
            if path.read_bytes() != content:
                number += 1
                continue
        except OSError as error:
            raise RequestError("write_notebook", f"{path} cannot be written: {error.strerror}") from error
        return path


def _notebook(page: Answer, path: Path | None) -> bytes:
    """The page as a notebook file, with the metadata that the notebook has now.

    Of today's format, or of the one before it where the cells have no ids, or some that are none.
    """
    cells = cast("list[dict[str, str]]", page["cells"])
    ids = [cell["id"] for cell in cells]
    has_ids = all(_ID.fullmatch(id) for id in ids) and len(set(ids)) == len(ids)
    document = {
        "cells": [_cell(cell, has_ids=has_ids) for cell in cells],
        "metadata": _metadata(path),
        "nbformat": 4,
        "nbformat_minor": 5 if has_ids else 4,
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=_INDENT) + b"\n"


def _cell(cell: dict[str, str], *, has_ids: bool) -> Answer:
    named: Answer = {"id": cell["id"]} if has_ids else {}
    lines = cell["source"].splitlines(keepends=True)
    made: Answer = {"cell_type": cell["type"], **named, "metadata": {}, "source": lines}
    return {**made, "execution_count": None, "outputs": []} if cell["type"] == "code" else made


class _File(msgspec.Struct):
    metadata: dict[str, object] = msgspec.field(default_factory=dict[str, object])


def _metadata(path: Path | None) -> dict[str, object]:
    """The kernel and the language, as the notebook's file names them."""
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_File).metadata if path is not None else {}
    except (OSError, msgspec.MsgspecError):  # not saved yet
        return {}
    return {key: found[key] for key in ("kernelspec", "language_info") if key in found}
