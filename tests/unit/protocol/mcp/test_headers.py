"""Headers that repeat parts of a body: written, read back, and held against it."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.protocol.mcp.headers import (
    SAFE,
    Mirror,
    decode_value,
    encode_value,
    mirrors,
    param_headers,
    request_headers,
    wrong_params,
    wrong_request,
)

WRITTEN = [
    ("us-west1", "us-west1"),
    ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
    (" padded ", "=?base64?IHBhZGRlZCA=?="),
    ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
    ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ("", "=?base64??="),
    ("a b\tc", "a b\tc"),
    ("\x7f", "=?base64?fw==?="),
    ("=?base64?open", "=?base64?open"),
    (42, "42"),
    (-7, "-7"),
    (True, "true"),
    (False, "false"),
]


@pytest.mark.parametrize(("value", "text"), WRITTEN, ids=[text for _, text in WRITTEN])
def test_values_are_written_and_read_back(value: Any, text: str) -> None:
    assert encode_value(value) == text
    assert decode_value(text) == (value if isinstance(value, str) else text)


@pytest.mark.parametrize(
    "text",
    [
        "=?base64?@@@@?=",
        "=?base64?SGVsbG8?=",
        "=?base64?/w==?=",
        "caf\xe9",
        "a\x00b",
        " x",
        "x\r\n",
    ],
)
def test_values_that_no_client_may_send(text: str) -> None:
    with pytest.raises(ValueError, match=r"^it "):
        decode_value(text)


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_marked_arguments_are_found_at_any_depth_of_properties() -> None:
    found = mirrors(
        schema(
            region={"type": "string", "x-mcp-header": "Region"},
            plain={"type": "string"},
            inner=schema(count={"type": "integer", "x-mcp-header": "N"}),
            **{"x-mcp-header": {"type": "boolean", "x-mcp-header": "Odd"}},
        )
    )
    assert found == (
        Mirror("mcp-param-region", ("region",), "string"),
        Mirror("mcp-param-n", ("inner", "count"), "integer"),
        Mirror("mcp-param-odd", ("x-mcp-header",), "boolean"),
    )
    assert mirrors(schema(a={"default": {"x-mcp-header": "data"}})) == ()


MARK = {"type": "string", "x-mcp-header": "X"}
BAD: dict[str, dict[str, Any]] = {
    "empty": schema(a={"type": "string", "x-mcp-header": ""}),
    "no text": schema(a={"type": "string", "x-mcp-header": 1}),
    "a space": schema(a={"type": "string", "x-mcp-header": "a b"}),
    "a line": schema(a={"type": "string", "x-mcp-header": "a\r\nb"}),
    "not ascii": schema(a={"type": "string", "x-mcp-header": "é"}),
    "twice": schema(a=MARK, b={"type": "string", "x-mcp-header": "x"}),
    "a number": schema(a={"type": "number", "x-mcp-header": "X"}),
    "an object": schema(a={"type": "object", "x-mcp-header": "X"}),
    "no type": schema(a={"x-mcp-header": "X"}),
    "two types": schema(a={"type": ["string", "null"], "x-mcp-header": "X"}),
    "below items": schema(a={"type": "array", "items": MARK}),
    "below anyOf": schema(a={"anyOf": [MARK]}),
    "below a definition": {**schema(), "$defs": {"a": MARK}},
    "below if": {**schema(), "if": schema(a=MARK)},
    "at the top": {**schema(), "x-mcp-header": "X"},
    "below additionalProperties": {**schema(), "additionalProperties": MARK},
}


@pytest.mark.parametrize("case", BAD)
def test_marks_that_may_not_stand_there(case: str) -> None:
    with pytest.raises(ValueError, match="x-mcp-header"):
        mirrors(BAD[case])


MARKED = mirrors(
    schema(
        region={"type": "string", "x-mcp-header": "Region"},
        inner=schema(count={"type": "integer", "x-mcp-header": "Count"}),
        dry={"type": "boolean", "x-mcp-header": "Dry"},
    )
)


def test_a_client_sends_what_is_there() -> None:
    given = {"region": "é", "inner": {"count": 3}, "dry": False}
    assert param_headers(MARKED, given) == {
        "mcp-param-region": "=?base64?w6k=?=",
        "mcp-param-count": "3",
        "mcp-param-dry": "false",
    }
    assert param_headers(MARKED, {"region": None, "inner": 1}) == {}
    with pytest.raises(ValueError, match=r"inner\.count"):
        param_headers(MARKED, {"inner": {"count": SAFE + 1}})


@pytest.mark.parametrize(
    ("headers", "arguments", "right"),
    [
        ({"region": "x"}, {"region": "x"}, True),
        ({"region": " x "}, {"region": "x"}, True),
        ({"region": "=?base64?eA==?="}, {"region": "x"}, True),
        ({"region": "x"}, {"region": "y"}, False),
        ({"region": "X"}, {"region": "x"}, False),
        ({}, {"region": "x"}, False),
        ({"region": "x"}, {}, False),
        ({"region": "x"}, {"region": None}, False),
        ({}, {"region": None}, True),
        ({}, {}, True),
        ({}, {"region": ["x"]}, True),
        ({"region": "=?base64?@?="}, {"region": "x"}, False),
        ({"region": "caf\xe9"}, {"region": "caf\xe9"}, False),
        ({"count": "3"}, {"inner": {"count": 3}}, True),
        ({"count": "3.0"}, {"inner": {"count": 3}}, True),
        ({"count": "3"}, {"inner": {"count": 3.0}}, True),
        ({"count": "4"}, {"inner": {"count": 3}}, False),
        ({"count": "3e0"}, {"inner": {"count": 3}}, False),
        ({"count": "9007199254740993"}, {"inner": {"count": 9007199254740992}}, False),
        ({"count": "true"}, {"inner": {"count": True}}, True),
        ({"dry": "true"}, {"dry": True}, True),
        ({"dry": "True"}, {"dry": True}, False),
        ({"dry": "1"}, {"dry": True}, False),
        ({"unknown": "x"}, {}, True),
    ],
)
def test_headers_are_held_against_the_arguments(
    headers: dict[str, str], arguments: Any, right: bool
) -> None:
    head = {
        f"mcp-param-{name}".encode(): value.encode("latin-1") for name, value in headers.items()
    }
    assert (wrong_params(head, MARKED, arguments) is None) is right


def test_what_a_client_sends_is_right() -> None:
    for method, params in (
        ("tools/call", {"name": "añadir"}),
        ("prompts/get", {"name": "=?base64?x?="}),
        ("resources/read", {"uri": "file:///a b\nc"}),
        ("tasks/get", {"taskId": "t 1 "}),
        ("tools/list", {}),
    ):
        made = request_headers(method, params, "2026-07-28")
        head = {name.encode(): value.encode() for name, value in made.items()}
        assert wrong_request(head, method, params) is None
        assert wrong_request({**head, b"mcp-method": b"x"}, method, params) is not None
        if params:
            assert wrong_request({**head, b"mcp-name": b"x"}, method, params) is not None
            assert wrong_request({b"mcp-method": method.encode()}, method, params) is not None
