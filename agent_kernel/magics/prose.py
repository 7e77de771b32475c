"""Whether what is no Python is a task in plain words, or Python that was typed wrong.

A task costs money and acts, a task that was not seen costs a hint. So in doubt it is none: a first line that begins as a
statement does, or a slip of the fingers away from it, is a task only where the rest of it reads as a sentence.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable
from keyword import kwlist
from typing import Final

__all__ = ["first_line", "is_question", "reads_as_words"]

_LITERAL: Final = re.compile(r"(?<!\w)[rbfuRBFU]{0,2}([\"']).*?\1")
_QUESTION: Final = re.compile(r"[^\W\d][^=()\[\]{}%!]*\s[^=()\[\]{}]*\?+\s*")
_NO_WORDS: Final = frozenset({"def", "del", "elif", "lambda", "nonlocal"})  # keywords with which no sentence begins
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_CODE_LIKE: Final = re.compile(r"\w*_\w*|\w+(?:\.\w+)+|[^\W\d]\d*|[^\W\d]\w")
_SHORTEST: Final = 4  # letters: of a shorter name every second word is but one slip away


def _of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that hold a sentence together, and that nobody calls a variable; not those that are Python's as well.
_GRAMMAR: Final = _of(
    "the a an my our your his her their its this that these those it them they me us we i you he she there all each every "
    "both some of to by on at into onto over under between per than without within about after before until where when "
    "which who what how why because again please also using such so but are was were be been has have had does can could "
    "should would will must more most less least up down out off through during against across above below near new "
    "another other others same only just even every everything anything nothing one two three four five six seven eight "
    "nine ten whether missing find compute calculate remove first last best worst largest smallest highest lowest oldest newest dann der die das den dem ein eine einen "
    "mit von und für nach ohne le la les un une des de du et pour avec sans el los las una para con sin por"
)
_PREPOSITIONS: Final = _of("in for from with and as or not is")  # of a sentence, and of Python
# What English tasks begin with that is one slip away from a keyword, a builtin or the name of many a variable.
_ENGLISH: Final = _of(
    "form forms fork wait field catch match wish width rise praise dry cry four far or of it in is on if as at an a i do go "
    "to so no us we my me by be he up and any all are ask add act use the then than that this them call fall find bind "
    "build many kind mind mine fine line point paint prints sort sorts soft part parts pass past last list lists lift mist "
    "text test next tests rest best most move more make take fake bake rate date data late let get set got put cut run "
    "sun sum sums some same name names game many may man main pain gain again map maps mix max tax fix fit hit sit bit big "
    "old order odd open opens pen pens when then them help helps held has had have hash wash dash cash rank range rage "
    "change arrange round around sound found bound group groups ground count counts input output outputs import imports "
    "export exports expert report reports format former filter filters clean clear learn mean means plot plots plan plant "
    "place plus split slice spice space trace track train trains trim drop drops crop group grow show shows slow how now "
    "know tell tells type types try tries copy merge large print prints return returns raise raises replace reload load "
    "log look lock check chart charts draw explain explore extract estimate evaluate compute compare combine convert "
    "create delete detect describe detail do does each else every except expect fetch fill first flag for from give "
    "guess if impute improve index infer insert inspect join keep label leave limit list lower mark model name normalize "
    "pick pivot predict prepare project pull push rank read rebuild reduce refit remove rename repeat report reshape "
    "resample rewrite sample save say scale score search see select send shift simulate simplify smooth solve stack start "
    "state stop store study suggest summarise summarize swap tabulate test tidy tune turn update upper validate verify "
    "view visualise visualize walk want was what where which while who why with work write while one two ten not in"
)
_KEYWORDS: Final = tuple(word for word in kwlist if word.islower())
_BUILTINS: Final = tuple(name for name in dir(builtins) if name.islower() and name.isalpha())


def reads_as_words(body: str, names: Iterable[str] = ()) -> bool:
    """Whether the first line that is no comment is prose: no sign of an assignment, a call, an index, a literal.

    Args:
        names: the variables that there are: what begins with one is more likely code.
    """
    line = first_line(body, comments=False) or first_line(body)
    if any(sign in line for sign in "=()[]{}") or _LITERAL.search(line) or not any(map(str.isalpha, line)):
        return False
    return not _is_slip(line, names)


def _is_slip(line: str, names: Iterable[str]) -> bool:
    words = line.split()
    if len(words) < 3 and not words[0][:1].isupper() and line[-1] not in ".!?":
        return True
    if words[0] in _NO_WORDS:
        return True
    return _is_python_but_for_a_word(words) or _begins_as_code(words, names)


def _is_python_but_for_a_word(words: list[str]) -> bool:
    """Whether `imprt pandas as pd` would be Python with the keyword that was meant."""
    from difflib import get_close_matches

    if any(_parses([meant, *words[1:]]) for meant in get_close_matches(words[0], kwlist, 3, 0.7)):
        return True
    swapped = ((at, meant) for at, word in enumerate(words) for meant in kwlist if _is_swapped(word, meant))
    return any(_parses([*words[:at], meant, *words[at + 1 :]]) for at, meant in swapped)


def _begins_as_code(words: list[str], names: Iterable[str]) -> bool:
    """Whether the line begins as a statement does, or one slip away from it, and does not go on as a sentence."""
    first = words[0].rstrip(",:;").lower()
    known = [name for name in names if not name.startswith("_") and name not in ("In", "Out")]
    signs = _signs_of_a_sentence(words)
    if first in _KEYWORDS:
        return signs == 0 or _imports(first, words)
    if first in _BUILTINS or words[0] in known:
        return signs == 0 and not _has_prepositions(words)
    if _CODE_LIKE.fullmatch(words[0]) and not _WORD.fullmatch(words[0]):
        return signs == 0  # `df.head 5 rows`, `x1 y z`
    if any(_is_one_slip(first, meant) for meant in _KEYWORDS):
        in_doubt = _imports(first, words) or signs == 0
        return in_doubt if first in _ENGLISH else in_doubt or not _is_surely_a_sentence(words, signs)
    if first not in _ENGLISH and _is_near(words[0], [*_BUILTINS, *known]):
        return not _is_surely_a_sentence(words, signs)
    return len(first) == 1 and first not in "ai" and signs == 0


def _imports(first: str, words: list[str]) -> bool:
    """`from x import a`, `import a from x`: what stands between is a name, not an article."""
    return words[2:3] == [{"i": "from"}.get(first[0], "import")] and len(words) <= 6


def _signs_of_a_sentence(words: list[str]) -> int:
    """How many there are: words that only a sentence has, a capital letter, a mark at its end."""
    rest = [word.strip(",.;:!?'\"").lower() for word in words[1:]]
    found = sum(word in _GRAMMAR for word in rest) + ("," in "".join(words[1:-1]) and "and" in rest)
    has_code = any(_CODE_LIKE.fullmatch(word) and word not in _GRAMMAR | _PREPOSITIONS for word in rest)
    capital = words[0][:1].isupper() and not has_code
    return found + capital + (words[-1][-1] in ".!?" and not has_code)


def _is_surely_a_sentence(words: list[str], signs: int) -> bool:
    is_written = words[0][:1].isupper() or words[-1][-1] in ".!?"
    return signs >= 2 and (len(words) >= 5 or is_written)


def _has_prepositions(words: list[str]) -> bool:
    rest = [word.strip(",;:").lower() for word in words[1:]]
    if any(_CODE_LIKE.fullmatch(word) and word not in _PREPOSITIONS for word in rest):
        return False
    return len(rest) >= 3 and any(word in _PREPOSITIONS for word in rest)


def _is_near(word: str, names: Iterable[str]) -> bool:
    return any(len(name) >= _SHORTEST and word != name and _is_one_slip(word, name) for name in names)


def _is_one_slip(word: str, meant: str) -> bool:
    """Whether one letter is wrong, missing, too many, or two beside each other are in the wrong order."""
    if word == meant or abs(len(word) - len(meant)) > 1:
        return False
    at = next((at for at, (one, other) in enumerate(zip(word, meant, strict=False)) if one != other), len(word))
    rest, other = word[at:], meant[at:]
    return (
        rest[1:] == other[1:]
        or rest == other[1:]
        or rest[1:] == other
        or (rest[1::-1] + rest[2:] == other and rest != "")
    )


def _is_swapped(word: str, meant: str) -> bool:
    """Whether two letters that stand beside each other were typed in the wrong order."""
    ways = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    return len(word) == len(meant) and word != meant and meant in ways


def _parses(words: list[str]) -> bool:
    line = " ".join(words)
    return any(_is_code(text) for text in (line, f"{line} pass" if line.endswith(":") else f"{line}: pass"))


def _is_code(text: str) -> bool:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return False
    return True


def is_question(line: str) -> bool:
    """Whether a line that ends with a question mark asks in words, and not IPython for help with a name."""
    if _QUESTION.fullmatch(line):
        return True
    if not line.endswith("?") or len(line.split()) < 3 or not line[0].isalpha():
        return False
    return not _is_code(line.rstrip("? "))


def first_line(body: str, *, comments: bool = True) -> str:
    """The first line with anything in it."""
    lines = (line.strip() for line in body.splitlines())
    return next((line for line in lines if line and (comments or not line.startswith("#"))), "")
