"""Run a step of an agent as the notebook runs a cell: magics, displays and figures work, and what it shows is kept."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import sys
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Protocol, cast

from agent_kernel.agents.effects import gate_here, names_step
from agent_kernel.agents.events import Part
from agent_kernel.agents.execution import Executed, PlainExecutor, Settled, is_raised_by_code
from agent_kernel.agents.gate import EffectStopped
from agent_kernel.agents.limits import StepTimeout, Unheeded, within
from agent_kernel.agents.running_step import running_executor

if TYPE_CHECKING:
    from agent_kernel.magics.outputs.recorder import OutputRecorder
    from agent_kernel.magics.shell import Shell
    from agent_kernel.repository import Outputs
    from agent_kernel.repository.blobs import Output as KeptOutput

__all__ = ["ForkedShell", "OwnNamespace", "Runner", "ShellExecutor", "beside", "called_by_its_step", "fresh"]


# -- let a step await while the notebook's own event loop runs, as in a kernel it does: on a loop of its own
#
# A cell awaits in the kernel's loop. A step runs within a cell, so that loop is busy until the cell has ended, and a loop
# cannot be run from inside itself. So the thread steps out of it for as long as the step takes. What a step leaves pending in
# its loop is cancelled at its end.

Runner = Callable[[Coroutine[Any, Any, object]], object]


def beside(runner: Runner) -> Runner:
    """What runs coroutines as this does, also where a loop runs already."""

    def run(coroutine: Coroutine[Any, Any, object]) -> object:
        outer = asyncio._get_running_loop()
        if outer is None:
            return runner(coroutine)
        with _stepped_out(outer):
            loop = asyncio.new_event_loop()
            try:
                return _run(loop, coroutine)
            finally:
                _end(loop)

    return run


def _run(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, object]) -> object:
    """Run it to its end. An interrupt that comes while the loop waits is raised where the coroutine awaits."""
    raised: list[BaseException] = []
    task = loop.create_task(_driven(coroutine, raised))
    try:
        return loop.run_until_complete(task)
    except BaseException as error:
        if task.done():
            raise
        raised.append(error)
        task.cancel()
        return loop.run_until_complete(task)


async def _driven(coroutine: Coroutine[Any, Any, object], raised: list[BaseException]) -> object:
    return await _steps(coroutine, raised)


@types.coroutine
def _steps(coroutine: Coroutine[Any, Any, object], raised: list[BaseException]) -> Generator[Any, None, object]:
    """What it awaits, one after the other. Where that is cancelled for what was raised elsewhere, it meets that instead."""
    error: BaseException | None = None
    while True:
        try:
            waits = coroutine.send(None) if error is None else coroutine.throw(error)
        except StopIteration as done:
            return done.value
        try:
            yield waits
            error = None
        except BaseException as thrown:  # noqa: BLE001 - it is thrown on
            error = raised.pop() if raised else thrown


@contextmanager
def _stepped_out(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """This thread, as if the loop that runs on it did not. There is no public way."""
    task: asyncio.Task[Any] | None = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


# -- what IPython calls the code of a step in tracebacks: "step 2 of analyst"
#
# By itself it calls it by the count of the next cell, which is another one. The name lasts: a function that a step defined
# is still of that step when it fails in a later cell.


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
    run_executor = running_executor()
    if run_executor is None:
        yield
        return
    compiler, cache = shell.compile, shell.compile.cache
    said, gate = f"step {run_executor.step} of {run_executor.author.name}", gate_here()

    def cached(transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        if not isinstance(number, _Step):  # else it is of an agent that this step asked
            number = _Step(number)
            number.said = said
        name = cache(transformed_code, number, raw_code)
        names_step(name, has_gate=gate is not None)
        if gate is not None:
            gate.files.add(name)
        return name

    vars(compiler)["cache"] = cached
    try:
        yield
    finally:
        vars(compiler)["cache"] = cache


_ENDINGS = (Settled, EffectStopped, Unheeded)  # what ends a step and is no error of its code
_TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json")


class DisplayHook(Protocol):
    """What shows the value of a cell, and notes it in the cell's result."""

    exec_result: object

    def write_output_prompt(self) -> None: ...


class _ShowsUnderTheCell:
    """Shows what a step showed elsewhere. It is the step's, as the run has it: of the cell's own outputs it is no part."""

    _outputs: OutputRecorder

    def show(self, text: str) -> None:
        self._outputs.begin_step()
        try:
            sys.stdout.write(text)
        finally:
            self._outputs.end_step()


class ShellExecutor(_ShowsUnderTheCell):
    """Runs code through IPython, within the cell that runs already."""

    in_worker = "agent_kernel.magics.tasks.running:fresh"  # makes what does so in another process

    def __init__(self, shell: Shell, outputs: OutputRecorder) -> None:
        self._shell = shell
        self._outputs = outputs

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        """Run it; never raises what the code raises."""
        began = time.perf_counter()
        error: BaseException | None = None

        ended: list[Settled] = []

        def run_cell() -> BaseException | None:
            try:
                result = self._shell.run_cell(_as_typed(code), store_history=False)
            except EffectStopped as stopped:  # what it had called after the cell
                return stopped
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
        show, own = (
            shell.showtraceback,
            vars(shell).get("showtraceback"),
        )  # its class has one; a step around this one, too

        def showing(exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
            kind = (exc_tuple or sys.exc_info())[0]
            if not (isinstance(kind, type) and issubclass(kind, _ENDINGS)):
                show(exc_tuple, *args, **kwargs)

        vars(shell)["showtraceback"] = showing  # `ipywidgets.Output` shows what ends its block, and IPython an event's
        is_terminal = getattr(shell, "kernel", None) is None
        if is_terminal:  # `Out[4]` stands before the value of the cell, which the run's is, and not before each step's
            hook.write_output_prompt = _no_prompt  # type: ignore[method-assign]
        try:
            yield
        finally:
            shell.loop_runner = runner
            vars(shell).pop("showtraceback", None)
            vars(shell).update({} if own is None else {"showtraceback": own})
            if is_terminal:
                del hook.write_output_prompt  # the class has its own
            shell.custom_exceptions, shell.CustomTB = kinds, handler
            hook.exec_result = outer  # or the value of the cell around it would be lost


def _no_prompt() -> None:
    """Write nothing before a value."""


class OwnNamespace(_ShowsUnderTheCell, PlainExecutor):
    """Runs code as a script would, in a namespace that is not the notebook's; what it shows stands under the cell all the same."""

    def __init__(self, namespace: dict[str, object], outputs: OutputRecorder) -> None:
        super().__init__(namespace)
        self._outputs = outputs

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        done = super().run(code, timeout_s=timeout_s)
        self.show(done.text)
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


def _faces(output: KeptOutput) -> list[Part]:
    texts = {face.mime: face.text for face in output.faces if face.text}
    said = next((texts[mime] for mime in _TEXTS if mime in texts), None)
    parts = [Part("text/plain", f"{said}\n")] if said is not None else []
    return [*parts, *(Part(face.mime) for face in output.faces if face.mime.startswith("image/"))]


# -- run a step of an agent on a fork of the kernel: what it shows is kept as text, and nothing is sent to a front end
#
# The kernel's connections belong to its process: what a fork sent through them would reach a front end in the parent's
# name, or break them. So IPython only says what magics mean in Python there, and displays are written as text.


def fresh(module: ModuleType) -> ForkedShell:
    """The same in a process that was not forked, with a shell of its own for this module."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    made: Any = InteractiveShell  # IPython gives it no types
    shell = made.instance(
        user_module=module, user_ns=vars(module), config=Config({"HistoryManager": {"enabled": False}})
    )
    return ForkedShell(shell)


class _AsText:
    """In place of what publishes displays."""

    is_publishing = False

    def publish(self, data: Mapping[str, str], *_: object, **__: object) -> None:
        text = data.get("text/plain", "")
        if text:
            sys.stdout.write(f"{text}\n")

    def clear_output(self, wait: bool = False) -> None:
        """There is nothing to clear."""


class ForkedShell(PlainExecutor):
    """Runs code in a notebook's namespace, with its magics, in a process that must not use its connections."""

    def __init__(self, shell: Shell) -> None:
        super().__init__(shell.user_ns)
        self._shell = shell

    def skip(self, name: str) -> bool:
        """Whether IPython itself put this name into the namespace."""
        from agent_kernel.magics.binding import is_shells_own

        return is_shells_own(name, self._shell.user_ns, self._shell.user_ns_hidden)

    def run(self, code: str, *, timeout_s: float | None) -> Executed:
        self._shell.display_pub = _AsText()
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self._shell.autoawait else 0
        return super().run(self._shell.transform_cell(code), timeout_s=timeout_s)

    def _evaluated(self, codes: Sequence[CodeType]) -> object:
        """Code that awaits has an event loop of its own: the kernel's belongs to its process."""
        if not any(code.co_flags & inspect.CO_COROUTINE for code in codes):
            return super()._evaluated(codes)
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            return loop.run_until_complete(self._awaited(codes))

    async def _awaited(self, codes: Sequence[CodeType]) -> object:
        value: object = None
        for code in codes:
            value = eval(code, self._namespace)
            if code.co_flags & inspect.CO_COROUTINE:
                value = await cast("Awaitable[object]", value)
        return value
