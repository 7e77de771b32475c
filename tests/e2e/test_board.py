"""The board in a notebook: all that goes on, live while others work, and what happened to each line."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Final

from tests.e2e.browser import Locator, expect
from tests.e2e.conftest import OpenNew, Photograph, lab_only

_FILL: Final = """import agent_kernel as ak
repo = ak.here().session.repo
repo.workflows.start("nightly", ["load", "clean", "report"])
with repo.workflows.step("nightly", "load"): pass
repo.workflows.start("release 2.4", ["sign"]); _ = repo.workflows.wait("release 2.4", "approval")
queue, teams = repo.queue("web"), repo.teams
teams.create("web"); teams.join("web", "ada", ["python"]); teams.status("web", "ada", "busy", "the parser")
queue.push_many(["first", "second", "third"]); _ = queue.claim("ada")
@repo.tool(cache=60)
def double(n): return 2 * n
_ = double(1), double(1)
indexing = repo.knowledge.indexing("docs", total=10).__enter__(); indexing.advance(7)
_ = repo.knowledge.source("docs", "a", status="indexed", documents=8, size=12_345)
_ = repo.speech.open("conversation")"""

# In another process: a task is done as soon as a line comes in, and another queue begins.
_WORK: Final = """import sys, agent_kernel as ak
with ak.open(sys.argv[1]) as repo:
    print("ready", flush=True); input()
    queue = repo.queue("web")
    queue.done(queue.in_progress()[0], "ok")
    repo.queue("night").push("count the stars")
    print("done", flush=True)"""


def row(part: Locator, name: str) -> Locator:
    return part.locator("tr[data-line]").filter(has_text=name)


@lab_only
def test_the_board_is_live_and_each_line_opens_its_history(opened: OpenNew, photograph: Photograph) -> None:
    document = opened(_FILL, "%agent board", "queue.tasks", "")
    document.run(1)
    document.run(2)
    board = document.cell(2).get_by_role("region", name="Board")
    parts = board.get_by_role("treegrid")
    titles = ("Workflows", "Queues", "In progress", "Agents", "Tools", "Knowledge", "Speech")
    expect(parts).to_have_count(len(titles))
    for title in titles:
        expect(board.get_by_role("treegrid", name=title)).to_be_visible()
    queues, workflows = (board.get_by_role("treegrid", name=title) for title in ("Queues", "Workflows"))
    expect(row(queues, "web").locator("td").nth(4)).to_have_text("0")
    expect(row(workflows, "release 2.4")).to_contain_text("approval")
    assert board.locator(".ak-name").first.evaluate("node => node.closest('tr').offsetHeight") <= 28

    store = document.path.parent / ".agent-kernel" / document.path.stem
    command = [sys.executable, "-c", _WORK, str(store)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=document.jupyter.environment()) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stdout.readline() == "ready\n"
        worker.stdin.write("\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == "done\n"
        began = time.monotonic()
        expect(row(queues, "night")).to_be_visible(timeout=5_000)
        expect(row(queues, "web").locator("td").nth(4)).to_have_text("1", timeout=5_000)
        assert time.monotonic() - began < 2

    # One stop of the tab key, and arrows from there; the keys are not the notebook's.
    row(workflows, "release 2.4").focus()
    document.page.keyboard.press("ArrowDown")
    expect(row(workflows, "nightly")).to_be_focused()
    assert board.locator("tr[tabindex='0']").count() == 1
    document.page.keyboard.press("Enter")
    changes = board.get_by_role("group", name="What happened to nightly")
    expect(changes).to_contain_text("load=completed")
    expect(row(workflows, "nightly")).to_have_attribute("aria-expanded", "true")
    document.page.keyboard.press("Tab")
    expect(changes).to_be_focused()
    document.page.keyboard.press("Shift+Tab")
    document.page.keyboard.press("End")
    expect(row(board.get_by_role("treegrid", name="Speech"), "conversation")).to_be_focused()
    row(queues, "web").click()
    expect(board.get_by_role("group", name="What happened to web")).to_contain_text("first: status completed")
    photograph("board", board)

    # What runs in the notebook shows too, and an open line stays open and keeps the keyboard.
    row(workflows, "nightly").focus()
    document.page.keyboard.press("ArrowRight")
    document.page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.requestExecute("
        "{code: \"with repo.workflows.step('nightly', 'clean'): pass\", store_history: false})"
    )
    expect(row(workflows, "nightly")).to_contain_text("2/3", timeout=5_000)
    expect(changes).to_contain_text("clean=completed", timeout=5_000)
    expect(row(workflows, "nightly")).to_be_focused()
    document.page.keyboard.press("ArrowLeft")
    expect(changes).to_have_count(0)

    document.run(3)
    expect(document.cell(3).get_by_role("table")).to_contain_text("4 records")
