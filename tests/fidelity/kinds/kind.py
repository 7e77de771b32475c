"""A kind of object: the cell that makes one, and what must hold before it is saved and after it came back."""

from __future__ import annotations

from dataclasses import dataclass, field
from textwrap import dedent


@dataclass(frozen=True)
class Kind:
    """`checks` are assertions that run in the notebook's namespace; `needs` are packages that may be missing."""

    title: str
    cell: str
    checks: str
    needs: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cell", dedent(self.cell).strip() + "\n")
        object.__setattr__(self, "checks", dedent(self.checks).strip() + "\n")
