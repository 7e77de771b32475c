"""Records: what a program puts in comes back checked, with its history, and never half."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field

import agent_kernel as ak
from agent_kernel.records import Change, lines
from agent_kernel.records.collection import together


class Note(ak.Record):
    text: str = ""
    status: str = "draft"
    stars: int = 0
    transitions: ClassVar[Mapping[str, Any]] = {"draft": ["final"], "final": []}


class Job(ak.Record):
    plane = "store"
    done: int = 0


class Plain(BaseModel):
    name: str
    size: int = 0


BOTH = pytest.mark.parametrize("model", [Note, Job])


@BOTH
def test_a_record_comes_back_as_it_was_put(repo: ak.Repository, model: type[ak.Record]) -> None:
    records = repo.records(model)
    records.put(model(id="a"))
    assert records["a"] == model(id="a")
    assert dict(records) == {"a": model(id="a")}
    assert "b" not in records
    assert records.get("b") is None


@BOTH
def test_changing_what_was_read_changes_nothing_that_is_stored(repo: ak.Repository, model: type[ak.Record]) -> None:
    records = repo.records(model)
    given = model(id="a")
    records.put(given)
    given.id = "b"
    records["a"].id = "c"
    assert list(records) == ["a"]
    assert records["a"].id == "a"


def test_any_model_will_do_and_names_its_records_by_a_field(repo: ak.Repository) -> None:
    plain = repo.records(Plain, key="name")
    plain.put(Plain(name="x", size=3))
    assert plain["x"].size == 3
    with pytest.raises(TypeError, match="no field 'id'"):
        repo.records(Plain)


REFUSED: dict[str, tuple[type[Exception], Callable[[ak.Records[Note]], object]]] = {
    "a wrong type": (ak.InvalidRecordError, lambda notes: notes.update("a", stars="many")),
    "an unknown field": (ak.InvalidRecordError, lambda notes: notes.update("a", colour="red")),
    "another id": (ak.InvalidRecordError, lambda notes: notes.update("a", id="b")),
    "a transition back": (ak.TransitionError, lambda notes: notes.update("a", status="draft")),
    "an old version": (ak.StaleRecordError, lambda notes: notes.put(Note(id="a"), expect=1)),
    "one that is there": (ak.StaleRecordError, lambda notes: notes.put(Note(id="a"), expect=0)),
    "one that is not there": (ak.RecordNotFoundError, lambda notes: notes.update("zz", stars=1)),
    "an id with NUL": (ak.InvalidRecordError, lambda notes: notes.put(Note(id="a\0b"))),
    "an empty id": (ak.InvalidRecordError, lambda notes: notes.put(Note(id=""))),
    "a long id": (ak.InvalidRecordError, lambda notes: notes.put(Note(id="x" * 500))),
    "half a character": (ak.InvalidRecordError, lambda notes: notes.put(Note(id="\ud800"))),
    "text that no store holds": (ak.InvalidRecordError, lambda notes: notes.put(Note(id="q", text="\ud800"))),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_refused_in_one_line_and_nothing_is_stored(repo: ak.Repository, case: str) -> None:
    notes = repo.records(Note)
    notes.put(Note(id="a"))
    notes.update("a", status="final")
    before, head = dict(notes), repo.head().commit
    error, act = REFUSED[case]
    with pytest.raises(error) as found:
        act(notes)
    assert "\n" not in str(found.value)
    assert dict(notes) == before
    assert repo.head().commit == head


def test_a_validator_refuses_before_anything_is_stored(repo: ak.Repository) -> None:
    def short(note: Note) -> bool:
        return len(note.text) < 4

    notes = repo.records(Note, validators=[short])
    with pytest.raises(ak.InvalidRecordError, match="short"):
        notes.put(Note(id="a", text="long text"))
    assert not notes


@BOTH
def test_history_tells_each_change_also_that_it_was_deleted(repo: ak.Repository, model: type[ak.Record]) -> None:
    field = "stars" if model is Note else "done"
    records: Any = repo.records(model, actor="ada")
    records.put(model(id="a"))
    records.update("a", **{field: 1})
    assert records.delete("a")
    assert not records.delete("a")
    records.put(model.model_validate({"id": "a", field: 7}))
    told = list(records.history("a"))
    assert [change.new and getattr(change.new, field) for change in told] == [7, None, 1, 0]
    assert [change.old and getattr(change.old, field) for change in told] == [None, 1, 0, None]
    assert {change.actor for change in told if change.new} == {"ada"}
    assert sorted((change.time_ns for change in told), reverse=True) == [change.time_ns for change in told]


def test_the_past_can_be_looked_at_and_not_changed(repo: ak.Repository) -> None:
    notes, jobs = repo.records(Note), repo.records(Job)
    notes.put(Note(id="a", text="one"))
    repo.create_tag("then", repo.resolve("HEAD"))
    jobs.put(Job(id="j"))
    moment = time.time()
    time.sleep(0.01)
    notes.update("a", text="two")
    jobs.delete("j")
    assert notes.at("then")["a"].text == "one"
    assert dict(jobs.at(moment)) == {"j": Job(id="j")}
    for past in (notes.at("then"), jobs.at(moment)):
        with pytest.raises(ak.StoreReadOnlyError):
            past.delete("a")


def test_find_takes_patterns_values_functions_orders_and_limits(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    with repo.transaction():
        for number in range(12):
            notes.put(Note(id=f"n{number}", stars=number % 3))
    assert [note.id for note in notes.find("n1*")] == ["n1", "n10", "n11"]
    assert len(notes.find(where={"stars": 2})) == 4
    assert [note.id for note in notes.find(where=lambda note: note.stars == 1, order="-id", limit=2)] == ["n7", "n4"]


def test_a_transaction_is_one_commit_or_none(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    with repo.transaction("two notes"):
        notes.put(Note(id="a"))
        notes.update("a", text="seen within")
        notes.put(Note(id="b"))
        assert sorted(notes) == ["a", "b"]
    assert [commit.message for _, commit in repo.log()] == ["two notes"]

    def fail_half_way() -> None:
        with repo.transaction():
            notes.put(Note(id="c"))
            notes.update("zz", stars=1)

    with pytest.raises(ak.RecordNotFoundError):
        fail_half_way()
    assert sorted(notes) == ["a", "b"]


@BOTH
def test_ids_that_begin_so_are_those_of_a_transaction_and_of_a_session_too(
    repo: ak.Repository, model: type[ak.Record]
) -> None:
    records = repo.records(model)
    for id in ("a1", "a3", "b1"):
        records.put(model(id=id))
    with ak.Versioned(repo) as state:
        state.session.begin_cell("put")
        records.delete("a3")
        for id in ("a2", "a0", "a9"):
            records.put(model(id=id))
        assert list(records.ids("a*")) == ["a0", "a1", "a2", "a9"]
        state.session.end_cell()
    with repo.transaction():
        records.put(model(id="a4"))
        assert list(records.ids("a*")) == ["a0", "a1", "a2", "a4", "a9"]
        assert next(records.ids("b*")) == "b1"


def _set_elsewhere(repo: ak.Repository, model: type[Any], field: str) -> None:
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        records: Any = other.records(model)
        records.update("a", **{field: 10})


@BOTH
def test_what_is_done_together_is_done_again_where_somebody_was_faster(repo: ak.Repository, model: type[Any]) -> None:
    field = "stars" if model is Note else "done"
    records: Any = repo.records(model)
    records.put(model(id="a"))
    tries: list[int] = []

    def add() -> int:
        value: int = getattr(records["a"], field)
        if not tries:
            other = threading.Thread(target=_set_elsewhere, args=(repo, model, field))
            other.start()
            other.join()
        tries.append(value)
        made: Any = {"id": "a", field: value + 1}
        records.put(model(**made))
        return value + 1

    assert together(records, add) == 11
    assert tries == [0, 10]


@BOTH
def test_a_record_is_gone_when_its_time_is_over(
    repo: ak.Repository, model: type[ak.Record], wait: Callable[[float], None]
) -> None:
    records = repo.records(model)
    records.put(model(id="a"), ttl_s=60)
    records.put(model(id="b"))
    assert "a" in records
    wait(61)
    assert list(records) == ["b"]
    assert records.get("a") is None
    assert records.version("a") == 0
    assert records.purge() == 1
    assert records.purge() == 0
    records.put(model(id="a"), expect=0)
    assert "a" in records


@BOTH
def test_a_user_sees_only_their_own_records(repo: ak.Repository, model: type[ak.Record]) -> None:
    records = repo.records(model)
    records.put(model(id="a"), user="ada")
    records.put(model(id="b"), user="bob")
    assert [record.id for record in records.find(user="ada")] == ["a"]
    assert records.get("b", user="ada") is None
    assert not records.delete("b", user="ada")
    with pytest.raises(ak.RecordNotFoundError):
        records.put(model(id="b"), user="ada")
    assert sorted(records) == ["a", "b"]  # without a user: all


def test_put_overwrites_or_merges(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    notes.put(Note(id="a", text="kept", stars=1))
    assert notes.put(Note(id="a", stars=2), merge=True) == Note(id="a", text="kept", stars=2)
    assert notes.put(Note(id="a", stars=3)) == Note(id="a", stars=3)


def test_two_threads_lose_no_update(repo: ak.Repository) -> None:
    for model, field in ((Note, "stars"), (Job, "done")):
        records: ak.Records[Any] = repo.records(model)
        records.put(model(id="a"))

        def add(records: ak.Records[Any] = records, field: str = field) -> None:
            for _ in range(20):
                records.update("a", lambda old: old.model_copy(update={field: getattr(old, field) + 1}))

        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert getattr(records["a"], field) == 80


def test_a_transaction_notices_that_what_it_read_first_was_changed_meanwhile(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    notes.put(Note(id="a", stars=1))

    def copy() -> None:
        with repo.transaction():
            stars = notes["a"].stars
            other = threading.Thread(target=lambda: notes.update("a", stars=2))
            other.start()
            other.join()
            notes.put(Note(id="b", stars=stars))

    with pytest.raises(ak.TransactionConflictError, match="somebody else changed records that it read"):
        copy()
    assert dict(notes) == {"a": Note(id="a", stars=2)}


def test_the_past_is_read_as_it_was_within_a_transaction_too(repo: ak.Repository) -> None:
    notes, jobs = repo.records(Note), repo.records(Job)
    for stars in range(3):
        notes.put(Note(id="a", stars=stars))
        repo.create_tag(f"t{stars}", repo.resolve("HEAD"))
    with repo.transaction():
        notes.update("a", stars=9)
        assert [notes.at(f"t{stars}")["a"].stars for stars in range(3)] == [0, 1, 2]
        assert [note.stars for note in notes.at("t1").values()] == [1]
        assert list(jobs) == []  # of the other plane one may read
    assert notes["a"].stars == 9


# -- planes


def test_a_checkout_takes_branch_records_along_and_leaves_those_of_the_store(repo: ak.Repository) -> None:
    notes, jobs = repo.records(Note), repo.records(Job)
    with ak.Versioned(repo) as state:
        state["x"] = 1
        notes.put(Note(id="a"))
        jobs.put(Job(id="j"))
        state.commit("one")
        state["x"] = 2
        notes.update("a", text="later")
        jobs.update("j", done=1)
        state.commit("two")
        assert [commit.message for _, commit in state.history()] == ["two", "one"]
        state.rollback("HEAD~1")
        assert (state["x"], notes["a"].text, jobs["j"].done) == (1, "", 1)
        state.undo()
        assert (state["x"], notes["a"].text, jobs["j"].done) == (2, "later", 1)


def test_one_undo_takes_back_variables_and_records_of_a_program_s_commit(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    with ak.Versioned(repo) as state:
        for text in ("one", "two"):
            notes.put(Note(id="a", text="first try"))
            notes.put(Note(id="a", text=text))
            state["x"] = text
            state.commit(text)
        state.undo()
        assert (state["x"], notes["a"].text) == ("one", "one")
        state.redo()
        assert (state["x"], notes["a"].text) == ("two", "two")
        notes.update("a", text="three")
        assert state.commit("records alone").commit is not None
        assert state.history(limit=1)[0][1].message == "records alone"
        state.undo()
        assert (state["x"], notes["a"].text) == ("two", "two")


def test_the_first_commit_of_a_namespace_takes_in_records_too(repo: ak.Repository) -> None:
    """Where variables were there before, no undo reverses this commit, and its records were left in a commit of their own."""
    session = ak.bind({"rows": [1]}, repo)
    repo.state("ada").set("k", 1)
    session.commit("both")
    assert [commit.message for _, commit in repo.log()] == ["both"]
    assert (repo.state("ada").get("k"), repo.verify().is_sound) == (1, True)
    repo.state("ada").set("k", 2)
    session.namespace["rows"] = [2]
    session.commit("again")
    assert [commit.message for _, commit in repo.log()] == ["again", "both"]
    session.undo()
    assert (repo.state("ada").get("k"), session.namespace["rows"]) == (1, [1])
    session.close()


def test_records_are_stored_before_the_commit_that_takes_them_in(tmp_path: Path) -> None:
    code = "import agent_kernel as ak, os, sys; repo = ak.open(sys.argv[1]); state = ak.Versioned(repo); repo.state('ada').set('k', 1); state['x'] = 1; os._exit(0)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], check=True)
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        assert repo.state("ada").get("k") == 1
        assert "x" not in state


@pytest.mark.parametrize("ends", ["os._exit(0)", "state.close(); os._exit(0)", ""])
def test_what_a_thread_changes_beside_a_session_is_stored(ends: str, tmp_path: Path) -> None:
    code = f"""
import agent_kernel as ak, os, sys, threading
repo = ak.open(sys.argv[1])
state = ak.Versioned(repo)
one = threading.Thread(target=lambda: repo.state("ada").set("k", 1))
one.start(); one.join()
{ends}
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], check=True)
    with ak.open(tmp_path / "store") as repo:
        assert repo.state("ada").get("k") == 1


def test_threads_change_records_while_the_session_commits_and_moves(repo: ak.Repository) -> None:
    notes = repo.records(Note)

    def change(thread: int) -> None:
        for number in range(40):
            notes.put(Note(id=f"{thread}-{number}"))

    with ak.Versioned(repo) as state:
        state["x"] = 0
        state.commit("begin")
        threads = [threading.Thread(target=change, args=(number,)) for number in range(3)]
        for one in threads:
            one.start()
        for number in range(20):
            state["x"] = number
            state.commit(f"number {number}")
        for one in threads:
            one.join()
        state.commit()
        assert len(notes) == 120
        assert state["x"] == 19
    assert len(repo.records(Note)) == 120


def test_a_change_of_records_does_not_walk_other_branches(repo: ak.Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = repo.records(Note)
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("one")
        assert state.session.head is not None
        repo.create_branch("side", state.session.head)
        monkeypatch.setattr(type(repo), "is_ancestor", lambda *_: pytest.fail("a history was walked"))
        for number in range(3):
            notes.put(Note(id=str(number)))
        state["x"] = 2
        state.commit("two")
        assert [commit.message for _, commit in state.history()] == ["two", "one"]


def test_a_commit_of_records_that_a_tag_holds_is_not_replaced(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    with ak.Versioned(repo) as state:
        state["x"] = 1
        state.commit("one")
        notes.put(Note(id="a"))
        repo.create_tag("with-a")  # who names HEAD means all that is there: a commit of records alone
        assert state.session.head is not None
        notes.put(Note(id="b"))
        state["x"] = 2
        state.commit("two")
        assert repo.is_ancestor(repo.resolve("with-a"), state.session.head)
        state.undo()
        assert (state["x"], sorted(notes)) == (1, ["a"])


def test_variables_and_records_of_a_cell_are_one_commit(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    with ak.Versioned(repo) as state:
        session = state.session
        session.begin_cell("x = 1; notes.put(...)")
        state["x"] = 1
        notes.put(Note(id="a"))
        assert "a" in notes  # at once, for who reads here
        report = session.end_cell()
        assert report is not None
        assert [commit.kind for _, commit in repo.log()] == ["cell"]
        state.undo()
        assert "a" not in notes
        assert "x" not in state
        state.redo()
        assert "a" in notes


def test_branches_have_their_own_records_and_a_merge_joins_them(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    with ak.Versioned(repo) as state:
        for id in ("mine", "theirs", "both"):
            notes.put(Note(id=id))
        state.session.switch("idea", create=True)
        notes.update("theirs", text="idea")
        notes.update("both", text="idea")
        state.session.switch("main")
        assert notes["theirs"].text == ""
        notes.update("mine", text="main")
        notes.update("both", stars=3)
        state.session.merge("idea")
        assert {id: (note.text, note.stars) for id, note in notes.items()} == {
            "mine": ("main", 0),
            "theirs": ("idea", 0),
            "both": ("idea", 3),
        }
        assert notes.version("both") == 3
    assert repo.records(Note, branch="idea")["both"].stars == 0


def test_a_branch_that_another_process_works_on_is_refused(repo: ak.Repository, tmp_path: Path) -> None:
    code = "import agent_kernel as ak, sys; v = ak.Versioned(sys.argv[1]); v['x'] = 1; v.commit('x'); print('ready', flush=True); input()"
    store = str(tmp_path / "store")
    with subprocess.Popen([sys.executable, "-c", code, store], stdin=-1, stdout=-1, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        with pytest.raises(ak.BranchInUseError):
            repo.records(Note).put(Note(id="a"))
        repo.records(Job).put(Job(id="a"))  # beside all branches there is room for all
        child.communicate("\n")
    repo.records(Note).put(Note(id="a"))


def test_collection_of_garbage_and_verify_know_records(repo: ak.Repository) -> None:
    notes = repo.records(Note)
    for number in range(30):
        notes.put(Note(id=f"n{number}", text="long " * 3000))
    repo.gc(grace_s=0)
    assert repo.verify().is_sound
    assert notes["n7"].text == "long " * 3000


def test_what_another_thread_changes_during_a_commit_is_in_the_next_one(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = repo.records(Note)
    publish = repo.publish

    others = list[threading.Thread]()

    def publish_slowly(*args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        others.append(threading.Thread(target=lambda: notes.put(Note(id="b"))))
        others[0].start()
        time.sleep(0.05)
        assert notes.get("b") is None  # it waits for this commit
        return publish(*args, **options)

    with ak.Versioned(repo) as state:
        state.session.begin_cell("notes.put(...)")
        notes.put(Note(id="a"))
        monkeypatch.setattr(state.session.repo, "publish", publish_slowly)
        state.session.end_cell()
        others[0].join()
        assert sorted(notes) == ["a", "b"]
        state["x"] = 1
        state.commit("next")
    assert sorted(notes) == ["a", "b"]


def test_a_long_document_that_changes_a_little_costs_a_little(repo: ak.Repository) -> None:
    class Words(ak.Record):
        words: list[str]

    words = repo.records(Words)
    words.put(Words(id="a", words=[f"{number * 7919 % 10007:05d}" * 4 for number in range(8_000)]))  # 180 KB
    before = repo.store.size().used_bytes  # type: ignore[attr-defined]  # of LMDB
    for place in range(0, 8_000, 400):
        found = words["a"].words
        words.update("a", words=[*found[:place], "new", *found[place:]])
    assert words["a"].words.count("new") == 20
    assert repo.store.size().used_bytes - before < 20 * 20_000  # type: ignore[attr-defined]  # of LMDB


# -- schemas


def test_a_store_of_schema_1_opens_under_schema_3(repo: ak.Repository) -> None:
    class Person(ak.Record):
        name: str

    repo.records(Person).put(Person(id="a", name="Ada Lovelace"))

    def newer() -> type[ak.Record]:
        class Person(ak.Record):
            schema_version = 3
            first: str
            last: str

            @ak.migration(2)
            def split(old: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
                first, last = old.pop("name").split()
                return old | {"first": first, "family": last}

            @ak.migration(3)
            def rename(old: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
                return old | {"last": old.pop("family")}

        return Person

    people: ak.Records[Any] = repo.records(newer())
    assert (people["a"].first, people["a"].last) == ("Ada", "Lovelace")
    people.update("a", first="Augusta")
    with pytest.raises(ak.NewerRecordError, match="schema 3"):
        _ = repo.records(Person)["a"]


# -- watching and updates that wait


def test_a_watcher_hears_each_change_at_once(repo: ak.Repository) -> None:
    jobs = repo.records(Job)
    heard: list[Change[Job]] = []
    with jobs.watch("j*", heard.append):
        jobs.put(Job(id="j1"))
        jobs.put(Job(id="other"))
        jobs.update("j1", done=1)
        jobs.delete("j1")
    jobs.put(Job(id="j2"))
    assert [(change.id, change.new and change.new.done) for change in heard] == [("j1", 0), ("j1", 1), ("j1", None)]


def test_a_watcher_hears_of_other_processes_within_a_second(repo: ak.Repository, tmp_path: Path) -> None:
    jobs = repo.records(Job)
    heard = threading.Event()
    code = (
        "import agent_kernel as ak, sys\n"
        "class Job(ak.Record):\n    plane = 'store'\n    done: int = 0\n"
        "with ak.open(sys.argv[1]) as repo:\n    repo.records(Job).put(Job(id='j'))\n"
    )
    with jobs.watch("*", lambda change: heard.set()):
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "store")], check=True)
        assert heard.wait(1)


def test_a_watcher_that_raises_is_told_the_next_change(repo: ak.Repository, caplog: pytest.LogCaptureFixture) -> None:
    jobs = repo.records(Job)
    heard: list[str] = []

    def listen(change: Change[Job]) -> None:
        heard.append(change.id)
        raise RuntimeError("mine")

    with jobs.watch("*", listen):
        jobs.put(Job(id="a"))
        jobs.put(Job(id="b"))
    assert heard == ["a", "b"]
    assert "RuntimeError: mine" in caplog.text


def test_rapid_updates_are_told_at_once_and_stored_together(repo: ak.Repository) -> None:
    class Meter(ak.Record):
        plane = "store"
        coalesce_s = 30.0
        level: int = 0
        status: str = "on"

    meters = repo.records(Meter)
    meters.put(Meter(id="m"))
    heard: list[int] = []
    with meters.watch("*", lambda change: heard.append(change.new.level if change.new else -1)):
        for level in range(1, 61):
            meters.update("m", level=level)
            assert meters["m"].level == level
    assert heard == list(range(1, 61))
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        assert other.records(Meter)["m"].level == 0
        meters.update("m", status="off")  # a status does not wait
        assert other.records(Meter)["m"].level == 60
    assert len(list(meters.history("m"))) == 2


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Car(ak.Record):
    status: Literal["new", "sold"] | None = None
    colour: Colour = Colour.RED
    name: Annotated[str, "any"] = ""


@pytest.mark.parametrize("where", [{"status": "lost"}, {"colour": "green"}, {"colour": []}], ids=str)
def test_who_looks_for_a_value_that_no_record_has_hears_of_it(repo: ak.Repository, where: dict[str, object]) -> None:
    cars = repo.records(Car)
    cars.put(Car(id="a", status="new"))
    (name,) = where
    with pytest.raises(ValueError, match=f"{name} of Car is one of '(new|red)', '(sold|blue)'(, None)?, and not"):
        cars.find(where=where)
    assert [one.id for one in cars.find(where={"status": "new", "colour": Colour.RED, "name": ""})] == ["a"]
    assert cars.find(where={"status": None}) == []


def test_a_status_that_no_workflow_and_no_task_has_is_refused(repo: ak.Repository) -> None:
    with pytest.raises(ValueError, match="status of Workflow is one of 'PENDING', "):
        repo.workflows.list(cast("Any", "running"))
    with pytest.raises(ValueError, match="status of Task is one of 'pending', "):
        repo.queue("team").find(cast("Any", "done"))


def test_what_cannot_be_stored_just_now_is_tried_again_by_itself(
    repo: ak.Repository, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lines, "_AGAIN_S", 0.01)

    class Meter(ak.Record):
        plane = "store"
        coalesce_s = 0.01
        level: int = 0

    meters = repo.records(Meter)
    meters.put(Meter(id="m"))
    line, tries = meters.line(), [0]
    change = line._change

    def change_at_the_third_try(*args: Any) -> object:
        tries[0] += 1
        if tries[0] < 3:
            raise ak.StoreUnavailableError(repo.store.url, "the disk is full")
        return change(*args)

    monkeypatch.setattr(line, "_change", change_at_the_third_try)
    meters.update("m", level=1)
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        deadline = time.monotonic() + 10
        while other.records(Meter)["m"].level == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert other.records(Meter)["m"].level == 1
    assert tries == [3]
    assert caplog.text.count("could not be stored yet") == 2


def test_an_update_that_waits_does_not_undo_what_another_process_did(repo: ak.Repository) -> None:
    class Meter(ak.Record):
        plane = "store"
        coalesce_s = 30.0
        level: int = 0
        label: str = ""

    meters = repo.records(Meter)
    meters.put(Meter(id="m"))
    meters.update("m", lambda old: old.model_copy(update={"level": old.level + 1}))
    with ak.open(repo.store.url.removeprefix("lmdb://")) as other:
        other.records(Meter).update("m", level=10, label="by another")
        other.close()
    meters.update("m", lambda old: old.model_copy(update={"level": old.level + 1}))
    with repo.transaction():  # begins with what waits
        assert meters["m"].level == 12
        repo.records(Job).put(Job(id="a"))
    assert (meters["m"].level, meters["m"].label) == (12, "by another")


def test_a_transaction_is_done_again_as_a_whole_where_others_are_faster(repo: ak.Repository) -> None:
    from agent_kernel.records.collection import together

    jobs = repo.records(Job)
    for id in ("a", "b"):
        jobs.put(Job(id=id, done=50))

    def move(one: str, other: str) -> None:
        jobs.update(one, done=jobs[one].done - 1)
        jobs.update(other, done=jobs[other].done + 1)

    def work(one: str, other: str) -> None:
        for _ in range(15):
            together(jobs, lambda: move(one, other))

    threads = [threading.Thread(target=work, args=names) for names in (("a", "b"), ("b", "a"), ("a", "b"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (jobs["a"].done, jobs["b"].done) == (35, 65)


def test_a_transaction_that_read_what_has_changed_since_stores_nothing(repo: ak.Repository) -> None:
    jobs = repo.records(Job)
    for id in ("a", "b"):
        jobs.put(Job(id=id))
    reads: list[Callable[[], object]] = [lambda: jobs["a"], lambda: len(jobs), lambda: jobs.find("a*")]
    for number, read in enumerate(reads):

        def do(read: Callable[[], object] = read, number: int = number) -> None:
            with repo.transaction():
                read()
                meanwhile = threading.Thread(target=jobs.update, args=("a",), kwargs={"done": number + 1})
                meanwhile.start()
                meanwhile.join()
                jobs.update("b", done=9)

        with pytest.raises(ak.TransactionConflictError, match="run it again"):
            do()
    assert jobs["b"].done == 0


def test_an_update_keeps_the_time_to_live_and_a_put_begins_anew(
    repo: ak.Repository, wait: Callable[[float], None]
) -> None:
    jobs = repo.records(Job)
    for id in ("a", "b"):
        jobs.put(Job(id=id), ttl_s=60)
    jobs.update("a", done=1)
    jobs.put(Job(id="b", done=1))
    wait(61)
    assert list(jobs) == ["b"]


def test_an_index_has_no_entry_of_a_record_whose_time_is_over_and_that_was_put_anew(repo: ak.Repository) -> None:
    jobs = ak.Records(repo, Job, index=lambda job: f"{job.done}\0{job.id}")
    jobs.put(Job(id="a", done=1), ttl_s=0.01)
    time.sleep(0.02)
    jobs.put(Job(id="a", done=2))
    assert (jobs.count("1\0"), jobs.first("", 9)) == (0, ["a"])


# -- encryption


def test_sealed_records_open_with_their_key_alone(repo: ak.Repository, tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    sealed = repo.records(Job, secret="open sesame")
    sealed.put(Job(id="a", done=41))
    assert sealed["a"].done == 41
    with pytest.raises(ak.SealedRecordError, match="with this key"):
        _ = repo.records(Job, secret="other")["a"]
    with pytest.raises(ak.SealedRecordError, match="open its collection with the key"):
        _ = repo.records(Job)["a"]
    assert not any(b'"done":41' in path.read_bytes() for path in (tmp_path / "store").rglob("*") if path.is_file())


# -- arguments that make no sense, and another program's model


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda repo: repo.records(Note).put(Note(id="b"), user=5), "user is text, not 5"),
        (lambda repo: repo.records(Note, actor=5), "actor is text, not 5"),
        (lambda repo: repo.records(Note).put(Note(id="b"), expect="1"), "expect is a whole number, not '1'"),
        (lambda repo: repo.state(None), "a name is text, not None"),
        (lambda repo: repo.list(5), "a name is text, not 5"),
        (lambda repo: repo.list("turns").replace_tail("a"), "start is a whole number, not 'a'"),
        (lambda repo: repo.queue(5), "team is text, not 5"),
        (lambda repo: repo.queue("t").push("x", priority="high"), "priority is a whole number, not 'high'"),
        (lambda repo: repo.queue("\ud800"), "team is text that UTF-8 holds"),
        (lambda repo: repo.transaction("\ud800").__enter__(), "message is text that UTF-8 holds"),
        (lambda repo: repo.records(Job).at(float("nan")), "a time is a number of seconds since 1970"),
    ],
)
def test_an_argument_that_makes_no_sense_is_an_error_and_nothing_is_stored(
    memory: ak.Repository, act: Callable[[ak.Repository], object], message: str
) -> None:
    memory.records(Note).put(Note(id="a"))
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        act(memory)
    assert list(memory.records(Note)) == ["a"]


def test_a_program_with_another_model_drops_no_field_that_it_does_not_know(tmp_path: Path) -> None:
    class Full(ak.Record):
        collection = "Item"
        text: str = ""
        tags: tuple[str, ...] = ()

    class Less(ak.Record):
        collection = "Item"
        text: str = ""

    class Later(ak.Record):
        collection = "Item"
        schema_version = 2
        text: str = ""

        @ak.migration(2)
        def without_tags(fields: dict[str, object]) -> dict[str, object]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
            return {"id": fields["id"], "text": fields["text"]}

    with ak.open(tmp_path / "store") as repo, ak.open(tmp_path / "store") as other:
        repo.records(Full).put(Full(id="a", text="first", tags=("x",)))
        items = other.records(Less)
        changes: list[Callable[[], object]] = [
            lambda: items.update("a", text="second"),
            lambda: items.put(Less(id="a")),
        ]
        for act in changes:
            with pytest.raises(
                ak.InvalidRecordError,
                match=r"with tags, and .*Less has no such field.* schema_version = 2 and a migration",
            ):
                act()
        assert repo.records(Full)["a"] == Full(id="a", text="first", tags=("x",))
    with ak.open(tmp_path / "store") as repo:
        assert repo.records(Later).update("a", text="third").text == "third"


def test_what_is_looked_at_as_of_a_time_ends_there_and_is_not_changed(memory: ak.Repository) -> None:
    jobs = memory.records(Job)
    jobs.put(Job(id="a"))
    moment = time.time()
    time.sleep(0.01)
    jobs.update("a", done=2)
    past = jobs.at(moment)
    assert [change.version for change in past.history("a")] == [1]
    changes: list[Callable[[], object]] = [lambda: past.trim("a", 0), past.purge]
    for act in changes:
        with pytest.raises(ak.StoreError, match="past moment"):
            act()
    assert [change.version for change in jobs.history("a")] == [2, 1]


@BOTH
def test_who_reads_names_a_user_by_text_and_none_is_not_everybody(repo: ak.Repository, model: type[ak.Record]) -> None:
    records = repo.records(model)
    records.put(model(id="a"), user="ada")
    nobody = cast(str, None)
    reads: list[Callable[[], object]] = [
        lambda: records.get("a", user=nobody),
        lambda: records.require("a", user=nobody),
        lambda: records.version("a", user=nobody),
        lambda: records.find(user=nobody),
        lambda: list(records.ids(user=nobody)),
        lambda: list(records.history("a", user=nobody)),
        lambda: records.watch("*", print, user=nobody),
    ]
    for read in reads:
        with pytest.raises(TypeError, match="user is text, not None"):
            read()


def model_of(**attributes: Any) -> type[ak.Record]:
    fields = {"__annotations__": {"status": str}, "status": "new", "__module__": __name__}
    return type("Made", (ak.Record,), {**fields, **attributes})


@pytest.mark.parametrize(
    "transitions", [{"new": "paid"}, {"new": b"paid"}, {"new": None}, {"new": 5}, ["new"], "new"], ids=repr
)
def test_a_table_of_transitions_lists_statuses(repo: ak.Repository, transitions: object) -> None:
    with pytest.raises(TypeError, match="transitions of Made"):
        repo.records(model_of(transitions=transitions))


@pytest.mark.parametrize("collection", ["a\0b", 5, "\ud800"], ids=ascii)
def test_the_name_of_a_collection_does_not_lead_into_another_one(repo: ak.Repository, collection: object) -> None:
    with pytest.raises((TypeError, ValueError), match="collection of Made"):
        repo.records(model_of(collection=collection))


def test_each_schema_has_one_migration_to_it() -> None:
    @ak.migration(2)
    def one(old: dict[str, Any]) -> dict[str, Any]:
        return old

    @ak.migration(2)
    def other(old: dict[str, Any]) -> dict[str, Any]:
        return old

    @ak.migration(3)
    def later(old: dict[str, Any]) -> dict[str, Any]:
        return old

    repo = ak.open("memory:")
    with pytest.raises(TypeError, match="Made has two migrations to schema 2: one and other"):
        repo.records(model_of(schema_version=2, one=one, other=other))
    with pytest.raises(ValueError, match="Made has a migration to schema 3, and its schema_version is 2"):
        repo.records(model_of(schema_version=2, one=one, later=later))
    base = model_of(schema_version=2, one=one)
    repo.records(type("Sub", (base,), {"one": other, "__module__": __name__}))  # a class may have its own


def test_a_validator_refuses_with_the_false_of_numpy(repo: ak.Repository) -> None:
    numpy = pytest.importorskip("numpy")
    notes = repo.records(Note, validators=[lambda note: numpy.int64(note.stars) >= 0])
    notes.put(Note(id="a", stars=1))
    with pytest.raises(ak.InvalidRecordError, match="refuses it"):
        notes.update("a", stars=-1)
    assert notes["a"].stars == 1


def test_a_watcher_that_would_have_to_be_awaited_is_an_error(repo: ak.Repository) -> None:
    async def watch(change: object) -> None:
        raise AssertionError(change)

    begin: list[Callable[[], object]] = [
        lambda: repo.records(Note).watch("*", watch),
        lambda: repo.state("ada").watch("*", watch),
        lambda: repo.list("talk").watch(watch),
    ]
    for one in begin:
        with pytest.raises(TypeError, match="plain function"):
            one()


@BOTH
def test_what_a_transaction_reads_was_there_together(
    repo: ak.Repository, tmp_path: Path, model: type[ak.Record]
) -> None:
    records = repo.records(model)
    with repo.transaction():
        records.put(model(id="a"))
        records.put(model(id="b"))
    with ak.open(tmp_path / "store") as other, ThreadPoolExecutor(1) as pool:

        def change() -> None:
            pool.submit(change_both, other, model).result()

        def read_both() -> None:
            with repo.transaction():
                records.version("a")
                change()
                records.version("b")

        with pytest.raises(
            ak.TransactionConflictError, match="somebody else changed records that it read; run it again"
        ):
            read_both()
        with repo.transaction():
            assert records.version("a") == records.version("b") == 2
            change()
            assert [record.id for record in (records["a"], records["b"])] == ["a", "b"]
            assert records.version("a") == 2  # as it was read
        assert records.version("a") == 3


def change_both(repo: ak.Repository, model: type[ak.Record]) -> None:
    records = repo.records(model)
    with repo.transaction():
        for id in "ab":
            records.update(id, lambda record: record.model_copy())


# -- what a model says


def test_a_field_that_the_model_does_not_have_is_refused_where_it_is_given_by_name(memory: ak.Repository) -> None:
    class Aliased(ak.Record):
        model_config = ConfigDict(populate_by_name=True)
        text: str = Field(default="", alias="body")

    class Open(ak.Record):
        model_config = ConfigDict(extra="allow")

    class Measured(ak.Record):
        text: str = ""

        @cached_property
        def size(self) -> int:
            return len(self.text)

    notes = memory.records(Note)
    notes.put(Note(id="a"))
    acts: tuple[Callable[[], object], ...] = (
        lambda: notes.make(id="b", colour=1),
        lambda: notes.update("a", colour=1),
        lambda: notes.update("a", lambda note: note.model_copy(update={"colour": 1})),
        lambda: notes.put(notes["a"].model_copy(update={"colour": 1})),
    )
    for act in acts:
        with pytest.raises(ak.InvalidRecordError, match=r"it has no field colour$"):
            act()
    assert notes.version("a") == 1
    for name in ("body", "text"):
        assert memory.records(Aliased).make(**{"id": "a", name: "hello"}).text == "hello"
    assert memory.records(Open).make(id="a", colour=1).model_extra == {"colour": 1}
    assert memory.records(Open).put(Open(id="a").model_copy(update={"colour": 1})).model_extra == {"colour": 1}
    measured = Measured(id="a", text="four")
    assert measured.size == 4
    assert memory.records(Measured).put(measured) == Measured(id="a", text="four")


def test_migrations_that_leave_a_schema_out_are_named(memory: ak.Repository) -> None:
    class Memo(ak.Record):
        schema_version = 4
        text: str = ""

        @ak.migration(2)
        def to_2(old: Any) -> Any:
            return old

        @ak.migration(4)
        def to_4(old: Any) -> Any:
            return old

    said = (
        "Memo has schema_version 4 and no migration to schema 3: records of schema 2 and before cannot be read; write a function "
        "marked @ak.migration(3)"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(said)}$") as found:
        memory.records(Memo)
    assert found[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        memory.records(Memo)


def test_a_model_whose_field_has_a_type_that_is_not_defined_is_refused(memory: ak.Repository) -> None:
    class Tagged(ak.Record):
        tags: list["a"]  # type: ignore[name-defined]  # noqa: F821, UP037

    with pytest.raises(TypeError, match=r"^a field of Tagged has a type that is not defined, 'a': define it, or give"):
        memory.records(Tagged)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"a": 5}, "transitions of Staged: what follows 'a' is a list of values, not 5: write [5]"),
        ({"a": "b"}, "transitions of Staged: what follows 'a' is a list of values, not 'b': write ['b']"),
        ({"a": {"b": 1}}, "transitions of Staged: what follows 'a' is a list of values, not {'b': 1}"),
        ({"a": [["b"]]}, "transitions of Staged: a status is text, a number or a member of an enum, not ['b']"),
        ({b"a": []}, "transitions of Staged: a status is text, a number or a member of an enum, not b'a'"),
        (["a"], "transitions of Staged is a dict, from a value to the list of those that may follow it, not ['a']"),
        (5, "transitions of Staged is a dict, from a value to the list of those that may follow it, not 5"),
    ],
)
def test_transitions_that_make_no_sense_are_said_before_anything_is_stored(
    memory: ak.Repository, table: Any, said: str
) -> None:
    class Staged(ak.Record):
        status: str = "a"
        transitions = table

    with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
        memory.records(Staged)


@pytest.mark.parametrize(
    ("validators", "said"),
    [
        (print, "validators is a list of functions, not <built-in function print>: give ["),
        ("abc", "validators is a list of functions, not 'abc': give ['abc']"),
        ([5], "a validator is a function, not 5"),
        ([lambda: True], "a validator takes one value, and the function <lambda> cannot be called so"),
        ([lambda one, other: True], "a validator takes one value, and the function <lambda> cannot be called so"),
        (None, "validators is a list of functions, not None"),
    ],
)
def test_a_validator_that_cannot_be_called_with_a_record_is_said_as_the_records_are_opened(
    memory: ak.Repository, validators: Any, said: str
) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
        memory.records(Note, validators=validators)


def test_a_function_that_takes_something_else_is_said_and_nothing_changes(memory: ak.Repository) -> None:
    notes = memory.records(Note)
    notes.put(Note(id="a"))
    nothing: Any = lambda: None  # noqa: E731
    with pytest.raises(TypeError, match=r"^a watcher takes one value, and the function <lambda> cannot be called so"):
        notes.watch("*", nothing)
    for act in (
        lambda: notes.update("a", nothing),
        lambda: notes.find(where=nothing),
        lambda: notes.find(order=nothing),
        lambda: memory.state("ada").update("a", nothing),
    ):
        with pytest.raises(TypeError, match="takes a function of 1 value, not the function <lambda>: "):
            act()
    with pytest.raises(TypeError, match=r"^can only concatenate str"):  # what the function itself raises stays as it is
        notes.update("a", lambda note: note.text + 5)  # type: ignore[operator]
    assert notes.version("a") == 1


def test_a_setting_with_a_type_is_refused_as_it_would_be_a_field() -> None:
    """The transitions of such a model held for nothing, and were stored with each record."""
    annotations = {"status": str, "transitions": dict}
    body = {"__module__": __name__, "__annotations__": annotations, "status": "new", "transitions": {"new": ["done"]}}
    make: Any = type(ak.Record)
    with (
        pytest.warns(UserWarning, match='"transitions"'),  # pydantic's own
        pytest.raises(TypeError, match=r"^transitions of Ticket would be a field of each record"),
    ):
        make("Ticket", (ak.Record,), body)

    class Plain(BaseModel):  # not a Record: it may have a field of any name
        id: str
        plane: str = "left"

    assert Plain(id="a").plane == "left"
