"""Run studies of the gallery as a reader would, and make and check their bundles.

    python notebooks/run_gallery.py [STUDY ...]

A fresh copy of each notebook runs in a real kernel in build/gallery, where the executed notebook, its store and its bundle
stay for you to look at. The last command runs the history again, and says what comes out the same.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import nbformat
from nbclient.exceptions import CellExecutionError
from run_tour import TOUR, run

FOLDER = Path("build/gallery")
STUDIES = {path.stem: path for path in sorted(TOUR.parent.glob("*.ipynb")) if path != TOUR}


def execute(study: str, folder: Path) -> Path:
    """Run a copy of the study's notebook in `folder`, and return its path.

    Raises:
        CellExecutionError: a cell failed. The copy has the outputs up to there.
    """
    path = Path(shutil.copy(STUDIES[study], folder)).resolve()
    notebook: Any = nbformat.read(path, as_version=4)
    try:
        asyncio.run(run(notebook, path, quiet=True))
    finally:
        nbformat.write(notebook, path)
    return path


def commands(notebook: Path) -> list[list[str]]:
    """What makes the bundle of a notebook, looks at every byte of it, trusts it, and runs it again."""
    bundle = str(notebook.with_suffix(".agentnb"))
    return [["export", "--all", str(notebook), bundle], ["verify", bundle], ["trust", bundle], ["reproduce", bundle]]


def main(studies: Sequence[str]) -> int:
    """Run the studies, by default all, and return the exit status."""
    unknown = set(studies) - STUDIES.keys()
    if unknown:
        print(f"no study is called {', '.join(sorted(unknown))}; there are {', '.join(STUDIES)}", file=sys.stderr)
        return 2
    program = Path(sys.executable).with_name("agent-kernel")
    status = 0
    for study in studies or STUDIES:
        folder = FOLDER / study
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        started = time.perf_counter()
        try:
            notebook = execute(study, folder)
        except CellExecutionError as error:
            print(error, file=sys.stderr)
            status = 1
            continue
        print(f"\n{study} ran in {time.perf_counter() - started:.1f} s: {notebook}", flush=True)
        for words in commands(notebook):
            print(f"\n$ agent-kernel {' '.join(words)}", flush=True)
            status = subprocess.run([program, *words], check=False).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
