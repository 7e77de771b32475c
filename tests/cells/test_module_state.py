"""Seeds, options and folders: state that no variable holds, and that later cells use."""

from __future__ import annotations

import pytest

from tests.cells.histories import Notebook


@pytest.mark.sampled
@pytest.mark.parametrize(
    "cells",
    [
        ("import random", "random.seed(4)", "v = random.random()"),
        ("import random", "random.seed(4)", "a = random.random()", "v = random.random()"),
        ("import random", "random.seed(4)", "for _ in range(3): random.random()", "v = random.random()"),
        ("import random", "if True:\n    _x = random.seed(4)", "v = random.random()"),
        ("from random import seed, random", "seed(4)", "a = random()", "v = random()"),
        ("import random", "def draw(): return random.random()", "random.seed(4)", "draw()", "v = draw()"),
        ("import random", "def setup(): random.seed(4)", "setup()", "v = random.random()"),
        ("import random", "state = random.Random(4).getstate()", "random.setstate(state)", "v = random.random()"),
        ("import random", "r = random.Random(4)", "q = r.random()", "v = r.random()"),
        ("from math import *\nfrom random import *", "seed(4)", "a = random()", "v = random()"),
        ("import random", "random.seed(4)", "class M:\n    def go(self): return random.random()", "m = M()", "u = m.go()", "v = m.go()"),
        ("import random", "random.seed(4)", "f = random.random", "u = f()", "v = f()"),
        ("import random", "random.seed(1)", "if False:\n    random.seed(2)", "v = random.random()"),
        ("import decimal", "c = decimal.getcontext()", "c.prec = 4", "v = decimal.Decimal(1) / 3"),
        ("import numpy as np", "np.random.seed(4)", "a = np.random.rand(3)", "v = np.random.rand(3).tolist()"),
        ("import numpy as np", "g = np.random", "g.seed(4)", "v = g.rand(2).tolist()"),
        (
            "import numpy as np, pandas as pd",
            "np.random.seed(4)",
            "s = pd.Series(range(99))",
            "v = s.sample(3).tolist()",
        ),
        ("from decimal import Decimal, getcontext", "getcontext().prec = 5", "one = Decimal(1)", "v = one / 3"),
        ("import os", "os.environ['AN_OPTION'] = 'on'", "v = os.environ.get('AN_OPTION')"),
        ("import os, tempfile", "os.chdir(tempfile.gettempdir())", "from pathlib import Path", "v = Path.cwd().name"),
        ("import sys", "sys.path.insert(0, '/nowhere/at/all')", "v = sys.path[0]"),
        ("import math", "math.foo = 3", "v = math.foo + 1"),
        ("import math", "setattr(math, 'foo', 3)", "v = math.foo + 1"),
        ("import pandas as pd", "pd.set_option('display.precision', 2)", "s = pd.Series([1.23456])", "v = repr(s)"),
        ("import warnings", "warnings.filterwarnings('error')", "def f():\n    try: warnings.warn('x')\n    except UserWarning: return 1", "v = f()"),
        ("import numpy as np", "np.seterr(divide='raise')", "a = np.zeros(1)", "try: v = 1 / a\nexcept FloatingPointError: v = 'raised'"),
    ],
)  # fmt: skip
def test_what_a_module_or_the_process_was_told_is_part_of_it(
    cells: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(monkeypatch)
    with Notebook() as nb:
        nb.cells(*cells)
        nb.check_script("v")


def test_the_state_of_torch_is_part_of_it() -> None:
    pytest.importorskip("torch")
    with Notebook() as nb:
        nb.cells("import torch", "torch.manual_seed(4)", "a = torch.rand(2)", "v = torch.rand(3).tolist()")
        nb.check_script("v")


def test_only_cells_since_the_last_seed_are_part_of_it() -> None:
    with Notebook() as nb:
        nb.cells("import random", "random.seed(1)", "a = random.random()", "random.seed(2)", "v = random.random()")
        assert nb.makers("v") == ["import random", "random.seed(2)", "v = random.random()"]


def test_draws_without_a_seed_and_other_modules_are_left_out() -> None:
    with Notebook() as nb:
        nb.cells("import random, math, json", "a = random.random()", "json.foo = 1", "v = math.floor(random.random())")
        assert nb.makers("v") == ["import random, math, json", "v = math.floor(random.random())"]


def test_the_script_says_why_the_cell_is_there() -> None:
    with Notebook() as nb:
        nb.cells("import random", "random.seed(4)", "v = random.random()")
        assert "# Cells below may use what it changes in a module or in the process.\nrandom.seed(4)" in nb.script("v")
        assert nb.slice("v").is_whole


def keep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what these cells change put back."""
    import decimal
    import math
    import sys
    import warnings

    import numpy as np
    import pandas as pd

    monkeypatch.chdir(".")
    monkeypatch.setenv("AN_OPTION", "off")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(warnings, "filters", list(warnings.filters))
    monkeypatch.setattr(math, "foo", 0, raising=False)
    decimal.setcontext(decimal.Context())
    np.seterr(all="warn")
    pd.reset_option("display.precision")
