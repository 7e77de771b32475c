"""How a race is shown: its candidates side by side, their values, and what decided."""

from __future__ import annotations

from concurrent.futures import Executor

import pytest

from agent_kernel.agents.race_comparison import data_of
from agent_kernel.agents.races import Race, race
from agent_kernel.session import Versioned
from tests.agents.races import scripted
from tests.agents.racing.racers import BAD, GOOD


def test_the_faces_show_the_candidates_side_by_side_and_nothing_of_them_runs(state: Versioned, pool: Executor) -> None:
    evil = scripted(
        "open('/dev/null', 'w').close()\ntask.success('<script>alert(1)</script>\\x1b[31m')", name="<b>evil</b>"
    )
    tries = race("lowest <i>", models=[GOOD, evil, BAD], state=state, executor=pool, judge="len(str(result))").wait()
    text, html = str(tries), tries._repr_html_()
    for said in (
        "Returned",
        "Variables",
        "Code",
        "Outside",
        "Cost",
        "Time",
        "+best",
        "✕ failed",
        "no idea",
        "2 done, 1 failed",
    ):
        assert said in text
        assert said in html.replace("</span>", "").replace('<span style="font-family', "§") or said == "+best"
    assert text.count("✓ best") == html.count("✓ best") == 1
    assert "\x1b" not in text + html
    for raw in ("<script>", "<b>evil", "<i>"):
        assert raw not in html
    assert "pick(2) merges the best" in text


def test_a_value_says_its_type_once_and_a_tie_says_what_decided_it(state: Versioned, pool: Executor) -> None:
    pytest.importorskip("numpy")
    model = scripted("import numpy\nscore = numpy.float64(29.5)", "task.success(score)", name="even")
    tries: Race = race("go", n=2, models=[model], state=state, executor=pool, judge="score").wait()
    assert "float64 29.5" in str(tries)
    assert "numpy.float64" not in str(tries)
    assert tries.best is not None
    said = f"andidates 1 and 2 have the same score: {tries.best.number} was the quickest"
    assert said in str(tries)
    assert data_of(tries, state.repo)["notes"] == [f"C{said}."]


def test_a_pick_tells_what_changed_and_not_how_branches_moved(state: Versioned, pool: Executor) -> None:
    tries: Race = race("lowest", models=[GOOD], state=state, executor=pool).wait()
    report = tries.pick(1)
    assert [(one.how, one.name) for one in report.changed] == [("+", "best")]
    assert report.notes == ()


def test_a_race_says_what_it_is_in_one_line(state: Versioned, pool: Executor) -> None:
    tries: Race = race("lowest", models=[GOOD, BAD], state=state, executor=pool).wait()
    assert repr(tries) == f"<Race {tries.id[-5:]}: 2 candidates, 1 done>"
    assert repr(tries.candidate(2)) == "<Candidate 2, agent, failed: no idea>"


def test_a_reason_that_the_table_cuts_stands_whole_below_it(state: Versioned, pool: Executor) -> None:
    why = " ".join(f"word{number}" for number in range(60))
    wordy = scripted(f"task.fail({why!r})", name="wordy")
    tries = race("go", n=2, models=[wordy], state=state, executor=pool)
    _ = list(tries)
    said = f"andidates 1 and 2: {why}"
    for text in (str(tries), tries._repr_html_()):
        assert f"c{said}" in text
        assert text.count(why) == 1
    assert data_of(tries, state.repo)["notes"] == [f"C{said}"]
    short = race("go", n=1, models=[BAD], state=state, executor=pool)
    _ = list(short)
    assert "candidate 1:" not in str(short)
