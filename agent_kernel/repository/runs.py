"""What upkeep does to the events of agents' runs, which lie beside the history and are no part of it.

The events belong to `agent_kernel.agents`; here they are msgpack `[schema, kind, fields]`, of which only what the history
has to know is known: which commits a field names, what is code, what is text. An event that cannot be read is left as it
is, and `verify` names it. Numbers of events never change: a run that goes on finds the next one behind the last.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.repository.commits import ObjectId, hex_of
from agent_kernel.repository.refs import Holder

if TYPE_CHECKING:
    from agent_kernel.repository.refs import Move
    from agent_kernel.repository.repository import Repository
    from agent_kernel.repository.rewrite import Redaction

EVENTS: Final = b"e/"
HOLDS: Final = b"a/"  # who drives a run, by its id
GONE: Final = "(forgotten)"
_CODE: Final = ("code",)
# Text in which a value may stand: what a step showed, said or ended with, and what the model made of it.
_SHOWN: Final = ("sent", "message", "result", "reason", "question", "target", "thinking", "text", "output")
_TASK: Final = ("task", "prompt", "instructions")
_BATCH: Final = 500
_LEAST: Final = 6  # characters of a value that are looked for; fewer are part of too much else
_LEAST_LINE: Final = 16
_TEXT: Final = re.compile(
    r"(?:str|bytes)(?: of [\d,]+)? (?P<literal>b?(?P<quote>['\"])(?P<text>.*?)(?:(?P=quote)|(?P<cut>…)))"
)
_NUMBER: Final = re.compile(r"(?:int|float) (?P<number>[-+.\w]+)")
_CONTENT: Final = re.compile(r"[\[{(].*[\w'\"]")

Fields = dict[str, Any]


class _Event(msgspec.Struct, array_like=True):
    schema: int
    kind: str
    fields: Fields


_DECODER = msgspec.msgpack.Decoder(_Event)
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def events_of(repo: Repository) -> Iterator[tuple[bytes, bytes, _Event | None]]:
    """All events with their keys and bytes; None: it cannot be read."""
    keys = list(repo.pointers.keys(EVENTS))
    for start in range(0, len(keys), _BATCH):
        for key, stored in sorted(repo.store.get_many(keys[start : start + _BATCH]).items()):
            try:
                yield key, stored, _DECODER.decode(stored)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                yield key, stored, None


def let_go(repo: Repository) -> None:
    """Forget who drove runs and is dead. Whoever goes on with one takes it over anyway."""
    for key, stored in repo.store.get_many(list(repo.pointers.keys(HOLDS))).items():
        try:
            lives = msgspec.msgpack.decode(stored, type=Holder).is_alive(repo.store)
        except msgspec.MsgspecError:
            lives = False
        if not lives:
            repo.store.swap({key: stored}, {key: None})


def count_damaged_events(repo: Repository) -> tuple[int, int, list[str]]:
    """Count the events and their bytes, and list the names of those that cannot be read."""
    count, size, damaged = 0, 0, list[str]()
    for key, stored, event in events_of(repo):
        count, size = count + 1, size + len(stored)
        if event is None:
            run, _, number = key[len(EVENTS) :].partition(b"\0")
            damaged.append(f"{run.decode('utf-8', 'replace')}/{int.from_bytes(number, 'big')}")
    return count, size, damaged


def change_events(
    repo: Repository,
    move: Move,
    places: Mapping[ObjectId, ObjectId | None],
    change: Callable[[str, Fields], None] | None = None,
) -> int:
    """Within a move, let events name the commits that take the place of those that they name.

    Args:
        change: changes the other fields of an event, given its kind.

    Returns:
        How many events `change` makes others.
    """
    known = {hex_of(old): "" if new is None else hex_of(new) for old, new in places.items() if new != old}
    changed = 0
    for key, stored, event in events_of(repo) if known or change is not None else ():
        if event is None:
            continue
        before = _ENCODER.encode(event)
        if change is not None:
            change(event.kind, event.fields)
            changed += _ENCODER.encode(event) != before
        for name in ("before", "after"):
            if event.fields.get(name) in known:
                event.fields[name] = known[event.fields[name]]
        after = _ENCODER.encode(event)
        if after != before:
            move.expected[key], move.new[key] = stored, after
    return changed


def code_of_events(repo: Repository) -> Iterator[str]:
    """All code that the models of the runs have sent, also what was never run."""
    for _, _, event in events_of(repo):
        for name in _CODE if event is not None else ():
            found = event.fields.get(name) if event is not None else None
            if isinstance(found, str) and found:
                yield found


def steps_of(repo: Repository, commits: Collection[ObjectId]) -> frozenset[tuple[str, int]]:
    """The steps of runs that these commits are."""
    found = (repo.commit_at(id) for id in commits)
    return frozenset((commit.run, commit.step or 0) for commit in found if commit.run)


class Forgetting:
    """Takes out of events what is forgotten: of steps all that they were, of variables what was told of them.

    Args:
        redaction: takes out of all text what code gave away of the variables, and with it all text that speaks of them.
    """

    def __init__(
        self,
        repo: Repository,
        names: Collection[str],
        steps: Collection[tuple[str, int]],
        redaction: Redaction | None = None,
    ) -> None:
        self._repo = repo
        self._names = frozenset(names)
        self._steps = frozenset(steps)
        self._redaction = redaction
        joined = "|".join(map(re.escape, sorted(self._names)))
        self._word = re.compile(rf"(?<![\w.])(?:{joined})\b" if joined else r"(?!)")
        # A line about a variable, as runs are told of their namespace and of what a step changed.
        self._line = re.compile(rf"(?m)^  (?:[+~] )?(?:{joined}): (.*)\n?" if joined else r"(?!)")
        self._telling = self._steps_that_tell()
        self._values = match_values(self._list_previews()) if self._names else re.compile(r"(?!)")

    def speaks_of(self) -> frozenset[str]:
        """Those of the variables that any event speaks of."""
        mentioned: set[str] = set()
        for _, _, event in events_of(self._repo):
            for text in event.fields.values() if event is not None else ():
                mentioned.update(self._word.findall(text) if isinstance(text, str) else ())
        return frozenset(mentioned & self._names)

    def _steps_that_tell(self) -> frozenset[tuple[str, int]]:
        """The steps that changed one of the variables, or whose code speaks of one."""
        found: dict[tuple[str, int], bool] = defaultdict(bool)
        for _, _, event in events_of(self._repo) if self._names else ():
            if event is None or "step" not in event.fields:
                continue
            changed = {one[1] for one in event.fields.get("changed", ()) if len(one) > 1}
            code = any(self._word.search(str(event.fields.get(name) or "")) for name in _CODE)
            found[_step(event.fields)] |= code or not changed.isdisjoint(self._names)
        return frozenset(step for step, tells in found.items() if tells)

    def _list_previews(self) -> Iterator[str]:
        """What models were told that the variables are."""
        for _, _, event in events_of(self._repo):
            fields = event.fields if event is not None else {}
            inputs: Mapping[str, object] = fields.get("inputs") or {}
            yield from (str(one[2]) for one in fields.get("changed", ()) if len(one) > 2 and one[1] in self._names)
            yield from (str(inputs[name]) for name in self._names & inputs.keys())
            for name in (*_SHOWN, *_TASK):
                yield from self._line.findall(fields[name]) if isinstance(fields.get(name), str) else ()

    def change(self, kind: str, fields: Fields) -> None:
        """Take it out of the fields of one event."""
        before = dict(fields)
        self._change(kind, fields)
        if fields.get("response") and fields != before:  # it holds in one text all that the others do
            fields["response"] = ""

    def _change(self, kind: str, fields: Fields) -> None:
        step = _step(fields)
        if step in self._steps:
            self._blank(fields, (*_CODE, *_SHOWN))
            fields["findings"] = ()
            self._unhold(fields)
            fields.update({name: () for name in ("changed", "unsaved") if name in fields})
        if not self._names:
            return
        if step in self._telling and kind != "Action":
            self._blank(fields, _SHOWN)
            self._unhold(fields)
        for name in ("changed", "unsaved"):
            if name in fields:
                fields[name] = [one for one in fields[name] if self._names.isdisjoint(one[:2])]
        if isinstance(fields.get("inputs"), dict):
            fields["inputs"] = {name: text for name, text in fields["inputs"].items() if name not in self._names}
        for name in (*_SHOWN, *_TASK):
            if isinstance(fields.get(name), str):
                fields[name] = self._line.sub("", fields[name])
        self._take_out(fields)
        if self._redaction is not None:
            self._mask(fields, self._redaction)

    def _take_out(self, fields: Fields) -> None:
        """Take out what the variables were, also where others were told to be the same, or where it was shown."""
        found = self._values
        for name in (*_SHOWN, *_TASK):
            if isinstance(fields.get(name), str):
                fields[name] = found.sub(GONE, fields[name])
        for name in ("changed", "unsaved"):
            if name in fields:
                fields[name] = [[*one[:-1], found.sub(GONE, str(one[-1]))] for one in fields[name]]
        if isinstance(fields.get("inputs"), dict):
            fields["inputs"] = {name: found.sub(GONE, input_text) for name, input_text in fields["inputs"].items()}
        if fields.get("parts"):
            fields["parts"] = [[one[0], *(found.sub(GONE, text) for text in one[1:])] for one in fields["parts"]]
        if fields.get("effects"):
            fields["effects"] = [[one[0], found.sub(GONE, str(one[1])), *one[2:]] for one in fields["effects"]]
        if isinstance(fields.get("held"), bytes) and found.search(fields["held"].decode("utf-8", "replace")):
            self._unhold(fields)

    def _unhold(self, fields: Fields) -> None:
        """Let nobody take on any more what a step did on a fork: what it gave back and showed stands in it."""
        if fields.get("held"):
            note = "what it did as it was tried is forgotten: approving runs the code again"
            fields.update(held=b"", branch="", told=note)

    def _mask(self, fields: Fields, redaction: Redaction) -> None:
        for name in _CODE:
            if isinstance(fields.get(name), str):
                fields[name] = redaction.code(fields[name])
        for name in (*_SHOWN, *_TASK):
            if isinstance(fields.get(name), str) and fields[name]:
                fields[name] = GONE if self._word.search(fields[name]) else redaction.text(fields[name])
        for name in ("changed", "unsaved"):
            if name in fields:
                fields[name] = [[*one[:-1], redaction.text(str(one[-1]))] for one in fields[name]]
        if "findings" in fields:
            fields["findings"] = [[one[0], redaction.code(str(one[1])), *one[2:]] for one in fields["findings"]]
        if "parts" in fields:
            fields["parts"] = [[one[0], *map(redaction.text, one[1:])] for one in fields["parts"]]

    def _blank(self, fields: Fields, names: Collection[str]) -> None:
        for name in names:
            if fields.get(name):
                fields[name] = f"# {GONE}" if name in _CODE else GONE
        if fields.get("parts"):
            fields["parts"] = ()


def match_values(texts: Iterable[str]) -> re.Pattern[str]:
    """What finds values in text, by what was said of them: `str 'abcdefg'`, `int 1234567`, `list of 2 int, [1, 2]`.

    Of what was cut short the rest of the line is found with it. Too little to be told from something else is left alone.
    """
    found: dict[str, None] = {}
    for line in texts:
        text = _TEXT.fullmatch(line)
        number = _NUMBER.fullmatch(line)
        if text is not None:
            for one in {text["text"], *_read(text["literal"])}:
                if len(one) >= _LEAST:
                    rest = r"[^\n]*" if text["cut"] else ""
                    found[re.escape(one) + rest] = None
        elif number is not None and len(number["number"]) >= _LEAST:
            found[rf"(?<![\w.]){re.escape(number['number'])}(?!\w)"] = None
        elif len(line) >= _LEAST_LINE and _CONTENT.search(line):
            found[re.escape(line)] = None
    longest_first = sorted(found, key=len, reverse=True)
    return re.compile("|".join(longest_first) or r"(?!)")


def _read(literal: str) -> tuple[str, ...]:
    """The text itself, where it was told with escapes."""
    import ast

    try:
        value: object = ast.literal_eval(literal)
    except (ValueError, SyntaxError):
        return ()
    return (value,) if isinstance(value, str) else ()


def _step(fields: Fields) -> tuple[str, int]:
    step = fields.get("step")
    return str(fields.get("run", "")), step if isinstance(step, int) else -1
