"""Nothing that is said promises a wall where there is none."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Frames of the browser are one, by HTML's own word for them; of agents' code there is none.
_HTML = re.compile(
    r"sandbox=|Content-Security-Policy|allow-scripts|iframe|script-less sandboxed frame|sandboxed frame", re.IGNORECASE
)


def test_nothing_of_ours_is_called_a_sandbox() -> None:
    files = [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("agent_kernel/**/*.py")]
    assert len(files) > 100
    claims = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if "sandbox" in line.lower() and not _HTML.search(line)
    ]
    assert claims == []


def test_the_page_says_of_every_level_what_it_does_not_protect_from() -> None:
    page = (ROOT / "docs/explanation/trust-levels.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")][1:]
    assert [row[1].strip() for row in rows] == ["run", "review", "preview", "branch worker", "remote"]
    assert all(len(row) == 6 and all(cell.strip() for cell in row[1:5]) for row in rows)
    assert "no mail" in page
