"""What records raise."""

from __future__ import annotations

from agent_kernel.errors import AgentKernelError, NotFoundError


class RecordError(AgentKernelError):
    """Catch this to catch everything that records raise on purpose. Nothing was stored then."""

    collection: str
    id: str

    @property
    def _what(self) -> str:
        return f"{self.collection} {self.id!r}" if self.id else self.collection

    def __str__(self) -> str:
        return f"{self._what} cannot be used"


class RecordNotFoundError(RecordError, NotFoundError):
    """There is no record of this id, or it is another user's."""

    where: str = ""  # what it is not a part of: "in team 'web'"

    def __str__(self) -> str:
        return f"there is no {self._what} {self.where}".rstrip()


class InvalidRecordError(RecordError, ValueError):
    """A value does not fit the model, or a validator refuses it."""

    reason: str

    def __str__(self) -> str:
        return f"{self._what} is not valid: {self.reason}"


class RecordStateError(InvalidRecordError):
    """The record is sound, but cannot be used in this way as it stands now. `reason` says what to do."""

    def __str__(self) -> str:
        return f"{self._what}: {self.reason}"


class TransitionError(RecordError, ValueError):
    """The status may not change in this way."""

    old: str | None  # None: there was none, as the record is new
    new: str
    allowed: tuple[str, ...] = ()
    way: str = ""  # what to do instead, where it is known: the calls that lead on

    def __str__(self) -> str:
        if self.old is None:
            first = f"only {', '.join(self.allowed)} can be first" if self.allowed else "nothing can be first"
            return f"{self._what} cannot begin with {self.new}: {first}"
        if self.way:
            return f"{self._what} cannot go from {self.old} to {self.new}: {self.way}"
        after = f"only {', '.join(self.allowed)} can follow" if self.allowed else "nothing can follow it"
        return f"{self._what} cannot go from {self.old} to {self.new}: {after}"


class StaleRecordError(RecordError):
    """The record is no longer the one that was expected: somebody changed it meanwhile. Read it again."""

    expected: int  # 0: no record
    found: int
    what: str = "version"  # of a list its length
    reason: str = ""  # what happened, where more is known than the numbers say

    def __str__(self) -> str:
        if self.reason:
            return f"{self._what} {self.reason}"
        is_record = self.what == "version"  # whose first version is 1
        if is_record and not self.expected:
            return f"{self._what} is there already, at version {self.found}: read it, or choose another id"
        now = "is not there" if is_record and not self.found else f"is at {self.what} {self.found}"
        return f"{self._what} {now}, and {self.what} {self.expected} was expected: read it again"


class NewerRecordError(RecordError):
    """A newer release of the program made the record."""

    found: int
    known: int

    def __str__(self) -> str:
        return f"{self._what} has schema {self.found}, and this program knows schemas up to {self.known}: update the program"


_OPENED_BY = {
    "list": "repo.list(…, secret=…)",
    **dict.fromkeys(
        ("state", "state backup", "tier", "memory", "round of the state", "checkpoint of the state"),
        "repo.state(…, secret=…)",
    ),
}  # the calls that take the key


class SealedRecordError(RecordError):
    """The record is encrypted, and this is not its key; or it should be encrypted, and there is no key."""

    has_key: bool = True

    def __str__(self) -> str:
        if self.has_key:
            return f"{self._what} cannot be decrypted with this key"
        call = _OPENED_BY.get(self.collection)
        return f"{self._what} is encrypted: open its collection with the key{f', {call}' if call else ' (secret=…)'}"


class RecordAccessError(RecordError):
    """Whoever asks may not read or change this record."""

    verb: str = "read"

    def __str__(self) -> str:
        return f"{self._what} may not be {'read' if self.verb == 'read' else 'changed'} here"


class LockHeldError(RecordError):
    """Somebody else has the lock. Wait for it, or try again later."""

    holder: str = ""
    is_here: bool = False  # this thread has it

    def __str__(self) -> str:
        if self.is_here:
            return f"{self._what} is held by this thread already, and cannot be taken twice"
        who = f"{self.holder} has it" if self.holder else "its lease is over"
        return f"{self._what} is not yours: {who}"
