"""A server of somebody else's, as far as its tools' definitions go."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib import ToolContext, ToolHost, ToolSpec
from toolcrib.protocol.mcp.definitions import relay_specs, spec_of

ALIVE = {"restart_first": "10ms", "restart_most": "20ms", "stop_timeout": "200ms"}


def definition(name: str, **members: Any) -> dict[str, Any]:
    """A tool with every member that the protocol knows, and one that it does not."""
    made: dict[str, Any] = {
        "name": name,
        "title": f"The {name}",
        "description": f"Does {name} to a text.",
        "inputSchema": {
            "type": "object",
            "title": "Arguments",
            "properties": {
                "text": {"type": "string", "description": "The text.", "default": "a"},
                "how": {"type": "string", "enum": ["fast", "slow"], "examples": ["fast"]},
            },
        },
        "outputSchema": {"type": "object", "description": "What came of it."},
        "annotations": {
            "title": "Hint",
            "readOnlyHint": True,
            "destructiveHint": False,
            "idempotentHint": True,
            "openWorldHint": False,
        },
        "icons": [{"src": "https://upstream.example/icon.png", "sizes": ["48x48"]}],
        "execution": {"taskSupport": "forbidden"},
        "_meta": {"upstream.example/group": "texts"},
        "x-unknown": {"kept": True},
    }
    return {**made, **members}


class Upstreams:
    """The servers behind a host: what each lists, and what was called there."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self.lists: dict[str, list[dict[str, Any]]] = lists
        self.ran: list[str] = []
        self.changed: dict[str, Callable[[], None]] = {}
        self.relays: set[str] = set()
        """Those with resources."""

    def __getitem__(self, name: str) -> list[dict[str, Any]]:
        return self.lists[name]

    def host(
        self, folder: Path | None, config: dict[str, Any] | None = None, **more: Any
    ) -> ToolHost:
        """A host whose providers are these, pinned; with a folder, its configuration is there."""
        providers = {
            name: {
                "type": "upstream",
                "url": f"https://{name}.example/mcp",
                **ALIVE,
                "trust": "pin",
            }
            for name in self.lists
        }
        given: Any = {"version": 1, "providers": providers, **(config or {})}
        for name, settings in more.items():
            given["providers"][name] |= settings
        if folder is not None:
            path = folder / "toolcrib.yaml"
            path.write_text(json.dumps(given))
            given = path
        host = ToolHost(config=given)
        host.registrar.provider("upstream", lambda name, settings, _: _Upstream(name, self))
        return host


class _Upstream:
    kind = "mcp"

    def __init__(self, name: str, stage: Upstreams) -> None:
        self.name = name
        self.stage = stage

    def follow(self, changed: Callable[[], None]) -> None:
        self.stage.changed[self.name] = changed

    async def __aenter__(self) -> _Upstream:
        return self

    async def __aexit__(self, *exc: object) -> None:
        pass

    async def list_tools(self) -> list[ToolSpec]:
        raws = copy.deepcopy(self.stage.lists[self.name])
        relays = {"resources": {}} if self.name in self.stage.relays else {}
        own = [spec_of(self.name, f"{self.name}-", raw) for raw in raws]
        return [*own, *relay_specs(self.name, relays)]

    async def execute(self, ctx: ToolContext) -> dict[str, str]:
        self.stage.ran.append(ctx.tool)
        return {"said": "done"}
