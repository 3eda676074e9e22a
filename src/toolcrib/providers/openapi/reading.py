"""Files of documents, checked early; and the work on documents, kept to one at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from toolcrib.errors import ConfigError
from toolcrib.providers.openapi.document import MAX_BYTES, Stopped, looks_like_json, read_document

_AT_ONCE = {True: 2 * 1024 * 1024, False: 64 * 1024}
"""Bytes of JSON, and of YAML, that are read within moments."""
_LOOK = 0.05
_one = threading.Lock()


def read_file(name: str, path: Path) -> bytes:
    """The bytes of a document on disk."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path} has more than {MAX_BYTES} bytes", key="spec")
        return path.read_bytes()
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise ConfigError(
            f"provider {name}: {path} cannot be read: {why}",
            key="spec",
            cure="Correct the path; it begins in the folder of the configuration",
        ) from None


def check_file(name: str, path: Path) -> None:
    """Refuse a document on disk that is missing or, if it is read within moments, broken."""
    data = read_file(name, path)
    if len(data) <= _AT_ONCE[looks_like_json(data)]:
        _sound(data, str(path))


@lru_cache(16)
def _sound(data: bytes, where: str) -> None:
    # Kept, because a provider is built anew at every attempt to start it.
    read_document(data, where)


async def built(work: Callable[[threading.Event], None]) -> None:
    """Do the work on a document in a thread, after any other such work: it takes seconds for a
    large document, which nothing else has to wait for. Whoever is cancelled stops it."""
    stop = threading.Event()
    try:
        await asyncio.to_thread(_in_turn, work, stop)
    except asyncio.CancelledError:
        stop.set()
        raise


def _in_turn(work: Callable[[threading.Event], None], stop: threading.Event) -> None:
    while not _one.acquire(timeout=_LOOK):
        if stop.is_set():
            return
    try:
        if not stop.is_set():
            work(stop)
    except Stopped:
        return
    finally:
        _one.release()
