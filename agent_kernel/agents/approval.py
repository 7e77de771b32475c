"""Whether a step may run: at once, once a person approves it, or not at all. What came of it; how a person answers.

With `preview` it is tried on a fork first, and what it did there is taken on where the person says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import msgspec

from agent_kernel.agents import agent_undo, event_log, messages, rights
from agent_kernel.agents.agent_undo import DENIED, is_external, is_race
from agent_kernel.agents.arguments import Misfit, fit, type_text
from agent_kernel.agents.current import guard_pages
from agent_kernel.agents.event_log import OVER, Log, State, state_of
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
    Finding,
    Output,
    Retry,
    StateChange,
    StepStart,
    Success,
    TryStart,
)
from agent_kernel.agents.execution import CodeResult, error_line
from agent_kernel.agents.gate import Allowed, Gate, collect_codes, find_approved_renderers, find_mime_type, finding
from agent_kernel.agents.limits import STUBBORN
from agent_kernel.agents.messages import open_action
from agent_kernel.agents.review import is_risky, review
from agent_kernel.agents.side_effects import is_steps_code
from agent_kernel.errors import RunBusyError, RunStateError
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import Change, Unsaved
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.event_log import EventStore
    from agent_kernel.agents.execution import ExecutionContext, TaskEnd
    from agent_kernel.agents.executor import RunExecutor, RunItems


# -- whether a step may run, has to be asked about, or is denied
#
# `always` asks about every step, `risky` about those that reach outside the variables, `auto` about none; `never` asks
# about none either, and denies what `risky` would ask about. Where nobody is there to ask, what would ask is denied.

Mode: TypeAlias = Literal["risky", "always", "auto", "never"]
Verdict: TypeAlias = Literal["run", "ask", "deny"]
MODES: tuple[str, ...] = get_args(Mode)


def verdict_on(mode: str, findings: Collection[Finding], *, can_ask: bool) -> Verdict:
    """What is to be done about a step whose code would do this."""
    if mode == "auto" or (mode != "always" and not is_risky(findings)):
        return "run"
    if mode == "never":
        return "deny"
    return "ask" if can_ask else "deny"


def denial_text(findings: Collection[Finding], reason: str, stopped: Collection[tuple[str, str]] = ()) -> str:
    """What the model is told of a step that was denied.

    Args:
        stopped: what it was stopped from doing as it ran.
    """
    if stopped:
        side_effects = "; ".join(f"{what} {target}".strip() for what, target in stopped)
        why = f" Reason: {reason}." if reason else ""
        return (
            f"This step was stopped before this happened: {side_effects}. It was denied.{why} What the step had changed was "
            "taken back. Find a way without it, or end with task.fail or task.clarify."
        )
    risky = "; ".join(f"{one.kind}: {one.what}" for one in findings if one.risky)
    why = f" Reason: {reason}." if reason else ""
    what = f" What had to be asked about: {risky}." if risky else ""
    return f"This step was not run: it was denied.{why}{what} Find a way without it, or end with task.fail or task.clarify."


# -- what a step that has run comes to: the events that are written down of it, and what the model is told

_MOST_TEXT = 1_000_000  # characters of an output that are looked at


class StepOutcome(msgspec.Struct, frozen=True):
    """A step that has run."""

    result: CodeResult
    changed: list[Change]
    unsaved: list[Unsaved]
    side_effects: dict[tuple[str, str], int]
    note: str = ""  # what else the model has to know
    stopped: tuple[tuple[str, str], ...] = ()  # the effects that it was stopped from having


def outcome_events(run_executor: RunExecutor, outcome: StepOutcome, edited: str) -> list[Event]:
    """What is written down of a step that has run, in order."""
    result = outcome.result
    run_executor.context.learn_secrets([one.name for one in outcome.changed])
    visible = [one for one in outcome.changed if run_executor.context.is_visible(one.name)]
    changes = messages.change_lines(visible, run_executor.context.summary)
    parts = tuple(
        msgspec.structs.replace(part, text=run_executor.context.redact_output(part.text)) for part in result.parts
    )
    whole = "\n\n".join(filter(None, (outcome.note, _describe_outcome(run_executor, result, changes, edited))))
    sent = messages.cut(whole, run_executor.setup.limits.output_chars)
    dropped = max(0, len(whole) - len(sent))
    output = Output(status=result.status, sent=sent, dropped=dropped, parts=parts, duration_s=round(result.seconds, 6))
    found: list[Event] = [output, *_list_side_events(run_executor, outcome)]
    if result.status == "interrupted":
        found.append(Cancelled(during="code", reason=run_executor.stopped))
    elif result.task_end is not None:
        found += _end_task(run_executor, result.task_end)
    else:
        found += _overrun(run_executor, output, result.error)
    return found


def _overrun(run_executor: RunExecutor, output: Output, error: BaseException | None) -> Iterator[Fail]:
    """The end of the run, where its steps were told too often, one after the other, that they are too much."""
    limits, events = run_executor.setup.limits, event_log.since_resumed(run_executor.log.events)
    if output.status == "timeout" and limits.step_s is not None:
        again = event_log.outputs_in_a_row(events, lambda one: one.status == "timeout")
        if again >= limits.retries or getattr(error, "swallowed", 0) >= STUBBORN:
            yield Fail(limit="step_s", reason=f"its code could not be kept within its time: {error}")
    elif output.dropped:
        again = event_log.outputs_in_a_row(events, lambda one: one.dropped > 0)
        if again >= limits.retries:
            many = f"{limits.output_chars:,}"
            yield Fail(limit="output_chars", reason=f"its steps went on to show more than {many} characters")


def _list_side_events(run_executor: RunExecutor, outcome: StepOutcome) -> Iterator[Event]:
    """What is told beside the output: what changed, what went wrong, what it did outside."""
    if outcome.changed or outcome.unsaved:
        changed = tuple(
            (
                one.how,
                previews.MASK if run_executor.context.redactor.knows(one.name) else one.name,
                ""
                if one.how == "-" or run_executor.context.is_hidden(one.name)
                else run_executor.context.summary(one.name),
            )
            for one in outcome.changed
        )
        yield StateChange(changed=changed, unsaved=tuple((one.name, one.reason) for one in outcome.unsaved))
    if outcome.result.error is not None and outcome.result.status != "interrupted":
        yield Error(source="code", message=run_executor.context.redact_output(error_line(outcome.result.error), 500))
    for (what, target), count in outcome.side_effects.items():
        yield Effect(what=what, target=run_executor.context.redact(target, 300), count=count)


def outcome_text(run_executor: RunExecutor, sent: str) -> Retry | Fail:
    """What did not fit, for the model to try again; or the end, where it was told that often enough."""
    if (
        event_log.retries_in_a_row(event_log.since_resumed(run_executor.log.events))
        >= run_executor.setup.limits.retries
    ):
        reason = f"the model was told {run_executor.setup.limits.retries} times what did not fit: {sent}"
        return Fail(reason=reason[:500], limit="retries")
    return Retry(sent=sent)


def _describe_outcome(run_executor: RunExecutor, result: CodeResult, changed: list[str], edited: str) -> str:
    """What the model is told of a step."""
    pieces = (
        [f"The person changed the code before it ran:\n{run_executor.context.redactor.redact(edited)}"]
        if edited
        else []
    )
    text = run_executor.context.redact_output(result.text, _MOST_TEXT).rstrip()
    match result.status:
        case "timeout":
            pieces.append(f"The step was interrupted: {result.error}. What it had changed by then is kept.")
        case "interrupted":
            pieces.append("The person interrupted this step. What it had changed by then is kept.")
        case _:
            pass
    pieces += [text] if text else []
    if changed:
        pieces.append("\n".join(["Changed variables:", *changed]))
    return "\n\n".join(pieces) or "(no output, and no variable changed)"


def _end_task(run_executor: RunExecutor, task_end: TaskEnd) -> Iterator[Event]:
    """How the code ended the run, if what it gave fits."""
    match task_end.how:
        case "fail":
            yield Fail(reason=run_executor.context.redact_output(str(task_end.value), 2_000))
        case "clarify":
            yield Clarify(question=run_executor.context.redact_output(str(task_end.value), 4_000))
        case _:
            try:
                run_executor.value = fit(task_end.value, run_executor.setup.returns)
            except Misfit as misfit:
                reason = run_executor.context.redact_output(str(misfit), 500)
                yield Error(source="value", message=reason)
                yield outcome_text(run_executor, f"task.success was given a value that does not fit: {reason}")
                return
            yield _success(run_executor)


def _success(run_executor: RunExecutor) -> Success:
    text = "" if run_executor.value is None else previews.line(previews.make_preview(run_executor.value, "result"))
    return Success(result=run_executor.context.redact_output(text), type=type_text(type(run_executor.value)))


def check_setup(result: CodeResult, context: ExecutionContext) -> list[Event]:
    if result.status in ("ok", "interrupted"):
        return []
    reason = error_line(result.error) if result.error is not None else result.status
    return [Fail(reason=f"its setup failed: {context.redact_output(reason, 500)}")]


_STOPPED: Final = "it was stopped before this happened, and its variables were taken back: approving runs it again"


def run_or_ask(run_executor: RunExecutor, action: Action) -> RunItems:
    """Run what the model wants to run, or ask a person first, or deny it."""
    code = action.code or ""
    if action.source == "setup":  # the program's own code
        yield from run_executor.execute(action, code)
        return
    findings = _findings(run_executor, action, code)
    verdict = verdict_on(run_executor.setup.approve, findings, can_ask=run_executor.setup.can_ask)
    forbidden = verdict == "deny" and run_executor.setup.approve == "never"
    if run_executor.setup.preview and verdict == "run":
        verdict = "ask" if run_executor.setup.can_ask else "deny"
    if verdict == "run":
        yield from run_executor.execute(action, code)
        return
    request = ApprovalRequested(code=code, findings=findings)
    if run_executor.setup.preview and verdict == "ask":
        from agent_kernel.agents.preview import (  # a fork costs its modules only where there is one
            step_refusal_reason,
            try_step,
        )

        refused = step_refusal_reason(request, run_executor.context)
        if refused:
            request = msgspec.structs.replace(request, preview="refused", told=refused)
        else:
            yield run_executor.log.note(TryStart(), step=action.step, before=run_executor.context.head)
            request = try_step(run_executor, request, action.step or 0)
    if verdict != "deny":
        yield run_executor.log.note(request, step=action.step, before=run_executor.context.head)
        return
    yield from _deny(run_executor, action, [request], forbidden=forbidden)


def _deny(run_executor: RunExecutor, action: Action, requests: list[Event], *, forbidden: bool) -> RunItems:
    """Deny a step at once: nobody is to find it waiting."""
    found = next((event.findings for event in requests if isinstance(event, ApprovalRequested)), ())
    reason = f'this agent has approve="never", and the step {_does(found)}' if forbidden else "nobody is there to ask"
    decided = ApprovalDecided(decision="deny", by="policy", reason=reason)
    yield from run_executor.log.note_all([*requests, decided], step=action.step, before=run_executor.context.head)
    yield from apply_decision(run_executor, action, decided)


_DOES: Final = {
    "browser": "uses the browser",
    "clipboard": "uses the clipboard",
    "database": "uses a database",
    "deletes": "deletes something",
    "files": "writes a file",
    "goes back": "takes back what others did",
    "history": "changes the history",
    "kernel": "changes the kernel",
    "magic": "uses a magic command",
    "network": "uses the network",
    "person": "asks a person",
    "process state": "changes the process",
    "processes": "starts a process",
    "shell": "runs a shell command",
}


def _does(findings: Collection[Finding]) -> str:
    """What a step would do that is not allowed, in words."""
    kinds = dict.fromkeys(one.kind for one in findings if one.risky)
    found = list(dict.fromkeys(_DOES.get(kind, "does what cannot be read from its code") for kind in kinds))
    return " and ".join(found[:2]) or "does what is not allowed"


def make_gate(run_executor: RunExecutor, code: str) -> Gate | None:
    """What stops a step that runs this code; None: nothing does."""
    mode, setup, context = run_executor.setup.approve, run_executor.setup, run_executor.context
    if mode == "auto":
        return None
    guard_pages()
    _, since = open_action(run_executor.log.events)
    approved = frozenset(one for event in since if isinstance(event, ApprovalRequested) for one in event.stopped)
    found = (
        ()
        if mode == "never"
        else review(code, names=context.names(), allowed=setup.allowed, namespace=context.namespace, is_gated=True)
    )
    # What a step made, or gave to its sub-agent, has no more rights than the step.
    codes = frozenset(code for code in collect_codes(setup.offers.values()) if not is_steps_code(code))
    url = context.session.repo.store.url if context.session is not None else ""
    shows = find_approved_renderers(run_executor.log.events) | {
        kind for one in approved if (kind := find_mime_type(one))
    }
    return Gate(Allowed(found, approved, shows, setup.allowed, codes), url, context.redact, withholds=mode == "never")


def stop_step(run_executor: RunExecutor, action: Action, code: str, outcome: StepOutcome) -> RunItems:
    """Ask about a step that was stopped as it began to do something outside, or deny it."""
    context, mode = run_executor.context, run_executor.setup.approve
    stopped = tuple((what, context.redact(target, 300)) for what, target in outcome.stopped)
    already = [
        Effect(what=what, target=context.redact(on, 300), count=many)
        for (what, on), many in outcome.side_effects.items()
    ]
    request = ApprovalRequested(
        code=code,
        findings=(*_findings(run_executor, action, code), *(finding(*one) for one in stopped)),
        stopped=stopped,
        told="; ".join(filter(None, (_STOPPED, outcome.note))),
        effects=tuple((one.what, one.target, one.count) for one in already),
    )
    if mode == "never" or not run_executor.setup.can_ask:
        yield from _deny(run_executor, action, [*already, request], forbidden=mode == "never")
        return
    yield from run_executor.log.note_all([*already, request], step=action.step, before=context.head)


def _findings(run_executor: RunExecutor, action: Action, code: str) -> tuple[Finding, ...]:
    """What the step would do."""
    if action.source == agent_undo.SOURCE and run_executor.context.session is not None:
        return agent_undo.findings(run_executor.context.session, agent_undo.Move.read(code), run_executor.author)
    found = review(
        code,
        names=run_executor.context.names(),
        allowed=run_executor.setup.allowed,
        namespace=run_executor.context.namespace,
        is_gated=run_executor.setup.approve in ("risky", "never"),
    )
    return found + _sub_agents(code, run_executor.setup.agents)


def apply_decision(run_executor: RunExecutor, action: Action, decided: ApprovalDecided) -> RunItems:
    """Do what was decided."""
    request = next(
        (e for e in reversed(run_executor.log.events) if isinstance(e, ApprovalRequested)), ApprovalRequested()
    )
    if decided.decision == "approve" and request.branch:
        yield from _accept_preview(run_executor, action, request)
        return
    discard_preview(run_executor, request)
    if decided.decision != "deny":
        code = decided.code or request.code or action.code or ""
        yield from run_executor.execute(action, code, edited=code != action.code)
        return
    text = denial_text(request.findings, decided.reason, request.stopped)
    denied = Output(status="denied", sent=run_executor.context.redact(text))
    ends = [_cancel_denied(run_executor, decided.reason)] if is_external(run_executor.log.start.model) else []
    yield from run_executor.log.note_all([denied, *ends], step=action.step, before=run_executor.context.head)


def _cancel_denied(run_executor: RunExecutor, reason: str) -> Cancelled:
    """The end of a run that was nothing but the step that was denied."""
    text = run_executor.context.redact(f"it was denied: {reason}" if reason else "it was denied", 2_000)
    return Cancelled(during=DENIED, reason=text, final=True)


def discard_preview(run_executor: RunExecutor, request: ApprovalRequested) -> None:
    """What a step did on a fork goes: it runs here, or not at all."""
    if request.branch:
        from agent_kernel.agents.preview import drop_preview

        drop_preview(run_executor.context, request)


def _accept_preview(run_executor: RunExecutor, action: Action, request: ApprovalRequested) -> RunItems:
    """Take on what a step did on a fork; where what is here now does not go with it, run it."""
    from agent_kernel.agents.preview import accept_step

    run_executor.context.wait_turn()
    step, before = action.step or 0, run_executor.context.head
    yield run_executor.log.note(StepStart(), step=step, before=before)
    noted: tuple[Event, ...] = ()
    with uninterrupted():
        accepted = accept_step(run_executor.context, request, run_executor.log.run)
        if accepted is not None:
            show: Callable[[str], None] | None = getattr(run_executor.context.executor, "show", None)
            if show is not None:  # in a notebook it would have stood under the cell
                show(accepted[0].text)
            events = outcome_events(run_executor, StepOutcome(*accepted), "")
            noted = run_executor.log.note_all(events, step=step, before=before, after=run_executor.context.head)
    if accepted is None:
        again = "(The variables had changed since this was tried, so it was run again.)"
        outcome = run_executor.run_code(request.code, step)
        if outcome.stopped:
            yield from stop_step(run_executor, action, request.code, outcome)
            return
        outcome = msgspec.structs.replace(outcome, note=again)
        noted = run_executor.log.note_all(
            outcome_events(run_executor, outcome, ""), step=step, before=before, after=run_executor.context.head
        )
    yield from noted


def _sub_agents(code: str, agents: Collection[str]) -> tuple[Finding, ...]:
    """The sub-agents that the code names: they act by themselves, and may do no more than this run may."""
    words = set(re.findall(r"[^\W\d]\w*", code)) if agents else set[str]()
    return tuple(Finding("agent", f"{name} acts by itself", 0, risky=False) for name in sorted(words & set(agents)))


# -- answer for a run that waits, from wherever somebody is: its notebook, another one, or a command line the next day

# `stopped`: it is not done, and nobody drives it: its process died, or its loop was left. `undone`: it was taken back.
# `decided`: a person has, and nobody has gone on with it since.
RunStatus: TypeAlias = State | Literal["stopped", "undone", "decided"]


def decide(log: Log, decision: str, *, code: str | None = None, reason: str = "", by: str = "") -> ApprovalDecided:
    """Store what a person decided about the step that waits; it runs when the run is driven on.

    Raises:
        RunStateError: no step of it waits. RunBusyError: somebody else decided first, or drives it.
        WithinStepError: code of a step decides.
    """
    rights.refuse_within_step("decide about a step")
    if log.state == "running":
        refuse_if_driven(log)
    if log.state != "pending":
        state = run_status(log.event_store, log.events)
        if state == "decided":
            raise RunStateError(log.run, "decided already", "decided again; %agent resume lets it go on")
        raise RunStateError(log.run, status_text(state), "approved or denied")
    action, _ = open_action(log.events)
    decided = ApprovalDecided(decision=decision, by=by, reason=reason, code=code)
    return log.note(decided, step=action.step if action is not None else None)


def refuse_if_driven(log: Log, *, force: bool = False) -> None:
    """Raise RunBusyError if somebody else drives the run.

    Args:
        force: take it from a process on another machine, of which nobody can tell here whether it lives.
    """
    if log.is_claimed:
        return
    if force:
        log.event_store.revoke(log.run, only_remote=True)
    holder = log.event_store.find_driver(log.run)
    if holder is not None:
        raise RunBusyError(log.run, event_log.describe_holder(holder))


def open_request(events: Sequence[Event]) -> ApprovalRequested | None:
    """What a run asks a person for, if it waits."""
    if state_of(events) != "pending":
        return None
    return next((event for event in reversed(events) if isinstance(event, ApprovalRequested)), None)


def open_question(events: Sequence[Event]) -> ApprovalRequested | Clarify | None:
    """What a run asks a person, if it waits: for approval, or for an answer."""
    if state_of(events) == "clarify":
        return next((event for event in reversed(events) if isinstance(event, Clarify)), None)
    return open_request(events)


def find_newest(event_store: EventStore, states: Collection[RunStatus]) -> str:
    """The newest run that is in one of these states; "" if no run is.

    Runs that belong to another one (a sub-agent's, a candidate's) go on with that, and races do not go on at all.
    """
    return next(_runs_in(event_store, reversed(event_store.runs()), states), "")


def find_waiting(event_store: EventStore, state: RunStatus) -> list[str]:
    """The runs that wait for a person (`pending`, `clarify`), the newest first; stores of earlier releases mark none."""
    return list(_runs_in(event_store, reversed(event_store.runs()), (state,)))


def _runs_in(event_store: EventStore, runs: Iterable[str], states: Collection[RunStatus]) -> Iterator[str]:
    for run in runs:
        events = tuple(event_store.of(run))
        if not events[0].parent_run and not is_race(events[0]) and run_status(event_store, events) in states:
            yield run


def run_status(event_store: EventStore, events: Sequence[Event], undone: Collection[str] = ()) -> RunStatus:
    """Where a run stands.

    Args:
        undone: the runs that were taken back. Of one that has ended that is said instead.
    """
    state = state_of(events)
    if state == "running" and event_store.find_driver(events[0].run) is None:
        # Whoever drives a run lets it go behind its last event: that may have come since these were read.
        if newer := tuple(event_store.of(events[0].run, events[-1].seq)):
            return run_status(event_store, (*events, *newer), undone)
        return "decided" if is_decided(events) else "stopped"
    return "undone" if state in OVER and events[0].run in undone else state


def is_decided(events: Sequence[Event]) -> bool:
    """Whether a person has decided about a step, and nothing came of it yet."""
    last = events[-1]
    return isinstance(last, ApprovalDecided) and last.by != "policy"


def log_of(event_store: EventStore, run: str) -> Log:
    """A run as it is stored. Raises: RunNotFoundError."""
    run = event_store.find(run)
    start = event_store.first(run)
    events = tuple(event_store.of(run))
    return Log(event_store, run, events, agent=start.agent, namespace=start.namespace, parent_run=start.parent_run)


def status_text(state: RunStatus, events: Sequence[Event] = ()) -> str:
    """The state in words. `events`: of the run, which tell a failure from a limit that stopped it."""
    if state == "failed" and next((event.limit for event in reversed(events) if isinstance(event, Fail)), ""):
        return "stopped at a limit"
    texts = {
        "pending": "waiting for approval",
        "clarify": "waiting for an answer",
        "running": "going on",
        "decided": "decided, but has not gone on",
    }
    return texts.get(state, state)
