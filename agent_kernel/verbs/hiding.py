"""`hide` and `ignore`: the variables that no model is told of, and those that are never stored, by name or by pattern."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Collection
from fnmatch import fnmatchcase

from agent_kernel.session.ignoring import HideList, IgnoreList, is_pattern
from agent_kernel.session.snapshot import close_names
from agent_kernel.verbs.output import Result, Said
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean, plural, spelled

__all__ = ["check_entry", "hide", "hide_arguments", "ignore", "ignore_arguments", "known_names"]


# -- `ignore`: the variables that are never stored, by name or by pattern

_PATTERN = re.compile(r"[\w*?\[\]!-]+")


def ignore_arguments(parser: Parser) -> None:
    parser.takes_all("names", "name", help="variables, or patterns ('tmp_*'); without any, list those that are ignored")
    parser.flag("--remove", help="store them again from now on")
    parser.explains(
        "The value is not stored; the code of cells is kept as it was typed (log and show mask what looks like a\n"
        "secret). `forget NAME --sources --yes` takes what is stored already, and what the code gave away."
    )


def ignore(scope: Scope, options: Namespace) -> Result:
    ignored = IgnoreList(scope.repo) if scope.session is None else scope.session.ignoring
    names: list[str] = list(dict.fromkeys(options.words))
    if not names:
        if options.remove:
            raise UsageProblem("say which variables")
        listed = sorted(ignored)
        return Said((f"Ignored: {spelled(listed)}" if listed else "No variable is ignored.",), {"ignored": listed})
    if options.remove:
        return _remove(scope, ignored, names)
    known = known_names(scope)
    for name in names:
        check_entry(name, known)
    for name in names:
        (ignored.add if scope.session is None else scope.session.ignore)(name)
    return Said(tuple(line for name in names for line in _said_of_ignoring(scope, name, known)), {"ignored": names})


def _remove(scope: Scope, ignored: IgnoreList, names: list[str]) -> Said:
    unknown = [name for name in names if name not in set(ignored)]
    if unknown:
        listed = spelled(sorted(ignored)) or "nothing"
        raise UsageProblem(f"{clean(', '.join(unknown))} is not on the list of what is ignored ({listed})")
    for name in names:
        (ignored.remove if scope.session is None else scope.session.unignore)(name)
    return Said(tuple(f"{clean(name)} is stored again, from the next commit on" for name in names), {"stored": names})


def known_names(scope: Scope) -> set[str]:
    """Names of variables that there are: bound now, or stored at HEAD."""
    head = scope.head().commit
    stored = set(scope.repo.tree_at(head).names()) if head is not None else set[str]()
    return stored | set(scope.session.namespace if scope.session is not None else ())


def check_entry(name: str, known: Collection[str] = ()) -> None:
    """Raises: UsageProblem: this is neither a variable's name nor a pattern of names."""
    if name in known or name.isidentifier():
        return
    if not (is_pattern(name) and _PATTERN.fullmatch(name)):
        raise UsageProblem(f"{name!r} cannot be the name of a variable, nor a pattern of names")


def _said_of_ignoring(scope: Scope, name: str, known: Collection[str]) -> list[str]:
    shown = clean(name)
    if is_pattern(name):
        fits = sum(fnmatchcase(other, name) for other in known)
        return [f"What fits {shown} is not stored from now on ({plural(fits, 'variable')} now)"]
    if name not in known:
        return [f"{shown} is not bound now; it will be ignored when it appears"]
    forget = scope.typed("forget", name, "--sources", "--yes")
    return [
        f"{shown} is not stored from now on; what is stored already stays until it is forgotten",
        f"The code of its cells is kept as typed: {forget} takes out both",
    ]


def hide_arguments(parser: Parser) -> None:
    parser.takes_all(
        "names", "name", help="variables, or patterns ('client_*'); without any, list those that are hidden"
    )
    parser.flag("--remove", help="models may be told of them again")
    parser.explains(
        "A hidden variable stays in the history and can be used by code. Its name, and texts and numbers of four\n"
        "characters and more of its value, are left out of what models are sent from now on, also where code prints them.\n"
        "Not left out: what is computed from it, shorter texts and numbers, and what a model was sent before. An agent\n"
        "that guesses the name can still use it: `ignore` and `forget` keep a value out of the history."
    )


def hide(scope: Scope, options: Namespace) -> Result:
    hidden = HideList(scope.repo)
    names: list[str] = list(dict.fromkeys(options.words))
    if not names:
        if options.remove:
            raise UsageProblem("say which variables")
        listed = sorted(hidden)
        return Said(
            (f"Hidden: {', '.join(map(clean, listed))}" if listed else "No variable is hidden.",), {"hidden": listed}
        )
    if options.remove:
        unknown = [name for name in names if name not in set(hidden)]
        if unknown:
            raise UsageProblem(f"{clean(', '.join(unknown))} is not on the list of what is hidden")
        for name in names:
            hidden.remove(name)
        return Said(tuple(f"Models may be told of {clean(name)} again" for name in names), {"shown": names})
    for name in names:
        check_entry(name)
    for name in names:
        hidden.add(name)
    known = known_names(scope)
    return Said(tuple(line for name in names for line in _told(name, known)), {"hidden": names})


def _told(name: str, known: Collection[str]) -> list[str]:
    shown = clean(name)
    if is_pattern(name):
        fits = sum(fnmatchcase(other, name) for other in known)
        return [f"No model is told of what fits {shown} from now on ({plural(fits, 'variable')} now)"]
    told = f"No model is told of {shown} from now on"
    if name in known:
        return [told]
    near = close_names(name, [other for other in known if not other.startswith("_")])
    hint = f"; did you mean {' or '.join(map(clean, near))}?" if near else ""
    return [told, f"There is no variable {shown} now{hint}"]
