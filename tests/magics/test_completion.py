"""Tab: commands, options, refs and names, without touching a value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.completer import provisionalcompleter

from tests.magics.shells import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with Shell(store=str(tmp_path / "store")) as shell:
        shell.run("price = 1; total = 2")
        shell.run("%agent branch try-harder")
        shell.run("%agent tag v1")
        shell.run("%agent branch race/ab12c/2")
        yield shell


def completed(shell: Shell, line: str) -> list[str]:
    with provisionalcompleter():
        found = list(shell.ip.Completer.completions(line, len(line)))
    return [one.text for one in found if one.type == "agent"]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("%agent che", ["checkout"]),
        ("rows = %agent lo", ["log"]),
        ("%agent checkout --k", ["--keep-random"]),
        ("%agent checkout tr", ["try-harder"]),
        ("%agent checkout v", ["v1"]),
        ("%agent switch ", ["main", "try-harder"]),
        ("%agent switch race/", ["race/ab12c/2"]),
        ("%agent switch r", ["race/ab12c/2"]),
        ("%agent branch -D r", ["race/ab12c/2"]),
        ("%agent tag -d ", ["v1"]),
        ("%agent log -- pr", ["price"]),
        ("%agent merge try-harder --ours to", ["total"]),
        ("%agent show HEAD:pr", ["HEAD:price"]),
        ("%agent ignore pri", ["price"]),
        ("%agent diff main try", ["try-harder"]),
        ("%agent checkout main ma", []),
        ("%agent show nowhere:p", []),
    ],
)
def test_what_could_come_next(shell: Shell, line: str, found: list[str]) -> None:
    assert completed(shell, line) == found


@pytest.mark.parametrize(
    "line", ["%agent checkout main ", "%agent undo l", "%agent nosuchverb ", "%agent show nowhere:p"]
)
def test_where_nothing_fits_nothing_of_ipythons_is_offered(shell: Shell, line: str) -> None:
    with provisionalcompleter():
        found = [one.text for one in shell.ip.Completer.completions(line, len(line))]
    assert found in ([], [line.rpartition(" ")[2]])  # the word stays as it is


def test_other_lines_are_completed_as_ever(shell: Shell) -> None:
    assert completed(shell, "pri") == []
    with provisionalcompleter():
        assert "price" in [one.text for one in shell.ip.Completer.completions("pri", 3)]


def test_completion_runs_nothing_of_the_users(shell: Shell) -> None:
    shell.run(
        "class Canary:\n"
        "    def __getattr__(self, name): raise RuntimeError(name)\n"
        "    def __repr__(self): raise RuntimeError('repr')\n"
        "    def __eq__(self, other): raise RuntimeError('eq')\n"
        "    def __len__(self): raise RuntimeError('len')\n"
        "    __hash__ = None\n"
        "pricey = Canary()"
    )
    assert completed(shell, "%agent log -- pri") == ["price", "pricey"]


def test_bind_completes_folders_and_notebooks(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    (place / "shop.lmdb").mkdir(parents=True)
    (place / ".hidden").mkdir()
    (place / "study.ipynb").touch()
    (place / "notes.txt").touch()
    monkeypatch.chdir(place)
    assert completed(shell, "%agent bind ") == ["shop.lmdb/", "study.ipynb", "~/"]
    assert completed(shell, "%agent bind sh") == ["shop.lmdb/"]
    assert completed(shell, f"%agent bind {place}/st") == [f"{place}/study.ipynb"]
    assert completed(shell, "%agent bind .hi") == [".hidden/"]
    assert completed(shell, "%agent bind --from st") == ["study.ipynb"]


def test_every_name_of_several_is_completed(shell: Shell) -> None:
    assert completed(shell, "%agent ignore price to") == ["total"]
