"""The stdio door: one JSON-RPC message on a line, and nothing else on standard output."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from toolcrib.transports.caller import Caller
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity.standing import at_stdio
from toolcrib.transports.pipes import claim, open_reader, open_writer
from toolcrib.transports.reading import Intake
from toolcrib.transports.rpc import Connection
from toolcrib.transports.service import Service

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
        connection = Connection(service, caller.at(session), writer, max_bytes=limit)
        intake = Intake(connection, writer)
        lines = Lines(connection, intake, limit, over.set)
        reader = intake.source = await open_reader(self._reading, lines.feed, ended=lines.end)
        try:
            ready()
            await over.wait()
            reader.close()
            intake.stop()
            if not writer.closed:
                await connection.drain(service.host.settings.drain)
        finally:
            reader.close()
            intake.stop()
            await connection.close()
            await writer.finish(_LAST_WORDS)
            writer.close()
            if writer.why is not None:
                _log.warning("stdio: the connection was closed: %s", writer.why)


class Lines:
    """Cuts what comes in into lines, however it was cut on the way."""

    def __init__(
        self, connection: Connection, intake: Intake, max_line: int, ended: Callable[[], None]
    ) -> None:
        self._connection = connection
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
        self._connection.refuse(Fault("request_too_large", text))


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
