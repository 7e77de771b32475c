"""What a notebook shows of a record, of records, of a list, a state and a queue: a table, also where some of it cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

import agent_kernel as ak


class Note(ak.Record):
    text: str = ""
    stars: int = 0
    code: SecretStr = SecretStr("")


def html(shown: Any) -> str:
    return str(shown._repr_html_())


SHOWN: dict[str, tuple[Callable[[ak.Repository], Any], tuple[str, ...]]] = {
    "a record": (lambda repo: repo.records(Note)["a"], ("<b>Note</b>", "text", "&lt;b&gt;", "stars", "7", "******")),
    "records": (lambda repo: repo.records(Note), ("<b>Note</b>", "1 record<", "<th", "stars", "&lt;b&gt;")),
    "a list of dicts": (lambda repo: repo.list("turns"), ("<b>turns</b>", "2 items", "role", "user", "hello", "model")),
    "a list of values": (lambda repo: repo.list("many"), ("60 items", "10 earlier items", ">59<", ">159<")),
    "an empty list": (lambda repo: repo.list("none"), ("<b>none</b>", "0 items")),
    "a state": (lambda repo: repo.state("ada"), ("State of &#x27;ada&#x27;", "city", "London")),
    "a queue": (lambda repo: repo.queue("web"), ("Queue web", "1 pending", "1 in progress", "build", "bob", "test")),
}


@pytest.fixture
def full(memory: ak.Repository) -> ak.Repository:
    memory.records(Note).put(Note(id="a", text="<b>", stars=7, code=SecretStr("4111")))
    memory.list("turns").append({"role": "user", "text": "hello"}, {"role": "model"})
    memory.list("many").extend(range(100, 160))
    memory.state("ada").set("city", "London")
    queue = memory.queue("web")
    queue.push("build")
    queue.push("test")
    queue.claim("bob")
    return memory


@pytest.mark.parametrize("case", SHOWN)
def test_a_table_has_what_is_there_and_escapes_it(full: ak.Repository, case: str) -> None:
    make, texts = SHOWN[case]
    found = html(make(full))
    assert found.startswith("<table>")
    for text in texts:
        assert text in found, found
    assert "<b>&" not in found.replace("<b>State of &", "")
    assert "4111" not in found


def test_what_is_encrypted_is_named_and_no_error(memory: ak.Repository) -> None:
    memory.records(Note, secret="key").put(Note(id="sealed"))
    memory.list("talk", secret="key").append("hush")
    state = memory.state("ada", secret="key", secret_keys=["card"])
    state.set_many({"card": "4111", "city": "Rome"})
    for shown in (memory.records(Note), memory.list("talk"), memory.state("ada")):
        assert "open its collection with the key" in html(shown)
    assert "sealed" in html(memory.records(Note))
    assert "card" in html(memory.state("ada"))
    found = html(state)
    assert "(secret)" in found
    assert "Rome" in found
    assert "4111" not in found
    guest = html(state.restricted(read=["city"]))
    assert "Rome" in guest
    assert "card" not in guest
