"""What a report, a line under a cell, `show` and `diff` tell of records that changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.records import Records


class Note(ak.Record):
    text: str = ""
    stars: int = 0


@pytest.fixture
def state() -> Iterator[ak.Versioned]:
    with ak.open("memory:") as repo, ak.Versioned(repo) as state:
        yield state


def notes_of(state: ak.Versioned) -> Records[Note]:
    return state.session.repo.records(Note)


def test_a_report_names_the_records_that_changed(state: ak.Versioned) -> None:
    notes = notes_of(state)
    notes.put(Note(id="1"))
    notes.put(Note(id="2"))
    first = state.commit("two notes")
    assert first.records == ("+Note:1", "+Note:2")
    assert repr(first).endswith("on main: +Note:1, +Note:2>")
    notes.update("1", text="later")
    notes.delete("2")
    state["x"] = 1
    second = state.commit("with a variable")
    assert second.records == ("~Note:1", "-Note:2")
    assert repr(second).endswith("on main: +x, ~Note:1, -Note:2>")
    state["x"] = 2
    assert state.commit("a variable alone").records == ()
    assert state.commit().records == ()


def test_undo_redo_rollback_and_checkout_report_the_records_that_they_took_along(state: ak.Versioned) -> None:
    notes = notes_of(state)
    notes.put(Note(id="1"))
    state.commit("first")
    state.session.repo.create_tag("before", "main")
    notes.update("1", text="later")
    state.commit("second")
    assert state.undo().records == ("~Note:1",)
    assert state.redo().records == ("~Note:1",)
    assert state.rollback("before").records == ("~Note:1",)
    notes.put(Note(id="2"))
    state.commit("third")
    report = state.checkout("before")
    assert report.records == ("-Note:2",)
    assert "no change" not in repr(report)


@pytest.mark.parametrize("has_changes_here", [True, False])
def test_a_merge_reports_the_records_that_it_took_over(state: ak.Versioned, has_changes_here: bool) -> None:
    notes, session = notes_of(state), state.session
    notes.put(Note(id="1"))
    state.commit("first")
    session.switch("idea", create=True)
    notes.update("1", stars=5)
    state.commit("there")
    session.switch("main")
    if has_changes_here:
        notes.put(Note(id="2"))
        state.commit("here")
    assert session.merge("idea").records == ("~Note:1",)
    assert session.undo().records == ("~Note:1",)
    assert session.cherry_pick("idea").records == ("~Note:1",)


def test_a_report_names_the_first_records_and_counts_the_others(state: ak.Versioned) -> None:
    notes = notes_of(state)
    for number in range(60):
        notes.put(Note(id=f"{number:03}"))
    report = state.commit("many")
    assert (len(report.records), report.records[0], report.more_records) == (50, "+Note:000", 10)
    assert repr(report).endswith("+Note:005 and 54 more>")


def test_a_report_does_not_name_a_record_that_is_stored_again_as_it_was_before(state: ak.Versioned) -> None:
    notes = notes_of(state)
    state.commit("first")
    notes.put(Note(id="1"))
    notes.delete("1")
    state["x"] = 1
    assert state.commit("put and deleted").records == ()


def test_a_program_that_keeps_no_records_loads_no_models(tmp_path: Path) -> None:
    import subprocess
    import sys

    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        notes_of(state).put(Note(id="1"))
        state.commit("first")
        notes_of(state).put(Note(id="2"))
        state.commit("second")
    code = (
        "import sys, agent_kernel as ak\n"
        f"with ak.open({str(tmp_path / 'store')!r}) as repo, ak.Versioned(repo) as state:\n"
        "    print(state.rollback('HEAD~1').records, 'pydantic' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout.strip() == "('-Note:2',) False"
