"""Whatever the profiles say: what trying every call finds, verification finds."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib import Principal, ToolHost, ToolSpec
from toolcrib.host.verify import verify

TEXTS = ("main", "release/x/y", "/etc/p", "x" * 9, "https://a.b.org/")
CALLS = [
    {"action": action, "count": count, "force": force, **text, **names}
    for action, count, force, text, names in itertools.product(
        ("get", "put", "drop"),
        (2, 7),
        (True, False),
        ({}, *({"text": text} for text in TEXTS)),
        ({}, {"names": ["main", "b"]}),
    )
]
PEOPLE = [
    Principal(name, roles, permissions)
    for name, roles, permissions in (
        ("anyone", (), ()),
        ("anyone", (), ("p",)),
        ("anyone", ("r",), ("p",)),
        ("anyone", ("s",), ("p",)),
        ("anyone", ("r", "s"), ("p",)),
        ("eve", (), ("p",)),
        ("eve", ("r", "s"), ()),
    )
]


def handler(input: dict[str, Any], context: Any) -> None:
    """Never called: nothing runs when decisions are explained."""


def _tool(name: str, **more: Any) -> ToolSpec:
    schema = {
        "type": "object",
        "properties": {
            "action": {"enum": ["get", "put", "drop"]},
            "count": {"type": "integer", "minimum": 0, "maximum": 7},
            "force": {"type": "boolean"},
            "text": {"type": "string"},
            "names": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["action", "count", "force"],
        "additionalProperties": False,
    }
    config = {"function": handler}
    return ToolSpec(name=name, input_schema=schema, config=config, **more)


TOOLS = [
    _tool("reader", effects=["read"]),
    _tool("writer", effects=["write"], permissions=["p"]),
    _tool("riddle", tags=["odd"]),
]

_texts = st.sampled_from(["main", "release/x", "b", "/etc/p", "x"])
_text_constraints = st.one_of(
    st.builds(lambda v: {"in": v}, st.lists(_texts, min_size=1, max_size=2)),
    st.builds(lambda v: {"not_in": v}, st.lists(_texts, min_size=1, max_size=2)),
    st.sampled_from(
        [
            {"prefix": "release/"},
            {"prefix": ["m", "/"]},
            {"glob": "release/*"},
            {"glob": "**"},
            {"glob": ["*", "release/**"]},
            {"regex": "^[a-m]"},
            {"regex": "/"},
            {"regex": "^(main|x+)$"},
            {"max_length": 4},
            {"path_under": "/etc"},
            {"path_under": "/"},
            {"host_in": ["*.b.org"]},
            {"glob": "*", "not_in": ["main"]},
            {"prefix": "release/", "regex": "y$"},
        ]
    ),
)
_arguments = st.fixed_dictionaries(
    {},
    optional={
        "action": st.builds(
            lambda kind, v: {kind: v},
            st.sampled_from(["in", "not_in"]),
            st.lists(st.sampled_from(["get", "put", "drop"]), min_size=1, max_size=2),
        ),
        "count": st.sampled_from(
            [{"max": 3}, {"min": 4}, {"max": 2, "min": 1}, {"in": [0, 7]}, {"not_in": [3]}]
        ),
        "force": st.sampled_from([{"in": [True]}, {"in": [False]}]),
        "text": _text_constraints,
        "names": st.one_of(_text_constraints, st.just({"max_items": 1})),
    },
).filter(bool)
_when = st.fixed_dictionaries(
    {},
    optional={
        "roles": st.sampled_from([["r"], ["s"], ["r", "s"]]),
        "permissions": st.just(["p"]),
        "principals": st.just(["eve"]),
        "arguments": _arguments,
    },
).filter(bool)
_match = st.sampled_from(
    ["*", "reader", "writer", "riddle", ["reader", "writer"], {"effects": ["read"]},
     {"effects": ["write", "destructive"]}, {"tags": ["odd"]}]
)  # fmt: skip
_rule = st.builds(
    lambda verdict, match, when: {verdict: match, **({"when": when} if when else {})},
    st.sampled_from(["allow", "allow", "ask", "deny", "deny"]),
    _match,
    st.one_of(st.none(), _when, _when),
)
_profile = st.fixed_dictionaries(
    {"default": st.sampled_from(["deny", "deny", "deny", "ask", "allow"]),
     "rules": st.lists(_rule, max_size=5)}
)  # fmt: skip
_never = st.fixed_dictionaries(
    {"tools": st.sampled_from(["*", "writer", ["reader", "riddle"]])},
    optional={
        "effects": st.sampled_from([["write"], ["read"]]),
        "actions": st.just(["put", "drop"]),
        "arguments": _arguments,
        "ask": st.just("also"),
        "roles": st.sampled_from([[], ["r"]]),
    },
)
_check = settings(
    max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True
)


def _host(profile: dict[str, Any]) -> ToolHost:
    return ToolHost(TOOLS, config={"profiles": {"one": profile}})


def _verdicts(host: ToolHost, tool: str, who: Principal) -> Iterator[tuple[dict[str, Any], str]]:
    for call in CALLS:
        yield call, host.explain(tool, call, principal=who, profile="one").verdict


@_check
@given(_profile, _never)
def test_a_call_that_breaks_an_invariant_is_found(
    profile: dict[str, Any], never: dict[str, Any]
) -> None:
    host = _host(profile)
    report = verify(host, {"never": never})
    found = {f.tool for f in report.findings if f.kind == "never"}
    # What is forbidden is written as a denial: the calls it refuses are those that are meant.
    meant = {"deny": {"tools": never["tools"]}}
    if "effects" in never:
        meant["deny"]["effects"] = never["effects"]
    arguments = dict(never.get("arguments", {}))
    rules: list[Any] = [meant]
    if arguments:
        meant["when"] = {"arguments": arguments}
    judge = _host({"default": "allow", "rules": rules})
    wanted = ("allow", "ask") if "ask" in never else ("allow",)
    broken = {
        spec.name
        for spec in TOOLS
        for who in PEOPLE
        if who.roles <= set(never.get("roles", who.roles))
        for call, verdict in _verdicts(host, spec.name, who)
        if verdict in wanted
        and ("actions" not in never or call["action"] in never["actions"])
        and judge.explain(spec.name, call, principal=PEOPLE[1]).verdict == "deny"
    }
    assert broken <= found
    assert all(f.certainty == "confirmed" for f in report.findings)


@_check
@given(old=_profile, new=_profile)
def test_a_call_that_was_not_allowed_before_is_found(
    old: dict[str, Any], new: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "old.json"
    file.write_text(json.dumps({"profiles": {"one": old}}))
    before, after = _host(old), _host(new)
    report = verify(after, {"never_widen": str(file)})
    wider = {
        spec.name
        for spec in TOOLS
        for who in PEOPLE
        for (_, was), (_, now) in zip(
            _verdicts(before, spec.name, who), _verdicts(after, spec.name, who), strict=True
        )
        if now == "allow" and was != "allow"
    }
    assert wider <= {f.tool for f in report.findings if f.kind == "widened"}
    assert all(f.certainty == "confirmed" for f in report.findings)


@_check
@given(_profile)
def test_a_rule_said_to_do_nothing_does_nothing(profile: dict[str, Any]) -> None:
    host = _host(profile)
    dead = {
        f.rule
        for f in verify(host).findings
        if f.tool is None and f.kind in ("never_holds", "shadowed", "redundant")
    }
    texts = [rule.text for rule in host.config.profiles["one"].rules]
    for index, text in enumerate(texts):
        if text not in dead or texts.count(text) > 1:
            continue
        rules = [r for i, r in enumerate(profile["rules"]) if i != index]
        without = _host({**profile, "rules": rules})
        for spec in TOOLS:
            for who in PEOPLE:
                assert list(_verdicts(host, spec.name, who)) == list(
                    _verdicts(without, spec.name, who)
                )
