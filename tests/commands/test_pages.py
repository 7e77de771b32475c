"""`show REF --notebook`: the page on which a commit was made, as it was open or saved last then."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.commands.scope import Scope, answer
from agent_kernel.session import Repository, bind

CELLS = [
    {"id": "a", "cell_type": "markdown", "source": ["# Prices\n", "in euros \x1b[31m"]},
    {"id": "b", "cell_type": "code", "source": "x = 1"},
    {"id": "c", "cell_type": "code", "source": "password = 'hunter2222'"},
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    notebook = tmp_path / "study.ipynb"
    notebook.write_text(json.dumps({"nbformat": 4, "cells": CELLS}))
    namespace: dict[str, object] = {}
    with closing(Repository.open(tmp_path / "s")) as repo, closing(bind(namespace, repo)) as session:
        for path, number in ((notebook, 1), (None, 2)):
            session.watch_notebook(path)
            session.begin_cell(f"x = {number}", cell_id="b", number=number)
            namespace["x"] = number
            session.end_cell()
    return tmp_path / "s"


def shown(place: Path, rev: str) -> tuple[str, Any, str]:
    with closing(Repository.open(place, create=False)) as repo:
        result, _ = answer(["show", rev, "--notebook"], Scope(repo))
        return result.to_text(), result.to_json(), result.to_html()


def test_it_shows_code_and_text_in_order_and_marks_the_cell(place: Path) -> None:
    text, facts, _ = shown(place, "HEAD~1")
    head, page, *lines = text.splitlines()
    assert head.endswith("[1] x = 1")
    assert page.startswith("study.ipynb, 3 cells, as of ")
    assert [line for line in lines if line and line[0] != " "] == [
        "markdown:",
        "code, the cell of this commit:",
        "code:",
    ]
    assert "    # Prices" in lines
    assert facts["notebook"]["name"] == "study.ipynb"
    assert [(cell["id"], cell["type"]) for cell in facts["notebook"]["cells"]] == [
        ("a", "markdown"),
        ("b", "code"),
        ("c", "code"),
    ]


def test_secrets_are_masked_and_control_characters_reach_no_terminal(place: Path) -> None:
    text, facts, html = shown(place, "HEAD~1")
    assert "hunter2222" not in text + json.dumps(facts) + html
    assert "\x1b" not in text + html


def test_a_commit_without_a_page_says_so(place: Path) -> None:
    text, facts, _ = shown(place, "HEAD")
    assert "no page was recorded" in text
    assert facts["notebook"] is None
