"""`python -m benchmarks.reproduced FOLDER [--only PART …] [--limit-s N]`: reproduce plain notebooks, and print a table.

Each notebook is run twice in fresh kernels by `agent-kernel reproduce`, and both runs are compared: cell by cell, variable by
variable, output by output. Nothing is written beside the notebooks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_OUTCOMES = ("same", "equal within tolerance", "different", "failed", "not comparable")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each notebook below a folder; the status is 1 when one could not be run at all."""
    options = _parser().parse_args(arguments)
    paths = sorted(path for path in options.folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    chosen = [path for path in paths if not options.only or any(part in path.name for part in options.only)]
    print("| notebook | cells | same | within tolerance | different | failed | not comparable | why | seconds |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)
    total, broken = Counter[str](), 0
    for path in chosen:
        began = time.perf_counter()
        found = _reproduce(path, options.limit_s)
        if found is None:
            broken += 1
            print(f"| {path.stem} | could not be run | | | | | | | {time.perf_counter() - began:.0f} |", flush=True)
            continue
        outcomes = Counter(cell["outcome"].replace("failed as before", "same") for cell in found["cells"])
        total += outcomes
        counts = " | ".join(str(outcomes[one] or "") for one in _OUTCOMES)
        spent = time.perf_counter() - began
        print(f"| {path.stem} | {len(found['cells'])} | {counts} | {_why(found)} | {spent:.0f} |", flush=True)
    print(f"\n{len(chosen) - broken} of {len(chosen)} notebooks; cells: {dict(total)}")
    return 1 if broken else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reproduced", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=[], metavar="PART", help="notebooks with this in their names")
    parser.add_argument("--limit-s", type=float, default=60, help="seconds for a cell (default: %(default)s)")
    return parser


def _reproduce(path: Path, limit_s: float) -> dict[str, Any] | None:
    words = [sys.executable, "-m", "agent_kernel", "reproduce", str(path), "--timeout", str(limit_s), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return None
    return found if "cells" in found else None


def _why(found: dict[str, Any]) -> str:
    """The kinds of causes, most frequent first."""
    kinds = Counter[str]()
    for cell in found["cells"]:
        if cell["failure"] is not None:
            kinds[cell["failure"]["kind"]] += 1
        for part in (*cell["variables"], cell["outputs"], cell["saved_outputs"]):
            if part is not None and part["outcome"] in ("different", "failed"):
                kinds.update({one["kind"] for one in part["why"]})
    return ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(3))


if __name__ == "__main__":
    sys.exit(main())
