"""Older spellings load, and come out in ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib.core.profile import Match
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config import config_from_mapping, load_config

HOST_TOOLS = """\
tools:
  - name: my_database_query
    description: "Query the application database"
    module: myapp.tools.database
    function: query_handler
    parameters:
      type: object
      properties:
        sql:
          type: string
          description: "SQL query to execute"
      required: [sql]
"""

SPECIFICATIONS = """\
tools:
  - name: file_reader
    description: Read file contents
    tool_type: python
    input_schema:
      type: object
      properties:
        path: {type: string}
    implementation_config:
      module: file_tools
      function_name: read_file
    metadata:
      category: filesystem
      requires_approval: false

  - name: dangerous_delete
    description: Delete files
    tool_type: shell
    input_schema:
      type: object
      properties:
        path: {type: string}
    implementation_config:
      command: "rm {path}"
    metadata:
      is_dangerous: true
      requires_approval: false
      version: "1.2"
      tags: [files]
      permissions: [fs.delete]
      author: somebody
"""

PROFILE = """\
name: release-helper
trust: 2
tools:
  git:
    allowed_actions: [status, commit]
    managed_branch_prefix: bot/
  files: {policy: {root: src}}
  fetch:
rules:
  - deny: {effects: [destructive]}
"""


def load(folder: Path, text: str, name: str = "tools.yaml") -> HostConfig:
    path = folder / name
    path.write_text(text)
    return load_config(path, env={})


def test_host_tools_file(tmp_path: Path) -> None:
    (tool,) = load(tmp_path, HOST_TOOLS).tools
    assert tool["module"] == "myapp.tools.database"
    assert tool["function"] == "query_handler"
    assert tool["input_schema"]["required"] == ["sql"]
    assert "parameters" not in tool


def test_specification_file(tmp_path: Path) -> None:
    reader, delete = load(tmp_path, SPECIFICATIONS).tools
    assert (reader["kind"], reader["module"], reader["function"]) == (
        "python",
        "file_tools",
        "read_file",
    )
    assert (reader["category"], reader["requires_approval"]) == ("filesystem", False)
    assert "config" not in reader
    assert (delete["kind"], delete["config"]) == ("shell", {"command": "rm {path}"})
    assert delete["requires_approval"] is True, "dangerous by either word is dangerous"
    assert (delete["version"], delete["tags"]) == ("1.2", {"files"})
    assert delete["permissions"] == {"fs.delete"}
    assert delete["annotations"] == {"author": "somebody"}
    assert "metadata" not in delete


def test_profile_file_with_a_policy_per_tool(tmp_path: Path) -> None:
    (profile,) = load(tmp_path, PROFILE).profiles.values()
    assert (profile.name, profile.trust) == ("release-helper", 2)
    assert [(rule.verdict, rule.match) for rule in profile.rules[:3]] == [
        ("allow", Match(names=("git",))),
        ("allow", Match(names=("files",))),
        ("allow", Match(names=("fetch",))),
    ]
    assert profile.rules[0].source == "tools.yaml:4"
    assert profile.rules[3].verdict == "deny"
    assert profile.policies == {
        "git": {"allowed_actions": ["status", "commit"], "managed_branch_prefix": "bot/"},
        "files": {"root": "src"},
    }


def test_profile_file_without_a_name_is_named_after_itself(tmp_path: Path) -> None:
    config = load(tmp_path, "tools: {git: {allowed_actions: [status]}}\n", "reviewer.yml")
    assert list(config.profiles) == ["reviewer"]


def test_profile_file_with_a_typo(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"profiles\.x has no setting 'rule'. Did you mean rules"):
        load(tmp_path, "name: x\nrule: []\n")


def test_a_profile_may_list_its_tools() -> None:
    data = {"profiles": {"p": {"tools": ["git", "files-*"], "policies": {"git": {"depth": 1}}}}}
    profile = config_from_mapping(data, env={}).profiles["p"]
    assert [rule.text for rule in profile.rules] == ["allow git", "allow files-*"]
    assert profile.policies == {"git": {"depth": 1}}


def test_mcp_servers_become_providers() -> None:
    data = {
        "mcpServers": {
            "files": {"command": "npx", "args": ["-y", "server"], "env": {"A": "b"}},
            "far": {"url": "https://example.org/mcp"},
        },
        "providers": {"scratch": {"type": "storage"}},
    }
    providers = config_from_mapping(data, env={}).providers
    assert set(providers) == {"scratch", "files", "far"}
    assert providers["files"]["type"] == "mcp"
    assert providers["files"]["command"] == ["npx", "-y", "server"]
    assert providers["files"]["env"] == {"A": "b"}
    assert providers["far"]["url"] == "https://example.org/mcp"
