"""The line under a cell that changed something."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import agent_kernel as ak
from agent_kernel.queries import FOOTER
from tests.panels.fronts import Front, walk


def footer_of(front: Front, source: str) -> dict[str, Any]:
    shown = front.show(source)
    assert set(shown) == {FOOTER, "text/html", "text/plain"}
    line: dict[str, Any] = shown[FOOTER]
    return line


def test_it_says_which_commit_the_cell_became_and_what_changed(front: Front) -> None:
    line = footer_of(front, "x = list(range(1000)); y = 2")
    assert line["branch"] == "main"
    assert line["author"] == {"name": "ada", "kind": "person"}
    assert [(sign, name) for sign, name, _ in line["chips"]] == [("+", "y"), ("+", "x")]  # a number, then a list
    assert line["commit"].startswith(line["short"])
    assert line["undo"]
    plain = front.display.shown[-1]["text/plain"]
    assert plain.startswith(f"● {line['short']} main +y +x ")
    assert plain.endswith(" s")


def test_it_names_an_agent_and_counts_what_does_not_fit(front: Front) -> None:
    line = footer_of(front, "%%agent analyst\na = b = c = d = e = f = 1")
    assert line["author"] == {"name": "analyst", "kind": "agent"}
    assert (len(line["chips"]), line["more"]) == (4, 2)
    assert front.display.shown[-1]["text/plain"].startswith(f"■ {line['short']} main analyst ")


def test_it_tells_once_what_is_not_saved_and_the_quiet_line_does_not_repeat_it(front: Front) -> None:
    front.run("z = 0")
    before = len(front.display.shown)
    printed = front.run("numbers = (one for one in [1])")
    line = front.display.shown[before][FOOTER]
    assert line["unsaved"].startswith("numbers is not saved: ")
    assert line["unsaved"].endswith(" Run this cell again to have it back.")
    assert line["chips"] == []
    assert "numbers" not in printed


def test_several_that_are_not_saved_are_told_in_one_line(front: Front) -> None:
    front.run("import threading, os")
    before = len(front.display.shown)
    printed = front.run("lock = threading.Lock(); fh = open(os.devnull); counter = 1")
    line = front.display.shown[before][FOOTER]
    assert re.match(r"(lock, fh|fh, lock) are not saved: .*a lock cannot be saved", line["unsaved"])
    assert "an open file" in line["unsaved"]
    assert line["unsaved"].endswith(" Run this cell again to have them back.")
    assert [(sign, name) for sign, name, _ in line["chips"]] == [("+", "counter")]
    assert line["more"] == 0
    assert "not saved" not in printed
    assert line["unsaved"] in front.display.shown[before]["text/plain"]
    front.run("fh.close()")


@pytest.mark.parametrize("source", ["x", "print(x)", "%agent status", "%agent log"])
def test_a_cell_that_changed_nothing_has_none(front: Front, source: str) -> None:
    front.run("x = 1")
    before = len(front.display.shown)
    front.run(source)
    assert not [shown for shown in front.display.shown[before:] if FOOTER in shown]


def test_it_holds_no_code_and_no_value(front: Front) -> None:
    front.run("# a comment\nsecret = 'no one may see this'")
    assert not [text for text in walk(front.display.shown[-1]) if "comment" in text or "no one" in text]


def test_names_are_escaped(front: Front) -> None:
    front.run("globals()['<b>'] = 1")
    assert "<b>" not in front.display.shown[-1]["text/html"]


def test_it_can_be_switched_off(front: Front) -> None:
    front.extension.footer = False
    before = len(front.display.shown)
    front.run("x = 1")
    assert front.display.shown[before:] == []


def test_the_commit_line_stays_for_those_who_want_it_where_no_footer_is(front: Front) -> None:
    front.extension.quiet = False
    assert "+x" not in front.run("x = 1")
    front.extension.footer = False
    assert "+y" in front.run("y = 1")


def test_a_front_end_that_names_no_cells_gets_none(front: Front) -> None:
    front.kernel.metadata = {}
    before = len(front.display.shown)
    front.run("x = 1")
    assert front.display.shown[before:] == []


def test_it_is_no_output_of_the_cell(tmp_path: Path, front: Front) -> None:
    from agent_kernel.magics.outputs import Collector, KernelTap

    collector = Collector()
    tap: Any = KernelTap(collector, front.ip, front.ip)
    front.run("x = 1")
    tap._collect_display("display_data", {"data": front.display.shown[-1]}, None)
    assert collector.is_empty


def test_a_table_that_lost_rows_says_so_in_a_persons_cell_as_in_an_agents(front: Front) -> None:
    front.run("import pandas as pd; df = pd.DataFrame({'a': range(200)})")
    line = footer_of(front, "df = df[df.a >= 20]")
    assert line["grew"] == {"df": "−20 rows"}
    assert "~df −20 rows" in front.display.shown[-1]["text/plain"]


class Note(ak.Record):
    text: str = ""


def give_notes(front: Front) -> None:
    """Let cells put records."""
    front.run("x = 1")
    repo = front.extension.notebook.repo
    assert repo is not None
    notes = repo.records(Note)
    front.ns["put"] = lambda id, text="": notes.put(Note(id=id, text=text))
    front.run("x = 1")


def test_it_names_the_records_that_a_cell_changed(front: Front) -> None:
    give_notes(front)
    line = footer_of(front, "put('n1', 'no one may see this')")
    assert [(sign, name) for sign, name, _ in line["chips"]] == [("+", "Note:n1")]
    assert "+Note:n1" in front.display.shown[-1]["text/plain"]
    assert not [text for text in walk(front.display.shown[-1]) if "no one" in text]
    line = footer_of(front, "x = 2\n_ = [put(id) for id in ('n1', 'n2', 'n3', 'sk-proj-' + 'A1b2C3d4' * 6, 'n5')]")
    assert [(sign, name) for sign, name, _ in line["chips"]] == [
        ("~", "x"),
        ("~", "Note:n1"),
        ("+", "Note:n2"),
        ("+", "Note:n3"),
    ]
    assert line["more"] == 2
    line = footer_of(front, "put('sk-proj-' + 'A1b2C3d4' * 6, 'again')")
    assert [(sign, name) for sign, name, _ in line["chips"]] == [("~", "Note:•••• masked")]


def test_the_commit_line_names_the_records_too(front: Front) -> None:
    give_notes(front)
    front.extension.quiet = front.extension.footer = False
    printed = front.run("put('n1')")
    assert ["+Note:n1" in printed, "no change" in printed] == [True, False]
