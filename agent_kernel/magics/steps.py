"""The steps of agents in a notebook: run as it runs a cell, and shown in the cell of their run as they go.

Magics, displays and figures work in a step, and what it shows is kept. Above it stands what the model thinks and writes.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import time
import types
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import msgspec

from agent_kernel.agents.agent_undo import DENIED
from agent_kernel.agents.events import (
    Action,
    ApprovalDecided,
    ApprovalRequested,
    Cancelled,
    Clarify,
    Effect,
    Error,
    Event,
    Fail,
    Output,
    Part,
    Retry,
    Rewound,
    StateChange,
    StepStart,
    SubRun,
    Success,
    TaskStart,
)
from agent_kernel.agents.execution import CodeResult, PlainExecutor, TaskEnd, is_raised_by_code
from agent_kernel.agents.gate import EffectStopped
from agent_kernel.agents.limits import StepTimeout, Unheeded, within
from agent_kernel.agents.messages import open_action
from agent_kernel.agents.models import Delta
from agent_kernel.agents.rights import running_executor
from agent_kernel.agents.side_effects import current_gate, register_step_file
from agent_kernel.queries import RUN
from agent_kernel.queries.text_diff import html_of, pieces_of
from agent_kernel.text import clean, clean_lines, cut, duration, plural

if TYPE_CHECKING:
    from agent_kernel.magics.binding import OutputRecorder
    from agent_kernel.magics.shell import Shell
    from agent_kernel.repository import Outputs
    from agent_kernel.repository.objects import Output as KeptOutput


# -- let a step await while the notebook's own event loop runs, as in a kernel it does: on a loop of its own
#
# A cell awaits in the kernel's loop. A step runs within a cell, so that loop is busy until the cell has ended, and a loop
# cannot be run from inside itself. So the thread steps out of it for as long as the step takes. What a step leaves pending in
# its loop is cancelled at its end.

Runner = Callable[[Coroutine[Any, Any, object]], object]


def nest_runner(runner: Runner) -> Runner:
    """What runs coroutines as this does, also where a loop runs already."""

    def run(coroutine: Coroutine[Any, Any, object]) -> object:
        outer = asyncio._get_running_loop()
        if outer is None:
            try:
                return runner(coroutine)
            finally:
                if inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED:  # it would not end, and was left
                    _leave_loop_of_terminal()
        with _leave_loop(outer):
            loop = asyncio.new_event_loop()
            try:
                return _run(loop, coroutine)
            finally:
                _end(loop)

    return run


_LEFT: Final[
    list[asyncio.AbstractEventLoop]
] = []  # if they went, what is left in them would be told to end, and would not


def _leave_loop_of_terminal() -> None:
    """Let the next cell await in a new loop: in that of before, what does not end would take all turns."""
    from IPython.core import async_helpers

    state: dict[str, Any] = async_helpers.__dict__
    loop = state.get("_asyncio_event_loop")
    if loop is not None and not loop.is_running():
        _LEFT.append(loop)
        state["_asyncio_event_loop"] = None


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
def _leave_loop(loop: asyncio.AbstractEventLoop) -> Generator[None]:
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
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


# -- what IPython calls the code of a step in tracebacks: "step 2 of analyst"
#
# By itself it calls it by the count of the next cell, which is another one. The name lasts: a function that a step defined
# is still of that step when it fails in a later cell.


class _StepNumber(int):
    """A cell's number, as IPython counts it in file names, which reads as a step."""

    label: str

    def __str__(self) -> str:
        return self.label

    def __format__(self, spec: str) -> str:
        return format(int(self), spec)


@contextmanager
def _name_after_step(shell: Shell) -> Generator[None]:
    """Let what is compiled meanwhile go by the step that runs."""
    run_executor = running_executor()
    if run_executor is None:
        yield
        return
    compiler, cache = shell.compile, shell.compile.cache
    label, gate = f"step {run_executor.step} of {run_executor.author.name}", current_gate()

    def cache_named(transformed_code: str, number: int = 0, raw_code: str | None = None) -> str:
        if not isinstance(number, _StepNumber):  # else it is of an agent that this step asked
            number = _StepNumber(number)
            number.label = label
        name = cache(transformed_code, number, raw_code)
        register_step_file(name, has_gate=gate is not None)
        if gate is not None:
            gate.files.add(name)
        return name

    vars(compiler)["cache"] = cache_named
    try:
        yield
    finally:
        vars(compiler)["cache"] = cache


_ENDINGS = (TaskEnd, EffectStopped, Unheeded)  # what ends a step and is no error of its code
_TEXTS = ("text/plain", "text/markdown", "text/latex", "application/json")


class DisplayHook(Protocol):
    """What shows the value of a cell, and notes it in the cell's result."""

    exec_result: object

    def write_output_prompt(self) -> None: ...


class _ShowsInCell:
    """Shows what a step showed elsewhere. It is the step's, as the run has it: of the cell's own outputs it is no part."""

    _outputs: OutputRecorder

    def show(self, text: str) -> None:
        self._outputs.begin_step()
        try:
            sys.stdout.write(text)
        finally:
            self._outputs.end_step()


class ShellExecutor(_ShowsInCell):
    """Runs code through IPython, within the cell that runs already."""

    in_worker = "agent_kernel.magics.steps:make_worker_shell"  # makes what does so in another process

    def __init__(self, shell: Shell, outputs: OutputRecorder) -> None:
        self._shell = shell
        self._outputs = outputs

    def run(self, code: str, *, timeout_s: float | None) -> CodeResult:
        """Run it; never raises what the code raises."""
        began = time.perf_counter()
        error: BaseException | None = None

        ended: list[TaskEnd] = []

        def run_cell() -> BaseException | None:
            try:
                result = self._shell.run_cell(_as_typed(code), store_history=False)
            except EffectStopped as stopped:  # what it had called after the cell
                return stopped
            found = result.error_before_exec or result.error_in_exec
            ended.extend([found] if isinstance(found, TaskEnd) else [])
            return found

        self._outputs.begin_step()
        try:
            with self._as_part_of_the_cell(), _name_after_step(self._shell):
                error = within(timeout_s, run_cell)
        except (KeyboardInterrupt, StepTimeout) as raised:  # IPython keeps the interrupt: the deadline says it was one
            error = next(iter(ended), raised)
        finally:
            outputs = self._outputs.end_step()
        task_end = error if isinstance(error, TaskEnd) else None
        parts = _parts(outputs)
        text = "".join(part.text for part in parts)
        seconds = time.perf_counter() - began
        return CodeResult(text, parts, outputs, None if task_end else error, task_end, seconds)

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
        shell.loop_runner = nest_runner(runner)
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


class OwnNamespace(_ShowsInCell, PlainExecutor):
    """Runs code as a script would, in a namespace that is not the notebook's; what it shows stands under the cell all the same."""

    def __init__(self, namespace: dict[str, object], outputs: OutputRecorder) -> None:
        super().__init__(namespace)
        self._outputs = outputs

    def run(self, code: str, *, timeout_s: float | None) -> CodeResult:
        result = super().run(code, timeout_s=timeout_s)
        self.show(result.text)
        return result


def _as_typed(code: str) -> str:
    """The code, with what a semicolon at its end means said in Python: IPython looks for it in the cell around this one."""
    last = code.rstrip().rpartition("\n")[2]
    is_hidden = last.rstrip().endswith(";") and not last.lstrip().startswith(("%", "!", "#"))
    return f"{code}\npass" if is_hidden else code


def _parts(outputs: Outputs | None) -> tuple[Part, ...]:
    """What was shown, in the faces that a model can read; of others their type."""
    found: list[Part] = []
    for output in outputs.outputs if outputs is not None else ():
        if output.kind == "stream":
            found.append(Part("text/plain", output.text))
        elif output.kind == "error":
            found.append(Part("text/plain", "\n".join(output.traceback) + "\n"))
        elif output.representations:
            found += _faces(output)
        elif output.kind == "gap":
            found.append(Part("text/plain", f"[… {output.size:,} bytes left out …]\n"))
    return tuple(found)


def _faces(output: KeptOutput) -> list[Part]:
    texts = {face.mime: face.text for face in output.representations if face.text}
    text = next((texts[mime] for mime in _TEXTS if mime in texts), None)
    parts = [Part("text/plain", f"{text}\n")] if text is not None else []
    return [*parts, *(Part(face.mime) for face in output.representations if face.mime.startswith("image/"))]


# -- run a step of an agent on a fork of the kernel: what it shows is kept as text, and nothing is sent to a front end
#
# The kernel's connections belong to its process: what a fork sent through them would reach a front end in the parent's
# name, or break them. So IPython only says what magics mean in Python there, and displays are written as text.


def make_worker_shell(module: ModuleType) -> ForkedShell:
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

    def publish(self, data: Mapping[str, object], *_: object, **__: object) -> None:
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

    def run(self, code: str, *, timeout_s: float | None) -> CodeResult:
        self._shell.display_pub = _AsText()
        self._flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT if self._shell.autoawait else 0
        return super().run(self._shell.transform_cell(code), timeout_s=timeout_s)


# -- show a run in the cell that it runs in: what the model thinks and writes as it comes, how it ended, and all of it as text

_ENDS = Success | Fail | Cancelled
_MOST_LINE: Final = 500  # characters of what a preview found
_STATES = {
    "writing": "writing …",
    "running": "running …",
    "waiting": "waiting for you",
    "broken": "broken off",
    "denied": "denied",
}


class Step(msgspec.Struct):
    """One answer of the model, and what became of its code; it grows as the run goes on."""

    number: int
    thinking: str = ""
    text: str = ""
    code: str = ""
    tokens: int = 0
    state: str = "writing"  # writing, waiting, running, broken: the answer broke off, denied, "": it is over
    attempt: int = 1
    duration_s: float | None = None
    notes: list[str] = msgspec.field(default_factory=list[str])
    is_on_card: bool = False  # its code stands on a card that asks about it

    @property
    def is_empty(self) -> bool:
        return not (self.thinking or self.text or self.code)

    def make_next(self) -> Step:
        """What the model writes next: the next step, or, where this answer broke off, the same one anew."""
        return Step(self.number, attempt=self.attempt + 1) if self.state == "broken" else Step(self.number + 1)

    def is_same(self, other: Step | None) -> bool:
        """Whether they stand in one place. The step that was written is another object than what it was made whole with."""
        return other is not None and (self.number, self.attempt) == (other.number, other.attempt)

    @property
    def status(self) -> str:
        """`step 2 · 0.42 s · 1,240 tokens`, or that it goes on."""
        parts = [f"step {self.number}" if self.code or self.duration_s is not None else ""]
        parts += [_STATES.get(self.state, "")]
        parts += ["" if self.duration_s is None else duration(self.duration_s)]
        parts += [f"{plural(self.tokens, 'token')}" if self.tokens else ""]
        return " · ".join(filter(None, parts))


class RunDisplay(Protocol):
    """Where a run is shown. `last`: the step that was shown last, also where the run stopped since, and goes on."""

    last: Step | None

    def open(self, run: str) -> None:
        """This run is shown here from now on, and nothing of it is there yet."""
        ...

    def begin(self, start: TaskStart) -> None:
        """A run begins."""
        ...

    def step(self, step: Step, *, whole: bool) -> None:
        """A step as it stands now. `whole`: the model has written all of it."""
        ...

    def line(self, text: str, *, strong: bool = False) -> None:
        """One line beside the steps."""
        ...

    def progress(self, text: str) -> None:
        """How far it is: a line that takes the place of the one before, where that can be."""
        ...


def find_open_step(events: Sequence[Event]) -> Step | None:
    """The step that a run goes on with, where it stopped in the middle of one; else its last one, which is over."""
    action, _ = open_action(events)
    if action is None or action.step is None:
        last = max((event.step for event in events if event.step is not None), default=0)
        return Step(last, state="") if last else None
    tokens = action.usage.output_tokens
    return Step(action.step, action.thinking, action.text, action.code or "", tokens, state="")


def show_events(
    items: Iterator[Event | Delta],
    display: RunDisplay,
    asks: Callable[[str], bool],
    ends: Callable[[str], bool],
    first: Step | None = None,
    changes: Callable[[str], str] = lambda _: "",
) -> None:
    """Show all of a run's events as they come.

    Args:
        first: what the run goes on with, where nothing of it was shown at this place.
        asks: shows that this run waits for a person, with a step or a question; returns False where only lines can be shown.
        ends: shows how this run ended, in the same way.
        changes: says what this run changed, where lines have to say it.
    """
    step = display.last or first or Step(1)
    last: Event | None = None
    for item in items:
        if isinstance(item, Delta):
            if step.state != "writing":
                step = step.make_next()
            setattr(step, item.kind, getattr(step, item.kind) + item.text)
            display.step(step, whole=False)
            continue
        last = item
        if isinstance(item, TaskStart):
            display.begin(item)
        elif isinstance(item, Action):
            # Its own code is what runs: the pieces that came before may have been cut short and sent again.
            tokens = item.usage.output_tokens
            state = "running" if item.code is not None else ""
            grown = step if step.state == "writing" else step.make_next()
            step = msgspec.structs.replace(
                grown,
                number=item.step or grown.number,
                thinking=item.thinking,
                text=item.text,
                code=item.code or "",
                tokens=tokens,
                state=state,
            )
            display.step(step, whole=True)
        else:
            _show_event(item, step, display)
    if isinstance(last, ApprovalRequested):
        _show_request(last, step, display, asks)
    if isinstance(last, Clarify) and not asks(last.run):
        _show_end(last, display)
    if isinstance(last, _ENDS):
        if not ends(last.run):
            _show_end(last, display)
            if changed := changes(last.run):
                display.line(changed)
        elif isinstance(last, Success) and not last.type and last.result:  # it is no value, which the cell would show
            display.line(last.result)


def _show_end(event: Event, display: RunDisplay) -> None:
    """What the run came to, and in plain letters what can be done."""
    for at, line in enumerate(lines_of(event)):
        display.line(line, strong=at == 0)


def _show_request(event: ApprovalRequested, step: Step, display: RunDisplay, asks: Callable[[str], bool]) -> None:
    if asks(event.run):
        step.is_on_card = True
        display.step(step, whole=True)
        return
    for line in lines_of(event):
        display.line(line, strong=True)
    display.line("%agent approve runs it, %agent edit changes it first, %agent deny REASON does not")


def _show_event(event: Event, step: Step, display: RunDisplay) -> None:
    """Something else than the model's words: most of it belongs to the step."""
    if isinstance(event, ApprovalRequested):
        step.state = "waiting"  # it may be decided already: nobody can be asked
        display.step(step, whole=True)
        return
    if isinstance(event, Error) and event.source == "model":
        _broke_off(event, step, display)
        return
    if isinstance(event, _ENDS | Clarify):
        return  # said at the end
    step.is_on_card = False
    if event.step is not None and event.step != step.number:
        # It goes on in another process than it began in: of the step before nothing is known here.
        step.number, step.code, step.text, step.thinking = event.step, "", "", ""
    if isinstance(event, StepStart):
        step.code = event.code or step.code  # what was approved may be other code
        step.state = "running"
    elif isinstance(event, Output):
        is_denied = event.status == "denied"  # it took no time: it did not run
        step.state, step.duration_s = ("denied", None) if is_denied else ("", event.duration_s)
    notes = list(lines_of(event))
    step.notes += notes
    if notes or isinstance(event, StepStart | Output):
        display.step(step, whole=True)


def _broke_off(event: Error, step: Step, display: RunDisplay) -> None:
    """The model did not answer. What it had written by then is closed, so that the next answer begins by itself."""
    if step.state == "writing" and not (step.is_empty and not event.fatal):
        step.state = "broken"
    notes = list(lines_of(event))
    step.notes += notes
    if notes or not step.is_empty:
        display.step(step, whole=True)


def lines_of(event: Event) -> Iterator[str]:
    """What is said of an event besides the code and what the code itself shows."""
    match event:
        case TaskStart():
            yield f"{event.agent} · {event.model}"
        case ApprovalRequested():
            risky = [one for one in event.findings if one.risky] or list(event.findings)
            yield f"{event.agent} wants to run step {event.step}"
            yield from (f"  {one.kind}: {one.what}" for one in risky)
            if event.preview or event.told:
                from agent_kernel.commands.agents import preview_lines

                yield from (f"  {cut(line, _MOST_LINE)}" for line in preview_lines(event))
        case ApprovalDecided(decision="deny", by="policy"):
            yield f"Step {event.step} was denied: {event.reason}."
        case Rewound() if event.steps:
            named = ", ".join(map(str, event.steps))
            yield f"goes on without {'step' if len(event.steps) == 1 else 'steps'} {named}, not in the history here"
        case StateChange() if event.unsaved:
            yield from (f"{name} is not saved: {reason}" for name, reason in event.unsaved)
        case Output(status="timeout"):
            yield f"step {event.step} ran too long and was interrupted"
        case Output(status="unknown"):
            yield f"it is not known whether step {event.step} ran to its end; it is not run again"
        case SubRun(status="interrupted") if event.branch:
            yield f"what {event.child_agent} had done is on branch {event.branch}, until the run goes on or is undone"
        case Effect():
            times = f" ({event.count} times)" if event.count > 1 else ""
            yield f"outside the variables: {event.text}{times}"
        case Error(source="model", fatal=False):  # else the run ends with it, and says so
            yield f"{event.message}; trying again"
        case Retry():
            yield "the answer did not fit; the model tries again"
        case Success():
            yield f"done: {event.result}" if event.result else "done"
        case Fail():
            yield event.reason if event.reason.startswith("stopped after ") else f"failed: {event.reason}"
            yield "%agent resume tries again with the same limits."
        case Clarify():
            yield f"{event.agent} asks: {event.question}"
            yield "%agent resume ANSWER goes on"
        case Cancelled():
            why = f": {event.reason}" if event.during == DENIED else ""
            yield "stopped; %agent resume goes on" if not event.final else f"given up{why}"
        case _:
            pass


class Terminal:
    """Shows a run by printing: a step when it is whole, and then what is noted of it."""

    def __init__(self) -> None:
        self.last: Step | None = None
        self._noted = 0

    def open(self, run: str) -> None:
        pass

    def begin(self, start: TaskStart) -> None:
        for line in lines_of(start):
            self.line(line)

    def step(self, step: Step, *, whole: bool) -> None:
        if not whole:
            return
        if step is not self.last:
            self.last, self._noted = step, 0
            lines = [clean(line) for line in step.text.splitlines() if line.strip()]
            if lines or step.code:
                print(*lines, *(f"    {line}" for line in step.code.splitlines()), sep="\n")
        for note in step.notes[self._noted :]:
            self.line(note)
        self._noted = len(step.notes)

    def progress(self, text: str) -> None:
        self.line(text)

    def line(self, text: str, *, strong: bool = False) -> None:
        print(f"[agent] {clean(text)}")


# -- a run as a notebook shows it: one quiet block for each step, which grows as the model writes
#
# HTML with styles inline and without scripts, so that it reads the same in a saved notebook and on a page made of one, on a
# light and on a dark ground. What the code of a step shows comes below its block, as what a cell shows comes below its code.

_PATIENCE_S: Final = 0.08  # between two looks at a step that is being written
_UI: Final = "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:20px"
_CODE: Final = "font-family:var(--jp-code-font-family,monospace);font-size:12px;line-height:20px"
_SMALL: Final = "font-size:11px;line-height:20px;opacity:.7"
_RULE: Final = "border-left:2px solid color-mix(in srgb,#1976d2 75%,currentColor 15%);padding-left:12px"

_UNFINISHED: Final = re.compile("(writing|running) …")
_TYPED: Final = re.compile(r"%agent \w+(?: [A-Z]+)*\b")  # what is to be typed


class Handle(Protocol):
    """A display that can be changed."""

    def display(self, data: object, *, raw: bool) -> None: ...
    def update(self, data: object, *, raw: bool) -> None: ...


class Notebook:
    """Shows a run in displays."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self.last: Step | None = None
        self._handle: Handle | None = None
        self._is_free = False  # what the handle shows is empty: the next step goes there
        self._run: dict[str, object] = {}
        self._updated_s = 0.0
        self._progress: Handle | None = None

    def open(self, run: str) -> None:
        """Keep a place for the first step. Should this kernel die, nothing more is written: a front end then asks for the run."""
        self._run = {RUN: {"version": 1, "run": run}}
        self._handle, self._is_free = _new_handle(), True
        self._handle.display({"text/plain": "", "text/html": "", **self._run}, raw=True)

    def begin(self, start: TaskStart) -> None:
        self._publish(_paragraph(f"■ {start.agent} · {start.model}", _SMALL), f"{start.agent} · {start.model}")

    def step(self, step: Step, *, whole: bool) -> None:
        now = time.monotonic()
        is_new = not step.is_same(self.last)
        if not is_new and not whole and now - self._updated_s < _PATIENCE_S:
            return
        self._updated_s = now
        if self._handle is None or (is_new and not self._is_free):
            self._handle = _new_handle()
            self._handle.display({**_bundle(step), **self._run}, raw=True)
        else:
            self._handle.update({**_bundle(step), **self._run}, raw=True)
        self._is_free = False
        self.last = step

    def line(self, text: str, *, strong: bool = False) -> None:
        self._publish(_paragraph(text, f"{_UI};padding-left:14px;font-weight:{600 if strong else 400}"), text)

    def progress(self, text: str) -> None:
        data = {"text/plain": clean(text), "text/html": _paragraph(text, f"{_UI};{_SMALL}")}
        if self._progress is None:
            self._progress = _new_handle()
            self._progress.display(data, raw=True)
        else:
            self._progress.update(data, raw=True)

    def _publish(self, html: str, text: str) -> None:
        self._shell.display_pub.publish({"text/plain": clean(text), "text/html": html})


def _new_handle() -> Handle:
    from IPython.display import DisplayHandle

    return cast("Callable[[], Handle]", DisplayHandle)()  # IPython gives it no types


def _paragraph(text: str, style: str) -> str:
    content = _TYPED.sub(rf'<code style="{_CODE};background:none;color:inherit">\g<0></code>', escape(clean(text)))
    return f'<div class="agent-kernel" style="{style}">{content}</div>'


def _bundle(step: Step) -> dict[str, str]:
    text, code = clean_lines(step.text).strip(), "" if step.is_on_card else clean_lines(step.code)
    broken = step.status if step.state == "broken" else ""
    plain = "\n".join(filter(None, (text, code, broken, *map(clean, step.notes))))
    is_broken = step.state == "broken"
    struck = ";text-decoration:line-through;opacity:.6" if is_broken else ""
    parts = [
        _thinking(clean_lines(step.thinking).strip(), is_open=not (text or code)),
        f'<div style="{_UI};white-space:pre-wrap;margin:0 0 2px{struck}">{escape(text)}</div>' if text else "",
        _code(code, struck) if code else "",
        f'<div style="{_UI};{_SMALL};font-variant-numeric:tabular-nums">{_status(step)}</div>'
        if code or not text or is_broken
        else "",
        *(f'<div style="{_UI};{_SMALL}">{escape(clean(note))}</div>' for note in step.notes),
    ]
    style = f"margin:4px 0;{_RULE if code else 'padding-left:14px'}"
    return {"text/plain": plain, "text/html": f'<div class="agent-kernel-step" style="{style}">{"".join(parts)}</div>'}


def _status(step: Step) -> str:
    """How the step stands. A front end takes back that it goes on if the kernel dies."""
    content = escape(step.status)
    is_unfinished = step.state in ("writing", "running")
    return _UNFINISHED.sub(r'<span class="agent-kernel-going">\g<0></span>', content) if is_unfinished else content


def _thinking(text: str, *, is_open: bool) -> str:
    if not text:
        return ""
    content = f'<div style="white-space:pre-wrap;padding:2px 0 4px 14px">{escape(text)}</div>'
    summary = '<summary style="cursor:pointer;display:list-item">thinking</summary>'
    return f'<details style="{_UI};{_SMALL};margin:0"{" open" if is_open else ""}>{summary}{content}</details>'


def _code(code: str, style: str = "") -> str:
    pieces = html_of(pieces_of(code.rstrip()))
    return (
        f'<pre style="{_CODE};margin:0;padding:0;border:0;background:none;color:inherit;overflow-x:auto{style}">'
        f"{pieces}</pre>"
    )
