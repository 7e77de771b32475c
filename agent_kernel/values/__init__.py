"""Objects to bytes and back: pickling, segments, alias groups, definitions and previews.

Nothing here knows a store, a branch or IPython.
"""

from __future__ import annotations

from collections.abc import Iterable

# -- the names of a tree's entries that stand for no variable: notebook classes are saved under one of their own

CLASS_PREFIX = "\0class:"


def list_for_person(names: Iterable[str]) -> str:
    """List the names for a person: the variables; of a class that no variable is saved with, the class."""
    names = list(names)
    variables = [name for name in names if not name.startswith("\0")]
    return ", ".join(variables or [f"class {name.removeprefix(CLASS_PREFIX).partition('#')[0]}" for name in names])


def class_entry(uid: str) -> str:
    """The name under which a notebook class is saved."""
    return CLASS_PREFIX + uid
