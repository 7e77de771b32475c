"""Keep the code of notebook functions so that a later process, or a later Python, can have it back.

A definition is one code object: its bytecode, the Python it was compiled by, and the source of the top-level statement
it came from. Bytecode of another minor version crashes the interpreter, so a different Python recompiles the source
(`recompiling`). File names and line numbers are taken relative to that statement, so that running the same text again
gives the same definition.
"""

from __future__ import annotations
import __future__

import ast
import linecache
import marshal
import sys
from collections.abc import Mapping
from types import CodeType
from typing import NewType

import msgspec
from blake3 import blake3

from agent_kernel.values.executed import executed_text, holds

DefinitionId = NewType("DefinitionId", bytes)
PYTHON = (sys.version_info.major, sys.version_info.minor)


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One code object. `line` counts from the first line of `source`, starting at 1.

    `future` are the compiler's flags of `from __future__ import …`, which stood in another statement of the cell.
    """

    name: str
    line: int
    column: int
    python: tuple[int, int]
    code: bytes
    source: str = ""
    future: int = 0


class NoSourceError(ValueError):
    """The code was compiled by another Python and its source was not known."""


# Code objects compare by content, slowly; identity with the object held is what makes this lookup quick and safe.
_known: dict[int, tuple[CodeType, DefinitionId, bytes]] = {}
_statements: dict[tuple[str, int], list[tuple[int, int]]] = {}
_encoder = msgspec.msgpack.Encoder(order="deterministic")


def define(code: CodeType, namespace: Mapping[str, object] | None = None) -> tuple[DefinitionId, bytes]:
    """Return the id and the stored bytes of a code object; the same text gives the same id.

    Args:
        namespace: the notebook's variables, where the text of executed code may still be found.
    """
    known = _known.get(id(code))
    if known is None:
        known = remember(code, _encode(code, namespace or {}))
    return known[1], known[2]


def remember(code: CodeType, payload: bytes) -> tuple[CodeType, DefinitionId, bytes]:
    """From now on this code object is saved as this definition, whatever its bytecode is."""
    known = _known[id(code)] = (code, DefinitionId(blake3(payload).digest()), payload)
    return known


def compiled(payload: bytes) -> CodeType:
    """Return the code object of stored bytes, recompiled where another Python made them.

    Raises:
        NoSourceError: made by another Python minor version, and no source was kept or it no longer compiles to it.
    """
    definition = decode(payload)
    filename = _filename(definition.source, definition.code)
    if definition.python == PYTHON:
        code: CodeType = marshal.loads(definition.code)
    else:
        from agent_kernel.values.recompiling import recompile

        code = recompile(definition, filename)
    if definition.source and filename not in linecache.cache:
        lines = definition.source.splitlines(keepends=True)
        linecache.cache[filename] = (len(definition.source), None, lines, filename)
    remember(code, payload)
    return code


def decode(payload: bytes) -> Definition:
    """What stored bytes say of a code object, which need not be of this Python."""
    return msgspec.msgpack.decode(payload, type=Definition)


def names_used(code: CodeType) -> set[str]:
    """Every global, attribute and builtin name in the code and in the functions nested in it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if type(constant) is CodeType:
            names |= names_used(constant)
    return names


def _encode(code: CodeType, namespace: Mapping[str, object]) -> bytes:
    source, first = _statement(code, namespace)
    filename = _filename(source, code.co_code + code.co_qualname.encode())
    shifted = _relocate(code, filename, first - 1)
    # Version 2: later ones write reference counts into the bytes, so that equal code would differ.
    bytecode = marshal.dumps(shifted, 2)
    line, column = shifted.co_firstlineno, column_of(shifted, source)
    future = code.co_flags & _FUTURE_FLAGS
    return _encoder.encode(Definition(code.co_qualname, line, column, PYTHON, bytecode, source, future))


_FUTURE_FLAGS = __future__.annotations.compiler_flag


def column_of(code: CodeType, source: str) -> int:
    """Where the code's first expression stands, which tells two lambdas of one line apart."""
    found = min((column for _, _, column, _ in code.co_positions() if column), default=0)
    if found or not source or code.co_name != "<lambda>":
        return found
    # From Python 3.12 on, a lambda that gives a constant has no instruction with a place of its own.
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]
    except (SyntaxError, ValueError):
        return found
    same = (node for node in nodes if node.lineno == code.co_firstlineno and _gives(node, code))
    return next((node.body.col_offset for node in same), found)


def _gives(node: ast.Lambda, code: CodeType) -> bool:
    """Whether this is a lambda of the same parameters that gives the same constant."""
    inner = compile(ast.Expression(node), "", "eval", dont_inherit=True).co_consts
    return any(
        type(made) is CodeType and (made.co_varnames, repr(made.co_consts)) == (code.co_varnames, repr(code.co_consts))
        for made in inner
    )


def _filename(source: str, fallback: bytes) -> str:
    return f"<cell {blake3(source.encode('utf-8', 'surrogatepass') or fallback).hexdigest(length=6)}>"


def _relocate(code: CodeType, filename: str, lines_before: int) -> CodeType:
    constants = tuple(
        _relocate(constant, filename, lines_before) if type(constant) is CodeType else constant
        for constant in code.co_consts
    )
    first = max(1, code.co_firstlineno - lines_before)
    return code.replace(co_filename=filename, co_firstlineno=first, co_consts=constants)


def _statement(code: CodeType, namespace: Mapping[str, object]) -> tuple[str, int]:
    """The text of the top-level statement that holds the code, and the line where it starts (0: not known)."""
    lines = linecache.getlines(code.co_filename)
    # From Python 3.13 on, what follows `python -c` has the file name that all executed text has.
    if not lines or (code.co_filename == "<string>" and not holds("".join(lines), code)):
        lines = executed_text(code, namespace).splitlines(keepends=True)
    for first, last in _spans(code.co_filename, lines) if lines else ():
        if first <= code.co_firstlineno <= last:
            return "".join(lines[first - 1 : last]), first
    return "", 1


def _spans(filename: str, lines: list[str]) -> list[tuple[int, int]]:
    text = "".join(lines)
    key = (filename, hash(text))
    if key not in _statements:
        if len(_statements) > 4096:
            _statements.clear()
        try:
            body = ast.parse(text).body
        except (SyntaxError, ValueError):  # the file changed under us, or holds IPython syntax
            body = []
        _statements[key] = [(_first_line(node), node.end_lineno or node.lineno) for node in body]
    return _statements[key]


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
