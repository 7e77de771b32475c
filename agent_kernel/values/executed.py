"""Find the text of code that `exec` or `eval` made, which Python keeps nowhere.

Often it is still at hand: as a variable of the notebook, or as a literal in the cell that ran it. A text counts only
if compiling it gives the very same code, so a wrong guess costs nothing.
"""

from __future__ import annotations

import ast
import linecache
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from types import CodeType

_LONGEST = 200_000
_MOST_CELLS = 200
_EXECUTES = re.compile(r"\b(?:exec|eval|compile)\b")


def executed_text(code: CodeType, namespace: Mapping[str, object]) -> str:
    """The text that gives exactly this code; "" if it is not found."""
    if code.co_qualname.startswith("__create_fn__."):  # a dataclass makes it again by itself
        return ""
    word = "lambda" if code.co_name == "<lambda>" else code.co_name
    for text in _texts(namespace, word):
        if holds(text, code):
            return text
    return ""


def _texts(namespace: Mapping[str, object], word: str) -> Iterator[str]:
    for value in list(namespace.values()):
        if type(value) is str and len(value) <= _LONGEST and word in value:
            yield value
    cells = (name for name in reversed(list(linecache.cache)) if name.startswith("<") or "ipykernel" in name)
    for filename in islice(cells, _MOST_CELLS):
        cell = "".join(linecache.getlines(filename))
        if word in cell and len(cell) <= _LONGEST and _EXECUTES.search(cell):
            yield from _literals(cell, word)


def _literals(cell: str, word: str) -> Iterator[str]:
    try:
        nodes = list(ast.walk(ast.parse(cell)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Constant) and type(node.value) is str and word in node.value:
            yield node.value


def holds(text: str, code: CodeType) -> bool:
    """Whether compiling the text gives this very code somewhere."""
    try:
        module = compile(text, code.co_filename, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return _is_below(module, code)


def _is_below(outer: CodeType, code: CodeType) -> bool:
    inner = [constant for constant in outer.co_consts if type(constant) is CodeType]
    return code in inner or any(_is_below(child, code) for child in inner)
