"""What cells show is kept with their commits: bounded, as a terminal would show it, and without a trace on the page."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.magics.outputs.collecting import Collector
from agent_kernel.magics.outputs.items import ROOM, Place
from agent_kernel.magics.outputs.kernel import KernelTap
from agent_kernel.magics.outputs.overtyping import Line
from agent_kernel.magics.outputs.terminal import TerminalTap
from agent_kernel.repository import Output, Outputs, Repository, read_face, read_outputs
from tests.magics.shells import Shell, leave, plain_shell
from tests.magics.test_kernel import kernel, run, text


def kept(collector: Collector) -> Outputs:
    outputs = collector.take()
    assert outputs is not None
    return outputs


def texts(outputs: Outputs) -> list[str]:
    return [output.text for output in outputs.outputs]


class TestOvertyping:
    @pytest.mark.parametrize(
        ("printed", "shown"),
        [
            ("a\nb\n", "a\nb\n"),
            ("10 %\r20 %\r100 %\n", "100 %\n"),
            ("longer\rshort\n", "shortr\n"),
            ("longer\r\x1b[Kshort\n", "short\n"),
            ("longer\x1b[2Kx\n", "x\n"),
            ("windows\r\nline\r\n", "windows\nline\n"),
            ("abc\b\bX\n", "aXc\n"),
            ("\x1b[31mred bar\x1b[0m\r\x1b[32mgo\x1b[0m", "\x1b[32mgo\x1b[0m"),
        ],
    )
    def test_a_line_is_what_was_typed_last(self, printed: str, shown: str) -> None:
        line = Line()
        assert line.type(printed) + line.take() == shown
        # however the text arrives
        assert "".join(line.type(one) for one in printed if "\x1b" not in printed) + line.take() in (shown, "")

    def test_ten_thousand_lines_of_a_progress_bar_are_one(self) -> None:
        collector = Collector()
        for done in range(10_000):
            collector.text("stderr", f"\r{done:5} of 10000 [{'#' * (done // 500)}]")
        assert texts(kept(collector)) == [f" 9999 of 10000 [{'#' * 19}]"]


class TestCollecting:
    def test_what_is_printed_on_one_stream_is_one_output(self) -> None:
        collector = Collector()
        for word in ("a", "b\n", "c"):
            collector.text("stdout", word)
        collector.text("stderr", "oh")
        collector.text("stdout", "d")
        found = kept(collector).outputs
        assert [(one.name, one.text) for one in found] == [("stdout", "ab\nc"), ("stderr", "oh"), ("stdout", "d")]
        assert collector.take() is None

    @pytest.mark.parametrize("letter", ["x", "é", "😀"])
    def test_the_beginning_and_the_end_of_much_text_stay_and_the_rest_is_counted(self, letter: str) -> None:
        collector = Collector()
        total = 0
        for number in range(3_000):
            said = f"{number} {letter * 200}\n"
            total += len(said.encode())
            collector.text("stdout", said)
        outputs = kept(collector)
        first, gap, last = outputs.outputs
        assert first.text.startswith("0 ")
        assert last.text.endswith(f"2999 {letter * 200}\n")
        assert gap.kind == "gap"
        size = len(first.text.encode()) + len(last.text.encode())
        assert ROOM * 0.9 < size <= ROOM
        assert gap.size == outputs.dropped_bytes == total - size

    def test_one_text_of_any_size_takes_no_more_room(self) -> None:
        collector = Collector()
        collector.text("stdout", "begin " + "x" * 50_000_000 + " end")
        first, gap, last = kept(collector).outputs
        assert first.text.startswith("begin x")
        assert last.text.endswith("x end")
        assert len(first.text) + len(last.text) + gap.size == 50_000_010

    def test_much_text_between_other_outputs_is_bounded_too(self) -> None:
        collector = Collector()
        for number in range(5_000):
            collector.text("stdout", "x" * 100)
            collector.show("display_data", {"text/plain": str(number)})
        outputs = kept(collector)
        sizes = [len(one.text) + sum(face.size for face in one.faces) for one in outputs.outputs]
        assert sum(sizes) < ROOM
        assert outputs.dropped_outputs == 10_000 - len(outputs.outputs) + 1

    def test_a_table_too_large_to_keep_leaves_its_text_behind(self) -> None:
        collector = Collector()
        collector.show("execute_result", {"text/plain": "small", "text/html": "x" * (ROOM + 1)})
        outputs = kept(collector)
        plain, html = outputs.outputs[0].faces
        assert plain.text == "small"
        assert (html.is_kept, html.size) == (False, ROOM + 1)
        assert outputs.dropped_bytes == ROOM + 1

    def test_pictures_have_room_of_their_own(self) -> None:
        collector = Collector()
        for _ in range(100):
            collector.show("display_data", {"image/png": "QUJD" * 250_000, "text/plain": "figure"})
        outputs = kept(collector)
        pictures = [one for one in outputs.outputs if one.faces]
        assert 10 <= len(pictures) <= 16
        assert pictures[0].faces[0].size == 750_000
        assert outputs.dropped_outputs == 100 - len(pictures)

    def test_a_display_id_has_one_state(self) -> None:
        collector = Collector()
        collector.show("display_data", {"text/plain": "0 %"}, display="bar")
        collector.text("stdout", "working\n")
        for done in range(1, 101):
            collector.show("update_display_data", {"text/plain": f"{done} %"}, display="bar")
        bar, said = kept(collector).outputs
        assert (bar.kind, bar.faces[0].text, said.text) == ("display_data", "100 %", "working\n")

    def test_the_display_of_an_earlier_cell_has_one_update(self) -> None:
        collector = Collector()
        for done in range(100):
            collector.show("update_display_data", {"text/plain": f"{done} %"}, display="bar")
        (update,) = kept(collector).outputs
        assert (update.kind, update.display, update.faces[0].text) == ("update_display_data", "bar", "99 %")

    def test_updates_that_grow_stay_bounded(self) -> None:
        collector = Collector()
        for number in range(50):
            collector.show("display_data", {"text/plain": "-"}, display=str(number))
        for number in range(50):
            collector.show("update_display_data", {"text/plain": "x" * 100_000}, display=str(number))
        assert sum(face.size for one in kept(collector).outputs for face in one.faces) <= ROOM

    def test_clearing_takes_away_what_was_shown_at_that_place(self) -> None:
        collector = Collector()
        collector.text("stdout", "gone")
        collector.text("stdout", "stays", Place("widget"))
        collector.clear(wait=False)
        collector.text("stdout", "new")
        assert texts(kept(collector)) == ["stays", "new"]

    def test_clearing_may_wait_for_the_next_output(self) -> None:
        collector = Collector()
        collector.text("stdout", "frame 1")
        collector.clear(wait=True)
        assert texts(kept(collector)) == ["frame 1"]
        for frame in range(1_000):
            collector.clear(wait=True)
            collector.text("stdout", f"frame {frame}")
        assert texts(kept(collector)) == ["frame 999"]

    def test_a_traceback_of_megabytes_keeps_its_end(self) -> None:
        collector = Collector()
        collector.error("E", "m" * 10_000_000, ["first", *(["frame " * 1_000] * 1_000), "E: the end"])
        (error,) = kept(collector).outputs
        assert error.traceback[-1] == "E: the end"
        assert sum(map(len, error.traceback)) + len(error.text) < ROOM

    def test_what_no_protocol_allows_is_left_out(self) -> None:
        collector = Collector()
        cycle: list[object] = []
        cycle.append(cycle)
        data: dict[str, object] = {
            "application/json": cycle,
            "x/y": object(),
            "image/png": "no base64!",
            "text/plain": "ok",
        }
        collector.show("display_data", data)
        collector.text("stdout", "half a pair: \ud83d")
        shown, said = kept(collector).outputs
        assert {face.mime for face in shown.faces} == {"image/png", "text/plain"}
        assert said.text == "half a pair: \\ud83d"

    def test_threads_may_print_at_once(self) -> None:
        collector = Collector()

        def talk(name: str) -> None:
            for number in range(500):
                collector.text(name, f"{number}\n")
                collector.show("update_display_data", {"text/plain": name}, display=name)

        threads = [threading.Thread(target=talk, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = [line for one in kept(collector).outputs for line in one.text.splitlines()]
        assert sorted(lines) == sorted(str(number) for number in range(500) for _ in "abcd")


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
        assert (result.kind, result.number, result.faces[0].text) == ("execute_result", 1, "[1, 2]")
        (error,) = self.outputs(shell, "1 / 0")
        assert (error.kind, error.name, error.text) == ("error", "ZeroDivisionError", "division by zero")
        assert error.traceback[-1].endswith(": division by zero")

    def test_displays_are_not_heard_twice(self, shell: Shell) -> None:
        (shown,) = self.outputs(shell, "get_ipython().display_pub.publish({'text/plain': 'once'})")
        assert (shown.kind, [face.text for face in shown.faces]) == ("display_data", ["once"])

    def test_what_is_captured_is_shown_to_nobody(self, shell: Shell) -> None:
        assert self.outputs(shell, "%%capture\nprint(1)") == []
        source = "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    print(1)"
        assert self.outputs(shell, source) == []

    def test_what_a_repr_prints_is_output_and_it_runs_once(self, shell: Shell) -> None:
        source = "class Loud:\n    def __repr__(self):\n        print('asked')\n        return 'Loud'\nLoud()"
        said, result = self.outputs(shell, source)
        assert (said.text, result.faces[0].text) == ("asked\n", "Loud")

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


class Session:
    """As much of a kernel's session as is listened to: messages go nowhere."""

    def send(self, kind: str, content: dict[str, Any] | None = None, request: str = "cell") -> dict[str, Any] | None:
        if content is None:
            return None  # as in a forked process
        return {"msg_type": kind, "content": content, "parent_header": {"msg_id": request}}


class TestKernel:
    @pytest.fixture
    def tap(self) -> KernelTap:
        self.collector, self.session, self.request = Collector(), Session(), "cell"
        shell: Any = self
        tap = KernelTap(self.collector, shell, self.session)
        tap.install()
        tap.begin(1)
        return tap

    def get_parent(self) -> dict[str, Any]:
        return {"header": {"msg_id": self.request}}

    def say(self, words: str, request: str = "cell") -> None:
        self.session.send("stream", {"name": "stdout", "text": words}, request)

    def route(self, widget: str, request: str) -> None:
        """What an output widget's context sends as it begins, and, with no request, as it ends."""
        data = {"method": "update", "state": {"msg_id": request}}
        self.session.send("comm_msg", {"comm_id": widget, "data": data})

    def test_what_a_thread_prints_under_an_earlier_cell_is_kept_with_the_next_one(self, tap: KernelTap) -> None:
        self.say("first")
        tap.end()
        assert texts(kept(self.collector)) == ["first"]
        self.say("late")
        self.request = "another"
        tap.begin(2)
        self.say("second", "another")
        tap.end()
        found = kept(self.collector).outputs
        assert [(one.text, one.under) for one in found] == [("late", 1), ("second", None)]

    def test_what_belongs_to_no_cell_is_not_kept(self, tap: KernelTap) -> None:
        self.say("a callback of a widget", "a comm message")
        self.session.send("status", {"execution_state": "idle"})
        assert self.session.send("stream") is None
        tap.end()
        assert self.collector.take() is None

    def test_output_widgets_take_what_is_shown_in_them_also_one_inside_another(self, tap: KernelTap) -> None:
        self.route("outer", "cell")
        self.say("a")
        self.route("inner", "cell")
        self.say("b")
        self.route("inner", "")
        self.say("c")
        self.session.send("clear_output", {"wait": False})
        self.say("d")
        self.route("outer", "")
        self.say("e")
        tap.end()
        assert [(one.text, one.widget) for one in kept(self.collector).outputs] == [
            ("b", "inner"),
            ("d", "outer"),
            ("e", ""),
        ]

    def test_messages_that_are_none_of_the_protocol_do_no_harm(
        self, tap: KernelTap, caplog: pytest.LogCaptureFixture
    ) -> None:
        for content in ({}, {"data": None}, {"data": {"text/plain": 3}}, {"text": None}):
            for kind in ("stream", "display_data", "error", "clear_output", "comm_msg", "execute_result"):
                assert self.session.send(kind, content) is not None
        self.say("fine")
        tap.end()
        assert "fine" in "".join(texts(kept(self.collector)))

    def test_when_it_is_removed_the_session_is_as_it_was(self, tap: KernelTap) -> None:
        assert "send" in vars(self.session)
        tap.remove()
        assert "send" not in vars(self.session)
        self.say("unheard")
        assert self.collector.take() is None


CELLS = {
    "nothing": "x = 1",
    "streams": "import sys\nprint('out')\nprint('err', file=sys.stderr)",
    "result": "x + 1",
    "error": "1 / 0",
    "figure": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "table": "import pandas as pd\npd.DataFrame({'a': [1, 2]})",
    "display": "from IPython.display import display, update_display, clear_output\nh = display('one', display_id='h')",
    "update": "h.update('two')\nh.update('three')",
    "own update": "display(1, display_id='k')\nupdate_display(2, display_id='k')",
    "clear": "for i in range(3):\n    clear_output(wait=True)\n    print('frame', i)",
    "captured": "%%capture\nprint(1)\ndisplay(2)",
    "subprocess": "import subprocess, time\nsubprocess.run(['echo', 'from below'])\ntime.sleep(0.3)",
    "thread": "import threading\nt = threading.Thread(target=print, args=('from a thread',))\nt.start()\nt.join()",
    "bar": "for i in range(10_000):\n    print(f'\\r{i}', end='')",
    "100 MB": "print('x' * 100_000_000)",
    "widget": "import ipywidgets\nout = ipywidgets.Output()\nwith out:\n    print('inside')\nprint('outside')",
    "async": "import asyncio\nawait asyncio.sleep(0)\nprint('awaited')",
    "silent": "x = socket = __import__('socket').socket()",
}


def test_a_kernel_keeps_what_its_cells_showed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")  # where it is set, kernels do not look at what subprocesses print
    seen: dict[str, list[dict[str, Any]]] = {}
    with kernel(tmp_path / "study.ipynb", monkeypatch) as client:
        for name, source in CELLS.items():
            seen[name] = run(client, source)
        client.execute_interactive("print('hidden')", store_history=False, output_hook=lambda _: None, timeout=60)
        run(client, "socket.close()")
        memory = "import resource; resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
        run(client, memory)
    found: dict[str, list[Output]] = {}
    with Repository.open(str(tmp_path / ".agent-kernel" / "study")) as repo:
        names = {source: name for name, source in CELLS.items()}
        for _, commit in repo.log(repo.branches()["main"]):
            if commit.cell is not None and commit.cell.source in names:
                id = commit.cell.outputs
                outputs = () if id is None else read_outputs(repo.objects, id).outputs
                found[names[commit.cell.source]] = list(outputs)
        picture = read_face(repo.objects, next(face for face in found["figure"][0].faces if face.mime == "image/png"))
        assert repo.verify().is_sound
    assert "[agent] Every cell is now a commit" in text(seen["nothing"])
    assert [found[name] for name in ("nothing", "captured", "silent")] == [[], [], []]
    assert [(one.name, one.text) for one in found["streams"]] == [("stdout", "out\n"), ("stderr", "err\n")]
    assert found["result"][0].faces[0].text == "2"
    assert found["error"][0].traceback == tuple(
        next(one for one in seen["error"] if one["msg_type"] == "error")["content"]["traceback"]
    )
    assert picture is not None
    assert picture.startswith(b"\x89PNG")
    assert {face.mime for face in found["table"][0].faces} == {"text/plain", "text/html"}
    assert [(one.kind, one.display) for one in found["display"]] == [("display_data", "h")]
    assert [(one.kind, one.display, one.faces[0].text) for one in found["update"]] == [
        ("update_display_data", "h", "'three'")
    ]
    assert [(one.kind, one.faces[0].text) for one in found["own update"]] == [("display_data", "2")]
    for name, said in {
        "clear": "frame 2\n",
        "subprocess": "from below\n",
        "thread": "from a thread\n",
        "bar": "9999",
        "async": "awaited\n",
    }.items():
        assert [one.text for one in found[name]] == [said]
    first, gap, last = found["100 MB"]
    assert len(first.text) + len(last.text) + gap.size == 100_000_001
    inside, outside = found["widget"]
    assert (inside.text, outside.text) == ("inside\n", "outside\n")
    assert inside.widget
    assert not outside.widget
    # Nobody sees that anybody listens.
    assert len(text(seen["100 MB"])) == 100_000_001
    assert text(seen["bar"]).endswith("\r9999")
