"""`%%agent [NAME]`: a task in plain words, or Python that runs as that agent, exactly as a plain cell would run it.

Running the body through `run_cell` would break top-level await and count a cell inside a cell. So the first line is
blanked before IPython compiles the cell, and everything else is IPython's own: line numbers, the last expression,
magics. Only what is not Python is left for the cell magic, which says so.
"""

from __future__ import annotations

import ast
import builtins
import re
import shlex
import unicodedata
import warnings
from argparse import Namespace
from collections.abc import Callable, Collection, Iterable
from keyword import iskeyword, kwlist
from typing import Final, Literal

import msgspec

from agent_kernel.commands.scope import Parser, UsageProblem, amount, count
from agent_kernel.errors import InvalidRefNameError
from agent_kernel.magics.extension import has_agent_header
from agent_kernel.repository.refs import check_ref_name

# -- whether the body of a `%%agent` cell is a task in plain words, or code
#
# What compiles is code, unless it is nothing but words that name nothing here ("プロットして", "not now"). What does not compile is
# weighed, line by line, until one is clear. In Python two names never stand side by side; in a sentence they do, and some of
# its words hold it together ("the", "per"). Against that stands what only code has: an assignment, a call, what follows a
# keyword in a statement, the sign or the name of a command. Where neither outweighs the other, the person is asked: a task
# costs money and changes variables, so in doubt none begins.

Reading = Literal["code", "task", "doubt"]


def _of(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Words that hold a sentence together, and that nobody calls a variable; not those that are Python's as well.
_GRAMMAR: Final = _of(
    "the a an my our your his her their its this that these those it them they me us we i you he she there all each every "
    "both some of to by on at into onto over under between per than without within about after before until where when "
    "which who what how why because again please also using such so but are was were be been has have had does do did can "
    "could should would will must more most less least up down out off through during against across above below near "
    "another other others only just even every everything anything nothing vs versus whether there first last "
    "dann der die das den dem ein eine einen mit von und für nach ohne gegen bitte le la les un une des de du et pour avec "
    "sans el los las una para con sin por il lo gli di da um uma com een het rad en op"
)
_DETERMINERS: Final = _of("the my our your these those all every both this that")
_PREPOSITIONS: Final = _of("in for from with as and or not is if else")  # of a sentence, and of Python
# What tasks begin with in English. Many are one slip away from a keyword, a builtin or the name of many a variable.
_ENGLISH: Final = _of(
    "form forms fork wait field catch match wish width rise praise dry cry four far or of it in is on if as at an a i do go "
    "to so no us we my me by be he up and any all are ask add act use the then than that this them call fall find bind "
    "build many kind mind mine fine line point paint prints sort sorts soft part parts pass past last list lists lift mist "
    "text test next tests rest best most move more make take fake bake rate date late let get set got put cut run "
    "sun sums some same name names game may man main pain gain again map maps mix tax fix fit hit sit bit big "
    "old order odd open opens pen pens when help helps held has had have hash wash dash cash rank range rage "
    "change arrange round around sound found bound group groups ground count counts input output outputs imports "
    "export exports expert report reports format former filter filters clean clear learn mean means plot plots plan plant "
    "place plus split slice spice space trace track train trains trim drop drops crop grow show shows slow how now "
    "know tell tells types try tries copy merge large print returns raises replace reload load "
    "log look lock check chart charts draw explain explore extract estimate evaluate compute compare combine convert "
    "create delete detect describe detail does each except expect fetch fill flag give "
    "guess impute improve index infer insert inspect join keep label leave limit lower mark model normalize normalise "
    "pick pivot predict prepare project pull push read rebuild reduce refit remove rename repeat reshape "
    "resample rewrite sample save say scale score search see select send shift simulate simplify smooth solve stack start "
    "state stop store study suggest summarise summarize sum max min swap tabulate tidy tune turn undo redo update upper "
    "validate verify view visualise visualize walk want was what where which while who why work write one two ten not "
    "analyse analyze calculate correlate cluster classify forecast debug refactor document translate speed retry "
    "continue cleanup clip cap cast encode aggregate annotate apply assign average bin download upload generate "
    "highlight hide ignore list rerun return recompute restore revert standardize standardise transform transpose zoom"
)
# What tasks begin with in other languages, of which one word is often the whole task.
_ELSEWHERE: Final = _of(
    "zeige zeig zeichne plotte lösche berechne erkläre trainiere entferne sortiere mach mache füge lade vergleiche filtere gruppiere "
    "behebe ändere erstelle schreibe finde suche fülle ersetze teile nimm gib weiter nochmal danke hallo ja nein "
    "montre affiche trace calcule supprime explique entraîne charge compare corrige ajoute trie filtre nettoie crée remplace merci oui "
    "encore bonjour muestra grafica dibuja elimina calcula explica entrena carga corrige añade ordena limpia crea reemplaza gracias "
    "sí hola mostra disegna elimina calcola spiega carica grazie mostre desenhe remova calcule obrigado"
)
# Words that alone are a task, a wish or an answer, and that nobody calls a variable. With a capital letter it may be a class.
_ALONE: Final = _ELSEWHERE | _of(
    "summarize summarise analyze analyse visualize visualise explain describe impute tidy clean cleanup retry rerun restart redo undo revert "
    "stop continue next go proceed again help hello hi hey thanks ok okay yes no please sorry explore investigate improve simplify optimize "
    "optimise normalize normalise standardize standardise refactor debug fix compare evaluate predict classify cluster finish wait cancel repeat "
    "document translate validate"
)
_ADVERBS: Final = _of(
    "too very soon well better worse nicely instead together monthly weekly daily yearly quickly slowly carefully briefly "
    "only alone first last again missing wrong empty odd strange sorted balanced correct broken weird"
)
# What stands behind a table or a model with a dot between, where no dot was typed.
_ATTRIBUTES: Final = _of(
    "head tail mean sum max min median std var count shape size columns index dtypes info describe plot hist corr values items keys "
    "sort append pop copy drop dropna fillna merge join groupby apply map filter agg loc iloc fit predict score transform unique nunique "
    "isna isnull astype reset_index set_index sort_values value_counts query pivot melt sample round abs diff shift rank"
)
_COMMANDS: Final = _of(  # a shell's, which no sentence begins with
    "pip pip3 conda mamba uv uvx git docker ls cd pwd cp mv rm mkdir rmdir grep sudo apt apt-get brew npm npx wget curl "
    "python python3 jupyter chmod chown tar unzip ssh scp nvidia-smi pytest poetry awk sed"
)
_MAGICS: Final = re.compile(
    r"(?:%?(?:timeit|load_ext|reload_ext|lsmagic|prun|whos|pinfo2?|writefile|mprun|memit)|autoreload \d"
    r"|matplotlib (?:inline|notebook|widget|qt\d?|agg)|run [\w./]+\.(?:py|ipynb)|time [\w.]+\()(?!\w)"
)
_FLAG: Final = re.compile(r"\s--?[A-Za-z\d][\w-]*\b|\s\*\.\w+|\$\w|\|\s*\w+|\s\./|&&|\S>\s|\s>>?\s\S+\.\w+$")
_SHELL_WORDS: Final = _of("find head tail cat make touch which export echo kill source ps du less more history env")
_SIGNS: Final = re.compile(r"%|!\S|\$ |>>>|\.\.\. |In \[|Out\[|@(?:\w|$)|\?\w|</?\w+>")
_TRACEBACK: Final = re.compile(
    r"Traceback \(most recent|File \"|Cell In\[|-{20}|[A-Z]\w*(?:Error|Exception|Warning|Interrupt)(?::|$)|\^+$"
)
_SQL: Final = re.compile(
    r"SELECT\s.*\sFROM\s|INSERT INTO\s|UPDATE\s\w+\sSET\s|DELETE FROM\s|(?:CREATE|DROP|ALTER) (?:TABLE|VIEW|INDEX)\s"
    r"|(?i:select\s+(?:\*|[\w.]+\(.*\)|[\w.]+\s*,.*?)\s+from\s+\w+)|(?i:select\s.*\sfrom\s.*(?:;$|\swhere\s.*[=<>]))",
    re.DOTALL,
)
_TARGET: Final = r"[*(]?[^\W\d][\w.]*(?:\[[^\]]*\])*\)?"
_ASSIGNMENT: Final = re.compile(
    rf"{_TARGET}(?:\s*,\s*{_TARGET})*,?\s*(?::\s*[\w.\[\]]+\s*)?(?:[-+*/%@&|^:]|//|\*\*|<<|>>)?\s?=(?!=)"
    r"|(?:export|let|var|const|int|float|double|string|bool|auto|char|val)\s+\w+\s*=(?!=)"
)
_ANY_SIGN: Final = re.compile(r"==|!=|&&|\|\||=>|->|\+\+|:=|[-+*/]=|(?<=[\w\])])\s*;|;$|\{$|\s=\s|[\w\])]\s*\?\s*\w.*:")
_STRING: Final = re.compile(r"(?<![\w'’])[rbfuRBFU]{0,2}(\"\"\"|'''|\"|')(?:\\.|(?!\1).)*(\1|$)")
_QUOTED: Final = re.compile(r"`[^`]+`")  # code in a sentence
_ADDRESS: Final = re.compile(r"\w+://\S+")
_FILE: Final = re.compile(
    r"(?:[\w~.-]*/)*[\w.-]+\.(?:csv|tsv|xlsx?|json|jsonl|parquet|feather|txt|md|png|jpe?g|svg|pdf|html?|zip|gz|db|sqlite|pkl|h5|ipynb|yaml|yml|xml)\b"
    r"|(?:\w+/)+(?=\s|$|,)"
)
_BRACKETS: Final = re.compile(r"\([^()\[\]{}]*\)|\[[^()\[\]{}]*\]|\{[^()\[\]{}]*\}")
_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]"
)  # scripts in which a sentence is one word
_NO_SPACES_RUN: Final = re.compile(
    f"(?<![.\\w]){_WITHOUT_SPACES.pattern}{{2,}}|(?<=[a-z0-9]){_WITHOUT_SPACES.pattern}{{2,}}"
)
_LIST_ITEM: Final = re.compile(r"(?:[-*•–]|\d+[.)])\s+(?=[^\W\d])")
_TOKEN: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*(?![\w])|[\w]+(?:\.\w+)*|[^\w\s]")
_WORD: Final = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_QUESTION: Final = re.compile(r"[^\W\d][^=()\[\]{}%!]*\s[^=()\[\]{}]*\?+\s*")
_STRUCTURES: Final = {  # what follows a keyword where it begins a statement
    "import": r"(?:[\w.]+|\*)(?: as \w+)?(?:,? [\w.]+(?: as \w+)?)*,?$|$|\w+ (?:a|as|sa) \w+$",
    "from": r"[\w.]+ ?(?:import|imort|improt|impot|imprt)?$|[\w.]+ (?:import|imort|improt|impot|imprt)\b|import\b|\w+ \w+ \w+$",
    "for": r"[\w, ()]+? in (?:range\b|\w+(?: do)?:?$|\w+[\w.]*[(\[:])|.*:$|\w+ (?:of|range)\b.*:$|\(|\w+ ?=|\w+ \w+:$|each \w+ in \w+:",
    "while": r".*(?::$|[<>=!(]| do\b)|(?:True|true|not|\w)\b$|\w+ is (?:not )?\w$",
    "if": r".*(?::$|[<>=!(]| then\b)|(?:not )?\w+$|\w+ (?:is|in) (?:not )?\w+$",
    "elif": r"",
    "else": r":|$|if\b.*:$|\w+ \w$",
    "def": r"\w+\s*(?:\(|:|$|\w\b)|.*:$|$",
    "class": r"[A-Z]\w*\s*(?:\(|:|$)|$|[A-Z]\w* [A-Z]\w*|\w+\s*(?:\(|:(?! ?[a-z]{5,}$))",
    "return": r"[^a-z\s]|\w+(?: [-+*/%<>]|[(\[]|\.\w)|\w+$|[a-z]( [a-z])*$|$",
    "yield": r"[^a-z\s]|\w+(?: [-+*/%<>]|[(\[]|\.\w)|[a-z]( [a-z])*$|$|from \w+$|\w( from)?$",
    "del": r"[a-z]{1,2}( \w{1,2})*$|\w+[(\[]|\w+(?:, ?\w+)*$|\w{1,2}(?: \w{1,2})* ?$",
    "assert": r"\w+[(\[.]|\w+ (?:[<>=!]|equals \w+$)",
    "raise": r"[A-Z]\w*(?:Error|Exception|Warning)\b|\w+\(",
    "global": r"\w+(?:, \w+)*$|\w \w$|\w+ \w+$",
    "nonlocal": r"\w+",
    "try": r":|$|\w \w*\s*except",
    "except": r":|$|(?:[A-Z]\w*)?(?:Error|Exception)\b|\w+:",
    "finally": r":|$",
    "with": r"[\w.]+\(|.*\bas \w+:?$|\w+:$",
    "lambda": r"[\w, ]*:|\w$|\w \w",
    "async": r"def\b|for\b|with\b",
    "await": r"\w+\(|\w+ \w$",
    "pass": r"$|\w( \w)*$",
    "break": r"$|\w \w$",
}
_STATEMENTS: Final = {word: re.compile(pattern) for word, pattern in _STRUCTURES.items()}
_OWN: Final = _of("In Out exit quit get_ipython open")  # IPython's, of which no sentence tells
_BUILTINS: Final = frozenset(name for name in dir(builtins) if name.isalpha())
_NEAR: Final = tuple(name for name in sorted(_BUILTINS) if name.islower())
_SHORTEST: Final = 4  # letters: of a shorter name every second word is but one slip away
_TYPED_AS_ASCII: Final = dict.fromkeys(range(0x201C, 0x2020), '"') | dict.fromkeys(
    range(0x2018, 0x201C), "'"
)  # curly quotes
_CLEAR: Final = 1.0  # by how much one side must outweigh the other
_LONGEST_LINE: Final = 20_000  # characters in which a magic's sign is looked for
_MOST_LETTERS, _MOST_LINES = 400, 60  # that are weighed: more says nothing new, and text may have no end


def read(body: str, names: Iterable[str], transform: Callable[[str], str]) -> Reading:
    """Whether the body is code, a task, or could be either.

    Args:
        names: the variables that there are.
        transform: makes Python of magics and shell lines that have their sign.
    """
    known = frozenset(name for name in names if not name.startswith("_") and name not in _OWN)
    if is_python(body, transform):
        return _read_compiled(body, known)
    plain = _as_ascii(body)
    if plain != body and is_python(plain, transform) and not (_names_of_words(plain) or _speaks(plain.strip(), known)):
        return "code"  # brackets and quotes of another keyboard, or of a word processor
    return _read_lines(body, known)


def is_python(body: str, transform: Callable[[str], str]) -> bool:
    """Whether the body compiles as a cell does: magics and top-level await included."""
    if is_question(first_line(body)):
        return False  # IPython takes "what drives price?" for a request to explain `price`
    return _compiles(transform, body)


def _compiles(transform: Callable[[str], str], body: str) -> bool:
    if max(map(len, body.splitlines()), default=0) > _LONGEST_LINE:
        transform = str  # IPython's takes seconds for one such line in Python 3.12
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(transform(body), "<agent cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError, MemoryError, RecursionError):
        return False
    return True


# -- what compiles


def _read_compiled(body: str, known: Collection[str]) -> Reading:
    """Code, but for words that name nothing: to run them could only raise NameError."""
    found = _names_of_words(body)
    if not found:
        return "task" if _is_question_about_word(body, known) else "code"
    unknown = [name for name in found if name not in known and name not in _BUILTINS]
    if _is_task_alone(body, found, known):
        return "task"
    if (
        not unknown
        or (len(found) == 1 and _is_near(found[0], [*_NEAR, *known]))
        or body.split(maxsplit=1)[0] in _COMMANDS
    ):
        return "code"
    if any(name.lower() in _GRAMMAR or len(_WITHOUT_SPACES.findall(name)) > 1 for name in unknown):
        return "task"
    return "doubt"  # `train` may be a variable that a restart took


def _is_task_alone(body: str, found: list[str], known: Collection[str]) -> bool:
    """Whether words that compile are clearly a task: `summarize`, `outliers?`, `load, clean, plot`, `k-means`."""
    if any(name in known for name in found) or _is_near(found[0], known):
        return False
    bare = body.strip()
    if len(found) == 1 and bare.rstrip("?").isidentifier():
        asks = bare.endswith("?") and len(found[0]) >= _SHORTEST and found[0].islower()
        return found[0] in _ALONE or (asks and found[0] not in _BUILTINS and not _is_near(found[0], _NEAR))
    if len(found) > 2 and all(name in _ENGLISH for name in found):
        return True
    if found[0] == "import" or (bare.startswith("global ") and len(found) == 1 and len(found[0]) >= _SHORTEST):
        return True  # a file's name with its ending; and a word that nobody declares at the top level
    return bool(_COMPOUND.fullmatch(bare.rstrip("?"))) and max(map(len, found)) >= _SHORTEST


def _is_question_about_word(body: str, known: Collection[str]) -> bool:
    """Whether it compiles since a sentence without spaces leads to an attribute: `解释model.coef_`; or asks what a word means."""
    bare = body.strip()
    if bare.endswith("?") and _COMPOUND.fullmatch(bare.rstrip("?")):
        return not any(part in known for part in bare.rstrip("?").split("-"))
    return "\n" not in bare and bare.isprintable() and "(" not in bare and _speaks(bare, known)


_COMPOUND: Final = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_IN_WORDS: Final = (
    ast.Module | ast.Expr | ast.Name | ast.Tuple | ast.BoolOp | ast.boolop | ast.Compare | ast.Is | ast.IsNot | ast.In
    | ast.NotIn | ast.UnaryOp | ast.Not | ast.USub | ast.expr_context | ast.Delete | ast.Global | ast.Raise | ast.AnnAssign
    | ast.BinOp | ast.Sub | ast.Div
)  # fmt: skip


def _names_of_words(body: str) -> list[str]:
    """The names in it, in order, if it holds nothing but words; else nothing."""
    try:
        tree = ast.parse(_without_question(body))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # a magic, or code that only IPython knows
    if not all(isinstance(node, _IN_WORDS) and getattr(node, "value", True) for node in ast.walk(tree)):
        return _file_imported(tree)
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    globals_ = [name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names]
    return [node.id for node in sorted(found, key=lambda node: (node.lineno, node.col_offset))] + globals_


def _file_imported(tree: ast.Module) -> list[str]:
    """`import customers.csv` compiles."""
    match tree.body:
        case [ast.Import(names=[ast.alias(name=name, asname=None)])] if _FILE.fullmatch(name):
            return ["import", name]
        case _:
            return []


def _without_question(body: str) -> str:
    return re.sub(r"^(\w+)\?\s*$", r"\1", body.strip())


# -- what does not


def _read_lines(body: str, known: frozenset[str]) -> Reading:
    """By the first line that is clear; where none is, by the first."""
    if _SQL.match(body.strip()[:_MOST_LETTERS]):
        return "code"
    if body.strip().rstrip(".!?").lower() in _ALONE - known:
        return "task"
    lines = [line.strip()[:_MOST_LETTERS] for line in body.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")] or [first_line(body).lstrip("# ")]
    for line in lines[:_MOST_LINES]:
        reading = _read_line(line, known)
        if reading != "doubt":
            return reading
    return "doubt"


# `[i for i range(3)]`: a comprehension with a slip in it. In round brackets it may be an aside: `(one plot for each region)`.
_COMPREHENSION: Final = re.compile(r"(?:\w+\s*=\s*)?(?:\[[^\]]*\sfor\s.*\]|\{[^}]*\sfor\s.*\})")
# `my var = 3`: what is done to it would be a verb.
_NAME_IN_TWO: Final = re.compile(r"(?:an?|the|my|our|this|that|one|new|old)\s+\w+\s*[-+*/]?=(?!=)")


def _read_line(line: str, known: Collection[str]) -> Reading:
    if _COMPREHENSION.fullmatch(line) or any(sign.match(line) for sign in (_SIGNS, _NAME_IN_TWO, _TRACEBACK, _MAGICS)):
        return "code"
    if _speaks(line, known):
        return "task"
    item = _LIST_ITEM.match(line)
    prose, code = _weights(line[item.end() :] if item else line.removeprefix("> "), known)
    if prose - code + (item is not None) >= _CLEAR:
        return "task"
    has_words = any(letter.isalpha() for letter in line)
    return "code" if not has_words or code - prose >= min(_CLEAR, prose + 0.5) else "doubt"


def _speaks(line: str, known: Collection[str]) -> bool:
    """Whether it says something in a script without spaces: names and calls stand in its midst, as words do."""
    first = line.partition(" ")[0]
    if _ASSIGNMENT.match(line) or (first in _STATEMENTS):
        return False
    runs = _NO_SPACES_RUN.findall(_STRING.sub(" ", line.partition("#")[0]))
    return any(run not in known for run in runs)


def _weights(line: str, known: Collection[str]) -> tuple[float, float]:
    """How much speaks for a sentence, and how much for code."""
    flat = _flat(line)
    words = _TOKEN.findall(flat)
    if not words:
        return 0, 1
    return _signs_of_prose(line, flat, words, known), _signs_of_code(line, flat, words, known)


def _flat(line: str) -> str:
    """The line without what stands in quotes and in the brackets of calls: a sentence may quote code, code holds texts."""
    flat = _STRING.sub(" § ", _QUOTED.sub(" ¶ ", _ADDRESS.sub(" ¤ ", line)))
    flat = _FILE.sub(" ¤ ", flat)
    before = ""
    while before != flat:
        before, flat = flat, _BRACKETS.sub("()", flat)
    return " ".join(flat.split())


def _is_like_code(word: str, known: Collection[str]) -> bool:
    """Whether it is a name rather than a word: `x`, `y2`, `test_size`, a short variable."""
    if word in known and len(word) < _SHORTEST:
        return True
    short = len(word) == 1 and word.isascii() and word not in "aI"
    return short or not _WORD.fullmatch(word) or word in ("true", "false", "null")


def _signs_of_prose(line: str, flat: str, words: list[str], known: Collection[str]) -> float:
    found = 0.0
    for one, other in re.findall(r"(?=(?<![\w'’.-])([\w'’.-]+|[¶¤§]) ([\w'’-]+|[¶¤§]))", flat):
        found += _weigh_neighbours(one, other.rstrip("."), known)
    rest = [re.split("['’]", word.lower())[0] for word in words[1:]]
    found += 2.0 * sum(word in _GRAMMAR for word in rest)
    found += 0.5 * sum(word in _PREPOSITIONS for word in rest[:-1])
    found += 1.0 * line.count("`") / 2 + 1.5 * flat.count("¤")
    found += sum(3.0 if _is_far(word) else 1.5 for word in words if not word.isascii() and word[0].isalpha())
    if re.search(r"[^\W\d][.!?\u2026\u3002\uff1f\uff01\uff1a\u3001\uff0c]$", flat) and words[0] not in known:
        found += 1.0
    first = re.split("['’]", words[0].lower())[0]
    if first in _GRAMMAR and len(words) > 1:
        found += 1.0
    if first in _ENGLISH and words[0] not in known and len(words) > 1:
        found += min(found, 0.5 if first in _BUILTINS else 1.0)
    if re.search(r"[^\W\d]{2,}, [^\W\d]+ [^\W\d]+", flat) and not _begins_statement(first, flat):
        found += 1.0
    found += _weigh_as_request(first, flat, words, known)
    found += 2.0 * bool(re.search(r"[^\W\d]\w* ~ [^\W\d]", flat))  # a formula, as statisticians write one
    found += 1.0 * bool(_COMPOUND.match(line)) * (max(map(len, line.split(maxsplit=1)[0].split("-"))) >= _SHORTEST)
    if re.match(r"\w+ for [^\W\d]{3,}", flat) and " in " not in flat:
        found += 1.0
    if re.search(r"\w['’](?:\w+)?(?:\s|$)", flat):
        found += 1.0
    return found


def _begins_statement(first: str, flat: str) -> bool:
    """Whether it begins with a keyword, and goes on as its statement does."""
    return iskeyword(first) and (first not in _STATEMENTS or bool(_STATEMENTS[first].match(flat[len(first) :].strip())))


def _weigh_as_request(first: str, flat: str, words: list[str], known: Collection[str]) -> float:
    """How much speaks for a wish: a verb before a name or a call, an adverb, a thing and what about it."""
    found = 1.0 * any(word.lower() in _ADVERBS for word in words[1:])
    found += 1.0 * bool(re.match(r"\d+[A-Za-z]? [a-z]{4,}|[^\W\d]+ [^\W\d]+: [^\W\d]+$", flat))
    if words[0] in known:
        is_thing = len(words) > 1 and words[1].isalpha() and words[1] not in known and not iskeyword(words[1])
        is_named = is_thing and len(words[0]) >= _SHORTEST and len(words[1]) > _SHORTEST and "(" not in flat
        return found + 1.5 * (is_named and words[1] not in _ATTRIBUTES and not _is_near(words[1], _ATTRIBUTES))
    is_verb = first in _ELSEWHERE or first in ("set", "filter") or (first in _ENGLISH and first not in _BUILTINS)
    if (
        is_verb
        and re.match(r"\S+ (?:[^\W\d]|[¶¤]|§ \S)", flat)
        and not any(_is_one_slip(first, word) for word in kwlist)
    ):
        found += 1.5 * (not iskeyword(first))
    return found


def _weigh_neighbours(one: str, other: str, known: Collection[str]) -> float:
    """How much it speaks for a sentence that these two stand side by side."""
    if (iskeyword(one) and one not in _STATEMENTS) or other in _PREPOSITIONS or one in _PREPOSITIONS:
        return 0.0
    if "§" in (one, other):
        return 0.0
    if one in known and other in known:
        return 0.0
    likes = _is_like_code(one, known) + _is_like_code(other, known)
    return 1.0 - 0.5 * likes


def _is_far(word: str) -> bool:
    """Whether it is written in other letters than Latin ones."""
    return not all("LATIN" in unicodedata.name(letter, "LATIN") for letter in word if letter.isalpha())


def _signs_of_code(line: str, flat: str, words: list[str], known: Collection[str]) -> float:
    plain = flat.translate(_TYPED_AS_ASCII)
    found = (
        4.0 * bool(_ASSIGNMENT.match(line))
        + 1.5 * bool(_ANY_SIGN.search(plain))
        + 1.0 * bool(re.search(r"\w=[\w.]", plain))
        + 0.5 * bool(re.search(r"[<>]", plain))
    )
    found += 3.0 * bool(re.match(r"[\w.]+[(\[]", plain)) + 1.0 * len(re.findall(r"[\w\])][(\[]", plain))
    found += 1.5 * bool(re.match(r"[(\[{]", plain)) + 1.5 * bool(re.search(r"\):$|\) ?\{", plain))
    found += 1.5 * bool(re.search(r"[()\[\]{}]", plain.replace("()", ""))) + 1.0 * _has_open_quote(line)
    found += 2.0 * bool(re.search(r"[\w)\]] ?[-+*/%&|=<>]$", plain))  # it breaks off
    found += 2.0 * (plain[0] in "[({" and any(plain.count(one) > plain.count(end) for one, end in ("[]", "()", "{}")))
    found += 3.0 * (words[0] not in _ENGLISH and bool(re.match(r"[^\W\d]\w* [^\W\d]\w* ?=(?!=)", plain)))
    found += 0.5 * len(re.findall(r"\b[A-Za-z_]\w*\.[A-Za-z_]\w*", plain)) + 1.0 * bool(
        re.match(r"\w+\.(?:\w|$)", plain)
    )
    found += _weigh_first_word(plain, words, known)
    return found + _weigh_as_command(line, words)


def _weigh_first_word(line: str, words: list[str], known: Collection[str]) -> float:
    first = words[0]
    lower, rest = first.lower(), line[len(first) :].strip()
    if (
        words[2:3] == [{"i": "from"}.get(lower[0], "import")]
        and len(words) <= 6
        and not iskeyword(words[1])
        and "¤" not in words
    ):
        return 6.0  # `from x import a`, `import a from x`: what stands between is a name, not an article
    if re.match(r"import [\w.]+ as \w+,", line):
        return 6.0
    if iskeyword(lower) and lower in _STATEMENTS:
        is_sentence = (
            rest in _GRAMMAR
            or (words[1:2] and words[1] in _DETERMINERS)
            or (lower == "from" and words[1:2] and words[1] in known)
        )
        return 4.0 if _STATEMENTS[lower].match(rest) and not is_sentence else 0.5
    swapped = _weigh_swapped_keyword(words)
    if first in known:
        return 1.5 + swapped
    if lower in _BUILTINS:
        is_verb = (
            lower in _ENGLISH
            and lower != "print"
            and not any(_is_like_code(word, known) for word in words[1:] if word.isalnum())
        )
        return (0.5 if is_verb else 2.0) + swapped
    keywords = [word for word in kwlist if _is_one_slip(lower, word)]
    starts = [
        word for word in keywords if word in _STATEMENTS and (lower not in _ENGLISH or word in ("from", "import"))
    ]
    if any(_STATEMENTS[word].match(rest) for word in starts):
        return 4.0
    if keywords and lower not in _ENGLISH | _GRAMMAR and len(lower) > 1:
        return 5.0 if len(lower) > _SHORTEST else 3.5
    if lower not in _ENGLISH | _GRAMMAR and _is_near(first, [*_NEAR, *known]):
        return 2.5
    return 1.0 * (_is_like_code(first, known) and first[0].isalpha()) + swapped


def _weigh_swapped_keyword(words: list[str]) -> float:
    """Whether it would be Python with two letters in the right order: `x is nto None`."""
    swapped = [(at, keyword) for at, word in enumerate(words) for keyword in kwlist if _is_swapped(word, keyword)]
    return 4.0 * any(_parses(" ".join([*words[:at], keyword, *words[at + 1 :]])) for at, keyword in swapped)


def _weigh_as_command(line: str, words: list[str]) -> float:
    first = line.split(maxsplit=1)[0]
    flags = 2.0 * bool(_FLAG.search(line))
    if first in _COMMANDS:
        return 6.0 + flags
    has_file = len(words) > 1 and bool(_FILE.match(line[len(first) :].strip()))
    return 1.5 * flags + 3.0 * has_file if first in _SHELL_WORDS else 0.0


def _has_open_quote(line: str) -> bool:
    return any(not found[2] for found in _STRING.finditer(line)) or (line.endswith(('"', "'")) and '"' not in line[:-1])


def _as_ascii(body: str) -> str:
    return unicodedata.normalize("NFKC", body).translate(_TYPED_AS_ASCII)


def _is_near(word: str, names: Iterable[str]) -> bool:
    return any(len(name) >= _SHORTEST and word != name and _is_one_slip(word, name) for name in names)


def _is_one_slip(word: str, target: str) -> bool:
    """Whether one letter is wrong, missing, too many, or two beside each other are in the wrong order."""
    if word == target or abs(len(word) - len(target)) > 1:
        return False
    at = next((at for at, (one, other) in enumerate(zip(word, target, strict=False)) if one != other), len(word))
    rest, other = word[at:], target[at:]
    return (
        rest[1:] == other[1:]
        or rest == other[1:]
        or rest[1:] == other
        or (rest[1::-1] + rest[2:] == other and rest != "")
    )


def _is_swapped(word: str, target: str) -> bool:
    """Whether two letters that stand beside each other were typed in the wrong order."""
    ways = (word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in range(len(word) - 1))
    return len(word) == len(target) and word != target and target in ways


def _parses(line: str) -> bool:
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
    if not line.endswith("?") or len(line.split()) < 3 or (not line[0].isalpha() and line[0] != "¿"):
        return False
    return not _is_code(line.rstrip("? "))


def first_line(body: str) -> str:
    """The first line with anything in it."""
    return next((line for line in map(str.strip, body.splitlines()) if line), "")


_DEFAULT = "agent"
_MOST_FORKS = 64
_APPROVES = ("risky", "always", "auto", "never")
_STATES = ("versioned", "live", "none")


class AgentCell(msgspec.Struct, frozen=True):
    """A cell that begins with `%%agent`."""

    agent: str
    python: bool  # said to be Python
    body: str
    task: bool = False  # said to be a task
    model: str = ""
    steps: int | None = None
    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    approve: str = ""
    returns: str = ""
    state: str = ""
    branch: str = ""
    preview: bool = False
    fork: str = ""  # how often it is tried at once, or by which models
    judge: str = ""  # says which of these is best: an expression
    edits: str = ""  # the run of which a step waits, whose code this is instead


def header_parser() -> Parser:
    """The parser of what stands after `%%agent`."""
    parser = Parser("%%agent", "Run this cell as an agent: its commit names the agent as the author.")
    parser.takes("name", "text", help="the agent's name", default=_DEFAULT)
    kind = parser.one_of()
    parser.flag("--py", help="it is Python, whatever it looks like: show the SyntaxError", group=kind)
    parser.flag("--task", help="it is a task for the agent's model, even where it could be Python", group=kind)
    parser.value("--model", metavar="NAME", help="the model that takes the task")
    parser.value("--steps", metavar="N", convert=count, help="end the run after so many steps")
    parser.value("--seconds", metavar="S", convert=amount, help="end the run after so many seconds")
    parser.value("--tokens", metavar="N", convert=count, help="end the run after so many tokens")
    parser.value("--cost", metavar="USD", convert=amount, help="end the run before it costs more than this, in dollars")
    parser.value(
        "--returns", metavar="TYPE", help="the type that the result must have, an expression: list[str], pd.DataFrame"
    )
    parser.value(
        "--state", metavar="MODE", help="versioned (the default), live: no commits, none: in a namespace of its own"
    )
    parser.value(
        "--branch",
        metavar="NAME",
        kind="branch",
        help="go to this branch first, and create it here if it does not exist",
    )
    parser.flag("--preview", help="try each step in a process of its own first, and show what it would change")
    parser.value("--fork", metavar="N|MODELS", help="try it N times at once, or once with each of these models: a race")
    parser.value(
        "--judge", metavar="EXPR", help="pick the candidate of --fork for which this is highest: score, -len(x)"
    )
    parser.value("--edit", metavar="RUN", help="the body is the code of the step that waits, as %%agent edit offers it")
    parser.value(
        "--approve",
        metavar="MODE",
        help="risky, always, auto or never (default: the agent's own approve=, or else risky)",
    )
    return parser


def split_cell(source: str) -> AgentCell | None:
    """The cell's header and body; None: it is a plain cell.

    Raises:
        UsageProblem: the header does not fit.
        Helped: the header asks for help.
        InvalidRefNameError: this cannot be an agent's name.
    """
    if not has_agent_header(source):
        return None
    header, _, body = source.lstrip("\n").partition("\n")
    return read_header(header.removeprefix("%%agent"), body)


def read_header(line: str, body: str) -> AgentCell:
    """The same, already split at the end of the first line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageProblem(f"%%agent: {error}") from None
    options = header_parser().read(words)
    try:
        check_ref_name(options.name)
    except InvalidRefNameError as error:
        raise InvalidRefNameError(error.name, error.reason, "an agent") from None
    if options.approve and options.approve not in _APPROVES:
        raise UsageProblem(f"--approve is one of {', '.join(_APPROVES)}, not {options.approve!r}")
    if options.state and options.state not in _STATES:
        raise UsageProblem(f"--state is one of {', '.join(_STATES)}, not {options.state!r}")
    _check_fork(options)
    return AgentCell(
        options.name,
        options.py,
        body,
        options.task,
        options.model or "",
        options.steps,
        options.seconds,
        options.tokens,
        options.cost,
        options.approve or "",
        options.returns or "",
        options.state or "",
        options.branch or "",
        options.preview,
        options.fork or "",
        options.judge or "",
        options.edit or "",
    )


def _check_fork(options: Namespace) -> None:
    if options.judge and not options.fork:
        raise UsageProblem("--judge chooses between the candidates of --fork, and there is no --fork")
    for name, value in (("--preview", options.preview), ("--state", options.state), ("--model", options.model)):
        if options.fork and value and (name != "--model" or not options.fork.isdecimal()):
            raise UsageProblem(f"--fork and {name} do not go together")
    if options.fork and options.fork.isdecimal() and not 1 <= int(options.fork) <= _MOST_FORKS:
        raise UsageProblem(f"--fork takes a number from 1 to {_MOST_FORKS}, or names of models with commas between")


def runs(cell: AgentCell, transform: Callable[[str], str], names: Iterable[str] = ()) -> bool:
    """Whether the cell is run as it stands; what merely fails to compile is, so that its SyntaxError shows.

    Args:
        names: the variables that there are.
    """
    return bool(cell.body.strip()) and reading_of(cell, transform, names) == "code"


def reading_of(cell: AgentCell, transform: Callable[[str], str], names: Iterable[str]) -> Reading:
    """What the cell is said to be, or else reads as."""
    if cell.task or cell.edits:
        return "task"
    return "code" if cell.python else read(cell.body, names, transform)
