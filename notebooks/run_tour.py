"""Run the tour in a real kernel, as a reader would, and print the history that it made.

    python notebooks/run_tour.py [FOLDER]

A fresh copy of the notebook runs in FOLDER (default: build/demo), where the executed notebook and its store stay for
you to look at. The kernel is restarted before each cell tagged `restart-kernel`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

TOUR = Path(__file__).with_name("tour.ipynb")
SHOWN_LINES = 12


async def run(notebook: Any, path: Path, *, quiet: bool = False) -> None:
    """Execute every cell in order, reporting each as it ends. `quiet`: report nothing."""
    client = NotebookClient(
        notebook,
        timeout=300,
        resources={"metadata": {"path": str(path.parent)}},
        extra_arguments=["--Application.log_level=ERROR"],
    )
    # Jupyter tells its kernels the notebook's path in this variable; there is no server here to do it.
    async with client.async_setup_kernel(env={**os.environ, "JPY_SESSION_NAME": str(path)}):
        for index, cell in enumerate(notebook.cells):
            if "restart-kernel" in cell.metadata.get("tags", ()):
                if not quiet:
                    print("\n--- the kernel restarts: every variable is gone ---", flush=True)
                await restart(client)
            started = time.perf_counter()
            await client.async_execute_cell(cell, index)
            if not quiet:
                report(cell, time.perf_counter() - started)


async def restart(client: NotebookClient) -> None:
    await client.km.restart_kernel(now=False)
    await client.kc.wait_for_ready(timeout=60)


def report(cell: Any, seconds: float) -> None:
    if cell.cell_type == "markdown":
        if cell.source.startswith("#"):
            print(f"\n{cell.source.splitlines()[0].lstrip('# ')}\n", flush=True)
        return
    print(f"[{cell.execution_count}] {seconds:5.2f} s  {subject(cell.source)}", flush=True)
    lines = [line for output in cell.outputs for line in text_of(output).rstrip().splitlines()]
    for line in lines[:SHOWN_LINES]:
        print(f"               {line}")
    more = len(lines) - SHOWN_LINES
    if more > 0:
        print(f"               … {more} more line{'s' * (more != 1)}")


def subject(source: str) -> str:
    """The cell's title in the history: its leading comment, else its first line."""
    first, *rest = [line for line in source.splitlines() if line.strip()]
    return f"{first}: {rest[0].lstrip('# ')}" if first.startswith("%%") else first.lstrip("# ")


def text_of(output: Any) -> str:
    if output.output_type == "stream":
        return str(output.text)
    return str(output.get("data", {}).get("text/plain", ""))


def show_history(folder: Path) -> None:
    """Print what the command line says of the store, without a kernel."""
    store = next(folder.glob(".agent-kernel/*/"))
    command = Path(sys.executable).with_name("agent-kernel")
    for verb in ("log", "stats"):
        print(f"\n$ agent-kernel {verb} {os.path.relpath(store)}", flush=True)
        subprocess.run([command, verb, store], check=True)


def main(folder: Path) -> int:
    """Run the tour in `folder`, which is emptied first, and return the exit status."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    path = Path(shutil.copy(TOUR, folder)).resolve()
    notebook: Any = nbformat.read(path, as_version=4)
    started = time.perf_counter()
    try:
        asyncio.run(run(notebook, path))
    except CellExecutionError as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        nbformat.write(notebook, path)
    print(f"\nThe tour took {time.perf_counter() - started:.0f} s. The history that it made:")
    show_history(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/demo")))
