"""The browser: Debian's Chromium, or whichever one is named, driven by Playwright, which brings none of its own.

Where either is missing, all tests of this folder are skipped with one line that says so.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.programs import chromium

pytest.importorskip("playwright", reason="Playwright is not installed: pip install 'agent-kernel[e2e]'")

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Error,
    FrameLocator,
    Locator,
    Page,
    Response,
    ViewportSize,
    expect,
    sync_playwright,
)
from playwright.sync_api import TimeoutError as TooLateError

__all__ = [
    "SIZE",
    "Browser",
    "BrowserContext",
    "ConsoleMessage",
    "Error",
    "FrameLocator",
    "Locator",
    "Page",
    "Response",
    "TooLateError",
    "expect",
    "opened",
    "opened_with_profile",
]

_PROGRAM = chromium()
if _PROGRAM is None:
    pytest.skip(
        "Chromium was not found, so NOTHING WAS TRIED IN A BROWSER (apt install chromium, or name one: CHROMIUM=/path)",
        allow_module_level=True,
    )

SIZE: Final[ViewportSize] = {"width": 1300, "height": 1200}
# As root in a container, with a small /dev/shm and no graphics.
_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")


@contextmanager
def opened() -> Generator[Browser]:
    """A running browser."""
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_PROGRAM, headless=True, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened_with_profile(folder: Path) -> Generator[BrowserContext]:
    """A browser that keeps in a folder what it has compiled: without one it compiles all of JupyterLab for each page."""
    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=_PROGRAM,
            headless=True,
            args=_FLAGS,
            viewport=SIZE,
        )
        try:
            yield context
        finally:
            context.close()
