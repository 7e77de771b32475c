"""What a module holds under a name is saved as that name: a library's is the library's, a module of one's own comes back."""

from __future__ import annotations

import builtins
import contextlib
import gc
import importlib
import subprocess
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.session import Repository
from agent_kernel.session.workspace import Detector
from agent_kernel.storage import MemoryStore, Store
from agent_kernel.values import references
from agent_kernel.values.groups import dump_group
from tests.support.notebooks import Notebook, names_changed

SECRET = "correct-horse-battery-staple"


def stored(store: Store) -> bytes:
    return b"".join(store.get_many(store.keys(b"", limit=1_000_000)).values())


@pytest.fixture
def secret(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AK_TEST_TOKEN", SECRET)
    return SECRET


class TestEnvironmentVariables:
    def test_are_never_stored_however_they_are_held(self, secret: str) -> None:
        store = MemoryStore()
        holders = (
            "from os import environ, environb\n"
            "import os, functools, copy\n"
            "env, get, items, keys = os.environ, os.environ.get, os.environ.items(), os.environ.keys()\n"
            "listed, mapped, deep = [environ], {'e': environ}, {'a': [({'b': (os.environ,)},)]}\n"
            "class Config:\n    shared = os.environ\n"
            "config = Config(); config.env = environ; config.raw = os.environ._data\n"
            "def default(e=environ, *, k=os.environb): return e\n"
            "closure = (lambda e: lambda: e)(environ)\n"
            "part = functools.partial(dict.get, os.environ._data)\n"
            "twin = copy.copy(os.environ)\n"
        )
        with Notebook(Repository.open(store)) as nb:
            nb.run(holders)
            assert nb.session.status().lost == ()
        assert secret.encode() not in stored(store)
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert (
                again.look(
                    "[env is os.environ, environ is env, environb is os.environb, get.__self__ is env, items._mapping is env,"
                    "keys._mapping is env, listed[0] is env, mapped['e'] is env, deep['a'][0][0]['b'][0] is env,"
                    "Config.shared is env, config.env is env, config.raw is env._data, default() is env,"
                    "default.__kwdefaults__['k'] is environb, closure() is env, part.args[0] is env._data,"
                    "twin._data is env._data]"
                )
                == [True] * 17
            )

    def test_a_change_of_one_is_no_change_of_the_names_for_it(self, secret: str) -> None:
        with Notebook() as nb:
            nb.run("import os\nenv = os.environ\nholder = {'env': env}")
            assert names_changed(nb.run("env['AK_TEST_TOKEN'] = 'another'; x = holder")) == {"x"}
            nb.session.undo()
            assert nb.look("env['AK_TEST_TOKEN']") == "another"


THINGS: dict[str, str] = {
    "the import path": "sys.path",
    "all modules": "sys.modules",
    "the warning filters": "warnings.filters",
    "the dict of a module": "vars(logging)",
    "the generator behind random": "random._inst",
    "a method of it": "random.random",
    "another": "random.gauss",
    "numpy's": "np.random.mtrand._rand",
    "a method of that": "np.random.randn",
    "the decimal context": "decimal.getcontext()",
    "the template of new ones": "decimal.DefaultContext",
    "default arguments of json": "json._default_decoder",
    "an email policy": "email.policy.default",
    "the main thread": "threading.main_thread()",
    "a loader of tests": "unittest.defaultTestLoader",
    "the handler of last resort": "logging.lastResort",
    "a sentinel": "inspect._empty",
    "a plain object": "sentinel_home.marker",
    "the standard error": "sys.__stderr__",
    "a tuple with names that nobody can make": "sys.flags",
}


class TestWhatALibraryHolds:
    def test_comes_back_as_that_very_object_from_wherever_it_is_held(self) -> None:
        # In a process of its own: `sys.modules` of this one has all that other tests imported.
        code = "from tests.session.test_held_by_modules import TestWhatALibraryHolds as T; T.look_at_things()"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (done.stderr, done.returncode) == ("", 0)

    @staticmethod
    def look_at_things() -> None:
        store = MemoryStore()
        imports = (
            "import decimal, email.policy, inspect, json, logging, random, sys, threading, unittest, warnings\n"
            "import numpy as np, functools as sentinel_home\nsentinel_home.marker = sentinel_home._initial_missing\n"
        )
        source = "".join(f"t{at} = {expression}\n" for at, expression in enumerate(THINGS.values()))
        names = ", ".join(f"t{at}" for at in range(len(THINGS)))
        with Notebook(Repository.open(store)) as nb:
            nb.run(f"{imports}{source}listed = [{names}]\nkeyed = {{'deep': [({names},)]}}")
            nb.run(f"class Holder: pass\nh = Holder(); h.all = [{names}]\ndef f(d=({names},)): return d")
            assert nb.session.status().lost == ()
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            for at, (what, expression) in enumerate(THINGS.items()):
                places = (f"t{at}", f"listed[{at}]", f"keyed['deep'][0][{at}]", f"h.all[{at}]", f"f()[{at}]")
                assert [again.look(f"{place} is {expression}") for place in places] == [True] * 5, what

    def test_of_scientific_libraries_too(self) -> None:
        store = MemoryStore()
        things = (
            "matplotlib.rcParams", "matplotlib.colormaps", "matplotlib.style.library", "matplotlib.cm.viridis",
            "pd.options", "scipy.stats.norm", "scipy.stats.norm.pdf.__self__", "sympy.RR", "sympy.pi", "sympy.S",
            "networkx.config",
        )  # fmt: skip
        with Notebook(Repository.open(store)) as nb:
            nb.run(
                "import matplotlib.style, matplotlib.cm, pandas as pd, scipy.stats, sympy, networkx\nimport numpy as np"
            )
            nb.run(
                "".join(f"t{at} = {expression}\n" for at, expression in enumerate(things)) + "rng = scipy.stats.norm"
            )
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert {thing: again.look(f"t{at} is {thing}") for at, thing in enumerate(things)} == dict.fromkeys(
                things, True
            )
            again.execute("np.random.seed(3); first = t5.rvs(); np.random.seed(3); second = t5.rvs()")
            assert again.look("first == second"), "it draws from numpy's generator still"

    def test_of_everything_that_sympy_offers_a_restart_brings_all_back(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("from sympy import *\nx = symbols('x')\nimport mpmath\ny = mpmath.mpf('1.5')")
            names = nb.variables()
        assert len(names) > 900
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.variables() == names

    @pytest.mark.parametrize("module", ["sympy.codegen.ast", "sympy.abc"])
    def test_a_number_or_symbol_of_a_formula_that_a_module_holds_too_is_no_change_of_the_formula(
        self, module: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """sympy has one object for all equal ones, and the first `lambdify` imports a module that holds the number two."""
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(f"import sympy\nimport {module}")  # what it imports is there, and it is gone again
            monkeypatch.delitem(sys.modules, module)
            nb.run("x = sympy.Symbol('x')\nformula = sympy.sin(x)**2 + 2*x\nmatrix = sympy.Matrix([[x, 2], [1, 7]])")
            assert names_changed(nb.run(f"import {module}\nx, formula, matrix")) == set()
            assert nb.session.commit(full=True).changed == ()
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("x is sympy.Symbol('x') and formula == sympy.sin(x)**2 + 2*x and matrix[0, 1] == 2")

    def test_is_shared_by_no_two_names(self) -> None:
        with Notebook() as nb:
            nb.run("import sys\na = {'path': sys.path, 'own': [1]}\nb = [sys.path]\nc = sys.path")
            assert all(len(nb.session.workspace.tracking.groups[name].members) == 1 for name in "abc")
            assert names_changed(nb.run("a['own'].append(2)")) == {"a"}
            nb.session.undo()
            assert nb.look("[a['own'], a['path'] is sys.path]") == [[1], True]

    def test_a_name_that_leads_elsewhere_by_then_is_saved_again(self) -> None:
        with Notebook() as nb:
            early = nb.run("import sys\nheld = {'path': sys.path}\nown = held")
            assert names_changed(nb.run("held['path'] = list(sys.path)[:1]")) == {"held", "own"}
            later = nb.run("held['path'] = sys.path; held['n'] = 1")
            nb.checkout(early)
            assert nb.look("held['path'] is sys.path and held is own and len(held) == 1")
            nb.checkout(later)
            assert nb.look("held['path'] is sys.path and held is own and len(held) == 2")

    def test_in_a_long_container_it_is_found_too(self) -> None:
        with Notebook() as nb:
            early = nb.run("import sys\nrows = [{'n': n, 'at': []} for n in range(5000)]\nrows[2500]['at'] = sys.path")
            nb.run("rows[1]['n'] = -1")
            nb.checkout(early)
            assert nb.look("rows[2500]['at'] is sys.path and rows[1]['n'] == 1")

    def test_is_refused_by_name_where_it_is_gone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            early = nb.run("import random\nx = [random._inst]\ny = 1")
            nb.run("del x")
            monkeypatch.delattr("random._inst")
            with pytest.raises(Exception, match="x could not be loaded: AttributeError: module 'random' has no"):
                nb.checkout(early)


BELOW: dict[str, str] = {
    "what handles records": "logging.getLogger().handlers",
    "what filters them": "logging.getLogger().filters",
    "that of another logger": "logging.getLogger('ak.test.one').handlers",
    "the manager of loggers": "logging.root.manager",
    "all loggers": "logging.Logger.manager.loggerDict",
    "the dict of builtins": "vars(builtins)",
    "what decimal traps": "decimal.getcontext().traps",
    "what it saw": "decimal.DefaultContext.flags",
    "a codec": "codecs.lookup('utf-8')",
    "types of files": "mimetypes._db.encodings_map",
    "adapters": "sqlite3.adapters",
    "the registry of a policy": "email.policy.default.header_factory.registry",
    "the bits behind numpy's": "np.random.mtrand._rand._bit_generator",
    "options of pandas": "pd.options.display.d",
    "those by themselves": "pd._config.config._global_config['display']",
    "a sequence of colours": "matplotlib.color_sequences._color_sequences",
    "fonts": "matplotlib.font_manager.fontManager.ttflist",
    "parameters of a distribution": "scipy.stats.norm._ctor_param",
}


class TestWhatIsBelow:
    """Lists, dicts and sets that a library's own objects hold are the library's too."""

    IMPORTS = (
        "import builtins, codecs, decimal, email.policy, logging, mimetypes, sqlite3\nmimetypes.inited or mimetypes.init()\n"
        "import matplotlib.font_manager, numpy as np, pandas as pd, scipy.stats"
    )

    def test_it_comes_back_as_that_very_object(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delitem(sys.modules, "mimetypes", raising=False)  # looked at before it had its tables, perhaps
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(self.IMPORTS)
            nb.run("".join(f"t{at} = {expression}\n" for at, expression in enumerate(BELOW.values())))
            nb.run("opt = pd.options.display; deep = [{'h': (t0, t4)}]")
            groups = nb.session.workspace.tracking.groups
            assert all(groups[f"t{at}"].members == (f"t{at}",) for at in range(len(BELOW)))
            assert nb.session.status().lost == ()
            assert (
                names_changed(nb.run("logging.getLogger('ak.test.new'); t0.append(logging.NullHandler()); t0.pop()"))
                == set()
            )
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            found = {what: again.look(f"t{at} is {expression}") for at, (what, expression) in enumerate(BELOW.items())}
            assert found == dict.fromkeys(BELOW, True)
            assert again.look("deep[0]['h'][0] is logging.root.handlers and deep[0]['h'][1] is t4")
            before = again.look("opt.max_rows")
            again.execute("pd.options.display.max_rows = 7")
            assert again.look("opt.max_rows") == 7
            again.execute(f"pd.options.display.max_rows = {before}")

    def test_what_a_person_put_there_is_the_persons(self) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(
                "import logging, sqlite3, matplotlib.style\nmine, own, rows = {'lines.linewidth': 3}, [1, 2], {1: 'a'}\n"
                "matplotlib.style.library['ak own style'] = mine\n"
                "matplotlib.color_sequences._color_sequences['ak own colours'] = own\nlogging.root.ak_rows = rows"
            )
            nb.run("own.append(3); rows[2] = 'b'")
        import logging

        import matplotlib.style as styles

        sequences = vars(sys.modules["matplotlib"].color_sequences)["_color_sequences"]
        del styles.library["ak own style"], sequences["ak own colours"], vars(logging.root)["ak_rows"]
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("(mine, own, rows)") == ({"lines.linewidth": 3}, [1, 2, 3], {1: "a", 2: "b"})

    def test_it_is_empty_where_the_library_has_none_by_now(self) -> None:
        from agent_kernel.values.restore.objects import reached

        assert reached("logging", "root", (("attribute", "gone"),), list) == []
        assert reached("logging", "root", (("attribute", "name"), ("item", "x")), dict) == {}

    def test_an_id_that_another_container_has_by_now_names_nothing(self) -> None:
        with Notebook() as nb:
            nb.run("x = [1]\ny = {'a': x}")
            for name in "xy":
                vars(references)["_inner"][id(nb.look(name))] = vars(references)[
                    "_OF_LOGGERS"
                ]  # as if one that died had had it
            first = nb.run("x.append(2)")
            nb.run("x.append(3); y['b'] = 1")
            nb.checkout(first)
            assert nb.look("(x, y['a'] is x, 'b' in y)") == ([1, 2], True, False)


class TestWhatAPersonPutsThere:
    def test_is_saved_by_value(self) -> None:
        with Notebook() as nb:
            nb.run("import json, sys, numpy as np")
            early = nb.run(
                "json.mine = [1]\nx = json.mine\nbefore = sys.argv\nsys.argv = ['prog', '1']\nargs = sys.argv\n"
                "np.rows = np.zeros(3)\nrows = np.rows"
            )
            nb.run("x.append(2); args.append('2'); rows[0] = 5")
            nb.checkout(early)
            assert nb.look("[x, args, rows.tolist()]") == [[1], ["prog", "1"], [0.0, 0.0, 0.0]]
            nb.execute("sys.argv = before; del json.mine, np.rows")

    def test_and_what_is_put_in_the_place_of_the_librarys_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("sys.stdout", sys.stdout)
        with Notebook() as nb:
            early = nb.run("import io, sys\nbuf = io.StringIO(); sys.stdout = buf\nprint('one')")
            nb.run("print('two')")
            nb.checkout(early)
            assert nb.look("buf.getvalue()") == "one\n"

    def test_and_the_list_of_a_loggers_filters(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import logging

        store, before = MemoryStore(), logging.root.filters
        monkeypatch.setattr(logging.root, "filters", before)
        with Notebook(Repository.open(store)) as nb:
            nb.run("import logging\nlogging.getLogger('ak.test.a'); mine = [len]; logging.root.filters = mine")
            nb.run("logging.getLogger('ak.test.b'); mine.append(abs)")
            own = nb.run("own = logging.getLogger('ak.test.a').filters")
            nb.run("mine.append(max)")
            nb.checkout(own)
            assert nb.look("(mine, logging.root.filters is mine)") == ([len, abs], False)
        logging.root.filters = before
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("(mine, own is logging.getLogger('ak.test.a').filters)") == ([len, abs], True)


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """A module of one's own beside the notebook; call it for a fresh process's."""
    code = (
        "STATE, ROWS, TAGS = {'n': 0}, [], set()\n"
        "class Model:\n    def __init__(self): self.weights = [0]\nmodel = Model()\n"
        "def bump():\n    STATE['n'] += 1; ROWS.append(STATE); TAGS.add(STATE['n']); model.weights.append(STATE['n'])\n"
    )
    (tmp_path / "ak_helper.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)

    def fresh() -> None:
        sys.modules.pop("ak_helper", None)
        importlib.invalidate_caches()

    yield fresh
    fresh()


class TestAModuleOfOnesOwn:
    CELL = (
        "import ak_helper as h\nfrom ak_helper import STATE, ROWS, TAGS, model, bump\nm = [model, {'s': STATE}]\nbump()"
    )
    SAME = "STATE is h.STATE and ROWS is h.ROWS and TAGS is h.TAGS and model is h.model is m[0] and m[1]['s'] is STATE"

    def test_gets_its_content_back_in_the_same_objects(self, helper: Callable[[], None]) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            early = nb.run(self.CELL)
            nb.execute("__live__ = (STATE, ROWS, TAGS, model)")
            later = nb.run("bump(); STATE['more'] = [1]")
            assert names_changed(later) >= {"STATE", "m"}
            nb.checkout(early)
            assert nb.look(self.SAME)
            assert nb.look("all(a is b for a, b in zip(__live__, (STATE, ROWS, TAGS, model)))")
            assert nb.look("[h.STATE, len(h.ROWS), h.ROWS[0] is h.STATE, h.TAGS, h.model.weights]") == [
                {"n": 1}, 1, True, {1}, [0, 1]
            ]  # fmt: skip
            nb.checkout(later)
        helper()
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look(self.SAME)
            assert again.look("[h.STATE, len(h.ROWS), h.ROWS[0] is h.STATE, h.TAGS, h.model.weights]") == [
                {"n": 2, "more": [1]}, 2, True, {1, 2}, [0, 1, 2]
            ]  # fmt: skip

    def test_is_not_touched_by_a_look_at_the_past(self, helper: Callable[[], None]) -> None:
        with Notebook() as nb:
            nb.run(self.CELL)
            nb.run("bump()")
            past = nb.repo.at("HEAD~1")
            assert past["STATE"] == {"n": 1}
            assert past["ROWS"] == [{"n": 1}]
            assert nb.look("STATE") == {"n": 2}

    def test_nor_by_a_checkout_that_fails(self, helper: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            early = nb.run(self.CELL + "\nimport random\nb = [random._inst]")
            nb.run("bump(); del b")
            monkeypatch.delattr("random._inst")
            with pytest.raises(builtins.Exception, match="b could not be loaded"):
                nb.checkout(early)
            assert nb.look("h.STATE") == {"n": 2}

    def test_its_content_outlives_it(self, helper: Callable[[], None], tmp_path: Path) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("from ak_helper import STATE\nSTATE['n'] = 7\ncopy = [STATE]")
        (tmp_path / "ak_helper.py").unlink()
        helper()
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("STATE == {'n': 7} and copy[0] is STATE")


_KINDS = {  # what a module makes, what changes it, and how it looks
    "a number": ("x = 1", "h.x += 1", "h.x"),
    "a deque": ("import collections\nx = collections.deque([1], 3)", "h.x.append(2)", "h.x"),
    "a default dict": ("import collections\nx = collections.defaultdict(list)", "h.x[1].append(2)", "h.x"),
    "a counter": ("import collections\nx = collections.Counter('a')", "h.x['b'] += 3", "h.x"),
    "an ordered dict": ("import collections\nx = collections.OrderedDict(a=1, b=2)", "h.x.move_to_end('a')", "h.x"),
    "bytes": ("x = bytearray(b'a')", "h.x += b'b'", "h.x"),
    "an array of Python's": ("import array\nx = array.array('i', [1])", "h.x.append(2)", "h.x"),
    "text in memory": ("import io\nx = io.StringIO('a')", "h.x.read(); h.x.write('b')", "h.x.getvalue(), h.x.tell()"),
    "random numbers": ("import random\nx = random.Random(1)", "h.x.random()", "h.x.getstate()"),
    "an array": ("import numpy as np\nx = np.zeros(3)\ndef f(): return x", "h.x[0] = 5", "h.x, h.f() is h.x"),
    "a table": ("import pandas as pd\nx = pd.DataFrame({'a': [1]})", "h.x.loc[0, 'a'] = 5", "h.x"),
    "an array below": ("import numpy as np\nx = {'a': [np.zeros(3)]}", "h.x['a'][0][0] = 5", "h.x"),
    "slots": (
        "class S:\n    __slots__ = 'a', 'b'\nx = S(); x.a = [1]",
        "h.x.a.append(2); h.x.b = 1",
        "h.x.a, hasattr(h.x, 'b')",
    ),
    "attributes of a class": (
        "class K:\n    n, held = 0, []",
        "h.K.n += 1; h.K.held.append(1); h.K.more = 2",
        "vars(h.K)",
    ),
    "attributes of a function": ("def f(): ...\nf.n = [1]", "h.f.n.append(2); h.f.m = 3", "vars(h.f)"),
    "a default": (
        "def f(seen=[], *, more={}):\n    seen.append(1); more[1] = 2",
        "h.f()",
        "h.f.__defaults__, h.f.__kwdefaults__",
    ),
    "a function in the place of its own": ("def f(): return 1\ng = f", "h.f = lambda: 2", "h.f(), h.g(), h.f is h.g"),
    "a function that was not there": ("x = 1", "h.f = lambda: 2", "hasattr(h, 'f') and h.f()"),
    "a class in the place of its own": ("class K:\n    n = 1", "class Mine(h.K):\n    n = 2\nh.K = Mine", "h.K.n"),
    "methods in the place of its own": (
        "class K:\n    def m(self): return 1\n    @staticmethod\n    def s(): return 1\n    def __len__(self): return 1",
        "h.K.m = lambda self: 2; h.K.__len__ = lambda self: 2; h.K.s = staticmethod(lambda: 2); h.K.p = property(lambda self: 3)",
        "h.K().m(), h.K.s(), len(h.K()), hasattr(h.K, 'p') and h.K().p",
    ),
    "subclasses": (
        "class Base:\n    subs = []\n    def __init_subclass__(cls): Base.subs.append(cls)",
        "class Mine(h.Base): ...",
        "[one.__name__ for one in h.Base.subs]",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("kind", _KINDS)
def test_what_a_module_of_ones_own_holds_goes_back_with_the_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made, change, look = _KINDS[kind]
    (tmp_path / "ak_kinds.py").write_text(made)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        early = nb.run("import ak_kinds as h")
        x, before = nb.look("getattr(h, 'x', None)"), repr(nb.look(look))
        later = nb.run(change)
        after = repr(nb.look(look))
        assert "h" in names_changed(later)
        assert after != before
        for report, wanted in ((early, before), (later, after), (early, before)):
            nb.checkout(report)
            assert repr(nb.look(look)) == wanted
        assert nb.look("getattr(h, 'x', None)") is x or kind in (
            *("a number", "bytes", "an array of Python's", "an array", "a table"),  # bound to another one
        )
        assert nb.run("h").changed == ()
        assert early.unsaved == later.unsaved == ()
    del sys.modules["ak_kinds"]
    with Notebook(Repository.open(store)) as again:
        again.checkout(later)
        assert repr(again.look(look)) == after
        again.checkout(early)
        assert repr(again.look(look)) == before
    del sys.modules["ak_kinds"]


def test_what_a_function_of_ones_own_module_keeps_is_what_a_variable_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ak_kinds.py").write_text("import functools\n@functools.lru_cache\ndef f(n): return [n]")
    monkeypatch.syspath_prepend(tmp_path)
    with Notebook() as nb:
        before = nb.run("import ak_kinds as h")
        first = nb.run("x = h.f(1)")
        nb.run("x.append(5); y = h.f(2)")
        nb.checkout(first)
        assert nb.look("(h.f(1) is x, x, h.f(2))") == (True, [1], [2])
        nb.run("h.f(1).append(7)")
        nb.checkout(before)
        assert nb.look("h.f(1)") == [1]
    del sys.modules["ak_kinds"]


HOME = (
    "import threading\n"
    "class Cfg: pass\n"
    "STATE = {'x': [0]}; SEEN = set(); COUNT = 0; lock = threading.Lock(); big = [[n] for n in range(11_000)]\n"
    "cfg = Cfg(); cfg.opts = {'a': [1]}; cfg.sub = Cfg(); cfg.sub.items = []\n"
    "resource = {'lock': lock}\n"
    "def bump():\n    global COUNT\n    COUNT += 1; STATE['x'].append(COUNT); SEEN.add(COUNT)\n"
    "def state(): return STATE\n"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A module and a package of one's own beside the notebook; call it for a fresh process's, with another source."""
    (tmp_path / "ak_pack" / "deep").mkdir(parents=True)
    (tmp_path / "ak_pack" / "__init__.py").write_text("from . import part\n")
    (tmp_path / "ak_pack" / "part.py").write_text("STATE = {'x': [0]}\ndef state(): return STATE\n")
    (tmp_path / "ak_pack" / "deep" / "__init__.py").write_text("STATE = {'x': [0]}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def fresh(source: str) -> None:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("ak_home", "ak_pack")]:
            del sys.modules[name]
        (tmp_path / "ak_home.py").write_text(source)
        importlib.invalidate_caches()

    fresh(HOME)
    yield fresh
    fresh(HOME)


# A change below a module that a variable stands for, and what shows it.
BELOW_ONES_OWN: dict[str, tuple[str, str]] = {
    "a list in a dict": ("h.STATE['x'].append(1)", "(h.STATE, h.state() is h.STATE)"),
    "a dict": ("h.STATE['y'] = {'z': 1}", "h.STATE"),
    "a set": ("h.SEEN.add(7)", "h.SEEN"),
    "a number": ("h.COUNT += 5", "h.COUNT"),
    "what a function of it does": ("h.bump()", "(h.STATE, h.COUNT, h.SEEN)"),
    "an attribute": ("h.cfg.opts['a'].append(2)", "h.cfg.opts"),
    "attributes of attributes": ("h.cfg.sub.items.append(1); h.cfg.sub.n = 2", "vars(h.cfg.sub)"),
    "another object": ("h.STATE = {'other': 1}", "(h.STATE, h.state())"),
    "a new name": ("h.new = [1]", "vars(h).get('new')"),
    "a name less": ("del h.COUNT", "'COUNT' in vars(h)"),
    "through vars": ("vars(h)['STATE']['x'].append(1)", "h.STATE"),
    "through getattr": ("getattr(h, 'ST' + 'ATE')['x'].append(1)", "h.STATE"),
    "a module of a package": ("p.part.STATE['x'].append(1)", "(p.part.STATE, p.part.state() is p.part.STATE)"),
    "a package in it": ("d.STATE['x'].append(1)", "d.STATE"),
}


class TestWhatAModuleOfOnesOwnHolds:
    IMPORTS = "import ak_home as h, ak_pack as p\nimport ak_pack.deep as d"

    @pytest.mark.sampled
    @pytest.mark.parametrize(("change", "shows"), BELOW_ONES_OWN.values(), ids=BELOW_ONES_OWN)
    def test_is_found_changed_in_that_cell_and_set_back(
        self, home: Callable[[str], None], change: str, shows: str
    ) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            early = nb.run(self.IMPORTS)
            assert nb.session.status().lost == ()
            nb.execute("__live__ = (h.STATE, h.SEEN, h.cfg, p.part.STATE)")
            same = "all(a is b for a, b in zip(__live__, (h.STATE, h.SEEN, h.cfg, p.part.STATE)))"
            before = nb.look(f"repr({shows})")
            assert not nb.run(f"{shows}; h.state(); p; d").changed
            later = nb.run(change)
            assert names_changed(later) <= {"h", "p", "d"}
            assert later.changed
            after, is_same = nb.look(f"repr({shows})"), nb.look(same)
            assert before != after
            for _ in range(2):
                nb.checkout(early)
                assert nb.look(f"repr({shows})") == before
                nb.checkout(later)
                assert nb.look(f"repr({shows})") == after
            assert nb.look(same) or not is_same
            assert not nb.session.commit(full=True).changed
        home(HOME)
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look(f"repr({shows})") == after
            again.checkout(early)
            assert again.look(f"repr({shows})") == before

    @pytest.mark.parametrize(
        "change",
        [
            "bump()",
            "run()",
            "call()",
            "state()['x'].append(1)",
            "thing.add()",
            "Sub().add()",
        ],
    )
    def test_is_found_changed_where_a_cell_names_only_its_code(
        self, home: Callable[[str], None], change: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Detector, "choose_for_verification", lambda *_: [])  # nothing is found by chance
        home(HOME + "class Thing:\n    def add(self): STATE['x'].append(1)\n")
        with Notebook() as nb:
            nb.run("import ak_home as h\nfrom ak_home import bump, state, Thing\nthing = Thing()")
            early = nb.run("class Sub(Thing): pass\ndef run(): bump()\ncall = bump")
            assert "h" in names_changed(nb.run(change))
            nb.checkout(early)
            assert nb.look("(h.STATE, h.COUNT)") == ({"x": [0]}, 0)

    def test_is_shared_with_variables_for_a_part_of_it(self, home: Callable[[str], None]) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            early = nb.run("import ak_home as h\nX = h.STATE['x']; items = h.cfg.sub.items")
            assert names_changed(nb.run("h.STATE['x'].append(1)")) == {"h", "X"}
            assert names_changed(nb.run("items.append(1)")) == {"h", "items"}
            nb.checkout(early)
            assert nb.look("X is h.STATE['x'] and items is h.cfg.sub.items and (X, items) == ([0], [])")
            nb.checkout("main")
        home(HOME)
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("X is h.STATE['x'] and items is h.cfg.sub.items and (X, items) == ([0, 1], [1])")

    def test_is_what_a_source_says_that_was_edited_since(self, home: Callable[[str], None]) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run("import ak_home as h\nfrom ak_home import SEEN\nh.bump(); h.COUNT = 9")
        home(HOME.replace("{'x': [0]}", "{'new': 1}").replace("COUNT = 0", "COUNT = 100"))
        with Notebook(Repository.open(store)) as again:
            again.checkout()
            assert again.look("(h.STATE, h.COUNT)") == ({"new": 1}, 100)
            assert again.look("(SEEN, h.SEEN is SEEN)") == ({1}, True)

    def test_is_not_touched_by_a_look_at_the_past(self, home: Callable[[str], None]) -> None:
        with Notebook() as nb:
            nb.run("import ak_home as h")
            nb.run("h.bump(); h.new = 1")
            assert nb.repo.at("HEAD~1")["h"] is sys.modules["ak_home"]
            assert nb.look("(h.COUNT, h.STATE, h.new)") == (1, {"x": [0, 1]}, 1)

    def test_is_left_alone_where_it_is_large_or_a_resource(self, home: Callable[[str], None]) -> None:
        with Notebook() as nb:
            early = nb.run("import ak_home as h")
            assert early.written_bytes < 20_000
            assert not nb.run("h.big.append(1); h.resource['n'] = 1").changed
            nb.run("h.bump()")
            nb.checkout(early)
            assert nb.look("(h.big[-1], h.resource['n'], h.COUNT)") == (1, 1, 0)

    def test_of_a_library_nothing_is_saved(self) -> None:
        with Notebook() as nb:
            nb.run("import json, collections, numpy as np, agent_kernel as ak")
            assert not nb.run("json.ak_own = [1]; del json.ak_own; np; ak; collections").changed
            groups = nb.session.workspace.tracking.groups
            assert max(groups[name].size for name in ("json", "np", "ak", "collections")) < 200


REGISTRY = (
    "REG, META, COUNTED, order = [], [], {}, []\nimport weakref, collections\nwatched = weakref.WeakSet()\n"
    "class Base:\n    subs = {}; count = 0; by = collections.defaultdict(list)\n"
    "    def __init_subclass__(cls, key='k', **more):\n"
    "        super().__init_subclass__(**more); REG.append(cls); Base.subs[cls.__name__] = cls; Base.count += 1\n"
    "        Base.by[key].append(cls); watched.add(cls); META.append(cls.__name__)\n"
    "class Meta(type):\n    all = []\n    def __init__(cls, *more): super().__init__(*more); Meta.all.append(cls)\n"
)
REGISTERED = (
    "(list(map(id, r.REG)), list(map(id, Base.subs.values())), list(map(id, Base.by['k'])), list(map(id, r.watched)),"
    " list(map(id, Meta.all)), r.META, Base.count)"
)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    (tmp_path / "ak_registry.py").write_text(REGISTRY)
    monkeypatch.syspath_prepend(tmp_path)

    def fresh() -> None:
        sys.modules.pop("ak_registry", None)
        importlib.invalidate_caches()

    fresh()
    yield fresh
    fresh()


class TestWhatAModuleNotesOfItsSubclasses:
    HERE = "import sys; from ak_registry import Base, Meta"
    LOOK = REGISTERED.replace("r.", "sys.modules['ak_registry'].")

    def expected(self, nb: Notebook, names: str = "A") -> object:
        each = f"[id({names})]"
        return nb.look(f"({each}, {each}, {each}, {each}, [id(B)], ['A'], 1)")

    def test_is_the_class_that_there_is_and_once(self, registry: Callable[[], None]) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            nb.run(self.HERE)
            made = nb.run("class A(Base): z = 0\nclass B(metaclass=Meta): pass\na = A()")
            assert nb.look(self.LOOK) == self.expected(nb)
            for change in ("A.z = 1; B.z = 2", "A.z = [1]; a.v = 2; B.w = 1", "a = None; B.z = 1"):
                nb.run(change)
                nb.checkout(made)
                assert nb.look("(A.z, vars(B).get('z'), type(a) is A)") == (0, None, True)
                assert nb.look(self.LOOK) == self.expected(nb)
            nb.run("del A, B, a")
            nb.checkout(made)
            assert nb.look(self.LOOK) == self.expected(nb)
        registry()
        with Notebook(Repository.open(store)) as again:
            again.checkout(made)
            assert again.look("[sys.modules['ak_registry'].REG == [A], Base.count, list(Base.subs)]") == [
                True,
                1,
                ["A"],
            ]
            again.run("A.z = 3")
            again.checkout(made)
            assert again.look("[sys.modules['ak_registry'].REG == [A], Base.count, list(Base.subs)]") == [
                True,
                1,
                ["A"],
            ]

    def test_is_not_touched_by_a_look_at_the_past(self, registry: Callable[[], None]) -> None:
        with Notebook() as nb:
            nb.run(self.HERE)
            nb.run("class A(Base): z = 0\nclass B(metaclass=Meta): pass\na = A()")
            nb.run("A.z = 1; a.v = 1")
            before = nb.look(self.LOOK)
            assert nb.repo.at("HEAD~1")["a"] is not None
            assert nb.look(self.LOOK) == before

    def test_is_set_back_with_the_module_where_a_variable_stands_for_it(self, registry: Callable[[], None]) -> None:
        store = MemoryStore()
        with Notebook(Repository.open(store)) as nb:
            none = nb.run("import ak_registry as r\nfrom ak_registry import Base, Meta")
            made = nb.run("class A(Base): pass\nclass C(Base): pass")
            nb.run("A.z = 1")
            nb.checkout(made)
            assert nb.look("r.REG == [A, C] and r.META == ['A', 'C']")
            nb.checkout(none)
            assert nb.look("(r.REG, r.META)") == ([], [])
            nb.checkout(made)
            assert nb.look("r.REG == [A, C] and r.META == ['A', 'C']")
        registry()
        with Notebook(Repository.open(store)) as again:
            again.checkout(made)
            assert again.look("r.REG == [A, C] and r.META == ['A', 'C']")


class TestAFolderThatACellAdded:
    def test_is_named_after_a_restart_and_nothing_else_is_held_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("sys.path", list(sys.path))
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "ak_local.py").write_text("class Thing: pass\n")
        store, folder = MemoryStore(), str(tmp_path / "lib")
        with Notebook(Repository.open(store)) as nb:
            nb.run(f"import sys\nsys.path.insert(0, {folder!r})\nimport ak_local\nt = ak_local.Thing(); x = [1]")
            nb.run("x.append(2)")
        sys.path.remove(folder)
        monkeypatch.delitem(sys.modules, "ak_local")
        with Notebook(Repository.open(store)) as again:
            again.run("y = 1")  # a commit of a session without the folder
            report = again.checkout()
            assert {told.name for told in report.unsaved} == {"ak_local", "t"}
            assert all(
                f"run sys.path.insert(0, {folder!r}) and check out again" in told.reason for told in report.unsaved
            )
            assert folder not in sys.path
            assert again.look("x") == [1, 2]
            again.run(f"sys.path.insert(0, {folder!r})")
            assert again.checkout().unsaved == ()
            assert again.look("type(t) is ak_local.Thing")
        monkeypatch.delitem(sys.modules, "ak_local")
        sys.path.remove(folder)
        (tmp_path / "lib").rename(tmp_path / "moved")
        with Notebook(Repository.open(store)) as gone:
            (told, *_) = gone.checkout().unsaved
            assert f"it came from the folder {folder}, which is not there now" in told.reason


class TestTheCost:
    @pytest.mark.parametrize("modules", [10, 20, 40])
    def test_what_many_modules_hold_is_looked_into_once(self, monkeypatch: pytest.MonkeyPatch, modules: int) -> None:
        from agent_kernel.values import references

        held = types.SimpleNamespace(inner=types.SimpleNamespace(found=[1]))
        for number in range(modules):
            module = types.ModuleType(f"oddlib{number}")
            module.held = held  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
            monkeypatch.setitem(sys.modules, module.__name__, module)
        inner, walk = vars(references)["_inner"], vars(references)["_walk"]
        names = tuple(f"oddlib{number}" for number in range(modules))
        references.note(names)
        gone: list[list[int]] = [[], [], []]
        walks: list[object] = []
        batch = vars(references)["_Batch"](names)
        for one in gone:
            monkeypatch.setitem(inner, id(one), batch)  # as if one that died had had it

        def counted(values: list[object], counting: object) -> object:
            walks.append(values)
            return walk(values, counting)

        monkeypatch.setattr(references, "_walk", counted)
        assert [vars(references)["_reach"](id(one), {}) for one in gone] == [None, None, None]
        assert len(walks) == modules
        for one in gone:
            inner.pop(id(one), None)

    def test_a_module_is_looked_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with Notebook() as nb:
            nb.run("import sys\nclass C: pass\nc = C(); xs = [[1]]")
            looks: list[str] = []
            note = references.note

            def counted(names: Iterable[str]) -> dict[str, list[object]]:
                looks.extend(names := list(names))
                return note(names)

            monkeypatch.setattr(references, "note", counted)
            for n in range(5):
                nb.run(f"c.n = {n}; xs[0].append({n}); new{n} = [c]")
            assert looks == []
            nb.run("import sys, types, importlib.util\nnb_spec = importlib.util.find_spec('json')\nimport this as zen")
            assert looks.count("this") == 1
            assert len(looks) < 5


# Ways to hold the notebook's own namespace, and what gives it back.
NAMESPACES: dict[str, tuple[str, str]] = {
    "globals()": ("@ = globals()", "@"),
    "vars()": ("@ = vars()", "@"),
    "locals()": ("@ = locals()", "@"),
    "the dict of __main__": ("import __main__\n@ = __main__.__dict__\ndel __main__", "@"),
    "the dict of a module in sys.modules": ("import sys\n@ = sys.modules['__main__'].__dict__", "@"),
    "in a list": ("@ = [1, globals()]", "@[1]"),
    "deep in containers": ("@ = {'a': [({'b': (globals(),)},)]}", "@['a'][0][0]['b'][0]"),
    "in a long list": ("@ = [[i] for i in range(3000)]\n@.append(globals())", "@[-1]"),
    "a frame's": ("import sys\n@ = [sys._getframe().f_globals]", "@[0]"),
    "an attribute": ("class C: pass\n@ = C()\n@.n = globals()", "@.n"),
    "an attribute of a library's object": ("import types\n@ = types.SimpleNamespace(n=globals())", "@.n"),
    "an attribute of a class": ("class Holder:\n    n = globals()\n@ = Holder()", "@.n"),
    "a closure": ("@ = (lambda n: lambda: n)(globals())", "@()"),
    "a default": ("def @(n=globals()):\n    return n", "@()"),
    "a keyword's default": ("def @(*, n=globals()):\n    return n", "@()"),
    "a partial": ("import functools\n@ = functools.partial(dict.get, globals())", "@.args[0]"),
    "a method": ("@ = globals().get", "@.__self__"),
    "a view": ("@ = globals().keys()\nfrom gc import get_referents", "get_referents(@)[0]"),
    "a chain of maps": ("import collections\n@ = collections.ChainMap({}, globals())", "@.maps[1]"),
    "an array": ("import numpy as np\n@ = np.array([globals(), None])", "@[0]"),
}


def test_the_namespace_is_held_and_never_copied() -> None:
    ways = {f"g{number}": way for number, way in enumerate(NAMESPACES.values())}
    gets = {name: get.replace("@", name) for name, (_, get) in ways.items()}
    ours = f"[{', '.join(f'{get} is globals()' for get in gets.values())}]"
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("x, rows, text = [], [[1], [2]], 'secret' * 3")
        for name, (make, _) in ways.items():
            nb.run(make.replace("@", name))
        groups = nb.session.workspace.tracking.groups
        assert {name: groups[name].members for name in ("x", *ways)} == {name: (name,) for name in ("x", *ways)}
        assert max(groups[name].size for name in ways) < 200_000
        for name, get in gets.items():
            assert (name, names_changed(nb.run(f"{get}['x'].append(1)"))) == (name, {"x"})
        nb.run("x.clear()")
        assert names_changed(nb.run(f"{gets['g5']}['new'] = 1")) == {"new"}
        assert names_changed(nb.run("y = 1")) == {"y"}
        nb.checkout("HEAD~3")
        assert nb.look(f"(all({ours}), len(x), 'new' in globals())") == (True, len(ways), False)
        nb.checkout("main")
        assert nb.look(f"(all({ours}), x, new, y)") == (True, [], 1, 1)
        assert nb.session.status().lost == ()
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look(ours) == [True] * len(ways)
        assert again.look("(x, new, rows)") == ([], 1, [[1], [2]])


def test_the_module_of_the_notebook_comes_back_as_itself() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import sys\nx = []\nmain = sys.modules['__main__']\nheld = [main]")
        assert names_changed(nb.run("main.x.append(1)")) == {"x"}
        assert names_changed(nb.run("setattr(held[0], 'n' + 'ew', 1)")) == {"new"}
    with Notebook(Repository.open(store)) as again:
        again.checkout()
        assert again.look("main is held[0] is sys.modules['__main__'] and main.x is x")


def test_two_names_for_the_namespace_share_nothing() -> None:
    with Notebook() as nb:
        nb.run("x = []\ng = globals()\nh = {'n': globals()}\ndef f(n=globals()): return n")
        members = {name: nb.session.workspace.tracking.groups[name].members for name in ("x", "g", "h", "f")}
        assert members == {"x": ("x",), "g": ("g",), "h": ("h",), "f": ("f",)}
        nb.run("h['n']['x'] = [2]")
        nb.session.undo()
        assert nb.look("(g is h['n'] is f() is globals(), x)") == (True, [])


def test_a_value_that_leads_to_the_namespace_saves_none_of_the_other_values() -> None:
    with Notebook() as nb:
        nb.run(
            "class Dear:\n    count = 0\n    def __reduce__(self):\n        Dear.count += 1\n        return Dear, ()"
        )
        nb.run("dear = Dear()\na = [globals()]\nb = {'deep': [(globals().get,)]}")
        nb.execute("Dear.count = 0")
        for name in ("a", "b"):
            dump_group({name: nb.look(name)}, nb.session.workspace.living, nb.namespace)
        assert nb.look("Dear.count") == 0


def test_what_goes_through_the_variables_or_a_librarys_dict_stores_none_of_them(secret: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run("import os\nx = 'a variable of ' * 2\na = b = c = d = None\nrows = {'k': 1}\ne = iter(rows)")
        told = nb.run("a, b = iter(globals()), [zip(globals().values())]\nc, d = iter(os.environ._data.items()), [1]")
        assert {lost.name for lost in told.unsaved} == {"a", "b", "c"}
        assert {lost.reason for lost in told.unsaved} == {
            "an iterator over the variables cannot be saved",
            "an iterator over what a module holds cannot be saved",
        }
        nb.run("d.append(2)")
        nb.checkout(told)
        assert nb.look("(d, next(e), type(a).__name__)") == ([1], "k", "dict_keyiterator")
    assert secret.encode() not in stored(store)
    assert stored(store).count(b"a variable of a variable of") <= 2


def test_a_module_that_a_cell_made_is_not_saved_under_its_name() -> None:
    store = MemoryStore()
    try:
        with Notebook(Repository.open(store)) as nb:
            told = nb.run("import sys, types\nm = types.ModuleType('ak_fake'); sys.modules['ak_fake'] = m\nx = [m, 1]")
            assert {(lost.name, lost.reason) for lost in told.unsaved} == {
                (name, "a module that was made in a cell and has no file") for name in "mx"
            }
            nb.run("x.append(2)")
            nb.checkout(told)
            assert nb.look("(x[0] is m, x[1:])") == (True, [1])
            for name in ("os.path", "xml.etree.ElementTree", "sys", "collections.abc"):
                assert nb.run(f"import {name}").unsaved == ()
    finally:
        sys.modules.pop("ak_fake", None)


def test_a_module_that_is_imported_anew_is_looked_at_anew_wherever_it_lies() -> None:
    places: list[int] = []
    kept: list[object] = []  # else a list may lie where the last one lay, too
    for number in range(20):
        made = sys.modules["ak_anew"] = types.ModuleType("ak_anew")
        vars(made)["ROWS"] = rows = [number]
        references.begin()
        references.look()
        assert ("ak_anew", "ROWS") in references.MODULE_OBJECTS[id(rows)]
        places.append(id(made))
        kept.append(rows)
        del sys.modules["ak_anew"], made
    assert len(set(places)) < len(places)


class TestAnAttributeBelowALibrarysModule:
    @pytest.fixture
    def library(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
        """A package of 20 modules, in the last of which the attributes are named; which of its modules were read."""
        package = tmp_path / "site-packages" / "manyparts"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("from manyparts import " + ", ".join(f"part{n:02}" for n in range(20)))
        for number in range(19):
            (package / f"part{number:02}.py").write_text("")
        (package / "part19.py").write_text(
            "class Table:\n    def __init__(self):\n        self.entries = {'a': 1}\n"
            "        setattr(self, 'ent' 'ries_in_' 'parts', {'b': 2})\n"
        )
        (package / "part00.py").write_text("from manyparts.part19 import Table\ntable = Table()")
        monkeypatch.syspath_prepend(str(package.parent))
        read: list[str] = []
        compiled = vars(references)["_read_compiled"]

        def noted(module: str) -> bytes:
            read.append(module)
            found: bytes = compiled(module)
            return found

        monkeypatch.setattr(references, "_read_compiled", noted)
        yield read
        for name in [name for name in sys.modules if name.partition(".")[0] == "manyparts"]:
            del sys.modules[name]

    def test_is_found_by_the_code_of_the_module_that_spells_its_name(self, library: list[str]) -> None:
        with Notebook() as nb:
            made = nb.run("import manyparts\nentries = manyparts.part00.table.entries")
            assert library == ["manyparts.part19"]
            nb.run("del entries")
            nb.checkout(made)
            assert nb.look("entries is manyparts.part00.table.entries")

    def test_is_found_also_where_the_source_spells_it_in_pieces(self, library: list[str]) -> None:
        with Notebook() as nb:
            made = nb.run("import manyparts\nentries = manyparts.part00.table.entries_in_parts")
            nb.run("del entries")
            nb.checkout(made)
            assert nb.look("entries is manyparts.part00.table.entries_in_parts")
            assert "manyparts.part19" in library

    def test_that_a_cell_made_up_is_the_notebooks(self, library: list[str]) -> None:
        with Notebook() as nb:
            made = nb.run("import manyparts\nentries = manyparts.part00.table.made_up = {'c': 3}")
            nb.run("entries['c'] = 4")
            nb.checkout(made)
            assert nb.look("entries") == {"c": 3}
            assert library.count("manyparts.part19") <= 1

    def test_is_found_again_whenever_the_package_is_imported_anew(self, library: list[str]) -> None:
        """What it holds lies then where something else of it has died."""
        for _ in range(30):
            for name in [name for name in sys.modules if name.partition(".")[0] == "manyparts"]:
                del sys.modules[name]
            gc.collect()
            references.look()
            table: Any = importlib.import_module("manyparts.part00").table
            references.look()
            for name in ("entries", "entries_in_parts"):
                held = getattr(table, name)
                assert references.containers_among({id(held)}, {}).keys() == {id(held)}, name
            del table, held


def test_a_function_that_a_function_of_the_library_made_is_the_librarys_after_a_restart() -> None:
    """It is not found under its own name, and a copy would be cut off from what the library's other functions know of it."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        made = nb.run("import os\nencode, box = os.fsencode, {'f': [os.fsdecode]}")
        nb.run("encode = box = None")
        nb.checkout(made)
        assert nb.look("encode is os.fsencode and box['f'][0] is os.fsdecode")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        assert nb.look("encode is os.fsencode and box['f'][0] is os.fsdecode")


WRAPPED = (
    *(["typing.Generic.__class_getitem__.__func__"] if sys.version_info < (3, 12) else []),  # later it is made in C
    "pathlib.PurePath.name.fget",
    "functools.singledispatchmethod.__isabstractmethod__.fget",
    "statistics.NormalDist.from_samples.__func__",
    "ipaddress.IPv4Network.hostmask.func",
    "contextlib.ContextDecorator._recreate_cm",
    "fnmatch._compile_pattern.__wrapped__",
)


@pytest.mark.parametrize("place", WRAPPED)
def test_a_librarys_function_in_what_wraps_it_is_the_librarys_after_a_restart(place: str) -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        made = nb.run(f"import {place.partition('.')[0]}\nf = {place}\nbox = [f]")
        nb.run("f = box = None")
        nb.checkout(made)
        assert nb.look(f"f is {place} and box[0] is f")
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        assert nb.look(f"f is {place} and box[0] is f")


def test_a_function_that_a_cell_put_into_a_library_is_saved_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(contextlib, "opened_by_cell", None, raising=False)  # so that it is gone afterwards
    with Notebook(Repository.open(store)) as nb:
        made = nb.run(
            "import contextlib\ndef steps():\n    yield 7\nopened = contextlib.contextmanager(steps)\n"
            "contextlib.opened_by_cell = opened"
        )
    monkeypatch.setattr(contextlib, "opened_by_cell", None)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(made)
        nb.run("with opened() as number: pass")
        assert nb.look("number") == 7


def test_a_generic_named_tuple_comes_back_with_its_aliases() -> None:
    """Its class holds a function that `typing` made for `Generic`, with all that this keeps."""
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "from typing import Generic, NamedTuple, TypeVar\nT = TypeVar('T')\n"
            "class P(NamedTuple, Generic[T]):\n    a: T\n    b: list = []\np, alias = P(1), P[int]"
        )
        late = nb.run("p.b.append(3)")
        nb.run("del p, alias, P")
        nb.checkout(late)
        assert nb.look("(p.b is P(2).b, p.b, alias == P[int], alias.__origin__ is P)") == (True, [3], True, True)
    with Notebook(Repository.open(store)) as nb:
        nb.checkout(late)
        assert nb.look("(p.b is P(2).b, p.b, alias == P[int], alias.__origin__ is P)") == (True, [3], True, True)
        made = "Generic.__class_getitem__.__func__" if sys.version_info < (3, 12) else "typing._generic_class_getitem"
        nb.run("import typing")
        assert nb.look(f"vars(P)['__class_getitem__'].__func__ is {made}")


def test_an_alias_comes_back_where_its_class_needs_its_own_variables_to_make_one() -> None:
    store = MemoryStore()
    with Notebook(Repository.open(store)) as nb:
        nb.run(
            "from functools import lru_cache\nfrom typing import Generic, TypeVar\nT = TypeVar('T')\n"
            "def cached(f):\n    known = lru_cache(f)\n    def find(*a): return known(*a)\n    return find\n"
            "class G(Generic[T]):\n    @classmethod\n    @cached\n"
            "    def __class_getitem__(cls, key): return super().__class_getitem__(key)\nalias = G[int]"
        )
    with Notebook(Repository.open(store)) as nb:
        nb.checkout()
        assert nb.look("(alias.__args__, alias.__origin__ is G, G[str].__args__)") == ((int,), True, (str,))
