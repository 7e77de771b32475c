"""What a cell may have changed is looked at, however it gets there; and what it cannot have changed is not."""

from __future__ import annotations

import builtins
import codecs
import contextlib
import copy
import gc
import logging
import queue
import signal
import sys
import weakref
from collections.abc import Generator, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from types import CodeType

import pytest

from agent_kernel.session import dependencies, serialization, workspace
from agent_kernel.session.dependencies import uses_of
from agent_kernel.session.workspace import Detector
from agent_kernel.values import groups, surface
from agent_kernel.values.group_digests import is_unchanged
from agent_kernel.values.groups import dump_group
from agent_kernel.values.surface import MOST_HOLDINGS, Holdings, find_death_callbacks, find_holdings
from tests.session.adversarial import Case
from tests.session.routes import DISGUISES, HOLDERS
from tests.support.notebooks import Notebook, names_changed
from tests.support.shells import ShellNotebook

pytestmark = pytest.mark.filterwarnings("ignore")  # the libraries' own, and coroutines that nobody awaits


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to work in, where nothing is found by chance; what cells leave in libraries is taken out again."""
    (tmp_path / "script.py").write_text("x.append(99)\n")
    (tmp_path / "helper_ext.py").write_text("def load_ipython_extension(ip):\n    ip.user_ns['x'].append(1)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(Detector, "choose_for_verification", lambda *_: [])
    callbacks, handler = list(gc.callbacks), signal.getsignal(signal.SIGUSR1)
    yield tmp_path
    gc.callbacks[:] = callbacks
    signal.signal(signal.SIGUSR1, handler)
    sys.modules.pop("helper_ext", None)
    builtins.__dict__.pop("say", None)
    codecs.register_error("mine", codecs.strict_errors)
    for name in ("q", "q2"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).filters.clear()


@pytest.mark.sampled
@pytest.mark.parametrize("case", [pytest.param(case, id=case.title) for case in (*DISGUISES, *HOLDERS)])
def test_a_route_that_no_word_names_is_found_in_the_same_cell(case: Case, desk: Path) -> None:
    with ShellNotebook(desk / "store") if case.shell else Notebook() as stage:
        for source in case.setup:
            stage.run(source)
        before = copy.deepcopy(stage.look(case.look))
        report = stage.run(case.cell)
        assert stage.look(case.look) != before
        assert {change.name for change in report.changed} >= set(case.names)


BACKWARD = (
    "losses[0].backward()",
    "pass_on(losses)",
    "losses[0].backward()\nlosses = None",
)


@pytest.mark.parametrize("cell", BACKWARD)
def test_a_gradient_is_found_in_the_cell_that_goes_back_from_a_result(cell: str, desk: Path) -> None:
    pytest.importorskip("torch")
    with Notebook() as nb:
        nb.run("import torch\nweight, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)")
        nb.run("net = torch.nn.Linear(2, 1)\ndef pass_on(results):\n    torch.autograd.backward(results)")
        nb.run("losses = [net(weight * 3).sum()]")
        nb.session.repo.create_tag("without")
        changed = names_changed(nb.run(cell))
        assert {"weight", "net"} <= changed
        assert "other" not in changed
        gradient = nb.look("weight.grad.tolist()")
        nb.session.checkout("without")
        assert nb.look("weight.grad is None and net.weight.grad is None")
        nb.session.checkout("main")
        assert nb.look("weight.grad.tolist()") == gradient


# -- what looks nothing up

HARMLESS = (
    "# vars, eval and big",
    "pass  # globals()",
    "text = 'vars and eval of globals'",
    "model.eval()",
    "[m.eval().exec for m in [model]]",
    "print(vars(model))",
    "dict(**vars(model))",
    "if __name__ == '__main__':\n    pass",
    "def local():\n    a = 1\n    return '{a}'.format(**locals())\nlocal()",
    "vars_ = model.vars\nvars_.append(1)",
    "eval_(1)",
    "model.run('vars')",
)


@pytest.fixture
def dumped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that were dumped since the list was emptied, or of which a digest of all their content was made."""
    found: list[str] = []

    def record(members: dict[str, object], *args: object, **options: object) -> object:
        found.extend(members)
        return dump_group(members, *args, **options)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    def digest(members: dict[str, object], *args: object) -> object:
        found.extend(members)
        return is_unchanged(members, *args)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(serialization, "dump_group", record)
    monkeypatch.setattr(serialization, "is_unchanged", digest)
    return found


@contextlib.contextmanager
def notebook_with_a_dear_value() -> Generator[Notebook]:
    """`big` takes so long to look at that no cell looks at it unasked; functions read it, and one looks names up."""
    with Notebook() as nb:
        nb.run("big = [[i] for i in range(10)]")
        nb.run("def read():\n    return sum(map(len, big))\ndef find(name):\n    return globals()[name]")
        nb.run("def eval_(x):\n    return x")
        nb.run(
            "class Model:\n    vars = []\n    def eval(self):\n        self.exec = 1\n        return self\n"
            "    def run(self, what):\n        return what\nmodel = Model()"
        )
        make_dear(nb)
        yield nb


def make_dear(nb: Notebook) -> None:
    nb.session.workspace.tracking.groups["big"].size = 1 << 30
    nb.session.workspace.tracking.groups["big"].cost_s = 1e6


def test_words_that_look_nothing_up_touch_nothing_else(dumped: list[str]) -> None:
    with notebook_with_a_dear_value() as nb:
        for source in HARMLESS:
            dumped.clear()
            nb.run(source)
            assert "big" not in dumped, source


ATTRIBUTES_ALONE = (
    "df.big.mean()",
    "df[df.big > 0].big  # big is a column",
    "sum(row.big for row in [df])",
    "f'{df.big}'",
    "(df\n .big)",
    "df['big'], df[['big', 'b']]",
    "{'big': 1, 'ü': df['big']}",
    "df.sort('big', by='big', of=['big'])",
    "def longest(big, more=None):\n    first = big\n    return max(first, key=len, default=more)",
    "def total(rows):\n    big = list(rows)\n    return (lambda big: big)(big)",
    'def draw(rows):\n    \'Draw a big row.\'\n    return rows\nclass Kept:\n    """It is big."""',
)
USED = (
    "df.big + len(big)",
    "df.big; x = [big]",
    "df.query('big > @big')",
    "df.big = big",
    "[... , big][0]",
    "evaluated('big')",
    "df.query('big')",
    "df[big]",
    "{big[0][0]: 1}",
    "df[f'{big}']",
    "df['big + 1']",
    "def first(big):\n    return big\nfirst(big)",
    "def last():\n    return big[-1]\nlast()",
    "def renamed(rows):\n    global big\n    big = [*big]\nrenamed([])",
    "(lambda rows=big: rows)()",
    "class Kept:\n    rows = big",
    "def last():\n    'big[-1].append(1)'\ndf.query(last.__doc__)",
    "def last():\n    'big'\n    return 'big[-1]'",
)


def test_a_variable_is_not_used_where_an_attribute_is_called_like_it(dumped: list[str]) -> None:
    with notebook_with_a_dear_value() as nb:
        nb.run(
            "class Table:\n    def mean(self): return self\n    def __gt__(self, o): return self\n    def __getitem__(self, o): return self\n"
            "    def __radd__(self, o): return self\n    def __add__(self, o): return self\n    def query(self, o): return self\n    def sort(self, o, **more): return self\n"
            "df = Table()\nTable.big = property(lambda self: self)\nimport math"
        )
        for source in ATTRIBUTES_ALONE:
            make_dear(nb)
            dumped.clear()
            nb.run(source)
            assert "big" not in dumped, source
        nb.run(
            "del Table.big\nclass Row: pass\ndf = Row()\ndf.big, df.query = 1, len\nclass Any(dict):\n    def __missing__(self, key): return key\nRow.__getitem__ = lambda self, key: key\nevaluated = len"
        )
        for source in USED:
            make_dear(nb)
            dumped.clear()
            nb.run(source)
            assert "big" in dumped, source


def test_names_that_the_notebook_gave_another_meaning_look_nothing_up(dumped: list[str]) -> None:
    with notebook_with_a_dear_value() as nb:
        nb.run("vars = ['a', 'b']\ndef eval(model):\n    return model")
        nb.run("def evaluate():\n    return eval(1), vars")
        dumped.clear()
        nb.run("evaluate(), eval(model), vars[0]")
        assert "big" not in dumped
        nb.run("del vars, eval")
        dumped.clear()
        nb.run("vars()['b' + 'ig'].append(1)")
        assert "big" in dumped


def test_a_function_looked_at_in_the_background_is_not_followed(
    dumped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "_LEAST_ROLLING_S", 1.0)  # however long the machine takes
    with notebook_with_a_dear_value() as nb:
        seen: set[str] = set()
        for number in range(5):
            dumped.clear()
            nb.run(f"# {number}")
            seen.update(dumped)
        assert "big" not in seen
        assert {"read", "find"} <= seen


@pytest.mark.parametrize("cell", ["other = 1", "del v3", "other = v3"])
def test_of_lists_that_no_code_names_those_that_something_else_holds_are_looked_at_first(cell: str) -> None:
    """Whatever other names do in the same cell: what one of them was bound to may be gone."""
    with Notebook() as nb:
        nb.run("for i in range(300):\n    globals()[f'v{i}'] = [i]\ndel i")
        held_by_a_library = nb.namespace["v250"]
        assert isinstance(held_by_a_library, list)
        held_by_a_library.append(1)
        assert "v250" in names_changed(nb.run(cell))


def test_a_function_that_looks_names_up_counts_where_it_can_be_reached(dumped: list[str]) -> None:
    with notebook_with_a_dear_value() as nb:
        assert names_changed(nb.run("find('b' + 'ig').append(1)")) == {"big"}
        make_dear(nb)
        dumped.clear()
        nb.run("other = 1")
        assert "big" not in dumped
        dumped.clear()
        nb.run("holder = {'f': find}")
        assert "big" in dumped  # it is new here, and may have been called


def test_comments_touch_nothing_and_texts_what_they_name() -> None:
    assert uses_of("# x").words == set()
    assert "x" not in uses_of("y = 1  # x").words
    assert "x" in uses_of("df.query('@x')  # y").words
    assert "x" in uses_of('df.query("a # @x")').words
    assert {"x", "y"} <= uses_of("f'{x} # {y}'").words
    assert "x" in uses_of("run(b'x')  #").words
    assert "df" in uses_of("sql('select * from ' 'df')  #").words
    assert "ℌ" not in uses_of("ℌ = 1").words  # noqa: RUF001  # Python reads it as H
    assert "x" in uses_of("this is ' no Python # x").words


def test_a_cell_that_is_run_again_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[object] = []
    compile_cell = dependencies._compile

    def counted(source: str) -> CodeType | None:
        compiled.append(source)
        return compile_cell(source)

    monkeypatch.setattr(dependencies, "_compile", counted)
    for _ in range(3):
        found = uses_of("model.eval()  # once")
        assert found.words == {"model", "eval"}
        found.words.add("mine")
    assert len(compiled) == 1
    for _ in range(2):
        uses_of(f"text = '{'a' * 30_000}'  # too long to be remembered")
    assert len(compiled) == 3


LOOKUPS = (
    "e = eval",
    "f(vars)",
    "f(vars, 1)",
    "vars()",
    "vars(*[])",
    "locals()['x']",
    "import builtins as b",
    "builtins.eval(c)",
    "ip = get_ipython()",
    "get_ipython().push({})",
    "sys.modules['__main__'].x",
    "import __main__",
    "def f():\n    return vars",
    "class A:\n    y = eval(c)",
    "lambda: [eval(c) for c in y]",
    "@exec\nclass A: pass",
    "f'{eval(c)}'",
    "await eval(c)",
    "cProfile.run('eval(c)')",
    "sys._getframe(1)",
    "breakpoint()",
    "import pdb; pdb.set_trace()",
    "x = {}\n%time eval(c)\n",
    "broken ( eval(c)",
)
NO_LOOKUPS = (
    "builtins.print(1)",
    "if '__main__' == __name__:\n    f()",
    "get_ipython().run_line_magic('matplotlib', 'inline')",
    "def f():\n    return vars(), locals()",
    "gc.collect(), torch.stack(x), df.stack()",
    "'__main__ and eval(1)'",
    "run('no vars')",
    "subprocess.run(['vars'])",
)


@pytest.mark.parametrize("source", LOOKUPS)
def test_a_use_of_a_builtin_that_looks_names_up_is_seen(source: str) -> None:
    assert uses_of(source).marks


@pytest.mark.parametrize("source", NO_LOOKUPS)
def test_a_mention_of_a_builtin_is_no_use(source: str) -> None:
    assert not uses_of(source).marks


def test_magics_count_for_what_they_do_with_their_text(tmp_path: Path) -> None:
    with ShellNotebook(tmp_path / "store") as nb:
        transform = nb.shell.input_transformer_manager.transform_cell
        for source in (
            "%run -i a.py",
            "%timeit -n1 eval(c)",
            "%%capture out\neval(c)",
            "%load_ext some",
            "y = !echo {eval(c)}",
            "!echo {vars()}",
            "get_ipython().run_line_magic('run', 'x')",
            "get_ipython().run_line_magic(name, 'x')",
            "%%time\n%rerun",
            "run -i a.py",
        ):
            assert uses_of(source, transform).marks, source
        for source in (
            "%matplotlib inline",
            "%%bash\neval $x; exec y",
            "%%writefile a.py\neval(c)",
            "%%html\n<b>vars</b>",
            "%%time\n# eval\nmodel.eval()",
            "%%capture out\n# eval(c)\nx = 1",
            "%timeit model.eval()",
            "!pip install eval",
            "model?",
            "%cd vars",
        ):
            assert not uses_of(source, transform).marks, source
        assert "x" in uses_of("%timeit -n1 x.append(1)", transform).words
        assert "x" in uses_of("!echo {x}", transform).words
        assert "x" not in uses_of("%%time\n# x\ny = 1", transform).words


# -- what lies in objects that cannot be saved

referents = surface._referents  # pyright: ignore[reportPrivateUsage]


def look(looks: count[int], value: object) -> list[object]:
    next(looks)
    return referents(value)


def test_no_more_than_some_thousand_objects_are_looked_at_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[int] = []
    for many in (5_000, 10_000, 20_000):
        waiting: queue.Queue[list[int]] = queue.Queue()
        for number in range(many):
            waiting.put([number])
        looks = count()
        with monkeypatch.context() as patched:
            patched.setattr(surface, "_referents", partial(look, looks))
            assert len(find_holdings(waiting, {}).ids) <= MOST_HOLDINGS
        counted.append(next(looks))
    assert counted[0] <= MOST_HOLDINGS
    assert counted[1:] == counted[:2]


def test_a_class_that_abstract_classes_were_asked_about_is_mourned_by_nobody_of_the_notebook() -> None:
    with Notebook() as nb:
        nb.run("import collections.abc as abc, weakref\nclass Model:\n    n = 0\nx = []")
        nb.run("asked = [isinstance(Model(), getattr(abc, name)) for name in abc.__all__]")
        assert find_death_callbacks(nb.namespace["Model"], nb.namespace) == []
        nb.run("watch = weakref.ref(Model, x.append)")
        assert find_death_callbacks(nb.namespace["Model"], nb.namespace) == [nb.look("x.append")]
        assert "x" in names_changed(nb.run("import gc\ndel Model\ngc.collect()\nn = len(x)"))


def test_the_shell_is_not_entered(tmp_path: Path) -> None:
    with ShellNotebook(tmp_path / "store") as nb:
        nb.run("class Holder:\n    pass\nholder = Holder()\nholder.ip = get_ipython()\nx = []")
        assert id(nb.namespace["x"]) not in find_holdings(nb.namespace["holder"], nb.namespace).ids


def test_what_a_connection_was_given_is_kept_through_later_changes_of_it() -> None:
    with Notebook() as nb:
        nb.run("import sqlite3\nx = []\nconn = sqlite3.connect(':memory:')")
        nb.run("conn.create_function('f', 1, lambda v: x.append(v))")
        nb.run("conn.executescript('create table t (a); insert into t values (1);').close()")
        nb.session.workspace.tracking.groups["x"].cost_s = 1e6
        assert "x" in names_changed(nb.run("conn.execute('select f(a) from t').fetchall()"))


def test_of_what_modules_hold_a_cell_that_touches_everything_compares_the_binding_only(dumped: list[str]) -> None:
    with Notebook() as nb:
        nb.run(
            "from math import *\nfrom os.path import *\nfrom string import *\nfrom shutil import *\nimport json.decoder\nfrom string import capwords as own\nn, t = 1, 'a'"
        )
        nb.run("x = []\ndef find(name):\n    return globals()[name]")
        dumped.clear()
        assert names_changed(nb.run("find('x').append(1)")) == {"x"}
        assert len(nb.namespace) > 120
        assert len(dumped) < 20
        # Where a library's name leads to something else now, what the notebook has is no longer that name.
        dumped.clear()
        nb.run("import string\nkept = string.capwords\nfind('string').capwords = len")
        assert "own" in dumped
        nb.run("string.capwords = kept\nfind('x').append(1)")
        assert names_changed(nb.run("globals()['si' + 'n'] = []")) == {"sin"}
        assert names_changed(nb.run("find('si' + 'n').append(1)")) == {"sin"}


def test_what_modules_hold_is_not_dumped_by_a_cell_that_names_it(dumped: list[str]) -> None:
    with Notebook() as nb:
        nb.run(
            "import math, string\nfrom math import sin\nfrom collections import OrderedDict\nfrom string import capwords"
        )
        nb.run("from collections.abc import Mapping\nissubclass(OrderedDict, Mapping)\nmade = OrderedDict(a=1)")
        dumped.clear()
        nb.run("math.pi, string, sin(1), OrderedDict, Mapping, capwords('a')")
        assert set(dumped) <= {"made"}  # looked at in the background
        # With a function of the notebook's in its place it is content of the notebook.
        nb.run("kept = string.capwords\nstring.capwords = lambda s: s")
        assert "capwords" in dumped
        nb.run("string.capwords = kept\ncapwords('b')")
        assert names_changed(nb.run("sin = []")) == {"sin"}
        assert names_changed(nb.run("sin.append(1)")) == {"sin"}


def test_what_dies_and_calls_the_notebook_is_still_followed_where_a_library_is_asked_of_it() -> None:
    with Notebook() as nb:
        nb.run("import weakref\nfrom collections.abc import Sized\nlog = []\nclass Kept:\n    pass\nkept = Kept()")
        nb.run(
            "isinstance(kept, Sized)\nwatch = weakref.ref(kept, lambda _: log.append(1))\nfin = weakref.finalize(kept, log.append, 2)"
        )
        assert "log" in names_changed(nb.run("del kept"))


def test_what_nobody_mourns_is_looked_into_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    mourned: list[object] = []

    def noted(value: object, namespace: dict[str, object]) -> Holdings:
        mourned.append(value)
        return find_holdings(value, namespace)

    monkeypatch.setattr(groups, "find_holdings", noted)
    with Notebook() as nb:
        nb.run(
            "import weakref\nclass Base:\n    pass\nclass Kept(Base):\n    pass\nkept = Kept()\nwatch = weakref.ref(kept)"
        )
        nb.run("kept, Base, Kept")
        assert mourned == []
        nb.run("log = []\nfin = weakref.finalize(kept, log.append, 2)")
        assert "log" in names_changed(nb.run("watch = None\ndel kept"))
        assert mourned != []


# What a connection was given, by which it would notice a statement of ours.
HEARING = """
import sqlite3, threading
heard = []
class Db:
    pass
def fill(conn):
    conn.execute('create table t (a text)')
    conn.execute("insert into t values ('1')")
    conn.commit()
    return conn
def connected(where=':memory:', **options):
    return fill(sqlite3.connect(where, **options))
traced, watched, guarded, shaped, texted, attached = [connected() for _ in range(6)]
traced.set_trace_callback(heard.append)
watched.set_progress_handler(lambda: heard.append('progress'), 1)
guarded.set_authorizer(lambda *a: heard.append(a) or sqlite3.SQLITE_DENY)
shaped.row_factory = lambda cursor, row: heard.append(row)
texted.text_factory = lambda raw: heard.append(raw)
attached.execute("attach ':memory:' as other")
both = Db()
both.conn = connected()
both.conn.set_trace_callback(lambda text: heard.append(text))
levels = [connected(isolation_level=level) for level in (None, 'DEFERRED', 'IMMEDIATE', 'EXCLUSIVE')]
in_file = connected('file.db')
opened = connected()
opened.execute("insert into t values ('2')")
closed = connected()
closed.close()
elsewhere = []
thread = threading.Thread(target=lambda: elsewhere.append(connected()))
thread.start()
thread.join()
del thread
heard.clear()
"""


def test_a_connection_notices_nothing_of_being_saved(desk: Path) -> None:
    names = "traced watched guarded shaped texted attached both levels in_file opened closed elsewhere"
    with Notebook() as nb:
        report = nb.run(HEARING)
        for _ in range(2):
            nb.run(f"({names.replace(' ', ', ')})")
            nb.session.commit(full=True)
        assert nb.look("heard") == []
        assert nb.look("opened.in_transaction and opened.execute('select count(*) from t').fetchone() == (2,)")
        lost = {told.name for told in report.unsaved}
        assert lost == {"traced", "watched", "guarded", "attached", "both", "in_file", "opened", "closed", "elsewhere"}
        reason = next(told.reason for told in report.unsaved if told.name == "closed")
        assert reason == "a database connection that is closed cannot be saved"
        assert names_changed(nb.run("traced.execute('select 1').close()")) >= {"heard"}
        nb.run("traced.set_trace_callback(None); heard.clear()")
        nb.run("watched.set_progress_handler(None, 1); guarded.set_authorizer(None)\nopened.rollback()")
        nb.run("levels.append(1); shaped.execute('delete from t'); shaped.commit(); heard.clear()")
        nb.session.undo()
        assert nb.look("len(heard), [conn.isolation_level for conn in levels]") == (
            0,
            [None, "DEFERRED", "IMMEDIATE", "EXCLUSIVE"],
        )
        assert nb.look("shaped.cursor().execute('select count(*) from t').fetchall()") == [None]
        assert nb.look("heard") == [(1,)]


if sys.version_info >= (3, 12):

    def test_a_connection_keeps_how_it_commits() -> None:
        with Notebook() as nb:
            nb.run(
                "import sqlite3\nconn = sqlite3.connect(':memory:', autocommit=True)\nconn.execute('create table t (a)')"
            )
            nb.run("del conn")
            nb.session.undo()
            assert nb.look("conn.autocommit") is True

    @pytest.mark.parametrize("closed", [True, False])
    def test_a_session_that_ends_gives_back_its_tool_number_and_its_values(closed: bool) -> None:
        def numbers_in_use() -> list[int]:
            return [number for number in range(6) if sys.monitoring.get_tool(number) == "agent_kernel"]

        gc.collect()
        before, nb = numbers_in_use(), Notebook().__enter__()
        nb.run("class Kept: pass\nkept = Kept()")
        assert len(numbers_in_use()) == len(before) + 1
        monitor = weakref.ref(nb.session.workspace.monitor)
        if closed:
            nb.__exit__(None, None, None)
            assert numbers_in_use() == before
        del nb
        gc.collect()
        assert numbers_in_use() == before
        assert monitor() is None

    def test_what_other_tools_switched_off_stays_off() -> None:
        monitoring, seen = sys.monitoring, list[str]()

        def note(code: object, _: int) -> object:
            seen.append(getattr(code, "co_name", ""))
            return monitoring.DISABLE

        with Notebook() as nb:
            nb.run("x = []\ndef f():\n    x.append(1)")
            nb.run("calls = [f]")
            monitoring.use_tool_id(1, "another tool")
            try:
                monitoring.register_callback(1, monitoring.events.PY_START, note)
                monitoring.set_events(1, monitoring.events.PY_START)
                for _ in range(3):
                    nb.run("f()\nf()")
                assert seen.count("f") == 1
                assert "x" in nb.session.workspace.monitor.names
            finally:
                monitoring.set_events(1, 0)
                monitoring.free_tool_id(1)


@pytest.mark.parametrize(
    ("make", "log"),
    [
        ("L = logging.getLogger('ak.log'); L.addHandler(logging.StreamHandler(x))", "L.warning('y')"),
        ("L = logging.getLogger('ak.log'); h = logging.StreamHandler(x); L.addHandler(h)", "L.warning('y')"),
        (
            "logging.getLogger('ak.log').addHandler(logging.StreamHandler(x))",
            "logging.getLogger('ak.log').warning('y')",
        ),
        ("logging.getLogger('ak.log').addHandler(logging.StreamHandler(x)); w = json.JSONDecoder", "print('z'); log()"),
    ],
)
def test_what_a_record_is_written_to_is_found_in_the_cell_that_logs(make: str, log: str) -> None:
    import logging

    try:
        with Notebook() as nb:
            nb.run("import io, json, logging\ndef log(): logging.getLogger('ak.log').warning('y')\nx = io.StringIO()")
            nb.run(make)
            assert names_changed(nb.run(log)) == {"x"}
            assert names_changed(nb.run("other = 1")) == {"other"}
    finally:
        logging.getLogger("ak.log").handlers.clear()
