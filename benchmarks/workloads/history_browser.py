"""What a person waits for who opens the panel over ten thousand commits, in JupyterLab, in a real browser."""

from __future__ import annotations

import compileall
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.bench import ROOT, Bench
from benchmarks.tables import Row, Table, ms, size
from tests.e2e.programs import chromium

if TYPE_CHECKING:
    from tests.e2e.browser import Browser, Page, Response
    from tests.e2e.documents import Panel
    from tests.e2e.jupyter import Jupyter

_BUILD = "import sys, pathlib; from benchmarks import histories; histories.build_at(pathlib.Path(sys.argv[1]), int(sys.argv[2]))"
# The time from a key or a click to the first picture after something has come that it asked for.
_WATCH = """([event, wanted]) => {
    window.waited = null
    document.addEventListener(event, () => {
        const began = performance.now()
        const isThere = new Function(`return ${wanted}`)
        const look = () => isThere()
            ? requestAnimationFrame(() => { window.waited = performance.now() - began })
            : requestAnimationFrame(look)
        look()
    }, {capture: true, once: true})
}"""
_SHOWN = "document.querySelector('.ak-panel .ak-row .ak-s')"
# The output is emptied first, so that these rows are new ones.
_AGAIN = "(window.was ??= document.querySelector('.ak-list')) !== document.querySelector('.ak-list') && " + _SHOWN
_MIDDLE = "[...document.querySelectorAll('.ak-row:not(.ak-waiting)')].some(row => row.dataset.at > {})"


def run(bench: Bench) -> Table:
    """Open the panel, count what stands in the page, click rows, jump to the middle."""
    commits = 2_000 if bench.quick else 10_000
    table = Table(f"The panel over {commits:,} commits (JupyterLab in Chromium)")
    if find_spec("playwright") is None or find_spec("jupyterlab") is None:
        table.notes.append("not measured: playwright or jupyterlab is not installed (make bench installs both)")
        return table
    if chromium() is None:
        table.notes.append("not measured: Chromium was not found")
        return table
    from tests.e2e import browser
    from tests.e2e.jupyter import Jupyter

    compileall.compile_dir(ROOT / "agent_kernel", quiet=2)  # as pip leaves it, wherever no bytecode is written
    with tempfile.TemporaryDirectory(prefix="agent-kernel-bench-", dir=bench.folder) as home:
        jupyter = Jupyter("lab", Path(home))
        try:
            jupyter.wait()
            with browser.opened() as opened:
                table.rows += _rows(_measure(jupyter, opened, commits))
        finally:
            jupyter.stop()
    return table


def _measure(jupyter: Jupyter, browser: Browser, commits: int) -> dict[str, float]:
    from tests.e2e.documents import Document

    notebook = jupyter.write("houses.ipynb", "%agent history")
    store = notebook.parent / ".agent-kernel" / "houses"
    build = [sys.executable, "-c", _BUILD, str(store), str(commits)]
    subprocess.run(build, check=True, env=jupyter.environment(), cwd=ROOT)
    page = browser.new_page(viewport={"width": 1300, "height": 1000})
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer) if "/agent-kernel/" in answer.url else None)
    document = Document(page, jupyter, notebook.name)
    document.open()
    page.evaluate(_WATCH, ["keydown", _SHOWN])
    document.start(1)
    panel = document.panel(1).ready()
    found = {"first": _waited(page), "rows": float(page.locator(".ak-row").count())}
    document.finish(1)
    found["sent"] = float(sum(len(answer.body()) for answer in answers))
    page.evaluate(_WATCH, ["keydown", _AGAIN])
    document.run(1)
    found["again"] = _waited(page)
    found["click"] = median(_click(page, panel, number) for number in range(3, 8))
    page.evaluate(_WATCH, ["scroll", _MIDDLE.format(commits // 3)])
    panel.list.evaluate("list => { list.scrollTop = list.scrollHeight / 2 }")
    found["jump"] = _waited(page)
    found["rows"] = max(found["rows"], page.locator(".ak-row").count())
    page.close()
    jupyter.end_kernels()
    return found


def _click(page: Page, panel: Panel, number: int) -> float:
    """Seconds from the click on a row to its details."""
    row = panel.rows.nth(number)
    name = row.locator(".ak-n").inner_text()
    page.evaluate(_WATCH, ["click", f"document.querySelector(`[aria-label='Details of {name}'] [role=tabpanel] > *`)"])
    row.locator(".ak-n").click()
    return _waited(page)


def _waited(page: Page) -> float:
    page.wait_for_function("() => window.waited !== null")
    waited: float = page.evaluate("() => window.waited")
    return waited / 1e3


def _rows(found: dict[str, float]) -> list[Row]:
    limits = (("first", "from the key to the first rows", 1.0), ("click", "from a click to the details", 0.3))
    rows = [
        Row(what, ms(found[key]), f"< {ms(limit_s)}", found[key] < limit_s, numbers={"seconds": found[key]})
        for key, what, limit_s in limits
    ]
    rows.insert(1, Row("the same, once more", ms(found["again"]), numbers={"seconds": found["again"]}))
    rows.append(Row("from a jump to the middle to its rows", ms(found["jump"]), numbers={"seconds": found["jump"]}))
    rows.append(
        Row("rows in the page", f"{found['rows']:.0f}", "< 40", found["rows"] < 40, numbers={"n": found["rows"]})
    )
    sent = found["sent"]
    rows.append(Row("sent at first", size(sent), "< 50 KB", sent < 50_000, numbers={"b": sent}))
    return rows
