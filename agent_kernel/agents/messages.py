"""What a model is sent: the conversation, rebuilt from events, the earlier runs that it remembers, and the namespace, redacted.

Nothing of a conversation is kept but the events, so it is the same in every process. A run's own messages are followed
by nothing but more of them: what was sent once stays as it was sent, and prompt caches stay warm.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from weakref import WeakSet

import msgspec

from agent_kernel.agents.events import (
    Action,
    ApprovalRequested,
    Clarify,
    Compaction,
    Event,
    Fail,
    Output,
    Resumed,
    Retry,
    Rewound,
    StepStart,
    Success,
    TaskStart,
    TryStart,
)
from agent_kernel.agents.models import CAME, AssistantMessage, Message, ToolResult, UserMessage
from agent_kernel.repository import hex_of
from agent_kernel.session.history import line_to
from agent_kernel.values import previews
from agent_kernel.values.previews import Column, Preview
from agent_kernel.values.previews.redaction import is_secret_under, mask_code
from agent_kernel.values.redacted_values import SHORTEST, Reader, RedactedNumbers, RedactedTexts, spellings

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.repository import Change, ObjectId
    from agent_kernel.session.snapshot import Repository


# -- redaction: what a model is sent lacks the values of hidden names, and those whose names say that they are secrets
#
# Previews mask a value where its name stands beside it. Here the values themselves are learnt, so that they are masked
# wherever they turn up: printed alone, in an error's text, in a result. What is learnt are texts and numbers of four
# characters and more, from variables, entries, attributes and columns, and from the environment. What a reader turns back
# without a tool (base64, hex, escapes, characters one by one) is found in what is emitted (`values.encodings`). A value that
# code has enciphered, computed with or cut to pieces is not known again; nor is one that code made and threw away within
# one step, unless its own characters give it away.

HIDDEN: Final = "(a hidden variable)"
_TOO_LARGE: Final = "(withheld: a hidden variable is too large to search, so this output may contain its values)"
_CLOSED: Final = "(withheld: a hidden variable cannot be read, so this output may contain its values)"
_MOST_OF_HIDDEN: Final = 300_000  # objects of one hidden variable
_MOST_OF_OTHERS: Final = 20_000  # objects of all others, in which secrets are searched for

# Colours and other escape sequences, and what else a terminal would act on; line ends and tabs stay.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORD = re.compile(r"[^\W\d]\w*")
_ENVIRON = re.compile(r"environ\(\{.*?\}\)", re.DOTALL)


def without_controls(text: str) -> str:
    """The text without what a terminal would act on."""
    return _CONTROL.sub("", text)


class Redactor:
    """What must not be sent of one namespace, as far as it was seen so far.

    Args:
        hidden: says which names no model is told of.
    """

    def __init__(self, hidden: Callable[[str], bool]) -> None:
        self._hidden = hidden
        self._texts = RedactedTexts()
        self._numbers = RedactedNumbers()
        self._names: set[str] = set()
        # Hidden names, and what is said of what is shown as long as they are there.
        self._unreadable: dict[str, str] = {}
        self._environment = _Environment({})
        self._words_of_cells: dict[str, frozenset[str]] = {}
        self._cells_read: set[tuple[str, frozenset[str]]] = set()  # each with the hidden names in it
        self._above: WeakSet[Redactor] = WeakSet()  # a notebook's own outlives the runs that begin others in it

    def include(self, other: Redactor) -> None:
        """Mask also what another one does, as long as that is there: the one of the run that began this one's."""
        if not other._includes(self):
            self._above.add(other)

    def _includes(self, other: Redactor) -> bool:
        return self is other or any(one._includes(other) for one in list(self._above))

    @property
    def is_complete(self) -> bool:
        """Whether all of each hidden variable is known, so that none of it is left in a text that is masked."""
        return not self._unreadable and all(one.is_complete for one in list(self._above))

    @property
    def withheld(self) -> str:
        """What stands for a text that may have hidden values."""
        return next(filter(None, (*self._unreadable.values(), *(one.withheld for one in list(self._above)))), "")

    def learn(self, namespace: Mapping[str, object], names: Iterable[str]) -> None:
        """Look at these variables, as they are now: each hidden one by itself, then all others for secrets."""
        names = list(names)
        hidden = [name for name in names if self._hidden(name)]
        self._names.update(hidden)
        self._unreadable = {
            name: why for name, why in self._unreadable.items() if name in namespace and self._hidden(name)
        }
        for name in hidden:
            if name in namespace:
                reader = Reader(self._texts, self._numbers, _MOST_OF_HIDDEN)
                self._unreadable.pop(name, None)
                if not reader.read([(namespace[name], True)]):
                    self._unreadable[name] = _TOO_LARGE
                elif reader.has_closed:
                    self._unreadable[name] = _CLOSED
        self._learn_cells(namespace)
        others = [name for name in names if name in namespace and name not in self._names]
        reader = Reader(self._texts, self._numbers, _MOST_OF_OTHERS)
        reader.read([(namespace[name], is_secret_under(name, namespace[name])) for name in others])

    def _learn_cells(self, namespace: Mapping[str, object]) -> None:
        """What the notebook's cells wrote down for hidden names stays in `In`, also once the variable has another value."""
        cells = namespace.get("In")
        if type(cells) is not list:
            return
        texts = {cell for cell in cast("list[object]", cells) if type(cell) is str}
        for cell in texts - self._words_of_cells.keys():
            self._words_of_cells[cell] = frozenset(_WORD.findall(cell))
        words = frozenset[str]().union(*self._words_of_cells.values())
        names = frozenset(filter(self._hidden, words))
        for cell in texts:
            key = cell, names & self._words_of_cells[cell]
            if key[1] and key not in self._cells_read:
                self._cells_read.add(key)
                self._texts.update(face for one in mask_code(*key)[1] for face in spellings(one))

    def learn_environment(self) -> None:
        """Look at the environment: what is a secret there is masked everywhere, any other value beside its name."""
        now = dict(os.environ)
        if now != self._environment.variables:
            self._environment = _Environment(now)
            self._texts.update(self._environment.secrets)

    def without_environment(self, text: str) -> str:
        """The text without variables of the environment, and nothing else masked: what is kept on this machine."""
        return self._environment.redact(text)

    def knows(self, word: str) -> bool:
        """Whether a word is itself one of the texts that are masked, or gives one: a variable may be called as a password is."""
        is_known = word in self._texts or self._texts.is_encoded(word) or self._numbers.are_in(word)
        return is_known or any(one.knows(word) for one in list(self._above))

    def redact(self, text: str, *, names: bool = True) -> str:
        """The text without all that. `names`: also without the names that are hidden, as no model is told of them."""
        if not text:
            return text
        for above in list(self._above):
            text = above.redact(text, names=names)
        text = self._texts.mask_encoded(without_controls(text))
        text = self._numbers.mask(self._texts.mask(text))
        text = previews.mask_text(self._environment.redact(text))
        if names and self._names:
            named = "|".join(map(re.escape, sorted(self._names)))
            text = re.sub(rf"\b(?:{named})\b", HIDDEN, text)
        return text


class _Environment:
    """The environment's variables as they may stand in a text: a listing of all, each beside its name, secrets alone."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables
        searched = {name: value for name, value in variables.items() if len(value) >= SHORTEST}
        self._values = {
            name: sorted({value, repr(value)[1:-1]}, key=len, reverse=True) for name, value in searched.items()
        }
        named = "|".join(map(re.escape, sorted(searched, key=len, reverse=True)))
        # `NAME=value`, `'NAME': 'value'`, `('NAME', 'value')`, and `NAME    value` of a table.
        self._pairs = re.compile(rf"""\b({named})\b['"]?\s*[:=,]?\s*['"]?""") if named else None
        self.secrets = {
            face for name, value in searched.items() if _is_secret(name, value) for face in spellings(value)
        }
        self._texts = RedactedTexts(self.secrets)

    def redact(self, text: str) -> str:
        return self._without_pairs(self._texts.mask(_ENVIRON.sub(f"environ({previews.MASK})", text)))

    def _without_pairs(self, text: str) -> str:
        if self._pairs is None:
            return text
        pieces: list[str] = []
        end = 0
        for found in self._pairs.finditer(text):
            value = next((one for one in self._values[found[1]] if text.startswith(one, found.end())), "")
            if value and found.start() >= end:
                pieces += [text[end : found.end()], previews.MASK]
                end = found.end() + len(value)
        return "".join([*pieces, text[end:]])


def _is_secret(name: str, value: str) -> bool:
    """Whether a variable of the environment is one by its name or its content.

    The path of a file or folder that exists is no secret, also where the name says so (`PWD`, `…_TOKEN_FILE`).
    """
    is_path = Path(value).is_absolute() and Path(value).exists()
    return previews.holds_a_secret(value) or (previews.names_a_secret(name) and not is_path)


# -- the conversation, rebuilt from events, the earlier runs that it remembers, and the namespace


UNKNOWN = (
    "It is not known whether this step ran to its end: the process died while it ran. Look at the state before you "
    "repeat anything that reaches outside."
)

STOPPED = "The person interrupted this step. What it had changed by then is kept."
UNKNOWN_TRY = (
    "The process died while this step was tried on a fork of it: no variable was changed, but it is not known what it did "
    "outside. Look before you repeat anything that reaches outside."
)
STOPPED_TRY = (
    "The person interrupted this step while it was tried on a fork: no variable was changed, but what it had done outside "
    "by then stays."
)


def messages_of(events: Iterable[Event], earlier: Iterable[Message] = ()) -> list[Message]:
    """What was said in a run so far, behind what was said in the runs that it goes on with.

    A call that nothing came of yet stays open.
    """
    found = list(earlier)
    answer = AssistantMessage()  # what it answered last
    is_fenced = False  # and whether it had called no tool
    events = list(events)
    undone = next((event.steps for event in reversed(events) if isinstance(event, Rewound)), ())
    for event in events:
        if event.step is not None and event.step in undone:
            continue
        match event:
            case TaskStart(prompt=prompt):
                found.append(UserMessage(prompt))
            case Action():
                is_fenced = bool(event.said)
                words, code, call = (event.said, None, "") if is_fenced else (event.text, event.code, event.call)
                answer = AssistantMessage(words, code, call, event.response)
                found.append(answer)
            case Output(sent=sent):
                came = UserMessage(f"{CAME}{sent}") if is_fenced else ToolResult(answer.call, sent)
                found.insert(_index_after(found, answer), came)
            case Retry(sent=sent) | Resumed(sent=sent) if sent:
                found.append(UserMessage(sent))
            case Compaction(dropped=dropped, sent=sent):
                found[:dropped] = [UserMessage(sent)] if sent else []
            case _:
                pass
    return found


def _index_after(messages: list[Message], answer: AssistantMessage) -> int:
    """Where what came of a call stands: providers want it right behind the call, whatever was said meanwhile."""
    found = (at + 1 for at in range(len(messages) - 1, -1, -1) if messages[at] is answer)
    return next(found, len(messages))


def closing_messages(events: Sequence[Event]) -> list[Message]:
    """How a run ended, in one message, for the runs that come after it."""
    last = events[-1] if events else None
    match last:
        case Success(result=result):
            text = f"(done: {result})" if result else "(done)"
        case Fail(reason=reason):
            text = f"(failed: {reason})"
        case Clarify(question=question):
            text = question
        case _:
            text = "(stopped before it was done)"
    return [AssistantMessage(text)]


def messages_for_later_runs(events: Sequence[Event]) -> list[Message]:
    """What runs that come after this one are told of it: all that was said, and how it ended."""
    found = messages_of([event for event in events if not isinstance(event, Compaction)])
    last = found[-1]
    if isinstance(last, AssistantMessage) and (last.code is not None or open_action(events)[0] is not None):
        found.pop()  # nothing came of it, and a call must not stay open
    answered = isinstance(events[-1], Success) and isinstance(found[-1], AssistantMessage) and found[-1].code is None
    return found if answered else [*found, *closing_messages(events)]


def open_action(events: Sequence[Event]) -> tuple[Action | None, list[Event]]:
    """The step of which no outcome is known yet, and the events that came behind it."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if isinstance(event, Output):
            return None, []
        if isinstance(event, Action):
            return (event, list(events[at + 1 :])) if event.code is not None else (None, [])
    return None, []


def start_event(since: Sequence[Event]) -> StepStart | TryStart | None:
    """How the code of a step began of which no outcome is known: it may have run, here or on a fork."""
    for event in reversed(since):
        if isinstance(event, ApprovalRequested):
            return None  # a try has ended by then, and what was decided has not begun
        if isinstance(event, StepStart | TryStart):
            return event
    return None


def _count_left_out(messages: Sequence[Message]) -> int:
    """How many of the oldest messages do not fit; those after them begin with what the model is told."""
    fit, room = 0, MOST_CHARS
    for count, message in enumerate(reversed(messages), 1):
        # A signed answer is sent as it came, with what was thought.
        room -= max(
            len(message.text) + len(getattr(message, "code", None) or ""), len(getattr(message, "response", ""))
        )
        if room < 0:
            break
        if isinstance(message, UserMessage):
            fit = count
    return len(messages) - fit


# -- which runs an agent remembers: those whose steps lie on the line of history to where it is
#
# So the conversation goes back and forth with the variables, and nothing has to be rewound. The line to a commit is the
# line to its first parent and the commit's own step; where a commit went back to an older one, the line to that; where it
# names another one for the conversation alone (`chat`), the line to that. A run without any step belongs to the commit at
# which it was begun. A run of which later steps were taken back is remembered as far as its steps are on the line.

MOST_CHARS: Final = 60_000  # of earlier runs that a model is sent again
_LEFT_OUT = "(Earlier parts of this conversation are left out.)"


def find_remembered_runs(context: ExecutionContext, namespace: str) -> tuple[tuple[str, int], ...]:
    """The runs that an agent remembers here, oldest first, each with the number of its last event that counts.

    Of many, the oldest that could not be told anyway are left out. After a restart those of before it are left out as
    well, as long as their variables are not in memory: they tell of what is not there.
    """
    if context.session is None:
        return ()
    restarted_at = context.session.restarted_at
    mine = {start.run: start for start in context.event_store.starts() if start.namespace == namespace}
    if not mine:
        return ()
    since_ns = min(start.time_ns for start in mine.values())
    reached: dict[str, int] = {}
    line: set[str] = set()
    for at, commit, is_own in line_to(context.session.repo, context.session.head, since_ns):
        if restarted_at is not None and at == hex_of(restarted_at):
            break
        line.add(at)
        if is_own and commit is not None and commit.run in mine:
            reached[commit.run] = max(reached.get(commit.run, 0), commit.step or 0)
    found: list[tuple[str, int]] = []
    room = MOST_CHARS
    for run in sorted(mine, key=lambda run: mine[run].time_ns, reverse=True):
        if run not in reached and mine[run].before not in line:
            continue
        events = _as_far_as(list(context.event_store.of(run)), reached.get(run))
        if events:
            found.insert(0, (run, events[-1].seq))
            room -= sum(len(message.text) for message in messages_for_later_runs(events))
        if room < 0:
            break
    return tuple(found)


def find_known_commits(repo: Repository, head: ObjectId | None, since_ns: int) -> set[str]:
    """The commits, in hex digits, that a run knows of which goes on at a commit: those on its line, and what was merged there."""
    found: set[str] = set()
    heads = [head]
    while heads:
        for at, commit, is_own in line_to(repo, heads.pop(), since_ns):
            if at in found:
                break
            found.add(at)
            if commit is not None and is_own:
                heads += commit.parents[1:]
    return found


def find_stepless_runs(repo: Repository, event_store: EventStore, head: ObjectId | None) -> dict[str, str]:
    """The runs without any step that are remembered at a commit, by the commit at which each was begun; of several, the last."""
    starts = [start for start in event_store.starts() if not start.parent_run and start.prompt]
    if not starts:
        return {}
    line = list(line_to(repo, head, min(start.time_ns for start in starts) - 1))
    stepped = {commit.run for _, commit, _ in line if commit is not None}
    reachable = {at for at, _, _ in line} | {starts[0].before}
    return {
        start.before: start.run
        for start in starts
        if start.run not in stepped and start.before in reachable and _as_far_as(list(event_store.of(start.run)), None)
    }


def messages(event_store: EventStore, runs: Iterable[tuple[str, int]]) -> list[Message]:
    """What was said in these runs, each up to an event."""
    found: list[Message] = []
    for run, last in runs:
        events = [event for event in event_store.of(run) if event.seq <= last]
        if events and isinstance(events[0], TaskStart):
            found += messages_for_later_runs(events)
    return found


def compact(earlier: list[Message]) -> Compaction | None:
    """What says that of the earlier conversation only the end is told, where it is too long."""
    dropped = _count_left_out(earlier)
    return Compaction(dropped=dropped, sent=_LEFT_OUT) if dropped else None


def _as_far_as(events: list[Event], step: int | None) -> list[Event]:
    """The events of a run up to what followed on one of its steps; without one, of a run that has none."""
    if step is None:
        return [] if any(isinstance(event, StepStart) for event in events) else events
    at = next((at for at, event in enumerate(events) if event.step is not None and event.step > step), len(events))
    return events[:at]


# -- what a model is told of the namespace: names, types, shapes and short values, as much as a budget of tokens allows
#
# It is told once, as the run begins; afterwards only what each step changed. So what was sent once stays as it was sent.
# Nothing of a value's own code runs for it: what is told are previews. What looks like a secret is masked, and a hidden
# name is not told at all (`redaction`).

CHARS_A_TOKEN: Final = 4
_MOST_CHANGES: Final = 20  # of a step
_NOTE_CHARS: Final = 44  # of the note that something was left out
POLICIES: Final = ("names", "schema", "values")

INSTRUCTIONS = """\
You work in a live Python notebook, together with the person whose notebook it is. You act by calling run_python with
code, which runs in the notebook's own namespace: variables stay from step to step, and those of the person are there.
What the code prints, its last expression, and what it changed come back to you. Each step is saved in the notebook's
history, so the variables can be rolled back; files, processes and messages to others cannot.
End the task from within the code:
  {task}.success(value)       when it is done; value is the result{returns}
  {task}.fail(reason)         when it cannot be done
  {task}.clarify(question)    when only the person can decide
Work in small steps, look at data before you change it, and do not print more than you need to see."""


def instructions(returns: str, *, primer: str = "", is_task_taken: bool = False, extra: Iterable[str] = ()) -> str:
    """What the model is told of its place.

    Args:
        returns: the type that the result must have; "": any.
        is_task_taken: the person has a variable called `task`.
    """
    of = f", and must be {returns}" if returns else ""
    text = INSTRUCTIONS.format(task="agent_task" if is_task_taken else "task", returns=of)
    return "\n\n".join(filter(None, (primer.strip(), text, *extra)))


def tokens_of(text: str) -> int:
    """About as many tokens as the text takes."""
    return -(-len(text) // CHARS_A_TOKEN)


def value_text(summary: Preview, policy: str) -> str:
    """One line about a value: `values` shows what is in it, `schema` only what it is made of, `names` nothing."""
    if policy == "names":
        return ""
    if policy == "schema":
        text = summary.text if summary.kind in ("function", "class", "module") else ""
        columns = summary.columns if summary.kind == "frame" else tuple(Column(one.name, "") for one in summary.columns)
        summary = msgspec.structs.replace(summary, text=text, rows=(), columns=columns)
    return previews.line(summary).strip()


def describe(
    names: Iterable[str],
    summary: Callable[[str], str],
    *,
    task: str = "",
    recent: Collection[str] = (),
    room: int = 8_000,
) -> str:
    """The namespace in lines: what the task mentions first, then what changed last, then the rest, by name.

    Args:
        names: those that may be told.
        summary: a line about one of them; "": its name is enough.
        recent: names that changed lately, the latest first.
        room: characters that it may take; a line that says how many there are is the least.
    """
    order = _sort_names(list(names), set(_WORD.findall(task)), list(recent))
    if not order:
        return "The notebook has no variables yet."
    lines = ["The notebook's variables:"]
    room -= len(lines[0])
    for at, name in enumerate(order):
        line = f"  {name}: {text}" if (text := summary(name)) else f"  {name}"
        rest = len(order) - at - 1
        if len(line) + 1 + (len(_more(rest)) + 1 if rest else 0) > room:
            lines.append(_list_rest(order[at:], room))
            break
        room -= len(line) + 1
        lines.append(line)
    return "\n".join(lines)


def _sort_names(names: list[str], mentioned: set[str], recent: list[str]) -> list[str]:
    rank = {name: at for at, name in enumerate(recent)}
    return sorted(
        names, key=lambda name: (name not in mentioned, rank.get(name, len(rank)), name.startswith("_"), name)
    )


def _more(many: int) -> str:
    return f"  and {many:,} more"


def _list_rest(names: list[str], room: int) -> str:
    """The rest by name alone, as far as there is room."""
    text = ""
    for at, name in enumerate(names):
        longer = f"{text}, {name}" if text else f"  and {name}"
        rest = len(names) - at - 1
        if len(longer) + (len(_more(rest)) if rest else 0) + 1 > room:
            return f"{text}{_more(rest + 1)[1:]}" if text else _more(len(names))
        text = longer
    return text


def change_lines(changed: Iterable[Change], summary: Callable[[str], str]) -> list[str]:
    """What a step changed, a line each."""
    found = list(changed)
    texts = ["" if one.how == "-" else summary(one.name) for one in found[:_MOST_CHANGES]]
    lines = [f"  {one.how} {one.name}{f': {text}' if text else ''}" for one, text in zip(found, texts, strict=False)]
    return [*lines, f"  and {len(found) - _MOST_CHANGES} more"] if len(found) > _MOST_CHANGES else lines


def redact(text: str, most_chars: int | None = None) -> str:
    """A text of nobody's namespace as it may be shown: without secrets, or what a terminal acts on, and not longer than that."""
    text = previews.mask_text(without_controls(text))
    return text if most_chars is None else cut(text, most_chars)


def cut(text: str, most_chars: int) -> str:
    """The text, no longer than so many characters: of a longer one the middle is left out."""
    if len(text) <= most_chars:
        return text
    room = max(0, most_chars - _NOTE_CHARS)
    note = f"\n[… {len(text) - room:,} characters left out …]\n"
    head, tail = room * 2 // 3, room - room * 2 // 3
    return f"{text[:head]}{note}{text[len(text) - tail :]}"[:most_chars]
