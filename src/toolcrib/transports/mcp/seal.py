"""What a client carries from one request to the next: nobody else can read, change or make it."""

from __future__ import annotations

import binascii
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import msgspec

from toolcrib.core.link import InputRefused
from toolcrib.errors import ToolcribError

_PURPOSE = b"toolcrib requestState 1"
_NONCE = 12
LONGEST = 4096
"""Characters of a sealed text; a longer one is none of ours."""


class Unsealed(ToolcribError):
    """The text was not sealed here, or not for this. It does not say more: whoever tries texts
    must learn nothing."""


class Claims(msgspec.Struct, frozen=True, array_like=True):
    """What a sealed text stands for."""

    principal: str
    profile: str | None
    session: str | None
    method: str
    tool: str
    """The digest of the tool that is called."""
    request: str
    """The digest of what is asked: the params without what changes from round to round."""
    ticket: str
    """Names the call that waits, and counts once."""
    expires: float
    """Seconds since 1970."""


class Seal:
    """AES-256-GCM under a key that lives as long as the calls that wait: this process."""

    def __init__(self) -> None:
        self._key = os.urandom(32)
        self._cipher: Any = None

    def close(self, claims: Claims) -> str:
        """The claims as an opaque text. Raises `InputRefused` where sealing is not installed."""
        nonce = os.urandom(_NONCE)
        sealed: bytes = self._aead().encrypt(nonce, msgspec.json.encode(claims), _PURPOSE)
        return urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    def open(self, text: str) -> Claims:
        """The claims of a text. Raises `Unsealed`."""
        from cryptography.exceptions import InvalidTag

        if len(text) > LONGEST:
            raise Unsealed
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            # Of several texts for the same bytes, only the one that was given out is good.
            if urlsafe_b64encode(raw).decode().rstrip("=") != text or len(raw) <= _NONCE:
                raise Unsealed
            opened: bytes = self._aead().decrypt(raw[:_NONCE], raw[_NONCE:], _PURPOSE)
            return msgspec.json.decode(opened, type=Claims)
        except (binascii.Error, ValueError, InvalidTag, msgspec.MsgspecError):
            raise Unsealed from None

    def _aead(self) -> Any:
        if self._cipher is None:
            try:
                from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            except ImportError:
                raise InputRefused(
                    "asking a client of this protocol revision needs cryptography, which is not "
                    "installed: pip install 'toolcrib[serve]'"
                ) from None
            self._cipher = AESGCM(self._key)
        return self._cipher
