"""Arrays, and what looks at their memory or draws from the same bits, are as much one after a checkout as before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent_kernel.session import Report, Repository
from agent_kernel.session.serialization import Dumps
from agent_kernel.storage import MemoryStore
from agent_kernel.values.aliases import owner_of
from tests.support.notebooks import Notebook, names_changed

# A cell that makes `a` and what shares with it, one that changes it, and what tells one state from the other.
SHARED = {
    "the coefficients of a polynomial": ("a = np.polynomial.Polynomial([1., 2]); x = a.coef", "x[0] = 9", "a.coef is x, x.tolist()"),
    "those of a Chebyshev series in a list": ("a = [np.polynomial.Chebyshev([1., 2])]; x = a[0].coef", "x[0] = 9", "a[0](0.5), a[0].coef is x"),
    "an old polynomial": ("a = np.poly1d([1., 2]); x = a.coeffs", "a[0] = 9", "a.coeffs is x, x.tolist()"),
    "two generators over the same bits": ("a = np.random.PCG64(1); x = [np.random.Generator(a), np.random.Generator(a)]", "x[0].random()", "x[1].bit_generator is a, a.state['state']['state']"),
    "the bits of a generator": ("a = np.random.default_rng(1); x = a.bit_generator", "a.random()", "a.bit_generator is x, x.state['state']['state']"),
    "an old generator": ("a = np.random.RandomState(5); x = a._bit_generator", "a.normal()", "a._bit_generator is x, a.get_state()[2:]"),
    "a seed that others come from": ("a = np.random.SeedSequence(5); x = np.random.default_rng(a)", "a.spawn(1)", "x.bit_generator.seed_seq is a, a.n_children_spawned"),
    "a method of a generator": ("a = np.random.default_rng(1); x = a.normal", "x()", "x.__self__ is a, a.bit_generator.state['state']['state']"),
    "a masked array and its slice": ("a = np.ma.array([1, 2, 3], mask=[0, 1, 0]); x = a[:2]", "x[0] = np.ma.masked", "a.tolist(), x.tolist()"),
    "whose mask it is": ("a = np.ma.array([1, 2, 3], mask=[0, 1, 0]); x = a[:2]", "a.unshare_mask(); x[0] = np.ma.masked", "a.sharedmask, x.sharedmask, a.tolist(), x.tolist()"),
    "columns of records": ("a = np.rec.array([(1, 'q'), (3, [1])], dtype=[('a', int), ('b', object)]); x = a.b", "x[1].append(4)", "a.tolist(), a.b[1] is x[1]"),
    "a row of records": ("a = np.zeros(3, dtype=[('a', int), ('b', float)]); x = a[1]", "x['a'] = 9", "a.tolist(), x.tolist()"),
    "a subarray of records": ("a = np.zeros(2, dtype=[('m', 'f8', (2, 2)), ('n', 'i4')]); x = a['m'][0]", "x[0, 0] = 5", "a.tolist(), x.tolist()"),
    "records with gaps": ("a = np.zeros(2, dtype={'names': ['a', 'b'], 'formats': ['i2', 'f4'], 'offsets': [0, 8], 'itemsize': 16}); x = a['b']", "x[0] = 5", "a.tolist(), a.dtype.itemsize"),
    "steps of nothing": ("a = np.arange(3); x = np.lib.stride_tricks.as_strided(a, (2, 3), (0, 8))", "x[0, 0] = 9", "a.tolist(), x.tolist(), x.strides"),
    "windows": ("a = np.arange(6); x = np.lib.stride_tricks.sliding_window_view(a, 3, writeable=True)", "x[0, 1] = 9", "a.tolist(), x.strides"),
    "axes in Fortran's order": ("a = np.zeros((2, 3, 4), order='F'); x = a.transpose(1, 0, 2)", "x[0, 0, 0] = 9", "a.strides, x.strides, x.sum()"),
    "the other byte order": ("a = np.arange(3, dtype='>i4'); x = a.view('<i4')", "a[0] = 9", "a.dtype.str, x.tolist()"),
    "units of time": ("a = np.array(['2020-01', 'NaT'], dtype='M8[M]'); x = a.view('i8')", "a[0] = '2021-03'", "a.dtype.str, x.tolist()"),
    "no dimension": ("a = np.array(5.); x = a[...]", "a[()] = 9", "x.tolist(), a.shape"),
    "an object without dimension": ("x = [1]; a = np.array(None, dtype=object); a[()] = x", "x.append(2)", "a.item() is x, x"),
    "a chain of views": ("a = np.arange(24.).reshape(4, 6)[1:3]; x = a[:, ::2].T", "x[0, 0] = 99", "a.tolist(), x.strides"),
    "one memory in several holders": ("a = bytearray(8); x = [np.frombuffer(a, 'u1'), memoryview(a)[2:6], np.frombuffer(a, 'u2', offset=2)]", "x[1][0] = 4", "bytes(a), x[0].tolist(), x[2].tolist()"),
    "every third byte": ("a = bytearray(range(12)); x = memoryview(a)[1::3]", "x[0] = 99", "list(a), x.tolist(), x.strides"),
    "items backwards": ("import array; a = array.array('i', range(9)); x = memoryview(a)[7:1:-2]", "x[1] = 99", "a.tolist(), x.tolist(), x.strides"),
    "a view in steps of an array, read-only": ("a = np.arange(6.); x = memoryview(a).toreadonly()[::2]", "a[2] = 9", "x.tolist(), x.readonly, x.format"),
    "memory of an array of Python's": ("import array; a = array.array('d', [1, 2]); x = np.asarray(a)", "a[0] = 9", "x.tolist()"),
    "memory that is not aligned": ("a = np.zeros(17, 'u1'); x = a[1:].view('f8')", "x[0] = 5", "a.tolist(), x.flags.aligned"),
    "the imaginary part": ("a = np.array([1 + 2j]); x = a.imag", "x[0] = 9", "a.tolist()"),
    "an array that holds itself": ("a = np.empty(2, dtype=object); a[0] = a; x = a[1] = [a]", "x.append(2)", "a[0] is a, a[1] is x, len(x)"),
    "what a dtype says": ("x = [1]; a = np.dtype('i4', metadata={'k': x})", "x.append(2)", "a.metadata['k'] is x, x"),
    "what the dtype of an array says": ("x = [1]; a = np.zeros(3, np.dtype('i4', metadata={'k': x}))", "x.append(2)", "a.dtype.metadata['k'] is x, x, a.tolist()"),
    "what the dtype of a column says": ("x = [1]; a = np.zeros(3, [('u', np.dtype('f8', metadata={'k': x})), ('v', 'i4')])", "x.append(2)", "a.dtype['u'].metadata['k'] is x, x"),
    "what the dtype of objects says": ("x = [1]; a = np.array([x, 2], np.dtype(object, metadata={'k': x}))", "x.append(2)", "a.dtype.metadata['k'] is x, a[0] is x, x"),
    "a column of Arrow": ("import pyarrow as pa; a = np.arange(3); x = pa.array(a)", "a[0] = 9", "a.tolist(), x.to_pylist()"),
    "slices of columns of Arrow": ("import pyarrow as pa; a = np.arange(300); x = [pa.array(a)[2:4], pa.chunked_array([a[:150], a[150:]])[148:152]]", "a[2] = a[150] = 9", "a.sum(), [part.to_pylist() for part in x]"),
    "a table of Arrow": ("import pyarrow as pa; a = np.arange(3.); x = pa.table({'n': a, 's': ['p', 'q', None]})", "a[0] = 9", "a.tolist(), x.to_pydict()"),
    "a table of Arrow, made of a frame": ("import pandas as pd, pyarrow as pa; a = pd.DataFrame({'n': [1., 2], 'm': [3, 4]}); x = pa.Table.from_pandas(a)", "a.loc[0, 'n'] = 9; a.loc[1, 'm'] = 8", "a.to_dict(), x.to_pydict()"),
    "two arrays of Arrow, of which one cuts": ("import pyarrow as pa; a = np.arange(4); x = [pa.array(a), pa.array(a[1:3])]", "a[1] = 9", "[part.to_pylist() for part in x]"),
    "what looks at a column of Arrow": ("import pyarrow as pa; a = np.arange(3); x = pa.array(a).to_numpy()", "a[0] = 9", "x.tolist(), x.flags.writeable"),
    "a column of pandas that Arrow holds": ("import pandas as pd, pyarrow as pa; a = np.arange(3); x = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(a)))", "a[0] = 9", "a.tolist(), x.tolist(), str(x.dtype)"),
    "a series of polars": ("import polars as pl; a = np.arange(3.); x = pl.Series('n', a)", "a[0] = 9", "a.tolist(), x.to_list(), x.name"),
    "a frame of polars": ("import polars as pl; a = np.arange(3, dtype='u1'); x = pl.DataFrame({'n': a, 's': ['p', 'q', None], 'm': a * 2})", "a[0] = 9", "a.tolist(), x.to_dict(as_series=False), x.schema"),
    "pieces of polars": ("import polars as pl; a = np.arange(4); x = pl.concat([pl.Series('n', a[2:]), pl.Series('n', [7]), pl.Series('n', a)], rechunk=False)", "a[3] = 9", "x.to_list(), x.n_chunks()"),
    "pieces of polars, in one of which a number is missing": ("import polars as pl; a = np.arange(4); x = pl.Series('n', [None, 7]).append(pl.Series('n', a))", "a[3] = 9", "x.to_list(), x.n_chunks()"),
    "times of polars": ("import polars as pl; a = np.arange(4); x = [pl.Series('n', a).cast(kind) for kind in (pl.Datetime('us', 'Europe/Berlin'), pl.Duration('ms'))]", "a[3] = 9", "[(one.to_list(), one.dtype) for one in x]"),
    "structs of polars": ("import polars as pl; a = np.arange(4.); x = pl.DataFrame({'n': a, 'in': pl.DataFrame({'s': ['p', None, 'q', 'r'], 'm': a}).to_struct()}).to_struct('x')", "a[3] = 9", "x.to_list(), x.dtype, x.name"),
    "rows of arrays in polars": ("import polars as pl; a = np.arange(6.).reshape(2, 3); x = pl.Series('n', a)", "a[1, 1] = 9", "a.tolist(), x.to_list(), x.dtype"),
    "a frame of polars over Arrow over an array": ("import polars as pl, pyarrow as pa; a = np.arange(3.); x = pl.from_arrow(pa.table({'n': a}))", "a[0] = 9", "a.tolist(), x.to_dict(as_series=False)"),
    "limits of numbers": ("a = [np.finfo('f4'), np.iinfo('i2')]; x = 1", "x = float(a[0].max)", "x, float(a[0].eps), a[1].max, a[0].dtype.str"),
}  # fmt: skip


def test_what_shares_memory_or_bits_still_does_after_a_checkout_and_a_restart() -> None:
    pytest.importorskip("numpy")
    store, wrong, first = MemoryStore(), list[str](), dict[str, Report]()
    befores: dict[str, tuple[str, str]] = {}
    with Notebook(Repository.open(store)) as nb:
        nb.run("import numpy as np")
        for title, (make, change, look) in SHARED.items():
            nb.run("a = x = None")
            made = nb.run(make)
            before = repr(nb.look(look))
            assert names_changed(nb.run("str((a, x))")) == set(), title
            report = nb.run(change)
            after = repr(nb.look(look))
            nb.checkout(made)
            back = repr(nb.look(look))
            nb.execute(change)
            again = repr(nb.look(look))
            if before == after or not names_changed(report) or (back, again) != (before, after):
                wrong.append(f"{title}: {before}, {after}; then {back}, {again}; {names_changed(report)} reported")
            first[title], befores[title] = made, (before, after)
    with Notebook(Repository.open(store)) as nb:
        for title, (_, change, look) in SHARED.items():
            nb.checkout(first[title])
            back = repr(nb.look(look))
            nb.execute(change)
            if (back, repr(nb.look(look))) != befores[title]:
                wrong.append(f"{title} after a restart: {back}, {nb.look(look)!r} for {befores[title]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "made",
    [
        "m = np.ma.masked_array([1, 2], [0, 1]); m.note = (m, [1])",
        "class A(np.ndarray): ...\nm = np.arange(3.0).view(A); m.note = (m, [1])",
    ],
)
def test_an_array_with_an_attribute_that_leads_back_to_it_is_saved(made: str) -> None:
    with Notebook() as nb:
        first = nb.run(f"import numpy as np\n{made}\nheld = m.note")
        before = nb.look("m.tolist()")
        assert first.unsaved == ()
        nb.run("m *= 2; m.note[1].append(2)")
        nb.checkout(first)
        assert nb.look("(m.tolist(), m.note[0] is m, m.note[1], m.note[1] is held[1])") == (before, True, [1], True)


def test_an_array_over_memory_of_compiled_code_that_is_its_own_base_is_saved() -> None:
    """As scipy's rotations are: Cython's arrays answer for their view, and the base of that is the array."""
    pytest.importorskip("scipy")
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("from scipy.spatial.transform import Rotation\nimport numpy as np")
        first = nb.run(
            "r = Rotation.from_euler('xyz', [[0.1, 0.2, 0.3], [1, 2, 3]]); held = [r, r.__reduce_ex__(4)[2][0]]"
        )
        before = nb.look("(r.as_quat().tolist(), held[0] is r, held[1].tolist())")
        assert first.unsaved == ()
        nb.run("r = r.inv(); held[1][0, 0] = 7")
        nb.checkout(first)
        assert nb.look("(r.as_quat().tolist(), held[0] is r, held[1].tolist())") == before
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(first)
        assert nb.look("(r.as_quat().tolist(), held[0] is r, held[1].tolist())") == before


class EndlessBase:
    @property
    def base(self) -> EndlessBase:
        return EndlessBase()


def test_a_chain_of_bases_without_an_end_has_an_owner() -> None:
    assert isinstance(owner_of(EndlessBase()), EndlessBase)


# What makes a group, what a later cell adds to it, and what tells one state from the other.
JOINED = {
    "a view": ("a = np.arange(9.); rows = [a[at : at + 2] for at in range(8)]", "x = a[3:6]", "x[1] = 50", "a.tolist(), rows[3].tolist(), x.tolist()"),
    "a view of a view": ("a = np.arange(9.); rows = {at: a[at:] for at in range(8)}", "x = rows[2][::2]", "rows[1][1:4] *= 3", "a.tolist(), x.tolist()"),
    "a column over the labels of others": ("a = np.arange(4.); rows = [pd.Series(range(4), index=a) for _ in range(9)]", "x = pd.Series(a)", "x[:] = 7; rows[1].iloc[0] = 5", "a.tolist(), rows[1].tolist(), rows[2].index.tolist(), x.tolist()"),
    "a list that many hold": ("a = [1]; rows = [[a, at] for at in range(9)]", "x = {'a': a}", "x['a'].append(2)", "a, rows[8][0] is a, x['a'] is a"),
    "one that joins two groups": ("a = [1]; rows = [a, a]; b = [2]; columns = (b, b)", "x = [rows[0], b]", "x[0].append(3); x[1].append(4)", "rows, columns, x[0] is a, x[1] is b"),
    "an object of them": ("class Of:\n    def __init__(self, of): self.of = of\na = {1: []}; rows = [Of(a), Of(a)]", "x = rows[1]", "x.of[1].append(2); x.name = 'x'", "a, rows[0].of is a, rows[1] is x, sorted(vars(rows[1]))"),
    "a text that is no part of them": ("a = [1]; rows = [a, 'text' * 90]", "x = rows[1]; y = [a]", "y[0].append(x)", "a == rows[0] == y[0], x == rows[1], len(a)"),
}  # fmt: skip


@pytest.mark.parametrize("case", JOINED)
def test_what_joins_variables_that_share_is_one_with_them_after_a_checkout_and_a_restart(case: str) -> None:
    make, join, change, look = JOINED[case]
    store, seen = MemoryStore(), list[tuple[Report, str]]()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import numpy as np, pandas as pd")
        nb.run(make)
        joined = nb.run(f"len(rows)\n{join}")
        assert names_changed(joined) == set(joined_names(join)), "those that were there have not changed"
        seen.append((joined, repr(nb.look(look))))
        changed = nb.run(change)
        assert {"a", "x"} & names_changed(changed)
        seen.append((changed, repr(nb.look(look))))
        for report, looked in (seen[0], seen[1], seen[0]):
            nb.checkout(report)
            assert repr(nb.look(look)) == looked
        nb.execute(change)
        assert repr(nb.look(look)) == seen[1][1]
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(seen[0][0])
        assert repr(nb.look(look)) == seen[0][1]
        nb.execute(change)
        assert repr(nb.look(look)) == seen[1][1]


def joined_names(code: str) -> list[str]:
    return [part.partition("=")[0].strip() for part in code.split(";")]


def test_what_joins_a_large_group_has_it_dumped_to_be_compared_and_to_be_stored_and_not_once_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dumps: list[frozenset[str]] = []

    def note(self: Dumps, members: Mapping[str, object], *args: Any, **kwargs: Any) -> Any:
        dumps.append(frozenset(members))
        return dump(self, members, *args, **kwargs)

    with Notebook() as nb:
        nb.run("import numpy as np\na = np.arange(50.)\nrows = [{at: a[at:]} for at in range(50)]")
        dump = Dumps._dump_or_fail  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(Dumps, "_dump_or_fail", note)
        nb.run("len(rows)\nx = a[5:]")
        assert [members for members in dumps if "rows" in members] == [{"a", "rows"}, {"a", "rows", "x"}]
