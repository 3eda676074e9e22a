"""One byte form for equal values, and the hashes made over it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return _encode(value)


def digest(value: Any) -> str:
    """SHA-256 over the canonical form, in hexadecimal."""
    return hashlib.sha256(_encode(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
