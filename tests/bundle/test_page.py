"""`export STUDY.html --html`: a history for people who have nothing but a browser."""

from __future__ import annotations

import re
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path

import pytest

from agent_kernel.bundle.report import _prose, make_page
from agent_kernel.cli import main
from agent_kernel.repository import Author, Cell, Commit, Head, Kind, ObjectId, Output
from agent_kernel.repository.commits import encode
from agent_kernel.session import Repository
from tests.bundle.studies import ATTACKS, PNG, Ran, contents_of, make_study, picture, printed, shown


class Elements(HTMLParser):
    """What a browser would make of a page: its elements, their attributes and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for found, attributes in self.found if found == tag]

    @property
    def text(self) -> str:
        return "".join(self.texts)


def page_of(place: Path, *cells: Ran | str) -> str:
    make_study(place, *cells)
    with closing(Repository.open(place, create=False)) as repo:
        return make_page(contents_of(repo), "study").decode()


ALLOWED = frozenset(
    {
        "a",
        "b",
        "body",
        "br",
        "circle",
        "code",
        "dd",
        "details",
        "div",
        "dl",
        "dt",
        "footer",
        "h1",
        "h2",
        "head",
        "header",
        "html",
        "img",
        "li",
        "main",
        "meta",
        "nav",
        "p",
        "path",
        "pre",
        "section",
        "small",
        "span",
        "strong",
        "style",
        "summary",
        "svg",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "time",
        "title",
        "tr",
        "ul",
    }
)


def test_it_shows_code_outputs_variables_and_history(tmp_path: Path) -> None:
    page = Elements(page_of(tmp_path / "s", "x = 42", Ran("print('hello')", [printed("hello\n")]), "import json"))
    assert "print('hello')" in page.text
    assert "hello" in page.text
    assert "x" in page.text
    assert [one["id"] for one in page.named("section")] == [
        "notebook",
        "variables",
        "history",
        "environment",
        "digests",
    ]
    assert len(page.named("details")) >= 3


def test_it_runs_nothing_and_asks_the_network_for_nothing(tmp_path: Path) -> None:
    page = Elements(page_of(tmp_path / "s", "x = 1", Ran("y = 2", [picture("image/png", PNG)])))
    policy = next(one["content"] for one in page.named("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "unsafe-inline" not in policy
    for _, attributes in page.found:
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("src", "href"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/"))


def test_the_policy_lets_in_the_one_style_sheet_that_is_there(tmp_path: Path) -> None:
    import base64
    import hashlib

    page = page_of(tmp_path / "s", "x = 1")
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}" in page
    assert "http" not in style
    assert "url(" not in style


def attacking(attack: str) -> Ran:
    """A cell that says it wherever a cell can."""
    outputs = [
        printed(attack),
        printed(attack, "stderr"),
        shown(text_plain=attack),
        shown(text_html=attack),
        shown(image_svg_xml=attack),
        shown(application_json=attack),
        picture("image/png", PNG, attack),
        Output(kind="error", name=attack, text=attack, traceback=(attack,)),
    ]
    return Ran(f"# {attack}\npass", outputs, {attack: attack, "table": [attack]})


def test_text_of_a_stranger_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "".join(ATTACKS[:3]))
    page = page_of(tmp_path / "s", *map(attacking, ATTACKS))
    elements = Elements(page)
    assert {tag for tag, _ in elements.found} <= ALLOWED
    assert len(elements.named("style")) == 1
    assert all(not name.startswith("on") for _, attributes in elements.found for name in attributes)
    assert all(mark in elements.text for mark in ("<script>alert(1)</script>", "onerror=alert(1)>", "&lt;b&gt;"))
    assert not set(page) & {"\x1b", "\x07", "\u202e", "\u2066"}


def test_pictures_are_in_the_page_and_svg_and_html_are_text(tmp_path: Path) -> None:
    svg = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'
    page = Elements(
        page_of(
            tmp_path / "s",
            Ran("a = 1", [picture("image/png", PNG), picture("image/jpeg", b"\xff\xd8\xff" + bytes(9))]),
            Ran("b = 1", [picture("image/gif", b"GIF89a" + bytes(9)), shown(image_svg_xml=svg)]),
            Ran("c = 1", [picture("image/png", b"<svg>no png</svg>"), picture("image/webp", b"RIFF" + bytes(9))]),
        )
    )
    kinds = {(one["src"] or "").partition(";")[0] for one in page.named("img")}
    assert kinds == {"data:image/png", "data:image/jpeg", "data:image/gif"}
    assert svg in page.text
    assert all("alert" not in (one["src"] or "") for one in page.named("img"))


def test_what_is_left_out_of_a_bundle_is_left_out_here_and_secrets_are_masked(tmp_path: Path) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz123456"
    page = page_of(tmp_path / "s", Ran(f"api_key = '{secret}'", [printed(secret)]), "x = 1")
    assert secret not in page
    assert "Left out" in page
    assert "api_key" in Elements(page).text


def test_the_same_history_gives_the_same_page(tmp_path: Path) -> None:
    first = page_of(tmp_path / "s", "x = 1", Ran("y = {'a': 1}", [printed("a")]))
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        assert make_page(contents_of(repo), "study").decode() == first


def test_a_long_history_gives_a_page_of_bounded_size_that_says_what_is_left_out() -> None:
    with closing(Repository.open("memory:")) as repo:
        writer, tree = repo.writer(), repo.tree(None).id

        def commit(number: int, parents: tuple[ObjectId, ...]) -> Commit:
            cell = Cell(f"x = {number}\n# " + "long " * 60, id=f"c{number % 50}", number=number)
            return Commit(tree=tree, parents=parents, author=Author("Ada"), time_ns=number, cell=cell)

        before: tuple[ObjectId, ...] = ()
        for number in range(1, 5_000):
            before = (writer.add(Kind.COMMIT, encode(commit(number, before))),)
        writer.flush()
        repo.publish(writer, commit(5_000, before), head=Head("main", None), session="", message="")
        page = make_page(contents_of(repo), "long").decode()
    assert "4,800 older commits left out of this page" in page
    assert "5,000 commits" in page
    assert len(page) < 4_000_000


def test_long_outputs_are_cut_and_say_so(tmp_path: Path) -> None:
    page = page_of(tmp_path / "s", Ran("x = 1", [printed("a" * 100_000)]))
    assert "80,000 more characters left out" in page
    assert len(page) < 200_000


def test_code_is_painted_and_stays_what_it_was(tmp_path: Path) -> None:
    source = "def f(x):\n    '''Doc.'''\n    return x < 3 and 'é' or 0x1f  # why\n%magic <here>"
    page = page_of(tmp_path / "s", Ran(source, values={"x": 1}), Ran("if True: y = '<b>'", values={"y": 1}))
    elements = Elements(page)
    assert source in elements.text
    assert "if True: y = '<b>'" in elements.text
    assert '<span class="kw">if</span>' in page


def test_text_cells_show_their_headings_and_bullets_and_stay_text() -> None:
    assert _prose("# A <b>\n- one\n```\n# no\n- no\n```\n* two") == (
        '<strong class="h1">A &lt;b&gt;</strong>\n• one\n```\n# no\n- no\n```\n• two'
    )


def test_the_command_writes_the_page_and_only_where_it_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_study(tmp_path / "s", "x = 1")
    file = tmp_path / "study.html"
    assert main(["export", str(tmp_path / "s"), str(file)]) == 2
    assert "add --html" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "s"), str(tmp_path / "study.agentnb"), "--html"]) == 2
    assert "a page's name ends in .html" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "s"), str(file), "--html", "--dry-run"]) == 0
    assert "Would write" in capsys.readouterr().out
    assert not file.exists()
    assert main(["export", str(tmp_path / "s"), str(file), "--html"]) == 0
    assert "1 commit" in capsys.readouterr().out
    assert file.read_text().startswith("<!doctype html>")
    assert main(["export", str(tmp_path / "s"), str(file), "--html"]) == 2
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".study")] == []
