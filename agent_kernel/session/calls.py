"""What a session says, for programs: they type no `%agent` commands, and have no numbered cells to run again.

What is stored keeps the words of notebooks: a notebook may open the same store, and reads the numbers of cells in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from agent_kernel.repository import Unsaved
    from agent_kernel.session.operations import Report

__all__ = ["report_for_programs", "text_for_programs", "unsaved_for_programs"]

_SAID: Final = (
    (r"%agent switch (\S+) goes there", r"open the store on branch \1 to go on there"),
    (r"run %agent trust and %agent checkout again", "call Repository.trust and load it again"),
    (r"run %agent trust", "call Repository.trust"),
    (r"%agent (verify|stats|prune)\b", r"Repository.\1"),
    (r"%agent commit --full", "commit"),
    (r"%agent ignore", "Session.ignore"),
    (r"%agent (\w+)", r"\1"),
    (r"\brun cell \[(\d+)\] again", r"run the code of run \1 again"),
    (r"\brun cells \[(\d+)\] and \[(\d+)\]", r"run the code of runs \1 and \2"),
    (r"(?<=\d) and \[(\d+)\](?=.* again\b)", r" and \1"),
    (r"\b(?:the )?cell \[(\d+)\]", r"run \1"),
    (r"\brun the cells? (of|that made it)\b", r"run the code \1"),
)


def text_for_programs(text: str) -> str:
    """The same, in the words of who calls methods.

    >>> text_for_programs("run cells [1] and [3] and [4] again to have it back")
    'run the code of runs 1 and 3 and 4 again to have it back'
    >>> text_for_programs("branch main has gone on beside this one: %agent switch main goes there")
    'branch main has gone on beside this one: open the store on branch main to go on there'
    """
    for pattern, said in _SAID:
        text = re.sub(pattern, said, text)
    return text


def unsaved_for_programs(unsaved: Iterable[Unsaved]) -> tuple[Unsaved, ...]:
    """What could not be saved, with remedies that a program has."""
    return tuple(msgspec.structs.replace(one, remedy=text_for_programs(one.remedy)) for one in unsaved)


def report_for_programs(report: Report) -> Report:
    """A report whose remedies and notes a program can follow."""
    unsaved, notes = unsaved_for_programs(report.unsaved), tuple(map(text_for_programs, report.notes))
    return msgspec.structs.replace(report, unsaved=unsaved, notes=notes)
