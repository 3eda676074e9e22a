"""What the fixture offers besides tools: resources, prompts and completions."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

from blocks import PICTURE, form, image, resource, text
from call import Call
from mcp.shared.exceptions import MCPError

RESOURCES: list[dict[str, Any]] = [
    {
        "uri": "test://static-binary",
        "name": "static-binary",
        "description": "A picture.",
        "mimeType": "image/png",
    },
    {
        "uri": "test://static-text",
        "name": "static-text",
        "description": "A sentence.",
        "mimeType": "text/plain",
    },
    {
        "uri": "test://watched-resource",
        "name": "watched-resource",
        "description": "A number that changes.",
        "mimeType": "text/plain",
    },
]
TEMPLATES: list[dict[str, Any]] = [
    {
        "uriTemplate": "test://template/{id}/data",
        "name": "template",
        "description": "Data of one thing.",
        "mimeType": "application/json",
    }
]
WATCHED = {"count": 0}
_TEMPLATE = re.compile(r"test://template/([^/]+)/data")
_TEXTS = {
    "test://static-text": lambda: "This is the content of the static text resource.",
    "test://watched-resource": lambda: f"changed {WATCHED['count']} times",
}


def read(uri: str, modern: bool) -> dict[str, Any]:
    """The contents of a resource."""
    if uri == "test://static-binary":
        return {"contents": [{"uri": uri, "mimeType": "image/png", "blob": PICTURE}]}
    if uri in _TEXTS:
        return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": _TEXTS[uri]()}]}
    found = _TEMPLATE.fullmatch(uri)
    if found is None:
        raise MCPError(-32602 if modern else -32002, "Resource not found", {"uri": uri})
    data = {"id": found[1], "templateTest": True, "data": f"Data for ID: {found[1]}"}
    return {"contents": [{"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}]}


Give = Callable[[Call], Awaitable[list[dict[str, Any]]]]
PROMPTS: dict[str, dict[str, Any]] = {}
_GIVEN: dict[str, Give] = {}


def prompt(name: str, *arguments: str) -> Callable[[Give], Give]:
    def offer(give: Give) -> Give:
        wanted = [
            {"name": key, "description": f"The {key}.", "required": True} for key in arguments
        ]
        PROMPTS[name] = {"name": name, "description": give.__doc__, "arguments": wanted}
        _GIVEN[name] = give
        return give

    return offer


async def get_prompt(call: Call) -> dict[str, Any]:
    """The messages of a prompt."""
    name = call.params["name"]
    if name not in PROMPTS:
        raise MCPError(-32602, f"Unknown prompt: {name}")
    blocks = await _GIVEN[name](call)
    messages = [{"role": "user", "content": block} for block in blocks]
    return {"description": PROMPTS[name]["description"], "messages": messages}


@prompt("test_simple_prompt")
async def simple(call: Call) -> list[dict[str, Any]]:
    """One sentence."""
    return [text("This is a simple prompt for testing.")]


@prompt("test_prompt_with_arguments", "arg1", "arg2")
async def arguments(call: Call) -> list[dict[str, Any]]:
    """Repeats its arguments."""
    one, two = call.arguments["arg1"], call.arguments["arg2"]
    return [text(f"Prompt with arguments: arg1='{one}', arg2='{two}'")]


@prompt("test_prompt_with_embedded_resource", "resourceUri")
async def embedded(call: Call) -> list[dict[str, Any]]:
    """Brings a resource along."""
    words = "Embedded resource content for testing."
    part = resource(call.arguments["resourceUri"], "text/plain", words)
    return [part, text("Please process the embedded resource above.")]


@prompt("test_prompt_with_image")
async def pictured(call: Call) -> list[dict[str, Any]]:
    """Brings a picture along."""
    return [image(), text("Please analyze the image above.")]


@prompt("test_input_required_result_prompt")
async def asking(call: Call) -> list[dict[str, Any]]:
    """Asks what it should be about."""
    question = form("What context should the prompt use?", context={"type": "string"})
    answer = (await call.ask({"user_context": question}))["user_context"]
    return [text(f"About: {(answer.get('content') or {}).get('context')}")]


async def complete(params: dict[str, Any]) -> dict[str, Any]:
    """Words that begin with what was typed."""
    typed = params["argument"]["value"]
    words = [word for word in ("paris", "park", "party") if word.startswith(typed)]
    return {"completion": {"values": words, "total": len(words), "hasMore": False}}


async def changed(call: Call) -> list[dict[str, Any]]:
    """A prompt that comes and goes."""
    return [text("I come and go.")]


def toggle_prompt() -> None:
    """Add the prompt that comes and goes, or remove it."""
    name = "test_dynamic_prompt"
    if PROMPTS.pop(name, None) is None:
        PROMPTS[name] = {"name": name, "description": changed.__doc__, "arguments": []}
        _GIVEN[name] = changed
