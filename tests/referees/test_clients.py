"""Clients of others at the doors of a gateway."""

from __future__ import annotations

import json
import subprocess
import sys

import programs
import pytest
from processes import gateway, passing
from programs import text

SENTENCE = "This is a simple text response for testing."


def toolcrib(folder, *words):
    argv = [sys.executable, "-m", "toolcrib", *words]
    done = subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, timeout=60, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def names(listed):
    return [one["name"] for one in listed]


def test_inspector_lists_calls_and_reads(passed_through):
    url = passed_through.mcp
    tools = programs.inspector(url, "--method", "tools/list")["tools"]
    assert names(tools) == sorted(names(tools))
    assert {"test_simple_text", "json_schema_2020_12_tool"} <= set(names(tools))

    words = ("--method", "tools/call", "--tool-name", "test_structured")
    added = programs.inspector(url, *words, "--tool-arg", "a=2", "b=3")
    assert added["structuredContent"] == {"sum": 5}

    read = programs.inspector(url, "--method", "resources/read", "--uri", "test://static-text")
    assert read["contents"][0]["text"].startswith("This is the content")

    words = ("--method", "prompts/get", "--prompt-name", "test_prompt_with_arguments")
    prompt = programs.inspector(url, *words, "--prompt-args", "arg1=x", "arg2=y")
    assert "arg1='x', arg2='y'" in prompt["messages"][0]["content"]["text"]


def test_what_connect_writes_is_a_configuration_that_a_client_takes(passed_through, tmp_path):
    file = tmp_path / ".mcp.json"
    words = ("connect", "claude-code", "--url", passed_through.url, "--file", file)
    toolcrib(passed_through.folder, *words, "--write", "--yes")
    assert json.loads(file.read_text())["mcpServers"]["toolcrib"]["url"] == passed_through.mcp

    listed = programs.inspector("--config", file, "--server", "toolcrib", "--method", "tools/list")
    assert "test_simple_text" in names(listed["tools"])


@pytest.fixture
def spoken(fixture_server, tmp_path):
    """The command that serves a gateway on stdin and stdout."""
    file = tmp_path / "toolcrib.yaml"
    file.write_text(json.dumps(passing(fixture_server.url)))
    argv = [sys.executable, "-m", "toolcrib", "serve", "--stdio", "--config", file]
    return [str(word) for word in [*argv, "--profile", "open"]]


@pytest.mark.parametrize("client", ["sdk1", "sdk2"])
def test_python_clients_speak_on_stdin_and_stdout(spoken, client):
    said, asked, progress, prompt = programs.steps(
        client,
        spoken,
        ["call_tool", "test_simple_text", {}],
        ["call_tool", "test_elicitation", {"message": "Which colour?"}],
        ["call_tool", "test_tool_with_progress", {}],
        ["get_prompt", "test_simple_prompt"],
    )
    assert text(said) == SENTENCE
    assert text(asked) == 'User response: action=accept, content={"response": "text"}'
    assert progress["progress"] == [[0, 100], [50, 100], [100, 100]]
    assert prompt["messages"][0]["content"]["text"] == "This is a simple prompt for testing."


def test_a_client_of_the_first_revision_is_served_where_that_is_switched_on(
    fixture_server, tmp_path
):
    config = {**passing(fixture_server.url), "serve": {"mcp": {"sse": True}}}
    with gateway(tmp_path, config) as running:
        said, asked, progress = programs.steps(
            "sdk1",
            f"{running.mcp}/sse",
            ["call_tool", "test_simple_text", {}],
            ["call_tool", "test_elicitation", {"message": "Which colour?"}],
            ["call_tool", "test_tool_with_progress", {}],
        )
    assert text(said) == SENTENCE
    assert text(asked) == 'User response: action=accept, content={"response": "text"}'
    assert progress["progress"] == [[0, 100], [50, 100], [100, 100]]


@pytest.mark.parametrize("client", ["sdk1", "sdk2"])
def test_where_tools_are_searched_for_clients_find_and_call_them(fixture_server, tmp_path, client):
    config = passing(fixture_server.url)
    config["profiles"]["open"]["listing"] = {"mode": "search"}
    question = {"name": "test_elicitation", "arguments": {"message": "Which colour?"}}
    with gateway(tmp_path, config) as running:
        listed, found, said, asked = programs.steps(
            client,
            running.mcp,
            ["list_tools"],
            ["call_tool", "search_tools", {"query": "simple text"}],
            ["call_tool", "call_tool", {"name": "test_simple_text", "arguments": {}}],
            ["call_tool", "call_tool", question],
        )
    assert names(listed["tools"]) == ["call_tool", "describe_tool", "search_tools"]
    assert "test_simple_text" in text(found)
    assert text(said) == SENTENCE
    assert text(asked) == 'User response: action=accept, content={"response": "text"}'


def test_inspector_starts_a_gateway_itself(spoken, tmp_path):
    server = {"command": spoken[0], "args": spoken[1:]}
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"crib": server}}))
    words = ("--method", "tools/call", "--tool-name", "test_simple_text")
    assert text(programs.inspector("--config", file, "--server", "crib", *words)) == SENTENCE
