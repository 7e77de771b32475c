"""Code keeps its identity when its cell runs again, and its meaning when another Python loads it."""

from __future__ import annotations

import inspect
import linecache
import marshal
from itertools import count
from types import CodeType, FunctionType
from typing import Any

import msgspec
import pytest

from agent_kernel.values.definitions import PYTHON, Definition, NoSourceError, define, load_code, names_used

_cells = count(1)


def run(source: str, *, keep_text: bool = True) -> dict[str, Any]:
    """Run a cell under a new number; `keep_text` is what IPython does for `inspect`."""
    filename = f"<definitions cell {next(_cells)}>"
    if keep_text:
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, filename, "exec"), namespace)
    return namespace


def payload_of(function: Any) -> bytes:
    return define(function.__code__)[1]


def made_by_another_python(payload: bytes, **changes: Any) -> bytes:
    """The same definition as a Python would have written it whose bytecode means nothing here."""
    definition = msgspec.msgpack.decode(payload, type=Definition)
    foreign: dict[str, Any] = {"python": (3, PYTHON[1] + 1), "code": b"bytecode that would crash", **changes}
    return msgspec.msgpack.encode(msgspec.structs.replace(definition, **foreign))


def call(code: CodeType, *arguments: object) -> object:
    return FunctionType(code, {"__builtins__": __builtins__})(*arguments)


SQUARE = '''
def square(number):
    """Twice itself, in a way."""
    return number * number
'''


def test_the_same_text_gives_the_same_id_whatever_the_cell_number() -> None:
    assert define(run(SQUARE)["square"].__code__) == define(run(SQUARE)["square"].__code__)


def test_lines_before_a_function_do_not_change_its_id() -> None:
    moved = run("import math\n\nunrelated = math.pi\n" + SQUARE)["square"]
    assert define(moved.__code__) == define(run(SQUARE)["square"].__code__)


def test_another_text_gives_another_id() -> None:
    other = SQUARE.replace("number * number", "number ** 2")
    assert define(run(other)["square"].__code__)[0] != define(run(SQUARE)["square"].__code__)[0]


def test_code_that_came_back_has_the_id_that_it_was_stored_under() -> None:
    definition, payload = define(run(SQUARE)["square"].__code__)
    assert define(load_code(payload)) == (definition, payload)


def test_the_python_that_made_the_bytecode_runs_it_without_the_source() -> None:
    payload = payload_of(run(SQUARE, keep_text=False)["square"])
    assert msgspec.msgpack.decode(payload, type=Definition).source == ""
    assert call(load_code(payload), 7) == 49


def test_another_python_compiles_the_source_and_never_reads_the_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = made_by_another_python(payload_of(run(SQUARE)["square"]))

    def refuse(_: bytes) -> None:
        raise AssertionError("bytecode of another Python was read")

    monkeypatch.setattr(marshal, "loads", refuse)
    assert call(load_code(payload), 7) == 49


def test_another_python_tells_the_lambdas_of_one_line_apart() -> None:
    made = run("pair = (lambda: 'left', lambda: 'right')\n")["pair"]
    payloads = [payload_of(function) for function in made]
    assert payloads[0] != payloads[1]
    assert [call(load_code(made_by_another_python(payload))) for payload in payloads] == ["left", "right"]


def test_another_python_tells_functions_of_one_name_apart_by_their_line() -> None:
    source = "if True:\n    def f():\n        return 'first'\n    first = f\n    def f():\n        return 'second'\n"
    namespace = run(source)
    payloads = [made_by_another_python(payload_of(namespace[name])) for name in ("first", "f")]
    assert [call(load_code(payload)) for payload in payloads] == ["first", "second"]


CLOSURE = """
def counter(start):
    def count(by=1):
        nonlocal start
        start += by
        return start
    return count
"""


@pytest.mark.parametrize("foreign", [False, True], ids=["the same Python", "another Python"])
def test_a_nested_function_comes_back_with_its_closure(foreign: bool) -> None:
    count_up = run(CLOSURE)["counter"](10)
    payload = payload_of(count_up)
    code = load_code(made_by_another_python(payload) if foreign else payload)
    again = FunctionType(code, {}, "count", count_up.__defaults__, count_up.__closure__)
    assert (code.co_qualname, code.co_freevars) == ("counter.<locals>.count", ("start",))
    assert (again(), again(5), count_up()) == (11, 16, 17)


def test_a_method_is_found_by_its_qualified_name() -> None:
    made = run(
        "class One:\n    def name(self):\n        return 1\n\nclass Two:\n    def name(self):\n        return 2\n"
    )
    payload = made_by_another_python(payload_of(made["Two"].name))
    assert call(load_code(payload), None) == 2


def test_without_the_source_another_python_says_so() -> None:
    payload = made_by_another_python(payload_of(run(SQUARE, keep_text=False)["square"]))
    with pytest.raises(NoSourceError, match=r"square was compiled by Python .* and its source is not known"):
        load_code(payload)


@pytest.mark.parametrize(
    ("source", "said"),
    [("def square(number) return", "was written for Python"), ("def cube(number): ...", "is not in the source")],
)
def test_a_source_that_does_not_hold_the_code_is_refused(source: str, said: str) -> None:
    payload = made_by_another_python(payload_of(run(SQUARE)["square"]), source=source)
    with pytest.raises(NoSourceError, match=said):
        load_code(payload)


@pytest.mark.parametrize("foreign", [False, True], ids=["the same Python", "another Python"])
def test_inspect_shows_the_source_of_a_restored_function(foreign: bool) -> None:
    source = "# a comment that stands before\n" + SQUARE
    payload = payload_of(run(source)["square"])
    code = load_code(made_by_another_python(payload) if foreign else payload)
    assert inspect.getsource(code) == SQUARE.lstrip("\n")


def test_a_decorated_function_keeps_its_decorators_in_the_source() -> None:
    source = "def plain(function):\n    return function\n\n@plain\n@plain\ndef shown():\n    return 1\n"
    code = load_code(payload_of(run(source)["shown"]))
    assert inspect.getsource(code).startswith("@plain\n@plain\ndef shown")


def test_names_are_those_of_the_code_and_of_all_that_is_nested_in_it() -> None:
    function = run("def outer():\n    seen = table\n    def inner():\n        return [row.price for row in rows]\n")[
        "outer"
    ]
    assert names_used(function.__code__) >= {"table", "rows", "price"}
