"""Objects of this process that have lasting names: what could not be saved, and notebook classes.

A token stands in stored values for an object that could not be saved. While that object lives, loading puts it back;
afterwards a placeholder stands there, or for a lock a new one: one for each token, so that what was shared stays shared,
also where its holders are loaded at different times. A checkout must not end a connection that the next one wants back, so what it
takes out of the namespace is held until the session closes.
"""

from __future__ import annotations

import contextlib
import functools
import re
import secrets
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Protocol

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.repository import short
from agent_kernel.session.history import title
from agent_kernel.text import shorten
from agent_kernel.values.surface import Placeholder, is_closed, save_failure_of, surface_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from agent_kernel.repository import Commit, ObjectId, Repository, Unsaved
    from agent_kernel.values.aliases import SaveFailure
    from agent_kernel.values.classes import ClassRegistry
    from agent_kernel.values.surface import Holdings


class FindCells(Protocol):
    """Finds the commits of some cells of a session, in words, by number.

    With `names`: also of the later cells that gave these names to what those cells made.
    """

    def __call__(self, session: str, numbers: Collection[int], names: Collection[str] = (), /) -> Mapping[int, str]: ...


_FURTHEST = 10_000  # commits to look through for the cell that made a value
USES = b"uses "
_NUMBERED = re.compile(r"run cells? (\[\d+\](?: and \[\d+\])*) again")


def is_of_session(token: str, session: str) -> bool:
    """Whether the object of this token was met by this session: in any other it is gone."""
    return token.rpartition("-")[0].endswith(f"-{session}")


def remedy_for(session: str, failure: SaveFailure, commits: FindCells, names: Collection[str] = ()) -> str:
    """How to have an object again, as this session says it. Numbers of another session's cells are other cells here.

    Args:
        commits: finds the commits of some cells of a session.
        names: variables that lead to the object. The cells that gave it these names have to run again, too.
    """
    numbers = cells_of(failure.remedy)
    is_own = is_of_session(failure.token, session)
    if not numbers or (is_own and not names):
        return failure.remedy
    found = commits(failure.token.rpartition("-")[0].partition("-")[2], numbers, names)
    return _with_cells(failure.remedy, {*numbers, *found}) if is_own else remedy_by_commits(failure.remedy, found)


def _with_cells(remedy: str, numbers: Collection[int]) -> str:
    cells = " and ".join(f"[{number}]" for number in sorted(numbers))
    return _NUMBERED.sub(f"run cell{'s' * (len(numbers) > 1)} {cells} again", remedy)


def remedy_by_commits(remedy: str, made: Mapping[int, str]) -> str:
    """The remedy, read where its cell numbers are other cells: each cell by its commit.

    >>> remedy_by_commits("run cell [3] again to have it back", {3: "3f2a91c4 (f = open(path))"})
    'run the cell of 3f2a91c4 (f = open(path)) again to have it back'
    >>> remedy_by_commits("run cell [3] again to have it back", {})
    'run the cell that made it again to have it back'
    """
    numbers = cells_of(remedy)
    if not numbers:
        return remedy
    texts = list(dict.fromkeys(made[number] for number in sorted(made)))
    cells = f"the cell{'s' * (len(texts) > 1)} of {' and '.join(texts)}" if texts else "the cell that made it"
    return _NUMBERED.sub(lambda _: f"run {cells} again", remedy)


def cells_of(remedy: str) -> list[int]:
    """The numbers of the cells that a remedy tells to run."""
    match = _NUMBERED.search(remedy)
    return [int(number) for number in re.findall(r"\d+", match[1])] if match is not None else []


def _numbers(cell: str) -> list[int]:
    """The number of `cell [3]`."""
    return [int(number) for number in re.findall(r"\[(\d+)\]", cell)]


def describe_failures(
    unsaved: Iterable[Unsaved],
    failures: Iterable[SaveFailure],
    remedy_of: Callable[[SaveFailure, Collection[str]], str],
) -> list[Unsaved]:
    """What to say of what could not be saved, with the remedies that hold now.

    Args:
        losses: the same, with their tokens.
        remedy_of: the remedy of one, for those who use it under these names.
    """
    known = {(loss.type, loss.reason, loss.remedy): loss for loss in failures}
    found: list[Unsaved] = []
    for one in unsaved:
        failure = known.get((one.type, one.reason, one.remedy))
        found.append(
            one if failure is None else msgspec.structs.replace(one, remedy=remedy_of(failure, one.name.split(", ")))
        )
    return found


def _find_no_cells(session: str, numbers: Collection[int], names: Collection[str] = ()) -> Mapping[int, str]:
    return {}


def commits_of_cells(
    repo: Repository, session: str, numbers: Collection[int], names: Collection[str] = ()
) -> dict[int, str]:
    """The commits of some cells of a session by number, as `3f2a91c4 (lock = Lock())`, as far as the history can be read.

    Args:
        names: variables that lead to what these cells made. The newest commit that says so of a name says which later
            cells bound it; these are found, too.
    """
    found: dict[int, str] = {}
    wanted, remaining = set(numbers), set(names)
    with contextlib.suppress(AgentKernelError):
        tips = dict.fromkeys(
            (*repo.branches().values(), *repo.tags().values(), *(head.commit for head in repo.heads().values()))
        )
        for id, commit in repo.log([tip for tip in tips if tip is not None], limit=_FURTHEST):
            if commit.session != session:
                continue
            for one in commit.unsaved if remaining else ():
                named = remaining.intersection(one.name.split(", "))
                cells = set(cells_of(one.remedy)) if named else set[int]()
                if named and cells.issuperset(numbers):
                    wanted |= cells
                    remaining -= named
            number = commit.cell.number if commit.cell is not None else None
            if number is not None and number in wanted and number not in found:
                found[number] = _label(id, commit)
            if len(found) == len(wanted):
                break
    return found


def _label(id: ObjectId, commit: Commit) -> str:
    """`3f2a91c4 (lock = Lock())`: asked once for each of thousands of values that one cell made."""
    known = _labels.get(id)
    if known is None:
        if len(_labels) > _MOST_LABELS:
            _labels.clear()
        known = _labels[id] = f"{short(id)} ({shorten(title(commit), _TITLE)})"
    return known


_labels: dict[ObjectId, str] = {}
_MOST_LABELS = 1_000
_TITLE = 60  # characters of what a cell is called


class Living:
    """Tokens and class ids of one session, whose id the tokens hold.

    They outlive the session where another one goes on with the same namespace and store: see `rest` and `go_on`.

    Args:
        commits: finds the commits of some cells of a session.
    """

    def __init__(self, commits: FindCells = _find_no_cells) -> None:
        self._commits = commits
        self.session = ""
        self.cell = ""  # what made a new token, for the way out: "cell [3]"
        self._tokens: dict[int, tuple[_Reference, str]] = {}
        self._objects: dict[str, _Reference] = {}
        self._origins: dict[str, tuple[str, ...]] = {}  # the cells to run again, in order
        self._makers: dict[str, str] = {}  # by variable, the cell that assigned it
        self._dumped: Collection[str] = ()  # the variables that are dumped now
        self._remade: set[str] = set()
        self._uses: Counter[str] = (
            Counter()
        )  # by token, the cells that used what shows nothing of what it is in the middle of
        self._used: Collection[str] = ()  # variables that the code of this cell uses
        self._counted: set[str] = set()
        self.interrupted: set[str] = set()  # names whose saving was interrupted the last time
        self.arrived: list[int] | None = None  # a Ctrl-C each, since a commit looks at values; None: it cannot be told
        self._pins: dict[int, str] = {}  # tokens of what can be saved, by id
        self._pinned: dict[str, tuple[int, _Reference]] = {}
        self._placeholders: weakref.WeakValueDictionary[str, Placeholder] = weakref.WeakValueDictionary()

    def rest(self) -> None:
        """The session has closed: keep nothing alive. What lives on by itself is known again if another one goes on."""
        for token, hold in tuple(self._objects.items()):
            weak = _weaken(hold)
            if weak is None:
                del self._objects[token]
            else:
                self._objects[token] = weak
        self._tokens = {id: (weak, token) for id, (hold, token) in self._tokens.items() if (weak := _weaken(hold))}
        for token, (_, hold) in tuple(self._pinned.items()):
            if isinstance(hold, _StrongReference):
                self._unpin(token)
        self._dumped, self._commits = (), _find_no_cells

    def go_on(self, commits: FindCells) -> None:
        """Another session goes on with the namespace, under the id that the tokens hold. `commits`: as it finds them."""
        self._commits = commits

    @functools.cached_property
    def classes(self) -> ClassRegistry:
        """The ids of notebook classes."""
        from agent_kernel.values.classes import ClassRegistry

        return ClassRegistry()

    def uid_of(self, kind: type) -> str:
        return self.classes.uid_of(kind)

    def save_failure_of(self, value: object) -> SaveFailure | None:
        return save_failure_of(value)

    def token_of(self, value: object) -> str:
        """The object's token; a new one at first sight."""
        known = self._tokens.get(id(value))
        if known is not None and _target(known[0]) is value:
            return known[1]
        token = f"{type.__getattribute__(type(value), '__name__')}-{self.session}-{secrets.token_hex(6)}"
        self._name(token, value)
        self._origins[token] = self._cells()
        return token

    def dumps(self, names: Collection[str], rebound: Collection[str]) -> None:
        """These variables are dumped next, of which `rebound` were assigned since the last commit."""
        self._dumped = tuple(names)  # of a mapping the names alone: its values must be free to die
        for name in names:
            if name in rebound or name not in self._makers:
                self._makers[name] = self.cell

    def begin_uses(self, names: Collection[str]) -> None:
        """These variables the code of a cell uses."""
        self._used = names
        self._counted.clear()

    def surface_of(self, token: str, value: object) -> bytes:
        """What tells whether an object that cannot be saved is as it was: how it looks, or how many cells have used it."""
        if not is_closed(value):
            return surface_digest(value)
        if token not in self._counted and not set(self._used).isdisjoint(self._dumped):
            self._counted.add(token)
            self._uses[token] += 1
        return USES + str(self._uses[token]).encode()

    def is_as_it_was(self, token: str, surface: bytes) -> bool:
        """Whether the live object of a token is as it was when this was its surface."""
        value = self.live_object(token)
        if not surface or value is None:
            return True
        if surface.startswith(USES):
            return surface == USES + str(self._uses[token]).encode()
        return surface_digest(value) == surface

    def _cells(self) -> tuple[str, ...]:
        """Which cells make what is met now: the one that assigned its variable, and this one, which put it there."""
        made = {self._makers.get(name, self.cell) for name in self._dumped}
        first = made.pop() if len(made) == 1 else self.cell
        return tuple(dict.fromkeys(one for one in (first, self.cell) if one))

    def _name(self, token: str, value: object) -> None:
        reference = _reference_to(value)
        self._tokens[id(value)] = reference, token
        self._objects[token] = reference

    def remedy_of(self, token: str) -> str:
        cells = self._origins.get(token, ())
        if len(cells) > 1:
            return f"run cells {' and '.join(cell.removeprefix('cell ') for cell in cells)} again to have it back"
        return f"run {cells[0]} again to have it back" if cells else ""

    def live_object(self, token: str) -> object | None:
        return _target(self._objects.get(token))

    def live_or_new(self, token: str, make: Callable[[], object]) -> object:
        """The object; where it is gone another in its place, which has its token from then on."""
        alive = self.live_object(token)
        if alive is None:
            alive = make()
            self._name(token, alive)
            self._remade.add(token)
        return alive

    def has_lived(self, uid: str) -> bool:
        """Whether a class of this id was made in this process."""
        return self.classes.has_lived(uid)

    def placeholder(self, token: str, failure: SaveFailure) -> Placeholder:
        """What stands for an object that is gone: one for all that held it."""
        found = self._placeholders.get(token)
        if found is None:
            found = self._placeholders[token] = Placeholder(failure, remedy=weakref.WeakMethod(self.remedy_now))
        return found

    def remedy_now(self, failure: SaveFailure, names: Collection[str] = ()) -> str:
        """How to have the object again under these names. See `remedy_for`."""
        if is_of_session(failure.token, self.session):
            return self._with_makers(failure.remedy, names)
        return remedy_for(self.session, failure, self._commits, names)

    def describe_failures(self, unsaved: Iterable[Unsaved], failures: Iterable[SaveFailure]) -> list[Unsaved]:
        """Describe what could not be saved, with the remedies that hold now."""
        return describe_failures(unsaved, failures, self.remedy_now)

    def _with_makers(self, remedy: str, names: Collection[str]) -> str:
        """The remedy with the later cells that gave an object its names: what made the object gives it no second name."""
        numbers = cells_of(remedy)
        if not numbers:
            return remedy
        makers = (self._makers.get(name, "") for name in names)
        later = {number for maker in makers for number in _numbers(maker) if number > max(numbers)}
        return _with_cells(remedy, {*numbers, *later}) if later else remedy

    def has_placeholder(self, token: str) -> bool:
        """Whether something that lives holds a placeholder for the object."""
        return token in self._placeholders

    def pin(self, value: object) -> str:
        """The token of an object that can be saved, and that something which stays alive has hold of."""
        known = self._pins.get(id(value))
        if known is not None and self.find_pinned(known) is value:
            return known
        token = f"{type.__getattribute__(type(value), '__name__')}-{self.session}-{secrets.token_hex(6)}"
        self.pin_as(token, value)
        return token

    def pin_as(self, token: str, value: object) -> None:
        """Let this object have the token: it takes the place of one that nothing holds any more."""
        self._unpin(token)
        self._unpin(self._pins.get(id(value), ""))
        self._pins[id(value)] = token
        self._pinned[token] = id(value), _reference_to(value)

    def _unpin(self, token: str) -> None:
        if token in self._pinned:
            del self._pins[self._pinned.pop(token)[0]]

    def find_pinned(self, token: str) -> object | None:
        """Find the object of such a token, as long as something that stays alive may have hold of it."""
        return _target(self._pinned[token][1]) if token in self._pinned else None

    def let_go_of_pins(self, tokens: Iterable[str], namespace: dict[str, object]) -> None:
        """Let those of these objects die of which nothing that stays alive has hold any more.

        Args:
            tokens: what stays alive, besides what is held until the session closes.
        """
        if not self._pins:
            return
        tokens_alive = {token for token, hold in self._objects.items() if isinstance(hold, _StrongReference)}.union(
            tokens
        )
        holdings = self.find_holdings(tokens_alive, namespace)
        for item in self._pins.keys() - holdings.ids:
            token = self._pins[item]
            if not (holdings.memory and holdings.meets(_holdings_of(self.find_pinned(token)))):
                self._unpin(token)

    def find_holdings(self, tokens: Iterable[str], namespace: dict[str, object]) -> Holdings:
        """Find what the objects of these tokens have hold of, as far as they are alive."""
        from agent_kernel.values.surface import Holdings, find_holdings

        found = Holdings()
        for value in map(self.live_object, tokens):
            if value is not None:
                found.update(find_holdings(value, namespace))
        return found

    def has_stayed(self, token: str) -> bool:
        """Whether the very object is still there, and nothing else in its place."""
        return token not in self._remade and self.live_object(token) is not None

    def hold(self, token: str) -> None:
        """Keep the object alive until the session closes."""
        alive = self.live_object(token)
        if alive is not None:
            self._objects[token] = _StrongReference(alive)


class _StrongReference:
    """A strong hold on what else is held weakly."""

    def __init__(self, value: object) -> None:
        self.value = value


_Reference = weakref.ref[object] | _StrongReference


def _holdings_of(value: object) -> Holdings:
    """The object itself, as what lies in another one."""
    from agent_kernel.values.surface import Holdings

    found = Holdings()
    if value is not None:
        found.add(value)
    return found


def _reference_to(value: object) -> _Reference:
    try:
        return weakref.ref(value)
    except TypeError:
        return _StrongReference(value)


def _weaken(reference: _Reference) -> _Reference | None:
    """The same hold, without keeping the object alive; None where that cannot be."""
    if not isinstance(reference, _StrongReference):
        return reference
    weak = _reference_to(reference.value)
    return None if isinstance(weak, _StrongReference) else weak


def _target(reference: _Reference | None) -> object | None:
    if reference is None:
        return None
    return reference.value if isinstance(reference, _StrongReference) else reference()
