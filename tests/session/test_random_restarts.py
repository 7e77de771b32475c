"""Any cells with restarts anywhere between them, and every way to go on after one: nothing is lost, nothing comes unasked.

The model runs the same cells in two plain dicts: what lives, and what the branch carries since a restart.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agent_kernel.errors import MergeConflictError, NothingToUndoError
from agent_kernel.repository import hex_of
from agent_kernel.session import Repository, bind, history
from agent_kernel.storage import MemoryStore
from tests.session.portraits import portrait
from tests.session.test_random_histories import guarded
from tests.support.notebooks import Notebook

pytest.importorskip("numpy")

NAMES = ("a", "b", "c", "d", "e")
State = dict[str, object]
SETUP = "class Node:\n    def __init__(self, **values):\n        self.__dict__.update(values)"
name = st.sampled_from(NAMES)
value = st.sampled_from(
    ["[]", "[1, [2]]", "{'k': [1]}", "'text'", "3", "Node(x=[1])", "Node", "[{'i': i} for i in range(1500)]"]
)


@st.composite
def cells(draw: st.DrawFn) -> str:
    x, y = draw(name), draw(name)
    lines = [
        f"{x} = {draw(value)}",
        f"{x} = {y}",
        f"{x} = [{x}, {y}]",
        f"{x} = Node(left={x}, right={y})",
        f"{x}.append({y})",
        f"{x}[0] = {y}",
        f"vars({x})['left'] = [{y}]",
        f"del {x}",
        "class Node:\n    def __init__(self, **values):\n        self.__dict__.update(values, new=True)",
        SETUP,
    ]
    return guarded(draw(st.sampled_from(lines)))


steps = st.one_of(
    st.tuples(st.just("run"), st.lists(cells(), min_size=1, max_size=3).map("\n".join)),
    st.tuples(st.just("run"), st.lists(cells(), min_size=1, max_size=3).map("\n".join)),
    st.tuples(st.sampled_from(["restart", "checkout", "undo", "redo", "leave behind"]), st.just("")),
    st.tuples(st.just("take"), name),
    st.tuples(st.sampled_from(["rollback", "visit"]), st.integers(0, 30).map(str)),
)


class Model:
    """A notebook beside the two dicts that it should be equal to."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.live: State = {}
        self.carried: State = {}
        self.kept: dict[str, tuple[State, State]] = {}  # by commit
        self.ours: set[str] = set()  # commits of this session
        self.done: list[tuple[State, State]] = []
        self.undone: list[tuple[State, State]] = []
        self.start()

    def start(self) -> None:
        self.nb = Notebook(Repository.open(self.store))
        self.nb.__enter__()

    def stop(self) -> None:
        self.nb.__exit__(None, None, None)

    def keep(self) -> tuple[State, State]:
        return copy.deepcopy(self.live), copy.deepcopy(self.carried)

    def step(self, kind: str, what: str) -> None:
        before, head, looked = self.keep(), self.nb.session.head, self.looks()
        moved = bool(getattr(self, "do_" + kind.replace(" ", "_"))(what))
        self.check()
        if self.nb.session.head is not None and self.nb.session.head != head and not moved:
            self.ours.add(hex_of(self.nb.session.head))
            self.kept[hex_of(self.nb.session.head)] = self.keep()
        if kind not in ("undo", "redo", "restart") and (moved or self.looks() != looked):
            self.done.append(before)
            self.undone.clear()

    def looks(self) -> object:
        """What undo can take back: another tree, or other names of it in memory."""
        return self.nb.repo.tree_at(self.nb.session.head).id, set(self.carried)

    def do_run(self, source: str) -> None:
        self.nb.run(source)
        self.live["__name__"] = "__main__"
        exec(source, self.live)
        self.live = {key: found for key, found in self.live.items() if not key.startswith("__")}
        self.carried = {key: found for key, found in self.carried.items() if key not in self.live}

    def do_restart(self, _: str) -> None:
        self.stop()
        self.carried = copy.deepcopy({**self.carried, **self.live})
        self.live = {}
        self.ours.clear()
        self.done.clear()
        self.undone.clear()
        self.start()
        assert self.nb.variables() == set()

    def do_checkout(self, _: str) -> bool:
        if self.nb.session.head is None or self.nb.session.branch is None:
            return False
        self.nb.checkout()
        self.live, self.carried = {**self.carried, **self.live}, {}
        return True

    def do_leave_behind(self, _: str) -> None:
        self.nb.session.leave_behind()
        self.carried = {}

    def do_take(self, wanted: str) -> None:
        if wanted in self.carried:
            self.nb.checkout("HEAD", names=[wanted])
            self.settle({**self.carried, **self.live}, set(self.live) | {wanted})

    def do_undo(self, _: str) -> None:
        if not self.done:
            with pytest.raises(NothingToUndoError):
                self.nb.session.undo()
            return
        now = self.keep()
        self.nb.session.undo()
        self.live, self.carried = self.done.pop()
        self.undone.append(now)

    def do_redo(self, _: str) -> None:
        if not self.undone:
            return
        now = self.keep()
        self.nb.session.redo()
        self.live, self.carried = self.undone.pop()
        self.done.append(now)

    def do_rollback(self, number: str) -> None:
        self.go(number, self.nb.rollback)

    def do_visit(self, number: str) -> bool:
        self.go(number, self.nb.checkout)
        return True

    def go(self, number: str, how: Callable[[str], object]) -> None:
        rev = list(self.kept)[int(number) % len(self.kept)]
        live, carried = copy.deepcopy(self.kept[rev])
        stay = set(carried) & set(self.carried) if rev in self.ours else set[str]()
        how(rev)
        self.settle({**carried, **live}, (set(live) | set(carried)) - stay)

    def settle(self, state: State, least: set[str]) -> None:
        """At least these names live now: those that share something with them came along."""
        there = self.nb.variables()
        assert least <= there <= set(state)
        self.live = {key: found for key, found in state.items() if key in there}
        self.carried = {key: found for key, found in state.items() if key not in there}

    def check(self) -> None:
        session = self.nb.session
        assert portrait(self.nb.namespace) == portrait(self.live)
        tree = session.repo.tree_at(session.head)
        names = set(tree.names())
        assert {found for found in names if not found.startswith("\0")} == set(self.live) | set(self.carried)
        assert set(session.status().carried) == set(self.carried)
        needed = history.find_needed_classes(session.repo, tree, names)
        assert needed <= names
        assert history.EntryIndex(session.repo).find_needed_classes(tree, frozenset(names)) == needed

    def end(self) -> None:
        self.stop()
        with Notebook(Repository.open(self.store)) as again:
            if again.session.head is not None:
                again.checkout("HEAD")
            assert portrait(again.namespace) == portrait({**self.carried, **self.live})
            assert again.repo.verify().is_sound


QUIET = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
histories = st.lists(steps, min_size=3, max_size=14)


@settings(QUIET, max_examples=20)
@given(histories)
def test_nothing_is_lost_and_nothing_comes_unasked(history: list[tuple[str, str]]) -> None:
    go_through(history)


@pytest.mark.slow
@settings(QUIET, max_examples=200)
@given(histories)
def test_nothing_is_lost_and_nothing_comes_unasked_in_many_histories(history: list[tuple[str, str]]) -> None:
    go_through(history)


def go_through(history: list[tuple[str, str]]) -> None:
    model = Model()
    try:
        model.step("run", SETUP)
        for kind, what in history:
            model.step(kind, what)
    except BaseException:
        model.stop()
        raise
    model.end()


some_cells = st.lists(cells(), min_size=1, max_size=3)


@settings(QUIET, max_examples=20)
# What one side alone made stays, whatever is chosen of what it shares objects with.
@example(before=["a = []"], ours=["b = a"], theirs=["a = [1, [2]]"], back=False)
@given(some_cells, some_cells, some_cells, st.booleans())
def test_two_kernels_take_over_what_the_other_made_and_deleted_and_nothing_else(
    before: list[str], ours: list[str], theirs: list[str], back: bool
) -> None:
    merge_two_kernels(before, ours, theirs, back=back)


@pytest.mark.slow
@settings(QUIET, max_examples=200)
@given(some_cells, some_cells, some_cells, st.booleans())
def test_two_kernels_take_over_what_the_other_made_in_many_histories(
    before: list[str], ours: list[str], theirs: list[str], back: bool
) -> None:
    merge_two_kernels(before, ours, theirs, back=back)


def merge_two_kernels(before: list[str], ours: list[str], theirs: list[str], *, back: bool) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as one:
        one.run("\n".join([SETUP, *before]))
        forked = one.variables()
        with Notebook(Repository.open(store)) as two:
            made: set[str] = set()
            for cell in theirs:
                two.run(cell)
                made |= two.variables()
            there = two.variables()
            # What the other kernel never had in memory is still on its branch; what it made and deleted is not.
            on_branch = there | forked - made
            for cell in ours:
                one.run(cell)
            here = one.variables()
            chosen: set[str] = set()
            try:
                one.session.merge("main-2")
            except MergeConflictError as error:
                asked = {name for name, _, _ in error.conflicts}
                # One choice is for all that share objects, as the error says.
                chosen = asked.union(*error.together)
                one.session.merge("main-2", theirs=asked)
            merged = one.variables()
            assert merged & chosen == on_branch & chosen
            stay = here & on_branch | here - forked
            assert stay - chosen | there - forked <= merged <= stay | there
            assert portrait(one.namespace) == portrait(held_at(one))
            if back:
                two.session.merge("main")
                live = two.variables()
                assert portrait(two.namespace) == portrait(
                    {name: found for name, found in held_at(two).items() if name in live}
                )
                assert set(two.session.status().carried) == one.variables() - live
        assert one.repo.verify().is_sound


def held_at(nb: Notebook) -> State:
    """What a fresh kernel loads of the commit that this one is at."""
    assert nb.session.head is not None
    namespace: State = {"__name__": "__main__"}
    session = bind(namespace, nb.repo, branch="look")
    session.checkout(hex_of(nb.session.head))
    session.close()
    return namespace
