"""Tab completion of `%agent` lines: commands, options, refs, variable names, places.

It reads refs and names only. No value is loaded and nothing of the user's is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_kernel.agents.event_log import EventStore, describe_temporary
from agent_kernel.commands.scope import COMMANDS, Kind, Parser, Scope, UsageProblem, command_named, parser_of
from agent_kernel.errors import AgentKernelError
from agent_kernel.repository import split_path

_LINE = re.compile(r"\s*(?:[^\W\d]\w*\s*=\s*)?%agent\s+(.*)", re.DOTALL)


def words_so_far(line: str) -> list[str] | None:
    """The words after `%agent`, the last one unfinished (or empty); None for other lines."""
    match = _LINE.fullmatch(line)
    return match[1].split(" ") if match else None


def candidates(words: list[str], scope: Callable[[], Scope], live: Callable[[], Iterable[str]]) -> list[str]:
    """What the last word could become. `live`: names the variables that there are now."""
    typed, last = [word for word in words[:-1] if word], words[-1]
    try:
        found = _list_candidates(typed, last, scope, live)
    except (AgentKernelError, UsageProblem):
        return []
    return sorted({name for name in found if name.startswith(last) and not any(map(str.isspace, name))})


def _list_candidates(
    typed: list[str], last: str, scope: Callable[[], Scope], live: Callable[[], Iterable[str]]
) -> Iterable[str]:
    if not typed:
        return [*COMMANDS, "--help"]
    parser = parser_of(command_named(typed[0]))
    if "--" in typed:
        return _names(scope(), live())
    if last.startswith("-"):
        return [*parser.options, *(["--"] if parser.takes_names else [])]
    kind = _kind(parser, typed[1:])
    if kind == "name":
        return _names(scope(), live())
    return _of_kind(kind, last, scope()) if kind else []


def _kind(parser: Parser, typed: list[str]) -> Kind | None:
    """What the next word stands for: the value of the option before it, or the next positional argument."""
    if typed and (of_option := parser.options.get(typed[-1])):
        return of_option
    valued = {at + 1 for at, word in enumerate(typed) if parser.options.get(word)}
    position = sum(not word.startswith("-") and at not in valued for at, word in enumerate(typed))
    if parser.repeats:
        position = min(position, len(parser.kinds) - 1)
    return parser.kinds[position] if position < len(parser.kinds) else None


def _of_kind(kind: Kind, last: str, scope: Scope) -> Iterable[str]:
    if kind == "branch":
        return _branches(scope, last)
    if kind == "tag":
        return scope.repo.tags()
    if kind == "place":
        return _list_paths(last)
    if kind == "path" and ":" in last:
        rev, _ = split_path(last)
        tree = scope.repo.tree(scope.commit(rev or "HEAD")[1].tree)
        return [f"{rev}:{name}" for name in tree.names() if not name.startswith("\0")]
    return [] if kind == "text" else ["HEAD", *_branches(scope, last), *scope.repo.tags()]


def _branches(scope: Scope, last: str) -> Iterable[str]:
    """Those that agents have for a while are offered to those who typed how they begin, and no person's begins."""
    temporary = describe_temporary(scope.repo, EventStore(scope.repo.store))
    mine = [name for name in scope.repo.branches() if name not in temporary]
    return mine if not last or any(name.startswith(last) for name in mine) else temporary


def _names(scope: Scope, live: Iterable[str]) -> Iterable[str]:
    head = scope.head().commit
    stored = scope.repo.tree(scope.repo.commit_at(head).tree).names() if head is not None else ()
    return [name for name in {*live, *stored} if not name.startswith("\0")]


def _list_paths(last: str) -> Iterable[str]:
    folder = Path(last).expanduser() if last.endswith("/") else Path(last).expanduser().parent
    start = last if last.endswith("/") else last[: len(last) - len(Path(last).name)]
    found = [one for one in folder.iterdir() if one.is_dir() or one.suffix == ".ipynb"] if folder.is_dir() else []
    named = [f"{start}{one.name}{'/' if one.is_dir() else ''}" for one in found if _is_offered(one.name, last)]
    # Never nothing at the start: IPython would offer its own magics.
    return [*named, *(["~/"] if not last else [])]


def _is_offered(name: str, last: str) -> bool:
    """Hidden folders are offered to those who typed the dot."""
    return not name.startswith(".") or last.rpartition("/")[2].startswith(".")
