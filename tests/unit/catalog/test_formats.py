"""Tools in the providers' formats: accepted there, and never narrower than the tool itself."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest

from toolcrib.catalog.formats import FORMATS, export
from toolcrib.core.spec import ToolSpec

PROVIDERS = ["openai", "openai-responses", "anthropic", "gemini"]

NODE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
    "required": ["value"],
    "additionalProperties": False,
}
CIRCLE = {
    "type": "object",
    "properties": {"kind": {"const": "circle"}, "radius": {"type": "number", "minimum": 0}},
    "required": ["kind", "radius"],
    "additionalProperties": False,
}
SQUARE = {
    "type": "object",
    "properties": {"kind": {"const": "square"}, "side": {"type": "integer"}},
    "required": ["kind", "side"],
    "additionalProperties": False,
}


def props(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


# One line each: the schema, and arguments that are valid under it.
SCHEMAS: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "flat": (
        {
            **props(
                city={"type": "string", "description": "Where", "minLength": 1},
                days={"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
            ),
            "required": ["city"],
            "additionalProperties": False,
        },
        [{"city": "Rome"}, {"city": "Rome", "days": 14}],
    ),
    "nested": (
        {
            **props(to={"$ref": "#/$defs/Person", "description": "Who gets it"}),
            "$defs": {
                "Person": {**props(name={"type": "string"}, at={"$ref": "#/$defs/Address"})},
                "Address": {**props(street={"type": "string"}), "required": ["street"]},
                "Unused": {"type": "string"},
            },
        },
        [{"to": {"name": "A", "at": {"street": "B"}}}, {}],
    ),
    "recursive": (
        {**props(tree={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}},
        [
            {"tree": {"value": 1}},
            {"tree": {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}},
            {
                "tree": {
                    "value": 1,
                    "children": [
                        {
                            "value": 2,
                            "children": [
                                {
                                    "value": 3,
                                    "children": [
                                        {"value": 4, "children": [{"value": 5, "children": []}]}
                                    ],
                                }
                            ],
                        }
                    ],
                }
            },
        ],
    ),
    "recursive root": (
        {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
        [{"value": 1}, {"value": 1, "children": [{"value": 2}]}],
    ),
    "root in itself": (
        {**props(next={"$ref": "#"}, n={"type": "integer"}), "anyOf": [{"required": ["n"]}, {}]},
        [{"n": 1, "next": {"n": 2, "next": {"n": 3, "next": {"n": 4, "next": {}}}}}],
    ),
    "reference to an anchor and into a list": (
        {
            **props(
                a={"$anchor": "here", "type": "integer"},
                b={"$ref": "#here"},
                c={"$ref": "#/anyOf/1/properties/d"},
            ),
            "anyOf": [{"required": ["a"]}, props(d={"type": "boolean"})],
        },
        [{"a": 1, "b": 2, "c": True}],
    ),
    "unions": (
        props(
            a={"type": ["string", "null"], "minLength": 2},
            b={"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]},
            c={"oneOf": [CIRCLE, SQUARE], "description": "A shape"},
            d={"type": ["integer", "string", "array"], "maximum": 3, "items": {"type": "null"}},
            e={"type": "number", "anyOf": [{"minimum": 5}, {"maximum": 1}]},
        ),
        [
            {"a": None, "b": [1], "c": {"kind": "circle", "radius": 1.5}, "d": "x", "e": 7},
            {"a": "ab", "b": 1, "c": {"kind": "square", "side": 2}, "d": [None], "e": 0.5},
        ],
    ),
    "all of": (
        {
            **props(
                n={"allOf": [{"type": "number", "minimum": 1}, {"type": "integer", "maximum": 5}]}
            ),
            "allOf": [props(m={"type": "string"}), {"required": ["n"]}],
            "unevaluatedProperties": False,
        },
        [{"n": 3, "m": "x"}],
    ),
    "all of two lists": (
        props(
            p={
                "allOf": [
                    {"prefixItems": [{"type": "integer"}]},
                    {"prefixItems": [{}, {"type": "integer"}], "items": {"type": "string"}},
                ]
            }
        ),
        [{"p": [1, 2, "x"]}],
    ),
    "closed over its parts": (
        props(
            o={
                **props(a={"type": "integer"}),
                "if": {"required": ["a"]},
                "then": props(b={}),
                "unevaluatedProperties": False,
            },
            q={**props(a={}), "allOf": [props(b={})], "unevaluatedProperties": False},
        ),
        [{"o": {"a": 1, "b": 2}, "q": {"a": 1, "b": 2}}],
    ),
    "root closed over its parts": (
        {
            "anyOf": [{"if": {"required": ["a"]}, "then": props(a={}, b={})}, props(c={})],
            "unevaluatedProperties": False,
        },
        [{"a": 1, "b": 1}, {"c": 1}],
    ),
    "one and true": (
        {"anyOf": [props(k={"const": 1}), props(k={"const": True})]},
        [{"k": 1}, {"k": True}],
    ),
    "const and enum": (
        props(
            a={"const": "x"},
            b={"enum": ["x", 1, 2.5, None, True, {"y": [1]}]},
            c={"type": "integer", "enum": [1, 2]},
            d={"const": False},
            e={"type": ["string", "null"], "enum": ["on", None]},
        ),
        [
            {"a": "x", "b": {"y": [1]}, "c": 2, "d": False, "e": None},
            {"b": 2.5, "e": "on"},
            {"b": True},
            {"b": None},
        ],
    ),
    "formats and patterns": (
        props(
            mail={"type": "string", "format": "email"},
            when={"type": "string", "format": "date-time"},
            word={"type": "string", "pattern": r"^\p{L}+$", "examples": ["one", "two"]},
            code={"type": "string", "pattern": "^[a-z]{2}$"},
        ),
        [{"mail": "a@b.example", "when": "2024-01-02T03:04:05Z", "word": "äb", "code": "de"}],
    ),
    "numbers": (
        props(
            a={"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10.5},
            b={"type": "number", "exclusiveMinimum": 0, "minimum": -1, "multipleOf": 0.5},
        ),
        [{"a": 1, "b": 0.5}, {"a": 10}],
    ),
    "arrays": (
        props(
            bare={"type": "array"},
            pair={"type": "array", "prefixItems": [{"type": "integer"}, {}], "items": False},
            many={"type": "array", "uniqueItems": True, "contains": {"const": 1}, "items": True},
        ),
        [{"bare": [1, "x"], "pair": [1, 2], "many": [1, "x"]}, {"pair": []}],
    ),
    "objects": (
        {
            **props(
                tags={"type": "object", "additionalProperties": {"type": "string", "maxLength": 9}},
                more={"patternProperties": {"^x-": {}}, "additionalProperties": False},
                word={"patternProperties": {r"^\pL": {}}, "additionalProperties": False},
                some={"minProperties": 1, "propertyNames": {"maxLength": 2}},
                free=True,
                none=False,
            ),
            "dependentRequired": {"tags": ["more", "some"]},
            "if": {"required": ["free"]},
            "then": {"required": ["some"]},
        },
        [{"tags": {"a": "b"}, "more": {"x-1": 1}, "some": {"a": 1}}, {"word": {"ä": 1}}],
    ),
    "root any of": (
        {
            **props(id={"type": "string"}, name={"type": "string"}),
            "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
            "additionalProperties": False,
        },
        [{"id": "1"}, {"name": "n"}],
    ),
    "root one of": (
        {"oneOf": [CIRCLE, {"$ref": "#/$defs/S"}, {"type": "null"}], "$defs": {"S": SQUARE}},
        [{"kind": "circle", "radius": 1}, {"kind": "square", "side": 1}],
    ),
    "root narrowed by some": (
        {
            **props(mode={"enum": ["a", "b"]}, x={"type": "integer"}),
            "anyOf": [props(mode={"const": "a"}), {"required": ["x"]}],
        },
        [{"mode": "b", "x": 1}, {"mode": "a"}],
    ),
    "root not and enum": (
        {
            **props(a={}, b={}),
            "not": {"required": ["a", "b"]},
            "enum": [{"a": 1}, {"b": 2}, {}],
        },
        [{"a": 1}, {}],
    ),
    "old draft": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "id": "http://example.com/old",
            **props(
                n={"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                p={"type": "array", "items": [{"type": "string"}], "additionalItems": False},
                q={"$ref": "#/definitions/Q", "maxLength": 1},
            ),
            "definitions": {"Q": {"type": "string"}},
            "dependencies": {"n": ["p"]},
        },
        [{"n": 1, "p": ["x"], "q": "long"}],
    ),
    "odd property names": (
        {
            **props(**{"$top": {"type": "integer"}, "filter[id]": {"type": "string"}, "ok": {}}),
            "required": ["$top", "ok"],
            "additionalProperties": False,
        },
        [{"$top": 1, "ok": 1}, {"$top": 1, "ok": 1, "filter[id]": "x"}],
    ),
    "properties called like keywords": (
        props(**{"$ref": {"type": "string"}, "anyOf": {"const": 1}, "pattern": {"type": "array"}}),
        [{"$ref": "x", "anyOf": 1, "pattern": []}],
    ),
    "empty": ({}, [{}, {"anything": 1}]),
    "no arguments": ({**props(), "additionalProperties": False}, [{}]),
}
TABLE = [pytest.param(*row, id=name) for name, row in SCHEMAS.items()]


def one(format: str, schema: Any, **fields: Any) -> dict[str, Any]:
    (made,) = export([ToolSpec(**{"name": "t", "input_schema": schema, **fields})], format)
    return made


def schema_in(made: dict[str, Any]) -> dict[str, Any]:
    """The arguments' schema of an entry, wherever its format keeps it."""
    inner = made.get("function", made)
    for key in ("parameters", "input_schema", "parametersJsonSchema", "inputSchema"):
        if key in inner:
            return inner[key]
    return {"type": "object", "additionalProperties": False}


def below(schema: Any) -> list[dict[str, Any]]:
    """Every schema in `schema`, itself included; names of properties are not keywords."""
    found: list[dict[str, Any]] = []
    if isinstance(schema, dict):
        found.append(schema)
        for key, value in schema.items():
            if key in ("properties", "patternProperties", "$defs", "dependentSchemas"):
                for part in value.values():
                    found += below(part)
            elif key in ("anyOf", "allOf", "oneOf", "prefixItems"):
                for part in value:
                    found += below(part)
            elif key not in ("enum", "const", "default", "examples"):
                found += below(value)
    return found


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("schema", "valid"), TABLE)
class TestEveryFormat:
    def test_takes_what_the_tool_takes(
        self, format: str, schema: dict[str, Any], valid: list[Any]
    ) -> None:
        original = jsonschema_rs.validator_for(schema)
        exported = jsonschema_rs.validator_for(schema_in(one(format, schema)))
        for arguments in valid:
            original.validate(arguments)
            exported.validate(arguments)

    def test_is_json_with_an_object_at_its_root(
        self, format: str, schema: dict[str, Any], valid: list[Any]
    ) -> None:
        made = one(format, schema, description="Does it")
        assert json.loads(json.dumps(made)) == made
        assert schema_in(made)["type"] == "object"

    def test_leaves_the_original_alone(
        self, format: str, schema: dict[str, Any], valid: list[Any]
    ) -> None:
        before = json.dumps(schema)
        spec = ToolSpec(name="t", input_schema=schema, output_schema=schema)
        first, second = FORMATS[format](spec), FORMATS[format](spec)
        for part in below(schema_in(first)):
            part["spoiled"] = True
        first["spoiled"] = True
        assert json.dumps(schema) == before
        assert second == FORMATS[format](spec)


@pytest.mark.parametrize(("schema", "valid"), TABLE)
class TestAcceptedSubset:
    @pytest.mark.parametrize("format", PROVIDERS)
    def test_no_composition_at_the_root(
        self, format: str, schema: dict[str, Any], valid: list[Any]
    ) -> None:
        root = schema_in(one(format, schema))
        assert not root.keys() & {"anyOf", "oneOf", "allOf", "enum", "const", "not", "$ref"}
        assert not root.keys() & {"$schema", "$id", "id"}

    @pytest.mark.parametrize("format", ["openai", "openai-responses"])
    def test_openai(self, format: str, schema: dict[str, Any], valid: list[Any]) -> None:
        root = schema_in(one(format, schema))
        assert "properties" in root
        for part in below(root):
            if "array" in str(part.get("type")):
                assert isinstance(part["items"], dict)
            for pattern in [part.get("pattern", ""), *part.get("patternProperties", {})]:
                re.compile(pattern)

    def test_anthropic(self, schema: dict[str, Any], valid: list[Any]) -> None:
        root = schema_in(one("anthropic", schema))
        jsonschema_rs.meta.validate(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", **root}
        )
        for part in below(root):
            for name in part.get("properties", {}):
                assert re.fullmatch("[a-zA-Z0-9_.-]{1,64}", name)

    def test_gemini(self, schema: dict[str, Any], valid: list[Any]) -> None:
        understood = {"type", "title", "description", "format", "enum", "anyOf", "properties"}
        understood |= {"required", "additionalProperties", "items", "prefixItems", "minItems"}
        understood |= {"maxItems", "minimum", "maximum"}
        for part in below(schema_in(one("gemini", schema))):
            assert part.keys() <= understood
            assert isinstance(part.get("type", ""), str)
            assert part.get("format", "date-time") == "date-time"
            if "enum" in part:
                assert part["type"] in ("string", "integer", "number")
            if "anyOf" in part:
                assert part.keys() <= {"anyOf", "title", "description"}

    @pytest.mark.parametrize("format", ["openai", "openai-responses", "anthropic"])
    def test_references_lead_somewhere_and_all_definitions_are_used(
        self, format: str, schema: dict[str, Any], valid: list[Any]
    ) -> None:
        root = schema_in(one(format, schema))
        refs = {part["$ref"] for part in below(root) if isinstance(part.get("$ref"), str)}
        names = {f"#/$defs/{name}" for name in root.get("$defs", {})}
        assert refs <= names
        assert not any(part.keys() & {"definitions", "$anchor"} for part in below(root))
        assert "#/$defs/Unused" not in names
