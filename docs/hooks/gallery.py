"""The studies of the gallery, each folded, as their notebooks have them: the docs do not run them, which takes too long."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
PAGE = "tutorial/gallery.md"
_MARK = re.compile(r"<!-- the cells of ([\w-]+) -->")
_HEADING = re.compile(r"^##+ (.+)$", re.MULTILINE)


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Called by mkdocs for each page: put the cells of each study where its mark stands."""
    if page.file.src_uri != PAGE:
        return markdown
    filled, count = _MARK.subn(lambda found: _study(found[1]), markdown)
    assert count, f"{PAGE} has lost its marks"
    return filled


def _study(name: str) -> str:
    notebook = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    cells = "\n\n".join(_cell(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"])
    return f'<details markdown="1">\n<summary>The notebook, without its outputs</summary>\n\n{cells}\n\n</details>'


def _cell(kind: str, source: str) -> str:
    if kind == "code":
        return f"````python\n{source}\n````"
    # The page has a title for each study, and its table of contents has no room for those of the cells.
    text = source.partition("\n")[2] if source.startswith("# ") else source
    return _HEADING.sub(r"**\1**", text)
