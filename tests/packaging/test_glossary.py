"""The glossary is about the code of today: its words are in their packages, and so are the names that it calls old."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    section = GLOSSARY.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@cache
def code_of(package: str) -> str:
    """The sources of a package with the names of its modules."""
    folder = ROOT / "agent_kernel" / package
    files = sorted(folder.glob("**/*.py"))
    assert files, f"the glossary names a package that does not exist: {package}"
    return f"{package}/ " + " ".join(f"{file.stem} {file.read_text(encoding='utf-8')}" for file in files)


def is_used(word: str, package: str) -> bool:
    return re.search(re.escape(word).replace(r"\ ", r"[\s_-]"), code_of(package), re.IGNORECASE) is not None


@pytest.mark.parametrize(("word", "means", "package"), rows("Words"))
def test_a_word_is_used_in_its_package(word: str, means: str, package: str) -> None:
    assert means
    for one in word.split(", "):
        assert is_used(one, package.strip("`")), f"{one!r} is not in {package}: write the word that is"


@pytest.mark.parametrize(("name", "word", "why", "package"), rows("Old names that stay"))
def test_an_old_name_is_still_there(name: str, word: str, why: str, package: str) -> None:
    assert word
    assert why
    assert is_used(name.strip("`"), package.strip("`")), f"{name} has gone from {package}: take its row away"
