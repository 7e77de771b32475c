"""An estimator reads as it was made, without running a line of its class; Boolean columns tell how often each value occurs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent_kernel.values.previews import Preview, content, decode, encode, interest, line, lines_diff, make_preview

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas")
sklearn: Any = pytest.importorskip("sklearn")

from sklearn.base import BaseEstimator  # noqa: E402
from sklearn.ensemble import RandomForestClassifier  # noqa: E402
from sklearn.linear_model import LinearRegression, Ridge  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402


def test_an_estimator_is_shown_by_the_parameters_that_are_not_the_defaults() -> None:
    assert content(make_preview(Ridge(alpha=3.0))) == "Ridge(alpha=3.0)"
    assert content(make_preview(Ridge())) == "Ridge()"
    assert content(make_preview(LinearRegression(fit_intercept=False))) == "LinearRegression(fit_intercept=False)"
    assert content(make_preview(RandomForestClassifier(max_depth=5))) == "RandomForestClassifier(max_depth=5)"
    assert line(make_preview(Ridge(alpha=3.0))).startswith("Ridge(alpha=3.0)")


def test_estimators_within_estimators_are_shown_too() -> None:
    pipeline = make_pipeline(StandardScaler(), Ridge(alpha=3.0))
    assert (
        content(make_preview(pipeline))
        == "Pipeline(steps=[('standardscaler', StandardScaler()), ('ridge', Ridge(alpha=3.0))])"
    )


def test_a_fitted_estimator_says_what_it_was_made_with() -> None:
    fitted = Ridge(alpha=3.0).fit(np.eye(3), np.arange(3.0))
    assert content(make_preview(fitted)) == "Ridge(alpha=3.0)"


def test_a_changed_parameter_is_a_line_of_the_diff() -> None:
    assert "Ridge() → Ridge(alpha=3.0)" in lines_diff(make_preview(Ridge()), make_preview(Ridge(alpha=3.0)))


def test_no_line_of_the_class_runs(tmp_path: Path) -> None:
    ran: list[str] = []

    class Loud(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
        def __init__(self, depth: int = 1, helper: object = None, api_key: str = "") -> None:
            self.depth, self.helper, self.api_key = depth, helper, api_key

        def __getattribute__(self, name: str) -> object:
            ran.append(name)
            return super().__getattribute__(name)

        def get_params(self, deep: bool = True) -> dict[str, object]:
            ran.append("get_params")
            return {}

        def __repr__(self, N_CHAR_MAX: int = 700) -> str:
            ran.append("repr")
            return "Loud"

        def __eq__(self, other: object) -> bool:
            ran.append("eq")
            return True

        __hash__ = None  # type: ignore[assignment]

    inner = Loud(2)
    model = Loud(3, inner, api_key="s3cr3t-token-of-mine")
    ran.clear()
    preview = make_preview(model)
    assert ran == []
    assert content(preview).startswith("Loud(depth=3, helper=Loud(depth=2), api_key=••••")
    assert "s3cr3t" not in str(preview)
    assert preview.masked


def test_hostile_estimators_are_named_and_no_more() -> None:
    class Itself(BaseEstimator):  # type: ignore[misc]
        def __init__(self, me: object = None) -> None:
            self.me = self

    class Odd(BaseEstimator):  # type: ignore[misc]
        def __new__(cls) -> Any:
            return object.__new__(cls)

    setattr(Odd, "__init__", property(lambda self: None))  # noqa: B010 - no type checker takes it for a method

    class Wide(BaseEstimator):  # type: ignore[misc]
        def __init__(self, a: object = None) -> None:
            self.a = ["x" * 1_000] * 1_000

    odd = object.__new__(Odd)
    held: dict[Any, Any] = odd.__dict__
    held |= {1: 2, "alpha": 3}
    assert content(make_preview(odd)) == "Odd()"
    assert len(content(make_preview(Itself()))) <= 120
    assert len(encode(make_preview(Wide()))) <= 2_048


def test_secret_models_are_hidden() -> None:
    assert "3.0" not in content(make_preview(Ridge(alpha=3.0), "api_key"))


def test_models_tables_numbers_and_figures_are_of_interest_in_this_order() -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    values = [pd.DataFrame({"a": [1]}), Ridge(), 1.5, "a text", figure, ["x"] * 1_000]
    assert [interest(make_preview(value)) for value in values] == [0, 1, 2, 2, 4, 5]
    torch = pytest.importorskip("torch")
    assert interest(make_preview(torch.nn.Linear(2, 2))) == 1


def test_boolean_columns_tell_how_often_each_value_occurs() -> None:
    frame = pd.DataFrame({"n": range(15), "ok": [True] * 12 + [False] * 3})
    frame["maybe"] = pd.array([True, None, *[False] * 13], dtype="boolean")
    preview = make_preview(frame)
    assert preview.counts == {"ok": "True 12, False 3", "maybe": "True 1, False 13, missing 1"}
    assert decode(encode(preview)) == preview
    assert content(make_preview(frame["ok"])) == "15, True 12, False 3"
    assert content(make_preview(frame["ok"].to_numpy())) == "(15,), True 12, False 3"
    assert content(make_preview(frame["ok"][:3])) == "3, [True, True, True]"


@pytest.mark.parametrize("of", ["arrow", "polars"])
def test_boolean_columns_of_other_libraries_are_counted(of: str) -> None:
    values = [True, True, None, False]
    if of == "arrow":
        pytest.importorskip("pyarrow")
        frame = pd.DataFrame({"ok": pd.array(values, dtype="bool[pyarrow]")})
    else:
        frame = pytest.importorskip("polars").DataFrame({"ok": values})
    assert make_preview(frame).counts == {"ok": "True 2, False 1, missing 1"}


def test_counts_of_a_changed_column_are_a_line_of_the_diff() -> None:
    before = pd.DataFrame({"ok": [True] * 12 + [False] * 3})
    after = pd.DataFrame({"ok": [True] * 11 + [False] * 4})
    assert "~ ok: True 12, False 3 → True 11, False 4" in lines_diff(make_preview(before), make_preview(after))


def test_columns_of_one_name_secret_ones_and_very_long_ones_are_not_counted() -> None:
    twice = pd.DataFrame([[True, False]], columns=["a", "a"])
    assert make_preview(twice).counts == {}
    assert make_preview(pd.DataFrame({"password": [True]})).counts == {}
    assert make_preview(pd.DataFrame({"a": [True]}), "api_key").counts == {}
    assert make_preview(pd.DataFrame({"a": np.zeros(2_000_000, bool)})).counts == {}
    wide = pd.DataFrame(np.zeros((3, 60), bool), columns=[f"a rather long name of a column {n}" for n in range(60)])
    assert len(encode(make_preview(wide))) <= 2_048


def test_a_preview_of_an_older_release_has_no_counts() -> None:
    assert decode(encode(Preview("frame", "pandas.DataFrame", shape=(1, 1)))).counts == {}
