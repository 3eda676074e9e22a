"""WebSockets of our own server: texts go straight between the network and their connection.

uvicorn's way, over a queue and two messages for each text, stays for everything that is not a
whole text frame, and for applications that do not ask for more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from toolcrib.transports.http.connection import Socket
from toolcrib.transports.websocket import LINE, End

try:
    from websockets.speedups import apply_mask
except ImportError:  # it is built where there is a compiler
    from websockets.utils import apply_mask

_TEXT = 0x81
"""The first byte of a text frame that is a whole message."""
_by_the_book = WebSocketsSansIOProtocol.data_received


class DirectSocket(Socket):
    """A WebSocket that is a `Line`, too."""

    _end: End | None = None
    """Who is told, once somebody asked for it."""
    _early = False
    """Whether something came before; then nobody knows where a frame begins."""
    _limit = 0
    """The longest frame that is not left to the library."""
    _rest = b""
    """Of a frame that is not complete."""
    _between = False
    """Whether the next byte begins a frame, and a message."""
    _over = False
    """Whether one side said goodbye, or the connection broke. With `close_sent` it says the same as
    the state that the library keeps, but that is a property in Python."""
    _take: Callable[[bytes], None]

    # What the application asks for.

    async def run_asgi(self) -> None:
        self.scope[LINE] = self  # pyright: ignore[reportGeneralTypeIssues]
        await super().run_asgi()

    def hold(self) -> bool:
        """Read nothing more until `open`; false when something came already."""
        if self._early or self.conn.extensions or self.transport.is_closing():
            return False
        self.pause()
        return True

    def open(self, end: End, limit: int) -> None:
        """Tell that end of everything from now on."""
        self._end = end
        self._take = end.take
        self._limit = min(limit, self.config.ws_max_size)
        self._between = self._between_messages()
        self.resume()

    def pause(self) -> None:
        """Read nothing for now."""
        if not self.read_paused and not self.transport.is_closing():
            self.read_paused = True
            self.transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()

    def write(self, texts: Sequence[bytes]) -> None:
        """Send texts, each as a frame, in one go."""
        if self.close_sent or self._over:
            return
        if len(texts) == 1:
            text = texts[0]
            length = len(text)
            self.transport.write((_HEADS[length] if length < _SHORT else _head(length)) + text)
        else:
            self.transport.write(b"".join([part for t in texts for part in (_head(len(t)), t)]))

    # What the network tells.

    def data_received(self, data: bytes) -> None:
        size = len(data)
        if self._between and size > 8 and data[0] == _TEXT and size <= self._limit:
            # Most of what comes is exactly this: one short text.
            length = data[1] - 0x80
            if size == length + 6 and length < 126:
                text = apply_mask(data[6:], data[2:6])
            elif length == 126 and size == (data[2] << 8 | data[3]) + 8:
                text = apply_mask(data[8:], data[4:8])
            else:  # longer ones are no better for it
                text = b"\xff"
            if text.isascii() and not self.close_sent:
                self._take(text)
                return
        if self._end is None:
            self._early = self.handshake_initiated
            super().data_received(data)
            return
        self._cut(self._rest + data if self._rest else data)
        self._between = not self._rest and self._between_messages()

    def _between_messages(self) -> bool:
        return self.conn.current_size is None and not self._over and not self.close_sent

    def _cut(self, data: bytes) -> None:
        """Take the complete frames: whole texts together, others by the book."""
        texts: list[bytes] = []
        place, end = 0, self._end
        while end is not None:
            after, text = self._frame(data, place)
            if not after:
                break
            if text is not None:
                texts.append(text)
            else:
                end.take_all(texts)
                texts = []
                # Only ever whole frames: so it is known where the next one begins.
                _by_the_book(self, data[place:after])
            place = after
        self._rest = data[place:]
        if texts and end is not None:
            end.take_all(texts)

    def _frame(self, data: bytes, place: int) -> tuple[int, bytes | None]:
        """Where the frame ends that begins at `place`, 0 when it is not all there, and its text
        if it is a whole one."""
        have = len(data) - place
        if have < 2:
            return 0, None
        masked, length = data[place + 1] & 0x80, data[place + 1] & 0x7F
        head = 2
        if length >= 126:
            head = 4 if length == 126 else 10
            if have < head:
                return 0, None
            length = int.from_bytes(data[place + 2 : place + head], "big")
        if length > self.config.ws_max_size or not masked:
            return len(data), None  # which is refused, and nothing is read any more
        start = place + head + 4
        if have < head + 4 + length:
            return 0, None
        if data[place] != _TEXT or length > self._limit or not self._between_messages():
            return start + length, None
        text = apply_mask(data[start : start + length], data[start - 4 : start])
        return start + length, text if text.isascii() or _is_text(text) else None

    def send_receive_event_to_app(self) -> None:
        """A message that was not a whole text frame."""
        end = self._end
        if end is None or self.close_sent:
            super().send_receive_event_to_app()
            return
        text = b"".join(self.frames)
        if self.curr_msg_data_type == "text" and _is_text(text):
            self.frames = []
            if len(text) > self._limit:
                end.refuse_size()
            else:
                end.take(text)
        elif self.curr_msg_data_type == "bytes":
            self.frames = []
            end.refuse_bytes()
        else:
            super().send_receive_event_to_app()

    def handle_close(self, event: Any) -> None:
        super().handle_close(event)
        self._tell_gone()

    def handle_parser_exception(self) -> None:
        super().handle_parser_exception()
        self._tell_gone()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._tell_gone()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._tell_gone()
        self._end = None

    def shutdown(self) -> None:
        super().shutdown()
        self._end_it()

    def _end_it(self) -> None:
        self._over, self._between = True, False

    def _tell_gone(self) -> None:
        self._end_it()
        if self._end is not None:
            self._end.gone()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._end is not None:
            self._end.out.pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._end is not None:
            self._end.out.resume()


def _head(length: int) -> bytes:
    """The beginning of a text frame from a server."""
    if length < 126:
        return b"\x81%c" % length
    if length < 65_536:
        return b"\x81\x7e" + length.to_bytes(2, "big")
    return b"\x81\x7f" + length.to_bytes(8, "big")


_SHORT = 1024
_HEADS = tuple(_head(length) for length in range(_SHORT))


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
