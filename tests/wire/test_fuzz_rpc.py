"""WebSocket and stdio under fire: whatever is malformed runs nothing, tells nothing, and does no
harm."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from doorways import command, environment
from hostile import (
    HANDSHAKE,
    MOST,
    OTHER_VALUES,
    Running,
    broken_texts,
    frame,
    no_traces,
    odd_params,
    request,
    running,
    statuses,
    throw,
    throw_all,
    write_project,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools.call", "params": {"name": "canary"}}
TEXT = b'{"jsonrpc":"2.0","id":7,"method":"tools.call","params":{"name":"canary","timeout":5}}'
GOOD = {"name": "good", "arguments": {"n": 1}}


def texts() -> Iterator[bytes]:
    """Texts that no good client sends."""
    for _, text in broken_texts(TEXT, b"5", seed=2):
        yield text.replace(b"\n", b"\\n")
    for number, (_, method, params) in enumerate(odd_params()):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        yield json.dumps(message).encode()
    yield from (json.dumps(message).encode() for message in messages())
    yield from (json.dumps(batch).encode() for batch in batches())


def messages() -> Iterator[Any]:
    """Messages with something wrong in every member."""
    yield from OTHER_VALUES
    for value in (*OTHER_VALUES, 2.0, "1.0", "2.00", [2.0]):
        yield {**CALL, "jsonrpc": value}
        if type(value) not in (int, str, type(None)):
            yield {**CALL, "id": value}
        yield {**CALL, "method": value}
        if not isinstance(value, dict):
            yield {**CALL, "params": value}
        yield {**CALL, "result": value}
        yield {**CALL, "error": value}
        yield {"jsonrpc": "2.0", "id": 7, "result": value}
        yield {"jsonrpc": "2.0", "id": "host-1", "error": value}
        yield {"jsonrpc": "2.0", "id": "host-1", "result": value, "error": value}
        yield {"jsonrpc": "2.0", "method": "calls.cancel", "params": {"request": value}}
        yield {"jsonrpc": "2.0", "method": "client.progress", "params": value}
    for name in CALL:
        if name != "id":  # without an id it is a notification, and a good one
            yield {key: value for key, value in CALL.items() if key != name}
    for method in ("", "tools", "tools.call ", "TOOLS.CALL", "__init__", "rpc.discover", "call"):
        yield {**CALL, "method": method}


def batches() -> Iterator[list[Any]]:
    """Batches in which everything is wrong."""
    yield []
    yield [[]]
    yield [[CALL]]
    yield [1, "x", None, [], {}, True]
    yield [{**CALL, "jsonrpc": "1.0"}] * 50
    yield [{**CALL, "params": [n]} for n in range(50)]
    yield list(messages())
    yield [{"jsonrpc": "2.0", "id": 1, "method": "nothing"}] * 300


def check(answers: Sequence[bytes]) -> None:
    """Every answer is JSON-RPC, and every error has the shape that all doors share."""
    no_traces(*answers)
    for text in answers:
        came = json.loads(text)
        for message in came if isinstance(came, list) else [came]:
            assert message["jsonrpc"] == "2.0"
            if "error" in message:
                reason = message["error"]["data"]["error"]["reason"]
                assert reason != "unexpected_failure", message
            elif "result" in message and isinstance(message["result"], dict):
                failure = message["result"].get("error") or {}
                assert failure.get("reason") != "unexpected_failure", message


# WebSocket.


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    async with running(folder) as found:
        yield found
        assert await found.stop() == 0
        no_traces(found.log)


def opened(port: int) -> bytes:
    """A good handshake."""
    return request(port, "GET /v1/ws", b"", *HANDSHAKE, close=False)


def heard(stream: bytes) -> list[tuple[int, bytes]]:
    """The frames that a server sent after its handshake, each its opcode and payload."""
    data = stream.partition(b"\r\n\r\n")[2]
    found: list[tuple[int, bytes]] = []
    while len(data) >= 2:
        size, at = data[1] & 0x7F, 2
        if size > 125:
            at = 4 if size == 126 else 10
            size = int.from_bytes(data[2:at], "big")
        found.append((data[0] & 0x0F, data[at : at + size]))
        data = data[at + size :]
    return found


async def survives(gateway: Running) -> None:
    """It lives, has run nothing, and does what it is asked to."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools.call", "params": GOOD}
    ask = frame(json.dumps(message).encode())
    answer = await throw(gateway.port, opened(gateway.port), ask, until=b'"result"')
    assert json.loads(heard(answer)[0][1])["result"]["output"] == 2
    assert gateway.process.returncode is None
    assert gateway.ran == []


async def test_texts_over_a_websocket(gateway: Running) -> None:
    """Each is answered, or ends the connection because it is too large or no text at all."""
    gateway.forget()
    free = asyncio.Semaphore(20)

    async def some(sent: list[bytes]) -> bytes:
        last = frame(b'{"jsonrpc":"2.0","id":"last","method":"host.health"}')
        async with free:
            frames = [frame(text) for text in sent]
            whole = b"".join([*frames, last])
            ended = b'"id":"last","result"'
            return await throw(gateway.port, opened(gateway.port), whole, until=ended)

    every = list(texts())
    readable = [text for text in every if len(text) <= MOST and _is_utf8(text)]
    others = [text for text in every if text not in readable]
    assert len(readable) > 400
    assert len(others) > 5
    groups = [readable[at : at + 40] for at in range(0, len(readable), 40)]
    for stream in await asyncio.gather(*map(some, groups)):
        frames = heard(stream)
        assert {opcode for opcode, _ in frames} == {1}
        check([text for _, text in frames])
        assert any(b'"id":"last","result"' in text for _, text in frames)
    codes: list[int] = []
    for stream in await asyncio.gather(*(some([text]) for text in others)):
        opcode, payload = heard(stream)[-1]
        assert opcode == 8
        codes.append(int.from_bytes(payload[:2], "big"))
    assert set(codes) == {1007, 1009}
    await survives(gateway)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


BAD_FRAMES: dict[str, list[bytes]] = {
    "not masked": [frame(TEXT, mask=False)],
    "binary": [frame(TEXT, 2)],
    **{f"opcode {n}": [frame(TEXT, n)] for n in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
    **{f"reserved bits {n}": [frame(TEXT, rsv=n)] for n in range(1, 8)},
    "a rest without a beginning": [frame(TEXT, 0)],
    "a beginning in between": [frame(TEXT[:9], fin=False), frame(TEXT)],
    "binary in between": [frame(TEXT[:9], fin=False), frame(TEXT[9:], 2)],
    "a ping in parts": [frame(b"p", 9, fin=False), frame(TEXT)],
    "a large ping": [frame(b"p" * 126, 9), frame(TEXT)],
    "a large close": [frame(b"\x03\xe8" + b"p" * 124, 8), frame(TEXT)],
    "a close of one byte": [frame(b"\x03", 8), frame(TEXT)],
    **{
        f"closed with {code}": [frame(code.to_bytes(2, "big"), 8), frame(TEXT)]
        for code in (0, 999, 1000, 1004, 1005, 1006, 1015, 2999, 5000, 65535)
    },
    "closed in bad words": [frame(b"\x03\xe8\xff\xfe", 8), frame(TEXT)],
    "no utf-8": [frame(TEXT.replace(b"canary", b"canary\xff"))],
    "half a character": [frame(TEXT[:-1] + b'"\xe2\x82"}')],
    "utf-8 broken over frames": [frame(TEXT[:9] + b"\xe2", fin=False), frame(TEXT[9:], 0)],
    "too large": [frame(TEXT[:-1] + b" " * MOST + b"}")],
    "too large in parts": [
        frame(TEXT[:9], fin=False),
        *(frame(b" " * 9000, 0, fin=False) for _ in range(8)),
        frame(TEXT[9:], 0),
    ],
    "a length beyond all": [frame(TEXT, length=2**63, wide=8)],
    "a length that is huge": [frame(TEXT, length=2**40, wide=8)],
    "not all of it": [frame(TEXT, length=len(TEXT) + 1)],
    "half a head": [b"\x81"],
    "no frame": [b"GET /v1/tools/canary/call HTTP/1.1\r\n\r\n"],
    "a request": [request(1, "POST /v1/tools/canary/call")],
    "never ending": [frame(TEXT, fin=False)],
}


@pytest.mark.parametrize("name", BAD_FRAMES)
async def test_frames_that_are_none(gateway: Running, name: str) -> None:
    gateway.forget()
    came = await throw(gateway.port, opened(gateway.port), *BAD_FRAMES[name], patience=0.2)
    assert statuses(came) == [101]
    no_traces(came)
    assert all(opcode != 1 for opcode, _ in heard(came))
    assert gateway.ran == []


async def test_after_all_frames_it_works(gateway: Running) -> None:
    gateway.forget()
    await survives(gateway)


async def test_handshakes_that_are_none(gateway: Running) -> None:
    """A call behind a refused handshake is not read as one."""
    port = gateway.port
    gateway.forget()
    more = frame(TEXT)

    def frames() -> Iterator[tuple[str, bytes]]:
        for leave in range(len(HANDSHAKE)):
            lines = [line for at, line in enumerate(HANDSHAKE) if at != leave]
            yield f"without {leave}", request(port, "GET /v1/ws", b"", *lines, close=False) + more
        for number, (name, value) in enumerate(
            (
                ("Sec-WebSocket-Key", ""),
                ("Sec-WebSocket-Key", "short"),
                ("Sec-WebSocket-Key", "!" * 24),
                ("Sec-WebSocket-Version", "12"),
                ("Sec-WebSocket-Version", "14"),
                ("Sec-WebSocket-Version", "x"),
                ("Upgrade", "h2c"),
                ("Connection", "close"),
            )
        ):
            kept = [line for line in HANDSHAKE if not line.startswith(f"{name}:")]
            lines = [*kept, f"{name}: {value}"]
            yield f"other {number}", request(port, "GET /v1/ws", b"", *lines, close=False) + more
        paths = ("/v1/ws?a=1", "/v1/ws/", "/v1%2fws", "/v1/tools", "//v1/ws", "/")
        for line in ("POST /v1/ws", "PUT /v1/ws", *(f"GET {path}" for path in paths)):
            yield line, request(port, line, b"", *HANDSHAKE, close=False) + more
        yield "bodied", request(port, "GET /v1/ws", TEXT, *HANDSHAKE, close=False) + more
        twice = (*HANDSHAKE, *HANDSHAKE)
        yield "all twice", request(port, "GET /v1/ws", b"", *twice, close=False) + more

    came = await throw_all(port, frames())
    no_traces(*came.values())
    assert {
        label: statuses(answer) for label, answer in came.items() if 101 in statuses(answer)
    } == {}
    assert all(status < 500 for answer in came.values() for status in statuses(answer))
    await survives(gateway)


# stdio.


async def test_lines_of_every_kind(tmp_path: Path) -> None:
    config = write_project(tmp_path)
    process = await asyncio.create_subprocess_exec(
        *command("serve", "--stdio", "--config", str(config)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
        limit=4_000_000,
    )
    assert process.stdin is not None
    lines = [line.replace(b"\r", b" ") for line in texts()]
    lines += [b"\x00", b"\xff\xfe", b"\x1b[2J", b"\r", b"x" * (MOST * 3), TEXT[:20] + b"\r" + b"x"]
    good = json.dumps({"jsonrpc": "2.0", "id": "good", "method": "tools.call", "params": GOOD})
    sent = b"\n".join([*lines, good.encode(), TEXT[:-1]])  # the last line is never ended
    async with asyncio.timeout(60):
        out, log = await process.communicate(sent)
    answers = out.splitlines()
    broken = [answer for answer in answers if b"unexpected_failure" in answer]
    assert not broken, log.decode(errors="replace")[-4000:]
    check(answers)
    no_traces(log)
    assert process.returncode == 0
    assert not (tmp_path / "ran.txt").exists()
    found = [json.loads(line) for line in answers]
    good_one = [m for m in found if isinstance(m, dict) and m.get("id") == "good"]
    assert [message["result"]["output"] for message in good_one] == [2]
    refused = [m for m in found if isinstance(m, dict) and m.get("id") is None and "error" in m]
    assert sum(m["error"]["code"] == -32700 for m in refused) > 150
    assert sum(m["error"]["data"]["error"]["reason"] == "request_too_large" for m in refused) >= 2
