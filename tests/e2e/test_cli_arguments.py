"""`key=value`, typed by the tool's schema."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.cli.arguments import read_arguments
from toolcrib.cli.output import Mistake
from toolcrib.cli.samples import sample_arguments, typed
from toolcrib.core.schema import compile_schema

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "level": {"enum": [1, 2, "high"]},
        "list": {"type": "array", "items": {"type": "integer"}},
        "names": {"type": "array", "items": {"type": "string"}},
        "point": {"$ref": "#/$defs/point"},
        "any": {},
        "a.b": {"type": "integer"},
        "map": {"type": "object", "additionalProperties": {"type": "number"}},
    },
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "integer"}, "label": {"type": "string"}},
            "required": ["x"],
        }
    },
}


@pytest.mark.parametrize(
    ("pairs", "wanted"),
    [
        (["n=1"], {"n": 1}),
        (["n=-12"], {"n": -12}),
        (["n=1.5"], {"n": "1.5"}),
        (["n=one"], {"n": "one"}),
        (["x=1.5"], {"x": 1.5}),
        (["x=2"], {"x": 2}),
        (["x=1e3"], {"x": 1000.0}),
        (["x=nan"], {"x": "nan"}),
        (["s=1"], {"s": "1"}),
        (["s=true"], {"s": "true"}),
        (["s="], {"s": ""}),
        (["s=a=b"], {"s": "a=b"}),
        (["b=true"], {"b": True}),
        (["b=yes"], {"b": "yes"}),
        (["maybe=3"], {"maybe": 3}),
        (["maybe=null"], {"maybe": None}),
        (["level=2"], {"level": 2}),
        (["level=high"], {"level": "high"}),
        (["list=1"], {"list": [1]}),
        (["list=1", "list=2"], {"list": [1, 2]}),
        (["list=[1, 2]", "list=3"], {"list": [1, 2, 3]}),
        (["names=1"], {"names": ["1"]}),
        (["point.x=1", "point.label=2"], {"point": {"x": 1, "label": "2"}}),
        (['point={"x": 4}'], {"point": {"x": 4}}),
        (["map.k=1.5"], {"map": {"k": 1.5}}),
        (["a.b=7"], {"a.b": 7}),
        (["any=1"], {"any": "1"}),
        (["any:=1"], {"any": 1}),
        (['s:="@home"'], {"s": "@home"}),
        (["unknown=1"], {"unknown": "1"}),
    ],
)
def test_a_value_is_what_the_schema_says(pairs, wanted):
    assert read_arguments(pairs, None, SCHEMA) == wanted


@pytest.mark.parametrize(
    "pairs",
    [["n"], ["=1"], ["n=1", "n=2"], ["s:=text"], ["n:=NaN"], ["s=1", "s.x=2"], ["point..x=1"],
     ['any:={"a":1,"a":2}']],
)  # fmt: skip
def test_what_cannot_be_read_is_a_mistake(pairs):
    with pytest.raises(Mistake):
        read_arguments(pairs, None, SCHEMA)


def test_values_from_files(tmp_path):
    (tmp_path / "n").write_text("42")
    (tmp_path / "j").write_text('{"x": 1}')
    pairs = [f"n=@{tmp_path}/n", f"s=@{tmp_path}/n", f"point:=@{tmp_path}/j"]
    assert read_arguments(pairs, None, SCHEMA) == {"n": 42, "s": "42", "point": {"x": 1}}
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(Mistake, match="not UTF-8"):
        read_arguments([f"s=@{tmp_path}/bytes"], None, SCHEMA)


def test_the_source_must_be_an_object(tmp_path):
    (tmp_path / "list").write_text("[]")
    with pytest.raises(Mistake, match="JSON object"):
        read_arguments([], f"{tmp_path}/list", SCHEMA)


def test_without_a_schema_values_stay_text():
    assert read_arguments(["a=1", "b.c=x"], None, None) == {"a": "1", "b": {"c": "x"}}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["n", "s", "b", "list", "any", "maybe"]), json_values))
def test_what_is_shown_to_be_typed_is_read_back(arguments):
    words = [shlex.split(word)[0] for word in typed(arguments, SCHEMA)]
    assert read_arguments(words, None, SCHEMA) == arguments


def test_a_sample_fits_and_keeps_what_was_right():
    schema = {**SCHEMA, "required": ["n", "x", "s", "b", "list", "level", "point"]}
    made = sample_arguments(schema, {"s": "mine", "n": "one", "extra": 1}, {"n"})
    assert made["s"] == "mine"
    assert "extra" not in made
    assert compile_schema(schema).problems({**made, "point": {"x": 1}}) == []
