"""What a run waits for, as a verb tells it: the code of a step with what it would do, or a question."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent_kernel.agents import deciding
from agent_kernel.agents.events import ApprovalRequested, Event, TaskStart
from agent_kernel.agents.journal import short_run
from agent_kernel.agents.outside import is_outside
from agent_kernel.values import summaries
from agent_kernel.verbs.output import Block, Code, Json, Line, Result
from agent_kernel.verbs.text import clean, clean_lines, cut

__all__ = ["Asked", "Decided"]

_MOST_CODE = 20_000
_MOST_TEXT = 500


@dataclass(frozen=True)
class Asked:
    """A question to a person. What looks like a secret is masked in it.

    Attributes:
        step: the one that waits for approval, with its code and what that would do; None: the agent asks in words.
        is_outside: the agent is not ours: it asks for what came of it by itself.
    """

    run: str
    agent: str
    step: int | None
    text: str
    findings: tuple[str, ...] = ()
    is_outside: bool = False

    @classmethod
    def of(cls, events: Sequence[Event]) -> Asked | None:
        """What a run asks, if it waits."""
        asked, start = deciding.asked_by(events), events[0]
        if asked is None:
            return None
        comes = isinstance(start, TaskStart) and is_outside(start.model)
        if not isinstance(asked, ApprovalRequested):
            question = cut(clean(summaries.mask_text(asked.question, frozenset())), _MOST_TEXT)
            return cls(start.run, start.agent, None, question, (), comes)
        code, hidden = summaries.mask_code(asked.code)
        found = [f"{one.kind}: {one.what}" for one in asked.findings]
        found += [f"changed on a fork: {how}{name} {now}".rstrip() for how, name, now in asked.changed]
        found += [f"ended the run on a fork ({asked.settled}): {asked.result or 'nothing'}"] if asked.settled else []
        found += [f"has happened already, as it was tried: {what} {target}" for what, target, _ in asked.effects]
        found += [asked.told] if asked.told else []
        said = tuple(cut(clean(summaries.mask_text(one, hidden)), _MOST_TEXT) for one in found)
        return cls(start.run, start.agent, asked.step, clean_lines(code)[:_MOST_CODE], said, comes)

    def blocks(self) -> list[Block]:
        """The question, from top to bottom."""
        run, agent = short_run(self.run), clean(self.agent)
        if self.step is None:
            return [Line(f"Run {run}: {agent} asks: {self.text}")]
        found: list[Block] = [Line(f"Run {run}: {agent} wants to run step {self.step}"), Code(self.text)]
        return [*found, *(Line(f"  {one}") for one in self.findings)]

    def facts(self) -> dict[str, Json]:
        """The same for programs."""
        if self.step is None:
            return {"question": self.text}
        return {"step": self.step, "code": self.text, "findings": list(self.findings)}


@dataclass(frozen=True)
class Decided(Result):
    """A decision about a step, behind what was decided about."""

    asked: Asked
    decision: str

    def blocks(self) -> Sequence[Block]:
        done = "approved" if self.decision == "approve" else "denied"
        goes_on = "the agent learns of it" if self.asked.is_outside else "it goes on"
        way = "as it asks for the result" if self.asked.is_outside else "with %agent resume in its notebook"
        said = f"Step {self.asked.step} of run {short_run(self.asked.run)} is {done}; {goes_on} {way}"
        return [*self.asked.blocks(), Line(said)]

    def to_json(self) -> Json:
        return {"run": self.asked.run, "decision": self.decision, **self.asked.facts()}
