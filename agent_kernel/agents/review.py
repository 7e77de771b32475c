"""What a piece of code would do, read from it before it runs: a report for a person, and whether it has to be asked about.

It is read, not run: code can hide what it does from any reader (`dynamic` findings say where), so this helps somebody
who looks, and stops nobody who means harm.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection, Iterator
from typing import Final

from agent_kernel.agents.events import Finding

__all__ = ["is_risky", "review"]

# Modules that reach outside, by what they reach.
_REACHES: Final = {
    "network": "socket ssl http urllib urllib2 urllib3 httpx requests aiohttp ftplib smtplib imaplib poplib telnetlib "
    "websockets websocket paramiko boto3 botocore s3fs gcsfs google.cloud azure xmlrpc socketserver",
    "processes": "subprocess multiprocessing pty pexpect sh signal",
    "files": "shutil tempfile glob zipfile tarfile",
    "dynamic": "ctypes cffi importlib imp code codeop marshal",
}
_MODULES: Final = {name: kind for kind, names in _REACHES.items() for name in names.split()}
_QUIET_MODULES: Final = frozenset({"glob", "tempfile", "importlib"})  # importing them does nothing by itself
_CALLS: Final = {
    "open": "files",
    "eval": "dynamic",
    "exec": "dynamic",
    "compile": "dynamic",
    "__import__": "dynamic",
    "input": "person",
    "breakpoint": "person",
    "exit": "kernel",
    "quit": "kernel",
}
_OS: Final = {
    **dict.fromkeys(
        [
            "remove",
            "unlink",
            "rmdir",
            "removedirs",
            "rename",
            "renames",
            "replace",
            "makedirs",
            "mkdir",
            "chmod",
            "chown",
            "link",
            "symlink",
            "truncate",
            "open",
            "write",
        ],
        "files",
    ),
    **dict.fromkeys(
        [
            "system",
            "popen",
            "fork",
            "forkpty",
            "kill",
            "killpg",
            "abort",
            "_exit",
            "execv",
            "execve",
            "execvp",
            "execl",
            "spawnl",
            "spawnv",
            "startfile",
            "posix_spawn",
        ],
        "processes",
    ),
    **dict.fromkeys(["putenv", "unsetenv", "chdir", "setuid"], "process state"),
}
_METHODS: Final = {
    **dict.fromkeys(
        [
            "write_text",
            "write_bytes",
            "unlink",
            "rmdir",
            "mkdir",
            "touch",
            "rename",
            "symlink_to",
            "hardlink_to",
            "chmod",
            "to_csv",
            "to_parquet",
            "to_excel",
            "to_pickle",
            "to_json",
            "to_hdf",
            "to_feather",
            "to_sql",
            "to_html",
            "to_latex",
            "savefig",
            "tofile",
            "savetxt",
            "imsave",
            "write_csv",
            "write_parquet",
            "write_json",
            "write_excel",
            "save_pretrained",
        ],
        "files",
    ),
    **dict.fromkeys(["urlopen", "urlretrieve", "sendmail", "push_to_hub"], "network"),
}
_READS: Final = [
    "read_csv",
    "read_parquet",
    "read_excel",
    "read_json",
    "read_html",
    "read_sql",
    "read_table",
    "read_feather",
    "read_pickle",
]


def review(code: str, *, names: Collection[str] = (), allowed: Collection[str] = ()) -> tuple[Finding, ...]:
    """What the code would do, in its order, each thing once.

    Args:
        names: variables that there are: writing one of these is said apart from a new one.
        allowed: modules, and calls by dotted name, that need no asking.
    """
    found: dict[tuple[str, str], Finding] = {}
    lines, magics = _without_magics(code)
    for finding in magics:
        found.setdefault((finding.kind, finding.what), finding)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(lines)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", 0) or 0
        unread = Finding("unreadable", f"{type(error).__name__}: it will not run as Python", line, risky=False)
        return (*found.values(), unread)
    for finding in _findings(tree, frozenset(names), frozenset(allowed)):
        found.setdefault((finding.kind, finding.what), finding)
    return tuple(found.values())


def is_risky(findings: Collection[Finding]) -> bool:
    """Whether a person who wants to be asked about risky steps has to be asked."""
    return any(finding.risky for finding in findings)


def _without_magics(code: str) -> tuple[str, list[Finding]]:
    """The code with its magic and shell lines blanked out, and what those are."""
    if code.lstrip().startswith("%%"):
        name = code.lstrip().split(maxsplit=1)[0]
        return "", [
            Finding(
                "magic",
                f"{name}: the whole step is a cell magic",
                1,
                risky=name not in ("%%time", "%%timeit", "%%capture"),
            )
        ]
    kept: list[str] = []
    found: list[Finding] = []
    for number, line in enumerate(code.splitlines(), 1):
        bare = line.strip()
        assigned = bare.partition("=")[2].strip() if "=" in bare else ""
        said = bare if bare.startswith(("!", "%")) else assigned if assigned.startswith(("!", "%")) else ""
        if said.startswith("!"):
            found.append(Finding("shell", said[:120], number, risky=True))
        elif (said.startswith("%") and said[1:2].isalpha()) or said.startswith("%%"):
            found.append(Finding("magic", said[:120], number, risky=True))
        else:
            kept.append(line)
            continue
        kept.append(line[: len(line) - len(line.lstrip())] + "pass")
    return "\n".join(kept), found


def _findings(tree: ast.AST, names: frozenset[str], allowed: frozenset[str]) -> Iterator[Finding]:
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Import(names=imported):
                for alias in imported:
                    yield from _import(alias.name, line, allowed)
            case ast.ImportFrom(module=module, names=imported):
                yield from _import(module or ".", line, allowed)
                for alias in imported:
                    kind = _OS.get(alias.name) if module in ("os", "posix", "nt") else None
                    if kind and f"{module}.{alias.name}" not in allowed:
                        yield Finding(kind, f"{module}.{alias.name}", line, risky=True)
            case ast.Call(func=function):
                yield from _call(function, node, line, allowed)
            case ast.Delete(targets=targets):
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield Finding("deletes", target.id, line, risky=target.id in names)
            case ast.Attribute(attr=attribute) if _is_dunder(attribute):
                yield Finding("dunder", attribute, line, risky=True)
            case ast.Name(id=name) if name in ("__builtins__", "__loader__", "__spec__"):
                yield Finding("dunder", name, line, risky=True)
            case _:
                pass
    yield from _written(tree, names)


_HARMLESS: Final = frozenset(
    ["__init__", "__name__", "__doc__", "__class__", "__len__", "__version__", "__file__", "__qualname__", "__module__"]
)


def _is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__") and name not in _HARMLESS


def _import(module: str, line: int, allowed: frozenset[str]) -> Iterator[Finding]:
    parts = module.split(".")
    prefixes = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    yield Finding("imports", module, line)
    kind = next((_MODULES[prefix] for prefix in prefixes if prefix in _MODULES), None)
    if kind is not None and not any(prefix in allowed for prefix in prefixes):
        yield Finding(kind, f"import {module}", line, risky=module not in _QUIET_MODULES)


def _call(function: ast.expr, node: ast.Call, line: int, allowed: frozenset[str]) -> Iterator[Finding]:
    name = _dotted(function)
    if not name or name in allowed or name.partition(".")[0] in allowed:
        return
    head, _, last = name.rpartition(".")
    if not head and last in _CALLS:
        kind = _CALLS[last]
        writes = last != "open" or _opens_to_write(node)
        yield Finding(kind, _call_text(name, node), line, risky=writes)
    elif head in ("os", "posix") and last in _OS:
        yield Finding(_OS[last], _call_text(name, node), line, risky=True)
    elif last in _METHODS and head:
        yield Finding(_METHODS[last], _call_text(name, node), line, risky=True)
    elif last in _READS and head:
        address = _first_text(node)
        remote = "://" in address and not address.startswith("file:")
        kind = "network" if remote else "files"
        yield Finding(kind, _call_text(name, node), line, risky=remote or last == "read_pickle")
    elif name in ("get_ipython", "globals", "locals", "vars", "setattr", "delattr"):
        yield Finding("dynamic", f"{name}()", line, risky=name == "get_ipython")


def _opens_to_write(node: ast.Call) -> bool:
    mode = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
    if mode is None:
        return False
    return not (isinstance(mode, ast.Constant) and isinstance(mode.value, str) and not set(mode.value) & set("wax+"))


def _written(tree: ast.AST, names: frozenset[str]) -> Iterator[Finding]:
    """Names that the code binds at its top level."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Finding("changes" if node.id in names else "writes", node.id, line)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield Finding("changes" if node.name in names else "writes", node.name, line)


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(node.id)
    elif parts:
        parts.append("…")
    return ".".join(reversed(parts))


def _first_text(node: ast.Call) -> str:
    first = node.args[0] if node.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def _call_text(name: str, node: ast.Call) -> str:
    text = ast.unparse(node)
    return text if len(text) <= 120 else f"{name}(…)"
