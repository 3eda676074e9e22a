"""`toolcrib tools show`: everything about one tool."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from toolcrib.cli.arguments import as_schema, types
from toolcrib.cli.describing import effects
from toolcrib.cli.output import put, table, took
from toolcrib.core.entry import Entry
from toolcrib.core.policy import NoPolicy, ToolPolicy
from toolcrib.core.spec import ToolSpec
from toolcrib.pipeline.plan import held_spec

_LIMITS = (
    *("const", "default", "format", "pattern", "minimum", "maximum"),
    *("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems"),
)
_WIDTHS = {"limits": 40, "description": 60}
"""Longer cells of these columns go on in the next line."""

Hide = Callable[[Any], Any]


def described(entry: Entry, hide: Hide) -> dict[str, Any]:
    """Everything about one tool, secrets hidden."""
    spec = entry.spec
    return {
        **hide(held_spec(spec, entry.policy).to_dict()),
        "wire_name": spec.wire_name,
        "digest": spec.digest,
        "source": spec.source,
        "owner": entry.owner,
        "sandboxes": [{"name": box.name, "type": box.type} for box in entry.sandboxes],
        "knobs": hide(_knobs(entry)),
        "unavailable": entry.unavailable and entry.unavailable.message,
    }


def _knobs(entry: Entry) -> dict[str, Any]:
    if entry.policy is not None:
        return entry.policy.to_dict()
    return {} if entry.spec.policy is NoPolicy else dict.fromkeys(entry.spec.policy.fields())


def show_spec(entry: Entry, hide: Hide) -> None:
    """One tool, field by field, the knobs of its policy, and its arguments in a table."""
    spec = held_spec(entry.spec, entry.policy)
    fields = {
        "kind": spec.kind,
        "version": spec.version,
        "wire name": None if spec.wire_name == spec.name else spec.wire_name,
        "category": spec.category,
        "tags": ", ".join(sorted(spec.tags)),
        "effects": f"{effects(spec)}, treated as the worst"
        if spec.effects is None
        else effects(spec),
        "idempotent": "yes" if spec.idempotent else None,
        "permissions": ", ".join(sorted(spec.permissions)),
        "approval": "required" if spec.requires_approval else None,
        "timeout": took(spec.timeout),
        **_run_by(spec, hide),
        "sandbox": ", ".join(f"{box.name} ({box.type})" for box in entry.sandboxes),
        "unavailable": entry.unavailable and entry.unavailable.message,
        "from": None if entry.owner == spec.source else entry.owner,
        "source": spec.source,
        "digest": entry.spec.digest,
        "policy": None if spec.policy is NoPolicy else spec.policy.__name__,
    }
    put(f"{spec.name}   {spec.description.strip()}" if spec.description else spec.name)
    put("")
    for name, value in fields.items():
        if value:
            put(f"  {name:<12} {value}")
    if entry.policy is not None and spec.policy is not NoPolicy:
        _show_knobs(entry.policy, hide)
    put("")
    columns = ("argument", "type", "required", "limits", "description")
    rows = [_argument(name, part, spec) for name, part in _properties(spec).items()]
    if rows:
        table(columns, [line for row in rows for line in _wrapped(columns, row)])
    else:
        put("  no arguments")


def _run_by(spec: ToolSpec, hide: Hide) -> dict[str, str | None]:
    """What a call of the tool sets going, as far as its config says."""
    config: Mapping[str, Any] = hide(spec.to_dict()["config"])
    module, function = config.get("module"), config.get("function") or config.get("function_name")
    url = config.get("url")
    return {
        "command": _command(config.get("argv") or config.get("command")),
        "request": f"{config.get('method') or 'GET'} {url}" if spec.kind == "http" else None,
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


def _show_knobs(policy: ToolPolicy, hide: Hide) -> None:
    """One knob a line, what somebody set first."""
    kind = type(policy)
    knobs = policy.to_dict()
    missing = object()
    default = {name for name, value in knobs.items() if getattr(kind, name, missing) == value}
    shown: Mapping[str, Any] = hide(knobs)
    width = max(map(len, knobs), default=0)
    room = max(40, shutil.get_terminal_size((100, 24)).columns - width - 7)
    for name in sorted(shown, key=lambda name: name in default):
        mark = "   (default)" if name in default else ""
        text = json.dumps(shown[name], ensure_ascii=False, default=str)
        first, *more = _lines(text, room) or [""]
        put(f"    {name.ljust(width)}   {first}{'' if more else mark}")
        for line in more:
            put(f"    {'':<{width}}   {line}{mark if line is more[-1] else ''}")


def _properties(spec: ToolSpec) -> Mapping[str, Any]:
    return spec.input_schema.get("properties") or {}


def _argument(name: str, part: Any, spec: ToolSpec) -> tuple[str, ...]:
    known = as_schema(part)
    kinds = " or ".join(sorted(types(known, spec.input_schema))) or "any"
    limits = [f"{k}={json.dumps(known[k])}" for k in _LIMITS if k in known]
    if "enum" in known:
        limits.insert(0, f"one of {', '.join(map(json.dumps, known['enum']))}")
    required = "yes" if name in (spec.input_schema.get("required") or ()) else "no"
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
