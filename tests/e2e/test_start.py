"""How a gateway starts that an agent's program starts again and again: quickly, and alike."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

import pytest

from toolcrib.cli.plain import Serve, plain_serve
from toolcrib.cli.serve import serve
from toolcrib.transports.warming import REST, load_rest

TOOLS = """
import sys

from toolcrib import tool


@tool(effects=["read"])
def loaded() -> list[str]:
    '''What this process has imported.'''
    return sorted(sys.modules)
"""
CONFIG = """
version: 1
tools:
  - python: tools.py
profiles:
  all: {rules: [{allow: "*"}]}
"""
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
UNUSED = {
    "click",
    "rich",
    "ruamel",
    "aiohttp",
    "glob",
    "html",
    "uvicorn",
    "prometheus_client",
    "toolcrib.approvals.inbox",
    "toolcrib.catalog.index",
    "toolcrib.cli.commands",
    "toolcrib.cli.host_tools",
    "toolcrib.cli.importing",
    "toolcrib.core.protocols",
    "toolcrib.host.history",
    "toolcrib.host.supervisor",
    "toolcrib.host.trust.keeper",
    "toolcrib.host.trust.trust",
    "toolcrib.pipeline.explain",
    "toolcrib.protocol.mcp.definitions",
    "toolcrib.transports.client_tools",
    "toolcrib.transports.events",
    "toolcrib.transports.http.listening",
    "toolcrib.transports.mcp.tools",
    "toolcrib.transports.methods",
    "toolcrib.transports.subscriptions",
    "toolcrib.transports.wire",
}
"""What a first call on stdio needs nothing of; each took a part of the time until its answer."""


@pytest.fixture
def gateway(cli: Any) -> Any:
    (cli.folder / "tools.py").write_text(TOOLS)
    (cli.folder / "toolcrib.yaml").write_text(CONFIG)
    return cli


def _typed(words: list[str]) -> Serve:
    """What the parser of all commands makes of these words."""
    params: dict[str, Any] = dict(serve.make_context("serve", words[1:]).params)
    assert params.pop("url") is None
    return Serve(**params)


@pytest.mark.parametrize(
    "words",
    [
        "serve --stdio",
        "serve --quiet --stdio",
        "serve --stdio --frozen --quiet",
        "serve --stdio --config toolcrib.yaml",
        "serve --stdio --config=a=b.yaml --profile all",
        "serve --profile one --stdio --profile=two",
        "serve --config a --stdio --config b",
        "serve --stdio --stdio",
        "serve --stdio --host-tools tools.py",
        "serve --stdio --host-tools=a.py --host-tools-module m --host-tools b.json --import c.json",
        "serve --import a.json --stdio --frozen --import=b.json",
    ],
)
def test_what_programs_write_is_read_as_by_the_parser_of_all_commands(words: str) -> None:
    assert plain_serve(words.split()) == _typed(words.split())


@pytest.mark.parametrize(
    "words",
    [
        "",
        "serve",
        "serve --quiet",
        "call --stdio",
        "--debug serve --stdio",
        "serve --stdio --debug",
        "serve --stdio --listen 8700",
        "serve --stdio --config",
        "serve --stdio --config --quiet",
        "serve --stdio --config=",
        "serve --stdio --profile -x",
        "serve --stdio --import",
        "serve --stdio --host-tools --quiet",
        "serve --stdio=yes",
        "serve --stdio --quiet=1",
        "serve --stdio --",
        "serve --stdio toolcrib.yaml",
        "serve --stdio --help",
        "serve --stdio --url http://localhost",
        "serve --stdio --stdioo",
    ],
)
def test_everything_else_is_left_to_that_parser(words: str) -> None:
    assert plain_serve(words.split()) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "gone.yaml"], "there is no file gone.yaml"),
        (["--profile", "al"], "there is no profile 'al'. Did you mean all?"),
        (["--host-tools", "gone.py"], "--host-tools: there is no file gone.py"),
        (["--import", "gone.json"], "gone.json"),
    ],
)
def test_both_ways_say_the_same_of_a_mistake(gateway: Any, words: list[str], said: str) -> None:
    plain = gateway("serve", "--stdio", *words)
    other = gateway("serve", "--stdio", "--no-approve", *words)
    assert (plain.code, plain.out) == (2, "")
    assert said in plain.err
    assert plain == other


def test_a_mistake_in_the_configuration_ends_with_two(gateway: Any) -> None:
    (gateway.folder / "toolcrib.yaml").write_text("version: 1\nprofils: {}\n")
    plain, other = gateway("serve", "--stdio"), gateway("serve", "--stdio", "--no-approve")
    assert plain.code == 2
    assert "toolcrib.yaml:2" in plain.err
    assert plain == other


def test_a_first_call_loads_only_what_it_needs(gateway: Any) -> None:
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools.call", "params": {"name": "loaded"}}
    ran = gateway("serve", "--stdio", "--quiet", stdin=json.dumps(call) + "\n")
    loaded = set(json.loads(ran.out)["result"]["output"])
    assert "toolcrib.pipeline.pipeline" in loaded
    assert {name for name in UNUSED if name in loaded} == set()


def test_what_follows_a_greeting_is_all_there(gateway: Any) -> None:
    """A greeting is answered before the rest of MCP is loaded; nobody notices."""
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "loaded"}},
        {"jsonrpc": "2.0", "id": 4, "method": "prompts/list"},
    ]
    ran = gateway("serve", "--stdio", stdin="".join(json.dumps(each) + "\n" for each in asked))
    answers = {each.get("id"): each for each in map(json.loads, ran.out.splitlines())}
    assert answers[1]["result"]["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == ["loaded"]
    assert "toolcrib.transports.mcp.tools" in answers[3]["result"]["content"][0]["text"]
    assert answers[4]["error"]["code"] == -32601


def test_a_gateway_that_stays_has_loaded_the_rest_before_it_is_needed(gateway: Any) -> None:
    """So that no first question waits for it, and an upgrade of the files beneath mixes nothing."""
    with gateway.serve() as running:
        for _ in range(100):
            done = gateway("call", "loaded", "--json", "--url", running.url)
            if set(REST) <= set(done.json["output"]):
                return
            time.sleep(0.1)
    raise AssertionError(sorted(set(REST) - set(done.json["output"])))


async def test_what_cannot_be_loaded_any_more_is_said_and_keeps_nothing_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "toolcrib.pipeline.explain", raising=False)
    load_rest(("toolcrib.gone", "toolcrib.pipeline.explain"))
    for _ in range(3):
        await asyncio.sleep(0)
    assert "toolcrib.gone cannot be loaded any more" in caplog.text
    assert "toolcrib.pipeline.explain" in sys.modules
