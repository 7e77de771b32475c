"""`agent-kernel show STUDY.agentnb`: what is in a bundle, before anything of it is loaded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_kernel.cli import main
from tests.bundle.studies import ATTACKS, Ran, make_study
from tests.commands.stores import canary

CELLS = (
    "import msgspec, json",
    "# The answer\nx = 42",
    "rows = [1, 2, 3]",
    "api_key = 'sk-abcdefghijklmnopqrstuvwxyz1234'",
)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("study")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENT_KERNEL_AUTHOR", "Ada")
        make_study(folder / "store", *CELLS)
    assert main(["export", str(folder / "store"), str(folder / "study.agentnb")]) == 0
    return (folder / "study.agentnb").read_bytes()


@pytest.fixture
def bundle(tmp_path: Path, written: bytes) -> Path:
    path = tmp_path / "study.agentnb"
    path.write_bytes(written)
    return path


def row(told: Any, name: str) -> str:
    found: list[str] = [line for line in told.out.splitlines() if line.startswith(f"{name}:")]
    assert len(found) == 1, told.out
    return found[0].partition(":")[2].strip()


def test_it_says_whose_it_is_and_what_is_in_it(run: Any, bundle: Path) -> None:
    told = run("show", bundle)
    assert told.status == 0
    assert row(told, "Whole") == "yes: every digest matches"
    assert row(told, "HEAD").endswith("on branch main")
    assert row(told, "Branches") == "main"
    assert row(told, "Tags") == "v1"
    assert row(told, "Commits").startswith("4, ")
    assert row(told, "Made by") == "Ada"
    assert row(told, "Ran on").startswith(sys.implementation.name)
    assert row(told, "Imports").startswith("msgspec ")
    assert row(told, "Left out") == "api_key"
    assert re.search(r"^x +int +\d+ B +42$", told.out, re.MULTILINE)
    assert "[2] The answer" in told.out


def test_programs_get_the_same_as_json(run: Any, bundle: Path) -> None:
    told = run("show", bundle, "--json")
    facts = told.json
    assert facts["whole"] is True
    assert facts["problem"] is None
    assert facts["commits"] == 4
    assert facts["authors"] == [{"name": "Ada", "kind": "person"}]
    assert {one["name"]: one["preview"] for one in facts["variables"]}["x"] == "42"
    assert facts["left_out"] == ["api_key"]
    assert [one["cell"]["number"] for one in facts["history"]] == [4, 3, 2, 1]
    assert facts["environment"]["imported"][0].startswith("msgspec==")
    assert facts["head"]["commit"] == facts["branches"]["main"] == facts["tags"]["v1"]


def test_with_a_ref_it_shows_one_commit_and_with_a_name_one_variable(run: Any, bundle: Path) -> None:
    assert run("show", bundle, "HEAD").out.startswith("commit ")
    assert run("show", bundle, "HEAD:x").out.startswith("x: int 42")
    assert "python" in run("show", bundle, "--environment").out.lower()


@pytest.mark.parametrize("member", ["store/objects", "requirements.txt", "README.txt"])
def test_a_changed_byte_is_reported_in_one_line_and_ends_with_status_1(run: Any, bundle: Path, member: str) -> None:
    from agent_kernel.storage.archive import Archive

    archive = Archive(bundle)
    at = archive.members[member].start + archive.members[member].packed // 2
    archive.close()
    raw = bytearray(bundle.read_bytes())
    raw[at] ^= 1
    bundle.write_bytes(raw)
    told = run("show", bundle)
    assert told.status == 1
    assert row(told, "Whole").startswith("no: ")
    assert "History" not in told.out  # what is not whole is read no further
    facts = run("show", bundle, "--json")
    assert facts.status == 1
    assert facts.json["whole"] is False
    assert facts.json["problem"]


def test_what_is_no_bundle_at_all_is_one_line(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "letter.agentnb"
    path.write_bytes(b"Dear Ada,\n" * 50)
    told = run("show", path)
    assert (told.status, told.out) == (1, "")
    assert told.err.count("\n") == 1
    assert "not a sound bundle" in told.err


def test_text_of_a_stranger_moves_no_cursor_and_turns_no_line_around(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_KERNEL_AUTHOR", "".join(ATTACKS[3:5]))
    cells = [Ran(f"# {attack}\npass", values={attack: attack}) for attack in ATTACKS]
    make_study(tmp_path / "s", *cells)
    path = tmp_path / "hostile.agentnb"
    assert run("export", tmp_path / "s", path).status == 0
    told = run("show", path)
    assert told.status == 0
    assert all(character.isprintable() or character == "\n" for character in told.out)
    assert "\u202e" not in told.out


def test_a_manifest_that_lies_about_its_form_is_refused(run: Any, bundle: Path, tmp_path: Path) -> None:
    import zipfile

    odd = tmp_path / "odd.agentnb"
    with zipfile.ZipFile(bundle) as source, zipfile.ZipFile(odd, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            if info.filename == "manifest.json":
                content = json.dumps(json.loads(content) | {"left_out": {"a": 1}}).encode()
            target.writestr(info, content)
    told = run("show", odd)
    assert told.status == 1
    assert "its manifest is not in its form" in told.err


def test_looking_unpickles_nothing_and_runs_nothing(tmp_path: Path, run: Any) -> None:
    ran = tmp_path / "ran"
    make_study(tmp_path / "s", canary(ran), "thing = Canary()", "Canary.armed = True")
    path = tmp_path / "canary.agentnb"
    assert run("export", tmp_path / "s", path).status == 0
    page = tmp_path / "canary.html"
    script = (
        "import sys\n"
        "from agent_kernel.cli import main\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: seen.append(args) if event == 'pickle.find_class' else None)\n"
        f"assert main(['show', {str(path)!r}]) == 0\n"
        f"assert main(['show', {str(path)!r}, '--json']) == 0\n"
        f"assert main(['export', {str(path)!r}, {str(page)!r}, '--html']) == 0\n"
        "assert seen == [], seen\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "thing" in done.stdout
    assert page.exists()
    assert not ran.exists()
