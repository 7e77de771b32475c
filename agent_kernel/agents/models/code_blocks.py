"""Code that a model wrote into its words, because it calls no tools: what stands in ```python fences.

Local models often know no tools, or are behind a server that knows none. What they write between fences is their action then,
and what is around it their words. A fence without a language may hold anything: it counts where it is Python that does
something, and no fence beside it says that it is Python.
"""

from __future__ import annotations

import ast
import re
from textwrap import dedent
from typing import Final

import msgspec

from agent_kernel.agents.models import AssistantMessage, Message, Request, ToolResult, UserMessage

__all__ = ["CAME", "CodeReader", "Fenced", "in_words", "split", "without_surrogates"]


CAME: Final = "What came of your code:\n"
_INSTRUCTIONS: Final = """\
You cannot call run_python here. Wherever you would, answer with one fence of Python instead, and its code is run in the
same way:
```python
print("what you want to see")
```
What came of it is told to you in the next message. An answer without a fence ends the task, and is its result."""

_PYTHON: Final = frozenset({"python", "py", "python3", "ipython", "ipython3"})
_OPENS: Final = re.compile(r"[ \t]*(`{3,}|~{3,})[ \t]*\{?\.?([^\s`{}]*)[^`\n]*")
_BETWEEN: Final = "\n\n"  # the code of several fences


class Fenced(msgspec.Struct, frozen=True):
    """The words of an answer and the code that stood among them."""

    text: str
    code: str


class _Fence(msgspec.Struct, frozen=True):
    first: int  # its lines: from the one that opens it up to behind the one that closes it
    end: int
    language: str
    code: str


def split(answer: str) -> Fenced | None:
    """The code in the fences of an answer, and the words around them; None if it has no code."""
    lines = answer.splitlines()
    found = _fences(lines)
    blocks = [one for one in found if one.language in _PYTHON] or [
        one for one in found if not one.language and _does_something(one.code)
    ]
    code = _BETWEEN.join(one.code for one in blocks if one.code)
    if not code:
        return None
    code_lines = {at for one in blocks for at in range(one.first, one.end)}
    words = "\n".join(line for at, line in enumerate(lines) if at not in code_lines)
    return Fenced(re.sub(r"\n{3,}", "\n\n", words).strip(), code)


def in_words(request: Request) -> Request:
    """The same question to a model that can call no tool. Some want two sides that take turns, so nobody says two things."""
    found: list[UserMessage | AssistantMessage] = []
    for message in map(_plain, request.messages):
        last = found[-1] if found else None
        if type(last) is type(message) and last is not None:
            found[-1] = type(last)(f"{last.text}{_BETWEEN}{message.text}")
        else:
            found.append(message)
    instructions = _BETWEEN.join(filter(None, (request.instructions, _INSTRUCTIONS)))
    return msgspec.structs.replace(request, instructions=instructions, messages=tuple(found))


def _plain(message: Message) -> UserMessage | AssistantMessage:
    if isinstance(message, ToolResult):
        return UserMessage(f"{CAME}{message.text}")
    if isinstance(message, AssistantMessage) and message.code is not None:
        return AssistantMessage(_in_fence(message.text, message.code))
    return message


def _in_fence(text: str, code: str) -> str:
    """An answer as a model writes it that calls no tools."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n\n".join(filter(None, (text, f"{fence}python\n{code}\n{fence}")))


def _fences(lines: list[str]) -> list[_Fence]:
    """All fences; the last one may lack its end, where the model had nothing more to say."""
    found: list[_Fence] = []
    at = 0
    while at < len(lines):
        opened = _OPENS.fullmatch(lines[at])
        if opened is None:
            at += 1
            continue
        closed = next((end for end in range(at + 1, len(lines)) if _closes(lines[end], opened[1])), len(lines))
        code = dedent("\n".join(lines[at + 1 : closed])).strip("\n")
        found.append(_Fence(at, closed + 1, opened[2].lower(), code))
        at = closed + 1
    return found


def _closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and not text.strip(fence[0])


def _does_something(code: str) -> bool:
    """Whether this is Python that is more than a value or a name: a result is shown in such fences too."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(one, ast.Expr) or any(map(_acts, ast.walk(one))) for one in body)


def _acts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call | ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom)


# -- the code of a call, read from its JSON as it comes in, cut wherever the provider cut it

_ESCAPES: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_PLAIN: Final = re.compile(r'[^"\\]+')
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIGH: Final = range(0xD800, 0xDC00)
_LOW: Final = range(0xDC00, 0xE000)


def without_surrogates(text: str) -> str:
    """The text with halves of characters, which no encoding can carry, replaced."""
    return _SURROGATE.sub("\ufffd", text)


class CodeReader:
    r"""Gives the text of one key of a JSON object, as far as its pieces go.

    What is no such object gives what it can; only the whole answer is ever run.

    >>> reader = CodeReader()
    >>> [reader.feed(piece) for piece in ('{"co', 'de": "a', ' = 1', chr(92), 'n', 'b"}')]
    ['', 'a', ' = 1', '', '\n', 'b']
    """

    def __init__(self, key: str = "code") -> None:
        self._key = key
        self._rest = ""  # the beginning of an escape that is not whole yet
        self._high = 0  # the first half of a character of two
        self._depth = 0
        self._string: list[str] | None = None  # the string that is being read
        self._named = ""  # the last string of the outermost object
        self._is_value = False  # behind a colon of the outermost object

    def feed(self, piece: str) -> str:
        """What this piece adds to the text."""
        text, self._rest = self._rest + piece, ""
        found: list[str] = []
        at = 0
        while at < len(text):
            if self._string is None:
                self._read_structure(text[at])
                at += 1
                continue
            at = self._read_string(text, at, found)
        return "".join(found)

    @property
    def _wanted(self) -> bool:
        return self._depth == 1 and self._is_value and self._named == self._key

    def _read_structure(self, char: str) -> None:
        if char == '"':
            self._string = []
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1
        elif char == ":" and self._depth == 1:
            self._is_value = True
        elif char == "," and self._depth == 1:
            self._is_value = False

    def _read_string(self, text: str, at: int, found: list[str]) -> int:
        """Read on in a string, and return where it stopped."""
        if plain := _PLAIN.match(text, at):
            self._take(plain[0], found)
            return plain.end()
        if text[at] == '"':
            self._take("", found)
            self._close()
            return at + 1
        size = 6 if text[at + 1 : at + 2] == "u" else 2
        if len(text) - at < size:
            self._rest = text[at:]
            return len(text)
        self._escape(text[at + 1 : at + size], found)
        return at + size

    def _escape(self, escape: str, found: list[str]) -> None:
        if escape[0] != "u":
            self._take(_ESCAPES.get(escape, escape), found)
            return
        try:
            code = int(escape[1:], 16)
        except ValueError:
            self._take("\ufffd", found)
            return
        if self._high and code in _LOW:
            whole = 0x10000 + ((self._high - _HIGH.start) << 10) + (code - _LOW.start)
            self._high = 0
            self._take(chr(whole), found)
        elif code in _HIGH:
            self._take("", found)
            self._high = code
        else:
            self._take(without_surrogates(chr(code)), found)

    def _take(self, text: str, found: list[str]) -> None:
        """Text of the string that is being read; a half that stands alone before it is no character."""
        if self._high:
            text, self._high = "\ufffd" + text, 0
        if self._wanted:
            found.append(text)
        elif self._string is not None:
            self._string.append(text)

    def _close(self) -> None:
        if self._depth == 1 and not self._is_value:
            self._named = "".join(self._string or ())
        self._string = None
