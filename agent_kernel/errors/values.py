"""What a variable raises: it is not there, or its value could not be saved or rebuilt."""

from __future__ import annotations

from agent_kernel.errors.base import AgentKernelError, NotFoundError


class NameNotFoundError(NotFoundError):
    """A commit, or the namespace, holds no variable of this name."""

    name: str
    where: str
    close: tuple[str, ...] = ()

    def __str__(self) -> str:
        hint = f"; did you mean {' or '.join(self.close)}?" if self.close else ""
        return f"there is no variable {self.name!r} in {self.where}{hint}"


class LoadError(AgentKernelError):
    """Stored values could not be rebuilt. Nothing was changed.

    `names` are all of them, `failures` those that failed for one reason, with it, and `way` is how to go on.
    """

    names: tuple[str, ...]
    reason: str
    failures: tuple[tuple[tuple[str, ...], str], ...] = ()
    way: str = ""

    def __str__(self) -> str:
        failures = self.failures or ((self.names, self.reason),)
        lines = [f"{_some(names)} could not be loaded: {reason}" for names, reason in failures[:20]]
        if len(failures) > 20:
            lines.append(f"… and {len(failures) - 20} more")
        rest = f"nothing was changed; {self.way}" if self.way else "nothing was changed"
        return f"{lines[0]}; {rest}" if len(lines) == 1 else "\n".join([*lines, rest])


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


class LostValueError(AgentKernelError):
    """The variable stands for an object that could not be saved, or, `stored`, for one that could not be loaded."""

    name: str
    type: str
    reason: str
    remedy: str = ""
    stored: bool = False

    def __str__(self) -> str:
        of = f"{self.name!r} was a {self.type}, which" if self.type else f"{self.name!r}"
        what = f"{of} could not be {'loaded' if self.stored else 'saved'}: {self.reason}"
        return f"{what}; {self.remedy}" if self.remedy else what


class MissingCodeError(AgentKernelError):
    """A function was compiled by another Python, and its source is not known."""

    name: str
    made_by: str

    def __str__(self) -> str:
        return (
            f"{self.name!r} was compiled by Python {self.made_by} from a source that is not known; "
            f"run the code that makes it again, or use it under Python {self.made_by}"
        )
