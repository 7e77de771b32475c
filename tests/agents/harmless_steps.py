"""Steps of ordinary work on data, in the order of a notebook: they need no asking. A blank line stands between two."""

from __future__ import annotations

from typing import Final

__all__ = ["FILES", "HARMLESS"]

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
