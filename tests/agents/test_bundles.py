"""What is shown runs and loads nothing in the page, or it is said what it would."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.magics.display_gate import active_html, active_parts, active_state

ACTIVE = [
    "<script>alert(1)</script>",
    "<SCRIPT src=//evil></SCRIPT>",
    "<script>alert(1)",
    "<b onclick=alert(1)>x</b>",
    "<b/onclick=alert(1)>x</b>",
    "<b title='x'onclick=alert(1)>x</b>",
    '<b title="a>" onclick="alert(1)">x</b>',
    "<img src=x onerror=alert(1)>",
    "<img src='https://evil/?q=1'>",
    "<img src='/api/x'>",
    "<img srcset='https://evil/ 2x'>",
    "<iframe src='https://evil'></iframe>",
    "<iframe srcdoc='<script>1</script>'></iframe>",
    "<object data='x'></object>",
    "<embed src='x'>",
    "<a href='javascript:alert(1)'>x</a>",
    "<a href='java&#10;script:alert(1)'>x</a>",
    "<a href=' JaVaScRiPt:alert(1)'>x</a>",
    "<a href='report.html'>x</a>",
    "<a href='/lab/api/x'>x</a>",
    "<a href='https://evil/?rows=1'>x</a>",
    "<a href='http://localhost:8888/x'>x</a>",
    "<a href='data:text/html,<script>1</script>'>x</a>",
    "<form action='/api'><input type=submit></form>",
    "<button formaction='/api'>x</button>",
    "<input type=image src='https://evil'>",
    "<input type=submit>",
    "<meta http-equiv=refresh content='0;url=https://evil'>",
    "<base href='https://evil'>",
    "<link rel=stylesheet href='https://evil'>",
    "<style>@import 'https://evil'</style>",
    "<style>.a{background:url(https://evil)}</style>",
    "<style>.a{background:u\\72l(https://evil)}</style>",
    "<style>.jp-Dialog{display:none}</style>",
    "<style>button{display:none}</style>",
    "<style>body{display:none}</style>",
    "<style>.a{} :root{--jp-x: 1}</style>",
    "<style>.a{color:red} /* { */ .jp-x{display:none}</style>",
    "<style>#a{position:fixed}</style>",
    "<style>.a{}",
    "<style>.a{}</style foo><img src=x onerror=alert(1)>",
    "<div style='position: fixed; inset: 0'>x</div>",
    "<div style='background:url(https://evil)'>x</div>",
    "<div data-commandlinker-command='x'>x</div>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><style><img src=x onerror=alert(1)></style></svg>",
    "<svg onload=alert(1)></svg>",
    "<svg><animate attributeName=href values=javascript:alert(1)></svg>",
    "<svg><foreignObject><b>x</b></foreignObject></svg>",
    "<svg><use href='https://evil#x'/></svg>",
    "<svg><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
    "<math><mtext><script>1</script></mtext></math>",
    "<template><script>1</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=alert(1)>'></noscript>",
    "<textarea></textarea>",
    "<title><b title='</title><script>alert(1)</script>'>",
    "x <scr<b></b>ipt>",
    "<!--><img src=x onerror=alert(1)>-->",
    "<!-- --!><img src=x onerror=alert(1)> -->",
    "<![CDATA[<script>1</script>]]>",
    "<?xml-stylesheet href='https://evil'?>",
    "<x-element></x-element>",
    "<video src='https://evil'></video>",
    "<table background='https://evil'><tr><td>x</td></tr></table>",
    "<marquee onstart=alert(1)>x</marquee>",
    "<div style='position:/* x */fixed'>x</div>",
    "<div style='background:src(\"https://evil\")'>x</div>",
    "<svg><style>.a{background:u&#114;l(https://evil)}</style></svg>",
    "<svg xmlns:x='http://www.w3.org/1999/xlink'><image x:href='https://evil'/></svg>",
    r"<p>$\href{javascript:alert(1)}{x}$</p>",
    r"<p>\(\hr<!-- -->ef{javascript:alert(1)}{x}\)</p>",
    r"\[\h&#114;ef{javascript:alert(1)}{x}\]",
    "<button onclick=\"copyToClipboard('x', this)\">x</button>",
]
STILL = [
    "",
    "plain & simple, 1 < 2 and 3 > 2",
    "<b>x</b><br/><i>y</i>",
    "<table border='1' class='dataframe'><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;script&gt;</td></tr></tbody></table>",
    "<style scoped>.dataframe tbody tr th {vertical-align: top;}</style>",
    "<style type='text/css'>#T_1_row0_col0, #T_1_row1_col0 {background-color: yellow; color: #000}</style>",
    "<img src='data:image/png;base64,iVBORw0KGgo='>",
    "<a href='https://example.org/docs/page.html#part'>docs</a>",
    "<a href='#part'>part</a>",
    "<audio controls><source src='data:audio/wav;base64,AAAA' type='audio/wav'></audio>",
    "<details><summary>more</summary><pre>x</pre></details>",
    "<div style='color: red; width: 10%'>x</div>",
    "<!-- a remark -->",
    "<svg width='10'><g fill='url(#a)'><path d='M0 0'/><rect x='1'/></g></svg>",
    "<label for='a'>x</label><input type='checkbox' id='a'>",
    r"<td>C:\data\style</td><p>$\frac{1}{2}$ for $5</p>",
]


@pytest.mark.parametrize("html", ACTIVE)
def test_active_html_is_told(html: str) -> None:
    assert active_html(html)


@pytest.mark.parametrize("html", STILL)
def test_still_html_passes(html: str) -> None:
    assert active_html(html) == ""


@pytest.mark.parametrize(
    ("mime", "value"),
    [
        ("application/javascript", "alert(1)"),
        ("text/javascript", "alert(1)"),
        ("application/vnd.plotly.v1+json", {"data": []}),
        ("application/vnd.unknown", "x"),
        ("application/pdf", "x"),
        ("text/html", ["<scr", "ipt>alert(1)</script>"]),
        ("text/html", {"not": "a text"}),
        ("TEXT/HTML", "<script>1</script>"),
        ("image/svg+xml", "<svg><script>1</script></svg>"),
        ("image/svg+xml", "<!DOCTYPE svg [<!ENTITY x '<script>1</script>'>]><svg>&x;</svg>"),
        ("text/markdown", "# x\n<img src=x onerror=alert(1)>"),
        ("text/markdown", "![x](https://evil/?q=1)"),
        ("text/markdown", "[x](javascript:alert(1))"),
        ("text/markdown", "[x](/lab/api)"),
        ("text/markdown", "![a [b] c](https://evil/?q=1)"),
        ("text/markdown", "![a\\]](https://evil/?q=1)"),
        ("text/markdown", "![a][b]\n\n> - [b]:https://evil/?q=1"),
        ("text/markdown", "```mermaid\nclick A href 'javascript:alert(1)'\n```"),
        ("text/markdown", r"$$\href{javascript:alert(1)}{x}$$"),
        ("text/latex", r"\href{javascript:alert(1)}{x}"),
        ("text/latex", r"$\bbox[background:url(https://evil/)]{x}$"),
        ("text/latex", r"$\BBox [5px, background: URL(https://evil/)]{x}$"),
        ("text/latex", r"$\let\b\bbox{}\b[background:url(https://evil/)]{x}$"),
        ("text/latex", r"$\def\b#1{\bbox[background:#1(https://evil/)]{x}}\b{url}$"),
        ("text/markdown", r"$\bbox[background:url(https://evil/)]{x}$"),
        ("text/html", r"<p>$\bbox[background:url(https://evil/)]{x}$</p>"),
        ("text/vnd.mermaid", "graph"),
    ],
)
def test_what_a_page_runs_is_told_by_its_type(mime: str, value: object) -> None:
    assert set(active_parts({"text/plain": "x", mime: value})) == {mime}


@pytest.mark.parametrize(
    ("mime", "value"),
    [
        ("text/plain", "<script>alert(1)</script>"),
        ("image/png", "iVBORw0KGgo="),
        ("application/json", {"a": "<script>"}),
        ("text/markdown", "# Title\n**bold** `a < b` [docs](https://example.org/x) 3<4"),
        ("text/latex", r"$\displaystyle \frac{x}{2} < 3$"),
        ("text/latex", r"$\bbox[yellow, 5px, border: 2px solid red]{x} + \bbox{y}$"),
        ("application/vnd.jupyter.widget-view+json", {"model_id": "x"}),
    ],
)
def test_what_only_looks_passes(mime: str, value: object) -> None:
    assert active_parts({mime: value}) == {}


WIDGET = {"_model_module": "@jupyter-widgets/controls", "_view_module": "@jupyter-widgets/controls"}


@pytest.mark.parametrize(
    "state",
    [
        {"_model_module": "anywidget", "_esm": "export default {render() {}}"},
        {"_esm": "export default {}"},
        {"_css": ".jp-x {}"},
        {"_model_module": "mine"},
        {"_view_module": "mine"},
        {**WIDGET, "_view_module": "mine"},
        {"_model_module": "anywidget", "_view_module": "mine", "_esm": ""},
        {"_model_module": "anywidget", "_view_module": "anywidget", "_esm": ["export default {}"]},
        {"_model_module": ["mine"]},
        {**WIDGET, "value": ["<img src=x onerror=alert(1)>"]},
        {**WIDGET, "value": [["<img src=x title='"], "' onerror=alert(1)>"]},
        {**WIDGET, "value": {"a": ["<img src=x onerror=alert(1)>"]}},
        {**WIDGET, "_model_name": "HTMLMathModel", "value": r"$\href{javascript:alert(1)}{x}$"},
        {**WIDGET, "_model_name": "HTMLStyleModel", "background": "url(https://evil/?q=1)"},
        {"outputs": {"0": {"data": {"text/html": "<script>1</script>"}}}},
        {**WIDGET, "_model_name": "HTMLModel", "value": "<script>1</script>"},
        {**WIDGET, "_model_name": "HTMLMathModel", "value": "<img src=x onerror=1>"},
        {"value": "<iframe src=x></iframe>"},
        {**WIDGET, "description": "<img src=x onerror=1>", "description_allow_html": True},
        {**WIDGET, "format": "url", "value": "https://evil"},
        {"outputs": [{"output_type": "display_data", "data": {"text/html": "<script>1</script>"}}]},
    ],
)
def test_active_states_of_widgets_are_told(state: dict[str, Any]) -> None:
    assert active_state(state)


@pytest.mark.parametrize(
    "state",
    [
        {**WIDGET, "_model_name": "IntSliderModel", "value": 3, "description": "n < 3"},
        {**WIDGET, "_model_name": "HTMLModel", "value": "<b>10%</b> &nbsp;1/10 [00:01&lt;00:02]"},
        {"value": 4},
        {**WIDGET, "_options_labels": ["a < b", "C:\\data", "R&D"], "background": "#ffe"},
        {"outputs": [{"output_type": "display_data", "data": {"text/html": "<b>x</b>", "image/png": "x"}}]},
    ],
)
def test_still_states_of_widgets_pass(state: dict[str, Any]) -> None:
    assert active_state(state) == ""


def test_tables_figures_and_models_of_libraries_pass() -> None:
    import matplotlib.figure
    import pandas as pd
    import polars as pl
    import sympy
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    frame = pd.DataFrame({"a": [1, 2], "b": ["<script>", "x"]})
    figure = matplotlib.figure.Figure()
    figure.add_subplot().plot([1, 2])
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    model: Any = make_pipeline(StandardScaler(), Ridge())
    shown: list[dict[str, object]] = [
        {"text/html": frame._repr_html_()},  # type: ignore[operator]
        {"text/html": pl.DataFrame({"a": [1]})._repr_html_()},
        {"image/svg+xml": drawn.getvalue()},
        {"text/html": model._repr_html_()},
        {"text/html": model.fit([[1.0], [2.0]], [1, 2])._repr_html_()},
        {"text/latex": sympy.Symbol("x")._repr_latex_()},
    ]
    assert [active_parts(one) for one in shown] == [{}] * len(shown)


def test_a_script_of_plotly_and_one_that_only_begins_like_an_installed_one_are_told() -> None:
    import plotly.graph_objects as go
    import sklearn.utils

    assert active_html(go.Figure()._repr_html_())
    installed = next(Path(sklearn.utils.__file__).parent.rglob("*.js")).read_text()
    assert active_html(f"<script>{installed}</script>") == ""
    assert active_html(f"<script>{installed}alert(1)</script>")
