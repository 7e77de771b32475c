"""What tests of races and workers share: a state in a folder, models that play scripts, and who is left afterwards."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agent_kernel.agents.models import FunctionModel, Request, ScriptedModel, Turn
from agent_kernel.session import Versioned


def scripted(*turns: str | Turn, name: str = "script") -> ScriptedModel:
    """A model that plays these turns."""
    return ScriptedModel(turns, name=name)


def by_task(answers: Mapping[str, str], name: str = "by-task") -> FunctionModel:
    """A model whose one piece of code depends on the task's first line."""

    def answer(request: Request) -> Turn:
        return Turn(answers[request.messages[0].text.partition("\n")[0]])

    return FunctionModel(answer, name)


def opened(folder: Path, **variables: object) -> Versioned:
    """A state with these variables, committed."""
    state = Versioned(folder / "store")
    state.update(variables)
    state.commit("start")
    return state


def children() -> set[int]:
    """The processes that this one has started and that are still there, zombies too."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(status.parent.name))
    return found


def until(happens: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait until it happens; raise if it does not."""
    import time

    end = time.monotonic() + timeout_s
    while not happens():
        if time.monotonic() > end:
            raise TimeoutError(happens)
        time.sleep(0.02)


def is_alive(pid: int) -> bool:
    """Whether a process runs: one that has ended may still wait for its parent to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
