"""The panel for those who use a keyboard, a screen reader or a dark theme; and that it keeps out of the notebook's way."""

from __future__ import annotations

from importlib.resources import files

from tests.e2e.browser import Page, expect
from tests.e2e.conftest import OpenNew, Photograph, Theme, in_both, lab_only
from tests.e2e.study import RATES, STUDY

AXE = """async within => (await axe.run(within, {resultTypes: ["violations"], iframes: false})).violations
    .filter(found => ["serious", "critical"].includes(found.impact))
    .flatMap(found => found.nodes.map(node => `${found.id}: ${node.target} ${node.any.map(one => one.message)}`))"""


def problems(page: Page, within: str = ".ak-panel") -> list[str]:
    """What axe-core finds serious or critical."""
    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8"))
    found: list[str] = page.evaluate(AXE, within)
    return found


@lab_only
def test_nothing_keeps_anybody_out(theme: Theme, opened: OpenNew, photograph: Photograph) -> None:
    document = opened(*STUDY)
    document.run(*range(1, len(STUDY)))
    panel = document.panel(len(STUDY) - 1).ready()
    assert problems(document.page) == []
    panel.row("Cell 3").locator(".ak-msg").click()
    expect(panel.details.get_by_role("table").first).to_be_visible()
    photograph(f"page-{theme}", document.page)
    photograph(f"details-{theme}", panel.root)
    assert problems(document.page) == []
    for tab in ("Code", "Outputs", "Env"):
        panel.tab(tab).click()
        expect(panel.tab(tab)).to_have_attribute("aria-selected", "true")
        assert problems(document.page) == []
    panel.press("m")
    assert problems(document.page) == []
    document.page.keyboard.press("Escape")
    panel.ask_to_check_out("Cell 2")
    photograph(f"checkout-{theme}", document.page)
    assert problems(document.page) == []
    panel.answer("Cancel").click()
    panel.press("D")
    expect(panel.comparison).to_be_visible()
    photograph(f"compare-{theme}", panel.root)
    assert problems(document.page) == []
    document.page.set_viewport_size({"width": 720, "height": 900})
    panel.button("Back to the history").click()
    panel.button("Back to the list").click()
    photograph(f"narrow-{theme}", panel.root)
    assert problems(document.page) == []


@in_both
def test_the_notebooks_shortcuts_are_not_set_off_by_keys_in_the_panel(opened: OpenNew) -> None:
    document = opened(*RATES)
    document.run(1, 2, 3, 4)
    panel = document.panel(4).ready()
    before = [document.source(number) for number in range(1, 6)]
    panel.press(
        "a", "x", "z", "s", "l", "1", "y", "Shift+M", "i", "i", "0", "0", "k", "j", "ArrowUp", "ArrowDown", "Escape"
    )
    expect(panel.list).to_be_focused()
    panel.search.focus()
    document.page.keyboard.type("abxd dz")
    expect(panel.search).to_have_value("abxd dz")
    assert [document.source(number) for number in range(1, 6)] == before
    expect(document.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(5)
    expect(document.page.get_by_role("dialog")).to_have_count(0)
    assert document.ask("rate") == "3"


@in_both
def test_a_click_on_the_prompt_of_the_panels_cell_gives_the_keyboard_back_to_the_notebook(opened: OpenNew) -> None:
    document = opened(*RATES)
    document.run(1, 2, 3, 4)
    panel = document.panel(4).ready()
    panel.row("Cell 2").locator(".ak-msg, code").first.click()
    expect(panel.list).to_be_focused()
    document.cell(4).locator(".jp-InputPrompt").click()
    document.page.keyboard.press("b")
    expect(document.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(6)
    expect(document.page.get_by_role("dialog")).to_have_count(0)


@in_both
def test_keys_with_ctrl_are_the_applications_wherever_one_types_in_a_panel(opened: OpenNew) -> None:
    model = "import agent_kernel as ak\nwrites = ak.ScriptedModel([\"open('x', 'w')\"])\n%agent model scripted:writes"
    document = opened(model, "%%agent analyst\nSave it.", "%agent history")
    document.run(1, 2, 3)
    card = document.cell(2).get_by_role("group", name="analyst wants to run step 1")
    card.get_by_role("button", name="Edit…").click()
    field = card.get_by_role("textbox")
    document.page.keyboard.press("Control+a")
    document.page.keyboard.type("sx = 1")
    document.save()
    panel = document.panel(3).ready()
    panel.search.focus()
    document.save()
    document.page.keyboard.press("Control+x")
    expect(field).to_have_value("sx = 1")
    expect(document.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(3)


def test_a_panel_that_opens_takes_no_focus_from_who_types_on(opened: OpenNew) -> None:
    document = opened(*RATES)
    document.run(1, 2, 3)
    document.cell(4).locator(".cm-content").first.click()
    document.page.keyboard.press("Shift+Enter")
    document.page.keyboard.press("Enter")
    for letter in "typed = 'meanwhile'":
        document.page.keyboard.press(letter if letter != " " else "Space")
        document.page.wait_for_timeout(40)
    document.panel(4).ready()
    document.page.keyboard.type(" # and after")
    assert document.source(5).startswith("typed = 'meanwhile'")
    assert document.source(5).rstrip().endswith("# and after")
