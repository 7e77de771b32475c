"""What a commit did to each variable: old and new in a line each, from what was noted when they were committed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.browsing.answers import Sign
from agent_kernel.browsing.faces import has_attributes
from agent_kernel.browsing.listing import sign_of
from agent_kernel.browsing.memory import is_hidden
from agent_kernel.browsing.wording import cleaned
from agent_kernel.errors import StoreError
from agent_kernel.repository import Entry
from agent_kernel.session.history import size_of
from agent_kernel.values import summaries
from agent_kernel.values.summaries.wording import MORE
from agent_kernel.verbs import describe
from agent_kernel.verbs.comparing import Differing, details_of
from agent_kernel.verbs.contents import stored
from agent_kernel.verbs.describe import most_interesting_first

if TYPE_CHECKING:
    from agent_kernel.session import Repository

__all__ = ["Change", "changes_of", "summary_of"]

_MOST_READ = 8_000_000  # bytes of both versions that are compared for a line; more only when the variable is opened
_MOST_TAKEN_APART = 200_000  # bytes of an object whose attributes are looked for
_OPENING = frozenset({"array", "frame", "mapping", "series", "tensor", "text"})
_LINE = 160
_FEW = 3  # keys of a dict
_MOST = 500  # variables


class Change(msgspec.Struct, frozen=True):
    """One variable. `old` is empty where both sides read the same, and `new` then says what is different."""

    name: str
    how: Sign
    type: str
    old: str
    new: str
    old_size: int | None
    new_size: int | None
    opens: bool


def changes_of(repo: Repository, found: Sequence[Differing]) -> tuple[tuple[Change, ...], int]:
    """One line for each variable that differs, the most interesting first, then what was removed; and how many there are beyond.

    Of very many the largest are told.
    """
    told = most_interesting_first(repo, found, _MOST)
    return tuple(_change(repo, one) for one in told), len(found) - len(told)


def _change(repo: Repository, one: Differing) -> Change:
    before, after = summary_of(repo, one.old), summary_of(repo, one.new)
    missing = _missing(repo, one.name, one.old), _missing(repo, one.name, one.new)
    old, new = _content(one.old, before, missing[0]), _content(one.new, after, missing[1])
    is_placeholder = [each is not None and each.is_whole for each in missing]
    if one.how == "~" and all(is_placeholder):
        old = "" if old == new else old  # how the placeholders differ says nothing of the values
    elif one.how == "~" and old == new:
        old, new = "", ", ".join(part for part in (new, _what_differs(repo, one)) if part)
    elif one.how == "~" and MORE in old + new and (elements := _elements_that_differ(repo, one, before, after)):
        old, new = "", elements  # cut, both would read the same
    known = after or before
    return Change(
        name=cleaned(one.name),
        how="=" if one.how == "=" else sign_of(one.how),
        type=summaries.noun(known) if known is not None else "",
        old=cleaned(old, _LINE),
        new=cleaned(new, _LINE),
        old_size=None if one.old is None or is_placeholder[0] else size_of(repo, one.old),
        new_size=None if one.new is None or is_placeholder[1] else size_of(repo, one.new),
        opens=one.how != "=" and not any(is_placeholder) and known is not None and _opens(repo, one, before, after),
    )


def summary_of(repo: Repository, entry: Entry | None) -> summaries.Summary | None:
    """What was noted about a value; None where nothing was, or where that is damaged: the rest can still be shown."""
    try:
        return None if entry is None else describe.summary_of(repo, entry)
    except StoreError:
        return None


def _missing(repo: Repository, name: str, entry: Entry | None) -> describe.NotSaved | None:
    try:
        return describe.not_saved(repo, name, entry)
    except StoreError:
        return None


def _content(entry: Entry | None, summary: summaries.Summary | None, missing: describe.NotSaved | None) -> str:
    if entry is None:
        return ""
    if missing is not None and missing.is_whole:
        return missing.said
    said = "not described" if summary is None else summaries.content(summary)
    return said if missing is None else f"{said} ({missing.said})".strip()


def _what_differs(repo: Repository, one: Differing) -> str:
    if one.old is None or one.new is None:
        return ""
    if not one.old.is_same_value(one.new) and size_of(repo, one.old) + size_of(repo, one.new) > _MOST_READ:
        return "contents differ"
    try:
        details = details_of(repo, one.old, one.new)
    except StoreError:  # damaged: what is known is that it is stored otherwise
        return "contents differ"
    return details[0] if len(details) == 1 and "may differ" not in details[0] else "contents differ"


def _elements_that_differ(
    repo: Repository, one: Differing, before: summaries.Summary | None, after: summaries.Summary | None
) -> str:
    """Of dicts the first keys that differ, as `'alpha': 0.95 → 0.5`; nothing where that is not known."""
    if one.old is None or one.new is None or summaries.names_a_secret(one.name):
        return ""
    if any(side is None or side.kind != "mapping" or is_hidden(side) for side in (before, after)):
        return ""
    if size_of(repo, one.old) + size_of(repo, one.new) > _MOST_READ:
        return ""
    try:
        found = [line for line in details_of(repo, one.old, one.new) if line[:2] in ("~ ", "+ ", "- ")]
    except StoreError:  # damaged: what was noted of both is shown
        return ""
    more = f" and {len(found) - _FEW} more" if len(found) > _FEW else ""
    return ", ".join(line.removeprefix("~ ") for line in found[:_FEW]) + more


def _opens(repo: Repository, one: Differing, before: summaries.Summary | None, after: summaries.Summary | None) -> bool:
    """Whether there is more to see of it than the line says."""
    kinds = {side.kind for side in (before, after) if side is not None}
    if any(summaries.is_picture(side) for side in (before, after) if side is not None):
        return True
    if summaries.names_a_secret(one.name) or any(is_hidden(side) for side in (before, after) if side is not None):
        return False
    if kinds == {"object"} and any(side.columns for side in (before, after) if side is not None):
        return True
    if kinds == {"object"} and one.how == "~" and one.new is not None:
        return size_of(repo, one.new) <= _MOST_TAKEN_APART and _has_attributes(repo, one.new)
    if not kinds & _OPENING:
        return False
    if kinds == {"text"}:
        return one.how == "~"
    return True


def _has_attributes(repo: Repository, entry: Entry) -> bool:
    try:
        return has_attributes(stored(repo, entry))
    except (StoreError, RecursionError):
        return False
