"""Path globs and search patterns that run in linear time, whatever the text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

Test = Callable[[str], bool]
_COMPILED = 1 << 20
"""Bytes that a compiled pattern may take: a short pattern can ask for gigabytes."""


@functools.lru_cache(maxsize=512)
def regex(pattern: str) -> Test:
    """Whether `pattern` occurs in a text; `ValueError` when it cannot be used."""
    import jsonschema_rs  # not at the top: it costs more than the rest of this package

    return jsonschema_rs.validator_for(
        {"type": "string", "pattern": pattern},
        pattern_options=jsonschema_rs.RegexOptions(size_limit=_COMPILED),
    ).is_valid


@functools.lru_cache(maxsize=512)
def glob(pattern: str) -> Test:
    """Whether a whole path fits: `*` and `?` stay within a name, `**/` is any number of folders,
    and `folder/**` is the folder itself and all that is below it."""
    parts = re.split(r"(^\*\*$|/\*\*$|(?:^|(?<=/))\*\*/|\*\*|\*|\?)", pattern)
    wild = {
        "/**": "(?:/(?s:.)*)?",
        "**/": "(?:(?s:.)*/)?",
        "**": "(?s:.)*",
        "*": "[^/]*",
        "?": "[^/]",
    }
    return regex("^" + "".join(wild.get(part) or re.escape(part) for part in parts) + "$")


def fits_any(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path fits one of the globs."""
    return any(glob(pattern)(path) for pattern in patterns)


def may_hold(folder: str, patterns: Sequence[str]) -> bool:
    """Whether something below `folder` could fit one of the globs."""
    return any(_may_hold(folder, pattern) for pattern in patterns)


def _may_hold(folder: str, pattern: str) -> bool:
    wanted = pattern.split("/")
    for place, name in enumerate(folder.split("/") if folder != "." else ()):
        if place >= len(wanted):
            return False
        if "**" in wanted[place]:
            return True
        if not glob(wanted[place])(name):
            return False
    return True
