"""Values that cannot be saved stay alive as long as they can, and say afterwards what they were."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent_kernel.errors import LostValueError, StoreUnavailableError
from agent_kernel.repository import Unsaved, short
from agent_kernel.session import Repository, Versioned
from agent_kernel.storage import MemoryStore
from agent_kernel.values.aliases import SaveFailure
from agent_kernel.values.loader import SparingUnpickler, TolerantUnpickler
from agent_kernel.values.surface import Placeholder
from tests.support.notebooks import Notebook, names_changed


class TestLostValues:
    def test_say_which_cell_made_them(self) -> None:
        with Notebook() as nb:
            nb.run("x = 1")
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            with pytest.raises(LostValueError) as raised:
                nb.look("next(gen)")
            assert raised.value.name == "gen"
            assert "generator" in raised.value.type
            assert "cell [2]" in str(raised.value)

    @pytest.mark.parametrize("use", ["gen.send(1)", "iter(gen)", "len(gen)", "gen + 1", "gen()", "gen[0]", "1 in gen"])
    def test_raise_however_they_are_used(self, use: str) -> None:
        with Notebook() as nb:
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            with pytest.raises(LostValueError):
                nb.look(use)

    def test_are_committed_again_as_the_same_entry(self) -> None:
        with Notebook() as nb:
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            again = nb.run("x = 1")
            assert names_changed(again) == {"x"}
            nb.run("del gen")
            nb.checkout(again)
            with pytest.raises(LostValueError) as raised:
                nb.look("next(gen)")
            assert "generator" in raised.value.type

    def test_stay_alive_across_a_checkout_that_does_not_touch_them(self) -> None:
        with Notebook() as nb:
            early = nb.run("import threading\nlock = threading.Lock()\nx = 1")
            lock = nb.look("lock")
            nb.run("x = 2")
            nb.checkout(early)
            assert nb.look("lock") is lock
            nb.checkout("main")
            assert nb.look("lock") is lock

    @pytest.mark.parametrize("made", ["loop.create_future()", "type('Own', (asyncio.Future,), {})(loop=loop)"])
    def test_leave_all_else_that_a_variable_holds_where_they_keep_their_attributes_to_themselves(
        self, made: str
    ) -> None:
        with Notebook() as nb:
            nb.run("import asyncio\nloop = asyncio.new_event_loop()\nclass Job:\n    pass\njob = Job()")
            saved = nb.run(f"kept = [[1], {made}, job]\njob.waits_for, of_job = kept[1], vars(job)")
            assert all(lost.reason.startswith("cannot pickle '") for lost in saved.unsaved)
            assert {name for lost in saved.unsaved for name in lost.name.split(", ")} == {"kept", "job", "of_job"}
            nb.look("loop.close()")
        with Notebook(nb.repo) as again:
            again.checkout(saved)
            assert again.look("kept[0], kept[2] is job, vars(job) is of_job") == ([1], True, True)
            with pytest.raises(LostValueError):
                again.look("kept[1].result()")

    def test_leave_all_else_where_a_proxy_in_c_asks_what_it_stands_for(self) -> None:
        with Notebook() as nb:
            nb.run("import wrapt\nkept = [[1]]")
            saved = nb.run("kept.append(wrapt.ObjectProxy(kept))")
            assert [lost.reason for lost in saved.unsaved] == ["object proxy must define __reduce__()"]
        with Notebook(nb.repo) as again:
            again.checkout(saved)
            assert again.look("kept[0]") == [1]

    def test_a_lock_that_is_gone_comes_back_as_one_new_one_for_all_that_shared_it(self) -> None:
        with Notebook() as nb:
            made = nb.run("import threading\nlock = threading.RLock()\nbox = {'lock': lock, 'n': 0}")
            (told,) = {(lost.reason, lost.remedy) for lost in made.unsaved}
            assert told == ("a lock cannot be saved", "after a restart you get a new, unlocked lock")  # no cell to run
            nb.run("del lock, box")
            nb.session.undo()
            assert nb.look("box['lock'] is lock and lock.acquire()") is True
            nb.run("box['n'] = 1")
            assert nb.session.undo().changed  # the box comes back, and the lock is there
            assert nb.look("(box['n'], box['lock'] is lock)") == (0, True)

    def test_are_shared_in_another_kernel_by_what_shared_them_however_it_is_loaded(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("import threading\nlock = threading.Lock(); gen = (i for i in 'ab'); box = [lock, gen]; x = 1")
            nb.run("del gen, lock")
            nb.run("gen = lock = 2")
        with Notebook(Repository.open(store)) as nb:
            nb.session.checkout("HEAD~2")
            assert nb.look("box[0] is lock and box[1] is gen") is True
            assert names_changed(nb.run("x = 3")) == {"x"}  # to load them is to change nothing
            nb.run("del lock")
            nb.session.checkout("HEAD~1", ["lock"])
            nb.session.checkout("HEAD~1", ["box"])
            nb.session.checkout("HEAD~1", ["gen"])
            assert nb.look("box[0] is lock and box[1] is gen") is True
            with pytest.raises(LostValueError):
                nb.look("next(box[1])")

    def test_stay_only_where_the_very_objects_are_alive(self) -> None:
        store = MemoryStore()
        names = ("lock", "gen", "box")
        with Notebook(Repository.open(store)) as nb:
            made = nb.run(
                "import threading\nlock = threading.Lock(); gen = (i for i in 'ab'); box = [lock, gen]"
            ).commit
            assert made is not None
            assert nb.session.alive(made, names) == set(names)
        with Notebook(Repository.open(store)) as nb:
            nb.session.checkout()
            nb.run("x = 1")
            assert nb.session.alive(made, names) == set()  # placeholders, and a new lock

    def test_are_listed_by_status(self) -> None:
        with Notebook() as nb:
            made = nb.run("gen = (i for i in range(3))")
            nb.run("del gen")
            nb.checkout(made)
            assert [lost.name for lost in nb.session.status().lost] == ["gen"]


class TestRemediesAfterARestart:
    """Numbers of cells begin anew in each kernel, so a cell of an earlier one is named by its commit."""

    def test_name_the_commits_of_the_cells(self) -> None:
        with Notebook(session_id="k.1") as nb:
            nb.run("x = 1")
            made = nb.run("gen = (i for i in range(3))")
            assert [lost.remedy for lost in nb.session.status().lost] == ["run cell [2] again to have it back"]
            held = nb.run("box = [gen]")
        with Notebook(nb.repo, session_id="k.2") as nb:
            assert made.commit is not None
            assert held.commit is not None
            both = (
                f"run the cells of {short(made.commit)} (gen = (i for i in range(3))) and "
                f"{short(held.commit)} (box = [gen]) again to have it back"
            )
            way = f"run the cell of {short(made.commit)} (gen = (i for i in range(3))) again to have it back"
            report = nb.checkout()
            assert {lost.name: lost.remedy for lost in report.unsaved} == {"gen": way, "box": both}
            assert set(nb.session.status().lost) == set(report.unsaved)
            with pytest.raises(LostValueError) as raised:
                nb.look("next(gen)")
            assert raised.value.remedy == way
            assert [lost.remedy for lost in nb.run("box.append(2)").unsaved] == [both]
            nb.run("gen2 = (i for i in range(3))")
            remedies = {lost.name: lost.remedy for lost in nb.session.status().lost}
            assert remedies["gen2"] == "run cell [2] again to have it back"

    def test_name_no_cell_that_the_history_does_not_have(self) -> None:
        with Notebook() as nb:
            assert (
                nb.session.workspace.living.remedy_now(
                    SaveFailure("generator-gone-0011", "generator", "", "run cell [2] again to have it back")
                )
                == "run the cell that made it again to have it back"
            )


def test_what_holds_a_lost_part_is_loaded_around_its_placeholder() -> None:
    with Notebook() as nb:
        made = nb.run(
            "import io\ngone = io.StringIO()\ngone.close()\nx = [1]\n"
            "method, key, member, pair = staticmethod(gone), {gone: x}, {gone}, classmethod(gone)"
        )
        nb.run("del gone, method, key, member, pair, x")
        with Notebook(nb.repo, branch="other") as other:
            other.checkout(made)
            assert other.look("(type(method), len(key), len(member), type(pair), x)") == (
                staticmethod,
                1,
                1,
                classmethod,
                [1],
            )
            assert other.look("list(key.values())[0] is x") is True
            with pytest.raises(LostValueError):
                other.look("hash(gone)")


def test_a_method_of_what_is_lost_raises_as_that_does() -> None:
    """It is a method of what stands for the object: nothing of it stays in the store that could be loaded one day."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        made = nb.run(
            "import re\ngen = (one for one in 'ab'); draw = gen.__next__; send = gen.send; x = [1]; held = [x.append, gen.close]\n"
            "found = re.compile('a').finditer('aa')"
        )
        assert nb.look("send(None)") == "a"
        nb.checkout(made)
        assert nb.look("(send.__self__ is gen, held[0].__self__ is x)") == (True, True)
    with Notebook(Repository.open(store)) as nb:
        assert not any(lost.stored for lost in nb.checkout(made).unsaved)
        assert nb.look("held[0].__self__ is x") is True
        for use in ("send(None)", "draw()", "held[1]()", "next(found)"):
            with pytest.raises(LostValueError, match=r"cannot be saved|cannot pickle"):
                nb.look(use)
        assert nb.run("send, draw, held, found").changed == ()


def test_what_changes_in_memory_that_cannot_be_saved_is_reported(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"1234")
    with Notebook() as nb:
        nb.run(
            "import ctypes, mmap\na = (ctypes.c_int * 3)(); holder = [a]; text = ctypes.create_string_buffer(b'abc')\n"
            "class Point(ctypes.Structure):\n    _fields_ = [('x', ctypes.c_int), ('z', ctypes.c_short * 2)]\n"
            "p = Point(1); z = p.z; b = bytearray(8); over = (ctypes.c_int * 2).from_buffer(b)\n"
            f"m = mmap.mmap(-1, 10); file = open({str(tmp_path / 'f')!r}, 'r+b'); mapped = mmap.mmap(file.fileno(), 0)"
        )
        changes = {
            "a": "a[0] = 5",
            "holder": "holder[0][1] = 6",
            "text": "text[0] = b'z'",
            "p": "p.x = 7",
            "z": "z[1] = 2",
            "over": "over[1] = 4",
            "m": "m[0] = 1",
            "mapped": "mapped[1:3] = b'xx'",
        }
        assert [name for name, cell in changes.items() if name not in names_changed(nb.run(cell))] == []
        nb.run("a, holder, p, z, b, over")  # which share what is not saved
        assert names_changed(nb.run("a[0], p.x, z[1], over[1], m[0], mapped[0], text.value")) == set()
        nb.run("mapped.close(); m.close(); file.close()")


def test_memory_at_a_mere_address_is_never_read() -> None:
    with Notebook() as nb:
        told = nb.run(
            "import ctypes\ngone = [(ctypes.c_char * 9).from_address(16), ctypes.c_int.from_address(24)]\n"
            "class Pair(ctypes.Structure):\n    _fields_ = [('x', ctypes.c_int * 2)]\n"
            "pair = Pair.from_address(32); inner = pair.x; n = 1"
        )
        assert {lost.name for lost in told.unsaved} >= {"gone", "pair", "inner"}
        nb.run("n = 2")
        nb.checkout(told)
        assert nb.look("(n, type(gone[1]).__name__)") == (1, "c_int")


# What is made, what spoils it, and the names that lead to what cannot be saved: the others only share something with them.
SHARING: dict[str, tuple[str, str, set[str]]] = {
    "a stale iterator": ("d = {1: [1]}; it = iter(d); next(it); s = [d]; o = {'x': d[1]}", "d[2] = 2", {"it"}),
    "one of a set": ("d = {1, 2, 3}; it = iter(d); next(it); s = [d]", "d.add(4)", {"it"}),
    "what holds a stale one": ("d = {1: [1]}; it = [iter(d.items())]; next(it[0]); s = [d]", "d[2] = 2", {"it"}),
    "a file beside words": (
        "import threading\nw = ['a']; s = [w]",
        "it = {'f': threading.Thread(target=len), 'w': w}",
        {"it"},
    ),
    "a file that two hold": (
        "import threading\nw = ['a']; s = [w]; it = None",
        "it = {'f': threading.Thread(target=len), 'w': w}; of = [it['f']]; both = [w]",
        {"it", "of"},
    ),
    "a generator": ("w = ['a']; s = [w]", "def go(w):\n    yield w\nit = [go(w), w]; del go", {"it"}),
    "one of two": (
        "import threading\nw = ['a']; s = [w]",
        "it = [threading.Thread(target=len), w]; at = [(n for n in w), w]",
        {"it", "at"},
    ),
}


@pytest.mark.parametrize(("made", "spoils", "named"), SHARING.values(), ids=SHARING)
def test_only_names_that_lead_to_what_cannot_be_saved_are_named(made: str, spoils: str, named: set[str]) -> None:
    def names(lost: Iterable[Unsaved]) -> set[str]:
        return {name for one in lost for name in one.name.split(", ")}

    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(made)
        spoilt = nb.run(spoils)
        assert names(spoilt.unsaved) == names(nb.session.status().lost) == named
        nb.run("s.append(1)")
        assert names(nb.session.status().lost) == named
        nb.checkout(spoilt)
        assert names(nb.session.status().lost) == named
        nb.run("for name in ('it', 'at', 'of'): globals().pop(name, None)")
        assert nb.session.status().lost == ()
        nb.checkout(spoilt)
    with Notebook(Repository.open(store)) as again:
        assert names(again.checkout().unsaved) == named
        assert names(again.session.status().lost) == named
        assert names(again.run("x = 1; s.append(2)").unsaved) <= named


def test_the_dict_in_which_code_runs_is_not_taken_for_the_lost_variable(tmp_path: Path) -> None:
    with Versioned(tmp_path / "state") as state:
        state["rows"] = (number for number in range(3))
        state.commit()
    with Versioned(tmp_path / "state") as state:
        variables: dict[str, Any] = {"state": state}
        caller: dict[str, Any] = {"hello": variables, "code": "next(state['rows'])"}
        (tmp_path / "caller.py").write_text("exec(code, hello)\n")
        with pytest.raises(LostValueError, match=r"^'rows' was a generator"):
            exec(compile("exec(code, hello)\n", str(tmp_path / "caller.py"), "exec"), caller)


# Made of a lost object: Python looks into it at once, so there is nothing to hold its placeholder.
MADE_OF_LOST = {
    "a zip over a generator": ("both = zip(data, (n for n in range(3)))", "next(both)"),
    "a map over a zip": ("both = map(str, zip(data, (n for n in range(3))))", "next(both)"),
    "the rows of a table": (
        "import pandas as pd\ndata = pd.DataFrame({'n': [1.0, 2], 'kind': pd.Categorical([*'ab'])})\nboth = data.itertuples()\nrow = next(both)",
        "next(both)",
    ),
    "what a class holds": ("class Holder:\n    both = zip(data, (n for n in range(3)))", "next(Holder.both)"),
    "what an instance holds": (
        "class Holder: pass\nholder = Holder()\nholder.both, holder.data = enumerate(n for n in range(3)), data",
        "next(holder.both)",
    ),
}


@pytest.mark.parametrize(("made", "use"), MADE_OF_LOST.values(), ids=MADE_OF_LOST)
class TestWhatIsMadeOfALostObject:
    def test_is_lost_with_it_after_a_restart_and_what_it_shares_comes_back(self, made: str, use: str) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            early = nb.run(f"data = [1, 2]\n{made}\nother = [data]")
            nb.run("later = 1")
            shown = nb.look("str(data)")
        with Notebook(Repository.open(store)) as nb:
            for target in ("main", early, "main"):
                nb.checkout(target)
                assert nb.look("str(data)") == shown
                assert nb.look("other[0] is data")
                with pytest.raises(LostValueError, match="a generator cannot be saved"):
                    nb.look(use)

    def test_keeps_nobody_from_a_checkout_once_it_is_gone(self, made: str, use: str) -> None:
        with Notebook() as nb:
            early = nb.run(f"data = [1, 2]\n{made}\nother = [data]")
            shown = nb.look("str(data)")
            late = nb.run(
                "for name in [*globals()]:\n    if name[0] != '_': del globals()[name]\nimport gc\ngc.collect()"
            )
            nb.checkout(early)
            assert nb.look("str(data)") == shown
            assert nb.look("other[0] is data")
            with pytest.raises(LostValueError, match="a generator cannot be saved"):
                nb.look(use)
            nb.checkout(late)


@pytest.mark.parametrize("unpickler", [SparingUnpickler, TolerantUnpickler])
def test_a_store_that_goes_away_while_such_values_load_is_no_lost_object(unpickler: Any) -> None:
    def read(_: object) -> object:
        raise StoreUnavailableError("memory:", "it is gone")

    state = SimpleNamespace(stack=[read, (Placeholder.__new__(Placeholder),)], is_broken=lambda _: False)
    with pytest.raises(StoreUnavailableError):
        unpickler.dispatch[pickle.REDUCE[0]](state)


# Each takes iterators as it is made, and a file that was closed gives none.
OVER_A_FILE = {
    "filter": "filter(None, file)",
    "map": "map(str.strip, file)",
    "zip": "zip(file, file)",
    "enumerate": "enumerate(file)",
    "islice": "itertools.islice(file, 9)",
    "takewhile": "itertools.takewhile(bool, file)",
    "accumulate": "itertools.accumulate(file)",
    "groupby": "itertools.groupby(file)",
    "cycle": "itertools.cycle(file)",
    "filter of a map": "filter(None, map(str.strip, file))",
    "chain of two files": "itertools.chain(file, file)",
}


@pytest.mark.parametrize("made", OVER_A_FILE.values(), ids=OVER_A_FILE)
class TestAnIteratorOverAFile:
    def test_keeps_nobody_from_a_checkout_once_the_file_is_closed(self, made: str, tmp_path: Path) -> None:
        (tmp_path / "lines").write_text("a\nb\nc\n")
        with Notebook() as nb:
            early = nb.run(f"import itertools\nfile = open({str(tmp_path / 'lines')!r})\nlines, n = {made}, 1")
            nb.run("first = next(lines); n = 2")
            nb.run("file.close()")
            late = nb.run("file = open(file.name); file.close(); n = 4")
            for target, n in ((early, 1), (late, 4), (early, 1)):
                nb.checkout(target)
                assert nb.look("n") == n
                with pytest.raises(ValueError, match="closed file"):
                    nb.look("next(lines)")

    def test_goes_on_with_the_file_while_that_is_open(self, made: str, tmp_path: Path) -> None:
        (tmp_path / "lines").write_text("".join(f"{n}\n" for n in range(1, 9)))
        with Notebook() as nb:
            early = nb.run(f"import itertools\nfile = open({str(tmp_path / 'lines')!r})\nlines, other = {made}, file")
            nb.run("other = 1; first = next(lines)")
            nb.checkout(early)
            assert nb.look("next(lines)") != nb.look("next(lines)")
            nb.look("file.close()")
