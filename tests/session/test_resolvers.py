"""A resolver merges two values of its type, and what it declines stays a conflict."""

from __future__ import annotations

from typing import cast

import pytest

from agent_kernel.errors import MergeConflictError
from agent_kernel.session.merge import Resolver
from tests.session.forking import forked
from tests.support.notebooks import Notebook


def longer(base: object, ours: object, theirs: object) -> object:
    del base
    return max(ours, theirs, key=len) if isinstance(ours, list) and isinstance(theirs, list) else NotImplemented


def total(base: object, ours: object, theirs: object) -> object:
    """Both sides counted on from the base."""
    assert isinstance(ours, int)
    assert isinstance(theirs, int)
    return ours + theirs - (base if isinstance(base, int) else 0)


def test_a_resolver_merges_values_of_its_type_that_both_sides_changed() -> None:
    with Notebook() as nb:
        forked(nb, base="n = 10\nm = 1", side="n = 13\nm = 2", main="n = 15")
        nb.session.merge("side", resolvers={int: total})
        assert nb.look("(n, m)") == (18, 2)
        nb.session.undo()
        assert nb.look("(n, m)") == (15, 1)


def test_a_resolver_is_told_none_where_both_sides_added_the_value() -> None:
    with Notebook() as nb:
        forked(nb, base="x = 1", side="n = 3", main="n = 4")
        nb.session.merge("side", resolvers={int: total})
        assert nb.look("n") == 7


def test_the_resolver_of_the_nearest_type_is_asked() -> None:
    with Notebook() as nb:
        nb.run("from collections import OrderedDict, Counter")
        forked(nb, base="c = Counter(a=1)", side="c['a'] += 2", main="c['a'] += 3")
        nb.session.merge("side", resolvers={object: lambda *_: "any", dict: lambda *_: "dict"})
        assert nb.look("c") == "dict"


def test_a_resolver_sees_instances_of_the_live_class() -> None:
    with Notebook() as nb:
        forked(nb, base="class Tally: n = 1\nt = Tally()", side="t.n = 3", main="t.n = 5")
        nb.execute("def summed(was, mine, new):\n    mine.n += new.n - was.n\n    return mine")
        nb.session.merge("side", resolvers=cast("dict[type, Resolver]", nb.look("{Tally: summed}")))
        assert nb.look("(t.n, type(t) is Tally)") == (7, True)


def test_keys_of_a_dict_that_hold_instances_are_merged() -> None:
    with Notebook() as nb:
        forked(nb, base="class C: pass\nd = {'c': C(), 'n': 1}", side="d['n'] = 2", main="d['new'] = 3")
        nb.session.merge("side")
        assert nb.look("(d['n'], d['new'], type(d['c']) is C)") == (2, 3, True)


def refuses(*_: object) -> object:
    raise MergeConflictError(())


@pytest.mark.parametrize("resolver", [lambda *_: NotImplemented, refuses], ids=["not implemented", "a conflict"])
def test_what_a_resolver_declines_stays_a_conflict(resolver: Resolver) -> None:
    with Notebook() as nb:
        forked(nb, base="n = 1", side="n = 2", main="n = 3")
        with pytest.raises(MergeConflictError) as raised:
            nb.session.merge("side", resolvers={int: resolver})
        assert raised.value.variables == ("n",)
        assert nb.look("n") == 3


def test_an_error_of_a_resolver_ends_the_merge_with_nothing_changed() -> None:
    def fails(base: object, ours: object, theirs: object) -> object:
        assert isinstance(ours, list)
        ours.append("touched")
        raise ZeroDivisionError

    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = 1", side="a = [2]\nb = 2", main="a = [3]")
        with pytest.raises(ZeroDivisionError):
            nb.session.merge("side", resolvers={list: fails})
        assert nb.look("(a, b)") == ([3], 1)


def test_a_variable_that_a_side_is_chosen_for_is_not_asked_about() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = [1]", side="a = [2]\nb = [2, 2]", main="a = [3, 3]\nb = [3]")
        nb.session.merge("side", theirs=["a"], resolvers={list: longer})
        assert nb.look("(a, b)") == ([2], [2, 2])


def test_values_that_share_objects_stay_a_conflict() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]\nb = [a]", side="a.append(2)", main="a.append(3)")
        with pytest.raises(MergeConflictError):
            nb.session.merge("side", resolvers={list: longer})


def test_a_deletion_is_no_value_to_resolve() -> None:
    with Notebook() as nb:
        forked(nb, base="a = [1]", side="del a", main="a = [3]")
        with pytest.raises(MergeConflictError):
            nb.session.merge("side", resolvers={list: longer})
