"""Doors that must not be opened as they are, each with its cure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from issuer import certificate
from toolcrib.core.serving import (
    HttpSettings,
    JwtSettings,
    Listen,
    ServeSettings,
    Tls,
    TokenSettings,
)
from toolcrib.core.settings import HostConfig
from toolcrib.errors import ConfigError
from toolcrib.host.config import config_from_mapping, load_config
from toolcrib.host.config.doorkinds import hash_of
from toolcrib.transports.identity import check_doors

TOKEN = TokenSettings(name="t", hash=hash_of(b"0123456789abcdef"), principal="ci")
ISSUER = JwtSettings(name="", issuer="https://login.example.com", audience=("me",))
EVERYWHERE = (Listen(host="0.0.0.0", port=8700),)


def config(*profiles: str, **more: Any) -> HostConfig:
    given = {"profiles": {name: {} for name in profiles}, "principals": {"ci": {}}, **more}
    return config_from_mapping(given, env={})


def check(of: HostConfig, http: Any = None, doors: Any = ("http",), **serve: Any) -> None:
    check_doors(of, ServeSettings(http=HttpSettings(**(http or {})), **serve), doors)


def wrong(of: HostConfig, http: Any = None, doors: Any = ("http",), **serve: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        check(of, http, doors, **serve)
    assert caught.value.cure
    return caught.value


def test_doors_that_are_fine() -> None:
    one = config("p")
    check(one)
    check(one, {"listen": EVERYWHERE}, tokens=(TOKEN,))
    check(one, {"listen": EVERYWHERE}, jwt=(ISSUER,))
    check(one, {"listen": (), "unix": "/run/x.sock"}, doors=("unix",))
    check(config(), {"listen": EVERYWHERE}, doors=("stdio",))
    check(config("p", "q"), {"profile": "q"})
    check(config("p", "q", host={"profile": "p"}))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "crib.example.com", "127.a.b"])
def test_nobody_listens_to_everybody(host: str) -> None:
    error = wrong(config("p"), {"listen": (Listen(host=host, port=1),)})
    assert host in error.message
    assert error.key == "serve.http.listen"
    assert "toolcrib tokens new" in str(error.cure)


def test_a_name_for_others_means_a_proxy_in_front() -> None:
    error = wrong(config("p"), {"hosts": ("localhost", "crib.example.com:443")})
    assert "crib.example.com:443" in error.message
    check(config("p"), {"hosts": ("localhost:8700", "127.0.0.1", "[::1]:1")})
    check(config("p"), {"hosts": ("crib.example.com",)}, tokens=(TOKEN,))


def test_a_tokens_file_is_authentication(tmp_path: Path) -> None:
    path = tmp_path / "toolcrib.yaml"
    path.write_text("profiles: {p: {}}\n")
    found = load_config(path, env={})
    wrong(found, {"listen": EVERYWHERE})
    kept = tmp_path / ".toolcrib" / "tokens.json"
    kept.parent.mkdir()
    kept.write_text('{"version": 1, "tokens": {}}')
    kept.chmod(0o600)
    check(found, {"listen": EVERYWHERE})
    kept.chmod(0o666)
    assert wrong(found).key == "serve.tokens_file"


def test_everybody_is_held_to_a_profile() -> None:
    assert wrong(config()).key == "profiles"
    several = config("p", "q", principals={"ci": {}, "boss": {"profiles": ["q"]}})
    assert "usual" in wrong(several).message
    assert wrong(several, tokens=(TOKEN,)).key == "serve.tokens.t.profile"
    assert wrong(several, jwt=(ISSUER,)).key == "serve.jwt.profile"
    assert wrong(several, {"local": "ci"}, tokens=_held()).key == "serve.http.profile"
    assert wrong(several, {"unix": "/x"}, tokens=_held()).key == "serve.http.profile"
    assert wrong(several, {"users": (("0", "ci"),)}, tokens=_held()).key == "serve.http.profile"
    assert "nope" in wrong(several, {"profile": "nope"}).message
    check(several, {"local": "boss"}, tokens=_held())
    check(several, tokens=(TokenSettings(name="b", hash=TOKEN.hash, principal="boss"),))


def _held() -> tuple[TokenSettings, ...]:
    return (TokenSettings(name="t", hash=TOKEN.hash, principal="ci", profile="p"),)


def test_paths_and_users() -> None:
    assert "107" in wrong(config("p"), {"unix": "/" + "ä" * 60}).message
    check(config("p"), {"unix": "/" + "a" * 106, "users": (("root", "ci"), ("4711", "ci"))})
    assert "no-such-user" in wrong(config("p"), {"users": (("no-such-user", "ci"),)}).message


def test_keys_of_issuers_have_to_be_there(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    issuer = JwtSettings(name="", issuer="https://x.example", audience=("me",), jwks=str(file))
    assert wrong(config("p"), jwt=(issuer,)).key == "serve.jwt.jwks"
    file.touch()
    check(config("p"), jwt=(issuer,))


def test_a_library_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    real = importlib.util.find_spec
    for name in ("jwt", "aiohttp"):
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda n, *a, name=name: None if n == name else real(n, *a)
        )
        assert "pip install" in str(wrong(config("p"), jwt=(ISSUER,)).cure)


# TLS.


def test_tls_files_are_tried(tmp_path: Path) -> None:
    one, two = certificate(tmp_path, "one", 0), certificate(tmp_path, "two", 1)
    check(config("p"), {"tls": one})
    mixed = Tls(certificate=one.certificate, key=two.key)
    assert wrong(config("p"), {"tls": mixed}).key == "serve.http.tls"
    gone = Tls(certificate=one.certificate, key=str(tmp_path / "gone.key"))
    assert wrong(config("p"), {"tls": gone}).key == "serve.http.tls.key"
    locked = certificate(tmp_path, "locked", 0, b"a password")
    assert wrong(config("p"), {"tls": locked}).key == "serve.http.tls"
    known = Tls(certificate=locked.certificate, key=locked.key, password="a password")
    check(config("p"), {"tls": known})


def test_no_tls_for_others_is_worth_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    check(config("p"), tokens=(TOKEN,))
    check(
        config("p"), {"listen": EVERYWHERE, "tls": certificate(tmp_path, "a", 0)}, tokens=(TOKEN,)
    )
    assert not caplog.records
    check(config("p"), {"listen": EVERYWHERE, "local": "ci"}, tokens=(TOKEN,))
    assert "no TLS" in caplog.text
    assert "serve.http.local" in caplog.text
