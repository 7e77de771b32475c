"""The report as text, JSON, page and badge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.reproduction.histories import reproduced

CELLS = ("import time; began = time.time_ns()", "later = began + 1", "label = '<b>&'; fixed = 1")


def test_the_text_names_each_cell_and_what_differs_with_its_cause(tmp_path: Path) -> None:
    said = reproduced(tmp_path, *CELLS).to_text()
    assert "1 of 3 cells reproduced" in said
    assert "  began: different" in said
    assert "    why: reads the clock: time.time_ns()" in said
    assert "    why: follows from began in cell 1" in said
    assert "3 cells: 1 same, 2 different" in said
    assert "5 variables: 3 same, 2 different" in said


def test_the_json_says_the_same_to_a_program(tmp_path: Path) -> None:
    said = json.loads(json.dumps(reproduced(tmp_path, *CELLS).to_json()))
    assert said["reproduced"] is False
    assert [cell["outcome"] for cell in said["cells"]] == ["different", "different", "same"]
    began = next(one for one in said["variables"] if one["name"] == "began")
    assert began["why"] == [{"kind": "clock", "text": "reads the clock: time.time_ns()"}]
    assert began["cell"] == 1


def test_the_page_needs_nothing_else_and_escapes_what_it_shows(tmp_path: Path) -> None:
    page = reproduced(tmp_path, *CELLS, others=[*CELLS[:2], "label = '<i>'; fixed = 1"]).to_page()
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page
    assert not re.search(r"<script|src=|href=|@import|url\(", page)
    assert "prefers-color-scheme: dark" in page


def test_the_badge_is_a_picture_of_the_headline(tmp_path: Path) -> None:
    badge = ElementTree.fromstring(reproduced(tmp_path, "x = 1").to_badge())
    assert badge.attrib["aria-label"] == "1 of 1 cell reproduced"


def test_the_headline_says_what_could_not_be_compared(tmp_path: Path) -> None:
    found = reproduced(tmp_path, "x = 1", "a = (n for n in 'a'); b = (n for n in 'b')")
    assert found.headline == "1 of 2 cells reproduced, 2 of 3 variables not comparable"
    assert found.ok
    assert ElementTree.fromstring(found.to_badge()).attrib["aria-label"] == found.headline


def test_packages_that_the_notebook_imports_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = [("~", name, "1", "2") for name in ("aiohttp", "numpy", "python", "scikit-learn", "zict")]
    monkeypatch.setattr("agent_kernel.reproduction.assessment.environment_changes", lambda *_: changes)
    found = reproduced(tmp_path, "import numpy as np\nx = 1", "def f():\n    from sklearn.svm import SVC")
    assert [one[1] for one in found.environment] == ["python", "numpy", "scikit-learn", "aiohttp", "zict"]
