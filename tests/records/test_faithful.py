"""What is put comes back as it was, or is refused: values, names, numbers of seconds, models and branches."""

from __future__ import annotations

import importlib
import math
import pkgutil
import time
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, computed_field

import agent_kernel as ak
import agent_kernel.records
from agent_kernel.records import Change
from agent_kernel.records.schema import _OWN  # pyright: ignore[reportPrivateUsage]  # it is what is tested


class Inner(BaseModel):
    a: int = 0


class Wider(Inner):
    b: int = 0


class Anything(ak.Record):
    number: float = 0.0
    free: Any = None
    secret: SecretStr = SecretStr("")
    inner: Inner = Inner()
    kept: str = Field(default="", exclude=True)


class Note(ak.Record):
    text: str = ""
    stars: int = 0


class Job(ak.Record):
    plane = "store"
    status: str = "new"
    transitions: ClassVar[Mapping[str, Any]] = {"new": ["done"], "done": []}


KEPT: dict[str, dict[str, Any]] = {
    "infinity": {"number": math.inf},
    "infinity within what may be anything": {"free": {"a": [-math.inf, 1]}},
    "a secret": {"secret": SecretStr("open sesame")},
    "a secret beside None": {"secret": SecretStr("x"), "free": None},
}


@pytest.mark.parametrize("case", KEPT)
def test_a_value_that_json_does_not_have_is_kept(memory: ak.Repository, case: str) -> None:
    records = memory.records(Anything)
    put = records.put(Anything(id="a", **KEPT[case]))
    assert records["a"] == put
    assert records.find() == [put]
    assert records.update("a", inner=Inner(a=1)).inner.a == 1


def test_nan_is_kept(memory: ak.Repository) -> None:
    records = memory.records(Anything)
    records.put(Anything(id="a", number=math.nan, free=[math.nan]))
    assert math.isnan(records["a"].number)
    assert math.isnan(records["a"].free[0])


LOST: dict[str, tuple[dict[str, Any], str]] = {
    "what a field leaves out": ({"kept": "x"}, "kept is left out"),
    "what only a subclass has": ({"inner": Wider(b=3)}, "inner is a Wider"),
    "what JSON makes another one of": ({"free": (1, 2)}, "free"),
    "a key that becomes text": ({"free": {1: "a"}}, "free"),
}


@pytest.mark.parametrize("case", LOST)
def test_what_would_be_lost_is_refused(memory: ak.Repository, case: str) -> None:
    fields, said = LOST[case]
    records = memory.records(Anything)
    with pytest.raises(ak.InvalidRecordError, match=said):
        records.put(Anything(id="a", **fields))
    assert not records


def test_aliases_and_computed_fields_are_no_hindrance(memory: ak.Repository) -> None:
    class Named(BaseModel):
        model_config = ConfigDict(extra="forbid")
        id: str
        size: int = Field(alias="theSize")

        @computed_field  # type: ignore[prop-decorator]  # as pydantic says it
        @property
        def twice(self) -> int:
            return 2 * self.size

    named = memory.records(Named)
    named.put(Named(id="a", theSize=3))
    assert named.update("a", size=4).size == 4
    assert [(one.size, one.twice) for one in named.find(where={"twice": 8})] == [(4, 8)]


class Level(str, Enum):  # noqa: UP042 - its text is that of an Enum, unlike a StrEnum
    DRAFT = "draft"
    FINAL = "final"


TABLES: dict[str, tuple[type, Any, Any, Any]] = {
    "members and their values": (Level, {"draft": ["final"], "final": []}, Level.DRAFT, Level.FINAL),
    "members": (Level, {Level.DRAFT: [Level.FINAL], Level.FINAL: []}, Level.DRAFT, Level.FINAL),
    "numbers": (int, {1: [2], 2: []}, 1, 2),
}


@pytest.mark.parametrize("case", TABLES)
def test_transitions_hold_for_statuses_of_all_kinds(memory: ak.Repository, case: str) -> None:
    kind, table, first, last = TABLES[case]
    body = {"__annotations__": {"status": kind}, "transitions": table, "__module__": __name__}
    model: Any = type("Paper", (ak.Record,), body)
    papers = memory.records(model)
    papers.put(model(id="a", status=first))
    papers.update("a", status=last)
    with pytest.raises(ak.TransitionError):
        papers.update("a", status=first)


def test_a_status_that_the_transitions_do_not_have_is_refused(memory: ak.Repository) -> None:
    with pytest.raises(ak.InvalidRecordError, match="status is one of new, done, not 'bogus'"):
        memory.records(Job).put(Job(id="a", status="bogus"))


@pytest.mark.parametrize(
    ("ttl_s", "kind", "says"),
    [
        *((number, ValueError, "ttl_s is more than 0 seconds") for number in (-1, 0, math.inf, math.nan)),
        *((other, TypeError, "ttl_s is a number of seconds") for other in ("1", True)),
    ],
)
def test_a_time_to_live_is_a_number_of_seconds(
    memory: ak.Repository, ttl_s: Any, kind: type[Exception], says: str
) -> None:
    notes = memory.records(Note)
    notes.put(Note(id="a"))
    with pytest.raises(kind, match=says):
        notes.put(Note(id="a"), ttl_s=ttl_s)
    assert "a" in notes


def _with(**said: Any) -> type[Any]:
    return type("Said", (ak.Record,), {"__module__": __name__, **said})


MODELS: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "no model": (TypeError, "a pydantic model", lambda: int),
    "schema 0": (ValueError, "schema_version", lambda: _with(schema_version=0)),
    "a ttl below 0": (ValueError, "ttl_s of Said", lambda: _with(ttl_s=-1.0)),
    "transitions of nothing": (TypeError, "no field 'status'", lambda: _with(transitions={"a": ["b"]})),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_be_meant_is_refused(memory: ak.Repository, case: str) -> None:
    error, said, make = MODELS[case]
    with pytest.raises(error, match=said):
        memory.records(make())


def test_a_validator_that_would_have_to_be_awaited_is_refused(memory: ak.Repository) -> None:
    async def check(note: Note) -> bool:
        return bool(note.text)

    with pytest.raises(TypeError, match="check is async"):
        memory.records(Note, validators=[check])


def test_what_a_validator_says_is_said_once(memory: ak.Repository) -> None:
    notes = memory.records(Note, validators=[lambda note: False])
    with pytest.raises(ak.InvalidRecordError) as told:
        notes.put(Note(id="k"))
    assert str(told.value).count("is not valid") == 1


CALLS: dict[str, tuple[type[Exception], str, Callable[[ak.Records[Any]], object]]] = {
    "a dict for a record": (ak.InvalidRecordError, "must be a Note", lambda notes: notes.put({"id": "a"})),
    "a number from an update": (ak.InvalidRecordError, "must be a Note", lambda notes: notes.update("a", lambda _: 5)),
    "an order that is no field": (ValueError, "no field 'colour'", lambda notes: notes.find(order="-colour")),
    "a value of no field": (ValueError, "no field 'colour'", lambda notes: notes.find(where={"colour": 1})),
    "a limit below 0": (ValueError, "limit", lambda notes: notes.find(limit=-1)),
    "an id that is no text": (ak.InvalidRecordError, "an id is text", lambda notes: notes.get(5)),  # type: ignore[arg-type]
    "an index of a branch": (ValueError, "lie on a branch", lambda notes: notes.count("")),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_wrong_call_is_told_what_is_wrong(memory: ak.Repository, case: str) -> None:
    error, said, act = CALLS[case]
    notes = memory.records(Note)
    notes.put(Note(id="a"))
    with pytest.raises(error, match=said):
        act(notes)


def test_a_field_that_is_called_as_what_update_takes_is_not_mistaken_for_it(memory: ak.Repository) -> None:
    class Login(ak.Record):
        user: str = ""

    logins = memory.records(Login)
    logins.put(Login(id="a"))
    with pytest.raises(ak.InvalidRecordError, match="change the field by a function"):
        logins.update("a", user="ada")
    logins.update("a", lambda login: login.model_copy(update={"user": "ada"}))
    assert logins.get("a", user="bob") == Login(id="a", user="ada")


def test_a_migration_that_raises_names_the_record(memory: ak.Repository) -> None:
    class Old(ak.Record):
        collection = "Paper"

    class New(ak.Record):
        collection = "Paper"
        schema_version = 2

        @ak.migration(2)
        def split(old: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
            return {"id": old["body"]}

    memory.records(Old).put(Old(id="a"))
    with pytest.raises(ak.InvalidRecordError, match=r"Paper 'a'.*migration to schema 2 raised KeyError"):
        memory.records(New).find()


# -- one collection, one model


def _other_note() -> type[ak.Record]:
    class Note(ak.Record):
        body: str = ""

    return Note


def test_two_models_do_not_share_a_collection(memory: ak.Repository) -> None:
    memory.records(Note)
    with pytest.raises(TypeError, match=r"the collection 'Note' has records of .*Note: give .*_other_note"):
        memory.records(_other_note())


def test_a_model_that_is_defined_again_goes_on_with_its_records(memory: ak.Repository) -> None:
    for _ in range(2):
        memory.records(_other_note())


@pytest.mark.parametrize("name", _OWN)
def test_a_collection_of_the_package_is_not_a_program_s(memory: ak.Repository, name: str) -> None:
    model: Any = type("Mine", (ak.Record,), {"__module__": __name__, "collection": name, "plane": _OWN[name][0]})
    with pytest.raises(TypeError, match="has records of agent_kernel"):
        memory.records(model)


def test_all_collections_of_the_package_are_known() -> None:
    found: set[str] = set()
    for module in pkgutil.iter_modules(agent_kernel.records.__path__, "agent_kernel.records."):
        for model in vars(importlib.import_module(module.name)).values():
            if isinstance(model, type) and issubclass(model, BaseModel) and model.__module__ == module.name:
                found.add(getattr(model, "collection", "") or model.__name__ if hasattr(model, "collection") else "")
    assert found - {"", "Record"} == _OWN.keys()


# -- branches, users, watching


def test_a_branch_that_is_not_there_is_neither_read_nor_begun(memory: ak.Repository) -> None:
    memory.records(Note, branch="first").put(Note(id="a"))
    typo = memory.records(Note, branch="frist")
    for act in (lambda: list(typo), lambda: typo.put(Note(id="b"))):
        with pytest.raises(ak.RefNotFoundError, match="did you mean first"):
            act()
    assert sorted(memory.branches()) == ["first"]


def test_all_that_is_read_can_be_read_for_one_user(memory: ak.Repository) -> None:
    notes = memory.records(Note)
    heard: list[str] = []
    with notes.watch("*", lambda change: heard.append(change.id), user="ada"):
        notes.put(Note(id="a"), user="ada")
        notes.put(Note(id="b"), user="bob")
    assert heard == ["a"]
    assert list(notes.ids(user="ada")) == ["a"]
    assert (notes.version("a", user="ada"), notes.version("b", user="ada")) == (1, 0)
    assert [len(list(notes.history(id, user="ada"))) for id in "ab"] == [1, 0]


def test_a_watcher_hears_once_that_a_time_is_over(memory: ak.Repository) -> None:
    notes = memory.records(Note)
    heard: list[Change[Note]] = []
    with notes.watch("*", heard.append):
        notes.put(Note(id="a"), ttl_s=0.1)
        time.sleep(0.6)
        notes.purge()
        notes.put(Note(id="a"))
    assert [(change.old is None, change.new is None) for change in heard] == [
        (True, False),
        (False, True),
        (True, False),
    ]


# -- merging


def test_a_watcher_hears_nothing_of_a_record_that_was_gone_before(
    memory: ak.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = memory.records(Note)
    items.put(Note(id="a"), ttl_s=60)
    now = time.time_ns
    monkeypatch.setattr("agent_kernel.records.collection.time.time_ns", lambda: now() + 61 * 10**9)
    heard: list[Any] = []
    with items.watch("*", heard.append):
        items.put(Note(id="a"))
    assert [change.old for change in heard] == [None]


def test_a_merge_of_fields_that_a_validator_refuses_together_is_a_conflict(repo: ak.Repository) -> None:
    class Range(ak.Record):
        lo: int = 0
        hi: int = 10

    def ordered(one: Range) -> bool:
        return one.lo <= one.hi

    ranges = repo.records(Range, validators=[ordered])
    repo.records(Range)  # without it
    with ak.Versioned(repo) as state:
        ranges.put(Range(id="a"))
        state.session.switch("idea", create=True)
        ranges.update("a", hi=5)
        state.session.switch("main")
        ranges.update("a", lo=8)
        with pytest.raises(ak.MergeConflictError):
            state.session.merge("idea")


def test_infinity_and_nan_are_merged_as_any_value(repo: ak.Repository) -> None:
    records = repo.records(Anything)
    with ak.Versioned(repo) as state:
        records.put(Anything(id="a", free={"x": 0.0, "y": math.inf}))
        state.session.switch("idea", create=True)
        records.update("a", free={"x": math.inf, "y": math.inf})
        state.session.switch("main")
        records.update("a", number=-math.inf)
        state.session.merge("idea")
        assert (records["a"].free["x"], records["a"].number) == (math.inf, -math.inf)
        state.session.switch("idea")
        records.update("a", number=math.nan)
        state.session.switch("main")
        records.update("a", number=math.inf)
        with pytest.raises(ak.MergeConflictError):
            state.session.merge("idea")


# -- lists


def test_a_list_whose_items_are_replaced_is_read_no_further(memory: ak.Repository) -> None:
    turns = memory.list("turns")
    turns.extend("x" * 20_000 for _ in range(6))
    reading = iter(turns)
    next(reading)
    turns.replace_tail(0, ["new"] * 6)
    turns.extend("y" * 20_000 for _ in range(6))
    with pytest.raises(ak.StaleRecordError, match="edition 2, and edition 1"):
        list(reading)


def test_a_list_to_which_items_are_added_is_read_to_the_end(memory: ak.Repository) -> None:
    turns = memory.list("turns")
    turns.extend("x" * 20_000 for _ in range(6))
    reading = iter(turns)
    next(reading)
    turns.replace_tail(6, ["new"])
    turns.pop()
    assert len(list(reading)) == 5


def test_a_name_that_is_too_long_for_a_list_is_refused_at_once(memory: ak.Repository) -> None:
    with pytest.raises(ak.InvalidRecordError, match="its name has more than 360 bytes"):
        memory.list("x" * 390)


def test_an_item_that_is_not_there_is_named(memory: ak.Repository) -> None:
    with pytest.raises(IndexError, match="the list 'turns' has 0 items: there is no item 3"):
        _ = memory.list("turns")[3]
