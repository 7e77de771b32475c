"""What stands in a bundle for people and programs without this package."""

from __future__ import annotations

import hashlib
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent_kernel.bundle import members
from agent_kernel.bundle.members import Contents, encode_json, find_imports, find_needed, make_members
from agent_kernel.session import Repository
from agent_kernel.session.provenance import Environment
from tests.bundle.studies import Ran, contents_of, make_study

OTHERS = {"notebook.ipynb": b'{"cells": []}', "data/my data.npy": b"\x93NUMPY", "data/é.json": b"{}"}


def contents_with(place: Path, packages: tuple[str, ...], *cells: str, monkeypatch: pytest.MonkeyPatch) -> Contents:
    """What an export holds of cells that ran where these packages were installed."""
    environment = Environment("3.11.7", "cpython", "linux-x86_64", packages)
    monkeypatch.setattr(
        "agent_kernel.session.history.EnvironmentWatch.payload", lambda self: msgspec.msgpack.encode(environment)
    )
    make_study(place, *(Ran(cell, values={"x": 1}) for cell in cells))
    return contents_of(Repository.open(place, create=False))


def here(*names: str) -> tuple[str, ...]:
    from importlib.metadata import version

    return tuple(f"{name}=={version(name)}" for name in names)


def lines_of(contents: Contents) -> tuple[list[str], list[str]]:
    """The pins and the comments of the list of packages."""
    lines = make_members(contents, {})["requirements.txt"].decode().splitlines()
    return [line for line in lines if not line.startswith("#")], [line for line in lines if line.startswith("#")]


# -- requirements.txt


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import numpy as np, os.path", ["numpy", "os"]),
        ("from sklearn.svm import (\n    SVC,\n)", ["sklearn"]),
        ("import a; from b.c import d", ["a", "b"]),
        ("%matplotlib inline\n!pip install x\n    import inner", ["inner"]),
        ("from . import near\nimportant = 1\n# import no", []),
        ("import one, \\\n    two", ["one", "two"]),
        ("this is no Python (\nimport still", ["still"]),
        ("\x00import nul", []),
        ("x = '" + "(" * 100_000 + "'\nimport deep", ["deep"]),
    ],
)
def test_imports_are_found_in_any_text(source: str, modules: list[str]) -> None:
    assert find_imports([source]) == modules


def test_the_list_has_what_the_code_imports_and_what_that_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = here("anyio", "idna", "msgspec", "rich", "pygments", "markdown-it-py", "mdurl", "typing-extensions")
    contents = contents_with(tmp_path / "s", packages, "import anyio", "import json", monkeypatch=monkeypatch)
    pins, comments = lines_of(contents)
    assert pins == sorted(pins)
    assert {pin.partition("==")[0] for pin in pins} >= {"anyio", "idna"}
    assert not {pin.partition("==")[0] for pin in pins} & {"rich", "msgspec"}
    assert "Python 3.11.7 on linux-x86_64" in comments[0]
    assert find_needed(contents).imported == here("anyio")


def test_a_module_is_found_by_the_package_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = here("python-dateutil", "rich")
    contents = contents_with(tmp_path / "s", packages, "import dateutil.tz", monkeypatch=monkeypatch)
    assert lines_of(contents)[0] == list(here("python-dateutil"))


def test_where_the_exporter_has_other_versions_all_packages_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = ("msgspec==0.0.1", "rich==0.0.1")
    contents = contents_with(tmp_path / "s", packages, "import msgspec", monkeypatch=monkeypatch)
    assert lines_of(contents)[0] == list(packages)
    assert find_needed(contents).is_all


def test_what_no_index_has_is_a_comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = ("mine==1.0", "torch==2.9.0+cpu")
    contents = contents_with(tmp_path / "s", packages, "import mine, torch", monkeypatch=monkeypatch)
    monkeypatch.setattr(members, "_KNOWN", {("mine", "1.0"): members._Installed((), is_from_index=False)})
    pins, comments = lines_of(contents)
    assert pins == []
    assert "# torch==2.9.0+cpu: a local version; install it by hand" in comments
    assert any(line.startswith("# mine==1.0: installed from a folder or an address") for line in comments)


def test_a_stored_environment_can_put_no_option_and_no_line_into_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = ("--index-url==http://evil", "a==1\n--find-links http://evil", "b @ file:///evil==1", "fine==1.0")
    contents = contents_with(tmp_path / "s", packages, "import fine", monkeypatch=monkeypatch)
    pins, comments = lines_of(contents)
    assert pins == ["fine==1.0"]
    assert not any("evil" in line for line in comments)


def test_a_history_that_knows_no_environment_says_so(tmp_path: Path) -> None:
    make_study(tmp_path / "s", "x = 1")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        contents = contents_of(repo)
        tip = contents.repo.commit_at(contents.chosen.branches["main"])
        bare = msgspec.structs.replace(tip, environment=None)
        writer = contents.repo.writer()
        contents.chosen.branches["main"] = contents.repo.store_loose(writer, bare)
        assert make_members(contents, {})["requirements.txt"].startswith(b"# The history does not say")


# -- RO-Crate


def crate_of(place: Path, others: dict[str, bytes]) -> dict[str, Any]:
    with closing(Repository.open(place, create=False)) as repo:
        found = make_members(contents_of(repo), others)
        crate: dict[str, Any] = json.loads(found["ro-crate-metadata.json"])
        return crate


def references(value: object) -> list[str]:
    if isinstance(value, list):
        return [found for one in value for found in references(one)]
    if isinstance(value, dict):
        own = [value["@id"]] if value.keys() == {"@id"} else []
        return own + [found for one in value.values() for found in references(one)]
    return []


def test_the_crate_is_flat_and_every_reference_leads_somewhere(tmp_path: Path) -> None:
    make_study(tmp_path / "s", "import msgspec")
    crate = crate_of(tmp_path / "s", OTHERS)
    ids = [entity["@id"] for entity in crate["@graph"]]
    assert crate["@context"] == "https://w3id.org/ro/crate/1.2/context"
    assert len(ids) == len(set(ids))
    assert set(references(crate["@graph"])) - {"https://w3id.org/ro/crate/1.2"} <= set(ids)
    assert all("@type" in entity for entity in crate["@graph"])


def test_the_crate_says_what_who_and_when(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "Ada Lovelace")
    make_study(tmp_path / "s", "import msgspec")
    entities = {entity["@id"]: entity for entity in crate_of(tmp_path / "s", OTHERS)["@graph"]}
    descriptor, root = entities["ro-crate-metadata.json"], entities["./"]
    assert descriptor["@type"] == "CreativeWork"
    assert descriptor["about"] == {"@id": "./"}
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.2"}
    assert root["@type"] == "Dataset"
    assert root["datePublished"] == root["dateModified"][:10]
    assert "license" not in root
    assert [entities[one["@id"]]["name"] for one in root["author"]] == ["Ada Lovelace"]
    notebook = entities["notebook.ipynb"]
    assert root["mainEntity"] == {"@id": "notebook.ipynb"}
    assert "SoftwareSourceCode" in notebook["@type"]
    assert notebook["sha256"] == hashlib.sha256(OTHERS["notebook.ipynb"]).hexdigest()
    assert notebook["contentSize"] == str(len(OTHERS["notebook.ipynb"]))
    assert {entities[one["@id"]]["name"] for one in notebook["softwareRequirements"]} >= {"msgspec"}
    parts = {one["@id"] for one in root["hasPart"]}
    assert parts >= {"notebook.ipynb", "data/my%20data.npy", "data/%C3%A9.json", "requirements.txt", "manifest.json"}


# -- README.txt


def test_the_readme_says_what_each_member_is_and_how_to_read_it(tmp_path: Path) -> None:
    make_study(tmp_path / "s", "x = 1")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        contents = contents_of(repo)
        text = make_members(contents, OTHERS)["README.txt"].decode("ascii")
        without = make_members(contents, {})["README.txt"].decode("ascii")
    for name in ("notebook.ipynb", "requirements.txt", "manifest.json", "data/", "store/objects", "signature.json"):
        assert name in text
    assert "sha256sum" in text
    assert "numpy.load(file, allow_pickle=False)" in text
    assert "agent-kernel open" in text
    assert "data/" not in without
    assert "allow_pickle" not in without
    assert max(map(len, text.splitlines())) <= 130


def test_the_same_history_gives_the_same_members(tmp_path: Path) -> None:
    make_study(tmp_path / "s", "import msgspec", "x = 1")
    with closing(Repository.open(tmp_path / "s", create=False)) as repo:
        first = make_members(contents_of(repo), OTHERS)
        assert make_members(contents_of(repo), OTHERS) == first
        assert encode_json(json.loads(first["ro-crate-metadata.json"])) == first["ro-crate-metadata.json"]


def test_names_of_a_stranger_stay_in_their_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", '"}],"@graph":[]\x1b[31m\u202e')
    make_study(tmp_path / "s", "x = 1")
    crate = crate_of(tmp_path / "s", {})
    assert len(crate["@graph"]) > 3
    authors = [one for one in crate["@graph"] if one["@id"].startswith("#author")]
    assert len(authors) == 1
