"""Sessions as their owners open, find and end them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.transports import models as m
from toolcrib.transports.caller import Caller
from toolcrib.transports.sessions import view

if TYPE_CHECKING:
    from toolcrib.transports.service import Service


async def sessions_open(service: Service, caller: Caller, asked: m.SessionsOpen) -> m.SessionView:
    return view(
        await service.open_session(
            caller, profile=asked.profile, cwd=asked.cwd, metadata=asked.metadata
        )
    )


async def sessions_list(service: Service, caller: Caller, _: m.SessionsList) -> m.SessionsPage:
    return m.SessionsPage(sessions=[view(session) for session in service.sessions.of(caller)])


async def sessions_get(service: Service, caller: Caller, asked: m.SessionsGet) -> m.SessionView:
    return view(service.sessions.find(caller, asked.id))


async def sessions_close(service: Service, caller: Caller, asked: m.SessionsClose) -> m.Closed:
    await service.sessions.find(caller, asked.id).close()
    return m.Closed(closed=True)
