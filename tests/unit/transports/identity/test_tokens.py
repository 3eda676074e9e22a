"""Tokens: looked up by hash, taken back at once, never told."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from issuer import NOW
from toolcrib import ToolHost
from toolcrib.core.serving import TokenSettings
from toolcrib.errors import ConfigError
from toolcrib.host.config.doorkinds import hash_of
from toolcrib.testing import FakeClock
from toolcrib.transports.faults import Fault
from toolcrib.transports.identity import Identity
from toolcrib.transports.identity.tokenfile import TokenFile

SECRET = "canary-0123456789-secret"
SENT = f"Bearer {SECRET}".encode()


def token(**more: Any) -> TokenSettings:
    given: dict[str, Any] = {"name": "t", "hash": hash_of(SECRET.encode()), "principal": "ci"}
    return TokenSettings(**{**given, **more})


async def who(identity: Identity, sent: bytes | None, **more: Any) -> Any:
    return await identity.identify(sent, **{"door": "http", "loopback": False, **more})


async def refused(identity: Identity, sent: bytes | None, **more: Any) -> Fault:
    with pytest.raises(Fault) as caught:
        await who(identity, sent, **more)
    assert caught.value.reason == "unauthenticated"
    assert caught.value.http == 401
    return caught.value


async def test_a_token_is_its_principal(make: Any, host: ToolHost) -> None:
    identity = make(tokens=(token(),))
    caller = await who(identity, SENT)
    assert caller.principal is host.config.principals["ci"]
    assert (caller.door, caller.profile, caller.profiles) == ("http", "base", frozenset())
    assert not caller.rights
    assert getattr(identity.known(SENT, "http", False), "caller", None) is caller
    assert identity.known(SENT, "websocket", False) is None, "another door, another caller"
    assert (await who(identity, b"bearer   " + SENT[7:], door="websocket")).door == "websocket"


@pytest.mark.parametrize(
    ("fields", "usual", "held", "choice"),
    [
        ({"profile": "narrow"}, None, "narrow", set()),
        ({}, "narrow", "narrow", set()),
        ({"principal": "boss"}, "narrow", "narrow", {"wide", "narrow"}),
        ({"principal": "boss"}, None, "wide", {"wide", "narrow"}),
        ({"principal": "boss", "profile": "narrow"}, "base", "narrow", {"wide", "narrow"}),
    ],
    ids=["token's", "door's", "door's, listed", "first listed", "token's, listed"],
)
async def test_which_profile_a_token_is_held_to(
    make: Any, fields: Any, usual: Any, held: str, choice: set[str]
) -> None:
    caller = await who(make(tokens=(token(**fields),), http={"profile": usual}), SENT)
    assert (caller.profile, caller.profiles) == (held, choice)
    assert caller.may_use(held)
    assert caller.may_use("base") == (held == "base")


async def test_a_profile_that_its_principal_may_not_use_is_no_profile(make: Any) -> None:
    await refused(make(tokens=(token(principal="boss", profile="base"),)), SENT)


async def test_an_expired_token_is_none(make: Any, clock: FakeClock) -> None:
    identity = make(tokens=(token(expires=NOW + 10),))
    caller = await who(identity, SENT)
    assert caller.badge.expires == NOW + 10
    clock.advance(10)
    assert identity.known(SENT, "http", False) is None
    await refused(identity, SENT)


async def test_other_tokens_and_principals_that_are_gone_are_refused(make: Any) -> None:
    identity = make(tokens=(token(principal="gone"),))
    await refused(identity, SENT)
    await refused(identity, SENT + b"x")
    await refused(identity, b"Bearer " + hash_of(SECRET.encode()).encode())


async def test_no_secret_is_kept_in_memory(make: Any) -> None:
    secret = "canary-" + os.urandom(12).hex()
    identity = make(tokens=(token(hash=hash_of(secret.encode())),))
    await who(identity, f"Bearer {secret}".encode())
    gc.collect()
    found = [each for each in gc.get_objects() if isinstance(each, dict) and _holds(each, secret)]
    assert not [each for each in found if each is not locals() and "secret" not in each]


def _holds(mapping: dict[Any, Any], secret: str) -> bool:
    forms = (secret, secret.encode(), f"Bearer {secret}".encode())
    parts = [*mapping, *mapping.values()]
    parts += [part for each in parts if type(each) is tuple for part in each]
    return any(type(each) in (str, bytes) and each in forms for each in parts)


# The tokens file.


@pytest.fixture
def file(tmp_path: Path) -> TokenFile:
    return TokenFile(tmp_path / "state" / "tokens.json")


def add(file: TokenFile, name: str = "laptop", **more: Any) -> bytes:
    given: dict[str, Any] = {"principal": "ci", "profile": None, "created": NOW, "expires": None}
    return f"Bearer {file.add(name, **{**given, **more})}".encode()


def test_the_file_is_private_and_holds_no_secret(file: TokenFile) -> None:
    secret = add(file)[7:].decode()
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert file.path.parent.stat().st_mode & 0o777 == 0o700
    assert secret not in file.path.read_text()
    assert secret.startswith("tcr_")
    assert len(secret) >= 47
    kept = file.read()["laptop"]
    assert (kept.hash, kept.tail) == (hash_of(secret.encode()), secret[-4:])
    with pytest.raises(ConfigError, match="already"):
        add(file)
    assert {path.name for path in file.path.parent.iterdir()} == {"tokens.json", "tokens.json.lock"}


async def test_a_running_host_notices_new_and_revoked_tokens(
    make: Any, file: TokenFile, clock: FakeClock
) -> None:
    identity = make(tokens_file=str(file.path))
    sent = add(file)
    clock.advance(1)
    caller = await who(identity, sent)
    assert getattr(identity.known(sent, "http", False), "caller", None) is caller
    other = add(file, "other")
    clock.advance(1)
    assert (await who(identity, sent)).badge is caller.badge, "others change nothing for it"
    assert not caller.badge.over
    assert file.revoke("laptop")
    clock.advance(1)
    assert identity.known(sent, "http", False) is None
    await refused(identity, sent)
    assert caller.badge.over, "an open connection ends"
    assert (await who(identity, other)).principal.name == "ci"
    assert not file.revoke("laptop")


async def test_the_file_is_not_looked_at_with_every_request(
    make: Any, file: TokenFile, clock: FakeClock
) -> None:
    identity = make(tokens_file=str(file.path))
    sent = add(file)
    await refused(identity, sent)
    clock.advance(0.6)
    await who(identity, sent)


BROKEN = {
    "not json": "{",
    "a list": "[]",
    "another version": '{"version": 2, "tokens": {}}',
    "unknown keys": '{"version": 1, "tokens": {}, "more": 1}',
    "no hash": '{"version": 1, "tokens": {"a": {"principal": "ci", "created": 1}}}',
    "an odd hash": '{"version": 1, "tokens": {"a": {"hash": "x", "principal": "c", "created": 1}}}',
    "twice": '{"version": 1, "tokens": {}, "tokens": {}}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
async def test_a_broken_file_lets_nobody_in(
    make: Any, file: TokenFile, clock: FakeClock, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    sent = add(file)
    identity = make(tokens_file=str(file.path))
    caller = await who(identity, sent)
    file.path.write_text(text)
    clock.advance(1)
    await refused(identity, sent)
    await refused(identity, None, loopback=True)
    assert caller.badge.over
    assert "no token of it counts" in caplog.text
    with pytest.raises(ConfigError, match="is not as `toolcrib tokens` wrote it"):
        file.read()


async def test_a_file_that_others_can_write_is_not_believed(
    make: Any, file: TokenFile, caplog: pytest.LogCaptureFixture
) -> None:
    sent = add(file)
    file.path.chmod(0o620)
    await refused(make(tokens_file=str(file.path)), sent)
    assert "chmod 600" in caplog.text


@pytest.mark.parametrize("kind", ["folder", "pipe", "another user's"])
async def test_what_is_no_file_of_ours_is_not_believed(
    make: Any, file: TokenFile, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = add(file)
    if kind == "another user's":
        mine = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
        if os.getuid() == 0:
            os.chown(file.path, 4711, -1)
    else:
        file.path.unlink()
        if kind == "folder":
            file.path.mkdir()
        else:
            os.mkfifo(file.path, 0o600)
    with pytest.raises(ConfigError, match=r"is no file|belongs to another user"):
        file.read()
    await refused(make(tokens_file=str(file.path)), sent)


def test_many_make_tokens_at_once(file: TokenFile) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: add(file, f"t{n}"), range(40)))
    assert len(set(made)) == 40
    assert len(file.read()) == 40


async def test_revoking_the_last_token_opens_nothing(
    make: Any, file: TokenFile, clock: FakeClock
) -> None:
    host = ToolHost(config={"profiles": {"p": {}}, "principals": {"ci": {}}}, clock=clock)
    identity = make(of=host, tokens_file=str(file.path))
    await refused(identity, None, loopback=True)
    add(file)
    file.revoke("laptop")
    clock.advance(1)
    await refused(identity, None, loopback=True)
    file.path.unlink()
    clock.advance(1)
    await refused(identity, None, loopback=True)


async def test_the_file_beside_the_configuration_counts(
    tmp_path: Path, make: Any, clock: FakeClock
) -> None:
    (tmp_path / "toolcrib.yaml").write_text("principals: {ci: {}}\nprofiles: {p: {}}\n")
    host = ToolHost(config=tmp_path / "toolcrib.yaml", clock=clock)
    free = await who(make(of=host), None, loopback=True)
    assert free.rights == ["approve", "audit", "admin"]
    file = TokenFile(tmp_path / ".toolcrib" / "tokens.json")
    sent = add(file)
    identity = make(of=host)
    await refused(identity, None, loopback=True)
    assert (await who(identity, sent)).profile == "p"
    file.path.unlink()
    clock.advance(1)
    await refused(identity, sent)
    await refused(identity, None, loopback=True)


async def test_the_operator_s_connection_ends_with_the_first_token(
    tmp_path: Path, make: Any, clock: FakeClock
) -> None:
    (tmp_path / "toolcrib.yaml").write_text("principals: {ci: {}}\nprofiles: {p: {}}\n")
    identity = make(of=ToolHost(config=tmp_path / "toolcrib.yaml", clock=clock))
    caller = await who(identity, None, loopback=True)
    add(TokenFile(tmp_path / ".toolcrib" / "tokens.json"))
    clock.advance(1)
    assert identity.known(None, "http", True) is None
    assert caller.badge.over
