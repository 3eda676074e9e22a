"""HTTP tools: what is sent for which arguments."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from loopback import Seen, reply_json, serve
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial
from toolcrib.executors.http import HttpExecutor


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
