"""The answers have the fields that the panel's contract names, and the questions are those that it may ask."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from agent_kernel.queries import agents, changes, plans, reader, text_diff, variables, wording

CONTRACT = Path(__file__).parents[2] / "widgets" / "history" / "protocol.d.ts"
MODULES = (
    agents,
    wording,
    agents,
    changes,
    changes,
    changes,
    changes,
    changes,
    reader,
    text_diff,
    variables,
    plans,
    agents,
    variables,
    changes,
    variables,
)
STRUCTS = {
    name: kind
    for module in MODULES
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__module__ == module.__name__
}


def members(body: str) -> list[str]:
    """The members of an interface as they are written, those of inner ones with the member that they are in."""
    found, depth, start = [], 0, 0
    for place, sign in enumerate(body):
        depth += (sign in "{[(<") - (sign in "}])" or (sign == ">" and body[place - 1] != "="))
        if sign == ";" and not depth:
            found.append(body[start:place])
            start = place + 1
    return [member.strip() for member in [*found, body[start:]] if member.strip()]


def interfaces() -> dict[str, list[str]]:
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", CONTRACT.read_text(), flags=re.DOTALL)
    found: dict[str, list[str]] = {}
    for match in re.finditer(r"export interface (\w+)[^{]*\{", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        found[match[1]] = members(text[match.end() : end - 1])
    return found


INTERFACES = interfaces()
BOTH = sorted(INTERFACES.keys() & STRUCTS.keys() - {"State", "Failure"})


def named(member: str) -> str:
    match = re.match(r"(\w+)\??\s*[:(]", member)
    assert match is not None, member
    return match[1]


def encoded(kind: type[msgspec.Struct]) -> set[str]:
    tag = kind.__struct_config__.tag_field
    return {field.encode_name for field in msgspec.structs.fields(kind)} | ({tag} if tag else set())


def test_the_contract_is_about_what_is_answered() -> None:
    expected = {
        "Opening",
        "Page",
        "CommitRow",
        "Details",
        "VariableDiff",
        "Comparison",
        "Plan",
        "Branch",
        "NotebookDocument",
    }
    assert expected <= set(BOTH)


@pytest.mark.parametrize("name", BOTH)
def test_an_answer_has_the_fields_of_the_contract(name: str) -> None:
    assert encoded(STRUCTS[name]) == {named(member) for member in INTERFACES[name]}


def test_a_kernel_may_say_more_of_its_state_than_a_repository_can() -> None:
    assert encoded(wording.State) <= {named(member) for member in INTERFACES["State"]}


def test_the_questions_are_those_of_the_contract() -> None:
    asked = {named(member): member for member in INTERFACES["Reads"]}
    known = reader.QUESTIONS
    assert known.keys() == asked.keys()
    query = {named(member) for member in INTERFACES["Query"]}
    for op, member in asked.items():
        inner = re.search(r"args:[^{]*\{([^}]*)\}", member)
        assert inner is not None
        names = {named(one) for one in members(inner[1])} | (query if "Query" in member else set())
        assert encoded(known[op].shape) == names, op


def test_every_kind_of_face_is_in_the_contract() -> None:
    text = CONTRACT.read_text()
    face = text[text.index("export type Face") : text.index("export interface Cell")]
    kinds = (changes.TableDiff, changes.ArrayDiff, changes.TextDiff, changes.PairsDiff, changes.PicturesDiff)
    for kind in kinds:
        line = next(line for line in face.splitlines() if f'"{kind.__struct_config__.tag}"' in line)
        assert all(f"{name}:" in line for name in encoded(kind))
    assert face.count("kind:") == len(kinds)


def test_failures_use_the_words_of_the_contract() -> None:
    line = next(line for line in CONTRACT.read_text().splitlines() if "interface Failure" in line)
    assert set(re.findall(r'"(\w+)"', line)) == set(get_args(reader.Code))
