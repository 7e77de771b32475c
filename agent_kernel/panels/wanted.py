"""An act on its way to its turn, and what came of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, cast

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.panels.asked import Aimed
from agent_kernel.panels.failing import failed_act
from agent_kernel.verbs.parsing import UsageProblem

if TYPE_CHECKING:
    from agent_kernel.panels.asked import Act
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.panels.replies import Reply
    from agent_kernel.verbs.scope import Scope

__all__ = ["Left", "Outcome", "Wanted"]

_LONG: Final = frozenset({"decide", "resume"})
_ON_ITS_WAY: Final[dict[str, object]] = {"notes": [], "undo": False, "cells": None}

logger = logging.getLogger(__name__)


class Left(msgspec.Struct, frozen=True):
    """Cells that are still to be brought back: only a panel can, and who asked for them may not be there any more."""

    id: str
    document: str  # in which they were asked for; "": in any
    page: object
    label: str  # of the commit

    def told(self, turn: int) -> Answer:
        """The same for panels, without the page."""
        return {"turn": str(turn), "id": self.id, "document": self.document}


class Outcome(msgspec.Struct, frozen=True):
    """What an act did, or why it could not be done."""

    done: dict[str, object] | None = None
    failed: dict[str, str] | None = None

    def told(self, act: Act) -> tuple[Answer | None, Answer | None]:
        """The same for panels that did not ask: what was done, or a whole sentence of what was not."""
        failed = self.failed
        if self.done is not None and "conflicts" in self.done:
            failed = _conflict(self.done)
        if failed is None:
            return None if self.done is None else {**self.done, "cells": None, "op": act.op}, None
        return None, {"text": f"{act.subject} failed: {failed['message']}", "code": failed["code"]}

    def left(self, act: Act) -> Left | None:
        """The cells that came of it, if any."""
        page = None if self.done is None else self.done.get("cells")
        if page is None or not isinstance(act.args, Aimed):
            return None
        return Left(act.id, act.args.document, page, act.label)


class Wanted:
    """Something that a panel wants done.

    Args:
        tell: told whenever its standing has changed, with the outcome where the panel was answered before there was one.
    """

    def __init__(
        self,
        act: Act,
        desk: Desk,
        scope: Callable[[], Scope],
        answer: Reply,
        tell: Callable[[Act, Outcome | None], None],
    ) -> None:
        self.act = act
        self._desk = desk
        self._scope = scope
        self._answer = answer
        self._tell = tell

    def do(self) -> None:
        if self.act.op in _LONG:
            refused = self._tried(self._check)
            if refused.failed is not None:
                self._end(refused)
                return
            # A run may go on for hours: whoever asked knows that it does, and hears of its end as all panels do.
            self._answer.ok({"done": "", **_ON_ITS_WAY, "head": self._desk.head()})
        self._end(self._tried(self._carry_out))

    def _end(self, outcome: Outcome) -> None:
        answered = self._answer.error(outcome.failed) if outcome.failed else self._answer.ok(outcome.done)
        self._tell(self.act, None if answered else outcome)

    def waits(self) -> None:
        self._answer.ok({"queued": self.act.told})
        self._tell(self.act, None)

    def is_dropped(self) -> None:
        self._answer.error({"code": "refused", "message": "another request took its place, or it was cancelled."})

    def _check(self, scope: Scope) -> None:
        from agent_kernel.panels.doing import check

        check(self._desk, scope, self.act)

    def _carry_out(self, scope: Scope) -> Answer:
        from agent_kernel.panels.doing import do

        return do(self._desk, scope, self.act)

    def _tried(self, what: Callable[[Scope], Answer | None]) -> Outcome:
        scope = self._scope()
        before = _position(scope)
        try:
            return Outcome(what(scope))
        except (AgentKernelError, UsageProblem, KeyboardInterrupt) as error:
            return Outcome(failed=failed_act(error, moved=_position(scope) != before))
        except Exception as error:
            logger.exception("an act of a panel failed")
            return Outcome(failed=failed_act(error, moved=_position(scope) != before))


def _position(scope: Scope) -> tuple[object, ...]:
    session = scope.session
    return () if session is None else (session.branch, session.head)


def _conflict(found: Answer) -> dict[str, str]:
    rows = cast("list[dict[str, str]]", found["conflicts"])
    names = list(dict.fromkeys(row["name"].partition("[")[0] for row in rows))
    clash = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return {"code": "refused", "message": f"both sides changed {clash}. Nothing was changed."}
