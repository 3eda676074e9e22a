"""Definitions of tools: what is believed of them, how they are shown, what a pin is made over."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from toolcrib.core.canonical import digest
from toolcrib.core.spec import ToolSpec
from toolcrib.errors import SpecError
from toolcrib.protocol.mcp.definitions import (
    Beliefs,
    readable,
    relay_specs,
    shown,
    spec_of,
    visible,
)

RAW: dict[str, Any] = {
    "name": "get.weather",
    "title": "Weather",
    "description": "Where?",
    "inputSchema": {"type": "object", "$defs": {"a": {"$anchor": "x"}}},
    "outputSchema": {"type": "array"},
    "annotations": {"title": "W", "readOnlyHint": True},
    "icons": [{"src": "https://example.com/i.png"}],
    "execution": {"taskSupport": "optional"},
    "_meta": {"com.example/a": 1},
    "x-unknown": [1],
}


def test_a_definition_is_shown_as_it_came_under_our_name() -> None:
    spec = spec_of("up", "up-", RAW)
    assert spec.name == "up-get.weather"
    assert shown(spec) == {**RAW, "name": spec.wire_name}
    assert spec_of("up", "", RAW).name == "get.weather"
    old = {key: value for key, value in RAW.items() if key != "outputSchema"}
    assert shown(spec, modern=False) == {**old, "name": spec.wire_name}


def test_nothing_is_believed_unless_the_operator_says_so() -> None:
    assert spec_of("up", "up-", RAW).effects is None
    assert spec_of("up", "up-", RAW).idempotent is False


@pytest.mark.parametrize(
    ("hints", "effects", "repeatable"),
    [
        ({}, {"read", "write", "destructive", "egress"}, False),
        ({"readOnlyHint": True}, {"read", "egress"}, True),
        ({"readOnlyHint": True, "openWorldHint": False}, {"read"}, True),
        ({"destructiveHint": False, "openWorldHint": False}, {"read", "write"}, False),
        (
            {"destructiveHint": False, "openWorldHint": False, "idempotentHint": True},
            {"read", "write"},
            True,
        ),
    ],
)
def test_hints_that_are_believed(
    hints: dict[str, bool], effects: set[str], repeatable: bool
) -> None:
    spec = spec_of("up", "up-", {**RAW, "annotations": hints}, Beliefs(hints=True))
    assert spec.effects == effects
    assert spec.repeatable is repeatable


def test_what_the_operator_says_beats_the_hints() -> None:
    beliefs = Beliefs(effects={"write": ("get*",), "read": ("x*",)}, hints=True)
    assert spec_of("up", "up-", RAW, beliefs).effects == {"write"}
    assert spec_of("up", "up-", RAW, Beliefs(idempotent=("get.*",))).idempotent


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": 3},
        {"name": "two words"},
        {"name": "x" * 127},
        {"inputSchema": None},
        {"inputSchema": {}},
        {"inputSchema": {"type": "string"}},
        {"outputSchema": []},
        {"description": 1},
        {"title": []},
        {"annotations": {"readOnlyHint": "yes"}},
        {"annotations": {"title": 1}},
        {"icons": ["x"]},
        {"_meta": 1},
    ],
    ids=str,
)
def test_what_no_strict_client_would_take_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        spec_of("up", "up-", {**RAW, **change})


def test_no_character_is_invisible() -> None:
    every = "".join(map(chr, [*range(0xD800), *range(0xE000, 0x110000)]))
    left = visible(every)
    hidden = {c for c in left if unicodedata.category(c) in ("Cc", "Cf", "Co", "Zl", "Zp")}
    assert hidden == {"\n", "\t"}
    assert (
        visible("a\u200bb\u202e\U000e0041é日👍\ufe0f") == "a\\u200bb\\u202e\\U000e0041é日👍\ufe0f"
    )


def test_words_are_shown_without_invisible_characters() -> None:
    raw = {
        **RAW,
        "description": "do\u200b it",
        "title": "T\u202e",
        "annotations": {"title": "\u2066x"},
    }
    made = shown(spec_of("up", "up-", raw))
    assert made["description"] == "do\\u200b it"
    assert made["title"] == "T\\u202e"
    assert made["annotations"] == {"title": "\\u2066x"}


MUTATIONS: dict[str, Any] = {
    "name": "other",
    "title": "other",
    "description": "other",
    "inputSchema": {"type": "object", "description": "other"},
    "outputSchema": {"type": "object"},
    "annotations": {"title": "W", "readOnlyHint": False},
    "icons": [],
    "execution": {},
    "_meta": {"com.example/a": 2},
    "x-unknown": [2],
}


@pytest.mark.parametrize("member", MUTATIONS)
def test_every_member_counts_in_a_pin(member: str) -> None:
    changed = {**RAW, member: MUTATIONS[member]}
    assert digest(readable(changed)) != digest(readable(RAW))
    gone = {key: value for key, value in RAW.items() if key != member}
    assert digest(readable(gone)) != digest(readable(RAW))


def test_order_and_hops_do_not_count_in_a_pin() -> None:
    other = dict(reversed(RAW.items()))
    other["_meta"] = {**RAW["_meta"], "io.modelcontextprotocol/serverInfo": {"name": "s"}}
    assert digest(readable(other)) == digest(readable(RAW))


def test_own_tools_are_shown_with_what_they_do() -> None:
    spec = ToolSpec(
        name="own",
        description="d",
        title="T",
        effects=frozenset({"read", "egress"}),
        tags=frozenset({"a"}),
        output_schema={"type": "string"},
    )
    made = shown(spec)
    assert made["annotations"] == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    assert made["_meta"] == {"toolcrib/tool": {"tags": ["a"]}}
    assert made["outputSchema"] == {"type": "string"}
    assert "outputSchema" not in shown(spec, modern=False)
    assert "annotations" not in shown(ToolSpec(name="plain"))


def test_relay_tools_stand_beside_a_tool_of_that_name() -> None:
    both = {"resources": {}, "prompts": {"listChanged": True}}
    names = [spec.name for spec in relay_specs("up", both)]
    assert names == ["up-read_resource", "up-get_prompt"]
    (spec,) = relay_specs("up", {"resources": {}}, ["up-read_resource"])
    assert spec.name == "up-mcp_read_resource"
    assert spec.read_only
    assert relay_specs("up", {"tools": {}}) == []
