"""The file in which `toolcrib tokens` keeps what it made: hashes, never a secret."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from toolcrib.core.jsontext import parse
from toolcrib.core.serving import TokenSettings
from toolcrib.errors import ConfigError, JsonError
from toolcrib.host.config.doorkinds import HASH, hash_of

PREFIX = "tcr_"
"""How a token begins, so that people and scanners know what they found."""
_LARGEST = 4 * 1024 * 1024
_BETWEEN = 0.5
"""Seconds between two looks at the file of a running host."""

_log = logging.getLogger("toolcrib")


class KeptToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is kept of a token."""

    hash: str
    principal: str
    profile: str | None = None
    created: float
    expires: float | None = None
    """Seconds since 1970."""
    tail: str = ""
    """Its last four characters, by which its owner knows it."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int
    tokens: dict[str, KeptToken]


def new_secret() -> str:
    """A token that nobody can guess."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


class TokenFile:
    """Reads and changes the file; every change is whole or did not happen."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, KeptToken]:
        """The tokens by name; none where there is no file. Raises `ConfigError`."""
        try:
            # Not to wait for a writer, should it be a pipe.
            opened = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                self._check_owner(os.fstat(opened))
                with os.fdopen(opened, "rb", closefd=False) as file:
                    text = file.read(_LARGEST + 1)
            finally:
                os.close(opened)
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from None
        try:
            kept = msgspec.convert(parse(text, max_bytes=_LARGEST), _Kept)
        except (JsonError, msgspec.ValidationError):
            raise self._unusable("is not as `toolcrib tokens` wrote it") from None
        if kept.version != 1 or not all(
            re.fullmatch(HASH, token.hash) for token in kept.tokens.values()
        ):
            raise self._unusable("is not as `toolcrib tokens` wrote it")
        return kept.tokens

    def add(
        self,
        name: str,
        *,
        principal: str,
        profile: str | None,
        created: float,
        expires: float | None,
    ) -> str:
        """Make a token, keep its hash and give its secret back: it is kept nowhere."""
        secret = new_secret()
        made = KeptToken(
            hash=hash_of(secret.encode()),
            principal=principal,
            profile=profile,
            created=created,
            expires=expires,
            tail=secret[-4:],
        )
        with self._alone():
            kept = self.read()
            if name in kept:
                raise ConfigError(
                    f"there is a token {name!r} already",
                    cure=f"Take another name, or revoke it first: toolcrib tokens revoke {name}",
                )
            self._write({**kept, name: made})
        return secret

    def revoke(self, name: str) -> bool:
        """Forget a token; false when there is none. The file stays, even without tokens: the host
        does not open to everybody because the last one was taken back."""
        with self._alone():
            kept = self.read()
            if name not in kept:
                return False
            self._write({other: token for other, token in kept.items() if other != name})
        return True

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Nobody else changes the file meanwhile."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, tokens: dict[str, KeptToken]) -> None:
        text = msgspec.json.format(msgspec.json.encode(_Kept(version=1, tokens=tokens))) + b"\n"
        beside = self.path.with_name(f"{self.path.name}.{secrets.token_hex(8)}")
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(opened, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        folder = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _check_owner(self, found: os.stat_result) -> None:
        """Whoever can write the file can make tokens."""
        if not stat.S_ISREG(found.st_mode):
            raise self._unusable("is no file")
        if found.st_uid not in (0, os.geteuid()):
            raise self._unusable("belongs to another user")
        if found.st_mode & 0o022:
            raise self._unusable("can be written by others", f"Run: chmod 600 {self.path}")

    def _unusable(
        self, what: str, cure: str = "Mend it, or remove it and make new tokens"
    ) -> ConfigError:
        return ConfigError(
            f"the tokens file {self.path} {what}", key="serve.tokens_file", cure=cure
        )


class WatchedTokens:
    """The tokens of a file as a running host knows them; changes are noticed within a second."""

    def __init__(self, path: Path | None, monotonic: Callable[[], float]) -> None:
        self.tokens: tuple[TokenSettings, ...] = ()
        self.there = False
        """Whether the file was ever there: it does not stop to count by being removed."""
        self._file = None if path is None else TokenFile(path)
        self._monotonic = monotonic
        self._seen: object = None
        self._next = 0.0
        self._read()

    def changed(self) -> bool:
        """Whether the file is another one than at the last look; it has been read then."""
        if self._file is None or self._monotonic() < self._next:
            return False
        self._next = self._monotonic() + _BETWEEN
        return self._seen != _signature(self._file.path) and self._read()

    def _read(self) -> bool:
        if self._file is None:
            return False
        self._next = self._monotonic() + _BETWEEN
        self._seen = _signature(self._file.path)
        self.there = self.there or self._seen is not None
        try:
            kept = self._file.read()
        except ConfigError as error:
            # What it said before may have been revoked by whoever broke it.
            _log.error("%s; no token of it counts", error)
            kept = {}
        self.tokens = tuple(
            TokenSettings(
                name=name,
                hash=token.hash,
                principal=token.principal,
                profile=token.profile,
                expires=token.expires,
                source=str(self._file.path),
            )
            for name, token in kept.items()
        )
        return True


def _signature(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size, found.st_mode, found.st_uid
