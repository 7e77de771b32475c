"""The one door of this layer: `Reader.ask` takes a question as data and gives the answer as data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import msgspec

from agent_kernel.browsing import arguments as ask_for
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.wording import cleaned
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
from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Code", "Failure", "Reader", "failure"]


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
        self._book = Book(repo, session_id)

    def ask(self, op: str, args: Mapping[str, object]) -> Any:
        """The answer of an operation of `Reads`, as plain lists, dicts, texts and numbers.

        Raises:
            AgentKernelError: the question has no answer; `failure` says it as data.
        """
        question = QUESTIONS.get(op)
        if question is None:
            known = ", ".join(sorted(QUESTIONS))
            raise RequestError(cleaned(op), f"there is no such question; the questions are {known}")
        answer = _answering(question.module, op)(self._book, ask_for.read(op, args, question.shape))
        return msgspec.json.decode(msgspec.json.encode(answer))

    def faces(self) -> dict[str, Any]:
        """The static faces of the history by MIME type: see `static`."""
        from agent_kernel.browsing.static import faces_of

        return faces_of(self._book)

    def version(self) -> str:
        """Changes when a branch, a tag, a commit or a HEAD does. Costs next to nothing if nothing was written since."""
        return self._book.version()


@functools.cache
def _answering(module: str, op: str) -> Callable[[Book, Any], object]:
    """Its module loads with the first question of its kind: whoever opens a panel does not wait for those of the others."""
    found: Callable[[Book, Any], object] = getattr(import_module(f"agent_kernel.browsing.{module}"), _NAMES.get(op, op))
    return found


_NAMES = {"open": "open_"}

QUESTIONS: Mapping[str, Question] = {
    "branches": Question(ask_for.Nothing, "lists"),
    "cells": Question(ask_for.One, "shown"),
    "code": Question(ask_for.At, "details"),
    "commit": Question(ask_for.At, "details"),
    "compare": Question(ask_for.Between, "details"),
    "environment": Question(ask_for.At, "details"),
    "locate": Question(ask_for.Located, "lists"),
    "open": Question(ask_for.Opened, "lists"),
    "outputs": Question(ask_for.One, "shown"),
    "plan": Question(ask_for.Planned, "plans"),
    "race": Question(ask_for.OfRun, "agents"),
    "rows": Question(ask_for.Listed, "lists"),
    "run": Question(ask_for.OfRun, "agents"),
    "variable": Question(ask_for.OfVariable, "variables"),
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
    said = str(error) if known else f"it could not be read ({type(error).__name__})"
    # A message of several lines, as that of a merge conflict, is told in one.
    told = summaries.clean(summaries.mask_text(" ".join(said.split())))
    found: dict[str, str] = msgspec.to_builtins(Failure(codes[0] if codes else "failed", told))
    return found
