"""What cells show in a terminal's IPython is kept with their commits, without a trace in the shell."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.magics.outputs import Collector, TerminalTap
from agent_kernel.repository import Output, Outputs, read_outputs
from tests.magics.collected import kept, texts
from tests.magics.shells import Shell, leave, plain_shell


def last_outputs(shell: Shell) -> Outputs | None:
    notebook = shell.extension.notebook
    assert notebook.repo is not None
    assert notebook.session is not None
    assert notebook.session.head is not None
    cell = notebook.repo.commit_at(notebook.session.head).cell
    return None if cell is None or cell.outputs is None else read_outputs(notebook.repo.objects, cell.outputs)


class TestTerminal:
    @pytest.fixture
    def shell(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
        monkeypatch.chdir(tmp_path)
        with Shell() as shell:
            yield shell

    def outputs(self, shell: Shell, source: str) -> list[Output]:
        shell.run(source)
        found = last_outputs(shell)
        return [] if found is None else list(found.outputs)

    def test_a_cell_that_shows_nothing_stores_nothing(self, shell: Shell) -> None:
        assert self.outputs(shell, "x = 1") == []

    def test_streams_results_and_errors_are_told_apart(self, shell: Shell) -> None:
        source = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n[1, 2]"
        out, err, result = self.outputs(shell, source)
        assert [(one.kind, one.name, one.text) for one in (out, err)] == [
            ("stream", "stdout", "out\n"),
            ("stream", "stderr", "err\n"),
        ]
        assert (result.kind, result.number, result.representations[0].text) == ("execute_result", 1, "[1, 2]")
        (error,) = self.outputs(shell, "1 / 0")
        assert (error.kind, error.name, error.text) == ("error", "ZeroDivisionError", "division by zero")
        assert error.traceback[-1].endswith(": division by zero")

    def test_displays_are_not_heard_twice(self, shell: Shell) -> None:
        (shown,) = self.outputs(shell, "get_ipython().display_pub.publish({'text/plain': 'once'})")
        assert (shown.kind, [face.text for face in shown.representations]) == ("display_data", ["once"])

    def test_what_is_captured_is_shown_to_nobody(self, shell: Shell) -> None:
        assert self.outputs(shell, "%%capture\nprint(1)") == []
        source = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    print(1)"
        assert self.outputs(shell, source) == []

    def test_what_a_repr_prints_is_output_and_it_runs_once(self, shell: Shell) -> None:
        source = "class Loud:\n    def __repr__(self):\n        print('asked')\n        return 'Loud'\nLoud()"
        said, result = self.outputs(shell, source)
        assert (said.text, result.representations[0].text) == ("asked\n", "Loud")

    def test_the_text_of_an_error_is_not_asked_for_again(self, shell: Shell) -> None:
        shell.run(
            "asked = []\nclass Sly(Exception):\n    def __str__(self):\n        asked.append(1)\n        return 'sly'"
        )
        with_us = self.outputs(shell, "raise Sly(3)") and len(shell.ns["asked"])
        shell.run("%config AgentKernel.outputs = 'none'\nasked.clear()")
        shell.run("raise Sly(3)")
        assert with_us == len(shell.ns["asked"])

    def test_notices_of_the_extension_are_no_output(self, shell: Shell) -> None:
        shell.run("%config AgentKernel.quiet = False")
        typed = shell.run("x = 1")
        assert "[agent]" in typed.out
        assert last_outputs(shell) is None
        shell.run("import socket\ns = socket.socket()")
        assert last_outputs(shell) is None
        shell.run("s.close()")

    def test_streams_are_left_as_they_were(self, shell: Shell) -> None:
        shell.run("import sys\nown = sys.stdout")
        assert self.outputs(shell, "assert sys.stdout.__class__.__name__ == 'StringIO'\nprint(1)")
        listening = vars(shell.ns["own"]).get("write")  # IPython itself may leave one there
        assert "agent_kernel" not in str(getattr(listening, "__module__", ""))

    def test_a_stream_that_cannot_be_listened_to_still_prints(self, shell: Shell) -> None:
        class Bare:
            __slots__ = ("held",)

            def __init__(self) -> None:
                self.held: list[str] = []

            def write(self, text: str) -> int:
                self.held.append(text)
                return len(text)

            def flush(self) -> None: ...

        bare: Any = Bare()
        before, sys.stdout = sys.stdout, bare
        try:
            shell.extension.notebook.begin("x = 1", "")
            print("said")
            shell.extension.notebook.end(None)
        finally:
            sys.stdout = before
        assert "".join(bare.held).startswith("said")

    def test_who_listens_besides_and_stays_makes_nothing_double(self) -> None:
        collector = Collector()
        shell: Any = plain_shell()
        tap = TerminalTap(collector, shell)
        tap.install()
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            tap.begin(1)
            ours = stream.write
            vars(stream)["write"] = lambda text: ours(text)  # what some libraries do
            tap.end()
            for number in range(3):
                tap.begin(number)
                print("once")
                tap.end()
                assert texts(kept(collector)) == ["once\n"]
        tap.remove()
        leave(shell)

    def test_it_can_be_switched_off_and_on(self, shell: Shell) -> None:
        shell.run("%config AgentKernel.outputs = 'none'")
        assert self.outputs(shell, "print(1)") == []
        shell.run("%config AgentKernel.outputs = 'keep'")
        assert len(self.outputs(shell, "print(1)")) == 1

    def test_an_error_of_ours_never_reaches_the_cell(
        self, shell: Shell, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def broken(*_: object, **__: object) -> None:
            raise RuntimeError("ours")

        monkeypatch.setattr(Collector, "text", broken)
        monkeypatch.setattr(Collector, "show", broken)
        typed = shell.run("print('fine')\n1 + 1")
        assert typed.out.startswith("fine\n")
        assert typed.result.error_in_exec is None
        assert shell.log()[0]["status"] == "ok"
        assert "not kept" in caplog.text

    def test_unloading_leaves_the_shell_as_it_was(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        with Shell() as shell:
            shell.run("1")
            held = vars(shell.ip.display_pub).get("publish"), vars(shell.ip).get("_showtraceback")
            assert all(held)
        assert "publish" not in vars(shell.ip.display_pub)
        assert "_showtraceback" not in vars(shell.ip)
        assert "write_format_data" not in vars(shell.ip.displayhook)
