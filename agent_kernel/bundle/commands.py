"""`export` and `import`, which act on a store, and `open`, which makes one: bundles from `%agent` and the command line."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent_kernel.bundle import exporting, keys, opening
from agent_kernel.bundle.members import (
    MadeEnvironment,
    environment_of,
    environment_path_of,
    find_needed,
    make_environment,
    make_lock,
    read_pins,
)
from agent_kernel.commands.describe import Block, Json, Line, Lines, Result, Table
from agent_kernel.commands.scope import Parser, Progress, Question, Scope, UsageProblem
from agent_kernel.errors import MissingExtraError, SigningKeyError, UntrustedStoreError
from agent_kernel.repository import hex_of, person, short
from agent_kernel.session import trust
from agent_kernel.storage.archive import REQUIREMENTS, SUFFIX
from agent_kernel.text import clean, plural, size_text

if TYPE_CHECKING:
    from agent_kernel.bundle.members import Contents

_SUFFIX = ".agentnb"
_PAGE_SUFFIX = ".html"
_MOST_LISTED = 12  # variables that were left out
_LARGE = 200 << 20  # bytes of a bundle that is not written before somebody says so


# -- export


def export_arguments(parser: Parser) -> None:
    parser.takes("file", "place", help="the file to write, STUDY.agentnb (or STUDY.html)", optional=False)
    parser.takes_all("ref", "ref", help="branches and tags (default: this branch, and the tags on the way to it)")
    parser.flag("--all", help="all branches and tags")
    parser.several("--exclude", help="leave these variables out of the whole history")
    parser.several("--keep", help="take these variables or records (Note:a) along although they look like secrets")
    parser.flag("--keep-secrets", help="take along all that looks like a secret")
    parser.flag("--html", help="write one HTML page for people who only look: code, outputs, variables, history")
    one = parser.one_of()
    parser.flag(
        "--sign", help="sign it with your key, or do not write it (default: sign it if you have a key)", group=one
    )
    parser.flag("--no-sign", help="do not sign it", group=one)
    parser.flag(
        "--lock", help="also write which files the packages are, with digests, as uv or pip finds them on your index"
    )
    parser.flag("--dry-run", help="only say what the file would hold, and how large it would be")
    parser.flag("--force", help="write over a file that is there")
    parser.flag("--yes", help="write it although it is large")
    parser.explains(
        "Variables and records that look like secrets, by their names or by what they held, are left out of the whole history, and\n"
        "keys and tokens are masked in code, outputs and agents' runs. Look through the file with show before you send it."
    )


def export(scope: Scope, options: Namespace) -> Result:
    path = _path_of(options.file, _PAGE_SUFFIX if options.html else _SUFFIX)
    if options.all and options.words:
        raise UsageProblem("--all takes every branch and tag: name none beside it")
    if path.exists() and not (options.force or options.dry_run):
        raise UsageProblem(f"{path} is there already; --force writes over it")
    if not path.absolute().parent.is_dir():
        raise UsageProblem(f"there is no folder {path.absolute().parent}")
    signer, notes = _find_signer(scope, options)
    if scope.session is not None:
        scope.session.commit("")  # what no cell committed yet goes along
    wanted = [*scope.repo.branches(), *scope.repo.tags()] if options.all else options.words
    chosen = exporting.choose(scope.repo, wanted, scope.session_id)
    contents = exporting.gather(
        scope.repo,
        chosen,
        exclude=options.exclude,
        keep=options.keep,
        keeps_secrets=options.keep_secrets,
    )
    if options.html:
        from agent_kernel.bundle.report import make_page, write_page

        size = len(make_page(contents, path.stem)) if options.dry_run else write_page(contents, path)
        return ExportedPage(contents, path, size, is_written=not options.dry_run)
    if options.dry_run:
        return Exported(contents, path, None, notes, signer)
    if not options.yes and (size := contents.size_in_file(_LARGE)) > _LARGE:
        words = [options.file, *options.words, *(["--all"] if options.all else [])]
        for option, names in (("--exclude", options.exclude), ("--keep", options.keep)):
            words += [option, *names] if names else []
        for flag in ("--keep-secrets", "--sign", "--no-sign", "--lock", "--force"):
            words += [flag] if vars(options)[flag.lstrip("-").replace("-", "_")] else []
        again = scope.spell_command("export", *words, "--yes")
        raise Question(f"The file would have {size_text(size)}, most of it {_largest(contents)}; to write it: {again}")
    sign = None if signer is None else signer.sign
    lock, why = _lock_of(contents) if options.lock else (b"", "")
    if why:
        notes = (*notes, f"No lock, only exact versions: {clean(why)}")
    written = exporting.write(contents, path, scope.step("writing"), sign=sign, lock=lock)
    return Exported(contents, path, written, notes, signer)


def _find_signer(scope: Scope, options: Namespace) -> tuple[keys.Signer | None, tuple[str, ...]]:
    """Your key, if the bundle is to be signed; and what to say where it would be, and cannot or should not."""
    if options.no_sign or not (options.sign or keys.has_own_key()):
        return None, ()
    try:
        signer = keys.load_signer()
    except (MissingExtraError, SigningKeyError) as error:
        if options.sign:
            raise
        return None, (f"Not signed: {clean(str(error))}",)
    if trust.is_trusted(scope.repo):
        return signer, ()
    trusting = scope.spell_command("trust")
    why = "somebody else made this history, and your signature would let its values be loaded"
    if options.sign:
        raise Question(f"Not signed: {why}; look through it first, then trust it: {trusting}")
    return None, (f"Not signed: {why}. To sign it, look through it first, then trust it: {trusting}",)


def _lock_of(contents: Contents) -> tuple[bytes, str]:
    pins = find_needed(contents).pins
    tip = contents.repo.commit_at(contents.chosen.branches[contents.chosen.head])
    python = str(environment_of(contents.repo, tip).get("python", ""))
    return (
        make_lock(pins, python) if pins and python else (b"", "the history does not say which packages were installed")
    )


def _largest(contents: Contents) -> str:
    names = sorted(contents.sizes, key=lambda name: contents.sizes[name], reverse=True)[:3]
    return clean(", ".join(f"{name} ({size_text(contents.sizes[name])})" for name in names)) or "its history"


def _path_of(text: str, suffix: str) -> Path:
    path = Path(text).expanduser()
    if path.suffix == suffix:
        return path
    if path.suffix == _PAGE_SUFFIX:
        raise UsageProblem(f"{path} is to be a page: add --html, or name a bundle {path.with_suffix(_SUFFIX)}")
    what = "page" if suffix == _PAGE_SUFFIX else "bundle"
    raise UsageProblem(f"a {what}'s name ends in {suffix}: {path.with_suffix(suffix)}")


@dataclass(frozen=True)
class Exported(Result):
    """What a bundle holds, and where it was written."""

    contents: Contents
    path: Path
    written: exporting.Written | None
    notes: tuple[str, ...] = ()
    signer: keys.Signer | None = None

    def to_json(self) -> Json:
        contents = self.contents
        return {
            "file": None if self.written is None else str(self.path),
            "fingerprint": None if self.written is None else self.written.fingerprint,
            "size": contents.size_in_file() if self.written is None else self.written.size,
            "branches": {name: hex_of(at) for name, at in contents.chosen.branches.items()},
            "tags": {name: hex_of(at) for name, at in contents.chosen.tags.items()},
            "head": contents.chosen.head,
            "variables": dict(contents.sizes),
            "left_out": sorted(contents.left_out),
            "reasons": dict(contents.left_out),
            "silent": [hex_of(one) for one in contents.silent],
            "masked": [hex_of(one) for one in contents.masked],
            "looks_secret": dict(contents.suspects),
            "signed_by": None
            if self.signer is None
            else {"name": self.signer.key.name, "key": self.signer.key.fingerprint},
            "notes": list(self.notes),
        }

    def blocks(self) -> Sequence[Block]:
        contents = self.contents
        size = size_text(contents.size_in_file() if self.written is None else self.written.size)
        done = f"Would write {self.path}" if self.written is None else f"Wrote {self.path}"
        counts = [plural(len(contents.chosen.branches), "branch", "branches"), plural(len(contents.chosen.tags), "tag")]
        sentence = f"{done}: {size}, {plural(contents.commits, 'commit')}, {', '.join(counts)}"
        lines: list[Block] = [Line(sentence, strong=True)]
        if self.signer is not None:
            key = self.signer.key
            signed = "Would be signed" if self.written is None else "Signed"
            lines.append(Line(f"{signed} with your key ({key.fingerprint}), as {key.name}"))
        lines += _secrets_lines(contents)
        names = sorted(contents.sizes, key=lambda name: (-contents.sizes[name], name))
        rows = tuple((clean(name), size_text(contents.sizes[name])) for name in names[:10])
        if rows:
            lines.append(Table(("Variable", "Size"), rows))
        if len(names) > len(rows):
            lines.append(Line(f"… and {plural(len(names) - len(rows), 'more variable')}"))
        lines += [Line(note) for note in self.notes]
        return lines


@dataclass(frozen=True)
class ExportedPage(Result):
    """What a page shows, and where it was written."""

    contents: Contents
    path: Path
    size: int  # bytes
    is_written: bool

    def to_json(self) -> Json:
        contents = self.contents
        return {
            "file": str(self.path) if self.is_written else None,
            "size": self.size,
            "head": contents.chosen.head,
            "left_out": sorted(contents.left_out),
            "reasons": dict(contents.left_out),
            "silent": [hex_of(one) for one in contents.silent],
            "masked": [hex_of(one) for one in contents.masked],
            "looks_secret": dict(contents.suspects),
        }

    def blocks(self) -> Sequence[Block]:
        done = "Wrote" if self.is_written else "Would write"
        commits = sum(1 for _ in self.contents.repo.history.walk(self.contents.chosen.tips))
        lines = [
            Line(f"{done} {self.path}: a page of {size_text(self.size)}, {plural(commits, 'commit')}", strong=True)
        ]
        return [*lines, *_secrets_lines(self.contents)]


def _secrets_lines(contents: Contents) -> list[Line]:
    """What was left out and masked, and what goes along all the same."""
    lines: list[Line] = []
    if contents.left_out:
        lines.append(Line("Left out of the whole history:"))
        lines_left_out = [f"{clean(name)}: {clean(why)}" for name, why in sorted(contents.left_out.items())]
        lines += [Line(f"  {one}") for one in lines_left_out[:_MOST_LISTED]]
        lines += (
            [Line(f"  and {plural(len(lines_left_out) - _MOST_LISTED, 'more variable')}")]
            if len(lines_left_out) > _MOST_LISTED
            else []
        )
    for commits, what in (
        (contents.silent, "Left out the outputs of {}, which may show them"),
        (contents.masked, "Masked what looks like a secret in {}"),
    ):
        if commits:
            named = " ".join(map(short, commits[:5]))
            lines.append(Line(f"{what.format(plural(len(commits), 'commit'))}: {named}"))
    if contents.left_out or contents.masked:
        lines.append(Line("The commits that changed by this have other ids in the file than they have here."))
    return [
        *lines,
        *(Line(f"{clean(name)} is in the file although {why}") for name, why in sorted(contents.suspects.items())),
    ]


# -- import


def import_arguments(parser: Parser) -> None:
    parser.takes("file", "place", help="a bundle, STUDY.agentnb", optional=False)
    parser.value("--prefix", metavar="TEXT", help="stands before the names of its branches and tags", default="")
    parser.flag("--trust", help="let values of the bundle be loaded, which can run its maker's code")


def import_(scope: Scope, options: Namespace) -> Result:
    path = Path(options.file).expanduser()
    try:
        done = opening.import_bundle(
            path, scope.repo, trusts=options.trust, prefix=options.prefix, progress=scope.step("checking")
        )
    except UntrustedStoreError:
        trusting = scope.spell_command("import", options.file, "--trust")
        raise Question(
            f"Loading values of {path} can run its maker's code, and this store is yours; look through it with "
            f"agent-kernel show {path}, then: {trusting}"
        ) from None
    lines = [
        f"{kind} {clean(name)} is called {clean(new)} here" if new != name else f"{kind} {clean(name)} is here"
        for kind, named in (("Branch", done.branches), ("Tag", done.tags))
        for name, new in named.items()
    ]
    lines += keys.describe_check(done.signature)
    signed: dict[str, Json] = dict(done.signature.to_json())
    return Lines(tuple(lines), {"branches": dict(done.branches), "tags": dict(done.tags), "signed": signed})


def check_bundle(path: Path, progress: Progress | None = None) -> tuple[str, ...]:
    """Verify a bundle before its cells are run again, and say who signed it.

    Raises:
        BundleError: something does not match; the text says what.
    """
    with opening.opened(path) as bundle:
        opening.verify(bundle, partial(progress, "checking") if progress is not None else None)
        return keys.describe(bundle.store)


# -- verify: the file as a whole, where the command of stores reads only the objects in it


def verify_bundle(path: Path, progress: Progress | None = None) -> Result:
    """`agent-kernel verify BUNDLE`: compare all of it with its manifest, and that with its signature.

    Raises:
        BundleError: something does not match; the text says what.
    """
    with opening.opened(path) as bundle:
        opening.verify(bundle, partial(progress, "checking") if progress is not None else None)
        signature, size = keys.check(bundle.store), bundle.store.size()
        lines = (f"{plural(size.entries, 'object')}, {size_text(size.used_bytes)} checked: all sound",)
        facts: dict[str, Json] = {
            "checked": size.entries,
            "bytes": size.used_bytes,
            "problems": [],
            "fingerprint": bundle.fingerprint,
            "signed": dict(signature.to_json()),
        }
        return Lines((*lines, *keys.describe_check(signature)), facts)


# -- open: there is no store yet


def open_command(words: Sequence[str], progress: Progress | None = None) -> Result:
    """`agent-kernel open FILE`.

    Raises:
        UsageProblem, Helped: the words do not fit, or ask for help.
    """
    parser = Parser("agent-kernel open", "Verify a bundle, then make its notebook and its store side by side.")
    parser.takes("file", "place", help="a bundle, STUDY.agentnb", optional=False)
    parser.flag("--trust", help="let its values be loaded, which can run its maker's code")
    parser.value("--as", metavar="NAME", help="what to call the notebook (default: as the bundle)", default="")
    parser.value("--folder", metavar="PATH", help="where to put it (default: here)", kind="place", default=".")
    parser.flag("--env", help="make a virtual environment beside it, with the packages that it names")
    parser.flag("--json", help="print JSON, for programs")
    parser.explains(
        "--env installs exact versions from the package index that your pip is set up for, and registers nothing. Without\n"
        "--trust it installs wheels alone, which run no code while they are installed."
    )
    options = parser.read(words)
    name = str(vars(options)["as"]).removesuffix(".ipynb")
    if "/" in name or "\\" in name:
        raise UsageProblem("--as takes a name; --folder says where")
    folder = Path(options.folder).expanduser()
    if not folder.is_dir():
        raise UsageProblem(f"there is no folder {folder}")
    step = partial(progress, "checking") if progress is not None else None
    path = Path(options.file).expanduser()
    pins = _pins_for(path, folder, name) if options.env else ()
    found = opening.open_bundle(path, folder, name=name, trusts=options.trust, progress=step)
    many = plural(found.variables, "variable")
    lines = [
        f"Opened {found.notebook}; its history is beside it, and every digest matches",
        *keys.describe_check(found.signature),
    ]
    if found.is_trusted:
        lines.append(
            f"In the notebook, run %load_ext agent_kernel, then %agent checkout: its {many} come back, and no cell runs"
        )
    else:
        lines.append(
            f"In the notebook, run %load_ext agent_kernel, then %agent checkout: of its {many}, those that are plain data come "
            f"back. The others wait until you trust the maker: look through the history with agent-kernel log "
            f"{found.notebook}, then run %agent trust and %agent checkout again"
        )
    facts: dict[str, Json] = {
        "notebook": str(found.notebook),
        "store": str(found.store),
        "trusted": found.is_trusted,
        "variables": found.variables,
        "signed": dict(found.signature.to_json()),
    }
    if not pins:
        return Lines(tuple(lines), facts)
    made = make_environment(environment_path_of(found.notebook), pins, trusts=found.is_trusted)
    facts["environment"] = {"folder": str(made.folder), "python": str(made.python), "installed": made.status == 0}
    return OpenedWithEnvironment((*lines, *_environment_lines(made, found.notebook)), facts, made.status == 0)


@dataclass(frozen=True)
class OpenedWithEnvironment(Lines):
    """What opening made, and the environment beside it."""

    is_whole: bool = True

    @property
    def ok(self) -> bool:
        return self.is_whole


def _pins_for(path: Path, folder: Path, name: str) -> tuple[str, ...]:
    """The packages that the environment is to have, before anything is made."""
    environment = environment_path_of(folder / f"{name or path.name.removesuffix(_SUFFIX)}.ipynb")
    if environment.exists():
        raise UsageProblem(f"{environment} is there already; --as NAME opens the bundle under another name")
    with opening.opened(path, soundly=True) as bundle:
        return read_pins(bundle.store)


def _own_source() -> str:
    """What pip installs this very agent-kernel from: its version, or the place that it was installed from."""
    from importlib import metadata

    try:
        own = metadata.distribution("agent-kernel")
        url = json.loads(own.read_text("direct_url.json") or "{}").get("url")
    except (metadata.PackageNotFoundError, ValueError):
        return "agent-kernel"
    return shlex.quote(str(url) if url else f"agent-kernel=={own.version}")


def _environment_lines(made: MadeEnvironment, notebook: Path) -> list[str]:
    """How to start the environment, or what to do where pip failed."""
    python, file = shlex.quote(str(made.python)), shlex.quote(str(notebook))
    if made.status:
        listed = shlex.quote(str(made.folder / REQUIREMENTS))
        again = f"{python} -m pip install -r {listed}"
        why = f"pip ended with status {made.status}, and said why above"
        return [f"Its packages were not installed: {why}. The notebook is open all the same. To try again: {again}"]
    lines = [f"Made {made.folder}, with {plural(len(made.pins), 'package')}"]
    if not made.has("agent-kernel"):
        lines.append(
            f"It has no agent-kernel, which brings the variables back: {python} -m pip install {_own_source()}"
        )
    if made.has("jupyterlab"):
        return [*lines, f"Start it: {python} -m jupyter lab {file}"]
    add = f"{python} -m pip install jupyterlab"
    return [*lines, f"Start it: {add}, then {python} -m jupyter lab {file}; in VS Code choose {python} as its kernel"]


# -- `agent-kernel key`: make your key, show it, and say whose bundles you trust by their signature

_COMMAND = "agent-kernel key"


def key_command(words: Sequence[str]) -> Result:
    """`agent-kernel key [new|show|trust|revoke]`.

    Raises:
        UsageProblem, Helped: the words do not fit, or ask for help.
        MissingExtraError: cryptography is needed, and not installed.
        SigningKeyError: a key, or a file of keys, cannot be used. StoreReadOnlyError: nothing can be written down.
    """
    action = words[0] if words and words[0] in _ACTIONS else ""
    if not action:
        return _list(_parser().read(words))
    help_text, arguments, act = _ACTIONS[action]
    parser = Parser(f"{_COMMAND} {action}", help_text)
    arguments(parser)
    parser.flag("--json", help="print JSON, for programs")
    return act(parser.read(words[1:]))


def _parser() -> Parser:
    parser = Parser(_COMMAND, "List your key and the keys that you know, and which of them you trust.")
    parser.flag("--json", help="print JSON, for programs")
    parser.explains(
        "agent-kernel key new [--name NAME] [--replace]    make your key; export signs bundles with it from then on\n"
        "agent-kernel key show                             print its public half, to send to a colleague\n"
        "agent-kernel key trust KEY [--name NAME]          trust all bundles that this key signed, and will sign:\n"
        "                                                  a line from key show, a bundle, or a key that you know\n"
        "agent-kernel key revoke KEY                       trust them no longer"
    )
    return parser


def _list(options: Namespace) -> Result:
    return Keys(tuple(keys.list_keys()), keys.own_problem())


@dataclass(frozen=True)
class Keys(Result):
    """The keys that this user has and knows."""

    keys: tuple[keys.Key, ...]
    problem: str = ""  # with their own

    def to_json(self) -> Json:
        return {"keys": [_json(key) for key in self.keys], "problem": self.problem or None}

    def blocks(self) -> Sequence[Block]:
        rows = tuple((key.name, key.fingerprint, _trust_text(key)) for key in self.keys)
        lines: list[Block] = [Table(("Name", "Fingerprint", ""), rows)] if rows else []
        if self.problem:
            lines.append(Line(clean(self.problem)))
        elif not any(key.is_own for key in self.keys):
            lines.append(Line("You have no key of your own; agent-kernel key new makes one"))
        return lines


def _trust_text(key: keys.Key) -> str:
    trust = "trusted" if key.is_trusted else "revoked"
    return f"yours, {trust}" if key.is_own else trust


def _json(key: keys.Key) -> dict[str, Json]:
    return {
        "name": key.name,
        "fingerprint": key.fingerprint,
        "line": keys.key_line(key),
        "own": key.is_own,
        "trusted": key.is_trusted,
    }


def _no_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def _new_arguments(parser: Parser) -> None:
    parser.value("--name", metavar="NAME", help="by which you go (default: the author of your commits)", default="")
    parser.flag(
        "--replace", help="delete the key that you have; what it signed is trusted as before, until you revoke it"
    )


def _new(options: Namespace) -> Result:
    key = keys.make_key(options.name or person().name, replace=options.replace)
    lines = (
        f"Made the key {key.fingerprint} of {key.name}: export signs bundles with it from now on",
        "Your colleagues trust it with agent-kernel key trust and this line:",
        keys.key_line(key),
    )
    return Lines(lines, _json(key))


def _show(options: Namespace) -> Result:
    if problem := keys.own_problem():
        raise UsageProblem(clean(problem))
    own = next((key for key in keys.list_keys() if key.is_own), None)
    if own is None:
        raise SigningKeyError("your key", "you have made none; agent-kernel key new makes one")
    return Lines((keys.key_line(own),), _json(own))


def _trust_arguments(parser: Parser) -> None:
    parser.takes_all("key", "text", help="a line from key show, a bundle, or the name or fingerprint of a known key")
    parser.value(
        "--name", metavar="NAME", help="what to call its owner here (default: as the line or the bundle)", default=""
    )
    parser.explains(
        "Values of a bundle that a trusted key signed are loaded without asking, which can run code of whoever has the\n"
        "key. First compare the fingerprint, which agent-kernel verify STUDY.agentnb prints, with the one that its owner tells\n"
        "you by another way than the one the bundle came: agent-kernel key prints it for them."
    )


def _trust(options: Namespace) -> Result:
    text = " ".join(options.words)
    if not text:
        raise UsageProblem(f"say which key: a line from key show, a bundle, or a name ({_COMMAND} trust KEY)")
    key = keys.trust_key(*_key_meant(text, options.name))
    lines = (
        f"Bundles signed with {key.fingerprint} are trusted from now on, as those of {key.name}",
        "Compare that with what agent-kernel key prints for its owner, if you have not yet: ask them on the phone, say",
        f"If it is another one: {_COMMAND} revoke {key.fingerprint[:8]}",
    )
    return Lines(lines, _json(key))


def _key_meant(text: str, name: str) -> tuple[bytes, str]:
    """The public key, and what to call its owner."""
    if keys.is_key_line(text):
        public, claimed = keys.read_key_line(text)
    elif text.endswith(SUFFIX):
        with opening.opened(Path(text).expanduser()) as bundle:
            public, claimed = keys.signer_of(bundle.store)
    else:
        return keys.find_key(text).public, name
    known = next((key.name for key in keys.list_keys() if key.public == public), "")
    name = name or known or claimed
    if not name:
        raise UsageProblem("the line does not say whose key it is: --name NAME does")
    return public, name


def _revoke_arguments(parser: Parser) -> None:
    parser.takes_all("key", "text", help="the name or the fingerprint of a key, or its first 8 digits")
    parser.explains(
        "Bundles are not trusted any more because this key signed them. What was opened before is a store of its own and\n"
        "stays trusted; agent-kernel trust NOTEBOOK --revoke takes that back, for what was imported too."
    )


def _revoke(options: Namespace) -> Result:
    text = " ".join(options.words)
    if not text:
        raise UsageProblem(f"say which key, by its name or fingerprint ({_COMMAND} revoke KEY)")
    key = keys.revoke_key(text)
    lines = [
        f"You no longer trust bundles because {key.fingerprint} ({key.name}) signed them",
        "What was opened before stays trusted: agent-kernel trust NOTEBOOK --revoke takes that back",
    ]
    if key.is_own:
        lines.append("Yours signs nothing any more: agent-kernel key new --replace makes another")
    return Lines(tuple(lines), _json(key))


_ACTIONS: dict[str, tuple[str, Callable[[Parser], None], Callable[[Namespace], Result]]] = {
    "new": ("Make your key.", _new_arguments, _new),
    "show": ("Print the public half of your key, to send to a colleague.", _no_arguments, _show),
    "trust": ("Trust all bundles that a key signed, and will sign.", _trust_arguments, _trust),
    "revoke": ("Trust a key no longer.", _revoke_arguments, _revoke),
}
