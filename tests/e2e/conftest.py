"""One browser and one server for each app, for all tests of a worker.

A test that takes `app` runs in JupyterLab, and in Notebook 7 where it is one of the slow tests: the panels are the same in both,
and what the apps do by themselves (documents, keys, the side panel) has tests that are `in_both`. What is opened is closed
after each test: no kernel stays, and a page that reported an error of ours fails its test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from tests.e2e.study import STUDY

if TYPE_CHECKING:
    from tests.e2e.browser import BrowserContext, ConsoleMessage, Error, Locator, Page
    from tests.e2e.documents import Document, Panel
    from tests.e2e.jupyter import App, Jupyter

NUMBERS = count(1)
Photograph = Callable[["str", "Page | Locator"], None]
Theme = Literal["light", "dark"]
OpenNew = Callable[..., "Document"]
# What the apps themselves report, without our extension too.
KNOWN = re.compile(
    r"reading '(schema|last_modified)'|reading 'type'.*/static/lab/jlab_core"
    r"|Could not restore the debugger state: Canceled future",  # a notebook was closed just after it had opened
    re.DOTALL,
)

lab_only = pytest.mark.parametrize("app", ["lab"], indirect=True, scope="package")
in_both = pytest.mark.parametrize("app", ["lab", "notebook"], indirect=True, scope="package")


@pytest.fixture(scope="package", params=["lab", pytest.param("notebook", marks=pytest.mark.slow)])
def app(request: pytest.FixtureRequest) -> App:
    """JupyterLab, then Notebook 7."""
    found: App = request.param
    return found


@pytest.fixture(scope="package")
def jupyter(app: App, tmp_path_factory: pytest.TempPathFactory) -> Generator[Jupyter]:
    from tests.e2e.jupyter import Jupyter

    started = Jupyter(app, tmp_path_factory.mktemp(app))
    try:
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="package")
def context(jupyter: Jupyter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """One for all pages of an app: what the first one loads, the others have."""
    # Not for the whole session: its event loop would be in the way of other tests that have one.
    from tests.e2e.browser import opened_with_profile

    with opened_with_profile(tmp_path_factory.mktemp("profile")) as context:
        yield context


@contextmanager
def watched(context: BrowserContext, jupyter: Jupyter) -> Generator[Page]:
    """A page that reports no error, and no kernel behind it when it is over.

    JupyterLab takes seconds to load, so the page stays for the next test where it holds nothing of this one.
    """
    from tests.e2e.browser import SIZE
    from tests.e2e.documents import closed

    page = context.pages[0] if context.pages else context.new_page()
    page.set_default_timeout(20_000)
    page.set_viewport_size(SIZE)
    reported: list[str] = []

    def hear_error(error: Error) -> None:
        reported.append(f"{error.message}\n{error.stack}")

    def hear_console(said: ConsoleMessage) -> None:
        if said.type == "error":
            reported.append(f"{said.text} {said.location}")

    page.on("pageerror", hear_error)
    page.on("console", hear_console)
    stays = False
    try:
        yield page
        stays = closed(page)
    finally:
        if not stays:
            page.close()
        jupyter.end_kernels()
        page.remove_listener("pageerror", hear_error)
        page.remove_listener("console", hear_console)
    assert not [error for error in reported if not KNOWN.search(error)]


@pytest.fixture
def page(context: BrowserContext, jupyter: Jupyter) -> Iterator[Page]:
    with watched(context, jupyter) as page:
        yield page


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest, jupyter: Jupyter, page: Page) -> Generator[Theme]:
    """In both themes: which one the page that is opened next has."""
    jupyter.theme(request.param)
    page.goto("about:blank")  # a page that is loaded already keeps its theme
    yield request.param
    jupyter.theme("light")
    page.goto("about:blank")


@pytest.fixture
def opened(page: Page, jupyter: Jupyter) -> OpenNew:
    """`opened("x = 1", "x = 2")`: a new notebook with these cells, open in the page with its kernel."""
    return lambda *cells: new_document(page, jupyter, cells)


def new_document(page: Page, jupyter: Jupyter, cells: Sequence[str]) -> Document:
    from tests.e2e.documents import Document

    name = f"{next(NUMBERS)}/houses.ipynb"
    jupyter.write(name, *cells)
    document = Document(page, jupyter, name)
    document.open()
    return document


@pytest.fixture(scope="module")
def study(context: BrowserContext, jupyter: Jupyter) -> Iterator[Document]:
    """A notebook for all tests of a module that only look: it has run."""
    with watched(context, jupyter) as page:
        document = new_document(page, jupyter, STUDY)
        document.run(*range(1, len(STUDY) - 1))
        yield document


@pytest.fixture
def panel(study: Document) -> Panel:
    """A fresh panel over that notebook's history."""
    number = len(STUDY) - 1
    study.run(number)
    return study.panel(number).ready()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures are kept: a temporary folder, or the one that AGENT_KERNEL_SCREENSHOTS names."""
    folder = Path(os.environ.get("AGENT_KERNEL_SCREENSHOTS") or tmp_path_factory.mktemp("pictures"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def photograph(app: App, pictures: Path) -> Photograph:
    """`photograph("busy", panel.root)`: keep a picture of a page or of a part of it."""

    def take(name: str, of: Page | Locator) -> None:
        of.screenshot(path=pictures / f"{name}-{app}.png", animations="disabled")

    return take
