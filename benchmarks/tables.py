"""Rows of results: what was measured, ours, the peers', and what ours must reach in the same run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    """One measured thing. `ours` and `peers` are as shown; `ok` is None where nothing is demanded."""

    what: str
    ours: str
    target: str = ""
    ok: bool | None = None
    peers: dict[str, str] = field(default_factory=dict[str, str])
    beside: str = ""
    numbers: dict[str, float] = field(default_factory=dict[str, float])


@dataclass
class Table:
    """The rows of one workload, and lines to read with them."""

    title: str
    rows: list[Row] = field(default_factory=list[Row])
    notes: list[str] = field(default_factory=list[str])

    def show(self, peers: Sequence[str]) -> str:
        """The table as Markdown, which is readable in a terminal too."""
        head = ["", "ours", *peers, "same run", "must be", ""]
        rows = [
            [row.what, row.ours, *(row.peers.get(peer, "") for peer in peers), row.beside, row.target, _verdict(row.ok)]
            for row in self.rows
        ]
        filled = [column for column in range(len(head)) if column < 2 or any(row[column] for row in rows)]
        lines = [[line[column] for column in filled] for line in (head, *rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(filled))]
        text = [_line(line, widths) for line in lines]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"## {self.title}", "", *text, *(f"* {note}" for note in self.notes), ""])


def flat(what: str, first: float, last: float, peers: dict[str, str] | None = None, beside: str = "") -> Row:
    """What the last ones take against the first ones, in seconds; on the same disk, whatever else that does."""
    growth = last / first
    shown = f"{ms(first)} → {ms(last)} = {times(growth)}"
    numbers = {"first": first, "last": last, "growth": growth}
    return Row(what, shown, "flat (≤ 1.15×)", growth <= 1.15, peers or {}, beside, numbers)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _verdict(ok: bool | None) -> str:
    return "" if ok is None else "ok" if ok else "MISSED"


def ms(seconds: float | None) -> str:
    """Seconds as milliseconds, with as many digits as mean something."""
    if seconds is None:
        return "–"
    value = seconds * 1e3
    return f"{value:,.0f} ms" if abs(value) >= 100 else f"{value:.1f} ms" if abs(value) >= 10 else f"{value:.2f} ms"


def size(nbytes: float | None) -> str:
    if nbytes is None:
        return "–"
    value = float(nbytes)
    for unit in ("B", "KB", "MB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or abs(value) >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.2f} GB"


def times(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}×"
