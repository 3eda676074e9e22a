"""A provider that needs a login, in a host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from authority import Guarded
from toolcrib import ToolHost
from toolcrib.providers.mcp.oauth.source import OAuth

CONFIG = """
version: 1
providers:
  up:
    type: mcp
    url: "{url}"
    private: true
    era: handshake
    auth: {{type: oauth}}
profiles:
  open: {{trust: 3, rules: [{{allow: "*"}}]}}
host: {{profile: open}}
"""


async def test_it_is_down_with_the_cure_and_up_after_the_login(
    up: Guarded, sign: Callable[..., OAuth], tmp_path: Path
) -> None:
    file = tmp_path / "toolcrib.yaml"
    file.write_text(CONFIG.format(url=up.url))
    async with ToolHost.from_config(file) as host:
        [status] = host.sources.status()
        assert status.state != "up"
        assert "run: toolcrib auth login up" in str(status)
        assert up.authority.server.seen != []
        await sign().login()
        await host.sources.restart("up")
        result = await host.call("up-hello", {})
        assert result.status == "ok", result
        token = up.bearers[-1]
        assert token in up.authority.tokens
        assert token not in host.redactor.text(f"a {token} b")
