"""The panels' JavaScript: it loads, and its own tests pass. `make types` checks its types.

Node is a development tool only: where it is not found these tests say so and are skipped. The tests that make elements need
happy-dom; `make widgets` and `make test` bring it where npm is, and CI always has it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

WIDGETS = Path(__file__).parents[2] / "widgets"
SOURCES = sorted(
    path
    for folder in ("board", "history", "lab", "shared")
    for path in (WIDGETS / folder).glob("*.js")
    if path.name != "remoteEntry.js"  # a script for pages, no module
)
STYLES = sorted((WIDGETS / "history").glob("*.css"))
NODE = shutil.which("node")

needs_node = pytest.mark.skipif(NODE is None, reason="node is not found: the panels' JavaScript was not run")


def node(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert NODE is not None
    return subprocess.run([NODE, *map(str, arguments)], cwd=WIDGETS, capture_output=True, text=True, timeout=110)


@needs_node
def test_every_source_loads_and_touches_no_page_while_it_does() -> None:
    names = [f"./{path.relative_to(WIDGETS).as_posix()}" for path in SOURCES]
    script = (
        f"for (const name of {names}) await import(name).catch((e) => {{ throw new Error(name + ': ' + e.stack) }});"
    )
    loaded = node("--input-type=module", "-e", script)
    assert loaded.returncode == 0, loaded.stderr


@needs_node
def test_the_javascript_tests_pass() -> None:
    # All of them in one process: each would load the page that they are run in, which takes longer than its tests.
    files = sorted(path.name for path in (WIDGETS / "tests").glob("*.test.js"))
    ran = node(
        "--test-reporter=tap", "--input-type=module", "-e", "".join(f'import "./tests/{name}";\n' for name in files)
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert re.search(r"^# fail 0$", ran.stdout, re.MULTILINE)
    assert re.search(r"^# pass [1-9]", ran.stdout, re.MULTILINE)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_source_hands_markup_to_the_page(source: Path) -> None:
    code = source.read_text("utf-8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", code)
    assert "srcdoc" not in code or source.name == "sandbox.js"


@pytest.mark.parametrize("source", [*SOURCES, *STYLES], ids=lambda path: path.name)
def test_every_class_of_the_panel_starts_with_ak(source: Path) -> None:
    text = re.sub(r"/\*.*?\*/", "", source.read_text("utf-8"), flags=re.DOTALL)
    if source.suffix == ".css":
        named = re.findall(r"\.([a-zA-Z][\w-]*)(?=[^{}]*\{)", re.sub(r"\{[^{}]*\}", "{}", text))
    else:
        named = [name for value in re.findall(r'class(?:Name)?: ["`]([^"`$]*)', text) for name in value.split()]
    assert [name for name in named if not name.startswith("ak-")] == []


def test_styles_take_their_colours_from_the_theme() -> None:
    for style in STYLES:
        text = re.sub(r"/\*.*?\*/", "", style.read_text("utf-8"), flags=re.DOTALL)
        loose = re.findall(r"^(?!\s*--ak-).*(?:#[0-9a-fA-F]{3,8}\b|rgba?\().*$", text, re.MULTILINE)
        # Pictures are paper: white in every theme.
        assert [line.strip() for line in loose if line.strip() != "background: #fff;"] == [], style.name
