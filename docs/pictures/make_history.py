"""Photograph the history panel in a real JupyterLab, in its light and its dark theme, for the README and the docs.

    PYTHONPATH=. python docs/pictures/make_history.py

Needs Chromium and what `make e2e` installs. The notebook below runs in a temporary folder, so the pictures show what the
package really draws.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tests.e2e.browser import expect, opened
from tests.e2e.documents import Document
from tests.e2e.jupyter import Jupyter

if TYPE_CHECKING:
    from tests.e2e.browser import Browser
    from tests.e2e.documents import Panel

HERE = Path(__file__).parent
CELLS = (
    "import matplotlib.pyplot as plt\nimport numpy as np\nimport pandas as pd",
    """# Load the houses
random = np.random.default_rng(7)
houses = pd.DataFrame({
    "district": random.choice(["Old Town", "Harbour", "Mill Hill"], 400),
    "area_m2": random.normal(90, 25, 400).round(1),
})
houses["price"] = (houses.area_m2 * 3_200 + random.normal(0, 20_000, 400)).round(-2)
houses.loc[[12, 57, 233], "area_m2"] *= 10.764""",
    "# Look at them\nfig, axes = plt.subplots(figsize=(4, 2.4))\naxes.scatter(houses.area_m2, houses.price, s=6)\nfig",
    "%agent tag raw",
    """# Repair impossible areas, convert to euros
wrong = houses.area_m2 > 300
houses.loc[wrong, "area_m2"] /= 10.764
houses["price_eur"] = (houses.price * 0.92).round(-2)""",
    "%agent switch --create robust",
    "slope, start = np.polyfit(houses.area_m2.rank(), houses.price_eur, 1)",
    "%agent switch main",
    "slope, start = np.polyfit(houses.area_m2, houses.price_eur, 1)",
    'raise ValueError("no such column: rooms")',
    "%agent history",
    "",
)
PANEL = CELLS.index("%agent history") + 1
CHOSEN = "Cell 5"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, opened() as browser:
        jupyter = Jupyter("lab", Path(folder))
        try:
            jupyter.wait()
            for theme in ("light", "dark"):
                jupyter.theme(theme)
                photograph(browser, jupyter, theme)
        finally:
            jupyter.stop()


def photograph(browser: Browser, jupyter: Jupyter, theme: Literal["light", "dark"]) -> None:
    """The panel with the details of one commit; in light, also what a checkout asks and the panel beside the notebook."""
    page = browser.new_context(viewport={"width": 1360, "height": 1500}, device_scale_factor=1.5).new_page()
    name = f"{theme}/houses.ipynb"
    jupyter.write(name, *CELLS)
    document = Document(page, jupyter, name)
    document.open()
    page.keyboard.press("Control+b")  # the file browser makes room
    document.run(*range(1, PANEL + 1))
    panel = document.panel(PANEL).ready()
    shown(panel)
    panel.root.screenshot(path=HERE / f"history-{theme}.png", animations="disabled")
    if theme == "light":
        panel.button("Close details").click()
        panel.ask_to_check_out(CHOSEN)
        panel.root.scroll_into_view_if_needed()
        page.screenshot(path=HERE / "checkout.png", animations="disabled", clip=around(panel))
    page.context.close()
    jupyter.end_kernels()


def shown(panel: Panel) -> None:
    panel.row(CHOSEN).locator(".ak-s").click()
    expect(panel.details.get_by_role("table").first).to_be_visible()
    panel.page.mouse.move(0, 0)


def around(panel: Panel) -> dict[str, float]:
    """The panel and the question over it."""
    boxes = [box for part in (panel.root, panel.question) if (box := part.bounding_box()) is not None]
    left, top = (min(box[edge] for box in boxes) for edge in ("x", "y"))
    right = max(box["x"] + box["width"] for box in boxes)
    bottom = max(box["y"] + box["height"] for box in boxes)
    return {"x": left, "y": top, "width": right - left, "height": bottom - top}


if __name__ == "__main__":
    main()
