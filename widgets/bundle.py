"""Join the modules of a panel into one, because a widget's code travels as one text, without Node or any download.

Each imported module becomes the value of a function that returns what it exports, so names of different modules never
meet. Only the forms that the sources use are understood; anything else raises, with file and line, before it could reach
a browser: `import { a, b as c } from "./x.js"`, `export` before a function, a class or one constant, and
`export default` where a bundle begins.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

__all__ = ["BundleError", "hashed", "module", "style"]

_IMPORT = re.compile(r'^import\s*\{([^}]*)\}\s*from\s*"(\.{1,2}/[\w./-]+\.js)";[ \t]*$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:(?:async )?function\*? *|class |const )([\w$]+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default ", re.MULTILINE)
# Lines that begin as a comment may name a module's types.
_LEFT = re.compile(r"^[ \t]*(?:(?:import|export)\b(?!\.).*|(?!\*|/).*\bimport *\(.*)", re.MULTILINE)
_NAME = re.compile(r"([\w$]+)(?:\s+as\s+([\w$]+))?")


class BundleError(ValueError):
    """A module that cannot be joined, and where."""


def module(entry: Path) -> str:
    """The entry and all it imports, as one module that exports what the entry does.

    Raises:
        BundleError: a module is missing, imports in a circle, or has a form that is not understood.
    """
    return _Bundle(entry.resolve()).text()


def style(*folders: Path) -> str:
    """The style sheets of these folders, each folder's in the order of their names."""
    sheets = [sheet for folder in folders for sheet in sorted(folder.glob("*.css"))]
    return "".join(f"/* {sheet.parent.name}/{sheet.name} */\n{sheet.read_text('utf-8')}" for sheet in sheets)


def hashed(name: str, text: str) -> str:
    """The file's name with a hash of its content, since servers let browsers keep such files for ever.

    >>> hashed("lab.css", "")
    'lab.e3b0c44298fc.css'
    """
    stem, _, ending = name.rpartition(".")
    return f"{stem}.{hashlib.sha256(text.encode()).hexdigest()[:12]}.{ending}"


class _Bundle:
    """One entry's modules, each joined once, after those that it imports."""

    def __init__(self, entry: Path) -> None:
        self._entry = entry
        self._panels = entry.parents[1]
        self._parts: list[str] = []
        self._exports: dict[Path, list[str]] = {}
        self._reading: list[Path] = []  # each imports the next one

    def text(self) -> str:
        body = self._body(self._entry)
        return "\n".join([*self._parts, f"// {self._name(self._entry)}\n{body}"])

    def _body(self, path: Path) -> str:
        """The module's own lines, with constants in place of its imports."""
        source = path.read_text("utf-8")
        self._refuse_the_unknown(path, source)
        self._reading.append(path)
        body = _IMPORT.sub(lambda found: self._bound(path, source, found), source)
        self._reading.pop()
        return body

    def _refuse_the_unknown(self, path: Path, source: str) -> None:
        for found in _LEFT.finditer(source):
            known = [_IMPORT, _EXPORT, _DEFAULT] if path == self._entry else [_IMPORT, _EXPORT]
            if not any(form.match(source, found.start()) for form in known):
                raise BundleError(f"{self._place(path, source, found.start())}: cannot join {found[0].strip()!r}")

    def _bound(self, path: Path, source: str, found: re.Match[str]) -> str:
        """The names of an import, taken from the constant that holds the other module."""
        at = self._place(path, source, found.start())
        other = (path.parent / found[2]).resolve()
        exported = self._join(other, at)
        names: list[str] = []
        for item in filter(None, (part.strip() for part in found[1].split(","))):
            name = _NAME.fullmatch(item)
            if name is None or name[1] not in exported:
                raise BundleError(f"{at}: {self._name(other)} does not export {item!r}")
            names.append(f"{name[1]}: {name[2]}" if name[2] else name[1])
        return f"const {{ {', '.join(names)} }} = {self._constant(other)};"

    def _join(self, path: Path, at: str) -> list[str]:
        """Join a module unless it is, and return what it exports."""
        if path in self._reading:
            raise BundleError(f"{at}: imports {self._name(path)}, which imports this")
        if path not in self._exports:
            if not path.is_relative_to(self._panels) or not path.is_file():
                raise BundleError(f"{at}: there is no {self._name(path)}")
            body = self._body(path)
            exported = [found[1] for found in _EXPORT.finditer(body)]
            self._exports[path] = exported
            inner, returned = _EXPORT.sub("", body).rstrip(), ", ".join(exported)
            begin = f"// {self._name(path)}\nconst {self._constant(path)} = (() => {{"
            self._parts.append(f"{begin}\n{inner}\nreturn {{ {returned} }};\n}})();\n")
        return self._exports[path]

    def _constant(self, path: Path) -> str:
        """What holds a joined module, such as `$3_list`."""
        return f"${list(self._exports).index(path)}_{re.sub(r'[^A-Za-z0-9]', '_', path.stem)}"

    def _name(self, path: Path) -> str:
        return path.relative_to(self._panels).as_posix() if path.is_relative_to(self._panels) else str(path)

    def _place(self, path: Path, source: str, offset: int) -> str:
        return f"{self._name(path)}:{source.count(chr(10), 0, offset) + 1}"
