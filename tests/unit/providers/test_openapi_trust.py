"""A document decides what tools look like; it decides nothing that was agreed to before, and
nothing that the configuration says."""

from __future__ import annotations

import asyncio
import copy
import json
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loopback import reply_json, serve
from toolcrib.core.context import ToolContext
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial
from toolcrib.host.workshop import Sandboxes, Workshop
from toolcrib.providers.openapi.provider import OpenApiProvider, factory
from toolcrib.providers.openapi.reading import built

USER: dict[str, Any] = {
    "openapi": "3.1.0",
    "servers": [{"url": "https://api.example.com/sandbox"}],
    "paths": {
        "/users/{id}": {
            "post": {
                "operationId": "op",
                "parameters": [
                    {"name": "id", "in": "path", "required": True, "schema": {}},
                    {"name": "role", "in": "query", "schema": {}},
                ],
                "requestBody": {"content": {"application/json": {"schema": {}}}},
            }
        }
    },
}


def made(tmp_path: Path, doc: Any, **settings: Any) -> OpenApiProvider:
    (tmp_path / "api").write_text(json.dumps(doc))
    return factory("api", {"spec": "api", **settings}, Workshop(Sandboxes(), tmp_path))


async def spec_of(tmp_path: Path, doc: Any, **settings: Any) -> ToolSpec:
    async with made(tmp_path, doc, **settings) as provider:
        [spec] = await provider.list_tools()
        return spec


def changed(change: Mapping[tuple[Any, ...], Any]) -> dict[str, Any]:
    doc = copy.deepcopy(USER)
    for path, value in change.items():
        part: Any = doc
        for step in path[:-1]:
            part = part[step]
        if value is ...:
            del part[path[-1]]
        else:
            part[path[-1]] = value
    return doc


OP = ("paths", "/users/{id}", "post")
ROLE = (*OP, "parameters", 1)
CHANGES: dict[str, Mapping[tuple[Any, ...], Any]] = {
    "prefix": {("servers", 0, "url"): "https://api.example.com/production"},
    "host": {("servers", 0, "url"): "https://other.example.com/sandbox"},
    "port": {("servers", 0, "url"): "https://api.example.com:8443/sandbox"},
    "place": {(*ROLE, "in"): "header"},
    "name": {(*ROLE, "name"): "role\u00e9"},
    "style": {(*ROLE, "style"): "pipeDelimited"},
    "explode": {(*ROLE, "explode"): False},
    "json": {(*ROLE, "schema"): ..., (*ROLE, "content"): {"application/json": {"schema": {}}}},
    "many": {(*OP, "parameters", 0, "x-multi-segment"): True},
    "body": {
        (*OP, "requestBody", "content"): {"application/x-www-form-urlencoded": {"schema": {}}}
    },
}


@pytest.mark.parametrize("name", CHANGES)
async def test_the_digest_covers_all_that_a_call_does(tmp_path: Path, name: str) -> None:
    first = await spec_of(tmp_path, USER)
    second = await spec_of(tmp_path, changed(CHANGES[name]))
    assert first.digest != second.digest
    assert (await spec_of(tmp_path, USER)).digest == first.digest


async def test_the_spec_holds_no_credentials(tmp_path: Path) -> None:
    auth = {"query": {"name": "key", "value": "s3cret-key"}}
    spec = await spec_of(tmp_path, USER, auth=auth, headers={"X-Tenant": "s3cret-tenant"})
    assert "s3cret" not in json.dumps(spec.to_dict())
    assert spec.config["url"] == "https://api.example.com/sandbox/users/{id}"


async def test_a_call_that_was_decided_on_never_runs_a_newer_definition(tmp_path: Path) -> None:
    async with serve(lambda seen: reply_json(seen.target)) as server:
        place = {"base_url": f"{server.url}/sandbox", "private": True}
        agreed = await spec_of(tmp_path, USER, **place)
        # A profile's policy may leave fewer effects; the definition is the same.
        narrowed = replace(agreed, effects=frozenset({"egress"}))
        assert narrowed.digest != agreed.digest
        async with made(tmp_path, USER, **place) as provider:
            for spec in (agreed, narrowed):
                ctx = ToolContext(tool=spec.name, spec=spec, arguments={"id": "7"})
                assert await provider.execute(ctx) == "/sandbox/users/7"
        place["base_url"] = f"{server.url}/production"
        async with made(tmp_path, USER, **place) as provider:
            for spec in (agreed, narrowed):
                ctx = ToolContext(tool=spec.name, spec=spec, arguments={"id": "7"})
                with pytest.raises(Denial) as raised:
                    await provider.execute(ctx)
                assert raised.value.reason == "definition_changed"
        assert len(server.seen) == 2


@pytest.mark.parametrize("hosts", [None, ["api.example.com"], ["*"]], ids=["own", "listed", "any"])
@pytest.mark.parametrize("url", ["http://api.example.com:443/", "http://api.example.com/"])
async def test_a_document_cannot_lower_https_to_http(
    tmp_path: Path, hosts: list[str] | None, url: str
) -> None:
    doc = changed({(*OP, "servers"): [{"url": url}]})
    settings = {} if hosts is None else {"hosts": hosts}
    async with made(tmp_path, doc, base_url="https://api.example.com", **settings) as provider:
        assert list(await provider.list_tools()) == []
        [problem] = provider.problems
    assert "only https is allowed" in problem


def with_parameters(*given: tuple[str, str]) -> Any:
    parameters = [{"name": name, "in": place, "schema": {}} for place, name in given]
    return changed({OP: ..., ("paths", "/x"): {"get": {"operationId": "op",
                                                       "parameters": parameters}}})  # fmt: skip


async def test_parameters_of_a_document_never_override_the_configuration(tmp_path: Path) -> None:
    doc = with_parameters(
        ("header", "x-tenant"),
        ("header", "X-API-KEY"),
        ("header", "X-Other"),
        ("cookie", "c"),
        ("query", "q"),
    )
    async with serve(lambda seen: reply_json({})) as server:
        settings = {
            "base_url": server.url,
            "private": True,
            "headers": {"X-Tenant": "acme", "Cookie": "a=b"},
            "auth": {"header": {"name": "X-Api-Key", "value": "ours"}},
        }
        async with made(tmp_path, doc, **settings) as provider:
            [spec] = await provider.list_tools()
            assert set(spec.input_schema["properties"]) == {"X-Other", "q"}
            assert provider.problems == [
                "GET /x: its header parameter 'x-tenant' is left out: the configuration sets it",
                "GET /x: its header parameter 'X-API-KEY' is left out: the configuration sets it",
                "GET /x: its cookie parameter 'c' is left out: the configuration sets it",
            ]
            given = {"x-tenant": "victim", "X-API-KEY": "mine", "X-Other": "o", "c": "d"}
            await provider.execute(ToolContext(tool=spec.name, spec=spec, arguments=given))
    [seen] = server.seen
    said = {name: seen.headers.get(name) for name in ("x-tenant", "x-api-key", "x-other", "cookie")}
    assert said == {"x-tenant": "acme", "x-api-key": "ours", "x-other": "o", "cookie": "a=b"}


async def test_a_credential_in_the_query_stands_there_once(tmp_path: Path) -> None:
    doc = with_parameters(("query", "key"), ("query", "filter"))
    async with serve(lambda seen: reply_json({})) as server:
        auth = {"query": {"name": "key", "value": "ours"}}
        settings = {"base_url": server.url, "private": True, "auth": auth}
        async with made(tmp_path, doc, **settings) as provider:
            [spec] = await provider.list_tools()
            assert set(spec.input_schema["properties"]) == {"filter"}
            for given in ({"filter": {"key": "mine"}}, {"filter": {"a": 1, "key": ["mine"]}}):
                ctx = ToolContext(tool=spec.name, spec=spec, arguments=given)
                with pytest.raises(Denial) as raised:
                    await provider.execute(ctx)
                assert raised.value.reason == "argument_not_allowed"
            ctx = ToolContext(tool=spec.name, spec=spec, arguments={"filter": {"a": "key=1"}})
            await provider.execute(ctx)
    [seen] = server.seen
    assert seen.query == [("a", "key=1"), ("key", "ours")]


async def test_documents_are_worked_on_one_at_a_time_and_not_for_nobody() -> None:
    began, going, ran = threading.Event(), threading.Event(), [0]
    stopped: list[threading.Event] = []

    def work(stop: threading.Event) -> None:
        ran[0] += 1
        assert not going.is_set()
        going.set()
        began.set()
        assert stop.wait(10)
        stopped.append(stop)
        going.clear()

    tasks = [asyncio.ensure_future(built(work)) for _ in range(3)]
    await asyncio.to_thread(began.wait, 10)
    assert ran == [1]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await built(lambda stop: None)  # whoever comes next is not kept waiting
    assert (len(stopped), ran) == (1, [1])


async def test_a_build_that_nobody_waits_for_ends(tmp_path: Path) -> None:
    """Operations that share one long list by reference: each is read anew."""
    shared = [{"name": f"p{n}", "in": "query", "schema": {}} for n in range(2000)]
    item = {"get": {"parameters": shared}}
    paths = {f"/{n}": {"$ref": "#/x-item"} for n in range(5000)}
    provider = made(tmp_path, {"openapi": "3.1.0", "x-item": item, "paths": paths},
                    base_url="https://api.example.com")  # fmt: skip
    task = asyncio.ensure_future(provider.__aenter__())
    await asyncio.sleep(0.3)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(10):
        await built(lambda stop: None)


def test_a_local_file_that_is_missing_or_broken_is_a_mistake_of_the_configuration(
    tmp_path: Path,
) -> None:
    shop = Workshop(Sandboxes(), tmp_path)
    with pytest.raises(ConfigError, match=r"none\.yaml cannot be read: No such file") as raised:
        factory("api", {"spec": "none.yaml"}, shop)
    assert (raised.value.key, raised.value.file) == ("spec", None)
    (tmp_path / "broken.yaml").write_text("openapi: 3.1.0\npaths: {a: [}\n")
    with pytest.raises(ConfigError) as raised:
        factory("api", {"spec": "broken.yaml"}, shop)
    assert raised.value.where == f"{tmp_path / 'broken.yaml'}:2:13"


async def test_a_token_is_told_before_it_is_used(tmp_path: Path) -> None:
    kept: list[str] = []
    told: list[bool] = []

    def answer(seen: Any) -> bytes:
        if seen.path == "/token":
            return reply_json({"access_token": "RUNTIME-TOKEN", "token_type": "bearer"})
        told.append(kept == ["RUNTIME-TOKEN"])
        return reply_json({})

    async with serve(answer) as server:
        oauth = {"token_url": f"{server.url}/token", "client_id": "me", "client_secret": "s"}
        settings = {"base_url": server.url, "private": True, "auth": {"oauth": oauth}}
        (tmp_path / "api").write_text(json.dumps(with_parameters()))
        shop = Workshop(Sandboxes(), tmp_path, keep_secret=kept.append)
        async with factory("api", {"spec": "api", **settings}, shop) as provider:
            [spec] = await provider.list_tools()
            await provider.execute(ToolContext(tool=spec.name, spec=spec))
    assert told == [True]
