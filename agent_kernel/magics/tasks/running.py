"""Run a step of an agent as the notebook runs a cell: magics, displays and figures work, and what it shows is kept."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

from agent_kernel.agents.deadlines import StepTimeout, Unheeded, within
from agent_kernel.agents.events import Part
from agent_kernel.agents.executing import Executed, PlainExecutor, is_raised_by_code
from agent_kernel.agents.gate import EffectStopped
from agent_kernel.agents.settling import Settled
from agent_kernel.magics.tasks.called import called_by_its_step
from agent_kernel.magics.tasks.looping import beside

if TYPE_CHECKING:
    from agent_kernel.magics.outputs.recorder import OutputRecorder
    from agent_kernel.magics.shell import Shell
    from agent_kernel.magics.tasks.forked import ForkedShell
    from agent_kernel.repository import Outputs
    from agent_kernel.repository.outputs import Output

__all__ = ["OwnNamespace", "ShellExecutor"]

_ENDINGS = (Settled, EffectStopped, Unheeded)  # what ends a step and is no error of its code
_TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json")


class DisplayHook(Protocol):
    """What shows the value of a cell, and notes it in the cell's result."""

    exec_result: object

    def write_output_prompt(self) -> None: ...


class ShellExecutor:
    """Runs code through IPython, within the cell that runs already."""

    in_worker = "agent_kernel.magics.tasks.forked:fresh"  # makes what does so in another process

    def __init__(self, shell: Shell, outputs: OutputRecorder) -> None:
        self._shell = shell
        self._outputs = outputs

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        """Run it; never raises what the code raises."""
        began = time.perf_counter()
        error: BaseException | None = None

        ended: list[Settled] = []

        def run_cell() -> BaseException | None:
            result = self._shell.run_cell(_as_typed(code), store_history=False)
            found = result.error_before_exec or result.error_in_exec
            ended.extend([found] if isinstance(found, Settled) else [])
            return found

        self._outputs.begin_step()
        try:
            with self._as_part_of_the_cell(), called_by_its_step(self._shell):
                error = within(timeout_s, run_cell)
        except (KeyboardInterrupt, StepTimeout) as raised:  # IPython keeps the interrupt: the deadline says it was one
            error = next(iter(ended), raised)
        finally:
            kept = self._outputs.end_step()
        settled = error if isinstance(error, Settled) else None
        parts = _parts(kept)
        text = "".join(part.text for part in parts)
        seconds = time.perf_counter() - began
        return Executed(text, parts, kept, None if settled else error, settled, seconds)

    def in_fork(self) -> ForkedShell:
        """What runs code in a forked child."""
        from agent_kernel.magics.tasks.forked import ForkedShell

        return ForkedShell(self._shell)

    @contextmanager
    def _as_part_of_the_cell(self) -> Generator[None]:
        """What IPython does not know of cells within cells.

        An agent that ends its run raises, and so does what stops it, as a person's interrupt: none is to be shown as an error.
        """
        shell = self._shell
        hook = cast("DisplayHook", shell.displayhook)
        outer = hook.exec_result
        kinds, handler = shell.custom_exceptions, shell.CustomTB

        def quiet(kind: type[BaseException], error: BaseException, trace: object, offset: int | None = None) -> object:
            is_interrupt = issubclass(kind, KeyboardInterrupt) and not is_raised_by_code(error)
            if is_interrupt or issubclass(kind, _ENDINGS):
                return None
            if issubclass(kind, kinds):
                return handler(kind, error, trace, offset)
            shell.showtraceback((kind, error, trace))
            return None

        runner = shell.loop_runner
        shell.custom_exceptions, shell.CustomTB = (*kinds, *_ENDINGS, KeyboardInterrupt), quiet
        shell.loop_runner = beside(runner)
        is_terminal = getattr(shell, "kernel", None) is None
        if is_terminal:  # `Out[4]` stands before the value of the cell, which the run's is, and not before each step's
            hook.write_output_prompt = _no_prompt  # type: ignore[method-assign]
        try:
            yield
        finally:
            shell.loop_runner = runner
            if is_terminal:
                del hook.write_output_prompt  # the class has its own
            shell.custom_exceptions, shell.CustomTB = kinds, handler
            hook.exec_result = outer  # or the value of the cell around it would be lost


def _no_prompt() -> None:
    """Write nothing before a value."""


class OwnNamespace(PlainExecutor):
    """Runs code as a script would, in a namespace that is not the notebook's; what it shows stands under the cell all the same."""

    def __init__(self, namespace: dict[str, object], outputs: OutputRecorder) -> None:
        super().__init__(namespace)
        self._outputs = outputs

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        done = super().run(code, timeout_s=timeout_s)
        self._outputs.begin_step()  # it is the step's, as the run has it: of the cell's own outputs it is no part
        try:
            sys.stdout.write(done.text)
        finally:
            self._outputs.end_step()
        return done


def _as_typed(code: str) -> str:
    """The code, with what a semicolon at its end means said in Python: IPython looks for it in the cell around this one."""
    last = code.rstrip().rpartition("\n")[2]
    is_hidden = last.rstrip().endswith(";") and not last.lstrip().startswith(("%", "!", "#"))
    return f"{code}\npass" if is_hidden else code


def _parts(kept: Outputs | None) -> tuple[Part, ...]:
    """What was shown, in the faces that a model can read; of others their type."""
    found: list[Part] = []
    for output in kept.outputs if kept is not None else ():
        if output.kind == "stream":
            found.append(Part("text/plain", output.text))
        elif output.kind == "error":
            found.append(Part("text/plain", "\n".join(output.traceback) + "\n"))
        elif output.faces:
            found += _faces(output)
        elif output.kind == "gap":
            found.append(Part("text/plain", f"[… {output.size:,} bytes left out …]\n"))
    return tuple(found)


def _faces(output: Output) -> list[Part]:
    texts = {face.mime: face.text for face in output.faces if face.text}
    said = next((texts[mime] for mime in _TEXTS if mime in texts), None)
    parts = [Part("text/plain", f"{said}\n")] if said is not None else []
    return [*parts, *(Part(face.mime) for face in output.faces if face.mime.startswith("image/"))]
