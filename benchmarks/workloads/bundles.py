"""What it takes to export and open a gigabyte of state, beside a plain zip of the same bytes, and to look at one variable."""

from __future__ import annotations

import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agent_kernel.bundle import exporting, opening
from agent_kernel.session import Repository, bind
from benchmarks.bench import Bench
from benchmarks.tables import Row, Table, ms, times

_ARRAYS = 8


def run(bench: Bench) -> Table:
    """Export random numbers that no compression makes smaller, open them again, and read the smallest of the variables."""
    each = (8 if bench.quick else 128) << 20
    work = Path(tempfile.mkdtemp(prefix="bundles-", dir=bench.folder))
    try:
        return _measured(work, each)
    finally:
        shutil.rmtree(work)


def _measured(work: Path, each: int) -> Table:
    import numpy as np

    rng = np.random.default_rng(0)
    namespace: dict[str, object] = {f"a{number}": rng.random(each // 8) for number in range(_ARRAYS)}
    namespace["settings"] = {"alpha": 0.5}
    with (work / "raw").open("wb") as raw:
        for number in range(_ARRAYS):
            raw.write(memoryview(namespace[f"a{number}"]))  # type: ignore[arg-type]  # an array is a buffer
    with closing(Repository.open(work / "store")) as repo, closing(bind(namespace, repo)) as session:
        session.commit("all")
        zipped = min(_seconds(lambda: _zip(work)) for _ in range(2))

        def export() -> None:
            contents = exporting.gather(repo, exporting.choose(repo, [], session.id))
            exporting.write(contents, work / "study.agentnb")

        exported = min(_seconds(export) for _ in range(2))
    unzipped = _seconds(lambda: _unzip(work))
    opened = _seconds(lambda: opening.open_bundle(work / "study.agentnb", work))
    first = _seconds(lambda: _first(work))
    megabytes = _ARRAYS * each / 1e6
    table = Table(f"A bundle of {megabytes:,.0f} MB")
    table.rows += [
        Row("export", _rate(megabytes, exported), "≤ 2× zip -0", exported <= 2 * zipped, beside=f"zip -0 {_rate(megabytes, zipped)}",
            numbers={"seconds": exported, "zip": zipped}),
        Row("export, against zip -0", times(exported / zipped)),
        Row("verify and open", _rate(megabytes, opened), beside=f"unzip {_rate(megabytes, unzipped)}",
            numbers={"seconds": opened, "unzip": unzipped}),
        Row("open to the first variable", ms(first), "< 1 s", first < 1, numbers={"seconds": first}),
    ]  # fmt: skip
    return table


def _rate(megabytes: float, seconds: float) -> str:
    return f"{megabytes / seconds:,.0f} MB/s"


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _zip(work: Path) -> None:
    with zipfile.ZipFile(work / "plain.zip", "w", zipfile.ZIP_STORED) as made:
        made.write(work / "raw", "raw")


def _unzip(work: Path) -> None:
    with zipfile.ZipFile(work / "plain.zip") as made:
        made.extractall(work / "unzipped")


def _first(work: Path) -> None:
    with closing(Repository.open(work / "study.agentnb", create=False)) as repo:
        assert repo.at("main")["settings"] == {"alpha": 0.5}
