"""What stays in a saved notebook: a table to read without a kernel, without code and without what variables held."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from agent_kernel.queries import HISTORY
from agent_kernel.queries.listing import QueryContext
from agent_kernel.queries.reader import Reader, represent_in
from agent_kernel.queries.wording import store_id
from agent_kernel.session import Repository
from tests.queries.histories import Notebook, notebook

NOW = int(datetime(2026, 11, 21, 14, 32, tzinfo=UTC).timestamp()) * 1_000_000_000


def test_the_table_says_what_happened(nb: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    first = nb.run("df = [1] * 1000\ntmp = 1")
    nb.run("del tmp", raises=ValueError("the value is 17"))
    nb.session.checkout(first)
    nb.session.switch("ridge", create=True)
    nb.run("model = 1")
    nb.session.switch("main")
    nb.session.merge("ridge", message="Merge ridge into main")
    text = represent_in(QueryContext(nb.repo, nb.session.id), NOW)["text/plain"]
    lines = [line.split("  ") for line in text.splitlines()]
    assert lines[0] == [
        "History of memory, saved Sat 21 Nov 2026, 14:32. 4 commits. Open it with a kernel to compare or check out."
    ]
    said = ["|".join(part.strip() for part in line if part.strip()) for line in lines[2:]]
    assert next(row.split("|")[:4] for row in said)[:2] == ["○ main (HEAD)", "Merge ridge into main"]
    assert said[1].startswith("│ ● ridge|[3]|cell|+model|")
    assert said[2].startswith("✕ │|[2]|cell, ValueError|−tmp|")
    assert said[3].startswith("●|[1]|cell|+tmp +df|")  # a number, then a list


def test_no_face_holds_code_or_values(nb: Notebook) -> None:
    nb.run("# a comment that is code too\nsecret_plan = 'values inside'", raises=ValueError("holds values inside"))
    nb.run("x = 1")
    nb.session.rollback("HEAD~1")
    nb.session.undo()
    for face in Reader(nb.repo, nb.session.id).represent_history().values():
        text = face if isinstance(face, str) else msgspec.json.encode(face).decode()
        assert "a comment" not in text
        assert "values inside" not in text
        assert "x = 1" not in text
        assert "secret_plan" in text  # names, types and sizes stay


def test_messages_that_people_wrote_stay_but_not_their_secrets(nb: Notebook) -> None:
    nb.namespace["x"] = 1
    nb.session.commit("before the talk, token: abcdef123456")
    for face in Reader(nb.repo, nb.session.id).represent_history().values():
        assert "before the talk" in str(face)
        assert "abcdef123456" not in str(face)


def test_the_newest_are_shown_and_it_is_said_of_how_many(nb: Notebook) -> None:
    nb.cells(*(f"x = {n}" for n in range(26)))
    faces = Reader(nb.repo, nb.session.id).represent_history()
    assert "Newest 20 of 26 commits. Open it with a kernel to compare or check out." in faces["text/plain"]
    assert faces["text/html"].count("<tr>") == 21
    preview = faces[HISTORY]
    assert sum(row["kind"] == "commit" for row in preview["rows"]) == 20
    assert (preview["version"], preview["commits"], preview["head"]["prompt"]) == (1, 26, "[26]")


def test_the_preview_has_the_rows_of_the_panel_without_what_is_code(nb: Notebook) -> None:
    nb.run("x = 'abc'")
    preview = Reader(nb.repo, nb.session.id).represent_history()[HISTORY]
    (row,) = [row for row in preview["rows"] if row["kind"] == "commit"]
    panel = nb.rows()[0]
    assert {name for name in row if row[name] != panel[name]} == {"subject", "is_code", "author"}
    assert row["author"] == {"name": "", "kind": "person", "me": False}


def test_the_store_is_named_without_its_place_and_keeps_its_name(tmp_path: Path) -> None:
    place = tmp_path / "here"
    with notebook(Repository.open(place)) as nb:
        nb.run("x = 1")
        name = store_id(nb.repo)
        assert Reader(nb.repo).represent_history()[HISTORY]["store"] == name
        assert str(tmp_path) not in str(Reader(nb.repo).represent_history())
        secret = nb.repo.setting("secret")
        assert secret is not None
        assert secret.hex() not in name
    place.rename(tmp_path / "there")
    repo = Repository.open(tmp_path / "there")
    assert store_id(repo) == name
    repo.close()


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen |= {tag, *(name for name, _ in attrs)}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_html_is_a_plain_table_that_nothing_stored_can_break(nb: Notebook) -> None:
    nb.namespace["<script>x</script>"] = 1
    nb.session.commit("<img src=x onerror=alert(1)>\"'&")
    html = Reader(nb.repo, nb.session.id).represent_history()["text/html"]
    parser = _Tags()
    parser.feed(html)
    assert not parser.open
    assert parser.seen <= {"div", "p", "table", "thead", "tbody", "tr", "th", "td", "style", "class", "scope"}
    assert set(re.findall(r"(?:background|color):[^;\"]*", html)) == {"color:inherit"}  # the page's own, light or dark


def test_a_history_without_commits_has_faces_too(nb: Notebook) -> None:
    faces = Reader(nb.repo, nb.session.id).represent_history()
    assert "0 commits" in faces["text/plain"]
    assert faces[HISTORY]["rows"] == []
    assert "<table" not in faces["text/html"]
