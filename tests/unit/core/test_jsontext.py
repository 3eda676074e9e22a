from __future__ import annotations

import json
import math
import sys
from collections import OrderedDict
from collections.abc import Iterator
from datetime import date
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core.jsontext import (
    check_value,
    extent,
    lookup,
    parse,
    path_to,
    plain,
    pointer_to,
    shown,
)
from toolcrib.errors import JsonError

_text = st.text(st.characters(exclude_categories=["Cs"]))
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(_text, inner, max_size=5),
    max_leaves=20,
)


@given(_json, st.sampled_from([None, 2]), st.booleans())
def test_valid_json_means_what_the_standard_library_says(
    value: Any, indent: int | None, escaped: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    assert parse(text) == json.loads(text)
    assert parse(text.encode()) == json.loads(text)


@given(_json)
def test_what_json_can_carry_is_accepted_as_a_value(value: Any) -> None:
    check_value(value)


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_any_input_parses_or_is_refused(text: bytes | str) -> None:
    try:
        value = parse(text)
    except JsonError:
        return
    assert json.loads(text) == value


_BAD_TEXTS: list[tuple[Any, str]] = [
    ("", "empty where JSON is expected"),
    (" \n", "empty where JSON is expected"),
    ('{"a": 1, "a": 2}', "the key 'a' stands twice, at line 1, column 10"),
    (
        '{"x": {"b": 1},\n "y": {"b": 1, "\\u0062" : 2}}',
        "'b' stands twice, at line 2, column 16",
    ),
    ('[1, "NaN", NaN]', "'NaN' at line 1, column 12 is not a number JSON can carry"),
    ("-Infinity", "'-Infinity' at line 1, column 1"),
    ('["1e999",\n 1e999]', "'1e999' at line 2, column 2"),
    ('{"a": tru}', "not JSON at line 1, column 7"),
    ('{"a"', "not JSON at line 1, column 5"),
    ('{"a": 1} x', "more text after the JSON at line 1, column 10"),
    ("\ufeff{}", "byte order mark"),
    ('"\\ud800"', "half a surrogate pair"),
    ('"\ud800"', "half a surrogate pair"),
    ('"a\nb"', "not JSON at line 1, column 3"),
    (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
    ("1" * 5000, "an integer of 4300 digits or more"),
    ("[" * 65 + "]" * 65, "nested deeper than 64 levels at line 1, column 65"),
    ("[" * 100_000, "nested deeper than 64 levels"),
    ('{"a":' * 100_000, "nested deeper than 64 levels"),
    ('"' + "x" * 1_048_576 + '"', "over the limit of 1048576"),
    ('"' + "é" * 600_000 + '"', "over the limit of 1048576"),
]


@pytest.mark.parametrize(("text", "words"), _BAD_TEXTS, ids=[words for _, words in _BAD_TEXTS])
def test_bad_text_is_refused_with_its_place(text: str | bytes, words: str) -> None:
    with pytest.raises(JsonError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


def test_the_limits_are_the_callers_choice() -> None:
    assert parse("[[1]]", max_depth=2) == [[1]]
    with pytest.raises(JsonError):
        parse("[[1]]", max_depth=1)
    assert parse("12345", max_bytes=5) == 12345
    with pytest.raises(JsonError):
        parse("123456", max_bytes=5)


def test_brackets_inside_strings_are_not_depth() -> None:
    text = json.dumps(["[" * 500 + '"\\' + "{" * 500])
    assert parse(text) == json.loads(text)


def test_an_unterminated_string_full_of_escaped_quotes_is_refused_in_one_pass() -> None:
    hostile = "[" * 70 + '"' + '\\"' * 400_000
    with pytest.raises(JsonError):
        parse(hostile)
    with pytest.raises(JsonError):
        parse('{"a":1,"a":2,"b":[' + "[],".join(['"' + '\\"' * 300_000]))


@pytest.fixture
def no_digit_limit() -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    yield
    sys.set_int_max_str_digits(before)


def test_huge_integers_are_refused_also_when_the_process_allows_them(no_digit_limit: None) -> None:
    with pytest.raises(JsonError, match="4300 digits"):
        parse("[" + "9" * 100_000 + "]")
    assert parse("[123]") == [123]


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1, "b": "x", "c": None, "d": True},
        {"a": 1.5, "é": "é", "t": (1, 2), "n": {"m": []}},
        OrderedDict(a=1),
        {"c": Colour.RED, "l": Level.LOW, Colour.RED: 1},
        {f"k{i}": i for i in range(100)},
        "text",
        2**70,
        None,
        [],
    ],
)
def test_plain_values_are_accepted(value: Any) -> None:
    check_value(value)


def _loop() -> list[Any]:
    loop: list[Any] = []
    loop.append({"again": loop})
    return loop


def _doubling() -> list[Any]:
    value: list[Any] = []
    for _ in range(60):
        value = [value, value]
    return value


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


class Text(str):
    __slots__ = ()


_NOT_JSON: list[tuple[Any, str]] = [
    ({1: 2}, "the key 1 is not text"),
    ({"a": {None: 2}}, "the key null is not text"),
    ({10**5000: 1}, "is not text"),
    ({"price": math.nan}, "nan in 'price' is not JSON"),
    ({"a": [1.0, -math.inf]}, "-inf is not JSON"),
    (math.inf, "inf is not JSON"),
    (_loop(), "contains itself"),
    (_doubling(), "more than 100000 values"),
    (_deep(65), "nested deeper than 64 levels"),
    ([0] * 100_001, "more than 100000 values"),
    ({"when": date(2020, 1, 1)}, "a value of type date in 'when' is not JSON"),
    ({"data": b"x"}, "a value of type bytes in 'data'"),
    ({"s": {1, 2}}, "a value of type set"),
    ({"m": MappingProxyType({})}, "a value of type mappingproxy"),
    ({"t": Text("x")}, "a value of type Text"),
    (object(), "a value of type object"),
    (10**5000, "4300 digits"),
    ({"a": 10**5000}, "4300 digits"),
    ({"a": "x" * 10_000_000}, "over the limit of 1048576"),
    ({"a": "é" * 600_000}, "over the limit of 1048576"),
    ({"x" * 2_000_000: 1}, "over the limit of 1048576"),
    ({"a": "\ud800"}, "half a surrogate pair"),
    ({"\ud800": 1}, "half a surrogate pair"),
]


@pytest.mark.parametrize(("value", "words"), _NOT_JSON, ids=[words for _, words in _NOT_JSON])
def test_what_is_not_json_is_refused(value: Any, words: str) -> None:
    with pytest.raises(JsonError) as caught:
        check_value(value)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


def test_depth_ends_exactly_at_the_limit() -> None:
    check_value(_deep(64))
    check_value(_deep(3), max_depth=3)
    with pytest.raises(JsonError):
        check_value(_deep(4), max_depth=3)


_SHOWN: list[tuple[Any, str]] = [
    ("one", "'one'"),
    ("a\x1b[31m\u202e\n", "'a\\x1b[31m\\u202e\\n'"),
    (None, "null"),
    (True, "true"),
    (1.5, "1.5"),
    (10**5000, "a number of over 60 digits"),
    ({"secret": 1}, "an object"),
    (["secret"], "a list"),
    (b"x", "a value of type bytes"),
]


@pytest.mark.parametrize(("value", "text"), _SHOWN, ids=[words for _, words in _SHOWN])
def test_values_are_shown_in_one_safe_line(value: Any, text: str) -> None:
    assert shown(value) == text


def test_long_text_is_cut_and_says_so() -> None:
    assert shown("x" * 10_000_000) == "'" + "x" * 57 + "…'"
    assert len(shown("\x00" * 100)) == 60


def test_paths_and_pointers() -> None:
    assert path_to(()) == ""
    assert path_to(("items", 0, "price")) == "items[0].price"
    assert path_to(("a", "b c", 1)) == "a['b c'][1]"
    assert pointer_to(("a/b", 0, "c~d")) == "/a~1b/0/c~0d"
    assert lookup({"a/b": [{"c~d": 5}]}, "/a~1b/0/c~0d") == 5
    assert lookup({"": 1}, "/") == 1
    assert lookup([1], "") == [1]


@pytest.mark.parametrize("pointer", ["/b", "/a/5", "/a/x", "/a/0/z", "/a/-1", "/a/²"])
def test_a_pointer_at_nothing_is_a_lookup_error(pointer: str) -> None:
    with pytest.raises(LookupError):
        lookup({"a": [1]}, pointer)


def test_plain_copies_frozen_mappings() -> None:
    frozen = MappingProxyType({"a": (MappingProxyType({"b": 1}),)})
    assert plain(frozen) == {"a": [{"b": 1}]}
    original = {"a": [1]}
    copy = plain(original)
    copy["a"].append(2)
    assert original == {"a": [1]}


def test_extent_counts_values_and_levels() -> None:
    assert extent(1) == (1, 1)
    assert extent({"a": [1, 2], "b": {}}) == (5, 3)
    assert extent(_loop(), most=50)[0] >= 50
