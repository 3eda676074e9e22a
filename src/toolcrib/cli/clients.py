"""Agent clients: the file each one reads, and how an MCP server is written there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec


class AgentClient(msgspec.Struct, frozen=True, kw_only=True):
    """One client."""

    name: str
    title: str
    file: Callable[[], Path]
    """The file it reads."""
    key: str
    """The member that holds its servers."""
    entry: Callable[[str, str], dict[str, Any]]
    """What is written for a URL, under a name."""
    syntax: Literal["json", "yaml"] = "json"
    then: str = ""
    """What is left to do, in words."""


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _here(*parts: str) -> Callable[[], Path]:
    return lambda: Path(*parts)


def _config(*parts: str) -> Path:
    """A file in the folder where programs of this system keep their settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config").joinpath(*parts)


def _claude_desktop() -> Path:
    name = "claude_desktop_config.json"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "Claude" / name
    return _config("Claude", name)


def _goose(url: str, name: str) -> dict[str, Any]:
    return {
        "enabled": True,
        "type": "streamable_http",
        "name": name,
        "uri": url,
        "timeout": 300,
        "description": "Tools of a Toolcrib host",
    }


CLIENTS: dict[str, AgentClient] = {
    client.name: client
    for client in (
        AgentClient(
            name="claude-code",
            title="Claude Code",
            file=_here(".mcp.json"),
            key="mcpServers",
            entry=lambda url, _: {"type": "http", "url": url},
            then="Claude Code asks once whether it may use the project's servers.",
        ),
        AgentClient(
            name="claude-desktop",
            title="Claude Desktop",
            file=_claude_desktop,
            key="mcpServers",
            # Its file knows programs only; this one carries to a URL.
            entry=lambda url, _: {"command": "npx", "args": ["-y", "mcp-remote", url]},
            then="It needs Node.js. Quit Claude Desktop and start it again.",
        ),
        AgentClient(
            name="cursor",
            title="Cursor",
            file=_here(".cursor", "mcp.json"),
            key="mcpServers",
            entry=lambda url, _: {"url": url},
            then="For every project: the same in ~/.cursor/mcp.json.",
        ),
        AgentClient(
            name="gemini-cli",
            title="Gemini CLI",
            file=_home(".gemini", "settings.json"),
            key="mcpServers",
            entry=lambda url, _: {"httpUrl": url},
        ),
        AgentClient(
            name="goose",
            title="goose",
            file=lambda: _config("goose", "config.yaml"),
            key="extensions",
            entry=_goose,
            syntax="yaml",
        ),
        AgentClient(
            name="vscode",
            title="VS Code",
            file=_here(".vscode", "mcp.json"),
            key="servers",
            entry=lambda url, _: {"type": "http", "url": url},
        ),
        AgentClient(
            name="windsurf",
            title="Windsurf",
            file=_home(".codeium", "windsurf", "mcp_config.json"),
            key="mcpServers",
            entry=lambda url, _: {"serverUrl": url},
            then="Refresh the servers in its MCP panel.",
        ),
        AgentClient(
            name="zed",
            title="Zed",
            file=lambda: _config("zed", "settings.json"),
            key="context_servers",
            entry=lambda url, _: {"url": url},
        ),
    )
}
"""By name."""
