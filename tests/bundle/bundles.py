"""Bundles that somebody else made, and changes of their files."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path

from agent_kernel.bundle import exporting
from agent_kernel.session import Repository
from agent_kernel.storage.archive import Packer
from tests.commands.stores import make_history

CELLS = (
    "import numpy as np, pandas as pd",
    "a = np.arange(1000.0)\nrows = [1, 2.5, {'k': [None, True, 'text']}]",
    "df = pd.DataFrame({'x': [1.0, 2.0], 'y': ['a', 'b']})",
    "def double(x):\n    return 2 * x",
    "a[0] = 5.0\nwords = {'one': 1}\nalso = words",
)


def make_bundle(
    folder: Path, *cells: str, name: str = "study", exclude: Sequence[str] = (), keeps_secrets: bool = False
) -> Path:
    """A bundle of a history that these cells make, in a folder."""
    store = folder / f"{name}-store"
    make_history(store, *(cells or CELLS))
    return bundle_of(store, folder / f"{name}.agentnb", exclude=exclude, keeps_secrets=keeps_secrets)


def bundle_of(
    store: Path,
    path: Path,
    *refs: str,
    exclude: Sequence[str] = (),
    keep: Sequence[str] = (),
    keeps_secrets: bool = False,
) -> Path:
    with closing(Repository.open(store, create=False)) as repo:
        chosen = exporting.choose(repo, refs)
        contents = exporting.gather(repo, chosen, exclude=exclude, keep=keep, keeps_secrets=keeps_secrets)
        exporting.write(contents, path)
    return path


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def with_members(path: Path, members: Mapping[str, bytes], *, sealed: bool = False) -> Path:
    """Write a file of these members. `sealed`: its manifest gets their digests, as one who means harm would see to."""
    held = dict(members)
    if sealed:
        manifest = json.loads(held["manifest.json"])
        manifest["members"] = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in held.items()
            if name not in ("manifest.json", "signature.json")
        }
        held["manifest.json"] = json.dumps(manifest).encode()
    with Packer(path) as packer:
        for name, content in held.items():
            packer.add(name, [[content]])
    return path


def changed(path: Path, name: str, change: Callable[[bytes], bytes], *, sealed: bool = False) -> Path:
    """The same bundle with one member that is another."""
    members = members_of(path)
    members[name] = change(members[name])
    return with_members(path.with_name(f"changed-{path.name}"), members, sealed=sealed)
