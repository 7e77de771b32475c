"""Connections to one database in memory come back as that: what is written through one is read through the other."""

from __future__ import annotations

from itertools import count

import pytest

from tests.support.notebooks import Notebook, names_changed

_databases = count(1)
COUNTS = "[one.execute('select count(*) from t').fetchone()[0] for one in (c, other)]"


def connect(place: str = "") -> str:
    place = place or f"'file:of_a_test_{next(_databases)}?mode=memory&cache=shared', uri=True"
    return (
        f"import sqlite3\nc, other = sqlite3.connect({place}), sqlite3.connect({place})\n"
        "c.execute('create table t(n)').close()\nc.execute('insert into t values(1)')\nc.commit()"
    )


@pytest.mark.parametrize("place", ["", "'file::memory:?cache=shared', uri=True"])
def test_two_connections_to_one_database_in_memory_are_two_connections_to_one_again(place: str) -> None:
    with Notebook() as nb:
        nb.run(connect(place))
        made = nb.run("other.row_factory = sqlite3.Row")
        assert names_changed(nb.run("other.execute('insert into t values(2)')\nother.commit()")) == {"c", "other"}
        nb.checkout(made)
        assert nb.look(COUNTS) == [1, 1]
        assert names_changed(nb.run("c.execute('insert into t values(3)')\nc.commit()")) == {"c", "other"}
        assert nb.look(COUNTS) == [2, 2]
    with Notebook(nb.repo) as again:
        again.checkout()
        again.run("other.execute('delete from t')\nother.commit()")
        assert again.look(COUNTS) == [0, 0]
        assert again.look("[one.row_factory for one in (c, other)] == [None, sqlite3.Row]")


def test_so_they_are_below_other_objects() -> None:
    with Notebook() as nb:
        made = nb.run(
            f"{connect()}\nheld = {{'c': [c]}}\nfrom types import SimpleNamespace\npool = SimpleNamespace(one=other)\ndel c, other"
        )
        nb.run("del held, pool")
        nb.checkout(made)
        nb.run("c, other = held['c'][0], pool.one\nc.execute('insert into t values(2)')\nc.commit()")
        assert nb.look(COUNTS) == [2, 2]


def test_what_is_only_looked_at_is_another_database() -> None:
    with Notebook() as nb:
        made = nb.run(connect())
        assert made.commit is not None
        past = nb.repo.at("HEAD")
        found, beside = past["c"], past["other"]
        found.execute("insert into t values(2)")  # type: ignore[attr-defined]
        found.commit()  # type: ignore[attr-defined]
        assert nb.look(COUNTS) == [1, 1]
        assert beside.execute("select count(*) from t").fetchone() == (2,)  # type: ignore[attr-defined]
        assert nb.repo.at("HEAD")["c"].execute("select count(*) from t").fetchone() == (1,)  # type: ignore[attr-defined]


def test_other_databases_in_memory_stay_apart() -> None:
    with Notebook() as nb:
        nb.run(connect("':memory:'") + "\nother.execute('create table t(n)').close()\nother.commit()")
        assert names_changed(nb.run("c.execute('insert into t values(2)')\nc.commit()")) == {"c"}


def test_an_open_transaction_of_one_connection_is_told_of_the_other_too() -> None:
    with Notebook() as nb:
        nb.run(connect())
        made = nb.run("c.execute('insert into t values(2)')")
        assert {lost.name for lost in made.unsaved} == {"c", "other"}
        assert all("while a transaction is open" in lost.reason for lost in made.unsaved)
        assert nb.run("c.commit()").unsaved == ()
        nb.checkout("HEAD")
        assert nb.look(COUNTS) == [2, 2]


def test_two_connections_with_functions_of_their_own_name_these() -> None:
    with Notebook() as nb:
        made = nb.run(f"{connect()}\nc.create_function('twice', 1, lambda n: 2 * n)")
        assert [(lost.name, lost.reason) for lost in made.unsaved] == [
            ("c", "functions of a database connection cannot be saved: twice")
        ]
    with Notebook(nb.repo) as again:
        again.checkout()
        again.run("other.execute('insert into t values(2)')\nother.commit()")
        assert again.look(COUNTS) == [2, 2]
