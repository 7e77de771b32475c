"""Film the history panel in a real JupyterLab: find a mistake, look at what it did, and roll it back. For the README.

    PYTHONPATH=. python docs/pictures/make_panel.py

Needs Chromium, what `make e2e` installs, and Pillow. The notebook runs in a temporary folder. The script draws a pointer where the
mouse is; all else in a picture is what the page shows at that moment.
"""

from __future__ import annotations

import io
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from PIL import Image

from tests.e2e.browser import Locator, expect, opened
from tests.e2e.documents import Document
from tests.e2e.jupyter import Jupyter

if TYPE_CHECKING:
    from tests.e2e.browser import Browser, Page

HERE = Path(__file__).parent
Theme = Literal["light", "dark"]
THEMES: Final[tuple[Theme, ...]] = ("light", "dark")
WIDTH, HEIGHT = 1180, 672
MOST_BYTES = 1_500_000
CELLS = (
    "import numpy as np\nimport pandas as pd",
    """# Load the houses
random = np.random.default_rng(7)
houses = pd.DataFrame({
    "district": random.choice(["Old Town", "Harbour", "Mill Hill"], 400),
    "area_m2": random.normal(90, 25, 400).round(1),
})
houses["price"] = (houses.area_m2 * 3_200 + random.normal(0, 20_000, 400)).round(-2)
houses.loc[[12, 57, 233], "area_m2"] *= 10.764""",
    """# Repair impossible areas
wrong = houses.area_m2 > 300
houses.loc[wrong, "area_m2"] /= 10.764""",
    "# Price per square metre\nslope, start = np.polyfit(houses.area_m2, houses.price, 1)",
    '# Square feet, for a colleague\nhouses["area_m2"] *= 10.764',
    'print(f"{houses.area_m2.mean():.0f} m² on average")',
    "%agent history",
)
MISTAKE, ASK = 5, 6
RIGHT = re.compile("^87 m²")
PANEL = len(CELLS)
POINTER = """
const arrow = document.createElementNS("http://www.w3.org/2000/svg", "svg");
arrow.setAttribute("viewBox", "0 0 20 20");
arrow.style = "position:fixed;z-index:100000;width:22px;height:22px;pointer-events:none;left:0;top:0";
arrow.innerHTML = '<path d="M2 1v15l4-3.6 2.6 6 2.8-1.2-2.6-5.8 5.4-.4z" fill="#111" stroke="#fff" stroke-width="1.4"/>';
document.body.append(arrow);
addEventListener("mousemove", (event) => {
  arrow.style.transform = `translate(${event.clientX - 2}px, ${event.clientY - 1}px)`;
}, true);
"""


class Film:
    """Pictures of a part of the page, each with the time that it stands."""

    def __init__(self, page: Page, top: Locator) -> None:
        box = top.bounding_box()
        assert box is not None
        self._page = page
        self._clip = {"x": box["x"], "y": box["y"], "width": WIDTH - box["x"], "height": HEIGHT}
        self._frames: list[tuple[Image.Image, int]] = []
        self._at = (self._clip["x"] + self._clip["width"] * 0.62, self._clip["y"] + self._clip["height"] * 0.85)
        page.mouse.move(*self._at)

    def hold(self, ms: int) -> None:
        """What stands there now, for so long."""
        picture = self._page.screenshot(clip=self._clip, animations="disabled", caret="hide")  # type: ignore[arg-type]
        image = Image.open(io.BytesIO(picture)).convert("RGB")
        if self._frames and self._frames[-1][0].tobytes() == image.tobytes():
            self._frames[-1] = (image, self._frames[-1][1] + ms)
        else:
            self._frames.append((image, ms))

    def point_at(self, place: Locator) -> None:
        """Move the pointer there, as a hand does."""
        box = place.bounding_box()
        assert box is not None
        start, end = self._at, (box["x"] + min(box["width"] / 2, 120), box["y"] + box["height"] / 2)
        for part in (0.12, 0.38, 0.7, 0.92, 1.0):
            self._at = tuple(was + (to - was) * part for was, to in zip(start, end, strict=True))  # type: ignore[assignment]
            self._page.mouse.move(*self._at)
            self.hold(60)

    def click(self, place: Locator) -> None:
        self.point_at(place)
        self.hold(250)
        self._page.mouse.down()
        self._page.mouse.up()

    def save(self, path: Path) -> None:
        first, *rest = [image for image, _ in self._frames]
        times = [ms for _, ms in self._frames]
        first.save(
            path, save_all=True, append_images=rest, duration=times, loop=0, lossless=True, quality=100, method=4
        )


def play(document: Document) -> Film:
    page, panel = document.page, document.panel(PANEL).ready()
    page.evaluate(POINTER)
    film = Film(page, document.cell(MISTAKE))
    film.hold(1_800)
    film.click(panel.row(f"Cell {MISTAKE}").locator(".ak-s"))
    expect(panel.details.get_by_role("table").first).to_be_visible()
    page.wait_for_timeout(300)
    film.hold(3_000)
    film.point_at(panel.row("Cell 4").locator(".ak-s"))
    film.click(panel.row("Cell 4").get_by_role("button", name="More actions"))
    expect(panel.menu).to_be_visible()
    film.hold(700)
    film.click(panel.menu.get_by_role("menuitem", name="Roll back to here"))
    expect(panel.answer("Roll back")).to_be_enabled()
    film.hold(2_200)
    film.click(panel.answer("Roll back"))
    expect(panel.toast).to_contain_text("Rolled back")
    page.wait_for_timeout(500)
    film.hold(2_200)
    film.click(document.cell(ASK).locator(".cm-content").first)
    page.keyboard.press("Control+Enter")
    expect(document.cell(ASK).locator(".jp-OutputArea-output pre")).to_have_text(RIGHT)
    page.wait_for_timeout(500)
    film.hold(3_500)
    return film


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, opened() as browser:
        jupyter = Jupyter("lab", Path(folder))
        try:
            jupyter.wait()
            films = [make(browser, jupyter, theme) for theme in THEMES]
        finally:
            jupyter.stop()
    for film in films:
        print(f"{film}: {film.stat().st_size:,} bytes")
    return int(any(film.stat().st_size > MOST_BYTES for film in films))


def make(browser: Browser, jupyter: Jupyter, theme: Theme) -> Path:
    jupyter.theme(theme)
    page = browser.new_context(viewport={"width": WIDTH, "height": 1300}, device_scale_factor=1.25).new_page()
    name = f"{theme}/houses.ipynb"
    jupyter.write(name, *CELLS)
    document = Document(page, jupyter, name)
    document.open()
    page.keyboard.press("Control+b")  # the file browser makes room
    document.run(*range(1, PANEL + 1))
    document.command(MISTAKE)
    path = HERE / f"panel-{theme}.webp"
    play(document).save(path)
    page.context.close()
    jupyter.end_kernels()
    return path


if __name__ == "__main__":
    raise SystemExit(main())
