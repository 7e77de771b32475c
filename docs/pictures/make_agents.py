"""Photograph a step that waits for a person, and a race, in a real JupyterLab, for the docs.

    PYTHONPATH=. python docs/pictures/make_agents.py

Needs Chromium and what `make e2e` installs. The models are scripts, so the pictures come out the same without a network.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.e2e.browser import Locator, expect, opened
from tests.e2e.documents import Document
from tests.e2e.jupyter import Jupyter

HERE = Path(__file__).parent
CELLS = (
    """import pandas as pd
from agent_kernel import ScriptedModel, Turn
houses = pd.DataFrame({"area_m2": [50, 80, 120, 75], "price": [200_000, 310_000, 455_000, 300_000]})
play = ScriptedModel([
    Turn('houses["per_m2"] = (houses.price / houses.area_m2).round()\\nprint(houses.per_m2.mean())', text="First the price per square metre."),
    Turn('from pathlib import Path\\nPath("houses.csv").write_text(houses.to_csv())', text="Now the table goes to a file."),
], name="play")
mean = ScriptedModel(['guess = houses.price.mean()\\nerror = (houses.price - guess).abs().mean()', 'task.success(round(error))'], name="mean")
line = ScriptedModel(['import numpy as np\\nslope, start = np.polyfit(houses.area_m2, houses.price, 1)', 'error = (houses.price - slope * houses.area_m2 - start).abs().mean()', 'task.success(round(error))'], name="line")
stuck = ScriptedModel(["task.fail('there is no column `rooms`')"], name="stuck")
%agent model scripted:play""",
    "%%agent analyst\nWhat does a square metre cost? Write the table to houses.csv.",
    "%%agent analyst --fork scripted:mean,scripted:line,scripted:stuck\nPredict the price, and return the mean error in euros.",
    "",
    "",
)
WAITS, RACE = 2, 3


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, opened() as browser:
        jupyter = Jupyter("lab", Path(folder))
        try:
            jupyter.wait()
            page = browser.new_context(viewport={"width": 1120, "height": 1900}, device_scale_factor=1.5).new_page()
            jupyter.write("houses.ipynb", *CELLS)
            document = Document(page, jupyter, "houses.ipynb")
            document.open()
            page.keyboard.press("Control+b")  # the file browser makes room
            document.run(1, WAITS, RACE)
            expect(document.cell(WAITS).get_by_role("button", name="Approve and run")).to_be_visible()
            expect(document.cell(RACE).get_by_role("button", name="Pick candidate 2")).to_be_visible()
            document.command(len(CELLS))  # no other cell is marked
            page.mouse.move(0, 0)
            photograph(document.cell(WAITS), "approval")
            photograph(document.cell(RACE), "race")
            page.context.close()
            jupyter.end_kernels()
        finally:
            jupyter.stop()


def photograph(cell: Locator, name: str) -> None:
    cell.screenshot(path=HERE / f"{name}.png", animations="disabled")


if __name__ == "__main__":
    main()
