"""Histories to look at: cells of a notebook, each a commit, and what a reader says of them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from agent_kernel.queries.reader import Reader
from agent_kernel.repository import Author, Outputs, hex_of
from agent_kernel.session import Repository, Session, bind
from agent_kernel.storage import MemoryStore


class Notebook:
    """A session whose cells run one after the other, and a reader of its repository."""

    def __init__(self, repo: Repository, session_id: str | None = None) -> None:
        self.repo = repo
        self.namespace: dict[str, object] = {}
        self.session: Session = bind(self.namespace, repo, author=Author("ada"), skip=_is_hidden, session_id=session_id)
        self.reader = Reader(repo, self.session.id)
        self._number = 0

    def run(
        self, source: str, *, id: str = "", shows: Outputs | None = None, raises: BaseException | None = None
    ) -> str:
        """Run a cell and return the id of its commit. `raises`: what it ends with, as if it had."""
        self._number += 1
        self.session.begin_cell(source, cell_id=id or f"cell-{self._number}", number=self._number)
        exec(source, self.namespace)
        report = self.session.end_cell(error=raises, outputs=shows)
        assert report is not None
        assert report.commit is not None
        return hex_of(report.commit)

    def cells(self, *sources: str) -> list[str]:
        """Run several cells."""
        return [self.run(source) for source in sources]

    def ask(self, question: str, /, **args: object) -> Any:
        """What the reader answers."""
        return self.reader.ask(question, {name.rstrip("_"): value for name, value in args.items()})

    def rows(self, text: str = "", **args: object) -> list[Any]:
        """The rows of the list, days left out."""
        page = self.ask("rows", **{"n": 500, "text": text, **args})
        return [row for row in page["rows"] if row["kind"] != "day"]

    def subjects(self, text: str = "", **args: object) -> list[str]:
        return [row["subject"] for row in self.rows(text, **args)]


def _is_hidden(name: str) -> bool:
    return name.startswith("__")


@contextmanager
def notebook(repo: Repository | None = None) -> Generator[Notebook]:
    """A notebook on a new store in memory."""
    made = Notebook(Repository.open(MemoryStore()) if repo is None else repo)
    try:
        yield made
    finally:
        made.session.close()
        made.repo.close()
