"""Every kind of object comes back: after its names were deleted, and in a new process."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fidelity.kinds import KINDS, Kind
from tests.support.elsewhere import Sheet, SheetResult, elsewhere, work
from tests.support.notebooks import Main, Notebook

# What libraries warn of while they are imported and used by the cells is theirs.
pytestmark = pytest.mark.filterwarnings("ignore")
each_kind = pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.title) for kind in KINDS])


@cache
def made_plainly(kind: Kind) -> dict[str, str]:
    """Run a kind's cell with nothing watching, and return the type of every name that it makes."""
    with Main() as main:
        main.execute(kind.cell)
        return {name: type_of(main.namespace[name]) for name in main.variables()}


def type_of(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def type_checks(kind: Kind) -> str:
    """Assertions that every name is there again with exactly the type that it had."""
    kinds = "{kind.__module__}.{kind.__qualname__}"
    return "".join(
        f"kind = type({name})\nassert f{kinds!r} == {expected!r}, {name!r}\n"
        for name, expected in made_plainly(kind).items()
    )


def skip_without(kind: Kind) -> None:
    for package in kind.needs:
        pytest.importorskip(package)


@pytest.mark.sampled
@each_kind
def test_the_checks_hold_for_the_object_as_it_was_made(kind: Kind) -> None:
    skip_without(kind)
    with Main() as main:
        main.execute(kind.cell)
        main.execute(kind.checks)


@pytest.mark.sampled
@each_kind
def test_a_kind_comes_back_after_its_names_were_deleted(kind: Kind) -> None:
    skip_without(kind)
    with Notebook() as nb:
        made = nb.run(kind.cell)
        assert made.unsaved == ()
        names = nb.variables()
        nb.run(f"del {', '.join(sorted(names))}")
        assert not nb.variables()
        nb.checkout(made)
        assert nb.variables() == names
        nb.execute(type_checks(kind))
        nb.execute(kind.checks)


@pytest.mark.sampled
@each_kind
def test_a_kind_that_is_only_mentioned_has_not_changed(kind: Kind) -> None:
    skip_without(kind)
    with Notebook() as nb:
        made = nb.run(kind.cell)
        names = ", ".join(sorted(nb.variables()))
        assert nb.run(f"{names}").changed == ()
        nb.run(f"del {names}")
        nb.checkout(made)
        assert nb.run(f"{names}").changed == ()
        again = nb.session.commit("all of it", full=True)
        assert again.changed == ()
        assert again.record is not None
        assert made.record is not None
        assert again.record.tree == made.record.tree


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, Kind]]:
    """One store for each kind that is asked about and can be made here, so that a kind which fails costs only itself."""
    base = tmp_path_factory.mktemp("round-trip")
    asked = {
        item.callspec.params["kind"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == test_a_kind_comes_back_in_a_new_process.__name__
    }
    return {
        kind.title: (str(base / str(number)), kind)
        for number, kind in enumerate(KINDS)
        if kind in asked and all(find_spec(package) for package in kind.needs)
    }


@pytest.fixture(scope="module")
def made(stores: dict[str, tuple[str, Kind]]) -> dict[str, SheetResult]:
    """The cells of these kinds, each run in a notebook of its own by this process, which has the libraries already."""
    return {title: work(Sheet(store, (kind.cell,))) for title, (store, kind) in stores.items()}


@pytest.fixture(scope="module")
def checked_elsewhere(stores: dict[str, tuple[str, Kind]], made: dict[str, SheetResult]) -> dict[str, SheetResult]:
    """The same stores, checked out by another process."""
    del made  # it must have run
    return elsewhere(
        {
            title: Sheet(store, checkout=True, checks=(type_checks(kind), kind.checks))
            for title, (store, kind) in stores.items()
        }
    )


@pytest.mark.sampled
@each_kind
def test_a_kind_comes_back_in_a_new_process(
    kind: Kind, made: dict[str, SheetResult], checked_elsewhere: dict[str, SheetResult]
) -> None:
    skip_without(kind)
    saved, checked = made[kind.title], checked_elsewhere[kind.title]
    assert not saved.error, saved.error
    assert saved.unsaved == ()
    assert not checked.error, checked.error
    assert not checked.failed, "\n".join(checked.failed)


def test_there_are_enough_kinds_and_each_has_its_own_title(tmp_path: Path) -> None:
    assert len(KINDS) >= 80
    assert len({kind.title for kind in KINDS}) == len(KINDS)
    assert all(compile(kind.checks, str(tmp_path), "exec") for kind in KINDS)
