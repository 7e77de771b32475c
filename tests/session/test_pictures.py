"""What looks at the pixels of a picture of PIL, or draws on it, does so at the picture that a checkout brings."""

from __future__ import annotations

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

pytest.importorskip("PIL")

HOLDERS = {
    "pixels": ("p = im.load()", "p[0, 0] = {}"),
    "pixels in a list": ("held = [im.load()]", "held[0][0, 0] = {}"),
    "a drawing": ("from PIL import ImageDraw\nd = ImageDraw.Draw(im)", "d.point((0, 0), {})"),
    "a drawing that blends": (
        "from PIL import ImageDraw\nd = ImageDraw.Draw(im, 'RGBA')",
        "d.point((0, 0), (*{}, 255))",
    ),
}
LOOK = "im.getpixel((0, 0))"


@pytest.mark.parametrize("how", HOLDERS)
@pytest.mark.parametrize("name", ["im", "zoom"])  # which is looked at before what looks at it, and after
def test_what_is_written_after_a_checkout_is_seen_in_the_picture(how: str, name: str) -> None:
    make, write = HOLDERS[how]
    make, look = (
        make.replace("im)", f"{name})").replace("im.", f"{name}.").replace("(im,", f"({name},"),
        LOOK.replace("im", name),
    )
    with Notebook() as nb:
        nb.run(f"from PIL import Image\n{name} = Image.new('RGB', (4, 4))\n{make}")
        made = nb.run(write.format((1, 2, 3)))
        assert name in names_changed(made)
        assert made.unsaved == ()
        assert names_changed(nb.run(f"y = {look}")) == {"y"}
        nb.run(write.format((4, 5, 6)))
        nb.checkout(made)
        assert nb.look(look) == (1, 2, 3)
        assert name in names_changed(nb.run(write.format((7, 8, 9))))
        assert nb.look(look) == (7, 8, 9)
    with Notebook(nb.repo) as again:
        again.checkout(made)
        again.run(write.format((4, 5, 6)))
        assert again.look(look) == (4, 5, 6)


def test_pixels_of_a_picture_that_is_gone_show_the_same_still() -> None:
    with Notebook() as nb:
        nb.run("from PIL import Image\nim = Image.new('L', (4, 4), 5)\np, q = im.load(), im.load()\ndel im")
        made = nb.run("p[1, 1] = 7")
        assert names_changed(made) == {"p", "q"}
    with Notebook(nb.repo) as again:
        again.checkout()
        again.run("q[0, 0] = 1")
        assert again.look("[p[0, 0], p[1, 1], p[2, 2]]") == [1, 7, 5]


def test_a_drawing_keeps_how_it_draws() -> None:
    with Notebook() as nb:
        nb.run(
            "from PIL import Image, ImageDraw\nim = Image.new('RGB', (4, 4))\nd = ImageDraw.Draw(im)\n"
            "d.fontmode, d.fill, d.mine = '1', True, [1]\nmine = d.mine"
        )
    with Notebook(nb.repo) as again:
        again.checkout()
        assert again.look("(d.fontmode, d.fill, d.mine is mine, d.mode)") == ("1", True, True, "RGB")


def test_pictures_that_nothing_else_looks_at_share_nothing() -> None:
    with Notebook() as nb:
        nb.run("from PIL import Image\nim = Image.new('RGB', (4, 4))\ncopy = im.copy()\np = copy.load()\nalone = [im]")
        assert names_changed(nb.run("p[0, 0] = 1, 2, 3")) == {"copy", "p"}


def test_what_a_person_notes_at_a_picture_comes_back_with_it() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "import io\nfrom PIL import Image\nim = Image.new('RGB', (4, 4)); data = io.BytesIO(); im.save(data, 'png')\n"
            "opened = Image.open(data); shared = [1]; im.note = opened.note = shared; pixels = im.load()"
        )
        early = nb.run("opened.load()")
        assert early.unsaved == ()
        assert "im" in names_changed(nb.run("im.note.append(2)"))
        assert names_changed(nb.run("im.size, opened.info, im.convert('L'), opened.getexif()")) == set()
        nb.checkout(early)
        assert nb.look("(im.note is shared, opened.note is shared, shared)") == (True, True, [1])
    with Notebook(Repository.open(store)) as nb:
        nb.checkout()
        assert nb.look("(im.note is shared, opened.note is shared, shared)") == (True, True, [1])
