"""A client of whichever Python SDK this environment has: takes steps, and prints their results.

    python steps.py TARGET '[["call_tool", "echo", {"message": "hi"}], ["list_prompts"]]' ['{}']

TARGET is an address, or a command as a JSON list that speaks on stdin and stdout. Each result is
what the SDK made of the answer, as JSON. The fields of a form are filled in by what the last
argument says of them, else by what the form proposes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import mcp
from mcp import StdioServerParameters


def answer(schema: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Every field of a form: what is known, what it proposes, or the first thing that fits."""
    made = {}
    for key, field in schema.get("properties", {}).items():
        first = {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": []}
        choices = field.get("enum") or [one["const"] for one in field.get("oneOf", ())]
        proposed = field.get("default", choices[0] if choices else first[field["type"]])
        made[key] = known.get(key, proposed)
    return made


async def connected(stack: AsyncExitStack, target: str, known: dict[str, Any]) -> Any:
    command = json.loads(target) if target.startswith("[") else None
    server = StdioServerParameters(command=command[0], args=command[1:]) if command else target

    async def elicit(context: Any, params: Any) -> Any:
        schema = getattr(params, "requested_schema", None) or params.requestedSchema
        return types.ElicitResult(action="accept", content=answer(schema, known))

    async def sample(context: Any, params: Any) -> Any:
        said = types.TextContent(type="text", text="a sampled answer")
        return types.CreateMessageResult(role="assistant", model="none", content=said)

    async def roots(context: Any) -> Any:
        return types.ListRootsResult(roots=[types.Root(uri="file:///srv/shared", name="shared")])

    asked = {
        "elicitation_callback": elicit,
        "sampling_callback": sample,
        "list_roots_callback": roots,
    }
    if hasattr(mcp, "Client"):
        import mcp_types as types

        return await stack.enter_async_context(mcp.Client(server, **asked))
    from mcp import types
    from mcp.client.sse import sse_client
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamable_http_client

    over_http = sse_client if target.endswith("/sse") else streamable_http_client
    opened = stdio_client(server) if command else over_http(target)
    incoming, outgoing, *_ = await stack.enter_async_context(opened)
    client = await stack.enter_async_context(mcp.ClientSession(incoming, outgoing, **asked))
    await client.initialize()
    return client


async def main(target: str, steps: list[list[Any]], known: dict[str, Any]) -> None:
    results: list[Any] = []
    async with AsyncExitStack() as stack:
        client = await connected(stack, target, known)
        for method, *words in steps:
            progress: list[Any] = []

            async def step(done: float, total: float | None, message: str | None) -> None:
                progress.append([done, total])  # noqa: B023, each call has a list of its own

            more = {"progress_callback": step} if method == "call_tool" else {}
            try:
                result = await getattr(client, method)(*words, **more)
            except Exception as error:
                results.append({"failed": f"{type(error).__name__}: {error}"})
                continue
            dumped = result.model_dump(by_alias=True, mode="json", exclude_none=True)
            results.append({**dumped, "progress": progress} if progress else dumped)
    print(json.dumps(results))


if __name__ == "__main__":
    filled = json.loads(sys.argv[3]) if len(sys.argv) > 3 else {}
    asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), filled))
