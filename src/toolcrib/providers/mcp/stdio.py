"""Servers that are started here and talked to over their standard streams."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.core.protocols import Sandbox
from toolcrib.core.sandbox import Child
from toolcrib.errors import ToolFailure
from toolcrib.protocol.jsonrpc import Wrong
from toolcrib.protocol.mcp.definitions import visible
from toolcrib.providers.mcp.exchange import IN_THREAD, messages_of
from toolcrib.providers.mcp.shared import Received

_log = logging.getLogger("toolcrib")
KEPT = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
"""What a server has of this process's environment; everything else has to be given to it."""
_SIGNS = tuple(
    re.compile(words, re.IGNORECASE)
    for words in ("error|fatal", "^(?!.*warn).*(unknown|invalid|missing|required|can.?.t|failed)")
)
"""What a complaint has in it; the surer sign first."""
_SIGNALS = {each.value: each.name for each in signal.Signals}
_PART_OF = {"node": "Node.js", "npx": "Node.js", "uvx": "uv"}
"""Where programs come from that start many a server."""
_REST = 0.2
"""Seconds to read what an ended server had written."""
_GRACE = 2.0
"""Seconds for a server to go once its input has ended."""
_BANNER = 64 * 1024
"""Bytes of other text before the first message: some programs greet people there."""
_LOGGED_LINE = 1000
_SECRET = 6
"""How long a variable's value is that could be a secret; it is hidden in what a server logs."""
_LAST = 20
"""How many of its last lines may say why a server ended."""
_LOGGED = 1 << 20
"""Bytes of standard error that are logged in one life of a server; the rest is left out."""


class StdioPipe:
    """Starts the server, one message a line, and ends it with everything that it started."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        *,
        sandbox: Sandbox,
        cwd: str,
        env: Mapping[str, str],
        max_message: int,
    ) -> None:
        self._name = name
        self._argv = argv
        self._sandbox = sandbox
        self._cwd = cwd
        self._env = {name: os.environ[name] for name in KEPT if name in os.environ} | dict(env)
        self._limit = max_message
        self._secrets = [value for value in env.values() if len(value) >= _SECRET]
        self._lines: deque[str] = deque(maxlen=_LAST)
        self._child: Child | None = None
        self._reaping: asyncio.Task[int] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._begun = False
        """Whether it has sent a message: before that, it has nothing to bring to an end."""

    async def open(self, received: Received, ended: Callable[[str], None]) -> None:
        """Start it. Raises `ToolFailure`."""
        try:
            self._child = child = await self._sandbox.spawn(
                self._argv, cwd=self._cwd, env=self._env
            )
        except (OSError, ValueError) as error:
            raise ToolFailure(self._unstarted(error), reason="tool_unavailable") from error
        # Once it has ended, what it started is ended too, and so its output ends.
        self._reaping = asyncio.create_task(child.wait(), name=f"{self._name} exit")
        self._tasks = [
            asyncio.create_task(self._read(child, received, ended), name=f"{self._name} stdout"),
            asyncio.create_task(self._log(child.stderr), name=f"{self._name} stderr"),
        ]

    async def send(self, frame: bytes) -> None:
        """Write one line."""
        child = self._child
        if child is not None and not child.stdin.is_closing():
            child.stdin.write(frame + b"\n")
            with contextlib.suppress(ConnectionError):  # the reader notices that it is gone
                await child.stdin.drain()

    @property
    def complaint(self) -> str | None:
        """The line of its last words that most likely says why it ended: what follows an error is
        often a trace, or where a longer report lies."""
        lines = [line for line in self._lines if not line.startswith(" ")]
        for sign in _SIGNS:
            found = next((line for line in lines if sign.search(line)), None)
            if found is not None:
                return found
        return self._lines[-1] if self._lines else None

    async def aclose(self) -> None:
        """Close its input, give it a moment, and end it with everything that it started."""
        child, self._child = self._child, None
        if child is None:
            return
        try:
            if child.stdin.can_write_eof() and not child.stdin.is_closing():
                child.stdin.write_eof()
            if self._reaping is not None and self._begun:
                await asyncio.wait({self._reaping}, timeout=_GRACE)
        finally:
            await child.kill()
            if self._tasks:  # it is dead: what is left to read of it is there already
                await asyncio.wait(self._tasks, timeout=_REST)
            tasks: list[asyncio.Task[Any]] = [*self._tasks]
            if self._reaping is not None:
                tasks.append(self._reaping)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, child: Child, received: Received, ended: Callable[[str], None]) -> None:
        why = "the server closed its output"
        try:
            wrong = await self._messages(child.stdout, received)
            why = wrong or await self._exit() or why
        except (OSError, ValueError) as error:
            why = f"the server cannot be read: {type(error).__name__}"
        finally:
            ended(why)
        await child.kill()

    def _unstarted(self, error: OSError | ValueError) -> str:
        name = self._argv[0]
        if not isinstance(error, FileNotFoundError) or "/" in name:
            why = getattr(error, "strerror", None) or str(error)
            return f"{name} cannot be started: {why}"
        part = _PART_OF.get(name)
        install = f"Install {part}, which brings it" if part else "Install it"
        return f"there is no program {name} on the PATH of this host. {install}, or name its path"

    async def _exit(self) -> str | None:
        """How it ended, if it did just now."""
        reaping = self._reaping
        if reaping is None:
            return None
        await asyncio.wait({reaping}, timeout=0.5)
        if not reaping.done() or reaping.cancelled() or reaping.exception() is not None:
            return None
        code = reaping.result()
        if code < 0:
            return f"the server was ended by the signal {_SIGNALS.get(-code, -code)}"
        return f"the server ended with exit code {code}"

    async def _messages(self, stream: asyncio.StreamReader, received: Received) -> str | None:
        """Hand on messages until there are no more; what was wrong, if that ended it."""
        buffer, seen, greeted = bytearray(), 0, 0
        while piece := await stream.read(1 << 16):
            buffer += piece
            start = 0
            while (end := buffer.find(b"\n", max(start, seen))) >= 0:
                line = bytes(buffer[start:end]).strip()
                start = seen = end + 1
                if not line:
                    continue
                if not self._begun and not line.startswith((b"{", b"[")):
                    greeted += len(line)
                    if greeted > _BANNER:
                        return "the server writes text that is no message to its output"
                    self._say(line)
                    continue
                wrong = await self._hand_on(line, received)
                if wrong:
                    return wrong
                self._begun = True
            if start:
                del buffer[:start]
            seen = len(buffer)
            if len(buffer) > self._limit:
                return f"the server sent a message of more than {self._limit} bytes"
        return None

    async def _hand_on(self, line: bytes, received: Received) -> str | None:
        if len(line) > self._limit:
            return f"the server sent a message of more than {self._limit} bytes"
        if len(line) > IN_THREAD:
            messages = await asyncio.to_thread(messages_of, line, self._limit)
        else:
            messages = messages_of(line, self._limit)
        for message in messages:
            if isinstance(message, Wrong):
                return f"the server sent what is no message: {message.message}"
            received(message)
        return None

    async def _log(self, stream: asyncio.StreamReader) -> None:
        """Standard error, line by line, to the log."""
        left, held = _LOGGED, b""
        while piece := await stream.read(1 << 14):
            if left <= 0:
                continue  # still read, or the server would wait for somebody to do so
            left -= len(piece)
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                if line.strip():
                    self._say(line)
            held = held[:_LOGGED_LINE]
            if left <= 0:
                _log.info("%s: it writes much to standard error; the rest is left out", self._name)
        if held.strip() and left > 0:
            self._say(held)

    def _say(self, line: bytes) -> None:
        text = line[:_LOGGED_LINE].decode("utf-8", "replace").rstrip()
        for secret in self._secrets:
            text = text.replace(secret, "***")
        text = visible(text).replace("\t", " ")
        self._lines.append(text)
        _log.info("%s: %s", self._name, text)
