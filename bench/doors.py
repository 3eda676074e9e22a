"""The doors against their floors and against the peer's, each server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import uvloop
from load import Lines, Load, cpu_of, frame, memory_of, post, whole_frame, whole_http

HERE = Path(__file__).parent
TOKEN = "bench-token-0123456789abcdef"
ARGUMENTS = {"a": 1, "b": 2}
IDLE = 30.0
"""Seconds that idle viewers are watched: two signs of life of every one of them are in it."""
Rows = list[tuple[str, str, str, bool]]


class Server(NamedTuple):
    """A server that runs."""

    url: str
    pid: int


@contextmanager
def started(*command: str, says: str = r"(http://\S+)", stderr: bool = False) -> Iterator[Server]:
    """A server, until it is not needed any more; `says` finds its URL in what it prints."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL if stderr else subprocess.PIPE,
        stderr=subprocess.PIPE if stderr else None,
        env={**os.environ, "BENCH_TOKEN": TOKEN},
        cwd=HERE,
    )
    stream = process.stderr if stderr else process.stdout
    assert stream is not None
    said = b""
    while not (found := re.search(says.encode(), said)):
        line = stream.readline()
        if not line:
            raise SystemExit(f"{command} ended: {said.decode()}")
        said += line
    try:
        yield Server(found[1].decode(), process.pid)
    finally:
        process.terminate()
        if process.wait(30) not in (0, -15):
            raise SystemExit(f"{command} ended with {process.returncode}")


@contextmanager
def gateway() -> Iterator[Server]:
    """Toolcrib as an operator runs it."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "gateway", folder, dirs_exist_ok=True)
        words = ("-m", "toolcrib", "serve", "--quiet", "--config", f"{folder}/toolcrib.yaml")
        with started(sys.executable, *words, says=r"HTTP\s+(http://\S+?)/v1", stderr=True) as made:
            yield made


def middle(values: list[float]) -> float:
    return statistics.median(values)


def calm(values: list[float]) -> float:
    """The lower quartile. On a shared machine others only ever add to a time; what a quarter of
    the rounds stay below is closer to the true cost than the median is."""
    return statistics.quantiles(values, n=4)[0] if len(values) > 1 else values[0]


async def lines(server: Server, message: bytes, count: int, greeting: bytes = b"") -> Lines:
    """Connections to a server, warmed up."""
    made = Lines(server.url, message, whole_frame if greeting else whole_http, server.pid)
    await made.open(count, greeting)
    await made.run(0.5)
    return made


async def in_turn(rounds: int, seconds: float, **sides: Lines) -> dict[str, list[Load]]:
    """Load on each side in turn: the machine's speed changes from round to round."""
    found: dict[str, list[Load]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            found[name].append(await side.run(seconds))
    return found


def ratio(ours: list[Load], others: list[Load], field: str) -> float:
    """The median of the rounds' ratios."""
    pairs = zip(ours, others, strict=True)
    return middle([getattr(a, field) / getattr(b, field) for a, b in pairs])


async def http(rounds: int, peer: str | None) -> Rows:
    """`POST /v1/tools/add/call` with a token."""
    body = json.dumps({"arguments": ARGUMENTS}).encode()
    rows: Rows = []
    with gateway() as ours, started(sys.executable, "floor_http.py") as floor:
        call = post(ours.url, "/v1/tools/add/call", body, Authorization=f"Bearer {TOKEN}")
        for count, wanted in ((8, "rate"), (32, "p99")):
            mine = await lines(ours, call, count)
            bare = await lines(floor, post(floor.url, "/", body), count)
            sides = {"mine": mine, "bare": bare}
            if peer and count == 8:
                with started(peer, "peer_fastmcp_doors.py") as theirs:
                    asked = {"name": "add", "arguments": ARGUMENTS}
                    text = json.dumps(
                        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
                    ).encode()
                    accept = "application/json, text/event-stream"
                    sides["peer"] = await lines(
                        theirs, post(theirs.url, "/mcp", text, Accept=accept), count
                    )
                    got = await in_turn(rounds, 1.0, **sides)
                times = ratio(got["mine"], got["peer"], "rate")
                rows.append(
                    ("HTTP call over FastMCP's, stateless JSON", f"{times:.0f}x",
                     "at least 10x", times >= 10)
                )  # fmt: skip
            else:
                got = await in_turn(rounds, 1.0, **sides)
            share = ratio(got["mine"], got["bare"], wanted)
            if wanted == "rate":
                cost = middle([load.cpu for load in got["mine"]])
                rows.insert(
                    0,
                    ("HTTP call, of a raw ASGI app's requests/s", f"{share:.2f}x ({cost:.0f} us)",
                     "at least 0.5x (aim 0.65x)", share >= 0.5),
                )  # fmt: skip
            else:
                rows.append(
                    ("HTTP call at 32 clients, p99 over the raw app's", f"{share:.2f}x",
                     "at most 2x", share <= 2)
                )  # fmt: skip
            for side in sides.values():
                side.close()
    return rows


async def websocket(rounds: int) -> Rows:
    """`tools.call` over a WebSocket."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools.call",
               "params": {"name": "add", "arguments": ARGUMENTS}}  # fmt: skip
    text = json.dumps(message).encode()
    with gateway() as ours, started(sys.executable, "floor_http.py") as floor:
        mine = await lines(ours, frame(text), 8, _upgrade(ours.url, "/v1/ws"))
        echo = await lines(floor, frame(text), 8, _upgrade(floor.url, "/"))
        got = await in_turn(rounds, 1.0, mine=mine, echo=echo)
        mine.close()
        echo.close()
    share = ratio(got["mine"], got["echo"], "rate")
    cost = middle([load.cpu for load in got["mine"]])
    what = "WebSocket call, of a bare echo's messages/s"
    return [(what, f"{share:.2f}x ({cost:.0f} us)", "at least 0.6x", share >= 0.6)]


def _upgrade(url: str, path: str) -> bytes:
    place = url.removeprefix("http://")
    return (
        f"GET {path} HTTP/1.1\r\nHost: {place}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        f"Authorization: Bearer {TOKEN}\r\n\r\n"
    ).encode()


def stdio(rounds: int, peer: str | None) -> Rows:
    """`tools.call` over standard streams, one in flight."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "gateway", folder, dirs_exist_ok=True)
        words = [str(Path(sys.executable).with_name("toolcrib")), "serve", "--stdio", "--quiet"]
        words += ["--config", f"{folder}/toolcrib.yaml"]
        ours, floor = _Pipe(words), _Pipe([sys.executable, str(HERE / "floor_stdio.py")])
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools.call",
                "params": {"name": "add", "arguments": ARGUMENTS}}  # fmt: skip
        line = json.dumps(call).encode() + b"\n"
        with _apart(ours, floor):
            costs = [(ours.cost(line, 3000), floor.cost(line, 3000)) for _ in range(rounds + 1)][1:]
        ours.close()
        floor.close()
        over = middle([mine / bare for mine, bare in costs])
        cost = middle([mine for mine, _ in costs])
        rows: Rows = [
            ("stdio call over a loop by hand, CPU", f"{over:.2f}x ({cost:.0f} us)",
             "at most 3x", over <= 3)
        ]  # fmt: skip
        if peer:
            alone = [*words[:4], "--host-tools", str(HERE / "start_tools.py")]
            theirs = [peer, str(HERE / "peer_fastmcp_doors.py"), "stdio"]
            rows += _starts(theirs, alone, words, rounds + 3)
    return rows


def _starts(theirs: list[str], alone: list[str], configured: list[str], rounds: int) -> Rows:
    """Starts, until the greeting and until a first call are answered. Ours takes so little that
    one start says more of the machine's moment than of ours, so there are three for each of
    theirs."""
    got: dict[str, list[_Start]] = {"theirs": [], "alone": [], "configured": []}
    for number in range(rounds + 1):
        for name, command, times in (
            ("theirs", theirs, 1), ("alone", alone, 3), ("configured", configured, 3)
        ):  # fmt: skip
            made = [_start(command) for _ in range(times)]
            got[name] += made if number else []  # the first ones compile what is imported

    def later(name: str, moment: str) -> tuple[float, float]:
        ours = calm([getattr(one, moment) for one in got[name]])
        return calm([getattr(one, moment) for one in got["theirs"]]) / ours, ours * 1e3

    rows: Rows = []
    for what, name, moment in (
        ("stdio: FastMCP's first answer after spawn, over ours", "alone", "greeted"),
        ("its first call's answer likewise", "alone", "called"),
        ("the first answer with rules, tokens and a trail on disk", "configured", "greeted"),
    ):
        times, took = later(name, moment)
        rows.append((what, f"{times:.1f}x ({took:.0f} ms)", "at least 8x", times >= 8))
    return rows


class _Start(NamedTuple):
    """Seconds from the start of a process to two of its answers."""

    greeted: float
    called: float


def _start(command: list[str]) -> _Start:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {},
             "clientInfo": {"name": "bench", "version": "1"}}  # fmt: skip
    began = time.perf_counter()
    pipe = _Pipe(command)
    answer = pipe.ask(_line(id=1, method="initialize", params=hello))
    greeted = time.perf_counter() - began
    pipe.tell(_line(method="notifications/initialized"))
    call = _line(id=2, method="tools/call", params={"name": "add", "arguments": ARGUMENTS})
    if b"serverInfo" not in answer or b'"3"' not in (answer := pipe.ask(call)):
        raise SystemExit(f"{command} said {answer!r}")
    called = time.perf_counter() - began
    pipe.close()
    return _Start(greeted, called)


def _line(**message: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


@contextmanager
def _apart(*servers: _Pipe) -> Iterator[None]:
    """Servers on one processor and who asks on another. Left to itself the system puts a pair that
    takes turns on one processor, or on two: waking the other one costs four times as much there,
    and which it is differs from server to server and from run to run."""
    before = sorted(os.sched_getaffinity(0))
    if len(before) < 2:
        yield
        return
    os.sched_setaffinity(0, before[:1])
    for server in servers:
        os.sched_setaffinity(server.process.pid, before[1:2])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class _Pipe:
    """A process that is talked to over its standard streams."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Both sides may keep what they compile: reading it anew would be most of a start.
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            | {"BENCH_TOKEN": TOKEN},
        )

    def ask(self, line: bytes) -> bytes:
        """The answer to one line; what is told besides is passed over."""
        assert self.process.stdout is not None
        self.tell(line)
        while True:
            answer = self.process.stdout.readline()
            if not answer or b'"id"' in answer:
                return answer

    def tell(self, line: bytes) -> None:
        """One line that nothing answers."""
        assert self.process.stdin is not None
        self.process.stdin.write(line)
        self.process.stdin.flush()

    def cost(self, line: bytes, count: int) -> float:
        """CPU microseconds for one."""
        before = cpu_of(self.process.pid)
        for _ in range(count):
            answer = self.ask(line)
        if b"result" not in answer:
            raise SystemExit(f"{self.process.args} said {answer!r}")
        return (cpu_of(self.process.pid) - before) / count * 1e6

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)


async def flat(calls: int, connections: int) -> Rows:
    """Memory over many calls and connections, and with many who only listen."""
    body = json.dumps({"arguments": ARGUMENTS}).encode()
    with gateway() as ours:
        call = post(ours.url, "/v1/tools/add/call", body, Authorization=f"Bearer {TOKEN}")
        warm = await lines(ours, call, 8)
        await warm.run(3.0)
        before = memory_of(ours.pid)
        done = 0
        while done < calls:
            done += (await warm.run(2.0)).answers
        warm.close()
        for _ in range(connections // 50):
            some = await lines_for(ours, call, 50)
            some.close()
        await asyncio.sleep(1.0)
        growth = memory_of(ours.pid) - before
        viewers = await _viewers(ours, 2000)
    what = f"memory after {calls:,} calls and {connections:,} connections"
    return [
        (what.replace(",", " "), f"{growth:+.1f} MB", "under 10 MB", growth < 10),
        *viewers,
    ]


async def lines_for(server: Server, message: bytes, count: int) -> Lines:
    made = Lines(server.url, message, whole_http, server.pid)
    await made.open(count)
    await made.run(0.01)
    return made


async def _viewers(server: Server, count: int) -> Rows:
    """Half on WebSockets, half on the event stream, every one told of all events."""
    before = memory_of(server.pid)
    place = server.url.removeprefix("http://")
    stream = (
        f"GET /v1/events HTTP/1.1\r\nHost: {place}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    ).encode()
    follow = frame(b'{"jsonrpc":"2.0","id":1,"method":"events.subscribe","params":{}}')
    host, _, port = place.partition(":")
    writers: list[asyncio.StreamWriter] = []
    reading: list[asyncio.Task[None]] = []
    # A socket that opens is an event for all who look on: those that only listen come last.
    for index in range(count):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(_upgrade(server.url, "/v1/ws") if index < count // 2 else stream)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 101")):
            raise SystemExit(f"a viewer got {head!r}")
        writers.append(writer)
        reading.append(asyncio.ensure_future(_read(reader)))
    for writer in writers[: count // 2]:
        writer.write(follow)
    await asyncio.sleep(5)
    began = cpu_of(server.pid)
    await asyncio.sleep(IDLE)
    busy = (cpu_of(server.pid) - began) / IDLE
    size = memory_of(server.pid) - before
    if any(task.done() for task in reading):
        raise SystemExit("a viewer was dropped")
    for writer in writers:
        writer.close()
    await asyncio.gather(*reading, return_exceptions=True)
    return [
        (f"memory of {count} idle viewers", f"{size:.0f} MB", "under 300 MB", size < 300),
        ("CPU while they idle", f"{busy:.1%}", "under 2 %", busy < 0.02),
    ]


async def _read(reader: asyncio.StreamReader) -> None:
    while await reader.read(65_536):
        pass


def run(rounds: int, peer: str | None) -> Rows:
    """All of it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(http(rounds, peer))
        rows += stdio(rounds, peer)
        rows += runner.run(websocket(rounds))
        rows += runner.run(flat(100_000, 1000))
    return rows
