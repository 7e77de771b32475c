"""What a panel waits for while it looks at ten thousand commits."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.script import Run, Step, cell, measure, middle
from benchmarks.tables import Row, Table, ms, size

_COLD, _PAGES = 5, 15


def run(bench: Bench) -> Table:
    """Open the list in a process that has read nothing yet, page through it, search, and look at commits."""
    commits = 2_000 if bench.quick else 10_000
    steps = [cell("from benchmarks import histories"), cell(f"histories.build({commits})")]
    for _ in range(_COLD):
        steps += [cell("histories.reopen()"), cell('histories.ask("open", n=60)', "open")]
    steps.append(measure("answer_bytes", "bytes"))
    # The graph is worked out from the top as far as somebody looks: the first look at the middle pays for what is above.
    steps.append(_ask("jump", "rows", from_=commits // 2, n=100))
    steps += [_ask("page", "rows", from_=commits // 4 + 100 * page, n=100) for page in range(_PAGES)]
    steps += [_ask("search", "rows", text=f"alpha=0.{digits}", n=60) for digits in (12, 34, 56, 78, 90)]
    steps += [_ask("variable", "rows", text=f"var:name_{number}", n=60) for number in range(5)]
    for back in range(5):
        steps += [_ask("commit", "commit", id=f"main~{7 * back + 1}"), _ask("code", "code", id=f"main~{7 * back + 1}")]
    for _ in range(5):
        steps += [cell("histories.commit_one()"), _ask("after", "open", n=60)]
    return _table(bench.run("bound", [*steps, cell("histories.close()")]), commits)


def _ask(label: str, op: str, **args: object) -> Step:
    said = ", ".join(f"{name}={value!r}" for name, value in args.items())
    return cell(f'histories.ask("{op}", {said})', label)


def _table(run: Run, commits: int) -> Table:
    table = Table(f"Looking at {commits:,} commits (queries)", notes=list(run.problems()))
    targets = (
        ("open", "opening the list, cold", 0.5),
        ("jump", "the first look at the middle", 0.3),
        ("page", "a page of 100 rows", 0.02),
        ("search", "searching all code for a word", 0.3),
        ("variable", "all commits that changed a variable", 0.3),
        ("commit", "the details of a commit", 0.1),
        ("code", "its code against the last run", 0.1),
        ("after", "the list after one more commit", 0.3),
    )
    for label, what, limit_s in targets:
        taken = middle([one.code_s for one in run.of(label)])
        if taken is not None:
            table.rows.append(Row(what, ms(taken), f"≤ {ms(limit_s)}", taken <= limit_s, numbers={"seconds": taken}))
    sent = run.value("bytes")
    if sent is not None:
        table.rows.append(Row("sent at first", size(sent), "< 50 KB", sent < 50_000, numbers={"b": sent}))
    return table
