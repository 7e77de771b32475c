"""scikit-learn: estimators before and after fitting, and pipelines of them."""

from tests.fidelity.kinds.kind import Kind

MODELS = (
    Kind(
        "a fitted linear model",
        """
        import numpy as np
        from sklearn.linear_model import LinearRegression

        X = np.arange(10.0).reshape(-1, 1)
        model = LinearRegression().fit(X, 3 * X.ravel() + 1)
        """,
        """
        assert abs(model.predict([[5.0]])[0] - 16) < 1e-9 and type(model) is LinearRegression
        model.coef_[0] = 0
        assert model.predict([[5.0]])[0] == model.intercept_
        """,
        needs=("sklearn",),
    ),
    Kind(
        "a forest predicts the same",
        """
        import numpy as np
        from sklearn.ensemble import RandomForestClassifier

        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 4))
        y = (X[:, 0] + X[:, 1] > 0).astype(int)
        forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
        before = forest.predict_proba(X)
        """,
        """
        assert np.array_equal(forest.predict_proba(X), before)
        """,
        needs=("sklearn",),
    ),
    Kind(
        "a pipeline with columns, a search over it, and its parts by name",
        """
        import pandas as pd
        from sklearn.compose import ColumnTransformer
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import GridSearchCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        df = pd.DataFrame({"n": range(20), "c": ["a", "b"] * 10})
        columns = ColumnTransformer([("n", StandardScaler(), ["n"]), ("c", OneHotEncoder(), ["c"])])
        pipeline = make_pipeline(columns, LogisticRegression())
        search = GridSearchCV(pipeline, {"logisticregression__C": [0.1, 1.0]}, cv=2)
        search.fit(df, [0, 1] * 10)
        best = search.best_estimator_
        final = best[-1]
        """,
        """
        assert search.best_estimator_ is best and best[-1] is final and search.predict(df).tolist() == [0, 1] * 10
        assert pipeline[0] is columns and search.best_params_.keys() == {"logisticregression__C"}
        """,
        needs=("sklearn", "pandas"),
    ),
    Kind(
        "a transformer that calls a function of the notebook",
        """
        import numpy as np
        from sklearn.preprocessing import FunctionTransformer

        scale = 2


        def stretch(values):
            return values * scale


        transformer = FunctionTransformer(stretch)
        """,
        """
        assert transformer.func is stretch and transformer.transform(np.ones(2)).tolist() == [2, 2]
        scale = 5
        assert transformer.transform(np.ones(2)).tolist() == [5, 5]
        """,
        needs=("sklearn",),
    ),
    Kind(
        "an estimator that a cell defines",
        """
        import numpy as np
        from sklearn.base import BaseEstimator, RegressorMixin


        class Mean(RegressorMixin, BaseEstimator):
            def __init__(self, shift=0.0):
                self.shift = shift

            def fit(self, X, y):
                self.mean_ = float(np.mean(y)) + self.shift
                return self

            def predict(self, X):
                return np.full(len(X), self.mean_)


        mean = Mean(shift=1.0).fit([[0], [1]], [1, 3])
        """,
        """
        assert mean.predict([[9]]).tolist() == [3.0] and mean.get_params() == {"shift": 1.0} and type(mean) is Mean
        """,
        needs=("sklearn",),
    ),
    Kind(
        "clusters, trees for neighbours, distributions",
        """
        import numpy as np
        from scipy import stats
        from scipy.interpolate import CubicSpline
        from scipy.spatial import KDTree
        from sklearn.cluster import KMeans

        points = np.random.default_rng(1).normal(size=(60, 2))
        clusters = KMeans(3, n_init=1, random_state=0).fit(points)
        tree = KDTree(points)
        normal = stats.norm(loc=2, scale=3)
        spline = CubicSpline([0, 1, 2], [0, 1, 4])
        """,
        """
        assert np.array_equal(clusters.predict(points), clusters.labels_)
        assert tree.query(points[7])[1] == 7 and normal.mean() == 2 and float(spline(2)) == 4
        """,
        needs=("sklearn", "scipy"),
    ),
)
