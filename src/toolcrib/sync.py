"""Toolcrib without asyncio: `from toolcrib.sync import ToolHost`."""

from __future__ import annotations

from toolcrib.host.sync import Approvals, Session, ToolHost

__all__ = ["Approvals", "Session", "ToolHost"]
