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

from agent_kernel.agents.models import Message, Request, Returned, Said, Told

__all__ = ["CAME", "Fenced", "in_words", "split"]

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
    behind: int
    language: str
    code: str


def split(said: str) -> Fenced | None:
    """The code in the fences of an answer, and the words around them; None: there is no code."""
    lines = said.splitlines()
    found = _fences(lines)
    meant = [one for one in found if one.language in _PYTHON] or [
        one for one in found if not one.language and _does_something(one.code)
    ]
    code = _BETWEEN.join(one.code for one in meant if one.code)
    if not code:
        return None
    taken = {at for one in meant for at in range(one.first, one.behind)}
    words = "\n".join(line for at, line in enumerate(lines) if at not in taken)
    return Fenced(re.sub(r"\n{3,}", "\n\n", words).strip(), code)


def in_words(request: Request) -> Request:
    """The same question to a model that can call no tool. Some want two sides that take turns, so nobody says two things."""
    found: list[Told | Said] = []
    for message in map(_plain, request.messages):
        last = found[-1] if found else None
        if type(last) is type(message) and last is not None:
            found[-1] = type(last)(f"{last.text}{_BETWEEN}{message.text}")
        else:
            found.append(message)
    instructions = _BETWEEN.join(filter(None, (request.instructions, _INSTRUCTIONS)))
    return msgspec.structs.replace(request, instructions=instructions, messages=tuple(found))


def _plain(message: Message) -> Told | Said:
    if isinstance(message, Returned):
        return Told(f"{CAME}{message.text}")
    if isinstance(message, Said) and message.code is not None:
        return Said(_in_fence(message.text, message.code))
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
    said = line.strip()
    return len(said) >= len(fence) and not said.strip(fence[0])


def _does_something(code: str) -> bool:
    """Whether this is Python that is more than a value or a name: a result is shown in such fences too."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(not isinstance(one, ast.Expr) or any(map(_acts, ast.walk(one))) for one in body)


def _acts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call | ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom)
