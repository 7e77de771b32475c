"""What is put comes back as it was, or is refused: values, names, numbers of seconds, models and branches."""

from __future__ import annotations

import importlib
import math
import pkgutil
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

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


@dataclass
class Point:
    x: int = 0


LOST: dict[str, tuple[dict[str, Any], str]] = {
    "a model where anything may be": ({"free": Inner()}, "free is a Inner, and would come back as a dict"),
    "a model within": ({"free": {"a": [Inner()]}}, "free.a.0 is a Inner"),
    "a dataclass where anything may be": ({"free": [Point()]}, "free.0 is a Point"),
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


def test_bytes_that_are_no_text_are_named_with_what_to_do(memory: ak.Repository) -> None:
    class Picture(ak.Record):
        parts: list[bytes]

    class Coded(ak.Record):
        model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
        parts: list[bytes]

    with pytest.raises(ak.InvalidRecordError, match=r"parts\.1 is bytes, and not text: .* ser_json_bytes='base64'"):
        memory.records(Picture).put(Picture(id="a", parts=[b"text", b"\xff"]))
    coded = memory.records(Coded)
    assert coded.put(Coded(id="a", parts=[b"text", b"\xff"])) == coded["a"]


class Tint(Enum):
    RED = "red"
    BLUE = "blue"


class Wheel(ak.Record):
    size: int | None = None
    tint: Tint | None = None
    more: dict[str, int] = Field(default_factory=dict)


def test_fields_that_may_be_none_and_enums_have_an_order(memory: ak.Repository) -> None:
    wheels = memory.records(Wheel)
    for id, size, tint in (("a", 3, Tint.RED), ("b", None, None), ("c", 1, Tint.BLUE)):
        wheels.put(Wheel(id=id, size=size, tint=tint, more={id: 1}))
    for field in ("size", "tint"):
        assert [one.id for one in wheels.find(order=field)] == ["b", "c", "a"]
        assert [one.id for one in wheels.find(order=f"-{field}")] == ["a", "c", "b"]
    with pytest.raises(TypeError, match="cannot be ordered by 'more'"):
        wheels.find(order="more")


def test_a_member_of_an_enum_is_found_by_its_value_too(memory: ak.Repository) -> None:
    wheels = memory.records(Wheel)
    wheels.put(Wheel(id="a", tint=Tint.RED))
    assert [one.id for one in wheels.find(where={"tint": "red"})] == ["a"]
    assert wheels.find(where={"tint": "blue"}) == []


def test_to_delete_what_is_gone_already_is_stale(memory: ak.Repository) -> None:
    notes = memory.records(Note)
    notes.put(Note(id="a"))
    seen = notes.version("a")
    assert notes.delete("a", expect=seen)
    with pytest.raises(ak.StaleRecordError, match="not there"):
        notes.delete("a", expect=seen)
    assert not notes.delete("a")
    assert not notes.delete("a", expect=0)


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

    with pytest.raises(TypeError, match="plain function"):
        memory.records(Note, validators=[check])


class _Later:
    async def __call__(self, value: object) -> bool:
        return False


async def _slowly(value: object) -> bool:
    return False


def _asserts(value: Any) -> None:
    assert value == "good", "only good is good"


REFUSING: dict[str, tuple[Callable[[Any], object], str]] = {
    "a key that is not there": (lambda value: vars(re)["age"], "<lambda> raised KeyError: 'age'"),
    "a number that cannot be": (lambda value: 1 / 0, "<lambda> raised ZeroDivisionError: division by zero"),
    "an assertion": (_asserts, "only good is good"),
    "what would have to be awaited": (lambda value: _slowly(value), "takes a plain function"),
}


@pytest.mark.parametrize("case", REFUSING)
def test_whatever_a_validator_raises_refuses_and_nothing_is_stored(memory: ak.Repository, case: str) -> None:
    refuse, said = REFUSING[case]
    notes = memory.records(Note, validators=[refuse])
    state = memory.state("ada", validators={"k": refuse})
    for act in (lambda: notes.put(Note(id="a")), lambda: state.set("k", "bad"), lambda: state.save({"k": "bad"})):
        with pytest.raises(ak.InvalidRecordError, match=re.escape(said)):
            act()
    assert not notes
    assert (state.get_all(), state.rounds()) == ({}, [])


def test_rules_of_a_state_are_plain_functions(memory: ak.Repository) -> None:
    wrong: list[dict[str, Any]] = [
        {"validators": {"k": _slowly}},
        {"validators": {"k": _Later()}},
        {"sanitisers": {"k": _slowly}},
    ]
    for rules in wrong:
        with pytest.raises(TypeError, match="plain function"):
            memory.state("ada", **rules)
    with pytest.raises(TypeError, match="a validator is a function, not 5"):
        memory.state("ada", validators={"k": 5})  # type: ignore[dict-item]


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
    "a pattern that is no text": (TypeError, "a pattern is text", lambda notes: notes.find(5)),  # type: ignore[arg-type]
    "a change that is no function": (TypeError, "takes a function", lambda notes: notes.update("a", 5)),  # type: ignore[arg-type]
    "a version to delete that is no number": (TypeError, "expect", lambda notes: notes.delete("a", expect="1")),  # type: ignore[arg-type]
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


def test_a_migration_is_to_a_schema_and_keeps_the_id(memory: ak.Repository) -> None:
    for wrong in ("2", 2.0, True):
        with pytest.raises(TypeError, match="a schema to migrate to is a whole number"):
            ak.migration(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="schema 2 or a later one, not 1"):
        ak.migration(1)

    class Before(ak.Record):
        collection = "Renamed"

    class After(ak.Record):
        collection = "Renamed"
        schema_version = 2

        @ak.migration(2)
        def rename(old: Any) -> Any:
            return {"id": "b"}

    memory.records(Before).put(Before(id="a"))
    after = memory.records(After)
    for act in (lambda: after["a"], after.find):
        with pytest.raises(ak.InvalidRecordError, match="Renamed 'a' is not valid: its migrations made 'b' of its id"):
            act()


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


# -- values that are hard to compare


class Meeting(ak.Record):
    at: datetime
    others: tuple[datetime, ...] = ()


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_in_the_hour_that_comes_twice_is_stored(memory: ak.Repository, fold: int) -> None:
    """Python says that such a time equals none of another zone, so such a record was refused for an hour each autumn."""
    twice = datetime(2020, 10, 25, 2, 30, fold=fold, tzinfo=ZoneInfo("Europe/Paris"))
    meetings = memory.records(Meeting)
    meetings.put(Meeting(id="a", at=twice, others=(twice,)))
    back = meetings["a"]
    assert [back.at.timestamp(), back.others[0].timestamp()] == [twice.timestamp()] * 2
    assert back.at.utcoffset() == twice.utcoffset()


class Open(ak.Record):
    model_config = ConfigDict(extra="allow")
    n: int = 0


def test_a_field_that_a_model_does_not_name_comes_back_as_it_was_or_is_refused(memory: ak.Repository) -> None:
    records = memory.records(Open)
    with pytest.raises(ak.InvalidRecordError, match="when is not the same when it is read back"):
        records.put(Open.model_validate({"id": "a", "when": datetime(2020, 1, 1)}))
    assert "a" not in records
    kept = Open.model_validate({"id": "a", "rows": [1, {"b": None}]})
    records.put(kept)
    assert records["a"] == kept


def test_a_model_that_allows_any_field_is_updated_and_ordered_by_one(memory: ak.Repository) -> None:
    records = memory.records(Open)
    for id, more in (("a", {}), ("b", {"size": 2}), ("c", {"size": 1})):
        records.put(Open.model_validate({"id": id, **more}))
    records.update("c", size=3)
    assert [record.id for record in records.find(order="-size")] == ["c", "b", "a"]


class Photo(ak.Record):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", strict=True)
    pixels: bytes
    taken: datetime
    weight: float = 0.0


class Picture(ak.Record):
    collection = "Photo"
    schema_version = 3
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64", strict=True)
    image: bytes
    taken: datetime
    weight: float = 0.0
    seen: datetime | None = None

    @ak.migration(2)
    def rename(old: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
        return {**{name: value for name, value in old.items() if name != "pixels"}, "image": old["pixels"]}

    @ak.migration(3)
    def see(old: dict[str, Any]) -> dict[str, Any]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
        return {**old, "seen": datetime(2021, 1, 1)}


@pytest.mark.parametrize("weight", [1.5, math.inf])
def test_a_migrated_record_has_the_bytes_and_times_that_were_stored(memory: ak.Repository, weight: float) -> None:
    """They were read as Python values: bytes came back as their base64, and a strict model took no time that is text."""
    memory.records(Photo).put(Photo(id="a", pixels=b"\xff\x00abc", taken=datetime(2020, 1, 1), weight=weight))
    pictures = memory.records(Picture)
    expected = Picture(
        id="a", image=b"\xff\x00abc", taken=datetime(2020, 1, 1), weight=weight, seen=datetime(2021, 1, 1)
    )
    assert pictures["a"] == expected
    assert pictures.find() == [expected]
    assert [change.new for change in pictures.history("a")] == [expected]


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


# -- what JSON could not be read back from


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = [found]
    return found


def holding_itself() -> list[Any]:
    found: list[Any] = []
    found.append({"again": found})
    return found


STORES: dict[str, Callable[[ak.Repository, Any], object]] = {
    "record": lambda repo, value: repo.records(Loose).put(Loose(id="a", value=value)),
    "state": lambda repo, value: repo.state("ada").set("a", value),
    "state, merged": lambda repo, value: repo.state("ada").update("a", {"b": value}),
    "round": lambda repo, value: repo.state("ada").save({"a": value}),
    "tier": lambda repo, value: repo.state("ada").tiers().put("a", value),
    "list": lambda repo, value: repo.list("turns").append("kept", value),
    "memory": lambda repo, value: repo.state("ada").memory(9).add("user", "hello", more=value),
    "task": lambda repo, value: repo.queue("web").push("x", {"a": value}),
    "workflow": lambda repo, value: repo.workflows.start("x", context={"a": value}),
    "team": lambda repo, value: repo.teams.create("web", shared={"a": value}),
    "speech": lambda repo, value: repo.speech.open(config={"a": value}),
    "source": lambda repo, value: repo.knowledge.source("docs", "a", details={"a": value}),
    "snapshot": lambda repo, value: repo.agents.snapshot("ada", state={"a": value}),
}


class Loose(ak.Record):
    value: Any = None


@pytest.mark.parametrize("store", STORES)
def test_a_value_that_holds_itself_or_is_nested_too_deep_is_refused_and_nothing_is_stored(
    memory: ak.Repository, store: str
) -> None:
    for value in (holding_itself(), {"a": holding_itself()}, nested(199), nested(200), nested(2_000), nested(50_000)):
        with pytest.raises(ak.InvalidRecordError):
            STORES[store](memory, value)
    assert list(memory.log()) == []
    assert (len(memory.list("turns")), memory.queue("web").counts().total, len(memory.speech.records)) == (0, 0, 0)


@pytest.mark.parametrize("levels", range(140, 205, 3))
def test_what_is_stored_of_nested_values_can_be_read_however_deep_it_is(memory: ak.Repository, levels: int) -> None:
    """A list of 199 levels was stored, and then no item of its list could be read any more."""
    state, turns = memory.state("ada"), memory.list("turns")
    turns.append("first")
    state.set("first", 1)
    for put in (lambda: turns.append(nested(levels)), lambda: state.set("deep", nested(levels))):
        with suppress(ak.InvalidRecordError):
            put()
    assert turns[:] in (["first"], ["first", nested(levels)])
    assert state.get_all() in ({"first": 1}, {"first": 1, "deep": nested(levels)})
    state.save()
    state.checkpoint()
    assert state.load() == state.values_at(1) == state.get_all()
    state.restore(state.backup())


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("value", [{b"a": 1}, {"a": {b"b": 1}}, [{b"a": 1}]], ids=str)
def test_a_key_that_is_bytes_is_refused_as_it_would_come_back_as_text(
    memory: ak.Repository, store: str, value: Any
) -> None:
    with pytest.raises(ak.InvalidRecordError):
        STORES[store](memory, value)
    assert list(memory.log()) == []


def test_a_workflow_that_can_be_stored_has_checkpoints(memory: ak.Repository) -> None:
    flows = memory.workflows
    for levels in range(140, 155):
        with suppress(ak.InvalidRecordError):
            id = flows.start("nightly", ["load"], context={"a": nested(levels)}).id
            flows.checkpoint(id)
            assert flows.resume(id, at="latest").context == {"a": nested(levels)}
    assert len(flows.list()) > 3
