"""What a configuration may say about a server, and what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_upstreams import provider
from toolcrib.errors import ConfigError
from toolcrib.host.workshop import Sandboxes, Workshop
from toolcrib.providers.mcp.settings import McpSettings, read_settings


def read(folder: Path, **values: Any) -> McpSettings:
    return read_settings("up", values, Workshop(Sandboxes(), folder))


@pytest.mark.parametrize(
    ("values", "key", "words"),
    [
        ({}, "", "neither a command nor a url"),
        ({"command": ["a"], "url": "https://a.example"}, "", "both"),
        ({"command": []}, "command", "no program"),
        ({"command": "a 'b"}, "command", "quote"),
        ({"command": ["a"], "comand": 1}, "comand", "Did you mean command"),
        ({"command": ["a"], "transport": "http"}, "transport", "no url"),
        ({"command": ["a"], "headers": {"A": "b"}}, "headers", "started here"),
        ({"command": ["a"], "env": {"A": 1}}, "env.A", "must be text"),
        ({"command": ["a"], "sandbox": "nope"}, "sandbox", "no sandbox"),
        ({"command": ["a"], "prefix": "a b"}, "prefix", "cannot begin"),
        ({"command": ["a"], "grants": ["everything"]}, "grants", "everything"),
        ({"command": ["a"], "effects": {"reads": ["*"]}}, "effects.reads", "Did you mean read"),
        ({"command": ["a"], "tools": {"only": []}}, "tools.only", "not a setting"),
        ({"command": ["a"], "trust_hints": "yes"}, "trust_hints", "true or false"),
        ({"command": ["a"], "timeout": "soon"}, "timeout", "wrong"),
        ({"command": ["a"], "era": "moderne"}, "era", "Did you mean modern"),
        ({"url": "ftp://a.example"}, "url", "cannot be used"),
        ({"url": "https://a.example", "cwd": "."}, "cwd", "behind a url"),
        ({"url": "https://a.example", "headers": {"Host": "b"}}, "headers.Host", "sets itself"),
        ({"url": "https://a.example", "headers": {"A": "b\n"}}, "headers.A", "cannot be sent"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(
    tmp_path: Path, values: dict[str, Any], key: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read(tmp_path, **values)
    assert caught.value.key == key


def test_a_command_can_be_text(tmp_path: Path) -> None:
    made = read(tmp_path, command="npx -y 'a b'", args=["."])
    assert made.argv == ("npx", "-y", "a b", ".")
    assert made.cwd == str(tmp_path)
    assert made.prefix == "up-"
    assert read(tmp_path, command=["a"], prefix="").prefix == ""


def test_a_url_that_names_this_machine_may_lead_to_it(tmp_path: Path) -> None:
    from ipaddress import ip_address

    here, there = ip_address("127.0.0.1"), ip_address("10.0.0.1")
    for url in ("http://127.0.0.1:1/", "http://[::1]/", "http://localhost/mcp"):
        assert read(tmp_path, url=url).private.permits(here)
        assert not read(tmp_path, url=url).private.permits(there)
    assert not read(tmp_path, url="https://a.example/").private.permits(here)
    assert read(tmp_path, url="https://a.example/", private=["10.0.0.0/8"]).private.permits(there)


def test_roots_are_told_as_uris(tmp_path: Path) -> None:
    (root,) = read(tmp_path, command=["a"], roots=["src"]).roots
    assert root == {"uri": (tmp_path / "src").as_uri(), "name": "src"}


def test_secrets_are_not_in_representations(tmp_path: Path) -> None:
    made = read(tmp_path, url="https://a.example", headers={"Authorization": "s3cret"})
    assert "s3cret" not in repr(made)
    assert "s3cret" not in repr(read(tmp_path, command=["a"], env={"A": "s3cret"}))


def test_nothing_is_started_before_it_is_entered(tmp_path: Path) -> None:
    made = provider(tmp_path, {"command": ["no-such-program-here"]})
    assert (made.name, made.kind, made.relay.capabilities) == ("up", "mcp", {})
