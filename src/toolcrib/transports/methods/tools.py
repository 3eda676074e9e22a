"""Which tools there are for a caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.transports import examining
from toolcrib.transports import models as m
from toolcrib.transports.caller import Caller
from toolcrib.transports.toolviews import callable_tool, callable_tools, page, search

if TYPE_CHECKING:
    from toolcrib.transports.service import Service


async def tools_list(service: Service, caller: Caller, asked: m.ToolsList) -> m.ToolsPage:
    """A page of the tools the caller may call."""
    found = callable_tools(service.host, caller, asked.profile, asked.session, asked.as_)
    missing = service.host.calling.unlisted() if caller.may("audit") else []
    return page(found, asked, missing)


async def tools_search(service: Service, caller: Caller, asked: m.ToolsSearch) -> m.ToolsFound:
    """Those that fit some words best."""
    return await search(service.host, caller, asked)


async def tools_get(service: Service, caller: Caller, asked: m.ToolsGet) -> m.ToolView:
    """One tool."""
    return callable_tool(service.host, caller, asked.name, asked.profile, asked.session)


async def tools_show(service: Service, _: Caller, asked: m.ToolsShow) -> m.Document:
    """Everything about one tool."""
    return m.Document(value=examining.show_tool(service.host, asked.name))


async def tools_check(service: Service, _caller: Caller, _: m.ToolsCheck) -> m.Things:
    """What became of each entry of the configuration."""
    return m.Things(items=await examining.check_tools(service.host))
