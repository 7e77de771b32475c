"""What went wrong where others built a durable namespace for an agent's REPL by hand, report by report."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_kernel.agents.namespace import Namespace

Reopen = Callable[[], Namespace]


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Reopen]:
    """Open the same store again, as a new process does."""
    opened: list[Namespace] = []

    def again() -> Namespace:
        if opened:
            opened.pop().close()
        opened.append(Namespace(tmp_path / "state"))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


def test_restored_functions_read_the_globals_of_now(reopen: Reopen) -> None:
    """PrimeIntellect-ai/prime-agent#2471: restored functions ran on globals frozen when they were saved.

    There also through defaults, closures and partials.
    """
    ns = reopen()
    ns.run(
        "rate = 1\ndef f(): return rate\ndef outer():\n    def inner(): return rate\n    return inner\nclosure = outer()"
    )
    ns.run("import functools\npart = functools.partial(f)\ndef by_default(g=f, *, h=f): return g(), h()")
    ns.run("class Uses:\n    def get(self): return rate\nuses = Uses()")
    ns = reopen()
    ns.run("rate = 2")
    assert ns.run("f(), closure(), part(), by_default(), uses.get()").result == "(2, 2, 2, (2, 2), 2)"
    ns.undo()
    assert ns.run("f(), closure()").result == "(1, 1)"


def test_a_function_finds_a_helper_that_was_defined_later(reopen: Reopen) -> None:
    """SynaLinks/synalinks#92: `helper` of a later run stayed a NameError forever."""
    reopen().run("def f(x): return helper(x)")
    reopen().run("def helper(x): return x * 2")
    assert reopen().run("f(4)").result == "8"


def test_a_hundred_and_twenty_functions_take_well_under_a_second(reopen: Reopen) -> None:
    """SynaLinks/synalinks#101: 120 functions took 3.8 s, a few hundred ended in RecursionError and an empty namespace."""
    ns = reopen()
    code = "\n".join(f"def f{at}(x):\n    return f{max(0, at - 1)}(x - 1) + scale if x else 0" for at in range(300))
    began = time.perf_counter()
    ns.run("scale = 2\n" + code[: code.index("def f120")])
    assert time.perf_counter() - began < 1.5
    ns.run(code)
    ns = reopen()
    assert ns.run("f299(200)").result == "400"


def test_a_generator_loses_itself_and_no_function(reopen: Reopen) -> None:
    """SynaLinks/synalinks#101: one generator in the namespace lost every function."""
    ran = reopen().run("gen = (i for i in range(3))\ndef survivor(x):\n    return x * 3\ndef uses(): return list(gen)")
    assert set(ran.unsaved) == {"gen"}
    ns = reopen()
    assert ns.run("survivor(5)").result == "15"
    assert "'gen' was a generator" in (ns.run("uses()").error or "")
    ns.run("gen = iter([7])")
    assert ns.run("uses()").result == "[7]"


def test_functions_lambdas_closures_classes_and_instances_come_back(reopen: Reopen) -> None:
    """eryx-org/eryx#72: what `exec` defines was lost by pickle, and by dill's globals."""
    code = """
class Base:
    made = []
    def __init__(self, v): self.v = v; Base.made.append(self)
class Child(Base):
    def twice(self): return super().__init__(self.v) or self.v * 2
    @classmethod
    def count(cls): return len(cls.made)
child = Child(4)
def counter():
    n = 0
    def step():
        nonlocal n
        n += 1
        return n
    return step
step = counter(); step()
fact = lambda n: 1 if n < 2 else n * fact(n - 1)
"""
    reopen().run(code)
    ns = reopen()
    assert (
        ns.run("child.twice(), Child.count(), step(), fact(5), type(child) is Child").result == "(8, 2, 2, 120, True)"
    )
    ns.run("class Child(Base):\n    def twice(self): return 'new'")
    assert ns.run("child.twice(), Child(1).twice(), isinstance(child, Child)").result == "(8, 'new', False)"


def test_a_new_process_tells_the_model_what_came_back_and_what_did_not(reopen: Reopen) -> None:
    """PrimeIntellect-ai/prime-agent#181: a resumed session began empty, and the model took its variables to be there."""
    reopen().run("rows = [1, 2]\nimport json\ngen = (i for i in rows)")
    told = reopen().came_back.splitlines()
    assert told[0].startswith("This is a new process. Of branch main at ")
    assert told[0].endswith("2 variables came back: json, rows.")
    assert told[1].endswith("rows = [1, 2] (ok).")
    assert told[2].startswith("Not back: gen (generator): a generator cannot be saved; run the code of ")
    assert len(told) == 4
    assert "Files are as they are now" in told[3]  # PrimeIntellect-ai/nano-rlm#62: models redid what lay on the disk


def test_a_store_that_is_not_there_yet_is_a_clean_start_that_says_so(reopen: Reopen) -> None:
    """PrimeIntellect-ai/prime-agent#1685: a missing snapshot and an empty one looked the same."""
    assert reopen().came_back == "Nothing was stored here before: there are no variables yet."
    reopen().run("pass")
    assert "no variable came back" in reopen().came_back


def test_state_is_there_for_the_next_turn_without_any_setting(reopen: Reopen) -> None:
    """mindsdb/anton#283: a snapshot that could not be written was no error, and each turn began anew."""
    for turn in range(4):
        reopen().run(f"turns = [*globals().get('turns', []), {turn}]")
    assert reopen()["turns"] == [0, 1, 2, 3]
    with pytest.raises(Exception, match="null"):
        Namespace("/dev/null/state")


def test_a_session_that_was_shut_down_goes_on_with_its_history(reopen: Reopen) -> None:
    """microsoft/TaskWeaver#93: the way back was to run all code of a session again."""
    reopen().run("runs = [1]")
    reopen().run("runs.append(2)")
    ns = reopen()
    assert [commit.cell.source for _, commit in ns.history() if commit.cell] == ["runs.append(2)", "runs = [1]"]
    ns.rollback("HEAD~1")
    assert ns["runs"] == [1]


def test_opening_runs_no_code_again(reopen: Reopen, tmp_path: Path) -> None:
    """jataware/beaker-notebook#216, #217 and PrimeIntellect-ai/nano-rlm#182: replaying code repeats what it did outside."""
    log = tmp_path / "log"
    reopen().run(
        f"from pathlib import Path\nlog = Path({str(log)!r})\nwith log.open('a') as file: file.write('paid\\n')\nn = 1"
    )
    reopen()
    assert reopen()["n"] == 1
    assert log.read_text() == "paid\n"


def test_what_is_said_fits_who_has_neither_commands_nor_cells(tmp_path: Path) -> None:
    first = Namespace(tmp_path / "state")
    ran = first.run("gen = (i for i in ())\nkept = [gen]")
    assert ran.unsaved["gen"].remedy == "run the code of run 1 again to have it back"
    with Namespace(tmp_path / "state") as second:
        first.run("y = 1")
        first.close()
        second.run("x = 1")
    with Namespace(tmp_path / "state") as again:
        assert (
            "branch main has gone on beside this one: open the store on branch main to go on there" in again.came_back
        )
        again.run("next(gen)")
        said = [again.came_back, again.run("next(gen)").error or ""]
        assert "could not be saved" in said[1]
        assert not [text for text in said if "%agent" in text or "cell" in text], said


def test_a_change_of_records_is_not_called_a_run(reopen: Reopen) -> None:
    ns = reopen()
    ns.run("x = 1")
    ns.repo.state("a").set("k", 1)
    assert "The last commit there (moments ago): state of a: set k" in reopen().came_back


def test_thousands_of_names_are_told_in_a_few_lines(reopen: Reopen) -> None:
    reopen().run("for at in range(400): globals()[f'name_{at}'] = (i for i in ()) if at % 2 else at")
    told = reopen().came_back
    assert len(told) < 4_000
    assert len(told.splitlines()) < 16
    assert "201 variables came back" in told


def test_a_value_that_cannot_be_loaded_is_told_and_kept(reopen: Reopen, tmp_path: Path) -> None:
    library = tmp_path / "gone_library.py"
    library.write_text("class Thing:\n    def __init__(self): self.v = 1\n")
    reopen().run(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport gone_library\nthing = gone_library.Thing()\nx = 1"
    )
    sys.path.remove(str(tmp_path))
    del sys.modules["gone_library"]
    ns = reopen()
    assert "Not back: " in ns.came_back
    assert "No module named 'gone_library'" in ns.came_back
    ran = ns.run("x + 1")
    assert (ran.result, ran.unsaved) == ("2", {})
    error = ns.run("thing.v").error or ""
    assert "could not be loaded" in error
    for said in (ns.came_back, error):
        assert "when the cause is gone, checkout loads it; " in said
        assert "checkout loads it; run 1 of " in said
        assert "%agent" not in said
    ns.run(f"sys.path.insert(0, {str(tmp_path)!r})")
    ns.checkout()
    assert ns.run("thing.v").result == "1"
    sys.path.remove(str(tmp_path))


SECOND = """
import sys
from agent_kernel.agents.namespace import Namespace
with Namespace(sys.argv[1]) as ns:
    print(ns.came_back)
    print(ns.run("import inspect; print(inspect.getsource(area)); print(inspect.getsource(Shape.size))").output)
    print(ns.run("area(None)").error)
    print(ns.run("scale = 10; area(2)").result, ns.run("shape.size()").result)
"""


def test_another_process_has_the_source_and_the_lines_of_errors(tmp_path: Path) -> None:
    with Namespace(tmp_path / "state") as ns:
        ns.run("scale = 1\ndef area(side):\n    return side * side * scale  # of a square")
        ns.run("class Shape:\n    def size(self): return area(3)\nshape = Shape()")
    done = subprocess.run(
        [sys.executable, "-c", SECOND, str(tmp_path / "state")], capture_output=True, text=True, check=True
    )
    assert "4 variables came back: Shape, area, scale, shape." in done.stdout
    assert "def area(side):\n    return side * side * scale  # of a square" in done.stdout
    assert "    def size(self): return area(3)" in done.stdout
    assert "    return side * side * scale  # of a square\n" in done.stdout.partition("Traceback")[2]
    assert done.stdout.endswith("40 90\n")
