"""A store as a namespace for an agent outside: a branch of it, whose values are loaded when something first acts on them."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from agent_kernel.agents.place import Place
from agent_kernel.mcp.stepping import Steps
from agent_kernel.mcp.tools import Told, Tools
from agent_kernel.repository import Author
from agent_kernel.session import Repository, Versioned
from agent_kernel.verbs.places import find_store

__all__ = ["Stored", "opened"]


@contextmanager
def opened(store: str, *, agent: str, approve: str, step_s: float | None, branch: str | None) -> Generator[Stored]:
    """The store, closed at the end.

    Raises:
        StoreError: it cannot be opened. NotAStoreError: the place holds no store.
    """
    repo = Repository.open(find_store(store), create=False)
    found = Stored(repo, store, agent=agent, approve=approve, step_s=step_s, branch=branch)
    try:
        yield found
    finally:
        found.close()
        repo.close()


class Stored:
    """The tools of a store."""

    def __init__(
        self, repo: Repository, name: str, *, agent: str, approve: str, step_s: float | None, branch: str | None
    ) -> None:
        self._repo = repo
        self._branch = branch
        self._agent = agent
        self._state: Versioned | None = None
        self._place: Place | None = None
        self._notes: list[str] = []
        decides = (
            f"The person allows it with `agent-kernel approve {name} --run {{run}}`, or denies it with "
            f"`agent-kernel deny {name} --run {{run}} REASON`."
        )
        self._begin = partial(Steps, self.open, approve=approve, step_s=step_s, decides=decides)
        self._steps: dict[str, Steps] = {}  # of each agent

    def call(self, tool: str, arguments: dict[str, object], agent: str = "") -> Told:
        """Use a tool by its name."""
        name = agent or self._agent
        steps = self._steps[name] = self._steps.get(name) or self._begin(agent=name)
        told = Tools(self._repo, lambda: self._place, steps).call(tool, arguments)
        notes, self._notes = self._notes, []
        return Told("\n\n".join([told.text, *notes]), told.failed) if notes else told

    def stop(self) -> None:
        """Interrupt the code that runs; from any thread."""
        for steps in tuple(self._steps.values()):
            steps.stop()

    def open(self) -> Place:
        """The branch's variables, loaded when this is first called.

        Raises:
            UntrustedStoreError: somebody else made the store, and nobody here trusts it.
        """
        if self._place is None:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                self._state = Versioned(self._repo, branch=self._branch, author=Author(self._agent, "agent"))
            self._notes += [str(one.message) for one in told]
            self._place = Place(self._state.session.namespace, self._state.session)
        return self._place

    def close(self) -> None:
        """Give the branch back."""
        if self._state is not None:
            self._state.close()
