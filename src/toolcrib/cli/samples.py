"""Arguments that would fit, to show people what a call looks like."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from toolcrib.cli.arguments import convert
from toolcrib.host.reports.schemas import Schema, as_schema
from toolcrib.host.reports.schemas import sample_arguments as sample_arguments


def typed(arguments: Mapping[str, Any], schema: Schema) -> list[str]:
    """The arguments as words of a command line that this program reads back."""
    words: list[str] = []
    properties: Mapping[str, Any] = schema.get("properties") or {}
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value)
        read = convert(text, as_schema(properties.get(name)), schema)
        # True is not 1, and a list of one is not its item.
        plain = read == value and type(read) is type(value) and not text.startswith("@")
        if plain and isinstance(value, str | int | float):
            words.append(shlex.quote(f"{name}={text}"))
        else:
            words.append(shlex.quote(f"{name}:={json.dumps(value, ensure_ascii=False)}"))
    return words
