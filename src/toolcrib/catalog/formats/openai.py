"""Function tools for OpenAI's Chat Completions and Responses APIs."""

from __future__ import annotations

import re
import warnings
from typing import Any

from toolcrib.catalog.formats.objects import object_root
from toolcrib.catalog.formats.references import gather
from toolcrib.catalog.formats.subset import Schema, each, modern, say, types_of
from toolcrib.catalog.formats.words import words_for
from toolcrib.core.spec import ToolSpec

LONGEST = 1024
"""A longer description is refused: "Expected a string with maximum length 1024"."""

_CONTINUED = " … (continued in the description of the parameters)"
_LOOKAROUND = ("(?=", "(?!", "(?<")


def openai(spec: ToolSpec) -> dict[str, Any]:
    """`spec` as a tool of the Chat Completions API."""
    # `strict` is off unless asked for, and compatible servers do not all know it: left out.
    return {"type": "function", "function": _function(spec)}


def openai_responses(spec: ToolSpec) -> dict[str, Any]:
    """`spec` as a tool of the Responses API."""
    # Here `strict` is on unless refused, and strict schemas have no optional arguments.
    return {"type": "function", **_function(spec), "strict": False}


def _function(spec: ToolSpec) -> dict[str, Any]:
    parameters = _accepted(object_root(gather(modern(spec.input_schema))))
    made: dict[str, Any] = {"name": spec.wire_name}
    text = spec.description or spec.title or ""
    if len(text) > LONGEST:
        text, rest = _split(text)
        own = parameters.pop("description", "")
        parameters = {"type": "object", "description": f"{rest} {own}".rstrip(), **parameters}
    if text:
        made["description"] = text
    made["parameters"] = parameters
    return made


def _split(text: str) -> tuple[str, str]:
    room = LONGEST - len(_CONTINUED)
    end = text.rfind(" ", room // 2, room + 1)
    end = room if end < 0 else end
    return text[:end].rstrip() + _CONTINUED, "… " + text[end:].lstrip()


def _accepted(node: Schema) -> Schema:
    made = each(node, _accepted)
    if "array" in types_of(made):
        # "array schema missing items": also where `prefixItems` says it all.
        made.setdefault("items", {})
    if "pattern" in made and not _compiles(made["pattern"]):
        # "… is not a 'regex'" and "regex lookaround is not supported" refuse the whole request.
        say(made, words_for("pattern", made.pop("pattern")))
    odd = [key for key in made.get("patternProperties", {}) if not _compiles(key)]
    if odd:
        patterns = made.pop("patternProperties")
        # Closed without them, the object would refuse what they allow.
        made.pop("additionalProperties", None)
        made.pop("unevaluatedProperties", None)
        say(made, words_for("patternProperties", patterns))
    return made


def _compiles(pattern: str) -> bool:
    if any(part in pattern for part in _LOOKAROUND):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError):
            return False
    return True
