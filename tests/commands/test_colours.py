"""What a terminal paints: the log and the diff. Everything else gets the same text without a code in it."""

from __future__ import annotations

import io
import re
from contextlib import closing
from pathlib import Path

import pytest

from agent_kernel.commands.describe import colours_wanted, paint
from agent_kernel.commands.scope import Scope, answer
from agent_kernel.session import Repository
from agent_kernel.text import width_of
from tests.commands.stores import make_history

CODE = re.compile(r"\x1b\[[0-9;]*m")
RED, GREEN, YELLOW, CYAN, QUIET = ("\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[2m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def place(tmp_path: Path) -> Path:
    make_history(
        tmp_path / "s", "prices = {'tea': 3.2}; tmp = 1; n = 1", "prices['coffee'] = 4.5; del tmp; new = 2; n = 2"
    )
    return tmp_path / "s"


def said(place: Path, line: str, *, colour: bool, width: int | None = 100) -> str:
    with closing(Repository.open(place, create=False)) as repo:
        return answer(line.split(), Scope(repo))[0].to_text(width, colour=colour)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "line", ["log", "log -- prices", "log --all", "diff", "status", "show", "show HEAD:prices", "branch"]
)
@pytest.mark.parametrize("width", [40, 60, 100, 200, None])
def test_colours_change_no_character_and_no_column(place: Path, line: str, width: int | None) -> None:
    assert CODE.sub("", said(place, line, colour=True, width=width)) == said(place, line, colour=False, width=width)
    assert "\x1b" not in said(place, line, colour=False, width=width)


def test_every_line_ends_as_it_began(place: Path) -> None:
    for line in (said(place, "log", colour=True) + "\n" + said(place, "diff", colour=True)).splitlines():
        codes = CODE.findall(line)
        assert codes[1::2] == ["\x1b[0m"] * (len(codes) // 2)
        assert len(codes) % 2 == 0


def test_log_paints_ids_refs_and_what_changed(place: Path) -> None:
    newest = said(place, "log", colour=True).splitlines()[0]
    assert re.search(re.escape(YELLOW) + r"[0-9a-f]{8}\x1b\[0m", newest)
    assert f"{CYAN}(HEAD -> main)\x1b[0m" in newest
    for coloured in (f"{YELLOW}~prices", f"{RED}−tmp", f"{GREEN}+new"):
        assert coloured in newest
    assert f"{QUIET}now\x1b[0m" in newest


def test_log_paints_a_failed_cell(tmp_path: Path) -> None:
    from agent_kernel.session import bind

    with closing(Repository.open(tmp_path / "s")) as repo, closing(bind({}, repo)) as session:
        session.begin_cell("x = 1 / 0", number=1)
        session.end_cell(error=ZeroDivisionError("division by zero"))
    assert f"{RED}✕ \x1b[0mx = 1 / 0" in said(tmp_path / "s", "log", colour=True)


def test_diff_paints_what_came_and_went(place: Path) -> None:
    lines = said(place, "diff", colour=True).splitlines()
    assert any(line.startswith(f"{GREEN}+ new: int 2") for line in lines)
    assert any(line.startswith(f"{RED}− tmp: int 1") for line in lines)
    assert any(line.startswith(f"{YELLOW}~ n:\x1b[0m int 1 → int 2") for line in lines)
    assert any(f"{GREEN}+ 'coffee'" in line for line in lines)


def test_a_cell_with_codes_of_its_own_paints_nothing(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "text = '\\x1b[41m red'  # \x1b[41m", "#\x1b[41m a comment\nx = 1")
    for line in ("log", "diff"):
        assert "\x1b[41m" not in said(tmp_path / "s", line, colour=True)


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),  # https://no-color.org: an empty one says nothing
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colours_are_for_terminals_that_take_them(
    environment: dict[str, str], wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert colours_wanted(Terminal()) is wanted
    assert colours_wanted(io.StringIO()) is False


def test_a_closed_stream_and_one_of_no_kind_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    closed = Terminal()
    closed.close()
    assert colours_wanted(object()) is False
    assert colours_wanted(None) is False


def test_nothing_is_painted_where_there_is_nothing() -> None:
    assert paint("", "added", colour=True) == ""
    assert paint("x", "", colour=True) == "x"
    assert paint("x", "added", colour=False) == "x"


def test_a_piped_log_keeps_its_columns_and_cuts_nothing(tmp_path: Path) -> None:
    names = [f"a_rather_long_name_of_a_variable_{at}" for at in range(4)]
    long = f"x = {'1 + ' * 60}1"
    make_history(
        tmp_path / "s", "y = 1", "; ".join(f"{name} = {at}" for at, name in enumerate(names)), long, "# 表表表\nz = 2"
    )
    lines = said(tmp_path / "s", "log", colour=False, width=None).splitlines()
    assert any(f" [3] {long} " in line for line in lines)
    assert all(any(f"+{name}" in line for line in lines) for name in names)
    assert not any("…" in line for line in lines)
    assert len({width_of(line) for line in lines}) == 1  # each ends with "now"
    starts = {width_of(line[: re.search(r"   \+[xyza]", line).start()]) for line in lines}  # type: ignore[union-attr]
    assert len(starts) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_the_columns_of_a_log_stay_aligned_and_the_changed_names_are_the_last_to_go(tmp_path: Path, width: int) -> None:
    long = "df = {'a': [1, 2, 3]}; df['c'] = [2 * number for number in df['a']]; df['d'] = list(reversed(df['c']))"
    make_history(tmp_path / "s", "x = 1", long, "y = 2", f"z = 4; {long}")
    lines = said(tmp_path / "s", "log", colour=False, width=width).splitlines()
    assert all(width_of(line) <= width for line in lines)
    starts = {width_of(line[: re.search(r"   [+~](x|df|y|z)(?!.*   [+~])", line).start()]) for line in lines}  # type: ignore[union-attr]
    assert len(starts) == 1
