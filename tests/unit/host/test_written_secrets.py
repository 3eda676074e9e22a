"""Credentials that stand in a configuration as they are, as other programs' files have them."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import ToolHost

PROVIDERS: dict[str, Any] = {
    "far": {
        "type": "mcp",
        "trust": "off",
        "url": "http://127.0.0.1:9/mcp",
        "headers": {
            "Authorization": "Bearer literal-77aa88bb99",
            "X-Api-Key": "plainkey-123456",
            "X-Team": "red-team-name",
        },
    },
    "near": {
        "type": "mcp",
        "trust": "off",
        "command": ["true"],
        "env": {"GITHUB_TOKEN": "envtoken-123456", "MODE": "production"},
    },
}


@pytest.mark.parametrize("text", ["literal-77aa88bb99", "plainkey-123456", "envtoken-123456"])
def test_credentials_of_providers_are_hidden(text: str) -> None:
    host = ToolHost(config={"version": 1, "providers": PROVIDERS})
    host.load()
    assert text not in host.redactor.secrets_in(f"it is {text}!")


@pytest.mark.parametrize("text", ["red-team-name", "production"])
def test_other_settings_are_not(text: str) -> None:
    host = ToolHost(config={"version": 1, "providers": PROVIDERS})
    host.load()
    assert host.redactor.secrets_in(text) == text
