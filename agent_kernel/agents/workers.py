"""Run one task of an agent beside everything else, and tell what came of it: on a branch of its own, in a process of its own where there can be one.

A `Job` says all that is needed, and can be pickled; `run_job` does it, wherever an executor takes it, and gives back a
`Candidate`. In another process than the one that asks, a fresh Python does the work (`supervising`), so that it can be
bounded and killed. In a thread of the process that asks, it is done right there, with a namespace and a session of its
own: nothing bounds it then but the limits of the run.

The worker opens the store by itself and writes to its branch alone. What it gives back is little; the rest is in the
store, also when the worker dies.
"""

from __future__ import annotations

import builtins
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, cast

import msgspec

from agent_kernel.agents.event_log import EventStore, State, state_of, usage_of
from agent_kernel.agents.events import Action, Clarify, Effect, Event, Fail, Success, Usage, pack
from agent_kernel.agents.events import Cancelled as CancelledEvent
from agent_kernel.agents.limits import Limits
from agent_kernel.errors import AgentKernelError, ModelError, StoreError, TaskInterruptedError
from agent_kernel.repository import ASIDE, Holder, ObjectId
from agent_kernel.session.history import changes_between
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.agents.agent import Agent
    from agent_kernel.agents.models import Model
    from agent_kernel.agents.run import Run
    from agent_kernel.session import Repository, Session


# -- what came of one task that was tried on a branch of its own: read from the store, so that nothing is lost with a worker

_LARGEST_VALUE = 64 << 20
_PLAIN = ("bool", "float", "int", "str")  # of these the value says enough


class Changed(msgspec.Struct, frozen=True):
    """A variable that is another one than at the start: `+`, `~` or `-`, and what it is now."""

    how: str
    name: str
    summary: str = ""
    size_bytes: int = 0


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """One of several tries of a task. It can be pickled.

    Attributes:
        number: its place in the race, from 1.
        start, tip: hex ids of the commits where it began, and where its branch is now.
        status: `completed`, `failed`, `interrupted`, `clarify`, or `running`.
        reason: why it is not completed, in words.
        result, type: what it gave back, in one line, and of what type it is.
        payload: that value itself, pickled, if it could be.
        steps, lines: pieces of code that it ran, and their lines.
        effects: what it did outside the variables, each with what it did it to.
    """

    number: int
    branch: str
    run: str
    agent: str
    model: str
    task: str
    start: str
    tip: str = ""
    status: State = "running"
    reason: str = ""
    limit: str = ""
    result: str = ""
    type: str = ""
    payload: bytes | None = None
    usage: Usage = Usage()
    seconds: float = 0.0
    steps: int = 0
    lines: int = 0
    changed: tuple[Changed, ...] = ()
    effects: tuple[tuple[str, str], ...] = ()
    score: float | None = None

    def __repr__(self) -> str:
        text = self.result or self.reason
        return f"<Candidate {self.number}, {self.agent}, {self.status}{f': {text}' if text else ''}>"

    @property
    def value(self) -> object:
        """What it gave back; where that could not be pickled, one line about it."""
        if self.payload is None:
            return self.result
        import cloudpickle

        return cloudpickle.loads(self.payload)

    @property
    def is_done(self) -> bool:
        """Whether it can be picked."""
        return self.status == "completed"


def pickle_value(value: object) -> bytes | None:
    """The value as bytes, if it can be pickled and is no larger than 64 MB."""
    import cloudpickle

    try:
        found = bytes(cloudpickle.dumps(value))
    except Exception:  # noqa: BLE001 - values are foreign code's to pickle
        return None
    return found if len(found) <= _LARGEST_VALUE else None


def refresh_candidate(candidate: Candidate, repo: Repository, event_store: EventStore) -> Candidate:
    """The candidate with all that the store knows of it: its events, and its branch against where it began."""
    events = tuple(event_store.of(candidate.run))
    found: dict[str, Any] = {}
    tip = repo.branches().get(candidate.branch)
    if tip is not None:
        from agent_kernel.repository import hex_of

        found["tip"] = hex_of(tip)
        found["changed"] = describe_changes(repo, repo.resolve(candidate.start), tip)
    if events:
        found |= _summarize_events(events)
        if candidate.status != "running":  # the worker knows best how it ended
            found.pop("status")
        found["reason"] = candidate.reason or found["reason"]
    return msgspec.structs.replace(candidate, **found)


def _summarize_events(events: Sequence[Event]) -> dict[str, Any]:
    last = next((e for e in reversed(events) if isinstance(e, Success | Fail | CancelledEvent | Clarify)), None)
    result, kind = getattr(last, "result", ""), getattr(last, "type", "")
    codes = [event.code for event in events if isinstance(event, Action) and event.code is not None]
    return {
        "status": state_of(events),
        "reason": getattr(last, "reason", "") or getattr(last, "question", ""),
        "limit": getattr(last, "limit", ""),
        "result": result.removeprefix(f"{kind} ") if kind in _PLAIN else result,
        "type": kind,
        "usage": usage_of(events),
        "steps": len(codes),
        "lines": sum(len(code.splitlines()) for code in codes),
        "effects": tuple(dict.fromkeys((e.what, e.target) for e in events if isinstance(e, Effect))),
        "seconds": (events[-1].time_ns - events[0].time_ns) / 1e9,
    }


def describe_changes(repo: Repository, start: ObjectId | None, tip: ObjectId) -> tuple[Changed, ...]:
    """The variables that differ, with a line about what each is now. Nothing is loaded."""
    old, new = repo.tree_at(start), repo.tree_at(tip)
    found: list[Changed] = []
    for change in changes_between(repo, old, new):
        entry = new.get(change.name)
        stored = repo.read_preview(entry) if entry is not None else b""
        line = previews.line(previews.decode(stored)) if stored else ""
        found.append(Changed(change.how, change.name, line, change.size))
    return tuple(found)


BEGUN = b"!"  # what a worker's process answers first
_OVER = "the race that it belonged to is over"
_LOOK_S = 0.2  # how often a worker looks whether it is to stop


class NotebookType(msgspec.Struct, frozen=True):
    """A type of the notebook, by its name there: a worker has a class of its own that is the same."""

    name: str


class SharedModel(msgspec.Struct, frozen=True):
    """Stands for a provider's model that its user made: the object, with its server and its key, stays in its process."""

    name: str
    key: str


_shared_models: dict[str, Model] = {}


def share_model(model: Model) -> SharedModel:
    """Let candidates in threads of this process use this very object."""
    shared = SharedModel(model.name, f"{os.getpid()}:{id(model)}")
    _shared_models[shared.key] = model  # held, so that no other object has its id
    return shared


def model_of(agent: Agent) -> object:
    """The model of an agent that was sent.

    Raises:
        ModelError: it stays in another process. Its name must not be asked instead, which may be another server's.
    """
    model = agent.model
    if not isinstance(model, SharedModel):
        return model
    if model.key not in _shared_models:
        raise ModelError(
            model.name,
            "this model is an object, and it cannot be sent to another process; name the model, or leave out executor=",
        )
    return _shared_models[model.key]


class Task(msgspec.Struct, frozen=True):
    """What an agent is asked; it travels as a pickle, since it holds objects of any kind."""

    agent: Agent
    task: str
    returns: object = None
    inputs: dict[str, object] = {}


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """All that a worker has to know.

    Attributes:
        candidate: as it is before anything ran: its branch exists, and points at where it begins.
        task: a pickled `Task`.
        deadline_s: seconds after which it is ended, from when the worker begins.
        memory_bytes: what the worker's process may take for its data, where the system has such a limit.
        race: id of the race that it belongs to; what `stop_key` makes of it is a setting of the store that ends it.
        home: the process that asks.
        keep: environment variables that the worker gets although they look like secrets.
        secret: of a store that only the process that asks trusts, which the worker then does too.
    """

    url: str
    candidate: Candidate
    task: bytes
    approve: str
    limits: Limits
    deadline_s: float
    memory_bytes: int | None
    race: str
    home: Holder
    keep: tuple[str, ...] = ()
    secret: str = ""


def stop_key(race: str) -> str:
    """The setting of a store that ends all workers of a race."""
    return f"race {race} is over"


_shared_repositories: dict[str, Repository] = {}
_thread_sessions: dict[str, Session] = {}  # with which runs are at work in threads of this process


def runs_in_thread(run: str) -> bool:
    """Whether a thread of this process does it, which nobody can end."""
    return run in _thread_sessions


def give_up(run: str) -> None:
    """Nobody waits for a run any more: what a thread of this process still does with it goes into no store."""
    if (session := _thread_sessions.get(run)) is not None:
        session.give_up()


@contextmanager
def lend_repository(race: str, repo: Repository) -> Generator[None]:
    """Let workers in threads of this process use a repository that is open already."""
    _shared_repositories[race] = repo
    try:
        yield
    finally:
        _shared_repositories.pop(race, None)


def run_job(job: Job) -> Candidate:
    """Do the job. Whatever goes wrong is told by the candidate; nothing is raised, and it does not hang."""
    if job.home.is_this_process():
        repo = _shared_repositories.get(job.race)
        if repo is None:
            return fail_candidate(job, _OVER)
        own = {**builtins.__dict__}
        return _do_job(job, repo, {"__name__": "__main__", "__builtins__": own}, lambda: True)

    return supervise_job(job)


def fail_candidate(job: Job, reason: str, seconds: float = 0.0) -> Candidate:
    """The candidate of a job that did not come to its end."""
    return msgspec.structs.replace(job.candidate, status="failed", reason=reason, seconds=seconds)


def _do_job(job: Job, repo: Repository, namespace: dict[str, object], is_wanted: Callable[[], bool]) -> Candidate:
    began = time.monotonic()
    try:
        return _run_candidate(job, repo, namespace, is_wanted)
    except (KeyboardInterrupt, TaskInterruptedError):
        return msgspec.structs.replace(fail_candidate(job, "it was stopped"), status="interrupted")
    except AgentKernelError as error:
        return fail_candidate(job, str(error), time.monotonic() - began)
    except Exception as error:  # noqa: BLE001 - a candidate that fails must not take the others along
        return fail_candidate(job, f"{type(error).__name__}: {error}", time.monotonic() - began)


def _run_candidate(
    job: Job, repo: Repository, namespace: dict[str, object], is_wanted: Callable[[], bool]
) -> Candidate:
    """Take the branch, load its state, drive the run there."""
    import cloudpickle

    from agent_kernel.agents.agent import start_run
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.session.session import Session

    wanted = job.candidate
    if _is_over(job, repo):
        return fail_candidate(job, _OVER)
    session = Session(namespace, repo, branch=wanted.branch, session_id=ASIDE + wanted.run)
    try:
        if session.branch != wanted.branch:
            return fail_candidate(job, "; ".join(session.notes))
        if job.home.is_this_process():
            _thread_sessions[wanted.run] = session
        session.checkout(partial=True, keep_random=job.home.is_this_process())
        sent = cast("Task", cloudpickle.loads(job.task))
        returns = namespace.get(sent.returns.name) if isinstance(sent.returns, NotebookType) else sent.returns
        run = start_run(
            sent.agent,
            sent.task,
            ExecutionContext(namespace, session),
            returns=returns,
            inputs=sent.inputs,
            model=model_of(sent.agent),
            approve=job.approve,
            limits=_limits(job),
            can_ask=False,
            run=wanted.run,
            parent_run=job.race,
            namespace=f"race/{sent.agent.name}",
        )
        with _stop_when_over(run, job, repo, is_wanted):
            for _ in run.stream():
                pass
        return _complete_candidate(wanted, run)
    finally:
        _thread_sessions.pop(wanted.run, None)
        session.close()


def _limits(job: Job) -> Limits:
    """The run's own limits, which end it in good order before the deadline would."""
    own = job.limits.run_s
    return msgspec.structs.replace(job.limits, run_s=job.deadline_s if own is None else min(own, job.deadline_s))


def _complete_candidate(wanted: Candidate, run: Run[Any]) -> Candidate:
    outcome = run.outcome
    payload = pickle_value(outcome.value) if outcome.status == "completed" else None
    return msgspec.structs.replace(
        wanted,
        status=outcome.status,
        reason=outcome.reason,
        limit=outcome.limit,
        tip=outcome.commit,
        usage=outcome.usage,
        payload=payload,
    )


def _is_over(job: Job, repo: Repository) -> bool:
    """Whether its race has ended. An executor may begin a job long after it was cancelled."""
    if repo.setting(stop_key(job.race)) is not None:
        return True
    events = tuple(EventStore(repo.store).of(job.race))
    return bool(events) and state_of(events) != "running"


@contextmanager
def _stop_when_over(run: Run[Any], job: Job, repo: Repository, is_wanted: Callable[[], bool]) -> Generator[None]:
    """Stop the run when its race is over, or when nobody waits for it any more."""
    has_ended = threading.Event()

    def watch() -> None:
        while not has_ended.wait(_LOOK_S):
            try:
                over = _is_over(job, repo)
            except StoreError:
                over = False  # the store is busy, or gone: the run finds out by itself
            if over or not is_wanted():
                run.cancel("the race was stopped")
                return

    thread = threading.Thread(target=watch, name="agent-kernel worker", daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


# -- the worker's process


def take_output() -> BinaryIO:
    """What leads to the parent. What is printed past Python from now on goes nowhere, so that it is not taken for an answer."""
    answer = os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("wb") as null:
        os.dup2(null.fileno(), 1)
    return answer


def main(job_file: BinaryIO) -> None:
    """What a worker's process does: read a job, do it, write the candidate, and end."""
    answer = take_output()
    job = msgspec.msgpack.decode(job_file.read(), type=Job)
    answer.write(BEGUN)
    answer.flush()
    _limit_memory(job.memory_bytes)
    parent = os.getppid()
    found = _open_and_do(job, lambda: os.getppid() == parent)
    answer.write(pack(found))
    answer.flush()
    sys.stderr.flush()
    os._exit(0)  # threads and exit functions that the code left must not keep it


def _open_and_do(job: Job, is_wanted: Callable[[], bool]) -> Candidate:
    from agent_kernel.session.snapshot import Repository
    from agent_kernel.session.trust import trust_temporarily

    # Functions and classes of the notebook say that they are from here.
    module = sys.modules["__main__"] = ModuleType("__main__")
    if job.secret:
        trust_temporarily(job.secret, job.url)
    try:
        repo = Repository.open(job.url, create=False)
    except AgentKernelError as error:
        return fail_candidate(job, str(error))
    with repo:
        return _do_job(job, repo, module.__dict__, is_wanted)


def _limit_memory(most: int | None) -> None:
    """Bound what the process allocates. Its address space is not: the store reserves much more than it takes."""
    if most is None:
        return
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        most = min(most, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


# -- the environment that a worker process gets: this one's, without what looks like a secret, but for its own provider's
#
# A list says by provider which keys its model needs; all others that look like secrets stay here. Code in the worker can
# still read files: this keeps keys from being handed around by the way, and stops nobody who means to find them.

# By the part of a model's name before the colon, the variables in which pydantic-ai looks for its credentials.
NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "alibaba": ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY"),
    "anthropic": ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "bedrock": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"),
    "cerebras": ("CEREBRAS_API_KEY",),
    "cohere": ("CO_API_KEY",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "fireworks": ("FIREWORKS_API_KEY",),
    "github": ("GITHUB_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-gla": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
    "google-vertex": ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"),
    "grok": ("GROK_API_KEY", "XAI_API_KEY"),
    "groq": ("GROQ_API_KEY",),
    "heroku": ("HEROKU_INFERENCE_KEY",),
    "huggingface": ("HF_TOKEN",),
    "litellm": ("LITELLM_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshotai": ("MOONSHOTAI_API_KEY",),
    "nebius": ("NEBIUS_API_KEY",),
    "ollama": ("OLLAMA_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openai-responses": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "ovhcloud": ("OVHCLOUD_API_KEY",),
    "sambanova": ("SAMBANOVA_API_KEY",),
    "together": ("TOGETHER_API_KEY",),
    "vercel": ("VERCEL_AI_GATEWAY_API_KEY", "VERCEL_OIDC_TOKEN"),
    "xai": ("XAI_API_KEY",),
}


def redact_environment(environ: Mapping[str, str], model: str = "", keep: Iterable[str] = ()) -> dict[str, str]:
    """The environment without what looks like a secret by its name or its content.

    Args:
        model: a model's name, whose provider's own variables are kept.
        keep: others that are kept.

    >>> redact_environment({"HOME": "/h", "OPENAI_API_KEY": "a", "GROQ_API_KEY": "b"}, "openai:gpt-5")
    {'HOME': '/h', 'OPENAI_API_KEY': 'a'}
    """
    kept_names = {*NEEDED.get(model.partition(":")[0], ()), *keep}
    return {
        name: value
        for name, value in environ.items()
        if name in kept_names or not (previews.names_a_secret(name) or previews.holds_a_secret(value))
    }


# -- have a job done by a fresh Python, and end it with its children when its time is up or nobody wants it any more
#
# It is spawned, never forked: it inherits no lock, no thread and no open store. It leads a process group of its own, which
# is killed as a whole, whatever it left running; a child that made itself a group of its own is out of reach.

GRACE_S = 5.0  # that a worker has to end by itself once it was told to
_STARTING_S = 60.0  # that Python has to start, on a busy machine
_LOOK_AGAIN_S = 0.02
_MOST_ERRORS = 2_000  # bytes of what a dead worker's process said last
_BEGIN = """\
import pickle, sys
given = open(0, "rb", closefd=False)
sys.path[:] = pickle.load(given)
from agent_kernel.agents.workers import main
main(given)
"""


def supervise_job(job: Job, stop: threading.Event | None = None) -> Candidate:
    """Do a job in a process of its own. A worker that dies is a failed candidate, and says what it died of."""
    began = time.monotonic()
    # Files, not pipes: neither side ever waits for the other to read.
    with tempfile.TemporaryFile() as job_file, tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as errors:
        pickle.dump(sys.path, job_file)
        job_file.write(pack(job))
        job_file.seek(0)
        try:
            process = subprocess.Popen(
                [sys.executable, "-X", "faulthandler", "-c", _BEGIN],
                stdin=job_file,
                stdout=answer,
                stderr=errors,
                env=redact_environment(os.environ, job.candidate.model, job.keep),
                start_new_session=True,
            )
        except OSError as error:
            return fail_candidate(job, f"its process could not be started: {error}")
        try:
            why = wait_for_end(process, answer.fileno(), job.deadline_s, stop)
        finally:
            kill_process(process)
        answer.seek(len(BEGUN))
        found = _read(answer.read())
        if found is not None:
            return msgspec.structs.replace(found, seconds=time.monotonic() - began)
        reason = why or describe_death(process.returncode, errors)
        return fail_candidate(job, reason, time.monotonic() - began)


def wait_for_end(process: subprocess.Popen[bytes], answer: int, deadline_s: float, stop: threading.Event | None) -> str:
    """Wait for the end, which comes at the latest some seconds after the deadline; why it was ended, if it was.

    Time counts from when Python is there and the work begins. The run's own limit comes first, and lets it end in good
    order.
    """
    end = time.monotonic() + deadline_s + _STARTING_S
    begun = stopped = None
    while process.poll() is None:
        now = time.monotonic()
        if begun is None and os.fstat(answer).st_size:
            begun = now
            end = now + deadline_s + GRACE_S
        if stopped is None and stop is not None and stop.is_set():
            stopped = now  # it looks by itself whether its race is over
        if stopped is not None and now > stopped + GRACE_S:
            return "it was stopped, did not end by itself, and was killed"
        if now > end:
            return f"it did not end within {deadline_s:g} s, and was killed"
        time.sleep(_LOOK_AGAIN_S)
    return ""


def kill_process(process: subprocess.Popen[bytes]) -> None:
    """End what is left of it, and let no zombie stay."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _read(answer: bytes) -> Candidate | None:
    try:
        return msgspec.msgpack.decode(answer, type=Candidate)
    except msgspec.DecodeError:
        return None


def describe_death(code: int | None, errors: IO[bytes]) -> str:
    """Of what a process died that gave no answer."""
    if code is not None and code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = f"signal {-code}"
        return f"its process was ended by {name}"
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - _MOST_ERRORS))
    lines = [line for line in errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
    last = f": {lines[-1][:300]}" if lines else ""
    return f"its process ended without an answer (exit status {code}){last}"


class Processes(Executor):
    """Does each job in a process of its own, so many at a time. What else is submitted is not for it.

    >>> Processes(2).submit(len, "abc")
    Traceback (most recent call last):
    TypeError: only jobs of workers can be submitted
    """

    def __init__(self, most: int) -> None:
        self._stop = threading.Event()
        self._waiters = ThreadPoolExecutor(most, "agent-kernel workers")

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        if kwargs or len(args) != 1 or not isinstance(args[0], Job):
            raise TypeError("only jobs of workers can be submitted")
        return self._waiters.submit(supervise_job, args[0], self._stop)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """With `cancel_futures`, also those that are on their way end: by themselves, or some seconds later killed."""
        if cancel_futures:
            self._stop.set()
        self._waiters.shutdown(wait, cancel_futures=cancel_futures)
