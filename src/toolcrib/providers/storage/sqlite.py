"""Storage in an SQLite file."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.errors import StoreError, ToolFailure
from toolcrib.providers.storage.backend import Held, Item, Room, check_room, check_version

T = TypeVar("T")
Rows = list[tuple[Any, int]]
_TABLES = """
CREATE TABLE IF NOT EXISTS toolcrib_storage_owners (
    store TEXT NOT NULL, owner TEXT NOT NULL,
    items INTEGER NOT NULL, size INTEGER NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (store, owner)
) WITHOUT ROWID, STRICT;
CREATE TABLE IF NOT EXISTS toolcrib_storage_items (
    store TEXT NOT NULL, owner TEXT NOT NULL, key TEXT NOT NULL,
    version INTEGER NOT NULL, size INTEGER NOT NULL, value TEXT NOT NULL, words TEXT NOT NULL,
    PRIMARY KEY (store, owner, key)
) WITHOUT ROWID, STRICT;
"""
_READ = """SELECT value, version FROM toolcrib_storage_items
WHERE store = ? AND owner = ? AND key = ?"""
_CURRENT = """SELECT version, size FROM toolcrib_storage_items
WHERE store = ? AND owner = ? AND key = ?"""
_DELETE = "DELETE FROM toolcrib_storage_items WHERE store = ? AND owner = ? AND key = ?"
_LIST = """SELECT key, version FROM toolcrib_storage_items
WHERE store = ? AND owner = ? AND key >= ? AND key > ? AND substr(key, 1, ?) = ?
ORDER BY key LIMIT ?"""
# Not LIKE: what is looked for is taken as it is, and has no signs of a meaning of their own.
_SEARCH = """SELECT key, version FROM toolcrib_storage_items
WHERE store = ? AND owner = ? AND instr(words, ?) > 0
ORDER BY key LIMIT ?"""
_HELD = """SELECT items, size, version FROM toolcrib_storage_owners
WHERE store = ? AND owner = ?"""
_SHRINK = """UPDATE toolcrib_storage_owners SET items = items - 1, size = size - ?
WHERE store = ? AND owner = ?"""
_PUT_OWNER = "INSERT OR REPLACE INTO toolcrib_storage_owners VALUES (?, ?, ?, ?, ?)"
_PUT_ITEM = "INSERT OR REPLACE INTO toolcrib_storage_items VALUES (?, ?, ?, ?, ?, ?, ?)"
_FORGET = (
    "DELETE FROM toolcrib_storage_items WHERE store = ? AND owner = ?",
    "DELETE FROM toolcrib_storage_owners WHERE store = ? AND owner = ?",
)
_PATIENCE = 5.0
"""Seconds to wait for another process that writes."""


class _GivenUp(Exception):
    """Nobody waits for the result any more, so nothing is written."""


class SqliteBackend:
    """Keeps items of one store in a file, with a write-ahead log. One connection in one thread
    does all the work: the loop never waits for the disk."""

    def __init__(self, path: Path, store: str) -> None:
        self._path = path
        self._store = store
        self._pool: ThreadPoolExecutor | None = None
        self._db: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        """Which file was opened: another one may come to lie under its name."""

    async def open(self) -> None:
        """Make or open the file. Raises `StoreError`."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"storage-{self._store}")
        try:
            await self._run(lambda _: self._connect())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the file."""
        pool, self._pool = self._pool, None
        if pool is not None:
            closing = asyncio.wrap_future(pool.submit(self._disconnect))
            pool.shutdown(wait=False)
            await closing

    async def health(self) -> None:
        """Raises when the file is not what it was."""
        await self._run(lambda _: self._look())

    async def read(self, owner: str, key: str) -> tuple[str, int] | None:
        """The value and version of a key."""
        rows = await self._rows(_READ, owner, key)
        return rows[0] if rows else None

    async def write(self, owner: str, item: Item, if_version: int | None, room: Room) -> int:
        """Keep an item; its new version."""
        who = (self._store, owner)

        def work(db: sqlite3.Connection) -> int:
            current, old = _current(db, *who, item.key)
            check_version(item.key, current, if_version)
            held = Held(*(db.execute(_HELD, who).fetchone() or (0, 0, 0)))
            check_room(held, item, old, room)
            items, version = held.items + (old is None), held.version + 1
            size = held.size + item.size - (old or 0)
            db.execute(_PUT_OWNER, (*who, items, size, version))
            db.execute(_PUT_ITEM, (*who, item.key, version, item.size, item.text, item.words))
            return version

        return await self._change(work)

    async def delete(self, owner: str, key: str, if_version: int | None) -> bool:
        """Remove a key; whether it was there."""
        who = (self._store, owner)

        def work(db: sqlite3.Connection) -> bool:
            current, old = _current(db, *who, key)
            check_version(key, current, if_version)
            if old is None:
                return False
            db.execute(_DELETE, (*who, key))
            db.execute(_SHRINK, (old, *who))
            return True

        return await self._change(work)

    async def list(self, owner: str, prefix: str, after: str, limit: int) -> list[tuple[str, int]]:
        """Keys behind `after`, with their versions."""
        return await self._rows(_LIST, owner, prefix, after, len(prefix), prefix, limit)

    async def search(self, owner: str, words: str, limit: int) -> list[tuple[str, int]]:
        """Keys of items that contain the words, with their versions."""
        return await self._rows(_SEARCH, owner, words, limit)

    async def forget(self, owner: str) -> None:
        """Remove all that an owner has."""

        def work(db: sqlite3.Connection) -> None:
            for sql in _FORGET:
                db.execute(sql, (self._store, owner))

        await self._change(work)

    async def _rows(self, sql: str, owner: str, *values: object) -> Rows:
        given = (self._store, owner, *values)
        return await self._run(lambda _: self._opened().execute(sql, given).fetchall())

    async def _change(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something in one transaction, which is undone when the caller is gone meanwhile."""

        def job(gone: threading.Event) -> T:
            db = self._opened()
            _patiently(lambda: db.execute("BEGIN IMMEDIATE"), gone)
            try:
                done = work(db)
                if gone.is_set():
                    raise _GivenUp
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return done

        return await self._run(job)

    async def _run(self, job: Callable[[threading.Event], T]) -> T:
        if self._pool is None:
            raise ToolFailure("the store is closed", reason="upstream_error")
        gone = threading.Event()
        work = self._pool.submit(job, gone)
        running = asyncio.wrap_future(work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            gone.set()
            if not work.cancel():
                await asyncio.wait({running})  # it has ended when the call ends
                running.exception()
            raise
        except sqlite3.Error as error:
            raise ToolFailure(_explained(error), reason="upstream_error") from error

    # In the thread.

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            raise ToolFailure("the store is closed", reason="upstream_error")
        return self._db

    def _connect(self) -> None:
        try:
            _make_file(self._path)
            # Its own patience is short: nobody could cut it short.
            db = self._db = sqlite3.connect(self._path, timeout=0.05, isolation_level=None)
            _patiently(lambda: db.execute("PRAGMA journal_mode=WAL"))
            db.execute("PRAGMA synchronous=FULL")
            _patiently(lambda: db.executescript(_TABLES))
            self._file = _identity(self._path)
        except sqlite3.Error as error:
            raise StoreError(f"{self._path}: {_explained(error)}") from error
        except OSError as error:
            raise StoreError(f"{self._path}: it cannot be made: {error.strerror}") from error

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            db.close()

    def _look(self) -> None:
        try:
            here = _identity(self._path)
        except OSError as error:
            raise StoreError(f"{self._path}: it is gone: {error.strerror}") from error
        if here != self._file:
            raise StoreError(f"{self._path}: another file has taken its place")
        self._opened().execute("SELECT 1").fetchone()


def _current(db: sqlite3.Connection, store: str, owner: str, key: str) -> tuple[int, int | None]:
    """The version and size of a key; 0 and None when it does not exist."""
    return db.execute(_CURRENT, (store, owner, key)).fetchone() or (0, None)


def _patiently(work: Callable[[], object], gone: threading.Event | None = None) -> None:
    """Try again while another process writes, as long as somebody waits for it."""
    until = time.monotonic() + _PATIENCE
    while True:
        if gone is not None and gone.is_set():
            raise _GivenUp
        try:
            work()
            return
        except sqlite3.OperationalError as error:
            busy = error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
            if not busy or time.monotonic() >= until:
                raise
        time.sleep(0.005)


def _make_file(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


_MEANINGS = {
    sqlite3.SQLITE_BUSY: "another process keeps it locked",
    sqlite3.SQLITE_LOCKED: "another connection keeps it locked",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it cannot be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_NOTADB: "it is not a database",
    sqlite3.SQLITE_CORRUPT: "the database is damaged",
    sqlite3.SQLITE_IOERR: "the disk does not take or give the data",
}


def _explained(error: sqlite3.Error) -> str:
    code: int = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return f"the store failed: {_MEANINGS.get(code, 'the database refused')}"
