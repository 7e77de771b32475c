"""Looking at a store runs nothing of whoever made it, and shows nothing that a terminal or a browser would obey."""

from __future__ import annotations

from argparse import Namespace
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.commands.describe import Result
from agent_kernel.commands.scope import Scope, answer
from agent_kernel.session import Repository
from tests.commands.stores import canary, make_history

READING = (
    "log",
    "show",
    "show HEAD:it",
    "show HEAD:text",
    "diff",
    "diff HEAD~1 HEAD",
    "status",
    "branch",
    "tag",
    "stats",
    "verify",
    "gc --dry-run",
    "ignore",
)
HOSTILE = "text = '<script>alert(1)</script>\\x1b[31m\\u202e'  # <b>\x1b[2J\x07"


def results(place: Path) -> list[Result]:
    with closing(Repository.open(place, create=False)) as repo:
        return [answer(line.split(), Scope(repo))[0] for line in READING]


def test_nothing_stored_is_loaded_or_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    make_history(tmp_path / "store", canary(ran) + "text = 'x'", "it = Canary()")
    for result in results(tmp_path / "store"):
        result.to_text(80)
        result.to_html()
        result.to_json()
    assert not ran.exists()


def test_what_is_shown_is_only_text(tmp_path: Path) -> None:
    make_history(tmp_path / "store", "it = 1", HOSTILE)
    for result in results(tmp_path / "store"):
        text, html = result.to_text(100), result.to_html()
        assert text.replace("\n", "").isprintable()
        assert "<script" not in html
        assert "<b>" not in html
        assert not any(found in html for found in "\x1b\x07\u202e")


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_of_a_log_is_wider_than_the_terminal(tmp_path: Path, width: int) -> None:
    make_history(tmp_path / "store", *(f"name_{n} = 'a long value' + 'that goes on' * {n}" for n in range(5)))
    with closing(Repository.open(tmp_path / "store")) as repo:
        result = answer(["log"], Scope(repo))[0]
    assert all(len(line) <= width for line in result.to_text(width).splitlines())


def test_a_history_that_is_empty_says_so(tmp_path: Path) -> None:
    with closing(Repository.open(tmp_path / "store")) as repo:
        assert "No history yet" in answer(["log"], Scope(repo))[0].to_text()
        assert answer(["log", "--json"], Scope(repo))[0].to_json() == []
        assert "no commit yet" in answer(["status"], Scope(repo))[0].to_text()
        assert isinstance(answer(["stats"], Scope(repo))[0].to_json(), dict)


def test_options_reach_the_verb_as_parsed() -> None:
    from agent_kernel.commands.scope import COMMANDS, parser_of

    options = parser_of(COMMANDS["log"]).read(["-n", "3", "--all"])
    assert isinstance(options, Namespace)
    assert (options.limit, options.all, options.rev) == (3, True, None)
