"""What most workloads do: run the same steps under plain IPython, ours and the peers, and take the differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.bench import Bench
from benchmarks.script import Run, Step
from benchmarks.tables import Row, ms, size


@dataclass
class Runs:
    """One script under each system. Overheads are against plain IPython."""

    plain: Run
    ours: Run
    peers: dict[str, Run] = field(default_factory=dict[str, Run])

    def overhead(self, run: Run, label: str) -> float | None:
        """Seconds that a system typically adds to a cell with this label, around the cell's own code."""
        mine, bare = run.hook_s(label), self.plain.hook_s(label)
        return None if mine is None or bare is None else max(mine - bare, 0.0)

    def ours_overhead(self, label: str) -> float:
        found = self.overhead(self.ours, label)
        if found is None:
            raise RuntimeError(f"our run has no cell {label!r}: {'; '.join(self.ours.problems())}")
        return found

    def reference(self, label: str) -> float:
        found = self.ours.value(label)
        if found is None:
            raise RuntimeError(f"our run has no reference {label!r}: {'; '.join(self.ours.problems())}")
        return found

    def peers_overhead(self, label: str) -> dict[str, str]:
        return {name: ms(self.overhead(run, label)) for name, run in self.peers.items()}

    def peers_checkout(self, label: str) -> dict[str, str]:
        return {name: _checkout(run, label) for name, run in self.peers.items()}

    def peers_disk(self, label: str) -> dict[str, str]:
        return {name: size(run.disk_of(label)) for name, run in self.peers.items()}

    def problems(self) -> list[str]:
        """One line a system for cells that failed and the like."""
        found: list[str] = []
        for name, run in {"ours": self.ours, **self.peers}.items():
            said = run.problems()
            if said:
                more = f" (and {len(said) - 2} more)" if len(said) > 2 else ""
                found.append(f"{name}: {'; '.join(one[:160] for one in said[:2])}{more}")
        return found


def run_all(bench: Bench, steps: Sequence[Step], *, skip: Sequence[str] = ()) -> Runs:
    """Run the steps everywhere, plain IPython first.

    Args:
        skip: peers that would take hours.
    """
    plain = bench.run("plain", steps)
    ours = bench.run("ours", steps)
    return Runs(plain, ours, {peer: bench.run(peer, steps) for peer in bench.peers if peer not in skip})


def exact_row(runs: Runs, what: str = "checkouts, every value as it was") -> Row:
    """Whether all marked states came back."""
    return Row(
        what,
        exactness(runs.ours),
        "all exact",
        not runs.ours.wrong() and not runs.ours.problems(),
        {name: exactness(run) for name, run in runs.peers.items()},
    )


def exactness(run: Run) -> str:
    went = [one for one in run.outcomes if one.do == "checkout"]
    exact = sum(1 for one in went if not one.error and not one.wrong)
    names = sorted({name for one in went for name in one.wrong})
    failed = sum(1 for one in went if one.error)
    wrong = f": {', '.join(names[:4])}{' …' if len(names) > 4 else ''}" if names else ""
    return f"{exact} of {len(went)}{wrong}{f', {failed} failed' if failed else ''}" if went else "no checkout"


def _checkout(run: Run, label: str) -> str:
    went = run.of(label)
    if not went:
        return "–"
    if any(one.error for one in went):
        return "failed"
    return ms(run.total_s(label)) + (", wrong" if any(one.wrong for one in went) else "")
