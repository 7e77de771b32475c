"""Put a method of ours in the place of one object's, and take it away again without a trace."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["put_back", "replace"]


def replace(undo: list[Callable[[], None]], owner: object, name: str, ours: object, *, only: object = None) -> bool:
    """Put our method in the place of an object's, if that is `only`; False: there is no place for it."""
    before: object = vars(owner).get(name) if hasattr(owner, "__dict__") else None
    if only is not None and before is not only:
        return False  # somebody else listens here too by now, and still calls us
    try:
        setattr(owner, name, ours)
    except AttributeError:
        return False  # a stream of a kind that cannot be listened to

    def restore() -> None:
        if vars(owner).get(name) is not ours:
            return
        if before is None:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    undo.append(restore)
    return True


def put_back(undo: list[Callable[[], None]]) -> None:
    """Take back, last first, what was replaced."""
    while undo:
        undo.pop()()
