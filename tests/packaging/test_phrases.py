"""What a user reads is plain English: phrases that had to be read twice do not come back.

Looked at are the README and the other pages, the notebooks, the texts in the package, docstrings of what has a public
name, and the labels of the panels. `docs/glossary.md` says what to write instead, so it alone may quote them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PHRASES = (
    "are no commits",
    "are none",
    "is no code",
    "is no commit",
    "is no model",
    "is no python",
    "is none",
    "is to be told",
    "it is no",
    "it is to be",
    "not to be had",
    "of which none",
    "that are none",
    "that is no",
    "this is no",
    "to be had any more",
    "unless told",
    "what there is",
    "whose earlier steps",
    "whose every",
)
_FOUND = re.compile(rf"\b(?:{'|'.join(map(re.escape, PHRASES))})\b")
_FINE = re.compile(r"\bNone\b|\bno longer\b")  # Python's None, and "it is no longer there"
PAGES = sorted(
    {
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "mkdocs.yml",
        *ROOT.glob("docs/**/*.md"),
    }
    - {ROOT / "docs" / "glossary.md"}
)
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
MODULES = sorted(ROOT.glob("agent_kernel/**/*.py"))
SCRIPTS = sorted(
    path for folder in ("board", "history", "lab", "shared") for path in ROOT.glob(f"widgets/{folder}/*.js")
)
_COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'`\w])//[^\n]*", re.DOTALL)
_LABEL = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'|`(?:[^`\\]|\\.)*`')


def found(text: str) -> list[str]:
    return [match[0] for match in _FOUND.finditer(_FINE.sub("…", " ".join(text.split())).lower())]


def module_texts(source: str) -> Iterator[tuple[int, str]]:
    """The texts that may reach a user: literals, f-strings with `…` for their values, docstrings of public names."""
    nodes = list(ast.walk(ast.parse(source)))
    private: set[int] = set()
    parts: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name.startswith("_"):
            private.update(id(inner.value) for inner in node.body[:1] if isinstance(inner, ast.Expr))
        if isinstance(node, ast.JoinedStr):
            parts.update(map(id, node.values))
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values),
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in private | parts:
            yield node.lineno, node.value


def labels(source: str) -> Iterator[tuple[int, str]]:
    plain = _COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), source)
    return ((plain[: match.start()].count("\n") + 1, match[0]) for match in _LABEL.finditer(plain))


def complaints(path: Path, texts: Iterable[tuple[int, str]]) -> list[str]:
    return [f"{path.relative_to(ROOT)}:{line}: {phrase}" for line, text in texts for phrase in found(text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_pages_are_in_plain_english(page: Path) -> None:
    paragraphs = re.split(r"(\n\s*\n)", page.read_text(encoding="utf-8"))
    lines, at = [], 1
    for paragraph in paragraphs:
        lines.append((at, paragraph))
        at += paragraph.count("\n")
    assert complaints(page, lines) == []


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_the_notebooks_are_in_plain_english(notebook: Path) -> None:
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert complaints(notebook, ((number, "".join(cell["source"])) for number, cell in enumerate(cells))) == []


def test_what_the_package_says_is_in_plain_english() -> None:
    assert len(MODULES) > 100
    assert [said for path in MODULES for said in complaints(path, module_texts(path.read_text(encoding="utf-8")))] == []


def test_the_labels_of_the_panels_are_in_plain_english() -> None:
    assert len(SCRIPTS) > 40
    assert [said for path in SCRIPTS for said in complaints(path, labels(path.read_text(encoding="utf-8")))] == []


def test_a_phrase_is_found_wherever_a_user_reads_it() -> None:
    module = '''
def public():
    """What it gives; None: there is
    none."""
    raise ValueError(f"{name} is no model here")


def _private():
    """Its header is none."""


#: this is no text
'''
    assert [(line, found(text)) for line, text in module_texts(module) if found(text)] == [
        (3, ["is none"]),
        (5, ["is no model"]),
    ]
    script = 'el("p", "that is no panel"); // this is none\n/* it is no more */ t = `${a} is none`;'
    assert [(line, found(text)) for line, text in labels(script)] == [(1, []), (1, ["that is no"]), (2, ["is none"])]
