"""The one door of this layer: `Reader.ask` takes a question as data and gives the answer as data."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from agent_kernel.browsing import arguments as ask_for
from agent_kernel.browsing.book import Book
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import RequestError

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Reader"]


class Question(NamedTuple):
    """One operation: what it takes and what answers it."""

    shape: type[msgspec.Struct]
    answer: Callable[[Book, Any], object]


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
            AgentKernelError: there is none; `failure` says it as data.
        """
        question = questions().get(op)
        if question is None:
            known = ", ".join(sorted(questions()))
            raise RequestError(cleaned(op), f"there is no such question; the questions are {known}")
        answer = question.answer(self._book, ask_for.read(op, args, question.shape))
        return msgspec.json.decode(msgspec.json.encode(answer))

    def faces(self) -> dict[str, Any]:
        """The static faces of the history by MIME type: see `static`."""
        from agent_kernel.browsing.static import faces_of

        return faces_of(self._book)

    def version(self) -> str:
        """Changes when a branch, a tag, a commit or a HEAD does. Costs next to nothing if nothing was written since."""
        return self._book.version()


@functools.cache
def questions() -> Mapping[str, Question]:
    """All questions by name. Their modules load with the first one."""
    from agent_kernel.browsing import code, comparison, details, lists, pages, plans, shown, surroundings, variables

    return {
        "branches": Question(ask_for.Nothing, lists.branches),
        "cells": Question(ask_for.One, pages.cells),
        "code": Question(ask_for.At, code.code),
        "commit": Question(ask_for.At, details.commit),
        "compare": Question(ask_for.Between, comparison.compare),
        "environment": Question(ask_for.At, surroundings.environment),
        "locate": Question(ask_for.Located, lists.locate),
        "open": Question(ask_for.Opened, lists.open_),
        "outputs": Question(ask_for.One, shown.outputs),
        "plan": Question(ask_for.Planned, plans.plan),
        "rows": Question(ask_for.Listed, lists.rows),
        "variable": Question(ask_for.OfVariable, variables.variable),
    }
