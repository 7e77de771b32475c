"""Cells of the history as a file: a notebook of those that lead to a state, and a notebook or script of those that make a variable.

Everything comes from the store: no kernel runs, and no value is loaded. The same commit gives the same bytes. `cell_code` says what
the code of a cell reads, binds and changes, `slices` which commits lead to a state and which of their cells make a variable.
"""

from __future__ import annotations

import ast
import json
import os
import re
import secrets
import shutil
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from agent_kernel.agents.event_log import EventStore, short_run
from agent_kernel.cells.cell_code import CellCode, code_of, header_of, indent, read_code, without_own_lines
from agent_kernel.cells.slices import Line, Origin, Slice, SlicedCell, find_origin, line_to
from agent_kernel.errors import DamagedObjectError, FileNotWrittenError, NewerFormatError, RunNotFoundError
from agent_kernel.repository import (
    Commit,
    ObjectId,
    Output,
    Representation,
    hex_of,
    read_outputs,
    read_representation,
    short,
)
from agent_kernel.session import Repository
from agent_kernel.session.dependencies import words_of
from agent_kernel.session.history import label, mask_commit, prompt
from agent_kernel.session.provenance import NotebookCell, read_notebook
from agent_kernel.session.tracking import HideList
from agent_kernel.values import previews
from agent_kernel.values.previews import clean, size_text

# -- what files for others do not say: secrets, as `show` and the panels mask them, and literals of hidden variables


_LEAST = 6  # characters of a literal that is looked for in other cells; fewer are part of too much else


class Masks:
    """Masks the cells of one file, in order. `count`: cells whose code is not what ran."""

    def __init__(self, repo: Repository) -> None:
        self._hide = HideList(repo)
        self._everywhere: set[str] = set()
        self.count = 0

    def code(self, source: str) -> tuple[str, frozenset[str]]:
        """The code as it may be given away, and the literals that were taken out of it."""
        masked, literals = previews.mask_code(source)
        hidden = frozenset(self._hide.select(words_of(source)))
        if hidden:
            masked, more = previews.mask_code(masked, hidden)
            literals |= more
        masked = previews.mask_text(masked, self._everywhere)
        self._everywhere.update(literal for literal in literals if len(literal) >= _LEAST and not literal.isalpha())
        self.count += masked != source
        return masked, literals

    def text(self, text: str, literals: frozenset[str] = frozenset()) -> str:
        """A text as it may be given away. `literals`: taken out of the code that it belongs to."""
        return previews.mask_text(text, literals | self._everywhere)


# -- the notebook


_INDENT: Final = 1  # as Jupyter writes its files
_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ID_DIGITS: Final = 12
_NAMES: Final = 12


class NotebookFile(NamedTuple):
    """A notebook, ready to be written.

    Attributes:
        cells: how many code cells it has.
        failed: how many cells are left out because they failed or were interrupted, and how many of those changed a
            variable.
        masked: in how many cells something was masked.
        is_truncated: the store no longer holds the beginning of the history.
    """

    content: bytes
    cells: int
    failed: tuple[int, int] = (0, 0)
    masked: int = 0
    is_truncated: bool = False


def history_notebook(repo: Repository, commit: ObjectId, *, keep_failed: bool = False) -> NotebookFile:
    """Make the notebook of a commit's history.

    Args:
        keep_failed: also cells that failed or were interrupted.
    """
    line = line_to(repo, commit)
    story = _Story(repo, line, keep_failed=keep_failed)
    parts = list(story.parts())
    document = _last_document(repo, line)
    builder = _Builder(repo)
    shared = _shared_ids(parts)
    built = [(part, builder.build(part, shared)) for part in parts]
    cells = _insert_text_cells(built, [] if document is None else document[1], builder)
    language = document[0] if document is not None else ""
    content = _notebook_bytes(cells, {"commit": hex_of(commit)}, language)
    return NotebookFile(content, builder.number, story.failed, builder.masks.count, line.is_truncated)


# -- what the notebook tells, part by part


class _Part(NamedTuple):
    """A code cell, or a text about what happened between code cells. `source`: of the cell, or Markdown."""

    kind: Literal["code", "markdown"]
    id: ObjectId
    commit: Commit
    source: str


class _Story:
    """Goes along a line and says what a reader of it has to run and to know."""

    def __init__(self, repo: Repository, line: Line, *, keep_failed: bool) -> None:
        self._repo = repo
        self._line = line
        self._keep_failed = keep_failed
        self._included: set[ObjectId] = set(line.positions)
        self._runs: set[str] = set()
        self.failed = (0, 0)

    def parts(self) -> Iterator[_Part]:
        if self._line.is_truncated and self._line.commits:
            first = self._line.commits[0]
            yield _Part("markdown", *first, "*The store no longer holds what came before this.*")
        yield from self._build_parts(self._line.commits)

    def _build_parts(self, commits: Iterable[tuple[ObjectId, Commit]]) -> Iterator[_Part]:
        for id, commit in commits:
            origin = find_origin(self._repo, commit)
            if commit.cell is not None:
                yield from self._build_cell(id, commit, commit.cell.source)
            elif origin is not None:
                yield from self._build_origin(id, commit, origin)
            elif commit.changed:
                yield _Part("markdown", id, commit, f"*Changed outside of cells: {_names(commit)}.*")

    def _build_cell(self, id: ObjectId, commit: Commit, source: str) -> Iterator[_Part]:
        if commit.status != "ok" and not self._keep_failed:
            self.failed = (self.failed[0] + 1, self.failed[1] + bool(commit.changed))
            return
        header, body = header_of(source)
        if header and self._is_task(body):
            if not self._has_steps_of_run(body):
                yield _Part("markdown", id, commit, _task_text(commit.author.name, body))
            return
        if commit.run and commit.run not in self._runs:
            self._runs.add(commit.run)
            yield _Part("markdown", id, commit, _task_text(commit.author.name, self._task_of(commit.run), commit.run))
        if code := without_own_lines(source):
            yield _Part("code", id, commit, code)

    def _build_origin(self, id: ObjectId, commit: Commit, origin: Origin) -> Iterator[_Part]:
        other = origin.commit
        named = "a commit that the store no longer holds" if other is None else _label(self._repo, other)
        if origin.how == "taken":
            yield _Part("markdown", id, commit, f"*Here {_names(commit)} became what they were at {named}.*")
            return
        within_step = bool(commit.run)  # a step that was tried on a branch of its own first
        if not within_step:
            action = "Merged" if origin.how == "merge" else "Picked"
            yield _Part("markdown", id, commit, f"## {action}: {named}\n\nIt changed {_names(commit)} here.")
        if other is None:
            return
        other_commits = (
            line_to(self._repo, other).commits if origin.how == "merge" else [(other, self._repo.commit_at(other))]
        )
        fresh = [(one, made) for one, made in other_commits if one not in self._included]
        self._included.update(one for one, _ in fresh)
        yield from self._build_parts(fresh)
        if origin.how == "merge" and not within_step:
            yield _Part("markdown", id, commit, f"## After the merge of {named}")

    # -- tasks

    @cached_property
    def _tasks(self) -> dict[str, str]:
        """The runs by their tasks, the newest of each."""
        return {_flat(start.task): start.run for start in EventStore(self._repo.store).starts()}

    def _is_task(self, body: str) -> bool:
        return _flat(body) in self._tasks or not code_of(body).is_python

    def _has_steps_of_run(self, body: str) -> bool:
        """Whether the steps that it led to were told already."""
        run = self._tasks.get(_flat(body))
        return run in self._runs or (run is None and bool(self._runs))

    def _task_of(self, run: str) -> str:
        try:
            return EventStore(self._repo.store).first(run).task
        except RunNotFoundError:
            return ""


def _flat(text: str) -> str:
    return " ".join(text.split())


def _task_text(agent: str, task: str, run: str = "") -> str:
    quoted = "\n".join(f"> {line}".rstrip() for line in task.strip().splitlines())
    of_run = f" (run {short_run(run)})" if run else ""
    return f"**Task for {_plain(agent)}**{of_run}\n\n{quoted or '> (the task is not known)'}"


def _label(repo: Repository, id: ObjectId) -> str:
    return _plain(label(id, repo.commit_at(id), longest=60))


def _names(commit: Commit) -> str:
    names = [clean(change.name).replace("`", "'") for change in commit.changed]
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return ", ".join(f"`{name}`" for name in names[:_NAMES]) + more or "no variable"


def _plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", text)


# -- its cells in the form of a file


def _shared_ids(parts: Iterable[_Part]) -> frozenset[str]:
    """Ids of cells that stand for several parts: a cell that ran twice, or in which an agent took several steps."""
    ids = Counter(part.commit.cell.id for part in parts if part.kind == "code" and part.commit.cell is not None)
    return frozenset(id for id, times in ids.items() if times > 1)


class _Builder:
    """Makes cells of a file, and remembers what later ones refer to."""

    def __init__(self, repo: Repository) -> None:
        self._repo = repo
        self.masks = Masks(repo)
        self.number = 0
        self._ids: set[str] = set()
        self._outputs_by_number: dict[int, list[Bundle]] = {}
        self._displays: dict[str, list[tuple[list[Bundle], int]]] = {}

    def build(self, part: _Part, shared_ids: Collection[str]) -> Bundle:
        return self._markdown(part) if part.kind == "markdown" else self._code(part, shared_ids)

    def take_id(self, wanted: str, otherwise: str) -> str:
        """The id of the next cell: what it had, where no other has it."""
        number, id = 1, wanted if _ID.fullmatch(wanted) else otherwise
        while id in self._ids:
            id = otherwise if number == 1 else f"{otherwise}-{number}"
            number += 1
        self._ids.add(id)
        return id

    def text_cell(self, cell: NotebookCell, at: int) -> Bundle:
        id = self.take_id(cell.id, f"text-{at + 1}")
        made: Bundle = {"cell_type": cell.type, "id": id, "metadata": {}}
        return made | {"source": lines_of(self.masks.text(cell.source))}

    def _markdown(self, part: _Part) -> Bundle:
        return {
            "cell_type": "markdown",
            "id": self.take_id("", f"{short(part.id, _ID_DIGITS)}-text"),
            "metadata": {"agent_kernel": {"commit": hex_of(part.id)}},
            "source": lines_of(self.masks.text(part.source)),
        }

    def _code(self, part: _Part, shared_ids: Collection[str]) -> Bundle:
        cell = part.commit.cell
        assert cell is not None
        self.number += 1
        source, literals = self.masks.code(part.source)
        outputs: list[Bundle] = []
        made: Bundle = {
            "cell_type": "code",
            "id": self.take_id("" if cell.id in shared_ids else cell.id, short(part.id, _ID_DIGITS)),
            "execution_count": self.number,
            "metadata": {"agent_kernel": _facts(part.id, part.commit)},
            "outputs": outputs,
            "source": lines_of(source),
        }
        if cell.number is not None:
            self._outputs_by_number[cell.number] = outputs
        for output in self._outputs_of(cell.outputs):
            self._show(output, outputs, literals)
        return made

    def _outputs_of(self, id: ObjectId | None) -> Sequence[Output]:
        if id is None:
            return ()
        try:
            return read_outputs(self._repo.objects, id).outputs
        except (DamagedObjectError, NewerFormatError):
            return ()

    def _show(self, output: Output, own: list[Bundle], literals: frozenset[str]) -> None:
        made = output_json(self._repo, output, partial(self.masks.text, literals=literals))
        if made is None:
            return
        if "execution_count" in made:
            made["execution_count"] = self.number
        if output.kind == "update_display_data" and output.display in self._displays:
            for outputs, at in self._displays[output.display]:
                outputs[at] = {**outputs[at], "data": made["data"], "metadata": made["metadata"]}
            return
        bundles = own if output.under is None else self._outputs_by_number.get(output.under, own)
        bundles.append(made)
        if output.display:
            self._displays.setdefault(output.display, []).append((bundles, len(bundles) - 1))


def _facts(id: ObjectId, commit: Commit) -> Bundle:
    """What the metadata of a cell says of its commit."""
    cell = commit.cell
    found: Bundle = {"commit": hex_of(id)}
    if cell is not None and cell.number is not None:
        found["number"] = cell.number
    if commit.status != "ok":
        found["status"] = commit.status
    if commit.author.kind == "agent":
        found["author"] = {"name": commit.author.name, "kind": commit.author.kind}
    if commit.run:
        found |= {"run": commit.run, "step": commit.step}
    return found


# -- the text cells of the document


def _last_document(repo: Repository, line: Line) -> tuple[str, list[NotebookCell]] | None:
    """The language and the cells of the last document that had any: a front end may have emptied it since."""
    for _, commit in reversed(line.commits):
        if commit.document is not None and commit.document.cells is None:
            continue
        try:
            document = read_notebook(repo.objects, commit)
        except DamagedObjectError:
            continue
        if document is not None and any(cell.source.strip() for cell in document.cells):
            return document.language, list(document.cells)
    return None


def _insert_text_cells(
    built: list[tuple[_Part, Bundle]], document: list[NotebookCell], builder: _Builder
) -> list[Bundle]:
    """Put each text cell before the code cell that it stood before; where that never ran, behind the one before it."""
    first, last = _match_positions(document, built)
    before: dict[int, list[Bundle]] = {}
    behind: dict[int, list[Bundle]] = {}
    for at, cell in enumerate(document):
        if cell.type not in ("markdown", "raw") or not cell.source.strip():
            continue
        following = next((first[code] for code in range(at, len(document)) if code in first), None)
        preceding = next((last[code] for code in range(at, -1, -1) if code in last), None)
        text = builder.text_cell(cell, at)
        if following is not None:
            before.setdefault(following, []).append(text)
        elif preceding is not None:
            behind.setdefault(preceding, []).append(text)
        else:
            before.setdefault(0, []).append(text)
    found = before.get(0, []) if not built else []
    for at, (_, made) in enumerate(built):
        found += [*before.get(at, []), made, *behind.get(at, [])]
    return found


def _match_positions(
    document: Sequence[NotebookCell], built: Sequence[tuple[_Part, Bundle]]
) -> tuple[dict[int, int], dict[int, int]]:
    """By their places on the page, the first and the last places of code cells in the file. Ids tell, or else the code."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    ids = Counter(cell.id for cell in document if cell.id)
    by_id = {cell.id: at for at, cell in enumerate(document) if cell.type == "code" and ids[cell.id] == 1}
    by_code = {cell.source: at for at, cell in reversed(list(enumerate(document))) if cell.type == "code"}
    for position, (part, _) in enumerate(built):
        cell = part.commit.cell
        if part.kind != "code" or cell is None:
            continue
        at = by_id.get(cell.id, by_code.get(cell.source))
        if at is not None:
            first.setdefault(at, position)
            last[at] = position
    return first, last


# -- the file


def notebook_of(
    repo: Repository, cells: Iterable[tuple[ObjectId, Commit, str]], facts: Bundle, text: str = ""
) -> NotebookFile:
    """Make a notebook of some cells, with the code that is given for each, under a text."""
    builder = _Builder(repo)
    parts = [_Part("code", id, commit, source) for id, commit, source in cells]
    shared = _shared_ids(parts)
    built = [builder.build(part, shared) for part in parts]
    above: list[Bundle] = []
    if text:
        id = builder.take_id("", "about")
        above = [{"cell_type": "markdown", "id": id, "metadata": {}, "source": lines_of(builder.masks.text(text))}]
    return NotebookFile(_notebook_bytes([*above, *built], facts), builder.number, masked=builder.masks.count)


def _notebook_bytes(cells: list[Bundle], facts: Bundle, language: str = "") -> bytes:
    language = language or "python"
    metadata: Bundle = {"agent_kernel": facts, "language_info": {"name": language}}
    if language == "python":
        metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    document = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    text = json.dumps(document, ensure_ascii=False, indent=_INDENT, sort_keys=True) + "\n"
    # Half of a surrogate pair is no UTF-8; spelled out like this, it is JSON's own way to write it.
    return text.encode("utf-8", "backslashreplace")


def first_line(commit: Commit) -> str:
    """The first line of a cell's code, masked."""
    cell = mask_commit(commit).cell
    code = "" if cell is None else without_own_lines(cell.source)
    return next((line.strip() for line in code.splitlines() if line.strip()), "")


# -- write the file


def write_file(path: Path, content: bytes, *, replace: bool) -> Path:
    """Write the file and return its path, links resolved.

    Args:
        replace: also where there is a file already.

    Raises:
        FileExistsError: there is one, and `replace` is not set. It stays as it is, also where it came this moment.
        FileNotWrittenError: nothing can be written there. What was there stays.
    """
    try:
        target = Path(os.path.realpath(path.expanduser()))
        if not replace and os.path.lexists(target):
            raise FileExistsError(str(path))
        if target.is_dir():
            raise FileNotWrittenError(str(path), "it is a folder")
        if not target.parent.is_dir():
            raise FileNotWrittenError(str(path), f"there is no folder {target.parent}")
        _write(target, content, replace=replace)
    except FileExistsError:
        raise
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~ of nobody; ValueError: NUL in the name
        raise FileNotWrittenError(str(path), getattr(error, "strerror", None) or str(error)) from error
    return target


def _write(target: Path, content: bytes, *, replace: bool) -> None:
    """Write beside the target first, in the same file system. Made by `open`, so that the person's umask counts."""
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            with suppress(OSError):
                shutil.copymode(target, temporary)
            temporary.replace(target)
        else:
            _link(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _link(temporary: Path, target: Path) -> None:
    """Give the file its name, unless another one has it by now."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if os.path.lexists(target):
            raise FileExistsError(str(target)) from None
        temporary.replace(target)


# -- outputs in the notebook format


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
    representations = [
        representation for representation in output.representations if not representation.mime.startswith(_OURS)
    ]
    visible = [representation for representation in representations if not representation.mime.startswith(_WIDGETS)]
    if not representations:
        return None
    data = {
        representation.mime: content
        for representation in visible
        if (content := _content(repo, representation, mask)) is not None
    }
    if not data:
        left_out = (
            ", ".join(f"{representation.mime} {size_text(representation.size)}" for representation in visible)
            or "a widget"
        )
        data = {"text/plain": [f"({left_out} left out)"]}
    kind = "execute_result" if output.kind == "execute_result" else "display_data"
    found: Bundle = {"output_type": kind, "data": data, "metadata": _metadata(output.metadata, mask)}
    return found | {"execution_count": None} if kind == "execute_result" else found


def _content(repo: Repository, representation: Representation, mask: Callable[[str], str]) -> object:
    try:
        content = read_representation(repo.objects, representation)
    except DamagedObjectError:
        return None
    if content is None:
        return None
    if representation.form == "bytes":
        return b64encode(content).decode() + "\n"
    text = content.decode("utf-8", "replace")
    if representation.form == "json":
        value = _read_json(text)
        if value is None:
            return None
        value = _mask_all(value, mask)
        return value if is_json(representation.mime) else lines_of(json.dumps(value, ensure_ascii=False))
    return mask(text) if is_json(representation.mime) else lines_of(mask(text))


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


# -- the cells that make a variable
#
# The cells that make a variable as a script that runs without a notebook, or as a notebook of those cells.
#
# The cells keep their order, and each says from which commit it is. What only a notebook understands becomes a comment.


_MAGICS = "The lines that begin with % or ! are for notebooks only, and are comments here."
_MASKED = "Something secret is masked: put it back before you run this."
_AWAITS = "It waits at the top level, which only IPython does: run it with `ipython FILE`."
_FAILED = "This cell failed when it ran; what it changed until then stays."
_INTERRUPTED = "This cell was interrupted when it ran: where it stops now may be elsewhere."
_IPYTHON_NOTE = "It uses {names}, which IPython keeps of earlier cells and a script has not: put in what it stands for."
_SHELL = "It uses the shell of the notebook (get_ipython): run it with `ipython FILE`."
_DISPLAY = "from IPython.display import display  # a notebook has it without an import"
_IPYTHON_NAMES = re.compile(r"_{1,3}|_i{1,3}|_i?\d+|_oh|_ih|_dh|In|Out")


class Script(NamedTuple):
    """A script. `notes`: why it may give something else than the history has; none: it gives the same."""

    text: str
    notes: tuple[str, ...]
    masked: int


def script_of(repo: Repository, found: Slice) -> Script:
    """Write the cells of a slice as Python."""
    masks = Masks(repo)
    written = [_written(cell, masks) for cell in found.runs]
    notes = _notes(found, masks)
    future = [line for cell in written for line in cell.future]
    head = [
        f"Makes {clean(found.name)} as it is at commit {short(found.commit)}, with the cells of its history that it needs.",
        *notes,
    ]
    parts = ["\n".join(f"# {clean(line)}" for line in head)]
    parts += ["\n".join(dict.fromkeys(future))] if future else []
    parts += [_DISPLAY] if any("display" in read_code(_source(cell)).reads for cell in found.runs) else []
    parts += [cell.text for cell in written]
    return Script("\n\n".join(parts) + "\n", notes, masks.count)


def notebook_of_slice(repo: Repository, found: Slice) -> NotebookFile:
    """Make a notebook of the cells of a slice, with the outputs that they had."""
    heading = (
        f"Makes `{found.name}` as it is at commit `{short(found.commit)}`, with the cells of its history that it needs."
    )
    notes = [
        f"- {note}" for note in dict.fromkeys([*found.notes, *(note for cell in found.cells for note in cell.notes)])
    ]
    facts = {"commit": hex_of(found.commit), "variable": found.name}
    cells = [(cell.id, cell.commit, _source(cell)) for cell in found.runs if _source(cell)]
    return notebook_of(repo, cells, facts, "\n".join([heading, *([""] if notes else []), *notes]))


def _source(cell: SlicedCell) -> str:
    return "" if cell.commit.cell is None else without_own_lines(cell.commit.cell.source)


def _notes(found: Slice, masks: Masks) -> tuple[str, ...]:
    notes = list(found.notes)
    notes += [note for cell in found.cells for note in cell.notes]
    readings = [read_code(_source(cell)) for cell in found.cells]
    if any(code_of(_source(cell)).left_out for cell in found.cells):
        notes.append(_MAGICS)
    if any(reading.awaits for reading in readings):
        notes.append(_AWAITS)
    if any("get_ipython" in reading.reads | reading.within for reading in readings):
        notes.append(_SHELL)
    names_of_ipython = {name for cell in found.cells for name in _names_of_ipython(cell)}
    notes += [_IPYTHON_NOTE.format(names=", ".join(sorted(names_of_ipython)))] if names_of_ipython else []
    notes += [_MASKED] if masks.count else []
    return tuple(dict.fromkeys(notes))


def _names_of_ipython(cell: SlicedCell) -> list[str]:
    """`_`, `_1`, `_i1`, `Out`: what it names of these that no cell of the history made."""
    reading = read_code(_source(cell))
    return [name for name in reading.reads - reading.guesses - {*cell.needs} if _IPYTHON_NAMES.fullmatch(name)]


class _Written(NamedTuple):
    """A cell in a script. `future`: its `from __future__` lines, which only the beginning of a file may have."""

    text: str
    future: tuple[str, ...] = ()


def _written(cell: SlicedCell, masks: Masks) -> _Written:
    commit = cell.commit
    heading = " ".join(part for part in (prompt(commit), short(cell.id), _by(commit)) if part)
    again = f", once more for {', '.join(map(clean, cell.again))}" if cell.again else ""
    comments = [f"# {clean(heading)}{again}", *(f"# {clean(note)}" for note in cell.notes)]
    source = _source(cell)
    if not source:
        return _Written("\n".join([*comments, *(() if cell.notes else ("# (no code)",))]))
    code = code_of(masks.code(source)[0])
    text, future = _without_future(code)
    if commit.status != "ok" and code.is_python:
        comments.append(f"# {_INTERRUPTED if commit.status == 'interrupted' else _FAILED}")
        text = _guard(text)
    return _Written("\n".join([*comments, text.strip("\n")]), future)


def _by(commit: Commit) -> str:
    return f"by {clean(commit.author.name)} (agent)" if commit.author.kind == "agent" else ""


def _without_future(code: CellCode) -> tuple[str, tuple[str, ...]]:
    """The code with `from __future__` lines as comments, and those lines."""
    if not code.is_python or "__future__" not in code.text:
        return code.text, ()
    lines = code.text.split("\n")
    found: list[str] = []
    for node in _future_imports(code.text):
        found.append(ast.unparse(node))
        for at in range(node.lineno - 1, node.end_lineno or node.lineno):
            lines[at] = f"# {lines[at]}"
    return "\n".join(lines), tuple(found)


def _future_imports(text: str) -> Iterator[ast.ImportFrom]:
    body: Iterable[ast.stmt] = ast.parse(text).body
    return (node for node in body if isinstance(node, ast.ImportFrom) and node.module == "__future__")


def _guard(text: str) -> str:
    return f'try:\n{indent(text)}\nexcept BaseException as _error:\n    print(f"this cell failed, as it did in the history: {{_error!r}}")'
