"""The docs have a place for every page, every public name and every command, and the maps name modules that exist."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml

import agent_kernel
from agent_kernel.commands.scope import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GROUPS = {"Tutorial": "tutorial", "How-to": "how-to", "Reference": "reference", "Explanation": "explanation"}


@pytest.fixture(scope="module")
def commands() -> ModuleType:
    """The hook that makes the reference of the commands."""
    spec = spec_from_file_location("commands", DOCS / "hooks" / "commands.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_page_is_in_the_navigation_once_and_in_the_folder_of_its_group() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    listed: list[str] = []
    for title, pages in (item for group in nav for item in group.items()):
        found = [pages] if isinstance(pages, str) else pages
        listed += found
        if title in GROUPS:
            assert {Path(page).parent.name for page in found} == {GROUPS[title]}
    assert set(GROUPS) <= {title for group in nav for title in group}
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.glob("**/*.md"))


def test_the_reference_of_the_api_has_every_public_name_once() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^::: agent_kernel\.(\w+)$", page, re.MULTILINE)) == sorted(agent_kernel.__all__)


def test_the_reference_of_the_commands_has_the_help_of_each(commands: ModuleType) -> None:
    page = commands.filled((DOCS / "reference" / "commands.md").read_text(encoding="utf-8"))
    alone = [name for name, verb in COMMANDS.items() if verb.needs == "store"]
    heads = re.findall(r"^### `(.+)`$", page, re.MULTILINE)
    assert heads == [
        "%%agent",
        *(f"%agent {name}" for name in COMMANDS),
        *(f"agent-kernel {name}" for name in [*alone, "open", "reproduce", "worker", "key", "install", "mcp"]),
    ]
    helps = re.findall(r"^```text\nusage: (.+)$", page, re.MULTILINE)
    assert len(helps) == len(heads)
    assert all(said.startswith(head) for head, said in zip(heads, helps, strict=True))


def test_the_help_does_not_depend_on_the_terminal(commands: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    narrow = commands.filled(commands.MARK)
    monkeypatch.setenv("COLUMNS", "200")
    assert commands.filled(commands.MARK) == narrow


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "design/000-map.md"])
def test_the_modules_that_a_map_names_exist(page: str) -> None:
    named = re.findall(r"`([a-z]+(?:/[\w.]+)+/?)`", (ROOT / page).read_text(encoding="utf-8"))
    ours = [name for name in named if (ROOT / "agent_kernel" / name.partition("/")[0]).is_dir()]
    assert len(ours) > 20
    folder = ROOT / "agent_kernel"
    assert [name for name in ours if not ((folder / name).exists() or (folder / f"{name}.py").exists())] == []
