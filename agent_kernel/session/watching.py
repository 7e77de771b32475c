"""A namespace and what is remembered of it: notice what changed, and say what a commit of it has to hold."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, compress, islice
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from agent_kernel.repository import Repository, Unsaved, Writer
from agent_kernel.session import pyplot, touching
from agent_kernel.session.bindings import BUILTIN_IDS, HELD_BYTES, Bindings, Rebound
from agent_kernel.session.interrupts import noted_interrupts
from agent_kernel.session.living import Living
from agent_kernel.session.monitoring import Monitor
from agent_kernel.session.tracking import LEAST_COST_S, Group, Tracking
from agent_kernel.values import references
from agent_kernel.values.entries import CLASS_PREFIX
from agent_kernel.values.lost import loss_of
from agent_kernel.values.quiet import unwarned
from agent_kernel.values.references import HELD, is_named
from agent_kernel.values.summaries.reading import derives_from
from agent_kernel.values.surface import Held

if TYPE_CHECKING:
    from agent_kernel.session.dumping import Staged
    from agent_kernel.session.staging import Staging

# Time for looking at what nothing points to, in seconds a cell. A person's cells, seconds apart, get all of it; a loop of
# cells pays a share of the time that it takes.
_ROLLING_S, _LEAST_ROLLING_S, _ROLLING_SHARE = 2e-3, 3e-4, 0.02
_MOST_CREDIT_S = 1.0
_SMALL_BYTES = 20_000
_WORTH_IT_S = 0.005  # to look at a group for: what takes less is looked at also where an attribute is called like it
# The namespace's, that of a witness, and one of getrefcount's caller.
_EXPLAINED_REFERENCES = 3
_MOST_COUNTED = 500  # containers whose references are counted after a cell; of more than that, each has its turn


class Touched(msgspec.Struct, frozen=True):
    """What to look at in a commit: names by code, and names whose binding moved."""

    names: frozenset[str]
    rebound: Rebound
    everything: bool
    full: bool = False  # as before a checkout: alias changes that leave all contents equal count too
    asked: bool = False  # so do values of gigabytes that are new
    grouped: frozenset[str] = frozenset()  # of the names: those that are only saved together with what code names

    def with_checked(self, names: Iterable[str], *, asked: bool) -> Touched:
        """The same, and these names, which are looked at though no code names them."""
        more = frozenset(names)
        return msgspec.structs.replace(self, names=self.names | more, asked=asked, grouped=self.grouped - more)


def _commits_of_cells(repo: Repository, session: str, numbers: Collection[int]) -> Mapping[int, str]:
    from agent_kernel.session.unloaded import commits_of_cells

    return commits_of_cells(repo, session, numbers)


class Watching:
    """The part of a workspace that looks at the namespace and never alters it."""

    def __init__(
        self,
        namespace: dict[str, object],
        repo: Repository,
        is_versioned: Callable[[str], bool],
        living: Living | None = None,
    ) -> None:
        self.namespace: dict[str, object] = namespace
        self.repo = repo
        self.tracking = Tracking()
        self.bindings = Bindings(is_versioned)
        self.living = living or Living()
        self.living.go_on(partial(_commits_of_cells, repo))
        self.callbacks: Callable[[], Iterable[object]] = tuple
        self.outputs: Callable[[], Iterable[object]] = tuple
        self.after_load: Callable[[], object] = tuple  # what the door does when values were built
        self.syntax = touching.Syntax()
        # Whether to show a value as what a cell gives runs nothing but the `repr` of its type.
        self.is_only_described: Callable[[object], bool] = lambda _: False
        self._figures: object = None
        self.monitor = Monitor(namespace)
        self._beside = Held()
        self.ran_between = False  # whether code ran that was no cell's, since the last commit looked
        self._source, self._words = "", set[str]()
        self._owed: frozenset[str] = frozenset()  # what cells touched whose commits failed
        references.begin()
        self._turn = 0
        self._credit_s = 0.0
        self._looked_at = time.monotonic()
        self._dearest_s = 0.0
        self._counted = 0
        self._held: dict[str, None] = {}
        self._awaited: list[object] = []  # replaced objects at whose death something would be called

    def running_threads(self) -> list[str]:
        """Threads other than this one whose code is the notebook's."""
        frames = touching.frames_of_threads()
        return [
            thread.name
            for thread in threading.enumerate()
            if touching.runs_notebook_code(frames.get(thread.ident or 0), self.namespace)
        ]

    def is_lost(self, name: str) -> bool:
        return loss_of(self.namespace.get(name)) is not None

    def losses(self) -> tuple[Unsaved, ...]:
        """What of the present state is not saved."""
        never = (lost for group in self.tracking for lost in self.living.told_now(group.lost, group.losses))
        return (*never, *self.unloaded())

    def unloaded(self) -> tuple[Unsaved, ...]:
        """What is stored of the present state and could not be loaded."""
        groups = [group.unloaded for group in self.tracking.unloaded if group.unloaded is not None]
        return tuple(told for _, told in sorted((name, told) for group in groups for name, told in group.told.items()))

    def touched(self, source: str, *, everything: bool = False) -> Touched:
        """What a cell with this source may have changed."""
        rebound = self.bindings.changed(self.namespace)
        closure = touching.Closure(self.namespace, self.tracking)
        with unwarned():
            uses = touching.uses_of(source, self.syntax.transform)
            self._source, self._words = source, uses.words
            closure.everything = everything
            closure.mark(uses.marks)
        if not closure.everything:
            closure.add(uses.words - self._only_shown(source) - self._not_used(source, uses.words))
            beside = self._running_beside(uses)
            closure.add_code_names(beside.names)
            found = chain(self._owed, rebound.rebound, self._holding(beside.ids))
            closure.add(chain(found, *(group.members for group in self.tracking.stale)))
            if self.ran_between:
                closure.add(name for group in self.tracking for name in group.members if group.holders)
            self.ran_between = False
        names: Iterable[str] = closure.touched
        if closure.everything:
            groups = self.tracking.groups
            looked = uses.words | self._owed
            names = groups if everything else looked & groups.keys() | self._able_to_change(groups)
        grouped = frozenset[str]() if closure.everything else closure.grouped
        return Touched(frozenset(names), rebound, closure.everything, everything, grouped=grouped)

    def _running_beside(self, uses: touching.Uses) -> Held:
        """What code other than the cell's own may have changed while it ran: names that it uses, and ids of objects."""
        called = self._called_by(uses.magics)
        shown = map(id, self.outputs()) if touching.mentions_outputs(uses.words) else ()
        running = touching.running_code_names(self.namespace)
        return Held(
            {*self.monitor.names, *running, *self._beside.names, *called.names},
            {
                *(*self.monitor.ids, *self._beside.ids, *called.ids, *shown),
                *(*self._drawn_on(), *touching.held_by_log_handlers()),
            },
        )

    def _able_to_change(self, names: Iterable[str]) -> set[str]:
        """Without names that only another binding can change: atoms, and what was saved as a mere name of a module."""
        return {
            name for name in names if (group := self.tracking.groups.get(name)) is None or not self._is_fixed(group)
        }

    def _is_fixed(self, group: Group) -> bool:
        if group.stale:
            return False
        return self.tracking.is_settled(group) or is_named(*group.place, self.namespace.get(group.members[0]))

    def begin(self) -> None:
        """A cell begins."""
        self._figures = pyplot.watch_figures()
        self._beside = self._called_from_outside()
        self._beside.names |= touching.running_code_names(self.namespace)
        self.monitor.start()

    def _called_from_outside(self) -> Held:
        """What handlers and tasks may use that run in the middle of any cell: those that are there as it begins.

        Some are gone when it ends; and of those that it makes itself, its own code tells.
        """
        hooks = (*self.callbacks(), *touching.hooks_of_process())
        own = [hook for hook in hooks if touching.calls_notebook(hook, self.namespace)]
        return touching.used_by(own, self.namespace)

    def _called_by(self, magics: Iterable[str]) -> Held:
        """What magics may use that are not IPython's own."""
        found = Held()
        for function in filter(None, map(self.syntax.magic, magics)):
            if touching.calls_notebook(function, self.namespace):
                held = touching.used_by([function], self.namespace)
                found.names |= held.names
                found.ids |= held.ids
            else:
                found.names |= touching.marks_of(function)
        return found

    def _drawn_on(self) -> set[int]:
        """The ids of figures that may have changed through pyplot, which need not be named for that."""
        found = pyplot.changed_figures(self._figures)
        return pyplot.open_figures() if found is None else found

    def _only_shown(self, source: str) -> set[str]:
        """The name of a library's object with nothing of the notebook's in it, if all that a cell does is to show that."""
        name = touching.shown_name(source)
        group = self.tracking.groups.get(name)
        if group is None or group.globals_used or group.classes or group.losses:
            return set()
        return {name} if self.is_only_described(self.namespace.get(name)) else set()

    def _not_used(self, source: str, words: set[str]) -> set[str]:
        """Variables that the source does not use, though it has attributes or keys that are called like them.

        Only where to look at them takes long, for a library's object may still lead to them: `logger.rows.append(1)`.
        """
        groups = self.tracking.groups
        dear = {
            name
            for name in words & groups.keys()
            if groups[name].cost_s > _WORTH_IT_S
            and groups[name].size > _SMALL_BYTES
            and id(self.namespace.get(name)) not in HELD
        }
        return touching.not_used(source, dear, self.namespace) if dear else dear

    def _holding(self, ids: set[int]) -> set[str]:
        return {name for group in self.tracking.holding(ids) for name in group.members}

    def stage(self, touched: Touched, writer: Writer) -> Staged:
        """Dump what was touched, and what new code reaches from there, and store what changed."""
        from agent_kernel.session.staging import Staging

        with unwarned(), noted_interrupts() as self.living.arrived:
            return self._staged(
                Staging(self.namespace, self.tracking, self.living, writer, touched.full, touched.asked), touched
            )

    def _staged(self, staging: Staging, touched: Touched) -> Staged:
        rebound = touched.rebound
        moved = rebound.new | rebound.rebound | rebound.removed
        self._adopt_reruns(moved)
        done = set(filter(self._is_saved, touched.names)) | rebound.new | rebound.rebound
        staging.leave_out(rebound.removed)
        follow = staging.add(sorted(done), moved, touched.grouped)
        done -= staging.left_alone
        while follow:
            closure = touching.Closure(self.namespace, self.tracking)
            closure.add_code_names(follow - done)
            reached = closure.touched
            if closure.everything:
                reached = self._able_to_change({*self.bindings.names(self.namespace), *self.tracking.groups})
            more = set(filter(self._is_saved, reached)) - done
            grouped = frozenset[str]() if closure.everything else closure.grouped
            follow = staging.add(sorted(more), moved, grouped) - (done | more | follow)
            done = (done | more | follow) - staging.left_alone
        return staging.finish(rebound.removed)

    def _adopt_reruns(self, moved: frozenset[str]) -> None:
        """Let classes that a cell made again go on as the ones that they were."""
        groups = self.tracking.groups
        if any(
            derives_from(type(self.namespace.get(name)), type) and groups[name].classes
            for name in moved & groups.keys()
        ):
            from agent_kernel.session.reruns import adopt_reruns

            adopt_reruns(self.namespace, self.tracking, self.living, moved)

    def _is_saved(self, name: str) -> bool:
        return name in self.tracking.groups or self.bindings.is_versioned(name)

    def put_off(self, touched: Touched, error: Exception) -> tuple[Unsaved, ...]:
        """Staging failed: the next commit looks at all of this again. Returns what to say of it.

        Bindings are not noted, so those that moved have moved for the next commit too.
        """
        from agent_kernel.values.pickler import explain, type_name

        names = touched.names | touched.rebound.new | touched.rebound.rebound
        for group in {id(group): group for name in names if (group := self.tracking.groups.get(name))}.values():
            self.tracking.mark_stale(group)
        reason = f"saving failed ({type(error).__name__}: {explain(error)})"
        return tuple(
            Unsaved(name, type_name(type(self.namespace[name])), reason, "the next cell tries again")
            for name in sorted(names)
            if name in self.namespace and not name.startswith(CLASS_PREFIX)
        )

    def look_again(self, touched: Touched, staged: Staged | None) -> None:
        """The commit failed: the next one looks at all that this one looked at for a cell, or found changed."""
        changed = () if staged is None else staged.dropped.values()
        self._owed |= touched.names | {name for group in changed for name in group.members}

    def accept(self, staged: Staged) -> None:
        """The staged state was published: it is now what the next look compares with."""
        for group in staged.dropped.values():
            self.tracking.remove(group)
        self.tracking.moved.clear()
        self._owed = frozenset()
        self._turn += 1
        for group, dumped in staged.unchanged:
            if id(group) not in staged.dropped:
                self.tracking.looked_at(group, self._turn)
                group.cost_s = dumped.seconds
                if dumped.segments is not None and not dumped.reach.deferred:  # equal objects may be others now
                    group.marks = dumped.segments.marks
                self._bind(group)
        for name, entry in staged.entries.items():
            if entry is None:
                self.bindings.unbind(name)
        for group in staged.groups:
            group.checked = self._turn
            self.tracking.add(group)
            self._bind(group)
        self.bindings.note(self.namespace, as_looked=True)
        holding = self.tracking.holding_parts
        self.living.let_go_of_pins((loss.token for group in holding for loss in group.losses), self.namespace)
        self._note_handed()

    def _note_handed(self) -> None:
        """Remember which functions the cell gave to what cannot be saved."""
        holders: dict[str, frozenset[str]] = {}
        for name in self._words:
            group, module = self.tracking.groups.get(name), touching.module_holder(self.namespace.get(name))
            if module or (group is not None and group.holders):
                holders[name] = frozenset({module}) if group is None or module else group.holders
        source, self._source, self._words = self._source, "", set[str]()
        if not holders or not source:
            return
        with unwarned():
            handed = touching.handed_over(source, self.syntax.transform, set(holders), self.namespace)
        for name, used in handed.items():
            for token in holders[name] if used else ():
                self.tracking.handed[token] = self.tracking.handed.get(token, frozenset()) | used

    def _bind(self, group: Group) -> None:
        for name in group.members:
            value = self.namespace.get(name, self)
            if not name.startswith(CLASS_PREFIX) and value is not self:
                plain = id(type(value)) in BUILTIN_IDS and not group.classes and not group.losses
                small = plain and group.size <= HELD_BYTES and not group.reach.memory
                self.bindings.bind(name, value, small=small)
        if group.unloaded is not None or all(map(self.bindings.is_settled, group.members)):
            self.tracking.settle(group)

    # -- rolling verification

    def overdue(self, touched: Touched) -> list[str]:
        """Names to look at although nothing points to them, as many as fit into the time that was saved up.

        Those that someone else holds come first, then those not looked at for longest. A large value waits until enough
        time was saved.
        """
        now = time.monotonic()
        earned = _LEAST_ROLLING_S + min(_ROLLING_S, _ROLLING_SHARE * (now - self._looked_at))
        self._credit_s = min(self._credit_s + earned, max(_MOST_CREDIT_S, self._dearest_s))
        self._looked_at = now
        chosen: list[str] = []
        left = self._credit_s
        self._dearest_s = 0.0
        for group in self._waiting():
            cost = max(group.cost_s, LEAST_COST_S)
            self._dearest_s = max(self._dearest_s, cost)
            if cost > left:
                # It waits until enough was saved; younger ones may use half of what each cell adds.
                left = min(left, earned / 2)
                if left < LEAST_COST_S:
                    break
            elif touched.names.isdisjoint(group.members) or self._may_be_left_alone(group, touched.grouped):
                left -= cost
                self._credit_s -= cost
                chosen.extend(group.members)
        return chosen

    def _may_be_left_alone(self, group: Group, grouped: frozenset[str]) -> bool:
        """Whether code names of the group only what leads to data, so that the rest may not be looked at."""
        return all(name in grouped or group.data.get(name) for name in group.members)

    def _waiting(self) -> Iterator[Group]:
        suspects = {id(group): group for name in self._held_by_others() if (group := self.tracking.groups.get(name))}
        yield from sorted(suspects.values(), key=attrgetter("checked"))  # in turn, or the first would take all the time
        yield from (group for group in self.tracking.by_age() if id(group) not in suspects)

    def _held_by_others(self) -> list[str]:
        """Names of builtin containers with more references than the namespace and our own witness explain."""
        containers, namespace = self.bindings.containers, self.namespace
        some = list(islice(containers, self._counted, self._counted + _MOST_COUNTED))
        self._counted = 0 if self._counted + len(some) >= len(containers) else self._counted + len(some)
        counts = map(sys.getrefcount, map(namespace.get, some))
        found: Iterable[str] = compress(some, map(_EXPLAINED_REFERENCES.__lt__, counts))
        if self._held:
            looked_at = set(some)
            found = chain((name for name in self._held if name in containers and name not in looked_at), found)
        self._held = dict.fromkeys(found)
        if not self._held:
            return []
        shown = {id(value) for value in self.outputs()}
        return [name for name in self._held if id(namespace.get(name)) not in shown]

    def unwritable(self) -> tuple[Unsaved, ...]:
        """Variables whose names no store can hold."""
        from agent_kernel.values.pickler import type_name

        return tuple(
            Unsaved(repr(name)[1:-1], type_name(type(self.namespace[name])), "its name is not valid text", "rename it")
            for name in sorted(self.bindings.unwritable)
            if name in self.namespace
        )

    def unverified(self) -> list[str]:
        """Names that were not looked at since the last commit that looked at everything."""
        return [name for group in self.tracking.by_age() for name in group.members if group.checked < self._turn]
