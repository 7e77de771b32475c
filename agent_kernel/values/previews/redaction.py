"""What looks like a secret, by the name it goes under or by its own characters.

Masking errs towards hiding: a preview lost costs a look at the live value, a key shown in a history, a log or a
model's context is a key to replace.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from keyword import iskeyword
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec

from agent_kernel.text import MASK

# -- split code into words, strings and signs, whatever state it is in
#
# Cells hold magics, shell lines and code that does not compile, where Python's own tokenizer raises; and its tokens
# differ between releases. Here every character belongs to exactly one lexeme, so that a text can be put together again.

Sort: TypeAlias = Literal["comment", "string", "number", "name", "newline", "space", "sign"]

_LEXEME = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<string>(?:[rRbBuUfFtT]{1,2}(?=["']))?(?:
          \"{3}(?:[^\\"]|\\.|\"(?!\"\"))*(?:\"{3}|\Z) | '{3}(?:[^\\']|\\.|'(?!''))*(?:'{3}|\Z)
        | "(?:[^"\\\n]|\\.)*(?:"|(?=\n)|\Z) | '(?:[^'\\\n]|\\.)*(?:'|(?=\n)|\Z) ))
    | (?P<number>\d[\w.]*)
    | (?P<name>[^\W\d]\w*)
    | (?P<newline>\n)
    | (?P<space>(?:[^\S\n]|\\\n)+)
    | (?P<sign>[=!<>]=|:=|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_QUOTES = re.compile(r"([A-Za-z]{0,2})(\"{3}|'{3}|[\"'])")


class Lexeme(NamedTuple):
    """One piece of code."""

    sort: Sort
    text: str


def lexemes(source: str) -> Iterator[Lexeme]:
    """The pieces of the code, in order; joined, they are the code."""
    for found in _LEXEME.finditer(source):
        yield Lexeme(cast("Sort", found.lastgroup), found[0])


def literal_text(literal: str) -> tuple[str, str, str]:
    """A string literal's opening (with its prefix), what is between the quotes, and its closing.

    >>> literal_text("b'abc'")
    ("b'", 'abc', "'")
    """
    match = _QUOTES.match(literal)
    if match is None:
        return "", literal, ""
    opening, quotes = match[0], match[2]
    closed = len(literal) >= len(opening) + len(quotes) and literal.endswith(quotes)
    inner = literal[len(opening) : -len(quotes)] if closed else literal[len(opening) :]
    return opening, inner, quotes if closed else ""


_WINDOW = 400  # characters of a text that are searched; previews show fewer
_LONGEST_LABEL = 40

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NUMBER = re.compile("[0-9]+")
_ANYWHERE = re.compile(
    r"passw(?:or)?d|passwort|kennwort|passphrase|motdepasse|contrasena|wachtwoord|secret(?!ar)|api_?key|credential|private_?key|access_?key|authori[sz]ation|bearer"
)
# Whole words are sets: an expression of them takes longer to compile than all names of a notebook to look up.
_KEY_OWNERS = frozenset(
    [
        *(
            "ssh",
            "encryption",
            "signing",
            "master",
            "account",
            "auth",
            "service",
            "session",
            "storage",
            "license",
            "client",
        ),
        *("openai", "anthropic", "gemini", "mistral", "cohere", "huggingface", "hf", "aws", "azure", "gcp", "google"),
        *(
            "stripe",
            "github",
            "gitlab",
            "slack",
            "twilio",
            "sendgrid",
            "mailgun",
            "datadog",
            "sentry",
            "wandb",
            "kaggle",
        ),
        *("wifi", "wpa", "vpn", "deploy", "hmac", "jwt", "aes", "rsa", "fernet", "cipher", "webhook"),
    ]
)
_PASS_OWNERS = frozenset(
    [
        "db",
        "user",
        "smtp",
        "imap",
        "pop",
        "ftp",
        "ssh",
        "mail",
        "email",
        "admin",
        "root",
        "sudo",
        "login",
        "pg",
        "sql",
        "redis",
        "http",
        "proxy",
    ]
)
# A token of a language model, and no secret: time_to_first_token, pad_token.
_MODEL_TOKENS = ("first", "next", "per", "pad", "eos", "bos", "unk", "sep", "cls", "stop", "mask")
_TOKEN_OWNERS = frozenset(["auth", "access", "api", "refresh", "bearer", "bot", "user", "id", "csrf"])
_WHOLE_WORDS = frozenset(
    ["pwd", "pw", "auth", "cookie", "cookies", "dsn", "otp", "totp", "pincode", "senha", "senhas"]
) | frozenset(["creds", "jwt", "jwts", "ssn", "webhook"])
# Words for a password that are not of the letters a to z; `contraseña` is also written with a tilde of its own.
_OTHER_LETTERS = ("contraseña", "contrasen\u0303a", "パスワード", "密码", "密碼", "пароль", "비밀번호")
# Last words that say the name is of a number or a kind: token_count, secret_type.
_MEASURES = frozenset(
    [
        *(
            "count",
            "counts",
            "len",
            "length",
            "size",
            "limit",
            "usage",
            "index",
            "idx",
            "ratio",
            "ids",
            "type",
            "types",
        ),
        *("year", "years", "month", "months", "day", "days", "date", "time", "hours", "minutes", "seconds", "expiry"),
        *("name", "names", "rate", "rates", "row", "rows", "column", "columns", "algo", "algorithm", "strength"),
        *("sold", "found", "hint", "hints", "policy", "recipe", "recipes", "total", "number", "mean", "min", "max"),
    ]
)
# These alone are of other things, too, so that a number or a short word under them may be shown elsewhere.
_WEAK = frozenset(["pass", "bearer", "auth", "cookie", "cookies"])
# Last words of a name that is more often about a secret than of one, as `password_changed = 2023`: as with those.
_ABOUT = frozenset(
    [
        *("changed", "updated", "created", "expires", "expired", "modified", "rotated", "at", "since", "until", "age"),
        *("attempts", "enabled", "required", "valid"),
    ]
)
# In a record one entry may name what another one holds: {"name": "password", "value": "hunter2"}.
NAMING = frozenset(["name", "key", "header", "field", "variable", "setting"])

_PRIVATE_KEY = r"""-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY(?:.*?-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|[^"']*)"""
# Each alternative takes a secret to its end and no further, for a text that is shown without it.
_NO_MODEL_TOKEN = "".join(f"(?<!{word}_)" for word in _MODEL_TOKENS)
_CONTENT = (
    _PRIVATE_KEY
    + r"""
    | (?:(?<![A-Za-z0-9]) | (?<=\x1b\[m) | (?<=[\[;][0-9]m) | (?<=[\[;][0-9]{2}m) | (?<=;[0-9]{3}m))(?:  # also after a colour
          sk-[A-Za-z0-9_-]{12,}
        | [spr]k_(?:live|test)_[A-Za-z0-9]{8,}
        | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,} | glpat-[A-Za-z0-9_-]{12,}
        | (?:AKIA|ASIA)[A-Z0-9]{12,} | AIza[A-Za-z0-9_-]{24,} | ya29\.[A-Za-z0-9_-]{16,}[A-Za-z0-9._-]*
        | xox[abeoprs]-[A-Za-z0-9-]{8,} | hf_[A-Za-z0-9]{16,} | npm_[A-Za-z0-9]{24,} | pypi-[A-Za-z0-9_-]{24,}
        | dapi[0-9a-f]{32} | dop_v1_[0-9a-f]{64}
        | [0-9]{8,10}:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])
        | hv[sb]\.[A-Za-z0-9_-]{20,} | pat[A-Za-z0-9]{14}\.[0-9a-f]{64} | SK[0-9a-f]{32} | key-[0-9a-f]{32}
        | (?:shp(?:at|ss|ca|pa)_|lin_api_|dckr_pat_|pscale_(?:tkn|pw)_|gsk_|xai-|pplx-|nvapi-|tvly-(?:dev-)?|r8_|ntn_|secret_
          |figd_|sbp_|co_api_|tgp_v1_|lsv2_(?:pt|sk)_|HRKU-|fm[12]_|wandb_v1_|AGE-SECRET-KEY-)
          (?=[A-Za-z]*[0-9])[A-Za-z0-9]{20,}[A-Za-z0-9_-]*
        | (?P<ssws>SSWS[ ]+)[A-Za-z0-9_-]{30,}
        | eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}[A-Za-z0-9._-]* | SG\.[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]*
        | (?P<bearer>[Bb]earer[ ]+)[A-Za-z0-9._~+/-]{12,}=*
        | (?P<basic>[Bb]asic[ ]+)(?=\S*[A-Z])(?=\S*[a-z0-9])[A-Za-z0-9+/]{12,}=*
      )
    | (?P<hook>hooks\.slack\.com/services/|discord(?:app)?\.com/api/webhooks/\d+/)[A-Za-z0-9_/-]{8,}
    | PuTTY-User-Key-File-[0-9]:.*
    | (?P<signed>[?&](?:sig|key|auth|access_token|X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature)=)[A-Za-z0-9%+/=_.-]{16,}
    | (?P<cookie>(?i:\bcookie["']?:\s*["']?)[\w.-]+=)[^\s;"']{8,}
    | (?P<flag>(?<![\w-])--?(?i:password|passwd|token|secret|api[_-]key|access[_-]token|auth[_-]token)(?:[ ]|=)["']?)[^\s"'-][^\s"']{5,}
    | (?P<mysql>\bmysql\w*[ ][^\n]{0,200}?[ ]-p)[^\s"']{4,}
    | (?P<netrc>\blogin\s+\S+\s+password\s+)[^\s"']+
    | (?P<alone>://)[A-Za-z0-9_-]{20,}(?=@)
    | (?P<kaggle>["']key["']\s*:\s*["'])[0-9a-f]{32}
    | (?P<pass>(?i:\bpass(?:word|wort)?)(?:["']?\s*[=:]\s*["']?|\s+is\s+))(?=[^\s"',;]*[0-9])(?=[^\s"',;]*[A-Za-z])[^\s"',;]{6,}
    | (?P<curl>\bcurl\b[^\n]*?\s-u\s*["']?[^\s:"']+:)[^\s"']+
    | (?P<login>://[^/\s:@]*:)[^@/\s]+(?=@)
    | (?P<said>(?i:passw(?:or)?[dt]|kennwort|passphrase|\bpwd|secret|NO_MODEL_TOKEN token|(?:api|access|account|secret|private|signing)[_-]?key)["']?\s*[=:]\s*["']?)
      (?!\{[^{}]*\}|•)(?!-?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?(?![\w.+/=-]))[^\s"',;]{4,}
    """.replace("NO_MODEL_TOKEN", _NO_MODEL_TOKEN)
)
_KEPT = (
    "bearer",
    "basic",
    "login",
    "said",
    "hook",
    "signed",
    "curl",
    "ssws",
    "cookie",
    "flag",
    "mysql",
    "netrc",
    "alone",
    "kaggle",
    "pass",
)  # what stands before the secret and says what it is

# Looking for words one by one takes a twentieth of the time of an expression that names them all.
# Code in which none of these stands gives no literal a name that could be one of a secret.
_WORDS_OF_SECRETS = (
    *("pass", "pw", "secret", "key", "cred", "auth", "bearer", "token", "cookie", "dsn", "otp", "pin", "senha"),
    *("access", "private", "contrase", "wachtwoord", "kennwort", "jwt", "ssn", "webhook", *_OTHER_LETTERS),
)
# Every alternative of _CONTENT needs one of these, in whatever case. By it, how many characters before it the secret may
# begin: looking at these places alone takes a tenth of the time of looking at each character.
HINTS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ["-----begin", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "akia"], (0,)
    ),
    **dict.fromkeys(["asia", "aiza", "ya29.", "xox", "hf_", "npm_", "pypi-", "dapi", "dop_v1_", "eyj", "sg."], (0,)),
    **dict.fromkeys(["hvs.", "hvb.", "shpat_", "shpss_", "shpca_", "shppa_", "lin_api_", "dckr_pat_", "gsk_"], (0,)),
    **dict.fromkeys(["pscale_", "xai-", "pplx-", "nvapi-", "tvly-", "r8_", "ntn_", "figd_", "sbp_", "co_api_"], (0,)),
    **dict.fromkeys(["tgp_v1_", "lsv2_", "hrku-", "fm1_", "fm2_", "wandb_v1_", "age-secret-key-", "ssws "], (0,)),
    **dict.fromkeys(["putty-user-key", "hooks.slack", "discord", "curl", "cookie", "mysql", "login"], (0,)),
    **dict.fromkeys(["pass", "kennwort", "pwd", "secret", "token", "://"], (0,)),
    **dict.fromkeys(["-password", "-passwd", "-token", "-secret", "-api", "-access", "-auth"], (0, 1)),
    **dict.fromkeys(["k_live_", "k_test_", "earer ", "asic ", "sig=", "auth=", "access_token=", "key="], (1,)),
    **dict.fromkeys(["x-amz-s", "x-goog-s"], (1,)),
    ":aa": (8, 9, 10),
    "key": (0, 1, *range(3, 8)),  # of which owner, with or without a sign between
}
_SMALL_HINTS = {"SK": (0,), "pat": (0,)}  # in this case alone


def places(text: str) -> list[int]:
    """Where in a text a secret may begin, in order."""
    folded = text.lower()
    if len(folded) != len(text):  # some letters become two
        folded = "".join(one if len(one.lower()) != 1 else one.lower() for one in text)
    found: set[int] = set()
    for where, hints in ((folded, HINTS), (text, _SMALL_HINTS)):
        for hint, before in hints.items():
            at = where.find(hint)
            while at >= 0:
                found.update(at - one for one in before)
                at = where.find(hint, at + 1)
    return sorted(place for place in found if place >= 0)


def _secrets_in(text: str) -> Iterator[re.Match[str]]:
    end, expression = 0, None
    for place in places(text):
        if place >= end:
            expression = expression or _content()
            found = expression.match(text, place)
            if found is not None:
                yield found
                end = found.end()


@cache
def _content() -> re.Pattern[str]:
    """Compiled for the first text that gives a hint of a secret."""
    return re.compile(_CONTENT, re.VERBOSE | re.DOTALL)


def speaks_of_secrets(code: str) -> bool:
    """Whether a word stands in the code that the name of a secret needs."""
    folded = code.casefold()
    return any(word in folded for word in _WORDS_OF_SECRETS)


def names_a_secret(name: str) -> bool:
    """Whether a variable, key, column or parameter of this name should not be shown.

    >>> [names_a_secret(n) for n in ("openai_key", "dbPassword", "auth_token", "webhook_url", "tokens", "n_tokens", "sort_key")]
    [True, True, True, True, False, False, False]
    """
    # No number makes a name a secret or not: v0 to v4999 are one name.
    return _names_a_secret(_NUMBER.sub("0", name[:_WINDOW])) if name else False


@lru_cache(maxsize=2_048)
def _names_a_secret(name: str) -> bool:
    if not name.isascii() and any(word in name.casefold() for word in _OTHER_LETTERS):
        return True
    words = [word.lower() for word in _WORDS.findall(name)]
    if words == ["pass"]:
        return True
    if not words or words[-1] in _MEASURES:
        return False
    if _ANYWHERE.search("_".join(words)) or _ANYWHERE.search("".join(words)):
        return True
    if any(word in _WHOLE_WORDS for word in words) or any(map(_is_secret_token, ["", *words], words)):
        return True
    return any(_is_secret_pair(before, after) for before, after in pairwise(words))


def _is_secret_token(before: str, word: str) -> bool:
    return word.endswith("token") and not (word == "token" and before in _MODEL_TOKENS)


def _is_secret_pair(before: str, after: str) -> bool:
    if after in ("key", "keys"):
        return before in _KEY_OWNERS
    if after == "code":
        return before == "pin"
    if after == "pass":
        return before in _PASS_OWNERS
    return after == "tokens" and before in _TOKEN_OWNERS


def is_secret_under(name: str, value: object) -> bool:
    """Whether a value under this name is a secret, to be masked wherever it stands.

    Not a number or short word under a weak name, and no number with a point or True under any.

    >>> [is_secret_under("password", value) for value in (0.95, 2951, "x7-kk-2951")]
    [False, True, True]
    >>> [is_secret_under("auth", value) for value in (0.95, "none", "x7-kk-2951")]
    [False, False, True]
    >>> [is_secret_under("password_changed", value) for value in (2023, True, "x7-kk-2951")]
    [False, False, True]
    """
    if type(value) in (float, bool) or not names_a_secret(name):
        return False
    last = _WORDS.findall(name)[-1:]
    if name.lower() not in _WEAK and not (last and last[0].lower() in _ABOUT):
        return True
    if type(value) is str:
        return not _is_word(value)
    return type(value) is not int


def labels_a_secret(label: object) -> bool:
    """Whether a key, or the label of a row, says that what stands under it is a secret; of several parts one may."""
    if type(label) is tuple:
        return any(map(labels_a_secret, cast("tuple[object, ...]", label)))
    if type(label) is bytes:
        return names_a_secret(label[:_LONGEST_LABEL].decode("latin-1"))
    return type(label) is str and names_a_secret(label)


def names_its_neighbours(label: object, value: object) -> bool:
    """Whether this entry of a record says that the entries beside it hold a secret."""
    if type(label) is not str or type(value) is not str or len(label) > _LONGEST_LABEL:
        return False
    return label.casefold() in NAMING and names_a_secret(value)


def holds_a_secret(text: str) -> bool:
    """Whether the beginning of a text looks like a key, a token, a private key or a login.

    >>> [holds_a_secret(t) for t in ("ghp_" + "x" * 36, "postgres://me:hunter2@db/x", "a plain line: nothing")]
    [True, True, False]
    """
    window = text[:_WINDOW]
    return len(window) >= 8 and next(_secrets_in(window), None) is not None


def secret_at(text: str, place: int = 0) -> str:
    """What looks like a secret and begins at this place of a text, with what stands before it and says so; "" if none does.

    >>> secret_at("a=ghp_" + "x" * 20, 2), secret_at("risk-averse-investors", 2)
    ('ghp_xxxxxxxxxxxxxxxxxxxx', '')
    """
    found = _content().match(text, place)
    return found[0] if found is not None else ""


def without_private_keys(text: str) -> str:
    """The whole text, with a mask in place of each private key."""
    return re.sub(_PRIVATE_KEY, MASK, text, flags=re.DOTALL) if "-----BEGIN" in text else text


def without_secrets(text: str) -> str:
    """The whole text, with a mask in place of each key, token, private key and login.

    >>> without_secrets("token: abcdef123, then ghp_" + "x" * 36)
    'token: •••• masked, then •••• masked'
    """
    pieces: list[str] = []
    end = 0
    for found in _secrets_in(text):
        pieces += [text[end : found.start()], _mask(found)]
        end = found.end()
    return "".join([*pieces, text[end:]])


def _mask(found: re.Match[str]) -> str:
    return next((found[group] for group in _KEPT if found[group]), "") + MASK


# -- mask what looks like a secret in code, error texts and messages
#
# The rules are those of `masking`, which previews use too. In code, a literal is masked where a name, a keyword or a key
# says that it is a secret, and wherever its own characters do. What a cell's code gave away is then masked in its error
# and its message as well. Only what is shown is masked: the stored source stays as it was typed.

_NUMBER_MASK = f'"{MASK}"'  # in the place of a number, for what is masked to stay code
_SHORTEST = 4  # characters of a literal that is looked for elsewhere, and digits of a number that is masked
# Functions that are given the name of a secret. The name itself is not secret.
_ASKING = frozenset({"get", "getenv", "getpass", "input", "prompt", "raw_input"})
_COMMAND = re.compile(r"(?m)^[^\S\n]*[%!].*$")  # a magic or shell line: its words are no Python
_FOREIGN = re.compile(r"\s*%%(?!agent\b|time\b|timeit\b|capture\b|prun\b)")  # a cell of another language
_OPENING, _CLOSING = "([{", ")]}"


def mask_text(text: str, hidden: Iterable[str] = ()) -> str:
    """The text without keys, tokens, logins, and without the literals that a cell's code gave away.

    >>> mask_text("cannot reach postgres://me:hunter2@db/x")
    'cannot reach postgres://me:•••• masked@db/x'
    """
    return _without(without_secrets(text), sorted(hidden, key=len, reverse=True))


def mask_values(value: object) -> object:
    """Plain data in which what stands under the name of a secret is masked, however deep; texts are left to `mask_text`.

    >>> mask_values({"user": "ada", "headers": {"Authorization": "Bearer abc"}, "more": [["password", "hunter2"]]})
    {'user': 'ada', 'headers': {'Authorization': '•••• masked'}, 'more': [['password', '•••• masked']]}
    """
    if isinstance(value, dict):
        entries = cast("dict[object, object]", value)
        is_beside_one = any(names_its_neighbours(name, held) for name, held in entries.items())
        return {
            name: MASK
            if (type(name) is str and is_secret_under(name, held))
            or (is_beside_one and not names_its_neighbours(name, held))
            else mask_values(held)
            for name, held in entries.items()
        }
    if isinstance(value, list):
        items = cast("list[object]", value)
        if len(items) == 2 and type(items[0]) is str and is_secret_under(items[0], items[1]):
            return [items[0], MASK]
        return [mask_values(item) for item in items]
    return value


@lru_cache(maxsize=512)
def mask_code(source: str, names: frozenset[str] = frozenset()) -> tuple[str, frozenset[str]]:
    """The code as it may be shown, and the literals that were masked in it.

    Args:
        names: whose literals are masked, whatever the names look like, and no others' but what looks like a secret by
            itself. By default those of names that look like a secret's.

    >>> mask_code("api_key = 'abcdefgh'; n = 'abc'")[0]
    "api_key = '•••• masked'; n = 'abc'"
    """
    if not names and not speaks_of_secrets(source):
        return without_secrets(source), frozenset()
    if _FOREIGN.match(source):
        return without_secrets(source), frozenset()
    hidden: set[str] = set()
    source = without_private_keys(source)  # its lines may be those of a text that never ends
    text = "".join(_Reader(names, hidden).read(lexemes(source)))
    text = _COMMAND.sub(lambda line: without_secrets(line[0]), text)
    # A cell may spell out elsewhere what it assigned.
    return mask_literals(text, hidden if names else filter(is_telling, hidden)), frozenset(hidden)


def mask_literals(source: str, literals: Iterable[str]) -> str:
    """The code without these literals, in its strings, numbers, comments and magics alone: it stays code.

    >>> mask_literals("north = {'north': 'up north'}", ["north"])
    "north = {'•••• masked': 'up •••• masked'}"
    """
    wanted = sorted(set(literals) - {MASK, ""}, key=len, reverse=True)
    if not any(literal in source for literal in wanted):
        return source
    if _FOREIGN.match(source):
        return _without(source, wanted)
    pieces: list[str] = []
    for piece in lexemes(source):
        if piece.sort in ("string", "comment"):
            pieces.append(_without(piece.text, wanted))
        else:
            pieces.append(_NUMBER_MASK if piece.sort == "number" and piece.text in wanted else piece.text)
    return _COMMAND.sub(lambda line: _without(line[0], wanted), "".join(pieces))


def _without(text: str, literals: Iterable[str]) -> str:
    for literal in literals:
        text = text.replace(literal, MASK)
    return text


def _evaluate_literal(literal: str) -> str:
    """What a literal with escapes in it stands for."""
    try:
        value: object = ast.literal_eval(literal)
    except (SyntaxError, ValueError):
        return ""
    return value if type(value) is str else ""


def is_telling(literal: str) -> bool:
    """Whether a literal that belongs to a secret is one wherever it stands, and no part of other words."""
    return not _is_word(literal)


def _is_word(literal: str) -> bool:
    """A literal that is likely to be part of other words: masking it everywhere would make code unreadable."""
    return literal.isalpha() and len(literal) < 8


class _Frame(msgspec.Struct):
    """One level of brackets, or the statement around them."""

    bracket: str = ""
    inherits: bool = False  # it stands where the value of a secret stands
    asks: bool = False  # its first item is the name of what is looked up
    names_one: bool = False  # since the last comma, a name of a secret was met
    assigned: bool = False  # and after it a sign that gives it a value
    items: int = 0


class _Reader:
    """Goes through the code once, knowing at each literal whose value it is."""

    def __init__(self, names: Collection[str], hidden: set[str]) -> None:
        self._names = names
        self._hidden = hidden
        self._frames = [_Frame()]
        self._before = ""
        # Of names that were asked for: how far `name.append` is read, whether it is what `for` goes through, and whether this is
        # the block of its `def` or `class`.
        self._chain = 0
        self._is_looped = self._is_defined = False
        self._begins = True  # a line

    def read(self, pieces: Iterable[Lexeme]) -> Iterable[str]:
        for piece in pieces:
            if self._begins and piece.sort not in ("newline", "comment"):
                self._is_defined &= piece.sort == "space"
                self._begins = False
            yield self._mask_lexeme(piece)
            if piece.sort == "newline" and len(self._frames) == 1:
                self._frames = [_Frame()]
                self._begins, self._is_looped = True, False
            elif piece.sort in ("name", "string"):
                self._note(piece)
            elif piece.sort == "sign":
                self._turn(piece.text)
            if piece.sort not in ("space", "newline", "comment"):
                self._before = piece.text

    def _mask_lexeme(self, piece: Lexeme) -> str:
        if piece.sort == "comment":
            return without_secrets(piece.text)
        if piece.sort == "string" and self._is_secret():
            opening, inner, closing = literal_text(piece.text)
            if not inner:
                return piece.text
            self._give_away(inner)
            if "\\" in inner:
                self._give_away(_evaluate_literal(piece.text))
            return f"{opening}{MASK}{closing}"
        if piece.sort == "number" and len(piece.text) >= _SHORTEST and self._is_secret():
            self._give_away(piece.text)
            return _NUMBER_MASK
        return without_secrets(piece.text) if piece.sort == "string" else piece.text

    def _give_away(self, literal: str) -> None:
        if len(literal) >= _SHORTEST:
            self._hidden.add(literal)

    def _is_secret(self) -> bool:
        frame = self._frames[-1]
        return self._is_defined or frame.assigned or (frame.inherits and not (frame.asks and frame.items == 0))

    def _note(self, piece: Lexeme) -> None:
        name = piece.text if piece.sort == "name" else literal_text(piece.text)[1]
        is_meant = self._is_meant(name)
        if is_meant:
            self._frames[-1].names_one = True
        if not self._names or piece.sort != "name":
            return
        self._is_defined |= is_meant and self._before in ("def", "class")
        self._is_looped |= is_meant and self._before == "for"
        if name == "in" and self._is_looped:
            self._frames[-1].assigned, self._is_looped = True, False
        self._chain = 2 if self._chain and self._before == "." else int(is_meant)

    def _is_meant(self, name: str) -> bool:
        # What stands beside the names in a cell was not asked for: it would be masked in the stored source for good.
        return name in self._names if self._names else len(name) <= 80 and names_a_secret(name)

    def _turn(self, sign: str) -> None:
        frame = self._frames[-1]
        chain, self._chain = self._chain, self._chain if sign == "." else 0
        if sign in _OPENING:
            self._open(frame, sign, chain)
        elif sign in _CLOSING and len(self._frames) > 1:
            closed = self._frames.pop()
            # d["password"] = …: the key says what is assigned; in f(password) == … nothing is assigned to it.
            self._frames[-1].names_one |= closed.bracket == "[" and closed.names_one
        elif sign == "," and frame.bracket:
            frame.names_one = frame.assigned = False
            frame.items += 1
        elif sign == ";" and not frame.bracket:
            self._frames = [_Frame()]
            self._is_looped = False
        elif sign == ":" and not frame.bracket:
            frame.assigned = False  # after `if password == "x":`; an annotation's value is still to come
        elif sign in ("=", ":=", "==", "!=") or (sign == ":" and frame.bracket == "{"):
            frame.assigned = frame.assigned or frame.names_one

    def _open(self, outer: _Frame, sign: str, chain: int) -> None:
        ends_a_value = bool(self._before) and (self._before[-1].isalnum() or self._before[-1] in "_)]\"'")
        follows_a_value = ends_a_value and not iskeyword(self._before)
        is_subscript = sign == "[" and follows_a_value
        is_method = sign == "(" and chain == 2
        inherits = (outer.assigned or outer.inherits or is_method) and not is_subscript
        self._frames.append(_Frame(sign, inherits, asks=sign == "(" and self._before in _ASKING))


# -- how a history is masked for good

Reach: TypeAlias = Literal["all", "here", "secrets"]
_LONG_ENOUGH = 8  # characters of a literal that is masked elsewhere because it may be a part of a secret


class CodeMask:
    """Masks what code gives away of some names.

    Args:
        reach: by name, what of the statements that speak of it is masked: `all` of their literals, wherever they stand;
            all of them, but only `here` those that are words; or what looks like `secrets` alone. By default all.
    """

    def __init__(self, reach: Mapping[str, Reach] = MappingProxyType({})) -> None:
        self._reach = reach

    def __call__(self, source: str, names: frozenset[str]) -> tuple[str, frozenset[str]]:
        """The source without these literals, and those that are to be masked everywhere."""
        literals: set[str] = set()
        spoken = {name for name in names if name in source}
        for reach in ("all", "here", "secrets"):
            mine = frozenset(name for name in spoken if self._reach.get(name, "all") == reach)
            if mine:
                source, hidden = mask_code(source, frozenset[str]() if reach == "secrets" else mine)
                least = _LONG_ENOUGH if reach == "here" else 0
                literals |= {one for one in hidden if reach == "all" or (is_telling(one) and len(one) >= least)}
        return source, frozenset(literals)

    def literals(self, source: str, literals: Iterable[str]) -> str:
        """The code without literals that another cell gave away."""
        return mask_literals(source, literals)
