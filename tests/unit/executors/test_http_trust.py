"""HTTP tools: only what was declared is sent, and nothing stands beside what the configuration
says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from loopback import Seen, reply, reply_json, serve
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import Denial, SpecError, ToolFailure
from toolcrib.executors.http import HttpExecutor


@pytest.fixture
async def executor() -> AsyncIterator[HttpExecutor]:
    made = HttpExecutor()
    yield made
    await made.aclose()


def spec_of(config: Mapping[str, Any], schema: Mapping[str, Any]) -> ToolSpec:
    return ToolSpec(name="t", kind="http", input_schema={"type": "object", **schema}, config=config)


async def sent(
    executor: HttpExecutor, config: Mapping[str, Any], schema: Mapping[str, Any], given: Any
) -> Seen:
    async with serve(lambda _: reply_json({})) as server:
        full = {"url": server.url + "/x", "private": True, **config}
        spec = spec_of(full, schema)
        run: Any = executor.bind(spec, None)
        ctx = ToolContext(tool="t", spec=spec, arguments=given)
        run.check(ctx)
        await run(ctx)
    [seen] = server.seen
    return seen


X = {"properties": {"x": {}}}
UNDECLARED: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "query": ({}, X, "tenant"),
    "body": ({"method": "POST"}, X, "is_admin"),
    "no-properties": ({"method": "POST"}, {}, "a"),
    "own-body": ({"method": "POST", "body": {"json": {"x": "{x}"}}}, X, "a"),
    "not-of-the-pattern": ({}, {"patternProperties": {"^f_": {}}}, "tenant"),
    "fixed": (
        {"query": {"tenant": "acme"}},
        {**X, "additionalProperties": True},
        "tenant",
    ),
    "fixed-in-url": (
        {"url": "http://127.0.0.1:1/?tenant=acme"},
        {"additionalProperties": {"type": "string"}},
        "tenant",
    ),
    "credential": (
        {"auth": {"query": {"name": "key", "value": "s"}}},
        {"patternProperties": {"k": {}}},
        "key",
    ),
}


@pytest.mark.parametrize("name", UNDECLARED)
async def test_an_argument_that_is_not_declared_is_never_sent(
    executor: HttpExecutor, name: str
) -> None:
    config, schema, argument = UNDECLARED[name]
    with pytest.raises(Denial) as raised:
        await sent(executor, config, schema, {argument: "v"})
    assert raised.value.reason == "argument_not_allowed"
    assert argument in str(raised.value)


async def test_a_schema_may_say_itself_that_there_are_others(executor: HttpExecutor) -> None:
    seen = await sent(executor, {}, {"additionalProperties": True}, {"a": "1"})
    assert seen.query == [("a", "1")]
    seen = await sent(executor, {}, {"patternProperties": {"^f_": {}}}, {"f_a": "1"})
    assert seen.query == [("f_a", "1")]
    posted = {"method": "POST", "query": {"a": "fixed"}}
    seen = await sent(executor, posted, {"additionalProperties": True}, {"a": "1"})
    assert (seen.query, seen.json) == ([("a", "fixed")], {"a": "1"})


async def test_a_post_without_arguments_has_no_body(executor: HttpExecutor) -> None:
    assert (await sent(executor, {"method": "POST"}, {}, {})).body == b""


KEY = {"auth": {"query": {"name": "key", "value": "s"}}}
CLASHES: dict[str, tuple[dict[str, Any], str]] = {
    "argument-and-query": ({"query": {"x": "fixed"}}, "config.query"),
    "argument-and-url": ({"url": "https://a.example/?x=1"}, "config.query"),
    "argument-and-auth": ({"auth": {"query": {"name": "x", "value": "s"}}}, "config.query"),
    "query-and-auth": ({"query": {"key": "{x}"}, **KEY}, "config.query"),
    "url-and-auth": ({"url": "https://a.example/?key={x}", **KEY}, "config.query"),
    "header-and-auth": (
        {"headers": {"authorization": "{x}"}, "auth": {"bearer": "s"}},
        "config.headers",
    ),
    "header-and-oauth": (
        {
            "headers": {"AUTHORIZATION": "{x}"},
            "auth": {"oauth": {"token_url": "https://a.example", "client_id": "a",
                               "client_secret": "b"}},
        },
        "config.headers",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASHES)
def test_two_things_under_one_name_are_a_mistake(name: str) -> None:
    config, key = CLASHES[name]
    with pytest.raises(SpecError) as raised:
        HttpExecutor().bind(spec_of({"url": "https://a.example", **config}, X), None)
    assert raised.value.key == key


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("/x/{text}", "Write https://example.com/x/{text}"),
        ("example.com/{text}", "Write https://example.com/{text}"),
        ("localhost:8000/x", "Write https://localhost:8000/x"),
    ],
)
def test_a_url_without_a_scheme_is_explained(url: str, cure: str) -> None:
    schema = {"properties": {"text": {}}, "required": ["text"]}
    with pytest.raises(SpecError) as raised:
        HttpExecutor().bind(spec_of({"url": url}, schema), None)
    assert str(raised.value) == f"tool t: config.url has no scheme and host. {cure}"


@pytest.mark.parametrize(
    ("statuses", "status", "again"),
    [
        (None, 503, True),
        (None, 500, False),
        ([500], 500, True),
        ([500], 503, False),
        ([], 429, False),
        ([409], 409, True),
    ],
)
async def test_which_statuses_are_tried_again(
    executor: HttpExecutor, statuses: Any, status: int, again: bool
) -> None:
    async with serve(lambda _: reply("later", status, {"Retry-After": "7"})) as server:
        config = {"url": server.url, "private": True, "retry_statuses": statuses}
        spec = spec_of(config, {})
        with pytest.raises(ToolFailure) as raised:
            await executor.bind(spec, None)(ToolContext(tool="t", spec=spec))
    assert raised.value.retryable is again
    assert raised.value.retry_after == (7 if again else None)


@pytest.mark.parametrize("wrong", [503, ["503"], [True], [200], [600], "all"], ids=str)
def test_statuses_are_numbers_of_failures(wrong: Any) -> None:
    with pytest.raises(SpecError, match="from 400 to 599") as raised:
        HttpExecutor().bind(spec_of({"url": "https://a.example", "retry_statuses": wrong}, {}))
    assert raised.value.key == "config.retry_statuses"
