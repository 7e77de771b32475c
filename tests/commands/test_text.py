"""Sizes, times, subjects and widths read as the visual notes say."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from agent_kernel.commands.describe import chip_line
from agent_kernel.session.history import subject
from agent_kernel.text import clean_lines, clock, cut, duration, exact_time, pad, width_of

NOON = datetime(2026, 11, 21, 12, 0).astimezone()


def ns(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000_000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0.00 s"),
        (0.42, "0.42 s"),
        (3.41, "3.4 s"),
        (38.2, "38 s"),
        (59.7, "1m 00s"),
        (130, "2m 10s"),
        (3900, "1h 05m"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("ago", "text"),
    [
        (timedelta(seconds=20), "now"),
        (timedelta(minutes=27), "27 min"),
        (timedelta(hours=2, minutes=30), "09:30"),
        (timedelta(days=1), "yesterday 12:00"),
        (timedelta(days=18), "3 Nov 12:00"),
        (timedelta(days=365), "21 Nov 2025 12:00"),
    ],
)
def test_times_are_as_near_as_they_are_useful(ago: timedelta, text: str) -> None:
    assert clock(ns(NOON - ago), ns(NOON)) == text


def test_a_commit_from_the_future_still_has_a_time() -> None:
    assert clock(ns(NOON + timedelta(hours=1)), ns(NOON)) == "13:00"


def test_the_writers_own_clock_is_kept_to_the_microsecond() -> None:
    assert exact_time(1_800_000_000_123_456_789, 3600).isoformat() == "2027-01-15T09:00:00.123456+01:00"


@pytest.mark.parametrize(
    ("message", "source", "said"),
    [
        ("try it\nwith care", "x = 1", "try it"),
        ("", "# convert to euros\ndf['e'] = 1", "convert to euros"),
        ("", "import os\nfrom sys import path\nx = 1", "x = 1"),
        ("", "import os", "import os"),
        ("", "%%agent analyst\n# fit\nmodel = fit()", "fit"),
        ("", "%%agent analyst\n", "%%agent analyst"),
        ("", "#!\nx", "x"),
        ("", "", ""),
    ],
)
def test_the_subject_is_the_line_that_says_most(message: str, source: str, said: str) -> None:
    assert subject(message, source) == said


def test_code_is_cut_in_the_middle_and_prose_at_the_end() -> None:
    code = "result = some.very.long.chain.of.calls(with_many, arguments).head(10)"
    assert cut(code, 40, middle=True) == "result = some.very.long.c…ents).head(10)"
    assert cut("a long sentence that goes on", 10) == "a long se…"
    assert cut("short", 10, middle=True) == "short"
    assert cut("anything", 1) == "…"


def test_wide_characters_take_two_columns() -> None:
    assert width_of("表") == 2
    assert width_of("e\u0301") == 1
    assert cut("表表表", 5) == "表表…"
    assert pad("表", 4) == "表  "
    assert pad("7", 3, right=True) == "  7"


def test_the_largest_change_comes_first_and_tells_its_size() -> None:
    changes = [("+", "a", 10), ("~", "df", 1_200_000), ("-", "tmp", 0), ("+", "b", 5), ("+", "c", 4), ("+", "d", 3)]
    assert chip_line(changes) == "~df 1.2 MB +a +b +c, 2 more"
    assert chip_line([("-", "tmp", 0)]) == "−tmp"
    assert chip_line([]) == ""


def test_no_control_character_reaches_a_terminal() -> None:
    assert clean_lines("a\x1b[31mred\n\tb\u202e\x07") == "ared\n    b"


def test_a_changed_name_says_how_much_longer_it_became_and_else_the_first_one_its_size() -> None:
    changes = [("~", "df", 40_000), ("~", "big", 50_000), ("+", "x", 9)]
    assert chip_line(changes, grew={"df": "−17 rows"}) == "~big 50 kB ~df −17 rows +x"
