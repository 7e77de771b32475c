"""A record that is deleted and put anew is another one: its versions go on, and its status begins where the model says."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest

import agent_kernel as ak
from agent_kernel.records.collection import Records
from agent_kernel.records.schema import Plane


class Item(ak.Record):
    number: int = 0


class Fleeting(Item):
    """Of which the plane `store` keeps no past."""

    collection = "Fleeting"
    keeps_past: ClassVar[bool] = False


Kept = Records[Item]


@pytest.fixture(params=["branch", "store", "session", "store without past"])
def items(request: pytest.FixtureRequest, repo: ak.Repository) -> Iterator[Kept]:
    match request.param:
        case "session":
            with ak.Versioned(repo):
                yield repo.records(Item)
        case "store without past":
            yield Records(repo, Fleeting, plane="store")
        case plane:
            yield Records(repo, Item, plane=plane)


def make(items: Kept, id: str, number: int = 0) -> Item:
    return items.schema.model(id=id, number=number)


@pytest.mark.parametrize("gap", ["at once", "another between", "as one"])
def test_an_old_version_never_fits_a_record_that_was_put_anew(items: Kept, repo: ak.Repository, gap: str) -> None:
    items.put(make(items, "a", 1))
    seen = items.version("a")

    def replace() -> None:
        items.delete("a")
        if gap == "another between":
            items.put(make(items, "b"))
        items.put(make(items, "a", 2))

    if gap == "as one":
        with repo.transaction():
            replace()
    else:
        replace()
    assert items.version("a") > seen
    with pytest.raises(ak.StaleRecordError):
        items.update("a", lambda one: setattr(one, "number", 3), expect=seen)
    assert items["a"].number == 2


def test_versions_go_on_however_often_it_is_deleted(items: Kept) -> None:
    versions: list[int] = []
    for number in range(4):
        items.put(make(items, "a", number), expect=0)
        items.update("a", number=number + 10)
        versions.append(items.version("a"))
        assert items.delete("a", expect=versions[-1])
    assert versions == sorted(set(versions))


def test_versions_go_on_after_a_time_to_live(items: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    items.put(make(items, "a", 1), ttl_s=60.0)
    seen = items.version("a")
    later = time.time_ns() + 61 * 10**9
    monkeypatch.setattr("agent_kernel.records.collection.time.time_ns", lambda: later)
    assert items.purge() == 1
    items.put(make(items, "a", 2))
    assert items.version("a") > seen


@pytest.mark.parametrize("way", ["undo", "rollback", "undo of a new one", "rollback in a later session"])
def test_an_old_version_never_fits_what_was_changed_after_an_undo(repo: ak.Repository, way: str) -> None:
    """The record is at an older version again, and the next change had the version that was taken back."""
    items, variables = repo.records(Item), ak.Versioned(repo)
    repo.records(Item).put(Item(id="other"))
    variables.commit("begin")
    if way != "undo of a new one":
        items.put(Item(id="a", number=1))
        variables.commit("first")
    items.put(Item(id="a", number=2))
    variables.commit("second")
    seen = items.version("a")
    if "later" in way:
        variables.close()
        variables = ak.Versioned(repo)
        assert items["a"].number == 2
    _ = variables.undo() if "undo" in way else variables.rollback("HEAD~1")
    items.put(Item(id="a", number=3))
    with pytest.raises(ak.StaleRecordError):
        items.put(Item(id="a", number=4), expect=seen)
    assert items["a"].number == 3
    items.put(Item(id="a", number=4), expect=items.version("a"))
    variables.commit("third")
    items.update("other", number=1)
    assert items.version("other") == 2  # nobody took that back
    variables.close()


def test_what_is_known_of_deleted_records_is_no_record(items: Kept) -> None:
    for id in "abc":
        items.put(make(items, id))
        items.delete(id)
    items.put(make(items, "d"))
    assert (list(items), len(items), items.find("*"), list(items.ids())) == (["d"], 1, [items["d"]], ["d"])


def test_versions_go_on_where_two_branches_deleted(repo: ak.Repository) -> None:
    with ak.Versioned(repo) as state:
        items = repo.records(Item)
        items.put(Item(id="a"))
        items.put(Item(id="b"))
        state.commit("both")
        state.session.switch("idea", create=True)
        for number in range(3):
            items.update("a", number=number)
        items.delete("a")
        state.commit("idea without a")
        state.session.switch("main")
        items.delete("b")
        state.commit("main without b")
        state.session.merge("idea")
        assert list(items) == []
        items.put(Item(id="a"))
        assert items.version("a") > 4


def test_no_name_of_what_is_known_of_deleted_records_is_shown(repo: ak.Repository) -> None:
    from agent_kernel.commands.describe import changed_records

    items = repo.records(Item)
    items.put(Item(id="a"))
    before = repo.resolve("main")
    items.delete("a")
    assert changed_records(repo, before, repo.resolve("main")) == ("-Item:a",)


def test_lists_whose_items_are_replaced_know_nothing_of_their_parts(repo: ak.Repository) -> None:
    for plane in ("branch", "store"):
        turns = repo.list("turns", plane=plane)
        turns.extend(["x" * 20_000] * 8)
        turns.clear()
        turns.extend(["y" * 20_000] * 8)
        assert turns[:] == ["y" * 20_000] * 8
    assert repo.store.get_many([b"n/r/\0list part"]) == {}


class Order(ak.Record):
    transitions: ClassVar[Mapping[Any, Any]] = {
        None: ("draft",),
        "draft": ("paid",),
        "paid": ("sent",),
        "sent": (),
    }
    status: str = "draft"


@pytest.mark.parametrize("plane", ["branch", "store"])
def test_a_record_begins_with_a_status_that_may_follow_nothing(repo: ak.Repository, plane: Plane) -> None:
    orders = Records(repo, Order, plane=plane)
    for status in ("paid", "sent", "None", "unknown"):
        with pytest.raises(ak.RecordError):
            orders.put(Order(id="a", status=status))
    orders.put(Order(id="a"))
    orders.update("a", status="paid")
    orders.delete("a")
    with pytest.raises(ak.TransitionError, match="'a' cannot begin with sent: only draft can be first"):
        orders.put(Order(id="a", status="sent"))
    with repo.transaction():
        orders.put(Order(id="a"))
        orders.delete("a")
        with pytest.raises(ak.TransitionError, match="begin with sent"):
            orders.put(Order(id="a", status="sent"))
    assert orders.put(Order(id="a")).status == "draft"


ORDER: Mapping[Any, Any] = {None: ["new"], "new": ["paid"], "paid": ["sent"], "sent": []}


def test_a_value_of_a_state_begins_with_one_that_may_follow_nothing(repo: ak.Repository) -> None:
    state = repo.state("ada", transitions={"order": ORDER})
    for change in (lambda: state.set("order", "sent"), lambda: state.init({"order": "paid"})):
        with pytest.raises(ak.TransitionError, match="'order' cannot begin with"):
            change()
    state.set("order", "new")
    state.set("order", "paid")
    state.delete("order")
    with pytest.raises(ak.TransitionError):
        state.set("order", "sent")


def test_neither_a_rollback_nor_a_backup_goes_around_the_transitions(repo: ak.Repository) -> None:
    state = repo.state("ada", transitions={"order": ORDER})
    state.set("order", "new")
    state.set("other", 1)
    state.checkpoint()
    backup = state.backup()
    state.set("order", "paid")
    state.set("other", 2)
    for way in (state.rollback, lambda: state.restore(backup)):
        with pytest.raises(ak.TransitionError, match="cannot go from paid to new"):
            way()
        assert state.get_all() == {"order": "paid", "other": 2}
    assert state.rollback(force=True) == 1
    assert state.get_all() == {"order": "new", "other": 1}
    state.set("order", "paid")
    state.restore(backup, force=True)
    assert state.get("order") == "new"


def test_a_rollback_and_a_backup_that_the_transitions_allow_need_no_force(repo: ak.Repository) -> None:
    state = repo.state("ada", transitions={"order": {"draft": ["paid"], "paid": ["draft", "sent"], "sent": []}})
    state.set("order", "draft")
    state.checkpoint()
    backup = state.backup()
    state.set("order", "paid")
    state.rollback()
    assert state.get("order") == "draft"
    state.set("order", "paid")
    state.restore(backup)
    assert state.get("order") == "draft"


@pytest.mark.parametrize("way", ["rollback", "restore"])
def test_a_value_that_comes_back_is_gone_when_it_would_have_been(
    repo: ak.Repository, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = repo.state("ada")
    now, shift = time.time_ns, 0
    monkeypatch.setattr("agent_kernel.records.collection.time.time_ns", lambda: now() + shift)
    state.set("token", "first", ttl_s=60)
    state.set("short", "first", ttl_s=5)
    state.set("stays", "first")
    state.checkpoint()
    backup = state.backup()
    state.set_many({"token": "second", "short": "second", "stays": "second"})
    shift = 10 * 10**9
    state.rollback() if way == "rollback" else state.restore(backup)
    assert state.get_all() == {"stays": "first", "token": "first"}
    shift = 61 * 10**9
    assert state.get_all() == {"stays": "first"}
