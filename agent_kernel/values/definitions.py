"""Keep the code of notebook functions so that a later process, or a later Python, can have it back.

A definition is one code object: its bytecode, the Python it was compiled by, and the source of the top-level statement
it came from. Bytecode of another minor version crashes the interpreter, so a different Python recompiles the source
(`recompiling`). File names and line numbers are taken relative to that statement, so that running the same text again
gives the same definition.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations
import __future__

import ast
import builtins
import functools
import gc
import linecache
import marshal
import re
import sys
import types
import weakref
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from operator import call
from types import CodeType
from typing import Any, NamedTuple, NewType, NoReturn

import msgspec
from blake3 import blake3

from agent_kernel.errors import MissingCodeError

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


def load_code(payload: bytes) -> CodeType:
    """Return the code object of stored bytes, recompiled where another Python made them.

    Raises:
        NoSourceError: made by another Python minor version, and no source was kept or it no longer compiles to it.
    """
    definition = decode(payload)
    filename = _filename(definition.source, definition.code)
    if definition.python == PYTHON:
        code: CodeType = marshal.loads(definition.code)
    else:
        code = recompile(definition, filename)
    _show_source(definition, filename)
    remember(code, payload)
    return code


def _show_source(definition: Definition, filename: str) -> None:
    """Let inspect and tracebacks find the text."""
    if definition.source and filename not in linecache.cache:
        lines = definition.source.splitlines(keepends=True)
        linecache.cache[filename] = (len(definition.source), None, lines, filename)


def decode(payload: bytes) -> Definition:
    """What stored bytes say of a code object, which need not be of this Python."""
    return msgspec.msgpack.decode(payload, type=Definition)


def names_used(code: CodeType) -> set[str]:
    """Every global, attribute and builtin name in the code and in the functions nested in it.

    `ANY_NAME` is among them if the code may reach names that it does not show, and a mark from `LOOKUPS` if it does by
    one of those builtins, which the notebook may have given another meaning.
    """
    names = own_names(code)
    for constant in code.co_consts:
        if type(constant) is CodeType:
            names |= names_used(constant)
    return names


def own_names(code: CodeType) -> set[str]:
    """As `names_used`, without the functions nested in the code: what it uses itself when it runs."""
    names = set(code.co_names)
    if not names.isdisjoint(_SUSPECTS) or any(type(found) is str and found in _MODULES for found in code.co_consts):
        names |= _lookups(code)
    return names


def variables_used(code: CodeType) -> set[str]:
    """As `own_names`, without names that are only attributes in this code: what has them leads to what they give."""
    steps = _steps(code)
    assigned = {code.co_names[step.argument] for step in steps if step.does in _BINDING}
    read = {step.text for step in steps if step.does in _OF_NAMES}
    attributes = {step.text for step in steps if step.does in _OF_ATTRIBUTES}
    attributes |= {code.co_names[step.argument] for step in steps if step.does in _SETTING}
    return own_names(code) - (attributes - assigned - read)


ANY_NAME = "*"  # no name of Python's
# Builtins that reach names which the code does not show. They are no lookup where the notebook binds the name itself.
LOOKUPS = {f"*{name}": name for name in ("eval", "exec", "globals", "vars", "locals", "breakpoint")}
_BY_NAME = frozenset(LOOKUPS.values())
# The builtins themselves, and others like them, wherever they are held and whatever they are called there.
LOOKUP_IDS = frozenset(
    map(
        id,
        (
            *(getattr(builtins, name) for name in LOOKUPS.values()),
            *(gc.get_objects, gc.get_referrers, gc.get_referents),
            sys._getframe,  # pyright: ignore[reportPrivateUsage]  # its documented way to a caller's variables
        ),
    )
)
_OF_THE_CALLER = frozenset({"vars", "locals"})  # in a function, that is its own variables
_MODULES = frozenset({"__main__", "builtins"})
_DOORS = frozenset({*_MODULES, "__builtins__", "pdb", "ipdb"})
# Attributes that lead to a namespace or to every object, whatever they are read from.
# fmt: off
_REVEALING = frozenset({
    "f_globals", "f_locals", "f_back", "__globals__", "__builtins__", "_getframe", "currentframe", "_current_frames",
    "get_objects", "get_referrers", "get_referents", "pythonapi", "py_object", "user_ns", "user_global_ns",
    "user_module", "set_trace", "post_mortem", "memset", "memmove", "from_address",
})
# What of a shell leads to no variable that the call does not name.
_HARMLESS_OF_SHELL = frozenset({
    "run_line_magic", "run_cell_magic", "magic", "system", "getoutput", "sx", "config", "kernel", "events",
    "display_formatter", "set_next_input", "register_magic_function", "register_magics", "set_custom_exc", "colors",
    "execution_count", "history_manager", "input_transformers_cleanup", "input_transformers_post",
})
# fmt: on
_SUSPECTS = _BY_NAME | _DOORS | _REVEALING | {"get_ipython"}
_OF_NAMES = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_BINDING = frozenset({"STORE_NAME", "DELETE_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"})
_SETTING = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_OF_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "LOAD_SUPER_ATTR"})
_SILENT = frozenset({"CACHE", "RESUME", "EXTENDED_ARG", "NOP", "PRECALL"})


def _lookups(code: CodeType) -> set[str]:
    """How this code reaches names that it does not show, by marks.

    An attribute or a text may be spelled like a builtin without being one: `model.eval()` looks nothing up.
    """
    steps = _steps(code)
    places = [place for place, step in enumerate(steps) if step.text in _SUSPECTS or step.text in _MODULES]
    return {mark for place in places if (mark := _mark(code, steps, place))}


class _Step(NamedTuple):
    """An instruction: what it does, with which name or text, or with what else."""

    does: str
    text: str
    argument: int


def _steps(code: CodeType) -> list[_Step]:
    """The instructions that matter. A tenth of what `dis` takes, which makes an object with a place of each."""
    from opcode import EXTENDED_ARG, opname

    found: list[_Step] = []
    raw, high = code.co_code, 0
    for at in range(0, len(raw), 2):
        operation, argument = raw[at], raw[at + 1] | high
        if operation == EXTENDED_ARG:
            high = argument << 8
            continue
        high = 0
        does = opname[operation]
        if does in _SILENT:
            continue
        pending: object = None
        if does == "LOAD_CONST":
            pending = code.co_consts[argument]
        elif does in _SHIFTS:
            pending = code.co_names[argument >> _SHIFTS[does]]
        found.append(_Step(does, pending if type(pending) is str else "", argument))
    return found


# Instructions with a name, and by how many bits its number is shifted, for the others mean something else.
_SHIFTS = {
    "LOAD_NAME": 0,
    "LOAD_GLOBAL": 1,
    "LOAD_FROM_DICT_OR_GLOBALS": 0,
    "LOAD_ATTR": 0 if PYTHON < (3, 12) else 1,
    "LOAD_METHOD": 0,
    "LOAD_SUPER_ATTR": 2,
    "IMPORT_FROM": 0,
    "IMPORT_NAME": 0,
}


def _mark(code: CodeType, steps: list[_Step], place: int) -> str:
    step = steps[place]
    kind, name = step.does, step.text
    if kind in _OF_ATTRIBUTES:
        return ANY_NAME if name in _REVEALING else ""
    if kind == "IMPORT_NAME":
        return ANY_NAME if name in _DOORS else ""
    if kind == "LOAD_CONST":
        near = (steps[at] for at in (place - 1, place + 1) if 0 <= at < len(steps))
        compared = any(found.text in ("__name__", "__module__") for found in near)
        return ANY_NAME if name in _MODULES and not compared else ""
    if kind not in _OF_NAMES:
        return ""
    if name in _REVEALING:
        return ANY_NAME
    if name in _DOORS:
        return "" if _attribute_after(steps, place) not in (*_BY_NAME, *_REVEALING, "") else ANY_NAME
    if name == "get_ipython":
        pushed = [step.does for step in steps[place + 1 : place + 2]] == ["PUSH_NULL"]  # from Python 3.13 on
        got = _attribute_after(steps, place + 1 + pushed)
        return "" if got in _HARMLESS_OF_SHELL else ANY_NAME
    if name not in _BY_NAME or (name in _OF_THE_CALLER and _is_of_another(code, steps, place)):
        return ""
    return f"*{name}"


def _attribute_after(steps: list[_Step], place: int) -> str:
    after = steps[place + 1] if place + 1 < len(steps) else None
    return after.text if after is not None and after.does in _OF_ATTRIBUTES else ""


def _is_of_another(code: CodeType, steps: list[_Step], place: int) -> bool:
    """Whether `vars` or `locals` is called here and gives something else than the notebook's variables."""
    beside = place + 1 if PYTHON >= (3, 13) else place - 1  # what is called comes before the null, or after it
    pushed = 0 <= beside < len(steps) and steps[beside].does == "PUSH_NULL"
    called = pushed or (steps[place].does == "LOAD_GLOBAL" and bool(steps[place].argument & 1))
    if not called:
        return False
    if code.co_name != "<module>":
        return True
    after = [step.does for step in steps[place + 1 :] if step.does != "PUSH_NULL"]
    call = next((does for does in after if does.startswith("CALL")), "")
    return after[:1] != [call] and call != "CALL_FUNCTION_EX"  # what follows is its argument


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
    is_found = bool(lines) and (code.co_filename != "<string>" or holds("".join(lines), code))
    if not is_found:
        lines = find_text(code, namespace).splitlines(keepends=True)
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


# -- find the text of code that `exec` or `eval` made, which Python keeps nowhere
#
# Often it is still at hand: as a variable of the notebook, or as a literal in the cell that ran it. A text counts only
# if compiling it gives the very same code, so a wrong guess costs nothing.

_LONGEST = 200_000
_MOST_CELLS = 200
_EXECUTES = re.compile(r"\b(?:exec|eval|compile)\b")


def find_text(code: CodeType, namespace: Mapping[str, object]) -> str:
    """Find the text that gives exactly this code; "" if it is not found."""
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


# -- compile again, for this Python, what another one compiled; or stand in for it where its source is not known
#
# A code object is found again by its qualified name and its place. Names differ between versions: from 3.12 on, the body
# of a comprehension belongs to the code around it, so a lambda in one has no `<listcomp>` in its name.
#
# One function never keeps the others from loading: a stand-in has its name, defaults and closure, is saved again as what
# it stands for, and raises when it is called.

_COMPREHENSIONS = re.compile(r"<(?:list|set|dict)comp>\.(?:<locals>\.)?")


def recompile(definition: Definition, filename: str) -> CodeType:
    """The code object of the definition, made by this Python.

    Raises:
        NoSourceError: no source was kept, or it does not compile to such a code object.
    """
    made_by = ".".join(map(str, definition.python))
    if not definition.source:
        raise NoSourceError(f"{definition.name} was compiled by Python {made_by} and its source is not known")
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | definition.future
    try:
        module = compile(definition.source, filename, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise NoSourceError(f"{definition.name} was written for Python {made_by}: {error}") from error
    wanted = _COMPREHENSIONS.sub("", definition.name)
    matches = [code for code in find_nested_codes(module) if _COMPREHENSIONS.sub("", code.co_qualname) == wanted]
    if not matches:
        raise NoSourceError(f"{definition.name} is not in the source that Python {made_by} compiled it from")

    def distance(code: CodeType) -> tuple[int, int]:
        column = column_of(code, definition.source)
        return abs(code.co_firstlineno - definition.line), abs(column - definition.column)

    return min(matches, key=distance)


def find_nested_codes(code: CodeType) -> Iterator[CodeType]:
    """The code, and that of the functions in it."""
    yield code
    for constant in code.co_consts:
        if type(constant) is CodeType:
            yield from find_nested_codes(constant)


def stand_in(payload: bytes, cells: int = 0) -> CodeType:
    """Code in the place of a definition that this Python cannot run. Its text is shown where it is known.

    Args:
        cells: how many cells of a closure the function has, which its code has to name.
    """
    definition = decode(payload)
    name = definition.name.replace("<locals>.", "")
    refuse = partial(refuse_to_run, name, ".".join(map(str, definition.python)), bool(definition.source))
    filename = _filename(definition.source, definition.code)
    made = _template.replace(
        co_name=definition.name.rpartition(".")[2],
        co_qualname=definition.name,
        co_filename=filename,
        co_firstlineno=definition.line,
        co_consts=tuple(refuse if constant == _MARK else constant for constant in _template.co_consts),
        co_freevars=tuple(f"cell_{number}" for number in range(cells)),
    )
    _show_source(definition, filename)
    remember(made, payload)
    return made


def is_stand_in(code: CodeType) -> bool:
    return any(type(constant) is partial and constant.func is refuse_to_run for constant in code.co_consts)


def refuse_to_run(name: str, made_by: str, has_source: bool) -> NoReturn:
    raise MissingCodeError(name, made_by, has_source)


_MARK = "what refuses to run"
# All of it on one line, as it is shown with the first line of what it stands for.
_TEMPLATE = f"def template(*_, **__): refuse = {_MARK!r}; return refuse()"
_template = next(found for found in compile(_TEMPLATE, "", "exec").co_consts if type(found) is CodeType)


# -- code of the notebook's that something written in C keeps where the garbage collector does not see it
#
# An object knows how many references to it there are. Those that no object which the collector knows accounts for are kept
# out of its sight: functions for queries of a database, for one.

# What is looked at here is of any type.


_found: dict[int, tuple[Hashable, list[Callable[[], object]]]] = {}


def unseen_callbacks(keeper: object, mark: Hashable, namespace: dict[str, object]) -> list[object]:
    """Functions, methods and the like that are kept out of sight.

    Args:
        mark: what the keeper says of what it keeps. To look takes as long as a collection: not again while this, and
            what was found, are the same.
    """
    known, refs = _found.get(id(keeper), (None, []))
    found = list(map(call, refs))
    if known != (mark, len(found)) or None in found:
        found = _look(namespace)
        _found[id(keeper)] = (mark, len(found)), list(map(_weakly, found))
    return found


def _weakly(value: object) -> Callable[[], object]:
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _look(namespace: dict[str, object]) -> list[object]:
    binding_counts: Counter[int] = Counter(map(id, namespace.values()))
    functions = [one for one in gc.get_referrers(namespace) if type(one) is types.FunctionType]
    methods = [one for one in gc.get_objects() if type(one) is types.BuiltinFunctionType and _is_of_container(one)]
    candidates = _with_more([*functions, *methods], binding_counts)
    del functions, methods
    found: dict[int, object] = {}
    for _ in range(_WRAPPED):
        unseen, wrappers = _split(candidates)
        found |= {id(one): one for one in unseen}
        candidates = [one for one in wrappers if id(one) not in found]
        if not candidates:
            break
    return list(found.values())


_WRAPPED = 3  # a function in a method in a partial
_WRAPPERS = frozenset(map(id, (types.MethodType, functools.partial)))
_CONTAINERS = frozenset(map(id, (list, dict, set, bytearray, deque)))


def _is_of_container(method: Any) -> bool:
    return id(type(method.__self__)) in _CONTAINERS


def _with_more(functions: list[Any], binding_counts: Counter[int]) -> list[Any]:
    """Those that not only the notebook's variables have."""
    counts = list(map(sys.getrefcount, functions))
    return [one for one, count in zip(functions, counts, strict=True) if count > _COUNTED + binding_counts[id(one)]]


# The list, and getrefcount's argument.
_COUNTED = 2


def _split(candidates: list[Any]) -> tuple[list[object], list[object]]:
    """Those with references that no object accounts for, and what wraps one of the others."""
    referrers = _referrers(candidates)  # first: from Python 3.13 on, the arguments of that very call are among them
    counts = list(map(sys.getrefcount, candidates))
    explained: Counter[int] = Counter()
    wrappers: list[object] = []
    ids = set(map(id, candidates))
    for holder in referrers:
        explained.update(item for item in map(id, gc.get_referents(holder)) if item in ids)
        if id(type(holder)) in _WRAPPERS:
            wrappers.append(holder)
    # `asked` is among the referrers; getrefcount's argument is not.
    unseen = [one for one, count in zip(candidates, counts, strict=True) if count - 1 > explained[id(one)]]
    return unseen, wrappers


def _referrers(candidates: Iterable[Any]) -> list[Any]:
    return gc.get_referrers(*candidates) if candidates else []
