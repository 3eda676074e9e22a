"""Text patterns that run in linear time, whatever the text."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from toolcrib.errors import ConfigError

Test = Callable[[str], bool]


@functools.lru_cache(maxsize=4096)
def regex(pattern: str) -> Test:
    """Whether `pattern` occurs in a text. The engine has no look-around and cannot blow up."""
    import jsonschema_rs  # not at the top: it costs more than the rest of this package

    try:
        return jsonschema_rs.validator_for(
            {"type": "string", "pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions()
        ).is_valid
    except ValueError as error:
        raise ConfigError(
            f"{pattern!r} is not a regular expression Toolcrib can use: {error}",
            cure="Look-around and back-references are not available, so that no text can stall it",
        ) from None


@functools.lru_cache(maxsize=4096)
def glob(pattern: str) -> Test:
    """Whether a whole text fits: `*` is anything but `/`, `**` anything, `?` one character."""
    if not re.search(r"[*?]", pattern):
        return pattern.__eq__
    parts = re.split(r"(\*\*|\*|\?)", pattern)
    wild = {"**": "(?s:.)*", "*": "[^/]*", "?": "[^/]"}
    return regex("^" + "".join(wild.get(part) or re.escape(part) for part in parts) + "$")


def is_glob(name: str) -> bool:
    """Whether `name` is written as a pattern."""
    return "*" in name or "?" in name


@functools.lru_cache(maxsize=4096)
def any_glob(patterns: tuple[str, ...]) -> Test:
    """Whether a text fits one of `patterns`."""
    exact = frozenset(p for p in patterns if not is_glob(p))
    wild = tuple(glob(p) for p in patterns if is_glob(p))
    return lambda text: text in exact or any(test(text) for test in wild)
