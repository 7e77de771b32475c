"""Notebooks of random cells and moves, which share objects, call functions, and go back, branch and merge."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Iterator
from typing import NamedTuple

from agent_kernel.cells import script_of
from agent_kernel.errors import AgentKernelError
from tests.cells.histories import Notebook

_LISTS = "abcd"
_FUNCTIONS = "fg"
_BRANCHES = ("main", "left", "right")


class Outcome(NamedTuple):
    """What the script of one variable makes, and what the notebook has."""

    name: str
    is_whole: bool
    made: str
    expected: str
    cells: int


def outcomes(seed: int) -> Iterator[Outcome]:
    """Run a random notebook; then say of each variable what its script makes."""
    choose = random.Random(seed)
    with Notebook() as nb:
        for _ in range(choose.randrange(4, 16)):
            with contextlib.suppress(AgentKernelError):
                _move(choose, nb) if choose.random() < 0.28 else _run(choose, nb)
        if nb.session.head is None:
            return
        for name in [*_LISTS, "n0", "n1", "o"]:
            if name in nb.namespace and name in nb.repo.tree_at(nb.head):
                found = nb.slice(name)
                made = _execute(script_of(nb.repo, found).text, name)
                yield Outcome(name, found.is_whole, made, nb.look(f"repr({name})"), len(found.cells))  # type: ignore[arg-type]


def _execute(script: str, name: str) -> str:
    namespace: dict[str, object] = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(script, namespace)
    except Exception as error:
        return f"raised {error!r}"
    return repr(namespace.get(name, "nothing"))


def _move(choose: random.Random, nb: Notebook) -> None:
    back, branch = f"HEAD~{choose.randrange(1, 4)}", choose.choice(_BRANCHES)
    match choose.randrange(7):
        case 0:
            nb.session.undo()
        case 1:
            nb.session.redo()
        case 2:
            nb.rollback(back)
        case 3:
            nb.session.switch(branch, create=branch not in nb.repo.branches())
        case 4:
            nb.session.merge(branch)
        case 5:
            nb.checkout(back, names=[choose.choice(_LISTS)])
        case _:
            nb.session.cherry_pick(branch)


def _run(choose: random.Random, nb: Notebook) -> None:
    with contextlib.suppress(TypeError, IndexError, NameError, ValueError, AttributeError, ArithmeticError):
        nb.run(_cell(choose, nb.namespace))


def _cell(choose: random.Random, namespace: dict[str, object]) -> str:
    live = [name for name in _LISTS if name in namespace]
    if not live:
        return f"{choose.choice(_LISTS)} = [{choose.randrange(9)}]"
    one, other, new = choose.choice(live), choose.choice(live), choose.choice(_LISTS)
    function, number = choose.choice(_FUNCTIONS), choose.randrange(9)
    value = choose.choice(
        (
            one,
            other,
            f"list({one})",
            f"{one} + [{number}]",
            f"{function}()",
            f"[{one}, {number}]",
            f"[{number}]",
            "o.copy()",
        )
    )
    return choose.choice(
        (
            *[f"{new} = {value}"] * 6,
            *[f"{one}.append({number})"] * 3,
            f"{one} += [{number}]",
            f"def {function}(): return list({one})",
            f"def {function}():\n    {one}.append({number})\n    return [1]",
            f"{function} = lambda: {one} + {other}",
            f"for i in range(2):\n    {one}.append(i)",
            f"del {one}",
            f"if len({one}) > 2:\n    {new} = {value}\nelse:\n    {other}.append(7)",
            f"{new}, {choose.choice(_LISTS)} = {value}, {number and one}",
            f"n{choose.randrange(2)} = len({one})\n{new} = {value}",
            f"class C:\n    items = {one}\n    def copy(self): return list({other}) + [len(self.items)]\n    __repr__ = lambda self: 'C'",
            "o = C()",
            f"o.items = {one}",
            f"o.items.append({number})",
            f"try:\n    {new} = missing\nexcept NameError:\n    {new} = {value}",
            f"{new} = [len(x) if isinstance(x, list) else x for x in {one}]",
            f"{one}.append({number})\n1 / 0",
            f"{one} = {value}\n1 / 0",
        )
    )
