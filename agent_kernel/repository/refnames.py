"""What may name a branch or a tag: git's rules, so that names mean the same in both."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Final

from agent_kernel.errors import InvalidRefNameError

MAX_BYTES: Final = 200
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]")
_UNSEEN: Final = frozenset({"Cc", "Cs", "Zl", "Zp"})
_TURNING: Final = frozenset("\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def check_ref_name(name: str) -> str:
    """Return the name if it can name a branch or a tag.

    Raises:
        InvalidRefNameError: git would refuse it, it is longer than 200 bytes, or it holds control characters.
    """
    reason = _objection(name)
    if reason:
        raise InvalidRefNameError(name, reason)
    return name


def check_new_ref_name(name: str) -> str:
    """The same for a name that is being given: `refs/heads/main` is how git writes main, and would look like it.

    Raises:
        InvalidRefNameError: it begins with `refs/`, or as `check_ref_name`.
    """
    if name.startswith("refs/"):
        plain = name.removeprefix("refs/").removeprefix("heads/").removeprefix("tags/")
        raise InvalidRefNameError(name, f"it begins with refs/; say {plain}" if plain else "it begins with refs/")
    return check_ref_name(name)


@functools.lru_cache(maxsize=64)  # each commit asks of its branch
def _objection(name: str) -> str:
    if not name:
        return "it is empty"
    if any(unicodedata.category(char) in _UNSEEN for char in name) or not _TURNING.isdisjoint(name):
        return "it holds control characters"
    if len(name.encode()) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    if found := _FORBIDDEN.search(name):
        return f"it holds {found[0]!r}" if found[0] != " " else "it holds a space"
    if ".." in name or "@{" in name:
        return f"it holds {'..' if '..' in name else '@{'}, which means something else in git"
    if name in ("@", "HEAD") or name.startswith("-"):
        return "it means something else in git"
    if name.endswith("."):
        return "it ends with a dot"
    return next((reason for part in name.split("/") if (reason := _objection_to_part(part))), "")


def _objection_to_part(part: str) -> str:
    if not part:
        return "it begins or ends with a slash, or holds two in a row"
    if part.startswith("."):
        return "a part of it begins with a dot"
    if part.endswith(".lock"):
        return "a part of it ends with .lock"
    return ""
