"""A store with a small history, made through a session that has ended."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from agent_kernel.session import Repository, bind

# One variable of each kind, of which some interest a reader more than others.
ALL_KINDS = """import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import Ridge
words = ["a long list"] * 1000
figure = Figure()
rate = 0.25
model = Ridge(alpha=3.0)
df = pd.DataFrame({"a": [1, 2]})"""


def canary(ran: Path) -> str:
    """Code of a class that, once `Canary.armed`, leaves this file behind wherever anything of it runs."""
    return (
        "class Canary:\n"
        "    armed = False\n"
        "    def _run(self, *ignored):\n"
        f"        if Canary.armed: open({str(ran)!r}, 'a').close()\n"
        "        return 0\n"
        "    __len__ = __hash__ = __setstate__ = _repr_html_ = _run\n"
        "    def __repr__(self): return str(self._run())\n"
        f"    def __reduce__(self): return (open, ({str(ran)!r}, 'a')) if Canary.armed else (Canary, (), {{}})\n"
    )


def make_history(place: Path, *cells: str, told: str = "cell-") -> list[str]:
    """Run cells on branch main of a new store, and return the ids of their commits, oldest first.

    Args:
        told: how the ids of the cells begin, which a front end tells; "" for one that tells none.
    """
    return _run(place, cells, number=1, told=told)


def go_on(place: Path, *cells: str) -> list[str]:
    """The same, in a fresh kernel that took up where the store was left."""
    return _run(place, cells, number=100)


def _run(place: Path, cells: tuple[str, ...], number: int, told: str = "cell-") -> list[str]:
    namespace: dict[str, object] = {}
    made: list[str] = []
    with closing(Repository.open(place)) as repo, closing(bind(namespace, repo, skip=_is_hidden)) as session:
        if session.head is not None:
            session.checkout()
        for at, source in enumerate(cells, number):
            session.begin_cell(source, cell_id=told and f"{told}{at}", number=at)
            exec(source, namespace)
            report = session.end_cell()
            assert report is not None
            assert report.commit is not None
            made.append(report.commit[:-1].hex())
    return made


def _is_hidden(name: str) -> bool:
    return name.startswith("__")
