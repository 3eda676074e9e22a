"""The stdio door: a real process, real pipes, one JSON on a line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from executing import until
from rpc_peer import Peer

HOST = Path(__file__).parents[1] / "kit" / "stdio_host.py"


class Process(Peer):
    """A host in a process of its own, and everything it wrote."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        super().__init__(self._write)
        self.process = process
        self.lines: list[bytes] = []
        self.log = ""
        self._readers = [
            asyncio.ensure_future(self._read()),
            asyncio.ensure_future(self._read_log()),
        ]

    async def _write(self, text: str) -> None:
        await self.write(text.encode() + b"\n")

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(line)
            self.take(line)

    async def _read_log(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.log += line.decode()

    async def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def ended(self) -> int:
        """The exit code, when the process has ended and all it wrote was read."""
        async with asyncio.timeout(30):
            await asyncio.gather(*self._readers)
            return await self.process.wait()


@contextlib.asynccontextmanager
async def started(**settings: Any) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(HOST),
        json.dumps(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        limit=64 * 1024 * 1024,
    )
    peer = Process(process)
    try:
        yield peer
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        await peer.ended()
        transport: Any = process._transport  # type: ignore[attr-defined]
        transport.close()


async def test_calls_at_the_same_time() -> None:
    async with started() as peer:
        slow = await peer.begin("tools.call", {"name": "wait", "arguments": {"seconds": 30}})
        results = await asyncio.gather(*(peer.call("add", {"a": n, "b": n}) for n in range(200)))
        assert [result["output"] for result in results] == [2 * n for n in range(200)]
        assert slow not in peer.answers
        await peer.notify("calls.cancel", {"request": slow})
        assert (await peer.answer(slow))["result"]["error"]["reason"] == "cancelled"
        info = await peer.request("host.info")
        assert (info["door"], info["principal"]) == ("stdio", "local")
        assert info["rights"] == ["approve", "audit", "admin"]


async def test_standard_output_is_protocol_only() -> None:
    async with started() as peer:
        assert (await peer.call("shout"))["output"] == "done"
        assert (await peer.call("shout_later"))["output"] == "done"
        await peer.close_input()
        assert await peer.ended() == 0
        assert len(peer.lines) == 2
        for word in ("print", "write", "descriptor", "libc", "child", "async child"):
            assert f"shout: {word}\n" in peer.log
        assert "printed while loading\n" in peer.log
        assert "printed at the end\n" in peer.log


async def test_nobody_else_reads_what_the_client_sends() -> None:
    async with started() as peer:
        asked = await peer.begin("tools.call", {"name": "listen"})
        await peer.call("add", {"a": 1, "b": 1})
        assert (await peer.answer(asked))["result"]["output"] == "b'' b''"


async def test_children_inherit_neither_end() -> None:
    async with started() as peer:
        child = set((await peer.call("inherited"))["output"])
        ends = {end for end in _open_files(peer) if end.startswith(("pipe:", "socket:"))}
        assert len(ends) >= 3
        assert not child & ends


def _open_files(peer: Process) -> set[str]:
    folder = Path(f"/proc/{peer.process.pid}/fd")
    return {str(link.readlink()) for link in folder.iterdir()}


NONSENSE = [b"{", b"nonsense", b"\xff\xfe\x00", b"[1,", b'{"a":1,"a":2}', b"\x00" * 10, b"NaN"]


async def test_malformed_lines_are_answered_and_survived() -> None:
    async with started() as peer:
        for line in NONSENSE:
            await peer.write(line + b"\n")
        await peer.write(b"\n   \r\n")  # empty lines say nothing
        assert (await peer.call("add", {"a": 1, "b": 2}))["output"] == 3
        wrong = [answer for answer in peer.came if answer.get("id") is None]
        assert [answer["error"]["code"] for answer in wrong] == [-32700] * len(NONSENSE)
        assert "Traceback" not in peer.log + b"".join(peer.lines).decode()


async def test_lines_may_come_in_pieces_and_in_heaps() -> None:
    async with started() as peer:
        text = b'{"jsonrpc":"2.0","id":%d,"method":"tools.call",' % 1
        for byte in text:
            await peer.write(bytes([byte]))
            await asyncio.sleep(0)
        await peer.write(b'"params":{"name":"add","arguments":{"a":1,"b":2}}}\r\n')
        assert (await peer.answer(1))["result"]["output"] == 3
        one = '{"jsonrpc":"2.0","id":%d,"method":"tools.call","params":{"name":"echo",'
        one += '"arguments":{"text":"ü%d"}}}\n'
        heap = "".join(one % (n, n) for n in range(10, 300)).encode()
        for at in range(0, len(heap), 4001):  # also in the middle of a character
            await peer.write(heap[at : at + 4001])
        for n in range(10, 300):
            assert (await peer.answer(n))["result"]["output"] == f"ü{n}"


async def test_a_line_that_is_too_long_is_answered_and_survived() -> None:
    async with started(max_line=10_000) as peer:
        await peer.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 300_000)
        error = (await peer.answer(None))["error"]
        assert (error["code"], error["data"]["error"]["reason"]) == (413, "request_too_large")
        await peer.write(b'"}\n')  # it is answered before it has come to its end
        assert (await peer.call("add", {"a": 1, "b": 2}))["output"] == 3
        assert len(peer.came) == 2
        await peer.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 20_000 + b'"}\n')
        await peer.until(lambda: len(peer.came) == 3)
        assert peer.came[2]["error"]["code"] == 413
        fits = await peer.call("echo", {"text": "y" * 9000})
        assert fits["output"] == "y" * 9000


async def test_a_large_payload_in_both_directions() -> None:
    async with started() as peer:
        text = "ü" * 300_000
        assert (await peer.call("echo", {"text": text}))["output"] == text


async def test_the_end_of_input_lets_calls_end() -> None:
    async with started() as peer:
        call = await peer.begin("tools.call", {"name": "wait", "arguments": {"seconds": 0.3}})
        await until(lambda: "waiting" in peer.log)
        await peer.close_input()
        assert await peer.ended() == 0
        assert peer.answers[call]["result"]["output"] == "waited"


async def test_a_last_line_needs_no_end() -> None:
    async with started() as peer:
        await peer.write(
            b'{"jsonrpc":"2.0","id":1,"method":"tools.call",'
            b'"params":{"name":"add","arguments":{"a":1,"b":2}}}'
        )
        await peer.close_input()
        assert await peer.ended() == 0
        assert peer.answers[1]["result"]["output"] == 3


async def test_calls_that_take_too_long_are_stopped_at_the_end() -> None:
    async with started(drain=0.1) as peer:
        await peer.begin("tools.call", {"name": "wait", "arguments": {"seconds": 60}})
        await until(lambda: "waiting" in peer.log)
        await peer.close_input()
        assert await peer.ended() == 0


async def test_sigterm_lets_calls_end() -> None:
    async with started() as peer:
        call = await peer.begin("tools.call", {"name": "wait", "arguments": {"seconds": 0.3}})
        await until(lambda: "waiting" in peer.log)
        peer.process.send_signal(signal.SIGTERM)
        assert await peer.ended() == 0
        assert peer.answers[call]["result"]["output"] == "waited"


async def test_a_client_that_stops_listening_ends_it_quietly() -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HOST), stdin=subprocess.PIPE, stdout=writing, stderr=subprocess.PIPE
    )
    os.close(writing)
    assert process.stdin is not None
    process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"host.info"}\n')
    await process.stdin.drain()
    assert b"toolcrib" in await asyncio.to_thread(os.read, reading, 65536)
    os.close(reading)
    with contextlib.suppress(ConnectionError):
        process.stdin.write(b'{"jsonrpc":"2.0","id":2,"method":"host.info"}\n')
        await process.stdin.drain()
    async with asyncio.timeout(30):
        _, log = await process.communicate()
    assert process.returncode == 0
    assert b"Traceback" not in log
    assert b"Broken" not in log


async def test_a_client_that_does_not_read_is_not_read_from() -> None:
    """It can ask for much, and gets all of it when it reads again; meanwhile little is kept."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HOST), stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1000
    )
    assert process.stdin is not None
    assert process.stdout is not None
    sending: Any = process.stdin.transport
    one = '{"jsonrpc":"2.0","id":%d,"method":"tools.call","params":'
    one += '{"name":"echo","arguments":{"text":"%s"}}}\n'
    asked = "".join(one % (n, "x" * 50_000) for n in range(120)).encode()
    process.stdin.write(asked)
    sizes = [len(asked), 0]
    while sizes[-1] != sizes[-2]:  # until nothing moves any more
        await asyncio.sleep(0.5)
        sizes.append(sending.get_write_buffer_size())
    assert sizes[-1] > 3_000_000
    process.stdout._limit = 1 << 22  # type: ignore[attr-defined]
    async with asyncio.timeout(30):
        for _ in range(120):
            answer = json.loads(await process.stdout.readline())
            assert len(answer["result"]["output"]) == 50_000
        process.stdin.close()
        assert await process.wait() == 0
    transport: Any = process._transport  # type: ignore[attr-defined]
    transport.close()


def test_files_in_place_of_pipes(tmp_path: Path) -> None:
    asked, answered = tmp_path / "in", tmp_path / "out"
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools.call","params":'
    call += '{"name":"add","arguments":{"a":%d,"b":1}}}\n'
    asked.write_text("".join(call % (n, n) for n in range(50)))
    with asked.open("rb") as reading, answered.open("wb") as writing:
        done = subprocess.run(
            [sys.executable, str(HOST)],
            stdin=reading,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=30,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    answers = [json.loads(line) for line in answered.read_text().splitlines()]
    assert {answer["id"]: answer["result"]["output"] for answer in answers} == {
        n: n + 1 for n in range(50)
    }


def test_no_input_at_all() -> None:
    done = subprocess.run(
        [sys.executable, str(HOST)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"")


async def test_tools_of_the_client_over_stdio() -> None:
    async def reverse(params: dict[str, Any]) -> Any:
        return {"output": params["arguments"]["text"][::-1]}

    async with started() as peer:
        peer.tools["reverse"] = reverse
        described = {
            "name": "reverse",
            "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
            "effects": ["read"],
        }
        await peer.request("tools.register", {"tools": [described]})
        assert (await peer.call("reverse", {"text": "abc"}))["output"] == "cba"
        assert (await peer.call("through_client", {"text": "xyz"}))["output"] == "zyx"
        assert (await peer.notification("tools.changed")) == {}


@pytest.mark.parametrize("principal", [None, "agent"])
async def test_who_the_client_is(principal: str | None) -> None:
    async with started(principal=principal) as peer:
        info = await peer.request("host.info")
        assert info["principal"] == (principal or "local")
        assert info["rights"] == ([] if principal else ["approve", "audit", "admin"])
