"""Logins on disk."""

from __future__ import annotations

import asyncio
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib.errors import StoreError
from toolcrib.providers.mcp.oauth.record import Record, Registration, Tokens
from toolcrib.providers.mcp.oauth.vault import KEY_VARIABLE, Vault

CLIENT = Registration(client_id="me", client_secret="client-secret-word")
TOKENS = Tokens(
    flow="code",
    issuer="https://as.example",
    token_endpoint="https://as.example/token",
    resource="https://up.example/mcp",
    client=CLIENT,
    access_token="access-token-word",
    refresh_token="refresh-token-word",
    scopes=("a",),
    obtained=1.0,
)
RECORD = Record(
    url="https://up.example/mcp", tokens=TOKENS, registrations={"https://as.example": CLIENT}
)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path / "state")


def locks(folder: Path) -> list[Path]:
    return [file.parent for file in folder.glob("**/*.lock")]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_is_kept_comes_back(vault: Vault) -> None:
    assert vault.read("up") is None
    assert vault.signature() is None
    vault.write("up", RECORD)
    vault.write("other", Record(url="https://other.example/mcp"))
    assert vault.read("up") == RECORD
    before = vault.signature()
    vault.write("up", None)
    assert vault.read("up") is None
    assert vault.read("other") is not None
    assert vault.signature() != before


def test_nobody_else_can_read_it_and_it_says_nothing_by_itself(vault: Vault) -> None:
    vault.write("up", RECORD)
    assert mode(vault.path.parent) == 0o700
    everything = b""
    for file in vault.path.parent.iterdir():
        assert mode(file) == 0o600, file
        everything += file.read_bytes()
    for word in (b"access-token-word", b"refresh-token", b"client-secret", b"example"):
        assert word not in everything


def test_two_writes_of_the_same_are_not_alike(vault: Vault) -> None:
    vault.write("up", RECORD)
    first = vault.path.read_bytes()
    vault.write("up", RECORD)
    second = vault.path.read_bytes()
    start = len(b"toolcrib-logins-1\n")
    assert first[:start] == second[:start]
    assert first[start : start + 12] != second[start : start + 12]
    assert first[start + 12 :] != second[start + 12 :]


@pytest.mark.parametrize("which", ["path", "key"])
def test_a_file_that_others_can_read_is_refused(vault: Vault, which: str) -> None:
    vault.write("up", RECORD)
    file: Path = getattr(vault, which)
    file.chmod(0o640)
    with pytest.raises(StoreError, match=r"others can read it \(mode 0640\).*chmod 600"):
        vault.read("up")


@pytest.mark.parametrize("place", [0, 20, 40, -1])
def test_a_changed_file_is_refused(vault: Vault, place: int) -> None:
    vault.write("up", RECORD)
    data = bytearray(vault.path.read_bytes())
    data[place] ^= 1
    vault.path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match="does not fit its key"):
        vault.read("up")
    with pytest.raises(StoreError):
        vault.write("other", RECORD)
    assert vault.path.read_bytes() == bytes(data)


@pytest.mark.parametrize("text", ["", "zz" * 32, "ab" * 31, "ab" * 33])
def test_what_is_no_key_is_said(vault: Vault, text: str) -> None:
    vault.write("up", RECORD)
    vault.key.write_text(text)
    with pytest.raises(StoreError, match="it holds no key"):
        vault.read("up")


def test_another_key_opens_nothing(vault: Vault) -> None:
    vault.write("up", RECORD)
    vault.key.write_text("ab" * 32)
    with pytest.raises(StoreError, match="does not fit its key"):
        vault.read("up")


def test_a_lost_key_is_said_and_not_replaced(vault: Vault) -> None:
    vault.write("up", RECORD)
    vault.key.unlink()
    with pytest.raises(StoreError, match="cannot be read"):
        vault.read("up")
    assert not vault.key.exists()


def test_the_key_may_lie_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, str(tmp_path / "keys" / "mine"))
    vault = Vault(tmp_path / "state")
    vault.write("up", RECORD)
    assert mode(tmp_path / "keys" / "mine") == 0o600
    assert not (tmp_path / "state" / "logins.key").exists()
    assert Vault(tmp_path / "state").read("up") == RECORD


def test_without_the_library_it_says_what_to_install(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(StoreError, match=r"pip install 'toolcrib\[oauth\]'"):
        vault.write("up", RECORD)
    assert not vault.path.exists()


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import pathlib, sys\n"
        "from toolcrib.providers.mcp.oauth.record import Record\n"
        "from toolcrib.providers.mcp.oauth.vault import Vault\n"
        "vault = Vault(pathlib.Path(sys.argv[1]))\n"
        "for n in range(10):\n"
        "    vault.write(f'{sys.argv[2]}-{n}', Record(url='https://up.example'))\n"
    )
    path = str(Path(toolcrib.__file__).parents[1])
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), name], env={"PYTHONPATH": path}
        )
        for name in ("a", "b")
    ]
    assert [each.wait() for each in started] == [0, 0]
    assert len(Vault(tmp_path).all()) == 20
    assert not list(tmp_path.glob("*.new"))


async def test_one_at_a_time_holds_the_login_of_a_provider(vault: Vault) -> None:
    order: list[str] = []

    async def second() -> None:
        async with Vault(vault.path.parent).alone("up"):
            order.append("second")

    async with vault.alone("up"):
        task = asyncio.create_task(second())
        async with vault.alone("other"):
            await asyncio.sleep(0.1)
        order.append("first")
    await task
    assert order == ["first", "second"]


async def test_a_name_makes_no_path(vault: Vault, tmp_path: Path) -> None:
    async with vault.alone("../../x"):
        pass
    assert locks(tmp_path) == [vault.path.parent]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="logins cannot be kept there"):
        Vault(tmp_path / "file").write("up", RECORD)
