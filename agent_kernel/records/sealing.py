"""Encrypt records with a key: AES-256-GCM, bound to the record's place, so that no sealed record passes for another one."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from agent_kernel.errors import MissingExtraError

__all__ = ["Seal"]

_NONCE: Final = 12
_SALT: Final = b"agent_kernel records 1"


class Seal:
    """A key. Text is stretched (scrypt), 32 bytes are taken as they are."""

    def __init__(self, secret: bytes | str) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtraError("cryptography", "sign") from error
        raw = secret.encode() if isinstance(secret, str) else secret
        if not raw:
            raise ValueError("the key of encrypted records is empty")
        key = (
            raw
            if isinstance(secret, bytes) and len(raw) == 32
            else hashlib.scrypt(raw, salt=_SALT, n=2**14, r=8, p=1, dklen=32)
        )
        self._cipher = AESGCM(key)

    def close(self, document: bytes, context: str) -> bytes:
        """The bytes, encrypted."""
        nonce = os.urandom(_NONCE)
        return nonce + self._cipher.encrypt(nonce, document, context.encode())

    def open(self, sealed: bytes, context: str) -> bytes | None:
        """The bytes; None: they were encrypted with another key, or for another place."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context.encode())
        except (InvalidTag, ValueError):
            return None
