"""What looks like a secret, by the name it goes under or by its own characters.

Masking errs towards hiding: a preview lost costs a look at the live value, a key shown in a history, a log or a
model's context is a key to replace.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from typing import cast

from agent_kernel.values.summaries.wording import MASK

_WINDOW = 400  # characters of a text that are searched; previews show fewer
_LONGEST_LABEL = 40

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NUMBER = re.compile("[0-9]+")
_ANYWHERE = re.compile(
    r"passw(?:or)?d|passphrase|secret(?!ar)|api_?key|credential|private_?key|access_?key|authori[sz]ation|bearer"
)
# Whole words are sets: an expression of them takes longer to compile than all names of a notebook to look up.
_KEY_OWNERS = frozenset(
    ["ssh", "encryption", "signing", "master", "account", "auth", "service", "session", "storage", "license", "client"]
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
_TOKEN_OWNERS = frozenset(["auth", "access", "api", "refresh", "bearer", "bot", "user", "id", "csrf"])
_WHOLE_WORDS = frozenset(["pwd", "pw", "auth", "cookie", "cookies", "dsn"])
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
    ]
)
# In a record one entry may name what another one holds: {"name": "password", "value": "hunter2"}.
_NAMING = frozenset(["name", "key", "header", "field", "variable", "setting"])

_PRIVATE_KEY = r"""-----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY(?:.*?-----END[ ][A-Z ]*PRIVATE[ ]KEY-----|[^"']*)"""
# Each alternative takes a secret to its end and no further, for a text that is shown without it.
_CONTENT = (
    _PRIVATE_KEY
    + r"""
    | (?<![A-Za-z0-9])(?:
          sk-[A-Za-z0-9_-]{12,}
        | [spr]k_(?:live|test)_[A-Za-z0-9]{8,}
        | gh[pousr]_[A-Za-z0-9]{16,} | github_pat_[A-Za-z0-9_]{16,} | glpat-[A-Za-z0-9_-]{12,}
        | (?:AKIA|ASIA)[A-Z0-9]{12,} | AIza[A-Za-z0-9_-]{24,} | ya29\.[A-Za-z0-9_-]{16,}[A-Za-z0-9._-]*
        | xox[abeoprs]-[A-Za-z0-9-]{8,} | hf_[A-Za-z0-9]{16,} | npm_[A-Za-z0-9]{24,} | pypi-[A-Za-z0-9_-]{24,}
        | eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}[A-Za-z0-9._-]* | SG\.[A-Za-z0-9_-]{12,}\.[A-Za-z0-9_-]*
        | (?P<bearer>[Bb]earer[ ]+)[A-Za-z0-9._~+/-]{12,}=*
        | (?P<basic>[Bb]asic[ ]+)(?=\S*[A-Z])(?=\S*[a-z0-9])[A-Za-z0-9+/]{12,}=*
      )
    | (?P<login>://[^/\s:@]*:)[^@/\s]+(?=@)
    | (?P<said>(?i:passw(?:or)?d|\bpwd|secret|token|api[_-]?key|access[_-]?key|account[_-]?key)["']?\s*[=:]\s*["']?)
      (?!\{[^{}]*\}|•)[^\s"',;]{4,}
    """
)
_KEPT = ("bearer", "basic", "login", "said")  # what stands before the secret and says what it is

# Looking for words one by one takes a twentieth of the time of an expression that names them all.
# Code in which none of these stands gives no literal a name that could be one of a secret.
_WORDS_OF_SECRETS = ("pass", "pw", "secret", "key", "cred", "auth", "bearer", "token", "cookie", "dsn")
# Every alternative of _CONTENT needs one of these, in whatever case.
_HINTS = (
    *("-----begin", "sk-", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("akia", "asia", "aiza", "ya29.", "xox", "hf_", "npm_", "pypi-", "eyj", "sg.", "earer", "asic"),
    *("://", "passw", "pwd", "secret", "token", "key"),
)


@cache
def _content() -> re.Pattern[str]:
    """Compiled for the first text that gives a hint of a secret."""
    return re.compile(_CONTENT, re.VERBOSE | re.DOTALL)


def speaks_of_secrets(code: str) -> bool:
    """Whether a word stands in the code that the name of a secret needs."""
    folded = code.casefold()
    return any(word in folded for word in _WORDS_OF_SECRETS)


def _may_hold_a_secret(text: str) -> bool:
    folded = text.casefold()
    return any(hint in folded for hint in _HINTS)


def names_a_secret(name: str) -> bool:
    """Whether a variable, key, column or parameter of this name should not be shown.

    >>> [names_a_secret(n) for n in ("OPENAI_API_KEY", "dbPassword", "auth_token", "tokens", "n_tokens", "author")]
    [True, True, True, False, False, False]
    """
    # No number makes a name a secret or not: v0 to v4999 are one name.
    return _names_a_secret(_NUMBER.sub("0", name[:_WINDOW])) if name else False


@lru_cache(maxsize=2_048)
def _names_a_secret(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _MEASURES:
        return False
    if _ANYWHERE.search("_".join(words)) or _ANYWHERE.search("".join(words)):
        return True
    if any(word in _WHOLE_WORDS or word.endswith("token") for word in words):
        return True
    return any(_is_secret_pair(before, after) for before, after in pairwise(words))


def _is_secret_pair(before: str, after: str) -> bool:
    if after in ("key", "keys"):
        return before in _KEY_OWNERS
    if after == "pass":
        return before in _PASS_OWNERS
    return after == "tokens" and before in _TOKEN_OWNERS


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
    return label.casefold() in _NAMING and names_a_secret(value)


def holds_a_secret(text: str) -> bool:
    """Whether the beginning of a text looks like a key, a token, a private key or a login.

    >>> [holds_a_secret(t) for t in ("ghp_" + "x" * 36, "postgres://me:hunter2@db/x", "a plain line: nothing")]
    [True, True, False]
    """
    window = text[:_WINDOW]
    return len(window) >= 8 and _may_hold_a_secret(window) and _content().search(window) is not None


def without_private_keys(text: str) -> str:
    """The whole text, with a mask in place of each private key."""
    return re.sub(_PRIVATE_KEY, MASK, text, flags=re.DOTALL) if "-----BEGIN" in text else text


def without_secrets(text: str) -> str:
    """The whole text, with a mask in place of each key, token, private key and login.

    >>> without_secrets("token: abcdef123, then ghp_" + "x" * 36)
    'token: •••• masked, then •••• masked'
    """
    return _content().sub(_mask, text) if _may_hold_a_secret(text) else text


def _mask(found: re.Match[str]) -> str:
    return next((found[kept] for kept in _KEPT if found[kept]), "") + MASK
