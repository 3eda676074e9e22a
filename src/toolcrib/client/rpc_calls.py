"""Calls over a connection: made once, whatever happens to the connection."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING

from toolcrib.client.answers import encoded, ending, strange, told, unfit
from toolcrib.client.errors import CannotConnect, ConnectionLost, Refused, unknown_outcome
from toolcrib.client.link import Placed, call_id_of
from toolcrib.client.watching import Watch
from toolcrib.core.result import ToolResult
from toolcrib.errors import JsonError

if TYPE_CHECKING:
    from toolcrib.client.rpc import RpcLink

_SOON = 0.05
"""Seconds until it is known that a connection is gone."""
_LATE = 2.0
"""Seconds that a cancelled call may take to end."""


class RpcCalls:
    """Makes the calls of one link."""

    def __init__(self, link: RpcLink) -> None:
        self._link = link
        self.watched: dict[str, Watch] = {}
        """Who wants to know of approvals, by call id."""

    async def place(self, call: Placed) -> ToolResult:
        """Make a call and wait for its ending, a person's time included."""
        try:
            params = call.params()
            encoded(params)
        except JsonError as error:
            return unfit(error)
        watch, watched_as = call.watch, ""
        if watch is not None and watch.on_approval is not None and self._link.principal:
            # A call with a key has an id that is known before it begins.
            params["key"] = key = secrets.token_hex(16)
            watched_as = call_id_of(self._link.principal, key)
            self.watched[watched_as] = watch
        number = self._link.next_number()
        asking = asyncio.ensure_future(self._asked(call, params, number))
        try:
            await asyncio.wait({asking}, timeout=call.patience)
            if not asking.done():
                # Have the host stop it, and wait a little for it to say so.
                await self._link.notify("calls.cancel", {"request": number})
                await asyncio.wait({asking}, timeout=_LATE)
            if asking.done():
                return asking.result()
            words = f"no ending within the patience of {call.patience:g} s; the call may go on"
            return unknown_outcome(words, watched_as)
        finally:
            self.watched.pop(watched_as, None)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            if watch is not None:
                await watch.finish()

    async def _asked(self, call: Placed, params: dict[str, object], number: int) -> ToolResult:
        link = self._link
        while True:
            await link.ready()
            try:
                raw = await link.request("tools.call", params, watch=call.watch, number=number)
            except CannotConnect:
                await asyncio.sleep(_SOON)  # it never left
                continue
            except ConnectionLost as lost:
                return unknown_outcome(f"{lost.message}; the call may have run")
            except Refused as problem:
                return told(problem)
            answer = ending(raw, link.where)
            if isinstance(answer, ToolResult):
                return answer
            raise strange(link.where, "the call was answered before it ended")
