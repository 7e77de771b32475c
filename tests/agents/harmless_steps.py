"""Steps of ordinary work on data, in the order of a notebook: they need no asking. A blank line stands between two."""

from __future__ import annotations

from typing import Final

__all__ = ["FILES", "HARMLESS", "MORE", "NEWER"]

FILES: Final = {
    "sales.csv": "day,shop,units,price\n"
    + "\n".join(f"2024-01-{day:02},{shop},{day * 3 % 7 + 1},{2.5 + day % 3}" for day in range(1, 29) for shop in "abc"),
    "shops.json": '[{"shop": "a", "city": "Oslo"}, {"shop": "b", "city": "Rome"}, {"shop": "c", "city": "Lima"}]',
    "notes.txt": "first line\nsecond line, with a comma\nthird <b>line</b>\n",
}

_STEPS: Final = """
import pandas as pd
import numpy as np

import matplotlib.pyplot as plt

import json, re, math, random, datetime as dt, collections, itertools, functools, statistics

from pathlib import Path
Path.cwd().name

sales = pd.read_csv("sales.csv", parse_dates=["day"])
sales.head()

sales.info()

sales.describe()

sales.dtypes

sales.shape, len(sales), list(sales.columns)

sales.isna().sum()

sales["revenue"] = sales.units * sales.price
sales.head(3)

sales.groupby("shop").revenue.sum()

sales.groupby("shop").agg({"units": "sum", "price": "mean"})

sales.pivot_table(index="day", columns="shop", values="revenue")

sales.sort_values("revenue", ascending=False).head(10)

sales.drop_duplicates().shape

sales = sales.dropna()

sales.query("units > 3 and shop == 'a'")

sales.loc[sales.shop == "b", "price"] *= 1.1

sales.rename(columns={"units": "pieces"}).head()

sales.replace({"shop": {"a": "A"}}).head()

sales["weekday"] = sales.day.dt.day_name()
sales.weekday.value_counts()

shops = pd.DataFrame(json.loads(Path("shops.json").read_text()))
shops

merged = sales.merge(shops, on="shop", how="left")
merged.tail()

merged.to_string()[:200]

merged.to_dict("records")[:2]

merged.to_html()[:100]

merged.head().to_csv()

merged.style.highlight_max(subset=["revenue"])

merged.head().style.background_gradient(subset=["revenue"]).format(precision=2)

merged.set_index("day").revenue.resample("W").sum()

merged["rolling"] = merged.revenue.rolling(7).mean()

merged.city.str.upper().str.replace("O", "0")

merged.apply(lambda row: row.units * 2, axis=1).head()

merged.revenue.map(lambda value: round(value, 1)).head()

pd.concat([merged, merged]).reset_index(drop=True).shape

pd.get_dummies(merged.city).head()

pd.cut(merged.revenue, 4).value_counts()

merged.corr(numeric_only=True)

merged.revenue.quantile([0.1, 0.5, 0.9])

pd.read_json("shops.json")

pd.read_csv("sales.csv", usecols=["units"]).units.max()

with open("notes.txt") as file:
    lines = file.read().splitlines()
print(lines)

[line.upper() for line in lines if "line" in line]

print(f"{len(lines)} lines, <b>not bold</b>")

for number, line in enumerate(lines):
    print(number, line)

words = collections.Counter(re.findall(r"\\w+", " ".join(lines)))
words.most_common(3)

sorted(Path(".").glob("*.csv"))

import os
os.listdir("."), os.path.getsize("sales.csv")

os.environ.get("HOME") is not None

import csv
rows = list(csv.DictReader(open("sales.csv")))
rows[0]

import io
pd.read_csv(io.StringIO("a,b\\n1,2"))

buffer = io.StringIO()
merged.to_csv(buffer)
len(buffer.getvalue())

json.dumps({"total": float(merged.revenue.sum())}, indent=2)

array = np.arange(12).reshape(3, 4)
array

array @ array.T

np.linalg.svd(array.astype(float), compute_uv=False)

np.random.default_rng(1).normal(size=5)

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 4))
y = X @ [1.0, -2.0, 0.5, 0.0] + rng.normal(scale=0.1, size=120)
X.shape, y.shape

np.where(y > 0, 1, 0).sum()

np.histogram(y, bins=5)

np.percentile(y, [5, 95])

np.isclose(X.mean(), 0, atol=0.2)

plt.plot([1, 4, 9])
plt.title("squares")
plt.show()

fig, ax = plt.subplots()
ax.scatter(X[:, 0], y, alpha=0.5)
ax.set_xlabel("x")
fig

merged.revenue.plot.hist(bins=10)

merged.groupby("city").revenue.sum().plot(kind="bar", title="Revenue")
plt.tight_layout()

fig, axes = plt.subplots(2, 2, figsize=(6, 4))
for ax, column in zip(axes.flat, ["units", "price", "revenue", "rolling"]):
    merged[column].plot(ax=ax)

plt.imshow(array)
plt.colorbar()

pd.plotting.scatter_matrix(pd.DataFrame(X[:, :2]))

fig.canvas.draw()
np.asarray(fig.canvas.buffer_rgba()).shape

picture = io.BytesIO()
fig.savefig(picture, format="png")
len(picture.getvalue()) > 1000

plt.style.use("ggplot")

plt.rcParams["figure.figsize"] = (5, 3)

plt.close("all")

from sklearn.linear_model import LinearRegression, Ridge, LogisticRegression
from sklearn.model_selection import train_test_split, cross_val_score, GridSearchCV

X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

model = LinearRegression().fit(X_train, y_train)
model

model.score(X_test, y_test)

model.coef_.round(2)

Ridge(alpha=3.0).fit(X_train, y_train)

cross_val_score(Ridge(), X, y, cv=3)

search = GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}, cv=3).fit(X, y)
search.best_params_

pd.DataFrame(search.cv_results_)[["param_alpha", "mean_test_score"]]

search

from sklearn.ensemble import RandomForestRegressor, HistGradientBoostingRegressor
forest = RandomForestRegressor(n_estimators=10, n_jobs=2, random_state=0).fit(X, y)
forest.feature_importances_

HistGradientBoostingRegressor(max_iter=5).fit(X, y).score(X, y)

from sklearn.cluster import KMeans
KMeans(3, n_init=2, random_state=0).fit_predict(X)[:10]

from sklearn.preprocessing import StandardScaler
from sklearn.pipeline import make_pipeline
pipeline = make_pipeline(StandardScaler(), LogisticRegression())
pipeline.fit(X, y > 0)

from sklearn.metrics import classification_report, confusion_matrix, mean_squared_error
print(classification_report(y > 0, pipeline.predict(X)))

confusion_matrix(y > 0, pipeline.predict(X))

math.sqrt(mean_squared_error(y_test, model.predict(X_test)))

from sklearn.decomposition import PCA
PCA(2).fit_transform(X)[:2]

from sklearn.neighbors import KNeighborsClassifier
KNeighborsClassifier(3).fit(X, y > 0).score(X, y > 0)

from sklearn.datasets import load_iris
iris = load_iris(as_frame=True).frame
iris.head()

iris.groupby("target").mean()

from sklearn.tree import DecisionTreeClassifier, export_text
print(export_text(DecisionTreeClassifier(max_depth=2).fit(iris.iloc[:, :4], iris.target)))

from sklearn.feature_extraction.text import TfidfVectorizer
TfidfVectorizer().fit_transform(lines).toarray().round(1)

from scipy import stats
stats.ttest_ind(y[:60], y[60:])

from scipy.optimize import minimize
minimize(lambda p: (p[0] - 1) ** 2, [0.0]).x.round(3)

from scipy.interpolate import interp1d
interp1d([0, 1], [0, 2])(0.5)

from scipy.spatial.distance import pdist
pdist(X[:4]).round(2)

import sympy
x = sympy.Symbol("x")
sympy.integrate(sympy.sin(x) * x, x)

sympy.solve(x**2 - 2, x)

import networkx as nx
graph = nx.path_graph(5)
nx.shortest_path(graph, 0, 4)

nx.draw(graph)
plt.show()

import polars as pl
frame = pl.read_csv("sales.csv")
frame.head()

frame.group_by("shop").agg(pl.col("units").sum()).sort("shop")

frame.with_columns((pl.col("units") * pl.col("price")).alias("revenue")).select(pl.col("revenue").sum())

frame.lazy().filter(pl.col("units") > 3).collect().height

frame.to_pandas().shape

import pyarrow as pa
pa.table({"a": [1, 2]}).to_pandas()

import duckdb
duckdb.sql("select shop, sum(units) as n from frame group by shop order by shop").df()

import sqlite3
memory = sqlite3.connect(":memory:")
pd.DataFrame({"a": [1]}).shape

import torch
weights = torch.ones(3, requires_grad=True)
(weights * 2).sum().backward()
weights.grad

net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    loss = ((net(torch.tensor(X, dtype=torch.float32)).ravel() - torch.tensor(y, dtype=torch.float32)) ** 2).mean()
    loss.backward()
    optimizer.step()
print(loss.item())

def clean(table):
    return table.dropna().reset_index(drop=True)
clean(merged).shape

class Summary:
    def __init__(self, table):
        self.rows = len(table)
    def __repr__(self):
        return f"<Summary of {self.rows} rows>"
Summary(merged)

from dataclasses import dataclass
@dataclass
class Point:
    x: float
    y: float
points = [Point(1, 2), Point(3, 4)]
points

[point.x for point in points]

import warnings
warnings.filterwarnings("ignore")

import logging
logging.getLogger("work").setLevel(logging.INFO)
logging.getLogger("work").info("quiet")

import time
began = time.perf_counter()
total = sum(range(1000))
time.perf_counter() - began < 5

dt.date(2024, 2, 29) + dt.timedelta(days=365)

random.seed(1)
random.sample(range(10), 3)

list(itertools.combinations("abc", 2))

functools.reduce(lambda a, b: a * b, range(1, 6))

statistics.median([1, 2, 10])

try:
    1 / 0
except ZeroDivisionError as error:
    print("no:", error)

import copy
other = copy.deepcopy(merged)
other.equals(merged)

del other

merged.memory_usage(deep=True).sum()

merged.sample(3, random_state=0)

merged.nlargest(3, "revenue")[["shop", "revenue"]]

merged["city"] = merged.city.astype("category")
merged.city.cat.categories

merged.melt(id_vars=["day"], value_vars=["units", "price"]).head()

merged.assign(half=merged.revenue / 2).half.sum()

merged.eval("units * price").head(2)

merged.to_numpy().shape

pd.date_range("2024-01-01", periods=3, freq="D")

pd.to_datetime(["2024-01-01", "2024-02-01"])

pd.Series([1, None, 3]).fillna(0)

pd.crosstab(merged.shop, merged.weekday)

pd.set_option("display.max_rows", 20)

from IPython.display import display, HTML, Markdown
display(merged.head(2))

display(HTML("<b>done</b> <i>well</i>"))

display(Markdown("# Result\\n**bold** and `code`"))

import ipywidgets
ipywidgets.IntSlider(3)

from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as pool:
    squares = list(pool.map(lambda n: n * n, range(5)))
squares

import asyncio
asyncio.new_event_loop().run_until_complete(asyncio.sleep(0, "slept"))

import hashlib
hashlib.sha256(b"x").hexdigest()[:8]

import urllib.parse
urllib.parse.quote("a b")

import textwrap
print(textwrap.fill("some long text " * 5, 30))

import pprint
pprint.pprint({"a": list(range(3))})

import plotly.graph_objects as graphs
drawn = graphs.Figure(graphs.Bar(y=[1, 2]))

drawn
"""

HARMLESS: Final = tuple(step.strip().replace("\\\\", "\\") for step in _STEPS.strip().split("\n\n"))

# Of other kinds: with the operating system, temporary files, databases in memory, pickles, threads, what Python brings.
_MORE: Final = r"""
import pandas as pd, numpy as np, os, io, sys, json, re, math, random, time, tempfile, pickle, sqlite3, functools, itertools, collections
import matplotlib.pyplot as plt
sales = pd.read_csv("sales.csv", parse_dates=["day"])
df = pd.DataFrame({"a": [1, 2, 3], "b": list("xyz"), "c": [0.5, None, 1.5]})

import subprocess

import joblib
from joblib import Parallel, delayed

Parallel(n_jobs=2)(delayed(math.sqrt)(n) for n in range(4))

Parallel(n_jobs=2, prefer="threads")(delayed(math.sqrt)(n) for n in range(4))

joblib.cpu_count() > 0

joblib.hash(df)

def square(n):
    return n * n
Parallel(n_jobs=2)(delayed(square)(n) for n in range(4))

from sklearn.ensemble import RandomForestClassifier, GradientBoostingClassifier
from sklearn.model_selection import cross_val_score, GridSearchCV, cross_validate
from sklearn.datasets import make_classification, make_blobs, make_regression
X, y = make_classification(n_samples=80, n_features=5, random_state=0)

cross_val_score(RandomForestClassifier(n_estimators=5), X, y, cv=3, n_jobs=2).mean() > 0

GridSearchCV(RandomForestClassifier(n_estimators=5), {"max_depth": [2, 3]}, cv=2, n_jobs=2).fit(X, y).best_score_ > 0

from sklearn.pipeline import Pipeline
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler, PolynomialFeatures
from sklearn.linear_model import LogisticRegression, Lasso
columns = ColumnTransformer([("n", SimpleImputer(), ["a", "c"]), ("k", OneHotEncoder(), ["b"])])
Pipeline([("columns", columns), ("model", LogisticRegression())]).fit(df, [0, 1, 0])

from sklearn.model_selection import learning_curve, KFold, StratifiedKFold, permutation_test_score
sizes, train, test = learning_curve(LogisticRegression(), X, y, cv=3, n_jobs=2)
train.shape

from sklearn.inspection import permutation_importance
permutation_importance(LogisticRegression().fit(X, y), X, y, n_repeats=2, n_jobs=2).importances_mean.round(2)

from sklearn.metrics import ConfusionMatrixDisplay, RocCurveDisplay, roc_auc_score
ConfusionMatrixDisplay.from_predictions(y, y)

from sklearn.manifold import TSNE
TSNE(perplexity=5, n_iter_without_progress=50, max_iter=250).fit_transform(X[:20]).shape

from sklearn.svm import SVC
SVC(probability=True).fit(X, y).predict_proba(X[:2]).shape

from sklearn.gaussian_process import GaussianProcessRegressor
GaussianProcessRegressor().fit(X[:10], y[:10]).predict(X[:2])

from sklearn.cluster import DBSCAN, AgglomerativeClustering
DBSCAN().fit(X).labels_[:3]

from sklearn.neural_network import MLPClassifier
MLPClassifier((4,), max_iter=20).fit(X, y).score(X, y)

from sklearn import set_config
set_config(transform_output="pandas")
StandardScaler().fit_transform(df[["a"]])

with open(os.devnull, "w") as nothing:
    print("x", file=nothing)

import contextlib
with contextlib.redirect_stdout(open(os.devnull, "w")):
    print("unseen")

with contextlib.redirect_stdout(io.StringIO()) as caught:
    print("caught")
caught.getvalue()

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "x.csv")
    df.to_csv(path)
    back = pd.read_csv(path)
back.shape

from pathlib import Path
with tempfile.TemporaryDirectory() as folder:
    place = Path(folder) / "deep" / "er"
    place.mkdir(parents=True)
    (place / "a.txt").write_text("x")
    print(sorted(p.name for p in Path(folder).rglob("*")))

with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("hello")
    file.seek(0)
    print(file.read())

with tempfile.TemporaryFile() as file:
    file.write(b"x")
    file.tell()

with tempfile.SpooledTemporaryFile() as file:
    file.write(b"x")

import shutil
folder = tempfile.mkdtemp()
Path(folder, "x.json").write_text(json.dumps({"a": 1}))
shutil.rmtree(folder)

tempfile.gettempdir() != ""

with tempfile.TemporaryDirectory() as folder:
    df.to_parquet(f"{folder}/x.parquet")
    pd.read_parquet(f"{folder}/x.parquet")

with tempfile.TemporaryDirectory() as folder:
    plt.plot([1, 2])
    plt.savefig(os.path.join(folder, "x.png"))
    print(os.path.getsize(os.path.join(folder, "x.png")) > 0)

with tempfile.TemporaryDirectory() as folder:
    np.save(os.path.join(folder, "x.npy"), np.arange(3))
    print(np.load(os.path.join(folder, "x.npy")))

with tempfile.TemporaryDirectory() as folder:
    with open(os.path.join(folder, "a.csv"), "w") as file:
        file.write("a,b\n1,2\n")
    pd.read_csv(os.path.join(folder, "a.csv"))

memory = sqlite3.connect(":memory:")
df.to_sql("t", memory, index=False)

pd.read_sql("select * from t where a > 1", memory)

pd.read_sql_query("select count(*) as n from t", memory)

memory.execute("create table u (n integer)")
memory.executemany("insert into u values (?)", [(1,), (2,)])
memory.execute("select sum(n) from u").fetchone()

with sqlite3.connect(":memory:") as other:
    df.to_sql("t", other)
    cursor = other.cursor()
    cursor.execute("update t set a = 0")
    rows = cursor.execute("select * from t").fetchall()
rows

import duckdb
duckdb.sql("select 1")

duckdb.sql("select 1 as one, 2 as two").df()

duckdb.query("select avg(a) from df").fetchall()

con = duckdb.connect()
con.execute("select count(*) from df").fetchall()

con.register("numbers", df)
con.execute("select sum(a) from numbers").df()

con.sql("create table t as select * from df")
con.sql("select * from t").fetchall()

duckdb.sql("select b, sum(a) as total from df group by b order by total desc").pl()

pickle.loads(pickle.dumps(df)).equals(df)

blob = pickle.dumps({"a": [1, 2]})
pickle.loads(blob)

import copy
copy.deepcopy({"a": [df]})["a"][0].shape

import cloudpickle
cloudpickle.loads(cloudpickle.dumps(lambda n: n + 1))(1)

with io.BytesIO() as stream:
    pickle.dump(df, stream)
    stream.seek(0)
    pickle.load(stream)

import getpass
getpass.getuser() != ""

import platform
platform.python_version(), platform.system()

import socket
socket.gethostname() != ""

import multiprocessing
multiprocessing.cpu_count() > 0

os.cpu_count(), os.getpid() > 0, os.getcwd() != ""

import sysconfig, site
sysconfig.get_paths()["stdlib"] != ""

sys.version_info >= (3, 8), sys.platform, len(sys.path) > 0

"pandas" in sys.modules

import importlib
importlib.import_module("json").dumps([1])

import importlib.metadata
importlib.metadata.version("pandas")

import inspect
inspect.signature(square)

inspect.getsource(json.dumps)[:10]

print(pd.__version__, np.__version__)

pd.options.display.max_columns

import asyncio
async def slow(n):
    await asyncio.sleep(0.01)
    return n
asyncio.run(asyncio.wait_for(slow(1), 1))

asyncio.run(slow(3))

async def several():
    return await asyncio.gather(*(slow(n) for n in range(3)))
asyncio.new_event_loop().run_until_complete(several())

import threading
lock = threading.Lock()
with lock:
    shared = 1

worker = threading.Thread(target=lambda: results.append(1))
results = []
worker.start()
worker.join()
results

import queue
waiting = queue.Queue()
waiting.put(1)
waiting.get()

from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor() as pool:
    done = [one.result() for one in as_completed([pool.submit(square, n) for n in range(4)])]
sorted(done)

time.sleep(0.01)

timer = time.time()
time.strftime("%Y") > "2000"

import warnings
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    warnings.warn("quiet")

@contextlib.contextmanager
def timed():
    begun = time.perf_counter()
    yield
    print(time.perf_counter() - begun < 5)
with timed():
    sum(range(100))

with contextlib.suppress(ZeroDivisionError):
    1 / 0

from dataclasses import dataclass, field, asdict, replace
@dataclass(frozen=True)
class Order:
    id: int
    items: list = field(default_factory=list)
asdict(replace(Order(1), items=["a"]))

from typing import NamedTuple, TypedDict
class Pair(NamedTuple):
    left: int
    right: int
Pair(1, 2)._asdict()

import enum
class Color(enum.Enum):
    RED = 1
Color.RED, Color["RED"].value

import abc
class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...
    @property
    def double(self):
        return 2 * self.area()
class Square(Shape):
    def area(self):
        return 4
Square().double

@functools.lru_cache(maxsize=None)
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(20), fib.cache_info()

functools.partial(int, base=2)("101")

@functools.wraps(square)
def wrapped(n):
    return square(n)
wrapped(2)

@functools.singledispatch
def said(value):
    return str(value)
@said.register
def _(value: int):
    return "int"
said(1)

list(itertools.islice(itertools.cycle("ab"), 5)), list(itertools.accumulate([1, 2, 3]))

[(key, len(list(group))) for key, group in itertools.groupby("aabbb")]

collections.OrderedDict(a=1), collections.ChainMap({}, {"a": 1})["a"], collections.deque([1, 2], maxlen=1)

counts = collections.defaultdict(list)
counts["a"].append(1)
dict(counts)

import operator
sorted([{"n": 2}, {"n": 1}], key=operator.itemgetter("n"))

list(map(operator.attrgetter("year"), pd.to_datetime(["2024-01-01"])))

import heapq, bisect
heapq.nlargest(2, [1, 5, 3]), bisect.bisect([1, 2, 3], 2)

re.sub(r"(\d+)", lambda found: str(int(found[1]) + 1), "a1b2")

pattern = re.compile(r"(?P<word>\w+)")
pattern.match("hello world").groupdict()

import string, textwrap, difflib
print("\n".join(difflib.unified_diff(["a"], ["b"], lineterm="")))

string.Template("$a and $b").substitute(a=1, b=2)

import decimal, fractions
decimal.Decimal("1.1") + 1, fractions.Fraction(1, 3) * 2

import datetime as dt
from zoneinfo import ZoneInfo
dt.datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")).isoformat()

dt.datetime.now(dt.timezone.utc).year > 2000

import calendar
print(calendar.month(2024, 2))

import uuid
len(str(uuid.uuid4()))

import secrets
len(secrets.token_hex(4))

import base64, zlib, gzip, bz2
base64.b64encode(zlib.compress(b"hello" * 10)), gzip.decompress(gzip.compress(b"x"))

import zipfile
archive = io.BytesIO()
with zipfile.ZipFile(archive, "w") as packed:
    packed.writestr("a.txt", "x")
zipfile.ZipFile(archive).namelist()

import csv
out = io.StringIO()
writer = csv.writer(out)
writer.writerow([1, "a,b"])
out.getvalue()

import xml.etree.ElementTree as ET
ET.fromstring("<a><b>1</b></a>").find("b").text

import html
html.escape("<b>")

from html.parser import HTMLParser
class Titles(HTMLParser):
    def handle_starttag(self, tag, attrs):
        print(tag)
Titles().feed("<p><b>x</b></p>")

from urllib.parse import urlparse, parse_qs
parse_qs(urlparse("https://example.org/?a=1").query)

import configparser
settings = configparser.ConfigParser()
settings.read_string("[a]\nb = 1")
settings["a"]["b"]

import tomllib
tomllib.loads("a = 1")

import argparse
argparse.Namespace(lr=0.1)

import logging
logger = logging.getLogger("more")
logger.addHandler(logging.StreamHandler(io.StringIO()))
logger.warning("kept in memory")

import traceback
try:
    {}["a"]
except KeyError:
    print(traceback.format_exc().splitlines()[-1])

import gc
gc.collect() >= 0

import weakref
ref = weakref.ref(Square())
ref() is None

import timeit
timeit.timeit("sum(range(10))", number=10) < 5

import cProfile, pstats
profile = cProfile.Profile()
profile.enable()
sum(range(100))
profile.disable()
pstats.Stats(profile, stream=io.StringIO()).sort_stats("cumulative").print_stats(3)

import tracemalloc
tracemalloc.start()
tracemalloc.get_traced_memory()
tracemalloc.stop()

sys.getsizeof(df) > 0

os.path.join("a", "b"), os.path.exists("sales.csv"), os.path.splitext("a.csv")

for root, folders, files in os.walk("."):
    print(root, len(files))

import glob, fnmatch
sorted(glob.glob("*.csv")), fnmatch.filter(["a.py"], "*.py")

Path("sales.csv").stat().st_size > 0, Path("notes.txt").read_bytes()[:3], Path("x/y").with_suffix(".csv").name

os.getenv("HOME", ""), "PATH" in os.environ

sales.rolling(3, on="day").units.mean().tail(2)

sales.groupby("shop").rolling(2, on="day").units.sum().head(2)

sales.groupby(["shop", pd.Grouper(key="day", freq="W")]).units.sum().unstack(0).head(2)

sales.groupby("shop").apply(lambda part: part.nlargest(1, "units"), include_groups=False)

sales.groupby("shop").transform("mean", numeric_only=True).head(2)

sales.groupby("shop")["units"].agg(total="sum", biggest="max")

sales.pivot(index="day", columns="shop", values="units").ffill().interpolate().head(2)

pd.merge_asof(sales.sort_values("day"), sales[["day", "price"]].sort_values("day"), on="day").head(2)

sales.merge(sales, on=["day", "shop"], how="outer", indicator=True)._merge.value_counts()

sales.set_index(["day", "shop"]).xs("a", level="shop").head(2)

sales.explode("units").head(2), pd.json_normalize([{"a": {"b": 1}}])

sales.units.expanding().max().tail(1), sales.units.ewm(span=3).mean().tail(1), sales.units.shift(1).diff().tail(1)

sales.select_dtypes("number").apply(["min", "max"])

pd.qcut(sales.units, 3, duplicates="drop").cat.codes.head(2)

sales.where(sales.units > 3).mask(sales.price > 3).count()

sales["code"], uniques = pd.factorize(sales.shop)
uniques

sales.to_records()[:1], sales.T.shape, sales.to_dict("list")["shop"][:1]

sales.head(2).to_json(), sales.head(2).to_csv(index=False)

target = io.BytesIO()
sales.to_parquet(target)
pd.read_parquet(io.BytesIO(target.getvalue())).shape

target = io.BytesIO()
sales.to_pickle(target)

pd.read_csv(io.StringIO(sales.to_csv(index=False))).shape

sales.style.format({"price": "{:.1f}"}).bar(subset=["units"])

sales.hist(column="units")

sales.boxplot(column="units", by="shop")

sales.plot.scatter(x="units", y="price", c="code", colormap="viridis")

fig, ax = plt.subplots(subplot_kw={"projection": "polar"})
ax.plot([0, 1, 2], [1, 2, 3])

ax = plt.figure().add_subplot(projection="3d")
ax.plot_surface(*np.meshgrid([0, 1], [0, 1]), np.ones((2, 2)))

plt.figure()
from matplotlib import cm, colors, ticker, dates as mdates
plt.gca().xaxis.set_major_formatter(mdates.DateFormatter("%b"))
plt.contourf(np.outer(range(5), range(5)), cmap=cm.viridis, norm=colors.Normalize(0, 20))

plt.annotate("here", (1, 1), arrowprops={"arrowstyle": "->"})
plt.text(0, 0, r"$\alpha^2$")

plt.violinplot([[1, 2, 3], [2, 3, 4]])
plt.fill_between([0, 1], [0, 1], alpha=0.3)
plt.errorbar([0, 1], [1, 2], yerr=0.1)

image = io.BytesIO()
plt.savefig(image, format="svg")
plt.gcf().savefig(image, format="pdf")

from PIL import Image, ImageDraw
picture = Image.new("RGB", (8, 8), "red")
ImageDraw.Draw(picture).line((0, 0, 7, 7))
picture.resize((4, 4)).save(io.BytesIO(), format="PNG")
picture

np.random.seed(0)
np.random.randint(0, 10, 3), np.random.choice(["a", "b"], 2), np.random.default_rng().permutation(3).shape

np.einsum("ij,jk->ik", np.eye(2), np.ones((2, 2))), np.fft.fft([1, 0, 0]).real, np.polyfit([0, 1, 2], [0, 1, 4], 2).round(1)

np.vectorize(lambda n: n + 1)([1, 2]), np.apply_along_axis(sum, 0, np.eye(2)), np.fromstring("1 2", sep=" ")

np.loadtxt(io.StringIO("1 2\n3 4")), np.genfromtxt(io.StringIO("a,b\n1,2"), delimiter=",", names=True)

stream = io.BytesIO()
np.savez(stream, a=np.arange(2))
stream.seek(0)
np.load(stream)["a"]

text = io.StringIO()
np.savetxt(text, np.eye(2), fmt="%d")
text.getvalue()

np.ma.masked_less([1, 2], 2), np.datetime64("2024-01-01") + 1, np.set_printoptions(precision=3)

from scipy import optimize, signal, linalg, integrate, sparse, stats, ndimage, cluster
integrate.quad(lambda x: x**2, 0, 1)[0], optimize.curve_fit(lambda x, a: a * x, [1, 2], [2, 4])[0]

signal.find_peaks([0, 1, 0, 2, 0])[0], signal.butter(2, 0.1)[0].shape

sparse.csr_matrix(np.eye(3)).dot(np.ones(3)), linalg.inv(np.eye(2)), ndimage.gaussian_filter(np.eye(3), 1).shape

stats.norm.cdf(1.96), stats.pearsonr([1, 2, 3], [1, 2, 4])[0], stats.gaussian_kde([1, 2, 3])(2)

integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0]).y.shape

from scipy.cluster.hierarchy import linkage, dendrogram
dendrogram(linkage(np.random.rand(5, 2)), no_plot=True)["leaves"]

import networkx as nx
graph = nx.erdos_renyi_graph(8, 0.4, seed=1)
nx.pagerank(graph), nx.spring_layout(graph, seed=1)[0].shape

nx.to_pandas_edgelist(graph).head(2)

buffer = io.BytesIO()
nx.write_gml(graph, buffer)

import polars as pl
frame = pl.DataFrame({"k": ["a", "b", "a"], "n": [1, 2, 3]})
frame.group_by("k").agg(pl.col("n").mean()).sort("k")

frame.lazy().with_columns(pl.col("n").cum_sum().over("k").alias("s")).collect()

frame.write_csv(), frame.to_dicts(), frame.pivot("k", index="n", values="n").shape

frame.join(frame, on="k").filter(pl.col("n") > 1).height

frame.write_parquet(io.BytesIO())

pl.read_csv(io.StringIO("a,b\n1,2")), pl.scan_csv("sales.csv").select(pl.len()).collect().item()

pl.SQLContext(frame=frame).execute("select sum(n) from frame").collect()

import pyarrow as pa, pyarrow.compute as pc
pc.sum(pa.array([1, 2])).as_py(), pa.Table.from_pandas(df).schema

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
loader = DataLoader(TensorDataset(torch.rand(8, 2), torch.rand(8)), batch_size=4, shuffle=True)
net = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(net.parameters())
for features, target in loader:
    optimizer.zero_grad()
    nn.functional.mse_loss(net(features).squeeze(), target).backward()
    optimizer.step()

kept = io.BytesIO()
torch.save(net.state_dict(), kept)
kept.tell() > 0

torch.manual_seed(0)
torch.cuda.is_available(), torch.device("cpu"), net.eval()(torch.rand(1, 2)).shape

from pydantic import BaseModel
class Item(BaseModel):
    name: str
    price: float = 1.0
Item(name="a").model_dump_json()

import sympy as sp
x, y_ = sp.symbols("x y")
sp.diff(x**2 * y_, x), sp.simplify(sp.sin(x) ** 2 + sp.cos(x) ** 2), sp.lambdify(x, x**2)(3)

from rich.table import Table
from rich.console import Console
table = Table("a", "b")
table.add_row("1", "2")
Console(file=io.StringIO()).print(table)

import plotly.express as px
px.scatter(df, x="a", y="c").to_json()[:10]

from IPython.display import display, Image as Shown, SVG, Latex, clear_output
display(Latex(r"$x^2$"))
display(df.describe())

import ipywidgets as widgets
box = widgets.VBox([widgets.IntSlider(1), widgets.Label("x"), widgets.Dropdown(options=["a"])])
box.children[0].value = 2

button = widgets.Button(description="go")
button.on_click(lambda b: print("clicked"))
button

from statistics import NormalDist, linear_regression
NormalDist(0, 1).cdf(0), linear_regression([1, 2], [2, 4])

match {"kind": "a", "n": 1}:
    case {"kind": "a", "n": int(n)}:
        print(n)

print(*sorted({"b": 1, "a": 2}.items()), sep="\n", file=sys.stdout)

sys.stdout.write("written\n")
sys.stdout.flush()

print("warning", file=sys.stderr)

total = 0
while total < 3:
    total += 1
else:
    print(total)

def read_rows(path="sales.csv"):
    with open(path, newline="") as file:
        yield from csv.DictReader(file)
sum(int(row["units"]) for row in read_rows())

globals().get("df") is df, "df" in locals(), isinstance(df, pd.DataFrame), hasattr(df, "shape"), getattr(df, "shape")

setattr(Square, "name", "square")
vars(Square()), dir(df)[:1], callable(print), id(df) == id(df)

data = json.load(open("shops.json"))
json.loads(json.dumps(data, sort_keys=True, default=str))[0]["city"]

json.dump({"a": 1}, io.StringIO())

eval("1 + 1"), sum(map(int, "123"))

del total

random.shuffle(lines := ["a", "b"])
random.Random(1).gauss(0, 1)

memoryview(b"abc")[0], bytearray(b"x"), bytes([1]), int.from_bytes(b"\x01", "big")

import array, struct
array.array("i", [1, 2]).tolist(), struct.pack("<I", 1)

import locale
locale.getlocale()

import codecs, unicodedata
codecs.encode("a", "rot13"), unicodedata.normalize("NFKD", "é")

import types
types.SimpleNamespace(a=1), types.MappingProxyType({"a": 1})["a"]

import contextvars
mode = contextvars.ContextVar("mode", default="a")
mode.set("b")
mode.get()

contextvars.copy_context().run(lambda: mode.get())

import mimetypes
mimetypes.guess_type("a.csv")

import colorsys, cmath
colorsys.rgb_to_hsv(1, 0, 0), cmath.sqrt(-1)

import ast
ast.literal_eval("[1, 2]"), ast.dump(ast.parse("a = 1"))[:5]

import dis
dis.Bytecode(square).codeobj.co_name

import requests
requests.__version__ != ""

import hashlib, hmac
hmac.new(b"k", b"m", "sha256").hexdigest()[:4], hashlib.md5(open("sales.csv", "rb").read()).hexdigest()[:4]

exec("made = 1")
made

import signal, atexit, selectors
signal.SIGINT.name

import urllib.request, urllib.error, http.client, ssl
http.client.OK

import webbrowser, smtplib, ftplib

import ctypes
ctypes.sizeof(ctypes.c_int)

from multiprocessing import Pool, Process

import multiprocessing.pool
with multiprocessing.pool.ThreadPool(2) as pool:
    made = pool.map(square, range(3))
made

import email.message
message = email.message.EmailMessage()
message["Subject"] = "x"
message.as_string()

import tarfile
packed = io.BytesIO()
with tarfile.open(fileobj=packed, mode="w") as archive:
    archive.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))

import lzma
with lzma.open(io.BytesIO(lzma.compress(b"x"))) as stream:
    stream.read()

with gzip.GzipFile(fileobj=io.BytesIO(), mode="wb") as stream:
    stream.write(b"x")
"""

MORE: Final = tuple(step.strip() for step in _MORE.strip().split("\n\n"))

_NEWER: Final = """
import logging, warnings, datetime as dt, json, re, io, os, sys, math, time, random, zipfile, sqlite3, pickle, tempfile, functools, dataclasses, itertools, collections, contextlib, textwrap, string, decimal, fractions, statistics, hashlib, base64, uuid, enum, typing, copy, operator, heapq, bisect, glob, csv, gzip, types
from pathlib import Path
import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
np.random.seed(0)
random.seed(0)
pd.set_option("display.max_columns", 50)

logging.basicConfig(level=logging.INFO)
logger = logging.getLogger("analysis")
logger.info("loaded %d rows", 3)

orders = pd.read_csv("sales.csv", parse_dates=["day"]).assign(revenue=lambda d: d.units * d.price)
orders.sample(5, random_state=1)

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder) / "part.csv"
    orders.to_csv(place, index=False)
    again = pd.read_csv(place)
len(again)

from tempfile import TemporaryDirectory
with TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.json")
    with open(path, "w") as file:
        json.dump({"a": 1}, file)
    with open(path) as file:
        print(json.load(file))

with tempfile.NamedTemporaryFile("w+", suffix=".txt") as file:
    file.write("a b c")
    file.seek(0)
    print(file.read())

scratch = tempfile.TemporaryDirectory()
(Path(scratch.name) / "notes").write_text("x")
print(os.listdir(scratch.name))
scratch.cleanup()

folder = Path(tempfile.mkdtemp())
orders.to_parquet(folder / "orders.parquet")
pd.read_parquet(folder / "orders.parquet").shape

from sklearn.model_selection import cross_val_score, train_test_split, GridSearchCV, KFold
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.ensemble import RandomForestClassifier, GradientBoostingRegressor
from sklearn.preprocessing import StandardScaler, OneHotEncoder
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline

X = orders[["units", "price"]]
y = orders["revenue"]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)

cross_val_score(LinearRegression(), X, y, cv=3, n_jobs=1).mean()

cross_val_score(Ridge(), X, y, cv=3, n_jobs=2).mean()

grid = GridSearchCV(Ridge(), {"alpha": [0.1, 1, 10]}, cv=3, n_jobs=2)
grid.fit(X_train, y_train)
grid.best_params_

forest = RandomForestClassifier(n_estimators=5, n_jobs=2, random_state=0).fit(X, orders.shop)
forest.feature_importances_

GridSearchCV(RandomForestClassifier(n_estimators=3), {"max_depth": [2, 3]}, n_jobs=-1, cv=2).fit(X, orders.shop).best_score_

from joblib import Parallel, delayed
Parallel(n_jobs=2)(delayed(math.sqrt)(n) for n in range(5))

Parallel(n_jobs=2, backend="threading")(delayed(pow)(n, 2) for n in range(5))

prep = ColumnTransformer([("n", StandardScaler(), ["units", "price"]), ("c", OneHotEncoder(sparse_output=False), ["shop"])])
pipe = Pipeline([("prep", prep), ("model", GradientBoostingRegressor(n_estimators=5))])
pipe.fit(orders, y)
pipe

from sklearn.metrics import mean_squared_error, classification_report, confusion_matrix
print(classification_report(orders.shop, forest.predict(X)))

from sklearn.decomposition import PCA
from sklearn.cluster import KMeans
from sklearn.manifold import TSNE
KMeans(2, n_init=2).fit_predict(PCA(2).fit_transform(X))[:5]

from scipy import stats, optimize, interpolate, signal, sparse
stats.ttest_ind(orders.units, orders.price), stats.pearsonr(orders.units, orders.price)

def curve(x, a, b):
    return a * x + b
optimize.curve_fit(curve, orders.units, orders.revenue)[0]

optimize.minimize(lambda v: (v[0] - 1) ** 2, [0.0]).x

interpolate.interp1d([0, 1, 2], [0, 1, 4])(1.5), signal.savgol_filter(orders.revenue, 5, 2)[:3]

import polars as pl
frame = pl.read_csv("sales.csv")
frame.group_by("shop").agg(pl.col("units").sum()).sort("shop")

pl.scan_csv("sales.csv").filter(pl.col("units") > 3).collect().head()

frame.with_columns((pl.col("units") * pl.col("price")).alias("revenue")).to_pandas().head()

import matplotlib.pyplot as plt
fig, axes = plt.subplots(2, 2, figsize=(8, 6))
axes[0, 0].hist(orders.revenue)
orders.plot(x="day", y="revenue", ax=axes[0, 1])
fig.suptitle("Revenue")
plt.show()

buffer = io.BytesIO()
plt.plot([1, 2, 3])
plt.savefig(buffer, format="png")
plt.close("all")
len(buffer.getvalue()) > 0

fig = plt.figure()
fig.savefig(buffer, format="svg")

array = np.arange(12).reshape(3, 4)
stream = io.BytesIO()
np.save(stream, array)
stream.seek(0)
np.load(stream)

np.savetxt(out := io.StringIO(), array)
out.getvalue()[:20]

np.savez(stream, a=array)

blob = pickle.dumps(orders)
pickle.loads(blob).equals(orders)

base = sqlite3.connect(":memory:")
orders.to_sql("orders", base, index=False)
pd.read_sql("select shop, sum(revenue) from orders group by shop", base)

cursor = base.cursor()
cursor.execute("create table note (a, b)")
cursor.executemany("insert into note values (?, ?)", [(1, 2), (3, 4)])
base.commit()
cursor.execute("select * from note").fetchall()

with zipfile.ZipFile(io.BytesIO(), "w") as archive:
    archive.writestr("a.txt", "x")
    print(archive.namelist())

packed = io.BytesIO()
with zipfile.ZipFile(packed, "w") as archive:
    archive.writestr("a.csv", orders.to_csv())
pd.read_csv(zipfile.ZipFile(packed).open("a.csv")).shape

gzip.decompress(gzip.compress(b"x"))

text = orders.to_csv(index=False)
rows = list(csv.DictReader(io.StringIO(text)))
rows[0]

writer = csv.writer(out := io.StringIO())
writer.writerow(["a", 1])
out.getvalue()

@functools.cache
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
fib(30)

@dataclasses.dataclass
class Shop:
    name: str
    city: str = "Oslo"
    def __str__(self):
        return f"{self.name} in {self.city}"
print(Shop("a"), dataclasses.asdict(Shop("b")))

class Kind(enum.Enum):
    SMALL = 1
    LARGE = 2
orders["kind"] = [Kind.LARGE.name if u > 3 else Kind.SMALL.name for u in orders.units]

re.sub(r"(\\d+)", lambda m: str(int(m[1]) + 1), "a1 b2"), re.findall(r"\\w+", "x y")

dt.datetime.now() - dt.timedelta(days=1), dt.date.today().isoformat(), time.time()

from zoneinfo import ZoneInfo
orders.day.dt.tz_localize("UTC").dt.tz_convert(ZoneInfo("Europe/Berlin")).head(2)

orders.groupby(["shop", orders.day.dt.month]).agg(total=("revenue", "sum"), n=("units", "count")).unstack()

orders.pivot_table(values="revenue", index="shop", aggfunc=["mean", "sum"], margins=True)

orders.style.format({"revenue": "{:.2f}"}).hide(axis="index").set_caption("Orders").bar(subset=["revenue"])

from IPython.display import display, Markdown
display(orders.head(), Markdown("**done**"))

display(orders.describe().T)
print(orders.to_markdown() if False else orders.head().to_string())

orders.info(buf=(out := io.StringIO()))
print(out.getvalue()[:50])

sorted(Path(".").glob("*.csv")), [p.stat().st_size for p in Path(".").iterdir() if p.is_file()]

for root, dirs, files in os.walk("."):
    print(root, len(files))

Path("notes.txt").read_text().splitlines()[0], os.path.getsize("notes.txt"), os.path.exists("nothing")

with open("shops.json", encoding="utf-8") as file:
    cities = {row["shop"]: row["city"] for row in json.load(file)}
orders["city"] = orders.shop.map(cities)

hashlib.sha256(Path("notes.txt").read_bytes()).hexdigest()[:8], base64.b64encode(b"x"), uuid.uuid4().hex[:4]

print(sys.version, os.getcwd(), os.environ.get("HOME"), os.cpu_count())

print(pd.__version__, np.__version__); sys.path[:1]; sys.modules["pandas"].__name__

try:
    1 / 0
except ZeroDivisionError as error:
    print("failed:", error)

with contextlib.redirect_stdout(io.StringIO()) as caught:
    print("x")
caught.getvalue()

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    warnings.warn("x")

from concurrent.futures import ThreadPoolExecutor, as_completed
with ThreadPoolExecutor(4) as pool:
    done = list(pool.map(len, ["a", "bb"]))
done

import threading, queue
box = queue.Queue()
worker = threading.Thread(target=lambda: box.put(1))
worker.start(); worker.join()
box.get()

import cProfile, timeit
timeit.timeit("sum(range(10))", number=10)

import inspect
print(inspect.signature(curve)); help(len)

import torch
model = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
loss = ((model(torch.rand(8, 2)) - 1) ** 2).mean()
loss.backward(); optimizer.step(); loss.item()

loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(8, 2)), batch_size=4)
[len(batch[0]) for batch in loader]

copy.deepcopy(orders).drop(columns="kind").equals(orders), operator.itemgetter(1)([1, 2])

decimal.Decimal("1.1") + 1, fractions.Fraction(1, 3), statistics.stdev([1, 2, 3]), heapq.nsmallest(2, [3, 1, 2])

orders.to_json(orient="records")[:40], orders.head(2).to_dict(), orders.head(2).to_html()[:20]

orders.eval("ratio = revenue / units").query("ratio > 1 and shop in ['a', 'b']").nlargest(3, "ratio")

pd.merge_asof(orders.sort_values("day"), orders.sort_values("day")[["day", "price"]].rename(columns={"price": "p"}), on="day").head()

orders.set_index("day").groupby("shop").resample("W").revenue.sum().unstack(0).plot(kind="area")
plt.close()

import networkx as nx
nx.shortest_path(nx.path_graph(4), 0, 3)

import sympy
sympy.integrate(sympy.Symbol("x") ** 2)

from bs4 import BeautifulSoup
BeautifulSoup("<a href='x'>y</a>", "html.parser").a.text

import yaml
yaml.safe_load("a: 1"), yaml.safe_dump({"a": 1})

from urllib.parse import urlparse, quote, urlencode
urlparse("https://example.com/a?b=1").netloc, urlencode({"a": 1})

import duckdb
duckdb.sql("select shop, sum(units) from orders group by shop").df()

from PIL import Image
picture = Image.fromarray(np.zeros((4, 4, 3), dtype="uint8"))
picture.save(io.BytesIO(), "PNG"); picture.size

def summarize(frame, *, verbose=False):
    '''Totals by shop.'''
    logger.debug("summing")
    total = frame.groupby("shop").revenue.sum()
    if verbose:
        print(total)
    return total
summarize(orders, verbose=True)

import io, os, sys, json, math, shutil, tempfile, random, time, threading, logging, functools, contextlib, itertools, pickle, sqlite3, gzip, subprocess, string, types, glob, gc, operator, copy, re, warnings, collections, datetime as dt
from pathlib import Path
import numpy as np
import pandas as pd
import matplotlib.pyplot as plt
orders = pd.read_csv("sales.csv", parse_dates=["day"]).assign(revenue=lambda d: d.units * d.price)

with tempfile.TemporaryDirectory() as tmp:
    for shop, part in orders.groupby("shop"):
        part.to_csv(f"{tmp}/{shop}.csv", index=False)
    parts = pd.concat(pd.read_csv(one) for one in sorted(glob.glob(f"{tmp}/*.csv")))
len(parts)

with tempfile.TemporaryDirectory() as tmp:
    target = Path(tmp, "deep", "er")
    target.mkdir(parents=True)
    for n in range(3):
        (target / f"{n}.txt").write_text(str(n))
    files = sorted(target.rglob("*.txt"))
    files[0].unlink()
    files[1].rename(target / "renamed.txt")
    shutil.copy(files[2], target / "copy.txt")
    print(sorted(one.name for one in target.iterdir()))

def save_parts(frame, where):
    for shop, part in frame.groupby("shop"):
        part.to_parquet(os.path.join(where, f"{shop}.parquet"))
    return sorted(os.listdir(where))
with tempfile.TemporaryDirectory(prefix="parts") as tmp:
    print(save_parts(orders, tmp))

tmp = tempfile.mkdtemp()
os.makedirs(os.path.join(tmp, "a", "b"), exist_ok=True)
with open(os.path.join(tmp, "a", "b", "c.txt"), "w") as file:
    file.write("x")
shutil.make_archive(os.path.join(tmp, "packed"), "zip", os.path.join(tmp, "a"))
print(os.listdir(tmp))
shutil.rmtree(tmp)

handle, name = tempfile.mkstemp(suffix=".csv")
os.close(handle)
orders.to_csv(name)
pd.read_csv(name).shape
os.remove(name)

with tempfile.NamedTemporaryFile(suffix=".db") as file:
    base = sqlite3.connect(file.name)
    orders.to_sql("orders", base)
    print(pd.read_sql("select count(*) from orders", base).iloc[0, 0])
    base.close()

with tempfile.NamedTemporaryFile("wb", delete=False) as file:
    pickle.dump(orders, file)
pd.read_pickle(file.name).shape
Path(file.name).unlink()

with tempfile.TemporaryDirectory() as tmp:
    plt.plot([1, 2])
    plt.savefig(os.path.join(tmp, "a.png"))
    plt.close()
    np.save(f"{tmp}/a.npy", np.arange(3))
    print(np.load(f"{tmp}/a.npy"), os.path.getsize(f"{tmp}/a.png") > 0)

with tempfile.SpooledTemporaryFile(mode="w+") as file:
    file.write("x")
    file.seek(0)
    file.read()

path = Path(tempfile.gettempdir())
path.exists()

import joblib
with tempfile.TemporaryDirectory() as tmp:
    joblib.dump(orders, Path(tmp) / "a.joblib")
    joblib.load(Path(tmp) / "a.joblib").shape

from joblib import Parallel, delayed
def slow(n):
    time.sleep(0.01)
    return n * n
Parallel(n_jobs=2, verbose=0)(delayed(slow)(n) for n in range(6))

with joblib.parallel_backend("loky", n_jobs=2):
    print(joblib.Parallel()(joblib.delayed(slow)(n) for n in range(3)))

with joblib.parallel_config(backend="multiprocessing", n_jobs=2):
    print(joblib.Parallel()(joblib.delayed(slow)(n) for n in range(3)))

Parallel(n_jobs=2, prefer="processes", return_as="generator")(delayed(slow)(n) for n in range(3)).__next__()

from sklearn.datasets import load_iris, make_classification, make_blobs
from sklearn.ensemble import RandomForestClassifier, HistGradientBoostingClassifier, VotingClassifier, BaggingClassifier
from sklearn.model_selection import cross_val_score, cross_validate, GridSearchCV, RandomizedSearchCV, learning_curve, cross_val_predict, StratifiedKFold
from sklearn.linear_model import LogisticRegression
X, y = load_iris(return_X_y=True, as_frame=True)
X.head()

cross_validate(RandomForestClassifier(n_estimators=3), X, y, n_jobs=2, cv=3, return_train_score=True)["test_score"]

RandomizedSearchCV(RandomForestClassifier(), {"max_depth": [1, 2, 3], "n_estimators": [2, 3]}, n_iter=3, n_jobs=2, random_state=0, cv=2, verbose=1).fit(X, y).best_params_

learning_curve(LogisticRegression(max_iter=200), X, y, n_jobs=2, cv=3)[0]

cross_val_predict(HistGradientBoostingClassifier(max_iter=5), X, y, n_jobs=2, cv=3)[:5]

BaggingClassifier(n_estimators=4, n_jobs=2).fit(X, y).score(X, y)

from sklearn.inspection import permutation_importance, PartialDependenceDisplay
model = RandomForestClassifier(n_estimators=3, n_jobs=2).fit(X, y)
permutation_importance(model, X, y, n_repeats=2, n_jobs=2).importances_mean

PartialDependenceDisplay.from_estimator(model, X, [0, 1], target=0)
plt.show()

from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
digits = load_digits()
SVC().fit(digits.data[:100], digits.target[:100]).score(digits.data[100:150], digits.target[100:150])

from sklearn.preprocessing import PolynomialFeatures
PolynomialFeatures(2).set_output(transform="pandas").fit_transform(X).shape

from sklearn.feature_extraction.text import TfidfVectorizer
TfidfVectorizer().fit_transform(["a bc", "bc de"]).toarray()

from scipy.stats import norm, bootstrap, linregress
from scipy.optimize import curve_fit, differential_evolution
bootstrap((orders.revenue,), np.mean, n_resamples=50, random_state=0).confidence_interval

differential_evolution(lambda v: v[0] ** 2, [(-1, 1)], maxiter=3, seed=0, workers=1).x

from scipy.spatial.distance import pdist
from scipy.cluster.hierarchy import linkage, dendrogram
dendrogram(linkage(orders[["units", "price"]].head(10)))
plt.show()

from scipy.integrate import solve_ivp, quad
solve_ivp(lambda t, y: -y, (0, 1), [1.0]).y[0][-1], quad(np.sin, 0, math.pi)

log = logging.getLogger("steps")
log.setLevel(logging.DEBUG)
log.addHandler(logging.StreamHandler(sys.stdout))
log.addHandler(logging.NullHandler())
log.debug("rows: %s", len(orders))

class Model:
    def __init__(self, alpha=1.0):
        self.alpha = alpha
    def fit(self, X, y):
        self.coef_ = np.linalg.solve(X.T @ X + self.alpha * np.eye(X.shape[1]), X.T @ y)
        return self
    def predict(self, X):
        return X @ self.coef_
Model().fit(X.to_numpy(), y.to_numpy()).predict(X.to_numpy())[:3]

def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        start = time.perf_counter()
        result = function(*args, **kwargs)
        log.info("%s took %.3f s", function.__name__, time.perf_counter() - start)
        return result
    return wrapper
@logged
def totals(frame):
    return frame.groupby("shop").revenue.sum()
totals(orders)

[name for name in dir() if not name.startswith("_")][:5]

{name: type(value).__name__ for name, value in list(globals().items()) if isinstance(value, pd.DataFrame)}

"orders" in globals(), callable(globals().get("totals"))

for name in ("units", "price"):
    print(name, getattr(orders, name).mean(), getattr(orders[name], "max")())

how = "mean"
getattr(orders.groupby("shop").revenue, how)()

orders.agg({"units": ["min", "max"], "price": np.mean})

orders["units"] = orders["units"].astype("int32"); orders.memory_usage(deep=True).sum()

orders.loc[len(orders)] = orders.iloc[0]
orders.drop(index=orders.index[-1], inplace=True)

orders.rename(columns=str.upper).columns.tolist(), orders.replace(2.5, 2.6).price.max()

with pd.option_context("display.max_rows", 3):
    print(orders)

pd.read_csv(io.StringIO("a,b\\n1,2")), pd.read_json(io.StringIO('[{"a": 1}]')), pd.read_html(io.StringIO("<table><tr><td>1</td></tr></table>"))[0] if False else 0

out = io.BytesIO()
orders.to_pickle(out)
out.seek(0)
pd.read_pickle(out).shape

out = io.BytesIO()
orders.to_parquet(out)
pd.read_parquet(io.BytesIO(out.getvalue())).shape

print(orders.to_string(max_rows=3), orders.to_latex()[:10] if False else "", sep="\\n")

class Timer:
    def __enter__(self):
        self.start = time.time()
        return self
    def __exit__(self, *error):
        print("done")
with Timer():
    sum(range(1000))

with contextlib.suppress(KeyError):
    {}["a"]

@contextlib.contextmanager
def section(title):
    print(title)
    yield
    print("end")
with section("rows"):
    print(len(orders))

results = []
lock = threading.Lock()
def work(n):
    with lock:
        results.append(n)
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for one in threads:
    one.start()
for one in threads:
    one.join()
results

import multiprocessing as mp
mp.cpu_count()

import concurrent.futures as cf
with cf.ThreadPoolExecutor() as pool:
    futures = {pool.submit(len, text): text for text in ["a", "bb"]}
    print({futures[one]: one.result() for one in cf.as_completed(futures)})

import asyncio
async def fetch(n):
    await asyncio.sleep(0.01)
    return n
async def main():
    return await asyncio.gather(*(fetch(n) for n in range(3)))
asyncio.new_event_loop().run_until_complete(main())

cache = functools.lru_cache(maxsize=None)(math.factorial)
cache(5), cache.cache_info()

sys.setrecursionlimit(3000); sys.getsizeof(orders), sys.getrecursionlimit()

gc.collect(); copy.copy(orders).equals(orders)

import torch
torch.manual_seed(0); torch.set_num_threads(1)
net = torch.nn.LSTM(2, 3); net(torch.rand(4, 1, 2))[0].shape

buffer = io.BytesIO(); torch.save(net.state_dict(), buffer); buffer.seek(0)
net.load_state_dict(torch.load(buffer))

torch.utils.data.DataLoader(list(range(4)), batch_size=2).__class__.__name__, torch.cuda.is_available()

import polars as pl
pl.from_pandas(orders).lazy().group_by("shop").agg(pl.len()).collect()

pl.DataFrame({"a": [1]}).write_csv(), pl.DataFrame({"a": [1]}).write_json()

out = io.BytesIO()
pl.DataFrame({"a": [1]}).write_parquet(out)
pl.read_parquet(io.BytesIO(out.getvalue()))

import pyarrow as pa, pyarrow.parquet as pq, pyarrow.compute as pc
table = pa.Table.from_pandas(orders)
pc.sum(table["units"]), table.schema

sink = pa.BufferOutputStream()
pq.write_table(table, sink)
pq.read_table(pa.BufferReader(sink.getvalue())).num_rows

import matplotlib.animation as animation
fig, ax = plt.subplots()
line, = ax.plot([1, 2])
animation.FuncAnimation(fig, lambda n: [line], frames=2)
plt.close("all")

plt.style.use("ggplot"); plt.rcParams["figure.figsize"] = (6, 4)
fig, ax = plt.subplots(); ax.bar(["1", "2"], [1, 2]); ax.set_title("a"); fig

pd.plotting.scatter_matrix(orders[["units", "price"]]); pd.plotting.lag_plot(orders.revenue); plt.show()

orders.hist(); orders.boxplot(column="revenue", by="shop"); plt.show()

print("\\033[1mbold\\033[0m", end="", file=sys.stdout, flush=True); print("w", file=sys.stderr)

sys.stdout.write("x\\n"); sys.stdout.flush()

from IPython.display import display, Markdown, Latex, HTML, JSON
display(Markdown("# Totals")); display(HTML(orders.head(2).to_html()))

from pprint import pprint
pprint({"a": [1, 2]}); json.dumps(orders.head(1).to_dict(), default=str)

from string import Template
Template("$a b").substitute(a=1), textwrap.dedent(" a") if "textwrap" in globals() else ""

from dataclasses import dataclass, field
@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float = 0.0
    tags: list = field(default_factory=list)
{Point(1.0).x, Point(2.0).y}

import pydantic
class Row(pydantic.BaseModel):
    shop: str
    units: int
[Row(**one) for one in orders[["shop", "units"]].head(2).to_dict("records")]

shutil.which("python"), shutil.disk_usage(".").free > 0

match orders.shape:
    case (rows, columns):
        print(rows, columns)
"""

NEWER: Final = tuple(step.strip() for step in _NEWER.strip().split("\n\n"))
