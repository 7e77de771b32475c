"""The notebook that most tests open: houses and their prices, with a little of all that a history can show."""

from __future__ import annotations

from typing import Final

__all__ = ["BUSY", "RATES", "STUDY"]

STUDY: Final = (
    "import numpy as np\nimport pandas as pd",
    """df = pd.DataFrame({"district": ["Old Town", "Harbour", "Mill Hill"] * 40, "area_m2": np.arange(120) * 1.5})
df["price"] = df.area_m2 * 4000
df.head(3)""",
    '# Convert to euros\nrate = 0.92\ndf["price_eur"] = df.price * rate\ntmp = [1, 2, 3]',
    'del tmp\nmodel = {"alpha": 1.0, "coef": [1, 2, 3]}',
    'raise ValueError("Input X contains NaN.")',
    "1 + 1",
    "len(df)",
    "rate = 0.95",
    "%agent history",
    "",
)

# Three states of one variable, a panel, and a cell to ask in.
RATES: Final = ("rate = 1", "rate = 2\nextra = 'later'", "rate = 3", "%agent history", "")

# The fourth cell runs until a file "go" stands beside the notebook.
BUSY: Final = (
    "rate = 1",
    "rate = 2",
    "%agent history",
    "import pathlib, time\nwhile not pathlib.Path('go').exists():\n    time.sleep(0.05)",
    "",
)
