"""The side panel shows the history of the open notebook, whatever its kernel does."""

from __future__ import annotations

import re

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph, in_both
from tests.e2e.study import BUSY, RATES

_LOOKED_FOR_MS = 20_000


@in_both
def test_it_follows_the_cells_that_run_and_acts_as_the_inline_panel_does(
    opened: OpenNew, photograph: Photograph
) -> None:
    document = opened(*RATES)
    document.run(1, 2)
    panel = document.side_panel().ready()
    expect(panel.row("Cell 2")).to_be_visible()
    document.run(3)
    expect(panel.row("Cell 3")).to_contain_text("rate = 3")
    photograph("side", document.page)
    panel.row("Cell 2").locator("code").click()
    expect(panel.details).to_contain_text("extra")
    photograph("side-details", panel.root)
    panel.button("Back to the list").click()
    panel.row("Cell 1").locator("code").click()
    panel.details.get_by_role("button", name="Check out").click()
    panel.question.get_by_text("Variables", exact=True).click()
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Checked out [1]")
    assert document.ask("rate") == "1"


def test_it_fits_its_place_and_says_when_a_cell_ran_in_one_line(opened: OpenNew, photograph: Photograph) -> None:
    document = opened(*RATES)
    document.run(1, 2)
    panel = document.side_panel().ready()
    photograph("side-fits", document.page)
    box = document.page.locator("#agent-kernel-history").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= document.page.evaluate("innerWidth")
    panel.row("Cell 1").locator("code").click()
    meta = panel.details.locator(".ak-meta").bounding_box()
    assert meta is not None
    assert meta["height"] < 30


def test_its_key_is_a_letter_like_any_other_while_one_types(opened: OpenNew) -> None:
    document = opened("")
    document.cell(1).locator(".cm-content").click()
    document.page.keyboard.press("Shift+H")
    expect(document.cell(1).locator(".cm-content")).to_have_text("H")
    expect(document.panel_beside().root).to_have_count(0)
    document.page.keyboard.press("Escape")
    document.page.keyboard.press("Shift+H")
    expect(document.page.locator("#agent-kernel-history")).to_be_visible()


def test_it_shows_the_history_while_a_cell_runs_and_after_the_kernel_has_gone(
    opened: OpenNew, photograph: Photograph
) -> None:
    document = opened(*BUSY)
    document.run(1, 2)
    document.start(4)
    panel = document.side_panel().ready()
    expect(panel.row("Cell 2")).to_be_visible()
    panel.row("Cell 1").locator("code").click()
    expect(panel.details).to_contain_text("rate")
    panel.button("Back to the list").click()
    (document.path.parent / "go").touch()  # a kernel that is busy takes long to end
    document.jupyter.end_kernels()
    panel.list.focus()
    # What gets no answer has the kernel looked for; where the server answered, as it does while a cell runs, the app itself
    # looks for it every ten seconds.
    document.page.keyboard.press("c")
    expect(panel.strip).to_contain_text("No kernel.", timeout=_LOOKED_FOR_MS)
    document.page.keyboard.press("Escape")
    panel.search.fill("cell:2")
    expect(panel.count).to_have_text(re.compile("^1 of"))
    photograph("side-no-kernel", document.page)


@in_both
def test_the_line_under_a_cell_undoes_it_and_opens_its_history(opened: OpenNew, photograph: Photograph) -> None:
    document = opened(*RATES)
    document.run(1, 2, 3)
    line = document.cell(3).get_by_role("group", name="Commit")
    photograph("footer", document.cell(3))
    document.cell(2).get_by_role("button", name="Diff").click()
    panel = document.panel_beside()
    expect(panel.details).to_contain_text("extra")
    line.get_by_role("button", name="Undo").click()
    expect(line).to_contain_text("1 variable changed")
    assert document.ask("rate") == "2"


@in_both
def test_its_key_takes_the_keyboard_into_the_list_and_back(opened: OpenNew) -> None:
    document = opened("x = 1", "y = 2", "x = 3")
    document.run(1, 2, 3)
    panel = document.side_panel()
    expect(panel.list).to_be_focused()
    document.page.keyboard.press("ArrowDown")
    assert panel.list.get_attribute("aria-activedescendant") == panel.row("Cell 2").get_attribute("id")
    document.page.keyboard.press("Shift+H")
    expect(panel.root).to_have_count(0)
    assert document.has_the_keyboard()
    document.page.keyboard.press("Shift+H")
    expect(panel.list).to_be_focused()


def test_in_a_narrow_notebook_the_reason_gives_way_before_the_id_and_the_names(opened: OpenNew) -> None:
    document = opened(
        "import threading, os", "lock = threading.Lock(); fh = open(os.devnull)\ncounter = 1", "fh.close()"
    )
    document.run(1, 2, 3)
    line = document.cell(2).locator(".ak-under")
    line.evaluate("node => node.style.width = '560px'")
    cut = "node => [...node.children].filter(one => one.scrollWidth > one.clientWidth).map(one => one.className)"
    assert line.evaluate(cut) == ["ak-fg ak-reason"]
    expect(line).to_contain_text(re.compile("lock, fh are not saved:|fh, lock are not saved:"))
