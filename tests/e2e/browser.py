"""The browser: Debian's Chromium, or whichever one is named, driven by Playwright, which brings none of its own.

Where either is missing, all tests of this folder are skipped with one line that says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager

import pytest

pytest.importorskip("playwright", reason="Playwright is not installed: pip install 'agent-kernel[e2e]'")

from playwright.sync_api import Browser, BrowserContext, Error, Locator, Page, Response, expect, sync_playwright

__all__ = ["Browser", "BrowserContext", "Error", "Locator", "Page", "Response", "chromium", "expect", "opened"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# As root in a container, with a small /dev/shm and no graphics.
_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu")
_NONE = "Chromium was not found, so NOTHING WAS TRIED IN A BROWSER (apt install chromium, or name one: CHROMIUM=/path)"


def chromium() -> str | None:
    """The program, where there is one."""
    return next(filter(None, [os.environ.get("CHROMIUM"), *map(shutil.which, _NAMES)]), None)


@contextmanager
def opened() -> Generator[Browser]:
    """A running browser; without one, the test that asks is skipped."""
    program = chromium()
    if program is None:
        pytest.skip(_NONE)
    expect.set_options(timeout=10_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()
