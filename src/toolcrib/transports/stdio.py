"""The stdio door: one JSON-RPC message on a line, and nothing else on standard output."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from toolcrib.host.session import Session
from toolcrib.protocol import jsonrpc
from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity.standing import at_stdio
from toolcrib.transports.pipes import Writer, claim, open_reader, open_writer
from toolcrib.transports.reading import Intake
from toolcrib.transports.service import Service

if TYPE_CHECKING:
    from toolcrib.transports.mcp.stdio import StdioMcp
    from toolcrib.transports.rpc import Connection

encode = msgspec.json.encode
_log = logging.getLogger("toolcrib")
_LAST_WORDS = 5.0
"""Seconds for the client to take what is left when the door closes."""


class StdioDoor:
    """Serves the one client at the other end of standard input and output.

    `claim` (this one, or that of `pipes`) has to come before anything of the user's is loaded: from
    then on whatever is printed,
    by Python, by C code or by a child process, goes to standard error, and nobody else can read
    what the client sends.
    """

    name = "stdio"

    def __init__(self, *, reading: int | None = None, writing: int | None = None) -> None:
        """`reading` and `writing` are descriptors to use instead; the door closes them."""
        self._reading = reading
        self._writing = writing
        self._over: asyncio.Event | None = None
        self._stopping = False

    def claim(self) -> None:
        """Take standard input and output for the protocol; calling it again does nothing."""
        if self._reading is None or self._writing is None:
            self._reading, self._writing = claim()

    def stop(self) -> None:
        """Read no more, let what runs end, and be done: `serve` returns then."""
        self._stopping = True
        if self._over is not None:
            self._over.set()

    async def serve(self, service: Service, *, ready: Callable[[], None]) -> None:
        """Serve until the client closes its end, goes away, or `stop` is called."""
        self.claim()
        if self._reading is None or self._writing is None:
            raise RuntimeError("the door has no descriptors")
        self._over = over = asyncio.Event()
        if self._stopping:
            over.set()
        caller = stdio_caller(service)
        session = await service.open_session(caller, lasting=False)
        limit = service.settings.stdio.max_line
        writer = await open_writer(self._writing, lost=over.set)
        first = First(service, caller, session, writer, limit)
        intake = first.intake = Intake(first, writer)
        lines = Lines(intake, limit, over.set)
        reader = intake.source = await open_reader(self._reading, lines.feed, ended=lines.end)
        try:
            ready()
            await over.wait()
            reader.close()
            intake.stop()
            if not writer.closed:
                await first.drain(service.host.settings.drain)
        finally:
            reader.close()
            intake.stop()
            await first.close()
            await writer.finish(_LAST_WORDS)
            writer.close()
            if writer.why is not None:
                _log.warning("stdio: the connection was closed: %s", writer.why)


class First:
    """Takes the first message, which tells whether the client speaks MCP or our own methods; who
    understands it takes all the others."""

    more = False

    def __init__(
        self, service: Service, caller: Caller, session: Session, writer: Writer, limit: int
    ) -> None:
        self.intake: Intake
        self._service = service
        self._caller = caller
        self._session = session
        self._writer = writer
        self._limit = limit
        self._chosen: Connection | StdioMcp | None = None

    def receive(self, text: bytes | str) -> None:
        """Take the first message."""
        connection = self._choose(text if isinstance(text, bytes) else text.encode())
        connection.more, self.more = self.more, False
        connection.receive(text)

    def refuse(self, fault: Fault) -> None:
        """Answer something that could not even be read; what comes next may tell more."""
        if self._chosen is not None:
            self._chosen.refuse(fault)
        else:
            frame = jsonrpc.error(None, fault.code, fault.message, encode(fault.result()))
            self._writer.push(frame)

    def _choose(self, text: bytes) -> Connection | StdioMcp:
        caller, service = self._caller, self._service
        if service.settings.mcp.enabled and _may_be_mcp(text):
            from toolcrib.transports.mcp.stdio import StdioMcp, is_mcp

            if is_mcp(text):
                seated = caller.at(self._session, "mcp")
                mcp = StdioMcp(service, seated, self._writer, max_bytes=self._limit)
                self._chosen = self.intake.connection = mcp
                return mcp
        from toolcrib.transports import rpc

        ours = rpc.Connection(
            service, caller.at(self._session), self._writer, max_bytes=self._limit
        )
        self._chosen = self.intake.connection = ours
        return ours

    async def drain(self, seconds: float) -> None:
        """Let what runs end and be answered."""
        if self._chosen is not None:
            await self._chosen.drain(seconds)

    async def close(self) -> None:
        """Stop the calls made here and end the session."""
        if self._chosen is not None:
            await self._chosen.close()
        else:
            await self._session.close()


def _may_be_mcp(text: bytes) -> bool:
    """Without loading anything of MCP: whether it is worth a closer look."""
    return b'"initialize"' in text or b'"ping"' in text or b"/" in text


class Lines:
    """Cuts what comes in into lines, however it was cut on the way."""

    def __init__(self, intake: Intake, max_line: int, ended: Callable[[], None]) -> None:
        self._intake = intake
        self._max = max_line
        self._ended = ended
        """Told when everything that came was looked at."""
        self._parts: list[bytes] = []
        """The line that is not complete yet."""
        self._size = 0
        self._skipping = False
        """Whether the rest of a line that was too long goes by."""

    def feed(self, data: bytes) -> None:
        """Take what came."""
        if (
            data.find(b"\n") == len(data) - 1
            and not (self._parts or self._skipping)
            and len(data) <= self._max
        ):
            # One whole line, as from a client that waits for its answer.
            if not data.isspace():
                self._intake.take(data[:-1])
            return
        *ends, rest = data.split(b"\n")
        lines: list[bytes] = []
        for line in ends:
            if self._parts or self._skipping:
                self._add(line)
                line = b"".join(self._parts)
                self._parts, self._size = [], 0
                if self._skipping:
                    self._skipping = False
                    continue
            self._line(line, lines)
        if rest:
            self._add(rest)
        self._intake.take_all(lines)

    def end(self) -> None:
        """Nothing more comes. A last line needs no end."""
        lines: list[bytes] = []
        if self._parts and not self._skipping:
            self._line(b"".join(self._parts), lines)
            self._parts = []
        self._intake.take_all(lines)
        self._intake.finish(self._ended)

    def _add(self, part: bytes) -> None:
        if self._skipping:
            return
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._max:
            self._parts, self._size = [], 0
            self._skipping = True
            self._too_long()

    def _line(self, line: bytes, lines: list[bytes]) -> None:
        if len(line) > self._max:
            self._too_long()
        elif line and not line.isspace():
            lines.append(line)

    def _too_long(self) -> None:
        text = f"a line has at most {self._max} bytes"
        self._intake.connection.refuse(Fault("request_too_large", text))


def stdio_caller(service: Service) -> Caller:
    """Who the client is."""
    found = at_stdio(service.host, service.settings.stdio)
    return Caller(
        found.principal,
        door="stdio",
        profile=found.profile,
        profiles=found.profiles,
        local=True,
    )
