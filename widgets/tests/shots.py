"""Photograph the history panel in every state, in both themes and at three widths.

    python widgets/tests/shots.py FOLDER [STATE ...]

Serves `widgets/` to itself alone and drives the Chromium that it finds. Prints what was measured in the page: the time to the
first rows and how many of them stand there.
"""

from __future__ import annotations

import argparse
import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

WIDGETS = Path(__file__).parents[1]
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
WIDTHS = (900, 320, 1300)
THEMES = ("light", "dark")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("states", nargs="*")
    parser.add_argument("--widths", type=int, nargs="*", default=WIDTHS)
    parser.add_argument("--themes", nargs="*", default=THEMES)
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(WIDGETS)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    where = f"http://127.0.0.1:{server.server_address[1]}/tests/fixture/index.html"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for width in chosen.widths:
            page = browser.new_page(viewport={"width": width + 32, "height": 860}, device_scale_factor=2)
            page.on("pageerror", lambda error: print(f"  ! {error}"))
            page.goto(where)
            for state in chosen.states or _states(page):
                for theme in chosen.themes:
                    _photograph(
                        page,
                        f"{where}#{state}&theme={theme}&width={width}",
                        chosen.folder / f"{state}-{width}-{theme}.png",
                    )
            page.close()
        browser.close()
    server.shutdown()


def _states(page: Page) -> list[str]:
    names: list[str] = page.evaluate("import('./states.js').then(({ STATES }) => Object.keys(STATES))")
    return names


def _photograph(page: Page, address: str, target: Path) -> None:
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("html[data-ready]", timeout=10_000)
    page.screenshot(path=str(target))
    paint, rows = page.evaluate(
        "[document.documentElement.dataset.firstPaintMs, document.querySelectorAll('.ak-row').length]"
    )
    print(f"{target.stem}: first rows after {paint} ms, {rows} rows in the page")


if __name__ == "__main__":
    main()
