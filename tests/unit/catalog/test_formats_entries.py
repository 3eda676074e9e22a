"""Tools in the providers' formats, word by word."""

from __future__ import annotations

import json
import re
from types import MappingProxyType
from typing import Any

import pytest

from toolcrib.catalog.formats import FORMATS, export
from toolcrib.catalog.formats.openai import LONGEST
from toolcrib.core.names import wire_name
from toolcrib.core.spec import ToolSpec

PROVIDERS = ["openai", "openai-responses", "anthropic", "gemini"]


def props(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


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


FLAT = {
    **props(
        city={"type": "string", "description": "Where", "minLength": 1},
        days={"type": "integer", "minimum": 1, "maximum": 14, "default": 3},
    ),
    "required": ["city"],
    "additionalProperties": False,
}
NESTED = {
    **props(to={"$ref": "#/$defs/Person", "description": "Who gets it"}),
    "$defs": {
        "Person": props(name={"type": "string"}, at={"$ref": "#/$defs/Address"}),
        "Address": {**props(street={"type": "string"}), "required": ["street"]},
    },
}
RECURSIVE = {**props(tree={"$ref": "#/$defs/Node"}), "$defs": {"Node": NODE}}
UNION = {"oneOf": [CIRCLE, {"$ref": "#/$defs/S"}, {"type": "null"}], "$defs": {"S": SQUARE}}
REFUSING = {**props(a={}, b={}), "not": {"required": ["a", "b"]}, "enum": [{"a": 1}, {"b": 2}, {}]}
PATTERNS = props(
    word={"type": "string", "pattern": r"^\p{L}+$"},
    code={"type": "string", "pattern": "^[a-z]{2}$"},
)
ODD = {
    **props(**{"$top": {"type": "integer"}, "filter[id]": {"type": "string"}, "ok": {}}),
    "required": ["$top", "ok"],
    "additionalProperties": False,
}
REFERENCES = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **props(a={"$anchor": "here", "type": "integer"}, b={"$ref": "#here"}),
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}


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


FORECAST = ToolSpec(
    name="weather.forecast",
    title="Forecast",
    description="The weather of the next days.",
    input_schema=FLAT,
    output_schema={"type": "object", "properties": {"text": {"type": "string"}}},
    effects=frozenset({"read"}),
)
WIRE = wire_name("weather.forecast")


class TestWholeEntries:
    def test_openai(self) -> None:
        assert FORMATS["openai"](FORECAST) == {
            "type": "function",
            "function": {
                "name": WIRE,
                "description": "The weather of the next days.",
                "parameters": FLAT,
            },
        }

    def test_openai_responses(self) -> None:
        assert FORMATS["openai-responses"](FORECAST) == {
            "type": "function",
            "name": WIRE,
            "description": "The weather of the next days.",
            "parameters": FLAT,
            "strict": False,
        }

    def test_anthropic(self) -> None:
        assert FORMATS["anthropic"](FORECAST) == {
            "name": WIRE,
            "description": "The weather of the next days.",
            "input_schema": FLAT,
        }

    def test_gemini(self) -> None:
        assert FORMATS["gemini"](FORECAST) == {
            "name": WIRE,
            "description": "The weather of the next days.",
            "parametersJsonSchema": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Where. At least 1 character."},
                    "days": {
                        "type": "integer",
                        "description": "Default 3.",
                        "minimum": 1,
                        "maximum": 14,
                    },
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        }

    def test_mcp(self) -> None:
        assert FORMATS["mcp"](FORECAST) == {
            "name": WIRE,
            "title": "Forecast",
            "description": "The weather of the next days.",
            "inputSchema": FLAT,
            "outputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
            "annotations": {
                "readOnlyHint": True,
                "destructiveHint": False,
                "idempotentHint": True,
                "openWorldHint": False,
            },
        }

    def test_a_union_at_the_root_becomes_one_object_and_a_sentence(self) -> None:
        assert schema_in(one("openai", UNION)) == {
            "type": "object",
            "description": "Exactly one of these sets of arguments is needed: "
            '(`kind` = "circle", `radius`) or (`kind` = "square", `side`).',
            "properties": {
                "kind": {"enum": ["circle", "square"]},
                "radius": {"type": "number", "minimum": 0},
                "side": {"type": "integer"},
            },
            "required": ["kind"],
            "additionalProperties": False,
            "$defs": {"S": SQUARE},
        }

    def test_gemini_writes_references_out(self) -> None:
        assert schema_in(one("gemini", NESTED)) == {
            "type": "object",
            "properties": {
                "to": {
                    "type": "object",
                    "description": "Who gets it",
                    "properties": {
                        "name": {"type": "string"},
                        "at": {
                            "type": "object",
                            "properties": {"street": {"type": "string"}},
                            "required": ["street"],
                        },
                    },
                }
            },
        }


class TestNothingIsLostSilently:
    @pytest.mark.parametrize(
        ("schema", "words"),
        [
            ({"type": "string", "minLength": 1, "maxLength": 5}, "At least 1 character; at most 5"),
            ({"type": "string", "pattern": "^a"}, "Matches the pattern `^a`."),
            ({"type": "string", "format": "email"}, "Format email."),
            ({"type": "number", "exclusiveMinimum": 0}, "More than 0."),
            ({"type": "number", "multipleOf": 5}, "A multiple of 5."),
            ({"type": "array", "uniqueItems": True}, "No item twice."),
            ({"type": "boolean", "const": True}, "Exactly true."),
            ({"not": {"type": "null"}}, 'Must not match {"type":"null"}.'),
            ({"type": "string", "examples": ["x"], "default": "y"}, 'Default "y"; for example "x"'),
            ({"dependentRequired": {"a": ["b", "c"]}}, "`a` needs `b` and `c`."),
            (
                {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
                'If {"required":["a"]} then {"required":["b"]}.',
            ),
            ({"properties": {"a": False}}, "`a` must not be given."),
        ],
    )
    def test_gemini_says_what_it_cannot_check(self, schema: dict[str, Any], words: str) -> None:
        made = schema_in(one("gemini", props(x={**schema, "description": "It is x"})))
        assert made["properties"]["x"]["description"].startswith("It is x. " + words)

    def test_the_shape_of_a_recursion_is_left_open_at_its_end(self) -> None:
        made = schema_in(one("gemini", RECURSIVE))
        node = made["properties"]["tree"]
        for _ in range(2):
            last, node = node, node["properties"]["children"]["items"]
        assert node == {"type": "object", "description": "Node again, in the same shape."}
        assert last["required"] == ["value"]

    def test_references_that_multiply_stay_small(self) -> None:
        two = {
            f"D{i}": props(**{n: {"$ref": f"#/$defs/D{i + 1}"} for n in "ab"}) for i in range(30)
        }
        schema = {**props(x={"$ref": "#/$defs/D0"}), "$defs": {**two, "D30": {"type": "string"}}}
        made = schema_in(one("gemini", schema))
        assert len(json.dumps(made)) < 500_000
        assert len(json.dumps(schema_in(one("openai", schema)))) < 10_000

    def test_anthropic_describes_a_property_that_it_cannot_name(self) -> None:
        made = schema_in(one("anthropic", ODD))
        assert made == {
            "type": "object",
            "properties": {"ok": {}},
            "required": ["ok"],
            "description": 'Needs the property "$top": {"type":"integer"}. '
            'Also takes the property "filter[id]": {"type":"string"}.',
        }

    def test_a_pattern_that_openai_cannot_read_is_described(self) -> None:
        made = schema_in(one("openai", PATTERNS))
        assert made["properties"]["word"]["description"] == r"Matches the pattern `^\p{L}+$`."
        assert made["properties"]["code"]["pattern"] == "^[a-z]{2}$"

    @pytest.mark.parametrize("text", ["word " * 500, "x" * 3000])
    def test_a_long_description_goes_on_in_the_parameters(self, text: str) -> None:
        made = one("openai", FLAT, description=text)["function"]
        head, rest = made["description"], made["parameters"]["description"]
        assert len(head) <= LONGEST
        assert head.endswith(" … (continued in the description of the parameters)")
        whole = head.partition(" … ")[0] + rest.removeprefix("… ")
        assert whole.replace(" ", "") == text.replace(" ", "")

    def test_a_description_that_just_fits_is_left_alone(self) -> None:
        made = one("openai-responses", {}, description="x" * LONGEST)
        assert made["description"] == "x" * LONGEST
        assert "description" not in made["parameters"]

    def test_conditions_at_the_root_are_said_together(self) -> None:
        made = schema_in(one("openai", REFUSING))
        assert made["description"] == ('One of {"a":1}, {"b":2}, {}. Never `a` and `b` together.')


class TestNames:
    @pytest.mark.parametrize("format", FORMATS)
    @pytest.mark.parametrize("name", ["a", "x" * 100, "files.read", "ns:tool@1".replace("@", "-")])
    def test_the_wire_name_fits_and_finds_the_tool_again(self, format: str, name: str) -> None:
        specs = [ToolSpec(name=name), ToolSpec(name=name + "_2")]
        index = {spec.wire_name: spec for spec in specs}
        for spec, made in zip(specs, export(specs, format), strict=True):
            shown = made.get("function", made)["name"]
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", shown)
            assert index[shown] is spec

    @pytest.mark.parametrize("format", FORMATS)
    def test_without_a_description(self, format: str) -> None:
        made = one(format, {})
        inner = made.get("function", made)
        # Gemini's field is required.
        assert inner.get("description") == ("t" if format == "gemini" else None)

    def test_a_title_stands_in_for_a_description(self) -> None:
        for provider in PROVIDERS:
            made = one(provider, {}, title="Do it")
            assert made.get("function", made)["description"] == "Do it"

    def test_an_unknown_format_is_refused_with_the_list(self) -> None:
        with pytest.raises(ValueError, match="'yaml' is not a format") as caught:
            export([FORECAST], "yaml")
        assert all(name in str(caught.value) for name in FORMATS)

    def test_specs_keep_their_order(self) -> None:
        specs = [ToolSpec(name=name) for name in ("c", "a", "b")]
        assert [made["name"] for made in export(iter(specs), "anthropic")] == ["c", "a", "b"]

    def test_gemini_has_no_parameters_for_a_tool_without_arguments(self) -> None:
        assert FORMATS["gemini"](ToolSpec(name="t")) == {"name": "t", "description": "t"}

    def test_read_only_mappings_become_plain_ones(self) -> None:
        schema = MappingProxyType({"type": "object", "properties": MappingProxyType({"a": {}})})
        for provider in FORMATS:
            assert json.dumps(one(provider, schema, output_schema=schema))


class TestMcpHints:
    @pytest.mark.parametrize(
        ("effects", "read_only", "destructive", "idempotent", "open_world"),
        [
            (None, False, True, False, True),
            (set(), True, False, True, False),
            ({"read"}, True, False, True, False),
            ({"read", "egress"}, False, False, False, True),
            ({"write"}, False, False, False, False),
            ({"read", "write", "destructive"}, False, True, False, False),
            ({"execute"}, False, True, False, True),
        ],
    )
    def test_hints_follow_the_effects(
        self, effects: Any, read_only: bool, destructive: bool, idempotent: bool, open_world: bool
    ) -> None:
        assert one("mcp", {}, effects=effects)["annotations"] == {
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }

    def test_an_idempotent_write_says_so(self) -> None:
        made = one("mcp", {}, effects={"write"}, idempotent=True)
        assert made["annotations"]["idempotentHint"] is True

    def test_the_schema_stays_as_it_was_written(self) -> None:
        schema = REFERENCES
        assert one("mcp", schema)["inputSchema"] == schema
        assert one("mcp", {"anyOf": [{}]})["inputSchema"] == {"anyOf": [{}], "type": "object"}

    @pytest.mark.parametrize(
        ("output", "shown"),
        [
            (None, False),
            ({"type": "string"}, False),
            ({"type": "object"}, True),
            ({"$ref": "#/$defs/Node", "$defs": {"Node": NODE}}, True),
            ({"$ref": "#/$defs/X", "$defs": {"X": {"type": "array"}}}, False),
        ],
    )
    def test_only_an_object_is_announced_as_output(self, output: Any, shown: bool) -> None:
        made = one("mcp", {}, output_schema=output)
        assert ("outputSchema" in made) is shown
        if shown:
            assert made["outputSchema"] == {**output, "type": "object"}
