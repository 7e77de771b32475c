"""Code as IPython takes it, without its magics: what they would do, and the Python that is left to read."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from agent_kernel.agents.events import Finding

__all__ = ["automagic", "without_magics"]

# They run the code that follows them, or only look.
_RUNS_CODE: Final = frozenset({"time", "timeit", "capture", "prun"})
_LOOKS: Final = frozenset(
    [
        "matplotlib",
        "precision",
        "who",
        "who_ls",
        "whos",
        "pprint",
        "psearch",
        "pinfo",
        "pdoc",
        "pfile",
        "psource",
        "quickref",
        "lsmagic",
        "history",
        "hist",
        "page",
    ]
)
# A cell of one line that begins with one of these is the magic or the command of this name, also without a sign.
_AUTOMAGICS: Final = frozenset(
    word
    for line in (
        "alias alias_magic autoreload bookmark cat cd clear colors conda config cp debug doctest_mode edit env ed gui ldir less lf",
        "lk ll ln load load_ext loadpy logoff logon logstart logstate logstop ls lx macro magic mamba man micromamba mkdir more mv",
        "notebook pastebin pip popd prun pushd rehashx reload_ext rerun reset reset_selective rm rmdir run sc save set_env store sx",
        "system unload_ext uv xdel xmode agent",
    )
    for word in line.split()
)
_LONGEST: Final = 120
_ONE_WORD: Final = re.compile(r"\s*([^\W\d]\w*)(?:\s+(?![=,.:(\[])|\s*$)")
_CALLING: Final = re.compile(r"\s*[,;/]\s*[^\W\d]")  # `,os.remove x` calls it with a text
_OPTIONS = re.compile(r"^(?:\s*-\w+(?:\s*\d+)?)*\s*")
_ASSIGNED = re.compile(r"^(\s*[\w.,\s\[\]'\"]*=\s*)([!%].*)$")


def automagic(code: str, names: Container[str]) -> Finding | None:
    """A cell of one line that IPython takes for a magic or a command without its sign, as `pip install x`.

    Args:
        names: the variables there are: these go first.
    """
    word = _ONE_WORD.match(code)
    if word is None or word[1] not in _AUTOMAGICS or word[1] in names or len(code.strip().splitlines()) > 1:
        return None
    return Finding("magic", code.strip()[:_LONGEST], 1, risky=True)


def without_magics(code: str) -> tuple[str, list[Finding]]:
    """The code with its magic and shell lines taken out, and what those are. Code that a magic runs stays."""
    first, _, rest = code.lstrip().partition("\n")
    if first.startswith("%%"):
        name = first[2:].split(maxsplit=1)[0] if first[2:].strip() else ""
        if name not in _RUNS_CODE:
            return "", [Finding("magic", f"{first[:_LONGEST]}: the whole step is a cell magic", 1, risky=True)]
        body, inside = without_magics(rest)
        return "\n" + body, [Finding("magic", f"%%{name}", 1, risky=False), *inside]
    kept: list[str] = []
    found: list[Finding] = []
    for number, line in enumerate(code.splitlines(), 1):
        kept.append(_line(line, number, found))
    return "\n".join(kept), found


def _line(line: str, number: int, found: list[Finding]) -> str:
    bare = line.strip()
    indent = line[: len(line) - len(line.lstrip())]
    assigned = _ASSIGNED.match(line)
    said = bare if bare.startswith(("!", "%")) else assigned[2] if assigned else ""
    target = assigned[1] if assigned and said is not bare else indent
    if said.startswith("!"):
        found.append(Finding("shell", said[:_LONGEST], number, risky=True))
        return f"{target}None"
    if said.startswith("%") and said.lstrip("%")[:1].isalpha():
        name, _, rest = said.lstrip("%").partition(" ")
        risky = name not in _RUNS_CODE and name not in _LOOKS
        found.append(Finding("magic", said[:_LONGEST], number, risky=risky))
        runs = _OPTIONS.sub("", rest, count=1) if name in _RUNS_CODE else ""
        return f"{target}{runs or 'None'}"
    if _CALLING.match(line):
        found.append(Finding("magic", bare[:_LONGEST], number, risky=True))
        return f"{indent}None"
    if bare.endswith("?") or bare.startswith("?"):  # a look at the help
        return f"{indent}None"
    return line
