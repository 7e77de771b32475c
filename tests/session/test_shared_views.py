"""What pandas and numpy make over an array that a variable holds is as much one with it as it really is.

A matrix: kinds of arrays, what is made over them, and routes of change. Nothing is expected by hand: whether a release
of pandas shares, copies or copies before it writes is seen on the live objects, and the history has to agree.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import pytest

from agent_kernel.session import Report, Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

np: Any = pytest.importorskip("numpy")
pd: Any = pytest.importorskip("pandas", minversion="2.0")

# An array `a`, and another item for it.
LINES = {
    "integers": ("np.arange(2000, 2012)", "7"),
    "floats": ("np.arange(12.) / 7", "7.5"),
    "truths": ("np.zeros(12, bool)", "True"),
    "days": ("np.arange('2020-01-01', '2020-01-13', dtype='M8[D]').astype('M8[ns]')", "np.datetime64('1999-01-01')"),
    "seconds": ("np.arange('2020-01-01', '2020-01-13', dtype='M8[D]').astype('M8[s]')", "np.datetime64('1999-01-01')"),
    "durations": ("np.arange(12).astype('m8[ns]')", "np.timedelta64(99, 'ns')"),
    "objects": ("np.array([*'abcdefghij', 1.5, None], dtype=object)", "'changed'"),
    "lists": ("np.array([[n] for n in range(12)] + [None], dtype=object)[:12]", "[99]"),
    "bytes of an array": ("np.frombuffer(bytearray(range(96)), 'i8')", "7"),
    "every other number": ("np.arange(24)[::2]", "7"),
    "numbers backwards": ("np.arange(12.)[::-1]", "7.5"),
    "a column of a plane": ("np.arange(24.).reshape(12, 2)[:, 1]", "7.5"),
    "gaps among integers": ("pd.array([*range(11), None], dtype='Int64')", "99"),
    "gaps among floats": ("pd.array([*range(11), None], dtype='Float64')", "9.5"),
    "gaps among truths": ("pd.array([True, None, False] * 4, dtype='boolean')", "False"),
    "categories": ("pd.Categorical(list('abcd') * 3)", "'d'"),
    "intervals": ("pd.arrays.IntervalArray.from_breaks(np.arange(13.))", "pd.Interval(50., 60.)"),
    "an array of days": ("pd.date_range('2020', periods=12).array.copy()", "pd.Timestamp('1999')"),
    "days of a zone": ("pd.date_range('2020', periods=12, tz='Europe/Paris').array.copy()", "pd.Timestamp('1999', tz='Europe/Paris')"),
    "an array of durations": ("pd.timedelta_range('1h', periods=12).array.copy()", "pd.Timedelta('9h')"),
    "periods": ("pd.period_range('2020-01', periods=12, freq='M').array.copy()", "pd.Period('1999-01')"),
    "texts": ("pd.array(list('abcdefghijkl'), dtype='string[python]')", "'changed'"),
    "texts of Arrow": ("pd.array(list('abcdefghijkl'), dtype='string[pyarrow]')", "'changed'"),
    "numbers of Arrow": ("pd.array(range(12), dtype='int64[pyarrow]')", "99"),
    "an array of numpy's": ("pd.arrays.NumpyExtensionArray(np.arange(12))", "99"),
    "an array of numpy's objects": ("pd.arrays.NumpyExtensionArray(np.array([*'abcdefghijk', 0], dtype=object))", "'changed'"),
    "few numbers among many": ("pd.arrays.SparseArray([0, 0, 1] * 4)", "5"),
}  # fmt: skip
OVER_LINES = {
    "a view": "a[2:9]",
    "every other": "a[::2]",
    "backwards": "a[::-1]",
    "an index": "pd.Index(a, copy=False)",
    "an index of a part": "pd.Index(a[2:9], copy=False)",
    "an index of every other": "pd.Index(a[::2], copy=False)",
    "an index backwards": "pd.Index(a[::-1], copy=False)",
    "a view of an index": "pd.Index(a, copy=False)[1:8]",
    "two indexes": "[pd.Index(a, copy=False), pd.Index(a, copy=False, name='n')]",
    "rows": "pd.DataFrame({'q': range(len(a))}, index=a)",
    "rows of a part": "pd.DataFrame({'q': range(len(a))}, index=a)[2:5]",
    "rows of an index": "pd.Series(range(len(a)), index=pd.Index(a, copy=False))",
    "columns": "pd.DataFrame([range(len(a))], columns=a)",
    "a series": "pd.Series(a, copy=False)",
    "a series of every other": "pd.Series(a[::2], copy=False)",
    "a series backwards": "pd.Series(a[::-1], copy=False)",
    "a series in a list": "[1, {'s': pd.Series(a, copy=False)}]",
    "a series and rows of it": "[pd.Series(a, copy=False), pd.Series(a, copy=False)[1:5]]",
    "a shallow copy of a series": "pd.Series(a, copy=False).copy(deep=False)",
    "a copied series": "pd.Series(a, copy=True)",
    "a column": "pd.DataFrame({'x': a}, copy=False)",
    "a column of a part": "pd.DataFrame({'x': a[2:9], 'y': a[2:9]}, copy=False)",
    "a column of every other": "pd.DataFrame({'x': a[::2]}, copy=False)",
    "a column backwards": "pd.DataFrame({'x': a[::-1]}, copy=False)",
    "a column taken": "pd.DataFrame({'x': a}, copy=False)['x']",
    "a column and rows": "pd.DataFrame({'x': a}, index=a, copy=False)",
    "an array of pandas": "pd.array(a, copy=False)",
    "levels": "pd.MultiIndex.from_arrays([a, range(len(a))])",
    "a row index that is set": "pd.DataFrame({'x': a}, copy=False).set_index('x', drop=False)",
    "intervals": "pd.IntervalIndex.from_arrays(a[:5], a[5:10], copy=False)",
}  # fmt: skip
PLANES = {
    "a plane": ("np.arange(24.).reshape(6, 4)", "7.5"),
    "a plane in Fortran's order": ("np.asfortranarray(np.arange(24).reshape(6, 4))", "7"),
    "a plane of objects": ("np.array([[n, str(n)] for n in range(6)], dtype=object)", "'changed'"),
    "a part of a plane": ("np.arange(96).reshape(12, 8)[::2, 1::2]", "7"),
    "a turned plane": ("np.arange(24.).reshape(4, 6).T", "7.5"),
}  # fmt: skip
OVER_PLANES = {
    "transposed": "a.T",
    "rows backwards": "a[::-1]",
    "every other column": "a[:, ::2]",
    "a column": "a[:, 0]",
    "a row": "a[0]",
    "transposed and in steps": "a.T[::2, ::-1]",
    "a diagonal": "a.reshape(-1)[::3]",
    "a table": "pd.DataFrame(a, copy=False)",
    "a table of it transposed": "pd.DataFrame(a.T, copy=False)",
    "a table transposed": "pd.DataFrame(a, copy=False).T",
    "a table of rows backwards": "pd.DataFrame(a[::-1], copy=False)",
    "a table of every other row": "pd.DataFrame(a[::2], copy=False)",
    "a table of every other column": "pd.DataFrame(a[:, ::2], copy=False)",
    "a table in a dict": "{'t': pd.DataFrame(a, copy=False)}",
    "a series of a column": "pd.Series(a[:, 0], copy=False)",
    "a column of the table": "pd.DataFrame(a, copy=False)[1]",
    "rows of the table": "pd.DataFrame(a, copy=False)[1:4]",
    "an index of a column": "pd.Index(a[:, 0], copy=False)",
    "rows and cells": "pd.DataFrame(a, index=a[:, 0], columns=a[0], copy=False)",
    "a row as columns": "pd.DataFrame([range(a.shape[1])], columns=a[0])",
}  # fmt: skip
RECORDS = {
    "records": ("np.array([(n, n / 7, str(n)) for n in range(8)], dtype=[('u', int), ('v', float), ('w', 'U3')])", "(9, 9., '9')"),
    "records with objects": ("np.array([(n, [n]) for n in range(8)], dtype=[('u', int), ('v', object)])", "(9, [9])"),
    "records within records": ("np.array([((n, n), n) for n in range(8)], dtype=[('u', [('v', int), ('y', 'i2')]), ('z', float)])", "((9, 9), 9.)"),
    "records by name": ("np.rec.array([(n, n / 7) for n in range(8)], dtype=[('u', int), ('v', float)])", "(9, 9.)"),
}  # fmt: skip
OVER_RECORDS = {
    "some rows": "a[2:6]",
    "rows in steps": "a[::2]",
    "rows backwards": "a[::-1]",
    "a field": "a['u']",
    "a field of some rows": "a[0:6]['u']",
    "a field in steps": "a['u'][::3]",
    "fields": "a[['u']]",
    "a row": "a[0]",
    "a table": "pd.DataFrame(a, copy=False)",
    "a series of a field": "pd.Series(a['u'], copy=False) if a['u'].dtype.names is None else None",
    "an index of a field in steps": "pd.Index(a['u'][::2], copy=False) if a['u'].dtype.names is None else None",
    "an array of records": "a.view(np.recarray)",
}  # fmt: skip


def _tried(change: str) -> str:
    return f"try:\n    {change}\nexcept (IndexError, TypeError, ValueError):\n    pass  # it is read-only, or takes no such item"


FIRST = "(0,) * np.ndim(a)"
ROUTES = {
    "the array": _tried(f"a[{FIRST}] = V"),
    "what was made over it": "write(h, V)",
    "that, and then the array": _tried(f"write(h, V); a[{FIRST}] = V"),
}
SETUP = """
import numpy as np, pandas as pd
def read():
    for value in (a, h):
        try:
            str(value)
        except Exception:
            pass
def write(made, item):
    try:
        if isinstance(made, (list, dict)):
            for part in (made.values() if isinstance(made, dict) else made):
                write(part, item)
        elif isinstance(made, pd.DataFrame):
            made.iloc[1, 0] = item
        elif isinstance(made, pd.Series):
            made.iloc[1] = item
        elif np.ndim(made) == 2:
            made[1, 0] = item
        elif hasattr(made, "dtype") and not np.ndim(made):
            made[made.dtype.names[0]] = item[0]
        else:
            made[1] = item if getattr(made, "dtype", None) == getattr(a, "dtype", None) else item[0]
    except Exception:
        pass  # it cannot be written to: then nothing may be reported as changed
"""


ALL_OVER = ("integers", "objects")
ALL_OVER_TOO = ("gaps among integers", "categories", "texts of Arrow")  # with all that was made over them: slow
MOST_TELLING = (
    *("every other", "an index", "an index backwards", "rows", "columns", "a series backwards", "a column and rows"),
    *("a row index that is set", "intervals"),
)
FEW_OVER_LINES = {title: OVER_LINES[title] for title in MOST_TELLING}
MATRIX = {
    **{kind: (*line, OVER_LINES if kind in ALL_OVER else FEW_OVER_LINES) for kind, line in LINES.items()},
    **{kind: (*plane, OVER_PLANES) for kind, plane in PLANES.items()},
    **{kind: (*records, OVER_RECORDS) for kind, records in RECORDS.items()},
    **{f"{kind}, all": (*LINES[kind], OVER_LINES) for kind in ALL_OVER_TOO},
}
SELDOM = {  # variations of kinds that each run of the tests looks at
    *("floats", "truths", "seconds", "durations", "numbers backwards", "a column of a plane", "gaps among integers"),
    *("gaps among truths", "an array of days", "an array of durations", "periods", "texts", "an array of numpy's"),
    *("a plane in Fortran's order", "a turned plane", "a part of a plane", "records by name", "records within records"),
    *(f"{kind}, all" for kind in ALL_OVER_TOO),
}
KINDS = [pytest.param(kind, marks=[pytest.mark.slow] if kind in SELDOM else []) for kind in MATRIX]


class Seen(NamedTuple):
    """What came of one route of change, in the live process."""

    title: str
    change: str
    first: Report
    again: Report
    before: dict[str, object]
    after: dict[str, object]


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_over_an_array_is_one_with_it_as_before(kind: str) -> None:
    base, item, holders = MATRIX[kind]
    store, wrong, seen = MemoryStore(), list[str](), list[Seen]()
    with Notebook(Repository.open(store)) as nb:
        nb.run(SETUP)
        for holder, made in holders.items():
            if not _can_be_made(base, made):
                continue
            nb.run("a = h = V = None")
            first = nb.run(f"a = {base}; h = {made}; V = {item}")
            before = _look(nb)
            wrong += [f"{holder}: reading changes {name}" for name in names_changed(nb.run("read()"))]
            grouped = len(nb.session.workspace.tracking.groups["a"].members) > 1
            for route, change in ROUTES.items():
                title = f"{holder} by {route}: "
                report = nb.run(change)
                again = first if report.commit is None else report  # nothing changed
                after = _look(nb)
                changed = {name for name in ("a", "h") if before[name] != after[name]}
                found = [f"missed {name}" for name in changed - names_changed(report)]
                if len(changed) == 2 and route == "the array" and not grouped:
                    found.append("missed where there is more to look at than these two")
                nb.checkout(first)
                found += _difference("undone", nb, before)
                nb.execute(change)
                found += _difference("changed again", nb, after)
                nb.checkout(first)
                wrong += [title + problem for problem in found]
                seen.append(Seen(title, change, first, again, before, after))
    with Notebook(Repository.open(store)) as nb:
        for one in seen:
            nb.checkout(one.again)
            found = _difference("the later after a restart", nb, one.after)
            if "write" in one.change:
                nb.checkout(one.first)
                found += _difference("the first after a restart", nb, one.before)
                nb.execute(one.change)
                found += _difference("changed after a restart", nb, one.after)
            wrong += [one.title + problem for problem in found]
    assert not wrong, f"{len(wrong)} of {len(seen)}:\n" + "\n".join(wrong)


def _can_be_made(base: str, made: str) -> bool:
    try:
        eval(made, {"np": np, "pd": pd, "a": eval(base, {"np": np, "pd": pd})})
    except (TypeError, ValueError, NotImplementedError, AttributeError):
        return False
    return True


def _difference(what: str, nb: Notebook, expected: dict[str, object]) -> list[str]:
    now = _look(nb)
    return [f"{what}: {part} {now[part]} for {expected[part]}" for part in now if now[part] != expected[part]]


def _look(nb: Notebook) -> dict[str, object]:
    """What the two hold, and which of their arrays share memory."""
    parts = [leaf for name in ("a", "h") for leaf in _arrays(nb.namespace[name])]
    shared = [pair for pair in combinations(range(len(parts)), 2) if np.shares_memory(parts[pair[0]], parts[pair[1]])]
    return {"a": _content(nb.namespace["a"]), "h": _content(nb.namespace["h"]), "shared": shared}


def _arrays(value: Any) -> list[Any]:
    """The arrays of numpy that a value is made of."""
    if isinstance(value, np.void):
        return [np.asarray(value)]
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, (list, tuple, dict)):
        return [leaf for part in (value.values() if isinstance(value, dict) else value) for leaf in _arrays(part)]
    if isinstance(value, (pd.DataFrame, pd.Series)):
        parts = [block.values for block in value._mgr.blocks] + list(value.axes)
    elif isinstance(value, pd.MultiIndex):
        parts = [*value.levels, *value.codes]
    elif isinstance(value, pd.RangeIndex):
        parts = []
    elif isinstance(value, pd.Index):
        parts = [value._data]
    elif isinstance(value, pd.api.extensions.ExtensionArray):
        names = ("_ndarray", "_data", "_mask", "_left", "_right", "_sparse_values")
        parts = [getattr(value, name, None) for name in names]
    else:
        parts = []
    return [leaf for part in parts for leaf in _arrays(part)]


def _content(value: Any) -> str:
    if isinstance(value, (list, tuple, dict)):
        return repr([_content(part) for part in (value.values() if isinstance(value, dict) else value)])
    if isinstance(value, pd.DataFrame):
        columns = [_content(value.iloc[:, place]) for place in range(value.shape[1])]
        return repr((type(value), columns, _content(value.index), _content(value.columns)))
    if isinstance(value, pd.Series):
        return repr((value.dtype, value.name, value.tolist(), _content(value.index)))
    if isinstance(value, pd.MultiIndex):  # which keeps the list that it once gave
        return repr((value.names, [_content(part) for part in (*value.levels, *value.codes)]))
    if isinstance(value, (pd.IntervalIndex, pd.arrays.IntervalArray)):  # those that are out of order cannot be listed
        return repr((type(value), value.dtype, list(value.left), list(value.right), getattr(value, "name", None)))
    if isinstance(value, (pd.Index, pd.api.extensions.ExtensionArray)):
        return repr((type(value), value.dtype, list(value), getattr(value, "name", None)))
    if isinstance(value, (np.ndarray, np.void)):
        return repr((type(value), value.dtype, np.shape(value), value.tolist(), value.flags.writeable))
    return repr(value)
