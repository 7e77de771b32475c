"""What the Python API's own objects print as: short, without raw bytes, and without running or showing foreign values."""

from __future__ import annotations

from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.repository import Author, hex_of
from agent_kernel.storage import MemoryStore

SECRET = "hunter2-hunter2"


@pytest.fixture
def session() -> ak.Session:
    return ak.bind({"x": 1}, ak.Repository.open(MemoryStore()), author=Author("ada"))


def test_a_report_says_where_it_led_and_what_changed(session: ak.Session) -> None:
    report = session.commit("one")
    assert report.commit is not None
    assert repr(report) == f"<Report {hex_of(report.commit)[:8]} on main: +x>"
    assert repr(session.commit()) == "<Report no commit on main: no change>"


def test_of_many_names_a_report_spells_out_a_few(session: ak.Session) -> None:
    session.namespace.update({f"n{number}": number for number in range(9)})
    assert repr(session.commit("many")).endswith(": +n0, +n1, +n2, +n3, +n4, +n5 and 4 more>")


def test_a_commit_says_whose_it_is_and_what_it_follows_and_shows_no_code(session: ak.Session) -> None:
    session.begin_cell(f"password = '{SECRET}'", number=7)
    session.namespace["y"] = 2
    first, second = session.repo.head(session.id).commit, session.end_cell()
    assert first is not None
    assert second is not None
    assert second.record is not None
    tree = hex_of(second.record.tree)[:8]
    assert repr(second.record) == f"<Commit cell [7] by ada, tree {tree}, on {hex_of(first)[:8]}: +y>"


def test_handles_say_where_they_are(session: ak.Session, tmp_path: Path) -> None:
    assert repr(session) == "<Session on main at no commit yet, memory:>"
    head = session.commit("one").commit
    assert head is not None
    at = hex_of(head)[:8]
    assert repr(session.repo) == "<Repository memory:>"
    assert repr(session.repo.at()) == f"<Snapshot {at}: 1 variable>"
    assert repr(session.status()) == f"<Status on main at {at}: 1 bound, 0 not committed>"
    session.close()
    assert repr(session) == f"<Session on main at {at}, memory:, closed>"
    with ak.Versioned(tmp_path / "store") as state:
        state["x"] = 1
        assert repr(state) == "<Versioned on main: x>"


def test_a_difference_goes_by_its_name(session: ak.Session) -> None:
    session.commit("one")
    session.namespace["y"] = 1
    session.commit("two")
    assert repr(session.repo.diff("HEAD~1")) == "[<NameDiff +y>]"


def test_a_live_state_names_its_keys_and_runs_nothing_of_its_values() -> None:
    class Loud:
        def __repr__(self) -> str:
            raise AssertionError("nobody asked")

    live = ak.Live()
    assert repr(live) == "<Live: empty>"
    live["loud"] = Loud()
    assert repr(live) == "<Live: loud>"
