"""One result, three faces."""

from __future__ import annotations

from collections.abc import Sequence

from agent_kernel.commands.describe import Block, Code, Json, Line, Lines, Result, Table


class Everything(Result):
    def blocks(self) -> Sequence[Block]:
        rows = (("df", "a rather long description of a frame", "96 MB"), ("<b>", "x", "1 B"))
        return [
            Line("A title", strong=True),
            Code("x = 1\ny = '<script>'"),
            Table(("Name", "Value", "Size"), rows, right=frozenset({2}), flexible=1),
        ]

    def to_json(self) -> Json:
        return {"one": 1}


def test_text_is_aligned_and_only_the_flexible_column_is_cut() -> None:
    assert Everything().to_text(44).splitlines() == [
        "A title",
        "    x = 1",
        "    y = '<script>'",
        "Name  Value                             Size",
        "df    a rather long de…ion of a frame  96 MB",
        "<b>   x                                  1 B",
    ]


def test_text_without_a_width_is_never_cut() -> None:
    assert "a rather long description of a frame" in Everything().to_text()


def test_html_escapes_everything_and_has_no_script() -> None:
    html = Everything().to_html()
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert '<td style="text-align:left;white-space:nowrap">&lt;b&gt;</td>' in html  # only the flexible column wraps
    assert '<td style="text-align:left">x</td>' in html


def test_html_breaks_no_line_within_a_number_and_its_unit() -> None:
    class Measured(Everything):
        def blocks(self) -> Sequence[Block]:
            return [Table(("Changed", "Took"), (("+big 27.8 kB", "0.00 s"),), right=frozenset({1}))]

    html = Measured().to_html()
    assert '<td style="text-align:right;white-space:nowrap">0.00&nbsp;s</td>' in html
    assert ">+big 27.8&nbsp;kB<" in html


def test_a_notebook_gets_text_and_html() -> None:
    assert set(Everything()._repr_mimebundle_()) == {"text/plain", "text/html"}


def test_what_is_said_is_json_too() -> None:
    assert Lines(("a", "b")).to_json() == {"message": "a\nb"}
    assert Lines(("a",), {"branch": "x"}).to_json() == {"branch": "x"}
