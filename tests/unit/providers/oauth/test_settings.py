"""The setting `auth`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from authority import Lent
from toolcrib.errors import ConfigError
from toolcrib.providers.mcp.oauth.build import oauth_for, state_folder

URL = "https://up.example/mcp"
SECRET = {"client_id": "me", "client_secret": "word"}


def made(folder: Path, auth: Any, **more: Any) -> Any:
    return oauth_for("up", {"url": URL, "auth": auth, **more}, Lent(folder))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("auth", "words"),
    [
        ("oauth", "auth must be a mapping"),
        ({}, r"auth.type must be oauth. Fixed credentials belong under headers"),
        ({"type": "bearer"}, "auth.type must be oauth"),
        ({"type": "oauth", "clientid": "a"}, "Did you mean client_id"),
        ({"type": "oauth", "flow": "codes"}, "Did you mean code"),
        ({"type": "oauth", "flow": "client_credentials"}, "auth.client_id is missing"),
        (
            {"type": "oauth", "flow": "client_credentials", "client_id": "me"},
            "auth.client_secret is missing",
        ),
        ({"type": "oauth", "client_secret": "word"}, "auth.client_id is missing"),
        ({"type": "oauth", "issuer": "as.example"}, "auth.issuer cannot be used"),
        ({"type": "oauth", "scopes": "a b"}, "auth.scopes must be a list"),
        ({"type": "oauth", "scopes": [5]}, "auth.scopes must be a list"),
        ({"type": "oauth", "redirect_port": 70000}, "auth.redirect_port must be"),
        ({"type": "oauth", "registration": "no"}, "auth.registration cannot be"),
        ({"type": "oauth", "client_metadata_url": "https://a.example"}, "https URL with a path"),
        ({"type": "oauth", "client_metadata_url": "http://a.example/b"}, "https URL with a path"),
        ({"type": "oauth", "token_auth": "basic"}, "auth.token_auth needs a client_secret"),
        ({"type": "oauth", "token_auth": "private_key_jwt"}, "needs private_key_file"),
        ({"type": "oauth", "signing": "ES256"}, "auth.signing needs private_key_file"),
        ({"type": "oauth", "private_key_file": "gone.pem"}, "private_key_file cannot be read"),
        (
            {"type": "oauth", "private_key": "a", "private_key_file": "b"},
            "are both given",
        ),
        ({"type": "oauth", **SECRET, "private_key": "a", "signing": "HS256"}, "signing cannot be"),
    ],
)
def test_what_is_wrong_is_said_with_its_key(tmp_path: Path, auth: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        made(tmp_path, auth)
    assert str(caught.value.key).startswith("auth")


def test_no_auth_is_no_login(tmp_path: Path) -> None:
    assert made(tmp_path, None) is None


@pytest.mark.parametrize("url", ["http://up.example/mcp", "ftp://up.example", None])
def test_the_url_has_to_be_safe_for_tokens(tmp_path: Path, url: Any) -> None:
    with pytest.raises(ConfigError, match="url"):
        made(tmp_path, {"type": "oauth"}, url=url)


def test_two_ways_to_say_who_we_are_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds Authorization, which auth sets"):
        made(tmp_path, {"type": "oauth"}, headers={"authorization": "Bearer x"})


def test_a_missing_library_is_said_when_the_configuration_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'toolcrib\[oauth\]'"):
        made(tmp_path, {"type": "oauth"})


def test_secrets_are_hidden_and_nothing_is_written(tmp_path: Path) -> None:
    lent = Lent(tmp_path)
    auth = {"type": "oauth", **SECRET, "private_key": "pem"}
    found = oauth_for("up", {"url": URL, "auth": auth}, lent)  # type: ignore[arg-type]
    assert found is not None
    assert {"word", "pem"} <= {*lent.secrets}
    assert list(tmp_path.iterdir()) == []
    assert found.identity == ""


def test_logins_lie_where_sandboxes_cannot_look(tmp_path: Path) -> None:
    lent = Lent(tmp_path / "included")
    assert state_folder(lent) == tmp_path / "included" / ".toolcrib"  # type: ignore[arg-type]
    lent.hidden = (tmp_path / "trail.db", tmp_path / ".toolcrib")
    assert state_folder(lent) == tmp_path / ".toolcrib"  # type: ignore[arg-type]
