"""Which saved names a cell may have changed in place: every one that its code could reach by a name, or through pyplot.

Words of the source that are names; then the globals used by the notebook functions and classes that those values
reach, and theirs in turn; what running threads and event callbacks use; where Python can tell (3.12), the functions that
really ran. Code that looks names up at run time touches everything. What none of this sees, rolling verification finds.
"""

from __future__ import annotations

import ast
import builtins
import functools
import gc
import re
import signal
import sys
import threading
import unicodedata
import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, ValuesView
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import chain, compress
from operator import attrgetter, is_
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    MethodType,
    ModuleType,
    TracebackType,
)
from typing import Any, Final, NamedTuple, cast

from agent_kernel.session.tracking import BUILTIN_IDS, Tracking
from agent_kernel.values import class_entry
from agent_kernel.values.definitions import ANY_NAME, LOOKUP_IDS, LOOKUPS, names_used
from agent_kernel.values.introspection import bases_of, ids_of, module_dict, module_name
from agent_kernel.values.references import is_library
from agent_kernel.values.surface import Holdings, find_holdings, is_of_library, names_of_class

_WORD = re.compile(r"[^\W\d]\w*")
# Words that may be a way to names that the source does not show: then it is compiled, which tells a use from a mention.
# fmt: off
_SUSPICIOUS = frozenset({
    *LOOKUPS.values(), "__builtins__", "builtins", "__main__", "get_ipython", "user_ns", "user_global_ns", "user_module",
    "pdb", "ipdb", "f_globals", "f_locals", "f_back", "__globals__", "_getframe", "currentframe", "_current_frames",
    "get_objects", "get_referrers", "get_referents", "pythonapi", "py_object", "set_trace", "post_mortem",
    "memset", "memmove", "from_address",
    "run", "runctx", "timeit", "repeat", "Timer", "interact",
})
# Magics that run code which does not stand in the cell.
RUN_ANYTHING = frozenset({
    "run", "store", "debug", "rerun", "macro", "load_ext", "reload_ext", "edit", "ed", "paste", "cpaste", "recall", "rep",
})
# Magics whose text is not Python that runs here.
_OTHER_LANGUAGES = frozenset({
    "bash", "sh", "script", "sx", "system", "cmd", "perl", "ruby", "python", "python2", "python3", "pypy", "html", "HTML",
    "javascript", "js", "latex", "markdown", "svg", "SVG", "writefile", "file", "sql", "R", "pinfo", "pinfo2", "pdoc",
    "pdef", "psource", "pfile", "psearch", "agent", "pip", "conda", "mamba", "uv", "cd", "ls", "pwd", "env", "matplotlib",
})
# fmt: on
_RUN_MAGICS = frozenset({"run_line_magic", "run_cell_magic", "magic"})
_SHELL_COMMANDS = frozenset({"system", "getoutput", "sx"})
# Functions of libraries that run a text in the notebook.
_RUN_TEXT = frozenset({"run", "runctx", "timeit", "repeat", "Timer", "interact"})
_OUTPUTS = re.compile(r"(?:_{1,3}|_\d+|Out|_oh)")
_MAGIC = re.compile(r"^\s*[%!?,;/]|=\s*[%!]|\?\s*$", re.MULTILINE)
_LOOKED_UP = rf"(?<![\w.])(?:{'|'.join(sorted(_SUSPICIOUS - _RUN_TEXT))})(?!\w)"
_CALLED = _LOOKED_UP + r"\s*[(\[]"
_EXPANDED = re.compile(r"\{.*?\}", re.DOTALL)
_UNPICKLERS = frozenset({"pickle", "_pickle", "cloudpickle", "dill", "dill._dill", "shelve"})


class Uses(NamedTuple):
    """What a source uses: words that may be names, marks as in `names_used`, and magics that are not IPython's own."""

    words: set[str]
    marks: set[str]
    magics: set[str]


class Syntax(NamedTuple):
    """What the interface knows of how cells are written: what IPython makes of one, and the function behind a magic."""

    transform: Callable[[str], str] = str
    magic: Callable[[str], object] = cast("Callable[[str], object]", str)


def words_of(source: str) -> set[str]:
    """Every identifier-like word of the source, normalised as Python does."""
    if not source.isascii():
        source = unicodedata.normalize("NFKC", source)
    return set(_WORD.findall(source))


def uses_of(source: str, transform: Callable[[str], str] = str) -> Uses:
    """What running this source may use by name.

    Comments are nothing. Words of texts count as names, for a text may be evaluated where it goes (`df.query("a > @x")`),
    but as no more than that.
    """
    words = words_of(source)
    is_python = _MAGIC.search(source) is None
    if is_python and "#" not in source and words.isdisjoint(_SUSPICIOUS):
        return Uses(words, set(), set())
    look = _uses_of_python if len(source) <= _LONGEST_REMEMBERED else _uses_of_python.__wrapped__
    found = look(source) if is_python else None
    if found is not None and words.isdisjoint(_RUN_MAGICS):
        return Uses(set(found.words), set(found.marks), set())
    try:
        return _uses_of_magics(ast.parse(_transform(source, transform) if found is None else source), transform)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _uses_of_text(source)


_LONGEST_REMEMBERED = 20_000


@functools.lru_cache(
    maxsize=64
)  # cells are run again, by hand and in loops; to compile one takes longer than to save it
def _uses_of_python(source: str) -> Uses | None:
    """What a source uses that is Python as it stands; None: it is not."""
    code = _compile(source)
    return None if code is None else _uses_of_code(code)


def _transform(source: str, transform: Callable[[str], str]) -> str:
    try:
        return transform(source)
    except Exception:  # noqa: BLE001  # anyone's transformers run here; the cell has reported what they raise
        return source


def _compile(source: str | ast.Module) -> CodeType | None:
    try:
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        return cast("CodeType", compile(source, "<cell>", "exec", flags=flags, dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _uses_of_code(code: CodeType) -> Uses:
    used = names_used(code)
    words = {name for name in used if name != ANY_NAME and name not in LOOKUPS}
    for text in _texts(code):
        words |= words_of(text)
        if not used.isdisjoint(_RUN_TEXT) and re.search(_CALLED, text):
            used.add(ANY_NAME)
    words |= {part for name in words if "." in name for part in name.split(".")}
    return Uses(words, used & {ANY_NAME, *LOOKUPS}, set())


def _texts(code: CodeType) -> Iterator[str]:
    todo: list[object] = list(code.co_consts)
    while todo:
        found = todo.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, bytes):
            yield found.decode("latin-1")
        elif isinstance(found, (tuple, frozenset)):
            todo.extend(cast("Iterable[object]", found))
        elif isinstance(found, CodeType):
            yield from _texts(found)


# Modules of the interpreter that lead to nobody's variables; others may lead to any module, thread or object.
_LEAD_NOWHERE = frozenset({
    "math", "cmath", "random", "re", "json", "time", "datetime", "calendar", "collections", "itertools", "functools",
    "os", "pathlib", "string", "statistics", "copy", "csv", "io", "warnings", "textwrap", "pprint", "decimal", "fractions",
    "builtins",
})  # fmt: skip
# Methods and functions that evaluate a text where they are called, perhaps one that is nothing but a name.
EVALUATE = frozenset({"eval", "query", "evaluate", "exec", "execute", "sql", "run", "magic", "dmatrix", "dmatrices"})


def not_used(source: str, words: Collection[str], namespace: Mapping[str, object]) -> set[str]:
    """The words that the source uses only as attributes, keys, a function's own names, or in docstrings.

    `df.a` and `df["a"]` use no variable `a`, and neither does `def f(a): ...`. The result is empty if the source is not plain
    Python, or names something that may lead to other variables: a module that does not belong to a library, or one that
    finds modules, as in `sys.modules["helper"].rows`.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    code = _compile(tree)
    if code is None:
        return set()
    keys = {id(key) for node in ast.walk(tree) for part in _keys(node) for key in _words_in(part)}
    if "__doc__" not in source:
        keys |= {id(text) for node in ast.walk(tree) for text in _docstrings(node)}
    nodes = [node for node in ast.walk(tree) if id(node) not in keys]
    used = set(chain.from_iterable(map(_words_of_node, nodes)))
    used |= {node.id for node in nodes if isinstance(node, ast.Name)} & names_used(code)
    return set() if any(_may_lead_anywhere(word, namespace) for word in used) else set(words) - used


def _words_of_node(node: ast.AST) -> Iterator[str]:
    """Words in a node of the tree itself, but for names of attributes, of arguments, and of what may be local."""
    if isinstance(node, ast.Name | ast.arg):
        return
    for field, value in ast.iter_fields(node):
        if field == "attr" or (field == "arg" and isinstance(node, ast.keyword)):
            continue
        for text in cast("list[object]", value) if isinstance(value, list) else (value,):
            if isinstance(text, str | bytes):
                yield from words_of(text if isinstance(text, str) else text.decode("latin-1"))


def _keys(node: ast.AST) -> Iterable[ast.expr | None]:
    if isinstance(node, ast.Subscript):
        return (node.slice,)
    if isinstance(node, ast.Dict):
        return node.keys
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr not in EVALUATE:
        return (*node.args, *(keyword.value for keyword in node.keywords))
    return ()


def _docstrings(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            yield first.value


def _words_in(part: ast.expr | None) -> Iterator[ast.Constant]:
    """Texts that are a single word: the expression itself, or those that it lists."""
    for item in part.elts if isinstance(part, ast.List | ast.Tuple) else (part,):
        if isinstance(item, ast.Constant) and isinstance(item.value, str) and item.value.isidentifier():
            yield item


def _may_lead_anywhere(word: str, namespace: Mapping[str, object]) -> bool:
    value = namespace.get(word)
    if value is None and word in sys.modules:
        value = sys.modules[word]  # imported within a function
    kind = type(value)
    if issubclass(kind, ModuleType):
        name = cast("ModuleType", value).__dict__.get("__name__")
    elif kind is FunctionType or kind is BuiltinFunctionType:
        name = cast("FunctionType", value).__module__
    else:
        return word == "__import__"
    if name == "__main__" and kind is FunctionType:
        return False  # what it uses is followed
    package = name.partition(".")[0] if type(name) is str else ""
    if package in sys.stdlib_module_names or not package:
        return package not in _LEAD_NOWHERE
    return not is_library(package)


def _uses_of_text(text: str) -> Uses:
    """Of what is not Python by itself: every word, and any that could look names up where it stands by itself.

    A line may begin with the name of a magic: IPython needs no sign for those.
    """
    firsts = {line.split(maxsplit=1)[0] for line in text.splitlines() if line.strip()}
    looks = re.search(_LOOKED_UP, text) is not None or not firsts.isdisjoint(RUN_ANYTHING)
    return Uses(words_of(text), {ANY_NAME} if looks else set(), set())


def _uses_of_magics(tree: ast.Module, transform: Callable[[str], str]) -> Uses:
    """Of a cell with magics: what each of them does with its text, and of the rest what code uses."""
    found = Uses(set(), set(), set())
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
            texts = [part.value for part in call.args if isinstance(part, ast.Constant) and isinstance(part.value, str)]
            if call.func.attr in _RUN_MAGICS:
                whole = len(texts) == len(call.args) and not call.keywords
                _add(found, _uses_of_magic(texts, transform) if whole and texts else Uses(set(), {ANY_NAME}, set()))
            elif call.func.attr in _SHELL_COMMANDS:
                _add(found, _uses_of_command(" ".join(texts)))
            else:
                continue
            call.args = [ast.Constant("") if isinstance(part, ast.Constant) else part for part in call.args]
    code = _compile(ast.fix_missing_locations(tree))
    _add(found, _uses_of_code(code) if code is not None else Uses(set(), {ANY_NAME}, set()))
    return found


def _uses_of_magic(texts: list[str], transform: Callable[[str], str]) -> Uses:
    name, _, line = texts[0].strip().partition(" ")  # `magic("run x")` has both in one text
    rest = [line, *texts[1:]]
    found = Uses({name}, set(), {name})
    if name in RUN_ANYTHING:
        found.marks.add(ANY_NAME)
    for text in rest:
        _add(found, _uses_of_command(text) if name in _OTHER_LANGUAGES else uses_of(text, transform))
    return found


def _uses_of_command(text: str) -> Uses:
    """Of a text that the shell fills in: `{x.pop()}` runs here, the rest of it does not."""
    expanded = " ".join(_EXPANDED.findall(text))
    return Uses(words_of(text), _uses_of_text(expanded).marks, set())


def _add(found: Uses, more: Uses) -> None:
    found.words.update(more.words)
    found.marks.update(more.marks)
    found.magics.update(more.magics)


def mentions_outputs(words: Iterable[str]) -> bool:
    """Whether `_`, `_3` or `Out` occurs: the objects behind them may be anyone's."""
    return any(_OUTPUTS.fullmatch(word) for word in words)


class Closure:
    """Grows a set of touched entries by what their values can reach through code."""

    def __init__(self, namespace: dict[str, object], tracking: Tracking) -> None:
        self.namespace = namespace
        self.tracking = tracking
        self.touched: set[str] = set()
        self._named: set[str] = set()
        self.everything = False

    @property
    def grouped(self) -> frozenset[str]:
        """What is touched only because it is saved together with what code names."""
        return frozenset(self.touched - self._named)

    def add(self, names: Iterable[str]) -> None:
        """Touch these names and what follows from them; only names that are bound count."""
        todo = [name for name in names if name not in self._named]
        while todo:
            name = todo.pop()
            if name in self._named or not self._exists(name):
                continue
            self._named.add(name)
            group = self.tracking.groups.get(name)
            for member in (name,) if group is None else (name, *group.members):
                if member not in self.touched:
                    self.touched.add(member)
                    todo.extend(self._follow(member))

    def add_code_names(self, names: Iterable[str]) -> None:
        """Names used by code that ran or may run."""
        names = set(names)
        self.mark(names)
        self.add(names)

    def mark(self, names: set[str]) -> None:
        """Code with these names and marks may run: it may reach everything, or no more than it names."""
        self.everything = self.everything or ANY_NAME in names or any(map(self._is_lookup, names.intersection(LOOKUPS)))

    def _is_lookup(self, mark: str) -> bool:
        """Whether the builtin is called by its name, and not something of an earlier cell that is named like it."""
        name = LOOKUPS[mark]
        return name not in self.tracking.groups or self.namespace.get(name, self) is getattr(builtins, name)

    def _exists(self, name: str) -> bool:
        return name in self.namespace or name in self.tracking.groups

    def _follow(self, name: str) -> Iterable[str]:
        used: set[str] = set()
        group = self.tracking.groups.get(name)
        if group is not None:
            used |= group.globals_used
            used.update(class_entry(uid) for uid in group.classes)
            used.update(self._find_holders(group.held_ids))
            used.update(name for other in self.tracking.find_lookers(group.held_memory) for name in other.members)
            for token in group.holders:
                used |= self.tracking.handed.get(token, frozenset())
            if group.holders:
                used |= self._names_in_module_of(self.namespace.get(name))
        value = self.namespace.get(name)
        if type(value) is FunctionType:  # a function that was just made is not tracked yet
            names = names_used(value.__code__)
            # The globals that a library's function names are its module's, whatever the notebook has of the same names.
            used |= names if value.__globals__ is self.namespace else names & {ANY_NAME}
        elif group is None and issubclass(type(value), type):
            used |= names_of_class(cast("type", value))
        elif issubclass(type(value), ModuleType):
            holdings = find_in_module(cast("ModuleType", value), self.namespace)
            used |= holdings.names
            used.update(self._find_holders(holdings.ids))
            used |= self.tracking.handed.get(module_holder(value), frozenset())
        used.update(self._homes_of(value))
        if _loads_pickles(value):
            used.update(self._definitions())
        if self._shows_namespace(value):
            used.add(ANY_NAME)
        self.mark(used)
        return used

    def _homes_of(self, value: object) -> Iterable[str]:
        """Variables for the modules of the person's own whose code the value runs: they are saved with what they hold."""
        if type(value) is FunctionType:
            names = {str(value.__globals__.get("__name__"))}
        else:
            kind = cast("type", value) if issubclass(type(value), type) else type(value)
            names = {module_name(base) for base in bases_of(kind)}
        names = {name for name in names if _is_own_module(name)}
        return (name for home in names for name in self._modules.get(home, ())) if names else ()

    @functools.cached_property
    def _modules(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, value in list(self.namespace.items()):
            if type(value) is ModuleType:
                found.setdefault(str(module_dict(value).get("__name__")), []).append(name)
        return found

    def _names_in_module_of(self, value: object) -> set[str]:
        """What was given to the module of an object that calls functions which nobody sees, as sqlite's adapters are."""
        named = type.__getattribute__(type(value), "__module__")
        module = sys.modules.get(named.partition(".")[0]) if isinstance(named, str) else None
        if module is None or module.__dict__ is self.namespace:
            return set()
        holdings = find_in_module(module, self.namespace)
        return holdings.names.union(self._find_holders(holdings.ids))

    def _definitions(self) -> Iterable[str]:
        """The functions and classes of the notebook."""
        return (
            name
            for name, value in self.namespace.items()
            if (type(value) is FunctionType and value.__globals__ is self.namespace)
            or (issubclass(type(value), type) and not is_of_library(cast("type", value)))
        )

    def _find_holders(self, ids: AbstractSet[int]) -> Iterable[str]:
        return (member for holder in self.tracking.find_holders(ids) for member in holder.members) if ids else ()

    def _shows_namespace(self, value: object) -> bool:
        """Whether the value itself is a way to every variable: the namespace, a view or method of it, a frame, a shell."""
        kind = type(value)
        if value is self.namespace or id(value) in LOOKUP_IDS or kind is FrameType or kind is TracebackType:
            return True
        if id(kind) in _OF_A_DICT:
            return any(below is self.namespace for below in gc.get_referents(value))
        if value is sys.modules or type.__getattribute__(kind, "__name__") == "Macro":
            return True
        return getattr(self.namespace.get("get_ipython"), "__self__", self) is value


# Types of views and methods of a dict.
_SOME: Any = {}
_OF_A_DICT = frozenset(
    map(id, map(type, cast("list[object]", [_SOME.keys(), _SOME.values(), _SOME.items(), _SOME.get])))
)


def _loads_pickles(value: object) -> bool:
    """Whether it calls what a pickle names, which may be anything that the notebook defines."""
    kind = type(value)
    if kind is ModuleType:
        return cast("ModuleType", value).__dict__.get("__name__") in _UNPICKLERS
    if kind is FunctionType or kind is BuiltinFunctionType:
        return cast("FunctionType", value).__module__ in _UNPICKLERS
    return kind is type and module_name(cast("type", value)) in _UNPICKLERS


def find_handed_over(
    source: str, transform: Callable[[str], str], holders: set[str], namespace: dict[str, object]
) -> dict[str, set[str]]:
    """Find, by name of a holder, names used by the functions that stand in one statement with it.

    C code may keep a function where nobody sees it, as sqlite keeps those that a query calls.
    """
    try:
        body = ast.parse(_transform(source, transform)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, set[str]] = {}
    defined: dict[str, set[str]] = {}  # by name: what functions use that this cell makes, and may have deleted by now
    for statement in body:
        named = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        within = _find_names_within(statement)
        if within:
            defined.update(dict.fromkeys(_find_targets(statement), within))
        named_holders = named & holders
        if named_holders:
            used = within | _find_names_used(statement, named, defined, namespace)
            for holder in named_holders:
                found.setdefault(holder, set()).update(used - {holder})
    return found


def _find_names_within(statement: ast.stmt) -> set[str]:
    """Names used by the functions and classes that a statement makes."""
    code = _compile(ast.Module([statement], []))
    made = (found for found in (code.co_consts if code else ()) if isinstance(found, CodeType))
    return {name for found in made for name in names_used(found)}


def _find_targets(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _find_names_used(
    statement: ast.stmt, named: set[str], defined: Mapping[str, set[str]], namespace: dict[str, object]
) -> set[str]:
    used = {used for name in named for used in defined.get(name, ())}
    for name in named:
        value = namespace.get(name)
        if type(value) is FunctionType:
            used |= names_used(value.__code__) | {name}
        elif issubclass(type(value), type) and not is_of_library(cast("type", value)):
            used |= names_of_class(cast("type", value)) | {name}
        elif type(value) is MethodType or type(value) is partial or not is_of_library(type(value)):
            used.add(name)
    for call in ast.walk(statement):  # `x.append` as an argument
        if isinstance(call, ast.Call):
            arguments = (*call.args, *(keyword.value for keyword in call.keywords))
            used |= {root for part in arguments if isinstance(part, ast.Attribute) and (root := _root(part))}
    return used


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def find_running_names(namespace: Mapping[str, object]) -> set[str]:
    """Names used by notebook code that other threads are in the middle of."""
    if threading.active_count() < 2:
        return set()
    found: set[str] = set()
    for frame in frames_of_threads().values():
        found |= _names_of_frames(frame, namespace)
    return found


def _names_of_frames(frame: FrameType | None, namespace: Mapping[str, object]) -> set[str]:
    found: set[str] = set()
    while frame is not None:
        if frame.f_globals is namespace:
            found |= names_used(frame.f_code)
        frame = frame.f_back
    return found


_ONE_NAME = re.compile(r"\s*([^\W\d]\w*)\s*")


def find_displayed_name(source: str) -> str:
    """The name that is all there is of a cell: such a cell shows a value, and does nothing else."""
    found = _ONE_NAME.fullmatch(source)
    return found[1] if found is not None else ""


def frames_of_threads() -> dict[int, FrameType]:
    """What each other thread runs now, by the thread's number."""
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # the documented way to see other threads
    # Ours leads to whoever keeps the answer: all that its callers hold would stay alive until the next collection.
    del frames[threading.get_ident()]
    return frames


def runs_notebook_code(frame: FrameType | None, namespace: Mapping[str, object]) -> bool:
    while frame is not None:
        if frame.f_globals is namespace:
            return True
        frame = frame.f_back
    return False


def find_used(callbacks: Iterable[object], namespace: dict[str, object]) -> Holdings:
    """Find what callbacks may use that something outside calls, such as event handlers."""
    found = Holdings()
    for callback in callbacks:
        holdings = find_holdings((callback,), namespace)
        found.names |= holdings.names
        found.ids |= holdings.ids
    return found


def hooks_of_process() -> Iterator[object]:
    """What Python or a library calls in the middle of other code: handlers of signals and of logs, traces, tasks."""
    yield from (sys.excepthook, sys.unraisablehook, sys.displayhook, sys.gettrace(), sys.getprofile())
    yield from (threading.excepthook, *gc.callbacks)
    handlers: Any = sys.modules["_signal"]  # `signal` makes an enum of each answer, which takes ten times as long
    of_signals: Iterator[object] = map(handlers.getsignal, _SIGNALS)
    yield from filter(callable, of_signals)
    # A comprehension: `type(one) is` takes a fifth of what two calls for each take, and there are a hundred and sixty.
    yield from [one for one in list(vars(builtins).values()) if type(one) is FunctionType]
    yield getattr(sys.modules.get("warnings"), "showwarning", None)
    yield from (*sys.meta_path, *sys.path_hooks)
    yield from (sys.stdout, sys.stderr, *_parts_of_logging())
    yield from _find_waiting_tasks()
    yield from _work_of_threads()


_SIGNALS = sorted(map(int, signal.valid_signals()))


def find_log_targets() -> set[int]:
    """Find the ids of what handlers of log records have as attributes: any code may log, and so write to such a stream."""
    logging: Any = sys.modules.get("logging")
    targets: list[object] = []
    for reference in logging._handlerList if logging is not None else ():
        handler: object = reference()
        targets += vars(handler).values() if handler is not None else ()
    return set(ids_of(targets))


def _parts_of_logging() -> Iterator[object]:
    logging: Any = sys.modules.get("logging")
    for reference in logging._handlerList if logging is not None else ():
        handler = reference()
        if handler is not None:
            yield from (handler, handler.formatter, *handler.filters)
    loggers = (logging.root, *logging.root.manager.loggerDict.values()) if logging is not None else ()
    for logger in loggers:
        yield from getattr(logger, "filters", ())


def _work_of_threads() -> Iterator[object]:
    """What threads that run, and timers, were given to do."""
    current = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not current:
            own = thread.__dict__
            work = own.get("_target") or own.get("function")
            yield from (thread, work)
            if type(work) is FunctionType:
                yield partial(work, *(own.get("_args") or own.get("args") or ()))


def _find_waiting_tasks() -> Iterator[object]:
    """Coroutines and callbacks that wait for the running event loop."""
    asyncio: Any = sys.modules.get("asyncio")
    # While another thread imports it, it is there in part: then no loop runs here.
    loop: Any = getattr(asyncio, "_get_running_loop", lambda: None)()
    if asyncio is None or loop is None:
        return
    yield from (task.get_coro() for task in asyncio.all_tasks(loop))
    yield from (handle._callback for name in ("_ready", "_scheduled") for handle in list(getattr(loop, name, ())))


def calls_notebook(hook: Any, namespace: dict[str, object]) -> bool:
    """Whether a hook is the notebook's own doing: its function, a method of its object, its coroutine, or a partial."""
    function = hook.__func__ if type(hook) is MethodType else hook
    if type(function) is FunctionType:
        # A closure may hold the notebook's, but for those that Python starts with: they find modules.
        closed = function.__closure__ is not None and not function.__code__.co_filename.startswith("<frozen ")
        if closed or function.__globals__ is namespace:
            return True
        return type(hook) is MethodType and not is_of_library(type(hook.__self__))
    if type(hook) is BuiltinFunctionType:
        return id(type(hook.__self__)) in BUILTIN_IDS
    if type(hook) is CoroutineType:
        return hook.cr_frame is not None and hook.cr_frame.f_globals is namespace
    return type(hook) is partial or not is_of_library(cast("type", type(hook)))


def module_holder(value: object) -> str:
    """The token of a module that keeps functions unseen, or nothing."""
    return next((f"module {name}" for name in _KEEPERS if sys.modules.get(name) is value), "")


_KEEPERS = ("atexit", "codecs", "sys")  # they keep what they are given in C, where the collector does not see it


def marks_of(function: Any) -> set[str]:
    """Whether a magic of a library looks into the namespace."""
    plain = getattr(function, "__func__", function)
    if type(plain) is not FunctionType or str(plain.__module__).partition(".")[0] in _OWN_MAGICS:
        return set()
    return names_used(plain.__code__) & {ANY_NAME}


_OWN_MAGICS = frozenset({"IPython", "ipykernel", "agent_kernel"})


_MOST_IN_MODULE = 200


def _items_of(container: Any) -> list[Any]:
    return list(container.values() if hasattr(container, "values") else container)


@functools.lru_cache(maxsize=1_000)
def _is_own_module(name: str) -> bool:
    return name not in ("__main__", "builtins") and name in sys.modules and not is_library(name)


def find_in_module(module: ModuleType, namespace: dict[str, object]) -> Holdings:
    """What of the notebook was put into a library's module: into its variables, its short containers, or its C state."""
    if module.__dict__ is namespace or module is builtins:
        return Holdings({ANY_NAME})
    values: list[Any] = list(module.__dict__.values())  # numpy has six hundred, so each step is one in C
    found = Holdings()
    containers: list[Any] = list(compress(values, map(BUILTIN_IDS.__contains__, ids_of(map(type, values)))))
    for container in containers:
        if len(container) <= _MOST_IN_MODULE and container is not builtins.__dict__:
            items = _items_of(container)
            values += items
            found.ids.update(ids_of(items), (id(container),))
    functions = [value for value in values if type(value) is FunctionType]
    own = compress(functions, map(partial(is_, namespace), map(attrgetter("__globals__"), functions)))
    found.names.update(name for function in own for name in names_used(function.__code__))
    below = gc.get_referents(module)
    if len(below) > 1:  # more than its dict
        state = find_holdings(below, namespace)
        found = Holdings(found.names | state.names, found.ids | state.ids)
    return found


# -- which of pyplot's figures a cell may have changed without naming them: those that pyplot was asked for
#
# pyplot keeps its figures in a dict by number, the current one last. While a session is open that dict notes what it gives
# out, so a change is found through whatever library it is made, and open figures that a cell leaves alone cost nothing.

_ORDERED: Final[Any] = OrderedDict  # with no type for its items: matplotlib says nothing of what its dict holds


class _Watch:
    """What pyplot was asked for since one cell began. Cells of several sessions may run at once, or one in another."""

    def __init__(self) -> None:
        self.requested: set[int] = set()


class _WatchedFigures(OrderedDict[object, Any]):
    """pyplot's figures by number, noting which of them were asked for: no others can have been changed through pyplot.

    A figure is made the current one, and the current one is found, by asking here.
    """

    def __init__(self, figures: Mapping[object, Any]) -> None:
        self.watches: weakref.WeakSet[_Watch] = weakref.WeakSet()
        super().__init__(figures)

    def note(self, manager: Any) -> Any:
        figure = id(getattr(getattr(manager, "canvas", None), "figure", None))
        for watch in self.watches:
            watch.requested.add(figure)
        return manager

    def __getitem__(self, key: object) -> Any:
        return self.note(super().__getitem__(key))

    def __setitem__(self, key: object, manager: Any) -> None:
        super().__setitem__(key, self.note(manager))

    def get(self, key: object, default: Any = None) -> Any:
        found = super().get(key, default)
        return found if _changes_none(sys._getframe(1)) else self.note(found)  # pyright: ignore[reportPrivateUsage]

    def values(self) -> Any:
        changes_none = _changes_none(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]
        return super().values() if changes_none else _WatchedValues(self)

    def items(self) -> Any:
        for manager in super().values():
            self.note(manager)
        return super().items()

    def pop(self, key: object, *default: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        found = super().pop(key, *default)
        # pyplot's own code, which closes figures, is known to change none.
        return found if _changes_none(sys._getframe(1)) else self.note(found)  # pyright: ignore[reportPrivateUsage]

    def popitem(self, last: bool = True) -> Any:
        key, found = super().popitem(last)
        return key, self.note(found)

    def copy(self) -> Any:
        return OrderedDict(self.items())

    def __reduce__(self) -> Any:
        return OrderedDict, (list(self.items()),)

    def __repr__(self) -> str:
        return repr(self.copy())


class _WatchedValues(ValuesView[Any]):
    """The managers, each noted as it is come to: the current figure is the last of them."""

    _mapping: _WatchedFigures

    def __iter__(self) -> Iterator[Any]:
        return map(self._mapping.note, _ORDERED.values(self._mapping))

    def __reversed__(self) -> Iterator[Any]:
        return map(self._mapping.note, reversed(_ORDERED.values(self._mapping)))


def _changes_none(frame: FrameType | None) -> bool:
    """Whether pyplot closes figures, or draws after a cell what that has changed."""
    registry = _registry()
    codes = {
        getattr(getattr(registry, name, None), "__code__", None) for name in ("destroy", "destroy_all", "destroy_fig")
    }
    if frame is None or frame.f_code in codes:
        return True
    draws = getattr(getattr(registry, "draw_all", None), "__code__", None)
    return frame.f_back is not None and frame.f_back.f_code is draws


def _registry() -> Any:
    helpers: Any = sys.modules.get("matplotlib._pylab_helpers")
    return getattr(helpers, "Gcf", None)


def watch_figures() -> object:
    """Begin to note which of pyplot's figures are asked for; what to ask `find_changed_figures` with."""
    registry = _registry()
    figures: Any = getattr(registry, "figs", None)
    if type(figures) is _ORDERED:
        figures = registry.figs = _WatchedFigures(figures)
    if type(figures) is not _WatchedFigures:
        return None
    watch = _Watch()
    figures.watches.add(watch)
    return watch


def leave_figures() -> None:
    """Let pyplot's figures be as they were before anyone watched."""
    registry = _registry()
    if type(getattr(registry, "figs", None)) is _WatchedFigures:
        registry.figs = OrderedDict(_ORDERED.items(registry.figs))


def find_changed_figures(watch: object) -> set[int] | None:
    """The ids of the figures that may have been changed through pyplot since then; None if nobody knows."""
    figures = getattr(_registry(), "figs", None)
    if type(figures) is not _WatchedFigures or not isinstance(watch, _Watch) or watch not in figures.watches:
        return None
    return watch.requested.copy()


def _activates(registry: Any, manager: object) -> Callable[[object], None]:
    """What makes a figure the current one as somebody clicks on it."""
    return lambda _event: registry.set_active(manager)


def replace_figures(replaced: Mapping[int, Any]) -> None:
    """Let pyplot go on with other figures, by the ids of those that it holds: unless they are shown in a window."""
    registry = _registry()
    figures = getattr(registry, "figs", None)
    if not isinstance(figures, _ORDERED) or not figures:
        return
    plain: Any = sys.modules["matplotlib.backend_bases"].FigureManagerBase
    for number, manager in list(_ORDERED.items(figures)):
        figure = replaced.get(id(manager.canvas.figure))
        if figure is not None and type(manager) is plain:
            made = plain(type(manager.canvas)(figure), manager.num)
            made._cidgcf = made.canvas.mpl_connect("button_press_event", _activates(registry, made))
            _ORDERED.__setitem__(figures, number, made)  # where it was: the current one stays the current one


def open_figures() -> set[int]:
    """The ids of the figures that pyplot holds."""
    figures = getattr(_registry(), "figs", None)
    managers = _ORDERED.values(figures) if isinstance(figures, _ORDERED) else ()
    return {id(getattr(getattr(manager, "canvas", None), "figure", None)) for manager in managers}
