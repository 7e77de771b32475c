"""A notebook that is open in a page of JupyterLab or Notebook 7, and the panel in one of its outputs.

Things are found by what a screen reader would read of them, where they have a name at all.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.e2e.browser import Locator, Page, TooLateError, expect
from tests.e2e.jupyter import Jupyter

__all__ = ["Document", "Panel", "closed"]

_DONE = re.compile(r"\[\d+\]:")
_RUN_MS = 30_000
# JupyterLab is there already: this page stayed open after another test.
_OPEN: Final = """async path => {
  if (!window.jupyterapp) return false;
  await window.jupyterapp.commands.execute("docmanager:open", {path, factory: "Notebook"});
  return true;
}"""
# Without a question about what was not saved. What a test left beside its notebook, the next one would see.
_CLOSE: Final = """() => {
  const app = window.jupyterapp;
  if (!app) return false;
  for (const widget of [...app.shell.widgets("main")]) widget.dispose();
  app.shell.collapseRight();
  const left = document.querySelector(".Toastify__toast, .jp-Dialog, .jp-Notebook, .ak-panel:not(.ak-fill)");
  return !left;
}"""


def closed(page: Page) -> bool:
    """Close what is open in JupyterLab; whether the page is then as a new one would be."""
    return bool(page.evaluate(_CLOSE))


class Document:
    """An open notebook. Cells are counted from 1, as their prompts are where each ran once."""

    def __init__(self, page: Page, jupyter: Jupyter, name: str) -> None:
        self.page = page
        self.jupyter = jupyter
        self.name = name

    def open(self) -> None:
        """Open it in the page, with its kernel."""
        if not self.page.evaluate(_OPEN, self.name):
            self.page.goto(self.jupyter.address(self.name))
        expect(self.cell(1)).to_be_visible(timeout=_RUN_MS)
        self.jupyter.wait_idle(self.name)
        self.page.wait_for_timeout(300)  # the page hears of its kernel a little later than the server

    def open_without_kernel(self) -> None:
        """Open it where its kernel is not installed, and take none instead."""
        self.path.write_text(self.path.read_text().replace('"agent-kernel"', '"of-another-machine"'))
        self.page.goto(self.jupyter.address(self.name))
        asked = self.page.get_by_role("dialog").filter(has_text="Select Kernel")
        expect(asked).to_be_visible(timeout=_RUN_MS)
        asked.get_by_role("button", name="No Kernel").click()
        expect(asked).to_have_count(0)

    @property
    def path(self) -> Path:
        return self.jupyter.folder / self.name

    def cell(self, number: int) -> Locator:
        return self.page.locator(".jp-Notebook .jp-CodeCell").nth(number - 1)

    def prompt(self, number: int) -> Locator:
        return self.cell(number).locator(".jp-InputArea-prompt").first

    def start(self, number: int) -> Locator:
        """Run a cell, and do not wait for its end."""
        cell = self.cell(number)
        cell.locator(".cm-content").first.click()
        self.page.keyboard.press("Control+Enter")
        return cell

    def run(self, *numbers: int) -> None:
        """Run cells, one after another."""
        for number in numbers:
            before = self.prompt(number).inner_text()
            self.start(number)
            expect(self.prompt(number)).not_to_have_text(before, timeout=_RUN_MS)
            self.finish(number)

    def finish(self, number: int) -> None:
        """Wait until a cell has run."""
        expect(self.prompt(number)).to_have_text(_DONE, timeout=_RUN_MS)

    def write(self, number: int, source: str) -> None:
        """Replace the source of a cell, as one types it."""
        self.cell(number).locator(".cm-content").first.click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)

    def source(self, number: int) -> str:
        return str(self.cell(number).locator(".cm-content").first.inner_text())

    def output(self, number: int) -> str:
        """What a cell printed."""
        printed = self.cell(number).locator(".jp-OutputArea-output pre")
        return "\n".join(printed.all_inner_texts()).strip()

    def ask(self, expression: str) -> str:
        """What an expression is in the kernel now: the last cell is used for it."""
        last = self.page.locator(".jp-Notebook .jp-CodeCell").count()
        self.write(last, f"print({expression})")
        self.run(last)
        return self.output(last)

    def command(self, number: int, *keys: str) -> None:
        """Press keys with a cell selected, not edited."""
        self.cell(number).locator(".jp-InputPrompt").click()
        for key in keys:
            self.page.keyboard.press(key)

    def panel(self, number: int) -> Panel:
        """The panel in the output of a cell."""
        return Panel(self.cell(number).locator(".ak-panel"))

    def save(self) -> None:
        """Save it, and wait until that is done: a checkpoint is the last part, and before it the app takes no other save."""
        with self.page.expect_response(
            lambda answer: answer.url.split("?")[0].endswith("/checkpoints") and answer.request.method == "POST"
        ):
            self.page.keyboard.press("Control+s")

    def side_panel(self) -> Panel:
        """The panel beside the notebook, opened by its key beside a cell."""
        self.command(1, "Shift+H")
        return self.panel_beside()

    def has_the_keyboard(self) -> bool:
        """Whether keys are the notebook's."""
        return bool(self.page.locator(".jp-Notebook").first.evaluate("node => node.contains(document.activeElement)"))

    def panel_beside(self) -> Panel:
        """The panel beside the notebook, which is open."""
        return Panel(self.page.locator("#agent-kernel-history .ak-panel:visible"))


class Panel:
    """A history panel."""

    def __init__(self, root: Locator) -> None:
        self.root = root
        self.page = root.page
        self.list = root.get_by_role("treegrid", name="History")
        self.rows = self.list.get_by_role("row")
        self.count = root.locator(".ak-bar").first.locator(".ak-count")
        self.search = root.get_by_role("searchbox", name="Search the history")
        self.details = root.get_by_role("region", name=re.compile("^Details"))
        self.comparison = root.get_by_role("region", name=re.compile("^Compare"))
        self.strip = root.locator(".ak-strip")
        self.toast = root.locator(".ak-toast")
        self.question = root.get_by_role("dialog")
        self.menu = root.get_by_role("menu")

    def ready(self) -> Panel:
        """Wait until its rows are there."""
        expect(self.rows.first).to_be_visible(timeout=_RUN_MS)
        return self

    def row(self, name: str) -> Locator:
        """The row of a cell ("Cell 3") or of a commit with a message."""
        return self.list.get_by_role("row", name=re.compile(rf"^{re.escape(name)}(,|$)"))

    def press(self, *keys: str) -> None:
        """Press keys while the list has the keyboard."""
        if not self.list.evaluate("list => list.contains(document.activeElement)"):
            self.list.focus()
        for key in keys:
            self.page.keyboard.press(key)

    def go_to(self, name: str) -> Locator:
        """Move to a row by keyboard, from the newest one."""
        row = self.row(name)
        self.press("Home")
        for _ in range(self.rows.count()):
            if self.list.get_attribute("aria-activedescendant") == row.get_attribute("id"):
                return row
            self.press("ArrowDown")
        raise AssertionError(f"there is no way to {name}: {self.list.aria_snapshot()}")

    def tab(self, name: str) -> Locator:
        """The tab of the details or of the comparison whose name begins like this."""
        return self.root.get_by_role("tab", name=re.compile(f"^{name}"))

    @property
    def tab_panel(self) -> Locator:
        return self.root.get_by_role("tabpanel")

    def button(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)

    def ask_to_check_out(self, name: str) -> None:
        """Click "Check out" in a row, and wait until it says what would change."""
        self.click_in(name, "Check out")
        expect(self.answer("Check out")).to_be_enabled()

    def click_in(self, name: str, button: str) -> None:
        """Click a button that a row shows under the pointer; where a commit moves the rows meanwhile, point at it again."""
        for patience_ms in (500, 2_000, 10_000):
            self.row(name).hover()
            try:
                self.row(name).get_by_role("button", name=button).click(timeout=patience_ms)
            except TooLateError:
                continue
            return
        raise AssertionError(f"{button} in {name} could not be clicked: {self.list.aria_snapshot()}")

    def answer(self, name: str) -> Locator:
        """A button of the question that is open."""
        return self.question.get_by_role("button", name=name, exact=True)

    def choose(self, name: str) -> None:
        """Take an entry of the menu that is open."""
        self.root.locator(".ak-item").filter(has_text=name).first.click()
