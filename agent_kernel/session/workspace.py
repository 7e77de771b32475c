"""The live side of a session: a namespace, what is remembered of it, what changed in it, and another state taken on whole or not at all.

It knows trees and values, not history: `Session` decides what a change becomes.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from operator import attrgetter, itemgetter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.quiet import noted_interrupts, uninterrupted, unwarned
from agent_kernel.repository import Entry, Manifest, ObjectId, Repository, Tree, Unsaved, Writer
from agent_kernel.session import dependencies
from agent_kernel.session.tracking import (
    BUILTIN_IDS,
    HELD_BYTES,
    LEAST_COST_S,
    Bindings,
    Group,
    Living,
    Rebound,
    Tracking,
    commits_of_cells,
)
from agent_kernel.values import CLASS_PREFIX, class_entry, list_for_person, references
from agent_kernel.values.definitions import variables_used
from agent_kernel.values.introspection import derives_from, root_below
from agent_kernel.values.references import MODULE_OBJECTS, is_named
from agent_kernel.values.restore.objects import set_content
from agent_kernel.values.surface import Holdings, name_placeholders, save_failure_of

if TYPE_CHECKING:
    from agent_kernel.session.loading import Built, LoadFailure, Plan
    from agent_kernel.session.serialization import Staged
    from agent_kernel.session.staging import Staging


# -- see which notebook functions really ran in a cell, where Python can tell (`sys.monitoring`, since 3.12)
#
# A callback that a library holds, or `eval` under another name, leaves no word in the cell's source. The events are asked
# for once for each code object in a cell and then switched off for it, so a hot loop costs nothing more.
#
# Other tools may use monitoring at the same time: every tool has its own number. `restart_events()` is not for us, for it
# switches on again what any tool has switched off. What ran in a cell is taken off our list as the cell ends (see `stop`).

_NAME = "agent_kernel"


class Monitor:
    """Collects the names that running notebook code uses, and the objects it was given."""

    def __init__(self, namespace: dict[str, object]) -> None:
        self.names: set[str] = set()
        self.ids: set[int] = set()
        self._namespace = namespace
        self._monitoring: Any = getattr(sys, "monitoring", None)
        self._tool: int | None = None
        self._give_back: Callable[[], object] | None = None
        self._switched_off: list[CodeType] = []

    def start(self) -> None:
        """A cell begins."""
        self.names, self.ids = set(), set()
        if self._monitoring is None:
            return
        if self._tool is None:
            self._tool = self._claim()
        if self._tool is not None:
            events = self._monitoring.events
            self._monitoring.set_events(self._tool, events.PY_START | events.PY_RESUME)

    def stop(self) -> None:
        """The cell has ended: nothing is watched until the next one.

        A code object for which an event was switched off stays so as long as Python believes that the event is wanted
        there. To want it there alone, and then not at all, makes Python forget.
        """
        if self._tool is None:
            return
        self._monitoring.set_events(self._tool, 0)
        events = self._monitoring.events
        switched_off, self._switched_off = self._switched_off, []
        for code in switched_off:
            self._monitoring.set_local_events(self._tool, code, events.PY_START | events.PY_RESUME)
            self._monitoring.set_local_events(self._tool, code, 0)

    def close(self) -> None:
        """Give the tool number back."""
        if self._give_back is not None:
            self.stop()
            self._give_back()
            self._tool = self._give_back = None

    def _claim(self) -> int | None:
        """A tool number that nobody uses; debuggers, coverage tools and profilers have fixed ones (0, 1, 2, 5)."""
        for tool in (4, 3):
            if self._monitoring.get_tool(tool) is None:
                self._monitoring.use_tool_id(tool, _NAME)
                # There are few numbers: a session that nobody closed gives its own back as it goes.
                self._give_back = finalizer = weakref.finalize(self, _give_back, self._monitoring, tool)
                finalizer.atexit = False
                events = self._monitoring.events
                for event in (events.PY_START, events.PY_RESUME):
                    self._monitoring.register_callback(tool, event, _callback(self, self._monitoring.DISABLE))
                return tool
        return None

    def note_frame(self, code: CodeType, frame: FrameType) -> None:
        """A frame begins to run."""
        if frame.f_globals is self._namespace and frame.f_code is code:
            self._switched_off.append(code)
            if not _only_shows(code):
                self.names.update(variables_used(code))
            if code.co_flags & _OPTIMIZED:  # a function, whose locals are its arguments now; a cell's are the namespace
                self.ids.update(map(id, frame.f_locals.values()))


def _callback(monitor: Monitor, disable: object) -> Callable[[CodeType, int], object]:
    """What Python calls. It keeps what it is given for good, so not the monitor, which leads to all of a notebook."""
    found = weakref.ref(monitor)

    def note_start(code: CodeType, _: int) -> object:
        alive = found()
        if alive is not None:
            alive.note_frame(code, sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # the frame that begins to run
        return disable

    return note_start


def _give_back(monitoring: Any, tool: int) -> None:
    monitoring.set_events(tool, 0)
    monitoring.free_tool_id(tool)


def _only_shows(code: CodeType) -> bool:
    """Whether the code is a line with one name in it, which is shown and given to nobody."""
    return len(code.co_names) == 1 and code.co_code in _SHOWING


_SHOWING = frozenset(compile("name", "", mode).co_code for mode in ("single", "exec"))
_OPTIMIZED = 0x1  # inspect.CO_OPTIMIZED


# -- what a cell changed, and what a commit has to hold

# Time for looking at what nothing points to, in seconds a cell. A person's cells, seconds apart, get all of it; a loop of
# cells pays a share of the time that it takes.
_ROLLING_S, _LEAST_ROLLING_S, _ROLLING_SHARE = 2e-3, 3e-4, 0.02
_MOST_CREDIT_S = 1.0
_SMALL_BYTES = 20_000
_WORTH_IT_S = 0.005  # to look at a group for: what takes less is looked at also where an attribute is called like it
# The namespace's, that of a witness, that of the tuple of them, and one of getrefcount's caller.
_EXPLAINED_REFERENCES = 4
_MOST_COUNTED = 500  # containers whose references are counted after a cell; of more than that, each has its turn


def _count_references(names: Sequence[str], namespace: dict[str, object]) -> Iterator[int]:
    """How many references there are to what each name is bound to, this function's own included."""
    try:  # all at once: to look each up in a call of its own takes twice as long
        values = itemgetter(*names)(namespace) if len(names) > 1 else tuple(map(namespace.get, names))
    except KeyError:  # one is gone
        values = tuple(map(namespace.get, names))
    return map(sys.getrefcount, values)


class Touched(msgspec.Struct, frozen=True):
    """What to look at in a commit: names by code, and names whose binding moved."""

    names: frozenset[str]
    rebound: Rebound
    everything: bool
    full: bool = False  # as before a checkout: alias changes that leave all contents equal count too
    stores_large: bool = False  # so do values of gigabytes that are new
    grouped: frozenset[str] = frozenset()  # of the names: those that are only saved together with what code names
    used: frozenset[str] = frozenset()  # of the names: those that code names

    def with_checked(self, names: Iterable[str], *, stores_large: bool) -> Touched:
        """The same, and these names, which are looked at though no code names them."""
        more = frozenset(names)
        return msgspec.structs.replace(
            self, names=self.names | more, stores_large=stores_large, grouped=self.grouped - more
        )


class Detector:
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
        self.living.go_on(partial(commits_of_cells, repo))
        self.callbacks: Callable[[], Iterable[object]] = tuple
        self.outputs: Callable[[], Iterable[object]] = tuple
        self.after_load: Callable[[], object] = tuple  # what the interface does when values were built
        self.names_of_shell: dict[str, object] = {}  # what the interface itself put into the namespace
        self.syntax = dependencies.Syntax()
        # Whether to show a value as what a cell gives runs nothing but the `repr` of its type.
        self.is_only_described: Callable[[object], bool] = lambda _: False
        self._figures: object = None
        self.monitor = Monitor(namespace)
        self._callback_uses = Holdings()
        self.code_ran_between = False  # whether code ran that was no cell's, since the last commit looked
        self._source, self._words = "", set[str]()
        self._owed: frozenset[str] = frozenset()  # what cells touched whose commits failed
        references.begin()
        self._turn = 0
        self._credit_s = 0.0
        self._looked_at = time.monotonic()
        self._dearest_s = 0.0
        self._to_count: Iterator[str] = iter(())
        self._shared_containers: dict[str, None] = {}
        self._awaited: list[object] = []  # replaced objects at whose death something would be called

    def find_running_threads(self) -> list[str]:
        """Threads other than this one whose code is the notebook's."""
        frames = dependencies.frames_of_threads()
        return [
            thread.name
            for thread in threading.enumerate()
            if dependencies.runs_notebook_code(frames.get(thread.ident or 0), self.namespace)
        ]

    def has_placeholder(self, name: str) -> bool:
        return save_failure_of(self.namespace.get(name)) is not None

    def describe_unsaved(self) -> tuple[Unsaved, ...]:
        """What of the present state is not saved."""
        never = (
            unsaved
            for group in self.tracking
            for unsaved in self.living.describe_failures(group.unsaved, group.save_failures)
        )
        return (*never, *self.describe_load_failures())

    def describe_load_failures(self) -> tuple[Unsaved, ...]:
        """Describe what is stored of the present state and could not be loaded."""
        groups = [group.placeholders for group in self.tracking.without_values if group.placeholders is not None]
        return tuple(
            report for _, report in sorted((name, told) for group in groups for name, told in group.reports.items())
        )

    def find_touched(self, source: str, *, everything: bool = False) -> Touched:
        """Find what a cell with this source may have changed."""
        rebound = self.bindings.find_changes(self.namespace)
        closure = dependencies.Closure(self.namespace, self.tracking)
        with unwarned():
            uses = dependencies.uses_of(source, self.syntax.transform)
            self._source, self._words = source, uses.words
            closure.everything = everything
            closure.mark(uses.marks)
        if not closure.everything:
            closure.add(uses.words - self._find_displayed_only(source) - self._not_used(source, uses.words))
            others = self._find_changed_by_others(uses)
            closure.add_code_names(others.names)
            found = chain(self._owed, rebound.rebound, self._find_holders(others.ids))
            closure.add(chain(found, *(group.members for group in self.tracking.stale)))
            if self.code_ran_between:
                closure.add(name for group in self.tracking for name in group.members if group.holders)
            self.code_ran_between = False
        names: Iterable[str] = closure.touched
        if closure.everything:
            groups = self.tracking.groups
            looked = uses.words | self._owed
            names = groups if everything else looked & groups.keys() | self._able_to_change(groups)
        grouped = frozenset[str]() if closure.everything else closure.grouped
        used = uses.words & self.namespace.keys() if closure.everything else closure.touched - grouped
        return Touched(frozenset(names), rebound, closure.everything, everything, grouped=grouped, used=frozenset(used))

    def _find_changed_by_others(self, uses: dependencies.Uses) -> Holdings:
        """What code other than the cell's own may have changed while it ran: names that it uses, and ids of objects."""
        called = self._find_used_by_magics(uses.magics)
        displayed = map(id, self.outputs()) if dependencies.mentions_outputs(uses.words) else ()
        running = dependencies.find_running_names(self.namespace)
        return Holdings(
            {*self.monitor.names, *running, *self._callback_uses.names, *called.names},
            {
                *(*self.monitor.ids, *self._callback_uses.ids, *called.ids, *displayed),
                *(*self._find_changed_figures(), *dependencies.find_log_targets()),
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
        self._figures = dependencies.watch_figures()
        self._callback_uses = self._find_callbacks()
        self._callback_uses.names |= dependencies.find_running_names(self.namespace)
        self.monitor.start()

    def _find_callbacks(self) -> Holdings:
        """What handlers and tasks may use that run in the middle of any cell: those that are there as it begins.

        Some are gone when it ends; and of those that it makes itself, its own code tells.
        """
        hooks = (*self.callbacks(), *dependencies.hooks_of_process())
        own = [hook for hook in hooks if dependencies.calls_notebook(hook, self.namespace)]
        return dependencies.find_used(own, self.namespace)

    def _find_used_by_magics(self, magics: Iterable[str]) -> Holdings:
        """What magics may use that are not IPython's own."""
        found = Holdings()
        for function in filter(None, map(self.syntax.magic, magics)):
            if dependencies.calls_notebook(function, self.namespace):
                used = dependencies.find_used([function], self.namespace)
                found.names |= used.names
                found.ids |= used.ids
            else:
                found.names |= dependencies.marks_of(function)
        return found

    def _find_changed_figures(self) -> set[int]:
        """The ids of figures that may have changed through pyplot, which need not be named for that."""
        found = dependencies.find_changed_figures(self._figures)
        return dependencies.open_figures() if found is None else found

    def _find_displayed_only(self, source: str) -> set[str]:
        """The name of a library's object with nothing of the notebook's in it, if all that a cell does is to show that."""
        name = dependencies.find_displayed_name(source)
        group = self.tracking.groups.get(name)
        if group is None or group.globals_used or group.classes or group.save_failures:
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
            and id(self.namespace.get(name)) not in MODULE_OBJECTS
        }
        return dependencies.not_used(source, dear, self.namespace) if dear else dear

    def _find_holders(self, ids: set[int]) -> set[str]:
        return {name for group in self.tracking.find_holders(ids) for name in group.members}

    def stage(self, touched: Touched, writer: Writer) -> Staged:
        """Dump what was touched, and what new code reaches from there, and store what changed."""
        from agent_kernel.session.staging import Staging

        with unwarned(), noted_interrupts() as self.living.arrived:
            return self._stage(
                Staging(self.namespace, self.tracking, self.living, writer, touched.full, touched.stores_large), touched
            )

    def _stage(self, staging: Staging, touched: Touched) -> Staged:
        rebound = touched.rebound
        self.living.begin_uses(touched.used)
        moved = rebound.new | rebound.rebound | rebound.removed
        self._adopt_reruns(moved)
        # First the names as the namespace has them: what is remembered holds no second copy of each.
        done = {*rebound.new, *rebound.rebound, *filter(self._is_saved, touched.names)}
        staging.leave_out(rebound.removed)
        follow = staging.add(sorted(done), moved, touched.grouped)
        done -= staging.skipped
        while follow:
            closure = dependencies.Closure(self.namespace, self.tracking)
            closure.add_code_names(follow - done)
            reached = closure.touched
            if closure.everything:
                reached = self._able_to_change({*self.bindings.names(self.namespace), *self.tracking.groups})
            more = set(filter(self._is_saved, reached)) - done
            grouped = frozenset[str]() if closure.everything else closure.grouped
            follow = staging.add(sorted(more), moved, grouped) - (done | more | follow)
            done = (done | more | follow) - staging.skipped
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

    def postpone(self, touched: Touched, error: Exception) -> tuple[Unsaved, ...]:
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
                self.tracking.note_check(group, self._turn)
                group.cost_s = dumped.seconds
                if dumped.segments is not None and not dumped.reach.deferred:  # equal objects may be others now
                    group.marks = dumped.segments.marks
                self._bind(group)
        for group in staged.same:
            if id(group) not in staged.dropped:
                self.tracking.note_check(group, self._turn)
                group.cost_s = 0.0
        for name, entry in staged.entries.items():
            if entry is None:
                self.bindings.unbind(name)
        for group in staged.groups:
            group.checked = self._turn
            self.tracking.add(group)
            self._bind(group)
        self.bindings.note(self.namespace, as_looked=True)
        holding = self.tracking.holding_parts
        self.living.let_go_of_pins(
            (failure.token for group in holding for failure in group.save_failures), self.namespace
        )
        self._note_handed()

    def _note_handed(self) -> None:
        """Remember which functions the cell gave to what cannot be saved."""
        holders: dict[str, frozenset[str]] = {}
        for name in self._words:
            group, module = self.tracking.groups.get(name), dependencies.module_holder(self.namespace.get(name))
            if module or (group is not None and group.holders):
                holders[name] = frozenset({module}) if group is None or module else group.holders
        source, self._source, self._words = self._source, "", set[str]()
        if not holders or not source:
            return
        with unwarned():
            handed = dependencies.find_handed_over(source, self.syntax.transform, set(holders), self.namespace)
        for name, used in handed.items():
            for token in holders[name] if used else ():
                self.tracking.handed[token] = self.tracking.handed.get(token, frozenset()) | used

    def _bind(self, group: Group) -> None:
        for name in group.members:
            value = self.namespace.get(name, self)
            if not name.startswith(CLASS_PREFIX) and value is not self:
                plain = id(type(value)) in BUILTIN_IDS and not group.classes and not group.save_failures
                small = plain and group.size <= HELD_BYTES and not group.reach.memory
                self.bindings.bind(name, value, small=small)
        if group.placeholders is not None or all(map(self.bindings.is_settled, group.members)):
            self.tracking.settle(group)

    # -- rolling verification

    def choose_for_verification(self, touched: Touched) -> list[str]:
        """Names to look at although nothing points to them, as many as fit into the time that was saved up.

        Those that someone else holds come first, then those not looked at for longest. A large value waits until enough
        time was saved.
        """
        now = time.monotonic()
        earned = _LEAST_ROLLING_S + min(_ROLLING_S, _ROLLING_SHARE * (now - self._looked_at))
        self._credit_s = min(self._credit_s + earned, max(_MOST_CREDIT_S, self._dearest_s))
        self._looked_at = now
        chosen: list[str] = []
        remaining_s = self._credit_s
        self._dearest_s = 0.0
        for group in self._order_checks():
            cost = max(group.cost_s, LEAST_COST_S)
            self._dearest_s = max(self._dearest_s, cost)
            if cost > remaining_s:
                # It waits until enough was saved; younger ones may use half of what each cell adds.
                remaining_s = min(remaining_s, earned / 2)
                if remaining_s < LEAST_COST_S:
                    break
            elif touched.names.isdisjoint(group.members) or self._may_be_skipped(group, touched.grouped):
                remaining_s -= cost
                self._credit_s -= cost
                chosen.extend(group.members)
        return chosen

    def _may_be_skipped(self, group: Group, grouped: frozenset[str]) -> bool:
        """Whether code names of the group only what leads to data, so that the rest may not be looked at."""
        return all(name in grouped or group.data.get(name) for name in group.members)

    def _order_checks(self) -> Iterator[Group]:
        suspects = {id(group): group for name in self._find_shared() if (group := self.tracking.groups.get(name))}
        yield from sorted(suspects.values(), key=attrgetter("checked"))  # in turn, or the first would take all the time
        yield from (group for group in self.tracking.by_age() if id(group) not in suspects)

    def _find_shared(self) -> list[str]:
        """Names of builtin containers with more references than the namespace and our own witness explain."""
        containers, namespace = self.bindings.containers, self.namespace
        some = list(islice(self._to_count, _MOST_COUNTED))
        if not some:  # another round; to go to where the last cell ended would pass all names before it
            self._to_count = iter(tuple(containers))
            some = list(islice(self._to_count, _MOST_COUNTED))
        found: list[str] = []
        # The largest count alone comes first: most often nothing else holds any of them, and then no list of counts is made.
        if max(_count_references(some, namespace), default=0) > _EXPLAINED_REFERENCES:
            found = [  # names that are gone since the round began are no containers
                name
                for name, count in zip(some, _count_references(some, namespace), strict=True)
                if count > _EXPLAINED_REFERENCES and name in containers
            ]
        if self._shared_containers:
            looked_at = set(some)
            found = [
                *(name for name in self._shared_containers if name in containers and name not in looked_at),
                *found,
            ]
        self._shared_containers = dict.fromkeys(found)
        if not self._shared_containers:
            return []
        displayed = {id(value) for value in self.outputs()}
        return [name for name in self._shared_containers if id(namespace.get(name)) not in displayed]

    def unwritable(self) -> tuple[Unsaved, ...]:
        """Variables whose names no store can hold."""
        from agent_kernel.values.pickler import type_name

        return tuple(
            Unsaved(repr(name)[1:-1], type_name(type(self.namespace[name])), "its name is not valid text", "rename it")
            for name in sorted(self.bindings.unwritable)
            if name in self.namespace
        )

    def find_unverified(self) -> list[str]:
        """Find the names that were not looked at since the last commit that looked at everything."""
        return [name for group in self.tracking.by_age() for name in group.members if group.checked < self._turn]


# -- another state, taken on whole or not at all


class Workspace(Detector):
    """Notices changes, and takes on other states."""

    def load(
        self,
        tree: Tree,
        target: Tree,
        names: Iterable[str] | None = None,
        *,
        absent: frozenset[str] = frozenset(),
        stay: frozenset[str] = frozenset(),
        partial: bool = False,
        restarted: bool = False,
        sources: Sequence[ObjectId | None] = (),
    ) -> Loaded:
        """Build aside what differs between the live state (`tree`) and `target`. Changes nothing yet.

        Args:
            absent: names in the tree that are not in memory.
            stay: names of the target that are not to be in memory afterwards.
            partial: load a state without what cannot be loaded of it.
            restarted: do so where no live variable goes for it: there is nothing that the refusal would keep.
            sources: commits that `target` comes from, to say of what cannot be loaded which cell made it.

        Raises:
            LoadError: values could not be loaded. Nothing was changed.
            DamagedObjectError: it cannot be told which names there are. Nothing was changed.
        """
        from agent_kernel.session import loading

        plan = loading.plan(self.repo, self.tracking, self.living, tree, target, names, absent, stay)
        live = {id(group): group for name in plan.entries if (group := self.tracking.groups.get(name)) is not None}
        built = loading.build(
            self.repo, self.living, self.namespace, plan, live.values(), sets_back=True, sets_pinned=names is None
        )
        self.after_load()
        commits = [source for source in sources if source is not None]
        built.failed = [loading.with_folder(self.repo, one, commits) for one in built.failed]
        # What stands here as a placeholder already is no news, and nothing that a move could lose.
        news = [failed for failed in built.failed if failed.names and (names is not None or not self._stood_in(failed))]
        if news and not partial and not (restarted and self._leaves_nothing(plan, news)):
            raise loading.load_error(news, loading.WAY_ON)
        classes = frozenset(name.removeprefix(CLASS_PREFIX) for name in target.names() if name.startswith(CLASS_PREFIX))
        groups = loading.make_placeholders(self.repo, built.failed, commits, classes) if built.failed else []
        parted = self._find_parted(plan, built) if names is None else {}
        made = plan, built.values, built.classes, tuple(groups), stay, built.contents, built.registers
        return Loaded(*made, parted, built.pinned, built.kept_live)

    def _find_parted(self, plan: Plan, built: Built) -> dict[str, Holdings]:
        """By variable the objects that it shared with what stays alive, and that are not set back in place."""
        from agent_kernel.values.groups import decode_layout
        from agent_kernel.values.surface import Holdings

        tokens = (
            (name, decode_layout(plan.manifests[name].layout).pins) for name in built.values if name in plan.manifests
        )
        found: dict[str, Holdings] = {}
        for name, pins in tokens:
            for value in map(self.living.find_pinned, pins):
                if value is not None and id(value) not in built.set_back:
                    found.setdefault(name, Holdings()).add(value)
        for uid, kind in built.classes.items():
            before = self.living.classes.live(uid)
            if before is not None:
                names = [name for name, value in built.values.items() if value is kind]
                for name in names or [class_entry(uid)]:
                    found.setdefault(name, Holdings()).add(before)
        return found

    def find_separated(self, loaded: Loaded) -> list[tuple[str, str]]:
        """What still holds objects that variables shared with it, and the variables that have others now.

        No variables: it shared them with something else that the same variable holds.
        """
        found: list[tuple[str, str]] = []
        within: list[tuple[Group, set[str]]] = []
        named: set[str] = set()
        for group in self.tracking.holding_parts if loaded.parted else ():
            holdings = group.holdings
            names = {name for name, parted in loaded.parted.items() if holdings.meets(parted)}
            within += [(group, names)] if names.intersection(group.members) else []
            names = names.difference(group.members)
            named |= names
            found += [(list_for_person(group.members), list_for_person(sorted(names)))] if names else []
        for group, names in within:
            leading = {name for one in group.unsaved for name in one.name.split(", ")}.intersection(group.members)
            others = names - leading
            if not names <= named:
                found.append(
                    (
                        list_for_person(sorted(leading) or group.members),
                        list_for_person(sorted(others)) if others else "",
                    )
                )
        return sorted(found)

    def find_unlike_then(self, loaded: Loaded) -> list[tuple[str, str]]:
        """The variables with an object that cannot be saved and is not as it was in the state that was loaded, and its type."""
        from agent_kernel.values.groups import decode_layout, failures_of

        unlike = {token for token, surface in loaded.kept_live.items() if not self.living.is_as_it_was(token, surface)}
        found: set[tuple[str, str]] = set()
        for name, manifest in loaded.plan.manifests.items() if unlike else ():
            failures = [one for one in failures_of(decode_layout(manifest.layout)) if one.token in unlike]
            known = {(failure.type, failure.reason, failure.remedy) for failure in failures}
            told = {(one.name, one.type) for one in manifest.unsaved if (one.type, one.reason, one.remedy) in known}
            found |= told or {(list_for_person([name]), failure.type) for failure in failures}
        return sorted(found)

    def find_of_changed_modules(self, loaded: Loaded) -> list[tuple[str, str]]:
        """The variables that were saved with classes of modules whose source has changed since, and the modules."""
        from agent_kernel.session.staging import find_changed_modules

        found: dict[str, list[str]] = {}
        for name, manifest in loaded.plan.manifests.items():
            for module in find_changed_modules(manifest.packages) if name in loaded.values else ():
                found.setdefault(module, []).append(name)
        return [(list_for_person(sorted(names)), module) for module, names in sorted(found.items())]

    def _leaves_nothing(self, plan: Plan, failed: Iterable[LoadFailure]) -> bool:
        """Whether everything that is live stays as it is, so that no state is left that would be missed."""
        moving = {*plan.removed, *plan.entries, *(name for one in failed for name in one.members)}
        groups = (self.tracking.groups.get(name) for name in moving)
        return all(group is None or group.placeholders is not None for group in groups)

    def _stood_in(self, failed: LoadFailure) -> bool:
        """Whether these names stand for this very value already."""
        for name in failed.names:
            group = self.tracking.groups.get(name)
            if (
                group is None
                or group.placeholders is None
                or not failed.entries[name].is_same_value(group.entries[name])
            ):
                return False
        return True

    def lives(self, entry: Entry) -> bool:
        """Whether all that could not be saved of a value is still there, to be put back where it is loaded."""
        from agent_kernel.values.groups import decode_layout, failures_of

        failures = failures_of(decode_layout(self.repo.read_manifest(entry).layout))
        return bool(failures) and all(self.living.has_stayed(failure.token) for failure in failures)

    def describe_failures(self, manifest: Manifest, *, whole: bool) -> list[Unsaved]:
        """Describe what could not be saved of a value and is gone: a placeholder stands in its place, or in that of the whole."""
        from agent_kernel.values.groups import decode_layout, failures_of

        failures = failures_of(decode_layout(manifest.layout))
        missing = {
            (failure.type, failure.reason, failure.remedy)
            for failure in failures
            if whole or self.living.has_placeholder(failure.token)
        }
        unsaved = [one for one in manifest.unsaved if whole or (one.type, one.reason, one.remedy) in missing]
        return self.living.describe_failures(unsaved, failures)

    def without(self, loaded: Loaded, writer: Writer) -> Staged:
        """Store anew what shares objects now with the names that are about to be replaced."""
        from agent_kernel.session.staging import Staging

        staging = Staging(self.namespace, self.tracking, self.living, writer)
        return staging.finish(loaded.values, {name.removeprefix(CLASS_PREFIX) for name in loaded.needs})

    def compare_with(self, tree: Tree, not_loaded: Collection[str]) -> list[str]:
        """What was committed went out of the history: let the next commit save again what the tree holds otherwise.

        Args:
            carried: names of the tree that are not in memory because nothing brought them back; any other is not there
                because it was deleted.

        Returns:
            The variables that it will save.
        """
        from agent_kernel.session import loading

        found: list[str] = []
        for group in list(self.tracking):
            if all(entry.is_same_value(tree.get(name)) for name, entry in group.entries.items()):
                continue
            self.tracking.remove(group)
            found += [name for name in group.members if not name.startswith(CLASS_PREFIX)]
            for name in group.members:
                entry = tree.get(name)
                if entry is not None:
                    self.tracking.add(loading.unread((name,), {name: entry}))
                else:
                    self.bindings.unbind(name)
        for name, entry in tree.items():
            if name not in self.tracking.groups and name not in not_loaded and self.bindings.is_versioned(name):
                self.tracking.add(loading.unread((name,), {name: entry}))
                self.bindings.miss(name)
        self.bindings.note(self.namespace)
        return sorted(found)

    def take_on(self, loaded: Loaded) -> None:
        """Put a loaded state in place. Cannot fail half-way: an interrupt waits until it is done."""
        from agent_kernel.session import loading

        with uninterrupted():
            removed = [group for name in loaded.plan.removed if (group := self.tracking.groups.get(name)) is not None]
            for failure in (loss for group in self.tracking for loss in group.save_failures):
                self.living.hold(failure.token)
            figures = self._open_figures_of(loaded)
            self._await_quietly(loaded)
            handlers = self._log_handlers_of(loaded)
            for name in loaded.plan.removed:
                self.namespace.pop(name, None)
                self.bindings.unbind(name)
            name_placeholders(
                {name: value for name, value in loaded.values.items() if not name.startswith(CLASS_PREFIX)}
            )
            for name, value in loaded.values.items():
                if not name.startswith(CLASS_PREFIX):
                    self.namespace[name] = value
            if handlers:
                from agent_kernel.values.restore.logs import replace_handlers

                replace_handlers(handlers)
            self._register(loaded)
            loaded.set_back()
            for token, value in loaded.pinned.items():
                self.living.pin_as(token, value)
            for uid, kind in loaded.classes.items():
                self.living.classes.adopt(uid, kind)
            failed_names = [name for group in loaded.failed_groups for name in group.members]
            stale = [
                group
                for name in (*loaded.values, *failed_names)
                if (group := self.tracking.groups.get(name)) is not None
            ]
            for group in {id(group): group for group in (*removed, *stale)}.values():
                self.tracking.remove(group)
            for members, entries in loaded.plan.groups_after():
                self.tracking.add(loading.unread(members, entries, loaded.plan.manifests.get(members[0])))
            for group in loaded.failed_groups:
                self._place_placeholders(group)
            dependencies.replace_figures(figures)
            self.bindings.note(self.namespace)

    def place_pylab(self) -> None:
        """Put the names of `%pylab` there, or take them out, as the state is that was taken on."""
        pylab = self.living.process.pylab
        if pylab.place(self.namespace, self.names_of_shell, self.tracking.groups):
            self.bindings.forget_verdicts(pylab.bound)
            self.bindings.note(self.namespace)

    def _register(self, loaded: Loaded) -> None:
        """Let what modules note of their subclasses go on with the classes that were loaded."""
        if not loaded.registers:
            return
        from agent_kernel.values.loader import replace_in

        pairs = ((self.living.classes.live(uid), kind) for uid, kind in loaded.classes.items())
        replace_in(loaded.registers, {id(before): kind for before, kind in pairs if before is not None})

    def _await_quietly(self, loaded: Loaded) -> None:
        """Keep objects that go for as long as something of the notebook's would be called at their death.

        They do not die in what is taken on, and what is called would change that: weak references to them go first.
        """
        from agent_kernel.values.surface import find_awaited

        names = (*loaded.plan.removed, *loaded.values)
        replaced = [self.namespace[name] for name in names if name in self.namespace]
        self._awaited = find_awaited((*self._awaited, *replaced), self.namespace)

    def _log_handlers_of(self, loaded: Loaded) -> list[tuple[object, object]]:
        """Handlers of log records that variables hold, and what these hold afterwards: loggers of libraries, too, keep them."""
        names = (*loaded.plan.removed, *loaded.values)
        pairs = ((self.namespace.get(name), loaded.values.get(name)) for name in names)
        return [
            (before, now) for before, now in pairs if derives_from(type(before), logging.Handler) and before is not now
        ]

    def _open_figures_of(self, loaded: Loaded) -> dict[int, object]:
        """By the ids of figures that pyplot holds, those of a loaded state that the same names lead to."""
        still_open = dependencies.open_figures()
        if not still_open:
            return {}
        found: dict[int, object] = {}
        for name, value in loaded.values.items():
            before = root_below([self.namespace.get(name)])
            now = root_below([value]) if id(before) in still_open else None
            if now is not None and now is not before:
                found.setdefault(id(before), now)
        return found

    def _place_placeholders(self, group: Group) -> None:
        """Put placeholders in the place of what could not be loaded."""
        self.namespace |= group.placeholders.by_name if group.placeholders is not None else {}
        for name in group.members:
            if name.startswith(CLASS_PREFIX):
                self.living.classes.forget(name.removeprefix(CLASS_PREFIX))
        self.tracking.add(group)
        self._bind(group)

    def read_again(self, loaded: Loaded) -> None:
        """Take the baseline for the next comparison from the live objects, straight after they were loaded."""
        from agent_kernel.session import loading

        if self._awaited:
            from agent_kernel.values.surface import find_awaited

            self._awaited = find_awaited(self._awaited, self.namespace)
        for members, entries in loaded.plan.groups_after():
            group = loading.baseline(self.repo, self.living, self.namespace, members, entries, loaded.plan)
            if group is not None:
                self.tracking.remove(self.tracking.groups[members[0]])
                group.checked = self._turn
                self.tracking.add(group)
                self._bind(group)
        self._note_pins(loaded)
        self.bindings.note(self.namespace)

    def _note_pins(self, loaded: Loaded) -> None:
        """What of the loaded values is held by objects that cannot be saved, and was stored so that it can be set back."""
        from agent_kernel.values.groups import decode_layout

        for holding in self.tracking.holding_parts:  # they may hold what was made for them
            found = self.living.find_holdings((failure.token for failure in holding.save_failures), self.namespace)
            if found.ids:
                holding.held_ids, holding.held_memory = frozenset(found.ids), frozenset(found.memory)
        holdings = self.tracking.find_live_holdings()
        for name, manifest in loaded.plan.manifests.items() if holdings else ():
            group = self.tracking.groups.get(name)
            if group is not None and decode_layout(manifest.layout).pins:
                group.pins = holdings.find_shared(group.reach)


class Loaded(msgspec.Struct, frozen=True):
    """Another state, built aside, and what it is without."""

    plan: Plan
    values: Mapping[str, object]
    classes: Mapping[str, type]
    failed_groups: tuple[Group, ...] = ()
    stay: frozenset[str] = frozenset()
    contents: Sequence[tuple[object, Any]] = ()
    registers: Sequence[object] = ()  # of modules, in which classes that are made anew may stand
    parted: Mapping[str, Holdings] = {}  # by variable, what others replace and something still holds
    pinned: Mapping[str, object] = {}  # by token, what takes the place of an object that nothing holds any more
    kept_live: Mapping[str, bytes] = {}  # by token, what told of the content of objects that stay as they are

    def set_back(self) -> None:
        """Give what the person's own modules hold the content that it had."""
        for target, content in self.contents:
            set_content(target, content)

    def find_not_loaded(self, target: Tree) -> frozenset[str]:
        """Find what of the target is not in memory then."""
        loaded = self.plan.entries.keys() | {name for group in self.failed_groups for name in group.members}
        return frozenset(name for name in self.stay if name not in loaded and name in target)

    @property
    def needs(self) -> frozenset[str]:
        """The class entries of what was loaded, also of live classes that are used again."""
        return frozenset(name for manifest in self.plan.manifests.values() for name in manifest.classes)

    @property
    def reports(self) -> tuple[Unsaved, ...]:
        """What to say of what it is without."""
        return tuple(
            report
            for group in self.failed_groups
            if group.placeholders
            for report in group.placeholders.reports.values()
        )
