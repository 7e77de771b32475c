"""What agents outside can do: look at variables and their history, run code, go back. Each answer is text, for a model.

Looking loads nothing: values are told by their previews. What looks like a secret is masked in every answer, names that
are hidden from agents are not told, and an answer has a length that a model can read. Their code runs as steps, in a
kernel or on a store: reviewed, approved, committed in their name.
"""

from __future__ import annotations

import inspect
import json
import os
import queue
import re
import sys
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from agent_kernel.agents import approval, messages
from agent_kernel.agents.agent import Agent, reopen_run, start_run
from agent_kernel.agents.agent_undo import CHANGES, KIND, SOURCE, Move, acting_as, external_model, findings
from agent_kernel.agents.current import here
from agent_kernel.agents.event_log import short_run, state_of
from agent_kernel.agents.events import Action, ApprovalRequested, Effect, Event, Output, StateChange
from agent_kernel.agents.execution import ExecutionContext
from agent_kernel.agents.limits import Limits
from agent_kernel.agents.messages import HIDDEN, Redactor
from agent_kernel.commands import describe
from agent_kernel.commands.checkout import expand_dash
from agent_kernel.commands.places import find_store
from agent_kernel.commands.scope import Scope, UsageProblem, answer
from agent_kernel.errors import (
    AgentKernelError,
    MoveNotMadeError,
    NameNotFoundError,
    NotAStoreError,
    NotBoundError,
    RunNotFoundError,
)
from agent_kernel.queries import row_lines
from agent_kernel.repository import Author, split_path
from agent_kernel.session import Repository, Versioned
from agent_kernel.session.history import summary_of
from agent_kernel.session.tracking import HideList

if TYPE_CHECKING:
    from jupyter_client.blocking.client import BlockingKernelClient

    from agent_kernel.agents.run import Run
    from agent_kernel.repository import Entry

MOST_CHARS: Final = 20_000
_MOST_NAMES: Final = 500
_WORD = re.compile(r"[^\W\d]\w*")


class ToolAnswer(msgspec.Struct, frozen=True):
    """The answer of a tool."""

    text: str
    failed: bool = False


class Tools:
    """The tools, on one namespace and its history.

    Args:
        live: the namespace, opened when it is first needed; None where nothing but looking has been asked for.
        steps: runs code in it, as steps of an agent.
    """

    def __init__(
        self,
        repo: Repository | None,
        live: Callable[[], ExecutionContext | None],
        steps: Steps,
    ) -> None:
        self._repo = repo
        self._live = live
        self._steps = steps
        self._hidden = HideList(repo) if repo is not None else None

    def call(self, tool: str, arguments: dict[str, object]) -> ToolAnswer:
        """Use a tool by its name. What goes wrong on purpose is an answer too."""
        if tool not in TOOLS:
            return ToolAnswer(f"there is no tool {tool!r}; the tools are {', '.join(TOOLS)}", failed=True)
        use: Callable[..., str] = getattr(self, tool)
        try:
            return ToolAnswer(self._clean(use(**arguments)))
        except (AgentKernelError, UsageProblem) as error:
            return ToolAnswer(self._clean(str(error)), failed=True)

    # -- looking

    def list_variables(self, ref: str = "HEAD") -> str:
        """All variables, a line each: name, type, shape and a short value.

        Args:
            ref: as they were at this commit, branch or tag; HEAD is now.
        """
        context = self._live()
        if context is not None and ref == "HEAD":
            lines = {name: _live_line(context, name) for name in context.names()[:_MOST_NAMES]}
            many = len(context.names())
        else:
            repo = self._scope().repo
            tree = repo.tree(self._scope().commit(ref)[1].tree)
            names = [name for name in tree if not name.startswith("\0") and not self._is_hidden(name)]
            lines = {name: _describe_stored(repo, name, tree.get(name)) for name in sorted(names)[:_MOST_NAMES]}
            many = len(names)
        more = [f"… and {many - len(lines)} more"] if many > len(lines) else []
        return "\n".join([*(f"{name}: {line}" for name, line in lines.items()), *more]) or "There are no variables yet."

    def preview(self, name: str, ref: str = "HEAD") -> str:
        """One variable: what it is, and the first rows of a table. No code of its own runs for it.

        Args:
            ref: as it was at this commit, branch or tag; HEAD is now.
        """
        if self._is_hidden(name):
            raise NameNotFoundError(name, ref)
        context = self._live()
        try:
            return self._run_command("show", f"{ref}:{name}")
        except NameNotFoundError:
            if context is None or ref != "HEAD" or name not in context.names():
                raise
            return f"{name}: {context.summary(name)} (not saved)"

    def history(self, limit: int = 20, name: str = "") -> str:
        """The history, newest first: commit, what ran, which variables it changed.

        Args:
            limit: at most so many commits.
            name: only those that changed this variable.
        """
        return self._run_command("log", "-n", str(max(1, min(limit, 200))), *(["--", name] if name else []))

    def show(self, ref: str = "HEAD") -> str:
        """One commit: its code, what it showed, and what it did to each variable.

        Args:
            ref: a commit, branch or tag; HEAD is the newest.
        """
        if split_path(ref)[1] is not None:
            raise UsageProblem("show takes a commit; preview takes a variable")
        return self._run_command("show", ref, "--outputs")

    def diff(self, old: str = "HEAD~1", new: str = "HEAD", name: str = "") -> str:
        """Which variables differ between two commits, and how.

        Args:
            name: only this variable.
        """
        return self._run_command("diff", old, new, *(["--", name] if name else []))

    # -- acting

    def run_python(self, code: str, purpose: str = "") -> str:
        """Run Python in the namespace. What it printed, the value of its last expression and what it changed come back.

        Variables stay from call to call. Each call is a commit in your name, which can be undone; files, processes and
        messages to others cannot. A call may have to wait for a person's approval: then it has not run, and the answer
        says what to do.

        Args:
            purpose: why, in a few words, for the person who reads the history.
        """
        return self._steps.run(code, purpose)

    def result(self, run: str) -> str:
        """What came of a call that had to wait for approval, once a person has decided.

        Args:
            run: the id that run_python gave.
        """
        if not run.strip():
            raise UsageProblem("result takes the id of a run, as run_python gave it")
        return self._steps.result(run.strip())

    def checkout(self, ref: str, name: str = "") -> str:
        """Load all variables as they were at a commit, branch or tag.

        Where that would take back what others did, it may have to wait for a person's approval, as run_python says.

        Args:
            name: only this variable, into what is there now.
        """
        move = Move(expand_dash(ref) or ref, name)
        return self._make_move(move, "checkout", ref, *(["--", name] if name else []))

    def undo(self) -> str:
        """Take back the last operation on the variables.

        Where somebody else did it, this may have to wait for a person's approval, as run_python says.
        """
        return self._make_move(Move(), "undo")

    # -- answering

    def _run_command(self, *words: str) -> str:
        return answer(words, self._scope())[0].to_text(120)

    def _make_move(self, move: Move, *words: str) -> str:
        """Make a move in the agent's name, or say what it waits for."""
        context = self._steps.open_context()
        request = self._steps.request_approval(move)
        if request or context.session is None:
            return request or self._run_command(*words)
        with acting_as(context.session, self._steps.author):
            return self._run_command(*words)

    def _scope(self) -> Scope:
        context = self._live()
        session = context.session if context is not None else None
        repo = session.repo if session is not None else self._repo
        return Scope(repo, session, command="agent-kernel", row_lines=row_lines)

    def _is_hidden(self, name: str) -> bool:
        context = self._live()
        return (
            not context.is_visible(name) if context is not None else self._hidden is not None and name in self._hidden
        )

    def _clean(self, text: str) -> str:
        """The text as it may be told: masked, without hidden names, and no longer than a model can read."""
        context = self._live()
        redactor = Redactor(self._is_hidden)
        if context is not None:
            context.learn_secrets()
            redactor = context.redactor
        elif self._hidden is not None:
            self._hidden.reread()
        answer_text = messages.cut(redactor.redact(text) if redactor.is_complete else redactor.withheld, MOST_CHARS)
        hidden = {word for word in set(_WORD.findall(answer_text)) if self._is_hidden(word)}
        return (
            _WORD.sub(lambda found: HIDDEN if found[0] in hidden else found[0], answer_text) if hidden else answer_text
        )


TOOLS: Final = (
    "list_variables",
    "preview",
    "history",
    "show",
    "diff",
    "run_python",
    "result",
    "checkout",
    "undo",
)


def _live_line(context: ExecutionContext, name: str) -> str:
    """A live variable, and that it is not saved, where that is so of what HEAD has of it."""
    line = context.summary(name)
    if context.session is None or context.session.head is None:
        return line
    repo = context.session.repo
    entry = repo.tree_at(context.session.head).get(name)
    summary = summary_of(repo, entry) if entry is not None else None
    is_of_head = summary is not None and line.partition(",")[0] == summary.type  # else it changed since
    return _describe_stored(repo, name, entry) if is_of_head and describe.not_saved(repo, name, entry) else line


def _describe_stored(repo: Repository, name: str, entry: Entry | None) -> str:
    missing = describe.not_saved(repo, name, entry)
    if missing is None or not missing.is_whole:
        return describe.entry_line_with_unsaved(repo, name, entry)
    summary = summary_of(repo, entry) if entry is not None else None
    return (
        f"{summary.type} ({missing.sentence})" if summary is not None else missing.sentence
    )  # its size is a placeholder's


def about(tool: str) -> str:
    """What a model is told of a tool."""
    return inspect.getdoc(getattr(Tools, tool)) or ""


# -- their code, run as steps of an agent

_MOST_TASK: Final = 120
_STOPPED = (
    "This was stopped before it did something outside the variables, and what it had changed was taken back: a person has to "
    "allow it (run {run})."
)
_UNDECIDED = "This has not run yet: a person has to allow it (run {run})."


class Steps:
    """What one agent outside does in one namespace.

    Args:
        place: opens the namespace.
        approve: `risky`, `always`, `auto` or `never`.
        step_s: seconds that one piece of code may run.
        decides: how a person decides, with {run} where the run's id goes.
    """

    def __init__(
        self,
        open_context: Callable[[], ExecutionContext],
        *,
        agent: str,
        approve: str,
        step_s: float | None,
        decides: str,
    ) -> None:
        self._open_context = open_context
        self._agent = Agent(agent, approve=approve, limits=Limits(step_s=step_s), context_tokens=0)
        self._decides = decides
        self._running: Run[Any] | None = None

    def open_context(self) -> ExecutionContext:
        """The namespace, opened now if it was not."""
        return self._open_context()

    def run(self, code: str, purpose: str) -> str:
        """Run code as a step, or say what it waits for."""
        task = purpose.strip() or next((line.strip() for line in code.splitlines() if line.strip()), "")
        model = external_model(self._agent.name, code)
        return self._drive(start_run(self._agent, task[:_MOST_TASK], self._open_context(), model=model))

    def request_approval(self, move: Move) -> str:
        """What a person has to be asked before a move is made; "": nothing, it may be made now.

        Raises:
            MoveNotMadeError: it is not allowed. RefNotFoundError: there is no such commit.
        """
        context = self._open_context()
        if context.session is None:
            return ""
        found = findings(context.session, move, self.author)
        verdict = approval.verdict_on(self._agent.approve, found, can_ask=True)
        if verdict == "deny":
            raise MoveNotMadeError(f"it would take back what others did ({found[0].what}), and that is not allowed")
        if verdict == "run":
            return ""
        task = f"check out {move.ref} {move.name}".rstrip() if move.ref else "undo the last operation"
        run = start_run(self._agent, task[:_MOST_TASK], context, model=external_model(self._agent.name)).id
        action = Action(source=SOURCE, code=move.code, call=SOURCE)
        approval.log_of(context.event_store, run).note(action, step=1, before=context.head)
        return self._drive(reopen_run(context, run))

    @property
    def author(self) -> Author:
        """Who signs what it does."""
        return Author(self._agent.name, "agent")

    def result(self, run: str) -> str:
        """What came of a step; of one that was allowed meanwhile, by running it now.

        Raises:
            RunNotFoundError: there is no such run of this agent.
        """
        context = self._open_context()
        found = context.event_store.find(run)
        if context.event_store.first(found).model != external_model(self._agent.name).name:
            raise RunNotFoundError(run)  # another agent's: not this one's to look at, and never to go on with
        if state_of(tuple(context.event_store.of(found))) == "running":
            return self._drive(reopen_run(context, found))
        return self._describe_step(tuple(context.event_store.of(found)))

    def stop(self) -> None:
        """Interrupt the code that runs, if any does; from any thread."""
        if self._running is not None:
            self._running.cancel("the agent outside took it back")

    def _drive(self, run: Run[Any]) -> str:
        self._running = run
        try:
            for _ in run.stream():
                pass
        except KeyboardInterrupt:
            run.halt()
            raise
        finally:
            self._running = None
        return self._describe_step(run.events)

    def _describe_step(self, events: Sequence[Event]) -> str:
        """The last step: what it showed and changed, and what it did that going back does not cover."""
        request = approval.open_request(events)
        if request is not None:
            return self._asks(request)
        output = next((event for event in reversed(events) if isinstance(event, Output)), None)
        if output is None:
            return "It was stopped before its code ran."
        parts = [output.sent]
        unsaved = [one for event in events if isinstance(event, StateChange) for one in event.unsaved]
        parts += [f"Not saved: {name} ({reason})" for name, reason in unsaved]
        effects = [f"  {event.text}" for event in events if isinstance(event, Effect)]
        if effects:
            parts.append("\n".join(["Outside the variables, so that undo does not cover it:", *effects]))
        if output.after and output.after != output.before:
            parts.append(f"Commit {output.after[:8]}.")
        return "\n\n".join(parts)

    def _asks(self, request: ApprovalRequested) -> str:
        risky = [one for one in request.findings if one.risky or one.kind == KIND] or list(request.findings)
        changes = ", ".join(one.what for one in request.findings if one.kind == CHANGES)
        is_move = any(one.kind == KIND for one in risky)
        run = short_run(request.run)
        return "\n".join(
            [
                (_STOPPED if request.stopped else _UNDECIDED).format(run=run),
                *(f"  {one.kind}: {one.what}" for one in risky),
                *([f"  would change: {changes or 'no variable'}"] if is_move else []),
                self._decides.replace("{run}", run),
                f"Then call result with run={run!r}. Until then, do without it or ask the person.",
            ]
        )


# -- nobody types anything for code that an agent outside runs: what it reads is at its end
#
# Over standard input and output the client speaks there. The transport serves it from copies of its own, with the null
# device in their place, so that no process that the code starts can read a request. Here `sys.stdin` is replaced besides,
# anew for each call, whatever it is and whatever earlier code did to it: over HTTP it would be a terminal.


@contextmanager
def without_input() -> Generator[None]:
    """While the block runs, `input()` raises EOFError, and `sys.stdin` has nothing to read."""
    # A pipe that nobody writes to, and no text in memory: code may give it to a process.
    reads, writes = os.pipe()
    os.close(writes)
    before = sys.stdin
    with os.fdopen(reads, encoding="utf-8") as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before


# -- what a kernel does for an agent outside. A silent execution asks it: it makes no cell and no commit

_DECIDES = (
    "The person allows it in the notebook with %agent approve --run {run}, or denies it with %agent deny --run {run}."
)
_UNBOUND = "No notebook is bound in this kernel: the person runs %load_ext agent_kernel there first."


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool.

    Attributes:
        until: seconds since 1970, after which nobody waits for it any more, so that it must not begin.
    """

    tool: str
    arguments: dict[str, object]
    agent: str
    approve: str
    step_s: float | None
    until: float


class Answer(msgspec.Struct, frozen=True):
    """What came of it. `late`: it did not begin. Its repr is JSON, which is how it leaves the kernel."""

    text: str = ""
    failed: bool = False
    late: bool = False

    def __repr__(self) -> str:
        return json.dumps(msgspec.to_builtins(self))


def answered(request: str) -> Answer:
    """Do what is asked, in the notebook of this kernel."""
    call = msgspec.json.decode(request, type=ToolCall)
    if time.time() > call.until:
        return Answer(late=True)
    try:
        context = here()
    except NotBoundError:
        return Answer(_UNBOUND, failed=True)
    except AgentKernelError as error:
        return Answer(str(error), failed=True)
    steps = Steps(lambda: context, agent=call.agent, approve=call.approve, step_s=call.step_s, decides=_DECIDES)
    repo = context.session.repo if context.session is not None else None
    try:
        tool_answer: ToolAnswer = Tools(repo, lambda: context, steps).call(call.tool, call.arguments)
    finally:
        context.moved()  # this was no cell, at the end of which panels are told
    return Answer(tool_answer.text, tool_answer.failed)


# -- what an agent outside acts on: a running kernel, asked over its own channels between its cells, or a store alone

_CALL: Final = "__import__('agent_kernel.mcp.tools', fromlist=['answered']).answered({request!r})"
_BUSY: Final = "The kernel is busy with something else; nothing was done. Ask again when it has ended."
_NO_REPLY: Final = "The kernel has ended, or does not answer any more; it is not known what came of this call."


@contextmanager
def connect(
    connection_file: str, *, agent: str, approve: str, step_s: float | None, wait_s: float
) -> Generator[Kernel]:
    """A connection to the kernel of this file (or of this id), closed at the end.

    Raises:
        NotAStoreError: there is no such file.
    """
    from jupyter_client.blocking.client import BlockingKernelClient
    from jupyter_client.connect import find_connection_file

    try:
        found = find_connection_file(connection_file)
    except OSError:
        raise NotAStoreError(connection_file, "there is no such connection file of a kernel") from None
    client = BlockingKernelClient()
    client.load_connection_file(found)
    client.start_channels()
    try:
        yield Kernel(client, agent=agent, approve=approve, step_s=step_s, wait_s=wait_s)
    finally:
        client.stop_channels()


class Kernel:
    """The tools of a kernel.

    Args:
        wait_s: seconds that a call waits for a busy kernel.
    """

    def __init__(
        self, client: BlockingKernelClient, *, agent: str, approve: str, step_s: float | None, wait_s: float
    ) -> None:
        self._client = client
        self._agent = agent
        self._approve = approve
        self._step_s = step_s
        self._wait_s = wait_s
        self._is_ready = False

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> ToolAnswer:
        """Use a tool in the kernel, or say that it is busy: then nothing of it happens later either."""
        if not self._ready():
            return ToolAnswer(_BUSY, failed=True)
        until = time.time() + self._wait_s
        tool_call = ToolCall(tool, arguments, agent or self._agent, self._approve, self._step_s, until)
        request = msgspec.json.encode(tool_call).decode()
        message = self._client.execute(
            "",
            silent=True,
            store_history=False,
            user_expressions={"answer": _CALL.format(request=request)},
            allow_stdin=False,
            stop_on_error=False,
        )
        reply = self._reply(message, until)
        return ToolAnswer(_BUSY if reply is None else _NO_REPLY, failed=True) if not reply else _decode_reply(reply)

    def stop(self) -> None:
        """Interrupt what runs there; from any thread."""
        message = self._client.session.msg("interrupt_request", content={})
        self._client.control_channel.send(message)

    def _ready(self) -> bool:
        if not self._is_ready:
            try:
                self._client.wait_for_ready(timeout=self._wait_s)
            except RuntimeError:  # it has not answered in that time
                return False
            self._is_ready = True
        return True

    def _reply(self, message: str, until: float) -> dict[str, Any] | None:
        """The kernel's answer; None: it has not begun by then. Empty: the kernel is gone."""
        has_begun = False
        while True:
            has_begun = has_begun or self._begins(message)
            try:
                reply: dict[str, Any] = self._client.get_shell_msg(timeout=0.1 if not has_begun else 1.0)
            except queue.Empty:
                if not self._client.is_alive():
                    return {}
                if not has_begun and time.time() > until:
                    return None
                continue
            if reply["parent_header"].get("msg_id") == message:
                return reply

    def _begins(self, message: str) -> bool:
        """Whether the kernel says that it is at work on this request."""
        while True:
            try:
                heard: dict[str, Any] = self._client.get_iopub_msg(timeout=0)
            except queue.Empty:
                return False
            is_ours = heard["parent_header"].get("msg_id") == message
            if is_ours and heard["msg_type"] == "status" and heard["content"].get("execution_state") == "busy":
                return True


def _decode_reply(reply: dict[str, Any]) -> ToolAnswer:
    content = reply["content"]
    result = content.get("user_expressions", {}).get("answer", {})
    if result.get("status") != "ok":
        about = result or content
        return ToolAnswer(
            f"The kernel could not do it: {about.get('ename', 'error')}: {about.get('evalue', '')}", failed=True
        )
    answer = msgspec.json.decode(result["data"]["text/plain"], type=Answer)
    return ToolAnswer(_BUSY, failed=True) if answer.late else ToolAnswer(answer.text, answer.failed)


# -- A store as a namespace for an agent outside: a branch of it, whose values are loaded when something first acts on them


@contextmanager
def open_store(
    store: str, *, agent: str, approve: str, step_s: float | None, branch: str | None
) -> Generator[StoredBranch]:
    """The store, closed at the end.

    Raises:
        StoreError: it cannot be opened. NotAStoreError: the place holds no store.
    """
    repo = Repository.open(find_store(store), create=False)
    found = StoredBranch(repo, store, agent=agent, approve=approve, step_s=step_s, branch=branch)
    try:
        yield found
    finally:
        found.close()
        repo.close()


class StoredBranch:
    """The tools of a store."""

    def __init__(
        self, repo: Repository, name: str, *, agent: str, approve: str, step_s: float | None, branch: str | None
    ) -> None:
        self._repo = repo
        self._branch = branch
        self._agent = agent
        self._state: Versioned | None = None
        self._context: ExecutionContext | None = None
        self._notes: list[str] = []
        decides = (
            f"The person allows it with `agent-kernel approve {name} --run {{run}}`, or denies it with "
            f"`agent-kernel deny {name} --run {{run}} REASON`."
        )
        self._begin = partial(Steps, self.open, approve=approve, step_s=step_s, decides=decides)
        self._steps: dict[str, Steps] = {}  # of each agent

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> ToolAnswer:
        """Use a tool by its name."""
        name = agent or self._agent
        steps = self._steps[name] = self._steps.get(name) or self._begin(agent=name)
        tool_answer = Tools(self._repo, lambda: self._context, steps).call(tool, arguments)
        notes, self._notes = self._notes, []
        return ToolAnswer("\n\n".join([tool_answer.text, *notes]), tool_answer.failed) if notes else tool_answer

    def stop(self) -> None:
        """Interrupt the code that runs; from any thread."""
        for steps in tuple(self._steps.values()):
            steps.stop()

    def open(self) -> ExecutionContext:
        """The branch's variables, loaded when this is first called.

        Raises:
            UntrustedStoreError: somebody else made the store, and nobody here trusts it.
        """
        if self._context is None:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                self._state = Versioned(self._repo, branch=self._branch, author=Author(self._agent, "agent"))
            self._notes += [str(one.message) for one in caught]
            self._context = ExecutionContext(self._state.session.namespace, self._state.session)
        return self._context

    def close(self) -> None:
        """Give the branch back."""
        if self._state is not None:
            self._state.close()
