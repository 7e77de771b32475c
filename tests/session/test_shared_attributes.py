"""Who holds the attribute dict of an object, or goes through a container, does so after a checkout too."""

from __future__ import annotations

import pytest

from agent_kernel.session import Repository
from agent_kernel.storage import MemoryStore
from tests.support.notebooks import Notebook, names_changed

HOLDERS = {
    "a namespace": "import types\nn = types.SimpleNamespace(a=[1])",
    "a kind of namespace": "import types\nclass N(types.SimpleNamespace): pass\nn = N(a=[1])",
    "a partial function": "import functools\nn = functools.partial(int)\nn.a = [1]",
    "an exception": "n = ValueError(1)\nn.a = [1]\nn.__cause__ = KeyError(2)",
    "an exception of the notebook": "class E(Exception):\n    def __init__(self, b):\n        self.a = b\nn = E([1])",
    "an error of the system": "n = OSError(1, 'x', 'file')\nn.a = [1]",
    "a kind of set": "class S(set): pass\nn = S([1])\nn.a = [1]",
    "a kind of deque": "import collections\nclass D(collections.deque): pass\nn = D([1])\nn.a = [1]",
    "a plain object": "class P: pass\nn = P()\nn.a = [1]",
}


def test_the_attribute_dict_stays_one() -> None:
    with Notebook() as nb:
        for said, made in HOLDERS.items():
            before = nb.run(f"{made}\nd = vars(n) if hasattr(n, '__dict__') else None\nkept = n")
            nb.run("n.b = d['a'].append(2)")
            nb.run("del n, d")
            nb.checkout(before)
            assert nb.look("(d is n.__dict__, n.a is d['a'], n.a, sorted(d), kept is n)") == (
                True,
                True,
                [1],
                ["a"],
                True,
            ), said
            nb.run("d['c'] = 1")
            assert nb.look("n.c") == 1, said
            nb.run("del n, d, kept")


def test_an_attribute_dict_that_nothing_else_holds_any_more_is_no_change() -> None:
    with Notebook() as nb:
        nb.run("class P: pass\np = P()\np.a = [1]\nheld = vars(p)\ndef f(): pass\nown = f.__dict__")
        assert names_changed(nb.run("del held, own")) == {"held", "own"}
        made = nb.run("held = vars(p)")
        assert names_changed(made) == {"held"}
        nb.run("del p, held")
        nb.checkout(made)
        assert nb.look("vars(p) is held")


def test_the_attribute_dict_of_a_function_without_attributes_stays_one() -> None:
    with Notebook() as nb:
        made = nb.run("def f(): pass\nown = f.__dict__\nbox = {'f': f, 'own': own}")
        nb.run("del f, own, box")
        nb.checkout(made)
        assert nb.look("(f.__dict__ is own, box['own'] is own, box['f'] is f)") == (True, True, True)


def test_instances_that_have_one_attribute_dict_keep_it() -> None:
    with Notebook() as nb:
        made = nb.run("class B: pass\na, b = B(), B()\nb.__dict__ = a.__dict__\na.x = [1]\nalone = B()")
        nb.run("del a, b")
        nb.checkout(made)
        assert nb.look("(vars(a) is vars(b), b.x)") == (True, [1])


# Since Python 3.13 the collector finds neither the attribute dict nor, in that dict, what an object was given.
AWAY = {
    "the dict alone": ("x = [1]\np.a = x\nd = vars(p)", "d['a'] is x"),
    "a dict that was empty": ("x = [1]\nd = vars(p)\np.a = x", "d['a'] is x"),
    "a dict of texts": ("x = [1]\np.n = 'a'\nd = vars(p)\np.a = x", "d['a'] is x"),
    "a dict in a list": ("x = [1]\np.n = 'a'\nd = [{'deep': (vars(p),)}]\np.a = x", "d[0]['deep'][0]['a'] is x"),
    "a dict below the dict": ("x = [1]\np.a = {'in': x}\nd = [vars(p)]", "d[0]['a']['in'] is x"),
    "the dict and its object": ("x = [1]\np.a = x\nd = [vars(p), p]", "d[0] is vars(d[1]) and d[0]['a'] is x"),
    "one dict of two": ("x = [1]\nq = P()\nq.__dict__ = vars(p)\np.a = x\nd = q", "d.a is x"),
    "a function's object": ("x = [1]\np.a = x\nd = lambda p=p: p.a", "d() is x"),
    "a class's object": ("x = [1]\np.a = x\nclass d: held = vars(p)", "d.held['a'] is x"),
}


@pytest.mark.parametrize(("made", "same"), AWAY.values(), ids=AWAY.keys())
def test_what_is_in_it_is_shared_with_whoever_holds_that_by_itself(made: str, same: str) -> None:
    with Notebook() as nb:
        nb.run("class P: pass")
        before = nb.run(f"p = P()\n{made}\nassert {same}\n__live__ = p\ndel p")  # which is no variable
        assert names_changed(nb.run("x.append(2)")) >= {"x", "d"}
        nb.checkout(before)
        assert nb.look(f"x == [1] and {same}")


ITERATORS = {
    "iter(held)": "{1: 2, 'b': 4, 5: 6}",
    "iter(held.values())": "{1: [2], 'b': [4], 5: [6]}",
    "iter(held.items())": "{1: 2, 'b': 4, 5: 6}",
    "reversed(held)": "{1: 2, 'b': 4, 5: 6}",
    "reversed(held.items())": "{1: 2, 'b': 4, 5: 6}",
    "iter(held) ": "{1, 2, 3}",
    "iter(held)  ": "__import__('collections').Counter('abcc')",
    "enumerate(held)": "{1: 2, 3: 4, 5: 6}",
    "zip(held, held.values())": "{1: 2, 3: 4, 5: 6}",
    "map(str, held)": "{1, 2, 3}",
}


@pytest.mark.filterwarnings("ignore:Pickle, copy, and deepcopy support:DeprecationWarning")
def test_an_iterator_goes_through_the_very_container() -> None:
    with Notebook() as nb:
        for iterator, held in ITERATORS.items():
            before = nb.run(f"held = {held}\nit = {iterator}\nfirst = next(it)\nrest = list({iterator})[1:]")
            nb.run("later = list(it)")
            nb.checkout(before)
            assert nb.look("list(it) == rest"), iterator
            nb.run("del it, held")
            nb.checkout(before)
            nb.run("held.clear()")
            with pytest.raises(RuntimeError, match="changed size during iteration"):
                nb.look("next(it)")


def test_an_iterator_over_what_holds_it_goes_on_alone() -> None:
    with Notebook() as nb:
        before = nb.run("held = {1: 2, 3: 4}\nheld[5] = None\nit = iter(held)\nheld[5] = it\nfirst = next(it)")
        nb.run("del it, held")
        nb.checkout(before)
        assert nb.look("held[5] is it")
        assert nb.look("list(it)") == [3, 5]


@pytest.mark.parametrize("value", ["1", "Q()"])
@pytest.mark.parametrize(
    ("made", "function"),
    [
        ("P.extra = f", "P.extra"),
        ("P.extra = [f]", "P.extra[0]"),
        ("class P:\n    def f(self): ...\nf = P.f; f.x = VALUE", "P.f"),
    ],
)
def test_a_function_that_a_class_holds_shares_its_attributes_with_a_variable(
    made: str, function: str, value: str
) -> None:
    start = f"class Q: ...\nclass P: ...\ndef f(): ...\nf.x = {value}\n{made.replace('VALUE', value)}\nd = f.__dict__"
    with Notebook() as nb:
        first = nb.run(start)
        nb.run("f.z = 1")
        nb.checkout(first)
        assert nb.look(f"({function} is f, d is f.__dict__, list(d), type(d['x']) in (int, Q))") == (
            *(True, True, ["x"], True),
        )


KEEPS = """
class S:
    def __init__(self, a):
        self.a, self.log = a, LOG
    def __getstate__(self):
        return {"a": self.a}
    def __setstate__(self, state):
        self.__dict__ = {**state, "log": LOG, "length": len(LOG)}
        ADD
"""


@pytest.mark.parametrize(
    "log", ["['first']", "{'first'}", "{'first': 1}", "__import__('collections').deque(['first'])"]
)
def test_an_object_that_keeps_a_variable_when_its_state_is_set_gets_the_one_of_its_commit(log: str) -> None:
    add = "(getattr(LOG, 'append', None) or getattr(LOG, 'add', None) or (lambda key: LOG.setdefault(key, 0)))('later')"
    keeps = KEEPS.replace("ADD", add.replace("later", "loaded"))
    with Notebook() as nb:
        first = nb.run(f"LOG = {log}\n{keeps}\ns = S(1)")
        second = nb.run(f"{add}\ns.a = 2")
        third = nb.run(f"LOG = {log}\ns = S(3)")
        for commit, length, a in ((second, 2, 2), (first, 1, 1), (third, 1, 3), (first, 1, 1), (second, 2, 2)):
            nb.checkout(commit)
            assert nb.look("(s.log is LOG, len(LOG), s.a)") == (True, length, a)


def test_an_object_whose_state_reads_a_variable_reads_that_of_its_commit() -> None:
    with Notebook() as nb:
        first = nb.run(
            "SCALE = 2\nclass S:\n    def __init__(self, a): self.a, self.b = a, a * SCALE\n"
            "    def __getstate__(self): return self.a\n    def __setstate__(self, a): self.__init__(a)\ns = S(1)"
        )
        nb.run("SCALE = 3\ns = S(2)")
        nb.checkout(first)
        assert nb.look("(SCALE, s.a, s.b)") == (2, 1, 2)
        nb.run("SCALE = 4; SCALE = 2; t = S(5)")
        assert nb.look("(SCALE, s.b, t.b)") == (2, 2, 10)


@pytest.mark.parametrize("count", [1, 3_000])
def test_objects_of_a_class_that_says_that_it_equals_any_other_go_back(count: int) -> None:
    with Notebook() as nb:
        nb.run(
            "class M(type):\n    def __eq__(a, b): return True\n    __hash__ = type.__hash__\nclass C(metaclass=M): pass"
        )
        before = nb.run(f"v = [C() for _ in range({count})]\nfor one in v: one.x = 1\ndel one")
        nb.run("v[0].x = 'new'")
        nb.checkout(before)
        assert nb.look("v[0].x") == 1


LOADS = """
class S:
    def __init__(self, a): self.a = a
    def __setstate__(self, state):
        self.__dict__.update(state)
        DOES
"""
CODE_THAT_LOADS = {
    "an attribute of an object": ("class Reg: n = 0\nreg = Reg()\nreg.n = 1", "reg.n += 1", "(reg.n, vars(reg))"),
    "a list that an object holds": ("class Reg: pass\nreg = Reg()\nreg.all = []", "reg.all.append(self)", "reg.all"),
    "an object within one": ("class Reg: pass\nreg = Reg()\nreg.sub = Reg()\nreg.sub.n = 1", "reg.sub.n += 1", "reg.sub.n"),
    "an array": ("import numpy as np\nreg = np.zeros(3)", "reg[0] += 1", "reg.tolist()"),
    "an attribute of its class": ("reg = 1", "type(self).more = self", "hasattr(S, 'more')"),
    "names that only `globals` tells": ("reg = 1", "globals().update(more=1, reg=2)", "(reg, 'more' in globals())"),
    "a namespace": ("import types\nreg = types.SimpleNamespace(n=0, all=[])", "reg.n += 1; reg.all.append(1)", "reg"),
    "bytes": ("reg = bytearray(b'ab')", "reg.append(1)", "reg"),
    "a name that is gone": ("reg = 1", "globals().pop('reg', None)", "reg"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "does", "tells"), CODE_THAT_LOADS.values(), ids=CODE_THAT_LOADS)
@pytest.mark.parametrize("change", ["del s", "del s, S, reg", "s = reg = None"])
def test_what_code_changes_while_it_loads_an_object_is_put_back(made: str, does: str, tells: str, change: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(made)
        early = nb.run(f"{LOADS.replace('DOES', does)}\ns = [S(1), S(2)]")
        before, names = str(nb.look(tells)), nb.variables()
        nb.run(change)
        nb.checkout(early)
        assert (str(nb.look(tells)), nb.variables(), nb.look("s[1].a")) == (before, names, 2)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert (str(again.look(tells)), again.variables(), again.look("s[1].a")) == (before, names, 2)


@pytest.mark.parametrize("register", ["class Reg: pass", "from types import SimpleNamespace as Reg"])
def test_objects_that_enter_a_register_which_is_an_object_come_back_with_it(register: str) -> None:
    store = MemoryStore()
    tells = "(len(reg.all), reg.all[0] is s[0], reg.all[1] is s[1], reg.n)"
    with Notebook(Repository.open(store)) as nb:
        nb.run(f"{register}\nreg = Reg()\nreg.all, reg.n = [], 5")
        early = nb.run(f"{LOADS.replace('DOES', 'reg.all.append(self)')}\ns = [S(1), S(2)]\nreg.all += s")
        nb.run("del s, reg")
        nb.checkout(early)
        assert nb.look(tells) == (2, True, True, 5)
        nb.run("s, reg = None, Reg()\nreg.all = []")
        nb.checkout(early)
        assert nb.look(tells) == (2, True, True, 5)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(tells) == (2, True, True, 5)


@pytest.mark.parametrize("change", ["del salt, s", "salt['a'] = 9\ns = 0", "salt, s = {'a': 4}, 0"])
def test_a_key_whose_hash_reads_a_variable_that_holds_the_key_comes_back(change: str) -> None:
    store = MemoryStore()
    key = "class K:\n    def __init__(self, x): self.x = x\n    def __hash__(self): return hash((self.x, salt['a']))\n    def __eq__(self, other): return self.x == other.x\n"
    tells = "(s[K(1)], s[K(2)], salt['a'], salt['k'] is list(s)[0])"
    with Notebook(Repository.open(store)) as nb:
        early = nb.run(f"salt = {{'a': 3}}\n{key}s = {{K(1): 1, K(2): 2}}\nsalt['k'] = list(s)[0]")
        nb.run(change)
        nb.checkout(early)
        assert nb.look(tells) == (1, 2, 3, True)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(tells) == (1, 2, 3, True)


@pytest.mark.parametrize("change", ["del reg, s", "reg.clear()\ns = 0", "reg, s = {}, 0"])
def test_objects_that_enter_a_defaultdict_come_back_with_it(change: str) -> None:
    store = MemoryStore()
    tells = "(len(reg), reg[1] == [s[0]], reg[2] == [s[1]], reg.default_factory is list)"
    with Notebook(Repository.open(store)) as nb:
        nb.run("import collections\nreg = collections.defaultdict(list)")
        early = nb.run(
            f"{LOADS.replace('DOES', 'reg[self.a].append(self)')}\ns = [S(1), S(2)]\nfor one in s: reg[one.a].append(one)\ndel one"
        )
        nb.run(change)
        nb.checkout(early)
        assert nb.look(tells) == (2, True, True, True)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(tells) == (2, True, True, True)


@pytest.mark.parametrize("change", ["items[:] = [3]\ns = 0", "items = [3, 4]\ns = 0", "del items, s, get, C"])
def test_what_a_function_makes_again_reads_the_variables_of_its_commit(change: str) -> None:
    store = MemoryStore()
    made = "items = [10, 20]\ndef get(n): return C(n)\nclass C:\n    def __init__(self, n): self.n, self.y = n, items[n]\n    def __reduce__(self): return get, (self.n,)\n"
    with Notebook(Repository.open(store)) as nb:
        nb.run(made)
        early = nb.run("s = [get(0), get(1)]")
        nb.run(change)
        nb.checkout(early)
        assert nb.look("([one.y for one in s], items, type(s[0]) is C)") == ([10, 20], [10, 20], True)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look("([one.y for one in s], items, type(s[0]) is C)") == ([10, 20], [10, 20], True)


@pytest.mark.parametrize("change", ["del s", "s = 0; reg.clear()", "del s, reg"])
def test_a_weak_dict_that_objects_enter_as_they_are_loaded_holds_them_after_a_checkout(change: str) -> None:
    store = MemoryStore()
    tells = "(len(reg), reg.get(1) is s[0], reg.get(2) is s[1])"
    with Notebook(Repository.open(store)) as nb:
        nb.run("import weakref\nreg = weakref.WeakValueDictionary()")
        early = nb.run(
            f"{LOADS.replace('DOES', 'reg[self.a] = self')}\ns = [S(1), S(2)]\nfor one in s: reg[one.a] = one\ndel one"
        )
        nb.run(change)
        nb.checkout(early)
        assert nb.look(tells) == (2, True, True)
    with Notebook(Repository.open(store)) as again:
        again.checkout(early)
        assert again.look(tells) == (2, True, True)


def test_names_that_a_notebook_has_stay_when_code_that_saves_an_object_asks_for_all_names() -> None:
    with Notebook() as nb:
        nb.run(
            "class Once:\n    ready = False\n    def __reduce__(self):\n"
            "        if not self.ready or not globals(): raise TypeError('not yet')\n        return Once, (), self.__dict__\n"
            "x = Once()\ny = x; box = [x]"
        )
        saved = nb.run("x.ready = True")
        assert nb.variables() >= {"Once", "x", "y", "box"}
        nb.run("del x, y, box")
        nb.checkout(saved)
        assert nb.look("x is y is box[0]")


KINDS = {
    "a tuple with names": "from collections import namedtuple\nK = namedtuple('K', 'n')",
    "attributes": "class K:\n    def __init__(self, n):\n        self.n = n",
    "slots": "class K:\n    __slots__ = ('n',)\n    def __init__(self, n):\n        self.n = n",
    "a number": "class K(int):\n    pass",
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_holds_an_object_is_as_it_was_when_a_variable_is_bound_to_another_of_its_objects(kind: str) -> None:
    with Notebook() as nb:
        nb.run(f"{kind}\nheld = [K(n) for n in range(3)]\none = held[0]")
        assert names_changed(nb.run("one = held[1]")) == {"one"}
        assert names_changed(nb.run("for one in held:\n    pass")) == {"one"}
        assert nb.look("one is held[2]")


SHARED_WITH_A_CLASS = {
    "an ordered dict": ("collections.OrderedDict(a=1)", "one['b'] = 2"),
    "an ordered dict with an attribute": ("collections.OrderedDict(a=1)", "one.mark = [3]"),
    "a counter": ("collections.Counter('a')", "one['b'] = 2"),
    "a counter with an attribute": ("collections.Counter('a')", "one.mark = [3]"),
    "a default dict": ("collections.defaultdict(list)", "one['b'].append(2)"),
    "a deque": ("collections.deque([1])", "one.append(2)"),
    "a weak set": ("weakref.WeakSet()", "one.add(K)"),
    "a weak dict": ("weakref.WeakValueDictionary()", "one['K'] = K"),
}


@pytest.mark.parametrize("kind", SHARED_WITH_A_CLASS)
def test_what_a_class_and_a_variable_hold_stays_one(kind: str) -> None:
    make, change = SHARED_WITH_A_CLASS[kind]
    look = "(K.one is one, len(one), getattr(one, 'mark', None))"
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        early = nb.run(f"import collections, weakref\nclass K:\n    one = {make}\none = K.one")
        before = nb.look(look)
        late = nb.run(change)
        after = nb.look(look)
        for there, expected in ((early, before), (late, after)):
            nb.checkout(there)
            assert nb.look(look) == expected
    with Notebook(Repository.open(store)) as nb:
        for there, expected in ((late, after), (early, before)):
            nb.checkout(there)
            assert nb.look(look) == expected
