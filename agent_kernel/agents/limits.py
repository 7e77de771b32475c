"""What a run may take. Each limit ends it as failed, with everything kept and the limit named."""

from __future__ import annotations

import msgspec

from agent_kernel.agents.events import Usage

__all__ = ["Limits", "ran_too_long"]


def ran_too_long(seconds: float, most: float) -> str:
    """What to say of a run that took longer than it may.

    >>> ran_too_long(1.234, 1)
    'it ran 1.23 s and was not done (limit: 1 s)'
    """
    return f"it ran {seconds:.3g} s and was not done (limit: {most:.3g} s)"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of one run; None: no limit.

    Attributes:
        steps: pieces of code that it may run.
        tokens: read and written by the model, over all steps.
        cost: in US dollars. A run whose model has a price that is not known is refused, or ends as that turns out.
        step_s: seconds that one step's code may run. The code is interrupted, and the model is told.
            After `retries` such steps one after the other, or where code goes on in spite of it, the run ends.
        run_s: seconds from its start, waiting for a person not counted.
        model_s: seconds that one answer of the model may take.
        output_chars: of what comes of a step, so much is sent to the model; of more the middle is left out, and
            after `retries` such steps one after the other the run ends.
        retries: times that the model is told that its answer does not fit, or is asked again after an error of its
            provider, one after the other.
    """

    steps: int | None = 20
    tokens: int | None = None
    cost: float | None = None
    step_s: float | None = None
    run_s: float | None = None
    model_s: float | None = 600.0
    output_chars: int = 20_000
    retries: int = 3

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise ValueError(f"{name} must be 0 or more, not {value!r}")

    def reached(self, *, steps: int, usage: Usage, seconds: float, unpriced: bool = False) -> tuple[str, str] | None:
        """The limit that the next step would break: its name, and what to say of it.

        Args:
            unpriced: an answer came whose cost nobody knows.
        """
        if self.steps is not None and steps >= self.steps:
            return "steps", f"it took {steps} step{'s' * (steps != 1)} and was not done (limit: {self.steps})"
        if self.tokens is not None and usage.tokens >= self.tokens:
            return "tokens", f"it used {usage.tokens:,} tokens and was not done (limit: {self.tokens:,})"
        if self.cost is not None and usage.cost is not None and usage.cost >= self.cost:
            return "cost", f"it cost ${usage.cost:.4g} and was not done (limit: ${self.cost:.4g})"
        if self.cost is not None and unpriced:
            return "cost", f"what its model costs is not known, so it cannot be kept under ${self.cost:.4g}"
        if self.run_s is not None and seconds >= self.run_s:
            return "run_s", ran_too_long(seconds, self.run_s)
        return None

    def bounded(self, other: Limits, usage: Usage, seconds: float) -> Limits:
        """These limits for a sub-agent of a run that has the `other` ones, and took so much of them already."""

        def least(mine: float | None, theirs: float | None, taken: float) -> float | None:
            left = None if theirs is None else max(0.0, theirs - taken)
            return min([one for one in (mine, left) if one is not None], default=None)

        tokens = least(self.tokens, other.tokens, usage.tokens)
        steps = least(self.steps, other.steps, 0)
        return msgspec.structs.replace(
            self,
            steps=None if steps is None else int(steps),
            tokens=None if tokens is None else int(tokens),
            cost=least(self.cost, other.cost, usage.cost or 0.0),
            run_s=least(self.run_s, other.run_s, seconds),
        )

    def as_dict(self) -> dict[str, float | None]:
        """For the event that starts a run."""
        return {name: getattr(self, name) for name in self.__struct_fields__}

    @classmethod
    def of(cls, stored: dict[str, float | None]) -> Limits:
        """The limits that an event says, of which some may be unknown to this release."""
        return msgspec.convert(
            {name: stored[name] for name in cls.__struct_fields__ if name in stored}, cls, strict=False
        )
