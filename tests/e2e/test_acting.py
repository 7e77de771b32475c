"""What a person does from the panel: each act says first what it changes, does it in the kernel, and leaves the way back."""

from __future__ import annotations

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph, in_both, lab_only
from tests.e2e.documents import Document, Panel
from tests.e2e.study import RATES


@pytest.fixture
def rates(opened: OpenNew) -> Document:
    """Three cells have run, and the panel is open."""
    document = opened(*RATES)
    document.run(1, 2, 3, 4)
    return document


@pytest.fixture
def panel(rates: Document) -> Panel:
    return rates.panel(4).ready()


@in_both
def test_a_checkout_by_click_says_what_changes_and_undo_brings_it_back(
    rates: Document, panel: Panel, photograph: Photograph
) -> None:
    panel.ask_to_check_out("Cell 1")
    expect(panel.question).to_have_accessible_name("Check out [1]?")
    expect(panel.question).to_contain_text("~Changes 1rate")
    expect(panel.question).to_contain_text("−Removes 1extra")
    expect(panel.question).to_contain_text("What you have now stays on main. The next change starts a new branch.")
    expect(panel.answer("Check out")).to_be_focused()
    photograph("checkout", panel.page)
    panel.question.get_by_text("Variables", exact=True).click()
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Checked out [1]: 1 variable changed, 1 removed.")
    expect(panel.row("Cell 1").locator(".ak-ref")).to_have_text("HEAD")
    expect(panel.button("Branch: no branch")).to_be_visible()
    photograph("checked-out", panel.root)
    panel.toast.get_by_role("button", name="Undo").click()
    expect(panel.row("Cell 3").locator(".ak-ref")).to_have_text("main")
    assert rates.ask("rate, extra") == "3 later"


@lab_only
def test_a_checkout_is_in_the_kernel_and_the_next_cell_begins_a_branch(rates: Document, panel: Panel) -> None:
    panel.go_to("Cell 1")
    panel.press("c")
    expect(panel.question).to_have_accessible_name("Check out [1]?")
    panel.page.keyboard.press("Escape")
    expect(panel.question).to_have_count(0)
    expect(panel.list).to_be_focused()
    panel.ask_to_check_out("Cell 1")
    panel.answer("Cancel").click()
    assert rates.ask("rate") == "3"
    panel.ask_to_check_out("Cell 1")
    panel.question.get_by_text("Variables", exact=True).click()
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Checked out [1]")
    assert rates.ask("rate, 'extra' in globals()") == "1 False"
    rates.write(5, "rate = 5")
    rates.run(5)
    expect(panel.button("Branch: main-2")).to_be_visible()


@lab_only
def test_a_rollback_by_key_goes_on_from_there_on_the_same_branch(
    rates: Document, panel: Panel, photograph: Photograph
) -> None:
    panel.go_to("Cell 1")
    panel.press("r")
    expect(panel.question).to_have_accessible_name("Roll back to [1]?")
    expect(panel.answer("Roll back")).to_be_enabled()
    photograph("rollback", panel.page)
    panel.question.get_by_text("Variables", exact=True).click()
    panel.answer("Roll back").click()
    expect(panel.toast).to_contain_text("Rolled back to [1]")
    expect(panel.button("Branch: main")).to_be_visible()
    assert rates.ask("rate") == "1"


@lab_only
def test_a_branch_and_a_tag_are_made_where_one_points_and_switched_between(
    rates: Document, panel: Panel, photograph: Photograph
) -> None:
    panel.go_to("Cell 2")
    panel.press("t")
    panel.question.get_by_role("textbox", name="Name").fill("no good")
    panel.answer("Tag").click()
    expect(panel.question.get_by_role("alert")).to_contain_text("it holds a space")
    photograph("refused", panel.page)
    panel.question.get_by_role("textbox", name="Name").fill("two")
    panel.answer("Tag").click()
    expect(panel.row("Cell 2").locator(".ak-tag")).to_have_text("two")
    panel.go_to("Cell 2")
    panel.press("m")
    photograph("menu", panel.page)
    panel.choose("Branch from here…")
    panel.question.get_by_role("textbox", name="Name").fill("try")
    panel.answer("Create branch").click()
    expect(panel.button("Branch: try")).to_be_visible()
    assert rates.ask("rate") == "2"
    panel.button("Branch: try").click()
    photograph("branches", panel.page)
    panel.choose("main")
    expect(panel.question).to_have_accessible_name("Switch to main?")
    panel.answer("Switch").click()
    expect(panel.button("Branch: main")).to_be_visible()
    assert rates.ask("rate") == "3"


@lab_only
def test_a_merge_asks_which_side_stays_where_both_changed_a_name(
    rates: Document, panel: Panel, photograph: Photograph
) -> None:
    panel.go_to("Cell 1")
    panel.press("b")
    panel.question.get_by_role("textbox", name="Name").fill("try")
    panel.answer("Create branch").click()
    expect(panel.button("Branch: try")).to_be_visible()
    rates.write(5, "rate = 30")
    rates.run(5)
    panel.button("Branch: try").click()
    panel.choose("Merge into try…")
    panel.choose("main")
    expect(panel.question).to_contain_text("!Conflicts 1rate")
    photograph("merge", panel.page)
    panel.answer("Choose…").click()
    photograph("conflicts", panel.root)
    panel.root.get_by_text("Keep try's").click()
    panel.button("Merge").click()
    expect(panel.toast).to_contain_text("Merge")
    assert rates.ask("rate, extra") == "30 later"
    rates.write(5, "%agent undo")
    rates.run(5)
    rates.write(5, "%agent merge main")
    rates.run(5)
    typed = rates.panel(5)
    expect(typed.root).to_contain_text("1 variable changed on both sides")
    expect(rates.cell(5).locator('[data-mime-type*="error"], [data-mime-type*="stderr"]')).to_have_count(
        0
    )  # nothing in red
    expect(typed.root.get_by_text("Keep try's")).to_be_visible()
    photograph("typed-merge", rates.page)
    typed.root.get_by_text("Take main's").click()
    typed.button("Merge").click()
    expect(typed.toast).to_contain_text("Merge")
    assert rates.ask("rate, extra") == "3 later"
