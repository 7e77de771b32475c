"""What a panel shows of itself where there is no kernel: in a saved notebook, on a web page, in a console."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from agent_kernel.browsing.mime import CARD, HISTORY

if TYPE_CHECKING:
    from agent_kernel.panels.desk import Answer, Desk
    from agent_kernel.verbs.output import Opens, Result

__all__ = ["faces_of", "standing_for", "start_of"]

_FORMAT: Final = 1  # of what stands for a card


def faces_of(desk: Desk, result: Result, opens: Opens) -> Answer:
    """What is shown where there is no kernel, by MIME type. It stays in the notebook's file, so it holds no code and no values."""
    faces, start = desk.faces(), start_of(opens)
    if not opens.commit and opens.compared is None and opens.conflict is None:
        return faces
    preview = {**cast("Answer", faces[HISTORY]), "start": start}
    kept = result.outline()
    return {HISTORY: preview, "text/html": kept.to_html(), "text/plain": kept.to_text(100)}


def standing_for(desk: Desk, start: Answer) -> Answer:
    """What tells a front end which card, question or race this is, so that it shows it, or its HTML, where the widget is gone."""
    return {CARD: {"version": _FORMAT, "store": desk.store, **start}}


def start_of(opens: Opens) -> Answer:
    """The same, as the view wants it."""
    if opens.compared is not None:
        older, newer = opens.compared
        return {"compare": {"a": older, "b": newer, **({"name": opens.name} if opens.name else {})}}
    if opens.conflict is not None:
        conflict = opens.conflict
        said = {"message": conflict.message, "partial": conflict.partial, "picks": conflict.picks}
        told = {key: value for key, value in said.items() if value}
        sides = {"ours": list(conflict.ours), "theirs": list(conflict.theirs)}
        return {"conflicts": {"branch": conflict.rev, **sides, **told}}
    if opens.commit:
        return {"commit": opens.commit}
    return {"text": opens.search} if opens.search else {}
