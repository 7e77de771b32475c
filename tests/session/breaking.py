"""A class whose instances cannot be loaded while a file is there."""

from __future__ import annotations

from pathlib import Path

from agent_kernel.repository import Tree
from tests.support.notebooks import Notebook

FRAGILE = """class Fragile:
    def __init__(self, v):
        self.v = v
    def __setstate__(self, state):
        if __import__('os').path.exists({flag!r}):
            raise RuntimeError('cannot')
        self.__dict__.update(state)
"""


class Breaks:
    """What makes loading fail, and mends it."""

    def __init__(self, flag: Path) -> None:
        self.flag = flag
        self.fragile = FRAGILE.format(flag=str(flag))

    def start(self) -> None:
        self.flag.touch()

    def mend(self) -> None:
        self.flag.unlink()


def tree_of(nb: Notebook) -> Tree:
    return nb.repo.tree_at(nb.session.head)
