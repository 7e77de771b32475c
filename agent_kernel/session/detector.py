"""A namespace and what is remembered of it: notice what changed, which functions ran, and what a commit has to hold."""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, compress, islice
from operator import attrgetter
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.quiet import noted_interrupts, unwarned
from agent_kernel.repository import Repository, Unsaved, Writer
from agent_kernel.session import dependencies, library_state
from agent_kernel.session.live_objects import Living, commits_of_cells
from agent_kernel.session.tracking import BUILTIN_IDS, HELD_BYTES, LEAST_COST_S, Bindings, Group, Rebound, Tracking
from agent_kernel.values import CLASS_PREFIX, references
from agent_kernel.values.definitions import variables_used
from agent_kernel.values.introspection import derives_from
from agent_kernel.values.references import MODULE_OBJECTS, is_named
from agent_kernel.values.surface import Holdings, save_failure_of

if TYPE_CHECKING:
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
    stores_large: bool = False  # so do values of gigabytes that are new
    grouped: frozenset[str] = frozenset()  # of the names: those that are only saved together with what code names

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
        self._counted = 0
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
        return Touched(frozenset(names), rebound, closure.everything, everything, grouped=grouped)

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
        self._figures = library_state.watch_figures()
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
        found = library_state.find_changed_figures(self._figures)
        return library_state.open_figures() if found is None else found

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
        some = list(islice(containers, self._counted, self._counted + _MOST_COUNTED))
        self._counted = 0 if self._counted + len(some) >= len(containers) else self._counted + len(some)
        counts = map(sys.getrefcount, map(namespace.get, some))
        found: Iterable[str] = compress(some, map(_EXPLAINED_REFERENCES.__lt__, counts))
        if self._shared_containers:
            looked_at = set(some)
            found = chain(
                (name for name in self._shared_containers if name in containers and name not in looked_at), found
            )
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
