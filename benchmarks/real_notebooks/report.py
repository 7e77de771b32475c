"""The table of all notebooks that were run, the lines for each, and where the cost is."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from benchmarks.real_notebooks.runs import Result
from benchmarks.tables import Row, Table, ms, times

_LONG_S = 1.0  # notebooks whose ratio counts for itself: in shorter ones the first cell is most of it


def summarize(results: Sequence[Result]) -> Table:
    """What the issue of real notebooks asks for, and whether it holds."""
    done = [result for result in results if not result.stopped]
    added = [seconds for result in done for seconds in result.added()]
    table = Table(f"{len(done)} notebooks, {len(added):,} cells, CPU time against plain")
    if not done:
        return table
    long = [result.ratio for result in done if sum(result.plain) >= _LONG_S]
    every = [result.ratio for result in done]
    beside = f"all: {times(median(every))}, {times(_tenth(every))}"
    if long:
        table.rows += [
            _ratio(f"whole notebook, {len(long)} of 1 s and more: median", median(long), 1.08, beside),
            _ratio("… 90th percentile", _tenth(long), 1.25),
        ]
    slow, very = (sum(seconds > limit for seconds in added) for limit in (0.1, 1.0))
    share = slow / len(added)
    table.rows.append(Row("cells that cost 100 ms more", f"{share:.1%} ({slow})", "1.5%", share <= 0.015))
    table.rows.append(Row("… 1 s more", f"{very / len(added):.2%} ({very})", "none", very == 0))
    failed = sum(len(result.complaints) for result in done)
    told = f"{failed} in {sum(bool(result.complaints) for result in done)} notebooks" if failed else "0"
    table.rows.append(Row("cells whose commit failed, or that show a traceback of ours", told, "0", failed == 0))
    changed = sum(len(result.errors) for result in done)
    table.rows.append(Row("cells that end otherwise than plain", str(changed), "0", changed == 0))
    checkouts = [one for result in done for one in result.checkouts]
    exact = sum(_is_exact(one) for one in checkouts)
    table.rows.append(
        Row("checkouts exact", f"{exact} of {len(checkouts)}", "all", exact == len(checkouts), beside=_excused(done))
    )
    good = [result for result in done if _restarts(result)]
    whole = sum(bool(result.restart.get("exact")) for result in good)
    table.rows.append(
        Row(
            "a new process brings everything back, or says what not",
            f"{len(good)} of {len(done)}",
            "all",
            len(good) == len(done),
            beside=f"{whole} without a word",
        )
    )
    loads, firsts = [result.load_s for result in done], [result.added()[0] for result in done if result.plain]
    table.rows.append(_most("%load_ext and bind, median", median(loads), 0.12))
    table.rows.append(_most("first cell, median", median(firsts), 0.05))
    return table


def _ratio(what: str, found: float, most: float, beside: str = "") -> Row:
    return Row(what, times(found), f"≤ {most:.2f}×", found <= most, beside=beside, numbers={"ratio": found})


def _most(what: str, found: float, most: float) -> Row:
    return Row(what, ms(found), f"≤ {ms(most)}", found <= most, numbers={"seconds": found})


def _tenth(ratios: Sequence[float]) -> float:
    """The 90th percentile."""
    return quantiles(ratios, n=10, method="inclusive")[-1] if len(ratios) > 1 else ratios[0]


def _is_exact(checkout: dict[str, object]) -> bool:
    return not checkout["refused"] and not checkout["wrong"]


def _restarts(result: Result) -> bool:
    return not result.restart["wrong"] and not result.restart["error"]


def _excused(done: Sequence[Result]) -> str:
    unsaved = sum(len(result.restart["said"]) for result in done)
    shallow = sum(len({one.partition(":")[0] for one in result.uncompared}) for result in done)
    return f"of {sum(result.variables for result in done):,} variables {unsaved} said, {shallow} in part by type alone"


def line_of(result: Result) -> str:
    """One notebook in one line."""
    if result.stopped:
        return f"{result.name}: {result.stopped}"
    exact = sum(_is_exact(one) for one in result.checkouts)
    back = "exact" if result.restart["exact"] else "said" if _restarts(result) else "NOT back"
    slow = sum(seconds > 0.1 for seconds in result.added())
    parts = [
        f"{sum(result.plain):.2f} → {sum(result.ours):.2f} s = {times(result.ratio)}",
        f"{len(result.plain)} cells ({result.failed} with errors), {slow} of 100 ms more",
        f"checkouts {exact} of {len(result.checkouts)}",
        f"restart {back}",
    ]
    if result.complaints:
        parts.append(f"FAILED COMMITS {len(result.complaints)}")
    return f"{result.name}: {'; '.join(parts)}"


def problems(result: Result) -> list[str]:
    """Everything about one notebook that must not be, one line each."""
    if result.stopped:
        return []
    found = [f"{result.name}: {one}" for one in result.errors]
    for number, complaints in result.complaints.items():
        last = complaints[0].strip().splitlines()
        found.append(f"{result.name}: cell {number} complains: {last[0][:120]} … {last[-1][:160]}")
    for one in result.checkouts:
        if not _is_exact(one):
            wrong = one["refused"] or ", ".join(one["wrong"])
            found.append(f"{result.name}: checkout of cell {one['cell']}: {wrong[:300]}")
    if not _restarts(result):
        wrong = result.restart["error"] or ", ".join(result.restart["wrong"])
        text = " ".join(result.restart["text"].split())
        found.append(f"{result.name}: restart: {wrong[:300]}; it said: {text[-300:]}")
    return found


def dearest(results: Sequence[Result], most: int = 30) -> list[str]:
    """The cells that cost most more, with the first line of each."""
    cells = [
        (seconds, result, number)
        for result in results
        if not result.stopped
        for number, seconds in enumerate(result.added())
    ]
    lines: list[str] = []
    for seconds, result, number in sorted(cells, key=lambda cell: -cell[0])[:most]:
        source = next(line for line in result.sources[number].splitlines() if line.strip())
        lines.append(
            f"{ms(seconds):>9} on {ms(result.plain[number]):>9}  {result.name} cell {number + 1}: {source[:90]}"
        )
    return lines
