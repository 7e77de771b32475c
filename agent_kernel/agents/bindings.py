"""Which names a piece of code binds and deletes at its top level: not within functions, classes and comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from agent_kernel.agents.events import Finding
from agent_kernel.agents.meaning import is_globals

__all__ = ["bindings", "shown"]

_LONGEST: Final = 120


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
            case ast.Delete(targets=[ast.Subscript(value=held)]) if is_globals(held):
                yield Finding("deletes", shown(node), line, risky=True)
            case _:
                pass


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
