"""A checkout brings the open notebook's cells back too, as one step of the notebook's own undo."""

from __future__ import annotations

import json

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph, in_both, lab_only
from tests.e2e.documents import Document

OLD = ("rate = 1", "double = rate * 2")
NEW = ("rate = 10", "double = rate * 3")


@pytest.fixture
def changed(opened: OpenNew) -> Document:
    """Two cells have run, were changed, and ran again."""
    document = opened(*OLD, "%agent history", "%agent undo", "")
    document.run(1, 2)
    for number, source in enumerate(NEW, 1):
        document.write(number, source)
    document.run(1, 2, 3)
    document.panel(3).ready()
    return document


def sources(document: Document) -> tuple[str, str]:
    return document.source(1), document.source(2)


def names(document: Document) -> list[str]:
    """The ids of the cells in the saved file."""
    return [cell["id"] for cell in json.loads(document.path.read_text())["cells"]]


def test_a_checkout_of_variables_and_code_is_one_step_that_the_notebook_undoes(
    changed: Document, photograph: Photograph
) -> None:
    cells = names(changed)
    panel = changed.panel(3)
    panel.ask_to_check_out("Cell 2")
    expect(panel.question).to_contain_text("2 cells will change: [3], [4]")
    photograph("checkout-cells", panel.page)
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Checked out [2]")
    assert sources(changed) == OLD
    changed.save()
    assert names(changed) == cells  # they are the cells they were
    changed.command(4, "z")
    assert sources(changed) == NEW
    assert changed.ask("rate, double") == "1 2"


def test_where_the_panels_own_cell_goes_the_way_back_stays_and_a_real_cell_is_seen(opened: OpenNew) -> None:
    document = opened("rate = 1\nprint(rate)", "double = rate * 2\nprint(double)")
    document.run(1, 2)
    document.command(2, *["b"] * 30)
    document.write(1, "rate = 10\nprint(rate)")
    document.write(32, "%agent history")
    document.run(1, 32)
    panel = document.panel(32).ready()
    panel.ask_to_check_out("Cell 2")
    panel.answer("Check out").click()
    said = document.page.locator(".Toastify").get_by_role("alert")
    expect(said).to_contain_text("Checked out [2]")
    expect(document.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(2)
    expect(document.cell(2)).to_be_in_viewport()
    # What another run printed is not what this code did.
    assert (document.prompt(1).inner_text(), document.output(1)) == ("[ ]:", "")
    assert (document.prompt(2).inner_text(), document.output(2)) == ("[2]:", "2")
    said.get_by_role("button", name="Undo").click()
    expect(document.page.locator(".Toastify")).to_contain_text("The notebook's cells are as they were before, too.")
    expect(document.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(32)
    assert (document.prompt(1).inner_text(), document.output(1)) == ("[3]:", "10")
    assert document.ask("rate") == "10"


@in_both
def test_one_undo_takes_back_the_variables_and_the_cells(changed: Document, photograph: Photograph) -> None:
    panel = changed.panel(3)
    panel.ask_to_check_out("Cell 2")
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Checked out [2]")
    assert sources(changed) == OLD
    panel.toast.get_by_role("button", name="Undo").click()
    expect(panel.toast).to_contain_text("The notebook's cells are as they were before, too.")
    assert sources(changed) == NEW
    panel.ask_to_check_out("Cell 2")
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Checked out [2]")
    assert sources(changed) == OLD
    changed.run(4)
    expect(changed.cell(4)).to_contain_text("Checkout of [2] undone: ")
    expect(panel.toast).to_contain_text("Checkout undone. The notebook's cells are as they were before, too.")
    assert sources(changed) == NEW
    photograph("undo-typed", changed.page)
    assert changed.ask("rate") == "10"


@lab_only
def test_the_code_alone_leaves_the_variables(changed: Document) -> None:
    panel = changed.panel(3)
    panel.ask_to_check_out("Cell 2")
    panel.question.get_by_text("Code", exact=True).click()
    panel.answer("Check out").click()
    expect(panel.toast).to_contain_text("Brought back the code of [2]: 2 cells changed.")
    assert sources(changed) == OLD
    assert changed.ask("rate, double") == "10 30"
