"""`agent-kernel install`: make the kernel “Python 3 (Agent)” known to Jupyter, with this very interpreter.

The kernel that comes in the wheel finds `python` on the path of whoever starts it; a Jupyter in another environment
needs the interpreter's absolute path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from agent_kernel.errors import StoreReadOnlyError
from agent_kernel.verbs.output import Said
from agent_kernel.verbs.parsing import Parser

__all__ = ["install", "spec"]

_NAME = "agent-kernel"


def spec() -> dict[str, object]:
    """The kernelspec: ipykernel with the extension loaded from the first cell on."""
    start = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}", "--ext=agent_kernel"]
    return {
        "argv": start,
        "display_name": "Python 3 (Agent)",
        "language": "python",
        "metadata": {"debugger": True},
    }


def install(words: Sequence[str]) -> Said:
    """Write the kernelspec and say where it went.

    Raises:
        Helped: help was asked for.
        UsageProblem: the words do not fit.
        StoreReadOnlyError: nothing can be written there.
    """
    parser = Parser("agent-kernel install", "Make the kernel “Python 3 (Agent)” known to Jupyter.")
    one = parser.one_of()
    parser.flag("--user", help="for this user (without an option: for this environment)", group=one)
    parser.value("--prefix", metavar="PATH", help="for the environment at PATH", kind="place", group=one)
    options = parser.read(words)
    folder = _kernels(options.user, options.prefix) / _NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps(spec(), indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise StoreReadOnlyError(str(folder), f"{error.strerror or error}; try --user") from error
    return Said((f"Installed the kernel “Python 3 (Agent)” in {folder}",), {"kernel": _NAME, "folder": str(folder)})


def _kernels(user: bool, prefix: str | None) -> Path:
    if user:
        from jupyter_core.paths import jupyter_data_dir

        return Path(jupyter_data_dir()) / "kernels"
    return Path(prefix or sys.prefix).expanduser() / "share" / "jupyter" / "kernels"
