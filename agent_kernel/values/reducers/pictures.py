"""PIL: save the pixels of a picture (`im.load()`), and what draws on it (`ImageDraw.Draw(im)`), together with the picture.

Neither knows its picture: both hold only its core, the object that PIL keeps the pixels in. So each picture whose core has
other holders is noted by the core. If no picture is known, because no variable leads to it, one is made around the core.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

import ctypes
import sys
import weakref
from typing import TYPE_CHECKING, Any

from agent_kernel.values.introspection import derives_from, find_loaded, instance_dict
from agent_kernel.values.reducers import Handler, instances, is_notebook_type
from agent_kernel.values.restore import objects as restore

if TYPE_CHECKING:
    from agent_kernel.values.pickler import Pickler

_pictures: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by the id of its core


def handler_for(kind: type[Any]) -> Handler | None:
    """The handler of a class of PIL; None if any library's handler will do."""
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
            pickler.note_view(picture, address)
        return whole(pickler, picture)

    return reduce_picture


def _core_in(attributes: dict[str, Any]) -> Any:
    """The core of a picture, which is None until PIL reads the file. Does not make PIL read it."""
    return attributes.get("_im", attributes.get("im"))


def _count_holders(attributes: dict[str, Any]) -> int:
    """The number of references to the core; 0 without a core."""
    core = _core_in(attributes)
    return 0 if core is None else sys.getrefcount(core)


_OF_ONE = _count_holders({"_im": object()})


def is_pixel_access(kind: type) -> bool:
    """Whether this is the class of what `Image.load` returns. No module has a name for it."""
    if kind.__name__ != "PixelAccess" or kind.__module__ != "builtins":
        return False
    library: Any = find_loaded("PIL.Image", "core")
    if library is None:
        return False
    core = library.new("L", (1, 1))
    pixels = core.pixel_access(0)
    return type(pixels) is kind and _find_core_address(pixels) == id(core)


def _find_core_address(pixels: object) -> int | None:
    """The address of the core: the first field of the C struct."""
    return ctypes.c_void_p.from_address(id(pixels) + object.__basicsize__).value


def reduce_pixels(pickler: Pickler, pixels: Any) -> Any:
    core: Any = ctypes.cast(ctypes.c_void_p(_find_core_address(pixels)), ctypes.py_object).value
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
    """The picture of this core, or a new one around it."""
    pickler.note_view(holder, id(core))
    known = _pictures.get(id(core))
    if known is None or _core_in(instance_dict(known)) is not core:
        known = pickler.known_in_dump.get((id(core), "picture"))
    if known is None:
        library: Any = find_loaded("PIL.Image", "Image")
        known = pickler.known_in_dump[id(core), "picture"] = library()._new(core)
        pickler.keepalive.append(known)
        pickler.muted.add(id(known))  # no variable can hold it
    pickler.dump_record.roots.append((known,))
    return known
