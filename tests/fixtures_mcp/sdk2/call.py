"""One request as the fixture's tools and prompts see it, in either era of the protocol."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp.server import ServerRequestContext
from mcp.shared.message import ServerMessageMetadata
from mcp_types import server_request_adapter
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Any result object of a client."""

    model_config = ConfigDict(extra="allow")


class InputNeeded(Exception):
    """The request has to be sent again with these requests answered."""

    def __init__(self, requests: Mapping[str, Any], state: str) -> None:
        super().__init__("input needed")
        self.result = {
            "resultType": "input_required",
            "inputRequests": dict(requests),
            "requestState": state,
        }


class Call:
    """Gives a tool its arguments and the ways back to the client."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self.ctx = ctx
        self.params: Mapping[str, Any] = ctx.params or {}
        self.arguments: Mapping[str, Any] = self.params.get("arguments") or {}
        self.modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        state = self.params.get("requestState")
        self._known: dict[str, Any] = json.loads(state) if state else {}
        self._fresh: Mapping[str, Any] = self.params.get("inputResponses") or {}

    def can(self, capability: str) -> bool:
        declared = self.ctx.session.client_capabilities
        return declared is not None and getattr(declared, capability) is not None

    async def ask(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """The client's answers. A modern request ends here and comes back with them, so a tool
        runs from its top again, and what was answered before travels in the request state."""
        if not self.modern:
            return {key: await self._send(request) for key, request in requests.items()}
        for key in requests:
            if key in self._fresh:
                self._known[key] = self._fresh[key]
        if requests.keys() - self._known.keys():
            raise InputNeeded(requests, json.dumps(self._known))
        return {key: self._known[key] for key in requests}

    async def _send(self, request: Mapping[str, Any]) -> dict[str, Any]:
        answer = await self.ctx.session.send_request(
            server_request_adapter.validate_python(request),
            Answer,
            metadata=ServerMessageMetadata(related_request_id=self.ctx.request_id),
        )
        return answer.model_dump(exclude_none=True)

    async def progress(self, done: float, total: float, message: str | None = None) -> None:
        await self.ctx.session.report_progress(done, total, message)

    async def log(self, text: str, level: str = "info") -> None:
        await self.ctx.session.send_log_message(
            level=level, data=text, logger="fixture", related_request_id=self.ctx.request_id
        )
