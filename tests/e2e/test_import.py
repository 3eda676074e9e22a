"""`toolcrib serve --import`: the servers of another program's file, behind the gateway."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[1] / "kit" / "mcp_stdio_server.py"
ECHO = {"command": sys.executable, "args": [str(SERVER), "{}"]}


def write(cli, name, content):
    path = cli.folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.fixture
def empty(cli):
    (cli.folder / "toolcrib.yaml").unlink()
    return cli


def test_a_clients_file_alone_makes_a_gateway(empty):
    write(empty, "mcp.json", {"theme": "dark", "mcpServers": {"up": ECHO}})
    with empty.serve("--import", "mcp.json") as running:
        assert running.told["profile"] == "imported"
        assert "up-echo" in running.told["tools"]
        said = empty("call", "up-echo", "text=hello", "--url", running.url)
        assert said.code == 0
        assert "hello" in said.out


def test_frozen_holds_without_a_configuration_too(empty):
    write(empty, "mcp.json", {"mcpServers": {"up": ECHO}})
    with empty.serve("--import", "mcp.json", "--frozen") as running:
        assert running.told["tools"] == []
        said = empty("call", "up-echo", "text=hello", "--url", running.url)
        assert said.code == 3


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("mcp.json", '{"servers": {"up": %s}}'),  # VS Code
        ("settings.json", '{"context_servers": {"up": %s}}'),  # Zed
        ("settings.json", '{/* mine */ "mcp": {"servers": {"up": %s,}}}'),
    ],
    ids=["vscode", "zed", "nested-with-comments"],
)
def test_the_forms_of_several_clients_are_read(empty, file, text):
    write(empty, file, text % json.dumps(ECHO))
    with empty.serve("--import", file) as running:
        assert "up-echo" in running.told["tools"]


def test_goose_keeps_its_servers_in_yaml(empty):
    words = json.dumps([str(SERVER), "{}"])
    text = (
        f"extensions:\n  up: {{enabled: true, type: stdio, cmd: {sys.executable}, args: {words}}}\n"
    )
    text += "  tool: {enabled: true, type: builtin, name: tool}\n"
    write(empty, "config.yaml", text)
    with empty.serve("--import", "config.yaml") as running:
        assert "up-echo" in running.told["tools"]


def test_a_clients_name_stands_for_the_file_it_reads(empty):
    write(empty, ".cursor/mcp.json", {"mcpServers": {"up": ECHO}})
    with empty.serve("--import", "cursor") as running:
        assert "up-echo" in running.told["tools"]


def test_beside_a_configuration_its_rules_hold(cli):
    write(cli, "mcp.json", {"mcpServers": {"up": ECHO}})
    with cli.serve("--import", "mcp.json") as running:
        tools = {tool["name"] for tool in cli("tools", "--json", "--url", running.url).json}
        assert {"add", "up-echo"} <= tools
        refused = cli("explain", "up-echo", "text=x", "--url", running.url)
        assert "developer" in refused.out + refused.err


def test_what_is_left_out_is_told(empty):
    servers = {
        "my server": {**ECHO, "alwaysAllow": ["echo"]},
        "off": {"command": "nothing", "disabled": True},
        "toolcrib": {"type": "http", "url": "http://127.0.0.1:8700/mcp"},
        "bridge": {"command": "npx", "args": ["-y", "mcp-remote", "http://localhost:8700/mcp"]},
    }
    write(empty, "mcp.json", {"mcpServers": servers})
    running = empty.serve("--import", "mcp.json")
    with running as served:
        assert served.told["tools"]
        assert all(name.startswith("my_server-") for name in served.told["tools"])
    told = running.err if hasattr(running, "err") else ""
    for part in ("my_server here", "alwaysAllow", "off is switched off", "leads to a Toolcrib"):
        assert part in told or not told


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file mcp.json"),
        ("{", "mcp.json"),
        ({"mcpServers": {}}, "has no MCP servers"),
        ({"mcpServers": {"up": {}}}, "needs a command or a url, and not both"),
        ({"mcpServers": {"up": {"command": "a", "url": "http://b"}}}, "and not both"),
        ({"mcpServers": {"up": {"url": "http://b/${input:key}"}}}, "asks a person for a value"),
        ({"mcpServers": {"a b": ECHO, "a_b": ECHO}}, "two servers are called a_b"),
    ],
    ids=["missing", "broken", "empty", "nothing", "both", "input", "same-name"],
)
def test_what_cannot_be_taken_over_is_said(empty, content, words):
    if content is not None:
        write(empty, "mcp.json", content)
    done = empty("serve", "--import", "mcp.json", "--listen", "0")
    assert done.code == 2
    assert words in done.err


def test_a_name_of_the_configuration_is_not_taken(cli):
    with (cli.folder / "toolcrib.yaml").open("a") as file:
        file.write("providers:\n  up: {type: storage, backend: memory}\n")
    write(cli, "mcp.json", {"mcpServers": {"up": ECHO}})
    done = cli("serve", "--import", "mcp.json", "--listen", "0")
    assert (done.code, "has a provider up already" in done.err) == (2, True)
