"""`agent-kernel worker STORE`: an agent's Python variables for programs in any language, by JSON lines.

The protocol has the two file descriptors that the process began with, and nobody else knows them: standard input is empty
for the code, and what it writes to standard output and error, from C and from processes that it starts too, runs into a
pipe. A small process reads that: it keeps the beginning and the end, however much comes.
"""

from __future__ import annotations

import codecs
import functools
import json
import math
import os
import select
import signal
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import CodeType, FrameType
from typing import BinaryIO, Final, NoReturn, Protocol, TextIO, TypeAlias, cast

from agent_kernel.agents.execution import BoundedText
from agent_kernel.agents.namespace import MOST_OUTPUT, Namespace, NamespaceExecutor, Ran, how_changed
from agent_kernel.commands.places import find_store
from agent_kernel.commands.scope import Parser
from agent_kernel.errors import AgentKernelError
from agent_kernel.repository import Commit, ObjectId, Unsaved, hex_of
from agent_kernel.session.committing import Report
from agent_kernel.session.history import title

_ABOUT: Final = """\
Run code in the variables of a store, for a program that writes requests to standard input, one JSON object a line, and
reads one answer a line from standard output. The first line says what came back of an earlier process.

  {"id": 1, "run": "x = 1", "timeout_s": 60}   run code and commit what it changed
  {"id": 2, "undo": true}  {"redo": true}      reverse the last run or checkout; do it again
  {"id": 3, "checkout": "REF"}                 load the variables of a commit; true: the branch's last
  {"id": 4, "rollback": "REF"}                 make a new commit that equals an older one
  {"id": 5, "show": "NAME"}  {"names": true}   one variable in a line; all names
  {"id": 6, "code": "REF"}                     the code of the run that made a commit
  {"id": 7, "history": 10}                     the last commits, newest first
  {"id": 8, "diff": ["REF", "REF"]}            what differs; true: what the last commit changed
  {"id": 9, "close": true}                     end, as the end of the input does

An answer has the id of its request and "ok"; where that is false, "error" is a text. A SIGINT interrupts the code that runs,
and a SIGTERM ends the worker, after the answer of the code that it interrupts.
"""
_DONE, _FAILED = 0, 1
Answer: TypeAlias = dict[str, object]


def parser() -> Parser:
    """The parser of the command's arguments."""
    made = Parser("agent-kernel worker", _ABOUT)
    made.takes("store", "place", help="a store's folder or URL; it is made if it is not there", optional=False)
    made.value("--branch", metavar="NAME", help="the branch to work on (default: the one used last)", kind="branch")
    return made


def worker(words: Sequence[str]) -> int:
    """Serve requests until the input ends, and return the exit status.

    Raises:
        Helped, UsageProblem: the words ask for help, or do not fit.
    """
    options = parser().read(words)
    wire = _Wire()
    output = _Output.begin()
    try:
        return _work(wire, output, options.store, options.branch)
    finally:
        if output is not None:
            output.end()


def _work(wire: _Wire, output: _Output | None, store: str, branch: str | None) -> int:
    try:
        namespace = Namespace(find_store(store, create=True), branch)
    except AgentKernelError as error:
        wire.send({"ready": False} | _refusal(error))
        return _FAILED
    namespace.executor = executor = _Executor(namespace.namespace, output)
    executor.handle_signals()
    try:
        wire.send({"ready": True, "came_back": namespace.came_back, "names": len(namespace)} | _where(namespace))
        _serve(namespace, wire, executor)
    except BrokenPipeError:  # whoever asked has gone
        pass
    finally:
        namespace.close()
    _end()
    return _DONE


def _end() -> None:
    """Threads of the code may never end, and Python would wait for them."""
    own = (threading.current_thread(), threading.main_thread())
    if any(thread not in own and not thread.daemon for thread in threading.enumerate()):
        os._exit(_DONE)


def _serve(namespace: Namespace, wire: _Wire, executor: _Executor) -> None:
    for line in executor.waiting_for(wire):
        executor.handle_signals()  # the code may have set handlers of its own
        request: dict[str, object] = {}
        answer: Answer
        try:
            request = _read_request(line)
            answer = {"ok": True} | _answer(namespace, request)
        except (AgentKernelError, ValueError, TypeError, RecursionError) as error:
            answer = _refusal(error)
        wire.send({"id": request.get("id")} | answer)
        if answer["ok"] and "close" in request:
            return


def _refusal(error: Exception) -> Answer:
    message = (
        f"the line is not JSON: {error}" if isinstance(error, (json.JSONDecodeError, UnicodeDecodeError)) else error
    )
    return {"ok": False, "error": str(message), "type": type(error).__name__}


# -- what a request asks


def _read_request(line: bytes) -> dict[str, object]:
    """The object in a line.

    Raises:
        ValueError, RecursionError: the line is not an object.
    """
    request = cast("object", json.loads(line, parse_constant=_finite, parse_float=_finite))
    if not isinstance(request, dict):
        raise ValueError("a request is a JSON object")
    return cast("dict[str, object]", request)


def _finite(text: str) -> float:
    """A number. Infinity and NaN, which the answer would repeat, are no JSON."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the line is not JSON: {text} is not a number of JSON")
    return number


def _require_true(request: Mapping[str, object], key: str) -> None:
    if request[key] is not True:
        raise ValueError(f"{key} takes true")


def _answer(namespace: Namespace, request: dict[str, object]) -> Answer:
    """Do what a request asks.

    Raises:
        AgentKernelError: it cannot be done. ValueError: the request is not valid.
    """
    verbs = [key for key in request if key in _VERBS]
    if len(verbs) != 1:
        raise ValueError(f"a request has one of {', '.join(_VERBS)}")
    known = {"id", verbs[0], *(["timeout_s"] if verbs[0] == "run" else [])}
    unknown = [key for key in request if key not in known]
    if unknown:
        raise ValueError(f"{verbs[0]} takes no {', '.join(map(repr, unknown))}")
    if verbs[0] in _WITHOUT_VALUE:
        _require_true(request, verbs[0])
    return _VERBS[verbs[0]](namespace, request)


def _text(request: Mapping[str, object], key: str) -> str:
    value = request[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} takes a text")
    return value


def _run(namespace: Namespace, request: dict[str, object]) -> Answer:
    seconds = request.get("timeout_s")
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0):
        raise ValueError("timeout_s takes a number of seconds, more than 0")
    ran = namespace.run(_text(request, "run"), None if seconds is None else float(min(seconds, threading.TIMEOUT_MAX)))
    return _run_facts(ran) | _where(namespace)


def _run_facts(ran: Ran) -> Answer:
    facts: Answer = {name: getattr(ran, name) for name in ran.__struct_fields__}
    return facts | {"ok": ran.error is None, "unsaved": _unsaved(ran.unsaved.values())}


def _unsaved(found: Iterable[Unsaved]) -> Answer:
    return {
        name: {"type": one.type, "reason": one.reason, "remedy": one.remedy}
        for one in found
        for name in one.name.split(", ")
    }


def _moved(namespace: Namespace, report: Report) -> Answer:
    facts: Answer = {"changed": how_changed(report.changed), "unsaved": _unsaved(report.unsaved)}
    return facts | {"notes": report.notes} | _where(namespace)


def _where(namespace: Namespace) -> Answer:
    head = namespace.session.head
    return {"branch": namespace.session.branch, "commit": "" if head is None else hex_of(head)}


def _history(namespace: Namespace, request: dict[str, object]) -> Answer:
    limit = request["history"]
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError("history takes a number of commits, 1 or more")
    return {"history": [_row(*one) for one in namespace.history(limit)]}


def _row(id: ObjectId, commit: Commit) -> Answer:
    return {
        "commit": hex_of(id),
        "kind": commit.kind,
        "title": title(commit),
        "status": commit.status,
        "author": commit.author.name,
        "time_s": commit.time_ns / 1e9,
        "changed": how_changed(commit.changed),
    }


def _diff(namespace: Namespace, request: dict[str, object]) -> Answer:
    refs = request["diff"]
    ends = [] if refs is True else cast("list[object]", refs) if isinstance(refs, list) else [refs]
    if len(ends) > 2 or not all(isinstance(end, str) for end in ends):
        raise ValueError("diff takes a list of one or two refs")
    found = namespace.diff(*cast("list[str]", ends))
    return {
        "diff": {one.name: "added" if one.old is None else "removed" if one.new is None else "changed" for one in found}
    }


_VERBS: Final[Mapping[str, Callable[[Namespace, dict[str, object]], Answer]]] = {
    "run": _run,
    "undo": lambda namespace, request: _moved(namespace, namespace.undo(partial=True)),
    "redo": lambda namespace, request: _moved(namespace, namespace.redo(partial=True)),
    "checkout": lambda namespace, request: _moved(
        namespace, namespace.checkout(None if request["checkout"] is True else _text(request, "checkout"), partial=True)
    ),
    "rollback": lambda namespace, request: _moved(
        namespace, namespace.rollback(_text(request, "rollback"), partial=True)
    ),
    "show": lambda namespace, request: {"text": namespace.show(_text(request, "show"))},
    "code": lambda namespace, request: {"code": namespace.code(_text(request, "code"))},
    "names": lambda namespace, request: {"names": sorted(namespace)},
    "history": _history,
    "diff": _diff,
    "close": lambda namespace, request: {},
}
_WITHOUT_VALUE: Final = frozenset({"undo", "redo", "names", "close"})


# -- the two ends of the protocol, away from the code


class _Wire:
    """Takes the process's input and output for the protocol, and leaves an empty input to everybody else."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._input, self._output = os.dup(0), os.dup(1)
        self._lines: BinaryIO = os.fdopen(self._input, "rb")
        empty = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1):
            os.dup2(empty, number)
        os.close(empty)
        _close_in_forks(self._input, self._output)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines)

    def send(self, answer: Answer) -> None:
        """Write one line. Text that UTF-8 cannot hold is escaped, as JSON allows."""
        _write_all(self._output, json.dumps(answer).encode("ascii") + b"\n")


def _close_in_forks(*descriptors: int) -> None:
    """Processes that the code forks must neither take requests nor keep the other end from seeing that this one ended.

    The numbers stay in use: what they opened next, the store perhaps, would get what is written to them.
    """

    def close() -> None:
        empty = os.open(os.devnull, os.O_RDWR)
        for number in descriptors:
            os.dup2(empty, number, inheritable=False)
        os.close(empty)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=close)


class _Executor(NamespaceExecutor):
    """Takes all that comes out of the process while code runs, and lets SIGINT reach the code and nothing else."""

    def __init__(self, namespace: dict[str, object], output: _Output | None) -> None:
        super().__init__(namespace)
        self._all = output
        self._is_interruptible = False
        self._is_waiting = False
        self._is_terminated = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._end_by_sigterm)

    def handle_signals(self) -> None:
        """From now on SIGINT interrupts the code that runs, and nothing else; SIGTERM ends the worker after its answer."""
        signal.signal(signal.SIGINT, self._on_interrupt)
        signal.signal(signal.SIGTERM, self._on_termination)

    def waiting_for(self, wire: Iterable[bytes]) -> Iterator[bytes]:
        """The lines. Raises KeyboardInterrupt in place of the next one where SIGTERM came."""
        lines = iter(wire)
        while True:
            self._is_waiting = True
            if self._is_terminated:
                raise KeyboardInterrupt
            line = next(lines, None)
            self._is_waiting = False
            if line is None:
                return
            yield line

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._is_interruptible:
            raise KeyboardInterrupt

    def _on_termination(self, number: int, frame: FrameType | None) -> None:
        self._is_terminated = True
        if self._is_interruptible or self._is_waiting:
            raise KeyboardInterrupt

    def _end_by_sigterm(self) -> None:
        """Let SIGTERM end what the code forked, as `multiprocessing` expects: it interrupts this process alone."""
        if signal.getsignal(signal.SIGTERM) == self._on_termination:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _run_codes(self, codes: Sequence[CodeType]) -> object:
        self._is_interruptible = True
        try:
            return super()._run_codes(codes)
        finally:
            self._is_interruptible = False

    def _open_output(self) -> BoundedText:
        if self._all is None:
            return super()._open_output()
        self._all.lead_here()
        return _Passed(self._all)


class _Passed(BoundedText):
    """Hands on what Python code prints, line by line, so that it stands in order with what other processes write."""

    def __init__(self, output: _Output) -> None:
        super().__init__(0)
        self._output = output
        self._line: list[str] = []

    def write(self, text: str) -> int:
        self._line.append(text)
        if "\n" in text or len(self._line) > _MOST_PIECES:
            self.flush()
        return len(text)

    def flush(self) -> None:
        line, self._line = self._line, []
        text = "".join(line)
        for start in range(0, len(text), _READ_BYTES):
            _write_all(1, text[start : start + _READ_BYTES].encode("utf-8", "backslashreplace"))

    def getvalue(self) -> str:
        self.flush()
        return self._output.take()


_MOST_PIECES: Final = 1_000


def _write_all(descriptor: int, text: bytes) -> None:
    rest = memoryview(text)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _lines_to(descriptor: int) -> TextIO:
    return open(descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


class _Flushes(Protocol):
    def fflush(self, stream: None) -> int: ...


class _Output:
    """The pipe to which standard output and error lead, and the process that reads it.

    A thread could not: C code that prints while it holds the interpreter would wait for it forever. A file could, and
    would fill the disk.
    """

    def __init__(self, sink: int, asks: int, answers: BinaryIO, error: int) -> None:
        self._sink = sink
        self._asks = asks
        self._answers = answers
        self._error = error  # where standard error led before
        self._process = os.getpid()

    @classmethod
    def begin(cls) -> _Output | None:
        """Lead standard output and error there. None: this system cannot fork, and takes what Python prints alone."""
        if not hasattr(os, "fork"):
            return None
        source, sink = os.pipe()
        requests, asks = os.pipe()
        answered, answers = os.pipe()
        if os.fork() == 0:
            _collect(source, requests, answers)
        for number in (source, requests, answers):
            os.close(number)
        error = os.dup(2)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        # New ones: the old may have led to a file, which they would go on to seek in.
        sys.stdout = sys.__stdout__ = _lines_to(1)  # type: ignore[misc,assignment]  # a text stream is enough
        sys.stderr = sys.__stderr__ = _lines_to(2)  # type: ignore[misc,assignment]  # a text stream is enough
        _close_in_forks(sink, asks, answered, error)
        return cls(sink, asks, os.fdopen(answered, "rb"), error)

    def lead_here(self) -> None:
        """Lead standard output and error here again, where code closed them or led them elsewhere."""
        mine = os.fstat(self._sink)
        for number in (1, 2):
            with suppress(OSError):  # it is closed
                if os.path.samestat(os.fstat(number), mine):
                    continue
            os.dup2(self._sink, number)

    def end(self) -> None:
        """Let what goes wrong from now on be said where it would have been."""
        sys.stderr.flush()
        os.dup2(self._error, 2)

    def take(self) -> str:
        """All that was written up to now, less the middle of what is too long."""
        _flush_c()
        if os.getpid() != self._process:  # a fork of the code: it is its parent's to take
            return ""
        os.write(self._asks, b"?")
        (size,) = struct.unpack("!Q", self._answers.read(8))
        return self._answers.read(size).decode()


def _collect(source: int, requests: int, answers: int) -> NoReturn:
    """Read what comes, and give it away whenever somebody asks. Ends with whoever could ask."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.closerange(0, min(source, requests, answers))
        for number in range(min(source, requests, answers), 64):
            if number not in (source, requests, answers):
                with suppress(OSError):
                    os.close(number)
        os.set_blocking(source, False)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        output, sources = BoundedText(MOST_OUTPUT), [source, requests]
        while True:
            ready, _, _ = select.select(sources, [], [])
            is_requested = requests in ready
            if is_requested and not os.read(requests, 1):
                os._exit(0)
            # All that was written before somebody asked is in the pipe, which holds no more than this.
            for _ in range(_PIPE_READS if is_requested else 1):
                data = _read(source) if source in sources else b""
                if data is None:
                    break
                output.write(decoder.decode(data))
                if not data:
                    sources = [requests]
                    break
            if is_requested:
                text = output.getvalue().encode("utf-8", "replace")
                _write_all(answers, struct.pack("!Q", len(text)) + text)
                output = BoundedText(MOST_OUTPUT)
    finally:
        os._exit(1)


_PIPE_READS: Final = 16
_READ_BYTES: Final = 1 << 16


def _read(source: int) -> bytes | None:
    """What is there; empty: nothing will come any more; None: nothing is there now."""
    try:
        return os.read(source, _READ_BYTES)
    except BlockingIOError:
        return None


@functools.cache
def _c_library() -> object:
    import ctypes

    return ctypes.CDLL(None)


def _flush_c() -> None:
    """C code that prints to a pipe keeps it back until much has come."""
    with suppress(Exception):
        cast("_Flushes", _c_library()).fflush(None)
