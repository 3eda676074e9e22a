"""Specs from elsewhere: only what is listed may be said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolcrib.host.config.node import Origin
from toolcrib.host.loaders.reader import read_document
from toolcrib.host.loaders.report import Fate

WHERE = "https://tools.example/all"
HTTP = {
    "name": "city",
    "kind": "http",
    "config": {"method": "GET", "url": "https://api.example.com/{name}"},
    "input_schema": {"type": "object", "properties": {"name": {"type": "string"}}},
}


def read(value: Any) -> list[Fate]:
    origin = Origin(WHERE, WHERE, Path())
    found = read_document(json.dumps(value, indent=1), origin, ending="json", remote=True)
    return found.fates


def test_what_may_be_said() -> None:
    entry = {
        **HTTP,
        "title": "City",
        "description": "Look it up.",
        "output_schema": {"type": "object"},
        "effects": ["read", "egress"],
        "idempotent": True,
        "timeout": "5s",
        "retry": {"attempts": 2},
        "version": "2",
        "category": "maps",
        "tags": ["maps"],
        "permissions": ["maps.read"],
        "requires_approval": True,
        "requires_tools": ["other"],
        "conflicts_with": ["old"],
        "annotations": {"a": 1},
        "enabled": True,
    }
    [fate] = read({"tools": [entry]})
    assert fate.problem is None
    assert fate.spec is not None
    assert fate.source == f"{WHERE}:3"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"kind": "shell", "config": {"argv": ["id"]}}, "tools of kind shell"),
        ({"kind": "process"}, "tools of kind process"),
        ({"kind": "storage"}, "tools of kind storage"),
        ({"kind": "python", "module": "os", "function": "system"}, "module"),
        ({"kind": None}, "tools of kind None"),
        ({"python": "tools.py"}, "python"),
        ({"template": "git"}, "template"),
        ({"tool_type": "shell", "kind": ...}, "tools of kind shell"),
        ({"implementation_config": {"command": "id"}, "config": ...}, "config.command"),
        ({"policy": {"use": "paths"}}, "policy"),
        ({"scope": "session"}, "scope"),
        ({"requires_secrets": ["TOKEN"]}, "requires_secrets"),
        ({"env": {"A": "b"}}, "env"),
        ({"sandbox": "none"}, "sandbox"),
        ({"config": {"url": "https://x", "private": True}}, "config.private"),
        ({"config": {"url": "https://x", "hosts": ["*"]}}, "config.hosts"),
        ({"config": {"url": "https://x", "auth": {"bearer": "x"}}}, "config.auth"),
        ({"config": {"url": "https://x", "argv": ["id"]}}, "config.argv"),
        ({"config": {"url": "https://${HOME}"}}, "${…}"),
        ({"config": {"url": "https://x", "headers": {"a": ["${HOME}"]}}}, "${…}"),
        ({"description": "${HOME}"}, "${…}"),
        ({"input_schema": {"type": "object", "description": "${HOME}"}}, "${…}"),
        ({"annotations": {"${HOME}": 1}}, "${…}"),
        ({"timeout": "61s"}, "timeout above 60 seconds"),
        ({"config": {"url": "https://x", "timeout": "900h"}}, "config.timeout above 60 seconds"),
        ({"config": {"url": "https://x", "max_bytes": "6MB"}}, "max_bytes above 5,000,000 bytes"),
        ({"config": {"url": "https://x", "method": ["POST"]}}, "that is not text"),
    ],
    ids=range(27),
)
def test_what_may_not_be_said(change: dict[str, Any], what: str) -> None:
    wrong = {**HTTP, "name": "wrong", **change}
    wrong = {name: value for name, value in wrong.items() if value is not ...}
    fates = read({"tools": [HTTP, wrong, {**HTTP, "name": "street"}]})
    assert [f.name for f in fates if f.problem is None] == ["city", "street"]
    [problem] = [f.problem for f in fates if f.problem is not None]
    told = [mistake.message for mistake in problem.all()]
    assert any(message.startswith("remote specs may not carry ") for message in told), told
    assert any(what in message for message in told), told


@pytest.mark.parametrize(
    ("method", "effects", "missing"),
    [
        ("POST", ["read"], "egress, write"),
        ("DELETE", ["write", "egress"], "destructive"),
        ("delete", ["read"], "destructive, egress, write"),
        ("GET", ["read"], "egress"),
    ],
    ids=["post", "delete", "lower-case", "arguments"],
)
def test_effects_may_not_be_played_down(method: str, effects: list[str], missing: str) -> None:
    config = {**HTTP["config"], "method": method}
    [fate] = read({"tools": [{**HTTP, "config": config, "effects": effects}]})
    assert fate.problem is not None
    assert fate.problem.message.endswith(f"{missing} is missing")


@pytest.mark.parametrize(
    ("schema", "egress"),
    [
        ({"type": "object", "properties": {}}, False),
        ({"type": "object", "additionalProperties": False}, False),
        ({"type": "object", "additionalProperties": True}, True),
        ({"type": "object", "patternProperties": {"^a": {}}}, True),
    ],
    ids=["empty", "closed", "open", "pattern"],
)
def test_a_remote_get_only_reads_if_nothing_is_sent_with_it(
    schema: dict[str, Any], egress: bool
) -> None:
    config = {"url": "https://api.example.com/rates"}
    [fate] = read({"tools": [{**HTTP, "config": config, "input_schema": schema,
                              "effects": ["read"]}]})  # fmt: skip
    assert (fate.problem is not None) is egress


def test_limits_of_a_remote_spec_may_be_the_usual_ones() -> None:
    config = {**HTTP["config"], "timeout": "60s", "max_bytes": "5MB"}
    [fate] = read({"tools": [{**HTTP, "config": config, "timeout": "1m"}]})
    assert fate.problem is None


def test_effects_that_are_not_told_stay_unknown() -> None:
    [fate] = read({"tools": [{**HTTP, "config": {**HTTP["config"], "method": "POST"}}]})
    assert fate.spec is not None
    assert fate.spec.effects is None


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ({"mcpServers": {"x": {"command": "id"}}}, "commands or servers"),
        ({"mcpServers": {"x": {"url": "https://x"}}}, "commands or servers"),
        ({"providers": {"x": {"type": "openapi", "spec": "https://x"}}}, "providers"),
        ({"mode": "denylist", "tools": [{"type": "python", "module": "os"}]}, "modules"),
        (
            {
                "mode": "denylist",
                "tools": [{"type": "mcp", "transport": "stdio", "command": ["id"]}],
            },
            "commands or servers",
        ),
        (
            {"mode": "denylist", "tools": [{"type": "openapi", "url": "file:///etc/passwd"}]},
            "providers",
        ),
        (
            {
                "utcp_version": "1.0.1",
                "tools": [
                    {
                        "name": "x",
                        "tool_call_template": {
                            "call_template_type": "cli",
                            "commands": [{"command": "id"}],
                        },
                    }
                ],
            },
            "commands",
        ),
        (
            {
                "utcp_version": "1.0.1",
                "tools": [
                    {
                        "name": "x",
                        "tool_call_template": {
                            "call_template_type": "http",
                            "url": "https://x.example",
                            "auth": {"auth_type": "api_key", "api_key": "${TOKEN}"},
                        },
                    }
                ],
            },
            "config.auth",
        ),
    ],
    ids=range(8),
)
def test_other_forms_may_not_say_more(document: Any, what: str) -> None:
    fates = read(document)
    assert [(f.spec, f.provider, f.item) for f in fates] == [(None, None, None)]
    assert fates[0].problem is not None
    assert f"remote specs may not carry {what}" in fates[0].problem.message


def test_a_manual_from_elsewhere() -> None:
    template = {"call_template_type": "http", "url": "https://x.example", "http_method": "POST"}
    [fate] = read(
        {"utcp_version": "1.0.1", "tools": [{"name": "x", "tool_call_template": template}]}
    )
    assert fate.problem is None
    assert fate.spec is not None
    assert fate.spec.effects == {"write", "egress"}
