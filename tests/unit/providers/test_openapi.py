"""Tools from an OpenAPI document: what they are, what they send, and what is left out."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from loopback import Seen, reply, reply_json, serve
from toolcrib.core.context import ToolContext
from toolcrib.core.protocols import Sandbox
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import ConfigError, Denial, ToolFailure
from toolcrib.providers.openapi.provider import OpenApiProvider, factory
from toolcrib.testing.contracts.provider import ProviderContract


class Folder:
    """A workshop that knows only its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sandbox(self, name: str | None = None) -> Sandbox:
        raise AssertionError("no sandbox is needed")

    def file(self, path: str) -> Path:
        return self.folder / path

    def keep_secret(self, text: str) -> None:
        raise AssertionError("no token is fetched")


def document(paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": paths, **more}


def provider(tmp_path: Path, doc: Any, **settings: Any) -> OpenApiProvider:
    text = doc if isinstance(doc, str) else json.dumps(doc)
    (tmp_path / "api.json").write_text(text)
    given = {"spec": "api.json", "base_url": "https://api.example.com/v1", **settings}
    return factory("api", given, Folder(tmp_path))


async def listed(tmp_path: Path, doc: Any, **settings: Any) -> dict[str, ToolSpec]:
    async with provider(tmp_path, doc, **settings) as made:
        return {spec.name: spec for spec in await made.list_tools()}


USERS = document(
    {
        "/users/{id}": {
            "parameters": [
                {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
            ],
            "get": {
                "operationId": "users/get",
                "summary": "Get a user",
                "description": "All about one user.",
                "tags": ["users"],
                "parameters": [{"name": "full", "in": "query", "schema": {"type": "boolean"}}],
            },
            "delete": {"operationId": "users/delete", "deprecated": True},
            "patch": {
                "requestBody": {
                    "required": True,
                    "description": "The changes.",
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/User"}}
                    },
                }
            },
        }
    },
    components={
        "schemas": {
            "User": {
                "type": "object",
                "required": ["name", "created"],
                "properties": {
                    "name": {"type": "string", "nullable": True},
                    "created": {"type": "string", "readOnly": True},
                    "private": {"type": "boolean", "default": False},
                    "age": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "boss": {"$ref": "#/components/schemas/User"},
                },
            }
        }
    },
)


async def test_operations_become_tools(tmp_path: Path) -> None:
    specs = await listed(tmp_path, USERS)
    assert list(specs) == ["api-users_get", "api-users_delete", "api-patch_users_by_id"]
    get = specs["api-users_get"]
    assert (get.kind, get.title) == ("openapi", "Get a user")
    assert get.description == "Get a user\n\nAll about one user."
    assert get.tags == {"users"}
    assert get.input_schema == {
        "type": "object",
        "properties": {"id": {"type": "string"}, "full": {"type": "boolean"}},
        "required": ["id"],
        "additionalProperties": False,
    }
    assert (get.effects, get.idempotent) == ({"read"}, True)
    delete = specs["api-users_delete"]
    assert delete.description.startswith("Deprecated. ")
    assert (delete.effects, delete.idempotent) == ({"write", "destructive", "egress"}, True)
    patch = specs["api-patch_users_by_id"]
    assert (patch.effects, patch.idempotent) == ({"write", "egress"}, False)


async def test_schemas_are_brought_up_to_date(tmp_path: Path) -> None:
    schema = (await listed(tmp_path, USERS))["api-patch_users_by_id"].input_schema
    assert schema["required"] == ["id", "body"]
    assert schema["properties"]["body"] == {
        "$ref": "#/$defs/User",
        "description": "The changes.",
    }
    assert schema["$defs"]["User"] == {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": ["string", "null"]},
            "private": {"type": "boolean", "description": "Default: false."},
            "age": {"type": "integer", "exclusiveMinimum": 0},
            "boss": {"$ref": "#/$defs/User"},
        },
    }


async def test_a_default_is_told_and_never_sent(tmp_path: Path) -> None:
    """A host fills in what a schema gives as default; a PATCH would reset what the caller left."""
    from toolcrib.core.schema import fill_defaults

    for spec in (await listed(tmp_path, USERS)).values():
        assert '"default"' not in json.dumps(spec.input_schema)
        assert fill_defaults(spec.input_schema) is None


def one(parameters: list[Any], path: str = "/x", method: str = "get", **more: Any) -> Any:
    return document({path: {method: {"operationId": "op", "parameters": parameters, **more}}})


@asynccontextmanager
async def running(
    tmp_path: Path, doc: Any, **settings: Any
) -> AsyncIterator[tuple[OpenApiProvider, list[Seen]]]:
    async with serve(lambda _: reply_json({"ok": True})) as server:
        given = {"base_url": server.url + "/v1/", "private": True, **settings}
        async with provider(tmp_path, doc, **given) as made:
            yield made, server.seen


async def call(made: OpenApiProvider, name: str, arguments: Mapping[str, Any]) -> Any:
    spec = next(s for s in await made.list_tools() if s.name == name)
    return await made.execute(ToolContext(tool=name, spec=spec, arguments=arguments))


STYLES: dict[str, tuple[dict[str, Any], Any, str]] = {
    "scalar": ({}, "a b", "v=a%20b"),
    "boolean": ({}, True, "v=true"),
    "list": ({}, ["a", "b&c"], "v=a&v=b%26c"),
    "list-joined": ({"explode": False}, ["a", "b,c"], "v=a,b%2Cc"),
    "list-spaces": ({"style": "spaceDelimited", "explode": False}, ["a", "b"], "v=a%20b"),
    "list-pipes": ({"style": "pipeDelimited", "explode": False}, ["a", "b"], "v=a%7Cb"),
    "list-empty": ({"explode": False}, [], ""),
    "object": ({}, {"r": 1, "g": "x"}, "r=1&g=x"),
    "object-joined": ({"explode": False}, {"r": 1, "g": 2}, "v=r,1,g,2"),
    "object-deep": (
        {"style": "deepObject"},
        {"r": 1, "g": {"h": [2, 3]}},
        "v%5Br%5D=1&v%5Bg%5D%5Bh%5D=2&v%5Bg%5D%5Bh%5D=3",
    ),
    "json": (
        {"content": {"application/json": {"schema": {}}}},
        {"a": [1]},
        "v=%7B%22a%22%3A%5B1%5D%7D",
    ),
    "null": ({}, None, ""),
}


@pytest.mark.parametrize("name", STYLES)
async def test_how_a_query_parameter_is_written(tmp_path: Path, name: str) -> None:
    more, value, text = STYLES[name]
    about = {"name": "v", "in": "query", **({} if "content" in more else {"schema": {}}), **more}
    async with running(tmp_path, one([about])) as (made, seen):
        await call(made, "api-op", {"v": value})
    assert seen[0].target == "/v1/x" + ("?" + text if text else "")


@pytest.mark.parametrize(
    ("value", "explode", "text"),
    [
        ("a b", False, "a%20b"),
        (["a", "b"], False, "a,b"),
        ({"r": 1, "g": 2}, False, "r,1,g,2"),
        ({"r": 1, "g": 2}, True, "r=1,g=2"),
        ("{v}", False, "%7Bv%7D"),
    ],
)
async def test_how_a_path_parameter_is_written(
    tmp_path: Path, value: Any, explode: bool, text: str
) -> None:
    about = {"name": "v", "in": "path", "required": True, "explode": explode, "schema": {}}
    async with running(tmp_path, one([about], "/x/{v}/y")) as (made, seen):
        await call(made, "api-op", {"v": value})
    assert seen[0].target == f"/v1/x/{text}/y"


@pytest.mark.parametrize("value", ["..", "a/b", "", ".", "a\\b", ["a", ".."], {"..": 1}])
async def test_a_path_parameter_leads_nowhere_else(tmp_path: Path, value: Any) -> None:
    about = {"name": "v", "in": "path", "required": True, "schema": {}}
    async with running(tmp_path, one([about], "/x/{v}")) as (made, seen):
        with pytest.raises(Denial) as raised:
            await call(made, "api-op", {"v": value})
    assert raised.value.reason == "url_not_allowed"
    assert seen == []


async def test_a_path_of_several_segments_where_the_document_says_so(tmp_path: Path) -> None:
    about = {"name": "p", "in": "path", "required": True, "x-multi-segment": True, "schema": {}}
    async with running(tmp_path, one([about], "/c/{p}")) as (made, seen):
        await call(made, "api-op", {"p": "a/b c"})
        with pytest.raises(Denial):
            await call(made, "api-op", {"p": "a/../b"})
    assert [s.target for s in seen] == ["/v1/c/a/b%20c"]


async def test_headers_and_cookies(tmp_path: Path) -> None:
    doc = one(
        [
            {"name": "X-Ids", "in": "header", "schema": {}},
            {"name": "session", "in": "cookie", "schema": {}},
            {"name": "mode", "in": "cookie", "schema": {}},
            {"name": "Authorization", "in": "header", "schema": {}},
            {"name": "Accept", "in": "header", "schema": {}},
        ]
    )
    async with running(tmp_path, doc, headers={"X-Own": "1"}) as (made, seen):
        [spec] = await made.list_tools()
        assert list(spec.input_schema["properties"]) == ["X-Ids", "session", "mode"]
        await call(made, "api-op", {"X-Ids": [1, 2], "session": "a b;c", "mode": "x"})
        with pytest.raises(Denial):
            await call(made, "api-op", {"X-Ids": "a\r\nX-Evil: 1"})
    assert seen[0].headers["x-ids"] == "1,2"
    assert seen[0].headers["cookie"] == "session=a%20b%3Bc; mode=x"
    assert seen[0].headers["x-own"] == "1"


BODIES: dict[str, tuple[str, Any, bytes]] = {
    "json": ("application/json", {"a": [1, None]}, b'{"a":[1,null]}'),
    "vendor": ("application/vnd.x+json", [1], b"[1]"),
    "form": ("application/x-www-form-urlencoded", {"a": "1&2", "b": [1, 2]}, b"a=1%262&b=1&b=2"),
    "text": ("text/plain", "hello", b"hello"),
}


@pytest.mark.parametrize("name", BODIES)
async def test_how_a_body_is_written(tmp_path: Path, name: str) -> None:
    kind, value, data = BODIES[name]
    content = {"content": {"image/png": {}, kind: {"schema": {}}}}
    async with running(tmp_path, one([], method="post", requestBody=content)) as (made, seen):
        await call(made, "api-op", {"body": value})
        await call(made, "api-op", {})
    assert (seen[0].method, seen[0].headers["content-type"], seen[0].body) == ("POST", kind, data)
    assert (seen[1].body, seen[1].headers.get("content-type")) == (b"", None)


async def test_arguments_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    doc = one(
        [
            {"name": "id", "in": "path", "required": True, "schema": {}},
            {"name": "id", "in": "query", "schema": {}},
            {"name": "body", "in": "query", "schema": {}},
            {"name": "filter[name]", "in": "query", "schema": {}},
        ],
        "/x/{id}",
        "post",
        requestBody={"content": {"application/json": {"schema": {}}}},
    )
    async with running(tmp_path, doc) as (made, seen):
        [spec] = await made.list_tools()
        assert list(spec.input_schema["properties"]) == [
            "id",
            "id_query",
            "body",
            "filter_name",
            "body_request",
        ]
        given = {"id": 1, "id_query": 2, "body": 3, "filter_name": 4, "body_request": 5}
        await call(made, "api-op", given)
    assert (seen[0].target, seen[0].body) == ("/v1/x/1?id=2&body=3&filter%5Bname%5D=4", b"5")


async def test_credentials_come_from_the_provider_only(tmp_path: Path) -> None:
    async with running(tmp_path, one([]), auth={"bearer": "s3cret"}) as (made, seen):
        await call(made, "api-op", {})
        assert "s3cret" not in repr([spec.to_dict() for spec in await made.list_tools()])
    assert seen[0].headers["authorization"] == "Bearer s3cret"


async def test_a_failure_has_its_status(tmp_path: Path) -> None:
    async with serve(lambda _: reply("gone", 410)) as server:
        settings = {"base_url": server.url, "private": True}
        async with provider(tmp_path, one([]), **settings) as made:
            with pytest.raises(ToolFailure) as raised:
                await call(made, "api-op", {})
    assert raised.value.details == {"status": 410, "body": "gone"}


async def test_a_document_is_read_from_a_url(tmp_path: Path) -> None:
    def answer(seen: Seen) -> bytes:
        if seen.path == "/docs/api.yaml":
            return reply(
                "openapi: 3.1.0\nservers: [{url: ../v2}]\npaths:\n  /x:\n    get:\n"
                "      operationId: op\n      responses: {200: {description: fine}}\n"
            )
        return reply_json(seen.path)

    async with serve(answer) as server:
        settings = {"spec": f"{server.url}/docs/api.yaml", "private": True}
        async with factory("api", settings, Folder(tmp_path)) as made:
            assert await call(made, "api-op", {}) == "/v2/x"


async def test_a_document_from_elsewhere_does_not_choose_who_is_told_our_credentials(
    tmp_path: Path,
) -> None:
    async with serve(lambda _: reply_json({})) as other:
        doc = {**one([]), "servers": [{"url": other.url}]}
        async with serve(lambda _: reply_json(doc)) as server:
            settings = {"spec": server.url, "private": True, "auth": {"bearer": "s3cret"}}
            with pytest.raises(ConfigError, match="Set base_url, or list the host"):
                async with factory("api", settings, Folder(tmp_path)):
                    pass
            allowed = {**settings, "hosts": [f"127.0.0.1:{other.port}"]}
            async with factory("api", allowed, Folder(tmp_path)) as made:
                await call(made, "api-op", {})
    assert len(other.seen) == 1


async def test_the_addresses_of_a_document_are_guarded(tmp_path: Path) -> None:
    async with serve(lambda _: reply_json(one([]))) as server:
        with pytest.raises(Denial) as raised:
            async with factory("api", {"spec": server.url}, Folder(tmp_path)):
                pass
        with pytest.raises(ConfigError, match="private: true"):
            async with provider(tmp_path, one([]), base_url=server.url):
                pass
    assert raised.value.reason == "address_not_public"
    assert server.connections == 0


class TestOpenApiProvider(ProviderContract):
    @pytest.fixture(autouse=True)
    async def world(self, tmp_path: Path) -> AsyncIterator[None]:
        def answer(seen: Seen) -> bytes:
            return reply_json({"path": seen.path}) if seen.path == "/users/1" else reply("no", 404)

        self.folder = tmp_path
        async with serve(answer) as server:
            self.url = server.url
            yield

    def make(self) -> OpenApiProvider:
        return provider(self.folder, USERS, base_url=self.url, private=True)

    def good_call(self) -> tuple[str, Mapping[str, Any]]:
        return "api-users_get", {"id": "1"}

    def failing_call(self) -> tuple[str, Mapping[str, Any]]:
        return "api-users_get", {"id": "2"}
