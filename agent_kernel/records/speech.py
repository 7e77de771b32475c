"""Sessions of speech: what is heard, what is said, and whose turn it is.

A session's state changes many times a second, is told at once, and is stored about twice a second. What was said for good, a
final transcript or a turn, is a record of its own, stored at once: a session can go on for hours and costs what was said.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import Field

from agent_kernel.errors import InvalidRecordError, TransitionError
from agent_kernel.records.collection import Records, together
from agent_kernel.records.documents import (
    checks_arguments,
    new_id,
    not_negative,
    now_s,
    require_mapping,
    seconds,
    shown,
    sortable,
)
from agent_kernel.records.schema import Record

if TYPE_CHECKING:
    from agent_kernel.repository import Repository

Kind: TypeAlias = Literal["stt", "tts", "conversation"]
StreamingMode: TypeAlias = Literal["batch", "streaming", "realtime"]
SpeechStatus: TypeAlias = Literal["active", "paused", "ended", "failed"]
_ACTIVE: Final = "active\0"
_OVER: Final = "over\0"
_NEWEST: Final = 10**20
_ALL: Final = 1_000_000
_MOST_VERSIONS: Final = 100  # versions of a session that stay in its history when it has ended


class SpeechRecord(Record):
    """A session: what kind it is, and how each side of it stands."""

    collection = "SpeechSession"
    plane = "store"
    coalesce_s = 0.5  # with the time between two looks of a watcher, less than a second
    transitions: ClassVar[Mapping[str, Any]] = {
        "active": ("paused", "ended", "failed"),
        "paused": ("active", "ended", "failed"),
        "ended": (),
        "failed": (),
    }

    kind: Kind = "conversation"
    mode: StreamingMode = "streaming"
    config: dict[str, Any] = Field(default_factory=dict[str, Any])
    status: SpeechStatus = "active"
    reason: str = ""
    stt: dict[str, Any] = Field(default_factory=dict[str, Any])
    tts: dict[str, Any] = Field(default_factory=dict[str, Any])
    turns: dict[str, Any] = Field(default_factory=dict[str, Any])
    started_s: float = 0.0  # seconds since 1970
    updated_s: float = 0.0
    ended_s: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.status in ("ended", "failed")


class Utterance(Record):
    """Something that was said: a final transcript, or a turn of a conversation. Its id is `SESSION/…`."""

    collection = "Utterance"
    plane = "store"

    session: str
    channel: Literal["stt", "tts", "turns"]
    text: str
    role: str = ""
    time_s: float = 0.0  # seconds since 1970
    details: dict[str, Any] = Field(default_factory=dict[str, Any])


@checks_arguments
class Speech:
    """The sessions of a store.

    >>> import agent_kernel as ak
    >>> speech = ak.open("memory:").speech
    >>> session = speech.open("conversation", mode="realtime", config={"language": "en"})
    >>> session.stt.update(partial="good mor")
    >>> _ = session.stt.result("good morning", confidence=0.98)
    >>> _ = session.turns.add("user", "good morning")
    >>> [one.text for one in session.stt.results()], session.end("hung up").status
    (['good morning'], 'ended')
    """

    def __init__(self, repo: Repository) -> None:
        self.repo = repo
        self.records: Records[SpeechRecord] = Records(repo, SpeechRecord, index=_index_of, index_marker="filled 2")
        self.utterances: Records[Utterance] = Records(repo, Utterance)

    def __getitem__(self, id: str) -> SpeechSession:
        """A session. Raises: RecordNotFoundError: no session has this id."""
        return SpeechSession(self, self.records[id].id)

    def __iter__(self) -> Iterator[SpeechSession]:
        """All sessions, also those that are over."""
        return (SpeechSession(self, id) for id in self.records)

    def __contains__(self, one: object) -> bool:
        return (one.id if isinstance(one, SpeechSession | SpeechRecord) else one) in self.records

    def open(
        self, kind: Kind = "conversation", mode: StreamingMode = "streaming", config: dict[str, Any] | None = None
    ) -> SpeechSession:
        """Begin a session. Raises: InvalidRecordError: there is no such kind or mode."""
        settings = {} if config is None else require_mapping(config, "config")
        fields = {"kind": kind, "mode": mode, "config": settings, "started_s": now_s(), "updated_s": now_s()}
        record = self.records.make(id=f"{kind}-{new_id()}", **fields)
        return SpeechSession(self, self.records.put(record, expect=0).id)

    def active(self) -> list[SpeechRecord]:
        """The sessions that are not over, the newest first."""
        found = (self.records.get(id) for id in self.records.first(_ACTIVE, _ALL))
        return [one for one in found if one is not None and not one.is_over]

    def cleanup(self, older_s: float = 86_400.0) -> int:
        """Delete sessions that ended more than so many seconds ago, with all that was said in them; how many."""
        before = now_s() - seconds(older_s, "older_s")
        found = (self.records.get(id) for id in self.records.below(_OVER, sortable(before, up=True)))
        over = [one for one in found if one is not None and one.is_over and one.ended_s < before]
        for one in over:
            for utterance in self.utterances.find(f"{glob.escape(one.id)}/*"):
                self.utterances.delete(utterance.id)
            self.records.delete(one.id)
        return len(over)


@checks_arguments
class SpeechSession:
    """One session."""

    def __init__(self, speech: Speech, id: str) -> None:
        self.id = id
        self._speech = speech
        self.stt = Channel(speech, id, "stt")
        self.tts = Channel(speech, id, "tts")
        self.turns = Turns(speech, id, "turns")

    @property
    def record(self) -> SpeechRecord:
        """The session as it stands."""
        return self._speech.records[self.id]

    def pause(self) -> SpeechRecord:
        """Stop for now. Raises: TransitionError: it is over."""
        return self._to("paused")

    def resume(self) -> SpeechRecord:
        """Go on. Raises: TransitionError: it is over."""
        return self._to("active")

    def _to(self, status: SpeechStatus) -> SpeechRecord:
        def go(record: SpeechRecord) -> None:
            _refuse_over(record, status)
            record.status = status

        return self._speech.records.update(self.id, go)

    def end(self, reason: str = "", *, failed: bool = False) -> SpeechRecord:
        """End the session. Raises: TransitionError: it is over."""

        def end(record: SpeechRecord) -> None:
            _refuse_over(record, "failed" if failed else "ended")
            record.status, record.reason, record.ended_s = ("failed" if failed else "ended"), reason, now_s()

        found = self._speech.records.update(self.id, end)
        self._speech.records.trim(self.id, _MOST_VERSIONS)
        return found


@checks_arguments
class Channel:
    """One side of a session: speech to text, or text to speech."""

    def __init__(self, speech: Speech, session: str, name: Literal["stt", "tts", "turns"]) -> None:
        self._speech = speech
        self._session = session
        self._name: Literal["stt", "tts", "turns"] = name

    @property
    def state(self) -> dict[str, Any]:
        """How it stands."""
        found: dict[str, Any] = getattr(self._speech.records[self._session], self._name)
        return found

    def update(self, **fields: Any) -> None:
        """Set values of its state. Raises: TransitionError: the session is over."""
        self._require_confidence(fields)
        self._change(lambda state: state.update(fields))

    def chunk(self, size: int, duration_s: float = 0.0) -> None:
        """Count a piece of audio. `size`: its bytes. Raises: TypeError, ValueError: a number is not one, or negative."""
        not_negative(size, "size")
        seconds(duration_s, "duration_s")

        def count(state: dict[str, Any]) -> None:
            for name, more in (("chunks", 1), ("bytes", size), ("audio_s", duration_s)):
                state[name] = state.get(name, 0) + more

        self._change(count)

    def result(self, text: str, **details: Any) -> Utterance:
        """Keep what was transcribed, or spoken, for good."""
        return self._keep(text, "", details)

    def results(self) -> list[Utterance]:
        """All of that, the first one first."""
        utterances = self._speech.utterances.find(f"{glob.escape(self._session)}/*")
        return [one for one in utterances if one.channel == self._name]

    def _keep(self, text: str, role: str, details: dict[str, Any], **state_now: Any) -> Utterance:
        self._require_confidence(details)
        fields = {"text": text, "role": role, "details": details, "time_s": now_s()}
        id = f"{self._session}/{new_id()}"
        utterance = self._speech.utterances.make(id=id, session=self._session, channel=self._name, **fields)

        def act() -> Utterance:
            self._change(lambda state: state.update(partial="", count=state.get("count", 0) + 1, **state_now))
            return self._speech.utterances.put(utterance, expect=0)

        return together(self._speech.utterances, act, f"{self._session}: {self._name}")

    def _require_confidence(self, values: Mapping[str, object]) -> None:
        found = values.get("confidence")
        if found is None:
            return
        if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= 1:
            raise InvalidRecordError(
                SpeechRecord.collection, self._session, f"confidence is a number from 0 to 1, not {shown(found)}"
            )

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        def apply(record: SpeechRecord) -> None:
            _refuse_over(record)
            change(getattr(record, self._name))
            record.updated_s = now_s()

        self._speech.records.update(self._session, apply)


@checks_arguments
class Turns(Channel):
    """Who said what in a conversation."""

    def add(self, role: str, text: str, **details: Any) -> Utterance:
        """Keep a turn.

        Raises:
            InvalidRecordError: the role is empty.
        """
        if not role:
            raise InvalidRecordError(
                SpeechRecord.collection, self._session, "a turn says in which role somebody speaks"
            )
        return self._keep(text, role, details, speaker=role)

    def __iter__(self) -> Iterator[Utterance]:
        return iter(self.results())

    def __len__(self) -> int:
        return len(self.results())


def _index_of(record: SpeechRecord) -> str:
    """Those that are not over, the newest first; the others by when they ended."""
    if record.is_over:
        return f"{_OVER}{sortable(record.ended_s)}{record.id}"
    return f"{_ACTIVE}{_NEWEST - int(record.started_s * 1e6):020d}{record.id}"


def _refuse_over(record: SpeechRecord, new: SpeechStatus = "active") -> None:
    if record.is_over:
        way = "it is over and takes nothing more; open() another session"
        raise TransitionError(SpeechRecord.collection, record.id, record.status, new, way=way)
