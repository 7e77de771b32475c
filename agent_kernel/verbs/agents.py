"""`approve`, `deny`, `edit`, `resume` and `model`: what a person says to agents."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from agent_kernel.agents import deciding, elsewhere
from agent_kernel.agents.journal import Journal, short_run
from agent_kernel.errors import ModelError
from agent_kernel.session.branches import person
from agent_kernel.verbs.asking import Asked, Decided
from agent_kernel.verbs.output import Result, Said
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean, cut

__all__ = [
    "approve",
    "approve_arguments",
    "deny",
    "deny_arguments",
    "edit",
    "edit_arguments",
    "model",
    "model_arguments",
    "resume",
    "resume_arguments",
]

_RUN = "which run, by its id or the last characters of it; needed where several wait"
_MOST = 6  # runs that are named
_MOST_TASK = 50  # characters that tell a run from another


def _takes_run(parser: Parser, help: str = _RUN) -> None:
    parser.value("--run", metavar="RUN", help=help, default="")


# -- deciding


def approve_arguments(parser: Parser) -> None:
    _takes_run(parser)


def approve(scope: Scope, options: Namespace) -> Result:
    return _decided(scope, options.run, "approve")


def deny_arguments(parser: Parser) -> None:
    parser.takes_all("reason", "text", help="why, for the agent")
    _takes_run(parser)


def deny(scope: Scope, options: Namespace) -> Result:
    return _decided(scope, options.run, "deny", " ".join(options.words))


def edit_arguments(parser: Parser) -> None:
    _takes_run(parser)


def edit(scope: Scope, options: Namespace) -> Result:
    """Put the code that waits into a cell, where it can be changed; running that cell lets it run."""
    notebook = scope.notebook
    assert notebook is not None
    run = _waiting(scope, options.run)
    asked = deciding.waiting(tuple(Journal(scope.repo.store).of(run)))
    assert asked is not None
    notebook.tasks.offer_edit(run, asked.code)
    return Said((f"The code of step {asked.step} is in the next cell: change it there, and run it.",))


def _waiting(scope: Scope, run: str) -> str:
    journal = Journal(scope.repo.store)
    if run:
        return journal.find(run)
    found = deciding.all_waiting(journal, "pending")
    if not found:
        # Where a second kernel of the notebook decided, whoever asks here looks for what came of it.
        lies = next((elsewhere.away(scope.session, tuple(journal.of(one))) for one in journal.runs()[-1:]), None)
        raise UsageProblem(f"no run waits for approval{f'; {lies.lies}' if lies else ''}")
    return _only(journal, found, "wait for approval")


def _only(journal: Journal, runs: Sequence[str], what: str) -> str:
    """The run that is meant where none is named. Raises: UsageProblem: there are several."""
    if len(runs) == 1:
        return runs[0]
    each = [f"{short_run(run)} ({clean(asked.agent)})" for run in runs if (asked := _asked(journal, run))]
    more = f" and {len(runs) - _MOST} more" if len(runs) > _MOST else ""
    raise UsageProblem(f"{len(runs)} runs {what}: {', '.join(each[:_MOST])}{more}; --run RUN says which one")


def _asked(journal: Journal, run: str) -> Asked | None:
    return Asked.of(tuple(journal.of(run)))


def _decided(scope: Scope, run: str, decision: str, reason: str = "") -> Result:
    found = _waiting(scope, run)
    if scope.notebook is not None:
        return scope.notebook.tasks.decide(found, decision, reason=reason)
    log = deciding.log_of(Journal(scope.repo.store), found)
    asked = Asked.of(log.events)
    deciding.decide(log, decision, reason=reason, by=person().name)
    assert asked is not None  # else there was nothing to decide
    return Decided(asked, decision)


def resume_arguments(parser: Parser) -> None:
    parser.takes_all("answer", "text", help="the answer to the agent's question, or what else to tell it")
    _takes_run(
        parser,
        "which run, by its id or the last characters of it (unless told the newest that is not done, or the last if it failed)",
    )
    parser.value("--model", metavar="NAME", help="another model from here on", default="")
    parser.flag("--force", help="also one that a process on another machine drove, which may still do so")


def _resting(journal: Journal) -> str:
    """The newest run that stopped or asks; without one, that which failed, where it was the last that was begun.

    Raises:
        UsageProblem: one was begun behind the failed one that is done, goes on or waits: which is meant nobody can tell.
    """
    found = deciding.newest(journal, ("interrupted", "clarify", "stopped", "decided"))
    if found:
        return found
    failed = deciding.newest(journal, ["failed"])
    newer = deciding.newest(journal, ["pending", "running", "completed"])
    if failed and newer > failed:  # the ids of runs are in the order in which they began
        state = deciding.standing(journal, tuple(journal.of(newer)))
        ended = deciding.said_of("failed", tuple(journal.of(failed)))
        what = "is done" if state == "completed" else f"is {deciding.said_of(state)}"
        raise UsageProblem(
            f"{_named(journal, failed)} {ended}, and behind it {_named(journal, newer)} {what}: "
            f"%agent resume --run {short_run(failed)} tries it once more"
        )
    return failed


def _named(journal: Journal, run: str) -> str:
    start = journal.first(run)
    task = cut(clean(start.task.strip().partition("\n")[0]), _MOST_TASK)
    return f"run {short_run(run)} ({': '.join(filter(None, (clean(start.agent), task)))})"


def resume(scope: Scope, options: Namespace) -> Result:
    notebook = scope.notebook
    assert notebook is not None
    journal = Journal(scope.repo.store)
    run = journal.find(options.run) if options.run else _resting(journal)
    if not run:
        raise UsageProblem("no run can go on: all are done, or wait for approval, or go on elsewhere")
    answer = " ".join(options.words)
    asked = _asked(journal, run)
    if answer and not options.run and asked is not None:
        run = _only(journal, deciding.all_waiting(journal, "clarify"), "ask something")
    if asked is not None and asked.step is None and not answer:
        raise UsageProblem(f"{clean(asked.agent)} asks: {asked.text} (%agent resume ANSWER answers)")
    try:
        says = "" if options.run else f"going on with {_named(journal, run)}"
        return notebook.tasks.resume(run, answer, force=options.force, model=options.model, says=says)
    except ModelError as error:
        own = f"AGENT.reopen({short_run(run)!r}) has the agent's own"
        raise UsageProblem(f"{error}. --model NAME lets another go on; {own}") from error


# -- choosing


def model_arguments(parser: Parser) -> None:
    parser.takes(
        "name",
        "text",
        help="openai:NAME, anthropic:NAME …, or a variable that holds a model; without one, say which it is",
    )


def model(scope: Scope, options: Namespace) -> Result:
    notebook = scope.notebook
    assert notebook is not None
    if options.name is None:
        name = notebook.tasks.model
        return Said(
            (f"The model is {name}" if name else "No model is named: %agent model openai:NAME",), {"model": name}
        )
    notebook.tasks.choose(options.name)
    return Said((f"Tasks go to {options.name} from now on",), {"model": options.name})
