"""Imports go downwards only, as `[tool.importlinter]` in pyproject.toml says; and functions of C are found at the import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_layers_hold(tmp_path: Path) -> None:
    command = ["-c", "from importlinter.cli import lint_imports_command as run; run()", "--cache-dir", str(tmp_path)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# What finds functions of C in a library. One such call stands in a function: a dump asks for it, and none runs within an agent's step.
FINDS_FUNCTIONS = {
    "CDLL",
    "PyDLL",
    "LibraryLoader",
    "LoadLibrary",
    "find_library",
    "pythonapi",
    "PYFUNCTYPE",
    "CFUNCTYPE",
}
FOUND_BY_A_DUMP = {"_find_file_control"}


def test_values_are_loaded_without_finding_a_function_of_c() -> None:
    """The gate stops a step that does: it must not take the loading of a value, which the step may start, for one that it runs."""
    found = {
        (path.name, function.name)
        for path in (ROOT / "agent_kernel" / "values").rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr in FINDS_FUNCTIONS
    }
    assert {function for _, function in found} == FOUND_BY_A_DUMP, found
