"""Logins on disk: one file, encrypted, and a key in a file of its own."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from toolcrib.errors import StoreError
from toolcrib.providers.mcp.oauth.record import Record

KEY_VARIABLE = "TOOLCRIB_KEY_FILE"
_INSTALL = "pip install 'toolcrib[oauth]'"
_HEAD = b"toolcrib-logins-1\n"
_KEY_BYTES = 32
_NONCE_BYTES = 12
_LARGEST = 4 * 1024 * 1024
_PATIENCE = 60.0
_BETWEEN = 0.05
_Records = dict[str, Record]


class Vault:
    """Reads and changes the file; every change is whole or did not happen.

    Whoever reads the file alone learns nothing; whoever reads the key file, too, learns all of it.
    The key may lie elsewhere: the variable TOOLCRIB_KEY_FILE names it.
    """

    def __init__(self, folder: Path, key: Path | None = None) -> None:
        self.path = folder / "logins"
        given = os.environ.get(KEY_VARIABLE)
        self.key = key or (Path(given) if given else folder / "logins.key")

    def read(self, name: str) -> Record | None:
        """What is kept of one provider. Raises `StoreError`."""
        return self.all().get(name)

    def all(self) -> _Records:
        """What is kept, by provider."""
        sealed = self._sealed()
        if sealed is None:
            return {}
        key = _load_key(self.key, make=False)
        try:
            plain = _opened(sealed, key)
            return msgspec.json.decode(plain, type=_Records)
        except (ValueError, msgspec.MsgspecError):
            raise StoreError(
                f"{self.path}: it does not fit its key {self.key}, or was changed. Restore both, "
                "or remove the file and log in again"
            ) from None

    def signature(self) -> object:
        """Differs when the file was changed."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Nobody else renews or replaces this provider's tokens meanwhile, in any process."""
        # Whatever a provider is called, it makes no path.
        lock = self._open_lock(f".{hashlib.sha256(name.encode()).hexdigest()[:16]}")
        try:
            until = time.monotonic() + _PATIENCE
            while not _locked(lock):
                if time.monotonic() > until:
                    raise StoreError(
                        f"{self.path}: another process holds the login of {name} for more than "
                        f"{_PATIENCE:.0f} s. Stop it, or try again"
                    )
                await asyncio.sleep(_BETWEEN)
            yield
        finally:
            os.close(lock)

    def write(self, name: str, record: Record | None) -> None:
        """Keep what is known of one provider, or forget it."""
        lock = self._open_lock("")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            kept = {other: each for other, each in self.all().items() if other != name}
            if record is not None:
                kept[name] = record
            self._write(kept)
        finally:
            os.close(lock)

    def _open_lock(self, more: str) -> int:
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            return os.open(f"{self.path}{more}.lock", flags, 0o600)
        except OSError as error:
            raise self._unusable(error) from None

    def _sealed(self) -> bytes | None:
        try:
            with self.path.open("rb") as file:
                _check_mode(self.path, os.fstat(file.fileno()).st_mode)
                return file.read(_LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(error) from None

    def _write(self, kept: Mapping[str, Record]) -> None:
        sealed = _closed(msgspec.json.encode(kept), _load_key(self.key, make=True))
        draft = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}.new")
        try:
            _put(draft, sealed)
            draft.replace(self.path)
        except OSError as error:
            raise self._unusable(error) from None
        finally:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)

    def _unusable(self, error: OSError) -> StoreError:
        return StoreError(
            f"{self.path}: logins cannot be kept there ({error.strerror}). "
            "Check that this user owns the folder and may write in it"
        )


def _locked(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _put(file: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with os.fdopen(os.open(file, flags, 0o600), "wb") as opened:
        opened.write(data)
        opened.flush()
        os.fsync(opened.fileno())


def _load_key(file: Path, *, make: bool) -> bytes:
    try:
        if make and not file.exists():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}.new")
            try:
                _put(draft, secrets.token_hex(_KEY_BYTES).encode() + b"\n")
                # A link never replaces what somebody else just made.
                with contextlib.suppress(FileExistsError):
                    os.link(draft, file)
            finally:
                draft.unlink(missing_ok=True)
        with file.open("rb") as opened:
            _check_mode(file, os.fstat(opened.fileno()).st_mode)
            key = bytes.fromhex(opened.read(4 * _KEY_BYTES).decode("ascii").strip())
    except OSError as error:
        raise StoreError(
            f"{file}: the key of the logins cannot be read or made ({error.strerror}). "
            "Check that this user owns it"
        ) from None
    except ValueError:
        key = b""
    if len(key) != _KEY_BYTES:
        raise StoreError(f"{file}: it holds no key ({2 * _KEY_BYTES} hexadecimal digits)")
    return key


def _check_mode(file: Path, mode: int) -> None:
    if stat.S_IMODE(mode) & 0o077:
        raise StoreError(
            f"{file}: others can read it (mode {stat.S_IMODE(mode):04o}). Run `chmod 600 {file}`, "
            "and log in again if it may have been seen"
        )


def _closed(plain: bytes, key: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return _HEAD + nonce + _cipher(key).encrypt(nonce, plain, _HEAD)


def _opened(sealed: bytes, key: bytes) -> bytes:
    """What was sealed. Raises `ValueError` for anything that was not sealed by this key."""
    from cryptography.exceptions import InvalidTag

    if not sealed.startswith(_HEAD) or len(sealed) > _LARGEST:
        raise ValueError
    rest = sealed[len(_HEAD) :]
    try:
        return _cipher(key).decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _HEAD)
    except InvalidTag:
        raise ValueError from None


def _cipher(key: bytes):
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise StoreError(f"logins are kept encrypted, which needs: {_INSTALL}") from None
    return AESGCM(key)
