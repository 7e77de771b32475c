"""The variables of which no model is told, as `%agent hide` names them. The list belongs to the store."""

from __future__ import annotations

from agent_kernel.session.ignoring import NameList


class HideList(NameList):
    """A set of names and patterns that survives the session."""

    setting = "hidden"
