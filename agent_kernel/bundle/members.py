"""What stands in a bundle beside the store, for people and programs without this package: plain data, pinned packages, RO-Crate, README.

The last three are made from the history alone, with one exception: which of the installed packages the code needs is known to the
interpreter that exports, and it is asked only about packages that it has in just the versions that the notebook had. The list of
packages also becomes a lock, made by `export --lock`, and a virtual environment of them, made by `open --env`.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportMissingTypeStubs=false

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import metadata
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from agent_kernel.errors import AgentKernelError, StoreUnavailableError
from agent_kernel.repository import Kind
from agent_kernel.session.provenance import decode_environment
from agent_kernel.session.snapshot import Snapshot
from agent_kernel.storage.archive import (
    CRATE,
    DEVICES,
    INDEX,
    LOCK,
    MANIFEST,
    NOTEBOOK,
    OBJECTS,
    README,
    RECORDS,
    REQUIREMENTS,
    ROW,
)
from agent_kernel.text import clean, exact_time
from agent_kernel.values.restore.arrays import is_long_double

if TYPE_CHECKING:
    from packaging.requirements import Requirement

    from agent_kernel.repository import Author, Commit, ObjectId
    from agent_kernel.session import Repository
    from agent_kernel.storage.archive import ArchiveStore

_KERNEL: Final = "agent-kernel"  # the distribution: whoever opens the bundle needs it, whatever the code imports


MOST_PACKED: Final = 8 << 20  # bytes of a member that is compressed: for more of them it takes too long


class Chosen(msgspec.Struct, frozen=True):
    """What a bundle is to hold: branches and tags with their commits, and the branch that whoever opens it is on."""

    branches: dict[str, ObjectId]
    tags: dict[str, ObjectId]
    head: str

    @property
    def tips(self) -> list[ObjectId]:
        return list(dict.fromkeys([*self.branches.values(), *self.tags.values()]))


class Contents(msgspec.Struct):
    """What goes into a bundle: a repository that holds no more than that, and what was left out of it."""

    repo: Repository
    chosen: Chosen
    keys: list[bytes]  # of all objects, in order
    size: int  # bytes of them
    commits: int
    sizes: dict[str, int]  # of the variables at its HEAD, by name
    left_out: dict[str, str]  # variables, and classes as `class NAME`, and why
    masked: tuple[ObjectId, ...]  # commits, by the ids in the bundle, in whose code or outputs a secret was masked
    silent: tuple[ObjectId, ...]  # and those whose outputs may show what was left out, and are left out with it
    suspects: dict[str, str]  # variables that go along although they look secret, or hold what was left out, and why
    made: Plain | None = None  # see `plain`

    @property
    def plain(self) -> Plain:
        """Copies of values for other programs, made once."""
        if self.made is None:
            self.made = plain_data(self)
        return self.made

    def size_in_file(self, least: int = 0) -> int:
        """How many bytes the file will have, but for some kilobytes that say what is in it.

        Args:
            least: for less than that nothing is compressed to find out, and the size may be less.
        """
        whole = self.size + len(self.keys) * ROW.size
        found = whole + sum(map(len, self.plain.members.values()))
        if found < least:
            return found
        packed = (zlib.compress(one) if len(one) <= MOST_PACKED else one for one in self.plain.members.values())
        return whole + sum(map(len, packed))


def make_members(contents: Contents, others: Mapping[str, bytes]) -> dict[str, bytes]:
    """Make the members that describe a bundle.

    Args:
        others: the members for readers without this package that there are already, by name: the notebook, plain data.
    """
    needed = find_needed(contents)
    found = {REQUIREMENTS: _requirements(contents, needed)}
    found[README] = _readme([*others, *found, CRATE, README])
    return found | {CRATE: _crate(contents, needed, {**others, **found})}


def encode_json(value: object) -> bytes:
    """JSON in one way: sorted, indented, UTF-8."""
    return (json.dumps(value, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode("utf-8", "backslashreplace")


def environment_of(repo: Repository, commit: Commit) -> dict[str, object]:
    if commit.environment is None:
        return {}
    found = decode_environment(repo.objects.get(Kind.SMALL, commit.environment))
    return {
        "python": found.python,
        "implementation": found.implementation,
        "platform": found.platform,
        "packages": list(found.packages),
    }


# -- plain data: JSON, numpy's `.npy`, Arrow, named as the variables
#
# What stands there is a copy of what the store holds. It is read with nothing but plain data allowed, so making it runs no code.

_DATA: Final = "data"
_MOST_EACH: Final = 64 << 20  # bytes of a variable; larger ones are in the store alone
_MOST_IN_ALL: Final = 256 << 20
_MOST_ITEMS: Final = 2_000_000


class Plain(msgspec.Struct):
    """The members with plain data, which variable each holds, and what is left to the store."""

    members: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])
    names: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # member by variable
    needs_trust: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # variable, and what is built for it


def plain_data(contents: Contents) -> Plain:
    """The plain data at HEAD of a bundle, each variable in a form that other programs read."""
    repo, chosen = contents.repo, contents.chosen
    snapshot = Snapshot(repo, chosen.branches[chosen.head], plain=True)
    found, room, used = Plain(), _MOST_IN_ALL, set[str]()
    for name in sorted(contents.sizes):
        if contents.sizes[name] > min(_MOST_EACH, room):
            continue
        try:
            value = snapshot[name]
        except AgentKernelError as error:
            reason = str(getattr(error, "reason", error))
            found.needs_trust[name] = reason.removeprefix("it needs ").partition(", and building")[0]
            continue
        written = _write_data(value)
        if written is None or len(written[1]) > min(_MOST_EACH, room):
            continue
        suffix, content = written
        member = f"{_DATA}/{_file_name(name, used)}.{suffix}"
        found.members[member], found.names[name] = content, member
        room -= len(content)
    return found


def _file_name(name: str, used: set[str]) -> str:
    """A name that any file system takes, and that no other variable has there."""
    fits = name.isascii() and name.isidentifier() and name.casefold() not in DEVICES and len(name) <= 80
    found = name if fits else "variable"
    if not fits or found.casefold() in used:
        found = f"{found[:40]}-{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    used.add(found.casefold())
    return found


def _write_data(value: object) -> tuple[str, bytes] | None:
    """The suffix of a form that holds the value, and its bytes; None where there is no such form."""
    kind = type(value)
    home = kind.__module__.partition(".")[0]
    if home == "numpy" and kind.__name__ == "ndarray":
        return _write_array(value)
    if home == "pandas" and kind.__name__ in ("DataFrame", "Series"):
        return _write_table(value)
    if home == "builtins" and _is_json(value):
        with suppress(ValueError, RecursionError):
            return "json", (json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1) + "\n").encode()
    return None


def _is_json(value: object) -> bool:
    """Whether JSON has all of it: nothing in it is of another type, or would come back as another value."""
    waiting: list[Iterator[object]] = [iter((value,))]
    items_left = _MOST_ITEMS
    while waiting:
        one = next(waiting[-1], _END)
        if one is _END:
            waiting.pop()
            continue
        items_left -= 1
        if type(one) is list or type(one) is tuple:
            waiting.append(iter(one))
        elif type(one) is dict:
            if not all(type(key) is str for key in one):
                return False
            waiting.append(iter(one.values()))
        elif not (one is None or type(one) in (bool, int, float, str)):
            return False
        if items_left < 0 or len(waiting) > 200:
            return False
    return True


_END: Final = object()


def _write_array(value: Any) -> tuple[str, bytes] | None:
    import numpy as np

    # Another platform would take long doubles in a file for other numbers.
    if value.dtype.hasobject or is_long_double(value.dtype):
        return None
    made = io.BytesIO()
    np.lib.format.write_array(made, value, allow_pickle=False)
    return "npy", made.getvalue()


def _write_table(value: Any) -> tuple[str, bytes] | None:
    frame = value.to_frame(name="value" if value.name is None else str(value.name)) if value.ndim == 1 else value
    if find_spec("pyarrow") is not None:
        pa: Any = _arrow()
        try:
            table = pa.Table.from_pandas(frame)
        except (pa.ArrowException, ValueError, TypeError):  # a column of objects of several types
            return None
        made = pa.BufferOutputStream()
        with pa.ipc.new_file(made, table.schema) as writer:
            writer.write_table(table)
        return "arrow", made.getvalue().to_pybytes()
    return "csv", frame.to_csv().encode("utf-8", "backslashreplace")


def _arrow() -> Any:
    import pyarrow as pa

    __import__("pyarrow.ipc")
    return sys.modules.get("pyarrow", pa)


# -- which packages the code needs

_JOINED: Final = re.compile(r"\\\r?\n[ \t]*")
_IMPORT: Final = re.compile(r"^\s*import\s+(?P<all>[\w., \t]+)|^\s*from\s+(?P<one>[^\W\d]\w*)[\w.]*\s+import\b")
_NAME: Final = re.compile(r"[^\W\d]\w*")
_SEPARATORS: Final = re.compile(r"[-_.]+")
_PIN: Final = re.compile(r"[a-z0-9][a-z0-9.-]*==[0-9a-z][0-9a-z.!+_-]*", re.IGNORECASE)


def find_imports(sources: Iterable[str]) -> list[str]:
    r"""Find the modules that code imports, by the first parts of their names. The code is not parsed: it may be anyone's.

    >>> find_imports(["import numpy as np, os.path", "%matplotlib inline\nfrom sklearn.svm import (\n SVC)"])
    ['numpy', 'os', 'sklearn']
    """
    lines = chain.from_iterable(_JOINED.sub(" ", source).splitlines() for source in sources)
    found: set[str] = set()
    for statement in chain.from_iterable(line.split(";") for line in lines):
        match = _IMPORT.match(statement.partition("#")[0])
        if match is None:
            continue
        parts = match["all"].split(",") if match["all"] else [match["one"]]
        found.update(name[0] for part in parts if (name := _NAME.match(part.strip())))
    return sorted(found)


class Needed(msgspec.Struct, frozen=True):
    """The packages that a history needs, each as `name==version`."""

    pins: tuple[str, ...] = ()  # sorted
    imported: tuple[str, ...] = ()  # those of the pins that the code imports itself
    unpinned: tuple[tuple[str, str], ...] = ()  # what cannot be had from an index, and why
    unknown: tuple[str, ...] = ()  # modules that no installed package has
    is_all: bool = False  # what the code needs is not known, so these are all that were installed


def find_needed(contents: Contents) -> Needed:
    """Find out which packages of the last commit's environment the code of a history needs.

    Where the exporting interpreter has other versions than the notebook had, what these depend on is not known: all packages
    of the environment are needed then.
    """
    repo, chosen = contents.repo, contents.chosen
    environment = environment_of(repo, repo.commit_at(chosen.branches[chosen.head]))
    packages = msgspec.convert(environment.get("packages", []), list[str])
    versions = dict(one.split("==", 1) for one in packages if _PIN.fullmatch(one))
    commits = (commit for _, commit in repo.history.walk(chosen.tips))
    modules = find_imports(commit.cell.source for commit in commits if commit.cell is not None)
    roots, unknown = _distributions_of(modules, versions)
    closure = _with_dependencies([*roots, *([_KERNEL] if _KERNEL in versions else [])], versions)
    if closure is not None and unknown and not _are_installed(versions):
        closure = None  # another interpreter exports: what it does not know may be a package all the same
    names = versions.keys() if closure is None else closure
    unpinned = {name: why for name in names if (why := _why_not_pinned(name, versions[name]))}
    return Needed(
        pins=tuple(f"{name}=={versions[name]}" for name in sorted(names) if name not in unpinned),
        imported=tuple(f"{name}=={versions[name]}" for name in sorted(roots)),
        unpinned=tuple((f"{name}=={versions[name]}", why) for name, why in sorted(unpinned.items())),
        unknown=tuple(unknown),
        is_all=closure is None,
    )


def _distributions_of(modules: Sequence[str], versions: Mapping[str, str]) -> tuple[set[str], list[str]]:
    """The installed packages of these modules, and the modules that have none."""
    found: set[str] = set()
    others: list[str] = []
    for module in modules:
        if _normal(module) in versions:
            found.add(_normal(module))
        elif module not in sys.stdlib_module_names:
            others.append(module)
    if not others:
        return found, []
    known = metadata.packages_distributions()  # slow: it reads what each package installed
    unknown: list[str] = []
    for module in others:
        of_module = {_normal(one) for one in known.get(module, ())} & versions.keys()
        found |= of_module
        unknown += [] if of_module else [module]
    return found, unknown


class _Installed(msgspec.Struct, frozen=True):
    """What this interpreter knows of one version of a package."""

    requires: tuple[str, ...]
    is_from_index: bool


# Of one version it does not change, and reading it takes milliseconds.
_KNOWN: Final[dict[tuple[str, str], _Installed]] = {}


def _find_installed(name: str, version: str) -> _Installed | None:
    """What this interpreter knows of a package; None where it has another version, or none."""
    found = _KNOWN.get((name, version))
    if found is None:
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            return None
        if distribution.version != version:
            return None
        is_from_index = distribution.read_text("direct_url.json") is None
        found = _KNOWN[name, version] = _Installed(tuple(distribution.requires or ()), is_from_index)
    return found


def _with_dependencies(roots: Iterable[str], versions: Mapping[str, str]) -> set[str] | None:
    """These packages and all that they need; None: the metadata here is not that of the versions that the notebook had."""
    waiting = [(name, frozenset[str]()) for name in roots]
    seen = set(waiting)
    found: set[str] = set()
    while waiting:
        name, extras = waiting.pop()
        if name not in versions:
            continue  # it was not installed where the notebook ran, and so was not needed there
        installed = _find_installed(name, versions[name])
        if installed is None:
            return None
        found.add(name)
        for requirement in _requirements_of(installed, extras):
            wanted = (_normal(requirement.name), frozenset(requirement.extras))
            if wanted not in seen:
                seen.add(wanted)
                waiting.append(wanted)
    return found


@cache
def _requirements_of(installed: _Installed, extras: frozenset[str]) -> list[Requirement]:
    """What a package needs here. Reading what it says takes longer than all else that is found out."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: list[Requirement] = []
    for text in installed.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *sorted(extras))):
            found.append(requirement)
    return found


def _why_not_pinned(name: str, version: str) -> str:
    """Why no index has this version; "" where one may have it."""
    if "+" in version:
        return "a local version"
    installed = _find_installed(name, version)
    return (
        ""
        if installed is None or installed.is_from_index
        else "installed from a folder or an address, and from no index"
    )


def _are_installed(versions: Mapping[str, str]) -> bool:
    """Whether this interpreter has what the notebook had."""
    return all(_find_installed(name, version) is not None for name, version in versions.items())


def _normal(name: str) -> str:
    return _SEPARATORS.sub("-", name).lower()


def _requirements(contents: Contents, needed: Needed) -> bytes:
    repo, chosen = contents.repo, contents.chosen
    environment = environment_of(repo, repo.commit_at(chosen.branches[chosen.head]))
    if not environment:
        return b"# The history does not say which packages were installed.\n"
    lines = [f"# Python {_one_line(environment['python'])} on {_one_line(environment['platform'])}"]
    what = "All that was installed" if needed.is_all else "What the notebook's code imports, and what that needs"
    lines += [f"# {what}, as of the bundle's last state. Install it with: python -m pip install -r {REQUIREMENTS}"]
    lines += [f"# {pin}: {why}; install it by hand" for pin, why in needed.unpinned]
    lines += [
        f"# {name}: a module of no installed package; it may be a file of the notebook's folder"
        for name in map(_one_line, needed.unknown)
    ]
    return "".join(f"{line}\n" for line in [*lines, *needed.pins]).encode()


def _one_line(value: object) -> str:
    return clean(str(value))


# -- README.txt

_DESCRIPTIONS: Final = {
    NOTEBOOK: "the notebook with its outputs, as it was last. Jupyter, VS Code and GitHub show it.",
    REQUIREMENTS: "the packages and their versions: python -m pip install -r requirements.txt",
    LOCK: "the same with the digests of their files, as PEP 751 has it.",
    CRATE: "what this is, who made it and when, in JSON-LD for archives (RO-Crate 1.2).",
    README: "this text.",
    MANIFEST: "branches, tags, variables, what was left out, and the SHA-256 of every other file.",
    OBJECTS: "the history: commits, code, outputs and values, one object after the other.",
    INDEX: "where each object lies in store/objects.",
    RECORDS: "branches, tags, HEAD, and what agents did.",
    "data/": "values as plain data: tables, arrays and texts that any program reads.",
    "signature.json": "the maker's signature of manifest.json, where there is one.",
}
_OPENING: Final = """\
This file holds a notebook with its variables and its whole history. It is a zip archive, so you can read it without the program
that made it.

To open it as it was made:

    python -m pip install agent-kernel
    agent-kernel show FILE.agentnb      says what is in it, and runs nothing
    agent-kernel open FILE.agentnb      makes the notebook, and its history beside it

Loading variables can run code of whoever made them. agent-kernel asks before it loads any. Do not load them with other tools
unless you trust the maker.
"""
_CHECKING: Final = """\
To check that nothing was changed, compare the SHA-256 of a file with the one in manifest.json, under "members":

    sha256sum notebook.ipynb            Linux
    shasum -a 256 notebook.ipynb        macOS
    Get-FileHash notebook.ipynb         Windows (PowerShell)

agent-kernel show FILE.agentnb checks all files and all objects at once. The SHA-256 of manifest.json itself is the
bundle's fingerprint: if the maker tells you it by another way, you know that the file is theirs.
"""
_READ_WITH: Final = {
    ".arrow": "pyarrow.feather.read_table(file), polars.read_ipc(file), or R's arrow package",
    ".csv": "any spreadsheet",
    ".json": "any program that reads JSON",
    ".npy": "numpy.load(file, allow_pickle=False)",
    ".parquet": "pandas.read_parquet(file), polars, DuckDB, or R's arrow package",
    ".txt": "any editor",
}


def _readme(names: Collection[str]) -> bytes:
    """The same for all bundles that have the same kinds of members."""
    present = {name if name in _DESCRIPTIONS else f"{name.partition('/')[0]}/" for name in names}
    present |= {MANIFEST, OBJECTS, INDEX, RECORDS, "signature.json"}
    wide = max(map(len, _DESCRIPTIONS)) + 2
    members = "".join(
        f"    {name:<{wide}}{description}\n" for name, description in _DESCRIPTIONS.items() if name in present
    )
    return "\n".join([_OPENING, f"What is in it:\n\n{members}", *_reading(names), _CHECKING]).encode()


def _reading(names: Collection[str]) -> list[str]:
    """How to read what needs no agent-kernel."""
    found = ["Open notebook.ipynb in Jupyter or VS Code.\n"] if NOTEBOOK in names else []
    endings = {f".{name.rpartition('.')[2]}" for name in names if name.startswith("data/")}
    lines = "".join(f"    {end:<10}{how}\n" for end, how in _READ_WITH.items() if end in endings)
    return [*found, *([f"What reads the files in data/:\n\n{lines}"] if lines else [])]


# -- RO-Crate
#
# Source: https://www.researchobject.org/ro-crate/specification/1.2/

_FORMATS: Final = {
    ".arrow": "application/vnd.apache.arrow.file",
    ".csv": "text/csv",
    ".html": "text/html",
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".parquet": "application/vnd.apache.parquet",
    ".png": "image/png",
    ".txt": "text/plain",
}
_BYTES: Final = "application/octet-stream"


def _crate(contents: Contents, needed: Needed, members: Mapping[str, bytes]) -> bytes:
    repo, chosen = contents.repo, contents.chosen
    tip = repo.commit_at(chosen.branches[chosen.head])
    commits = [commit for _, commit in repo.history.walk(chosen.tips)]
    authors = _authors(commits)
    packages = [_package(pin) for pin in (*needed.pins, *(pin for pin, _ in needed.unpinned))]
    files = [_file(name, members.get(name)) for name in sorted([*members, MANIFEST, OBJECTS, INDEX, RECORDS])]
    notebook = next((file for file in files if file["@id"] == NOTEBOOK), None)
    required = {"softwareRequirements": [_ref(one) for one in packages]}
    languages: list[dict[str, object]] = []
    if notebook is not None:
        python = environment_of(repo, tip).get("python", "")
        languages = [{"@id": "#python", "@type": "ComputerLanguage", "name": "Python", "version": python}]
        notebook["@type"] = ["File", "SoftwareSourceCode"]
        notebook |= {"programmingLanguage": {"@id": "#python"}, "author": [_ref(one) for one in authors], **required}
    last = max(commits, key=lambda commit: commit.time_ns)
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": _title(tip),
        "description": f"A notebook with its variables and its history: {len(commits):,} commits.",
        # Nobody said when it is published: the day of the last commit, so that equal states give equal bytes.
        "datePublished": _iso(last)[:10],
        "dateModified": _iso(last),
        "author": [_ref(one) for one in authors],
        "hasPart": [_ref(file) for file in files],
        **({"mainEntity": _ref(notebook)} if notebook is not None else required),
    }
    descriptor = {
        "@id": CRATE,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.2"},
    }
    graph = [descriptor, root, *files, *authors, *languages, *packages]
    return encode_json({"@context": "https://w3id.org/ro/crate/1.2/context", "@graph": graph})


def _title(tip: Commit) -> str:
    return clean(tip.document.name.removesuffix(".ipynb")) if tip.document is not None else "A notebook and its history"


def _iso(commit: Commit) -> str:
    return exact_time(commit.time_ns, commit.utc_offset_s).isoformat(timespec="seconds")


def _ref(entity: Mapping[str, object]) -> dict[str, object]:
    return {"@id": entity["@id"]}


def _authors(commits: Iterable[Commit]) -> list[dict[str, object]]:
    named: set[Author] = {commit.author for commit in commits}
    kinds = {"agent": "SoftwareApplication"}
    return [
        {"@id": f"#author-{at}", "@type": kinds.get(author.kind, "Person"), "name": author.name}
        for at, author in enumerate(sorted(named, key=lambda author: (author.kind != "person", author.name)), 1)
    ]


def _package(pin: str) -> dict[str, object]:
    name, _, version = pin.partition("==")
    return {
        "@id": f"#package-{quote(name)}",
        "@type": "SoftwareApplication",
        "name": name,
        "softwareVersion": version,
    }


def _file(name: str, content: bytes | None) -> dict[str, object]:
    """A member. `content`: None for one that is written after this is, whose digest stands in the manifest."""
    from hashlib import sha256

    description = _DESCRIPTIONS.get(name, "")
    found: dict[str, object] = {
        "@id": quote(name),
        "@type": "File",
        "name": name,
        "encodingFormat": next((kind for end, kind in _FORMATS.items() if name.endswith(end)), _BYTES),
    }
    if description:
        found["description"] = description[0].upper() + description[1:]
    if content is not None:
        found |= {"contentSize": str(len(content)), "sha256": sha256(content).hexdigest()}
    return found


# -- the lock and the virtual environment
#
# The packages of a bundle: their lock, made by `export --lock`, and a virtual environment of them, made by `open --env`.
#
# The list comes from whoever made the bundle. So nothing of it reaches pip but names with exact versions: no addresses, no options,
# no folders; where there is a lock, with the SHA-256 of their files. Wheels run no code while they are installed; source packages do, and are taken only from a maker who is trusted.


_EXACT_PIN: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?==[A-Za-z0-9!][A-Za-z0-9._!+-]*")
_SHA256: Final = re.compile("[0-9a-f]{64}")
_MOST: Final = 1 << 20  # bytes of a list
_MOST_LOCK: Final = 16 << 20
_PATIENCE_S: Final = 120.0
_STDERR: Final = 2  # what is piped is the answer alone


class MadeEnvironment(msgspec.Struct, frozen=True):
    """A virtual environment, and how its making ended."""

    folder: Path
    python: Path
    pins: tuple[str, ...]
    status: int  # of pip; 0: it has all packages

    def has(self, package: str) -> bool:
        return self.status == 0 and any(pin.partition("==")[0] == package for pin in self.pins)


def environment_path_of(notebook: Path) -> Path:
    """Where the environment of a notebook goes: `study-env` beside `study.ipynb`."""
    return notebook.with_name(f"{notebook.stem}-env")


def make_lock(pins: Sequence[str], python: str) -> tuple[bytes, str]:
    """Have uv, or else pip, look up these packages on the index that it is set up for.

    Args:
        python: the version that they are for.

    Returns:
        The lock, a `pylock.toml` of PEP 751, or empty bytes and why it could not be made.
    """
    with tempfile.TemporaryDirectory(prefix="agent-kernel-") as folder:
        listed, made = Path(folder, REQUIREMENTS), Path(folder, LOCK)
        listed.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
        if uv := shutil.which("uv"):
            words = [uv, "pip", "compile", "--quiet", "--no-header", "--format", LOCK, "--python-version", python]
            words += ["--output-file", str(made), str(listed)]
        else:
            words = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "lock"]
            words += ["--requirement", str(listed), "--output", str(made)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=_PATIENCE_S, check=False, cwd=folder)
        except subprocess.TimeoutExpired:
            return b"", f"{Path(words[0]).name} took longer than {_PATIENCE_S:.0f} s"
        if done.returncode or not made.exists():
            lines = (done.stderr or done.stdout).strip().splitlines()
            return b"", (lines[-1] if lines else f"it ended with status {done.returncode}")
        return made.read_bytes(), ""


def read_pins(store: ArchiveStore) -> tuple[str, ...]:
    """Read which packages a bundle names, each as `name==version`, and from a lock with the digests of its files.

    Raises:
        BundleError: it names none, or something else than exact versions.
    """
    archive = store.archive
    if LOCK in archive.members:
        return _read_lock(store)
    text = store.read(REQUIREMENTS, _MOST).decode("utf-8", "replace")
    lines = [line.strip() for line in text.splitlines()]
    pins = [line for line in lines if line and not line.startswith("#")]
    for pin in pins:
        if _EXACT_PIN.fullmatch(pin) is None:
            raise archive.refuse(
                f"its {REQUIREMENTS} has a line that must be a package with an exact version, and is not: {pin[:80]!r}"
            )
    if not pins:
        raise archive.refuse("it lists no packages: open it without --env")
    return tuple(pins)


def _read_lock(store: ArchiveStore) -> tuple[str, ...]:
    refuse = store.archive.refuse
    try:
        found = msgspec.convert(tomllib.loads(store.read(LOCK, _MOST_LOCK).decode()), _Lock)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError, msgspec.ValidationError) as error:
        raise refuse(f"its {LOCK} cannot be read ({error})") from error
    lines: list[str] = []
    for package in found.packages:
        pin = f"{package.name}=={package.version}"
        files = [*package.wheels, *([] if package.sdist is None else [package.sdist])]
        digests = sorted({file.hashes.get("sha256", "") for file in files})
        if _EXACT_PIN.fullmatch(pin) is None or not digests or any(_SHA256.fullmatch(one) is None for one in digests):
            raise refuse(f"its {LOCK} has a package without an exact version or a digest: {pin[:80]!r}")
        lines.append(" ".join([pin, *(f"--hash=sha256:{one}" for one in digests)]))
    if not lines:
        raise refuse(f"its {LOCK} lists no packages: open it without --env")
    return tuple(lines)


class _File(msgspec.Struct):
    hashes: dict[str, str] = {}


class _Package(msgspec.Struct):
    name: str
    version: str
    wheels: list[_File] = []
    sdist: _File | None = None


class _Lock(msgspec.Struct):
    packages: list[_Package] = []


def make_environment(folder: Path, pins: tuple[str, ...], *, trusts: bool) -> MadeEnvironment:
    """Make a virtual environment of this interpreter and install the packages. What pip says goes to standard error.

    Args:
        trusts: whether packages may be built from source, which runs their code.

    Raises:
        StoreUnavailableError: no environment can be made there.
    """
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], stdout=_STDERR, check=False)
    if made.returncode:
        raise StoreUnavailableError(str(folder), f"python -m venv ended with status {made.returncode}")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    listed = folder / REQUIREMENTS
    listed.write_text("".join(f"{pin}\n" for pin in pins), encoding="utf-8")
    words = [
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-input",
        "--quiet",
        "--requirement",
        str(listed),
        *(["--require-hashes"] if any(" --hash=" in pin for pin in pins) else []),
    ]
    # Isolated: neither PYTHONPATH nor the folder in which the command runs may give pip other code.
    done = subprocess.run(
        [str(python), "-I", *words, *([] if trusts else ["--only-binary", ":all:"])], stdout=_STDERR, check=False
    )
    return MadeEnvironment(folder, python, pins, done.returncode)
