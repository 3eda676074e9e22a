"""`toolcrib serve` as programs write it, understood without the parser of the other commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class Serve(msgspec.Struct, frozen=True, kw_only=True):
    """What was typed after `toolcrib serve`."""

    listen: str | None = None
    unix: str | None = None
    profile: str | None = None
    stdio: bool = False
    host_tools: tuple[str, ...] = ()
    host_tools_module: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    no_console: bool = False
    frozen: bool = False
    quiet: bool = False
    approve: bool | None = None
    config: str | None = None
    as_json: bool = False


_FLAGS = frozenset(("--stdio", "--quiet", "--frozen"))
_NAMING = frozenset(("--config", "--profile"))
_ADDING = {
    "--host-tools": "host_tools",
    "--host-tools-module": "host_tools_module",
    "--import": "imports",
}
"""What may be given several times."""


def plain_serve(words: Sequence[str]) -> Serve | None:
    """What these words ask for, where there is nothing in them but `serve --stdio` and the flags
    beside it. Everything else, mistakes among it, is None: for the parser that knows all."""
    if not words or words[0] != "serve" or "--stdio" not in words:
        return None
    given: dict[str, Any] = {}
    rest = iter(words[1:])
    for word in rest:
        name, equals, value = word.partition("=")
        if word in _FLAGS:
            given[word[2:]] = True
            continue
        if name not in _NAMING and name not in _ADDING:
            return None
        value = value if equals else next(rest, "")
        if not value or value.startswith("-"):
            return None
        if name in _NAMING:
            given[name[2:]] = value
        else:
            given.setdefault(_ADDING[name], []).append(value)
    return msgspec.convert(given, Serve)
