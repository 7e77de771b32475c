"""What a call reaches outside the variables, read from what is called and what it is given.

Everything here errs towards asking where the name says that it may write or send, and towards silence where it would be
ordinary work on data: a table that is turned into text, a file that is only read, a figure that is saved to memory.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

from agent_kernel.agents.review.meaning import (
    BROWSER,
    BUILTINS,
    FUNCTIONS,
    METHODS,
    OPENERS,
    SINKS,
    SQL_LEAVES,
    SQL_READS,
    SQL_SETTINGS,
    SQL_WRITES,
    STATEMENTS,
    TALKER_WORDS,
    WRITERS,
    WRITES,
    Meanings,
    is_getattr,
    is_globals,
    module_kind,
    reaches,
)

__all__ = ["goes_to_memory", "kind_of_call", "kind_of_method", "root_name", "written_name"]

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


def kind_of_call(node: ast.Call, name: str, meanings: Meanings) -> str:
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


def kind_of_method(name: str) -> str:
    """What a method reaches that somebody else is to call by this name, as `methodcaller` does."""
    return METHODS.get(name, "files" if name in WRITERS else "")


def _by_name(node: ast.Call, name: str, head: str, last: str, meanings: Meanings) -> str:
    if name in OPENERS:
        return (
            "files" if _opens_to_write(node, meanings, is_method=False) and not goes_to_memory(node, meanings) else ""
        )
    if name in _LOADS and node.args and (meanings.is_own_pickle(node.args[0]) or goes_to_memory(node, meanings)):
        return ""
    if name in _IMPORTS and node.args and (texts := meanings.whole_texts(node.args[0])) is not None:
        return "dynamic" if any(reaches(text) or reaches(f"{text}.*") for text in texts) else ""
    if name in FUNCTIONS or name in BUILTINS:
        kind = FUNCTIONS.get(name) or BUILTINS[name]
        is_memory = goes_to_memory(node, meanings) or (name == "numpy.memmap" and _only_reads(node))
        return "" if kind == "files" and is_memory else kind
    if name.startswith("get_ipython"):
        return "shell"
    if name == "open" or last == "open":
        writes = _opens_to_write(node, meanings, is_method=bool(head)) and not goes_to_memory(node, meanings)
        return "files" if writes and not _keeps_nothing(node, meanings) else ""
    if name in ("sqlite3.connect", "duckdb.connect"):
        database = meanings.whole_texts(node.args[0]) if node.args else None
        is_own = database == (":memory:",) or goes_to_memory(node, meanings)
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
        is_in_memory = METHODS[last] in ("files", "database") and goes_to_memory(node, meanings)
        return "" if is_in_memory or (last == "execute" and _only_queries(node, meanings)) else METHODS[last]
    if last in WRITERS:
        return "files" if _writes_to_target(node, head, last, meanings) else ""
    if WRITES.fullmatch(last) and (node.args or node.keywords) and head != "self":
        return "" if goes_to_memory(node, meanings) else "files"
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
            kind = kind_of_method(part) or FUNCTIONS.get(f"os.{part}", "")
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


def goes_to_memory(node: ast.Call, meanings: Meanings) -> bool:
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
    return not goes_to_memory(node, meanings)


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


# What changes the items of an array in place: its own methods, and functions whose first argument it is.
_CHANGING_ITEMS: Final = frozenset(
    ["sort", "fill", "put", "partition", "itemset", "resize", "setfield", "byteswap", "setflags", "shuffle"]
)
_CHANGING_ARRAYS: Final = frozenset(["shuffle", "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"])


def root_name(node: ast.AST) -> str:
    """The variable of which this is a part or a view: `m` of `m`, `m[2:]` and `m.T[0]`; "": of none."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def written_name(node: ast.AST) -> str:
    """The variable whose items this changes in place; "": of none that can be told."""
    match node:
        case ast.AugAssign(target=target):
            return root_name(target)
        case ast.Subscript(ctx=ast.Store()) | ast.Attribute(ctx=ast.Store()):
            return root_name(node)
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in _CHANGING_ITEMS and root_name(held):
            return root_name(held) if method != "shuffle" or not node.args else root_name(node.args[0])
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[first, *_]) if name in _CHANGING_ARRAYS:
            return root_name(first)
        case ast.keyword(arg="out", value=ast.Tuple(elts=[first, *_])) | ast.keyword(arg="out", value=first):
            return root_name(first)
        case _:
            return ""
