"""Other people's forms: recognised by content, read entry by entry."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.executors.http import HttpExecutor
from toolcrib.executors.shell import ShellExecutor
from toolcrib.host.loaders import FileLoader, Format, LoadReport
from toolcrib.host.workshop import Sandboxes, Workshop

ENV = {"TOKEN": "s3cret-token", "PASSWORD": "s3cret-password"}


def load(
    folder: Path, value: Any, *, name: str = "x.json", format: Format | None = None
) -> LoadReport:
    text = value if isinstance(value, str) else json.dumps(value, indent=1)
    (folder / name).write_text(text)
    return FileLoader(name, folder, format=format, env=ENV).read()


def server(folder: Path, entry: Any) -> LoadReport:
    return load(folder, {"mcpServers": {"it": entry}})


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            {"command": "npx", "args": ["-y", "pkg", "${TOKEN}"], "env": {"A": "1"}, "cwd": "."},
            {"command": ["npx", "-y", "pkg", "s3cret-token"], "env": {"A": "1"}, "cwd": "."},
        ),
        ({"type": "stdio", "command": ["uvx", "pkg"]}, {"command": ["uvx", "pkg"]}),
        (
            {"url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
            {
                "url": "https://x.example/mcp",
                "transport": "http",
                "headers": {"Authorization": "Bearer s3cret-token"},
            },
        ),
        (
            {"type": "sse", "url": "https://x.example/sse"},
            {"url": "https://x.example/sse", "transport": "sse"},
        ),
    ],
    ids=["command", "list", "url", "sse"],
)
def test_servers_become_providers(tmp_path: Path, entry: Any, expected: dict[str, Any]) -> None:
    found = server(tmp_path, entry).check()
    provider = dict(found.providers["it"])
    place = provider.pop("place")
    assert provider == {"type": "mcp", **expected}
    assert place["source"] == "x.json:3"
    assert place["base"] == str(tmp_path)


@pytest.mark.parametrize(
    ("entry", "message", "line"),
    [
        (7, "mcpServers.it: a server must be a mapping, not 7", 3),
        ({}, "mcpServers.it: a server needs a command, or a url, and not both", 3),
        ({"command": "x", "url": "y"}, "mcpServers.it: a server needs a command, or a url", 3),
        ({"comand": "x"}, "mcpServers.it: a server has no setting 'comand'", 4),
        ({"command": ""}, "mcpServers.it: command names no program", 4),
        ({"command": "x", "args": "y"}, "mcpServers.it: args must be a list of text", 5),
        ({"command": "x", "args": [1]}, "mcpServers.it: args must be a list of text", 5),
        ({"command": "x", "env": {"A": 1}}, "mcpServers.it: env.A must be text, not 1", 6),
        ({"command": "x", "type": "http"}, "mcpServers.it: http does not go with a command", 5),
        ({"url": "x", "type": "telex"}, "mcpServers.it: 'telex' is no transport", 5),
        ({"url": "x", "args": []}, "mcpServers.it: args goes with a command", 5),
        ({"command": "x", "headers": {}}, "mcpServers.it: headers go with a url", 5),
        ({"command": "x", "alwaysAllow": ["y"]}, "mcpServers.it: alwaysAllow is an agreement", 5),
        ({"command": "x", "disabled": "no"}, "mcpServers.it: disabled must be true or false", 5),
    ],
    ids=range(14),
)
def test_wrong_servers(tmp_path: Path, entry: Any, message: str, line: int) -> None:
    [problem] = server(tmp_path, entry).problems
    assert problem.message.startswith(message)
    assert problem.line == line
    assert problem.cure


def test_one_bad_server_hides_no_other(tmp_path: Path) -> None:
    servers = {
        "a": {"command": "x"},
        "b": {},
        "c": {"command": "x", "disabled": True},
        "d": {"command": "${NOT_SET}"},
        "e": {"url": "https://x.example"},
    }
    found = load(tmp_path, {"mcpServers": servers})
    assert sorted(found.providers) == ["a", "e"]
    assert [f.name for f in found.entries if f.problem is not None] == ["b", "d"]
    assert [f.name for f in found.entries] == ["a", "b", "c", "d", "e"]
    assert found.problems[1].message.startswith(
        "mcpServers.d.command[0] needs the environment variable NOT_SET"
    )


def test_servers_and_tools_in_one_file(tmp_path: Path) -> None:
    text = "mcpServers: {fs: {command: x}}\ntools:\n- {name: a, kind: http}\n"
    found = load(tmp_path, text, name="x.yaml").check()
    assert ([spec.name for spec in found.specs], list(found.providers)) == (["a"], ["fs"])


INPUTS = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "page": {"type": "integer"},
        "trace": {"type": "string"},
        "body": {"type": "object"},
    },
    "required": ["id"],
}


def manual(*tools: dict[str, Any]) -> dict[str, Any]:
    return {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": list(tools)}


def over_http(**template: Any) -> dict[str, Any]:
    given = {"call_template_type": "http", "url": "https://api.example.com/users/{id}", **template}
    return {
        "name": "users.get",
        "description": "A user.",
        "inputs": INPUTS,
        "outputs": {"type": "object"},
        "tags": ["users"],
        "tool_call_template": given,
    }


def test_a_manual(tmp_path: Path) -> None:
    [spec] = load(tmp_path, manual(over_http(http_method="GET"))).check().specs
    assert (spec.name, spec.kind, spec.description) == ("users.get", "http", "A user.")
    assert spec.input_schema == INPUTS
    assert spec.output_schema == {"type": "object"}
    assert spec.tags == {"users"}
    assert spec.effects == {"read"}
    assert spec.config == {
        "method": "GET",
        "url": "https://api.example.com/users/{id}",
        "query": {"page": "{page}", "trace": "{trace}", "body": "{body}"},
    }


def test_bodies_and_headers_of_a_manual(tmp_path: Path) -> None:
    tool = over_http(http_method="POST", headers={"X-A": "b"}, header_fields=["trace"])
    [spec] = load(tmp_path, manual(tool)).check().specs
    assert spec.effects == {"write", "egress"}
    assert spec.config == {
        "method": "POST",
        "url": "https://api.example.com/users/{id}",
        "query": {"page": "{page}"},
        "headers": {"X-A": "b", "trace": "{trace}"},
        "body": {"json": "{body}"},
    }


CREDENTIALS = [
    (
        {"auth_type": "api_key", "api_key": "Bearer ${TOKEN}", "var_name": "Authorization"},
        {"bearer": "s3cret-token"},
    ),
    (
        {"auth_type": "api_key", "api_key": "${TOKEN}"},
        {"header": {"name": "X-Api-Key", "value": "s3cret-token"}},
    ),
    (
        {"auth_type": "api_key", "api_key": "k", "var_name": "key", "location": "query"},
        {"query": {"name": "key", "value": "k"}},
    ),
    (
        {"auth_type": "basic", "username": "u", "password": "${PASSWORD}"},
        {"basic": {"user": "u", "password": "s3cret-password"}},
    ),
    (
        {
            "auth_type": "oauth2",
            "token_url": "https://x.example/t",
            "client_id": "c",
            "client_secret": "${PASSWORD}",
            "scope": "a b",
        },
        {
            "oauth": {
                "token_url": "https://x.example/t",
                "client_id": "c",
                "client_secret": "s3cret-password",
                "scopes": ["a", "b"],
            }
        },
    ),
]
AUTHS = [auth for auth, _ in CREDENTIALS]


@pytest.mark.parametrize(
    ("auth", "expected"),
    CREDENTIALS,
    ids=["bearer", "header", "query", "basic", "oauth"],
)
def test_credentials_of_a_manual(tmp_path: Path, auth: Any, expected: Any) -> None:
    [spec] = load(tmp_path, manual(over_http(auth=auth))).check().specs
    assert spec.config["auth"] == expected


def test_a_command_of_a_local_manual(tmp_path: Path) -> None:
    template = {
        "call_template_type": "cli",
        "commands": [{"command": "git log UTCP_ARG_id_UTCP_END"}],
        "env_vars": {"LANG": "C"},
        "working_dir": "repo",
    }
    tool = {"name": "log", "inputs": INPUTS, "tool_call_template": template}
    [spec] = load(tmp_path, manual(tool)).check().specs
    assert (spec.kind, spec.effects) == ("shell", None)
    assert spec.config == {"command": "git log {id}", "env": {"LANG": "C"}, "cwd": "repo"}


def test_what_a_manual_brings_can_be_run(tmp_path: Path) -> None:
    workshop = Workshop(Sandboxes(), tmp_path)
    posted = over_http(http_method="POST", headers={"X-A": "b"}, header_fields=["trace"])
    for tool in (over_http(), posted, *(over_http(auth=auth) for auth in AUTHS)):
        [spec] = load(tmp_path, manual(tool)).check().specs
        HttpExecutor().bind(spec, workshop)
    inputs = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    [spec] = load(tmp_path, manual({**_cli("ls UTCP_ARG_id_UTCP_END"), "inputs": inputs})).specs
    ShellExecutor().bind(spec, workshop)


def _over(kind: str) -> dict[str, Any]:
    return {"name": "t", "tool_call_template": {"call_template_type": kind}}


def _cli(*commands: str) -> dict[str, Any]:
    steps = [{"command": command} for command in commands]
    return {"name": "c", "tool_call_template": {"call_template_type": "cli", "commands": steps}}


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        (
            _over("text"),
            "UTCP tools over text",
        ),
        (_over("mcp"), "UTCP tools over mcp"),
        ({"name": "t", "tool_provider": {}}, "this is a tool of UTCP 0"),
        ({"name": "t"}, "tool_call_template is missing"),
        (_cli("a", "b"), "several commands in a row need a shell"),
        (_cli(), "commands must be a list"),
        (over_http(verb="GET"), "an http template has no setting 'verb'"),
        (over_http(url=None), "url is missing"),
        (over_http(http_method="POST", content_type="text/xml"), "a body of type text/xml"),
        (over_http(auth={"auth_type": "api_key", "api_key": "$KEY"}), "api_key names a variable"),
        (over_http(auth={"auth_type": "hawk"}), "auth of type hawk is not supported"),
    ],
    ids=range(11),
)
def test_what_a_manual_cannot_bring(tmp_path: Path, tool: Any, message: str) -> None:
    found = load(tmp_path, manual(tool, over_http()))
    assert [spec.name for spec in found.specs] == ["users.get"]
    [problem] = found.problems
    assert problem.message.startswith(f"tools[0]: {message}")
    assert problem.line is not None
    assert problem.cure


SOURCES = """\
// A toolregistry file.
{
  "mode": "denylist",
  "disabled": ["web/search"],
  "tools": [
    {"type": "python", "module": "registry_sums", "namespace": "sums", "tags": ["maths"]},
    {"class": "registry_sums.Words", "namespace": "words"},
    {"type": "python", "class": "registry_sums.Bound"},
    {"type": "mcp", "transport": "stdio", "command": ["uvx", "x"], "namespace": "files"},
    {"type": "mcp", "transport": "http", "url": "https://x.example/mcp"},
    {"type": "openapi", "url": "https://x.example/openapi.json", "namespace": "pets",
     "auth": {"type": "bearer", "token_env": "TOKEN"}, "base_url": "https://x.example"},
    {"type": "mcp", "transport": "carrier-pigeon"},
    {"type": "python", "module": "registry_nowhere"},
    {"type": "mcp", "transport": "sse", "url": "https://y.example", "namespace": "web/search"},
    {"type": "python", "module": "registry_sums", "enabled": false},
    {"type": "cobol"},
  ],
  "tool_metadata": {"sums-add": {"search_hint": "plus", "defer": true}},
}
"""

MODULE = '''\
def add(a: int, b: int = 1) -> int:
    """Add."""
    return a + b

def _hidden() -> None: ...

class Words:
    @staticmethod
    def upper(text: str) -> str:
        """Louder."""
        return text.upper()

class Bound:
    def hello(self) -> str:
        return "hello"
'''


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "registry_sums.py").write_text(MODULE)
    yield tmp_path
    sys.modules.pop("registry_sums", None)


def test_a_toolregistry_file(registry: Path) -> None:
    found = load(registry, SOURCES, name="x.jsonc")
    add, upper = found.specs
    assert (add.name, add.description, add.tags) == ("sums-add", "Add.", {"maths"})
    assert add.config == {"module": "registry_sums", "function": "add"}
    assert add.input_schema["required"] == ["a"]
    assert add.annotations == {"search_hint": "plus", "defer": True}
    assert (upper.name, upper.config["function"]) == ("words-upper", "Words.upper")
    given = {name: {**p, "place": None} for name, p in found.providers.items()}
    assert given == {
        "files": {"type": "mcp", "command": ["uvx", "x"], "place": None},
        "mcp_tools_4": {
            "type": "mcp",
            "url": "https://x.example/mcp",
            "transport": "http",
            "place": None,
        },
        "pets": {
            "type": "openapi",
            "spec": "https://x.example/openapi.json",
            "base_url": "https://x.example",
            "auth": {"bearer": "s3cret-token"},
            "place": None,
        },
    }
    assert [(problem.line, problem.message.partition(": ")[2]) for problem in found.problems] == [
        (8, "these methods of Bound need an instance: hello"),
        (13, "'carrier-pigeon' is no transport"),
        (14, "the module registry_nowhere cannot be imported: No module named 'registry_nowhere'"),
        (17, "'cobol' is no type of source"),
    ]
    off = [f.name for f in found.entries if not (f.spec or f.provider or f.problem)]
    assert off == ["web/search", "tools[9]"]


@pytest.mark.parametrize(
    ("mode", "listed", "expected"),
    [
        ("allowlist", {"enabled": ["web", "a*"]}, ["a1", "web/search"]),
        ("denylist", {"disabled": ["web", "a*"]}, ["other"]),
        ("allowlist", {"enabled": []}, []),
    ],
    ids=["allow", "deny", "none"],
)
def test_lists_of_namespaces(tmp_path: Path, mode: str, listed: Any, expected: list[str]) -> None:
    tools = [
        {"type": "mcp", "transport": "sse", "url": "https://x.example", "namespace": space}
        for space in ("a1", "other", "web/search")
    ]
    found = load(tmp_path, {"mode": mode, **listed, "tools": tools}).check()
    assert sorted(found.providers) == [name.replace("/", "_") for name in expected]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ({"mode": "maybe", "tools": []}, "'maybe' is no mode"),
        ({"mode": "denylist", "tools": {}}, "tools must be a list"),
        ({"mode": "denylist", "tols": []}, "a toolregistry file has no setting 'tols'"),
        ({"mode": "denylist", "profiles": {"x": {}}}, "profiles of toolregistry are not taken"),
        ({"mode": "denylist", "disabled": "x"}, "disabled must be a list of text"),
    ],
    ids=range(5),
)
def test_wrong_toolregistry_files(tmp_path: Path, file: Any, message: str) -> None:
    [problem] = load(tmp_path, file).problems
    assert problem.message.startswith(message)


def test_a_format_that_is_named_is_not_guessed(tmp_path: Path) -> None:
    entry = {"name": "a", "kind": "http"}
    [problem] = load(tmp_path, {"tools": [entry]}, format="utcp").problems
    assert "a tool of a UTCP manual has no setting 'kind'" in problem.message
    [problem] = load(tmp_path, manual(over_http()), format="toolcrib").problems[:1]
    assert problem.message.startswith("a file of tools has no setting 'utcp_version'")
