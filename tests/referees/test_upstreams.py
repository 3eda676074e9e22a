"""Servers of others behind a gateway: what a client sees is what it sees without one."""

from __future__ import annotations

from contextlib import ExitStack

import environments
import programs
import pytest
from processes import FIXTURES, GRANTED, allowing, gateway, passing, upstream
from programs import text

SERVERS = environments.MODULES / "@modelcontextprotocol"
EVERYTHING = (SERVERS / "server-everything" / "dist" / "index.js", "stdio")
STEPS = [
    ["list_tools"],
    ["call_tool", "echo", {"message": "hi"}],
    ["call_tool", "get-sum", {"a": 2, "b": 3}],
    ["call_tool", "get-sum", {"a": 2}],
    ["call_tool", "get-tiny-image", {}],
    ["call_tool", "get-annotated-message", {"messageType": "error", "includeImage": True}],
    ["call_tool", "get-structured-content", {"location": "New York"}],
    ["call_tool", "get-resource-links", {"count": 3}],
    ["call_tool", "trigger-elicitation-request", {}],
    ["call_tool", "trigger-sampling-request", {"prompt": "Say something", "maxTokens": 10}],
    ["call_tool", "trigger-long-running-operation", {"duration": 0.4, "steps": 4}],
    ["list_prompts"],
    ["get_prompt", "args-prompt", {"city": "Paris", "state": "France"}],
    ["list_resources"],
    ["list_resource_templates"],
    ["read_resource", "demo://resource/static/document/features.md"],
    ["call_tool", "get-roots-list", {}],
]
REFUSED = 3
"""The step with wrong arguments."""
CLIENTS = ("sdk1", "sdk2")


def plain(result):
    """A result without what every server adds in the new era."""
    gone = ("resultType", "ttlMs", "cacheScope", "_meta")
    return {key: value for key, value in result.items() if key not in gone}


def ordered(result):
    """A result whose lists stand in the order of their names, as ours always do."""
    lists = ("tools", "prompts", "resources", "resourceTemplates")
    for key in lists:
        if key in result:
            result[key].sort(key=lambda one: one["name"])
    return plain(result)


def started_by(*words, **more):
    """The settings of a server that the gateway starts itself."""
    command = [str(word) for word in words]
    return {"type": "mcp", "command": command, "trust": "off", **more}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    argv = (environments.node(), *EVERYTHING)
    folder = tmp_path_factory.mktemp("everything")
    provider = started_by(*argv, prefix="", grants=GRANTED)
    with gateway(folder, allowing({"everything": provider})) as running:
        yield argv, running


@pytest.mark.parametrize("client", CLIENTS)
def test_server_everything_is_the_same_through_a_gateway(everything, client):
    argv, running = everything
    direct = [ordered(one) for one in programs.steps(client, argv, *STEPS)]
    through = [ordered(one) for one in programs.steps(client, running.mcp, *STEPS)]

    # Wrong arguments are refused by both, but the gateway does it itself, in its own words.
    assert direct[REFUSED]["isError"]
    assert through[REFUSED]["isError"]
    assert text(through[REFUSED]) == "the arguments do not fit: b is required"
    through[REFUSED] = direct[REFUSED]
    for step, without, with_gateway in zip(STEPS, direct, through, strict=True):
        assert with_gateway == without, step


@pytest.mark.parametrize("client", CLIENTS)
def test_a_tool_that_runs_as_a_task_only_is_a_plain_call(everything, client):
    _, running = everything
    step = ["call_tool", "simulate-research-query", {"topic": "cats", "ambiguous": False}]
    [done] = programs.steps(client, running.mcp, step)
    assert not done.get("isError")
    assert text(done).startswith("# Research Report: cats")


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """A gateway before two servers that keep something."""
    folder = tmp_path_factory.mktemp("behind")
    (folder / "files").mkdir()
    node, kept = environments.node(), {"MEMORY_FILE_PATH": str(folder / "memory.json")}
    files = SERVERS / "server-filesystem" / "dist" / "index.js"
    memory = SERVERS / "server-memory" / "dist" / "index.js"
    providers = {
        "files": started_by(node, files, folder / "files"),
        "memory": started_by(node, memory, env=kept),
    }
    with gateway(folder, allowing(providers)) as running:
        yield running


@pytest.mark.parametrize("client", CLIENTS)
def test_files_are_written_and_read_in_their_folder_only(behind, client):
    place = behind.folder / "files" / f"{client}.txt"
    secret = behind.folder / "toolcrib.yaml"
    written, read, outside = programs.steps(
        client,
        behind.mcp,
        ["call_tool", "files-write_file", {"path": str(place), "content": "hello"}],
        ["call_tool", "files-read_text_file", {"path": str(place)}],
        ["call_tool", "files-read_text_file", {"path": str(secret)}],
    )
    assert not written.get("isError")
    assert place.read_text() == "hello"
    assert text(read) == "hello"
    assert outside["isError"]
    assert "profiles" not in text(outside)


def test_what_one_client_remembers_another_one_finds(behind):
    entity = {"name": "Ann", "entityType": "person", "observations": ["likes blue"]}
    programs.steps(
        "sdk1", behind.mcp, ["call_tool", "memory-create_entities", {"entities": [entity]}]
    )
    graph, resource = programs.steps(
        "sdk2",
        behind.mcp,
        ["call_tool", "memory-read_graph", {}],
        ["read_resource", "memory://knowledge-graph"],
    )
    assert graph["structuredContent"]["entities"] == [entity]
    assert "likes blue" in resource["contents"][0]["text"]


TALK = [
    ["call_tool", "test_structured", {"a": 2, "b": 3}],
    ["call_tool", "test_elicitation", {"message": "Which colour?"}],
    ["call_tool", "test_tool_with_progress", {}],
    ["get_prompt", "test_simple_prompt"],
    ["read_resource", "test://static-text"],
]


SPOKEN = {
    "sdk1": (environments.SDK1, "-W", "ignore", FIXTURES / "sdk1" / "server.py", "--stdio"),
    "sdk2": (environments.SDK2, "-W", "ignore", FIXTURES / "sdk2" / "server.py", "--stdio"),
}


@pytest.fixture(scope="module", params=["sdk1-stdio", "sdk2-stdio", "sdk1-sse"])
def carried(request, tmp_path_factory):
    """A gateway before a fixture, over the transports that the other tests do not use."""
    sdk, _, transport = request.param.partition("-")
    folder = tmp_path_factory.mktemp(request.param)
    with ExitStack() as stack:
        if transport == "sse":
            url = stack.enter_context(upstream(sdk, "--sse")).url
            config = passing(url, transport="sse")
        else:
            provider = started_by(*SPOKEN[sdk], prefix="", grants=GRANTED)
            config = allowing({"fixture": provider})
        yield stack.enter_context(gateway(folder, config))


@pytest.mark.parametrize("client", CLIENTS)
def test_every_transport_carries_questions_and_progress(carried, client):
    added, asked, steps, prompt, resource = programs.steps(client, carried.mcp, *TALK)
    assert added["structuredContent"] == {"sum": 5}
    assert text(asked) == 'User response: action=accept, content={"response": "text"}'
    assert steps["progress"] == [[0, 100], [50, 100], [100, 100]]
    assert prompt["messages"][0]["content"]["text"] == "This is a simple prompt for testing."
    assert resource["contents"][0]["text"] == "This is the content of the static text resource."
