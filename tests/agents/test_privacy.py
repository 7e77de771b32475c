"""What leaves the machine: no hidden name, no value of one, nothing that goes under the name of a secret, no environment."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent_kernel.agents import Agent, FunctionModel, Limits, Turn
from agent_kernel.agents.event_log import EventStore
from agent_kernel.agents.events import Output, TaskStart
from agent_kernel.agents.messages import cut, describe, tokens_of
from agent_kernel.agents.models import Request
from agent_kernel.repository import read_outputs
from agent_kernel.session import Repository, Session
from agent_kernel.session.tracking import HideList
from agent_kernel.session.versioned import Versioned
from agent_kernel.storage import MemoryStore
from agent_kernel.values import previews

CANARY = "zebra-4711-quagga"


def sent(namespace: dict[str, object], *code: str, hide: tuple[str, ...] = (), **more: Any) -> tuple[str, str]:
    """All that a model was sent while it ran this code, but for the code itself; and all events, as text."""
    session = more.pop("state", None) or Session(namespace, Repository.open(MemoryStore()))
    for name in hide:
        HideList(session.repo).add(name)
    requests: list[Request] = []

    def answer(request: Request) -> Turn:
        requests.append(request)
        return Turn(code[request.turn] if request.turn < len(code) else "task.success(1)")

    run = Agent("ada", model=FunctionModel(answer), state=session, **more).start("look at it")
    list(run.stream())
    told = [message.text for request in requests for message in request.messages]
    told += [request.instructions for request in requests]
    events = "\n".join(repr(event) for event in run.events if event.kind not in ("Action", "ApprovalRequested"))
    return "\n".join(told), events


def test_a_hide_list_survives_the_session_and_knows_patterns(tmp_path: Path) -> None:
    with Versioned(tmp_path / "store") as state:
        hidden = HideList(state.repo)
        hidden.add("salaries")
        hidden.add("tmp_*")
        hidden.add("once")
        hidden.remove("once")
        hidden.remove("never there")
    with Versioned(tmp_path / "store") as state:
        hidden = HideList(state.repo)
        assert list(hidden) == ["salaries", "tmp_*"]
        assert "salaries" in hidden
        assert "tmp_1" in hidden
        assert "once" not in hidden
        assert "salaries" not in state.session.ignoring


def test_a_hidden_name_and_its_value_are_in_no_prompt() -> None:
    told, events = sent(
        {"plan": CANARY, "number": 918273, "shown": "fine"},
        "print(plan, number, f'{number:,}')",
        "plan = plan + ' again'",
        "raise ValueError(plan)",
        "task.clarify(f'is it {plan}?')",
        hide=("plan", "number"),
    )
    for text in (told, events):
        assert CANARY not in text
        assert "918273" not in text
        assert "918,273" not in text
    assert "plan" not in told.replace("look at it", "")
    assert "shown: str 'fine'" in told


def test_who_hides_a_name_while_a_run_goes_on_is_heard() -> None:
    session = Session({"plan": CANARY}, Repository.open(MemoryStore()))
    requests: list[Request] = []

    def answer(request: Request) -> str:
        requests.append(request)
        HideList(session.repo).add("late")
        return ["late = 'okapi-' + '31337'", "print(late)", "task.success(1)"][request.turn]

    Agent("ada", model=FunctionModel(answer), state=session)("go")
    assert "okapi-31337" not in requests[-1].text.replace("'okapi-' + '31337'", "")


PLACES: dict[str, tuple[str, str]] = {
    "a variable": ("password = {0!r}", "print(password)"),
    "an entry": ("config = {{'host': 'h', 'db_password': {0!r}}}", "print(config['db_password'])"),
    "a deep entry": ("config = {{'a': [{{'api_key': {0!r}}}]}}", "print(config['a'][0]['api_key'])"),
    "a record": ("rows = [{{'name': 'password', 'value': {0!r}}}]", "print(rows[0]['value'])"),
    "a pair": ("pairs = [('secret', {0!r})]", "print(pairs[0][1])"),
    "an attribute": ("class C: pass\nc = C()\nc.access_token = {0!r}", "print(c.access_token)"),
    "a column": ("import pandas\nframe = pandas.DataFrame({{'user': ['a'], 'password': [{0!r}]}})", "print(frame)"),
    "a cell": ("import pandas\nframe = pandas.DataFrame({{'password': [{0!r}]}})", "frame.password[0]"),
    "an error": ("token = {0!r}", "raise RuntimeError('no access with ' + token)"),
    "a cut text": ("secret = {0!r} * 30", "print(secret[:40] + '…')"),
    "a result": ("secret = {0!r}", "task.success(secret)"),
    "a failure": ("secret = {0!r}", "task.fail('not ' + secret)"),
    "bytes": ("secret = {0!r}.encode()", "secret"),
    "lines": ("private_key = 'BEGIN\\n' + {0!r} + '\\nEND'", "print(private_key)"),
    "a new variable": ("x = 1", "my_password = ''.join(list({0!r}))"),
    "a copy": ("secret = {0!r}", "other = [secret]"),
}


@pytest.mark.sampled
@pytest.mark.parametrize("place", PLACES)
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(canary=st.from_regex(r"[a-z]{5}[!$%/ ]?[0-9]{4}[a-zäö]{3}", fullmatch=True))
def test_a_secret_by_its_name_leaves_from_nowhere(place: str, canary: str) -> None:
    setup, show = (text.format(canary) for text in PLACES[place])
    namespace: dict[str, object] = {}
    exec(setup, namespace)
    namespace.pop("__builtins__")
    told, events = sent(namespace, show)
    assert canary not in told
    assert canary not in events


@pytest.mark.parametrize("secret", ["ghp_" + "a1" * 18, "sk-" + "abcdef123456" * 2, "postgres://me:hunter22@db/x"])
def test_what_looks_like_a_secret_leaves_from_nowhere(secret: str) -> None:
    told, events = sent({"plain": secret}, "print(plain)", "raise ValueError(plain)", "task.success(plain)")
    for part in ("ghp_a1", "sk-abc", "hunter22"):
        assert part not in told
        assert part not in events


def test_no_environment_is_stored_or_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_KEY", CANARY)
    monkeypatch.setenv("ACME_REGION", "walrus-region-1")
    code = (
        "import os\nprint(os.environ['ACME_API_KEY'])",
        "print(os.environ)",
        "os.environ",
        "print(dict(os.environ))",
        "list(os.environ.items())",
        "print('; '.join(f'{name}={value}' for name, value in os.environ.items()))",
        "print(f\"{'ACME_REGION':40}{os.environ['ACME_REGION']}\")",
        "raise OSError(dict(os.environ))",
    )
    session = Session({}, Repository.open(MemoryStore()))
    told, events = sent({}, *code, state=session)
    outputs = [
        repr(read_outputs(session.repo.objects, commit.cell.outputs))
        for _, commit in session.repo.log(session.head or ())
        if commit.cell is not None and commit.cell.outputs is not None
    ]
    assert len(outputs) == len(code)
    for text in (told, events, *outputs):
        assert "ACME" in text or "environ(" in text or previews.MASK in text
        assert CANARY not in text
        assert "walrus-region-1" not in text
    assert os.environ["ACME_API_KEY"] == CANARY


def test_a_value_of_the_environment_that_is_no_secret_is_masked_beside_its_name_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACME_REGION", "north")
    told, _ = sent({}, "print('the wind is in the north', {'ACME_REGION': 'north'})")
    assert f"the wind is in the north {{'ACME_REGION': '{previews.MASK}'}}" in told


def test_places_and_addresses_stay_legible_beside_secrets_that_begin_alike(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PWD", str(tmp_path))
    monkeypatch.setenv("DATABASE_URL", f"postgresql://ada:{CANARY}@db.example/all")
    shown = f"{tmp_path / 'prices.csv'} went to postgresql://localhost/prices"
    told, _ = sent({}, f"print({shown!r}, 'and', 'postgresql://ada:{CANARY}@db.example/all'[:36])")
    assert f"{shown} and " in told
    assert CANARY[:8] not in told


@pytest.mark.parametrize(
    ("policy", "line"), [("names", "  rows"), ("schema", "  rows: list of 3 int"), ("values", "[7001, ")]
)
def test_a_policy_says_how_much_of_the_variables_is_told_unasked(policy: str, line: str) -> None:
    told, _ = sent({"rows": [7001, 7002, 7003], "word": "aardvark", "n": 5551}, "n = n + 1", context=policy)
    assert line in told
    assert ("7001" in told) == (policy == "values")
    assert ("aardvark" in told) == (policy == "values")
    assert ("5552" in told) == (policy == "values")
    assert "  ~ n" in told


def test_a_run_that_goes_on_elsewhere_keeps_its_policy() -> None:
    from agent_kernel.agents.agent import reopen_run
    from agent_kernel.agents.execution import ExecutionContext

    session = Session({"n": 5551}, Repository.open(MemoryStore()))
    model = FunctionModel(lambda request: ["n += 1", "n += 1", "task.success(1)"][request.turn])
    run = Agent("ada", model=model, state=session, context="names").start("go")
    for event in run:
        if isinstance(event, Output):
            break
    again = reopen_run(ExecutionContext(session.namespace, session), run.id, model=model)
    list(again.stream())
    assert "5553" not in "".join(event.sent for event in again.events if isinstance(event, Output))


@settings(max_examples=40, deadline=None)
@given(
    names=st.lists(st.from_regex(r"[a-z]{1,30}", fullmatch=True), min_size=1, max_size=60, unique=True),
    tokens=st.integers(20, 400),
    length=st.integers(0, 200),
)
def test_the_description_of_a_namespace_keeps_within_its_budget(names: list[str], tokens: int, length: int) -> None:
    said = describe(names, lambda _: "v" * length, room=tokens * 4)
    assert tokens_of(said) <= tokens
    shown = sum(name in said for name in names)
    assert shown == len(names) or "more" in said or shown


def test_the_first_message_keeps_within_the_budget_of_tokens() -> None:
    session = Session({f"name_{n}": list(range(n)) for n in range(300)}, Repository.open(MemoryStore()))
    for tokens in (50, 300, 2_000):
        agent = Agent("ada", model=FunctionModel(lambda _: "1"), state=session, context_tokens=tokens)
        start = agent.start("say what name_7 is", inputs={"limit": 3}).events[0]
        assert isinstance(start, TaskStart)
        assert tokens_of(start.prompt) <= tokens
        assert "name_7" in start.prompt


@pytest.mark.parametrize("most", [10, 100, 5_000])
def test_what_is_sent_of_a_step_keeps_within_its_characters(most: int) -> None:
    session = Session({}, Repository.open(MemoryStore()))
    code = "for n in range(60): globals()[f'a{n}'] = 'x' * 50\nprint('y' * 20_000)"
    run = Agent(
        "ada", model=FunctionModel(lambda r: [code, "1/0", "task.success(1)"][r.turn]), state=session,
        limits=Limits(output_chars=most),
    ).start("go")  # fmt: skip
    run.result()
    outputs = [event for event in run.events if isinstance(event, Output)]
    assert all(len(output.sent) <= most for output in outputs)
    assert list(EventStore(session.repo.store).of(run.id))[3] == outputs[0]


def test_cutting_keeps_both_ends() -> None:
    assert cut("short", 10) == "short"
    said = cut("a" * 1_000 + "b" * 1_000, 300)
    assert said.startswith("aaa")
    assert said.endswith("bbb")
    assert "1,744 characters left out" in said
    assert len(said) <= 300


def test_hidden_numbers_are_masked_however_they_are_written() -> None:
    prices = [1000.5, 3000.0, 1234567, 0.0425, -42.125, 2.5e-7]
    told, events = sent(
        {"prices": prices, "other": [77.25, 1001]},
        "for price in prices:\n    print(price, f'{price:.2f}', f'{price:,.1f}', f'{price:.4f}', round(price, 3))",
        "import pandas as pd\nprint(pd.DataFrame({'price': prices}))",
        "print(other, '1000 1001 12345678 v1000.5')",
        hide=("prices",),
    )
    for text in (told, events):
        for part in ("1000.5", "1,000.5", "3000.0", "3,000.0", "1234567.0", "1,234,567", "0.0425", "0.04250", "42.12"):
            assert part not in text.replace("v1000.5", ""), part
        assert "77.25" in text
        assert "12345678 v1000.5" in text


@pytest.mark.parametrize(
    "step",
    [
        "print(f'EUR{held}')",
        "print(f'{held}EUR', f'{held:.2f}kg', f'{held:,.2f}kg')",
        "print(f'a_{held}_b')",
        "print(f'id{number}', f'file_{number}.csv', f'u{number}@x', f'{number}th', f'x.{number}')",
        "import pandas as pd\nprint(pd.DataFrame({f'c{number}': [1]}))",
        "raise KeyError(f'id_{number}')",
        "globals()[f'v{number}'] = 1",
        "class K: pass\nk = K()\nsetattr(k, f'a{number}', 1)\nprint(vars(k))",
        "print(f'{wage}EUR', f'{number}e')",
    ],
)
def test_a_hidden_number_is_masked_within_a_word(step: str) -> None:
    held = {"held": 48213.77, "number": 918273, "wage": 48213}
    told, events = sent(dict(held), step, hide=tuple(held))
    for text in (told, events):
        assert "48213" not in text
        assert "48,213" not in text
        assert "918273" not in text
        assert previews.MASK in text or "globals" in step  # no model is told of a variable of such a name


def test_a_hidden_number_or_date_is_masked_as_other_languages_write_it() -> None:
    import datetime

    said = ("48213,77", "48.213,77", "48 213.77", "48'213.77", "13.05.1987", "13 May 1987", "19870513", "1987/05/13")
    others = "48213,78 2 48 214.77 13.05.1988 (48,77) 48 212 [48213,77,1]"
    held = {"held": 48213.77, "born": datetime.date(1987, 5, 13)}
    told, events = sent(dict(held), f"print({said!r}, {others!r})", hide=tuple(held))
    for text in (told, events):
        for one in said:
            assert repr(one) not in text, one
    assert others in told


def test_other_numbers_within_a_word_are_told() -> None:
    shown = "v1000.5 utf16 x1234 1918273a a9182731 b482.13 2.918273x 1,918273y"
    told, _ = sent({"held": [918273, 1000.5, 1234]}, f"print({shown!r})", hide=("held",))
    assert shown in told.replace(f"print({shown!r})", "")


@pytest.mark.parametrize(
    ("value", "step", "part"),
    [
        (1234567.891, "print(f'{held:.6e} {held:g}')", "1.23"),
        ([1234567.891], "import numpy; print(numpy.array([*held, 1e-9]))", "1.23"),
        (1234567, "print(f'{held:_}')", "1_234_567"),
        ("Größe & Co", "import json; print(json.dumps([held]))", "& Co"),
        ("Größe & Co", "import html; print(html.escape(held))", "amp; Co"),
        ("Größe & Co", "print(ascii(held))", "& Co"),
    ],
)
def test_a_hidden_value_is_masked_as_it_is_usually_written(value: object, step: str, part: str) -> None:
    told, events = sent({"held": value}, step, hide=("held",))
    assert part not in told.replace(step, "")
    assert part not in events


@pytest.mark.parametrize(
    ("made", "step", "part"),
    [
        ("471147.25+3j", "print(held.real)", "471147"),
        ("3+471147.25j", "print(held.imag)", "471147"),
        ("numpy.array([471147.25+3j])", "print(held.real)", "471147"),
        ("pandas.Series(['a/way/4711'])", "print(held.to_json())", "4711"),
        ("pandas.Series(['ä/way/4711'])", "print(held.to_json())", "4711"),
        ("pandas.DataFrame({'d': pandas.to_datetime(['1971-03-04'])})", "print(held.to_json())", "36892800"),
        ("pandas.Timestamp('1971-03-04 05:06:07')", "print(held.isoformat(), held.value)", "1971"),
        ("pandas.Timestamp('1971-03-04 05:06:07')", "print(held.value)", "36911167"),
        ("range(471147, 471149)", "print(list(held))", "47114"),
    ],
)
def test_parts_of_a_hidden_value_are_masked_as_they_are_usually_written(made: str, step: str, part: str) -> None:
    import numpy
    import pandas

    held = eval(made, {"numpy": numpy, "pandas": pandas})
    told, _ = sent({"held": held}, step, hide=("held",))
    assert part not in told


def test_other_numbers_with_an_exponent_are_told() -> None:
    told, _ = sent({"held": [1234567.891, 2.5e-7]}, "print(1.234569e+06, 1e-06, 2.51e-7, '1e+06')", hide=("held",))
    assert previews.MASK not in told
    assert "2.51e-07 1e+06" in told


def test_a_hidden_word_is_masked_as_a_word() -> None:
    told, _ = sent({"name": "Anna"}, "print('Anna, Annabelle, Anna_2 and Hanna')", hide=("name",))
    assert f"{previews.MASK}, Annabelle, {previews.MASK}_2 and Hanna" in told


def test_a_secret_that_is_typed_into_a_task_is_not_kept() -> None:
    session = Session({"password": CANARY, "salaries": [1]}, Repository.open(MemoryStore()))
    HideList(session.repo).add("salaries")
    model = FunctionModel(lambda _: "task.success(1)")
    run = Agent("ada", model=model, state=session).start(f"Log in with {CANARY} and sum up salaries")
    assert CANARY not in repr(run.events[0])
    assert run.task == f"Log in with {previews.MASK} and sum up salaries"  # the person's own words, but for that
    assert "salaries" not in run.events[0].prompt  # type: ignore[attr-defined]  # a TaskStart


def test_a_variable_that_is_called_as_a_secret_is_is_not_told() -> None:
    word = "zebra4711quagga"
    told, events = sent({"password": word}, "globals()[password] = 1\nother = 2", "del globals()[password]")
    assert "+ other: int 2" in told
    assert word not in told
    assert word not in events


GIVEN_ON: dict[str, str] = {
    "a state": "helper.start('look', state={'arg': held}).result()",
    "a state of an agent": "ak.Agent('n', model=helper.model, state={'arg': held})('look')",
    "a live state": "live = ak.Live()\nlive['arg'] = held\nhelper.start('look', state=live).result()",
    "a versioned state": "kept = ak.Versioned()\nkept['arg'] = held\nhelper.start('look', state=kept).result()",
    "what the step made of it": "held += ' okapi-5832-ibex'\nhelper.start('look', state={'arg': held}).result()",
    "a primer": "ak.Agent('n', model=helper.model, primer=held)('look')",
    "a docstring": "def f(): pass\nf.__doc__ = held\na = ak.Agent('n', model=helper.model)\na.fn(f)\na('look')",
    "a default": "def f(a=held): 'x'\na = ak.Agent('n', model=helper.model)\na.fn(f)\na('look')",
}


@pytest.mark.parametrize("way", GIVEN_ON)
def test_a_sub_agents_model_is_not_told_what_is_hidden_from_its_parents(way: str) -> None:
    requests: list[Request] = []

    def answer(request: Request) -> str:
        requests.append(request)
        return ["print(globals().get('arg'))", "task.success(1)"][request.turn]

    helper = Agent("helper", model=FunctionModel(answer))
    told, events = sent(
        {"held": CANARY, "helper": helper}, f"import agent_kernel as ak\n{GIVEN_ON[way]}", hide=("held",)
    )
    asked = "\n".join([told, events, *(request.text for request in requests)]).replace(GIVEN_ON[way], "")
    assert requests
    assert CANARY not in asked
    # Ids and moments may have any digits.
    assert "5832" not in re.sub(r"time_ns=\d+|\b[0-9a-f]{16}\b|\b[0-9a-f]{64}\b", "", asked)


HOLDERS: dict[str, str] = {
    "a named tuple": "from collections import namedtuple\nheld = namedtuple('T', 'a b')({0!r}, 1)",
    "an object with slots": "class S:\n    __slots__ = ('a',)\nheld = S()\nheld.a = {0!r}",
    "a text of a class of its own": "class Text(str): pass\nheld = Text({0!r})",
    "a key": "held = {{{0!r}: 1}}",
    "a list of a class of its own": "class Rows(list): pass\nheld = Rows([{0!r}])",
    "a dict of a class of its own": "class Map(dict): pass\nheld = Map(a={0!r})",
    "a list far below": "held = [[[[[[[[[[{0!r}]]]]]]]]]]",
    "an attribute of an item": "class C: pass\nc = C()\nc.a = {{'b': [{0!r}]}}\nheld = [c]",
    "a data class": "import dataclasses\n@dataclasses.dataclass\nclass D:\n    a: str\nheld = D({0!r})",
    "a partial": "import functools\nheld = functools.partial(print, {0!r}, end='')",
    "a path": "import pathlib\nheld = pathlib.Path('/srv') / {0!r}",
    "a long list's last item": "held = [*range(50_000), {0!r}]",
    "an index": "import pandas\nheld = pandas.DataFrame({{'a': [1]}}, index=[{0!r}])",
    "a column's name": "import pandas\nheld = pandas.DataFrame({{{0!r}: [1]}})",
    "an index of several levels": "import pandas\nheld = pandas.Series([1], index=pandas.MultiIndex.from_tuples([(1, {0!r})]))",
    "categories": "import pandas\nheld = pandas.Series([{0!r}], dtype='category')",
    "a row far down": "import pandas\nheld = pandas.DataFrame({{'a': [f'row {{n}}' for n in range(30_000)] + [{0!r}]}})",
    "an index alone": "import pandas\nheld = pandas.Index([{0!r}])",
    "an array of texts": "import numpy\nheld = numpy.array([[{0!r}]])",
    "an array of objects": "import numpy\nheld = numpy.array([{0!r}, None], dtype=object)",
    "a field of records": "import numpy\nheld = numpy.array([(1, {0!r})], dtype=[('n', int), ('a', 'U40')])",
    "a table of polars": "import polars\nheld = polars.DataFrame({{'a': [{0!r}]}})",
    "a column of polars": "import polars\nheld = polars.Series('a', [{0!r}])",
    "a table of arrow": "import pyarrow\nheld = pyarrow.table({{'a': [{0!r}]}})",
    "a memory view": "held = memoryview({0!r}.encode())",
    "a table of a class of its own": "import pandas\nclass My(pandas.DataFrame): pass\nheld = My({{'a': [{0!r}]}})",
    "notes of a table": "import pandas\nheld = pandas.DataFrame({{'a': [1]}})\nheld.attrs['x'] = {0!r}",
    "categories alone": "import pandas\nheld = pandas.Categorical([{0!r}])",
    "one record": "import numpy\nheld = numpy.array([(1, {0!r})], dtype=[('n', int), ('a', 'U40')])[0]",
    "a closure": "def made(a):\n    return lambda: a\nheld = made({0!r})",
    "a default": "def held(a={0!r}): pass",
    "a class": "class held:\n    a = {0!r}",
    "a class of an instance": "class C:\n    a = {0!r}\nheld = C()",
    "an exception": "held = ValueError({0!r})",
    "an iterator": "held = iter([{0!r}])",
    "a view of a dict": "held = {{'a': {0!r}}}.values()",
    "a buffer": "import io\nheld = io.StringIO({0!r})",
    "an element": "import xml.etree.ElementTree as E\nheld = E.Element('a')\nheld.text = {0!r}",
    "an array of arrow": "import pyarrow\nheld = pyarrow.array([{0!r}])",
    "what a generator waits with": "def made(a):\n    yield a\nheld = made({0!r})",
    "a generator's iterator": "held = (a for a in [{0!r}])",
    "a coroutine": "async def made(a):\n    return a\nheld = made({0!r})",
    "a method of a text": "held = {0!r}.strip",
    "a module of one's own": "import types\nheld = types.ModuleType('m')\nheld.a = [{0!r}]",
    "a weak reference": "import weakref\nclass C: pass\nc = C()\nc.a = {0!r}\nC.kept = c\nheld = weakref.ref(c)",
    "a context variable": "import contextvars\nheld = contextvars.ContextVar('x')\nheld.set({0!r})",
    "a context variable's default": "import contextvars\nheld = contextvars.ContextVar('x', default={0!r})",
    "a context": "import contextvars\nc = contextvars.ContextVar('x')\nheld = contextvars.copy_context()\nheld.run(c.set, {0!r})",
    "what a cached function gave": "import functools\n@functools.lru_cache\ndef held(n): return {0!r}\nheld(1)",
    "what a cached function was given": "import functools\n@functools.lru_cache\ndef held(n): return 1\nheld({0!r})",
    "the factory of a dict": "import collections\nheld = collections.defaultdict(lambda a={0!r}: a)",
    "the code of a function": "def held(): return {0!r}",
    "a reader of rows": "import csv\nheld = csv.reader([{0!r}])",
    "what a traceback leads to": "def made(a):\n    1 / 0\ntry:\n    made({0!r})\nexcept ZeroDivisionError as e:\n    held = e",
    "a buffer of C": "import ctypes\nheld = ctypes.create_string_buffer({0!r}.encode())",
    "a buffer of arrow": "import pyarrow\nheld = pyarrow.py_buffer({0!r}.encode())",
    "a pickle": "import pickle\nheld = pickle.dumps({{'a': {0!r}}})",
    "a queue": "import queue\nheld = queue.Queue()\nheld.put({0!r})",
    "a proxy": "import types\nheld = types.MappingProxyType({{'a': {0!r}}})",
}


@pytest.mark.sampled
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_a_hidden_variable_holds_leaves_from_nowhere(holder: str) -> None:
    made: dict[str, Any] = {"__name__": "__main__"}
    exec(HOLDERS[holder].format(CANARY), made)
    told, events = sent({"held": made["held"]}, f"print(''.join(list({CANARY!r})))", hide=("held",))
    assert previews.MASK in told
    assert CANARY not in told
    assert CANARY not in events
    if holder == "a coroutine":
        made["held"].close()


CLOSED: dict[str, str] = {
    "a plan of polars": "import polars\nheld = polars.LazyFrame({{'a': [{0!r}]}}).filter(polars.col('a') != '')",
    "an expression of polars": "import polars\nheld = [polars.lit({0!r})]",
    "a relation of duckdb": "import duckdb\nheld = duckdb.sql(f\"select '{0}' as a\")",
    "a database of duckdb": "import duckdb\nheld = duckdb.connect()\nheld.execute(f\"create table t as select '{0}' as a\")",
    "a database in memory": "import sqlite3\nheld = sqlite3.connect(':memory:')\nheld.execute('create table t (a)')",
    "a data set of arrow": "import pyarrow, pyarrow.dataset\nheld = pyarrow.dataset.dataset(pyarrow.table({{'a': [{0!r}]}}))",
}


@pytest.mark.parametrize("holder", CLOSED)
def test_what_a_step_shows_is_withheld_where_a_hidden_value_cannot_be_looked_into(holder: str) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    exec(CLOSED[holder].format(CANARY), namespace)
    steps = (f"print(''.join(list({CANARY!r})))", "print('shown')")
    told, events = sent({"held": namespace["held"]}, *steps, hide=("held",))
    for text in (told, events):
        assert "withheld: a hidden variable cannot be read" in text
        assert CANARY not in text
        assert "'shown'" not in text.replace(steps[1], "")
    told, _ = sent({"held": namespace["held"], "x": 1}, *steps)
    assert "withheld" not in told


OPEN: dict[str, str] = {
    "a session": "import requests\nheld = requests.Session()",
    "a lock": "import threading\nheld = [threading.Lock(), threading.Event()]",
    "a connection to a file": "import sqlite3\nheld = sqlite3.connect('x.db')",
    "a socket": "import socket\nheld = socket.socket()",
    "a logger": "import logging\nheld = logging.getLogger('mine')",
    "a model": "import numpy, sklearn.ensemble as e\nheld = e.RandomForestClassifier(2).fit(numpy.eye(4), [0, 1, 0, 1])",
    "a net": "import torch\nheld = torch.nn.Linear(2, 2)",
    "a figure": "import matplotlib.figure as m\nheld = m.Figure()\nheld.subplots().plot([1, 2])",
    "a generator of numbers": "import numpy\nheld = numpy.random.default_rng(1)",
    "kinds of data": "import numpy, pyarrow, polars\nheld = [numpy.dtype('f8'), pyarrow.schema([('a', pyarrow.int64())]), polars.Int64]",
    "a pattern": "import re\nheld = re.compile('x+')",
    "a time zone": "import zoneinfo\nheld = zoneinfo.ZoneInfo('Europe/Berlin')",
    "a group": "import pandas\nheld = pandas.DataFrame({'a': [1]}).groupby('a')",
    "a window": "import pandas\nheld = pandas.Series([1.5]).rolling(2)",
    "a sparse matrix": "import scipy.sparse\nheld = scipy.sparse.eye(3).tocsr()",
    "a symbol": "import sympy\nheld = sympy.Symbol('x') ** 2",
    "a loop": "import asyncio\nheld = asyncio.new_event_loop()\nheld.close()",
    "a widget": "import ipywidgets\nheld = ipywidgets.IntSlider(3)",
    "a module": "import numpy\nheld = numpy",
    "a file": "held = open('/dev/null')",
}


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("holder", OPEN)
def test_what_a_step_shows_is_not_withheld_for_what_holds_no_values(
    holder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(OPEN[holder], namespace)
    told, _ = sent({"held": namespace["held"]}, "print('The mean of the column is', 3.14159 * 2)", hide=("held",))
    assert "The mean of the column is 6.28318" in told
    if hasattr(namespace["held"], "close") and holder != "a figure":
        namespace["held"].close()


SECRETS: dict[str, str] = {
    "a slot": "class S:\n    __slots__ = ('api_key',)\nheld = S()\nheld.api_key = {0!r}",
    "a field": "from collections import namedtuple\nheld = [namedtuple('T', 'name db_password')('x', {0!r})]",
    "a column of polars": "import polars\nheld = polars.DataFrame({{'password': [{0!r}], 'n': [1]}})",
    "a column of arrow": "import pyarrow\nheld = pyarrow.table({{'password': [{0!r}]}})",
    "an index": "import pandas\nheld = pandas.DataFrame({{'a': [1]}}, index=pandas.Index([{0!r}], name='password'))",
    "a field of records": "import numpy\nheld = numpy.array([(1, {0!r})], dtype=[('n', int), ('password', 'U40')])",
    "a row of a column": "import pandas\nheld = pandas.Series({{'user': 'ann', 'password': {0!r}}})",
    "a row": "import pandas\nheld = pandas.DataFrame({{'value': ['ann', {0!r}]}}, index=['user', 'password'])",
    "a row of levels": "import pandas\nheld = pandas.DataFrame({{'value': ['ann', {0!r}]}}, index=[['a', 'a'], ['user', 'password']])",
    "a row beside a name": "import pandas\nheld = pandas.DataFrame({{'name': ['user', 'password'], 'value': ['ann', {0!r}]}})",
    "a row of many": "import pandas\nheld = pandas.Series(['x'] * 4999 + [{0!r}], index=[f'r{{n}}' for n in range(4999)] + ['pwd'])",
    "an entry called pass": "held = {{'user': 'ann', 'pass': {0!r}}}",
    "an entry of another language": "held = {{'パスワード': {0!r}}}",
    "an entry far below": "held = {{'a': {{'b': {{'c': {{'d': {{'e': {{'password': {0!r}}}}}}}}}}}}}",
}


@pytest.mark.sampled
@pytest.mark.parametrize("holder", SECRETS)
def test_a_secret_is_found_by_its_label_wherever_that_stands(holder: str) -> None:
    namespace: dict[str, object] = {}
    exec(SECRETS[holder].format(CANARY), namespace)
    namespace.pop("__builtins__")
    told, events = sent(namespace, f"print(''.join(list({CANARY!r})))")
    assert CANARY not in told
    assert CANARY not in events


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("auth_rate", 0.9512, "0.9512"),
        ("cookies_sold", 1234, "1234 rows"),
        ("cookie_recipe", "butter", "butter"),
        ("cookies", 1234, "1234"),
        ("bearer", "carrier", "carrier"),
        ("api_key_name", "OPENAI", "OPENAI"),
        ("password_hash_algo", "argon2id", "argon2id"),
        ("password_strength", "weak-ish", "weak-ish"),
        ("secrets_found", 1234, "1234"),
        ("passwords_df_rows", 1234, "1234"),
        ("results", {"pass": 1234, "fail": 17}, "1234"),
    ],
)
def test_what_goes_under_a_name_that_is_like_a_secrets_is_told(name: str, value: object, shown: str) -> None:
    told, _ = sent({name: value}, f"print({shown!r})")
    assert f"\n\n{shown}\n" in told


def test_what_is_hidden_is_looked_at_before_all_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """And however much else there is, IPython's own objects among it."""
    monkeypatch.setattr("agent_kernel.agents.messages._MOST_OF_OTHERS", 2_000)
    much: dict[str, object] = {f"rows_{n}": [[n, [n]] for n in range(50)] for n in range(100)}
    told, events = sent({**much, "plan": CANARY}, f"print(''.join(list({CANARY!r})))", hide=("plan",))
    assert CANARY not in told
    assert CANARY not in events


def test_of_a_large_hidden_table_every_number_is_known() -> None:
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"pay": np.arange(1_000_000) + 0.123456})
    told, _ = sent({"frame": frame, "other": 7.654321}, "print(777_777.123456, other)", hide=("frame",))
    assert "777777.123456" not in told.replace("777_777.123456", "")
    assert "7.654321" in told


def test_what_a_step_shows_is_withheld_where_a_hidden_value_is_too_large_to_be_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agent_kernel.agents.messages._MOST_OF_HIDDEN", 3_000)
    rows = [f"text number {n}" for n in range(3_001)]
    told, events = sent(
        {"rows": rows, "x": 5551}, "print('text number 2' + '999')", "x = 'text number 2' + '998'", "1/0",
        hide=("rows",),
    )  # fmt: skip
    for text in (told, events):
        assert not re.search(r"(?<![0-9a-f])299[89](?![0-9a-f])", text)  # ids of commits may hold these digits
        assert "withheld: a hidden variable is too large" in text
    assert "~ x: str" in told


def test_whole_values_are_masked_and_no_more() -> None:
    told, _ = sent(
        {"auth_year": 2024, "home": "https://example.com/private/4711", "pin": "2024-7"},
        "print('in 2024 and https://example.com/public and https://example.org')",
        "print('https://example.com/private/4711', 'https://example.com/private/4…', '2024-75')",
        hide=("home", "pin"),
    )
    assert "in 2024 and https://example.com/public and https://example.org" in told
    assert f"{previews.MASK} {previews.MASK}… " in told
    assert "4711" not in told


def test_what_cells_wrote_down_for_a_hidden_name_is_masked_in_the_notebooks_input() -> None:
    cells = [
        "",
        "api = 'north-4711-old'",
        "api = 'north-4711-new'",
        "pin = 482913\nname = 'Ann'",
        "gone = 'south-1234'; del gone",
    ]
    namespace: dict[str, object] = {"In": cells, "api": "north-4711-new", "name": "Ann"}
    told, events = sent(namespace, "print(In)", hide=("api", "pin", "gone"))
    for text in (told, events):
        for hidden in ("north-4711-old", "north-4711-new", "482913", "south-1234"):
            assert hidden not in text
    assert "Ann" in told
