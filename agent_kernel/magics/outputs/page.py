"""What a step of an agent may show in the page: every message to the front end passes here, whoever made it.

Displays, results, widgets and channels leave the kernel through `Session.send`, and what comes with a cell's reply is kept by
the payload manager. Both are asked on their class, so that another reference to them is no way around. Without a step
that has a gate nothing is looked at, but for what functions show that such a step left to be called.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from agent_kernel.agents.gate import Gate
    from agent_kernel.magics.shell import Shell

__all__ = ["guard_page"]

_BUNDLES: Final = frozenset({"display_data", "update_display_data", "execute_result"})
_WIDGETS: Final = "jupyter.widget"
_KNOWN: Final = frozenset({_WIDGETS, "jupyter.widget.control", "jupyter.widget.version"})
_PAYLOADS: Final = {
    "set_next_input": "code in a cell of yours",
    "edit_magic": "an editor",
    "ask_exit": "the end of the kernel",
}
_guarded: set[type] = set()


def guard_page(shell: Shell) -> None:
    """Have what steps send to the page looked at, from now on."""
    kernel = getattr(shell, "kernel", None)
    _wrap(getattr(kernel, "session", None), "send", _sending)
    _wrap(getattr(kernel, "iopub_thread", None), "send_multipart", _sending_raw)
    _wrap(getattr(shell, "payload_manager", None), "write_payload", _writing_payload)


def _wrap(target: object, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    kind = type(target)
    act = getattr(kind, name, None)
    if target is not None and kind not in _guarded and callable(act):
        _guarded.add(kind)
        setattr(kind, name, functools.wraps(act)(wrapper(act)))


class _LeftBehind:
    """The gate of what a step left to be called: nobody can be asked any more, and nobody's cell is to fail for it."""

    def may_show(self, what: str, frame: FrameType | None) -> bool:
        return False


_left_behind = _LeftBehind()


def _gate() -> Gate | _LeftBehind | None:
    """What stops the step that this thread works for, if anything does. Before the first step nothing of that is loaded."""
    effects: Any = sys.modules.get("agent_kernel.agents.effects")
    if effects is None:
        return None
    gate = cast("Callable[[], Gate | None]", effects.gate_here)()
    if gate is not None or not effects.has_guarded():
        return gate
    from agent_kernel.agents.gate import is_left_behind

    return _left_behind if is_left_behind(inspect.currentframe()) else None


class _Inside(threading.local):
    """Whether this thread is sending a message that was looked at."""

    now = False


_inside = _Inside()


def _sending(send: Callable[..., Any]) -> Callable[..., Any]:
    def sending(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate = _gate()
        if gate is None:
            return inside(self, *args, **kwargs)
        return guarded(self, gate, *args, **kwargs)

    def guarded(
        self: Any, gate: Gate | _LeftBehind, stream: Any, message: Any, content: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        message, content = _plain(message), _plain(content)
        whole = _mapping(message)
        given = _mapping(whole.get("content") if whole else content)
        seen = _looked_at(gate, str(whole.get("msg_type") if whole else message), given)
        if seen is None:
            return None
        if seen is not given:
            message, content = ({**whole, "content": seen}, content) if whole else (message, seen)
        return inside(self, stream, message, content, *args, **kwargs)

    def inside(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, _inside.now = _inside.now, True
        try:
            return send(self, *args, **kwargs)
        finally:
            _inside.now = before

    return sending


def _sending_raw(send: Callable[..., Any]) -> Callable[..., Any]:
    def sending_raw(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate = None if _inside.now else _gate()
        if gate is not None and _is_withheld(gate, "a message", "nobody can read"):
            return None
        return send(self, *args, **kwargs)

    return sending_raw


def _writing_payload(write: Callable[..., Any]) -> Callable[..., Any]:
    def writing_payload(self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        gate = _gate()
        if gate is not None:
            from agent_kernel.agents.review.bundles import active_parts

            data = _plain(data)
            given = _mapping(data)
            source = str(given.get("source", ""))
            active = active_parts(_mapping(given.get("data"))) if source == "page" else {}
            what = next(iter(active), _PAYLOADS.get(source, "" if source == "page" else source or "a payload"))
            if what and _is_withheld(gate, what, active.get(what, "nobody asked for")):
                return None
        return write(self, data, *args, **kwargs)

    return writing_payload


def _looked_at(gate: Gate | _LeftBehind, kind: str, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The content as it may be sent; None: not at all."""
    if kind in _BUNDLES:
        return _bundle(gate, content)
    if kind not in ("comm_open", "comm_msg"):
        return content
    target = str(content.get("target_name", _WIDGETS))
    data = _mapping(content.get("data"))
    if target not in _KNOWN:
        return None if _is_withheld(gate, f"a channel to {target}", "runs a program of the page") else content
    from agent_kernel.agents.review.bundles import active_state

    active = active_state(_mapping(data.get("state")))
    return None if active and _is_withheld(gate, "a widget", active) else content


def _bundle(gate: Gate | _LeftBehind, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    from agent_kernel.agents.gate import THAT
    from agent_kernel.agents.review.bundles import active_parts

    data = _mapping(content.get("data"))
    active = active_parts(data)
    refused = [mime for mime in active if not gate.may_show(mime, inspect.currentframe())]
    if not refused:
        return content
    if len(refused) < len(active):  # the page needs no second way to show what was allowed
        return {**content, "data": {mime: value for mime, value in data.items() if mime not in refused}}
    left = {mime: value for mime, value in data.items() if mime not in active}
    if not isinstance(gate, _LeftBehind) and not gate.withholds:
        first, *_ = [gate.stop("shows", f"{mime}{THAT}{why}") for mime, why in active.items()]
        raise first
    for mime, why in active.items():
        _is_withheld(gate, mime, why)
    return {**content, "data": left} if left else None


def _is_withheld(gate: Gate | _LeftBehind, what: str, why: str) -> bool:
    """Whether something is not sent. Where somebody can be asked, the step ends here.

    Raises:
        EffectStopped: a person is to be asked.
    """
    if gate.may_show(what, inspect.currentframe()):
        return False
    from agent_kernel.agents.gate import THAT

    target = f"{what}{THAT}{why}"
    if not isinstance(gate, _LeftBehind) and not gate.withholds:
        raise gate.stop("shows", target)
    sys.stdout.write(f"[withheld: {target}]\n")
    return True


def _plain(value: Any) -> Any:
    """The same made of plain texts, lists and dicts: classes of the step's own may say something else when they are sent."""
    kind = cast("type[object]", type(value))
    if issubclass(kind, str):
        return str.__str__(value)  # of one that is no plain one, its letters
    if issubclass(kind, dict):
        return {_plain(key): _plain(one) for key, one in dict[Any, Any].items(value)}
    if issubclass(kind, list):
        return [_plain(one) for one in list[Any].__iter__(value)]
    if issubclass(kind, tuple):
        return tuple(_plain(one) for one in tuple[Any, ...].__iter__(value))
    return value


def _mapping(found: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}
