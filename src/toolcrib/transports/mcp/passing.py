"""The line of a request that is passed on and is no call."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from toolcrib.core.link import LINK, InputRefused
from toolcrib.transports.mcp.asked import Asked, Channel
from toolcrib.transports.mcp.home import Home
from toolcrib.transports.mcp.link import Hide, Link


class Passing(Link):
    """What the request said goes on with it, and what the server says meanwhile comes back. Only
    calls can ask their client for something."""

    async def ask(self, requests: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Raises `InputRefused`."""
        raise InputRefused("the protocol has no questions for this method")


@contextmanager
def passing(asked: Asked, channel: Channel, hide: Hide) -> Generator[None]:
    """Have what is asked of servers in this context be asked in the name of the request. `hide`
    gives a value without secrets."""
    line = Passing(asked, channel, Home.here())
    line.hide = hide
    token = LINK.set(line)
    try:
        yield
    finally:
        LINK.reset(token)
