"""PIL: make the pixel access of a picture again, and what draws on it."""

from __future__ import annotations

from typing import Any


def pixels_of(picture: Any) -> Any:
    """What `Image.load` returns, so that `pixels[x, y]` works."""
    return picture.im.pixel_access(0)


def drawing_on(picture: Any, mode: str) -> Any:
    from PIL import ImageDraw

    return ImageDraw.Draw(picture, mode)
