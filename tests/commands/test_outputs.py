"""What cells showed, and what they ran on, as `show` and `diff` tell it: text only, masked, nothing alive."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.commands.scope import Scope, UsageProblem, answer
from agent_kernel.repository import Blob, Output, Outputs, Representation
from agent_kernel.session import Repository, bind

HOSTILE = "<script>alert(1)</script>"


def text(value: str, mime: str = "text/plain") -> Representation:
    return Representation(mime, "text", len(value), value)


def shown(kind: str, *faces: Representation, **more: Any) -> Output:
    return Output(kind=kind, representations=faces, **more)


def said(words: str, name: str = "stdout", **more: Any) -> Output:
    return Output(kind="stream", name=name, text=words, **more)


def show(place: Path, outputs: list[Output], words: str = "", source: str = "x = 1") -> Any:
    """The answer of `show` about a cell with these outputs."""
    namespace: dict[str, object] = {}
    with closing(Repository.open(place)) as repo, closing(bind(namespace, repo)) as session:
        session.begin_cell(source, number=3)
        namespace["x"] = 1
        session.end_cell(outputs=Outputs(version=1, outputs=tuple(outputs)))
        result, _ = answer(["show", *words.split()], Scope(repo))
        return result.to_text(100), result.to_html(), result.to_json()


def test_the_first_lines_are_shown_and_the_way_to_the_rest(tmp_path: Path) -> None:
    lines, _, _ = show(tmp_path / "s", [said("".join(f"line {number}\n" for number in range(100)))])
    assert "Output:\n    line 0\n    line 1" in lines
    assert "line 5" not in lines
    assert "96 more lines: %agent show " in lines
    assert "--outputs" in lines
    every, _, _ = show(tmp_path / "t", [said("".join(f"line {number}\n" for number in range(100)))], "--outputs")
    assert "line 99" in every
    assert "more lines" not in every


def test_pictures_and_markup_are_told_by_type_and_size(tmp_path: Path) -> None:
    figure = Representation("image/png", "bytes", 34_000, blob=Blob(34_000, b"\x89" * 34_000))
    table = text(f"<table>{HOSTILE}</table>", "text/html")
    outputs = [
        shown("display_data", text("<Figure size 640x480>"), figure),
        shown("execute_result", text("   a\n0  1"), table, number=3),
        shown("display_data", Representation("text/html", "text", 5_000_000)),
    ]
    plain, html, facts = show(tmp_path / "s", outputs)
    assert "    <Figure size 640x480>\n    (image/png 34 kB)" in plain
    assert f"(text/html {len(table.text or '')} B)" in plain
    assert "(text/html 5 MB left out)" in plain
    assert "<table>" not in html.replace("<table><tbody>", "")
    assert facts["outputs"][0]["faces"][1] == {"mime": "image/png", "size": 34_000, "kept": True}


@pytest.mark.parametrize("words", ["", "--outputs"])
def test_stored_markup_never_comes_alive(tmp_path: Path, words: str) -> None:
    outputs = [
        shown("display_data", text(HOSTILE, "text/html")),
        shown("display_data", text(f"<svg onload='x'>{HOSTILE}</svg>", "image/svg+xml")),
        shown("display_data", text("alert(2)", "application/javascript")),
        said(HOSTILE),
        shown("display_data", Representation(f"text/{HOSTILE}", "text", 3, "abc")),
    ]
    plain, html, _ = show(tmp_path / "s", outputs, words)
    assert "<script" not in html
    assert "<svg" not in html
    assert "&lt;script&gt;alert(1)" in html
    assert "alert(2)" not in html
    assert "(application/javascript 8 B)" in plain


def test_control_characters_reach_no_terminal(tmp_path: Path) -> None:
    error = Output(kind="error", name="E", text="x", traceback=("\x1b[31mred\x1b[0m", "\x1b]0;title\x07E: end"))
    plain, _, facts = show(tmp_path / "s", [said("a\x1b[2Jb\x07\n\u202eright"), error])
    assert "\x1b" not in plain + str(facts)
    assert "\x07" not in plain
    assert "    ab\n    right\n    red\n    E: end" in plain


def test_what_looks_like_a_secret_is_masked(tmp_path: Path) -> None:
    key = "ghp_" + "x" * 36
    source = "password = 'correct horse'"
    outputs = [said(f"token {key}\ncorrect horse\n"), shown("execute_result", text(f"'{key}'"))]
    for words in ("", "--outputs"):
        plain, html, facts = show(tmp_path / (words or "s"), outputs, words, source)
        for face in (plain, html, str(facts)):
            assert key not in face
            assert "correct horse" not in face


def test_gaps_updates_and_other_places_are_named(tmp_path: Path) -> None:
    outputs = [
        said("begin\n"),
        Output(kind="gap", size=99_700_000),
        shown("update_display_data", text("100 %"), display="bar"),
        said("inside\n", widget="abc"),
        said("late\n", under=2),
    ]
    plain, _, facts = show(tmp_path / "s", outputs)
    for line in ("… 99.7 MB left out …", "(in place of what an earlier cell showed)", "(in a widget)", "(under [2])"):
        assert line in plain
    assert [one["kind"] for one in facts["outputs"]] == ["stream", "gap", "update_display_data", "stream", "stream"]


def test_outputs_of_a_kind_that_a_newer_release_added_are_shown_as_far_as_they_go(tmp_path: Path) -> None:
    plain, _, _ = show(tmp_path / "s", [shown("hologram", text("a cube"))])
    assert "a cube" in plain


def test_the_environment_is_shown_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    site = tmp_path / "site"
    site.mkdir()
    namespace: dict[str, object] = {}
    with closing(Repository.open(tmp_path / "s")) as repo, closing(bind(namespace, repo)) as session:
        for number, installed in enumerate(["thing-1.0", "thing-2.0", "other-3"]):
            folder = site / str(number)
            (folder / f"{installed}.dist-info").mkdir(parents=True)
            monkeypatch.setattr(sys, "path", [str(folder)])
            session.begin_cell(f"x = {number}", number=number)
            namespace["x"] = number
            session.end_cell()
        monkeypatch.undo()
        scope = Scope(repo)
        environment, _ = answer(["show", "HEAD~1", "--environment"], scope)
        assert "thing" in environment.to_text()
        facts: Any = environment.to_json()
        assert facts["environment"]["packages"] == ["thing==2.0"]
        assert facts["cwd"] == str(Path.cwd())
        assert f"Working directory:  {Path.cwd()}" in environment.to_text()
        assert facts["environment"]["python"] == ".".join(map(str, sys.version_info[:3]))
        upgraded = answer(["diff", "HEAD~2", "HEAD~1", "--environment"], scope)[0].to_text()
        assert "~  thing  1.0 → 2.0" in upgraded
        replaced: Any = answer(["diff", "HEAD~1", "HEAD", "--environment"], scope)[0].to_json()
        assert [(row["how"], row["name"]) for row in replaced["environment"]] == [("+", "other"), ("-", "thing")]
        assert "the environment is the same" in answer(["diff", "HEAD", "HEAD", "--environment"], scope)[0].to_text()
        for words in (["show", "HEAD:x", "--outputs"], ["diff", "--environment", "--", "x"]):
            with pytest.raises(UsageProblem):
                answer(words, scope)
