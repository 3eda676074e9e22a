from __future__ import annotations

import math
import threading
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core import schema as schemas
from toolcrib.core.schema import (
    Problem,
    Validator,
    admit,
    apply_defaults,
    compile_schema,
    fill_defaults,
)
from toolcrib.core.spec import NO_ARGUMENTS
from toolcrib.errors import SchemaError


def takes(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def exactly(**properties: Any) -> dict[str, Any]:
    return takes(**properties) | {"required": [*properties], "additionalProperties": False}


def multiplied(levels: int, times: int, *, inside: bool) -> dict[str, Any]:
    def step(level: int) -> dict[str, Any]:
        reference = {"$ref": f"#/$defs/l{level}"}
        return {"properties": {"a": reference}} if inside else reference

    parts: dict[str, Any] = {f"l{n}": {"allOf": [step(n + 1)] * times} for n in range(levels)}
    return {"$ref": "#/$defs/l0", "$defs": {**parts, f"l{levels}": {"type": "object"}}}


def deep(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"properties": {"a": inner}}
    return inner


def chained(length: int) -> dict[str, Any]:
    parts = {f"l{n}": {"$ref": f"#/$defs/l{n + 1}"} for n in range(length)}
    return {"$ref": "#/$defs/l0", "$defs": {**parts, f"l{length}": {}}}


def looping() -> dict[str, Any]:
    inner: dict[str, Any] = {}
    inner["default"] = inner
    return takes(a=inner)


def aliased() -> dict[str, Any]:
    words = ["x"] * 1000
    return {f"x-{n}": [words] * 100 for n in range(19)}


MONEY = {"Money": {"type": "object", "properties": {"amount": {"type": "number"}}}}
TREE = takes(left={"$ref": "#"}, right={"$ref": "#"}, value={"type": "integer"})
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


class Kind(StrEnum):
    TEXT = "string"


GOOD: dict[str, Any] = {
    "plain": exactly(a={"type": "integer"}, b={"type": "string", "default": "x"}),
    "empty": {},
    "no arguments": NO_ARGUMENTS,
    "frozen inside": MappingProxyType(takes(a=MappingProxyType({"enum": ("x", "y")}))),
    "enum member": takes(a={"type": Kind.TEXT}),
    "list of one type": {"type": ["object"]},
    "recursive": TREE,
    "shared definition": takes(a={"$ref": "#/$defs/Money"}) | {"$defs": MONEY},
    "percent in a reference": takes(a={"$ref": "#/%24defs/Money"}) | {"$defs": MONEY},
    "anchor": takes(a={"$ref": "#m"}) | {"$defs": {"m": {"$anchor": "m"}}},
    "dynamic anchor": takes(a={"$dynamicRef": "#m"}) | {"$defs": {"m": {"$dynamicAnchor": "m"}}},
    "boolean definition": takes(a={"$ref": "#/$defs/any"}) | {"$defs": {"any": True}},
    "reference to no keyword": takes(a={"$ref": "#/x-y/0"}) | {"x-y": [{"type": "string"}]},
    "properties named like keywords": takes(**{"$ref": {"type": "string"}, "pattern": {}}),
    "reference as data": takes(a={"enum": [{"$ref": "http://elsewhere/"}], "pattern": "x"}),
    "nested quantifiers": takes(a={"pattern": "^(a+)+$"}),
    "many patterns": takes(**{f"p{n}": {"pattern": f"^[a-z-]{{1,63}}{n}$"} for n in range(50)}),
    "draft-07": {"$schema": DRAFT_7, **takes(a={"items": [{}], "additionalItems": False})},
    "draft-04": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        **takes(a={"minimum": 0, "exclusiveMinimum": True}),
    },
    "draft-06": {"$schema": "http://json-schema.org/draft-06/schema#"},
    "2019-09": {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        **takes(a={"$recursiveRef": "#"}),
    },
    "2020-12": {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "http://a/"},
    "moderate expansion": multiplied(3, 4, inside=False),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_schemas_are_admitted_and_compile(name: str) -> None:
    admit(GOOD[name])
    assert compile_schema(GOOD[name]).is_valid({}) or "required" in GOOD[name]


BAD: dict[str, tuple[Any, str, str]] = {
    # name: schema, what stands in the message, what stands in the cure
    "boolean": (True, "must be an object, not true", ""),
    "text": ("{}", "must be an object, not '{}'", ""),
    "not an object": ({"type": "string"}, "input_schema/type: the arguments", '"type": "object"'),
    "maybe an object": ({"type": ["object", "null"]}, "not a list", '"type": "object"'),
    "python type": (takes(a={"type": "int"}), "/properties/a/type: 'int'", 'Write "integer"'),
    "no type": (takes(a={"type": "dict"}), "'dict' is not a type", "integer, number, string"),
    "number as schema": (takes(a=5), "/properties/a: 5 is not", ""),
    "properties": ({"properties": 5}, "/properties: 5 is not an object", ""),
    "list in items": (takes(a={"items": [{}]}), "/a/items: a list is not", "prefixItems"),
    "old bound": (takes(a={"exclusiveMinimum": True}), "exclusiveMinimum: true", "draft-04"),
    "required flag": (takes(a={"required": True}), "/a/required: true is not a list", '["a", "b"]'),
    "negative length": (takes(a={"maxLength": -1}), "maxLength: -1 is less than 0", ""),
    "dialect": ({"$schema": "http://x/"}, "$schema: 'http://x/' is not a known", "2020-12"),
    "dialect type": ({"$schema": 5}, "5 is not a known dialect", "2020-12"),
    "nan": (takes(a={"default": math.nan}), "/a/default: nan is not JSON", ""),
    "infinity": (takes(a={"maximum": math.inf}), "/a/maximum: inf is not JSON", ""),
    "number key": ({"properties": {1: {}}}, "/properties: the key 1 is not text", "Quote"),
    "set": (takes(a={"enum": {1}}), "/a/enum: a value of type set is not JSON", ""),
    "huge number": (takes(a={"default": 10**5000}), "not JSON", ""),
    "half a surrogate": (takes(a={"title": "\ud800"}), "not JSON", ""),
    "look-ahead": (takes(a={"pattern": "(?=x)"}), "/a/pattern: the pattern", "look-around"),
    "look-behind": (takes(a={"pattern": "(?<!x)y"}), "/a/pattern: the pattern", "look-around"),
    "back-reference": (takes(a={"pattern": r"(x)\1"}), "/a/pattern: the pattern", "back-ref"),
    "pattern property": ({"patternProperties": {"(?!x)": {}}}, "/(?!x): the", "look-around"),
    "broken pattern": (takes(a={"pattern": "("}), "the pattern '(' cannot be used", "Correct"),
    "pattern bomb": (takes(a={"pattern": "((a{999}){999}){999}"}), "cannot be used", "smaller"),
    "many large patterns": (
        takes(**{f"p{n}": {"pattern": f"\\S{{{100 + n}}}"} for n in range(900)}),
        "cannot be used",
        "smaller",
    ),
    "pattern behind a reference": (
        takes(a={"$ref": "#/x-y"}) | {"x-y": {"pattern": "(?=x)"}},
        "/x-y/pattern",
        "look-around",
    ),
    "remote": ({"$ref": "http://x/y"}, "/$ref: 'http://x/y' is outside", "$defs"),
    "relative": (takes(a={"$ref": "other.json"}), "'other.json' is outside", "$defs"),
    "remote, unused": ({"$defs": {"a": {"$ref": "http://x/"}}}, "/$defs/a/$ref", "$defs"),
    "remote, dynamic": ({"$dynamicRef": "http://x/y#z"}, "/$dynamicRef", "$defs"),
    "dangling": (
        takes(a={"$ref": "#/$defs/Mony"}) | {"$defs": MONEY},
        "/a/$ref: '#/$defs/Mony' points at nothing",
        "#/$defs/Money?",
    ),
    "dangling anchor": (takes(a={"$ref": "#nowhere"}), "points at nothing", "Define"),
    "reference into a list": (takes(a={"$ref": "#/x"}) | {"x": [1]}, "points at nothing", ""),
    "nonsense behind a reference": (
        takes(a={"$ref": "#/x"}) | {"x": {"properties": 5, "allOf": 7, "patternProperties": 3}},
        "/x/",
        "",
    ),
    "embedded id": (
        takes(a={"$id": "http://q/", "$ref": "#/$defs/z", "$defs": {"z": {}}}),
        '/a/$id: "$id" inside',
        "Remove",
    ),
    "broken id": ({"$id": "^a"}, "cannot be used: Invalid URI", "Correct"),
    "loop": ({"$ref": "#"}, "without end", "property or an item"),
    "loop of two": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        "without end",
        "property or an item",
    ),
    "loop through anyOf": (takes(a={"anyOf": [{"$ref": "#/properties/a"}]}), "without end", ""),
    "loop met on the way back": (
        {
            "$ref": "#/$defs/a",
            "$defs": {
                "a": {
                    "properties": {"x": {"properties": {"y": {"$ref": "#/$defs/b"}}}},
                    "allOf": [{"$ref": "#/$defs/b"}],
                },
                "b": {"allOf": [{"$ref": "#/$defs/a"}]},
            },
        },
        "without end",
        "",
    ),
    "long chain": (chained(1500), "over 200 in a row", ""),
    "multiplied": (multiplied(12, 4, inside=False), "references multiply", "allOf"),
    "multiplied inside": (multiplied(12, 4, inside=True), "references multiply", "allOf"),
    "deep": (deep(3000), "nested deeper than 32 levels", "$defs"),
    "contains itself": (looping(), "nested deeper than 32 levels", "$defs"),
    "large": ({"description": "x" * 70_000}, "70018 bytes, and 65536 are allowed", ""),
    "many parts": (takes(**{f"p{n}": {} for n in range(2500)}), "more than 2000 parts", ""),
    "one list a thousand times": (aliased(), "more than 2000 parts", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_schemas_are_refused_with_place_and_cure(name: str) -> None:
    schema, what, cure = BAD[name]
    with pytest.raises(SchemaError) as caught:
        admit(schema)
    error = caught.value
    assert error.message.startswith("input_schema")
    assert what in error.message
    assert error.cure
    assert cure in error.cure
    assert error.key
    assert error.key.startswith("input_schema")
    assert len(str(error)) < 300


def test_the_place_starts_with_the_name_that_was_given() -> None:
    with pytest.raises(SchemaError) as caught:
        admit(takes(a={"type": "int"}), where="tools[2].input_schema")
    assert caught.value.message.startswith("tools[2].input_schema/properties/a/type: ")
    assert caught.value.key == "tools[2].input_schema.properties.a.type"


def test_an_output_may_be_of_any_type() -> None:
    admit({"type": "string"}, where="output_schema")
    admit({"type": "array"}, where="tools[2].output_schema")
    with pytest.raises(SchemaError):
        admit({"type": "int"}, where="output_schema")


def test_our_own_schemas_get_a_larger_budget_and_no_other_favour() -> None:
    large = takes(**{f"p{n}": {} for n in range(2500)})
    admit(large, trusted=True)
    for name in ("loop", "remote", "look-ahead", "python type", "nan", "deep", "multiplied"):
        with pytest.raises(SchemaError):
            admit(BAD[name][0], trusted=True)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["type", "properties", "items", "allOf", "anyOf", "$ref", "$defs", "pattern", "not",
             "patternProperties", "required", "enum", "default", "$id", "$anchor", "a"]
        ),
        inner | st.sampled_from(["#", "#/$defs/a", "#a", "object", "string", "(?=a)", "^a"]),
        max_size=5,
    ),
    max_leaves=15,
)  # fmt: skip


@given(json_values)
def test_no_schema_breaks_admission(schema: Any) -> None:
    try:
        admit(schema)
    except SchemaError as error:
        refused = error.cure
        assert refused
        return
    # What is admitted can be used: to compile, to fill and to explain.
    validator = compile_schema(schema)
    for value in ({}, {"a": 1}, {"a": {"a": [{"a": None}]}}):
        found = validator.problems(value)
        assert (found == []) == validator.is_valid(value)
        apply_defaults(schema, value)


def problems(schema: dict[str, Any], value: Any) -> list[tuple[str, str, str]]:
    return [(p.path, p.message, p.rule) for p in compile_schema(schema).problems(value)]


def test_a_value_that_fits_has_no_problems() -> None:
    validator = compile_schema(exactly(a={"type": "integer"}))
    assert validator.is_valid({"a": 1})
    assert validator.problems({"a": 1}) == []


def test_every_problem_is_listed() -> None:
    schema = exactly(alpha={"type": "integer"}, beta={"type": "string"})
    assert sorted(problems(schema, {"alpha": "one", "alhpa": 1, "zz\n": 2})) == [
        ("['zz\\n']", "is not an argument of this tool", "additionalProperties"),
        ("alhpa", "is not an argument of this tool; did you mean alpha?", "additionalProperties"),
        ("alpha", "'one' is not an integer", "type"),
        ("beta", "is required", "required"),
    ]


MESSAGES: list[tuple[dict[str, Any], Any, str]] = [
    ({"type": ["null", "integer"]}, "q", "'q' is not an integer or null"),
    ({"type": "boolean"}, {}, "an object is not a boolean"),
    ({"type": "object"}, [1], "a list is not an object"),
    ({"type": "array"}, True, "true is not a list"),
    ({"enum": ["a", None, 3]}, "b", "'b' is not one of 'a', null, 3"),
    ({"enum": [*range(12)]}, 99, "99 is not one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"),
    ({"const": None}, 4, "4 is not null"),
    ({"minimum": 5}, 4, "4 is less than 5"),
    ({"maximum": 5.5}, 6, "6 is more than 5.5"),
    ({"exclusiveMinimum": 5}, 5, "5 is not more than 5"),
    ({"exclusiveMaximum": 5}, 5, "5 is not less than 5"),
    ({"multipleOf": 0.01}, 0.015, "0.015 is not a multiple of 0.01"),
    ({"minLength": 3}, "a\x1b", "'a\\x1b' is shorter than 3 characters"),
    ({"maxLength": 3}, "x" * 99, "'" + "x" * 57 + "…' is longer than 3 characters"),
    ({"pattern": "^x"}, "y", "'y' does not match the pattern '^x'"),
    ({"format": "email"}, "q", "'q' is not in the format 'email'"),
    ({"format": "date"}, "2024-13-01", "'2024-13-01' is not in the format 'date'"),
    ({"minItems": 2}, [1], "has fewer than 2 items"),
    ({"maxItems": 1}, [1, 2], "has more than 1 items"),
    ({"minProperties": 1}, {}, "has fewer than 1 properties"),
    ({"uniqueItems": True}, [1, 1], "has the same item twice"),
    ({"contains": {"const": 9}}, [1], "has too few items of the kind required"),
    ({"not": {"type": "integer"}}, 1, "1 is not allowed here"),
    ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "does not fit the schema"),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", "'x' is not an integer or null"),
    ({"anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3, "3 fits none of the 2 forms allowed here"),
    (
        {"oneOf": [{"type": "integer"}, {"type": "number"}]},
        1,
        "1 fits more than one of the 2 forms allowed here",
    ),
    ({"type": "integer"}, 1.5, "1.5 is not an integer"),
    ({"type": "string"}, 10**70, "a number of over 60 digits is not a string"),
]


@pytest.mark.parametrize(("schema", "value", "message"), MESSAGES, ids=[m for *_, m in MESSAGES])
def test_messages_are_for_people(schema: dict[str, Any], value: Any, message: str) -> None:
    assert [(p, m) for p, m, _ in problems(takes(a=schema), {"a": value})] == [("a", message)]


def test_problems_inside_have_their_path() -> None:
    order = exactly(items={"type": "array", "items": exactly(price={"type": "number"})})
    assert problems(
        exactly(order=order), {"order": {"items": [{"price": "1", "prize": 1}, {}]}}
    ) == [
        ("order.items[0].price", "'1' is not a number", "type"),
        (
            "order.items[0].prize",
            "is not a property of order.items[0]; did you mean price?",
            "additionalProperties",
        ),
        ("order.items[1].price", "is required", "required"),
    ]


def test_a_name_that_is_not_allowed() -> None:
    schema = {"propertyNames": {"pattern": "^a"}}
    message = "is not a name allowed here: 'b' does not match the pattern '^a'"
    assert problems(schema, {"b": 1}) == [("b", message, "propertyNames")]


def test_a_false_property_is_not_allowed() -> None:
    assert problems(takes(a=False), {"a": 1}) == [("a", "is not allowed here", "falseSchema")]


def test_of_several_forms_the_one_that_was_meant_is_explained() -> None:
    forms = [
        exactly(kind={"const": "circle"}, radius={"type": "number"}),
        exactly(kind={"const": "square"}, side={"type": "number"}),
        {"type": "null"},
    ]
    schema = takes(shape={"oneOf": forms})
    assert problems(schema, {"shape": {"kind": "square", "side": "x"}}) == [
        ("shape.side", "'x' is not a number", "type")
    ]


def test_the_words_for_an_unknown_property_can_be_chosen() -> None:
    validator = compile_schema(exactly())
    assert validator.problems({"q": 1}, unknown="is not declared") == [
        Problem("q", "is not declared", "additionalProperties")
    ]


SECRET = "hunter2-hunter2"

SECRETIVE: dict[str, dict[str, Any]] = {
    "write-only": takes(a={"writeOnly": True, "type": "integer"}),
    "password": takes(a={"format": "password", "maxLength": 3}),
    "by reference": takes(a={"$ref": "#/$defs/s"})
    | {"$defs": {"s": {"format": "password", "enum": ["x"]}}},
    "said elsewhere": {"allOf": [takes(a={"pattern": "^$"}), takes(a={"writeOnly": True})]},
    "around it": takes(a={"writeOnly": True, "allOf": [{"const": 1}]}),
    "any name": {"additionalProperties": {"format": "password", "maxLength": 3}},
    "one of several": takes(a={"anyOf": [{"maxLength": 3}, {"format": "password", "enum": [1]}]}),
}


@pytest.mark.parametrize("name", SECRETIVE)
def test_secret_values_are_never_shown(name: str) -> None:
    found = problems(SECRETIVE[name], {"a": SECRET})
    assert found
    assert "hunter2" not in str(found)


def test_secrets_in_lists_are_not_shown_and_others_are() -> None:
    schema = takes(keys={"items": {"format": "password", "maxLength": 3}}, n={"type": "integer"})
    found = problems(schema, {"keys": [SECRET], "n": "one"})
    assert sorted(found) == [
        ("keys[0]", "the value is longer than 3 characters", "maxLength"),
        ("n", "'one' is not an integer", "type"),
    ]


def test_there_are_at_most_fifty_problems() -> None:
    assert len(problems({"items": {"type": "integer"}}, ["x"] * 1000)) == 50
    assert len(problems(exactly(), {f"p{n}": 1 for n in range(1000)})) == 50


def test_the_first_problem_of_a_huge_value_is_found() -> None:
    values = [1] * 50_000 + ["x"] * 50_000
    found = problems(takes(a={"items": {"type": "integer"}}), {"a": values})
    assert found == [("a[50000]", "'x' is not an integer", "type")]


def test_branching_recursion_is_not_explained_at_exponential_cost() -> None:
    twice = {"type": "object", "allOf": [takes(a={"$ref": "#/$defs/t"})] * 2}
    schema = takes(x={"$ref": "#/$defs/t"}, y={"type": "integer"}) | {"$defs": {"t": twice}}
    admit(schema)
    value: Any = 5
    for _ in range(60):
        value = {"a": value}
    assert problems(schema, {"x": value, "y": 1}) == [("x", "does not fit its schema", "schema")]
    assert problems(schema, {"x": {"a": 5}}) == [("x.a", "5 is not an object", "type")]


def test_hostile_values_meet_linear_checks() -> None:
    assert not compile_schema(takes(a={"pattern": "^(a+)+$"})).is_valid({"a": "a" * 50_000 + "!"})
    items = [{"n": n} for n in range(3000)]
    assert compile_schema(takes(a={"uniqueItems": True})).is_valid({"a": items})
    tree: dict[str, Any] = {}
    for _ in range(60):
        tree = {"left": tree, "right": {}}
    assert compile_schema(TREE).is_valid(tree)


def test_formats_are_checked() -> None:
    assert not compile_schema(takes(a={"format": "date-time"})).is_valid({"a": "yesterday"})
    assert compile_schema(takes(a={"format": "no-such-format"})).is_valid({"a": "yesterday"})


def test_equal_schemas_share_one_validator() -> None:
    one = exactly(a={"type": "integer"}, b={})
    other = dict(reversed(one.items()))
    assert compile_schema(one) is compile_schema(MappingProxyType(other))
    assert compile_schema(one) is not compile_schema(exactly(a={"type": "integer"}))


def test_threads_share_one_validator() -> None:
    schema = exactly(thread={"type": "integer"})
    barrier = threading.Barrier(8)
    found: list[Validator] = []

    def work() -> None:
        barrier.wait()
        found.append(compile_schema(schema))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(map(id, found))) == 1


def test_the_oldest_unused_validator_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_KEPT", 2)
    monkeypatch.setattr(schemas, "_kept", type(schemas._kept)())
    first, second, third = ({"maxProperties": n} for n in (1, 2, 3))
    kept, dropped = compile_schema(first), compile_schema(second)
    assert compile_schema(first) is kept
    compile_schema(third)
    assert compile_schema(first) is kept
    assert compile_schema(second) is not dropped


def test_what_cannot_be_compiled_is_a_schema_error() -> None:
    for schema in (takes(a={"type": "int"}), takes(a={"pattern": "(?=x)"}), deep(3000)):
        with pytest.raises(SchemaError):
            compile_schema(schema)


DEFAULTS = takes(
    a={"default": 1},
    b={"type": "string"},
    o={"$ref": "#/$defs/o"},
    rows={"items": {"properties": {"tags": {"default": []}}}},
) | {"$defs": {"o": {"allOf": [{"properties": {"deep": {"default": {"x": [1]}}}}]}}}


def test_the_defaults_of_a_schema() -> None:
    assert fill_defaults(DEFAULTS) == {"a": 1}
    assert fill_defaults({"allOf": [takes(z={"default": None})]}) == {"z": None}
    assert fill_defaults(takes(a={})) is None
    assert fill_defaults({}) is None
    assert fill_defaults(NO_ARGUMENTS) is None


def test_defaults_are_filled_in_at_every_depth() -> None:
    value = {"b": "x", "o": {}, "rows": [{}, {"tags": [1]}]}
    assert apply_defaults(DEFAULTS, value) == {
        "a": 1,
        "b": "x",
        "o": {"deep": {"x": [1]}},
        "rows": [{"tags": []}, {"tags": [1]}],
    }
    assert value == {"b": "x", "o": {}, "rows": [{}, {"tags": [1]}]}


def test_what_is_given_is_kept_and_what_is_missing_is_not_invented() -> None:
    assert apply_defaults(DEFAULTS, {"a": None}) == {"a": None}
    assert apply_defaults(DEFAULTS, {"o": 5, "rows": {}}) == {"a": 1, "o": 5, "rows": {}}
    assert apply_defaults(takes(a={"default": 1}), "text") == "text"
    assert apply_defaults(TREE | {"default": {}}, {"left": {}}) == {"left": {}}


def test_every_default_is_a_fresh_copy() -> None:
    schema = takes(tags={"default": ["x"]})
    apply_defaults(schema, {})["tags"].append("y")
    assert apply_defaults(schema, {}) == {"tags": ["x"]}
    frozen = MappingProxyType(takes(o={"default": MappingProxyType({"k": (1,)})}))
    assert apply_defaults(frozen, {}) == {"o": {"k": [1]}}
