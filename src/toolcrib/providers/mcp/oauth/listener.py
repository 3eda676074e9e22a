"""Waits on this machine for the browser to come back with an answer."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
from typing import Any
from urllib.parse import parse_qsl

from toolcrib.errors import ConfigError
from toolcrib.providers.mcp.oauth.faults import OAuthFailed

PATH = "/callback"
HOST = "127.0.0.1"
_LONGEST = 16 * 1024
_SLOWEST = 10.0
_REQUEST = re.compile(r"GET (?P<path>/[^ ?]*)(?:\?(?P<query>[^ ]*))? HTTP/1\.[01]").fullmatch
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Toolcrib</title>
<body style="font-family: sans-serif; margin: 4em auto; max-width: 32em"><h1>{title}</h1>
<p>{text}</p></body></html>
"""


class Listener:
    """Takes one answer: the one that carries the state it was made for. Others are turned away,
    and it waits on."""

    def __init__(self, state: str, port: int | None = None, *, rather: int | None = None) -> None:
        self._state = state
        self._port = port or 0
        self._rather = rather if port is None else None
        """A port to take if it is free."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._answer: asyncio.Future[dict[str, str]]

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to be sent."""
        return f"http://{HOST}:{self._port}{PATH}"

    async def __aenter__(self) -> Listener:
        self._answer = asyncio.get_running_loop().create_future()
        if self._rather is not None:
            with contextlib.suppress(OSError):
                self._server = await self._listen(self._rather)
        try:
            self._server = self._server or await self._listen(self._port)
        except OSError as error:
            raise ConfigError(
                f"port {self._port} cannot be listened on: {error.strerror}",
                key="auth.redirect_port",
                cure="Name another one with --port",
            ) from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._connected, HOST, port, limit=_LONGEST)

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self._answer.done():
            self._answer.cancel()

    async def answer(self, timeout: float) -> dict[str, str]:
        """The parameters of the answer."""
        done, _ = await asyncio.wait([self._answer], timeout=timeout)
        if not done:
            raise OAuthFailed(f"nobody logged in within {timeout:.0f} s")
        return self._answer.result()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            async with asyncio.timeout(_SLOWEST):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(self._reply(head))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        finally:
            writer.close()

    def _reply(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        hosts = [line[5:].strip() for line in lines if line.lower().startswith("host:")]
        request = _REQUEST(lines[0])
        if request is None or request["path"] != PATH:
            return _page(404, "Not here", "This address is for one login only.")
        if hosts != [f"{HOST}:{self._port}"]:
            # A page elsewhere that made its own name lead here.
            return _page(400, "Not here", "This address is for one login only.")
        pairs = parse_qsl(request["query"] or "", keep_blank_values=True, max_num_fields=50)
        answer = dict(pairs)
        same = hmac.compare_digest(answer.get("state", "").encode(), self._state.encode())
        if not same or len(answer) != len(pairs) or self._answer.done():
            return _page(400, "Not this login", "This answer does not belong to the login.")
        self._answer.set_result(answer)
        return _page(200, "Thank you", "You can close this window and go back to the terminal.")


def _page(status: int, title: str, text: str) -> bytes:
    """A page that repeats nothing of what was asked."""
    body = _PAGE.format(title=title, text=text).encode()
    head = (
        f"HTTP/1.1 {status} {title}\r\nContent-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nCache-Control: no-store\r\n"
        "Referrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n"
    )
    return head.encode() + body
