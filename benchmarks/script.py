"""What a workload asks of a system, step by step, and what came of each step. Travels as JSON between processes.

The parent writes a script; a child runs it under one system and writes the outcomes. The child needs nothing but the
standard library, IPython and the system's own packages, so this module imports nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Literal

Kind = Literal["cell", "mark", "checkout", "branch", "measure"]


@dataclass(frozen=True)
class Step:
    """One thing to do. `label` names it for the reader of the outcomes; several steps may share one.

    cell: run `source`. mark: remember under `label` the state and what the variables are, untimed. checkout: go back
    to the marked state `source` (or, where the system has branches, to the branch of that name). branch: start branch
    `source` here. measure: time the reference `source` on what is in memory (ours alone).
    `watch`: another process looks at how much memory this one takes meanwhile.
    """

    do: Kind
    source: str
    label: str = ""
    watch: bool = False


def cell(source: str, label: str = "", *, watch: bool = False) -> Step:
    return Step("cell", source, label, watch)


def mark(label: str) -> Step:
    return Step("mark", "", label)


def checkout(to: str, label: str = "", *, watch: bool = False) -> Step:
    return Step("checkout", to, label, watch)


def branch(name: str) -> Step:
    return Step("branch", name)


def measure(what: str, label: str = "") -> Step:
    return Step("measure", what, label or what)


@dataclass
class Outcome:
    """What came of a step. Times in seconds; disk is what the system keeps.

    Memory, of watched steps alone, is what the process took from the machine for itself, without the pages of files that
    it looked at, which the machine takes back as it likes.
    `cpu_s` is what the processor spent on all of a cell or checkout, in every thread.
    `code_s` is the part of `total_s` that ran the cell's own code (`code_cpu_s`: that the processor spent on it); the
    rest is the shell's and the system's.
    `wrong` are variables that a checkout brought back unequal, missing or left over.
    """

    do: str
    label: str
    total_s: float = 0.0
    code_s: float = 0.0
    code_cpu_s: float = 0.0
    cpu_s: float = 0.0
    disk: int = 0
    memory_before: int = 0
    memory_peak: int = 0
    resident_peak: int = 0
    value: float = 0.0
    error: str = ""
    wrong: list[str] = field(default_factory=list[str])
    checked: int = 0

    @property
    def hook_s(self) -> float:
        return self.total_s - self.code_s


@dataclass
class Run:
    """A script run under one system. `error` says why it ended early, if it did."""

    system: str
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    error: str = ""
    notices: list[str] = field(default_factory=list[str])

    def of(self, label: str) -> list[Outcome]:
        """The outcomes with this label; none of them where the run ended before."""
        return [one for one in self.outcomes if one.label == label]

    def cells(self) -> Iterator[Outcome]:
        return (one for one in self.outcomes if one.do == "cell")

    def hook_s(self, label: str) -> float | None:
        """Typical time around the code of the cells with this label."""
        return middle([one.hook_s for one in self.of(label)])

    def total_s(self, label: str) -> float | None:
        return middle([one.total_s for one in self.of(label)])

    def value(self, label: str) -> float | None:
        """Typical value of a measured reference."""
        return middle([one.value for one in self.of(label)])

    def disk_of(self, label: str) -> float | None:
        """What one step with this label typically added to the disk, in bytes."""
        grown = [
            one.disk - before.disk
            for before, one in zip(self.outcomes, self.outcomes[1:], strict=False)
            if one.label == label
        ]
        return median(grown) if grown else None

    def disk_now(self) -> int:
        return self.outcomes[-1].disk if self.outcomes else 0

    def wrong(self) -> list[str]:
        """Everything that checkouts brought back wrong, as `mark: name`."""
        return [f"{one.label}: {name}" for one in self.outcomes for name in one.wrong]

    def problems(self) -> list[str]:
        """Cells that failed, and what the system complained of."""
        failed = [f"{one.label or one.do}: {one.error}" for one in self.outcomes if one.error]
        return ([self.error] if self.error else []) + failed + self.notices


def middle(numbers: Sequence[float]) -> float | None:
    """The median, if there is one."""
    return median(numbers) if numbers else None


def write_steps(path: Path, steps: Sequence[Step]) -> None:
    path.write_text(json.dumps([asdict(step) for step in steps]))


def read_steps(path: Path) -> list[Step]:
    return [Step(**fields) for fields in json.loads(path.read_text())]


def write_run(path: Path, run: Run) -> None:
    path.write_text(json.dumps(asdict(run)))


def read_run(path: Path) -> Run:
    fields = json.loads(path.read_text())
    fields["outcomes"] = [Outcome(**one) for one in fields["outcomes"]]
    return Run(**fields)
