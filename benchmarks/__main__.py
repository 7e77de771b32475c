"""`python -m benchmarks [NAME …] [--peers] [--json FILE] [--quick]`: run workloads and print ratios from one run."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import machine
from benchmarks.bench import Bench
from benchmarks.peers import PEERS
from benchmarks.tables import Table
from benchmarks.workloads import WORKLOADS, load


def main() -> int:
    """Run what was asked for; the status is 1 when a target was missed."""
    options = _parser().parse_args()
    peers = tuple(PEERS) if options.peers == "" else tuple(filter(None, (options.peers or "").split(",")))
    bench = Bench(peers, options.quick, options.folder)
    where = machine.describe()
    print("\n".join(f"{name:10} {value}" for name, value in where.items()), end="\n\n", flush=True)
    tables: dict[str, Table] = {}
    for name in options.names or WORKLOADS:
        print(f"{name}", file=sys.stderr, flush=True)
        began = time.perf_counter()
        tables[name] = load(name)(bench)
        print(tables[name].show(peers), flush=True)
        print(f"  {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
        if options.json:
            _write(options.json, where, tables)
    rows = [(name, row) for name, table in tables.items() for row in table.rows if row.ok is not None]
    missed = [f"{name}: {row.what}: {row.ours}, must be {row.target}" for name, row in rows if not row.ok]
    print("\n".join([f"{len(rows) - len(missed)} of {len(rows)} targets reached", *missed]))
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*WORKLOADS, []], metavar="NAME", help=", ".join(WORKLOADS))
    parser.add_argument(
        "--peers",
        nargs="?",
        const="",
        metavar="NAME,…",
        help=f"beside them {', '.join(PEERS)}, or those named, each installed into an environment of its own",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured there too")
    parser.add_argument("--quick", action="store_true", help="smaller workloads, to see that all of them run")
    parser.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()), help="where stores are made (default: %(default)s)"
    )
    return parser


def _write(path: Path, where: dict[str, str], tables: dict[str, Table]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = {"machine": where, "workloads": {name: asdict(table) for name, table in tables.items()}}
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
