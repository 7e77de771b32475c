"""Photograph the history panel in every state, in both themes and at three widths.

    python widgets/tests/shots.py FOLDER [STATE ...]

Serves `widgets/` to itself alone and drives the Chromium that it finds. Prints what was measured in the page: the time to the
first rows, how many of them stand there, and what axe-core finds (where `npm install` has brought it).
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
AXE = WIDGETS / "node_modules" / "axe-core" / "axe.min.js"
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
    parser.add_argument("--forced", action="store_true", help="as a system in high contrast shows it")
    parser.add_argument("--side", action="store_true", help="as a side panel, which fills its height")
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
            page.emulate_media(forced_colors="active" if chosen.forced else "none", reduced_motion="reduce")
            page.goto(where)
            for state in chosen.states or _states(page):
                for theme in chosen.themes:
                    _photograph(
                        page,
                        f"{where}#{state}&theme={theme}&width={width}&side={chosen.side:d}",
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
    measured, rows = page.evaluate(
        "[{...document.documentElement.dataset}, document.querySelectorAll('.ak-row').length]"
    )
    more = "".join(f", {name[:-2]} {ms} ms" for name, ms in measured.items() if name in ("scrollMs", "clickMs"))
    print(f"{target.stem}: first rows after {measured.get('firstPaintMs')} ms, {rows} rows in the page{more}")
    for finding in _findings(page) if AXE.exists() else ():
        print(f"  axe: {finding}")


def _findings(page: Page) -> list[str]:
    """What axe-core has to say of the panel, with the elements it means."""
    page.add_script_tag(path=str(AXE))
    findings: list[str] = page.evaluate(
        """axe.run('#stage', {resultTypes: ['violations'], iframes: false}).then(({violations}) =>
            violations.flatMap(({id, impact, nodes}) =>
                nodes.map(node => `${impact} ${id}: ${node.target.join(' ')} ${node.any[0]?.message ?? ''}`)))"""
    )
    return findings


if __name__ == "__main__":
    main()
