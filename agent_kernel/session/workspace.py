"""The live side of a session: a namespace, what is remembered of it, and another state taken on whole or not at all.

It knows trees and values, not history: `Session` decides what a change becomes.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import Entry, Manifest, ObjectId, Tree, Unsaved, Writer
from agent_kernel.session import library_state
from agent_kernel.session.detector import Detector
from agent_kernel.session.tracking import Group
from agent_kernel.values import CLASS_PREFIX, class_entry, list_for_person
from agent_kernel.values.introspection import derives_from
from agent_kernel.values.restore.objects import set_content
from agent_kernel.values.surface import name_placeholders

if TYPE_CHECKING:
    from agent_kernel.session.loading import Built, LoadFailure, Plan
    from agent_kernel.session.serialization import Staged
    from agent_kernel.values.surface import Holdings


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
        from agent_kernel.values.surface import surface_digest

        unlike = {
            token
            for token, surface in loaded.kept_live.items()
            if surface and (value := self.living.live_object(token)) is not None and surface_digest(value) != surface
        }
        found: set[tuple[str, str]] = set()
        for name, manifest in loaded.plan.manifests.items() if unlike else ():
            failures = [one for one in failures_of(decode_layout(manifest.layout)) if one.token in unlike]
            known = {(failure.type, failure.reason, failure.remedy) for failure in failures}
            told = {(one.name, one.type) for one in manifest.unsaved if (one.type, one.reason, one.remedy) in known}
            found |= told or {(list_for_person([name]), failure.type) for failure in failures}
        return sorted(found)

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
            library_state.replace_figures(figures)
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
        still_open = library_state.open_figures()
        if not still_open:
            return {}
        from agent_kernel.values.aliases import root_below

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
