"""What an agent remembers: a conversation that fits into a model's context, and values in tiers.

Nothing is forgotten to make room. A conversation is a list, and a window on it says where its newest part begins and what a summary
says of the rest. A value that is little used is put away, and comes back when it is asked for.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from pydantic import ConfigDict, JsonValue

from agent_kernel.errors import InvalidRecordError
from agent_kernel.records.collection import exactly, is_in_transaction, together
from agent_kernel.records.documents import (
    checks_arguments,
    not_negative,
    require_function,
    require_plain_function,
    require_result,
    require_takes,
    require_text,
    shown,
)
from agent_kernel.records.schema import Record
from agent_kernel.records.trees import decode_row

if TYPE_CHECKING:
    from agent_kernel.records.state import State

logger = logging.getLogger(__name__)

Message: TypeAlias = dict[str, Any]
Tier: TypeAlias = Literal["hot", "warm", "cold"]

_CHARS_A_TOKEN: Final = 4  # of English text, by the tokenizers of most models


class _Window(Record):
    collection = "memory"
    keeps_past = False
    first: int = 0  # messages before it are not sent
    summary: str = ""  # of those


@checks_arguments
class Memory:
    """A conversation, of which `messages()` has no more than so many tokens.

    Args:
        max_tokens: how many tokens the messages may have together, the summary included.
        count_tokens: how many tokens a text has, 0 or more; by default a quarter of its characters.
        summarise: is called with the summary so far and the messages that no longer fit, and returns the new summary. Without it
            the oldest messages are just not sent any more. What it raises goes to the log: then the oldest are not sent either.
        commit_each: with True each message is a commit of its own, where no session holds the branch. Otherwise it is as durable, and
            goes into the next commit: see `Repository.list`.

    >>> import agent_kernel as ak
    >>> memory = ak.open("memory:").state("ada").memory(10, count_tokens=lambda text: len(text.split()))
    >>> for number in range(5):
    ...     memory.add("user", f"this is message number {number}")
    >>> print(*(message["content"] for message in memory.messages()), sep="; ")
    this is message number 3; this is message number 4
    >>> len(memory)
    5
    """

    def __init__(
        self,
        state: State,
        max_tokens: int,
        *,
        name: str = "memory",
        count_tokens: Callable[[str], int] | None = None,
        summarise: Callable[[str, list[Message]], str] | None = None,
        commit_each: bool = False,
    ) -> None:
        self.max_tokens = not_negative(max_tokens, "max_tokens")
        if count_tokens is not None:
            require_takes(require_function(count_tokens, "count_tokens"), "count_tokens", 1)
        self.name = name
        self.all = state.events(name, commit_each=commit_each)
        self._commit_each = commit_each
        self._id = f"{state.place}{name}"
        self._windows = state.records_of(_Window)
        self._count: Callable[[str], int] = functools.partial(_checked, count_tokens or _about)
        if summarise is not None:
            require_plain_function(summarise, "a memory")
            require_takes(summarise, "summarise", 2)
        self._summarise = summarise

    def __len__(self) -> int:
        """How many messages there are, sent or not."""
        return len(self.all)

    def add(self, role: str, content: str, **more: JsonValue) -> None:
        """Add a message.

        Raises:
            InvalidRecordError: it alone has more tokens than the memory, or JSON cannot hold it. TypeError, ValueError:
                `count_tokens` did not return a number of tokens. Nothing was stored.
        """
        for what, text in (("a message", content), ("a role", role)):
            if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # who calls may not check types
                reason = f'{what} is text, not {shown(text)}: add("user", "hello") adds one'
                raise InvalidRecordError("memory", self.name, reason)
        if not role:
            raise InvalidRecordError("memory", self.name, 'a role is not empty: "user", for example')
        tokens = self._count(content)
        if tokens > self.max_tokens:
            reason = f"a message has {tokens:,} tokens, and the memory {self.max_tokens:,}"
            raise InvalidRecordError("memory", self.name, reason)

        def act() -> None:
            self.all.append({"role": role, "content": content, **more})
            if self._summarise is None:
                window = self._window()
                first = self._first_that_fits(window, self.max_tokens)
                if first != window.first:
                    self._windows.put(window.model_copy(update={"first": first}))

        self._together(act, f"memory: {role}")
        if self._summarise is not None:
            self._shorten(self._summarise)

    def messages(self) -> list[Message]:
        """What a model is sent: the summary, if there is one, and the newest messages.

        The newest one is among them. Where it leaves little room, the summary is cut.
        """
        window = self._window()
        first = self._first_that_fits(window, self.max_tokens)
        messages: list[Message] = self.all[first:]
        if not messages:
            messages = self._newest(window)
        summary = self._cut(window.summary, self.max_tokens - self._tokens_of(messages))
        return [{"role": "system", "content": summary}, *messages] if summary else messages

    def _newest(self, window: _Window) -> list[Message]:
        """The newest message, if there is one and the memory has room for it alone."""
        newest: list[Message] = self.all[window.first :][-1:]
        return newest if self._tokens_of(newest) <= self.max_tokens else []

    def _tokens_of(self, messages: list[Message]) -> int:
        return sum(self._count(one["content"]) for one in messages)

    def _cut(self, text: str, tokens: int) -> str:
        """The beginning of a text that has no more than so many tokens."""
        while text and self._count(text) > tokens:
            text = text[: len(text) * 3 // 4]
        return text

    def tokens(self) -> int:
        """How many tokens `messages()` has."""
        return self._tokens_of(self.messages())

    def clear(self) -> None:
        """Forget the conversation."""

        def act() -> None:
            self.all.clear()
            self._windows.delete(self._id)

        self._together(act, "memory: clear")

    def _together(self, act: Callable[[], None], message: str) -> None:
        together(self._windows, act, message, may_lie_beside=not self._commit_each)

    def _window(self) -> _Window:
        found: _Window | None = self._windows.get(self._id)
        return found or _Window(id=self._id)

    def _first_that_fits(self, window: _Window, tokens: int) -> int:
        """Where the newest messages begin that have no more than so many tokens together with the summary."""
        messages = self.all[window.first :]
        tokens_left = tokens - self._count(window.summary) if window.summary else tokens
        first = window.first + len(messages)
        for message in reversed(messages):
            tokens_left -= self._count(message["content"])
            if tokens_left < 0:
                break
            first -= 1
        return first

    def _shorten(self, summarise: Callable[[str, list[Message]], str]) -> None:
        """Let a summary stand for the oldest messages, until the others take half of the room: so it is rarely made.

        The newest message stays as it is.
        """
        window = self._window()
        if self._first_that_fits(window, self.max_tokens) == window.first:
            return
        first = self._first_that_fits(window.model_copy(update={"summary": ""}), self.max_tokens // 2)
        dropped = self.all[window.first : min(first, len(self.all) - 1)]
        if not dropped:
            return
        first = window.first + len(dropped)
        try:
            made = require_result(summarise(window.summary, copy.deepcopy(dropped)), "a memory")
            summary = require_text(made, "a summary")
        except Exception:  # of the function, which is not ours
            logger.exception("a conversation could not be summarised")
            return
        summary = self._cut(summary, self.max_tokens // 2)

        def act() -> None:
            if self._window() == window and self.all[window.first : first] == dropped:
                self._windows.put(window.model_copy(update={"first": first, "summary": summary}))
            else:
                logger.debug("a conversation was cleared or summarised by somebody else meanwhile")

        self._together(act, "memory: summary")


def _about(text: str) -> int:
    return -(-len(text) // _CHARS_A_TOKEN)


def _checked(count: Callable[[str], int], text: str) -> int:
    return not_negative(count(text), "what count_tokens returns")


class _TierRecord(Record):
    model_config = ConfigDict(ser_json_inf_nan="constants")
    collection = "tier"
    keeps_past = False
    value: JsonValue
    tier: str = "warm"
    used_ns: int = 0


class _Order(Record):
    """A warm value. The ids sort them by when they were used, so that the least used is found without reading the others."""

    collection = "tier order"
    keeps_past = False
    is_final = True
    key: str


@checks_arguments
class Tiers:
    """Values in three tiers: hot in this process, warm in the store, cold put away there.

    The least used values go one tier down where there are too many in one; a cold value comes up when it is asked for.

    >>> import agent_kernel as ak
    >>> tiers = ak.open("memory:").state("ada").tiers(hot=1, warm=2)
    >>> for name in "abc":
    ...     tiers.put(name, name.upper())
    >>> {name: tiers.tier(name) for name in "abc"}
    {'a': 'cold', 'b': 'warm', 'c': 'hot'}
    >>> tiers.get("a"), tiers.tier("a")
    ('A', 'hot')
    """

    def __init__(self, state: State, *, hot: int = 16, warm: int = 256) -> None:
        self._prefix = state.place
        self._named_errors = state.named_errors
        self._rules = state.rules
        self._is_past = state.past is not None
        self._records = state.records_of(_TierRecord)
        self._orders = state.records_of(_Order)
        self._is_ordered = False  # whether all warm values have an _Order, also those of earlier releases
        self._most_hot = not_negative(hot, "hot")
        self._most_warm = not_negative(warm, "warm")
        self._hot: OrderedDict[str, tuple[bytes, Any]] = OrderedDict()  # with what is stored: others change it too
        self._lock = threading.Lock()

    def put(self, key: str, value: JsonValue) -> None:
        """Store a value. It is hot.

        Raises:
            RecordAccessError: the key may not be written. InvalidRecordError: a validator of the state refuses it.
        """
        self._rules.require("write", key)
        self._put(key, self._rules.clean(key, value))

    def _put(self, key: str, value: JsonValue) -> None:
        def act() -> None:
            self._order_old()
            self._leave_order(key)
            used_ns = time.time_ns()
            self._records.put(
                _TierRecord.model_construct(id=self._prefix + key, value=value, tier="warm", used_ns=used_ns)
            )
            self._put_order(key, used_ns)
            self._put_away()

        with self._named_errors():
            together(self._records, act, f"tiers: put {key}")
        self._is_ordered = True
        self._heat(key, self._stored(key))

    def get(self, key: str, default: Any = None) -> Any:
        """The value, from whatever tier, or `default`. Raises: RecordAccessError: the key may not be read."""
        self._rules.require("read", key)
        stored = self._stored(key)
        if stored:
            with self._lock:
                known = self._hot.get(key)
                if known is not None and known[0] == stored:
                    self._hot.move_to_end(key)
                    return copy.deepcopy(known[1])
        found = self._found(key)
        if found is None:
            return default
        if found.tier == "cold" and not self._is_past:
            self._put(key, found.value)
        else:
            self._heat(key, stored)
        return found.value

    def tier(self, key: str) -> Tier | None:
        """Where a value lies; None: nowhere."""
        self._rules.require("read", key)
        found = self._found(key)
        if found is None:
            return None
        stored = self._stored(key)
        with self._lock:
            is_hot = bool(stored) and self._hot.get(key, (b"", None))[0] == stored
        return "hot" if is_hot else "cold" if found.tier == "cold" else "warm"

    def delete(self, key: str) -> bool:
        """Delete a value; whether it was there. Raises: RecordAccessError: the key may not be written."""
        self._rules.require("write", key)
        with self._lock:
            self._hot.pop(key, None)

        def act() -> bool:
            self._leave_order(key)
            return self._records.delete(self._prefix + key)

        with self._named_errors():
            return together(self._records, act, f"tiers: delete {key}")

    def _found(self, key: str) -> _TierRecord | None:
        with self._named_errors():
            found: _TierRecord | None = self._records.get(self._prefix + key)
        return found

    def context(self, *, cold: str = "") -> dict[str, Any]:
        """The values of all tiers together, the most used first.

        Args:
            cold: a pattern of the cold keys that belong to it; by default none.
        """
        start = len(self._prefix)
        may_read = functools.partial(self._rules.allows, "read")
        with self._named_errors():
            all_found = self._records.find(exactly(self._prefix) + "*", where=lambda one: may_read(one.id[start:]))
        found = {one.id[start:]: one for one in all_found}
        cold_ids = set(self._records.ids(exactly(self._prefix) + cold)) if cold else set[str]()
        with self._lock:
            hot = [key for key in reversed(self._hot) if key in found]
        rest = sorted(found.keys() - set(hot), key=lambda key: -found[key].used_ns)
        keys = [key for key in (*hot, *rest) if found[key].tier == "warm" or found[key].id in cold_ids]
        return {key: found[key].value for key in keys}

    def _stored(self, key: str) -> bytes:
        """What is stored, which no other value ever is, as its time is in it; b"": nothing, or nothing yet."""
        if self._is_past or is_in_transaction():
            return b""
        id = self._records.prefix + self._prefix + key
        return self._records.line().read([id]).get(id, b"")

    def _heat(self, key: str, stored: bytes) -> None:
        if not stored:
            return
        value = self._records.load(decode_row(stored), self._prefix + key).value
        with self._lock:
            self._hot[key] = stored, value
            self._hot.move_to_end(key)
            while len(self._hot) > self._most_hot:
                self._hot.popitem(last=False)

    def _put_away(self) -> None:
        orders = list(self._orders.ids(exactly(self._prefix) + "*"))
        for id in orders[: max(len(orders) - self._most_warm, 0)]:
            key = self._orders[id].key
            record: _TierRecord | None = self._records.get(self._prefix + key)
            self._orders.delete(id)
            # A merge may leave the order of a value that was used again, or put away, on the other side.
            if record is not None and record.tier == "warm" and self._order_id(key, record.used_ns) == id:
                self._records.update(record.id, tier="cold")

    def _leave_order(self, key: str) -> None:
        before: _TierRecord | None = self._records.get(self._prefix + key)
        if before is not None:
            self._orders.delete(self._order_id(key, before.used_ns))

    def _put_order(self, key: str, used_ns: int) -> None:
        self._orders.put(_Order.model_construct(id=self._order_id(key, used_ns), key=key))

    def _order_id(self, key: str, used_ns: int) -> str:
        return f"{self._prefix}{used_ns:020d}{hashlib.sha256(key.encode()).hexdigest()[:8]}"

    def _order_old(self) -> None:
        """Give an order to the warm values that an earlier release stored."""
        if self._is_ordered or next(self._orders.ids(exactly(self._prefix) + "*"), None) is not None:
            return
        for one in self._records.find(exactly(self._prefix) + "*", where={"tier": "warm"}):
            self._put_order(one.id[len(self._prefix) :], one.used_ns)
