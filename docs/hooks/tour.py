"""The tour as a page: the notebook runs as the docs are built, and the page shows its cells with their outputs.

`notebooks/run_tour.py` runs it, as `make demo` does: nbconvert alone would not restart the kernel in the middle. Outputs
are put in after Markdown has been read, so that it never takes their HTML for its own.
"""

from __future__ import annotations

import asyncio
import html
import re
import shutil
import sys
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat

ROOT = Path(__file__).parents[2]
MARK = "<!-- the cells of the tour -->"
PAGE = "tutorial/tour.md"
_PLACE = '<div class="notebook-output" data-cell="{}"></div>'
_PLACES = re.compile(_PLACE.replace("{}", r"(\d+)"))
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Called by mkdocs for each page: put the cells where the mark stands, and a place for the outputs of each."""
    if page.file.src_uri != PAGE:
        return markdown
    assert MARK in markdown, f"{PAGE} has lost its mark {MARK}"
    return markdown.replace(MARK, "\n\n".join(_cell(index, cell) for index, cell in enumerate(executed().cells)))


def on_page_content(content: str, page: Any, **_: object) -> str:
    """Called by mkdocs with the HTML of each page: fill the places in."""
    if page.file.src_uri != PAGE:
        return content
    cells = executed().cells
    return _PLACES.sub(lambda found: _outputs(cells[int(found[1])]), content)


@cache
def executed() -> Any:
    """The notebook after a run in a kernel of its own, with its outputs."""
    sys.stderr.write("Running the tour\n")
    spec = spec_from_file_location("run_tour", ROOT / "notebooks" / "run_tour.py")
    assert spec is not None
    assert spec.loader is not None
    runner = module_from_spec(spec)
    spec.loader.exec_module(runner)
    with TemporaryDirectory() as folder:
        path = Path(shutil.copy(runner.TOUR, folder)).resolve()
        notebook: Any = nbformat.read(path, as_version=4)
        asyncio.run(runner.run(notebook, path, quiet=True))
    return notebook


def _cell(index: int, cell: Any) -> str:
    if cell.cell_type == "markdown":
        # The page has a title of its own.
        return str(cell.source).partition("\n")[2] if cell.source.startswith("# ") else str(cell.source)
    return f"````python\n{cell.source}\n````" + (f"\n\n{_PLACE.format(index)}" if cell.outputs else "")


def _outputs(cell: Any) -> str:
    return f'<div class="notebook-output">{"".join(_output(output) for output in cell.outputs)}</div>'


def _output(output: Any) -> str:
    if output.output_type == "stream":
        return _text(output.text)
    data = output.get("data", {})
    if "text/html" in data:
        return f"<div>{data['text/html']}</div>"
    if "image/png" in data:
        alt = html.escape(data.get("text/plain", ""))
        return f'<img alt="{alt}" src="data:image/png;base64,{data["image/png"]}">'
    return _text(data.get("text/plain", ""))


def _text(text: str) -> str:
    return f"<pre>{html.escape(_ANSI.sub('', text))}</pre>"
