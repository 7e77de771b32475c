"""Knowledge and speech: progress that changes 60 times a second, and what stays of it. Rows AAF-10 and AAF-15."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.records import collection
from agent_kernel.records.knowledge import Indexing, IndexProgress
from agent_kernel.records.speech import SpeechRecord


def seen_elsewhere(repo: ak.Repository, kb: str) -> IndexProgress:
    """What another process would read: what is stored."""
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        return other.knowledge.runs[kb]


def fail_in(indexing: Indexing, error: BaseException) -> None:
    with pytest.raises(type(error)), indexing:
        raise error


def test_a_knowledge_base_is_its_sources_together(memory: ak.Repository) -> None:
    """AAF-10: update_source_state, get_sources, get_knowledge_base_state."""
    knowledge = memory.knowledge
    knowledge.source("docs", "a", location="a.pdf")
    knowledge.source("docs", "a", status="indexed", documents=3, embeddings=30, size=2_000_000)
    knowledge.source("docs", "b", status="failed", error="no such file")
    knowledge.source("docs/2", "c", documents=9)
    assert [(one.id, one.location, one.status) for one in knowledge.sources("docs")] == [
        ("docs/a", "a.pdf", "indexed"),
        ("docs/b", "", "failed"),
    ]
    base = knowledge.overview("docs")
    assert (base.sources, base.documents, base.embeddings, base.size) == (2, 3, 30, 2_000_000)
    assert base.last_updated_s == pytest.approx(time.time(), abs=5)
    assert base.progress is None
    assert knowledge.names() == ["docs", "docs/2"]
    assert knowledge.forget("docs", "b")
    assert [one.id for one in knowledge.sources("docs")] == ["docs/a"]
    with pytest.raises(ak.InvalidRecordError):
        knowledge.source("docs", "a", documents="many")


def test_indexing_counts_what_was_processed_and_what_failed(memory: ak.Repository) -> None:
    """AAF-10: update_indexing_progress, get_indexing_progress; start, complete."""
    with memory.knowledge.indexing("docs", total=4) as indexing:
        indexing.advance()
        indexing.advance(2)
        indexing.advance(failed=1)
        assert indexing.progress.status == "running"
    done = indexing.progress
    assert (done.total, done.processed, done.failed, done.fraction, done.status) == (4, 3, 1, 1, "completed")


def test_indexing_is_paused_fails_and_goes_on_where_it_was(memory: ak.Repository) -> None:
    """AAF-10: pause_indexing, resume_indexing, fail_indexing."""
    knowledge = memory.knowledge
    with knowledge.indexing("docs", total=9) as indexing:
        indexing.advance()
        knowledge.pause("docs", "the night")
        assert indexing.is_paused
    assert indexing.progress.status == "paused"
    with pytest.raises(ak.TransitionError):
        knowledge.runs.update("docs", status="completed")
    fail_in(knowledge.resume("docs"), OSError("no disk"))
    assert (indexing.progress.status, indexing.progress.reason) == ("failed", "OSError: no disk")
    fail_in(knowledge.resume("docs"), KeyboardInterrupt())
    assert indexing.progress.status == "paused"
    with knowledge.resume("docs") as again:
        again.advance()
    assert (indexing.progress.processed, indexing.progress.status) == (2, "completed")
    with pytest.raises(ak.RecordNotFoundError):
        knowledge.resume("nowhere")


def test_sources_that_are_too_old_are_stale(memory: ak.Repository) -> None:
    """AAF-10: needs_resync(max_age)."""
    knowledge = memory.knowledge
    knowledge.source("docs", "old", synced_s=time.time() - 100)
    knowledge.source("docs", "new", status="indexed")
    knowledge.source("docs", "never")
    assert [one.id for one in knowledge.stale(50)] == ["docs/never", "docs/old"]
    assert [one.id for one in knowledge.stale(500, "docs")] == ["docs/never"]
    assert knowledge.stale(50, "other") == []


def test_60_updates_a_second_are_told_at_once_and_stored_together(repo: ak.Repository) -> None:
    """AAF-10: a write a second, not 60."""
    heard: list[int] = []
    with repo.knowledge.runs.watch("docs", lambda change: heard.append(change.new.processed if change.new else -1)):
        with repo.knowledge.indexing("docs", total=60) as indexing:
            for _ in range(60):
                indexing.advance()
            assert indexing.progress.processed == 60
        assert seen_elsewhere(repo, "docs").processed == 60
    assert set(range(61)) <= set(heard)
    assert heard == sorted(heard)
    assert len(list(repo.knowledge.runs.history("docs"))) <= 10


@pytest.mark.parametrize("model", [IndexProgress, SpeechRecord])
def test_another_process_sees_what_waits_within_a_second(model: type[ak.Record]) -> None:
    assert model.coalesce_s + collection._POLL_S < 0.8  # pyright: ignore[reportPrivateUsage]


def test_progress_is_stored_while_it_goes_on(repo: ak.Repository) -> None:
    with repo.knowledge.indexing("docs", total=9) as indexing:
        indexing.advance(4)
        assert seen_elsewhere(repo, "docs").processed == 0
        time.sleep(1.2)
        assert seen_elsewhere(repo, "docs").processed == 4


def test_a_pause_from_another_process_is_not_overwritten_by_updates_that_wait(repo: ak.Repository) -> None:
    """AAF-10: pause while it counts."""
    with repo.knowledge.indexing("docs", total=9) as indexing:
        indexing.advance(3)
        with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
            other.knowledge.pause("docs")
        indexing.advance(2)
        time.sleep(1.2)
        assert indexing.is_paused
        assert indexing.progress.processed == 5
    assert indexing.progress.status == "paused"


def test_indexing_whose_process_was_killed_has_failed_and_goes_on(
    repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    worker = child("""
        with repo.knowledge.indexing("docs", total=3) as indexing:
            indexing.advance()
            from agent_kernel.records.lines import flush
            flush()
            print("within", flush=True)
            input()
    """)
    assert repo.knowledge.progress("docs").status == "running"  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    worker.kill()
    worker.wait()
    failed = repo.knowledge.progress("docs")
    assert failed is not None
    assert (failed.status, failed.reason) == ("failed", "its process ended before it did")
    with repo.knowledge.resume("docs") as indexing:
        indexing.advance(2)
    assert (indexing.progress.processed, indexing.progress.status) == (3, "completed")


def test_a_checkout_does_not_take_an_indexed_document_back(repo: ak.Repository) -> None:
    """The plane `store`, for documents and for speech."""
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("one")
        repo.knowledge.source("docs", "a", status="indexed", documents=1)
        session = repo.speech.open("stt")
        session.stt.result("hello")
        state["x"] = 2
        state.commit("two")
        state.rollback("HEAD~1")
    assert repo.knowledge.overview("docs").documents == 1
    assert [said.text for said in session.stt.results()] == ["hello"]


# -- speech


def test_a_session_has_a_kind_a_mode_and_a_reason_to_end(memory: ak.Repository) -> None:
    """AAF-15: create_session, update_session_status, end_session(reason), active sessions, cleanup."""
    speech = memory.speech
    stt = speech.open("stt", mode="batch", config={"language": "de"})
    talk = speech.open("conversation", mode="realtime")
    assert (stt.record.kind, stt.record.mode, stt.record.config) == ("stt", "batch", {"language": "de"})
    stt.pause()
    assert [one.id for one in speech.active()] == [talk.id, stt.id]
    stt.resume()
    assert stt.end("hung up").reason == "hung up"
    talk.end("no microphone", failed=True)
    assert speech.active() == []
    assert (speech[stt.id].record.status, speech[talk.id].record.status) == ("ended", "failed")
    for act in (stt.pause, stt.end, lambda: stt.stt.update(partial="late"), lambda: stt.stt.result("late")):
        with pytest.raises(ak.TransitionError):
            act()
    assert speech.cleanup(older_s=60) == 0
    assert speech.cleanup(older_s=0) == 2
    assert not speech.records
    with pytest.raises(ak.InvalidRecordError):
        speech.open("singing")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    with pytest.raises(ak.RecordNotFoundError):
        speech["nowhere"]


def test_what_is_heard_and_said_and_whose_turn_it_is(memory: ak.Repository) -> None:
    """AAF-15: STT, TTS and voice conversation state; chunks, transcription results."""
    session = memory.speech.open("conversation")
    session.stt.chunk(3_200, duration_s=0.1)
    session.stt.chunk(3_200, duration_s=0.1)
    session.stt.update(partial="good mor")
    assert session.stt.state == {"chunks": 2, "bytes": 6_400, "audio_s": pytest.approx(0.2), "partial": "good mor"}
    session.stt.result("good morning", confidence=0.98)
    session.stt.result("how are you")
    session.tts.update(voice="alto", position=3)
    session.turns.add("user", "good morning")
    session.turns.add("agent", "hello", emotion="glad")
    assert session.stt.state["partial"] == ""
    assert [(one.text, one.details) for one in session.stt.results()] == [
        ("good morning", {"confidence": 0.98}),
        ("how are you", {}),
    ]
    assert [(turn.role, turn.text) for turn in session.turns] == [("user", "good morning"), ("agent", "hello")]
    assert (len(session.turns), session.turns.state["speaker"]) == (2, "agent")
    assert session.tts.state == {"voice": "alto", "position": 3}
    session.end()
    memory.speech.cleanup(older_s=0)
    assert not memory.speech.utterances


def test_speech_at_60_hz_is_told_at_once_and_stored_together(repo: ak.Repository) -> None:
    """AAF-15: a write a second, not 60; and what was said stays."""
    heard: list[SpeechRecord] = []
    session = repo.speech.open("stt", mode="realtime")
    with repo.speech.records.watch("*", lambda change: heard.append(change.new) if change.new else None):
        for number in range(60):
            session.stt.chunk(160)
            assert session.stt.state["chunks"] == number + 1
    assert [one.stt["chunks"] for one in heard] == list(range(1, 61))
    session.end()
    assert len(list(repo.speech.records.history(session.id))) <= 5


# -- what makes no sense


def test_a_source_does_not_overwrite_that_of_another_knowledge_base(memory: ak.Repository) -> None:
    knowledge = memory.knowledge
    knowledge.source("a/b", "c", documents=1)
    with pytest.raises(ak.InvalidRecordError, match="it is one of the knowledge base 'a/b'"):
        knowledge.source("a", "b/c", documents=2)
    assert not knowledge.forget("a", "b/c")
    assert knowledge.overview("a/b").documents == 1


def test_a_misspelt_field_and_a_negative_number_are_refused(memory: ak.Repository) -> None:
    knowledge = memory.knowledge
    with pytest.raises(ak.InvalidRecordError, match="no field embedings"):
        knowledge.source("d", "a", embedings=12)
    for act in (
        lambda: knowledge.source("d", "a", size=-1),
        lambda: knowledge.indexing("d", total=-1),
        lambda: knowledge.stale(-1),
        lambda: memory.speech.cleanup(-1),
        lambda: memory.speech.open().stt.chunk(-1),
    ):
        with pytest.raises(ValueError, match="0 or more"):
            act()
    assert knowledge.names() == []


def test_a_store_of_an_earlier_index_knows_what_is_stale_and_over(memory: ak.Repository) -> None:
    """What was stored without an entry of its time gets one, when somebody first asks."""
    memory.knowledge.source("docs", "old", status="indexed", synced_s=1.0)
    session = memory.speech.open("stt")
    session.end()
    for key in memory.store.keys(b"n/i/"):
        memory.store.delete_many([key])
    assert [one.id for one in ak.Repository(memory.store).knowledge.stale(60)] == ["docs/old"]
    assert ak.Repository(memory.store).speech.cleanup(0) == 1


def test_what_cannot_be_kept_of_speech_changes_nothing(memory: ak.Repository) -> None:
    session = memory.speech.open("conversation")
    session.stt.update(partial="good mor")
    refused: list[Callable[[], object]] = [
        lambda: session.stt.result(5),  # type: ignore[arg-type]
        lambda: session.stt.result("good morning", heard=object()),
        lambda: session.turns.add(5, "good morning"),  # type: ignore[arg-type]
    ]
    for act in refused:
        with pytest.raises(ak.InvalidRecordError):
            act()
    assert (session.stt.state, session.turns.state) == ({"partial": "good mor"}, {})
    session.turns.add("user", "good morning")
    assert session.turns.state == {"partial": "", "count": 1, "speaker": "user"}
    session.end()
    with pytest.raises(ak.TransitionError):
        session.turns.add("user", "hello?")
    assert len(session.turns) == 1


def test_one_at_a_time_indexes_a_knowledge_base(memory: ak.Repository) -> None:
    knowledge = memory.knowledge
    with knowledge.indexing("docs", total=3) as indexing:
        indexing.advance(2)
        said = r"^IndexProgress 'docs': somebody indexes it already \(2 of 3\): .* fail\('docs', reason\)$"
        begins: tuple[Callable[[], object], ...] = (
            lambda: knowledge.indexing("docs", 9),
            lambda: knowledge.resume("docs"),
        )
        for again in begins:
            with pytest.raises(ak.RecordError, match=said):
                again()
        assert (indexing.progress.total, indexing.progress.processed) == (3, 2)
        with knowledge.indexing("other", total=1):
            pass
    with knowledge.indexing("docs", total=1) as indexing:
        knowledge.fail("docs", "it hangs")
        with knowledge.indexing("docs", total=2):
            pass


def test_what_is_indexed_in_a_process_that_died_can_be_indexed_anew(
    repo: ak.Repository, child: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = child(
        """
        repo.knowledge.indexing("docs", 5)
        print("ready", flush=True)
        input()
        """
    )
    with pytest.raises(ak.RecordError, match="somebody indexes it already"):
        repo.knowledge.indexing("docs", 7)
    process.kill()
    process.wait()
    with repo.knowledge.indexing("docs", 7) as indexing:
        assert indexing.progress.total == 7


@pytest.mark.parametrize("confidence", [-0.1, 1.1, float("nan"), float("inf"), True, "high"])
def test_confidence_is_a_number_from_0_to_1(memory: ak.Repository, confidence: Any) -> None:
    session = memory.speech.open()
    for act in (
        lambda: session.stt.result("good morning", confidence=confidence),
        lambda: session.stt.update(confidence=confidence),
        lambda: session.turns.add("user", "good morning", confidence=confidence),
    ):
        with pytest.raises(ak.InvalidRecordError, match=r"confidence is a number from 0 to 1, not"):
            act()
    assert (session.stt.state, session.stt.results(), len(session.turns)) == ({}, [], 0)
    for sound in (0, 1, 0.5, None):
        session.stt.result("good morning", confidence=sound)


def test_a_turn_has_a_role(memory: ak.Repository) -> None:
    session = memory.speech.open()
    with pytest.raises(ak.InvalidRecordError, match=r"a turn says in which role somebody speaks$"):
        session.turns.add("", "hello")
    assert (len(session.turns), session.turns.state) == (0, {})
    assert session.turns.add("caller 2", "hello", name="Ada").details == {"name": "Ada"}


def test_a_session_that_is_over_says_so(memory: ak.Repository) -> None:
    session = memory.speech.open()
    session.end()
    for act in (
        session.pause,
        session.resume,
        session.end,
        lambda: session.stt.update(partial="a"),
        lambda: session.turns.add("user", "hello"),
    ):
        with pytest.raises(ak.TransitionError, match=r"it is over and takes nothing more; open\(\) another session$"):
            act()


def test_sources_and_knowledge_bases_have_names(memory: ak.Repository) -> None:
    knowledge = memory.knowledge
    for act in (
        lambda: knowledge.source("", "a"),
        lambda: knowledge.source("docs", ""),
        lambda: knowledge.source("docs", 5),  # type: ignore[arg-type]
        lambda: knowledge.indexing("", 1),
    ):
        with pytest.raises(ak.InvalidRecordError):
            act()
    assert knowledge.names() == []
