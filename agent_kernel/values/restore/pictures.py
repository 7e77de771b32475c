"""PIL: what looks at the pixels of a picture, and what draws on it."""

from __future__ import annotations

from typing import Any


def pixels_of(picture: Any) -> Any:
    """What `Image.load` gives: for `pixels[x, y]`."""
    return picture.im.pixel_access(0)


def drawing_on(picture: Any, mode: str) -> Any:
    from PIL import ImageDraw

    return ImageDraw.Draw(picture, mode)
