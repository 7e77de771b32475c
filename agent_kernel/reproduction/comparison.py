"""Compare what was recorded with what the second run made: variables, and what cells showed.

Most is told without loading anything. Values that are stored in the same pieces are the same; of others the stored bytes are
read as a description, numbers within the tolerance among it. Only what this does not decide is loaded, by a child process; of a
store that is not trusted that is plain data, and all else is not comparable.
"""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from agent_kernel.agents.execution import TaskEnd
from agent_kernel.commands import describe
from agent_kernel.commands.contents import ARRAY, Stored, items_of, read_stored
from agent_kernel.commands.show import details_of
from agent_kernel.errors import StoreError
from agent_kernel.queries import row_lines
from agent_kernel.repository import read_blob, read_outputs, read_representation
from agent_kernel.reproduction.equality import Equality, Tolerance
from agent_kernel.session import Repository
from agent_kernel.storage.archive import MANIFEST
from agent_kernel.storage.memory import OverlayStore
from agent_kernel.text import clean, clean_lines, cut
from agent_kernel.values import CLASS_PREFIX, previews
from agent_kernel.values.streams import Buffer, Call

if TYPE_CHECKING:
    from agent_kernel.repository import Commit, Entry, ObjectId, Outputs, Tree
    from agent_kernel.reproduction.line import SavedOutput
    from agent_kernel.storage import Store

Outcome: TypeAlias = Literal["same", "equal within tolerance", "different", "failed", "not comparable"]

_ORDER: Final[tuple[Outcome, ...]] = ("same", "equal within tolerance", "not comparable", "different", "failed")
_VALUE_S: Final = 60.0  # seconds that the child has for one value
_MOST_LINES: Final = 8
_WIDTH: Final = 160


@dataclass(frozen=True)
class Verdict:
    """How one thing came out, a few lines on where it differs, and what is in the way where nothing can be told."""

    outcome: Outcome
    details: tuple[str, ...] = ()
    reason: str = ""


_SAME: Final = Verdict("same")


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """What to say of several things at once."""
    found = set(outcomes)
    for one in reversed(_ORDER):
        if one in found:
            return one
    return "same"


# -- variables


def read_manifest_list(store: Store, what: str) -> frozenset[str]:
    """A list in the manifest of a bundle: `left_out` has names of variables, `silent` commits without their outputs."""
    archive = getattr(store, "archive", None)
    if archive is None:
        return frozenset()
    try:
        found: object = json.loads(archive.read(MANIFEST))
    except ValueError:
        return frozenset()
    values = cast("dict[str, object]", found).get(what) if isinstance(found, dict) else None
    return frozenset(map(str, cast("list[object]", values))) if isinstance(values, list) else frozenset()


@dataclass(frozen=True)
class Side:
    """One of the two histories. `secret`: of a store that only these processes trust; `loads`: all its values may be loaded, and not plain data alone."""

    repo: Repository
    secret: str = ""
    loads: bool = True


@dataclass
class StateComparison:
    """Compares variables of two histories, each pair of stored values once.

    Args:
        python: the interpreter that loads values.
        cwd: where it does so.
    """

    recorded: Side
    fresh: Side
    tolerance: Tolerance
    python: str = sys.executable
    cwd: Path = field(default_factory=Path.cwd)
    value_s: float = _VALUE_S
    _known: dict[tuple[object, ...], Verdict] = field(default_factory=dict[tuple[object, ...], Verdict])

    def __post_init__(self) -> None:
        self.joined = Repository(OverlayStore(self.fresh.repo.store, self.recorded.repo.store))
        self._omitted = read_manifest_list(self.recorded.repo.store, "left_out")

    def compare(
        self, pairs: Iterable[tuple[ObjectId, ObjectId]], names: Mapping[tuple[ObjectId, ObjectId], Iterable[str]]
    ) -> dict[tuple[ObjectId, ObjectId], dict[str, Verdict]]:
        """Compare these variables of each pair of commits; what has to be loaded is loaded together."""
        found: dict[tuple[ObjectId, ObjectId], dict[str, Verdict]] = {}
        waiting: dict[tuple[object, ...], tuple[str, ObjectId, ObjectId, Entry, Entry]] = {}
        keys: list[tuple[tuple[ObjectId, ObjectId], str, tuple[object, ...]]] = []
        repos = self.recorded.repo, self.fresh.repo
        for pair in dict.fromkeys(pairs):
            trees = self.recorded.repo.tree_at(pair[0]), self.fresh.repo.tree_at(pair[1])
            of_pair = found.setdefault(pair, {})
            for name in names[pair]:
                old, new = trees[0].get(name), trees[1].get(name)
                if old is None or new is None:
                    of_pair[name] = self._one_sided(name, old, new)
                    continue
                key: tuple[object, ...] = (name, old.value, old.manifest, old.slot, new.value, new.manifest, new.slot)
                key += tuple(self._classes(*side) for side in zip(repos, trees, (old, new), strict=True))
                keys.append((pair, name, key))
                if key not in self._known and key not in waiting:
                    verdict = self._without_loading(name, old, new)
                    if verdict is not None:
                        self._known[key] = verdict
                    else:
                        waiting[key] = name, *pair, old, new
        self._known |= self._by_loading(waiting)
        for pair, name, key in keys:
            found[pair][name] = self._known[key]
        for pair, of_pair in found.items():
            self._compare_sharing(pair, of_pair)
        return found

    def _classes(self, repo: Repository, tree: Tree, entry: Entry) -> object:
        """What a value is besides its entry: the classes of the notebook, which are stored by themselves."""
        if not repo.read_manifest(entry).classes:
            return None
        return tuple(
            (name, one.value, one.manifest, one.own) for name, one in tree.items() if name.startswith(CLASS_PREFIX)
        )

    def _compare_sharing(self, pair: tuple[ObjectId, ObjectId], verdicts: dict[str, Verdict]) -> None:
        """Of equal values say where names share an object in one run only: the next change in place tells them apart."""
        trees = self.recorded.repo.tree_at(pair[0]), self.fresh.repo.tree_at(pair[1])
        equal = [name for name, one in verdicts.items() if one.outcome in ("same", "equal within tolerance")]
        if not any((entry := tree.get(name)) is not None and entry.alias_group for tree in trees for name in equal):
            return
        both = {name for name in trees[0].names() if name in trees[1] and not name.startswith("\0")}
        sides = [_sharing(tree, both) for tree in trees]
        for name in equal:
            old, new = (side.get(name, {}) for side in sides)
            other = next((one for one in sorted(old.keys() | new.keys()) if old.get(one) != new.get(one)), None)
            if other is not None:
                reason = f"it shares its object with {clean(other)} in one run only"
                if other in old and other in new:
                    reason = f"what it shares with {clean(other)} is not the same in both runs"
                verdicts[name] = Verdict("different", (), reason)

    def _one_sided(self, name: str, old: Entry | None, new: Entry | None) -> Verdict:
        entry = new if old is None else old
        line = describe.entry_line_with_unsaved(self.joined, name, entry)
        if entry is None:
            return _SAME
        if old is None and name in self._omitted:
            return Verdict("not comparable", reason="it was left out of the bundle")
        if old is None:
            return Verdict("different", (f"+ {line}",), "only the second run has it")
        return Verdict("different", (f"− {line}",), "the second run does not have it")

    def _without_loading(self, name: str, old: Entry, new: Entry) -> Verdict | None:
        """None: it has to be loaded."""
        for repo, entry in ((self.recorded.repo, old), (self.fresh.repo, new)):
            missing = describe.not_saved(repo, name, entry)
            if missing is not None:
                return Verdict("not comparable", reason=missing.sentence)
        manifests = self.recorded.repo.read_manifest(old), self.fresh.repo.read_manifest(new)
        if manifests[0].classes or manifests[1].classes:
            return None  # what a class is made of may have changed since, and is stored by itself
        if manifests[0] == manifests[1] and old.slot == new.slot:
            return _SAME
        described = self._described(old, new)
        if described is not None and described.is_equal:
            return _SAME if described.is_exact else self._within(old, new)
        if described is not None and described.is_equal is False:
            return self._different(name, old, new)
        return None

    def _described(self, old: Entry, new: Entry) -> Equality | None:
        """What the stored bytes say; None: nothing."""
        try:
            before, after = read_stored(self.joined, old), read_stored(self.joined, new)
            if before is None or after is None:
                return None
            return _Description(before, after, self.tolerance).compare()
        except (StoreError, IndexError, RecursionError, ValueError):
            return None

    def _within(self, old: Entry, new: Entry) -> Verdict:
        return Verdict("equal within tolerance", self._details("", old, new))

    def _different(self, name: str, old: Entry, new: Entry) -> Verdict:
        return Verdict("different", self._details(name, old, new))

    def _details(self, name: str, old: Entry, new: Entry) -> tuple[str, ...]:
        was, now = (describe.entry_line_with_unsaved(self.joined, name, entry) for entry in (old, new))
        headline = f"{was} → {now}" if was != now else was
        try:
            lines = details_of(self.joined, old, new, headline, row_lines)
        except (StoreError, IndexError, ValueError):
            lines = ()
        return _few((headline, *(line for line in lines if not line.endswith("contents may differ"))))

    def _by_loading(
        self, waiting: Mapping[tuple[object, ...], tuple[str, ObjectId, ObjectId, Entry, Entry]]
    ) -> dict[tuple[object, ...], Verdict]:
        """Load and compare what is left, in a child process; where that ends or takes long, in another one without it."""
        keys = list(waiting)
        found: dict[tuple[object, ...], Verdict] = {}
        while keys:
            answers, failed = self._ask_child([waiting[key] for key in keys])
            for at, equality in answers.items():
                found[keys[at]] = self._verdict(equality, *waiting[keys[at]])
            if failed:
                found[keys[len(answers)]] = self._verdict(Equality(None, reason=failed), *waiting[keys[len(answers)]])
            keys = [key for key in keys if key not in found]
        return found

    def _verdict(
        self, equality: Equality, name: str, _old: ObjectId, _new: ObjectId, old: Entry, new: Entry
    ) -> Verdict:
        if equality.is_equal is None:
            return Verdict("not comparable", reason=clean(equality.reason))  # nobody knows what differs
        if not equality.is_equal:
            return self._different(name, old, new)
        return _SAME if equality.is_exact else self._within(old, new)

    def _ask_child(
        self, pairs: Sequence[tuple[str, ObjectId, ObjectId, Entry, Entry]]
    ) -> tuple[dict[int, Equality], str]:
        """The answers, as far as they came in order, and why no more came."""
        sides = [
            {"url": side.repo.store.url, "secret": side.secret, "plain": not side.loads}
            for side in (self.recorded, self.fresh)
        ]
        request = {
            "sides": sides,
            "rtol": self.tolerance.rtol,
            "atol": self.tolerance.atol,
            "pairs": [[name, old[:-1].hex(), new[:-1].hex()] for name, old, new, _, _ in pairs],
        }
        child = subprocess.Popen(
            [self.python, "-m", "agent_kernel.reproduction.equality"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.cwd,
            start_new_session=True,
        )
        answers: dict[int, Equality] = {}
        late = threading.Event()
        timer = _Watchdog(child, late, self.value_s)
        try:
            assert child.stdin is not None
            assert child.stdout is not None
            with suppress(BrokenPipeError):
                child.stdin.write(json.dumps(request).encode())
                child.stdin.close()
            timer.begin()
            for line in child.stdout:
                timer.begin()
                answer = json.loads(line)
                if "number" in answer:
                    answers[answer["number"]] = Equality(*answer["equality"])
        finally:
            timer.end()
            _kill(child)
        if len(answers) == len(pairs):
            return answers, ""
        return (
            answers,
            f"comparing it takes longer than {self.value_s:.0f} s"
            if late.is_set()
            else "comparing it ended the process",
        )


class _Watchdog:
    """Kills a child that does not answer in time."""

    def __init__(self, child: subprocess.Popen[bytes], late: threading.Event, value_s: float) -> None:
        self._child, self._late, self._value_s = child, late, value_s
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        self.end()
        self._timer = threading.Timer(self._value_s, self._kill)
        self._timer.daemon = True
        self._timer.start()

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _kill(self) -> None:
        self._late.set()
        _kill(self._child)


def _kill(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(child.pid, signal.SIGKILL)  # it is the first of its group
        else:
            child.kill()
    child.wait()
    if child.stdout is not None and not child.stdout.closed and threading.current_thread() is threading.main_thread():
        child.stdout.close()


def _sharing(tree: Tree, names: Iterable[str]) -> dict[str, dict[str, bool]]:
    """By name, those that share objects with it, and whether it is one object as a whole."""
    groups: dict[str, dict[str, int]] = {}
    for name in names:
        entry = tree.get(name)
        if entry is not None and entry.alias_group:
            groups.setdefault(entry.alias_group, {})[name] = entry.slot
    return {
        name: {other: theirs == slot for other, theirs in group.items() if other != name}
        for group in groups.values()
        for name, slot in group.items()
    }


def _few(lines: Sequence[str]) -> tuple[str, ...]:
    first = [cut(line, _WIDTH) for line in lines[:_MOST_LINES]]
    return (*first, f"… {len(lines) - _MOST_LINES} more lines") if len(lines) > _MOST_LINES else tuple(first)


# -- two stored values, compared as they are described


_FLOATS: Final = {"<f8": "d", "<f4": "f", "<c16": "d", "<c8": "f"}
_PLAIN: Final = (int, float, str, bytes, bool, type(None))


class _Description:
    """Walks through two descriptions side by side."""

    def __init__(self, before: Stored, after: Stored, tolerance: Tolerance) -> None:
        self._before, self._after = before, after
        self._tolerance = tolerance
        self._partners: dict[tuple[bool, int], int] = {}  # by side and id: what stands in its place
        self._is_exact = True

    def compare(self) -> Equality | None:
        """`is_equal` is False only where nothing that is loaded could be equal after all; None: that cannot be told."""
        old, new = self._before.value, self._after.value
        if self._are_equal(old, new):
            return Equality(True, self._is_exact)
        if isinstance(old, _PLAIN) and isinstance(new, _PLAIN):
            return Equality(False)
        if _is_array(old) and _is_array(new):
            return Equality(False)
        return None  # the order of a set, or of a dict's keys, may be all that differs

    def _are_equal(self, old: object, new: object) -> bool:
        both: tuple[object, object] = (old, new)
        if isinstance(old, (Call, tuple, list)):
            known = self._known(id(cast("object", old)), id(new))
            if known is not None:
                return known
        if isinstance(old, Buffer) and isinstance(new, Buffer):
            return self._before.blobs[old.position] == self._after.blobs[new.position]
        if isinstance(old, Call) and isinstance(new, Call):
            if old.name != new.name:
                return False
            if old.name == ARRAY and _is_array(old) and _is_array(new):
                return self._arrays(old, new)
            return self._items(old.args, new.args) and self._items(old.state, new.state)
        if isinstance(old, (tuple, list)) and isinstance(new, (tuple, list)):
            one, other = cast("object", old), cast("object", new)
            return isinstance(one, list) is isinstance(other, list) and self._items(items_of(one), items_of(other))
        if isinstance(old, float) and isinstance(new, float):
            if repr(old) == repr(new):
                return True
            self._is_exact = False
            return self._tolerance.is_close(old, new)
        return _is_same_plain(*both)

    def _known(self, old: int, new: int) -> bool | None:
        """Whether they stand in each other's place, so that both sides share alike; None: not met yet."""
        partner = self._partners.get((False, old)), self._partners.get((True, new))
        if partner == (None, None):
            self._partners |= {(False, old): new, (True, new): old}
            return None
        return partner == (new, old)

    def _items(self, old: Sequence[object], new: Sequence[object]) -> bool:
        return len(old) == len(new) and all(map(self._are_equal, old, new))

    def _arrays(self, old: Call, new: Call) -> bool:
        if old.args[1:] != new.args[1:]:
            return False
        was, now = old.args[0], new.args[0]
        if not isinstance(was, Buffer) or not isinstance(now, Buffer):
            return was == now
        blobs = self._before.blobs[was.position], self._after.blobs[now.position]
        if blobs[0] == blobs[1]:
            return True
        code = _FLOATS.get(str(old.args[1]))
        if code is None or blobs[0].size != blobs[1].size:
            return False
        sides = [
            bytes(read_blob(side.repo.objects, blob))
            for side, blob in zip((self._before, self._after), blobs, strict=True)
        ]
        if sides[0] != sides[1]:
            self._is_exact = False
        return _are_close(sides[0], sides[1], code, self._tolerance)


def _are_close(old: bytes, new: bytes, code: str, tolerance: Tolerance) -> bool:
    try:
        import numpy as np
    except ImportError:
        one, other = (memoryview(side).cast("d") if code == "d" else memoryview(side).cast("f") for side in (old, new))
        return all(map(tolerance.is_close, one, other))
    arrays = [np.frombuffer(side, dtype=f"<{'f8' if code == 'd' else 'f4'}") for side in (old, new)]
    return tolerance.compare_arrays(arrays[0], arrays[1])[0]


def _kind(found: object) -> object:
    return type(found)


def _is_same_plain(old: object, new: object) -> bool:
    return _kind(old) is _kind(new) and bool(old == new)


def _is_array(found: object) -> bool:
    return isinstance(found, Call) and found.name == ARRAY and len(found.args) > 3


# -- what cells showed
#
# Either side becomes a list of what was shown, in order: what printed text comes to on a screen, and of each display its
# forms. Ids that a library makes up are no content where it puts them; in any other text they are.

# As `repr` writes it: `<f at 0x7f…>`, `<code object f at 0x7f…, line 1>`; "..." where pandas cuts it off.
_ADDRESS: Final = re.compile(
    r"(?<= at )0x[0-9a-fA-F]{6,16}(?=(?:[>;,:) ]|&gt;)[^\n]*(?:>|&gt;|\.\.\.)|(?:>|&gt;|\.\.\.))"
)
_BRACKET: Final = re.compile(r"(?:<|&lt;)(?=[A-Za-z_])|(?<![-=])(?:>|&gt;)")
# The line that tqdm writes: how long it took and how fast it was are others in each run.
_PROGRESS: Final = re.compile(r"(\d{1,3}%\|[^|\n]*\| *[^|\s\[]+/[^|\s\[]+ )\[[^\]\n]*(?:<|&lt;)[^\]\n]*\]")
_INPUT: Final = re.compile(r"ipython-input-\d+-[0-9a-f]+|/tmp/ipykernel_\d+/\d+\.py")
_ANSI: Final = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# Ids that libraries give elements of a page: pandas a styled table, scikit-learn an estimator, others a UUID.
_MADE_UP: Final = re.compile(
    r"\b(?:T_[0-9a-f]{5}(?![0-9a-f])|sk-(?:container|estimator)-id-\d+|[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12})"
)
_MARKUP: Final = re.compile(r"<(style|script)\b.*?</\1\s*>|<[a-zA-Z/][^<>]*>", re.DOTALL | re.IGNORECASE)
_ID: Final = re.compile(r"""\bid\s*=\s*["']?([^"'\s>]+)""")
_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?(?![\w.])")
_OURS: Final = "application/vnd.agent-kernel."
_VIEW: Final = "application/vnd.jupyter.widget-view+json"  # of a widget: it names a model, whose state nobody kept
_HAS_STATE: Final = re.compile(r"(?!.*\bOutput\()[\w.]+\(.*\)$| *\d+%\|")  # the text of a widget that has its state
_PICTURES: Final = ("image/", "application/pdf")


@dataclass(frozen=True)
class RecordedOutput:
    """One thing that a cell showed. `forms`: by MIME type, text or, of pictures, bytes."""

    kind: str  # stdout, stderr, display, error, gap
    forms: dict[str, str | bytes] = field(default_factory=dict[str, "str | bytes"])


def outputs_of_commit(repo: Repository, commit: Commit) -> list[RecordedOutput] | None:
    """What the commit's cell showed; None where that was not kept."""
    if commit.cell is None:
        return None
    if commit.cell.outputs is None:
        return []
    found: Outputs = read_outputs(repo.objects, commit.cell.outputs)
    outputs: list[RecordedOutput] = []
    for output in found.outputs:
        if output.kind == "stream":
            outputs.append(RecordedOutput(output.name or "stdout", {"text/plain": output.text}))
        elif output.kind == "error":
            if output.name != TaskEnd.__name__:  # a step of an agent ended its run
                outputs.append(RecordedOutput("error", {"text/plain": f"{output.name}: {output.text}"}))
        elif output.kind == "gap":
            outputs.append(RecordedOutput("gap"))
        else:
            forms: dict[str, str | bytes] = {}
            for representation in output.representations:
                content = read_representation(repo.objects, representation)
                if content is not None:
                    forms[representation.mime] = (
                        content if representation.form == "bytes" else content.decode("utf-8", "replace")
                    )
            outputs.append(RecordedOutput("display", forms))
    return _joined(outputs)


def outputs_of_file(saved: Sequence[SavedOutput]) -> list[RecordedOutput]:
    """The same of outputs in a notebook's file."""
    outputs: list[RecordedOutput] = []
    for output in saved:
        if output.kind == "stream":
            outputs.append(RecordedOutput(output.name or "stdout", {"text/plain": output.text}))
        elif output.kind == "error":
            outputs.append(RecordedOutput("error", {"text/plain": f"{output.name}: {output.text}"}))
        else:
            outputs.append(
                RecordedOutput(
                    "display", {mime: _content(mime, value) for mime, value in output.representations.items()}
                )
            )
    return _joined(outputs)


def _content(mime: str, value: object) -> str | bytes:
    if isinstance(value, list):
        value = "".join(map(str, cast("list[object]", value)))
    if not isinstance(value, str):
        return json.dumps(value)
    if mime.startswith(_PICTURES) and not mime.startswith("image/svg"):
        try:
            return base64.b64decode(value)
        except ValueError:
            return value
    return value


def _joined(outputs: Iterable[RecordedOutput]) -> list[RecordedOutput]:
    """Text of the same stream in one piece, as it stands on a screen; what this package shows of the history is left out."""
    found: list[RecordedOutput] = []
    for one in outputs:
        forms = one.forms
        if any(mime.startswith(_OURS) for mime in forms) or (one.kind == "display" and not forms):
            continue
        if found and one.kind in ("stdout", "stderr") and found[-1].kind == one.kind:
            text = cast("str", found[-1].forms["text/plain"]) + cast("str", forms["text/plain"])
            found[-1] = RecordedOutput(one.kind, {"text/plain": text})
        else:
            found.append(replace(one, forms=forms))
    return [
        replace(one, forms={mime: normalise(mime, content) for mime, content in one.forms.items()}) for one in found
    ]


def normalise(mime: str, content: str | bytes) -> str | bytes:
    """Without what is another one in each run and says nothing."""
    if isinstance(content, bytes):
        return content
    if mime.endswith("json"):
        with suppress(ValueError):
            content = json.dumps(json.loads(content), sort_keys=True)
    text = "\n".join(_on_screen(line) for line in _ANSI.sub("", content.replace("\r\n", "\n")).split("\n"))
    text = _INPUT.sub("<cell>", _ADDRESS.sub(_without_address, text))
    text = _PROGRESS.sub(r"\1[…]", text)
    return (_without_ids(text) if mime == "text/html" else text).rstrip("\n")


def _without_address(found: re.Match[str]) -> str:
    """Within the brackets of a `repr` alone, which stand on one line."""
    before = found.string[found.string.rfind("\n", 0, found.start()) + 1 : found.start()]
    open_now = 0
    for bracket in _BRACKET.finditer(before):
        open_now = open_now + 1 if bracket[0] in ("<", "&lt;") else max(open_now - 1, 0)
    return "0x…" if open_now else found[0]


def _without_ids(html: str) -> str:
    """Numbered in their order, in tags, styles and scripts: the text between them is content."""
    declared = (found for tag in _MARKUP.finditer(html) for id in _ID.findall(tag[0]) for found in _MADE_UP.findall(id))
    names = {id: f"id-{number}" for number, id in enumerate(dict.fromkeys(declared))}

    def rename(found: re.Match[str]) -> str:
        return names.get(found[0], found[0])

    return _MARKUP.sub(lambda tag: _MADE_UP.sub(rename, tag[0]), html) if names else html


def _on_screen(line: str) -> str:
    """What stays of a line whose writer went back to its beginning, as progress bars do."""
    return line.rstrip("\r").rpartition("\r")[2].rstrip()


def compare_outputs(
    old: Sequence[RecordedOutput], new: Sequence[RecordedOutput], tolerance: Tolerance, source: str = ""
) -> Verdict:
    """How what a cell showed came out. `source`: the cell's code, whose secrets stay hidden."""
    if any(one.kind == "gap" for one in (*old, *new)):
        return Verdict("not comparable", reason="not all of the output was kept")
    # Which stream was written first is up to buffers; in each of them the order counts.
    outcomes: list[Outcome] = []
    lines: list[str] = []
    for kinds in (("stdout",), ("stderr",), ("display", "error")):
        sides = [[one for one in side if one.kind in kinds] for side in (old, new)]
        if kinds != ("display", "error"):
            sides = [_whole(side) for side in sides]
        for at in range(max(map(len, sides))):
            was, now = (side[at] if at < len(side) else None for side in sides)
            outcome, found_lines = _compare_one(was, now, tolerance)
            outcomes.append(outcome)
            lines += found_lines
    _, hidden = previews.mask_code(source)
    masked = [previews.mask_text(clean_lines(line), hidden) for line in lines]
    return Verdict(worst(outcomes), _few(masked))


def _whole(side: Sequence[RecordedOutput]) -> list[RecordedOutput]:
    text = "\n".join(cast("str", one.forms["text/plain"]) for one in side)
    return [RecordedOutput(side[0].kind, {"text/plain": text})] if text else []


def _compare_one(
    old: RecordedOutput | None, new: RecordedOutput | None, tolerance: Tolerance
) -> tuple[Outcome, list[str]]:
    if old is None or new is None:
        one = cast("RecordedOutput", old or new)
        return "different", [f"{'+' if old is None else '−'} {line}" for line in _lines(one)[:2]]
    if old.kind != new.kind:
        return "different", [f"− {_lines(old)[0]}", f"+ {_lines(new)[0]}"]
    outcomes: list[Outcome] = []
    lines: list[str] = []
    for mime in dict.fromkeys((*old.forms, *new.forms)):
        if mime == _VIEW and mime in old.forms and mime in new.forms and _HAS_STATE.match(_lines(old)[0]):
            continue
        outcome, found_lines = _compare_form(mime, old.forms.get(mime), new.forms.get(mime), tolerance)
        outcomes.append(outcome)
        if outcome != "same" and not lines:
            lines = found_lines
    return worst(outcomes), lines


def _compare_form(
    mime: str, old: str | bytes | None, new: str | bytes | None, tolerance: Tolerance
) -> tuple[Outcome, list[str]]:
    if old == new:
        return "same", []
    if old is None or new is None:
        return "different", [f"{'+' if old is None else '−'} {mime}"]
    if mime == _VIEW:
        return "not comparable", ["the state of a widget is not kept"]
    if mime.startswith(_PICTURES) or isinstance(old, bytes) or isinstance(new, bytes):
        return "different", [f"different picture ({mime}, {len(old):,} → {len(new):,} bytes)"]
    if _NUMBER.sub("#", old) == _NUMBER.sub("#", new):
        numbers = zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
        if all(one == other or _are_close_texts(one, other, tolerance) for one, other in numbers):
            return "equal within tolerance", []
    return "different", list(_first_difference(old, new)) if mime != "text/html" else [f"different {mime}"]


def _are_close_texts(old: str, new: str, tolerance: Tolerance) -> bool:
    """Integers are exact."""
    return (
        not old.lstrip("+-").isdigit() and not new.lstrip("+-").isdigit() and tolerance.is_close(float(old), float(new))
    )


def _first_difference(old: str, new: str) -> Iterator[str]:
    """The first lines that are not the same, of both sides."""
    sides = old.split("\n"), new.split("\n")
    at = next((at for at, (one, other) in enumerate(zip(*sides, strict=False)) if one != other), min(map(len, sides)))
    for sign, side in zip("−+", sides, strict=True):
        yield from (f"{sign} {line}" for line in side[at : at + 2])


def _lines(one: RecordedOutput) -> list[str]:
    text = one.forms.get("text/plain")
    joined = text if isinstance(text, str) and text else ", ".join(one.forms) or one.kind
    return joined.split("\n")
