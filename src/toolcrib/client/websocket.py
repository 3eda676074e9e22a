"""One WebSocket to a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.client.answers import strange
from toolcrib.client.errors import CannotConnect, ClientError, Refused, refused
from toolcrib.client.network import Network, explained
from toolcrib.core.result import Failure, ToolResult
from toolcrib.errors import ToolcribError

if TYPE_CHECKING:
    import aiohttp

PROTOCOL = "toolcrib.v1"
HEARTBEAT = 20.0
"""Seconds between two looks whether the host is still there."""
_REFUSALS = {401: "unauthenticated", 403: "not_permitted", 421: "host_refused"}


class WebSocketPipe:
    """Text frames, one message each."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._words = "the connection broke"

    async def open(self) -> None:
        """Connect and agree on the protocol."""
        import aiohttp

        network = self._network
        closing: Any = aiohttp.ClientWSTimeout
        problem: ClientError
        try:
            self._socket = await network.session().ws_connect(
                network.address.url,
                protocols=(PROTOCOL,),
                heartbeat=HEARTBEAT,
                max_msg_size=0,
                timeout=closing(ws_close=2.0),
            )
            return
        except ToolcribError:
            raise
        except aiohttp.WSServerHandshakeError as error:
            problem = self._turned_away(error.status)
        except Exception as error:
            problem = explained(error, network.where)
        raise problem

    def _turned_away(self, status: int) -> ClientError:
        where = self._network.where
        reason = _REFUSALS.get(status)
        if reason is not None:
            words = f"the host refused the WebSocket with status {status}"
            return _refusal(reason, words, where)
        if status in (429, 502, 503, 504):
            return CannotConnect(f"the host answered {status}", where=where, cure="Try again later")
        return strange(where, f"there is no WebSocket of a Toolcrib host (status {status})")

    async def send(self, frame: bytes) -> None:
        """Send one message."""
        socket = self._socket
        if socket is None or socket.closed:
            raise CannotConnect(self._words, where=self._network.where)
        await socket.send_str(frame.decode())

    async def receive(self) -> bytes | None:
        """The next message; None when the connection has ended."""
        import aiohttp

        socket = self._socket
        if socket is None:
            return None
        message = await socket.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            text: str = message.data
            return text.encode()
        if message.type is aiohttp.WSMsgType.CLOSE:
            self._words = f"the host closed the connection ({message.data})"
            if message.extra:
                self._words = f"the host closed the connection: {message.extra}"
        return None

    async def close(self) -> None:
        """End it."""
        socket, self._socket = self._socket, None
        if socket is not None:
            await socket.close()

    def ended(self) -> str:
        """Why it ended."""
        return self._words


def _refusal(reason: str, message: str, where: str) -> Refused:
    failure = Failure(reason=reason, message=message)
    return refused(ToolResult(status="denied", error=failure), where)
