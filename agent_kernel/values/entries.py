"""The names of a tree's entries that stand for no variable: notebook classes are saved under one of their own."""

from __future__ import annotations

CLASS_PREFIX = "\0class:"


def class_entry(uid: str) -> str:
    """The name under which a notebook class is saved."""
    return CLASS_PREFIX + uid
