"""Texts to messages and back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.core import jsontext
from toolcrib.errors import JsonError
from toolcrib.protocol import jsonrpc
from toolcrib.protocol.jsonrpc import Notification, Request, Response, Wrong


def test_a_request() -> None:
    text = '{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":[1]}}'
    assert jsonrpc.read(text) == Request(1, "a", {"b": [1]})
    assert jsonrpc.read(text.encode()) == Request(1, "a", {"b": [1]})


@pytest.mark.parametrize("id", ["1", "", "ü", 0, -5, 2**70, None], ids=repr)
def test_ids_come_back_exactly(id: Any) -> None:
    read = jsonrpc.read(json.dumps({"jsonrpc": "2.0", "id": id, "method": "a"}))
    assert isinstance(read, Request)
    assert read.id == id
    assert type(read.id) is type(id)
    assert json.loads(jsonrpc.result(read.id, b"true")) == {
        "jsonrpc": "2.0",
        "id": id,
        "result": True,
    }


def test_a_notification_has_no_id() -> None:
    assert jsonrpc.read('{"jsonrpc": "2.0", "method": "a"}') == Notification("a", None)


def test_answers() -> None:
    good = jsonrpc.read('{"jsonrpc":"2.0","id":"x","result":null}')
    assert good == Response("x", None, None)
    bad = jsonrpc.read('{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"no"}}')
    assert bad == Response("x", None, {"code": 1, "message": "no"})


WRONG = {
    "not json": ("{", None, -32700),
    "empty": ("", None, -32700),
    "twice": ('{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}', None, -32700),
    "twice deep": ('{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":1,"b":2}}', None, -32700),
    "nan": ('{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":NaN}}', None, -32700),
    "half a surrogate": (r'{"jsonrpc":"2.0","id":"\ud800","method":"a"}', None, -32700),
    "two values": ("{} {}", None, -32700),
    "not utf-8": (b'{"jsonrpc":"2.0","id":"\xff","method":"a"}', None, -32700),
    "a number": ("5", None, -32600),
    "no version": ('{"id":1,"method":"a"}', 1, -32600),
    "other version": ('{"jsonrpc":"1.0","id":1,"method":"a"}', 1, -32600),
    "empty batch": ("[]", None, -32600),
    "fraction": ('{"jsonrpc":"2.0","id":1.5,"method":"a"}', None, -32600),
    "boolean": ('{"jsonrpc":"2.0","id":true,"method":"a"}', None, -32600),
    "object": ('{"jsonrpc":"2.0","id":{},"method":"a"}', None, -32600),
    "no method": ('{"jsonrpc":"2.0","id":1}', 1, -32600),
    "method no text": ('{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
    "params no object": ('{"jsonrpc":"2.0","id":1,"method":"a","params":"b"}', 1, -32600),
    "both": ('{"jsonrpc":"2.0","id":1,"method":"a","result":1}', 1, -32600),
    "result and error": ('{"jsonrpc":"2.0","id":1,"result":1,"error":{}}', 1, -32600),
    "answer without id": ('{"jsonrpc":"2.0","result":1}', None, -32600),
    "error no object": ('{"jsonrpc":"2.0","id":1,"error":"x"}', 1, -32600),
}


@pytest.mark.parametrize(("text", "id", "code"), list(WRONG.values()), ids=list(WRONG))
def test_what_is_wrong_is_said(text: bytes | str, id: Any, code: int) -> None:
    read = jsonrpc.read(text)
    assert isinstance(read, Wrong)
    assert (read.id, read.code) == (id, code)
    assert read.message


def test_a_batch_is_read_message_by_message() -> None:
    text = '[{"jsonrpc":"2.0","id":1,"method":"a"},7,{"jsonrpc":"2.0","method":"b"}]'
    first, second, third = jsonrpc.read(text)
    assert first == Request(1, "a", None)
    assert isinstance(second, Wrong)
    assert third == Notification("b", None)


def test_size_and_depth_are_limited() -> None:
    text = '{"jsonrpc":"2.0","id":1,"method":"a","params":[%s]}' % ("[" * 70 + "]" * 70)
    deep = jsonrpc.read(text)
    assert isinstance(deep, Wrong)
    assert "deeper" in deep.message
    large = jsonrpc.read('{"jsonrpc":"2.0","id":1,"method":"%s"}' % ("a" * 100), max_bytes=100)
    assert isinstance(large, Wrong)
    assert "100" in large.message


def test_what_is_built_can_be_read() -> None:
    assert jsonrpc.read(jsonrpc.request("h", "a", b'{"b":1}')) == Request("h", "a", {"b": 1})
    assert jsonrpc.read(jsonrpc.notification("a", b"{}")) == Notification("a", {})
    assert jsonrpc.read(jsonrpc.error(None, -32600, 'said "no"', b"[1]")) == Response(
        None, None, {"code": -32600, "message": 'said "no"', "data": [1]}
    )
    assert jsonrpc.read(jsonrpc.batch([jsonrpc.result(1, b"1"), jsonrpc.result(2, b"2")])) == [
        Response(1, 1, None),
        Response(2, 2, None),
    ]


# Texts that are almost JSON: real ones with something done to them.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    value = draw(VALUES)
    compact = draw(st.booleans())
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        separators=(",", ":") if compact else None,
    )
    data = text.encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        place = draw(st.integers(0, len(data)))
        data = data[:place] + draw(st.binary(max_size=3)) + data[place:]
    if draw(st.booleans()):
        data = data.replace(b'":', b'":0,"a":', 1) if draw(st.booleans()) else data * 2
    return data


def _strictly(read: Any, text: bytes) -> Any:
    try:
        return read(text)
    except JsonError as error:
        return ("refused", str(error))


@given(texts())
def test_the_quick_way_gives_and_refuses_what_the_strict_one_does(text: bytes) -> None:
    quick, slow = _strictly(jsonrpc.strict, text), _strictly(jsontext.parse, text)
    assert repr(quick) == repr(slow)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":1}',
        b'{"a":1,"\\u0061":2}',
        b'[{"a":{"b":1,"b":1}}]',
        b'{"a":1e400}',
        b"[" + b"1" * 4301 + b"]",
        b"[" * 65 + b"]" * 65,
        b'"\\udc00"',
        b"\xef\xbb\xbf{}",
        b'"\xed\xa0\x80"',
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_nothing_slips_through_the_quick_way(text: bytes) -> None:
    with pytest.raises(JsonError):
        jsonrpc.strict(text)
