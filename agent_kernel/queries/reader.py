"""`Reader.ask` takes a question as data and gives the answer as data.

With it stand what may be asked, within which bounds; what all answers need; and how failures are told.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec
from blake3 import blake3

from agent_kernel.agents.approval import open_question
from agent_kernel.agents.event_log import EventStore, candidate_on, describe_temporary
from agent_kernel.commands.history import Finder, Timeline, View
from agent_kernel.errors import (
    AgentKernelError,
    AmbiguousRefError,
    DamagedObjectError,
    NewerFormatError,
    NotAStoreError,
    NotFoundError,
    RequestError,
    StoreUnavailableError,
    TooLargeError,
)
from agent_kernel.queries.listing import Colours, Listing, colours_of, lay_out, where_stopped
from agent_kernel.queries.wording import Author, Ref, shorten_line
from agent_kernel.repository import Commit, ObjectId, person
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.events import ApprovalRequested, Clarify
    from agent_kernel.session import Repository

__all__ = [
    "At",
    "Between",
    "Code",
    "Failure",
    "Listed",
    "Located",
    "Nothing",
    "OfRun",
    "OfVariable",
    "Opened",
    "Planned",
    "Query",
    "QueryContext",
    "Reader",
    "Revision",
    "Spread",
    "failure",
    "in_words",
    "read",
    "store_id",
]


# -- what may be asked: one structure for each question, with bounds, so that no question costs more than it should

Revision = Annotated[str, msgspec.Meta(min_length=1, max_length=300)]
Other = Annotated[str, msgspec.Meta(max_length=300)]  # a revision; "": nothing, as before the first commit
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=500)]
Row = Annotated[int, msgspec.Meta(ge=0, le=100_000_000)]
Text = Annotated[str, msgspec.Meta(max_length=1_000)]
Fold = Annotated[str, msgspec.Meta(max_length=80)]
Folds = Annotated[tuple[Fold, ...], msgspec.Meta(max_length=500)]
Zone = Annotated[int, msgspec.Meta(ge=-86_400, le=86_400)]  # seconds

A = TypeVar("A", bound=msgspec.Struct)


class Listed(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"start": "from"}):
    """Which rows are listed, and which of them are wanted."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0  # the reader's distance from UTC
    unfolded: Folds = ()
    start: Row = 0
    n: Count = 100


class Opened(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The first rows, with all that stands around them."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0
    unfolded: Folds = ()
    n: Count = 60


class Located(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit in a list."""

    text: Text = ""
    show: Literal["all", "named", "errors"] = "all"
    tz_s: Zone = 0
    unfolded: Folds = ()
    id: Revision


class At(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit, against its first parent or another one."""

    id: Revision
    against: Other | None = None


class One(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One commit."""

    id: Revision


class OfRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of an agent, by its full id."""

    id: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class OfVariable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One variable of one commit."""

    id: Revision
    against: Other | None = None
    name: Name


class Between(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Two commits."""

    a: Revision
    b: Revision


class Planned(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that may be done."""

    op: Literal["checkout", "rollback", "merge", "cherry_pick"]
    to: Revision


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No arguments."""


def read(op: str, args: Mapping[str, object], shape: type[A]) -> A:
    """The arguments, checked.

    Raises:
        RequestError: one is missing, unknown, of another type or out of bounds.
    """
    try:
        return msgspec.convert(args, shape)
    except msgspec.ValidationError as error:
        raise RequestError(op, in_words(error)) from None


def in_words(error: msgspec.ValidationError) -> str:
    """What is wrong with an argument, as it is told to the person who gave it.

    >>> in_words(msgspec.ValidationError("Expected `str` of length >= 1 - at `$.name`"))
    'the name is empty'
    """
    message = str(error)
    for pattern, words in _WORDS:
        if found := pattern.fullmatch(message):
            return words(found)
    return message


def _kind(found: re.Match[str]) -> str:
    return f"the {_field(found[2])} is not {_KINDS.get(found[1], found[1])}"


def _field(name: str) -> str:
    return _FIELDS.get(name, name)


_FIELDS = {
    "against": "other commit",
    "from": "first row",
    "id": "commit",
    "n": "number of rows",
    "show": "choice of rows",
    "to": "commit",
    "tz_s": "time zone",
}
_KINDS = {"str": "a text", "int": "a whole number", "bool": "true or false", "array": "a list", "object": "an object"}
_AT = r" - at `\$\.(\w+).*`"
_WORDS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(rf"Expected `str` of length >= 1{_AT}"), lambda found: f"the {_field(found[1])} is empty"),
    (
        re.compile(rf"Expected `str` of length <= (\d+){_AT}"),
        lambda found: f"the {_field(found[2])} has more than {int(found[1]):,} characters",
    ),
    (
        re.compile(rf"Expected `array` of length <= (\d+){_AT}"),
        lambda found: f"there are more than {int(found[1]):,} {found[2]}",
    ),
    (
        re.compile(rf"Expected `int` ([<>])= (-?\d+){_AT}"),
        lambda found: f"the {_field(found[3])} is {'less' if found[1] == '>' else 'more'} than {int(found[2]):,}",
    ),
    (re.compile(rf"Expected `(\w+)(?: \| null)?`, got `.*`{_AT}"), _kind),
    (re.compile(rf"Invalid enum value (.*?){_AT}"), lambda found: f"the {_field(found[2])} cannot be {found[1]}"),
    (re.compile(r"Object missing required field `(\w+)`"), lambda found: f"the {_field(found[1])} is missing"),
    (re.compile(r"Object contains unknown field `(.*)`"), lambda found: f"there is no argument {found[1]!r}"),
)


# -- the names that point at commits

_MOST_REFS = 20  # at one commit, HEAD's first


def _refs_by_commit(view: View, colours: Colours, agent_branches: Mapping[str, str]) -> dict[ObjectId, tuple[Ref, ...]]:
    """The names that point at each commit: HEAD's branch first, then branches, tags, and one label for what agents have there.

    Args:
        agent_branches: the branches that nobody named, each in words.
    """
    found: dict[ObjectId, list[Ref]] = {}
    agent_refs: dict[ObjectId, dict[str, str]] = {}
    head = view.head
    if head.commit is not None and head.branch is None:
        found[head.commit] = [Ref("head", "HEAD", True, None)]
    for name, at in sorted(view.branches.items(), key=lambda branch: (branch[0] != head.branch, branch[0])):
        if name != head.branch and name in agent_branches:
            agent_refs.setdefault(at, {})[name] = agent_branches[name]
            continue
        ref = Ref("branch", shorten_line(name, 200), name == head.branch, colours.branches[name])
        found.setdefault(at, []).append(ref)
    for name, at in sorted(view.tags.items()):
        found.setdefault(at, []).append(Ref("tag", shorten_line(name, 200), False, None))
    found = {at: refs[:_MOST_REFS] for at, refs in found.items()}
    for at, labels in agent_refs.items():
        first = next(iter(labels))
        names = shorten_line(", ".join(labels), 200)
        found.setdefault(at, []).append(
            Ref("aside", _summarize_branches(labels), False, colours.branches[first], names)
        )
    return {at: tuple(refs) for at, refs in found.items()}


def _summarize_branches(labels: Mapping[str, str]) -> str:
    """Several branches that nobody named in a few words: all of a race begin at one commit, and it has its own subject."""
    if len(labels) == 1:
        return next(iter(labels.values()))
    races = {candidate_on(name)[0] for name in labels}
    (race,) = races if len(races) == 1 else ("",)
    return f"{len(labels)} candidates of race {race}" if race else f"{len(labels)} branches of agents"


# -- what answers have in common: the repository, whose HEAD counts, and what was worked out of the history before

_MOST_LISTS = 4  # of one version that are kept


class Query(Protocol):
    """Which rows are listed."""

    @property
    def text(self) -> str: ...
    @property
    def show(self) -> str: ...
    @property
    def tz_s(self) -> int: ...
    @property
    def unfolded(self) -> tuple[str, ...]: ...


class Position(NamedTuple):
    """Where the reader is (`elsewhere.Position`)."""

    repo: Repository
    id: str
    head: ObjectId | None


class Spread(msgspec.Struct, frozen=True):
    """One version of the history, laid open."""

    view: View
    colours: Colours
    refs: Mapping[ObjectId, tuple[Ref, ...]]
    lists: dict[tuple[object, ...], Listing]
    waiting: Mapping[str, ApprovalRequested | Clarify] = {}  # what each run that waits asks a person
    stopped: Mapping[str, int] = {}  # when each run stopped that made no commit and can go on, in nanoseconds
    agent_branches: Mapping[str, str] = {}  # the branches that agents have for a while, in words


class QueryContext:
    """One repository as one session sees it."""

    def __init__(self, repo: Repository, session_id: str) -> None:
        self.repo = repo
        self.session_id = session_id
        self.me = person().name
        self.lock = threading.RLock()
        self._timeline = Timeline(repo, session_id)
        self._finder = Finder(repo)
        self._spread: Spread | None = None

    def resolve(self, rev: str) -> tuple[ObjectId, Commit]:
        """The commit that a revision names; raises RefNotFoundError or AmbiguousRefError."""
        id = self.repo.resolve(rev, self.session_id)
        return id, self.repo.commit_at(id)

    def author(self, commit: Commit) -> Author:
        """Who wrote a commit."""
        name, is_agent = shorten_line(commit.author.name), commit.author.kind == "agent"
        return Author(name, "agent" if is_agent else "person", not is_agent and commit.author.name == self.me)

    def position(self) -> Position:
        """Where the reader is now."""
        return Position(self.repo, self.session_id, self.history_now().view.head.commit)

    def version(self) -> str:
        """Of the history now; it is laid out only once somebody asks for it."""
        with self.lock:
            return self._timeline.version()

    def history_now(self) -> Spread:
        """The history as it is now."""
        with self.lock:
            view = self._timeline.now()
            if self._spread is None or self._spread.view is not view:
                if self._spread is not None and self._spread.view.epoch != view.epoch:
                    self._finder = Finder(self.repo)  # nothing of what was forgotten stays here
                colours = colours_of(view)
                waiting = dict(filter(None, map(self._find_question, view.waiting)))
                agent_branches = describe_temporary(self.repo, EventStore(self.repo.store))
                refs = _refs_by_commit(view, colours, agent_branches)
                stopped = dict(self._find_stopped(view))
                self._spread = Spread(view, colours, refs, {}, waiting, stopped, agent_branches)
            return self._spread

    def _find_stopped(self, view: View) -> Iterator[tuple[str, int]]:
        event_store = EventStore(self.repo.store)
        without = set(event_store.find_stopped()) - {record.run for record in view.order}
        for run in without:
            events = tuple(event_store.of(run))
            if where_stopped(event_store, events)[0]:
                yield run, events[-1].time_ns

    def _find_question(self, run: str) -> tuple[str, ApprovalRequested | Clarify] | None:
        found = open_question(tuple(EventStore(self.repo.store).of(run)))
        return None if found is None else (run, found)

    def list_rows(self, query: Query) -> tuple[Spread, Listing]:
        """The rows of a query, and the history that they are of."""
        with self.lock:
            spread = self.history_now()
            key = (query.text, query.show, query.tz_s, query.unfolded)
            found = spread.lists.pop(key, None)
            if found is None:
                matching = self._finder.find(spread.view, query.text, query.show, query.tz_s)
                asked_ns = {run: request.time_ns for run, request in spread.waiting.items()}
                unfolded = frozenset(query.unfolded)
                found = lay_out(
                    spread.view,
                    spread.colours,
                    matching,
                    query.tz_s,
                    unfolded,
                    asked_ns=asked_ns,
                    stopped_ns=spread.stopped,
                )
            spread.lists[key] = found  # the one used last stands last
            for oldest in list(spread.lists)[:-_MOST_LISTS]:
                del spread.lists[oldest]
            return spread, found


def store_id(repo: Repository) -> str:
    """What a store is called where its place must not be told: the same wherever it is moved to."""
    secret = repo.setting("secret")
    return blake3(b"agent-kernel store\0" + (secret or repo.store.url.encode())).hexdigest(16)


class Question(NamedTuple):
    """One operation: what it takes, and the module of this package whose function of the same name answers it."""

    shape: type[msgspec.Struct]
    module: str


class Reader:
    """Answers everything that a panel asks of one repository, as one session sees it.

    Safe to use from several threads. It keeps what it read of the history from one question to the next.

    Args:
        session_id: whose HEAD counts; the nameless session's is where the store was used last.
    """

    def __init__(self, repo: Repository, session_id: str = "") -> None:
        self._context = QueryContext(repo, session_id)

    def ask(self, op: str, args: Mapping[str, object]) -> Any:
        """The answer of an operation of `Reads`, as plain lists, dicts, texts and numbers.

        Raises:
            AgentKernelError: the question has no answer; `failure` says it as data.
        """
        question = QUESTIONS.get(op)
        if question is None:
            known = ", ".join(sorted(QUESTIONS))
            raise RequestError(shorten_line(op), f"there is no such question; the questions are {known}")
        answer = _find_answer(question.module, op)(self._context, read(op, args, question.shape))
        return msgspec.json.decode(msgspec.json.encode(answer))

    def represent_history(self) -> dict[str, Any]:
        """The static representations of the history by MIME type: see `lists`."""
        from agent_kernel.queries.lists import represent_in

        return represent_in(self._context)

    def version(self) -> str:
        """Changes when a branch, a tag, a commit or a HEAD does. Costs next to nothing if nothing was written since."""
        return self._context.version()


@functools.cache
def _find_answer(module: str, op: str) -> Callable[[QueryContext, Any], object]:
    """Its module loads with the first question of its kind: whoever opens a panel does not wait for those of the others."""
    found: Callable[[QueryContext, Any], object] = getattr(
        import_module(f"agent_kernel.queries.{module}"), _NAMES.get(op, op)
    )
    return found


_NAMES = {"open": "open_"}

QUESTIONS: Mapping[str, Question] = {
    "branches": Question(Nothing, "lists"),
    "cells": Question(One, "variables"),
    "code": Question(At, "changes"),
    "commit": Question(At, "changes"),
    "compare": Question(Between, "changes"),
    "environment": Question(At, "changes"),
    "locate": Question(Located, "lists"),
    "open": Question(Opened, "lists"),
    "outputs": Question(One, "variables"),
    "plan": Question(Planned, "plans"),
    "race": Question(OfRun, "agents"),
    "rows": Question(Listed, "lists"),
    "run": Question(OfRun, "agents"),
    "variable": Question(OfVariable, "variables"),
}


# -- what a panel is told where something could not be answered

Code: TypeAlias = Literal["not_found", "ambiguous", "refused", "damaged", "too_large", "gone", "failed"]

# The first that fits.
_CODES: tuple[tuple[type[AgentKernelError], Code], ...] = (
    (AmbiguousRefError, "ambiguous"),
    (NotFoundError, "not_found"),
    (DamagedObjectError, "damaged"),
    (TooLargeError, "too_large"),
    (NotAStoreError, "gone"),
    (NewerFormatError, "failed"),
    (StoreUnavailableError, "gone"),
    (AgentKernelError, "refused"),
)


class Failure(msgspec.Struct, frozen=True):
    """Why there is no answer: a word for programs, a sentence for people."""

    code: Code
    message: str


def failure(error: BaseException) -> dict[str, str]:
    """The failure as data. Of an error that nobody raised on purpose only the type is told."""
    codes: list[Code] = [code for kind, code in _CODES if isinstance(error, kind)]
    known = isinstance(error, AgentKernelError)
    text = str(error) if known else f"it could not be read ({type(error).__name__})"
    # A message of several lines, as that of a merge conflict, is told in one.
    message = previews.clean(previews.mask_text(" ".join(text.split())))
    found: dict[str, str] = msgspec.to_builtins(Failure(codes[0] if codes else "failed", message))
    return found
