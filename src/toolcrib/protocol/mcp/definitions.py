"""Definitions of tools, from MCP and to MCP."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, cast

import msgspec

from toolcrib.core.spec import Effect, ToolSpec
from toolcrib.errors import SpecError
from toolcrib.protocol.mcp.keys import OF_ONE_HOP, OURS

KIND = "mcp"
RELAY = OURS + "relay"
"""The annotation of a tool that stands for something else than a tool of the server: `resources`
or `prompts`."""
_NONE: Mapping[Any, Any] = MappingProxyType({})
_DEEPEST = 64

# Categories control (but line feed and tab), format, private use, surrogate, line and paragraph
# separator, and letters and marks that show nothing: a model reads them, a person does not.
_INVISIBLE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2"
    "\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    "\ud800-\uf8ff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd"
    "\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)


class Beliefs(msgspec.Struct, frozen=True):
    """What is believed of a server's tools: what the operator says of them and, if told so, what
    the server says itself."""

    effects: Mapping[Effect, tuple[str, ...]] = _NONE
    """Patterns of names by effect; a tool that matches any has exactly the effects it matches."""
    idempotent: tuple[str, ...] = ()
    """Patterns of names of tools that may be called twice."""
    hints: bool = False
    """Whether the server's annotations are believed where the operator says nothing."""
    timeout: float | None = None


NO_BELIEFS = Beliefs()


def spec_of(provider: str, prefix: str, raw: Any, beliefs: Beliefs = NO_BELIEFS) -> ToolSpec:
    """The spec of a tool as a server lists it. Raises `SpecError` for one that cannot be used."""
    if not isinstance(raw, dict):
        raise SpecError("a tool's definition is not an object")
    members = cast("dict[str, Any]", raw)
    name: Any = members.get("name")
    if not isinstance(name, str) or not name:
        raise SpecError(f"a tool's name is {ascii(name)[:60]}, and not text")
    _check(name, members)
    annotations: Mapping[str, Any] = members.get("annotations") or _NONE
    effects, idempotent = _believed(name, annotations, beliefs)
    return ToolSpec(
        name=prefix + name,
        title=_title(members, annotations),
        description=visible(members.get("description", "")),
        kind=KIND,
        input_schema=_legible(members["inputSchema"]),
        output_schema=_legible(members.get("outputSchema")),
        config={"tool": name, "definition": members},
        effects=effects,
        idempotent=idempotent,
        timeout=beliefs.timeout,
        category=provider,
    )


def shown(spec: ToolSpec, *, modern: bool = True) -> dict[str, Any]:
    """The definition that a client lists: a server's as it came, with our name for it and no
    invisible characters in its words; or one made from the spec."""
    known: Any = spec.config.get("definition") if spec.kind == KIND else None
    made = dict(cast("dict[str, Any]", known)) if isinstance(known, dict) else _own(spec)
    made["name"] = spec.wire_name
    if spec.description or "description" in made:
        made["description"] = spec.description
    if "title" in made:
        made["title"] = visible(str(made["title"]))
    given: Any = made.get("annotations")
    if isinstance(given, dict) and isinstance(title := cast("Any", given).get("title"), str):
        made["annotations"] = {**cast("dict[str, Any]", given), "title": visible(title)}
    made["inputSchema"] = spec.input_schema
    made.pop("outputSchema", None)
    if spec.output_schema is not None and (modern or spec.output_schema.get("type") == "object"):
        made["outputSchema"] = spec.output_schema
    return made


def readable(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Everything of a definition that a model or a person may come to read, in one form: what a
    pin is made over. All members count, known or not, because all of them are handed on."""
    made: dict[str, Any] = {key: raw[key] for key in sorted(raw)}
    meta: Any = made.pop("_meta", None)
    if isinstance(meta, dict):
        kept = {k: v for k, v in cast("dict[str, Any]", meta).items() if k not in OF_ONE_HOP}
        if kept:
            made["_meta"] = kept
    elif meta is not None:
        made["_meta"] = meta
    return made


def visible(text: str) -> str:
    """The text with every character that a person cannot see written as `\\u200b` is."""
    if text.isascii() and text.isprintable():
        return text
    return _invisible().sub(_escaped, text)


@functools.cache
def _invisible() -> re.Pattern[str]:
    """Compiled when it is needed first: it takes long, and most words are plain."""
    return re.compile(_INVISIBLE)


_WORDS = frozenset({"title", "description", "$comment"})
_OF_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions"})
_VALUES = frozenset({"const", "default", "enum", "examples", "required"})


def _legible(schema: Any, depth: int = 0) -> Any:
    """A schema whose words hold no invisible characters; what decides over values stays as it is.
    The very same one, if there are none."""
    if depth > _DEEPEST:  # no schema that is this deep is taken
        return schema
    if isinstance(schema, list):
        given = cast("list[Any]", schema)
        clean = [_legible(each, depth + 1) for each in given]
        return clean if any(a is not b for a, b in zip(clean, given, strict=True)) else given
    if not isinstance(schema, dict):
        return schema
    members = cast("dict[str, Any]", schema)
    changes: dict[str, Any] = {}
    for key, value in members.items():
        if type(value) is str:
            if key in _WORDS and (clean := visible(value)) != value:
                changes[key] = clean
        elif key in _OF_NAMES and isinstance(value, dict):
            named = cast("dict[str, Any]", value)
            inner = {name: _legible(each, depth + 2) for name, each in named.items()}
            if any(inner[name] is not each for name, each in named.items()):
                changes[key] = inner
        elif key not in _VALUES and (made := _legible(value, depth + 1)) is not value:
            changes[key] = made
    return {**members, **changes} if changes else members


def relay_specs(
    provider: str, capabilities: Mapping[str, Any], taken: Iterable[str] = ()
) -> list[ToolSpec]:
    """The tools that stand for a server's resources and prompts, as far as it has any."""
    used = set(taken)
    return [
        _relay(provider, what, used)
        for what in ("resources", "prompts")
        if isinstance(capabilities.get(what), dict)
    ]


_RELAYS: Mapping[str, Mapping[str, Any]] = {
    "resources": {
        "name": "read_resource",
        "method": "resources/read",
        "description": "Read a resource of the server {provider} by its URI.",
        "required": ["uri"],
        "properties": {"uri": {"type": "string", "description": "The URI of the resource."}},
    },
    "prompts": {
        "name": "get_prompt",
        "method": "prompts/get",
        "description": "Get a prompt of the server {provider} by its name.",
        "required": ["name"],
        "properties": {
            "name": {"type": "string", "description": "The name of the prompt."},
            "arguments": {
                "type": "object",
                "description": "What the prompt is filled with.",
                "additionalProperties": {"type": "string"},
            },
        },
    },
}


def _relay(provider: str, what: str, used: set[str]) -> ToolSpec:
    facts = _RELAYS[what]
    name = f"{provider}-{facts['name']}"
    if name in used:  # the server has a tool of that name, and keeps it
        name = f"{provider}-mcp_{facts['name']}"
    return ToolSpec(
        name=name,
        description=facts["description"].format(provider=provider),
        kind=KIND,
        input_schema={
            "type": "object",
            "properties": facts["properties"],
            "required": facts["required"],
            "additionalProperties": False,
        },
        config={"relay": facts["method"]},
        effects=frozenset({"read"}),
        category=provider,
        annotations={RELAY: what},
    )


_SHAPES: Mapping[str, type] = {
    "title": str,
    "description": str,
    "inputSchema": dict,
    "outputSchema": dict,
    "annotations": dict,
    "icons": list,
    "execution": dict,
    "_meta": dict,
}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def _check(name: str, members: Mapping[str, Any]) -> None:
    """Refuse what would make a strict client throw away the whole list that it stands in."""
    for key, kind in _SHAPES.items():
        if key in members and not isinstance(members[key], kind):
            raise SpecError(f"{ascii(name)[:60]}: its {key} is {ascii(members[key])[:60]}")
    schema: Any = members.get("inputSchema")
    if schema is None or schema.get("type") != "object":
        raise SpecError(f'{ascii(name)[:60]}: its inputSchema has no "type": "object"')
    hints: Mapping[str, Any] = members.get("annotations") or _NONE
    for key in _HINTS:
        if key in hints and not isinstance(hints[key], bool):
            raise SpecError(f"{ascii(name)[:60]}: its hint {key} is not true or false")
    if not isinstance(hints.get("title", ""), str):
        raise SpecError(f"{ascii(name)[:60]}: the title in its annotations is not text")
    if not all(isinstance(icon, dict) for icon in members.get("icons", ())):
        raise SpecError(f"{ascii(name)[:60]}: its icons are not objects")


def _believed(
    name: str, annotations: Mapping[str, Any], beliefs: Beliefs
) -> tuple[frozenset[Effect] | None, bool]:
    said: frozenset[Effect] = frozenset(
        effect for effect, globs in beliefs.effects.items() if _matches(name, globs)
    )
    idempotent = _matches(name, beliefs.idempotent)
    if said or not beliefs.hints:
        return said or None, idempotent
    # What a hint means that is not given is the protocol's: the worse of the two.
    reads_only = annotations.get("readOnlyHint") is True
    effects: set[Effect] = {"read"}
    if not reads_only:
        effects.add("write")
        if annotations.get("destructiveHint") is not False:
            effects.add("destructive")
    if annotations.get("openWorldHint") is not False:
        effects.add("egress")
    repeatable = reads_only or annotations.get("idempotentHint") is True
    return frozenset(effects), idempotent or repeatable


def _matches(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _title(members: Mapping[str, Any], annotations: Mapping[str, Any]) -> str | None:
    given = members.get("title") or annotations.get("title")
    return visible(given) if given else None


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _own(spec: ToolSpec) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if spec.title is not None:
        made["title"] = spec.title
    if spec.effects is not None:
        made["annotations"] = {
            "readOnlyHint": not spec.effects & {"write", "destructive", "execute"},
            "destructiveHint": "destructive" in spec.effects,
            "idempotentHint": spec.idempotent,
            "openWorldHint": "egress" in spec.effects,
        }
    more = {
        "version": spec.version if spec.version != "0" else None,
        "category": spec.category,
        "tags": sorted(spec.tags) or None,
        "annotations": dict(spec.annotations) or None,
    }
    if told := {key: value for key, value in more.items() if value is not None}:
        made["_meta"] = {OURS + "tool": told}
    return made
