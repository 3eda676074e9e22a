"""What of a document is used, what is left out and why, and what is a mistake."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.core.schema import MAX_BYTES, admit, compile_schema
from toolcrib.errors import ConfigError
from toolcrib.providers.openapi.document import Document
from toolcrib.providers.openapi.provider import OpenApiProvider, factory
from toolcrib.providers.openapi.schemas import SchemaWriter


class Folder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sandbox(self, name: str | None = None) -> Any:
        raise AssertionError("no sandbox is needed")

    def file(self, path: str) -> Path:
        return self.folder / path

    def keep_secret(self, text: str) -> None:
        raise AssertionError("no token is fetched")


def document(paths: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"openapi": "3.0.3", "paths": paths, **more}


async def entered(tmp_path: Path, doc: Any, **settings: Any) -> OpenApiProvider:
    (tmp_path / "api").write_text(doc if isinstance(doc, str) else json.dumps(doc))
    given = {"spec": "api", "base_url": "https://api.example.com", **settings}
    async with factory("api", given, Folder(tmp_path)) as made:
        return made


async def names(tmp_path: Path, doc: Any, **settings: Any) -> list[str]:
    made = await entered(tmp_path, doc, **settings)
    return [spec.name for spec in await made.list_tools()]


REFER = {"$ref": "other.json#/x"}
PATH = {"name": "a", "in": "path", "required": True, "schema": {}}
SKIPPED: dict[str, tuple[dict[str, Any], str]] = {
    "file": ({"parameters": [REFER]}, "'other.json#/x', outside of the document"),
    "remote": ({"parameters": [{"$ref": "http://evil/x"}]}, "outside of the document"),
    "absolute": ({"parameters": [{"$ref": "/etc/passwd"}]}, "outside of the document"),
    "nothing": ({"parameters": [{"$ref": "#/no/where"}]}, "points at nothing"),
    "circle": ({"parameters": [{"$ref": "#/x-circle"}]}, "lead in circles"),
    "schema-file": ({"parameters": [{**PATH, "schema": REFER}]}, "outside"),
    "matrix": ({"parameters": [{**PATH, "style": "matrix"}]}, "the style 'matrix'"),
    "xml": (
        {"parameters": [{"name": "a", "in": "query", "content": {"application/xml": {}}}]},
        "'application/xml'",
    ),
    "place": ({"parameters": [{"name": "a", "in": "body"}]}, "in 'body'"),
    "host": ({"parameters": [{"name": "Host", "in": "header"}]}, "cannot be set"),
    "undescribed": ({"parameters": []}, "no parameter says what that is"),
    "multipart": (
        {"parameters": [PATH], "requestBody": {"content": {"multipart/form-data": {}}}},
        "'multipart/form-data'; JSON, a form or text is needed",
    ),
    "server": (
        {"parameters": [PATH], "servers": [{"url": "https://evil.example"}]},
        "evil.example is not on the list of allowed hosts",
    ),
    "server-variable": (
        {"parameters": [PATH], "servers": [{"url": "https://{h}.example"}]},
        "no default for it",
    ),
    "schema": (
        {"parameters": [{**PATH, "schema": {"type": "string", "minLength": -1}}]},
        "its schema cannot be used",
    ),
    "not-an-object": ({"parameters": ["a"]}, "where an object is expected"),
}


@pytest.mark.parametrize("name", SKIPPED)
async def test_what_cannot_be_a_tool_is_reported(tmp_path: Path, name: str) -> None:
    operation, why = SKIPPED[name]
    doc = document(
        {"/x/{a}": {"post": operation}, "/good": {"get": {"operationId": "good"}}},
        **{"x-circle": {"$ref": "#/x-circle"}},
    )
    made = await entered(tmp_path, doc)
    assert [spec.name for spec in await made.list_tools()] == ["api-good"]
    [(words, reason)] = made.skipped
    assert words == "POST /x/{a}"
    assert why in reason


async def test_a_file_beside_the_document_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"x": {"name": "a", "in": "query", "schema": {}}}')
    made = await entered(tmp_path, document({"/x": {"get": {"parameters": [REFER]}}}))
    assert list(await made.list_tools()) == []
    assert len(made.skipped) == 1


THREE = document(
    {
        "/users": {
            "get": {"operationId": "users/list", "tags": ["users"]},
            "post": {"operationId": "users/create", "tags": ["users", "admin"]},
        },
        "/teams/{id}": {"get": {"parameters": [{**PATH, "name": "id"}], "tags": ["teams"]}},
    }
)

CHOICES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "all": ({}, ["api-users_list", "api-users_create", "api-get_teams_by_id"]),
    "id": ({"include": ["users/*"]}, ["api-users_list", "api-users_create"]),
    "tag": ({"include": "tag:admin"}, ["api-users_create"]),
    "path": ({"include": ["/teams/*"]}, ["api-get_teams_by_id"]),
    "method": ({"include": ["GET /*"]}, ["api-users_list", "api-get_teams_by_id"]),
    "exclude": ({"exclude": ["tag:users"]}, ["api-get_teams_by_id"]),
    "both": ({"include": ["users/*"], "exclude": ["POST /users"]}, ["api-users_list"]),
    "naming": (
        {"naming": "crm.{tag}.{operationId}", "include": ["users/*"]},
        ["crm.users.users_list", "crm.users.users_create"],
    ),
    "naming-path": (
        {"naming": "{name}:{method}_{path}", "include": ["/teams/*"]},
        ["api:get_teams_id"],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
async def test_operations_are_chosen_and_named(tmp_path: Path, name: str) -> None:
    settings, expected = CHOICES[name]
    assert await names(tmp_path, THREE, **settings) == expected


async def test_two_operations_never_share_a_name(tmp_path: Path) -> None:
    doc = document(
        {
            "/a": {"get": {"operationId": "same"}, "put": {"operationId": "Same"}},
            "/b": {"get": {"operationId": "get_c"}},
            "/c": {"get": {}},
        }
    )
    made = await entered(tmp_path, doc)
    listed = [spec.name for spec in await made.list_tools()]
    assert listed == ["api-same", "api-put_a", "api-get_c"]
    assert made.skipped == (("GET /c", "its name api-get_c is taken by GET /b, or looks like it"),)


WRONG: dict[str, tuple[Any, dict[str, Any], str, str]] = {
    "include": (THREE, {"include": ["user/*"]}, "include", "matches no operation"),
    "exclude": (THREE, {"exclude": ["tag:none"]}, "exclude", "matches no operation"),
    "naming": (THREE, {"naming": "{operationID}"}, "naming", "Did you mean {operationId}?"),
    "unknown": (THREE, {"base_uri": "x"}, "base_uri", "Did you mean base_url?"),
    "base": (THREE, {"base_url": "ftp://x"}, "base_url", "neither https nor http"),
    "hosts": (THREE, {"hosts": ["a b"]}, "hosts", "is not a host"),
    "hosts-without-base": (THREE, {"hosts": ["b.example"]}, "base_url", "list the host"),
    "private": (THREE, {"private": "x"}, "private", "Write true"),
    "header": (THREE, {"headers": {"Host": "x"}}, "headers.Host", "sets itself"),
    "header-value": (THREE, {"headers": {"A": "b\n"}}, "headers.A", "cannot be sent"),
    "auth": (THREE, {"auth": {"token": "x"}}, "auth.token", "Known: bearer"),
    "swagger": ({"swagger": "2.0"}, {}, "spec", "Convert it to OpenAPI 3"),
    "version": ({"openapi": "4.0.0"}, {}, "spec", "Use 3.0 or 3.1"),
    "list": ("[]", {}, "spec", "not an OpenAPI document"),
    "not-json": ('{"a":', {}, "spec", "cannot be read"),
    "twice": ('{"a": 1, "a": 2}', {}, "spec", "stands twice"),
    "not-yaml": ("b: 1\na: [", {}, "spec", "api:2:5: this cannot be read as YAML: "),
    "yaml-twice": ("a: 1\na: 2", {}, "spec", "api:2:1: this cannot be read as YAML: "),
    "another-file": ("hello: world", {}, "spec", "no 'openapi: 3.…'. Is it the right file?"),
    "words": ("hello", {}, "spec", "no 'openapi: 3.…'. Is it the right file?"),
    "empty": ("", {}, "spec", "no 'openapi: 3.…'. Is it the right file?"),
    "base-query": (THREE, {"base_url": "https://x.example/?key=s3"}, "base_url", "under auth"),
    "yaml-itself": ("a: &x [*x]", {}, "spec", "nested too deep"),
    "yaml-code": ("a: !!python/object/apply:os.system [id]", {}, "spec", "be read as YAML"),
    "missing": (THREE, {"spec": "none.json"}, "spec", "cannot be read"),
    "no-server": (THREE, {"base_url": None}, "base_url", "Set base_url"),
}


@pytest.mark.parametrize("name", WRONG)
async def test_a_mistake_is_named_with_its_key_and_cure(tmp_path: Path, name: str) -> None:
    doc, settings, key, words = WRONG[name]
    with pytest.raises(ConfigError) as raised:
        await entered(tmp_path, doc, **settings)
    assert raised.value.key == key
    assert words in str(raised.value)


def levels(count: int, written: str) -> str:
    """A text in which each level stands twice for the one before."""
    first = "openapi: 3.0.0\nx-0: &l0 {type: string, a0: 1}"
    more = (f"x-{n}: &l{n} {written.format(n - 1)}" for n in range(1, count))
    return "\n".join([first, *more])


BOMBS = {
    "lists": "[*l{0}, *l{0}]",
    "schemas": "{{type: object, properties: {{a: *l{0}, b: *l{0}}}}}",
    "merges": "{{<<: [*l{0}, *l{0}], a{0}: *l{0}}}",
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_aliases_that_multiply_are_counted_before_they_are_built(
    tmp_path: Path, bomb: str
) -> None:
    use = "paths: {/x: {get: {operationId: op, parameters: [{name: q, in: query, schema: *l"
    doc = f"{levels(40, BOMBS[bomb])}\n{use}39}}]}}}}}}"
    with pytest.raises(ConfigError, match="2,000,000 values: aliases multiply"):
        await names(tmp_path, doc)
    few = f"{levels(6, BOMBS[bomb])}\n{use}5}}]}}}}}}"
    if bomb != "lists":  # a list is no schema
        assert await names(tmp_path, few) == ["api-op"]


async def test_a_schema_over_the_budget_is_not_written_to_its_end(tmp_path: Path) -> None:
    use = "paths: {/x: {get: {operationId: op, parameters: [{name: q, in: query, schema: *l"
    doc = f"{levels(14, BOMBS['schemas'])}\n{use}13}}]}}}}}}"
    made = await entered(tmp_path, doc)
    assert [s.reason for s in made.skipped] == [
        "its schema cannot be used: it has more than 8000 parts"
    ]


def written(schema: Any, version: str = "3.0.0", **components: Any) -> dict[str, Any]:
    doc = Document({"openapi": version, "components": {"schemas": components}}, "t")
    writer = SchemaWriter(doc)
    made = {
        "type": "object",
        "properties": {"v": writer.write(schema)},
        "$defs": writer.definitions,
    }
    admit(made)
    return made


NULLS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "type": ({"type": "string", "nullable": True}, ["a", None], [1]),
    "enum": ({"type": "string", "enum": ["a"], "nullable": True}, ["a", None], ["b"]),
    "enum-alone": ({"enum": ["a"], "nullable": True}, ["a", None], ["b"]),
    "reference": (
        {"allOf": [{"$ref": "#/components/schemas/N"}], "nullable": True},
        [1, None],
        ["a"],
    ),
    "any-of": ({"anyOf": [{"type": "integer"}], "nullable": True}, [1, None], ["a"]),
    "typed-all-of": (
        {"type": "integer", "allOf": [{"minimum": 3, "type": "integer"}], "nullable": True},
        [3, None],
        [2],
    ),
    "bounds": ({"minimum": 1, "exclusiveMinimum": True, "maximum": 3}, [2, 3], [1, 4]),
    "upper": ({"maximum": 3, "exclusiveMaximum": True}, [2], [3]),
    "bounds-false": ({"minimum": 1, "exclusiveMinimum": False}, [1], [0]),
    "beside-ref": ({"$ref": "#/components/schemas/N", "type": "string"}, [1], ["a"]),
    "odd-required": ({"type": "string", "required": True}, ["a"], [1]),
    "file": ({"type": "file"}, ["a", 1], []),
    "look-around": ({"type": "string", "pattern": "^(?!x).*$"}, ["x"], [1]),
    "pattern": ({"type": "string", "pattern": "^a"}, ["ab"], ["b"]),
    "extensions": ({"type": "string", "example": 1, "xml": {}, "x-a": 1}, ["a"], [1]),
}


@pytest.mark.parametrize("name", NULLS)
def test_schemas_of_3_0_mean_the_same(name: str) -> None:
    schema, good, bad = NULLS[name]
    validator = compile_schema(written(schema, N={"type": "integer"}))
    for value in good:
        assert validator.is_valid({"v": value}), value
    for value in bad:
        assert not validator.is_valid({"v": value}), value


def test_schemas_of_3_1_are_kept() -> None:
    schema = {"type": ["string", "null"], "const": "a", "prefixItems": [{"type": "integer"}]}
    assert written(schema, "3.1.0")["properties"]["v"] == schema
    beside = {"$ref": "#/components/schemas/N", "maximum": 5}
    validator = compile_schema(written(beside, "3.1.0", N={"type": "integer"}))
    assert validator.is_valid({"v": 5})
    assert not validator.is_valid({"v": 6})


def test_circular_schemas_are_kept() -> None:
    tree = {
        "type": "object",
        "properties": {"kids": {"type": "array", "items": {"$ref": "#/components/schemas/T"}}},
        "additionalProperties": False,
    }
    validator = compile_schema(written({"$ref": "#/components/schemas/T"}, T=tree))
    assert validator.is_valid({"v": {"kids": [{"kids": []}]}})
    assert not validator.is_valid({"v": {"kids": [{"kids": [{"x": 1}]}]}})


def test_names_that_meet_are_told_apart() -> None:
    doc = {"openapi": "3.0.0", "a": {"N": {"type": "integer"}}, "b": {"N": {"type": "string"}}}
    writer = SchemaWriter(Document(doc, "t"))
    made = writer.write({"anyOf": [{"$ref": "#/a/N"}, {"$ref": "#/b/N"}, {"$ref": "#/a/N"}]})
    assert made == {"anyOf": [{"$ref": f"#/$defs/{n}"} for n in ("N", "N_2", "N")]}
    assert writer.definitions == {"N": {"type": "integer"}, "N_2": {"type": "string"}}


async def test_a_schema_over_the_budget_is_shortened(tmp_path: Path) -> None:
    words = "x" * 280
    chain: dict[str, Any] = {
        f"S{n}": {
            "type": "object",
            "description": words,
            "properties": {
                **{f"p{n}_{k}": {"type": "string", "description": words} for k in range(20)},
                "next": {"$ref": f"#/components/schemas/S{n + 1}"},
            },
        }
        for n in range(200)
    }
    chain["S200"] = {"type": "string"}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    doc = document(
        {"/x": {"post": {"operationId": "op", "requestBody": body}}}, components={"schemas": chain}
    )
    assert len(json.dumps(chain)) > MAX_BYTES
    made = await entered(tmp_path, doc)
    [spec] = await made.list_tools()
    assert made.skipped == ()
    assert spec.annotations == {"schema": "shortened"}
    assert "p0_0" in spec.input_schema["$defs"]["S0"]["properties"]
    admit(spec.input_schema)
