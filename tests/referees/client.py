"""The MCP provider as the client that a conformance suite judges.

    conformance client --command "python client.py" --scenario NAME

The suite names the scenario in the environment and gives the address as the last argument.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from toolcrib import ToolHost
from toolcrib.core.context import ToolContext
from toolcrib.core.link import LINK
from toolcrib.providers.mcp.provider import factory

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
REVISION = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
MODERN = REVISION >= "2026"
SUM = ("add_numbers", {"a": 5, "b": 3})
CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "initialize": [],
    "json-schema-ref-no-deref": [],
    "tools_call": [SUM],
    "request-metadata": [SUM],
    "http-standard-headers": [SUM],
    "sse-retry": [("test_reconnection", {})],
    "elicitation-sep1034-client-defaults": [("test_client_elicitation_defaults", {})],
    "sep-2322-client-request-state": [
        ("test_mrtr_echo_state", {}),
        ("test_mrtr_unrelated", {}),
        ("test_mrtr_no_state", {}),
        ("test_mrtr_no_result_type", {}),
    ],
    "http-custom-headers": [
        (call["name"], call.get("arguments") or {}) for call in CONTEXT.get("toolCalls", [])
    ],
}
EMPTY = {"integer": 0, "number": 0, "boolean": False, "object": {}, "array": [], "null": None}


class Person:
    """Whoever calls: can do everything, and accepts what a form proposes."""

    era = "modern" if MODERN else "handshake"
    version = REVISION
    capabilities: Mapping[str, Any] = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
    client: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] = {}
    wants_progress = False
    log_level: str | None = None

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        return {key: self._answer(request) for key, request in requests.items()}

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["method"] == "roots/list":
            return {"roots": []}
        if request["method"] == "sampling/createMessage":
            said = {"type": "text", "text": "Fine."}
            return {"role": "assistant", "model": "none", "content": said}
        fields = request["params"].get("requestedSchema", {}).get("properties", {})
        proposed = {key: field["default"] for key, field in fields.items() if "default" in field}
        missing = {
            key: True
            for key, field in fields.items()
            if key not in proposed and field.get("type") == "boolean"
        }
        return {"action": "accept", "content": {**proposed, **missing}}

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        print(method, dict(params), file=sys.stderr)


def settings(url: str) -> dict[str, Any]:
    """The provider, as somebody would configure it for this server."""
    made: dict[str, Any] = {
        "url": url,
        "prefix": "",
        "grants": ["elicitation", "sampling", "roots"],
    }
    if SCENARIO.startswith("auth/"):
        made["auth"] = login()
    return made


def login() -> dict[str, Any]:
    given = {key: CONTEXT[key] for key in ("client_id", "client_secret") if CONTEXT.get(key)}
    made = {"type": "oauth", **given}
    if "client-credentials" in SCENARIO:
        made["flow"] = "client_credentials"
    else:
        made["client_metadata_url"] = "https://conformance-test.local/client-metadata.json"
    if "private_key_pem" in CONTEXT:
        made["private_key"] = CONTEXT["private_key_pem"]
        made["signing"] = CONTEXT.get("signing_algorithm", "ES256")
    return made


def anything(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that a schema has to accept."""
    fields = schema.get("properties", {})
    return {key: EMPTY.get(fields.get(key, {}).get("type"), "x") for key in schema["required"]}


def wanted(host: ToolHost) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the scenario; where it names none, every tool or the first one."""
    if SCENARIO in CALLS:
        return CALLS[SCENARIO]
    specs = [tool.spec for tool in host.tools() if "relay" not in tool.spec.config]
    if SCENARIO == "json-schema-2020-12-preservation":
        focal = next(spec for spec in specs if spec.name == "json_schema_2020_12_tool")
        return [("json_schema_echo", {"schema": dict(focal.config["definition"]["inputSchema"])})]
    if SCENARIO == "http-invalid-tool-headers":
        return [(spec.name, anything({"required": [], **spec.input_schema})) for spec in specs]
    return [(spec.name, {}) for spec in specs[:1]]


async def show(url: str) -> None:
    """Be the person at the browser: agree to everything, and go where it is sent."""
    async with aiohttp.ClientSession() as browser:
        async with browser.get(url, allow_redirects=False) as answer:
            back = answer.headers["Location"]
        async with browser.get(back) as answer:
            await answer.read()


async def called(host: ToolHost, made: list[Any], name: str, arguments: dict[str, Any]) -> Any:
    """Call a tool of the upstream through the host."""
    result = await host.call(name, arguments)
    if result.reason != "invalid_arguments":
        return result
    # A suite sends null where the tool's own schema has no null. The host refuses that before any
    # client sees it; here the client is judged.
    ctx = ToolContext(tool=name, arguments=arguments, spec=host.get(name))
    return await made[-1].execute(ctx)


async def main(url: str) -> None:
    LINK.set(Person())
    made: list[Any] = []

    def build() -> Any:
        shop = host.entries.workshop(None)
        made.append(factory("upstream", settings(url), shop, show=show))
        return made[-1]

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "toolcrib.yaml"
        rules = {"trust": 3, "rules": [{"allow": "*"}]}
        config = {"version": 1, "profiles": {"open": rules}, "host": {"profile": "open"}}
        file.write_text(json.dumps(config))
        async with ToolHost(config=file) as host:
            await host.add_provider("upstream", build)
            for name, arguments in wanted(host):
                print(name, await called(host, made, name, arguments), file=sys.stderr)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
