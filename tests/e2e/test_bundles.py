"""A double click on a bundle: its page, which runs nothing and writes nothing, and what there is to do with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bundle.bundles import bundle_of
from tests.bundle.studies import Ran, make_study, printed
from tests.e2e.browser import FrameLocator, Page, expect
from tests.e2e.conftest import NUMBERS, Photograph, Theme, in_both, lab_only
from tests.e2e.jupyter import Jupyter
from tests.e2e.test_access import problems

_OPEN_MS = 30_000
CELLS = (
    "# What houses cost, in thousands\nprices = [245.0, 312.5, 198.0, 420.0, 277.5]",
    Ran("mean = sum(prices) / len(prices)\nprint(f'{mean:.1f}')", [printed("290.6\n")]),
    "def in_euros(dollars, rate=0.92):\n    return dollars * rate",
    "# Convert to euros\nprices = [in_euros(price) for price in prices]",
    "settings = {'rate': 0.92, 'currency': 'EUR'}",
)


@pytest.fixture
def folder(jupyter: Jupyter, tmp_path: Path) -> Path:
    """A folder with nothing but a bundle in it."""
    folder = jupyter.folder / f"sent-{next(NUMBERS)}"
    folder.mkdir()
    make_study(tmp_path / "store", *CELLS)
    bundle_of(tmp_path / "store", folder / "study.agentnb")
    return folder


def double_click(page: Page, jupyter: Jupyter, folder: Path) -> Page:
    """Open the bundle from the file browser; Notebook opens documents in pages of their own."""
    way = f"lab/tree/{folder.name}?reset&" if jupyter.app == "lab" else f"tree/{folder.name}?"
    page.goto(jupyter.address("").partition("/user/ada/")[0] + f"/user/ada/{way}token=secret")
    file = page.locator(".jp-DirListing-item").filter(has_text="study.agentnb")
    expect(file).to_be_visible(timeout=_OPEN_MS)
    if jupyter.app == "lab":
        file.dblclick()
        return page
    with page.context.expect_page() as opened:
        file.dblclick()
    return opened.value


def shown(page: Page) -> FrameLocator:
    return page.frame_locator('iframe[title="The bundle study.agentnb"]')


@in_both
def test_a_double_click_shows_what_is_in_a_bundle_and_writes_nothing(
    page: Page, jupyter: Jupyter, folder: Path, photograph: Photograph
) -> None:
    opened = double_click(page, jupyter, folder)
    found = shown(opened)
    expect(found.locator(".verdict")).to_contain_text("every digest matches", timeout=_OPEN_MS)
    expect(found.locator(".vars")).to_contain_text("prices")
    expect(found.locator(".vars")).to_contain_text("settings")
    found.get_by_role("link", name="History").click()
    expect(found.get_by_role("heading", name="History")).to_be_in_viewport()
    photograph("bundle", opened)
    assert opened.locator('iframe[title="The bundle study.agentnb"]').get_attribute("sandbox") == ""
    assert "Checkpoint" not in opened.locator("body").inner_text()
    assert [path.name for path in folder.iterdir()] == ["study.agentnb"]
    if opened is not page:
        opened.close()


@lab_only
def test_what_to_type_can_be_copied_and_a_file_that_was_damaged_meanwhile_says_so(
    page: Page, jupyter: Jupyter, folder: Path, photograph: Photograph
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    double_click(page, jupyter, folder)
    expect(shown(page).locator(".verdict")).to_be_visible(timeout=_OPEN_MS)
    page.get_by_role("button", name="Open as notebook").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("agent-kernel open study.agentnb")
    photograph("bundle-open", page)
    dialog.get_by_role("button", name="Copy command").click()
    expect(page.get_by_text("The command is copied.")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "agent-kernel open study.agentnb"
    assert [path.name for path in folder.iterdir()] == ["study.agentnb"]

    (folder / "study.agentnb").write_bytes((folder / "study.agentnb").read_bytes()[:-300])
    page.get_by_role("button", name="Verify the file again and reload the page").click()
    expect(shown(page).locator(".verdict")).to_contain_text("Nothing more of it is read.")
    photograph("bundle-damaged", page)


@lab_only
def test_the_page_has_the_theme_of_the_application(
    theme: Theme, page: Page, jupyter: Jupyter, folder: Path, photograph: Photograph
) -> None:
    double_click(page, jupyter, folder)
    verdict = shown(page).locator(".verdict")
    expect(verdict).to_be_visible(timeout=_OPEN_MS)
    colour = {"light": "rgb(255, 255, 255)", "dark": "rgb(22, 24, 28)"}[theme]
    expect(shown(page).locator("body")).to_have_css("background-color", colour)
    assert problems(page, ".ak-bundle") == []
    photograph(f"bundle-{theme}", page)
