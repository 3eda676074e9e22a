"""`toolcrib tools show`: everything about one tool."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from toolcrib.cli.describing import effects
from toolcrib.cli.output import put, table, took
from toolcrib.core.policy import NoPolicy
from toolcrib.host.reports.schemas import Schema, as_schema, types

_LIMITS = (
    *("const", "default", "format", "pattern", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
)
_NONE = f"{NoPolicy.__module__}.{NoPolicy.__qualname__}"
_WIDTHS = {"limits": 40, "description": 60}
"""Longer cells of these columns go on in the next line."""


def show_tool(tool: Mapping[str, Any]) -> None:
    """One tool, field by field, the knobs of its policy, and its arguments in a table."""
    wire, source, owner = tool["wire_name"], tool["source"], tool["owner"]
    known = effects(tool["effects"])
    policy = None if tool["policy"] == _NONE else tool["policy"].rpartition(".")[2]
    fields = {
        "kind": tool["kind"],
        "version": tool["version"],
        "wire name": None if wire == tool["name"] else wire,
        "category": tool["category"],
        "tags": ", ".join(tool["tags"]),
        "effects": f"{known}, treated as the worst" if tool["effects"] is None else known,
        "idempotent": "yes" if tool["idempotent"] else None,
        "permissions": ", ".join(tool["permissions"]),
        "approval": "required" if tool["requires_approval"] else None,
        "timeout": took(tool["timeout"]),
        **_run_by(tool["kind"], tool["config"]),
        "sandbox": ", ".join(f"{box['name']} ({box['type']})" for box in tool["sandboxes"]),
        "unavailable": tool["unavailable"],
        "from": None if owner == source else owner,
        "source": source,
        "digest": tool["digest"],
        "policy": policy,
    }
    about = tool["description"].strip()
    put(f"{tool['name']}   {about}" if about else tool["name"])
    put("")
    for name, value in fields.items():
        if value:
            put(f"  {name:<12} {value}")
    # A policy that nobody has set any knob of, and that has no defaults, has nothing to show.
    if policy and (tool["defaults"] or any(v is not None for v in tool["knobs"].values())):
        _show_knobs(tool["knobs"], tool["defaults"])
    put("")
    columns = ("argument", "type", "required", "limits", "description")
    schema = as_schema(tool["input_schema"])
    properties: Mapping[str, Any] = schema.get("properties") or {}
    rows = [_argument(name, part, schema) for name, part in properties.items()]
    if rows:
        table(columns, [line for row in rows for line in _wrapped(columns, row)])
    else:
        put("  no arguments")


def _run_by(kind: str, config: Mapping[str, Any]) -> dict[str, str | None]:
    """What a call of the tool sets going, as far as its config says."""
    module, function = config.get("module"), config.get("function") or config.get("function_name")
    url = config.get("url")
    return {
        "command": _command(config.get("argv") or config.get("command")),
        "request": f"{config.get('method') or 'GET'} {url}" if kind == "http" else None,
        "function": f"{module}:{function}" if module else None,
    }


def _command(argv: Any) -> str | None:
    if argv is None or isinstance(argv, str):
        return argv
    words = cast("Sequence[Any]", argv)
    plain = all(isinstance(word, str) for word in words)
    return " ".join(map(_word, words)) if plain else json.dumps(words, ensure_ascii=False)


def _word(word: str) -> str:
    return word if word and not any(c.isspace() for c in word) else json.dumps(word)


def _show_knobs(knobs: Mapping[str, Any], default: Collection[str]) -> None:
    """One knob a line, what somebody set first."""
    width = max(map(len, knobs), default=0)
    room = max(40, shutil.get_terminal_size((100, 24)).columns - width - 7)
    for name in sorted(knobs, key=lambda name: name in default):
        mark = "   (default)" if name in default else ""
        text = json.dumps(knobs[name], ensure_ascii=False, default=str)
        first, *more = _lines(text, room) or [""]
        put(f"    {name.ljust(width)}   {first}{'' if more else mark}")
        for line in more:
            put(f"    {'':<{width}}   {line}{mark if line is more[-1] else ''}")


def _argument(name: str, part: Any, schema: Schema) -> tuple[str, ...]:
    known = as_schema(part)
    kinds = " or ".join(sorted(types(known, schema))) or "any"
    limits = [f"{k}={json.dumps(known[k])}" for k in _LIMITS if k in known]
    if "enum" in known:
        limits.insert(0, f"one of {', '.join(map(json.dumps, known['enum']))}")
    required = "yes" if name in (schema.get("required") or ()) else "no"
    return name, kinds, required, " ".join(limits), str(known.get("description") or "")


def _wrapped(columns: Sequence[str], row: Sequence[str]) -> Iterator[Sequence[str]]:
    """A row of a table in as many lines as its longest cell needs."""
    cells = [
        _lines(cell, _WIDTHS[column]) if column in _WIDTHS else [cell]
        for column, cell in zip(columns, row, strict=True)
    ]
    for index in range(max(map(len, cells))):
        yield [cell[index] if index < len(cell) else "" for cell in cells]


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
