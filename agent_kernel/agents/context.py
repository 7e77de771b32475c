"""What a model is told of the namespace: names, types, shapes and short values, as much as a budget of tokens allows.

It is told once, as the run begins; afterwards only what each step changed. So what was sent once stays as it was sent.
Nothing of a value's own code runs for it: what is told are summaries. What looks like a secret is masked, and a hidden
name is not told at all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from agent_kernel.values import summaries

if TYPE_CHECKING:
    from agent_kernel.repository import Change

__all__ = ["INSTRUCTIONS", "change_lines", "describe", "instructions", "masked", "tokens_of"]

_CHARS_A_TOKEN = 4
# Colours and other escape sequences, and what else a terminal would act on; line ends and tabs stay.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_WORD = re.compile(r"[^\W\d]\w*")

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


def instructions(returns: str, *, primer: str = "", taken: bool = False, extra: Iterable[str] = ()) -> str:
    """What the model is told of its place.

    Args:
        returns: the type that the result must have; "": any.
        taken: the person has a variable called `task`.
    """
    of = f", and must be {returns}" if returns else ""
    said = INSTRUCTIONS.format(task="agent_task" if taken else "task", returns=of)
    return "\n\n".join(filter(None, (primer.strip(), said, *extra)))


def tokens_of(text: str) -> int:
    """About as many tokens as the text takes."""
    return -(-len(text) // _CHARS_A_TOKEN)


def describe(
    namespace: Mapping[str, object],
    names: Iterable[str],
    *,
    task: str = "",
    recent: Collection[str] = (),
    budget_tokens: int = 2_000,
    summary: Callable[[str], str] | None = None,
) -> str:
    """The namespace in lines: what the task mentions first, then what changed last, then the rest, by name.

    Args:
        names: those that may be told.
        recent: names that changed lately, the latest first.
        summary: what is known of a name already; by default it is made from the live value.
    """
    order = _ordered(list(names), set(_WORD.findall(task)), list(recent))
    if not order:
        return "The notebook has no variables yet."

    def told(name: str) -> str:
        return summary(name) if summary else summaries.line(summaries.summarize(namespace[name], name))

    room = budget_tokens * _CHARS_A_TOKEN
    lines: list[str] = []
    for at, name in enumerate(order):
        line = f"  {name}: {told(name)}"
        if len(line) > room - 200 and at:
            lines.append(_left(order[at:], max(200, room)))
            break
        room -= len(line) + 1
        lines.append(line)
    return "\n".join(["The notebook's variables:", *lines])


def _ordered(names: list[str], mentioned: set[str], recent: list[str]) -> list[str]:
    rank = {name: at for at, name in enumerate(recent)}
    return sorted(
        names, key=lambda name: (name not in mentioned, rank.get(name, len(rank)), name.startswith("_"), name)
    )


def _left(names: list[str], room: int) -> str:
    """The rest by name alone, as far as there is room."""
    said: list[str] = []
    for name in names:
        room -= len(name) + 2
        if room < 0:
            break
        said.append(name)
    more = len(names) - len(said)
    return f"  and {', '.join(said)}{f' and {more:,} more' if more else ''}" if said else f"  and {more:,} more"


def change_lines(changed: Iterable[Change], summary: Callable[[str], str], most: int = 20) -> list[str]:
    """What a step changed, a line each."""
    found = list(changed)
    lines = [f"  {one.how} {one.name}" + ("" if one.how == "-" else f": {summary(one.name)}") for one in found[:most]]
    return [*lines, f"  and {len(found) - most} more"] if len(found) > most else lines


def masked(text: str, most_chars: int | None = None) -> str:
    """The text without what looks like a secret, and no longer than so many characters: its middle is left out."""
    text = summaries.mask_text(_CONTROL.sub("", text))
    if most_chars is None or len(text) <= most_chars:
        return text
    left = len(text) - most_chars
    head, tail = most_chars * 2 // 3, most_chars // 3
    return f"{text[:head]}\n[… {left:,} characters left out …]\n{text[len(text) - tail :]}"
