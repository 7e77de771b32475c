"""What a bundle holds as plain data needs no trust and no pickle, whether pyarrow is installed or not."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = '''
import json, sys
if sys.argv[1] == "without":
    sys.modules["pyarrow"] = None
from contextlib import closing
from pathlib import Path
from agent_kernel.bundle.members import plain_data
from agent_kernel.session import Repository, Snapshot
from tests.bundle.bundles import bundle_of
from tests.bundle.studies import contents_of, make_study

folder = Path(sys.argv[2])
names = """
numbers = pd.DataFrame({"a": [1, 2, 3]})
texts = pd.DataFrame({"a": ["x", "y", None], "b": [1.5, 2, 3]}, index=["r1", "r2", "r3"])
series = pd.Series(["a", None], name="s")
nullable = pd.Series(["a", None], dtype="string")
index = pd.Index(["a", "b"], name="n")
levels = pd.DataFrame({"a": [1, 2]}, index=pd.MultiIndex.from_tuples([("x", 1), ("y", 2)]))
codes = pd.DataFrame({"c": pd.Categorical(["x", "y"])})
truths = pd.DataFrame({"t": pd.array([True, None], dtype="boolean")})
records = np.zeros(3, [("a", "i4"), ("b", "U3")])
"""
if sys.argv[3] == "make":
    make_study(folder / "s", "import numpy as np, pandas as pd", *names.strip().splitlines())
    with closing(Repository.open(folder / "s", create=False)) as repo:
        made = plain_data(contents_of(repo))
    bundle_of(folder / "s", folder / "b.agentnb")
    print(json.dumps({"needs_trust": made.needs_trust, "names": made.names}))
else:
    import numpy as np, pandas as pd

    meant = {}
    exec("import numpy as np, pandas as pd" + names, meant)
    for maker in ("with", "without"):
        with closing(Repository.open(folder / maker / "b.agentnb", create=False)) as repo:
            snapshot = Snapshot(repo, repo.resolve("HEAD"), plain=True)
            for name in [line.partition(" ")[0] for line in names.strip().splitlines()]:
                found = snapshot[name]
                assert repr(found) == repr(meant[name]), (maker, name, found)
                assert str(getattr(found, "dtype", "")) == str(getattr(meant[name], "dtype", "")), (maker, name)
    print("{}")
'''


def run(*words: object) -> dict[str, dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *map(str, words)], capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, str]] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, dict[str, str]]]]:
    """A bundle that was made with pyarrow, and one without: where they lie, and what is in each."""
    folder = tmp_path_factory.mktemp("made")
    for pyarrow in ("with", "without"):
        (folder / pyarrow).mkdir()
    return folder, {pyarrow: run(pyarrow, folder / pyarrow, "make") for pyarrow in ("with", "without")}


@pytest.mark.parametrize("pyarrow", ["with", "without"])
def test_tables_with_names_are_plain_data_and_have_a_file(
    made: tuple[Path, dict[str, dict[str, dict[str, str]]]], pyarrow: str
) -> None:
    _, told = made
    assert told[pyarrow]["needs_trust"] == {}
    suffix = "arrow" if pyarrow == "with" else "csv"
    tables = {
        name: f"data/{name}.{suffix}"
        for name in ("numbers", "texts", "series", "nullable", "levels", "codes", "truths")
    }
    assert told[pyarrow]["names"] == tables | {"records": "data/records.npy"}


@pytest.mark.parametrize("pyarrow", ["with", "without"])
def test_whoever_reads_them_finds_what_was_meant_whoever_made_them(
    made: tuple[Path, dict[str, dict[str, dict[str, str]]]], pyarrow: str
) -> None:
    folder, _ = made
    run(pyarrow, folder, "read")
