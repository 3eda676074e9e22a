"""HTTP tools: what comes of the answer, and how calls end."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from loopback import Seen, Server, reply, reply_json, serve
from toolcrib.core.context import ToolContext
from toolcrib.core.result import ToolResult
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, ToolFailure
from toolcrib.executors.http import HttpExecutor, effects_of
from toolcrib.testing import make_host


def spec_of(config: Mapping[str, Any], properties: str = "", **more: Any) -> ToolSpec:
    """A tool with some arguments; those with a star are required."""
    names = properties.split()
    schema = {
        "type": "object",
        "properties": {name.rstrip("*"): {} for name in names},
        "required": [name.rstrip("*") for name in names if name.endswith("*")],
        "additionalProperties": False,
    }
    return ToolSpec(name="t", kind="http", input_schema=schema, config=config, **more)


@pytest.fixture
async def executor() -> AsyncIterator[HttpExecutor]:
    made = HttpExecutor()
    yield made
    await made.aclose()


async def run(executor: HttpExecutor, spec: ToolSpec, **arguments: Any) -> Any:
    execute = executor.bind(spec, None)
    return await execute(ToolContext(tool=spec.name, spec=spec, arguments=arguments))


async def answered(executor: HttpExecutor, answer: bytes, **config: Any) -> Any:
    async with serve(lambda _: answer) as server:
        spec = spec_of({"url": server.url + "/x?secret=s3cret", "private": True, **config})
        return await run(executor, spec)


async def test_json_comes_back_as_values(executor: HttpExecutor) -> None:
    assert await answered(executor, reply_json({"a": [1, None]})) == {"a": [1, None]}
    said = {"Content-Type": "application/vnd.x+json; charset=utf-8"}
    assert await answered(executor, reply("[1]", headers=said)) == [1]
    assert await answered(executor, reply(status=204, length=False)) is None


async def test_a_part_of_the_json(executor: HttpExecutor) -> None:
    body = reply_json({"data": {"items": [1, 2]}})
    assert await answered(executor, body, response={"pointer": "/data/items"}) == [1, 2]
    assert await answered(executor, body, response={"pointer": "/data/items/1"}) == 2
    with pytest.raises(ToolFailure, match="answered without /data/none") as raised:
        await answered(executor, body, response={"pointer": "/data/none"})
    assert raised.value.reason == "upstream_error"


async def test_text_comes_back_as_text(executor: HttpExecutor) -> None:
    said = {"Content-Type": "text/plain; charset=latin-1"}
    assert await answered(executor, reply("é".encode("latin-1"), headers=said)) == "é"
    said = {"Content-Type": "text/html; charset=no-such"}
    assert await answered(executor, reply("é", headers=said)) == "é"
    assert await answered(executor, reply_json([1]), response={"output": "text"}) == "[1]"


async def test_bytes_come_back_as_a_block(executor: HttpExecutor) -> None:
    picture = reply(b"\x89PNG", headers={"Content-Type": "image/png"})
    result = await answered(executor, picture)
    assert isinstance(result, ToolResult)
    assert result.output == {"type": "image/png", "bytes": 4}
    [block] = result.content or []
    assert (block["type"], block["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(block["data"]) == b"\x89PNG"
    result = await answered(executor, reply(b"\0\1"))
    [block] = result.content
    assert base64.b64decode(block["resource"]["blob"]) == b"\0\1"
    assert "s3cret" not in str(block)


@pytest.mark.parametrize("body", ["{", "NaN", '{"a":1,"a":2}', "[" * 200 + "]" * 200, "\ufeff{}"])
async def test_json_that_is_none(executor: HttpExecutor, body: str) -> None:
    said = {"Content-Type": "application/json"}
    with pytest.raises(ToolFailure, match="did not answer with JSON") as raised:
        await answered(executor, reply(body, headers=said))
    assert raised.value.reason == "upstream_error"


@pytest.mark.parametrize(
    ("status", "reason", "retryable"),
    [
        (400, "tool_error", False),
        (401, "tool_error", False),
        (404, "tool_error", False),
        (429, "upstream_error", True),
        (500, "upstream_error", False),
        (502, "upstream_error", True),
        (503, "upstream_error", True),
        (504, "upstream_error", True),
        (799, "upstream_error", False),
        (304, "tool_error", False),
    ],
)
async def test_a_status_that_is_a_failure(
    executor: HttpExecutor, status: int, reason: str, retryable: bool
) -> None:
    headers = {"Retry-After": "7"}
    answer = reply("" if status == 304 else "no such user", status, headers)
    with pytest.raises(ToolFailure) as raised:
        await answered(executor, answer)
    failure = raised.value
    assert (failure.reason, failure.retryable) == (reason, retryable)
    assert failure.details["status"] == status
    assert failure.retry_after == (7.0 if retryable else None)
    assert str(status) in failure.message
    assert "s3cret" not in failure.message
    if status != 304:
        assert failure.details["body"] == "no such user"


async def test_a_write_is_not_said_to_be_retryable(executor: HttpExecutor) -> None:
    with pytest.raises(ToolFailure) as raised:
        await answered(executor, reply(status=503), method="POST")
    assert not raised.value.retryable


async def test_the_body_of_a_failure_is_cut(executor: HttpExecutor) -> None:
    with pytest.raises(ToolFailure) as raised:
        await answered(executor, reply("x" * 200_000, 500))
    assert raised.value.details["body"] == "x" * 2000 + "… [cut]"


@pytest.mark.parametrize(
    ("said", "least", "most"),
    [
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0, 0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 3600, 3600),
        ("999999999999999", 3600, 3600),
    ],
)
async def test_when_to_try_again(
    executor: HttpExecutor, said: str, least: float, most: float
) -> None:
    with pytest.raises(ToolFailure) as raised:
        await answered(executor, reply(status=503, headers={"Retry-After": said}))
    assert raised.value.retry_after is not None
    assert least <= raised.value.retry_after <= most


@pytest.mark.parametrize("said", ["soon", "-1", "", "1e9"])
async def test_nonsense_is_no_time(executor: HttpExecutor, said: str) -> None:
    with pytest.raises(ToolFailure) as raised:
        await answered(executor, reply(status=503, headers={"Retry-After": said}))
    assert raised.value.retry_after is None


async def test_the_tool_is_held_to_the_host_of_its_url(executor: HttpExecutor) -> None:
    async with serve(lambda _: reply_json({})) as other:
        moved = reply(status=302, headers={"Location": other.url})
        with pytest.raises(Denial) as raised:
            await answered(executor, moved)
        assert raised.value.reason == "host_not_allowed"
        assert other.connections == 0
        assert await answered(executor, moved, hosts=["127.0.0.1"]) == {}


async def test_an_answer_over_the_limit(executor: HttpExecutor) -> None:
    with pytest.raises(ToolFailure) as raised:
        await answered(executor, reply("x" * 1001), max_bytes="1kB")
    assert raised.value.reason == "output_too_large"


async def test_a_slow_server(executor: HttpExecutor) -> None:
    async def silence(seen: Seen, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    async with serve(lambda _: silence) as server:
        spec = spec_of({"url": server.url, "private": True, "timeout": "100ms"})
        with pytest.raises(ToolFailure) as raised:
            await run(executor, spec)
    assert raised.value.reason == "timeout"


async def test_connections_are_shared_between_tools(executor: HttpExecutor) -> None:
    async with serve(lambda _: reply_json({})) as server:
        for path in ("/a", "/b", "/c"):
            await run(executor, spec_of({"url": server.url + path, "private": True}))
    assert server.connections == 1


def flaky(server: list[Server]) -> Any:
    def answer(seen: Seen) -> bytes:
        first = len(server[0].seen) == 1
        return reply(status=503, headers={"Retry-After": "0"}) if first else reply_json("through")

    return answer


async def test_in_a_host_a_read_is_tried_again_as_its_spec_says() -> None:
    from toolcrib import RetryPolicy

    servers: list[Server] = []
    executor = HttpExecutor()
    async with serve(flaky(servers)) as server:
        servers.append(server)
        spec = spec_of(
            {"url": server.url, "private": True},
            effects=effects_of("GET"),
            retry=RetryPolicy(attempts=2, backoff=0.001),
        )
        async with make_host([spec], executors=[executor]) as host:
            assert (await host.call("t")).output == "through"
        await executor.aclose()
    assert len(server.seen) == 2


async def test_a_call_that_times_out_leaves_no_connection() -> None:
    ended = asyncio.Event()

    async def silence(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nX: ")
        while not writer.is_closing():
            writer.write(b".")
            await asyncio.sleep(0.005)
        ended.set()

    executor = HttpExecutor()
    async with serve(lambda _: silence) as server:
        spec = spec_of({"url": server.url, "private": True}, timeout=0.1)
        async with make_host([spec], executors=[executor]) as host:
            result = await host.call("t")
            async with asyncio.timeout(5):
                await ended.wait()
        await executor.aclose()
    assert (result.reason, result.error and result.error.still_running) == ("timeout", False)


def test_effects_by_method() -> None:
    assert effects_of("GET") == {"read"}
    assert effects_of("HEAD") == {"read"}
    assert effects_of("POST") == effects_of("PATCH") == effects_of("PUT") == {"write", "egress"}
    assert effects_of("DELETE") == {"write", "destructive", "egress"}
