"""Run code in a fresh Python, where a fork of this process is not safe: its state comes from the store, as a worker's does.

It is started, not forked: no lock, no thread and no library's pool comes along, and no variable that the store does not
have. So it is slower than a fork, and code that uses such a variable has no preview. What it did is committed on a branch
of its own, and is taken on as what a fork did.
"""

from __future__ import annotations

import os
import pickle
import re
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from agent_kernel.agents.event_log import short_run
from agent_kernel.agents.events import pack
from agent_kernel.agents.preview import forked_process
from agent_kernel.agents.preview.forked_process import Attempt, PreviewResult, in_process
from agent_kernel.agents.temporary_branches import PREVIEWS
from agent_kernel.agents.workers import BEGUN, describe_death, kill_process, take_output, wait_for_end
from agent_kernel.errors import AgentKernelError, PreviewRefusedError, RefNotFoundError
from agent_kernel.repository import ASIDE, Author
from agent_kernel.session import trust

if TYPE_CHECKING:
    from agent_kernel.agents.execution import Executor
    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.session import Session

__all__ = ["Trial", "refusal", "run_fresh_preview"]

_NAME = re.compile(r"[^\W\d]\w*")
_LOADING_S = 60.0  # for the variables, before the code begins
_BEGIN = """\
import pickle, sys
given = open(0, "rb", closefd=False)
sys.path[:] = pickle.load(given)
from agent_kernel.agents.preview.fresh import main
main(given)
"""


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """All that the process has to know.

    Attributes:
        branch: which it works on; it points at where the code begins.
        offers: pickled, what the code finds beside the variables.
        executor: `MODULE:FUNCTION`, which makes of a namespace what runs code in it; "": as a script.
        allowed: as of `Attempt`.
        secret: of a store that only the process that asks trusts.
    """

    url: str
    branch: str
    session: str
    code: str
    author: str
    kind: str
    run: str
    step: int
    deadline_s: float
    offers: bytes
    executor: str
    allowed: tuple[str, ...] | None
    secret: str = ""


def refusal(context: ExecutionContext, code: str) -> str:
    """Why a fresh process cannot try this code; "" if nothing is known against it."""
    session = context.session
    if session is None:
        return "this state has no history that another process could load"
    if session.repo.store.url.startswith("memory:"):
        return "a store in memory is seen by this process alone"
    used = lacks(context, code)
    return f"{', '.join(used)} cannot be saved, so that another process does not have it" if used else ""


def lacks(context: ExecutionContext, code: str) -> tuple[str, ...]:
    """The variables that the code uses and a fresh process does not have."""
    session = context.session
    return () if session is None else tuple(sorted(_find_unsaved(session) & set(_NAME.findall(code))))


def _find_unsaved(session: Session) -> set[str]:
    return {name for one in session.status(names=False).lost for name in one.name.split(", ")}


def run_fresh_preview(attempt: Attempt, context: ExecutionContext) -> PreviewResult:
    """Run code in a fresh process, and say what it did there. All that is here has to be committed."""
    session = context.session
    assert session is not None
    if session.head is None:  # a branch begins at a commit
        session.commit("before a preview", full=True)
    assert session.head is not None
    name, offers = secrets.token_hex(4), _pickle_offers(attempt.offers, attempt.code)
    trial = Trial(
        url=session.repo.store.url,
        branch=f"{PREVIEWS}{name}{f'-{short_run(attempt.run)}' if attempt.run else ''}",
        session=ASIDE + name,
        code=attempt.code,
        author=attempt.author.name,
        kind=attempt.author.kind,
        run=attempt.run,
        step=attempt.step,
        deadline_s=attempt.deadline_s,
        offers=offers,
        executor=str(getattr(context.executor, "in_worker", "")),
        allowed=None if attempt.allowed is None else tuple(attempt.allowed),
        secret=trust.secret_to_pass_on(session.repo),
    )
    repo = session.repo
    repo.create_branch(trial.branch, session.head)
    try:
        result = _supervise(trial)
    finally:
        repo.drop_head(trial.session)
        with suppress(RefNotFoundError):
            repo.delete_branch(trial.branch, force=True)
    unsaved = sorted(_find_unsaved(session))
    if result.status == "failed" and unsaved and not result.again:
        why = f"it ran in another process, which does not have {', '.join(unsaved)}: approving runs it here"
        return msgspec.structs.replace(result, again=why)
    return result


def _pickle_offers(offers: dict[str, object], code: str) -> bytes:
    """What the code finds beside the variables, less what cannot travel. Raises: PreviewRefusedError: the code names that."""
    import cloudpickle

    found: dict[str, bytes] = {}
    for name, value in offers.items():
        try:
            found[name] = cloudpickle.dumps(value)
        except Exception as error:
            if name in set(_NAME.findall(code)):
                reason = f"{forked_process.refusal()}, and {name} cannot be given to another process"
                raise PreviewRefusedError(f"{reason} ({type(error).__name__})", (name,)) from error
    return msgspec.msgpack.encode(found)


def _supervise(trial: Trial) -> PreviewResult:
    began = time.monotonic()
    with (
        tempfile.TemporaryFile() as input_file,
        tempfile.TemporaryFile() as answer,
        tempfile.TemporaryFile() as error_file,
    ):
        pickle.dump(sys.path, input_file)
        input_file.write(pack(trial))
        input_file.seek(0)
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-c", _BEGIN],
            stdin=input_file,
            stdout=answer,
            stderr=error_file,
            start_new_session=True,
        )
        try:
            late = wait_for_end(process, answer.fileno(), trial.deadline_s + _LOADING_S, None)
        finally:
            kill_process(process)
        answer.seek(len(BEGUN))
        try:
            return msgspec.msgpack.decode(answer.read(), type=PreviewResult)
        except msgspec.DecodeError:
            why = late or describe_death(process.returncode, error_file)
    return PreviewResult(
        status="killed" if late else "crashed",
        why=why,
        again=f"{why}: approving runs it here",
        seconds=time.monotonic() - began,
    )


# -- in the process


def main(input_file: BinaryIO) -> None:
    """What the process does: read what to try, try it, write what came of it, and end."""
    answer = take_output()
    trial = msgspec.msgpack.decode(input_file.read(), type=Trial)
    answer.write(BEGUN)
    answer.flush()
    # Functions and classes of the notebook say that they are from here.
    module = sys.modules["__main__"] = ModuleType("__main__")
    answer.write(pack(_run_trial(trial, module)))
    answer.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and exit functions that the code left must not keep it


def _run_trial(trial: Trial, module: ModuleType) -> PreviewResult:
    import cloudpickle

    from agent_kernel.agents.execution_context import ExecutionContext
    from agent_kernel.session.session import Session as Joined
    from agent_kernel.session.snapshot import Repository

    namespace = module.__dict__
    if trial.secret:
        trust.trust_temporarily(trial.secret, trial.url)
    try:
        with Repository.open(trial.url, create=False) as repo:
            executor = _executor(trial.executor, module)
            skip: Callable[[str], bool] | None = getattr(executor, "skip", None)
            session = Joined(namespace, repo, branch=trial.branch, session_id=trial.session, skip=skip)
            try:
                session.checkout(partial=True)
                offers = msgspec.msgpack.decode(trial.offers, type=dict[str, bytes])
                attempt = Attempt(
                    code=trial.code,
                    author=Author(trial.author, "agent" if trial.kind == "agent" else "person"),
                    run=trial.run,
                    step=trial.step,
                    deadline_s=trial.deadline_s,
                    offers={name: cloudpickle.loads(value) for name, value in offers.items()},
                    allowed=trial.allowed,
                )
                return in_process(attempt, ExecutionContext(namespace, session, executor=executor))
            finally:
                session.close()
    except AgentKernelError as error:
        return PreviewResult(status="crashed", why=str(error), again=f"{error}: approving runs it here")


def _executor(name: str, module: ModuleType) -> Executor | None:
    if not name:
        return None
    where, _, what = name.partition(":")
    make: Callable[[ModuleType], Executor] = getattr(import_module(where), what)
    return make(module)
