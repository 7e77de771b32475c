"""A value that cannot be loaded is named, and why; a move that needs it changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from agent_kernel.errors import LoadError, LostValueError
from agent_kernel.session import Repository, Versioned
from agent_kernel.storage import MemoryStore
from tests.session.breaking import Breaks
from tests.support.notebooks import Notebook, names_changed


class TestWithoutTheOption:
    def test_a_move_names_what_cannot_be_loaded_and_why_and_changes_nothing(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
            nb.run("del f\nx.append(2)\nlater = 3")
            before, head = dict(nb.namespace), nb.session.head
            breaks.start()
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("f",)
            said = str(raised.value)
            assert said.startswith("f could not be loaded: RuntimeError: cannot; nothing was changed; --partial")
            assert "\n" not in said
            assert nb.session.head == head
            assert {name: id(value) for name, value in nb.namespace.items()} == {
                name: id(value) for name, value in before.items()
            }

    def test_several_are_named_each_with_its_reason(self, breaks: Breaks, demo: Callable[[bool], None]) -> None:
        with Notebook() as nb:
            early = nb.run(breaks.fragile + "import demo\nf = Fragile(1)\nt = demo.Thing(1)\nu = demo.Thing(2)\nx = 1")
            nb.run("del f, t, u, demo\nx = 2")
            breaks.start()
            demo(False)
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("demo", "f", "t", "u")
            lines = str(raised.value).splitlines()
            assert "f could not be loaded: RuntimeError: cannot" in lines
            missing = "ModuleNotFoundError: No module named 'demo'"
            assert f"demo could not be loaded: {missing}" in lines
            assert f"t, u could not be loaded: {missing} (saved with demo 3.1, which is not installed)" in lines
            assert lines[-1].startswith("nothing was changed; --partial")

    def test_another_version_of_a_library_is_told_of(
        self, demo: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with Notebook() as nb:
            early = nb.run("import demo\nt = demo.Thing(1)")
            nb.run("del t")
            monkeypatch.setattr("demo.__version__", "2.2")
            monkeypatch.delattr("demo.Thing")
            with pytest.raises(LoadError, match=r"\(saved with demo 3\.1, this is 2\.2\)"):
                nb.checkout(early)

    def test_a_bad_class_is_blamed_on_the_values_that_need_it(self, demo: Callable[[bool], None]) -> None:
        with Notebook() as nb:
            early = nb.run(
                "import demo\n"
                "class Sub(demo.Base):\n    def m(self):\n        return 1\n"
                "class SubSub(Sub): pass\n"
                "class Fine: pass\n"
                "del demo\n"
                "s, t, fine, x = Sub(), [SubSub()], Fine(), [1]\n"
                "def uses_no_class():\n    return Sub"
            )
            nb.run("del Sub, SubSub, Fine, s, t, fine, x, uses_no_class")
            demo(False)
            with pytest.raises(LoadError) as raised:
                nb.checkout(early)
            assert raised.value.names == ("Sub", "SubSub", "s", "t")
            reason = "the class Sub cannot be loaded: ModuleNotFoundError: No module named 'demo'"
            assert raised.value.failures == ((("Sub", "SubSub", "s", "t"), reason),)

    @pytest.mark.parametrize("kind", ["KeyboardInterrupt", "MemoryError"])
    def test_an_interrupt_and_full_memory_leave_everything_as_it_was(self, kind: str) -> None:
        with Notebook() as nb:
            early = nb.run(
                f"class Heavy:\n    def __setstate__(self, state):\n        raise {kind}\nh = Heavy()\nh.v = 1\nx = [1]"
            )
            nb.run("del h\nx.append(2)")
            before, head = dict(nb.namespace), nb.session.head
            for move in (nb.checkout, nb.rollback):
                with pytest.raises(KeyboardInterrupt if kind == "KeyboardInterrupt" else LoadError) as raised:
                    move(early)
                if isinstance(raised.value, LoadError):
                    assert raised.value.names == ("h",)
                assert nb.session.head == head
                assert list(map(id, nb.namespace.values())) == list(map(id, before.values()))

    def test_an_interrupt_stops_a_partial_move_too(self) -> None:
        with Notebook() as nb:
            early = nb.run(
                "class Heavy:\n    def __setstate__(self, state):\n        raise KeyboardInterrupt\n"
                "h = Heavy()\nh.v = 1\nx = [1]"
            )
            nb.run("del h\nx.append(2)")
            with pytest.raises(KeyboardInterrupt):
                nb.checkout(early, partial=True)
            assert nb.look("x") == [1, 2]
            assert "h" not in nb.namespace


class TestAfterARestart:
    def test_one_value_that_fails_holds_back_what_holds_it_and_nothing_else(self, breaks: Breaks) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(breaks.fragile)
            nb.run(
                "class Fine: pass\nb, shared, fine, holds = Fragile(1), [1], Fine(), Fine()\nholds.b = b\nfine.s = shared\n"
                "h = [b, shared]\nouter = {'h': h}\nok = {'s': shared}\ndef f(b=b): return b\ndef g(s=shared): return s"
            )
        breaks.start()
        with Notebook(Repository.open(store)) as nb:
            nb.checkout()
            for name in ("b", "h", "outer", "holds", "f"):
                with pytest.raises(LostValueError, match=f"'{name}' was .* could not be loaded: RuntimeError: cannot"):
                    nb.look(f"len({name})")
            assert nb.look("(ok['s'] is shared, fine.s is shared, g() is shared, shared)") == (True, True, True, [1])
            assert nb.run("n = 1").changed != ()
            assert names_changed(nb.run("shared.append(2)")) == {"fine", "g", "ok", "shared"}
        breaks.mend()
        with Notebook(Repository.open(store)) as nb:
            nb.checkout()
            assert nb.look("(h[0] is b, outer['h'] is h, holds.b is b, f() is b, vars(b))") == (*[True] * 4, {"v": 1})
            assert nb.look("(shared, ok['s'] is shared, h[1])") == ([1, 2], True, [1])
            nb.checkout("HEAD~1")
            assert nb.look("(shared, h[1] is shared, ok['s'] is shared)") == ([1], True, True)


class TestLookingFromPython:
    def test_a_snapshot_fails_for_that_name_alone(self, breaks: Breaks) -> None:
        with Notebook() as nb:
            nb.run(breaks.fragile + "f = Fragile(1)\nx = [1]")
            breaks.start()
            past = nb.repo.at("HEAD")
            with pytest.raises(LoadError) as raised:
                past["f"]
            assert raised.value.names == ("f",)
            assert "RuntimeError: cannot" in str(raised.value)
            assert past["x"] == [1]
            breaks.mend()
            assert vars(past["f"]) == {"v": 1}

    def test_a_mapping_opens_and_fails_for_that_key_alone(self, demo: Callable[[bool], None]) -> None:
        import demo as library  # type: ignore[import-not-found]  # the fixture's

        store = MemoryStore()
        with Versioned(Repository.open(store)) as state:
            state["t"], state["x"] = library.Thing(1), [1]
            state.commit("first")
        demo(False)
        with Versioned(Repository.open(store)) as again:
            assert set(again) == {"t", "x"}
            assert again["x"] == [1]
            with pytest.raises(LoadError, match="t could not be loaded: ModuleNotFoundError") as raised:
                again["t"]
            assert raised.value.names == ("t",)
            again["x"] = [2]
            assert names_changed(again.commit("second")) == {"x"}
            with pytest.raises(LoadError):
                again.at("HEAD~1")["t"]
            demo(True)
            again.checkout()
            assert vars(again["t"]) == {"v": 1}
