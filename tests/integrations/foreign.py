"""Run the tests that other packages ship, with a class of ours in the place of theirs.

`make test-integrations` installs the packages and unpacks their source distributions; elsewhere these tests are left out, and
say so. Nothing is fetched here.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SDISTS = Path(os.environ.get("AGENT_KERNEL_SDISTS", ROOT / ".venv-integrations" / "sdists"))
MUST_RUN = "AGENT_KERNEL_SDISTS" in os.environ


def needs(*modules: str) -> None:
    """Leave a test module out where a package is missing; where all are installed for it, fail."""
    for module in modules:
        try:
            found = importlib.util.find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        if not found and MUST_RUN:
            raise RuntimeError(f"{module} is not installed, and these tests must run here")
        if not found:
            pytest.skip(f"{module} is not installed (make test-integrations)", allow_module_level=True)


def run_suite(
    sdist: str,
    files: Sequence[str],
    *,
    plugin: str,
    left_out: Mapping[str, str],
    more: Sequence[str] = (),
    how_to_get: str = "",
) -> tuple[int, list[str]]:
    """Run test files of a source distribution. Returns how many passed, and what did not.

    Args:
        plugin: a module of this package that puts our class in the place of theirs, before they are imported.
        left_out: tests as pytest names them, and why.
        how_to_get: of tests that no package index has: the command that brings them. Without them the test is left out.
    """
    there = (SDISTS / sdist).resolve()
    if not there.is_dir():
        if how_to_get:
            pytest.skip(f"{there} is not there, and no package index has it: {how_to_get}")
        if MUST_RUN:
            raise RuntimeError(f"{there} is missing, and these tests must run here")
        pytest.skip(f"the source of {sdist} is not there (make test-integrations)")
    report = Path(os.environ.get("TMPDIR", "/tmp")) / f"agent-kernel-{os.getpid()}-{plugin}.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", plugin, "-p", "no:cacheprovider"]
    command += ["-p", "no:xdist", "-c", str(Path(__file__).with_name("foreign.ini"))]
    command += ["--rootdir", str(there), f"--junitxml={report}", *more]
    command += [f"--deselect={name}" for name in left_out]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(there)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    try:
        done = subprocess.run(
            [*command, *files], cwd=there, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if not report.exists():
            raise RuntimeError(done.stdout[-3000:] + done.stderr[-3000:])
        return _read(report)
    finally:
        report.unlink(missing_ok=True)


def _read(report: Path) -> tuple[int, list[str]]:
    passed, failed = 0, []
    for case in ElementTree.parse(report).getroot().iter("testcase"):  # our own pytest wrote it
        outcome = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if outcome is None:
            passed += 1
        else:
            line = (outcome.get("message") or "").splitlines()
            failed.append(f"{case.get('classname')}::{case.get('name')}: {outcome.tag} {line[0] if line else ''}")
    return passed, failed
