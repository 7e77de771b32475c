"""`agent-kernel key`: make your key, show it, and say whose bundles you trust by their signature."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_kernel.bundle import keys, opening
from agent_kernel.commands.output import Block, Json, Line, Lines, Result, Table
from agent_kernel.commands.scope import Parser, UsageProblem
from agent_kernel.commands.text import clean
from agent_kernel.errors import SigningKeyError
from agent_kernel.repository import person
from agent_kernel.storage.archive import SUFFIX

__all__ = ["key_command"]

_COMMAND = "agent-kernel key"


def key_command(words: Sequence[str]) -> Result:
    """`agent-kernel key [new|show|trust|revoke]`.

    Raises:
        UsageProblem, Helped: the words do not fit, or ask for help.
        MissingExtraError: cryptography is needed, and not installed.
        SigningKeyError: a key, or a file of keys, cannot be used. StoreReadOnlyError: nothing can be written down.
    """
    action = words[0] if words and words[0] in _ACTIONS else ""
    if not action:
        return _list(_parser().read(words))
    help_text, arguments, act = _ACTIONS[action]
    parser = Parser(f"{_COMMAND} {action}", help_text)
    arguments(parser)
    parser.flag("--json", help="print JSON, for programs")
    return act(parser.read(words[1:]))


def _parser() -> Parser:
    parser = Parser(_COMMAND, "List your key and the keys that you know, and which of them you trust.")
    parser.flag("--json", help="print JSON, for programs")
    parser.explains(
        "agent-kernel key new [--name NAME] [--replace]    make your key; export signs bundles with it from then on\n"
        "agent-kernel key show                             print its public half, to send to a colleague\n"
        "agent-kernel key trust KEY [--name NAME]          trust all bundles that this key signed, and will sign:\n"
        "                                                  a line from key show, a bundle, or a key that you know\n"
        "agent-kernel key revoke KEY                       trust them no longer"
    )
    return parser


def _list(options: Namespace) -> Result:
    return Keys(tuple(keys.list_keys()), keys.own_problem())


@dataclass(frozen=True)
class Keys(Result):
    """The keys that this user has and knows."""

    keys: tuple[keys.Key, ...]
    problem: str = ""  # with their own

    def to_json(self) -> Json:
        return {"keys": [_json(key) for key in self.keys], "problem": self.problem or None}

    def blocks(self) -> Sequence[Block]:
        rows = tuple((key.name, key.fingerprint, _trust_text(key)) for key in self.keys)
        lines: list[Block] = [Table(("Name", "Fingerprint", ""), rows)] if rows else []
        if self.problem:
            lines.append(Line(clean(self.problem)))
        elif not any(key.is_own for key in self.keys):
            lines.append(Line("You have no key of your own; agent-kernel key new makes one"))
        return lines


def _trust_text(key: keys.Key) -> str:
    trust = "trusted" if key.is_trusted else "revoked"
    return f"yours, {trust}" if key.is_own else trust


def _json(key: keys.Key) -> dict[str, Json]:
    return {
        "name": key.name,
        "fingerprint": key.fingerprint,
        "line": keys.key_line(key),
        "own": key.is_own,
        "trusted": key.is_trusted,
    }


def _no_arguments(parser: Parser) -> None:
    """Nothing to choose."""


def _new_arguments(parser: Parser) -> None:
    parser.value("--name", metavar="NAME", help="by which you go (default: the author of your commits)", default="")
    parser.flag(
        "--replace", help="delete the key that you have; what it signed is trusted as before, until you revoke it"
    )


def _new(options: Namespace) -> Result:
    key = keys.make_key(options.name or person().name, replace=options.replace)
    lines = (
        f"Made the key {key.fingerprint} of {key.name}: export signs bundles with it from now on",
        "Your colleagues trust it with agent-kernel key trust and this line:",
        keys.key_line(key),
    )
    return Lines(lines, _json(key))


def _show(options: Namespace) -> Result:
    if problem := keys.own_problem():
        raise UsageProblem(clean(problem))
    own = next((key for key in keys.list_keys() if key.is_own), None)
    if own is None:
        raise SigningKeyError("your key", "you have made none; agent-kernel key new makes one")
    return Lines((keys.key_line(own),), _json(own))


def _trust_arguments(parser: Parser) -> None:
    parser.takes_all("key", "text", help="a line from key show, a bundle, or the name or fingerprint of a known key")
    parser.value(
        "--name", metavar="NAME", help="what to call its owner here (default: as the line or the bundle)", default=""
    )
    parser.explains(
        "Values of a bundle that a trusted key signed are loaded without asking, which can run code of whoever has the\n"
        "key. First compare the fingerprint, which agent-kernel verify STUDY.agentnb prints, with the one that its owner tells\n"
        "you by another way than the one the bundle came: agent-kernel key prints it for them."
    )


def _trust(options: Namespace) -> Result:
    text = " ".join(options.words)
    if not text:
        raise UsageProblem(f"say which key: a line from key show, a bundle, or a name ({_COMMAND} trust KEY)")
    key = keys.trust_key(*_key_meant(text, options.name))
    lines = (
        f"Bundles signed with {key.fingerprint} are trusted from now on, as those of {key.name}",
        "Compare that with what agent-kernel key prints for its owner, if you have not yet: ask them on the phone, say",
        f"If it is another one: {_COMMAND} revoke {key.fingerprint[:8]}",
    )
    return Lines(lines, _json(key))


def _key_meant(text: str, name: str) -> tuple[bytes, str]:
    """The public key, and what to call its owner."""
    if keys.is_key_line(text):
        public, claimed = keys.read_key_line(text)
    elif text.endswith(SUFFIX):
        with opening.opened(Path(text).expanduser()) as bundle:
            public, claimed = keys.signer_of(bundle)
    else:
        return keys.find_key(text).public, name
    known = next((key.name for key in keys.list_keys() if key.public == public), "")
    name = name or known or claimed
    if not name:
        raise UsageProblem("the line does not say whose key it is: --name NAME does")
    return public, name


def _revoke_arguments(parser: Parser) -> None:
    parser.takes_all("key", "text", help="the name or the fingerprint of a key, or its first 8 digits")
    parser.explains(
        "Bundles are not trusted any more because this key signed them. What was opened before is a store of its own and\n"
        "stays trusted; agent-kernel trust NOTEBOOK --revoke takes that back, for what was imported too."
    )


def _revoke(options: Namespace) -> Result:
    text = " ".join(options.words)
    if not text:
        raise UsageProblem(f"say which key, by its name or fingerprint ({_COMMAND} revoke KEY)")
    key = keys.revoke_key(text)
    lines = [
        f"You no longer trust bundles because {key.fingerprint} ({key.name}) signed them",
        "What was opened before stays trusted: agent-kernel trust NOTEBOOK --revoke takes that back",
    ]
    if key.is_own:
        lines.append("Yours signs nothing any more: agent-kernel key new --replace makes another")
    return Lines(tuple(lines), _json(key))


_ACTIONS: dict[str, tuple[str, Callable[[Parser], None], Callable[[Namespace], Result]]] = {
    "new": ("Make your key.", _new_arguments, _new),
    "show": ("Print the public half of your key, to send to a colleague.", _no_arguments, _show),
    "trust": ("Trust all bundles that a key signed, and will sign.", _trust_arguments, _trust),
    "revoke": ("Trust a key no longer.", _revoke_arguments, _revoke),
}
