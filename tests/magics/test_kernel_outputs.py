"""What cells show in a kernel is kept with their commits, without a trace on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.magics.outputs import Collector, KernelTap
from agent_kernel.repository import Output, Repository, read_outputs, read_representation
from tests.magics.collected import kept, texts
from tests.magics.test_kernel import kernel, run, text


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
        picture = read_representation(
            repo.objects, next(face for face in found["figure"][0].representations if face.mime == "image/png")
        )
        assert repo.verify().is_sound
    assert "[agent] Every cell is now a commit" in text(seen["nothing"])
    assert [found[name] for name in ("nothing", "captured", "silent")] == [[], [], []]
    assert [(one.name, one.text) for one in found["streams"]] == [("stdout", "out\n"), ("stderr", "err\n")]
    assert found["result"][0].representations[0].text == "2"
    assert found["error"][0].traceback == tuple(
        next(one for one in seen["error"] if one["msg_type"] == "error")["content"]["traceback"]
    )
    assert picture is not None
    assert picture.startswith(b"\x89PNG")
    assert {face.mime for face in found["table"][0].representations} == {"text/plain", "text/html"}
    assert [(one.kind, one.display) for one in found["display"]] == [("display_data", "h")]
    assert [(one.kind, one.display, one.representations[0].text) for one in found["update"]] == [
        ("update_display_data", "h", "'three'")
    ]
    assert [(one.kind, one.representations[0].text) for one in found["own update"]] == [("display_data", "2")]
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
