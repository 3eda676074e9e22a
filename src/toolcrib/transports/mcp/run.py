"""One call of an MCP client, from its first request to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from toolcrib.core.approval import ApprovalRequest
from toolcrib.core.result import ToolResult
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.mcp.asked import Asked, Channel
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.link import Link


class Run(Link):
    """One call, and the line to whoever made it."""

    result: ToolResult | None = None
    broken: Fault | None = None
    """Why there is no result and will be none."""
    questions: list[str] | None = None
    """Approvals that it waits for and that nobody has looked at here."""
    forms: dict[str, ApprovalRequest] | None = None
    """Approvals that its client is asked for, by key."""
    turn: object | None = None
    """The request that waits for it now."""
    settle: Callable[[], None] | None = None
    """Told once when something happens, where nobody waits."""
    _waiter: asyncio.Future[None] | None = None

    def __init__(
        self, call_id: str, caller: Caller, tool: str, asked: Asked, channel: Channel, home: Home
    ) -> None:
        # As `Link` does it, without the detour.
        self._asked = asked
        self._channel = channel
        self._home = home
        self.call_id = call_id
        self.caller = caller
        self.tool = tool

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self.result is not None or self.broken is not None

    @property
    def has_news(self) -> bool:
        """Whether something has to be asked, or said to its client."""
        return bool(self.questions or self.forms or self._asks)

    def wake(self) -> None:
        """Something happened."""
        settle = self.settle
        if settle is not None:
            self.settle = None
            settle()
        elif self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def news(self, seconds: float | None = None) -> bool:
        """Wait until something happens; false when the time is over."""
        waiter = self._waiter = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await waiter
        except TimeoutError:
            return False
        finally:
            self._waiter = None
        return True
