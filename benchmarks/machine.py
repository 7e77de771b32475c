"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import time
from importlib import metadata
from pathlib import Path

_PACKAGES = ("agent-kernel", "ipython", "lmdb", "numpy", "pandas", "pyarrow", "scikit-learn", "xxhash", "blake3")


def describe() -> dict[str, str]:
    """Processor, memory, system, packages and how busy the machine is, to keep beside results."""
    return {
        "time": time.strftime("%Y-%m-%d %H:%M"),
        "processor": _first("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": _first("/proc/meminfo", "MemTotal"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": " ".join(f"{load:.1f}" for load in os.getloadavg()) if hasattr(os, "getloadavg") else "",
        "packages": ", ".join(f"{name} {version}" for name in _PACKAGES if (version := _version(name))),
    }


def _first(path: str, field: str) -> str:
    file = Path(path)
    lines = file.read_text().splitlines() if file.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(field)), "")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
