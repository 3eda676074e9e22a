"""The MCP door, and calls that pass through it to another server, against floors and peers."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import msgspec
import uvloop
from doors import (
    ARGUMENTS,
    HERE,
    TOKEN,
    Rows,
    Server,
    gateway,
    in_turn,
    lines,
    middle,
    ratio,
    started,
)
from load import Load, post

MODERN = "2026-07-28"
OLDER = "2025-06-18"
ACCEPT = "application/json, text/event-stream"
TOOLS = 10_000


def modern(
    url: str,
    name: str,
    token: str | None = None,
    method: str = "tools/call",
    cursor: str | None = None,
) -> bytes:
    """A request as a client of 2026-07-28 sends it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params: dict[str, Any] = {"_meta": meta}
    headers = {"Accept": ACCEPT, "MCP_Protocol_Version": MODERN, "Mcp_Method": method}
    if method == "tools/call":
        params |= {"name": name, "arguments": ARGUMENTS}
        headers["Mcp_Name"] = name
    if cursor is not None:
        params["cursor"] = cursor
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return post(url, "/mcp", json.dumps(body).encode(), **headers)


def older(url: str, name: str, **headers: str) -> bytes:
    """The same as a client before it sends it, to a server without sessions or with `headers` that
    name one."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": name, "arguments": ARGUMENTS}}  # fmt: skip
    return post(url, "/mcp", json.dumps(body).encode(), Accept=ACCEPT, **headers)


def greeted(url: str) -> dict[str, str]:
    """What such a client says of itself after it greeted ours: its token and its session."""
    about = {"protocolVersion": OLDER, "capabilities": {},
             "clientInfo": {"name": "bench", "version": "1"}}  # fmt: skip
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": about}
    said = {"Accept": ACCEPT, "Content-Type": "application/json",
            "Authorization": f"Bearer {TOKEN}"}  # fmt: skip
    request = urllib.request.Request(f"{url}/mcp", json.dumps(hello).encode(), said)
    with urllib.request.urlopen(request) as answer:
        session = answer.headers["Mcp-Session-Id"]
    return {"Authorization": said["Authorization"], "Mcp_Session_Id": session,
            "MCP_Protocol_Version": OLDER}  # fmt: skip


@contextmanager
def passing(url: str) -> Iterator[Server]:
    """Toolcrib in front of another server: a token, rules, a trail on disk."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "gateway", folder, dirs_exist_ok=True)
        shutil.copy(HERE / "gateway" / "passing.yaml", f"{folder}/toolcrib.yaml")
        os.environ["BENCH_UPSTREAM"] = f"{url}/mcp"
        words = ("-m", "toolcrib", "serve", "--quiet", "--config", f"{folder}/toolcrib.yaml")
        with started(sys.executable, *words, says=r"HTTP\s+(http://\S+?)/v1", stderr=True) as made:
            yield made


async def own_tools(rounds: int, peer: str | None) -> Rows:
    """`tools/call` of a tool of ours."""
    rows: Rows = []
    body = json.dumps({"arguments": ARGUMENTS}).encode()
    with ExitStack() as running:
        # All of them first: a server that is waited for too long hangs up.
        ours = running.enter_context(gateway())
        floor = running.enter_context(started(sys.executable, "floor_http.py"))
        others = {}
        if peer:
            others["fast"] = running.enter_context(started(peer, "peer_fastmcp_doors.py"))
            others["sdk"] = running.enter_context(started(peer, "peer_mcp.py", "sdk"))
        sides = {
            "mine": await lines(ours, modern(ours.url, "add", TOKEN), 8),
            "bare": await lines(floor, post(floor.url, "/", body), 8),
        }
        for name, other in others.items():
            ask = older if name == "fast" else modern
            sides[name] = await lines(other, ask(other.url, "add"), 8)
        got = await in_turn(rounds, 1.0, **sides)
        share = ratio(got["mine"], got["bare"], "rate")
        cost = middle([load.cpu for load in got["mine"]])
        rows.append(
            ("MCP call over HTTP, of a raw ASGI app's requests/s", f"{share:.2f}x ({cost:.0f} us)",
             "at least 0.45x (aim 0.6x)", share >= 0.45)
        )  # fmt: skip
        for name, what, bar in (
            ("fast", "MCP call over FastMCP's, stateless JSON", 10),
            ("sdk", "MCP call over the SDK's (mcp 2.3, 2026-07-28)", 5),
        ):
            if name in got:
                times = ratio(got["mine"], got[name], "rate")
                rows.append((what, f"{times:.0f}x", f"at least {bar}x", times >= bar))
        for side in sides.values():
            side.close()
    return rows


async def hop(rounds: int, peer: str) -> Rows:
    """A call that is passed on to a server over HTTP."""
    rows: Rows = []
    with started(peer, "peer_mcp.py", "sdk") as upstream, passing(upstream.url) as ours:
        with started(peer, "peer_mcp.py", "proxy", f"{upstream.url}/mcp") as theirs:
            mine = await lines(ours, modern(ours.url, "up-add", TOKEN), 8)
            other = await lines(theirs, modern(theirs.url, "add"), 8)
            before = await lines(theirs, older(theirs.url, "add"), 8)
            got = await in_turn(rounds, 1.0, mine=mine, other=other, before=before)
            mine.close()
            other.close()
            before.close()
            cost = middle([load.cpu for load in got["mine"]])
            rows.append(
                ("a call passed on, our CPU at 8 clients", f"{cost:.0f} us",
                 "at most 300 us", cost <= 300)
            )  # fmt: skip
            times = 1 / ratio(got["mine"], got["other"], "cpu")
            rows.append(
                ("the same by FastMCP's proxy of a connected client", f"{times:.0f}x",
                 "at least 20x", times >= 20)
            )  # fmt: skip
            times = 1 / ratio(got["mine"], got["before"], "cpu")
            rows.append(
                ("the same, asked in the revision before", f"{times:.0f}x", "for information", True)
            )
            mine = await lines(ours, modern(ours.url, "up-rows", TOKEN), 8)
            other = await lines(theirs, modern(theirs.url, "rows"), 8)
            got = await in_turn(rounds, 1.0, mine=mine, other=other)
            mine.close()
            other.close()
            cost = middle([load.cpu for load in got["mine"]])
            times = 1 / ratio(got["mine"], got["other"], "cpu")
            rows.append(
                ("a call passed on, with a hundred records", f"{cost:.0f} us", "for information",
                 True)
            )  # fmt: skip
            rows.append(
                ("the same records by FastMCP's proxy", f"{times:.0f}x", "for information", True)
            )  # fmt: skip
        one = await lines(ours, modern(ours.url, "up-add", TOKEN), 1)
        direct = await lines(upstream, modern(upstream.url, "add"), 1)
        old = await lines(ours, older(ours.url, "up-add", **greeted(ours.url)), 1)
        old_direct = await lines(upstream, older(upstream.url, "add"), 1)
        # Many short rounds: each time is compared with the one beside it, and the machine's speed
        # changes within seconds.
        sides = {"one": one, "direct": direct, "old": old, "old_direct": old_direct}
        alone = await in_turn(5 * rounds, 0.3, **sides)
        for side in sides.values():
            side.close()
        slower = _slower(alone["one"], alone["direct"])
        rows.append(
            ("latency that it adds at one client, over going direct", f"{slower - 1:.2f}x",
             "at most 1.5x", slower - 1 <= 1.5)
        )  # fmt: skip
        earlier = _slower(alone["old"], alone["old_direct"])
        for what, times in (
            ("the whole time, over going direct", slower),
            ("the whole time, asked in the revision before", earlier),
        ):
            rows.append((what, f"{times:.2f}x", "at most 1.5x", times <= 1.5))
        words = ("client", f"{ours.url}/mcp", "up-add", TOKEN, f"{upstream.url}/mcp", "add")
        told = await asyncio.to_thread(
            subprocess.run, [peer, "peer_mcp.py", *words], cwd=HERE, check=True, capture_output=True
        )
        times = float(told.stdout)
        what = "the whole time with the SDK's own client"
        rows.append((what, f"{times:.2f}x", "at most 1.5x", times <= 1.5))
    return rows


def _slower(ours: list[Load], direct: list[Load]) -> float:
    return middle([b.rate / a.rate for a, b in zip(ours, direct, strict=True)])


async def forge(rounds: int, peer: str, python: str) -> Rows:
    """The same call through ContextForge, and ours beside it."""
    with ExitStack() as running:
        upstream = running.enter_context(started(peer, "peer_mcp.py", "sdk"))
        ours = running.enter_context(passing(upstream.url))
        theirs = running.enter_context(_forge(python, f"{upstream.url}/mcp"))
        call = {"name": theirs["tool"], "arguments": ARGUMENTS}
        text = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        token = f"Bearer {theirs['token']}"
        body = json.dumps(text).encode()
        asked = post(theirs["url"], theirs["path"], body, Accept=ACCEPT, Authorization=token)
        other = await lines(Server(theirs["url"], theirs["pid"]), asked, 2)
        mine = await lines(ours, modern(ours.url, "up-add", TOKEN), 2)
        got = await in_turn(rounds, 3.0, mine=mine, other=other)
        mine.close()
        other.close()
    pairs = zip(got["other"], got["mine"], strict=True)
    times = middle([a.cpu / b.cpu for a, b in pairs])
    cost = middle([load.cpu for load in got["other"]]) / 1e3
    return [
        ("a call passed on by ContextForge, over ours", f"{times:.0f}x ({cost:.0f} ms)",
         "at least 150x", times >= 150)
    ]  # fmt: skip


@contextmanager
def _forge(python: str, upstream: str) -> Iterator[dict[str, Any]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [python, "peer_forge.py", str(port), upstream],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=HERE,
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise SystemExit("ContextForge did not start")
        yield json.loads(line)
    finally:
        process.stdin.close()
        process.wait(30)


async def listing() -> Rows:
    """Ten thousand tools of another server, listed to a client."""
    with started(sys.executable, "floor_mcp.py", str(TOOLS)) as many, passing(many.url) as ours:
        first = _whole_list(ours)
        later = [_whole_list(ours) for _ in range(5)]
    what = f"{TOOLS:,} tools of a server listed".replace(",", " ")
    best = min(later)
    return [
        (f"{what}, the first time", f"{first * 1e3:.0f} ms", "under 200 ms", first < 0.2),
        (f"{what}, after that", f"{best * 1e3:.1f} ms", "under 5 ms", best < 0.005),
    ]


def _whole_list(server: Server) -> float:
    """Seconds until every page of the list is there; what a client makes of them comes later."""
    host, _, port = server.url.removeprefix("http://").partition(":")
    # Room for all of it, and used once: a page of memory that is new to a process costs time, too.
    room = memoryview(bytearray(b"\1" * (1 << 24)))
    pages: list[memoryview] = []
    with socket.create_connection((host, int(port))) as line:
        began, cursor = time.perf_counter(), None
        while True:
            line.sendall(modern(server.url, "", TOKEN, "tools/list", cursor))
            body, room = _body(line, room)
            pages.append(body)
            following = re.search(rb'"nextCursor": *"([^"]+)"', body[-1000:])
            if following is None:
                break
            cursor = following[1].decode()
        took = time.perf_counter() - began
    seen = [msgspec.json.decode(page, type=_Answer).result for page in pages]
    if sum(len(page.tools) for page in seen) != TOOLS or seen[-1].nextCursor is not None:
        raise SystemExit("not every tool was listed")
    return took


def _body(line: socket.socket, room: memoryview) -> tuple[memoryview, memoryview]:
    """The body of one answer, with no more work than reading takes, and the room that is left."""
    have, size, start = 0, 1, 0
    while have < size:
        count = line.recv_into(room[have:])
        if not count:
            raise SystemExit("the list ended too early")
        have += count
        if start == 0:
            head = bytes(room[: min(have, 4096)])
            start = head.find(b"\r\n\r\n") + 4
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            if start < 4 or not head.startswith(b"HTTP/1.1 200") or length is None:
                raise SystemExit(f"the list was answered with {head[:300]!r}")
            size = start + int(length[1])
    return room[start:size], room[size:]


class _Page(msgspec.Struct):
    tools: list[msgspec.Raw]
    nextCursor: str | None = None  # noqa: N815 - the protocol's name


class _Answer(msgspec.Struct):
    result: _Page


def run(rounds: int, peer: str | None, forge_python: str | None = None) -> Rows:
    """All of it."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        rows = runner.run(own_tools(rounds, peer))
        if peer:
            rows += runner.run(hop(rounds, peer))
        if peer and forge_python:
            rows += runner.run(forge(3, peer, forge_python))
        rows += runner.run(listing())
    return rows
