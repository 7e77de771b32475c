"""What a panel is told where something could not be answered."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from agent_kernel.errors import (
    AgentKernelError,
    AmbiguousRefError,
    DamagedObjectError,
    NewerFormatError,
    NotAStoreError,
    NotFoundError,
    StoreUnavailableError,
    TooLargeError,
)
from agent_kernel.values import summaries

__all__ = ["Code", "Failure", "failure"]

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
