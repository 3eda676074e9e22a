"""What broken clients and attackers send, and a gateway that notices when it takes effect."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import random
import re
import signal
import textwrap
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

import toolcrib
from doorways import command, environment
from toolcrib.transports.wire import METHODS

SOURCE = str(Path(toolcrib.__file__).parents[1])
TRACES = (b"Traceback", b'File "', SOURCE.encode(), b"site-packages", b"RuntimeError")
"""What no client ever gets to read."""
TOOLS = '''
    """One tool that nobody may ever reach, one that always works."""

    from __future__ import annotations

    from pathlib import Path

    from toolcrib import tool

    RAN = Path(__file__).with_name("ran.txt")


    @tool(effects=["read"])
    def canary(text: str = "") -> str:
        """Write down that it ran."""
        with RAN.open("a") as file:
            file.write(f"{text}\\n")
        return "ran"


    @tool(effects=["read"])
    def good(n: int) -> int:
        """Work."""
        return n + 1
'''
CONFIG = """
    version: 1
    host: {store: memory, profile: all, drain: 2s}
    tools: [{python: tools.py}]
    profiles: {all: {default: allow}}
    serve:
      http:
        listen: "127.0.0.1:0"
        profile: all
        request_timeout: 1s
        keep_alive: 5s
        max_body: 64KiB
        max_headers: 16KiB
      stdio: {profile: all, max_line: 64KiB}
"""
LONG = 20.0
"""Seconds in which even a busy machine answers."""
MOST = 65_536
"""Bytes of a body, a message or a line at these gateways."""


def write_project(folder: Path, config: str = CONFIG, tools: str = TOOLS) -> Path:
    """A project with the two tools; the path of its configuration."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tools.py").write_text(textwrap.dedent(tools))
    (folder / "toolcrib.yaml").write_text(textwrap.dedent(config))
    return folder / "toolcrib.yaml"


@dataclass
class Running:
    """A gateway in a process of its own."""

    process: asyncio.subprocess.Process
    folder: Path
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> bytes:
        """What it wrote to standard error so far."""
        return (self.folder / "log.txt").read_bytes()

    @property
    def ran(self) -> list[str]:
        """What the canary was called with."""
        file = self.folder / "ran.txt"
        return file.read_text().splitlines() if file.exists() else []

    def forget(self) -> None:
        """Begin to watch the canary anew."""
        (self.folder / "ran.txt").unlink(missing_ok=True)

    async def stop(self) -> int:
        """End it in order; its exit code."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(30):
            return await self.process.wait()


@contextlib.asynccontextmanager
async def running(
    folder: Path, *words: str, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Running]:
    """`toolcrib serve` for the project in that folder; `words` are further options."""
    out = asyncio.subprocess.PIPE
    with (folder / "log.txt").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *command("serve", "--json", "--config", str(folder / "toolcrib.yaml"), *words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=out,
            stderr=log,
            env=environment() | dict(variables or {}),
            start_new_session=True,
        )
    assert process.stdout is not None
    found = Running(process, folder)
    try:
        async with asyncio.timeout(30):
            line = await process.stdout.readline()
        assert line, found.log.decode()
        found.port = int(re.findall(r":(\d+)/v1", json.loads(line)["http"][0])[0])
        yield found
    finally:
        await found.stop()
        process._transport.close()  # type: ignore[attr-defined]


def no_traces(*texts: bytes) -> None:
    """Nothing of the program's inside is told."""
    for text in texts:
        for trace in TRACES:
            at = text.find(trace)
            assert at < 0, text[max(0, at - 500) : at + 2000].decode(errors="replace")


# Bytes over a socket.


async def throw(
    port: int, *parts: bytes, patience: float = 0.3, until: bytes | None = None
) -> bytes:
    """Send bytes over a connection of their own, the later parts once the first one was answered;
    what comes back until the other side closes, or says nothing for a while after `until`."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    came = b""
    try:
        for part in parts:
            writer.write(part)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
            if not came and len(parts) > 1:
                async with asyncio.timeout(10):
                    came += await reader.readuntil(b"\r\n\r\n")
        with contextlib.suppress(ConnectionError, TimeoutError):
            while True:
                short = until is None or until in came
                async with asyncio.timeout(patience if short else LONG):
                    data = await reader.read(65_536)
                if not data:
                    break
                came += data
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    return came


async def throw_all(
    port: int, frames: Iterable[tuple[str, bytes]], *, patience: float = 0.3
) -> dict[str, bytes]:
    """Throw each of them; what came back, by its label."""
    free = asyncio.Semaphore(60)
    came: dict[str, bytes] = {}

    async def one(label: str, data: bytes) -> None:
        async with free:
            assert label not in came, label
            came[label] = await throw(port, data, patience=patience)

    await asyncio.gather(*(one(label, data) for label, data in frames))
    return came


def statuses(answer: bytes) -> list[int]:
    """The statuses of the HTTP answers in a stream of bytes."""
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3}) ", answer)]


def request(
    port: int,
    line: str | bytes = "POST /v1/tools/canary/call",
    body: bytes = b"",
    *headers: str | bytes,
    host: str | None = None,
    close: bool = True,
) -> bytes:
    """The bytes of one HTTP request; the last one on its connection where `close` is."""
    first = line if isinstance(line, bytes) else line.encode("latin-1")
    lines: list[bytes] = [first if b"HTTP/" in first else first + b" HTTP/1.1"]
    lines.append(f"Host: {host or f'127.0.0.1:{port}'}".encode("latin-1"))
    lines += [each if isinstance(each, bytes) else each.encode("latin-1") for each in headers]
    if body:
        lines.append(b"Content-Type: application/json")
        lines.append(b"Content-Length: %d" % len(body))
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


# Texts that are no JSON, or not the JSON that is wanted.

_BAD_VALUES: tuple[bytes, ...] = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"01", b"+1", b".5", b"1.", b"0x10", b"-",
    b"'a'", b"undefined", b"True", b"nul", b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\x41"',
    b'"\\u12"', b'"a\nb"', b'"a\x00b"', b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"',
    b'"\xf5\x80\x80\x80"',
    b'"a', b"[1,]", b'{"a":1,}', b"{a:1}", b'{"a" 1}', b'{"a":1 "b":2}', b"[1 2]", b"/* */1",
    b"1 // one", b"9" * 5000, b"[" * 70 + b"]" * 70, b'{"a":' * 70 + b"1" + b"}" * 70,
    b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'[{"b":{"c":1,"c":1}}]',
)  # fmt: skip


def broken_texts(whole: bytes, place: bytes, seed: int) -> Iterator[tuple[str, bytes]]:
    """Texts close to the good text `whole` that a strict reader refuses; values that are none
    stand where `place` does."""
    assert whole.count(place) == 1
    assert judge(whole) is not None
    for size in range(len(whole)):
        yield f"cut at {size}", whole[:size]
    for number, value in enumerate(_BAD_VALUES):
        yield f"value {number}", whole.replace(place, value)
    at = whole.index(place)
    member = whole[whole.rindex(b'"', 0, at - 2) : at] + place
    yield "member twice", whole[:at] + place + b"," + member + whole[at + len(place) :]
    hidden = b'"\\u%04x' % member[1] + member[2:]
    yield "member hidden", whole[:at] + place + b"," + hidden + whole[at + len(place) :]
    yield "twice", whole + whole
    yield "rest", whole + b" x"
    yield "mark", b"\xef\xbb\xbf" + whole
    yield "utf-16", whole.decode().encode("utf-16")
    yield "utf-32", whole.decode().encode("utf-32-le")
    yield "nul", whole + b"\0"
    yield "deep", b"[" * 30_000
    yield "deep and closed", b"[" * 30_000 + b"]" * 30_000
    yield "deep objects", b'{"a":' * 10_000
    yield "too large", whole[:-1] + b" " * MOST + whole[-1:]
    rng = random.Random(seed)
    found = 0
    while found < 60:
        text = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            match rng.randrange(3):
                case 0:
                    text[at] = rng.randrange(256)
                case 1:
                    del text[at]
                case _:
                    text.insert(at, rng.choice(b'{}[],:"\\\xff\x00 0aN'))
        if judge(bytes(text)) is None and b"\n" not in text and b"\r" not in text:
            yield f"random {found}", bytes(text)
            found += 1


def judge(text: bytes) -> Any:
    """The value of a text by the standard library, made strict; None for what is refused."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("twice")
        return found

    def never(_: str) -> Any:
        raise ValueError("no number")

    try:
        return json.loads(text.decode(), object_pairs_hook=once, parse_constant=never)
    except (ValueError, RecursionError):
        return None


OTHER_VALUES: tuple[Any, ...] = (
    None, True, -1, 2**70, 1.5, 1e308, "", "x", "\u0000", "🛠" * 300, [], [None], {}, {"a": []},
)  # fmt: skip
"""One of every kind of value, and some at the edges."""


def members(method: str) -> list[tuple[str, bool]]:
    """The members of a method's request, and whether each is needed."""
    fields = msgspec.structs.fields(METHODS[method].request)
    return [(field.encode_name, field.required) for field in fields]


def odd_params() -> Iterator[tuple[str, str, Any]]:
    """For every method: a label, its name, and params with some member of another kind. None of
    them is a good call of the canary."""
    for method in METHODS:
        for number, value in enumerate(OTHER_VALUES):
            yield f"{method} whole {number}", method, value
            needed = {name: "canary" for name, must in members(method) if must}
            yield f"{method} unknown {number}", method, {**needed, "unheard_of": value}
            for name, _ in members(method):
                if method == "tools.call" and name != "name":
                    continue  # said below: some of these are good
                yield f"{method} {name} {number}", method, {**needed, name: value}
    for number, value in enumerate(OTHER_VALUES):
        for name in ("arguments", "profile", "session"):
            good = value is None or (name == "arguments" and isinstance(value, dict))
            if not good:
                params = {"name": "canary", name: value}
                yield f"canary {name} {number}", "tools.call", params
        yield f"canary text {number}", "tools.call", {"name": "canary", "arguments": {"b": value}}
    for name in ("timeout", "wait", "key"):
        for number, value in enumerate(([], {}, True, "" if name == "key" else "1", -1, [1])):
            yield f"canary {name} {number}", "tools.call", {"name": "canary", name: value}


# WebSocket frames.

_KEY = base64.b64encode(b"0123456789abcdef").decode()
HANDSHAKE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    f"Sec-WebSocket-Key: {_KEY}",
    "Sec-WebSocket-Version: 13",
)


def frame(
    payload: bytes = b"",
    opcode: int = 1,
    *,
    fin: bool = True,
    rsv: int = 0,
    mask: bool = True,
    length: int | None = None,
    wide: int = 0,
) -> bytes:
    """One frame; `length` lies about its length, `wide` writes it in so many bytes."""
    size = len(payload) if length is None else length
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    flag = 0x80 if mask else 0
    if wide == 8 or (not wide and size > 65_535):
        head = bytes([first, flag | 127]) + size.to_bytes(8, "big")
    elif wide == 2 or (not wide and size > 125):
        head = bytes([first, flag | 126]) + size.to_bytes(2, "big")
    else:
        head = bytes([first, flag | size])
    if not mask:
        return head + payload
    key = os.urandom(4)
    return head + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
