"""Objects of libraries are saved whole or not at all, and what pickles but does not load is told of or saved past it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.notebooks import Notebook


def test_a_temporary_file_is_named_and_never_deleted() -> None:
    with Notebook() as nb:
        before = nb.run("import tempfile, os\nx = 1")
        made = nb.run("tf = tempfile.NamedTemporaryFile()\ntf.write(b'kept')\ntf.flush()\nholder = {'file': tf}")
        assert {unsaved.name for unsaved in made.unsaved} >= {"holder", "tf"}
        path = Path(str(nb.look("tf.name")))
        for commit in (before, made, before, made):
            nb.checkout(commit)
            assert path.read_bytes() == b"kept"
        assert nb.look("holder['file'] is tf")
        nb.run("tf.close()")


def test_a_temporary_folder_is_named_and_never_deleted() -> None:
    with Notebook() as nb:
        before = nb.run("import tempfile, pathlib\nx = 1")
        made = nb.run("td = tempfile.TemporaryDirectory()\npathlib.Path(td.name, 'a.txt').write_text('kept')")
        assert [unsaved.name for unsaved in made.unsaved] == ["td"]
        path = Path(str(nb.look("td.name")), "a.txt")
        for commit in (before, made, before, made):
            nb.checkout(commit)
            assert path.read_text() == "kept"
        nb.run("td.cleanup()")


def test_a_library_object_around_a_file_is_not_taken_apart(tmp_path: Path) -> None:
    path = tmp_path / "sound.wav"
    with Notebook() as nb:
        before = nb.run("import wave\nx = 1")
        made = nb.run(
            f"w = wave.open({str(path)!r}, 'wb')\nw.setparams((1, 2, 8000, 0, 'NONE', ''))\nw.writeframes(b'1234')"
        )
        assert [unsaved.name for unsaved in made.unsaved] == ["w"]
        live = nb.look("w")
        nb.checkout(before)
        nb.checkout(made)
        assert nb.look("w") is live
        nb.run("w.writeframes(b'5678')\nw.close()")
        assert nb.look(f"wave.open({str(path)!r}).readframes(9)") == b"12345678"


LOADS = {
    "an exception over one with fields of its own": (
        """class E(OSError):
    def __init__(self, a, b):
        super().__init__(a, 'said')
        self.b = b
e = E(1, 2)""",
        "(e.errno, e.strerror, e.b, e.args) == (1, 'said', 2, (1, 'said'))",
    ),
    "an object with slots that answers for any name": (
        """class G:
    __slots__ = ('_d',)
    def __init__(self): self._d = {'a': 1}
    def __getattr__(self, name): return self._d[name]
g = G()""",
        "g.a == 1 and type(g) is G",
    ),
    "an object that is a key of its own dict": (
        """class H:
    def __init__(self): self.d, self.k = {}, 3
    def __hash__(self): return hash(self.k)
    def __eq__(self, other): return self.k == other.k
h = H()
h.d[h] = {h}""",
        "[*h.d][0] is h and h.d[h] == {h} and list(vars(h)) == ['d', 'k']",
    ),
    "dataclasses that are keys of each other": (
        """from dataclasses import dataclass, field
@dataclass(unsafe_hash=True)
class N:
    name: str
    near: dict = field(default_factory=dict, hash=False, compare=False, repr=False)
a, b = N('a'), N('b')
a.near[b], b.near[a] = 1, 2""",
        "a.near[b] == 1 and b.near[a] == 2 and [*a.near][0] is b",
    ),
    "an iterator of the notebook's own, which is abstract before it has its methods": (
        "import collections.abc\nclass M(collections.abc.Iterator):\n    def __next__(self): return 1\nm = M()",
        "next(m) == 1",
    ),
    "an exception whose arguments are not its own": (
        """class E(Exception):
    def __init__(self, a, b):
        super().__init__(a)
        self.b = b
e = E(1, 2)""",
        "e.args == (1,) and e.b == 2 and type(e) is E",
    ),
    "an object that answers for any name": (
        """class G:
    def __init__(self):
        self._d = {'x': 3}
    def __getattr__(self, name):
        return self._d[name]
g = G()""",
        "g.x == 3",
    ),
    "a new type": (
        "import typing\nUid = typing.NewType('Uid', int)\nuid = Uid(3)",
        "Uid(4) == 4 and Uid.__name__ == 'Uid'",
    ),
}


@pytest.mark.parametrize(("made", "look"), LOADS.values(), ids=LOADS)
def test_what_plain_pickle_cannot_load_comes_back(made: str, look: str) -> None:
    with Notebook() as nb:
        commit = nb.run(made)
        assert commit.unsaved == ()
        nb.run("for name in [n for n in list(globals()) if not n.startswith('_')]:\n    del globals()[name]")
        nb.checkout(commit)
        assert nb.look(look)


def test_a_class_whose_metaclass_is_written_in_c_is_named_and_costs_only_itself() -> None:
    with Notebook() as nb:
        made = nb.run(
            "import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\ns = S(3)\nx = [1]"
        )
        assert {unsaved.name for unsaved in made.unsaved} == {"S", "s"}
        nb.run("x.append(2)")
        nb.checkout(made)
        assert nb.look("(x, s.a, type(s) is S)") == ([1], 3, True)


def test_classes_of_one_cell_that_share_nothing_are_saved_apart() -> None:
    bodies = ["pass", "x = [1]", "def m(self):\n        return 1", "x = {'a': [2]}\n    def m(self):\n        return 2"]
    with Notebook() as nb:
        nb.run("\n".join(f"class C{number}:\n    {body}" for number, body in enumerate(bodies * 3)))
        tree = nb.repo.tree_at(nb.session.head)
        assert {entry.alias_group for _, entry in tree.items()} == {""}


def test_what_a_class_alone_holds_and_cannot_be_saved_is_named_after_the_class() -> None:
    with Notebook() as nb:
        made = nb.run(
            "def make():\n    class Local:\n        under_way = (n for n in range(3))\n    return [Local()]\nheld = make()"
        )
        assert [unsaved.name for unsaved in made.unsaved] == ["class make.<locals>.Local"]
        assert [lost.name for lost in nb.session.status().lost] == ["class make.<locals>.Local"]


def test_no_loss_is_told_of_without_a_name() -> None:
    with Notebook() as nb:
        made = nb.run("import io, xml.etree.ElementTree as ET\nit, z = ET.iterparse(io.StringIO('<a/>')), [1]")
        assert all(unsaved.name for unsaved in (*made.unsaved, *nb.session.status().lost))
        nb.run("del it, z")
        nb.checkout(made)
        assert nb.look("z") == [1]
        made = nb.run("import ctypes\nclass S(ctypes.Structure):\n    _fields_ = [('a', ctypes.c_int)]\ns = S(4)")
        assert {unsaved.name for unsaved in made.unsaved} == {"S", "s"}
