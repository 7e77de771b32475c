"""What IPython calls the code of a step in tracebacks: "step 2 of analyst".

By itself it calls it by the count of the next cell, which is another one. The name lasts: a function that a step defined
is still of that step when it fails in a later cell.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_kernel.agents.effects import gate_here, names_step
from agent_kernel.agents.running_step import running_course

if TYPE_CHECKING:
    from agent_kernel.magics.shell import Shell

__all__ = ["called_by_its_step"]


class _Step(int):
    """A cell's number, as IPython counts it in file names, which reads as a step."""

    said: str

    def __str__(self) -> str:
        return self.said

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)


@contextmanager
def called_by_its_step(shell: Shell) -> Generator[None]:
    """Let what is compiled meanwhile go by the step that runs."""
    course = running_course()
    if course is None:
        yield
        return
    compiler, cache = shell.compile, shell.compile.cache
    said, gate = f"step {course.step} of {course.author.name}", gate_here()

    def cached(transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        if not isinstance(number, _Step):  # else it is of an agent that this step asked
            number = _Step(number)
            number.said = said
        name = cache(transformed_code, number, raw_code)
        names_step(name)
        if gate is not None:
            gate.files.add(name)
        return name

    vars(compiler)["cache"] = cached
    try:
        yield
    finally:
        vars(compiler)["cache"] = cache
