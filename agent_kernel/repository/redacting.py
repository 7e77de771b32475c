"""Take what the code of some variables gave away out of everything that commits say: sources, errors, messages, outputs.

What is looked for are the literals of the statements that spoke of the variable. They are replaced in all text. Code
that holds one (a stored function or class) cannot be altered without becoming other code, so it goes with its name.
Values that hold one are only named: they may hold it for reasons of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from agent_kernel.repository.blobs import chunks_of
from agent_kernel.repository.commits import (
    Blob,
    Commit,
    Document,
    Entry,
    Manifest,
    decode_entry,
    decode_manifest,
    summary_id,
)
from agent_kernel.repository.ids import Kind, ObjectId
from agent_kernel.repository.lists import load_list
from agent_kernel.repository.outputs import blobs_of, read_outputs

if TYPE_CHECKING:
    from agent_kernel.repository.repository import Repository
    from agent_kernel.repository.tree import Tree

Mask: TypeAlias = Callable[[str, frozenset[str]], "tuple[str, frozenset[str]]"]

MASK: Final = "•••• masked"
_TELLING: Final = 6  # characters; a shorter literal is part of too much that has nothing to do with it


class Redaction:
    """What to take out, learnt from every cell that speaks of one of the names.

    Args:
        mask: gives a source without the literals that belong to names, and those literals.
        noted: code that stands beside the history, in the events of agents' runs.
    """

    def __init__(
        self,
        repo: Repository,
        names: Iterable[str],
        commits: Iterable[Commit],
        mask: Mask,
        noted: Iterable[str] = (),
    ) -> None:
        self._repo = repo
        self._names = frozenset(names)
        self._word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(self._names)))})\b")
        self._mask = mask
        given: set[str] = set()
        sources = (commit.cell.source for commit in commits if commit.cell is not None)
        for source in chain(sources, noted):
            if self.speaks(source):
                given |= mask(source, self._names)[1]
        self.literals = sorted(given - {MASK}, key=len, reverse=True)
        self._needles = [literal.encode() for literal in self.literals if len(literal) >= _TELLING]
        self.is_telling = cache(self._is_telling)
        self._tells = cache(self._tells_of)
        self._in_document_cell = cache(self._in_document_cell_of)

    def speaks(self, source: str) -> bool:
        """Whether the code names one of the variables."""
        return self._word.search(source) is not None

    def code(self, source: str) -> str:
        """The source without what it gives away."""
        return self.text(self._mask(source, self._names)[0] if self.speaks(source) else source)

    def text(self, text: str) -> str:
        """The text without the literals."""
        for literal in self.literals:
            text = text.replace(literal, MASK)
        return text

    def fields(self, commit: Commit) -> dict[str, object]:
        """The fields of a commit that are text, without the literals."""
        found: dict[str, object] = {
            "message": self.text(commit.message),
            "labels": tuple(map(self.text, commit.labels)),
            "unsaved": tuple(msgspec.structs.replace(one, reason=self.text(one.reason)) for one in commit.unsaved),
        }
        if commit.notebook is not None and self._on_page(commit.notebook):
            found["notebook"] = None
        if commit.document is not None and self._in_document(commit.document):
            found["document"] = None
        if commit.cell is not None:
            source = commit.cell.source
            if self.speaks(source):
                source = self._mask(source, self._names)[0]
            outputs = commit.cell.outputs
            kept = None if self.speaks(source) or self._in_outputs(outputs) else outputs
            found["cell"] = msgspec.structs.replace(
                commit.cell, source=self.text(source), error=self.text(commit.cell.error), outputs=kept
            )
        return found

    def holders(self, tree: Tree) -> tuple[set[str], set[str]]:
        """The names whose code holds a literal, with all that cannot be loaded without them; and other such values."""
        code: set[str] = set()
        values: set[str] = set()
        needs: dict[str, tuple[str, ...]] = {}
        for name, row in tree.rows():
            in_code, in_value, needs[name] = self._tells(row)
            if in_code:
                code.add(name)
            elif in_value and name not in self._names:
                values.add(name)
        while more := {name for name, needed in needs.items() if name not in code and code.intersection(needed)}:
            code |= more
        return code, values - code

    def _tells_of(self, row: bytes) -> tuple[bool, bool, tuple[str, ...]]:
        entry = decode_entry(row)
        manifest = self._manifest(entry)
        if manifest is None:
            return False, self._in_summary(entry), ()
        in_code = any(self.is_telling(Kind.DEFINITION + id) for id in manifest.definitions)
        in_value = self._in_summary(entry) or any(self._in_blob(blob) for blob in manifest.blobs)
        return in_code, in_value, manifest.classes

    def _manifest(self, entry: Entry) -> Manifest | None:
        if entry.value:
            return decode_manifest(entry.value)
        return self._repo.read_manifest(entry) if entry.manifest is not None else None

    def _in_outputs(self, id: ObjectId | None) -> bool:
        if id is None:
            return False
        outputs = read_outputs(self._repo.objects, id)
        return self.is_telling(Kind.OUTPUTS + id) or any(map(self._in_blob, blobs_of(outputs)))

    def _on_page(self, id: ObjectId) -> bool:
        """Whether a notebook's cells as they were saved speak of the variable, or hold a literal."""
        return self._gives_away(self._repo.objects.get(Kind.SMALL, id))

    def _in_document(self, document: Document) -> bool:
        cells = () if document.cells is None else load_list(self._repo.objects, document.cells)
        return self._gives_away(document.name.encode()) or any(self._in_document_cell(id) for id, _ in cells)

    def _in_document_cell_of(self, id: ObjectId) -> bool:
        return self._gives_away(self._repo.objects.get(Kind.CHUNK, id))

    def _gives_away(self, text: bytes) -> bool:
        return self._holds(text) or self.speaks(text.decode("utf-8", "replace"))

    def _in_summary(self, entry: Entry) -> bool:
        id = summary_id(entry)
        return self.is_telling(Kind.SMALL + id) if id is not None else self._holds(entry.summary)

    def _in_blob(self, blob: Blob) -> bool:
        if blob.inline is not None:
            return self._holds(blob.inline)
        keep = max(map(len, self._needles), default=1) - 1
        tail = b""
        for id, _ in chunks_of(self._repo.objects, blob):
            payload = self._repo.objects.get(Kind.CHUNK, id)
            if self._holds(tail + payload[: keep or 1]) or self._holds(payload):
                return True
            tail = payload[-keep:] if keep else b""
        return False

    def _is_telling(self, key: bytes) -> bool:
        found = self._repo.objects.fetch([key])
        return key in found and self._holds(found[key].payload)

    def _holds(self, payload: bytes) -> bool:
        return any(needle in payload for needle in self._needles)
