"""What is too large, too slow, too many or no HTTP at all."""

from __future__ import annotations

import asyncio
import socket

import pytest

from http_gateway import CONFIG, gateway

CALL = b"POST /v1/tools/echo/call HTTP/1.1\r\nAuthorization: Bearer tcr_boss_0123456789abcdef\r\n"


def head(port: int, *lines: bytes) -> bytes:
    return CALL + b"".join(line + b"\r\n" for line in (b"Host: 127.0.0.1:%d" % port, *lines, b""))


JSON = b"Content-Type: application/json"


class TestBodies:
    async def test_a_large_body_is_refused_before_it_is_read(self) -> None:
        async with gateway(max_body=1000) as served, await served.connect() as wire:
            await wire.send(head(served.port, JSON, b"Content-Length: 5000000"))
            reply = await wire.reply()
            assert (reply.status, reply.reason) == (413, "request_too_large")
            assert reply.headers["connection"] == "close"

    async def test_a_client_that_sends_it_all_the_same_reads_the_refusal(self) -> None:
        def stubborn(port: int) -> bytes:
            """Many clients read nothing before they have sent everything."""
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(head(port, JSON, b"Content-Length: 20000000"))
                for _ in range(200):
                    client.sendall(b"x" * 100_000)
                return client.recv(65536)

        async with gateway(max_body=1000) as served:
            answer = await asyncio.to_thread(stubborn, served.port)
        assert answer.startswith(b"HTTP/1.1 413")

    async def test_a_body_of_unknown_length_is_counted_while_it_comes(self) -> None:
        async with gateway(max_body=1000) as served, await served.connect() as wire:
            await wire.send(head(served.port, JSON, b"Transfer-Encoding: chunked"))
            for _ in range(11):
                await wire.send(b"64\r\n" + b"x" * 100 + b"\r\n")
            assert (await wire.reply()).status == 413
            assert not served.recorder.only("call.received")

    async def test_what_fits_is_taken_in_any_number_of_pieces(self) -> None:
        async with gateway(max_body=1000) as served, await served.connect() as wire:
            await wire.send(head(served.port, JSON, b"Transfer-Encoding: chunked"))
            body = b'{"arguments": {"value": "%s"}}' % (b"x" * 900)
            for byte in range(0, len(body), 50):
                piece = body[byte : byte + 50]
                await wire.send(b"%x\r\n%s\r\n" % (len(piece), piece))
                await asyncio.sleep(0)
            await wire.send(b"0\r\n\r\n")
            reply = await wire.reply()
            assert (reply.status, len(reply.json()["output"])) == (200, 900)

    async def test_a_whole_body_over_the_limit_is_refused_too(self) -> None:
        async with gateway(max_body=100) as served:
            reply = await served.call("echo", {"value": "x" * 200})
            assert (reply.status, reply.reason) == (413, "request_too_large")
            other = await served.ask("POST", "/v1/explain", {"name": "x" * 200})
            assert other.status == 413

    async def test_a_megabyte_passes(self) -> None:
        async with gateway() as served:
            text = "x" * 900_000
            reply = await served.call("echo", {"value": text})
            assert reply.json()["output"] == text

    async def test_a_slow_body_is_given_up(self) -> None:
        async with gateway(request_timeout=0.2) as served, await served.connect() as wire:
            await wire.send(head(served.port, JSON, b"Content-Length: 100") + b'{"a')
            reply = await wire.reply()
            assert (reply.status, reply.reason) == (408, "request_timeout")
            await wire.closed()
            assert not served.recorder.only("call.received")

    async def test_a_body_that_waits_for_leave_gets_it(self) -> None:
        async with gateway() as served, await served.connect() as wire:
            body = b'{"arguments": {"value": 5}}'
            length = b"Content-Length: %d" % len(body)
            await wire.send(head(served.port, JSON, length, b"Expect: 100-continue"))
            assert (await wire.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100")
            await wire.send(body)
            assert (await wire.reply()).json()["output"] == 5


class TestHeads:
    @pytest.mark.parametrize(
        "start",
        [b"", b"POST /v1/tools", CALL, CALL + b"Host: 127.0.0.1"],
        ids=["silent", "line", "headers", "half-header"],
    )
    async def test_a_head_that_does_not_end_is_given_up(self, start) -> None:
        async with gateway(request_timeout=0.2) as served, await served.connect() as wire:
            await wire.send(start)
            assert b" 408 " in (await wire.closed())[:20]

    async def test_so_is_a_second_one_on_a_connection(self) -> None:
        async with gateway(request_timeout=0.2) as served, await served.connect() as wire:
            await wire.send(served.request("GET", "/healthz"))
            assert (await wire.reply()).status == 200
            await wire.send(b"GET /healthz HTTP/1.1\r\nHo")
            assert b" 408 " in (await wire.closed())[:20]

    async def test_trickling_does_not_help(self) -> None:
        async with gateway(request_timeout=0.3) as served, await served.connect() as wire:
            await wire.send(CALL)
            answer = asyncio.ensure_future(wire.closed())
            for n in range(100):
                await wire.send(b"X-%d: x\r\n" % n)
                await asyncio.wait({answer}, timeout=0.05)
                if answer.done():
                    break
            assert b" 408 " in (await answer)[:20]
            assert n < 99

    async def test_an_idle_connection_is_closed_without_a_word(self) -> None:
        async with (
            gateway(keep_alive=0.2, request_timeout=30) as served,
            await served.connect() as wire,
        ):
            await wire.send(served.request("GET", "/healthz"))
            assert (await wire.reply()).status == 200
            assert await wire.closed() == b""

    async def test_a_call_that_runs_is_not_idle(self) -> None:
        async with gateway(keep_alive=0.1, request_timeout=0.1) as served:
            reply = await served.call("slow", {"seconds": 0.8})
            assert reply.json()["output"] == "done"

    @pytest.mark.parametrize("whole", [True, False], ids=["at-once", "in-pieces"])
    async def test_a_large_head_is_refused(self, whole) -> None:
        async with gateway(max_headers=2000) as served, await served.connect() as wire:
            data = served.request("GET", "/healthz", headers={"X-Long": "x" * 3000})
            if whole:
                await wire.send(data)
            else:
                for at in range(0, 2500, 500):
                    await wire.send(data[at : at + 500])
            reply = await wire.reply()
            assert (reply.status, reply.reason) == (431, "head_too_large")
            assert reply.headers["connection"] == "close"

    async def test_a_large_body_is_not_mistaken_for_a_large_head(self) -> None:
        async with gateway(max_headers=1000) as served:
            assert (await served.call("echo", {"value": "x" * 5000})).status == 200

    async def test_too_many_headers_are_refused(self) -> None:
        async with gateway() as served:
            many = {f"X-{n}": "x" for n in range(130)}
            reply = await served.ask("GET", "/healthz", headers=many)
            assert (reply.status, reply.reason) == (431, "head_too_large")

    @pytest.mark.parametrize(
        "data",
        [
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
            b"GET\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nBad Name: x\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: a\0b\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
            b"CONNECT evil.example:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
            b"{}\r\n\r\n",
        ],
        ids=[
            "tls", "short", "version", "name", "nul", "two-lengths", "length-and-chunks",
            "negative", "connect", "json",
        ],
    )  # fmt: skip
    async def test_what_is_no_http_is_answered_once_and_closed(self, data) -> None:
        async with gateway() as served, await served.connect() as wire:
            await wire.send(data)
            answer = await wire.closed()
            assert answer.startswith(b"HTTP/1.1 400")
            assert answer.count(b"HTTP/1.1 4") == 1
            assert b'"reason":"not_a_request"' in answer
            assert (await served.ask("GET", "/healthz")).status == 200

    @pytest.mark.parametrize("name", ["Host", "Authorization"])
    async def test_a_header_that_decides_something_stands_once(self, name) -> None:
        async with gateway() as served, await served.connect() as wire:
            request = served.request("GET", "/v1/tools")
            line = next(x for x in request.split(b"\r\n") if x.startswith(name.encode()))
            await wire.send(request.replace(line, line + b"\r\n" + line))
            reply = await wire.reply()
            assert (reply.status, reply.reason) == (400, "not_a_request")


class TestConnections:
    async def test_more_connections_than_may_be_are_turned_away(self) -> None:
        async with gateway(connections=3) as served:
            held = [await served.connect() for _ in range(3)]
            for wire in held:
                await wire.send(served.request("GET", "/healthz"))
                assert (await wire.reply()).status == 200
            async with await served.connect() as one_more:
                answer = await one_more.closed()
            assert answer.startswith(b"HTTP/1.1 503")
            assert b'"reason":"too_many_connections"' in answer
            await held.pop().close()
            async with asyncio.timeout(5):
                while (await served.ask("GET", "/healthz")).status != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            for wire in held:
                await wire.close()

    async def test_pipelined_requests_are_answered_in_order(self) -> None:
        async with gateway() as served, await served.connect() as wire:
            slow = {"arguments": {"seconds": 0.1}}
            requests = [served.request("POST", "/v1/tools/slow/call", slow)]
            for n in range(60):
                body = {"arguments": {"value": n}}
                requests.append(served.request("POST", "/v1/tools/echo/call", body))
            await wire.send(b"".join(requests))
            assert (await wire.reply()).json()["output"] == "done"
            assert [(await wire.reply()).json()["output"] for _ in range(60)] == list(range(60))

    async def test_garbage_behind_a_request_is_answered_behind_it(self) -> None:
        async with gateway() as served, await served.connect() as wire:
            slow = served.request("POST", "/v1/tools/slow/call", {"arguments": {"seconds": 0.1}})
            await wire.send(slow + b"this is no request\r\n\r\n")
            first = await wire.reply()
            assert (first.status, first.json()["output"]) == (200, "done")
            second = await wire.reply()
            assert (second.status, second.reason) == (400, "not_a_request")
            assert await wire.closed() == b""

    async def test_a_websocket_does_not_cut_into_an_answer(self) -> None:
        async with gateway() as served, await served.connect() as wire:
            slow = served.request("POST", "/v1/tools/slow/call", {"arguments": {"seconds": 0.1}})
            upgrade = {
                "Connection": "Upgrade",
                "Upgrade": "websocket",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            }
            await wire.send(slow + served.request("GET", "/v1/ws", headers=upgrade))
            assert (await wire.reply()).json()["output"] == "done"
            assert (await wire.reply()).status == 400
            assert await wire.closed() == b""

    async def test_other_upgrades_are_ignored(self) -> None:
        async with gateway() as served:
            wants = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c"}
            reply = await served.ask("GET", "/healthz", headers=wants)
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            with_body = await served.call("add", {"a": 1, "b": 2}, headers=wants)
            assert (with_body.status, with_body.reason) == (400, "not_a_request")
            assert not served.recorder.only("call.received")

    async def test_a_client_that_does_not_read_is_not_buffered_for_without_end(self) -> None:
        async with gateway() as served, await served.connect() as wire:
            text = "x" * 100_000
            body = {"arguments": {"value": text}}
            request = served.request("POST", "/v1/tools/echo/call", body)
            sending = asyncio.ensure_future(wire.send(request * 120))
            before, answered = -1, 0
            while answered > before:
                await asyncio.sleep(0.3)
                before, answered = answered, len(served.recorder.only("call.received"))
            assert answered < 120
            for _ in range(120):
                assert (await wire.reply()).json()["output"] == text
            await sending

    async def test_a_client_that_stops_reading_is_dropped_in_the_end(self) -> None:
        async with gateway(keep_alive=0.2) as served, await served.connect() as wire:
            body = {"arguments": {"value": "x" * 900_000}}
            request = served.request("POST", "/v1/tools/echo/call", body)
            sending = asyncio.ensure_future(wire.send(request * 20))
            wire.reader._transport.pause_reading()
            async with asyncio.timeout(10):
                while not wire.writer.transport.is_closing() and not sending.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
            await sending
            assert len(served.recorder.only("call.received")) < 20

    async def test_old_clients_are_answered_and_closed(self) -> None:
        async with gateway() as served, await served.connect() as wire:
            await wire.send(b"GET /healthz HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
            assert (await wire.closed()).startswith(b"HTTP/1.1 200")


async def test_nothing_wrong_leaves_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway(config=CONFIG) as served:
        await served.ask("POST", "/v1/tools/echo/call", b"\xff\xfe")
        await served.ask("GET", "/v1/calls/%FF")
        await served.ask("GET", "/v1/tools?limit=x")
        await served.ask("PATCH", "/v1/tools")
    assert not [record for record in caplog.records if record.exc_info]
