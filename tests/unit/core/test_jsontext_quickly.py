"""The quick way to read JSON gives and refuses what the careful one does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.jsontext import is_shallow, parse, parse_quickly
from toolcrib.errors import JsonError

ODD = [
    b'{"a":1,"a":2}',
    b'{"a":1,"a":1}',
    b'{"a":{"b":1,"b":1}}',
    b'{"a":"x","\\u0061":"x"}',
    b'{"a":"\\u0022","a":1}',
    b'{"a":1,"a":"\\u0022\\u0022"}',
    b'{"a" : "b\\"c"}',
    b"[NaN]",
    b"[Infinity]",
    b"[1e999]",
    b'{"a":"\\ud800"}',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"\xef\xbb\xbf{}",
    b"",
    b"1" * 5000,
    b"[-0, 1.0, 1E2, 0.10]",
    b"[" * 100 + b"]" * 100,
    b'{"a":1,}',
    b"01",
    b'["\x01"]',
]


def outcome(read: Any, text: bytes) -> str:
    try:
        return f"gave {read(text)!r}"
    except JsonError as error:
        return f"refused: {error}"


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_odd_texts(text: bytes) -> None:
    assert outcome(parse_quickly, text) == outcome(parse, text)


_PIECES = st.sampled_from(
    [
        '"a"',
        '"b"',
        '"\\u0061"',
        '"\\""',
        ":",
        ",",
        "{",
        "}",
        "[",
        "]",
        "1",
        "-0",
        " ",
        "null",
        "1.5",
    ]
)


@settings(max_examples=400)
@given(st.lists(_PIECES, max_size=14))
def test_texts_put_together_from_pieces(pieces: list[str]) -> None:
    text = "".join(pieces).encode()
    assert outcome(parse_quickly, text) == outcome(parse, text)


_KEYS = st.sampled_from(["a", "b", "é", '"', "\\", "\u2028"])


@given(st.lists(st.tuples(_KEYS, st.integers() | st.text(max_size=3)), max_size=5), st.booleans())
def test_members_that_stand_twice(members: list[tuple[str, Any]], escaped: bool) -> None:
    def write(value: Any) -> str:
        return json.dumps(value, ensure_ascii=escaped)

    text = "{" + ", ".join(f"{write(k)}: {write(v)}" for k, v in members) + "}"
    data = text.encode("utf-8", "surrogatepass")
    assert outcome(parse_quickly, data) == outcome(parse, data)


def test_a_text_over_the_limits_is_refused_alike() -> None:
    for text, limits in ((b'["abc"]', {"max_bytes": 5}), (b"[[[1]]]", {"max_depth": 2})):
        with pytest.raises(JsonError) as quick:
            parse_quickly(text, **limits)
        with pytest.raises(JsonError) as careful:
            parse(text, **limits)
        assert str(quick.value) == str(careful.value)


_LEAVES = st.sampled_from([1, None, "", "[", "]", '"[', "\\", '\\"]', "{}", "é", "\x01", "\u2028"])
_NESTED = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "[", '"]', "\\"]), inner, max_size=3)
    ),
    max_leaves=30,
)


def depth_of(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


@settings(max_examples=400)
@given(_NESTED, st.booleans(), st.integers(1, 8))
def test_depth_is_what_is_nested_whatever_the_strings_hold(
    value: Any, escapes: bool, most: int
) -> None:
    text = json.dumps(value, ensure_ascii=escapes).encode()
    assert is_shallow(text, most) is (depth_of(value) <= most)
    if depth_of(value) <= most:
        assert parse_quickly(text, max_depth=most) == parse(text, max_depth=most) == value
    else:
        with pytest.raises(JsonError, match="nested deeper"):
            parse_quickly(text, max_depth=most)


@settings(max_examples=400)
@given(_NESTED, st.data())
def test_text_with_something_missing_is_judged_alike(value: Any, data: st.DataObject) -> None:
    text = json.dumps([value] * 3).encode()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 3)))
    text = text[:start] + text[end:]
    quick = outcome(lambda t: parse_quickly(t, max_depth=3), text)
    assert quick == outcome(lambda t: parse(t, max_depth=3), text)


@pytest.mark.parametrize("inner", ["[", '{"a":', '["]",'])
def test_no_string_hides_how_deep_a_text_is(inner: str) -> None:
    end = {"[": "]", "{": "}"}[inner[0]]
    deep = inner * 70 + "1" + end * 70
    for text in (deep, "[" + '"]",' * 100 + deep + "]", '["' + "]" * 100 + '",' + deep + "]"):
        assert not is_shallow(text.encode(), 64)
        with pytest.raises(JsonError, match="nested deeper than 64 levels at line 1"):
            parse(text)


def test_many_records_are_not_deep() -> None:
    rows = [{"id": n, "tags": ["[", "]"], "said": '{"a": [1]}'} for n in range(500)]
    text = json.dumps(rows).encode()
    assert is_shallow(text, 3)
    assert not is_shallow(text, 1)
    assert parse_quickly(text) == rows


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("[" * 70 + "]" * 70, "nested deeper than 64 levels. Flatten it"),
        ("NaN", "'NaN' is not a number JSON can carry"),
        ('{"k":1,"k":1}', "the key 'k' stands twice. Send it once"),
    ],
)
def test_in_a_long_text_the_place_is_not_looked_for(wrong: str, said: str) -> None:
    text = f"[{'[],' * 30_000}{wrong}]".encode()
    with pytest.raises(JsonError) as caught:
        parse_quickly(text)
    assert str(caught.value) == said


def test_a_long_text_that_is_not_balanced_is_no_deep_one() -> None:
    text = f"[{'[],' * 30_000}[]]]".encode()
    with pytest.raises(JsonError, match="more text after the JSON"):
        parse_quickly(text)
