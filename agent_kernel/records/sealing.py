"""Encrypt records with a key: AES-256-GCM, bound to the record's place, so that no sealed record passes for another one.

Of several keys the first one encrypts, and each is tried to decrypt: so a key is replaced while records of the old one are there.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Final, TypeAlias

from agent_kernel.errors import MissingExtraError
from agent_kernel.records.checks import is_text

__all__ = ["Seal", "Secret"]

Secret: TypeAlias = bytes | str | Sequence[bytes | str]

_NONCE: Final = 12
_SALT: Final = b"agent_kernel records 1"


class Seal:
    """A key, or the new one and those before it. Text is stretched (scrypt), 32 bytes are taken as they are."""

    def __init__(self, secret: Secret) -> None:
        """Raises: TypeError, ValueError: there is no key, or one is empty or neither text nor bytes."""
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtraError("cryptography", "sign") from error
        secrets = [secret] if isinstance(secret, bytes | str) else secret
        if not isinstance(secrets, list | tuple):
            raise TypeError(f"a secret is text or bytes, or a list of them, not {type(secret).__name__}")
        self._ciphers = [AESGCM(_key_of(one)) for one in secrets]
        if not self._ciphers:
            raise ValueError("there is no key for encrypted records")

    def close(self, document: bytes, context: str) -> bytes:
        """The bytes, encrypted."""
        nonce = os.urandom(_NONCE)
        return nonce + self._ciphers[0].encrypt(nonce, document, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes | None:
        """The bytes; None: they were encrypted with none of the keys, or for another place."""
        from cryptography.exceptions import InvalidTag

        for cipher in self._ciphers:
            try:
                return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context.encode())
            except (InvalidTag, ValueError):
                continue
        return None


def _key_of(secret: object) -> bytes:
    if not isinstance(secret, bytes | str):
        raise TypeError(f"a secret is text or bytes, not {type(secret).__name__}")
    if isinstance(secret, str) and not is_text(secret):
        raise ValueError("a secret is text that UTF-8 holds, and this one has half a character")
    if not secret:
        raise ValueError("the key of encrypted records is empty")
    if isinstance(secret, bytes) and len(secret) == 32:
        return secret
    raw = secret.encode() if isinstance(secret, str) else secret
    return hashlib.scrypt(raw, salt=_SALT, n=2**14, r=8, p=1, dklen=32)
