"""PIL: what looks at the pixels of a picture, or draws on them, comes back at the same picture.

Neither says which picture that is: both hold what the picture holds, its core. So each picture that is saved is noted with
its core. Where none is, because no variable leads to it any more, a picture is made around the core.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import TYPE_CHECKING, Any

from agent_kernel.values.introspection import derives_from, find_loaded, instance_dict
from agent_kernel.values.reducers import Handler, instances, is_notebook_type
from agent_kernel.values.restore import pictures as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_pictures: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by the id of its core


def handler_for(kind: type[Any]) -> Handler | None:
    """The handler of a class of PIL; None if it needs no other than those of any library."""
    from agent_kernel.values.reducers import objects

    if id(kind) == id(find_loaded("PIL.ImageDraw", "ImageDraw")):
        return reduce_drawing
    if not derives_from(kind, find_loaded("PIL.Image", "Image")):
        return None
    whole = instances.handler_for(kind) or objects.handler_for(kind)
    if is_notebook_type(kind):
        whole = instances.of_notebook(kind, whole)
    else:
        whole = instances.with_additions(kind, instances.past_foreign_new(kind, whole))

    def reduce_picture(pickler: Pickler, picture: Any) -> Any:
        attributes = instance_dict(picture)
        if _count_holders(attributes) > _OF_ONE:
            address = id(_core_in(attributes))
            _pictures[address] = picture
            pickler.looks_into(picture, address)
        return whole(pickler, picture)

    return reduce_picture


def _core_in(attributes: dict[str, Any]) -> Any:
    """What holds the pixels of a picture, as far as they were read; nothing is read for that."""
    return attributes.get("_im", attributes.get("im"))


def _count_holders(attributes: dict[str, Any]) -> int:
    """How many references there are to the core; none where there is no core yet."""
    core = _core_in(attributes)
    return 0 if core is None else sys.getrefcount(core)


_OF_ONE = _count_holders({"_im": object()})


def is_pixel_access(kind: type) -> bool:
    """Whether this is the class of what `Image.load` gives, which has no name in any module."""
    if kind.__name__ != "PixelAccess" or kind.__module__ != "builtins":
        return False
    library: Any = find_loaded("PIL.Image", "core")
    if library is None:
        return False
    core = library.new("L", (1, 1))
    pixels = core.pixel_access(0)
    return type(pixels) is kind and _field_of(pixels) == id(core)


def _field_of(pixels: object) -> int | None:
    """The first field of what looks at pixels: the address of the core."""
    return ctypes.c_void_p.from_address(id(pixels) + object.__basicsize__).value


def reduce_pixels(pickler: Pickler, pixels: Any) -> Any:
    core: Any = ctypes.cast(ctypes.c_void_p(_field_of(pixels)), ctypes.py_object).value
    pickler.dump_record.opaque.append(pixels)
    return restore.pixels_of, (_picture_with(pickler, pixels, core),)


def reduce_drawing(pickler: Pickler, drawing: Any) -> Any:
    pickler.dump_record.instances.append(drawing)
    attributes: dict[str, Any] = instance_dict(drawing)
    picture = _picture_with(pickler, drawing, attributes["im"])
    own = {name: held for name, held in attributes.items() if name not in ("_image", "im", "draw", "palette", "mode")}
    parts = restore.drawing_on, (picture, attributes["mode"]), own
    pickler.note_temporary(parts)
    return parts


def _picture_with(pickler: Pickler, holder: object, core: Any) -> Any:
    """The picture of this core."""
    pickler.looks_into(holder, id(core))
    known = _pictures.get(id(core))
    if known is None or _core_in(instance_dict(known)) is not core:
        known = pickler.known_of_types.get((id(core), "picture"))
    if known is None:
        library: Any = find_loaded("PIL.Image", "Image")
        known = pickler.known_of_types[id(core), "picture"] = library()._new(core)
        pickler.keepalive.append(known)
        pickler.muted.add(id(known))  # nothing else has it
    pickler.dump_record.roots.append((known,))
    return known
