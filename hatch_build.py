"""Put the front end into wheels: the panels' bundles beside their Python, the extension where JupyterLab looks.

Everything is made in a temporary folder, so a build leaves nothing in the sources. An editable install takes the panels
from `widgets/` each time they are imported; what lies outside the package (the extension, the server's configuration) is
copied by pip in any case, so it is installed again to see a change there.

An editable install compiles the package where it lies, as pip does with what it copies: without it, each start of a
kernel compiles again where PYTHONDONTWRITEBYTECODE is set. Python compares the time of each source, so none goes stale.
"""

from __future__ import annotations

import compileall
import importlib.util
import json
import shutil
import sys
import tempfile
from pathlib import Path
from py_compile import PycInvalidationMode
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_LAB = "share/jupyter/labextensions/@agent-kernel/lab"
_PANELS = "agent_kernel/panels/static"


class FrontEnd(BuildHookInterface[Any]):
    """The hook that hatchling calls around a build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files. `version`: "standard" or "editable"."""
        if self.target_name != "wheel":  # a source archive carries the sources
            return
        release: str = self.metadata.version  # pyright: ignore[reportUnknownMemberType]  # its plug-ins have no type
        self._made = Path(tempfile.mkdtemp(prefix="agent-kernel-build-"))
        for name, text in _extension(Path(self.root), release).items():
            build_data["shared_data"][self._put(f"lab/{name}", text)] = f"{_LAB}/{name}"
        if version == "editable":
            _compile(Path(self.root))
        else:
            for name, text in _panels(Path(self.root)).items():
                build_data["force_include"][self._put(f"panels/{name}", text)] = f"{_PANELS}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name == "wheel":
            shutil.rmtree(self._made)

    def _put(self, name: str, text: str) -> str:
        path = self._made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        return str(path)


def _compile(root: Path) -> None:
    """Leave bytecode beside the sources; where that may not be written, leave them as they are."""
    # The time of a source says whether it changed. Unless told, Python would hash it where SOURCE_DATE_EPOCH is set.
    mode = PycInvalidationMode.TIMESTAMP
    compileall.compile_dir(root / "agent_kernel", quiet=2, invalidation_mode=mode)
    compileall.compile_file(root / "widgets" / "bundle.py", quiet=2, invalidation_mode=mode)


def _panels(root: Path) -> dict[str, str]:
    """Each panel whose folder has a `widget.js`, as one module and one sheet."""
    bundle, made = _bundle(root), dict[str, str]()
    for entry in sorted((root / "widgets").glob("*/widget.js")):
        made[f"{entry.parent.name}.js"] = bundle.module(entry)
        made[f"{entry.parent.name}.css"] = bundle.style(root / "widgets" / "shared", entry.parent)
    return made


def _extension(root: Path, version: str) -> dict[str, str]:
    """The extension's files by their place. JupyterLab lets browsers keep them for ever, so each name has a hash."""
    bundle, folder = _bundle(root), root / "widgets" / "lab"
    texts = {
        "extension.js": bundle.module(folder / "extension.js"),
        "extension.css": bundle.style(*(root / "widgets" / name for name in ("shared", "history")), folder),
    }
    entry, made = (folder / "remoteEntry.js").read_text("utf-8"), dict[str, str]()
    for name, text in texts.items():
        made[f"static/{bundle.hashed(name, text)}"] = text
        entry = entry.replace(f'"{name}"', f'"{bundle.hashed(name, text)}"')
    load = f"static/{bundle.hashed('remoteEntry.js', entry)}"
    package = json.loads((folder / "package.json").read_text("utf-8"))
    package["version"] = version
    package["jupyterlab"]["_build"] = {"load": load, "extension": "./extension"}
    uninstall = "pip uninstall agent-kernel"
    source = {"packageManager": "python", "packageName": "agent-kernel", "uninstallInstructions": uninstall}
    made[load] = entry
    made["package.json"] = json.dumps(package, indent=2) + "\n"
    made["install.json"] = json.dumps(source, indent=2) + "\n"
    return made


def _bundle(root: Path) -> ModuleType:
    """`widgets/bundle.py`, which lies in no package."""
    name = "agent_kernel_bundle"
    spec = importlib.util.spec_from_file_location(name, root / "widgets" / "bundle.py")
    assert spec is not None
    assert spec.loader is not None
    found = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
