"""One variable on both sides: texts, dicts, objects, pictures and what cannot be looked into, none of them loaded."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest

from agent_kernel.errors import NameNotFoundError
from agent_kernel.repository import Blob, Output, Outputs, Representation
from agent_kernel.values import previews
from tests.queries.histories import Notebook


def test_a_query_that_has_not_run_is_named_and_not_run(nb: Notebook) -> None:
    pytest.importorskip("polars")
    nb.run("import polars as pl\nlazy = pl.LazyFrame({'a': [1]}).filter(pl.col('a') > 0)")
    changes = {change["name"]: change for change in nb.ask("commit", id="HEAD")["changes"]}
    assert changes["lazy"]["type"] == "polars.LazyFrame"
    assert not changes["lazy"]["opens"]


CLASSES = """
import collections, dataclasses
class Point:
    def __init__(self, x): self.x, self.password, self.tags = x, 'geheim', ['a', 'b']
    @property
    def far(self): raise RuntimeError('a property ran')
    def __getattr__(self, name): raise RuntimeError('__getattr__ ran')
    def __repr__(self): raise RuntimeError('__repr__ ran')
@dataclasses.dataclass
class Fit:
    x: int
    name: str = 'linear'
@dataclasses.dataclass(slots=True)
class Slim:
    x: int
    label: str = 'geheim2'
    key: str = 'password'
Pair = collections.namedtuple('Pair', 'x y')
"""


@pytest.mark.parametrize(
    ("make", "rest"),
    [
        ("Point({})", {"password": "•••• masked", "tags": "['a', 'b']"}),
        ("Fit({})", {"name": "'linear'"}),
        ("Slim({})", {"label": "•••• masked", "key": "•••• masked"}),
        ("Pair({}, 7)", {"y": "7"}),
    ],
)
def test_an_object_of_a_class_of_the_notebook_is_shown_by_its_attributes(
    nb: Notebook, make: str, rest: dict[str, str]
) -> None:
    nb.cells(CLASSES, f"one = {make.format(1)}", f"one = {make.format(2)}")
    answer = nb.ask("variable", id="HEAD", name="one")
    assert answer["face"]["kind"] == "pairs"
    rows = {row["label"]: (row["old"], row["new"], row["changed"]) for row in answer["face"]["rows"]}
    # One entry of a record may name what another one holds, and then none is shown.
    x = ("•••• masked", "•••• masked", False) if "key" in rest else ("1", "2", True)
    assert rows == {"x": x, **{name: (text, text, False) for name, text in rest.items()}}
    (change,) = nb.ask("commit", id="HEAD")["changes"]
    assert change["opens"]
    assert "geheim" not in str([answer, change])


def test_of_an_object_with_many_attributes_the_first_are_shown_and_the_others_counted(nb: Notebook) -> None:
    nb.run("class Wide:\n    pass\none = Wide()\nfor n in range(100): setattr(one, f'a{n}', n)")
    nb.run("one.a99 = 0")
    answer = nb.ask("variable", id="HEAD", name="one")
    assert len(answer["face"]["rows"]) == 40
    assert answer["note"] == "40 of 100 attributes. The change is not visible in this preview."


def test_a_summary_that_an_older_release_stored_has_no_attributes() -> None:
    older = previews.decode(msgspec.msgpack.encode({"k": "object", "t": "Point"}))
    assert (older.columns, older.attributes) == ((), 0)
    assert previews.lines_diff(older, older) == ["Point: contents may differ"]


def test_a_text_is_shown_line_by_line(nb: Notebook) -> None:
    nb.cells("text = 'one\\ntwo\\nthree'", "text = 'one\\nTwo\\nthree\\nfour'")
    face = nb.ask("variable", id="HEAD", name="text")["face"]
    said = [(line["how"], "".join(word for word, _ in line["words"])) for line in face["lines"]]
    assert said == [(" ", "one"), ("-", "two"), ("+", "Two"), (" ", "three"), ("+", "four")]


def test_a_dict_is_shown_key_by_key_and_no_change_inside_is_missed(nb: Notebook) -> None:
    nb.cells("d = {'a': 1, 'b': list(range(50)), 'same': 'x'}", "d['a'] = 2\nd['b'][40] = 7\nd['new'] = None")
    face = nb.ask("variable", id="HEAD", name="d")["face"]
    assert face["kind"] == "pairs"
    assert {row["label"]: (row["old"], row["new"], row["changed"]) for row in face["rows"]} == {
        "'a'": ("1", "2", True),
        "'b'": ("[0, 1, 2, …]", "[0, 1, 2, …]", True),
        "'same'": ("'x'", "'x'", False),
        "'new'": (None, "None", True),
    }


def test_a_change_beyond_the_keys_that_are_shown_is_said_to_be_there(nb: Notebook) -> None:
    nb.cells("d = {n: n for n in range(90)}", "d[80] = 0")
    answer = nb.ask("variable", id="HEAD", name="d")
    assert not any(row["changed"] for row in answer["face"]["rows"])
    assert answer["note"] == "40 of 90 keys. The change is not visible in this preview."


BOX = """import ipywidgets as W
u = W.VBox([W.HBox([W.Dropdown(options=['a', 'b'], value='a'), W.Checkbox(value=False)]), W.Text('hi')])
v = W.VBox([W.Dropdown(options=['a', 'b'], value='a'), W.Password(value='geheim')])"""


def test_what_changed_in_the_widgets_that_a_widget_holds_is_shown(nb: Notebook) -> None:
    pytest.importorskip("ipywidgets")
    nb.run(BOX)
    nb.run("v.children[0].value = 'b'")
    rows = nb.ask("variable", id="HEAD", name="v")["face"]["rows"]
    assert [tuple(row.values()) for row in rows if row["changed"]] == [("children[0].value", "'a'", "'b'", True)]
    (change,) = nb.ask("commit", id="HEAD")["changes"]
    assert (change["old"], change["new"]) == ("", "children[0].value: 'a' → 'b'")
    nb.run("u.children[0].children[1].value = True; u.children[1].value = 'ho'; u.children[0].layout.width = '50%'")
    answer = nb.ask("variable", id="HEAD", name="u")
    rows = {row["label"]: (row["old"], row["new"]) for row in answer["face"]["rows"] if row["changed"]}
    assert rows == {
        "children[0].children[1].value": ("False", "True"),
        "children[0].layout.width": ("None", "'50%'"),
        "children[1].value": ("'hi'", "'ho'"),
    }
    assert "not visible" not in answer["note"]
    nb.run("v.children[1].value = 'anders'; u.children = u.children[:1]")
    said = str([nb.ask("variable", id="HEAD", name="v"), nb.ask("commit", id="HEAD")["changes"]])
    assert "anders" not in said
    assert "geheim" not in said
    assert "children[1].value" in said


def test_the_terminal_says_what_changed_within_a_widget(nb: Notebook) -> None:
    pytest.importorskip("ipywidgets")
    nb.run(BOX)
    nb.run("v.children[0].value = 'b'")
    from agent_kernel.commands.scope import Scope, answer

    said = answer(["diff"], Scope(nb.repo, nb.session))[0].to_text()
    assert "~ children[0].value: 'a' → 'b'" in said
    assert "may differ" not in said


def test_an_object_is_shown_by_its_attributes(nb: Notebook) -> None:
    pytest.importorskip("sklearn")
    fit = "m = Ridge(alpha={}).fit([[0.0], [1], [2]], [0.0, 1, 2])"
    nb.cells(f"from sklearn.linear_model import Ridge\n{fit.format(1.0)}", fit.format(3.0))
    assert nb.ask("commit", id="HEAD")["changes"][0]["opens"]
    rows = {row["label"]: row for row in nb.ask("variable", id="HEAD", name="m")["face"]["rows"]}
    assert (rows["alpha"]["old"], rows["alpha"]["new"], rows["alpha"]["changed"]) == ("1.0", "3.0", True)
    assert rows["coef_"]["old"] == "[0.666667]"
    assert not rows["fit_intercept"]["changed"]


def test_of_a_model_that_was_fitted_again_what_changed_comes_first_and_nothing_says_how_it_is_stored(
    nb: Notebook,
) -> None:
    pytest.importorskip("sklearn")
    fit = "m = Ridge(alpha={}).fit(pd.DataFrame({{'area': [0.0, 1, 2], 'rooms': [1.0, 0, 1]}}), [0.0, 1, 2])"
    nb.cells(f"import pandas as pd\nfrom sklearn.linear_model import Ridge\n{fit.format(1.0)}", fit.format(3.0))
    rows = nb.ask("variable", id="HEAD", name="m")["face"]["rows"]
    changed = [row["changed"] for row in rows]
    assert changed == sorted(changed, reverse=True)
    assert {"alpha", "coef_", "intercept_"} <= {row["label"] for row in rows if row["changed"]}
    names = next(row for row in rows if row["label"] == "feature_names_in_")
    assert (names["old"], names["new"], names["changed"]) == ("['area', 'rooms']", "['area', 'rooms']", False)
    assert "object_array" not in str(rows)


def test_figures_are_the_pictures_that_their_cells_showed(nb: Notebook) -> None:
    pytest.importorskip("matplotlib")
    pictures = [b"\x89PNG first", b"\x89PNG second"]
    for number, picture in enumerate(pictures):
        face = Representation("image/png", "bytes", len(picture), blob=Blob(len(picture), picture))
        shown = Outputs(version=1, outputs=(Output(kind="display_data", representations=(face,)),))
        nb.run(f"from matplotlib.figure import Figure\nfig = Figure(figsize=({number + 1}, 1))", shows=shown)
    change = next(one for one in nb.ask("commit", id="HEAD")["changes"] if one["name"] == "fig")
    assert change["opens"]
    answer = nb.ask("variable", id="HEAD", name="fig")
    uris = [f"data:image/png;base64,{b64encode(picture).decode()}" for picture in pictures]
    assert answer["face"] == {"kind": "pictures", "before": uris[0], "after": uris[1]}
    assert answer["note"] == "As [1] and [2] showed it."
    assert not [line for line in answer["lines"] if "may differ" in line]  # the line above has said that they do


def test_a_figure_that_no_cell_showed_has_no_picture(nb: Notebook) -> None:
    pytest.importorskip("matplotlib")
    nb.run("from matplotlib.figure import Figure\nfig = Figure()")
    answer = nb.ask("variable", id="HEAD", name="fig")
    assert answer["face"] is None
    assert answer["note"] == "No cell that changed it showed a picture of it."


def test_a_variable_is_as_the_commit_says_it_is(nb: Notebook) -> None:
    nb.cells("class P:\n    x = 1\np = P()\nother = 1", "P.x = 2")
    for change in nb.ask("commit", id="HEAD")["changes"]:
        assert nb.ask("variable", id="HEAD", name=change["name"])["how"] == change["how"]
    assert nb.ask("variable", id="HEAD", name="other")["how"] == "="


def test_what_cannot_be_looked_into_says_so(nb: Notebook) -> None:
    nb.cells("class P(str):\n    pass\np = P('a')", "p = P('b')")
    answer = nb.ask("variable", id="HEAD", name="p")
    assert answer["face"] is None
    assert answer["lines"] or answer["note"]
    assert nb.ask("variable", id="HEAD~1", name="p")["note"] == "There is no more to see of it without loading it."


def test_a_secret_is_not_shown(nb: Notebook) -> None:
    nb.cells("password = 'geheim'", "password = 'geheimer'")
    answer = nb.ask("variable", id="HEAD", name="password")
    assert "geheim" not in str(answer)
    assert answer["note"] == "Its name says that it is a secret, so it is not shown."


def test_a_name_that_neither_side_has_is_not_found(nb: Notebook) -> None:
    nb.run("houses = 1")
    with pytest.raises(NameNotFoundError, match="did you mean houses"):
        nb.ask("variable", id="HEAD", name="house")
