"""Whatever bytes come, the HTTP door answers or hangs up, runs nothing and goes on."""

from __future__ import annotations

import asyncio
import random

import pytest

from http_gateway import Gateway, gateway

HEAD = b"Host: 127.0.0.1:%(port)d\r\n"
CALL = b"POST /v1/tools/add/call HTTP/1.1\r\n" + HEAD + b"Content-Type: application/json\r\n"
BODY = b'{"arguments": {"a":1,"b": 2}}'
UPGRADE = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
SEEDS = [
    CALL + b"Content-Length: 29\r\n\r\n" + BODY,
    CALL + b"Transfer-Encoding: chunked\r\n\r\n1d\r\n" + BODY + b"\r\n0\r\n\r\n",
    b"GET /v1/ws HTTP/1.1\r\n"
    + HEAD
    + UPGRADE
    + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    b"GET /v1/tools?limit=5&prefix=a HTTP/1.1\r\n" + HEAD + b"\r\n",
]
BITS = [b"\r\n", b"\r\n\r\n", b"\0", b"\xff", b":", b" ", b"%00", b"%", b"{", b"0\r\n", b"-1"]


def mutated(seed: bytes, dice: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(data) + 1)
        match dice.randrange(4):
            case 0:
                data[at:at] = dice.choice(BITS)
            case 1:
                del data[at : at + dice.randint(1, 20)]
            case 2:
                data[at : at + 1] = bytes([dice.randrange(256)])
            case _:
                data[at:at] = data[at : at + dice.randint(1, 60)]
    return bytes(data)


async def sent(served: Gateway, data: bytes) -> bytes:
    async with await served.connect() as wire:
        await wire.send(data)
        try:
            return await asyncio.wait_for(wire.reader.read(65536), 5)
        except ConnectionError:
            return b""


@pytest.mark.parametrize("number", range(4), ids=["length", "chunks", "websocket", "list"])
async def test_no_bytes_break_it(number: int, caplog: pytest.LogCaptureFixture) -> None:
    # Nobody gets in without a token, so nothing may run whatever becomes of the request.
    dice = random.Random(number)
    async with gateway(request_timeout=0.5) as served:
        seed = SEEDS[number].replace(b"%(port)d", b"%d" % served.port)
        assert b" 401 " in (await sent(served, seed))[:20]
        batches = [[mutated(seed, dice) for _ in range(40)] for _ in range(5)]
        for batch in batches:
            for answer in await asyncio.gather(*(sent(served, data) for data in batch)):
                assert not answer or answer.startswith(b"HTTP/1.1 4"), answer
                assert b"Traceback" not in answer
        assert (await served.call("add", {"a": 1, "b": 2})).status == 200
        assert len(served.recorder.only("call.received")) == 1
    assert not [record for record in caplog.records if record.exc_info]
