"""Which candidate of a race is best: by a function of the candidate, or by an expression over its variables."""

from __future__ import annotations

import builtins
import math
import time
from collections import ChainMap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents.deadlines import StepTimeout, within
from agent_kernel.agents.executing import is_raised_by_code
from agent_kernel.agents.workers import Candidate
from agent_kernel.session.history import describe_error
from agent_kernel.session.interrupts import noted_interrupts

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Judging", "best", "failure", "tie", "unjudged"]

_NOT_JUDGED: Final = "it could not be judged: "


class Judging:
    """Asks the judge of a race, for so many seconds in all. One that takes longer is asked no more."""

    def __init__(self, judge: str | Callable[[Candidate], object] | None, seconds: float) -> None:
        self._judge = judge
        self._most_s = seconds
        self._left_s = seconds

    def judged(self, candidate: Candidate, repo: Repository) -> Candidate:
        """The candidate with its score. One that cannot be judged has none, and says why.

        Raises:
            KeyboardInterrupt: a person interrupted it; what the judge raises by itself is an error of the judge.
        """
        judge, began = self._judge, time.monotonic()
        if judge is None:
            return candidate
        try:
            if self._left_s <= 0:
                raise StepTimeout(self._most_s)
            score = _score(judge, candidate, repo, self._left_s)
        except StepTimeout:
            return unjudged(candidate, f"it ran longer than {self._most_s:g} s")
        except _JudgeFailed as failed:
            return unjudged(candidate, str(failed))
        finally:
            self._left_s -= time.monotonic() - began
        return msgspec.structs.replace(candidate, score=score)


class _JudgeFailed(Exception):  # noqa: N818 - it never leaves this module
    """The judge gave no score, and why, in words."""


def _score(judge: str | Callable[[Candidate], object], candidate: Candidate, repo: Repository, seconds: float) -> float:
    def ask() -> float:
        found = _evaluated(judge, candidate, repo) if isinstance(judge, str) else judge(candidate)
        return float(found)  # type: ignore[arg-type]  # what is no number raises

    with noted_interrupts() as arrived:
        try:
            score = within(seconds, ask)
        except StepTimeout:
            raise
        except BaseException as error:  # the judge is the user's own, and so are the values
            if isinstance(error, KeyboardInterrupt) and not (
                is_raised_by_code(error) if arrived is None else not arrived
            ):
                raise
            raise _JudgeFailed(describe_error(error)) from None
    if arrived:  # and the judge has caught it
        raise KeyboardInterrupt
    if math.isnan(score):
        raise _JudgeFailed("its score is not a number")
    return score


def unjudged(candidate: Candidate, why: str) -> Candidate:
    """The candidate, and why it has no score."""
    return msgspec.structs.replace(candidate, reason=f"{_NOT_JUDGED}{why}")


def _evaluated(judge: str, candidate: Candidate, repo: Repository) -> object:
    """The expression's value. Only the variables that it names are loaded, and the live ones are not looked at."""
    variables = repo.at(candidate.tip)
    asked = ChainMap[str, object](
        {"__builtins__": builtins},
        {} if "result" in variables else _Result(candidate),
        variables,  # type: ignore[arg-type]
    )
    return eval(compile(judge, "<judge>", "eval"), {"__builtins__": builtins}, asked)


class _Result(dict[str, object]):
    """`result`: what the candidate gave back, loaded when it is asked for."""

    def __init__(self, candidate: Candidate) -> None:
        self._candidate = candidate
        super().__init__()

    def __contains__(self, name: object) -> bool:
        return name == "result"

    def __missing__(self, name: str) -> object:
        if name != "result":
            raise KeyError(name)
        return self._candidate.value


def best(candidates: Sequence[Candidate], *, is_judged: bool) -> Candidate | None:
    """The one with the highest score, of equal ones the cheapest; without a judge, the only one with a result."""
    done = [one for one in candidates if one.is_done]
    if not is_judged:
        return done[0] if len(done) == 1 else None
    scored = [one for one in done if one.score is not None]
    return max(scored, key=lambda one: (one.score or 0.0, -(one.usage.cost or 0.0), -one.seconds), default=None)


def failure(candidates: Sequence[Candidate]) -> str:
    """Of which candidates the judge said nothing, and why; "" where it did, or was not asked."""
    failed = [one for one in candidates if one.is_done and one.reason.startswith(_NOT_JUDGED)]
    if not failed:
        return ""
    why = failed[0].reason.removeprefix(_NOT_JUDGED)
    all_failed = len(failed) == sum(one.is_done for one in candidates)
    of = "" if all_failed else f" candidate{'s' * (len(failed) > 1)} {', '.join(str(one.number) for one in failed)}"
    return f"the judge could not judge{of} ({why})" + (": pick one yourself" if all_failed else "")


def tie(candidates: Sequence[Candidate], best: Candidate | None) -> str:
    """What made the best one the best, where others have the same score; "" where none has."""
    if best is None or best.score is None:
        return ""
    equal = [one for one in candidates if one.is_done and one.score == best.score]
    if len(equal) < 2:
        return ""
    is_cheaper = len({one.usage.cost or 0.0 for one in equal}) > 1
    numbers = [str(one.number) for one in equal]
    named = f"{', '.join(numbers[:-1])} and {numbers[-1]}"
    return f"candidates {named} have the same score: {best.number} was the {'cheapest' if is_cheaper else 'quickest'}"
