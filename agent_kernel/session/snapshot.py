"""Look at a past state from Python without touching anything live: a mapping that loads a value when it is asked for."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent_kernel import repository
from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import ObjectId, short
from agent_kernel.session import trust
from agent_kernel.session.tracking import Living, Tracking
from agent_kernel.values import CLASS_PREFIX, previews
from agent_kernel.values.surface import name_placeholders

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any, Self

    from pydantic import BaseModel

    from agent_kernel.records.agent_states import Agents
    from agent_kernel.records.collection import Records
    from agent_kernel.records.documents import Secret
    from agent_kernel.records.knowledge import Knowledge
    from agent_kernel.records.lists import RecordList
    from agent_kernel.records.queue import Lock, Queue, Teams
    from agent_kernel.records.schema import Plane
    from agent_kernel.records.speech import Speech
    from agent_kernel.records.state import State
    from agent_kernel.records.tools import Tools
    from agent_kernel.records.workflows import Workflows
    from agent_kernel.storage import Store

    M = TypeVar("M", bound=BaseModel)


class Repository(repository.Repository):
    """A repository whose values can be loaded."""

    @classmethod
    def open(cls, store: Store | str | Path, *, create: bool = True) -> Self:
        """Open the repository at a path or URL. One that is made here is trusted.

        Raises:
            NotAStoreError: it holds something else, or nothing and `create` is False.
            NewerFormatError: a newer release made it.
            StoreUnavailableError: it cannot be used, or came from elsewhere damaged.
        """
        if isinstance(store, str | Path):
            trust.look_first(store)
        repo = super().open(store, create=create)
        if repo.setting("secret") is None and not repo.branches() and create and not repo.is_readonly():
            trust.register(repo)
        elif trust.is_trusted(repo) and not repo.store.url.startswith("memory:"):
            trust.note_place(repo)  # it was moved: this is where it is from now on
        return repo

    def is_readonly(self) -> bool:
        """Whether the store was opened so that nothing can be written."""
        return bool(getattr(self.store, "is_readonly", False))

    def is_damaged(self) -> bool:
        """Whether a part of the store was found to be unreadable as it was opened."""
        return bool(getattr(self.store, "is_damaged", False))

    def trust(self) -> None:
        """Let values of this store be loaded, which can run code."""
        trust.register(self)

    # Who names a commit of a branch means all that the branch holds.

    def take_in(self) -> None:
        if not self.is_readonly():
            from agent_kernel.records.lines import settle

            settle(self)

    def records(
        self,
        model: type[M],
        *,
        key: str = "id",
        branch: str | None = None,
        validators: Sequence[Callable[[Any], object]] = (),
        secret: Secret | None = None,
        actor: str = "",
    ) -> Records[M]:
        """The records of a pydantic model, as a mapping by their ids.

        Args:
            key: the field that names a record.
            branch: whose records, for models of the plane `branch`; by default the one that this process works on.
            validators: each is called with a record before it is stored, and refuses it by raising ValueError or returning False.
            secret: encrypts what is stored; the same one reads it. Of several the first one encrypts. It needs the extra `sign`.
            actor: who is written down as having made the changes; by default the person who runs the process.
        """
        from agent_kernel.records.collection import Records

        return Records(self, model, key=key, branch=branch, validators=validators, secret=secret, actor=actor)

    def list(
        self,
        name: str,
        *,
        plane: Plane = "store",
        user: str = "",
        branch: str | None = None,
        secret: Secret | None = None,
        actor: str = "",
        commit_each: bool = True,
    ) -> RecordList:
        """A list of what JSON can hold, which grows at its end, and whose tail can be replaced. It begins empty.

        Args:
            plane: `store`: it lies beside all branches, and grows by little more than its items. `branch`: it goes into the commits
                and a checkout rewinds it.
            user: whose list it is. Lists of the same name of two users have nothing in common.
            secret: encrypts what is stored; the same one reads it. Of several the first one encrypts. It needs the extra `sign`.
            commit_each: on a branch that no session holds, each change is a commit. With False it is as durable, all readers see it, and
                the next commit of the branch takes it in: changes take less room and time, and their history has one entry for many.
        """
        from agent_kernel.records.lists import RecordList

        return RecordList(
            self, name, plane=plane, user=user, branch=branch, secret=secret, actor=actor, commit_each=commit_each
        )

    def state(
        self,
        user: str,
        session: str = "default",
        *,
        plane: Plane = "branch",
        branch: str | None = None,
        validators: Mapping[str, Callable[[Any], object]] | None = None,
        sanitisers: Mapping[str, Callable[[Any], Any]] | None = None,
        transitions: Mapping[str, Mapping[Any, Sequence[Any]]] | None = None,
        allow: Mapping[str, Sequence[str]] | None = None,
        secret: Secret | None = None,
        secret_keys: Sequence[str] | None = None,
        cache_s: float = 0.0,
        ttl_s: float | None = None,
        alert_bytes: int | None = None,
        on_alert: Callable[[int], object] | None = None,
        actor: str = "",
    ) -> State:
        """The state of an agent for a user and a session: values by key, rounds and checkpoints.

        The rules are given for keys, or for patterns of keys (`user.*`).

        Args:
            plane: `branch`: it goes into the commits, and a checkout rewinds it. `store`: it lies beside all branches.
            validators: refuse a value by raising ValueError or returning False.
            sanitisers: make of a value the one that is validated and stored.
            transitions: from a value, which others may follow. Any may follow a value without an entry. The entry for `None`
                lists the values that may be first, also after a deletion.
            allow: which keys may be read (`read`) and written (`write`). By default all.
            secret: encrypts what is stored. Of several the first one encrypts, and all read. It needs the extra `sign`.
            secret_keys: the keys whose values are encrypted, by default all. What is saved as a whole is encrypted in any case.
            cache_s: seconds for which a value that was read is not read again. What this state sets is seen at once, and a checkout of
                this process too.
            ttl_s: seconds after which a value is gone.
            alert_bytes: the size at which `on_alert` is called with the size, or without it a warning is given.
        """
        from agent_kernel.records.state import Rules, State

        rules = Rules(
            {} if validators is None else validators,
            {} if sanitisers is None else sanitisers,
            {} if transitions is None else transitions,
            () if allow is None else (allow,),
            secret_keys,
        )
        return State(
            self,
            user,
            session,
            plane=plane,
            branch=branch,
            rules=rules,
            secret=secret,
            cache_s=cache_s,
            ttl_s=ttl_s,
            alert_bytes=alert_bytes,
            on_alert=on_alert,
            actor=actor,
        )

    def lock(self, name: str, *, lease_s: float = 60.0, wait_s: float | None = None) -> Lock:
        """A lock that threads and processes share: `with repo.lock("index"): ...`. It is stored beside all branches.

        Args:
            lease_s: seconds after which it ends by itself. It ends sooner where its process or machine is gone.
            wait_s: seconds for which `with` waits until it raises LockHeldError; by default as long as a lease.
        """
        from agent_kernel.records.queue import Lock

        return Lock(self, name, lease_s=lease_s, wait_s=wait_s)

    def transaction(self, message: str = "") -> AbstractContextManager[None]:
        """Store all that this thread (and asyncio task) changes of records within the block together, or nothing if it raises.

        One within another is a part of that, which may fail alone.
        """
        from agent_kernel.records.collection import transaction

        return transaction(self, message)

    def queue(self, team: str) -> Queue:
        """The tasks of a team: each goes to one worker, and comes back if that one dies."""
        from agent_kernel.records.queue import Queue

        return Queue(self, team)

    @cached_property
    def workflows(self) -> Workflows:
        """Work in steps, with progress and checkpoints. It belongs to the branch: a checkout rewinds it."""
        from agent_kernel.records.workflows import Workflows

        return Workflows(self)

    @cached_property
    def teams(self) -> Teams:
        """Agents that work together, and what they can do. No checkout rewinds it."""
        from agent_kernel.records.queue import Teams

        return Teams(self)

    @cached_property
    def tools(self) -> Tools:
        """What functions that are decorated with `tool` did, and how well. No checkout rewinds it."""
        from agent_kernel.records.tools import Tools

        return Tools(self)

    @property
    def tool(self) -> Tools:
        """Decorate a function with `@repo.tool`, or `@repo.tool(cache=3600, retries=3)`, and its calls are recorded."""
        return self.tools

    @cached_property
    def knowledge(self) -> Knowledge:
        """What was indexed of which sources. No checkout rewinds it."""
        from agent_kernel.records.knowledge import Knowledge

        return Knowledge(self)

    @cached_property
    def speech(self) -> Speech:
        """Sessions of speech to text, text to speech, and conversation. No checkout rewinds it."""
        from agent_kernel.records.speech import Speech

        return Speech(self)

    @cached_property
    def agents(self) -> Agents:
        """Snapshots and checkpoints of agents, which belong to the branch, and their supervision, which no checkout rewinds."""
        from agent_kernel.records.agent_states import Agents

        return Agents(self)

    def close(self) -> None:
        """Store what records still wait for, and let go of the store."""
        if "agent_kernel.records.lines" in sys.modules:
            from agent_kernel.records.lines import flush

            flush(self)
        super().close()

    def at(self, rev: str | ObjectId = "HEAD") -> Snapshot:
        """The variables at a commit, each loaded when it is asked for.

        Raises:
            RefNotFoundError, AmbiguousRefError: there is no such commit, or several.
        """
        return Snapshot(self, self.resolve(rev))


class _Globals(dict[str, object]):
    """The globals of a snapshot's functions: its other variables, loaded when a function asks."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__({"__name__": "__main__", "__builtins__": builtins})
        self._snapshot = snapshot

    def __missing__(self, name: str) -> object:
        return self._snapshot[name]


class Snapshot(Mapping[str, object]):
    """The variables of one commit. Values that share objects are loaded together, once.

    Args:
        namespace: what restored functions see as their globals; by default the snapshot's own variables.
        classes: by id, live classes that are the same at that commit, to make instances of.
        plain: whether nothing but plain data is loaded, whoever made the store. It is so in any case where that is someone
            who is not trusted.
    """

    def __init__(
        self,
        repo: repository.Repository,
        commit: ObjectId,
        namespace: dict[str, object] | None = None,
        classes: Mapping[str, type] | None = None,
        *,
        plain: bool = False,
    ) -> None:
        self.repo = repo
        self._plain = plain
        self.commit = commit
        self._tree = repo.tree_at(commit)
        self._living = Living()
        self._namespace = _Globals(self) if namespace is None else namespace
        self._loaded: dict[str, object] = {}
        self._classes: dict[str, type] = dict(classes or {})

    def __getitem__(self, name: str) -> object:
        """Load a value.

        Raises:
            NameNotFoundError: the commit has no such variable.
            LoadError: it cannot be rebuilt, or is more than plain data in a store that someone else made; the other
                variables can still be had.
        """
        if name not in self._loaded:
            if name.startswith("\0") or name not in self._tree:
                raise NameNotFoundError(name, short(self.commit), close_names(name, self))
            self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> None:
        from agent_kernel.session import loading

        empty = self.repo.tree(None)
        plan = loading.plan(self.repo, Tracking(), self._living, empty, self._tree, [name])
        for uid, kind in self._classes.items():
            if plan.entries.pop(CLASS_PREFIX + uid, None) is not None:
                plan.reusable[uid] = kind
        built = loading.build(self.repo, self._living, self._namespace, plan, plain=self._plain)
        failed = [one for one in built.failed if name in one.members]
        if failed:
            raise loading.load_error(failed)
        self._classes |= built.classes
        name_placeholders(built.values)
        for found, value in built.values.items():
            self._loaded.setdefault(found, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and not name.startswith("\0") and name in self._tree

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._tree.names() if not name.startswith("\0"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def summary(self, name: str) -> str:
        """One line about a value, without loading it.

        Raises:
            NameNotFoundError: the commit has no such variable.
        """
        entry = self._tree.get(name)
        if entry is None:
            raise NameNotFoundError(name, short(self.commit), close_names(name, self))
        return previews.line(previews.decode(self.repo.read_preview(entry)))

    def __repr__(self) -> str:
        many = len(self)
        return f"<Snapshot {short(self.commit)}: {many:,} variable{'s' if many != 1 else ''}>"


def close_names(name: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names that the person may have meant."""
    import difflib

    return tuple(difflib.get_close_matches(name, [known for known in names if not known.startswith("\0")], 3))
