"""In a real terminal: IPython on a pseudo-terminal."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.stores import make_history

pexpect = pytest.importorskip("pexpect")


def environment_of(tmp_path: Path, **more: str) -> dict[str, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "TERM": "dumb",
    }
    for name in ("JPY_SESSION_NAME", "NO_COLOR"):
        environment.pop(name, None)
    return environment | more


OPTIONS = ["-m", "IPython", "--simple-prompt", "--no-banner", "--no-confirm-exit"]
CODE = re.compile(r"\x1b\[[0-9;]*m")


def answers(tmp_path: Path, lines: list[str], *options: str, **environment: str) -> list[str]:
    """What IPython in a terminal of 100 columns prints after each line."""
    child = pexpect.spawn(
        sys.executable,
        [*OPTIONS, *options],
        env=environment_of(tmp_path, **environment),
        cwd=str(tmp_path),
        encoding="utf-8",
        timeout=30,
        echo=False,
        dimensions=(40, 100),
    )
    try:
        said: list[str] = []
        for line in [*lines, "exit"]:
            child.expect(r"In \[\d+\]: ")
            said.append(child.before)
            child.sendline(line)
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    return said[1:]


def test_log_and_diff_are_painted_in_a_terminal(tmp_path: Path) -> None:
    lines = ["%load_ext agent_kernel", "x = [1]; y = 2", "x.append(2); del y", "%agent log", "%agent diff"]
    *_, log, diff = answers(tmp_path, lines, TERM="xterm-256color")
    assert re.search(r"\x1b\[33m[0-9a-f]{8}\x1b\[0m \x1b\[36m\(HEAD -> main\)\x1b\[0m", log)
    assert "\x1b[33m~x\x1b[0m" in log
    assert "\x1b[31m− y: int 2\x1b[0m" in diff
    assert all(len(CODE.sub("", line)) <= 100 for line in log.splitlines())


@pytest.mark.parametrize(
    ("options", "environment"),
    [([], {"TERM": "dumb"}), ([], {"TERM": "xterm", "NO_COLOR": "1"}), (["--colors=NoColor"], {"TERM": "xterm"})],
)
def test_nothing_is_painted_for_who_wants_no_colours(
    tmp_path: Path, options: list[str], environment: dict[str, str]
) -> None:
    lines = ["%load_ext agent_kernel", "x = 1", "%agent log", "%agent diff"]
    *_, log, diff = answers(tmp_path, lines, *options, **environment)
    assert "+x" in log
    assert "+ x: int 1" in diff
    assert re.search(r"\* [0-9a-f]{8} \(HEAD", log)
    assert re.search(r"^\+ x: int 1\r?$", diff, re.MULTILINE)


def test_what_a_cell_captures_is_plain_and_uncut(tmp_path: Path) -> None:
    long = f"x = {' + '.join(['1'] * 60)}"
    lines = ["%load_ext agent_kernel", long, "import io, contextlib; out = io.StringIO()"]
    lines += [
        "with contextlib.redirect_stdout(out): get_ipython().run_line_magic('agent', 'log')",
        "",
        "print(repr(out.getvalue()))",
    ]
    *_, said = answers(tmp_path, lines, TERM="xterm")
    assert long in said
    assert "\\x1b" not in said


def test_the_command_line_paints_in_a_terminal_and_not_in_a_pipe(tmp_path: Path) -> None:
    make_history(tmp_path / "s", "x = 1", "del x")
    for verb, painted in (("log", "\x1b[31m−x\x1b[0m"), ("diff", "\x1b[31m− x: int 1\x1b[0m")):
        command = [sys.executable, "-m", "agent_kernel", verb, str(tmp_path / "s")]
        environment = environment_of(tmp_path, TERM="xterm")
        shown = pexpect.run(" ".join(command), env=environment, encoding="utf-8", withexitstatus=False)
        assert painted in shown
        assert (
            CODE.search(pexpect.run(" ".join(command), env=environment | {"NO_COLOR": "1"}, encoding="utf-8")) is None
        )
        piped = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        assert CODE.search(piped) is None


def test_a_terminal_session_from_loading_to_rolling_back(tmp_path: Path) -> None:
    environment = environment_of(tmp_path)
    options = [*OPTIONS, "--colors=NoColor"]
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
