"""Whether a body is the one that was meant: by its hash, or by its maker's signature."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re

from toolcrib.errors import ConfigError

HEADER = "x-signature-ed25519"
"""The header of a signature; without it, one is looked for in a file beside, named `….sig`."""

_SHA256 = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})").fullmatch


def hash_from(text: str) -> str:
    """A pinned SHA-256, in lower case."""
    match = _SHA256(text.strip())
    if match is None:
        raise ConfigError(
            "sha256 must be 64 hexadecimal digits",
            key="sha256",
            cure="Write what `sha256sum FILE` prints",
        )
    return match[1].lower()


def has_hash(body: bytes, wanted: str) -> bool:
    """Whether `body` is the pinned one."""
    return hmac.compare_digest(hashlib.sha256(body).hexdigest(), wanted)


class PublicKey:
    """An Ed25519 key that signatures are checked with."""

    def __init__(self, text: str) -> None:
        raw = _decoded(text)
        if len(raw) != 32:
            raise ConfigError(
                "public_key must be an Ed25519 key: 32 bytes in base64",
                key="public_key",
                cure="Write the raw key in base64, not a PEM block",
            )
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        except ImportError:
            raise ConfigError(
                "signatures need the package cryptography, which is not installed",
                key="public_key",
                cure="Install it: pip install 'toolcrib[signatures]', or pin the body with sha256",
            ) from None
        self._key = Ed25519PublicKey.from_public_bytes(raw)

    def signed(self, body: bytes, signature: str) -> bool:
        """Whether `signature` (base64) is this key's over `body`."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._key.verify(_decoded(signature), body)
        except InvalidSignature:
            return False
        return True


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""
