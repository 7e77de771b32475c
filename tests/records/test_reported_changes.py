"""What a report, a line under a cell, `show` and `diff` tell of records that changed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import agent_kernel as ak
from agent_kernel.commands.scope import Scope, answer
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


# -- `show` and `diff`


class Login(ak.Record):
    password: str = ""
    note: str = ""
    tags: dict[str, int] = {}  # noqa: RUF012  # pydantic copies it


TOKEN = "sk-proj-" + "A1b2C3d4" * 6


def text_of(repo: ak.Repository, *words: str, outline: bool = False) -> list[str]:
    result = answer(list(words), Scope(repo))[0]
    text = (result.outline() if outline else result).to_text(200)
    return [" ".join(line.split()) for line in text.splitlines()]


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[ak.Repository]:
    """Its two last commits are these changes of records."""
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        notes = repo.records(Note)
        notes.put(Note(id="1", text="draft", stars=1))
        notes.put(Note(id="2", text="gone"))
        state.commit("first")
        notes.update("1", text="final")
        notes.delete("2")
        notes.put(Note(id="3", text="new", stars=4))
        state.commit("second")
        yield repo


CHANGES = ["~ Note:1: text draft → final", "− Note:2: text gone, stars 0", "+ Note:3: text new, stars 4"]


def test_diff_names_the_fields_of_records_that_differ(repo: ak.Repository) -> None:
    lines = text_of(repo, "diff", "HEAD~1", "HEAD")
    assert lines[2:] == ["no variable differs", "records: ~Note:1, -Note:2, +Note:3", *CHANGES]
    assert "~ Note:1: text final → draft" in text_of(repo, "diff", "HEAD", "HEAD~1")


def test_show_names_the_fields_of_records_that_changed(repo: ak.Repository) -> None:
    lines = text_of(repo, "show", "HEAD")
    assert lines[-3:] == [line.replace(": ", " ", 1) for line in CHANGES]


def test_what_stays_in_a_notebook_names_records_and_holds_none_of_their_fields(repo: ak.Repository) -> None:
    for words in (["show", "HEAD"], ["diff", "HEAD~1", "HEAD"]):
        lines = text_of(repo, *words, outline=True)
        assert any("~Note:1, -Note:2, +Note:3" in line for line in lines)
        assert not [line for line in lines if any(text in line for text in ("draft", "final", "gone", "new"))]


def test_fields_are_masked_and_shortened(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo:
        logins = repo.records(Login)
        logins.put(Login(id="a", password="x7-kk-2951", note=f"with {TOKEN}", tags={"a": 1, "b": 2}))
        logins.put(Login(id=TOKEN))
        logins.update("a", password="y8-ll-3062", note="long " * 99, tags={"a": 1, "b": 3, "c": 4})
        text = "\n".join([*text_of(repo, "diff", "HEAD~2", "HEAD"), *text_of(repo, "diff"), *text_of(repo, "show")])
        assert not any(secret in text for secret in ("2951", "3062", "A1b2C3d4"))
        changes = next(line for line in text_of(repo, "diff") if line.startswith("~ Login:a: "))
        assert changes.startswith("~ Login:a: password •••• masked → •••• masked, note with •••• masked → long long")
        assert changes.endswith("…, tags.b 2 → 3, tags.c 4")


def test_a_value_is_masked_whose_key_in_a_state_names_a_secret(tmp_path: Path) -> None:
    """A state's key is the name of its record: `value` was the name that was looked at."""
    with ak.open(tmp_path / "store") as repo:
        state = repo.state("ada", "morning")
        state.set_many({"api_key": "amber-otter-61", "credentials": {"who": "amber-otter-62"}, "city": "Paris"})
        state.set_many({"api_key": "amber-otter-63", "credentials": {"who": "amber-otter-64"}, "city": "Rome"})
        record = "HEAD:state:ada/s/morning/api_key"
        for words in (["diff", "HEAD~1", "HEAD"], ["show", "HEAD"], ["show", "HEAD~1"], ["show", record]):
            assert "amber-otter" not in "\n".join(text_of(repo, *words))
        assert "~ state:ada/s/morning/city: value Paris → Rome" in text_of(repo, "diff", "HEAD~1", "HEAD")


def test_a_conflict_shows_no_secret_of_a_state(state: ak.Versioned) -> None:
    values, session = state.session.repo.state("ada", "morning"), state.session
    values.set("api_key", "amber-otter-60")
    state.commit("first")
    session.switch("idea", create=True)
    values.set("api_key", "amber-otter-61")
    session.switch("main")
    values.set("api_key", "amber-otter-62")
    with pytest.raises(ak.MergeConflictError) as caught:
        session.merge("idea")
    assert caught.value.conflicts == (("state:ada/s/morning/api_key['value']", "•••• masked", "•••• masked"),)


def test_lists_are_counted_and_sealed_records_stay_sealed(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo:
        talk = repo.list("talk", plane="branch")
        notes = repo.records(Note, secret="k" * 32)
        talk.append("hello")
        notes.put(Note(id="1", text="one"))
        talk.extend(["good", "day"])
        notes.update("1", text="two")
        lines = text_of(repo, "diff", "HEAD~2", "HEAD")
        assert lines[-2:] == ["~ Note:1: encrypted", "~ list:/talk: 1 item → 3 items"]


def test_of_many_records_the_first_are_told(tmp_path: Path) -> None:
    with ak.open(tmp_path / "store") as repo, ak.Versioned(repo) as state:
        for number in range(30):
            repo.records(Note).put(Note(id=f"{number:02}", stars=number))
        state.commit("many")
        lines = text_of(repo, "show", "HEAD")
        assert sum(line.startswith("+ Note:") for line in lines) == 8
        assert any(line.endswith(" and 22 more") for line in lines)


def test_diff_and_show_of_one_record(repo: ak.Repository) -> None:
    assert text_of(repo, "diff", "HEAD~1", "HEAD", "Note:1")[2:] == [CHANGES[0]]
    assert text_of(repo, "diff", "HEAD~1", "HEAD", "--", "Note:3", "Note:2")[2:] == CHANGES[1:]
    repo.records(Note).put(Note(id="x:y", text="later"))
    assert text_of(repo, "diff", "HEAD~1", "HEAD", "Note:1")[2:] == ["no difference in Note:1"]
    shown = text_of(repo, "show", "HEAD~1:Note:1")
    assert shown[0] == "Note:1, version 2"
    assert ["text final" in shown, "stars 1" in shown] == [True, True]
    assert any(line.startswith("Changed in: ") and line.endswith("second") for line in shown)
    assert "text later" in text_of(repo, "show", "HEAD:Note:x%3Ay")
    for words in (["show", "HEAD:Note:9"], ["diff", "HEAD~1", "HEAD", "Note:9"]):
        with pytest.raises(ak.NotFoundError, match="Note:9"):
            answer(words, Scope(repo))


def test_a_conflict_shows_no_secret_of_a_record(state: ak.Versioned) -> None:
    logins, session = state.session.repo.records(Login), state.session
    logins.put(Login(id="a"))
    state.commit("first")
    session.switch("idea", create=True)
    logins.update("a", password="x7-kk-2951", note=TOKEN)
    session.switch("main")
    logins.update("a", password="y8-ll-3062", note="none")
    with pytest.raises(ak.MergeConflictError) as caught:
        session.merge("idea")
    rows = caught.value.conflicts
    assert rows == (
        ("Login:a['password']", "•••• masked", "•••• masked"),
        ("Login:a['note']", "none", "•••• masked"),
    )


def test_the_sentence_of_a_panel_counts_the_records(state: ak.Versioned) -> None:
    from agent_kernel.panels.actions import count_changes

    notes_of(state).put(Note(id="1"))
    assert count_changes(state.commit("one")) == "1 record changed"
    state["x"] = 1
    notes_of(state).put(Note(id="2"))
    notes_of(state).put(Note(id="3"))
    assert count_changes(state.commit("more")) == "1 variable added; 2 records changed"
    state["x"] = 2
    assert count_changes(state.commit("x")) == "1 variable changed"
