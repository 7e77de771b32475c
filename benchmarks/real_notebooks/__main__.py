"""`python -m benchmarks.real_notebooks FOLDER [--jobs N] [--limit N] [--only PART] [--json FILE]`: run real notebooks."""

from __future__ import annotations

import argparse
import compileall
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import ROOT
from benchmarks.real_notebooks.report import dearest, line_of, problems, summarize
from benchmarks.real_notebooks.runs import Result, Runner, find, list_fonts


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the notebooks below a folder; the status is 1 when a target was missed."""
    options = _parser().parse_args(arguments)
    where = machine.describe()
    print("\n".join(f"{name:10} {value}" for name, value in where.items()), end="\n\n", flush=True)
    folder = options.folder.resolve()
    chosen = [path for path in find(folder) if not options.only or any(part in str(path) for part in options.only)]
    chosen = chosen[: options.limit]
    compileall.compile_dir(ROOT / "agent_kernel", quiet=2)  # as pip leaves it, wherever no bytecode is written
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="agent-kernel-fonts-") as fonts:
        list_fonts(Path(fonts))
        for result in _run(Runner(folder, options.limit_s, options.rounds, Path(fonts)), chosen, options.jobs):
            results.append(result)
            print(f"* {line_of(result)}", flush=True)
            print("".join(f"    {line}\n" for line in problems(result)), end="", flush=True)
            if options.json:
                written = {"machine": where, "notebooks": [asdict(one) for one in results]}
                options.json.write_text(json.dumps(written, indent=1, ensure_ascii=False) + "\n")
    table = summarize(results)
    print()
    print(table.show(()))
    print("The cells that cost most more:\n")
    print("\n".join(dearest(results)))
    return 1 if any(row.ok is False for row in table.rows) else 0


def _run(runner: Runner, notebooks: Sequence[Path], jobs: int) -> Iterator[Result]:
    if jobs == 1:
        yield from map(runner.run, notebooks, range(len(notebooks)))
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(runner.run, notebooks, range(len(notebooks)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real_notebooks", description=__doc__)
    parser.add_argument("folder", type=Path, help="where notebooks are, with their data beside them")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time (default: %(default)s)")
    parser.add_argument("--limit", type=int, metavar="N", help="run the first N alone")
    parser.add_argument("--limit-s", type=float, default=300.0, metavar="S", help="seconds for each run of a notebook")
    parser.add_argument(
        "--rounds", type=int, default=2, help="runs where one seems to cost more (default: %(default)s)"
    )
    parser.add_argument("--only", action="append", metavar="PART", help="run those with this in their path")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
