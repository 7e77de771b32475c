"""Values whose every answer is a trap: what touches one while it is watched has run its code."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from agent_kernel.values.previews import Preview, encode, line, lines_diff, make_preview

touched: list[str] = []
trapped: list[type] = []
is_watched = False

HOOKS = (
    "__reduce__ __reduce_ex__ __getstate__ __repr__ __str__ __format__ __len__ __length_hint__ __iter__ __next__ __eq__ "
    "__ne__ __lt__ __hash__ __bool__ __contains__ __getitem__ __index__ __int__ __float__ __complex__ __sizeof__ "
    "__dir__ __call__ __bytes__ __fspath__ __getattr__ __getattribute__ __array__ __array_finalize__ __array_ufunc__ "
    "__array_function__ __dataframe__ __arrow_c_stream__ __missing__ __copy__ __deepcopy__ __get__ "
    "_repr_html_ _repr_mimebundle_ _repr_pretty_ _ipython_display_ __instancecheck__ __subclasscheck__ "
    "isoformat utcoffset tzname item tolist keys items values take head"
)
PROPERTIES = "__doc__ __module__ shape dtype dtypes columns index size nbytes ndim name flat _mgr _data"
META_HOOKS = (
    "__getattribute__ __getattr__ __hash__ __eq__ __repr__ __bool__ __len__ __iter__ __instancecheck__ __subclasscheck__ "
    "__call__ __or__"
)


def trap(name: str) -> Callable[..., Any]:
    def sprung(*args: object, **named: object) -> Any:
        touched.append(name)
        raise RuntimeError(name)

    return sprung


def guarded(name: str, otherwise: Callable[[Any], Any]) -> property:
    """A trap for what can only be defined in a class body, and is needed to build a value."""
    return property(lambda owner: trap(name)() if is_watched else otherwise(owner))


def of_type(name: str) -> Any:
    return guarded(name, type.__dict__[name].__get__)


# A metaclass whose every answer is a trap while it is watched.
HostileMeta: Any = type(
    "HostileMeta",
    (type,),
    {
        "__class__": guarded("meta __class__", type),
        **{name: of_type(name) for name in ("__name__", "__dict__", "__mro__", "__flags__")},
    },
)


def hostile(base: type = object) -> Any:
    """A subclass of `base` that overrides everything it can with traps while it is watched."""
    kind = HostileMeta if type(base) is type else type(base)
    made = kind("Hostile", (base,), {"__class__": guarded("__class__", type)})
    trapped.append(made)
    return made


@contextmanager
def watched() -> Generator[None]:
    """Set the traps, which nothing but the code inside can spring."""
    global is_watched
    touched.clear()
    planned: list[tuple[Any, str, object]] = [(made, name, trap(name)) for made in trapped for name in HOOKS.split()]
    planned += [(made, name, property(trap(name))) for made in trapped for name in PROPERTIES.split()]
    planned += [(HostileMeta, name, trap(f"meta {name}")) for name in META_HOOKS.split()]
    before = [(made, name, type.__dict__["__dict__"].__get__(made).get(name)) for made, name, _ in planned]
    try:
        is_watched = True
        for made, name, held in planned:
            type.__setattr__(made, name, held)
        yield
    finally:
        is_watched = False
        for made, name, held in before:
            if held is None:
                type.__delattr__(made, name)
            else:
                type.__setattr__(made, name, held)


def assert_untouched(value: object, name: str = "value") -> Preview:
    touched.clear()
    with watched():
        shown = make_preview(value, name)
        line(shown)
        lines_diff(shown, make_preview(value, name))
        encode(shown)
    assert touched == []
    return shown
