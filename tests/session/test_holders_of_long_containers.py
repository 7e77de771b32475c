"""Objects that hold long sets, lists and dicts, as a vocabulary does: a cell that reads one is told from one that changes it."""

from __future__ import annotations

import collections

import pytest

from agent_kernel.session import Repository
from agent_kernel.session.tracking import Living
from agent_kernel.session.workspace import Detector
from agent_kernel.storage import MemoryStore
from agent_kernel.values import atoms, group_digests, references
from tests.support.notebooks import Notebook, names_changed

N = 2 * atoms.LONG
CLASS = f"""
class Marked(str): pass
class Vocabulary:
    def __init__(self, size={N}):
        self.words = {{f'word {{n}}' for n in range(size)}}
        self.order = [*range(2, size), 1]
        self.lengths = {{f'word {{n}}': n / 2 for n in range(size)}}
        self.small = {{'box': [[1], [2]], 'name': 'all'}}
    def has(self, word): return word in self.words
class Other(Vocabulary): pass
"""
MADE = f"import collections, copyreg, weakref{CLASS}\nv = Vocabulary()"
CONTENT = "repr((sorted(vars(v)), sorted(v.words), v.order, list(v.lengths.items()), v.small))"
DICTS = {
    "Counter": f"collections.Counter(f'w{{n}}' for n in range({N}))",
    "defaultdict": f"collections.defaultdict(int, {{f'w{{n}}': n for n in range({N})}})",
    "OrderedDict": f"collections.OrderedDict((f'w{{n}}', n) for n in range({N}))",
}


@pytest.mark.parametrize("times", [1, 2, 4])
def test_to_read_what_holds_long_containers_pickles_none_of_them(
    times: int, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # How much is looked at in the background is a matter of time: a slow machine gives it more.
    monkeypatch.setattr(Detector, "choose_for_verification", lambda *_: [])
    with Notebook() as nb:
        nb.run(
            f"import collections{CLASS}\nv = [Vocabulary({N} * {times}), Vocabulary({N})]\nhas = v[0].words.__contains__"
        )
        for made in DICTS.values():
            nb.run(f"d{made[12:15]} = {made}")
        nb.run("v[0].has('word 1'), has('word 1')")
        written.clear()
        assert not nb.run("v[0].has('word 1'), has('word 1'), len(dCou), len(ddef), len(dOrd)").changed
        assert sum(written) < 20_000


def test_what_lies_where_an_object_of_a_module_died_is_read_as_anything_else_is(
    written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Detector, "choose_for_verification", lambda *_: [])
    with Notebook() as nb:
        nb.run(MADE)
        for name in ("v", "v.order"):
            monkeypatch.setitem(references.MODULE_OBJECTS, id(nb.look(name)), [("json", "gone")])
        nb.run("v.has('word 1')")
        written.clear()
        assert not nb.run("v.has('word 1')").changed
        assert sum(written) < 20_000
        assert names_changed(nb.run("v.order[7] = -1")) == {"v"}


CHANGES = {
    "an item is added": "v.words.add('new')",
    "and another is taken away": "v.words.discard('word 3'); v.words.add('new')",
    "an item of a list changes": "v.order[7] = -1",
    "to an equal one of another type": "v.order[-1] = True",
    "to a text with a state": "v.order[7] = Marked('x'); v.order[7].state = [1]",
    "two items change places": "v.order[3], v.order[4] = v.order[4], v.order[3]",
    "a value of a dict changes": "v.lengths['word 3'] = 5.25",
    "a key leaves and comes again": "v.lengths['word 3'] = v.lengths.pop('word 3')",
    "a short list within": "v.small['box'][1].append(3)",
    "an attribute is set": "v.more = 1",
    "an attribute is another container": "v.words = {'few'}",
    "by another way": "vars(v)['words'].add('new')",
    "by a method of a container": "v.words.__ior__({'new'})",
    "by another cell's function": "change()",
    "the class is another one": "v.__class__ = Other",
    "the class says what is saved": "Vocabulary.__getstate__ = lambda self: {'words': {'few'}}; v",
    "a function that is registered does": "copyreg.pickle(Vocabulary, lambda v: (Vocabulary, (3,))); v",
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_found_and_taken_back(change: str) -> None:
    with Notebook() as nb:
        nb.run(f"{MADE}\nalso = v.words\ndef change(v=v): v.order.reverse()")
        first = nb.run("v.has('word 1')")
        before = nb.look(CONTENT)
        assert names_changed(nb.run(change)) & {"v", "change"}
        nb.run("Vocabulary.__dict__.get('__getstate__') and delattr(Vocabulary, '__getstate__')")
        nb.run("copyreg.dispatch_table.pop(Vocabulary, None)")
        nb.checkout(first)
        assert nb.look(CONTENT) == before
        assert nb.look("(type(v) is Vocabulary, v.words is also, type(v.order[-1]))") == (True, True, int)


REPLACED = """
def replace(make):
    place, v.marks = id(v.marks), None
    made = []
    while id(v.marks) != place and len(made) < 50_000:
        made.append(make())
        v.marks = made[-1]
"""


@pytest.mark.parametrize(("old", "new"), [("{1, 2}", "frozenset((1, 2))"), ("frozenset((1, 2))", "{1, 2}")])
def test_a_short_set_that_is_replaced_by_one_of_another_type_in_its_place_is_found(old: str, new: str) -> None:
    with Notebook() as nb:
        nb.run(f"{MADE}{REPLACED}v.marks = {old}")
        first = nb.run("v.has('word 1')")
        changed = nb.run(f"replace(lambda: {new})")
        assert names_changed(changed) == {"v"}
        nb.checkout(first)
        assert nb.look("v.marks.__class__") is type(eval(old))
        nb.checkout(changed)
        assert nb.look("v.marks.__class__") is type(eval(new))


def test_only_containers_that_stay_are_left_out_of_a_walk() -> None:
    words = [f"word {n}" for n in range(N)]
    holder = [words, collections.Counter(words)]
    known = group_digests.digest_first({"holder": holder}, Living(), {})
    assert known is not None
    assert known.longs == {id(words)}


def test_a_part_that_is_replaced_by_an_equal_one_is_shared_with_who_holds_that() -> None:
    with Notebook() as nb:
        nb.run(MADE)
        nb.run("v.has('word 1')")
        nb.run("mine = [1]; words = set(v.words)")
        nb.run("v.small['box'][0] = mine; v.words = words")
        shared = nb.run("mine.append(2); words.add('new')")
        assert names_changed(shared) >= {"v"}
        nb.run("mine.clear(); words.clear()")
        nb.checkout(shared)
        assert nb.look("(v.small['box'][0] is mine, mine, v.words is words, 'new' in words)") == (
            True,
            [1, 2],
            True,
            True,
        )


def test_a_part_in_a_long_list_of_lists_is_shared_with_who_holds_that() -> None:
    with Notebook() as nb:
        nb.run(f"{MADE}\nv.rows = [[[n]] for n in range({N})]\ndef f(rows=[[[n]] for n in range({N})]): return rows")
        nb.run("v.has('word 1'), f()[0]")
        nb.run("mine, yours = [0], [0]")
        nb.run("v.rows[0][0] = mine; f()[0][0] = yours")
        shared = nb.run("mine.append(2); yours.append(3)")
        nb.run("mine.clear(); yours.clear()")
        nb.checkout(shared)
        assert nb.look("(v.rows[0][0] is mine, f()[0][0] is yours, mine, yours)") == (True, True, [0, 2], [0, 3])


PARTS = {
    "objects": ("class Row:\n    def __init__(self, n): self.own, self.more = [n], None", "Row(n)", "x.own", "x.more"),
    "slotted ones": (
        "class Row:\n    __slots__ = ('own', 'more')\n    def __init__(self, n): self.own, self.more = [n], None",
        "Row(n)",
        "x.own",
        "x.more",
    ),
    "lists": ("", "[[n], None]", "x[0]", "x[1]"),
    "what lies in tuples": ("", "[([n],), None]", "x[0]", "x[1]"),
    "what says its state": (
        (
            "class Row:\n    def __init__(self, n): self.own, self.more = [n], None\n"
            "    def __getstate__(self): return [self.own, self.more]\n"
            "    def __setstate__(self, state): self.own, self.more = state"
        ),
        "Row(n)",
        "x.own",
        "x.more",
    ),
}


@pytest.mark.usefixtures("long_from_a_fifth")
@pytest.mark.parametrize("what", PARTS)
@pytest.mark.parametrize("form", ["{}", "[{}, 'more']"])
def test_what_two_rows_share_stays_shared_where_another_name_holds_one_of_them(what: str, form: str) -> None:
    definition, made, own, more = PARTS[what]
    part = "[0]" if what == "what lies in tuples" else ""  # the list: which tuple holds it does not matter
    one, other = own.replace("x", "rows[7]") + part, more.replace("x", "rows[14]") + part
    share = f"for k in range(14, len(rows), 7): {more.replace('x', 'rows[k]')} = {own.replace('x', 'rows[k - 7]')}"
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"{definition}\nrows = [{made} for n in range(4_000)]\n{share}")
        nb.run(f"part = rows[::14]\nheld = {form.format('rows')}")
        shared = nb.run("read = len(rows)")
        nb.run("del rows, part, held")
        nb.checkout(shared)
        assert nb.look(f"{one} is {other}, part[1] is rows[14]") == (True, True)
        changed = nb.run(f"rows[5] = rows[21]\n{one.replace('7', '700')}")
        nb.checkout(shared)
    with Notebook(Repository.open(store)) as again:
        again.checkout(changed)
        assert again.look(f"{one} is {other}, part[1] is rows[14], rows[5] is rows[21]") == (True, True, True)


def test_attributes_that_two_objects_come_to_share_stay_shared() -> None:
    with Notebook() as nb:
        nb.run(MADE)
        nb.run("v.has('word 1')")
        shared = nb.run("u = Other(1); u.__dict__ = v.__dict__")
        nb.run("u.more = 1")
        nb.checkout(shared)
        nb.run("u.more = 2")
        assert nb.look("(v.more, u.words is v.words)") == (2, True)


def test_what_an_awaited_death_changes_is_found() -> None:
    with Notebook() as nb:
        nb.run(f"{MADE}\nlog = []")
        nb.run("v.has('word 1')")
        nb.run("watch = weakref.ref(v, lambda _: log.append('gone')); v")
        assert names_changed(nb.run("del v")) >= {"v", "log"}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Counter", "d['w3'] += 1"),
        ("Counter", "d.subtract(['w3'])"),
        ("defaultdict", "d['new']"),
        ("defaultdict", "d.default_factory = list"),
        ("OrderedDict", "d.move_to_end('w3')"),
        ("OrderedDict", "d['w3'] = True"),
    ],
)
def test_a_change_of_a_long_dict_of_the_standard_library_is_found_and_taken_back(kind: str, change: str) -> None:
    with Notebook() as nb:
        nb.run("import collections")
        nb.run(f"d = {DICTS[kind]}\nholder = [d]")
        first = nb.run("len(d)")
        before = nb.look("repr((list(d.items()), getattr(d, 'default_factory', 0)))")
        assert names_changed(nb.run(change)) == {"d", "holder"}
        nb.checkout(first)
        assert nb.look("repr((list(d.items()), getattr(d, 'default_factory', 0)))") == before
        assert nb.look("(type(d).__name__, holder[0] is d)") == (kind, True)


# An item among very many texts that is more than a text, and what has to hold of it.
ODD = {
    "a text with a state": ("odd = Marked('odd'); odd.state = [1]", "next(x for x in s if x == 'odd').state == [1]"),
    "an object": ("odd = Other(1)", "odd in s"),
    "in a tuple": ("odd = Other(1)", "next(x for x in s if type(x) is tuple)[0] is odd"),
    "in a frozen set": ("odd = Other(1)", "odd in next(x for x in s if type(x) is frozenset)"),
    "several that are no numbers": ("odd = float('nan')", "sum(x != x for x in s) == 2"),
}
HELD = {
    "in a tuple": "(odd, 1)",
    "in a frozen set": "frozenset([odd])",
    "several that are no numbers": "odd, float('nan')",
}


@pytest.mark.parametrize("holder", ["s", "held = [s]; s", "v.words = s; s"])
@pytest.mark.parametrize("odd", ODD)
def test_a_set_of_texts_with_one_other_item_comes_back_with_that(odd: str, holder: str) -> None:
    made, holds = ODD[odd]
    with Notebook() as nb:
        nb.run(f"{MADE}\n{made}")
        early = nb.run(f"s = {{f'word {{n}}' for n in range({N})}}; s |= {{{HELD.get(odd, 'odd')}}}\n{holder}")
        assert nb.look(holds)
        assert not nb.session.commit(full=True).changed
        nb.run("s = odd = 0; held = 0; v.words = 0")
        nb.checkout(early)
        assert nb.look(f"({holds}, len(s) > {N})") == (True, True)
        if odd == "an object":
            assert names_changed(nb.run("odd.more = 1")) >= {"odd", "s"}


def test_an_object_in_a_long_set_dies_when_it_leaves_the_set() -> None:
    with Notebook() as nb:
        nb.run(f"{MADE}\ns = {{f'word {{n}}' for n in range({N})}}; s.add(Other(1))\nheld = [s]")
        nb.run("watch = weakref.ref(next(x for x in s if type(x) is Other))")
        nb.run("s.discard(watch())")
        assert nb.look("watch() is None")
