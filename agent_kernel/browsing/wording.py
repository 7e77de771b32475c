"""How commits, names and sizes are called in a panel, beyond what every door says."""

from __future__ import annotations

from agent_kernel.repository import Commit
from agent_kernel.session.labels import is_code, prompt, title
from agent_kernel.verbs.text import clean, cut

__all__ = ["called", "cleaned", "prompts", "step_called", "subject_of"]

_SUBJECT = 200  # characters; a panel is narrower
_NAME = 120
_CALLED = 40


def cleaned(text: str, most: int = _NAME) -> str:
    """A name on one line, however long somebody made it."""
    return cut(clean(text), most)


def subject_of(commit: Commit) -> tuple[str, bool]:
    """What the commit is about, and whether that is code."""
    code = is_code(commit)
    return cut(title(commit), _SUBJECT, middle=code), code


def called(commit: Commit) -> str:
    """The commit inside a sentence: `[7]`, `step 2 of analyst [7]`, or, where no cell made it, its subject in quotes."""
    return step_called(commit) or prompt(commit) or f"“{cut(title(commit), _CALLED)}”"


def step_called(commit: Commit) -> str:
    """The step of a run that the commit is: `step 2 of analyst [7]`. Returns "" for other commits."""
    if not commit.run or commit.step is None:
        return ""
    return f"step {commit.step} of {cleaned(commit.author.name, _CALLED)} {prompt(commit)}".rstrip()


def prompts(newest: Commit, oldest: Commit) -> str:
    """The numbers of several cells: `[8–10]`."""
    first, last = prompt(oldest), prompt(newest)
    return f"{first[:-1]}–{last[1:]}" if first and last and first != last else last or first
