"""MCP on standard input and output."""

from __future__ import annotations

import asyncio
from typing import cast

from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Message, Notification, Request
from toolcrib.transports.caller import Caller
from toolcrib.transports.mcp.asked import Endpoint
from toolcrib.transports.mcp.dispatcher import Dispatcher
from toolcrib.transports.mcp.pipe import Pipe
from toolcrib.transports.outgoing import Outlet
from toolcrib.transports.service import Service


class StdioMcp(Pipe):
    """The one client of a process that was started for it; what it needs ends with it."""

    def __init__(self, service: Service, caller: Caller, out: Outlet, *, max_bytes: int) -> None:
        self._own = Dispatcher(service)
        super().__init__(self._own, caller, Endpoint(), out, max_bytes=max_bytes)
        # Once the first message is answered; while the client reads that, the rest is loaded.
        asyncio.get_running_loop().call_later(0, self._own.load)

    async def close(self) -> None:
        """Stop what the client asked for."""
        if not self.closed:
            await self._own.stop()
        await super().close()


def is_mcp(text: bytes) -> bool:
    """Whether the first message on a pipe is of MCP: its methods have other names than ours."""
    read = jsonrpc.read(text)
    first = read[0] if type(read) is list else cast("Message", read)
    if type(first) is not Request and type(first) is not Notification:
        return False
    return first.method in ("initialize", "ping") or "/" in first.method
