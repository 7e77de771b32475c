"""Which names a piece of code binds, changes in place and deletes at its top level: not within functions and classes."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import Final

from agent_kernel.agents.events import Finding
from agent_kernel.agents.review.meaning import is_globals

__all__ = ["bindings", "shown"]

_LONGEST: Final = 120
# Methods that change what they are called on, of lists, dicts, sets, deques and tables.
_IN_PLACE: Final = frozenset(
    {"append", "appendleft", "clear", "difference_update", "discard", "extend", "insert", "intersection_update", "pop"}
    | {"popitem", "popleft", "reverse", "setdefault", "sort", "symmetric_difference_update", "update"}
)
_IN_PLACE_UNUSED: Final = frozenset({"add", "remove"})  # others give something back: `table.add(1)` is a new table


def bindings(tree: ast.Module, names: frozenset[str]) -> Iterator[Finding]:
    """What is written, changed and deleted.

    Args:
        names: variables that there are.
    """
    for node in _own_scope(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                yield Finding("changes" if name in names else "writes", name, line)
            case ast.Name(id=name, ctx=ast.Del()):
                yield Finding("deletes", name, line, risky=name in names)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield Finding("changes" if name in names else "writes", name, line)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) | ast.Attribute(ctx=ast.Store() | ast.Del()):
                yield from _changed(node, names, line)
            case ast.Call(func=ast.Attribute(attr=method) as called) if method in _IN_PLACE or _is_in_place(node):
                yield from _changed(called, names, line)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method) as called)) if method in _IN_PLACE_UNUSED:
                yield from _changed(called, names, line)
            case _:
                pass
        match node:
            case ast.Delete(targets=[ast.Subscript(value=held)]) if is_globals(held):
                yield Finding("deletes", shown(node), line, risky=True)
            case _:
                pass


def _changed(node: ast.expr, names: frozenset[str], line: int) -> Iterator[Finding]:
    """The variable that this is a part of, if there is one. A module is none: `os.remove` changes no variable."""
    held = node
    while isinstance(held, ast.Attribute | ast.Subscript):
        held = held.value
    if isinstance(held, ast.Name) and held.id in names and held.id not in sys.modules:
        yield Finding("changes", held.id, line)


def _is_in_place(call: ast.Call) -> bool:
    """`table.drop(…, inplace=True)`."""
    return any(
        word.arg == "inplace" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp
_ALL_SCOPES = _SCOPES | ast.GeneratorExp


def _own_scope(tree: ast.Module) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _ALL_SCOPES):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def shown(node: ast.AST) -> str:
    """A piece of code as a finding names it."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
