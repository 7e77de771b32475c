"""What a user installs: the wheel holds the package, its type marker and the kernelspec, and nothing of ours besides."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
KERNELSPEC = "share/jupyter/kernels/agent-kernel/kernel.json"


def build(target: str, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_carries_the_kernelspec(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(f".data/data/{KERNELSPEC}")]
        spec = json.loads(archive.read(name))
    assert spec["display_name"] == "Python 3 (Agent)"
    assert spec["argv"][-1] == "--ext=agent_kernel"


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    top = {name.split("/")[0].partition("-")[0] for name in names}
    assert top == {"agent_kernel"}
    assert "agent_kernel/py.typed" in names
    assert not [name for name in names if "__pycache__" in name or "test_" in name]


def test_the_wheel_has_the_command_and_the_license(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        texts = {Path(name).name: archive.read(name).decode() for name in archive.namelist() if ".dist-info/" in name}
    assert "agent-kernel = agent_kernel.__main__:main" in texts["entry_points.txt"]
    assert "Apache License" in texts["LICENSE"]
    assert "Requires-Python: >=3.11" in texts["METADATA"]


def test_the_source_archive_carries_no_store_but_those_of_the_tests(tmp_path: Path) -> None:
    with tarfile.open(build("sdist", tmp_path)) as archive:
        names = archive.getnames()
    stores = [name for name in names if ".agent-kernel" in name or name.endswith(".mdb")]
    assert not [name for name in stores if "/tests/fixtures/" not in name]
    assert [name for name in names if name.endswith("/notebooks/tour.ipynb")]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [[], ["--editable"]], ids=["plain", "editable"])
def test_pip_puts_the_kernelspec_where_jupyter_looks(tmp_path: Path, how: list[str]) -> None:
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *how, str(ROOT)]
    subprocess.run([environment / "bin" / "python", *install], check=True)
    assert (environment / KERNELSPEC).exists()
    assert (environment / "bin" / "agent-kernel").exists()
