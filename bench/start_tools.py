"""The tool of `peer_fastmcp_doors.py`, for `toolcrib serve --host-tools`."""

from __future__ import annotations

from toolcrib import tool


@tool(effects=["read"])
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
