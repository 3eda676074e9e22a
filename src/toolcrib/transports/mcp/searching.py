"""Which tools an MCP client is shown where the profile has more than an agent can look through."""

from __future__ import annotations

from toolcrib.core.principal import Principal
from toolcrib.host.host import ToolHost
from toolcrib.host.session import Session


def listed(
    host: ToolHost, who: Principal, profile: str | None, session: Session | None
) -> list[str] | None:
    """The names to list, in order: those of the tools to search with, and of pinned ones. None
    where all tools are listed. The answer stands until the catalog or the rules change."""
    return host.planner.search_tools.listed(who, host.callers.profile(profile), session)
