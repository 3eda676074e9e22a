"""Tools in the formats of the model providers: each in the subset that its provider accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from toolcrib.catalog.formats.anthropic import anthropic
from toolcrib.catalog.formats.gemini import gemini
from toolcrib.catalog.formats.mcp import mcp
from toolcrib.catalog.formats.openai import openai, openai_responses
from toolcrib.core.spec import ToolSpec

__all__ = ["FORMATS", "export"]

FORMATS: Mapping[str, Callable[[ToolSpec], dict[str, Any]]] = MappingProxyType(
    {
        "openai": openai,
        "openai-responses": openai_responses,
        "anthropic": anthropic,
        "gemini": gemini,
        "mcp": mcp,
    }
)
"""What turns one spec into one entry of a provider's list of tools. Specs are never changed."""


def export(specs: Iterable[ToolSpec], format: str) -> list[dict[str, Any]]:
    """`specs` as the list of tools that the provider called `format` takes."""
    made = FORMATS.get(format)
    if made is None:
        raise ValueError(f"{format!r} is not a format of tools: use one of {', '.join(FORMATS)}")
    return [made(spec) for spec in specs]
