"""In a real terminal: IPython on a pseudo-terminal."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")


def test_a_terminal_session_from_loading_to_rolling_back(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TERM": "dumb",
    }
    environment.pop("JPY_SESSION_NAME", None)
    options = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "--no-confirm-exit"]
    child = pexpect.spawn(
        sys.executable, options, env=environment, cwd=str(tmp_path), encoding="utf-8", timeout=30, dimensions=(40, 120)
    )
    try:
        for line, expected in [
            ("%load_ext agent_kernel", "commit on branch main of"),
            ("x = [1, 2, 3]", None),
            ("x.clear()", None),
            ("%agent rollback HEAD~1", "Rolled back to"),
            ("print(len(x), 'items')", "3 items"),
            ("%agent log", r"\* [0-9a-f]{8} \(HEAD -> main\)"),
            ("%agent chekout", "did you mean checkout"),
        ]:
            child.expect(r"In \[\d+\]: ")
            child.sendline(line)
            if expected:
                child.expect(expected)
        child.expect(r"In \[\d+\]: ")
        child.sendline("exit")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    stores = list((tmp_path / "data").glob("agent-kernel/terminals/*/data.mdb"))
    assert len(stores) == 1
    assert not (tmp_path / ".agent-kernel").exists()
