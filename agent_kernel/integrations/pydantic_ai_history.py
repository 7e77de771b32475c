"""Conversations of pydantic-ai by name: `AgentKernelHistory`. It needs pydantic-ai alone, and nothing of its harness.

A conversation is a list of messages on the branch (`repo.list`), so a checkout takes it along with the variables, a run adds only
what is new in it, and another name can go on from any of its messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

from blake3 import blake3
from pydantic import ConfigDict, TypeAdapter

from agent_kernel.errors import InvalidRecordError, MissingExtraError
from agent_kernel.integrations import open_on
from agent_kernel.records.lists import RecordList
from agent_kernel.records.schema import Plane
from agent_kernel.session.snapshot import Repository

try:
    from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse
except ImportError as error:
    raise MissingExtraError("pydantic-ai-slim", "agents") from error

__all__ = ["MESSAGES", "AgentKernelHistory", "is_same_message"]

_MOST_NAME: Final = 200  # bytes
MESSAGES: Final[TypeAdapter[list[ModelMessage]]] = TypeAdapter(
    list[ModelMessage],
    config=ConfigDict(defer_build=True, ser_json_bytes="base64", val_json_bytes="base64", ser_json_inf_nan="constants"),
)  # pydantic-ai's own, which puts None for infinity and NaN


class AgentKernelHistory:
    """The messages of a conversation. Safe from several threads and processes.

    Args:
        name: the conversation's; the same one goes on with it, in another process too.
        repo: a repository, or the path or URL of one.
        plane: `branch` (the default): a checkout rewinds it; `store`: it lies beside all branches, and no checkout does.
        branch: whose conversation; by default that of the branch that this process works on.

    While a session of this process is on the branch (`ak.Versioned`, a bound notebook), the conversation is part of its next
    commit, and a checkout rewinds both. A program's changes are stored at once, and the next commit of the branch takes
    them in.

    Raises:
        RefNotFoundError: there is no such branch. ValueError: the plane is `store`, and a branch was named.

    Source: pydantic-ai's `message_history` and `new_messages`.
    """

    def __init__(
        self, name: str, repo: Repository | str | Path, *, plane: Plane = "branch", branch: str | None = None
    ) -> None:
        self.name = name
        self.repo = open_on(repo, branch, plane)
        self._where: dict[str, Any] = {"plane": plane, "branch": branch}
        self._list = RecordList(self.repo, _name_of(name), commit_each=False, **self._where)

    def __repr__(self) -> str:
        return f"<AgentKernelHistory {self.name!r}: {len(self):,} messages>"

    def __len__(self) -> int:
        return len(self._list)

    def __iter__(self) -> Iterator[ModelMessage]:
        return iter(self.messages())

    def messages(self, until: int | None = None) -> list[ModelMessage]:
        """The messages, the oldest first: what `message_history` takes. With `until` only so many from the first on."""
        return MESSAGES.validate_python(self._list[:until])

    def extend(self, messages: Sequence[ModelMessage], *, expect: int | None = None) -> int:
        """Add what a run said (`result.new_messages()`), all or nothing. Returns how many messages there are then.

        Args:
            expect: how many there must be before, so that two runs do not mix what they say.

        Raises:
            StaleRecordError: there are more or fewer. TypeError: one is no `ModelMessage`.
            InvalidRecordError: JSON in UTF-8 cannot hold one of them. Nothing was stored.
        """
        new = self._dumped(messages)
        return self._list.extend(new) if expect is None else self._list.replace_tail(expect, new, expect=expect)

    def save(self, messages: Sequence[ModelMessage]) -> int:
        """Have these messages and no others (`result.all_messages()`). Those at the beginning that are the same are not stored again.

        Raises:
            InvalidRecordError: JSON in UTF-8 cannot hold one of them. Nothing was stored.
        """
        new = self._dumped(messages)

        def act() -> int:
            unchanged = 0
            for stored, one in zip(self._list, new, strict=False):
                if not is_same_message(stored, one):
                    break
                unchanged += 1
            return self._list.replace_tail(unchanged, new[unchanged:])

        return self._list.together(act, f"pydantic-ai: save {self.name}")

    def fork(self, name: str, until: int | None = None) -> AgentKernelHistory:
        """Another conversation that begins with the first messages of this one, by default with all. Both share what is stored.

        Args:
            until: how many messages. A tool's call and its answer belong together: cut before both, or after both.

        Raises:
            StaleRecordError: the other one has messages. IndexError: there are fewer than `until`.
        """
        self._list.fork(_name_of(name), until)
        return AgentKernelHistory(name, self.repo, **self._where)

    def clear(self) -> None:
        """Take all messages away."""
        self._list.clear()

    def _dumped(self, messages: Sequence[ModelMessage]) -> list[Any]:
        for one in cast("Sequence[object]", messages):
            if not isinstance(one, ModelRequest | ModelResponse):
                raise TypeError(f"a conversation holds ModelMessage objects, not {one!r:.80}")
        try:
            found: list[Any] = MESSAGES.dump_python([*messages], mode="json")
        except ValueError as error:  # half a character, or a value of no form in JSON
            raise InvalidRecordError("pydantic-ai history", self.name, str(error)) from error
        return found


def is_same_message(one: object, other: object) -> bool:
    """Whether two messages are stored as the same, also where they hold a NaN, which is not equal to itself."""
    return one == other or json.dumps(one) == json.dumps(other)


def _name_of(name: str) -> str:
    """The name of the list. One that is too long for a key, or that no key holds, is replaced by its digest."""
    raw = name.encode("utf-8", "surrogatepass")
    is_plain = name.isprintable() and len(raw) <= _MOST_NAME
    return "pydantic-ai " + (name if is_plain else f"#{blake3(raw).hexdigest()}")
