"""The front end is in what a user installs: made from its sources by Python alone, and nothing of it in the checkout."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
LAB = "share/jupyter/labextensions/@agent-kernel/lab"
CONFIG = "etc/jupyter/jupyter_server_config.d/agent_kernel.json"
WIDGETS = sorted(entry.parent.name for entry in (ROOT / "widgets").glob("*/widget.js"))


def build(target: str, source: Path, folder: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (built,) = folder.iterdir()
    return built


def members(wheel: Path) -> dict[str, str]:
    """The text of each member outside the package's code, by its place under the environment."""
    with ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith(".py")]
        return {re.sub(r"^[^/]+\.data/data/", "", name): archive.read(name).decode() for name in names}


def assets_of(module: Path) -> object:
    """What a panel would send to the front end, with this copy of the package."""
    spec = importlib.util.spec_from_file_location("assets", module)
    assert spec is not None
    assert spec.loader is not None
    assets = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(assets)
    code, style = assets.history()
    assert "mountHistory" in code
    assert ".ak-panel" in style
    return code, style


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return members(build("wheel", ROOT, tmp_path_factory.mktemp("wheel")))


def test_the_wheel_enables_the_server_extension(wheel: dict[str, str]) -> None:
    assert json.loads(wheel[CONFIG]) == {"ServerApp": {"jpserver_extensions": {"agent_kernel": True}}}


def test_the_wheel_carries_every_widget_as_one_module_and_one_sheet(wheel: dict[str, str]) -> None:
    found = sorted(name for name in wheel if name.startswith("agent_kernel/panels/static/"))
    wanted = [f"agent_kernel/panels/static/{name}.{ending}" for name in WIDGETS for ending in ("css", "js")]
    assert found == wanted
    assert not [name for name in wanted if name.endswith(".js") and re.search(r"^import ", wheel[name], re.MULTILINE)]


def test_the_extension_loads_files_whose_names_change_with_their_content(wheel: dict[str, str]) -> None:
    package = json.loads(wheel[f"{LAB}/package.json"])
    load = package["jupyterlab"]["_build"]["load"]
    static = [name.removeprefix(f"{LAB}/static/") for name in wheel if name.startswith(f"{LAB}/static/")]
    hashed = {re.sub(r"\.[0-9a-f]{12}\.", ".", name): name for name in static}
    assert sorted(hashed) == ["extension.css", "extension.js", "remoteEntry.js"]
    assert hashed.keys().isdisjoint(hashed.values())
    assert load == f"static/{hashed['remoteEntry.js']}"
    entry = wheel[f"{LAB}/{load}"]
    assert f'"{hashed["extension.js"]}"' in entry
    assert f'"{hashed["extension.css"]}"' in entry
    assert package["name"] == "@agent-kernel/lab"
    assert json.loads(wheel[f"{LAB}/install.json"])["packageName"] == "agent-kernel"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_what_is_installed_is_well_formed(wheel: dict[str, str], tmp_path: Path) -> None:
    scripts = [name for name in wheel if name.endswith(".js")]
    for number, name in enumerate(scripts):
        path = tmp_path / f"{number}.{'cjs' if 'remoteEntry' in name else 'mjs'}"
        path.write_text(wheel[name])
        done = subprocess.run(["node", "--check", str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{name}: {done.stderr}"


def test_a_wheel_from_the_source_archive_is_the_same(wheel: dict[str, str], tmp_path: Path) -> None:
    archive = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(archive) as packed:
        assert not [name for name in packed.getnames() if "node_modules" in name or "/static/" in name]
        packed.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    assert members(build("wheel", source, tmp_path / "wheel")).keys() == wheel.keys()


def test_a_build_leaves_nothing_in_the_checkout(wheel: dict[str, str]) -> None:
    assert wheel
    assert not (ROOT / "agent_kernel" / "panels" / "static").exists()


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [[], ["--editable"]], ids=["plain", "editable"])
def test_pip_puts_everything_where_jupyter_looks(tmp_path: Path, how: list[str]) -> None:
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", *how, str(ROOT)]
    subprocess.run([environment / "bin" / "python", *install], check=True)
    package = json.loads((environment / LAB / "package.json").read_text())
    assert (environment / LAB / package["jupyterlab"]["_build"]["load"]).is_file()
    assert (environment / CONFIG).is_file()
    inside = list(environment.glob("lib/python*/site-packages/agent_kernel/**/*"))
    assert [path.name for path in inside if path.parent.name == "static"] == (
        [] if how else [f"{name}.{ending}" for name in WIDGETS for ending in ("css", "js")]
    )
    assert bool(inside) is not bool(how), "an editable install leaves no copy that goes stale"
    own = ROOT / "agent_kernel" / "panels" / "widget.py"
    found = [path for path in inside if path.parts[-2:] == own.parts[-2:]] or [own]
    assert assets_of(found[0]) == assets_of(own)
