"""`hide`: the variables that no model is told of, by name or by pattern."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection
from fnmatch import fnmatchcase

from agent_kernel.session.hiding import HideList
from agent_kernel.session.ignoring import is_pattern
from agent_kernel.session.snapshot import close_names
from agent_kernel.verbs.ignoring import check_entry, known_names
from agent_kernel.verbs.output import Result, Said
from agent_kernel.verbs.parsing import Parser, UsageProblem
from agent_kernel.verbs.scope import Scope
from agent_kernel.verbs.text import clean, plural

__all__ = ["hide", "hide_arguments"]


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
