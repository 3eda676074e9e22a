"""The quick way to read JSON gives and refuses what the careful one does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.core.jsontext import parse, parse_quickly
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
