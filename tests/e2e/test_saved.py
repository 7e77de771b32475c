"""What stays of a panel in a saved notebook: opened without its kernel, without its store, and as a web page."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph, in_both, lab_only
from tests.e2e.documents import Document

WORD = "gone_before_it_was_saved"
SCRIPTS = """import agent_kernel as ak
writes = ak.ScriptedModel(['open("out.txt", "w").write("cleaned")'], name="writes")
quick = ak.ScriptedModel(["task.success(1)"], name="quick")
lost = ak.ScriptedModel(["task.fail('no idea')"], name="lost")
%agent model scripted:writes"""


@pytest.fixture
def saved(opened: OpenNew) -> Document:
    """A notebook with a panel was saved and left; a cell of it had been deleted before."""
    document = opened(f"{WORD} = 1", "rate = 2", "%agent history")
    document.run(1, 2, 3)
    document.panel(3).ready()
    document.command(1, "d", "d")
    document.save()
    document.page.goto("about:blank")
    document.jupyter.end_kernels()
    return document


def test_without_a_kernel_one_can_still_look_but_not_act(saved: Document, photograph: Photograph) -> None:
    saved.open_without_kernel()
    panel = saved.panel(2).ready()
    expect(panel.strip).to_contain_text("No kernel. You can look, search and compare; checking out needs one.")
    row = panel.row("Cell 2")
    row.hover()
    expect(row.get_by_role("button", name="Check out")).to_have_count(0)
    row.locator("code").click()
    expect(panel.details).to_contain_text("rate")
    photograph("no-kernel", panel.root)


@lab_only
def test_without_the_store_the_table_that_was_saved_is_shown(saved: Document, photograph: Photograph) -> None:
    shutil.rmtree(saved.path.parent / ".agent-kernel")
    saved.open_without_kernel()
    output = saved.cell(2).locator(".jp-OutputArea-output")
    expect(output.get_by_role("table")).to_be_visible()
    expect(output).to_contain_text("Open it with a kernel to compare or check out.")
    photograph("no-store", output)


@lab_only
def test_a_web_page_shows_the_history_and_no_code_of_cells_that_were_deleted(saved: Document, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(tmp_path), str(saved.path)]
    subprocess.run(command, check=True, capture_output=True)
    page = (tmp_path / "houses.html").read_text()
    assert re.search(r"<table.*Open it with a kernel|Open it with a kernel.*<table", page, re.DOTALL)
    assert f"{WORD} = 1" not in page
    assert f"{WORD} = 1" not in saved.path.read_text()


@in_both
def test_a_step_that_waits_and_a_race_stand_there_after_their_kernel_is_gone(
    opened: OpenNew, photograph: Photograph
) -> None:
    race = "%%agent analyst --fork scripted:quick,scripted:lost\nFind a number."
    document = opened(SCRIPTS, race, "%%agent analyst\nSave it.")
    document.run(1, 2, 3)
    expect(document.cell(2).get_by_role("button", name="Pick candidate 1")).to_be_visible()
    expect(document.cell(3).get_by_role("button", name="Approve and run")).to_be_visible()
    document.save()
    document.page.goto("about:blank")
    document.jupyter.end_kernels()
    document.open_without_kernel()
    card = document.cell(3).get_by_role("group", name="analyst wants to run step 1")
    expect(card).to_contain_text("out.txt")
    expect(card).to_contain_text("In its notebook: %agent approve --run")
    table = document.cell(2).locator(".jp-OutputArea-output").get_by_role("table")
    expect(table).to_contain_text("scripted:quick")
    left = document.page.locator(".ak-outlives").get_by_role("button")
    expect(left).to_have_text(["Open diff", "Open diff"])  # there is something to look at, and nobody to act
    photograph("cards-no-kernel", document.page)
    left.first.click()
    expect(document.cell(2).get_by_role("region", name="Compare")).to_be_visible()
