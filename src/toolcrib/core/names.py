"""Tool names: what is allowed, what models see, and which names look alike."""

from __future__ import annotations

import hashlib
import re

from toolcrib.errors import SpecError

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}").fullmatch
_WIRE = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch
_NOT_WIRE = r"[^A-Za-z0-9_-]"
_SEPARATORS = str.maketrans(".:-", "___")
_LOOKS = str.maketrans("I10.:-", "llo___")


def check_name(name: object) -> str:
    """`name`, if it is a good one; otherwise a `SpecError` that says what is wrong."""
    if isinstance(name, str) and _NAME(name):
        return name
    shown = ascii(name)
    cure = "Use 1 to 128 of: letters A-Z a-z, digits, and _ . : -"
    if not isinstance(name, str):
        raise SpecError(f"a tool's name must be text, not {shown}", cure=cure)
    if not name:
        raise SpecError("a tool's name is empty", cure=cure)
    if len(name) > 128:
        raise SpecError(f"the tool name {shown[:40]}… has {len(name)} characters", cure=cure)
    bad = next(c for c in name if not _NAME(c))
    raise SpecError(f"the tool name {shown} contains {bad!a}", cure=cure)


def wire_name(name: str) -> str:
    """The name shown to models, `[A-Za-z0-9_-]{1,64}`: a readable head, a hash tail if needed."""
    if _WIRE(name):
        return name
    tail = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{re.sub(_NOT_WIRE, '_', name)[:55]}_{tail}"


def look_alikes(name: str) -> tuple[str, str]:
    """Two keys; names that share one of them are too alike to stand side by side."""
    return name.translate(_SEPARATORS).casefold(), name.translate(_LOOKS).casefold()
