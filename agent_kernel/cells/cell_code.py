"""What the code of a cell reads, binds and changes: which variables, and which state of a module or of the process.

Nothing runs here: Python's own compiler says which names are variables. Where it cannot (magics, `exec`), this says so, and
takes every word for a name: a cell too many does less harm than one too few.
"""

from __future__ import annotations

import ast
import dis
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from inspect import CO_NEWLOCALS
from types import CodeType, MappingProxyType
from typing import Final, NamedTuple

from agent_kernel.session.dependencies import EVALUATE, RUN_ANYTHING, mentions_outputs, uses_of, words_of
from agent_kernel.values.previews.redaction import lexemes

# -- the cell without what only a notebook understands

_HEADER: Final = re.compile(r"\s*%%agent(?:[^\S\n][^\n]*)?(?:\n|\Z)")
_OWN_LINE: Final = re.compile(r"\s*%(?:agent(?:\s|\?|$)|(?:re|un)?load_ext\s+agent_kernel\b)")
_MAGIC: Final = re.compile(r"\s*(?:[%!?]|[^#'\"]*=\s*[%!])|[^#]*\?{1,2}\s*$")
_LINE_END: Final = re.compile(r"\r\n?")  # which Python takes for the same
_MAGIC_NAME: Final = re.compile(r"%+(\w+)")
_CELL_MAGIC: Final = re.compile(r"\s*%%(\w+)[^\n]*")
_ADDS_TO_PYTHON: Final = frozenset(
    {"time", "capture", "prun", "memit", "agent"}
)  # whose body is Python in the notebook


class CellCode(NamedTuple):
    """The code of a cell as Python.

    Attributes:
        text: Python; lines that only a notebook understands are comments.
        left_out: those lines, and why they are comments is said elsewhere.
        is_python: False: all of it is a comment.
    """

    text: str
    left_out: tuple[str, ...] = ()
    is_python: bool = True


def header_of(source: str) -> tuple[str, str]:
    """The `%%agent` line of a cell, if it has one, and the rest of the cell."""
    found = _HEADER.match(source)
    return (found[0].strip(), source[found.end() :]) if found else ("", source)


def without_own_lines(source: str) -> str:
    """The cell without the lines that only act on the history: `%load_ext agent_kernel`, `%agent …`; "": nothing is left."""
    _, body = header_of(source)
    if "%" not in body:
        return body if body.strip() else ""
    lines = body.split("\n")
    within = _lines_within_strings(body)
    own = [line for at, line in enumerate(lines) if at in within or not _OWN_LINE.match(line)]
    if len(own) < len(lines):
        body = "\n".join(own).strip("\n")
    return body if body.strip() else ""


def code_of(source: str) -> CellCode:
    """The code of a cell as Python that runs anywhere."""
    source = _LINE_END.sub("\n", without_own_lines(source))
    if _parse(source) is not None:
        return CellCode(source)
    magic = _CELL_MAGIC.match(source)
    if magic is not None and magic[1] not in _ADDS_TO_PYTHON:
        return _as_comment(source)
    lines = source.split("\n")
    within = _lines_within_strings(source)
    left_out = [at for at, line in enumerate(lines) if at not in within and _MAGIC.match(line)]
    for at in left_out:
        indent = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        # `pass`, because the line may have been all that a block holds.
        lines[at] = f"{indent}{'pass  ' if indent else ''}# {lines[at].lstrip()}"
    text = "\n".join(lines)
    if not left_out or _parse(text) is None:
        return _as_comment(source)
    return CellCode(text, tuple(source.split("\n")[at].strip() for at in left_out))


def _as_comment(source: str) -> CellCode:
    lines = tuple(source.split("\n"))
    text = "\n".join(f"# {line}".rstrip().replace("\0", "\\0") for line in lines)
    return CellCode(text, lines, is_python=False)


def _lines_within_strings(source: str) -> set[int]:
    """The numbers of the lines that begin within a string of several lines."""
    found: set[int] = set()
    at = 0
    for sort, text in lexemes(source):
        breaks = text.count("\n")
        if sort == "string":
            found.update(range(at + 1, at + breaks + 1))
        at += breaks
    return found


def indent(code: str) -> str:
    """The code one level deeper. Lines within strings stay as they are."""
    within = _lines_within_strings(code)
    return "\n".join(
        line if at in within or not line.strip() else f"    {line}" for at, line in enumerate(code.split("\n"))
    )


def _parse(source: str) -> ast.Module | None:
    try:
        tree = ast.parse(source)
        _compile(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree


def _compile(tree: ast.Module | ast.Expression) -> CodeType:
    mode = "eval" if isinstance(tree, ast.Expression) else "exec"
    found: CodeType = compile(tree, "<cell>", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    return found


# -- which variables it reads and binds

_READS: Final = frozenset({"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})
_BINDS: Final = frozenset({"STORE_NAME", "STORE_GLOBAL"})
_DELETES: Final = frozenset({"DELETE_NAME", "DELETE_GLOBAL"})
_AT_ONCE: Final = re.compile(r"<(?:listcomp|setcomp|dictcomp|genexpr|lambda|generic parameters .*)>")
_AWAITS: Final = 0x80 | 0x100 | 0x200  # CO_COROUTINE, CO_ITERABLE_COROUTINE, CO_ASYNC_GENERATOR


class Reading(NamedTuple):
    """What code does with variables.

    Attributes:
        reads: variables whose values from before the cell it uses, or may use, as it runs.
        binds: variables that it binds in any case.
        may_bind: variables that it may bind.
        defines: by the names of its functions and classes, the variables that these use when they are called.
        within: all variables that functions of any kind in it use when they are called.
        guesses: those of `reads` that are words of a text or of a magic, and perhaps no variables.
        mentions: every variable that it names anywhere.
        why_unknown: why it may also read variables that it does not name; "": it does not.
        awaits: it waits at its top level, which only a notebook can.
    """

    reads: frozenset[str] = frozenset()
    binds: frozenset[str] = frozenset()
    may_bind: frozenset[str] = frozenset()
    defines: Mapping[str, frozenset[str]] = MappingProxyType({})
    within: frozenset[str] = frozenset()
    guesses: frozenset[str] = frozenset()
    mentions: frozenset[str] = frozenset()
    why_unknown: str = ""
    awaits: bool = False


@lru_cache(maxsize=4096)  # a slice looks at every cell of a history
def read_code(source: str) -> Reading:
    """Find what the code of a cell does with variables."""
    code = code_of(source)
    words = frozenset(words_of("\n".join(code.left_out)))
    why = _find_magic_lookups(code)
    tree = _parse(code.text) if code.is_python else None
    if tree is None:
        return Reading(reads=words, guesses=words, mentions=words, why_unknown=why)
    reader = _Reader()
    binds = reader.read(tree.body, frozenset())
    if not why and uses_of(code.text).marks:
        why = "it looks names up as it runs"
    if not why and mentions_outputs(reader.reads):
        why = "it uses what an earlier cell showed"
    return Reading(
        frozenset(reader.reads | words),
        frozenset(binds),
        frozenset(reader.may_bind),
        {name: frozenset(names) for name, names in reader.defines.items()},
        frozenset(reader.within),
        frozenset((reader.guesses | words) - reader.named),
        frozenset(reader.reads | reader.within | reader.may_bind | words),
        why,
        bool(_compile(tree).co_flags & _AWAITS),
    )


def _find_magic_lookups(code: CellCode) -> str:
    """Why lines that are no Python may read any variable; "": they name what they read."""
    for line in code.left_out:
        magics = _MAGIC_NAME.findall(line)
        if not RUN_ANYTHING.isdisjoint(magics) or uses_of(line).marks:
            return f"nobody can tell what %{magics[0]} reads" if magics else "it looks names up as it runs"
    return ""


class _Names(NamedTuple):
    """The variables in a piece of code: used as it runs, bound, deleted, and used by the functions that it makes.

    `may_bind`: bound by `:=`, which `and`, `or` and the like may pass over. `guesses`: words of texts that are evaluated.
    """

    reads: set[str]
    binds: set[str]
    deletes: set[str]
    later: set[str]
    may_bind: frozenset[str] = frozenset()
    guesses: frozenset[str] = frozenset()


class _Reader:
    """Goes through statements in order, and keeps apart what is bound before it is read."""

    def __init__(self) -> None:
        self.reads: set[str] = set()
        self.may_bind: set[str] = set()
        self.named: set[str] = set()
        self.guesses: set[str] = set()
        self.within: set[str] = set()
        self.defines: dict[str, set[str]] = {}

    def read(self, body: Iterable[ast.stmt], assigned: frozenset[str]) -> frozenset[str]:
        """Read statements; return what is bound for certain after them."""
        for statement in body:
            assigned = self._statement(statement, assigned)
        return assigned

    def _statement(self, node: ast.stmt, assigned: frozenset[str]) -> frozenset[str]:
        match node:
            case ast.If():
                assigned = self._expression(node.test, assigned)
                return self.read(node.body, assigned) & self.read(node.orelse, assigned)
            case ast.For() | ast.AsyncFor():
                assigned = self._expression(node.iter, assigned)
                self.read(node.body, self._target(node.target, assigned))
                self.read(node.orelse, assigned)
                return assigned
            case ast.While():
                assigned = self._expression(node.test, assigned)
                self.read(node.body, assigned)
                self.read(node.orelse, assigned)
                return assigned
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    assigned = self._expression(item.context_expr, assigned)
                    if item.optional_vars is not None:
                        assigned = self._target(item.optional_vars, assigned)
                self.read(node.body, assigned)  # a context manager may end it early
                return assigned
            case ast.Try() | ast.TryStar():
                return self._try(node, assigned)
            case _:
                return self._simple(node, assigned)

    def _try(self, node: ast.Try | ast.TryStar, assigned: frozenset[str]) -> frozenset[str]:
        certain = self.read(node.orelse, self.read(node.body, assigned))
        for handler in node.handlers:
            if handler.type is not None:
                self._expression(handler.type, assigned)
            self.may_bind |= {handler.name} if handler.name else set()
            named = assigned | {handler.name} if handler.name else assigned
            certain &= self.read(handler.body, named) - {handler.name or ""}
        return self.read(node.finalbody, assigned) | certain

    def _target(self, node: ast.expr, assigned: frozenset[str]) -> frozenset[str]:
        """What is assigned to: a name is bound, an attribute or an item is a change of what has it."""
        pass_on = ast.Assign([node], ast.Constant(None))
        return self._simple(ast.fix_missing_locations(ast.copy_location(pass_on, node)), assigned)

    def _expression(self, node: ast.expr, assigned: frozenset[str]) -> frozenset[str]:
        return self._take(_names_in(_compile(ast.Expression(node)), node), assigned)

    def _simple(self, node: ast.stmt, assigned: frozenset[str]) -> frozenset[str]:
        found = _names_in(_compile(ast.Module([node], [])), node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return self._definition(node, found, assigned)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    self.defines[target.id] = found.later
                    self.within |= found.later
                    found = found._replace(later=set())
        if isinstance(node, ast.Match):
            self._take(found, assigned)
            return assigned
        return self._take(found, assigned)

    def _definition(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, found: _Names, assigned: frozenset[str]
    ) -> frozenset[str]:
        """What its body uses counts when it is called, unless something that gets it may call it at once."""
        self.defines[node.name] = found.later
        self.within |= found.later
        is_handed_over = bool(node.decorator_list) or (
            isinstance(node, ast.ClassDef) and bool(node.bases + node.keywords)
        )
        return self._take(found if is_handed_over else found._replace(later=set()), assigned)

    def _take(self, found: _Names, assigned: frozenset[str]) -> frozenset[str]:
        self.within |= found.later
        read = found.reads | found.deletes | found.later
        todo = list(read)
        while todo:  # a function of this cell is used: so is what it uses
            more = self.defines.get(todo.pop(), set()) - read
            read |= more
            todo.extend(more)
        self.reads |= (read | found.guesses) - assigned
        self.named |= read | found.binds
        self.guesses |= found.guesses
        self.may_bind |= found.binds | found.may_bind
        return frozenset((assigned | found.binds) - found.deletes)


def _names_in(code: CodeType, node: ast.AST) -> _Names:
    found = _Names(set(), set(), set(), set())
    _gather(code, found)
    guesses = frozenset[str]()
    if any(_evaluates(part) for part in ast.walk(node)):
        texts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
        guesses = frozenset(word for text in texts if isinstance(text, str) for word in words_of(text))
    walrus = frozenset(part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr))
    return found._replace(binds=found.binds - walrus, may_bind=walrus, guesses=guesses)


def _evaluates(node: ast.AST) -> bool:
    """Whether it calls what evaluates a text, as `df.query("a > @limit")` does."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    return (isinstance(called, ast.Attribute) and called.attr in EVALUATE) or (
        isinstance(called, ast.Name) and called.id in EVALUATE
    )


def _gather(code: CodeType, found: _Names) -> None:
    for names, opcodes in ((found.reads, _READS), (found.binds, _BINDS), (found.deletes, _DELETES)):
        names.update(_operands(code, opcodes.__contains__))
    for nested in _nested(code):
        runs_at_once = _AT_ONCE.fullmatch(nested.co_name) is not None or not nested.co_flags & CO_NEWLOCALS
        if nested.co_name == "<lambda>" or not runs_at_once:
            _gather_all(nested, found.later)
        else:  # a comprehension, or the body of a class, whose own names are not the notebook's
            inner = _Names(set(), set(), set(), found.later)
            _gather(nested, inner)
            found.reads.update(inner.reads)
            found.binds.update(_operands(nested, {"STORE_GLOBAL"}.__contains__))


def _gather_all(code: CodeType, found: set[str]) -> None:
    """Every variable of the notebook that a function uses, and those in it."""
    found.update(_operands(code, lambda opcode: opcode in _READS | {"STORE_GLOBAL", "DELETE_GLOBAL"}))
    for nested in _nested(code):
        _gather_all(nested, found)


def _nested(code: CodeType) -> Iterator[CodeType]:
    return (found for found in code.co_consts if isinstance(found, CodeType))


def _operands(code: CodeType, wanted: Callable[[str], bool]) -> Iterator[str]:
    return (one.argval for one in dis.get_instructions(code) if wanted(one.opname) and isinstance(one.argval, str))


# -- the state of modules and of the process
#
# Which cells change the state of a module or of the process, and which cells use it.
#
# `random.seed(4)` changes no variable, so no commit tells of it: only the code does. A state has the full name of the module or
# attribute that holds it (`numpy.random`, `os.environ`); "" is that of the whole process, which any cell may use. A generator of
# random numbers is a state of its own: each draw uses and changes it. In doubt a cell changes a state, and uses it.


_PROCESS: Final = ""
# What code that does not name them depends on.
_OF_THE_PROCESS: Final = (
    "os.chdir", "os.fchdir", "os.umask", "os.putenv", "os.unsetenv", "os.environ", "sys.path", "sys.modules", "sys.set*",
    "sys.stdout", "sys.stderr", "locale.setlocale", "decimal.getcontext", "decimal.setcontext", "decimal.DefaultContext",
    "numpy.seterr", "numpy.set_printoptions", "pandas.set_option", "pandas.options", "pandas.reset_option", "warnings",
    "matplotlib.rc*", "matplotlib.use", "matplotlib.style", "matplotlib.pyplot.rc*", "matplotlib.pyplot.style", "seaborn.set*",
    "builtins", "importlib.reload", "torch.set_default*", "site.addsitedir", "time.tzset",
)  # fmt: skip
_SETTERS: Final = ("seed", "setstate", "set", "use", "enable", "disable", "register", "manual", "reset", "add", "init")
_SEEDS: Final = ("seed", "setstate", "set_state", "manual_seed", "manual_seed_all", "set_seed", "set_rng_state",
    "set_random_seed", "seed_everything",
)  # fmt: skip
_WITHOUT_EFFECT: Final = ("time.sleep", "pprint", "matplotlib.pyplot.show", "IPython.display", "gc.collect")
# By generator, the names of what draws from it; and attributes of objects that do.
_DRAWS: Final = {
    "random": ("random",),
    "numpy.random": ("numpy.random", "sklearn", "scipy", "seaborn", "networkx", "statsmodels", "xgboost", "lightgbm", "imblearn"),
    "torch": ("torch.rand*", "torch.nn", "torch.normal", "torch.bernoulli", "torch.multinomial", "torch.poisson", "torch.utils",
        "torchvision", "transformers", "lightning", "pytorch_lightning"),
    "tensorflow.random": ("tensorflow", "keras"),
}  # fmt: skip
_DRAWING: Final = frozenset({
    "sample", "shuffle", "rvs", "fit", "fit_transform", "fit_predict", "fit_resample", "uniform_", "normal_", "random_",
    "bernoulli_", "exponential_", "train", "parameters", "split",
})  # fmt: skip
_ROOTS: Final = {"torch": "torch", "tensorflow": "tensorflow.random", "keras": "tensorflow.random"}


class StateUse(NamedTuple):
    """What code does with states.

    Attributes:
        uses: full names of modules, and of what is in them, that it uses; "": it uses something.
        changes: the states that it changes.
        draws: the generators that it may draw from.
        seeds: the generators that it seeds.
    """

    uses: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    draws: frozenset[str] = frozenset()
    seeds: frozenset[str] = frozenset()

    def join(self, other: StateUse) -> StateUse:
        return StateUse(*(one | two for one, two in zip(self, other, strict=True)))

    def depends_on(self, changes: Iterable[str]) -> bool:
        return any(_are_related(use, change) for change in changes for use in self.uses)


class StateLine:
    """The cells of a line, one after another: the names of modules and functions carry on from cell to cell."""

    def __init__(self, sources: Iterable[str]) -> None:
        self._modules: dict[str, str] = {}
        self._functions: dict[str, tuple[StateUse, frozenset[str]]] = {}
        self._classes: set[str] = set()  # names of classes, and of what may be an instance of one
        self._resets: list[set[str]] = []  # by cell, the generators that it seeds in any case
        self.uses = [self._look_at(source) for source in sources]

    def find_needed(self, at: int) -> Iterator[int]:
        """The places of the earlier cells whose changes of states the cell at a place may depend on, newest first."""
        mine = self.uses[at]
        pending = {one: list[int]() for one in mine.draws}  # draws count only if there is a seed before them
        found: set[int] = set()
        for position in range(at - 1, -1, -1):
            other = self.uses[position]
            if mine.depends_on(other.changes):
                found.add(position)
            for generator in list(pending):
                if generator in other.seeds:
                    found.update([*pending.pop(generator), position])
                    if generator not in self._resets[position]:
                        pending[generator] = []
                elif generator in other.draws:
                    pending[generator].append(position)
        yield from sorted(found, reverse=True)

    def _look_at(self, source: str) -> StateUse:
        found = StateUse()
        resets: set[str] = set()
        own: set[str] = set()  # those that it seeds before it draws from them
        for statement in _statements(source):
            self._note_names(statement)
            reader = _StateReader(self._modules)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                reader.read(statement)
                self._functions[statement.name] = reader.found, frozenset(reader.names)
                self._classes.discard(statement.name)
                if not isinstance(statement, ast.ClassDef):
                    continue
                self._classes.add(statement.name)
            else:
                reader.read(statement)
                for name in _lambdas(statement):
                    self._functions[name] = reader.found, frozenset(reader.names)
                self._note_instances(statement, reader.names)
            if _is_plain_call(statement) and reader.found.seeds:
                first = reader.found.seeds - found.draws
                reader.found = reader.found._replace(draws=reader.found.draws - reader.found.seeds)
                own |= first
                resets |= reader.found.seeds
            found = found.join(reader.found).join(self._of_functions(reader.names))
        self._resets.append(resets)
        return found._replace(draws=found.draws - own)

    def _note_instances(self, statement: ast.stmt, names: Iterable[str]) -> None:
        """What is made of a class calls its methods."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        classes = self._reach(names) & self._classes if targets else set[str]()
        for target in targets:
            for node in ast.walk(target) if classes else ():
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    self._functions[node.id] = StateUse(), frozenset(classes)
                    self._classes.add(node.id)

    def _of_functions(self, names: Iterable[str]) -> StateUse:
        """What the functions of the notebook do that a statement names, and those that they name."""
        found = StateUse()
        for name in self._reach(names):
            found = found.join(self._functions[name][0])
        return found

    def _reach(self, names: Iterable[str]) -> set[str]:
        todo, found = list(names), set[str]()
        while todo:
            name = todo.pop()
            if name not in found and name in self._functions:
                found.add(name)
                todo.extend(self._functions[name][1])
        return found

    def _note_names(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    self._modules[alias.asname or root] = alias.name if alias.asname else root
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                members = vars(sys.modules[node.module]) if node.module in sys.modules else {}
                for alias in node.names:
                    names = (one for one in members if one[0] != "_") if alias.name == "*" else [alias.name]
                    self._modules |= {alias.asname or name: f"{node.module}.{name}" for name in names}
        if isinstance(statement, ast.Assign):
            module_name = dotted(statement.value, self._modules)
            if isinstance(statement.value, ast.Call) and not _begins(module_name, _OF_THE_PROCESS):
                module_name = ""
            for target in statement.targets:
                if isinstance(target, ast.Name) and module_name:
                    self._modules[target.id] = module_name
                elif isinstance(target, ast.Name):
                    self._modules.pop(target.id, None)
                    self._functions.pop(target.id, None)
                    self._classes.discard(target.id)


@lru_cache(maxsize=4096)  # a slice looks at every cell of a history
def _statements(source: str) -> tuple[ast.stmt, ...]:
    code = code_of(source)
    try:
        return tuple(ast.parse(code.text).body) if code.is_python else ()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


class _StateReader:
    """Reads one statement, with all that is in it."""

    def __init__(self, modules: Mapping[str, str]) -> None:
        self._modules = modules
        self.names: set[str] = set()
        self.found = StateUse()

    def read(self, statement: ast.stmt) -> None:
        for node in ast.walk(statement):
            match node:
                case ast.Name(ctx=ast.Load()):
                    self.names.add(node.id)
                    self._use(dotted(node, self._modules))
                case ast.Attribute():
                    self._use(dotted(node, self._modules))
                    if node.attr in _DRAWING:
                        self._add(draws=set(_DRAWS) - {"random"})
                case ast.Import() | ast.ImportFrom():
                    self._add(uses={_PROCESS})
                case _:
                    pass
            match node:
                case ast.Expr(value=ast.Call() as call) | ast.Expr(value=ast.Await(value=ast.Call() as call)):
                    self._call(call, is_statement=True)
                case ast.Call():
                    self._call(node, is_statement=False)
                case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                    self._change(dotted(node.value, self._modules))
                case _:
                    pass

    def _use(self, name: str) -> None:
        self._add(uses={name, _PROCESS} if name else {_PROCESS})
        for generator, prefixes in _DRAWS.items():
            if name and (_begins(name, prefixes) or _is_within(generator, name)):
                self._add(draws={generator})

    def _call(self, call: ast.Call, *, is_statement: bool) -> None:
        name = dotted(call.func, self._modules)
        if not name and isinstance(call.func, ast.Name) and call.func.id in ("setattr", "delattr") and call.args:
            self._change(dotted(call.args[0], self._modules))
        holder, _, last = name.rpartition(".")
        if not name or _begins(name, _WITHOUT_EFFECT):
            return
        if last in _SEEDS:
            generator = _ROOTS.get(name.partition(".")[0], "numpy.random" if holder == "numpy" else holder)
            self._add(seeds={generator} if generator in _DRAWS else set(_DRAWS))
        elif is_statement or last.partition("_")[0] in _SETTERS or _begins(name, _OF_THE_PROCESS):
            self._change(name if _begins(name, _OF_THE_PROCESS) else holder)

    def _change(self, name: str) -> None:
        if not name or _begins(name, _DRAWS["random"] + _DRAWS["numpy.random"][:1]):
            return  # a draw, whose number nobody keeps
        self._add(changes={_PROCESS if _begins(name, _OF_THE_PROCESS) else name})

    def _add(self, **more: set[str]) -> None:
        self.found = self.found.join(StateUse(**{field: frozenset(names) for field, names in more.items()}))


def dotted(node: ast.expr, modules: Mapping[str, str]) -> str:
    """The full name of what an expression names in a module, as far as it can be told; "": it names nothing in one."""
    parts: list[str] = []
    while True:
        match node:
            case ast.Attribute():
                parts.append(node.attr)
                node = node.value
            case ast.Subscript():
                parts.clear()
                node = node.value
            case ast.Call():
                parts.clear()
                node = node.func
            case ast.Name():
                return ".".join([modules[node.id], *reversed(parts)]) if node.id in modules else ""
            case _:
                return ""


def _is_plain_call(statement: ast.stmt) -> bool:
    """Whether a statement is one call, whose arguments call nothing."""
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return isinstance(statement, ast.Expr) and len(calls) == 1 and statement.value is calls[0]


def _lambdas(statement: ast.stmt) -> list[str]:
    if not isinstance(statement, ast.Assign) or not any(isinstance(node, ast.Lambda) for node in ast.walk(statement)):
        return []
    return [target.id for target in statement.targets if isinstance(target, ast.Name)]


def _begins(name: str, prefixes: Iterable[str]) -> bool:
    """Whether a full name is one of these or is in it; after `*` anything may follow."""
    return any(_is_within(name, one) or (one[-1] == "*" and name.startswith(one[:-1])) for one in prefixes)


def _is_within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith(f"{outer}.")


def _are_related(use: str, change: str) -> bool:
    """Whether one is in the other: a cell that uses `numpy` may use `numpy.random`, and the other way round."""
    if not change or not use:
        return not change
    return _is_within(use, change) or _is_within(change, use)
