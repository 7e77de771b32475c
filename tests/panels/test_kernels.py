"""In a real kernel: panels while a cell runs, and what front ends without widgets are given."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.panels.kernels import VIEW, Browser, Wire, kernel

# Older kernels have one thread and take messages up between cells: the panel itself keeps an act until then, as
# widgets/tests/comm.test.js has it.
hears_while_busy = pytest.mark.skipif(version("ipykernel").startswith("6."), reason="ipykernel before 7 has one thread")

WAIT = "import time\nprint('go', flush=True)\nlate = 1\ntime.sleep({})"


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Browser]:
    with kernel(tmp_path / "study.ipynb", monkeypatch) as browser:
        browser.run("x = 1")
        browser.run("x = 2")
        yield browser


def begin(browser: Browser, source: str) -> str:
    """Start a cell, and wait until its code runs."""
    request = browser.start(source)
    browser.until(lambda message: message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream")
    return request


@hears_while_busy
def test_looking_is_answered_while_a_cell_runs_and_a_checkout_happens_after_it(browser: Browser) -> None:
    panel = browser.panel()
    cell = begin(browser, WAIT.format(3))
    began = time.monotonic()
    assert panel.ask("rows", n=5)["commits"] == 2
    queued = panel.ask("checkout", to="HEAD~1", what="variables")
    looked_s = time.monotonic() - began
    assert queued["queued"] == {"op": "checkout", "label": "[1]", "id": queued["queued"]["id"]}
    assert panel.state(lambda state: state["queued"])["busy"] == "[4]"
    assert looked_s < 2, "the questions waited for the cell"
    browser.finish(cell)
    done = panel.state(lambda state: state["done"])["done"]
    assert done["done"] == "Checked out [1]: 1 variable changed, 2 removed."
    assert browser.text("print(x, 'late' in globals())") == "1 False\n"
    assert panel.ask("rows", n=5)["commits"] == 3


@hears_while_busy
def test_what_waits_is_cancelled_while_the_cell_runs(browser: Browser) -> None:
    panel = browser.panel()
    cell = begin(browser, WAIT.format(2))
    panel.ask("checkout", to="HEAD~1", what="variables")
    assert panel.ask("cancel")["done"] == "Check out of [1] was cancelled."
    browser.finish(cell)
    assert browser.text("print(x)") == "2\n"


@hears_while_busy
@pytest.mark.parametrize("end", ["fails", "is interrupted"])
def test_a_checkout_happens_after_a_cell_that_ends_badly(browser: Browser, end: str) -> None:
    pid = int(browser.text("import os; print(os.getpid())"))
    panel = browser.panel()
    cell = begin(browser, WAIT.format(1 if end == "fails" else 20) + "\n1 / 0")
    panel.ask("checkout", to="HEAD~2", what="variables")
    if end == "is interrupted":
        os.kill(pid, signal.SIGINT)
    browser.finish(cell)
    assert panel.state(lambda state: state["done"])["done"]["done"].startswith("Checked out [1]")
    assert browser.text("print(x)") == "1\n"


def test_between_cells_an_act_is_done_at_once_from_whichever_thread(browser: Browser) -> None:
    panel = browser.panel()
    assert panel.ask("checkout", to="HEAD~1", what="variables")["done"] == "Checked out [1]: 1 variable changed."
    assert browser.text("print(x)") == "1\n"
    assert panel.ask("undo")["done"].startswith("Checkout of [1] undone")


@hears_while_busy
def test_a_checkout_asked_for_while_a_cell_awaits_waits_too(browser: Browser) -> None:
    panel = browser.panel()
    cell = begin(browser, "import asyncio\nprint('go', flush=True)\nawait asyncio.sleep(1)\nthen = x")
    assert "queued" in panel.ask("checkout", to="HEAD~1", what="variables")
    browser.finish(cell)
    panel.state(lambda state: state["done"])
    assert browser.text("print(x, 'then' in globals())") == "1 False\n"


def test_a_front_end_that_names_no_cells_is_given_no_widget_and_no_line_under_a_cell(browser: Browser) -> None:
    shown = [message for message in browser.run("%agent history", cell=None) if message["msg_type"] == "display_data"]
    assert VIEW not in shown[0]["content"]["data"]
    assert not [message for message in browser.run("y = 1", cell=None) if message["msg_type"] == "display_data"]


def test_cells_alone_load_no_widgets_and_no_hub(browser: Browser) -> None:
    asked = "{'anywidget', 'ipywidgets', 'agent_kernel.panels.server', 'agent_kernel.queries.reader'}"
    assert browser.text(f"import sys; print({asked} & set(sys.modules))") == "set()\n"


MODEL = """
from agent_kernel.agents import ScriptedModel
plays = ScriptedModel(["done = 'by the agent'\\ntask.success()"], name="plays")
%agent model scripted:plays
"""


@pytest.mark.parametrize(("at", "shows"), [(0, "by the agent"), (1, "NameError")])
def test_a_cell_that_could_be_a_task_or_python_is_asked_about_with_two_buttons(
    browser: Browser, at: int, shows: str
) -> None:
    browser.run(MODEL)
    asked = browser.run("%%agent analyst\nPCA")
    assert not any("Traceback" in str(message["content"]) for message in asked)
    opened = [message["content"] for message in asked if message["msg_type"] == "comm_open"]
    buttons = [one for one in opened if one["data"]["state"].get("_model_name") == "ButtonModel"]
    assert [one["data"]["state"]["description"] for one in buttons] == ["Give it to analyst", "Run it as Python"]
    request = asked[0]["parent_header"]["msg_id"]
    seen = len(browser.published)
    Wire(browser, buttons[at]["comm_id"]).send({"event": "click"})
    browser.until(
        lambda message: (
            message in browser.published[seen:]
            and message["parent_header"].get("msg_id") == request
            and shows in str(message["content"])
        )
    )
    assert browser.text("print('done' in globals())") == f"{at == 0}\n"
