"""The fast ways of reading find what the careful ones find."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from toolcrib.errors import ConfigError
from toolcrib.host.config import yamltext
from toolcrib.host.config.node import Node, Origin
from toolcrib.host.config.yamltext import parse_yaml
from toolcrib.host.loaders import gathering, quick, reader
from toolcrib.host.loaders.jsonc import without_comments
from toolcrib.host.loaders.reader import read_document

ORIGIN = Origin("x.yaml", "x.yaml", Path())
WORDS = ["a", "b", "tools", "1", "x y", "é", "😀", "0x1", "1.5", "yes", "~", "null", "true", "-1"]
MARKS = [": ", "- ", "\n", "\n  ", "\n    ", "[", "]", "{", "}", ", ", "'", '"', "#", "? ", ":"]
BLOCKS = ["|\n  ", ">\n  ", "&a ", "*a", "<<: *a", "\\n", "\\/", "---\n", "\r\n", " ", "\t", "\x85"]
PARTS = st.sampled_from([*WORDS, *MARKS, *MARKS, *BLOCKS])


def shape(node: Node | None) -> Any:
    """A node's values, and the places of those that are there."""
    if node is None or node.value is None:
        return None
    if node.entries is not None:
        inner: Any = {
            name: (entry.key.line, shape(entry.node)) for name, entry in node.entries.items()
        }
    elif node.items is not None:
        inner = [shape(item) for item in node.items]
    else:
        inner = (type(node.value), node.value, node.written)
    return inner, node.line, node.size


def read_yaml(text: str) -> Node | str | None:
    try:
        return parse_yaml(text, ORIGIN)
    except ConfigError as error:
        return error.message


@given(parts=st.lists(PARTS, max_size=25))
@example(parts=["a: &x [1, *x]"])
@example(parts=["a: {b: 1, <<: {b: 2, c: 3}}"])
@example(parts=["a: 'b\n  c'\n", "d: |\n  e\n  f\n"])
@example(parts=["a:\tb"])
@example(parts=["a: b\x85c: d"])
def test_both_parsers_read_mappings_alike(parts: list[str]) -> None:
    text = "".join(parts)
    fast = read_yaml(text)
    if isinstance(fast, Node) and fast.entries is not None:
        slow = yamltext._parse_pure(text, ORIGIN, 1000)  # pyright: ignore[reportPrivateUsage]
        assert shape(fast) == shape(slow)


def test_the_fast_parser_is_used_and_can_be_absent() -> None:
    text = "tools:\n  - name: a\n"
    with mock.patch.object(yamltext, "_parse_pure", side_effect=AssertionError):
        fast = parse_yaml(text, ORIGIN)
    with mock.patch.dict("sys.modules", {"yaml._yaml": None}):
        slow = parse_yaml(text, ORIGIN)
    assert fast == slow


def test_a_large_broken_text_is_told_without_the_slow_parser() -> None:
    text = "tools:\n" + "  - name: a\n    kind: http\n" * 20_000 + "   - x: y: z\n"
    with (
        mock.patch.object(yamltext, "_parse_pure", side_effect=AssertionError),
        pytest.raises(ConfigError) as caught,
    ):
        parse_yaml(text, ORIGIN, most=10**6)
    assert caught.value.line == 40_002
    assert caught.value.cure


NAMES = st.sampled_from(["a", "b-c", "x.y:z", "", "no spaces", "é", "n\n", "a" * 129])
TEXT = st.sampled_from(["", "words", "é", "${X}", "\ud83d\ude00"])
LISTS = st.lists(st.sampled_from(["read", "write", "fly", "", "x"]), max_size=3)
SCHEMAS = st.sampled_from(
    [
        {},
        {"type": "object"},
        {"type": "objekt"},
        {"type": "object", "properties": {"a": {"type": "integer", "minimum": 2**70}}},
        [],
        None,
    ]
)
ODD = st.sampled_from([None, 1, 1.5, True, "x", [], {}, 2**70, ["x", 1], {"a": None}])


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": draw(NAMES),
        "kind": draw(st.sampled_from(["http", "shell", "python", "other", "", "process"])),
    }
    likely = {
        "description": TEXT,
        "title": TEXT,
        "input_schema": SCHEMAS,
        "output_schema": SCHEMAS,
        "config": st.sampled_from([{}, {"url": "https://x"}, {"n": 2**70}, {"d": {"e": [1.5]}}]),
        "effects": LISTS,
        "tags": LISTS,
        "permissions": LISTS,
        "requires_tools": LISTS,
        "timeout": st.sampled_from(["5s", "soon", "", "0s", 5, -1]),
        "version": st.sampled_from(["1", "", 1, 1.10]),
        "idempotent": st.booleans(),
        "requires_approval": st.booleans(),
        "annotations": st.sampled_from([{}, {"a": [1, {"b": None}]}]),
        "enabled": st.booleans(),
        "descripton": TEXT,
        "scope": st.sampled_from(["global", "session", "x"]),
        "retry": st.sampled_from([{"attempts": 2}, {"attempts": 0}]),
    }
    for name in draw(st.lists(st.sampled_from(sorted(likely)), max_size=6, unique=True)):
        entry[name] = draw(likely[name] if draw(st.integers(0, 9)) else ODD)
    return entry


def told(text: str, *, remote: bool) -> list[Any]:
    origin = Origin("x.json", "x.json", Path())
    found = read_document(text, origin, remote=remote, env={"X": "the value of X"})
    return [
        (
            fate.name,
            fate.source,
            fate.item and {**fate.item, "lines": dict(fate.item["lines"])},
            fate.spec and fate.spec.digest,
            fate.problem and [str(mistake) for mistake in fate.problem.all()],
        )
        for fate in found.fates
    ]


@given(given=st.lists(entries(), min_size=1, max_size=3), remote=st.booleans())
@example(given=[{"name": "a", "kind": "http", "config": {"n": 2**70}}], remote=False)
@example(given=[{"name": "a", "kind": "http", "description": "\ud800"}], remote=False)
@example(given=[{"name": "a", "kind": "http", "input_schema": {"type": "no"}}], remote=False)
@example(given=[{"name": "a", "kind": "http", "config": {"private": True}}], remote=True)
def test_reading_in_a_hurry_is_reading_with_care(given: list[dict[str, Any]], remote: bool) -> None:
    text = json.dumps({"tools": given}, indent=1)
    quickly = told(text, remote=remote)
    with (
        mock.patch.object(reader.quick, "pieces", return_value=None),
        mock.patch.object(gathering, "usual_item", return_value=None),
    ):
        assert told(text, remote=remote) == quickly


def test_the_quick_way_is_taken() -> None:
    text = json.dumps({"tools": [{"name": f"t{n}", "kind": "http"} for n in range(3)]})
    with mock.patch.object(reader, "parse_json", side_effect=AssertionError):
        assert len(told(text, remote=False)) == 3


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"tools": []}',
        '{"tools": [1,]}',
        '{"tools": [1] }x',
        '{"tools": [1], "version": 1}',
        '{"version": 1, "tools": [1]}',
        '{"tools": [{"a": 1, "a": 2}]}',
        '{"tools": [NaN]}',
        '{"tools": [1e999]}',
        '{"tools": [1',
        '{"tools": ' + "[" * 100_000,
    ],
    ids=range(12),
)
def test_any_other_document_is_read_with_care(text: str) -> None:
    assert quick.pieces(text) is None


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ('{"a": 1, // one\n "b": 2,}', {"a": 1, "b": 2}),
        ('{"a": "//no, /* comment */ ,]", /* x\n y */ "b": [1, 2, /* z */ ] }', None),
        ('{"a": "\\"// ,}"}', {"a": '"// ,}'}),
        ('// only\n{"a": [1,\n// last\n]}', {"a": [1]}),
    ],
    ids=["line", "block", "escaped", "after-comma"],
)
def test_comments_become_spaces(text: str, plain: Any) -> None:
    bare = without_comments(text)
    assert len(bare) == len(text)
    assert bare.count("\n") == text.count("\n")
    expected = plain or {"a": "//no, /* comment */ ,]", "b": [1, 2]}
    assert json.loads(bare) == expected
