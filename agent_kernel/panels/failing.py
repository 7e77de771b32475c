"""What a panel is told of an act that could not be done: why, and a word for what to offer."""

from __future__ import annotations

import logging

from agent_kernel.browsing import failure
from agent_kernel.errors import AgentKernelError, DamagedObjectError, LoadError
from agent_kernel.panels.desk import GoneError
from agent_kernel.verbs.parsing import UsageProblem
from agent_kernel.verbs.text import clean, spelled

__all__ = ["failed_act", "failed_question"]

logger = logging.getLogger(__name__)

_SAID = "nothing was"  # changed, merged: an error that says so already needs no second sentence


def failed_question(error: BaseException) -> dict[str, str]:
    """The failure as data."""
    if isinstance(error, GoneError):
        return {"code": "gone", "message": error.reason}
    if not isinstance(error, AgentKernelError):
        logger.error("a panel got no answer", exc_info=error)
    return failure(error)


def failed_act(error: BaseException, *, moved: bool) -> dict[str, str]:
    """`df is damaged in the store. Nothing was changed.`: the end of a sentence that begins with the act.

    Args:
        moved: HEAD is elsewhere all the same.
    """
    if isinstance(error, GoneError):
        return failed_question(error)
    if isinstance(error, KeyboardInterrupt):
        return {"code": "failed", "message": "it was interrupted."}
    if isinstance(error, UsageProblem):
        code, reason = "refused", clean(str(error))
    elif damaged := _damaged(error):
        code, reason = "damaged", damaged
    elif isinstance(error, LoadError):
        code, reason = "refused", f"{spelled(error.names, 5)} could not be loaded: {clean(error.reason)}"
    else:
        told = failed_question(error)
        code, reason = told["code"], told["message"]
    end = "" if moved or _SAID in reason.lower() else " Nothing was changed."
    return {"code": code, "message": f"{reason.rstrip('.')}.{end}"}


def _damaged(error: BaseException) -> str:
    """What is damaged, if that is why."""
    if isinstance(error, LoadError) and isinstance(error.__cause__, DamagedObjectError):
        return f"{spelled(error.names, 5)} {'is' if len(error.names) == 1 else 'are'} damaged in the store"
    if isinstance(error, DamagedObjectError):
        names = error.names
        return f"{spelled(names, 5)} {'is' if len(names) == 1 else 'are'} damaged in the store" if names else _STORE
    return ""


_STORE = "the store is damaged"
