"""Suggestions for arguments of prompts and templates, from the server that has them."""

from __future__ import annotations

from typing import Any, cast

from toolcrib.transports.mcp.faults import invalid
from toolcrib.transports.mcp.offers import Offers
from toolcrib.transports.mcp.owners import Owner, Owners

_LONGEST = 65_536
"""Characters of what is to be completed."""


async def complete(owners: Owners, offers: Offers, params: dict[str, Any]) -> dict[str, Any]:
    """The server's answer; no suggestions from one that has none to give. Raises `McpFault`."""
    ref = _object(params, "ref")
    argument = _object(params, "argument")
    name, value = argument.get("name"), argument.get("value")
    if not isinstance(name, str) or not isinstance(value, str) or len(value) > _LONGEST:
        raise invalid("completion/complete: argument needs a name and a value, both text")
    owner, translated = await _owner(owners, offers, ref)
    if not owner.upstream.has("completions"):
        return {"completion": {"values": [], "total": 0, "hasMore": False}}
    asked: dict[str, Any] = {"ref": translated, "argument": argument}
    if "context" in params:
        asked["context"] = _object(params, "context")
    return await owner.upstream.request("completion/complete", asked)


async def _owner(
    owners: Owners, offers: Offers, ref: dict[str, Any]
) -> tuple[Owner, dict[str, Any]]:
    kind = ref.get("type")
    key = ref.get("name" if kind == "ref/prompt" else "uri")
    if kind not in ("ref/prompt", "ref/resource") or not isinstance(key, str):
        text = "completion/complete: ref is {type: ref/prompt, name} or {type: ref/resource, uri}"
        raise invalid(text)
    if kind == "ref/resource":
        found = await owners.template(offers, key)
        translated = ref
        plan = None if found is None else offers.sees(found.upstream, "resources")
        # By a template nothing is read yet; a URI may be one that the caller may not read.
        if plan is None or ("{" not in key and not offers.may(plan, {"uri": key})):
            found = None
    else:
        found = await owners.prompt(offers, key)
        plan = None if found is None else offers.sees(found.upstream, "prompts")
        if found is None or plan is None or not offers.may(plan, {"name": found.key}):
            found = None
        translated = ref if found is None else {**ref, "name": found.key}
    if found is None:
        raise invalid(f"completion/complete: there is nothing called {ascii(key)[:200]} here")
    return found, translated


def _object(params: dict[str, Any], name: str) -> dict[str, Any]:
    found: Any = params.get(name)
    if not isinstance(found, dict):
        raise invalid(f"completion/complete: {name} has to be an object")
    return cast("dict[str, Any]", found)
