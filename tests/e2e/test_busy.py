"""While a cell runs one goes on looking; what changes memory waits, says that it does, and can be called off."""

from __future__ import annotations

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph, lab_only
from tests.e2e.documents import Document, Panel
from tests.e2e.study import BUSY

RUNNING = 4


@pytest.fixture
def busy(opened: OpenNew) -> Document:
    """A cell runs until it is let go."""
    document = opened(*BUSY)
    document.run(1, 2, 3)
    document.panel(3).ready()
    document.start(RUNNING)
    expect(document.prompt(RUNNING)).to_have_text("[*]:")
    return document


@pytest.fixture
def panel(busy: Document) -> Panel:
    return busy.panel(3)


def let_go(document: Document) -> None:
    (document.path.parent / "go").touch()
    document.finish(RUNNING)


def wait_for(panel: Panel, cell: str) -> None:
    """Ask for a checkout, and see it wait."""
    panel.ask_to_check_out(cell)
    panel.question.get_by_text("Variables", exact=True).click()
    panel.answer("Check out").click()
    expect(panel.strip).to_contain_text("Check out of [1] starts when it ends.")


def test_one_looks_on_while_a_cell_runs_and_a_checkout_waits_for_it(
    busy: Document, panel: Panel, photograph: Photograph
) -> None:
    panel.row("Cell 1").locator("code").click()
    expect(panel.details).to_contain_text("rate")
    panel.search.fill("var:rate")
    expect(panel.count).to_have_text("2 of 2")
    panel.go_to("Cell 2")
    panel.press("d")
    panel.go_to("Cell 1")
    panel.press("d")
    expect(panel.comparison).to_contain_text("2→1")
    panel.button("Back to the history").click()
    wait_for(panel, "Cell 1")
    expect(panel.strip).to_contain_text("Cell [4] is running. Check out of [1] starts when it ends.")
    expect(panel.row("Cell 1")).to_contain_text("queued")
    photograph("busy", panel.root)
    expect(busy.prompt(RUNNING)).to_have_text("[*]:")
    let_go(busy)
    expect(panel.toast).to_contain_text("Checked out [1]: 1 variable changed")
    expect(panel.strip).to_be_hidden()
    assert busy.ask("rate") == "1"


@lab_only
def test_a_checkout_that_waits_can_be_called_off(busy: Document, panel: Panel) -> None:
    wait_for(panel, "Cell 1")
    panel.button("Cancel check out").click()
    expect(panel.strip).to_be_hidden()
    let_go(busy)
    assert busy.ask("rate") == "2"


def test_what_is_being_pressed_stays_under_the_pointer_when_a_commit_comes(busy: Document, panel: Panel) -> None:
    row, button = panel.row("Cell 1"), panel.row("Cell 1").get_by_role("button", name="Check out")
    row.hover()
    button.hover()
    before = row.bounding_box()
    busy.page.mouse.down()
    let_go(busy)
    expect(panel.row(f"Cell {RUNNING}")).to_have_count(1)
    assert row.bounding_box() == before
    busy.page.mouse.up()
    expect(panel.question).to_contain_text("Check out [1]?")
    panel.page.keyboard.press("Escape")
    busy.command(1)  # the pointer and the keyboard are elsewhere from now on
    expect(panel.root.locator(".ak-newer")).to_be_hidden()
    expect(panel.list).to_have_js_property("scrollTop", 0)
