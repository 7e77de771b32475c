"""Objects with traits: a widget of ipywidgets set back while it lives, or made again from class and state."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any, Final

from agent_kernel.values.introspection import bases_of, module_name
from agent_kernel.values.restore.context import Later, current

# What belongs to the connection with the front end, and to a message that is being handled.
_PASSING: Final = frozenset(
    {"comm", "log", "keys", "_view_count", "_property_lock", "_holding_sync", "_states_to_send"}
)
_SHOWN_AS: Final = "_repr_mimebundle_"
_APART: Final = frozenset({"_trait_values", "_trait_notifiers", "_trait_validators", "_model_id", _SHOWN_AS})

logger = logging.getLogger(__name__)


class WidgetState(Later):
    """What is stored of a widget. What every widget of its class has is left out: that comes with the class."""

    is_open: bool
    traits: dict[str, Any]
    attributes: dict[str, Any]
    observers: dict[str, dict[Any, list[Any]]]  # by trait and kind of change
    validators: dict[str, Any]

    @classmethod
    def of(cls, widget: Any) -> WidgetState:
        found: dict[str, Any] = object.__getattribute__(widget, "__dict__")
        passing = _passing(found)
        traits = {name: value for name, value in found["_trait_values"].items() if name not in passing}
        attributes = {name: value for name, value in found.items() if name not in passing | _APART}
        if found.get(_SHOWN_AS, passing) is None:  # as `close` leaves it: the widget is shown by its text alone
            attributes[_SHOWN_AS] = None
        observers: dict[str, dict[Any, list[Any]]] = {}
        for name, by_kind in found["_trait_notifiers"].items():
            own = {kind: [one for one in some if not _is_of_class(one)] for kind, some in by_kind.items()}
            observers |= {name: {kind: some for kind, some in own.items() if some}} if any(own.values()) else {}
        validators = {name: one for name, one in found["_trait_validators"].items() if not _is_of_class(one)}
        return cls(found["_trait_values"].get("comm") is not None, traits, attributes, observers, validators)

    def set_into(self, widget: Any) -> list[str]:
        """Give a widget this state, past its observers. Returns the names of the traits that are others now."""
        found: dict[str, Any] = object.__getattribute__(widget, "__dict__")
        values, passing = found["_trait_values"], _passing(found)
        changed = [name for name, value in self.traits.items() if not _is_same(values.get(name, values), value)]
        for name in [name for name in values if name not in self.traits and name not in passing]:
            del values[name]
        values.update(self.traits)
        for name in [name for name in found if name not in self.attributes and name not in passing | _APART]:
            del found[name]
        found.update(self.attributes)
        _drop_handlers(found)
        for name, by_kind in self.observers.items():
            for kind, some in by_kind.items():
                found["_trait_notifiers"].setdefault(name, {}).setdefault(kind, []).extend(some)
        found["_trait_validators"].update(self.validators)
        return changed

    def give(self, made: Any) -> None:
        """Set the live widget back, or show a new one, and let the front end know."""
        was_open = made._trait_values.get("comm") is not None
        _drop_handlers(object.__getattribute__(made, "__dict__"))  # its observers hear nothing of all this
        if not was_open:
            _in_the_page(made, lambda: self._show(made))
        elif not self.is_open:
            _in_the_page(made, made.close)
        changed = self.set_into(made)
        keys = [name for name in changed if name in made.keys] if was_open and self.is_open else []
        if keys:
            _in_the_page(made, lambda: made.send_state(keys))

    def _show(self, made: Any) -> None:
        """Show a new widget, in the place of one of another class with its id: that would close it as it dies."""
        before: Any = _living(made._model_id)
        if before is not None and not self.is_open:
            before.close()
        elif before is not None:
            comm, before._trait_values["comm"] = before.comm, None
            made.comm = comm
            made.send_state()
        elif self.is_open:
            made._call_widget_constructed(made)  # whoever waits for new widgets
            made.open()


def _in_the_page(made: Any, act: Callable[[], object]) -> None:
    """A front end that is gone, or a value that it cannot show, keeps no state from coming back."""
    try:
        act()
    except Exception:
        logger.warning("a widget of type %s is back, but could not be shown", type(made).__name__, exc_info=True)


def widget(kind: Any, model_id: str) -> Any:
    """The widget that the front end shows under this id, if that widget should be set back; else a new one, not shown yet."""
    living = _living(model_id) if current().takes_place else None
    if type(living) is kind:
        return living
    made = kind.__new__(kind)
    object.__getattribute__(made, "__dict__")["_model_id"] = model_id or None
    return made


def fill(made: Any, parts: tuple[Any, ...]) -> None:
    state = WidgetState(*parts)
    if made._trait_values.get("comm") is None:
        state.set_into(made)
    current().set_later(made, state)


def with_traits(kind: Any) -> Any:
    """An object that has traits but is not a widget: its state follows."""
    return kind.__new__(kind)


def fill_traits(made: Any, parts: tuple[Any, ...]) -> None:
    WidgetState(*parts).set_into(made)


def _passing(found: dict[str, Any]) -> frozenset[str]:
    """Names that a widget, by its attributes, has for the front end; another object may have traits that are called so."""
    return _PASSING if "_model_id" in found else frozenset()


def _living(model_id: str) -> object:
    module: Any = sys.modules.get("ipywidgets.widgets.widget")
    return module._instances.get(model_id) if module is not None and model_id else None


def _drop_handlers(found: dict[str, Any]) -> None:
    """Leave a widget, by its attributes, no handlers but those of its class."""
    for by_kind in found["_trait_notifiers"].values():
        for some in by_kind.values():
            some[:] = [one for one in some if _is_of_class(one)]
    found["_trait_validators"] = {name: one for name, one in found["_trait_validators"].items() if _is_of_class(one)}


def _is_of_class(handler: object) -> bool:
    """Whether a widget has this handler from its class."""
    kinds = bases_of(type(handler))
    return any(base.__name__ == "EventHandler" and module_name(base).startswith("traitlets") for base in kinds)


def _is_same(one: object, other: object) -> bool:
    return one is other or (type(one) is type(other) and type(one) in (bool, int, float, str, tuple) and one == other)
