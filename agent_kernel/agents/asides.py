"""Branches that agents have for a while and that nobody named: of a step that was tried on a fork, of a candidate of a race.

They can be named as any other. But they are no lines of work, so nothing offers them where a person chooses a branch.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["PREVIEWS", "RACES", "candidate", "is_aside", "preview", "said_of"]

PREVIEWS: Final = "preview/"
RACES: Final = "race/"
_PREVIEW: Final = re.compile(rf"{PREVIEWS}[0-9a-f]{{8}}(-(?P<run>[0-9a-f]{{5}}))?")
_CANDIDATE: Final = re.compile(rf"{RACES}(?P<race>[0-9a-f]{{5}})/(?P<number>\d+)")


def preview(branch: str) -> str | None:
    """The run, as its id ends, of which a step was tried on a fork ("": of none), whose branch this is; None: it is no such."""
    found = _PREVIEW.fullmatch(branch)
    return None if found is None else found["run"] or ""


def candidate(branch: str) -> tuple[str, int]:
    """The race, as its id ends, and the number of the candidate whose branch this is; "" and 0: it is none."""
    found = _CANDIDATE.fullmatch(branch)
    return ("", 0) if found is None else (found["race"], int(found["number"]))


def is_aside(branch: str) -> bool:
    """Whether it is such a branch."""
    return bool(said_of(branch))


def said_of(branch: str) -> str:
    """What such a branch is, in words; "" of any other."""
    race, number = candidate(branch)
    if number:
        return f"candidate {number} of race {race}"
    return "tried on a fork, waiting" if preview(branch) is not None else ""
