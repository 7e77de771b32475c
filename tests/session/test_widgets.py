"""A widget of ipywidgets is a value like others: its state is versioned, and the live widget follows."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import LmdbStore, MemoryStore
from tests.support.notebooks import Notebook, names_changed, rev

widgets = pytest.importorskip("ipywidgets")


@pytest.fixture(autouse=True)
def closed_afterwards() -> Iterator[None]:
    instances: dict[str, Any] = vars(sys.modules["ipywidgets.widgets.widget"])["_instances"]
    before = set(instances)
    yield
    for name in [name for name in instances if name not in before]:
        if name in instances:
            instances[name].close()


class TestAWidget:
    def test_is_saved_with_all_that_it_holds(self) -> None:
        with Notebook() as nb:
            report = nb.run(
                cleandoc("""
                import ipywidgets, traitlets
                number, text = ipywidgets.IntSlider(value=3), ipywidgets.Text('a')
                choice = ipywidgets.Dropdown(options={'x': 1, 'y': [2]})
                page = ipywidgets.Tab([ipywidgets.VBox([number]), text], titles=('one', 'two'))
                linked = ipywidgets.IntText(); link = traitlets.link((number, 'value'), (linked, 'value'))
                tried = ipywidgets.interactive(lambda v: v * 2, v=3)
                shown = ipywidgets.Output()
            """)
            )
            assert report.unsaved == ()

    def test_that_a_cell_moves_is_a_change_and_others_are_none(self) -> None:
        with Notebook() as nb:
            nb.run("import ipywidgets\na, b = ipywidgets.IntSlider(value=3), ipywidgets.IntSlider(value=4)")
            assert names_changed(nb.run("a.value = 5")) == {"a"}
            assert names_changed(nb.run("a.value")) == set()

    def test_is_the_very_same_after_a_rollback_and_calls_nobody(self) -> None:
        with Notebook() as nb:
            first = nb.run(
                cleandoc("""
                import ipywidgets
                moves = []
                slider = ipywidgets.IntSlider(value=3)
                slider.observe(lambda change: moves.append(change.new), 'value')
            """)
            )
            slider = nb.look("slider")
            assert names_changed(nb.run("slider.value = 5")) == {"slider", "moves"}
            nb.checkout(first)
            assert nb.look("slider") is slider
            assert nb.look("(slider.value, moves)") == (3, [])
            nb.run("slider.value = 7")
            assert nb.look("moves") == [7]

    def test_sends_the_front_end_what_changed_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            first = nb.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3, max=10)")
            nb.run("slider.value = 5")
            sent: list[object] = []
            monkeypatch.setattr(widgets.Widget, "_send", lambda self, msg, buffers=None: sent.append(msg["state"]))
            nb.checkout(first)
            assert sent == [{"value": 3}]

    @pytest.mark.parametrize("then", ["slider.value = 5", "slider.close()"])
    def test_is_back_with_its_handlers_though_the_front_end_is_gone(
        self, monkeypatch: pytest.MonkeyPatch, then: str
    ) -> None:
        def fails(*_: object, **__: object) -> None:
            raise OSError("the front end is gone")

        with Notebook() as nb:
            first = nb.run(
                "import ipywidgets\nmoves, slider = [], ipywidgets.IntSlider(value=3)\n"
                "slider.observe(lambda change: moves.append(change.new), 'value')"
            )
            nb.run(then)
            with monkeypatch.context() as patched:
                patched.setattr(widgets.Widget, "send_state", fails)
                patched.setattr(widgets.Widget, "open", fails)
                nb.checkout(first)
            assert nb.look("(slider.value, moves)") == (3, [])
            nb.run("slider.value = 7")
            assert nb.look("moves") == [7]

    def test_loses_the_handlers_that_came_later(self) -> None:
        with Notebook() as nb:
            first = nb.run("import ipywidgets\nclicks = []\nbutton = ipywidgets.Button()")
            nb.run("button.on_click(lambda _: clicks.append(1))")
            nb.checkout(first)
            nb.run("button.click()")
            assert nb.look("clicks") == []

    def test_that_was_closed_is_opened_again(self) -> None:
        with Notebook() as nb:
            first = nb.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nbox = ipywidgets.VBox([slider])")
            name = nb.look("slider.model_id")
            last = nb.run("slider.close()")
            assert "slider" in names_changed(last)
            nb.checkout(first)
            assert nb.look("(slider.comm is not None, slider.model_id, slider.value)") == (True, name, 3)
            assert nb.look("box.children[0] is slider") is True
            nb.checkout(last)
            assert nb.look("slider.comm") is None

    def test_of_a_class_of_the_notebook_too(self) -> None:
        with Notebook() as nb:
            first = nb.run(
                cleandoc("""
                import ipywidgets, traitlets
                class Twice(ipywidgets.IntSlider):
                    note = traitlets.Unicode('x')
                    @traitlets.observe('value')
                    def count(self, change):
                        self.moved = getattr(self, 'moved', 0) + 1
                slider = Twice(value=4)
            """)
            )
            assert first.unsaved == ()
            nb.run("slider.value = 9\nslider.value = 10; slider.note = 'y'")
            nb.checkout(first)
            assert nb.look("(slider.value, slider.note, getattr(slider, 'moved', 0))") == (4, "x", 1)

    def test_of_a_class_of_the_notebook_has_the_traits_of_its_librarys_class_after_a_restart(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            made = nb.run(
                cleandoc("""
                import ipywidgets, traitlets
                class Twice(ipywidgets.IntSlider):
                    note = traitlets.Unicode('x')
                slider = Twice(value=4)
            """)
            )
        with Notebook(Repository.open(store)) as nb:
            nb.checkout(made)
            assert nb.look(
                "slider.traits()['value'] is ipywidgets.IntSlider.value and slider.traits()['note'] is Twice.note"
            )
            assert nb.look("[*Twice.class_own_traits()]") == ["note"]

    def test_that_was_closed_is_shown_as_text_after_a_restart(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            last = nb.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3); slider.close()")
        with Notebook(Repository.open(store)) as nb:
            nb.checkout(last)
            assert nb.look("(slider.value, slider.comm, slider._repr_mimebundle_)") == (3, None, None)
            nb.run("slider.open()")
            assert nb.look("slider.comm") is not None

    def test_of_a_class_that_is_made_again_keeps_its_place_in_the_page(self, monkeypatch: pytest.MonkeyPatch) -> None:
        closed: list[object] = []
        monkeypatch.setattr("comm.DummyComm.close", lambda comm, *_, **__: closed.append(comm))
        with Notebook() as nb:
            first = nb.run(
                cleandoc("""
                import ipywidgets
                class Counts(ipywidgets.IntText):
                    def __init__(self, *more, **traits):
                        super().__init__(*more, **traits)
                        self.on_msg(self.heard)
                    def heard(self, *_): pass
                number, other = Counts(value=3), ipywidgets.IntText()
                seen = []
                number.observe(lambda change: seen.append(change.name))
            """)
            )
            comm: Any = nb.look("number.comm")
            name = nb.look("number.model_id")
            last = nb.run("number.value = 5; Counts.note = 1; seen.clear()")
            for report, value in ((first, 3), (last, 5), (first, 3)):
                nb.checkout(report)
                gc.collect()
                assert closed == []
                assert nb.look("(number.value, number.comm, number.model_id)") == (value, comm, name)
                assert nb.look("seen") == []
                assert widgets.widgets.widget._instances[name] is nb.look("number")
                assert comm._msg_callback.__self__ is nb.look("number")
            gone = nb.run("number.close()")
            monkeypatch.undo()
            nb.checkout(first)
            nb.run("Counts.note = 2")
            nb.checkout(gone)
            assert nb.look("number.comm") is None
            assert name not in widgets.widgets.widget._instances

    def test_calls_nobody_when_it_is_shown_again(self) -> None:
        with Notebook() as nb:
            first = nb.run(
                "import ipywidgets\nseen = []; number = ipywidgets.IntText()\n"
                "number.observe(lambda change: seen.append(change.name))"
            )
            nb.run("number.close(); seen.clear()")
            nb.checkout(first)
            assert nb.look("(seen, number.comm is not None)") == ([], True)

    def test_that_is_only_looked_at_is_neither_moved_nor_shown(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            first = nb.run("import ipywidgets\nslider = ipywidgets.IntSlider(value=3)")
            nb.run("slider.value = 5")
            opened: list[object] = []
            monkeypatch.setattr(widgets.Widget, "open", opened.append)
            past: Any = nb.repo.at(rev(first))["slider"]
            assert (past.value, past.comm, nb.look("slider.value")) == (3, None, 5)
            assert opened == []

    def test_stays_where_it_is_when_a_checkout_fails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            first = nb.run(
                cleandoc("""
                import ipywidgets, os
                slider = ipywidgets.IntSlider(value=3)
                class Refuses:
                    def __setstate__(self, state):
                        if 'AK_REFUSES' in os.environ:
                            raise ValueError
                bad = Refuses(); bad.x = 0
            """)
            )
            nb.run("slider.value = 5\nbad.x = 1")
            monkeypatch.setenv("AK_REFUSES", "1")
            with pytest.raises(Exception, match="bad"):
                nb.checkout(first, names=["bad", "slider"])
            assert nb.look("slider.value") == 5


def test_a_restart_makes_it_again_under_its_id(tmp_path: Path) -> None:
    with Notebook(Repository.open(LmdbStore(tmp_path))) as nb:
        nb.run(
            cleandoc("""
            import ipywidgets
            clicks = []
            slider = ipywidgets.IntSlider(value=3)
            box = ipywidgets.VBox([slider])
            button = ipywidgets.Button(); button.on_click(lambda _: clicks.append(slider.value))
            tried = ipywidgets.interactive(lambda v: v * 2, v=3)
        """)
        )
        name = nb.look("slider.model_id")
    code = f"""
        from agent_kernel.session import Repository
        from agent_kernel.storage import LmdbStore
        from tests.support.notebooks import Notebook, names_changed
        with Notebook(Repository.open(LmdbStore({str(tmp_path)!r}))) as nb:
            nb.checkout()
            assert nb.look("slider.model_id") == {name!r} and nb.look("slider.comm") is not None
            assert nb.look("(slider.value, box.children[0] is slider)") == (3, True)
            assert names_changed(nb.run("x = 1")) == {{"x"}}
            nb.run("slider.value = 8; button.click(); tried.children[0].value = 7")
            assert nb.look("(clicks, tried.result)") == ([8], 14)
    """
    subprocess.run([sys.executable, "-c", cleandoc(code)], check=True)


class TestAnObjectWithTraits:
    def test_keeps_who_observes_it_and_what_it_is_linked_with(self) -> None:
        with Notebook() as nb:
            first = nb.run(
                cleandoc("""
                import traitlets
                class Counter(traitlets.HasTraits):
                    n = traitlets.Int(0)
                    keys = traitlets.List()
                    comm = traitlets.Unicode('x')
                    @traitlets.validate('n')
                    def least(self, proposal):
                        return max(proposal['value'], 0)
                moves = []
                one, other = Counter(n=2, keys=[1]), Counter()
                one.observe(lambda change: moves.append(change.new), 'n')
                link = traitlets.link((one, 'n'), (other, 'n'))
            """)
            )
            assert first.unsaved == ()
            assert {"one", "moves"} <= names_changed(nb.run("one.n = 5; one.keys.append(2); one.comm = 'y'"))
            nb.checkout(first)
            assert nb.look("(one.n, other.n, one.keys, one.comm, moves)") == (2, 2, [1], "x", [])
            nb.run("one.n = 7")
            assert nb.look("(moves, other.n)") == ([7], 7)
            nb.run("one.n = -1")
            assert nb.look("one.n") == 0

    def test_that_pickles_itself_is_saved_as_it_says(self) -> None:
        with Notebook() as nb:
            first = nb.run(
                cleandoc("""
                import traitlets
                class Kept(traitlets.HasTraits):
                    n = traitlets.Int(0)
                    def __getstate__(self):
                        return {'n': self.n}
                    def __setstate__(self, state):
                        self.n = state['n'] + 100
                kept = Kept(n=3)
            """)
            )
            nb.run("kept.n = 4")
            nb.checkout(first)
            assert nb.look("kept.n") == 103
