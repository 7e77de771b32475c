"""Branches that agents have for a while and that nobody named: of a step tried on a fork, a candidate of a race, a sub-agent.

They can be named as any other. But they are no lines of work, so nothing offers them where a person chooses a branch.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from agent_kernel.errors import RunNotFoundError
from agent_kernel.repository import hex_of

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.agents.events import TaskStart
    from agent_kernel.session.snapshot import Repository

__all__ = [
    "PREVIEWS",
    "RACES",
    "candidate",
    "describe_temporary",
    "is_temporary",
    "may_be_sub_agents",
    "preview",
    "purpose_text",
    "sub_agent",
]


PREVIEWS: Final = "preview/"
RACES: Final = "race/"
_PREVIEW: Final = re.compile(rf"{PREVIEWS}[0-9a-f]{{8}}(-(?P<run>[0-9a-f]{{5}}))?")
_SUB_AGENT: Final = re.compile(r"(?P<agent>.+)-(?P<run>[0-9a-f]{5})")
_CANDIDATE: Final = re.compile(rf"{RACES}(?P<race>[0-9a-f]{{5}})/(?P<number>\d+)")


def preview(branch: str) -> str | None:
    """The run, as its id ends, of which a step was tried on a fork ("": the branch does not say), whose branch this is; None for other branches."""
    found = _PREVIEW.fullmatch(branch)
    return None if found is None else found["run"] or ""


def candidate(branch: str) -> tuple[str, int]:
    """The race, as its id ends, and the number of the candidate whose branch this is; "" and 0 for other branches."""
    found = _CANDIDATE.fullmatch(branch)
    return ("", 0) if found is None else (found["race"], int(found["number"]))


def may_be_sub_agents(branch: str) -> bool:
    """Whether a branch is called as those of sub-agents are: people may call theirs so as well."""
    return _SUB_AGENT.fullmatch(branch) is not None


def sub_agent(event_store: EventStore, branch: str) -> TaskStart | None:
    """How the run of the sub-agent began whose branch this was made as; None for other branches."""
    found = _SUB_AGENT.fullmatch(branch)
    if found is None:
        return None
    for run in event_store.runs():
        if run.endswith(found["run"]):
            with suppress(RunNotFoundError):  # what it began with is damaged
                start = event_store.first(run)
                if start.parent_run and start.agent == found["agent"]:
                    return start
    return None


def describe_temporary(repo: Repository, event_store: EventStore) -> dict[str, str]:
    """Those of a repository's branches, each with what it is in words. What a person went on with is theirs."""
    from agent_kernel.agents.event_log import short_run

    found: dict[str, str] = {}
    for name, tip in repo.branches().items():
        purpose = purpose_text(name)
        start = None if purpose else sub_agent(event_store, name)
        is_theirs = start is not None and hex_of(tip) != start.before and repo.commit_at(tip).author.kind == "person"
        if start is not None and not is_theirs:
            purpose = f"sub-agent {start.agent} of run {short_run(start.parent_run)}"
        if purpose:
            found[name] = purpose
    return found


def is_temporary(branch: str) -> bool:
    """Whether its name alone says that it is such a branch."""
    return bool(purpose_text(branch))


def purpose_text(branch: str) -> str:
    """What such a branch is, in words; "" of any other, and of those of sub-agents, which no name tells from others."""
    race, number = candidate(branch)
    if number:
        return f"candidate {number} of race {race}"
    return "tried on a fork, waiting" if preview(branch) is not None else ""
