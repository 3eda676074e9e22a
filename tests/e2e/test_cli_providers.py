"""Providers on the command line: those that are down, and those that forget."""

from __future__ import annotations

import json
import socket
import sys

import pytest

from mcp_upstreams import command

DOWN = """\
version: 1
providers:
  api:
    type: openapi
    spec: "http://127.0.0.1:{port}/openapi.json"
    private: true
  memo: {{type: storage, tools: [read, write]}}
"""
CAUSE = "the connection was refused"


@pytest.fixture
def down(empty):
    """A project with one provider that nobody answers for."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        empty.write("toolcrib.yaml", DOWN.format(port=taken.getsockname()[1]))
        yield empty


def missing(line: str) -> bool:
    begin, end = "provider api is down (toolcrib.yaml:3): ", "; its tools are not listed"
    return line.startswith(begin) and line.endswith(end) and CAUSE in line


@pytest.mark.parametrize(
    "words", ["tools", "tools --json", "explain --all", "explain --all --json"]
)
def test_a_provider_that_never_came_up_is_told_where_tools_are_listed(down, words):
    done = down(*words.split())
    assert done.code == 0
    assert "memo-read" in done.out
    assert "api" not in done.out
    assert missing(done.err.splitlines()[-1]), done.err


def test_a_call_of_its_tools_says_so(down):
    done = down("call", "api-get")
    assert done.code == 1
    assert done.err.splitlines()[0] == "api-get: failed (tool_unavailable)"
    assert missing(done.err.splitlines()[1].strip())
    error = down("call", "api-get", "--json").json["error"]
    assert (error["reason"], error["retryable"]) == ("tool_unavailable", True)
    shown = down("tools", "show", "api-get")
    assert shown.code == 2
    assert missing(shown.err.strip().removeprefix("api-get: "))


@pytest.mark.parametrize("name", ["api", "apiget", "get", "a-api-get"])
def test_a_name_that_is_not_its_own_is_unknown(down, name):
    assert down("call", name, "--json").json["error"]["reason"] == "unknown_tool"


def test_a_profile_that_conceals_does_not_tell_of_it(down):
    text = (down.folder / "toolcrib.yaml").read_text()
    rules = "profiles:\n  quiet: {conceal: true, rules: [{allow: memo-read}]}\n"
    down.write("toolcrib.yaml", text + rules)
    error = down("call", "api-get", "--json").json["error"]
    assert (error["reason"], error["message"]) == ("unknown_tool", "api-get: no such tool")


def test_explain_says_that_it_cannot_run_now(down):
    done = down("explain", "api-get")
    assert "DENY    tool_unavailable: provider api is down" in done.out
    assert done.out.endswith("Verdict: cannot run now. Nothing was run.\n")


def test_check_has_a_row_for_each_provider(down):
    done = down("tools", "check", "--json")
    assert done.code == 2
    assert [(f["entry"], f["tool"], f["fate"]) for f in done.json] == [
        ("toolcrib.yaml:3", None, "fail"),
        ("toolcrib.yaml:7", None, "ok"),
    ]
    assert done.json[0]["remark"].startswith("provider api is down: ")
    assert done.json[0]["remark"].endswith(CAUSE)
    assert done.json[1]["remark"] == "provider memo: 2 tools"


def test_config_check_counts_providers(down):
    assert down("config", "check").err == "toolcrib.yaml: ok. 0 tools, 2 providers, 0 profiles.\n"


def test_doctor_tells_the_cause_and_a_cure(down):
    found = [f for f in down("doctor", "--json").json if f["name"] == "provider"]
    assert [f["state"] for f in found] == ["fail", "ok"]
    assert found[0]["text"].startswith("api: down, 0 tools; ")
    assert found[0]["text"].endswith(CAUSE)
    assert "(toolcrib.yaml:3)" in found[0]["cure"]
    assert CAUSE not in found[0]["cure"]


PROBLEMS = """\
openapi: 3.1.0
info: {title: t, version: "1"}
servers: [{url: "http://127.0.0.1:9"}]
paths:
  /good: {get: {operationId: good, responses: {}}}
  /twice: {get: {operationId: good, responses: {}}}
"""


def test_what_a_provider_cannot_offer_is_told_by_check(empty):
    empty.write("api.yaml", PROBLEMS)
    empty.write(
        "toolcrib.yaml",
        "version: 1\nproviders:\n  api: {type: openapi, spec: api.yaml, private: true}\n"
        "tools:\n  - {name: api-good, kind: shell, config: {argv: ['true']}, effects: [read],\n"
        "     description: Good., input_schema: {type: object}}\n",
    )
    done = empty("tools", "check", "--json")
    (tool, provider) = done.json
    assert (done.code, tool["fate"], provider["fate"]) == (0, "ok", "warn")
    assert "1 cannot be used: api-good: the name is taken" in provider["remark"]


def test_memory_that_ends_with_the_command_is_told_of_once(empty):
    empty.write(
        "toolcrib.yaml",
        "version: 1\nproviders:\n  memo: {type: storage}\n"
        "  kept: {type: storage, backend: sqlite, path: kept.db}\n"
        "  other: {type: storage, prefix: notes}\n",
    )
    said = " keeps this until this process ends; write backend: sqlite to keep it\n"
    pair = ("key=a", "value=b")
    assert empty("call", "memo-write", *pair).err == f"memo{said}"
    assert empty("call", "notes-write", *pair).err == f"other{said}"
    assert empty("call", "kept-write", *pair).err == ""
    assert empty("call", "memo-list").err == ""
    refused = empty("call", "memo-write", "key=a")
    assert "keeps this" not in refused.err
    assert "  try: toolcrib call memo-write key=a value=" in refused.err


def test_a_tool_that_is_down_is_marked_and_the_cause_told_below(empty):
    empty.write(
        "toolcrib.yaml",
        "version: 1\ntools:\n"
        "  - {name: here, kind: shell, config: {argv: ['true']}, effects: [read],\n"
        "     description: Here., input_schema: {type: object}}\n"
        "  - {name: gone, kind: shell, config: {argv: ['true']}, effects: [read],\n"
        "     description: Gone., input_schema: {type: object}, requires_secrets: [NOBODY_SET]}\n",
    )
    done = empty("tools")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines == [
        ["name", "kind", "effects", "state", "description"],
        ["gone", "shell", "read", "unavailable", "Gone."],
        ["here", "shell", "read", "Here."],
    ]
    cause = "it needs the secret NOBODY_SET in the environment"
    assert done.err == f"1 tool unavailable: {cause}\n"
    rows = {row["tool"]: row["verdict"] for row in empty("explain", "--all", "--json").json}
    assert rows == {"gone": "unavailable", "here": "allow"}
    assert "Verdict: cannot run now." in empty("explain", "gone").out


def test_a_provider_that_is_down_and_known_keeps_its_tools_listed(empty):
    broken = "{type: storage, backend: sqlite, path: toolcrib.yaml/x.db, tools: [read, list]}"
    empty.write("toolcrib.yaml", f"version: 1\nproviders:\n  memo: {broken}\n")
    done = empty("tools")
    assert [line.split()[0] for line in done.out.splitlines()] == ["name", "memo-list", "memo-read"]
    assert done.err.startswith("2 tools unavailable: the provider memo is down: ")
    assert "not listed" not in done.err
    assert "Did you mean memo-read?" in empty("call", "memo-rea").err


def test_a_call_waits_for_its_own_provider_only(empty):
    """Beside one that never answers, and for which others would wait for longer than this test."""
    hangs = [sys.executable, "-I", "-c", "import time; time.sleep(300)"]
    mcp = {"type": "mcp", "trust": "off", "effects": {"read": ["*"]}}
    config = {
        "version": 1,
        "host": {"ready": "10m"},
        "providers": {
            "hangs": {**mcp, "command": hangs, "start_timeout": "10m", "stop_timeout": "10m"},
            "up": {**mcp, "command": command()},
        },
        "profiles": {"default": {"rules": [{"allow": "*"}]}},
    }
    empty.write("toolcrib.yaml", json.dumps(config))
    done = empty("call", "up-echo", "text=hello")
    assert (done.code, done.out) == (0, "hello\n"), done.err
