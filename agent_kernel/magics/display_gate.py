"""What a step of an agent may show in the page: every message to the front end passes here, whoever made it. And `exit`.

Displays, results, widgets and channels leave the kernel through `Session.send`, and what comes with a cell's reply is kept by
the payload manager. Both are asked on their class, so that another reference to them is no way around. Without a step
that has a gate nothing is looked at, but for what functions show that such a step left to be called.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, cast

from agent_kernel.agents.gate import package_folder

if TYPE_CHECKING:
    from agent_kernel.agents.gate import Gate
    from agent_kernel.magics.shell import Shell

_BUNDLES: Final = frozenset({"display_data", "update_display_data", "execute_result"})
_WIDGET_TARGET: Final = "jupyter.widget"
_KNOWN: Final = frozenset({_WIDGET_TARGET, "jupyter.widget.control", "jupyter.widget.version"})
_PAYLOADS: Final = {
    "set_next_input": "code in a cell of yours",
    "edit_magic": "an editor",
    "ask_exit": "the end of the kernel",
}
_guarded: set[type] = set()


def guard_page(shell: Shell) -> None:
    """Have what steps send to the page looked at, from now on."""
    kernel = getattr(shell, "kernel", None)
    _wrap(getattr(kernel, "session", None), "send", _sending)
    _wrap(getattr(kernel, "iopub_thread", None), "send_multipart", _sending_raw)
    _wrap(getattr(shell, "payload_manager", None), "write_payload", _writing_payload)
    _wrap(shell, "ask_exit", _ending)


def _wrap(target: object, name: str, wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    kind = type(target)
    act = getattr(kind, name, None)
    if target is not None and kind not in _guarded and callable(act):
        _guarded.add(kind)
        setattr(kind, name, functools.wraps(act)(wrapper(act)))


class _CallbackGate:
    """The gate of what a step left to be called: nobody can be asked any more, and nobody's cell is to fail for it."""

    def may_show(self, what: str, frame: FrameType | None) -> bool:
        return False


_callback_gate = _CallbackGate()


def _gate() -> Gate | _CallbackGate | None:
    """What stops the step that this thread works for, if anything does. Before the first step nothing of that is loaded."""
    side_effects: Any = sys.modules.get("agent_kernel.agents.side_effects")
    if side_effects is None:
        return None
    gate = cast("Callable[[], Gate | None]", side_effects.current_gate)()
    if gate is not None or not side_effects.has_guarded():
        return gate
    from agent_kernel.agents.gate import is_left_callback

    return _callback_gate if is_left_callback(inspect.currentframe()) else None


class _Sending(threading.local):
    """Whether this thread is sending a message that was looked at."""

    now = False


_sending_state = _Sending()


def _sending(send: Callable[..., Any]) -> Callable[..., Any]:
    def sending(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate = _gate()
        if gate is None:
            return send_marked(self, *args, **kwargs)
        return guard_and_send(self, gate, *args, **kwargs)

    def guard_and_send(
        self: Any, gate: Gate | _CallbackGate, stream: Any, message: Any, content: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        message, content = _plain(message), _plain(content)
        whole = _mapping(message)
        original = _mapping(whole.get("content") if whole else content)
        filtered = _filter_content(gate, str(whole.get("msg_type") if whole else message), original)
        if filtered is None:
            return None
        if filtered is not original:
            message, content = ({**whole, "content": filtered}, content) if whole else (message, filtered)
        return send_marked(self, stream, message, content, *args, **kwargs)

    def send_marked(self: Any, *args: Any, **kwargs: Any) -> Any:
        before, _sending_state.now = _sending_state.now, True
        try:
            return send(self, *args, **kwargs)
        finally:
            _sending_state.now = before

    return sending


def _sending_raw(send: Callable[..., Any]) -> Callable[..., Any]:
    def sending_raw(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate = None if _sending_state.now else _gate()
        if gate is not None and _is_withheld(gate, "a message", "nobody can read"):
            return None
        return send(self, *args, **kwargs)

    return sending_raw


def _writing_payload(write: Callable[..., Any]) -> Callable[..., Any]:
    def writing_payload(self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        gate = _gate()
        if gate is not None:
            data = _plain(data)
            payload = _mapping(data)
            source = str(payload.get("source", ""))
            active = active_parts(_mapping(payload.get("data"))) if source == "page" else {}
            what = next(iter(active), _PAYLOADS.get(source, "" if source == "page" else source or "a payload"))
            if what and _is_withheld(gate, what, active.get(what, "nobody asked for")):
                return None
        return write(self, data, *args, **kwargs)

    return writing_payload


def _ending(ask_exit: Callable[..., Any]) -> Callable[..., Any]:
    """`exit` in a notebook ends the kernel a moment later, on another thread, with no event of Python's."""

    def ending(self: Any, *args: Any, **kwargs: Any) -> Any:
        gate = _gate()
        if isinstance(gate, _CallbackGate):
            return None
        if gate is not None and (stopped := gate.check("ends", "the kernel", (), inspect.currentframe())) is not None:
            raise stopped
        return ask_exit(self, *args, **kwargs)

    return ending


def _filter_content(gate: Gate | _CallbackGate, kind: str, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The content as it may be sent; None: not at all."""
    if kind in _BUNDLES:
        return _bundle(gate, content)
    if kind not in ("comm_open", "comm_msg"):
        return content
    target = str(content.get("target_name", _WIDGET_TARGET))
    data = _mapping(content.get("data"))
    if target not in _KNOWN:
        return None if _is_withheld(gate, f"a channel to {target}", "runs a program of the page") else content

    active = active_state(_mapping(data.get("state")))
    return None if active and _is_withheld(gate, "a widget", active) else content


def _bundle(gate: Gate | _CallbackGate, content: Mapping[str, Any]) -> Mapping[str, Any] | None:
    from agent_kernel.agents.gate import THAT

    data = _mapping(content.get("data"))
    active = active_parts(data)
    refused = [mime for mime in active if not gate.may_show(mime, inspect.currentframe())]
    if not refused:
        return content
    if len(refused) < len(active):  # the page needs no second way to show what was allowed
        return {**content, "data": {mime: value for mime, value in data.items() if mime not in refused}}
    inactive = {mime: value for mime, value in data.items() if mime not in active}
    if not isinstance(gate, _CallbackGate) and not gate.withholds:
        first, *_ = [gate.stop("shows", f"{mime}{THAT}{why}") for mime, why in active.items()]
        raise first
    for mime, why in active.items():
        _is_withheld(gate, mime, why)
    return {**content, "data": inactive} if inactive else None


def _is_withheld(gate: Gate | _CallbackGate, what: str, why: str) -> bool:
    """Whether something is not sent. Where somebody can be asked, the step ends here.

    Raises:
        EffectStopped: a person is to be asked.
    """
    if gate.may_show(what, inspect.currentframe()):
        return False
    from agent_kernel.agents.gate import THAT

    target = f"{what}{THAT}{why}"
    if not isinstance(gate, _CallbackGate) and not gate.withholds:
        raise gate.stop("shows", target)
    sys.stdout.write(f"[withheld: {target}]\n")
    return True


def _plain(value: Any) -> Any:
    """The same made of plain texts, lists and dicts: classes of the step's own may say something else when they are sent."""
    kind = cast("type[object]", type(value))
    if issubclass(kind, str):
        return str.__str__(value)  # of one that is no plain one, its letters
    if issubclass(kind, dict):
        return {_plain(key): _plain(one) for key, one in dict[Any, Any].items(value)}
    if issubclass(kind, list):
        return [_plain(one) for one in list[Any].__iter__(value)]
    if issubclass(kind, tuple):
        return tuple(_plain(one) for one in tuple[Any, ...].__iter__(value))
    return value


def _mapping(found: object) -> Mapping[str, Any]:
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


# -- what a MIME bundle, or the state of a widget, would run or load in the page: read from what is emitted, whoever made it
#
# Only what is known to be still passes: tables, texts, pictures. HTML is read by a parser that decides and mends nothing, so
# what it cannot read as a browser would counts as active. A script passes where it stands word for word in a file of an
# installed package that is loaded, as that of scikit-learn's models does: whoever installed it runs its Python already.

_STILL: Final = frozenset({"text/plain", "application/json", "text/csv", "text/x-python"})
_PICTURES: Final = re.compile(r"image/(?:png|jpe?g|gif|webp|bmp|tiff|x-icon|avif)")
_EXCERPT: Final = 100
_WIDGETS: Final = frozenset({"@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"})
_TEX: Final = re.compile(
    r"\\(?:href|url|mmlToken|html\w*|require|includegraphics|class|cssId|style|unicode|data)\b", re.IGNORECASE
)
# A box whose style may load something: all but colours, lengths and borders, and each where a formula defines commands.
_BOX: Final = re.compile(r"\\bbox\b(?!\s*\[[\w\s.,:;%-]*\]|\s*\{)", re.IGNORECASE)
_DEFINES: Final = re.compile(r"\\(?:let|g?def|\w*command|\w*environment)\b", re.IGNORECASE)
_MATH: Final = re.compile(r"\$|\\[(\[]|\\begin\b")  # where pages begin to read formulas in a text
# Definitions may stand in lists and quotes; a drawing in a fence is a program of its own.
_MARKDOWN_LOADS: Final = re.compile(
    r"^[\s>*+\-\d.)]*(?:\[(?:\\.|[^\]\\])+\]:|(?:`{3,}|~{3,})[\s{.]*mermaid)|\]\(\s*<?\s*(?!https?://|#|data:image/)[^)\s]",
    re.MULTILINE | re.IGNORECASE,
)
# Brackets nest in what a picture is called, so of a text with a picture each address counts as one.
_MARKDOWN_PICTURE: Final = re.compile(r"\]\(\s*<?(?!data:image/)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TAGS: Final = _words(
    "html body head div span p br hr b i u s em strong small sub sup code pre kbd samp var mark del ins abbr cite q blockquote "
    "h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table caption colgroup col thead tbody tfoot tr th td a img figure figcaption details "
    "summary label input button progress meter center font tt nobr wbr time section article header footer main nav aside "
    "address audio video source canvas output fieldset legend style script bdi bdo ruby rt rp "
    "svg g defs path rect circle ellipse line polyline polygon text tspan textpath title desc symbol use clippath mask pattern "
    "marker lineargradient radialgradient stop filter image switch view metadata "
    "feblend fecolormatrix fecomposite feflood fegaussianblur femerge femergenode feoffset fedropshadow"
)
# Those that metadata of pictures have in a name space of their own, and that no page shows.
_META_TAGS: Final = re.compile(r"(?:rdf|cc|dc|sodipodi|inkscape):\w+|work|agent|license")
_ADDRESSES: Final = _words(
    "src href xlink:href action formaction poster data background srcset cite longdesc usemap ping lowsrc dynsrc manifest code "
    "codebase archive profile icon"
)
_ALWAYS: Final = frozenset({"srcdoc", "formaction", "action", "http-equiv", "autofocus", "ping", "is"})
_INPUTS: Final = frozenset({"checkbox", "radio", "text", "number", "range", "hidden", "button", "search", ""})
_PICTURE_TEXT: Final = re.compile(
    r"data:(?:image/(?:png|jpe?g|gif|webp|bmp)|audio/[\w.+-]+|video/[\w.+-]+);base64,[\w+/=\s%-]*"
)
_LINK: Final = re.compile(r"https?://[\w.-]+(?::\d+)?(?:/[^?\s]*)?")
_HERE: Final = re.compile(r"https?://(?:localhost|127\.|0\.0\.0\.0|\[)", re.IGNORECASE)
_HANDLER: Final = re.compile(r"""[\s/"'`]on\w+\s*=""", re.IGNORECASE)
_ARGUMENT: Final = r"""(?:'[^'\\<>]*'|"[^"\\<>]*"|this(?:\.[a-zA-Z]+)*|\d+)"""
_CALL: Final = re.compile(rf"\s*(\w+)\(\s*(?:{_ARGUMENT}(?:\s*,\s*{_ARGUMENT})*)?\s*\)\s*;?\s*")
_EVENT: Final = re.compile(r"event\.(?:stopPropagation|preventDefault)\(\);?")
_CALLS: Final = re.compile(rf"(?:{_CALL.pattern.replace('(', '(?:', 1)})*")
_STYLE_LOADS: Final = re.compile(
    r"""@import|@charset|expression\s*\(|-moz-binding|behavior\s*:|javascript:|url\(\s*["']?(?!data:image/(?:png|svg)|#)|"""
    r"position\s*:\s*(?:fixed|sticky)|image-set|\b(?:image|src|cross-fade)\(|\\",
    re.IGNORECASE,
)
_PAGES_OWN: Final = re.compile(
    r"[.#]?(?:jp|lm|p|ak|cm|agent-kernel|jupyter|notebook|widget)-|CodeMirror|data-jp|:has\(", re.IGNORECASE
)
_READ: Final = re.compile(r"[<&\\]")  # a text without these is neither HTML nor a formula
_MARKUP: Final = re.compile(r"<[a-zA-Z!/?]")
_COMMENTS: Final = re.compile(r"/\*.*?\*/", re.DOTALL)


def active_parts(bundle: Mapping[str, object]) -> dict[str, str]:
    """The representations that run or load something in the page, and what they do."""
    return {str(mime): why for mime, value in bundle.items() if (why := _active(str(mime).lower(), value))}


def _active(mime: str, value: object) -> str:
    if mime in _STILL or _PICTURES.fullmatch(mime):
        return ""
    text = "".join(cast("list[str]", value)) if isinstance(value, list) else value
    if mime == "application/vnd.jupyter.widget-view+json":
        return ""  # its state was looked at as it was opened
    if not isinstance(text, str) or mime not in ("text/html", "image/svg+xml", "text/markdown", "text/latex"):
        return "runs a program of the page"
    if mime == "text/latex":
        return _active_tex(text)
    if mime == "text/markdown":
        loads = _MARKDOWN_LOADS.search(text) or ("![" in text and _MARKDOWN_PICTURE.search(text))
        if loads:
            return f"loads or leads to {_cut(text[loads.start() :])}"
    return active_html(text, is_markdown=mime == "text/markdown", is_picture=mime == "image/svg+xml")


def _active_tex(text: str) -> str:
    """What a formula loads or leads to; "": nothing."""
    found = _TEX.search(text) or _BOX.search(text)
    if found is None and "\\bbox" in text.lower():
        found = _DEFINES.search(text)
    return f"has {_cut(found[0])}" if found else ""


def active_state(state: Mapping[str, object]) -> str:
    """What a widget of this state, or with this change to it, would run or load in the page; "": nothing."""
    for key in ("_esm", "_css"):
        source = state.get(key)
        if source is not None and not (isinstance(source, str) and is_installed(source)):
            return f"runs {_cut(str(source))}"
    for module in filter(None, (state.get("_model_module"), state.get("_view_module"))):
        is_known = isinstance(module, str) and module in _WIDGETS
        if not is_known and not (module == "anywidget" and "_esm" in state):
            return f"runs the module {module}"
    if state.get("format") == "url":
        return "loads an address"
    return next((found for item in state.items() if (found := _active_value(*item))), "")


def _active_value(key: str, value: object) -> str:
    """What an attribute of a widget shows: texts may be HTML, outputs are bundles."""
    if key in ("_esm", "_css"):
        return ""
    if key == "outputs":
        return _active_outputs(value)
    for text in _texts(value):
        if key == "background" and _STYLE_LOADS.search(_COMMENTS.sub("", text)):
            return f"loads {_cut(text)}"
        if _READ.search(text) and (found := active_html(text, is_markdown=True)):
            return found
    return ""


def _active_outputs(value: object) -> str:
    if not isinstance(value, list | tuple):
        return "cannot be read" if value else ""
    for one in cast("list[object]", value):
        data = cast("dict[str, Any]", one).get("data", {}) if isinstance(one, dict) else None
        if not isinstance(data, dict):
            return "cannot be read"
        for mime, why in active_parts(cast("dict[str, object]", data)).items():
            return f"shows {mime} that {why}"
    return ""


def _texts(value: object) -> Iterator[str]:
    """The texts within a value. Where a page expects one and has a list, it joins it, so pieces are no texts of their own."""
    if isinstance(value, dict):
        for key, one in cast("dict[object, object]", value).items():
            yield from (_join(key), *_texts(one))
    elif isinstance(value, list | tuple):
        listed = cast("list[object]", value)
        yield _join(listed)
        for one in listed:
            if not isinstance(one, str):
                yield from _texts(one)
    elif isinstance(value, str):
        yield value


def _join(value: object) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_join, cast("list[object]", value)))
    return "" if isinstance(value, dict) else str(value)


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXCERPT else f"{line[: _EXCERPT - 1]}…"


# -- HTML


def active_html(text: str, *, is_markdown: bool = False, is_picture: bool = False) -> str:
    """What a piece of HTML runs or loads; "": nothing.

    Args:
        is_markdown: what stands between the tags is text of its own, in which a sign as < means itself.
        is_picture: it is a picture of its own: what its style says reaches nothing beside it.
    """
    reader = _Reader(is_markdown=is_markdown, is_picture=is_picture)
    try:
        reader.feed(text)
        reader.close()
        reader.end()
    except _ActiveError as found:
        return str(found)
    except Exception:  # noqa: BLE001 - what cannot be read is not still
        return "cannot be read"
    return ""


class _ActiveError(Exception):
    """Something runs or loads."""


class _Reader(HTMLParser):
    """Raises at the first thing that is not known to be still."""

    def __init__(self, *, is_markdown: bool, is_picture: bool) -> None:
        super().__init__(convert_charrefs=True)
        self._is_markdown, self._is_picture = is_markdown, is_picture
        self._raw = ""  # the element whose text is no markup: style, script
        self._raw_texts: list[str] = []
        self._handlers: list[str] = []  # functions that are called, as where somebody clicks
        self._scripts: list[str] = []  # those of installed packages
        self._texts: list[str] = []  # in which formulas may stand, across tags and remarks

    def end(self) -> None:
        if self._raw:
            raise _ActiveError(f"has a {self._raw} without an end")
        for name in self._handlers:
            if not any(f"function {name}(" in script for script in self._scripts):
                raise _ActiveError(f"runs {name}")
        text = "" if self._is_picture else "".join(self._texts)
        math = _MATH.search(text)
        if math and (found := _active_tex(text[math.start() :])):
            raise _ActiveError(found)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        whole = self.get_starttag_text() or ""
        if tag not in _TAGS and not (self._is_picture and _META_TAGS.fullmatch(tag)):
            raise _ActiveError(f"has {_cut(whole)}")
        handlers = sum(name.startswith("on") for name, _ in attrs)
        if len(_HANDLER.findall(whole)) > handlers or "<" in whole[1:]:
            raise _ActiveError(f"runs {_cut(whole)}")
        if "javascript:" in re.sub(r"\s", "", whole.lower()):
            raise _ActiveError(f"runs {_cut(whole)}")
        for name, value in attrs:
            self._attribute(tag, name, value or "", whole)
        if tag == "input" and dict(attrs).get("type", "") not in _INPUTS:
            raise _ActiveError(f"has {_cut(whole)}")
        if tag in ("style", "script"):
            self._raw, self._raw_texts = tag, []
            if tag == "script" and any(name == "src" for name, _ in attrs):
                raise _ActiveError(f"runs {_cut(whole)}")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("style", "script"):  # browsers do not end it here
            raise _ActiveError(f"has a {tag} without an end")
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag == self._raw:
            text = "".join(self._raw_texts)
            self._raw = ""
            if tag == "script":
                self._script(text)
            elif not is_installed(text):
                self._style(text)

    def handle_data(self, data: str) -> None:
        if self._raw:
            self._raw_texts.append(data)
            return
        self._texts.append(data)
        if not self._is_markdown and _MARKUP.search(data) and data in self.rawdata:  # else it was spelled &lt;
            raise _ActiveError(f"cannot be read: {_cut(data)}")

    def handle_comment(self, data: str) -> None:
        if "<" in data or ">" in data or data.startswith("-") or data.endswith(("-", "!")):
            raise _ActiveError(f"hides {_cut(data)}")

    def handle_decl(self, decl: str) -> None:
        if not decl.lower().startswith("doctype") or "[" in decl or ">" in decl:
            raise _ActiveError(f"cannot be read: {_cut(decl)}")

    def unknown_decl(self, data: str) -> None:
        raise _ActiveError(f"cannot be read: {_cut(data)}")

    def handle_pi(self, data: str) -> None:
        if not (self._is_picture and data.startswith("xml ") and "<" not in data):
            raise _ActiveError(f"cannot be read: {_cut(data)}")

    def _attribute(self, tag: str, name: str, value: str, whole: str) -> None:
        name = name.rpartition(":")[2]  # a picture calls its name spaces as it likes
        if name.startswith("on"):
            calls = _EVENT.sub("", value)
            if not _CALLS.fullmatch(calls):
                raise _ActiveError(f"runs {_cut(whole)}")
            self._handlers += [called[1] for called in _CALL.finditer(calls)]
        elif name in _ALWAYS or name.startswith("data-commandlinker"):
            raise _ActiveError(f"runs {_cut(whole)}")
        elif name == "style" and _STYLE_LOADS.search(_COMMENTS.sub("", value)):
            raise _ActiveError(f"has the style {_cut(value)}")
        elif name in _ADDRESSES and value and not self._is_still_address(tag, value.strip()):
            raise _ActiveError(f"{'leads to' if tag == 'a' else 'loads'} {_cut(value)}")
        elif "url(" in value.lower() and not re.fullmatch(r"\s*url\(\s*#[\w-]+\s*\)\s*", value):
            raise _ActiveError(f"loads {_cut(value)}")

    def _is_still_address(self, tag: str, value: str) -> bool:
        if value.startswith("#"):
            return True
        if tag == "a":
            return bool(_LINK.fullmatch(value)) and not _HERE.match(value)
        return tag in ("img", "image", "source", "audio", "video") and bool(_PICTURE_TEXT.fullmatch(value))

    def _script(self, text: str) -> None:
        rest = _not_installed(text)
        if rest and not _CALLS.fullmatch(rest):
            raise _ActiveError(f"runs the script {_cut(text)}")
        self._handlers += [called[1] for called in _CALL.finditer(rest)]
        self._scripts.append(text)

    def _style(self, text: str) -> None:
        bare = _COMMENTS.sub("", unescape(text))  # in a picture its signs may be spelled
        loads = _STYLE_LOADS.search(bare)
        if loads or "<" in bare:
            raise _ActiveError(f"has the style {_cut(bare[loads.start() if loads else 0 :])}")
        if self._is_picture:
            return
        for selector in _selectors(bare):
            if _PAGES_OWN.search(selector) or not re.match(r"[\w*-]*[.#\[][\w-]", selector):
                raise _ActiveError(f"changes how the page looks: {_cut(selector)}")


def _selectors(style: str) -> Iterator[str]:
    for block in re.findall(r"([^{}]*)\{", style):
        head = block.rpartition(";")[2].strip()
        if not head.startswith("@"):
            yield from (one.strip() for one in head.split(",") if one.strip())


# -- what is installed


def is_installed(text: str) -> bool:
    """Whether scripts or styles are nothing but, word for word, files of installed packages that are loaded."""
    return not _not_installed(text)


def _not_installed(text: str) -> str:
    """What is left of scripts or styles without the files of installed packages that stand in them."""
    rest = text.strip()
    packages = frozenset(name for name in sys.modules if "." not in name)
    for path, length in _page_files(packages):
        if rest and _SHORTEST <= length <= len(rest.encode()) + _BLANK and (content := _read_text(path)) in rest:
            rest = rest.replace(content, "", 1).strip()
    return rest


@lru_cache(maxsize=256)
def _read_text(path: str) -> str:
    return Path(path).read_text("utf-8", "replace").strip()


_BLANK: Final = 64  # what may stand around it in the file
_SHORTEST: Final = 200  # bytes: less than that could be a piece of anything


@lru_cache(maxsize=4)
def _page_files(packages: frozenset[str]) -> tuple[tuple[str, int], ...]:
    """Scripts and styles that the packages bring, with their sizes."""
    folders = {folder for name in packages if (folder := package_folder(name))}
    found = (os.path.join(at, name) for one in folders for at, _, names in os.walk(one) for name in names)  # noqa: PTH118
    sized = ((path, os.path.getsize(path)) for path in found if path.endswith((".js", ".css", ".mjs")))  # noqa: PTH202
    return tuple(sorted(sized, key=lambda one: -one[1]))  # a file may hold another one
