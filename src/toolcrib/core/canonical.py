"""One byte form for equal values, and the hashes made over it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec


def _other(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} has no canonical form")


_encode = msgspec.json.Encoder(
    order="deterministic", decimal_format="number", enc_hook=_other
).encode


def canonical(value: Any) -> bytes:
    """JSON with sorted keys and no spaces: equal values give equal bytes, in every process."""
    return _encode(value)


def digest(value: Any) -> str:
    """SHA-256 over the canonical form, in hexadecimal."""
    return hashlib.sha256(_encode(value)).hexdigest()


def digest_bytes(data: bytes) -> str:
    """SHA-256 of bytes, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
