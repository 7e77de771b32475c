"""The reference of the commands: what `--help` says of each, put into the page as the docs are built.

The page itself holds a mark where the help goes. Nothing of it is stored, so it cannot grow old.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, redirect_stdout
from typing import Any

MARK = "<!-- every command -->"
PAGE = "reference/commands.md"
_WIDTH = "100"


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Called by mkdocs for each page: fill the mark in."""
    return filled(markdown) if page.file.src_uri == PAGE else markdown


def filled(markdown: str) -> str:
    """The page with the help of every command where its mark stands."""
    assert MARK in markdown, f"{PAGE} has lost its mark {MARK}"
    with _columns(_WIDTH):
        notebook, shell = notebook_help(), shell_help()
    return markdown.replace(MARK, f"## In a notebook\n\n{_section(notebook)}\n## In a shell\n\n{_section(shell)}")


def notebook_help() -> dict[str, str]:
    """The help of `%%agent` and of every `%agent` command, by how the command is typed."""
    from agent_kernel.commands.scope import COMMANDS, parser_of
    from agent_kernel.magics.agent_cell import header_parser

    parsers = {"%%agent": header_parser()} | {f"%agent {name}": parser_of(verb) for name, verb in COMMANDS.items()}
    return {typed: _asked(parser) for typed, parser in parsers.items()}


def shell_help() -> dict[str, str]:
    """The help of every `agent-kernel` command, by how it is typed. The program itself says which there are."""
    commands = re.findall(r"^agent-kernel ([a-z]+)  ", _printed("--help"), re.MULTILINE)
    return {f"agent-kernel {command}": _printed(command, "--help") for command in commands}


def _asked(parser: Any) -> str:
    from agent_kernel.commands.scope import Helped

    try:
        parser.read(["--help"])
    except Helped as told:
        return str(told)
    raise AssertionError(f"{parser.prog} has no help")


def _printed(*words: str) -> str:
    from agent_kernel.__main__ import main

    with redirect_stdout(io.StringIO()) as out:
        status = main(words)
    assert status == 0, f"agent-kernel {' '.join(words)} ended with {status}"
    return out.getvalue()


def _section(helps: Mapping[str, str]) -> str:
    return "\n".join(f"### `{typed}`\n\n```text\n{text.strip()}\n```\n" for typed, text in helps.items())


@contextmanager
def _columns(width: str) -> Generator[None]:
    """Have argparse break lines at this width, however wide the terminal is."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = width
    try:
        yield
    finally:
        os.environ.pop("COLUMNS")
        if before is not None:
            os.environ["COLUMNS"] = before


if __name__ == "__main__":
    print(filled(MARK))
