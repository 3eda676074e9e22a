"""`toolcrib.lock`: what people, or the first use, accepted of other people's tools."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from toolcrib.core.canonical import digest
from toolcrib.core.jsontext import parse_quickly
from toolcrib.errors import ConfigError, JsonError
from toolcrib.host.own_files import LOCK as FILE
from toolcrib.observe.log import escape

VERSION = 1
FIRST_USE = "first use"
"""Who accepted what nobody had looked at yet."""
_LARGEST = 64 * 1024 * 1024
_DEEPEST = 128
_PATIENCE = 3.0
"""Seconds to wait for another process that writes."""


class Pin(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool as it was accepted."""

    digest: str
    """SHA-256 over the canonical form of `definition`."""
    accepted: str
    """When."""
    by: str
    definition: dict[str, Any]
    """Everything of it that a model or a person reads."""


class Rejection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """That a person does not want a tool as it was then."""

    digest: str
    rejected: str
    by: str


class Part(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """What was accepted of one provider."""

    upstream: dict[str, Any]
    """Which server it was: its command or address, without secrets."""
    digest: str
    """SHA-256 over the upstream and the tools' digests."""
    tools: dict[str, Pin]
    rejected: dict[str, Rejection] = {}


class Lock(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file."""

    version: int = VERSION
    providers: dict[str, Part] = {}

    def having(self, provider: str, part: Part) -> Lock:
        """The same lock with another part."""
        return Lock(providers={**self.providers, provider: part})


EMPTY = Lock()


def part_of(
    upstream: Mapping[str, Any],
    tools: Mapping[str, Pin],
    rejected: Mapping[str, Rejection] | None = None,
) -> Part:
    """A part with its digest."""
    return Part(
        upstream=dict(upstream),
        digest=_set_digest(upstream, tools),
        tools=dict(tools),
        rejected=dict(rejected or {}),
    )


def now() -> str:
    """This moment as the lock writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class LockFile:
    """Reads and changes the file; every change is whole or did not happen. Without a path there
    is no file, and nothing outlives the process."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._kept = EMPTY

    def read(self) -> Lock | None:
        """What it says; None where there is no file. Raises `ConfigError` when it cannot be
        trusted."""
        if self.path is None:
            return self._kept
        try:
            # Not to wait for a writer, should it be a pipe.
            opened = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(opened, "rb") as file:
                text = file.read(_LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unusable(f"cannot be read: {error.strerror}") from None
        try:
            value: Any = parse_quickly(text, max_bytes=_LARGEST, max_depth=_DEEPEST)
        except JsonError as error:
            raise self._unusable(f"is not JSON: {error}") from None
        given: Any = value.get("version") if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(given, int) and given > VERSION:
            cure = "Update Toolcrib, or restore the file from your repository"
            raise self._unusable(f"is of version {given}, which is newer than {VERSION}", cure)
        try:
            lock = msgspec.convert(value, Lock)
        except msgspec.ValidationError as error:
            raise self._unusable(f"is not as Toolcrib wrote it: {error}") from None
        self._check(lock)
        return lock

    def _check(self, lock: Lock) -> None:
        """A hand that edits or merges the file must not accept by mistake."""
        if lock.version != VERSION:
            raise self._unusable(f"is of version {lock.version}, and not {VERSION}")
        for provider, part in lock.providers.items():
            for name, pin in part.tools.items():
                if digest(pin.definition) != pin.digest:
                    raise self._unusable(f"was edited: providers.{provider}.tools.{name}")
            if _set_digest(part.upstream, part.tools) != part.digest:
                raise self._unusable(f"was edited: providers.{provider}")

    def change(self, work: Callable[[Lock], Lock]) -> tuple[Lock, object]:
        """Put what `work` makes of the file in its place; nobody else writes meanwhile. Gives what
        it says then, and its signature. Raises `ConfigError`."""
        if self.path is None:
            self._kept = work(self._kept)
            return self._kept, None
        try:
            with self._alone(self.path.parent):
                found = self.read()
                made = work(found or EMPTY)
                if made != found:
                    self._write(self.path, made)
                return made, self.signature()
        except OSError as error:
            cure = "Make its folder writable, or accept the tools elsewhere and bring the file here"
            words = f"cannot be written: {error.strerror or type(error).__name__}"
            raise self._unusable(words, cure) from None

    @contextmanager
    def _alone(self, folder: Path) -> Generator[None]:
        """The folder itself is what is locked, so that no second file lies beside the first."""
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            end = time.monotonic() + _PATIENCE
            while True:
                try:
                    fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.01)
            yield
        finally:
            os.close(opened)

    def _write(self, path: Path, lock: Lock) -> None:
        text = written(lock)
        beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        opened = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            with os.fdopen(opened, "wb") as file:
                os.fchmod(opened, 0o644)
                file.write(text)
                file.flush()
                os.fsync(opened)
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def signature(self) -> object:
        """Another one when the file is another one; None where there is none."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _unusable(
        self,
        what: str,
        cure: str = "Restore it from your repository, or remove it and review the tools again",
    ) -> ConfigError:
        return ConfigError(f"{FILE} {what}", file=str(self.path), cure=cure)


def written(lock: Lock) -> bytes:
    """The file's text: always the same for the same content, and with no character in it that a
    reader of a difference would not see."""
    encoded = msgspec.json.encode(lock, order="deterministic")
    lines = msgspec.json.format(encoded, indent=2).decode().split("\n")
    return "".join(f"{escape(line)}\n" for line in lines).encode()


def _set_digest(upstream: Mapping[str, Any], tools: Mapping[str, Pin]) -> str:
    return digest([upstream, {name: pin.digest for name, pin in tools.items()}])
