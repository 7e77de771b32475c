"""`agent-kernel open STUDY.agentnb --env`: a virtual environment with the packages that a bundle names."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from agent_kernel.bundle import members
from agent_kernel.cli import main
from agent_kernel.session.provenance import Environment
from tests.bundle.studies import Ran, make_study


def bundle_with(folder: Path, monkeypatch: pytest.MonkeyPatch, *packages: str) -> Path:
    environment = Environment("3.11.7", "cpython", "linux-x86_64", packages)
    with monkeypatch.context() as patch:
        patch.setattr(
            "agent_kernel.session.history.EnvironmentWatch.payload",
            lambda self: msgspec.msgpack.encode(environment),
        )
        make_study(folder / "s", Ran("import fine", values={"x": 1}))
    # Of versions that are not here all packages are listed.
    assert main(["export", str(folder / "s"), str(folder / "study.agentnb")]) == 0
    return folder / "study.agentnb"


class Programs:
    """Stands in for the programs that are started, and keeps how."""

    def __init__(self, *, pip: int = 0) -> None:
        self.pip = pip
        self.ran: list[list[str]] = []

    def __call__(self, words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        self.ran.append(words)
        if "venv" in words:
            Path(words[-1]).mkdir()
            return subprocess.CompletedProcess(words, 0)
        return subprocess.CompletedProcess(words, self.pip)


def test_it_installs_exact_versions_and_says_how_to_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle_with(tmp_path, monkeypatch, "fine==2.0", "jupyterlab==4.0.0", "agent-kernel==0.0.1")
    monkeypatch.setattr(members, "subprocess", SimpleNamespace(run=(programs := Programs())))
    capsys.readouterr()
    assert main(["open", str(path), "--folder", str(tmp_path), "--env"]) == 0
    told = capsys.readouterr().out
    venv, pip = programs.ran
    assert venv[1:3] == ["-m", "venv"]
    assert pip[1:5] == ["-I", "-m", "pip", "install"]
    assert pip[-2:] == [
        "--only-binary",
        ":all:",
    ]  # from a maker who is not trusted, nothing that runs as it is installed
    listed = (tmp_path / "study-env" / "requirements.txt").read_text()
    assert listed == "agent-kernel==0.0.1\nfine==2.0\njupyterlab==4.0.0\n"
    assert "-m jupyter lab" in told
    assert (tmp_path / "study.ipynb").exists()


def test_where_pip_fails_the_notebook_is_open_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle_with(tmp_path, monkeypatch, "fine==1.0")
    monkeypatch.setattr(members, "subprocess", SimpleNamespace(run=Programs(pip=1)))
    capsys.readouterr()
    assert main(["open", str(path), "--folder", str(tmp_path), "--env", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["environment"]["installed"] is False
    assert main(["log", str(tmp_path / "study.ipynb")]) == 0
    assert main(["open", str(path), "--folder", str(tmp_path), "--env", "--as", "again"]) == 1
    told = capsys.readouterr().out
    assert "pip ended with status 1" in told
    assert "To try again: " in told


@pytest.mark.parametrize("line", ["--index-url http://evil", "a @ http://evil/a.whl", "-e .", "a>=1", "a==1 --hash=x"])
def test_a_list_with_anything_but_exact_versions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    import hashlib

    path = bundle_with(tmp_path, monkeypatch, "fine==1.0")
    odd = tmp_path / "odd.agentnb"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(odd, "w") as target:
        content = f"fine==1.0\n{line}\n".encode()
        for info in source.infolist():
            stored = source.read(info)
            if info.filename == "requirements.txt":
                stored = content
            if info.filename == "manifest.json":
                manifest = json.loads(stored)
                said = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
                manifest["members"]["requirements.txt"] = said
                stored = json.dumps(manifest).encode()
            target.writestr(info, stored)
    monkeypatch.setattr(members, "subprocess", SimpleNamespace(run=(programs := Programs())))
    assert main(["open", str(odd), "--folder", str(tmp_path), "--env"]) == 1
    assert "must be a package with an exact version" in capsys.readouterr().err
    assert programs.ran == []
    assert not (tmp_path / "odd.ipynb").exists()


def test_an_environment_that_is_there_stays_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = bundle_with(tmp_path, monkeypatch, "fine==1.0")
    (tmp_path / "study-env").mkdir()
    assert main(["open", str(path), "--folder", str(tmp_path), "--env"]) == 2
    assert "--as NAME" in capsys.readouterr().err
    assert not (tmp_path / "study.ipynb").exists()


@pytest.mark.slow
def test_packages_are_installed_without_a_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "fine-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("fine.py", "answer = 42\n")
        wheel.writestr("fine-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: fine\nVersion: 1.0\n")
        wheel.writestr("fine-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("fine-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    path = bundle_with(tmp_path, monkeypatch, "fine==1.0")
    assert main(["open", str(path), "--folder", str(tmp_path), "--env"]) == 0
    python = tmp_path / "study-env" / "bin" / "python"
    done = subprocess.run([python, "-c", "import fine; print(fine.answer)"], capture_output=True, text=True, check=True)
    assert done.stdout == "42\n"
    missing = bundle_with(tmp_path / "other", monkeypatch, "absent==1.0")
    assert main(["open", str(missing), "--folder", str(tmp_path / "other"), "--env"]) == 1
    assert (tmp_path / "other" / "study.ipynb").exists()


LOCK = f"""
lock-version = "1.0"
created-by = "uv"

[[packages]]
name = "fine"
version = "2.0"
sdist = {{ url = "https://example.com/fine-2.0.tar.gz", hashes = {{ sha256 = "{"a" * 64}" }} }}
wheels = [{{ url = "https://example.com/fine-2.0-py3-none-any.whl", hashes = {{ sha256 = "{"b" * 64}" }} }}]
"""


class TestLock:
    """`export --lock` writes the digests of the packages' files, and `open --env` holds pip to them."""

    def exported(self, folder: Path, monkeypatch: pytest.MonkeyPatch, lock: str, status: int = 0) -> Path:
        def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            if not status:
                out = "--output-file" if "--output-file" in words else "--output"
                Path(words[words.index(out) + 1]).write_text(lock)
            return subprocess.CompletedProcess(words, status, "", "error: no network" if status else "")

        bundle_with(folder, monkeypatch, "fine==2.0").unlink()
        with monkeypatch.context() as patch:
            programs = SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired)
            patch.setattr(members, "subprocess", programs)
            assert main(["export", str(folder / "s"), str(folder / "study.agentnb"), "--lock"]) == 0
        return folder / "study.agentnb"

    def test_pip_takes_only_files_with_these_digests(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self.exported(tmp_path, monkeypatch, LOCK)
        with zipfile.ZipFile(path) as opened:
            assert opened.read("pylock.toml").decode() == LOCK
        monkeypatch.setattr(members, "subprocess", SimpleNamespace(run=(programs := Programs())))
        assert main(["open", str(path), "--folder", str(tmp_path), "--env"]) == 0
        assert "--require-hashes" in programs.ran[1]
        listed = (tmp_path / "study-env" / "requirements.txt").read_text()
        assert listed == f"fine==2.0 --hash=sha256:{'a' * 64} --hash=sha256:{'b' * 64}\n"

    def test_without_an_index_there_are_exact_versions(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = self.exported(tmp_path, monkeypatch, "", status=1)
        assert "No lock, only exact versions: error: no network" in capsys.readouterr().out
        with zipfile.ZipFile(path) as opened:
            assert "pylock.toml" not in opened.namelist()

    @pytest.mark.parametrize(
        "lock",
        [
            "not toml [",
            LOCK.replace('2.0"', '2.0 --index-url http://evil"'),
            LOCK.replace("a" * 64, "c" * 63),
            LOCK.replace('name = "fine"', 'name = "a @ http://evil/a.whl"'),
            LOCK.replace(", hashes = {", ", x = {"),
            "packages = 5",
            "packages = []",
        ],
    )
    def test_any_other_lock_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lock: str
    ) -> None:
        path = self.exported(tmp_path, monkeypatch, lock)
        assert main(["open", str(path), "--folder", str(tmp_path), "--env"]) != 0
        said = capsys.readouterr().err
        assert "pylock.toml" in said
        assert "Traceback" not in said
        assert not (tmp_path / "study.ipynb").exists()
