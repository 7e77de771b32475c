"""Say what is in a history or a bundle: for who has the bundle, as text; for who has nothing but a browser, as one HTML page.

All of it is read from the history itself; that of a bundle is verified first. What the manifest alone can say, what was left out
and which packages the code imports, is called its maker's word. Nothing is unpickled, and every text is cleaned: a bundle may come
from anyone.
"""

from __future__ import annotations

import base64
import hashlib
import io
import keyword
import re
import sys
import tokenize
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from agent_kernel.bundle import keys
from agent_kernel.bundle.members import environment_of, find_needed
from agent_kernel.bundle.opening import OpenBundle, opened, verify
from agent_kernel.commands import describe
from agent_kernel.commands.describe import Block, Json, Line, Result, Table
from agent_kernel.commands.history import Log, Step, assign, log
from agent_kernel.commands.scope import Progress, Scope
from agent_kernel.commands.show import MaskedOutputs, outputs_of
from agent_kernel.errors import AgentKernelError, BundleError, NewerFormatError, StoreFullError, StoreUnavailableError
from agent_kernel.repository import Author, Commit, Entry, Head, ObjectId, Output, Representation, hex_of, short
from agent_kernel.session import Repository, history
from agent_kernel.session.history import rank_of, size_of, summary_of
from agent_kernel.session.provenance import NotebookCell, read_notebook
from agent_kernel.storage.archive import SUFFIX
from agent_kernel.text import clean, clean_lines, duration, exact_time, list_names, plural, size_text
from agent_kernel.values import previews

if TYPE_CHECKING:
    from agent_kernel.bundle.members import Contents
    from agent_kernel.session import Repository

_SCHEME: Final = "bundle://"
_COMMITS: Final = 10  # of the history
_VARIABLES: Final = 20
_END_OF_TIME_NS: Final = 253_370_764_800 * 1_000_000_000  # the year 9999 begins
_DAY_S: Final = 86_400
_NAMES: Final = 12  # of branches, tags, authors, packages, and what was left out


class Variable(msgspec.Struct, frozen=True):
    """A variable as HEAD holds it."""

    name: str
    type: str
    size: int  # bytes
    preview: str


class Environment(msgspec.Struct, frozen=True):
    """What the notebook ran on. `imported`: the packages that its code imports, by the word of whoever made the bundle."""

    python: str = ""
    implementation: str = ""
    platform: str = ""
    packages: tuple[str, ...] = ()  # name==version
    imported: tuple[str, ...] = ()

    def ordered(self) -> tuple[str, ...]:
        """The packages, what the code imports first."""
        first = [one for one in self.packages if one in frozenset(self.imported)]
        return (*first, *(one for one in self.packages if one not in frozenset(first)))


class Facts(msgspec.Struct, frozen=True):
    """What a history says of itself, as a bundle shows it and a page does."""

    notebook: str
    branch: str
    head: ObjectId
    branches: dict[str, ObjectId]
    tags: dict[str, ObjectId]
    commits: int
    first: Commit
    last: Commit
    authors: tuple[Author, ...]  # most commits first
    variables: tuple[Variable, ...]
    environment: Environment


class _ManifestFields(msgspec.Struct, frozen=True):
    """What the manifest alone can say."""

    left_out: tuple[str, ...] = ()
    masked: tuple[str, ...] = ()
    variables: dict[str, _VariableFields] = {}

    def needs_trust(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, one in self.variables.items() if one.needs_trust))


class _VariableFields(msgspec.Struct, frozen=True):
    needs_trust: str = ""  # why


class _PackageFields(msgspec.Struct, frozen=True):
    imported: tuple[str, ...] = ()


def read_facts(repo: Repository, branch: str, imported: Sequence[str] = ()) -> Facts:
    """Read what a repository that is all of a bundle says of itself.

    Args:
        branch: the one that HEAD is on.
        imported: the packages that the code imports, as `name==version`.

    Raises:
        BundleError: a commit has a time that no calendar has. DamagedObjectError: an object is damaged.
    """
    branches, tags = repo.branches(), repo.tags()
    head = branches[branch]
    count, first, last = 0, None, None
    authors: dict[Author, int] = {}
    for _, commit in repo.history.walk([*branches.values(), *tags.values()]):
        if not 0 <= commit.time_ns < _END_OF_TIME_NS or abs(commit.utc_offset_s) >= _DAY_S:
            raise BundleError(repo.store.url, "a commit of it has a time that no calendar has")
        count, last, first = count + 1, last or commit, commit
        authors[commit.author] = authors.get(commit.author, 0) + 1
    tip = repo.commit_at(head)
    assert first is not None
    assert last is not None
    return Facts(
        notebook=tip.document.name if tip.document is not None else "",
        branch=branch,
        head=head,
        branches=branches,
        tags=tags,
        commits=count,
        first=first,
        last=last,
        authors=tuple(sorted(authors, key=lambda author: (-authors[author], author.name, author.kind))),
        variables=_variables(repo, head),
        environment=msgspec.structs.replace(
            msgspec.convert(environment_of(repo, tip), Environment), imported=tuple(imported)
        ),
    )


def _variables(repo: Repository, head: ObjectId) -> tuple[Variable, ...]:
    """The variables at HEAD, the most interesting first, as everywhere."""
    entries = {name: entry for name, entry in repo.tree_at(head).items() if not name.startswith("\0")}
    sizes = {name: size_of(repo, entry) for name, entry in entries.items()}
    ranks = {name: rank_of(repo, entry) for name, entry in entries.items()}
    found: list[Variable] = []
    for name in sorted(entries, key=lambda name: (ranks[name], -sizes[name], name)):
        summary = summary_of(repo, entries[name])
        missing = describe.not_saved(repo, name, entries[name])
        kind, preview = ("", "not described") if summary is None else (previews.noun(summary), _preview(summary))
        size = 0 if missing is not None and missing.is_whole else sizes[name]
        text = f"{preview} ({missing.sentence})".lstrip() if missing is not None else preview
        found.append(Variable(name, kind, size, text))
    return tuple(found)


def _preview(summary: previews.Preview) -> str:
    """What the value holds; of a table its size and its columns."""
    text = previews.content(summary)
    names = [clean(column.name) for column in summary.columns] if summary.kind == "frame" else []
    return f"{text}: {list_names(names, 6)}" if names else text


# -- `agent-kernel show STUDY.agentnb`


def show_bundle(url: str, *, named: str, command: str, now_ns: int, progress: Progress | None = None) -> BundleReport:
    """Verify a bundle and say what it holds.

    Args:
        url: `bundle://` and its path. named: how whoever asks named it.

    Raises:
        BundleError: it is not a bundle at all. NewerFormatError: a newer release made it.
    """
    path = Path(url.removeprefix(_SCHEME))
    with opened(path) as bundle:
        found = inspect_bundle(bundle, named=named, progress=progress)
        if found.facts is None:
            return found
        scope = Scope(bundle.repo, store_name=named, command=command, now_ns=now_ns)
        options = Namespace(rev=None, limit=_COMMITS, all=True, search=None, names=[], json=False)
        older = scope.spell_command("log", "--all") if found.facts.commits > _COMMITS else ""
        return replace(found, history=replace(log(scope, options), older=older))


def inspect_bundle(bundle: OpenBundle, *, named: str = "", progress: Progress | None = None) -> BundleReport:
    """Verify an open bundle, and read what it says of itself if it is whole.

    Raises:
        BundleError: its manifest or its history is not in its form.
    """
    problem = ""
    try:
        verify(bundle, partial(progress, "checking") if progress is not None else None)
    except BundleError as error:
        problem = error.reason
    fields, imported = (_ManifestFields(), ()) if problem else _read_manifest(bundle)
    found = BundleReport(
        path=bundle.path,
        named=named,
        size=bundle.store.archive.size,
        fingerprint=bundle.fingerprint,
        problem=clean(problem),
        signature="; ".join(keys.describe(bundle.store)),
        left_out=fields.left_out,
        masked=fields.masked,
        needs_trust=fields.needs_trust(),
    )
    if problem:
        return found  # what is damaged is not read any further: it may unpack to anything
    try:
        return replace(found, facts=read_facts(bundle.repo, bundle.repo.head().branch or "", imported))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BundleError(str(bundle.path), f"its history is not in its form ({error})") from error


def _read_manifest(bundle: OpenBundle) -> tuple[_ManifestFields, tuple[str, ...]]:
    """What the manifest says, and the packages that it says the code imports."""
    try:
        fields = msgspec.convert(bundle.manifest, _ManifestFields)
        packages = msgspec.convert(bundle.manifest.get("environment", {}), _PackageFields)
    except msgspec.ValidationError as error:
        raise BundleError(str(bundle.path), f"its manifest is not in its form ({error})") from error
    return fields, packages.imported


@dataclass(frozen=True)
class BundleReport(Result):
    """A bundle as a whole."""

    path: Path
    named: str
    size: int  # bytes
    fingerprint: str
    problem: str  # what does not match; "": all of it does
    signature: str  # who signed it, in a line
    left_out: tuple[str, ...]
    masked: tuple[str, ...]
    needs_trust: tuple[str, ...]  # variables that building would run code for
    facts: Facts | None = None  # None: it is not whole, and so not read any further
    history: Log | None = None

    @property
    def ok(self) -> bool:
        return not self.problem

    def to_json(self) -> Json:
        summary: dict[str, Json] = {
            "file": str(self.path),
            "size": self.size,
            "fingerprint": self.fingerprint,
            "whole": not self.problem,
            "problem": self.problem or None,
            "signature": self.signature or None,
            "left_out": list(self.left_out),
            "masked": list(self.masked),
            "needs_trust": list(self.needs_trust),
        }
        facts = self.facts
        if facts is None or self.history is None:
            return summary
        environment = facts.environment
        more: dict[str, Json] = {
            "notebook": facts.notebook,
            "head": {"branch": facts.branch, "commit": hex_of(facts.head)},
            "branches": {name: hex_of(at) for name, at in facts.branches.items()},
            "tags": {name: hex_of(at) for name, at in facts.tags.items()},
            "commits": facts.commits,
            "first": _iso(facts.first),
            "last": _iso(facts.last),
            "authors": [{"name": author.name, "kind": author.kind} for author in facts.authors],
            "environment": {
                "python": environment.python,
                "implementation": environment.implementation,
                "platform": environment.platform,
                "imported": [one for one in environment.ordered() if one in environment.imported],
                "packages": list(environment.packages),
            },
            "variables": [
                {"name": one.name, "type": one.type, "size": one.size, "preview": one.preview}
                for one in facts.variables
            ],
            "history": self.history.to_json(),
        }
        return summary | more

    def to_text(self, width: int | None = None, *, colour: bool = False) -> str:
        text = super().to_text(width, colour=colour)
        return text if self.history is None else f"{text}\n{self.history.to_text(width, colour=colour)}"

    def to_html(self) -> str:
        html = super().to_html()
        return html if self.history is None else html + self.history.to_html()

    def blocks(self) -> Sequence[Block]:
        facts = self.facts
        head = Line(f"{clean(self.path.name)}: a bundle of {size_text(self.size)}", strong=True)
        whole = f"no: {self.problem}" if self.problem else "yes: every digest matches"
        rows = [("Whole:", whole), ("Signature:", self.signature)]
        if facts is not None:  # of what is damaged nothing more is read
            rows += [("Notebook:", clean(facts.notebook)), *_facts_rows(facts)]
            rows += [("Left out:", _list(self.left_out)), ("Masked:", _masked(self.masked))]
            rows += [("Needs trust:", _list(self.needs_trust)), ("Fingerprint:", self.fingerprint)]
        blocks: list[Block] = [head, Table(("", ""), tuple(row for row in rows if row[1]), flexible=-1)]
        if facts is None:
            return blocks
        blocks += [Line(""), *_variables_blocks(facts, self._spell_show(f"{facts.branch}:NAME"))]
        return [*blocks, Line(""), Line("History", strong=True)]

    def _spell_show(self, what: str) -> str:
        return Scope(None, store_name=self.named, command="agent-kernel").spell_command("show", what)


def _facts_rows(facts: Facts) -> list[tuple[str, str]]:
    authors = [clean(author.name) + (" (agent)" if author.kind == "agent" else "") for author in facts.authors]
    environment = facts.environment
    python = " ".join(filter(None, [environment.implementation, environment.python]))
    where = clean(", ".join(filter(None, [f"{python} on {environment.platform}" if environment.platform else python])))
    imported = [one.replace("==", " ") for one in environment.ordered() if one in environment.imported]
    installed = plural(len(environment.packages), "package") if environment.packages else ""
    return [
        ("HEAD:", f"{short(facts.head)} on branch {clean(facts.branch)}"),
        ("Branches:", _list(sorted(facts.branches))),
        ("Tags:", _list(sorted(facts.tags))),
        ("Commits:", f"{facts.commits:,}, {_span(facts)}"),
        ("Made by:", list_names(authors, _NAMES)),
        ("Ran on:", where),
        ("Imports:", _list(imported)),
        ("Installed:", installed),
    ]


def _span(facts: Facts) -> str:
    first, last = (exact_time(one.time_ns, one.utc_offset_s) for one in (facts.first, facts.last))
    if first.date() == last.date():
        return f"{first:%a %d %b %Y}, {first:%H:%M} to {last:%H:%M}"
    return f"{first:%a %d %b %Y %H:%M} to {last:%a %d %b %Y %H:%M}"


def _iso(commit: Commit) -> str:
    return exact_time(commit.time_ns, commit.utc_offset_s).isoformat(timespec="microseconds")


def _list(names: Sequence[str]) -> str:
    return list_names(names, _NAMES)


def _masked(commits: Sequence[str]) -> str:
    if not commits:
        return ""
    ids = list_names([one[:8] for one in commits], 5)
    return f"what looked like a secret, in {plural(len(commits), 'commit')}: {ids}"


def _variables_blocks(facts: Facts, more: str) -> list[Block]:
    many = len(facts.variables)
    if not many:
        return [Line(f"No variables at {short(facts.head)}", strong=True)]
    variables = facts.variables[:_VARIABLES]
    rows = tuple((clean(one.name), one.type, size_text(one.size) if one.size else "", one.preview) for one in variables)
    title = Line(f"{plural(many, 'variable')} at {short(facts.head)}", strong=True)
    rest = (
        [Line(f"… and {plural(many - len(variables), 'more variable')}; one of them: {more}")]
        if many > len(variables)
        else []
    )
    return [title, Table(("Name", "Type", "Size", "Holds"), rows, right=frozenset({2}), flexible=3), *rest]


# -- one HTML page of a history: code, outputs, variables, environment, digests
#
# It is made from what goes into a bundle (`exporting.gather`), so what is left out there is left out here, or from a bundle that is
# there, with what was verified of it on top. What looks like a secret is masked once more. The page is one file that runs nothing
# and asks the network for nothing: its policy forbids both, all text in it is escaped, and HTML, SVG and JavaScript that cells showed
# stand in it as text. Only PNG, JPEG and GIF become pictures. Equal states give equal pages. A page is bounded, however long the
# history: it says what it leaves out.


Theme = Literal["", "light", "dark"]  # "": as the reader's system has it

_MOST_COMMITS: Final = 200  # the newest; older ones are counted
_CELLS: Final = 300
_MOST_VARIABLES: Final = 200
_CHANGES: Final = 12  # variables of one commit
_REFS: Final = 100
_TEXT: Final = 20_000  # characters of one cell's code, or of one output
_ALL_TEXT: Final = 3_000_000  # characters of all code and outputs
_MOST_HIGHLIGHTED: Final = 400_000  # of these in code that is painted: marks take more room than what they mark
_LINE: Final = 400  # characters of a name, a title, a value
_PICTURE: Final = 2 << 20  # bytes
_ALL_PICTURES: Final = 12 << 20
_LANES: Final = 6


def write_page(contents: Contents, path: Path) -> int:
    """Write the page and return how many bytes it has. A file that is there is replaced once the new one is whole.

    Raises:
        StoreFullError, StoreUnavailableError: the file cannot be written.
    """
    import errno

    page = make_page(contents, path.stem)
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        temporary.write_bytes(page)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFullError(str(path), str(error)) from error
        raise StoreUnavailableError(str(path), error.strerror or str(error)) from error
    return len(page)


def make_page(contents: Contents, title: str) -> bytes:
    """The page of what goes into a bundle. `title`: what stands at the top where no notebook's name is known."""
    facts = read_facts(contents.repo, contents.chosen.head, find_needed(contents).imported)
    return _make(_Page(contents.repo, facts, list(contents.left_out), len(contents.masked)), title)


def make_bundle_page(path: Path, theme: Theme = "") -> bytes:
    """The page of a bundle. On top stands whether it is whole and who signed it; of one that is not whole nothing else is shown.

    Of a file that cannot be shown there is a page too, which says why not.
    """
    title = path.name
    try:
        with opened(path) as bundle:
            report = inspect_bundle(bundle)
            if report.facts is None:
                return make_refusal(title, report.problem, theme, report)
            page = _Page(bundle.repo, report.facts, report.left_out, len(report.masked), report)
            return _make(page, title.removesuffix(SUFFIX), theme)
    except BundleError as error:
        return make_refusal(title, error.reason, theme)
    except NewerFormatError:
        return make_refusal(title, "a newer release of agent-kernel made it, and can show it", theme)
    except (msgspec.MsgspecError, UnicodeDecodeError, AgentKernelError) as error:
        return make_refusal(title, f"its history is not in its form ({error})", theme)


def _make(page: _Page, title: str, theme: Theme = "") -> bytes:
    name = clean(page.notebook.removesuffix(".ipynb") or title)
    sections = [found for found in page.sections() if found.html]
    return _encode(_document(name, page.header(name), sections, theme))


def make_refusal(title: str, reason: str, theme: Theme, report: BundleReport | None = None) -> bytes:
    """The page of a bundle of which no more can be shown than why not. `report`: what is known of it all the same."""
    word, signature = ("Not whole", report.signature) if report is not None else ("Not shown", "")
    verdict = _verdict("bad", word, f"{reason}. Nothing more of it is read.", signature)
    digest = _list_html([("Fingerprint", _fingerprint(report.fingerprint))]) if report else ""
    return _encode(_document(clean(title), f"<header><h1>{_text(title)}</h1>{verdict}{digest}</header>", [], theme))


def _encode(page: str) -> bytes:
    return page.encode("utf-8", "backslashreplace")


class _Section(msgspec.Struct, frozen=True):
    id: str
    title: str
    count: str
    html: str


# -- what may stand in the page: `escape` is the only way for text into it


def _text(text: object) -> str:
    """One line of anyone's text, and no more of it than anyone reads."""
    line = clean(str(text))
    return escape(line if len(line) <= _LINE else f"{line[: _LINE - 1]}…")


def _tag(name: str, html: str, **attributes: str) -> str:
    attribute_text = "".join(f' {key.rstrip("_")}="{escape(value)}"' for key, value in attributes.items())
    return f"<{name}{attribute_text}>{html}</{name}>"


def _code(source: str) -> str:
    """Code with its keywords, texts, numbers and comments marked; where it is not Python, as it is."""
    try:
        return "".join(_painted(source))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
        return escape(source)


_KINDS: Final = {tokenize.STRING: "st", tokenize.NUMBER: "nu", tokenize.COMMENT: "co"}
_F_STRINGS: Final = ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")  # pieces of one text, from Python 3.12 on


def _painted(source: str) -> Iterator[str]:
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    done = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_keyword = token.type == tokenize.NAME and keyword.iskeyword(token.string)
        is_piece = tokenize.tok_name[token.type] in _F_STRINGS
        kind = "kw" if is_keyword else "st" if is_piece else _KINDS.get(token.type, "")
        start, end = starts[token.start[0] - 1] + token.start[1], starts[token.end[0] - 1] + token.end[1]
        if not kind or not done <= start < end <= len(source):
            continue
        yield escape(source[done:start]) + _tag("span", escape(source[start:end]), class_=kind)
        done = end
    yield escape(source[done:])


_WIDE_LINE: Final = 36  # characters; on a phone a longer line has to be scrolled, and so reached by the keyboard


def _pre(text: str, html: str, kind: str = "") -> str:
    """Lines as they are. `html`: the same text, which may be marked up."""
    stop = ' tabindex="0"' if any(len(line) > _WIDE_LINE for line in text.splitlines()) else ""
    attribute = f' class="{kind}"' if kind else ""
    return f"<pre{attribute}{stop}>{html}</pre>"


_HEADING: Final = re.compile(r"(#{1,6})\s+(.+?)\s*#*$")
_BULLET: Final = re.compile(r"(\s*)[-*+]\s+(?=\S)")


def _prose(text: str) -> str:
    """Markdown as it was written, with its headings and bullets to be seen; all else stays text."""
    found: list[str] = []
    is_code = False
    for line in text.splitlines():
        is_code ^= line.lstrip().startswith(("```", "~~~"))
        heading = None if is_code else _HEADING.match(line)
        if heading is not None:
            found.append(_tag("strong", escape(heading[2]), class_=f"h{min(len(heading[1]), 3)}"))
        else:
            found.append(escape(line if is_code else _BULLET.sub(r"\1• ", line, count=1)))
    return "\n".join(found)


def _when(commit: Commit) -> str:
    return f"{exact_time(commit.time_ns, commit.utc_offset_s):%d %b %Y, %H:%M}"


def _day(commit: Commit) -> str:
    return f"{exact_time(commit.time_ns, commit.utc_offset_s):%d %b %Y}"


def _list_html(facts: Iterable[tuple[str, str]]) -> str:
    """Facts with their names; the values are HTML already. Those without a value are left out."""
    return _tag("dl", "".join(f"<div><dt>{escape(name)}</dt><dd>{html}</dd></div>" for name, html in facts if html))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table that scrolls by itself where it is wide; the cells are HTML already."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll {kind}" tabindex="0">{table}</div>'


class _Page:
    """The parts of the page, and how much room there is left for text and pictures."""

    def __init__(
        self, repo: Repository, facts: Facts, left_out: Sequence[str], masked: int, bundle: BundleReport | None = None
    ) -> None:
        self._repo, self._facts, self._left_out, self._masked = repo, facts, left_out, masked
        self._bundle = bundle
        self._text_room, self._picture_room, self._highlight_room = _ALL_TEXT, _ALL_PICTURES, _MOST_HIGHLIGHTED
        self._refs = describe.decorations(self._repo, Head(facts.branch, facts.head))

    @property
    def notebook(self) -> str:
        return self._facts.notebook

    # -- from top to bottom

    def header(self, name: str) -> str:
        facts, bundle = self._facts, self._bundle
        people = [clean(author.name) + (" (agent)" if author.kind == "agent" else "") for author in facts.authors]
        first, last = _day(facts.first), _day(facts.last)
        span = last if first == last else f"{first} to {last}"
        many = f"{facts.commits:,} {'commit' if facts.commits == 1 else 'commits'}"
        lead = f"{many} on {plural(len(facts.branches), 'branch', 'branches')}, {span}"
        environment = facts.environment
        python = " ".join(filter(None, [environment.implementation, environment.python]))
        where = f"{python} on {environment.platform}" if environment.platform else python
        list_html = _list_html(
            [
                ("Made by", escape(_some(people, 12))),
                ("State", f"{_id(facts.head)} on branch {self._ref(facts.branch, 'branch')}"),
                ("Tags", " ".join(self._ref(tag, "tag") for tag in sorted(facts.tags)[:12])),
                ("Ran on", _text(where)),
                ("Imports", escape(_some([pin.replace("==", " ") for pin in environment.imported], 12))),
                ("Left out", escape(_some(list(self._left_out), 24))),
                ("Masked", self._what_is_masked()),
                ("Needs trust", escape(_some(bundle.needs_trust, 24)) if bundle is not None else ""),
                ("Fingerprint", _fingerprint(bundle.fingerprint) if bundle is not None else ""),
            ]
        )
        top = _verdict("good", "Whole", "every digest matches", bundle.signature) if bundle is not None else ""
        return f'<header><h1>{escape(name)}</h1><p class="lead">{escape(lead)}</p>{top}{list_html}</header>'

    def sections(self) -> list[_Section]:
        facts = self._facts
        cells, many = self._cells()
        return [
            _Section("notebook", "Notebook", plural(many, "cell"), cells),
            _Section("variables", "Variables", f"{len(facts.variables):,}", self._variables()),
            _Section("history", "History", plural(facts.commits, "commit"), self._history(is_open=not cells)),
            _Section("environment", "Environment", self._packages_count(), self._environment()),
            _Section("digests", "Digests", "", self._digests()),
        ]

    def _what_is_masked(self) -> str:
        return f"What looked like a secret, in {plural(self._masked, 'commit')}" if self._masked else ""

    def _ref(self, name: str, kind: str) -> str:
        return _tag("span", _text(name), class_=f"ref {kind}")

    # -- the notebook as it was last, with what its cells showed

    def _cells(self) -> tuple[str, int]:
        document = read_notebook(self._repo.objects, self._repo.commit_at(self._facts.head))
        ran = self._last_runs()
        if document is not None and document.cells:
            cells, note = list(document.cells), ""
        else:
            cells = [NotebookCell(id, "code", one.cell.source) for id, one in ran.items() if one.cell is not None][::-1]
            note = '<p class="note">The cells stand in the order in which they ran last.</p>'
        sections = [self._cell(cell, ran.get(cell.id)) for cell in cells[:_CELLS]]
        more = len(cells) - len(sections)
        rest = f'<p class="note">{plural(more, "more cell")} left out.</p>' if more > 0 else ""
        html = "".join(sections)
        return (f"{html}{rest}{note}", len(cells)) if html else ("", 0)

    def _last_runs(self) -> dict[str, Commit]:
        """By the id of each cell, the commit in which it ran last on the way to HEAD, newest first."""
        found: dict[str, Commit] = {}
        for _, commit in self._repo.history.walk([self._facts.head]):
            if commit.cell is not None and commit.cell.id:
                found.setdefault(commit.cell.id, commit)
        return found

    def _cell(self, cell: NotebookCell, ran: Commit | None) -> str:
        if cell.type != "code":
            text = self._cut(clean_lines(previews.mask_text(cell.source.strip("\n"))))
            return f'<div class="cell prose">{_prose(text)}</div>' if text.strip() else ""
        source = previews.mask_code(cell.source)[0]
        is_same = ran is not None and ran.cell is not None and previews.mask_code(ran.cell.source)[0] == source
        prompt = history.prompt(ran) if ran is not None and is_same else "[ ]"
        outputs = self._outputs(ran) if ran is not None and is_same else ""
        return (
            f'<div class="cell"><div class="prompt">{escape(prompt)}</div>'
            f'<div class="body">{self._source(source)}{outputs}</div></div>'
        )

    def _source(self, source: str) -> str:
        text = self._cut(clean_lines(source.strip("\n")))
        self._highlight_room -= len(text)
        html = _code(text) if self._highlight_room >= 0 else escape(text)
        return _pre(text, f"<code>{html}</code>", "code") if text.strip() else ""

    def _cut(self, text: str, most: int = _TEXT) -> str:
        """As much of the text as there is room for. It says how much is missing."""
        room = max(0, min(most, self._text_room))
        beginning = text if len(text) <= room else text[:room]
        self._text_room -= len(beginning)
        return (
            beginning
            if beginning == text
            else f"{beginning}\n… {len(text) - len(beginning):,} more characters left out"
        )

    # -- what cells showed

    def _outputs(self, commit: Commit) -> str:
        outputs = outputs_of(self._repo, commit)
        if outputs is None:
            return ""
        found = [self._output(output, outputs) for output in outputs.outputs.outputs]
        if outputs.outputs.dropped_outputs:
            found.append(f'<p class="note">{plural(outputs.outputs.dropped_outputs, "more output")} left out.</p>')
        html = "".join(found)
        return f'<div class="out">{html}</div>' if html else ""

    def _output(self, output: Output, outputs: MaskedOutputs) -> str:
        match output.kind:
            case "gap":
                return f'<p class="note">{size_text(output.size)} left out.</p>'
            case "stream":
                return self._pre(outputs.clean(output.text), "err" if output.name == "stderr" else "")
            case "error":
                return self._pre(outputs.clean("\n".join(output.traceback) or f"{output.name}: {output.text}"), "bad")
            case _:
                return self._display(output, outputs)

    def _display(self, output: Output, outputs: MaskedOutputs) -> str:
        by_type = {
            representation.mime.casefold(): representation
            for representation in output.representations
            if representation.is_kept
        }
        plain = outputs.content(by_type["text/plain"]) if "text/plain" in by_type else ""
        for mime in _PICTURES:
            if mime in by_type and (picture := self._picture(by_type[mime], mime, plain, outputs)):
                return picture
        for mime in ("text/plain", "text/markdown", "text/latex"):
            if mime in by_type:
                return self._pre(outputs.content(by_type[mime]))
        for representation in by_type.values():
            if representation.form != "bytes":
                text = self._pre(outputs.content(representation))
                return (
                    f"<details><summary>{_text(representation.mime)}, shown as text</summary>{text}</details>"
                    if text
                    else ""
                )
        kinds = _some([clean(representation.mime) for representation in output.representations], 4)
        return f'<p class="note">{escape(kinds)}: not shown here.</p>' if kinds else ""

    def _picture(self, representation: Representation, mime: str, plain: str, outputs: MaskedOutputs) -> str:
        if representation.form != "bytes" or representation.size > min(_PICTURE, self._picture_room):
            return ""
        content = outputs.read(representation)
        if content is None or len(content) > min(_PICTURE, self._picture_room):
            return ""
        if not content.startswith(_PICTURES[mime]):
            return ""  # it is something else than it says
        self._picture_room -= len(content)
        data = base64.b64encode(content).decode("ascii")
        alt = clean(plain)[:200] or "A picture that the cell showed"
        return f'<img alt="{escape(alt)}" src="data:{mime};base64,{data}">'

    def _pre(self, text: str, kind: str = "") -> str:
        beginning = self._cut(text.rstrip("\n"))
        return _pre(beginning, escape(beginning), kind) if beginning.strip() else ""

    # -- the history

    def _history(self, *, is_open: bool) -> str:
        """The newest commits with their graph. `is_open`: the newest one is unfolded, as there is no notebook above."""
        starts = [self._facts.head, *self._facts.branches.values(), *self._facts.tags.values()]
        rows: list[tuple[ObjectId, Commit]] = []
        for found in self._repo.history.walk(starts):
            rows.append(found)
            if len(rows) == _MOST_COMMITS:
                break
        steps = list(assign(((id, commit.parents) for id, commit in rows), keep=self._facts.head))
        wide = min(_LANES, max(max(len(step.above), step.lane + 1) for step in steps))
        items = [
            self._commit(id, commit, _Graph(step, id, wide), is_open=is_open and not at)
            for at, ((id, commit), step) in enumerate(zip(rows, steps, strict=True))
        ]
        older = self._facts.commits - len(rows)
        note = f'<p class="note">{plural(older, "older commit")} left out of this page.</p>' if older else ""
        return f'<div class="history">{"".join(items)}</div>{note}'

    def _commit(self, id: ObjectId, stored: Commit, graph: _Graph, *, is_open: bool) -> str:
        commit = history.mask_commit(stored)
        title = _text(history.title(commit))
        refs = "".join(
            _tag("span", escape(ref.replace("->", "→", 1)), class_=f"ref {_kind(ref)}")
            for ref in self._refs.get(id, ())[:8]
        )
        status = "" if commit.status == "ok" else f'<span class="status">{_text(commit.status)}</span>'
        who = f'<span class="who">{_text(commit.author.name)}</span>' if commit.author.kind == "agent" else ""
        row = (
            f'{graph.row()}<span class="prompt">{escape(history.prompt(commit))}</span>'
            f'<span class="title{" code" if history.is_code(commit) else ""}">{who}{title}</span>{status}{refs}'
            f'<span class="chips">{escape(self._chips(commit))}</span><time>{escape(_when(commit))}</time>'
        )
        opened = " open" if is_open else ""
        return f'<details{opened}><summary>{row}</summary><div class="more">{graph.rail()}{self._about(id, commit)}</div></details>'

    def _chips(self, commit: Commit) -> str:
        return describe.chip_line(((one.how, one.name, one.size) for one in commit.changed), most=3)

    def _about(self, id: ObjectId, commit: Commit) -> str:
        agent = " (agent)" if commit.author.kind == "agent" else ""
        took = f"took {duration(commit.cell.duration_s)}" if commit.cell is not None else ""
        facts = [_id(id), _text(commit.author.name) + agent, _when(commit), took]
        meta = f'<p class="meta">{" · ".join(filter(None, facts))}</p>'
        message = clean_lines(commit.message.strip("\n"))
        message_html = f'<p class="message">{escape(self._cut(message))}</p>' if message.strip() else ""
        has_outputs = commit.cell is not None and commit.cell.outputs is not None
        error = self._pre(clean_lines(commit.cell.error), "bad") if commit.cell is not None and not has_outputs else ""
        code = self._source(commit.cell.source) if commit.cell is not None else ""
        told = commit.unsaved[:20]
        lines = describe.unsaved_lines(told, describe.holders_among(self._repo, commit.tree, told))
        unsaved = "".join(f'<p class="note">{_text(line)}</p>' for line in lines)
        return f"{meta}{message_html}{code}{error}{self._outputs(commit)}{self._changes(commit)}{unsaved}"

    def _changes(self, commit: Commit) -> str:
        tree = self._repo.tree(commit.tree)
        changes = sorted(commit.changed, key=lambda change: (change.how == "-", -change.size, change.name))
        rows = [
            (
                f'<span class="sign {_SIGNS[change.how][1]}">{_SIGNS[change.how][0]}</span> <b>{_text(change.name)}</b>',
                _text(describe.entry_line(self._repo, tree.get(change.name)) or "removed"),
            )
            for change in changes[:_CHANGES]
            if change.how in _SIGNS
        ]
        if not rows:
            return ""
        more = len(commit.changed) - len(rows)
        rest = f'<p class="note">{plural(more, "more variable")}</p>' if more > 0 else ""
        return f"{_table(('Variable', 'Value'), rows, 'changes')}{rest}"

    # -- variables, environment, digests

    def _variables(self) -> str:
        variables = self._facts.variables[:_MOST_VARIABLES]
        if not variables:
            return '<p class="note">There are no variables in this state.</p>'
        tree = self._repo.tree_at(self._facts.head)
        rows = "".join(self._variable(one, tree.get(one.name)) for one in variables)
        more = len(self._facts.variables) - len(variables)
        return f'<div class="vars">{rows}</div>' + (
            f'<p class="note">{plural(more, "more variable")} left out.</p>' if more else ""
        )

    def _variable(self, one: Variable, entry: Entry | None) -> str:
        size = size_text(one.size) if one.size else ""
        row = (
            f'<b class="name">{_text(one.name)}</b><span class="type">{_text(one.type)}</span>'
            f'<span class="holds">{_text(one.preview)}</span><span class="size">{escape(size)}</span>'
        )
        table = self._preview(entry)
        if not table:
            return f'<div class="var">{row}</div>'
        return f'<details class="tab"><summary class="var">{row}</summary>{table}</details>'

    def _preview(self, entry: Entry | None) -> str:
        """The first rows of a table."""
        summary = summary_of(self._repo, entry) if entry is not None else None
        if summary is None or not summary.rows or not summary.columns:
            return ""
        known = max(map(len, summary.rows))
        columns = summary.columns[:known]
        rows = [[_text(cell) for cell in (*row, *[""] * known)[: len(columns)]] for row in summary.rows]
        head = [clean(f"{column.name} ({column.of})" if column.of else column.name) for column in columns]
        more = previews.count_of_columns(summary) - len(columns)
        note = f'<p class="note">{plural(more, "more column")}</p>' if more > 0 else ""
        return f"{_table(head, rows)}{note}"

    def _packages_count(self) -> str:
        many = len(self._facts.environment.packages)
        return plural(many, "package") if many else ""

    def _environment(self) -> str:
        environment = self._facts.environment
        if not environment.packages and not environment.python:
            return ""
        imported = [pin.split("==", 1) for pin in environment.imported]
        rows = [(f"<b>{_text(pin[0])}</b>", _text(pin[-1])) for pin in imported]
        used = _table(("Imported by the code", "Version"), rows) if rows else ""
        pins = "\n".join(clean(pin) for pin in environment.packages)
        every = _pre("", escape(self._cut(pins, 200_000)))
        all_ = f"<details><summary>All that was installed: {escape(self._packages_count())}</summary>{every}</details>"
        return f"{used}{all_}"

    def _digests(self) -> str:
        facts = self._facts
        named = [("Branch", name, at) for name, at in sorted(facts.branches.items())]
        named += [("Tag", name, at) for name, at in sorted(facts.tags.items())]
        rows = [
            (f"{kind} {self._ref(name, kind.lower())}", f"<code>{hex_of(at)}</code>")
            for kind, name, at in named[:_REFS]
        ]
        more = len(named) - len(rows)
        note = f'<p class="note">{plural(more, "more name")} left out.</p>' if more > 0 else ""
        sentences = (
            "Each is the BLAKE3 digest of a commit. It covers the code, the outputs and the variables of that state, and all "
            "states before it: two histories with one digest are the same."
        )
        return f"<p>{sentences}</p>{_table(('Name', 'Digest'), rows, 'digests')}{note}"


_PICTURES: Final = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8"}
_SIGNS: Final = {"+": ("+", "add"), "~": ("~", "chg"), "-": ("−", "del")}


def _kind(ref: str) -> str:
    return "head" if ref.startswith("HEAD") else "tag" if ref.startswith("tag: ") else "branch"


def _verdict(kind: str, word: str, text: str, signature: str) -> str:
    """What was found of a bundle as a whole, before anything that it says of itself."""
    signed = f"<p>{_text(signature)}</p>" if signature else ""
    return f'<div class="verdict {kind}" role="note"><p><strong>{word}</strong>: {_text(text)}</p>{signed}</div>'


def _fingerprint(digest: str) -> str:
    return f"<code>{escape(digest)}</code>"


def _id(id: ObjectId) -> str:
    return f"<code>{escape(short(id))}</code>"


def _some(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(clean(name)[:_LINE] for name in names[:most]) + more


# -- the graph: a node and the lines through a row, and the lines that go on beside an unfolded commit

_WIDE: Final = 14  # pixels of a lane
_HIGH: Final = 36  # of a row


class _Graph:
    def __init__(self, step: Step[ObjectId], key: ObjectId, lanes: int) -> None:
        self._step, self._key, self._lanes = step, key, lanes

    def _x(self, lane: int) -> float:
        return (min(lane, self._lanes - 1) + 0.5) * _WIDE

    def row(self) -> str:
        step, middle = self._step, _HIGH / 2
        own = self._x(step.lane)
        lines: list[str] = []
        for lane, strand in enumerate(step.above):
            if strand is None:
                continue
            x = self._x(lane)
            end = (own, middle) if strand.parent == self._key else (x, _HIGH)
            lines.append(_curve((x, 0), end, lane))
        lines += [_curve((own, middle), (self._x(to), _HIGH), to) for to, _ in step.sent]
        node = f'<circle class="n{step.lane % 4}" cx="{own:g}" cy="{middle:g}" r="4"/>'
        return self._svg("graph", _HIGH, "".join(lines) + node)

    def rail(self) -> str:
        """The lines beside what is unfolded, as long as that is high."""
        on = {lane for lane, strand in enumerate(self._step.above) if strand is not None and strand.parent != self._key}
        on |= {to for to, _ in self._step.sent}
        lines = "".join(_curve((self._x(lane), 0), (self._x(lane), 1), lane) for lane in sorted(on))
        return self._svg("rail", 1, lines) if lines else ""

    def _svg(self, kind: str, height: int, inside: str) -> str:
        wide = self._lanes * _WIDE
        return (
            f'<svg class="{kind}" aria-hidden="true" width="{wide}" height="{height}" viewBox="0 0 {wide} {height}" '
            f'preserveAspectRatio="none">{inside}</svg>'
        )


def _curve(start: tuple[float, float], end: tuple[float, float], lane: int) -> str:
    (x, y), (to_x, to_y) = start, end
    bend = (
        f"L{to_x:g} {to_y:g}"
        if x == to_x
        else f"C{x:g} {(y + to_y) / 2:g} {to_x:g} {(y + to_y) / 2:g} {to_x:g} {to_y:g}"
    )
    return f'<path class="l{lane % 4}" d="M{x:g} {y:g}{bend}"/>'


# -- the document around it

_LIGHT: Final = """--bg:#fff;--fg:#1c1e21;--muted:#5c6470;--line:#e2e5e9;--sunk:#f6f7f9;--hover:#eef1f5;
--brand:#1565c0;--add:#2b6e2f;--chg:#8f5200;--del:#b3261e;--good:#eef6ee;--bad:#fdf1f0;--warn:#fdf7ec;--l0:#1976d2;--l1:#8e3aa8;--l2:#00838f;--l3:#c2255c;
--kw:#0b6e4f;--st:#a31515;--nu:#3155a4;--co:#66707c"""
_DARK: Final = """--bg:#16181c;--fg:#e3e6ea;--muted:#9aa3af;--line:#2c3138;--sunk:#1d2025;--hover:#252a31;
--brand:#79b8ff;--add:#7bc67e;--chg:#f0b35a;--del:#ff8a80;--good:#182419;--bad:#2b1b1c;--warn:#2a241a;--l0:#58a6ff;--l1:#c792ea;--l2:#4dd0e1;--l3:#f48fb1;
--kw:#7fd1ae;--st:#f0a39b;--nu:#a5c1ff;--co:#8c95a1"""
_COLOURS: Final[dict[Theme, str]] = {
    "": f":root{{color-scheme:light dark;{_LIGHT}}}\n@media(prefers-color-scheme:dark){{:root{{{_DARK}}}}}",
    "light": f":root{{color-scheme:light;{_LIGHT}}}",
    "dark": f":root{{color-scheme:dark;{_DARK}}}",
}
_STYLE: Final = """
:root{--mono:ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-padding-top:56px}
body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;
font-variant-numeric:tabular-nums}
header,main,footer{max-width:1040px;margin:0 auto;padding:0 24px}
header{padding-top:48px;padding-bottom:24px}
h1{font-size:30px;line-height:1.2;margin:0;letter-spacing:-.01em;overflow-wrap:anywhere}
.lead{margin:6px 0 24px;color:var(--muted);font-size:16px}
h2{font-size:19px;line-height:1.3;margin:0 0 12px}h2 small{font-weight:400;font-size:14px;color:var(--muted);margin-left:8px}
section{padding:32px 0 8px}
nav{position:sticky;top:0;z-index:1;background:var(--bg);border-block:1px solid var(--line)}
nav ul{display:flex;gap:4px;max-width:1040px;margin:0 auto;padding:0 16px;list-style:none;overflow-x:auto}
nav a{display:block;padding:9px 8px;color:var(--muted);text-decoration:none;font-size:14px;white-space:nowrap;border-radius:4px}
nav a:hover{color:var(--fg);background:var(--hover)}
:focus-visible{outline:2px solid var(--brand);outline-offset:-2px;border-radius:4px}
dl{display:grid;grid-template-columns:minmax(84px,max-content) 1fr;gap:6px 20px;margin:0;font-size:14px}
.verdict{margin:0 0 20px;padding:10px 14px;border-radius:6px;border-left:3px solid;font-size:14px;overflow-wrap:anywhere}
.verdict p{margin:0}.verdict p+p{margin-top:2px;color:var(--fg)}
.verdict.good{background:var(--good);border-color:var(--add)}.verdict.good strong{color:var(--add)}
.verdict.bad{background:var(--bad);border-color:var(--del);margin-top:20px}.verdict.bad strong{color:var(--del)}
dl>div{display:contents}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
p{margin:0 0 12px}.note{color:var(--muted);font-size:13px;margin:8px 0 0}
code,pre,.title.code,.name,.prompt{font-family:var(--mono)}
code{font-size:.92em}
pre{margin:0;font-size:13px;line-height:1.55;overflow-x:auto;tab-size:4}
pre.code{background:var(--sunk);border:1px solid var(--line);border-radius:6px;padding:10px 14px}
.out{margin:8px 0 0;display:grid;gap:8px;grid-template-columns:minmax(0,1fr)}
.out pre{padding:2px 14px;max-height:480px;overflow:auto}
.out pre.err{background:var(--warn);border-radius:6px;padding:8px 14px}
pre.bad{background:var(--bad);border-radius:6px;padding:8px 14px;color:var(--del)}
.out img{display:block;max-width:100%;height:auto;margin:4px 0 4px 14px;background:#fff;border-radius:4px}
.kw{color:var(--kw);font-weight:600}.st{color:var(--st)}.nu{color:var(--nu)}.co{color:var(--co);font-style:italic}
.cell{display:grid;grid-template-columns:52px minmax(0,1fr);gap:0 10px;margin:0 0 16px}
.cell>.prompt{text-align:right;padding-top:11px;font-size:12px;color:var(--muted)}
.cell.prose{display:block;white-space:pre-wrap;padding-left:62px;max-width:820px;overflow-wrap:anywhere}
.prose .h1,.prose .h2,.prose .h3{font-size:22px;line-height:1.3}.prose .h2{font-size:18px}.prose .h3{font-size:15px}
.ref{display:inline-block;padding:0 7px;border:1px solid var(--line);border-radius:10px;font-size:12px;line-height:19px;
max-width:220px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;vertical-align:middle}
.ref.branch{border-color:var(--l0);color:var(--brand)}.ref.tag{border-color:var(--chg);color:var(--chg)}
.ref.head{background:var(--brand);border-color:var(--brand);color:var(--bg);font-weight:600}
.history,.vars{border:1px solid var(--line);border-radius:8px;overflow:hidden}
summary{cursor:pointer}summary:hover{background:var(--hover)}
.history summary{display:flex;align-items:center;gap:8px;min-height:36px;padding:0 14px 0 8px;list-style:none}
.history summary::-webkit-details-marker{display:none}
.history details[open]>summary{background:var(--sunk)}
.graph,.rail{flex:none;fill:none;stroke-width:2}
.rail{position:absolute;left:8px;top:0;height:100%}.rail path{vector-effect:non-scaling-stroke}
.l0{stroke:var(--l0)}.l1{stroke:var(--l1)}.l2{stroke:var(--l2)}.l3{stroke:var(--l3)}
.n0{fill:var(--l0)}.n1{fill:var(--l1)}.n2{fill:var(--l2)}.n3{fill:var(--l3)}
.history .prompt{flex:none;min-width:40px;text-align:right;font-size:12px;color:var(--muted)}
.title{flex:1 1 0;min-width:0;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font-size:14px}.title.code{font-size:13px}
.who{font-weight:600;margin-right:6px}.who::after{content:":"}
.status{color:var(--del);font-size:12px;font-weight:600}
.chips{flex:none;max-width:32%;overflow:hidden;text-overflow:ellipsis;white-space:nowrap;font:12px var(--mono);color:var(--muted)}
time{flex:none;color:var(--muted);font-size:12px;white-space:nowrap}
.more{position:relative;padding:8px 14px 16px 8px;border-bottom:1px solid var(--line)}
.more>:not(.rail){margin-left:var(--indent,64px)}
.meta{color:var(--muted);font-size:13px;margin:0 0 10px}.message{white-space:pre-wrap;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin-top:10px}
table{border-collapse:collapse;font-size:13px;min-width:min(100%,420px)}
th,td{padding:5px 24px 5px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
th{font-weight:500;color:var(--muted)}tr:last-child td{border-bottom:0}
.changes td{white-space:normal;overflow-wrap:anywhere}.changes td:first-child{white-space:nowrap}
.sign{font-weight:700;font-family:var(--mono)}.add{color:var(--add)}.chg{color:var(--chg)}.del{color:var(--del)}
.var{display:grid;grid-template-columns:minmax(90px,1.1fr) minmax(90px,1.2fr) minmax(0,4fr) 76px;gap:0 16px;padding:7px 14px;align-items:baseline}
.vars>*+*{border-top:1px solid var(--line)}.var>*{min-width:0;overflow-wrap:anywhere}
.name{font-size:13px}.type,.size{color:var(--muted);font-size:13px}.size{text-align:right;white-space:nowrap}.holds{font-size:13px}
details.tab>summary{list-style:none;position:relative}details.tab>summary::-webkit-details-marker{display:none}
details.tab>summary .name::after{content:" ▸";color:var(--muted)}details.tab[open]>summary .name::after{content:" ▾"}
details.tab>.scroll,details.tab>.note{margin:4px 14px 12px}
details:not(.tab)>summary+pre,details>summary+.scroll{margin-top:8px}
#environment details{margin-top:14px}#environment pre{background:var(--sunk);border-radius:6px;padding:10px 14px;columns:220px auto}
.digests code{font-size:12px;overflow-wrap:anywhere}.digests td+td{white-space:normal}
footer{padding-top:32px;padding-bottom:48px;color:var(--muted);font-size:13px}
@media(max-width:640px){body{font-size:15px}header,main,footer{padding-left:16px;padding-right:16px}header{padding-top:28px}h1{font-size:24px}
nav ul{padding:0 8px}.history summary{padding-right:10px;gap:6px}.history .prompt{min-width:28px}
.chips,time,.history summary .ref~.ref{display:none}.ref{max-width:104px}.more>:not(.rail){margin-left:28px}
.cell{grid-template-columns:minmax(0,1fr)}.cell>.prompt{text-align:left;padding:0 0 2px}.cell.prose{padding-left:0}
.var{grid-template-columns:1fr auto;padding:8px 14px}.holds{grid-column:1/-1;grid-row:2}.size{grid-column:2;grid-row:1}.type{grid-column:1/-1;grid-row:3}
dl{grid-template-columns:1fr;gap:0}dl>div{display:block;margin-bottom:8px}dt{font-size:12px}.out pre{padding-left:0;padding-right:0}.out img{margin-left:0}}
@media(forced-colors:active){.graph path,.rail path{stroke:CanvasText}.graph circle{fill:CanvasText}}
@media print{:root{color-scheme:light}nav{display:none}header,main,footer{max-width:none;padding-left:0;padding-right:0}
.out pre{max-height:none}pre{white-space:pre-wrap;overflow-wrap:anywhere}details,.cell,.var{break-inside:avoid}
.history summary:hover{background:none}a{color:inherit}}
"""


def _style(theme: Theme) -> str:
    return f"\n{_COLOURS[theme]}{_STYLE}"


def policy(theme: Theme = "") -> str:
    """The content security policy of a page: it runs nothing, and loads nothing."""
    digest = base64.b64encode(hashlib.sha256(_style(theme).encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def _document(title: str, header: str, sections: Sequence[_Section], theme: Theme) -> str:
    links = "".join(f'<li><a href="#{section.id}">{section.title}</a></li>' for section in sections)
    parts = "".join(
        f'<section id="{section.id}" aria-labelledby="{section.id}-title">'
        f'<h2 id="{section.id}-title">{section.title}<small>{escape(section.count)}</small></h2>{section.html}</section>\n'
        for section in sections
    )
    origin = " from the notebook’s history" if sections else ""
    nav = f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n' if sections else ""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy(theme)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="generator" content="agent-kernel">\n'
        f"<title>{escape(title)}</title>\n<style>{_style(theme)}</style>\n</head>\n<body>\n{header}\n"
        f"{nav}<main>\n{parts}</main>\n"
        f"<footer>Made by agent-kernel{origin}. The page runs nothing and loads nothing.</footer>\n"
        "</body>\n</html>\n"
    )


def main(path: str, theme: Theme) -> None:
    """Write the page of a bundle to standard output."""
    sys.stdout.buffer.write(make_bundle_page(Path(path), theme))


if __name__ == "__main__":
    main(sys.argv[1], "dark" if sys.argv[2:] == ["dark"] else "light" if sys.argv[2:] == ["light"] else "")
