"""What a model is told of the namespace: names, types, shapes and short values, as much as a budget of tokens allows.

It is told once, as the run begins; afterwards only what each step changed. So what was sent once stays as it was sent.
Nothing of a value's own code runs for it: what is told are summaries. What looks like a secret is masked, and a hidden
name is not told at all (`redaction`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from agent_kernel.agents.redaction import without_controls
from agent_kernel.values import summaries
from agent_kernel.values.summaries import Column, Summary

if TYPE_CHECKING:
    from agent_kernel.repository import Change

__all__ = ["INSTRUCTIONS", "POLICIES", "change_lines", "cut", "describe", "instructions", "masked", "tokens_of", "told"]

CHARS_A_TOKEN: Final = 4
_NOTE_CHARS: Final = 44  # of the note that something was left out
POLICIES: Final = ("names", "schema", "values")
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
    return -(-len(text) // CHARS_A_TOKEN)


def told(summary: Summary, policy: str) -> str:
    """One line about a value: `values` shows what is in it, `schema` only what it is made of, `names` nothing."""
    if policy == "names":
        return ""
    if policy == "schema":
        text = summary.text if summary.kind in ("function", "class", "module") else ""
        columns = summary.columns if summary.kind == "frame" else tuple(Column(one.name, "") for one in summary.columns)
        summary = msgspec.structs.replace(summary, text=text, rows=(), columns=columns)
    return summaries.line(summary).strip()


def describe(
    names: Iterable[str],
    summary: Callable[[str], str],
    *,
    task: str = "",
    recent: Collection[str] = (),
    room: int = 8_000,
) -> str:
    """The namespace in lines: what the task mentions first, then what changed last, then the rest, by name.

    Args:
        names: those that may be told.
        summary: a line about one of them; "": its name is enough.
        recent: names that changed lately, the latest first.
        room: characters that it may take; a line that says how many there are is the least.
    """
    order = _ordered(list(names), set(_WORD.findall(task)), list(recent))
    if not order:
        return "The notebook has no variables yet."
    lines = ["The notebook's variables:"]
    room -= len(lines[0])
    for at, name in enumerate(order):
        line = f"  {name}: {said}" if (said := summary(name)) else f"  {name}"
        rest = len(order) - at - 1
        if len(line) + 1 + (len(_more(rest)) + 1 if rest else 0) > room:
            lines.append(_left(order[at:], room))
            break
        room -= len(line) + 1
        lines.append(line)
    return "\n".join(lines)


def _ordered(names: list[str], mentioned: set[str], recent: list[str]) -> list[str]:
    rank = {name: at for at, name in enumerate(recent)}
    return sorted(
        names, key=lambda name: (name not in mentioned, rank.get(name, len(rank)), name.startswith("_"), name)
    )


def _more(many: int) -> str:
    return f"  and {many:,} more"


def _left(names: list[str], room: int) -> str:
    """The rest by name alone, as far as there is room."""
    said = ""
    for at, name in enumerate(names):
        longer = f"{said}, {name}" if said else f"  and {name}"
        rest = len(names) - at - 1
        if len(longer) + (len(_more(rest)) if rest else 0) + 1 > room:
            return f"{said}{_more(rest + 1)[1:]}" if said else _more(len(names))
        said = longer
    return said


def change_lines(changed: Iterable[Change], summary: Callable[[str], str], most: int = 20) -> list[str]:
    """What a step changed, a line each."""
    found = list(changed)
    said = ["" if one.how == "-" else summary(one.name) for one in found[:most]]
    lines = [f"  {one.how} {one.name}{f': {text}' if text else ''}" for one, text in zip(found, said, strict=False)]
    return [*lines, f"  and {len(found) - most} more"] if len(found) > most else lines


def masked(text: str, most_chars: int | None = None) -> str:
    """A text of nobody's namespace without what looks like a secret, and no longer than so many characters."""
    text = summaries.mask_text(without_controls(text))
    return text if most_chars is None else cut(text, most_chars)


def cut(text: str, most_chars: int) -> str:
    """The text, no longer than so many characters: of a longer one the middle is left out."""
    if len(text) <= most_chars:
        return text
    room = max(0, most_chars - _NOTE_CHARS)
    said = f"\n[… {len(text) - room:,} characters left out …]\n"
    head, tail = room * 2 // 3, room - room * 2 // 3
    return f"{text[:head]}{said}{text[len(text) - tail :]}"[:most_chars]
