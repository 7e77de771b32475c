"""What goes into a run and comes out of it: its arguments, and the type that its result is to have."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import numbers
import sys
import typing
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType, NoneType
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from agent_kernel.errors import AgentKernelError
from agent_kernel.quiet import uninterrupted
from agent_kernel.repository import Author, ObjectId
from agent_kernel.session.snapshot import Snapshot
from agent_kernel.values.surface import load_failure_of

if TYPE_CHECKING:
    from agent_kernel.agents.events import TaskStart
    from agent_kernel.agents.execution import ExecutionContext
    from agent_kernel.repository import Commit


# -- arguments
#
# The arguments of a run: variables while it goes on. What stood under their names before comes back as it ends.
#
# As with the parameters of a function, what the run does to a name that was somebody's counts for the run alone; an
# argument whose name nobody had stays as a variable. Where there is a history they are a commit by the agent before the
# first step, and what they stand for is committed before: so another process finds both, and undo takes the whole back.


_ABSENT: Final = object()
_active: dict[str, Arguments] = {}  # by run: what no history has, as long as the run is not done


class Inputs(dict[str, object]):
    """`task.inputs`. An argument that is no longer available says so."""

    def __init__(self, known: Mapping[str, object], unavailable: frozenset[str] = frozenset()) -> None:
        super().__init__(known)
        self._gone = unavailable

    def copy(self) -> Inputs:
        """Another with the same: code may change what it is given."""
        return Inputs(self, self._gone)

    def __missing__(self, name: str) -> object:
        if name in self._gone:
            raise KeyError(
                f"{name!r} was an input of this task and is no longer available: it was not stored, or it was deleted. "
                "Start the task again with it"
            )
        raise KeyError(name)


class Arguments:
    """Those of one run, and what stood under their names."""

    def __init__(
        self, context: ExecutionContext, agent: str, run: str, inputs: Inputs, *, in_history: bool = True
    ) -> None:
        self._context = context
        self._agent = agent
        self._run = run
        self._keeps = in_history and context.session is not None
        self.inputs = inputs
        self.replaced: tuple[str, ...] = ()
        self._old: dict[str, object] = {}
        self._paused: dict[str, object] = {}  # how the run left its names, when it paused
        self._are_bound = False

    @classmethod
    def bind(
        cls, context: ExecutionContext, agent: str, run: str, inputs: Mapping[str, object], *, in_history: bool
    ) -> Arguments:
        """Make variables of them.

        Args:
            in_history: in the history too, if there is one.
        """
        made = cls(context, agent, run, Inputs(inputs), in_history=in_history)
        names = context.namespace
        made.replaced = tuple(name for name in inputs if name in names and names[name] is not inputs[name])
        made._enter(inputs)
        return made

    @classmethod
    def bind_in_fork(cls, context: ExecutionContext, agent: str, run: str, inputs: Mapping[str, object]) -> Arguments:
        """Those of a sub-agent on a branch of its own, which puts them away itself."""
        context.namespace.update(inputs)
        return cls(context, agent, run, Inputs(inputs), in_history=False)

    @property
    def stored_names(self) -> tuple[str, ...]:
        """The names of those that the history has."""
        return tuple(self.inputs) if self._keeps else ()

    @classmethod
    def restore(cls, context: ExecutionContext, start: TaskStart, *, is_over: bool) -> Arguments:
        """Those of a run that was begun before: in this process, or as the history has them."""
        active = _active.get(start.run)
        if active is not None and active._context.namespace is context.namespace:
            active._context = context
            return active
        known = {
            name: value for name in start.arguments if (value := _read_argument(context, start, name)) is not _ABSENT
        }
        unavailable = frozenset(start.arguments) - set(known)
        # Runs of earlier releases say the names of those that a model was told of, and kept none apart.
        known |= {
            name: context.namespace[name] for name in start.inputs if name not in known and name in context.namespace
        }
        made = cls(context, start.agent, start.run, Inputs(known, (unavailable | set(start.inputs)) - set(known)))
        made.replaced = tuple(name for name in start.replaced if is_over or made._is_the_runs(start, name))
        made._are_bound = not is_over
        made.pause()
        return made

    def resume(self) -> None:
        """The run goes on: its arguments are variables again, and what a person made of them meanwhile is the person's."""
        if self._are_bound:
            names = self._context.namespace
            theirs = {name for name, value in self._paused.items() if names.get(name, _ABSENT) is not value}
            self.replaced = tuple(name for name in self.replaced if name not in theirs)
            self._paused = {}
        elif self.replaced:
            self._enter({name: self.inputs[name] for name in self.replaced if name in self.inputs})

    def pause(self) -> None:
        """Nobody drives the run."""
        if self._are_bound:
            self._paused = {name: self._context.namespace.get(name, _ABSENT) for name in self.replaced}

    def unbind(self) -> None:
        """The run is over: what stood under their names comes back."""
        if self._are_bound and self.replaced:
            with uninterrupted():
                old = {name: self._before(name) for name in self.replaced}
                self._change(
                    f"what the arguments stood for comes back: {', '.join(old)}", lambda: self._restore_values(old)
                )
                self._are_bound = False
        _active.pop(self._run, None)

    def _enter(self, values: Mapping[str, object]) -> None:
        names = self._context.namespace
        if self.replaced and self._keeps and self._context.session is not None:
            self._context.wait_turn()
            self._context.session.save_step()  # what they stand for is in the history from now on
        new = {name: value for name, value in values.items() if names.get(name, _ABSENT) is not value}
        with uninterrupted():
            self._old = {name: names[name] for name in self.replaced if name in names}
            if new:
                self._change(f"arguments: {', '.join(values)}", lambda: names.update(new))
            self._are_bound = True
            self.pause()
            if self.replaced:
                _active[self._run] = self

    def _change(self, title: str, change: Callable[[], None]) -> None:
        session = self._context.session
        if session is None or not self._keeps:
            change()
            return
        cell, number = self._context.cell()
        author = Author(self._agent, "agent")
        session.begin_step(f"# {title}", author=author, run=self._run, step=None, cell_id=cell, number=number)
        try:
            change()
        finally:
            session.end_step()

    def _restore_values(self, old: Mapping[str, object]) -> None:
        for name, value in old.items():
            if value is _ABSENT:
                self._context.namespace.pop(name, None)
            else:
                self._context.namespace[name] = value

    def _before(self, name: str) -> object:
        if name in self._old:
            return self._old[name]
        start = self._context.event_store.first(self._run)
        commit = _commit_of(self._context, start)
        if commit is None or commit.run != self._run or not commit.parents:
            return _ABSENT
        return _load_argument(self._context, commit.parents[0], name)

    def _is_the_runs(self, start: TaskStart, name: str) -> bool:
        """Whether the variable is as the run left it: what a person made of it since stays."""
        session = self._context.session
        if session is None:
            return False  # nothing is known any more of what stood there
        last = next(
            (one.after for one in reversed(list(self._context.event_store.of(start.run))) if one.after), start.before
        )
        try:
            stored = session.repo.tree_at(_id(last)).get(name)
        except AgentKernelError:
            return False
        now = session.repo.tree_at(session.head).get(name)
        return stored is now or (stored is not None and stored.is_same_value(now))


def _read_argument(context: ExecutionContext, start: TaskStart, name: str) -> object:
    """An argument as the history has it; the variable itself where that is the same still."""
    if context.session is None or not start.before:
        return _ABSENT
    repo = context.session.repo
    entry = repo.tree_at(_id(start.before)).get(name) if _commit_of(context, start) is not None else None
    if entry is None:
        return _ABSENT
    value = context.namespace.get(name, _ABSENT)
    is_loaded = value is not _ABSENT and load_failure_of(value) is None
    if is_loaded and entry.is_same_value(repo.tree_at(context.session.head).get(name)):
        return value
    return _load_argument(context, _id(start.before), name)


def _load_argument(context: ExecutionContext, commit: ObjectId, name: str) -> object:
    assert context.session is not None
    try:
        return Snapshot(context.session.repo, commit, context.namespace)[name]
    except (AgentKernelError, KeyError):
        return _ABSENT


def _commit_of(context: ExecutionContext, start: TaskStart) -> Commit | None:
    """The commit that made variables of them, if it is in the history still."""
    if context.session is None or not start.before:
        return None
    try:
        return context.session.repo.commit_at(_id(start.before))
    except AgentKernelError:
        return None


def _id(digits: str) -> ObjectId:
    return ObjectId(bytes.fromhex(digits) + b"\x01")


# -- types of results
#
# Whether a value is of the type that was asked for, and how such a type is written for a model and in an event.


_SCALARS = (str, bytes, bool, int, float)


class Misfit(Exception):  # noqa: N818 - it is told to the model, which tries again
    """The value is not of the type; the text says what is wrong with it."""


class TypeText(msgspec.Struct, frozen=True):
    """A type of which nothing but its text is known here."""

    text: str


def type_text(wanted: object) -> str:
    """The type as people write it: `int`, `list[str]`, `pandas.DataFrame`; "" for anything goes."""
    if isinstance(wanted, TypeText):
        return wanted.text
    if wanted is None or wanted is object or wanted is typing.Any:
        return ""
    if wanted is NoneType:
        return "None"
    if isinstance(wanted, type) and not typing.get_args(wanted):
        module = wanted.__module__.partition(".")[0]
        hidden = wanted.__module__ in ("builtins", "__main__")
        return wanted.__qualname__ if hidden else f"{module}.{wanted.__qualname__}"
    return str(wanted).replace("typing.", "")


def check_type(wanted: object) -> None:
    """Raises TypeError if values cannot be checked against this type."""
    is_plain = isinstance(wanted, type) and not _is_of_pydantic(wanted)
    if not type_text(wanted) or is_plain or isinstance(wanted, TypeText):
        return
    from pydantic import PydanticSchemaGenerationError, PydanticUserError
    from pydantic.warnings import ArbitraryTypeWarning

    try:
        if inspect.isroutine(wanted):
            raise TypeError("it is a function")
        with warnings.catch_warnings():
            warnings.simplefilter("error", ArbitraryTypeWarning)
            if not getattr(_adapter(wanted), "pydantic_complete", True):
                raise TypeError("it is not known here")
    except (ArbitraryTypeWarning, PydanticUserError, NameError, TypeError) as error:
        if _is_dataclass(wanted) and isinstance(error, PydanticSchemaGenerationError):
            return  # a field is of a type that pydantic does not know, such as a table: each is checked by itself
        reason = str(error).partition("\n")[0].partition(". To get rid")[0]
        raise TypeError(f"`returns` must be a type, not {wanted!r}: {reason}") from None


def type_of_text(text: str, namespace: Mapping[str, object]) -> object:
    """The type that `type_text` wrote. Nothing is run to find it; what is not to be found is known by its text.

    >>> type_of_text("list[int] | None", {})
    list[int] | None
    """
    if not text:
        return None
    try:
        found = _resolve(ast.parse(text, mode="eval").body, namespace)
        check_type(found)
    except (LookupError, SyntaxError, TypeError, AttributeError):
        return TypeText(text)
    return NoneType if found is None else found


def _resolve(node: ast.expr, namespace: Mapping[str, object]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            for scope in (vars(builtins), vars(typing), namespace):
                if isinstance(scope.get(name), type) or (scope is vars(typing) and name in scope):
                    return scope[name]
            raise LookupError(name)
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return getattr(sys.modules[module], name)
        case ast.Attribute(value=value, attr=name):
            found = _resolve(value, namespace)
            if not isinstance(found, type | ModuleType):
                raise LookupError(name)
            return getattr(found, name)
        case ast.Subscript(value=value, slice=inner):
            return _resolve(value, namespace)[_resolve(inner, namespace)]
        case ast.Tuple(elts=parts):
            return tuple(_resolve(part, namespace) for part in parts)
        case ast.List(elts=parts):
            return [_resolve(part, namespace) for part in parts]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            either: object = _resolve(left, namespace) | _resolve(right, namespace)
            return either
        case _:
            raise LookupError(type(node).__name__)


def _adapter(wanted: Any) -> Any:
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(wanted, config=ConfigDict(arbitrary_types_allowed=True))
    except PydanticUserError:  # a model or dataclass brings its own configuration
        return TypeAdapter(wanted)


def _is_called(value: object, text: str) -> bool:
    kinds = {type_text(kind) for kind in type(value).__mro__}
    return any(one.partition("[")[0].strip() in kinds for one in text.split("|"))


def fit(value: object, wanted: object) -> object:
    """The value, made fit where that loses nothing (a dict for a model of pydantic).

    Raises:
        Misfit: it is of another type, or a field of a dataclass in it is.
    """
    return _fit(value, wanted, set())


def _fit(value: object, wanted: object, checked: set[int]) -> object:
    if not type_text(wanted):
        return value
    if isinstance(wanted, TypeText):
        if _is_called(value, wanted.text):
            return value
        raise Misfit(f"it must be {wanted.text}, and is {type_text(type(value))}")
    if isinstance(wanted, type) and not _is_of_pydantic(wanted) and not typing.get_args(wanted):
        if isinstance(value, wanted) and not (wanted is int and isinstance(value, bool)):
            return value
        if wanted is float and type(value) is int:
            return float(value)
        raise Misfit(f"it must be {type_text(wanted)}, and is {type_text(type(value))}")
    if _is_dataclass(wanted) and isinstance(value, cast("type", wanted)):
        _check_fields(value, checked)
        return value
    from pydantic import PydanticUserError, ValidationError

    try:
        made = _adapter(wanted).validate_python(value, strict=None)
        if not _is_same(made, value):
            raise Misfit(f"it must be {type_text(wanted)}, and a value in it is of another type")
        _check_fields(made, checked)
        return made
    except ValidationError as error:
        reasons = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in error.errors()[:5])
        raise Misfit(f"it must be {type_text(wanted)}: {reasons}") from None
    except PydanticUserError:  # a dataclass of what pydantic does not know: only an instance will do
        raise Misfit(f"it must be {type_text(wanted)}, and is {type_text(type(value))}") from None


def _check_fields(value: object, checked: set[int]) -> None:
    """Check what the dataclasses in a value hold: pydantic takes an instance of one as it is.

    Args:
        checked: the ids of those that are checked already, as one may hold itself.
    """
    kind = type(value)
    if kind in (list, tuple):
        for one in cast("list[object]", value):
            _check_fields(one, checked)
    elif kind is dict:
        for one in cast("dict[object, object]", value).values():
            _check_fields(one, checked)
    elif _is_dataclass(kind) and id(value) not in checked:
        checked.add(id(value))
        try:
            hints = typing.get_type_hints(kind, include_extras=True)
        except (NameError, TypeError):  # an annotation that is not known here: nothing can be said of any
            return
        for field in dataclasses.fields(cast("Any", kind)):
            _check_field(value, field.name, hints[field.name], checked)


def _check_field(value: object, name: str, wanted: object, checked: set[int]) -> None:
    try:
        check_type(wanted)
    except TypeError:
        return
    try:
        _fit(getattr(value, name, None), wanted, checked)
    except Misfit as misfit:
        raise Misfit(f"{type(value).__name__}.{name}: {misfit}") from None


def _type_of(value: object) -> type:
    return type(value)


def _is_same(made: Any, original: Any) -> bool:
    """Whether pydantic has turned no text into a number, no number into a truth, and the like."""
    kind, before = _type_of(made), _type_of(original)
    if issubclass(kind, list | tuple) and issubclass(before, list | tuple):
        return all(map(_is_same, made, original))
    if kind is dict and before is dict:
        return all(
            _is_same(one, original[key]) if key in original else type(key) not in _SCALARS for key, one in made.items()
        )
    if kind not in _SCALARS or (issubclass(before, kind) and issubclass(before, bool) == (kind is bool)):
        return True
    number = numbers.Integral if kind is int else numbers.Real
    return kind in (int, float) and before is not bool and issubclass(before, number)


def _is_dataclass(wanted: object) -> bool:
    """Whether it is a dataclass of the standard library."""
    return (
        isinstance(wanted, type) and dataclasses.is_dataclass(wanted) and not hasattr(wanted, "__pydantic_validator__")
    )


def _is_of_pydantic(wanted: type) -> bool:
    return (
        hasattr(wanted, "__pydantic_validator__")
        or hasattr(wanted, "__dataclass_fields__")
        or (hasattr(wanted, "__required_keys__") or (hasattr(wanted, "_fields") and issubclass(wanted, builtins.tuple)))
    )
