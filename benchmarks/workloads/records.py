"""What a collection of 10,000 records costs: to list, and to watch while one of them changes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter

from agent_kernel.records import Change, Record, Records
from agent_kernel.session import Repository
from benchmarks.bench import Bench
from benchmarks.tables import Row, Table, ms, times

_ROUNDS = 15
_SETTLE_S = 3.2  # a watch looks that far back: what was just loaded would count as changed


class _Item(Record):
    name: str = ""
    number: int = 0
    tags: list[str] = []  # noqa: RUF012  # pydantic copies it


def run(bench: Bench) -> Table:
    """List all records, and change one that is watched. Ratios are of one run: to validating alone, and to a change unwatched."""
    count = 1_000 if bench.quick else 10_000
    table = Table(f"{count:,} records (repo.records)")
    for plane in ("store", "branch"):
        with _collection(bench.folder, plane, count) as records:
            table.rows += [*_listing(records, plane, bench), *_watching(records, plane, bench)]
    table.notes.append("validating alone: pydantic makes the same models of their JSON, read and joined before")
    return table


@contextmanager
def _collection(folder: Path, plane: str, count: int) -> Generator[Records[_Item]]:
    with (
        TemporaryDirectory(prefix="records-", dir=folder) as place,
        closing(Repository.open(Path(place) / "s")) as repo,
    ):
        records = Records(repo, _Item, plane="store" if plane == "store" else "branch")
        with repo.transaction("fill"):
            for number in range(count):
                records.put(_Item(id=f"r{number:05d}", name=f"record {number}", number=number, tags=["a", "b"]))
        yield records


def _listing(records: Records[_Item], plane: str, bench: Bench) -> list[Row]:
    joined = b"[%b]" % b",".join(one.model_dump_json().encode() for one in records.find())
    validate = TypeAdapter(list[_Item]).validate_json
    found, least = _medians(records.find, lambda: validate(joined))
    most = None if bench.quick else 2.0
    return [
        Row(
            f"list all, plane {plane}",
            ms(found),
            "" if most is None else f"≤ {most:g}× validating",
            None if most is None else found <= most * least,
            beside=f"{times(found / least)} validating alone ({ms(least)})",
            numbers={"seconds": found, "ratio": found / least},
        )
    ]


def _watching(records: Records[_Item], plane: str, bench: Bench) -> list[Row]:
    numbers = iter(range(1_000_000))

    def change() -> None:
        records.update("r00500", number=next(numbers))

    (alone,) = _medians(change)
    heard: list[Change[_Item]] = []
    with records.watch("*", heard.append):
        time.sleep(_SETTLE_S)
        change()
        (watched,) = _medians(change)
    assert len(heard) == _ROUNDS + 1
    most = None if bench.quick else 5.0
    return [
        Row(
            f"change one that is watched, plane {plane}",
            ms(watched),
            "" if most is None else f"≤ {most:g}× unwatched",
            None if most is None else watched <= most * alone,
            beside=f"{times(watched / alone)} unwatched ({ms(alone)})",
            numbers={"seconds": watched, "ratio": watched / alone},
        )
    ]


def _medians(*acts: Callable[[], object]) -> list[float]:
    """Each in turn, so that a noisy moment is one for all of them."""
    spent: list[list[float]] = [[] for _ in acts]
    for _ in range(_ROUNDS):
        for act, seconds in zip(acts, spent, strict=True):
            began = time.perf_counter()
            act()
            seconds.append(time.perf_counter() - began)
    return [statistics.median(seconds) for seconds in spent]
