"""Install into the environment whose Python runs this: `python .ci/install.py --editable '.[test]'`.

uv does it in a sixth of the time that pip takes. It does not read pip's configuration, so what that says of indexes, constraints and
certificates is handed on. Where uv cannot be had, or fails, pip does it.
"""

from __future__ import annotations

import os
import subprocess
import sys

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")
# What pip's configuration calls the options that uv has as well.
OPTIONS = ("index-url", "extra-index-url", "find-links", "constraint", "trusted-host")
RENAMED = {"trusted-host": "allow-insecure-host"}


def read_configuration() -> dict[str, list[str]]:
    """What pip is told by its files and by the environment, by the name of the option; a value may be a list."""
    found: dict[str, list[str]] = {}
    listed = subprocess.run([*PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    for line in listed.splitlines():  # global.find-links='/wheels', :env:.find-links='/wheels'
        name, _, value = line.partition("=")
        values = found.setdefault(name.rpartition(".")[2], [])
        values += [one for one in value.strip("'\"").split() if one not in values]
    return found


def install_by_uv(arguments: list[str]) -> bool:
    """Whether uv has installed what pip was to install."""
    configuration = read_configuration()
    options = [f"--{RENAMED.get(name, name)}={value}" for name in OPTIONS for value in configuration.get(name, ())]
    if configuration.get("no-index", ["0"])[-1].lower() in ("1", "true", "yes", "on"):
        options.append("--no-index")
    environment = dict(os.environ)
    for certificates in configuration.get("cert", ()):
        environment.setdefault("SSL_CERT_FILE", certificates)
    has_uv = subprocess.run([*PIP, "install", "-qq", "uv"], check=False).returncode == 0
    # As pip does: the best version that any of the indexes has.
    command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--index-strategy=unsafe-best-match"]
    command += ["--python", sys.executable, *options, *arguments]
    return has_uv and subprocess.run(command, env=environment, check=False).returncode == 0


def main() -> int:
    """Install, and return the status of what did it last."""
    arguments = sys.argv[1:]
    if install_by_uv(arguments):
        return 0
    print("uv could not install it; pip does it now, which takes longer", file=sys.stderr)
    # Compiling all that is installed takes two fifths of the time; what is imported is compiled then.
    return subprocess.run([*PIP, "install", "--quiet", "--no-compile", *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
