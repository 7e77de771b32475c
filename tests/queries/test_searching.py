"""A search finds what it names, and never a secret by its letters."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agent_kernel.commands.history import moment, terms_of
from agent_kernel.values import previews
from tests.queries.histories import Notebook, notebook

SECRET = "correct horse battery"


@pytest.fixture(scope="module")
def nb() -> Iterator[Notebook]:
    with notebook() as made:
        first = made.run("# Load the houses\ndf = [1, 2]\nraw = 'x'")
        made.run("Model = 'Ridge'", id="fit")
        made.run("df.append(3)", raises=ValueError("no more Houses"))
        made.run(f"password = '{SECRET}'\ngen = (n for n in ())")
        made.run("alpha = 'two words'; beta = 1")
        made.repo.create_tag("baseline", first)
        made.session.checkout(first)
        made.session.switch("side", create=True)
        made.run("only_here = 1")
        made.session.switch("main")
        made.session.merge("side", message="bring the side in")
        yield made


def prompts(nb: Notebook, text: str, **args: object) -> list[str]:
    return [row["prompt"] or row["subject"] for row in reversed(nb.rows(text, **args))]


MERGE = "bring the side in"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", ["[1]", "[2]", "[3]", "[4]", "[5]", "[6]", MERGE]),
        ("houses", ["[1]", "[3]"]),  # the code of one, the error of another, in any case
        ("ridge", ["[2]"]),
        ("two words", ["[5]"]),
        ('"two words"', ["[5]"]),
        ('"words two"', []),
        ("words two", ["[5]"]),  # each by itself
        ("SIDE", [MERGE]),
        ("var:df", ["[1]", "[3]"]),
        ("var:d*", ["[1]", "[3]"]),
        ("var:d", []),
        ("var:gen", ["[4]"]),
        ("tag:base", ["[1]"]),
        ("tag:none", []),
        ("branch:side", ["[1]", "[6]"]),
        ("branch:sid", []),
        ("author:ADA is:merge", [MERGE]),
        ("author:someone", []),
        ("cell:2", ["[2]"]),
        ("cell:fit", ["[2]"]),
        ("is:error", ["[3]"]),
        ("is:merge", [MERGE]),
        ("is:agent", []),
        ("is:named", ["[1]", "[6]", MERGE]),
        ("is:unsaved", ["[4]"]),
        ("is:err", []),  # typed half
        ("since:today var:df", ["[1]", "[3]"]),
        ("since:2999-01-01", []),
        ("since:soon", []),
        ("var:df is:error", ["[3]"]),
        ("nothing has this", []),
        ("colour:red", []),  # no key: words
    ],
)
def test_a_search_finds(nb: Notebook, text: str, found: list[str]) -> None:
    assert prompts(nb, text) == found
    assert nb.ask("rows", n=0, text=text)["matches"] == len(found)


def test_the_filters_beside_the_search(nb: Notebook) -> None:
    assert prompts(nb, "", show="errors") == ["[3]"]
    assert prompts(nb, "", show="named") == ["[1]", "[6]", MERGE]
    assert prompts(nb, "var:df", show="errors") == ["[3]"]


@pytest.mark.parametrize("text", [SECRET, "horse", "correct", f'"{SECRET}"'])
def test_a_masked_secret_is_not_found(nb: Notebook, text: str) -> None:
    assert prompts(nb, text) == []


def test_lines_between_rows_that_are_no_neighbours_are_dashed(nb: Notebook) -> None:
    newer, older = nb.rows("var:df")
    assert newer["graph"]["lines"] == [[None, 0, 0, 1]]
    assert older["graph"]["lines"] == [[0, None, 0, 1]]


def test_a_fold_says_how_many_of_it_match() -> None:
    with notebook() as nb:
        for number in range(4):
            nb.run(f"x = {number} # {'odd' if number % 2 else 'even'}", id="one")
        newest, fold = nb.rows("odd")
        assert newest["prompt"] == "[4]"  # HEAD is there, so it stands by itself
        assert (fold["kind"], fold["n"], fold["matching"]) == ("fold", 3, 1)
        assert nb.ask("rows", n=9, text="odd")["matches"] == 2


def test_a_fold_of_which_nothing_matches_is_not_listed() -> None:
    with notebook() as nb:
        nb.cells("x = 1", "x", "x", "y = 1")
        assert nb.subjects("var:y") == ["y = 1"]


def test_terms_are_read_as_they_are_typed() -> None:
    assert terms_of('var:"a b" is:') == [("var", "a b"), ("is", "")]
    assert terms_of('  "open end') == [("", "open end")]
    assert terms_of("a\x1b[31mb") == [("", "ab")]
    assert terms_of("") == []


def test_a_day_begins_where_the_reader_is() -> None:
    now = datetime(2026, 11, 21, 1, 0, tzinfo=UTC)
    berlin, new_york = 3600, -5 * 3600
    assert moment("today", berlin, now) == int(datetime(2026, 11, 20, 23, tzinfo=UTC).timestamp()) * 10**9
    assert moment("today", new_york, now) == int(datetime(2026, 11, 20, 5, tzinfo=UTC).timestamp()) * 10**9
    day = timedelta(days=1) // timedelta(microseconds=1) * 1000
    today, yesterday = moment("today", 0, now), moment("yesterday", 0, now)
    assert today is not None
    assert yesterday == today - day
    assert moment("2026-11-21T13:20", 0) == int(datetime(2026, 11, 21, 13, 20, tzinfo=UTC).timestamp()) * 10**9
    assert moment("2026-11-21T13:20Z", berlin) == moment("2026-11-21T13:20", 0)
    assert moment("next week", 0) is None


def test_what_was_forgotten_is_not_kept_to_be_searched() -> None:
    with notebook() as nb:
        nb.cells("x = 'fox'", "y = 'hound'", "z = 1")
        assert nb.subjects("fox") == ["x = 'fox'"]
        nb.repo.forget(names=["x"], mask=previews.CodeMask())
        assert nb.subjects("hound") == ["y = 'hound'"]
        assert "fox" not in str(nb.reader._context._finder._digests)
