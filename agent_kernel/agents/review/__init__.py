"""What a piece of code would do, read from it before it runs: a report for a person, and whether it has to be asked about.

It is read, not run: code can hide what it does from any reader (`dynamic` findings say where), so this helps somebody
who looks, and stops nobody who means harm. `meaning` follows names, and has the tables of what reaches outside the variables.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from typing import Final

from agent_kernel.agents.events import Finding
from agent_kernel.agents.review.meaning import (
    BROWSER,
    BUILTINS,
    COLUMN_WORDS,
    FUNCTIONS,
    HARMLESS,
    HARMLESS_DUNDERS,
    HARMLESS_TYPES,
    HIDDEN_WAYS,
    METHODS,
    MODULES,
    OPENERS,
    PYTHONS_OWN,
    READ_OF_OPEN,
    READS,
    SHOWN_AS,
    SINKS,
    SQL_LEAVES,
    SQL_READS,
    SQL_SETTINGS,
    SQL_WRITES,
    STATEMENTS,
    TALKER_WORDS,
    WHOLE_MODULES,
    WRITERS,
    WRITES,
    Meanings,
    entry_of,
    find_in_modules,
    is_getattr,
    is_globals,
    is_mapped,
    kind_of_open,
    kind_of_register,
    kind_reached,
    module_kind,
    reaches,
    words,
)
from agent_kernel.values.introspection import module_dict
from agent_kernel.values.references import is_library

# -- code as IPython takes it, without its magics: what they would do, and the Python that is left to read

# They run the code that follows them, or only look.
_RUNS_CODE: Final = frozenset({"time", "timeit", "capture", "prun"})
_LOOKS: Final = frozenset(
    [
        "matplotlib",
        "precision",
        "pwd",
        "dhist",
        "who",
        "who_ls",
        "whos",
        "pprint",
        "psearch",
        "pinfo",
        "pdoc",
        "pfile",
        "psource",
        "quickref",
        "lsmagic",
        "history",
        "hist",
        "page",
    ]
)
# A cell of one line that begins with one of these is the magic or the command of this name, also without a sign.
_AUTOMAGICS: Final = frozenset(
    word
    for line in (
        "alias alias_magic autoreload bookmark cat cd clear colors conda config cp debug doctest_mode edit env ed gui ldir less lf",
        "lk ll ln load load_ext loadpy logoff logon logstart logstate logstop ls lx macro magic mamba man micromamba mkdir more mv",
        "notebook pastebin pip popd prun pushd rehashx reload_ext rerun reset reset_selective rm rmdir run sc save set_env store sx",
        "system unload_ext uv xdel xmode agent",
    )
    for word in line.split()
)
_LONGEST: Final = 120
_ONE_WORD: Final = re.compile(r"\s*([^\W\d]\w*)(?:\s+(?![=,.:(\[])|\s*$)")
_CALLING: Final = re.compile(r"\s*[,;/]\s*[^\W\d]")  # `,os.remove x` calls it with a text
_OPTIONS = re.compile(r"^(?:\s*-\w+(?:\s*\d+)?)*\s*")
_ASSIGNED = re.compile(r"^(\s*[\w.,\s\[\]'\"]*=\s*)([!%].*)$")


def automagic(code: str, names: Container[str]) -> Finding | None:
    """A cell of one line that IPython takes for a magic or a command without its sign, as `pip install x`.

    Args:
        names: the variables there are: these go first.
    """
    word = _ONE_WORD.match(code)
    if word is None or word[1] not in _AUTOMAGICS or word[1] in names or len(code.strip().splitlines()) > 1:
        return None
    return Finding("magic", code.strip()[:_LONGEST], 1, risky=True)


def without_magics(code: str) -> tuple[str, list[Finding]]:
    """The code with its magic and shell lines taken out, and what those are. Code that a magic runs stays."""
    first, _, rest = code.lstrip().partition("\n")
    if first.startswith("%%"):
        name = first[2:].split(maxsplit=1)[0] if first[2:].strip() else ""
        if name not in _RUNS_CODE:
            return "", [Finding("magic", f"{first[:_LONGEST]}: the whole step is a cell magic", 1, risky=True)]
        body, inner = without_magics(rest)
        return "\n" + body, [Finding("magic", f"%%{name}", 1, risky=False), *inner]
    lines: list[str] = []
    found: list[Finding] = []
    for number, line in enumerate(code.splitlines(), 1):
        lines.append(_line(line, number, found))
    return "\n".join(lines), found


def _line(line: str, number: int, found: list[Finding]) -> str:
    bare = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    assigned = _ASSIGNED.match(line)
    command = bare if bare.startswith(("!", "%")) else assigned[2] if assigned else ""
    target = assigned[1] if assigned and command is not bare else indent
    if command.startswith("!"):
        found.append(Finding("shell", command[:_LONGEST], number, risky=True))
        return f"{target}None"
    if command.startswith("%") and command.lstrip("%")[:1].isalpha():
        name, _, rest = command.lstrip("%").partition(" ")
        risky = name not in _RUNS_CODE and name not in _LOOKS
        found.append(Finding("magic", command[:_LONGEST], number, risky=risky))
        runs = _OPTIONS.sub("", rest, count=1) if name in _RUNS_CODE else ""
        return f"{target}{runs or 'None'}"
    if _CALLING.match(line):
        found.append(Finding("magic", bare[:_LONGEST], number, risky=True))
        return f"{indent}None"
    if bare.endswith("?") or bare.startswith("?"):  # a look at the help
        return f"{indent}None"
    return line


# -- which names a piece of code binds, changes in place and deletes at its top level: not within functions and classes

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
                yield from _find_changed_variable(node, names, line)
            case ast.Call(func=ast.Attribute(attr=method) as called) if method in _IN_PLACE or _is_in_place(node):
                yield from _find_changed_variable(called, names, line)
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=method) as called)) if method in _IN_PLACE_UNUSED:
                yield from _find_changed_variable(called, names, line)
            case _:
                pass
        match node:
            case ast.Delete(targets=[ast.Subscript(value=held)]) if is_globals(held):
                yield Finding("deletes", shorten_code(node), line, risky=True)
            case _:
                pass


def _find_changed_variable(node: ast.expr, names: frozenset[str], line: int) -> Iterator[Finding]:
    """The variable that this is a part of, if any. A module does not count: `os.remove` changes no variable."""
    value = node
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    if isinstance(value, ast.Name) and value.id in names and value.id not in sys.modules:
        yield Finding("changes", value.id, line)


def _is_in_place(call: ast.Call) -> bool:
    """`table.drop(…, inplace=True)`."""
    return any(
        word.arg == "inplace" and isinstance(word.value, ast.Constant) and word.value.value is True
        for word in call.keywords
    )


_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp
_ALL_SCOPES = _SCOPES | ast.GeneratorExp


# What changes the items of an array in place: its own methods, and functions whose first argument it is.
_CHANGING_ITEMS: Final = frozenset(
    ["sort", "fill", "put", "partition", "itemset", "resize", "setfield", "byteswap", "setflags", "shuffle"]
)
_CHANGING_ARRAYS: Final = frozenset(["shuffle", "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"])


def _root_name(node: ast.AST) -> str:
    """The variable of which this is a part or a view: `m` of `m`, `m[2:]` and `m.T[0]`; "": of none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _written_name(node: ast.AST) -> str:
    """The variable whose items this changes in place; "": of none that can be told."""
    match node:
        case ast.AugAssign(target=target):
            return _root_name(target)
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return _root_name(node)
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in _CHANGING_ITEMS and _root_name(held):
            return _root_name(held) if method != "shuffle" or not node.args else _root_name(node.args[0])
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first, *_]) if name in _CHANGING_ARRAYS:
            return _root_name(first)
        case ast.keyword(arg="out", value=ast.Tuple(elts=[first, *_])) | ast.keyword(arg="out", value=first):
            return _root_name(first)
        case _:
            return ""


def _own_scope(tree: ast.Module) -> Iterator[ast.AST]:
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _ALL_SCOPES):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))


def shorten_code(node: ast.AST) -> str:
    """A piece of code as a finding names it."""
    text = ast.unparse(node)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


_DANGEROUS_KEYS: Final = frozenset({"__builtins__", "__import__", "__loader__", "__spec__", "__globals__"})
_PATCHED: Final = WHOLE_MODULES | {"IPython", "io"}
_ENVIRONS: Final = frozenset({"os.environ", "os.environb"})
_LOOKED_AT: Final = frozenset({"getattr", "hasattr", "dir", "help", "type", "print"})
_LOOKING_ON: Final = words(
    "globals locals vars isinstance issubclass type len list dict set sorted callable hasattr id print"
)
_LOOKING_IN: Final = words("items values keys startswith endswith getsizeof get")
_TIMED: Final = frozenset({"timeit.timeit", "timeit.repeat", "timeit.Timer"})


def review(
    code: str,
    *,
    names: Collection[str] = (),
    allowed: Collection[str] = (),
    namespace: Mapping[str, object] | None = None,
    is_gated: bool = False,
) -> tuple[Finding, ...]:
    """What the code would do, in its order, each thing once.

    Args:
        names: variables that there are: writing one of these is said apart from a new one.
        allowed: modules, and calls by dotted name, that need no asking.
        namespace: the variables themselves: what a session, a path or a function is that a cell before made.
        is_gated: a gate sees what happens, so that it tells where files of a step lie that makes temporary places.
    """
    found: dict[tuple[str, str], Finding] = {}
    variables: Mapping[str, object] = {} if namespace is None else namespace
    tree = _parse(code)
    bare = automagic(code, {*names, *variables})
    if bare is not None:
        found[bare.kind, bare.what] = bare
    if isinstance(tree, str):
        lines, magics = without_magics(code)
        for finding in magics:
            found.setdefault((finding.kind, finding.what), finding)
        tree = _parse(lines)
    if isinstance(tree, str):
        return (*found.values(), Finding("unreadable", f"{tree}: it will not run as Python", 0, risky=False))
    reader = _Reader(tree, frozenset(names), frozenset(allowed), variables, is_gated=is_gated)
    for finding in (*reader.findings(), *bindings(tree, frozenset(names))):
        found.setdefault((finding.kind, finding.what), finding)
    return tuple(found.values())


def is_risky(findings: Collection[Finding]) -> bool:
    """Whether a person who wants to be asked about risky steps has to be asked."""
    return any(finding.risky for finding in findings)


def _parse(code: str) -> ast.Module | str:
    """The code as a tree; or the name of the error that keeps it from being one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return type(error).__name__


class _Reader:
    """Goes through the code once, knowing what names stand for in it."""

    def __init__(
        self,
        tree: ast.Module,
        names: frozenset[str],
        allowed: frozenset[str],
        namespace: Mapping[str, object],
        *,
        is_gated: bool,
    ) -> None:
        self._tree = tree
        self._names = names
        self._allowed = allowed
        self._namespace = namespace
        self._meanings = Meanings(tree, namespace)
        self._leaves_to_gate = is_gated and self._meanings.makes_temporary

    def findings(self) -> Iterator[Finding]:
        called = {id(node.func) for node in ast.walk(self._tree) if isinstance(node, ast.Call)}
        based = set(self._find_inspected_names())
        reported = {id(node.value) for node in ast.walk(self._tree) if isinstance(node, ast.Expr)}
        read = set(self._read_from())
        names_alone = set(self._names_alone())
        mapped = self._mapped_names()
        attributes = {id(node.value): node.attr for node in ast.walk(self._tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(self._tree):
            line = getattr(node, "lineno", 0)
            if isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Load):
                if id(node) not in called:
                    yield from self._find_passed_function(node, line, is_based=id(node) in based)
                if id(node) not in based | reported:
                    yield from self._module_handed_on(node, line)
                if isinstance(node, ast.Name) and id(node) not in read:
                    yield from self._open(node.id, line, attributes.get(id(node), ""))
                if id(node) not in based | read:
                    yield from self._open_in_modules(node, line)
            if mapped and (name := _written_name(node)) in mapped:
                yield Finding("files", f"{name}, which is a file", line, risky=True)
            match node:
                case ast.Import(names=imported):
                    for alias in imported:
                        yield from self._import(alias.name, line)
                case ast.ImportFrom(module=module, names=imported):
                    yield from self._import_from(module or ".", [alias.name for alias in imported], line)
                case ast.Call():
                    yield from self._call(node, line)
                    if is_globals(node) and not node.args and id(node) not in names_alone:
                        yield from self._open_by_any_name(node, line)
                case _:
                    yield from self._other(node, line)

    def _mapped_names(self) -> frozenset[str]:
        """The names of arrays whose items are those of a file, and of what this code makes of them without a copy."""
        used = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}
        found = {name for name in used if is_mapped(self._namespace.get(name))}
        if found:
            for node in ast.walk(self._tree):
                if isinstance(node, ast.Assign) and _root_name(node.value) in found:
                    found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        return frozenset(found)

    def _other(self, node: ast.AST, line: int) -> Iterator[Finding]:
        match node:
            case ast.Attribute(attr=attribute) if _is_dunder(attribute) or attribute in HIDDEN_WAYS:
                yield Finding("dunder", attribute, line, risky=True)
            case ast.Attribute(ctx=ast.Store() | ast.Del(), value=value):
                if self._meanings.find_dotted_name(value).partition(".")[0] in _PATCHED:
                    yield Finding("process state", shorten_code(node), line, risky=True)
            case ast.Name(id=name) if name in _DANGEROUS_KEYS:
                yield Finding("dunder", name, line, risky=True)
            case ast.Subscript(slice=ast.Constant(value=str() as key)) if key in _DANGEROUS_KEYS:
                yield Finding("dunder", key, line, risky=True)
            case ast.Attribute(value=value, attr="_data") if self._meanings.find_dotted_name(value) in _ENVIRONS:
                yield Finding("process state", shorten_code(node), line, risky=True)
            case ast.Subscript(ctx=ast.Load()) if (entry := entry_of(node)) is not None:
                yield from self._entry(node, entry[0], line)
            case ast.Attribute(value=value, attr=attribute) if (
                attribute not in ("get", "keys", "__contains__")
                and self._meanings.find_dotted_name(value) == "sys.modules"
            ):
                yield Finding("dynamic", shorten_code(node), line, risky=True)
            case ast.Subscript(value=held, slice=key, ctx=ast.Load()) if is_globals(held):
                for name in self._meanings.whole_texts(key) or ():
                    yield from self._open(name, line)
            case ast.Call(func=ast.Attribute(value=held, attr="get"), args=[ast.Constant(value=str() as name), *_]) if (
                is_globals(held)
            ):
                yield from self._open(name, line)
            case ast.Subscript(value=value, slice=key) if self._meanings.find_dotted_name(value) == "sys.modules":
                module = self._meanings.text(key)
                if module.partition(".")[0] in ("", "os", "posix", "shutil", "builtins", *MODULES):
                    yield Finding("dynamic", shorten_code(node), line, risky=True)
            case ast.Subscript(ctx=ast.Store() | ast.Del()) if (
                self._meanings.find_dotted_name(node.value) == "os.environ"
            ):
                yield Finding("process state", shorten_code(node), line, risky=True)
            case ast.FunctionDef(name=name) if name in SHOWN_AS:
                yield Finding("browser", f"def {name}", line, risky=True)
            case ast.FunctionDef(name="__del__") | ast.Constant(value="__del__"):
                yield Finding("process state", "__del__, which runs after the step", line, risky=True)
            case ast.Raise(exc=ast.Name(id="SystemExit") | ast.Call(func=ast.Name(id="SystemExit"))):
                yield Finding("kernel", shorten_code(node), line, risky=True)
            case _:
                pass

    def _entry(self, node: ast.expr, value: ast.expr, line: int) -> Iterator[Finding]:
        """What a module has under a name: `vars(os)["remove"]`."""
        name = self._meanings.find_dotted_name(node)
        kind = FUNCTIONS.get(name) or (BUILTINS.get(name) if self._meanings.is_imported(value) else None)
        if name in OPENERS or name == "open":
            kind = "files"
        if name.endswith("…") and self._meanings.is_imported(value):
            kind = "dynamic"
        if kind and not self._is_allowed(name):
            yield Finding(kind, shorten_code(node), line, risky=True)

    def _find_inspected_names(self) -> Iterator[int]:
        """Names of modules that are but looked into, or stand under another name."""
        for node in ast.walk(self._tree):
            match node:
                case ast.Attribute(value=value):
                    yield id(value)
                case ast.Assign(targets=[ast.Name()], value=value) | ast.NamedExpr(value=value):
                    yield id(value)
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _LOOKED_AT:
                    yield id(first)
                case _:
                    pass

    def _read_from(self) -> Iterator[int]:
        """Names of what may be open, of which it is but read."""
        for node in ast.walk(self._tree):
            match node:
                case ast.Attribute(value=value, attr=attribute) if attribute in READ_OF_OPEN:
                    yield id(value)
                case ast.Call(func=ast.Attribute(value=value, attr=method)) if method in STATEMENTS:
                    yield id(value)  # what it is given says what it does
                case ast.Call(func=ast.Attribute(attr=method), args=[_, connection, *_]) if READS.fullmatch(method):
                    yield id(connection)
                case ast.Call(func=ast.Attribute(attr=method), keywords=words) if READS.fullmatch(method):
                    yield from (id(word.value) for word in words if word.arg == "con")
                case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in _LOOKED_AT:
                    yield id(first)
                case ast.Expr(value=value):
                    yield from map(id, [value, *getattr(value, "elts", ())])
                case _:
                    pass

    def _open(self, name: str, line: int, attribute: str = "") -> Iterator[Finding]:
        """A variable by which the step writes to what is open: a file, a connection.

        Args:
            attribute: of the variable, that alone is used.
        """
        if name in self._meanings.assigned or name not in self._namespace or self._is_allowed(name):
            return
        if kind := kind_of_open(self._namespace[name]):
            yield Finding(kind, f"{name}, which is open", line, risky=True)
        elif kind := kind_reached(self._namespace[name], attribute):
            yield Finding(kind, f"{name}, which writes to an open file or connection", line, risky=True)

    def _open_in_modules(self, node: ast.expr, line: int) -> Iterator[Finding]:
        """The same of what a module of the user's holds, and of what a register of Python's leads to."""
        if isinstance(node, ast.Attribute) and (kind := kind_of_register(node.attr)):
            yield Finding(kind, shorten_code(node), line, risky=True)
        if not self._meanings.is_imported(node):
            return
        value = find_in_modules(self._meanings.find_dotted_name(node))
        if value is not None and (kind := kind_of_open(value) or kind_reached(value)):
            yield Finding(kind, f"{shorten_code(node)}, which writes to an open file or connection", line, risky=True)

    def _names_alone(self) -> Iterator[int]:
        """Calls of `globals` of which no more is asked than names and types, or what goes by a name that is written there."""
        is_inert = all(_is_inert(node) for node in ast.walk(self._tree) if isinstance(node, ast.Call))
        for node in ast.walk(self._tree):
            match node:
                case ast.Subscript(value=held, slice=ast.Constant()) | ast.Attribute(value=held, attr="keys"):
                    yield id(held)
                case ast.Subscript(value=held, ctx=ast.Store() | ast.Del()):
                    yield id(held)
                case ast.Call(func=ast.Attribute(value=held, attr="get"), args=[ast.Constant(), *_]):
                    yield id(held)
                case ast.Attribute(value=held, attr="items" | "values") if is_inert:
                    yield id(held)
                case ast.Attribute(value=held, attr="update" | "setdefault" | "__contains__"):
                    yield id(held)
                case ast.For(iter=held) | ast.comprehension(iter=held) | ast.Compare(comparators=[held]):
                    yield id(held)
                case ast.Call(func=ast.Name(id="list" | "sorted" | "len" | "set" | "print"), args=[held, *_]):
                    yield id(held)
                case _:
                    pass

    def _open_by_any_name(self, node: ast.expr, line: int) -> Iterator[Finding]:
        """All variables, by names that only running the code tells."""
        for name, value in list(self._namespace.items()):
            if not self._is_allowed(name) and (kind := kind_of_open(value)):
                yield Finding(kind, f"{shorten_code(node)}, while {name} is open", line, risky=True)
                return

    def _module_handed_on(self, node: ast.expr, line: int) -> Iterator[Finding]:
        """A module that reaches outside and goes where it is not followed: `attrgetter(name)(os)`."""
        name = self._meanings.find_dotted_name(node)
        is_module = name in WHOLE_MODULES or (name in MODULES and self._meanings.is_imported(node))
        if is_module and not self._is_allowed(name):
            yield Finding("dynamic", f"{name}, handed on", line, risky=True)

    def _find_passed_function(self, node: ast.expr, line: int, *, is_based: bool) -> Iterator[Finding]:
        """A function that reaches outside and is not called here: somebody else will, as `map(os.remove, files)` does.

        Args:
            is_based: it is but looked into, or stands under another name.
        """
        name = self._meanings.find_dotted_name(node)
        own = self._meanings.assigned | self._names
        kind = FUNCTIONS.get(name) or (BUILTINS.get(name) if name not in own else None)
        if name == "open" and name not in own:
            kind = "files"  # nobody knows how it will be called
        if isinstance(node, ast.Attribute) and node.attr not in COLUMN_WORDS and not kind:
            kind = _kind_of_method(node.attr)
        if (
            not (kind or is_based or self._is_harmless(name))
            and _is_function(name)
            and self._meanings.is_imported(node)
        ):
            kind = module_kind(name)
        if kind and not self._is_allowed(name):
            yield Finding(kind, name if name in FUNCTIONS or name in BUILTINS else shorten_code(node), line, risky=True)

    # -- imports

    def _import(self, module: str, line: int) -> Iterator[Finding]:
        parts = module.lstrip("_").split(".")
        prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
        yield Finding("imports", module, line)
        kind = next((MODULES[prefix] for prefix in prefixes if prefix in MODULES), None)
        if kind is not None and module.startswith("_"):  # one in C, past what Python tells of itself
            yield Finding(kind, f"import {module}", line, risky=True)

    def _import_from(self, module: str, imported: list[str], line: int) -> Iterator[Finding]:
        yield from self._import(module, line)
        for name in imported:
            kind = FUNCTIONS.get(f"{module}.{name}")
            if kind and not self._is_allowed(f"{module}.{name}"):
                yield Finding(kind, f"{module}.{name}", line, risky=True)
            if name == "*" and module in sys.modules and not is_library(module):
                yield from self._open_in_star(module, line)
            if (
                name == "*"
                and module not in HARMLESS
                and (reaches(module) or reaches(f"{module}.*") or self._meanings.opens(module))
                and not self._is_allowed(module)
            ):
                yield Finding("dynamic", f"from {module} import *", line, risky=True)

    def _open_in_star(self, module: str, line: int) -> Iterator[Finding]:
        for name, value in list(module_dict(sys.modules[module]).items()):
            if not name.startswith("_") and (kind := kind_of_open(value) or kind_reached(value)):
                yield Finding(kind, f"{module}.{name}, which writes to an open file or connection", line, risky=True)

    # -- calls

    def _call(self, node: ast.Call, line: int) -> Iterator[Finding]:
        name = self._meanings.find_dotted_name(node.func)
        if self._is_allowed(name) or self._is_harmless(name):
            return
        head, _, last = name.rpartition(".")
        if name in ("vars", "getattr") and self._leads_below_environ(node):
            yield Finding("process state", shorten_code(node), line, risky=True)
            return
        kind = _kind_of_call(node, name, self._meanings)
        if kind:
            is_left_to_gate = kind == "files" and self._leaves_to_gate and not {name, last}.isdisjoint(PYTHONS_OWN)
            yield Finding(kind, shorten_code(node), line, risky=not is_left_to_gate)
        elif last == "open" and not name.startswith("…") and node.args:
            yield Finding("files", shorten_code(node), line, risky=False)
        elif name == "getattr" and (kind := self._kind_of_attribute(node)):
            yield Finding(kind, shorten_code(node), line, risky=True)
        elif name == "getattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
            yield Finding(
                "dynamic", shorten_code(node), line, risky=reaches(self._meanings.find_dotted_name(node.args[0]))
            )
        elif name in ("setattr", "delattr") and self._kind_of_attribute(node) == "dunder":
            yield Finding("dunder", shorten_code(node), line, risky=True)
        elif name in ("globals", "locals", "vars", "setattr", "delattr"):
            yield Finding("dynamic", f"{name}()", line, risky=False)
        elif name in _TIMED:
            yield from self._review_timed_code(node, line)
        elif head and READS.fullmatch(last):
            yield from self._read(node, last, line)

    def _leads_below_environ(self, node: ast.Call) -> bool:
        """Whether a call gives the dict below the environment, whose changes nothing tells of."""
        if not node.args or self._meanings.find_dotted_name(node.args[0]) not in _ENVIRONS:
            return False
        texts = self._meanings.whole_texts(node.args[1]) if len(node.args) > 1 else None
        return texts is None or "_data" in texts

    def _kind_of_attribute(self, node: ast.Call) -> str:
        """What a method reaches that is asked for by its name, as a text that is known."""
        named = (self._meanings.whole_texts(node.args[1]) if len(node.args) > 1 else None) or ()
        base = self._meanings.find_dotted_name(node.args[0]) if node.args else ""
        kinds = (
            "dunder"
            if _is_dunder(one) or one in HIDDEN_WAYS
            else FUNCTIONS.get(f"{base}.{one}") or _kind_of_method(one) or ("files" if WRITES.fullmatch(one) else "")
            for one in named
        )
        return next((kind for one, kind in zip(named, kinds, strict=True) if kind and one not in COLUMN_WORDS), "")

    def _review_timed_code(self, node: ast.Call, line: int) -> Iterator[Finding]:
        """Code that is timed, and given as a text."""
        arguments = (*node.args, *(word.value for word in node.keywords))
        for text in (text for one in arguments for text in self._meanings.texts(one)):
            if is_risky(review(text, names=self._names, allowed=self._allowed, namespace=self._namespace)):
                yield Finding("dynamic", shorten_code(node), line, risky=True)

    def _read(self, node: ast.Call, last: str, line: int) -> Iterator[Finding]:
        arguments = (*node.args, *(word.value for word in node.keywords))
        addresses = [text for one in arguments for text in self._meanings.texts(one)]
        remote = any("://" in text and not text.startswith("file:") for text in addresses) or last.startswith("fetch_")
        risky = remote or (last == "read_pickle" and not _goes_to_memory(node, self._meanings))
        kind = "network" if remote else "database" if last.startswith("read_sql") else "files"
        yield Finding(kind, shorten_code(node), line, risky=risky)

    def _is_harmless(self, name: str) -> bool:
        return name in HARMLESS or name.rpartition(".")[0] in HARMLESS or bool(HARMLESS_TYPES.fullmatch(name))

    def _is_allowed(self, name: str) -> bool:
        parts = name.split(".")
        return any(".".join(parts[:end]) in self._allowed for end in range(1, len(parts) + 1))


def _is_inert(node: ast.Call) -> bool:
    """Whether a call looks at values and does nothing with them."""
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in _LOOKING_ON and not node.keywords
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _LOOKING_IN
        case _:
            return False


def _is_function(name: str) -> bool:
    """Whether this is how functions are called: exceptions, types and constants begin with a capital letter."""
    return name.rpartition(".")[2][:1].islower()


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in HARMLESS_DUNDERS


# -- what a call reaches outside the variables, read from what is called and what it is given
#
# Everything here errs towards asking where the name says that it may write or send, and towards silence where it would be
# ordinary work on data: a table that is turned into text, a file that is only read, a figure that is saved to memory.

_MODE: Final = re.compile(r"[rwaxbtU+]{1,4}(?:[:|]\w*)?")
_PLACES: Final = frozenset(
    {"path_or_buf", "buf", "path", "fname", "excel_writer", "path_or_buffer", "file", "filepath", "fp", "f"}
)
_ENVIRON_CHANGES: Final = frozenset({"update", "pop", "setdefault", "clear", "popitem", "__setitem__"})
_SENT: Final = frozenset({"json", "data", "files", "headers", "params", "auth", "timeout", "content"})
_SCHEDULING: Final = frozenset({"nice", "ionice", "cpu_affinity"})
_VERBS: Final = frozenset({"get", "post", "put", "patch", "delete", "head", "request", "options", "stream"})
_ACTIVE: Final = re.compile(
    r"(?i)<\s*(?:script|i?frame|object|embed|link|meta|base|form)\b|\bon\w+\s*=|\bsrc\s*=|javascript:|://"
)
_LOADS: Final = frozenset(
    {"pickle.loads", "pickle.load", "cloudpickle.loads", "cloudpickle.load", "dill.loads", "dill.load"}
    | {"joblib.load", "torch.load"}
)
_IMPORTS: Final = frozenset({"importlib.import_module", "importlib.__import__", "__import__"})
_AT: Final = re.compile(r"@\s*([^\W\d][\w.]*)\s*\(")


def _kind_of_call(node: ast.Call, name: str, meanings: Meanings) -> str:
    """What a call has to be asked about for; "": nothing.

    Args:
        name: what is called, by its dotted name.
    """
    head, _, last = name.rpartition(".")
    if head.endswith(".str") or last == "":
        return ""  # texts of a table
    if (on := _database_in_memory(node, name, meanings)) is not None:
        return on
    return (
        _by_name(node, name, head, last, meanings)
        or _by_module(name, head, last, meanings)
        or (_by_method(node, head, last, meanings) if head else "")
        or _by_what_it_shows(node, last, meanings)
        or _by_text(node, head, last, meanings)
        or _by_deleting(node, head, last)
    )


def _kind_of_method(name: str) -> str:
    """What a method reaches that somebody else is to call by this name, as `methodcaller` does."""
    return METHODS.get(name, "files" if name in WRITERS else "")


def _by_name(node: ast.Call, name: str, head: str, last: str, meanings: Meanings) -> str:
    if name in OPENERS:
        return (
            "files" if _opens_to_write(node, meanings, is_method=False) and not _goes_to_memory(node, meanings) else ""
        )
    if name in _LOADS and node.args and (meanings.is_own_pickle(node.args[0]) or _goes_to_memory(node, meanings)):
        return ""
    if name in _IMPORTS and node.args and (texts := meanings.whole_texts(node.args[0])) is not None:
        return "dynamic" if any(reaches(text) or reaches(f"{text}.*") for text in texts) else ""
    if name in FUNCTIONS or name in BUILTINS:
        kind = FUNCTIONS.get(name) or BUILTINS[name]
        is_memory = _goes_to_memory(node, meanings) or (name == "numpy.memmap" and _only_reads(node))
        return "" if kind == "files" and is_memory else kind
    if name.startswith("get_ipython"):
        return "shell"
    if name == "open" or last == "open":
        writes = _opens_to_write(node, meanings, is_method=bool(head)) and not _goes_to_memory(node, meanings)
        return "files" if writes and not _keeps_nothing(node, meanings) else ""
    if name in ("sqlite3.connect", "duckdb.connect"):
        database = meanings.whole_texts(node.args[0]) if node.args else None
        is_own = database == (":memory:",) or _goes_to_memory(node, meanings)
        is_empty = name[0] == "d" and not node.args and not node.keywords
        return "" if is_own or is_empty or meanings.opens_to_read(node, name) else "files"
    if name == "logging.basicConfig":
        return "files" if any(word.arg in ("filename", None) for word in node.keywords) else ""
    if name == "numpy.load":
        return (
            "dynamic" if any(word.arg == "allow_pickle" and not _is_false(word.value) for word in node.keywords) else ""
        )
    if name in ("operator.methodcaller", "operator.attrgetter"):
        return _by_attribute_name(node, meanings)
    return ""


def _by_module(name: str, head: str, last: str, meanings: Meanings) -> str:
    if (
        head.startswith("io.")
        and last in ("write", "writelines", "truncate")
        and head[3:] not in ("StringIO", "BytesIO")
    ):
        return "files"  # a file that a cell before this opened
    if head.endswith("InteractiveShell"):
        return "shell"
    if head == "os.environ" and last in _ENVIRON_CHANGES:
        return "process state"
    if head and name.partition(".")[0] not in meanings.assigned:
        return module_kind(name)
    return ""


def _by_method(node: ast.Call, head: str, last: str, meanings: Meanings) -> str:
    base = node.func.value if isinstance(node.func, ast.Attribute) else None
    if last in METHODS:
        if last in _SCHEDULING and not (node.args or node.keywords):
            return ""  # it but tells
        is_in_memory = METHODS[last] in ("files", "database") and _goes_to_memory(node, meanings)
        return "" if is_in_memory or (last == "execute" and _only_queries(node, meanings)) else METHODS[last]
    if last in WRITERS:
        return "files" if _writes_to_target(node, head, last, meanings) else ""
    if WRITES.fullmatch(last) and (node.args or node.keywords) and head != "self":
        return "" if _goes_to_memory(node, meanings) else "files"
    if last in ("rename", "replace") and base is not None and meanings.is_path(base):
        return "files" if _moves(node) else ""
    if last == "chmod" and base is not None and meanings.is_path(base):
        return "files"
    if last == "register_callback" and any(meanings.texts(argument) for argument in _list_arguments(node)):
        return "files"  # the path of a trace
    if last in _VERBS and _talks(node, base, last, meanings):
        return "network"
    if last == "connect" and any(isinstance(argument, ast.Tuple) for argument in node.args):
        return "network"  # to a host and a port
    return ""


def _by_what_it_shows(node: ast.Call, last: str, meanings: Meanings) -> str:
    if last in ("display", "update_display"):
        return "browser" if any(word.arg == "raw" for word in node.keywords) else ""
    if last in ("Image", "Audio", "Video") and any(word.arg == "url" for word in node.keywords):
        return "browser"
    if last not in BROWSER:
        return ""
    arguments = [*node.args, *(word.value for word in node.keywords if word.arg in ("data", "value", "url", None))]
    if last == "Markdown":
        return "browser" if any(_ACTIVE.search(text) for one in arguments for text in meanings.texts(one)) else ""
    return "" if last in ("HTML", "SVG") and all(_is_still(one, meanings) for one in arguments) else "browser"


def _is_still(node: ast.expr, meanings: Meanings) -> bool:
    """Whether HTML is known to run and load nothing: a table of pandas, whose texts are escaped, or a plain text."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to_html":
        return not any(word.arg in ("escape", "formatters", None) for word in node.keywords)
    texts = meanings.whole_texts(node)
    return texts is not None and not any(_ACTIVE.search(text) for text in texts)


def _by_text(node: ast.Call, head: str, last: str, meanings: Meanings) -> str:
    """What a text does that is given to something that runs it."""
    texts = [
        text for argument in (*node.args, *(word.value for word in node.keywords)) for text in meanings.texts(argument)
    ]
    if (
        head
        and (last in ("sql", "query") or last.startswith("read_sql"))
        and any(SQL_WRITES.search(one) or SQL_SETTINGS.search(one) for one in texts)
    ):
        return "database"
    if head and last == "sql" and any("://" in one for one in texts):
        return "network"
    if last in ("query", "eval") and any(_calls_out(text, meanings) for text in texts):
        return "dynamic"
    return ""


def _calls_out(text: str, meanings: Meanings) -> bool:
    """Whether a condition for a table calls what reaches outside: `@os.system('…')`."""
    return any(
        reaches(dotted) or dotted in BUILTINS
        for called in _AT.findall(text)
        for dotted in [meanings.find_dotted_name(ast.parse(called.strip("."), mode="eval").body)]
    )


def _by_deleting(node: ast.Call, head: str, last: str) -> str:
    if isinstance(node.func, ast.Call) and is_getattr(node.func) and not isinstance(node.func.args[1], ast.Constant):
        return "dynamic"  # what is called is not to be read
    on_globals = isinstance(node.func, ast.Attribute) and is_globals(node.func.value)
    if head.startswith("globals") or on_globals:
        return "deletes" if last in ("pop", "clear", "popitem", "__delitem__") else ""
    return ""


def _by_attribute_name(node: ast.Call, meanings: Meanings) -> str:
    """What `methodcaller` and `attrgetter` reach, which are told the name as a text."""
    arguments = (
        node.args[:1] if isinstance(node.func, ast.Name | ast.Attribute) and _is_caller(node, meanings) else node.args
    )
    for one in arguments:
        texts = meanings.whole_texts(one)
        if texts is None:
            return "dynamic"
        for part in (part for text in texts for part in text.split(".")):
            kind = _kind_of_method(part) or FUNCTIONS.get(f"os.{part}", "")
            if kind and part not in ("rename", "replace"):  # tables have these
                return kind
            if part.startswith("__"):
                return "dunder"
    return ""


def _is_caller(node: ast.Call, meanings: Meanings) -> bool:
    return meanings.find_dotted_name(node.func).endswith("methodcaller")


def _opens_to_write(node: ast.Call, meanings: Meanings, *, is_method: bool) -> bool:
    if any(isinstance(one, ast.Starred) for one in node.args) or any(word.arg is None for word in node.keywords):
        return not is_method or isinstance(node.func, ast.Attribute)
    modes = [word.value for word in node.keywords if word.arg == "mode"]
    modes = modes or (node.args[:2] if is_method else node.args[1:2])
    on_path = is_method and isinstance(node.func, ast.Attribute) and meanings.is_path(node.func.value)
    for mode in modes:
        texts = meanings.whole_texts(mode)
        if texts is None and (not is_method or on_path):
            return True  # nobody knows before it runs
        if any(_MODE.fullmatch(text) and set(text) & set("wax+") for text in texts or ()):
            return True
    return False


def _only_reads(node: ast.Call) -> bool:
    """Whether a file that is mapped into memory is but read, or changed in memory alone."""
    modes = [word.value for word in node.keywords if word.arg == "mode"] or node.args[2:3]
    return any(isinstance(mode, ast.Constant) and mode.value in ("r", "c", "readonly", "copyonwrite") for mode in modes)


def _goes_to_memory(node: ast.Call, meanings: Meanings) -> bool:
    """Whether it goes to a file in memory, to a database there, or to a temporary file, which belongs to the step."""
    base = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(
        meanings.is_buffer(one) or meanings.is_temporary(one) or meanings.is_database_in_memory(one)
        for one in _list_arguments(node)
    ) or any(map(meanings.is_temporary, base))


def _keeps_nothing(node: ast.Call, meanings: Meanings) -> bool:
    """Whether it opens `/dev/null`, or another file that keeps nothing."""
    path = node.args[0] if node.args else None
    if path is None or meanings.find_dotted_name(path) == "os.devnull":
        return path is not None
    texts = meanings.whole_texts(path)
    return bool(texts) and all(text.startswith(SINKS) for text in texts or ())


def _database_in_memory(node: ast.Call, name: str, meanings: Meanings) -> str | None:
    """What a statement for a database in memory reaches. Returns None where it is another database, or none."""
    head, _, last = name.rpartition(".")
    if last not in STATEMENTS:
        return None
    is_on = isinstance(node.func, ast.Attribute) and meanings.is_database_in_memory(node.func.value)
    if (
        not is_on and head != "duckdb" and not name.startswith("duckdb._relation.")
    ):  # a function of the module's own one
        return None
    texts = [
        text for argument in node.args[:1] for text in (meanings.whole_texts(argument) or meanings.texts(argument))
    ]
    leaves = any(SQL_LEAVES.search(text) or SQL_SETTINGS.search(text) for text in texts)
    return "database" if not texts or leaves else ""


def _only_queries(node: ast.Call, meanings: Meanings) -> bool:
    """Whether a statement is known and only reads."""
    texts = meanings.whole_texts(node.args[0]) if node.args else None
    reads = bool(texts) and all(SQL_READS.match(text) for text in texts or ())
    return reads and not any(SQL_WRITES.search(text) or SQL_LEAVES.search(text) for text in texts or ())


def _writes_to_target(node: ast.Call, head: str, method: str, meanings: Meanings) -> bool:
    """Whether a method that may write or return what it makes was given a place to write to."""
    if method == "dump":  # json.dump(value, file): the file was opened, and that was asked about
        texts = (
            meanings.texts(node.args[0]) if len(node.args) == 1 and head.rpartition(".")[2] not in _TEXT_DUMPERS else ()
        )
        return bool(texts)
    if any(isinstance(one, ast.Starred) for one in node.args) or any(word.arg is None for word in node.keywords):
        return True
    first = node.args[0] if node.args else next((w.value for w in node.keywords if w.arg in _PLACES), None)
    if first is None or (isinstance(first, ast.Constant) and not isinstance(first.value, str)):
        return False
    return not _goes_to_memory(node, meanings)


_TEXT_DUMPERS: Final = frozenset({"json", "yaml", "toml", "tomli_w"})


def _moves(node: ast.Call) -> bool:
    """Whether it is a path that is renamed, and not a table or a text."""
    words = {word.arg for word in node.keywords}
    if words - {"target"} or len(node.args) + len(words) != 1:
        return False
    argument = node.args[0] if node.args else None
    return not isinstance(argument, ast.Dict | ast.DictComp | ast.Lambda)


def _talks(node: ast.Call, base: ast.expr | None, verb: str, meanings: Meanings) -> bool:
    """Whether a method that many things have is that of something which talks to a server."""
    if any("://" in text for argument in node.args[:2] for text in meanings.texts(argument)):
        return True
    if verb in ("get", "head", "options", "stream"):
        return False
    if any(word.arg in _SENT for word in node.keywords):
        return True
    called = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
    return bool(TALKER_WORDS.search(called)) and bool(node.args or node.keywords)


def _list_arguments(node: ast.Call) -> Iterable[ast.expr]:
    return (*node.args, *(word.value for word in node.keywords))


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
