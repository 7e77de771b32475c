"""Which store this shell is bound to unless someone says otherwise, and what is remembered of what they said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from agent_kernel.errors import StoreUnavailableError
from agent_kernel.verbs.places import bound_elsewhere, default_place, find_store, is_store, remember
from agent_kernel.verbs.text import clean, place_text

__all__ = ["Places"]


class Configured(Protocol):
    """The option that says where the store is; it goes before all else."""

    store: str


class Places:
    """The places of one notebook, or of the terminals in one folder. `notebook` names the notebook, if it is one."""

    def __init__(self, options: Configured, notebook: Callable[[], Path | None]) -> None:
        self._options = options
        self._notebook = notebook
        self._folder: Path | None = None  # of a terminal: where it was when it first asked

    def _own(self) -> Path:
        if self._folder is None:
            self._folder = Path.cwd()
        return default_place(self._notebook(), self._folder)

    def first(self, *, adopts: bool) -> tuple[str, tuple[str, ...]]:
        """Where to bind when nobody said where, and what to say about it.

        Args:
            adopts: take over the store of the same notebook under its old name, if there is one.

        Raises:
            StoreUnavailableError: the person bound a store that is gone by now.
            NotAStoreError, NewerFormatError: it cannot be told which they bound.
        """
        if self._options.store:
            return find_store(self._options.store, create=True), ()
        own, notebook = self._own(), self._notebook()
        chosen = bound_elsewhere(own)
        if chosen is not None and not is_store(chosen):
            back = f"%agent bind {place_text(str(own))} goes back to the usual place"
            raise StoreUnavailableError(str(chosen), f"it was bound here, and is not there any more ({back})")
        if chosen is not None or notebook is None or not adopts:
            return str(chosen or own), ()
        from agent_kernel.verbs.adoption import adopt

        return str(own), adopt(notebook)

    def remember(self, store: str) -> str:
        """Let the next session here find the store that the person bound, and say in a line whether it will."""
        if self._options.store:
            return f"the next session starts at {clean(self._options.store)} again: c.AgentKernel.store says so"
        notebook = self._notebook()
        next_one = f"the next session of {clean(notebook.name)}" if notebook else "the next terminal in this folder"
        try:
            finds = remember(self._own(), store)
        except OSError as error:
            return f"{next_one} will not find it, because that cannot be noted: {error}"
        return f"{next_one} finds it here" if finds else "it ends with this session"
