"""What a cell's code sets and reads by name, told from its syntax alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["TIMED", "Code", "imports", "names_set", "reads", "statements", "targets"]

_MAGIC: Final = re.compile(r"^(?P<indent>\s*)(?P<target>[\w, ]+=\s*)?(?P<sign>%%?|!!?|\?)(?P<rest>.*)$")
TIMED: Final = re.compile(r"^\s*%%?(?:time|timeit|prun)\b")


class Code:
    """One cell's code as Python, with the lines of magics apart."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.magics: list[str] = []
        self.tree = self._parse(source)

    def _parse(self, source: str) -> ast.Module:
        try:
            return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError):
            pass
        lines: list[str] = []
        rows = source.split("\n")
        for at, line in enumerate(rows):
            found = _MAGIC.match(line)
            if found is None:
                lines.append(line)
                continue
            self.magics.append(line.strip())
            if found["sign"] == "%%" and not TIMED.match(line) and not found["rest"].startswith("capture"):
                if found["rest"].split(" ")[0] != "agent":
                    break  # another language from here on
                lines.append("")
                continue
            timed = (
                re.match(r"(?:time|timeit)\s+(?:-\w+\s*\d*\s+)*(?P<code>.+)", found["rest"])
                if found["sign"] == "%"
                else None
            )
            lines.append(found["indent"] + (timed["code"] if timed else "pass"))
            assert at < len(rows)
        try:
            return ast.parse("\n".join(lines))
        except (SyntaxError, ValueError, RecursionError):
            return ast.Module([], [])


def names_set(tree: ast.AST) -> set[str]:
    """Names that code binds at the level of the notebook."""
    return {name for statement in statements(tree) for name in targets(statement)}


def imports(tree: ast.AST) -> set[str]:
    """The top-level modules that code imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def statements(tree: ast.AST) -> Sequence[ast.stmt]:
    return tree.body if isinstance(tree, ast.Module) else []


def targets(statement: ast.stmt) -> set[str]:
    """Names that it sets, or whose values it may change."""
    found: set[str] = set()
    for node in _without_functions(statement):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom():
                found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            case ast.Name(ctx=ast.Store() | ast.Del()):
                found.add(node.id)
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
                found.add(_root(node))
            case ast.Expr(value=ast.Call(func=ast.Attribute() as called)):
                found.add(_root(called))  # `items.append(x)`
            case ast.ExceptHandler(name=str(name)):
                found.add(name)
            case _:
                pass
    return found - {""}


def _without_functions(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is in it, without what runs only when a function is called."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        return
    if isinstance(node, (ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return  # their names are their own
    for child in ast.iter_child_nodes(node):
        yield from _without_functions(child)


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def reads(statement: ast.AST) -> set[str]:
    """Names that it reads; those that its functions and comprehensions bind for themselves are not among them."""
    found: set[str] = set()
    own: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            (found if isinstance(node.ctx, ast.Load) else own).add(node.id)
        elif isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(node.name)
    stored = {
        node.id
        for node in _without_functions(statement)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    augmented = {
        node.target.id
        for node in ast.walk(statement)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    }
    # `x = x + 1` reads what was there before; the variable of a comprehension or of a function never was.
    plain = stored & found if isinstance(statement, (ast.Assign, ast.AnnAssign)) else set[str]()
    return (found - own) | plain | augmented
