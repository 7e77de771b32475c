"""What cells change in the process beside variables. No commit holds it, so a checkout says what is not as it was then.

`pd.DataFrame.total = total`, `plt.style.use("ggplot")` and `os.chdir("data")` change this process alone: a restart leaves
that behind, and a checkout keeps it. A commit names what is set, an attribute of a library or a setting, each with a digest
of what it is: `pandas.DataFrame.total#1f2e3d4c`, `matplotlib.rcParams[font.size]#5b6a7988`. Where that is still set on another
branch than that of the cell that set it, the id of that cell's commit follows, after an `@`.

Of attributes that the text of a cell sets, what they are is compared before and afterwards; another cell costs one search
of its text. Settings are few, and compared around each cell: their values are at hand, and no text says which function
changes them.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import (
    Callable,
    Collection,
    Container,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import contextmanager
from itertools import islice
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec
from xxhash import xxh3_64_hexdigest

from agent_kernel.errors import StoreError
from agent_kernel.repository import Commit, ObjectId, Repository
from agent_kernel.values.introspection import (
    bases_of,
    class_dict,
    derives_from,
    exact_str,
    loaded_class,
    module_dict,
    module_name,
    qualified_name,
    type_name,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

PYLAB: Final = "%pylab"  # stands for the thousand names that it binds: they are the shell's own, and in no commit
# Begins with what is rare: this is searched in each cell. Other targets may follow, or what type it is.
_ASSIGNED = re.compile(r"\.([^\W\d]\w*)(?=\s*(?:[,:][^=\n]{0,200})?[-+*/|&^%@]{0,2}=(?!=))")
_PATH = re.compile(r"[^\W\d][\w.]*")
_CALLED = re.compile(r"""attr\(\s*([^\W\d][\w.]*)\s*,\s*["']([^\W\d]\w*)["']""")
_DELETED = re.compile(r"del\s+([^\W\d][\w.]*)\.([^\W\d]\w*)")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+)?import[ \t]*(\([^()]*\)|[^\n#;]*)", re.MULTILINE)
_NAMES = re.compile(r"([^\W\d][\w.]*)(?:\s+as\s+(\w+))?")
_RUNS_PYLAB = re.compile(r"^[ \t]*%pylab\b", re.MULTILINE)
_MISSING = object()
_UNKNOWN = object()  # of a library that the cell itself imported
_FURTHEST: Final = 10_000  # commits to look through for the cell that set something
_LONGEST_PATH: Final = 200  # characters
_SHOWN: Final = 10  # names in one line
_REASONS: Final = {False: "commits do not save what cells set in libraries", True: "commits do not save settings"}
_MOST_SPELLED: Final = 1_000  # values within one

Owner = type | ModuleType
_Dict = dict[str, object]
Label = Callable[[ObjectId, Commit], str]


class Attribute(msgspec.Struct, frozen=True, gc=False):
    """One attribute, and what it was before a cell set it."""

    owner: Owner
    name: str
    before: object
    digest: str = ""  # of what a cell set

    def is_set(self) -> bool:
        now = self.now()
        if now is not self.before and self.before is _MISSING and derives_from(type(self.owner), type):
            return now is not _inherited(cast("type", self.owner), self.name)
        return now is not self.before

    def now(self) -> object:
        return _attributes_of(self.owner).get(self.name, _MISSING)


# -- settings


class Setting(NamedTuple):
    """What code reads in another place than from variables.

    `read` gives what it is now, from its module: quickly, for each cell asks twice. `changes` gives the parts of that, by
    name, that are not as they are once the module is imported; without it all of it is one.
    """

    name: str
    module: str
    read: Callable[[Any], object]
    changed_by: re.Pattern[str] = re.compile("(?!)")  # in the text of a cell that also imports the module
    changes: Callable[[Any, Any], dict[str, object]] | None = None

    def find(self) -> object:
        """What it is now; _MISSING where its module is not there, or another one than is known."""
        module = sys.modules.get(self.module)
        if type(module) is not ModuleType:  # others import what they stand for as soon as they are asked
            return _MISSING
        try:
            return self.read(module)
        except Exception:  # noqa: BLE001 - the library's code, of any version: of what cannot be read nothing is said
            return _MISSING

    def digests(self, value: object) -> dict[str, str]:
        """Of its parts, by name, the same in each process for the same content; nothing of what cannot be read."""
        try:
            if value is _MISSING:
                return {}
            parts = {"": value} if self.changes is None else self.changes(sys.modules[self.module], value)
            return {name: _digest(part) for name, part in parts.items()}
        except Exception:  # noqa: BLE001 - as in `find`
            return {}

    def entry(self, part: str, digest: str) -> str:
        """What a commit says of a part."""
        return f"{self.name}[{part}]#{digest}" if part else f"{self.name}#{digest}"


def _digest(value: object, *, tells_texts: bool = True) -> str:
    """A digest that is the same in each process for the same value.

    Args:
        tells_texts: whether texts in it count. Those that cells set in libraries may be secret, and a short digest is enough to try guesses.
    """
    try:
        spelled = _Spelling(tells_texts).spell(value)
    except RecursionError:
        spelled = type_name(value)
    return xxh3_64_hexdigest(repr(spelled).encode(errors="replace"))[:8]


class _Spelling:
    """What a value is, in the same words in each process. None of the person's code runs: of an object it says the type."""

    def __init__(self, tells_texts: bool, left: int = _MOST_SPELLED) -> None:
        self._tells_texts = tells_texts
        self._left = left  # values that may follow

    def spell(self, value: object) -> object:
        self._left -= 1
        kind = type(value)
        if self._left < 0:
            return "..."
        if kind in (str, bytes):
            text = cast("str", value)
            return (len(text), text[:_MOST_CHARACTERS]) if self._tells_texts else kind.__name__
        if kind in _SPELLED_AS_THEY_ARE:
            return value
        if kind in (list, tuple):
            items = cast("Sequence[object]", value)
            return kind.__name__, len(items), list(map(self.spell, islice(items, max(0, self._left))))
        if kind in (set, frozenset):
            several = cast("Collection[object]", value)
            some = islice(several, max(0, self._left))
            return kind.__name__, len(several), sorted(repr(_Spelling(self._tells_texts, 9).spell(one)) for one in some)
        if kind is dict:
            pairs = cast("dict[object, object]", value).items()
            return len(pairs), [(self.spell(key), self.spell(one)) for key, one in islice(pairs, max(0, self._left))]
        if kind is FunctionType:
            function = cast("FunctionType", value)
            cells = [cell.cell_contents for cell in function.__closure__ or () if not _is_empty(cell)]
            return _spell_code(function.__code__), self.spell((function.__defaults__, function.__kwdefaults__, cells))
        if kind in _PARTS:
            return kind.__name__, self.spell([getattr(value, name) for name in _PARTS[kind]])
        return self._spell_class(cast("type", value)) if derives_from(kind, type) else type_name(value)

    def _spell_class(self, kind: type) -> object:
        own = (
            {} if _place_of(kind) else {name: one for name, one in class_dict(kind).items() if name not in _OF_CLASSES}
        )
        return qualified_name(kind), [(name, self.spell(one)) for name, one in own.items()]


def _spell_code(code: CodeType) -> object:
    """What code does, without where it stands. The source that it was made of is in a commit: its texts may be told."""
    within = [
        _spell_code(found) if type(found) is CodeType else _Spelling(tells_texts=True).spell(found)
        for found in code.co_consts
    ]
    return code.co_name, code.co_code, code.co_names, code.co_varnames, within


def _is_empty(cell: CellType) -> bool:
    try:
        return cell.cell_contents is _MISSING
    except ValueError:
        return True


_SPELLED_AS_THEY_ARE = frozenset({int, float, complex, bool, type(None), type(...)})
_MOST_CHARACTERS: Final = 10_000
_PARTS: Final[Mapping[type, tuple[str, ...]]] = {
    property: ("fget", "fset", "fdel"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    MethodType: ("__func__",),
    functools.partial: ("func", "args", "keywords"),
    type(functools.cache(len)): ("__wrapped__",),
}
_OF_CLASSES = frozenset({"__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__"})
_OF_KERNELS = frozenset({"backend", "backend_fallback", "interactive", "toolbar"})  # which these set by themselves


def _are_same(one: object, other: object) -> bool:
    try:
        return one is other or bool(one == other)
    except Exception:  # noqa: BLE001 - arrays among them: their digests are compared
        return False


def _changes_of_matplotlib(matplotlib: Any, values: Sequence[object]) -> dict[str, object]:
    default: _Dict = matplotlib.rcParamsOrig
    found = zip(_Dict.keys(matplotlib.rcParams), values, strict=True)
    return {
        name: list(cast("Iterable[object]", value)) if type(value) is loaded_class("cycler", "Cycler") else value
        for name, value in found
        if name not in _OF_KERNELS and not _are_same(value, _Dict.get(default, name))
    }


def _copied(options: _Dict) -> _Dict:
    return {name: _copied(cast("_Dict", value)) if type(value) is dict else value for name, value in options.items()}


def _flat(options: _Dict, prefix: str = "") -> _Dict:
    found: _Dict = {}
    for name, value in options.items():
        found |= _flat(cast("_Dict", value), f"{prefix}{name}.") if type(value) is dict else {prefix + name: value}
    return found


def _changes_of_pandas(config: Any, options: dict[str, Any]) -> dict[str, object]:
    known = config._registered_options
    return {
        name: value
        for name, value in _flat(options).items()
        if name not in known or not _are_same(value, known[name].defval)
    }


def _asked(name: str) -> Callable[[Any], object]:
    """What a function of the module says."""
    return lambda module: getattr(module, name)()


def _locale(locale: Any) -> object:
    return locale.setlocale(locale.LC_ALL)


def _changes_of_numpy(numpy: Any, options: dict[str, Any]) -> dict[str, object]:
    return {name: value for name, value in options.items() if name in _PRINTED and value != _PRINTED[name]}


_PRINTED: Final[_Dict] = {
    "precision": 8,
    "threshold": 1000,
    "edgeitems": 3,
    "linewidth": 75,
    "suppress": False,
    "nanstr": "nan",
    "infstr": "inf",
    "sign": "-",
    "floatmode": "maxprec",
    "formatter": None,
}


def _context(decimal: Any) -> object:
    context = decimal.getcontext()
    return context.prec, context.rounding, context.Emin, context.Emax, context.capitals, context.clamp


def _root_logger(logging: Any) -> object:
    return logging.root.level, logging.root.manager.disable


def _modes_of_torch(torch: Any) -> object:
    return (
        str(torch.get_default_dtype()),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
    )


def _params(matplotlib: Any) -> object:
    return list(_Dict.values(matplotlib.rcParams))


def _options_of_pandas(config: Any) -> object:
    return _copied(config._global_config)


def _accessors_of_pandas(pandas: Any) -> object:
    return tuple(frozenset(kind._accessors) for kind in _kinds_of_pandas(pandas))


def _kinds_of_pandas(pandas: Any) -> tuple[Any, ...]:
    return pandas.DataFrame, pandas.Series, pandas.Index


def _changes_of_accessors(pandas: Any, found: Sequence[Any]) -> dict[str, object]:
    changed: dict[str, object] = {}
    for kind, names in zip(_kinds_of_pandas(pandas), found, strict=True):
        for name in names:
            registered: Any = class_dict(kind)[name]
            made: Any = registered._accessor
            if not made.__module__.startswith("pandas."):
                changed[f"{kind.__name__}.{name}"] = f"{made.__module__}.{made.__qualname__}"
    return changed


def _options_of_xarray(options: Any) -> object:
    return dict(options.OPTIONS)


_SETTINGS: Final = (
    Setting("the working directory", "os", _asked("getcwd")),
    Setting("the recursion limit", "sys", _asked("getrecursionlimit")),
    Setting("the context of decimal", "decimal", _context, re.compile("context")),
    Setting("the locale", "locale", _locale, re.compile("setlocale")),
    Setting("the root logger", "logging", _root_logger, re.compile("setLevel|basicConfig|disable")),
    Setting("matplotlib.rcParams", "matplotlib", _params, changes=_changes_of_matplotlib),
    Setting("pandas.options", "pandas._config.config", _options_of_pandas, changes=_changes_of_pandas),
    Setting("the register of pandas accessors", "pandas", _accessors_of_pandas, changes=_changes_of_accessors),
    Setting("the print format of numpy", "numpy", _asked("get_printoptions"), changes=_changes_of_numpy),
    Setting("the error handling of numpy", "numpy", _asked("geterr"), re.compile("seterr")),
    Setting("the configuration of sklearn", "sklearn", _asked("get_config"), re.compile("set_config")),
    Setting("the options of xarray", "xarray.core.options", _options_of_xarray, re.compile("set_options")),
    Setting(
        "the configuration of torch", "torch", _modes_of_torch, re.compile("set_(?:default|grad|float)|use_determ")
    ),
)
_BY_NAME: Final = {setting.name: setting for setting in _SETTINGS}
_VARIABLE = re.compile(r"os\.environ\['(\w+)'\]")
_SETS_MANY = re.compile(r"dotenv|environ\.update|environ\s*\|=")


def _entry_of(variable: str) -> str:
    """Of a variable of the environment its name alone is in commits: what it is may be secret."""
    return f"os.environ['{variable}']"


def _environment() -> dict[str, str]:
    """The variables of the environment whose names are words."""
    try:
        found = cast("dict[object, object]", dict(os.environ)).items()
        return {
            name: value
            for name, value in found
            if type(name) is str and name.isascii() and name.isidentifier() and type(value) is str
        }
    except Exception:  # noqa: BLE001 - code of the person put another object there
        return {}


def _of_commit(entry: str) -> str:
    """The entry without the commit of the cell that set it."""
    return entry.partition("@")[0]


def _name_of(entry: str) -> str:
    """What an entry is of: an attribute, or a part of a setting; or all of the entry."""
    return entry.partition("#")[0].partition("@")[0]


def _shown(name: str) -> str:
    """How a person is told of it: not of each part of a setting, of which a style sets thirty."""
    setting = name.partition("[")[0]
    return setting if setting in _BY_NAME else name


def _is_setting(name: str) -> bool:
    return _shown(name) in _BY_NAME or _VARIABLE.fullmatch(name) is not None


class Before(NamedTuple):
    """What was there before a cell ran."""

    attributes: Mapping[str, Attribute] | None  # None: the text of the cell sets none
    settings: Mapping[str, object]
    environment: Mapping[str, str] | None  # None: the text of the cell does not speak of it
    names: Mapping[str, object] | None = None  # of the namespace; None: the cell does not run %pylab


# -- what the cells of a process have set


class Known(msgspec.Struct):
    """A setting of which cells changed parts: the digests of what these were first, what it is, and the digests of its parts."""

    first: dict[str, str]
    now: object
    digests: dict[str, str]


class PylabNames:
    """The thousand names that `%pylab` bound in this process: the shell's own, and in no commit.

    They are there where it had run, and nowhere else: left in an earlier state, its `sum` and `any` stand before the builtin
    ones.
    """

    def __init__(self) -> None:
        self.has_run = False
        self.bound: dict[str, object] = {}
        self.moved = ""  # what the last checkout did with them, for its lines

    def note(self, before: Mapping[str, object], namespace: Mapping[str, object], own: Mapping[str, object]) -> None:
        """It has run. `own`: what the shell says that it put there. What was there before is left out."""
        self.has_run = True
        new = (name for name in own if not name.startswith("_") and before.get(name, _MISSING) is not own[name])
        self.bound.update((name, own[name]) for name in new if namespace.get(name, _MISSING) is own[name])

    @contextmanager
    def moving(self, *, has_run: bool) -> Generator[None]:
        """Go in the block to a state in which it had run, or had not."""
        before = self.has_run
        self.has_run = has_run
        try:
            yield
        except BaseException:
            self.has_run = before
            raise

    def place(self, namespace: dict[str, object], own: MutableMapping[str, object], saved: Container[str]) -> bool:
        """Put the names there, or take them out, as the state is that was loaded. Returns whether the namespace changed.

        Args:
            own: what the shell says that it put there. A name that is taken out is a person's own as soon as a cell binds it.
            saved: names that the state has itself, though `%pylab` binds them too.
        """
        missing = {name: value for name, value in self.bound.items() if name not in namespace}
        is_there = len(missing) < len(self.bound)
        self.moved = _SAID[self.has_run] if self.bound and self.has_run is not is_there else ""
        if self.has_run:
            namespace.update(missing)
            own.update(missing)
            return bool(missing)
        for name, value in self.bound.items():
            own.pop(name, None)
            if name not in saved and namespace.get(name, _MISSING) is value:
                del namespace[name]
        return is_there


_SAID = {False: "the names of %pylab are gone: it runs only later", True: "the names of %pylab are back"}


class ProcessState:
    """What the cells of a process have set."""

    def __init__(self) -> None:
        self.are_any = False  # whether a cell has set one: most sessions never ask for more
        self._attributes: dict[str, Attribute] = {}
        self.pylab = PylabNames()
        self._settings: dict[str, Known] = {}
        self._variables: dict[str, str | None] = {}  # of the environment, as they were before
        self._makers: dict[str, tuple[str, ObjectId]] = {}  # by name: what was set, and the first commit that says so

    def look_before(self, source: str, namespace: Mapping[str, object]) -> Before:
        """What it is that a cell may set."""
        targets = _targets(source)
        found = {full: Attribute(owner, name, value) for full, owner, name, value in _find(source, targets, namespace)}
        may_import = bool(targets) and "import" in source
        return Before(
            found if found or may_import else None,
            {setting.name: setting.find() for setting in _SETTINGS},
            _environment() if "env" in source else None,
            {**namespace} if PYLAB in source and _RUNS_PYLAB.search(source) else None,
        )

    def note(
        self,
        source: str,
        namespace: Mapping[str, object],
        before: Before | None,
        own: Mapping[str, object] = MappingProxyType({}),
    ) -> None:
        """The cell has run. `own`: the names that the shell says are its own."""
        if before is None:
            return
        if before.names is not None:
            self.pylab.note(before.names, namespace, own)
        if before.attributes is not None:
            self._note_attributes(source, namespace, before.attributes)
        for setting in _SETTINGS:
            self._note_setting(setting, source, before.settings.get(setting.name, _MISSING))
        if before.environment is not None:
            sets_many = _SETS_MANY.search(source) is not None
            for name, value in _environment().items():
                # Libraries that the cell imports set others.
                if before.environment.get(name) != value and (sets_many or name in source):
                    self._variables.setdefault(name, before.environment.get(name))
        self.are_any = self.pylab.has_run or bool(self._attributes or self._settings or self._variables)

    def _note_attributes(self, source: str, namespace: Mapping[str, object], before: Mapping[str, Attribute]) -> None:
        for full, owner, name, value in _find(source, _targets(source), namespace):
            earlier = before.get(full)
            if earlier is None and not _is_of_library(value):  # the cell imported what it set it on
                earlier = Attribute(owner, name, _UNKNOWN)
            if earlier is not None and earlier.is_set():
                first = self._attributes.get(full, earlier)
                self._attributes[full] = msgspec.structs.replace(first, digest=_digest(value, tells_texts=False))

    def _note_setting(self, setting: Setting, source: str, before: object) -> None:
        now = setting.find()
        if now is _MISSING or _are_same(before, now):
            return
        if before is _MISSING and setting.changes is None and not setting.changed_by.search(source):
            return  # the cell imported the module
        digests, earlier = setting.digests(now), setting.digests(before)
        changed = {
            part: earlier.get(part, "") for part in {*digests, *earlier} if digests.get(part) != earlier.get(part)
        }
        if changed:
            known = self._settings.setdefault(setting.name, Known({}, now, digests))
            known.first, known.now, known.digests = changed | known.first, now, digests

    def names(self) -> set[str]:
        """What is set now, by cells of this process."""
        found = {f"{full}#{one.digest}" for full, one in self._attributes.items() if one.is_set()}
        if self.pylab.has_run:
            found.add(PYLAB)
        for name, known in self._settings.items():
            setting = _BY_NAME[name]
            now = setting.find()
            if not _are_same(known.now, now):
                known.now, known.digests = now, setting.digests(now)
            parts = {part: known.digests.get(part, "") for part in known.first}
            found.update(
                setting.entry(part, digest) for part, digest in parts.items() if digest not in ("", known.first[part])
            )
        now = _environment() if self._variables else {}
        return found | {
            _entry_of(name) for name, before in self._variables.items() if now.get(name) not in (None, before)
        }

    def names_after(self, parent: Iterable[str]) -> tuple[str, ...]:
        """What a commit names, after one that names these. What this process has not set is set once its cell runs again."""
        mine = {*self._attributes, *map(_entry_of, self._variables), *([PYLAB] if self.pylab.bound else ())}
        for name, known in self._settings.items():
            mine.update(_name_of(_BY_NAME[name].entry(part, "")) for part in known.first)
        then = {_of_commit(entry): entry for entry in parent}
        found = {entry for entry in then.values() if _name_of(entry) not in mine}
        return tuple(sorted(found | {then.get(entry) or self._with_maker(entry) for entry in self.names()}))

    def _with_maker(self, entry: str) -> str:
        """Of what an earlier cell set that does not lie before the commit: with the commit of that cell."""
        known, maker = self._makers.get(_name_of(entry), ("", None))
        return entry if maker is None or known != entry else f"{entry}@{bytes(maker).hex()}"

    def note_commit(self, id: ObjectId, entries: Iterable[str]) -> None:
        """A commit was published that names these."""
        for entry in entries:
            if self._makers.get(_name_of(entry), ("",))[0] != _of_commit(entry):
                self._makers[_name_of(entry)] = _of_commit(entry), id


def ran_pylab(repo: Repository, commit: ObjectId | None) -> bool:
    """Whether the names of `%pylab` are part of the state of a commit."""
    entries = () if commit is None else repo.commit_at(commit).set_in_libraries
    return PYLAB in map(_name_of, entries)


def describe_differences(
    repo: Repository,
    commit: ObjectId | None,
    namespace: Mapping[str, object],
    now: Collection[str],
    label: Label,
) -> list[str]:
    """What to say of what is set now where the variables are those of a commit.

    Args:
        namespace: these variables.
        label: what a commit is called whose cell is to be run again.
    """
    then = set(map(_of_commit, () if commit is None else repo.commit_at(commit).set_in_libraries))
    # Earlier releases named attributes without a digest: for these it is enough that something is set.
    set_now = {*now, *map(_name_of, now)}
    # Of two sides that were merged one is enough: it is one thing or the other.
    present = {_name_of(entry) for entry in then if entry in set_now or _is_now(entry)}
    absent = {entry for entry in then if _name_of(entry) not in present}
    found = _find_makers(repo, commit, namespace, absent) if commit is not None and absent else ()
    makers: dict[str, set[str]] = {}
    for made, names in found:
        makers.setdefault(label(*made), set()).update(names)
    lines = _describe_absent([*makers.items()][::-1])  # first the oldest cell: later ones may need what it makes
    staying = set(map(_name_of, now)) - set(map(_name_of, then)) - {PYLAB}
    for kind, why in _REASONS.items():
        if shown := sorted({_shown(name) for name in staying if _is_setting(name) is kind}):
            stay = "stays as a cell set it" if len(shown) == 1 else "stay as cells set them"
            lines.append(f"{_joined(shown)} {stay}: {why}")
    return lines


def _is_now(entry: str) -> bool:
    """Whether something is set as an entry says, though no cell did that: the import of a library may have done it."""
    name, _, digest = entry.partition("#")
    setting = _BY_NAME.get(_shown(name))
    if setting is not None:
        parts = setting.digests(setting.find())
        return any(setting.entry(part, found) == entry for part, found in parts.items())
    if digest:
        found = _find_by_name(name)
        return found is not _MISSING and _digest(found, tells_texts=False) == digest
    variable = _VARIABLE.fullmatch(entry)
    return variable is not None and variable[1] in _environment()


def _find_by_name(full: str) -> object:
    """An attribute of a module or a class, by the name that commits give it."""
    steps = full.split(".")
    for count in range(len(steps) - 1, 0, -1):
        found: object = sys.modules.get(".".join(steps[:count]))
        if found is not None:
            for step in steps[count:-1]:
                found = _part_of(found, step)
            owner = _owner(found)
            return _MISSING if owner is None else _attributes_of(owner).get(steps[-1], _MISSING)
    return _MISSING


def _describe_absent(makers: Iterable[tuple[str, set[str]]]) -> list[str]:
    lines: list[str] = []
    reasons = {kind: f": {why}" for kind, why in _REASONS.items()}
    for maker, names in makers:
        if PYLAB in names:
            lines.append(f"to have the names of %pylab again, run the cell of {maker}: commits do not save them")
        for kind in (False, True):
            if plain := sorted({_shown(name) for name in map(_name_of, names - {PYLAB}) if _is_setting(name) is kind}):
                lines.append(f"to set {_joined(plain)} again, run the cell of {maker}{reasons[kind]}")
                reasons[kind] = ""  # one line with it is enough
    return lines


def _find_makers(
    repo: Repository, commit: ObjectId, namespace: Mapping[str, object], names: set[str]
) -> Iterator[tuple[tuple[ObjectId, Commit], set[str]]]:
    """The commits of the last cells that set these names, newest first, as far back as is looked and can be read."""
    ways = [(commit, names)]
    for _ in range(_FURTHEST):
        if not ways:
            return
        id, todo = ways.pop()
        here = repo.commit_at(id)
        own = _find_set_by(here, namespace, todo)
        todo = todo - own
        before: dict[ObjectId, set[str]] = {}
        for origin in (here.restores, *here.parents[1:]) if here.restores else here.parents:
            try:
                before[origin] = set(map(_of_commit, repo.commit_at(origin).set_in_libraries))
            except StoreError:  # a part of the history is damaged: the commit after it is named
                continue
        for origin, entries in before.items():
            held = todo & entries
            todo = todo - held
            before[origin] = held
        ways += [(origin, held) for origin, held in before.items() if held]
        noted = _find_noted_makers(repo, here, todo)
        todo = todo.difference(*noted.values())
        ways += noted.items()
        if own or todo:
            yield (id, here), own | todo
    yield from (((id, repo.commit_at(id)), todo) for id, todo in ways)


def _find_noted_makers(repo: Repository, commit: Commit, names: set[str]) -> dict[ObjectId, set[str]]:
    """The commits that lie on another branch, of cells that set what was still set for this one, and what each set."""
    found: dict[ObjectId, set[str]] = {}
    for entry in commit.set_in_libraries:
        name, _, maker = entry.partition("@")
        if maker and name in names:
            try:
                id = ObjectId(bytes.fromhex(maker))
                if name in map(_of_commit, repo.commit_at(id).set_in_libraries):
                    found.setdefault(id, set()).add(name)
            except (StoreError, ValueError):  # it is gone: the commit itself is named
                continue
    return found


def _find_set_by(commit: Commit, namespace: Mapping[str, object], names: set[str]) -> set[str]:
    """Those of the names that the text of its cell sets: an earlier cell may have set them to something else."""
    source = "" if commit.cell is None else commit.cell.source
    if not any(_name_of(entry).rpartition(".")[2] in source for entry in names):
        return set()
    found = {full for full, *_ in _find(source, _targets(source), namespace)}
    if _RUNS_PYLAB.search(source):
        found.add(PYLAB)
    return {entry for entry in names if _name_of(entry) in found}


def _joined(names: Sequence[str]) -> str:
    shown = [*names[:_SHOWN], *([f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else [])]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))


def _find(
    source: str, targets: Iterable[tuple[str, str]], namespace: Mapping[str, object]
) -> Iterator[tuple[str, Owner, str, object]]:
    imported: dict[str, object] | None = None
    for path, name in targets:
        root, *steps = path.split(".")
        if root in namespace:
            found = namespace[root]
        else:
            imported = _find_imported(source) if imported is None else imported
            found = imported.get(root)
        for step in steps:
            found = _part_of(found, step)
        owner = _owner(found)
        if owner is not None and (place := _place_of(owner)):
            yield f"{place}.{name}", owner, name, _attributes_of(owner).get(name, _MISSING)


def _targets(source: str) -> set[tuple[str, str]]:
    """The paths and names of what a text may set, also in its strings and comments: those do not change anything."""
    found = {(_path_before(source, match.start()), match[1]) for match in _ASSIGNED.finditer(source)}
    if "attr(" in source:
        found.update(_CALLED.findall(source))
    if "del" in source:
        found.update(_DELETED.findall(source))
    return {target for target in found if target[0]}


def _path_before(source: str, end: int) -> str:
    """The names with points between them that end there; nothing behind a call or an item."""
    begin = end
    while begin and end - begin < _LONGEST_PATH and (source[begin - 1].isalnum() or source[begin - 1] in "._"):
        begin -= 1
    return source[begin:end] if _PATH.fullmatch(source, begin, end) else ""


def _find_imported(source: str) -> dict[str, object]:
    """What a text imports that is loaded already, by the names that it gets."""
    found: dict[str, object] = {}
    for match in _IMPORT.finditer(source):
        for name, other in _NAMES.findall(match[2]):
            if match[1]:
                found[other or name] = _part_of(sys.modules.get(match[1]), name)
            else:
                found[other or name.partition(".")[0]] = sys.modules.get(name if other else name.partition(".")[0])
    return found


def _owner(value: object) -> Owner | None:
    """A module or a class, without asking what it says that it is."""
    kind = type(value)
    return cast("Owner", value) if derives_from(kind, ModuleType) or derives_from(kind, type) else None


def _is_module(owner: Owner) -> TypeIs[ModuleType]:
    return derives_from(type(owner), ModuleType)


def _part_of(value: object, name: str) -> object:
    """A part of a module or a class as it stands there: no code of theirs runs."""
    owner = _owner(value)
    if owner is None or _is_module(owner):
        return None if owner is None else module_dict(owner).get(name)
    return next((class_dict(base)[name] for base in bases_of(owner) if name in class_dict(base)), None)


def _inherited(owner: type, name: str) -> object:
    """What the class would have under this name without one of its own."""
    return next((class_dict(base)[name] for base in bases_of(owner)[1:] if name in class_dict(base)), _MISSING)


def _attributes_of(owner: Owner) -> Mapping[str, object]:
    return module_dict(owner) if _is_module(owner) else class_dict(owner)


def _place_of(owner: Owner) -> str:
    """The full name of a class or a module of a library; nothing for those of the person's own."""
    from agent_kernel.values.references import is_library

    module = exact_str(module_dict(owner).get("__name__")) if _is_module(owner) else module_name(owner)
    name = module if _is_module(owner) else f"{module}.{qualified_name(owner)}"
    return name if is_library(module) else ""


def _is_of_library(value: object) -> bool:
    """Whether this may have been there before the cell: nothing, or what a library's own code made."""
    from agent_kernel.values.references import is_library

    owner = _owner(value)
    if type(value) is FunctionType:
        return is_library(exact_str(value.__module__))
    return value is _MISSING if owner is None else bool(_place_of(owner))
