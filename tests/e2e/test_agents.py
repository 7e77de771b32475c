"""A task for an agent in a notebook: its steps as they come, the card of one that waits, the run in the history, undo."""

from __future__ import annotations

import os
import re
import signal

import pytest

from tests.e2e.browser import expect
from tests.e2e.conftest import OpenNew, Photograph, in_both
from tests.e2e.documents import Document

TURNS = (
    "Turn('df = {\"rows\": list(range(40))}\\nprint(len(df[\"rows\"]), \"rows\")', thinking='First a table.', text='I make the table.')",
    'Turn(\'import pathlib\\nsize = pathlib.Path("out.txt").write_text("cleaned")\\nprint("wrote", size)\', text=\'Now it goes to a file.\')',
    "'task.success(size)'",
)
MODEL = f"""import agent_kernel as ak
from agent_kernel import Turn
play = ak.ScriptedModel([{", ".join(TURNS)}], name="play")
%agent model scripted:play"""
TASK = "%%agent analyst\nMake a table and save it to a file."


@pytest.fixture
def task(opened: OpenNew) -> Document:
    """A task whose second step waits."""
    document = opened("before = 1", MODEL, TASK, "%agent history", "")
    document.run(1, 2, 3)
    return document


@in_both
def test_a_step_that_waits_is_approved_by_a_click_and_goes_on_under_its_cell(
    task: Document, photograph: Photograph
) -> None:
    cell = task.cell(3)
    card = cell.get_by_role("group", name="analyst wants to run step 2")
    expect(card).to_be_visible()
    expect(card.locator(".ak-rep .ak-lacks:visible")).to_have_text(
        "Does not use the network, read variables or delete."
    )
    expect(cell).to_contain_text("40 rows")
    photograph("waits", cell)
    assert task.ask("'size' in globals()") == "False"
    card.get_by_role("button", name="Approve and run").click()
    expect(cell).to_contain_text("wrote 7")
    expect(card).to_have_count(0)
    expect(cell).to_contain_text("Step 2 of analyst was approved by")
    line = cell.get_by_role("group", name=re.compile("^Commit"))
    expect(line).to_contain_text("analyst3 steps")
    expect(line).to_contain_text("+df")
    expect(line).to_contain_text("+size")
    expect(line.get_by_role("button", name="Undo run")).to_be_visible()
    photograph("done", cell)
    assert task.ask("size") == "7"
    expect(line.get_by_role("button", name="Undo run")).to_be_visible()  # a cell that only looked came since
    line.get_by_role("button", name="Diff").click()
    panel = task.panel_beside()
    expect(panel.tab("Changes")).to_have_attribute("aria-selected", "true")
    expect(panel.tab_panel.locator(".ak-nm").filter(has_text=re.compile("^(df|size)$"))).to_have_count(2)
    photograph("run-changes", task.page)
    task.page.set_viewport_size({"width": 1000, "height": 900})
    expect(line.locator(".ak-hash")).to_be_hidden()
    expect(line.locator(".ak-mono.ak-fg").filter(has_text="df")).to_be_visible()
    photograph("narrow", task.page)
    line.evaluate("line => (line.closest('.jp-OutputArea-output').style.maxWidth = '250px')")
    expect(line.locator(".ak-branch, .ak-took, .ak-spent, .ak-to-history").locator("visible=true")).to_have_count(0)
    names = line.locator(".ak-chip:visible")
    expect(names.first).to_have_text("+size")
    assert names.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
    photograph("narrower", task.page)


def test_the_history_has_the_run_as_one_row_that_unfolds_and_undo_run_takes_all_back(
    task: Document, photograph: Photograph
) -> None:
    task.run(4)
    panel = task.panel(4).ready()
    panel.list.get_by_role("button", name="Review").click()
    card = panel.root.locator(".ak-card")
    expect(card).to_be_focused()
    photograph("review", panel.root)
    card.get_by_role("button", name="Approve and run").click()
    expect(task.cell(3)).to_contain_text("wrote 7")
    row = panel.list.get_by_role("row", name=re.compile("run of analyst, Make a table and save it to a file., 3 steps"))
    expect(row).to_have_attribute("aria-expanded", "false")
    panel.tab("Steps").click()
    expect(panel.tab_panel.locator(".ak-step-line")).to_have_count(3)
    row.locator(".ak-fold").click()
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(panel.list.get_by_role("row", level=2)).to_have_count(3)
    photograph("unfolded", panel.root)
    task.cell(3).get_by_role("button", name="Undo run").click()
    expect(task.cell(3)).to_contain_text("Undone")
    assert task.ask("[name in globals() for name in ('before', 'df', 'size')]") == "[True, False, False]"


def test_a_denied_step_does_not_run_and_the_run_goes_on(task: Document) -> None:
    cell = task.cell(3)
    cell.get_by_role("button", name="Deny…").click()
    task.page.keyboard.type("not to a file")
    cell.get_by_role("button", name="Deny", exact=True).click()
    expect(cell).to_contain_text("Step 2 of analyst was denied by")
    assert task.ask("__import__('pathlib').Path('out.txt').exists()") == "False"


ASKS = """from agent_kernel import ScriptedModel
asks = ScriptedModel(["task.clarify('Which of the two?')", "kept = 'left'\\nprint('kept', kept)\\ntask.clarify('For good?')", "task.success(kept)"], name="asks")
%agent model scripted:asks"""


def test_a_question_is_answered_in_its_cell_and_the_run_goes_on_there(opened: OpenNew, photograph: Photograph) -> None:
    document = opened(ASKS, "%%agent analyst\nKeep one of the two, please.", "")
    document.run(1, 2)
    cell = document.cell(2)
    card = cell.get_by_role("group", name="analyst asks you")
    expect(card).to_contain_text("Which of the two?")
    photograph("asks", cell)
    field = card.get_by_role("textbox", name="Answer to analyst")
    field.fill("the left one")
    field.press("Enter")
    expect(cell).to_contain_text("kept left")
    expect(cell.get_by_role("group", name=re.compile("answered analyst"))).to_contain_text("the left one")
    expect(card).to_contain_text("For good?")
    photograph("asks-again", cell)
    document.save()
    document.open()
    expect(card.get_by_role("textbox")).to_be_editable()
    document.page.goto("about:blank")
    document.jupyter.end_kernels()
    document.open_without_kernel()
    expect(card).to_contain_text("In its notebook: %agent resume --run")
    expect(card.get_by_role("textbox")).to_have_count(0)


SCRIPTS = """from agent_kernel import ScriptedModel
prices = [3, 1, 2]
quick = ScriptedModel(["best = min(prices)", "task.success(best)"], name="quick")
slow = ScriptedModel(["prices.sort()", "best = prices[0]", "task.success(best)"], name="slow")
lost = ScriptedModel(["task.fail('no idea')"], name="lost")"""


def test_a_race_stands_side_by_side_and_one_is_picked_by_a_click(opened: OpenNew, photograph: Photograph) -> None:
    race = "%%agent analyst --fork scripted:quick,scripted:slow,scripted:lost\nFind the lowest price."
    document = opened(SCRIPTS, race, "")
    document.run(1, 2)
    card = document.cell(2).get_by_role("region", name="Race")
    expect(card.locator("thead")).to_contain_text("2 · scripted:slow")
    expect(card.get_by_role("button", name="Pick candidate 3")).to_have_count(0)
    photograph("race", document.cell(2))
    card.get_by_role("button", name="Open diff of candidate 2").click()
    expect(document.cell(2).locator(".ak-below")).to_contain_text("prices")
    photograph("race-diff", document.cell(2))
    card.get_by_role("button", name="Pick candidate 2").click()
    expect(card).to_contain_text("Picked candidate 2")
    assert document.ask("prices, best") == "[1, 2, 3] 1"
    document.write(3, "%agent undo")
    document.run(3)
    expect(card.get_by_role("button", name="Pick candidate 2")).to_be_visible()  # nothing is picked any more
    expect(card).not_to_contain_text("picked")
    card.get_by_role("button", name="Discard all…").click()
    expect(card).to_contain_text("Deletes 3 branches with 6 commits that are nowhere else.")
    photograph("race-discard", document.cell(2))
    card.get_by_role("button", name="Discard all", exact=True).click()
    expect(card).to_contain_text("The candidates were discarded.")


@pytest.mark.slow
def test_a_race_is_picked_from_after_a_restart(opened: OpenNew, photograph: Photograph) -> None:
    race = "%%agent analyst --fork scripted:quick,scripted:slow --judge 9-len(prices)\nFind the lowest price."
    document = opened(SCRIPTS, race, "%agent undo", "")
    document.run(1, 2, 3)
    document.save()
    document.jupyter.end_kernels()
    document.open()
    card = document.cell(2).get_by_role("region", name="Race")
    expect(card).to_contain_text("2 done")
    expect(card).to_contain_text("best")
    document.write(4, "%agent checkout")
    document.run(4)
    card.get_by_role("button", name="Pick candidate 2").click()
    expect(card).to_contain_text("Picked candidate 2")
    photograph("race-restarted", document.cell(2))
    assert document.ask("prices, best") == "[1, 2, 3] 1"


WAITS = "import time\nprint(len(df), 'rows wait')\nwhile True:\n    time.sleep(0.05)"
STOPS = f"""from agent_kernel import ScriptedModel
before = 1
stops = ScriptedModel(["df = list(range(40))", {WAITS!r}, "kept = df[:3]", "task.success(len(kept))"], name="stops")
%agent model scripted:stops"""


@pytest.fixture
def stopped(opened: OpenNew) -> Document:
    """A run that its person interrupted in its second step."""
    document = opened(STOPS, "%%agent analyst --approve auto\nKeep the first rows, please.", "%agent history", "")
    document.run(1)
    cell = document.start(2)
    expect(cell).to_contain_text("40 rows wait")
    expect(cell).to_contain_text("running")
    document.page.wait_for_timeout(300)
    document.command(1, "i", "i")
    document.finish(2)
    return document


def test_an_interrupted_run_is_one_amber_line_and_resume_lets_it_go_on_under_its_cell(
    stopped: Document, photograph: Photograph
) -> None:
    cell = stopped.cell(2)
    line = cell.get_by_role("group", name=re.compile("^Commit"))
    expect(line).to_contain_text("stopped in step 2")
    expect(line).to_contain_text("1 step done")
    expect(
        cell.locator(
            "[data-mime-type='application/vnd.jupyter.stderr'], [data-mime-type='application/vnd.jupyter.error']"
        )
    ).to_have_count(0)
    button = line.get_by_role("button", name="Resume")
    expect(button).to_have_attribute("title", re.compile("Resume run .{5} of analyst"))
    photograph("stopped", stopped.page)
    button.click()
    expect(cell).to_contain_text("4 steps")
    expect(line.first).to_contain_text("stopped in step 2, then resumed")
    expect(button).to_have_count(0)
    photograph("resumed", stopped.page)
    assert stopped.ask("kept") == "[0, 1, 2]"


def test_the_history_has_the_interrupted_run_as_one_amber_row_and_resumes_it(
    stopped: Document, photograph: Photograph
) -> None:
    stopped.run(3)
    panel = stopped.panel(3).ready()
    row = panel.list.get_by_role(
        "row", name=re.compile("run of analyst, Keep the first rows, please., 1 step done, stopped in step 2")
    )
    expect(row).to_have_count(1)
    expect(panel.rows.filter(has_text="interrupted")).to_have_count(0)
    photograph("stopped-row", panel.root)
    row.get_by_role("button", name=re.compile("^Resume run")).click()
    expect(
        panel.list.get_by_role(
            "row", name=re.compile("run of analyst, Keep the first rows, please., 4 steps, you are here")
        )
    ).to_be_visible()
    expect(stopped.cell(2)).to_contain_text("kept = df[:3]")
    assert stopped.ask("kept") == "[0, 1, 2]"


def kill(document: Document) -> None:
    """End the kernel at once, as the system does when memory runs out, and have the page go on."""
    os.kill(int(re.findall(r"(?m)^\d+$", document.output(1))[-1]), signal.SIGKILL)
    asked = document.page.get_by_role("dialog").filter(has_text=re.compile("appears to have died|Restarting"))
    expect(asked).to_be_visible(timeout=60_000)
    asked.get_by_role("button", name=re.compile("^Ok$", re.IGNORECASE)).click()
    document.jupyter.wait_idle(document.name)


def test_after_the_kernel_died_its_cell_says_so_in_the_page_and_when_opened_again(
    opened: OpenNew, photograph: Photograph
) -> None:
    document = opened(
        f"{STOPS}\nimport os\nprint(os.getpid())", "%%agent analyst --approve auto\nKeep the first rows, please.", ""
    )
    document.run(1)
    cell = document.start(2)
    expect(cell).to_contain_text("40 rows wait")  # its second step runs, and not the first any more
    kill(document)
    line = cell.get_by_role("group", name=re.compile("^Commit"))
    expect(line).to_contain_text("stopped in step 2 (the kernel ended)")
    expect(line).to_contain_text("1 step done")
    expect(cell.locator(".agent-kernel-going")).to_have_css("font-size", "0px")
    photograph("died", document.page)
    document.save()
    document.page.goto("about:blank")
    document.jupyter.end_kernels()
    document.open()
    expect(line).to_contain_text("stopped in step 2 (the kernel ended)")
    expect(line).to_contain_text("its variables are not in memory since the restart")
    photograph("died-opened-again", document.page)
    document.write(3, "%agent checkout")
    document.run(3)
    document.page.wait_for_timeout(500)
    document.write(3, STOPS.partition("before = 1\n")[0] + STOPS.partition("before = 1\n")[2])
    document.run(3)
    line.get_by_role("button", name="Resume").click()
    expect(document.cell(3)).to_contain_text("%agent resume --run")
    expect(document.cell(3)).to_contain_text("kept = df[:3]")
    expect(line).to_have_count(0)
    expect(cell.locator(".agent-kernel-going")).to_have_css("font-size", "0px")
    photograph("died-resumed", document.page)


def test_after_a_restart_the_row_says_what_is_in_the_way_and_resume_runs_a_cell(
    stopped: Document, photograph: Photograph
) -> None:
    stopped.save()
    stopped.page.goto("about:blank")
    stopped.jupyter.end_kernels()
    stopped.open()
    line = stopped.cell(2).get_by_role("group", name=re.compile("^Commit"))
    expect(line).to_contain_text("its variables are not in memory since the restart")
    expect(line.get_by_role("button", name="Resume")).to_have_count(0)
    photograph("stopped-restarted", stopped.page)
    stopped.write(3, "%agent checkout")
    stopped.run(3)
    line.get_by_role("button", name="Resume").click()
    expect(stopped.cell(3)).to_contain_text("%agent resume --run")  # right below the run's cell
    expect(stopped.cell(3)).to_contain_text("kept = df[:3]")
    photograph("stopped-resumed", stopped.page)
    assert stopped.ask("kept") == "[0, 1, 2]"
    stopped.page.goto("about:blank")
    stopped.jupyter.end_kernels()
    stopped.open_without_kernel()
    expect(stopped.cell(2).get_by_role("button", name="Resume")).to_have_count(0)
