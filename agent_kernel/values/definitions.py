"""Keep the code of notebook functions so that a later process, or a later Python, can have it back.

A definition is one code object: its bytecode, the Python it was compiled by, and the source of the top-level statement
it came from. Bytecode of another minor version crashes the interpreter, so a different Python recompiles the source and
finds the code object again by its qualified name and place. File names and line numbers are taken relative to that
statement, so that running the same text again gives the same definition.
"""

from __future__ import annotations

import ast
import linecache
import marshal
import sys
from types import CodeType
from typing import NewType

import msgspec
from blake3 import blake3

DefinitionId = NewType("DefinitionId", bytes)
PYTHON = (sys.version_info.major, sys.version_info.minor)


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """One code object. `line` counts from the first line of `source`, starting at 1."""

    name: str
    line: int
    column: int
    python: tuple[int, int]
    code: bytes
    source: str = ""


class NoSourceError(ValueError):
    """The code was compiled by another Python and its source was not known."""


# Code objects compare by content, slowly; identity with the object held is what makes this lookup quick and safe.
_known: dict[int, tuple[CodeType, DefinitionId, bytes]] = {}
_statements: dict[tuple[str, int], list[tuple[int, int]]] = {}
_encoder = msgspec.msgpack.Encoder(order="deterministic")


def define(code: CodeType) -> tuple[DefinitionId, bytes]:
    """Return the id and the stored bytes of a code object; the same text gives the same id."""
    known = _known.get(id(code))
    if known is None:
        payload = _encode(code)
        known = _known[id(code)] = (code, DefinitionId(blake3(payload).digest()), payload)
    return known[1], known[2]


def compiled(payload: bytes) -> CodeType:
    """Return the code object of stored bytes, recompiled where another Python made them.

    Raises:
        NoSourceError: made by another Python minor version, and no source was kept or it no longer compiles to it.
    """
    definition = msgspec.msgpack.decode(payload, type=Definition)
    filename = _filename(definition.source, definition.code)
    if definition.python == PYTHON:
        code: CodeType = marshal.loads(definition.code)
    else:
        code = _recompile(definition, filename)
    if definition.source and filename not in linecache.cache:
        lines = definition.source.splitlines(keepends=True)
        linecache.cache[filename] = (len(definition.source), None, lines, filename)
    known_id = DefinitionId(blake3(payload).digest())
    _known[id(code)] = (code, known_id, payload)
    return code


def names_used(code: CodeType) -> set[str]:
    """Every global, attribute and builtin name in the code and in the functions nested in it."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if type(constant) is CodeType:
            names |= names_used(constant)
    return names


def _encode(code: CodeType) -> bytes:
    source, first = _statement(code)
    filename = _filename(source, code.co_code + code.co_qualname.encode())
    shifted = _relocate(code, filename, first - 1)
    # Version 2: later ones write reference counts into the bytes, so that equal code would differ.
    bytecode = marshal.dumps(shifted, 2)
    return _encoder.encode(
        Definition(code.co_qualname, shifted.co_firstlineno, _column(shifted), PYTHON, bytecode, source)
    )


def _column(code: CodeType) -> int:
    """Where the code's first expression stands, which tells two lambdas of one line apart."""
    return min((column for _, _, column, _ in code.co_positions() if column), default=0)


def _filename(source: str, fallback: bytes) -> str:
    return f"<cell {blake3(source.encode('utf-8', 'surrogatepass') or fallback).hexdigest(length=6)}>"


def _relocate(code: CodeType, filename: str, lines_before: int) -> CodeType:
    constants = tuple(
        _relocate(constant, filename, lines_before) if type(constant) is CodeType else constant
        for constant in code.co_consts
    )
    first = max(1, code.co_firstlineno - lines_before)
    return code.replace(co_filename=filename, co_firstlineno=first, co_consts=constants)


def _statement(code: CodeType) -> tuple[str, int]:
    """The text of the top-level statement that holds the code, and the line where it starts (0: not known)."""
    lines = linecache.getlines(code.co_filename)
    if not lines:
        return "", 1
    for first, last in _spans(code.co_filename, lines):
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


def _recompile(definition: Definition, filename: str) -> CodeType:
    made_by = ".".join(map(str, definition.python))
    if not definition.source:
        raise NoSourceError(f"{definition.name} was compiled by Python {made_by} and its source is not known")
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        module = compile(definition.source, filename, "exec", flags=flags, dont_inherit=True)
    except SyntaxError as error:
        raise NoSourceError(f"{definition.name} was written for Python {made_by}: {error}") from error
    matches = [code for code in _nested(module) if code.co_qualname == definition.name]
    if not matches:
        raise NoSourceError(f"{definition.name} is not in the source that Python {made_by} compiled it from")

    def distance(code: CodeType) -> tuple[int, int]:
        return abs(code.co_firstlineno - definition.line), abs(_column(code) - definition.column)

    return min(matches, key=distance)


def _nested(code: CodeType) -> list[CodeType]:
    inner = [constant for constant in code.co_consts if type(constant) is CodeType]
    return [*inner, *(deeper for child in inner for deeper in _nested(child))]
