"""Which arguments may become a part of a request without a place of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolcrib.core.schema import Validator, compile_schema
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial
from toolcrib.executors.http_template import Arguments, Places
from toolcrib.net.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class Takes:
    """The arguments of a tool, as far as the schema declares them."""

    declared: frozenset[str]
    placed: frozenset[str]
    """Those that have a place of their own."""
    free: bool
    """Whether the schema says itself that there may be others."""
    shaped: Validator | None
    """Says whether the others have names that the schema describes by pattern."""
    fixed: frozenset[str]
    """Names of parameters that the configuration sets; no other argument may be called so."""

    def rest(self, arguments: Arguments) -> dict[str, Any]:
        """The arguments that go where all without a place go."""
        rest = {name: value for name, value in arguments.items() if name not in self.placed}
        for name in rest.keys() - self.declared:
            free = self.free or (self.shaped is not None and self.shaped.is_valid({name: None}))
            if not free or name in self.fixed:
                raise Denial("argument_not_allowed", f"the tool has no argument {name}")
        return rest


def takes_others(schema: Mapping[str, Any]) -> bool:
    """Whether a schema says that there may be arguments which it does not name."""
    return bool(schema.get("patternProperties")) or (
        schema.get("additionalProperties", False) is not False
    )


def arguments_without_place(
    spec: ToolSpec, settings: Settings, places: Places, fixed: frozenset[str]
) -> Takes:
    """What the schema declares. Where it does not say whether there may be other arguments, there
    may be none: they would reach the server unseen."""
    schema = spec.input_schema
    for name in places.known:
        if name in fixed and name not in places.used:
            settings.wrong(
                "query",
                f"has a {name} of its own, and the argument {name} would be a second one",
                f"Give it a place: {{{name}}} in url, query, headers or body",
            )
    patterns: Mapping[str, Any] = schema.get("patternProperties") or {}
    shape = {"patternProperties": dict.fromkeys(patterns, True), "additionalProperties": False}
    return Takes(
        declared=frozenset(places.known),
        placed=frozenset(places.used),
        free=schema.get("additionalProperties", False) is not False,
        shaped=compile_schema(shape) if patterns else None,
        fixed=fixed,
    )
