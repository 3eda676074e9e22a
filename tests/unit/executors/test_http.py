"""HTTP tools: what is sent for which arguments, and what comes of the answer."""

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


async def sent(
    executor: HttpExecutor, config: Mapping[str, Any], properties: str = "", **arguments: Any
) -> Seen:
    """What arrives at a server for these arguments."""
    async with serve(lambda _: reply_json({})) as server:
        full = {**config, "url": server.url + config.get("url", "/"), "private": True}
        await run(executor, spec_of(full, properties), **arguments)
    [seen] = server.seen
    return seen


PATHS = {
    "7": "/users/7",
    "ada lovelace": "/users/ada%20lovelace",
    "a?b=c#d": "/users/a%3Fb%3Dc%23d",
    "a%2F..%2Fb": "/users/a%252F..%252Fb",
    "ü": "/users/%C3%BC",
    "...": "/users/...",
    "a;b&c": "/users/a%3Bb%26c",
    "@evil.com:80": "/users/%40evil.com%3A80",
}


@pytest.mark.parametrize("value", PATHS)
async def test_a_value_stays_one_segment_of_the_path(executor: HttpExecutor, value: str) -> None:
    seen = await sent(executor, {"url": "/users/{id}"}, "id*", id=value)
    assert seen.target == PATHS[value]


@pytest.mark.parametrize(
    "value", ["..", ".", "", "a/b", "../admin", "a\\b", "a\0b", "a\nb", "/", "\x7f"]
)
async def test_a_value_that_would_be_another_path_is_refused(
    executor: HttpExecutor, value: str
) -> None:
    async with serve(lambda _: reply_json({})) as server:
        config = {"url": server.url + "/users/{id}/posts", "private": True}
        with pytest.raises(Denial) as raised:
            await run(executor, spec_of(config, "id*"), id=value)
    assert raised.value.reason == "url_not_allowed"
    assert server.connections == 0


async def test_a_path_of_several_segments_is_asked_for_by_name(executor: HttpExecutor) -> None:
    seen = await sent(executor, {"url": "/files/{+path}"}, "path*", path="src/a b/c.py")
    assert seen.target == "/files/src/a%20b/c.py"
    for path in ("src/../../etc", "/etc", "a//b", "a/./b", ".."):
        with pytest.raises(Denial):
            await sent(executor, {"url": "/files/{+path}"}, "path*", path=path)


async def test_arguments_without_a_place_go_to_the_query_of_a_get(executor: HttpExecutor) -> None:
    seen = await sent(
        executor,
        {"url": "/s"},
        "q n flag tags none deep",
        q="a&b=c d",
        n=3,
        flag=True,
        tags=["x", "y"],
        none=None,
        deep={"a": 1},
    )
    assert seen.query == [
        ("q", "a&b=c d"),
        ("n", "3"),
        ("flag", "true"),
        ("tags", "x"),
        ("tags", "y"),
        ("deep", '{"a":1}'),
    ]


async def test_a_query_with_names_of_its_own(executor: HttpExecutor) -> None:
    config = {
        "url": "/s?fixed=1&also={term}",
        "query": {"q": "{term}", "page": "{page}", "per": 10, "range": "{a}-{b}"},
    }
    seen = await sent(executor, config, "term page a b", term="x", a=1)
    assert seen.query == [("fixed", "1"), ("also", "x"), ("q", "x"), ("per", "10")]


async def test_arguments_without_a_place_are_the_json_of_a_post(executor: HttpExecutor) -> None:
    seen = await sent(
        executor, {"method": "post", "url": "/u/{id}"}, "id* name tags", id=1, name="Ada", tags=[1]
    )
    assert (seen.method, seen.path) == ("POST", "/u/1")
    assert seen.json == {"name": "Ada", "tags": [1]}
    assert seen.headers["content-type"] == "application/json"


async def test_a_delete_has_no_body(executor: HttpExecutor) -> None:
    seen = await sent(executor, {"method": "DELETE", "url": "/u/{id}"}, "id* force", id=1, force=1)
    assert (seen.target, seen.body) == ("/u/1?force=1", b"")


async def test_a_body_with_places_for_arguments(executor: HttpExecutor) -> None:
    config = {
        "method": "PUT",
        "body": {
            "json": {
                "user": {"name": "{name}", "age": "{age}"},
                "note": "by {name} {{sic}}",
                "tags": ["fixed", "{tag}"],
                "left": "{out}",
                "both": "{name}-{out}",
                "on": True,
            }
        },
    }
    seen = await sent(executor, config, "name age tag out", name="Ada", age=36)
    assert seen.json == {
        "user": {"name": "Ada", "age": 36},
        "note": "by Ada {sic}",
        "tags": ["fixed"],
        "on": True,
    }


async def test_a_body_that_is_one_argument(executor: HttpExecutor) -> None:
    config = {"method": "POST", "body": {"json": "{payload}"}}
    assert (await sent(executor, config, "payload", payload=[1, {"a": None}])).json == [
        1,
        {"a": None},
    ]
    assert (await sent(executor, config, "payload")).body == b""


async def test_a_form_and_a_text(executor: HttpExecutor) -> None:
    form = {"method": "POST", "body": {"form": {"a": "{a}", "b": "{b}"}}}
    seen = await sent(executor, form, "a b", a="1&b=2 é", b=["x", "y"])
    assert seen.body == b"a=1%26b%3D2%20%C3%A9&b=x&b=y"
    assert seen.headers["content-type"] == "application/x-www-form-urlencoded"
    text = {"method": "POST", "body": {"text": "hello {a}"}, "headers": {"Content-Type": "text/x"}}
    seen = await sent(executor, text, "a", a="Ada")
    assert (seen.body, seen.headers["content-type"]) == (b"hello Ada", "text/x")


async def test_headers_from_arguments(executor: HttpExecutor) -> None:
    config = {"headers": {"X-Trace": "{trace}", "X-Fixed": "1", "X-None": "{none}"}}
    seen = await sent(executor, config, "trace none", trace="abc")
    assert (seen.headers["x-trace"], seen.headers["x-fixed"]) == ("abc", "1")
    assert "x-none" not in seen.headers


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0", "é"])
async def test_a_value_cannot_become_another_header(executor: HttpExecutor, value: str) -> None:
    with pytest.raises(Denial) as raised:
        await sent(executor, {"headers": {"X-Trace": "{trace}"}}, "trace", trace=value)
    assert raised.value.reason == "argument_not_allowed"


AUTHS = {
    "bearer": ({"bearer": "t0ken"}, "authorization", "Bearer t0ken"),
    "basic": (
        {"basic": {"user": "ada", "password": "pä:ss"}},
        "authorization",
        "Basic " + base64.b64encode("ada:pä:ss".encode()).decode(),
    ),
    "header": ({"header": {"name": "X-Api-Key", "value": "k3y"}}, "x-api-key", "k3y"),
}


@pytest.mark.parametrize("name", AUTHS)
async def test_credentials_in_a_header(executor: HttpExecutor, name: str) -> None:
    auth, header, value = AUTHS[name]
    assert (await sent(executor, {"auth": auth})).headers[header] == value


async def test_credentials_in_the_query(executor: HttpExecutor) -> None:
    auth = {"query": {"name": "api key", "value": "k&y"}}
    seen = await sent(executor, {"url": "/s", "auth": auth}, "q", q="x")
    assert seen.target == "/s?q=x&api%20key=k%26y"


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
