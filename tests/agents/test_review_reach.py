"""What libraries do outside the variables, and what looks like it and is ordinary work: one table each."""

from __future__ import annotations

import importlib
import io
import os
import pathlib
import sqlite3
import subprocess
import types
from collections.abc import Mapping
from contextlib import closing

import lmdb
import numpy as np
import pytest

import agent_kernel as ak
from agent_kernel.agents.review import is_risky, review

RISKY = [
    ("files", "f = getattr(frame, 'write_' + 'csv')\nf('out')"),
    ("files", "f = getattr(place, 'unlink')\nf()"),
    ("database", "import duckdb\nduckdb.sql('co' + \"py (select 1) to 'out'\")"),
    ("network", "def send(session):\n    session.post('https://x.org', json=d)"),
    ("network", "def send(anything):\n    anything.put('https://x.org')"),
    ("network", "def send(api_client):\n    api_client.delete(key)"),
    ("network", "import httpx\nwith httpx.Client() as c:\n    c.request('GET', url)"),
    ("network", "rows = fetcher.get('https://x.org').json()"),
    ("network", "s.connect(('x.org', 80))"),
    ("network", "s.sendall(b'x')"),
    ("network", "import logging.handlers as h\nh.HTTPHandler('x.org', '/')"),
    ("network", "import nltk\nnltk.download('punkt')"),
    ("network", "pd.read_csv(sep=';', filepath_or_buffer='s3://bucket/x.csv')"),
    ("network", "loop.create_connection(make, 'x.org', 80)"),
    ("files", "import logging\nlogging.basicConfig(level=10, filename='x.log')"),
    ("files", "import logging\nlogger.addHandler(logging.FileHandler('x.log'))"),
    ("files", "from logging.handlers import RotatingFileHandler"),
    ("files", "from operator import methodcaller\nmethodcaller('write_text', 'y')(p)"),
    ("files", "from operator import methodcaller\nlist(map(methodcaller('unlink'), found))"),
    ("dynamic", "from operator import methodcaller\nmethodcaller(how)(p)"),
    ("files", "import operator, os\noperator.attrgetter('remove')(os)('x')"),
    ("dynamic", "import operator, os\nlook = getattr\noperator.itemgetter('remove')(vars(os))('x')"),
    ("files", "from functools import partial\npartial(open, mode='w')('x')"),
    ("files", "from functools import partial\npartial(df.to_csv, 'x.csv')()"),
    ("files", "save = p.write_text\nsave('x')"),
    ("files", "import shutil\nshutil.copyfileobj(a, b)"),
    ("files", "import tempfile\nopen(tempfile.gettempdir() + '/../x', 'w')"),
    ("files", "np.save('x', a)"),
    ("files", "np.savez('x', a=a)"),
    ("files", "from numpy import savetxt as out\nout('x', a)"),
    ("files", "a.dump('x.pkl')"),
    ("files", "plt.gcf().savefig('x.png', dpi=200)"),
    ("files", "from joblib import dump\ndump(model, 'm')"),
    ("files", "import pickle\npickle.dump(df, open('x', 'wb'))"),
    ("files", "import sqlite3 as sq\nsq.connect('x.db')"),
    ("files", "from sqlite3 import connect\nconnect(where)"),
    ("files", "import torch\ntorch.save(net.state_dict(), 'net.pt')"),
    ("files", "pd.ExcelWriter('x.xlsx')"),
    ("files", "import shelve\nshelve.open('x')"),
    ("files", "import tarfile\ntarfile.open('x.tgz', 'w:gz')"),
    ("files", "import gzip\ngzip.GzipFile('x', 'wb')"),
    ("files", "open(*['x', 'w'])"),
    ("files", "open('x', **how)"),
    ("files", "open('x', 'r' + '+')"),
    ("files", "m = 'w'\nopen('x', m)\nm = 'r'"),
    ("files", "open.__call__('x', 'w')"),
    ("files", "(o := open)('x', 'w')"),
    ("files", "import pathlib\npathlib.os.remove('x')"),
    ("files", "from tempfile import _os\n_os.remove('x')"),
    ("files", "globals()['os'].remove('x')"),
    ("files", "df.to_json('x.json')"),
    ("files", "df.to_html(buf=page)"),
    ("files", "df.to_csv(**options)"),
    ("files", "df.write_csv('x.csv')"),
    ("files", "fig.write_html('x.html')"),
    ("files", "ds.to_netcdf('x.nc')"),
    ("files", "buffer = io.BytesIO()\nbuffer = 'x.png'\nplt.savefig(buffer)"),
    ("files", "from pathlib import Path\nfor p in Path('.').iterdir():\n    p.rename('y')"),
    ("files", "from pathlib import Path\nroot = Path('.')\n[p.replace('y') for p in root.glob('*')]"),
    ("files", "import pyarrow.parquet as pq\npq.write_table(t, 'x')"),
    ("files", "os.fdopen(3, 'w')"),
    ("files", "import networkx as nx\nnx.write_gml(g, 'x')"),
    ("files", "df.lazy().sink_delta('x')"),
    ("files", "np.memmap('x', mode='w+', shape=9)"),
    ("dynamic", "import sys\nsys.modules.get('os').remove('x')"),
    ("processes", "child.terminate()"),
    ("database", "df.to_sql('t', con)"),
    ("database", "con.sql(\"COPY t TO 'x.csv'\")"),
    ("database", "pd.read_sql('DELETE FROM t', con)"),
    ("clipboard", "df.to_clipboard()"),
    ("clipboard", "pd.read_clipboard()"),
    ("browser", "from IPython.display import HTML, display\ndisplay(HTML(page))"),
    ("browser", "display(HTML('<script>go()</script>'))"),
    ("browser", "display(HTML('<img src=https://x.org/?a>'))"),
    ("browser", "display(Javascript('alert(1)'))"),
    ("browser", "from IPython.display import IFrame\nIFrame('https://x.org', 9, 9)"),
    ("browser", "display({'text/html': page}, raw=True)"),
    ("browser", "class A:\n    def _repr_html_(self):\n        return page"),
    ("browser", "from IPython.display import Image\nImage(url='https://x.org/a.png')"),
    ("processes", "from concurrent.futures import ProcessPoolExecutor"),
    ("processes", "import _posixsubprocess"),
    ("dynamic", "df.query('a > @os.system(\"ls\")')"),
    ("dynamic", "df.eval('a = @eval(\"1\")')"),
    ("dynamic", "np.load('x.npy', allow_pickle=True)"),
    ("dynamic", "import timeit\ntimeit.timeit('os.remove(1)')"),
    ("dynamic", "handed = [os]\nhanded[0].remove('x')"),
    ("dynamic", "import sys\nsys._getframe()"),
    ("dunder", "try:\n    1 / 0\nexcept Exception as e:\n    e.tb.tb_frame.f_globals"),
    ("process state", "import sys\nsys.stdout = mine"),
    ("process state", "import builtins\nbuiltins.open = mine"),
    ("process state", "os.environ |= {'A': 'b'}"),
    ("process state", "import atexit\natexit.register(f)"),
    ("kernel", "raise SystemExit(1)"),
    ("shell", "g = get_ipython\ng().system('ls')"),
    ("shell", "from IPython import get_ipython as g\ng().system('ls')"),
    ("magic", "pip install x"),
    ("magic", "rm -rf x"),
    ("magic", "reset"),
    ("magic", ",os.remove x"),
    ("magic", "if True:\n    ;print x"),
]

ORDINARY = [
    "df.to_csv()",
    "df.to_csv(index=False, sep=';')",
    "df.to_csv(None)",
    "text = df.to_json(orient='records', indent=2)",
    "df.to_html(index=False), df.to_latex(), df.to_markdown(), df.to_string(), df.to_xml()",
    "raw = df.to_parquet()",
    "df.write_csv(), df.write_json()",
    "df.to_dict('records'), df.to_records(), df.to_numpy(), df.to_period('M'), df['d'].dt.to_pydatetime()",
    "import io\nbuffer = io.StringIO()\ndf.to_csv(buffer)\nbuffer.getvalue()",
    "from io import BytesIO\nwith BytesIO() as out:\n    plt.savefig(out, format='png')\n    png = out.getvalue()",
    "import io\nnp.save(b := io.BytesIO(), a)",
    "import sys\ndf.to_csv(sys.stdout)\nprint('x', file=sys.stderr)\nsys.stdout.write('y')",
    "fig.to_json(), chart.to_dict(), chart.to_json(indent=2)",
    "display(df), display(df.head(3), df.describe())",
    "from IPython.display import HTML, Markdown, display\ndisplay(HTML(df.to_html(index=False)))\ndisplay(Markdown(f'**{n}** rows'))",
    "display(HTML('<h2>Sales</h2>'))",
    "from IPython.display import Image\nImage('x.png', width=200)",
    "import logging\nlogging.basicConfig(level=logging.INFO)\nlog = logging.getLogger(__name__)\nlog.info('x')",
    "from operator import attrgetter, itemgetter, methodcaller\nrows.sort(key=itemgetter('a'))\nlist(map(attrgetter('name'), xs))\nlist(map(methodcaller('lower'), ts))",
    "from functools import partial, reduce\nf = partial(round, ndigits=2)\nreduce(lambda a, b: a + b, xs)",
    "queue.put(3)\nnp.put(a, [0], 1)\nnp.delete(a, 0)\nd.get('a', 0)\ncache.get(key)\ntree.delete(n)",
    "df['a'].str.extractall(r'(\\d)').str.replace('a', 'b')",
    "filename.replace('.csv', '')\nfiles_df.rename(columns={'a': 'b'})\nprofile.rename('x')\ndir_counts.replace({'a': 1})",
    "df['file'].replace('a', 'b'), df.path.rename('p'), df.path.str.replace('x', 'y')",
    "df.query('a > @limit and b in @wanted'), df.eval('c = a + b'), df.query('a > @np.mean(@xs)')",
    "df.groupby('os')['n'].sum(), df.os.value_counts()",
    "import os\nos.path.exists('x'), os.getenv('HOME'), os.path.basename(p), os.listdir('.'), os.sep, os.walk('.')",
    "import sys\nsys.version, sys.getsizeof(df), len(sys.argv), sys.path",
    "from pathlib import Path\nroot = Path('x')\nroot.name, root.exists(), root.read_text(), sorted(root.rglob('*')), root.with_suffix('.b')",
    "import sqlite3\ncon = sqlite3.connect(':memory:')\npd.read_sql('SELECT * FROM t', con)",
    "import tarfile\nwith tarfile.open('x.tgz', 'r:gz') as t:\n    t.getnames()",
    "import zipfile\nzipfile.ZipFile('x.zip').namelist()",
    "with open('x.json', mode='rb') as f:\n    d = json.load(f)",
    "how = 'r'\nopen('x', how).read()",
    "pd.read_excel('x.xlsx', sheet_name=None), pd.read_parquet('x'), np.load('x.npy'), np.loadtxt('x.txt'), plt.imread('x.png')",
    "import sklearn.datasets as d\nX, y = d.load_iris(return_X_y=True)",
    "from sklearn.ensemble import RandomForestClassifier as R\nm = R(n_jobs=-1).fit(X, y)\nm.predict(X), m.score(X, y), m.feature_importances_",
    "from sklearn.model_selection import GridSearchCV, cross_val_score\nGridSearchCV(m, {'C': [1]}).fit(X, y).best_params_\ncross_val_score(m, X, y)",
    "from sklearn.compose import ColumnTransformer\nfrom sklearn.preprocessing import OneHotEncoder, StandardScaler\nColumnTransformer([('n', StandardScaler(), ['a'])]).fit_transform(df)",
    "from scipy import stats, optimize\nstats.linregress(x, y), optimize.minimize(f, [0.0])",
    "import matplotlib.pyplot as plt\nfig, axes = plt.subplots(2)\naxes[0].hist(x)\nfig.suptitle('t')\nplt.tight_layout()\nplt.close(fig)",
    "plt.rcParams['figure.dpi'] = 100\nplt.style.use('ggplot')\nplt.rcParams.update({'a': 1})\npd.options.display.max_rows = 9",
    "df.plot(kind='bar'), df.hist(), df.boxplot(by='a'), sns.heatmap(df.corr()), ax.legend(loc='best')",
    "df.pivot_table(index='a', columns='b', values='c', aggfunc='sum').fillna(0).T.sort_index().style.format('{:.2f}')",
    "df['d'] = pd.to_datetime(df['d'])\ndf.set_index('d').resample('M').sum().rolling(3).mean().shift(1).dropna()",
    "df.merge(o, on='k').drop(columns='x').drop_duplicates().melt(id_vars='k').explode('v').nlargest(5, 'v')",
    "df.apply(lambda r: r.a * 2, axis=1), df.pipe(f), df.a.map({1: 'x'}), df.loc[df.a > 1, 'b'], df.insert(0, 'n', 1)",
    "a = np.linspace(0, 1, 9).reshape(3, 3)\na @ a.T, np.linalg.inv(a), np.where(a > 0, 1, 0), a.dumps() if 0 else a.tolist()",
    "import json\njson.dumps(d), json.loads(t)\nyaml.dump(d), json.dump(d, f)",
    "import re, math, random, statistics, time\nrandom.seed(0)\ntime.sleep(0)\nstatistics.mean(x), re.sub('a', 'b', t)",
    "import timeit\ntimeit.timeit('sum(range(9))', number=3), timeit.timeit(lambda: f(1))",
    "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as pool:\n    out = list(pool.map(f, xs))",
    "import multiprocessing.cpu_count" if False else "from multiprocessing import cpu_count\ncpu_count()",
    "con.sql('select a, sum(b) from df group by a').df(), duckdb.connect().query('select 1')",
    "try:\n    f()\nexcept (KeyError, SystemExit) as error:\n    print(error)\n    raise",
    "import traceback, warnings\nwarnings.filterwarnings('ignore')\ntraceback.print_exc()",
    "import torch\nx = torch.tensor([1.0]).to('cpu')\nloss.backward()\nopt.step()\nnet.load_state_dict(d)\nnet.train()",
    "session = 3\nsession_count.get('a')\nclient_rows.pop(0)\nconnections.append(1)",
    "gen.send(None), gen.close(), it.throw(ValueError)",
    "clear = 3\nmore = [1]\nrun = df.run",
    "df.write_ipc(file=None)\nnp.memmap('x', mode='r', shape=9)",
    "less - more",
    "class Table:\n    def save(self):\n        return self.rows\n\nTable().save()",
]  # fmt: skip


@pytest.mark.parametrize(("kind", "code"), RISKY)
def test_what_a_library_does_outside_has_to_be_asked_about(kind: str, code: str) -> None:
    found = review(code)
    assert kind in {one.kind for one in found if one.risky}, found


@pytest.mark.parametrize("code", ORDINARY)
def test_what_only_looks_like_it_has_not(code: str) -> None:
    found = review(code, names=["df", "less", "more"])
    assert not is_risky(found), [one for one in found if one.risky]
    assert not any(one.kind == "unreadable" for one in found), found


def _made(module: str, name: str) -> object:
    """An object of a class that calls itself so, without the library."""
    return type(name, (), {"__module__": module})()


@pytest.mark.parametrize(
    "code",
    [
        *("m[0] = 1", "m += 1", "m.sort()", "np.add(x, 1, out=m)", "np.copyto(m, 1)", "v[0] = 2", "m.T[0] = 3"),
        *("a = m\na[0] = 1", "b = m[1:]\nb.fill(0)", "np.random.default_rng(0).shuffle(m)", "env.begin(write=True)"),
    ],
)
def test_what_writes_to_an_array_or_a_store_that_is_a_file_has_to_be_asked_about(
    tmp_path: pathlib.Path, code: str
) -> None:
    held = np.memmap(tmp_path / "array", mode="w+", shape=(4, 4))
    with closing(lmdb.open(str(tmp_path / "store"))) as env:
        there = {"m": held, "v": np.asarray(held), "x": np.ones((4, 4)), "env": env}
        assert is_risky(review(code, names=list(there), namespace=there))


@pytest.mark.parametrize(
    "code", ["m.mean()", "m[0]", "y = m * 2\ny[0] = 1", "c = m.copy()\nc[0] = 1", "x += 1", "r.sum()"]
)
def test_what_only_reads_it_has_not(tmp_path: pathlib.Path, code: str) -> None:
    held = np.memmap(tmp_path / "array", mode="w+", shape=(4, 4))
    there = {"m": held, "r": np.memmap(tmp_path / "array", mode="r"), "x": np.ones(4)}
    assert not is_risky(review(code, names=list(there), namespace=there))


def _there() -> Mapping[str, object]:
    """Variables that cells before made."""
    return {
        "s": _made("requests.sessions", "Session"),
        "c": _made("httpx", "AsyncClient"),
        "pool": _made("urllib3.poolmanager", "PoolManager"),
        "answer": _made("requests.models", "Response"),
        "sock": _made("socket", "socket"),
        "rq": types.ModuleType("requests"),
        "o": os,
        "delete": os.remove,
        "run": subprocess.run,
        "look": importlib.import_module,
        "place": pathlib.Path("x"),
        "db": sqlite3.connect,
        "memory": io.BytesIO(),
        "address": "https://x.org/a.csv",
        "how": "w",
        "environment": os.environ,
        "requests": [1],
        "df": [2],
        "compile": lambda text: text,
    }


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("network", "s.post(address)"),
        ("network", "s.mount('a', b)"),
        ("network", "await c.put('/x')"),
        ("network", "pool.request('GET', 'x')"),
        ("network", "send = s.post\nsend('x')"),
        ("network", "sock.send(b'x')"),
        ("network", "rq.post(1)"),
        ("network", "pd.read_csv(address)"),
        ("network", "s.close()\ns = None"),
        ("files", "o.remove('x')"),
        ("files", "delete('x')"),
        ("files", "list(map(delete, found))"),
        ("files", "place.rename('y')"),
        ("files", "place.parent.replace('y')"),
        ("files", "db('x.db')"),
        ("files", "open('x', how)"),
        ("processes", "run(['ls'])"),
        ("dynamic", "look('os')"),
        ("process state", "environment['A'] = 'b'"),
    ],
)
def test_what_a_variable_is_tells_what_its_methods_do(kind: str, code: str) -> None:
    there = _there()
    found = review(code, names=list(there), namespace=there)
    assert kind in {one.kind for one in found if one.risky}, found


@pytest.mark.parametrize(
    "code",
    [
        "answer.json(), answer.raise_for_status(), answer.text",
        "requests.append(2)",
        "fig.savefig(memory)\ndf.to_csv(memory)",
        "compile('x')",
        "place.exists(), place / 'a'",
        "df.append(3)",
        "how.upper(), address.split('/')",
    ],
)
def test_what_a_variable_is_tells_what_needs_no_asking(code: str) -> None:
    there = _there()
    found = review(code, names=list(there), namespace=there)
    assert not is_risky(found), found


def test_looking_at_a_variable_runs_none_of_its_code() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> object:
            raise AssertionError(name)

    class Loud(metaclass=Meta):
        def __getattribute__(self, name: str) -> object:
            raise AssertionError(name)

    there = {"loud": Loud(), "kind": Loud}
    assert not is_risky(review("loud.write(kind.read())\nloud()", names=list(there), namespace=there))


def test_a_step_that_uses_a_session_of_the_notebook_waits() -> None:
    state: dict[str, object] = {"s": _made("requests.sessions", "Session")}
    run = ak.Agent(model=ak.ScriptedModel(["s.post(1)"]), approve="risky", state=state).start("Send it")
    for _ in run:
        pass
    assert run.status == "pending"
