"""Whatever holds a hidden value, and by whatever way a step shows it, no model is sent it; and nothing else is masked."""

from __future__ import annotations

import base64
import contextlib
import io
import ipaddress
import logging
import sys
import uuid
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agent_kernel.values import previews
from agent_kernel.values.redacted_values import RedactedTexts, spellings
from tests.agents.hidden_values import CLOSED, HOLDERS, ROUTES, SHOWN_BY_HOLDERS
from tests.agents.test_privacy import CANARY, sent

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("in_a_folder"),
]


@pytest.fixture
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def made(code: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            exec(code.format(CANARY), namespace)
    except ImportError as error:
        pytest.skip(str(error))
    return namespace


def close(held: Any) -> None:
    for name in ("close", "release"):
        with contextlib.suppress(Exception):
            getattr(held, name)()


@pytest.mark.sampled
@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_a_hidden_value_does_not_give_it_away(holder: str) -> None:
    namespace = made(HOLDERS[holder])
    held = namespace["held"]
    told, events = sent({"held": held}, f"print(''.join(list({CANARY!r})))", hide=("held",))
    close(held)
    assert "withheld" not in told
    assert previews.MASK in told
    assert CANARY not in told
    assert CANARY not in events


@pytest.mark.parametrize("holder", CLOSED)
def test_what_a_step_shows_is_withheld_where_a_hidden_value_cannot_be_asked_what_it_holds(holder: str) -> None:
    namespace = made(CLOSED[holder])
    held = namespace["held"]
    told, events = sent({"held": held}, f"print(''.join(list({CANARY!r})))", hide=("held",))
    close(held)
    assert "withheld" in told
    assert CANARY not in told
    assert CANARY not in events


@pytest.mark.sampled
@pytest.mark.parametrize("holder", SHOWN_BY_HOLDERS)
def test_what_an_object_shows_of_a_hidden_value_by_the_way_is_masked(holder: str) -> None:
    code, step = SHOWN_BY_HOLDERS[holder]
    told, events = sent({"held": made(code)["held"]}, step, hide=("held",))
    assert "withheld" not in told
    assert previews.MASK in told
    assert CANARY not in told
    assert CANARY not in events


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ("def held(rows: 'list[str]') -> None: 'the rows of orders'", "list[str] held rows"),
        ("class Order2: 'one order'\nheld = Order2()", "Order2"),
        ("import numpy\nheld = numpy.arange(9)", "int64 arange"),
        ("import pandas as pd\nheld = pd.DataFrame({{'a': [1]}})", "DataFrame with RangeIndex and int64"),
        ("import pyarrow as pa\nheld = pa.table({{'a': [1]}})", "table of int64"),
        (
            "held = 'a text with several ordinary words, international and administrative'",
            "international administrative",
        ),
    ],
)
def test_what_types_and_functions_are_called_is_told(held: str, shown: str) -> None:
    value = made(held)["held"]
    told, _ = sent({"held": value, "shown": shown.replace("held ", "")}, "print(shown)", hide=("held",))
    assert f"\n\n{shown.replace('held ', '')}\n" in told


@pytest.mark.sampled
@pytest.mark.parametrize("route", ROUTES)
def test_a_hidden_value_that_is_shown_encoded_is_masked(route: str) -> None:
    step, part = ROUTES[route]
    told, events = sent({"held": CANARY}, step, hide=("held",))
    for text in (told, events):
        assert part not in text
        assert repr(part)[1:-1] not in text


def test_what_is_no_value_of_a_hidden_variable_is_told_in_any_form() -> None:
    lines = (
        base64.b64encode(b"zebra-4712-quagga").decode(),
        b"okapi-4711-quagga".hex(),
        base64.b64encode(zlib.compress(b"nothing of it")).decode(),
        "https://example.com/a%20b?x=%C3%A4&amp;y=1",
        "z e b r a - 4 7 1 2",
        "international administrators 5f4dcc3b5aa765d61d8327deb882cf99",
        "\\x7a\\x65 &lt;b&gt; 100%20",
        "zebra",
        "quagga 4711",
    )
    told, _ = sent({"held": CANARY, "lines": lines}, "print(*lines, list(range(60, 110)), sep='\\n')", hide=("held",))
    for line in (*lines, str(list(range(60, 110)))):
        assert line in told


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ("'https://alpha.example/x/abc-1'", "see https://alpha.example/ for more"),
        ("Path('/usr/lib/x-1')", "/usr/lib and '/usr/lib/'"),
        ("'/usr/lib/x-1'", "/usr/lib/"),
        ("'import numpy as np'", "import numpy"),
        ("ipaddress.ip_address('10.0.0.1')", "10.0.0.12 and 110.0.0.1"),
        ("uuid.UUID(int=5)", "00000000-0000-0000-0000-000000000006"),
        ("range(1000, 1010)", "1010"),
        ("'----'", "-----+-----"),
        ("b'PK\\x05\\x06' + bytes(18)", "it is empty"),
        ("{'year': 2024, 'name': 'north'}", "in 2023, northern and NORTH"),
        ('\'{"year": "2024-07"}\'', "2024-08 and year"),
        ("'a,b\\n1,north-4711\\n'", "a, b, 1 and north-4712"),
        ("'https://example.com/?q=north-4711'", "https://example.com/?q=south"),
        ("open('notes', 'w+')", "notes of 2024"),
        ("'USER=ann\\nAPI_KEY=north-4711\\n'", "USER, API_KEY and north-4712 of ann"),
        ("pd.Series(pd.Categorical(['north'], categories=['north', 'south-4711']))", "southern and south-4712"),
        ("np.random.default_rng(3)", "PCG64 of numpy.random"),
        ("list(b'12345678')", "49, 50, 51"),
        ("lambda: 'north-4711'", "lambda: north"),
    ],
)
def test_whole_values_are_masked_and_nothing_that_is_like_one(held: str, shown: str) -> None:
    value = eval(held, {"pd": pd, "np": np, "Path": Path, "ipaddress": ipaddress, "uuid": uuid})
    told, _ = sent({"held": value}, f"print({shown!r})", hide=("held",))
    close(value)
    assert f"\n\n{shown}\n" in told


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ("from sklearn.linear_model import Ridge\nheld = Ridge()", "auto and svd"),
        ("from sklearn.cluster import KMeans\nheld = [KMeans()]", "k-means++ or lloyd"),
        ("import matplotlib.pyplot as plt\nheld = plt.figure()\nheld.gca().plot([1, 2])", "auto, solid, normal, none"),
    ],
)
def test_what_the_code_of_a_library_puts_into_its_objects_is_not_masked(held: str, shown: str) -> None:
    bound: dict[str, object] = {}
    exec(held, bound)
    told, _ = sent({"held": bound["held"]}, f"print({shown!r})", hide=("held",))
    assert f"\n\n{shown}\n" in told


@pytest.mark.parametrize("given", ["the value", "in a list", "of a method"])
def test_what_somebody_puts_into_a_class_of_a_library_is_masked(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    from sklearn import linear_model

    ways: dict[str, tuple[type, object]] = {
        "the value": (linear_model.Lasso, CANARY),
        "in a list": (linear_model.ElasticNet, [CANARY]),
        "of a method": (linear_model.Lars, eval(f"lambda self: {CANARY!r}", {"__name__": "__main__"})),
    }
    kind, value = ways[given]
    monkeypatch.setattr(kind, "key", value, raising=False)
    held = kind()
    held.__dict__["note"] = CANARY
    told, _ = sent({"held": held}, f"print({CANARY!r})", hide=("held",))
    assert CANARY not in told


@pytest.mark.parametrize("attribute", ["solver", "note"])
def test_what_somebody_puts_into_an_object_of_a_library_is_masked(attribute: str) -> None:
    from sklearn.linear_model import Ridge

    held = Ridge()
    setattr(held, attribute, CANARY)
    told, _ = sent({"held": held}, f"print({CANARY!r})", hide=("held",))
    assert CANARY not in told


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ("/home/ann/secret-project", "/home/ann/…"),
        ("/home/ann/secret-project", "/home/ann/secr"),
        ("/home/ann/secret-project", "/home/ann/secret-project/x"),
        ("call ann tomorrow at nine", "call ann tomorrow ..."),
        ("call ann tomorrow at nine", "call ann tomorrow a"),
        ("call ann tomorrow at nine and then go home", "call ann tomorrow at nine and"),
        ("10.0.0.1", "http://10.0.0.1:80/x"),
    ],
)
def test_a_hidden_text_that_is_cut_off_is_masked(held: str, shown: str) -> None:
    told, _ = sent({"held": held}, f"print({shown!r})", hide=("held",))
    assert shown not in told.replace(repr(shown), "")
    assert previews.MASK in told


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        ("1987-03-12 14:05:22", ["datetime.date(1987, 3, 12)", "12-03-1987", "12-Mar-1987", "12.03.87", "03/12/1987"]),
        ("1987-03-12 14:05:22", ["March 12, 1987", "12. March 1987", "Mar 12th, 1987", "19870312", "1987/3/12"]),
        (91827.35, ["91827", "91827.0", "91827.4", "91,827", "91.827,35"]),
        ("Ann Miller", ["ANN MILLER", "ann miller"]),
    ],
)
def test_a_hidden_day_number_or_name_is_masked_however_it_is_written(held: Any, shown: list[str]) -> None:
    values = pd.Series([held] if held == "Ann Miller" or type(held) is float else pd.to_datetime([held]))
    for text in shown:
        told, _ = sent({"held": values}, f"print('<{text}>')", hide=("held",))
        assert f"<{text}>" not in told, text
        assert f"<{previews.MASK}" in told or f"({previews.MASK}" in told, text
    told, _ = sent({"held": values}, "print('13-03-1987 is a day, and 4711 a number')", hide=("held",))
    assert "13-03-1987 is a day, and 4711 a number" in told


def test_a_hidden_file_that_is_too_large_to_read_withholds_what_a_step_shows() -> None:
    with Path("large").open("w+b") as held:
        held.truncate(1 << 27)
        told, _ = sent({"held": held}, "print('shown')", hide=("held",))
    assert "withheld: a hidden variable is too large" in told


def test_an_archive_that_unpacks_to_much_more_than_it_is_withholds_what_a_step_shows() -> None:
    bomb = zlib.compress(bytes(1 << 27))
    told, _ = sent({"held": bomb}, "print('shown')", hide=("held",))
    assert "withheld: a hidden variable is too large" in told


# By what it bounds, the constant and a small value of it, what holds more than that, and the step that shows it.
BOUNDS: dict[str, tuple[str, int, str, str]] = {
    "texts": (
        "redacted_values._MOST_TEXTS",
        50,
        "'\\n'.join(f'lorem ipsum {{n}}' for n in range(90)) + {0!r}",
        "held[-17:]",
    ),
    "lines of a text": (
        "redacted_values._MOST_TEXTS",
        50,
        "''.join(f'lorem ipsum {{n}}\\n' for n in range(90)) + {0!r}",
        "held.split()[-1]",
    ),
    "numbers": ("redacted_values._MOST_NUMBERS", 50, "np.arange(471100, 471200)", "held[50]"),
    "cells": ("redacted_values._MOST_NUMBERS", 50, "pd.Series(['x'] * 50 + [{0!r}] + ['x'] * 50)", "held[50]"),
    "numbers of a range": ("redacted_values._MOST_NUMBERS", 50, "range(471100, 481100)", "held[50]"),
    "bytes": ("redacted_values._MOST_DECODED", 50, "zlib.compress({0!r}.encode() * 9)", "zlib.decompress(held)"),
    "objects": ("agents.messages._MOST_OF_HIDDEN", 50, "['x'] * 50 + [{0!r}]", "held[50]"),
    "entries": ("agents.messages._MOST_OF_HIDDEN", 50, "{{**dict.fromkeys(range(50)), 'a': {0!r}}}", "held['a']"),
    "characters": ("agents.messages._MOST_OF_HIDDEN", 50, "set(range(99)) | {{ {0!r} }}", "max(held, key=str)"),
    "array of objects": (
        "agents.messages._MOST_OF_HIDDEN",
        50,
        "np.array(['x'] * 50 + [{0!r}], dtype=object)",
        "held[50]",
    ),
    "different cells": (
        "agents.messages._MOST_OF_HIDDEN",
        50,
        "pd.Series([*map(str, range(50)), {0!r}, *map(str, range(50, 99))])",
        "held[50]",
    ),
    "cells that are not compared": (
        "agents.messages._MOST_OF_HIDDEN",
        50,
        "pa.array([['x']] * 50 + [[{0!r}]] + [['x']] * 50).cast(pa.list_(pa.string()))",
        "held[50]",
    ),
    "cells of arrow": (
        "agents.messages._MOST_OF_HIDDEN",
        50,
        "pa.table({{'a': [*map(str, range(50)), {0!r}, *map(str, range(50, 99))]}})",
        "held['a'][50]",
    ),
    "digits that Python writes": ("agents.messages._MOST_OF_HIDDEN", 50, "10 ** 5000 + 4711", "held % 10 ** 9"),
    "depth of JSON": (
        "agents.messages._MOST_OF_HIDDEN",
        50,
        "'[' * 100_000 + '\"{0}\"' + ']' * 100_000",
        "held[100_001:-100_001]",
    ),
}


@pytest.mark.sampled
@pytest.mark.parametrize("bound", BOUNDS)
def test_what_a_step_shows_is_withheld_where_a_bound_ends_the_search(
    bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, most, held, shown = BOUNDS[bound]
    pa = pytest.importorskip("pyarrow") if "pa." in held else None
    module, _, constant = name.rpartition(".")
    monkeypatch.setattr(f"agent_kernel.{'' if '.' in module else 'values.'}{module}.{constant}", most)
    value = eval(held.format(CANARY), {"pd": pd, "np": np, "zlib": zlib, "pa": pa})
    told, events = sent({"held": value}, f"import zlib\nprint({shown}, 'shown')", hide=("held",))
    assert "withheld: a hidden variable is too large" in told
    assert CANARY not in told
    assert CANARY not in events
    assert "shown\n" not in events


@pytest.mark.parametrize(
    ("held", "shown"),
    [
        (
            "('lorem ipsum dolor\\n' * 200_000 + {0!r} + '\\n') + 'lorem ipsum dolor\\n' * 200_000",
            "held.splitlines()[200_000]",
        ),
        ("pd.Series(['x'] * 400_000 + [{0!r}] + ['x'] * 400_000)", "held[400_000]"),
        ("pl.Series(['x'] * 400_000 + [{0!r}] + ['x'] * 400_000)", "held[400_000]"),
        ("range(471147, 4_711_470)", "held[4711]"),
    ],
)
def test_what_lies_deep_in_a_large_value_is_masked(held: str, shown: str) -> None:
    pl = pytest.importorskip("polars") if "pl." in held else None
    value = eval(held.format(CANARY), {"pd": pd, "pl": pl})
    told, _ = sent({"held": value}, f"print({shown})", hide=("held",))
    assert "withheld" not in told
    assert CANARY not in told
    assert "475858" not in told


def test_a_text_that_is_encoded_more_often_than_is_decoded_is_masked() -> None:
    step = "import base64\nx = held.encode()\nfor _ in range(7): x = base64.b64encode(x)\nprint(x.decode(), 'shown')"
    encoded = CANARY.encode()
    for _ in range(7):
        encoded = base64.b64encode(encoded)
    told, _ = sent({"held": CANARY}, step, hide=("held",))
    assert encoded.decode() not in told
    assert previews.MASK in told


def test_a_number_of_many_digits_that_gives_a_hidden_text_is_masked() -> None:
    long = int.from_bytes((CANARY + " lorem ipsum" * 200).encode(), "big")
    step = "import sys\nsys.set_int_max_str_digits(0)\nprint(number)\nsys.set_int_max_str_digits(4300)"
    told, _ = sent({"held": CANARY, "number": [long]}, step, hide=("held",))

    sys.set_int_max_str_digits(0)
    try:
        assert str(long) not in told
    finally:
        sys.set_int_max_str_digits(4300)


def test_words_that_every_output_has_are_told_though_a_hidden_variable_holds_them() -> None:
    told, _ = sent({"held": ["True", "None", "null", "False"]}, "print(True, None, [False], 'null')", hide=("held",))
    assert "True None [False] null" in told


def test_what_is_searched_is_gone_through_a_few_times_and_no_more() -> None:
    """A regular expression that tries all ways to begin takes minutes for a line of this length."""
    texts = RedactedTexts(spellings(CANARY))
    for text in (
        "[1, 22, 333], " * 20_000,
        '{"a":1.5,"b":"x"},' * 20_000,
        "a " * 100_000,
        "%41" * 60_000,
        "0x41, " * 30_000,
    ):
        assert texts.mask_encoded(text) == text


def test_a_logger_leads_to_no_other_logger(tmp_path: Path) -> None:
    """One of them is called as a secret is, and through it every other would be one."""
    logging.getLogger("agent_kernel_test.auth")
    book = logging.getLogger("agent_kernel_test.book")
    book.addHandler(logging.FileHandler(tmp_path / "kept", delay=True))
    try:
        told, _ = sent({"book": book}, "print(book.handlers[0].baseFilename)")
    finally:
        book.handlers.clear()
    assert str(tmp_path / "kept") in told
