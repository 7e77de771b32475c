"""Two branches that changed records: fields go together, and what both changed differently is for a person to choose."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import model_validator

import agent_kernel as ak
from agent_kernel.commands.scope import Scope, answer
from agent_kernel.errors import MergeChoiceError, MergeConflictError
from agent_kernel.records import Records


class Note(ak.Record):
    text: str = ""
    stars: int = 0
    tags: dict[str, int] = {}  # noqa: RUF012  # pydantic copies it


class Span(ak.Record):
    low: int
    high: int

    @model_validator(mode="after")
    def check_order(self) -> Span:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


@pytest.fixture
def state() -> Iterator[ak.Versioned]:
    with ak.open("memory:") as repo, ak.Versioned(repo) as state:
        yield state


def part(
    state: ak.Versioned, before: Callable[[], object], there: Callable[[], object], here: Callable[[], object]
) -> None:
    """A common state, then another one on branch `idea` and on `main`, where the session is then."""
    before()
    state.session.switch("idea", create=True)
    there()
    state.session.switch("main")
    here()


def notes_of(state: ak.Versioned) -> Records[Note]:
    return state.session.repo.records(Note)


def test_different_fields_and_different_keys_of_a_dict_go_together(state: ak.Versioned) -> None:
    notes = notes_of(state)
    part(
        state,
        lambda: notes.put(Note(id="a", text="draft", tags={"old": 1, "gone": 1})),
        lambda: notes.update("a", text="final", tags={"old": 1, "theirs": 2}),
        lambda: notes.update("a", stars=5, tags={"old": 1, "gone": 1, "ours": 3}),
    )
    state.session.merge("idea")
    assert notes["a"] == Note(id="a", text="final", stars=5, tags={"old": 1, "theirs": 2, "ours": 3})
    assert next(change.new.text for change in notes.history("a") if change.new) == "final"
    state.session.undo()
    assert notes["a"].text == "draft"


def test_a_field_that_both_changed_is_a_conflict_and_one_choice_is_for_what_clashes(state: ak.Versioned) -> None:
    notes = notes_of(state)
    part(
        state,
        lambda: notes.put(Note(id="a", tags={"x": 0})),
        lambda: notes.update("a", text="theirs", tags={"x": 1, "theirs": 1}),
        lambda: notes.update("a", text="ours", stars=4, tags={"x": 2}),
    )
    state["price"] = 1
    with pytest.raises(MergeConflictError) as caught:
        state.session.merge("idea")
    assert caught.value.conflicts == (("Note:a['text']", "ours", "theirs"), ("Note:a['tags']['x']", "2", "1"))
    assert caught.value.variables == ("Note:a", "Note:a")
    assert str(caught.value).startswith("both sides changed one record; nothing was merged")
    assert "choose with --ours Note:a or --theirs Note:a" in str(caught.value)
    assert notes["a"].text == "ours"
    with pytest.raises(MergeChoiceError):
        state.session.merge("idea", ours={"Note:a"}, theirs={"Note:a"})
    state.session.merge("idea", theirs={"Note:a"})
    assert notes["a"] == Note(id="a", text="theirs", stars=4, tags={"x": 1, "theirs": 1})
    state.session.undo()
    state.session.merge("idea", ours={"Note:a"})
    assert notes["a"] == Note(id="a", text="ours", stars=4, tags={"x": 2, "theirs": 1})


def test_what_one_side_deleted_and_the_other_changed_is_a_conflict(state: ak.Versioned) -> None:
    notes = notes_of(state)
    part(
        state,
        lambda: [notes.put(Note(id=id)) for id in ("a", "b", "same", "plain")],
        lambda: [notes.delete("a"), notes.update("b", text="theirs"), notes.delete("same"), notes.delete("plain")],
        lambda: [notes.update("a", text="ours"), notes.delete("b"), notes.delete("same")],
    )
    with pytest.raises(MergeConflictError) as caught:
        state.session.merge("idea")
    assert caught.value.conflicts == (
        ("Note:a", "text ours, stars 0", "removed"),
        ("Note:b", "removed", "text theirs, stars 0"),
    )
    assert str(caught.value).startswith("both sides changed 2 records;")
    state.session.merge("idea", ours={"Note:a"}, theirs={"Note:b"})
    assert {id: note.text for id, note in notes.items()} == {"a": "ours", "b": "theirs"}


def test_the_same_change_on_both_sides_is_no_conflict(state: ak.Versioned) -> None:
    notes = notes_of(state)
    part(
        state,
        lambda: notes.put(Note(id="a")),
        lambda: [notes.update("a", text="same"), notes.put(Note(id="new", text="one", stars=1))],
        lambda: [notes.update("a", text="same"), notes.put(Note(id="new", text="one", stars=1))],
    )
    state.session.merge("idea")
    assert {id: note.text for id, note in notes.items()} == {"a": "same", "new": "one"}


def test_conflicts_of_variables_and_of_records_are_told_together(state: ak.Versioned) -> None:
    notes = notes_of(state)

    def change(value: str) -> Callable[[], object]:
        def act() -> None:
            state["price"] = value
            state.commit(value)
            notes.put(Note(id="a [1]", text=value))

        return act

    part(state, change("base"), change("theirs"), change("ours"))
    with pytest.raises(MergeConflictError) as caught:
        state.session.merge("idea")
    assert dict.fromkeys(caught.value.variables) == {"price": None, "Note:a%20%5B1%5D": None}
    assert str(caught.value).startswith("both sides changed one variable and one record;")
    state.session.merge("idea", ours={"price"}, theirs={"Note:a%20%5B1%5D"})
    assert (state["price"], notes["a [1]"].text) == ("ours", "theirs")


def test_fields_that_are_valid_only_apart_are_a_conflict(state: ak.Versioned) -> None:
    spans = state.session.repo.records(Span)
    part(
        state,
        lambda: spans.put(Span(id="a", low=0, high=10)),
        lambda: spans.update("a", high=3),
        lambda: spans.update("a", low=7),
    )
    with pytest.raises(MergeConflictError, match=r"Span:a: ours low 7, high 10 \| theirs low 0, high 3"):
        state.session.merge("idea")
    state.session.merge("idea", ours={"Span:a"})
    assert spans["a"].low <= spans["a"].high


def test_a_list_is_taken_from_one_side_as_a_whole_with_its_parts(state: ak.Versioned) -> None:
    turns = state.session.repo.list("turns", plane="branch")
    long = ["x" * 3_000] * 20  # more than one part
    part(
        state,
        lambda: turns.append("first"),
        lambda: turns.extend([*long, "theirs"]),
        lambda: turns.extend([*long[:9], "ours"]),
    )
    with pytest.raises(MergeConflictError) as caught:
        state.session.merge("idea")
    (conflict,) = caught.value.conflicts
    assert conflict[1:] == ("11 items", "22 items")
    state.session.merge("idea", theirs={conflict[0]})
    assert turns[:] == ["first", *long, "theirs"]
    state.session.undo()
    state.session.merge("idea", ours={conflict[0]})
    assert turns[:] == ["first", *long[:9], "ours"]


def test_what_is_encrypted_is_taken_from_one_side_as_a_whole(state: ak.Versioned) -> None:
    pytest.importorskip("cryptography")
    secret = state.session.repo.state("ada", secret="key")
    part(
        state,
        lambda: secret.set("card", {"number": 1}),
        lambda: secret.set("card", {"number": 1, "of": "theirs"}),
        lambda: secret.set("card", {"number": 2}),
    )
    with pytest.raises(MergeConflictError) as caught:
        state.session.merge("idea")
    (conflict,) = caught.value.conflicts
    assert conflict[1:] == ("encrypted", "encrypted")
    state.session.merge("idea", theirs={conflict[0]})
    assert secret.get("card") == {"number": 1, "of": "theirs"}


def test_without_a_notebook_records_are_merged_too(tmp_path: Any) -> None:
    store = str(tmp_path / "store")
    with ak.open(store) as repo, ak.Versioned(repo) as state:
        notes = notes_of(state)
        part(
            state,
            lambda: notes.put(Note(id="a")),
            lambda: notes.update("a", text="theirs"),
            lambda: [notes.update("a", text="ours"), notes.put(Note(id="b"))],
        )
    with ak.open(store) as repo:
        with pytest.raises(MergeConflictError, match="Note:a"):
            answer(["merge", "idea"], Scope(repo))
        answer(["merge", "idea", "--theirs", "Note:a"], Scope(repo))
        assert {id: note.text for id, note in repo.records(Note).items()} == {"a": "theirs", "b": ""}


def test_diff_and_show_name_the_records_that_changed(tmp_path: Any) -> None:
    with ak.open(str(tmp_path / "store")) as repo:
        notes = repo.records(Note)
        for id in ("a", "b"):
            notes.put(Note(id=id))
        notes.update("a", text="later")
        notes.delete("b")
        repo.list("talk", plane="branch").append("hello")
        differs = answer(["diff", "HEAD~3", "HEAD"], Scope(repo))[0].to_text(100)
        assert "records: ~Note:a, -Note:b, +list:/talk" in differs
        assert "+list:/talk" in answer(["show", "HEAD"], Scope(repo))[0].to_text(100)
        outlines = [
            answer(words, Scope(repo))[0].outline().to_text(100)
            for words in (["show", "HEAD"], ["diff", "HEAD~3", "HEAD"])
        ]
        assert ["+list:/talk\n" in outlines[0], "records: ~Note:a, -Note:b, +list:/talk" in outlines[1]] == [True, True]
        assert not any(
            held in text for text in outlines for held in ("later", "item", "stars")
        )  # a notebook's file holds names, as those of the log, and nothing of what is under them
        log = answer(["log"], Scope(repo))[0]
        assert [
            next(word for word in line.split() if ":" in word and word[0] in "+~−")
            for line in log.to_text(120).splitlines()
        ] == ["+list:/talk", "−Note:b", "~Note:a", "+Note:b", "+Note:a"]


@pytest.mark.parametrize("has_variables", [True, False])
def test_a_cherry_pick_takes_the_records_that_the_commit_changed(state: ak.Versioned, has_variables: bool) -> None:
    notes, session = notes_of(state), state.session
    notes.put(Note(id="a", text="draft"))
    notes.put(Note(id="gone"))
    state.commit("base")
    session.switch("idea", create=True)
    notes.put(Note(id="earlier"))
    state.commit("not this one")
    if has_variables:
        state["x"] = 1
    notes.update("a", text="better")
    notes.put(Note(id="new"))
    notes.delete("gone")
    state.commit("this one")
    session.switch("main")
    notes.update("a", stars=5)
    state.commit("here")
    session.cherry_pick("idea")
    assert list(notes) == ["a", "new"]
    assert (notes["a"].text, notes["a"].stars) == ("better", 5)
    assert session.cherry_pick("idea").notes
    session.undo()
    assert "gone" in notes


def test_a_cherry_pick_tells_of_records_that_both_changed(state: ak.Versioned) -> None:
    notes, session = notes_of(state), state.session
    part(
        state,
        lambda: notes.put(Note(id="a", text="draft")),
        lambda: notes.update("a", text="there"),
        lambda: notes.update("a", text="here"),
    )
    with pytest.raises(MergeConflictError) as conflict:
        session.cherry_pick("idea")
    assert conflict.value.conflicts == (("Note:a['text']", "here", "there"),)
    assert notes["a"].text == "here"
    session.cherry_pick("idea", theirs=["Note:a"])
    assert notes["a"].text == "there"


def test_a_cherry_pick_takes_records_that_a_program_without_a_session_committed(tmp_path: Path) -> None:
    """Such a commit holds them beside its tree of records, which is that of its parent."""
    with ak.open(tmp_path / "store") as repo:
        with ak.Versioned(repo) as state:
            notes_of(state).put(Note(id="a"))
            state.commit("begin")
        repo.create_branch("idea", repo.resolve("main"))
        repo.records(Note, branch="idea").put(Note(id="b"))
        repo.records(Note, branch="idea").update("a", stars=1)
        with ak.Versioned(repo) as state:
            notes, session = notes_of(state), state.session
            session.cherry_pick("idea")
            assert (list(notes), notes["a"].stars) == (["a"], 1)
            session.cherry_pick("idea~1")
            assert list(notes) == ["a", "b"]
            assert list(notes.ids_back()) == ["b", "a"]
            assert session.cherry_pick("idea~1").notes


def test_what_was_stored_again_as_it_was_is_no_change_of_a_side(state: ak.Versioned) -> None:
    notes = notes_of(state)
    part(
        state,
        lambda: notes.put(Note(id="a", text="draft")),
        lambda: notes.delete("a"),
        lambda: notes.put(Note(id="a", text="draft")),
    )
    state.session.merge("idea")
    assert list(notes) == []


def test_fields_of_two_schemas_are_merged_as_the_newer_one_has_them(repo: ak.Repository) -> None:
    class Old(ak.Record):
        collection = "Item"
        price: int = 0  # in euros
        note: str = ""

    class New(ak.Record):
        collection = "Item"
        schema_version = 2
        price: int = 0  # in cents
        note: str = ""

        @ak.migration(2)
        def to_cents(fields: dict[str, object]) -> dict[str, object]:  # pyright: ignore[reportGeneralTypeIssues]  # made static
            return {**fields, "price": 100 * int(str(fields["price"]))}

    with ak.Versioned(repo) as variables:
        repo.records(Old).put(Old(id="a", price=5))
        variables["x"] = 1
        variables.commit("base")
        repo.create_branch("idea", repo.resolve("HEAD"))
        items = repo.records(New)
        items.update("a", price=700)
        variables.commit("ours")
        with ak.open(repo.store.url) as other:
            other.records(Old, branch="idea").update("a", note="theirs")
        variables.session.merge("idea")
        assert (items["a"].price, items["a"].note) == (700, "theirs")


def test_tiers_of_two_branches_go_together_and_go_on_sinking(state: ak.Versioned) -> None:
    """A value that was put away here and set anew there is no conflict."""
    found = state.session.repo.state("ada")

    def use(*keys: str) -> None:
        tiers = found.tiers(hot=1, warm=3)
        for key in keys:
            tiers.put(key, f"{key} {len(keys)}")

    part(state, lambda: use("a", "b", "c"), lambda: use("d", "a"), lambda: use("e"))
    state.session.merge("idea")
    tiers = found.tiers(hot=1, warm=3)
    assert [tiers.get(key) for key in "bcde"] == ["b 3", "c 3", "d 2", "e 1"]
    assert found.tiers().get("a") == "a 2"
    for key in "fgh":
        tiers.put(key, key)
    assert [tiers.tier(key) == "cold" for key in "abcde"] == [True] * 5
    assert [tiers.tier(key) for key in "fgh"] == ["warm", "warm", "hot"]
