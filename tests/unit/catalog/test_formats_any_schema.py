"""Any schema in the providers' formats: what the tool takes, its export takes."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.catalog.formats import export
from toolcrib.core.spec import ToolSpec

PROVIDERS = ["openai", "openai-responses", "anthropic", "gemini"]


def one(format: str, schema: Any) -> dict[str, Any]:
    (made,) = export([ToolSpec(name="t", input_schema=schema)], format)
    return made


def schema_in(made: dict[str, Any]) -> dict[str, Any]:
    """The arguments' schema of an entry, wherever its format keeps it."""
    inner = made.get("function", made)
    for key in ("parameters", "input_schema", "parametersJsonSchema", "inputSchema"):
        if key in inner:
            return inner[key]
    return {"type": "object", "additionalProperties": False}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 4) | st.sampled_from([0.5, 2.0, "", "x", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=4,
)
TYPES = ["string", "integer", "number", "boolean", "null", "array", "object"]


def some(options: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.lists(st.sampled_from(sorted(options)), max_size=3, unique=True).flatmap(
        lambda keys: st.fixed_dictionaries({key: options[key] for key in keys})
    )


LEAVES = some(
    {
        "type": st.sampled_from(TYPES)
        | st.lists(st.sampled_from(TYPES), min_size=2, max_size=2, unique=True),
        "const": VALUES,
        "minimum": st.integers(-1, 2),
        "exclusiveMinimum": st.sampled_from([-1, 0, 0.5]),
        "exclusiveMaximum": st.sampled_from([2, 3.5]),
        "maxLength": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "required": st.lists(st.sampled_from("abc"), max_size=2, unique=True),
        "$ref": st.sampled_from(["#/$defs/D", "#/properties/a"]),
    }
)


def branches(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    listed = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    joined = some(
        {
            "allOf": listed,
            "anyOf": listed,
            "oneOf": listed,
            "prefixItems": listed,
            "items": inner,
            "contains": inner,
            "not": inner,
            "if": inner,
            "then": inner,
            "properties": named,
            "additionalProperties": inner,
            "unevaluatedProperties": st.just(False),
            "patternProperties": st.fixed_dictionaries({"^[bc]": inner}),
            "dependentSchemas": st.fixed_dictionaries({"a": inner}),
        }
    )
    return st.builds(lambda one, two: {**one, **two}, LEAVES, joined)


ANY = st.recursive(LEAVES | st.booleans(), branches, max_leaves=6)
ROOTS = st.builds(
    lambda own, rest, definition: {
        **(rest if isinstance(rest, dict) else {}),
        "type": "object",
        "properties": own,
        "$defs": {"D": definition},
    },
    st.fixed_dictionaries(dict.fromkeys("abc", ANY)),
    ANY,
    ANY,
)
ARGUMENTS = st.lists(st.dictionaries(st.sampled_from("abc"), VALUES), min_size=5, max_size=10)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(ROOTS, ARGUMENTS)
def test_what_a_tool_takes_is_never_refused_by_its_export(
    schema: dict[str, Any], arguments: list[dict[str, Any]]
) -> None:
    try:
        original = jsonschema_rs.validator_for(schema)
        valid = [value for value in arguments if original.is_valid(value)]
    except ValueError:
        return  # A loop of references is no schema.
    for provider in PROVIDERS:
        exported = jsonschema_rs.validator_for(schema_in(one(provider, schema)))
        for value in valid:
            exported.validate(value)
