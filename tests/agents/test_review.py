"""What is read from code before it runs: what reaches outside has to be asked about, ordinary work on data has not."""

from __future__ import annotations

import pytest

from agent_kernel.agents.review import is_risky, review

RISKY = [
    ("files", "open('x', 'w')"),
    ("files", "open('x', mode='a')"),
    ("files", "open('x', 'r+')"),
    ("files", "m = 'r'\nopen('x', how)"),
    ("files", "import io\nio.open('x', 'wb')"),
    ("files", "import gzip\ngzip.open('x.gz', 'wt')"),
    ("files", "from pathlib import Path\nPath('x').open('w')"),
    ("files", "from pathlib import Path\nPath('x').write_text('y')"),
    ("files", "from pathlib import Path\nPath('x').unlink()"),
    ("files", "from pathlib import Path\np = Path('a') / 'b'\np.rename('c')"),
    ("files", "out_path.replace('c')"),
    ("files", "from pathlib import Path\n(Path.home() / 'd').mkdir(parents=True)"),
    ("files", "import os\nos.remove('x')"),
    ("files", "os.remove('x')"),
    ("files", "import os as o\no.remove('x')"),
    ("files", "from os import remove"),
    ("files", "import os\nf = os.remove\nf('x')"),
    ("files", "f = open\nf('x', 'w')"),
    ("files", "list(map(open, ['x'], ['w']))"),
    ("files", "from functools import partial\npartial(open, 'x', 'w')()"),
    ("files", "import io\nio.FileIO('x', 'w')"),
    ("dynamic", "import sys\nsys.modules['os'].remove('x')"),
    ("dynamic", "import sys\nm = sys.modules\nm[name].remove('x')"),
    ("processes", "import asyncio\nawait asyncio.create_subprocess_exec('rm', 'x')"),
    ("history", "import agent_kernel as ak\nak.here().repo.forget('x')"),
    ("files", "import os\nlist(map(os.unlink, ['a', 'b']))"),
    ("files", "import os\ngetattr(os, 'remove')('x')"),
    ("dynamic", "import os\ngetattr(os, 're' + 'move')('x')"),
    ("files", "import shutil\nshutil.rmtree('x')"),
    ("files", "from shutil import rmtree as r\nr('x')"),
    ("files", "import shutil as s\ns.move('a', 'b')"),
    ("files", "def clean():\n    def inner():\n        import os\n        os.rmdir('x')\n    inner()"),
    ("files", "[__builtins__.open(f, 'w') for f in files]"),
    ("files", "df.to_csv('x.csv')"),
    ("files", "df.to_csv(path_or_buf=target)"),
    ("files", "df.to_parquet('x.parquet')"),
    ("files", "import matplotlib.pyplot as plt\nplt.savefig('x.png')"),
    ("files", "import numpy as np\nnp.save('x.npy', a)"),
    ("files", "image.save('x.png')"),
    ("files", "import joblib\njoblib.dump(model, 'm')"),
    ("files", "import zipfile\nzipfile.ZipFile('x.zip', 'w')"),
    ("files", "import sqlite3\nsqlite3.connect('x.db')"),
    ("files", "import lmdb\nlmdb.open('out')"),
    ("files", "from lmdb import Environment as E\nE('out')"),
    ("files", "import lmdb\nf = lmdb.open\nf('out')"),
    ("database", "cursor.execute('DROP TABLE t')"),
    ("database", "df.to_sql('t', engine)"),
    ("network", "import requests\nrequests.get('https://x.org')"),
    ("network", "requests.post(url, json=d)"),
    ("dynamic", "from socket import *"),
    ("network", "import socket\nlist(map(socket.create_connection, places))"),
    ("dynamic", "import subprocess\nact(subprocess)"),
    ("processes", "from subprocess import run\nf = [run][0]"),
    ("network", "import socket as s\ns.create_connection(('h', 1))"),
    ("network", "from urllib.request import urlopen\nurlopen('http://x')"),
    ("network", "import pandas as pd\npd.read_csv('https://x.org/a.csv')"),
    ("network", "import pandas as pd\nname = 'a'\npd.read_csv(f'https://x.org/{name}.csv')"),
    ("network", "base = 'https://x.org/'\npd.read_json(base + 'a.json')"),
    ("network", "from sklearn.datasets import fetch_openml\nd = sklearn.datasets.fetch_openml('mnist')"),
    ("processes", "import subprocess as sp\nsp.run(['ls'])"),
    ("processes", "from os import system as s\ns('ls')"),
    ("processes", "import os\nos.popen('ls')"),
    ("shell", "!rm -rf x"),
    ("shell", "files = !ls"),
    ("shell", "if True:\n    !ls"),
    ("shell", "get_ipython().system('ls')"),
    ("shell", "shell = get_ipython()\nshell.run_line_magic('run', 'x.py')"),
    ("magic", "%pip install x"),
    ("magic", "%run x.py"),
    ("magic", "x = %sql SELECT 1"),
    ("magic", "%cd /"),
    ("magic", "%%bash\nls"),
    ("magic", "%%writefile x.py\ny = 1"),
    ("files", "%%time\nimport os\nos.remove('x')"),
    ("files", "%time os.remove('x')"),
    ("files", "%timeit -n 1 -r 1 os.remove('x')"),
    ("dynamic", "eval('1')"),
    ("dynamic", "exec(code)"),
    ("dynamic", "list(map(eval, texts))"),
    ("dynamic", "__import__('os').system('ls')"),
    ("dynamic", "import importlib\nimportlib.import_module('os')"),
    ("dynamic", "import pickle\npickle.loads(b)"),
    ("dynamic", "import ctypes\nctypes.CDLL(None)"),
    ("dynamic", "import ctypes\nlib = ctypes.cdll.x\nlib.act()"),
    ("dynamic", "import cffi\nffi = cffi.FFI()\nffi.dlopen(None)"),
    ("process state", "class A:\n    def __del__(self): act()"),
    ("process state", "type('A', (), {'__del__': act})"),
    ("dynamic", "from os import *"),
    ("dunder", "().__class__.__bases__[0].__subclasses__()"),
    ("dunder", "globals()['__builtins__']"),
    ("dunder", "f.__globals__"),
    ("dynamic", "import gc\nf = getattr(gc, 'get_' + 'objects')\nf()"),
    ("dynamic", "import sys\nfor name, module in sys.modules.items():\n    act(module)"),
    ("dunder", "getattr(f, '__co' + 'de__')"),
    ("dunder", "setattr(f, '__co' + 'de__', other)"),
    ("dunder", "getattr(frame, 'f_' + 'back')"),
    ("deletes", "del kept"),
    ("deletes", "del globals()['kept']"),
    ("deletes", "globals().pop('kept')"),
    ("process state", "import os\nos.environ['X'] = '1'"),
    ("process state", "from os import environ\nenviron.update(X='1')"),
    ("process state", "import os\nos.chdir('/')"),
    ("person", "name = input('?')"),
    ("person", "breakpoint()"),
    ("kernel", "exit()"),
    ("kernel", "import sys\nsys.exit(1)"),
]

ORDINARY = [
    "import numpy as np\nimport pandas as pd\nrng = np.random.default_rng(0)\ndf = pd.DataFrame({'a': rng.normal(size=9)})",
    "df = df.rename(columns={'a': 'b'}).replace({'x': 'y'}).assign(c=lambda d: d.b * 2)",
    "df['a'] = df['a'].str.replace('x', 'y').rename('z')",
    "by = df.groupby('a').agg(['mean', 'count']).reset_index()\nby.head()",
    "df.query('a > 1').eval('b = a + 1')",
    "df.to_dict(), df.to_numpy(), df.to_string(), df.to_csv(), df.to_html(index=False), df.to_json(orient='records')",
    "import pandas as pd\nflights = pd.read_csv('data/flights.csv')\nflights.merge(other, on='x', how='left')",
    "import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot(x, y)\nax.set_title('%s' % title)\nplt.show()",
    "from sklearn.model_selection import train_test_split\nX_train, X_test = train_test_split(X)\nmodel.fit(X_train)",
    "from sklearn.pipeline import make_pipeline\nmodel = make_pipeline(scaler, clf).fit(X, y)\nmodel.score(X, y)",
    "import torch\nmodel.eval()\nwith torch.no_grad():\n    out = model(x).numpy()",
    "import re\npattern = re.compile(r'\\d+')\nfound = [pattern.findall(t) for t in texts]",
    "import json\nd = json.loads(text)\nprint(json.dumps(d, indent=1))",
    "with open('notes.txt') as f:\n    lines = f.readlines()",
    "from pathlib import Path\nsizes = {p.name: p.stat().st_size for p in Path('.').glob('*.csv')}\nPath('a').read_text()",
    "import os\nos.getcwd(), os.listdir('.'), os.path.join('a', 'b'), os.environ.get('HOME'), os.cpu_count()",
    "class Scorer:\n    def __init__(self, x):\n        super().__init__()\n        self.x = x\n    def __repr__(self):\n        return f'{self.__class__.__name__}'",
    "def f(n):\n    kept = n\n    del kept\n    return n\n\nf(3)",
    "%time total = df.sum()\n%matplotlib inline\ndf?",
    "%%timeit\nsum(range(10))",
    "text = '''\n!not a command\n%d items\n'''\nprint(text % 3)",
    "from collections import Counter\nfrom datetime import datetime\nimport math, itertools, functools\nCounter('abc').most_common(1)",
    "import scipy.stats as st\nsignal = np.sin(t)\nsignal.mean(), st.ttest_ind(a, b)",
    "value = getattr(model, 'coef_', None)\nname = getattr(row, column)",
    "from urllib.parse import urlparse\nhosts = urls.map(lambda u: urlparse(u).netloc)",
    "import shutil\nshutil.disk_usage('.').free",
    "import seaborn as sns\nsns.histplot(df, x='a')\nsns.set_theme()",
    "task.success({'best': best, 'score': score})",
    "try:\n    x = int(text)\nexcept ValueError as error:\n    print(error)\nfinally:\n    done = True",
    "async def g():\n    return 1\n\nr = await g()",
    "import subprocess, socket, ctypes, requests, multiprocessing, getpass, webbrowser",
    "from multiprocessing import Pool\nfrom urllib.request import urlopen\nrequests.__version__, http.client.OK",
    "import getpass, socket\ngetpass.getuser(), socket.gethostname()",
    "import ctypes\nctypes.sizeof(ctypes.c_int)",
    "import sys\n'pandas' in sys.modules, sorted(sys.modules.keys())",
    "import requests\ntry:\n    f()\nexcept requests.RequestException:\n    pass",
    "import importlib\nimportlib.import_module('json').dumps([1])",
    "import os\nwith open(os.devnull, 'w') as f:\n    print('x', file=f)\nopen('/dev/null', 'w')",
    "import pickle\npickle.loads(pickle.dumps(df))\nb = pickle.dumps(df)\npickle.loads(b)",
    "import pickle, io\nwith io.BytesIO() as s:\n    pickle.dump(df, s)\n    s.seek(0)\n    pickle.load(s)",
    "import tarfile, io\nb = io.BytesIO()\ntarfile.open(fileobj=b, mode='w')",
]

TEMPORARY = [
    "with tempfile.TemporaryDirectory() as d:\n    df.to_parquet(os.path.join(d, 'x'))\n    (Path(d) / 'a').write_text('x')",
    "d = tempfile.mkdtemp()\nopen(f'{d}/x', 'w')\nos.mkdir(d + '/y')\nshutil.rmtree(d)",
    "with tempfile.NamedTemporaryFile('w') as f:\n    f.write('x')\n    df.to_csv(f.name)",
    "p = Path(tempfile.mkdtemp()) / 'a'\np.mkdir()\np.joinpath('x').write_bytes(b'')\nplt.savefig(p / 'x.png')",
    "with tempfile.TemporaryFile() as f:\n    np.save(f, a)",
]
OUT_OF_TEMPORARY = [
    "with tempfile.TemporaryDirectory() as d:\n    df.to_parquet(os.path.join(d, '../x'))",
    "with tempfile.TemporaryDirectory() as d:\n    df.to_parquet(os.path.join(d, '/x'))",
    "d = tempfile.mkdtemp()\nd = '.'\nopen(f'{d}/x', 'w')",
    "d = tempfile.mkdtemp(dir='.')\nopen(f'{d}/x', 'w')",
    "d = tempfile.mkdtemp()\n(Path(d).parent / 'x').write_text('')",
]
IN_MEMORY = [
    "c = sqlite3.connect(':memory:')\ndf.to_sql('t', c)\nc.execute('delete from t')\nc.cursor().executescript('drop table t')",
    "with sqlite3.connect(':memory:') as c:\n    k = c.cursor()\n    k.executemany('insert into t values (?)', rows)",
    "duckdb.sql('select 1')\nduckdb.sql('create table t as select * from df')",
    "c = duckdb.connect()\nc.execute('insert into t select * from df').fetchall()",
    "engine.execute('select * from t where x = 1')",
    "c = sqlite3.connect('file:shop.db?mode=ro', uri=True)\nc.execute('select * from t').fetchall()",
    "c = duckdb.connect('shop.db', read_only=True)\nc.execute('select * from t').df()",
]
OUT_OF_MEMORY = [
    "c = sqlite3.connect(':memory:')\nc.execute(\"attach 'x' as y\")",
    "c = sqlite3.connect(':memory:')\nc.execute(\"vacuum into 'x'\")",
    "c = duckdb.connect()\nc.execute(\"copy t to 'x'\")",
    "c = duckdb.connect()\nc.execute(asked)",
    "duckdb.sql(\"copy (select 1) to 'x'\")",
    "c = duckdb.connect('x.db')\nc.execute('insert into t select 1')",
    "c = sqlite3.connect(':memory:')\nc = sqlite3.connect(place)\nc.execute('drop table t')",
    "engine.execute('select * into other from t')",
    "c = sqlite3.connect('file:shop.db?mode=ro')",
    "c = sqlite3.connect('file:shop.db?mode=rw', uri=True)",
    "c = sqlite3.connect('file:shop.db?mode=ro', uri=True)\nc.execute(\"attach 'x' as y\")",
    "c = duckdb.connect('shop.db', read_only=True)\nc.execute(\"copy t to 'x'\")",
]


@pytest.mark.parametrize(("kind", "code"), RISKY)
def test_what_reaches_outside_has_to_be_asked_about(kind: str, code: str) -> None:
    found = review(code, names=["kept"])
    assert kind in {one.kind for one in found if one.risky}, found


@pytest.mark.parametrize("code", ORDINARY)
def test_ordinary_work_on_data_has_not(code: str) -> None:
    found = review(code, names=["df", "kept"])
    assert not is_risky(found), [one for one in found if one.risky]
    assert not any(one.kind == "unreadable" for one in found), found


_IMPORTS = "import os, shutil, tempfile, sqlite3, duckdb\nfrom pathlib import Path\nimport matplotlib.pyplot as plt, numpy as np\n"


@pytest.mark.parametrize("code", [*TEMPORARY, *IN_MEMORY])
def test_what_is_written_to_temporary_places_and_databases_in_memory_is_not_asked_about(code: str) -> None:
    found = review(_IMPORTS + code, names=["df"])
    assert not is_risky(found), [one for one in found if one.risky]


@pytest.mark.parametrize("code", [*OUT_OF_TEMPORARY, *OUT_OF_MEMORY])
def test_what_leads_out_of_them_is(code: str) -> None:
    assert is_risky(review(_IMPORTS + code, names=["df"]))


@pytest.mark.parametrize("code", ["x = ", "a b c", "\0", "(" * 500, "def f(:\n pass"])
def test_what_is_no_python_says_so_and_is_let_fail_by_itself(code: str) -> None:
    found = review(code)
    assert [one.kind for one in found] == ["unreadable"]
    assert not is_risky(found)


def test_what_is_allowed_is_not_asked_about() -> None:
    code = "import requests\nrequests.get('https://x')\nimport os\nos.remove('x')"
    assert is_risky(review(code, allowed=["requests"]))
    assert not is_risky(review(code, allowed=["requests", "os.remove"]))


def test_the_report_says_what_is_bound_and_deleted_at_the_top_level_alone() -> None:
    code = "x = 1\nold = 2\ndef f():\n    inner = 3\n[y for y in range(3)]\nclass C: attribute = 1\nfor i in 'ab': pass\ndel gone"
    found = {(one.kind, one.what) for one in review(code, names=["old", "gone"])}
    assert found == {
        ("writes", "x"), ("changes", "old"), ("writes", "f"), ("writes", "C"), ("writes", "i"), ("deletes", "gone"),
    }  # fmt: skip


@pytest.mark.parametrize(
    "code",
    [
        "df['twice'] = 2", "df.loc[3, 'price'] = 0", "df.columns = []", "df['n'] += 1", "del df['n']", "df.append(1)",
        "last = df.pop()", "df['rows'].extend([1])", "df.sort()", "df.drop(columns='n', inplace=True)", "df.add(1)",
        "df += 1", "for row in [1]:\n    df.update(row)",
    ],
)  # fmt: skip
def test_what_is_changed_in_place_is_a_change_of_the_variable(code: str) -> None:
    found = [(one.kind, one.what, one.risky) for one in review(code, names=["df"])]
    assert ("changes", "df", False) in found


@pytest.mark.parametrize(
    "code",
    [
        "more = df.add(1)", "df.head()", "df.drop(columns='n', inplace=False)", "new = {}\nnew['n'] = 1",
        "def f(df):\n    df['n'] = 1", "os.remove", "import os\nos.environ.update({})",
    ],
)  # fmt: skip
def test_what_gives_something_back_or_is_another_name_changes_no_variable(code: str) -> None:
    assert "changes" not in {one.kind for one in review(code, names=["df", "os"])}


def test_a_finding_says_what_and_where() -> None:
    (found,) = (one for one in review("x = 1\n\nopen('results.csv', 'w')") if one.risky)
    assert (found.kind, found.what, found.line) == ("files", "open('results.csv', 'w')", 3)
    (found,) = (one for one in review(f"open({'x' * 300!r}, 'w')") if one.risky)
    assert len(found.what) == 120
